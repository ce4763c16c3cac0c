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
    OK(lh_batch_merge(paths, 3, "all.jsonl", &merged));
    ck_assert(merged.requests == COUNT && merged.failed == 1 && merged.repeated == 0 && !merged.by_file);
    rig_read("all.jsonl", &is);
    ck_assert_str_eq(want.data, is.data);
    OK(lh_batch_merge(twice, 4, "all.jsonl", &merged)); /* a line that two outputs have is the same request */
    ck_assert(merged.requests == COUNT && merged.repeated == COUNT && !merged.by_file);
    rig_read("all.jsonl", &is);
    ck_assert_str_eq(want.data, is.data);
    rig_text("empty.jsonl", "");
    OK(lh_batch_merge((const char *const[]){"empty.jsonl", "out.jsonl"}, 2, "all.jsonl", &merged));
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
    OK(lh_batch_merge((const char *const[]){"out.jsonl", "first.jsonl"}, 2, "all.jsonl", &merged));
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
    FAILS(lh_batch_merge(paths, 2, "all.jsonl", &merged), LH_EFILE,
          "the custom_id 'r2' has two lines that differ: line 3 of 'out.jsonl' and line 2 of 'other.jsonl'");
    text[8] = '2';
    text = strstr(other.data, "is not a JSON"); /* of line 7, which has no custom_id */
    memcpy(text, "is not a LINE", 13);
    rig_file("other.jsonl", other.data, other.bytes);
    FAILS(lh_batch_merge(paths, 2, "all.jsonl", &merged), LH_EFILE, "a request has two lines that differ: line 7 of");
    rig_file("other.jsonl", other.data, other.bytes - 5);
    FAILS(lh_batch_merge(paths, 2, "all.jsonl", &merged), LH_EINPUT,
          "'other.jsonl' ends in a line that was not written");
    FAILS(lh_batch_merge((const char *const[]){"none"}, 1, "all.jsonl", &merged), LH_EINPUT, "'none'");
    ck_assert_int_eq(rig_size("all.jsonl"), -1);
    lh_buf_clear(&all);
    lh_buf_clear(&other);
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
    FAILS(lh_batch_merge((const char *const[]){"out.jsonl"}, 1, "all.jsonl", &merged), LH_EINPUT,
          "is still being written");
    lh_batch_output_close(output);
    lh_batch_input_close(input);
    lh_buf_clear(&all);
    json_decref(run);
    rig_leave();
}
END_TEST

/* Outputs may be of other hands: JSON allows DEL, C1 controls and, to who does not look, any bytes in strings. */
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
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    ck_assert(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    const int other_end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    OK(lh_batch_merge((const char *const[]){"a.jsonl"}, 1, ptsname(terminal), &merged));
    while (!memchr(shown, '\n', n)) {
        const ssize_t more = read(terminal, shown + n, sizeof shown - 1 - n);
        ck_assert(more > 0);
        n += (size_t)more;
    }
    ck_assert_msg(strstr(shown, "\\u007f\\u009b\\ufffd is 2?"), "%s", shown);
    for (size_t i = 0; i < n; i++) ck_assert(shown[i] >= 0x20 || strchr("\r\n", shown[i]));
    OK(lh_batch_merge((const char *const[]){"a.jsonl"}, 1, "all.jsonl", &merged)); /* a file has the same bytes */
    rig_read("all.jsonl", &is);
    ck_assert_ptr_nonnull(strstr(is.data, "\x7f\xc2\x9b\x9b is 2?"));
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
                                  test_an_output_that_is_being_written_is_not_merged,
                                  test_a_terminal_is_shown_no_control_characters,
                                  NULL};
    return suite_run("batch merge", tests);
}
