/* What the newest row gave to the entries, counted in the pass before an eviction, is of that pass alone. */
#include "base/mem.h"
#include "kv_rig.h"

enum { LAYERS = 8 };

static rig_case case_of(const lh_policy_options *policy)
{
    return (rig_case){.heads = 9,
                      .kv_heads = 3,
                      .dim = 8,
                      .layers = LAYERS,
                      .tokens = 101,
                      .more = 40,
                      .type = LH_F32,
                      .seed = 5,
                      .policy = *policy};
}

static void check_same(const rig_result *a, const rig_result *b, const char *name)
{
    for (int64_t l = 0; l < LAYERS && mt_rank() == 0; l++) {
        const lh_positions *x = &a->kept[l], *y = &b->kept[l];
        int64_t other = 0;
        for (int64_t h = 0; h <= x->heads; h++) other += x->offsets[h] != y->offsets[h];
        for (int64_t i = 0; i < x->offsets[x->heads] && !other; i++) other += x->positions[i] != y->positions[i];
        mt_check(other == 0, "%s: layer %lld keeps other entries", name, (long long)l);
    }
}

static const lh_policy_options newest_first[] = {
    {.policy = "tova", .budget = "104"},
    {.policy = "knorm", .budget = "104"},
    {.policy = "knorm", .budget = "104", .parts = {.head_budget = "adaptive"}},
    {.policy = "keydiff", .budget = "104", .parts = {.evict = "every:1"}},
};
enum { POLICIES = sizeof newest_first / sizeof *newest_first };

/* Two ways on from a mark come to the same position, one by steps that evict and one by a question. */
START_TEST(test_what_was_before_a_rewind_ranks_nothing_after_it)
{
    for (int n = 0; n < POLICIES; n++) {
        rig_case c = case_of(&newest_first[n]);
        rig r, fresh;
        rig_result got, want;
        rig_open(&r, &c, mt_comm(), rig_backend(_i));
        rig_open(&fresh, &c, mt_comm(), rig_backend(_i));
        rig_prefill(&r, &got);
        rig_prefill(&fresh, &want);
        mt_try(lh_kv_snapshot(r.kv));
        for (int step = 0; step < 30; step++) rig_take(&r, LH_KV_STEP, 1);
        mt_try(lh_kv_restore(r.kv));
        rig_take(&r, LH_KV_BLOCK, 30);
        rig_take(&fresh, LH_KV_BLOCK, 30);
        rig_gather(&r, &got);
        rig_gather(&fresh, &want);
        check_same(&got, &want, r.plan.name);
        rig_result_clear(&got);
        rig_result_clear(&want);
        rig_close(&r);
        rig_close(&fresh);
    }
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("latest");
    TCase *laws = tcase_create("laws");
    tcase_set_timeout(laws, 0);
    tcase_add_loop_test(laws, test_what_was_before_a_rewind_ranks_nothing_after_it, 0, rig_backends());
    suite_add_tcase(suite, laws);
    return mt_run(suite);
}
