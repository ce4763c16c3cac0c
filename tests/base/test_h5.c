/* Laws of base/h5.h and base/child.h. */
#include <check.h>
#include <errno.h>
#include <hdf5.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"
#include "base/file.h"
#include "base/h5.h"
#include "base/output.h"
#include "base/temporary.h"

static char folder[64], path[128];

static void make_folder(void)
{
    ck_assert_ptr_nonnull(mkdtemp(temporary_name(folder, "/tmp")));
    snprintf(path, sizeof path, "%s/a.h5", folder);
}

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

/* Without the sync of lh_file_write, which makes thousands of files slow. */
static void put_bytes(const char *to, const void *data, int64_t bytes)
{
    FILE *f = fopen(to, "wb");
    ck_assert_ptr_nonnull(f);
    if (bytes) ck_assert_int_eq(fwrite(data, 1, (size_t)bytes, f), bytes);
    ck_assert_int_eq(fclose(f), 0);
}

static const lh_h5_header head = {.kind = "cache", .schema = 2, .run = "{\"seed\": 1}"};
static const lh_h5_shape cube = {.type = LH_I32, .rank = 3, .dims = {5, 7, 11}};

/* To the file at `path`, an attribute of a type that longhaul reads and does not write. */
static void add_real(const char *object, const char *name, double value)
{
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT), at = H5Oopen(file, object, H5P_DEFAULT);
    hid_t space = H5Screate(H5S_SCALAR), attr = H5Acreate2(at, name, H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT);
    ck_assert_int_ge(H5Awrite(attr, H5T_NATIVE_DOUBLE, &value), 0);
    H5Aclose(attr), H5Sclose(space), H5Oclose(at), H5Fclose(file);
}

static void write_sample(void)
{
    lh_h5 *h5;
    int32_t values[5 * 7 * 11];
    const float floats[3] = {1.5f, -2.0f, 0x1p-140f};
    const lh_h5_shape three = {.type = LH_F32, .rank = 1, .dims = {3}};
    for (int i = 0; i < 5 * 7 * 11; i++) values[i] = i * i;
    ck_assert_int_eq(lh_h5_create(&h5, path, &head), LH_OK);
    ck_assert_int_eq(lh_h5_put(h5, "/layers/000/k", &cube, values), LH_OK);
    ck_assert_int_eq(lh_h5_put(h5, "/layers/001/v", &three, floats), LH_OK);
    ck_assert_int_eq(lh_h5_put_text(h5, "/config", "{\"a\": \"ä\"}", 11), LH_OK);
    ck_assert_int_eq(lh_h5_commit(h5), LH_OK);
}

START_TEST(test_sixteen_bit_floats_keep_every_bit)
{
    lh_h5 *h5;
    uint16_t *all, *back;
    const lh_h5_shape shape = {.rank = 1, .dims = {65536}};
    ck_assert_int_eq(lh_calloc(&all, 65536, 2), LH_OK);
    for (int i = 0; i < 65536; i++) all[i] = (uint16_t)i;
    ck_assert_int_eq(lh_h5_create(&h5, path, &head), LH_OK);
    for (int i = 0; i < 2; i++) {
        lh_h5_shape typed = shape;
        typed.type = i ? LH_F16 : LH_BF16;
        ck_assert_int_eq(lh_h5_put(h5, i ? "/half" : "/brain", &typed, all), LH_OK);
    }
    ck_assert_int_eq(lh_h5_commit(h5), LH_OK);
    ck_assert_int_eq(lh_h5_open(&h5, path, &head), LH_OK);
    ck_assert(lh_h5_has(h5, "/types/bfloat16") && lh_h5_has(h5, "/types/float16"));
    for (int i = 0; i < 2; i++) {
        lh_h5_shape typed = shape, have;
        char *dtype = NULL;
        typed.type = i ? LH_F16 : LH_BF16;
        ck_assert_int_eq(lh_h5_get(h5, i ? "/half" : "/brain", &typed, &have, &back), LH_OK);
        ck_assert_int_eq(memcmp(all, back, 131072), 0);
        ck_assert_int_eq(lh_h5_get_string(h5, i ? "/half" : "/brain", "dtype", &dtype), LH_OK);
        ck_assert_str_eq(dtype, i ? "f16" : "bf16");
        lh_free(dtype);
        lh_free(back);
    }
    lh_h5_close(h5);
    lh_free(all);
}
END_TEST

