/* head_budgets.h - the integer arithmetic of ops_budgets.h, one implementation for all backends: `ref` and `cpu` call
 * it directly. A device adds histograms and searches the bin of the threshold with a block of threads, because there
 * are many bins; it computes the budgets of heads with the functions below. */
#ifndef LH_KERNELS_HEAD_BUDGETS_H
#define LH_KERNELS_HEAD_BUDGETS_H

#include <string.h>

#include "base/minmax.h"
#include "kernels/ops_budgets.h"

/* A contest: the heads of some layers that compete with each other. */
typedef struct lh_contest {
    int64_t index, first, layers; /* first: its first layer; layers: their number */
} lh_contest;

static LH_BOTH inline lh_contest lh_contest_at(const lh_contests *of, int64_t index)
{
    lh_contest c = {index, of->each_layer ? index : 0, of->each_layer ? 1 : of->layers};
    return c;
}

/* The contest of cell i of [heads, layers]. */
static LH_BOTH inline int64_t lh_contest_of(const lh_contests *of, int64_t i)
{
    return of->each_layer ? i % of->layers : 0;
}

static LH_BOTH inline int64_t lh_most_of(const lh_layer_limits *limits, const lh_contests *of, int64_t contest)
{
    return limits[lh_contest_at(of, contest).first].most;
}

/* One bin of the summaries of all ranks. */
static LH_BOTH inline int64_t lh_bin_of_ranks(const lh_refine_threshold_args *a, int64_t contest, int64_t bin)
{
    int64_t sum = 0, size = ((int64_t)1 << a->bits) + 1, contests = lh_contest_count(&a->of);
    for (int64_t r = 0; r < a->ranks; r++) sum += a->summaries[(r * contests + contest) * size + bin];
    return sum;
}

/* ---- histograms, on the host only ---- */

static inline void lh_add_all_histograms(const lh_add_histograms_args *a)
{
    int64_t size = (int64_t)1 << a->bits;
    memset(a->sums, 0, (size_t)(lh_contest_count(&a->of) * (size + 1)) * sizeof *a->sums);
    for (int64_t i = 0; i < a->of.heads * a->of.layers; i++) {
        const int32_t *bins = a->histograms + i * size;
        int32_t *sums = a->sums + lh_contest_of(&a->of, i) * (size + 1);
        int64_t skip = a->limits[i % a->of.layers].floor - (a->candidates ? a->candidates[i].above : 0);
        int64_t b = size - 1;
        for (; b >= 0 && skip > 0; b--) {
            int32_t skipped = (int32_t)lh_min_i64(skip, bins[b]);
            skip -= skipped;
            sums[b] += bins[b] - skipped;
            sums[size] += skipped;
        }
        for (int64_t c = 0; c <= b; c++) sums[c] += bins[c];
    }
}

static inline int64_t lh_sum_bins(const int32_t *bins, int64_t first, int64_t end)
{
    int64_t sum = 0;
    for (int64_t b = first; b < end; b++) sum += bins[b];
    return sum;
}

static inline void lh_refine_contest(const lh_refine_threshold_args *a, int64_t contest)
{
    int64_t size = (int64_t)1 << a->bits, bin = size - 1, all = 0, want = a->from ? a->from[contest].want : 0;
    uint32_t prefix = a->from ? a->from[contest].prefix << a->bits : 0;
    if (!a->from) {
        for (int64_t b = 0; b <= size; b++) all += lh_bin_of_ranks(a, contest, b);
        want = lh_min_i64(lh_most_of(a->limits, &a->of, contest), all) - lh_bin_of_ranks(a, contest, size);
    }
    for (; bin > 0 && lh_bin_of_ranks(a, contest, bin) < want; bin--) want -= lh_bin_of_ranks(a, contest, bin);
    for (int64_t i = 0; i < a->of.heads * a->of.layers; i++) {
        const int32_t *bins = a->histograms + i * size;
        lh_candidate_counts *c = &a->candidates[i];
        if (lh_contest_of(&a->of, i) != contest) continue;
        if (!a->from) c->competing = (int32_t)lh_sum_bins(bins, 0, size), c->above = 0;
        c->above += (int32_t)lh_sum_bins(bins, bin + 1, size);
        c->at = bins[bin];
    }
    a->to[contest].want = want;
    a->to[contest].prefix = prefix | (uint32_t)bin;
}

static inline void lh_refine_all(const lh_refine_threshold_args *a)
{
    for (int64_t c = 0; c < lh_contest_count(&a->of); c++) lh_refine_contest(a, c);
}

/* ---- head_budgets ---- */

static LH_BOTH inline int64_t lh_heads_of_contest(const lh_head_budgets_args *a, lh_contest c)
{
    return a->of.heads * c.layers;
}

