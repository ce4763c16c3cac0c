/* random_weights.c - the distributions of random weights. */
#include "import/random_weights.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

/* Standard deviations that keep activations near one: 1/sqrt(width) for products, less with depth for the branches that
 * are added to the residual, logits with a standard deviation of two. */
static float standard_deviation(const lh_config *c, lh_weight weight, int64_t cols)
{
    switch (weight) {
    case LH_W_EMBED: return c->tied ? 2 / sqrtf((float)cols) : 1;
    case LH_W_HEAD: return 2 / sqrtf((float)cols);
    case LH_W_O:
    case LH_W_DOWN: return 1 / sqrtf(2 * (float)c->layers * (float)cols);
    default: return cols > 1 ? 1 / sqrtf((float)cols) : 0.1f; /* biases */
    }
}

lh_random_weight lh_random_weight_of(const lh_config *config, lh_weight weight, int64_t layer)
{
    int64_t rows, cols;
    lh_random_weight w = {.stream = (uint64_t)layer * LH_WEIGHTS + (uint64_t)weight};
    lh_weight_shape(config, weight, &rows, &cols);
    if (lh_weight_is_norm(weight))
        w.mean = 1.0f - (float)config->norm_offset;
    else
        w.scale = standard_deviation(config, weight, cols);
    return w;
}

/* ---- formats ---- */

lh_status lh_random_types(lh_import_types *out, const char *weights)
{
    return lh_import_types_of(out, &(lh_import_options){.dtype = "auto", .quantize = weights});
}

lh_status lh_random_formats(const lh_format ***out, const lh_config *config, const lh_import_types *types)
{
    lh_status st = LH_OK;
    const lh_format **all = NULL;
    LH_TRY_DONE(lh_calloc(&all, lh_weight_formats_count(config), sizeof *all));
    for (int64_t i = 0; i < config->layers * LH_WEIGHTS; i++) {
        const lh_weight w = (lh_weight)(i % LH_WEIGHTS);
        const int64_t layer = i / LH_WEIGHTS;
        const lh_format *blocks = lh_import_quantised(types, config, w, layer);
        int64_t rows, cols;
        lh_weight_shape(config, w, &rows, &cols);
        if (rows == 0) continue;
        if (types->quantize && lh_weight_takes_blocks(w) && !blocks)
            LH_FAIL_DONE(LH_EUSAGE, "no weights of '%s' are drawn as %s: its rows have %lld numbers, no multiple of 32",
                         lh_weight_info_of(w)->name, types->quantize, (long long)cols);
        all[lh_weight_format_index(w, layer)] = blocks ? blocks : lh_format_of(lh_weight_type(w, types->type));
    }
    *out = all;
    all = NULL;
done:
    lh_free(all);
    return st;
}

/* ---- blocks ---- */

enum { DRAWN = 16, DRAWS_MAX = 32, BLOCK_BYTES_MAX = 512, SAMPLE = 256 };

/* Random bytes of a block; returns 32 more random bits. */
static uint32_t draw_bytes(uint8_t *block, const lh_format *format, uint64_t seed, uint64_t stream, uint64_t number)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint8_t bytes[BLOCK_BYTES_MAX + DRAWN];
    uint32_t word[4] = {0};
    for (int64_t at = 0; at <= format->bytes; at += DRAWN) {
        const uint64_t draw = number * DRAWS_MAX + (uint64_t)at / DRAWN;
        const uint32_t counter[4] = {(uint32_t)draw, (uint32_t)(draw >> 32), (uint32_t)stream,
                                     (uint32_t)(stream >> 32)};
        lh_philox(word, key, counter);
        memcpy(bytes + at, word, sizeof word);
    }
    memcpy(block, bytes, (size_t)format->bytes);
    return word[3];
}

/* The scale d of random blocks, and the scale m of their minima, for values with a mean of 0 and a standard deviation
 * of 1. */
typedef struct scales {
    double d, m;
} scales;

/* Makes all codes of a block of floats numbers, and sets its scale. */
static void set_float_scale(uint8_t *block, float scale)
{
    uint8_t codes[LH_F8_VALUES];
    memcpy(codes, block + sizeof scale, sizeof codes);
    for (int i = 0; i < LH_F8_VALUES; i++)
        if (lh_e4m3_is_nan(codes[i])) codes[i] ^= 1;
    lh_f8_e4m3_join(block, scale, codes);
}

static scales scales_of_floats(const lh_format *format)
{
    double squares = 0;
    for (uint64_t i = 0; i < SAMPLE; i++) {
        uint8_t block[BLOCK_BYTES_MAX];
        float values[LH_BLOCK_MAX];
        draw_bytes(block, format, 0, 0, i);
        set_float_scale(block, 1);
        lh_format_to_f32(format, values, block, 1);
        for (int64_t j = 0; j < format->values; j++) squares += (double)values[j] * (double)values[j];
    }
    return (scales){sqrt((double)(SAMPLE * format->values) / squares), 0};
}

/* From the codes of some blocks: a value is d * (product - ratio * minimum) with ratio = m / d. */
static scales scales_of(const lh_format *format)
{
    int64_t products = 0, minima = 0, squares = 0, mixed = 0, minima_squares = 0;
    if (format->by_rows) return scales_of_floats(format);
    for (uint64_t i = 0; i < SAMPLE; i++) {
        uint8_t block[BLOCK_BYTES_MAX];
        lh_block_codes codes;
        draw_bytes(block, format, 0, 0, i);
        format->unpack(&codes, block);
        for (int64_t j = 0; j < format->values; j++) {
            const int64_t g = j / format->group, minimum = format->halves > 1 ? codes.minimum[g] : 0,
                          product = codes.scale[g] * ((int64_t)codes.code[j] - format->zero);
            products += product;
            minima += minimum;
            squares += product * product;
            mixed += product * minimum;
            minima_squares += minimum * minimum;
        }
    }
    const double n = (double)(SAMPLE * format->values), ratio = minima ? (double)products / (double)minima : 0;
    const double square = (double)squares - 2 * ratio * (double)mixed + ratio * ratio * (double)minima_squares;
    const double d = sqrt(n / square);
    return (scales){d, d * ratio};
}

/* Of either sign, so that codes with a mean that is not zero leave no mean; the sizes differ by a factor of up to 1.7.
 */
static void draw_block(uint8_t *block, const lh_random_blocks *b, const lh_random_weight *w, const scales *one,
                       uint64_t number)
{
    const uint32_t bits = draw_bytes(block, b->format, b->seed, w->stream, number);
    const double size = (bits & 1 ? -1 : 1) * (double)w->scale * (0.75 + 0.5 * (double)lh_uniform(bits));
    if (b->format->by_rows) {
        set_float_scale(block, (float)(size * one->d));
        return;
    }
    const uint16_t halves[2] = {lh_f32_to_f16((float)(size * one->d)), lh_f32_to_f16((float)(size * one->m))};
    memcpy(block + b->format->halves_at, halves, (size_t)b->format->halves * sizeof *halves);
}

void lh_random_blocks_draw(const lh_random_blocks *b, const lh_random_weight *w)
{
    const scales one = scales_of(b->format);
#pragma omp parallel for schedule(static) if (b->rows * b->blocks > 1 << 8)
    for (int64_t r = 0; r < b->rows; r++)
        for (int64_t i = 0; i < b->blocks; i++)
            draw_block(b->dst + (r * b->blocks + i) * b->format->bytes, b, w, &one,
                       (uint64_t)(b->first + r * b->step + i));
}
