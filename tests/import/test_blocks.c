/* Laws of checkpoints with matrices of blocks (import/checkpoint.h): the bytes come back, their values are those of the
 * format for any range, formats can differ by tensor, and damage is found and named. */
#include <check.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/h5.h"
#include "blocks_maker.h"
#include "import/verify.h"
#include "model_maker.h"

static const lh_file_kind *const kinds[] = {&lh_checkpoint_kind, NULL};
static const char *const kept[] = {"q4_0", "q4_1", "q5_0",   "q5_1",   "q8_0",   "q4_K",
                                   "q5_K", "q6_K", "iq4_nl", "iq4_xs", "f8_e4m3"};
enum { KEPT = sizeof kept / sizeof *kept };

static char tmp[64], path[96];

static void set_up(void)
{
    mm_make_tmp(tmp);
    snprintf(path, sizeof path, "%s/m.h5", tmp);
    dup2(open("/dev/null", O_WRONLY), 2);
}

static void tear_down(void)
{
    mm_remove_tmp(tmp);
}

static int64_t schema_of(const char *name)
{
    lh_h5 *h5;
    int64_t schema = 0;
    ck_assert_int_eq(lh_h5_open(&h5, name, &(lh_h5_header){0}), LH_OK);
    ck_assert_int_eq(lh_h5_get_i64(h5, "/", "schema", &schema), LH_OK);
    lh_h5_close(h5);
    return schema;
}

START_TEST(test_only_blocks_need_the_new_schema)
{
    lh_checkpoint *ck;
    lh_verify_report report;
    bm_checkpoint(path, lh_format_of(LH_BF16));
    ck_assert_int_eq(schema_of(path), 1);
    bm_checkpoint(path, NULL);
    ck_assert_int_eq(schema_of(path), 2);
    ck_assert_int_eq(lh_verify(path, kinds, NULL, &report), LH_OK);
    ck_assert_int_eq(lh_checkpoint_open(&ck, path), LH_OK);
    ck_assert_int_eq(lh_checkpoint_dtype(ck), LH_BF16);
    for (int w = 0; w < LH_WEIGHTS; w++) {
        int64_t rows, cols;
        lh_weight_shape(lh_checkpoint_config(ck), (lh_weight)w, &rows, &cols);
        for (int64_t l = 0; l < 2; l++)
            ck_assert_ptr_eq(lh_checkpoint_format(ck, (lh_weight)w, l), rows ? bm_format(NULL, (lh_weight)w) : NULL);
    }
    lh_checkpoint_close(ck);
}
END_TEST

/* Rows and columns of `down` [256, 512]: at blocks of 32 and 256, and anywhere. */
static const int64_t parts[][4] = {{0, 256, 0, 512},  {3, 50, 256, 256}, {100, 7, 0, 256},
                                   {0, 256, 32, 448}, {9, 11, 96, 320},  {255, 1, 480, 32},
                                   {4, 2, 33, 1},     {0, 0, 0, 512},    {5, 3, 64, 0}};

START_TEST(test_bytes_and_values_of_any_range)
{
    const lh_format *format = lh_format_named(kept[_i]);
    lh_checkpoint *ck;
    bm_checkpoint(path, format);
    ck_assert_int_eq(lh_checkpoint_open(&ck, path), LH_OK);
    uint8_t *bytes = bm_tensor(lh_checkpoint_config(ck), LH_W_DOWN, 1, format);
    static float want[256 * 512], have[256 * 515];
    static uint16_t half[256 * 512];
    static uint8_t part[256 * 1024];
    const int64_t row_bytes = lh_format_bytes(format, 512);
    lh_format_to_f32(format, want, bytes, 256 * 512 / format->values);
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        const lh_weight_range range = {LH_W_DOWN, 1, parts[p][0], parts[p][1], parts[p][2], parts[p][3]};
        ck_assert_int_eq(lh_checkpoint_read(ck, &range, have, LH_F32, 515), LH_OK);
        ck_assert_int_eq(lh_checkpoint_read(ck, &range, half, LH_BF16, range.cols), LH_OK);
        int64_t equal = 0;
        for (int64_t i = 0; i < range.rows * range.cols; i++) {
            const int64_t r = i / range.cols, c = i % range.cols;
            const float value = want[(range.row + r) * 512 + range.col + c];
            equal += have[r * 515 + c] == value && half[i] == lh_f32_to_bf16(value);
        }
        ck_assert_int_eq(equal, range.rows * range.cols);
        if (range.col % format->values || range.cols % format->values) continue;
        const int64_t n = lh_format_bytes(format, range.cols);
        ck_assert_int_eq(lh_checkpoint_read_blocks(ck, &range, part), LH_OK);
        for (int64_t r = 0; r < range.rows; r++) {
            const uint8_t *from = bytes + (range.row + r) * row_bytes + lh_format_bytes(format, range.col);
            ck_assert(memcmp(part + r * n, from, (size_t)n) == 0);
        }
    }
    lh_free(bytes);
    lh_checkpoint_close(ck);
}
END_TEST

