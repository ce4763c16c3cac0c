#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/program.h"
#include "cli/tiny.h"
#include "suite.h"

static const char PROMPT[] =
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age "
    "of foolishness, it was the epoch of belief, it was the epoch of incredulity";
enum { PROMPT_BYTES = sizeof PROMPT - 1 };

/* The JSON object that a run prints. */
static json_t *generate(int ranks, const char *options)
{
    program_result r = {0};
    json_error_t error;
    program_run(&r, ranks, "generate -m tiny.h5 --chat=off --json %s", options);
    program_exits(&r, 0);
    json_t *object = json_loads(r.out.data, 0, &error);
    ck_assert_msg(object != NULL, "no JSON: %s\n%s", error.text, r.out.data);
    program_clear(&r);
    return object;
}

static void same_answer(const json_t *a, const json_t *b)
{
    ck_assert_msg(json_equal(json_object_get(a, "token_ids"), json_object_get(b, "token_ids")), "other tokens");
    ck_assert_str_eq(json_string_value(json_object_get(a, "text")), json_string_value(json_object_get(b, "text")));
}

static json_int_t number(const json_t *object, const char *group, const char *name)
{
    const json_t *value = json_object_get(group ? json_object_get(object, group) : object, name);
    ck_assert_msg(json_is_integer(value), "'%s' is not an integer", name);
    return json_integer_value(value);
}

static json_int_t total(const json_t *object, const char *name)
{
    json_int_t sum = 0;
    const json_t *list = json_object_get(json_object_get(object, "kv"), name);
    ck_assert_msg(json_is_array(list), "'%s' is no array", name);
    for (size_t i = 0; i < json_array_size(list); i++) sum += json_integer_value(json_array_get(list, i));
    return sum;
}

/* Of a prompt long enough for products by oneDNN. */
START_TEST(test_no_library_writes_among_the_results)
{
    static const char *const names[] = {"DNNL_VERBOSE", "ONEDNN_VERBOSE"};
    json_t *want = generate(1, "-f prompt --dtype bf16 -n 2 --ignore-eos");
    for (int i = 0; i < 2; i++) {
        setenv(names[i], "2", 1);
        json_t *got = generate(1, "-f prompt --dtype bf16 -n 2 --ignore-eos");
        same_answer(got, want);
        json_decref(got);
        unsetenv(names[i]);
    }
    json_decref(want);
}
END_TEST

START_TEST(test_the_record_of_a_run_is_complete)
{
    static const char *const members[] = {"text", "token_ids", "prompt_tokens", "new_tokens", "finish_reason", "policy",
                                          "kv",   "timing",    "ranks",         "device",     "version"};
    static const char *const kv[] = {"budget", "entries", "entries_kept", "bytes", "bytes_kept", "peak_bytes"};
    static const char *const timing[] = {
        "load_s", "prefill_s", "evict_s", "decode_s", "prefill_tokens_per_s", "decode_tokens_per_s"};
    json_t *o = generate(2, "-f prompt -n 8 --ignore-eos --policy streaming --budget 20");
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        ck_assert_msg(json_object_get(o, members[i]), "no '%s'", members[i]);
    for (size_t i = 0; i < sizeof kv / sizeof *kv; i++)
        ck_assert_msg(json_object_get(json_object_get(o, "kv"), kv[i]), "no '%s'", kv[i]);
    for (size_t i = 0; i < sizeof timing / sizeof *timing; i++)
        ck_assert_msg(json_is_real(json_object_get(json_object_get(o, "timing"), timing[i])), "no '%s'", timing[i]);
    ck_assert_int_eq(number(o, NULL, "prompt_tokens"), PROMPT_BYTES);
    ck_assert_int_eq(number(o, NULL, "new_tokens"), 8);
    ck_assert_int_eq(number(o, NULL, "ranks"), 2);
    ck_assert_int_eq(number(o, "kv", "budget"), 20);
    ck_assert_int_eq(total(o, "entries_kept"), 3 * 2 * 20);    /* layers, KV heads, entries */
    ck_assert_int_eq(total(o, "bytes_kept"), 3 * 2 * 20 * 24); /* 2 x (head_dim 8 x int8 + a scale) */
    ck_assert_int_eq(total(o, "entries"), 3 * 2 * PROMPT_BYTES);
    ck_assert_str_eq(json_string_value(json_object_get(o, "finish_reason")), "length");
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(o, "policy"), "name")), "streaming");
    json_decref(o);
}
END_TEST

