/* h5_array.c - datasets: arrays by hyperslabs in slices of at most 1 GiB, their compression, their hashes, and texts.
 */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/h5_impl.h"
#include "base/minmax.h"

/* Independent access moves at most 2 GiB - 1 in one call. */
#define SLICE_BYTES (INT64_C(1) << 30)
enum { HASHED_BYTES = 4 << 20 }; /* read at a time for their hash alone */

/* The hash of the rows of an array that were read so far. */
typedef struct row_hash {
    lh_hasher *hasher;
    int64_t rows, next; /* rows of the first dimension: all, and hashed so far */
    int64_t row_bytes;
} row_hash;

struct lh_h5_array {
    lh_h5 *h5;
    char *name;
    hid_t id, type; /* type: in the file and in memory */
    lh_h5_shape shape;
    row_hash *hashing; /* NULL: the array is not compared with its hash */
};

/* ---- types and shapes ---- */

int64_t lh_h5_shape_count(const lh_h5_shape *shape)
{
    int64_t n = 1;
    for (int d = 0; d < shape->rank; d++) n *= shape->dims[d];
    return n;
}

/* A 16-bit float: sign at bit 15, `exponent` bits of exponent, the rest mantissa. */
static hid_t make_half(size_t exponent, size_t bias)
{
    hid_t id = H5Tcopy(H5T_IEEE_F32LE);
    size_t mantissa = 15 - exponent;
    H5Tset_fields(id, 15, mantissa, exponent, 0, mantissa);
    H5Tset_size(id, 2); /* after the fields, which must fit at any time */
    H5Tset_ebias(id, bias);
    return id;
}

/* New id of the type (H5Tclose); 16-bit floats and f32, i32, i64, u8 as stored in a file. */
static hid_t make_type(lh_dtype type)
{
    switch (type) {
    case LH_F16: return make_half(5, 15);
    case LH_BF16: return make_half(8, 127);
    case LH_I32: return H5Tcopy(H5T_STD_I32LE);
    case LH_I64: return H5Tcopy(H5T_STD_I64LE);
    case LH_U8: return H5Tcopy(H5T_STD_U8LE);
    case LH_Q8: return H5Tcopy(H5T_STD_I8LE);
    default: return H5Tcopy(H5T_IEEE_F32LE);
    }
}

/* The element type an HDF5 type stands for: 1 and *out, or 0. */
static int find_type(hid_t id, lh_dtype *out)
{
    int found = 0;
    for (int t = 0; t < LH_DTYPES && !found; t++) {
        hid_t ours = make_type((lh_dtype)t);
        found = H5Tequal(id, ours) > 0;
        H5Tclose(ours);
        if (found) *out = (lh_dtype)t;
    }
    return found;
}

/* Maximum bytes of an array or a chunk that the file can hold: deflate compresses up to 1,032 bytes to 1. */
static int64_t max_bytes(const lh_h5 *h5, hid_t plist)
{
    const int64_t ratio = H5Pget_nfilters(plist) > 0 ? 1032 : 1;
    return h5->file_bytes < INT64_MAX / ratio ? h5->file_bytes * ratio : INT64_MAX;
}

/* A chunk that the filters skipped is stored whole: HDF5 copies the size of a chunk, even if fewer bytes are stored. */
static lh_status check_unfiltered(const lh_h5 *h5, hid_t dataset, const char *name, int64_t chunk_bytes)
{
    hsize_t chunks = 0, bytes = 0, at[H5S_MAX_RANK];
    unsigned left_out = 0;
    hid_t space = H5Dget_space(dataset);
    int ok = space >= 0 && H5Dget_num_chunks(dataset, space, &chunks) >= 0;
    for (hsize_t i = 0; i < chunks && ok; i++)
        ok = H5Dget_chunk_info(dataset, space, i, at, &left_out, NULL, &bytes) >= 0 &&
             (left_out == 0 || bytes == (hsize_t)chunk_bytes);
    if (space >= 0) H5Sclose(space);
    if (!ok) LH_FAIL(lh_h5_code(h5), "'%s' of '%s' has a damaged chunk: it is not whole", name, h5->path);
    return LH_OK;
}

/* Refuses a dataset with chunks that are larger than itself or than the file: HDF5 allocates a whole chunk to read one
 * element, and a compressed chunk may take a few bytes of the file. */
