/* Laws of the division of heads over ranks, for all small numbers of them. */
#include <stddef.h>

#include "exec/heads.h"
#include "suite.h"

static void check_ranks(const lh_heads *of, int ranks)
{
    int64_t q = 0, counted = 0;
    for (int r = 0; r < ranks; r++) {
        const lh_heads *h = &of[r];
        ck_assert_int_eq(h->q_first, q);
        ck_assert_int_ge(h->q_count, 1);
        ck_assert_int_le(h->q_count, of[0].q_count); /* as even as they can be */
        ck_assert_int_ge(h->q_count, of[0].q_count - (h->split ? 1 : h->group));
        ck_assert_int_eq(h->counted_first, counted);
        ck_assert_int_eq(h->kv_first, h->q_first / h->group);
        ck_assert_int_eq(h->kv_first + h->kv_count - 1, (h->q_first + h->q_count - 1) / h->group);
        ck_assert(h->counted_count >= 0 && h->counted_count <= h->kv_count);
        lh_grouping map = lh_heads_grouping(h);
        for (int64_t i = 0; i < h->q_count; i++)
            ck_assert_int_eq(h->kv_first + (map.first + i) / map.group, (h->q_first + i) / h->group);
        q += h->q_count;
        counted += h->counted_count;
    }
    ck_assert_int_eq(q, of[0].heads);
    ck_assert_int_eq(counted, of[0].kv_heads); /* every KV head is counted once */
}

static void check_sharers(const lh_heads *of, int ranks)
{
    int split = 0;
    for (int64_t g = 0; g < of[0].kv_heads; g++) {
        int first, count, found = 0, lowest = -1;
        lh_heads_sharers(&of[ranks - 1], g, &first, &count);
        for (int r = 0; r < ranks; r++) {
            int holds = g >= of[r].kv_first && g < of[r].kv_first + of[r].kv_count;
            int counts = g >= of[r].counted_first && g < of[r].counted_first + of[r].counted_count;
            if (holds && lowest < 0) lowest = r;
            found += holds;
            ck_assert_int_eq(holds, r >= first && r < first + count);
            ck_assert_int_eq(counts, holds && r == lowest); /* by the lowest rank that holds it */
        }
        ck_assert_int_eq(found, count);
        split |= count > 1;
    }
    for (int r = 0; r < ranks; r++) ck_assert_int_eq(of[r].split, split);
}

START_TEST(test_heads_are_divided_for_all_small_numbers)
{
    for (int64_t kv_heads = 1; kv_heads <= 9; kv_heads++)
        for (int64_t group = 1; group <= 8; group++)
            for (int ranks = 1; ranks <= kv_heads * group && ranks <= 24; ranks++) {
                lh_heads of[24];
                for (int r = 0; r < ranks; r++) {
                    ck_assert_int_eq(lh_heads_of(&of[r], kv_heads * group, kv_heads, r, ranks), LH_OK);
                    lh_heads other = lh_heads_at(&of[0], r);
                    ck_assert_mem_eq(&other, &of[r],
                                     offsetof(lh_heads, ranks) + sizeof other.ranks); /* not its padding */
                }
                check_ranks(of, ranks);
                check_sharers(of, ranks);
                if (ranks % kv_heads == 0)
                    for (int r = 0; r < ranks; r++) ck_assert_int_eq(of[r].kv_count, 1); /* one cache, not two */
                if (ranks <= kv_heads)
                    for (int r = 0; r < ranks; r++) {
                        ck_assert(!of[r].split && of[r].counted_count == of[r].kv_count);
                        ck_assert_int_eq(of[r].q_count, of[r].kv_count * group);
                        ck_assert_int_ge(of[r].kv_count, of[0].kv_count - 1);
                    }
            }
}
END_TEST

START_TEST(test_examples)
{
    lh_heads h;
    ck_assert_int_eq(lh_heads_of(&h, 9, 3, 0, 2), LH_OK); /* 3 on 2: 2 + 1 */
    ck_assert(h.kv_count == 2 && h.q_count == 6 && !h.split);
    ck_assert_int_eq(lh_heads_of(&h, 5, 5, 2, 3), LH_OK);
    ck_assert(h.kv_first == 4 && h.kv_count == 1);
    ck_assert_int_eq(lh_heads_of(&h, 9, 3, 2, 4), LH_OK); /* 3 + 2 + 2 + 2 query heads */
    ck_assert(h.q_first == 5 && h.q_count == 2 && h.kv_first == 1 && h.kv_count == 2 && h.split);
    ck_assert(h.counted_first == 2 && h.counted_count == 1);
    ck_assert_int_eq(lh_heads_of(&h, 28, 4, 3, 8), LH_OK); /* 4 + 3 query heads of each group */
    ck_assert(h.q_first == 11 && h.q_count == 3 && h.kv_first == 1 && h.kv_count == 1 && h.counted_count == 0);
}
END_TEST

START_TEST(test_what_cannot_be_divided_is_refused)
{
    lh_heads h;
    ck_assert_int_eq(lh_heads_of(&h, 8, 3, 0, 1), LH_EUSAGE);
    ck_assert_int_eq(lh_heads_of(&h, 8, 0, 0, 1), LH_EUSAGE);
    ck_assert_int_eq(lh_heads_of(&h, 8, 2, 0, 9), LH_EUSAGE);
}
END_TEST

int main(void)
{
    return suite_run("heads", (const TTest *const[]){test_heads_are_divided_for_all_small_numbers, test_examples,
                                                     test_what_cannot_be_divided_is_refused, NULL});
}
