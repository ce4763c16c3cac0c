/* import.c - imports a model. A plan maps every weight of the configuration to rows of a tensor of the source and
 * checks its shape; then the weights are written in order, a buffer of rows at a time: read from the mapping, and
 * either kept as blocks or dequantised to f32 and converted to the stored type; checked to be finite. */
#include "import/import.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/output.h"
#include "base/size_text.h"
#include "import/checkpoint.h"
#include "import/config_impl.h"
#include "import/convert.h"
#include "import/format_tally.h"
#include "import/import_impl.h"
#include "import/import_source.h"
#include "import/quantised.h"
#include "import/tokenizer_source.h"

int64_t lh_import_chunk_rows(int64_t cols)
{
    enum { VALUES = 1 << 22 };
    return lh_max_i64(VALUES / cols, 1);
}

lh_status lh_import_advance(lh_import_meter *m, int64_t bytes)
{
    m->done_bytes += bytes;
    if (!m->progress.done) return LH_OK;
    return m->progress.done(m->progress.self, m->done_bytes, m->total_bytes);
}

/* ---- a source ---- */

/* Source of the rows of a weight, or of an expert's part of it. */
typedef struct job {
    lh_weight weight;
    int64_t layer;
    int64_t part, parts;
    lh_source_tensor *from;
    int64_t first;             /* row of the tensor: several weights can share one */
    int64_t rows, cols, heads; /* heads: > 0 where GGUF interleaves the rows of a head */
    double offset;             /* added to every value: GGUF's Gemma norms are 1 + w */
    const lh_format *format;   /* as stored: blocks as in the source, or plain numbers */
} job;

typedef struct importer {
    const lh_import_options *options;
    lh_source *source;
    char *config_name; /* for messages */
    lh_config config;
    const char *prefix; /* of Hugging Face's names, such as "model." */
    lh_import_types types;
    job *jobs;
    int64_t n;
    lh_import_meter meter;
    lh_format_tally kept;             /* tensors that are quantised in the source, and stored as blocks */
    lh_format_tally grown, quantised; /* as in the source: quantised ones that become plain, and the reverse */
    lh_format_tally blocks;           /* as stored: ones that are quantised here */
    int64_t grown_bytes;              /* in the checkpoint */
    const char *obstacle;             /* why no grown tensor is blocks; NULL: unknown, or the reasons differ */
    /* Takes rows [row, row + n) of a weight, in `stored`: writes them, or compares them with a checkpoint. */
    lh_status (*take)(struct importer *im, const job *j, int64_t row, int64_t n);
    lh_checkpoint_writer *writer;
    lh_checkpoint *other; /* to compare with */
    /* Buffers of a chunk of rows: as in the source, as f32, as stored. */
    char *raw, *stored;
    float *wide;
} importer;

/* ---- which tensor is which weight ---- */

/* Models with and without image input name the same tensors differently. */
static lh_status find_prefix(importer *im)
{
    static const char *const known[] = {"model.", "", "language_model.model.", "model.language_model."};
    char name[128];
    for (size_t i = 0; i < sizeof known / sizeof *known && !im->prefix; i++) {
        snprintf(name, sizeof name, "%sembed_tokens.weight", known[i]);
        if (lh_source_find(im->source, name)) im->prefix = known[i];
    }
    if (!im->prefix && !lh_source_is_gguf(im->source))
        LH_FAIL(LH_EINPUT, "'%s' has no tensor 'model.embed_tokens.weight': it is no language model",
                lh_source_path(im->source));
    return LH_OK;
}

/* ---- the output projection ---- */

/* lm_head of a Hugging Face folder; NULL if it has none. */
static lh_source_tensor *find_head(const importer *im)
{
    static const char *const known[] = {"lm_head.weight", "language_model.lm_head.weight"};
    lh_source_tensor *head = NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known && !head; i++) head = lh_source_find(im->source, known[i]);
    return head;
}

/* True if both tensors hold the same bytes in the same shape and type. */
static int same_tensor(const lh_source_tensor *a, const lh_source_tensor *b)
{
    return !a->quantised && !b->quantised && a->format == b->format && a->rank == b->rank &&
           memcmp(a->dims, b->dims, sizeof a->dims) == 0 && a->bytes == b->bytes &&
           memcmp(a->data, b->data, (size_t)a->bytes) == 0;
}

/* The tensors decide, not the configuration, as in transformers 5: an lm_head that differs from the embedding is used;
 * without an lm_head the embedding is used. */