START_TEST(test_a_part_is_the_slice_of_the_whole)
{
    lh_h5 *h5;
    lh_h5_array *array;
    lh_h5_shape shape;
    int32_t *all, part[5 * 7 * 11];
    write_sample();
    ck_assert_int_eq(lh_h5_open(&h5, path, &head), LH_OK);
    ck_assert_int_eq(lh_h5_get(h5, "/layers/000/k", &cube, &shape, &all), LH_OK);
    ck_assert_int_eq(lh_h5_array_open(&array, h5, "/layers/000/k"), LH_OK);
    const lh_h5_slab p = {.at = {1, 2, 3}, .count = {3, 4, 5}};
    ck_assert_int_eq(lh_h5_array_read(array, &p, part), LH_OK);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++)
            for (int k = 0; k < 5; k++)
                ck_assert_int_eq(part[(i * 4 + j) * 5 + k], all[((i + 1) * 7 + j + 2) * 11 + k + 3]);
    const lh_h5_slab none = {.at = {5, 0, 0}, .count = {0, 7, 11}};
    ck_assert_int_eq(lh_h5_array_read(array, &none, part), LH_OK);
    lh_h5_array_close(array);
    lh_free(all);
    lh_h5_close(h5);
}
END_TEST

START_TEST(test_attributes_and_text_come_back)
{
    lh_h5 *h5;
    double unit = 0;
    int64_t kept = 77, schema = 0, bytes;
    char *text = NULL, *absent = NULL, *run = NULL, *author = NULL;
    write_sample();
    add_real("/layers/000/k", "unit", 0.25);
    ck_assert_int_eq(lh_h5_open(&h5, path, &head), LH_OK);
    ck_assert_str_eq(lh_h5_kind(h5), "cache");
    ck_assert_int_eq(lh_h5_get_i64(h5, "/", "schema", &schema), LH_OK);
    ck_assert_int_eq(schema, 2);
    ck_assert_int_eq(lh_h5_get_string(h5, "/", "run", &run), LH_OK);
    ck_assert_str_eq(run, "{\"seed\": 1}");
    ck_assert_int_eq(lh_h5_get_string(h5, "/", "created_by", &author), LH_OK);
    ck_assert(strncmp(author, "longhaul ", 9) == 0);
    ck_assert_int_eq(lh_h5_get_f64(h5, "/layers/000/k", "unit", &unit), LH_OK);
    ck_assert(unit == 0.25);
    ck_assert_int_eq(lh_h5_get_i64(h5, "/layers/000/k", "no such", &kept), LH_OK);
    ck_assert_int_eq(kept, 77);
    ck_assert_int_eq(lh_h5_get_string(h5, "/", "no such", &absent), LH_OK);
    ck_assert_ptr_null(absent);
    ck_assert_int_eq(lh_h5_get_text(h5, "/config", &text, &bytes), LH_OK);
    ck_assert_str_eq(text, "{\"a\": \"ä\"}");
    ck_assert_int_eq(bytes, 11);
    lh_free(text);
    lh_free(run);
    lh_free(author);
    lh_h5_close(h5);
}
END_TEST

START_TEST(test_what_is_no_json_is_described_all_the_same)
{
    lh_h5 *h5;
    json_t *object = json_object(), *arrays = NULL;
    ck_assert_int_eq(lh_h5_create(&h5, path, &head), LH_OK);
    ck_assert_int_eq(lh_h5_put_string(h5, "/", "text", "a\xff"), LH_OK);
    ck_assert_int_eq(lh_h5_commit(h5), LH_OK);
    add_real("/", "number", NAN);
    ck_assert_int_eq(lh_h5_open(&h5, path, &head), LH_OK);
    ck_assert_msg(lh_h5_describe(h5, object, &arrays) == LH_OK, "%s", lh_error_message());
    ck_assert_str_eq(json_string_value(json_object_get(object, "text")), "a\xef\xbf\xbd");
    ck_assert(json_is_null(json_object_get(object, "number")));
    json_decref(object), json_decref(arrays);
    object = json_object();
    lh_h5_close(h5);
    ck_assert_int_eq(lh_h5_create(&h5, path, &head), LH_OK);
    ck_assert_int_eq(lh_h5_put_i64(h5, "/", "b\xff", 1), LH_OK);
    ck_assert_int_eq(lh_h5_commit(h5), LH_OK);
    ck_assert_int_eq(lh_h5_open(&h5, path, &head), LH_OK);
    ck_assert_int_eq(lh_h5_describe(h5, object, &arrays), LH_EFILE);
    ck_assert(strstr(lh_error_message(), path) != NULL);
    lh_h5_close(h5);
    json_decref(object);
}
END_TEST