/* Ties are ordered by layer, then by head, like the counts: the counts of a contest, and the candidates of its i-th
 * head. */
static LH_BOTH inline int64_t *lh_counts_of(const lh_head_budgets_args *a, lh_contest c)
{
    return a->counts + c.first * a->of.heads;
}

static LH_BOTH inline lh_candidate_counts lh_tied_candidates(const lh_head_budgets_args *a, lh_contest c, int64_t i)
{
    return a->candidates[i % a->of.heads * a->of.layers + c.first + i / a->of.heads];
}

/* The entries at the threshold of a contest's i-th head, without its guaranteed ones. */
static LH_BOTH inline int64_t lh_tied_of(const lh_head_budgets_args *a, lh_contest c, int64_t i)
{
    const lh_candidate_counts has = lh_tied_candidates(a, c, i);
    const int64_t own = lh_min_i64(a->limits[c.first + i / a->of.heads].floor, has.competing);
    return lh_max_i64(0, has.above + has.at - own) - lh_max_i64(0, has.above - own);
}

/* Gives the i-th head its share, rounded down; rest: entries at the threshold that the heads before it leave. lags[i]:
 * the remainder, times share.den. Returns the entries given. */
static LH_BOTH inline int64_t lh_give_share(const lh_head_budgets_args *a, lh_contest c, int64_t i, int64_t rest,
                                            int64_t *lags)
{
    const lh_candidate_counts has = lh_tied_candidates(a, c, i);
    const lh_layer_limits s = a->limits[c.first + i / a->of.heads];
    const int64_t own = lh_min_i64(s.floor, has.competing), over = lh_max_i64(0, has.above - own),
                  chosen = over + lh_min_i64(lh_tied_of(a, c, i), lh_max_i64(0, rest)),
                  count = lh_min_i64(own + lh_fraction_of(a->share, chosen) + s.bonus, has.competing);
    lh_counts_of(a, c)[i] = count;
    lags[i] = lh_fraction_rest(a->share, chosen);
    return count;
}

/* Gives every head its share. Returns the number of entries left to give. */
static LH_BOTH inline int64_t lh_give_shares(const lh_head_budgets_args *a, lh_contest c, int64_t *lags)
{
    int64_t rest = a->search[c.index].want, held = 0, given = 0;
    for (int64_t i = 0; i < lh_heads_of_contest(a, c); i++) {
        given += lh_give_share(a, c, i, rest, lags);
        held += lh_tied_candidates(a, c, i).competing;
        rest -= lh_tied_of(a, c, i);
    }
    return lh_min_i64(a->limits[c.first].most, held) - given;
}

/* The entries that the i-th head could still get; lags[i] is -1 if there are none. */
static LH_BOTH inline int64_t lh_spare_of(const lh_head_budgets_args *a, lh_contest c, int64_t i, int64_t *lags)
{
    const int64_t spare = lh_tied_candidates(a, c, i).competing - lh_counts_of(a, c)[i];
    if (spare <= 0) lags[i] = -1;
    return spare;
}

/* Gives one entry to each head with spare ones, round after round, while there are enough entries for a whole round. A
 * remainder is less than one entry, so no head gets a second entry before all have their first. Returns the number of
 * entries left. */
static LH_BOTH inline int64_t lh_give_rounds(const lh_head_budgets_args *a, lh_contest c, int64_t left, int64_t *lags)
{
    int64_t n = lh_heads_of_contest(a, c), *counts = lh_counts_of(a, c);
    while (left > 0) {
        int64_t open = 0, each = left;
        for (int64_t i = 0; i < n; i++) {
            const int64_t spare = lh_spare_of(a, c, i, lags);
            if (spare > 0) open++, each = lh_min_i64(each, spare);
        }
        if (open == 0) return 0;
        if (left < open) return left;
        each = lh_min_i64(each, left / open);
        for (int64_t i = 0; i < n; i++)
            if (lags[i] >= 0) counts[i] += each;
        left -= each * open;
    }
    return 0;
}

/* Gives one entry to each of the `left` heads with the largest remainders. Visits the heads first, first + step, … */
static LH_BOTH inline void lh_give_last(const lh_head_budgets_args *a, lh_contest c, int64_t left, const int64_t *lags,
                                        int64_t first, int64_t step)
{
    int64_t n = lh_heads_of_contest(a, c);
    for (int64_t i = first; i < n && left > 0; i += step) {
        int64_t before = 0;
        if (lags[i] < 0) continue;
        for (int64_t other = 0; other < n; other++)
            before += lags[other] > lags[i] || (lags[other] == lags[i] && other < i);
        if (before < left) lh_counts_of(a, c)[i]++;
    }
}

#endif
