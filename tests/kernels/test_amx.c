/* The matrix tiles of AMX are in few processors: here the backend is compiled with tiles in plain C (pairs_amx.h), so
 * that what is built on them is tested wherever AVX-512 is. */
#include <stdio.h>

#include "attend_case.h"
#include "suite.h"

/* Of amx_ops.c, which is compiled for AVX-512. */
extern const lh_ops amx_ops;

/* Queries, keys and weights have 8 bits: a weight may be off by some percent, values stay below 5. */
static const tolerance near_bf16 = {0, 5e-2};

static int runs_here(void)
{
    int there = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (!there) printf("skipped: this processor has no AVX-512\n");
    return there;
}

static void compare(const attend_size *size, int n)
{
    lot m = {0};
    rig mine, ref;
    attend_case c;
    rig_open(&mine, &amx_ops);
    rig_open(&ref, &lh_ops_ref);
    block_make(&m, &c, size);
    attended got = block_run(&m, &mine, &c), want = block_run(&m, &ref, &c);
    check_attended(&got, &want, near_bf16, "attend_block by emulated tiles", n);
    rig_close(&mine);
    rig_close(&ref);
    lot_end(&m);
}

START_TEST(test_attention_by_matrix_tiles_is_that_of_ref)
{
    for (int n = 0; n < 120 && runs_here(); n++) {
        lh_grouping map = {.heads = 1 + n % 7, .group = 1 + n % 5, .first = n % 3};
        compare(&(attend_size){test_dims[n % 10], test_tokens[n / 10 % 6], n * 7 % 90, map, n}, n);
    }
}
END_TEST

START_TEST(test_attention_by_matrix_tiles_over_several_tiles_of_keys_is_that_of_ref)
{
    for (int n = 0; n < 12 && runs_here(); n++) {
        lh_grouping map = {.heads = 3, .group = 3, .first = n % 4};
        compare(&(attend_size){n % 3 ? 64 : 96, test_tokens[n % 5], 300 + n * 53, map, n}, n);
    }
}
END_TEST

/* Queries of observed rows are exact in bf16. Counts depend on which side of the mean a weight is: they may differ by a
 * row or two, and by the rows whose gain is 0, where all weights are the mean. */
static void compare_observed(const attend_size *size, int n)
{
    lot m = {0};
    rig mine, ref;
    attend_case c;
    rig_open(&mine, &amx_ops);
    rig_open(&ref, &lh_ops_ref);
    observed_make(&m, &c, size);
    const float *lse = row_lse_run(&m, &ref, &c);
    check_near(row_lse_run(&m, &mine, &c), lse, c.tokens * c.map.heads, (tolerance){2e-6, 1e-5},
               "row_lse by emulated tiles, case %d", n);
    columns_spec spec = {.lse = lse,
                         .first = n % 3,
                         .cols = longest_head(&c),
                         .parts = n % 2 ? c.map.group : 1,
                         .wanted = WANT_SUMS | WANT_SQUARES};
    columns got = columns_run(&m, &mine, &c, &spec, NULL), want = columns_run(&m, &ref, &c, &spec, NULL);
    check_near(got.numbers, want.numbers, want.count, (tolerance){6e-5, 1e-6}, "columns by emulated tiles, case %d", n);
    spec.wanted = WANT_COUNTS;
    double unsure = 2;
    for (int64_t t = 0; t < c.tokens && c.gains; t++) unsure += c.gains[t] == 0;
    got = columns_run(&m, &mine, &c, &spec, NULL), want = columns_run(&m, &ref, &c, &spec, NULL);
    check_near(got.numbers, want.numbers, want.count, (tolerance){0, unsure}, "counts by emulated tiles, case %d", n);
    rig_close(&mine);
    rig_close(&ref);
    lot_end(&m);
}

START_TEST(test_observed_rows_by_matrix_tiles_are_those_of_ref)
{
    for (int n = 0; n < 120 && runs_here(); n++) {
        int64_t group = 1 + n % 8;
        lh_grouping map = {.heads = (1 + n % 3) * group, .group = group, .first = n % 2 * group};
        compare_observed(&(attend_size){test_dims[n % 10], test_tokens[n / 10 % 6], n * 7 % 200, map, n}, n);
    }
}
END_TEST

/* Norms of values of a head of 700 entries after the columns of two query heads. Values and weights are exact in bf16,
 * sums are in f32. */
START_TEST(test_projected_norms_by_matrix_tiles_are_those_of_ref)
{
    const int64_t outs[] = {1, 31, 64, 100, 577, 1030};
    for (int n = 0; n < 40 && runs_here(); n++) {
        lot m = {0};
        rig rigs[2];
        cache c;
        int64_t dim = test_dims[n % 10], out = outs[n % 6], ld = 2 * dim, len = n % 4 ? 1 + n * 3 : 700;
        float *norms[2];
        cache_make(&m, &c, &(cache_spec){.heads = 1, .head_dim = dim, .last = len, .len = &len, .type = LH_BF16});
        const uint16_t *w = lot_bf16(&m, lot_normals(&m, out * ld, 0.05f, 5), out * ld);
        for (int b = 0; b < 2; b++) {
            rig_open(&rigs[b], b ? &lh_ops_ref : &amx_ops);
            lh_ragged kv = rig_cache(&rigs[b], &c);
            float *y = rig_new(&rigs[b], 2 * len * 4);
            norms[b] = lot_new(&m, 2 * len * 4);
            RUN(&rigs[b], projected_norms, .y = y, .kv = &kv, .map = {2, 2, 0}, .last = len, .ld = len,
                .w = rig_put(&rigs[b], w, out * ld * 2), .type = LH_BF16, .out = out, .w_ld = ld);
            rig_get(&rigs[b], norms[b], y, 2 * len * 4);
            rig_close(&rigs[b]);
        }
        check_near(norms[0], norms[1], 2 * len, (tolerance){1e-5, 1e-5}, "projected_norms by emulated tiles, case %d",
                   n);
        lot_end(&m);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_attention_by_matrix_tiles_is_that_of_ref,
                                  test_attention_by_matrix_tiles_over_several_tiles_of_keys_is_that_of_ref,
                                  test_observed_rows_by_matrix_tiles_are_those_of_ref,
                                  test_projected_norms_by_matrix_tiles_are_those_of_ref, NULL};
    return suite_run("kernels/amx", tests);
}