START_TEST(test_nothing_lies_under_the_name_before_commit)
{
    lh_h5 *h5;
    char *partial;
    ck_assert_int_eq(lh_partial_name(&partial, path), LH_OK);
    ck_assert_int_eq(lh_h5_create(&h5, path, &head), LH_OK);
    ck_assert(lh_file_exists(partial) && !lh_file_exists(path));
    lh_h5_close(h5);
    ck_assert(!lh_file_exists(partial) && !lh_file_exists(path));
    lh_free(partial);
}
END_TEST

START_TEST(test_same_contents_same_bytes)
{
    lh_buf first = {0}, second = {0};
    write_sample();
    ck_assert_int_eq(lh_file_read(&first, path, 1 << 20), LH_OK);
    sleep(1); /* a time stamp would show */
    write_sample();
    ck_assert_int_eq(lh_file_read(&second, path, 1 << 20), LH_OK);
    ck_assert_int_eq(first.bytes, second.bytes);
    ck_assert_int_eq(memcmp(first.data, second.data, (size_t)first.bytes), 0);
    lh_buf_clear(&first);
    lh_buf_clear(&second);
}
END_TEST

START_TEST(test_a_full_disk_is_a_failure_and_leaves_nothing)
{
    lh_h5 *h5;
    char *partial, *zeros;
    const struct rlimit limit = {300000, 300000};
    const lh_h5_shape big = {.type = LH_U8, .rank = 1, .dims = {1000000}};
    ck_assert_int_eq(lh_partial_name(&partial, path), LH_OK);
    ck_assert_int_eq(lh_calloc(&zeros, 1000000, 1), LH_OK);
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(lh_h5_create(&h5, path, &head), LH_OK);
    ck_assert_int_eq(lh_h5_put(h5, "/big", &big, zeros), LH_EWRITE);
    ck_assert(strstr(lh_error_message(), strerror(EFBIG)) != NULL);
    ck_assert_int_eq(lh_h5_put(h5, "/more", &big, zeros), LH_EWRITE);
    ck_assert_int_eq(lh_h5_commit(h5), LH_EWRITE);
    ck_assert(strstr(lh_error_message(), path) != NULL);
    ck_assert(!lh_file_exists(partial) && !lh_file_exists(path));
    lh_free(partial);
    lh_free(zeros);
}
END_TEST

START_TEST(test_another_kind_or_schema_is_refused)
{
    lh_h5 *h5;
    const lh_h5_header other = {.kind = "checkpoint", .schema = 9}, older = {.kind = "cache", .schema = 1};
    write_sample();
    ck_assert_int_eq(lh_h5_open(&h5, path, &other), LH_EFILE);
    ck_assert(strstr(lh_error_message(), "is a cache, not a checkpoint") != NULL);
    ck_assert_int_eq(lh_h5_open(&h5, path, &older), LH_EFILE);
    ck_assert(strstr(lh_error_message(), "schema 2") != NULL);
    ck_assert_int_eq(lh_h5_open(&h5, "/nowhere/x.h5", &head), LH_EFILE);
    put_bytes(path, "text", 4);
    ck_assert_int_eq(lh_h5_probe(path), LH_EFILE);
    ck_assert(strstr(lh_error_message(), "not an HDF5 file") != NULL);
}
END_TEST

START_TEST(test_a_file_cut_anywhere_is_refused)
{
    lh_buf whole = {0};
    write_sample();
    ck_assert_int_eq(lh_h5_probe(path), LH_OK);
    ck_assert_int_eq(lh_file_read(&whole, path, 1 << 20), LH_OK);
    for (int64_t n = 0; n < whole.bytes; n += n < 600 ? 13 : 167) {
        put_bytes(path, whole.data, n);
        ck_assert_int_eq(lh_h5_probe(path), LH_EFILE);
    }
    lh_buf_clear(&whole);
}
END_TEST

START_TEST(test_flipped_bytes_never_reach_this_process)
{
    lh_buf whole = {0};
    write_sample();
    ck_assert_int_eq(lh_file_read(&whole, path, 1 << 20), LH_OK);
    for (int64_t n = 0; n < whole.bytes; n += 31) {
        whole.data[n] = (char)(whole.data[n] ^ 0xff);
        put_bytes(path, whole.data, whole.bytes);
        lh_status st = lh_h5_probe(path);
        ck_assert(st == LH_OK || st == LH_EFILE);
        whole.data[n] = (char)(whole.data[n] ^ 0xff);
    }
    lh_buf_clear(&whole);
}
END_TEST

START_TEST(test_links_out_of_the_file_are_refused)
{
    write_sample();
    hid_t f = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    ck_assert_int_ge(H5Lcreate_external("/etc/passwd", "/x", f, "/out", H5P_DEFAULT, H5P_DEFAULT), 0);
    H5Fclose(f);
    ck_assert_int_eq(lh_h5_probe(path), LH_EFILE);
    ck_assert(strstr(lh_error_message(), "'/out'") != NULL);
}
END_TEST

