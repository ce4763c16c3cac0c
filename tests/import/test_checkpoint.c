/* Laws of import/checkpoint.h and import/verify.h: a part is the slice of the whole, and damage is found and named. */
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "base/h5.h"
#include "base/rng.h"
#include "import/checkpoint.h"
#include "import/convert.h"
#include "import/import.h"
#include "import/verify.h"
#include "model_maker.h"

static const lh_file_kind *const kinds[] = {&lh_checkpoint_kind, NULL};

static char tmp[64], folder[96], path[96];

static void set_up(void)
{
    mm_model m;
    mm_make_tmp(tmp);
    snprintf(folder, sizeof folder, "%s/model", tmp);
    snprintf(path, sizeof path, "%s/m.h5", tmp);
    mm_llama(&m);
    mm_folder(folder, &m, MM_LLAMA_CONFIG, LH_F32);
    dup2(open("/dev/null", O_WRONLY), 2);
}

static void tear_down(void)
{
    mm_remove_tmp(tmp);
}

static void import_as(const char *dtype)
{
    const lh_import_options options = {.src = folder, .out = path, .dtype = dtype};
    ck_assert_int_eq(lh_import(&options), LH_OK);
}

START_TEST(test_a_part_is_the_slice_of_the_whole)
{
    static const char *const dtypes[] = {"f32", "f16", "bf16"};
    static const int64_t parts[][4] = {{0, 20, 0, 24}, {3, 5, 0, 24}, {0, 20, 7, 9}, {4, 11, 2, 1},
                                       {19, 1, 23, 1}, {0, 0, 0, 24}, {5, 3, 0, 0}};
    lh_checkpoint *ck;
    float whole[20 * 24], part[20 * 31];
    uint16_t half[20 * 24];
    import_as(dtypes[_i]);
    ck_assert_int_eq(lh_checkpoint_open(&ck, path), LH_OK);
    const lh_weight_range all = {.weight = LH_W_UP, .layer = 1, .rows = 20, .cols = 24};
    ck_assert_int_eq(lh_checkpoint_read(ck, &all, whole, LH_F32, 24), LH_OK);
    ck_assert_int_eq(lh_checkpoint_read(ck, &all, half, LH_BF16, 24), LH_OK);
    for (int i = 0; i < 480; i++) ck_assert(lh_bf16_to_f32(half[i]) == whole[i]); /* exact in all types */
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        const lh_weight_range range = {LH_W_UP, 1, parts[p][0], parts[p][1], parts[p][2], parts[p][3]};
        for (int i = 0; i < 20 * 31; i++) part[i] = -99;
        ck_assert_int_eq(lh_checkpoint_read(ck, &range, part, LH_F32, 31), LH_OK);
        for (int64_t r = 0; r < 20; r++)
            for (int64_t c = 0; c < 31; c++)
                ck_assert(part[r * 31 + c] == (r < range.rows && c < range.cols
                                                   ? whole[(range.row + r) * 24 + range.col + c]
                                                   : -99)); /* what lies between the rows is left alone */
    }
    lh_checkpoint_close(ck);
}
END_TEST

START_TEST(test_vectors_are_columns)
{
    lh_checkpoint *ck;
    float norm[24], some[3];
    import_as("bf16");
    ck_assert_int_eq(lh_checkpoint_open(&ck, path), LH_OK);
    const lh_weight_range all = {.weight = LH_W_NORM, .rows = 24, .cols = 1},
                          three = {.weight = LH_W_NORM, .row = 5, .rows = 3, .cols = 1};
    ck_assert_int_eq(lh_checkpoint_read(ck, &all, norm, LH_F32, 1), LH_OK);
    ck_assert_int_eq(lh_checkpoint_read(ck, &three, some, LH_F32, 1), LH_OK);
    for (int i = 0; i < 24; i++) ck_assert(norm[i] == mm_value("model.norm.weight", i));
    ck_assert(memcmp(some, norm + 5, sizeof some) == 0);
    lh_checkpoint_close(ck);
}
END_TEST

