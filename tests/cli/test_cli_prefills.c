/* `batch --checkpoint-every`: a long prefill that is under way when a run is killed or asked to end goes on when it
 * resumes, on any ranks and replicas, and the output is that of a run which nobody disturbs. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "cli/program.h"
#include "suite.h"

/* The first line is read first, and the context of lines 3 and 4 last: in out.jsonl.prefill/1.h5 and 3.h5. */
#define BATCH                                                                                            \
    "batch -m m.h5 -i in.jsonl -o out.jsonl --deterministic --threads 1 --ignore-eos -n 6 --budget 300 " \
    "--ordered --checkpoint-every "

static void must(const char *command)
{
    program_result r = {0};
    program_run(&r, 1, "--version > version && %s", command);
    program_exits(&r, 0);
    program_clear(&r);
}

/* A run that gets a signal (`kill`: a command; $p: its process, or that of mpirun) when `reads` is true, in the middle
 * of a prefill: again, where it was too fast. */
static void end_when(int ranks, const char *options, const char *reads, const char *kill, int code)
{
    enum { TRIES = 5 };
    program_result r = {0};
    for (int tries = 0; r.code == 0 && tries < TRIES; tries++) {
        must("rm -rf out.jsonl*");
        program_run(&r, ranks,
                    BATCH "%s > said & p=$!; while kill -0 $p && ! %s; do sleep 0.01; done; %s; wait $p; code=$?; "
                          "ls out.jsonl.prefill/*.h5 > files || code=0; exit $code",
                    options, reads, kill);
    }
    program_exits(&r, code);
    program_clear(&r);
}

/* The same when it has written the prefill of this line. */
static void end_at(int ranks, int line, const char *kill, int code)
{
    char reads[64];
    snprintf(reads, sizeof reads, "[ -e out.jsonl.prefill/%d.h5 ]", line);
    end_when(ranks, "0", reads, kill, code);
}

/* The run to its end, as what was kept before says; then there is nothing but its files. */
static void goes_on(int ranks, const char *options, const char *says)
{
    program_result r = {0};
    program_run(&r, ranks, BATCH "0 --resume %s", options);
    program_exits(&r, 0);
    ck_assert_msg(strstr(r.err.data, says) != NULL, "%s", r.err.data);
    program_clear(&r);
    must("cmp out.jsonl whole.jsonl && ! ls -d out.jsonl.prefill out.jsonl.held 2> /dev/null");
}

static void keep(void)
{
    must("rm -rf kept && mkdir kept && cp -r out.jsonl* kept");
}

static void take_kept(void)
{
    must("rm -rf out.jsonl* && cp -r kept/* .");
}

START_TEST(test_a_prefill_that_was_killed_goes_on)
{
    static const struct {
        int ranks;
        const char *options;
    } ways[] = {{1, ""}, {2, ""}, {3, ""}, {4, ""}, {2, "--tp 1"}, {4, "--tp 2"}};
    static const int lines[] = {1, 3};
    for (size_t n = 0; n < sizeof lines / sizeof *lines; n++) {
        end_at(1, lines[n], "kill -KILL $p", 128 + 9);
        keep();
        for (size_t w = n; w < sizeof ways / sizeof *ways; w += 1 + n) {
            take_kept();
            goes_on(ways[w].ranks, ways[w].options, "1 of the prefills went on from a checkpoint");
        }
    }
    for (int ranks = 2; ranks <= 4; ranks++) {
        end_at(ranks, 3, "kill -KILL $(pgrep -P $p)", 128 + 9);
        goes_on(5 - ranks, "", "the prefill goes on at layer ");
    }
}
END_TEST

/* mpirun passes the signal on to all ranks, or it reaches one of them alone. */
START_TEST(test_replicas_keep_what_they_read)
{
    static const char *const kills[] = {"kill -USR1 $p", "kill -USR1 $(pgrep -P $p | tail -n 1)",
                                        "kill -USR1 $(pgrep -P $p | head -n 1)"};
    for (size_t k = 0; k < sizeof kills / sizeof *kills; k++) {
        end_when(2, "0 --tp 1", "[ $(ls out.jsonl.prefill | grep -c 'h5$') -gt 1 ]", kills[k], 75);
        goes_on(1 + (int)k, k == 2 ? "--tp 1" : "", "of the prefills went on from a checkpoint");
    }
}
END_TEST