START_TEST(test_an_array_larger_than_the_file_is_refused)
{
    hsize_t dims[2] = {1 << 20, 1 << 20}, chunk[2] = {16, 16};
    write_sample();
    hid_t f = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT), space = H5Screate_simple(2, dims, NULL);
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(plist, 2, chunk);
    hid_t set = H5Dcreate2(f, "/huge", H5T_IEEE_F32LE, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    ck_assert_int_ge(set, 0);
    H5Dclose(set), H5Sclose(space), H5Pclose(plist), H5Fclose(f);
    ck_assert_int_eq(lh_h5_probe(path), LH_EFILE);
    ck_assert(strstr(lh_error_message(), "'/huge'") != NULL);
}
END_TEST

/* To the file at `path`: `count` elements in chunks of `chunk`, which compress to a few bytes. */
static void add_chunked(const char *name, hid_t type, hsize_t count, hsize_t chunk)
{
    static const char zeros[1 << 16];
    hsize_t max = H5S_UNLIMITED;
    hid_t f = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT), plist = H5Pcreate(H5P_DATASET_CREATE);
    hid_t space = H5Screate_simple(1, &count, &max);
    H5Pset_chunk(plist, 1, &chunk);
    H5Pset_deflate(plist, 9);
    hid_t set = H5Dcreate2(f, name, type, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    ck_assert_int_ge(set, 0);
    ck_assert_int_ge(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros), 0);
    H5Dclose(set), H5Sclose(space), H5Pclose(plist), H5Fclose(f);
}

/* A bit of a chunk's filter mask says that it was not compressed: HDF5 would copy more than its bytes. */
START_TEST(test_a_chunk_that_is_cut_off_is_refused)
{
    static const char bytes[100 * sizeof(float)];
    const hsize_t first = 0;
    write_sample();
    add_chunked("/cut", H5T_IEEE_F32LE, 100, 100);
    for (int whole = 1; whole >= 0; whole--) {
        hid_t f = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT), set = H5Dopen2(f, "/cut", H5P_DEFAULT);
        ck_assert_int_ge(H5Dwrite_chunk(set, H5P_DEFAULT, 1, &first, whole ? sizeof bytes : 50, bytes), 0);
        H5Dclose(set), H5Fclose(f);
        lh_h5 *h5;
        lh_h5_array *array = NULL;
        ck_assert_int_eq(lh_h5_open(&h5, path, &head), LH_OK);
        ck_assert_int_eq(lh_h5_array_open(&array, h5, "/cut"), whole ? LH_OK : LH_EFILE);
        lh_h5_array_close(array);
        lh_h5_close(h5);
    }
    ck_assert_int_eq(lh_h5_probe(path), LH_EFILE);
    ck_assert_msg(strstr(lh_error_message(), "'/cut'") && strstr(lh_error_message(), "damaged chunk"), "%s",
                  lh_error_message());
}
END_TEST

/* One element of "/bomb" or "/words" would take the memory of 2^26. */
START_TEST(test_chunks_larger_than_their_array_are_refused)
{
    static const char want[] = "is stored in chunks that are larger than the array or the file";
    lh_h5 *h5;
    lh_h5_array *array = NULL;
    char *text = NULL;
    int64_t bytes;
    hid_t string = H5Tcopy(H5T_C_S1);
    write_sample();
    H5Tset_size(string, 8);
    add_chunked("/compressed", H5T_IEEE_F32LE, 100, 100);
    add_chunked("/empty", H5T_IEEE_F32LE, 0, 1 << 20);
    add_chunked("/text", string, 1, 1);
    ck_assert_int_eq(lh_h5_open(&h5, path, &head), LH_OK);
    ck_assert_msg(lh_h5_array_open(&array, h5, "/compressed") == LH_OK, "%s", lh_error_message());
    lh_h5_array_close(array);
    ck_assert_msg(lh_h5_array_open(&array, h5, "/empty") == LH_OK, "%s", lh_error_message());
    lh_h5_array_close(array);
    ck_assert_msg(lh_h5_get_text(h5, "/text", &text, &bytes) == LH_OK, "%s", lh_error_message());
    lh_free(text);
    lh_h5_close(h5);
    add_chunked("/bomb", H5T_IEEE_F32LE, 4, 1 << 26);
    ck_assert_int_eq(lh_h5_probe(path), LH_EFILE);
    ck_assert_msg(strstr(lh_error_message(), "'/bomb'") && strstr(lh_error_message(), want), "%s", lh_error_message());
    add_chunked("/words", string, 1, 1 << 26);
    ck_assert_int_eq(lh_h5_open(&h5, path, &head), LH_OK);
    ck_assert_int_eq(lh_h5_array_open(&array, h5, "/bomb"), LH_EFILE);
    ck_assert_int_eq(lh_h5_get_text(h5, "/words", &text, &bytes), LH_EFILE);
    ck_assert_msg(strstr(lh_error_message(), "'/words'") && strstr(lh_error_message(), want), "%s", lh_error_message());
    lh_h5_close(h5);
    H5Tclose(string);
}
END_TEST

