#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "scored.h"

START_TEST(test_select_top_keeps_the_best_of_each_head)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 420; n++) {
            lot m = {0};
            layer l;
            layer_make(&m, &l, n);
            uint8_t *want = lot_copy(&m, l.state, l.heads * l.ld);
            int64_t *counts = lot_new(&m, l.heads * 8);
            for (int64_t h = 0; h < l.heads; h++) {
                entry *best;
                int64_t held = ranked(&m, &l, h, h + 1, &best);
                const int64_t some[] = {0, 1, 2, held / 2, held - 2, held - 1, held, held + 5};
                counts[h] = some[draw(30, (uint64_t)(n * 10 + h), 8)];
                counts[h] = counts[h] < 0 ? 0 : counts[h];
                for (int64_t i = 0; i < held; i++)
                    want[h * l.ld + best[i].slot] = i < counts[h] ? LH_ENTRY_KEEP : LH_ENTRY_DROP;
            }
            placed on = layer_put(&g, &l);
            RUN(&g, select_top, .state = on.state, .scores = on.scores, .kv = &on.kv,
                .counts = rig_put(&g, counts, l.heads * 8), .batch = 1, .ld = l.ld);
            check_states(&g, &on, &l, want, n);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* What the first stage leaves competes in the second. */
START_TEST(test_select_top_twice_is_once_for_both_counts)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 210; n++) {
            lot m = {0};
            layer l;
            layer_make(&m, &l, n);
            uint8_t *want = lot_new(&m, l.heads * l.ld);
            int64_t *first = lot_new(&m, l.heads * 8), *rest = lot_new(&m, l.heads * 8);
            int64_t *both = lot_new(&m, l.heads * 8);
            for (int64_t h = 0; h < l.heads; h++) {
                first[h] = draw(33, (uint64_t)(n * 10 + h), l.ld + 1);
                rest[h] = draw(34, (uint64_t)(n * 10 + h), n % 2 ? l.ld + 1 : 4);
                both[h] = first[h] + rest[h];
            }
            placed once = layer_put(&g, &l), twice = layer_put(&g, &l);
            RUN(&g, select_top, .state = once.state, .scores = once.scores, .kv = &once.kv,
                .counts = rig_put(&g, both, l.heads * 8), .batch = 1, .ld = l.ld);
            RUN(&g, select_top, .state = twice.state, .scores = twice.scores, .kv = &twice.kv,
                .counts = rig_put(&g, first, l.heads * 8), .batch = 1, .ld = l.ld, .others = LH_ENTRY_COMPETES);
            RUN(&g, select_top, .state = twice.state, .scores = twice.scores, .kv = &twice.kv,
                .counts = rig_put(&g, rest, l.heads * 8), .batch = 1, .ld = l.ld, .others = LH_ENTRY_DROP);
            rig_get(&g, want, once.state, l.heads * l.ld);
            check_states(&g, &twice, &l, want, n);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* The key of an entry, the key above it, and every entry. */
START_TEST(test_count_best_counts_what_competes_from_a_key_on)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 210; n++) {
            lot m = {0};
            layer l;
            layer_make(&m, &l, n);
            const int64_t all = l.heads * l.ld, bytes = l.heads * 8;
            int64_t *counts = rig_new(&g, bytes), *got = lot_new(&m, bytes), *want = lot_new(&m, bytes);
            const uint32_t some = all ? lh_score_key(l.scores[draw(36, (uint64_t)n, all)]) : 7,
                           key = n % 7 == 0 ? 0 : some + (n % 2 && some < UINT32_MAX);
            const int64_t more = n % 3, least = n % 5, most = n % 4 ? INT64_MAX : 9;
            for (int64_t h = 0; h < l.heads; h++) {
                for (int64_t s = 0; s < l.kv.host.len[h]; s++)
                    want[h] +=
                        l.state[h * l.ld + s] == LH_ENTRY_COMPETES && lh_score_key(l.scores[h * l.ld + s]) >= key;
                want[h] = lh_min_i64(most, lh_max_i64(least, want[h] + more));
            }
            placed on = layer_put(&g, &l);
            RUN(&g, count_best, .counts = counts, .scores = on.scores, .state = on.state, .kv = &on.kv, .ld = l.ld,
                .more = more, .least = least, .most = most, .key = key);
            rig_get(&g, got, counts, bytes);
            check_same(got, want, bytes, "count_best, case %d, %s", n, g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* Layers with as many heads, the n-th and later ones, in the memory of one batch. */
enum { MOST_LAYERS = 11 /* more than a kernel takes at once */ };
typedef struct layers {
    layer at[MOST_LAYERS];
    int64_t count, ld, step; /* of slots; of a layer's scores */
} layers;

static void layers_make(lot *m, layers *l, int n)
{
    *l = (layers){.count = 0};
    for (int i = n; l->count < n % MOST_LAYERS + 1; i++) {
        lot tried = {0};
        layer *next = &l->at[l->count];
        layer_make(&tried, next, i);
        int fits = next->heads == l->at[0].heads;
        lot_end(&tried);
        if (!fits) continue;
        layer_make(m, next, i);
        l->ld = next->ld > l->ld ? next->ld : l->ld;
        l->count++;
    }
    l->step = l->at[0].heads * l->ld + n % 3;
}

START_TEST(test_select_top_of_several_caches_is_that_of_each)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 60; n++) {
            lot m = {0};
            layers l;
            lh_ragged kv[MOST_LAYERS] = {0};
            layers_make(&m, &l, n);
            const int64_t heads = l.at[0].heads, cells = heads * l.ld;
            uint8_t *state = lot_new(&m, l.count * cells), *got = lot_new(&m, l.count * cells);
            float *scores = lot_new(&m, l.count * l.step * 4);
            int64_t *counts = lot_new(&m, l.count * heads * 8);
            for (int64_t i = 0; i < l.count * heads; i++) {
                const layer *of = &l.at[i / heads];
                const int64_t h = i % heads, from = i / heads * l.step + h * l.ld;
                memcpy(state + i * l.ld, of->state + h * of->ld, (size_t)of->ld);
                memcpy(scores + from, of->scores + h * of->ld, (size_t)of->ld * 4);
                counts[i] = draw(35, (uint64_t)(n * 100 + i), of->ld + 1);
            }
            uint8_t *on = rig_put(&g, state, l.count * cells);
            int64_t *many = rig_put(&g, counts, l.count * heads * 8);
            for (int64_t i = 0; i < l.count; i++) kv[i] = rig_cache(&g, &l.at[i].kv);
            RUN(&g, select_top, .state = on, .scores = rig_put(&g, scores, l.count * l.step * 4), .kv = kv,
                .counts = many, .batch = l.count, .ld = l.ld, .scores_step = l.step, .counts_step = heads);
            rig_get(&g, got, on, l.count * cells);
            for (int64_t i = 0; i < l.count; i++) {
                placed alone = layer_put(&g, &l.at[i]);
                RUN(&g, select_top, .state = alone.state, .scores = alone.scores, .kv = &alone.kv,
                    .counts = many + i * heads, .batch = 1, .ld = l.at[i].ld);
                uint8_t *want = lot_new(&m, heads * l.at[i].ld);
                rig_get(&g, want, alone.state, heads * l.at[i].ld);
                for (int64_t h = 0; h < heads; h++)
                    check_same(got + (i * heads + h) * l.ld, want + h * l.at[i].ld, l.at[i].kv.host.len[h],
                               "states of cache %d, head %d, case %d, %s", (int)i, (int)h, n, g.ops->name);
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* The entries of head h in state `of`, best first; `alike`: as if all scores were equal. */
static int64_t ordered(lot *m, const layer *l, int64_t h, lh_entry_state of, int alike, entry **out)
{
    int64_t count = 0;
    entry *all = lot_new(m, l->ld * (int64_t)sizeof *all);
    for (int64_t s = 0; s < l->kv.host.len[h]; s++) {
        if (l->state[h * l->ld + s] != of) continue;
        all[count++] = (entry){alike ? 0 : l->scores[h * l->ld + s], h, s, cache_position(&l->kv.host, h, s)};
    }
    qsort(all, (size_t)count, sizeof *all, by_rank);
    *out = all;
    return count;
}

START_TEST(test_order_entries_is_by_score_and_of_equal_ones_by_position)
{
    const lh_entry_state states[] = {LH_ENTRY_COMPETES, LH_ENTRY_COMPETES, LH_ENTRY_KEEP, LH_ENTRY_DROP};
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 140 / rig_scale(&g); n++) {
            lot m = {0};
            layer l;
            layer_make(&m, &l, n);
            omp_set_num_threads(1 + n % 4);
            const lh_entry_state of = states[n % 4];
            const int alike = n % 5 == 3;
            int32_t *order = rig_new(&g, l.heads * l.ld * 4), *got = lot_new(&m, l.heads * l.ld * 4);
            int64_t *counts = rig_new(&g, l.heads * 8), *count = lot_new(&m, l.heads * 8);
            placed on = layer_put(&g, &l);
            RUN(&g, order_entries, .order = order, .counts = counts, .scores = alike ? NULL : on.scores,
                .state = on.state, .kv = &on.kv, .ld = l.ld, .of = of);
            rig_get(&g, got, order, l.heads * l.ld * 4);
            rig_get(&g, count, counts, l.heads * 8);
            for (int64_t h = 0; h < l.heads; h++) {
                entry *best;
                int64_t held = ordered(&m, &l, h, of, alike, &best);
                ck_assert_msg(count[h] == held, "case %d, %s: head %d has %d entries, not %d", n, g.ops->name, (int)h,
                              (int)count[h], (int)held);
                for (int64_t i = 0; i < held; i++)
                    if (got[h * l.ld + i] != best[i].slot)
                        ck_abort_msg("case %d, %s: entry %d of head %d is in slot %d, not %d", n, g.ops->name, (int)i,
                                     (int)h, got[h * l.ld + i], (int)best[i].slot);
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* With the same count in all heads: none, one, some, and more than there are. */
START_TEST(test_the_first_of_an_order_are_what_select_top_keeps)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 70 / rig_scale(&g); n++) {
            lot m = {0};
            layer l;
            layer_make(&m, &l, n);
            const int64_t ks[] = {0, 1, 2, l.ld / 3, l.ld / 2, l.ld}, all = l.heads * l.ld;
            int32_t *order = rig_new(&g, all * 4), *first = lot_new(&m, all * 4);
            int64_t *counts = rig_new(&g, l.heads * 8), *held = lot_new(&m, l.heads * 8);
            placed on = layer_put(&g, &l);
            RUN(&g, order_entries, .order = order, .counts = counts, .scores = on.scores, .state = on.state,
                .kv = &on.kv, .ld = l.ld, .of = LH_ENTRY_COMPETES);
            rig_get(&g, first, order, all * 4);
            rig_get(&g, held, counts, l.heads * 8);
            for (int i = 0; i < 6; i++) {
                placed again = {on.kv, on.scores, rig_put(&g, l.state, all)};
                uint8_t *want = lot_copy(&m, l.state, all);
                int64_t *k = lot_new(&m, l.heads * 8);
                for (int64_t h = 0; h < l.heads; h++) {
                    k[h] = ks[i];
                    for (int64_t e = 0; e < held[h]; e++)
                        want[h * l.ld + first[h * l.ld + e]] = e < k[h] ? LH_ENTRY_KEEP : LH_ENTRY_DROP;
                }
                RUN(&g, select_top, .state = again.state, .scores = on.scores, .kv = &on.kv,
                    .counts = rig_put(&g, k, l.heads * 8), .batch = 1, .ld = l.ld);
                check_states(&g, &again, &l, want, n);
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* A curve of some heads: points and their values. */
typedef struct curve {
    int64_t points, values_ld; /* 0: the heads are alike */
    float *ranks, *values;
    int falls; /* values never rise */
} curve;

static void curve_make(lot *m, curve *c, int64_t heads, int64_t longest, int n)
{
    const int64_t counts[] = {1, 2, 5, 17};
    *c = (curve){.points = counts[n % 4], .falls = n % 2};
    c->values_ld = n % 5 == 2 ? 0 : c->points + n % 3;
    c->ranks = lot_new(m, c->points * 4);
    c->values = lot_normals(m, (heads + 1) * (c->points + 2), 1.0f, (uint64_t)n);
    float at = (float)draw(35, (uint64_t)n, 3);
    for (int64_t p = 0; p < c->points; p++) {
        c->ranks[p] = at;
        at += (float)(1 + draw(36, (uint64_t)(100 * n + p), 1 + 2 * longest / c->points)) / (n % 3 ? 1.0f : 4.0f);
        for (int64_t h = 0; h < heads && p > 0 && c->falls && (h == 0 || c->values_ld); h++) {
            float *value = c->values + h * c->values_ld + p;
            *value = draw(37, (uint64_t)(100 * n + p), 4) ? value[-1] - fabsf(*value) : value[-1];
        }
    }
}

static double on_curve(const curve *c, int64_t h, double at)
{
    const float *x = c->ranks, *y = c->values + h * c->values_ld;
    int64_t p = 0;
    if (at <= x[0]) return y[0];
    if (at >= x[c->points - 1]) return y[c->points - 1];
    while (x[p + 1] < at) p++;
    return (y[p] * (x[p + 1] - at) + y[p + 1] * (at - x[p])) / ((double)x[p + 1] - x[p]);
}

START_TEST(test_rank_scores_lie_on_the_curve_and_follow_it)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 140 / rig_scale(&g); n++) {
            lot m = {0};
            layer l;
            curve c;
            layer_make(&m, &l, n);
            curve_make(&m, &c, l.heads, l.ld, n);
            omp_set_num_threads(1 + n % 4);
            const int64_t all = l.heads * l.ld;
            const int raise = n / 2 % 2;
            float *y = lot_normals(&m, all, 1.0f, 38), *want = lot_new(&m, all * 4), *got = lot_new(&m, all * 4);
            int32_t *order = lot_new(&m, all * 4);
            int64_t *counts = lot_new(&m, l.heads * 8);
            for (int64_t i = 0; i < all; i++) want[i] = y[i] = i % 11 == 5 ? NAN : y[i];
            memset(order, 0xff, (size_t)all * 4);
            for (int64_t h = 0; h < l.heads; h++) {
                entry *best;
                counts[h] = ordered(&m, &l, h, LH_ENTRY_COMPETES, 0, &best);
                for (int64_t i = 0; i < counts[h]; i++) {
                    float x = (float)on_curve(&c, h, (double)i), *at = want + h * l.ld + best[i].slot;
                    order[h * l.ld + i] = (int32_t)best[i].slot;
                    *at = raise ? fmaxf(x, *at) : x;
                }
            }
            float *on = rig_put(&g, y, all * 4);
            RUN(&g, rank_scores, .y = on, .order = rig_put(&g, order, all * 4),
                .counts = rig_put(&g, counts, l.heads * 8), .ranks = rig_put(&g, c.ranks, c.points * 4),
                .values = rig_put(&g, c.values, (l.heads + 1) * (c.points + 2) * 4), .heads = l.heads, .ld = l.ld,
                .points = c.points, .values_ld = c.values_ld, .raise = raise);
            rig_get(&g, got, on, all * 4);
            check_near(got, want, all, (tolerance){1e-6, 2e-6}, "rank_scores, case %d, %s", n, g.ops->name);
            for (int64_t h = 0; h < l.heads && c.falls && !raise; h++)
                for (int64_t i = 1; i < counts[h]; i++)
                    ck_assert_msg(got[h * l.ld + order[h * l.ld + i]] <= got[h * l.ld + order[h * l.ld + i - 1]],
                                  "case %d, %s: the score of entry %d of head %d rises", n, g.ops->name, (int)i,
                                  (int)h);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_top_logits_are_those_of_sorting)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 280; n++) {
            lot m = {0};
            const int64_t ks[] = {1, 2, 5, 40, 0, 1000, LH_BEST_MAX}, wide[] = {5003, 20011, 4096, 8192, 12289};
            int64_t rows = n % 4, cols = n % 9 ? draw(40, (uint64_t)n, 300) + 1 : wide[n / 9 % 5];
            int64_t ld = cols + n % 5, k = ks[n % 7] < cols ? ks[n % 7] : cols;
            float *x = lot_normals(&m, rows * ld, 1.0f, (uint64_t)n), *want = lot_new(&m, rows * k * 4);
            for (int64_t i = 0; i < rows * ld; i++)
                x[i] = score_at(n / 7 % SCORE_KINDS, (uint64_t)(n * 99991 + i), &x[i]);
            int32_t *want_at = lot_new(&m, rows * k * 4), *at = lot_new(&m, rows * k * 4);
            float *got = lot_new(&m, rows * k * 4), *values = rig_new(&g, rows * k * 4);
            int32_t *indices = rig_new(&g, rows * k * 4);
            entry *all = lot_new(&m, cols * (int64_t)sizeof *all);
            for (int64_t r = 0; r < rows; r++) {
                for (int64_t i = 0; i < cols; i++) all[i] = (entry){.score = x[r * ld + i], .position = i};
                qsort(all, (size_t)cols, sizeof *all, by_rank);
                for (int64_t i = 0; i < k; i++) {
                    want[r * k + i] = all[i].score;
                    want_at[r * k + i] = (int32_t)all[i].position;
                }
            }
            RUN(&g, top_logits, .values = values, .indices = indices, .x = rig_put(&g, x, rows * ld * 4), .rows = rows,
                .cols = cols, .ld = ld, .k = k);
            rig_get(&g, got, values, rows * k * 4);
            rig_get(&g, at, indices, rows * k * 4);
            check_same(at, want_at, rows * k * 4, "indices of top logits, case %d, %s", n, g.ops->name);
            check_same(got, want, rows * k * 4, "values of top logits, case %d, %s", n, g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_select_top_keeps_the_best_of_each_head,
                                  test_count_best_counts_what_competes_from_a_key_on,
                                  test_select_top_twice_is_once_for_both_counts,
                                  test_select_top_of_several_caches_is_that_of_each,
                                  test_order_entries_is_by_score_and_of_equal_ones_by_position,
                                  test_the_first_of_an_order_are_what_select_top_keeps,
                                  test_rank_scores_lie_on_the_curve_and_follow_it,
                                  test_top_logits_are_those_of_sorting,
                                  NULL};
    return rig_run("kernels/select", tests);
}
