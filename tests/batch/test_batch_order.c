/* The order of work: the longest lines first, those of one context together. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "batch/queue.h"
#include "rig.h"
#include "suite.h"

/* Lines with a context and a length; done: '1' where a line has its answer. Expects the lines of `want`. */
static void orders(const char *contexts, const int *lengths, const char *done, int in_order, const char *want)
{
    const int64_t n = (int64_t)strlen(contexts);
    lh_buf text = {0};
    uint8_t has[16] = {0};
    lh_batch_input *input = NULL;
    lh_batch_order order = {0};
    for (int64_t i = 0; i < n; i++) {
        OK(lh_buf_printf(&text, "{\"custom_id\":\"r%d\"", (int)i));
        if (contexts[i] != '-') OK(lh_buf_printf(&text, ",\"context_id\":\"%c\"", contexts[i]));
        OK(lh_buf_printf(&text, "%*s}\n", lengths[i], ""));
        has[i] = done[i] == '1';
    }
    rig_text("in.jsonl", text.data);
    OK(lh_batch_input_open(&input, "in.jsonl"));
    OK(lh_batch_order_make(&order, input, &(lh_batch_order_options){.done = has, .in_order = in_order}));
    ck_assert_int_eq(order.n, (int64_t)strlen(want));
    for (int64_t k = 0; k < order.n; k++) ck_assert_msg(order.lines[k] == want[k] - '0', "%s: place %d", want, (int)k);
    for (int64_t k = 0, turn; k < order.n; k += turn) {
        turn = lh_batch_order_group(&order, k);
        for (int64_t j = k; j < order.n; j++) {
            const int same = contexts[order.lines[j]] == contexts[order.lines[k]] && contexts[order.lines[k]] != '-';
            ck_assert_msg((j < k + turn) == (same || j == k), "%s: turn at %d", want, (int)k);
        }
    }
    lh_batch_order_clear(&order);
    lh_batch_input_close(input);
    lh_buf_clear(&text);
}

START_TEST(test_the_longest_come_first)
{
    rig_enter();
    const int lengths[] = {3, 90, 40, 7, 40, 200};
    orders("------", lengths, "000000", 0, "512430");
    orders("------", lengths, "000000", 1, "012345");
    orders("------", lengths, "010001", 0, "2430");
    rig_leave();
}
END_TEST

START_TEST(test_lines_of_a_context_stand_together)
{
    rig_enter();
    const int lengths[] = {30, 90, 40, 10, 60, 200};
    orders("a-b-ab", lengths, "000000", 0, "250413");
    orders("a-b-ab", lengths, "000000", 1, "041253");
    orders("a-b-ab", lengths, "000001", 0,
           "042513"); /* an answered line counts for what is shared, not for the length */
    orders("a-b-ab", lengths, "001001", 0, "0413");
    orders("aaaaaa", lengths, "111110", 0, "012345");
    orders("aaaaaa", lengths, "111111", 0, "");
    rig_leave();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_the_longest_come_first, test_lines_of_a_context_stand_together, NULL};
    return suite_run("batch order", tests);
}
