#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "scored.h"
#include "suite.h"

START_TEST(test_histogram_counts_the_keys_of_a_prefix)
{
    const int splits[][2] = {{0, 11}, {11, 11}, {22, 10}, {0, 1}, {31, 1}, {0, 16}, {16, 16}, {5, 8}};
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 280; n += rig_step(&g)) {
            lot m = {0};
            layer l;
            layer_make(&m, &l, n);
            int before = splits[n % 8][0], bits = splits[n % 8][1];
            int64_t size = (int64_t)1 << bits, histograms_ld = size * (1 + n % 2), all = l.heads * l.ld;
            int32_t *want = lot_new(&m, l.heads * histograms_ld * 4), *got = lot_new(&m, l.heads * histograms_ld * 4);
            int32_t *bins = rig_new(&g, l.heads * histograms_ld * 4);
            /* The prefix of one of the scores, so that something is counted. */
            float some = all ? l.scores[draw(31, (uint64_t)n, all)] : 0;
            lh_search search = {.prefix = before ? lh_score_key(some) >> (32 - before) : 0};
            memset(want, 0xff, (size_t)(l.heads * histograms_ld) * 4);
            for (int64_t h = 0; h < l.heads; h++) {
                memset(want + h * histograms_ld, 0, (size_t)size * 4);
                for (int64_t s = 0; s < l.kv.host.len[h]; s++) {
                    uint32_t key = lh_score_key(l.scores[h * l.ld + s]);
                    int in = !before || key >> (32 - before) == search.prefix;
                    uint32_t low = before ? key << before : key;
                    if (l.state[h * l.ld + s] == LH_ENTRY_COMPETES && in)
                        want[h * histograms_ld + (low >> (32 - bits))]++;
                }
            }
            placed on = layer_put(&g, &l);
            RUN(&g, histogram, .histograms = bins, .scores = on.scores, .state = on.state, .kv = &on.kv,
                .search = before ? rig_put(&g, &search, sizeof search) : NULL, .batch = 1, .ld = l.ld,
                .histograms_ld = histograms_ld, .prefix_bits = before, .bits = bits);
            rig_get(&g, got, bins, l.heads * histograms_ld * 4);
            check_same(got, want, l.heads * histograms_ld * 4, "histogram, case %d, %s", n, g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_histograms_of_several_layers_are_those_of_each)
{
    enum { MOST = 16, BEFORE = 11, BITS = 10, SIZE = 1 << BITS };
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 140; n += rig_step(&g)) {
            lot m = {0};
            layer l;
            layer_make(&m, &l, n);
            /* the heads as those of layers, more than a kernel takes at once where there are as many */
            const int64_t heads = l.heads % 3 || n % 2 ? 1 : 3, batch = l.heads / heads, row = batch * SIZE,
                          bytes = heads * row * 4, rows = heads * l.ld, scores_step = rows + n % 5,
                          state_step = rows + n % 3, search_step = n % 4 != 1;
            placed on = layer_put(&g, &l);
            const float *scores = rig_put_rows(&g, l.scores, batch, rows * 4, scores_step * 4);
            const uint8_t *state = rig_put_rows(&g, l.state, batch, rows, state_step);
            int32_t *bins = rig_new(&g, bytes), *alone = rig_new(&g, bytes), *got = lot_new(&m, bytes),
                    *want = lot_new(&m, bytes);
            lh_search search[MOST] = {0};
            lh_ragged kv[MOST] = {0};
            ck_assert(batch <= MOST);
            for (int64_t c = 0; c < batch; c++) {
                const float *own = l.scores + c * rows;
                kv[c] = (lh_ragged){.heads = heads, .len = on.kv.len + c * heads};
                search[c].prefix =
                    rows ? lh_score_key(own[draw(31, (uint64_t)(n * 40 + c), rows)]) >> (32 - BEFORE) : 0;
            }
            const lh_search *search_on = rig_put(&g, search, sizeof search);
            if (batch)
                RUN(&g, histogram, .histograms = bins, .scores = scores, .state = state, .kv = kv, .search = search_on,
                    .search_step = search_step, .batch = batch, .ld = l.ld, .histograms_ld = row,
                    .scores_step = scores_step, .state_step = state_step, .prefix_bits = BEFORE, .bits = BITS);
            for (int64_t c = 0; c < batch; c++)
                RUN(&g, histogram, .histograms = alone + c * SIZE, .scores = on.scores + c * rows,
                    .state = on.state + c * rows, .kv = kv + c, .search = search_on + c * search_step, .batch = 1,
                    .ld = l.ld, .histograms_ld = row, .prefix_bits = BEFORE, .bits = BITS);
            rig_get(&g, got, bins, bytes);
            rig_get(&g, want, alone, bytes);
            check_same(got, want, bytes, "histogram of %d layers, case %d, %s", (int)batch, n, g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* ---- one round ---- */

/* Bins of heads and layers, and what these have. */
typedef struct cells {
    int64_t heads, layers, count, size;
    int bits, first;
    int32_t *histograms;
    lh_candidate_counts *candidates;
    lh_layer_limits *limits;
} cells;

static void cells_make(lot *m, cells *c, int n)
{
    const int bits[] = {11, 10, 1, 3, 6};
    c->heads = n % 7;
    c->layers = 1 + n % 3;
    c->count = c->heads * c->layers;
    c->bits = bits[n % 5];
    c->size = (int64_t)1 << c->bits;
    c->first = n % 4 == 0;
    c->histograms = lot_new(m, c->count * c->size * 4);
    c->candidates = lot_new(m, c->count * (int64_t)sizeof *c->candidates);
    c->limits = lot_new(m, c->layers * (int64_t)sizeof *c->limits);
    for (int64_t i = 0; i < c->count * c->size; i++)
        c->histograms[i] =
            (int32_t)(draw(50, (uint64_t)(n * 99991 + i), n % 2 ? 4 : 40) * draw(51, (uint64_t)(n + i), 2));
    for (int64_t i = 0; i < c->count; i++)
        c->candidates[i] = (lh_candidate_counts){(int32_t)draw(52, (uint64_t)(n + i), 90),
                                                 (int32_t)draw(53, (uint64_t)(n + i), 60), 3};
    for (int64_t s = 0; s < c->layers; s++)
        c->limits[s].floor = n % 5 ? draw(54, (uint64_t)(n + s), n % 3 ? 80 : 9000) : 0;
}

static lh_contests all_of(const cells *c)
{
    return (lh_contests){.heads = c->heads, .layers = c->layers};
}

/* Entries one by one, the best first. */
static void add_by_hand(const cells *c, int32_t *sums)
{
    for (int64_t i = 0; i < c->count; i++) {
        int64_t skip = c->limits[i % c->layers].floor - (c->first ? 0 : c->candidates[i].above);
        for (int64_t b = c->size - 1; b >= 0; b--)
            for (int32_t n = 0; n < c->histograms[i * c->size + b]; n++) sums[skip-- > 0 ? c->size : b]++;
    }
}

START_TEST(test_sums_of_bins_leave_out_the_floors_of_heads)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 420; n += rig_step(&g)) {
            lot m = {0};
            cells c;
            cells_make(&m, &c, n);
            int64_t bytes = (c.size + 1) * 4;
            int32_t *want = lot_new(&m, bytes), *got = lot_new(&m, bytes), *sums = rig_new(&g, bytes);
            add_by_hand(&c, want);
            RUN(&g, add_histograms, .sums = sums, .histograms = rig_put(&g, c.histograms, c.count * c.size * 4),
                .candidates = c.first ? NULL : rig_put(&g, c.candidates, c.count * (int64_t)sizeof *c.candidates),
                .limits = rig_put(&g, c.limits, c.layers * (int64_t)sizeof *c.limits), .of = all_of(&c),
                .bits = c.bits);
            rig_get(&g, got, sums, bytes);
            check_same(got, want, bytes, "add_histograms, case %d, %s", n, g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* The bin of the want-th entry from above, entries one by one. */
static int64_t bin_by_hand(const int32_t *sums, int64_t size, int64_t *want)
{
    int64_t bin = size - 1;
    for (int64_t before = 0; bin > 0; bin--) {
        if (before + sums[bin] >= *want) {
            *want -= before;
            return bin;
        }
        before += sums[bin];
    }
    for (int64_t b = size - 1; b > 0; b--) *want -= sums[b];
    return 0;
}

/* Summaries of ranks that together are `sums`, in parts that differ. */
static int32_t *split_by_hand(lot *m, const int32_t *sums, int64_t bins, int64_t ranks)
{
    int32_t *parts = lot_new(m, ranks * bins * 4);
    for (int64_t b = 0; b < bins; b++) {
        int32_t left = sums[b];
        for (int64_t r = 0; r < ranks; r++) {
            int32_t part = r == ranks - 1 ? left : (int32_t)draw(70, (uint64_t)(b * ranks + r), left + 1);
            parts[r * bins + b] = part;
            left -= part;
        }
    }
    return parts;
}

START_TEST(test_refined_thresholds_are_the_bins_of_the_last_of_the_best)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 600; n += rig_step(&g)) {
            lot m = {0};
            cells c;
            cells_make(&m, &c, n);
            int64_t ranks = 1 + n % 4;
            int32_t *sums = lot_new(&m, (c.size + 1) * 4);
            add_by_hand(&c, sums);
            int32_t *parts = split_by_hand(&m, sums, c.size + 1, ranks);
            int64_t all = 0, candidate_bytes = c.count * (int64_t)sizeof(lh_candidate_counts);
            for (int64_t i = 0; i < c.size; i++) all += sums[i];
            const int64_t some[] = {0, 1, all / 2, all - 1, all, all + 7, -3};
            int64_t most = some[n / 3 % 7] + sums[c.size], want = most - sums[c.size];
            c.limits->most = most;
            lh_search from = {.want = want, .prefix = 0x1234}, got;
            if (c.first && want > all) want = all;
            int64_t bin = bin_by_hand(sums, c.size, &want);
            lh_candidate_counts *candidates = lot_new(&m, candidate_bytes), *back = lot_new(&m, candidate_bytes);
            for (int64_t i = 0; i < c.count; i++) {
                candidates[i] = c.first ? (lh_candidate_counts){0} : c.candidates[i];
                for (int64_t x = 0; x < c.size; x++) {
                    int32_t held = c.histograms[i * c.size + x];
                    if (c.first) candidates[i].competing += held;
                    if (x > bin) candidates[i].above += held;
                    if (x == bin) candidates[i].at = held;
                }
            }
            lh_search *to = rig_new(&g, sizeof *to);
            lh_candidate_counts *on =
                c.first ? rig_new(&g, candidate_bytes) : rig_put(&g, c.candidates, candidate_bytes);
            RUN(&g, refine_threshold, .to = to, .from = c.first ? NULL : rig_put(&g, &from, sizeof from),
                .candidates = on, .histograms = rig_put(&g, c.histograms, c.count * c.size * 4),
                .summaries = rig_put(&g, parts, ranks * (c.size + 1) * 4),
                .limits = rig_put(&g, c.limits, c.layers * (int64_t)sizeof *c.limits), .of = all_of(&c), .ranks = ranks,
                .bits = c.bits);
            rig_get(&g, &got, to, sizeof got);
            rig_get(&g, back, on, candidate_bytes);
            uint32_t prefix = (c.first ? 0 : 0x1234u << c.bits) | (uint32_t)bin;
            ck_assert_msg(got.want == want && got.prefix == prefix, "%s, case %d: %d of %x, not %d of %x", g.ops->name,
                          n, (int)got.want, got.prefix, (int)want, prefix);
            check_same(back, candidates, candidate_bytes, "candidates of refine_threshold, case %d, %s", n,
                       g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* ---- sharing out ---- */

enum { MOST_CELLS = 400 };

/* A share out of `one` in integers, what a head has whatever happens, and its entries. */
typedef struct claims {
    int64_t count, share, one;
    int64_t own[MOST_CELLS], chosen[MOST_CELLS], sure[MOST_CELLS], room[MOST_CELLS];
} claims;

/* Entries one at a time: to whom is furthest behind. i: the order of ties. */
static void share_by_hand(const claims *c, int64_t most, int64_t *out)
{
    int64_t missing = most, held = 0;
    for (int64_t i = 0; i < c->count; i++) {
        out[i] = 0;
        while (out[i] < c->room[i] && (out[i] + 1 - c->own[i] - c->sure[i]) * c->one <= c->chosen[i] * c->share)
            out[i]++;
        held += c->room[i];
        missing -= out[i];
    }
    if (held < most) missing -= most - held;
    for (; missing > 0; missing--) {
        int64_t best = -1, most_lag = 0;
        for (int64_t i = 0; i < c->count; i++) {
            int64_t lag = c->chosen[i] * c->share - (out[i] - c->own[i] - c->sure[i]) * c->one;
            if (out[i] < c->room[i] && (best < 0 || lag > most_lag)) best = i, most_lag = lag;
        }
        out[best]++;
    }
}

/* Candidate counts of heads by layers, and what they mean, in the order of ties. Returns what all may keep. */
static int64_t claims_make(claims *c, const cells *of, lh_search *search, int n)
{
    int64_t taken = 0, all = 0, heads = of->heads, layers = of->layers;
    c->count = of->count;
    for (int64_t i = 0; i < of->count; i++) {
        int64_t at = i % heads * layers + i / heads;
        uint64_t dice = (uint64_t)(n * 1000 + i);
        lh_candidate_counts *t = &of->candidates[at];
        t->competing = (int32_t)draw(60, dice, n % 3 ? 60 : 8);
        t->above = (int32_t)draw(61, dice, t->competing + 1);
        t->at = (int32_t)draw(62, dice, t->competing - t->above + 1);
        lh_layer_limits safeguard = of->limits[i / heads];
        int64_t own = safeguard.floor < t->competing ? safeguard.floor : t->competing, chosen = 0;
        for (int32_t e = 0; e < t->above + t->at; e++) { /* the best first */
            if (e < own) continue;
            if (e < t->above || taken < search->want) chosen++;
            if (e >= t->above) taken++;
        }
        c->own[i] = own;
        c->chosen[i] = chosen;
        c->sure[i] = safeguard.bonus;
        c->room[i] = t->competing;
        all += own + chosen;
    }
    return all;
}

START_TEST(test_shares_are_exact_and_sum_to_what_all_may_keep)
{
    static const lh_fraction shares[] = {{1, 1}, {0, 1}, {1, 2}, {8, 10}, {667, 1000}, {93, 100}, {1, 3}};
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 2000; n += rig_step(&g)) {
            lot m = {0};
            cells of = {.heads = 1 + n % 9, .layers = n % 4 ? 1 : n % 16 ? 1 + n % 5 : 40};
            of.count = of.heads * of.layers;
            of.candidates = lot_new(&m, of.count * (int64_t)sizeof *of.candidates);
            of.limits = lot_new(&m, of.layers * (int64_t)sizeof *of.limits);
            lh_search search = {.want = draw(63, (uint64_t)n, 30)};
            for (int64_t s = 0; s < of.layers; s++)
                of.limits[s] = (lh_layer_limits){.floor = n % 3 ? 0 : draw(64, (uint64_t)(n + s), 20),
                                                 .bonus = n % 2 ? draw(65, (uint64_t)(n + s), 20) : 0};
            claims c = {.share = shares[n % 7].num, .one = shares[n % 7].den};
            int64_t want[MOST_CELLS], got[MOST_CELLS], sum = 0, held = 0, bytes = of.count * 8;
            int64_t most = claims_make(&c, &of, &search, n) + draw(66, (uint64_t)n, 90), *counts = rig_new(&g, bytes);
            of.limits->most = most;
            share_by_hand(&c, most, want);
            RUN(&g, head_budgets, .counts = counts,
                .candidates = rig_put(&g, of.candidates, of.count * (int64_t)sizeof *of.candidates),
                .search = rig_put(&g, &search, sizeof search),
                .limits = rig_put(&g, of.limits, of.layers * (int64_t)sizeof *of.limits), .of = all_of(&of),
                .share = shares[n % 7]);
            rig_get(&g, got, counts, bytes);
            for (int64_t i = 0; i < of.count; i++) {
                ck_assert_msg(got[i] == want[i], "%s, case %d: the %dth has %d, not %d", g.ops->name, n, (int)i,
                              (int)got[i], (int)want[i]);
                sum += got[i];
                held += c.room[i];
            }
            ck_assert(sum >= (most < held ? most : held));
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* ---- all of it ---- */

/* The search of several ranks, each with its share of the heads, rows of the layer. */
typedef struct contest {
    rig *g;
    const placed *on;
    const layer *l;
    int64_t ranks, layers;
    lh_layer_limits limits;     /* of all layers */
    lh_layer_limits *limits_on; /* of each */
    lh_search *rounds;
    lh_candidate_counts *candidates;
    int round, prefix_bits;
} contest;

static const int round_bits[] = {11, 11, 10};

/* bins: of all ranks, one after the other; summary: of this one. */
static void count_rank(const contest *c, int64_t rank, int32_t *bins, int32_t *summary)
{
    int64_t heads = c->l->heads / c->layers, from = heads * rank / c->ranks, to = heads * (rank + 1) / c->ranks;
    int64_t size = (int64_t)1 << round_bits[c->round], row = from * c->layers, ld = c->l->ld;
    lh_search *search = c->round ? c->rounds + c->round - 1 : NULL;
    for (int64_t s = 0; s < c->layers; s++)
        for (int64_t h = 0; h < to - from; h++) { /* rows: the layers of a head side by side */
            int64_t r = row + h * c->layers + s;
            lh_ragged kv = {.len = c->on->kv.len + r, .heads = 1};
            RUN(c->g, histogram, .histograms = bins + r * size, .scores = c->on->scores + r * ld,
                .state = c->on->state + r * ld, .kv = &kv, .search = search, .batch = 1, .ld = ld,
                .histograms_ld = size, .prefix_bits = c->prefix_bits, .bits = round_bits[c->round]);
        }
    RUN(c->g, add_histograms, .sums = summary, .histograms = bins + row * size,
        .candidates = c->round ? c->candidates + row : NULL, .limits = c->limits_on,
        .of = {.heads = to - from, .layers = c->layers}, .bits = round_bits[c->round]);
}

static void run_round(contest *c)
{
    int64_t size = (int64_t)1 << round_bits[c->round], heads = c->l->heads / c->layers;
    int32_t *bins = rig_new(c->g, c->l->heads * size * 4), *all = rig_new(c->g, c->ranks * (size + 1) * 4);
    for (int64_t r = 0; r < c->ranks; r++) count_rank(c, r, bins, all + r * (size + 1));
    RUN(c->g, refine_threshold, .to = c->rounds + c->round, .from = c->round ? c->rounds + c->round - 1 : NULL,
        .candidates = c->candidates, .histograms = bins, .summaries = all, .limits = c->limits_on,
        .of = {.heads = heads, .layers = c->layers}, .ranks = c->ranks, .bits = round_bits[c->round]);
    c->prefix_bits += round_bits[c->round++];
}

/* What sorting all entries together gives each row beside its floor, which is its own best; returns how many in all.
 * Rows are ordered by layer and then by head. */
static int64_t best_of_all(lot *m, const layer *l, int64_t layers, const contest *c, int64_t *counts)
{
    entry *best;
    int64_t held = ranked(m, l, 0, l->heads, &best), heads = l->heads / layers, rest = 0, sum = 0;
    for (int64_t i = 0; i < held; i++) {
        int64_t row = best[i].head;
        if (counts[row] < c->limits.floor) {
            counts[row]++;
            sum++;
        } else {
            best[rest] = best[i];
            best[rest++].head = row % layers * heads + row / layers;
        }
    }
    qsort(best, (size_t)rest, sizeof *best, by_rank);
    for (int64_t i = 0; i < rest && sum < c->limits.most; i++, sum++)
        counts[best[i].head % heads * layers + best[i].head / heads]++;
    return held;
}

START_TEST(test_rounds_over_ranks_give_what_sorting_all_heads_together_gives)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 350; n += rig_step(&g)) {
            lot m = {0};
            layer l;
            layer_make(&m, &l, n);
            int64_t bytes = l.heads * 8, *want = lot_new(&m, bytes), *got = lot_new(&m, bytes);
            int64_t *by_layer = lot_new(&m, bytes);
            contest c = {.g = &g, .l = &l, .layers = l.heads % 3 == 0 && n % 2 ? 3 : 1};
            if (l.heads % 2 == 0 && n % 4 == 1) c.layers = 2;
            c.limits.floor = n % 3 ? 0 : draw(70, (uint64_t)n, 20);
            c.limits.most = l.heads * c.limits.floor + draw(71, (uint64_t)n, 1 + l.heads * (n % 4 ? 20 : 350));
            const lh_layer_limits limits[] = {c.limits, c.limits, c.limits};
            best_of_all(&m, &l, c.layers, &c, want);
            for (c.ranks = 1; c.ranks <= 4; c.ranks++) {
                placed on = layer_put(&g, &l);
                int64_t *counts = rig_new(&g, bytes);
                c.on = &on;
                c.limits_on = rig_put(&g, limits, sizeof limits);
                c.rounds = rig_new(&g, 3 * (int64_t)sizeof *c.rounds);
                c.candidates = rig_new(&g, l.heads * (int64_t)sizeof *c.candidates);
                for (c.round = c.prefix_bits = 0; c.round < 3;) run_round(&c);
                RUN(&g, head_budgets, .counts = counts, .candidates = c.candidates, .search = c.rounds + 2,
                    .limits = c.limits_on, .of = {.heads = l.heads / c.layers, .layers = c.layers}, .share = {1, 1});
                rig_get(&g, by_layer, counts, bytes);
                for (int64_t r = 0; r < l.heads; r++) /* rows: the layers of a head side by side */
                    got[r] = by_layer[r % c.layers * (l.heads / c.layers) + r / c.layers];
                check_same(got, want, bytes, "counts of heads, case %d, %d ranks, %s", n, (int)c.ranks, g.ops->name);
                rig_reset(&g);
            }
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* ---- contests of layers ---- */

/* What a search makes of cells in one round, and of that. */
typedef struct found {
    int32_t *sums;                   /* [contests, size + 1], of all ranks */
    lh_candidate_counts *candidates; /* [heads, layers] */
    lh_search *search;               /* [contests] */
    int64_t *counts;                 /* [layers, heads] */
} found;

/* On so many ranks, each with its share of the heads. */
static found find(rig *g, lot *m, const cells *c, int64_t ranks, int each_layer)
{
    const int64_t contests = each_layer ? c->layers : 1, candidates = c->count * (int64_t)sizeof *c->candidates,
                  bins = contests * (c->size + 1), searches = contests * (int64_t)sizeof(lh_search);
    const lh_contests of = {.heads = c->heads, .layers = c->layers, .each_layer = each_layer};
    found f = {lot_new(m, bins * 4), lot_new(m, candidates), lot_new(m, searches), lot_new(m, c->count * 8)};
    int32_t *summaries = lot_new(m, ranks * bins * 4);
    int32_t *on = rig_new(g, ranks * bins * 4), *histograms = rig_put(g, c->histograms, c->count * c->size * 4);
    lh_candidate_counts *had = rig_put(g, c->candidates, candidates);
    lh_layer_limits *limits = rig_put(g, c->limits, c->layers * (int64_t)sizeof *limits);
    lh_search *from = lot_new(m, searches), *to = rig_new(g, searches);
    int64_t *counts = rig_new(g, c->count * 8);
    for (int64_t i = 0; i < contests; i++)
        from[i] = (lh_search){.want = c->limits[i].most / 2, .prefix = (uint32_t)c->limits[i].most};
    for (int64_t r = 0; r < ranks; r++) {
        const int64_t first = c->heads * r / ranks, cell = first * c->layers;
        lh_contests own = of;
        own.heads = c->heads * (r + 1) / ranks - first;
        RUN(g, add_histograms, .sums = on + r * bins, .histograms = histograms + cell * c->size,
            .candidates = c->first ? NULL : had + cell, .limits = limits, .of = own, .bits = c->bits);
    }
    RUN(g, refine_threshold, .to = to, .from = c->first ? NULL : rig_put(g, from, searches), .candidates = had,
        .histograms = histograms, .summaries = on, .limits = limits, .of = of, .ranks = ranks, .bits = c->bits);
    RUN(g, head_budgets, .counts = counts, .candidates = had, .search = to, .limits = limits, .of = of,
        .share = {2, 3});
    rig_get(g, summaries, on, ranks * bins * 4);
    for (int64_t i = 0; i < ranks * bins; i++) f.sums[i % bins] += summaries[i];
    rig_get(g, f.candidates, had, candidates);
    rig_get(g, f.search, to, searches);
    rig_get(g, f.counts, counts, c->count * 8);
    return f;
}

/* Layer l alone. */
static cells layer_of(lot *m, const cells *c, int64_t l)
{
    cells one = *c;
    one.layers = 1;
    one.count = c->heads;
    one.histograms = lot_new(m, one.count * c->size * 4);
    one.candidates = lot_new(m, one.count * (int64_t)sizeof *one.candidates);
    one.limits += l;
    for (int64_t h = 0; h < c->heads; h++) {
        memcpy(one.histograms + h * c->size, c->histograms + (h * c->layers + l) * c->size, (size_t)c->size * 4);
        one.candidates[h] = c->candidates[h * c->layers + l];
    }
    return one;
}

/* Those of several layers, on several ranks, are those of each layer on one. */
START_TEST(test_each_layer_is_a_contest_of_its_own)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 420; n += rig_step(&g)) {
            lot m = {0};
            cells c;
            cells_make(&m, &c, n);
            for (int64_t i = 0; i < c.layers; i++) c.limits[i].most = draw(72, (uint64_t)(n * 3 + i), 200);
            found all = find(&g, &m, &c, 1 + n % 4, 1);
            for (int64_t l = 0; l < c.layers; l++) {
                cells one = layer_of(&m, &c, l);
                found alone = find(&g, &m, &one, 1, 0);
                const int64_t sums = c.size + 1;
                check_same(all.sums + l * sums, alone.sums, sums * 4, "sums, case %d, %s", n, g.ops->name);
                check_same(all.counts + l * c.heads, alone.counts, c.heads * 8, "counts, case %d, %s", n, g.ops->name);
                ck_assert_int_eq(all.search[l].want, alone.search->want);
                ck_assert_int_eq(all.search[l].prefix, alone.search->prefix);
                for (int64_t h = 0; h < c.heads; h++)
                    check_same(&all.candidates[h * c.layers + l], &alone.candidates[h],
                               (int64_t)sizeof *alone.candidates, "candidates, case %d, %s", n, g.ops->name);
            }
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

START_TEST(test_stages_split_counts)
{
    static const lh_fraction shares[] = {{1, 1}, {0, 1}, {1, 2}, {29, 100}, {12, 19}};
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n < 300; n++) {
            lot m = {0};
            int64_t heads = n % 40 ? n % 11 : 700, bytes = heads * 8, *counts = lot_new(&m, bytes);
            int64_t *first = rig_new(&g, bytes), *rest = rig_new(&g, bytes);
            int64_t *got = lot_new(&m, 2 * bytes);
            lh_stage stage = {.share = shares[n % 5], .others = n % 3 ? 0 : n, .least = n % 4 ? 0 : n / 2, .up = n % 2};
            for (int64_t h = 0; h < heads; h++) counts[h] = draw(72, (uint64_t)(n * 1000 + h), n % 2 ? 9 : 2000);
            RUN(&g, split_counts, .first = first, .rest = rest, .counts = rig_put(&g, counts, bytes), .stage = stage,
                .heads = heads);
            rig_get(&g, got, first, bytes);
            rig_get(&g, got + heads, rest, bytes);
            for (int64_t h = 0; h < heads; h++) {
                int64_t all = counts[h] + stage.others, want = 0;
                while ((want + 1) * stage.share.den <= all * stage.share.num) want++;
                if (stage.up && want * stage.share.den < all * stage.share.num) want++;
                while (want < stage.least) want++;
                want = want < stage.others ? 0 : want - stage.others;
                if (want > counts[h]) want = counts[h];
                ck_assert_int_eq(got[h], want);
                ck_assert_int_eq(got[heads + h], counts[h] - want);
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
    const TTest *const tests[] = {test_histogram_counts_the_keys_of_a_prefix,
                                  test_histograms_of_several_layers_are_those_of_each,
                                  test_sums_of_bins_leave_out_the_floors_of_heads,
                                  test_refined_thresholds_are_the_bins_of_the_last_of_the_best,
                                  test_shares_are_exact_and_sum_to_what_all_may_keep,
                                  test_rounds_over_ranks_give_what_sorting_all_heads_together_gives,
                                  test_each_layer_is_a_contest_of_its_own,
                                  test_stages_split_counts,
                                  NULL};
    return rig_run("kernels/shares", tests);
}