/* Written value by value through the writer: any bits can be put in. */
typedef struct writing {
    lh_checkpoint_writer *w;
    lh_weight bad;
    int64_t at;
} writing;

static lh_status write_one(void *self, lh_weight weight, int64_t layer)
{
    writing *wr = self;
    float values[40 * 24] = {0};
    int64_t rows = lh_weight_info_of(weight)->rank == 1 ? 24 : 0;
    static const int64_t matrix_rows[LH_WEIGHTS] = {
        [LH_W_EMBED] = 40, [LH_W_HEAD] = 40, [LH_W_Q] = 24,  [LH_W_K] = 12,   [LH_W_V] = 12,
        [LH_W_O] = 24,     [LH_W_GATE] = 20, [LH_W_UP] = 20, [LH_W_DOWN] = 24};
    if (rows == 0) rows = matrix_rows[weight];
    if (weight == wr->bad && layer == 1) values[wr->at] = NAN;
    LH_TRY(lh_checkpoint_begin(wr->w, weight, layer, lh_format_of(LH_F32)));
    for (int64_t r = 0; r < rows; r += 7) /* in uneven portions */
        LH_TRY(lh_checkpoint_rows(wr->w,
                                  values + r * (lh_weight_info_of(weight)->rank == 1 ? 1
                                                : weight == LH_W_DOWN                ? 20
                                                                                     : 24),
                                  rows - r < 7 ? rows - r : 7));
    LH_TRY(lh_checkpoint_end(wr->w));
    return LH_OK;
}

static void write_checkpoint(lh_weight bad, int64_t at)
{
    const lh_checkpoint_meta meta = {.config_json = MM_LLAMA_CONFIG};
    lh_config c;
    writing wr = {.bad = bad, .at = at};
    ck_assert_int_eq(lh_config_parse_text(&c, MM_LLAMA_CONFIG, (int64_t)strlen(MM_LLAMA_CONFIG), "config"), LH_OK);
    ck_assert_int_eq(lh_checkpoint_create(&wr.w, path, &meta), LH_OK);
    ck_assert_int_eq(lh_checkpoint_each(&c, write_one, &wr), LH_OK);
    ck_assert_int_eq(lh_checkpoint_finish(wr.w), LH_OK);
    lh_config_clear(&c);
}

START_TEST(test_a_value_that_is_not_finite_is_named)
{
    lh_checkpoint *ck;
    lh_verify_report report;
    float all[20 * 24];
    write_checkpoint(LH_W_GATE, 13 * 24 + 5);
    ck_assert_int_eq(lh_checkpoint_open(&ck, path), LH_OK);
    const lh_weight_range good = {LH_W_GATE, 1, 0, 13, 0, 24}, bad = {LH_W_GATE, 1, 8, 10, 4, 3};
    ck_assert_int_eq(lh_checkpoint_read(ck, &good, all, LH_F32, 24), LH_OK);
    for (int k = 0; k < 2; k++) {
        ck_assert_int_eq(lh_checkpoint_read(ck, &bad, all, k ? LH_BF16 : LH_F32, 3), LH_EFILE);
        ck_assert_msg(strstr(lh_error_message(), "'/weights/layers/001/gate'") != NULL, "%s", lh_error_message());
        ck_assert_msg(strstr(lh_error_message(), "row 13, column 5") != NULL, "%s", lh_error_message());
    }
    lh_checkpoint_close(ck);
    ck_assert_int_eq(lh_verify(path, kinds, NULL, &report), LH_EFILE);
    ck_assert_msg(strstr(lh_error_message(), "row 13, column 5") != NULL, "%s", lh_error_message());
}
END_TEST

