/* LagKV's scores, by their formula in double. Ranks are exact but where two entries of a part are closer than rounding:
 * there a rank may be any between. */
#include <math.h>
#include <omp.h>

#include "cases.h"
#include "rig.h"

enum { HEADS, LENGTH, DIM, LAG, FIRST, TYPE, ORDER, THREADS };
static const dimension dims[] = {
    [HEADS] = {"heads", 4, {0, 1, 2, 3}},
    [LENGTH] = {"longest head", 6, {0, 1, 40, 90, 150, 300}},
    [DIM] = {"head dimension", 8, {1, 2, 3, 8, 17, 64, 80, 256}},
    [LAG] = {"lag", 7, {1, 2, 5, 16, 31, 128, INT64_C(1) << 40}},
    [FIRST] = {"first slot", 4, {0, 1, 4, 500}},
    [TYPE] = {"type", 2, {LH_F32, LH_BF16}, {"f32", "bf16"}},
    [ORDER] = {"slots", 2, {CACHE_SLOTS, CACHE_GAPS}, {"are positions", "with gaps"}},
    [THREADS] = {"threads", 3, {1, 2, 4}},
};

static int64_t of(int which, int n)
{
    return case_value(&dims[which], n);
}

static void lags_make(lot *m, cache *c, int n)
{
    int64_t heads = of(HEADS, n), *len = lot_new(m, heads * 8);
    for (int64_t h = 0; h < heads; h++) len[h] = h ? draw(7, (uint64_t)(n * 10 + h), of(LENGTH, n) + 1) : of(LENGTH, n);
    cache_spec spec = {.heads = heads, .head_dim = of(DIM, n), .slack = n % 3, .last = of(LENGTH, n) + 9, .len = len};
    spec.type = (lh_dtype)of(TYPE, n);
    spec.order = (cache_order)of(ORDER, n);
    spec.seed = (uint64_t)n;
    cache_make(m, c, &spec);
}

/* e[n] += the softmax of the deviations of a part's keys or values. */
static void add_by_hand(const lh_ragged *r, const void *part, int64_t slot, int64_t lag, double *e)
{
    int64_t d = r->head_dim;
    double all = 0, dev[300];
    for (int64_t n = 0; n < lag; n++) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < d; i++) {
            double low = INFINITY, high = -INFINITY, x = cache_number(r, part, (slot + n) * d + i);
            for (int64_t t = lag; t < 2 * lag; t++) {
                low = fmin(low, cache_number(r, part, (slot + t) * d + i));
                high = fmax(high, cache_number(r, part, (slot + t) * d + i));
            }
            x = high > low ? (x - low) / (high - low) : 0;
            sum += x, squares += x * x;
        }
        dev[n] = d > 1 ? sqrt(fmax(0, squares - sum * sum / (double)d) / (double)(d - 1)) : 0;
    }
    double top = 0;
    for (int64_t n = 0; n < lag; n++) top = fmax(top, dev[n]);
    for (int64_t n = 0; n < lag; n++) all += exp(dev[n] - top);
    for (int64_t n = 0; n < lag; n++) e[n] += exp(dev[n] - top) / all / 2;
}

/* Exact ties (entries that are equal) go by slots; numbers that are merely close may go either way. */
static void check_part(const lh_ragged *r, int64_t slot, int64_t lag, const float *got, int n)
{
    double e[300] = {0};
    add_by_hand(r, r->k, slot, lag, e);
    add_by_hand(r, r->v, slot, lag, e);
    for (int64_t i = 0; i < lag; i++) {
        int64_t least = 0, most = 0, rank = llrint((double)got[i] * (double)lag);
        for (int64_t j = 0; j < lag; j++) {
            double rounding = 1e-4 * fmax(e[i], e[j]);
            least += e[j] < e[i] - rounding;
            most += j != i && e[j] <= e[i] + rounding;
        }
        ck_assert_msg(rank >= least && rank <= most, "lag_scores, case %d: rank %lld, not %lld to %lld%s", n,
                      (long long)rank, (long long)least, (long long)most, case_words());
    }
}

START_TEST(test_lag_scores_rank_the_entries_of_a_part_by_their_deviations)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 80 / rig_scale(&g); n++) {
            lot m = {0};
            cache c;
            omp_set_num_threads((int)of(THREADS, n));
            lags_make(&m, &c, n);
            int64_t heads = c.host.heads, ld = of(LENGTH, n) + n % 3, first = of(FIRST, n), lag = of(LAG, n);
            float *y = rig_new(&g, heads * ld * 4), *got = lot_new(&m, heads * ld * 4);
            lh_ragged kv = rig_cache(&g, &c);
            RUN(&g, lag_scores, .y = y, .kv = &kv, .ld = ld, .first = first, .lag = lag);
            rig_get(&g, got, y, heads * ld * 4);
            for (int64_t h = 0; h < heads; h++) {
                int64_t len = c.host.len[h], parts = len > first ? (len - first) / lag : 0, s = 0;
                const float *row = got + h * ld;
                for (; s < len && s < first; s++) ck_assert(row[s] == 3);
                for (int64_t p = 0; p + 1 < parts; p++, s += lag)
                    check_part(&c.host, c.host.offset[h] + s, lag, row + s, n);
                for (; s < len; s++) ck_assert(row[s] > (s && s > first ? row[s - 1] : 1) && row[s] <= 2);
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* Equal entries keep their order, and channels that are the same everywhere say nothing. */
START_TEST(test_lag_scores_of_equal_entries_prefer_the_first)
{
    enum { LEN = 20, D = 5, PART = 8 };
    float k[LEN * D], got[LEN];
    int64_t offset = 0, len = LEN;
    for (int i = 0; i < LEN * D; i++) k[i] = 0.25f * (float)(i % D);
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        lh_ragged kv = {.k = rig_put(&g, k, sizeof k),
                        .v = rig_put(&g, k, sizeof k),
                        .offset = rig_put(&g, &offset, 8),
                        .len = rig_put(&g, &len, 8),
                        .heads = 1,
                        .head_dim = D};
        float *y = rig_new(&g, sizeof got);
        RUN(&g, lag_scores, .y = y, .kv = &kv, .ld = LEN, .lag = PART);
        rig_get(&g, got, y, sizeof got);
        for (int s = 0; s < PART; s++) ck_assert(got[s] == (float)(PART - 1 - s) / PART);
        rig_close(&g);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_lag_scores_rank_the_entries_of_a_part_by_their_deviations,
                                  test_lag_scores_of_equal_entries_prefer_the_first, NULL};
    return rig_run("kernels/lag", tests);
}
