/* Keep sets of a reference implementation in double, in the folder LONGHAUL_TEST_DATA: pooling, selection and budgets
 * from the scores that it recorded of three layers of SmolLM2. Skipped without the folder. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/h5.h"
#include "base/mem.h"
#include "kv/kv_oracle.h"

enum { HEADS = 3, LAYERS = 30, TOKENS = 1512, WINDOW = 32 };

static const int layers[] = {0, 14, 29};

/* NULL: the data is not there, which is said once. */
static lh_h5 *open_golden(void)
{
    const char *folder = getenv("LONGHAUL_TEST_DATA");
    char path[1024];
    lh_h5 *h5 = NULL;
    snprintf(path, sizeof path, "%s/golden/policies-smollm2.h5", folder ? folder : LH_TEST_DATA);
    if (!lh_file_exists(path)) {
        printf("skipped: there is no '%s'\n", path);
        return NULL;
    }
    mt_try(lh_h5_open(&h5, path, &(lh_h5_header){0}));
    return h5;
}

static void *get(lh_h5 *h5, const char *name, lh_dtype type, int rank)
{
    void *data = NULL;
    lh_h5_shape shape, want = {.type = type, .rank = rank, .dims = {-1, -1}};
    mt_try(lh_h5_get(h5, name, &want, &shape, &data));
    return data;
}

START_TEST(test_pooling_gives_the_recorded_scores)
{
    lh_h5 *h5 = open_golden();
    lh_device *device = NULL;
    lh_stream *stream = NULL;
    uint8_t state[HEADS * TOKENS];
    int64_t len[HEADS] = {TOKENS, TOKENS, TOKENS};
    const lh_ragged kv = {.len = len, .heads = HEADS};
    mt_try(lh_device_open(&device, &(lh_device_choice){.kind = LH_DEVICE_CPU}));
    mt_try(lh_stream_open(&stream, device));
    for (int i = 0; i < HEADS * TOKENS; i++)
        state[i] = i % TOKENS < TOKENS - WINDOW ? LH_ENTRY_COMPETES : LH_ENTRY_KEEP;
    for (int l = 0; l < 3 && h5; l++) {
        char name[64];
        snprintf(name, sizeof name, "/snapkv/64/layers/%03d/scores_raw", layers[l]);
        float *raw = get(h5, name, LH_F32, 2), *pooled = NULL;
        snprintf(name, sizeof name, "/snapkv/64/layers/%03d/scores_pooled", layers[l]);
        float *want = get(h5, name, LH_F32, 2);
        mt_try(lh_calloc(&pooled, HEADS * TOKENS, sizeof *pooled));
        mt_try(kv_rig_backend(_i)->pool(stream, &(lh_pool_args){.y = pooled,
                                                                .x = raw,
                                                                .state = state,
                                                                .kv = &kv,
                                                                .rows = HEADS,
                                                                .rows_per_head = 1,
                                                                .ld = TOKENS,
                                                                .k = 7,
                                                                .seen = TOKENS,
                                                                .kind = LH_POOL_MAX}));
        for (int i = 0; i < HEADS * TOKENS; i++)
            mt_check(pooled[i] == want[i], "layer %d: score %d is %g, recorded %g", layers[l], i, (double)pooled[i],
                     (double)want[i]);
        lh_free(raw), lh_free(pooled), lh_free(want);
    }
    lh_h5_close(h5);
    lh_stream_close(stream);
    lh_device_close(device);
    mt_end();
}
END_TEST

static const struct {
    const char *group, *budget;
    lh_policy_options options;
} choices[] = {
    {"snapkv", "64", {.policy = "snapkv", .budget = "64"}},
    {"snapkv", "20%", {.policy = "snapkv", .budget = "20%"}},
    {"ada-snapkv", "64", {.policy = "ada-snapkv", .budget = "64"}},
    {"ada-snapkv", "256", {.policy = "ada-snapkv", .budget = "256"}},
    {"ada-snapkv", "20%", {.policy = "ada-snapkv", .budget = "20%"}},
    {"ada-snapkv:floor-0.2",
     "128",
     {.policy = "ada-snapkv", .budget = "128", .parts = {.own = {{"safeguard", "floor"}, {"alpha", "0.2"}}}}},
    {"ada-snapkv:floor-0.5",
     "20%",
     {.policy = "ada-snapkv", .budget = "20%", .parts = {.own = {{"safeguard", "floor"}}}}},
    {"ada-snapkv:interp-0.2", "128", {.policy = "ada-snapkv", .budget = "128", .parts = {.own = {{"alpha", "0.2"}}}}},
};

