/* h5_check.c - whole files: a walk over every link, type, shape and attribute, which checks a foreign file before any
 * of them is used, identifies and describes it. Attributes lie outside of HDF5's own checksums: a hash of all of them,
 * the seal, is written at the commit and compared by the check. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/child.h"
#include "base/h5_impl.h"
#include "base/json.h"
#include "base/minmax.h"
#include "base/output.h"

enum { OBJECTS_MAX = 1000000, ATTRS_MAX = 1000, PROBE_CPU_S = 5 };
#define PROBE_MEMORY_BYTES (INT64_C(1) << 30)

/* A walk over all links below the root, sorted by name; refuses links that are not hard. */
typedef struct walk {
    lh_h5 *h5;
    lh_status (*object)(struct walk *walk, hid_t object, const char *name);
    void *arg;
    int64_t objects;
    lh_status st;
} walk;

static herr_t visit_link(hid_t root, const char *name, const H5L_info_t *info, void *arg)
{
    lh_status st = LH_OK;
    walk *w = arg;
    lh_h5_reason why;
    char full[1024];
    hid_t object = -1;
    if (snprintf(full, sizeof full, "/%s", name) >= (int)sizeof full || ++w->objects > OBJECTS_MAX)
        LH_FAIL_DONE(LH_EFILE, "'%s' holds more or longer names than any file of longhaul", w->h5->path);
    if (info->type != H5L_TYPE_HARD)
        LH_FAIL_DONE(LH_EFILE, "'%s' of '%s' is a link to somewhere else", full, w->h5->path);
    object = H5Oopen(root, name, H5P_DEFAULT);
    if (object < 0) LH_FAIL_DONE(LH_EFILE, "cannot open '%s' of '%s': %s", full, w->h5->path, lh_h5_why(&why));
    LH_TRY_DONE(w->object(w, object, full));
done:
    if (object >= 0) H5Oclose(object);
    w->st = st;
    return st == LH_OK ? 0 : -1;
}

static lh_status run_walk(walk *w)
{
    lh_h5_reason why;
    herr_t rc = H5Lvisit(w->h5->file, H5_INDEX_NAME, H5_ITER_INC, visit_link, w);
    LH_TRY(w->st);
    if (rc < 0) LH_FAIL(LH_EFILE, "cannot read the structure of '%s': %s", w->h5->path, lh_h5_why(&why));
    return LH_OK;
}

/* ---- the seal ---- */

static const char seal_name[] = "attributes_xxh64";

/* An attribute must be one number or one string that can be read. All but the seal are added to `hash`. */
static lh_status check_attr(lh_h5 *h5, hid_t id, const char *name, lh_hasher *hash)
{
    lh_status st = LH_OK;
    char attr[256] = "", *text = NULL;
    double real = 0;
    int64_t whole = 0;
    hid_t type = H5Aget_type(id);
    if (type < 0 || H5Aget_name(id, sizeof attr, attr) < 0)
        LH_FAIL_DONE(lh_h5_code(h5), "cannot read the attributes of '%s' in '%s'", name, h5->path);
    if (strcmp(name, "/") == 0 && strcmp(attr, seal_name) == 0) goto done;
    lh_hasher_add(hash, attr, (int64_t)strlen(attr) + 1);
    switch (H5Tget_class(type)) {
    case H5T_STRING:
        LH_TRY_DONE(lh_h5_get_string(h5, name, attr, &text));
        lh_hasher_add(hash, text, (int64_t)strlen(text) + 1);
        break;
    case H5T_INTEGER:
        LH_TRY_DONE(lh_h5_get_i64(h5, name, attr, &whole));
        lh_hasher_add(hash, &whole, sizeof whole);
        break;
    default: LH_TRY_DONE(lh_h5_get_f64(h5, name, attr, &real)); lh_hasher_add(hash, &real, sizeof real);
    }
done:
    lh_free(text);
    if (type >= 0) H5Tclose(type);
    return st;
}

/* Checks the attributes of an object and adds its name and all of them but the seal to `hash`. */
static lh_status hash_attrs(lh_h5 *h5, hid_t object, const char *name, lh_hasher *hash)
{
    lh_status st = LH_OK;
    hid_t id = -1;
    int n = H5Aget_num_attrs(object);
    if (n < 0 || n > ATTRS_MAX)
        LH_FAIL_DONE(lh_h5_code(h5), "cannot read the attributes of '%s' in '%s'", name, h5->path);
    lh_hasher_add(hash, name, (int64_t)strlen(name) + 1);
    for (int i = 0; i < n; i++) {
        id = H5Aopen_by_idx(object, ".", H5_INDEX_NAME, H5_ITER_INC, (hsize_t)i, H5P_DEFAULT, H5P_DEFAULT);
        if (id < 0) LH_FAIL_DONE(lh_h5_code(h5), "cannot read the attributes of '%s' in '%s'", name, h5->path);
        LH_TRY_DONE(check_attr(h5, id, name, hash));
        H5Aclose(id);
        id = -1;
    }
done:
    if (id >= 0) H5Aclose(id);
    return st;
}

