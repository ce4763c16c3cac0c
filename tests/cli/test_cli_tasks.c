/* `eval tasks`: every record for every cache, truncated contexts, any number of ranks, after an interrupt; keep sets of
 * an evaluation, and the columns of its tables. */
#include <check.h>
#include <fcntl.h>
#include <hdf5.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/program.h"
#include "cli/tiny.h"
#include "suite.h"

#define QA "eval tasks q.jsonl -m tiny.h5 -q -n 6 "
#define TASKS "eval tasks lb.jsonl ruler.json -m tiny.h5 -n 6 -q "
#define FEW "--policy 'h2o --budget 10%,streaming --budget 100' "
#define POLICIES "--policy 'snapkv --window 8,ada-snapkv --window 8,streaming,h2o' --budget 40,25% "
enum { CHOICES = 1 + 4 * 2, QUESTIONS = 3 };

static json_t *eval(int ranks, const char *options)
{
    program_result r = {0};
    json_error_t error;
    program_run(&r, ranks, "%s --json", options);
    program_exits(&r, 0);
    json_t *object = json_loads(r.out.data, 0, &error);
    ck_assert_msg(object != NULL, "no JSON: %s\n%s", error.text, r.out.data);
    program_clear(&r);
    return object;
}

static double value(const json_t *row, const char *name)
{
    const json_t *v = json_object_get(row, name);
    ck_assert_msg(json_is_number(v), "'%s' is no number", name);
    return json_number_value(v);
}

START_TEST(test_every_question_is_asked_of_every_cache)
{
    json_t *o = eval(1, QA POLICIES), *row, *full;
    size_t i;
    const json_t *answers = json_object_get(o, "answers"), *means = json_object_get(o, "means");
    ck_assert_uint_eq(json_array_size(answers), 2 * CHOICES * QUESTIONS);
    ck_assert_uint_eq(json_array_size(means), 2 * CHOICES);
    json_array_foreach((json_t *)(uintptr_t)answers, i, row)
    {
        full = json_array_get(answers, i - i % CHOICES);
        ck_assert_double_eq(value(row, "line"), value(full, "line"));
        ck_assert_str_eq(json_string_value(json_object_get(row, "task")), "q");
        ck_assert(value(row, "score") >= 0 && value(row, "score") <= 100);
        ck_assert(value(row, "exact") == (value(row, "score") == 100));
        /* 2 layers, 3 KV heads, 40 entries or a quarter of the prompt; all of them */
        const double kept = value(row, "entries_kept"), all = value(full, "entries_kept");
        /* of f32; evicted ones of q8: a quarter, and two scales */
        const double entry = value(full, "kv_bytes") / all;
        ck_assert_double_eq(value(row, "kv_bytes"), kept * (i % CHOICES ? entry / 4 + 8 : entry));
        if (i % CHOICES) ck_assert_double_lt(kept, all);
        if (i % CHOICES % 2 == 1) ck_assert_double_eq(value(row, "decode_s") > 0, 1);
    }
    json_array_foreach((json_t *)(uintptr_t)means, i, row)
    {
        ck_assert_double_eq(value(row, "prompts"), QUESTIONS); /* of one task there is no average */
        ck_assert(value(row, "ci_low") <= value(row, "score") && value(row, "score") <= value(row, "ci_high"));
        ck_assert_str_eq(json_string_value(json_object_get(row, "model")), "tiny");
    }
    json_decref(o);
}
END_TEST

START_TEST(test_scores_are_the_same_bytes_on_any_number_of_ranks)
{
    program_result one = {0}, more = {0};
    static const char run[] = TASKS FEW "--length 900 --deterministic --csv means.csv --answers -";
    program_run(&one, 1, "%s && cat means.csv", run);
    program_exits(&one, 0);
    for (int ranks = 2; ranks <= 4; ranks++) {
        program_run(&more, ranks, "%s && cat means.csv", run);
        program_exits(&more, 0);
        ck_assert_str_eq(one.out.data, more.out.data);
    }
    program_clear(&one);
    program_clear(&more);
}
END_TEST

