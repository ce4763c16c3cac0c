#include <math.h>
#include <omp.h>
#include <string.h>

#include "cases.h"
#include "rig.h"

enum { HEADS, WIDTH, SCORES, ODD, THREADS, LEFT_OUT, SPLIT, OTHERS, COLUMNS, BITS, PAD, POWER };
enum { TINY, WITH_ODD, TINY_BELOW_TOP, NORMAL }; /* none is above the top, which is that of all ranks */
static const float tops[] = {[TINY] = 0.0f, [WITH_ODD] = 1e30f, [TINY_BELOW_TOP] = 1e-5f, [NORMAL] = 7.5f};
static const dimension kinds[] = {
    [HEADS] = {"heads", 10, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
    [WIDTH] = {"width", 3, {9001, 41, 41}},
    [SCORES] = {"scores", 4, {TINY, WITH_ODD, TINY_BELOW_TOP, NORMAL}, {"tiny", "odd", "tiny, top 1e-5", "normal"}},
    [ODD] = {"odd numbers", 2, {3, 4}}, /* so many of them */
    [THREADS] = {"threads", 4, {1, 2, 3, 4}},
    [LEFT_OUT] = {"columns left out", 5, {3, 0, 0, 0, 0}},
    [SPLIT] = {"heads of the first rank", 10, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}, /* at most all */
    [OTHERS] = {"heads elsewhere", 3, {1, 2, 3}},
    [COLUMNS] = {"columns", 12, {7001, 1, 2, 5, 7001, 8, 16, 31, 7001, 33, 39, 40}},
    [BITS] = {"bits of a sum", 10, {63, 60, 55, 48, 40, 32, 30, 28, 26, 24}},
    [PAD] = {"padding of a row", 4, {0, 1, 2, 3}},
    [POWER] = {"power of the top", 9, {-140, -20, -12, -5, -1, 0, 1, 4, 9}},
};

static int64_t kind(int which, int n)
{
    return case_value(&kinds[which], n);
}

/* Scores of heads, some with odd numbers among them. */
typedef struct heads {
    int64_t count, ld, *len;
    float *scores;
    uint8_t *state;
} heads;

static void heads_make(lot *m, heads *l, int n)
{
    const float odd[] = {NAN, -NAN, -0.0f, -1e30f};
    const int64_t odds = kind(ODD, n), scores = kind(SCORES, n);
    l->count = kind(HEADS, n);
    l->len = lot_new(m, l->count * 8);
    l->ld = kind(WIDTH, n);
    for (int64_t h = 0; h < l->count; h++) l->len[h] = draw(80, (uint64_t)(n * 10 + h), l->ld + 1);
    l->scores = lot_normals(m, l->count * l->ld, scores == WITH_ODD || scores == NORMAL ? 1.0f : 1e-6f, (uint64_t)n);
    l->state = lot_new(m, l->count * l->ld);
    for (int64_t i = 0; i < l->count * l->ld; i++) {
        uint64_t dice = (uint64_t)(n * 100000 + i);
        if (scores == WITH_ODD && draw(81, dice, 3) == 0) l->scores[i] = odd[draw(82, dice, odds)];
        l->state[i] = (uint8_t)draw(83, dice, 3);
    }
}

/* The heads as those of layers, more than a kernel takes at once where there are as many; returns how many. */
enum { MOST_LAYERS = 9 };
static int64_t batch_make(rig *g, const heads *l, int n, lh_ragged *kv)
{
    int64_t batch = n % 2 && l->count ? l->count : 1, *len = rig_put(g, l->len, l->count * 8);
    if (l->count % 3 == 0 && n % 5 == 0 && l->count) batch = 3;
    for (int64_t i = 0; i < batch; i++)
        kv[i] = (lh_ragged){.heads = l->count / batch, .len = len + i * (l->count / batch)};
    return batch;
}

START_TEST(test_max_score_is_the_largest_size_that_competes)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 120; n++) {
            lot m = {0};
            heads l;
            heads_make(&m, &l, n);
            lh_ragged kv[MOST_LAYERS] = {0};
            const int64_t batch = batch_make(&g, &l, n, kv), each = kv->heads, step = each * l.ld + n % 4;
            float want[MOST_LAYERS] = {0}, got[MOST_LAYERS], *y = rig_new(&g, batch * 4);
            omp_set_num_threads((int)kind(THREADS, n));
            for (int64_t h = 0; h < batch * each; h++) {
                float *most = &want[h / each];
                for (int64_t i = h * l.ld; i < h * l.ld + l.len[h]; i++) {
                    if (l.state[i] == LH_ENTRY_COMPETES && fabsf(l.scores[i]) > *most) *most = fabsf(l.scores[i]);
                }
            }
            RUN(&g, max_score, .y = y, .scores = rig_put_rows(&g, l.scores, batch, each * l.ld * 4, step * 4),
                .state = rig_put(&g, l.state, l.count * l.ld), .kv = kv, .batch = batch, .ld = l.ld,
                .scores_step = step);
            rig_get(&g, got, y, batch * 4);
            for (int64_t i = 0; i < batch; i++)
                ck_assert_msg(got[i] == want[i], "%s: %.9g, not %.9g%s", g.ops->name, got[i], want[i], case_words());
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* The largest power of two with which scores below the next power of two above `top` add up to less than 2^60. */
static double scale_by_hand(float top, int64_t count)
{
    double power = 1.0, scale = 0x1p58;
    if (top <= 0.0f) top = 1.0f;
    while (power > top) power /= 2, scale *= 2;
    while (power * 2 <= top) power *= 2, scale /= 2;
    for (; count > 1; count /= 2) scale /= 2;
    return scale;
}

/* Heads on two ranks have the sums that they have on one: integers. */
START_TEST(test_sums_of_heads_are_integers_that_ranks_may_add_in_any_order)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 120; n++) {
            lot m = {0};
            heads l;
            heads_make(&m, &l, n);
            int64_t cols = l.ld - kind(LEFT_OUT, n), split = kind(SPLIT, n), all_heads = l.count + kind(OTHERS, n);
            if (split > l.count) split = l.count;
            int64_t *want = lot_new(&m, cols * 8), *got = lot_new(&m, 2 * cols * 8), *sums = rig_new(&g, 2 * cols * 8);
            float top = tops[kind(SCORES, n)];
            double scale = scale_by_hand(top, all_heads);
            const float *scores = rig_put(&g, l.scores, l.count * l.ld * 4);
            int64_t *len = rig_put(&g, l.len, l.count * 8);
            const lh_ragged first = {.heads = split, .len = len}, rest = {.heads = l.count - split, .len = len + split};
            const float *top_on = rig_put(&g, &top, 4);
            omp_set_num_threads((int)kind(THREADS, n));
            for (int64_t i = 0; i < l.count * l.ld; i++) {
                if (i % l.ld >= l.len[i / l.ld] || i % l.ld >= cols || isnan(l.scores[i])) continue;
                want[i % l.ld] += llrint((double)l.scores[i] * scale);
            }
            RUN(&g, add_heads, .sums = sums, .scores = scores, .kv = &first, .top = top_on, .batch = 1, .cols = cols,
                .ld = l.ld, .all_heads = all_heads);
            RUN(&g, add_heads, .sums = sums + cols, .scores = scores + split * l.ld, .kv = &rest, .top = top_on,
                .batch = 1, .cols = cols, .ld = l.ld, .all_heads = all_heads);
            rig_get(&g, got, sums, 2 * cols * 8);
            for (int64_t s = 0; s < cols; s++) got[s] += got[cols + s];
            check_same(got, want, cols * 8, "add_heads, %s", g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_sums_of_several_layers_are_those_of_each)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 60; n++) {
            lot m = {0};
            heads l;
            lh_ragged kv[MOST_LAYERS] = {0};
            float top[MOST_LAYERS];
            heads_make(&m, &l, n);
            const int64_t batch = batch_make(&g, &l, n, kv), step = kv->heads * l.ld + n % 4,
                          cols = l.ld - kind(LEFT_OUT, n), bytes = batch * cols * 8;
            int64_t *sums = rig_new(&g, bytes), *alone = rig_new(&g, bytes), *got = lot_new(&m, bytes),
                    *want = lot_new(&m, bytes);
            for (int i = 0; i < MOST_LAYERS; i++) top[i] = ldexpf(1e30f, i);
            const float *scores = rig_put_rows(&g, l.scores, batch, kv->heads * l.ld * 4, step * 4),
                        *top_on = rig_put(&g, top, sizeof top);
            RUN(&g, add_heads, .sums = sums, .scores = scores, .kv = kv, .top = top_on, .batch = batch, .cols = cols,
                .ld = l.ld, .scores_step = step, .all_heads = 12);
            for (int64_t i = 0; i < batch; i++)
                RUN(&g, add_heads, .sums = alone + i * cols, .scores = scores + i * step, .kv = kv + i,
                    .top = top_on + i, .batch = 1, .cols = cols, .ld = l.ld, .all_heads = 12);
            rig_get(&g, got, sums, bytes);
            rig_get(&g, want, alone, bytes);
            check_same(got, want, bytes, "add_heads, %s", g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_shared_scores_are_one_row_for_all_heads)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 40; n++) {
            lot m = {0};
            const int64_t count = kind(HEADS, n), cols = kind(COLUMNS, n), ld = cols + kind(PAD, n), batch = 1 + n % 3,
                          step = count * ld + n % 2, all_heads = count + kind(OTHERS, n);
            int64_t *sums = lot_new(&m, batch * cols * 8);
            float top[3], *y = rig_new(&g, batch * step * 4), *got = lot_new(&m, batch * step * 4);
            for (int64_t s = 0; s < batch * cols; s++)
                sums[s] = draw(84, (uint64_t)(n + 7 * s), INT64_MAX) >> (63 - kind(BITS, n));
            for (int i = 0; i < 3; i++) top[i] = ldexpf(1.5f, (int)kind(POWER, n) + i);
            RUN(&g, share_scores, .y = y, .sums = rig_put(&g, sums, batch * cols * 8),
                .top = rig_put(&g, top, sizeof top), .batch = batch, .heads = count, .cols = cols, .ld = ld,
                .y_step = step, .all_heads = all_heads);
            rig_get(&g, got, y, batch * step * 4);
            for (int64_t i = 0; i < batch; i++) {
                double factor = 1.0 / scale_by_hand(top[i], all_heads) / (double)all_heads;
                for (int64_t c = 0; c < count * ld; c++)
                    if (c % ld < cols)
                        ck_assert(got[i * step + c] == (float)((double)sums[i * cols + c % ld] * factor));
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
    const TTest *const tests[] = {test_max_score_is_the_largest_size_that_competes,
                                  test_sums_of_heads_are_integers_that_ranks_may_add_in_any_order,
                                  test_sums_of_several_layers_are_those_of_each,
                                  test_shared_scores_are_one_row_for_all_heads, NULL};
    return rig_run("kernels/joint", tests);
}
