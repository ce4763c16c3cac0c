/* Outputs: each request has one line, whatever ended the runs before, at every byte; what does not belong together is
 * refused and left as it is. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "batch/resume.h"
#include "batch/state.h"
#include "rig.h"
#include "suite.h"

enum { COUNT = 9, ALL = 1 << 30 };

/* Finished in an order that is not the input's. */
static const int64_t mixed[COUNT] = {4, 0, 8, 1, 2, 7, 3, 6, 5};

/* Lines of a text, sorted: what an output holds, whatever its order. */
static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_lines(const lh_buf *text, lh_buf *out)
{
    char *copy = strdup(text->data), *lines[1024];
    size_t n = 0;
    for (char *line = strtok(copy, "\n"); line; line = strtok(NULL, "\n")) lines[n++] = line;
    qsort(lines, n, sizeof *lines, by_text);
    out->bytes = 0;
    for (size_t i = 0; i < n; i++) OK(lh_buf_printf(out, "%s\n", lines[i]));
    free(copy);
}

static void same_lines(const lh_buf *want, const char *name)
{
    lh_buf is = {0}, a = {0}, b = {0};
    rig_read(name, &is);
    sort_lines(want, &a);
    sort_lines(&is, &b);
    ck_assert_str_eq(a.data, b.data);
    lh_buf_clear(&is);
    lh_buf_clear(&a);
    lh_buf_clear(&b);
}

/* The whole output in the order of the input, of an undisturbed run. */
static void undisturbed(lh_buf *out)
{
    OK(rig_answer(&(rig_batch){.limit = ALL, .ordered = 1, .how = LH_OK}));
    rig_read("out.jsonl", out);
    ck_assert_int_eq(rig_size("out.jsonl.held"), -1);
    ck_assert_int_eq(unlink("out.jsonl"), 0);
}

START_TEST(test_every_request_has_its_line)
{
    lh_buf want = {0}, is = {0};
    lh_batch_records records;
    rig_enter();
    rig_input("in.jsonl", COUNT);
    undisturbed(&want);
    OK(rig_answer(&(rig_batch){.limit = ALL, .order = mixed, .how = LH_OK}));
    same_lines(&want, "out.jsonl");
    OK(lh_batch_records_read(&records, "out.jsonl"));
    ck_assert_int_eq(records.n, COUNT);
    ck_assert_int_eq(records.failed, 1);
    ck_assert_int_eq(records.at[1].number, mixed[1] + 1);
    OK(lh_batch_record_error(&records, 7, &is)); /* line 7, the eighth to be finished */
    ck_assert_ptr_nonnull(strstr(is.data, "invalid_request: the line is not a JSON value"));
    lh_batch_records_clear(&records);
    unlink("out.jsonl");
    OK(rig_answer(&(rig_batch){.limit = ALL, .order = mixed, .ordered = 1, .how = LH_OK}));
    rig_read("out.jsonl", &is);
    ck_assert_str_eq(want.data, is.data);
    ck_assert_int_eq(rig_size("out.jsonl.held"), -1);
    lh_buf_clear(&want);
    lh_buf_clear(&is);
    rig_leave();
}
END_TEST

/* A kill, or a loss of power, leaves any number of bytes. */
START_TEST(test_a_run_goes_on_after_a_cut_at_every_byte)
{
    enum { FEW = 4 };
    static const int64_t few[FEW] = {2, 0, 3, 1};
    lh_buf want = {0}, whole = {0};
    rig_enter();
    rig_input("in.jsonl", FEW);
    undisturbed(&want);
    OK(rig_answer(&(rig_batch){.limit = ALL, .order = few, .how = LH_OK}));
    rig_read("out.jsonl", &whole);
    for (int64_t bytes = 0; bytes <= whole.bytes; bytes++) {
        int64_t lines = 0;
        rig_batch again = {.resume = 1, .limit = ALL, .how = LH_OK};
        for (int64_t i = 0; i < bytes; i++) lines += whole.data[i] == '\n';
        rig_file("out.jsonl", whole.data, bytes);
        OK(rig_answer(&again));
        ck_assert_int_eq(again.answered, FEW - lines);
        same_lines(&want, "out.jsonl");
    }
    lh_buf_clear(&want);
    lh_buf_clear(&whole);
    rig_leave();
}
END_TEST

