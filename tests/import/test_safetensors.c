/* Laws of import/safetensors.h: what a file says comes back, and nothing it says is believed. */
#include "import/safetensors.h"
#include "model_maker.h"

static char tmp[64], path[128];

static void make_path(void)
{
    mm_make_tmp(tmp);
    snprintf(path, sizeof path, "%s/a.safetensors", tmp);
}

static void remove_path(void)
{
    mm_remove_tmp(tmp);
}

static lh_status open_bytes(lh_safetensors **out, const char *data, int64_t bytes)
{
    mm_put(path, data, bytes);
    return lh_safetensors_open(out, path);
}

static lh_status open_header(const char *header, int64_t data_bytes)
{
    lh_safetensors *s = NULL;
    lh_buf b = {0};
    char *quoted = NULL;
    ck_assert_int_eq(lh_strdup(&quoted, header), LH_OK);
    for (char *p = quoted; *p; p++)
        if (*p == '\'') *p = '"';
    uint64_t n = strlen(quoted);
    lh_buf_append(&b, &n, 8);
    lh_buf_puts(&b, quoted);
    for (int64_t i = 0; i < data_bytes; i++) lh_buf_append(&b, "x", 1);
    lh_status st = open_bytes(&s, b.data, b.bytes);
    lh_safetensors_close(s);
    lh_buf_clear(&b);
    lh_free(quoted);
    return st;
}

START_TEST(test_what_is_written_comes_back)
{
    mm_model m = {0};
    lh_buf b = {0};
    lh_safetensors *s;
    mm_add(&m, 3, 5, "matrix");
    mm_add(&m, 7, 0, "vector");
    mm_safetensors(&b, &m, 0, 2, LH_F16);
    ck_assert_int_eq(open_bytes(&s, b.data, b.bytes), LH_OK);
    ck_assert_int_eq(lh_safetensors_count(s), 2);
    for (int64_t i = 0; i < 2; i++) {
        const lh_safetensor *t = lh_safetensors_at(s, i);
        int matrix = strcmp(t->name, "matrix") == 0;
        ck_assert_str_eq(t->dtype, "F16");
        ck_assert_str_eq(t->format->name, "f16");
        ck_assert(t->rank == (matrix ? 2 : 1) && t->shape[0] == (matrix ? 3 : 7) && t->bytes == (matrix ? 30 : 14));
        for (int64_t k = 0; k < t->bytes / 2; k++) {
            uint16_t h;
            memcpy(&h, t->data + 2 * k, 2);
            ck_assert(lh_f16_to_f32(h) == mm_value(t->name, k));
        }
    }
    lh_safetensors_close(s);
    lh_buf_clear(&b);
}
END_TEST

START_TEST(test_a_file_cut_anywhere_is_refused)
{
    mm_model m = {0};
    lh_buf b = {0};
    lh_safetensors *s;
    mm_add(&m, 3, 5, "matrix");
    mm_add(&m, 7, 0, "vector");
    mm_safetensors(&b, &m, 0, 2, LH_BF16);
    for (int64_t n = 0; n < b.bytes; n++) {
        ck_assert_int_eq(open_bytes(&s, b.data, n), LH_EINPUT);
        ck_assert(strstr(lh_error_message(), path) != NULL);
    }
    lh_buf_clear(&b);
}
END_TEST

START_TEST(test_any_byte_may_lie)
{
    static const uint8_t values[] = {0, '0', '9', '"', '}', 0x7f, 0x80, 0xff};
    mm_model m = {0};
    lh_buf b = {0};
    lh_safetensors *s;
    int64_t sum = 0;
    mm_add(&m, 3, 5, "matrix");
    mm_add(&m, 7, 0, "vector");
    mm_safetensors(&b, &m, 0, 2, LH_BF16);
    for (int64_t at = 0; at < b.bytes; at++) {
        char kept = b.data[at];
        for (size_t v = 0; v < sizeof values; v++) {
            b.data[at] = (char)values[v];
            lh_status st = open_bytes(&s, b.data, b.bytes);
            ck_assert(st == LH_OK || st == LH_EINPUT);
            if (st != LH_OK) continue;
            for (int64_t t = 0; t < lh_safetensors_count(s); t++)
                for (int64_t i = 0; i < lh_safetensors_at(s, t)->bytes; i++) sum += lh_safetensors_at(s, t)->data[i];
            lh_safetensors_close(s);
        }
        b.data[at] = kept;
    }
    ck_assert_int_gt(sum, 0);
    lh_buf_clear(&b);
}
END_TEST

