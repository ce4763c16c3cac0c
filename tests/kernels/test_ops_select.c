#include <float.h>
#include <math.h>
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
                .counts = rig_put(&g, counts, l.heads * 8), .ld = l.ld);
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
                .counts = rig_put(&g, both, l.heads * 8), .ld = l.ld);
            RUN(&g, select_top, .state = twice.state, .scores = twice.scores, .kv = &twice.kv,
                .counts = rig_put(&g, first, l.heads * 8), .ld = l.ld, .others = LH_ENTRY_COMPETES);
            RUN(&g, select_top, .state = twice.state, .scores = twice.scores, .kv = &twice.kv,
                .counts = rig_put(&g, rest, l.heads * 8), .ld = l.ld, .others = LH_ENTRY_DROP);
            rig_get(&g, want, once.state, l.heads * l.ld);
            check_states(&g, &twice, &l, want, n);
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
            const int64_t ks[] = {1, 2, 5, 40, 0, 1000, 2500};
            int64_t rows = n % 4, cols = n % 9 ? draw(40, (uint64_t)n, 300) + 1 : n % 27 ? 5003 : 20011;
            int64_t ld = cols + n % 5, k = ks[n % 7] < cols ? ks[n % 7] : cols;
            float *x = lot_normals(&m, rows * ld, 1.0f, (uint64_t)n), *want = lot_new(&m, rows * k * 4);
            for (int64_t i = 0; i < rows * ld; i++) x[i] = score_at(n % SCORE_KINDS, (uint64_t)(n * 99991 + i), &x[i]);
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

/* ---- norms that are only bounded ---- */

