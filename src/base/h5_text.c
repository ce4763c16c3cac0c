/* h5_text.c - attributes, and texts in datasets. Both kinds of HDF5 string are read; attributes are written with
 * variable length, because h5py returns those as str. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/h5_impl.h"
#include "base/hash.h"

/* An attribute or a dataset: the calls differ in name only. */
typedef struct holder {
    hid_t id;
    hid_t (*type)(hid_t);
    hid_t (*space)(hid_t);
    herr_t (*read)(hid_t, hid_t, void *);
} holder;

static herr_t read_dataset(hid_t id, hid_t type, void *data)
{
    return H5Dread(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
}

static holder attr_holder(hid_t id)
{
    return (holder){id, H5Aget_type, H5Aget_space, H5Aread};
}

static holder data_holder(hid_t id)
{
    return (holder){id, H5Dget_type, H5Dget_space, read_dataset};
}

static hssize_t elements(const holder *h)
{
    hid_t space = h->space(h->id);
    hssize_t n = space >= 0 ? H5Sget_simple_extent_npoints(space) : -1;
    if (space >= 0) H5Sclose(space);
    return n;
}

/* The text of a scalar string in new memory. 0: done, 1: no such string, 2: cannot be read. */
static int read_string(const holder *h, int64_t limit_bytes, char **text, int64_t *bytes)
{
    int rc = 1;
    char *value = NULL, *copy = NULL;
    hid_t type = h->type(h->id), memory = -1;
    if (type < 0 || H5Tget_class(type) != H5T_STRING || elements(h) != 1) goto done;
    int variable = H5Tis_variable_str(type) > 0;
    int64_t size = (int64_t)H5Tget_size(type);
    rc = 2;
    if (variable) {
        memory = H5Tcopy(H5T_C_S1);
        H5Tset_size(memory, H5T_VARIABLE);
        H5Tset_cset(memory, H5Tget_cset(type));
        if (h->read(h->id, memory, &value) < 0 || !value) goto done;
        size = (int64_t)strlen(value);
        if (lh_strndup(&copy, value, size) != LH_OK) goto done;
    } else {
        if (size > limit_bytes || lh_calloc(&copy, size + 1, 1) != LH_OK) goto done;
        if (h->read(h->id, type, copy) < 0) goto done;
        size = (int64_t)strlen(copy);
    }
    *text = copy;
    *bytes = size;
    copy = NULL;
    rc = 0;
done:
    if (value) H5free_memory(value);
    lh_free(copy);
    if (memory >= 0) H5Tclose(memory);
    if (type >= 0) H5Tclose(type);
    return rc;
}

/* An open attribute of an object; both ids are -1 if there is none. */
static lh_status open_attr(lh_h5 *h5, const char *name, const char *attr, hid_t *object, hid_t *id)
{
    lh_h5_reason why;
    *object = *id = -1;
    if (!lh_h5_has(h5, name)) LH_FAIL(lh_h5_code(h5), "'%s' has no '%s'", h5->path, name);
    *object = H5Oopen(h5->file, name, H5P_DEFAULT);
    if (*object < 0) LH_FAIL(lh_h5_code(h5), "cannot open '%s' of '%s': %s", name, h5->path, lh_h5_why(&why));
    htri_t there = H5Aexists(*object, attr);
    if (there == 0) return LH_OK;
    *id = there > 0 ? H5Aopen(*object, attr, H5P_DEFAULT) : -1;
    if (*id < 0)
        LH_FAIL(lh_h5_code(h5), "cannot open attribute '%s' of '%s' in '%s': %s", attr, name, h5->path,
                lh_h5_why(&why));
    return LH_OK;
}

static void close_attr(hid_t object, hid_t id)
{
    if (id >= 0) H5Aclose(id);
    if (object >= 0) H5Oclose(object);
}

lh_status lh_h5_get_string(lh_h5 *h5, const char *name, const char *attr, char **out)
{
    lh_status st = LH_OK;
    hid_t object, id;
    int64_t bytes;
    LH_TRY_DONE(open_attr(h5, name, attr, &object, &id));
    if (id < 0) goto done;
    const holder h = attr_holder(id);
    int rc = read_string(&h, h5->partial ? INT64_MAX : h5->file_bytes, out, &bytes);
    if (rc == 1) LH_FAIL_DONE(lh_h5_code(h5), "attribute '%s' of '%s' in '%s' is not one string", attr, name, h5->path);
    if (rc == 2) LH_FAIL_DONE(lh_h5_code(h5), "cannot read attribute '%s' of '%s' in '%s'", attr, name, h5->path);
done:
    close_attr(object, id);
    return st;
}

/* One number of any integer or float type, as `memory` type. */
static lh_status get_number(lh_h5 *h5, const char *name, const char *attr, hid_t memory, void *out)
{
    lh_status st = LH_OK;
    hid_t object, id, type = -1;
    LH_TRY_DONE(open_attr(h5, name, attr, &object, &id));
    if (id < 0) goto done;
    type = H5Aget_type(id);
    H5T_class_t class = H5Tget_class(type);
    const holder h = attr_holder(id);
    if (elements(&h) != 1 || (class != H5T_INTEGER && class != H5T_FLOAT))
        LH_FAIL_DONE(lh_h5_code(h5), "attribute '%s' of '%s' in '%s' is not one number", attr, name, h5->path);
    if (H5Aread(id, memory, out) < 0)
        LH_FAIL_DONE(lh_h5_code(h5), "cannot read attribute '%s' of '%s' in '%s'", attr, name, h5->path);
done:
    if (type >= 0) H5Tclose(type);
    close_attr(object, id);
    return st;
}

lh_status lh_h5_get_i64(lh_h5 *h5, const char *name, const char *attr, int64_t *out)
{
    return get_number(h5, name, attr, H5T_NATIVE_INT64, out);
}

lh_status lh_h5_get_f64(lh_h5 *h5, const char *name, const char *attr, double *out)
{
    return get_number(h5, name, attr, H5T_NATIVE_DOUBLE, out);
}

static lh_status put_attr(lh_h5 *h5, const char *name, const char *attr, hid_t type, const void *value)
{
    lh_status st = LH_OK;
    lh_h5_reason why;
    hid_t object = H5Oopen(h5->file, name, H5P_DEFAULT), space = H5Screate(H5S_SCALAR), id = -1;
    if (object >= 0 && H5Aexists(object, attr) > 0) H5Adelete(object, attr);
    if (object >= 0) id = H5Acreate2(object, attr, type, space, H5P_DEFAULT, H5P_DEFAULT);
    if (id < 0 || H5Awrite(id, type, value) < 0) {
        h5->failed = 1;
        LH_FAIL_DONE(LH_EWRITE, "cannot write attribute '%s' of '%s' in '%s': %s", attr, name, h5->path,
                     lh_h5_why(&why));
    }
done:
    H5Sclose(space);
    close_attr(object, id);
    return st;
}

lh_status lh_h5_put_i64(lh_h5 *h5, const char *name, const char *attr, int64_t value)
{
    return put_attr(h5, name, attr, H5T_STD_I64LE, &value);
}

lh_status lh_h5_put_string(lh_h5 *h5, const char *name, const char *attr, const char *value)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, H5T_VARIABLE);
    H5Tset_cset(type, H5T_CSET_UTF8);
    lh_status st = put_attr(h5, name, attr, type, &value);
    H5Tclose(type);
    return st;
}