START_TEST(test_headers_that_cannot_be_are_refused)
{
    static const struct {
        const char *header;
        int64_t data_bytes;
        const char *says;
    } rows[] = {
        {"{'t':{'dtype':'F32','shape':[2],'data_offsets':[0,8]}}", 8, NULL},
        {"{'t':{'dtype':'F32','shape':[],'data_offsets':[0,4]}}", 4, NULL},
        {"{'t':{'dtype':'F32','shape':[0,5],'data_offsets':[0,0]}}", 0, NULL},
        {"{'t':{'dtype':'F4','shape':[2],'data_offsets':[0,1]}}", 1, NULL}, /* unknown, but not wanted */
        {"{'t':{'dtype':'F32','shape':[2],'data_offsets':[0,8]}}", 9, "follow its last tensor"},
        {"{'t':{'dtype':'F32','shape':[3],'data_offsets':[0,8]}}", 8, "ask for 12"},
        {"{'t':{'dtype':'F32','shape':[2],'data_offsets':[4,12]}}", 8, "cut off"},
        {"{'t':{'dtype':'F32','shape':[2],'data_offsets':[8,0]}}", 8, "cut off"},
        {"{'t':{'dtype':'F32','shape':[2],'data_offsets':[-8,0]}}", 8, "cut off"},
        {"{'t':{'dtype':'F32','shape':[2],'data_offsets':[0,9223372036854775807]}}", 8, "cut off"},
        {"{'t':{'dtype':'F32','shape':[2],'data_offsets':[0.0,8]}}", 8, "data_offsets"},
        {"{'t':{'dtype':'F32','shape':[2],'data_offsets':[0]}}", 8, "data_offsets"},
        {"{'t':{'dtype':'F32','shape':[4294967296,4294967296],'data_offsets':[0,8]}}", 8, "sizes"},
        {"{'t':{'dtype':'F32','shape':[4611686018427387904],'data_offsets':[0,0]}}", 0, "sizes"},
        {"{'t':{'dtype':'F32','shape':[0,1,1,4611686018427387904,4],'data_offsets':[0,0]}}", 0, "sizes"},
        {"{'t':{'dtype':'F32','shape':[-2],'data_offsets':[0,8]}}", 8, "sizes"},
        {"{'t':{'dtype':'F32','shape':[1,1,1,1,1,1,1,1,2],'data_offsets':[0,8]}}", 8, "shape"},
        {"{'t':{'dtype':'F32','shape':'2','data_offsets':[0,8]}}", 8, "shape"},
        {"{'t':{'shape':[2],'data_offsets':[0,8]}}", 8, "dtype"},
        {"{'t':7}", 0, "dtype"},
        {"[1]", 0, "JSON object"},
        {"{'t'", 0, "not valid JSON"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_int_eq(open_header(rows[i].header, rows[i].data_bytes), rows[i].says ? LH_EINPUT : LH_OK);
        if (rows[i].says) ck_assert_msg(strstr(lh_error_message(), rows[i].says) != NULL, "%s", lh_error_message());
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("safetensors");
    TCase *tc = tcase_create("laws");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, make_path, remove_path);
    tcase_add_test(tc, test_what_is_written_comes_back);
    tcase_add_test(tc, test_a_file_cut_anywhere_is_refused);
    tcase_add_test(tc, test_any_byte_may_lie);
    tcase_add_test(tc, test_headers_that_cannot_be_are_refused);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