START_TEST(test_results_are_the_same_bytes_on_any_number_of_ranks)
{
    program_result one = {0}, more = {0};
    static const char options[] = QA POLICIES "--deterministic --csv means.csv --answers answers.csv --keep-sets kept";
    program_run(&one, 1, "%s && cat means.csv answers.csv && mv kept kept1", options);
    program_exits(&one, 0);
    for (int ranks = 2; ranks <= 4; ranks++) {
        program_run(&more, ranks, "%s && cat means.csv answers.csv", options);
        program_exits(&more, 0);
        ck_assert_str_eq(one.out.data, more.out.data);
        program_run(&more, 1,
                    "--version > v && ls kept1 > one && ls kept | cmp - one && for f in $(cat one); do "
                    "cmp kept1/$f kept/$f || exit 1; done && rm -r kept");
        program_exits(&more, 0);
    }
    program_run(&one, 1,
                "--version > v; ls kept1 | wc -l; ls kept1 | head -n 1; " LONGHAUL
                " verify kept1/4096-q-0002-context-only.03-ada-snapkv_--window_8-40.h5 > v");
    program_exits(&one, 0);
    ck_assert_str_eq(one.out.data, "48\n4096-q-0001-context-only.01-snapkv_--window_8-40.h5\n");
    program_clear(&one);
    program_clear(&more);
}
END_TEST

/* The answer to a question is what `generate` says to it. */
START_TEST(test_answers_are_those_of_generate)
{
    json_t *o = eval(1, QA "--scenario context-only --policy 'h2o --budget 40' --count 1 --chat=off");
    json_t *g = eval(
        1, "generate -m tiny.h5 --chat=off -f context1 --question-file question1 -n 6 -q --policy h2o --budget 40");
    const json_t *row = json_array_get(json_object_get(o, "answers"), 1);
    ck_assert_str_eq(json_string_value(json_object_get(row, "answer")), json_string_value(json_object_get(g, "text")));
    json_decref(o);
    json_decref(g);
}
END_TEST

/* Means over ids[0 .. n), from the rows of logits that `generate` wrote before each: negative log-likelihoods; share of
 * ids with the largest logit. */
static double nll_of_logits(const char *path, const int *ids, int n, double *best)
{
    hsize_t dims[2] = {0};
    double sum = 0;
    *best = 0;
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), set = H5Dopen2(file, "/logits", H5P_DEFAULT);
    hid_t space = H5Dget_space(set);
    H5Sget_simple_extent_dims(space, dims, NULL);
    ck_assert_int_eq((int)dims[0], n);
    float *logits = malloc(dims[0] * dims[1] * sizeof *logits);
    ck_assert_int_ge(H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, logits), 0);
    for (int i = 0; i < n; i++) {
        const float *row = logits + (size_t)i * dims[1];
        double all = 0;
        hsize_t first = 0;
        for (hsize_t v = 0; v < dims[1]; v++) {
            all += exp((double)row[v]);
            if (row[v] > row[first]) first = v;
        }
        sum += log(all) - row[ids[i]];
        *best += ((int)first == ids[i]) / (double)n;
    }
    H5Sclose(space), H5Dclose(set), H5Fclose(file);
    free(logits);
    return sum / n;
}

/* The tiny model has a token for every byte, and logits near 0. */
START_TEST(test_the_likelihood_of_the_right_answer_is_that_of_its_logits)
{
    enum { ANSWER_TOKENS = 9 };
    static const char *const policies[] = {"full", "h2o --budget 40", "h2o --budget 40 --evict every:2"};
    static const char *const scenarios[][2] = {{"question-aware", "-f whole1"},
                                               {"context-only", "-f context1 --question-file question1"}};
    program_result r = {0};
    int ids[ANSWER_TOKENS];
    program_run(&r, 1, "tokenize -m tiny.h5 --prompt ' number 7' > ids && cat context1 question1 > whole1 && cat ids");
    program_exits(&r, 0);
    char *at = r.out.data;
    for (int i = 0; i < ANSWER_TOKENS; i++) ids[i] = (int)strtol(at, &at, 10);
    ck_assert_str_eq(at, "\n");
    for (int s = 0; s < 2; s++)
        for (int p = 0; p < 3; p++) {
            char line[256];
            snprintf(line, sizeof line, QA "--scenario %s --count 1 --chat=off --policy %s", scenarios[s][0],
                     policies[p]);
            json_t *o = eval(1 + p, line);
            const json_t *answers = json_object_get(o, "answers");
            const json_t *row = json_array_get(answers, json_array_size(answers) - 1);
            const double got = value(row, "answer_nll");
            double best;
            program_run(&r, 1,
                        "generate -m tiny.h5 --chat=off %s --force-tokens ids -n 9 --ignore-eos -q --logits l.h5 "
                        "--policy %s",
                        scenarios[s][1], policies[p]);
            program_exits(&r, 0);
            const double expected = nll_of_logits("l.h5", ids, ANSWER_TOKENS, &best);
            /* f32 sums in another order, in blocks and on more ranks */
            ck_assert_msg(fabs(got - expected) < 1e-4 * expected, "%s: %.9g, not %.9g", line, got, expected);
            ck_assert_double_eq_tol(value(row, "answer_best"), best, 1e-6);
            json_decref(o);
        }
    program_clear(&r);
}
END_TEST

