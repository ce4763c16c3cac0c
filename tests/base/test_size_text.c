#include <check.h>

#include "base/size_text.h"
#include "suite.h"

START_TEST(test_sizes_have_the_unit_that_suits_them)
{
    static const struct {
        int64_t bytes;
        const char *text;
    } cases[] = {{0, "0 bytes"},
                 {1023, "1023 bytes"},
                 {1024, "1.0 KiB"},
                 {46080, "45.0 KiB"},
                 {271073280, "258.5 MiB"},
                 {INT64_C(20550467584), "19.14 GiB"},
                 {INT64_C(1) << 50, "1048576.00 GiB"}};
    char text[LH_SIZE_TEXT];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_str_eq(lh_size_text(text, cases[i].bytes), cases[i].text);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_sizes_have_the_unit_that_suits_them, NULL};
    return suite_run("size text", tests);
}
