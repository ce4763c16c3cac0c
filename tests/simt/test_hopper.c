/* Which blocks of attention the kernel for compute capability 9.0 computes, and what becomes of wrong numbers; what it
 * gives is tests/kernels/test_ops_attention.c's. Products of a step by tensor copies, and without the driver's maps. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attend_case.h"
#include "bulk.h"
#include "suite.h"

static const tolerance near_bf16 = {0, 5e-2};

static const lh_ops *cuda(void)
{
    const lh_ops *ops = lh_ops_find("cuda");
    ck_assert_ptr_nonnull(ops);
    return ops;
}

/* A case of bf16: variants are taken until one is. */
static void bf16_case(lot *m, attend_case *c, attend_size size)
{
    for (;; size.variant++) {
        block_make(m, c, &size);
        if (c->kv[0].host.type == LH_BF16) return;
        lot_end(m);
    }
}

/* Runs a case and compares it with `ref`; returns the tensor copies that it took. */
static int64_t copies_of(rig *g, const attend_case *c)
{
    const int64_t before = simt_tensor_copies();
    lot m = {0};
    rig ref;
    rig_open(&ref, rig_backend(0));
    const attended got = block_run(&m, g, c), want = block_run(&m, &ref, c);
    check_attended(&got, &want, near_bf16, "attention of a block", 0);
    rig_close(&ref);
    lot_end(&m);
    return simt_tensor_copies() - before;
}

static const attend_size usual = {64, 64, 200, {4, 2, 0}, 1};

static int64_t copies_of_size(rig *g, attend_size size, int any_order)
{
    lot m = {0};
    attend_case c;
    bf16_case(&m, &c, size);
    c.any_order = any_order;
    const int64_t copies = copies_of(g, &c);
    lot_end(&m);
    return copies;
}

/* The device has 4 multiprocessors: two thread blocks are enough. */
START_TEST(test_it_computes_what_it_can)
{
    const attend_size few_rows = {64, 31, 200, {2, 1, 0}, 1}, one_head = {64, 64, 200, {2, 2, 0}, 1};
    attend_size odd = usual, narrow = usual;
    odd.dim = 36, narrow.dim = 24;
    rig g;
    rig_open(&g, cuda());
    ck_assert_int_gt(copies_of_size(&g, usual, 0), 0);
    ck_assert_int_gt(copies_of_size(&g, usual, 1), 0);
    ck_assert_int_gt(copies_of_size(&g, few_rows, 0), 0);
    ck_assert_int_eq(copies_of_size(&g, few_rows, 1), 0);
    ck_assert_int_gt(copies_of_size(&g, one_head, 0), 0);
    ck_assert_int_eq(copies_of_size(&g, one_head, 1), 0);
    ck_assert_int_eq(copies_of_size(&g, odd, 0), 0);
    ck_assert_int_eq(copies_of_size(&g, narrow, 0), 0);
    rig_close(&g);
}
END_TEST

START_TEST(test_other_devices_do_not_have_it)
{
    rig g;
    setenv("LONGHAUL_SIMT_CAPABILITY", "100", 1);
    rig_open(&g, cuda());
    ck_assert_int_eq(copies_of_size(&g, usual, 0), 0);
    rig_close(&g);
    unsetenv("LONGHAUL_SIMT_CAPABILITY");
}
END_TEST

/* Slots are positions, stored or not: tiles before the window are not copied. Elsewhere every tile is. */
START_TEST(test_tiles_before_a_window_are_not_copied)
{
    lot m = {0};
    attend_case c;
    rig g;
    int64_t copies[3];
    bf16_case(&m, &c, (attend_size){128, 40, 900, {4, 4, 0}, 1});
    lh_ragged *kv = &c.kv[0].host;
    kv->bias = NULL, kv->len[0] = 940;
    for (int64_t t = 0; t < c.tokens; t++) c.positions[t] = (int32_t)(900 + t);
    c.logit.window = 100;
    rig_open(&g, cuda());
    int32_t *positions = lot_new(&m, c.kv[0].slots * 4);
    for (int64_t s = 0; s < 940; s++) positions[kv->offset[0] + s] = (int32_t)s;
    for (int n = 0; n < 3; n++) {
        kv->positions = n ? positions : NULL;
        if (n == 2) { /* two entries have been evicted */
            kv->k = (char *)kv->k + 2 * 128 * 2, kv->v = (char *)kv->v + 2 * 128 * 2, kv->positions += 2;
            kv->len[0] -= 2, c.kv[0].slots -= 2;
        }
        copies[n] = copies_of(&g, &c);
    }
    ck_assert_int_eq(copies[0], copies[1]);
    ck_assert_int_gt(copies[2], copies[1]);
    rig_close(&g);
    lot_end(&m);
}
END_TEST

