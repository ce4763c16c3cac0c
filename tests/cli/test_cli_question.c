/* Questions that the policy sees, because their tokens are proxies or because the scenario says so: generate reads
 * context and question as one prompt. */
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/h5.h"
#include "cli/program.h"
#include "cli/tiny.h"
#include "suite.h"

/* A token is a byte here, but for the two of the chat format. */
#define CONTEXT                                                                                      \
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age " \
    "of foolishness, it was the epoch of belief, it was the epoch of incredulity. "
#define QUESTION "Which age was it?"
enum {
    LAYERS = 3,
    HEADS = 2,
    CONTEXT_TOKENS = sizeof CONTEXT - 1,
    QUESTION_TOKENS = sizeof QUESTION - 1,
    CHAT_BEHIND = 13 /* <|im_end|>, a line, <|im_start|>, assistant, a line */
};

/* A run of 30 tokens that writes its keep sets. */
static json_t *generate(int ranks, const char *keep_sets, const char *options)
{
    program_result r = {0};
    json_error_t error;
    program_run(&r, ranks, "generate -m tiny.h5 --chat=off --json -n 30 --ignore-eos --deterministic --keep-sets %s %s",
                keep_sets, options);
    program_exits(&r, 0);
    json_t *object = json_loads(r.out.data, 0, &error);
    ck_assert_msg(object != NULL, "no JSON: %s\n%s", error.text, r.out.data);
    program_clear(&r);
    return object;
}

/* The entries that all heads of all layers kept at the end of the prompt, and at the end of the answer. */
static int same_sets(const char *a, const char *b)
{
    const char *const paths[] = {a, b};
    static const char *const arrays[] = {"kept/offsets", "kept/positions", "final/offsets", "final/positions"};
    int same = 1;
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < 4; i++) {
            void *data[2] = {NULL, NULL};
            lh_h5_shape shape[2], want = {.type = i % 2 ? LH_I32 : LH_I64, .rank = 1, .dims = {-1}};
            for (int f = 0; f < 2; f++) {
                lh_h5 *h5 = NULL;
                char name[64];
                snprintf(name, sizeof name, "/layers/%03d/%s", l, arrays[i]);
                ck_assert_int_eq(lh_h5_open(&h5, paths[f], &(lh_h5_header){.kind = "keep-sets", .schema = 1}), LH_OK);
                ck_assert_int_eq(lh_h5_get(h5, name, &want, &shape[f], &data[f]), LH_OK);
                lh_h5_close(h5);
            }
            same &= shape[0].dims[0] == shape[1].dims[0] &&
                    memcmp(data[0], data[1], (size_t)(shape[0].dims[0] * lh_dtype_bytes(want.type))) == 0;
            lh_free(data[0]);
            lh_free(data[1]);
        }
    return same;
}

static void same_ids(const json_t *a, const json_t *b)
{
    ck_assert(json_equal(json_object_get(a, "token_ids"), json_object_get(b, "token_ids")));
}

/* `asked` with the question apart is `window`, where all stands in one prompt, on any number of ranks. */
static void check_law(const char *asked, const char *window, int64_t tokens)
{
    json_t *want = generate(1, "window.h5", window);
    ck_assert_int_eq(json_integer_value(json_object_get(want, "prompt_tokens")), tokens);
    for (int ranks = 1; ranks <= 3; ranks++) {
        json_t *got = generate(ranks, "asked.h5", asked);
        same_ids(want, got);
        ck_assert_int_eq(json_integer_value(json_object_get(got, "prompt_tokens")), tokens);
        const json_t *policy = json_object_get(got, "policy");
        ck_assert_str_eq(json_string_value(json_object_get(policy, "proxies")), "question");
        ck_assert_msg(same_sets("asked.h5", "window.h5"), "'%s' on %d ranks keeps other entries", asked, ranks);
        json_decref(got);
    }
    json_decref(want);
}

