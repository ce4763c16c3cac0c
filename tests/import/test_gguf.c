/* Laws of import/gguf.h: what a file says comes back, and nothing it says is believed. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/output.h"
#include "base/temporary.h"
#include "gguf_maker.h"
#include "import/gguf.h"

static char path[64];

static void make_path(void)
{
    int fd = mkstemp(temporary_name(path, "/tmp"));
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static void remove_path(void)
{
    unlink(path);
}

static lh_status open_bytes(lh_gguf **out, const lh_buf *b)
{
    FILE *f = fopen(path, "wb"); /* not lh_file_write: thousands of syncs are slow */
    ck_assert_ptr_nonnull(f);
    if (b->bytes) ck_assert_int_eq(fwrite(b->data, 1, (size_t)b->bytes, f), b->bytes);
    ck_assert_int_eq(fclose(f), 0);
    return lh_gguf_open(out, path);
}

/* Everything the format has, in `version`. */
static void make_sample(lh_buf *b, uint32_t version)
{
    const int16_t shorts[3] = {-1, 0, 32767};
    const float floats[2] = {0.5f, -2.0f};
    const double pi = 3.25;
    const int64_t big = -5;
    gm_head(b, version, 2, 10);
    gm_key_text(b, "general.architecture", "llama");
    gm_key_u32(b, "general.alignment", 64);
    gm_key_f32(b, "eps", 1e-5f);
    gm_key(b, "flag", 7), gm_bytes(b, "\1", 1);
    gm_key(b, "pi", 12), gm_bytes(b, &pi, 8);
    gm_key(b, "big", 11), gm_bytes(b, &big, 8);
    gm_key(b, "shorts", 9), gm_u32(b, 3), gm_u64(b, 3), gm_bytes(b, shorts, 6);
    gm_key(b, "floats", 9), gm_u32(b, 6), gm_u64(b, 2), gm_bytes(b, floats, 8);
    gm_key(b, "words", 9), gm_u32(b, 8), gm_u64(b, 2), gm_text(b, "one"), gm_text(b, "");
    gm_key(b, "nested", 9), gm_u32(b, 9), gm_u64(b, 1), gm_u32(b, 0), gm_u64(b, 2), gm_bytes(b, "ab", 2);
    gm_tensor(b, "matrix", 2, 32, 8, 0);
    gm_tensor(b, "vector", 0, 3, 0, 128);
    gm_align(b, 64);
    for (int i = 0; i < 128 + 12; i++) gm_bytes(b, &(char){(char)i}, 1);
}

START_TEST(test_what_is_written_comes_back)
{
    lh_buf b = {0};
    lh_gguf *g;
    int64_t i = 7, n, *ints;
    double f = 0, *reals;
    int flag = 0;
    lh_gguf_text text = {0}, *words;
    make_sample(&b, _i == 0 ? 2 : 3);
    ck_assert_int_eq(open_bytes(&g, &b), LH_OK);
    ck_assert_int_eq(lh_gguf_i64(g, "general.alignment", &i), LH_OK);
    ck_assert_int_eq(i, 64);
    ck_assert_int_eq(lh_gguf_i64(g, "big", &i), LH_OK);
    ck_assert_int_eq(i, -5);
    ck_assert_int_eq(lh_gguf_i64(g, "absent", &i), LH_OK);
    ck_assert_int_eq(i, -5);
    ck_assert_int_eq(lh_gguf_f64(g, "eps", &f), LH_OK);
    ck_assert(f == (double)1e-5f);
    ck_assert_int_eq(lh_gguf_f64(g, "pi", &f), LH_OK);
    ck_assert(f == 3.25);
    ck_assert_int_eq(lh_gguf_bool(g, "flag", &flag), LH_OK);
    ck_assert_int_eq(flag, 1);
    ck_assert_int_eq(lh_gguf_string(g, "general.architecture", &text), LH_OK);
    ck_assert(text.bytes == 5 && memcmp(text.data, "llama", 5) == 0);
    ck_assert_int_eq(lh_gguf_i64s(g, "shorts", &ints, &n), LH_OK);
    ck_assert(n == 3 && ints[0] == -1 && ints[2] == 32767);
    ck_assert_int_eq(lh_gguf_f64s(g, "floats", &reals, &n), LH_OK);
    ck_assert(n == 2 && reals[1] == -2.0);
    ck_assert_int_eq(lh_gguf_strings(g, "words", &words, &n), LH_OK);
    ck_assert(n == 2 && words[0].bytes == 3 && words[1].bytes == 0);
    lh_free(ints), lh_free(reals), lh_free(words);
    ck_assert_int_eq(lh_gguf_tensors(g), 2);
    const lh_gguf_tensor *m = lh_gguf_tensor_find(g, "matrix"), *v = lh_gguf_tensor_find(g, "vector");
    ck_assert(m && v && !lh_gguf_tensor_find(g, "matri"));
    ck_assert(m->rank == 2 && m->dims[0] == 32 && m->dims[1] == 2 && m->bytes == 68 && m->data[3] == 3);
    ck_assert(v->rank == 1 && v->bytes == 12 && v->data[0] == 128);
    lh_gguf_close(g);
    lh_buf_clear(&b);
}
END_TEST

