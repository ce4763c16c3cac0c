/* Laws of biases: what a bias of 0, of ln 2 and of much less than 0 is the same as, in every operation that forms
 * logits of entries. The formula itself is that of the other tests: some of their caches have biases. */
#include <math.h>
#include <string.h>

#include "attend_case.h"
#include "cases.h"
#include "kernels/ragged.h"

static const tolerance near_f32 = {1e-5, 5e-5}; /* test_ops_attention.c */

enum { HEAD_DIM, ROWS, PAST, GROUP, HEADS };
static const dimension kinds[] = {
    [HEAD_DIM] = {"head_dim", 10, {1, 3, 20, 24, 48, 64, 80, 96, 128, 256}},
    [ROWS] = {"rows", 4, {1, 2, 5, 17}},
    [PAST] = {"past", 8, {1, 7, 14, 33, 64, 89, 154, 300}},
    [GROUP] = {"group", 5, {1, 2, 3, 4, 8}},
    [HEADS] = {"KV heads", 3, {1, 2, 3}},
};

static attend_size size_at(int n)
{
    int64_t group = case_value(&kinds[GROUP], n);
    return (attend_size){.dim = case_value(&kinds[HEAD_DIM], n),
                         .tokens = case_value(&kinds[ROWS], n),
                         .past = case_value(&kinds[PAST], n),
                         .map = {group * case_value(&kinds[HEADS], n), group, 0},
                         .variant = n};
}

/* What all operations give of a case: a block, a step (of the same cache), log-sum-exps and columns. */
typedef struct results {
    attended block, step;
    float *lse;
    columns columns;
} results;

static columns_spec all_columns(const attend_case *c, const float *lse)
{
    return (columns_spec){.lse = lse,
                          .cols = longest_head(c),
                          .parts = c->map.group,
                          .place = COLUMNS_ROWS,
                          .wanted = c->map.group > 1 ? WANT_ALL : WANT_SUMS};
}

static results run_observed(lot *m, rig *g, const attend_case *c)
{
    results r = {.lse = row_lse_run(m, g, c)};
    const columns_spec spec = all_columns(c, r.lse);
    r.columns = columns_run(m, g, c, &spec, NULL);
    return r;
}

static void check_same_results(const results *got, const results *want, const attend_case *c, const char *name)
{
    check_same(got->lse, want->lse, c->tokens * c->map.heads * 4, "log-sum-exps, %s", name);
    check_same(got->columns.numbers, want->columns.numbers, got->columns.count * 4, "columns, %s", name);
}

/* A single row whose normaliser is not known, its logits given or not. */
static void check_single_row(lot *m, rig *g, const attend_case *with, const attend_case *without)
{
    attend_case pair[2] = {*with, *without};
    for (int given = 0; given < 2; given++) {
        columns got[2];
        for (int i = 0; i < 2; i++) {
            pair[i].tokens = 1;
            pair[i].logits =
                given ? lot_normals(m, pair[i].map.heads * logits_ld(&pair[i]), 2.0f, (uint64_t)given) : NULL;
            const columns_spec spec = all_columns(&pair[i], NULL);
            got[i] = columns_run(m, g, &pair[i], &spec, NULL);
        }
        check_same(got[0].numbers, got[1].numbers, got[0].count * 4, "a single row, logits %s, %s",
                   given ? "given" : "not given", g->ops->name);
    }
}

