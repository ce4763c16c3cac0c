#include <math.h>
#include <omp.h>
#include <string.h>

#include "cases.h"
#include "numbers.h"

typedef struct shape {
    int64_t heads, longest, head_dim;
    lh_dtype type;
} shape;

static void values_make(lot *m, cache *c, const shape *p, int n)
{
    int64_t *len = lot_new(m, p->heads * 8);
    for (int64_t h = 0; h < p->heads; h++) len[h] = draw(60, (uint64_t)(n * 10 + h), p->longest + 1);
    cache_spec spec = {.heads = p->heads, .head_dim = p->head_dim, .slack = n % 3, .last = p->longest + 9, .len = len};
    spec.type = p->type;
    spec.order = (cache_order)(n % CACHE_ORDERS);
    spec.seed = (uint64_t)n;
    cache_make(m, c, &spec);
}

/* How many entries at the end of every head are looked at: none, some, all. */
static int64_t last_of(int n)
{
    return n % 3 == 0 ? LH_ALL_ENTRIES : draw(61, (uint64_t)n, 50);
}

static double entry_number(const lh_ragged *r, const void *part, int64_t h, int64_t s, int64_t i)
{
    return cache_number(r, part, (r->offset[h] + s) * r->head_dim + i);
}

static double squares_by_hand(const lh_ragged *r, const void *part, int64_t h, int64_t s)
{
    double sum = 0;
    for (int64_t i = 0; i < r->head_dim; i++) sum += pow(entry_number(r, part, h, s, i), 2);
    return sum;
}