static lh_status check_object(walk *w, hid_t object, const char *name)
{
    lh_status st = LH_OK;
    lh_h5 *h5 = w->h5;
    lh_h5_shape shape;
    char *text = NULL;
    int64_t bytes;
    hid_t type = -1;
    H5I_type_t kind = H5Iget_type(object);
    if (kind == H5I_DATASET) {
        type = H5Dget_type(object);
        if (H5Tget_class(type) == H5T_STRING)
            LH_TRY_DONE(lh_h5_get_text(h5, name, &text, &bytes));
        else
            LH_TRY_DONE(lh_h5_shape_of(h5, object, name, &shape));
    } else if (kind != H5I_GROUP && kind != H5I_DATATYPE) {
        LH_FAIL_DONE(LH_EFILE, "'%s' of '%s' is neither a group, an array nor a type", name, h5->path);
    }
    LH_TRY_DONE(hash_attrs(h5, object, name, w->arg));
done:
    lh_free(text);
    if (type >= 0) H5Tclose(type);
    return st;
}

/* Check everything, and compute the hash of all attributes. */
static lh_status check_all(lh_h5 *h5, uint64_t *out)
{
    lh_status st = LH_OK;
    lh_hasher *hash = NULL;
    hid_t root = H5Oopen(h5->file, "/", H5P_DEFAULT);
    if (root < 0) LH_FAIL_DONE(lh_h5_code(h5), "cannot open the root of '%s'", h5->path);
    LH_TRY_DONE(lh_hasher_open(&hash));
    LH_TRY_DONE(hash_attrs(h5, root, "/", hash));
    walk w = {.h5 = h5, .object = check_object, .arg = hash};
    LH_TRY_DONE(run_walk(&w));
    *out = lh_hasher_value(hash);
done:
    lh_hasher_close(hash);
    if (root >= 0) H5Oclose(root);
    return st;
}

static lh_status seal(lh_h5 *h5)
{
    uint64_t hash = 0;
    char hex[17];
    LH_TRY(check_all(h5, &hash));
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)hash);
    LH_TRY(lh_h5_put_string(h5, "/", seal_name, hex));
    return LH_OK;
}

lh_status lh_h5_check(const char *path)
{
    lh_status st = LH_OK;
    lh_h5 *h5 = NULL;
    const lh_h5_header any = {0};
    char *seal = NULL, hex[17];
    uint64_t hash = 0;
    LH_TRY_DONE(lh_h5_open(&h5, path, &any));
    LH_TRY_DONE(check_all(h5, &hash));
    LH_TRY_DONE(lh_h5_get_string(h5, "/", seal_name, &seal));
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)hash);
    if (seal && strcmp(seal, hex) != 0)
        LH_FAIL_DONE(LH_EFILE, "'%s' is damaged: its attributes hash to %s, '%s' is %s", path, hex, seal_name, seal);
done:
    lh_free(seal);
    lh_h5_close(h5);
    return st;
}

lh_status lh_h5_commit(lh_h5 *h5)
{
    lh_status st = LH_OK;
    lh_h5_reason why;
    if (seal(h5) != LH_OK) h5->failed = 1;
    /* Closed in any case: pending writes go to the driver, which remembers errors. */
    herr_t flushed = H5Fflush(h5->file, H5F_SCOPE_GLOBAL), closed = H5Fclose(h5->file);
    h5->file = -1;
    if (h5->write_errno) LH_FAIL_DONE(LH_EWRITE, "cannot write '%s': %s", h5->path, strerror(h5->write_errno));
    if (flushed < 0 || closed < 0) LH_FAIL_DONE(LH_EWRITE, "cannot write '%s': %s", h5->path, lh_h5_why(&why));
    if (h5->failed) LH_FAIL_DONE(LH_EWRITE, "'%s' was not written in full", h5->path);
    if (lh_h5_check(h5->partial) != LH_OK) {
        st = lh_fail_within(LH_EWRITE, "what was written cannot be read back");
        goto done;
    }
    LH_TRY_DONE(lh_partial_commit(h5->path));
done:
    if (st != LH_OK) lh_partial_drop(h5->path);
    lh_h5_release(h5);
    return st;
}

static lh_status check_in_child(void *path)
{
    return lh_h5_check(path);
}

lh_status lh_h5_probe(const char *path)
{
    lh_status st = LH_OK;
    char *copy = NULL;
    LH_TRY_DONE(lh_strdup(&copy, path));
    const lh_child_work work = {check_in_child, copy, path, LH_EFILE, LH_CHILD_SILENT};
    const lh_child_limits limits = {.cpu_s = PROBE_CPU_S, .memory_bytes = PROBE_MEMORY_BYTES};
    LH_TRY_DONE(lh_child_run(&work, &limits));
done:
    lh_free(copy);
    return st;
}

