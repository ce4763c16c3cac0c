#include <math.h>
#include <string.h>

#include "attend_case.h"
#include "cases.h"
#include "kernels/ragged.h"

/* A weight is off by at most 1e-5 of itself (see test_ops_attention.c), and so is a sum of weights, which are positive;
 * a square by twice as much. Queries are exact in bf16 where they may be rounded. */
static const tolerance near_f32 = {6e-5, 1e-6};

/* ref adds in f64, but lse comes as f32: exp of a rounded lse of up to 16 is off by 1e-6 of itself. */
static const tolerance near_f64 = {4e-6, 1e-7};

/* Log-sum-exps up to about 30, of logits that are off by a few 1e-6. */
static const tolerance near_lse = {2e-6, 1e-5};
/* Of queries that attention rounds to bf16, as ops.h allows: a logit of one dimension is off by 2^-9 of itself. */
static const tolerance near_rounded = {2e-3, 2e-2};

/* The rows (attend_case.c adds types, masks and orders), and what is asked of them. */
enum {
    GROUP,
    KV_HEADS,
    HEAD_DIM,
    ROWS,
    PAST,
    FIRST_HEAD,
    NO_MASS,
    RANGE,
    PARTS,
    PLACE,
    WANTED,
    SHARD,
    SHARD_FIRST,
    SQUARES
};
enum { RANGE_ALL, RANGE_TO, RANGE_FROM };
static const dimension kinds[] = {
    [GROUP] = {"group", 8, {1, 2, 3, 4, 5, 6, 7, 8}},
    [KV_HEADS] = {"KV heads", 3, {1, 2, 3}},
    [HEAD_DIM] = {"head_dim", 10, {40, 64, 80, 96, 128, 256, 1, 3, 20, 64}},
    [ROWS] = {"rows", 8, {32, 1, 2, 8, 33, 129, 15, 0}},
    [PAST] = {"past", 12, {0, 1, 11, 22, 40, 63, 64, 77, 99, 121, 143, 159}},
    [FIRST_HEAD] = {"first KV head", 2, {0, 1}},
    [NO_MASS] = {"rows without mass", 6, {1, 0, 0, 0, 0, 0}, {"every fifth", "none", "none", "none", "none", "none"}},
    [RANGE] = {"columns", 4, {RANGE_ALL, RANGE_ALL, RANGE_TO, RANGE_FROM}, {"all", "all", "up to one", "from one on"}},
    [PARTS] = {"parts", 3, {1, 1, 0}, {"joined", "joined", "of each query head"}},
    [PLACE] = {"place", 2, {COLUMNS_ROWS, COLUMNS_STATS}, {"rows", "statistics"}},
    [WANTED] = {"wanted", 12, {WANT_ALL, WANT_ALL, WANT_ALL, WANT_ALL, WANT_ALL, 1, 2, 3, 4, 5, 6, 8}},
    [SHARD] = {"heads of a shard", 12, {0, 0, 0, 0, 0, 0, 0, 1, 3, 5, 6, 11}}, /* 0: whole groups */
    [SHARD_FIRST] = {"first head of a shard", 4, {0, 1, 2, 3}},
    [SQUARES] = {"squares", 3, {0, 0, 1}, {"of the mean", "of the mean", "of each query head"}},
};
enum { LONG_EVERY = 97, LONG_AT = 52, LONG_PAST = 1500, LONG_PAST_OF_ONE = 2200 }; /* of many tiles, few rows */

static int64_t kind(int which, int n)
{
    return case_value(&kinds[which], n);
}

static attend_size size_at(int n)
{
    int is_long = n % LONG_EVERY == LONG_AT;
    int64_t group = kind(GROUP, n), dim = kind(HEAD_DIM, n), rows = kind(ROWS, n);
    int64_t most = is_long ? 8 : dim > 100 ? 33 : 129;
    return (attend_size){.dim = dim,
                         .tokens = rows < most ? rows : most,
                         .past = is_long ? LONG_PAST : kind(PAST, n),
                         .map = {kind(KV_HEADS, n) * group, group, kind(FIRST_HEAD, n) * group},
                         .variant = n};
}

