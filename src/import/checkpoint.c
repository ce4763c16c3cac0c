/* checkpoint.c - reads and writes checkpoints. Opening compares attributes, shapes and types of all datasets with the
 * configuration, so that reading a range of rows and columns later can only fail on the data. A range is read in pieces
 * of a fixed size and converted on the way; rows of blocks can also be read as they are. Writing takes configuration
 * and tokenizer first, then one tensor after another by rows; the file gets its name when it is complete and has been
 * checked. */
#include "import/checkpoint.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/minmax.h"
#include "import/convert.h"
#include "import/random_shapes.h"
#include "import/random_weights.h"

/* Bytes read at a time: large enough for a disk, small compared with a layer. */
#define STAGE_BYTES (INT64_C(32) << 20)

struct lh_checkpoint {
    lh_h5 *h5;  /* NULL: a random model */
    char *name; /* of the model, for messages */
    lh_config config;
    char *config_json, *tokenizer, *meta;
    int64_t tokenizer_bytes, meta_bytes;
    const lh_format **formats; /* lh_weight_format */
    uint64_t identity;
    lh_hasher *hasher; /* of the identity, while opening the file */
};

void lh_checkpoint_name(char name[LH_CHECKPOINT_NAME_BYTES], lh_weight weight, int64_t layer)
{
    const lh_weight_info *info = lh_weight_info_of(weight);
    if (info->per_layer)
        snprintf(name, LH_CHECKPOINT_NAME_BYTES, "/weights/layers/%03lld/%s", (long long)layer, info->name);
    else
        snprintf(name, LH_CHECKPOINT_NAME_BYTES, "/weights/%s", info->name);
}

lh_h5_shape lh_checkpoint_shape(const lh_config *config, lh_weight weight, const lh_format *format)
{
    lh_h5_shape shape = {.type = format->is_plain ? format->plain : LH_U8};
    lh_weight_shape(config, weight, &shape.dims[0], &shape.dims[1]);
    if (!format->is_plain) shape.dims[1] = lh_format_bytes(format, shape.dims[1]);
    shape.rank = shape.dims[0] == 0 ? 0 : lh_weight_info_of(weight)->rank;
    return shape;
}

lh_status lh_checkpoint_each(const lh_config *config, lh_checkpoint_visit visit, void *arg)
{
    int64_t rows, cols;
    for (int w = 0; w < LH_WEIGHTS; w++) {
        lh_weight_shape(config, (lh_weight)w, &rows, &cols);
        if (rows > 0 && !lh_weight_info_of((lh_weight)w)->per_layer) LH_TRY(visit(arg, (lh_weight)w, 0));
    }
    for (int64_t l = 0; l < config->layers; l++) {
        for (int w = 0; w < LH_WEIGHTS; w++) {
            lh_weight_shape(config, (lh_weight)w, &rows, &cols);
            if (rows > 0 && lh_weight_info_of((lh_weight)w)->per_layer) LH_TRY(visit(arg, (lh_weight)w, l));
        }
    }
    return LH_OK;
}

static void set_format(lh_checkpoint *ck, lh_weight weight, int64_t layer, const lh_format *format)
{
    ck->formats[lh_weight_format_index(weight, layer)] = format;
}

/* The format of blocks, which the attributes of a dataset name. */
static lh_status read_format(const lh_format **out, const lh_checkpoint *ck, lh_weight weight, const char *name)
{
    lh_status st = LH_OK;
    char *text = NULL;
    int64_t rows, want, cols = 0;
    lh_weight_shape(&ck->config, weight, &rows, &want);
    LH_TRY_DONE(lh_h5_get_string(ck->h5, name, "format", &text));
    LH_TRY_DONE(lh_h5_get_i64(ck->h5, name, "cols", &cols));
    const lh_format *format = text ? lh_format_named(text) : NULL;
    if (!format || !lh_format_is_kept(format))
        LH_FAIL_DONE(LH_EFILE,
                     "'%s' of '%s' is u8 of the format '%s': weights are f32, f16 or bf16, or u8 blocks of "
                     "q4_0, q4_1, q5_0, q5_1, q8_0, q4_K, q5_K, q6_K, iq4_nl, iq4_xs or f8_e4m3",
                     name, lh_h5_path(ck->h5), text ? text : "");
    if (!lh_weight_takes_blocks(weight))
        LH_FAIL_DONE(LH_EFILE, "'%s' of '%s' is %s: norms, biases and routers are f32, f16 or bf16", name,
                     lh_h5_path(ck->h5), format->name);
    if (cols != want || cols % format->values != 0)
        LH_FAIL_DONE(LH_EFILE, "'%s' of '%s' has %lld columns in blocks of %lld, its configuration asks for %lld", name,
                     lh_h5_path(ck->h5), (long long)cols, (long long)format->values, (long long)want);
    *out = format;
done:
    lh_free(text);
    return st;
}