START_TEST(test_a_question_of_proxies_is_a_window_of_as_many_rows)
{
    static const int budgets[] = {120, 40}; /* of the smaller one a quarter is less than the question */
    char asked[256], window[256];
    for (int i = 0; i < 2; i++) {
        int P = budgets[i] / 4 < QUESTION_TOKENS ? budgets[i] / 4 : QUESTION_TOKENS;
        snprintf(asked, sizeof asked, "-f context --question '" QUESTION "' --policy nacl --proxies question -b %d",
                 budgets[i]);
        snprintf(window, sizeof window,
                 "-f all --policy nacl --proxies none --window %d --sinks %d --evict every -b %d", P, P / 2,
                 budgets[i]);
        check_law(asked, window, CONTEXT_TOKENS + QUESTION_TOKENS);
        /* the law would hold of two runs that ignore it: it is not what the end of the prompt chooses */
        snprintf(window, sizeof window, "-f all --policy nacl -b %d", budgets[i]);
        json_t *other = generate(1, "other.h5", window);
        ck_assert_msg(!same_sets("other.h5", "window.h5"), "the question chooses what 1%% of the prompt does");
        json_decref(other);
    }
}
END_TEST

START_TEST(test_in_a_chat_the_question_lasts_to_the_end_of_the_prompt)
{
    char window[256];
    int P = QUESTION_TOKENS + CHAT_BEHIND;
    json_t *bare = generate(1, "bare.h5", "-f apart --chat --chat-template chatml --policy streaming -b 50");
    int64_t tokens = json_integer_value(json_object_get(bare, "prompt_tokens"));
    snprintf(window, sizeof window,
             "-f apart --chat --chat-template chatml --policy nacl --proxies none --window %d --sinks %d --evict every "
             "-b 140",
             P, P / 2);
    check_law("-f context --chat --chat-template chatml --question-file question --policy nacl --proxies question -b "
              "140",
              window, tokens);
    json_decref(bare);
}
END_TEST

/* The file says how many tokens the question had: as many rows are observed again. */
START_TEST(test_a_cache_goes_on_with_the_proxies_that_it_was_made_with)
{
    program_result r = {0};
    json_t *direct = generate(2, "k.h5",
                              "-f context --question '" QUESTION "' --policy nacl --proxies question -b 100 "
                              "--save-cache c.h5");
    for (int ranks = 1; ranks <= 3; ranks++) {
        program_run(&r, ranks, "generate -m tiny.h5 --json -n 30 --ignore-eos --deterministic --load-cache c.h5");
        program_exits(&r, 0);
        json_t *later = json_loads(r.out.data, 0, NULL);
        ck_assert_ptr_nonnull(later);
        same_ids(direct, later);
        ck_assert(json_equal(json_object_get(direct, "policy"), json_object_get(later, "policy")));
        json_decref(later);
    }
    json_decref(direct);
    program_clear(&r);
}
END_TEST

START_TEST(test_any_policy_sees_the_question_of_a_question_aware_run)
{
    static const char *const policies[] = {"snapkv -b 40 --window 16 --evict every",
                                           "ada-snapkv -b 30 --window 8 --evict every:4", "h2o -b 40",
                                           "longhaul -b 25% --evict every:5"};
    char asked[512], all[256], after[256];
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        snprintf(all, sizeof all, "-f all --policy %s", policies[i]);
        snprintf(after, sizeof after, "-f context --question '" QUESTION "' --policy %s", policies[i]);
        snprintf(asked, sizeof asked, "%s --scenario question-aware", after);
        json_t *want = generate(1, "all.h5", all);
        for (int ranks = 1; ranks <= 4; ranks++) {
            json_t *got = generate(ranks, "asked.h5", asked);
            same_ids(want, got);
            ck_assert(json_equal(json_object_get(got, "policy"), json_object_get(want, "policy")));
            ck_assert_int_eq(json_integer_value(json_object_get(got, "prompt_tokens")),
                             CONTEXT_TOKENS + QUESTION_TOKENS);
            ck_assert_msg(same_sets("asked.h5", "all.h5"), "'%s' on %d ranks keeps other entries", asked, ranks);
            json_decref(got);
        }
        json_t *apart = generate(1, "apart.h5", after); /* so that it is no law of any two runs */
        ck_assert_msg(!same_sets("apart.h5", "all.h5"), "'%s' does not see the question either way", policies[i]);
        snprintf(asked, sizeof asked, "%s --scenario context-only", after);
        json_t *said = generate(2, "said.h5", asked);
        same_ids(apart, said);
        ck_assert_msg(same_sets("apart.h5", "said.h5"), "'%s' is not the default", asked);
        json_decref(said);
        json_decref(apart);
        json_decref(want);
    }
    json_t *want = generate(1, "all.h5", "-f apart --chat --chat-template chatml --policy h2o -b 60");
    json_t *got = generate(3, "asked.h5",
                           "-f context --chat --chat-template chatml --question-file question "
                           "--scenario question-aware --policy h2o -b 60");
    same_ids(want, got);
    ck_assert(same_sets("asked.h5", "all.h5"));
    json_decref(got);
    json_decref(want);
}
END_TEST

