/* Stop sequences: whatever pieces a text comes in, it ends where it would end as a whole, and nothing is final that a
 * stop text may begin in. */
#include <check.h>
#include <string.h>

#include "engine/stops.h"
#include "suite.h"

static const struct {
    const char *text, *stops[3], *kept;
} cases[] = {{"one two three", {"two"}, "one "},
             {"one two three", {"three", "two"}, "one "},
             {"aaab", {"aab"}, "a"},
             {"abababac", {"ababac"}, "ab"},
             {"one\n\nUser: two", {"\nUser:", "###"}, "one\n"},
             {"stop", {"stop"}, ""},
             {"rrr OIF", {"IF", "OIF"}, "rrr "},
             {"one tw", {"two"}, "one tw"},
             {"one", {""}, "one"},
             {"one", {NULL}, "one"}};

START_TEST(test_a_text_ends_before_its_stop_in_pieces_of_any_size)
{
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (size_t piece = 1; piece <= strlen(cases[c].text); piece++) {
            lh_buf text = {0};
            lh_stops stops = {cases[c].stops, 0};
            int64_t final = 0;
            int stopped = 0;
            while (stops.n < 3 && cases[c].stops[stops.n]) stops.n++;
            for (size_t at = 0; at < strlen(cases[c].text) && !stopped; at += piece) {
                const int64_t before = final;
                const size_t n = strnlen(cases[c].text + at, piece);
                ck_assert_int_eq(lh_buf_append(&text, cases[c].text + at, (int64_t)n), LH_OK);
                stopped = lh_stops_cut(&stops, &text, before, 0, &final);
                ck_assert(final >= before && final <= text.bytes);
                ck_assert_msg(final <= (int64_t)strlen(cases[c].kept), "'%s' was final", text.data);
            }
            ck_assert_str_eq(text.data, cases[c].kept);
            ck_assert_int_eq(stopped, strcmp(cases[c].kept, cases[c].text) != 0);
            if (stopped) ck_assert_int_eq(final, text.bytes);
            lh_buf_clear(&text);
        }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_a_text_ends_before_its_stop_in_pieces_of_any_size, NULL};
    return suite_run("stops", tests);
}
