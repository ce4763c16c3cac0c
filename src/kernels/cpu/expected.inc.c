/* Expected attention. Moments: a head is an item of work. Scores: blocks of entries of a query head, four entries at a
 * time against each row of its covariance. */
#include "kernels/cpu/inner.h"

enum { MOMENT_ROWS = 128, MOMENT_AT_ONCE = 4, EXPECTED_ENTRIES = 256, EXPECTED_AT_ONCE = 4 };

/* Products of head i from `count` rows, `ld` floats apart and zero behind the head: from MOMENT_AT_ONCE elements x on
 * by as many vectors from y on. */
VEC_FN void add_products(const lh_row_moments_args *a, int64_t i, const float *rows, int64_t count, const int64_t at[3])
{
    int64_t d = a->dim, x = at[0], y = at[1], ld = at[2];
    vf sums[MOMENT_AT_ONCE][MOMENT_AT_ONCE];
    float lanes[VL];
#pragma GCC unroll 4
    for (int m = 0; m < MOMENT_AT_ONCE; m++)
#pragma GCC unroll 4
        for (int n = 0; n < MOMENT_AT_ONCE; n++) sums[m][n] = vf_zero();
    for (int64_t r = 0; r < count; r++) {
        const float *row = rows + r * ld;
        vf v[MOMENT_AT_ONCE];
#pragma GCC unroll 4
        for (int n = 0; n < MOMENT_AT_ONCE; n++) v[n] = vf_load(row + y + n * VL);
#pragma GCC unroll 4
        for (int m = 0; m < MOMENT_AT_ONCE; m++)
#pragma GCC unroll 4
            for (int n = 0; n < MOMENT_AT_ONCE; n++) sums[m][n] = vf_fma(vf_set1(row[x + m]), v[n], sums[m][n]);
    }
    for (int64_t m = 0; m < lh_min_i64(MOMENT_AT_ONCE, d - x); m++)
        for (int64_t n = 0; n < lh_min_i64(MOMENT_AT_ONCE * VL, d - y); n++) {
            if (n % VL == 0) vf_store(lanes, sums[m][n / VL]);
            a->products[(i * d + x + m) * d + y + n] += lanes[n % VL];
        }
}

VEC_FN void widen_rows(const lh_row_moments_args *a, int64_t at, float *rows, const int64_t shape[2],
                       const lh_dtype type)
{
    for (int64_t r = 0; r < shape[0]; r++)
        for (int64_t n = 0; n < a->dim; n += VL)
            vf_store(rows + r * shape[1] + n, vf_load_any_first(a->x, type, at + r * a->x_ld + n, a->dim - n));
}

/* Head i. rows: [MOMENT_ROWS, ld] floats of this thread. */
static void add_moments(const lh_row_moments_args *a, int64_t i, float *rows, int64_t ld)
{
    int64_t d = a->dim;
    memset(rows, 0, (size_t)(MOMENT_ROWS * ld) * sizeof *rows);
    for (int64_t from = 0; from < a->rows; from += MOMENT_ROWS) {
        int64_t count = lh_min_i64(MOMENT_ROWS, a->rows - from), at = from * a->x_ld + i * d;
        const int64_t shape[2] = {count, ld};
        if (a->type == LH_F32) widen_rows(a, at, rows, shape, LH_F32);
        if (a->type == LH_BF16) widen_rows(a, at, rows, shape, LH_BF16);
        for (int64_t x = 0; x < d && a->sums; x++) {
            double sum = 0.0;
            for (int64_t r = 0; r < count; r++) sum += rows[r * ld + x];
            a->sums[i * d + x] += sum;
        }
        for (int64_t x = 0; x < d; x += MOMENT_AT_ONCE)
            for (int64_t y = 0; y < d; y += MOMENT_AT_ONCE * VL)
                add_products(a, i, rows, count, (const int64_t[]){x, y, ld});
    }
}

static lh_status op_row_moments(lh_stream *stream, const lh_row_moments_args *a)
{
    float *memory = NULL;
    int64_t ld = round_up(a->dim, MOMENT_AT_ONCE * VL), own = MOMENT_ROWS * ld;
    LH_TRY(lh_stream_scratch(stream, &memory, omp_get_max_threads() * own * (int64_t)sizeof *memory));
#pragma omp parallel for schedule(dynamic) if (a->heads > 1 && a->rows * a->dim > 64)
    for (int64_t i = 0; i < a->heads; i++) add_moments(a, i, memory + omp_get_thread_num() * own, ld);
    return LH_OK;
}

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
        memcpy(a->y + i * a->ld + s, out, (size_t)n * sizeof *out);
    }
}

/* Softmax over the competing entries, in place. */
static void normalise_expected(const lh_expected_scores_args *a, int64_t i)
{
    int64_t h = (a->map.first + i) / a->map.group, len = a->kv->len[h];
    const uint8_t *state = a->state + h * a->ld;
    float *y = a->y + i * a->ld, top = -INFINITY;
    double mass = 0.0;
    for (int64_t s = 0; s < len; s++)
        if (state[s] == LH_ENTRY_COMPETES && !(y[s] <= top)) top = y[s];
    for (int64_t s = 0; s < len; s++) {
        y[s] = state[s] == LH_ENTRY_COMPETES ? expf(y[s] - top) : 0.0f;
        mass += y[s];
    }
    for (int64_t s = 0; s < len; s++) y[s] = state[s] == LH_ENTRY_COMPETES ? (float)(y[s] / mass) : 0.0f;
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