START_TEST(test_a_run_that_is_asked_to_end_keeps_its_prefill)
{
    static const char *const kills[] = {"sleep 0.2; kill -USR1 $p", "sleep 0.2; kill -TERM $p",
                                        "sleep 0.2; kill -INT $p"};
    for (int ranks = 1; ranks <= 4; ranks++) { /* mpirun ends with a code of its own after the other signals */
        end_at(ranks, 3, "kill -USR1 $p", 75);
        goes_on(1 + ranks % 4, "", "1 of the prefills went on from a checkpoint");
    }
    for (size_t k = 0; k < sizeof kills / sizeof *kills; k++) { /* not by the clock */
        end_when(1, "1000", "[ -e out.jsonl.prefill ]", kills[k], 75);
        must("! ls out.jsonl.prefill/*.partial 2> /dev/null");
        goes_on(2, "", "1 of the prefills went on from a checkpoint");
    }
}
END_TEST

#define FILE_1 "'out.jsonl.prefill/1.h5'"
#define FROM_ITS_START "longhaul: warning: a prompt is read from its start: " FILE_1

START_TEST(test_a_file_of_no_use_is_dropped)
{
    program_result r = {0};
    end_at(1, 1, "kill -KILL $p", 128 + 9);
    keep();
    must("head -c 20000 kept/out.jsonl.prefill/1.h5 > t; mv t out.jsonl.prefill/1.h5");
    goes_on(2, "", "longhaul: warning: " FILE_1 " is damaged: its prompt is read from its start\n");
    take_kept();
    must(
        "dd if=/dev/urandom of=out.jsonl.prefill/1.h5 bs=4k count=1 conv=notrunc oflag=seek_bytes seek=$(($(stat -c %s "
        "out.jsonl.prefill/1.h5) - 400000)) 2> dd");
    goes_on(3, "", FROM_ITS_START);
    take_kept();
    must("mv out.jsonl.prefill/1.h5 out.jsonl.prefill/3.h5");
    goes_on(1, "", "longhaul: warning: a prompt is read from its start: 'out.jsonl.prefill/3.h5' belongs to another run: ");
    take_kept(); /* nothing is answered yet: another policy is another run */
    program_run(&r, 2, BATCH "0 --resume --policy snapkv");
    program_exits(&r, 0);
    ck_assert_msg(strstr(r.err.data, FROM_ITS_START " was made with the policy '") != NULL, "%s", r.err.data);
    take_kept(); /* a line that changed */
    must("cp in.jsonl before && sed 's/\"1 2 3/\"3 2 1/' before > in.jsonl");
    program_run(&r, 4, BATCH "0 --resume");
    program_exits(&r, 0);
    ck_assert_msg(strstr(r.err.data, FROM_ITS_START " belongs to another prompt: its token ") != NULL, "%s",
                  r.err.data);
    must("mv out.jsonl changed");
    program_run(&r, 1, BATCH "-1");
    program_exits(&r, 0);
    must("cmp out.jsonl changed && ! cmp -s changed whole.jsonl && mv before in.jsonl");
    program_clear(&r);
}
END_TEST

