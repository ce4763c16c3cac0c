/* Selection by the order-preserving integer image of scores. */
#include "kernels/cpu/inner.h"

/* Entries of a head are shared out in blocks. */
enum { SLOTS = 1 << 14 };

static lh_status op_histogram(lh_stream *stream, const lh_histogram_args *a)
{
    lh_status st = LH_OK;
    uint32_t *parts = NULL;
    int64_t bins = (int64_t)1 << a->bits, threads = omp_get_max_threads();
    int shift = 32 - a->prefix_bits - a->bits;
    assert(a->bits > 0 && shift >= 0);
    LH_TRY(lh_stream_scratch(stream, &parts, threads * bins * (int64_t)sizeof *parts));
    memset(parts, 0, (size_t)(threads * bins) * sizeof *parts);
#pragma omp parallel if (a->heads * a->ld >= PARALLEL_FROM)
    {
        uint32_t *mine = parts + omp_get_thread_num() * bins;
#pragma omp for collapse(2) schedule(dynamic)
        for (int64_t h = 0; h < a->heads; h++) {
            for (int64_t first = 0; first < a->ld; first += SLOTS) {
                int64_t end = first + SLOTS < a->len[h] ? first + SLOTS : a->len[h];
                const float *scores = a->scores + h * a->ld;
                const uint8_t *state = a->state + h * a->ld;
                for (int64_t s = first; s < end; s++) {
                    uint64_t key = lh_score_key(scores[s]);
                    if (state[s] == LH_ENTRY_COMPETES && key >> (32 - a->prefix_bits) == a->prefix)
                        mine[(int64_t)(key >> shift) & (bins - 1)]++;
                }
            }
        }
    }
    for (int64_t b = 0; b < bins; b++) {
        a->bins[b] = 0;
        for (int64_t r = 0; r < threads; r++) a->bins[b] += parts[r * bins + b];
    }
done:
    return st;
}

static lh_status op_count_at(lh_stream *stream, const lh_count_at_args *a)
{
    (void)stream;
#pragma omp parallel for if (a->heads * a->ld >= PARALLEL_FROM)
    for (int64_t h = 0; h < a->heads; h++) {
        const float *scores = a->scores + h * a->ld;
        const uint8_t *state = a->state + h * a->ld;
        int64_t above = 0, at = 0;
        for (int64_t s = 0; s < a->len[h]; s++) {
            uint32_t key = lh_score_key(scores[s]);
            above += state[s] == LH_ENTRY_COMPETES && key > a->threshold;
            at += state[s] == LH_ENTRY_COMPETES && key == a->threshold;
        }
        a->above[h] = above;
        a->at[h] = at;
    }
    return LH_OK;
}

/* What a radix selection looks at: the key of slot s, or -1 where the slot does
 * not take part. */
typedef struct lh_keys {
    const lh_select_top_args *args;
    int64_t head, tie; /* tie < 0: keys of scores; else: of positions among the
                          entries whose score key is `tie` */
} lh_keys;

/* Lower positions have higher keys. */
VEC_FN int64_t key_of(const lh_keys *keys, int64_t s)
{
    const lh_select_top_args *a = keys->args;
    int64_t at = keys->head * a->ld + s;
    if (a->state[at] != LH_ENTRY_COMPETES) return -1;
    int64_t key = lh_score_key(a->scores[at]);
    if (keys->tie < 0) return key;
    return key == keys->tie ? (int64_t)UINT32_MAX - entry_position(a->kv, keys->head, s) : -1;
}

/* The count-th largest key in 11 + 11 + 10 bits, and in *above how many are
 * larger. count is at least 1 and at most the number of keys. */
static int64_t find_key(const lh_keys *keys, int64_t count, int64_t *above)
{
    int64_t len = keys->args->kv->len[keys->head], prefix = 0;
    *above = 0;
    for (int round = 0; round < 3; round++) {
        int bits = round < 2 ? 11 : 10, shift = round == 0 ? 21 : round == 1 ? 10 : 0;
        int64_t bins[2048] = {0}, b = ((int64_t)1 << bits) - 1;
        for (int64_t s = 0; s < len; s++) {
            int64_t key = key_of(keys, s);
            if (key >= 0 && key >> (shift + bits) == prefix) bins[(key >> shift) & b]++;
        }
        for (; *above + bins[b] < count; b--) *above += bins[b];
        prefix = prefix << bits | b;
    }
    return prefix;
}

static void select_head(const lh_select_top_args *a, int64_t h)
{
    lh_keys keys = {.args = a, .head = h, .tie = -1};
    uint8_t *state = a->state + h * a->ld;
    int64_t len = a->kv->len[h], held = 0, at = 0, count = a->counts[h], above = 0, places;
    int64_t score = INT64_MAX, place = INT64_MAX; /* entries at `score` need a key of at least `place` */
    for (int64_t s = 0; s < len; s++) held += state[s] == LH_ENTRY_COMPETES;
    count = count < held ? count : held;
    if (count > 0) {
        score = find_key(&keys, count, &above);
        for (int64_t s = 0; s < len; s++) at += key_of(&keys, s) == score;
        keys.tie = score;
        place = above + at == count ? 0 : find_key(&keys, count - above, &places);
        keys.tie = -1;
    }
    for (int64_t s = 0; s < len; s++) {
        if (state[s] != LH_ENTRY_COMPETES) continue;
        int64_t key = key_of(&keys, s);
        int keep = key > score || (key == score && (int64_t)UINT32_MAX - entry_position(a->kv, h, s) >= place);
        state[s] = (uint8_t)(keep ? LH_ENTRY_KEEP : a->others);
    }
}

static lh_status op_select_top(lh_stream *stream, const lh_select_top_args *a)
{
    (void)stream;
#pragma omp parallel for schedule(dynamic) if (a->kv->heads * a->ld >= PARALLEL_FROM)
    for (int64_t h = 0; h < a->kv->heads; h++) select_head(a, h);
    return LH_OK;
}
