/* Random blocks of every format: their values have the mean and the standard deviation of the tensor, and a part of
 * them is the same whichever call draws it. */
#include "import/random_weights.h"

#include <check.h>
#include <math.h>
#include <string.h>

#include "suite.h"

static const char *const kept[] = {"q8_0", "q6_K", "q5_K", "q5_1", "q5_0", "q4_K", "q4_1", "q4_0"};
enum { FORMATS = sizeof kept / sizeof *kept, ROWS = 64, COLS = 2048, BYTES = 2 * ROWS * COLS };

static void draw(uint8_t *dst, const lh_format *format, int64_t row, int64_t rows, int64_t col, int64_t cols)
{
    const lh_random_weight weight = {.stream = 77, .scale = 0.02f};
    const int64_t step = COLS / format->values;
    lh_random_blocks_draw(&(lh_random_blocks){.dst = dst,
                                              .format = format,
                                              .seed = 5,
                                              .first = row * step + col / format->values,
                                              .step = step,
                                              .rows = rows,
                                              .blocks = cols / format->values},
                          &weight);
}

/* 131,072 values, whose means differ over the 4,096 groups of q4_K and q5_K: the standard deviation within 3%, the mean
 * within 5% of it (four standard errors). */
static void check_size(const lh_format *format)
{
    static uint8_t blocks[BYTES];
    static float values[ROWS * COLS];
    double sum = 0, squares = 0;
    draw(blocks, format, 0, ROWS, 0, COLS);
    lh_format_to_f32(format, values, blocks, ROWS * COLS / format->values);
    for (int i = 0; i < ROWS * COLS; i++) {
        ck_assert(isfinite(values[i]));
        sum += values[i];
        squares += values[i] * values[i];
    }
    const double mean = sum / (ROWS * COLS), deviation = sqrt(squares / (ROWS * COLS));
    ck_assert_msg(fabs(deviation / 0.02 - 1) < 0.03, "%s: a standard deviation of %g", format->name, deviation);
    ck_assert_msg(fabs(mean) < 0.05 * 0.02, "%s: a mean of %g", format->name, mean);
}

static void check_part(const lh_format *format)
{
    static uint8_t all[BYTES], part[BYTES];
    const int64_t row_bytes = lh_format_bytes(format, COLS), n = lh_format_bytes(format, 768),
                  skipped = lh_format_bytes(format, 256);
    draw(all, format, 0, ROWS, 0, COLS);
    draw(part, format, 5, 9, 256, 768);
    for (int r = 0; r < 9; r++) ck_assert(memcmp(part + r * n, all + (5 + r) * row_bytes + skipped, (size_t)n) == 0);
    ck_assert(memcmp(all, all + row_bytes, (size_t)row_bytes) != 0);
}

START_TEST(test_values_have_the_size_of_the_tensor)
{
    for (int i = 0; i < FORMATS; i++) check_size(lh_format_named(kept[i]));
}
END_TEST

START_TEST(test_a_part_is_the_same_in_every_call)
{
    for (int i = 0; i < FORMATS; i++) check_part(lh_format_named(kept[i]));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_values_have_the_size_of_the_tensor, test_a_part_is_the_same_in_every_call, NULL};
    return suite_run("random weights", tests);
}
