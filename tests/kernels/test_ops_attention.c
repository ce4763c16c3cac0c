#include <math.h>
#include <string.h>

#include "attend_case.h"
#include "cases.h"

/* f32 dot products of up to 256 terms have errors of a few 1e-7 of their size; logits here stay below about 15, so a
 * weight is off by at most 1e-5 of itself, and values stay below 5. 5e-5 allows for that and for any order of adding.
 */
static const tolerance near_f32 = {1e-5, 5e-5};

/* Where what computes multiplies bf16, a block over a bf16 cache may have its queries and weights rounded: a query by
 * 2^-9 of itself, hence a logit (a sum of such terms, here of size 2) by a few 1e-3 and at most 1e-2, and a weight by
 * as much of itself; values stay below 5. */
static const tolerance near_bf16 = {0, 5e-2};

static tolerance block_tolerance(const rig *g, const attend_case *c)
{
    int rounds = strcmp(g->ops->name, "cuda") == 0 || strstr(lh_cpu_isa(), "bf16");
    return rounds && c->kv[0].host.type == LH_BF16 ? near_bf16 : near_f32;
}

/* ref adds in f64: what is left is the rounding of the result. */
static const tolerance near_f64 = {2e-7, 2e-7};

/* Attention over 4 entries of 2 dimensions, by numpy: rows at positions 2 and 3; plain, window 2, cap 2, and both. */
static const struct {
    float softcap;
    int64_t window;
    float o[4], lse[2], sums[4];
} numbers[] = {
    {0,
     0,
     {2.45474312f, 3.45474312f, 3.65969497f, 4.27580873f},
     {0.96330444f, 2.67999774f},
     {0.819596291f, 0.327581264f, 0.828829556f, 0.0239928901f}},
    {0,
     2,
     {4.17323516f, 5.17323516f, 5.08218256f, 5.42472211f},
     {0.183382155f, 2.14195939f},
     {0.0f, 0.413382421f, 1.5455263f, 0.0410912782f}},
    {2,
     0,
     {2.46275945f, 3.46275945f, 3.41851396f, 3.83500885f},
     {0.967573059f, 2.3481912f},
     {0.857344715f, 0.381142936f, 0.72504328f, 0.0364690693f}},
    {2,
     2,
     {4.16170831f, 5.16170831f, 5.14801327f, 4.9639071f},
     {0.196785258f, 1.64050093f},
     {0.0f, 0.419145843f, 1.50684752f, 0.0740066354f}},
};

static const float few_k[8] = {1, 0, 0, 1, 1, 1, -1, 0.5f}, few_v[8] = {1, 2, 3, 4, 5, 6, 7, -8};
static const float few_q[4] = {0.5f, -1, 2, 1};

/* The entries in this order of slots, with positions or without. */
static void few_make(lot *m, attend_case *c, const int order[4], int with_positions)
{
    int64_t zero = 0, four = 4;
    float *k = lot_new(m, 32), *v = lot_new(m, 32);
    int32_t *positions = lot_new(m, 16), rows[2] = {2, 3};
    for (int s = 0; s < 4; s++) {
        memcpy(k + 2 * s, few_k + 2 * order[s], 8);
        memcpy(v + 2 * s, few_v + 2 * order[s], 8);
        positions[s] = order[s];
    }
    *c = (attend_case){.batch = 1, .tokens = 2, .map = {1, 1, 0}, .logit = {.scale = 0.7f}, .q_ld = 2, .o_ld = 2};
    c->q = lot_copy(m, few_q, sizeof few_q);
    c->positions = lot_copy(m, rows, sizeof rows);
    c->kv[0] = (cache){.slots = 4,
                       .host = {.k = k,
                                .v = v,
                                .type = LH_F32,
                                .positions = with_positions ? positions : NULL,
                                .offset = lot_copy(m, &zero, 8),
                                .len = lot_copy(m, &four, 8),
                                .heads = 1,
                                .head_dim = 2}};
}

