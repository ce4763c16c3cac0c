/* h5_hash.c - compares arrays and texts with the hash that is stored beside them while they are read. A slab of
 * complete rows is hashed as it comes; rows that the caller skips are read once more for their hash alone. Where
 * several ranks have one file open, each array is compared by one of them. */
#include <inttypes.h>
#include <string.h>

#include "base/h5_impl.h"
#include "base/minmax.h"

enum { SLICE_BYTES = 4 << 20 };

struct lh_h5_hashing {
    lh_hasher *hasher;
    int64_t rows, next; /* of the first dimension: all, and hashed so far */
    int64_t row_bytes;
};

void lh_h5_share(lh_h5 *h5, int index, int count)
{
    h5->share_index = index;
    h5->share_count = count;
}

uint64_t lh_h5_file_id(const lh_h5 *h5)
{
    const int64_t id[] = {(int64_t)h5->inode, h5->file_bytes, (int64_t)h5->modified.tv_sec,
                          (int64_t)h5->modified.tv_nsec};
    return lh_hash64(id, sizeof id);
}

lh_status lh_h5_compare_hash(lh_h5 *h5, const char *name, uint64_t have)
{
    uint64_t want = 0;
    int found = 0;
    LH_TRY(lh_h5_get_hash(h5, name, &want, &found));
    if (found && want != have)
        LH_FAIL(lh_h5_code(h5), "'%s' of '%s' is damaged: its bytes hash to %016" PRIx64 ", its xxh64 is %016" PRIx64,
                name, h5->path, have, want);
    return LH_OK;
}

/* True if this rank compares the array: the one in whose share of the file it begins. */
static int is_mine(const lh_h5_array *array)
{
    const lh_h5 *h5 = array->h5;
    haddr_t at;
    if (h5->share_count < 2) return 1;
    at = H5Dget_offset(array->id); /* undefined of a compressed array */
    const double begins = at == HADDR_UNDEF ? 0 : (double)at / (double)h5->file_bytes;
    return (int)lh_min_i64((int64_t)(begins * h5->share_count), h5->share_count - 1) == h5->share_index;
}

void lh_h5_hashing_close(lh_h5_hashing *hashing)
{
    if (!hashing) return;
    lh_hasher_close(hashing->hasher);
    lh_free(hashing);
}

static lh_status open_hashing(lh_h5_hashing **out, const lh_h5_shape *shape)
{
    lh_status st = LH_OK;
    lh_h5_hashing *hashing = NULL;
    LH_TRY_DONE(lh_calloc(&hashing, 1, sizeof *hashing));
    hashing->rows = shape->rank ? shape->dims[0] : 1;
    hashing->row_bytes = lh_h5_shape_count(shape) / lh_max_i64(hashing->rows, 1) * lh_dtype_bytes(shape->type);
    LH_TRY_DONE(lh_hasher_open(&hashing->hasher));
    *out = hashing;
    hashing = NULL;
done:
    lh_h5_hashing_close(hashing);
    return st;
}

/* Reads rows up to `end` for their hash alone. */
static lh_status hash_rows(lh_h5_array *array, lh_h5_hashing *hashing, int64_t end)
{
    lh_status st = LH_OK;
    char *slice = NULL;
    const int64_t step = lh_max_i64(SLICE_BYTES / lh_max_i64(hashing->row_bytes, 1), 1);
    if (hashing->next >= end) goto done;
    LH_TRY_DONE(lh_calloc(&slice, lh_min_i64(step, end - hashing->next), hashing->row_bytes));
    while (hashing->next < end) {
        lh_h5_slab slab = {.at = {hashing->next}};
        memcpy(slab.count, array->shape.dims, sizeof slab.count);
        slab.count[0] = lh_min_i64(step, end - hashing->next);
        LH_TRY_DONE(lh_h5_array_transfer_in(array, &slab, slice));
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
    lh_h5_hashing *hashing = NULL;
    LH_TRY_DONE(open_hashing(&hashing, &array->shape));
    LH_TRY_DONE(hash_rows(array, hashing, hashing->rows));
    *hash = lh_hasher_value(hashing->hasher);
done:
    lh_h5_hashing_close(hashing);
    return st;
}

lh_status lh_h5_array_check(lh_h5_array *array)
{
    uint64_t stored = 0;
    int found = 0;
    LH_TRY(lh_h5_get_hash(array->h5, array->name, &stored, &found));
    return found && is_mine(array) ? open_hashing(&array->hashing, &array->shape) : LH_OK;
}

lh_status lh_h5_array_checked(lh_h5_array *array)
{
    lh_h5_hashing *hashing = array->hashing;
    if (!hashing) return LH_OK;
    LH_TRY(hash_rows(array, hashing, hashing->rows));
    return lh_h5_compare_hash(array->h5, array->name, lh_hasher_value(hashing->hasher));
}

lh_status lh_h5_hashing_add(lh_h5_array *array, const lh_h5_slab *slab, const void *data)
{
    lh_h5_hashing *hashing = array->hashing;
    const int64_t first = array->shape.rank ? slab->at[0] : 0, rows = array->shape.rank ? slab->count[0] : 1;
    if (!hashing || first < hashing->next || rows == 0) return LH_OK;
    for (int d = 1; d < array->shape.rank; d++)
        if (slab->count[d] != array->shape.dims[d]) return LH_OK; /* read again by lh_h5_array_checked */
    LH_TRY(hash_rows(array, hashing, first));
    lh_hasher_add(hashing->hasher, data, rows * hashing->row_bytes);
    hashing->next += rows;
    return LH_OK;
}

static lh_status compare_array(void *arg, lh_h5 *h5, const char *name)
{
    lh_status st = LH_OK;
    lh_h5_array *array = NULL;
    (void)arg;
    LH_TRY_DONE(lh_h5_array_open(&array, h5, name));
    LH_TRY_DONE(lh_h5_array_check(array));
    LH_TRY_DONE(lh_h5_array_checked(array));
done:
    lh_h5_array_close(array);
    return st;
}

static lh_status compare_text(void *arg, lh_h5 *h5, const char *name)
{
    char *text = NULL;
    int64_t bytes = 0;
    (void)arg;
    const lh_status st = lh_h5_get_text(h5, name, &text, &bytes);
    lh_free(text);
    return st;
}

lh_status lh_h5_compare(lh_h5 *h5)
{
    LH_TRY(lh_h5_each_text(h5, compare_text, NULL));
    return lh_h5_each_array(h5, compare_array, NULL);
}
