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
        for (int n = 0; n < 280; n++) {
            lot m = {0};
            layer l;
            layer_make(&m, &l, n);
            int before = splits[n % 8][0], bits = splits[n % 8][1];
            int64_t size = (int64_t)1 << bits, bins_ld = size * (1 + n % 2), all = l.heads * l.ld;
            int32_t *want = lot_new(&m, l.heads * bins_ld * 4), *got = lot_new(&m, l.heads * bins_ld * 4);
            int32_t *bins = rig_new(&g, l.heads * bins_ld * 4);
            /* The prefix of one of the scores, so that something is counted. */
            float some = all ? l.scores[draw(31, (uint64_t)n, all)] : 0;
            lh_search search = {.prefix = before ? lh_score_key(some) >> (32 - before) : 0};
            memset(want, 0xff, (size_t)(l.heads * bins_ld) * 4);
            for (int64_t h = 0; h < l.heads; h++) {
                memset(want + h * bins_ld, 0, (size_t)size * 4);
                for (int64_t s = 0; s < l.kv.host.len[h]; s++) {
                    uint32_t key = lh_score_key(l.scores[h * l.ld + s]);
                    int in = !before || key >> (32 - before) == search.prefix;
                    uint32_t low = before ? key << before : key;
                    if (l.state[h * l.ld + s] == LH_ENTRY_COMPETES && in) want[h * bins_ld + (low >> (32 - bits))]++;
                }
            }
            placed on = layer_put(&g, &l);
            RUN(&g, histogram, .bins = bins, .scores = on.scores, .state = on.state, .len = on.kv.len,
                .search = before ? rig_put(&g, &search, sizeof search) : NULL, .heads = l.heads, .ld = l.ld,
                .bins_ld = bins_ld, .prefix_bits = before, .bits = bits);
            rig_get(&g, got, bins, l.heads * bins_ld * 4);
            check_same(got, want, l.heads * bins_ld * 4, "histogram, case %d, %s", n, g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* ---- one round ---- */

/* Bins of heads and sheets, and what these have. */
typedef struct cells {
    int64_t heads, sheets, count, size;
    int bits, first;
    int32_t *bins;
    lh_tally *tallies;
    lh_grant *grants;
} cells;

static void cells_make(lot *m, cells *c, int n)
{
    const int bits[] = {11, 10, 1, 3, 6};
    c->heads = n % 7;
    c->sheets = 1 + n % 3;
    c->count = c->heads * c->sheets;
    c->bits = bits[n % 5];
    c->size = (int64_t)1 << c->bits;
    c->first = n % 4 == 0;
    c->bins = lot_new(m, c->count * c->size * 4);
    c->tallies = lot_new(m, c->count * (int64_t)sizeof *c->tallies);
    c->grants = lot_new(m, c->sheets * (int64_t)sizeof *c->grants);
    for (int64_t i = 0; i < c->count * c->size; i++)
        c->bins[i] = (int32_t)(draw(50, (uint64_t)(n * 99991 + i), n % 2 ? 4 : 40) * draw(51, (uint64_t)(n + i), 2));
    for (int64_t i = 0; i < c->count; i++)
        c->tallies[i] =
            (lh_tally){(int32_t)draw(52, (uint64_t)(n + i), 90), (int32_t)draw(53, (uint64_t)(n + i), 60), 3};
    for (int64_t s = 0; s < c->sheets; s++)
        c->grants[s].floor = n % 5 ? draw(54, (uint64_t)(n + s), n % 3 ? 80 : 9000) : 0;
}

/* Entries one by one, the best first. */
static void add_by_hand(const cells *c, int alike, int32_t *sums)
{
    for (int64_t i = 0; i < c->count; i++) {
        int64_t skip = c->grants[alike ? 0 : i % c->sheets].floor - (c->first ? 0 : c->tallies[i].above);
        for (int64_t b = c->size - 1; b >= 0; b--)
            for (int32_t n = 0; n < c->bins[i * c->size + b]; n++) sums[skip-- > 0 ? c->size : b]++;
    }
}

START_TEST(test_sums_of_bins_leave_out_what_heads_are_sure_of)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n<420; n += rig_scale(&g)> 1 ? 7 : 1) {
            lot m = {0};
            cells c;
            cells_make(&m, &c, n);
            int alike = n % 6 < 2;
            int64_t bytes = (c.size + 1) * 4;
            int32_t *want = lot_new(&m, bytes), *got = lot_new(&m, bytes), *sums = rig_new(&g, bytes);
            add_by_hand(&c, alike, want);
            RUN(&g, add_bins, .sums = sums, .bins = rig_put(&g, c.bins, c.count * c.size * 4),
                .tallies = c.first ? NULL : rig_put(&g, c.tallies, c.count * (int64_t)sizeof *c.tallies),
                .grants = alike ? NULL : rig_put(&g, c.grants, c.sheets * (int64_t)sizeof *c.grants),
                .grant = c.grants[0], .heads = c.heads, .sheets = c.sheets, .bits = c.bits);
            rig_get(&g, got, sums, bytes);
            check_same(got, want, bytes, "add_bins, case %d, %s", n, g.ops->name);
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

START_TEST(test_narrow_finds_the_bin_of_the_last_of_the_best)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n<600; n += rig_scale(&g)> 1 ? 7 : 1) {
            lot m = {0};
            cells c;
            cells_make(&m, &c, n);
            int32_t *sums = lot_new(&m, (c.size + 1) * 4);
            add_by_hand(&c, 0, sums);
            int64_t all = 0, tally_bytes = c.count * (int64_t)sizeof(lh_tally);
            for (int64_t i = 0; i < c.size; i++) all += sums[i];
            const int64_t some[] = {0, 1, all / 2, all - 1, all, all + 7, -3};
            int64_t most = some[n / 3 % 7] + sums[c.size], want = most - sums[c.size];
            lh_search from = {.want = want, .prefix = 0x1234}, got;
            if (c.first && want > all) want = all;
            int64_t bin = bin_by_hand(sums, c.size, &want);
            lh_tally *tallies = lot_new(&m, tally_bytes), *back = lot_new(&m, tally_bytes);
            for (int64_t i = 0; i < c.count; i++) {
                tallies[i] = c.first ? (lh_tally){0} : c.tallies[i];
                for (int64_t x = 0; x < c.size; x++) {
                    int32_t held = c.bins[i * c.size + x];
                    if (c.first) tallies[i].competing += held;
                    if (x > bin) tallies[i].above += held;
                    if (x == bin) tallies[i].at = held;
                }
            }
            lh_search *to = rig_new(&g, sizeof *to);
            lh_tally *on = c.first ? rig_new(&g, tally_bytes) : rig_put(&g, c.tallies, tally_bytes);
            RUN(&g, narrow, .to = to, .from = c.first ? NULL : rig_put(&g, &from, sizeof from), .tallies = on,
                .bins = rig_put(&g, c.bins, c.count * c.size * 4), .sums = rig_put(&g, sums, (c.size + 1) * 4),
                .heads = c.heads, .sheets = c.sheets, .most = most, .bits = c.bits);
            rig_get(&g, &got, to, sizeof got);
            rig_get(&g, back, on, tally_bytes);
            uint32_t prefix = (c.first ? 0 : 0x1234u << c.bits) | (uint32_t)bin;
            ck_assert_msg(got.want == want && got.prefix == prefix, "%s, case %d: %d of %x, not %d of %x", g.ops->name,
                          n, (int)got.want, got.prefix, (int)want, prefix);
            check_same(back, tallies, tally_bytes, "tallies of narrow, case %d, %s", n, g.ops->name);
            rig_reset(&g);
            lot_end(&m);
        }
        rig_close(&g);
    }
}
END_TEST