START_TEST(test_the_text_does_not_depend_on_ranks_when_deterministic)
{
    json_t *one = generate(1, "-f prompt -n 24 --ignore-eos --deterministic --budget 40 --window 8");
    for (int ranks = 2; ranks <= 4; ranks++) {
        json_t *more = generate(ranks, "-f prompt -n 24 --ignore-eos --deterministic --budget 40 --window 8");
        same_answer(one, more);
        ck_assert_int_eq(number(one, "kv", "model_entries_kept"), number(more, "kv", "model_entries_kept"));
        json_decref(more);
    }
    json_decref(one);
}
END_TEST

START_TEST(test_prompt_comes_from_option_file_input_and_ids_alike)
{
    json_t *file = generate(1, "-f prompt -n 8 --ignore-eos");
    static const char *const others[] = {"-n 8 --ignore-eos < prompt", "-f - -n 8 --ignore-eos < prompt",
                                         "--prompt-tokens ids -n 8 --ignore-eos",
                                         "--prompt \"$(cat prompt)\" -n 8 --ignore-eos"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        json_t *other = generate(1, others[i]);
        same_answer(file, other);
        json_decref(other);
    }
    json_t *ranks = generate(2, "-n 8 --ignore-eos < prompt"); /* rank 0's input is everybody's */
    same_answer(file, ranks);
    json_decref(ranks);
    json_decref(file);
}
END_TEST

START_TEST(test_a_budget_that_holds_everything_changes_nothing)
{
    json_t *full = generate(1, "-f prompt -n 16 --ignore-eos");
    json_t *all = generate(1, "-f prompt -n 16 --ignore-eos --budget 100% --kv-dtype f32");
    same_answer(full, all);
    ck_assert_int_eq(total(full, "entries"), total(all, "entries_kept"));
    json_decref(full);
    json_decref(all);
}
END_TEST

START_TEST(test_every_question_starts_from_the_state_after_the_context)
{
    json_t *both = generate(
        2,
        "-f prompt -n 8 --ignore-eos --policy longhaul --budget 32 --window 8 --question 'Who?' --question 'And why?'");
    json_t *second =
        generate(2, "-f prompt -n 8 --ignore-eos --policy longhaul --budget 32 --window 8 --question 'And why?'");
    const json_t *answers = json_object_get(both, "answers");
    ck_assert_uint_eq(json_array_size(answers), 2);
    same_answer(json_array_get(answers, 1), second);
    same_answer(json_array_get(answers, 0), both); /* the first one stands at the top, too */
    program_file("why", "And why?\n");
    json_t *file =
        generate(1, "-f prompt -n 8 --ignore-eos --policy longhaul --budget 32 --window 8 --question-file why");
    ck_assert_str_eq(json_string_value(json_object_get(file, "text")),
                     json_string_value(json_object_get(second, "text")));
    json_decref(file);
    json_decref(both);
    json_decref(second);
}
END_TEST

START_TEST(test_text_is_shown_as_it_is_made)
{
    program_result r = {0};
    json_t *o = generate(1, "-f prompt -n 12 --ignore-eos");
    program_run(&r, 1, "generate -m tiny.h5 -f prompt -n 12 --ignore-eos -q");
    program_exits(&r, 0);
    ck_assert_str_eq(r.err.data, "");
    ck_assert_int_eq(r.out.data[r.out.bytes - 1], '\n');
    program_run(&r, 1, "generate -m tiny.h5 -f prompt -n 4 --ignore-eos --question A --question B");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.out.data, "> A"), 1);
    ck_assert_int_eq(program_lines(r.out.data, "> B"), 1);
    ck_assert_int_eq(program_lines(r.err.data, "prompt: "), 1); /* the summary */
    program_run(&r, 2, "generate -m tiny.h5 -p a --force-tokens end");
    program_exits(&r, 0);
    ck_assert_str_eq(r.out.data, "\n");
    ck_assert_int_eq(program_lines(r.err.data, "the answer is empty: "), 1);
    program_clear(&r);
    json_decref(o);
}
END_TEST