START_TEST(test_a_whole_checkpoint_verifies)
{
    lh_verify_report report;
    import_as("bf16");
    ck_assert_int_eq(lh_verify(path, kinds, NULL, &report), LH_OK);
    ck_assert_str_eq(report.kind, "checkpoint");
    ck_assert_int_eq(report.arrays, 3 + 2 * 9);
    ck_assert_int_eq(report.hashes, report.arrays + 1);
}
END_TEST

START_TEST(test_a_flipped_bit_of_any_array_is_found)
{
    lh_verify_report report;
    lh_buf whole = {0};
    import_as("f32");
    ck_assert_int_eq(lh_file_read(&whole, path, 1 << 24), LH_OK);
    for (int k = 0; k < 60; k++) {
        const uint32_t key[2] = {1, 2}, counter[4] = {(uint32_t)k};
        uint32_t words[4];
        float pattern = mm_value("lm_head.weight", k);
        char *at = NULL;
        /* Somewhere in an array: where its values lie. */
        lh_philox(words, key, counter);
        for (int64_t i = 0; i + 8 < whole.bytes && !at; i++) {
            float next = mm_value("lm_head.weight", k + 1);
            if (memcmp(whole.data + i, &pattern, 4) == 0 && memcmp(whole.data + i + 4, &next, 4) == 0)
                at = whole.data + i;
        }
        ck_assert_ptr_nonnull(at);
        at[words[0] % 4] = (char)(at[words[0] % 4] ^ (1 << words[1] % 8));
        mm_put(path, whole.data, whole.bytes);
        ck_assert_int_eq(lh_verify(path, kinds, NULL, &report), LH_EFILE);
        ck_assert_msg(strstr(lh_error_message(), "'/weights/") != NULL, "%s", lh_error_message());
        at[words[0] % 4] = (char)(at[words[0] % 4] ^ (1 << words[1] % 8));
    }
    lh_buf_clear(&whole);
}
END_TEST

START_TEST(test_a_checkpoint_cut_anywhere_is_refused)
{
    lh_verify_report report;
    lh_buf whole = {0};
    import_as("bf16");
    ck_assert_int_eq(lh_file_read(&whole, path, 1 << 24), LH_OK);
    for (int64_t n = 0; n < whole.bytes; n += 211) {
        mm_put(path, whole.data, n);
        ck_assert_int_eq(lh_verify(path, kinds, NULL, &report), LH_EFILE);
    }
    lh_buf_clear(&whole);
}
END_TEST

START_TEST(test_other_files_are_no_checkpoints)
{
    lh_checkpoint *ck;
    lh_h5 *h5;
    const lh_h5_header head = {.kind = "cache", .schema = 1};
    const lh_h5_shape shape = {.type = LH_F32, .rank = 2, .dims = {40, 24}};
    float values[40 * 24] = {0};
    ck_assert_int_eq(lh_checkpoint_open(&ck, "/nowhere.h5"), LH_EFILE);
    mm_put(path, "no", 2);
    ck_assert_int_eq(lh_checkpoint_open(&ck, path), LH_EFILE);
    ck_assert_int_eq(lh_h5_create(&h5, path, &head), LH_OK);
    ck_assert_int_eq(lh_h5_commit(h5), LH_OK);
    ck_assert_int_eq(lh_checkpoint_open(&ck, path), LH_EFILE);
    ck_assert(strstr(lh_error_message(), "is a cache, not a checkpoint") != NULL);
    /* A configuration that asks for more than there is. */
    const lh_h5_header right = {.kind = "checkpoint", .schema = 1};
    ck_assert_int_eq(lh_h5_create(&h5, path, &right), LH_OK);
    ck_assert_int_eq(lh_h5_put_text(h5, "/config", MM_LLAMA_CONFIG, (int64_t)strlen(MM_LLAMA_CONFIG)), LH_OK);
    ck_assert_int_eq(lh_h5_put(h5, "/weights/embed", &shape, values), LH_OK);
    ck_assert_int_eq(lh_h5_commit(h5), LH_OK);
    ck_assert_int_eq(lh_checkpoint_open(&ck, path), LH_EFILE);
    ck_assert_msg(strstr(lh_error_message(), "has no '/weights/norm'") != NULL, "%s", lh_error_message());
}
END_TEST

