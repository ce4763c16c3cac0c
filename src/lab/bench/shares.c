/* shares.c - bench cases of dividing one budget over the heads of many layers: from the histograms of a threshold
 * search to the number of entries that every head keeps. */
#include <stdio.h>

#include "lab/bench/bench.h"

static const char *const names[] = {"add_histograms", "refine_threshold", "head_budgets", "split_counts", NULL};

LH_BENCH_CALL(add_histograms)
LH_BENCH_CALL(refine_threshold)
LH_BENCH_CALL(head_budgets)
LH_BENCH_CALL(split_counts)

enum { HEADS = 8, LAYERS = 32, CELLS = HEADS * LAYERS, LEN = 1024, BITS = 11, BINS = 1 << BITS };

/* The heads of a model with competing entries, after one round of a threshold search for half of the entries. */
typedef struct search {
    int32_t *histograms, *sums;
    lh_search *found;
    lh_candidate_counts *candidates;
    lh_layer_limits *limits;
    int64_t *counts, *parts; /* [CELLS], [3, CELLS] */
} search;

static lh_status make_search(lh_bench *b, search *s)
{
    lh_layer_limits limits[LAYERS];
    lh_ragged kv = {.heads = CELLS};
    int64_t lens[CELLS];
    float *scores;
    uint8_t *state;
    for (int i = 0; i < CELLS; i++) lens[i] = LEN;
    for (int i = 0; i < LAYERS; i++) limits[i] = (lh_layer_limits){.floor = LEN / 10, .most = CELLS * LEN / 2};
    LH_TRY(lh_bench_put(b, &kv.len, lens, sizeof lens));
    LH_TRY(lh_bench_put(b, &s->limits, limits, sizeof limits));
    LH_TRY(lh_bench_normals(b, &scores, &(lh_bench_normal){LH_F32, CELLS * LEN, 1.0f}));
    LH_TRY(lh_bench_bytes(b, &state, CELLS * LEN, LH_ENTRY_COMPETES));
    LH_TRY(lh_bench_zeros(b, &s->histograms, (int64_t)CELLS * BINS * 4));
    LH_TRY(lh_bench_zeros(b, &s->sums, (BINS + 1) * 4));
    LH_TRY(lh_bench_zeros(b, &s->found, (int64_t)sizeof *s->found));
    LH_TRY(lh_bench_zeros(b, &s->candidates, CELLS * (int64_t)sizeof *s->candidates));
    LH_TRY(lh_bench_zeros(b, &s->counts, CELLS * 8));
    LH_TRY(lh_bench_zeros(b, &s->parts, 3 * CELLS * 8));
    LH_TRY(b->ops->histogram(b->stream, &(lh_histogram_args){.histograms = s->histograms,
                                                             .scores = scores,
                                                             .state = state,
                                                             .kv = &kv,
                                                             .batch = 1,
                                                             .ld = LEN,
                                                             .histograms_ld = BINS,
                                                             .bits = BITS}));
    return LH_OK;
}

/* Runs the operations in the order of a search, each on the result of the one before. */
static lh_status run_search(lh_bench *b, const search *s)
{
    const lh_contests of = {.heads = HEADS, .layers = LAYERS};
    const lh_fraction half = {1, 2};
    lh_add_histograms_args add = {
        .sums = s->sums, .histograms = s->histograms, .limits = s->limits, .of = of, .bits = BITS};
    lh_refine_threshold_args refine_threshold = {.to = s->found,
                                                 .candidates = s->candidates,
                                                 .histograms = s->histograms,
                                                 .summaries = s->sums,
                                                 .limits = s->limits,
                                                 .of = of,
                                                 .ranks = 1,
                                                 .bits = BITS};
    lh_head_budgets_args share = {.counts = s->counts,
                                  .candidates = s->candidates,
                                  .search = s->found,
                                  .limits = s->limits,
                                  .of = of,
                                  .share = half};
    lh_split_counts_args split = {
        .first = s->parts, .rest = s->parts + CELLS, .counts = s->counts, .stage = {.share = half}, .heads = CELLS};
    const double bins = 4.0 * CELLS * BINS, sums = 4.0 * (BINS + 1),
                 candidates = CELLS * (double)sizeof(lh_candidate_counts);
    lh_bench_case cases[] = {
        {.name = "add_histograms", .call = call_add_histograms, .bytes = bins + sums, .args = &add},
        {.name = "refine_threshold",
         .call = call_refine_threshold,
         .bytes = bins + sums + candidates,
         .args = &refine_threshold},
        {.name = "head_budgets", .call = call_head_budgets, .bytes = candidates + 8.0 * CELLS, .args = &share},
        {.name = "split_counts", .call = call_split_counts, .bytes = 24.0 * CELLS, .args = &split}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(cases[i].shape, sizeof cases[i].shape, "%d layers of %d heads%s", LAYERS, HEADS,
                 i < 2 ? ", 2048 bins" : "");
        LH_TRY(cases[i].call(b, cases[i].args, 0)); /* even if the words do not select it: the next needs its result */
        LH_TRY(lh_bench_run(b, &cases[i], NULL));
    }
    return LH_OK;
}

static lh_status run_shares(lh_bench *b)
{
    lh_status st = LH_OK;
    const int64_t mark = lh_bench_mark(b);
    search s = {0};
    LH_TRY_DONE(make_search(b, &s));
    LH_TRY_DONE(run_search(b, &s));
done:
    lh_bench_drop(b, mark);
    return st;
}

const lh_bench_group lh_bench_shares = {names, run_shares};
