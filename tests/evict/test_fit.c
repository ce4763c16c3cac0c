#include "evict/fit.h"

#include <math.h>
#include <string.h>

#include "cases.h"
#include "exec/scratch.h"
#include "rig.h"

enum { HEADS, GROUP, ROWS, DIM, KEPT, TYPE, ORDER, WINDOW, CAP, PARTS, SUMS };
static const dimension kinds[] = {
    [HEADS] = {"KV heads", 3, {1, 2, 3}},
    [GROUP] = {"group", 3, {1, 2, 3}},
    [ROWS] = {"rows", 4, {1, 5, 17, 40}},
    [DIM] = {"head_dim", 4, {1, 8, 20, 64}},
    [KEPT] = {"tenths that stay", 5, {0, 1, 3, 7, 9}},
    [TYPE] = {"type", 2, {LH_F32, LH_BF16}, {"f32", "bf16"}},
    [ORDER] = {"slots", 3, {CACHE_SLOTS, CACHE_GAPS, CACHE_SHUFFLED}, {"are positions", "with gaps", "shuffled"}},
    [WINDOW] = {"window", 3, {0, 0, 60}},
    [CAP] = {"soft cap", 3, {0, 0, 5}},
    [PARTS] = {"fit", 3, {0, 1, 2}, {"both", "bias", "values"}},
    [SUMS] = {"order of sums", 2, {LH_ORDER_FIXED, LH_ORDER_ANY}, {"fixed", "any"}},
};

static int64_t kind(int which, int n)
{
    return case_value(&kinds[which], n);
}

/* One layer: all entries, those that stay, and the rows. Host memory. */
typedef struct layer {
    cache all, kept;
    lh_observed rows; /* kv is not set */
    float *q;
    int32_t *positions;
    double *lse, *outputs; /* [rows, heads], [rows, heads, head_dim]: worked out here */
} layer;

/* Slot `from` of the entries becomes the last one of head h of those that stay. */
static void keep(layer *l, int64_t h, int64_t from)
{
    const lh_ragged *a = &l->all.host, *b = &l->kept.host;
    const int64_t vector = a->head_dim * lh_dtype_bytes(a->type), src = a->offset[h] + from,
                  dst = b->offset[h] + b->len[h]++;
    memcpy((char *)b->k + dst * vector, (char *)a->k + src * vector, (size_t)vector);
    memcpy((char *)b->v + dst * vector, (char *)a->v + src * vector, (size_t)vector);
    b->positions[dst] = (int32_t)cache_position(a, h, from);
    b->bias[dst] = a->bias ? a->bias[src] : 0.0f;
}

/* Room for all of them, with other slots before each head than there were. */
static void open_kept(lot *m, layer *l)
{
    const lh_ragged *a = &l->all.host;
    const int64_t slots = l->all.slots + 3 * a->heads, bytes = slots * a->head_dim * lh_dtype_bytes(a->type);
    int64_t *offset = lot_new(m, a->heads * 8);
    for (int64_t h = 0; h < a->heads; h++) offset[h] = a->offset[h] + 3 * h;
    l->kept = (cache){.host = *a, .slots = slots};
    l->kept.host.k = lot_new(m, bytes);
    l->kept.host.v = lot_new(m, bytes);
    l->kept.host.positions = lot_new(m, slots * 4);
    l->kept.host.bias = lot_new(m, slots * 4);
    l->kept.host.offset = offset;
    l->kept.host.len = lot_new(m, a->heads * 8);
}

/* The weight that row r of query head i gives to a slot of a head without its bias, before it is divided by the sum of
 * all. */
static double mass(const layer *l, const lh_ragged *kv, int64_t r, int64_t i, int64_t s)
{
    const lh_observed *o = &l->rows;
    const int64_t h = i / o->map.group, d = kv->head_dim, p = cache_position(kv, h, s);
    double x = 0;
    if (p > l->positions[r] || (o->logit.window && p <= l->positions[r] - o->logit.window)) return 0;
    for (int64_t c = 0; c < d; c++)
        x += l->q[r * o->q_ld + i * d + c] * cache_number(kv, kv->k, (kv->offset[h] + s) * d + c);
    x *= o->logit.scale;
    return exp(o->logit.softcap > 0 ? o->logit.softcap * tanh(x / o->logit.softcap) : x);
}

