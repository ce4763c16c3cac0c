#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/rng.h"
#include "cases.h"
#include "rig.h"

enum { HEADS, LENGTH, SLACK, ORDER, PAD, THREADS, SPLIT, SPREAD, IN_PLACE, FIRST_HEAD, TEMPERATURE };
static const dimension kinds[] = {
    [HEADS] = {"heads", 7, {0, 1, 2, 3, 4, 5, 6}},
    [LENGTH] = {"entries below", 3, {700, 40, 40}},
    [SLACK] = {"slack", 3, {0, 1, 2}},
    [ORDER] = {"order", 3, {CACHE_SLOTS, CACHE_GAPS, CACHE_SHUFFLED}, {"slots", "gaps", "shuffled"}},
    [PAD] = {"padding of a row", 4, {0, 1, 2, 3}},
    [THREADS] = {"threads", 4, {1, 2, 3, 4}},
    [SPLIT] = {"heads of the lower rank", 7, {0, 1, 2, 3, 4, 5, 6}}, /* at most all */
    [SPREAD] = {"spread of the scores", 2, {1, 10}},
    [IN_PLACE] = {"in place", 4, {1, 0, 0, 0}, {"yes", "no", "no", "no"}},
    [FIRST_HEAD] = {"first head", 2, {0, 4000}},
    [TEMPERATURE] = {"tenths of the temperature", 3, {10, 5, 30}},
};

static int64_t kind(int which, int n)
{
    return case_value(&kinds[which], n);
}

static void draws_cache(lot *m, cache *c, int n)
{
    int64_t heads = kind(HEADS, n), most = kind(LENGTH, n), *len = lot_new(m, heads * 8);
    for (int64_t h = 0; h < heads; h++) len[h] = draw(70, (uint64_t)(n * 10 + h), most);
    cache_spec spec = {.heads = heads, .head_dim = 1, .slack = kind(SLACK, n), .in_order = 3, .last = 900, .len = len};
    spec.order = (cache_order)kind(ORDER, n);
    spec.seed = (uint64_t)n;
    cache_make(m, c, &spec);
}

static lh_draw draw_of(int n, int64_t first_head)
{
    uint32_t u = (uint32_t)n;
    return (lh_draw){.key = {u, 77 - u}, .counter = {u * 3, u / 5}, .first_head = first_head};
}

static uint32_t word_by_hand(const lh_draw *of, int64_t h, int64_t position)
{
    uint32_t words[4];
    lh_philox(words, of->key,
              (const uint32_t[]){of->counter[0], of->counter[1], (uint32_t)(of->first_head + h), (uint32_t)position});
    return words[0];
}

/* Heads of `kv` from h on. */
static lh_ragged heads_from(const lh_ragged *kv, int64_t h, int64_t count)
{
    lh_ragged part = *kv;
    part.offset += h;
    part.len += h;
    part.heads = count;
    return part;
}