static lh_status check_tensor(void *self, lh_weight weight, int64_t layer)
{
    lh_status st = LH_OK;
    lh_checkpoint *ck = self;
    const lh_format *format = NULL;
    lh_h5_array *array = NULL;
    char name[LH_CHECKPOINT_NAME_BYTES];
    uint64_t hash = 0;
    int found = 0;
    lh_checkpoint_name(name, weight, layer);
    LH_TRY_DONE(lh_h5_array_open(&array, ck->h5, name));
    const lh_h5_shape *have = lh_h5_array_shape(array);
    if (have->type <= LH_BF16)
        format = lh_format_of(have->type);
    else if (have->type == LH_U8)
        LH_TRY_DONE(read_format(&format, ck, weight, name));
    else
        LH_FAIL_DONE(LH_EFILE, "'%s' of '%s' is %s: weights are f32, f16 or bf16, or u8 blocks", name,
                     lh_h5_path(ck->h5), lh_dtype_name(have->type));
    const lh_h5_shape want = lh_checkpoint_shape(&ck->config, weight, format);
    if (have->rank != want.rank || have->dims[0] != want.dims[0] || (want.rank > 1 && have->dims[1] != want.dims[1]))
        LH_FAIL_DONE(LH_EFILE, "'%s' of '%s' is [%lld, %lld], its configuration asks for [%lld, %lld]", name,
                     lh_h5_path(ck->h5), (long long)have->dims[0], (long long)(have->rank > 1 ? have->dims[1] : 1),
                     (long long)want.dims[0], (long long)want.dims[1]);
    set_format(ck, weight, layer, format);
    LH_TRY_DONE(lh_h5_get_hash(ck->h5, name, &hash, &found));
    lh_hasher_add(ck->hasher, &hash, sizeof hash);
    if (!format->is_plain) lh_hasher_add(ck->hasher, format->name, (int64_t)strlen(format->name));
done:
    lh_h5_array_close(array);
    return st;
}

static lh_status read_texts(lh_checkpoint *ck)
{
    lh_status st = LH_OK;
    char *name = NULL;
    int64_t bytes = 0;
    LH_TRY_DONE(lh_asprintf(&name, "%s of %s", LH_CHECKPOINT_CONFIG, lh_h5_path(ck->h5)));
    LH_TRY_DONE(lh_h5_get_text(ck->h5, LH_CHECKPOINT_CONFIG, &ck->config_json, &bytes));
    st = lh_config_parse_text(&ck->config, ck->config_json, bytes, name);
    if (st == LH_EINPUT)
        st = lh_fail_within(LH_EFILE, "bad checkpoint"); /* a checkpoint is not a source of an import */
    LH_TRY_DONE(st);
    lh_hasher_add(ck->hasher, ck->config_json, bytes);
    if (lh_h5_has(ck->h5, LH_CHECKPOINT_TOKENIZER))
        LH_TRY_DONE(lh_h5_get_text(ck->h5, LH_CHECKPOINT_TOKENIZER, &ck->tokenizer, &ck->tokenizer_bytes));
    if (lh_h5_has(ck->h5, LH_CHECKPOINT_TOKENIZER_META))
        LH_TRY_DONE(lh_h5_get_text(ck->h5, LH_CHECKPOINT_TOKENIZER_META, &ck->meta, &ck->meta_bytes));
done:
    lh_free(name);
    return st;
}

