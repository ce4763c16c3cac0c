#include <math.h>
#include <omp.h>
#include <string.h>

#include "cases.h"
#include "numbers.h"

enum { HEADS, LENGTH, SLACK, ORDER, THREADS, PAD, LAYOUT, IN_PLACE };                         /* of all operations */
enum { PARTS = IN_PLACE + 1, SQUARES, SMALL, FIRST_ROW, SEEN, WINDOW, MORE, FINISH, FACTOR }; /* of finish_scores */
enum { ADDED = FACTOR + 1, LAST, PRIOR };
enum { PRIOR_NUMBERS, PRIOR_ZEROS, PRIOR_NAN };
static const dimension kinds[] = {
    [HEADS] = {"heads", 6, {0, 1, 2, 3, 4, 5}},
    [LENGTH] = {"entries below", 3, {5000, 40, 40}},
    [SLACK] = {"slack", 3, {0, 1, 2}},
    [ORDER] = {"order", 3, {CACHE_SLOTS, CACHE_GAPS, CACHE_SHUFFLED}, {"slots", "gaps", "shuffled"}},
    [THREADS] = {"threads", 4, {1, 2, 3, 4}},
    [PAD] = {"padding of a row", 3, {0, 1, 2}},
    [LAYOUT] = {"layout", 2, {0, 1}},
    [IN_PLACE] = {"in place", 3, {0, 1, 1}, {"no", "yes", "yes"}},
    [PARTS] = {"parts", 4, {1, 2, 3, 4}},
    [SQUARES] = {"layout of squares", 2, {0, 1}},
    [SMALL] = {"squares", 5, {1, 0, 0, 0, 0}, {"small", "as they are", "as they are", "as they are", "as they are"}},
    [FIRST_ROW] = {"first row", 5, {0, 20, 40, 60, 80}},
    [SEEN] = {"seen", 4, {6000, 6001, 6002, 15}},
    [WINDOW] = {"window", 3, {0, 0, 50}},
    [MORE] = {"more", 7, {0, 0, 0, 0, 0, 0, 4}},
    [FINISH] = {"finish",
                4,
                {LH_FINISH_PLAIN, LH_FINISH_PER_VISIT, LH_FINISH_DEVIATION, LH_FINISH_ROOT},
                {"plain", "per visit", "deviation", "root"}},
    [FACTOR] = {"tenths of the factor", 2, {10, 3}},
    [ADDED] = {"added", 4, {0, 1, 1, 1}, {"0", "1e-4", "1e-4", "1e-4"}},
    [LAST] = {"last slots", 4, {0, 1, 1, 1}, {"all", "some", "some", "some"}},
    [PRIOR] = {"prior",
               5,
               {PRIOR_ZEROS, PRIOR_NAN, PRIOR_NUMBERS, PRIOR_NUMBERS, PRIOR_NUMBERS},
               {"zeros", "a NaN among numbers", "numbers", "numbers", "numbers"}},
};

static int64_t kind(int which, int n)
{
    return case_value(&kinds[which], n);
}

static void small_cache(lot *m, cache *c, int n)
{
    int64_t heads = kind(HEADS, n), most = kind(LENGTH, n), *len = lot_new(m, heads * 8);
    for (int64_t h = 0; h < heads; h++) len[h] = draw(50, (uint64_t)(n * 10 + h), most);
    cache_spec spec = {.heads = heads, .head_dim = 1, .slack = kind(SLACK, n), .in_order = 3, .last = 6000, .len = len};
    spec.order = (cache_order)kind(ORDER, n);
    spec.seed = (uint64_t)n;
    cache_make(m, c, &spec);
}

static int64_t longest(const cache *c)
{
    int64_t most = 0;
    for (int64_t h = 0; h < c->host.heads; h++) most = c->host.len[h] > most ? c->host.len[h] : most;
    return most;
}

