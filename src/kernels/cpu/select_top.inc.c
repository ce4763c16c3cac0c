/* Selection by the order-preserving integer image of scores. */
#include "kernels/cpu/common.h"
#include "kernels/score_rows.h"

/* ---- the best of each head ---- */

/* Keys of the `len` slots of a row: 0 for what does not compete, and 1, which no number has, for NaN. Returns how many
 * compete. */
static int64_t list_keys(const lh_select_top_args *a, int64_t row, int64_t len, uint32_t *keys)
{
    const float *scores = lh_row_scores(a, row);
    const uint8_t *state = a->state + row * a->ld;
    int64_t held = 0;
    for (int64_t s = 0; s < len; s++) {
        uint32_t key = lh_score_key(scores[s]);
        key = key ? key : 1;
        keys[s] = state[s] == LH_ENTRY_COMPETES ? key : 0;
        held += state[s] == LH_ENTRY_COMPETES;
    }
    return held;
}

static int64_t count_from(const uint32_t *keys, int64_t n, uint32_t threshold)
{
    int64_t count = 0;
    for (int64_t s = 0; s < n; s++) count += keys[s] >= threshold;
    return count;
}

/* A threshold that exactly `count` keys reach, or the count-th largest key where others are equal to it. There are more
 * than `count` keys that are not 0, and count is at least 1. *reach: keys that reach the threshold. */
static uint32_t find_threshold(const uint32_t *keys, int64_t n, int64_t count, int64_t *reach)
{
    uint32_t low = UINT32_MAX, high = 0, trial;
    for (int64_t s = 0; s < n; s++) {
        low = keys[s] - 1 < low ? keys[s] - 1 : low;
        high = keys[s] > high ? keys[s] : high;
    }
    low++; /* 0 - 1 is larger than any */
    *reach = count + 1;
    /* all but the lowest come first: that is what an eviction at every step asks for */
    for (trial = low + 1; low < high; trial = low + (high - low + 1) / 2) {
        int64_t n_trial = count_from(keys, n, trial);
        if (n_trial >= count) {
            low = trial;
            *reach = n_trial;
        } else {
            high = trial - 1;
        }
        if (n_trial == count) break;
    }
    return low;
}

/* Keys above the threshold go to the top, those at it become keys of their positions below, the lowest position first;
 * those below it stay the least. */
static void break_ties(const lh_ragged *kv, int64_t h, uint32_t *keys, uint32_t threshold)
{
    for (int64_t s = 0; s < kv->len[h]; s++) {
        if (keys[s] == 0) continue;
        uint32_t place = UINT32_MAX - 1 - (uint32_t)lh_position(kv, h, s);
        keys[s] = keys[s] > threshold ? UINT32_MAX : keys[s] == threshold ? place : 1;
    }
}

static void select_row(const lh_select_top_args *a, int64_t row, uint32_t *keys)
{
    int64_t h, reach, count = lh_row_count(a, row);
    const lh_ragged *kv = lh_cache_of_row(a->kv, row, &h);
    const int64_t len = kv->len[h], held = list_keys(a, row, len, keys);
    uint8_t *state = a->state + row * a->ld, others = (uint8_t)a->others;
    uint32_t threshold = count > 0 ? 1 : UINT32_MAX; /* all of them, or none: no key of a score is so large */
    if (count > 0 && count < held) {
        threshold = find_threshold(keys, len, count, &reach);
        if (reach > count) {
            break_ties(kv, h, keys, threshold);
            threshold = find_threshold(keys, len, count, &reach);
        }
    }
    for (int64_t s = 0; s < len; s++) {
        uint8_t chosen = keys[s] >= threshold ? LH_ENTRY_KEEP : others;
        state[s] = keys[s] ? chosen : state[s];
    }
}

static lh_status op_select_top(lh_stream *stream, const lh_select_top_args *a)
{
    const int64_t rows = a->batch * a->kv->heads;
    uint32_t *keys = NULL;
    LH_TRY(lh_stream_scratch(stream, &keys, omp_get_max_threads() * a->ld * (int64_t)sizeof *keys));
    FOR_EACH(r, rows, rows * a->ld >= PARALLEL_FROM, select_row(a, r, keys + omp_get_thread_num() * a->ld));
    return LH_OK;
}