static lh_status alloc_formats(lh_checkpoint *ck)
{
    return lh_calloc(&ck->formats, lh_weight_formats_count(&ck->config), sizeof(const lh_format *));
}

lh_status lh_checkpoint_open(lh_checkpoint **out, const char *path)
{
    lh_status st = LH_OK;
    lh_checkpoint *ck = NULL;
    const lh_h5_header want = {.kind = "checkpoint", .schema = LH_CHECKPOINT_SCHEMA};
    LH_TRY_DONE(lh_calloc(&ck, 1, sizeof *ck));
    LH_TRY_DONE(lh_strdup(&ck->name, path));
    LH_TRY_DONE(lh_h5_open(&ck->h5, path, &want));
    LH_TRY_DONE(lh_hasher_open(&ck->hasher));
    LH_TRY_DONE(read_texts(ck));
    LH_TRY_DONE(alloc_formats(ck));
    LH_TRY_DONE(lh_checkpoint_each(&ck->config, check_tensor, ck));
    ck->identity = lh_hasher_value(ck->hasher);
    *out = ck;
    ck = NULL;
done:
    lh_checkpoint_close(ck);
    return st;
}

static lh_status open_random(lh_checkpoint **out, const char *name, const char *weights)
{
    lh_status st = LH_OK;
    lh_checkpoint *ck = NULL;
    const char *shape = lh_random_shape_of(name), *meta;
    lh_import_types types;
    LH_TRY_DONE(lh_random_types(&types, weights));
    LH_TRY_DONE(lh_calloc(&ck, 1, sizeof *ck));
    LH_TRY_DONE(lh_strdup(&ck->name, name));
    LH_TRY_DONE(lh_random_shape_config(shape, &ck->config_json));
    LH_TRY_DONE(lh_config_parse_text(&ck->config, ck->config_json, (int64_t)strlen(ck->config_json), name));
    LH_TRY_DONE(lh_random_shape_tokenizer(shape, &ck->tokenizer, &meta));
    if (meta) LH_TRY_DONE(lh_strdup(&ck->meta, meta));
    ck->tokenizer_bytes = ck->tokenizer ? (int64_t)strlen(ck->tokenizer) : 0;
    ck->meta_bytes = ck->meta ? (int64_t)strlen(ck->meta) : 0;
    LH_TRY_DONE(lh_random_formats(&ck->formats, &ck->config, &types));
    LH_TRY_DONE(lh_hasher_open(&ck->hasher));
    lh_hasher_add(ck->hasher, name, (int64_t)strlen(name));
    lh_hasher_add(ck->hasher, ck->config_json, (int64_t)strlen(ck->config_json));
    if (weights) lh_hasher_add(ck->hasher, weights, (int64_t)strlen(weights));
    ck->identity = lh_hasher_value(ck->hasher);
    *out = ck;
    ck = NULL;
done:
    lh_checkpoint_close(ck);
    return st;
}

