/* scores.c - bench cases of eviction: operations that compute scores of entries, select among them and compact the
 * cache. */
#include <stdio.h>

#include "base/mem.h"
#include "lab/bench/bench.h"

static const char *const names[] = {"finish_scores",
                                    "group_reduce",
                                    "put_stats",
                                    "position_scores",
                                    "expected_scores",
                                    "classify",
                                    "weigh_scores",
                                    "entry_norms",
                                    "key_difference",
                                    "lag_scores",
                                    "apply_prior",
                                    "defend_scores",
                                    "random_scores",
                                    "gumbel_scores",
                                    "max_score",
                                    "add_heads",
                                    "share_scores",
                                    "pool",
                                    "histogram",
                                    "select_top",
                                    "order_entries",
                                    "rank_scores",
                                    "gather_entries",
                                    "compact",
                                    "value_ranges",
                                    "count_best",
                                    "entry_features",
                                    "raise_scores",
                                    "last_similar",
                                    "add_similarities",
                                    "mix_scores",
                                    "divide_rows",
                                    "largest_outputs",
                                    "linear_scores",
                                    NULL};

LH_BENCH_CALL(finish_scores)
LH_BENCH_CALL(group_reduce)
LH_BENCH_CALL(put_stats)
LH_BENCH_CALL(position_scores)
LH_BENCH_CALL(expected_scores)
LH_BENCH_CALL(classify)
LH_BENCH_CALL(weigh_scores)
LH_BENCH_CALL(entry_norms)
LH_BENCH_CALL(value_ranges)
LH_BENCH_CALL(entry_features)
LH_BENCH_CALL(raise_scores)
LH_BENCH_CALL(last_similar)
LH_BENCH_CALL(add_similarities)
LH_BENCH_CALL(mix_scores)
LH_BENCH_CALL(divide_rows)
LH_BENCH_CALL(largest_outputs)
LH_BENCH_CALL(key_difference)
LH_BENCH_CALL(lag_scores)
LH_BENCH_CALL(linear_scores)
LH_BENCH_CALL(apply_prior)
LH_BENCH_CALL(defend_scores)
LH_BENCH_CALL(random_scores)
LH_BENCH_CALL(gumbel_scores)
LH_BENCH_CALL(max_score)
LH_BENCH_CALL(add_heads)
LH_BENCH_CALL(share_scores)
LH_BENCH_CALL(pool)
LH_BENCH_CALL(histogram)
LH_BENCH_CALL(count_best)
LH_BENCH_CALL(select_top)
LH_BENCH_CALL(order_entries)
LH_BENCH_CALL(rank_scores)
LH_BENCH_CALL(gather_entries)
LH_BENCH_CALL(compact)

enum { HEADS = 8, DIM = 64, STATS = 3, BITS = 11 };

/* Arrays over the entries of a cache: scores, statistics and states. */
typedef struct layer {
    int64_t len, n; /* entries of a head, of all heads */
    lh_ragged kv;
    float *x, *y;
    uint8_t *state, *compete; /* `compete`: the state in which all entries compete */
    int64_t *sums, *counts, *held;
    int32_t *histograms, *order;
} layer;

static lh_status make_layer(lh_bench *b, layer *l)
{
    int64_t half[HEADS];
    l->len = lh_bench_size(b, 1 << 16, 300);
    l->n = HEADS * l->len;
    for (int h = 0; h < HEADS; h++) half[h] = l->len / 2;
    LH_TRY(lh_bench_fill(b, &l->kv, &(lh_bench_cache){LH_BF16, HEADS, l->len, DIM, 0}, NULL));
    LH_TRY(lh_bench_normals(b, &l->kv.stats, &(lh_bench_normal){LH_F32, l->n * STATS, 1.0f}));
    l->kv.stat_count = STATS;
    LH_TRY(lh_bench_normals(b, &l->x, &(lh_bench_normal){LH_F32, l->n, 1.0f}));
    LH_TRY(lh_bench_zeros(b, &l->y, l->n * 4));
    LH_TRY(lh_bench_bytes(b, &l->state, l->n, LH_ENTRY_COMPETES));
    LH_TRY(lh_bench_bytes(b, &l->compete, l->n, LH_ENTRY_COMPETES));
    LH_TRY(lh_bench_zeros(b, &l->sums, l->len * 8));
    LH_TRY(lh_bench_zeros(b, &l->histograms, (4 * HEADS) << BITS));
    LH_TRY(lh_bench_put(b, &l->counts, half, sizeof half));
    LH_TRY(lh_bench_zeros(b, &l->held, sizeof half));
    LH_TRY(lh_bench_zeros(b, &l->order, l->n * 4));
    return LH_OK;
}

