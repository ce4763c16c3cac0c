/* `merge`: shards of one input, or outputs of several, become one output with each request once. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "batch/merge.h"
#include "rig.h"
#include "suite.h"

enum { COUNT = 9, ALL = 1 << 30 };

static lh_status merge_all(const char *const *paths, int64_t n, const char *out, lh_batch_merged *merged)
{
    return lh_batch_merge(&(lh_batch_merge_options){.paths = paths, .n = n, .out = out}, merged);
}

/* The lines of the input whose index gives this remainder, from an output of all. */
static void write_shard(const char *name, const lh_buf *all, int shards, int shard)
{
    lh_buf text = {0};
    int i = 0;
    OK(lh_buf_puts(&text, ""));
    for (const char *at = all->data; *at; i++) {
        const int64_t bytes = (int64_t)strcspn(at, "\n") + 1;
        if (i % shards == shard) OK(lh_buf_append(&text, at, bytes));
        at += bytes;
    }
    rig_file(name, text.data, text.bytes);
    lh_buf_clear(&text);
}

static void whole_output(lh_buf *out)
{
    rig_input("in.jsonl", COUNT);
    OK(rig_answer(&(rig_batch){.limit = ALL, .how = LH_OK}));
    rig_read("out.jsonl", out);
}

START_TEST(test_shards_are_joined_in_the_order_of_the_input)
{
    static const char *const paths[] = {"b.jsonl", "c.jsonl", "a.jsonl"}, *const twice[] = {"a.jsonl", "b.jsonl",
                                                                                            "out.jsonl", "c.jsonl"};
    lh_batch_merged merged;
    lh_buf want = {0}, is = {0};
    rig_enter();
    whole_output(&want);
    for (int i = 0; i < 3; i++) write_shard(paths[i], &want, 3, i);
    OK(merge_all(paths, 3, "all.jsonl", &merged));
    ck_assert(merged.requests == COUNT && merged.failed == 1 && merged.repeated == 0 && !merged.by_file);
    rig_read("all.jsonl", &is);
    ck_assert_str_eq(want.data, is.data);
    OK(merge_all(twice, 4, "all.jsonl", &merged)); /* a line that two outputs have is the same request */
    ck_assert(merged.requests == COUNT && merged.repeated == COUNT && !merged.by_file);
    rig_read("all.jsonl", &is);
    ck_assert_str_eq(want.data, is.data);
    rig_text("empty.jsonl", "");
    OK(merge_all((const char *const[]){"empty.jsonl", "out.jsonl"}, 2, "all.jsonl", &merged));
    rig_read("all.jsonl", &is);
    ck_assert_str_eq(want.data, is.data);
    lh_buf_clear(&want);
    lh_buf_clear(&is);
    rig_leave();
}
END_TEST

/* Inputs that were cut into files number their lines anew. */
START_TEST(test_outputs_of_several_inputs_follow_each_other)
{
    lh_batch_merged merged;
    lh_buf first = {0}, second = {0}, is = {0};
    rig_enter();
    whole_output(&first);
    rename("out.jsonl", "first.jsonl");
    rig_text(
        "in.jsonl",
        "{\"custom_id\":\"x\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"X\"}}\nbad\n");
    OK(rig_answer(&(rig_batch){.limit = ALL, .how = LH_OK}));
    rig_read("out.jsonl", &second);
    OK(merge_all((const char *const[]){"out.jsonl", "first.jsonl"}, 2, "all.jsonl", &merged));
    ck_assert(merged.requests == COUNT + 2 && merged.failed == 2 && merged.by_file);
    OK(lh_buf_puts(&second, first.data));
    rig_read("all.jsonl", &is);
    ck_assert_str_eq(second.data, is.data);
    lh_buf_clear(&first);
    lh_buf_clear(&second);
    lh_buf_clear(&is);
    rig_leave();
}
END_TEST