static int64_t divide_up(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

typedef struct cut_model {
    lh_checkpoint *ck;
    const lh_checkpoint_part *part;
} cut_model;

/* The format of a tensor of a whole model; NULL: plain numbers of bf16. */
static const lh_format *whole_format(const lh_checkpoint_part *part, lh_weight w, int64_t layer)
{
    const lh_format *format = part->formats ? lh_weight_format(part->formats, w, layer) : NULL;
    return format && !format->is_plain ? format : NULL;
}

/* Without scaled rotary factors and windows, which do not change the time of a product. The channels of `down` are
 * whole blocks. */
static lh_status cut_config(lh_config *out, const lh_checkpoint_part *part)
{
    enum { VOCAB = 1024, POSITIONS = 1 << 24 };
    const lh_config *of = part->config;
    const lh_format *down = whole_format(part, LH_W_DOWN, 0);
    const int64_t group = of->heads / of->kv_heads, heads = divide_up(of->heads, part->ranks);
    const int64_t block = down ? down->values : 1;
    *out = *of;
    out->layers = part->layers;
    out->kv_heads = divide_up(of->kv_heads, part->ranks);
    out->heads = of->kv_heads < part->ranks ? heads : out->kv_heads * group;
    out->ff = divide_up(divide_up(of->ff, part->ranks), block) * block;
    out->vocab = of->vocab < VOCAB ? of->vocab : VOCAB;
    out->max_positions = POSITIONS;
    out->window = 0;
    out->rope_global = out->rope_local = (lh_rope){.theta = 10000, .max_positions = POSITIONS};
    out->sliding = out->unrotated = NULL;
    LH_TRY(lh_calloc(&out->sliding, part->layers, sizeof *out->sliding));
    return lh_calloc(&out->unrotated, part->layers, sizeof *out->unrotated);
}

/* Replaces the plain formats of the cut model by the whole model's blocks. */
static lh_status set_cut(void *self, lh_weight weight, int64_t layer)
{
    const cut_model *cut = self;
    const lh_format *format = whole_format(cut->part, weight, layer);
    int64_t rows, cols;
    lh_weight_shape(&cut->ck->config, weight, &rows, &cols);
    if (format) format = lh_format_fitting(format, cols);
    if (format) set_format(cut->ck, weight, layer, format);
    return LH_OK;
}

lh_status lh_checkpoint_open_layers(lh_checkpoint **out, const lh_checkpoint_part *part)
{
    lh_status st = LH_OK;
    lh_checkpoint *ck = NULL;
    LH_TRY_DONE(lh_calloc(&ck, 1, sizeof *ck));
    LH_TRY_DONE(lh_strdup(&ck->name, "layers of the model"));
    LH_TRY_DONE(cut_config(&ck->config, part));
    LH_TRY_DONE(lh_random_formats(&ck->formats, &ck->config, &(lh_import_types){.type = LH_BF16}));
    LH_TRY_DONE(lh_checkpoint_each(&ck->config, set_cut, &(cut_model){ck, part}));
    *out = ck;
    ck = NULL;
done:
    lh_checkpoint_close(ck);
    return st;
}

lh_status lh_checkpoint_open_model(lh_checkpoint **out, const char *name, const char *weights)
{
    if (lh_random_shape_of(name)) return open_random(out, name, weights);
    if (weights)
        LH_FAIL(LH_EUSAGE, "'%s %s' is the format of random weights ('random:SHAPE'), and '%s' is a file: leave it out",
                lh_setting("weights"), weights, name);
    return lh_checkpoint_open(out, name);
}

void lh_checkpoint_close(lh_checkpoint *ck)
{
    if (!ck) return;
    lh_h5_close(ck->h5);
    lh_hasher_close(ck->hasher);
    lh_free(ck->name);
    lh_config_clear(&ck->config);
    lh_free(ck->formats);
    lh_free(ck->config_json);
    lh_free(ck->tokenizer);
    lh_free(ck->meta);
    lh_free(ck);
}

lh_h5 *lh_checkpoint_file(const lh_checkpoint *ck)
{
    return ck->h5;
}

const lh_config *lh_checkpoint_config(const lh_checkpoint *ck)
{
    return &ck->config;
}

uint64_t lh_checkpoint_identity(const lh_checkpoint *ck)
{
    return ck->identity;
}

lh_dtype lh_checkpoint_dtype(const lh_checkpoint *ck)
{
    return lh_weight_formats_type(ck->formats);
}

const lh_format *lh_checkpoint_format(const lh_checkpoint *ck, lh_weight weight, int64_t layer)
{
    return lh_weight_format(ck->formats, weight, layer);
}

const lh_format *const *lh_checkpoint_formats(const lh_checkpoint *ck)
{
    return ck->formats;
}

const char *lh_checkpoint_tokenizer(const lh_checkpoint *ck, int64_t *bytes)
{
    *bytes = ck->tokenizer_bytes;
    return ck->tokenizer;
}

const char *lh_checkpoint_tokenizer_meta(const lh_checkpoint *ck, int64_t *bytes)
{
    *bytes = ck->meta_bytes;
    return ck->meta;
}

lh_status lh_checkpoint_open_tokenizer(const lh_checkpoint *ck, lh_tokenizer **out)
{
    lh_status st = LH_OK;
    lh_tokenizer *tok = NULL;
    char *name = NULL;
    *out = NULL;
    if (!ck->tokenizer) goto done;
    LH_TRY_DONE(lh_asprintf(&name, "%s of %s", LH_CHECKPOINT_TOKENIZER, ck->name));
    st = lh_tokenizer_parse(&tok, name, ck->tokenizer, ck->tokenizer_bytes, NULL, 0);
    if (st == LH_OK && ck->meta_bytes) {
        lh_free(name);
        name = NULL;
        LH_TRY_DONE(lh_asprintf(&name, "%s of %s", LH_CHECKPOINT_TOKENIZER_META, ck->name));
        st = lh_tokenizer_apply_meta(tok, name, ck->meta, ck->meta_bytes);
    }
    if (st == LH_EINPUT) st = lh_fail_within(LH_EFILE, "bad tokenizer"); /* in a file of ours */
    LH_TRY_DONE(st);
    *out = tok;
    tok = NULL;
done:
    lh_tokenizer_close(tok);
    lh_free(name);
    return st;
}

/* The columns of a range as elements of its dataset: plain numbers, or the bytes of the blocks that hold them. */
static lh_h5_slab slab_of(const lh_format *format, const lh_weight_range *range)
{
    const int64_t first = range->col / format->values, end = range->col + range->cols,
                  blocks = (end + format->values - 1) / format->values - first,
                  elements = format->is_plain ? 1 : format->bytes;
    return (lh_h5_slab){.at = {range->row, first * elements}, .count = {range->rows, blocks * elements}};
}

/* Rows of a range that are read together. */
typedef struct stage {
    const lh_weight_range *range;
    const lh_format *format;
    int64_t row_bytes; /* of `raw` */
    char *raw;         /* as stored, from the first block that holds a column of the range */
    float *wide;       /* the values of blocks, [rows, cols] */
} stage;

/* Opens the dataset of a tensor; it stays NULL in a random model, which draws its blocks. */
static lh_status open_stored(lh_h5_array **out, const lh_checkpoint *ck, const char *name)
{
    return ck->h5 ? lh_h5_array_open(out, ck->h5, name) : LH_OK;
}

/* Elements of a tensor as stored, from its open dataset, or drawn. */
static lh_status read_stored(const lh_checkpoint *ck, lh_h5_array *array, const lh_weight_range *range,
                             const lh_h5_slab *part, void *dst)
{
    if (array) return lh_h5_array_read(array, part, dst);
    const lh_random_weight w = lh_random_weight_of(&ck->config, range->weight, range->layer);
    const lh_format *format = lh_checkpoint_format(ck, range->weight, range->layer);
    int64_t rows, cols;
    lh_weight_shape(&ck->config, range->weight, &rows, &cols);
    const int64_t step = cols / format->values;
    lh_random_blocks_draw(&(lh_random_blocks){.dst = dst,
                                              .format = format,
                                              .first = part->at[0] * step + part->at[1] / format->bytes,
                                              .step = step,
                                              .rows = part->count[0],
                                              .blocks = part->count[1] / format->bytes},
                          &w);
    return LH_OK;
}

/* Converts n rows of a stage to dst [n, ld]; the index of the first unusable value, or -1. */
static int64_t convert_stage(const stage *s, int64_t n, void *dst, lh_dtype type, int64_t ld)
{
    const int64_t cols = s->range->cols, skipped = s->range->col % s->format->values;
    lh_convert convert = {.dst = dst, .dst_type = type, .ld = ld, .src = s->raw, .rows = n, .cols = cols};
    convert.src_type = s->format->plain;
    if (!s->format->is_plain) {
#pragma omp parallel for schedule(static) if (n * cols > 1 << 14)
        for (int64_t r = 0; r < n; r++)
            lh_format_part_to_f32(s->format, s->wide + r * cols, (const uint8_t *)s->raw + r * s->row_bytes, skipped,
                                  cols);
        convert.src = s->wide;
        convert.src_type = LH_F32;
    }
    return lh_convert_rows(&convert);
}

lh_status lh_checkpoint_read(lh_checkpoint *ck, const lh_weight_range *range, void *dst, lh_dtype type, int64_t ld)
{
    lh_status st = LH_OK;
    lh_h5_array *array = NULL;
    char name[LH_CHECKPOINT_NAME_BYTES];
    stage s = {.range = range, .format = lh_checkpoint_format(ck, range->weight, range->layer)};
    assert((ck->h5 || !s.format->is_plain) && (type == LH_F32 || type == LH_BF16) && ld >= range->cols);
    lh_checkpoint_name(name, range->weight, range->layer);
    LH_TRY_DONE(open_stored(&array, ck, name));
    lh_h5_slab part = slab_of(s.format, range);
    s.row_bytes = part.count[1] * (s.format->is_plain ? s.format->bytes : 1);
    int64_t largest = s.format->is_plain ? s.row_bytes : range->cols * (int64_t)sizeof *s.wide;
    int64_t step = largest > 0 && largest < STAGE_BYTES ? STAGE_BYTES / largest : 1;
    if (step > range->rows) step = range->rows;
    LH_TRY_DONE(lh_calloc(&s.raw, step, s.row_bytes));
    if (!s.format->is_plain) LH_TRY_DONE(lh_calloc(&s.wide, step * range->cols, sizeof *s.wide));
    for (int64_t r = 0; r < range->rows; r += step) {
        int64_t n = range->rows - r < step ? range->rows - r : step;
        part.at[0] = range->row + r;
        part.count[0] = n;
        LH_TRY_DONE(read_stored(ck, array, range, &part, s.raw));
        int64_t bad = convert_stage(&s, n, (char *)dst + r * ld * lh_dtype_bytes(type), type, ld);
        if (bad >= 0)
            LH_FAIL_DONE(LH_EFILE,
                         "'%s' of '%s' holds a value that is not finite or not below 2^64, at row %lld, column %lld",
                         name, ck->name, (long long)(range->row + r + bad / range->cols),
                         (long long)(range->col + bad % range->cols));
    }
done:
    lh_free(s.wide);
    lh_free(s.raw);
    lh_h5_array_close(array);
    return st;
}

lh_status lh_checkpoint_read_blocks(lh_checkpoint *ck, const lh_weight_range *range, void *dst)
{
    lh_status st = LH_OK;
    lh_h5_array *array = NULL;
    char name[LH_CHECKPOINT_NAME_BYTES];
    const lh_format *format = lh_checkpoint_format(ck, range->weight, range->layer);
    const int64_t values = format->values, blocks = range->cols / values;
    const lh_h5_slab part = slab_of(format, range);
    assert(!format->is_plain && range->col % values == 0 && range->cols % values == 0);
    lh_checkpoint_name(name, range->weight, range->layer);
    LH_TRY_DONE(open_stored(&array, ck, name));
    LH_TRY_DONE(read_stored(ck, array, range, &part, dst));
    int64_t bad = lh_find_unusable_block(format, dst, range->rows * blocks);
    if (bad >= 0)
        LH_FAIL_DONE(LH_EFILE, "'%s' of '%s' holds a scale or a code that is not finite, at row %lld, column %lld",
                     name, ck->name, (long long)(range->row + bad / blocks),
                     (long long)(range->col + bad % blocks * values));
done:
    lh_h5_array_close(array);
    return st;
}

/* ---- writing ---- */

struct lh_checkpoint_writer {
    lh_h5 *h5;
    lh_config config;
    /* The current tensor. */
    lh_h5_array *array;
    lh_hasher *hasher;
    char name[LH_CHECKPOINT_NAME_BYTES];
    int64_t rows_done;
    int has_blocks; /* true once a tensor of blocks was begun */
};

static lh_status put_meta(lh_checkpoint_writer *w, const lh_checkpoint_meta *meta)
{
    LH_TRY(lh_h5_put_text(w->h5, LH_CHECKPOINT_CONFIG, meta->config_json, (int64_t)strlen(meta->config_json)));
    if (meta->tokenizer) LH_TRY(lh_h5_put_text(w->h5, LH_CHECKPOINT_TOKENIZER, meta->tokenizer, meta->tokenizer_bytes));
    if (meta->tokenizer_meta)
        LH_TRY(lh_h5_put_text(w->h5, LH_CHECKPOINT_TOKENIZER_META, meta->tokenizer_meta,
                              (int64_t)strlen(meta->tokenizer_meta)));
    return LH_OK;
}

lh_status lh_checkpoint_create(lh_checkpoint_writer **out, const char *path, const lh_checkpoint_meta *meta)
{
    lh_status st = LH_OK;
    lh_checkpoint_writer *w = NULL;
    const char *text = meta->config_json;
    const lh_h5_header head = {.kind = "checkpoint", .schema = LH_CHECKPOINT_SCHEMA_PLAIN};
    LH_TRY_DONE(lh_calloc(&w, 1, sizeof *w));
    LH_TRY_DONE(lh_config_parse_text(&w->config, text, (int64_t)strlen(text), "config.json"));
    LH_TRY_DONE(lh_h5_create(&w->h5, path, &head));
    LH_TRY_DONE(put_meta(w, meta));
    *out = w;
    w = NULL;
done:
    lh_checkpoint_drop(w);
    return st;
}

lh_status lh_checkpoint_begin(lh_checkpoint_writer *w, lh_weight weight, int64_t layer, const lh_format *format)
{
    const lh_h5_shape shape = lh_checkpoint_shape(&w->config, weight, format);
    int64_t rows, cols;
    lh_weight_shape(&w->config, weight, &rows, &cols);
    assert(!w->array && shape.rank > 0 && cols % format->values == 0);
    assert(format->is_plain || (lh_format_is_kept(format) && lh_weight_takes_blocks(weight)));
    lh_checkpoint_name(w->name, weight, layer);
    LH_TRY(lh_hasher_open(&w->hasher));
    LH_TRY(lh_h5_array_create(&w->array, w->h5, w->name, &shape, NULL));
    w->rows_done = 0;
    if (format->is_plain) return LH_OK;
    w->has_blocks = 1;
    LH_TRY(lh_h5_put_string(w->h5, w->name, "format", format->name));
    return lh_h5_put_i64(w->h5, w->name, "cols", cols);
}

lh_status lh_checkpoint_rows(lh_checkpoint_writer *w, const void *data, int64_t rows)
{
    const lh_h5_shape *shape = lh_h5_array_shape(w->array);
    int64_t cols = shape->rank > 1 ? shape->dims[1] : 1;
    assert(w->rows_done + rows <= shape->dims[0]);
    const lh_h5_slab part = {.at = {w->rows_done, 0}, .count = {rows, cols}};
    LH_TRY(lh_h5_array_write(w->array, &part, data));
    lh_hasher_add(w->hasher, data, rows * cols * lh_dtype_bytes(shape->type));
    w->rows_done += rows;
    return LH_OK;
}

lh_status lh_checkpoint_end(lh_checkpoint_writer *w)
{
    lh_status st = LH_OK;
    assert(w->array && w->rows_done == lh_h5_array_shape(w->array)->dims[0]);
    LH_TRY_DONE(lh_h5_put_hash(w->h5, w->name, lh_hasher_value(w->hasher)));
done:
    lh_hasher_close(w->hasher);
    lh_h5_array_close(w->array);
    w->hasher = NULL;
    w->array = NULL;
    return st;
}

static lh_status check_written(void *self, lh_weight weight, int64_t layer)
{
    lh_checkpoint_writer *w = self;
    char name[LH_CHECKPOINT_NAME_BYTES];
    lh_checkpoint_name(name, weight, layer);
    if (!lh_h5_has(w->h5, name)) LH_FAIL(LH_EINTERNAL, "'%s' was not written", name);
    return LH_OK;
}

lh_status lh_checkpoint_finish(lh_checkpoint_writer *w)
{
    lh_status st = LH_OK;
    LH_TRY_DONE(lh_checkpoint_each(&w->config, check_written, w));
    if (w->has_blocks) LH_TRY_DONE(lh_h5_put_i64(w->h5, "/", "schema", LH_CHECKPOINT_SCHEMA));
    st = lh_h5_commit(w->h5);
    w->h5 = NULL;
    LH_TRY_DONE(st);
done:
    lh_checkpoint_drop(w);
    return st;
}

void lh_checkpoint_drop(lh_checkpoint_writer *w)
{
    if (!w) return;
    lh_h5_array_close(w->array);
    lh_hasher_close(w->hasher);
    lh_h5_close(w->h5);
    lh_config_clear(&w->config);
    lh_free(w);
}