static void check_few(rig *g, int kind, const int order[4])
{
    lot m = {0};
    attend_case c;
    int in_slots = order[0] == 0;
    few_make(&m, &c, order, !in_slots || kind % 2);
    c.logit.softcap = numbers[kind].softcap;
    c.logit.window = numbers[kind].window;
    const char *name = g->ops->name;
    if (in_slots) {
        attended block = block_run(&m, g, &c);
        check_near(block.o, numbers[kind].o, 4, near_f32, "block, %s", name);
        check_near(block.lse, numbers[kind].lse, 2, near_f32, "lse of a block, %s", name);
    }
    const columns_spec spec = {.lse = numbers[kind].lse, .cols = 4, .parts = 1, .wanted = WANT_SUMS};
    const float *sums = columns_run(&m, g, &c, &spec, NULL).numbers;
    for (int s = 0; s < 4; s++) check_near(&sums[s], &numbers[kind].sums[order[s]], 1, near_f32, "columns, %s", name);
    const float *lse = row_lse_run(&m, g, &c);
    check_near(lse, numbers[kind].lse, 2, near_f32, "lse of rows, %s", name);
    c.kv[1] = c.kv[0];
    c.batch = 2;
    attended rows = decode_run(&m, g, &c);
    check_near(rows.o, numbers[kind].o, 4, near_f32, "decode, %s", name);
    check_near(rows.lse, numbers[kind].lse, 2, near_f32, "lse of decode, %s", name);
    lot_end(&m);
}

START_TEST(test_attention_gives_the_numbers_of_numpy)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int kind = 0; kind < 4; kind++) {
            check_few(&g, kind, (const int[]){0, 1, 2, 3});
            check_few(&g, kind, (const int[]){3, 1, 0, 2});
        }
        rig_close(&g);
    }
}
END_TEST

/* Rows of the case by the formula; the mask comes from positions, where the operation counts slots. */
static void check_formula(const attend_case *c, const attended *got, const char *what)
{
    int64_t rows = c->tokens ? c->tokens : c->batch;
    for (int64_t r = 0; r < rows; r++) {
        const cache *kv = c->tokens ? &c->kv[0] : &c->kv[r];
        int64_t d = kv->host.head_dim;
        lot m = {0};
        double *w = lot_new(&m, kv->slots * 8), *sum = lot_new(&m, d * 8);
        for (int64_t i = 0; i < c->map.heads; i++) {
            int64_t h = (c->map.first + i) / c->map.group;
            float lse = (float)row_weights(c, kv, r, i, w);
            memset(sum, 0, (size_t)d * 8);
            for (int64_t j = 0; j < kv->host.len[h]; j++) {
                for (int64_t x = 0; x < d && w[j] > 0; x++)
                    sum[x] += w[j] * cache_number(&kv->host, kv->host.v, (kv->host.offset[h] + j) * d + x);
            }
            for (int64_t x = 0; x < d; x++) {
                float want = (float)sum[x];
                check_near(&got->o[r * c->o_ld + i * d + x], &want, 1, near_f64, "%s", what);
            }
            check_near(&got->lse[r * c->map.heads + i], &lse, 1, near_f64, "lse of %s", what);
        }
        lot_end(&m);
    }
}

enum { HEAD_DIM, ROWS, PAST, GROUP, HEADS, FIRST, LONG_PAST };
static const dimension kinds[] = {
    [HEAD_DIM] = {"head_dim", 10, {1, 3, 20, 24, 48, 64, 80, 96, 128, 256}},
    [ROWS] = {"rows", 6, {1, 2, 5, 17, 64, 129}},
    [PAST] = {"past", 12, {0, 1, 7, 14, 28, 33, 40, 49, 63, 64, 77, 89}},
    [LONG_PAST] = {"past of a step", 12, {0, 1, 14, 49, 63, 64, 91, 128, 154, 203, 256, 289}},
    [GROUP] = {"group", 8, {1, 2, 3, 4, 5, 6, 7, 8}},
    [HEADS] = {"heads", 9, {1, 2, 3, 4, 5, 6, 7, 8, 9}},
    [FIRST] = {"first head", 12, {0, 0, 0, 0, 1, 2, 3, 5, 7, 8, 11, 15}}, /* modulo two groups */
};