/* Writes a question whose right answer is this one. */
static void expect_answer(const char *answer)
{
    lh_buf text = {0};
    program_must(lh_buf_printf(&text,
                               "{\"context\": \"Things have numbers.\", \"question\": \"What is thing 1?\", "
                               "\"answers\": [\"%s\"]}\n",
                               answer) == LH_OK,
                 "memory");
    program_file("own.jsonl", text.data);
    lh_buf_clear(&text);
}

/* The last row of the answers: of the policy that is asked for. */
static json_t *ask_own(int ranks, const char *options)
{
    char line[256];
    snprintf(line, sizeof line, "eval tasks own.jsonl -m tiny.h5 -q -n 6 %s", options);
    json_t *o = eval(ranks, line);
    const json_t *answers = json_object_get(o, "answers");
    json_t *row = json_incref(json_array_get(answers, json_array_size(answers) - 1));
    json_decref(o);
    return row;
}

/* Bytes are tokens, so what comes before the first that is not ASCII is the same tokens again. */
START_TEST(test_a_cache_would_choose_all_of_its_own_answer)
{
    static const char *const caches[] = {"--policy full --scenario context-only",
                                         "--policy 'snapkv --window 8' --budget 30 --scenario question-aware",
                                         "--policy h2o --budget 30 --scenario context-only",
                                         "--policy 'h2o --evict every:2' --budget 30 --scenario question-aware"};
    for (int c = 0; c < 4; c++) {
        char own[8] = "";
        int n = 0;
        expect_answer("none");
        json_t *row = ask_own(1, caches[c]);
        const char *answer = json_string_value(json_object_get(row, "answer"));
        while (n < 6 && answer[n] > ' ' && answer[n] < 127 && !strchr("\"\\", answer[n])) n++;
        ck_assert_msg(n > 0, "%s: '%s' has no letters", caches[c], answer);
        memcpy(own, answer, (size_t)n);
        json_decref(row);
        expect_answer(own);
        row = ask_own(1 + c, caches[c]);
        ck_assert_double_eq(value(row, "answer_best"), 1);
        json_decref(row);
        own[n - 1] = own[n - 1] == 'a' ? 'b' : 'a'; /* another last token, after the same ones */
        expect_answer(own);
        row = ask_own(4 - c, caches[c]);
        ck_assert_double_eq_tol(value(row, "answer_best"), (n - 1.0) / n, 1e-6);
        json_decref(row);
    }
}
END_TEST

START_TEST(test_an_empty_answer_has_no_likelihood)
{
    program_file("none.jsonl", "{\"context\": \"A text.\", \"question\": \"What?\", \"answers\": []}\n");
    json_t *o = eval(2, "eval tasks --data none.jsonl -m tiny.h5 -q -n 2");
    const json_t *mean = json_array_get(json_object_get(o, "means"), 0);
    ck_assert(json_is_null(json_object_get(mean, "answer_nll")) && json_is_null(json_object_get(mean, "answer_best")));
    json_decref(o);
}
END_TEST

