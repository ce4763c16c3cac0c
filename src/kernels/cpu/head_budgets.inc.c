/* The best entries of many heads, by the order-preserving integer image of scores, and what each of these keeps. */
#include "kernels/cpu/common.h"

static lh_status op_add_histograms(lh_stream *stream, const lh_add_histograms_args *a)
{
    int64_t size = (int64_t)1 << a->bits;
    (void)stream;
    memset(a->sums, 0, (size_t)(size + 1) * sizeof *a->sums);
    for (int64_t i = 0; i < a->heads * a->layers; i++) {
        const int32_t *bins = a->histograms + i * size;
        int64_t floor_ = a->safeguards ? a->safeguards[i % a->layers].floor : a->safeguard.floor;
        int64_t skip = floor_ - (a->candidates ? a->candidates[i].above : 0), b = size - 1;
        for (; b >= 0 && skip > 0; b--) {
            int32_t skipped = (int32_t)lh_min_i64(skip, bins[b]);
            skip -= skipped;
            a->sums[b] += bins[b] - skipped;
            a->sums[size] += skipped;
        }
        for (int64_t c = 0; c <= b; c++) a->sums[c] += bins[c];
    }
    return LH_OK;
}

static int64_t add_up(const int32_t *bins, int64_t first, int64_t end)
{
    int64_t sum = 0;
    for (int64_t b = first; b < end; b++) sum += bins[b];
    return sum;
}

static lh_status op_refine_threshold(lh_stream *stream, const lh_refine_threshold_args *a)
{
    int64_t size = (int64_t)1 << a->bits, bin = size - 1;
    uint32_t prefix = a->from ? a->from->prefix << a->bits : 0;
    int64_t want = a->from ? a->from->want : lh_min_i64(a->most, add_up(a->sums, 0, size + 1)) - a->sums[size];
    (void)stream;
    for (; bin > 0 && a->sums[bin] < want; bin--) want -= a->sums[bin];
    for (int64_t i = 0; i < a->heads * a->layers; i++) {
        const int32_t *bins = a->histograms + i * size;
        lh_candidate_counts *t = &a->candidates[i];
        if (!a->from) *t = (lh_candidate_counts){.competing = (int32_t)add_up(bins, 0, size)};
        t->above += (int32_t)add_up(bins, bin + 1, size);
        t->at = bins[bin];
    }
    *a->to = (lh_search){.want = want, .prefix = prefix | (uint32_t)bin};
    return LH_OK;
}

/* ---- sharing out ---- */

/* All that have room get one each, round after round, while there is enough for all of them. Nobody is behind its claim
 * by a whole entry, so no round gives anybody a second one before all have their first. Returns what is still missing.
 */
static int64_t give_rounds(const lh_head_budgets_args *a, int64_t missing)
{
    while (missing > 0) {
        int64_t open = 0, least = missing;
        for (int64_t i = 0; i < a->heads * a->layers; i++) {
            int64_t spare = a->candidates[i].competing - a->counts[i];
            if (spare > 0) open++, least = lh_min_i64(least, spare);
        }
        if (open == 0 || missing < open) return open ? missing : 0;
        least = lh_min_i64(least, missing / open);
        for (int64_t i = 0; i < a->heads * a->layers; i++)
            if (a->candidates[i].competing > a->counts[i]) a->counts[i] += least;
        missing -= least * open;
    }
    return 0;
}

/* The head in the order of ties that is furthest behind its claim goes first; its lag becomes -1. */
static void give_last(const lh_head_budgets_args *a, int64_t missing, int64_t *lags)
{
    int64_t n = a->heads * a->layers;
    for (; missing > 0; missing--) {
        int64_t best = -1;
        for (int64_t i = 0; i < n; i++) {
            int64_t at = i % a->heads * a->layers + i / a->heads;
            if (lags[at] >= 0 && a->counts[at] < a->candidates[at].competing && (best < 0 || lags[at] > lags[best]))
                best = at;
        }
        if (best < 0) return;
        a->counts[best]++;
        lags[best] = -1;
    }
}

static lh_status op_head_budgets(lh_stream *stream, const lh_head_budgets_args *a)
{
    int64_t *lags = NULL, n = a->heads * a->layers, rest = a->search->want, held = 0, given = 0;
    LH_TRY(lh_stream_scratch(stream, &lags, n * (int64_t)sizeof *lags));
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i % a->heads * a->layers + i / a->heads;
        lh_candidate_counts t = a->candidates[at];
        lh_head_safeguard safeguard = a->safeguards ? a->safeguards[at % a->layers] : a->safeguard;
        int64_t own = lh_min_i64(safeguard.floor, t.competing), over = lh_max_i64(0, t.above - own);
        int64_t on = lh_max_i64(0, t.above + t.at - own) - over, more = lh_min_i64(on, lh_max_i64(0, rest));
        rest -= more;
        a->counts[at] = lh_min_i64(own + lh_fraction_of(a->share, over + more) + safeguard.bonus, t.competing);
        lags[at] = lh_fraction_rest(a->share, over + more);
        given += a->counts[at];
        held += t.competing;
    }
    give_last(a, give_rounds(a, lh_min_i64(a->most, held) - given), lags);
    return LH_OK;
}

static lh_status op_split_counts(lh_stream *stream, const lh_split_counts_args *a)
{
    return lh_ref_split_counts(stream, a); /* some numbers a head */
}
