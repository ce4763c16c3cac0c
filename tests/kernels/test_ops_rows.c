#include <math.h>
#include <string.h>

#include "cases.h"
#include "rig.h"

enum { TOKENS, WIDTH, PAD, Y_PAD, SCALE, TABLE, GATE_DIM };                      /* of several operations */
enum { NORM_DIM = GATE_DIM + 1, NORM_HEADS, SPREAD, OFFSET, ADDEND, SUM, ADDS }; /* of rmsnorm */
enum { FROM = ADDS + 1, TO, COLS };                                              /* of convert */
enum { HEAD_DIM = COLS + 1, ROTARY, HEADS, GATE, FIRST_ROWS, NEW_ROWS, FIRST, PIECE, ROPE_SCALE };
static const dimension kinds[] = {
    [TOKENS] = {"tokens", 7, {0, 1, 2, 3, 4, 5, 6}},
    [WIDTH] = {"width", 12, {0, 1, 6, 9, 16, 20, 31, 32, 64, 75, 93, 116}},
    [PAD] = {"padding of x", 5, {0, 1, 2, 3, 4}},
    [Y_PAD] = {"padding of y", 7, {0, 1, 2, 3, 4, 5, 6}},
    [SCALE] = {"hundredths of the scale", 3, {3394, 100, 100}},
    [TABLE] = {"type of the table", 2, {LH_F32, LH_BF16}, {"f32", "bf16"}},
    [GATE_DIM] = {"width of gates", 12, {0, 1, 6, 9, 16, 31, 32, 64, 75, 116, 2060, 4144}},
    [NORM_DIM] = {"dim", 8, {1, 3, 64, 96, 576, 2049, 2304, 8208}},
    [NORM_HEADS] = {"heads", 3, {1, 2, 3}},
    [SPREAD] = {"spread", 2, {300, 1}},
    [OFFSET] = {"offset", 3, {1, 0, 0}},
    [ADDEND] = {"addend", 4, {-1, -1, LH_F32, LH_BF16}, {"none", "none", "f32", "bf16"}},
    [SUM] = {"sum", 2, {0, 1}, {"elsewhere", "in x"}},
    [ADDS] = {"added to y", 3, {0, 0, 1}},
    [FROM] = {"from", 2, {LH_F32, LH_BF16}, {"f32", "bf16"}},
    [TO] = {"to", 2, {LH_F32, LH_BF16}, {"f32", "bf16"}},
    [COLS] = {"columns", 12, {0, 1, 2, 7, 8, 15, 17, 31, 37, 49, 56, 59}},
    [HEAD_DIM] = {"head_dim", 8, {2, 4, 20, 64, 80, 96, 128, 256}},
    [ROTARY] = {"rotary", 3, {2, 1, 1}, {"half", "all", "all"}},
    [HEADS] = {"query heads", 10, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
    [GATE] = {"gate", 3, {LH_GATE_SILU, LH_GATE_GELU_TANH, LH_GATE_GELU}, {"silu", "gelu_tanh", "gelu"}},
    [FIRST_ROWS] = {"first rows", 4, {0, 1, 2, 3}},
    [NEW_ROWS] = {"newest rows", 7, {1, 2, 3, 4, 5, 6, 7}},
    [FIRST] = {"first position", 5, {0, 3, 6, 9, 12}},
    [PIECE] = {"rows at once", 11, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
    [ROPE_SCALE] = {"hundredths of the scale of rotations", 4, {119, 100, 100, 100}},
};

static int64_t kind(int which, int n)
{
    return case_value(&kinds[which], n);
}

/* Numbers called "numpy" were computed in f64 by numpy from the formulas. A correctly rounded f32 is within 6e-8 of
 * them in relative terms; vectorised functions may take a few units of the last place more. */
static const tolerance few_ulp = {1e-6, 1e-7};

/* Two backends may round a bf16 result to neighbours: one unit of the last place is at most 2^-7 of it. */
static const tolerance bf16_ulp = {0x1p-7, 1e-7};

START_TEST(test_embed_looks_up_own_rows_and_gives_zero_for_others)
{
    const int32_t ids[] = {3, 10, 6, 2, 7, 3, 0};
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 24; n++) {
            lot m = {0};
            int64_t dim = kind(WIDTH, n), rows = 4, first = 3, tokens = n == 5 ? 0 : 7;
            lh_dtype type = (lh_dtype)kind(TABLE, n);
            float scale = (float)kind(SCALE, n) / 100, *table = lot_normals(&m, rows * dim, 1.0f, 1);
            const uint16_t *table16 = lot_bf16(&m, table, rows * dim);
            float *want = lot_new(&m, tokens * dim * 4), *got = lot_new(&m, tokens * dim * 4);
            float *y = rig_new(&g, tokens * dim * 4);
            for (int64_t t = 0; t < tokens; t++) {
                for (int64_t i = 0; i < dim && ids[t] >= 3 && ids[t] < 7; i++) {
                    int64_t at = (ids[t] - first) * dim + i;
                    want[t * dim + i] = scale * (type == LH_BF16 ? lh_bf16_to_f32(table16[at]) : table[at]);
                }
            }
            RUN(&g, embed, .y = y,
                .table = lh_plain_matrix(type == LH_BF16 ? rig_put(&g, table16, rows * dim * 2)
                                                         : rig_put(&g, table, rows * dim * 4),
                                         type, dim),
                .ids = rig_put(&g, ids, sizeof ids), .tokens = tokens, .dim = dim, .first = first, .rows = rows,
                .scale = scale);
            rig_get(&g, got, y, tokens * dim * 4);
            check_near(got, want, tokens * dim, (tolerance){0, 0}, "embed, %s", g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_rmsnorm_gives_the_numbers_of_numpy)
{
    const float x[8] = {1, -2, 3, 0.5f, 0.1f, 0.2f, -0.3f, 0.4f}, w[4] = {1, 0.5f, -2, 3};
    const float plain[8] = {0.529812199f, -0.529812199f, -3.1788732f, 0.794718299f,
                            0.365124031f, 0.365124031f,  2.19074419f, 4.38148837f};
    const float offset[8] = {1.0596244f,   -1.5894366f, -1.5894366f, 1.0596244f,
                             0.730248062f, 1.09537209f, 1.09537209f, 5.84198449f};
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int kind = 0; kind < 4; kind++) { /* as two rows, or as two heads of a row; in place */
            float got[8], *y = rig_put(&g, x, sizeof x);
            RUN(&g, rmsnorm, .y = y, .y_type = LH_F32, .x = y, .w = rig_put(&g, w, sizeof w),
                .tokens = kind & 1 ? 1 : 2, .heads = kind & 1 ? 2 : 1, .dim = 4, .x_ld = kind & 1 ? 8 : 4,
                .y_ld = kind & 1 ? 8 : 4, .eps = 1e-5f, .offset = kind & 2 ? 1.0f : 0.0f);
            rig_get(&g, got, y, sizeof got);
            check_near(got, kind & 2 ? offset : plain, 8, few_ulp, "rmsnorm, %s", g.ops->name);
            rig_reset(&g);
        }
        rig_close(&g);
    }
}
END_TEST

/* A norm of whole rows, and of their heads on two ranks that know the squares of all. */
static void norm_in_parts(lot *m, rig *g, int n, float *whole, float *parts)
{
    int64_t dim = 1 + kind(WIDTH, n), heads = 2 + kind(NORM_HEADS, n), width = heads * dim, tokens = 3, cut = 1 + n % 2;
    int64_t ld = heads + kind(PAD, n);
    const float *x = lot_normals(m, tokens * width, 2.0f, 1), *w = lot_normals(m, width, 1.0f, 2);
    float *on = rig_put(g, x, tokens * width * 4), *weights = rig_put(g, w, width * 4);
    float *y = rig_new(g, tokens * width * 4), *squares = rig_new(g, tokens * ld * 4);
    lh_rmsnorm_args rows = {.y = y,
                            .y_type = LH_F32,
                            .x = on,
                            .w = weights,
                            .tokens = tokens,
                            .heads = 1,
                            .dim = width,
                            .x_ld = width,
                            .y_ld = width,
                            .eps = 1e-5f,
                            .offset = (float)kind(OFFSET, n)};
    ck_assert_int_eq(g->ops->rmsnorm(g->stream, &rows), LH_OK);
    rig_get(g, whole, y, tokens * width * 4);
    for (int64_t at = 0; at < heads; at = at ? heads : cut)
        RUN(g, squares, .y = squares + at, .x = on + at * dim, .tokens = tokens, .heads = at ? heads - cut : cut,
            .dim = dim, .x_ld = width, .y_ld = ld);
    for (int64_t at = 0; at < heads; at = at ? heads : cut)
        RUN(g, rmsnorm, .y = y + at * dim, .y_type = LH_F32, .x = on + at * dim, .w = weights + at * dim,
            .tokens = tokens, .heads = at ? heads - cut : cut, .dim = dim, .x_ld = width, .y_ld = width, .w_ld = dim,
            .eps = 1e-5f, .offset = rows.offset, .squares = squares, .parts = heads, .squares_ld = ld);
    rig_get(g, parts, y, tokens * width * 4);
    rig_reset(g);
}

START_TEST(test_a_norm_of_rows_on_several_ranks_is_that_of_whole_rows)
{
    enum { MOST = 3 * 5 * 117 };
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 60; n++) {
            lot m = {0};
            float whole[MOST] = {0}, parts[MOST] = {0};
            norm_in_parts(&m, &g, n, whole, parts);
            check_near(parts, whole, MOST, (tolerance){4e-6, 1e-7}, "rmsnorm in parts, %s", g.ops->name);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* Numbers of rows, f32 or rounded to bf16, on the device. */
static void *put_numbers(lot *m, rig *g, const float *x, lh_dtype type, int64_t count)
{
    const void *numbers = type == LH_F32 ? (const void *)x : lot_bf16(m, x, count);
    return rig_put(g, numbers, count * lh_dtype_bytes(type));
}

/* Results of rmsnorm: y, [count], and x + addend, [sums]. */
typedef struct normed {
    void *y;
    float *sum;
    int64_t count, sums;
} normed;

static normed norm(lot *m, rig *g, int n, lh_dtype type)
{
    int64_t dim = kind(NORM_DIM, n), tokens = kind(TOKENS, n), heads = kind(NORM_HEADS, n);
    int64_t x_ld = heads * dim + kind(PAD, n), y_ld = heads * dim + kind(Y_PAD, n), numbers = tokens * x_ld;
    const int has_addend = kind(ADDEND, n) >= 0;
    const lh_dtype addend_type = has_addend ? (lh_dtype)kind(ADDEND, n) : LH_F32;
    normed out = {.count = tokens * y_ld, .sums = has_addend ? numbers : 0};
    const int64_t bytes = out.count * lh_dtype_bytes(type);
    const float *w = lot_normals(m, dim, 1.0f, 2), *addend = lot_normals(m, numbers, 1.0f, 3);
    float *x = rig_put(g, lot_normals(m, numbers, (float)kind(SPREAD, n), 1), numbers * 4),
          *sum = kind(SUM, n) ? x : rig_put(g, addend, numbers * 4);
    void *y = put_numbers(m, g, lot_normals(m, out.count, 1.0f, 4), type, out.count);
    RUN(g, rmsnorm, .y = y, .y_type = type, .x = x, .w = rig_put(g, w, dim * 4), .tokens = tokens, .heads = heads,
        .dim = dim, .x_ld = x_ld, .y_ld = y_ld, .eps = 1e-6f, .offset = (float)kind(OFFSET, n),
        .adds = (int)kind(ADDS, n), .addend = has_addend ? put_numbers(m, g, addend, addend_type, numbers) : NULL,
        .addend_type = addend_type, .sum = has_addend ? sum : NULL);
    rig_get(g, out.y = lot_new(m, bytes), y, bytes);
    rig_get(g, out.sum = lot_new(m, out.sums * 4), sum, out.sums * 4);
    rig_reset(g);
    return out;
}

/* The mean of squares in f32 over 2,049 elements: the terms are positive, so the relative error stays below a few units
 * of the last place in any blocked order; 4e-6 also allows one chain of 8 lanes. A result near 0 that was
 * added to y is the difference of two numbers, and one has this error. */
START_TEST(test_rmsnorm_of_every_backend_is_that_of_ref)
{
    for (int b = 1; rig_backend(b); b++) {
        rig ref, mine;
        rig_open(&ref, rig_backend(0));
        rig_open(&mine, rig_backend(b));
        for (int n = 0; n < 420; n++) {
            lot m = {0};
            const double near_0 = kind(ADDS, n) ? 3e-5 : 1e-7;
            normed want = norm(&m, &ref, n, LH_F32), got = norm(&m, &mine, n, LH_F32);
            check_near(got.y, want.y, got.count, (tolerance){4e-6, near_0}, "rmsnorm, %s", mine.ops->name);
            check_same(got.sum, want.sum, got.sums * 4, "sums of rmsnorm, %s", mine.ops->name);
            want = norm(&m, &ref, n, LH_BF16);
            got = norm(&m, &mine, n, LH_BF16);
            check_near_bf16(got.y, want.y, got.count, (tolerance){bf16_ulp.rel, near_0}, "rmsnorm to bf16, %s",
                            mine.ops->name);
            check_same(got.sum, want.sum, got.sums * 4, "sums of rmsnorm, %s", mine.ops->name);
            lot_end(&m);
        }
        rig_close(&ref);
        rig_close(&mine);
    }
}
END_TEST

/* All four ways, with the values where bf16 rounding is hard among them, odd widths and gaps. */
START_TEST(test_convert_rounds_as_the_base_does_and_leaves_the_gaps)
{
    const float hard[] = {0.0f,     -0.0f,  1.00390625f, 1.01171875f, 3.4e38f,
                          -3.4e38f, 1e-45f, 1e-40f,      INFINITY,    -INFINITY};
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 80; n++) {
            lot m = {0};
            lh_dtype from = (lh_dtype)kind(FROM, n), to = (lh_dtype)kind(TO, n);
            int64_t rows = kind(TOKENS, n), cols = kind(COLS, n), src_ld = cols + kind(PAD, n),
                    dst_ld = cols + kind(Y_PAD, n);
            int64_t src_size = lh_dtype_bytes(from), dst_size = lh_dtype_bytes(to);
            float *x = lot_normals(&m, rows * src_ld, 1.0f, 1);
            for (int64_t i = 0; i < rows * src_ld && i < 10; i++) x[i] = hard[i];
            const void *src = from == LH_BF16 ? (const void *)lot_bf16(&m, x, rows * src_ld) : x;
            char *want = lot_new(&m, rows * dst_ld * dst_size), *got = lot_new(&m, rows * dst_ld * dst_size);
            void *dst = rig_new(&g, rows * dst_ld * dst_size);
            rig_get(&g, want, dst, rows * dst_ld * dst_size);
            for (int64_t r = 0; r < rows; r++)
                lh_dtype_convert(want + r * dst_ld * dst_size, to, (const char *)src + r * src_ld * src_size, from,
                                 cols);
            RUN(&g, convert, .dst = dst, .src = rig_put(&g, src, rows * src_ld * src_size), .dst_type = to,
                .src_type = from, .rows = rows, .cols = cols, .dst_ld = dst_ld, .src_ld = src_ld);
            rig_get(&g, got, dst, rows * dst_ld * dst_size);
            check_same(got, want, rows * dst_ld * dst_size, "convert %s to %s, %s", lh_dtype_name(from),
                       lh_dtype_name(to), g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_rope_gives_the_numbers_of_numpy_and_leaves_the_rest_of_a_head)
{
    /* Sine, cosine and a product are rounded, and 3.25 * 0.75 - 3.75 * 0.66 cancels: 3e-8 * 7 + 1.2e-7 at most. */
    const tolerance rounded = {1e-6, 4e-7};
    const float want[18] = {0.25f,          0.5f,        0.75f,       1.0f,        1.25f, 1.5f,
                            -0.947780681f,  1.97490042f, 2.68825441f, 2.51987467f, 2.75f, 3.0f,
                            -0.0135174186f, 3.21165711f, 4.9623399f,  4.23500397f, 4.25f, 4.5f};
    const int32_t positions[3] = {0, 1, 7};
    const float inv_freq[2] = {1.0f, 0.01f};
    for (int b = 0; rig_backend(b); b++) {
        float x[18], got[18];
        rig g;
        rig_open(&g, rig_backend(b));
        for (int i = 0; i < 18; i++) x[i] = (float)(i + 1) / 4;
        float *on = rig_put(&g, x, sizeof x);
        RUN(&g, rope, .x = on, .positions = rig_put(&g, positions, sizeof positions),
            .inv_freq = rig_put(&g, inv_freq, sizeof inv_freq), .tokens = 3, .heads = 1, .dim = 6, .rotary = 4, .ld = 6,
            .scale = 1.0f);
        rig_get(&g, got, on, sizeof got);
        check_near(got, want, 18, rounded, "rope, %s", g.ops->name);
        rig_close(&g);
    }
}
END_TEST

/* ln(1 + 7 / 2) = ln 4: by hand. Positions below the first step keep their length, and the inverse takes it back. */
START_TEST(test_queries_are_scaled_by_the_logarithm_of_their_position)
{
    const int32_t positions[3] = {0, 1, 7};
    const double factors[3] = {1, 1, 1.6931471805599454}; /* 1 + 0.5 ln 4 */
    const float still[1] = {0};
    for (int b = 0; rig_backend(b); b++) {
        float x[6] = {1, 2, 3, 4, 5, 6}, got[6];
        lh_query_scaling scaling = {.beta = 0.5f, .positions = 2};
        rig g;
        rig_open(&g, rig_backend(b));
        float *on = rig_put(&g, x, sizeof x);
        for (int inverse = 0; inverse < 2; inverse++) {
            scaling.inverse = inverse;
            RUN(&g, rope, .x = on, .positions = rig_put(&g, positions, sizeof positions),
                .inv_freq = rig_put(&g, still, sizeof still), .tokens = 3, .heads = 1, .dim = 2, .rotary = 2, .ld = 2,
                .scale = 1.0f, .scaling = scaling);
            rig_get(&g, got, on, sizeof got);
            for (int i = 0; i < 6; i++)
                ck_assert_msg(fabs(got[i] - x[i] * (inverse ? 1 : factors[i / 2])) < 1e-6 * (i + 1), "%s: [%d] is %g",
                              g.ops->name, i, (double)got[i]);
        }
        rig_close(&g);
    }
}
END_TEST

static float *rotate(lot *m, rig *g, int n, int64_t *count)
{
    int64_t dim = kind(HEAD_DIM, n), rotary = kind(ROTARY, n) == 1 ? dim : dim / 4 * 2, tokens = kind(TOKENS, n);
    int64_t heads = kind(HEADS, n), ld = heads * dim + kind(PAD, n);
    static const lh_query_scaling scalings[4] = {
        {0}, {.beta = 0.1f, .positions = 16384}, {.beta = 0.3f, .positions = 7}, {0.3f, 7, .inverse = 1}};
    int32_t positions[7];
    float *inv_freq = lot_new(m, dim * 4), *got = lot_new(m, tokens * ld * 4);
    *count = tokens * ld;
    for (int t = 0; t < 7; t++) positions[t] = (int32_t)draw(9, (uint64_t)(n * 7 + t), t % 2 ? 64 : 1000000);
    for (int64_t i = 0; i < rotary / 2; i++) inv_freq[i] = (float)pow(10000.0, -2.0 * (double)i / (double)rotary);
    float *x = rig_put(g, lot_normals(m, *count, 1.0f, 1), *count * 4);
    RUN(g, rope, .x = x, .positions = rig_put(g, positions, sizeof positions),
        .inv_freq = rig_put(g, inv_freq, rotary / 2 * 4), .tokens = tokens, .heads = heads, .dim = dim,
        .rotary = rotary, .ld = ld, .scale = (float)kind(ROPE_SCALE, n) / 100, .scaling = scalings[n % 4]);
    rig_get(g, got, x, *count * 4);
    rig_reset(g);
    return got;
}

/* The angle is the same f32 number everywhere, up to a million radians: what is left is the sine's own rounding times
 * elements of up to 5. */
START_TEST(test_rope_of_every_backend_is_that_of_ref_at_far_positions)
{
    for (int b = 1; rig_backend(b); b++) {
        rig ref, mine;
        rig_open(&ref, rig_backend(0));
        rig_open(&mine, rig_backend(b));
        for (int n = 0; n < 560; n++) {
            int64_t count;
            lot m = {0};
            const float *want = rotate(&m, &ref, n, &count), *got = rotate(&m, &mine, n, &count);
            check_near(got, want, count, (tolerance){1e-6, 2e-6}, "rope, %s", mine.ops->name);
            lot_end(&m);
        }
        rig_close(&ref);
        rig_close(&mine);
    }
}
END_TEST

START_TEST(test_gates_give_the_numbers_of_numpy_and_do_not_overflow)
{
    const float gate[13] = {-8, -3, -1, -0.25f, 0, 0.5f, 1, 2.5f, 6, -1e4f, -1e30f, 1e4f, 1e30f};
    const float up[13] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const float want[][13] = {
        [LH_GATE_SILU] = {-0.00268280104f, -0.14227762f, -0.268941421f, -0.109455875f, 0.0f, 0.311229666f, 0.731058579f,
                          2.31035455f, 5.98516426f, 0, 0, 1e4f, 1e30f},
        [LH_GATE_GELU] = {-4.88498131e-15f, -0.00404969409f, -0.158655254f, -0.100323419f, 0.0f, 0.345731231f,
                          0.841344746f, 2.48447584f, 5.99999999f, 0, 0, 1e4f, 1e30f},
        [LH_GATE_GELU_TANH] = {0, -0.00363739208f, -0.158808009f, -0.100324649f, 0.0f, 0.34571401f, 0.841191991f,
                               2.48491573f, 6.0f, 0, 0, 1e4f, 1e30f}};
    for (int b = 0; rig_backend(b); b++) {
        for (int kind = LH_GATE_SILU; kind <= LH_GATE_GELU; kind++) {
            float got[13], *y;
            rig g;
            rig_open(&g, rig_backend(b));
            y = rig_new(&g, sizeof got);
            RUN(&g, gated, .y = y, .y_type = LH_F32, .gate = rig_put(&g, gate, sizeof gate),
                .up = rig_put(&g, up, sizeof up), .tokens = 1, .dim = 13, .y_ld = 13, .ld = 13,
                .gate_kind = (lh_gate)kind);
            rig_get(&g, got, y, sizeof got);
            /* 1 + tanh and 1 + erf cancel for negative gates: 3e-7 of the gate is what f32 leaves there. */
            check_near(got, want[kind], 13, (tolerance){1e-6, 1e-6}, "gate %d, %s", kind, g.ops->name);
            rig_close(&g);
        }
    }
}
END_TEST

static void *gate(lot *m, rig *g, int n, lh_dtype x_type, lh_dtype type, int64_t *count)
{
    int64_t tokens = kind(TOKENS, n), dim = kind(GATE_DIM, n), ld = dim + kind(PAD, n), y_ld = dim + kind(Y_PAD, n);
    int64_t bytes = tokens * y_ld * lh_dtype_bytes(type);
    const float *x = lot_normals(m, tokens * ld, 3.0f, 1), *up = lot_normals(m, tokens * ld, 1.0f, 2);
    void *y = rig_new(g, bytes), *host = lot_new(m, bytes);
    RUN(g, gated, .y = y, .y_type = type, .gate = put_numbers(m, g, x, x_type, tokens * ld),
        .up = put_numbers(m, g, up, x_type, tokens * ld), .x_type = x_type, .tokens = tokens, .dim = dim, .y_ld = y_ld,
        .ld = ld, .gate_kind = (lh_gate)kind(GATE, n));
    *count = tokens * y_ld;
    rig_get(g, host, y, bytes);
    rig_reset(g);
    return host;
}

START_TEST(test_gated_of_every_backend_is_that_of_ref)
{
    static const lh_dtype types[] = {LH_F32, LH_BF16};
    for (int b = 1; rig_backend(b); b++) {
        rig ref, mine;
        rig_open(&ref, rig_backend(0));
        rig_open(&mine, rig_backend(b));
        for (int n = 0; n < 400; n++) {
            int64_t count;
            lot m = {0};
            for (int x = 0; x < 2; x++) {
                const void *want = gate(&m, &ref, n, types[x], LH_F32, &count),
                           *got = gate(&m, &mine, n, types[x], LH_F32, &count);
                check_near(got, want, count, (tolerance){1e-6, 4e-6}, "gated, %s", mine.ops->name);
                want = gate(&m, &ref, n, types[x], LH_BF16, &count);
                got = gate(&m, &mine, n, types[x], LH_BF16, &count);
                check_near_bf16(got, want, count, (tolerance){0x1p-7, 4e-6}, "gated to bf16, %s", mine.ops->name);
            }
            lot_end(&m);
        }
        rig_close(&ref);
        rig_close(&mine);
    }
}
END_TEST

START_TEST(test_softcap_gives_the_numbers_of_numpy_and_never_passes_the_cap)
{
    const float x[9] = {-100, -30, -1, 0, 0.5f, 15, 60, 1e30f, -INFINITY};
    const float want[9] = {-29.923739f, -22.8478247f, -0.999629794f, 0.0f,  0.499953709f,
                           13.8635147f, 28.9208274f,  30.0f,         -30.0f};
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int64_t count = 0; count <= 300; count = 2 * count + 1) {
            lot m = {0};
            float *many = lot_normals(&m, count, 40.0f, 1), *got = lot_new(&m, count * 4), *on;
            for (int64_t i = 0; i < count && i < 9; i++) many[i] = x[i];
            on = rig_put(&g, many, count * 4);
            RUN(&g, softcap, .x = on, .count = count, .cap = 30.0f);
            rig_get(&g, got, on, count * 4);
            check_near(got, want, count < 9 ? count : 9, few_ulp, "softcap, %s", g.ops->name);
            for (int64_t i = 0; i < count; i++) {
                float right = (float)(30.0 * tanh((double)many[i] / 30.0));
                check_near(&got[i], &right, 1, few_ulp, "softcap of %g, %s", many[i], g.ops->name);
                ck_assert(fabsf(got[i]) <= 30.0f);
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* Rows that come in pieces, as prompts and steps do, leave the ring as if they had come one by one. */
START_TEST(test_put_rows_keeps_the_first_and_the_newest_rows)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 120; n++) {
            lot m = {0};
            int64_t head = kind(FIRST_ROWS, n), rows = head + kind(NEW_ROWS, n), width = kind(WIDTH, n);
            int64_t tokens = kind(PIECE, n), first = kind(FIRST, n), x_ld = width + kind(PAD, n);
            float *x = lot_normals(&m, tokens * x_ld, 1.0f, (uint64_t)n), *want = lot_new(&m, rows * width * 4);
            float *got = lot_new(&m, rows * width * 4), *on;
            int32_t *positions = lot_new(&m, tokens * 4);
            on = rig_put(&g, want, rows * width * 4);
            for (int64_t t = 0; t < tokens; t++) {
                int64_t p = first + t, at = p;
                while (at >= rows) at -= rows - head;
                positions[t] = (int32_t)p;
                memcpy(want + at * width, x + t * x_ld, (size_t)width * 4);
            }
            RUN(&g, put_rows, .ring = on, .x = rig_put(&g, x, tokens * x_ld * 4),
                .positions = rig_put(&g, positions, tokens * 4), .tokens = tokens, .rows = rows, .head = head,
                .width = width, .x_ld = x_ld);
            rig_get(&g, got, on, rows * width * 4);
            check_same(got, want, rows * width * 4, "put_rows, %s", g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* What is damaged must not look whole. */
START_TEST(test_caps_and_gates_of_what_is_not_a_number_are_none)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 4; n++) {
            float x[19], up[19], got[19], *on;
            for (int i = 0; i < 19; i++) x[i] = 0.5f, up[i] = 1.0f;
            uint32_t nan = n % 2 ? 0x7fc00000 : 0xffc00000;
            memcpy(&x[n * 5], &nan, sizeof nan);
            on = rig_put(&g, x, sizeof x);
            RUN(&g, softcap, .x = on, .count = 19, .cap = 30.0f);
            rig_get(&g, got, on, sizeof got);
            for (int i = 0; i < 19; i++) ck_assert_msg(isnan(got[i]) == (i == n * 5), "softcap, %s", g.ops->name);
            for (int kind = LH_GATE_SILU; kind <= LH_GATE_GELU; kind++) {
                on = rig_new(&g, sizeof got);
                RUN(&g, gated, .y = on, .y_type = LH_F32, .gate = rig_put(&g, x, sizeof x),
                    .up = rig_put(&g, up, sizeof up), .tokens = 1, .dim = 19, .y_ld = 19, .ld = 19,
                    .gate_kind = (lh_gate)kind);
                rig_get(&g, got, on, sizeof got);
                for (int i = 0; i < 19; i++)
                    ck_assert_msg(isnan(got[i]) == (i == n * 5), "gate %d, %s", kind, g.ops->name);
            }
            rig_reset(&g);
        }
        rig_close(&g);
    }
}
END_TEST

/* Any single number of many, and what was noted before stays. */
START_TEST(test_check_finite_finds_one_among_many)
{
    static const float values[] = {NAN, INFINITY, -INFINITY, 3e38f, -0.0f};
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 60; n++) {
            lot m = {0};
            const int64_t count = n % 6 ? 1 + draw(1, (uint64_t)n, 3000) : 0, pad = n % 4;
            const float value = values[n % 5];
            const int32_t before = n % 7 == 0;
            float *x = lot_normals(&m, pad + count, 1e3f, (uint64_t)n), *on;
            int32_t *wrong = rig_put(&g, &before, sizeof before), got;
            if (count) x[pad + draw(2, (uint64_t)n, count)] = value;
            on = rig_put(&g, x, (pad + count) * 4);
            RUN(&g, check_finite, .wrong = wrong, .x = on + pad, .count = count);
            rig_get(&g, &got, wrong, sizeof got);
            ck_assert_msg(got == (before || (count && !isfinite(value))), "check_finite: %d, %g among %d, %s", got,
                          (double)value, (int)count, g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_embed_looks_up_own_rows_and_gives_zero_for_others,
                                  test_rmsnorm_gives_the_numbers_of_numpy,
                                  test_rmsnorm_of_every_backend_is_that_of_ref,
                                  test_a_norm_of_rows_on_several_ranks_is_that_of_whole_rows,
                                  test_convert_rounds_as_the_base_does_and_leaves_the_gaps,
                                  test_rope_gives_the_numbers_of_numpy_and_leaves_the_rest_of_a_head,
                                  test_queries_are_scaled_by_the_logarithm_of_their_position,
                                  test_rope_of_every_backend_is_that_of_ref_at_far_positions,
                                  test_gates_give_the_numbers_of_numpy_and_do_not_overflow,
                                  test_gated_of_every_backend_is_that_of_ref,
                                  test_put_rows_keeps_the_first_and_the_newest_rows,
                                  test_softcap_gives_the_numbers_of_numpy_and_never_passes_the_cap,
                                  test_caps_and_gates_of_what_is_not_a_number_are_none,
                                  test_check_finite_finds_one_among_many,
                                  NULL};
    return rig_run("kernels/rows", tests);
}
