#include "cli/same_files.h"

#include <check.h>
#include <string.h>

#include "base/mem.h"

static lh_status add_name(void *arg, lh_h5 *h5, const char *name)
{
    (void)h5;
    return lh_buf_printf(arg, "%s\n", name);
}

/* The bytes of an array, and of a text, are those of another file. */
static lh_status compare_array(void *arg, lh_h5 *h5, const char *name)
{
    lh_h5_array *array = NULL;
    lh_h5_shape a, b, want;
    void *here = NULL, *there = NULL;
    if (strncmp(name, "/timings/", 9) == 0) return LH_OK;
    ck_assert_int_eq(lh_h5_array_open(&array, h5, name), LH_OK);
    want = *lh_h5_array_shape(array);
    lh_h5_array_close(array);
    ck_assert_int_eq(lh_h5_get(h5, name, &want, &a, &here), LH_OK);
    ck_assert_msg(lh_h5_get(arg, name, &want, &b, &there) == LH_OK, "%s", lh_error_message());
    ck_assert_msg(memcmp(here, there, (size_t)(lh_h5_shape_count(&a) * lh_dtype_bytes(a.type))) == 0, "%s differs",
                  name);
    lh_free(here);
    lh_free(there);
    return LH_OK;
}

static lh_status compare_text(void *arg, lh_h5 *h5, const char *name)
{
    char *here = NULL, *there = NULL;
    int64_t bytes;
    ck_assert_int_eq(lh_h5_get_text(h5, name, &here, &bytes), LH_OK);
    ck_assert_int_eq(lh_h5_get_text(arg, name, &there, &bytes), LH_OK);
    ck_assert_str_eq(here, there);
    lh_free(here);
    lh_free(there);
    return LH_OK;
}

lh_h5 *same_files_open(const char *kind, const char *path)
{
    lh_h5 *h5 = NULL;
    ck_assert_msg(lh_h5_open(&h5, path, &(lh_h5_header){kind, 0, NULL}) == LH_OK, "%s", lh_error_message());
    return h5;
}

void same_array(lh_h5 *one, lh_h5 *other, const char *name)
{
    ck_assert_int_eq(compare_array(other, one, name), LH_OK);
}

void same_arrays(const char *kind, const char *one, const char *other)
{
    lh_h5 *a = same_files_open(kind, one), *b = same_files_open(kind, other);
    ck_assert_int_eq(lh_h5_each_array(a, compare_array, b), LH_OK);
    lh_h5_close(a);
    lh_h5_close(b);
}

void same_files(const char *kind, const char *one, const char *other)
{
    lh_h5 *a = same_files_open(kind, one), *b = same_files_open(kind, other);
    lh_buf names = {0}, others = {0};
    ck_assert_int_eq(lh_h5_each_array(a, add_name, &names), LH_OK);
    ck_assert_int_eq(lh_h5_each_array(b, add_name, &others), LH_OK);
    ck_assert_str_eq(names.data, others.data);
    ck_assert_int_eq(lh_h5_each_array(a, compare_array, b), LH_OK);
    ck_assert_int_eq(lh_h5_each_text(a, compare_text, b), LH_OK);
    lh_buf_clear(&names);
    lh_buf_clear(&others);
    lh_h5_close(a);
    lh_h5_close(b);
}