/* What is asked of rows with these log-sum-exps. */
static columns_spec spec_of(const attend_case *c, const float *lse, int n)
{
    int64_t most = longest_head(c), range = kind(RANGE, n);
    int64_t first = range == RANGE_FROM ? draw(3, (uint64_t)n, most + 3) : 0, rest = most + 2 - first;
    if (range == RANGE_TO) rest = draw(4, (uint64_t)n, most + 5);
    const int each_head = kind(SQUARES, n) != 0;
    return (columns_spec){.lse = lse,
                          .first = first,
                          .cols = rest > 0 ? rest : 0,
                          .parts = kind(PARTS, n) || each_head ? 1 : c->map.group,
                          .place = (columns_place)kind(PLACE, n),
                          .wanted = (int)kind(WANTED, n) & ~(each_head ? WANT_COUNTS : 0),
                          .each_head = each_head};
}

/* Rows, their lse by ref (a few are made -inf: rows that add nothing), and what is asked for. */
static columns_spec spec_make(lot *m, rig *ref, attend_case *c, int n)
{
    attend_size size = size_at(n);
    observed_make(m, c, &size);
    float *lse = row_lse_run(m, ref, c);
    for (int64_t r = 0; r < c->tokens && kind(NO_MASS, n); r += 5)
        for (int64_t i = 0; i < c->map.heads; i++) lse[r * c->map.heads + i] = -INFINITY;
    return spec_of(c, lse, n);
}

/* What one KV head receives, by the formula: [slots] of each query head, squares, counts and maxima of the mean, or
 * squares and maxima of each head. Counts
 * are a range: a weight that is as good as equal to the mean may be on either side. */
typedef struct formula {
    double *sums; /* [group, slots] */
    double *squares, *counts, *unsure, *largest;
} formula;

static formula formula_of(lot *m, const attend_case *c, const columns_spec *spec, int64_t h)
{
    int64_t slots = c->kv[0].slots + 1, group = c->map.group, i0 = h * group - c->map.first;
    formula f = {.sums = lot_new(m, group * slots * 8),
                 .squares = lot_new(m, slots * 8),
                 .counts = lot_new(m, slots * 8),
                 .unsure = lot_new(m, slots * 8),
                 .largest = lot_new(m, slots * 8)};
    double *w = lot_new(m, slots * 8), *mean = lot_new(m, slots * 8);
    for (int64_t r = 0; r < c->tokens; r++) {
        double n = 0;
        memset(mean, 0, (size_t)slots * 8);
        for (int64_t i = 0; i < group; i++) {
            row_weights(c, &c->kv[0], r, i0 + i, w);
            for (int64_t j = 0; j < c->kv[0].host.len[h]; j++) {
                if (i == 0) n += w[j] > 0;
                if (spec->lse[r * c->map.heads + i0 + i] == -INFINITY) w[j] = 0;
                f.sums[i * slots + j] += w[j];
                mean[j] += w[j] / (double)group;
                if (!spec->each_head) continue;
                f.squares[j] += w[j] * w[j];
                f.largest[j] = fmax(f.largest[j], w[j]);
            }
        }
        for (int64_t j = 0; j < c->kv[0].host.len[h]; j++) {
            if (!spec->each_head) f.squares[j] += mean[j] * mean[j];
            if (!spec->each_head) f.largest[j] = fmax(f.largest[j], mean[j]);
            if (n > 1 && fabs(mean[j] * n - 1) < 1e-4)
                f.unsure[j]++;
            else
                f.counts[j] += n > 1 && mean[j] * n > 1;
        }
    }
    return f;
}

static void check_number(const lh_slot_floats *x, const int64_t at[3], double want, tolerance tol, const char *what)
{
    float wanted = (float)want;
    if (x->at) check_near(lh_slot_at(x, at[0], at[1], at[2]), &wanted, 1, tol, "%s", what);
}