typedef struct each_dataset {
    lh_h5_visit visit;
    void *arg;
    int text; /* 1: strings, 0: all others */
} each_dataset;

static lh_status each_object(walk *w, hid_t object, const char *name)
{
    lh_status st = LH_OK;
    const each_dataset *each = w->arg;
    hid_t type = -1;
    if (H5Iget_type(object) != H5I_DATASET) goto done;
    type = H5Dget_type(object);
    if ((H5Tget_class(type) == H5T_STRING) == each->text) LH_TRY_DONE(each->visit(each->arg, w->h5, name));
done:
    if (type >= 0) H5Tclose(type);
    return st;
}

lh_status lh_h5_each_array(lh_h5 *h5, lh_h5_visit visit, void *arg)
{
    each_dataset each = {visit, arg, 0};
    walk w = {.h5 = h5, .object = each_object, .arg = &each};
    return run_walk(&w);
}

lh_status lh_h5_each_text(lh_h5 *h5, lh_h5_visit visit, void *arg)
{
    each_dataset each = {visit, arg, 1};
    walk w = {.h5 = h5, .object = each_object, .arg = &each};
    return run_walk(&w);
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

/* ---- identity: a hash of the hashes that are stored with the arrays, and of both ends of arrays that have none. The
 * attributes of the root, which say who wrote the file, stay out. ---- */

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

static lh_status add_object(walk *w, hid_t object, const char *name)
{
    lh_status st = LH_OK;
    lh_h5_shape shape = {0};
    uint64_t stored = 0;
    int found = 0;
    hid_t type = -1;
    LH_TRY_DONE(hash_attrs(w->h5, object, name, w->arg));
    if (H5Iget_type(object) != H5I_DATASET) goto done;
    type = H5Dget_type(object);
    LH_TRY_DONE(lh_h5_get_hash(w->h5, name, &stored, &found));
    if (H5Tget_class(type) == H5T_STRING) {
        if (!found) LH_TRY_DONE(add_text(w->h5, name, w->arg));
        goto done;
    }
    LH_TRY_DONE(lh_h5_shape_of(w->h5, object, name, &shape));
    lh_hasher_add(w->arg, shape.dims, sizeof shape.dims);
    if (!found) LH_TRY_DONE(add_ends(w->h5, name, w->arg));
done:
    if (type >= 0) H5Tclose(type);
    return st;
}

lh_status lh_h5_contents(lh_h5 *h5, uint64_t *hash)
{
    lh_status st = LH_OK;
    lh_hasher *hasher = NULL;
    LH_TRY_DONE(lh_hasher_open(&hasher));
    walk w = {.h5 = h5, .object = add_object, .arg = hasher};
    LH_TRY_DONE(run_walk(&w));
    *hash = lh_hasher_value(hasher);
done:
    lh_hasher_close(hasher);
    return st;
}

/* ---- description ---- */

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

static lh_status describe_object(walk *w, hid_t id, const char *name)
{
    lh_status st = LH_OK;
    const describer *d = w->arg;
    lh_h5_shape shape;
    json_t *entry = NULL, *dims = NULL;
    hid_t type = -1;
    if (H5Iget_type(id) == H5I_GROUP && H5Aget_num_attrs(id) > 0) {
        entry = json_object();
        LH_TRY_DONE(put_attrs(w->h5, id, name, entry));
        LH_TRY_DONE(put(w->h5, d->object, name, json_incref(entry)));
    }
    if (H5Iget_type(id) != H5I_DATASET) goto done;
    type = H5Dget_type(id);
    if (H5Tget_class(type) == H5T_STRING) goto done;
    LH_TRY_DONE(lh_h5_shape_of(w->h5, id, name, &shape));
    entry = json_object();
    dims = json_array();
    for (int i = 0; i < shape.rank; i++) json_array_append_new(dims, json_integer(shape.dims[i]));
    LH_TRY_DONE(put(w->h5, entry, "name", lh_json_text(name, (int64_t)strlen(name))));
    LH_TRY_DONE(put(w->h5, entry, "shape", json_incref(dims)));
    LH_TRY_DONE(put_attrs(w->h5, id, name, entry));
    LH_TRY_DONE(put(w->h5, entry, "dtype", json_string(lh_dtype_name(shape.type))));
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
    walk w = {.h5 = h5, .object = describe_object, .arg = &d};
    LH_TRY_DONE(run_walk(&w));
    json_object_del(object, "longhaul"); /* shown as `kind` */
    *arrays = json_incref(d.arrays);
done:
    json_decref(d.arrays);
    if (root >= 0) H5Oclose(root);
    return st;
}
