/* Laws of importing GGUF files of few bits: `auto` keeps the source's blocks, other types are their values. */
#include <check.h>
#include <fcntl.h>
#include <unistd.h>

#include "blocks_maker.h"
#include "import/import.h"

static char tmp[64], gguf[96], out[96];

static void set_up(void)
{
    mm_make_tmp(tmp);
    snprintf(gguf, sizeof gguf, "%s/m.gguf", tmp);
    snprintf(out, sizeof out, "%s/m.h5", tmp);
    dup2(open("/dev/null", O_WRONLY), 2);
}

static void tear_down(void)
{
    mm_remove_tmp(tmp);
}

static lh_checkpoint *import_as(const char *src, const char *dtype)
{
    lh_checkpoint *ck;
    const lh_import_options options = {.src = src, .out = out, .dtype = dtype};
    ck_assert_msg(lh_import(&options) == LH_OK, "%s", lh_error_message());
    ck_assert_int_eq(lh_checkpoint_open(&ck, out), LH_OK);
    return ck;
}

/* A tensor of the checkpoint holds the values of the source, in the format `want`. */
typedef struct comparison {
    lh_checkpoint *ck;
    const lh_format *all;   /* of the source's matrices; NULL: mixed */
    const lh_format *plain; /* that matrices became; NULL: they are kept */
} comparison;

static lh_status compare_tensor(void *self, lh_weight weight, int64_t layer)
{
    const comparison *c = self;
    const lh_config *config = lh_checkpoint_config(c->ck);
    const lh_format *from = bm_format(c->all, weight), *have = lh_checkpoint_format(c->ck, weight, layer);
    lh_weight_range range = {.weight = weight, .layer = layer};
    lh_weight_shape(config, weight, &range.rows, &range.cols);
    const int64_t n = range.rows * range.cols;
    uint8_t *source = bm_tensor(config, weight, layer, from), *kept = NULL;
    float *want = NULL, *values = NULL;
    ck_assert_ptr_eq(have, c->plain && lh_weight_takes_blocks(weight) ? c->plain : from);
    LH_TRY(lh_calloc(&want, n, sizeof *want));
    LH_TRY(lh_calloc(&values, n, sizeof *values));
    LH_TRY(lh_calloc(&kept, n, sizeof *values));
    lh_format_to_f32(from, want, source, n / from->values);
    if (!have->is_plain) {
        LH_TRY(lh_checkpoint_read_blocks(c->ck, &range, kept));
        ck_assert(memcmp(kept, source, (size_t)lh_format_bytes(from, n)) == 0);
    } else if (have->plain != LH_F32) {
        lh_dtype_convert(kept, have->plain, want, LH_F32, n);
        lh_dtype_convert(want, LH_F32, kept, have->plain, n);
    }
    LH_TRY(lh_checkpoint_read(c->ck, &range, values, LH_F32, range.cols));
    int64_t equal = 0;
    for (int64_t i = 0; i < n; i++) equal += values[i] == want[i];
    ck_assert_int_eq(equal, n);
    lh_free(kept);
    lh_free(values);
    lh_free(want);
    lh_free(source);
    return LH_OK;
}

static void check_import(const char *dtype, const lh_format *all, const lh_format *plain)
{
    bm_gguf(gguf, all);
    comparison c = {.ck = import_as(gguf, dtype), .all = all, .plain = plain};
    ck_assert_int_eq(lh_checkpoint_each(lh_checkpoint_config(c.ck), compare_tensor, &c), LH_OK);
    if (strcmp(dtype, "auto") == 0) mm_check_header(gguf, c.ck);
    lh_checkpoint_close(c.ck);
}

static const char *const kept[] = {"q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_K", "q5_K", "q6_K", "iq4_nl", "iq4_xs"};

START_TEST(test_auto_keeps_the_blocks)
{
    check_import("auto", lh_format_named(kept[_i]), NULL);
}
END_TEST

START_TEST(test_auto_keeps_a_mixture_of_formats)
{
    check_import("auto", NULL, NULL);
}
END_TEST

static void refused(const char *src, const char *what)
{
    const lh_import_options options = {.src = src, .out = out, .dtype = "auto"};
    ck_assert_int_eq(lh_import(&options), LH_EINPUT);
    ck_assert_msg(strstr(lh_error_message(), what) != NULL, "%s", lh_error_message());
    ck_assert(!lh_file_exists(out));
}

