#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

/* Scores of a layer. Slots stand in any order; some entries do not compete. */
typedef struct layer {
    cache kv;
    int64_t heads, ld;
    float *scores;  /* [heads, ld] */
    uint8_t *state; /* [heads, ld] */
} layer;

enum { SCORES_NORMAL, SCORES_FEW, SCORES_EQUAL, SCORES_TINY, SCORES_ODD, SCORES_CLOSE, SCORES_PLATEAUS, SCORE_KINDS };

static float score_at(int kind, uint64_t n, const float *normals)
{
    const float few[] = {-1, -0.0f, 0.0f, 0.5f, 1}, odd[] = {NAN, -NAN, INFINITY, -INFINITY, 0.0f, -0.0f, -2, 3.4e38f};
    switch (kind) {
    case SCORES_NORMAL: return *normals;
    case SCORES_FEW: return few[draw(21, n, 5)];
    case SCORES_EQUAL: return 0.25f;
    case SCORES_TINY: return *normals * 1e-43f; /* subnormal, both signs */
    case SCORES_ODD: return draw(22, n, 3) ? odd[draw(23, n, 8)] : *normals;
    case SCORES_CLOSE: return 1.0f + (float)draw(24, n, 3000) * 0x1p-23f; /* the last round of the radix decides */
    default: return (float)draw(25, n / 7, 40) / 64.0f;                   /* as after a max-pool */
    }
}

static void layer_make(lot *m, layer *l, int n)
{
    int64_t long_ld = n % 47 == 21 ? 33000 : n % 47 == 22 ? 2000 : 0; /* which backends may do in another way */
    int64_t heads = long_ld ? 1 + n % 2 : n % 10, most = 0, *len = lot_new(m, heads * 8);
    int64_t longest = long_ld ? (long_ld < 9000 ? long_ld : 9000) : n % 4 ? 40 : 700;
    for (int64_t h = 0; h < heads; h++) {
        len[h] = draw(20, (uint64_t)(n * 10 + h), 5) ? draw(26, (uint64_t)(n * 10 + h), longest) : 0;
        most = len[h] > most ? len[h] : most;
    }
    cache_spec spec = {.heads = heads, .head_dim = 1, .slack = n % 3, .in_order = n % 5, .last = most + 100};
    spec.len = len;
    spec.order = (cache_order)(n / 2 % CACHE_ORDERS);
    spec.seed = (uint64_t)n;
    cache_make(m, &l->kv, &spec);
    l->heads = heads;
    l->ld = most + n % 3 > long_ld ? most + n % 3 : long_ld;
    l->scores = lot_normals(m, heads * l->ld, 1.0f, (uint64_t)n);
    l->state = lot_new(m, heads * l->ld);
    for (int64_t i = 0; i < heads * l->ld; i++) {
        uint64_t dice = (uint64_t)n * 100000 + (uint64_t)i;
        l->scores[i] = score_at(n % SCORE_KINDS, dice, &l->scores[i]);
        int64_t state = draw(27, dice, 8);
        l->state[i] = state < 2 && n % 3 ? (uint8_t)state : LH_ENTRY_COMPETES;
    }
}

typedef struct entry {
    float score;
    int64_t head, slot, position;
} entry;

/* Score descending with NaN last, head ascending, position ascending. */
static int by_rank(const void *left, const void *right)
{
    const entry *a = left, *b = right;
    if (isnan(a->score) != isnan(b->score)) return isnan(a->score) ? 1 : -1;
    if (a->score > b->score) return -1;
    if (a->score < b->score) return 1;
    if (a->head != b->head) return a->head < b->head ? -1 : 1;
    return a->position < b->position ? -1 : a->position > b->position;
}

/* The competing entries of heads [from, to), best first; returns how many. */
static int64_t ranked(lot *m, const layer *l, int64_t from, int64_t to, entry **out)
{
    int64_t count = 0;
    entry *all = lot_new(m, (to - from) * l->ld * (int64_t)sizeof *all);
    for (int64_t h = from; h < to; h++) {
        for (int64_t s = 0; s < l->kv.host.len[h]; s++) {
            if (l->state[h * l->ld + s] != LH_ENTRY_COMPETES) continue;
            all[count++] = (entry){l->scores[h * l->ld + s], h, s, cache_position(&l->kv.host, h, s)};
        }
    }
    qsort(all, (size_t)count, sizeof *all, by_rank);
    *out = all;
    return count;
}