START_TEST(test_an_answer_that_is_cut_is_said_to_be)
{
    static const char one[] = "the answer was cut at the length that '--max-new' allows",
                      all[] = "2 of 2 answers were cut at the length";
    program_result r = {0};
    program_run(&r, 1, "generate -m tiny.h5 -p 'It was' --chat=off -n 2");
    program_exits(&r, 0);
    ck_assert_msg(strstr(r.err.data, one), "%s", r.err.data);
    program_run(&r, 2, "generate -m tiny.h5 -p 'It was' --chat=off -n 2 --question a --question b");
    program_exits(&r, 0);
    ck_assert_msg(strstr(r.err.data, all), "%s", r.err.data);
    program_run(&r, 1, "generate -m tiny.h5 -p 'It was' --chat=off -n 2 --ignore-eos");
    program_exits(&r, 0);
    ck_assert_ptr_null(strstr(r.err.data, "cut at"));
    program_clear(&r);
}
END_TEST

START_TEST(test_a_stop_text_ends_the_answer_before_it)
{
    json_t *whole = generate(1, "-f prompt -n 40 --ignore-eos --temperature 1 --seed 5");
    const char *text = json_string_value(json_object_get(whole, "text"));
    const char *at = text;
    while (*at && (at - text < 8 || *at < '0' || *at > 'z' || *at == '\\' || *at == '\'')) at++;
    ck_assert_msg(*at, "the text has no plain character to stop at: %s", text);
    char options[128];
    snprintf(options, sizeof options,
             "-f prompt -n 40 --ignore-eos --temperature 1 --seed 5 --stop 'xyzzy' --stop '%c'", *at);
    json_t *cut = generate(1, options);
    const char *first = strchr(text, *at);
    ck_assert_int_eq((int)strlen(json_string_value(json_object_get(cut, "text"))), (int)(first - text));
    ck_assert_str_eq(json_string_value(json_object_get(cut, "finish_reason")), "stop");
    json_decref(whole);
    json_decref(cut);
}
END_TEST

START_TEST(test_samples_depend_on_the_seed_and_on_nothing_else)
{
    json_t *a = generate(1, "-f prompt -n 16 --ignore-eos --temperature 1.5 --seed 7 --deterministic");
    json_t *b = generate(2, "-f prompt -n 16 --ignore-eos --temperature 1.5 --seed 7 --deterministic");
    json_t *c = generate(1, "-f prompt -n 16 --ignore-eos --temperature 1.5 --seed 8 --deterministic");
    same_answer(a, b);
    ck_assert(!json_equal(json_object_get(a, "token_ids"), json_object_get(c, "token_ids")));
    json_decref(a);
    json_decref(b);
    json_decref(c);
}
END_TEST

START_TEST(test_forced_tokens_are_fed)
{
    json_t *o = generate(1, "-f prompt -n 5 --ignore-eos --force-tokens forced");
    const json_t *ids = json_object_get(o, "token_ids");
    ck_assert_uint_eq(json_array_size(ids), 5);
    for (size_t i = 0; i < 3; i++) ck_assert_int_eq(json_integer_value(json_array_get(ids, i)), 104 + (json_int_t)i);
    json_decref(o);
}
END_TEST

