/* Sums of rows and of their outer products: a head is an item of work. */
#include "kernels/cpu/common.h"

enum { MOMENT_ROWS = 128, MOMENT_AT_ONCE = 4 };

/* Products of head i from `count` rows, `ld` floats apart and zero after the head: from MOMENT_AT_ONCE elements x on
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