/* As before, with lines that wait for others: the output and the held lines are each cut anywhere. */
START_TEST(test_an_ordered_run_goes_on_after_any_cut)
{
    static const int64_t order[COUNT] = {0, 3, 5, 1, 4, 8, 7, 6, 2};
    lh_buf want = {0}, out = {0}, held = {0}, is = {0};
    rig_enter();
    rig_input("in.jsonl", COUNT);
    undisturbed(&want);
    OK(rig_answer(&(rig_batch){.limit = 6, .order = order, .ordered = 1, .how = -1})); /* a kill */
    rig_read("out.jsonl", &out);
    rig_read("out.jsonl.held", &held);
    ck_assert_int_gt(held.bytes, 0);
    for (int64_t cut = 0; cut <= out.bytes + held.bytes; cut += 13) {
        const int64_t of_out = cut < out.bytes ? cut : out.bytes;
        rig_file("out.jsonl", out.data, of_out);
        rig_file("out.jsonl.held", held.data, cut < out.bytes ? held.bytes : out.bytes + held.bytes - cut);
        OK(rig_answer(&(rig_batch){.resume = 1, .limit = ALL, .order = mixed, .ordered = 1, .how = LH_OK}));
        rig_read("out.jsonl", &is);
        ck_assert_str_eq(want.data, is.data);
        ck_assert_int_eq(rig_size("out.jsonl.held"), -1);
    }
    /* without order, what waited goes to the output at once */
    rig_file("out.jsonl", out.data, out.bytes);
    rig_file("out.jsonl.held", held.data, held.bytes);
    rig_batch again = {.resume = 1, .limit = ALL, .how = LH_OK};
    OK(rig_answer(&again));
    ck_assert_int_eq(again.answered, COUNT - 6);
    same_lines(&want, "out.jsonl");
    ck_assert_int_eq(rig_size("out.jsonl.held"), -1);
    FAILS(rig_answer(&(rig_batch){.resume = 1, .limit = ALL, .ordered = 1, .how = LH_OK}), LH_EUSAGE,
          "continue it without '--ordered'");
    lh_buf_clear(&want);
    lh_buf_clear(&out);
    lh_buf_clear(&held);
    lh_buf_clear(&is);
    rig_leave();
}
END_TEST