START_TEST(test_biases_of_zero_change_no_bit)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 120; n += 1 + 4 * (rig_scale(&g) > 1)) {
            lot m = {0};
            attend_case with, without;
            attend_size size = size_at(n);
            block_make(&m, &with, &size);
            without = with;
            with.kv[0].host.bias = lot_new(&m, with.kv[0].slots * 4);
            without.kv[0].host.bias = NULL;
            attended got = block_run(&m, &g, &with), want = block_run(&m, &g, &without);
            check_same(got.o, want.o, got.o_count * 4, "a block, %s", g.ops->name);
            check_same(got.lse, want.lse, got.lse_count * 4, "lse of a block, %s", g.ops->name);
            observed_make(&m, &with, &size);
            without = with;
            with.kv[0].host.bias = lot_new(&m, with.kv[0].slots * 4);
            without.kv[0].host.bias = NULL;
            results a = run_observed(&m, &g, &with), z = run_observed(&m, &g, &without);
            check_same_results(&a, &z, &with, g.ops->name);
            check_single_row(&m, &g, &with, &without);
            with.batch = without.batch = 1;
            got = decode_run(&m, &g, &with), want = decode_run(&m, &g, &without);
            check_same(got.o, want.o, got.o_count * 4, "a step, %s", g.ops->name);
            check_same(got.lse, want.lse, got.lse_count * 4, "lse of a step, %s", g.ops->name);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* Two entries of a head become the same. */
static void copy_entry(const lh_ragged *r, int64_t h, int64_t to, int64_t from)
{
    int64_t bytes = r->head_dim * lh_dtype_bytes(r->type), at = r->offset[h] + to, of = r->offset[h] + from;
    memcpy((char *)r->k + at * bytes, (char *)r->k + of * bytes, (size_t)bytes);
    memcpy((char *)r->v + at * bytes, (char *)r->v + of * bytes, (size_t)bytes);
    r->positions[at] = r->positions[of];
}

/* Rows that observe a cache of which every head has its last but one entry twice, and room for biases. */
static void twice_make(lot *m, attend_case *c, int n)
{
    attend_size size = size_at(n);
    do {
        lot_end(m);
        observed_make(m, c, &size);
        size.variant++;
    } while (!c->kv[0].host.positions);
    lh_ragged *r = &c->kv[0].host;
    r->bias = lot_normals(m, c->kv[0].slots, 1.0f, (uint64_t)n);
    for (int64_t h = 0; h < r->heads; h++) {
        if (r->len[h] < 2) continue;
        copy_entry(r, h, r->len[h] - 1, r->len[h] - 2);
        r->bias[r->offset[h] + r->len[h] - 1] = r->bias[r->offset[h] + r->len[h] - 2];
    }
    c->batch = 1;
}

/* Without the last entries of heads, the entries before them changed by `bias`. */
static void drop_last(lot *m, attend_case *out, const attend_case *c, float bias)
{
    *out = *c;
    lh_ragged *r = &out->kv[0].host;
    r->len = lot_copy(m, r->len, r->heads * 8);
    r->bias = lot_copy(m, r->bias, out->kv[0].slots * 4);
    for (int64_t h = 0; h < r->heads; h++)
        if (r->len[h] >= 2) r->bias[r->offset[h] + --r->len[h] - 1] += bias;
}

/* Attention of a step, log-sum-exps, and the sums of the columns; `last`: of the columns that only `whole` has. */
static void compare(lot *m, rig *g, const attend_case *whole, const attend_case *less, int twice)
{
    attended all = decode_run(m, g, whole), part = decode_run(m, g, less);
    check_attended(&part, &all, near_f32, twice ? "an entry held twice" : "an entry evicted", 0);
    results a = run_observed(m, g, whole), p = run_observed(m, g, less);
    check_near(p.lse, a.lse, whole->tokens * whole->map.heads, near_f32, "log-sum-exps, %s", g->ops->name);
    const lh_ragged *r = &whole->kv[0].host;
    for (int64_t h = 0; h < r->heads; h++) {
        for (int64_t s = 0; s < less->kv[0].host.len[h]; s++) {
            float want = *lh_slot_at(&a.columns.sums, h, s, 0);
            if (s == less->kv[0].host.len[h] - 1 && twice && r->len[h] >= 2)
                want += *lh_slot_at(&a.columns.sums, h, s + 1, 0);
            check_near(lh_slot_at(&p.columns.sums, h, s, 0), &want, 1, (tolerance){2e-5, 2e-5 * (double)whole->tokens},
                       "column %d, %s", (int)s, g->ops->name);
        }
    }
}

START_TEST(test_a_bias_of_ln_2_is_an_entry_held_twice)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 80; n += 1 + 3 * (rig_scale(&g) > 1)) {
            lot m = {0};
            attend_case whole, less;
            twice_make(&m, &whole, n);
            drop_last(&m, &less, &whole, logf(2));
            compare(&m, &g, &whole, &less, 1);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_a_bias_far_below_zero_is_an_entry_evicted)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 80; n += 1 + 3 * (rig_scale(&g) > 1)) {
            lot m = {0};
            attend_case whole, less;
            twice_make(&m, &whole, n);
            drop_last(&m, &less, &whole, 0);
            const lh_ragged *r = &whole.kv[0].host;
            for (int64_t h = 0; h < r->heads; h++)
                if (r->len[h] >= 2) r->bias[r->offset[h] + r->len[h] - 1] = -1000;
            compare(&m, &g, &whole, &less, 0);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_biases_of_zero_change_no_bit, test_a_bias_of_ln_2_is_an_entry_held_twice,
                                  test_a_bias_far_below_zero_is_an_entry_evicted, NULL};
    return rig_run("kernels/bias", tests);
}
