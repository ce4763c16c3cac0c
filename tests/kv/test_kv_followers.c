/* Caches that are filled by the prefill of another: each keeps what it keeps alone, whatever the others count of the
 * same rows, on any number of ranks. */
#include <stdio.h>
#include <string.h>

#include "kv_rig.h"

static const struct {
    int64_t heads, kv_heads;
} shapes[] = {{9, 3}, {4, 1}};
enum { SHAPES = sizeof shapes / sizeof *shapes, MOST = 3, LAYERS = 3 };

#define H2O(size, ...)                                                             \
    {                                                                              \
        .policy = "h2o", .budget = size, .parts = {.evict = "never", __VA_ARGS__ } \
    }

/* Caches that follow one, the last of which may be served by what those before it counted. */
static const lh_policy_options groups[][MOST] = {
    {H2O("30", 0)},
    {H2O("50", 0), H2O("30", 0)},
    /* the first keeps all of a layer, and has no use for its own statistics */
    {H2O("100%", 0), H2O("30", 0)},
    {H2O("400", 0), H2O("30", 0)},
    {H2O("40", .recents = "100%"), H2O("30", 0)},
    {H2O("60", .layer_budget = "pyramid"), H2O("30", 0)},
    {H2O("400", 0), H2O("101", 0), H2O("30", 0)},
    {{.policy = "h2o", .budget = "100%"}, {.policy = "h2o", .budget = "30"}},
    {{.policy = "roco", .budget = "100%", .parts = {.evict = "never"}},
     {.policy = "roco", .budget = "30", .parts = {.evict = "never"}}},
    {{.policy = "scissorhands", .budget = "100%", .parts = {.evict = "never"}},
     {.policy = "scissorhands", .budget = "30", .parts = {.evict = "never"}}},
    {{.policy = "mas", .budget = "400", .parts = {.evict = "never"}},
     {.policy = "mas", .budget = "30", .parts = {.evict = "never"}}},
    {{.policy = "ahakv", .budget = "100%"}, {.policy = "ahakv", .budget = "30"}},
    {{.policy = "snapkv", .budget = "100%"}, {.policy = "snapkv", .budget = "30"}, {.policy = "adakv", .budget = "30"}},
};
enum { GROUPS = sizeof groups / sizeof *groups };

enum { DIM = 8 };

static kv_rig_case case_of(int shape, const lh_policy_options *policy)
{
    return (kv_rig_case){.heads = shapes[shape].heads,
                         .kv_heads = shapes[shape].kv_heads,
                         .dim = DIM,
                         .layers = LAYERS,
                         .tokens = 101,
                         .more = 10,
                         .type = LH_F32,
                         .seed = 5,
                         .policy = *policy};
}

/* A cache that the rig's fills. */
static lh_kv *follow(const kv_rig *r, const lh_policy_options *policy)
{
    lh_policy plan = {0};
    mt_try(lh_policy_resolve(&plan, policy));
    kv_rig_size(&plan);
    lh_kv *kv = kv_rig_cache(r, &plan);
    mt_try(lh_kv_follow(kv, r->kv));
    return kv;
}

static void check_as_alone(lh_kv *kv, int shape, const lh_policy_options *policy, const char *which)
{
    const kv_rig_case c = case_of(shape, policy);
    kv_rig alone;
    kv_rig_result want;
    kv_rig_open(&alone, &c, mt_comm(), kv_rig_backend(0));
    kv_rig_prefill(&alone, &want);
    for (int64_t l = 0; l < LAYERS; l++) {
        lh_positions kept = {0};
        mt_try(lh_kv_gather_positions(kv, l, &kept));
        if (mt_rank() == 0)
            mt_check(kv_rig_same(&want.kept[l], &kept), "%s: layer %lld keeps other entries than alone", which,
                     (long long)l);
        lh_positions_clear(&kept);
    }
    kv_rig_result_clear(&want);
    kv_rig_close(&alone);
}

