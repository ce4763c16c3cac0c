/* h5_contents.c - tells two files apart without reading them: a hash over the hashes that are stored beside every
 * array, and over the ends of arrays that have none. The attributes of the root stay out: who wrote a file does not
 * matter. */
#include "base/h5_impl.h"
#include "base/minmax.h"

enum { SAMPLE_ELEMENTS = 8192 }; /* of either end of an array */

/* The first (last = 0) or the last elements of an array as a slab; returns how many. */
static int64_t end_of(const lh_h5_shape *shape, int last, lh_h5_slab *slab)
{
    int64_t count = 1;
    *slab = (lh_h5_slab){0};
    for (int d = shape->rank - 1; d >= 0; d--) {
        slab->count[d] = lh_min_i64(shape->dims[d], SAMPLE_ELEMENTS / lh_max_i64(count, 1));
        slab->at[d] = last ? shape->dims[d] - slab->count[d] : 0;
        count *= slab->count[d];
    }
    return count;
}

static lh_status add_ends(lh_h5 *h5, const char *name, lh_hasher *hash)
{
    lh_status st = LH_OK;
    lh_h5_array *array = NULL;
    lh_h5_slab slab;
    char *values = NULL;
    LH_TRY_DONE(lh_h5_array_open(&array, h5, name));
    const lh_h5_shape *shape = lh_h5_array_shape(array);
    LH_TRY_DONE(lh_calloc(&values, SAMPLE_ELEMENTS, lh_dtype_bytes(shape->type)));
    for (int last = 0; last < 2; last++) {
        int64_t n = end_of(shape, last, &slab);
        if (n == 0) continue;
        LH_TRY_DONE(lh_h5_array_read(array, &slab, values));
        lh_hasher_add(hash, values, n * lh_dtype_bytes(shape->type));
    }
done:
    lh_free(values);
    lh_h5_array_close(array);
    return st;
}

static lh_status add_text(lh_h5 *h5, const char *name, lh_hasher *hash)
{
    lh_status st = LH_OK;
    char *text = NULL;
    int64_t bytes = 0;
    LH_TRY_DONE(lh_h5_get_text(h5, name, &text, &bytes));
    lh_hasher_add(hash, text, bytes);
done:
    lh_free(text);
    return st;
}

static lh_status add_object(lh_h5_walk *walk, hid_t object, const char *name)
{
    lh_status st = LH_OK;
    lh_h5_shape shape = {0};
    uint64_t stored = 0;
    int found = 0;
    hid_t type = -1;
    LH_TRY_DONE(lh_h5_attrs_hash(walk->h5, object, name, walk->arg));
    if (H5Iget_type(object) != H5I_DATASET) goto done;
    type = H5Dget_type(object);
    LH_TRY_DONE(lh_h5_get_hash(walk->h5, name, &stored, &found));
    if (H5Tget_class(type) == H5T_STRING) {
        if (!found) LH_TRY_DONE(add_text(walk->h5, name, walk->arg));
        goto done;
    }
    LH_TRY_DONE(lh_h5_shape_of(walk->h5, object, name, &shape));
    lh_hasher_add(walk->arg, shape.dims, sizeof shape.dims);
    if (!found) LH_TRY_DONE(add_ends(walk->h5, name, walk->arg));
done:
    if (type >= 0) H5Tclose(type);
    return st;
}

lh_status lh_h5_contents(lh_h5 *h5, uint64_t *hash)
{
    lh_status st = LH_OK;
    lh_hasher *hasher = NULL;
    LH_TRY_DONE(lh_hasher_open(&hasher));
    lh_h5_walk walk = {.h5 = h5, .object = add_object, .arg = hasher};
    LH_TRY_DONE(lh_h5_walk_run(&walk));
    *hash = lh_hasher_value(hasher);
done:
    lh_hasher_close(hasher);
    return st;
}
