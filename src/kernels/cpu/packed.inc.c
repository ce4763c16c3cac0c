/* Products with weights of few bits (layout: packed.h, arithmetic: gemm in ops_model.h). x is rounded to 15 bits, split
 * for the products of integers, and packed by tiles of tokens; a tile meets 16 rows, one block of 32 columns after the
 * other. Every sum of a block is an exact integer, and the blocks are one chain of fused multiply-adds, so that tiles
 * of any size, vectors of any length and any number of threads give the same bits.
 *
 * The weights are read once, as one stream per thread and without prefetching: a prefetch of each line costs a tenth to
 * a third of the bandwidth (2 Zen 4 cores). */
#include "kernels/packed.h"
#include "kernels/cpu/common.h"
#include "kernels/cpu/f8.h"

/* Tokens of a chunk: their x stays in the L2 cache while the weights are read. */
enum { PACKED_TOKENS = 96 };

/* Tokens of the largest tile; tokens with sums for both passes over x at a time. */
enum { MAX_IN_TILE = VL, FEW_IN_TILE = VL / 2 };

/* x of a tile: blocks, each with words [2][8][tokens] of 4 columns, then [tokens] scales, scales times sums, sums, and
 * sums of the first 16 columns. Words: bytes: the upper 8 and the lower 7 bits plus sign of 4 columns; else columns 0
 * and 2, then 1 and 3, as 16-bit numbers. */
enum { BLOCK_WORDS = 8, X_SCALE = 2 * BLOCK_WORDS, X_SCALED_SUM, X_SUM, X_HALF_SUM, X_WORDS };

/* A group of rows and a tile of tokens. */
typedef struct lh_packed_tile {
    const lh_gemm_args *args;
    const lh_matrix *w;
    const uint8_t *group;
    const int32_t *x;
    int64_t row, rows, token; /* first row of y, rows that are there, first token */
} lh_packed_tile;

/* ---- vectors of integers ---- */

enum { VECTORS = LH_PACKED_ROWS / VL }; /* of a group's rows */

typedef uint16_t vhalves __attribute__((vector_size(VL * 4)));
typedef int32_t vwords __attribute__((vector_size(VL * 4)));

/* In 16-bit lanes, by a constant; below 0 to the left. */
VEC_FN vi shift_right(vi a, const int by)
{
    return by < 0 ? (vi)((vhalves)a << -by) : (vi)((vhalves)a >> by);
}

VEC_FN vi masked(vi a, int32_t mask)
{
    return (vi)((vwords)a & (vwords)vi_set1(mask));
}

VEC_FN vi add_words(vi a, vi b)
{
    return (vi)((vwords)a + (vwords)b);
}

/* ---- activations ---- */

enum { X_VECTORS = LH_PACKED_COLS / VL }; /* of a block */

/* Integers of a block and their scale. */
VEC_FN float round_x(vi rounded[X_VECTORS], const vf x[X_VECTORS])
{
    vf max = vf_zero();
    int is_finite = 1;
    for (int v = 0; v < X_VECTORS; v++) {
        max = vf_max(vf_abs(x[v]), max);
        is_finite &= !vm_any(vm_not(vf_lt(vf_abs(x[v]), vf_set1(INFINITY))));
    }
    const float top = vf_top(max);
    if (top < 0x1p-100f || !is_finite) {
        for (int v = 0; v < X_VECTORS; v++) rounded[v] = vi_set1(0);
        return is_finite ? 0.0f : NAN;
    }
    for (int v = 0; v < X_VECTORS; v++) rounded[v] = vi_round(x[v] * vf_set1(16255.0f / top));
    return top / 16255.0f;
}

/* The two words of 4 columns. */
VEC_FN void split_x(int32_t to[2][BLOCK_WORDS], const vi rounded[X_VECTORS])
{
    typedef int8_t vbytes __attribute__((vector_size(VL)));
    if (DOT_BYTES) {
        for (int v = 0; v < X_VECTORS; v++) {
            const vwords upper = ((vwords)rounded[v] + 64) >> 7, lower = (vwords)rounded[v] - (upper << 7);
            const vbytes bytes[2] = {__builtin_convertvector(upper, vbytes), __builtin_convertvector(lower, vbytes)};
            for (int p = 0; p < 2; p++) memcpy((char *)to[p] + v * VL, &bytes[p], sizeof bytes[p]);
        }
    } else {
        int32_t x[LH_PACKED_COLS];
        memcpy(x, rounded, sizeof x);
        for (int p = 0; p < 2; p++)
            for (int j = 0; j < BLOCK_WORDS; j++)
                to[p][j] = (x[4 * j + p] & 0xffff) | (int32_t)((uint32_t)x[4 * j + p + 2] << 16);
    }
}

