/* h5_check.c - checks the structure of a foreign file: every link, type, shape and attribute is checked before any is
 * used. Attributes lie outside of HDF5's own checksums; a hash of all of them, the seal, is written last and compared
 * here. */
#include <stdio.h>
#include <string.h>

#include "base/child.h"
#include "base/h5_impl.h"

enum { OBJECTS_MAX = 1000000, ATTRS_MAX = 1000, PROBE_CPU_S = 5 };
#define PROBE_MEMORY_BYTES (INT64_C(1) << 30)

static herr_t visit_link(hid_t root, const char *name, const H5L_info_t *info, void *arg)
{
    lh_status st = LH_OK;
    lh_h5_walk *walk = arg;
    lh_h5_reason why;
    char full[1024];
    hid_t object = -1;
    if (snprintf(full, sizeof full, "/%s", name) >= (int)sizeof full || ++walk->objects > OBJECTS_MAX)
        LH_FAIL_DONE(LH_EFILE, "'%s' holds more or longer names than any file of longhaul", walk->h5->path);
    if (info->type != H5L_TYPE_HARD)
        LH_FAIL_DONE(LH_EFILE, "'%s' of '%s' is a link to somewhere else", full, walk->h5->path);
    object = H5Oopen(root, name, H5P_DEFAULT);
    if (object < 0) LH_FAIL_DONE(LH_EFILE, "cannot open '%s' of '%s': %s", full, walk->h5->path, lh_h5_why(&why));
    LH_TRY_DONE(walk->object(walk, object, full));
done:
    if (object >= 0) H5Oclose(object);
    walk->st = st;
    return st == LH_OK ? 0 : -1;
}

lh_status lh_h5_walk_run(lh_h5_walk *walk)
{
    lh_h5_reason why;
    herr_t rc = H5Lvisit(walk->h5->file, H5_INDEX_NAME, H5_ITER_INC, visit_link, walk);
    LH_TRY(walk->st);
    if (rc < 0) LH_FAIL(LH_EFILE, "cannot read the structure of '%s': %s", walk->h5->path, lh_h5_why(&why));
    return LH_OK;
}

/* The seal is a hash of all other attributes: HDF5's checksums do not cover strings. */
static const char seal_name[] = "attributes_xxh64";

/* An attribute must be one number or one string that can be read; it is added to `hash`. */
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

lh_status lh_h5_attrs_hash(lh_h5 *h5, hid_t object, const char *name, lh_hasher *hash)
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

static lh_status check_object(lh_h5_walk *walk, hid_t object, const char *name)
{
    lh_status st = LH_OK;
    lh_h5 *h5 = walk->h5;
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
    LH_TRY_DONE(lh_h5_attrs_hash(h5, object, name, walk->arg));
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
    LH_TRY_DONE(lh_h5_attrs_hash(h5, root, "/", hash));
    lh_h5_walk walk = {.h5 = h5, .object = check_object, .arg = hash};
    LH_TRY_DONE(lh_h5_walk_run(&walk));
    *out = lh_hasher_value(hash);
done:
    lh_hasher_close(hash);
    if (root >= 0) H5Oclose(root);
    return st;
}

lh_status lh_h5_seal(lh_h5 *h5)
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

static lh_status each_object(lh_h5_walk *walk, hid_t object, const char *name)
{
    lh_status st = LH_OK;
    const each_dataset *each = walk->arg;
    hid_t type = -1;
    if (H5Iget_type(object) != H5I_DATASET) goto done;
    type = H5Dget_type(object);
    if ((H5Tget_class(type) == H5T_STRING) == each->text) LH_TRY_DONE(each->visit(each->arg, walk->h5, name));
done:
    if (type >= 0) H5Tclose(type);
    return st;
}

lh_status lh_h5_each_array(lh_h5 *h5, lh_h5_visit visit, void *arg)
{
    each_dataset each = {visit, arg, 0};
    lh_h5_walk walk = {.h5 = h5, .object = each_object, .arg = &each};
    return lh_h5_walk_run(&walk);
}

lh_status lh_h5_each_text(lh_h5 *h5, lh_h5_visit visit, void *arg)
{
    each_dataset each = {visit, arg, 1};
    lh_h5_walk walk = {.h5 = h5, .object = each_object, .arg = &each};
    return lh_h5_walk_run(&walk);
}