lh_status lh_h5_put_hash(lh_h5 *h5, const char *name, uint64_t hash)
{
    char hex[17];
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)hash);
    return lh_h5_put_string(h5, name, "xxh64", hex);
}

lh_status lh_h5_get_hash(lh_h5 *h5, const char *name, uint64_t *hash, int *found)
{
    lh_status st = LH_OK;
    char *hex = NULL, *end = NULL;
    *found = 0;
    LH_TRY_DONE(lh_h5_get_string(h5, name, "xxh64", &hex));
    if (!hex) goto done;
    *hash = strtoull(hex, &end, 16);
    if (strlen(hex) != 16 || *end)
        LH_FAIL_DONE(lh_h5_code(h5), "attribute 'xxh64' of '%s' in '%s' must be 16 hexadecimal digits", name, h5->path);
    *found = 1;
done:
    lh_free(hex);
    return st;
}

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
    if (!h5->partial) LH_TRY_DONE(lh_h5_check_chunk(h5, id, name));
    const holder h = data_holder(id);
    int rc = read_string(&h, h5->partial ? INT64_MAX : h5->file_bytes, &read, bytes);
    if (rc == 1) LH_FAIL_DONE(lh_h5_code(h5), "'%s' of '%s' is not one string", name, h5->path);
    if (rc == 2) LH_FAIL_DONE(lh_h5_code(h5), "cannot read '%s' of '%s': %s", name, h5->path, lh_h5_why(&why));
    LH_TRY_DONE(lh_h5_compare_hash(h5, name, lh_hash64(read, *bytes)));
    LH_TRY_DONE(lh_h5_read_status(h5, st));
    *text = read;
    read = NULL;
done:
    if (id >= 0) H5Dclose(id);
    lh_free(read);
    return st == LH_OK ? st : lh_h5_read_status(h5, st);
}