/* Block at column i of token t, into place `to` of a tile of `tokens`. Sums of integers are exact in f32. */
VEC_FN void pack_x_block(const lh_gemm_args *a, int64_t t, int64_t i, int32_t *to, const int64_t tokens)
{
    int32_t split[2][BLOCK_WORDS];
    vi rounded[X_VECTORS];
    vf x[X_VECTORS];
    float sums[2] = {0, 0};
    for (int v = 0; v < X_VECTORS; v++) x[v] = vf_load_any(a->x, a->type, t * a->x_ld + i + v * VL);
    const float scale = round_x(rounded, x);
    split_x(split, rounded);
    for (int v = 0; v < X_VECTORS; v++) sums[v * 2 / X_VECTORS] += vf_sum(vf_from_ints(rounded[v]));
    const float sum = sums[0] + sums[1], scaled = scale * sum;
    for (int j = 0; j < 2 * BLOCK_WORDS; j++) to[j * tokens] = split[j / BLOCK_WORDS][j % BLOCK_WORDS];
    memcpy(to + X_SCALE * tokens, &scale, sizeof scale);
    memcpy(to + X_SCALED_SUM * tokens, &scaled, sizeof scaled);
    to[X_SUM * tokens] = (int32_t)sum;
    to[X_HALF_SUM * tokens] = (int32_t)sums[0];
}

/* Columns [i, end) of a tile of tokens from t on, with zeros for missing tokens. x: the tile. */
static void pack_x(const lh_gemm_args *a, int64_t t, int64_t i, int64_t end, int32_t *x, int64_t tokens)
{
    for (; i < end; i += LH_PACKED_COLS) {
        int32_t *to = x + i / LH_PACKED_COLS * X_WORDS * tokens;
        if (t + tokens > a->tokens) memset(to, 0, (size_t)(X_WORDS * tokens) * sizeof *to);
        for (int64_t c = 0; c < lh_min_i64(tokens, a->tokens - t) && tokens > 1; c++)
            pack_x_block(a, t + c, i, to + c, tokens);
        if (tokens == 1) pack_x_block(a, t, i, to, 1);
    }
}

/* ---- a group of rows ---- */

/* The codes of word j, in the bytes of a vector of rows. codes: of the vector's rows. */
VEC_FN vi load_codes(const uint8_t *codes, const int j, const lh_packing p)
{
    const lh_word_place at = lh_word_at(&p, j);
    if (p.bits == 8) return vi_load((const int32_t *)(codes + j * LH_LINE));
    vi nibbles = vi_load((const int32_t *)(codes + at.nibbles * LH_LINE));
    nibbles = masked(shift_right(nibbles, at.nibble), 0x0f0f0f0f);
    if (p.table) return vi_look_up(p.table, nibbles);
    if (p.bits == 4) return nibbles;
    vi upper = vi_load((const int32_t *)(codes + at.uppers * LH_LINE));
    upper = masked(shift_right(upper, at.upper - 4), p.bits == 5 ? 0x10101010 : 0x30303030);
    return (vi)((vwords)nibbles | (vwords)upper);
}

/* Codes as the first operand of vi_dot: all bytes, or the bytes of even or odd index as 16-bit numbers. */
VEC_FN vi codes_of_pass(vi codes, const int pass)
{
    if (DOT_BYTES) return codes;
    return pass ? shift_right(codes, 8) : masked(codes, 0x00ff00ff);
}

/* The sum of the first pass; bytes of x are its upper bits, in units of 2^7. */
VEC_FN vi raised(vi sum)
{
    return DOT_BYTES ? (vi)((vwords)sum << 7) : sum;
}

/* Word n of the `count` words of scale group g, in an order in which words of a line follow each other. */
VEC_FN int word_of_group(const int count, const int g, const int n)
{
    return g * count + n / 2 + n % 2 * (count / 2);
}

