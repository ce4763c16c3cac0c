/* Expected attention: blocks of entries of a query head, four entries at a time against each row of its covariance. */
#include "kernels/cpu/common.h"

enum { EXPECTED_ENTRIES = 256, EXPECTED_AT_ONCE = 4 };

/* Logits of EXPECTED_AT_ONCE entries; keys: [EXPECTED_AT_ONCE, d]. */
VEC_FN void expect(const lh_expected_scores_args *a, int64_t i, const float *keys, float *out)
{
    int64_t d = a->kv->head_dim;
    const float *mean = a->means + i * d, *covariance = a->covariances + i * d * d;
    vf sums[EXPECTED_AT_ONCE];
    for (int e = 0; e < EXPECTED_AT_ONCE; e++) sums[e] = vf_zero();
    for (int64_t y = 0; y < d; y += VL) {
        vf rows[EXPECTED_AT_ONCE], m = vf_set1(a->scale) * vf_load_first(mean + y, d - y);
        for (int e = 0; e < EXPECTED_AT_ONCE; e++) rows[e] = vf_zero();
        for (int64_t x = 0; x < d; x++) {
            vf c = vf_load_first(covariance + x * d + y, d - y);
            for (int e = 0; e < EXPECTED_AT_ONCE; e++) rows[e] = vf_fma(vf_set1(keys[e * d + x]), c, rows[e]);
        }
        for (int e = 0; e < EXPECTED_AT_ONCE; e++) {
            vf half = vf_set1(0.5f * a->scale * a->scale);
            sums[e] = vf_fma(vf_fma(half, rows[e], m), vf_load_first(keys + e * d + y, d - y), sums[e]);
        }
    }
    for (int e = 0; e < EXPECTED_AT_ONCE; e++) out[e] = vf_sum(sums[e]);
}

/* Logits of the slots [first, end) of query head i. keys: [EXPECTED_AT_ONCE, d] floats of this thread. */
static void expect_range(const lh_expected_scores_args *a, int64_t i, const int64_t range[2], float *keys)
{
    const lh_ragged *kv = a->kv;
    int64_t d = kv->head_dim, h = (a->map.first + i) / a->map.group;
    for (int64_t s = range[0]; s < range[1]; s += EXPECTED_AT_ONCE) {
        int64_t n = lh_min_i64(EXPECTED_AT_ONCE, range[1] - s);
        float out[EXPECTED_AT_ONCE];
        memset(keys, 0, (size_t)(EXPECTED_AT_ONCE * d) * sizeof *keys);
        lh_dtype_convert(keys, LH_F32, (const char *)kv->k + (kv->offset[h] + s) * d * lh_dtype_bytes(kv->type),
                         kv->type, n * d);
        expect(a, i, keys, out);
        for (int64_t e = 0; e < n && kv->bias; e++) out[e] += kv->bias[kv->offset[h] + s + e];
        memcpy(a->y + i * a->ld + s, out, (size_t)n * sizeof *out);
    }
}

/* Softmax over the competing entries, in place. */
static void normalise_expected(const lh_expected_scores_args *a, int64_t i)
{
    int64_t h = (a->map.first + i) / a->map.group, len = a->kv->len[h];
    const uint8_t *state = a->state + h * a->ld;
    float *y = a->y + i * a->ld, row_max = -INFINITY;
    double denominator = 0.0;
    for (int64_t s = 0; s < len; s++)
        if (state[s] == LH_ENTRY_COMPETES && !(y[s] <= row_max)) row_max = y[s];
    for (int64_t s = 0; s < len; s++) {
        y[s] = state[s] == LH_ENTRY_COMPETES ? expf(y[s] - row_max) : 0.0f;
        denominator += y[s];
    }
    for (int64_t s = 0; s < len; s++) y[s] = state[s] == LH_ENTRY_COMPETES ? (float)(y[s] / denominator) : 0.0f;
}

static lh_status op_expected_scores(lh_stream *stream, const lh_expected_scores_args *a)
{
    int64_t d = a->kv->head_dim, keys = EXPECTED_AT_ONCE * d;
    float *memory = NULL;
    int64_t blocks = blocks_of(a->kv, EXPECTED_ENTRIES), items = a->map.heads * blocks;
    if (items == 0) return LH_OK;
    LH_TRY(lh_stream_scratch(stream, &memory, omp_get_max_threads() * keys * (int64_t)sizeof *memory));
#pragma omp parallel if (items > 1)
    {
#pragma omp for schedule(dynamic)
        for (int64_t n = 0; n < items; n++) {
            int64_t i = n / blocks, first = n % blocks * EXPECTED_ENTRIES;
            int64_t len = a->kv->len[(a->map.first + i) / a->map.group];
            const int64_t range[2] = {first, lh_min_i64(first + EXPECTED_ENTRIES, len)};
            expect_range(a, i, range, memory + omp_get_thread_num() * keys);
        }
#pragma omp for
        for (int64_t i = 0; i < a->map.heads; i++) normalise_expected(a, i);
    }
    return LH_OK;
}
