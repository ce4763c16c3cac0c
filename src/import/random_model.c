/* random_model.c - seeded weights of a shape (the same for any number of threads), and their import. */
#include "import/random_model.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/output.h"
#include "base/rng.h"
#include "import/checkpoint.h"
#include "import/checkpoint_impl.h"
#include "import/convert.h"
#include "import/random_shapes.h"

/* Standard deviations that keep activations near one: 1/sqrt(width) for products, smaller with depth for what is added
 * to the residual, logits with a standard deviation of two. */
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

/* ---- import ---- */

typedef struct generator {
    const lh_import_options *options;
    lh_config config;
    lh_dtype type;
    lh_import_meter meter;
    lh_checkpoint_writer *writer;
    float *wide;
    char *stored;
} generator;

static lh_dtype type_of(const generator *g, lh_weight weight)
{
    return lh_weight_type(weight, g->type);
}

static lh_status count_weight(void *self, lh_weight weight, int64_t layer)
{
    generator *g = self;
    int64_t rows, cols;
    (void)layer;
    lh_weight_shape(&g->config, weight, &rows, &cols);
    g->meter.total_bytes += rows * cols * lh_dtype_bytes(type_of(g, weight));
    return LH_OK;
}

static lh_status write_weight(void *self, lh_weight weight, int64_t layer)
{
    generator *g = self;
    int64_t rows, cols;
    lh_weight_shape(&g->config, weight, &rows, &cols);
    const lh_random_weight w = lh_random_weight_of(&g->config, weight, layer);
    int64_t step = LH_IMPORT_VALUES / cols;
    lh_dtype type = type_of(g, weight);
    LH_TRY(lh_checkpoint_begin(g->writer, weight, layer, type));
    for (int64_t row = 0; row < rows; row += step) {
        int64_t n = rows - row < step ? rows - row : step;
#pragma omp parallel for schedule(static) if (n * cols > 1 << 14)
        for (int64_t r = 0; r < n; r++) {
            float *values = g->wide + r * cols;
            lh_normals(values, g->options->seed, w.stream, (row + r) * cols, cols);
            for (int64_t i = 0; i < cols; i++) values[i] = w.mean + w.scale * values[i];
        }
        const lh_convert convert = {.dst = g->stored,
                                    .dst_type = type,
                                    .ld = cols,
                                    .src = g->wide,
                                    .src_type = LH_F32,
                                    .rows = n,
                                    .cols = cols};
        lh_convert_rows(&convert);
        LH_TRY(lh_checkpoint_rows(g->writer, g->stored, n));
        LH_TRY(lh_import_advance(&g->meter, n * cols * lh_dtype_bytes(type)));
    }
    LH_TRY(lh_checkpoint_end(g->writer));
    return LH_OK;
}

static lh_status generate(generator *g, const char *shape)
{
    lh_status st = LH_OK;
    lh_checkpoint_meta meta = {.config_json = lh_random_shape_config(shape)};
    char *tokenizer = NULL;
    LH_TRY_DONE(lh_checkpoint_each(&g->config, count_weight, g));
    LH_TRY_DONE(lh_partial_claim(g->options->out, g->meter.total_bytes));
    LH_TRY_DONE(lh_random_shape_tokenizer(shape, &tokenizer, &meta.tokenizer_meta));
    meta.tokenizer = tokenizer;
    if (tokenizer)
        meta.tokenizer_bytes = (int64_t)strlen(tokenizer);
    else
        lh_warn("shape '%s' has no tokenizer: the checkpoint takes token ids, but no text", shape);
    LH_TRY_DONE(lh_calloc(&g->wide, LH_IMPORT_VALUES, sizeof(float)));
    LH_TRY_DONE(lh_calloc(&g->stored, LH_IMPORT_VALUES, sizeof(float)));
    LH_TRY_DONE(lh_checkpoint_create(&g->writer, g->options->out, &meta));
    LH_TRY_DONE(lh_checkpoint_each(&g->config, write_weight, g));
    st = lh_checkpoint_finish(g->writer);
    g->writer = NULL;
    LH_TRY_DONE(st);
done:
    lh_free(tokenizer);
    return st;
}

lh_status lh_random_import(const lh_import_options *options)
{
    lh_status st = LH_OK;
    generator g = {.options = options, .meter = {.progress = options->progress}};
    const char *shape = options->random, *text;
    int automatic;
    LH_TRY_DONE(lh_import_dtype(options->dtype, &g.type, &automatic));
    LH_TRY_DONE(lh_random_shape_check(shape));
    text = lh_random_shape_config(shape);
    LH_TRY_DONE(lh_config_parse_text(&g.config, text, (int64_t)strlen(text), shape));
    LH_TRY_DONE(generate(&g, shape));
done:
    lh_checkpoint_drop(g.writer);
    lh_config_clear(&g.config);
    lh_free(g.wide);
    lh_free(g.stored);
    return st;
}
