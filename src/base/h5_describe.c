/* h5_describe.c - the contents of one of our files as JSON, for `longhaul info`: attributes, groups and arrays. */
#include <math.h>
#include <string.h>

#include "base/h5_impl.h"
#include "base/json.h"

static lh_status put(const lh_h5 *h5, json_t *object, const char *key, json_t *value)
{
    if (!value) LH_FAIL(LH_ENOMEM, "cannot allocate memory for the description");
    if (json_object_set_new(object, key, value) != 0)
        LH_FAIL(lh_h5_code(h5), "the name '%s' in '%s' is not UTF-8 text", key, h5->path);
    return LH_OK;
}

/* One attribute: a number (null if it is not finite) or a string; a string that is a JSON object is shown as such
 * (`run`). */
static lh_status put_attr(lh_h5 *h5, const char *name, const char *attr, json_t *object)
{
    lh_status st = LH_OK;
    hid_t id = H5Aopen_by_name(h5->file, name, attr, H5P_DEFAULT, H5P_DEFAULT), type = id >= 0 ? H5Aget_type(id) : -1;
    char *text = NULL;
    double real = 0;
    int64_t whole = 0;
    json_t *inner = NULL;
    if (type < 0) LH_FAIL_DONE(lh_h5_code(h5), "cannot read attribute '%s' of '%s' in '%s'", attr, name, h5->path);
    switch (H5Tget_class(type)) {
    case H5T_STRING:
        LH_TRY_DONE(lh_h5_get_string(h5, name, attr, &text));
        inner = json_loads(text, 0, NULL);
        if (!inner) inner = lh_json_text(text, (int64_t)strlen(text));
        LH_TRY_DONE(put(h5, object, attr, inner));
        break;
    case H5T_INTEGER:
        LH_TRY_DONE(lh_h5_get_i64(h5, name, attr, &whole));
        LH_TRY_DONE(put(h5, object, attr, json_integer(whole)));
        break;
    default:
        LH_TRY_DONE(lh_h5_get_f64(h5, name, attr, &real));
        LH_TRY_DONE(put(h5, object, attr, isfinite(real) ? json_real(real) : json_null()));
    }
done:
    lh_free(text);
    if (type >= 0) H5Tclose(type);
    if (id >= 0) H5Aclose(id);
    return st;
}

static lh_status put_attrs(lh_h5 *h5, hid_t id, const char *name, json_t *object)
{
    int n = H5Aget_num_attrs(id);
    for (int i = 0; i < n; i++) {
        char attr[256];
        ssize_t bytes =
            H5Aget_name_by_idx(id, ".", H5_INDEX_NAME, H5_ITER_INC, (hsize_t)i, attr, sizeof attr, H5P_DEFAULT);
        if (bytes < 0) LH_FAIL(lh_h5_code(h5), "cannot read the attributes of '%s' in '%s'", name, h5->path);
        LH_TRY(put_attr(h5, name, attr, object));
    }
    return LH_OK;
}

typedef struct describer {
    json_t *object, *arrays;
} describer;

static lh_status describe_object(lh_h5_walk *walk, hid_t id, const char *name)
{
    lh_status st = LH_OK;
    const describer *d = walk->arg;
    lh_h5_shape shape;
    json_t *entry = NULL, *dims = NULL;
    hid_t type = -1;
    if (H5Iget_type(id) == H5I_GROUP && H5Aget_num_attrs(id) > 0) {
        entry = json_object();
        LH_TRY_DONE(put_attrs(walk->h5, id, name, entry));
        LH_TRY_DONE(put(walk->h5, d->object, name, json_incref(entry)));
    }
    if (H5Iget_type(id) != H5I_DATASET) goto done;
    type = H5Dget_type(id);
    if (H5Tget_class(type) == H5T_STRING) goto done;
    LH_TRY_DONE(lh_h5_shape_of(walk->h5, id, name, &shape));
    entry = json_object();
    dims = json_array();
    for (int i = 0; i < shape.rank; i++) json_array_append_new(dims, json_integer(shape.dims[i]));
    LH_TRY_DONE(put(walk->h5, entry, "name", lh_json_text(name, (int64_t)strlen(name))));
    LH_TRY_DONE(put(walk->h5, entry, "shape", json_incref(dims)));
    LH_TRY_DONE(put_attrs(walk->h5, id, name, entry));
    LH_TRY_DONE(put(walk->h5, entry, "dtype", json_string(lh_dtype_name(shape.type))));
    if (json_array_append(d->arrays, entry) != 0) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for the description");
done:
    if (type >= 0) H5Tclose(type);
    json_decref(dims);
    json_decref(entry);
    return st;
}

lh_status lh_h5_describe(lh_h5 *h5, json_t *object, json_t **arrays)
{
    lh_status st = LH_OK;
    describer d = {object, json_array()};
    hid_t root = H5Oopen(h5->file, "/", H5P_DEFAULT);
    if (root < 0 || !d.arrays) LH_FAIL_DONE(lh_h5_code(h5), "cannot open the root of '%s'", h5->path);
    LH_TRY_DONE(put(h5, object, "kind", lh_json_text(h5->kind, (int64_t)strlen(h5->kind))));
    LH_TRY_DONE(put_attrs(h5, root, "/", object));
    LH_TRY_DONE(put(h5, object, "bytes", json_integer(h5->file_bytes)));
    lh_h5_walk walk = {.h5 = h5, .object = describe_object, .arg = &d};
    LH_TRY_DONE(lh_h5_walk_run(&walk));
    json_object_del(object, "longhaul"); /* shown as `kind` */
    *arrays = json_incref(d.arrays);
done:
    json_decref(d.arrays);
    if (root >= 0) H5Oclose(root);
    return st;
}
