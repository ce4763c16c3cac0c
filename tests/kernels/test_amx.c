/* The matrix tiles of AMX are in few processors: here the backend is compiled with tiles in plain C (amx.h), so that
 * what is built on them is tested wherever AVX-512 is. */
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

int main(void)
{
    const TTest *const tests[] = {test_attention_by_matrix_tiles_is_that_of_ref,
                                  test_attention_by_matrix_tiles_over_several_tiles_of_keys_is_that_of_ref, NULL};
    return suite_run("kernels/amx", tests);
}