/* Files of other kinds and names, links, and the folder that a link leads to: nothing of them is read or removed. */
START_TEST(test_a_batch_removes_nothing_that_it_did_not_write)
{
    program_result r = {0};
    must("rm -rf out.jsonl* mine && mkdir mine && cp m.h5 mine/1.h5 && cp m.h5 mine/m.h5 && touch mine/a.partial");
    must("ln -s mine out.jsonl.prefill");
    program_run(&r, 2, BATCH "-1 --resume");
    program_exits(&r, 0);
    must("test -L out.jsonl.prefill -a -e mine/1.h5 -a -e mine/m.h5 -a -e mine/a.partial && rm out.jsonl");
    program_refuses(2, 6, "cannot keep prefills in 'out.jsonl.prefill': 'out.jsonl.prefill' is none of a batch",
                    "batch -m m.h5 -i in.jsonl -o out.jsonl --checkpoint-every 0");
    end_at(1, 3, "kill -KILL $p", 128 + 9);
    must(
        "cp mine/1.h5 out.jsonl.prefill/9.h5; ln -s ../m.h5 out.jsonl.prefill/8.h5; touch out.jsonl.prefill/x.partial");
    program_run(&r, 1, BATCH "0 --resume");
    program_exits(&r, 6);
    ck_assert_msg(strstr(r.err.data, "'out.jsonl.prefill/8.h5' is none of a batch, move it away"), "%s", r.err.data);
    program_run(&r, 1, BATCH "-1 --resume"); /* its own prefill goes, and that alone */
    program_exits(&r, 0);
    must("cd out.jsonl.prefill && test \"$(ls | tr '\\n' ' ')\" = '8.h5 9.h5 x.partial ' && cmp 9.h5 ../m.h5");
    must("rm -r out.jsonl.prefill mine");
    program_clear(&r);
}
END_TEST

START_TEST(test_files_are_of_runs_that_resume)
{
    program_result r = {0};
    end_at(1, 3, "kill -KILL $p", 128 + 9);
    must("rm -f out.jsonl out.jsonl.state");
    program_refuses(2, 2, "'out.jsonl.prefill' holds prefills of a run: continue it with '--resume'", BATCH "0");
    program_run(&r, 1, BATCH "-1 --resume");
    program_exits(&r, 0);
    ck_assert_msg(strstr(r.err.data, "goes on") == NULL, "%s", r.err.data);
    must("cmp out.jsonl whole.jsonl && ! ls -d out.jsonl.prefill 2> /dev/null");
    /* a disk without room for them costs a warning */
    must("rm -rf out.jsonl*");
    program_run(&r, 1, "--version > v && ulimit -f 64 && " LONGHAUL " " BATCH "0");
    program_exits(&r, 0);
    ck_assert_msg(strstr(r.err.data, "the prefill goes on without a new checkpoint: ") != NULL, "%s", r.err.data);
    must("cmp out.jsonl whole.jsonl && ! ls -d out.jsonl.prefill 2> /dev/null");
    program_clear(&r);
}
END_TEST

#define LINE(id, more, prompt)                                                              \
    "{\"custom_id\": \"" id "\", \"method\": \"POST\", \"url\": \"/v1/completions\", " more \
    "\"body\": {\"prompt\": \"" prompt "\"}}\n"

/* Prompts of some thousands of tokens, in the model's tokens of a byte each. */
static void write_files(void)
{
    lh_buf lines = {0}, pages = {0}, prompt = {0};
    for (int i = 1; i <= 1500; i++) lh_buf_printf(&prompt, "%d ", i);
    for (int i = 1; i <= 1600; i++) lh_buf_printf(&pages, "%d ", i);
    program_file("pages", pages.data);
    lh_buf_printf(&lines, LINE("long", "", "%s") LINE("short", "", "Who?"), prompt.data);
    lh_buf_puts(&lines, LINE("first", "\"context_file\": \"pages\", ", "Who?")
                            LINE("second", "\"context_file\": \"pages\", ", "And what of the other one?"));
    program_file("in.jsonl", lines.data);
    lh_buf_clear(&lines);
    lh_buf_clear(&pages);
    lh_buf_clear(&prompt);
}

int main(void)
{
    const TTest *const tests[] = {test_a_prefill_that_was_killed_goes_on,
                                  test_replicas_keep_what_they_read,
                                  test_a_run_that_is_asked_to_end_keeps_its_prefill,
                                  test_a_file_of_no_use_is_dropped,
                                  test_a_batch_removes_nothing_that_it_did_not_write,
                                  test_files_are_of_runs_that_resume,
                                  NULL};
    program_result r = {0};
    program_enter();
    write_files();
    program_run(&r, 1, "import --random tiny -o m.h5 -q && " LONGHAUL " " BATCH "-1 && mv out.jsonl whole.jsonl");
    int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    if (code == 0) code = suite_run("cli prefills", tests);
    program_leave();
    return code;
}
