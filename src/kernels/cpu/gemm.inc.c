/* Matrix products, in three ways. Few tokens: the weights are read from memory once, unpacked; very few tokens multiply
 * a row one token at a time, more tokens are the lanes of a vector: an element of a row, or a word of two, multiplies
 * that element of VL tokens, so that no output is summed across lanes. Many tokens: by tiles, or by oneDNN for bf16
 * where the processor has such products. Weights of few bits by rows are widened in registers for one token, else to a
 * buffer of the thread, some rows at a time. Measured on Zen 4, 512 tokens, one core: tiles reach 0.90 of the
 * multiply-add rate in f32 (OpenBLAS 0.3.21: 0.88), also with weights widened from bf16 while they are packed;
 * oneDNN 1.9 times the rate with bf16 pairs (our tiles: 1.7). */
#include "kernels/cpu/f8.h"
#include "kernels/cpu/stream.h"
#include "kernels/cpu/tile.h"

/* From LANES_FROM tokens on they are lanes; more than FEW_TOKENS are multiplied by tiles, which pack the weights. On
 * two Zen 4 cores a step of 2, 4, 8, 16, 32 and 64 sequences of a 135M model is 1.4, 1.5, 1.4, 1.5, 1.3 and 1.2 times
 * as fast as with blocks of 4 rows and 4 tokens up to 8 tokens, then packed weights. */
enum { FEW_TOKENS = 64, LANES_FROM = 5 };

typedef struct lh_few {
    const lh_gemm_args *args;
    float *x; /* packed: a vector per token (stream.h), or [places, lanes] per VL tokens, x_ld apart */
    int64_t x_ld;
    char *widened; /* [threads, LANE_ROWS rows] of weights by rows; NULL: plain weights */
} lh_few;

/* ---- very few tokens ---- */

/* A row that is read step by step: weights by rows (is_f8, a constant at each call), or plain ones. */
typedef struct lh_few_row {
    lh_f8_reader f8;
    const void *data;
    int64_t at; /* element */
} lh_few_row;

VEC_FN lh_few_row few_row(const lh_matrix *w, int64_t o, const int is_f8)
{
    lh_few_row row = {.data = w->data, .at = o * w->ld};
    if (is_f8) {
        const lh_f8_row from = lh_f8_row_at(w, o, w->first);
        row.f8.scale = NAN;
        f8_enter_block(&row.f8, from.block, from.skip);
    }
    return row;
}

/* The next step; n elements are left. */
VEC_FN vf few_next(lh_few_row *row, int64_t n, const lh_meet kind, const int is_f8)
{
    const int64_t at = row->at;
    row->at += step_elements(kind);
    if (is_f8) return f8_next(&row->f8);
    return step_load(row->data, at, n, kind);
}

/* y[t, o] in CHAINS sums along one row at a time: several rows would be several streams, which are prefetched worse
 * (rows of 576 bf16: 14 instead of 33 GB/s on one core). kind is a constant at each call. */
VEC_FN void one_token(const lh_few *f, int64_t o, int64_t t, const lh_meet kind, const int is_f8)
{
    enum { CHAINS = 4 };
    const lh_gemm_args *a = f->args;
    const float *x = f->x + t * f->x_ld;
    int64_t step = step_elements(kind), x_step = step_floats(kind), i = 0;
    lh_few_row row = few_row(&a->w, o, is_f8);
    vf sum[CHAINS];
#pragma GCC unroll 4
    for (int u = 0; u < CHAINS; u++) sum[u] = vf_zero();
    for (; i + CHAINS * step <= a->in; i += CHAINS * step, x += CHAINS * x_step) {
#pragma GCC unroll 4
        for (int u = 0; u < CHAINS; u++)
            sum[u] = step_add(few_next(&row, step, kind, is_f8), x + u * x_step, sum[u], kind);
    }
    for (; i < a->in; i += step, x += x_step)
        sum[0] = step_add(few_next(&row, lh_min_i64(step, a->in - i), kind, is_f8), x, sum[0], kind);
    float *y = a->y + t * a->y_ld + o, product = vf_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
    if (a->bias) product += a->bias[o];
    *y = a->adds ? *y + product : product;
}

/* ---- tokens as lanes ---- */

/* Rows processed together by VL tokens, and by 2 VL tokens: their sums are in registers. */
enum { LANE_ROWS = VL < 8 ? VL : 8, LANE_ROWS_OF_TWO = VL < 16 ? 4 : 8 };

/* Bytes of a cache line. With each line of a row the same line of a following row is prefetched: no hardware prefetcher
 * follows so many streams. Measured on two Zen 4 cores, 16 tokens, rows of 576 to 1536
 * bf16: 439 GFLOP/s, the limit of multiply-adds of pairs there; without prefetching 240. */
