/* `generate --resume`: a run that is killed, interrupted or has no room for its state comes to the same text and files
 * as one that nobody disturbs. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "cli/program.h"
#include "suite.h"

#define RUN                                                                                                          \
    "generate -m m.h5 -f pages --chat=off --deterministic --threads 1 --ignore-eos -n 6 --policy longhaul --budget " \
    "700 --json --save-cache c.h5 --keep-sets k.h5 --logits l.h5 --resume p.h5 --checkpoint-every "

/* While a run in the background has written no checkpoint; then what becomes of it, and its exit code. */
#define UNTIL_CHECKPOINT(then) \
    " > said & p=$!; while kill -0 $p && ! [ -e p.h5 ]; do sleep 0.01; done; " then "; wait $p; exit $?"

static void must(const char *command)
{
    program_result r = {0};
    program_run(&r, 1, "--version > version && %s", command);
    program_exits(&r, 0);
    program_clear(&r);
}

/* The run to its end, which goes on with the checkpoint that is there. */
static void goes_on(int ranks)
{
    program_result r = {0};
    program_run(&r, ranks, RUN "0");
    program_exits(&r, 0);
    ck_assert_msg(strstr(r.err.data, "the prefill goes on at layer ") != NULL, "%s", r.err.data);
    program_clear(&r);
    must("cmp c.h5 whole/c.h5 && cmp k.h5 whole/k.h5 && cmp l.h5 whole/l.h5 && ! ls p.h5* c.h5.*partial 2> /dev/null");
}

START_TEST(test_a_prefill_that_was_killed_goes_on)
{
    program_result r = {0};
    program_run(&r, 1, RUN "0" UNTIL_CHECKPOINT("kill -KILL $p"));
    program_exits(&r, 128 + 9);
    must("rm -f *.partial; cp p.h5 kept.h5; " LONGHAUL " verify p.h5 && " LONGHAUL " info p.h5 | grep 'kind: prefill'");
    for (int ranks = 1; ranks <= 4; ranks++) {
        must("cp kept.h5 p.h5");
        goes_on(ranks);
    }
    for (int ranks = 2; ranks <= 4; ranks++) { /* what a killed run leaves is a copy taken under way */
        program_run(&r, ranks, RUN "0" UNTIL_CHECKPOINT("cp p.h5 kept.h5"));
        program_exits(&r, 0);
        must("cp kept.h5 p.h5");
        goes_on(5 - ranks);
    }
    program_clear(&r);
}
END_TEST

START_TEST(test_a_prefill_that_is_told_to_end_writes_a_checkpoint_and_goes_on)
{
    program_result r = {0};
    for (int ranks = 1; ranks <= 3; ranks++) {
        /* not one by the clock */
        program_run(&r, ranks,
                    RUN "1000 > said & p=$!; while kill -0 $p && ! ls k.h5.*.partial; do sleep 0.01; "
                        "done; sleep 0.1; kill -USR1 $p; wait $p; exit $?");
        program_exits(&r, 75);
        ck_assert_int_eq(program_lines(r.err.data, "longhaul: warning: interrupted during prefill: the run ends with"),
                         1);
        ck_assert_int_eq(
            program_lines(r.err.data, "longhaul: warning: interrupted during prefill: the same command goes on at"), 1);
        must("! ls *.partial 2> /dev/null");
        goes_on(ranks);
    }
    program_clear(&r);
}
END_TEST

START_TEST(test_a_full_disk_costs_a_warning)
{
    program_result r = {0};
    program_run(&r, 1,
                "--version > v && ulimit -f 64 && " LONGHAUL
                " generate -m m.h5 -f pages --chat=off -n 2 --resume p.h5 --checkpoint-every 0");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.err.data, "longhaul: warning: the prefill goes on without a new checkpoint: "), 1);
    must("! ls p.h5* 2> /dev/null");
    program_clear(&r);
}
END_TEST

START_TEST(test_what_cannot_go_on_is_refused)
{
    program_result r = {0};
    program_refuses(1, 2, "give '--resume FILE', too", "generate -m m.h5 -p a --checkpoint-every 5");
    program_refuses(2, 2, "leave out '--load-cache'", "generate -m m.h5 --load-cache c.h5 --resume p.h5");
    program_run(&r, 1, RUN "0" UNTIL_CHECKPOINT("cp p.h5 kept.h5"));
    program_exits(&r, 0);
    must("head -c 30000 kept.h5 > torn.h5");
#define LIKE "generate -m m.h5 -f pages --chat=off --deterministic --threads 1 --ignore-eos -n "
    program_refuses(2, 2, "'kept.h5' belongs to another run: 'policy' is \"longhaul\" there and \"h2o\" here",
                    LIKE "6 --policy h2o --budget 700 --resume kept.h5");
    program_refuses(
        1, 2, "'deterministic' is true there and false here",
        "generate -m m.h5 -f pages --chat=off --ignore-eos -n 6 --policy longhaul --budget 700 --resume kept.h5");
    program_refuses(2, 2, "'kept.h5' belongs to another run: 'max-new' is 6 there and 7 here",
                    LIKE "7 --policy longhaul --budget 700 --resume kept.h5");
    must("sed 's/ 9 / 8 /' pages > others");
    program_refuses(1, 2, "'kept.h5' belongs to another prompt: its token ",
                    "generate -m m.h5 -f others --chat=off --deterministic --ignore-eos -n 6 --policy longhaul "
                    "--budget 700 --save-cache c.h5 --keep-sets k.h5 --logits l.h5 --resume kept.h5");
    program_refuses(2, 4, "torn.h5", LIKE "6 --policy longhaul --budget 700 --resume torn.h5");
    program_refuses(2, 4, "'whole/c.h5' is the cache of a session, not the state of an interrupted run",
                    LIKE "6 --budget 700 --policy longhaul --resume whole/c.h5");
    program_refuses(1, 6, "no/such", LIKE "6 --resume no/such/p.h5");
    program_refuses(1, 4, "'kept.h5' is a prefill, not a cache", "generate -m m.h5 --load-cache kept.h5 -n 2");
    program_clear(&r);
}
END_TEST

