#include "packed_case.h"

#include <string.h>

#include "kernels/packed.h"

/* Formats, and where the f16 numbers of a block are. */
static const struct {
    const char *name;
    int d, m; /* -1: there is none */
} formats[] = {{"q8_0", 0, -1},   {"q4_0", 0, -1},   {"q4_1", 0, 2},     {"q5_0", 0, -1},
               {"q5_1", 0, 2},    {"q4_K", 0, 2},    {"q5_K", 0, 2},     {"q6_K", 208, -1},
               {"iq4_nl", 0, -1}, {"iq4_xs", 0, -1}, {"f8_e4m3", -1, -1}};
enum { FORMATS = sizeof formats / sizeof *formats };

const lh_format *packed_format(int i)
{
    return i < FORMATS ? lh_format_named(formats[i].name) : NULL;
}

static void put_half(uint8_t *block, int at, uint64_t seed, uint64_t n)
{
    const int64_t kind = draw(seed + 1, n, 20), bits = draw(seed + 2, n, 1 << 16);
    uint16_t half = (uint16_t)((bits & 0x83ff) | (6 + (bits >> 10) % 5) << 10);
    if (kind == 0) half &= 0x83ff; /* subnormal */
    if (kind == 1) half &= 0x8000;
    memcpy(block + at, &half, sizeof half);
}

/* Scales of any size that checkpoints can hold, with magnitudes as in models in most blocks, or 0; no NaN codes. */
static void put_float_scale(uint8_t *block, uint64_t seed, uint64_t n)
{
    const int64_t kind = draw(seed + 1, n, 20);
    const float scale = (1 + (float)draw(seed + 2, n, 1 << 20) * 0x1p-20f) * (kind == 0   ? 0
                                                                              : kind == 1 ? 0x1p-100f
                                                                              : kind == 2 ? -0x1p49f
                                                                                          : 0x1p-12f);
    for (int i = 4; i < LH_F8_BYTES; i++)
        if (lh_e4m3_is_nan(block[i])) block[i] ^= 1;
    memcpy(block, &scale, sizeof scale);
}

source_blocks blocks_make(lot *m, const lh_format *format, int64_t rows, int64_t cols, uint64_t seed)
{
    source_blocks b = {.format = format, .rows = rows, .cols = cols, .row_bytes = lh_format_bytes(format, cols)};
    int i = 0;
    while (packed_format(i) != format) i++;
    b.data = lot_new(m, rows * b.row_bytes);
    for (int64_t n = 0; n < rows * b.row_bytes; n++) b.data[n] = (uint8_t)draw(seed, (uint64_t)n, 256);
    for (int64_t n = 0; n < rows * b.row_bytes / format->bytes; n++) {
        if (format->by_rows) put_float_scale(b.data + n * format->bytes, seed, (uint64_t)n);
        if (formats[i].d >= 0) put_half(b.data + n * format->bytes, formats[i].d, seed, (uint64_t)n * 2);
        if (formats[i].m >= 0) put_half(b.data + n * format->bytes, formats[i].m, seed, (uint64_t)n * 2 + 1);
    }
    return b;
}

float *blocks_values(lot *m, const source_blocks *b)
{
    float *values = lot_new(m, b->rows * b->cols * 4);
    lh_format_to_f32(b->format, values, b->data, b->rows * b->cols / b->format->values);
    return values;
}

lh_matrix blocks_pack(rig *g, const source_blocks *b, int64_t skip, int64_t cols)
{
    const int64_t in_block = b->format->values, begin = skip / in_block, end = (skip + cols + in_block - 1) / in_block;
    const int64_t bytes = (end - begin) * b->format->bytes,
                  packed = lh_packed_bytes(b->format, b->rows, skip % in_block, cols);
    lot m = {0};
    uint8_t *part = lot_new(&m, b->rows * bytes);
    lh_matrix w = {.format = b->format, .rows = b->rows, .ld = cols, .phase = skip % in_block};
    void *data = rig_new(g, packed);
    for (int64_t r = 0; r < b->rows; r++)
        memcpy(part + r * bytes, b->data + r * b->row_bytes + begin * b->format->bytes, (size_t)bytes);
    RUN(g, pack_weights, .dst = data, .src = part, .format = b->format, .rows = b->rows, .skip = w.phase, .cols = cols);
    w.data = data;
    lot_end(&m);
    return w;
}