/* Runs a case; its shape text is `what` and the size of the layer. */
static lh_status run_one(lh_bench *b, const layer *l, lh_bench_case w, const char *what)
{
    snprintf(w.shape, sizeof w.shape, "%s%s%d x %lld", what, *what ? ", " : "", HEADS, (long long)l->len);
    w.type = LH_BF16;
    return lh_bench_run(b, &w, NULL);
}

#define RUN(op, what, per_entry, ...)                                       \
    LH_TRY(run_one(b, l,                                                    \
                   (lh_bench_case){.name = #op,                             \
                                   .call = call_##op,                       \
                                   .bytes = (per_entry) * (double)l->n,     \
                                   .args = &(lh_##op##_args){__VA_ARGS__}}, \
                   what))

static lh_status run_statistics(lh_bench *b, const layer *l)
{
    const lh_ragged *kv = &l->kv;
    const int64_t ld = l->len;
    const lh_key_products similar = {.dots = l->x, .norms = l->x, .rows = HEADS, .cols = ld};
    lh_slot_floats x = {.at = kv->stats, .starts = kv->offset, .step = STATS, .next = 1}, squares = x;
    squares.at += 1;
    RUN(finish_scores, "plain", 16.0, .y = l->y, .x = x, .kv = kv, .ld = ld, .parts = 1, .seen = ld, .factor = 1.0f);
    RUN(finish_scores, "by visits", 20.0, .y = l->y, .x = x, .kv = kv, .ld = ld, .parts = 1, .seen = ld, .factor = 1.0f,
        .kind = LH_FINISH_PER_VISIT);
    RUN(finish_scores, "deviation", 20.0, .y = l->y, .x = x, .squares = squares, .kv = kv, .ld = ld, .parts = 1,
        .seen = ld, .kind = LH_FINISH_DEVIATION);
    RUN(weigh_scores, "", 20.0, .y = l->y, .x = l->x, .norms = x, .len = kv->len, .heads = HEADS, .ld = ld);
    RUN(entry_norms, "64 bf16", 2.0 * DIM, .y = x, .kv = kv, .last = LH_ALL_ENTRIES, .part = LH_PART_VALUE);
    RUN(value_ranges, "64 bf16", 2.0 * DIM, .y = l->y, .kv = kv, .ld = ld);
    RUN(entry_features, "64 f32, a 512th", 4.0 * (2 * DIM + 4 * DIM + 3) / 512, .y = l->y, .keys = l->x, .values = l->x,
        .rows = l->n / 512, .dim = DIM, .y_ld = 4 * DIM + 3);
    RUN(raise_scores, "", 12.0, .y = l->y, .x = l->x, .kv = kv, .ld = ld, .factor = 1e-3f);
    RUN(last_similar, "8 rows", 4.0, .y = l->order, .of = similar, .threshold = 0.5f);
    RUN(add_similarities, "8 rows", 12.0, .y = l->y, .last = l->order, .of = similar);
    RUN(mix_scores, "", 12.0, .y = l->y, .x = l->x, .cols = l->n, .own = 0.5f, .other = 0.5f);
    RUN(divide_rows, "rows of 8", 8.0, .lse = l->y, .squares = l->x, .rows = ld, .heads = HEADS);
    RUN(largest_outputs, "groups of 4", 9.0, .y = l->y, .x = l->x, .squares = l->x, .heads = HEADS / 4, .group = 4,
        .cols = ld, .y_ld = ld, .x_ld = ld);
    RUN(group_reduce, "groups of 4", 5.0, .y = l->y, .x = l->x, .heads = HEADS / 4, .group = 4, .cols = ld, .y_ld = ld,
        .x_ld = ld, .factor = 1.0f);
    RUN(put_stats, "", 8.0, .y = x, .x = l->x, .kv = kv, .last = LH_ALL_ENTRIES, .ld = ld);
    RUN(key_difference, "64 bf16", 4.0 * DIM, .y = l->y, .kv = kv, .ld = ld);
    RUN(linear_scores, "64 bf16", 4.0 * DIM + 4, .y = l->y, .w = l->x, .kv = kv, .inv_freq = l->x, .rotary = DIM,
        .scale = 1.0f, .ld = ld, .w_ld = lh_feature_count(DIM));
    RUN(lag_scores, "64 bf16, parts of 128", 8.0 * DIM, .y = l->y, .kv = kv, .ld = ld, .first = 4, .lag = 128);
    return LH_OK;
}

static lh_status run_shapes(lh_bench *b, const layer *l)
{
    const lh_ragged *kv = &l->kv;
    const int64_t ld = l->len;
    const lh_draw draw = {.key = {1, 2}};
    const lh_position_lines lines = {.sinks = 4, .recent_from = ld - 64};
    RUN(apply_prior, "", 18.0, .y = l->y, .prior = l->x, .state = l->compete, .len = kv->len, .heads = HEADS, .ld = ld);
    RUN(defend_scores, "", 19.0, .y = l->y, .state = l->compete, .len = kv->len, .heads = HEADS, .ld = ld, .raise = 1);
    RUN(position_scores, "", 8.0, .y = l->y, .kv = kv, .ld = ld);
    RUN(classify, "", 5.0, .state = l->state, .kv = kv, .lines = &lines, .batch = 1, .ld = ld);
    RUN(random_scores, "", 8.0, .y = l->y, .kv = kv, .ld = ld, .draw = draw);
    RUN(gumbel_scores, "", 12.0, .y = l->y, .x = l->x, .kv = kv, .ld = ld, .temperature = 1.0f, .draw = draw);
    RUN(max_score, "", 5.0, .y = l->y, .scores = l->x, .state = l->compete, .kv = kv, .batch = 1, .ld = ld);
    RUN(add_heads, "", 5.0, .sums = l->sums, .scores = l->x, .kv = kv, .top = l->x, .batch = 1, .cols = ld, .ld = ld,
        .all_heads = HEADS);
    RUN(share_scores, "", 5.0, .y = l->y, .sums = l->sums, .top = l->x, .batch = 1, .heads = HEADS, .cols = ld,
        .ld = ld, .all_heads = HEADS);
    RUN(pool, "max 31", 9.0, .y = l->y, .x = l->x, .state = l->compete, .kv = kv, .rows = HEADS, .rows_per_head = 1,
        .ld = ld, .k = 31, .seen = ld, .kind = LH_POOL_MAX);
    RUN(pool, "avg 5", 9.0, .y = l->y, .x = l->x, .state = l->compete, .kv = kv, .rows = HEADS, .rows_per_head = 1,
        .ld = ld, .k = 5, .seen = ld, .kind = LH_POOL_AVG);
    RUN(histogram, "", 5.0, .histograms = l->histograms, .scores = l->x, .state = l->compete, .kv = kv, .batch = 1,
        .ld = ld, .histograms_ld = 1 << BITS, .bits = BITS);
    RUN(count_best, "", 5.0, .counts = l->held, .scores = l->x, .state = l->compete, .kv = kv, .ld = ld, .most = ld,
        .key = 1u << 31);
    return LH_OK;
}

/* Expected attention with one query head per KV head, and random means and covariances. */
static lh_status run_expected(lh_bench *b, const layer *l)
{
    float *covariances;
    lh_expected_scores_args a = {.y = l->y,
                                 .means = l->x,
                                 .state = l->compete,
                                 .kv = &l->kv,
                                 .map = {HEADS, 1, 0},
                                 .ld = l->len,
                                 .scale = 0.01f};
    lh_bench_case w = {.name = "expected_scores",
                       .call = call_expected_scores,
                       .flops = 2.0 * DIM * (DIM + 2) * (double)l->n,
                       .args = &a};
    LH_TRY(lh_bench_normals(b, &covariances, &(lh_bench_normal){LH_F32, HEADS * DIM * DIM, 1.0f}));
    a.covariances = covariances;
    LH_TRY(run_one(b, l, w, "64 bf16"));
    return LH_OK;
}

/* ---- selection and compaction ---- */

typedef struct selection {
    lh_select_top_args args;
    const uint8_t *compete;
    int64_t n;
} selection;

/* Resets the states, so that selected entries compete again. */
static lh_status compete_again(lh_bench *b, void *args)
{
    const selection *s = args;
    return lh_stream_copy(b->stream, s->args.state, s->compete, s->n, LH_COPY_ON_DEVICE);
}

static lh_status call_selection(lh_bench *b, void *args, int64_t turn)
{
    return call_select_top(b, &((selection *)args)->args, turn);
}

static lh_status run_selection(lh_bench *b, const layer *l)
{
    selection s = {{.state = l->state, .scores = l->x, .kv = &l->kv, .counts = l->counts, .batch = 1, .ld = l->len},
                   l->compete,
                   l->n};
    lh_bench_case w = {
        .name = "select_top", .call = call_selection, .before = compete_again, .args = &s, .bytes = 6.0 * (double)l->n};
    return run_one(b, l, w, "half");
}

/* An order of all entries, scores by rank in it, and the best quarter of a head. The order is made even if the words
 * do not select it: the next need it. */
static lh_status run_order(lh_bench *b, const layer *l)
{
    enum { POINTS = 16 };
    float host[POINTS], *ranks;
    lh_ragged quarter;
    lh_order_entries_args order = {.order = l->order,
                                   .counts = l->held,
                                   .scores = l->x,
                                   .state = l->compete,
                                   .kv = &l->kv,
                                   .ld = l->len,
                                   .of = LH_ENTRY_COMPETES};
    const lh_bench_case w = {
        .name = "order_entries", .call = call_order_entries, .bytes = 9.0 * (double)l->n, .args = &order};
    for (int p = 0; p < POINTS; p++) host[p] = (float)(p * l->len / POINTS);
    LH_TRY(call_order_entries(b, &order, 0));
    LH_TRY(run_one(b, l, w, "all"));
    LH_TRY(lh_bench_put(b, &ranks, host, sizeof host));
    LH_TRY(lh_bench_fill(b, &quarter, &(lh_bench_cache){LH_BF16, 1, l->len / 4, DIM, 0}, NULL));
    RUN(rank_scores, "16 points", 8.0, .y = l->y, .order = l->order, .counts = l->held, .ranks = ranks, .values = l->x,
        .heads = HEADS, .ld = l->len, .points = POINTS, .values_ld = POINTS);
    RUN(gather_entries, "a quarter of a head of 64 bf16", 8.0 * DIM / 4 / HEADS, .dst = &quarter, .src = &l->kv,
        .order = l->order, .count = l->len / 4);
    return LH_OK;
}

/* Compaction to a third of the entries, with and without statistics. */
static lh_status run_compaction(lh_bench *b, const layer *l)
{
    lh_status st = LH_OK;
    lh_ragged kept, bare = l->kv;
    uint8_t *host = NULL;
    const int64_t ld = l->len;
    LH_TRY_DONE(lh_calloc(&host, l->n, 1));
    for (int64_t i = 0; i < l->n; i++) host[i] = i % 3 == 0 ? LH_ENTRY_KEEP : LH_ENTRY_DROP;
    LH_TRY_DONE(lh_stream_copy(b->stream, l->state, host, l->n, LH_COPY_TO_DEVICE));
    LH_TRY_DONE(lh_stream_sync(b->stream));
    LH_TRY_DONE(lh_bench_fill(b, &kept, &(lh_bench_cache){LH_BF16, HEADS, l->len, DIM, 0}, NULL));
    bare.stats = NULL;
    bare.stat_count = 0;
    RUN(compact, "a third of 64 bf16", 8.0 * DIM / 3, .dst = &kept, .src = &bare, .state = l->state, .batch = 1,
        .ld = ld);
    LH_TRY_DONE(lh_bench_zeros(b, &kept.stats, l->n * STATS * 4));
    kept.stat_count = STATS;
    RUN(compact, "a third of 64 bf16 with 3 numbers", (8.0 * DIM + 8 * STATS) / 3, .dst = &kept, .src = &l->kv,
        .state = l->state, .batch = 1, .ld = ld);
done:
    lh_free(host);
    return st;
}

static lh_status run_scores(lh_bench *b)
{
    lh_status st = LH_OK;
    const int64_t mark = lh_bench_mark(b);
    layer l = {0};
    LH_TRY_DONE(make_layer(b, &l));
    LH_TRY_DONE(run_statistics(b, &l));
    LH_TRY_DONE(run_shapes(b, &l));
    LH_TRY_DONE(run_expected(b, &l));
    LH_TRY_DONE(run_selection(b, &l));
    LH_TRY_DONE(run_order(b, &l));
    LH_TRY_DONE(run_compaction(b, &l));
done:
    lh_bench_drop(b, mark);
    return st;
}

const lh_bench_group lh_bench_scores = {names, run_scores};