START_TEST(test_what_cannot_be_asked_is_said)
{
    static const struct {
        const char *line, *says;
        int code;
    } cases[] = {
        {"eval tasks -m tiny.h5", "needs a file of tasks", 2},
        {"eval tasks nowhere -m tiny.h5", "nowhere", 3},
        {TASKS "--task dureader", "the metric of 'dureader' needs a dictionary of Chinese words", 3},
        {TASKS "--metric f1-chinese", "give '--jieba FOLDER'", 2},
        {TASKS "--jieba nowhere", "nowhere/dict.txt", 3},
        {TASKS "--task squad", "'--task' names 'squad'", 3},
        {TASKS "--metric rouge", "rouge-l", 2},
        {TASKS "--length 100k", "longer than the 4096 positions", 2},
        {TASKS "--length 100", "line 2 of 'lb.jsonl': ", 2},
        {TASKS, "'--length 4096' leaves out the middle of the prompt", 2},
        {TASKS "--truncate head", "'--truncate' got 'head'", 2},
        {"eval tasks bad.jsonl -m tiny.h5", "line 2 of 'bad.jsonl': \"context\" must be a text", 3},
        {"eval tasks q.jsonl -m bare.h5", "the model has no tokenizer", 2},
        {QA "-n 4000", "line 1 of 'q.jsonl':", 2},
        {QA "--chat=off --chat-template chatml", "'--chat-template' has no effect with '--chat=off'", 2},
        {QA "--chat=off --system s", "'--system' has no effect with '--chat=off'", 2},
        {QA "--scenario never", "'--scenario' got 'never'", 2},
        {QA "--policy 'snapkv --evict block:50' --budget 40", "block", 2},
        {QA "--policy 'nacl --proxies question' --budget 40", "--scenario question-aware", 2},
        {QA "--csv q.jsonl", "'--csv' would write 'q.jsonl', which is read", 2},
        {QA "--keep-sets q.jsonl", "would write 'q.jsonl', which is read", 2},
        {QA "--keep-sets tiny/config.json", "cannot make the folder 'tiny/config.json' of '--keep-sets'", 6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        program_refuses(1, cases[i].code, cases[i].says, cases[i].line);
    program_refuses(3, 3, "line 2 of 'bad.jsonl'", "eval tasks bad.jsonl -m tiny.h5");
}
END_TEST

/* The last context of LongBench's records is longer than any length here. */
START_TEST(test_every_record_is_asked_of_every_cache_in_its_length)
{
    static const char *const tasks[] = {"trec", "hotpotqa", "passage_count", "hotpotqa", "niah_single_1"};
    enum { CACHES = 3, RECORDS = 5 };
    static const long long lines[RECORDS] = {1, 2, 3, 4, 1};
    json_t *o = eval(1, TASKS FEW "--length 1400"), *row;
    size_t i;
    ck_assert_uint_eq(json_array_size(json_object_get(o, "means")), 2 * CACHES * (4 + 1)); /* and the average */
    ck_assert_uint_eq(json_array_size(json_object_get(o, "answers")), 2 * CACHES * RECORDS);
    json_array_foreach(json_object_get(o, "answers"), i, row)
    {
        const size_t record = i / (2 * CACHES);
        const double tokens = value(row, "prompt_tokens"), kept = value(row, "context_tokens");
        ck_assert_str_eq(json_string_value(json_object_get(row, "task")), tasks[record]);
        ck_assert_int_eq((long long)value(row, "line"), lines[record]);
        ck_assert_double_eq(value(row, "length"), 1400);
        ck_assert_double_le(tokens, 1400 - 6);
        if (record == 1) ck_assert_double_eq(kept, (double)strlen("Short context.")); /* tokens are bytes */
        if (record == 3) ck_assert(tokens >= 1400 - 6 - 2 && kept < tokens);          /* truncated */
        ck_assert(value(row, "answer_nll") > 0);
    }
    for (size_t group = 0; group < 2 * CACHES; group++) {
        double score = 0;
        for (size_t t = 0; t < 4; t++)
            score += value(json_array_get(json_object_get(o, "means"), group * 5 + t), "score") / 4;
        row = json_array_get(json_object_get(o, "means"), group * 5 + 4);
        ck_assert_str_eq(json_string_value(json_object_get(row, "task")), "average");
        ck_assert_double_eq(value(row, "prompts"), RECORDS);
        ck_assert_double_eq_tol(value(row, "score"), score, 1e-4);
    }
    json_decref(o);
}
END_TEST

START_TEST(test_means_are_by_the_lengths_that_records_were_made_for)
{
    program_file("made.jsonl",
                 "{\"context\": \"c d\", \"question\": \" q?\", \"answer_prefix\": \"\", \"answers\": "
                 "[\"a\"], \"task\": \"kv\", \"metric\": \"string-match-all\", \"nominal_length\": 900}\n"
                 "{\"context\": \"c d\", \"question\": \" q?\", \"answer_prefix\": \"\", \"answers\": "
                 "[\"a\"], \"task\": \"kv\", \"metric\": \"string-match-all\", \"nominal_length\": 500}\n");
    json_t *o = eval(1, "eval tasks made.jsonl -m tiny.h5 -n 1 -q --policy full --scenario context-only");
    const json_t *means = json_object_get(o, "means");
    ck_assert_uint_eq(json_array_size(means), 2);
    ck_assert_double_eq(value(json_array_get(means, 0), "length"), 500);
    ck_assert_double_eq(value(json_array_get(means, 1), "length"), 900);
    json_decref(o);
}
END_TEST

/* Without a chat format the prompt is the text of context, question and answer prefix. */
START_TEST(test_a_prompt_with_an_answer_prefix_is_its_texts)
{
    json_t *o = eval(1, "eval tasks ruler.json -m tiny.h5 -n 6 -q --chat=off --policy full --scenario question-aware");
    json_t *g = eval(1, "generate -m tiny.h5 --chat=off -f whole -n 6 -q");
    const json_t *row = json_array_get(json_object_get(o, "answers"), 0);
    ck_assert_double_eq(value(row, "prompt_tokens"), value(g, "prompt_tokens"));
    ck_assert_str_eq(json_string_value(json_object_get(row, "answer")), json_string_value(json_object_get(g, "text")));
    json_decref(o);
    json_decref(g);
}
END_TEST

START_TEST(test_an_interrupted_run_goes_on)
{
    program_result r = {0}, whole = {0};
    static const char run[] = TASKS FEW "--length 900,1200,1500,1800 --deterministic -o";
    program_run(&whole, 1, "%s whole.h5", run);
    program_exits(&whole, 0);
    program_run(&r, 2,
                "%s o.h5 > shown & p=$!; "
                "while kill -0 $p && test $(cat o.h5.resume 2>/dev/null | wc -l) -lt 4; do sleep 0.02; done; "
                "kill -USR1 $p; wait $p; exit $?",
                run);
    program_exits(&r, 75);
    program_run(&r, 1, "--version > v && test -s o.h5.resume");
    program_exits(&r, 0);
    program_run(&r, 3, "%s o.h5", run);
    program_exits(&r, 0);
    ck_assert_str_eq(r.out.data, whole.out.data);
    program_run(&r, 1, "verify o.h5 -q");
    program_exits(&r, 0);
    program_clear(&r);
    program_clear(&whole);
}
END_TEST

START_TEST(test_all_policies_take_the_options_that_they_know)
{
    program_result r = {0};
    program_run(&r, 2,
                "eval tasks q.jsonl -m tiny.h5 -n 2 --count 1 --policy all --budget 60 --window 4 --pool-size 5 "
                "--scenario question-aware --csv -");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.err.data, "longhaul: warning: --policy all: '--window' has no effect on "), 1);
    ck_assert_int_ge(program_lines(r.out.data, "recency,60"), 1);
    ck_assert_int_ge(program_lines(r.out.data, "snapkv --window 4 --pool-size 5,60"), 1);
    program_clear(&r);
}
END_TEST

