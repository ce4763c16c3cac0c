/* verify.c - describes a file of longhaul (`info`), and checks a file of longhaul completely: structure by h5.h,
 * objects and numbers by its kind, then every array in order: its hash, finite values, ascending offsets. Runs in a
 * child process, because a damaged file can crash or hang the HDF5 library. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/child.h"
#include "base/file.h"
#include "base/h5.h"
#include "base/json.h"
#include "import/checkpoint.h"
#include "import/convert.h"
#include "import/format_tally.h"
#include "import/verify.h"

/* Bytes read at a time. */
#define SLICE_BYTES (INT64_C(64) << 20)
#define MEMORY_BYTES (INT64_C(4) << 30)

/* Time limit: a minute, and more for large files; far slower than any disk, so that only a hang exceeds it. */
enum { CPU_S = 60, BYTES_PER_CPU_S = 20000000 };

typedef struct verifier {
    const char *path;
    const lh_file_kind *const *kinds, *kind;
    const lh_import_progress *progress;
    lh_verify_report *report;
    int64_t total_bytes;
    char *slice;
} verifier;

static lh_status advance(verifier *v, int64_t bytes)
{
    v->report->bytes += bytes;
    if (!v->progress || !v->progress->done) return LH_OK;
    return v->progress->done(v->progress->self, v->report->bytes, v->total_bytes);
}

static lh_status check_finite(const verifier *v, const char *name, const lh_h5_shape *shape, const lh_h5_slab *part)
{
    int64_t n = 1, cols = 1, bad;
    for (int d = 0; d < shape->rank; d++) n *= part->count[d];
    for (int d = 1; d < shape->rank; d++) cols *= shape->dims[d];
    bad = lh_find_unusable(v->slice, shape->type, n);
    if (bad >= 0)
        LH_FAIL(LH_EFILE,
                "'%s' of '%s' holds a value that is not finite or not below 2^64, at row %" PRId64 ", column %" PRId64,
                name, v->path, part->at[0] + bad / cols, bad % cols);
    return LH_OK;
}

/* Rows of bytes: blocks, if the array has a format, must have finite scales and codes. */
static lh_status check_blocks(const verifier *v, lh_h5 *h5, const char *name, const lh_h5_slab *part)
{
    lh_status st = LH_OK;
    char *text = NULL;
    LH_TRY_DONE(lh_h5_get_string(h5, name, "format", &text));
    const lh_format *format = text ? lh_format_named(text) : NULL;
    if (!format || !lh_format_is_kept(format)) goto done;
    const int64_t in_row = part->count[1] / format->bytes;
    const int64_t bad = lh_find_unusable_block(format, (const uint8_t *)v->slice, part->count[0] * in_row);
    if (bad >= 0)
        LH_FAIL_DONE(LH_EFILE,
                     "'%s' of '%s' holds a scale or a code that is not finite, at row %" PRId64 ", column %" PRId64,
                     name, v->path, part->at[0] + bad / in_row, bad % in_row * format->values);
done:
    lh_free(text);
    return st;
}

/* Offsets ascend from 0 to the number of entries in the arrays of the same group. */
static lh_status check_offsets(lh_h5 *h5, const char *name)
{
    static const char *const arrays[] = {"positions", "k", "v", "bias"};
    lh_status st = LH_OK;
    const lh_h5_shape want = {.type = LH_I64, .rank = 1, .dims = {-1}};
    lh_h5_shape shape;
    lh_h5_array *array = NULL;
    int64_t *offsets = NULL;
    char *other = NULL;
    LH_TRY_DONE(lh_h5_get(h5, name, &want, &shape, &offsets));
    int64_t n = shape.dims[0];
    int rises = n > 0 && offsets[0] == 0;
    for (int64_t i = 1; i < n; i++) rises &= offsets[i] >= offsets[i - 1];
    if (!rises) LH_FAIL_DONE(LH_EFILE, "'%s' of '%s' must rise from 0", name, lh_h5_path(h5));
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        LH_TRY_DONE(lh_asprintf(&other, "%.*s%s", (int)(lh_path_name(name) - name), name, arrays[i]));
        if (lh_h5_has(h5, other)) {
            LH_TRY_DONE(lh_h5_array_open(&array, h5, other));
            const lh_h5_shape *have = lh_h5_array_shape(array);
            if (have->rank < 1 || have->dims[0] != offsets[n - 1])
                LH_FAIL_DONE(LH_EFILE, "'%s' of '%s' has %" PRId64 " entries, '%s' says %" PRId64, other,
                             lh_h5_path(h5), have->rank ? have->dims[0] : 0, name, offsets[n - 1]);
        }
        lh_h5_array_close(array);
        lh_free(other);
        array = NULL;
        other = NULL;
    }