/* Slabs of [5, 700] in chunks of [2, 300]: at an edge of chunks, and elsewhere. */
START_TEST(test_compressed_arrays_are_placed)
{
    enum { ROWS = 5, COLS = 700 };
    static int32_t values[ROWS * COLS];
    const struct {
        int64_t at[2], count[2];
    } slabs[] = {{{0, 0}, {2, 300}}, {{0, 300}, {2, 400}}, {{2, 0}, {3, 299}}, {{2, 299}, {3, 401}}};
    const lh_h5_shape whole = {LH_I32, 2, {ROWS, COLS}};
    const lh_h5_storage storage = {LH_H5_DEFLATE, {2, 300}}, none = {0};
    lh_h5 *out, *in;
    lh_h5_array *to, *from;
    lh_h5_shape shape;
    int32_t *back = NULL;
    char other[160];
    snprintf(other, sizeof other, "%s.slab", path);
    for (int i = 0; i < ROWS * COLS; i++) values[i] = i * i;
    ck_assert_int_eq(lh_h5_create(&out, path, &head), LH_OK);
    ck_assert_int_eq(lh_h5_array_create(&to, out, "/a", &whole, &storage), LH_OK);
    for (size_t s = 0; s < sizeof slabs / sizeof *slabs; s++) {
        const int64_t *at = slabs[s].at, *n = slabs[s].count;
        int32_t part[ROWS * COLS];
        for (int64_t i = 0; i < n[0] * n[1]; i++) part[i] = values[(at[0] + i / n[1]) * COLS + at[1] + i % n[1]];
        ck_assert_int_eq(lh_h5_create(&in, other, &head), LH_OK);
        ck_assert_int_eq(
            lh_h5_put_stored(in, "/s", &(lh_h5_shape){LH_I32, 2, {n[0], n[1]}}, n[1] < 300 ? &none : &storage, part),
            LH_OK);
        ck_assert_int_eq(lh_h5_commit(in), LH_OK);
        ck_assert_int_eq(lh_h5_open(&in, other, &head), LH_OK);
        ck_assert_int_eq(lh_h5_array_open(&from, in, "/s"), LH_OK);
        ck_assert_msg(lh_h5_array_place(to, at, from) == LH_OK, "%s", lh_error_message());
        lh_h5_array_close(from);
        lh_h5_close(in);
    }
    lh_h5_array_close(to);
    ck_assert_int_eq(lh_h5_commit(out), LH_OK);
    ck_assert_int_eq(lh_h5_probe(path), LH_OK);
    ck_assert_int_eq(lh_h5_open(&in, path, &head), LH_OK);
    ck_assert_int_eq(lh_h5_get(in, "/a", &whole, &shape, &back), LH_OK);
    ck_assert(memcmp(back, values, sizeof values) == 0);
    ck_assert_int_eq(lh_h5_array_open(&from, in, "/a"), LH_OK);
    ck_assert_int_eq(lh_h5_array_storage(from).filter, LH_H5_DEFLATE);
    ck_assert_int_eq(lh_h5_array_storage(from).chunk[1], 300);
    lh_h5_array_close(from);
    lh_h5_close(in);
    lh_free(back);
}
END_TEST

static size_t as_it_is(unsigned flags, size_t n, const unsigned values[], size_t bytes, size_t *size, void **data)
{
    (void)flags, (void)n, (void)values, (void)size, (void)data;
    return bytes;
}