/* Entries after the last one of a head are not read: here they are NaN, and the memory ends with the last head. */
START_TEST(test_what_follows_a_head_spoils_no_sum)
{
    static const int64_t dims[] = {64, 80, 128, 192, 256};
    rig g;
    rig_open(&g, cuda());
    for (int n = 0; n < 5; n++) {
        lot m = {0};
        attend_case c;
        bf16_case(&m, &c, (attend_size){dims[n], 33, 300, {6, 2, 0}, 7 * n});
        lh_ragged *kv = &c.kv[0].host;
        for (int64_t h = 0; h < kv->heads; h++) {
            const int64_t end = kv->offset[h] + kv->len[h],
                          next = h + 1 < kv->heads ? kv->offset[h + 1] : c.kv[0].slots;
            memset((char *)kv->k + end * dims[n] * 2, 255, (size_t)((next - end) * dims[n] * 2));
            memset((char *)kv->v + end * dims[n] * 2, 255, (size_t)((next - end) * dims[n] * 2));
        }
        copies_of(&g, &c);
        lot_end(&m);
    }
    rig_close(&g);
}
END_TEST

/* A key that is not a number: the rows that see it are none, the others are numbers. */
START_TEST(test_rows_that_see_a_key_that_is_not_a_number_are_none)
{
    lot m = {0};
    attend_case c;
    rig g;
    bf16_case(&m, &c, (attend_size){128, 64, 300, {4, 2, 0}, 3});
    lh_ragged *kv = &c.kv[0].host;
    const int64_t head = kv->heads - 1, slot = kv->len[head] - 20; /* rows 44 to 63 see it */
    c.logit.window = 0;
    ((uint16_t *)kv->k)[(kv->offset[head] + slot) * 128 + 5] = 0x7fc0;
    rig_open(&g, cuda());
    const attended got = block_run(&m, &g, &c);
    for (int64_t t = 0; t < 64; t++) {
        const int64_t i = c.map.heads - 1;
        ck_assert_int_eq(isnan(got.lse[t * c.map.heads + i]) != 0, t >= 44);
        ck_assert_int_eq(isnan(got.o[t * c.o_ld + i * 128 + 99]) != 0, t >= 44);
    }
    rig_close(&g);
    lot_end(&m);
}
END_TEST

static void count_wait(void *waits)
{
    ++*(int *)waits;
}

static int waits_for(rig *g, const attend_case *c)
{
    lot m = {0};
    int waits = 0;
    const lh_ragged kv = rig_cache(g, &c->kv[0]);
    lh_attend_block_args args = block_args(g, c, &kv);
    args.o = rig_new(g, c->tokens * c->o_ld * 4);
    lh_stream_watch(g->stream, &(lh_stream_waiter){.self = &waits, .before = count_wait});
    ck_assert_int_eq(cuda()->attend_block(g->stream, &args), LH_OK);
    lh_stream_watch(g->stream, NULL);
    rig_reset(g);
    lot_end(&m);
    return waits;
}

START_TEST(test_the_first_result_of_every_kernel_is_compared)
{
    lot m = {0};
    attend_case c;
    rig g;
    rig_open(&g, cuda());
    bf16_case(&m, &c, usual);
    c.logit = (lh_logit){.scale = 0.125f}, c.kv[0].host.bias = NULL;
    ck_assert_int_gt(waits_for(&g, &c), 0); /* the workspace grows, too */
    ck_assert_int_eq(waits_for(&g, &c), 0);
    c.logit.softcap = 20;
    ck_assert_int_eq(waits_for(&g, &c), 1);
    ck_assert_int_eq(waits_for(&g, &c), 0);
    rig_close(&g);
    lot_end(&m);
}
END_TEST