done:
    lh_h5_array_close(array);
    lh_free(other);
    lh_free(offsets);
    return st;
}

/* Counts the hashes that reading compares. */
static lh_status count_hash(verifier *v, lh_h5 *h5, const char *name)
{
    uint64_t hash = 0;
    int found = 0;
    LH_TRY(lh_h5_get_hash(h5, name, &hash, &found));
    if (!found && v->kind->all_hashed) LH_FAIL(LH_EFILE, "'%s' of '%s' has no attribute 'xxh64'", name, v->path);
    v->report->hashes += found;
    return LH_OK;
}

static lh_status read_array(void *self, lh_h5 *h5, const char *name)
{
    lh_status st = LH_OK;
    verifier *v = self;
    lh_h5_array *array = NULL;
    LH_TRY_DONE(lh_h5_array_open(&array, h5, name));
    LH_TRY_DONE(lh_h5_array_check(array));
    const lh_h5_shape *shape = lh_h5_array_shape(array);
    int64_t size = lh_dtype_bytes(shape->type), rows = shape->rank ? shape->dims[0] : 1,
            row_bytes = rows ? lh_h5_shape_count(shape) / rows * size : size;
    int64_t step = row_bytes > 0 && row_bytes < SLICE_BYTES ? SLICE_BYTES / row_bytes : 1;
    LH_TRY_DONE(lh_realloc(&v->slice, step < rows ? step : rows, row_bytes));
    for (int64_t row = 0; row < rows; row += step) {
        int64_t n = rows - row < step ? rows - row : step;
        lh_h5_slab part = {.at = {row}};
        memcpy(part.count, shape->dims, sizeof part.count);
        part.count[0] = n;
        LH_TRY_DONE(lh_h5_array_read(array, &part, v->slice));
        if (shape->type <= LH_BF16 && !v->kind->holds_nan) LH_TRY_DONE(check_finite(v, name, shape, &part));
        if (shape->type == LH_U8) LH_TRY_DONE(check_blocks(v, h5, name, &part));
        LH_TRY_DONE(advance(v, n * row_bytes));
    }
    LH_TRY_DONE(lh_h5_array_checked(array));
    LH_TRY_DONE(count_hash(v, h5, name));
    if (strcmp(lh_path_name(name), "offsets") == 0) LH_TRY_DONE(check_offsets(h5, name));
    v->report->arrays++;
done:
    lh_h5_array_close(array);
    return st;
}

static lh_status read_text(void *self, lh_h5 *h5, const char *name)
{
    lh_status st = LH_OK;
    verifier *v = self;
    char *text = NULL;
    int64_t bytes = 0;
    LH_TRY_DONE(lh_h5_get_text(h5, name, &text, &bytes));
    LH_TRY_DONE(count_hash(v, h5, name));
    LH_TRY_DONE(advance(v, bytes));
done:
    lh_free(text);
    return st;
}

static lh_status check_checkpoint(lh_h5 *h5)
{
    lh_status st = LH_OK;
    lh_checkpoint *ck = NULL;
    lh_tokenizer *tok = NULL;
    LH_TRY_DONE(lh_checkpoint_open(&ck, lh_h5_path(h5)));
    LH_TRY_DONE(lh_checkpoint_open_tokenizer(ck, &tok));
done:
    lh_tokenizer_close(tok);
    lh_checkpoint_close(ck);
    return st;
}

const lh_file_kind lh_checkpoint_kind = {.name = "checkpoint",
                                         .schema = LH_CHECKPOINT_SCHEMA,
                                         .objects = {"/config", "/weights/embed", "/weights/norm"},
                                         .all_hashed = 1,
                                         .check = check_checkpoint,
                                         .describe = lh_checkpoint_describe};

const lh_file_kind *lh_file_kind_find(const lh_file_kind *const *kinds, const char *name)
{
    for (; *kinds; kinds++)
        if (strcmp((*kinds)->name, name) == 0) return *kinds;
    return NULL;
}

