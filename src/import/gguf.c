/* gguf.c - parses mapped GGUF files. Opening walks all metadata and tensor descriptions once and checks them against
 * the size of the file, so that getters need no further checks. */
#include "import/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/format.h"
#include "base/mem.h"
#include "base/minmax.h"

/* Value types of the format. */
enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64, VALUE_TYPES };
enum { NESTING_MAX = 4, DIMS_MAX = 4, FILES_MAX = 10000 };
static const int64_t value_bytes[VALUE_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/* Minimum sizes: an empty key with a value of one byte, a tensor without name and dimensions. */
enum { KEY_BYTES_MIN = 8 + 4 + 1, TENSOR_BYTES_MIN = 8 + 4 + 4 + 8 };

typedef struct entry {
    lh_gguf_text key;
    int type, item; /* item: of an array's elements */
    int64_t n;      /* of an array */
    const uint8_t *value;
} entry;

struct lh_gguf {
    char *path;
    lh_map map;
    entry *entries;
    int64_t entry_count;
    lh_gguf_tensor *tensors; /* of all files */
    int64_t tensor_count;
    lh_gguf **others; /* the further files of a model that is split */
    int64_t other_count;
};

/* ---- reading, never past the end ---- */
typedef struct cursor {
    const lh_gguf *gguf;
    int64_t at;
} cursor;

static lh_status take(cursor *c, int64_t bytes, const uint8_t **out)
{
    if (bytes < 0 || bytes > c->gguf->map.bytes - c->at)
        LH_FAIL(LH_EINPUT, "'%s' is cut off or damaged: %" PRId64 " bytes wanted at offset %" PRId64 " of %" PRId64,
                c->gguf->path, bytes, c->at, c->gguf->map.bytes);
    *out = c->gguf->map.data + c->at;
    c->at += bytes;
    return LH_OK;
}

static lh_status take_u32(cursor *c, uint32_t *out)
{
    const uint8_t *p = NULL;
    LH_TRY(take(c, 4, &p));
    memcpy(out, p, 4);
    return LH_OK;
}

/* An unsigned 64-bit count; above 2^63 it is damage anyway. */
static lh_status take_count(cursor *c, int64_t *out)
{
    const uint8_t *p = NULL;
    LH_TRY(take(c, 8, &p));
    memcpy(out, p, 8);
    if (*out < 0)
        LH_FAIL(LH_EINPUT, "'%s' is damaged: a count of %" PRIu64 " at offset %" PRId64, c->gguf->path, (uint64_t)*out,
                c->at - 8);
    return LH_OK;
}

static lh_status take_text(cursor *c, lh_gguf_text *out)
{
    const uint8_t *p = NULL;
    LH_TRY(take_count(c, &out->bytes));
    LH_TRY(take(c, out->bytes, &p));
    out->data = (const char *)p;
    return LH_OK;
}

/* A key or name of the file as shown in messages. */
typedef struct shown {
    char text[80];
} shown;

static const char *show(shown *s, const lh_gguf_text *text)
{
    int64_t n = text->bytes < (int64_t)sizeof s->text - 1 ? text->bytes : (int64_t)sizeof s->text - 1;
    for (int64_t i = 0; i < n; i++) {
        unsigned char ch = (unsigned char)text->data[i];
        s->text[i] = ch < 0x20 || ch >= 0x7f ? '?' : (char)ch;
    }
    s->text[n] = '\0';
    return s->text;
}

/* Step over the elements of an array and check them. */
static lh_status skip_items(cursor *c, const entry *e, int depth)
{
    const uint8_t *p = NULL;
    shown key;
    if (depth > NESTING_MAX || e->item < 0 || e->item >= VALUE_TYPES)
        LH_FAIL(LH_EINPUT, "'%s': '%s' is an array of an unknown type %d", c->gguf->path, show(&key, &e->key), e->item);
    if (value_bytes[e->item] > 0) {
        if (e->n > c->gguf->map.bytes / value_bytes[e->item])
            LH_FAIL(LH_EINPUT, "'%s': '%s' claims %" PRId64 " elements, more than the file holds", c->gguf->path,
                    show(&key, &e->key), e->n);
        LH_TRY(take(c, e->n * value_bytes[e->item], &p));
        return LH_OK;
    }
    for (int64_t i = 0; i < e->n; i++) {
        lh_gguf_text text;
        if (e->item == STRING) {
            LH_TRY(take_text(c, &text));
            continue;
        }
        entry inner = {.key = e->key};
        uint32_t item = 0;
        LH_TRY(take_u32(c, &item));
        inner.item = (int)item;
        LH_TRY(take_count(c, &inner.n));
        LH_TRY(skip_items(c, &inner, depth + 1));
    }
    return LH_OK;
}

static lh_status take_entry(cursor *c, entry *e)
{
    uint32_t type = 0, item = 0;
    const uint8_t *p = NULL;
    lh_gguf_text text;
    shown key;
    LH_TRY(take_text(c, &e->key));
    LH_TRY(take_u32(c, &type));
    if (type >= VALUE_TYPES)
        LH_FAIL(LH_EINPUT, "'%s': '%s' has the unknown type %u", c->gguf->path, show(&key, &e->key), type);
    e->type = (int)type;
    if (e->type == ARRAY) {
        LH_TRY(take_u32(c, &item));
        e->item = item < VALUE_TYPES ? (int)item : -1;
        LH_TRY(take_count(c, &e->n));
        e->value = c->gguf->map.data + c->at;
        LH_TRY(skip_items(c, e, 0));
    } else {
        e->value = c->gguf->map.data + c->at;
        if (e->type == STRING)
            LH_TRY(take_text(c, &text));
        else
            LH_TRY(take(c, value_bytes[e->type], &p));
    }
    return LH_OK;
}

/* The description of a tensor; its bytes follow from type and shape. `offset` counts from the start of the data. */
static lh_status take_tensor(cursor *c, lh_gguf_tensor *t, int64_t *offset)
{
    uint32_t rank = 0, type = 0;
    int64_t values = 1;
    shown name;
    LH_TRY(take_text(c, &t->name));
    LH_TRY(take_u32(c, &rank));
    if (rank > DIMS_MAX)
        LH_FAIL(LH_EINPUT, "'%s': tensor '%s' has %u dimensions, at most %d are supported", c->gguf->path,
                show(&name, &t->name), rank, DIMS_MAX);
    t->rank = (int)rank;
    for (int d = 0; d < DIMS_MAX; d++) t->dims[d] = 1;
    for (int d = 0; d < t->rank; d++) {
        LH_TRY(take_count(c, &t->dims[d]));
        if (t->dims[d] == 0 || __builtin_mul_overflow(values, t->dims[d], &values) || values > INT64_MAX / 8)
            LH_FAIL(LH_EINPUT, "'%s': tensor '%s' has sizes that no file can hold", c->gguf->path,
                    show(&name, &t->name));
    }
    LH_TRY(take_u32(c, &type));
    t->type = type <= INT32_MAX ? (int)type : -1;
    LH_TRY(take_count(c, offset));
    const lh_format *info = lh_format_numbered(t->type);
    if (!info) return LH_OK; /* unknown type: an error only for a reader of this tensor */
    if (t->dims[0] % info->values != 0)
        LH_FAIL(LH_EINPUT, "'%s': rows of %" PRId64 " values of tensor '%s' are no whole blocks of %s (%" PRId64 ")",
                c->gguf->path, t->dims[0], show(&name, &t->name), info->name, info->values);
    if (__builtin_mul_overflow(values / info->values, info->bytes, &t->bytes))
        LH_FAIL(LH_EINPUT, "'%s': tensor '%s' has sizes that no file can hold", c->gguf->path, show(&name, &t->name));
    return LH_OK;
}

static lh_status place_tensor(const lh_gguf *gguf, lh_gguf_tensor *t, int64_t data_start, int64_t alignment)
{
    shown name;
    int64_t offset = t->data - gguf->map.data, room = gguf->map.bytes - data_start;
    t->data = NULL;
    if (!lh_format_numbered(t->type)) return LH_OK;
    if (offset % alignment != 0 || room < 0 || offset > room || t->bytes > room - offset)
        LH_FAIL(LH_EINPUT,
                "'%s' is cut off or damaged: tensor '%s' (%" PRId64 " bytes at offset %" PRId64
                ") does not lie in its %" PRId64 " bytes of data",
                gguf->path, show(&name, &t->name), t->bytes, offset, room < 0 ? 0 : room);
    t->map = &gguf->map;
    t->data = gguf->map.data + data_start + offset;
    return LH_OK;
}

static lh_status read_header(cursor *c, lh_gguf *gguf)
{
    const uint8_t *magic = NULL;
    uint32_t version = 0;
    LH_TRY(take(c, 4, &magic));
    if (memcmp(magic, "GGUF", 4) != 0) LH_FAIL(LH_EINPUT, "'%s' is not a GGUF file", gguf->path);
    LH_TRY(take_u32(c, &version));
    if (version == 0x02000000u || version == 0x03000000u)
        LH_FAIL(LH_EINPUT, "'%s' is a big-endian GGUF file: little-endian ones are read", gguf->path);
    if (version != 2 && version != 3)
        LH_FAIL(LH_EINPUT, "'%s' has GGUF version %u: 2 and 3 are read", gguf->path, version);
    LH_TRY(take_count(c, &gguf->tensor_count));
    LH_TRY(take_count(c, &gguf->entry_count));
    if (gguf->tensor_count > gguf->map.bytes / TENSOR_BYTES_MIN || gguf->entry_count > gguf->map.bytes / KEY_BYTES_MIN)
        LH_FAIL(LH_EINPUT, "'%s' is damaged: it claims %" PRId64 " tensors and %" PRId64 " keys in %" PRId64 " bytes",
                gguf->path, gguf->tensor_count, gguf->entry_count, gguf->map.bytes);
    return LH_OK;
}

static lh_status read_all(lh_gguf *gguf)
{
    cursor c = {gguf, 0};
    int64_t alignment = 32;
    LH_TRY(read_header(&c, gguf));
    LH_TRY(lh_calloc(&gguf->entries, gguf->entry_count, sizeof *gguf->entries));
    for (int64_t i = 0; i < gguf->entry_count; i++) LH_TRY(take_entry(&c, &gguf->entries[i]));
    LH_TRY(lh_calloc(&gguf->tensors, gguf->tensor_count, sizeof *gguf->tensors));
    LH_TRY(lh_gguf_i64(gguf, "general.alignment", &alignment));
    if (alignment < 1 || alignment > (1 << 20) || (alignment & (alignment - 1)))
        LH_FAIL(LH_EINPUT, "'%s': 'general.alignment' is %" PRId64 ", it must be a power of two", gguf->path,
                alignment);
    for (int64_t i = 0; i < gguf->tensor_count; i++) {
        int64_t offset = 0;
        LH_TRY(take_tensor(&c, &gguf->tensors[i], &offset));
        if (offset > gguf->map.bytes) offset = gguf->map.bytes; /* refused below, when the start of the data is known */
        gguf->tensors[i].data = gguf->map.data + offset;
    }
    int64_t data_start = (c.at + alignment - 1) / alignment * alignment;
    for (int64_t i = 0; i < gguf->tensor_count; i++)
        LH_TRY(place_tensor(gguf, &gguf->tensors[i], data_start, alignment));
    return LH_OK;
}

static lh_status open_file(lh_gguf **out, const char *path)
{
    lh_status st = LH_OK;
    lh_gguf *gguf = NULL;
    LH_TRY_DONE(lh_calloc(&gguf, 1, sizeof *gguf));
    LH_TRY_DONE(lh_strdup(&gguf->path, path));
    LH_TRY_DONE(lh_map_open(&gguf->map, path));
    LH_TRY_DONE(read_all(gguf));
    *out = gguf;
    gguf = NULL;
done:
    lh_gguf_close(gguf);
    return st;
}

/* ---- models that llama.cpp's gguf-split has cut into files ---- */

/* The name of file `number`, from 1, of `count`, after that of file `own`. */
static lh_status name_file(char **out, const lh_gguf *gguf, int64_t own, int64_t number, int64_t count)
{
    char ending[64];
    snprintf(ending, sizeof ending, "-%05" PRId64 "-of-%05" PRId64 ".gguf", own, count);
    const size_t stem = strlen(gguf->path) - lh_min_i64((int64_t)strlen(gguf->path), (int64_t)strlen(ending));
    if (strcmp(gguf->path + stem, ending) != 0)
        LH_FAIL(LH_EINPUT, "'%s' is file %" PRId64 " of %" PRId64 ": its name must end with '%s', as the others' do",
                gguf->path, own, count, ending);
    return lh_asprintf(out, "%.*s-%05" PRId64 "-of-%05" PRId64 ".gguf", (int)stem, gguf->path, number, count);
}

/* Number, from 1, and count of a file; 1 of 1 if the model is not split. */
static lh_status read_split(const lh_gguf *gguf, int64_t *number, int64_t *count)
{
    int64_t no = 0;
    *count = 1;
    LH_TRY(lh_gguf_i64(gguf, "split.count", count));
    LH_TRY(lh_gguf_i64(gguf, "split.no", &no));
    if (*count <= 1) *count = 1, no = 0;
    if (*count > FILES_MAX || no < 0 || no >= *count)
        LH_FAIL(LH_EINPUT, "'%s': 'split.no' is %" PRId64 " and 'split.count' is %" PRId64, gguf->path, no, *count);
    *number = no + 1;
    return LH_OK;
}

/* Opens file `number` of `count` and adds its tensors. */
static lh_status add_file(lh_gguf *gguf, int64_t number, int64_t count)
{
    lh_status st = LH_OK;
    char *path = NULL;
    int64_t have, of;
    LH_TRY_DONE(name_file(&path, gguf, 1, number, count));
    LH_TRY_DONE(open_file(&gguf->others[number - 2], path));
    const lh_gguf *other = gguf->others[number - 2];
    LH_TRY_DONE(read_split(other, &have, &of));
    if (have != number || of != count)
        LH_FAIL_DONE(LH_EINPUT, "'%s' says that it is file %" PRId64 " of %" PRId64, path, have, of);
    const int64_t all = gguf->tensor_count + other->tensor_count;
    LH_TRY_DONE(lh_realloc(&gguf->tensors, all, sizeof *gguf->tensors));
    memcpy(gguf->tensors + gguf->tensor_count, other->tensors, (size_t)other->tensor_count * sizeof *other->tensors);
    gguf->tensor_count = all;
done:
    lh_free(path);
    return st;
}

static lh_status add_files(lh_gguf *gguf)
{
    lh_status st = LH_OK;
    char *first = NULL;
    int64_t number, count, tensors;
    LH_TRY_DONE(read_split(gguf, &number, &count));
    if (count == 1) goto done;
    if (number > 1) {
        LH_TRY_DONE(name_file(&first, gguf, number, 1, count));
        LH_FAIL_DONE(LH_EINPUT, "'%s' is file %" PRId64 " of %" PRId64 ": give the first, '%s'", gguf->path, number,
                     count, first);
    }
    LH_TRY_DONE(lh_calloc(&gguf->others, count - 1, sizeof(lh_gguf *)));
    gguf->other_count = count - 1;
    for (int64_t i = 2; i <= count; i++) LH_TRY_DONE(add_file(gguf, i, count));
    tensors = gguf->tensor_count;
    LH_TRY_DONE(lh_gguf_i64(gguf, "split.tensors.count", &tensors));
    if (tensors != gguf->tensor_count)
        LH_FAIL_DONE(LH_EINPUT,
                     "'%s' and its further files have %" PRId64 " tensors, 'split.tensors.count' says %" PRId64,
                     gguf->path, gguf->tensor_count, tensors);
done:
    lh_free(first);
    return st;
}

lh_status lh_gguf_open(lh_gguf **out, const char *path)
{
    lh_status st = LH_OK;
    lh_gguf *gguf = NULL;
    LH_TRY_DONE(open_file(&gguf, path));
    LH_TRY_DONE(add_files(gguf));
    *out = gguf;
    gguf = NULL;
done:
    lh_gguf_close(gguf);
    return st;
}

void lh_gguf_close(lh_gguf *gguf)
{
    if (!gguf) return;
    for (int64_t i = 0; i < gguf->other_count; i++) lh_gguf_close(gguf->others[i]);
    lh_free(gguf->others);
    lh_map_close(&gguf->map);
    lh_free(gguf->entries);
    lh_free(gguf->tensors);
    lh_free(gguf->path);
    lh_free(gguf);
}

const char *lh_gguf_path(const lh_gguf *gguf)
{
    return gguf->path;
}

/* ---- metadata ---- */
int lh_gguf_text_is(const lh_gguf_text *text, const char *other)
{
    return text->bytes == (int64_t)strlen(other) && memcmp(text->data, other, (size_t)text->bytes) == 0;
}

static const entry *find(const lh_gguf *gguf, const char *key)
{
    for (int64_t i = 0; i < gguf->entry_count; i++)
        if (lh_gguf_text_is(&gguf->entries[i].key, key)) return &gguf->entries[i];
    return NULL;
}

/* One integer of `type` at p: 1 and *out, or 0 if the type is no integer or the value too large. */
static int integer_at(const uint8_t *p, int type, int64_t *out)
{
    uint64_t u = 0;
    memcpy(&u, p, (size_t)value_bytes[type]);
    switch (type) {
    case I8: *out = (int8_t)u; return 1;
    case I16: *out = (int16_t)u; return 1;
    case I32: *out = (int32_t)u; return 1;
    case U8:
    case U16:
    case U32:
    case BOOL:
    case I64: *out = (int64_t)u; return 1;
    case U64: *out = (int64_t)u; return u <= INT64_MAX;
    default: return 0;
    }
}

static int float_at(const uint8_t *p, int type, double *out)
{
    float f;
    int64_t i;
    if (type == F64) {
        memcpy(out, p, 8);
        return 1;
    }
    if (type == F32) {
        memcpy(&f, p, 4);
        *out = f;
        return 1;
    }
    if (!integer_at(p, type, &i)) return 0;
    *out = (double)i;
    return 1;
}

lh_status lh_gguf_i64(const lh_gguf *gguf, const char *key, int64_t *out)
{
    const entry *e = find(gguf, key);
    if (e && (e->type == BOOL || !integer_at(e->value, e->type, out)))
        LH_FAIL(LH_EINPUT, "'%s': '%s' must be an integer", gguf->path, key);
    return LH_OK;
}

lh_status lh_gguf_f64(const lh_gguf *gguf, const char *key, double *out)
{
    const entry *e = find(gguf, key);
    if (e && (e->type == BOOL || !float_at(e->value, e->type, out)))
        LH_FAIL(LH_EINPUT, "'%s': '%s' must be a number", gguf->path, key);
    return LH_OK;
}

lh_status lh_gguf_bool(const lh_gguf *gguf, const char *key, int *out)
{
    const entry *e = find(gguf, key);
    if (e && e->type != BOOL) LH_FAIL(LH_EINPUT, "'%s': '%s' must be true or false", gguf->path, key);
    if (e) *out = *e->value != 0;
    return LH_OK;
}

static const uint8_t *text_at(const uint8_t *p, lh_gguf_text *out)
{
    memcpy(&out->bytes, p, 8);
    out->data = (const char *)p + 8;
    return p + 8 + out->bytes;
}

lh_status lh_gguf_string(const lh_gguf *gguf, const char *key, lh_gguf_text *out)
{
    const entry *e = find(gguf, key);
    if (e && e->type != STRING) LH_FAIL(LH_EINPUT, "'%s': '%s' must be a string", gguf->path, key);
    if (e) text_at(e->value, out);
    return LH_OK;
}

lh_status lh_gguf_strings(const lh_gguf *gguf, const char *key, lh_gguf_text **out, int64_t *n)
{
    lh_gguf_text *texts = NULL;
    const entry *e = find(gguf, key);
    *out = NULL;
    *n = 0;
    if (!e) return LH_OK;
    if (e->type != ARRAY || e->item != STRING)
        LH_FAIL(LH_EINPUT, "'%s': '%s' must be an array of strings", gguf->path, key);
    LH_TRY(lh_calloc(&texts, e->n, sizeof *texts));
    const uint8_t *p = e->value;
    for (int64_t i = 0; i < e->n; i++) p = text_at(p, &texts[i]);
    *out = texts;
    *n = e->n;
    return LH_OK;
}

/* The elements of an array of numbers, or a number as the only element. */
static lh_status numbers_of(const lh_gguf *gguf, const char *key, entry *out)
{
    const entry *e = find(gguf, key);
    *out = (entry){0};
    if (!e) return LH_OK;
    *out = *e;
    if (e->type != ARRAY) {
        out->item = e->type;
        out->n = 1;
    }
    if (value_bytes[out->item] == 0) LH_FAIL(LH_EINPUT, "'%s': '%s' must be an array of numbers", gguf->path, key);
    return LH_OK;
}

lh_status lh_gguf_i64s(const lh_gguf *gguf, const char *key, int64_t **out, int64_t *n)
{
    lh_status st = LH_OK;
    int64_t *values = NULL;
    entry e;
    *out = NULL;
    *n = 0;
    LH_TRY_DONE(numbers_of(gguf, key, &e));
    if (!e.value) goto done;
    LH_TRY_DONE(lh_calloc(&values, e.n, sizeof *values));
    for (int64_t i = 0; i < e.n; i++)
        if (!integer_at(e.value + i * value_bytes[e.item], e.item, &values[i]))
            LH_FAIL_DONE(LH_EINPUT, "'%s': '%s' must hold integers", gguf->path, key);
    *out = values;
    *n = e.n;
    values = NULL;
done:
    lh_free(values);
    return st;
}

lh_status lh_gguf_f64s(const lh_gguf *gguf, const char *key, double **out, int64_t *n)
{
    lh_status st = LH_OK;
    double *values = NULL;
    entry e;
    *out = NULL;
    *n = 0;
    LH_TRY_DONE(numbers_of(gguf, key, &e));
    if (!e.value) goto done;
    LH_TRY_DONE(lh_calloc(&values, e.n, sizeof *values));
    for (int64_t i = 0; i < e.n; i++)
        if (!float_at(e.value + i * value_bytes[e.item], e.item, &values[i]))
            LH_FAIL_DONE(LH_EINPUT, "'%s': '%s' must hold numbers", gguf->path, key);
    *out = values;
    *n = e.n;
    values = NULL;
done:
    lh_free(values);
    return st;
}

int64_t lh_gguf_entries(const lh_gguf *gguf)
{
    return gguf->entry_count;
}

lh_gguf_entry lh_gguf_entry_at(const lh_gguf *gguf, int64_t i)
{
    const entry *e = &gguf->entries[i];
    lh_gguf_entry out = {.key = e->key};
    lh_gguf_text text = {0};
    if (e->type == ARRAY) {
        out.is_empty = e->n == 0;
    } else if (e->type == STRING) {
        text_at(e->value, &text);
        out.is_empty = text.bytes == 0;
    } else {
        out.is_number = float_at(e->value, e->type, &out.number);
        out.is_empty = out.is_number && out.number == 0;
    }
    return out;
}

/* ---- tensors ---- */
int64_t lh_gguf_tensors(const lh_gguf *gguf)
{
    return gguf->tensor_count;
}

const lh_gguf_tensor *lh_gguf_tensor_at(const lh_gguf *gguf, int64_t i)
{
    return &gguf->tensors[i];
}

const lh_gguf_tensor *lh_gguf_tensor_find(const lh_gguf *gguf, const char *name)
{
    for (int64_t i = 0; i < gguf->tensor_count; i++)
        if (lh_gguf_text_is(&gguf->tensors[i].name, name)) return &gguf->tensors[i];
    return NULL;
}