static lh_status check_chunk(const lh_h5 *h5, hid_t dataset, const char *name)
{
    lh_status st = LH_OK;
    hsize_t dims[H5S_MAX_RANK] = {0};
    hid_t plist = H5Dget_create_plist(dataset), type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    const int is_chunked = plist >= 0 && H5Pget_layout(plist) == H5D_CHUNKED;
    const int64_t count = space >= 0 ? (int64_t)H5Sget_simple_extent_npoints(space) : -1;
    if (!is_chunked || count == 0) goto done;
    int64_t chunk = 1, bytes = type >= 0 ? (int64_t)H5Tget_size(type) : INT64_MAX;
    const int rank = H5Pget_chunk(plist, H5S_MAX_RANK, dims);
    for (int d = 0; d < rank; d++)
        if (dims[d] > INT64_MAX || __builtin_mul_overflow(chunk, (int64_t)dims[d], &chunk)) chunk = INT64_MAX;
    if (rank < 1 || chunk > count || __builtin_mul_overflow(chunk, bytes, &bytes) || bytes > max_bytes(h5, plist))
        LH_FAIL_DONE(lh_h5_code(h5), "'%s' of '%s' is stored in chunks that are larger than the array or the file",
                     name, h5->path);
    if (H5Pget_nfilters(plist) > 0) LH_TRY_DONE(check_unfiltered(h5, dataset, name, bytes));
done:
    if (space >= 0) H5Sclose(space);
    if (type >= 0) H5Tclose(type);
    if (plist >= 0) H5Pclose(plist);
    return st;
}

/* The bytes of a dataset must lie inside this file, and be at most as many as the file has. */
static lh_status check_storage(const lh_h5 *h5, hid_t dataset, const char *name, int64_t bytes)
{
    lh_status st = LH_OK;
    hid_t plist = H5Dget_create_plist(dataset);
    H5D_layout_t layout = plist >= 0 ? H5Pget_layout(plist) : H5D_LAYOUT_ERROR;
    if (layout == H5D_LAYOUT_ERROR || layout == H5D_VIRTUAL || H5Pget_external_count(plist) != 0)
        LH_FAIL_DONE(lh_h5_code(h5), "'%s' of '%s' is not stored in the file itself", name, h5->path);
    if (bytes > max_bytes(h5, plist))
        LH_FAIL_DONE(lh_h5_code(h5), "'%s' of '%s' claims %lld bytes, the file has %lld", name, h5->path,
                     (long long)bytes, (long long)h5->file_bytes);
    LH_TRY_DONE(check_chunk(h5, dataset, name));
    if (layout == H5D_CONTIGUOUS && bytes > 0) {
        haddr_t at = H5Dget_offset(dataset);
        hsize_t stored = H5Dget_storage_size(dataset);
        if (at == HADDR_UNDEF || at > (haddr_t)h5->file_bytes || (hsize_t)bytes > (haddr_t)h5->file_bytes - at ||
            stored < (hsize_t)bytes)
            LH_FAIL_DONE(lh_h5_code(h5), "'%s' is outside of '%s': the file is cut off or damaged", name, h5->path);
    }
done:
    if (plist >= 0) H5Pclose(plist);
    return st;
}

lh_status lh_h5_shape_of(const lh_h5 *h5, hid_t dataset, const char *name, lh_h5_shape *out)
{
    lh_status st = LH_OK;
    hsize_t dims[LH_H5_RANK] = {0};
    lh_h5_shape shape = {0};
    int64_t bytes;
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    if (type < 0 || space < 0) LH_FAIL_DONE(lh_h5_code(h5), "cannot read the shape of '%s' in '%s'", name, h5->path);
    if (!find_type(type, &shape.type))
        LH_FAIL_DONE(lh_h5_code(h5), "'%s' of '%s' has an element type that is none of f32, f16, bf16, i32, i64, u8",
                     name, h5->path);
    shape.rank = H5Sget_simple_extent_ndims(space);
    if (shape.rank < 0 || shape.rank > LH_H5_RANK || H5Sget_simple_extent_type(space) == H5S_NULL)
        LH_FAIL_DONE(lh_h5_code(h5), "'%s' of '%s' has %d dimensions, at most %d are supported", name, h5->path,
                     shape.rank, LH_H5_RANK);
    H5Sget_simple_extent_dims(space, dims, NULL);
    bytes = lh_dtype_bytes(shape.type);
    for (int d = 0; d < shape.rank; d++) {
        shape.dims[d] = (int64_t)dims[d];
        if (shape.dims[d] < 0 || __builtin_mul_overflow(bytes, shape.dims[d], &bytes))
            LH_FAIL_DONE(lh_h5_code(h5), "'%s' of '%s' claims more bytes than any file has", name, h5->path);
    }
    if (!h5->partial) LH_TRY_DONE(check_storage(h5, dataset, name, bytes));
    *out = shape;
done:
    if (space >= 0) H5Sclose(space);
    if (type >= 0) H5Tclose(type);
    return st;
}