START_TEST(test_want_norms_asks_for_the_bounds_before_the_line)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 420; n++) {
            lot m = {0};
            layer l;
            layer_make(&m, &l, n);
            lh_want_kind kind = (lh_want_kind)(n / 7 % 2);
            int64_t count = l.heads * l.ld, *counts = lot_new(&m, l.heads * 8);
            uint8_t *want = lot_new(&m, count), *got = lot_new(&m, count), *wanted = rig_new(&g, count);
            float *norms = lot_new(&m, count * 4);
            for (int64_t i = 0; i < count; i++)
                norms[i] = draw(35, (uint64_t)(n + i * 3), 3) ? -1.0f : n % 5 ? 2.0f : NAN;
            for (int64_t h = 0; h < l.heads; h++) {
                entry *best;
                int64_t held = ranked(&m, &l, h, h + 1, &best), before = 0;
                const int64_t some[] = {0, 1, held / 2, held - 1, held, held + 5};
                counts[h] = some[draw(30, (uint64_t)(n * 10 + h), 6)];
                counts[h] = counts[h] < 0 ? 0 : counts[h];
                for (int64_t i = 0; i < held; i++) {
                    int bound = norms[h * l.ld + best[i].slot] < 0;
                    want[h * l.ld + best[i].slot] = bound && before < counts[h] && counts[h] < held;
                    before += kind == LH_WANT_BEST || !bound;
                }
            }
            placed on = layer_put(&g, &l);
            RUN(&g, want_norms, .wanted = wanted, .scores = on.scores,
                .norms = {.at = rig_put(&g, norms, count * 4), .ld = l.ld, .step = 1}, .state = on.state, .kv = &on.kv,
                .counts = rig_put(&g, counts, l.heads * 8), .ld = l.ld, .kind = kind);
            rig_get(&g, got, wanted, count);
            for (int64_t h = 0; h < l.heads; h++)
                check_same(got + h * l.ld, want + h * l.ld, l.kv.host.len[h], "want_norms, head %d, case %d, %s",
                           (int)h, n, g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* What an entry's norm is and what it is at most: near, far above, or nothing is known; norms may be zero, equal, huge,
 * infinite or no number. */
static void norm_make(int n, int64_t i, float *norm, float *bound)
{
    const float odd[] = {0.0f, 1.0f, 1.0f, 3.4e38f, INFINITY, NAN, 1e-40f, 1e30f};
    uint64_t dice = (uint64_t)n * 100000 + (uint64_t)i;
    float more[] = {1.0f, 1.002f, 1.3f, 100.0f};
    *norm = n % 4 == 0 ? odd[draw(36, dice, 8)] : n % 4 == 1 ? 0.5f : 1.0f + 0.001f * (float)draw(37, dice, 3000);
    *bound = -*norm * more[draw(38, dice, n % 3 ? 4 : 2)];
    if (!(*bound < -1e-15f && *bound > -FLT_MAX)) *bound = -FLT_MAX;
}

/* Norms that are wanted become known; then scores by what is known. */
static void learn(rig *g, const placed *on, const layer *l, const float *norms, lh_want_norms_args *ask)
{
    int64_t count = l->heads * l->ld;
    float *y = (float *)(void *)(uintptr_t)ask->scores;
    rig_done(g, g->ops->want_norms(g->stream, ask), "want_norms");
    RUN(g, put_stats, .y = ask->norms, .x = rig_put(g, norms, count * 4), .kv = &on->kv, .only = ask->wanted,
        .ld = l->ld, .only_ld = l->ld);
    RUN(g, weigh_scores, .y = y, .x = on->scores, .norms = ask->norms, .len = on->kv.len, .heads = l->heads,
        .ld = l->ld, .add = 1e-4f);
}

/* Scores as attention gives them, not negative; NaN too. */
START_TEST(test_a_selection_by_the_norms_that_are_wanted_is_that_by_all_norms)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 840; n++) {
            lot m = {0};
            layer l;
            layer_make(&m, &l, n);
            int64_t count = l.heads * l.ld, *counts = lot_new(&m, l.heads * 8), *reach = lot_new(&m, l.heads * 8);
            float *norms = lot_new(&m, count * 4), *bounds = lot_new(&m, count * 4);
            for (int64_t i = 0; i < count; i++) {
                l.scores[i] = fabsf(l.scores[i]);
                norm_make(n, i, &norms[i], &bounds[i]);
                if (n % 9 == 0 && draw(39, (uint64_t)(n + i), 2)) bounds[i] = norms[i]; /* known before */
            }
            for (int64_t h = 0; h < l.heads; h++) {
                counts[h] = draw(34, (uint64_t)(n * 10 + h), n % 2 ? l.ld + 1 : 6);
                reach[h] = counts[h] + counts[h] / 4;
            }
            placed all = layer_put(&g, &l), some = layer_put(&g, &l);
            const int64_t *counts_on = rig_put(&g, counts, l.heads * 8);
            float *y = rig_new(&g, count * 4);
            lh_slot_floats exact = {.at = rig_put(&g, norms, count * 4), .ld = l.ld, .step = 1}, known = exact;
            RUN(&g, weigh_scores, .y = y, .x = all.scores, .norms = exact, .len = all.kv.len, .heads = l.heads,
                .ld = l.ld, .add = 1e-4f);
            RUN(&g, select_top, .state = all.state, .scores = y, .kv = &all.kv, .counts = counts_on, .ld = l.ld);
            known.at = rig_put(&g, bounds, count * 4);
            RUN(&g, weigh_scores, .y = y, .x = some.scores, .norms = known, .len = some.kv.len, .heads = l.heads,
                .ld = l.ld, .add = 1e-4f);
            lh_want_norms_args ask = {.wanted = rig_new(&g, count),
                                      .scores = y,
                                      .norms = known,
                                      .state = some.state,
                                      .kv = &some.kv,
                                      .counts = rig_put(&g, reach, l.heads * 8),
                                      .ld = l.ld,
                                      .kind = LH_WANT_BEST};
            learn(&g, &some, &l, norms, &ask);
            ask.counts = counts_on;
            ask.kind = LH_WANT_RIVALS;
            learn(&g, &some, &l, norms, &ask);
            RUN(&g, select_top, .state = some.state, .scores = y, .kv = &some.kv, .counts = counts_on, .ld = l.ld);
            uint8_t *want = lot_new(&m, count);
            rig_get(&g, want, all.state, count);
            check_states(&g, &some, &l, want, n);
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
                                  test_select_top_twice_is_once_for_both_counts,
                                  test_top_logits_are_those_of_sorting,
                                  test_want_norms_asks_for_the_bounds_before_the_line,
                                  test_a_selection_by_the_norms_that_are_wanted_is_that_by_all_norms,
                                  NULL};
    return rig_run("kernels/select", tests);
}