/* A layer on the device. */
typedef struct placed {
    lh_ragged kv;
    float *scores;
    uint8_t *state;
} placed;

static placed layer_put(rig *g, const layer *l)
{
    return (placed){rig_cache(g, &l->kv), rig_put(g, l->scores, l->heads * l->ld * 4),
                    rig_put(g, l->state, l->heads * l->ld)};
}

static void check_states(rig *g, const placed *on, const layer *l, const uint8_t *want, int n)
{
    lot m = {0};
    uint8_t *got = lot_new(&m, l->heads * l->ld);
    rig_get(g, got, on->state, l->heads * l->ld);
    for (int64_t h = 0; h < l->heads; h++)
        check_same(got + h * l->ld, want + h * l->ld, l->kv.host.len[h], "states of head %d, case %d, %s", (int)h, n,
                   g->ops->name);
    lot_end(&m);
}

START_TEST(test_select_top_keeps_the_best_of_each_head)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 420; n++) {
            lot m = {0};
            layer l;
            layer_make(&m, &l, n);
            uint8_t *want = lot_copy(&m, l.state, l.heads * l.ld);
            int64_t *counts = lot_new(&m, l.heads * 8);
            for (int64_t h = 0; h < l.heads; h++) {
                entry *best;
                int64_t held = ranked(&m, &l, h, h + 1, &best);
                const int64_t some[] = {0, 1, 2, held / 2, held - 2, held - 1, held, held + 5};
                counts[h] = some[draw(30, (uint64_t)(n * 10 + h), 8)];
                counts[h] = counts[h] < 0 ? 0 : counts[h];
                for (int64_t i = 0; i < held; i++)
                    want[h * l.ld + best[i].slot] = i < counts[h] ? LH_ENTRY_KEEP : LH_ENTRY_DROP;
            }
            placed on = layer_put(&g, &l);
            RUN(&g, select_top, .state = on.state, .scores = on.scores, .kv = &on.kv,
                .counts = rig_put(&g, counts, l.heads * 8), .ld = l.ld);
            check_states(&g, &on, &l, want, n);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* What the first stage leaves competes in the second. */
START_TEST(test_select_top_twice_is_once_for_both_counts)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 210; n++) {
            lot m = {0};
            layer l;
            layer_make(&m, &l, n);
            uint8_t *want = lot_new(&m, l.heads * l.ld);
            int64_t *first = lot_new(&m, l.heads * 8), *rest = lot_new(&m, l.heads * 8);
            int64_t *both = lot_new(&m, l.heads * 8);
            for (int64_t h = 0; h < l.heads; h++) {
                first[h] = draw(33, (uint64_t)(n * 10 + h), l.ld + 1);
                rest[h] = draw(34, (uint64_t)(n * 10 + h), n % 2 ? l.ld + 1 : 4);
                both[h] = first[h] + rest[h];
            }
            placed once = layer_put(&g, &l), twice = layer_put(&g, &l);
            RUN(&g, select_top, .state = once.state, .scores = once.scores, .kv = &once.kv,
                .counts = rig_put(&g, both, l.heads * 8), .ld = l.ld);
            RUN(&g, select_top, .state = twice.state, .scores = twice.scores, .kv = &twice.kv,
                .counts = rig_put(&g, first, l.heads * 8), .ld = l.ld, .others = LH_ENTRY_COMPETES);
            RUN(&g, select_top, .state = twice.state, .scores = twice.scores, .kv = &twice.kv,
                .counts = rig_put(&g, rest, l.heads * 8), .ld = l.ld, .others = LH_ENTRY_DROP);
            rig_get(&g, want, once.state, l.heads * l.ld);
            check_states(&g, &twice, &l, want, n);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_histogram_counts_the_keys_of_a_prefix)
{
    const int splits[][2] = {{0, 11}, {11, 11}, {22, 10}, {0, 1}, {31, 1}, {0, 16}, {16, 16}, {5, 8}};
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 280; n++) {
            lot m = {0};
            layer l;
            layer_make(&m, &l, n);
            int before = splits[n % 8][0], bits = splits[n % 8][1];
            int64_t size = (int64_t)1 << bits;
            int64_t *want = lot_new(&m, size * 8), *got = lot_new(&m, size * 8), *bins = rig_new(&g, size * 8);
            /* The prefix of one of the scores, so that something is counted. */
            int64_t all = l.heads * l.ld;
            float some = all ? l.scores[draw(31, (uint64_t)n, all)] : 0;
            uint32_t prefix = before ? lh_score_key(some) >> (32 - before) : 0;
            for (int64_t h = 0; h < l.heads; h++) {
                for (int64_t s = 0; s < l.kv.host.len[h]; s++) {
                    uint32_t key = lh_score_key(l.scores[h * l.ld + s]);
                    int in = !before || key >> (32 - before) == prefix;
                    uint32_t low = before ? key << before : key;
                    if (l.state[h * l.ld + s] == LH_ENTRY_COMPETES && in) want[low >> (32 - bits)]++;
                }
            }
            placed on = layer_put(&g, &l);
            RUN(&g, histogram, .bins = bins, .scores = on.scores, .state = on.state, .len = on.kv.len, .heads = l.heads,
                .ld = l.ld, .prefix = prefix, .prefix_bits = before, .bits = bits);
            rig_get(&g, got, bins, size * 8);
            check_same(got, want, size * 8, "histogram, case %d, %s", n, g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_count_at_counts_above_and_at_the_threshold)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 280; n++) {
            lot m = {0};
            layer l;
            layer_make(&m, &l, n);
            int64_t *want = lot_new(&m, l.heads * 16), *got = lot_new(&m, l.heads * 16);
            int64_t *above = rig_new(&g, l.heads * 8), *at = rig_new(&g, l.heads * 8);
            const uint32_t ends[] = {0, UINT32_MAX, lh_score_key(0.0f)};
            uint32_t threshold = ends[n % 3];
            if (n % 4 && l.heads * l.ld > 0) threshold = lh_score_key(l.scores[draw(32, (uint64_t)n, l.heads * l.ld)]);
            for (int64_t h = 0; h < l.heads; h++) {
                for (int64_t s = 0; s < l.kv.host.len[h]; s++) {
                    uint32_t key = lh_score_key(l.scores[h * l.ld + s]);
                    if (l.state[h * l.ld + s] != LH_ENTRY_COMPETES) continue;
                    want[h] += key > threshold;
                    want[l.heads + h] += key == threshold;
                }
            }
            placed on = layer_put(&g, &l);
            RUN(&g, count_at, .above = above, .at = at, .scores = on.scores, .state = on.state, .len = on.kv.len,
                .heads = l.heads, .ld = l.ld, .threshold = threshold);
            rig_get(&g, got, above, l.heads * 8);
            rig_get(&g, got + l.heads, at, l.heads * 8);
            check_same(got, want, l.heads * 16, "count_at, case %d, %s", n, g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* One round over all ranks: rank r has every heads' share of its own; their bins are added. */
static void round_of(rig *g, const placed *on, const layer *l, int64_t ranks, lh_histogram_args *args, int64_t *sums)
{
    lot m = {0};
    int64_t size = (int64_t)1 << args->bits, *bins = rig_new(g, size * 8), *got = lot_new(&m, size * 8);
    memset(sums, 0, (size_t)size * 8);
    for (int64_t r = 0; r < ranks; r++) {
        int64_t from = l->heads * r / ranks, to = l->heads * (r + 1) / ranks;
        args->bins = bins;
        args->scores = on->scores + from * l->ld;
        args->state = on->state + from * l->ld;
        args->len = on->kv.len + from;
        args->heads = to - from;
        args->ld = l->ld;
        rig_done(g, g->ops->histogram(g->stream, args), "histogram");
        rig_get(g, got, bins, size * 8);
        for (int64_t b = 0; b < size; b++) sums[b] += got[b];
    }
    lot_end(&m);
}

/* The key of the k-th best by three rounds of 11, 11 and 10 bits; *rest: how many of those with that key belong to the
 * k best. k is at least 1 and at most what competes. */
static uint32_t threshold_of(rig *g, const placed *on, const layer *l, int64_t ranks, int64_t *rest)
{
    const int bits[] = {11, 11, 10};
    int64_t sums[1 << 11];
    lh_histogram_args args = {0};
    for (int i = 0; i < 3; i++) {
        args.bits = bits[i];
        round_of(g, on, l, ranks, &args, sums);
        int64_t bin = ((int64_t)1 << bits[i]) - 1;
        while (sums[bin] < *rest) *rest -= sums[bin--];
        args.prefix = args.prefix << bits[i] | (uint32_t)bin;
        args.prefix_bits += bits[i];
    }
    return args.prefix;
}

/* Mark the k best of all heads with the operations, as several ranks would do it together. */
static void select_flat(rig *g, const placed *on, const layer *l, int64_t ranks, int64_t k)
{
    lot m = {0};
    int64_t *above = lot_new(&m, l->heads * 8), *at = lot_new(&m, l->heads * 8), *counts = lot_new(&m, l->heads * 8);
    int64_t *above_on = rig_new(g, l->heads * 8), *at_on = rig_new(g, l->heads * 8), rest = k, total = 0;
    if (k > 0) {
        uint32_t threshold = threshold_of(g, on, l, ranks, &rest);
        RUN(g, count_at, .above = above_on, .at = at_on, .scores = on->scores, .state = on->state, .len = on->kv.len,
            .heads = l->heads, .ld = l->ld, .threshold = threshold);
        rig_get(g, above, above_on, l->heads * 8);
        rig_get(g, at, at_on, l->heads * 8);
    }
    for (int64_t h = 0; h < l->heads; h++) {
        int64_t ties = at[h] < rest ? at[h] : rest;
        counts[h] = above[h] + ties;
        rest -= ties;
        total += counts[h];
    }
    ck_assert_msg(total == k, "%s: the rounds give %d entries for %d", g->ops->name, (int)total, (int)k);
    RUN(g, select_top, .state = on->state, .scores = on->scores, .kv = &on->kv,
        .counts = rig_put(g, counts, l->heads * 8), .ld = l->ld);
    lot_end(&m);
}

START_TEST(test_radix_rounds_over_ranks_keep_what_sorting_all_heads_together_keeps)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 350; n++) {
            lot m = {0};
            layer l;
            entry *best;
            layer_make(&m, &l, n);
            int64_t held = ranked(&m, &l, 0, l.heads, &best);
            const int64_t some[] = {0, 1, held / 3, held / 2, held - 1, held};
            int64_t k = held > 0 ? some[n / 7 % 6] : 0;
            uint8_t *want = lot_copy(&m, l.state, l.heads * l.ld);
            for (int64_t i = 0; i < held; i++)
                want[best[i].head * l.ld + best[i].slot] = i < k ? LH_ENTRY_KEEP : LH_ENTRY_DROP;
            for (int64_t ranks = 1; ranks <= 4; ranks++) {
                placed on = layer_put(&g, &l);
                select_flat(&g, &on, &l, ranks, k);
                check_states(&g, &on, &l, want, n);
                rig_reset(&g);
            }
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_top_logits_are_those_of_sorting)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 280; n++) {
            lot m = {0};
            const int64_t ks[] = {1, 2, 5, 40, 0, 1000, 2500};
            int64_t rows = n % 4, cols = n % 9 ? draw(40, (uint64_t)n, 300) + 1 : n % 27 ? 5003 : 20011;
            int64_t ld = cols + n % 5, k = ks[n % 7] < cols ? ks[n % 7] : cols;
            float *x = lot_normals(&m, rows * ld, 1.0f, (uint64_t)n), *want = lot_new(&m, rows * k * 4);
            for (int64_t i = 0; i < rows * ld; i++) x[i] = score_at(n % SCORE_KINDS, (uint64_t)(n * 99991 + i), &x[i]);
            int32_t *want_at = lot_new(&m, rows * k * 4), *at = lot_new(&m, rows * k * 4);
            float *got = lot_new(&m, rows * k * 4), *values = rig_new(&g, rows * k * 4);
            int32_t *indices = rig_new(&g, rows * k * 4);
            entry *all = lot_new(&m, cols * (int64_t)sizeof *all);
            for (int64_t r = 0; r < rows; r++) {
                for (int64_t i = 0; i < cols; i++) all[i] = (entry){.score = x[r * ld + i], .position = i};
                qsort(all, (size_t)cols, sizeof *all, by_rank);
                for (int64_t i = 0; i < k; i++) {
                    want[r * k + i] = all[i].score;
                    want_at[r * k + i] = (int32_t)all[i].position;
                }
            }
            RUN(&g, top_logits, .values = values, .indices = indices, .x = rig_put(&g, x, rows * ld * 4), .rows = rows,
                .cols = cols, .ld = ld, .k = k);
            rig_get(&g, got, values, rows * k * 4);
            rig_get(&g, at, indices, rows * k * 4);
            check_same(at, want_at, rows * k * 4, "indices of top logits, case %d, %s", n, g.ops->name);
            check_same(got, want, rows * k * 4, "values of top logits, case %d, %s", n, g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* ---- norms that are only bounded ---- */

START_TEST(test_want_norms_asks_for_the_bounds_before_the_line)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 420; n++) {
            lot m = {0};
            layer l;
            layer_make(&m, &l, n);
            lh_want_kind kind = (lh_want_kind)(n / 7 % 2);
            int64_t count = l.heads * l.ld, *counts = lot_new(&m, l.heads * 8);
            uint8_t *want = lot_new(&m, count), *got = lot_new(&m, count), *wanted = rig_new(&g, count);
            float *norms = lot_new(&m, count * 4);
            for (int64_t i = 0; i < count; i++)
                norms[i] = draw(35, (uint64_t)(n + i * 3), 3) ? -1.0f : n % 5 ? 2.0f : NAN;
            for (int64_t h = 0; h < l.heads; h++) {
                entry *best;
                int64_t held = ranked(&m, &l, h, h + 1, &best), before = 0;
                const int64_t some[] = {0, 1, held / 2, held - 1, held, held + 5};
                counts[h] = some[draw(30, (uint64_t)(n * 10 + h), 6)];
                counts[h] = counts[h] < 0 ? 0 : counts[h];
                for (int64_t i = 0; i < held; i++) {
                    int bound = norms[h * l.ld + best[i].slot] < 0;
                    want[h * l.ld + best[i].slot] = bound && before < counts[h] && counts[h] < held;
                    before += kind == LH_WANT_BEST || !bound;
                }
            }
            placed on = layer_put(&g, &l);
            RUN(&g, want_norms, .wanted = wanted, .scores = on.scores,
                .norms = {.at = rig_put(&g, norms, count * 4), .ld = l.ld, .step = 1}, .state = on.state, .kv = &on.kv,
                .counts = rig_put(&g, counts, l.heads * 8), .ld = l.ld, .kind = kind);
            rig_get(&g, got, wanted, count);
            for (int64_t h = 0; h < l.heads; h++)
                check_same(got + h * l.ld, want + h * l.ld, l.kv.host.len[h], "want_norms, head %d, case %d, %s",
                           (int)h, n, g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* What an entry's norm is and what it is at most: near, far above, or nothing is known; norms may be zero, equal, huge,
 * infinite or no number. */
static void norm_make(int n, int64_t i, float *norm, float *bound)
{
    const float odd[] = {0.0f, 1.0f, 1.0f, 3.4e38f, INFINITY, NAN, 1e-40f, 1e30f};
    uint64_t dice = (uint64_t)n * 100000 + (uint64_t)i;
    float more[] = {1.0f, 1.002f, 1.3f, 100.0f};
    *norm = n % 4 == 0 ? odd[draw(36, dice, 8)] : n % 4 == 1 ? 0.5f : 1.0f + 0.001f * (float)draw(37, dice, 3000);
    *bound = -*norm * more[draw(38, dice, n % 3 ? 4 : 2)];
    if (!(*bound < -1e-15f && *bound > -FLT_MAX)) *bound = -FLT_MAX;
}

/* Norms that are wanted become known; then scores by what is known. */
static void learn(rig *g, const placed *on, const layer *l, const float *norms, lh_want_norms_args *ask)
{
    int64_t count = l->heads * l->ld;
    float *y = (float *)(void *)(uintptr_t)ask->scores;
    rig_done(g, g->ops->want_norms(g->stream, ask), "want_norms");
    RUN(g, put_stats, .y = ask->norms, .x = rig_put(g, norms, count * 4), .kv = &on->kv, .only = ask->wanted,
        .ld = l->ld, .only_ld = l->ld);
    RUN(g, weigh_scores, .y = y, .x = on->scores, .norms = ask->norms, .len = on->kv.len, .heads = l->heads,
        .ld = l->ld, .add = 1e-4f);
}

/* Scores as attention gives them, not negative; NaN too. */
START_TEST(test_a_selection_by_the_norms_that_are_wanted_is_that_by_all_norms)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 840; n++) {
            lot m = {0};
            layer l;
            layer_make(&m, &l, n);
            int64_t count = l.heads * l.ld, *counts = lot_new(&m, l.heads * 8), *reach = lot_new(&m, l.heads * 8);
            float *norms = lot_new(&m, count * 4), *bounds = lot_new(&m, count * 4);
            for (int64_t i = 0; i < count; i++) {
                l.scores[i] = fabsf(l.scores[i]);
                norm_make(n, i, &norms[i], &bounds[i]);
                if (n % 9 == 0 && draw(39, (uint64_t)(n + i), 2)) bounds[i] = norms[i]; /* known before */
            }
            for (int64_t h = 0; h < l.heads; h++) {
                counts[h] = draw(34, (uint64_t)(n * 10 + h), n % 2 ? l.ld + 1 : 6);
                reach[h] = counts[h] + counts[h] / 4;
            }
            placed all = layer_put(&g, &l), some = layer_put(&g, &l);
            const int64_t *counts_on = rig_put(&g, counts, l.heads * 8);
            float *y = rig_new(&g, count * 4);
            lh_slot_floats exact = {.at = rig_put(&g, norms, count * 4), .ld = l.ld, .step = 1}, known = exact;
            RUN(&g, weigh_scores, .y = y, .x = all.scores, .norms = exact, .len = all.kv.len, .heads = l.heads,
                .ld = l.ld, .add = 1e-4f);
            RUN(&g, select_top, .state = all.state, .scores = y, .kv = &all.kv, .counts = counts_on, .ld = l.ld);
            known.at = rig_put(&g, bounds, count * 4);
            RUN(&g, weigh_scores, .y = y, .x = some.scores, .norms = known, .len = some.kv.len, .heads = l.heads,
                .ld = l.ld, .add = 1e-4f);
            lh_want_norms_args ask = {.wanted = rig_new(&g, count),
                                      .scores = y,
                                      .norms = known,
                                      .state = some.state,
                                      .kv = &some.kv,
                                      .counts = rig_put(&g, reach, l.heads * 8),
                                      .ld = l.ld,
                                      .kind = LH_WANT_BEST};
            learn(&g, &some, &l, norms, &ask);
            ask.counts = counts_on;
            ask.kind = LH_WANT_RIVALS;
            learn(&g, &some, &l, norms, &ask);
            RUN(&g, select_top, .state = some.state, .scores = y, .kv = &some.kv, .counts = counts_on, .ld = l.ld);
            uint8_t *want = lot_new(&m, count);
            rig_get(&g, want, all.state, count);
            check_states(&g, &some, &l, want, n);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_select_top_keeps_the_best_of_each_head,
                                  test_select_top_twice_is_once_for_both_counts,
                                  test_histogram_counts_the_keys_of_a_prefix,
                                  test_count_at_counts_above_and_at_the_threshold,
                                  test_radix_rounds_over_ranks_keep_what_sorting_all_heads_together_keeps,
                                  test_top_logits_are_those_of_sorting,
                                  test_want_norms_asks_for_the_bounds_before_the_line,
                                  test_a_selection_by_the_norms_that_are_wanted_is_that_by_all_norms,
                                  NULL};
    return rig_run("kernels/select", tests);
}