/* The sum minus zero times a token's X over the columns of scale group g. */
VEC_FN vi without_zeros(vi sum, const int32_t *x, const lh_packing p, const int g, const int tokens)
{
    if (p.zero == 0) return sum;
    vwords all = (vwords)vi_set1(x[X_SUM * tokens]), half = (vwords)vi_set1(x[X_HALF_SUM * tokens]);
    return (vi)((vwords)sum - (p.groups == 1 ? all : g == 0 ? half : all - half) * p.zero);
}

/* sum[t] = the sum of (code - zero) * X over the columns of scale group g, for a vector of rows: both passes over x
 * together, which few tokens have the registers for. p, g and tokens are constants at each call. */
VEC_FN void sums_of_few(vi *sum, const uint8_t *codes, const int32_t *x, const lh_packing p, const int g,
                        const int tokens)
{
    const int count = BLOCK_WORDS / p.groups;
    vi upper[FEW_IN_TILE];
#pragma GCC unroll 8
    for (int t = 0; t < tokens; t++) {
        upper[t] = vi_set1(0);
        sum[t] = vi_set1(0);
    }
#pragma GCC unroll 8
    for (int n = 0; n < count; n++) {
        const int j = word_of_group(count, g, n);
        const int32_t *first = x + j * tokens, *second = first + BLOCK_WORDS * tokens;
        const vi word = load_codes(codes, j, p), c0 = codes_of_pass(word, 0), c1 = codes_of_pass(word, 1);
#pragma GCC unroll 8
        for (int t = 0; t < tokens; t++) {
            upper[t] = vi_dot(c0, first + t, upper[t]);
            sum[t] = vi_dot(c1, second + t, sum[t]);
        }
    }
#pragma GCC unroll 8
    for (int t = 0; t < tokens; t++) sum[t] = without_zeros(add_words(raised(upper[t]), sum[t]), x + t, p, g, tokens);
}

/* The same, one pass after the other. */
VEC_FN void sums_of_many(vi *sum, const uint8_t *codes, const int32_t *x, const lh_packing p, const int g,
                         const int tokens)
{
    const int count = BLOCK_WORDS / p.groups;
#pragma GCC unroll 16
    for (int t = 0; t < tokens; t++) sum[t] = vi_set1(0);
#pragma GCC unroll 2
    for (int pass = 0; pass < 2; pass++) {
#pragma GCC unroll 8
        for (int n = 0; n < count; n++) {
            const int j = word_of_group(count, g, n);
            const int32_t *word = x + (pass * BLOCK_WORDS + j) * tokens;
            const vi c = codes_of_pass(load_codes(codes, j, p), pass);
#pragma GCC unroll 16
            for (int t = 0; t < tokens; t++) sum[t] = vi_dot(c, word + t, sum[t]);
        }
        if (pass == 1) break;
#pragma GCC unroll 16
        for (int t = 0; t < tokens; t++) sum[t] = without_zeros(raised(sum[t]), x + t, p, g, tokens);
        __asm__ volatile("" ::: "memory"); /* codes and y are loaded again instead of being kept in registers */
    }
}

VEC_FN vf float_of(const int32_t *x)
{
    float f;
    memcpy(&f, x, sizeof f);
    return vf_set1(f);
}

/* Scales of a vector of rows from row r on, and the numbers that are added to their values. */
VEC_FN vf block_scales(lh_packed_block b, const int r, const lh_packing p, const int g)
{
    if (!p.is_super) return vf_load_f16(b.scales + 2 * r);
    return vf_load_f16(b.head + 2 * r) * vf_load_i8(b.scales + g * LH_PACKED_ROWS + r);
}

VEC_FN vf block_offsets(lh_packed_block b, const int r, const lh_packing p)
{
    if (!p.is_super) return vf_load_f16(b.scales + 2 * (LH_PACKED_ROWS + r));
    return -vf_load_f16(b.head + 2 * (LH_PACKED_ROWS + r)) * vf_load_i8(b.scales + p.groups * LH_PACKED_ROWS + r);
}