static int64_t kind(int which, int n)
{
    return case_value(&kinds[which], n);
}

static attend_size size_at(int n)
{
    int64_t group = kind(GROUP, n);
    return (attend_size){.dim = kind(HEAD_DIM, n),
                         .tokens = kind(ROWS, n),
                         .past = kind(PAST, n),
                         .map = {kind(HEADS, n), group, kind(FIRST, n) % (2 * group)},
                         .variant = n};
}

START_TEST(test_ref_is_softmax_over_the_positions_that_a_row_sees)
{
    rig g;
    rig_open(&g, &lh_ops_ref);
    for (int n = 0; n < 180; n++) {
        lot m = {0};
        attend_case c;
        attend_size size = size_at(n);
        attended got;
        block_make(&m, &c, &size);
        got = block_run(&m, &g, &c);
        check_formula(&c, &got, "attend_block");
        decode_make(&m, &c, &size);
        got = decode_run(&m, &g, &c);
        check_formula(&c, &got, "attend_decode");
        lot_end(&m);
    }
    rig_close(&g);
}
END_TEST

/* Asking for them changes nothing else. */
START_TEST(test_a_step_leaves_its_logits)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 120; n++) {
            lot m = {0};
            attend_case c;
            attend_size size = size_at(n);
            size.tokens = 1, size.past = kind(LONG_PAST, n);
            decode_make(&m, &c, &size);
            const float *got = decode_logits_run(&m, &g, &c);
            for (int64_t row = 0; row < c.batch * c.map.heads; row++) {
                int64_t s = row / c.map.heads, i = row % c.map.heads;
                int64_t held = c.kv[s].host.len[(c.map.first + i) / c.map.group];
                int64_t len = asks_logits(&c, s) ? held : 0;
                double *weights = lot_new(&m, held * 8 + 8);
                row_weights(&c, &c.kv[s], s, i, weights);
                for (int64_t j = 0; j < logits_ld(&c); j++) {
                    if (j < len && weights[j] == 0) continue; /* not seen: any number */
                    float want = j < len ? (float)logit_by_formula(&c, &c.kv[s], (const int64_t[]){s, i, j}) : 0;
                    check_near(&got[row * logits_ld(&c) + j], &want, 1, (tolerance){1e-5, j < len ? 2e-5 : 0},
                               "logit %d of row %d, case %d, %s", (int)j, (int)row, n, g.ops->name);
                }
            }
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* One case for both operations on `mine` and `ref`. */
static void compare_with_ref(rig *mine, rig *ref, const attend_size *size, int n)
{
    lot m = {0};
    attend_case c;
    attended got, want;
    block_make(&m, &c, size);
    got = block_run(&m, mine, &c), want = block_run(&m, ref, &c);
    check_attended(&got, &want, block_tolerance(mine, &c), "attend_block", n);
    decode_make(&m, &c, size);
    c.any_order = n % 2;
    got = decode_run(&m, mine, &c), want = decode_run(&m, ref, &c);
    check_attended(&got, &want, near_f32, "attend_decode", n);
    lot_end(&m);
}

/* Results of pieces of such heads have any number of bytes. */
START_TEST(test_attention_of_heads_of_an_odd_dimension)
{
    for (int b = 1; rig_backend(b); b++) {
        rig ref, mine;
        rig_open(&ref, rig_backend(0));
        rig_open(&mine, rig_backend(b));
        for (int n = 0; n < 12; n++) {
            const attend_size size = {1 + 2 * (n % 4), 5, 700, {3, 1, 0}, n};
            compare_with_ref(&mine, &ref, &size, n);
        }
        rig_close(&ref);
        rig_close(&mine);
    }
}
END_TEST

/* Ranks that share a KV head: most tiles of its group have no rows here, and there are few entries. */
START_TEST(test_attention_of_a_part_of_a_large_group)
{
    for (int b = 1; rig_backend(b); b++) {
        rig ref, mine;
        rig_open(&ref, rig_backend(0));
        rig_open(&mine, rig_backend(b));
        for (int n = 0; n < 24; n++) {
            const attend_size size = {64, 1, 16 * (1 + n / 2 % 6), {16, 64 + 16 * (n % 2), 16 * (n % 3)}, n};
            compare_with_ref(&mine, &ref, &size, n | 1);
        }
        rig_close(&ref);
        rig_close(&mine);
    }
}
END_TEST

START_TEST(test_attention_of_every_backend_is_that_of_ref_at_all_head_dimensions_and_block_lengths)
{
    for (int b = 1; rig_backend(b); b++) {
        rig ref, mine;
        rig_open(&ref, rig_backend(0));
        rig_open(&mine, rig_backend(b));
        for (int n = 0; n < 60 * 4; n += rig_step(&mine)) {
            attend_size size = size_at(n);
            compare_with_ref(&mine, &ref, &size, n);
        }
        rig_close(&ref);
        rig_close(&mine);
    }
}
END_TEST

START_TEST(test_attention_of_every_backend_is_that_of_ref_at_all_head_counts_and_groups)
{
    for (int b = 1; rig_backend(b); b++) {
        rig ref, mine;
        rig_open(&ref, rig_backend(0));
        rig_open(&mine, rig_backend(b));
        int n = 0;
        for (int64_t heads = 0; heads <= 9; heads++) {
            for (int64_t group = 1; group <= 8; group++) {
                for (int64_t first = 0; first < 2 * group; first += 1 + group / 3, n++) {
                    attend_size size = {test_dims[n % 8], test_tokens[n % 4], n % 41, {heads, group, first}, n};
                    compare_with_ref(&mine, &ref, &size, n);
                }
            }
        }
        rig_close(&ref);
        rig_close(&mine);
    }
}
END_TEST

/* Caches of many tiles: with a window whole tiles before (in order) or anywhere (shuffled) are invisible. */
START_TEST(test_attention_of_every_backend_is_that_of_ref_over_long_caches)
{
    for (int b = 1; rig_backend(b); b++) {
        rig ref, mine;
        rig_open(&ref, rig_backend(0));
        rig_open(&mine, rig_backend(b));
        for (int n = 0; n < 40; n++) {
            attend_size size = {n % 3 ? 64 : 96, test_tokens[n % 5], 700 + n * 53, {3, 3, n % 4}, n};
            compare_with_ref(&mine, &ref, &size, n);
        }
        rig_close(&ref);
        rig_close(&mine);
    }
}
END_TEST

/* Few rows over a long cache: entries from 100 to 4,000, in heads of any length up to that. */
static attend_size few_rows_at(int n)
{
    enum { DIM, FEW, PAST_KEYS, MAP };
    static const dimension few[] = {
        [DIM] = {"head_dim", 6, {128, 64, 256, 96, 20, 128}},
        [FEW] = {"rows", 8, {2, 5, 1, 17, 3, 64, 9, 33}},
        [PAST_KEYS] = {"past", 12, {100, 260, 511, 700, 1024, 1400, 1913, 2300, 2600, 3071, 3500, 3999}},
        [MAP] = {"heads",
                 5,
                 {0, 1, 2, 3, 4},
                 {"1", "4 of a group", "3 of groups of 2", "8 of a group", "2 groups of 2"}},
    };
    static const lh_grouping maps[] = {{1, 1, 0}, {4, 4, 0}, {3, 2, 1}, {8, 8, 0}, {4, 2, 0}};
    return (attend_size){.dim = case_value(&few[DIM], n),
                         .tokens = case_value(&few[FEW], n),
                         .past = case_value(&few[PAST_KEYS], n),
                         .map = maps[case_value(&few[MAP], n)],
                         .variant = n};
}

START_TEST(test_few_rows_over_long_caches_are_those_of_ref_in_any_order_of_adding)
{
    for (int b = 1; rig_backend(b); b++) {
        rig ref, mine;
        int cut = 0;
        rig_open(&ref, rig_backend(0));
        rig_open(&mine, rig_backend(b));
        for (int n = 0; n < 120; n += rig_step(&mine)) {
            lot m = {0};
            attend_case c;
            attend_size size = few_rows_at(n);
            block_make(&m, &c, &size);
            attended want = block_run(&m, &ref, &c), fixed = block_run(&m, &mine, &c);
            c.any_order = 1;
            attended got = block_run(&m, &mine, &c), again = block_run(&m, &mine, &c);
            check_attended(&got, &want, block_tolerance(&mine, &c), "few rows", n);
            check_same(again.o, got.o, got.o_count * 4, "few rows again, case %d, %s", n, mine.ops->name);
            check_same(again.lse, got.lse, got.lse_count * 4, "lse of few rows again, case %d", n);
            cut += memcmp(got.o, fixed.o, (size_t)got.o_count * 4) != 0;
            lot_end(&m);
        }
        if (strcmp(mine.ops->name, "cuda") == 0)
            ck_assert_msg(cut >= 4, "the bits of %d cases alone show that caches were cut in pieces", cut);
        rig_close(&ref);
        rig_close(&mine);
    }
}
END_TEST

/* The host knows a bound of the lengths, which may be far off, or none. */
START_TEST(test_few_rows_do_not_depend_on_how_well_lengths_are_known)
{
    const int64_t bounds[] = {0, 1, 700, 3100, 50000, 1ll << 40};
    for (int b = 1; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 24; n += rig_scale(&g)) {
            lot m = {0};
            attend_case c;
            attend_size size = {64, 4, 3000, {4, 2, 0}, n};
            block_make(&m, &c, &size);
            attended want = block_run(&m, &g, &c), got = want;
            float *o = rig_new(&g, want.o_count * 4), *lse = rig_new(&g, want.lse_count * 4);
            lh_ragged kv = rig_cache(&g, &c.kv[0]);
            RUN(&g, attend_block, .o = o, .lse = lse, .q = rig_put(&g, c.q, c.tokens * c.q_ld * 4),
                .positions = rig_put(&g, c.positions, c.tokens * 4), .kv = &kv, .map = c.map, .logit = c.logit,
                .tokens = c.tokens, .q_ld = c.q_ld, .o_ld = c.o_ld, .most = bounds[n / 3 % 6], .order = LH_ORDER_ANY);
            got.o = lot_new(&m, want.o_count * 4), got.lse = lot_new(&m, want.lse_count * 4);
            rig_get(&g, got.o, o, want.o_count * 4);
            rig_get(&g, got.lse, lse, want.lse_count * 4);
            rig_reset(&g);
            check_attended(&got, &want, block_tolerance(&g, &c), "few rows, a bound that is off", n);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* A cache of one head in which entry j has the key (steps[j], steps[j], …): with q = 1 and a scale of a power of two
 * every logit, scale * dim * steps[j], is an exact f32 number in any order of adding. */
static void steps_make(lot *m, attend_case *c, const cache_spec *spec, const int *steps)
{
    *c = (attend_case){.batch = 1, .tokens = 1, .map = {1, 1, 0}, .q_ld = spec->head_dim, .o_ld = spec->head_dim};
    cache_make(m, &c->kv[0], spec);
    c->q = lot_new(m, spec->head_dim * 4);
    c->positions = lot_new(m, 4);
    c->positions[0] = (int32_t)spec->last - 1;
    for (int64_t i = 0; i < spec->head_dim; i++) c->q[i] = 1;
    for (int64_t s = 0; s < spec->len[0]; s++) {
        for (int64_t i = 0; i < spec->head_dim; i++) {
            int64_t at = s * spec->head_dim + i;
            if (spec->type == LH_F32)
                ((float *)c->kv[0].host.k)[at] = (float)steps[s];
            else
                ((uint16_t *)c->kv[0].host.k)[at] = lh_f32_to_bf16((float)steps[s]);
        }
    }
}

/* A backend may work to the base 2: the factor log2(e) and its inverse round, each by up to 1e-7 of a logit. */
static const tolerance huge_lse = {1e-6, 0};

START_TEST(test_huge_logits_do_not_overflow)
{
    const int shapes[3][6] = {{-7, 7, 3, 7, 0, -7}, {-7, -7, -7, -7, -7, -7}, {-3, -2, -1, -2, -3, -7}};
    const float scales[] = {0x1p10f, 0x1p60f, 0x1p100f};
    const int64_t len = 6;
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 3 * 3 * 10 * 2; n++) {
            lot m = {0};
            attend_case c;
            const int *steps = shapes[n % 3];
            int64_t dim = test_dims[n / 9 % 10];
            cache_spec spec = {.heads = 1, .head_dim = dim, .last = 6, .len = &len, .seed = 5, .order = CACHE_GAPS};
            spec.type = n / 90 ? LH_BF16 : LH_F32;
            steps_make(&m, &c, &spec, steps);
            c.logit.scale = scales[n / 3 % 3];
            int top = -7, tops = 0;
            for (int s = 0; s < 6; s++) top = steps[s] > top ? steps[s] : top;
            for (int s = 0; s < 6; s++) tops += steps[s] == top;
            float lse = (float)((double)c.logit.scale * (double)dim * top + log(tops));
            attended block = block_run(&m, &g, &c), row = decode_run(&m, &g, &c);
            for (int64_t i = 0; i < dim; i++) { /* the others' weights are below exp(-1000) */
                double sum = 0;
                for (int s = 0; s < 6; s++)
                    sum += steps[s] == top ? cache_number(&c.kv[0].host, c.kv[0].host.v, s * dim + i) : 0;
                float want = (float)(sum / tops);
                check_near(&block.o[i], &want, 1, (tolerance){1e-6, 1e-6}, "huge logits, block, %s", g.ops->name);
                check_near(&row.o[i], &want, 1, (tolerance){1e-6, 1e-6}, "huge logits, decode, %s", g.ops->name);
            }
            check_near(block.lse, &lse, 1, huge_lse, "lse of huge logits, block, %s", g.ops->name);
            check_near(row.lse, &lse, 1, huge_lse, "lse of huge logits, decode, %s", g.ops->name);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_a_row_that_sees_nothing_gives_zero_and_minus_infinity)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 60; n++) {
            lot m = {0};
            attend_case c;
            int64_t dim = test_dims[n % 10], len = n / 10 % 2 ? 33 : 0, tokens = 1 + n % 3;
            cache_spec spec = {.heads = 1, .head_dim = dim, .last = 40, .len = &len, .order = CACHE_GAPS, .seed = 9};
            spec.type = n % 2 ? LH_BF16 : LH_F32;
            c = (attend_case){.batch = 1, .map = {2, 2, 0}, .logit = {.scale = 1}, .q_ld = 2 * dim, .o_ld = 2 * dim};
            cache_make(&m, &c.kv[0], &spec);
            c.q = lot_normals(&m, tokens * 2 * dim, 1.0f, 3);
            c.positions = lot_new(&m, tokens * 4);
            c.positions[0] = n / 20 ? 400 : -1; /* after the window of all, or before all */
            c.logit.window = n / 20 ? 5 : 0;
            attended got = decode_run(&m, &g, &c);
            for (int64_t i = 0; i < got.o_count; i++) ck_assert(got.o[i] == 0);
            for (int64_t i = 0; i < got.lse_count; i++) ck_assert(got.lse[i] == -INFINITY);
            if (len == 0) {
                c.tokens = tokens;
                got = block_run(&m, &g, &c);
                for (int64_t i = 0; i < got.o_count; i++) ck_assert(got.o[i] == 0);
                for (int64_t i = 0; i < got.lse_count; i++) ck_assert(got.lse[i] == -INFINITY);
            }
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* What is damaged must not look whole: a soft cap, a maximum or a sum of nothing would hide it. */
START_TEST(test_rows_that_see_a_key_that_is_not_a_number_are_none)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 16; n++) {
            lot m = {0};
            attend_case c;
            few_make(&m, &c, (const int[]){0, 1, 2, 3}, 1);
            c.logit.softcap = n & 1 ? 5 : 0;
            c.logit.window = n & 2 ? 3 : 0;
            uint32_t nan = n & 4 ? 0x7fc00000 : 0xffc00000;
            lh_ragged *kv = &c.kv[0].host;
            if (n & 8) {
                kv->k = lot_bf16(&m, kv->k, 8);
                kv->v = lot_bf16(&m, kv->v, 8);
                kv->type = LH_BF16;
                ((uint16_t *)kv->k)[3] = (uint16_t)(nan >> 16);
            } else {
                memcpy((float *)kv->k + 3, &nan, sizeof nan); /* of position 1, which both rows see */
            }
            attended got = block_run(&m, &g, &c);
            for (int i = 0; i < 4; i++) ck_assert_msg(isnan(got.o[i]), "block, %s, case %d", g.ops->name, n);
            for (int i = 0; i < 2; i++) ck_assert_msg(isnan(got.lse[i]), "lse of a block, %s, case %d", g.ops->name, n);
            columns sums = columns_run(
                &m, &g, &c, &(columns_spec){.lse = (const float[]){1, 1}, .cols = 4, .parts = 1, .wanted = WANT_SUMS},
                NULL);
            ck_assert_msg(isnan(sums.numbers[1]) && !isnan(sums.numbers[2]), "columns, %s, case %d", g.ops->name, n);
            c.kv[1] = c.kv[0];
            c.batch = 2;
            got = decode_run(&m, &g, &c);
            for (int i = 0; i < 4; i++) ck_assert_msg(isnan(got.o[i]), "decode, %s, case %d", g.ops->name, n);
            for (int i = 0; i < 2; i++) ck_assert_msg(isnan(got.lse[i]), "lse of decode, %s, case %d", g.ops->name, n);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_no_rows_and_no_heads_do_nothing)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 2; n++) {
            lot m = {0};
            attend_case c;
            attend_size size = {64, n ? 5 : 0, 10, {n ? 0 : 4, 2, 0}, 1};
            block_make(&m, &c, &size);
            ck_assert_int_eq(block_run(&m, &g, &c).lse_count, 0);
            decode_make(&m, &c, &size);
            c.batch = n ? c.batch : 0;
            ck_assert_int_eq(decode_run(&m, &g, &c).lse_count, 0);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_the_log_sum_may_be_left_out)
{
    for (int b = 0; rig_backend(b); b++) {
        lot m = {0};
        rig g;
        attend_case c;
        attend_size size = {48, 5, 30, {4, 2, 1}, 2};
        rig_open(&g, rig_backend(b));
        block_make(&m, &c, &size);
        attended want = block_run(&m, &g, &c);
        float *got = lot_new(&m, want.o_count * 4);
        lh_ragged kv = rig_cache(&g, &c.kv[0]), seqs[BATCH_MOST];
        lh_attend_block_args block = block_args(&g, &c, &kv);
        block.o = rig_new(&g, want.o_count * 4);
        RUN_ARGS(&g, attend_block, &block);
        rig_get(&g, got, block.o, want.o_count * 4);
        check_same(got, want.o, want.o_count * 4, "block without lse, %s", g.ops->name);
        decode_make(&m, &c, &size);
        want = decode_run(&m, &g, &c);
        got = lot_new(&m, want.o_count * 4);
        lh_attend_decode_args decode = decode_args(&g, &c, seqs);
        decode.o = rig_new(&g, want.o_count * 4);
        RUN_ARGS(&g, attend_decode, &decode);
        rig_get(&g, got, decode.o, want.o_count * 4);
        check_same(got, want.o, want.o_count * 4, "decode without lse, %s", g.ops->name);
        rig_close(&g);
        lot_end(&m);
    }
}
END_TEST

/* Takes the last entry of every head out of its length. Returns 0 if a head is empty. */
static int uncount_last(attend_case *c)
{
    int held = 1;
    for (int64_t b = 0; b < c->batch; b++)
        for (int64_t h = 0; h < c->kv[b].host.heads; h++) held &= c->kv[b].host.len[h] > 0;
    for (int64_t b = 0; held && b < c->batch; b++)
        for (int64_t h = 0; h < c->kv[b].host.heads; h++) c->kv[b].host.len[h]--;
    return held;
}

START_TEST(test_a_step_counts_fresh_entries_and_sees_them)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 120; n += rig_step(&g)) {
            lot m = {0};
            attend_case c;
            attend_size size = size_at(n);
            lh_ragged seqs[BATCH_MOST];
            size.tokens = 1, size.past = kind(LONG_PAST, n);
            decode_make(&m, &c, &size);
            c.any_order = n % 2;
            const attended want = decode_run(&m, &g, &c);
            if (uncount_last(&c)) {
                attended got = want;
                lh_attend_decode_args args = decode_args(&g, &c, seqs);
                args.fresh = 1;
                args.o = rig_new(&g, got.o_count * 4);
                args.lse = rig_new(&g, got.lse_count * 4);
                RUN_ARGS(&g, attend_decode, &args);
                rig_get(&g, got.o = lot_new(&m, got.o_count * 4), args.o, got.o_count * 4);
                rig_get(&g, got.lse = lot_new(&m, got.lse_count * 4), args.lse, got.lse_count * 4);
                check_attended(&got, &want, (tolerance){0}, "attend_decode with fresh entries", n);
                for (int64_t s = 0; s < c.batch; s++) {
                    const int64_t heads = seqs[s].heads;
                    int64_t *len = lot_new(&m, heads * 8);
                    rig_get(&g, len, seqs[s].len, heads * 8);
                    for (int64_t h = 0; h < heads; h++) ck_assert_int_eq(len[h], c.kv[s].host.len[h] + 1);
                }
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* o is then workspace; the numbers are the same. */
START_TEST(test_outputs_may_be_wanted_rounded_alone)
{
    for (int b = 0; rig_backend(b); b++) {
        lot m = {0};
        rig g;
        attend_case c;
        attend_size size = {48, 5, 30, {4, 2, 1}, 2};
        rig_open(&g, rig_backend(b));
        block_make(&m, &c, &size);
        attended want = block_run(&m, &g, &c);
        lh_ragged kv = rig_cache(&g, &c.kv[0]), seqs[BATCH_MOST];
        lh_attend_block_args block = block_args(&g, &c, &kv);
        block.o = rig_new(&g, want.o_count * 4);
        block.o_bf16 = rig_new(&g, want.o_count * 2);
        RUN_ARGS(&g, attend_block, &block);
        check_rounded(&m, &g, block.o_bf16, want.o, want.o_count);
        decode_make(&m, &c, &size);
        want = decode_run(&m, &g, &c);
        lh_attend_decode_args decode = decode_args(&g, &c, seqs);
        decode.o = rig_new(&g, want.o_count * 4);
        decode.o_bf16 = rig_new(&g, want.o_count * 2);
        RUN_ARGS(&g, attend_decode, &decode);
        check_rounded(&m, &g, decode.o_bf16, want.o, want.o_count);
        rig_close(&g);
        lot_end(&m);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_attention_gives_the_numbers_of_numpy,
        test_ref_is_softmax_over_the_positions_that_a_row_sees,
        test_attention_of_heads_of_an_odd_dimension,
        test_attention_of_a_part_of_a_large_group,
        test_attention_of_every_backend_is_that_of_ref_at_all_head_dimensions_and_block_lengths,
        test_a_step_leaves_its_logits,
        test_attention_of_every_backend_is_that_of_ref_at_all_head_counts_and_groups,
        test_attention_of_every_backend_is_that_of_ref_over_long_caches,
        test_few_rows_over_long_caches_are_those_of_ref_in_any_order_of_adding,
        test_few_rows_do_not_depend_on_how_well_lengths_are_known,
        test_huge_logits_do_not_overflow,
        test_a_row_that_sees_nothing_gives_zero_and_minus_infinity,
        test_rows_that_see_a_key_that_is_not_a_number_are_none,
        test_no_rows_and_no_heads_do_nothing,
        test_the_log_sum_may_be_left_out,
        test_outputs_may_be_wanted_rounded_alone,
        test_a_step_counts_fresh_entries_and_sees_them,
        NULL};
    return rig_run("kernels/attention", tests);
}