/* What the slots of the range got; the others have what was there, which is 0. */
static void check_formula(const attend_case *c, const columns_spec *spec, const columns *got, tolerance tol)
{
    for (int64_t h = c->map.first / c->map.group; h < (c->map.first + c->map.heads) / c->map.group; h++) {
        lot m = {0};
        formula f = formula_of(&m, c, spec, h);
        int64_t slots = c->kv[0].slots + 1;
        for (int64_t j = 0; j < c->kv[0].host.len[h]; j++) {
            int inside = j >= spec->first && j < spec->first + spec->cols;
            double all = 0;
            for (int64_t i = 0; i < c->map.group; i++) {
                double sum = inside ? f.sums[i * slots + j] : 0;
                all += sum;
                if (spec->parts > 1) check_number(&got->sums, (const int64_t[]){h, j, i}, sum, tol, "sums of a head");
            }
            const int64_t at[3] = {h, j, 0};
            if (spec->parts == 1) check_number(&got->sums, at, all / (double)c->map.group, tol, "sums");
            check_number(&got->squares, at, inside ? f.squares[j] : 0, tol, "squares");
            check_number(&got->largest, at, inside ? f.largest[j] : 0, tol, "largest");
            double between = inside ? f.counts[j] + f.unsure[j] / 2 : 0;
            check_number(&got->counts, at, between, (tolerance){0, inside ? f.unsure[j] / 2 : 0}, "counts");
        }
        lot_end(&m);
    }
}

START_TEST(test_every_backend_adds_what_the_formula_says)
{
    rig ref, g;
    rig_open(&ref, rig_backend(0));
    for (int b = 0; rig_backend(b); b++) {
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < (b ? 300 : 100); n += rig_step(&g)) {
            lot m = {0};
            attend_case c;
            columns_spec spec = spec_make(&m, &ref, &c, n);
            columns got = columns_run(&m, &g, &c, &spec, NULL);
            check_formula(&c, &spec, &got, b ? near_f32 : near_f64);
            lot_end(&m);
        }
        rig_close(&g);
    }
    rig_close(&ref);
}
END_TEST

/* 1 if number i of what was asked for is a maximum. */
static int is_largest(const columns *c, const columns_spec *spec, int64_t i)
{
    const lh_slot_floats *x = &c->largest;
    return (spec->place == COLUMNS_STATS ? i % x->step : i % x->ld / x->next) == spec->parts + 2;
}

/* Slots outside of the range, after the end of a head and of no head of the map keep their bits, and so do all where
 * nothing is added. */
START_TEST(test_what_is_not_asked_for_is_left_alone)
{
    rig ref, g;
    rig_open(&ref, rig_backend(0));
    for (int b = 0; rig_backend(b); b++) {
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 100; n += rig_step(&g)) {
            lot m = {0};
            attend_case c;
            columns_spec spec = spec_make(&m, &ref, &c, n);
            columns zero = columns_run(&m, &g, &c, &spec, NULL), before = zero;
            before.numbers = lot_copy(&m, zero.numbers, zero.count * 4);
            for (int64_t i = 0; i < zero.count; i++) before.numbers[i] = (float)i + 0.25f;
            columns got = columns_run(&m, &g, &c, &spec, &before);
            for (int64_t i = 0; i < zero.count; i++) {
                float want = is_largest(&zero, &spec, i) ? fmaxf(before.numbers[i], zero.numbers[i])
                                                         : before.numbers[i] + zero.numbers[i];
                check_near(&got.numbers[i], &want, 1, (tolerance){zero.numbers[i] == 0 ? 0 : 1e-6, 0},
                           "number %d, case %d, %s", (int)i, n, g.ops->name);
            }
            lot_end(&m);
        }
        rig_close(&g);
    }
    rig_close(&ref);
}
END_TEST

/* Rows [0, n) and the others in a call of their own. */
static columns run_in_two(lot *m, rig *g, const attend_case *c, const columns_spec *spec, int64_t n)
{
    attend_case first = *c, rest = *c;
    columns_spec later = *spec;
    first.tokens = n;
    rest.tokens -= n;
    rest.q += n * c->q_ld;
    rest.positions += n;
    if (rest.until) rest.until += n;
    if (rest.gains) rest.gains += n;
    later.lse += n * c->map.heads;
    columns half = columns_run(m, g, &first, spec, NULL);
    return columns_run(m, g, &rest, &later, &half);
}