/* Changes bytes of the file where `up` of layer 1 lies, at its block `block`. */
static void damage(const lh_format *format, int64_t block, int64_t at, uint8_t mask)
{
    lh_buf whole = {0};
    lh_checkpoint *ck;
    ck_assert_int_eq(lh_file_read(&whole, path, 1 << 24), LH_OK);
    ck_assert_int_eq(lh_checkpoint_open(&ck, path), LH_OK);
    uint8_t *bytes = bm_tensor(lh_checkpoint_config(ck), LH_W_UP, 1, format);
    lh_checkpoint_close(ck);
    char *found = memmem(whole.data, (size_t)whole.bytes, bytes, 64);
    ck_assert_ptr_nonnull(found);
    found[block * format->bytes + at] = (char)(found[block * format->bytes + at] ^ mask);
    mm_put(path, whole.data, whole.bytes);
    lh_free(bytes);
    lh_buf_clear(&whole);
}

static void refused(lh_status st, const char *name, const char *what)
{
    ck_assert_int_eq(st, LH_EFILE);
    ck_assert_msg(strstr(lh_error_message(), name) != NULL, "%s", lh_error_message());
    ck_assert_msg(strstr(lh_error_message(), what) != NULL, "%s", lh_error_message());
}

/* Bits that make a number k of a block of bm_fill infinite or NaN: its scales, and a code that is a float. */
typedef struct infinite_bits {
    int64_t at;
    uint8_t mask;
} infinite_bits;

static infinite_bits make_infinite(const lh_format *format, int k)
{
    static const infinite_bits of_floats[] = {{3, 0x46}, {4, 0x0f}};
    if (format->by_rows) return of_floats[k];
    return (infinite_bits){format->halves_at + 2 * k + 1, 0x6c}; /* bytes 0x10 to 0x13 become 0x7c to 0x7f */
}

START_TEST(test_scales_that_are_not_finite_are_named)
{
    static float values[512 * 256];
    static const char name[] = "'/weights/layers/001/up'";
    const lh_format *format = lh_format_named(kept[_i]);
    const int64_t in_row = 256 / format->values, block = 77 * in_row + in_row - 1;
    const lh_weight_range all = {LH_W_UP, 1, 0, 512, 0, 256}, good = {LH_W_UP, 1, 0, 77, 0, 256};
    char where[64];
    lh_checkpoint *ck;
    snprintf(where, sizeof where, "row 77, column %d", (int)(256 - format->values));
    for (int k = 0; k < (format->by_rows ? 2 : format->halves); k++) {
        const infinite_bits bits = make_infinite(format, k);
        bm_checkpoint(path, format);
        damage(format, block, bits.at, bits.mask);
        ck_assert_int_eq(lh_checkpoint_open(&ck, path), LH_OK);
        ck_assert_int_eq(lh_checkpoint_read_blocks(ck, &good, values), LH_OK);
        refused(lh_checkpoint_read_blocks(ck, &all, values), name, where);
        refused(lh_checkpoint_read_blocks(ck, &all, values), name, "a scale or a code that is not finite");
        refused(lh_checkpoint_read(ck, &all, values, LH_F32, 256), name, where);
        refused(lh_checkpoint_read(ck, &all, values, LH_BF16, 256), name, where);
        lh_checkpoint_close(ck);
        lh_verify_report report;
        refused(lh_verify(path, kinds, NULL, &report), name, "a scale or a code that is not finite");
        refused(lh_verify(path, kinds, NULL, &report), name, where);
    }
}
END_TEST

