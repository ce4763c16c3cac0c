/* Packed weights of few bits: the values of their source, to the bit, in about as many bytes. */
#include <string.h>

#include "cases.h"
#include "kernels/packed.h"
#include "packed_case.h"

enum { FORMAT, ROWS, COLS, FIRST, SKIP, TYPE };
static const dimension kinds[] = {
    [FORMAT] = {"format",
                11,
                {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
                {"q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_K", "q5_K", "q6_K", "iq4_nl", "iq4_xs", "f8_e4m3"}},
    [ROWS] = {"rows", 5, {1, 15, 16, 33, 70}},
    [COLS] = {"columns", 5, {32, 64, 224, 512, 992}},
    [FIRST] = {"first column", 4, {0, 0, 32, 288}},
    [SKIP] = {"columns that are not packed", 3, {0, 32, 160}},
    [TYPE] = {"type", 2, {LH_F32, LH_BF16}, {"f32", "bf16"}},
};
enum { CASES = 80 };

static int64_t kind(int which, int n)
{
    return case_value(&kinds[which], n);
}

START_TEST(test_values_are_those_of_the_source)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < CASES; n += rig_step(&g)) {
            lot m = {0};
            const lh_format *format = packed_format((int)kind(FORMAT, n));
            const lh_dtype type = (lh_dtype)kind(TYPE, n);
            const int64_t rows = kind(ROWS, n), cols = kind(COLS, n), first = kind(FIRST, n), skip = kind(SKIP, n);
            const int64_t source_cols = (skip + first + cols + 64 + 255) / 256 * 256; /* some follow */
            const int64_t ld = cols + n % 3, size = lh_dtype_bytes(type);
            const source_blocks source = blocks_make(&m, format, rows, source_cols, 700 + (uint64_t)n);
            const float *values = blocks_values(&m, &source);
            char *want = lot_new(&m, rows * ld * size), *got = lot_new(&m, rows * ld * size);
            void *dst = rig_new(&g, rows * ld * size);
            memset(want, 255, (size_t)(rows * ld * size));
            for (int64_t r = 0; r < rows; r++)
                lh_dtype_convert(want + r * ld * size, type, values + r * source_cols + skip + first, LH_F32, cols);
            RUN(&g, unpack, .dst = dst, .dst_type = type,
                .w = lh_matrix_from(blocks_pack(&g, &source, skip, first + cols + 64), first), .rows = rows,
                .cols = cols, .dst_ld = ld);
            rig_get(&g, got, dst, rows * ld * size);
            check_same(got, want, rows * ld * size, "unpack, %s", g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_packed_weights_have_the_bytes_of_their_source)
{
    const int64_t shapes[][2] = {{1536, 576}, {576, 1536}, {14336, 4096}, {4096, 14336}, {1024, 3072}, {49152, 576}};
    for (int f = 0; packed_format(f); f++) {
        for (int s = 0; s < (int)(sizeof shapes / sizeof *shapes); s++) {
            const int64_t rows = shapes[s][0], cols = shapes[s][1];
            if (cols % packed_format(f)->values) continue;
            const double source = (double)(rows * lh_format_bytes(packed_format(f), cols));
            const double packed = (double)lh_packed_bytes(packed_format(f), rows, 0, cols);
            ck_assert_msg(packed <= 1.03 * source, "%s: %g bytes instead of %g", packed_format(f)->name, packed,
                          source);
        }
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_values_are_those_of_the_source,
                                  test_packed_weights_have_the_bytes_of_their_source, NULL};
    return rig_run("kernels/unpack", tests);
}