START_TEST(test_an_array_of_a_filter_that_is_not_there_is_refused)
{
    enum { ID = 32015 };
    const H5Z_class2_t filter = {H5Z_CLASS_T_VERS, ID, 1, 1, "zstd", NULL, NULL, as_it_is};
    hsize_t dims = 100;
    lh_h5 *h5;
    lh_h5_array *array = NULL;
    ck_assert_int_eq(setenv("HDF5_PLUGIN_PATH", "/nowhere", 1), 0);
    ck_assert_int_eq(lh_h5_filter_check(LH_H5_DEFLATE), LH_OK);
    ck_assert_int_eq(lh_h5_filter_check(LH_H5_ZSTD), LH_EUSAGE);
    write_sample();
    ck_assert_int_ge(H5Zregister(&filter), 0);
    hid_t f = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT), plist = H5Pcreate(H5P_DATASET_CREATE);
    hid_t space = H5Screate_simple(1, &dims, NULL);
    H5Pset_chunk(plist, 1, &dims);
    H5Pset_filter(plist, ID, H5Z_FLAG_MANDATORY, 0, NULL);
    hid_t set = H5Dcreate2(f, "/small", H5T_IEEE_F32LE, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    ck_assert_int_ge(set, 0);
    H5Dclose(set), H5Sclose(space), H5Pclose(plist), H5Fclose(f);
    ck_assert_int_ge(H5Zunregister(ID), 0);
    ck_assert_int_eq(lh_h5_open(&h5, path, &head), LH_OK);
    ck_assert_int_eq(lh_h5_array_open(&array, h5, "/small"), LH_EFILE);
    ck_assert_msg(strstr(lh_error_message(), "'/small'") && strstr(lh_error_message(), "32015 (zstd)") &&
                      strstr(lh_error_message(), "HDF5_PLUGIN_PATH"),
                  "%s", lh_error_message());
    lh_h5_close(h5);
}
END_TEST

static lh_status count_array(void *arg, lh_h5 *h5, const char *name)
{
    (void)h5;
    return lh_buf_printf(arg, "%s ", name);
}

START_TEST(test_every_array_is_visited_in_order)
{
    lh_h5 *h5;
    lh_buf names = {0};
    write_sample();
    ck_assert_int_eq(lh_h5_open(&h5, path, &head), LH_OK);
    ck_assert_int_eq(lh_h5_each_array(h5, count_array, &names), LH_OK);
    ck_assert_str_eq(names.data, "/layers/000/k /layers/001/v ");
    lh_buf_clear(&names);
    lh_h5_close(h5);
}
END_TEST

/* Two arrays, the second of them without a hash, and attributes; *value is changed where `what` says. */
static uint64_t contents_with(const char *what)
{
    lh_h5 *h5;
    lh_h5_array *array;
    uint64_t hash = 0;
    int32_t values[5 * 7 * 11] = {0}, *rows = NULL;
    const lh_h5_shape wide = {.type = LH_I32, .rank = 2, .dims = {300, 500}};
    const lh_h5_header by = {.kind = "cache", .schema = 2, .run = strcmp(what, "run") == 0 ? "{}" : "{\"seed\": 1}"};
    ck_assert_int_eq(lh_calloc(&rows, 300 * 500, sizeof *rows), LH_OK);
    if (strcmp(what, "hashed") == 0) values[200] = 1;
    if (strcmp(what, "first") == 0) rows[0] = 1;
    if (strcmp(what, "last") == 0) rows[300 * 500 - 1] = 1;
    ck_assert_int_eq(lh_h5_create(&h5, path, &by), LH_OK);
    ck_assert_int_eq(lh_h5_put(h5, "/a/k", &cube, values), LH_OK);
    ck_assert_int_eq(lh_h5_put_i64(h5, "/a", "budget", strcmp(what, "attribute") == 0 ? 5 : 4), LH_OK);
    ck_assert_int_eq(lh_h5_put_text(h5, "/config", strcmp(what, "text") == 0 ? "{ }" : "{}", 2), LH_OK);
    ck_assert_int_eq(lh_h5_array_create(&array, h5, strcmp(what, "name") == 0 ? "/c" : "/b", &wide, NULL), LH_OK);
    ck_assert_int_eq(lh_h5_array_write(array, &(lh_h5_slab){.count = {300, 500}}, rows), LH_OK);
    lh_h5_array_close(array);
    ck_assert_int_eq(lh_h5_commit(h5), LH_OK);
    ck_assert_int_eq(lh_h5_open(&h5, path, &head), LH_OK);
    ck_assert_int_eq(lh_h5_contents(h5, &hash), LH_OK);
    lh_h5_close(h5);
    lh_free(rows);
    return hash;
}

START_TEST(test_contents_tell_files_apart)
{
    static const char *const other[] = {"hashed", "first", "last", "attribute", "text", "name"};
    const uint64_t hash = contents_with("");
    ck_assert(contents_with("") == hash);
    ck_assert(contents_with("run") == hash); /* who wrote it does not matter */
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        ck_assert_msg(contents_with(other[i]) != hash, "%s", other[i]);
}
END_TEST

