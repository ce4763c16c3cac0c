/* Attention of blocks by cuDNN alone, compared with `ref`: on a real device with the real library (skipped without it),
 * on the emulated one with the emulation's, which takes what cuDNN takes. What lies after the entries of a head is
 * NaN. */
#include <stdio.h>

#include "attend_case.h"
#include "suite.h"

enum { SKIPPED = 77 };

static const tolerance near_bf16 = {0, 5e-2};

/* The cuda backend with cuDNN's attention. */
static lh_ops by_cudnn(void)
{
    lh_ops ops = *lh_ops_find("cuda");
    ops.attend_block = lh_cudnn_attend_block;
    return ops;
}

/* Cases of bf16 without window and cap: variants are taken until one is. */
static void plain_case(lot *m, attend_case *c, attend_size size)
{
    for (;; size.variant++) {
        block_make(m, c, &size);
        if (c->kv[0].host.type == LH_BF16) break;
        lot_end(m);
    }
    c->logit.softcap = 0, c->logit.window = 0, c->kv[0].host.bias = NULL;
    cache_spare(m, &c->kv[0]);
}

static void compare(rig *mine, rig *ref, attend_size size)
{
    lot m = {0};
    attend_case c;
    plain_case(&m, &c, size);
    attended got = block_run(&m, mine, &c), want = block_run(&m, ref, &c);
    check_attended(&got, &want, near_bf16, "attention by cuDNN", size.variant);
    lot_end(&m);
}

START_TEST(test_attention_by_cudnn_is_that_of_ref)
{
    static const lh_grouping maps[] = {{1, 1, 0}, {4, 2, 0}, {8, 4, 0}, {9, 3, 0}, {4, 2, 2}, {7, 7, 7}};
    static const int64_t dims[] = {8, 64, 80, 128, 256}, tokens[] = {1, 5, 17, 64, 70};
    const lh_ops ops = by_cudnn();
    rig mine, ref;
    rig_open(&mine, &ops);
    rig_open(&ref, rig_backend(0));
    for (int n = 0; n < 30; n++)
        compare(&mine, &ref, (attend_size){dims[n % 5], tokens[(n + n / 5) % 5], n * 7 % 90, maps[n % 6], n});
    rig_close(&mine);
    rig_close(&ref);
}
END_TEST

/* Several tiles of rows and entries of any engine's. */
START_TEST(test_attention_by_cudnn_over_long_caches_is_that_of_ref)
{
    const lh_ops ops = by_cudnn();
    rig mine, ref;
    rig_open(&mine, &ops);
    rig_open(&ref, rig_backend(0));
    for (int n = 0; n < 4; n++) {
        const int64_t scale = rig_scale(&mine) > 1 ? 8 : 1;
        compare(&mine, &ref, (attend_size){n % 2 ? 128 : 64, 700 / scale, 3000 / scale, {4, 2, 0}, n});
    }
    rig_close(&mine);
    rig_close(&ref);
}
END_TEST

START_TEST(test_the_log_sum_may_be_left_out)
{
    const lh_ops ops = by_cudnn();
    lot m = {0};
    attend_case c;
    rig mine;
    rig_open(&mine, &ops);
    plain_case(&m, &c, (attend_size){64, 20, 30, {4, 2, 0}, 2});
    attended want = block_run(&m, &mine, &c);
    float *got = lot_new(&m, want.o_count * 4), *o = rig_new(&mine, want.o_count * 4);
    lh_ragged kv = rig_cache(&mine, &c.kv[0]);
    RUN(&mine, attend_block, .o = o, .q = rig_put(&mine, c.q, c.tokens * c.q_ld * 4), .kv = &kv, .map = c.map,
        .logit = c.logit, .tokens = c.tokens, .q_ld = c.q_ld, .o_ld = c.o_ld);
    rig_get(&mine, got, o, want.o_count * 4);
    check_near(got, want.o, want.o_count, (tolerance){0, 0}, "sums without the logarithms");
    lot_end(&m);
    rig_close(&mine);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_attention_by_cudnn_is_that_of_ref,
                                  test_attention_by_cudnn_over_long_caches_is_that_of_ref,
                                  test_the_log_sum_may_be_left_out, NULL};
    char text[256] = "no CUDA";
    if (!lh_cudnn_found || !lh_cudnn_found(text)) {
        printf("skipped: %s\n", text);
        return SKIPPED;
    }
    return suite_run("kernels/cudnn", tests);
}