/* Adds a block to y, [VECTORS][tokens]. */
VEC_FN void add_packed_block(vf *y, lh_packed_block b, const int32_t *x, const lh_packing p, const int tokens)
{
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++) {
        vf *to = y + v * tokens;
#pragma GCC unroll 2
        for (int g = 0; g < p.groups; g++) {
            vi sum[MAX_IN_TILE];
            if (tokens <= FEW_IN_TILE)
                sums_of_few(sum, b.codes + v * VL * 4, x, p, g, tokens);
            else
                sums_of_many(sum, b.codes + v * VL * 4, x, p, g, tokens);
            const vf scale = block_scales(b, v * VL, p, g);
#pragma GCC unroll 16
            for (int t = 0; t < tokens; t++)
                to[t] = vf_fused(scale, float_of(x + X_SCALE * tokens + t) * vf_from_ints(sum[t]), to[t]);
        }
        if (!p.minima) continue;
        const vf offset = block_offsets(b, v * VL, p);
#pragma GCC unroll 16
        for (int t = 0; t < tokens; t++) to[t] = vf_fused(offset, float_of(x + X_SCALED_SUM * tokens + t), to[t]);
    }
}

/* Adds the bias and what y has, and stores the rows and tokens that are there. */
VEC_FN void store_tile(const lh_packed_tile *tile, const vf *sum, const int tokens)
{
    const lh_gemm_args *a = tile->args;
    for (int v = 0; v < VECTORS && v * VL < tile->rows; v++) {
        const int64_t o = tile->row + v * VL, rows = tile->rows - v * VL;
        for (int t = 0; t < tokens && tile->token + t < a->tokens; t++) {
            float *to = a->y + (tile->token + t) * a->y_ld + o;
            vf y = sum[v * tokens + t];
            if (a->bias) y = y + vf_load_first(a->bias + o, rows);
            if (a->adds) y = vf_load_first(to, rows) + y;
            vf_store_first(to, y, rows);
        }
    }
}

/* The product of a group of rows and a tile of tokens. */
VEC_FN void multiply_tile(const lh_packed_tile *tile, const lh_packing p, const int tokens)
{
    const int64_t lead = tile->w->phase / LH_PACKED_COLS, first = tile->w->first / LH_PACKED_COLS;
    const int64_t end = lead + first + tile->args->in / LH_PACKED_COLS;
    const int32_t *x = tile->x;
    lh_packed_block b = lh_block_at(&p, tile->group, lead, first);
    vf y[VECTORS * MAX_IN_TILE];
#pragma GCC unroll 16
    for (int n = 0; n < VECTORS * tokens; n++) y[n] = vf_zero();
    for (int64_t n = lead + first; n < end; n++, x += X_WORDS * tokens) {
        add_packed_block(y, b, x, p, tokens);
        b = lh_block_after(&p, b, n);
    }
    store_tile(tile, y, tokens);
}

/* Values of 16 rows in one block, columns [i, i + 32) of dst. */
VEC_FN void unpack_block(const lh_unpack_args *a, lh_packed_block b, int64_t row, int64_t i, const lh_packing p)
{
    int32_t codes[BLOCK_WORDS][LH_PACKED_ROWS];
    float scale[2][LH_PACKED_ROWS], offset[LH_PACKED_ROWS], x[LH_PACKED_COLS];
    for (int v = 0; v < LH_PACKED_ROWS; v += VL) {
#pragma GCC unroll 8
        for (int j = 0; j < BLOCK_WORDS; j++) {
            const vi word = load_codes(b.codes + v * 4, j, p);
            memcpy(codes[j] + v, &word, sizeof word);
        }
        for (int g = 0; g < p.groups; g++) vf_store(scale[g] + v, block_scales(b, v, p, g));
        vf_store(offset + v, p.minima ? block_offsets(b, v, p) : vf_set1(-0.0f));
    }
    for (int64_t r = 0; r < lh_min_i64(LH_PACKED_ROWS, a->rows - row); r++) {
        uint8_t code[LH_PACKED_COLS];
        for (int j = 0; j < BLOCK_WORDS; j++) memcpy(code + 4 * j, &codes[j][r], 4);
        for (int c = 0; c < LH_PACKED_COLS; c++)
            x[c] = scale[c * p.groups / LH_PACKED_COLS][r] * (float)(code[c] - p.zero) + offset[r];
        for (int c = 0; c < LH_PACKED_COLS; c += VL) {
            const int64_t at = (row + r) * a->dst_ld + i + c;
            if (a->dst_type == LH_F32)
                vf_store((float *)a->dst + at, vf_load(x + c));
            else
                vf_store_weights((uint16_t *)a->dst + at, vf_load(x + c));
        }
    }
}