/* Longer than the time-out: the other ranks have nothing to do meanwhile. */
START_TEST(test_waiting_for_the_prompt_is_no_hang)
{
    program_result r = {0};
    program_run(&r, 1,
                "--version > version; { sleep 8; echo One prompt; } | " MPIEXEC " -n 3 " LONGHAUL
                " generate -m tiny.h5 -n 2 --comm-timeout 4 -q");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

START_TEST(test_a_text_that_cannot_fit_is_refused_before_it_is_tokenized)
{
    program_result r = {0};
    program_run(&r, 1, "--version > version; head -c 10000000 /dev/zero | tr '\\0' a > letters");
    for (int ranks = 1; ranks <= 2; ranks++) {
        program_refuses(ranks, 2, "the prompt has 9.5 MiB, at least ", "generate -m tiny.h5 -f letters -n 2");
        program_refuses(ranks, 2, "a question has 9.5 MiB, at least ",
                        "generate -m tiny.h5 -p abc --questions letters -n 2");
    }
    program_clear(&r);
}
END_TEST

/* How large a share of a prompt is shows when the prompt is there. */
START_TEST(test_a_block_that_a_share_of_the_prompt_does_not_hold_is_refused)
{
    static const char message[] = "'--evict block:16' must be smaller than the budget of 5 entries";
    program_result r = {0};
    program_run(&r, 1, "--version > version; head -c 100 /dev/zero | tr '\\0' a > hundred");
    for (int ranks = 1; ranks <= 2; ranks++)
        program_refuses(ranks, 2, message,
                        "generate -m tiny.h5 -f hundred --chat=off -n 2 --policy h2o --budget 5% --evict block:16");
    program_refuses(1, 2, message, "plan -m tiny.h5 --context 100 --policy h2o --budget 5% --evict block:16");
    program_clear(&r);
}
END_TEST

/* An answer of a minute, interrupted once there is some text, or the program has computed for so many hundredths of a
 * second, however long that takes on a busy machine. */
#define LONG_ANSWER "generate -m long.h5 -p a -n 100000 --ignore-eos"
#define TEXT "[ $(wc -c < shown.$$) -gt 200 ]"
#define COMPUTED(ticks) "[ $(cut -d ' ' -f 14 /proc/$p/stat) -gt " ticks " ]"
#define INTERRUPT(signal, when)                                                                                       \
    " > shown.$$ & p=$!; while kill -0 $p && ! " when "; do sleep 0.1; done; kill -" signal " $p; wait $p; code=$?; " \
    "mv shown.$$ shown; exit $code"

START_TEST(test_an_interrupt_ends_with_what_there_is)
{
    program_result r = {0};
    json_error_t error;
    program_run(&r, 1, LONG_ANSWER INTERRUPT("INT", TEXT));
    program_exits(&r, 75);
    ck_assert_int_eq(program_lines(r.err.data, "longhaul: warning: interrupted after"), 1);
    program_run(&r, 1, "--version > version; test $(stat -c %%s shown) -gt 100"); /* text came as it was made */
    program_exits(&r, 0);
    program_run(&r, 1, LONG_ANSWER " --json" INTERRUPT("TERM", COMPUTED("100")));
    program_exits(&r, 75);
    json_t *o = json_load_file("shown", 0, &error);
    ck_assert_ptr_nonnull(o);
    ck_assert_str_eq(json_string_value(json_object_get(o, "finish_reason")), "interrupted");
    ck_assert_uint_gt(json_array_size(json_object_get(o, "token_ids")), 10);
    json_decref(o);
    program_run(&r, 2, LONG_ANSWER INTERRUPT("USR1", TEXT));
    program_exits(&r, 75);
    ck_assert_int_eq(program_lines(r.err.data, "longhaul: warning: interrupted after"), 1);
    /* Ctrl-C of mpirun: its own exit code, but rank 0's words. */
    program_run(&r, 2, LONG_ANSWER INTERRUPT("INT", TEXT));
    ck_assert_int_ne(r.code, 0);
    ck_assert_int_eq(program_lines(r.err.data, "longhaul: warning: interrupted after"), 1);
    program_clear(&r);
}
END_TEST

/* It would take minutes to its end. */
START_TEST(test_an_answer_that_nobody_reads_ends)
{
    program_result r = {0};
    program_run(&r, 1,
                "--version > version; { timeout 60 " LONGHAUL " " LONG_ANSWER
                " -q; echo $? > code; } | head -c 9 | wc -c; "
                "exit $(cat code)");
    program_exits(&r, 0);
    ck_assert_str_eq(r.out.data, "9\n");
    program_clear(&r);
}
END_TEST

/* srun sends a signal to all ranks, others to one. The launcher's own code is the first rank's that ends; what each
 * of them ends with is seen by a shell around it, which stays until all have ended: at the first end the launcher
 * ends the others. */
START_TEST(test_an_interrupt_of_any_rank_is_one_of_all)
{
    program_result r = {0};
    for (int ranks = 2; ranks <= 4; ranks++) {
        program_run(
            &r, 1,
            "--version > version; rm -f codes shown.*; " MPIEXEC " -n %d sh -c 'trap \"\" TERM; " LONGHAUL
            " generate -m long.h5 -p a -n 100000 --ignore-eos > shown.$OMPI_COMM_WORLD_RANK & p=$!; "
            "[ $OMPI_COMM_WORLD_RANK != %d ] || { while [ ! -s shown.0 ]; do sleep 0.1; done; kill -USR1 $p; }; "
            "wait $p; echo code $? >> codes; sleep 2' ; cat codes >&2",
            ranks, ranks - 1);
        ck_assert_int_eq(program_lines(r.err.data, "longhaul: warning: interrupted after"), 1);
        ck_assert_msg(program_lines(r.err.data, "code 75") == ranks, "%s", r.err.data);
    }
    program_clear(&r);
}
END_TEST

/* The cache would have been saved after a prompt of a minute. */
START_TEST(test_an_interrupt_of_a_prompt_says_that_nothing_was_saved)
{
    program_result r = {0};
    program_run(&r, 1, "--version > version && yes | head -c 100000 > pages");
    program_run(&r, 2,
                "generate -m long.h5 -f pages -n 1 --save-cache pages.h5" INTERRUPT("USR1", "ls pages.h5.*.partial"));
    program_exits(&r, 75);
    ck_assert_int_eq(program_lines(r.err.data, "longhaul: warning: interrupted during prefill; no file was"), 1);
    program_run(&r, 1, "--version > version; test -s shown -o -e pages.h5 || ls | grep partial");
    program_exits(&r, 1);
    program_clear(&r);
}
END_TEST

/* Four hundred answers of a moment each, some of them done. */
START_TEST(test_an_interrupt_keeps_the_answers_before)
{
    program_result r = {0};
    json_error_t error;
    program_run(&r, 1,
                "generate -m long.h5 -p a -n 500 --ignore-eos --json $(yes -- '--question b' | head -400)" INTERRUPT(
                    "INT", COMPUTED("300")));
    program_exits(&r, 75);
    json_t *o = json_load_file("shown", 0, &error);
    ck_assert_msg(o != NULL, "no JSON: %s", error.text);
    const json_t *answers = json_object_get(o, "answers");
    ck_assert_uint_gt(json_array_size(answers), 1);
    ck_assert_uint_eq(json_array_size(json_object_get(json_array_get(answers, 0), "token_ids")), 500);
    const json_t *last = json_array_get(answers, json_array_size(answers) - 1);
    ck_assert_str_eq(json_string_value(json_object_get(last, "finish_reason")), "interrupted");
    json_decref(o);
    program_clear(&r);
}
END_TEST

/* A letter to which one answer does not come, and two others do soon. */
typedef struct stop_letter {
    char letter;
    int endless, soon[2], found;
} stop_letter;

static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

static const char *text_of(const json_t *answers, int i)
{
    return json_string_value(json_object_get(json_array_get(answers, (size_t)i), "text"));
}

static void find_letter(const json_t *answers, stop_letter *out)
{
    enum { SOON = 400 };
    for (const char *letter = LETTERS; *letter && out->found < 2; letter++) {
        *out = (stop_letter){.letter = *letter, .endless = -1};
        for (int i = 0; i < (int)json_array_size(answers); i++) {
            const json_t *text = json_object_get(json_array_get(answers, (size_t)i), "text");
            const char *at = memchr(json_string_value(text), *letter, json_string_length(text));
            if (!at) out->endless = i;
            if (at && at - json_string_value(text) < SOON && strlen(json_string_value(text)) > SOON && out->found < 2)
                out->soon[out->found++] = i;
        }
        if (out->endless < 0) out->found = 0;
    }
    ck_assert_msg(out->found == 2, "no letter ends some answers and not others");
}

/* Two answers are complete and wait for the first one, which lasts for minutes. */
START_TEST(test_an_interrupt_shows_answers_that_waited)
{
    enum { ASKED = 8 };
    program_result r = {0};
    stop_letter stop = {0};
    lh_buf want = {0}, shown = {0};
    char line[256], text[2][512];
    json_t *o = NULL;
    program_run(&r, 1,
                "generate -m long.h5 -p a -n 4000 --ignore-eos --deterministic --json --question b --question c "
                "--question d --question e --question f --question g --question h --question i");
    program_exits(&r, 0);
    json_t *all = json_loads(r.out.data, JSON_ALLOW_NUL, NULL), *answers = json_object_get(all, "answers");
    ck_assert_uint_eq(json_array_size(answers), ASKED);
    find_letter(answers, &stop);
    for (int k = 0; k < 2; k++) {
        const char *whole = text_of(answers, stop.soon[k]);
        snprintf(text[k], sizeof text[k], "%.*s", (int)strcspn(whole, (const char[]){stop.letter, 0}), whole);
        const size_t n = strlen(text[k]);
        lh_buf_printf(&want, "\n> %c\n%s%s", 'b' + stop.soon[k], text[k], n && text[k][n - 1] == '\n' ? "" : "\n");
    }
    snprintf(line, sizeof line,
             "generate -m long.h5 -p a -n 100000 --ignore-eos --deterministic --stop %c --question %c --question %c "
             "--question %c",
             stop.letter, 'b' + stop.endless, 'b' + stop.soon[0], 'b' + stop.soon[1]);
    for (int ranks = 1; ranks <= 2; ranks++) {
        program_run(&r, ranks, "%s" INTERRUPT("USR1", "[ $(wc -c < shown.$$) -gt 4000 ]"), line);
        program_exits(&r, 75);
        ck_assert_int_eq(program_lines(r.err.data, "longhaul: warning: interrupted after 2 of 3 answers"), 1);
        shown.bytes = 0;
        ck_assert_int_eq(lh_file_read(&shown, "shown", 1 << 20), LH_OK);
        ck_assert(shown.data[0] == '>' && shown.data[2] == 'b' + stop.endless && shown.bytes > want.bytes);
        ck_assert_mem_eq(shown.data + shown.bytes - want.bytes, want.data, want.bytes);
    }
    /* nothing shows how far such a run is: until both are complete */
    for (int ticks = 40; ticks < 10000 && json_array_size(json_object_get(o, "answers")) < 3; ticks *= 2) {
        json_decref(o);
        program_run(&r, 1, "%s --json" INTERRUPT("USR1", "[ $(cut -d ' ' -f 14 /proc/$p/stat) -gt %d ]"), line, ticks);
        program_exits(&r, 75);
        o = json_load_file("shown", JSON_ALLOW_NUL, NULL);
    }
    answers = json_object_get(o, "answers");
    ck_assert_uint_eq(json_array_size(answers), 3);
    for (int k = 0; k < 3; k++) {
        const json_t *answer = json_array_get(answers, (size_t)k);
        ck_assert_int_eq(json_string_value(json_object_get(answer, "question"))[0],
                         'b' + (k ? stop.soon[k - 1] : stop.endless));
        ck_assert_str_eq(json_string_value(json_object_get(answer, "finish_reason")), k ? "stop" : "interrupted");
        if (k) ck_assert_str_eq(text_of(answers, k), text[k - 1]);
    }
    json_decref(o);
    json_decref(all);
    lh_buf_clear(&want);
    lh_buf_clear(&shown);
    program_clear(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_the_record_of_a_run_is_complete,
                                  test_the_text_does_not_depend_on_ranks_when_deterministic,
                                  test_prompt_comes_from_option_file_input_and_ids_alike,
                                  test_a_budget_that_holds_everything_changes_nothing,
                                  test_every_question_starts_from_the_state_after_the_context,
                                  test_text_is_shown_as_it_is_made,
                                  test_no_library_writes_among_the_results,
                                  test_an_answer_that_is_cut_is_said_to_be,
                                  test_a_stop_text_ends_the_answer_before_it,
                                  test_samples_depend_on_the_seed_and_on_nothing_else,
                                  test_forced_tokens_are_fed,
                                  test_waiting_for_the_prompt_is_no_hang,
                                  test_a_text_that_cannot_fit_is_refused_before_it_is_tokenized,
                                  test_a_block_that_a_share_of_the_prompt_does_not_hold_is_refused,
                                  test_an_interrupt_ends_with_what_there_is,
                                  test_an_answer_that_nobody_reads_ends,
                                  test_an_interrupt_of_any_rank_is_one_of_all,
                                  test_an_interrupt_of_a_prompt_says_that_nothing_was_saved,
                                  test_an_interrupt_keeps_the_answers_before,
                                  test_an_interrupt_shows_answers_that_waited,
                                  NULL};
    program_enter();
    tiny_write("tiny");
    program_file("prompt", PROMPT);
    program_file("forced", "104 105 106\n");
    program_file("end", "257\n");
    program_result r = {0};
    program_run(&r, 1,
                "import tiny -o tiny.h5 -q && " LONGHAUL " tokenize -m tiny.h5 -f prompt > ids && " LONGHAUL
                " import --random tiny -o long.h5 -q");
    int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    if (code == 0) code = suite_run("cli generate", tests);
    program_leave();
    return code;
}