static lh_status settle_head(importer *im)
{
    char name[128];
    const lh_source_tensor *head = find_head(im);
    int tied = im->config.tied;
    if (lh_source_is_gguf(im->source)) return LH_OK; /* its configuration comes from its tensors */
    snprintf(name, sizeof name, "%sembed_tokens.weight", im->prefix);
    if (head && tied) tied = same_tensor(head, lh_source_find(im->source, name));
    if (!head && !tied) LH_TRY(lh_source_may_be_tied(im->source, &tied));
    if (tied == im->config.tied) return LH_OK;
    if (head)
        lh_warn("'%s': 'tie_word_embeddings' is true, but '%s' is not '%s': it is stored and used",
                lh_source_path(im->source), head->name, name);
    im->config.tied = tied;
    return lh_source_set_tied(im->source, tied);
}

/* The name in the family's table, for all experts or for each (with a '*'). */
static const char *listed_name(const importer *im, lh_weight weight)
{
    const lh_tensor_name *row = &im->config.family->tensors[weight];
    return lh_source_is_gguf(im->source) ? row->gguf : row->hf;
}

/* `part`: the expert, where each expert has a tensor. */
static void source_name(const importer *im, const job *j, char name[128])
{
    const char *listed = listed_name(im, j->weight), *star = strchr(listed, '*'), *prefix = im->prefix;
    long long l = (long long)j->layer;
    char own[96];
    if (star)
        snprintf(own, sizeof own, "%.*s%lld%s", (int)(star - listed), listed, (long long)j->part, star + 1);
    else
        snprintf(own, sizeof own, "%s", listed);
    if (lh_source_is_gguf(im->source)) {
        if (lh_weight_info_of(j->weight)->per_layer)
            snprintf(name, 128, "blk.%lld.%s", l, own);
        else
            snprintf(name, 128, "%s", own);
        return;
    }
    if (j->weight == LH_W_HEAD) {
        const lh_source_tensor *head = find_head(im);
        snprintf(name, 128, "%s", head ? head->name : own);
        return;
    }
    if (lh_weight_info_of(j->weight)->per_layer)
        snprintf(name, 128, "%slayers.%lld.%s", prefix, l, own);
    else
        snprintf(name, 128, "%s%s", prefix, own);
}

/* A tensor [rows, cols], a vector where cols is 1, or with a matrix for each of `parts` > 1: [parts, rows / parts,
 * cols]. */
static int has_shape(const lh_source_tensor *t, int64_t rows, int64_t cols, int64_t parts)
{
    if (t->rank == 3) return parts > 1 && t->dims[0] == parts && t->dims[1] == rows / parts && t->dims[2] == cols;
    if (t->rank == 2) return t->dims[0] == rows && t->dims[1] == cols;
    return t->rank == 1 && cols == 1 && t->dims[0] == rows;
}

/* "[3, 10, 24]". */
static const char *shape_text(const lh_source_tensor *t, char text[96])
{
    int n = 0;
    for (int d = 0; d < t->rank; d++)
        n += snprintf(text + n, (size_t)(96 - n), "%s%" PRId64, d ? ", " : "[", t->dims[d]);
    snprintf(text + n, (size_t)(96 - n), t->rank ? "]" : "[]");
    return text;
}

/* `parts`: number of matrices in the tensor, one after the other. */
static lh_status check_tensor(const importer *im, const lh_source_tensor *t, int64_t rows, int64_t cols, int64_t parts)
{
    const char *path = lh_source_path(im->source);
    char shape[96];
    if (!t->format || !lh_format_is_readable(t->format))
        LH_FAIL(LH_EINPUT,
                "'%s': tensor '%s' is of type %s: f32, f16 and bf16 are read, in GGUF files q4_0, q4_1, q5_0, q5_1, "
                "q8_0, q2_K to q6_K, iq4_nl, iq4_xs and mxfp4, in folders what 'quantization_config' describes",
                path, t->name, t->format_name);
    if (cols == 1 && !t->format->is_plain)
        LH_FAIL(LH_EINPUT, "'%s': tensor '%s' is quantised (%s): norms and biases must be plain numbers", path, t->name,
                t->format_name);
    if (!has_shape(t, rows, cols, parts))
        LH_FAIL(LH_EINPUT, "'%s': tensor '%s' is %s, the configuration asks for [%" PRId64 ", %" PRId64 "]", path,
                t->name, shape_text(t, shape), rows, cols);
    return LH_OK;
}

/* auto keeps the format of the source, but for quantised numbers that checkpoints cannot hold as blocks; tensors that
 * are f32 in memory are stored as f32 unless they have the requested type. */