/* Writes a template into a pipe for its first reader, and what cannot be read for every other. */
static pid_t serve_once(const char *pipe, const char *template)
{
    unlink(pipe);
    ck_assert_int_eq(mkfifo(pipe, 0600), 0);
    const pid_t child = fork();
    for (const char *text = template; child == 0; text = "{% bad") {
        int fd = open(pipe, O_WRONLY);
        if (fd < 0 || write(fd, text, strlen(text)) < 0) _exit(1);
        close(fd);
        usleep(200000);
    }
    return child;
}

START_TEST(test_a_template_is_opened_once)
{
    static const char template[] = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant]";
    static const char *const tasks[] = {
        "eval tasks q.jsonl -m tiny.h5 --count 2",
        "eval needle -m tiny.h5 --haystack context3 --length 300 --depth 0,1",
        "eval fidelity -m tiny.h5 --text context3 --length 60 --count 2 --reconstruct --repeat-max 4"};
    static const char options[] = "-q -n 4 --deterministic --csv - --chat-template";
    program_file("own.jinja", template);
    for (size_t t = 0; t < sizeof tasks / sizeof *tasks; t++) {
        program_result r = {0}, once = {0};
        program_run(&r, 1, "%s %s own.jinja", tasks[t], options);
        program_exits(&r, 0);
        for (int ranks = 1; ranks <= 4; ranks++) {
            const pid_t writer = serve_once("own.pipe", template);
            program_run(&once, ranks, "%s %s own.pipe", tasks[t], options);
            kill(writer, SIGKILL);
            waitpid(writer, NULL, 0);
            program_exits(&once, 0);
            ck_assert_str_eq(r.out.data, once.out.data);
        }
        program_clear(&r);
        program_clear(&once);
    }
}
END_TEST

