/* Laws of scores that entries get in the pass before their eviction: they are those of this pass, and a step that was
 * recorded makes those that are taken from it. */
#include "base/mem.h"
#include "kv/kv_impl.h"
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
        const lh_kv_positions *x = &a->kept[l], *y = &b->kept[l];
        int64_t other = 0;
        for (int64_t h = 0; h <= x->heads; h++) other += x->offsets[h] != y->offsets[h];
        for (int64_t i = 0; i < x->offsets[x->heads] && !other; i++) other += x->positions[i] != y->positions[i];
        mt_check(other == 0, "%s: layer %lld keeps other entries", name, (long long)l);
    }
}

static const lh_policy_options by_keys[] = {
    {.policy = "knorm", .budget = "104"},
    {.policy = "knorm", .budget = "104", .parts = {.head_budget = "adaptive"}},
    {.policy = "keydiff", .budget = "104", .parts = {.evict = "every:1"}},
};
enum { BY_KEYS = sizeof by_keys / sizeof *by_keys };

/* Two ways on from a mark come to the same position, one by steps that evict and one by a question. */
START_TEST(test_what_was_before_a_rewind_ranks_nothing_after_it)
{
    for (int n = 0; n < BY_KEYS; n++) {
        rig_case c = case_of(&by_keys[n]);
        rig r, fresh;
        rig_result got, want;
        rig_open(&r, &c, mt_comm(), rig_backend(_i));
        rig_open(&fresh, &c, mt_comm(), rig_backend(_i));
        rig_prefill(&r, &got);
        rig_prefill(&fresh, &want);
        mt_try(lh_kv_mark(r.kv));
        for (int step = 0; step < 30; step++) rig_take(&r, LH_KV_STEP, 1);
        mt_try(lh_kv_rewind(r.kv));
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

/* Layers whose entries were scored as the newest row passed. */
static unsigned scored_layers(const rig *r)
{
    unsigned layers = 0;
    for (int l = 0; l < r->of->layers; l++)
        layers |= (unsigned)(r->kv->layers[l].latest.row == r->kv->clock.seen - 1) << l;
    return layers;
}

/* A step, and what the one before it was. */
typedef struct steps {
    int64_t moves, same; /* same: steps that a recorded one could be run for */
    unsigned layers;
} steps;

static void take_step(rig *r, steps *s)
{
    mt_try(lh_kv_reserve(r->kv, 1));
    int64_t moves = lh_kv_moves(r->kv);
    rig_take(r, LH_KV_STEP, 1);
    unsigned layers = scored_layers(r);
    mt_check(moves != s->moves || layers == s->layers,
             "position %lld: layers %x are scored, and those of a step of the same number are %x",
             (long long)lh_kv_seen(r->kv) - 1, layers, s->layers);
    *s = (steps){moves, s->same + (moves == s->moves), layers};
}

/* Heads that share a budget hold more than theirs, and less, in one layer and another: they are scored in all. */
START_TEST(test_steps_of_full_caches_score_the_same_layers)
{
    static const char *const budgets[] = {"104", "30"};
    for (int n = 0; n < 2; n++) {
        lh_policy_options options = {.policy = "knorm", .budget = budgets[n], .parts = {.head_budget = "adaptive"}};
        rig_case c = case_of(&options);
        rig r;
        rig_result got;
        steps s = {.moves = -1};
        rig_open(&r, &c, mt_comm(), rig_backend(_i));
        rig_prefill(&r, &got);
        for (int step = 0; step < 300; step++) take_step(&r, &s);
        mt_check(s.same > 270, "%lld of 300 steps can be recorded", (long long)s.same);
        rig_result_clear(&got);
        rig_close(&r);
    }
    mt_end();
}
END_TEST

/* A question after a rewind moves memory, as many times as layers are no longer full. */
START_TEST(test_no_step_after_a_rewind_is_one_of_before_it)
{
    for (int n = 0; n < BY_KEYS; n++) {
        rig_case c = case_of(&by_keys[n]);
        c.layers = 1;
        rig r;
        rig_result got;
        steps s = {.moves = -1};
        rig_open(&r, &c, mt_comm(), rig_backend(_i));
        rig_prefill(&r, &got);
        mt_try(lh_kv_mark(r.kv));
        for (int turn = 0; turn < 3; turn++) {
            for (int step = 0; step < 20; step++) take_step(&r, &s);
            mt_try(lh_kv_rewind(r.kv));
            rig_take(&r, LH_KV_BLOCK, 1);
        }
        rig_result_clear(&got);
        rig_close(&r);
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
    tcase_add_loop_test(laws, test_steps_of_full_caches_score_the_same_layers, 0, rig_backends());
    tcase_add_loop_test(laws, test_no_step_after_a_rewind_is_one_of_before_it, 0, rig_backends());
    suite_add_tcase(suite, laws);
    return mt_run(suite);
}
