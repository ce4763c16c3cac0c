/* What a run may write to, and what it may not. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/program.h"
#include "cli/tiny.h"
#include "suite.h"

#define NEEDLE                                                                                           \
    "eval needle -m tiny.h5 --haystack texts --length 200 --depth 0.5 --policy snapkv --budget 32 -n 2 " \
    "--deterministic "

/* Each file that is read, after a refusal. */
static void stays(const char *name, const char *copy)
{
    program_result r = {0};
    program_run(&r, 1, "--version > v && cmp %s %s", name, copy);
    program_exits(&r, 0);
    program_clear(&r);
}

START_TEST(test_no_output_log_or_table_is_an_input)
{
    static const struct {
        const char *part, *line;
    } cases[] = {
        {"'--log-file' and '--model' are both 'tiny.h5'", "generate -m tiny.h5 -p a --log-file tiny.h5"},
        {"are both './ask'", "generate -m tiny.h5 -f ask --log-file ./ask"},
        {"are both 'ask'", "generate -m tiny.h5 -p a --question-file ask --log-file ask"},
        {"are both 'ask0'", "generate -m tiny.h5 -f ask0 --log-file ask%r"},
        {"'--save-cache' and '--log-file' are both 'new.h5'",
         "generate -m tiny.h5 -p a --save-cache new.h5 --log-file new.h5"},
        {"are both", "generate -m tiny.h5 -p a --save-cache new.h5 --logits ./new.h5"},
        {"are both", "generate -m tiny.h5 -p a --layer-budget lb.csv --budget 8 --log-file lb.csv"},
        {"'--log-file' would write 'model.gguf', which is read", "import model.gguf -o x.h5 --log-file model.gguf"},
        {"'--output' would write 'model.gguf', which is read", "import model.gguf -o model.gguf"},
        {"one of the files that are read of 'tiny'", "import tiny -o x.h5 --log-file tiny/config.json"},
        {"'--log-file' would write 'tiny.h5'", "info tiny.h5 --log-file tiny.h5"},
        {"'--log-file' would write 'tiny.h5'", "verify tiny.h5 --log-file tiny.h5"},
        {"'--output o' also writes 'o.timings.jsonl', which is that of --input",
         "batch -m tiny.h5 -i o.timings.jsonl -o o"},
        {"'--output o' also writes 'o.state', which is that of --metrics",
         "batch -m tiny.h5 -i ask -o o --metrics ./o.state"},
        {"'--output o' also writes 'o.held', which is that of --log-file",
         "batch -m tiny.h5 -i ask -o o --log-file o.held"},
        {"are both 'tiny.h5'", "bench reading -m tiny.h5 --csv tiny.h5 --quick"},
        {"are both 'ask'", "tokenize -m tiny.h5 -f ask --log-file ask"},
        {"'--csv texts/a.txt' would be one of the files that are read of 'texts'", NEEDLE "--csv texts/a.txt"},
        {"'--log-file texts/new.txt' would be one of", NEEDLE "--log-file texts/new.txt"},
        {"'--answers linked' would be one of", NEEDLE "--answers linked"},
        {"are both 'lb.csv'", NEEDLE "--layer-budget lb.csv --csv lb.csv"},
        {"are both 'lb.csv'",
         "eval needle -m tiny.h5 --haystack texts --length 200 --policy 'snapkv --layer-budget lb.csv' --budget 32 "
         "--csv lb.csv"},
        {"are both 'lb.csv'",
         "eval needle -m tiny.h5 --haystack texts --length 200 --policy 'snapkv --layer-budget lb.csv' --budget 32 "
         "--log-file lb.csv"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) program_refuses(1, 2, cases[i].part, cases[i].line);
    program_refuses(2, 2, "are both 'ask1'", "generate -m tiny.h5 -f ask1 --log-file ask%r");
    stays("tiny.h5", "tiny.copy");
    stays("ask", "ask.copy");
    stays("lb.csv", "lb.copy");
    stays("texts/a.txt", "ask.copy");
    program_result r = {0};
    program_run(&r, 1, "--version > v; ls new.h5 x.h5 texts/new.txt ask2");
    ck_assert_str_eq(r.out.data, "");
    program_clear(&r);
}
END_TEST

/* An output replaces an earlier one of its kind, and an empty file. */
START_TEST(test_a_file_of_another_kind_is_never_replaced)
{
    static const struct {
        const char *part, *line;
    } cases[] = {
        {"'--save-cache' would replace 'ask', which is no HDF5 file of the kind cache",
         "generate -m tiny.h5 -p a --save-cache ask"},
        {"'--save-cache' would replace 'tiny.copy'", "generate -m tiny.h5 -p a --save-cache tiny.copy"},
        {"which is no HDF5 file of the kind keep-sets", "generate -m tiny.h5 -p a --keep-sets tiny.copy"},
        {"'--logits' would replace 'ask'", "generate -m tiny.h5 -p a --logits ask"},
        {"'--output' would replace 'ask'", "trace -m tiny.h5 -p a -o ask"},
        {"'--join' would replace 'ask'", "trace --join ask"},
        {"'--output' would replace 'tiny.copy'", "replay trace.h5 -o tiny.copy"},
        {"'--make-budgets' would replace 'tiny.copy', which is no text", "replay trace.h5 --make-budgets tiny.copy"},
        {"'--output' would replace 'tiny.copy', which is no text", "report a.h5 -o tiny.copy"},
        {"'--csv' would replace 'tiny.copy', which is no text", NEEDLE "--csv tiny.copy"},
        {"'--output' would replace 'ask'", NEEDLE "-o ask"},
        {"'--csv' would replace 'tiny.copy', which is no text", "bench reading -m tiny.h5 --csv tiny.copy --quick"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) program_refuses(1, 6, cases[i].part, cases[i].line);
    stays("tiny.copy", "tiny.h5");
    stays("ask", "ask.copy");
    program_result r = {0};
    for (int again = 0; again < 2; again++) {
        program_run(&r, 1, "generate -m tiny.h5 -p a -n 1 --save-cache c.h5 --logits l.h5 -q");
        program_exits(&r, 0);
    }
    program_run(&r, 1,
                "--version > v && cp empty new.h5 && " LONGHAUL
                " generate -m tiny.h5 -p a -n 1 --save-cache new.h5 -q > v && rm c.h5 l.h5 new.h5");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

START_TEST(test_devices_may_be_named_twice)
{
    program_result r = {0};
    program_run(&r, 1, NEEDLE "--csv /dev/null --answers /dev/null --log-file /dev/null && test -c /dev/null");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

START_TEST(test_a_dash_is_standard_output)
{
    program_result file = {0}, dash = {0}, r = {0};
    program_run(&file, 1, NEEDLE "--csv o.csv -q > shown && cat o.csv");
    program_exits(&file, 0);
    static const char *const names[] = {"-", "/proc/self/fd/1"};
    for (int i = 0; i < 2; i++) {
        program_run(&dash, 1, NEEDLE "--csv %s -q", names[i]);
        program_exits(&dash, 0);
        ck_assert_int_eq(strncmp(dash.out.data, file.out.data, (size_t)file.out.bytes), 0);
        if (i == 0) ck_assert_int_eq(dash.out.bytes, file.out.bytes); /* and no table after it */
        if (i == 1) ck_assert_int_gt(dash.out.bytes, file.out.bytes);
    }
    program_run(&r, 1, NEEDLE "--answers - -q");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.out.data, "snapkv"));
    program_run(&r, 1, "info tiny.h5 --log-file - -v");
    program_exits(&r, 0);
    program_run(&r, 1, "import tiny -o again.h5 --log-file -");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.out.data, "wrote 'again.h5'"));
    program_run(&r, 1, "--version > v; ls -d -- -*");
    ck_assert_str_eq(r.out.data, "");
    program_refuses(1, 2, "'--csv' and '--answers' are both '-'", NEEDLE "--csv - --answers -");
    program_refuses(1, 2, "'--json' and '--csv -' both print", NEEDLE "--csv - --json");
    program_refuses(1, 6, "'-': only text goes to standard output", "generate -m tiny.h5 -p a --logits -");
    program_refuses(1, 6, "'/proc/self/fd/1': it is a device", "generate -m tiny.h5 -p a --save-cache /proc/self/fd/1");
    program_clear(&file), program_clear(&dash), program_clear(&r);
}
END_TEST