START_TEST(test_two_answers_to_one_request_are_an_error_that_names_both)
{
    static const char *const paths[] = {"out.jsonl", "other.jsonl"};
    lh_batch_merged merged;
    lh_buf all = {0}, other = {0};
    rig_enter();
    whole_output(&all);
    write_shard("other.jsonl", &all, 2, 0);
    rig_read("other.jsonl", &other);
    char *text = strstr(other.data, "What is 2?");
    text[8] = '3';
    rig_file("other.jsonl", other.data, other.bytes);
    FAILS(merge_all(paths, 2, "all.jsonl", &merged), LH_EFILE,
          "the custom_id 'r2' has two lines that differ: line 3 of 'out.jsonl' and line 2 of 'other.jsonl'");
    text[8] = '2';
    rig_file("other.jsonl", other.data, other.bytes - 5);
    FAILS(merge_all(paths, 2, "all.jsonl", &merged), LH_EINPUT, "'other.jsonl' ends in a line that was not written");
    FAILS(merge_all((const char *const[]){"none"}, 1, "all.jsonl", &merged), LH_EINPUT, "'none'");
    ck_assert_int_eq(rig_size("all.jsonl"), -1);
    lh_buf_clear(&all);
    lh_buf_clear(&other);
    rig_leave();
}
END_TEST

/* An output of part `part` of the input, as an array of jobs has them. */
static void answer_part(const char *name, int64_t parts, int64_t part)
{
    char state[64];
    OK(rig_answer(&(rig_batch){.limit = ALL, .how = LH_OK, .parts = parts, .part = part}));
    snprintf(state, sizeof state, "%s.state", name);
    rename("out.jsonl", name);
    rename("out.jsonl.state", state);
}

/* A request that failed, and was mended and answered in another run: with a custom_id, and without. */
START_TEST(test_an_answer_is_written_rather_than_an_error)
{
    static const char *const orders[][2] = {{"new.jsonl", "old.jsonl"}, {"old.jsonl", "new.jsonl"}};
    lh_batch_merged merged;
    static const char good[] = "{\"custom_id\":\"%s\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{"
                               "\"prompt\":\"Hi\"}}\n";
    char first[256], second[256], text[1024];
    lh_buf want = {0}, is = {0};
    rig_enter();
    snprintf(first, sizeof first, good, "a");
    snprintf(second, sizeof second, good, "b");
    snprintf(text, sizeof text, "%s{\"custom_id\":\"b\"}\nnot JSON\n{\"custom_id\":\"d\"}\n", first);
    rig_text("in.jsonl", text);
    answer_part("old.jsonl", 1, 0);
    snprintf(text, sizeof text, "%s%s", first, second);
    snprintf(second, sizeof second, good, "c");
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s{\"custom_id\":\"d\"}\n", second);
    rig_text("in.jsonl", text);
    answer_part("new.jsonl", 1, 0);
    rig_read("new.jsonl", &want);
    for (int i = 0; i < 2; i++) {
        OK(merge_all(orders[i], 2, "all.jsonl", &merged));
        ck_assert(merged.requests == 4 && merged.retried == 2 && merged.failed == 1 && !merged.by_file);
        rig_read("all.jsonl", &is);
        ck_assert_str_eq(want.data, is.data);
    }
    lh_buf_clear(&want);
    lh_buf_clear(&is);
    rig_leave();
}
END_TEST

/* The states beside the outputs count the requests, of a part and of the whole input. */
START_TEST(test_requests_without_a_line_are_an_error)
{
    static const char *const parts[] = {"0.jsonl", "1.jsonl", "2.jsonl"};
    lh_batch_merged merged;
    lh_buf text = {0};
    rig_enter();
    rig_input("in.jsonl", 2);
    for (int i = 0; i < 3; i++) answer_part(parts[i], 3, i); /* the last part is empty, and leaves no file */
    ck_assert_int_eq(rig_size("2.jsonl"), -1);
    OK(merge_all(parts, 3, "all.jsonl", &merged));
    ck_assert_int_eq(merged.requests, 2);
    FAILS(merge_all(parts, 1, "all.jsonl", &merged), LH_EINPUT,
          "these outputs have 1 of the 2 requests of 'in.jsonl': resume the jobs of the others, or give '--partial'");
    unlink("1.jsonl");
    FAILS(merge_all(parts, 3, "all.jsonl", &merged), LH_EINPUT, "'1.jsonl' is gone, and had the lines of 1 requests");
    unlink("1.jsonl.state");
    FAILS(merge_all(parts, 2, "all.jsonl", &merged), LH_EINPUT, "'1.jsonl'");
    rig_read("0.jsonl", &text);
    rig_input("in.jsonl", COUNT);
    OK(rig_answer(&(rig_batch){.limit = ALL, .how = LH_OK}));
    rig_file("out.jsonl", text.data, text.bytes); /* one line of nine */
    FAILS(merge_all((const char *const[]){"out.jsonl"}, 1, "all.jsonl", &merged), LH_EINPUT,
          "'out.jsonl' has 1 of its 9 requests");
    OK(lh_batch_merge(&(lh_batch_merge_options){(const char *const[]){"out.jsonl"}, 1, "all.jsonl", 1}, &merged));
    ck_assert_int_eq(merged.requests, 1);
    lh_buf_clear(&text);
    rig_leave();
}
END_TEST