START_TEST(test_info_counts_tensors_and_bytes_of_each_format)
{
    json_t *info;
    int64_t tensors = 0, bytes = 0;
    bm_checkpoint(path, NULL);
    ck_assert_int_eq(lh_info_json(path, kinds, &info), LH_OK);
    ck_assert_str_eq(json_string_value(json_object_get(info, "weights")),
                     "967.3 KiB as q8_0, q5_K, q4_1, bf16, q5_0, q4_K, q6_K");
    ck_assert_str_eq(json_string_value(json_object_get(info, "dtype")), "q8_0");
    const json_t *formats = json_object_get(info, "formats"), *row;
    size_t i;
    json_array_foreach(formats, i, row)
    {
        const char *name = json_string_value(json_object_get(row, "name"));
        tensors += json_integer_value(json_object_get(row, "tensors"));
        bytes += json_integer_value(json_object_get(row, "bytes"));
        if (strcmp(name, "q8_0") == 0) /* gate of two layers, [512, 256] */
            ck_assert_int_eq(json_integer_value(json_object_get(row, "bytes")), 2 * 512 * 256 / 32 * 34);
    }
    ck_assert_int_eq(tensors, 3 + 2 * 9);
    ck_assert_int_eq(bytes, 990544);
    json_decref(info);
}
END_TEST

START_TEST(test_a_flipped_bit_is_found)
{
    const lh_format *format = lh_format_named(kept[_i]);
    lh_verify_report report;
    bm_checkpoint(path, format);
    for (int64_t at = 0; at < format->bytes; at += 1 + format->bytes / 5) {
        damage(format, 4 + at, at, (uint8_t)(1 << at % 8));
        refused(lh_verify(path, kinds, NULL, &report), "'/weights/layers/001/up'", "");
        damage(format, 4 + at, at, (uint8_t)(1 << at % 8));
    }
    ck_assert_int_eq(lh_verify(path, kinds, NULL, &report), LH_OK);
}
END_TEST

/* Writes a file of which only /weights/embed [40, 256] is looked at: u8 [40, bytes] with the attributes. */
static void embed_only(const char *format, int64_t cols, int64_t bytes)
{
    lh_h5 *h5;
    const lh_h5_header head = {.kind = "checkpoint", .schema = 2};
    const lh_h5_shape shape = {.type = LH_U8, .rank = 2, .dims = {40, bytes}};
    static uint8_t zeros[40 * 512];
    ck_assert_int_eq(lh_h5_create(&h5, path, &head), LH_OK);
    ck_assert_int_eq(lh_h5_put_text(h5, "/config", BM_CONFIG, (int64_t)strlen(BM_CONFIG)), LH_OK);
    ck_assert_int_eq(lh_h5_put(h5, "/weights/embed", &shape, zeros), LH_OK);
    if (format) ck_assert_int_eq(lh_h5_put_string(h5, "/weights/embed", "format", format), LH_OK);
    if (cols) ck_assert_int_eq(lh_h5_put_i64(h5, "/weights/embed", "cols", cols), LH_OK);
    ck_assert_int_eq(lh_h5_commit(h5), LH_OK);
}

START_TEST(test_blocks_that_do_not_fit_are_refused)
{
    static const struct {
        const char *format;
        int64_t cols, bytes;
        const char *what;
    } cases[] = {{"q4_K", 256, 144, "no '/weights/norm'"}, /* all well, but for the rest of the file */
                 {NULL, 256, 144, "is u8 of the format ''"},
                 {"q9_Z", 256, 144, "is u8 of the format 'q9_Z'"},
                 {"q2_K", 256, 84, "is u8 of the format 'q2_K': weights are f32, f16 or bf16, or u8 blocks of q4_0"},
                 {"bf16", 256, 512, "is u8 of the format 'bf16'"},
                 {"q4_K", 0, 144, "has 0 columns in blocks of 256, its configuration asks for 256"},
                 {"q4_K", 512, 288, "has 512 columns in blocks of 256, its configuration asks for 256"},
                 {"q4_K", 256, 143, "is [40, 143], its configuration asks for [40, 144]"},
                 {"q8_0", 256, 144, "is [40, 144], its configuration asks for [40, 272]"}};
    lh_checkpoint *ck;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        embed_only(cases[i].format, cases[i].cols, cases[i].bytes);
        refused(lh_checkpoint_open(&ck, path), path, cases[i].what);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("blocks");
    TCase *tc = tcase_create("laws");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, test_only_blocks_need_the_new_schema);
    tcase_add_loop_test(tc, test_bytes_and_values_of_any_range, 0, KEPT);
    tcase_add_loop_test(tc, test_scales_that_are_not_finite_are_named, 0, KEPT);
    tcase_add_loop_test(tc, test_a_flipped_bit_is_found, 0, KEPT);
    tcase_add_test(tc, test_info_counts_tensors_and_bytes_of_each_format);
    tcase_add_test(tc, test_blocks_that_do_not_fit_are_refused);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