/* To the bit, and for every split of the heads over two ranks: a number is that of its head and position. */
START_TEST(test_random_scores_belong_to_heads_and_positions_wherever_these_are)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 84; n++) {
            lot m = {0};
            cache c;
            draws_cache(&m, &c, n);
            int64_t ld = 700 + kind(PAD, n), heads = c.host.heads, split = kind(SPLIT, n);
            if (split > heads) split = heads;
            float *y = rig_new(&g, heads * ld * 4), *got = lot_new(&m, heads * ld * 4);
            lh_ragged kv = rig_cache(&g, &c), low = heads_from(&kv, 0, split);
            lh_ragged high = heads_from(&kv, split, heads - split);
            lh_draw of = draw_of(n, 3);
            omp_set_num_threads((int)kind(THREADS, n));
            RUN(&g, random_scores, .y = y, .kv = &low, .ld = ld, .draw = of);
            RUN(&g, random_scores, .y = y + split * ld, .kv = &high, .ld = ld, .draw = draw_of(n, 3 + split));
            rig_get(&g, got, y, heads * ld * 4);
            for (int64_t h = 0; h < heads; h++) {
                for (int64_t s = 0; s < c.host.len[h]; s++) {
                    float want = lh_uniform(word_by_hand(&of, h, cache_position(&c.host, h, s)));
                    ck_assert_msg(got[h * ld + s] == want, "%s: %.9g, not %.9g%s", g.ops->name, got[h * ld + s], want,
                                  case_words());
                }
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* Errors of two logarithms in f32, the inner one relative; the sum rounds relative to its terms, which are up to 40. */
START_TEST(test_gumbel_scores_are_perturbed_by_the_same_draws)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 84; n++) {
            lot m = {0};
            cache c;
            draws_cache(&m, &c, n);
            int64_t ld = 700 + kind(PAD, n), heads = c.host.heads, count = heads * ld;
            float temperature = (float)kind(TEMPERATURE, n) / 10;
            int proportional = n % 2;
            float *x = lot_normals(&m, count, (float)kind(SPREAD, n), 8), *got = lot_new(&m, count * 4);
            float *on = rig_put(&g, x, count * 4), *y = kind(IN_PLACE, n) ? on : rig_new(&g, count * 4);
            lh_ragged kv = rig_cache(&g, &c);
            lh_draw of = draw_of(n, kind(FIRST_HEAD, n));
            omp_set_num_threads((int)kind(THREADS, n));
            RUN(&g, gumbel_scores, .y = y, .x = on, .kv = &kv, .ld = ld, .temperature = temperature,
                .proportional = proportional, .draw = of);
            rig_get(&g, got, y, count * 4);
            for (int64_t h = 0; h < heads; h++) {
                for (int64_t s = 0; s < c.host.len[h]; s++) {
                    double u = lh_uniform_open(word_by_hand(&of, h, cache_position(&c.host, h, s)));
                    double logit = proportional ? log(x[h * ld + s]) : x[h * ld + s];
                    float want = (float)(logit / temperature - log(-log(u)));
                    if (proportional && x[h * ld + s] <= 0) want = -INFINITY;
                    if (got[h * ld + s] == want) continue;
                    check_near(&got[h * ld + s], &want, 1, (tolerance){2e-7, 2e-6}, "gumbel_scores, %s", g.ops->name);
                }
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* Positions found by trying: with this key and counter, head 5 draws the highest 24 bits there are at position 6487204
 * and the lowest at 12577386. The scores are the best of all and one of the worst, but numbers. */
START_TEST(test_the_ends_of_the_draws_are_infinite_and_finite)
{
    int64_t len[1] = {2}, offset[1] = {0};
    int32_t positions[2] = {6487204, 12577386};
    float x[2] = {-3, -3}, got[2];
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        lh_ragged kv = {.positions = rig_put(&g, positions, 8),
                        .offset = rig_put(&g, offset, 8),
                        .len = rig_put(&g, len, 8),
                        .heads = 1};
        float *y = rig_new(&g, 8), *on = rig_put(&g, x, 8);
        lh_draw of = {.key = {1, 2}, .counter = {3, 4}, .first_head = 5};
        RUN(&g, random_scores, .y = y, .kv = &kv, .ld = 2, .draw = of);
        rig_get(&g, got, y, 8);
        ck_assert(got[0] == 1.0f - 0x1p-24f);
        ck_assert(got[1] == 0.0f);
        RUN(&g, gumbel_scores, .y = y, .x = on, .kv = &kv, .ld = 2, .temperature = 1.0f, .draw = of);
        rig_get(&g, got, y, 8);
        ck_assert(got[0] == INFINITY);
        ck_assert_msg(fabs(got[1] - (-3 - log(24 * log(2)))) < 1e-6, "%s: %.9g", g.ops->name, got[1]);
        rig_close(&g);
    }
}
END_TEST

enum { W_ROWS, W_COLS, W_FIRST, W_APART, W_TYPE, W_STORED };
static const dimension weights[] = {
    [W_ROWS] = {"rows", 5, {0, 1, 2, 3, 40}},
    [W_COLS] = {"columns", 8, {0, 1, 2, 3, 5, 16, 77, 600}},
    [W_FIRST] = {"first number", 6, {0, 1, 2, 3, 1000, INT64_C(1) << 34}},
    [W_APART] = {"numbers between rows", 3, {0, 1, 130}},
    [W_TYPE] = {"type", 2, {LH_F32, LH_BF16}, {"f32", "bf16"}},
    [W_STORED] = {"stored as", 2, {LH_F32, LH_BF16}, {"f32", "bf16"}},
};

START_TEST(test_random_weights_are_the_normals_of_their_places_in_the_tensor)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 96; n++) {
            lot m = {0};
            const int64_t rows = case_value(&weights[W_ROWS], n), cols = case_value(&weights[W_COLS], n);
            const int64_t first = case_value(&weights[W_FIRST], n), step = cols + case_value(&weights[W_APART], n);
            const lh_dtype type = (lh_dtype)case_value(&weights[W_TYPE], n);
            const lh_dtype stored = (lh_dtype)case_value(&weights[W_STORED], n);
            const int64_t count = rows * cols, bytes = count * lh_dtype_bytes(type);
            float *z = lot_new(&m, count * 4);
            void *y = rig_new(&g, bytes), *got = lot_new(&m, bytes);
            for (int64_t r = 0; r < rows; r++) lh_normals(z + r * cols, 9, 5, first + r * step, cols);
            for (int64_t i = 0; i < count; i++) {
                z[i] *= 0.3f;
                if (stored == LH_BF16) z[i] = lh_bf16_to_f32(lh_f32_to_bf16(z[i]));
            }
            const void *want = type == LH_F32 ? (void *)z : lot_bf16(&m, z, count);
            RUN(&g, random_weights, .y = y, .y_type = type, .stored = stored, .rows = rows, .cols = cols,
                .first = first, .step = step, .seed = 9, .stream = 5, .scale = 0.3f);
            rig_get(&g, got, y, bytes);
            check_same(got, want, bytes, "random_weights, %s", g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_random_weights_without_a_scale_are_their_mean)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        float got[70];
        rig_open(&g, rig_backend(b));
        float *y = rig_new(&g, sizeof got);
        RUN(&g, random_weights, .y = y, .rows = 1, .cols = 70, .step = 70, .mean = 1);
        rig_get(&g, got, y, sizeof got);
        for (int i = 0; i < 70; i++) ck_assert(got[i] == 1.0f);
        rig_close(&g);
    }
}
END_TEST