enum { LINE = 64 };

/* Packs tokens from t on as lanes, with zeros for missing tokens and up to a whole step. */
VEC_FN void lane_pack(const lh_few *f, int64_t t, const lh_meet kind)
{
    const lh_gemm_args *a = f->args;
    float *to = f->x + t / VL * f->x_ld;
    int64_t step = step_elements(kind);
    for (int64_t i = 0; i < a->in; i += step) {
        vf x[VL];
        for (int64_t c = 0; c < VL; c++) {
            int64_t at = (t + c) * a->x_ld + i;
            x[c] = t + c < a->tokens ? step_load(a->x, at, lh_min_i64(step, a->in - i), kind) : vf_zero();
        }
        vf_transpose(x);
        for (int p = 0; p < VL; p++, to += step_floats(kind)) {
            vf_store(to, kind == MEET_SPLIT ? vf_even(x[p]) : x[p]);
            if (kind == MEET_SPLIT) vf_store(to + VL, vf_odd(x[p]));
        }
    }
}

/* The element at w, or the word of two, in all lanes. */
VEC_FN vf lane_place(const char *w)
{
    int32_t word;
    memcpy(&word, w, sizeof word);
    return (vf)vi_set1(word);
}

/* The last element of a row of bf16 with an odd number of elements. */
VEC_FN vf lane_last(const char *w)
{
    uint16_t half;
    memcpy(&half, w, sizeof half);
    return (vf)vi_set1(half);
}

/* y[t .. t + vectors * VL, o .. o + rows]; rows, vectors and kind are constants at each call. */
VEC_FN void lane_block(const lh_few *f, int64_t o, int64_t t, const int rows, const int vectors, const lh_meet kind)
{
    const lh_gemm_args *a = f->args;
    const int64_t ld = a->w.ld * (kind == MEET_F32 ? 4 : 2), x_ld = f->x_ld; /* bytes; floats */
    const char *w = (const char *)a->w.data + o * ld, *end = w + (kind == MEET_F32 ? a->in : a->in / 2) * 4;
    const float *x = f->x + t / VL * x_ld;
    const int64_t ahead = f->widened ? 0 : rows * ld; /* widened rows are in the cache */
    vf sum[LANE_ROWS * 2];
#pragma GCC unroll 16
    for (int n = 0; n < rows * vectors; n++) sum[n] = vf_zero();
    while (w < end) {
        const char *line = end - w > LINE ? w + LINE : end;
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) __builtin_prefetch(w + ahead + r * ld, 0, 2);
        for (; w < line; w += 4, x += step_floats(kind)) {
#pragma GCC unroll 16
            for (int n = 0; n < rows * vectors; n++)
                sum[n] = step_add(lane_place(w + n / vectors * ld), x + n % vectors * x_ld, sum[n], kind);
        }
    }
    if (kind != MEET_F32 && a->in % 2) {
#pragma GCC unroll 16
        for (int n = 0; n < rows * vectors; n++)
            sum[n] = step_add(lane_last(w + n / vectors * ld), x + n % vectors * x_ld, sum[n], kind);
    }
    vf bias = a->bias ? vf_load_first(a->bias + o, rows) : vf_zero();
    for (int v = 0; v < vectors; v++, t += VL) {
        vf y[VL];
#pragma GCC unroll 16
        for (int r = 0; r < VL; r++) y[r] = r < rows ? sum[r * vectors + v] : vf_zero();
        vf_transpose(y);
        for (int64_t c = 0; c < lh_min_i64(VL, a->tokens - t); c++) {
            float *to = a->y + (t + c) * a->y_ld + o;
            y[c] += bias;
            if (a->adds) y[c] += vf_load_first(to, rows);
            vf_store_first(to, y[c], rows);
        }
    }
}

/* Rows [o, end): `rows` together, then the rest one by one. */
VEC_FN void lane_rows(const lh_few *f, int64_t o, int64_t end, int64_t t, const int rows, const int vectors,
                      const lh_meet kind)
{
    for (; o + rows <= end; o += rows) lane_block(f, o, t, rows, vectors, kind);
    for (; o < end; o++) lane_block(f, o, t, 1, vectors, kind);
}

/* ---- the operation ---- */

/* Rows [o, end). kind is a constant at each call. */
VEC_FN void few_range(const lh_few *f, int64_t o, int64_t end, const lh_meet kind)
{
    int64_t tokens = f->args->tokens, t = 0;
    for (; o < end && tokens < LANES_FROM; o++) {
        for (t = 0; t < tokens; t++) one_token(f, o, t, kind, 0);
    }
    for (; t + VL < tokens; t += 2 * VL) lane_rows(f, o, end, t, LANE_ROWS_OF_TWO, 2, kind);
    for (; t < tokens; t += VL) lane_rows(f, o, end, t, LANE_ROWS, 1, kind);
}