/* The type of a new dataset; types of 16-bit floats are committed once per file. */
static lh_status file_type(lh_h5 *h5, lh_dtype type, hid_t *out)
{
    lh_status st = LH_OK;
    lh_h5_reason why;
    hid_t plist = -1;
    const char *name = type == LH_BF16 ? "/types/bfloat16" : "/types/float16";
    if (type != LH_F16 && type != LH_BF16) {
        *out = make_type(type);
        goto done;
    }
    if (lh_h5_has(h5, name)) {
        *out = H5Topen2(h5->file, name, H5P_DEFAULT);
        if (*out < 0) LH_FAIL_DONE(LH_EWRITE, "cannot open '%s' of '%s': %s", name, h5->path, lh_h5_why(&why));
        goto done;
    }
    LH_TRY_DONE(lh_h5_group(h5, "/types"));
    *out = make_type(type);
    plist = H5Pcreate(H5P_DATATYPE_CREATE);
    H5Pset_obj_track_times(plist, 0);
    if (H5Tcommit2(h5->file, name, *out, H5P_DEFAULT, plist, H5P_DEFAULT) < 0)
        LH_FAIL_DONE(LH_EWRITE, "cannot write '%s' of '%s': %s", name, h5->path, lh_h5_why(&why));
done:
    if (plist >= 0) H5Pclose(plist);
    return st;
}

/* ---- compression: the bytes of elements are shuffled first, since exponents compress and mantissas do not ---- */

const char *const lh_h5_filter_names[] = {"none", "deflate", "zstd", NULL};

/* Levels are low: arrays are compressed while a model runs. */
static const struct filter {
    H5Z_filter_t id; /* as registered with the HDF Group */
    unsigned level;
} filters[] = {[LH_H5_DEFLATE] = {H5Z_FILTER_DEFLATE, 1}, [LH_H5_ZSTD] = {32015, 1}};
enum { FILTERS = sizeof filters / sizeof *filters };

static const char how[] = "name the folder of its plugin in the environment variable HDF5_PLUGIN_PATH";

lh_status lh_h5_filter_check(lh_h5_filter filter)
{
    if (filter != LH_H5_PLAIN && H5Zfilter_avail(filters[filter].id) <= 0)
        LH_FAIL(LH_EUSAGE, "HDF5 does not find the filter '%s' (%d) here: %s", lh_h5_filter_names[filter],
                (int)filters[filter].id, how);
    return LH_OK;
}

static herr_t filter_use(hid_t plist, const lh_h5_storage *storage, int rank)
{
    hsize_t chunk[LH_H5_RANK];
    const struct filter *f = &filters[storage->filter];
    for (int d = 0; d < rank; d++) chunk[d] = (hsize_t)storage->chunk[d];
    if (H5Pset_chunk(plist, rank, chunk) < 0 || H5Pset_shuffle(plist) < 0) return -1;
    return H5Pset_filter(plist, f->id, H5Z_FLAG_MANDATORY, 1, &f->level);
}

static H5Z_filter_t filter_at(hid_t plist, int i)
{
    size_t none = 0;
    unsigned flags, config;
    return H5Pget_filter2(plist, (unsigned)i, &flags, &none, NULL, 0, NULL, &config);
}

/* LH_EFILE unless HDF5 has all filters of the array here. */
static lh_status filters_found(const lh_h5_array *array)
{
    hid_t plist = H5Dget_create_plist(array->id);
    const int n = plist >= 0 ? H5Pget_nfilters(plist) : 0;
    H5Z_filter_t missing = 0;
    const char *name = "unknown";
    for (int i = 0; i < n && !missing; i++)
        if (H5Zfilter_avail(filter_at(plist, i)) <= 0) missing = filter_at(plist, i);
    for (int f = LH_H5_DEFLATE; f < FILTERS; f++)
        if (filters[f].id == missing) name = lh_h5_filter_names[f];
    if (plist >= 0) H5Pclose(plist);
    if (missing)
        LH_FAIL(LH_EFILE, "'%s' of '%s' is compressed by a filter that HDF5 does not find here, %d (%s): %s",
                array->name, array->h5->path, (int)missing, name, how);
    return LH_OK;
}

lh_h5_storage lh_h5_array_storage(const lh_h5_array *array)
{
    lh_h5_storage out = {0};
    hsize_t chunk[LH_H5_RANK];
    hid_t plist = H5Dget_create_plist(array->id);
    const int chunked = plist >= 0 && H5Pget_layout(plist) == H5D_CHUNKED && H5Pget_nfilters(plist) == 2 &&
                        filter_at(plist, 0) == H5Z_FILTER_SHUFFLE;
    for (int f = LH_H5_DEFLATE; f < FILTERS && chunked; f++)
        if (filter_at(plist, 1) == filters[f].id) out.filter = (lh_h5_filter)f;
    if (out.filter != LH_H5_PLAIN && H5Pget_chunk(plist, LH_H5_RANK, chunk) != array->shape.rank)
        out.filter = LH_H5_PLAIN;
    for (int d = 0; d < array->shape.rank && out.filter != LH_H5_PLAIN; d++) out.chunk[d] = (int64_t)chunk[d];
    if (plist >= 0) H5Pclose(plist);
    return out;
}