START_TEST(test_info_says_what_is_there)
{
    json_t *info;
    import_as("f16");
    ck_assert_int_eq(lh_info_json(path, kinds, &info), LH_OK);
    ck_assert_str_eq(json_string_value(json_object_get(info, "kind")), "checkpoint");
    ck_assert_str_eq(json_string_value(json_object_get(info, "family")), "llama");
    ck_assert_str_eq(json_string_value(json_object_get(info, "dtype")), "f16");
    ck_assert_int_eq(json_integer_value(json_object_get(info, "kv_heads")), 2);
    ck_assert_int_eq(json_integer_value(json_object_get(info, "parameters")),
                     2 * 40 * 24 + 24 + 2 * (2 * 24 + 2 * 24 * 24 + 2 * 12 * 24 + 3 * 20 * 24));
    ck_assert(json_is_false(json_object_get(info, "tokenizer")));
    json_decref(info);
    ck_assert_int_eq(lh_info_json("/nowhere.h5", kinds, &info), LH_EFILE);
}
END_TEST

/* Every pair of types, against the plain conversion; the first value that is not finite and below 2^64 is found at any
 * place. */
START_TEST(test_conversion_is_the_plain_one)
{
    enum { N = 3 * 1500 };
    static uint16_t bits[65536];
    static float src[65536], wide[65536];
    for (int i = 0; i < 65536; i++) bits[i] = (uint16_t)i;
    for (int from = 0; from < 3; from++) {
        for (int to = 0; to < 3; to++) {
            const void *in = from == LH_F32 ? (const void *)src : bits;
            static char have[65536 * 4], want[65536 * 4];
            lh_normals(src, 3, (uint64_t)to, 0, 65536);
            lh_dtype_convert(want, (lh_dtype)to, in, (lh_dtype)from, 65536);
            const lh_convert c = {have, (lh_dtype)to, 4096, in, (lh_dtype)from, 16, 4096};
            lh_convert_rows(&c);
            for (int i = 0; i < 65536; i++) {
                int64_t size = lh_dtype_bytes((lh_dtype)to);
                int nan = from != LH_F32 && ((bits[i] & 0x7fff) > (from == LH_F16 ? 0x7c00 : 0x7f80));
                ck_assert(nan || memcmp(have + i * size, want + i * size, (size_t)size) == 0);
            }
        }
    }
    for (int64_t at = 0; at < N; at += 97) {
        for (int i = 0; i < N; i++) src[i] = 1;
        src[at] = at % 2 ? -0x1p64f : INFINITY;
        const lh_convert narrow = {wide, LH_F32, 3, src, LH_F32, N / 3, 3},
                         broad = {wide, LH_F32, N / 3, src, LH_F32, 3, N / 3};
        ck_assert_int_eq(lh_convert_rows(&narrow), at);
        ck_assert_int_eq(lh_convert_rows(&broad), at);
        ck_assert_int_eq(lh_find_unusable(src, LH_F32, N), at);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("checkpoint");
    TCase *tc = tcase_create("laws");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, test_a_part_is_the_slice_of_the_whole, 0, 3);
    tcase_add_test(tc, test_vectors_are_columns);
    tcase_add_test(tc, test_a_value_that_is_not_finite_is_named);
    tcase_add_test(tc, test_a_whole_checkpoint_verifies);
    tcase_add_test(tc, test_a_flipped_bit_of_any_array_is_found);
    tcase_add_test(tc, test_a_checkpoint_cut_anywhere_is_refused);
    tcase_add_test(tc, test_other_files_are_no_checkpoints);
    tcase_add_test(tc, test_info_says_what_is_there);
    tcase_add_test(tc, test_conversion_is_the_plain_one);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
