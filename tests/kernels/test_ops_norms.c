#include <math.h>
#include <omp.h>
#include <string.h>

#include "numbers.h"
#include "suite.h"

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

/* The first slots to be looked at, on the device: NULL in every third case. */
static int64_t *from_make(lot *m, rig *g, const cache *c, int n, int64_t **host)
{
    int64_t heads = c->host.heads;
    *host = lot_new(m, heads * 8);
    if (n % 3 == 0) return NULL;
    for (int64_t h = 0; h < heads; h++) (*host)[h] = draw(61, (uint64_t)(n * 10 + h), c->host.len[h] + 2);
    return rig_put(g, *host, heads * 8);
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
    for (int b = 0; lh_ops_at(b); b++) {
        rig g;
        rig_open(&g, lh_ops_at(b));
        for (int n = 0; n < 120; n++) {
            lot m = {0};
            cache c;
            numbers y;
            int64_t *from;
            omp_set_num_threads(1 + n % 4);
            shape p = {n % 5, n % 11 ? 40 : 2100, test_dims[n % 10], n / 2 % 2 ? LH_BF16 : LH_F32};
            values_make(&m, &c, &p, n);
            numbers_make(&m, &y, &c, 2, (number_layout)(n % 2));
            lh_ragged kv = rig_cache(&g, &c);
            lh_slot_floats on = numbers_put(&g, &y, &kv);
            const int64_t *from_on = from_make(&m, &g, &c, n, &from);
            lh_entry_part part = (lh_entry_part)(n / 4 % 2);
            lh_norm_kind kind = (lh_norm_kind)(n % 3);
            RUN(&g, entry_norms, .y = on, .kv = &kv, .from = from_on, .part = part, .kind = kind);
            for (int64_t h = 0; h < p.heads; h++) {
                for (int64_t s = from[h]; s < c.host.len[h]; s++) {
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

/* ---- norms behind the output projection ---- */

typedef struct projection {
    cache c;
    lh_grouping map;
    float *w;          /* [out, w_ld], exact in bf16 where that is the type */
    const void *typed; /* the same of type */
    lh_dtype type;
    int64_t out, w_ld;
} projection;

static void projection_make(lot *m, projection *p, int n)
{
    const int64_t outs[] = {1, 7, 0, 129, 200, 577};
    int64_t many = n % 9 == 0, kv_heads = many ? 1 : 1 + n % 4, group = many ? 2 : 1 + n / 3 % 4;
    int64_t first = n % 5 == 4 ? group / 2 : 0;
    int64_t last = n % 5 == 3 && group > 1 ? 1 : 0; /* query heads of the last group that are elsewhere */
    shape s = {kv_heads, many ? 1500 : 45, test_dims[many ? n % 5 : n % 10], n % 2 ? LH_BF16 : LH_F32};
    values_make(m, &p->c, &s, n);
    p->map = (lh_grouping){kv_heads * group - first - last, group, first};
    p->out = many ? 1030 : outs[n / 2 % 6];
    p->w_ld = p->map.heads * s.head_dim + n % 3;
    p->type = n / 2 % 2 ? LH_BF16 : LH_F32;
    p->w = lot_normals(m, p->out * p->w_ld, 0.05f, 9);
    p->typed = p->w;
    if (p->type == LH_F32) return;
    uint16_t *half = lot_bf16(m, p->w, p->out * p->w_ld);
    for (int64_t i = 0; i < p->out * p->w_ld; i++) p->w[i] = lh_bf16_to_f32(half[i]);
    p->typed = half;
}

/* The norm of slot s of KV head h in *norm, and the sum of the sizes of all products in *size, which the rounding is
 * relative to. */
static void project_by_hand(const projection *p, int64_t h, int64_t s, double *norm, double *size)
{
    int64_t d = p->c.host.head_dim;
    double v[256];
    for (int64_t k = 0; k < d; k++) v[k] = entry_number(&p->c.host, p->c.host.v, h, s, k);
    *norm = *size = 0;
    for (int64_t i = 0; i < p->map.heads; i++) {
        if ((i + p->map.first) / p->map.group != h) continue;
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
}

/* Of the size of the products: chains of up to 256 roundings in f32; or values that are rounded to bf16. */
START_TEST(test_projected_norms_are_sums_of_sizes_behind_the_projection)
{
    for (int b = 0; lh_ops_at(b); b++) {
        rig g;
        rig_open(&g, lh_ops_at(b));
        for (int n = 0; n < 120; n++) {
            lot m = {0};
            projection p;
            numbers y;
            int64_t *from;
            omp_set_num_threads(1 + n % 4);
            projection_make(&m, &p, n);
            numbers_make(&m, &y, &p.c, 1, (number_layout)(n / 2 % 2));
            lh_ragged kv = rig_cache(&g, &p.c);
            lh_slot_floats on = numbers_put(&g, &y, &kv);
            const int64_t *from_on = from_make(&m, &g, &p.c, n, &from);
            float factor = 1.0f / (float)p.map.group;
            const void *w = rig_put(&g, p.typed, p.out * p.w_ld * lh_dtype_bytes(p.type));
            RUN(&g, projected_norms, .y = on, .kv = &kv, .map = p.map, .from = from_on, .w = w, .type = p.type,
                .out = p.out, .w_ld = p.w_ld, .factor = factor);
            float *got = numbers_get(&m, &g, &y, &on);
            double eps = p.type == LH_BF16 && p.c.host.type == LH_F32 ? 0x1p-8 : 2e-6;
            for (int64_t h = 0; h < kv.heads; h++) {
                for (int64_t s = from[h]; s < p.c.host.len[h]; s++) {
                    double norm, size;
                    project_by_hand(&p, h, s, &norm, &size);
                    int64_t at = numbers_index(&y, h, s, 0);
                    y.data[at] = (float)(factor * norm);
                    check_near(got + at, y.data + at, 1, (tolerance){1e-7, eps * factor * size},
                               "projected_norms, case %d, %s", n, g.ops->name);
                    got[at] = y.data[at];
                }
            }
            check_same(got, y.data, y.count * 4, "what projected_norms leaves alone, case %d, %s", n, g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* Rows of norms [heads, ld], one number a query head, as a rank makes them that has the query heads [i, end): a call
 * each for the slots from `split` on and for those before. */
static float *norms_of(lot *m, rig *g, const projection *p, int64_t split)
{
    int64_t ld = 0, d = p->c.host.head_dim, heads = p->c.host.heads, bytes = lh_dtype_bytes(p->type);
    for (int64_t h = 0; h < heads; h++) ld = p->c.host.len[h] > ld ? p->c.host.len[h] : ld;
    int64_t *from = lot_new(m, heads * 8), *before = lot_new(m, heads * 8);
    float *y = rig_new(g, p->map.heads * ld * 4), *got = lot_new(m, p->map.heads * ld * 4);
    for (int64_t h = 0; h < heads; h++) {
        int64_t len = p->c.host.len[h];
        from[h] = before[h] = split < len ? split : len;
    }
    lh_ragged kv = rig_cache(g, &p->c);
    const int64_t *from_on = rig_put(g, from, heads * 8), *len = kv.len;
    int64_t *before_on = rig_put(g, before, heads * 8);
    const char *w = rig_put(g, p->typed, p->out * p->w_ld * bytes);
    for (int64_t i = 0; i < p->map.heads; i++) {
        int64_t h = (p->map.first + i) / p->map.group;
        for (int part = 0; part < 2; part++) {
            lh_ragged one = kv;
            one.heads = 1;
            one.offset = kv.offset + h;
            one.len = part ? (int64_t *)len + h : before_on + h;
            RUN(g, projected_norms, .y = {.at = y + i * ld, .step = 1}, .kv = &one, .map = {1, 1, 0},
                .from = part ? from_on + h : NULL, .w = w + i * d * bytes, .type = p->type, .out = p->out,
                .w_ld = p->w_ld, .factor = 1.0f);
        }
    }
    rig_get(g, got, y, p->map.heads * ld * 4);
    rig_reset(g);
    return got;
}

START_TEST(test_projected_norms_have_the_same_bits_however_entries_heads_and_threads_are_cut)
{
    for (int b = 0; lh_ops_at(b); b++) {
        rig g;
        rig_open(&g, lh_ops_at(b));
        for (int n = 0; n < 60; n++) {
            lot m = {0};
            projection p;
            numbers whole;
            projection_make(&m, &p, n);
            int64_t ld = 0, group = p.map.group;
            for (int64_t h = 0; h < p.c.host.heads; h++) ld = p.c.host.len[h] > ld ? p.c.host.len[h] : ld;
            omp_set_num_threads(1);
            const float *one = norms_of(&m, &g, &p, 0);
            omp_set_num_threads(3);
            const float *other = norms_of(&m, &g, &p, n % 3 ? n : 160);
            for (int64_t i = 0; i < p.map.heads; i++)
                check_same(one + i * ld, other + i * ld, p.c.host.len[(p.map.first + i) / group] * 4,
                           "projected_norms of a query head, case %d, %s", n, g.ops->name);
            numbers_make(&m, &whole, &p.c, 1, NUMBERS_ROWS);
            lh_ragged kv = rig_cache(&g, &p.c);
            lh_slot_floats on = numbers_put(&g, &whole, &kv);
            const void *w = rig_put(&g, p.typed, p.out * p.w_ld * lh_dtype_bytes(p.type));
            RUN(&g, projected_norms, .y = on, .kv = &kv, .map = p.map, .w = w, .type = p.type, .out = p.out,
                .w_ld = p.w_ld, .factor = 1.0f);
            const float *got = numbers_get(&m, &g, &whole, &on);
            for (int64_t i = 0; i < p.map.heads && group == 1; i++)
                check_same(got + i * whole.host.ld, one + i * ld, p.c.host.len[i] * 4,
                           "projected_norms of all heads, case %d, %s", n, g.ops->name);
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
    for (int b = 0; lh_ops_at(b); b++) {
        rig g;
        rig_open(&g, lh_ops_at(b));
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

int main(void)
{
    const TTest *const tests[] = {test_entry_norms_are_those_of_keys_or_values,
                                  test_projected_norms_are_sums_of_sizes_behind_the_projection,
                                  test_projected_norms_have_the_same_bits_however_entries_heads_and_threads_are_cut,
                                  test_key_difference_is_the_cosine_with_the_mean_direction, NULL};
    return suite_run("kernels/norms", tests);
}