START_TEST(test_rows_may_be_added_in_several_calls)
{
    rig ref, g;
    rig_open(&ref, rig_backend(0));
    for (int b = 0; rig_backend(b); b++) {
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 100; n += rig_step(&g)) {
            lot m = {0};
            attend_case c;
            columns_spec spec = spec_make(&m, &ref, &c, n);
            columns once = columns_run(&m, &g, &c, &spec, NULL);
            columns twice = run_in_two(&m, &g, &c, &spec, draw(5, (uint64_t)n, c.tokens + 1));
            check_near(twice.numbers, once.numbers, once.count, (tolerance){2e-6, 1e-7}, "case %d, %s", n, g.ops->name);
            lot_end(&m);
        }
        rig_close(&g);
    }
    rig_close(&ref);
}
END_TEST

/* Every row has a mass of one, so all columns together hold as many as there are rows that see something. */
START_TEST(test_the_columns_of_a_head_hold_the_mass_of_its_rows)
{
    rig g;
    for (int b = 0; rig_backend(b); b++) {
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 80; n += rig_step(&g)) {
            lot m = {0};
            attend_case c;
            attend_size size = size_at(n);
            observed_make(&m, &c, &size);
            columns_spec spec = {.lse = row_lse_run(&m, &g, &c), .cols = longest_head(&c), .parts = 1, .wanted = 1};
            columns got = columns_run(&m, &g, &c, &spec, NULL);
            for (int64_t h = c.map.first / c.map.group; h < c.kv[0].host.heads; h++) {
                double mass = 0, rows = 0;
                for (int64_t j = 0; j < c.kv[0].host.len[h]; j++) mass += *lh_slot_at(&got.sums, h, j, 0);
                for (int64_t r = 0; r < c.tokens; r++)
                    rows += spec.lse[r * c.map.heads + h * c.map.group - c.map.first] > -INFINITY;
                ck_assert_msg(fabs(mass - rows) <= 3e-5 * rows, "%s, case %d: %g rows have a mass of %g", g.ops->name,
                              n, rows, mass);
            }
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* A row at position 0 gives its only entry the whole weight, which is not above 1 / 1; a row of a uniform weight counts
 * none either, up to rounding, and one that has a favourite counts that. */
START_TEST(test_a_row_that_sees_one_entry_counts_none)
{
    rig g;
    for (int b = 0; rig_backend(b); b++) {
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 60; n++) {
            lot m = {0};
            attend_case c;
            attend_size size = {64, 5, 0, {3, 3, 0}, 4 * n};
            observed_make(&m, &c, &size);
            c.logit.window = 1;
            for (int64_t h = 0; h < c.kv[0].host.heads; h++) c.kv[0].host.len[h] = 5;
            c.until = NULL;
            columns_spec spec = {.lse = row_lse_run(&m, &g, &c), .cols = 5, .parts = 1, .wanted = WANT_ALL};
            columns got = columns_run(&m, &g, &c, &spec, NULL);
            for (int64_t j = 0; j < 5; j++) {
                check_number(&got.sums, (const int64_t[]){0, j, 0}, 1, near_f32, "the only entry of a row");
                check_number(&got.counts, (const int64_t[]){0, j, 0}, 0, (tolerance){0, 0}, "count of a lone entry");
            }
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_lse_of_rows_is_that_of_the_formula)
{
    rig g;
    for (int b = 0; rig_backend(b); b++) {
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < (b ? 240 : 80); n += rig_step(&g)) {
            lot m = {0};
            attend_case c;
            attend_size size = size_at(n);
            if (kind(SHARD, n)) size.map.heads = kind(SHARD, n), size.map.first = kind(SHARD_FIRST, n);
            observed_make(&m, &c, &size);
            const float *got = row_lse_run(&m, &g, &c);
            double *w = lot_new(&m, c.kv[0].slots * 8 + 8);
            for (int64_t r = 0; r < c.tokens; r++) {
                for (int64_t i = 0; i < c.map.heads; i++) {
                    float want = (float)row_weights(&c, &c.kv[0], r, i, w);
                    check_near(&got[r * c.map.heads + i], &want, 1, near_lse, "lse, case %d, %s", n, g.ops->name);
                }
            }
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* Rows without gains that see what is before them have the log-sum-exp that attention itself gives. */
START_TEST(test_lse_of_rows_is_that_of_attention)
{
    rig g;
    for (int b = 0; rig_backend(b); b++) {
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 60; n++) {
            lot m = {0};
            attend_case c;
            attend_size size = size_at(n);
            block_make(&m, &c, &size);
            attended want = block_run(&m, &g, &c);
            int rounds = strcmp(g.ops->name, "cuda") == 0 && c.kv[0].host.type == LH_BF16;
            check_near(row_lse_run(&m, &g, &c), want.lse, want.lse_count, rounds ? near_rounded : near_lse,
                       "lse, case %d, %s", n, g.ops->name);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* The same row, whose logits attend_decode has left and whose queries nobody must look at again. */
static attend_case row_with_logits(lot *m, rig *g, const attend_case *c)
{
    attend_case given = *c, decoded = *c;
    decoded.batch = 1;
    given.logits = decode_logits_run(m, g, &decoded);
    given.q = lot_new(m, c->q_ld * 4);
    for (int64_t i = 0; i < c->q_ld; i++) given.q[i] = NAN;
    return given;
}

START_TEST(test_logits_of_a_row_stand_for_its_queries)
{
    rig ref, g;
    rig_open(&ref, rig_backend(0));
    for (int b = 0; rig_backend(b); b++) {
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 480; n++) {
            if (kind(ROWS, n) != 1) continue;
            lot m = {0};
            attend_case c;
            columns_spec spec = spec_make(&m, &ref, &c, n);
            attend_case given = row_with_logits(&m, &g, &c);
            columns got = columns_run(&m, &g, &given, &spec, NULL);
            check_formula(&c, &spec, &got, b ? near_f32 : near_f64);
            lot_end(&m);
        }
        rig_close(&g);
    }
    rig_close(&ref);
}
END_TEST

/* A row that is alone needs no log-sum-exp, whether its logits are known or not: it gives what it would with its own.
 */
START_TEST(test_a_single_row_is_normalised_where_it_is_counted)
{
    rig ref, g;
    rig_open(&ref, rig_backend(0));
    for (int b = 0; rig_backend(b); b++) {
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 240; n += rig_step(&g)) {
            lot m = {0};
            attend_case c;
            attend_size size = size_at(n);
            size.tokens = 1;
            size.past = n % 40 == 7 ? LONG_PAST_OF_ONE : kind(PAST, n);
            observed_make(&m, &c, &size);
            columns_spec known = spec_of(&c, row_lse_run(&m, &ref, &c), n), own = known;
            own.lse = NULL;
            columns got = columns_run(&m, &g, &c, &own, NULL);
            check_formula(&c, &known, &got, b ? near_f32 : near_f64);
            attend_case given = row_with_logits(&m, &g, &c);
            got = columns_run(&m, &g, &given, &own, NULL);
            check_formula(&c, &known, &got, b ? near_f32 : near_f64);
            lot_end(&m);
        }
        rig_close(&g);
    }
    rig_close(&ref);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_every_backend_adds_what_the_formula_says,
                                  test_what_is_not_asked_for_is_left_alone,
                                  test_rows_may_be_added_in_several_calls,
                                  test_the_columns_of_a_head_hold_the_mass_of_its_rows,
                                  test_a_row_that_sees_one_entry_counts_none,
                                  test_lse_of_rows_is_that_of_the_formula,
                                  test_lse_of_rows_is_that_of_attention,
                                  test_logits_of_a_row_stand_for_its_queries,
                                  test_a_single_row_is_normalised_where_it_is_counted,
                                  NULL};
    return rig_run("kernels/columns", tests);
}
