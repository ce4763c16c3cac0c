/* What norms of values are at most, by a quadratic form: a product of values and the matrix, as tiles, of which each
 * row meets its value again. */
#include <float.h>

#include "kernels/cpu/pack.h"
#include "kernels/slots.h"

enum { BOUND_ENTRIES = 256 };

/* Memory of a thread. */
typedef struct lh_bound_space {
    float *matrix;           /* [head_dim, round_up(head_dim, TILE_COLS)], in panels */
    float *packed, *product; /* a block of TILE_ROWS values, packed and times the matrix */
} lh_bound_space;

static int64_t bound_floats(int64_t d)
{
    int64_t cols = round_up(d, TILE_COLS);
    return d * cols + TILE_ROWS * (d + cols);
}

static lh_bound_space bound_space(float *memory, int64_t d)
{
    lh_bound_space s = {.matrix = memory};
    s.packed = s.matrix + d * round_up(d, TILE_COLS);
    s.product = s.packed + TILE_ROWS * d;
    return s;
}

/* The product of n elements of x from `at` on and y. */
VEC_FN float bound_form(const void *x, const lh_dtype type, int64_t at, const float *y, int64_t n)
{
    vf sum = vf_zero();
    for (int64_t i = 0; i < n; i += VL)
        sum = vf_fma(vf_load_any_first(x, type, at + i, n - i), vf_load_first(y + i, n - i), sum);
    return vf_sum(sum);
}

/* Slots [s, s + rows) of head h, rows <= TILE_ROWS. */
static void bound_block(const lh_value_bounds_args *a, int64_t h, int64_t s, int64_t rows, const lh_bound_space *space)
{
    const lh_ragged *kv = a->kv;
    int64_t d = kv->head_dim, cols = round_up(d, TILE_COLS), at = (kv->offset[h] + s) * d;
    lh_rows values = {.src = kv->v,
                      .type = kv->type,
                      .first = at,
                      .outer_ld = d,
                      .inner = 1,
                      .count = rows,
                      .depth = d,
                      .factor = 1.0f};
    lh_tile tile = {.a = space->packed,
                    .b = space->matrix,
                    .c = space->product,
                    .depth = d,
                    .cols = d,
                    .b_next = TILE_COLS * d,
                    .c_ld = cols,
                    .from_zero = 1};
    pack_rows(space->packed, &values, 0);
    tile_strip(&tile, tile_packed, rows, 1);
    for (int64_t r = 0; r < rows; r++, at += d) {
        const float *row = space->product + r * cols;
        float form =
            kv->type == LH_F32 ? bound_form(kv->v, LH_F32, at, row, d) : bound_form(kv->v, LH_BF16, at, row, d);
        int known = form >= LH_LEAST_FORM && form <= FLT_MAX;
        *lh_slot_at(&a->y, h, s + r, 0) = known ? -a->factor * sqrtf(form) : -FLT_MAX;
    }
}

static void bound_range(const lh_value_bounds_args *a, int64_t h, const int64_t range[2], const lh_bound_space *space)
{
    int64_t d = a->kv->head_dim;
    lh_columns columns = {.src = a->matrices, .type = LH_F32, .first = h * d * d, .ld = d, .count = d, .depth = d};
    if (range[0] >= range[1]) return;
    if (a->matrices) pack_columns(space->matrix, &columns);
    for (int64_t s = range[0]; s < range[1] && a->matrices; s += TILE_ROWS)
        bound_block(a, h, s, lh_min_i64(TILE_ROWS, range[1] - s), space);
    for (int64_t s = range[0]; s < range[1] && !a->matrices; s++) *lh_slot_at(&a->y, h, s, 0) = -FLT_MAX;
}

static lh_status op_value_bounds(lh_stream *stream, const lh_value_bounds_args *a)
{
    const lh_ragged *kv = a->kv;
    float *memory = NULL;
    int64_t own = bound_floats(kv->head_dim), blocks = blocks_of(kv, BOUND_ENTRIES), items = kv->heads * blocks;
    LH_TRY(lh_stream_scratch(stream, &memory, omp_get_max_threads() * own * (int64_t)sizeof *memory));
#pragma omp parallel for schedule(dynamic) if (items > 1)
    for (int64_t n = 0; n < items; n++) {
        int64_t h = n / blocks, first = n % blocks * BOUND_ENTRIES, from = lh_slot_of_last(a->kv->len[h], a->last);
        const int64_t range[2] = {first > from ? first : from, lh_min_i64(first + BOUND_ENTRIES, kv->len[h])};
        lh_bound_space space = bound_space(memory + omp_get_thread_num() * own, kv->head_dim);
        bound_range(a, h, range, &space);
    }
    return LH_OK;
}
