#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "rig.h"

typedef struct pooling {
    int64_t heads, rows_per_head, ld, k;
    lh_pool_kind kind;
    const float *x;       /* [heads * rows_per_head, ld] */
    const uint8_t *state; /* [heads, ld] */
    cache kv;             /* positions are below `seen` */
    int64_t seen;
} pooling;

/* Heads of `len` entries, whose positions lie in that order. */
static void pooling_place(lot *m, pooling *p, const int64_t *len, cache_order order)
{
    p->seen = order == CACHE_SLOTS ? p->ld : 3 * p->ld + 100;
    cache_make(m, &p->kv,
               &(cache_spec){.heads = p->heads,
                             .head_dim = 1,
                             .slack = p->ld % 3,
                             .last = p->seen,
                             .len = len,
                             .type = LH_F32,
                             .order = order,
                             .seed = (uint64_t)p->ld});
}

static float *pooled(lot *m, rig *g, const pooling *p)
{
    int64_t rows = p->heads * p->rows_per_head, count = rows * p->ld;
    float *host = lot_new(m, count * 4), *y = rig_new(g, count * 4);
    lh_ragged kv = rig_cache(g, &p->kv);
    RUN(g, pool, .y = y, .x = rig_put(g, p->x, count * 4), .state = rig_put(g, p->state, p->heads * p->ld), .kv = &kv,
        .rows = rows, .rows_per_head = p->rows_per_head, .ld = p->ld, .k = p->k, .seen = p->seen, .kind = p->kind);
    rig_get(g, host, y, count * 4);
    rig_reset(g);
    return host;
}