static lh_status refuse_kind(const lh_h5 *h5, const lh_file_kind *const *kinds)
{
    lh_status st = LH_OK;
    lh_buf names = {0};
    for (; *kinds; kinds++) LH_TRY_DONE(lh_buf_printf(&names, "%s%s", names.bytes ? ", " : "", (*kinds)->name));
    LH_FAIL_DONE(LH_EFILE, "'%s' is of the kind '%s', which this version does not know: %s are known", lh_h5_path(h5),
                 lh_h5_kind(h5), names.data);
done:
    lh_buf_clear(&names);
    return st;
}

static lh_status read_everything(void *self)
{
    lh_status st = LH_OK;
    verifier *v = self;
    lh_h5 *h5 = NULL;
    const lh_h5_header any = {0};
    int64_t schema = 0;
    LH_TRY_DONE(lh_h5_open(&h5, v->path, &any));
    snprintf(v->report->kind, sizeof v->report->kind, "%s", lh_h5_kind(h5));
    LH_TRY_DONE(lh_h5_get_i64(h5, "/", "schema", &schema));
    v->kind = lh_file_kind_find(v->kinds, lh_h5_kind(h5));
    if (!v->kind) LH_TRY_DONE(refuse_kind(h5, v->kinds));
    if (schema > v->kind->schema)
        LH_FAIL_DONE(LH_EFILE,
                     "'%s' has schema %" PRId64 ": this version reads up to %" PRId64 ", a newer one wrote it", v->path,
                     schema, v->kind->schema);
    for (int i = 0; v->kind->objects[i]; i++) LH_TRY_DONE(lh_verify_has(h5, v->kind->objects[i]));
    if (v->kind->check) LH_TRY_DONE(v->kind->check(h5));
    LH_TRY_DONE(lh_h5_each_text(h5, read_text, v));
    LH_TRY_DONE(lh_h5_each_array(h5, read_array, v));
done:
    lh_h5_close(h5);
    lh_free(v->slice);
    return st;
}

lh_status lh_verify(const char *path, const lh_file_kind *const *kinds, const lh_import_progress *progress,
                    lh_verify_report *report)
{
    lh_status st = LH_OK;
    struct stat info;
    verifier v = {.path = path, .kinds = kinds, .progress = progress, .report = MAP_FAILED};
    *report = (lh_verify_report){0};
    /* A hang lies in the structure: this finds it in seconds, not after the minutes of a complete read. */
    LH_TRY_DONE(lh_h5_probe(path));
    if (stat(path, &info) == 0) v.total_bytes = info.st_size;
    /* Shared with the child, which writes its findings here. */
    v.report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (v.report == MAP_FAILED) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate a page");
    const lh_child_work work = {read_everything, &v, path, LH_EFILE, LH_CHILD_SPEAKS};
    const lh_child_limits limits = {.cpu_s = CPU_S + v.total_bytes / BYTES_PER_CPU_S, .memory_bytes = MEMORY_BYTES};
    st = lh_child_run(&work, &limits);
    *report = *v.report;
    LH_TRY_DONE(st);
done:
    if (v.report != MAP_FAILED) munmap(v.report, sizeof *report);
    return st;
}

/* A description of a file of longhaul as JSON, for `longhaul info`: attributes and arrays, or the description of its
 * kind. Checkpoints have family, sizes, types and tokenizer. */
static const char *const rope_names[LH_ROPE_KINDS] = {"default", "linear", "dynamic", "yarn", "llama3", "longrope"};

typedef struct counter {
    const lh_checkpoint *ck;
    int64_t parameters;
} counter;

static lh_status count(void *self, lh_weight weight, int64_t layer)
{
    counter *c = self;
    int64_t rows, cols;
    (void)layer;
    lh_weight_shape(lh_checkpoint_config(c->ck), weight, &rows, &cols);
    c->parameters += rows * cols;
    return LH_OK;
}

static lh_status put_sizes(json_t *object, const lh_config *c)
{
    const struct {
        const char *key;
        int64_t value;
    } rows[] = {{"layers", c->layers},     {"hidden", c->hidden}, {"heads", c->heads}, {"kv_heads", c->kv_heads},
                {"head_dim", c->head_dim}, {"ff", c->ff},         {"vocab", c->vocab}, {"positions", c->max_positions}};
    const int64_t experts = c->experts.count;
    int64_t sliding = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        LH_TRY(lh_json_set(object, rows[i].key, json_integer(rows[i].value)));
    if (experts) LH_TRY(lh_json_set(object, "experts", json_integer(experts)));
    if (experts) LH_TRY(lh_json_set(object, "experts_per_token", json_integer(c->experts.top_k)));
    for (int64_t l = 0; l < c->layers; l++) sliding += c->sliding[l];
    LH_TRY(lh_json_set(object, "window", c->window ? json_integer(c->window) : json_null()));
    LH_TRY(lh_json_set(object, "sliding_layers", json_integer(sliding)));
    LH_TRY(lh_json_set(object, "rope", json_string(rope_names[c->rope_global.kind])));
    LH_TRY(lh_json_set(object, "tied", json_boolean(c->tied)));
    return LH_OK;
}