static const lh_format *stored_format(const importer *im, const job *j)
{
    const lh_import_types *types = &im->types;
    const lh_format *from = j->from->format, *blocks = lh_import_quantised(types, &im->config, j->weight, j->layer);
    if ((from->is_plain || from->by_rows) && blocks) return blocks;
    if (types->automatic && lh_format_is_kept(from) && lh_weight_takes_blocks(j->weight)) return from;
    const int is_plain = from->is_plain && !j->from->quantised;
    lh_dtype type = types->automatic && is_plain ? from->plain : types->type;
    return lh_format_of(!is_plain || from->plain != type ? lh_weight_type(j->weight, type) : type);
}

/* Counts a tensor, or the part of a tensor, that is quantised in the source or becomes so. obstacle: why a grown one
 * cannot be blocks, such as "their codes are floats"; NULL: unknown. */
static void count_quantised(importer *im, const job *j, const char *obstacle)
{
    const lh_format *from = lh_source_stored(j->from);
    const int64_t values = j->rows * j->cols, tensors = j->part == 0;
    if (from->is_plain && j->format->is_plain) return;
    if (!j->format->is_plain && j->format == j->from->format) {
        lh_format_tally_add(&im->kept, j->format, tensors, values);
    } else if (j->format->is_plain) {
        im->obstacle = im->grown.n == 0 || obstacle == im->obstacle ? obstacle : NULL;
        lh_format_tally_add(&im->grown, from, tensors, values);
        im->grown_bytes += lh_format_bytes(j->format, values);
    } else {
        lh_format_tally_add(&im->quantised, from, tensors, values);
        lh_format_tally_add(&im->blocks, j->format, tensors, values);
    }
}

static lh_status add_job(importer *im, const job *j)
{
    if ((im->n & (im->n - 1)) == 0) LH_TRY(lh_realloc(&im->jobs, im->n ? 2 * im->n : 1, sizeof *im->jobs));
    im->jobs[im->n++] = *j;
    return LH_OK;
}

/* Reports a missing tensor; its codes may be there without a configuration that describes them. */
static lh_status refuse_without(const lh_source *source, const char *name, int64_t rows, int64_t cols)
{
    static const char *const codes[] = {"qweight", "weight_packed", "weight_q"};
    const char *path = lh_source_path(source), *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof codes / sizeof *codes; i++) {
        char other[160];
        snprintf(other, sizeof other, "%.*s.%s", (int)(dot - name), name, codes[i]);
        if (lh_source_find(source, other))
            LH_FAIL(LH_EINPUT,
                    "'%s' has '%s' in place of '%s': the weights are quantised, and 'quantization_config' of "
                    "config.json does not describe them",
                    path, other, name);
    }
    LH_FAIL(LH_EINPUT, "'%s' has no tensor '%s' [%" PRId64 ", %" PRId64 "]", path, name, rows, cols);
}

/* Plans the tensor of a part: its name, shape and rows. */
static lh_status plan_part(importer *im, job j)
{
    const lh_family *family = im->config.family;
    lh_weight weight = j.weight;
    const lh_tensor_name *row = &family->tensors[weight];
    int gguf = lh_source_is_gguf(im->source);
    int64_t total = j.rows, cols;
    char name[128];
    for (int w = row->first; row->last && w <= (int)row->last; w++) {
        int64_t part;
        lh_weight_shape(&im->config, (lh_weight)w, &part, &cols);
        if (w < (int)weight) j.first += part;
        if (w != (int)weight) total += part;
    }
    source_name(im, &j, name);
    j.from = lh_source_find(im->source, name);
    if (!j.from) return refuse_without(im->source, name, total, j.cols);
    LH_TRY(check_tensor(im, j.from, total, j.cols, j.parts == 1 ? lh_weight_parts(&im->config, weight) : 1));
    j.from->used = 1;
    if (gguf && family->gguf_permuted) {
        if (weight == LH_W_Q || weight == LH_W_Q_BIAS) j.heads = im->config.heads;
        if (weight == LH_W_K || weight == LH_W_K_BIAS) j.heads = im->config.kv_heads;
    }
    if (gguf && family->gemma && lh_weight_is_norm(weight)) j.offset = -1;
    return add_job(im, &j);
}

/* Plans the stored format of the n parts of a weight: of the first one, or, if blocks of others differ from it, the
 * blocks that the options ask for, else plain numbers that hold them all. */