START_TEST(test_where_there_is_no_question_or_too_many_it_is_said)
{
    static const struct {
        const char *part, *line;
    } cases[] = {
        {"give it with '--question TEXT'", "generate -m tiny.h5 -f all --policy nacl --proxies question -b 40"},
        {"and several are given", "generate -m tiny.h5 -f context --question A --question-file question --policy nacl "
                                  "--proxies question -b 40"},
        {"the question is empty",
         "generate -m tiny.h5 -f context --question '' --policy nacl --proxies question -b 40"},
        {"needs '--proxies P%'",
         "generate -m tiny.h5 -f context --question A --policy nacl --proxies question --proxies-at both-ends -b 40"},
        {"'--scenario' says when the question comes", "generate -m tiny.h5 -f all --scenario question-aware -b 40"},
        {"'--scenario' says when the question comes", "generate -m tiny.h5 -f all --scenario context-only -b 40"},
        {"and several are given",
         "generate -m tiny.h5 -f context --question A --question B --scenario question-aware -b 40"},
        {"the question is empty", "generate -m tiny.h5 -f context --question '' --scenario question-aware -b 40"},
        {"leave one of them out", "generate -m tiny.h5 -f context --question A --scenario context-only --policy nacl "
                                  "--proxies question -b 40"},
        {"a loaded cache has evicted already",
         "generate -m tiny.h5 --load-cache c.h5 --question A --scenario question-aware"},
        {"there is none here", "plan -m tiny.h5 --context 400 --policy nacl --proxies question -b 40"},
        {"there is none here",
         "eval fidelity -m tiny.h5 --text all --length 100 --policy nacl --proxies question --budget 40"},
        {"'--scenario question-aware'",
         "eval needle -m tiny.h5 --haystack all --length 400 --policy 'nacl --proxies question' --budget 40"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        program_refuses(i % 4 == 0 ? 2 : 1, 2, cases[i].part, cases[i].line);
}
END_TEST

/* Once, by rank 0, and only where the policy has evicted by what it saw of the context. */
START_TEST(test_a_question_after_the_eviction_is_warned_of)
{
    static const struct {
        const char *options;
        int warned;
    } cases[] = {{"--policy longhaul -b 40", 1},
                 {"-b 40", 0},
                 {"-b 40 --proxies question", 0}, /* they see it: the default is the other one */
                 {"--policy snapkv --window 16 -b 40 --question 'And when?'", 1},
                 {"-b 40 --scenario question-aware", 0},
                 {"--policy keydiff -b 50%", 0},
                 {"-b 4000", 0},
                 {"", 0}};
    program_result r = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        program_run(&r, 2, "generate -m tiny.h5 -n 2 -f context --question '" QUESTION "' %s", cases[i].options);
        program_exits(&r, 0);
        const char *said = strstr(r.err.data, "before it sees a question");
        ck_assert_msg((said != NULL) == cases[i].warned, "'%s':\n%s", cases[i].options, r.err.data);
        if (!said) continue;
        ck_assert_ptr_null(strstr(said + 1, "before it sees a question"));
        ck_assert_ptr_nonnull(strstr(said, "'generate --scenario question-aware'"));
        ck_assert_ptr_nonnull(strstr(said, "--policy ask-later"));
    }
    program_clear(&r);
}
END_TEST

/* `plan` with the length of the question: the policy, and what it keeps, of the run. A trace is of the same run. */
START_TEST(test_the_plan_is_that_of_a_question_that_comes_later)
{
    static const char plan[] = "plan -m tiny.h5 -c %d --tp %d -n 30 -b 40 %s --json", said[] = "policy: ask-later",
                      asked[] = "-f context --question '" QUESTION "' -b 40";
    program_result r = {0};
    char options[256];
    for (int ranks = 1; ranks <= 4; ranks++) {
        json_t *run = generate(ranks, "later.h5", asked);
        snprintf(options, sizeof options, "--question %d", (int)QUESTION_TOKENS);
        program_run(&r, 1, plan, (int)CONTEXT_TOKENS, ranks, options);
        program_exits(&r, 0);
        ck_assert_int_eq(program_lines(r.err.data, said), 1);
        json_t *planned = json_loads(r.out.data, 0, NULL);
        ck_assert(json_equal(json_object_get(planned, "policy"), json_object_get(run, "policy")));
        ck_assert_int_eq(json_integer_value(json_object_get(planned, "question")), QUESTION_TOKENS);
        ck_assert_int_eq(json_integer_value(json_object_get(planned, "entries_kept")),
                         json_integer_value(json_object_get(json_object_get(run, "kv"), "model_entries_kept")));
        program_run(&r, ranks, "trace -m tiny.h5 --chat=off -n 2 %s -o later.t.h5", asked);
        program_exits(&r, 0);
        ck_assert_int_eq(program_lines(r.err.data, said), 1);
        json_decref(planned), json_decref(run);
    }
    program_run(&r, 1, "plan -m tiny.h5 -c 400 -b 40");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.err.data, "policy: longhaul"), 1);
    /* several questions come back to one state, which is stored where decoding evicts */
    int64_t peaks[2];
    for (int i = 0; i < 2; i++) {
        program_run(&r, 1, "plan -m tiny.h5 -c 3000 -b 90%% --policy h2o --json --question 300 %s",
                    i ? "--question 20" : "");
        program_exits(&r, 0);
        ck_assert_ptr_nonnull(strstr(r.err.data, "before it sees a question"));
        json_t *o = json_loads(r.out.data, 0, NULL);
        peaks[i] = json_integer_value(json_object_get(json_array_get(json_object_get(o, "ranks"), 0), "peak_bytes"));
        json_decref(o);
    }
    ck_assert_int_lt(peaks[0], peaks[1]);
    program_refuses(1, 2, "'--question' got 'Who?'", "plan -m tiny.h5 -c 400 --question 'Who?'");
    program_refuses(1, 2, "at most '--context 3664'", "plan -m tiny.h5 -c 4000 --question 400 -n 32");
    program_clear(&r);
}
END_TEST