/* Log-sum-exps and outputs over all entries. */
static void observe(lot *m, layer *l)
{
    const lh_ragged *kv = &l->all.host;
    const int64_t heads = l->rows.map.heads, d = kv->head_dim;
    l->lse = lot_new(m, l->rows.rows * heads * 8);
    l->outputs = lot_new(m, l->rows.rows * heads * d * 8);
    for (int64_t n = 0; n < l->rows.rows * heads; n++) {
        const int64_t i = n % heads, h = i / l->rows.map.group;
        double sum = 0, *o = l->outputs + n * d;
        for (int64_t s = 0; s < kv->len[h]; s++) {
            double x = mass(l, kv, n / heads, i, s) * exp(kv->bias ? kv->bias[kv->offset[h] + s] : 0.0);
            sum += x;
            for (int64_t c = 0; c < d; c++) o[c] += x * cache_number(kv, kv->v, (kv->offset[h] + s) * d + c);
        }
        for (int64_t c = 0; c < d && sum > 0; c++) o[c] /= sum;
        l->lse[n] = sum > 0 ? log(sum) : -INFINITY;
    }
}

/* Rows after the entries see all of them, but for a window; the first is before them all and sees nothing. */
static void place_rows(lot *m, layer *l, int64_t seen, int n)
{
    const int64_t heads = l->all.host.heads * kind(GROUP, n), d = l->all.host.head_dim;
    l->rows = (lh_observed){
        .map = {.heads = heads, .group = kind(GROUP, n)},
        .logit = {.scale = 1.5f / sqrtf((float)d), .softcap = (float)kind(CAP, n), .window = kind(WINDOW, n)},
        .rows = kind(ROWS, n),
        .q_ld = heads * d + n % 3};
    l->q = lot_normals(m, l->rows.rows * l->rows.q_ld, 1.0f, 5);
    l->positions = lot_new(m, l->rows.rows * 4);
    for (int64_t r = 0; r < l->rows.rows; r++) l->positions[r] = (int32_t)(r == 0 && n % 4 == 1 ? -1 : seen + r);
    observe(m, l);
}

static void make_layer(lot *m, layer *l, int n)
{
    const int64_t heads = kind(HEADS, n), seen = 150;
    int64_t *len = lot_new(m, heads * 8);
    *l = (layer){0};
    for (int64_t h = 0; h < heads; h++) {
        len[h] = 40 + draw(1, (uint64_t)(10 * n + h), 60);
    }
    cache_make(m, &l->all,
               &(cache_spec){.heads = heads,
                             .head_dim = kind(DIM, n),
                             .slack = n % 3,
                             .last = seen,
                             .len = len,
                             .type = (lh_dtype)kind(TYPE, n),
                             .order = (cache_order)kind(ORDER, n),
                             .seed = (uint64_t)n,
                             .bias = n % 3 == 2 ? 0.5f : 0.0f});
    open_kept(m, l);
    for (int64_t h = 0; h < heads; h++) /* the last head keeps everything where there are several */
        for (int64_t s = 0; s < len[h]; s++)
            if ((h > 0 && h == heads - 1) || draw(2, (uint64_t)(1000 * n + 100 * h + s), 10) < kind(KEPT, n) ||
                (h == 0 && s == 7 && n % 2))
                keep(l, h, s);
    place_rows(m, l, seen, n);
}

/* What a backend makes of it: host memory, by slots of `kept`. */
typedef struct fitted {
    float *bias, *values; /* values: as floats */
    void *v;              /* as they are */
    double *outputs;      /* as in layer */
} fitted;

static const lh_fit_strength to_the_end[2] = {{1e-2f, 60}, {1e-1f, 60}};