START_TEST(test_another_type_is_refused_by_name)
{
    lh_buf b = {0};
    lh_gguf *g;
    int64_t i, n, *ints;
    double f;
    int flag;
    lh_gguf_text text, *words;
    make_sample(&b, 3);
    ck_assert_int_eq(open_bytes(&g, &b), LH_OK);
    ck_assert_int_eq(lh_gguf_i64(g, "eps", &i), LH_EINPUT);
    ck_assert_int_eq(lh_gguf_i64(g, "words", &i), LH_EINPUT);
    ck_assert_int_eq(lh_gguf_f64(g, "general.architecture", &f), LH_EINPUT);
    ck_assert_int_eq(lh_gguf_bool(g, "eps", &flag), LH_EINPUT);
    ck_assert_int_eq(lh_gguf_string(g, "eps", &text), LH_EINPUT);
    ck_assert_int_eq(lh_gguf_strings(g, "shorts", &words, &n), LH_EINPUT);
    ck_assert_int_eq(lh_gguf_i64s(g, "words", &ints, &n), LH_EINPUT);
    ck_assert_int_eq(lh_gguf_i64s(g, "floats", &ints, &n), LH_EINPUT);
    ck_assert(strstr(lh_error_message(), "'floats'") != NULL);
    lh_gguf_close(g);
    lh_buf_clear(&b);
}
END_TEST

START_TEST(test_a_file_cut_anywhere_is_refused)
{
    lh_buf b = {0};
    lh_gguf *g;
    make_sample(&b, 3);
    for (int64_t n = 0; n < b.bytes; n++) {
        const lh_buf cut = {.data = b.data, .bytes = n};
        ck_assert_int_eq(open_bytes(&g, &cut), LH_EINPUT);
        ck_assert(strstr(lh_error_message(), path) != NULL);
    }
    lh_buf_clear(&b);
}
END_TEST

/* Any byte may lie: the file opens or is refused, and what opens can be read to its ends. */
START_TEST(test_any_byte_may_lie)
{
    lh_buf b = {0};
    lh_gguf *g;
    int64_t refused = 0, sum = 0;
    make_sample(&b, 3);
    for (int64_t at = 0; at < b.bytes; at++) {
        static const uint8_t values[] = {0, 1, 9, 0x7f, 0x80, 0xff};
        char kept = b.data[at];
        for (size_t v = 0; v < sizeof values; v++) {
            b.data[at] = (char)values[v];
            lh_status st = open_bytes(&g, &b);
            ck_assert(st == LH_OK || st == LH_EINPUT);
            refused += st != LH_OK;
            if (st != LH_OK) continue;
            for (int64_t t = 0; t < lh_gguf_tensors(g); t++) {
                const lh_gguf_tensor *tensor = lh_gguf_tensor_at(g, t);
                for (int64_t i = 0; i < tensor->bytes; i++) sum += tensor->data[i];
            }
            lh_gguf_close(g);
        }
        b.data[at] = kept;
    }
    ck_assert_int_gt(refused, 0);
    ck_assert_int_gt(sum, 0);
    lh_buf_clear(&b);
}
END_TEST

START_TEST(test_sizes_that_overflow_are_refused)
{
    static const struct {
        uint64_t rows, cols, offset;
    } bad[] = {{1ull << 62, 32, 0}, {1ull << 31, 1ull << 32, 0},
               {2, 32, 1ull << 62}, {2, 32, UINT64_MAX - 63},
               {0, 32, 0},          {2, 33, 0},
               {1ull << 63, 32, 0}, {4, 32, 0},
               {2, 32, 1}};
    lh_gguf *g;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lh_buf b = {0};
        gm_head(&b, 3, 1, 0);
        gm_text(&b, "t"), gm_u32(&b, 2), gm_u64(&b, bad[i].cols), gm_u64(&b, bad[i].rows), gm_u32(&b, 8);
        gm_u64(&b, bad[i].offset);
        gm_align(&b, 32);
        for (int j = 0; j < 68; j++) gm_bytes(&b, "", 1);
        ck_assert_int_eq(open_bytes(&g, &b), LH_EINPUT);
        ck_assert(strstr(lh_error_message(), path) != NULL);
        lh_buf_clear(&b);
    }
    static const uint64_t counts[][2] = {{UINT64_MAX, 0}, {0, UINT64_MAX}, {1ull << 40, 0}, {0, 1ull << 40}};
    for (size_t i = 0; i < 4; i++) {
        lh_buf b = {0};
        gm_head(&b, 3, counts[i][0], counts[i][1]);
        ck_assert_int_eq(open_bytes(&g, &b), LH_EINPUT);
        lh_buf_clear(&b);
    }
}
END_TEST

START_TEST(test_foreign_files_are_named_for_what_they_are)
{
    static const struct {
        const char *bytes, *says;
    } rows[] = {{"PK\3\4 and more bytes of a zip", "is not a GGUF file"},
                {"GGUF\1\0\0\0                    ", "version 1"},
                {"GGUF\0\0\0\3                    ", "big-endian"}};
    static const int64_t sizes[] = {29, 28, 28};
    lh_gguf *g;
    for (size_t i = 0; i < 3; i++) {
        lh_buf b = {0};
        gm_bytes(&b, rows[i].bytes, sizes[i]);
        ck_assert_int_eq(open_bytes(&g, &b), LH_EINPUT);
        ck_assert(strstr(lh_error_message(), rows[i].says) != NULL);
        lh_buf_clear(&b);
    }
    ck_assert_int_eq(lh_gguf_open(&g, "/nowhere/m.gguf"), LH_EINPUT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gguf");
    TCase *tc = tcase_create("laws");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, make_path, remove_path);
    tcase_add_loop_test(tc, test_what_is_written_comes_back, 0, 2);
    tcase_add_test(tc, test_another_type_is_refused_by_name);
    tcase_add_test(tc, test_a_file_cut_anywhere_is_refused);
    tcase_add_test(tc, test_any_byte_may_lie);
    tcase_add_test(tc, test_sizes_that_overflow_are_refused);
    tcase_add_test(tc, test_foreign_files_are_named_for_what_they_are);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