/* Against the logits of the file, on any number of ranks: of every token but the last, which is never fed back. */
START_TEST(test_log_probabilities_are_those_of_the_logits)
{
    enum { NEW = 6 };
    const lh_h5_shape want = {.type = LH_F32, .rank = 2, .dims = {-1, -1}};
    program_result r = {0};
    for (int ranks = 1; ranks <= 4; ranks++) {
        lh_h5 *h5 = NULL;
        lh_h5_shape shape;
        float *logits = NULL;
        program_run(&r, ranks,
                    "generate -m tiny.h5 -f context --temperature 0.9 --repeat-penalty 1.3 --seed 4 -n %d --ignore-eos "
                    "--json --logprobs --logits logits.h5 -q",
                    NEW);
        program_exits(&r, 0);
        json_t *o = json_loads(r.out.data, 0, NULL);
        const json_t *ids = json_object_get(o, "token_ids"), *logprobs = json_object_get(o, "logprobs");
        ck_assert_uint_eq(json_array_size(logprobs), NEW);
        ck_assert_int_eq(lh_h5_open(&h5, "logits.h5", &(lh_h5_header){.kind = "analysis", .schema = 1}), LH_OK);
        ck_assert_int_eq(lh_h5_get(h5, "/logits", &want, &shape, &logits), LH_OK);
        ck_assert_int_eq(shape.dims[0], NEW);
        for (int64_t i = 0; i < NEW; i++) {
            const float *row = logits + i * shape.dims[1];
            double sum = 0;
            for (int64_t t = 0; t < shape.dims[1]; t++) sum += exp((double)row[t]);
            const double have = json_number_value(json_array_get(logprobs, (size_t)i)),
                         should = (double)row[json_integer_value(json_array_get(ids, (size_t)i))] - log(sum);
            ck_assert_msg(fabs(have - should) < 1e-6, "token %d: %g, not %g", (int)i, have, should);
        }
        lh_free(logits);
        lh_h5_close(h5);
        json_decref(o);
    }
    program_clear(&r);
}
END_TEST

