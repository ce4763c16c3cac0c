/* h5_filter.c - compressed arrays: the filters that HDF5 may have, chunks, and copies of chunks as they are stored. The
 * bytes of elements are shuffled before either filter: exponents compress, mantissas do not. */
#include "base/h5_impl.h"

const char *const lh_h5_filter_names[] = {"none", "deflate", "zstd", NULL};

/* Levels are low: what is compressed is written while a model runs. */
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

herr_t lh_h5_filter_use(hid_t plist, const lh_h5_storage *storage, int rank)
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

lh_status lh_h5_filters_found(const lh_h5_array *array)
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

/* ---- copies ---- */

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

/* Memory for a chunk as it is stored. */
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
    LH_TRY_DONE(lh_h5_written(to->h5));
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