START_TEST(test_wrong_numbers_are_seen_and_not_given)
{
    rig g;
    rig_open(&g, cuda());
    simt_maps_go(SIMT_MAPS_WRONG);
    ck_assert_int_gt(copies_of_size(&g, usual, 0), 0);
    simt_maps_go(SIMT_MAPS_WELL);
    ck_assert_int_eq(copies_of_size(&g, usual, 0), 0);
    rig_close(&g);
}
END_TEST

/* Queries of NaN: both kernels give NaN. */
START_TEST(test_numbers_that_are_none_are_no_reason_for_distrust)
{
    lot m = {0};
    attend_case c;
    rig g;
    rig_open(&g, cuda());
    bf16_case(&m, &c, usual);
    for (int64_t i = 0; i < c.tokens * c.q_ld; i++) c.q[i] = NAN;
    const attended got = block_run(&m, &g, &c);
    ck_assert(isnan(got.lse[0]) && isnan(got.o[0]));
    ck_assert_int_gt(copies_of_size(&g, usual, 0), 0);
    rig_close(&g);
    lot_end(&m);
}
END_TEST

START_TEST(test_without_maps_our_other_kernel_does_it)
{
    rig g;
    rig_open(&g, cuda());
    simt_maps_go(SIMT_MAPS_REFUSED);
    ck_assert_int_eq(copies_of_size(&g, usual, 0), 0);
    simt_maps_go(SIMT_MAPS_WELL);
    ck_assert_int_eq(copies_of_size(&g, usual, 0), 0);
    rig_close(&g);
}
END_TEST

/* Three rows of ones times weights that are the same along a row; returns the tensor copies that it took. */
static int64_t copies_of_product(rig *g)
{
    enum { TOKENS = 3, OUT = 40, IN = 72 };
    const int64_t before = simt_tensor_copies();
    float x[TOKENS * IN], w[OUT * IN], y[TOKENS * OUT];
    lot m = {0};
    for (int i = 0; i < TOKENS * IN; i++) x[i] = 1;
    for (int i = 0; i < OUT * IN; i++) w[i] = (float)(i / IN);
    float *on = rig_new(g, sizeof y);
    RUN(g, gemm, .y = on, .x = rig_put(g, lot_bf16(&m, x, TOKENS * IN), sizeof x / 2),
        .w = lh_plain_matrix(rig_put(g, lot_bf16(&m, w, OUT * IN), sizeof w / 2), LH_BF16, IN), .type = LH_BF16,
        .tokens = TOKENS, .out = OUT, .in = IN, .y_ld = OUT, .x_ld = IN);
    rig_get(g, y, on, sizeof y);
    for (int i = 0; i < TOKENS * OUT; i++) ck_assert(y[i] == (float)(IN * (i % OUT)));
    lot_end(&m);
    return simt_tensor_copies() - before;
}

START_TEST(test_products_of_a_step_go_on_without_maps)
{
    rig g;
    rig_open(&g, cuda());
    ck_assert_int_gt(copies_of_product(&g), 0);
    simt_maps_go(SIMT_MAPS_REFUSED);
    ck_assert_int_eq(copies_of_product(&g), 0);
    simt_maps_go(SIMT_MAPS_WELL);
    rig_close(&g);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_it_computes_what_it_can,
                                  test_other_devices_do_not_have_it,
                                  test_tiles_before_a_window_are_not_copied,
                                  test_what_follows_a_head_spoils_no_sum,
                                  test_rows_that_see_a_key_that_is_not_a_number_are_none,
                                  test_the_first_result_of_every_kernel_is_compared,
                                  test_wrong_numbers_are_seen_and_not_given,
                                  test_numbers_that_are_none_are_no_reason_for_distrust,
                                  test_without_maps_our_other_kernel_does_it,
                                  test_products_of_a_step_go_on_without_maps,
                                  NULL};
    return suite_run("simt/hopper", tests);
}