/* Numbers by hand (and numpy): kept, dropped and competing entries mixed; only those that compete are pooled. */
START_TEST(test_pool_joins_competing_neighbours_and_ignores_the_gaps)
{
    enum { K = LH_ENTRY_KEEP, D = LH_ENTRY_DROP, C = LH_ENTRY_COMPETES };
    const float x[10] = {3, -1, 4, 1, -5, 9, 2, -6, 5, 3.5f};
    const uint8_t state[10] = {K, C, C, D, C, C, K, C, C, C};
    const float max3[10] = {0, 4, 4, 0, 9, 9, 0, 9, 5, 5}, max5[10] = {0, 4, 9, 0, 9, 9, 0, 9, 9, 5};
    const float max99[10] = {0, 9, 9, 0, 9, 9, 0, 9, 9, 9}, none[10] = {0, -1, 4, 0, -5, 9, 0, -6, 5, 3.5f};
    const float avg3[10] = {0, 1, -2 / 3.0f, 0, 8 / 3.0f, -2 / 3.0f, 0, 8 / 3.0f, 2.5f / 3, 8.5f / 3};
    const float avg5[10] = {0, -0.4f, 1.4f, 0, 0.2f, 1.4f, 0, 1.3f, 2.3f, 0.5f};
    const struct {
        lh_pool_kind kind;
        int64_t k;
        const float *want;
    } cases[] = {{LH_POOL_MAX, 3, max3}, {LH_POOL_MAX, 5, max5},  {LH_POOL_MAX, 99, max99}, {LH_POOL_AVG, 3, avg3},
                 {LH_POOL_AVG, 5, avg5}, {LH_POOL_NONE, 0, none}, {LH_POOL_MAX, 1, none},   {LH_POOL_AVG, 1, none}};
    const int64_t len = 10;
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int i = 0; i < 8; i++) {
            lot m = {0};
            pooling p = {.heads = 1, .rows_per_head = 1, .ld = 10, .x = x, .state = state};
            pooling_place(&m, &p, &len, i % 2 ? CACHE_GAPS : CACHE_SLOTS);
            p.kind = cases[i].kind;
            p.k = cases[i].k;
            check_near(pooled(&m, &g, &p), cases[i].want, 10, (tolerance){2e-7, 1e-7}, "pool, case %d, %s", i,
                       g.ops->name);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

enum { HEADS, ROWS, SIZE, KIND, LENGTH, GAP, ORDER, COMPETE };
static const dimension kinds[] = {
    [HEADS] = {"heads", 5, {0, 1, 2, 3, 4}},
    [ROWS] = {"rows of a head", 4, {1, 2, 3, 4}},
    [SIZE] = {"pool size", 8, {1, 3, 5, 7, 21, 31, 999, (INT64_C(1) << 40) - 1}},
    [KIND] = {"pool", 3, {LH_POOL_NONE, LH_POOL_MAX, LH_POOL_AVG}, {"none", "max", "avg"}},
    [LENGTH] = {"longest head", 8, {300, 300, 300, 300, 300, 300, 300, 4500}},
    [GAP] = {"gap between rows", 3, {0, 1, 2}},
    [ORDER] = {"slots", 3, {CACHE_SLOTS, CACHE_GAPS, CACHE_SHUFFLED}, {"are positions", "with gaps", "shuffled"}},
    [COMPETE] = {"tenths that do not compete", 4, {0, 3, 6, 9}},
};

static int64_t kind(int which, int n)
{
    return case_value(&kinds[which], n);
}

static void pooling_make(lot *m, pooling *p, int n)
{
    const int64_t lens[] = {0, 1, 2, 7, 64, 129, 300};
    int64_t most = 0, out = kind(COMPETE, n);
    *p = (pooling){.heads = kind(HEADS, n),
                   .rows_per_head = kind(ROWS, n),
                   .k = kind(SIZE, n),
                   .kind = (lh_pool_kind)kind(KIND, n)};
    int64_t *len = lot_new(m, p->heads * 8);
    for (int64_t h = 0; h < p->heads; h++) {
        len[h] = kind(LENGTH, n) > 300 ? kind(LENGTH, n) : lens[draw(1, (uint64_t)(n * 10 + h), 7)];
        most = len[h] > most ? len[h] : most;
    }
    p->ld = most + kind(GAP, n);
    pooling_place(m, p, len, (cache_order)kind(ORDER, n));
    p->x = lot_normals(m, p->heads * p->rows_per_head * p->ld, 1.0f, (uint64_t)n);
    uint8_t *state = lot_new(m, p->heads * p->ld);
    for (int64_t i = 0; i < p->heads * p->ld; i++) {
        int64_t dice = draw(2, (uint64_t)(n * 100000 + i), 10); /* few gaps, half gaps, or nothing that competes */
        state[i] = dice < out ? (uint8_t)(dice % 2) : LH_ENTRY_COMPETES;
    }
    p->state = state;
}

/* Averages over up to 999 entries: a running sum in f32 may be off by n units of the last place of the largest partial
 * sum (about 30), hence 1e-4 / k; a maximum is exact. */
START_TEST(test_pool_of_every_backend_is_that_of_ref)
{
    for (int b = 1; rig_backend(b); b++) {
        rig ref, mine;
        rig_open(&ref, rig_backend(0));
        rig_open(&mine, rig_backend(b));
        for (int n = 0; n < 420; n++) {
            lot m = {0};
            pooling p;
            pooling_make(&m, &p, n);
            const float *got = pooled(&m, &mine, &p), *want = pooled(&m, &ref, &p);
            tolerance tol = p.kind == LH_POOL_AVG ? (tolerance){1e-6, 1e-4 / (double)p.k} : (tolerance){0, 0};
            for (int64_t r = 0; r < p.heads * p.rows_per_head; r++)
                check_near(got + r * p.ld, want + r * p.ld, p.kv.host.len[r / p.rows_per_head], tol,
                           "pool, case %d, %s", n, mine.ops->name);
            lot_end(&m);
        }
        rig_close(&ref);
        rig_close(&mine);
    }
}
END_TEST

/* The slots of a head by their positions. */
static void sort_slots(const lh_ragged *kv, int64_t h, int64_t *slots)
{
    for (int64_t s = 0; s < kv->len[h]; s++) {
        int64_t lower = 0;
        for (int64_t i = 0; i < kv->len[h]; i++) lower += cache_position(kv, h, i) < cache_position(kv, h, s);
        slots[lower] = s;
    }
}

/* The same entries with slots in order, for which slots are positions enough. */
static pooling sorted(lot *m, const pooling *p, const int64_t *slots)
{
    pooling q = *p;
    int64_t rows = p->heads * p->rows_per_head;
    float *x = lot_new(m, rows * p->ld * 4);
    uint8_t *state = lot_new(m, p->heads * p->ld);
    for (int64_t r = 0; r < rows; r++) {
        int64_t h = r / p->rows_per_head;
        for (int64_t i = 0; i < p->kv.host.len[h]; i++) {
            x[r * p->ld + i] = p->x[r * p->ld + slots[h * p->ld + i]];
            state[h * p->ld + i] = p->state[h * p->ld + slots[h * p->ld + i]];
        }
    }
    q.x = x;
    q.state = state;
    q.kv.host.positions = NULL;
    return q;
}

/* The same bits. */
START_TEST(test_pool_goes_along_positions_wherever_the_slots_are)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 210 / rig_scale(&g); n++) {
            lot m = {0};
            pooling p;
            pooling_make(&m, &p, n);
            pooling_place(&m, &p, p.kv.host.len, n % 2 ? CACHE_SHUFFLED : CACHE_GAPS);
            int64_t *slots = lot_new(&m, p.heads * p.ld * 8), rows = p.heads * p.rows_per_head;
            for (int64_t h = 0; h < p.heads; h++) sort_slots(&p.kv.host, h, slots + h * p.ld);
            pooling q = sorted(&m, &p, slots);
            const float *got = pooled(&m, &g, &p), *want = pooled(&m, &g, &q);
            for (int64_t r = 0; r < rows; r++) {
                int64_t h = r / p.rows_per_head;
                for (int64_t i = 0; i < p.kv.host.len[h]; i++)
                    check_same(got + r * p.ld + slots[h * p.ld + i], want + r * p.ld + i, 4,
                               "the pooled number of entry %d, case %d, %s", (int)i, n, g.ops->name);
            }
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_max_pool_of_equal_plateaus_is_wide_by_the_window)
{
    const int64_t len = 41;
    uint8_t state[41];
    float x[41] = {0};
    memset(state, LH_ENTRY_COMPETES, sizeof state);
    x[20] = 1;
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int64_t k = 1; k < 43; k += 2) {
            lot m = {0};
            pooling p = {.heads = 1, .rows_per_head = 1, .ld = 41, .k = k, .kind = LH_POOL_MAX, .x = x, .state = state};
            pooling_place(&m, &p, &len, CACHE_SLOTS);
            const float *y = pooled(&m, &g, &p);
            for (int64_t s = 0; s < 41; s++) ck_assert(y[s] == (llabs(s - 20) <= k / 2 ? 1.0f : 0.0f));
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* The law of the formula in f64, in place and out of place. max times the factor is one rounding: exact. */
START_TEST(test_group_reduce_joins_the_heads_of_a_group)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 9 * 8 * 3; n++) {
            lot m = {0};
            int64_t heads = n % 9, group = 1 + n / 9 % 8, cols = n % 6 * 23 + n % 5, x_ld = cols + n % 4;
            int64_t y_ld = n % 2 ? x_ld : cols + n % 3, x_count = heads * group * x_ld, y_count = heads * y_ld;
            lh_group_kind kind = (lh_group_kind)(n / 72);
            float factor = n % 3 ? 1.0f : 0.03125f;
            const float *x = lot_normals(&m, x_count, 1.0f, (uint64_t)n);
            float *got = lot_new(&m, y_count * 4), *x_on = rig_put(&g, x, x_count * 4);
            float *y_on = n % 2 ? x_on : rig_new(&g, y_count * 4);
            RUN(&g, group_reduce, .y = y_on, .x = x_on, .heads = heads, .group = group, .cols = cols, .y_ld = y_ld,
                .x_ld = x_ld, .kind = kind, .factor = factor);
            rig_get(&g, got, y_on, y_count * 4);
            for (int64_t h = 0; h < heads; h++) {
                for (int64_t j = 0; j < cols; j++) {
                    double sum = 0, top = -INFINITY;
                    for (int64_t i = 0; i < group; i++) {
                        sum += x[(h * group + i) * x_ld + j];
                        top = fmax(top, x[(h * group + i) * x_ld + j]);
                    }
                    if (kind == LH_GROUP_MEAN) sum /= (double)group;
                    float want = (float)(factor * (kind == LH_GROUP_MAX ? top : sum));
                    /* eight numbers of up to 4 added in f32 */
                    tolerance tol = kind == LH_GROUP_MAX ? (tolerance){0, 0} : (tolerance){1e-6, 2e-6};
                    check_near(&got[h * y_ld + j], &want, 1, tol, "group_reduce, case %d, %s", n, g.ops->name);
                }
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

static void positions_make(lot *m, cache *c, int n)
{
    int64_t heads = n % 6, *len = lot_new(m, heads * 8);
    for (int64_t h = 0; h < heads; h++) len[h] = draw(8, (uint64_t)(n * 10 + h), n % 3 ? 40 : 600);
    cache_spec spec = {.heads = heads, .head_dim = 1, .slack = n % 3, .in_order = 3, .last = 900, .len = len};
    spec.order = (cache_order)(n % CACHE_ORDERS);
    spec.seed = (uint64_t)n;
    cache_make(m, c, &spec);
}

START_TEST(test_position_scores_are_positions)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 120; n++) {
            lot m = {0};
            cache c;
            positions_make(&m, &c, n);
            int64_t ld = 600 + n % 4, heads = c.host.heads, count = heads * ld;
            float *y = rig_new(&g, count * 4), *scores = lot_new(&m, count * 4);
            lh_ragged kv = rig_cache(&g, &c);
            RUN(&g, position_scores, .y = y, .kv = &kv, .ld = ld);
            rig_get(&g, scores, y, count * 4);
            for (int64_t h = 0; h < heads; h++) {
                for (int64_t s = 0; s < c.host.len[h]; s++) {
                    if (scores[h * ld + s] != (float)cache_position(&c.host, h, s))
                        ck_abort_msg("%s, case %d: position %d has score %g", g.ops->name, n,
                                     (int)cache_position(&c.host, h, s), scores[h * ld + s]);
                }
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* More than a kernel takes at once. */
enum { MOST_CACHES = 11 };

static void check_classes(const cache *c, const lh_position_lines *lines, const uint8_t *states, int64_t ld,
                          const char *where)
{
    for (int64_t h = 0; h < c->host.heads; h++) {
        for (int64_t s = 0; s < c->host.len[h]; s++) {
            int64_t p = cache_position(&c->host, h, s);
            int protect = p < lines->sinks || p >= lines->recent_from;
            int want = p < lines->visible_from ? LH_ENTRY_DROP : protect ? LH_ENTRY_KEEP : LH_ENTRY_COMPETES;
            if (states[h * ld + s] != want)
                ck_abort_msg("%s: position %d of head %d has state %d", where, (int)p, (int)h, states[h * ld + s]);
        }
    }
}

/* Three numbers an entry, in every slot. */
enum { STATS = 3 };
static void give_stats(rig *g, lot *m, const cache *c, lh_ragged *kv, uint64_t seed)
{
    kv->stat_count = STATS;
    kv->stats = rig_put(g, lot_normals(m, c->slots * STATS, 1.0f, seed), c->slots * STATS * 4);
}

static void check_stats(rig *g, lot *m, const cache *c, const lh_ragged *kv, int64_t stat, const float *scores,
                        int64_t ld)
{
    float *stats = lot_new(m, c->slots * STATS * 4);
    rig_get(g, stats, kv->stats, c->slots * STATS * 4);
    for (int64_t h = 0; h < c->host.heads; h++)
        for (int64_t s = 0; s < c->host.len[h]; s++)
            ck_assert_msg(scores[h * ld + s] == stats[(c->host.offset[h] + s) * STATS + stat],
                          "%s: slot %d of head %d has score %g", g->ops->name, (int)s, (int)h,
                          (double)scores[h * ld + s]);
}

START_TEST(test_states_are_those_of_the_positions_in_every_cache)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 120; n++) {
            lot m = {0};
            cache c[MOST_CACHES];
            lh_ragged kv[MOST_CACHES] = {0};
            lh_position_lines lines[MOST_CACHES];
            int batch = n % MOST_CACHES + 1;
            for (int i = 0; i < batch; i++) {
                int own = n + 6 * i; /* as many heads */
                positions_make(&m, &c[i], own);
                kv[i] = rig_cache(&g, &c[i]);
                give_stats(&g, &m, &c[i], &kv[i], (uint64_t)own);
                lines[i] = (lh_position_lines){own % 4 * 10, own % 5 * 6, own % 7 ? 900 - own % 7 * 120 : 0};
            }
            int64_t ld = 600 + n % 4, count = kv->heads * ld, step = count + n % 5;
            uint8_t *state = rig_new(&g, batch * count), *states = lot_new(&m, batch * count);
            float *scores = n % 3 ? rig_new(&g, batch * step * 4) : NULL, *got = lot_new(&m, batch * step * 4);
            RUN(&g, classify, .state = state, .scores = scores, .kv = kv, .lines = lines, .batch = batch, .ld = ld,
                .scores_step = step, .stat = n % STATS);
            rig_get(&g, states, state, batch * count);
            if (scores) rig_get(&g, got, scores, batch * step * 4);
            for (int i = 0; i < batch; i++) {
                char where[80];
                snprintf(where, sizeof where, "%s, case %d, cache %d", g.ops->name, n, i);
                check_classes(&c[i], &lines[i], states + i * count, ld, where);
                if (scores) check_stats(&g, &m, &c[i], &kv[i], n % STATS, got + i * step, ld);
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_pool_joins_competing_neighbours_and_ignores_the_gaps,
                                  test_pool_goes_along_positions_wherever_the_slots_are,
                                  test_pool_of_every_backend_is_that_of_ref,
                                  test_max_pool_of_equal_plateaus_is_wide_by_the_window,
                                  test_group_reduce_joins_the_heads_of_a_group,
                                  test_position_scores_are_positions,
                                  test_states_are_those_of_the_positions_in_every_cache,
                                  NULL};
    return rig_run("kernels/scores", tests);
}
