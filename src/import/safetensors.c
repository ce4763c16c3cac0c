/* safetensors.c - parses the JSON header of a mapped safetensors file and checks every tensor's type, shape and
 * offsets. */
#include "import/safetensors.h"

#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "import/import_hints.h"

/* The format's own limit for the header. */
#define HEADER_BYTES_MAX INT64_C(100000000)

struct lh_safetensors {
    lh_map map;
    int64_t data_start;
    json_t *header; /* owns the names */
    lh_safetensor *tensors;
    int64_t count;
};

static const struct {
    const char *name;
    int64_t bytes;
    int ggml; /* type number, -1: not a supported float */
} dtypes[] = {
    {"F32", 4, 0},  {"F16", 2, 1},  {"BF16", 2, 30},    {"F64", 8, -1},     {"I64", 8, -1},
    {"I32", 4, -1}, {"I16", 2, -1}, {"I8", 1, -1},      {"U8", 1, -1},      {"U16", 2, -1},
    {"U32", 4, -1}, {"U64", 8, -1}, {"F8_E4M3", 1, -1}, {"F8_E5M2", 1, -1}, {"BOOL", 1, -1},
};

/* Element size and type; size 0 if the name is unknown, then shape and bytes are not compared. */
static int64_t find_dtype(const char *name, const lh_format **format)
{
    *format = NULL;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strcmp(dtypes[i].name, name) != 0) continue;
        if (dtypes[i].ggml >= 0) *format = lh_format_numbered(dtypes[i].ggml);
        return dtypes[i].bytes;
    }
    return 0;
}

static lh_status read_shape(lh_safetensor *t, const json_t *entry, const char *path, int64_t *values)
{
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape) || json_array_size(shape) > LH_SAFETENSOR_RANK)
        LH_FAIL(LH_EINPUT, "'%s': 'shape' of tensor '%s' must be a list of at most %d sizes", path, t->name,
                LH_SAFETENSOR_RANK);
    t->rank = (int)json_array_size(shape);
    int64_t product = 1; /* of the sizes that are not 0, so that no partial product overflows either */
    *values = 1;
    for (int d = 0; d < t->rank; d++) {
        const json_t *size = json_array_get(shape, (size_t)d);
        t->shape[d] = json_integer_value(size);
        if (!json_is_integer(size) || t->shape[d] < 0 ||
            __builtin_mul_overflow(product, t->shape[d] ? t->shape[d] : 1, &product) || product > INT64_MAX / 8)
            LH_FAIL(LH_EINPUT, "'%s': 'shape' of tensor '%s' has sizes that no file can hold", path, t->name);
        if (t->shape[d] == 0) *values = 0;
    }
    *values *= product;
    return LH_OK;
}

static lh_status read_tensor(const lh_safetensors *file, lh_safetensor *t, const json_t *entry, const char *path)
{
    int64_t values = 0, room = file->map.bytes - file->data_start;
    const json_t *offsets = json_object_get(entry, "data_offsets"), *from = json_array_get(offsets, 0),
                 *to = json_array_get(offsets, 1);
    t->dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!t->dtype) LH_FAIL(LH_EINPUT, "'%s': tensor '%s' has no 'dtype'", path, t->name);
    LH_TRY(read_shape(t, entry, path, &values));
    if (json_array_size(offsets) != 2 || !json_is_integer(from) || !json_is_integer(to))
        LH_FAIL(LH_EINPUT, "'%s': tensor '%s' must have two 'data_offsets'", path, t->name);
    int64_t begin = json_integer_value(from), end = json_integer_value(to);
    if (begin < 0 || end < begin || end > room)
        LH_FAIL(LH_EINPUT,
                "'%s' is cut off or damaged: tensor '%s' is at %" PRId64 " to %" PRId64 " of %" PRId64 " bytes of data",
                path, t->name, begin, end, room);
    int64_t size = find_dtype(t->dtype, &t->format);
    t->data = file->map.data + file->data_start + begin;
    t->bytes = end - begin;
    if (size > 0 && (values > INT64_MAX / size || values * size != t->bytes))
        LH_FAIL(LH_EINPUT, "'%s': tensor '%s' has %" PRId64 " bytes, its shape and type %s ask for %" PRId64, path,
                t->name, t->bytes, t->dtype, values * size);
    return LH_OK;
}

static lh_status read_header(lh_safetensors *file, const char *path)
{
    uint64_t header_bytes = 0;
    int64_t end = 0;
    const char *name;
    json_t *entry;
    if (file->map.bytes < 8) LH_FAIL(LH_EINPUT, "'%s' is cut off: it has no safetensors header", path);
    memcpy(&header_bytes, file->map.data, 8);
    if (header_bytes > (uint64_t)HEADER_BYTES_MAX || (int64_t)header_bytes > file->map.bytes - 8)
        LH_FAIL(LH_EINPUT,
                "'%s' is no safetensors file, or cut off: a header of %" PRIu64 " bytes in a file of %" PRId64, path,
                header_bytes, file->map.bytes);
    file->data_start = 8 + (int64_t)header_bytes;
    LH_TRY(lh_json_parse(&file->header, path, file->map.data + 8, (int64_t)header_bytes));
    if (!json_is_object(file->header)) LH_FAIL(LH_EINPUT, "'%s': the header must be a JSON object", path);
    LH_TRY(lh_calloc(&file->tensors, (int64_t)json_object_size(file->header), sizeof *file->tensors));
    json_object_foreach(file->header, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0) continue;
        lh_safetensor *t = &file->tensors[file->count++];
        t->name = name;
        LH_TRY(read_tensor(file, t, entry, path));
        int64_t stop = t->data + t->bytes - file->map.data;
        if (stop > end) end = stop;
    }
    if (file->count > 0 && end != file->map.bytes)
        LH_FAIL(LH_EINPUT, "'%s' is damaged: %" PRId64 " bytes follow its last tensor", path, file->map.bytes - end);
    return LH_OK;
}

lh_status lh_safetensors_open(lh_safetensors **out, const char *path)
{
    lh_status st = LH_OK;
    lh_safetensors *file = NULL;
    LH_TRY_DONE(lh_calloc(&file, 1, sizeof *file));
    LH_TRY_DONE(lh_hint_lfs(path));
    LH_TRY_DONE(lh_map_open(&file->map, path));
    LH_TRY_DONE(read_header(file, path));
    *out = file;
    file = NULL;
done:
    lh_safetensors_close(file);
    return st;
}

void lh_safetensors_close(lh_safetensors *file)
{
    if (!file) return;
    json_decref(file->header);
    lh_map_close(&file->map);
    lh_free(file->tensors);
    lh_free(file);
}

const lh_map *lh_safetensors_map(const lh_safetensors *file)
{
    return &file->map;
}

int64_t lh_safetensors_count(const lh_safetensors *file)
{
    return file->count;
}

const lh_safetensor *lh_safetensors_at(const lh_safetensors *file, int64_t i)
{
    return &file->tensors[i];
}