/* Values of the group of rows from `row` on. */
VEC_FN void unpack_group(const lh_unpack_args *a, const uint8_t *group, int64_t row, const lh_packing p)
{
    const int64_t lead = a->w.phase / LH_PACKED_COLS, first = a->w.first / LH_PACKED_COLS;
    for (int64_t b = 0; b < a->cols / LH_PACKED_COLS; b++)
        unpack_block(a, lh_block_at(&p, group, lead, first + b), row, b * LH_PACKED_COLS, p);
}

/* ---- functions for each format ---- */

/* X(format, bits, zero, values, group, table): the numbers of lh_format. */
#define PACKED_FORMATS(X)                   \
    X(q8_0, 8, 128, 32, 32, NULL)           \
    X(q4_0, 4, 8, 32, 32, NULL)             \
    X(q4_1, 4, 0, 32, 32, NULL)             \
    X(q5_0, 5, 16, 32, 32, NULL)            \
    X(q5_1, 5, 0, 32, 32, NULL)             \
    X(q4_K, 4, 0, 256, 32, NULL)            \
    X(q5_K, 5, 0, 256, 32, NULL)            \
    X(q6_K, 6, 32, 256, 16, NULL)           \
    X(iq4_nl, 4, 128, 32, 32, lh_iq4_codes) \
    X(iq4_xs, 4, 128, 256, 32, lh_iq4_codes)

#define MULTIPLY_TILE(tokens, name, ...)                               \
    static void multiply_##name##_##tokens(const lh_packed_tile *tile) \
    {                                                                  \
        multiply_tile(tile, lh_packing_of(__VA_ARGS__), tokens);       \
    }
#define FUNCTIONS(name, ...)                                                                \
    TOKEN_TILES(MULTIPLY_TILE, name, __VA_ARGS__)                                           \
    static void unpack_##name(const lh_unpack_args *args, const uint8_t *rows, int64_t row) \
    {                                                                                       \
        unpack_group(args, rows, row, lh_packing_of(__VA_ARGS__));                          \
    }
PACKED_FORMATS(FUNCTIONS)
#undef FUNCTIONS
#undef MULTIPLY_TILE

typedef struct lh_packed_functions {
    int bits, zero;
    int64_t values;
    void (*unpack)(const lh_unpack_args *args, const uint8_t *group, int64_t row);
    void (*multiply[MAX_IN_TILE + 1])(const lh_packed_tile *tile); /* by tokens of a tile; NULL: no such tile */
} lh_packed_functions;