/* Reads an array, a part of it and a text of the sample. */
static void read_changed(lh_h5 *h5, lh_status st)
{
    lh_h5_shape shape;
    lh_h5_array *array;
    int32_t *values = NULL, value;
    char *text = NULL;
    int64_t bytes;
    ck_assert_int_eq(lh_h5_get(h5, "/layers/000/k", &cube, &shape, &values), st);
    ck_assert_int_eq(lh_h5_get_text(h5, "/config", &text, &bytes), st);
    if (lh_h5_array_open(&array, h5, "/layers/000/k") == LH_OK) {
        ck_assert_int_eq(lh_h5_array_read(array, &(lh_h5_slab){.count = {1, 1, 1}}, &value), st);
        lh_h5_array_close(array);
    }
    if (st != LH_OK) ck_assert_ptr_nonnull(strstr(lh_error_message(), "a.h5' changed while it was read"));
    lh_free(values);
    lh_free(text);
}

/* HDF5 gives zeros for what the file has lost. */
START_TEST(test_a_file_that_changes_while_it_is_open_is_told)
{
    lh_h5 *h5;
    lh_buf whole = {0};
    write_sample();
    ck_assert_int_eq(lh_file_read(&whole, path, 1 << 20), LH_OK);
    for (int how = 0; how < 4; how++) {
        put_bytes(path, whole.data, whole.bytes);
        usleep(20000); /* times of files advance in steps of some milliseconds */
        ck_assert_int_eq(lh_h5_open(&h5, path, &head), LH_OK);
        if (how == 1) ck_assert_int_eq(truncate(path, 1000), 0);
        if (how == 2) put_bytes(path, whole.data, whole.bytes); /* the same, but for a moment it was empty */
        if (how == 3) ck_assert_int_eq(unlink(path), 0);        /* what is open stays as it is */
        ck_assert_int_eq(lh_h5_unchanged(h5), how == 1 || how == 2 ? LH_EFILE : LH_OK);
        if (how == 1 || how == 2) ck_assert_ptr_nonnull(strstr(lh_error_message(), "a.h5' changed while it was read"));
        read_changed(h5, how == 1 || how == 2 ? LH_EFILE : LH_OK);
        lh_h5_close(h5);
    }
    lh_buf_clear(&whole);
}
END_TEST

/* Slabs of an array of five rows, as a rank may read them. */
static const struct {
    const char *what;
    int n;
    lh_h5_slab slabs[3];
} readings[] = {{"nothing", 0, {{{0}, {0}}}},
                {"all", 1, {{{0}, {5, 7, 11}}}},
                {"rows in order", 2, {{{0}, {2, 7, 11}}, {{2}, {3, 7, 11}}}},
                {"the middle", 1, {{{2}, {1, 7, 11}}}},
                {"rows twice", 3, {{{1}, {2, 7, 11}}, {{0}, {3, 7, 11}}, {{2}, {3, 7, 11}}}},
                {"columns", 2, {{{0, 0}, {5, 3, 11}}, {{0, 3}, {5, 4, 11}}}},
                {"rows, and columns of others", 3, {{{0}, {1, 7, 11}}, {{1, 2}, {1, 3, 11}}, {{4}, {1, 7, 11}}}}};

/* LH_EFILE where the array is damaged, and this reader is the one of `count` that compares it. */
static lh_status read_slabs(int reading, int index, int count)
{
    lh_h5 *h5;
    lh_h5_array *array;
    int32_t values[5 * 7 * 11];
    ck_assert_int_eq(lh_h5_open(&h5, path, &head), LH_OK);
    lh_h5_share(h5, index, count);
    ck_assert_int_eq(lh_h5_array_open(&array, h5, "/layers/000/k"), LH_OK);
    ck_assert_int_eq(lh_h5_array_check(array), LH_OK);
    for (int i = 0; i < readings[reading].n; i++)
        ck_assert_int_eq(lh_h5_array_read(array, &readings[reading].slabs[i], values), LH_OK);
    const lh_status st = lh_h5_array_checked(array);
    lh_h5_array_close(array);
    lh_h5_close(h5);
    return st;
}