/* ---- the law of the draws ---- */

enum { LAW_HEADS = 100, LAW_ENTRIES = 5, LAW_ROUNDS = 300, LAW_SETS = 1 << LAW_ENTRIES };

static const float law_scores[LAW_ENTRIES] = {0.4f, -1.0f, 1.1f, 0.0f, 0.3f};

/* Chance that sampling without replacement gives exactly the entries in `set`, drawing on from those in `drawn`. */
static double chance_of(int set, int drawn, double temperature)
{
    double left = 0, sum = 0;
    if (set == drawn) return 1;
    for (int i = 0; i < LAW_ENTRIES; i++) left += drawn & 1 << i ? 0 : exp(law_scores[i] / temperature);
    for (int i = 0; i < LAW_ENTRIES; i++) {
        if (set & 1 << i && !(drawn & 1 << i))
            sum += exp(law_scores[i] / temperature) / left * chance_of(set, drawn | 1 << i, temperature);
    }
    return sum;
}

/* How often each set of k of the entries of a head is chosen, by gumbel_scores and select_top. */
static void choose_sets(rig *g, int64_t k, float temperature, int64_t counts[LAW_SETS])
{
    lot m = {0};
    cache c;
    int64_t len[LAW_HEADS], many[LAW_HEADS], all = LAW_HEADS * LAW_ENTRIES;
    for (int h = 0; h < LAW_HEADS; h++) {
        len[h] = LAW_ENTRIES;
        many[h] = k;
    }
    cache_spec spec = {.heads = LAW_HEADS, .head_dim = 1, .last = 100, .len = len, .order = CACHE_SHUFFLED};
    cache_make(&m, &c, &spec);
    float *x = lot_new(&m, all * 4);
    uint8_t *state = lot_new(&m, all), *got = lot_new(&m, all);
    memset(state, LH_ENTRY_COMPETES, (size_t)all);
    for (int64_t i = 0; i < all; i++) x[i] = law_scores[i % LAW_ENTRIES];
    lh_ragged kv = rig_cache(g, &c);
    const float *on = rig_put(g, x, all * 4);
    const int64_t *many_on = rig_put(g, many, sizeof many);
    float *y = rig_new(g, all * 4);
    uint8_t *state_on = rig_new(g, all);
    for (uint32_t round = 0; round < (uint32_t)(LAW_ROUNDS / rig_scale(g)); round++) {
        lh_draw of = {.key = {12, 34}, .counter = {7, round}};
        ck_assert_int_eq(lh_stream_copy(g->stream, state_on, state, all, LH_COPY_TO_DEVICE), LH_OK);
        RUN(g, gumbel_scores, .y = y, .x = on, .kv = &kv, .ld = LAW_ENTRIES, .temperature = temperature, .draw = of);
        RUN(g, select_top, .state = state_on, .scores = y, .kv = &kv, .counts = many_on, .batch = 1, .ld = LAW_ENTRIES);
        rig_get(g, got, state_on, all);
        for (int64_t h = 0; h < LAW_HEADS; h++) {
            int set = 0;
            for (int i = 0; i < LAW_ENTRIES; i++) set |= (got[h * LAW_ENTRIES + i] == LH_ENTRY_KEEP) << i;
            counts[set]++;
        }
    }
    rig_reset(g);
    lot_end(&m);
}

