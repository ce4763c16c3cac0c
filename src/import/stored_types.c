/* stored_types.c - the stored formats that the options of an import ask for, and the quantisation of rows. */
#include "import/stored_types.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "import/convert.h"

const char *const lh_import_quantize_names[] = {"q8_0",   "q6_K", "q5_K_M", "q5_K", "q5_1",    "q5_0",
                                                "q4_K_M", "q4_K", "q4_1",   "q4_0", "f8_e4m3", NULL};

/* llama.cpp's mixtures of formats: `sensitive` is the format of the matrices that lose most by few bits. */
static const struct mixture {
    const char *name, *blocks, *sensitive;
} mixtures[] = {{"q4_K_M", "q4_K", "q6_K"}, {"q5_K_M", "q5_K", "q6_K"}};

/* Formats for rows that are no multiple of a block long; of the formats _K as in llama.cpp. */
static const struct narrow {
    const char *wide, *narrow;
} narrows[] = {{"q4_K", "q5_0"}, {"q5_K", "q5_1"}, {"q6_K", "q8_0"}, {"f8_e4m3", "q8_0"}};

/* The formats that a name stands for. */
static void set_blocks(lh_import_types *types, const char *name)
{
    const char *blocks = name, *sensitive = name;
    for (size_t i = 0; i < sizeof mixtures / sizeof *mixtures; i++)
        if (strcmp(mixtures[i].name, name) == 0) {
            blocks = mixtures[i].blocks;
            sensitive = mixtures[i].sensitive;
        }
    types->quantize = name;
    types->blocks = lh_format_named(blocks);
    types->sensitive = lh_format_named(sensitive);
    assert(types->blocks->pack && types->sensitive->pack);
}

/* Returns LH_EUSAGE, with the names that are known. */
static lh_status refuse_blocks(const char *name)
{
    lh_status st = LH_OK;
    lh_buf known = {0};
    for (const char *const *k = lh_import_quantize_names; *k; k++)
        LH_TRY_DONE(lh_buf_printf(&known, "%s%s", !known.bytes ? "" : k[1] ? ", " : " and ", *k));
    LH_FAIL_DONE(LH_EUSAGE, "blocks '%s' are unknown: %s are known", name, known.data);
done:
    lh_buf_clear(&known);
    return st;
}

lh_status lh_import_types_of(lh_import_types *out, const lh_import_options *options)
{
    const char *name = options->dtype;
    lh_import_types types = {.type = LH_BF16, .automatic = strcmp(name, "auto") == 0};
    if (!types.automatic && (!lh_dtype_find(name, &types.type) || types.type > LH_BF16))
        LH_FAIL(LH_EUSAGE, "dtype '%s' is unknown: auto, f32, f16 and bf16 are known", name);
    if (options->quantize) {
        const char *const *known = lh_import_quantize_names;
        while (*known && strcmp(*known, options->quantize) != 0) known++;
        if (!*known) return refuse_blocks(options->quantize);
        if (!types.automatic)
            LH_FAIL(LH_EUSAGE, "'--dtype %s' and '--quantize %s' both set the stored type: give one", name,
                    options->quantize);
        set_blocks(&types, *known);
    }
    *out = types;
    return LH_OK;
}

/* True for the matrices that llama.cpp's mixtures give more bits: the output projection, and values and `down` of the
 * first eighth of the layers, of the last one, and of every third layer between. */
static int is_sensitive(const lh_config *config, lh_weight weight, int64_t layer)
{
    const int64_t layers = config->layers, eighth = layers / 8;
    if (weight == LH_W_HEAD || weight == LH_W_EMBED) return weight == LH_W_HEAD || config->tied;
    return (weight == LH_W_V || weight == LH_W_DOWN) &&
           (layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2);
}

const lh_format *lh_format_fitting(const lh_format *format, int64_t cols)
{
    for (size_t i = 0; i < sizeof narrows / sizeof *narrows && cols % format->values != 0; i++)
        if (strcmp(narrows[i].wide, format->name) == 0) format = lh_format_named(narrows[i].narrow);
    return cols % format->values == 0 ? format : NULL;
}

const lh_format *lh_import_quantised(const lh_import_types *types, const lh_config *config, lh_weight weight,
                                     int64_t layer)
{
    int64_t rows, cols;
    if (!types->quantize || !lh_weight_takes_blocks(weight)) return NULL;
    const lh_format *format = is_sensitive(config, weight, layer) ? types->sensitive : types->blocks;
    lh_weight_shape(config, weight, &rows, &cols);
    return lh_format_fitting(format, cols);
}

int64_t lh_import_pack(const lh_format *format, char *dst, const float *src, int64_t rows, int64_t cols)
{
    const int64_t blocks = cols / format->values;
#pragma omp parallel for schedule(static) if (rows * cols > 1 << 14)
    for (int64_t r = 0; r < rows; r++)
        lh_format_from_f32(format, (uint8_t *)dst + r * blocks * format->bytes, src + r * cols, blocks);
    const int64_t bad = lh_find_unusable_block(format, (const uint8_t *)dst, rows * blocks);
    if (bad < 0) return -1;
    int64_t largest = bad * format->values;
    for (int64_t i = largest; i < (bad + 1) * format->values; i++)
        if (fabsf(src[i]) > fabsf(src[largest])) largest = i;
    return largest;
}