static void plan_format(importer *im, job *parts, int64_t n)
{
    const lh_format *format = stored_format(im, &parts[0]), *plain = lh_format_of(im->types.type),
                    *blocks = lh_import_quantised(&im->types, &im->config, parts->weight, parts->layer);
    int is_mixed = 0;
    for (int64_t i = 0; i < n; i++) {
        const lh_format *other = stored_format(im, &parts[i]);
        is_mixed |= other != format && !(other->is_plain && format->is_plain);
        if (other->is_plain && other->bytes > plain->bytes) plain = other;
    }
    if (is_mixed) format = blocks ? blocks : plain;
    for (int64_t i = 0; i < n; i++) {
        const lh_quantised *matrix = parts[i].from->quantised;
        parts[i].format = format;
        im->meter.total_bytes += lh_format_bytes(parts[i].format, parts[i].rows * parts[i].cols);
        count_quantised(im, &parts[i],
                        is_mixed ? "the experts of a matrix differ in format"
                        : matrix ? lh_quantised_info_of(matrix)->obstacle
                                 : NULL);
    }
}

static lh_status plan_weight(void *self, lh_weight weight, int64_t layer)
{
    importer *im = self;
    job j = {.weight = weight, .layer = layer, .parts = 1};
    lh_weight_shape(&im->config, weight, &j.rows, &j.cols);
    if (strchr(listed_name(im, weight), '*')) j.parts = lh_weight_parts(&im->config, weight);
    j.rows /= j.parts;
    for (; j.part < j.parts; j.part++) LH_TRY(plan_part(im, j));
    plan_format(im, im->jobs + im->n - j.parts, j.parts);
    return LH_OK;
}

