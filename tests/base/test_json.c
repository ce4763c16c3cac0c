#include <check.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "suite.h"

static json_t *parse(const char *text)
{
    json_t *value = NULL;
    ck_assert_int_eq(lh_json_parse(&value, "config.json", text, (int64_t)strlen(text)), LH_OK);
    return value;
}

static void says(lh_status st, const char *part)
{
    ck_assert_int_eq(st, LH_EINPUT);
    ck_assert_msg(strstr(lh_error_message(), part), "'%s' does not say %s", lh_error_message(), part);
}

START_TEST(test_damaged_text_is_located)
{
    static const char *const bad[] = {"", "{", "[1,]", "{\"a\":1,\n \"b\":}", "nul", "\"\xff\"", "1e999", "{}{}"};
    json_t *value = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        says(lh_json_parse(&value, "config.json", bad[i], (int64_t)strlen(bad[i])), "'config.json' is not valid JSON");
        ck_assert_ptr_null(value);
    }
    says(lh_json_parse(&value, "config.json", bad[3], (int64_t)strlen(bad[3])), "line 2");
    says(lh_json_read(&value, "/no/such.json", 100), "'/no/such.json'");
}
END_TEST

START_TEST(test_nesting_without_end_is_refused)
{
    lh_buf text = {0};
    json_t *value = NULL;
    for (int i = 0; i < 100000; i++) ck_assert_int_eq(lh_buf_append(&text, "[", 1), LH_OK);
    says(lh_json_parse(&value, "deep", text.data, text.bytes), "'deep'");
    lh_buf_clear(&text);
}
END_TEST

START_TEST(test_members_are_typed_and_bounded)
{
    json_t *o = parse("{\"i\": 9007199254740993, \"f\": 2.5, \"b\": true, \"s\": \"x\", \"n\": null, \"a\": []}");
    int64_t i = 0;
    double f = 0;
    int b = 0;
    const char *s = NULL;
    ck_assert_int_eq(lh_json_i64(o, "m", "i", 0, INT64_MAX, &i), LH_OK);
    ck_assert_int_eq(i, INT64_C(9007199254740993)); /* 2^53 + 1 */
    ck_assert_int_eq(lh_json_f64(o, "m", "f", &f), LH_OK);
    ck_assert(f == 2.5);
    ck_assert_int_eq(lh_json_f64(o, "m", "i", &f), LH_OK);
    ck_assert_int_eq(lh_json_bool(o, "m", "b", &b), LH_OK);
    ck_assert_int_eq(b, 1);
    ck_assert_int_eq(lh_json_string(o, "m", "s", &s), LH_OK);
    ck_assert_str_eq(s, "x");
    says(lh_json_i64(o, "m", "f", 0, 9, &i), "'m': 'f' must be an integer");
    says(lh_json_i64(o, "m", "i", 0, 9, &i), "'i' is 9007199254740993, it must be between 0 and 9");
    says(lh_json_f64(o, "m", "s", &f), "'s' must be a number");
    says(lh_json_bool(o, "m", "i", &b), "'i' must be true or false");
    says(lh_json_string(o, "m", "a", &s), "'a' must be a string");
    json_decref(o);
}
END_TEST

START_TEST(test_absent_and_null_members_keep_the_default)
{
    json_t *o = parse("{\"n\": null}");
    static const char *const keys[] = {"n", "absent"};
    for (int k = 0; k < 2; k++) {
        int64_t i = 7;
        double f = 1.5;
        int b = 1;
        const char *s = "kept";
        ck_assert_int_eq(lh_json_i64(o, "m", keys[k], 0, 1, &i), LH_OK);
        ck_assert_int_eq(lh_json_f64(o, "m", keys[k], &f), LH_OK);
        ck_assert_int_eq(lh_json_bool(o, "m", keys[k], &b), LH_OK);
        ck_assert_int_eq(lh_json_string(o, "m", keys[k], &s), LH_OK);
        ck_assert(i == 7 && f == 1.5 && b == 1 && strcmp(s, "kept") == 0);
    }
    json_decref(o);
}
END_TEST

START_TEST(test_nul_inside_strings_and_doubled_keys_are_allowed)
{
    json_t *o = parse("{\"a\": \"x\\u0000y\", \"a\": \"p\\u0000q\"}");
    ck_assert_uint_eq(json_string_length(json_object_get(o, "a")), 3);
    ck_assert_mem_eq(json_string_value(json_object_get(o, "a")), "p\0q", 3);
    json_decref(o);
}
END_TEST

/* A request with two prompts has no right answer. */
START_TEST(test_doubled_keys_of_requests_are_refused)
{
    static const char text[] = "{\"a\": {\"b\": 1, \"b\": 2}}";
    json_t *o = NULL;
    ck_assert_int_eq(lh_json_parse_line(&o, "line 3 of 'x.jsonl'", text, sizeof text - 1), LH_EINPUT);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "line 3 of 'x.jsonl'"));
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "duplicate object key"));
    ck_assert_int_eq(lh_json_parse_asked(&o, "m", text, sizeof text - 1), LH_EINPUT);
}
END_TEST

START_TEST(test_what_is_no_utf8_is_replaced_and_the_rest_is_kept)
{
    static const struct {
        const char *text, *want;
    } cases[] = {{"plain \xc3\xa9 \xf0\x9f\x98\x80", "plain \xc3\xa9 \xf0\x9f\x98\x80"},
                 {"a\xff\xfe", "a\xef\xbf\xbd\xef\xbf\xbd"},
                 {"\xf0\x9f\x98", "\xef\xbf\xbd"}, /* a torn character is one */
                 {"\xf0\x9f\x98z", "\xef\xbf\xbdz"},
                 {"\xe0\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* overlong */
                 {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* a surrogate */
                 {"\xc3(\xc3\xa9", "\xef\xbf\xbd(\xc3\xa9"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *value = lh_json_text(cases[i].text, (int64_t)strlen(cases[i].text));
        ck_assert_str_eq(json_string_value(value), cases[i].want);
        json_decref(value);
    }
    json_t *value = lh_json_text("x\0\xff", 3);
    ck_assert_uint_eq(json_string_length(value), 5);
    json_decref(value);
}
END_TEST

START_TEST(test_plain_json_controls_no_terminal_and_means_the_same)
{
    static const struct {
        const char *text, *want;
    } cases[] = {{"[\"a\x7f\"]", "[\"a\\u007f\"]"},
                 {"\"\xc2\x80\xc2\x9b\xc2\xa0\"", "\"\\u0080\\u009b\xc2\xa0\""},
                 {"{\"\xc3\xa9\": 1}", "{\"\xc3\xa9\": 1}"},
                 {"\"\x9b\"", "\"\\ufffd\""},
                 {"", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_buf out = {0};
        ck_assert_int_eq(lh_json_put_plain(&out, cases[i].text, (int64_t)strlen(cases[i].text)), LH_OK);
        ck_assert_str_eq(out.data ? out.data : "", cases[i].want);
        lh_buf_clear(&out);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_damaged_text_is_located,
                                  test_nesting_without_end_is_refused,
                                  test_members_are_typed_and_bounded,
                                  test_absent_and_null_members_keep_the_default,
                                  test_nul_inside_strings_and_doubled_keys_are_allowed,
                                  test_doubled_keys_of_requests_are_refused,
                                  test_plain_json_controls_no_terminal_and_means_the_same,
                                  test_what_is_no_utf8_is_replaced_and_the_rest_is_kept,
                                  NULL};
    return suite_run("json", tests);
}