/* The rows in [first_row, seen) that saw position p, one by one, and those that saw all. */
static double count_visits(const lh_finish_scores_args *a, int64_t p)
{
    int64_t rows = 0;
    for (int64_t r = a->first_row; r < a->seen; r++) rows += r >= p && (a->window == 0 || r < p + a->window);
    return (double)(rows + a->more);
}

static float finish_by_hand(const lh_finish_scores_args *a, double x, double squares, double n)
{
    if (a->kind == LH_FINISH_PLAIN) return (float)(a->factor * x);
    if (a->kind == LH_FINISH_ROOT) return (float)sqrt(a->factor * x);
    if (n == 0) return 0;
    if (a->kind == LH_FINISH_PER_VISIT) return (float)(a->factor * x / n);
    if (n == 1) return 0; /* of one number */
    double variance = squares / n - pow(x / n, 2);
    return variance > 0 ? (float)sqrt(variance) : 0;
}

/* Counting visits row by row would take long for all: a third of the cases has long heads, of which few slots are
 * looked at. The tolerance is the rounding of a deviation that cancels, of numbers around 1. */
START_TEST(test_finish_scores_divides_by_the_rows_that_saw_the_entry)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 162; n++) {
            lot m = {0};
            cache c;
            numbers x, squares;
            omp_set_num_threads((int)kind(THREADS, n));
            small_cache(&m, &c, n);
            int64_t parts = kind(PARTS, n), small = kind(SMALL, n), ld = longest(&c) + kind(PAD, n),
                    heads = c.host.heads;
            numbers_make(&m, &x, &c, parts, (number_layout)kind(LAYOUT, n));
            numbers_make(&m, &squares, &c, parts, (number_layout)kind(SQUARES, n));
            for (int64_t i = 0; i < squares.count; i++) squares.data[i] = fabsf(squares.data[i]) * (small ? 0.01f : 1);
            for (int64_t i = 0; i < x.count && kind(FINISH, n) == LH_FINISH_ROOT; i++) x.data[i] = fabsf(x.data[i]);
            lh_ragged kv = rig_cache(&g, &c);
            float *y = rig_new(&g, heads * parts * ld * 4), *got = lot_new(&m, heads * parts * ld * 4);
            lh_finish_scores_args a = {.y = y,
                                       .x = numbers_put(&g, &x, &kv),
                                       .squares = numbers_put(&g, &squares, &kv),
                                       .kv = &kv,
                                       .ld = ld,
                                       .parts = parts,
                                       .first_row = kind(FIRST_ROW, n),
                                       .seen = kind(SEEN, n),
                                       .window = kind(WINDOW, n),
                                       .more = kind(MORE, n),
                                       .kind = (lh_finish_kind)kind(FINISH, n),
                                       .factor = (float)kind(FACTOR, n) / 10};
            if (a.kind != LH_FINISH_DEVIATION) a.squares.at = NULL;
            RUN_ARGS(&g, finish_scores, &a);
            rig_get(&g, got, y, heads * parts * ld * 4);
            for (int64_t h = 0; h < heads; h++) {
                for (int64_t i = 0; i<c.host.len[h] * parts; i += c.host.len[h]> 100 ? 37 : 1) {
                    int64_t part = i % parts, s = i / parts;
                    double visits = count_visits(&a, cache_position(&c.host, h, s));
                    float want = finish_by_hand(&a, x.data[numbers_index(&x, h, s, part)],
                                                squares.data[numbers_index(&squares, h, s, part)], visits);
                    check_near(&got[(h * parts + part) * ld + s], &want, 1, (tolerance){1e-6, 1e-7},
                               "finish_scores, %s", g.ops->name);
                }
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_weigh_scores_multiplies_with_the_norms_of_the_slots)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 60; n++) {
            lot m = {0};
            cache c;
            numbers norms;
            small_cache(&m, &c, n);
            int64_t ld = longest(&c) + kind(PAD, n), heads = c.host.heads, count = heads * ld;
            float add = (float)kind(ADDED, n) * 1e-4f, *x = lot_normals(&m, count, 1.0f, 3),
                  *got = lot_new(&m, count * 4);
            numbers_make(&m, &norms, &c, 1, (number_layout)kind(LAYOUT, n));
            lh_ragged kv = rig_cache(&g, &c);
            float *on = rig_put(&g, x, count * 4), *y = kind(IN_PLACE, n) ? on : rig_new(&g, count * 4);
            RUN(&g, weigh_scores, .y = y, .x = on, .norms = numbers_put(&g, &norms, &kv), .len = kv.len, .heads = heads,
                .ld = ld, .add = add);
            rig_get(&g, got, y, count * 4);
            for (int64_t h = 0; h < heads; h++) {
                for (int64_t s = 0; s < c.host.len[h]; s++) {
                    double norm = norms.data[numbers_index(&norms, h, s, 0)];
                    float want = (float)(((double)x[h * ld + s] + add) * norm);
                    check_near(&got[h * ld + s], &want, 1, (tolerance){2e-7, 2e-7}, "weigh_scores, %s", g.ops->name);
                }
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_raise_scores_takes_the_larger_of_a_score_and_an_exponential)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 30; n++) {
            lot m = {0};
            cache c;
            small_cache(&m, &c, n);
            int64_t ld = longest(&c) + kind(PAD, n), heads = c.host.heads, count = heads * ld;
            const float factor = 1.0f / (float)(1 + n);
            float *x = lot_normals(&m, count, 2.0f, 3), *was = lot_normals(&m, count, 0.5f, 4),
                  *got = lot_new(&m, count * 4);
            lh_ragged kv = rig_cache(&g, &c);
            float *y = rig_put(&g, was, count * 4);
            RUN(&g, raise_scores, .y = y, .x = rig_put(&g, x, count * 4), .kv = &kv, .ld = ld, .factor = factor);
            rig_get(&g, got, y, count * 4);
            for (int64_t h = 0; h < heads; h++)
                for (int64_t s = 0; s < c.host.len[h]; s++) {
                    const int64_t at = h * ld + s;
                    const float want = (float)fmax((double)was[at], (double)factor * exp((double)x[at]));
                    check_near(&got[at], &want, 1, (tolerance){2e-6, 1e-7}, "raise_scores, case %d, %s", n,
                               g.ops->name);
                }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* The cosine of entries i and j of `cols`. */
static double cosine_of(const float *dots, const float *norms, int64_t cols, int64_t i, int64_t j)
{
    return (double)dots[i * cols + j] / (((double)norms[i] + 1e-8) * ((double)norms[j] + 1e-8));
}

/* Entries [first, first + rows) of `cols` against all; their positions are 3 times the slots, backwards. */
START_TEST(test_similar_keys_are_added_up_without_the_last_of_each)
{
    enum { COLS = 37 };
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 12; n++) {
            lot m = {0};
            int32_t positions[COLS], last[COLS], got[COLS];
            const int64_t first = n, rows = COLS - 2 * n;
            const int is_backwards = n % 2;
            float *dots = lot_normals(&m, COLS * COLS, 1.0f, 3), *norms = lot_normals(&m, COLS, 0.1f, 4),
                  *sums = lot_normals(&m, COLS, 1.0f, 5), *out = lot_new(&m, COLS * 4);
            for (int64_t c = 0; c < COLS; c++) {
                positions[c] = (int32_t)(is_backwards ? 3 * (COLS - c) : c);
                norms[c] = 1.0f + fabsf(norms[c]);
            }
            const float threshold = n < 10 ? 0.5f : 100.0f; /* above all cosines in the last cases */
            const lh_key_products of = {.dots = rig_put(&g, dots + first * COLS, rows * COLS * 4),
                                        .norms = rig_put(&g, norms, COLS * 4),
                                        .positions = is_backwards ? rig_put(&g, positions, sizeof positions) : NULL,
                                        .first = first,
                                        .rows = rows,
                                        .cols = COLS};
            for (int64_t r = 0; r < rows; r++) {
                const int64_t i = first + r;
                last[r] = -1;
                for (int64_t c = 0; c < COLS; c++)
                    if (c != i && cosine_of(dots, norms, COLS, i, c) > (double)threshold &&
                        (last[r] < 0 || positions[c] > positions[last[r]]))
                        last[r] = (int32_t)c;
                if (last[r] < 0) last[r] = is_backwards ? COLS - 1 : 0;
            }
            int32_t *y = rig_put(&g, got, rows * 4);
            RUN(&g, last_similar, .y = y, .of = of, .threshold = threshold);
            rig_get(&g, got, y, rows * 4);
            check_same(got, last, rows * 4, "last_similar, case %d, %s", n, g.ops->name);
            float *at = rig_put(&g, sums, COLS * 4);
            RUN(&g, add_similarities, .y = at, .last = y, .of = of);
            rig_get(&g, out, at, COLS * 4);
            for (int64_t c = 0; c < COLS; c++) {
                double want = (double)sums[c];
                for (int64_t r = 0; r < rows; r++)
                    if (c != first + r && c != last[r]) want += cosine_of(dots, norms, COLS, first + r, c);
                const float rounded = (float)want;
                check_near(&out[c], &rounded, 1, (tolerance){1e-5, 1e-5}, "add_similarities, case %d, %s", n,
                           g.ops->name);
            }
            RUN(&g, mix_scores, .y = at, .x = of.norms, .cols = COLS, .own = 0.25f, .other = -2.0f);
            rig_get(&g, sums, at, COLS * 4);
            for (int64_t c = 0; c < COLS; c++) {
                const float want = 0.25f * out[c] - 2.0f * norms[c];
                check_near(&sums[c], &want, 1, (tolerance){1e-6, 1e-6}, "mix_scores, case %d, %s", n, g.ops->name);
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_put_stats_writes_what_competes_of_the_last_slots_and_nothing_else)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 60; n++) {
            lot m = {0};
            cache c;
            numbers y;
            small_cache(&m, &c, n);
            int64_t ld = longest(&c) + kind(PAD, n), heads = c.host.heads,
                    last = kind(LAST, n) ? draw(51, (uint64_t)n, 20) : ld;
            float *x = lot_normals(&m, heads * ld, 1.0f, 3);
            uint8_t *state = n % 3 ? lot_new(&m, heads * ld) : NULL;
            for (int64_t i = 0; state && i < heads * ld; i++) state[i] = (uint8_t)draw(52, (uint64_t)(n * 1000 + i), 3);
            numbers_make(&m, &y, &c, 2, (number_layout)kind(LAYOUT, n));
            lh_ragged kv = rig_cache(&g, &c);
            lh_slot_floats on = numbers_put(&g, &y, &kv);
            RUN(&g, put_stats, .y = on, .x = rig_put(&g, x, heads * ld * 4),
                .state = state ? rig_put(&g, state, heads * ld) : NULL, .kv = &kv, .last = last, .ld = ld);
            for (int64_t h = 0; h < heads; h++) {
                int64_t first = lh_slot_of_last(c.host.len[h], last);
                for (int64_t s = first; s < c.host.len[h]; s++) {
                    const int is_stored = !state || state[h * ld + s] == LH_ENTRY_COMPETES;
                    y.data[numbers_index(&y, h, s, 0)] = is_stored ? x[h * ld + s - first] : 0.0f;
                }
            }
            check_same(numbers_get(&m, &g, &y, &on), y.data, y.count * 4, "put_stats, %s", g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* A NaN among numbers is no maximum. */
static void prior_make(float *prior, int64_t count, int64_t of)
{
    for (int64_t i = 0; i < count; i++) {
        prior[i] = of == PRIOR_ZEROS ? 0 : fabsf(prior[i]);
        if (of == PRIOR_NAN && draw(52, (uint64_t)i, 9) == 0) prior[i] = NAN;
    }
}

START_TEST(test_a_prior_is_relative_to_its_maximum_over_what_competes)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 90; n++) {
            lot m = {0};
            cache c;
            small_cache(&m, &c, n);
            int64_t ld = longest(&c) + kind(PAD, n), heads = c.host.heads, count = heads * ld;
            float *y = lot_normals(&m, count, 1.0f, 4), *prior = lot_normals(&m, count, 1.0f, 5);
            float *got = lot_new(&m, count * 4), *on = rig_put(&g, y, count * 4);
            uint8_t *state = lot_new(&m, count);
            for (int64_t i = 0; i < count; i++) state[i] = (uint8_t)draw(53, (uint64_t)(n * 10000 + i), 3);
            prior_make(prior, count, kind(PRIOR, n));
            RUN(&g, apply_prior, .y = on, .prior = rig_put(&g, prior, count * 4), .state = rig_put(&g, state, count),
                .len = rig_put(&g, c.host.len, heads * 8), .heads = heads, .ld = ld);
            rig_get(&g, got, on, count * 4);
            for (int64_t h = 0; h < heads; h++) {
                double top = 0;
                for (int64_t s = 0; s < c.host.len[h]; s++) {
                    if (state[h * ld + s] == LH_ENTRY_COMPETES && prior[h * ld + s] > top) top = prior[h * ld + s];
                }
                for (int64_t s = 0; s < c.host.len[h]; s++) {
                    double x = y[h * ld + s], nu = prior[h * ld + s];
                    float want = (float)(state[h * ld + s] != LH_ENTRY_COMPETES ? x : top > 0 ? x * nu / top : 0);
                    ck_assert_int_eq(isnan(want) != 0, isnan(got[h * ld + s]) != 0);
                    if (!isnan(want))
                        check_near(&got[h * ld + s], &want, 1, (tolerance){2e-7, 1e-12}, "apply_prior, %s",
                                   g.ops->name);
                }
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* What a competing entry of head h is worth, of scores y and norms x. */
static double defended_by_hand(const float *y, const float *x, const uint8_t *state, int64_t len, int64_t s, int raise)
{
    double sum = 0, norms = 0, count = 0;
    for (int64_t t = 0; t < len; t++) {
        if (state[t] != LH_ENTRY_COMPETES) continue;
        sum += (double)y[t], norms += x ? (double)x[t] : 0, count++;
    }
    double score = raise ? fmax((double)y[s], sum / count) : (double)y[s];
    return !x ? score : norms > 0 ? score * (double)x[s] / norms : 0;
}

START_TEST(test_defended_scores_are_means_at_least_and_weighed_by_shares)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 90; n++) {
            lot m = {0};
            cache c;
            small_cache(&m, &c, n);
            int64_t ld = longest(&c) + kind(PAD, n), heads = c.host.heads, count = heads * ld;
            int raise = n % 2, weigh = n / 2 % 2;
            float *y = lot_normals(&m, count, 1.0f, 4), *norms = lot_normals(&m, count, 1.0f, 5);
            float *got = lot_new(&m, count * 4);
            uint8_t *state = lot_new(&m, count);
            for (int64_t i = 0; i < count; i++) {
                state[i] = (uint8_t)draw(53, (uint64_t)(n * 10000 + i), 3);
                y[i] = fabsf(y[i]);
                norms[i] = n % 7 ? fabsf(norms[i]) : 0;
            }
            float *on = rig_put(&g, y, count * 4);
            lh_slot_floats x = {.at = weigh ? rig_put(&g, norms, count * 4) : NULL, .ld = ld, .step = 1, .next = ld};
            RUN(&g, defend_scores, .y = on, .norms = x, .state = rig_put(&g, state, count),
                .len = rig_put(&g, c.host.len, heads * 8), .heads = heads, .ld = ld, .raise = raise);
            rig_get(&g, got, on, count * 4);
            for (int64_t h = 0; h < heads; h++)
                for (int64_t s = 0; s < c.host.len[h]; s++) {
                    int64_t at = h * ld;
                    float want = state[at + s] != LH_ENTRY_COMPETES
                                     ? y[at + s]
                                     : (float)defended_by_hand(y + at, weigh ? norms + at : NULL, state + at,
                                                               c.host.len[h], s, raise);
                    check_near(&got[at + s], &want, 1, (tolerance){4e-7, 1e-12}, "defend_scores, case %d, %s", n,
                               g.ops->name);
                }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_largest_outputs_are_weighed_query_head_by_query_head)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 12; n++) {
            lot m = {0};
            const int64_t heads = 1 + n % 3, group = 1 + n % 4, cols = 1 + n * 7, x_ld = cols + n % 2,
                          y_ld = cols + n % 5, count = heads * group * x_ld;
            float *x = lot_normals(&m, count, 1.0f, n), *squares = lot_normals(&m, count, 1.0f, n + 20),
                  *got = lot_new(&m, heads * y_ld * 4), *y = rig_new(&g, heads * y_ld * 4);
            for (int64_t i = 0; i < count; i++) x[i] = fabsf(x[i]), squares[i] = fabsf(squares[i]);
            RUN(&g, largest_outputs, .y = y, .x = rig_put(&g, x, count * 4), .squares = rig_put(&g, squares, count * 4),
                .heads = heads, .group = group, .cols = cols, .y_ld = y_ld, .x_ld = x_ld);
            rig_get(&g, got, y, heads * y_ld * 4);
            for (int64_t h = 0; h < heads; h++)
                for (int64_t s = 0; s < cols; s++) {
                    double largest = 0;
                    for (int64_t i = h * group; i < (h + 1) * group; i++)
                        largest = fmax(largest, (double)x[i * x_ld + s] * sqrt((double)squares[i * x_ld + s]));
                    const float want = (float)largest;
                    check_near(&got[h * y_ld + s], &want, 1, (tolerance){2e-6, 1e-7}, "largest_outputs, case %d, %s", n,
                               g.ops->name);
                }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_divided_rows_have_weights_over_their_norm)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 8; n++) {
            lot m = {0};
            const int64_t rows = 1 + n * 5, heads = 1 + n % 4, count = rows * heads;
            float *lse = lot_normals(&m, count, 3.0f, n), *squares = lot_normals(&m, rows, 5.0f, n + 20),
                  *got = lot_new(&m, count * 4), *y = rig_put(&g, lse, count * 4);
            for (int64_t r = 0; r < rows; r++) squares[r] = r ? squares[r] * squares[r] : 0;
            RUN(&g, divide_rows, .lse = y, .squares = rig_put(&g, squares, rows * 4), .rows = rows, .heads = heads);
            rig_get(&g, got, y, count * 4);
            for (int64_t i = 0; i < count; i++) {
                const float want = (float)((double)lse[i] + log(fmax((double)squares[i / heads], 1e-12)) / 2);
                check_near(&got[i], &want, 1, (tolerance){2e-6, 2e-6}, "divide_rows, case %d, %s", n, g.ops->name);
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_finish_scores_divides_by_the_rows_that_saw_the_entry,
                                  test_raise_scores_takes_the_larger_of_a_score_and_an_exponential,
                                  test_similar_keys_are_added_up_without_the_last_of_each,
                                  test_largest_outputs_are_weighed_query_head_by_query_head,
                                  test_divided_rows_have_weights_over_their_norm,
                                  test_weigh_scores_multiplies_with_the_norms_of_the_slots,
                                  test_put_stats_writes_what_competes_of_the_last_slots_and_nothing_else,
                                  test_a_prior_is_relative_to_its_maximum_over_what_competes,
                                  test_defended_scores_are_means_at_least_and_weighed_by_shares,
                                  NULL};
    return rig_run("kernels/finish", tests);
}