START_TEST(test_a_model_in_several_files_is_opened_by_the_first)
{
    char stem[96], first[128], second[128], third[128], renamed[128];
    snprintf(stem, sizeof stem, "%s/m", tmp);
    snprintf(first, sizeof first, "%s-00001-of-00003.gguf", stem);
    snprintf(second, sizeof second, "%s-00002-of-00003.gguf", stem);
    snprintf(third, sizeof third, "%s-00003-of-00003.gguf", stem);
    snprintf(renamed, sizeof renamed, "%s/renamed.gguf", tmp);
    bm_gguf_split(stem, NULL, 3);
    comparison c = {.ck = import_as(first, "auto")};
    ck_assert_int_eq(lh_checkpoint_each(lh_checkpoint_config(c.ck), compare_tensor, &c), LH_OK);
    mm_check_header(first, c.ck);
    lh_checkpoint_close(c.ck);
    ck_assert_int_eq(unlink(out), 0);
    refused(second, "m-00002-of-00003.gguf' is file 2 of 3: give the first, '");
    refused(second, "m-00001-of-00003.gguf'");
    ck_assert_int_eq(rename(first, renamed), 0);
    refused(renamed, "is file 1 of 3: its name must end with '-00001-of-00003.gguf'");
    ck_assert_int_eq(rename(renamed, first), 0);
    ck_assert_int_eq(rename(third, renamed), 0);
    refused(first, "m-00003-of-00003.gguf'");
    ck_assert_int_eq(rename(second, third), 0);
    ck_assert_int_eq(rename(renamed, second), 0);
    refused(first, "m-00002-of-00003.gguf' says that it is file 3 of 3");
}
END_TEST

START_TEST(test_blocks_of_fewer_bits_become_bf16)
{
    check_import("auto", lh_format_named("q2_K"), lh_format_of(LH_BF16));
    check_import("auto", lh_format_named("q3_K"), lh_format_of(LH_BF16));
}
END_TEST

START_TEST(test_any_plain_type_can_be_asked_for)
{
    static const char *const types[] = {"f32", "f16", "bf16"};
    for (int t = 0; t < 3; t++)
        check_import(types[t], lh_format_named(t == 1 ? "q6_K" : "q4_K"), lh_format_named(types[t]));
}
END_TEST

START_TEST(test_scales_that_are_not_finite_are_refused)
{
    lh_buf whole = {0};
    lh_config config;
    const lh_format *format = lh_format_named("q4_K");
    bm_gguf(gguf, format);
    bm_parse(&config);
    uint8_t *up = bm_tensor(&config, LH_W_UP, 1, format);
    ck_assert_int_eq(lh_file_read(&whole, gguf, 1 << 24), LH_OK);
    char *at = memmem(whole.data, (size_t)whole.bytes, up, 64);
    ck_assert_ptr_nonnull(at);
    at[9 * format->bytes + 1] = 0x7c;
    mm_put(gguf, whole.data, whole.bytes);
    refused(gguf, "tensor 'blk.1.ffn_up.weight' has a q4_K block at [9, 0] with a scale or a code that is not finite");
    lh_free(up);
    lh_buf_clear(&whole);
    lh_config_clear(&config);
}
END_TEST

static void compared(const char *src, lh_status want, const char *what)
{
    int64_t bytes = 0;
    const lh_status st = lh_import_compare(src, out, &(lh_import_progress){0}, &bytes);
    ck_assert_msg(st == want, "%s", st == LH_OK ? "no difference was found" : lh_error_message());
    if (st != LH_OK) ck_assert_msg(strstr(lh_error_message(), what) != NULL, "%s", lh_error_message());
    if (st == LH_OK) ck_assert_int_gt(bytes, 600000);
}

START_TEST(test_a_checkpoint_is_compared_with_its_source)
{
    static const char *const types[] = {"auto", "f32", "f16", "bf16"};
    char other[96];
    lh_buf whole = {0};
    snprintf(other, sizeof other, "%s/other.gguf", tmp);
    bm_gguf(gguf, NULL);
    ck_assert_int_eq(lh_file_read(&whole, gguf, 1 << 24), LH_OK);
    const int64_t at[] = {whole.bytes - 1, whole.bytes / 2, whole.bytes / 3};
    for (int t = 0; t < 4; t++) {
        lh_checkpoint_close(import_as(gguf, types[t]));
        compared(gguf, LH_OK, "");
        for (int i = 0; i < 3; i++) { /* one bit: of a code or of a scale */
            whole.data[at[i]] ^= 1;
            mm_put(other, whole.data, whole.bytes);
            compared(other, LH_EFILE, "differs from tensor '");
            whole.data[at[i]] ^= 1;
        }
    }
    lh_checkpoint_close(import_as(gguf, "auto"));
    bm_gguf(other, lh_format_named("q4_K"));
    compared(other, LH_EFILE, "'/weights/head' of '");
    compared(other, LH_EFILE, "is q6_K, tensor 'output.weight' of '");
    lh_buf_clear(&whole);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import of blocks");
    TCase *tc = tcase_create("laws");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, test_auto_keeps_the_blocks, 0, sizeof kept / sizeof *kept);
    tcase_add_test(tc, test_auto_keeps_a_mixture_of_formats);
    tcase_add_test(tc, test_a_model_in_several_files_is_opened_by_the_first);
    tcase_add_test(tc, test_blocks_of_fewer_bits_become_bf16);
    tcase_add_test(tc, test_any_plain_type_can_be_asked_for);
    tcase_add_test(tc, test_a_checkpoint_is_compared_with_its_source);
    tcase_add_test(tc, test_scales_that_are_not_finite_are_refused);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