/* ---- creation ---- */

static hid_t new_dataset(lh_h5 *h5, const char *name, hid_t type, hid_t space, const lh_h5_storage *storage)
{
    hid_t id = -1, plist = H5Pcreate(H5P_DATASET_CREATE);
    const int filtered = storage && storage->filter != LH_H5_PLAIN;
    H5Pset_layout(plist, H5D_CONTIGUOUS);
    if (!filtered) H5Pset_alloc_time(plist, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(plist, H5D_FILL_TIME_NEVER);
    H5Pset_obj_track_times(plist, 0); /* same input, same bytes */
    if (!filtered || filter_use(plist, storage, H5Sget_simple_extent_ndims(space)) >= 0)
        id = H5Dcreate2(h5->file, name, type, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    H5Pclose(plist);
    return id;
}

lh_status lh_h5_array_create(lh_h5_array **out, lh_h5 *h5, const char *name, const lh_h5_shape *shape,
                             const lh_h5_storage *storage)
{
    lh_status st = LH_OK;
    lh_h5_reason why;
    lh_h5_array *array = NULL;
    hid_t space = -1;
    hsize_t dims[LH_H5_RANK];
    assert(h5->partial && shape->rank >= 0 && shape->rank <= LH_H5_RANK);
    LH_TRY_DONE(lh_calloc(&array, 1, sizeof *array));
    *array = (lh_h5_array){.h5 = h5, .id = -1, .type = -1, .shape = *shape};
    LH_TRY_DONE(lh_strdup(&array->name, name));
    LH_TRY_DONE(lh_h5_group_above(h5, name));
    LH_TRY_DONE(file_type(h5, shape->type, &array->type));
    for (int d = 0; d < shape->rank; d++) dims[d] = (hsize_t)shape->dims[d];
    space = shape->rank ? H5Screate_simple(shape->rank, dims, NULL) : H5Screate(H5S_SCALAR);
    array->id = new_dataset(h5, name, array->type, space, storage);
    if (array->id < 0) LH_FAIL_DONE(LH_EWRITE, "cannot make '%s' in '%s': %s", name, h5->path, lh_h5_why(&why));
    LH_TRY_DONE(lh_h5_put_string(h5, name, "dtype", lh_dtype_name(shape->type)));
    *out = array;
    array = NULL;
done:
    if (st != LH_OK) h5->failed = 1;
    if (space >= 0) H5Sclose(space);
    lh_h5_array_close(array);
    return st;
}

lh_status lh_h5_array_open(lh_h5_array **out, lh_h5 *h5, const char *name)
{
    lh_status st = LH_OK;
    lh_h5_reason why;
    lh_h5_array *array = NULL;
    if (!lh_h5_has(h5, name)) LH_FAIL_DONE(lh_h5_code(h5), "'%s' has no '%s'", h5->path, name);
    LH_TRY_DONE(lh_calloc(&array, 1, sizeof *array));
    *array = (lh_h5_array){.h5 = h5, .id = -1, .type = -1};
    LH_TRY_DONE(lh_strdup(&array->name, name));
    array->id = H5Dopen2(h5->file, name, H5P_DEFAULT);
    if (array->id < 0) LH_FAIL_DONE(lh_h5_code(h5), "cannot open '%s' of '%s': %s", name, h5->path, lh_h5_why(&why));
    LH_TRY_DONE(lh_h5_shape_of(h5, array->id, name, &array->shape));
    array->type = H5Dget_type(array->id);
    LH_TRY_DONE(filters_found(array));
    *out = array;
    array = NULL;
done:
    lh_h5_array_close(array);
    return st == LH_OK ? st : lh_h5_read_status(h5, st);
}

static void close_hashing(row_hash *hashing)
{
    if (!hashing) return;
    lh_hasher_close(hashing->hasher);
    lh_free(hashing);
}

void lh_h5_array_close(lh_h5_array *array)
{
    if (!array) return;
    if (array->type >= 0) H5Tclose(array->type);
    if (array->id >= 0 && H5Dclose(array->id) < 0) array->h5->failed = 1; /* chunks are compressed as late as here */
    close_hashing(array->hashing);
    lh_free(array->name);
    lh_free(array);
}

const lh_h5_shape *lh_h5_array_shape(const lh_h5_array *array)
{
    return &array->shape;
}

/* ---- hyperslabs ---- */

typedef enum direction { READ, WRITE } direction;

static int64_t slab_count(const lh_h5_array *array, const lh_h5_slab *slab)
{
    int64_t n = 1;
    for (int d = 0; d < array->shape.rank; d++) {
        assert(slab->at[d] >= 0 && slab->count[d] >= 0 && slab->at[d] <= array->shape.dims[d] - slab->count[d]);
        n *= slab->count[d];
    }
    return n;
}

static herr_t transfer(lh_h5_array *array, const lh_h5_slab *slab, void *data, direction way)
{
    hid_t file = H5S_ALL, memory = H5S_ALL;
    herr_t rc = 0;
    if (array->shape.rank > 0) {
        hsize_t at[LH_H5_RANK], count[LH_H5_RANK];
        for (int d = 0; d < array->shape.rank; d++) {
            at[d] = (hsize_t)slab->at[d];
            count[d] = (hsize_t)slab->count[d];
        }
        file = H5Dget_space(array->id);
        memory = H5Screate_simple(array->shape.rank, count, NULL);
        rc = H5Sselect_hyperslab(file, H5S_SELECT_SET, at, NULL, count, NULL);
    }
    if (rc >= 0 && way == READ) rc = H5Dread(array->id, array->type, memory, file, H5P_DEFAULT, data);
    if (rc >= 0 && way == WRITE) rc = H5Dwrite(array->id, array->type, memory, file, H5P_DEFAULT, data);
    if (memory != H5S_ALL) H5Sclose(memory);
    if (file != H5S_ALL) H5Sclose(file);
    return rc;
}

/* Halves the hyperslab until it is at most SLICE_BYTES. Both halves are dense in memory, because the first dimension
 * longer than 1 is divided. */
static lh_status transfer_sliced(lh_h5_array *array, const lh_h5_slab *slab, void *data, direction way)
{
    lh_h5_reason why;
    int64_t n = slab_count(array, slab), size = lh_dtype_bytes(array->shape.type);
    int d = 0;
    if (n == 0) return LH_OK;
    if (n * size > SLICE_BYTES) {
        lh_h5_slab half = *slab;
        while (slab->count[d] == 1) d++;
        half.count[d] = slab->count[d] / 2;
        LH_TRY(transfer_sliced(array, &half, data, way));
        int64_t first = slab_count(array, &half);
        half.at[d] += half.count[d];
        half.count[d] = slab->count[d] - half.count[d];
        LH_TRY(transfer_sliced(array, &half, (char *)data + first * size, way));
    } else if (transfer(array, slab, data, way) < 0) {
        LH_FAIL(lh_h5_code(array->h5), "cannot %s '%s' of '%s': %s", way == READ ? "read" : "write", array->name,
                array->h5->path, lh_h5_why(&why));
    }
    return LH_OK;
}

static lh_status check_written(const lh_h5 *h5)
{
    if (h5->write_errno) LH_FAIL(LH_EWRITE, "cannot write '%s': %s", h5->path, strerror(h5->write_errno));
    return LH_OK;
}

lh_status lh_h5_array_write(lh_h5_array *array, const lh_h5_slab *slab, const void *data)
{
    lh_status st = LH_OK;
    void *bytes;
    memcpy(&bytes, &data, sizeof bytes); /* HDF5 does not modify the source of a write */
    LH_TRY_DONE(transfer_sliced(array, slab, bytes, WRITE));
    LH_TRY_DONE(check_written(array->h5));
done:
    if (st != LH_OK) array->h5->failed = 1;
    return st;
}

static lh_status read_slab(lh_h5_array *array, const lh_h5_slab *slab, void *data)
{
    return lh_h5_read_status(array->h5, transfer_sliced(array, slab, data, READ));
}

/* ---- hashes ----
 *
 * A slab of complete rows is hashed when it is read; rows that the caller skips are read once more for their hash.
 * Where several ranks have one file open, one of them compares each array. */

/* LH_EFILE unless `have` is the hash that is stored with an array or a text; it may have none. */
static lh_status compare_hash(lh_h5 *h5, const char *name, uint64_t have)
{
    uint64_t want = 0;
    int found = 0;
    LH_TRY(lh_h5_get_hash(h5, name, &want, &found));
    if (found && want != have)
        LH_FAIL(lh_h5_code(h5), "'%s' of '%s' is damaged: its bytes hash to %016" PRIx64 ", its xxh64 is %016" PRIx64,
                name, h5->path, have, want);
    return LH_OK;
}

/* True if the array begins in this rank's share of the file: this rank compares it. */
static int is_mine(const lh_h5_array *array)
{
    const lh_h5 *h5 = array->h5;
    haddr_t at;
    if (h5->share_count < 2) return 1;
    at = H5Dget_offset(array->id); /* undefined of a compressed array */
    const double begins = at == HADDR_UNDEF ? 0 : (double)at / (double)h5->file_bytes;
    return (int)lh_min_i64((int64_t)(begins * h5->share_count), h5->share_count - 1) == h5->share_index;
}

static lh_status open_hashing(row_hash **out, const lh_h5_shape *shape)
{
    lh_status st = LH_OK;
    row_hash *hashing = NULL;
    LH_TRY_DONE(lh_calloc(&hashing, 1, sizeof *hashing));
    hashing->rows = shape->rank ? shape->dims[0] : 1;
    hashing->row_bytes = lh_h5_shape_count(shape) / lh_max_i64(hashing->rows, 1) * lh_dtype_bytes(shape->type);
    LH_TRY_DONE(lh_hasher_open(&hashing->hasher));
    *out = hashing;
    hashing = NULL;
done:
    close_hashing(hashing);
    return st;
}

/* Reads rows up to `end` for their hash alone. */
static lh_status hash_rows(lh_h5_array *array, row_hash *hashing, int64_t end)
{
    lh_status st = LH_OK;
    char *slice = NULL;
    const int64_t step = lh_max_i64(HASHED_BYTES / lh_max_i64(hashing->row_bytes, 1), 1);
    if (hashing->next >= end) goto done;
    LH_TRY_DONE(lh_calloc(&slice, lh_min_i64(step, end - hashing->next), hashing->row_bytes));
    while (hashing->next < end) {
        lh_h5_slab slab = {.at = {hashing->next}};
        memcpy(slab.count, array->shape.dims, sizeof slab.count);
        slab.count[0] = lh_min_i64(step, end - hashing->next);
        LH_TRY_DONE(read_slab(array, &slab, slice));
        lh_hasher_add(hashing->hasher, slice, slab.count[0] * hashing->row_bytes);
        hashing->next += slab.count[0];
    }
done:
    lh_free(slice);
    return st;
}

lh_status lh_h5_array_hash(lh_h5_array *array, uint64_t *hash)
{
    lh_status st = LH_OK;
    row_hash *hashing = NULL;
    LH_TRY_DONE(open_hashing(&hashing, &array->shape));
    LH_TRY_DONE(hash_rows(array, hashing, hashing->rows));
    *hash = lh_hasher_value(hashing->hasher);
done:
    close_hashing(hashing);
    return st;
}

lh_status lh_h5_array_check(lh_h5_array *array)
{
    uint64_t stored = 0;
    int found = 0;
    close_hashing(array->hashing);
    array->hashing = NULL;
    LH_TRY(lh_h5_get_hash(array->h5, array->name, &stored, &found));
    return found && is_mine(array) ? open_hashing(&array->hashing, &array->shape) : LH_OK;
}

lh_status lh_h5_array_checked(lh_h5_array *array)
{
    row_hash *hashing = array->hashing;
    if (!hashing) return LH_OK;
    LH_TRY(hash_rows(array, hashing, hashing->rows));
    return compare_hash(array->h5, array->name, lh_hasher_value(hashing->hasher));
}

/* Hashes a slab that was read. */
static lh_status add_hash(lh_h5_array *array, const lh_h5_slab *slab, const void *data)
{
    row_hash *hashing = array->hashing;
    const int64_t first = array->shape.rank ? slab->at[0] : 0, rows = array->shape.rank ? slab->count[0] : 1;
    if (!hashing || first < hashing->next || rows == 0) return LH_OK;
    for (int d = 1; d < array->shape.rank; d++)
        if (slab->count[d] != array->shape.dims[d]) return LH_OK; /* read again by lh_h5_array_checked */
    LH_TRY(hash_rows(array, hashing, first));
    lh_hasher_add(hashing->hasher, data, rows * hashing->row_bytes);
    hashing->next += rows;
    return LH_OK;
}

lh_status lh_h5_array_read(lh_h5_array *array, const lh_h5_slab *slab, void *data)
{
    LH_TRY(read_slab(array, slab, data));
    return add_hash(array, slab, data);
}

/* ---- whole arrays ---- */

static lh_h5_slab whole(const lh_h5_shape *shape)
{
    lh_h5_slab slab = {0};
    for (int d = 0; d < shape->rank; d++) slab.count[d] = shape->dims[d];
    return slab;
}

lh_status lh_h5_put(lh_h5 *h5, const char *name, const lh_h5_shape *shape, const void *data)
{
    return lh_h5_put_stored(h5, name, shape, NULL, data);
}

lh_status lh_h5_put_stored(lh_h5 *h5, const char *name, const lh_h5_shape *shape, const lh_h5_storage *storage,
                           const void *data)
{
    lh_status st = LH_OK;
    lh_h5_array *array = NULL;
    const lh_h5_slab slab = whole(shape);
    LH_TRY_DONE(lh_h5_array_create(&array, h5, name, shape, storage));
    LH_TRY_DONE(lh_h5_array_write(array, &slab, data));
    LH_TRY_DONE(lh_h5_put_hash(h5, name, lh_hash64(data, lh_h5_shape_count(shape) * lh_dtype_bytes(shape->type))));
done:
    lh_h5_array_close(array);
    return st;
}

static lh_status check_wanted(const lh_h5_array *array, const lh_h5_shape *want)
{
    const lh_h5_shape *have = &array->shape;
    const char *name = array->name, *path = array->h5->path;
    if (have->type != want->type)
        LH_FAIL(LH_EFILE, "'%s' of '%s' is %s, it must be %s", name, path, lh_dtype_name(have->type),
                lh_dtype_name(want->type));
    if (have->rank != want->rank)
        LH_FAIL(LH_EFILE, "'%s' of '%s' has %d dimensions, it must have %d", name, path, have->rank, want->rank);
    for (int d = 0; d < have->rank; d++)
        if (want->dims[d] >= 0 && have->dims[d] != want->dims[d])
            LH_FAIL(LH_EFILE, "dimension %d of '%s' of '%s' is %lld, it must be %lld", d, name, path,
                    (long long)have->dims[d], (long long)want->dims[d]);
    return LH_OK;
}

lh_status lh_h5_get(lh_h5 *h5, const char *name, const lh_h5_shape *want, lh_h5_shape *shape, void *data)
{
    lh_status st = LH_OK;
    lh_h5_array *array = NULL;
    void *values = NULL;
    LH_TRY_DONE(lh_h5_array_open(&array, h5, name));
    LH_TRY_DONE(check_wanted(array, want));
    const lh_h5_slab slab = whole(&array->shape);
    LH_TRY_DONE(lh_calloc(&values, lh_h5_shape_count(&array->shape), lh_dtype_bytes(array->shape.type)));
    LH_TRY_DONE(lh_h5_array_read(array, &slab, values));
    LH_TRY_DONE(compare_hash(h5, name,
                             lh_hash64(values, lh_h5_shape_count(&array->shape) * lh_dtype_bytes(array->shape.type))));
    *shape = array->shape;
    memcpy(data, &values, sizeof values);
    values = NULL;
done:
    lh_free(values);
    lh_h5_array_close(array);
    return st;
}

/* 1 if every chunk of `from` is one of `to` when its first element lies at `at`. The last chunk along a dimension is
 * stored whole, so where `from` ends within one, `to` must end, too. */
static int same_chunks(const lh_h5_array *to, const int64_t *at, const lh_h5_array *from)
{
    const lh_h5_storage a = lh_h5_array_storage(to), b = lh_h5_array_storage(from);
    int same = a.filter != LH_H5_PLAIN && a.filter == b.filter;
    for (int d = 0; d < from->shape.rank && same; d++) {
        const int64_t n = from->shape.dims[d];
        same = a.chunk[d] == b.chunk[d] && at[d] % a.chunk[d] == 0 &&
               (n % a.chunk[d] == 0 || at[d] + n == to->shape.dims[d]);
    }
    return same;
}

/* Memory for a compressed chunk. */
typedef struct room {
    char *data;
    int64_t bytes;
} room;

/* The chunk of `from` that begins at `first`. */
static lh_status copy_chunk(lh_h5_array *to, const int64_t *at, const lh_h5_array *from, const int64_t *first, room *r)
{
    lh_h5_reason why;
    hsize_t source[LH_H5_RANK], target[LH_H5_RANK], bytes = 0;
    uint32_t skipped = 0; /* filters that this chunk did not go through */
    for (int d = 0; d < from->shape.rank; d++) {
        source[d] = (hsize_t)first[d];
        target[d] = (hsize_t)(at[d] + first[d]);
    }
    if (H5Dget_chunk_storage_size(from->id, source, &bytes) < 0 || bytes > (hsize_t)from->h5->file_bytes) bytes = 0;
    if ((int64_t)bytes > r->bytes) {
        LH_TRY(lh_realloc(&r->data, (int64_t)bytes, 1));
        r->bytes = (int64_t)bytes;
    }
    if (!bytes || H5Dread_chunk(from->id, H5P_DEFAULT, source, &skipped, r->data) < 0)
        LH_FAIL(LH_EFILE, "cannot read a chunk of '%s' of '%s': %s", from->name, from->h5->path, lh_h5_why(&why));
    if (H5Dwrite_chunk(to->id, H5P_DEFAULT, skipped, target, (size_t)bytes, r->data) < 0)
        LH_FAIL(LH_EWRITE, "cannot write '%s' of '%s': %s", to->name, to->h5->path, lh_h5_why(&why));
    return LH_OK;
}

static lh_status copy_chunks(lh_h5_array *to, const int64_t *at, const lh_h5_array *from)
{
    lh_status st = LH_OK;
    room r = {0};
    int64_t first[LH_H5_RANK] = {0};
    const lh_h5_storage s = lh_h5_array_storage(from);
    for (int d = 0; d >= 0;) {
        LH_TRY_DONE(copy_chunk(to, at, from, first, &r));
        for (d = from->shape.rank - 1; d >= 0; d--) { /* the next chunk */
            first[d] += s.chunk[d];
            if (first[d] < from->shape.dims[d]) break;
            first[d] = 0;
        }
    }
    LH_TRY_DONE(check_written(to->h5));
done:
    if (st != LH_OK) to->h5->failed = 1;
    lh_free(r.data);
    return st;
}

lh_status lh_h5_array_place(lh_h5_array *to, const int64_t *at, lh_h5_array *from)
{
    lh_status st = LH_OK;
    const lh_h5_shape *shape = &from->shape;
    lh_h5_slab all = {0}, there = {0};
    void *data = NULL;
    if (same_chunks(to, at, from)) return copy_chunks(to, at, from);
    for (int d = 0; d < shape->rank; d++) {
        all.count[d] = there.count[d] = shape->dims[d];
        there.at[d] = at[d];
    }
    LH_TRY_DONE(lh_calloc(&data, lh_h5_shape_count(shape), lh_dtype_bytes(shape->type)));
    LH_TRY_DONE(lh_h5_array_read(from, &all, data));
    LH_TRY_DONE(lh_h5_array_write(to, &there, data));
done:
    lh_free(data);
    return st;
}

/* ---- texts ---- */

lh_status lh_h5_put_text(lh_h5 *h5, const char *name, const char *text, int64_t bytes)
{
    lh_status st = LH_OK;
    lh_h5_reason why;
    hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR), plist = H5Pcreate(H5P_DATASET_CREATE), id = -1;
    H5Tset_size(type, bytes ? (size_t)bytes : 1);
    H5Tset_strpad(type, H5T_STR_NULLPAD);
    H5Tset_cset(type, H5T_CSET_UTF8);
    H5Pset_obj_track_times(plist, 0);
    LH_TRY_DONE(lh_h5_group_above(h5, name));
    id = H5Dcreate2(h5->file, name, type, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    if (id < 0 || H5Dwrite(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes ? text : "") < 0) {
        h5->failed = 1;
        LH_FAIL_DONE(LH_EWRITE, "cannot write '%s' of '%s': %s", name, h5->path, lh_h5_why(&why));
    }
    LH_TRY_DONE(lh_h5_put_hash(h5, name, lh_hash64(text, bytes)));
done:
    if (id >= 0) H5Dclose(id);
    H5Pclose(plist);
    H5Sclose(space);
    H5Tclose(type);
    return st;
}

lh_status lh_h5_get_text(lh_h5 *h5, const char *name, char **text, int64_t *bytes)
{
    lh_status st = LH_OK;
    lh_h5_reason why;
    char *read = NULL;
    hid_t id = -1;
    if (!lh_h5_has(h5, name)) LH_FAIL_DONE(lh_h5_code(h5), "'%s' has no '%s'", h5->path, name);
    id = H5Dopen2(h5->file, name, H5P_DEFAULT);
    if (id < 0) LH_FAIL_DONE(lh_h5_code(h5), "cannot open '%s' of '%s': %s", name, h5->path, lh_h5_why(&why));
    if (!h5->partial) LH_TRY_DONE(check_chunk(h5, id, name));
    const lh_h5_string result = lh_h5_read_string(h5, id, &read, bytes);
    if (result == LH_H5_STRING_ABSENT) LH_FAIL_DONE(lh_h5_code(h5), "'%s' of '%s' is not one string", name, h5->path);
    if (result == LH_H5_STRING_UNREADABLE)
        LH_FAIL_DONE(lh_h5_code(h5), "cannot read '%s' of '%s': %s", name, h5->path, lh_h5_why(&why));
    LH_TRY_DONE(compare_hash(h5, name, lh_hash64(read, *bytes)));
    LH_TRY_DONE(lh_h5_read_status(h5, st));
    *text = read;
    read = NULL;
done:
    if (id >= 0) H5Dclose(id);
    lh_free(read);
    return st == LH_OK ? st : lh_h5_read_status(h5, st);
}
