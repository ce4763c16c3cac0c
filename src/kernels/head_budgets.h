/* head_budgets.h - the integers of ops_budgets.h, worked out by one implementation in all backends: `ref` and `cpu`
 * call it as it is. A device adds up histograms and looks for the threshold's bin by a block of threads, since bins are
 * many; what a head keeps it works out here. */
#ifndef LH_KERNELS_HEAD_BUDGETS_H
#define LH_KERNELS_HEAD_BUDGETS_H

#include <string.h>

#include "base/minmax.h"
#include "kernels/ops_budgets.h"

static LH_BOTH inline lh_head_safeguard lh_safeguard_of(const lh_head_safeguard *each, lh_head_safeguard all,
                                                        int64_t layer)
{
    return each ? each[layer] : all;
}

/* One bin of the summaries of all ranks. */
static LH_BOTH inline int64_t lh_bin_of_ranks(const lh_refine_threshold_args *a, int64_t bin)
{
    int64_t sum = 0, size = ((int64_t)1 << a->bits) + 1;
    for (int64_t r = 0; r < a->ranks; r++) sum += a->summaries[r * size + bin];
    return sum;
}

/* ---- histograms: host only ---- */

static inline void lh_add_all_histograms(const lh_add_histograms_args *a)
{
    int64_t size = (int64_t)1 << a->bits;
    memset(a->sums, 0, (size_t)(size + 1) * sizeof *a->sums);
    for (int64_t i = 0; i < a->heads * a->layers; i++) {
        const int32_t *bins = a->histograms + i * size;
        int64_t floor_ = lh_safeguard_of(a->safeguards, a->safeguard, i % a->layers).floor, b = size - 1;
        int64_t skip = floor_ - (a->candidates ? a->candidates[i].above : 0);
        for (; b >= 0 && skip > 0; b--) {
            int32_t skipped = (int32_t)lh_min_i64(skip, bins[b]);
            skip -= skipped;
            a->sums[b] += bins[b] - skipped;
            a->sums[size] += skipped;
        }
        for (int64_t c = 0; c <= b; c++) a->sums[c] += bins[c];
    }
}

static inline int64_t lh_sum_bins(const int32_t *bins, int64_t first, int64_t end)
{
    int64_t sum = 0;
    for (int64_t b = first; b < end; b++) sum += bins[b];
    return sum;
}

static inline void lh_refine_all(const lh_refine_threshold_args *a)
{
    int64_t size = (int64_t)1 << a->bits, bin = size - 1;
    uint32_t prefix = a->from ? a->from->prefix << a->bits : 0;
    int64_t all = 0, want = a->from ? a->from->want : 0;
    if (!a->from) {
        for (int64_t r = 0; r < a->ranks; r++) all += lh_sum_bins(a->summaries + r * (size + 1), 0, size + 1);
        want = lh_min_i64(a->most, all) - lh_bin_of_ranks(a, size);
    }
    for (; bin > 0 && lh_bin_of_ranks(a, bin) < want; bin--) want -= lh_bin_of_ranks(a, bin);
    for (int64_t i = 0; i < a->heads * a->layers; i++) {
        const int32_t *bins = a->histograms + i * size;
        lh_candidate_counts *c = &a->candidates[i];
        if (!a->from) c->competing = (int32_t)lh_sum_bins(bins, 0, size), c->above = 0;
        c->above += (int32_t)lh_sum_bins(bins, bin + 1, size);
        c->at = bins[bin];
    }
    a->to->want = want;
    a->to->prefix = prefix | (uint32_t)bin;
}

/* ---- head_budgets ---- */

/* The i-th head in the order of ties: by layer and then by head. */
static LH_BOTH inline int64_t lh_tied_head(const lh_head_budgets_args *a, int64_t i)
{
    return i % a->heads * a->layers + i / a->heads;
}

/* Shares rounded down. lags[i]: what the i-th head in the order of ties lacks by rounding, times share.den. Returns how
 * many entries are left to give. */
static LH_BOTH inline int64_t lh_give_shares(const lh_head_budgets_args *a, int64_t *lags)
{
    int64_t rest = a->search->want, held = 0, given = 0;
    for (int64_t i = 0; i < a->heads * a->layers; i++) {
        int64_t h = lh_tied_head(a, i);
        lh_candidate_counts c = a->candidates[h];
        lh_head_safeguard s = lh_safeguard_of(a->safeguards, a->safeguard, h % a->layers);
        int64_t own = lh_min_i64(s.floor, c.competing), over = lh_max_i64(0, c.above - own);
        int64_t on = lh_max_i64(0, c.above + c.at - own) - over, more = lh_min_i64(on, lh_max_i64(0, rest));
        rest -= more;
        a->counts[h] = lh_min_i64(own + lh_fraction_of(a->share, over + more) + s.bonus, c.competing);
        lags[i] = lh_fraction_rest(a->share, over + more);
        given += a->counts[h];
        held += c.competing;
    }
    return lh_min_i64(a->most, held) - given;
}

/* All that have room get one each, round after round, while there is enough for all of them. Nobody lacks a whole entry
 * by rounding, so no round gives anybody a second one before all have their first. Returns what is still left; then
 * lags of heads without room are -1. */
static LH_BOTH inline int64_t lh_give_rounds(const lh_head_budgets_args *a, int64_t left, int64_t *lags)
{
    int64_t n = a->heads * a->layers;
    while (left > 0) {
        int64_t open = 0, each = left;
        for (int64_t i = 0; i < n; i++) {
            int64_t spare = a->candidates[lh_tied_head(a, i)].competing - a->counts[lh_tied_head(a, i)];
            if (spare > 0)
                open++, each = lh_min_i64(each, spare);
            else
                lags[i] = -1;
        }
        if (open == 0) return 0;
        if (left < open) return left;
        each = lh_min_i64(each, left / open);
        for (int64_t i = 0; i < n; i++)
            if (lags[i] >= 0) a->counts[lh_tied_head(a, i)] += each;
        left -= each * open;
    }
    return 0;
}

/* One more for each of the `left` heads that lack most. Looks at the heads first, first + step, … */
static LH_BOTH inline void lh_give_last(const lh_head_budgets_args *a, int64_t left, const int64_t *lags, int64_t first,
                                        int64_t step)
{
    int64_t n = a->heads * a->layers;
    for (int64_t i = first; i < n && left > 0; i += step) {
        int64_t before = 0;
        if (lags[i] < 0) continue;
        for (int64_t other = 0; other < n; other++)
            before += lags[other] > lags[i] || (lags[other] == lags[i] && other < i);
        if (before < left) a->counts[lh_tied_head(a, i)]++;
    }
}

#endif