START_TEST(test_one_of_the_readers_finds_damage_whatever_slabs_they_read)
{
    lh_buf whole = {0};
    write_sample();
    ck_assert_int_eq(lh_file_read(&whole, path, 1 << 20), LH_OK);
    for (int damaged = 0; damaged < 2; damaged++) {
        for (size_t i = 0; i < sizeof readings / sizeof *readings; i++)
            for (int count = 1; count < 4; count++) {
                int found = 0;
                for (int index = 0; index < count; index++) found += read_slabs((int)i, index, count) == LH_EFILE;
                ck_assert_msg(found == damaged, "%s: %d of %d readers", readings[i].what, found, count);
            }
        hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), k = H5Dopen2(file, "/layers/000/k", H5P_DEFAULT);
        whole.data[H5Dget_offset(k) + 4 * 200] ^= 1;
        H5Dclose(k), H5Fclose(file);
        put_bytes(path, whole.data, whole.bytes);
    }
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "'/layers/000/k' of '"));
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "a.h5' is damaged: its bytes hash to "));
    lh_buf_clear(&whole);
}
END_TEST

START_TEST(test_a_second_check_of_an_open_array_begins_anew)
{
    lh_h5 *h5;
    lh_h5_array *array;
    int32_t values[5 * 7 * 11];
    write_sample();
    ck_assert_int_eq(lh_h5_open(&h5, path, &head), LH_OK);
    ck_assert_int_eq(lh_h5_array_open(&array, h5, "/layers/000/k"), LH_OK);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(lh_h5_array_check(array), LH_OK);
        ck_assert_int_eq(lh_h5_array_read(array, &readings[1].slabs[0], values), LH_OK);
        ck_assert_int_eq(lh_h5_array_checked(array), LH_OK);
    }
    lh_h5_array_close(array);
    lh_h5_close(h5);
}
END_TEST

static lh_status misbehave(void *arg)
{
    volatile char *p = NULL;
    const char *how = arg;
    if (strcmp(how, "fail") == 0) LH_FAIL(LH_EINPUT, "the child says no");
    if (strcmp(how, "crash") == 0) raise(SIGSEGV);
    if (strcmp(how, "no memory") == 0) raise(SIGKILL); /* as the kernel does */
    while (strcmp(how, "hang") == 0) p = (volatile char *)&how;
    (void)p;
    return LH_OK;
}

START_TEST(test_a_child_dies_alone)
{
    static const struct {
        const char *how;
        lh_status st;
        const char *says;
    } rows[] = {{"well", LH_OK, ""},
                {"fail", LH_EINPUT, "the child says no"},
                {"crash", LH_EFILE, "'x.h5' is damaged: reading it crashed"},
                {"no memory", LH_ENOMEM, "'x.h5' was killed, probably for its memory"},
                {"hang", LH_EFILE, "did not end within 1 s"}};
    const lh_child_limits limits = {.cpu_s = 1, .memory_bytes = 1 << 28};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char how[16];
        snprintf(how, sizeof how, "%s", rows[i].how);
        const lh_child_work work = {misbehave, how, "x.h5", LH_EFILE, LH_CHILD_SPEAKS};
        lh_error_clear();
        ck_assert_int_eq(lh_child_run(&work, &limits), rows[i].st);
        ck_assert(strstr(lh_error_message(), rows[i].says) != NULL);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("h5");
    TCase *tc = tcase_create("laws");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_add_test(tc, test_sixteen_bit_floats_keep_every_bit);
    tcase_add_test(tc, test_a_part_is_the_slice_of_the_whole);
    tcase_add_test(tc, test_attributes_and_text_come_back);
    tcase_add_test(tc, test_what_is_no_json_is_described_all_the_same);
    tcase_add_test(tc, test_nothing_lies_under_the_name_before_commit);
    tcase_add_test(tc, test_same_contents_same_bytes);
    tcase_add_test(tc, test_a_full_disk_is_a_failure_and_leaves_nothing);
    tcase_add_test(tc, test_another_kind_or_schema_is_refused);
    tcase_add_test(tc, test_a_file_cut_anywhere_is_refused);
    tcase_add_test(tc, test_flipped_bytes_never_reach_this_process);
    tcase_add_test(tc, test_links_out_of_the_file_are_refused);
    tcase_add_test(tc, test_an_array_larger_than_the_file_is_refused);
    tcase_add_test(tc, test_a_chunk_that_is_cut_off_is_refused);
    tcase_add_test(tc, test_chunks_larger_than_their_array_are_refused);
    tcase_add_test(tc, test_compressed_arrays_are_placed);
    tcase_add_test(tc, test_an_array_of_a_filter_that_is_not_there_is_refused);
    tcase_add_test(tc, test_every_array_is_visited_in_order);
    tcase_add_test(tc, test_contents_tell_files_apart);
    tcase_add_test(tc, test_a_file_that_changes_while_it_is_open_is_told);
    tcase_add_test(tc, test_one_of_the_readers_finds_damage_whatever_slabs_they_read);
    tcase_add_test(tc, test_a_second_check_of_an_open_array_begins_anew);
    tcase_add_test(tc, test_a_child_dies_alone);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