START_TEST(test_recorded_scores_give_the_recorded_keep_sets)
{
    lh_h5 *h5 = open_golden();
    lh_policy plan;
    lh_policy_numbers fixed;
    uint8_t state[HEADS * TOKENS], keep[HEADS * TOKENS];
    static oracle_number scores[HEADS * TOKENS];
    mt_try(lh_policy_resolve(&plan, &choices[_i].options));
    fixed = lh_policy_fix(&plan, TOKENS);
    for (int i = 0; i < HEADS * TOKENS; i++)
        state[i] = i % TOKENS < TOKENS - WINDOW ? LH_ENTRY_COMPETES : LH_ENTRY_KEEP;
    for (int l = 0; l < 3 && h5; l++) {
        char name[128];
        snprintf(name, sizeof name, "/snapkv/64/layers/%03d/scores_pooled", layers[l]);
        float *pooled = get(h5, name, LH_F32, 2);
        snprintf(name, sizeof name, "/%s/%s/layers/%03d/kept/offsets", choices[_i].group, choices[_i].budget,
                 layers[l]);
        int64_t *offsets = get(h5, name, LH_I64, 1);
        snprintf(name, sizeof name, "/%s/%s/layers/%03d/kept/positions", choices[_i].group, choices[_i].budget,
                 layers[l]);
        int32_t *positions = get(h5, name, LH_I32, 1);
        for (int i = 0; i < HEADS * TOKENS; i++) scores[i].x = (double)pooled[i];
        oracle_choose(&(oracle_choice){.fixed = &fixed,
                                       .layers = 1,
                                       .heads = HEADS,
                                       .cols = TOKENS,
                                       .protect = &(lh_protection){.base = fixed.budget - WINDOW},
                                       .first = scores,
                                       .flat = scores,
                                       .state = state,
                                       .keep = keep});
        for (int64_t h = 0; h < HEADS; h++) {
            int64_t at = offsets[h];
            for (int64_t p = 0; p < TOKENS; p++) {
                int there = at < offsets[h + 1] && positions[at] == p;
                mt_check(there == keep[h * TOKENS + p], "%s %s: layer %d head %lld position %lld", choices[_i].group,
                         choices[_i].budget, layers[l], (long long)h, (long long)p);
                at += there;
            }
        }
        lh_free(pooled), lh_free(offsets), lh_free(positions);
    }
    lh_h5_close(h5);
    mt_end();
}
END_TEST

START_TEST(test_pyramids_have_the_recorded_budgets)
{
    static const char *const budgets[] = {"64", "128", "256", "20%", "60%"}, *const names[] = {"pyramidkv",
                                                                                               "ada-pyramid"};
    lh_h5 *h5 = open_golden();
    for (int n = 0; n < 10 && h5; n++) {
        lh_policy plan;
        int64_t want[LAYERS];
        const char *name = names[n / 5], *budget = budgets[n % 5];
        mt_try(lh_policy_resolve(&plan, &(lh_policy_options){.policy = name, .budget = budget}));
        lh_policy_numbers fixed = lh_policy_fix(&plan, TOKENS);
        lh_policy_layers(&fixed, &(lh_layers_request){.layers = LAYERS, .seen = TOKENS}, want);
        for (int l = 0; l < LAYERS; l++) {
            char path[128];
            snprintf(path, sizeof path, "/%s/%s/layers/%03d/kept/budgets", name, budget, l);
            int32_t *kept = get(h5, path, LH_I32, 1);
            mt_check(kept[0] + kept[1] + kept[2] == HEADS * want[l],
                     "%s %s: layer %d keeps %d, its budget is %lld a head", name, budget, l,
                     kept[0] + kept[1] + kept[2], (long long)want[l]);
            lh_free(kept);
        }
    }
    lh_h5_close(h5);
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("golden");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 0);
    tcase_add_loop_test(all, test_pooling_gives_the_recorded_scores, 0, kv_rig_backends());
    tcase_add_loop_test(all, test_recorded_scores_give_the_recorded_keep_sets, 0, sizeof choices / sizeof *choices);
    tcase_add_test(all, test_pyramids_have_the_recorded_budgets);
    suite_add_tcase(suite, all);
    return mt_run(suite);
}