static lh_status put_tokenizer(json_t *object, const lh_checkpoint *ck)
{
    lh_status st = LH_OK;
    int64_t bytes = 0;
    lh_tokenizer *tok = NULL;
    const char *text = lh_checkpoint_tokenizer(ck, &bytes), *format = NULL;
    LH_TRY_DONE(lh_checkpoint_open_tokenizer(ck, &tok));
    if (tok) format = lh_tokenizer_chat_format(tok);
    LH_TRY_DONE(lh_json_set(object, "tokenizer", json_boolean(text != NULL)));
    LH_TRY_DONE(lh_json_set(object, "tokenizer_bytes", json_integer(bytes)));
    LH_TRY_DONE(
        lh_json_set(object, "chat_format", format ? lh_json_text(format, (int64_t)strlen(format)) : json_null()));
done:
    lh_tokenizer_close(tok);
    return st;
}

lh_status lh_checkpoint_describe(json_t *object, lh_h5 *h5, const json_t *arrays)
{
    lh_status st = LH_OK;
    lh_checkpoint *ck = NULL;
    lh_buf weights = {0};
    lh_format_tally tally;
    json_t *formats = NULL;
    char identity[17];
    (void)arrays; /* hundreds, which follow from the sizes */
    LH_TRY_DONE(lh_checkpoint_open(&ck, lh_h5_path(h5)));
    const lh_config *c = lh_checkpoint_config(ck);
    counter total = {.ck = ck};
    LH_TRY_DONE(lh_checkpoint_each(c, count, &total));
    snprintf(identity, sizeof identity, "%016llx", (unsigned long long)lh_checkpoint_identity(ck));
    LH_TRY_DONE(lh_json_set(object, "family", json_string(lh_config_family_name(c))));
    LH_TRY_DONE(lh_format_tally_of(&tally, c, lh_checkpoint_formats(ck)));
    LH_TRY_DONE(lh_format_tally_text(&tally, &weights));
    LH_TRY_DONE(lh_format_tally_json(&tally, &formats));
    LH_TRY_DONE(lh_json_set(object, "weights", json_string(weights.data)));
    LH_TRY_DONE(lh_json_set(object, "dtype", json_string(tally.rows[0].format->name)));
    LH_TRY_DONE(lh_json_set(object, "formats", json_incref(formats)));
    LH_TRY_DONE(lh_json_set(object, "parameters", json_integer(total.parameters)));
    LH_TRY_DONE(put_sizes(object, c));
    LH_TRY_DONE(
        lh_json_set(object, "kv_bytes_per_token_bf16", json_integer(c->layers * c->kv_heads * c->head_dim * 2 * 2)));
    LH_TRY_DONE(put_tokenizer(object, ck));
    LH_TRY_DONE(lh_json_set(object, "identity", json_string(identity)));
done:
    json_decref(formats);
    lh_buf_clear(&weights);
    lh_checkpoint_close(ck);
    return st;
}

lh_status lh_info_json(const char *path, const lh_file_kind *const *kinds, json_t **out)
{
    lh_status st = LH_OK;
    lh_h5 *h5 = NULL;
    json_t *object = json_object(), *arrays = NULL;
    const lh_h5_header any = {0};
    LH_TRY_DONE(lh_h5_probe(path));
    LH_TRY_DONE(lh_h5_open(&h5, path, &any));
    LH_TRY_DONE(lh_json_set(object, "file", lh_json_text(path, (int64_t)strlen(path))));
    LH_TRY_DONE(lh_h5_describe(h5, object, &arrays));
    const lh_file_kind *kind = lh_file_kind_find(kinds, lh_h5_kind(h5));
    if (kind && kind->describe)
        LH_TRY_DONE(kind->describe(object, h5, arrays));
    else
        LH_TRY_DONE(lh_json_set(object, "arrays", json_incref(arrays)));
    *out = object;
    object = NULL;
done:
    json_decref(arrays);
    json_decref(object);
    lh_h5_close(h5);
    return st;
}