/* `only`: of a head alone, or -1: of all. strength: of bias and values. */
static fitted fit(lot *m, rig *g, const layer *l, int n, int64_t only, const lh_fit_strength strength[2])
{
    const lh_ragged *kept = &l->kept.host;
    const int64_t d = kept->head_dim, first = only < 0 ? 0 : only, group = l->rows.map.group, heads = l->rows.map.heads,
                  vectors = l->kept.slots * d * lh_dtype_bytes(kept->type);
    lh_scratch scratch = {0};
    const lh_exec exec = {.ops = g->ops, .stream = g->stream, .scratch = &scratch};
    float *lse = lot_new(m, l->rows.rows * heads * 4);
    for (int64_t i = 0; i < l->rows.rows * heads; i++) lse[i] = (float)l->lse[i];
    lh_ragged all = rig_cache(g, &l->all), some = rig_cache(g, &l->kept);
    lh_fit f = {.rows = l->rows,
                .lse = (float *)rig_put(g, lse, l->rows.rows * heads * 4) + first * group,
                .lse_ld = heads,
                .offset = l->all.host.offset + first,
                .len = l->all.host.len + first,
                .before = l->all.host.len + first,
                .keeps_values = kind(PARTS, n) == 1,
                .order = (lh_order)kind(SUMS, n),
                .of_bias = strength[0],
                .of_values = strength[1]};
    if (only >= 0) {
        f.rows.map.heads = group;
        all.heads = some.heads = 1;
        all.offset += first, all.len += first, some.offset += first, some.len += first;
    }
    f.rows.q = (float *)rig_put(g, l->q, l->rows.rows * l->rows.q_ld * 4) + first * group * d;
    f.rows.positions = rig_put(g, l->positions, l->rows.rows * 4);
    f.rows.kv = &all;
    f.outputs = rig_new(g, lh_fit_output_bytes(&f));
    lh_fit_outputs(&exec, &f);
    f.rows.kv = &some;
    f.offset = kept->offset + first;
    f.len = kept->len + first;
    f.keeps_bias = kind(PARTS, n) == 2;
    lh_fit_entries(&exec, &f);
    ck_assert_msg(lh_exec_take(&exec) == LH_OK, "%s%s", lh_error_message(), case_words());

    fitted out = {.bias = lot_new(m, l->kept.slots * 4),
                  .values = lot_new(m, l->kept.slots * d * 4),
                  .v = lot_new(m, vectors),
                  .outputs = lot_new(m, l->rows.rows * heads * d * 8)};
    float *o = lot_new(m, lh_fit_output_bytes(&f));
    rig_get(g, out.bias, some.bias, l->kept.slots * 4);
    rig_get(g, out.v, some.v, vectors);
    rig_get(g, o, f.outputs, lh_fit_output_bytes(&f));
    lh_ragged now = *kept;
    now.v = out.v;
    for (int64_t i = 0; i < l->kept.slots * d; i++) out.values[i] = (float)cache_number(&now, now.v, i);
    for (int64_t i = 0; i < heads && only < 0; i++)
        for (int64_t r = 0; r < l->rows.rows; r++)
            for (int64_t c = 0; c < d; c++) {
                int64_t at = ((i / group * (d + 1) + c) * group + i % group) * l->rows.rows + r;
                out.outputs[(r * heads + i) * d + c] = o[at];
            }
    rig_reset(g);
    return out;
}

static void on_all_backends(int cases, void (*one)(rig *g, lot *m, int n))
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < cases / (rig_scale(&g) > 1 ? 6 : 1); n++) {
            lot m = {0};
            one(&g, &m, n);
            lot_end(&m);
        }
        rig_close(&g);
    }
}

/* ---- against numpy ---- */

/* Two query heads of one KV head; of 9 entries 0, 2, 3, 6 and 8 stay. */
static void make_small(lot *m, layer *l)
{
    enum { D = 3, LEN = 9, ALL_ROWS = 6 };
    const int64_t len = LEN, kept[] = {0, 2, 3, 6, 8};
    *l = (layer){0};
    cache_make(m, &l->all, &(cache_spec){.heads = 1, .head_dim = D, .last = LEN, .len = &len, .type = LH_F32});
    for (int i = 0; i < LEN * D; i++) {
        ((float *)l->all.host.k)[i] = (float)(1.3 * sin(1.0 + 1.7 * i));
        ((float *)l->all.host.v)[i] = (float)cos(0.3 + 1.1 * i);
    }
    open_kept(m, l);
    for (int i = 0; i < 5; i++) keep(l, 0, kept[i]);
    l->rows = (lh_observed){.map = {2, 2, 0}, .logit = {.scale = 0.5f}, .rows = ALL_ROWS, .q_ld = 2 * D};
    l->q = lot_new(m, ALL_ROWS * 2 * D * 4);
    l->positions = lot_new(m, ALL_ROWS * 4);
    for (int i = 0; i < ALL_ROWS * 2 * D; i++) l->q[i] = (float)(1.5 * cos(0.5 + 2.3 * i));
    for (int r = 0; r < ALL_ROWS; r++) l->positions[r] = 100;
    observe(m, l);
}

/* numpy, f64: both regressions by numpy.linalg.solve of their normal equations, factors clipped to e^-3 .. e^3, of
 * which 0.716 of the way from 1 leaves the least. */
