/* Every GGUF element type against values that ggml and gguf-py computed. */
#include <check.h>
#include <ctype.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/format.h"
#include "base/mem.h"

static char golden[512];

static const char *const names[] = {"f16",  "bf16", "q4_0", "q4_1", "q5_0", "q5_1",
                                    "q8_0", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K"};

static void *read_all(hid_t file, const char *group, const char *name, hid_t memory, hsize_t dims[2])
{
    char full[64];
    void *data;
    snprintf(full, sizeof full, "/%s/%s", group, name);
    for (size_t i = 1; i <= strlen(group); i++) full[i] = (char)toupper(full[i]);
    hid_t set = H5Dopen2(file, full, H5P_DEFAULT), space = H5Dget_space(set);
    ck_assert_int_eq(H5Sget_simple_extent_dims(space, dims, NULL), 2);
    ck_assert_int_eq(lh_calloc(&data, (int64_t)(dims[0] * dims[1]), (int64_t)H5Tget_size(memory)), LH_OK);
    ck_assert_int_ge(H5Dread(set, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), 0);
    H5Sclose(space), H5Dclose(set);
    return data;
}

START_TEST(test_values_are_ggml_s)
{
    const char *name = names[_i];
    const lh_format *format = lh_format_named(name);
    hsize_t raw_dims[2], dims[2];
    hid_t file = H5Fopen(golden, H5F_ACC_RDONLY, H5P_DEFAULT);
    ck_assert_ptr_nonnull(format);
    uint8_t *raw = read_all(file, name, "raw", H5T_NATIVE_UINT8, raw_dims);
    float *want = read_all(file, name, "values", H5T_NATIVE_FLOAT, dims), *have;
    int64_t n = (int64_t)(dims[0] * dims[1]);
    ck_assert_int_eq((int64_t)raw_dims[1] % format->bytes, 0);
    ck_assert_int_eq((int64_t)(raw_dims[0] * raw_dims[1]) / format->bytes * format->values, n);
    ck_assert_int_eq(lh_calloc(&have, n, sizeof *have), LH_OK);
    lh_format_to_f32(format, have, raw, n / format->values);
    for (int64_t i = 0; i < n; i++) {
        /* Signed zeros aside; a NaN is the same NaN. */
        int same = memcmp(&have[i], &want[i], 4) == 0 || (have[i] == 0 && want[i] == 0);
        ck_assert_msg(same, "%s value %lld: %a, it should be %a", name, (long long)i, (double)have[i], (double)want[i]);
    }
    lh_free(raw), lh_free(want), lh_free(have);
    H5Fclose(file);
}
END_TEST

/* FNV-1a hashes of the values by gguf.quants.dequantize (gguf 0.19) of the blocks below; zeros are positive. */
static const struct golden {
    const char *name;
    uint64_t hash;
} goldens[] = {
    {"iq4_nl", UINT64_C(0x5e110693375829fb)},
    {"iq4_xs", UINT64_C(0x8ea70804d5581653)},
    {"mxfp4", UINT64_C(0x1fb3bad59027d228)},
};
enum { GOLDENS = sizeof goldens / sizeof *goldens };

START_TEST(test_values_of_tables_are_gguf_py_s)
{
    enum { BLOCKS = 64 };
    static uint8_t blocks[BLOCKS * 136];
    static float values[BLOCKS * 256];
    const lh_format *format = lh_format_named(goldens[_i].name);
    const char *const bytes = (const char *)values;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int64_t i = 0; i < BLOCKS * format->bytes; i++) blocks[i] = (uint8_t)((i * 7919 + i * i % 1013 * 104729) >> 3);
    for (int b = 0; b < BLOCKS; b++) {
        uint8_t *block = blocks + b * format->bytes;
        if (strcmp(format->name, "mxfp4") == 0)
            block[0] = (uint8_t)(100 + b % 40);
        else /* the half is finite */
            block[1] = (uint8_t)(0x20 + block[1] % 32);
    }
    lh_format_to_f32(format, values, blocks, BLOCKS);
    for (int64_t i = 0; i < BLOCKS * format->values; i++) values[i] += 0.0f;
    for (int64_t i = 0; i < BLOCKS * format->values * 4; i++)
        hash = (hash ^ (uint8_t)bytes[i]) * UINT64_C(0x100000001b3);
    ck_assert_msg(hash == goldens[_i].hash, "%s: %016llx", format->name, (unsigned long long)hash);
    ck_assert_int_eq(lh_format_is_kept(format), strcmp(format->name, "mxfp4") != 0);
}
END_TEST

START_TEST(test_blocks_do_not_depend_on_each_other)
{
    float two[512], one[256];
    uint8_t bytes[2 * 300];
    for (int number = 0; number < 64; number++) {
        const lh_format *format = lh_format_numbered(number);
        if (!format || !lh_format_is_readable(format)) continue;
        for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 37 % 101);
        lh_format_to_f32(format, two, bytes, 2);
        lh_format_to_f32(format, one, bytes + format->bytes, 1);
        ck_assert_int_eq(memcmp(two + format->values, one, (size_t)format->values * 4), 0);
    }
}
END_TEST

int main(void)
{
    const char *folder = getenv("LONGHAUL_TEST_DATA");
    snprintf(golden, sizeof golden, "%s/golden/dequant.h5", folder ? folder : LH_TEST_DATA);
    Suite *suite = suite_create("dequant");
    TCase *tc = tcase_create("laws");
    tcase_add_loop_test(tc, test_values_of_tables_are_gguf_py_s, 0, GOLDENS);
    tcase_add_test(tc, test_blocks_do_not_depend_on_each_other);
    if (lh_file_exists(golden))
        tcase_add_loop_test(tc, test_values_are_ggml_s, 0, sizeof names / sizeof *names);
    else
        printf("skipped: '%s' is not there\n", golden);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
