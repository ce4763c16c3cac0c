/* Sharing one budget out over the heads of many layers, between the histograms of a search and the selection of every
 * head. */
#include <stdio.h>

#include "bench/bench_impl.h"

static const char *const names[] = {"add_bins", "narrow", "share_out", "split_counts", NULL};

LH_BENCH_CALL(add_bins)
LH_BENCH_CALL(narrow)
LH_BENCH_CALL(share_out)
LH_BENCH_CALL(split_counts)

enum { HEADS = 8, SHEETS = 32, CELLS = HEADS * SHEETS, LEN = 1024, BITS = 11, BINS = 1 << BITS };

/* The heads of a model whose entries all compete, after one round of a search for half of them. */
typedef struct search {
    int32_t *bins, *sums;
    lh_search *found;
    lh_tally *tallies;
    int64_t *counts, *parts; /* [CELLS], [3, CELLS] */
} search;

static lh_status make(lh_bench *b, search *s)
{
    int64_t lens[CELLS], *len;
    float *scores;
    uint8_t *state;
    for (int i = 0; i < CELLS; i++) lens[i] = LEN;
    LH_TRY(lh_bench_put(b, &len, lens, sizeof lens));
    LH_TRY(lh_bench_normals(b, &scores, &(lh_bench_normal){LH_F32, CELLS * LEN, 1.0f}));
    LH_TRY(lh_bench_bytes(b, &state, CELLS * LEN, LH_ENTRY_COMPETES));
    LH_TRY(lh_bench_zeros(b, &s->bins, (int64_t)CELLS * BINS * 4));
    LH_TRY(lh_bench_zeros(b, &s->sums, (BINS + 1) * 4));
    LH_TRY(lh_bench_zeros(b, &s->found, (int64_t)sizeof *s->found));
    LH_TRY(lh_bench_zeros(b, &s->tallies, CELLS * (int64_t)sizeof *s->tallies));
    LH_TRY(lh_bench_zeros(b, &s->counts, CELLS * 8));
    LH_TRY(lh_bench_zeros(b, &s->parts, 3 * CELLS * 8));
    LH_TRY(b->ops->histogram(b->stream, &(lh_histogram_args){.bins = s->bins,
                                                             .scores = scores,
                                                             .state = state,
                                                             .len = len,
                                                             .heads = CELLS,
                                                             .ld = LEN,
                                                             .bins_ld = BINS,
                                                             .bits = BITS}));
    return LH_OK;
}

/* In the order of a search: each finds what the one before has left. */
static lh_status run_search(lh_bench *b, const search *s)
{
    const lh_grant grant = {.floor = LEN / 10};
    const lh_fraction half = {1, 2};
    lh_add_bins_args add = {
        .sums = s->sums, .bins = s->bins, .grant = grant, .heads = HEADS, .sheets = SHEETS, .bits = BITS};
    lh_narrow_args narrow = {.to = s->found,
                             .tallies = s->tallies,
                             .bins = s->bins,
                             .sums = s->sums,
                             .heads = HEADS,
                             .sheets = SHEETS,
                             .most = CELLS * LEN / 2,
                             .bits = BITS};
    lh_share_out_args share = {.counts = s->counts,
                               .tallies = s->tallies,
                               .search = s->found,
                               .grant = grant,
                               .share = half,
                               .heads = HEADS,
                               .sheets = SHEETS,
                               .most = CELLS * LEN / 2};
    lh_split_counts_args split = {
        .first = s->parts, .rest = s->parts + CELLS, .counts = s->counts, .stage = {.share = half}, .heads = CELLS};
    const double bins = 4.0 * CELLS * BINS, sums = 4.0 * (BINS + 1), tallies = CELLS * (double)sizeof(lh_tally);
    lh_bench_case cases[] = {
        {.name = "add_bins", .call = call_add_bins, .bytes = bins + sums, .args = &add},
        {.name = "narrow", .call = call_narrow, .bytes = bins + sums + tallies, .args = &narrow},
        {.name = "share_out", .call = call_share_out, .bytes = tallies + 8.0 * CELLS, .args = &share},
        {.name = "split_counts", .call = call_split_counts, .bytes = 24.0 * CELLS, .args = &split}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(cases[i].shape, sizeof cases[i].shape, "%d layers of %d heads%s", SHEETS, HEADS,
                 i < 2 ? ", 2048 bins" : "");
        LH_TRY(cases[i].call(b, cases[i].args, 0)); /* also where the words do not choose it */
        LH_TRY(lh_bench_run(b, &cases[i], NULL));
    }
    return LH_OK;
}

static lh_status run(lh_bench *b)
{
    lh_status st = LH_OK;
    const int64_t mark = lh_bench_mark(b);
    search s = {0};
    LH_TRY_DONE(make(b, &s));
    LH_TRY_DONE(run_search(b, &s));
done:
    lh_bench_drop(b, mark);
    return st;
}

const lh_bench_group lh_bench_shares = {names, run};