/* Sums of up to 256 squares in f32. */
START_TEST(test_entry_norms_are_those_of_keys_or_values)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 120; n++) {
            lot m = {0};
            cache c;
            numbers y;
            omp_set_num_threads(1 + n % 4);
            shape p = {n % 5, n % 11 ? 40 : 2100, test_dims[n % 10], n / 2 % 2 ? LH_BF16 : LH_F32};
            values_make(&m, &c, &p, n);
            numbers_make(&m, &y, &c, 2, (number_layout)(n % 2));
            lh_ragged kv = rig_cache(&g, &c);
            lh_slot_floats on = numbers_put(&g, &y, &kv);
            int64_t last = last_of(n);
            lh_entry_part part = (lh_entry_part)(n / 4 % 2);
            lh_norm_kind kind = (lh_norm_kind)(n % 3);
            RUN(&g, entry_norms, .y = on, .kv = &kv, .last = last, .part = part, .kind = kind);
            for (int64_t h = 0; h < p.heads; h++) {
                for (int64_t s = lh_slot_of_last(c.host.len[h], last); s < c.host.len[h]; s++) {
                    double x = squares_by_hand(&c.host, part == LH_PART_KEY ? c.host.k : c.host.v, h, s);
                    x = kind == LH_NORM_SQUARE ? x : kind == LH_NORM_L2 ? sqrt(x) : -sqrt(x);
                    y.data[numbers_index(&y, h, s, 0)] = (float)x;
                }
            }
            check_near(numbers_get(&m, &g, &y, &on), y.data, y.count, (tolerance){2e-6, 0}, "entry_norms, case %d, %s",
                       n, g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_value_ranges_are_exact)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 30; n++) {
            lot m = {0};
            cache c;
            shape p = {1 + n % 3, 45, test_dims[n % 5], n % 2 ? LH_BF16 : LH_F32};
            values_make(&m, &c, &p, n);
            const int64_t d = p.head_dim, ld = 50 + n % 4;
            lh_ragged kv = rig_cache(&g, &c);
            float *y = rig_new(&g, p.heads * ld * 4), *got = lot_new(&m, p.heads * ld * 4);
            RUN(&g, value_ranges, .y = y, .kv = &kv, .ld = ld);
            rig_get(&g, got, y, p.heads * ld * 4);
            for (int64_t h = 0; h < p.heads; h++)
                for (int64_t s = 0; s < c.host.len[h]; s++) {
                    float least = INFINITY, most = -INFINITY;
                    for (int64_t i = 0; i < d; i++) {
                        float x = (float)entry_number(&c.host, c.host.v, h, s, i);
                        least = fminf(least, x);
                        most = fmaxf(most, x);
                    }
                    ck_assert_msg(got[h * ld + s] == most - least, "value_ranges, case %d, %s: %g, not %g", n,
                                  g.ops->name, (double)got[h * ld + s], (double)(most - least));
                }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* ---- norms after the output projection ---- */

typedef struct projection {
    cache c;
    lh_grouping map;
    float *w;          /* [out, w_ld], exact in bf16 where that is the type */
    const void *typed; /* the same of type */
    lh_dtype type;
    int64_t out, w_ld;
} projection;

enum { KV_HEADS, GROUP, SHARD, HEAD_DIM, VALUES, OUT, GAP, WEIGHTS };
enum { SHARD_WHOLE, SHARD_LATE, SHARD_EARLY };
static const dimension kinds[] = {
    [KV_HEADS] = {"KV heads", 4, {1, 2, 3, 4}},
    [GROUP] = {"group", 4, {1, 2, 3, 4}},
    [SHARD] = {"shard",
               5,
               {SHARD_WHOLE, SHARD_WHOLE, SHARD_WHOLE, SHARD_LATE, SHARD_EARLY},
               {"whole", "whole", "whole", "begins in a group", "ends in a group"}},
    [HEAD_DIM] = {"head_dim", 10, {1, 3, 20, 24, 48, 64, 80, 96, 128, 256}},
    [VALUES] = {"values", 2, {LH_F32, LH_BF16}, {"f32", "bf16"}},
    [OUT] = {"outputs", 6, {1, 7, 0, 129, 200, 577}},
    [GAP] = {"gap between rows", 3, {0, 1, 2}},
    [WEIGHTS] = {"weights", 2, {LH_F32, LH_BF16}, {"f32", "bf16"}},
};

static int64_t kind(int which, int n)
{
    return case_value(&kinds[which], n);
}

static void projection_make(lot *m, projection *p, int n)
{
    int64_t many = n % 9 == 0, kv_heads = many ? 1 : kind(KV_HEADS, n), group = many ? 2 : kind(GROUP, n);
    int64_t shard = kind(SHARD, n), first = shard == SHARD_LATE ? group / 2 : 0;
    int64_t last = shard == SHARD_EARLY && group > 1 ? 1 : 0; /* query heads of the last group that are elsewhere */
    shape s = {kv_heads, many ? 1500 : 45, many ? test_dims[n % 5] : kind(HEAD_DIM, n), (lh_dtype)kind(VALUES, n)};
    values_make(m, &p->c, &s, n);
    p->map = (lh_grouping){kv_heads * group - first - last, group, first};
    p->out = many ? 1030 : kind(OUT, n);
    p->w_ld = p->map.heads * s.head_dim + kind(GAP, n);
    p->type = (lh_dtype)kind(WEIGHTS, n);
    p->w = lot_normals(m, p->out * p->w_ld, 0.05f, 9);
    p->typed = p->w;
    if (p->type == LH_F32) return;
    uint16_t *half = lot_bf16(m, p->w, p->out * p->w_ld);
    for (int64_t i = 0; i < p->out * p->w_ld; i++) p->w[i] = lh_bf16_to_f32(half[i]);
    p->typed = half;
}

static int64_t longest_of(const cache *c)
{
    int64_t longest = 0;
    for (int64_t h = 0; h < c->host.heads; h++) longest = c->host.len[h] > longest ? c->host.len[h] : longest;
    return longest;
}

/* KV head of query head i. */
static int64_t head_of(const projection *p, int64_t i)
{
    return (i + p->map.first) / p->map.group;
}

/* The norm of slot s after the columns of query head i in *norm, and the sum of the sizes of all products in *size,
 * which the rounding is relative to. */
static void project_by_hand(const projection *p, int64_t i, int64_t s, double *norm, double *size)
{
    int64_t d = p->c.host.head_dim;
    double v[256];
    for (int64_t k = 0; k < d; k++) v[k] = entry_number(&p->c.host, p->c.host.v, head_of(p, i), s, k);
    *norm = *size = 0;
    for (int64_t o = 0; o < p->out; o++) {
        double sum = 0;
        for (int64_t k = 0; k < d; k++) {
            double product = v[k] * p->w[o * p->w_ld + i * d + k];
            sum += product;
            *size += fabs(product);
        }
        *norm += fabs(sum);
    }
}

/* Of the size of the products: chains of up to 256 roundings in f32; or values that are rounded to bf16. */
START_TEST(test_projected_norms_are_sums_of_sizes_behind_the_projection)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 120; n++) {
            lot m = {0};
            projection p;
            omp_set_num_threads(1 + n % 4);
            projection_make(&m, &p, n);
            int64_t last = last_of(n / 2), most = longest_of(&p.c);
            int64_t ld = (most < last ? most : last) + n % 3, count = p.map.heads * ld;
            lh_ragged kv = rig_cache(&g, &p.c);
            float *y = rig_new(&g, count * 4), *got = lot_new(&m, count * 4);
            const void *w = rig_put(&g, p.typed, p.out * p.w_ld * lh_dtype_bytes(p.type));
            RUN(&g, projected_norms, .y = y, .kv = &kv, .map = p.map, .last = last, .ld = ld, .w = w, .type = p.type,
                .out = p.out, .w_ld = p.w_ld);
            rig_get(&g, got, y, count * 4);
            double eps = p.type == LH_BF16 && p.c.host.type == LH_F32 ? 0x1p-8 : 2e-6;
            for (int64_t i = 0; i < p.map.heads; i++) {
                int64_t len = p.c.host.len[head_of(&p, i)], first = lh_slot_of_last(len, last);
                for (int64_t s = first; s < len; s++) {
                    double norm, size;
                    project_by_hand(&p, i, s, &norm, &size);
                    check_near(&got[i * ld + s - first], &(float){(float)norm}, 1, (tolerance){1e-7, eps * size},
                               "projected_norms, case %d, %s", n, g.ops->name);
                }
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* Rows of norms [query heads, ld] of the last entries, by calls of `heads` query heads each. */
static float *norms_of(lot *m, rig *g, const projection *p, int64_t last, int64_t heads)
{
    int64_t ld = longest_of(&p->c), d = p->c.host.head_dim, bytes = lh_dtype_bytes(p->type), all = p->map.heads * ld;
    float *y = rig_new(g, all * 4), *got = lot_new(m, all * 4);
    lh_ragged kv = rig_cache(g, &p->c);
    const char *w = rig_put(g, p->typed, p->out * p->w_ld * bytes);
    for (int64_t i = 0; i < p->map.heads; i += heads) {
        int64_t n = heads < p->map.heads - i ? heads : p->map.heads - i;
        RUN(g, projected_norms, .y = y + i * ld, .kv = &kv, .map = {n, p->map.group, p->map.first + i}, .last = last,
            .ld = ld, .w = w + i * d * bytes, .type = p->type, .out = p->out, .w_ld = p->w_ld);
    }
    rig_get(g, got, y, all * 4);
    rig_reset(g);
    return got;
}

START_TEST(test_projected_norms_have_the_same_bits_however_entries_heads_and_threads_are_cut)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 60; n++) {
            lot m = {0};
            projection p;
            projection_make(&m, &p, n);
            int64_t ld = longest_of(&p.c), last = last_of(n);
            omp_set_num_threads(1);
            const float *one = norms_of(&m, &g, &p, LH_ALL_ENTRIES, p.map.heads);
            omp_set_num_threads(3);
            const float *other = norms_of(&m, &g, &p, last, 1 + n % 3);
            for (int64_t i = 0; i < p.map.heads; i++) {
                int64_t len = p.c.host.len[head_of(&p, i)], first = lh_slot_of_last(len, last);
                check_same(one + i * ld + first, other + i * ld, (len - first) * 4,
                           "projected_norms of query head %d, case %d, %s", (int)i, n, g.ops->name);
            }
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* ---- second moments ---- */

START_TEST(test_row_moments_are_sums_of_rows_and_of_their_products)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 60; n++) {
            lot m = {0};
            int64_t d = test_dims[n % 10], heads = 1 + n % 3, rows = n % 6 ? test_tokens[n % 6] : 300;
            int64_t ld = heads * d + n % 4, products = heads * d * d;
            float *x = lot_normals(&m, rows * ld, 1.0f, (uint64_t)n);
            const uint16_t *half = lot_bf16(&m, x, rows * ld);
            double *sums = lot_new(&m, heads * d * 8), *outer = lot_new(&m, products * 8);
            for (int64_t i = 0; i < rows * ld && n % 2; i++) x[i] = lh_bf16_to_f32(half[i]);
            for (int64_t i = 0; i < products; i++) outer[i] = (double)i;
            double *sums_on = rig_put(&g, sums, heads * d * 8), *outer_on = rig_put(&g, outer, products * 8);
            omp_set_num_threads(1 + n % 4);
            RUN(&g, row_moments, .sums = n % 5 ? sums_on : NULL, .products = outer_on,
                .x = n % 2 ? rig_put(&g, half, rows * ld * 2) : rig_put(&g, x, rows * ld * 4),
                .type = n % 2 ? LH_BF16 : LH_F32, .rows = rows, .heads = heads, .dim = d, .x_ld = ld);
            rig_get(&g, sums, sums_on, heads * d * 8);
            rig_get(&g, outer, outer_on, products * 8);
            for (int64_t i = 0; i < products; i++) {
                int64_t h = i / d / d, at = h * d + i / d % d;
                double sum = 0, product = (double)i, size = 1;
                for (int64_t r = 0; r < rows; r++) {
                    double one = x[r * ld + at], other = x[r * ld + h * d + i % d];
                    sum += one;
                    product += one * other;
                    size += fabs(one) + fabs(one * other);
                }
                ck_assert_msg(fabs(outer[i] - product) <= 1e-5 * size, "a product of %.9g, it is %.9g, case %d, %s",
                              outer[i], product, n, g.ops->name);
                ck_assert_msg(fabs(sums[at] - (n % 5 ? sum : 0)) <= 1e-6 * size,
                              "a sum of %.9g, it is %.9g, case %d, %s", sums[at], sum, n, g.ops->name);
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* ---- expected attention ---- */

/* Symmetric, not necessarily of a distribution. */
static float *covariances_make(lot *m, int64_t heads, int64_t d, int n)
{
    float *c = lot_normals(m, heads * d * d, 0.05f, (uint64_t)n);
    for (int64_t h = 0; h < heads; h++)
        for (int64_t x = 0; x < d * d; x++) {
            if (x / d < x % d) c[h * d * d + x] = c[h * d * d + x % d * d + x / d];
            if (x / d == x % d) c[h * d * d + x] = 1.0f;
        }
    return c;
}

/* The logit of slot s of KV head h, and in *size the sum of the sizes of its terms, which rounding is relative to. */
static double expected_by_hand(const lh_expected_scores_args *a, const int64_t at[2], int64_t s, double *size)
{
    int64_t d = a->kv->head_dim, i = at[0], h = at[1];
    double logit = a->kv->bias ? a->kv->bias[a->kv->offset[h] + s] : 0, k[256];
    for (int64_t x = 0; x < d; x++) k[x] = entry_number(a->kv, a->kv->k, h, s, x);
    *size = fabs(logit);
    for (int64_t x = 0; x < d; x++) {
        double term = a->scale * a->means[i * d + x] * k[x];
        logit += term;
        *size += fabs(term);
        for (int64_t y = 0; y < d; y++) {
            term = 0.5 * a->scale * a->scale * k[x] * a->covariances[(i * d + x) * d + y] * k[y];
            logit += term;
            *size += fabs(term);
        }
    }
    return logit;
}

/* A row of want, and the error that rounding allows in *rel: of a logit, which is that of its exponential relatively.
 */
static void expect_by_hand(const lh_expected_scores_args *a, int64_t i, double *want, double *rel)
{
    const int64_t h = (a->map.first + i) / a->map.group, at[2] = {i, h};
    double mass = 0, top = -INFINITY, size = 0;
    *rel = 1e-6;
    for (int64_t s = 0; s < a->kv->len[h]; s++) {
        want[s] = 0;
        if (a->state[h * a->ld + s] != LH_ENTRY_COMPETES) continue;
        want[s] = expected_by_hand(a, at, s, &size);
        top = fmax(top, want[s]);
        *rel = fmax(*rel, 1e-6 + 2 * 4e-6 * size);
    }
    for (int64_t s = 0; s < a->kv->len[h]; s++) {
        want[s] = a->state[h * a->ld + s] == LH_ENTRY_COMPETES ? exp(want[s] - top) : 0;
        mass += want[s];
    }
    for (int64_t s = 0; s < a->kv->len[h]; s++) want[s] = mass > 0 ? want[s] / mass : 0;
}

START_TEST(test_expected_scores_are_the_softmax_of_what_queries_give_on_average)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 60; n++) {
            lot m = {0};
            cache c;
            int64_t d = test_dims[n % 10], group = 1 + n % 3, first = n % 4 == 3, heads = 1 + n / 2 % 3;
            shape p = {first + heads, n == 21 ? 4400 : 150, n == 21 ? 20 : d, n / 2 % 2 ? LH_BF16 : LH_F32};
            d = p.head_dim;
            omp_set_num_threads(1 + n % 4);
            values_make(&m, &c, &p, n);
            if (n % 5 > 2) c.host.bias = lot_normals(&m, c.slots, 2.0f, (uint64_t)n + 6);
            int64_t ld = p.longest + n % 3, rows = heads * group;
            uint8_t *state = lot_new(&m, p.heads * ld);
            for (int64_t s = 0; s < p.heads * ld; s++)
                state[s] = n % 9 == 8 ? LH_ENTRY_KEEP : (uint8_t)draw(64, (uint64_t)(n * 1000 + s), 3);
            lh_expected_scores_args a = {.means = lot_normals(&m, rows * d, 1.0f, 5),
                                         .covariances = covariances_make(&m, rows, d, n),
                                         .state = state,
                                         .kv = &c.host,
                                         .map = {rows, group, first * group},
                                         .ld = ld,
                                         .scale = 1.0f / sqrtf((float)d)};
            float *y = rig_new(&g, rows * ld * 4), *got = lot_new(&m, rows * ld * 4);
            double *want = lot_new(&m, ld * 8), rel;
            lh_ragged kv = rig_cache(&g, &c);
            RUN(&g, expected_scores, .y = y, .means = rig_put(&g, a.means, rows * d * 4),
                .covariances = rig_put(&g, a.covariances, rows * d * d * 4), .state = rig_put(&g, state, p.heads * ld),
                .kv = &kv, .map = a.map, .ld = ld, .scale = a.scale);
            rig_get(&g, got, y, rows * ld * 4);
            for (int64_t i = 0; i < rows; i++) {
                expect_by_hand(&a, i, want, &rel);
                for (int64_t s = 0; s < c.host.len[(a.map.first + i) / group]; s++)
                    check_near(&got[i * ld + s], &(float){(float)want[s]}, 1, (tolerance){rel, 1e-30},
                               "expected_scores, case %d, %s", n, g.ops->name);
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* ---- KeyDiff ---- */

static double norm_by_hand(double squares)
{
    return sqrt(squares) > 1e-8 ? sqrt(squares) : 1e-8;
}

static void difference_by_hand(const cache *c, int64_t h, double *y)
{
    const lh_ragged *r = &c->host;
    double mean[256] = {0}, squares = 0;
    for (int64_t s = 0; s < r->len[h]; s++) {
        double norm = norm_by_hand(squares_by_hand(r, r->k, h, s));
        for (int64_t i = 0; i < r->head_dim; i++) mean[i] += entry_number(r, r->k, h, s, i) / norm / (double)r->len[h];
    }
    for (int64_t i = 0; i < r->head_dim; i++) squares += mean[i] * mean[i];
    for (int64_t s = 0; s < r->len[h]; s++) {
        double dot = 0, norm = norm_by_hand(squares_by_hand(r, r->k, h, s));
        for (int64_t i = 0; i < r->head_dim; i++) dot += entry_number(r, r->k, h, s, i) * mean[i];
        y[s] = -dot / norm / norm_by_hand(squares);
    }
}

/* Cosines are off by some roundings of the mean, which is small where many directions cancel. */
START_TEST(test_key_difference_is_the_cosine_with_the_mean_direction)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 90; n++) {
            lot m = {0};
            cache c;
            omp_set_num_threads(1 + n % 4);
            shape p = {n % 5, n % 11 ? 40 : 2600, test_dims[n % 10], n / 2 % 2 ? LH_BF16 : LH_F32};
            values_make(&m, &c, &p, n);
            /* a key of zeros */
            if (p.heads > 0 && c.host.len[0] > 2)
                memset((char *)c.host.k + p.head_dim * lh_dtype_bytes(p.type), 0,
                       (size_t)(p.head_dim * lh_dtype_bytes(p.type)));
            int64_t ld = p.longest + n % 3, count = p.heads * ld;
            float *y = rig_new(&g, count * 4), *got = lot_new(&m, count * 4);
            double *want = lot_new(&m, ld * 8);
            lh_ragged kv = rig_cache(&g, &c);
            RUN(&g, key_difference, .y = y, .kv = &kv, .ld = ld);
            rig_get(&g, got, y, count * 4);
            for (int64_t h = 0; h < p.heads; h++) {
                difference_by_hand(&c, h, want);
                for (int64_t s = 0; s < c.host.len[h]; s++) {
                    float expected = (float)want[s];
                    check_near(&got[h * ld + s], &expected, 1, (tolerance){0, 4e-6}, "key_difference, case %d, %s", n,
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

/* Feature i of an entry of `dim` channels. */
static double feature_by_hand(const float *k, const float *v, int64_t dim, int64_t i)
{
    const float *of = i == 4 * dim || (i < 4 * dim && i / dim % 2 == 0) ? k : v;
    double squares = 0;
    if (i < 4 * dim) return i < 2 * dim ? (double)of[i % dim] : (double)of[i % dim] * (double)of[i % dim];
    if (i == 4 * dim + 2) return 1;
    for (int64_t x = 0; x < dim; x++) squares += (double)of[x] * (double)of[x];
    return log(fmax(sqrt(squares), 1e-6));
}

START_TEST(test_entry_features_are_key_and_value_their_squares_and_their_lengths)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 20; n++) {
            lot m = {0};
            const int64_t dim = test_dims[n % 5], rows = 1 + n * 3, all = lh_feature_count(dim), ld = all + n % 3;
            float *k = lot_normals(&m, rows * dim, 1.0f, n), *v = lot_normals(&m, rows * dim, 1.0f, n + 50);
            if (n % 4 == 0) memset(v, 0, (size_t)dim * sizeof *v);
            float *y = rig_new(&g, rows * ld * 4), *got = lot_new(&m, rows * ld * 4);
            RUN(&g, entry_features, .y = y, .keys = rig_put(&g, k, rows * dim * 4),
                .values = rig_put(&g, v, rows * dim * 4), .rows = rows, .dim = dim, .y_ld = ld);
            rig_get(&g, got, y, rows * ld * 4);
            for (int64_t r = 0; r < rows; r++)
                for (int64_t i = 0; i < all; i++) {
                    const float want = (float)feature_by_hand(k + r * dim, v + r * dim, dim, i);
                    check_near(&got[r * ld + i], &want, 1, (tolerance){2e-6, 2e-6}, "entry_features, case %d, %s", n,
                               g.ops->name);
                }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* The key and the value of an entry, and the key as it was before operation rope: [head_dim] each. */
static void plain_entry_by_hand(const lh_ragged *r, const lh_rope_args *by, int64_t h, int64_t s, float *k, float *v)
{
    const int64_t half = by->rotary / 2;
    const float position = (float)(r->positions ? r->positions[r->offset[h] + s] : s);
    for (int64_t i = 0; i < r->head_dim; i++) {
        k[i] = (float)entry_number(r, r->k, h, s, i);
        v[i] = (float)entry_number(r, r->v, h, s, i);
    }
    for (int64_t i = 0; i < half; i++) {
        const double angle = (double)(position * by->inv_freq[i]), low = (double)k[i], high = (double)k[i + half];
        k[i] = (float)((low * cos(angle) + high * sin(angle)) / (double)by->scale);
        k[i + half] = (float)((high * cos(angle) - low * sin(angle)) / (double)by->scale);
    }
}

static double linear_by_hand(const float *w, const float *k, const float *v, int64_t dim)
{
    double sum = 0;
    for (int64_t i = 0; i < lh_feature_count(dim); i++) sum += (double)w[i] * feature_by_hand(k, v, dim, i);
    return sum;
}

/* Some thousand roundings of terms of 0.1. */
START_TEST(test_linear_scores_are_weights_times_features_of_keys_rotated_back)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 60; n++) {
            lot m = {0};
            cache c;
            omp_set_num_threads(1 + n % 4);
            const shape p = {n % 5, n % 11 ? 40 : 700, test_dims[n % 10], n / 2 % 2 ? LH_BF16 : LH_F32};
            values_make(&m, &c, &p, n);
            const int64_t d = p.head_dim, all = lh_feature_count(d), ld = p.longest + n % 3, w_ld = all + n % 2;
            const int64_t rotary = n % 4 == 3 ? 0 : n % 4 == 2 ? d / 4 * 2 : d / 2 * 2;
            float *freq = lot_new(&m, (d + 1) * 4), *w = lot_normals(&m, p.heads * w_ld, 0.1f, n + 7);
            float *k = lot_new(&m, d * 4), *v = lot_new(&m, d * 4), *got = lot_new(&m, p.heads * ld * 4);
            for (int64_t i = 0; i < rotary / 2; i++) freq[i] = powf(10000.0f, -2.0f * (float)i / (float)rotary);
            const lh_rope_args by = {.inv_freq = freq, .rotary = rotary, .scale = n % 3 ? 1.0f : 1.25f};
            lh_ragged kv = rig_cache(&g, &c);
            float *y = rig_new(&g, p.heads * ld * 4);
            RUN(&g, linear_scores, .y = y, .w = rig_put(&g, w, p.heads * w_ld * 4), .kv = &kv,
                .inv_freq = rig_put(&g, freq, (d + 1) * 4), .rotary = rotary, .scale = by.scale, .ld = ld,
                .w_ld = w_ld);
            rig_get(&g, got, y, p.heads * ld * 4);
            for (int64_t h = 0; h < p.heads; h++)
                for (int64_t s = 0; s < c.host.len[h]; s++) {
                    plain_entry_by_hand(&c.host, &by, h, s, k, v);
                    const float want = (float)linear_by_hand(w + h * w_ld, k, v, d);
                    check_near(&got[h * ld + s], &want, 1, (tolerance){3e-5, 2e-6}, "linear_scores, case %d, %s", n,
                               g.ops->name);
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
    const TTest *const tests[] = {test_entry_norms_are_those_of_keys_or_values,
                                  test_value_ranges_are_exact,
                                  test_projected_norms_are_sums_of_sizes_behind_the_projection,
                                  test_projected_norms_have_the_same_bits_however_entries_heads_and_threads_are_cut,
                                  test_row_moments_are_sums_of_rows_and_of_their_products,
                                  test_expected_scores_are_the_softmax_of_what_queries_give_on_average,
                                  test_key_difference_is_the_cosine_with_the_mean_direction,
                                  test_entry_features_are_key_and_value_their_squares_and_their_lengths,
                                  test_linear_scores_are_weights_times_features_of_keys_rotated_back,
                                  NULL};
    return rig_run("kernels/norms", tests);
}