/* Chi-square over the sets, with 4 to 9 degrees of freedom: 27.9 is passed once in 1000 tries at 9; the draws are
 * always the same. */
START_TEST(test_gumbel_top_k_samples_without_replacement_with_the_softmax)
{
    const float temperatures[] = {1.0f, 0.5f, 2.0f};
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 4 * 3; n++) {
            int64_t counts[LAW_SETS] = {0}, k = 1 + n % 4;
            double off = 0, total = 0, tries = LAW_HEADS * (LAW_ROUNDS / rig_scale(&g));
            choose_sets(&g, k, temperatures[n / 4], counts);
            for (int set = 0; set < LAW_SETS; set++) {
                if (__builtin_popcount((unsigned)set) != k) {
                    ck_assert_int_eq(counts[set], 0);
                    continue;
                }
                double chance = chance_of(set, 0, temperatures[n / 4]), want = tries * chance;
                total += chance;
                ck_assert_msg(want > 5, "too few tries for a chi-square");
                off += pow((double)counts[set] - want, 2) / want;
            }
            ck_assert_msg(fabs(total - 1) < 1e-12, "the chances add up to %g", total);
            ck_assert_msg(off < 27.9, "%s: chi-square %.1f for %d of %d entries", g.ops->name, off, (int)k,
                          LAW_ENTRIES);
        }
        rig_close(&g);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_random_scores_belong_to_heads_and_positions_wherever_these_are,
                                  test_gumbel_scores_are_perturbed_by_the_same_draws,
                                  test_the_ends_of_the_draws_are_infinite_and_finite,
                                  test_random_weights_are_the_normals_of_their_places_in_the_tensor,
                                  test_random_weights_without_a_scale_are_their_mean,
                                  test_gumbel_top_k_samples_without_replacement_with_the_softmax,
                                  NULL};
    return rig_run("kernels/draws", tests);
}