/* ---- sharing out ---- */

enum { MOST_CELLS = 400 };

/* A share out of `one` in whole numbers, what a head has whatever happens, and its entries. */
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

/* Tallies of heads by sheets, and what they mean, in the order of ties. Returns what all may keep. */
static int64_t claims_make(claims *c, const cells *of, lh_search *search, int n)
{
    int64_t taken = 0, all = 0, heads = of->heads, sheets = of->sheets;
    c->count = of->count;
    for (int64_t i = 0; i < of->count; i++) {
        int64_t at = i % heads * sheets + i / heads;
        uint64_t dice = (uint64_t)(n * 1000 + i);
        lh_tally *t = &of->tallies[at];
        t->competing = (int32_t)draw(60, dice, n % 3 ? 60 : 8);
        t->above = (int32_t)draw(61, dice, t->competing + 1);
        t->at = (int32_t)draw(62, dice, t->competing - t->above + 1);
        lh_grant grant = of->grants[i / heads];
        int64_t own = grant.floor < t->competing ? grant.floor : t->competing, chosen = 0;
        for (int32_t e = 0; e < t->above + t->at; e++) { /* the best first */
            if (e < own) continue;
            if (e < t->above || taken < search->want) chosen++;
            if (e >= t->above) taken++;
        }
        c->own[i] = own;
        c->chosen[i] = chosen;
        c->sure[i] = grant.sure;
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
        for (int n = 0; n<2000; n += rig_scale(&g)> 1 ? 11 : 1) {
            lot m = {0};
            cells of = {.heads = 1 + n % 9, .sheets = n % 4 ? 1 : n % 16 ? 1 + n % 5 : 40};
            of.count = of.heads * of.sheets;
            of.tallies = lot_new(&m, of.count * (int64_t)sizeof *of.tallies);
            of.grants = lot_new(&m, of.sheets * (int64_t)sizeof *of.grants);
            lh_search search = {.want = draw(63, (uint64_t)n, 30)};
            int alike = n % 5 < 2;
            for (int64_t s = 0; s < of.sheets; s++)
                of.grants[s] = alike && s ? of.grants[0]
                                          : (lh_grant){n % 3 ? 0 : draw(64, (uint64_t)(n + s), 20),
                                                       n % 2 ? draw(65, (uint64_t)(n + s), 20) : 0};
            claims c = {.share = shares[n % 7].num, .one = shares[n % 7].den};
            int64_t want[MOST_CELLS], got[MOST_CELLS], sum = 0, held = 0, bytes = of.count * 8;
            int64_t most = claims_make(&c, &of, &search, n) + draw(66, (uint64_t)n, 90), *counts = rig_new(&g, bytes);
            share_by_hand(&c, most, want);
            RUN(&g, share_out, .counts = counts,
                .tallies = rig_put(&g, of.tallies, of.count * (int64_t)sizeof *of.tallies),
                .search = rig_put(&g, &search, sizeof search),
                .grants = alike ? NULL : rig_put(&g, of.grants, of.sheets * (int64_t)sizeof *of.grants),
                .grant = of.grants[0], .share = shares[n % 7], .heads = of.heads, .sheets = of.sheets, .most = most);
            rig_get(&g, got, counts, bytes);
            for (int64_t i = 0; i < of.count; i++) {
                int64_t mine = got[i % of.heads * of.sheets + i / of.heads];
                ck_assert_msg(mine == want[i], "%s, case %d: the %dth has %d, not %d", g.ops->name, n, (int)i,
                              (int)mine, (int)want[i]);
                sum += mine;
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
    int64_t ranks, sheets, most;
    lh_grant grant;
    lh_search *rounds;
    lh_tally *tallies;
    int round, prefix_bits;
} contest;

static const int round_bits[] = {11, 11, 10};

/* bins and sums: of all ranks, one behind the other. */
static void count_rank(const contest *c, int64_t rank, int32_t *bins, int32_t *sums)
{
    int64_t heads = c->l->heads / c->sheets, from = heads * rank / c->ranks, to = heads * (rank + 1) / c->ranks;
    int64_t size = (int64_t)1 << round_bits[c->round], row = from * c->sheets, ld = c->l->ld;
    lh_search *search = c->round ? c->rounds + c->round - 1 : NULL;
    for (int64_t s = 0; s < c->sheets; s++)
        for (int64_t h = 0; h < to - from; h++) { /* heads are apart where there are sheets */
            int64_t r = row + h * c->sheets + s;
            RUN(c->g, histogram, .bins = bins + r * size, .scores = c->on->scores + r * ld,
                .state = c->on->state + r * ld, .len = c->on->kv.len + r, .search = search, .heads = 1, .ld = ld,
                .bins_ld = size, .prefix_bits = c->prefix_bits, .bits = round_bits[c->round]);
        }
    RUN(c->g, add_bins, .sums = sums, .bins = bins + row * size, .tallies = c->round ? c->tallies + row : NULL,
        .grant = c->grant, .heads = to - from, .sheets = c->sheets, .bits = round_bits[c->round]);
}

static void run_round(contest *c)
{
    lot m = {0};
    int64_t size = (int64_t)1 << round_bits[c->round], heads = c->l->heads / c->sheets;
    int32_t *bins = rig_new(c->g, c->l->heads * size * 4), *sums = rig_new(c->g, (size + 1) * 4);
    int32_t *all = lot_new(&m, (size + 1) * 4), *one = lot_new(&m, (size + 1) * 4);
    for (int64_t r = 0; r < c->ranks; r++) {
        count_rank(c, r, bins, sums);
        rig_get(c->g, one, sums, (size + 1) * 4);
        for (int64_t b = 0; b <= size; b++) all[b] += one[b];
    }
    RUN(c->g, narrow, .to = c->rounds + c->round, .from = c->round ? c->rounds + c->round - 1 : NULL,
        .tallies = c->tallies, .bins = bins, .sums = rig_put(c->g, all, (size + 1) * 4), .heads = heads,
        .sheets = c->sheets, .most = c->most, .bits = round_bits[c->round]);
    c->prefix_bits += round_bits[c->round++];
    lot_end(&m);
}

/* What sorting all entries together gives each row beside its floor, which is its own best; returns how many in all.
 * Rows are ordered by sheet and then by head. */
static int64_t best_of_all(lot *m, const layer *l, int64_t sheets, const contest *c, int64_t *counts)
{
    entry *best;
    int64_t held = ranked(m, l, 0, l->heads, &best), heads = l->heads / sheets, rest = 0, sum = 0;
    for (int64_t i = 0; i < held; i++) {
        int64_t row = best[i].head;
        if (counts[row] < c->grant.floor) {
            counts[row]++;
            sum++;
        } else {
            best[rest] = best[i];
            best[rest++].head = row % sheets * heads + row / sheets;
        }
    }
    qsort(best, (size_t)rest, sizeof *best, by_rank);
    for (int64_t i = 0; i < rest && sum < c->most; i++, sum++)
        counts[best[i].head % heads * sheets + best[i].head / heads]++;
    return held;
}

START_TEST(test_rounds_over_ranks_give_what_sorting_all_heads_together_gives)
{
    for (int b = 0; rig_backend(b); b++) {
        rig g;
        rig_open(&g, rig_backend(b));
        for (int n = 0; n<350; n += rig_scale(&g)> 1 ? 5 : 1) {
            lot m = {0};
            layer l;
            layer_make(&m, &l, n);
            int64_t bytes = l.heads * 8, *want = lot_new(&m, bytes), *got = lot_new(&m, bytes);
            contest c = {.g = &g, .l = &l, .sheets = l.heads % 3 == 0 && n % 2 ? 3 : 1};
            if (l.heads % 2 == 0 && n % 4 == 1) c.sheets = 2;
            c.grant.floor = n % 3 ? 0 : draw(70, (uint64_t)n, 20);
            c.most = l.heads * c.grant.floor + draw(71, (uint64_t)n, 1 + l.heads * (n % 4 ? 20 : 350));
            best_of_all(&m, &l, c.sheets, &c, want);
            for (c.ranks = 1; c.ranks <= 4; c.ranks++) {
                placed on = layer_put(&g, &l);
                int64_t *counts = rig_new(&g, bytes);
                c.on = &on;
                c.rounds = rig_new(&g, 3 * (int64_t)sizeof *c.rounds);
                c.tallies = rig_new(&g, l.heads * (int64_t)sizeof *c.tallies);
                for (c.round = c.prefix_bits = 0; c.round < 3;) run_round(&c);
                RUN(&g, share_out, .counts = counts, .tallies = c.tallies, .search = c.rounds + 2, .grant = c.grant,
                    .share = {1, 1}, .heads = l.heads / c.sheets, .sheets = c.sheets, .most = c.most);
                rig_get(&g, got, counts, bytes);
                check_same(got, want, bytes, "counts of heads, case %d, %d ranks, %s", n, (int)c.ranks, g.ops->name);
                rig_reset(&g);
            }
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
                                  test_sums_of_bins_leave_out_what_heads_are_sure_of,
                                  test_narrow_finds_the_bin_of_the_last_of_the_best,
                                  test_shares_are_exact_and_sum_to_what_all_may_keep,
                                  test_rounds_over_ranks_give_what_sorting_all_heads_together_gives,
                                  test_stages_split_counts,
                                  NULL};
    return rig_run("kernels/shares", tests);
}