/* Tensors that no weight uses and that need no warning. */
static int is_expected_extra(const importer *im, const char *name)
{
    static const char *const ends[] = {"rotary_emb.inv_freq", "rope_freqs.weight", "rope_factors_long.weight",
                                       "rope_factors_short.weight",
                                       /* scales of quantised activations and caches, which are not quantised here */
                                       ".input_scale", ".input_global_scale", ".input_zero_point", ".activation_scale",
                                       ".output_scale", ".k_scale", ".v_scale"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (n >= strlen(ends[i]) && strcmp(name + n - strlen(ends[i]), ends[i]) == 0) return 1;
    return im->config.tied && (strstr(name, "lm_head.weight") != NULL || strcmp(name, "output.weight") == 0);
}

static lh_status warn_unused(importer *im)
{
    lh_status st = LH_OK;
    lh_buf names = {0};
    int64_t n = 0;
    for (int64_t i = 0; i < lh_source_count(im->source); i++) {
        const lh_source_tensor *t = lh_source_at(im->source, i);
        if (t->used || is_expected_extra(im, t->name)) continue;
        if (n < 3) LH_TRY_DONE(lh_buf_printf(&names, "%s'%s'", n ? ", " : "", t->name));
        n++;
    }
    if (n > 0)
        lh_warn("%" PRId64 " tensor%s of '%s' %s not used: %s%s", n, n == 1 ? "" : "s", lh_source_path(im->source),
                n == 1 ? "is" : "are", names.data, n > 3 ? ", …" : "");
done:
    lh_buf_clear(&names);
    return st;
}

/* The checkpoint must not replace its source. */
static lh_status check_out(const lh_import_options *options)
{
    if (lh_file_exists(options->src) && lh_file_is_same(options->src, options->out))
        LH_FAIL(LH_EUSAGE, "'%s' is the source itself: name another file for the checkpoint", options->out);
    return LH_OK;
}

/* ---- the rows ---- */

/* Row of the source for row r of a weight. Converters to GGUF interleave the rows i and i + d/2 of each head of q and k
 * (convert_hf_to_gguf.py, permute). */
static int64_t source_row(const job *j, int64_t r)
{
    if (j->heads == 0) return j->first + r;
    int64_t dim = j->rows / j->heads, h = r / dim, i = r % dim;
    return j->first + h * dim + i % (dim / 2) * 2 + i / (dim / 2);
}

static lh_status complain(const importer *im, const job *j, int64_t row, int64_t at)
{
    int64_t r = row + at / j->cols, c = at % j->cols;
    double value = (double)im->wide[at];
    const char *path = lh_source_path(im->source);
    if (fabs(value) < 0x1p64)
        LH_FAIL(LH_EINPUT, "'%s': tensor '%s' holds %g at [%" PRId64 ", %" PRId64 "], more than %s can: %s", path,
                j->from->name, value, source_row(j, r), c, j->format->name,
                !j->format->is_plain         ? "leave out --quantize"
                : j->format->plain == LH_F16 ? "use --dtype bf16"
                                             : "use --dtype f32");
    LH_FAIL(LH_EINPUT,
            "'%s': tensor '%s' holds %g at [%" PRId64 ", %" PRId64 "]: weights must be finite and below 2^64", path,
            j->from->name, value, source_row(j, r), c);
}

/* Rows [row, row + n) of a weight in the format of the source. */
static void read_rows(const job *j, int64_t row, int64_t n, char *dst)
{
    const int64_t row_bytes = lh_format_bytes(j->from->format, j->cols);
#pragma omp parallel for schedule(static) if (n * j->cols > 1 << 16)
    for (int64_t r = 0; r < n; r++) lh_source_row(j->from, source_row(j, row + r), j->cols, dst + r * row_bytes);
}

/* The source's blocks of rows [row, row + n) of a weight, into im->stored. */
static lh_status fetch_blocks(importer *im, const job *j, int64_t row, int64_t n)
{
    const int64_t blocks = j->cols / j->format->values;
    read_rows(j, row, n, im->stored);
    int64_t bad = lh_find_unusable_block(j->format, (const uint8_t *)im->stored, n * blocks);
    if (bad >= 0)
        LH_FAIL(LH_EINPUT,
                "'%s': tensor '%s' has a %s block at [%" PRId64 ", %" PRId64
                "] with a scale or a code that is not finite",
                lh_source_path(im->source), j->from->name, j->format->name, source_row(j, row + bad / blocks),
                bad % blocks * j->format->values);
    return LH_OK;
}

/* Rows [row, row + n) of a weight, into im->raw as they are, and into im->wide as f32. */
static void widen_rows(importer *im, const job *j, int64_t row, int64_t n)
{
    const lh_format *from = j->from->format;
    int64_t row_blocks = j->cols / from->values, row_bytes = row_blocks * from->bytes;
    read_rows(j, row, n, im->raw); /* copied, because safetensors data need not be aligned */
#pragma omp parallel for schedule(static) if (n * j->cols > 1 << 16)
    for (int64_t r = 0; r < n; r++) {
        const char *raw = im->raw + r * row_bytes;
        lh_format_to_f32(from, im->wide + r * j->cols, (const uint8_t *)raw, row_blocks);
        for (int64_t i = 0; j->offset != 0 && i < j->cols; i++) im->wide[r * j->cols + i] += (float)j->offset;
    }
}

/* Rows [row, row + n) of a weight as blocks of another format than the source's, into im->stored. */
static lh_status quantise_rows(importer *im, const job *j, int64_t row, int64_t n)
{
    widen_rows(im, j, row, n);
    int64_t bad = lh_find_unusable(im->wide, LH_F32, n * j->cols);
    if (bad < 0) bad = lh_import_pack(j->format, im->stored, im->wide, n, j->cols);
    if (bad >= 0) LH_TRY(complain(im, j, row, bad));
    return LH_OK;
}

/* Rows [row, row + n) of a weight as plain numbers, into im->stored. */
static lh_status fetch_numbers(importer *im, const job *j, int64_t row, int64_t n)
{
    widen_rows(im, j, row, n);
    int same = j->from->format == j->format && j->offset == 0;
    const lh_convert convert = {.dst = im->stored,
                                .dst_type = j->format->plain,
                                .ld = j->cols,
                                .src = same ? im->raw : (const char *)im->wide,
                                .src_type = same ? j->format->plain : LH_F32,
                                .rows = n,
                                .cols = j->cols};
    int64_t bad = lh_convert_rows(&convert);
    if (bad >= 0) LH_TRY(complain(im, j, row, bad));
    return LH_OK;
}

static lh_status fetch(importer *im, const job *j, int64_t row, int64_t n)
{
    if (j->format->is_plain) return fetch_numbers(im, j, row, n);
    return j->from->format == j->format ? fetch_blocks(im, j, row, n) : quantise_rows(im, j, row, n);
}

static lh_status write_rows(importer *im, const job *j, int64_t row, int64_t n)
{
    if (j->part == 0 && row == 0) LH_TRY(lh_checkpoint_begin(im->writer, j->weight, j->layer, j->format));
    LH_TRY(lh_checkpoint_rows(im->writer, im->stored, n));
    if (j->part + 1 == j->parts && row + n == j->rows) LH_TRY(lh_checkpoint_end(im->writer));
    return LH_OK;
}

static lh_status compare_rows(importer *im, const job *j, int64_t row, int64_t n)
{
    lh_status st = LH_OK;
    lh_h5_array *array = NULL;
    char name[LH_CHECKPOINT_NAME_BYTES];
    lh_h5 *h5 = lh_checkpoint_file(im->other);
    const int64_t row_bytes = lh_format_bytes(j->format, j->cols);
    lh_checkpoint_name(name, j->weight, j->layer);
    LH_TRY_DONE(lh_h5_array_open(&array, h5, name));
    const lh_h5_shape *shape = lh_h5_array_shape(array);
    const lh_h5_slab part = {.at = {j->part * j->rows + row}, .count = {n, shape->rank > 1 ? shape->dims[1] : 1}};
    LH_TRY_DONE(lh_h5_array_read(array, &part, im->raw));
    for (int64_t r = 0; r < n; r++)
        if (memcmp(im->raw + r * row_bytes, im->stored + r * row_bytes, (size_t)row_bytes) != 0)
            LH_FAIL_DONE(LH_EFILE, "'%s' of '%s' differs from tensor '%s' of '%s', at row %" PRId64, name,
                         lh_h5_path(h5), j->from->name, lh_source_path(im->source), part.at[0] + r);
done:
    lh_h5_array_close(array);
    return st;
}

static lh_status pass_weight(importer *im, const job *j)
{
    const int64_t step = lh_import_chunk_rows(j->cols);
    for (int64_t row = 0; row < j->rows; row += step) {
        int64_t n = j->rows - row < step ? j->rows - row : step;
        LH_TRY(fetch(im, j, row, n));
        LH_TRY(im->take(im, j, row, n));
        lh_source_release(j->from, j->first + row, n, j->cols);
        LH_TRY(lh_import_advance(&im->meter, lh_format_bytes(j->format, n * j->cols)));
    }
    LH_TRY(lh_source_unchanged(j->from));
    return LH_OK;
}

static lh_status allocate(importer *im)
{
    int64_t values = 0;
    for (int64_t i = 0; i < im->n; i++)
        values = lh_max_i64(values, lh_import_chunk_rows(im->jobs[i].cols) * im->jobs[i].cols);
    LH_TRY(lh_calloc(&im->raw, values, sizeof(float)));
    LH_TRY(lh_calloc(&im->stored, values, sizeof(float)));
    LH_TRY(lh_calloc(&im->wide, values, sizeof(float)));
    return LH_OK;
}

/* An unknown member may change the logits. */
static lh_status warn_unknown_members(const importer *im)
{
    lh_status st = LH_OK;
    json_t *json = NULL;
    lh_buf names = {0};
    const char *name = im->config_name, *text = lh_source_config(im->source);
    LH_TRY_DONE(lh_json_parse(&json, name, text, (int64_t)strlen(text)));
    LH_TRY_DONE(lh_config_unknown_members(&names, im->config.family, lh_config_text_of(json)));
    if (names.bytes)
        lh_warn("'%s' has members that are not known for the family '%s' and not used: %s. Where one of them changes "
                "what the model computes, its answers are wrong",
                name, lh_config_family_name(&im->config), names.data);
done:
    json_decref(json);
    lh_buf_clear(&names);
    return st;
}

static lh_status read_config(importer *im)
{
    const char *text = lh_source_config(im->source);
    if (lh_source_is_gguf(im->source))
        LH_TRY(lh_strdup(&im->config_name, im->options->src));
    else
        LH_TRY(lh_path_join(&im->config_name, im->options->src, "config.json"));
    return lh_config_parse_text(&im->config, text, (int64_t)strlen(text), im->config_name);
}

static lh_status plan_weights(importer *im)
{
    LH_TRY(find_prefix(im));
    LH_TRY(settle_head(im));
    return lh_checkpoint_each(&im->config, plan_weight, im);
}

static lh_status make_plan(importer *im)
{
    LH_TRY(read_config(im));
    LH_TRY(warn_unknown_members(im));
    LH_TRY(plan_weights(im));
    return warn_unused(im);
}

/* Prints the bytes of the matrices that are quantised here, before and after. */
static lh_status print_blocks(const importer *im)
{
    lh_status st = LH_OK;
    lh_buf source = {0}, stored = {0};
    int is_short = 0;
    LH_TRY_DONE(lh_format_tally_text(&im->quantised, &source));
    LH_TRY_DONE(lh_format_tally_text(&im->blocks, &stored));
    for (int i = 0; i < im->blocks.n; i++) is_short |= im->blocks.rows[i].format->values < im->types.blocks->values;
    if (im->quantised.n)
        lh_info("weights are quantised to %s: %s become %s%s", im->types.quantize, source.data, stored.data,
                is_short ? "; rows that are no multiple of 256 long have blocks of 32" : "");
    else
        lh_warn("no matrix is quantised to %s: they are so already, or their rows are no multiple of 32 long",
                im->types.quantize);
done:
    lh_buf_clear(&source);
    lh_buf_clear(&stored);
    return st;
}

/* Prints the sizes of quantised weights: users expect a checkpoint of the size of the quantised model. */
static lh_status print_quantised(const importer *im)
{
    lh_status st = LH_OK;
    lh_buf kept = {0}, grown = {0};
    char size[LH_SIZE_TEXT];
    const char *method = lh_source_quantiser(im->source), *obstacle = im->types.automatic ? im->obstacle : NULL;
    LH_TRY_DONE(lh_format_tally_text(&im->kept, &kept));
    LH_TRY_DONE(lh_format_tally_text(&im->grown, &grown));
    if (im->kept.n && method)
        lh_info("weights of the method %s become blocks of exactly the same values: %s", method, kept.data);
    else if (im->kept.n)
        lh_info("quantised weights are kept as they came: %s", kept.data);
    if (im->grown.n)
        lh_info("quantised weights become %s%s%s: %s grow to %s (x%.1f)", lh_dtype_name(im->types.type),
                obstacle ? ", because " : "", obstacle ? obstacle : "", grown.data, lh_size_text(size, im->grown_bytes),
                (double)im->grown_bytes / (double)im->grown.bytes);
    if (im->types.quantize) LH_TRY_DONE(print_blocks(im));
done:
    lh_buf_clear(&kept);
    lh_buf_clear(&grown);
    return st;
}

static lh_status warn_no_tokenizer(const char *src)
{
    lh_status st = LH_OK;
    lh_buf missing = {0};
    LH_TRY_DONE(lh_tokenizer_missing(src, &missing));
    lh_warn("%s: the checkpoint takes token ids, but no text", missing.data);
done:
    lh_buf_clear(&missing);
    return st;
}

/* A tokenizer may have tokens without a row of the embedding, such as ones that were added for training. */
static lh_status warn_many_tokens(const importer *im, const lh_tokenizer *tok)
{
    const int64_t vocab = im->config.vocab, last = lh_tokenizer_vocab(tok) - 1;
    const int32_t id = (int32_t)last;
    lh_buf text = {0};
    if (last < vocab) return LH_OK;
    lh_status st = lh_tokenizer_decode(tok, &id, 1, &text);
    if (st == LH_OK)
        lh_warn("'%s': the tokenizer has ids up to %" PRId64 " ('%.60s'), and the model's vocabulary ends at %" PRId64
                ": a text that holds a token above is refused",
                im->options->src, last, text.data ? text.data : "", vocab - 1);
    lh_buf_clear(&text);
    return st;
}

static lh_status import_source(importer *im)
{
    lh_status st = LH_OK;
    lh_tokenizer *tok = NULL;
    lh_buf tokenizer = {0}, meta = {0};
    LH_TRY_DONE(check_out(im->options));
    LH_TRY_DONE(lh_source_open(&im->source, im->options->src));
    LH_TRY_DONE(make_plan(im));
    LH_TRY_DONE(lh_tokenizer_source(&tok, im->options->src, &tokenizer, &meta));
    LH_TRY_DONE(tok ? warn_many_tokens(im, tok) : warn_no_tokenizer(im->options->src));
    LH_TRY_DONE(lh_partial_claim(im->options->out, im->meter.total_bytes));
    LH_TRY_DONE(print_quantised(im));
    LH_TRY_DONE(allocate(im));
    const lh_checkpoint_meta all = {.config_json = lh_source_config(im->source),
                                    .tokenizer = tokenizer.bytes ? tokenizer.data : NULL,
                                    .tokenizer_bytes = tokenizer.bytes,
                                    .tokenizer_meta = meta.bytes ? meta.data : NULL};
    LH_TRY_DONE(lh_checkpoint_create(&im->writer, im->options->out, &all));
    for (int64_t i = 0; i < im->n; i++) LH_TRY_DONE(pass_weight(im, &im->jobs[i]));
    st = lh_checkpoint_finish(im->writer);
    im->writer = NULL;
    LH_TRY_DONE(st);
done:
    lh_tokenizer_close(tok);
    lh_buf_clear(&tokenizer);
    lh_buf_clear(&meta);
    return st;
}

/* ---- a checkpoint beside its source ---- */

/* The weights are compared as the checkpoint stores them. LH_EFILE if blocks have another format than the source's, and
 * the plan makes neither plain numbers nor f8_e4m3 of the tensor, which an import can quantise. */
static lh_status match_weight(importer *im, job *j)
{
    char name[LH_CHECKPOINT_NAME_BYTES];
    const char *path = lh_h5_path(lh_checkpoint_file(im->other));
    const int can_change = j->format->is_plain || j->format->by_rows;
    int64_t rows, cols;
    lh_weight_shape(lh_checkpoint_config(im->other), j->weight, &rows, &cols);
    lh_checkpoint_name(name, j->weight, j->layer);
    if (j->layer >= lh_checkpoint_config(im->other)->layers || rows != j->rows * j->parts || cols != j->cols)
        LH_FAIL(LH_EFILE, "'%s' has no '%s' [%" PRId64 ", %" PRId64 "] as '%s' has it", path, name, j->rows * j->parts,
                j->cols, lh_source_path(im->source));
    j->format = lh_checkpoint_format(im->other, j->weight, j->layer);
    if (!j->format->is_plain && j->format != j->from->format && !(j->format->pack && can_change))
        LH_FAIL(LH_EFILE, "'%s' of '%s' is %s, tensor '%s' of '%s' is %s", name, path, j->format->name, j->from->name,
                lh_source_path(im->source), j->from->format->name);
    im->meter.total_bytes += lh_format_bytes(j->format, j->rows * j->cols);
    return LH_OK;
}

static lh_status count_tensor(void *self, lh_weight weight, int64_t layer)
{
    int64_t *n = self;
    (void)weight, (void)layer;
    ++*n;
    return LH_OK;
}

static lh_status compare_source(importer *im)
{
    int64_t have = 0, want = 0;
    LH_TRY(lh_source_open(&im->source, im->options->src));
    LH_TRY(make_plan(im));
    LH_TRY(lh_checkpoint_open(&im->other, im->options->out));
    LH_TRY(allocate(im));
    im->meter.total_bytes = 0;
    for (int64_t i = 0; i < im->n; i++) LH_TRY(match_weight(im, &im->jobs[i]));
    LH_TRY(lh_checkpoint_each(lh_checkpoint_config(im->other), count_tensor, &have));
    LH_TRY(lh_checkpoint_each(&im->config, count_tensor, &want));
    if (have != want)
        LH_FAIL(LH_EFILE, "'%s' has %" PRId64 " tensors, of '%s' it would have %" PRId64, im->options->out, have,
                lh_source_path(im->source), want);
    for (int64_t i = 0; i < im->n; i++) LH_TRY(pass_weight(im, &im->jobs[i]));
    return LH_OK;
}

static void clear_importer(importer *im)
{
    lh_checkpoint_drop(im->writer);
    lh_checkpoint_close(im->other);
    lh_source_close(im->source);
    lh_config_clear(&im->config);
    lh_free(im->config_name);
    lh_free(im->jobs);
    lh_free(im->raw);
    lh_free(im->stored);
    lh_free(im->wide);
}

lh_status lh_import_compare(const char *src, const char *checkpoint, const lh_import_progress *progress, int64_t *bytes)
{
    const lh_import_options options = {.src = src, .out = checkpoint};
    importer im = {
        .options = &options, .types = {.automatic = 1}, .take = compare_rows, .meter = {.progress = *progress}};
    lh_status st = compare_source(&im);
    *bytes = im.meter.done_bytes;
    clear_importer(&im);
    return st;
}

lh_status lh_import(const lh_import_options *options)
{
    lh_status st = LH_OK;
    importer im = {.options = options, .take = write_rows, .meter = {.progress = options->progress}};
    LH_TRY_DONE(lh_import_types_of(&im.types, options));
    if (options->random)
        LH_TRY_DONE(lh_import_random(options));
    else
        LH_TRY_DONE(import_source(&im));
done:
    clear_importer(&im);
    lh_partial_drop(options->out);
    return st;
}

lh_status lh_import_formats(const lh_format ***out, lh_config *config, const char *src)
{
    lh_status st = LH_OK;
    const lh_import_options options = {.src = src};
    importer im = {.options = &options, .types = {.type = LH_BF16, .automatic = 1}};
    LH_TRY_DONE(lh_source_open(&im.source, src));
    LH_TRY_DONE(read_config(&im));
    LH_TRY_DONE(plan_weights(&im));
    LH_TRY_DONE(lh_calloc(out, lh_weight_formats_count(&im.config), sizeof **out));
    for (const job *j = im.jobs; j < im.jobs + im.n; j++)
        (*out)[lh_weight_format_index(j->weight, j->layer)] = j->format;
    *config = im.config;
    im.config = (lh_config){0};
done:
    clear_importer(&im);
    return st;
}
