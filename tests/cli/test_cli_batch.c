/* `status` and `merge` on outputs of batches. */
#include <check.h>
#include <string.h>
#include <unistd.h>

#include "batch/rig.h"
#include "cli/program.h"
#include "suite.h"

/* An input, and no output of a test before. */
static void begin(void)
{
    rig_input("in.jsonl", 9);
    unlink("out.jsonl");
}

START_TEST(test_status_shows_how_far_a_batch_is)
{
    program_result r = {0};
    begin();
    ck_assert_int_eq(rig_answer(&(rig_batch){.limit = 8, .how = LH_EINTERRUPTED}), LH_EINTERRUPTED);
    program_run(&r, 2, "status out.jsonl");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.out.data, "out.jsonl: interrupted: resume it"), 1);
    ck_assert_int_eq(program_lines(r.out.data, "  requests  8 of 9 (88.9%) done, 1 of them failed"), 1);
    ck_assert_int_eq(program_lines(r.out.data, "line 7: invalid_request: the line is not a JSON value"), 1);
    program_run(&r, 1, "status out.jsonl --json");
    program_exits(&r, 0);
    json_t *json = json_loads(r.out.data, 0, NULL);
    ck_assert_str_eq(json_string_value(json_object_get(json, "state")), "interrupted");
    ck_assert_int_eq(json_integer_value(json_object_get(json, "done")), 8);
    ck_assert_int_eq(json_integer_value(json_object_get(json, "total")), 9);
    ck_assert(json_is_null(json_object_get(json, "left_s")));
    json_decref(json);
    OK(rig_answer(&(rig_batch){.resume = 1, .limit = 1, .how = -1}));
    program_run(&r, 1, "status out.jsonl");
    ck_assert_int_eq(program_lines(r.out.data, "out.jsonl: killed, or lost with its node: resume it"), 1);
    program_refuses(1, 2, "no output to look at", "status");
    program_refuses(1, 3, "none.jsonl", "status none.jsonl");
    program_refuses(1, 4, "is not the output of a batch", "status in.jsonl");
    program_clear(&r);
}
END_TEST

START_TEST(test_merge_joins_outputs)
{
    program_result r = {0};
    begin();
    OK(rig_answer(&(rig_batch){.limit = 1 << 30, .how = LH_OK}));
    program_run(&r, 1, "merge out.jsonl -o - | cmp - out.jsonl");
    program_exits(&r, 0);
    program_run(&r, 1, "merge out.jsonl -o -");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.err.data, "merged 1 outputs: 9 requests, 1 of them failed"));
    ck_assert_int_eq(program_lines(r.out.data, "{\"id\":\"batch_req_"), 9);
    program_run(&r, 2, "merge out.jsonl out.jsonl -o all.jsonl");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.err.data, "lines that several outputs have are there once"));
    program_refuses(1, 6, "'all.jsonl' exists: '--force' overwrites it", "merge out.jsonl -o all.jsonl");
    program_run(&r, 1, "merge out.jsonl -o all.jsonl --force && cmp all.jsonl out.jsonl");
    program_exits(&r, 0);
    program_refuses(1, 2, "nothing to merge", "merge -o x.jsonl");
    program_refuses(1, 2, "would write 'out.jsonl', which is read", "merge out.jsonl -o out.jsonl --force");
    program_refuses(1, 3, "none.jsonl", "merge none.jsonl -o x.jsonl");
    program_refuses(1, 4, "is not the output of a batch", "merge in.jsonl -o x.jsonl");
    program_clear(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_status_shows_how_far_a_batch_is, test_merge_joins_outputs, NULL};
    program_enter();
    const int failed = suite_run("cli batch", tests);
    program_leave();
    return failed;
}