static const lh_meet meet_bf16 = PAIRS ? MEET_PAIRS : MEET_SPLIT;

static void few_range_f32(const lh_few *f, int64_t o, int64_t end)
{
    few_range(f, o, end, MEET_F32);
}

static void few_range_bf16(const lh_few *f, int64_t o, int64_t end)
{
    few_range(f, o, end, meet_bf16);
}

/* A single token of bf16, and weights by rows. */
static void one_token_f8(const lh_few *f, int64_t o, int64_t end)
{
    for (; o < end; o++) one_token(f, o, 0, meet_bf16, 1);
}

static void few_rows(const lh_few *f, int64_t o, int64_t end)
{
    if (f->args->type == LH_F32)
        few_range_f32(f, o, end);
    else
        few_range_bf16(f, o, end);
}

/* The same of weights by rows. */
static void few_widened_rows(const lh_few *f, int64_t o, int64_t end)
{
    const lh_gemm_args *a = f->args;
    if (a->tokens == 1 && a->type == LH_BF16) {
        one_token_f8(f, o, end);
        return;
    }
    const int64_t step = a->tokens < LANES_FROM ? 1 : LANE_ROWS, bytes = lh_dtype_bytes(a->type);
    char *rows = f->widened + omp_get_thread_num() * LANE_ROWS * a->in * bytes;
    lh_gemm_args part = *a;
    lh_few own = *f;
    own.args = &part;
    part.w = lh_plain_matrix(rows, a->type, a->in);
    for (; o < end; o += step) {
        part.out = lh_min_i64(step, end - o);
        part.y = a->y + o;
        part.bias = a->bias ? a->bias + o : NULL;
        f8_widen_rows(rows, a->type, a->in, &(lh_f8_part){.w = &a->w, .row = o, .rows = part.out, .cols = a->in});
        few_rows(&own, 0, part.out);
    }
}

static lh_status gemm_few(lh_stream *stream, const lh_gemm_args *a)
{
    enum { ROWS = 64 };
    lh_meet kind = a->type == LH_F32 ? MEET_F32 : meet_bf16;
    int64_t bytes = lh_dtype_bytes(a->type), group = a->tokens < LANES_FROM ? 1 : VL;
    lh_few f = {.args = a, .x_ld = packed_floats(a->in, kind) * group};
    const int64_t x_floats = (a->tokens + group - 1) / group * f.x_ld,
                  own_bytes = a->w.format->by_rows ? LANE_ROWS * a->in * bytes : 0;
    LH_TRY(lh_stream_scratch(stream, &f.x, x_floats * (int64_t)sizeof *f.x + omp_get_max_threads() * own_bytes));
    f.widened = own_bytes ? (char *)(f.x + x_floats) : NULL;
    for (int64_t t = 0; t < a->tokens; t += group) {
        if (group == 1)
            pack_vector(f.x + t * f.x_ld, (const char *)a->x + t * a->x_ld * bytes, a->in, kind);
        else
            lane_pack(&f, t, kind);
    }
#pragma omp parallel for if (a->out * a->in >= PARALLEL_FROM)
    for (int64_t o = 0; o < a->out; o += ROWS) {
        if (a->w.format->by_rows)
            few_widened_rows(&f, o, lh_min_i64(o + ROWS, a->out));
        else
            few_rows(&f, o, lh_min_i64(o + ROWS, a->out));
    }
    return LH_OK;
}

/* ---- tiles: each output is one chain of multiply-adds, which are fused on every processor in the fixed order ---- */

/* TILED_TOKENS tokens are packed together; a thread takes up to TILED_PANELS panels of weights, fewer if that would
 * leave less than TILED_ITEMS items per thread. */
enum { TILED_DEPTH = 384, TILED_PANELS = 4, TILED_TOKENS = 512, TILED_ITEMS = 8 };
enum { TILED_WEIGHTS = TILED_PANELS * TILE_COLS * TILED_DEPTH };

typedef struct lh_tiled {
    const lh_gemm_args *args;
    const float *x; /* packed: [blocks][in][TILE_ROWS] */
    float *w;       /* of this thread: TILED_PANELS panels of TILED_DEPTH */
    float *y;       /* of this thread: the last, partial panel of a block */
    float *widened; /* of this thread: TILED_DEPTH columns of TILED_PANELS panels; weights by rows only */
} lh_tiled;