START_TEST(test_steps_to_the_end_give_the_numbers_of_numpy)
{
    const float bias[] = {0.842617588f, 0.796974659f, 1.02028945f, 0.161885009f, -1.14049938f};
    const float values[] = {0.346360096f,   0.237919984f,  -0.130520908f, 0.188876267f,   0.152110651f,
                            -0.0508826681f, -0.125047342f, -0.166191294f, -0.0257201261f, -0.229998075f,
                            -0.497670293f,  -0.221484556f, 0.0141367197f, -0.915878929f,  -0.845014992f};
    int both = 0;
    while (kind(PARTS, both) != 0) both++;
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        lot m = {0};
        layer l;
        rig_open(&g, rig_backend(b));
        make_small(&m, &l);
        fitted f = fit(&m, &g, &l, both, -1, to_the_end);
        check_near(f.bias, bias, 5, (tolerance){0, 1e-4}, "bias, %s", g.ops->name);
        check_near(f.values, values, 15, (tolerance){0, 1e-4}, "values, %s", g.ops->name);
        lot_end(&m);
        rig_close(&g);
    }
}
END_TEST

/* ---- laws ---- */

/* Of the rows of KV head h: the square of what their weights, with a bias, miss of 1; and, with those weights as shares
 * of their sum, of what their outputs are beside those over all entries. */
typedef struct residual {
    double missed, off;
} residual;

static residual residual_of(const layer *l, int64_t h, const float *bias, const float *values)
{
    const lh_ragged *kv = &l->kept.host;
    const int64_t heads = l->rows.map.heads, group = l->rows.map.group, d = kv->head_dim, at = kv->offset[h];
    residual out = {0};
    for (int64_t r = 0; r < l->rows.rows; r++)
        for (int64_t i = h * group; i < (h + 1) * group; i++) {
            const double lse = l->lse[r * heads + i];
            double sum = 0, o[64] = {0};
            for (int64_t s = 0; s < kv->len[h] && lse != -INFINITY; s++) {
                double x = mass(l, kv, r, i, s) * exp((bias ? bias[at + s] : 0.0) - lse);
                sum += x;
                for (int64_t c = 0; c < d; c++) o[c] += x * values[(at + s) * d + c];
            }
            out.missed += lse == -INFINITY ? 0 : (1 - sum) * (1 - sum);
            for (int64_t c = 0; c < d && sum > 0; c++) {
                double off = o[c] / sum - l->outputs[(r * heads + i) * d + c];
                out.off += off * off;
            }
        }
    return out;
}

/* A bf16 value is rounded by 2^-9 of it at most. */
static double rounding(const layer *l, int64_t h, const float *values)
{
    const lh_ragged *kv = &l->kept.host;
    double largest = 0;
    for (int64_t i = 0; i < kv->len[h] * kv->head_dim; i++)
        largest = fmax(largest, fabs(values[kv->offset[h] * kv->head_dim + i]));
    double each = kv->type == LH_BF16 ? 0x1p-9 * largest : 1e-6 * largest;
    return each * sqrt((double)(l->rows.rows * l->rows.map.group * kv->head_dim));
}

static void never_worse(rig *g, lot *m, int n)
{
    const lh_fit_strength usual[2] = {lh_fit_usual_bias, lh_fit_usual_values};
    layer l;
    make_layer(m, &l, n);
    const lh_ragged *kv = &l.kept.host;
    const fitted f = fit(m, g, &l, n, -1, usual);
    l.outputs = f.outputs; /* that values were fitted to */
    float *old = lot_new(m, l.kept.slots * kv->head_dim * 4);
    for (int64_t i = 0; i < l.kept.slots * kv->head_dim; i++) old[i] = (float)cache_number(kv, kv->v, i);
    for (int64_t h = 0; h < kv->heads; h++) {
        const residual plain = residual_of(&l, h, NULL, old), biased = residual_of(&l, h, f.bias, old),
                       now = residual_of(&l, h, f.bias, f.values);
        const int fits = kind(PARTS, n) != 2 && kv->len[h] != l.all.host.len[h];
        for (int64_t s = 0; s < kv->len[h] && fits; s++)
            ck_assert_msg(fabsf(f.bias[kv->offset[h] + s]) <= 3.00001f, "a bias%s", case_words());
        if (fits && sqrt(biased.missed) > sqrt(plain.missed) * (1 + 1e-5) + 1e-5)
            ck_abort_msg("%s: head %lld misses %g with biases, %g without%s", g->ops->name, (long long)h,
                         sqrt(biased.missed), sqrt(plain.missed), case_words());
        if (sqrt(now.off) > sqrt(biased.off) * (1 + 1e-5) + rounding(&l, h, f.values))
            ck_abort_msg("%s: head %lld is off by %g with fitted values, %g without%s", g->ops->name, (long long)h,
                         sqrt(now.off), sqrt(biased.off), case_words());
    }
}

START_TEST(test_what_rows_miss_and_are_off_by_never_grows)
{
    on_all_backends(48, never_worse);
}
END_TEST

