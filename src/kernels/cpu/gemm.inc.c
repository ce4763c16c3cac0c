/* Matrix products: few rows stream the weights once; in fixed order the tile; everything else is a library's. */
#include "kernels/cpu/tile.h"

/* y[t, o] for the rows of a packed block of x. */
enum { ORDERED_DEPTH = 256, ORDERED_PANELS = 2, FEW_TOKENS = 8 };

typedef struct lh_ordered {
    const lh_gemm_args *args;
    const float *x; /* packed: [blocks][in][TILE_ROWS] */
    float *w;       /* of this thread: ORDERED_PANELS panels of ORDERED_DEPTH */
    float *y;       /* of this thread: a tile whose columns end early */
} lh_ordered;

/* Output columns [o, o + n), n <= TILE_COLS, of one block of rows over depth [i, i + depth). */
static void ordered_tile(const lh_ordered *g, int64_t block, const float *w, int64_t o, int64_t i)
{
    const lh_gemm_args *a = g->args;
    int64_t first = block * TILE_ROWS, rows = a->tokens - first < TILE_ROWS ? a->tokens - first : TILE_ROWS;
    int64_t n = a->out - o < TILE_COLS ? a->out - o : TILE_COLS,
            depth = a->in - i < ORDERED_DEPTH ? a->in - i : ORDERED_DEPTH;
    float *y = a->y + first * a->y_ld + o;
    lh_tile tile = {.a = g->x + (block * a->in + i) * TILE_ROWS,
                    .b = w,
                    .c = y,
                    .depth = depth,
                    .b_ld = TILE_COLS,
                    .c_ld = a->y_ld,
                    .from_zero = i == 0};
    lh_strip strip = {.family = tile_ordered, .a_row = 1, .rows = rows, .cols = TILE_COLS};
    if (n < TILE_COLS) {
        tile.c = g->y;
        tile.c_ld = TILE_COLS;
        for (int64_t r = 0; r < rows && i > 0; r++)
            memcpy(g->y + r * TILE_COLS, y + r * a->y_ld, (size_t)n * sizeof *y);
    }
    tile_strip(&tile, &strip);
    for (int64_t r = 0; r < rows && n < TILE_COLS; r++)
        memcpy(y + r * a->y_ld, g->y + r * TILE_COLS, (size_t)n * sizeof *y);
    for (int64_t r = 0; r < rows && a->bias && i + depth == a->in; r++) {
        for (int64_t c = 0; c < n; c++) y[r * a->y_ld + c] += a->bias[o + c];
    }
}

/* Output columns [o, o + ORDERED_PANELS * TILE_COLS), all rows. */
static void ordered_columns(const lh_ordered *g, int64_t o)
{
    const lh_gemm_args *a = g->args;
    int64_t count = a->out - o < ORDERED_PANELS * TILE_COLS ? a->out - o : ORDERED_PANELS * TILE_COLS;
    for (int64_t i = 0; i < a->in; i += ORDERED_DEPTH) {
        int64_t depth = a->in - i < ORDERED_DEPTH ? a->in - i : ORDERED_DEPTH;
        lh_columns columns = {
            .src = a->w, .type = a->type, .first = o * a->w_ld + i, .ld = a->w_ld, .count = count, .depth = depth};
        pack_columns(g->w, &columns);
        for (int64_t block = 0; block * TILE_ROWS < a->tokens; block++) {
            for (int64_t c = 0; c < count; c += TILE_COLS) ordered_tile(g, block, g->w + c * depth, o + c, i);
        }
    }
}

static lh_status gemm_ordered(lh_stream *stream, const lh_gemm_args *a)
{
    lh_status st = LH_OK;
    float *x = NULL;
    int64_t blocks = (a->tokens + TILE_ROWS - 1) / TILE_ROWS, step = ORDERED_PANELS * TILE_COLS;
    int64_t packed = blocks * TILE_ROWS * a->in, own = (step * ORDERED_DEPTH + TILE_ROWS * TILE_COLS);
    lh_rows rows = {.src = a->x,
                    .type = a->type,
                    .outer_ld = a->x_ld,
                    .inner = 1,
                    .count = a->tokens,
                    .depth = a->in,
                    .factor = 1.0f};
    LH_TRY(lh_stream_scratch(stream, &x, (packed + omp_get_max_threads() * own) * (int64_t)sizeof *x));
#pragma omp parallel if (a->tokens * a->in * a->out >= PARALLEL_FROM)
    {
        float *mine = x + packed + omp_get_thread_num() * own;
        lh_ordered g = {.args = a, .x = x, .w = mine, .y = mine + step * ORDERED_DEPTH};
#pragma omp for
        for (int64_t b = 0; b < blocks; b++) pack_rows(x + b * TILE_ROWS * a->in, &rows, b);
#pragma omp for schedule(dynamic)
        for (int64_t o = 0; o < a->out; o += step) ordered_columns(&g, o);
    }
done:
    return st;
}

/* x in f32, [tokens, in]. */
static void few_column(const lh_gemm_args *a, const float *x, int64_t o)
{
    for (int64_t t = 0; t < a->tokens; t++) {
        vf sum = vf_zero();
        for (int64_t i = 0; i < a->in; i += VL)
            sum = vf_fma(vf_load_any_first(a->w, a->type, o * a->w_ld + i, a->in - i),
                         vf_load_first(x + t * a->in + i, a->in - i), sum);
        a->y[t * a->y_ld + o] = vf_sum(sum) + (a->bias ? a->bias[o] : 0.0f);
    }
}

static lh_status gemm_few(lh_stream *stream, const lh_gemm_args *a)
{
    lh_status st = LH_OK;
    float *x = NULL;
    LH_TRY(lh_stream_scratch(stream, &x, a->tokens * a->in * (int64_t)sizeof *x));
    for (int64_t t = 0; t < a->tokens; t++) {
        for (int64_t i = 0; i < a->in; i += VL)
            vf_store_first(x + t * a->in + i, vf_load_any_first(a->x, a->type, t * a->x_ld + i, a->in - i), a->in - i);
    }
#pragma omp parallel for if (a->out * a->in >= PARALLEL_FROM)
    for (int64_t o = 0; o < a->out; o++) few_column(a, x, o);
done:
    return st;
}

/* What a product over nothing leaves. */
static void fill_bias(const lh_gemm_args *a)
{
    for (int64_t t = 0; t < a->tokens; t++) {
        for (int64_t o = 0; o < a->out; o++) a->y[t * a->y_ld + o] = a->bias ? a->bias[o] : 0.0f;
    }
}

static lh_status op_gemm(lh_stream *stream, const lh_gemm_args *a)
{
    if (a->tokens == 0 || a->out == 0) return LH_OK;
    if (a->in == 0) {
        fill_bias(a);
        return LH_OK;
    }
    if (a->order == LH_ORDER_FIXED) return gemm_ordered(stream, a);
    return a->tokens <= FEW_TOKENS ? gemm_few(stream, a) : lh_cpu_gemm_library_run(stream, a);
}
