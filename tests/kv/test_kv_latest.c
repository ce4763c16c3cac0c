/* What the newest row gave to the entries, counted in the pass before an eviction, is of that pass alone. */
#include "base/mem.h"
#include "kv_rig.h"

enum { LAYERS = 8 };

static kv_rig_case case_of(const lh_policy_options *policy)
{
    return (kv_rig_case){.heads = 9,
                         .kv_heads = 3,
                         .dim = 8,
                         .layers = LAYERS,
                         .tokens = 101,
                         .more = 40,
                         .type = LH_F32,
                         .seed = 5,
                         .policy = *policy};
}

static void check_same(const kv_rig_result *a, const kv_rig_result *b, const char *name)
{
    for (int64_t l = 0; l < LAYERS && mt_rank() == 0; l++)
        mt_check(kv_rig_same(&a->kept[l], &b->kept[l]), "%s: layer %lld keeps other entries", name, (long long)l);
}

static const lh_policy_options newest_first[] = {
    {.policy = "tova", .budget = "104"},
    {.policy = "knorm", .budget = "104"},
    {.policy = "knorm", .budget = "104", .parts = {.head_budget = "adaptive"}},
    {.policy = "keydiff", .budget = "104", .parts = {.evict = "every:1"}},
};
enum { POLICIES = sizeof newest_first / sizeof *newest_first };

/* Two forks come to the same position, one by steps that evict and one by a question. */
START_TEST(test_a_closed_fork_ranks_nothing_in_the_next_one)
{
    for (int n = 0; n < POLICIES; n++) {
        kv_rig_case c = case_of(&newest_first[n]);
        kv_rig r, fresh;
        kv_rig_result got, want;
        kv_rig_open(&r, &c, mt_comm(), kv_rig_backend(_i));
        kv_rig_open(&fresh, &c, mt_comm(), kv_rig_backend(_i));
        kv_rig_prefill(&r, &got);
        kv_rig_prefill(&fresh, &want);
        kv_rig_fork(&r);
        for (int step = 0; step < 30; step++) kv_rig_take(&r, LH_KV_STEP, 1);
        kv_rig_fork(&r);
        kv_rig_take(&r, LH_KV_BLOCK, 30);
        kv_rig_take(&fresh, LH_KV_BLOCK, 30);
        kv_rig_gather(&r, &got);
        kv_rig_gather(&fresh, &want);
        check_same(&got, &want, r.plan.name);
        kv_rig_result_clear(&got);
        kv_rig_result_clear(&want);
        kv_rig_close(&r);
        kv_rig_close(&fresh);
    }
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("latest");
    TCase *laws = tcase_create("laws");
    tcase_set_timeout(laws, 0);
    tcase_add_loop_test(laws, test_a_closed_fork_ranks_nothing_in_the_next_one, 0, kv_rig_backends());
    suite_add_tcase(suite, laws);
    return mt_run(suite);
}