START_TEST(test_an_output_that_is_a_link_stays_one)
{
    program_result r = {0};
    program_run(&r, 1, "--version > v && mkdir -p d && echo old > d/real.csv && ln -s d/real.csv link.csv");
    program_run(&r, 1, NEEDLE "--csv link.csv -q > shown && test -L link.csv && grep -q snapkv d/real.csv");
    program_exits(&r, 0);
    program_run(&r, 1, "--version > v && ln -s d/new.h5 link.h5");
    program_run(&r, 1, "import tiny -o link.h5 -q && test -L link.h5 && " LONGHAUL " verify d/new.h5");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

/* The first is interrupted when the others were refused: it leaves what it has finished, and no claims. */
START_TEST(test_the_second_run_is_refused_and_the_first_lives)
{
    program_result r = {0};
    program_run(
        &r, 1,
        "--version > v; " LONGHAUL " " NEEDLE "--seeds 400 --csv two.csv -o two.h5 > first.out 2> first.err & "
        "first=$!; for i in $(seq 200); do ls two.h5.*.partial > v 2>&1 && break; sleep 0.05; done; " LONGHAUL
        " " NEEDLE "--csv two.csv 2> second.err; second=$?; " LONGHAUL
        " import tiny -o two.h5 --force 2> third.err; third=$?; grep -c 'of this host writes it' second.err third.err; "
        "ls two.csv.*.partial two.h5.*.partial | wc -l; kill -INT $first; wait $first; "
        "echo $second $third $?; ls two.csv two.h5 two.h5.resume; ls *.partial");
    ck_assert_msg(strcmp(r.out.data, "second.err:1\nthird.err:1\n2\n6 6 75\ntwo.h5.resume\n") == 0, "%s%s", r.out.data,
                  r.err.data);
    program_clear(&r);
}
END_TEST

/* Two imports that begin together: one is refused, or came after the other; the file is whole. */
START_TEST(test_two_imports_at_once_leave_one_model)
{
    program_result r = {0};
    for (int i = 0; i < 4; i++) {
        program_run(
            &r, 1,
            "--version > v; rm -f both.h5; " LONGHAUL " import tiny -o both.h5 2> e1 & one=$!; " LONGHAUL
            " import tiny -o both.h5 2> e2; two=$?; wait $one; one=$?; cat e1 e2 >&2; test $one = 0 -o $two = 0 "
            "&& " LONGHAUL " verify both.h5 > shown && ! ls *.partial");
        program_exits(&r, 0);
    }
    program_clear(&r);
}
END_TEST

START_TEST(test_the_limit_of_file_sizes_is_a_message)
{
    program_result r = {0};
    program_run(&r, 1,
                "--version > v; cp tiny.h5 limited.h5; ulimit -f 100; " LONGHAUL " import tiny -o limited.h5 --force");
    program_exits(&r, 6);
    program_says(&r, "'limited.h5': File too large");
    stays("limited.h5", "tiny.h5");
    program_run(&r, 1, "--version > v; ls limited.h5.*");
    ck_assert_str_eq(r.out.data, "");
    program_clear(&r);
}
END_TEST

/* From the limit on with which --version works: a message or an answer, and never a signal, or a file that is blamed.
 */
START_TEST(test_the_limit_of_memory_is_a_message)
{
#ifndef __SANITIZE_ADDRESS__ /* which needs terabytes of address space */
    program_result r = {0};
    program_run(&r, 1,
                "--version > v; v=20000; until (ulimit -v $v; " LONGHAUL
                " --version > v) 2> v; do v=$((v + 128)); done; "
                "for more in 0 4000 8000 12000 14000 16000 17000 18000 19000 20000 24000 30000 60000; do "
                "(ulimit -v $((v + more)); " LONGHAUL " generate -m tiny.h5 -p abc -n 2 > o 2> e; c=$?; "
                "test $c = 0 || { test $c = 5 && grep -q 'ulimit -v' e; } || { echo $more: $c; cat e; }); done");
    program_exits(&r, 0);
    ck_assert_str_eq(r.out.data, "");
    program_clear(&r);
#endif
}
END_TEST

START_TEST(test_a_full_log_file_is_said_once)
{
    program_result r = {0};
    program_run(&r, 1, "generate -m tiny.h5 -p abc -n 2 --ignore-eos --log-file /dev/full -v");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.err.data, "longhaul: warning: [rank 0] cannot write the log file '/dev/full'"), 1);
    program_clear(&r);
}
END_TEST