/* -f and -p together: what question-aware runs of the two say, with the question in the answer. */
START_TEST(test_a_document_and_a_prompt_are_a_document_and_a_question)
{
    for (int ranks = 1; ranks <= 2; ranks++) {
        json_t *pair = generate(ranks, "pair.h5",
                                "-f context -p '" QUESTION "' --policy snapkv --window 16 --evict every -b 60"),
               *aware = generate(ranks, "aware.h5",
                                 "-f context --question '" QUESTION
                                 "' --scenario question-aware --policy snapkv --window 16 --evict every -b 60"),
               *apart = generate(ranks, "apart.h5",
                                 "-f context -p '" QUESTION
                                 "' --policy snapkv --window 16 --evict every -b 60 --scenario context-only");
        same_ids(pair, aware);
        ck_assert(same_sets("pair.h5", "aware.h5") && !same_sets("pair.h5", "apart.h5"));
        ck_assert_str_eq(json_string_value(json_object_get(pair, "question")), QUESTION);
        json_decref(pair), json_decref(aware), json_decref(apart);
    }
}
END_TEST

/* A question a line: as many answers as --question given as often. */
START_TEST(test_a_list_of_questions_is_asked_line_by_line)
{
    program_result r = {0};
    json_t *o[2] = {NULL, NULL};
    static const char *const ways[] = {"--questions list", "--question 'Which age?' --question 'Why, then?'"};
    program_file("list", "Which age?\r\n\n  \nWhy, then?");
    for (int ranks = 1; ranks <= 4; ranks++) {
        for (int i = 0; i < 2; i++) {
            program_run(&r, ranks, "generate -m tiny.h5 --json -n 5 --ignore-eos --deterministic -f context %s",
                        ways[i]);
            program_exits(&r, 0);
            o[i] = json_loads(r.out.data, 0, NULL);
        }
        const json_t *answers = json_object_get(o[0], "answers");
        ck_assert_uint_eq(json_array_size(answers), 2);
        ck_assert(json_equal(answers, json_object_get(o[1], "answers")));
        ck_assert_str_eq(json_string_value(json_object_get(json_array_get(answers, 1), "question")), "Why, then?");
        json_decref(o[0]), json_decref(o[1]);
    }
    program_file("blank", "\n \n");
    program_refuses(1, 3, "'blank' holds no question", "generate -m tiny.h5 -f context --questions blank");
    program_file("many", "Who?\nWhere?\nWhen?\n");
    program_run(&r, 1, "generate -m tiny.h5 -n 2 -f context --question-file many");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.err.data, "the 3 lines of 'many' are one question: '--questions many' asks one a"));
    program_clear(&r);
}
END_TEST

START_TEST(test_the_line_ends_after_a_question_are_no_part_of_it)
{
    program_file("windows", "Which age?\r\n\r\n");
    json_t *o = generate(1, "windows.h5", "-f context --question-file windows");
    ck_assert_str_eq(json_string_value(json_object_get(o, "question")), "Which age?");
    json_decref(o);
    program_file("windows", "\r\n\r\n");
    program_refuses(1, 3, "the question is empty: 'windows' holds no text",
                    "generate -m tiny.h5 -f context --question-file windows");
}
END_TEST

/* What a command prints, without times. */
static json_t *printed(const char *folder, const char *command)
{
    program_result r = {0};
    program_run(&r, 1, "--version > v && cd %s && " LONGHAUL " %s", folder, command);
    program_exits(&r, 0);
    json_t *o = json_loads(r.out.data, JSON_DECODE_ANY, NULL);
    if (!o) o = json_string(r.out.data);
    json_object_del(o, "timing");
    program_clear(&r);
    return o;
}

