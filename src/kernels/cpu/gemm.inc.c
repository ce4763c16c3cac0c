/* Matrix products: few tokens stream the weights once; more go by tiles, or by oneDNN where the processor multiplies
 * bf16. Measured on Zen 4, 512 tokens, one core: tiles 0.90 of the multiply-add rate in f32 (OpenBLAS 0.3.21: 0.88) and
 * with weights widened from bf16 while they are packed; oneDNN 1.9 times the rate with bf16 pairs (own tiles: 1.7). */
#include "kernels/cpu/gemm_few.inc.c"
#include "kernels/cpu/pack.h"

/* ---- by tiles: each output one chain of multiply-adds, which in fixed order are fused on every processor ---- */

/* TILED_TOKENS tokens are packed at a time; a thread takes up to TILED_PANELS panels of weights, fewer where that would
 * not leave every thread TILED_ITEMS turns. */
enum { TILED_DEPTH = 384, TILED_PANELS = 4, TILED_TOKENS = 512, TILED_ITEMS = 8 };

typedef struct lh_tiled {
    const lh_gemm_args *args;
    const float *x; /* packed: [blocks][in][TILE_ROWS] */
    float *w;       /* of this thread: TILED_PANELS panels of TILED_DEPTH */
    float *y;       /* of this thread: a panel whose columns end early */
} lh_tiled;

/* Adds depth [i, i + TILED_DEPTH) of the panels g->w to output columns [o, o + count), a block of rows at a time. Whole
 * panels go straight to y, the rest of the last one by way of g->y. */
static void tiled_block(const lh_tiled *g, int64_t block, int64_t o, int64_t count, int64_t i)
{
    const lh_gemm_args *a = g->args;
    const lh_tile_fn *family = a->order == LH_ORDER_FIXED ? tile_ordered : tile_packed;
    int64_t first = block * TILE_ROWS, rows = lh_min_i64(a->tokens - first, TILE_ROWS),
            depth = lh_min_i64(a->in - i, TILED_DEPTH);
    int64_t rest = count % TILE_COLS, whole = count - rest;
    float *y = a->y + first * a->y_ld + o, *end = y + whole;
    lh_tile tile = {.a = g->x + (block * a->in + i) * TILE_ROWS,
                    .b = g->w,
                    .c = y,
                    .depth = depth,
                    .cols = whole,
                    .b_next = TILE_COLS * depth,
                    .c_ld = a->y_ld,
                    .from_zero = i == 0 && !a->adds};
    if (whole) tile_strip(&tile, family, rows, 1);
    if (rest) {
        tile.b += whole * depth;
        tile.c = g->y;
        tile.c_ld = tile.cols = TILE_COLS;
        for (int64_t r = 0; r < rows && !tile.from_zero; r++)
            memcpy(g->y + r * TILE_COLS, end + r * a->y_ld, (size_t)rest * sizeof *y);
        tile_strip(&tile, family, rows, 1);
        for (int64_t r = 0; r < rows; r++) memcpy(end + r * a->y_ld, g->y + r * TILE_COLS, (size_t)rest * sizeof *y);
    }
    for (int64_t r = 0; r < rows && a->bias && i + depth == a->in; r++) {
        for (int64_t c = 0; c < count; c++) y[r * a->y_ld + c] += a->bias[o + c];
    }
}

/* Output columns [o, o + count), count <= TILED_PANELS * TILE_COLS, all rows. */
static void tiled_columns(const lh_tiled *g, int64_t o, int64_t count)
{
    const lh_gemm_args *a = g->args;
    for (int64_t i = 0; i < a->in; i += TILED_DEPTH) {
        lh_columns columns = {.src = a->w,
                              .type = a->type,
                              .first = o * a->w_ld + i,
                              .ld = a->w_ld,
                              .count = count,
                              .depth = lh_min_i64(a->in - i, TILED_DEPTH)};
        pack_columns(g->w, &columns);
        for (int64_t block = 0; block * TILE_ROWS < a->tokens; block++) tiled_block(g, block, o, count, i);
    }
}

/* Tokens [first, first + tokens): inside a parallel region. */
static void tiled_tokens(const lh_gemm_args *a, int64_t first, float *x, float *mine)
{
    int64_t tokens = lh_min_i64(a->tokens - first, TILED_TOKENS);
    int64_t panels = lh_min_i64(a->out / (TILE_COLS * TILED_ITEMS * omp_get_num_threads()), TILED_PANELS);
    int64_t step = (panels > 1 ? panels : 1) * TILE_COLS;
    lh_gemm_args part = *a;
    part.y += first * a->y_ld;
    part.tokens = tokens;
    lh_tiled g = {.args = &part, .x = x, .w = mine, .y = mine + TILED_PANELS * TILE_COLS * TILED_DEPTH};
    lh_rows rows = {.src = a->x,
                    .type = a->type,
                    .first = first * a->x_ld,
                    .outer_ld = a->x_ld,
                    .inner = 1,
                    .count = tokens,
                    .depth = a->in,
                    .factor = 1.0f};
#pragma omp for
    for (int64_t b = 0; b < round_up(tokens, TILE_ROWS) / TILE_ROWS; b++)
        pack_rows(x + b * TILE_ROWS * a->in, &rows, b);
#pragma omp for schedule(dynamic)
    for (int64_t o = 0; o < a->out; o += step) tiled_columns(&g, o, lh_min_i64(step, a->out - o));
}

static lh_status gemm_tiled(lh_stream *stream, const lh_gemm_args *a)
{
    float *x = NULL;
    int64_t packed = round_up(lh_min_i64(a->tokens, TILED_TOKENS), TILE_ROWS) * a->in;
    int64_t own = TILED_PANELS * TILE_COLS * TILED_DEPTH + TILE_ROWS * TILE_COLS;
    LH_TRY(lh_stream_scratch(stream, &x, (packed + omp_get_max_threads() * own) * (int64_t)sizeof *x));
#pragma omp parallel if (a->tokens * a->in * a->out >= PARALLEL_FROM)
    for (int64_t first = 0; first < a->tokens; first += TILED_TOKENS)
        tiled_tokens(a, first, x, x + packed + omp_get_thread_num() * own);
    return LH_OK;
}

/* The result of a product over nothing. */
static void fill_bias(const lh_gemm_args *a)
{
    for (int64_t t = 0; t < a->tokens; t++) {
        for (int64_t o = 0; o < a->out; o++) {
            float *y = a->y + t * a->y_ld + o;
            *y = (a->bias ? a->bias[o] : 0.0f) + (a->adds ? *y : 0.0f);
        }
    }
}

static lh_status op_gemm(lh_stream *stream, const lh_gemm_args *a)
{
    if (a->tokens == 0 || a->out == 0) return LH_OK;
    if (a->in == 0) {
        fill_bias(a);
        return LH_OK;
    }
    if (a->order == LH_ORDER_FIXED) return gemm_tiled(stream, a);
    if (a->tokens <= FEW_TOKENS) return gemm_few(stream, a);
    if (PAIRS && a->type == LH_BF16 && lh_cpu_onednn_there()) return lh_cpu_onednn_gemm(stream, a);
    return gemm_tiled(stream, a);
}