START_TEST(test_an_output_that_is_being_written_is_not_merged)
{
    lh_batch_input *input = NULL;
    lh_batch_output *output = NULL;
    lh_batch_merged merged;
    lh_buf all = {0};
    json_t *run = rig_run();
    rig_enter();
    whole_output(&all);
    OK(lh_batch_input_open(&input, "in.jsonl"));
    OK(lh_batch_output_open(&output, "out.jsonl", input,
                            &(lh_batch_output_options){.run = run, .resume = 1, .sync_s = 1}));
    FAILS(merge_all((const char *const[]){"out.jsonl"}, 1, "all.jsonl", &merged), LH_EINPUT, "is still being written");
    lh_batch_output_close(output);
    lh_batch_input_close(input);
    lh_buf_clear(&all);
    json_decref(run);
    rig_leave();
}
END_TEST

/* Outputs may be of other hands: JSON allows DEL and C1 controls in strings. Bytes that are not UTF-8 are damage. */
START_TEST(test_a_terminal_is_shown_no_control_characters)
{
    char shown[4096] = "";
    size_t n = 0;
    lh_buf all = {0}, is = {0};
    lh_batch_merged merged;
    rig_enter();
    whole_output(&all);
    char *text = strstr(all.data, "What is 2?");
    memcpy(text, "\x7f\xc2\x9b\x9b", 4);
    write_shard("a.jsonl", &all, COUNT, 2);
    FAILS(merge_all((const char *const[]){"a.jsonl"}, 1, "all.jsonl", &merged), LH_EINPUT,
          "ends in a line that was not");
    memcpy(text, "\x7f\xc2\x9b?", 4);
    write_shard("a.jsonl", &all, COUNT, 2);
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    ck_assert(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    const int other_end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    OK(merge_all((const char *const[]){"a.jsonl"}, 1, ptsname(terminal), &merged));
    while (!memchr(shown, '\n', n)) {
        const ssize_t more = read(terminal, shown + n, sizeof shown - 1 - n);
        ck_assert(more > 0);
        n += (size_t)more;
    }
    ck_assert_msg(strstr(shown, "\\u007f\\u009b? is 2?"), "%s", shown);
    for (size_t i = 0; i < n; i++) ck_assert(shown[i] >= 0x20 || strchr("\r\n", shown[i]));
    OK(merge_all((const char *const[]){"a.jsonl"}, 1, "all.jsonl", &merged)); /* a file has the same bytes */
    rig_read("all.jsonl", &is);
    ck_assert_ptr_nonnull(strstr(is.data, "\x7f\xc2\x9b? is 2?"));
    close(other_end);
    close(terminal);
    lh_buf_clear(&all);
    lh_buf_clear(&is);
    rig_leave();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_shards_are_joined_in_the_order_of_the_input,
                                  test_outputs_of_several_inputs_follow_each_other,
                                  test_two_answers_to_one_request_are_an_error_that_names_both,
                                  test_an_answer_is_written_rather_than_an_error,
                                  test_requests_without_a_line_are_an_error,
                                  test_an_output_that_is_being_written_is_not_merged,
                                  test_a_terminal_is_shown_no_control_characters,
                                  NULL};
    return suite_run("batch merge", tests);
}