/* And what is not of its entries is not written. */
static void all_stays(rig *g, lot *m, int n)
{
    const lh_fit_strength usual[2] = {lh_fit_usual_bias, lh_fit_usual_values};
    layer l;
    make_layer(m, &l, n);
    const lh_ragged *kv = &l.kept.host;
    const int64_t vector = kv->head_dim * lh_dtype_bytes(kv->type);
    const fitted f = fit(m, g, &l, n, -1, usual);
    for (int64_t h = 0, s = 0; h < kv->heads; h++) {
        const int64_t end = kv->offset[h] + (kv->len[h] == l.all.host.len[h] ? kv->len[h] : 0);
        check_same((char *)f.v + s * vector, (char *)kv->v + s * vector, (end - s) * vector, "values, %s",
                   g->ops->name);
        check_same(f.bias + s, kv->bias + s, (end - s) * 4, "bias, %s", g->ops->name);
        s = kv->offset[h] + kv->len[h];
    }
}

START_TEST(test_a_head_that_keeps_everything_keeps_every_bit)
{
    on_all_backends(24, all_stays);
}
END_TEST

/* So the bits are the same on any number of ranks. */
static void alone_or_not(rig *g, lot *m, int n)
{
    const lh_fit_strength usual[2] = {lh_fit_usual_bias, lh_fit_usual_values};
    layer l;
    if (kind(SUMS, n) != LH_ORDER_FIXED) return;
    make_layer(m, &l, n);
    const lh_ragged *kv = &l.kept.host;
    const int64_t vector = kv->head_dim * lh_dtype_bytes(kv->type);
    const fitted all = fit(m, g, &l, n, -1, usual);
    for (int64_t h = 0; h < kv->heads; h++) {
        const int64_t at = kv->offset[h];
        const fitted one = fit(m, g, &l, n, h, usual);
        check_same((char *)one.v + at * vector, (char *)all.v + at * vector, kv->len[h] * vector, "values, %s",
                   g->ops->name);
        check_same(one.bias + at, all.bias + at, kv->len[h] * 4, "bias, %s", g->ops->name);
    }
}

START_TEST(test_a_head_has_the_bits_that_it_has_alone)
{
    on_all_backends(36, alone_or_not);
}
END_TEST

/* Directions that no row determines are left to the ridge and to the rounding of the steps: hence no case with fewer
 * than 5 rows, and 1e-3. A bf16 value may be rounded to a neighbour; weights and queries in bf16 are off by 2^-9. */
static void compare(rig *g, lot *m, int n)
{
    const lh_fit_strength usual[2] = {lh_fit_usual_bias, lh_fit_usual_values};
    rig ref;
    layer l;
    if (kind(ROWS, n) * kind(GROUP, n) < 5) return;
    rig_open(&ref, rig_backend(0));
    make_layer(m, &l, n);
    const int64_t numbers = l.rows.rows * l.rows.map.heads * l.all.host.head_dim;
    const int rounds = l.kept.host.type == LH_BF16 && kind(SUMS, n) == LH_ORDER_ANY;
    const fitted got = fit(m, g, &l, n, -1, usual), want = fit(m, &ref, &l, n, -1, usual);
    float *outputs = lot_new(m, numbers * 4), *definition = lot_new(m, numbers * 4);
    for (int64_t i = 0; i < numbers; i++) {
        outputs[i] = (float)got.outputs[i];
        definition[i] = (float)l.outputs[i];
    }
    check_near(outputs, definition, numbers, (tolerance){1e-5, rounds ? 4e-2 : 1e-5}, "outputs, %s", g->ops->name);
    for (int64_t h = 0; h < l.kept.host.heads; h++) {
        const int64_t at = l.kept.host.offset[h], len = l.kept.host.len[h], d = l.kept.host.head_dim;
        check_near(got.bias + at, want.bias + at, len, (tolerance){0, 1e-3}, "bias, %s", g->ops->name);
        check_near(got.values + at * d, want.values + at * d, len * d,
                   (tolerance){l.kept.host.type == LH_BF16 ? 0x1p-7 : 0, rounds ? 2e-2 : 1e-3}, "values, %s",
                   g->ops->name);
    }
    rig_close(&ref);
}

START_TEST(test_every_backend_fits_as_ref_does)
{
    on_all_backends(48, compare);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_steps_to_the_end_give_the_numbers_of_numpy,
                                  test_what_rows_miss_and_are_off_by_never_grows,
                                  test_a_head_that_keeps_everything_keeps_every_bit,
                                  test_a_head_has_the_bits_that_it_has_alone,
                                  test_every_backend_fits_as_ref_does,
                                  NULL};
    return rig_run("evict/fit", tests);
}