START_TEST(test_an_empty_prompt_has_one_code)
{
    program_refuses(1, 3, "the prompt is empty: nothing was read from 'empty'", "generate -m tiny.h5 -f empty");
    program_refuses(1, 3, "the prompt is empty: nothing was read from 'empty'",
                    "generate -m tiny.h5 -f empty --question q");
    program_refuses(1, 3, "the document is empty: nothing was read from 'empty'", "chat -m tiny.h5 -f empty");
    program_refuses(1, 3, "the prompt is empty: 'empty' holds no token ids",
                    "generate -m tiny.h5 --prompt-tokens empty");
    program_refuses(2, 3, "the prompt is empty: 'empty'", "generate -m tiny.h5 --prompt-tokens empty");
}
END_TEST

/* The cache is larger than the limit of a file; answers, keep sets and logits are not, and nothing is lost of them. */
START_TEST(test_a_cache_that_cannot_be_saved_loses_nothing_else)
{
    program_result r = {0};
    json_error_t error;
    program_run(&r, 1,
                "--version > v && ulimit -f 64 && " LONGHAUL
                " generate -m tiny.h5 -f long -n 5 -q --ignore-eos --policy "
                "snapkv --budget 200 --save-cache c.h5 --keep-sets k.h5 --logits l.h5 --json > shown");
    program_exits(&r, 6);
    program_says(&r, "c.h5");
    json_t *o = json_load_file("shown", 0, &error);
    ck_assert_msg(json_array_size(json_object_get(o, "token_ids")) == 5, "%s", error.text);
    json_decref(o);
    program_run(&r, 1, "verify k.h5 -q && " LONGHAUL " verify l.h5 -q && ! ls c.h5* && rm k.h5 l.h5");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

/* As `head`: the run ends well and without a word, and its files are written. */
START_TEST(test_a_reader_that_goes_away_is_no_failure)
{
    static const char *const lines[] = {
        "generate -m tiny.h5 -p 'One, two, three, four.' -n 300 --ignore-eos -q --policy streaming -b 8 "
        "--keep-sets piped.h5 --logits rows.h5",
        "tokenize -m tiny.h5 --jsonl -f lines", NEEDLE "--budget 64 --csv - -q"};
    program_result r = {0};
    program_run(&r, 1, "--version > v; yes '\"abc\"' | head -n 20000 > lines");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        program_run(&r, 1,
                    "--version > v; { sleep 0.2; " LONGHAUL
                    " %s 2> said; echo code $? > code; } | : ; cat code said >&2",
                    lines[i]);
        ck_assert_msg(strcmp(r.err.data, "code 0\n") == 0, "%s: %s", lines[i], r.err.data);
    }
    program_run(&r, 1, "info piped.h5 -q && " LONGHAUL " info rows.h5 -q");
    program_exits(&r, 0);
    program_clear(&r);
}
END_TEST