static const lh_packed_functions packed_formats[] = {
#define TILE_ENTRY(tokens, name, ...) [tokens] = multiply_##name##_##tokens,
#define FORMAT_ENTRY(name, bits, zero, values, ...) \
    {bits, zero, values, unpack_##name, {TOKEN_TILES(TILE_ENTRY, name)}},
    PACKED_FORMATS(FORMAT_ENTRY)
#undef FORMAT_ENTRY
#undef TILE_ENTRY
};

static const lh_packed_functions *functions_of(const lh_format *format)
{
    const lh_packed_functions *f = packed_formats;
    while (f->bits != format->bits || f->zero != format->zero || f->values != format->values) f++;
    return f;
}

/* ---- the operations ---- */

static int64_t groups_of(int64_t rows)
{
    return (rows + LH_PACKED_ROWS - 1) / LH_PACKED_ROWS;
}

static int64_t bytes_of_group(const lh_matrix *w)
{
    const lh_packing p = lh_packing_of_format(w->format);
    return lh_group_bytes(&p, w->phase / LH_PACKED_COLS, w->ld / LH_PACKED_COLS);
}

/* A chunk of tokens in tiles: x is [tiles][in / 32][X_WORDS][tokens of a tile]. */
typedef struct lh_packed_chunk {
    lh_gemm_args args;
    int32_t *x;
    int64_t tile, tiles, x_words; /* tokens of a tile; tiles; words of x in a tile */
} lh_packed_chunk;

/* The smallest tile that covers the tokens with as few tiles as possible. */
static int64_t tokens_of_tile(int64_t tokens)
{
    const int64_t tiles = (tokens + MAX_IN_TILE - 1) / MAX_IN_TILE;
    int64_t tile = (tokens + tiles - 1) / tiles;
    while (!packed_formats[0].multiply[tile]) tile++;
    return tile;
}

/* Groups [from, to) of the rows of all matrices. */
static void multiply_groups(const lh_packed_chunk *c, int64_t from, int64_t to)
{
    const lh_gemm_args *a = &c->args;
    int64_t before = 0, o = 0;
    for (const lh_matrix *w = &a->w; o < a->out; w = w->next) {
        const lh_packed_functions *f = functions_of(w->format);
        const int64_t rows = lh_matrix_rows(w, a->out - o), groups = groups_of(rows), bytes = bytes_of_group(w);
        for (int64_t g = lh_max_i64(from - before, 0); g < lh_min_i64(to - before, groups); g++) {
            lh_packed_tile tile = {.args = a,
                                   .w = w,
                                   .group = (const uint8_t *)w->data + g * bytes,
                                   .x = c->x,
                                   .row = o + g * LH_PACKED_ROWS,
                                   .rows = rows - g * LH_PACKED_ROWS};
            for (; tile.token < a->tokens; tile.token += c->tile, tile.x += c->x_words) f->multiply[c->tile](&tile);
        }
        before += groups;
        o += rows;
    }
}

static void multiply_chunk(const lh_packed_chunk *c)
{
    enum { STRETCH = 256, MANY = 1 << 13 }; /* columns of x that a thread packs at a time; numbers for all threads */
    const lh_gemm_args *a = &c->args;
    const int64_t stretches = (a->in + STRETCH - 1) / STRETCH;
    int64_t groups = 0, o = 0;
    for (const lh_matrix *w = &a->w; o < a->out; w = w->next) {
        groups += groups_of(lh_matrix_rows(w, a->out - o));
        o += lh_matrix_rows(w, a->out - o);
    }
    FOR_EACH(n, c->tiles * stretches, a->tokens * a->in >= MANY,
             pack_x(a, n / stretches * c->tile, n % stretches * STRETCH,
                    lh_min_i64(a->in, (n % stretches + 1) * STRETCH), c->x + n / stretches * c->x_words, c->tile));
#pragma omp parallel if (a->out * a->in >= PARALLEL_FROM)
    {
        const lh_stretch own = own_stretch(groups);
        multiply_groups(c, own.from, own.to);
    }
}

/* One or several matrices of few bits. */
static lh_status gemm_packed(lh_stream *stream, const lh_gemm_args *a)
{
    const int64_t blocks = a->in / LH_PACKED_COLS, most = lh_min_i64(a->tokens, PACKED_TOKENS);
    lh_packed_chunk c = {.args = *a};
    LH_TRY(lh_stream_scratch(stream, &c.x, round_up(most, MAX_IN_TILE) * blocks * X_WORDS * (int64_t)sizeof *c.x));
    for (int64_t first = 0; first < a->tokens; first += PACKED_TOKENS) {
        c.args.tokens = lh_min_i64(a->tokens - first, PACKED_TOKENS);
        c.args.x = (const char *)a->x + first * a->x_ld * lh_dtype_bytes(a->type);
        c.args.y = a->y + first * a->y_ld;
        c.tile = tokens_of_tile(c.args.tokens);
        c.tiles = (c.args.tokens + c.tile - 1) / c.tile;
        c.x_words = blocks * X_WORDS * c.tile;
        multiply_chunk(&c);
    }
    return LH_OK;
}

static lh_status op_pack_weights(lh_stream *stream, const lh_pack_weights_args *a)
{
    return lh_ref_pack_weights(stream, a);
}

static lh_status unpack_rows(const lh_unpack_args *a)
{
    const int64_t bytes = lh_dtype_bytes(a->dst_type);
#pragma omp parallel for if (a->rows * a->cols >= PARALLEL_FROM)
    for (int64_t r = 0; r < a->rows; r++)
        f8_widen_rows((char *)a->dst + r * a->dst_ld * bytes, a->dst_type, a->dst_ld,
                      &(lh_f8_part){.w = &a->w, .row = r, .rows = 1, .cols = a->cols});
    return LH_OK;
}

static lh_status op_unpack(lh_stream *stream, const lh_unpack_args *a)
{
    if (a->w.format->by_rows) return unpack_rows(a);
    const lh_packed_functions *f = functions_of(a->w.format);
    const int64_t bytes = bytes_of_group(&a->w);
    (void)stream;
#pragma omp parallel for if (a->rows * a->cols >= PARALLEL_FROM)
    for (int64_t g = 0; g < groups_of(a->rows); g++)
        f->unpack(a, (const uint8_t *)a->w.data + g * bytes, g * LH_PACKED_ROWS);
    return LH_OK;
}