/* SIGKILL at any moment, with somebody who looks on from outside; at the end, what an undisturbed run writes. */
START_TEST(test_a_run_that_is_killed_again_and_again_ends_as_one_that_is_not)
{
    enum { MANY = 300, KILLS = 12 };
    lh_buf want = {0}, is = {0};
    int how = 0;
    int64_t order[MANY];
    rig_enter();
    rig_input("in.jsonl", MANY);
    undisturbed(&want);
    for (int64_t i = 0; i < MANY; i++) order[i] = i * 37 % MANY;
    for (int kills = 0; kills < KILLS; kills++) {
        const int ordered = kills >= KILLS / 2;
        if (kills == KILLS / 2) {
            OK(rig_answer(&(rig_batch){.resume = 1, .limit = ALL, .how = LH_OK}));
            same_lines(&want, "out.jsonl");
            unlink("out.jsonl");
        }
        const pid_t child = fork();
        if (child == 0) {
            rig_batch batch = {.resume = 1, .ordered = ordered, .order = order, .how = LH_OK, .pause_us = 100};
            batch.limit = 20 + kills * 7;
            rig_answer(&batch);
            raise(SIGKILL);
        }
        usleep((useconds_t)(1500 + 1000 * (kills % 5)));
        lh_batch_status status;
        if (rig_size("out.jsonl") > 0) {
            OK(lh_batch_status_read(&status, "out.jsonl"));
            lh_batch_status_clear(&status);
        }
        kill(child, SIGKILL);
        ck_assert_int_eq(waitpid(child, &how, 0), child);
        ck_assert(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    }
    OK(rig_answer(&(rig_batch){.resume = 1, .ordered = 1, .limit = ALL, .how = LH_OK}));
    rig_read("out.jsonl", &is);
    ck_assert_str_eq(want.data, is.data);
    lh_buf_clear(&want);
    lh_buf_clear(&is);
    rig_leave();
}
END_TEST

START_TEST(test_an_output_that_exists_is_not_overwritten)
{
    lh_buf before = {0}, after = {0};
    rig_enter();
    rig_input("in.jsonl", COUNT);
    OK(rig_answer(&(rig_batch){.limit = 2, .how = LH_EINTERRUPTED}) == LH_EINTERRUPTED ? LH_OK : LH_EINTERNAL);
    rig_read("out.jsonl", &before);
    FAILS(rig_answer(&(rig_batch){.limit = ALL, .how = LH_OK}), LH_EUSAGE,
          "'out.jsonl' exists: continue it with '--resume'");
    rig_read("out.jsonl", &after);
    ck_assert_str_eq(before.data, after.data);
    OK(rig_answer(&(rig_batch){.resume = 1, .limit = ALL, .how = LH_OK}));
    unlink("out.jsonl");
    OK(rig_answer(&(rig_batch){.resume = 1, .limit = ALL, .how = LH_OK})); /* there is nothing to be continued */
    rig_text("out.jsonl", "");
    OK(rig_answer(&(rig_batch){.limit = ALL, .how = LH_OK})); /* nor to be overwritten */
    lh_buf_clear(&before);
    lh_buf_clear(&after);
    rig_leave();
}
END_TEST

static void put_over(const char *file, int64_t at, const char *text)
{
    FILE *f = fopen(file, "r+");
    fseek(f, at, SEEK_SET);
    fputs(text, f);
    fclose(f);
}

/* *cases leave the output alone, and say what does not fit. */
START_TEST(test_what_does_not_belong_together_is_refused)
{
    lh_buf in = {0}, out = {0}, is = {0}, changed = {0};
    rig_batch again = {.resume = 1, .limit = ALL, .how = LH_OK};
    rig_enter();
    rig_input("in.jsonl", COUNT);
    OK(rig_answer(&(rig_batch){.limit = 8, .how = LH_OK}));
    rig_read("in.jsonl", &in);
    rig_read("out.jsonl", &out);
    /* requests that changed, with and without custom_id; one that is gone */
    put_over("in.jsonl", strstr(in.data, "What is 1?") - in.data, "Why");
    put_over("in.jsonl", strstr(in.data, "is not JSON") - in.data, "so");
    FAILS(rig_answer(&again), LH_EUSAGE,
          "changed after 2 of its requests were answered in 'out.jsonl': line 2 ('r1'), line 7.");
    OK(lh_buf_puts(&changed, strchr(in.data, '\n') + 1));
    rig_file("in.jsonl", changed.data, changed.bytes);
    FAILS(rig_answer(&again), LH_EUSAGE, "line 1 ('r0')");
    /* another run */
    rig_file("in.jsonl", in.data, in.bytes);
    char *alpha = strstr(out.data, "\"alpha\":0.2");
    ck_assert_ptr_nonnull(alpha);
    alpha[10] = '3';
    rig_file("out.jsonl", out.data, out.bytes);
    FAILS(rig_answer(&again), LH_EUSAGE, "'out.jsonl' was made by another run: 'policy.alpha' was 0.3 and is ");
    alpha[10] = '2';
    /* a request that is answered twice; a line that is none; a file that is no output */
    rig_file("out.jsonl", out.data, out.bytes);
    FILE *f = fopen("out.jsonl", "a");
    fwrite(out.data, 1, strcspn(out.data, "\n") + 1, f);
    fclose(f);
    FAILS(rig_answer(&again), LH_EFILE, "its line 9 answers line 1 of 'in.jsonl' again");
    memset(strstr(out.data, "r1\""), 0, 3);
    rig_file("out.jsonl", out.data, out.bytes);
    FAILS(rig_answer(&again), LH_EFILE, "'out.jsonl' is damaged: line 2, at byte");
    static const char *const notes[] = {"my notes", "my notes\n", "{\"id\":\"chatcmpl-1\"}\n", "{}"};
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
        rig_text("out.jsonl", notes[i]);
        FAILS(rig_answer(&again), LH_EFILE, "is not the output of a batch");
        rig_read("out.jsonl", &is);
        ck_assert_str_eq(is.data, notes[i]);
    }
    lh_buf_clear(&in);
    lh_buf_clear(&out);
    lh_buf_clear(&is);
    lh_buf_clear(&changed);
    rig_leave();
}
END_TEST