static void write_questions(void)
{
    lh_buf lines = {0}, context = {0};
    for (int q = 1; q <= QUESTIONS; q++) {
        char name[32];
        context.bytes = 0;
        for (int i = 0; i < 12 * q; i++)
            program_must(lh_buf_printf(&context, "Thing %d of %d is number %d. ", i, q, i * 7 % 31) == LH_OK, "memory");
        program_must(lh_buf_printf(&lines,
                                   "{\"context\": \"%s\", \"question\": \"What is thing %d?\", \"answers\": "
                                   "[\"number %d\", \"%d\"]}\n",
                                   context.data, q, q * 7, q * 7) == LH_OK,
                     "memory");
        snprintf(name, sizeof name, "context%d", q);
        program_file(name, context.data);
    }
    program_file("q.jsonl", lines.data);
    program_file("question1", "\n\nQuestion: What is thing 1?\nAnswer:");
    program_file("bad.jsonl", "{\"context\": \"c\", \"question\": \"q\", \"answers\": []}\n{\"question\": \"q\"}\n");
    lh_buf_clear(&lines);
    lh_buf_clear(&context);
}

/* Records of LongBench and RULER. */
static void write_tasks(void)
{
    lh_buf text = {0}, lines = {0};
    tiny_sentences(&text);
    program_must(
        lh_buf_printf(&lines,
                      "{\"dataset\": \"trec\", \"context\": \"Question: When?\\nType: Date\", \"input\": "
                      "\"Question: Where?\\nType:\", \"answers\": [\"Place\"], \"all_classes\": [\"Date\", "
                      "\"Place\"]}\n"
                      "{\"dataset\": \"hotpotqa\", \"context\": \"Short context.\", \"input\": \"Who?\", "
                      "\"answers\": [\"me\"], \"all_classes\": null}\n"
                      "{\"dataset\": \"passage_count\", \"context\": \"Paragraph 1: a\", \"input\": \"\", "
                      "\"answers\": [\"1\"], \"all_classes\": null}\n"
                      "{\"dataset\": \"hotpotqa\", \"context\": \"%s\", \"input\": \"What?\", \"answers\": "
                      "[\"thing 7\", \"7\"], \"all_classes\": null}\n"
                      "{\"dataset\": \"dureader\", \"context\": \"c\", \"input\": \"i\", \"answers\": [\"a\"], "
                      "\"all_classes\": null}\n",
                      text.data) == LH_OK,
        "memory");
    program_file("lb.jsonl", lines.data);
    program_file("ruler.json",
                 "[{\"context\": \"The number for x is: 7.\\n\", \"question\": \"What is the number for x? \", "
                 "\"answer_prefix\": \"The number for x is\", \"answer\": [\"7\"], \"task\": "
                 "\"niah_single_1\", \"max_new_tokens\": 128}]");
    program_file("whole", "The number for x is: 7.\nWhat is the number for x? The number for x is");
    lh_buf_clear(&text);
    lh_buf_clear(&lines);
}

int main(void)
{
    const TTest *const tests[] = {test_every_question_is_asked_of_every_cache,
                                  test_results_are_the_same_bytes_on_any_number_of_ranks,
                                  test_scores_are_the_same_bytes_on_any_number_of_ranks,
                                  test_answers_are_those_of_generate,
                                  test_the_likelihood_of_the_right_answer_is_that_of_its_logits,
                                  test_a_cache_would_choose_all_of_its_own_answer,
                                  test_an_empty_answer_has_no_likelihood,
                                  test_what_cannot_be_asked_is_said,
                                  test_every_record_is_asked_of_every_cache_in_its_length,
                                  test_means_are_by_the_lengths_that_records_were_made_for,
                                  test_a_prompt_with_an_answer_prefix_is_its_texts,
                                  test_an_interrupted_run_goes_on,
                                  test_all_policies_take_the_options_that_they_know,
                                  test_a_template_is_opened_once,
                                  NULL};
    program_enter();
    tiny_write("tiny");
    write_questions();
    write_tasks();
    program_result r = {0};
    program_run(&r, 1,
                "import tiny -o tiny.h5 -q && cp -r tiny bare && rm bare/tokenizer* && " LONGHAUL
                " import bare -o bare.h5 -q");
    int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    if (code == 0) code = suite_run("cli tasks", tests);
    program_leave();
    return code;
}