START_TEST(test_a_follower_keeps_what_it_keeps_alone)
{
    static const lh_policy_options full = {0};
    const int shape = _i % SHAPES, group = _i / SHAPES;
    const lh_policy_options *policies = groups[group];
    const kv_rig_case leader = case_of(shape, &full);
    lh_kv *caches[MOST] = {0};
    kv_rig r;
    kv_rig_result all;
    kv_rig_open(&r, &leader, mt_comm(), kv_rig_backend(0));
    for (int i = 0; i < MOST && policies[i].policy; i++) caches[i] = follow(&r, &policies[i]);
    kv_rig_prefill(&r, &all);
    for (int i = 0; i < MOST && caches[i]; i++) {
        char which[64];
        snprintf(which, sizeof which, "group %d, %s %s", group, policies[i].policy, policies[i].budget);
        check_as_alone(caches[i], shape, &policies[i], which);
    }
    for (int i = MOST - 1; i >= 0; i--) lh_kv_close(caches[i]);
    kv_rig_result_clear(&all);
    kv_rig_close(&r);
    mt_end();
}
END_TEST

/* The same codes and scales of every head. */
static int same_codes(const lh_ragged *a, const lh_ragged *b)
{
    int same = a->type == LH_Q8 && b->type == LH_Q8;
    for (int64_t h = 0; same && h < a->heads; h++) {
        const int64_t n = a->len[h], from = a->offset[h], to = b->offset[h];
        same = n == b->len[h];
        same = same && memcmp((char *)a->k + from * DIM, (char *)b->k + to * DIM, (size_t)(n * DIM)) == 0;
        same = same && memcmp((char *)a->v + from * DIM, (char *)b->v + to * DIM, (size_t)(n * DIM)) == 0;
        same = same && memcmp(a->k_scale + from, b->k_scale + to, (size_t)n * sizeof(float)) == 0;
        same = same && memcmp(a->v_scale + from, b->v_scale + to, (size_t)n * sizeof(float)) == 0;
    }
    return same;
}

/* Where only evicting caches keep q8, the leader keeps all entries in the type of the prompt; also where it evicts and
 * its follower keeps all. */
START_TEST(test_a_cache_has_the_type_of_its_own_policy)
{
    static const lh_policy_options policies[] = {{.policy = "full"}, {.policy = "ada-snapkv", .budget = "30"}};
    const int shape = _i % SHAPES, leads = _i / SHAPES; /* policy of the leader */
    kv_rig_case cases[2];
    kv_rig rigs[2];
    kv_rig_result results[2];
    for (int i = 0; i < 2; i++) {
        cases[i] = case_of(shape, &policies[i]);
        cases[i].quantises = 1;
        kv_rig_open(&rigs[i], &cases[i], mt_comm(), kv_rig_backend(0));
    }
    lh_kv *follower = follow(&rigs[leads], &policies[!leads]);
    for (int i = 0; i < 2; i++) kv_rig_prefill(&rigs[i], &results[i]);
    lh_kv *full = leads ? follower : rigs[0].kv, *evicted = leads ? rigs[1].kv : follower;
    for (int64_t l = 0; l < LAYERS; l++) {
        mt_check(lh_kv_view(full, l)->type == LH_F32, "layer %lld of the full cache is quantised", (long long)l);
        mt_check(same_codes(lh_kv_view(evicted, l), lh_kv_view(rigs[1].kv, l)), "layer %lld has other codes than alone",
                 (long long)l);
    }
    lh_kv_close(follower);
    for (int i = 0; i < 2; i++) {
        kv_rig_result_clear(&results[i]);
        kv_rig_close(&rigs[i]);
    }
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("followers");
    TCase *laws = tcase_create("laws");
    tcase_set_timeout(laws, 0);
    tcase_add_loop_test(laws, test_a_follower_keeps_what_it_keeps_alone, 0, GROUPS * SHAPES);
    tcase_add_loop_test(laws, test_a_cache_has_the_type_of_its_own_policy, 0, 2 * SHAPES);
    suite_add_tcase(suite, laws);
    return mt_run(suite);
}