/* Requests may be added, and lines may move. */
START_TEST(test_an_input_may_grow)
{
    lh_buf in = {0}, grown = {0};
    rig_batch again = {.resume = 1, .limit = ALL, .how = LH_OK};
    rig_enter();
    rig_input("in.jsonl", 6);
    OK(rig_answer(&(rig_batch){.limit = ALL, .how = LH_OK}));
    rig_read("in.jsonl", &in);
    OK(lh_buf_puts(
        &grown,
        "{\"custom_id\":\"new\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"new\"}}\r\n\n"));
    for (const char *c = in.data; *c; c++) OK(lh_buf_append(&grown, *c == '\n' ? "\r\n" : c, *c == '\n' ? 2 : 1));
    rig_file("in.jsonl", grown.data, grown.bytes);
    OK(rig_answer(&again));
    ck_assert_int_eq(again.answered, 1);
    lh_buf_clear(&in);
    lh_buf_clear(&grown);
    rig_leave();
}
END_TEST

/* Older versions found a custom_id in some lines that are no JSON: the line of such an error is known by its number. */
START_TEST(test_an_error_of_an_older_run_is_known)
{
    lh_buf out = {0}, older = {0};
    rig_batch again = {.resume = 1, .limit = ALL, .how = LH_OK};
    rig_enter();
    rig_input("in.jsonl", 8);
    OK(rig_answer(&(rig_batch){.limit = ALL, .how = LH_OK}));
    rig_read("out.jsonl", &out);
    char *none = strstr(out.data, "\"custom_id\":null");
    ck_assert_ptr_nonnull(none);
    OK(lh_buf_printf(&older, "%.*s\"custom_id\":\"r6\"%s", (int)(none - out.data), out.data, none + 16));
    rig_file("out.jsonl", older.data, older.bytes);
    OK(rig_answer(&again));
    ck_assert_int_eq(again.answered, 0);
    lh_buf_clear(&out);
    lh_buf_clear(&older);
    rig_leave();
}
END_TEST

