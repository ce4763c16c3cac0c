/* Penalties of logits, sums of probabilities, and the largest logits of a row. */
#include "kernels/cpu/common.h"

static lh_status op_penalise(lh_stream *stream, const lh_penalise_args *a)
{
    (void)stream;
    memcpy(a->y, a->x, (size_t)a->count * sizeof *a->y);
    for (int64_t i = 0; a->bias && i < a->count; i++) a->y[i] += a->bias[i];
    for (int64_t first = 0; first < a->count; first += 32) {
        int64_t end = lh_min_i64(a->count, first + 32);
        if (a->seen[first / 32] == 0) continue;
        for (int64_t i = first; i < end; i++)
            if (a->seen[first / 32] >> (i - first) & 1) a->y[i] = lh_penalised(a->y[i], a->penalty);
    }
    for (int64_t i = 0; a->minus && i < a->count; i++) a->y[i] -= a->minus[i];
    return LH_OK;
}

/* The compiler vectorises a loop over lh_probability. */
enum { PROBABILITY_BLOCK = 4096 };

static lh_status op_sum_probabilities(lh_stream *stream, const lh_sum_probabilities_args *a)
{
    const lh_probabilities by = a->by;
    int64_t sum = 0;
    (void)stream;
#pragma omp parallel for reduction(+ : sum) if (a->count >= PARALLEL_FROM)
    for (int64_t first = 0; first < a->count; first += PROBABILITY_BLOCK) {
        int64_t end = lh_min_i64(a->count, first + PROBABILITY_BLOCK), part = 0;
        for (int64_t i = first; i < end; i++) part += lh_probability(&by, a->x[i]);
        sum += part;
    }
    *a->sum = sum;
    return LH_OK;
}

/* ---- the largest logits: the k-th largest of the block maxima bounds the k-th largest element from below, so that
 * only the few elements at or above it are sorted ---- */
typedef struct lh_candidate {
    uint32_t key; /* larger is better */
    int32_t index;
} lh_candidate;

enum { TOP_BLOCK = 64 };

/* Sorts by key descending, stable. The result is in `c`; `spare` has the same length. */
static void sort_candidates(lh_candidate *c, lh_candidate *spare, int64_t n)
{
    for (int shift = 0; shift < 32; shift += 8) {
        int64_t start[257] = {0};
        for (int64_t i = 0; i < n; i++) start[(~c[i].key >> shift & 255) + 1]++;
        for (int b = 0; b < 256; b++) start[b + 1] += start[b];
        for (int64_t i = 0; i < n; i++) spare[start[~c[i].key >> shift & 255]++] = c[i];
        lh_candidate *full = spare;
        spare = c;
        c = full;
    }
}

static uint32_t block_key(const float *x, int64_t n)
{
    vf top = vf_set1(-INFINITY);
    float whole;
    int64_t i = 0;
    for (; i + VL <= n; i += VL) top = vf_max(vf_load(x + i), top); /* in this order NaN is ignored */
    whole = vf_top(top);
    for (; i < n; i++) whole = x[i] > whole ? x[i] : whole;
    /* A block of only NaN and -inf gives no bound. */
    return whole == -INFINITY ? 0 : lh_score_key(whole);
}

/* blocks, c, spare: workspace for the blocks and for all columns. */
static void top_row(const lh_top_logits_args *a, int64_t r, uint32_t *blocks, lh_candidate *c, lh_candidate *spare)
{
    const float *x = a->x + r * a->ld;
    int64_t count = (a->cols + TOP_BLOCK - 1) / TOP_BLOCK, n = 0;
    uint32_t bound = 0;
#pragma omp parallel for if (a->cols >= PARALLEL_FROM)
    for (int64_t b = 0; b < count; b++) {
        int64_t first = b * TOP_BLOCK;
        blocks[b] = block_key(x + first, a->cols - first < TOP_BLOCK ? a->cols - first : TOP_BLOCK);
    }
    if (count >= a->k) {
        for (int64_t b = 0; b < count; b++) c[b] = (lh_candidate){blocks[b], (int32_t)b};
        sort_candidates(c, spare, count);
        bound = c[a->k - 1].key;
    }
    for (int64_t b = 0; b < count; b++) {
        int64_t first = b * TOP_BLOCK, end = first + TOP_BLOCK < a->cols ? first + TOP_BLOCK : a->cols;
        if (blocks[b] < bound) continue;
        for (int64_t i = first; i < end; i++) {
            uint32_t key = lh_score_key(x[i]);
            if (key >= bound) c[n++] = (lh_candidate){key, (int32_t)i};
        }
    }
    sort_candidates(c, spare, n);
    for (int64_t i = 0; i < a->k; i++) {
        a->values[r * a->k + i] = x[c[i].index];
        a->indices[r * a->k + i] = c[i].index;
    }
}

static lh_status op_top_logits(lh_stream *stream, const lh_top_logits_args *a)
{
    int64_t room = a->cols + 1;
    lh_candidate *c = NULL;
    if (a->rows == 0 || a->k == 0) return LH_OK;
    assert(a->k <= a->cols && a->k <= LH_BEST_MAX);
    LH_TRY(lh_stream_scratch(stream, &c, room * (int64_t)(2 * sizeof *c + sizeof(uint32_t))));
    for (int64_t r = 0; r < a->rows; r++) top_row(a, r, (uint32_t *)(c + 2 * room), c, c + room);
    return LH_OK;
}