/* The folder of the keep sets goes away while tokens are generated: answer and logits are there at the end. */
START_TEST(test_keep_sets_that_cannot_be_written_lose_nothing_else)
{
    program_result r = {0};
    json_error_t error;
    for (int ranks = 1; ranks <= 4; ranks++) {
        const int tokens = 4000 / ranks; /* which take about as long on more ranks */
        fclose(fopen("told", "w"));
        program_run(&r, 1, "--version > v && mkdir gone");
        program_run(&r, ranks,
                    "generate -v -m tiny.h5 -p 'Some words to begin with' -n %d --ignore-eos --policy h2o --budget 9 "
                    "--keep-sets gone/k.h5 --logits l.h5 --json > shown 2> told & p=$!; "
                    "while kill -0 $p && ! grep -q 'go through a layer' told; do sleep 0.02; done; rm -r gone; "
                    "wait $p; code=$?; grep -v 'longhaul: at ' told >&2; exit $code",
                    tokens);
        program_exits(&r, 6);
        ck_assert_ptr_nonnull(strstr(r.err.data, "gone/k.h5"));
        json_t *o = json_load_file("shown", JSON_ALLOW_NUL, &error);
        ck_assert_msg(json_array_size(json_object_get(o, "token_ids")) == (size_t)tokens, "%s", error.text);
        json_decref(o);
        program_run(&r, 1, "verify l.h5 -q && rm l.h5");
        program_exits(&r, 0);
    }
    program_clear(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_no_output_log_or_table_is_an_input,
                                  test_a_file_of_another_kind_is_never_replaced,
                                  test_devices_may_be_named_twice,
                                  test_a_dash_is_standard_output,
                                  test_an_output_that_is_a_link_stays_one,
                                  test_the_second_run_is_refused_and_the_first_lives,
                                  test_two_imports_at_once_leave_one_model,
                                  test_the_limit_of_file_sizes_is_a_message,
                                  test_the_limit_of_memory_is_a_message,
                                  test_a_full_log_file_is_said_once,
                                  test_an_empty_prompt_has_one_code,
                                  test_a_cache_that_cannot_be_saved_loses_nothing_else,
                                  test_keep_sets_that_cannot_be_written_lose_nothing_else,
                                  test_a_reader_that_goes_away_is_no_failure,
                                  NULL};
    program_enter();
    tiny_write("tiny");
    program_file("empty", "");
    program_file("ask", "What is it?");
    program_file("model.gguf", "This is no model.");
    program_file("lb.csv", "layer,weight\n0,1\n1,2\n2,1\n");
    program_result r = {0};
    program_run(&r, 1,
                "import tiny -o tiny.h5 -q && cp tiny.h5 tiny.copy && cp ask ask.copy && cp ask ask0 && cp ask ask1 && "
                "cp lb.csv lb.copy && mkdir texts && cp ask texts/a.txt && "
                "seq -f 'Line number %%g of a long and dull book.' 500 > texts/b.md && ln -s texts/b.md linked && "
                "head -n 60 texts/b.md > long");
    int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    if (code == 0) code = suite_run("cli outputs", tests);
    program_leave();
    return code;
}