START_TEST(test_a_byte_order_mark_is_not_read)
{
    static const char *const commands[] = {
        "generate -m tiny.h5 --json -n 5 --deterministic -f context",
        "generate -m tiny.h5 --json -n 5 --deterministic -f - < context",
        "generate -m tiny.h5 --json -n 5 --deterministic -p abc --question-file question",
        "generate -m tiny.h5 --json -n 5 --deterministic -p abc --questions question",
        "generate -m tiny.h5 --json -n 5 --deterministic --chat-template chatml --messages turns",
        "eval tasks facts -m tiny.h5 --json -n 5 --deterministic -q",
        "eval needle -m tiny.h5 --json -n 5 --deterministic --haystack context --length 160 --depth 0.5 -q",
        "tokenize -m tiny.h5 -f context"};
    program_result r = {0};
    program_file("turns", "[{\"role\": \"user\", \"content\": \"Who?\"}]");
    program_file("facts", "{\"context\": \"A cat sat.\", \"question\": \"Who sat?\", \"answers\": [\"A cat\"]}\n");
    program_run(&r, 1,
                "--version > v && mkdir marked && cp tiny.h5 marked && for f in context question turns facts; do "
                "{ printf '\\357\\273\\277'; cat $f; } > marked/$f || exit 1; done");
    program_exits(&r, 0);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        json_t *plain = printed(".", commands[i]), *marked = printed("marked", commands[i]);
        ck_assert_msg(json_equal(plain, marked), "'%s' reads the mark", commands[i]);
        json_decref(plain), json_decref(marked);
    }
    program_clear(&r);
}
END_TEST

START_TEST(test_what_is_no_text_is_said)
{
    program_result r = {0};
    program_file("x.pdf", "%PDF-1.7\nstream");
    program_file("x.docx", "PK\003\004stream");
    program_file("latin", "Un caf\351 noir.");
    program_refuses(1, 3, "'x.pdf' is a PDF, not text: 'pdftotext FILE -'",
                    "generate -m tiny.h5 -f x.pdf");
    program_refuses(2, 3, "'x.docx' is a ZIP archive", "generate -m tiny.h5 -f context --question-file x.docx");
    program_file("wide", "\377\376T\360");
    program_refuses(1, 3, "'wide' is UTF-16, not UTF-8: 'iconv", "generate -m tiny.h5 -f wide");
    program_run(&r, 1, "generate -m tiny.h5 -n 2 -f latin");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.err.data, "'latin' is not UTF-8: byte 6 is 0xe9."));
    program_run(&r, 1, "generate -m tiny.h5 -n 2 -f context");
    ck_assert_ptr_null(strstr(r.err.data, "UTF-8"));
    program_clear(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_a_question_of_proxies_is_a_window_of_as_many_rows,
                                  test_in_a_chat_the_question_lasts_to_the_end_of_the_prompt,
                                  test_a_cache_goes_on_with_the_proxies_that_it_was_made_with,
                                  test_any_policy_sees_the_question_of_a_question_aware_run,
                                  test_where_there_is_no_question_or_too_many_it_is_said,
                                  test_a_question_after_the_eviction_is_warned_of,
                                  test_the_plan_is_that_of_a_question_that_comes_later,
                                  test_log_probabilities_are_those_of_the_logits,
                                  test_a_document_and_a_prompt_are_a_document_and_a_question,
                                  test_a_list_of_questions_is_asked_line_by_line,
                                  test_the_line_ends_after_a_question_are_no_part_of_it,
                                  test_a_byte_order_mark_is_not_read,
                                  test_what_is_no_text_is_said,
                                  NULL};
    program_enter();
    tiny_write("tiny");
    program_file("context", CONTEXT);
    program_file("question", QUESTION "\n");
    program_file("all", CONTEXT QUESTION);
    program_file("apart", CONTEXT "\n\n" QUESTION);
    program_result r = {0};
    program_run(&r, 1, "import tiny -o tiny.h5 -q");
    int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    if (code == 0) code = suite_run("cli question", tests);
    program_leave();
    return code;
}