/* A run with a single answer, whose text is long; options come after it. */
#define ANSWER                                                                                                  \
    "generate -m m.h5 -f short --chat=off --deterministic --threads 1 --ignore-eos -n 1500 --policy streaming " \
    "--budget "                                                                                                 \
    "300 --question 'What? ' --scenario "

/* In the background until its state holds the answer; then what becomes of it, and its exit code. */
#define UNTIL_ANSWER(then)                                                                                            \
    " --resume s.h5 --checkpoint-every 0.2 > said & p=$!; while kill -0 $p && ! " LONGHAUL " info s.h5 2> /dev/null " \
    "| grep -q 'kind: cache'; do sleep 0.05; done; sleep 0.1; " then "; wait $p; exit $?"

/* Interrupted or killed in the answer; the same command prints the text as a whole, on another number of ranks. */
static void answer_goes_on(const char *scenario, int ranks, const char *then, int code)
{
    program_result r = {0};
    char command[1024];
    snprintf(command, sizeof command, ANSWER "%s%s", scenario, then);
    program_run(&r, ranks, "%s", command);
    program_exits(&r, code);
    must(LONGHAUL " verify s.h5; rm -f *.partial");
    snprintf(command, sizeof command,
             "generate -m m.h5 -f short --chat=off --deterministic --threads 1 --ignore-eos -n 1500 --policy streaming "
             "--budget 300 --question 'Who? ' --scenario %s --resume s.h5",
             scenario);
    program_refuses(1, 2, "'s.h5' belongs to another run: 'question' is [\"What? \"] there and [\"Who? \"] here",
                    command);
    snprintf(command, sizeof command, ANSWER "%s --resume s.h5 --save-cache c.h5", scenario);
    program_refuses(1, 2, "'s.h5' belongs to another run: 'save-cache' is null there and \"c.h5\" here", command);
    if (ranks == 1) { /* an answer that is not printed loses nothing */
        program_run(&r, 1, ANSWER "%s --resume s.h5 --json > /dev/full", scenario);
        program_exits(&r, 6);
        must("ls s.h5");
    }
    program_run(&r, ranks % 3 + 1, ANSWER "%s --resume s.h5", scenario);
    program_exits(&r, 0);
    ck_assert_msg(strstr(r.err.data, "the run continues after ") != NULL, "%s", r.err.data);
    FILE *f = fopen("resumed", "wb");
    ck_assert(f && fwrite(r.out.data, 1, (size_t)r.out.bytes, f) == (size_t)r.out.bytes && fclose(f) == 0);
    snprintf(command, sizeof command, "cmp resumed whole/%s && ! ls s.h5* 2> /dev/null", scenario);
    must(command);
    program_clear(&r);
}

START_TEST(test_an_answer_that_was_interrupted_goes_on_in_its_text)
{
    for (int ranks = 1; ranks <= 3; ranks++)
        answer_goes_on(ranks == 2 ? "question-aware" : "context-only", ranks, UNTIL_ANSWER("kill -USR1 $p"), 75);
    answer_goes_on("context-only", 1, UNTIL_ANSWER("kill -KILL $p"), 128 + 9);
}
END_TEST

/* Each begins again after the prompt, which is not read again. */
START_TEST(test_several_answers_begin_again_after_the_prompt)
{
#define SEVERAL                                                                                                 \
    "generate -m m.h5 -f short --chat=off --deterministic --threads 1 --ignore-eos -n 1500 --policy ask-later " \
    "--budget "                                                                                                 \
    "300 --question 'What? ' --question 'Who? ' "
    program_result r = {0};
    must(LONGHAUL " " SEVERAL "> whole/several");
    for (int ranks = 1; ranks <= 3; ranks += 2) {
        program_run(&r, ranks, SEVERAL UNTIL_ANSWER("kill -USR1 $p"));
        program_exits(&r, 75);
        program_run(&r, 4 - ranks, SEVERAL "--resume s.h5 | cmp - whole/several");
        program_exits(&r, 0);
        ck_assert_msg(strstr(r.err.data, "the run continues after 0 tokens") != NULL, "%s", r.err.data);
        must("! ls s.h5* 2> /dev/null");
    }
    program_clear(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_a_prefill_that_was_killed_goes_on,
                                  test_a_prefill_that_is_told_to_end_writes_a_checkpoint_and_goes_on,
                                  test_a_full_disk_costs_a_warning,
                                  test_what_cannot_go_on_is_refused,
                                  test_an_answer_that_was_interrupted_goes_on_in_its_text,
                                  test_several_answers_begin_again_after_the_prompt,
                                  NULL};
    program_result r = {0};
    program_enter();
    program_run(&r, 1,
                "import --random tiny -o m.h5 -q && seq 1 1600 | tr '\\n' ' ' > pages && mkdir whole && " LONGHAUL
                " " RUN "0 && mv c.h5 k.h5 l.h5 whole && seq 1 400 | tr '\\n' ' ' > short && " LONGHAUL " " ANSWER
                "context-only > whole/context-only && " LONGHAUL " " ANSWER "question-aware > whole/question-aware");
    int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    if (code == 0) code = suite_run("cli checkpoint", tests);
    program_leave();
    return code;
}
