/* import_random.c - makes a checkpoint of a named shape with random weights, a buffer of rows at a time. */
#include <string.h>

#include "base/log.h"
#include "base/minmax.h"
#include "base/output.h"
#include "base/rng.h"
#include "import/checkpoint.h"
#include "import/convert.h"
#include "import/import_impl.h"
#include "import/random_shapes.h"
#include "import/random_weights.h"

typedef struct generator {
    const lh_import_options *options;
    lh_config config;
    const lh_format **formats; /* lh_weight_format */
    lh_import_meter meter;
    lh_checkpoint_writer *writer;
    /* Buffers of a chunk of rows: as f32, as stored; and their values. */
    float *wide;
    char *stored;
    int64_t values;
} generator;

static lh_status count_weight(void *self, lh_weight weight, int64_t layer)
{
    generator *g = self;
    int64_t rows, cols;
    lh_weight_shape(&g->config, weight, &rows, &cols);
    g->meter.total_bytes += lh_format_bytes(lh_weight_format(g->formats, weight, layer), rows * cols);
    g->values = lh_max_i64(g->values, lh_import_chunk_rows(cols) * cols);
    return LH_OK;
}

/* Draws the rows [row, row + n) of a tensor, normals of a plain type. */
static void draw_numbers(generator *g, const lh_random_weight *w, lh_dtype type, int64_t row, int64_t n, int64_t cols)
{
#pragma omp parallel for schedule(static) if (n * cols > 1 << 14)
    for (int64_t r = 0; r < n; r++) {
        float *values = g->wide + r * cols;
        lh_normals(values, g->options->seed, w->stream, (row + r) * cols, cols);
        for (int64_t i = 0; i < cols; i++) values[i] = w->mean + w->scale * values[i];
    }
    const lh_convert convert = {
        .dst = g->stored, .dst_type = type, .ld = cols, .src = g->wide, .src_type = LH_F32, .rows = n, .cols = cols};
    lh_convert_rows(&convert);
}

static lh_status draw_weight(void *self, lh_weight weight, int64_t layer)
{
    generator *g = self;
    int64_t rows, cols;
    lh_weight_shape(&g->config, weight, &rows, &cols);
    const lh_random_weight w = lh_random_weight_of(&g->config, weight, layer);
    const lh_format *format = lh_weight_format(g->formats, weight, layer);
    const int64_t step = lh_import_chunk_rows(cols), blocks = cols / format->values;
    LH_TRY(lh_checkpoint_begin(g->writer, weight, layer, format));
    for (int64_t row = 0; row < rows; row += step) {
        const int64_t n = rows - row < step ? rows - row : step;
        if (format->is_plain)
            draw_numbers(g, &w, format->plain, row, n, cols);
        else
            lh_random_blocks_draw(&(lh_random_blocks){.dst = (uint8_t *)g->stored,
                                                      .format = format,
                                                      .seed = g->options->seed,
                                                      .first = row * blocks,
                                                      .step = blocks,
                                                      .rows = n,
                                                      .blocks = blocks},
                                  &w);
        LH_TRY(lh_checkpoint_rows(g->writer, g->stored, n));
        LH_TRY(lh_import_advance(&g->meter, lh_format_bytes(format, n * cols)));
    }
    LH_TRY(lh_checkpoint_end(g->writer));
    return LH_OK;
}

static lh_status generate(generator *g, const char *shape, const char *config)
{
    lh_status st = LH_OK;
    lh_checkpoint_meta meta = {.config_json = config};
    char *tokenizer = NULL;
    LH_TRY_DONE(lh_checkpoint_each(&g->config, count_weight, g));
    LH_TRY_DONE(lh_partial_claim(g->options->out, g->meter.total_bytes));
    LH_TRY_DONE(lh_random_shape_tokenizer(shape, &tokenizer, &meta.tokenizer_meta));
    meta.tokenizer = tokenizer;
    if (tokenizer)
        meta.tokenizer_bytes = (int64_t)strlen(tokenizer);
    else
        lh_warn("shape '%s' has no tokenizer: the checkpoint takes token ids, but no text", shape);
    LH_TRY_DONE(lh_calloc(&g->wide, g->values, sizeof(float)));
    LH_TRY_DONE(lh_calloc(&g->stored, g->values, sizeof(float)));
    LH_TRY_DONE(lh_checkpoint_create(&g->writer, g->options->out, &meta));
    LH_TRY_DONE(lh_checkpoint_each(&g->config, draw_weight, g));
    st = lh_checkpoint_finish(g->writer);
    g->writer = NULL;
    LH_TRY_DONE(st);
done:
    lh_free(tokenizer);
    return st;
}

lh_status lh_import_random(const lh_import_options *options)
{
    lh_status st = LH_OK;
    generator g = {.options = options, .meter = {.progress = options->progress}};
    const char *shape = options->random;
    lh_import_types types;
    char *text = NULL;
    LH_TRY_DONE(lh_import_types_of(&types, options));
    LH_TRY_DONE(lh_random_shape_config(shape, &text));
    LH_TRY_DONE(lh_config_parse_text(&g.config, text, (int64_t)strlen(text), shape));
    LH_TRY_DONE(lh_random_formats(&g.formats, &g.config, &types));
    LH_TRY_DONE(generate(&g, shape, text));
done:
    lh_checkpoint_drop(g.writer);
    lh_config_clear(&g.config);
    lh_free(g.formats);
    lh_free(g.wide);
    lh_free(g.stored);
    lh_free(text);
    return st;
}