START_TEST(test_two_runs_do_not_write_one_output)
{
    lh_batch_input *input = NULL;
    lh_batch_output *first = NULL, *second = NULL;
    json_t *run = rig_run();
    const lh_batch_output_options options = {.run = run, .resume = 1, .sync_s = 1};
    rig_enter();
    rig_input("in.jsonl", COUNT);
    OK(lh_batch_input_open(&input, "in.jsonl"));
    OK(lh_batch_output_open(&first, "out.jsonl", input, &options));
    FAILS(lh_batch_output_open(&second, "out.jsonl", input, &options), LH_EWRITE,
          "another run that is going on writes it");
    ck_assert_int_eq(rig_size("out.jsonl"), 0); /* it is still there */
    lh_batch_output_close(first);
    ck_assert_int_eq(rig_size("out.jsonl"), -1);
    OK(symlink("elsewhere.jsonl", "link") == 0 ? LH_OK : LH_EINTERNAL);
    OK(lh_batch_output_open(&first, "link", input, &options));
    ck_assert_int_eq(rig_size("elsewhere.jsonl"), 0);
    lh_batch_output_close(first);
    static const char *const bad[] = {"-", "/dev/null", ".", "no/such/out", ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        FAILS(lh_batch_output_open(&second, bad[i], input, &options), LH_EWRITE, "cannot write");
    lh_batch_input_close(input);
    json_decref(run);
    rig_leave();
}
END_TEST

/* What is written then is nowhere: removed, renamed, or another file has the name, which is left alone. */
START_TEST(test_an_output_that_loses_its_name_ends_the_run)
{
    lh_batch_input *input = NULL;
    lh_batch_output *output = NULL;
    lh_batch_status status;
    json_t *run = rig_run();
    rig_enter();
    rig_input("in.jsonl", 2);
    for (int way = 0; way < 3; way++) {
        lh_buf line = {0};
        lh_batch_put put = {.i = 0};
        OK(lh_batch_input_open(&input, "in.jsonl"));
        OK(lh_batch_output_open(&output, "out.jsonl", input,
                                &(lh_batch_output_options){.run = run, .sync_s = way ? 3600 : 0}));
        if (way == 0) unlink("out.jsonl");
        if (way >= 1) rename("out.jsonl", "moved");
        if (way == 2) rig_text("out.jsonl", "");
        OK(rig_line(input, 0, run, &line, &put.failed));
        put.line = line.data;
        put.bytes = line.bytes;
        const lh_status st = lh_batch_output_put(output, &put);
        ck_assert_int_eq(st, way ? LH_OK : LH_EWRITE); /* it is asked at every sync */
        FAILS(lh_batch_output_finish(output, st), LH_EWRITE, "'out.jsonl' was removed, renamed or replaced while");
        lh_batch_output_close(output);
        ck_assert_int_eq(rig_size("out.jsonl"), way == 2 ? 0 : -1);
        OK(lh_batch_status_read(&status, "out.jsonl"));
        ck_assert(status.state.stage == LH_BATCH_FAILED && status.state.done == 0);
        lh_batch_status_clear(&status);
        lh_batch_input_close(input);
        lh_buf_clear(&line);
    }
    json_decref(run);
    rig_leave();
}
END_TEST

/* Errors leave the output, and their requests are answered as the input has them now; nothing else changes. */
START_TEST(test_requests_that_failed_are_tried_again)
{
    lh_buf in = {0}, want = {0}, is = {0};
    rig_enter();
    for (int ordered = 0; ordered <= 1; ordered++) {
        rig_batch again = {.resume = 1, .limit = ALL, .order = mixed, .ordered = ordered, .how = LH_OK};
        rig_input("in.jsonl", COUNT);
        rig_read("in.jsonl", &in);
        strstr(in.data, "\"max_tokens\":7")[13] = '0'; /* of r0; line 7 fails, too */
        rig_file("in.jsonl", in.data, in.bytes);
        const int64_t most = ordered ? COUNT - 2 : ALL; /* some lines are held */
        OK(rig_answer(&(rig_batch){.limit = most, .order = mixed, .ordered = ordered, .how = -1}));
        chmod("out.jsonl", 0600);
        strstr(in.data, "\"max_tokens\":0")[13] = '7';
        memcpy(strstr(in.data, "{\"number\": 6"), "{\"custom_id\":", 13);
        rig_file("in.jsonl", in.data, in.bytes);
        rig_read("out.jsonl", &is);
        FAILS(rig_answer(&again), LH_EUSAGE, "'--retry-failed' tries requests that failed again");
        again.retry_failed = 1;
        OK(rig_answer(&again));
        rename("out.jsonl", "again.jsonl");
        undisturbed(&want);
        rig_read("again.jsonl", &is);
        if (ordered) ck_assert_str_eq(want.data, is.data);
        same_lines(&want, "again.jsonl");
        struct stat info;
        ck_assert(stat("again.jsonl", &info) == 0 && (info.st_mode & 0777) == 0600);
    }
    rig_input("in.jsonl", COUNT);
    rig_batch other = {.resume = 1, .retry_failed = 1, .limit = ALL, .how = LH_OK};
    OK(rig_answer(&(rig_batch){.limit = ALL, .how = LH_OK}));
    rig_read("out.jsonl", &want);
    rig_input("in.jsonl", 7); /* answers without a request: refused before anything is changed */
    FAILS(rig_answer(&other), LH_EUSAGE, "'in.jsonl' changed after 2 of its requests were answered");
    rig_read("out.jsonl", &is);
    ck_assert_str_eq(want.data, is.data);
    lh_buf_clear(&in);
    lh_buf_clear(&want);
    lh_buf_clear(&is);
    rig_leave();
}
END_TEST

START_TEST(test_answers_of_another_part_are_named_so)
{
    rig_batch again = {.resume = 1, .limit = ALL, .how = LH_OK, .parts = 2, .part = 1};
    lh_buf in = {0}, grown = {0};
    rig_enter();
    rig_input("in.jsonl", COUNT);
    OK(rig_answer(&(rig_batch){.limit = ALL, .how = LH_OK, .parts = 2}));
    FAILS(rig_answer(&again), LH_EUSAGE,
          "'out.jsonl' answers 5 requests of another part of 'in.jsonl': line 1 ('r0'), line 3 ('r2')");
    again.part = 0;
    OK(rig_answer(&again));
    rig_read("in.jsonl", &in);
    OK(lh_buf_printf(&grown, "{\"custom_id\":\"first\"}\n%s", in.data));
    rig_file("in.jsonl", grown.data, grown.bytes);
    FAILS(rig_answer(&again), LH_EUSAGE, "lines that were added before others change the parts, too");
    lh_buf_clear(&in);
    lh_buf_clear(&grown);
    rig_leave();
}
END_TEST

/* A disk that is full: here a file that may not grow. What was complete stays, and the run goes on later. */
START_TEST(test_a_full_disk_leaves_whole_lines)
{
    lh_buf want = {0}, is = {0};
    rig_enter();
    rig_input("in.jsonl", COUNT);
    undisturbed(&want);
    signal(SIGXFSZ, SIG_IGN);
    for (int ordered = 0; ordered <= 1; ordered++) {
        unlink("out.jsonl");
        const pid_t child = fork();
        if (child == 0) {
            setrlimit(RLIMIT_FSIZE, &(struct rlimit){1500, 1500});
            rig_batch full = {.limit = ALL, .order = mixed, .ordered = ordered, .how = LH_OK};
            const lh_status st = rig_answer(&full);
            _exit(st == LH_EWRITE && strstr(lh_error_message(), "cannot write 'out.jsonl") ? 42 : 1);
        }
        int how = 0;
        ck_assert_int_eq(waitpid(child, &how, 0), child);
        ck_assert_int_eq(WEXITSTATUS(how), 42);
        rig_read("out.jsonl", &is);
        ck_assert(is.bytes == 0 || is.data[is.bytes - 1] == '\n');
        lh_batch_status status;
        OK(lh_batch_status_read(&status, "out.jsonl"));
        ck_assert_int_eq(status.state.stage, LH_BATCH_FAILED);
        ck_assert_ptr_nonnull(strstr(status.state.message, "cannot write"));
        lh_batch_status_clear(&status);
        OK(rig_answer(&(rig_batch){.resume = 1, .limit = ALL, .ordered = ordered, .how = LH_OK}));
        same_lines(&want, "out.jsonl");
    }
    lh_buf_clear(&want);
    lh_buf_clear(&is);
    rig_leave();
}
END_TEST

static void has_stage(lh_batch_stage stage, int64_t done)
{
    lh_batch_status status;
    json_t *json = NULL;
    OK(lh_batch_status_read(&status, "out.jsonl"));
    ck_assert_str_eq(lh_batch_stages[status.state.stage], lh_batch_stages[stage]);
    ck_assert_int_eq(status.state.done, done);
    OK(lh_batch_status_json(&status, "out.jsonl", &json));
    ck_assert_int_eq(json_integer_value(json_object_get(json, "done")), done);
    json_decref(json);
    lh_batch_status_clear(&status);
}

START_TEST(test_the_state_says_how_a_run_ended)
{
    lh_batch_input *input = NULL;
    lh_batch_output *output = NULL;
    lh_batch_status status;
    json_t *run = rig_run();
    rig_enter();
    rig_input("in.jsonl", COUNT);
    FAILS(lh_batch_status_read(&status, "out.jsonl"), LH_EINPUT, "out.jsonl");
    lh_batch_status_clear(&status);
    ck_assert_int_eq(rig_answer(&(rig_batch){.limit = 2, .how = LH_EINTERRUPTED}), LH_EINTERRUPTED);
    has_stage(LH_BATCH_INTERRUPTED, 2);
    OK(rig_answer(&(rig_batch){.resume = 1, .limit = 3, .how = -1}));
    has_stage(LH_BATCH_KILLED, 5);
    OK(lh_batch_input_open(&input, "in.jsonl"));
    OK(lh_batch_output_open(
        &output, "out.jsonl", input,
        &(lh_batch_output_options){.run = run, .resume = 1, .sync_s = 1, .ranks = 4, .replicas = 2}));
    has_stage(LH_BATCH_RUNNING, 5);
    OK(lh_batch_status_read(&status, "out.jsonl"));
    ck_assert(status.state.ranks == 4 && status.state.replicas == 2 && status.state.resumed == 5);
    ck_assert(status.state.total == COUNT && status.state.pid == getpid());
    ck_assert_str_eq(status.state.input, "in.jsonl");
    lh_batch_status_clear(&status);
    OK(lh_batch_output_tick(output));
    lh_fail(LH_ECOMM, "here", 1, "rank 3 died");
    FAILS(lh_batch_output_finish(output, LH_ECOMM), LH_ECOMM, "rank 3 died");
    lh_batch_output_close(output);
    has_stage(LH_BATCH_FAILED, 5);
    OK(rig_answer(&(rig_batch){.resume = 1, .limit = ALL, .how = LH_OK}));
    has_stage(LH_BATCH_DONE, COUNT);
    OK(lh_batch_status_read(&status, "out.jsonl"));
    ck_assert_int_eq(status.state.failed, 1);
    ck_assert_ptr_nonnull(strstr(status.failures.data, "line 7: invalid_request: "));
    lh_batch_status_clear(&status);
    ck_assert_int_eq(symlink("out.jsonl", "link"), 0); /* the state is beside what a link leads to */
    OK(lh_batch_status_read(&status, "link"));
    ck_assert(status.state.stage == LH_BATCH_DONE && status.state.done == COUNT);
    lh_batch_status_clear(&status);
    rename("out.jsonl", "moved");
    has_stage(LH_BATCH_INCOMPLETE, 0);
    rename("moved", "out.jsonl");
    unlink("out.jsonl.state");
    has_stage(LH_BATCH_UNKNOWN, COUNT);
    rig_text("out.jsonl.state", "{\"state\":\"dancing\"}");
    FAILS(lh_batch_status_read(&status, "out.jsonl"), LH_EINPUT, "'out.jsonl.state' is not the state of a batch");
    lh_batch_status_clear(&status);
    lh_batch_input_close(input);
    json_decref(run);
    rig_leave();
}
END_TEST

START_TEST(test_timings_go_to_a_file_beside_it)
{
    lh_batch_input *input = NULL;
    lh_batch_output *output = NULL;
    lh_buf line = {0}, is = {0};
    json_t *run = rig_run(), *timing = json_pack("{s:s, s:f}", "custom_id", "r0", "decode_s", 0.5);
    rig_enter();
    rig_input("in.jsonl", 2);
    rig_text("out.jsonl.timings.jsonl", "{\"custom_id\":\"x\"}\n{\"cust"); /* which a kill cut off */
    OK(lh_batch_input_open(&input, "in.jsonl"));
    OK(lh_batch_output_open(&output, "out.jsonl", input, &(lh_batch_output_options){.run = run}));
    lh_batch_put put = {.timing = timing};
    OK(rig_line(input, 0, run, &line, &put.failed));
    put.line = line.data;
    put.bytes = line.bytes;
    OK(lh_batch_output_put(output, &put));
    lh_batch_output_close(output);
    rig_read("out.jsonl.timings.jsonl", &is);
    ck_assert_str_eq(is.data, "{\"custom_id\":\"x\"}\n{\"custom_id\":\"r0\",\"decode_s\":0.5}\n");
    rig_read("out.jsonl", &is);
    ck_assert_str_eq(is.data, line.data);
    lh_batch_input_close(input);
    lh_buf_clear(&line);
    lh_buf_clear(&is);
    json_decref(run);
    json_decref(timing);
    rig_leave();
}
END_TEST

/* A run answers request i. */
static void answer_one(lh_batch_input *input, const json_t *run, int64_t i, int resume)
{
    lh_batch_output *output = NULL;
    lh_buf line = {0};
    json_t *timing = json_pack("{s:i, s:i, s:i}", "prompt_tokens", 100, "context_tokens", 30, "new_tokens", 7);
    OK(lh_batch_output_open(
        &output, "out.jsonl", input,
        &(lh_batch_output_options){.run = run, .resume = resume, .metrics = "m.prom", .ranks = 2, .replicas = 1}));
    lh_batch_put put = {.i = i, .timing = timing};
    OK(rig_line(input, i, run, &line, &put.failed));
    put.line = line.data;
    put.bytes = line.bytes;
    OK(lh_batch_output_put(output, &put));
    usleep(20000);
    lh_batch_output_finish(output, i == 2 ? LH_OK : LH_EINTERRUPTED);
    lh_batch_output_close(output);
    json_decref(timing);
    lh_buf_clear(&line);
}

/* Tokens and time add up over runs that continue each other; rates are those of the last one. */
START_TEST(test_a_run_is_counted)
{
    lh_batch_input *input = NULL;
    lh_batch_output *output = NULL;
    lh_batch_state state;
    lh_buf text = {0};
    json_t *run = rig_run();
    rig_enter();
    rig_input("in.jsonl", 3);
    OK(lh_batch_input_open(&input, "in.jsonl"));
    setenv("SLURM_JOB_ID", "17", 1);
    for (int i = 0; i < 3; i++) answer_one(input, run, i, i > 0);
    unsetenv("SLURM_JOB_ID");
    OK(lh_batch_state_read(&state, "out.jsonl.state"));
    ck_assert_int_eq(state.prompt_tokens, 300);
    ck_assert_int_eq(state.context_tokens, 90);
    ck_assert_int_eq(state.new_tokens, 21);
    ck_assert_int_eq(state.run_tokens, 107);
    ck_assert(state.run_ms >= 20 && state.rank_ms >= 3 * 2 * 20 && state.work_total == rig_size("in.jsonl") - 3);
    ck_assert(state.work_done == state.work_total && state.work_resumed < state.work_done);
    ck_assert_double_gt(lh_batch_state_tokens_rate(&state), 0);
    ck_assert_double_eq_tol(lh_batch_state_tokens_per_rank_hour(&state) * lh_batch_state_rank_hours(&state), 321, 1e-6);
    rig_read("m.prom", &text);
    static const char *const lines[] = {"# TYPE longhaul_batch_requests_done_total counter\n"
                                        "longhaul_batch_requests_done_total{output=\"out.jsonl\",job=\"17\"} 3\n",
                                        "longhaul_batch_running{output=\"out.jsonl\",job=\"17\"} 0\n",
                                        "longhaul_batch_generated_tokens_total{output=\"out.jsonl\",job=\"17\"} 21\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) ck_assert_ptr_nonnull(strstr(text.data, lines[i]));
    ck_assert_ptr_null(strstr(text.data, "left_seconds")); /* of a run that has ended */
    FAILS(lh_batch_output_open(
              &output, "out.jsonl", input,
              &(lh_batch_output_options){.run = run, .resume = 1, .metrics = "none/m.prom", .ranks = 2, .replicas = 1}),
          LH_EWRITE, "none/m.prom");
    state.new_tokens = INT64_MAX; /* nothing can be added to it */
    OK(lh_batch_state_write(&state, "full.state"));
    lh_batch_state_clear(&state);
    FAILS(lh_batch_state_read(&state, "full.state"), LH_EINPUT, "new_tokens");
    unlink("full.state");
    lh_batch_state_clear(&state);
    lh_batch_input_close(input);
    lh_buf_clear(&text);
    json_decref(run);
    rig_leave();
}
END_TEST

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The law is far above what it takes, some 0.3 s, for slow machines and sanitizers. */
START_TEST(test_a_hundred_thousand_finished_lines_are_found_at_once)
{
    enum { LINES = 100000 };
    lh_batch_input *input = NULL;
    lh_batch_output *output = NULL;
    lh_buf line = {0};
    json_t *run = rig_run();
    rig_enter();
    rig_input("in.jsonl", LINES);
    OK(lh_batch_input_open(&input, "in.jsonl"));
    FILE *f = fopen("out.jsonl", "w");
    for (int64_t i = 0; i + 1 < LINES; i++) {
        int failed;
        OK(rig_line(input, i, run, &line, &failed));
        fwrite(line.data, 1, (size_t)line.bytes, f);
    }
    fclose(f);
    const double began = seconds();
    OK(lh_batch_output_open(&output, "out.jsonl", input,
                            &(lh_batch_output_options){.run = run, .resume = 1, .sync_s = 1}));
    const double took = seconds() - began;
    printf("%d lines of %.1f MB: %.3f s\n", LINES, 1e-6 * (double)rig_size("out.jsonl"), took);
    ck_assert_int_eq(lh_batch_output_state(output)->done, LINES - 1);
    ck_assert_int_eq(lh_batch_output_state(output)->failed, LINES / 7);
    ck_assert(lh_batch_output_has(output, 0) && !lh_batch_output_has(output, LINES - 1));
    ck_assert(took < 20);
    lh_batch_output_close(output);
    lh_batch_input_close(input);
    lh_buf_clear(&line);
    json_decref(run);
    rig_leave();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_every_request_has_its_line,
                                  test_a_run_goes_on_after_a_cut_at_every_byte,
                                  test_an_ordered_run_goes_on_after_any_cut,
                                  test_a_run_that_is_killed_again_and_again_ends_as_one_that_is_not,
                                  test_an_output_that_exists_is_not_overwritten,
                                  test_what_does_not_belong_together_is_refused,
                                  test_an_input_may_grow,
                                  test_an_error_of_an_older_run_is_known,
                                  test_two_runs_do_not_write_one_output,
                                  test_an_output_that_loses_its_name_ends_the_run,
                                  test_requests_that_failed_are_tried_again,
                                  test_answers_of_another_part_are_named_so,
                                  test_a_full_disk_leaves_whole_lines,
                                  test_the_state_says_how_a_run_ended,
                                  test_timings_go_to_a_file_beside_it,
                                  test_a_run_is_counted,
                                  test_a_hundred_thousand_finished_lines_are_found_at_once,
                                  NULL};
    return suite_run("batch output", tests);
}