/* Adds depth [i, i + TILED_DEPTH) of the panels g->w to output columns [o, o + count), a block of rows at a time. Whole
 * panels are written to y directly, the rest of the last panel through g->y. */
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
        lh_columns columns = {.src = a->w.data,
                              .type = a->type,
                              .first = o * a->w.ld + i,
                              .ld = a->w.ld,
                              .count = count,
                              .depth = lh_min_i64(a->in - i, TILED_DEPTH)};
        if (a->w.format->by_rows) {
            f8_widen_rows(g->widened, a->type, TILED_DEPTH, &(lh_f8_part){&a->w, o, count, i, columns.depth});
            columns.src = g->widened;
            columns.first = 0;
            columns.ld = TILED_DEPTH;
        }
        pack_columns(g->w, &columns);
        for (int64_t block = 0; block * TILE_ROWS < a->tokens; block++) tiled_block(g, block, o, count, i);
    }
}

/* Tokens [first, first + tokens), inside a parallel region. */
static void tiled_tokens(const lh_gemm_args *a, int64_t first, float *x, float *mine)
{
    int64_t tokens = lh_min_i64(a->tokens - first, TILED_TOKENS);
    int64_t panels = lh_min_i64(a->out / (TILE_COLS * TILED_ITEMS * omp_get_num_threads()), TILED_PANELS);
    int64_t step = (panels > 1 ? panels : 1) * TILE_COLS;
    lh_gemm_args part = *a;
    part.y += first * a->y_ld;
    part.tokens = tokens;
    lh_tiled g = {.args = &part, .x = x, .w = mine, .y = mine + TILED_WEIGHTS};
    g.widened = g.y + TILE_ROWS * TILE_COLS;
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
    int64_t own = TILED_WEIGHTS + TILE_ROWS * TILE_COLS + (a->w.format->by_rows ? TILED_WEIGHTS : 0);
    LH_TRY(lh_stream_scratch(stream, &x, (packed + omp_get_max_threads() * own) * (int64_t)sizeof *x));
#pragma omp parallel if (a->tokens * a->in * a->out >= PARALLEL_FROM)
    for (int64_t first = 0; first < a->tokens; first += TILED_TOKENS)
        tiled_tokens(a, first, x, x + packed + omp_get_thread_num() * own);
    return LH_OK;
}

/* The result of a product with in = 0. */
static void fill_bias(const lh_gemm_args *a)
{
    for (int64_t t = 0; t < a->tokens; t++) {
        for (int64_t o = 0; o < a->out; o++) {
            float *y = a->y + t * a->y_ld + o;
            *y = (a->bias ? a->bias[o] : 0.0f) + (a->adds ? *y : 0.0f);
        }
    }
}

/* Plain weights or weights by rows, one matrix. */
static lh_status gemm_plain(lh_stream *stream, const lh_gemm_args *a)
{
    if (a->in == 0) {
        fill_bias(a);
        return LH_OK;
    }
    if (a->order == LH_ORDER_FIXED) return gemm_tiled(stream, a);
    if (a->tokens <= FEW_TOKENS) return gemm_few(stream, a);
    if (PAIRS && a->type == LH_BF16 && a->w.format->is_plain && lh_cpu_onednn_there())
        return lh_cpu_onednn_gemm(stream, a);
    return gemm_tiled(stream, a);
}

static lh_status gemm_packed(lh_stream *stream, const lh_gemm_args *a); /* packed.inc.c */

/* True for weights of few bits in groups of rows (packed.h). */
static int is_grouped(const lh_matrix *w)
{
    return !w->format->is_plain && !w->format->by_rows;
}

/* Rows of the first matrix, or of the matrices in groups of rows that the product begins with. */
static int64_t rows_together(const lh_matrix *w, int64_t out)
{
    int64_t rows = lh_matrix_rows(w, out);
    const int grouped = is_grouped(w);
    for (; rows < out && grouped && is_grouped(w->next); w = w->next) rows += lh_matrix_rows(w->next, out - rows);
    return rows;
}

static lh_status op_gemm(lh_stream *stream, const lh_gemm_args *a)
{
    int64_t first = 0;
    for (const lh_matrix *w = &a->w; first < a->out && a->tokens > 0;) {
        lh_gemm_args part = *a;
        part.w = *w;
        part.y += first;
        part.bias = a->bias ? a->bias + first : NULL;
        part.out = rows_together(w, a->out - first);
        LH_TRY(is_grouped(w) ? gemm_packed(stream, &part) : gemm_plain(stream, &part));
        for (int64_t end = first + part.out; first < end; w = w->next) first += lh_matrix_rows(w, a->out - first);
    }
    return LH_OK;
}
