/* The best entries of many heads, and what each of these keeps. */
#include "base/minmax.h"
#include "kernels/ref/ref.h"

lh_status lh_ref_add_histograms(lh_stream *stream, const lh_add_histograms_args *a)
{
    int64_t size = (int64_t)1 << a->bits;
    (void)stream;
    for (int64_t b = 0; b <= size; b++) a->sums[b] = 0;
    for (int64_t i = 0; i < a->heads * a->layers; i++) {
        int64_t floor_ = a->safeguards ? a->safeguards[i % a->layers].floor : a->safeguard.floor;
        int64_t skip = lh_max_i64(0, floor_ - (a->candidates ? a->candidates[i].above : 0));
        for (int64_t b = size - 1; b >= 0; b--) {
            int64_t n = a->histograms[i * size + b], skipped = lh_min_i64(skip, n);
            skip -= skipped;
            a->sums[b] += (int32_t)(n - skipped);
            a->sums[size] += (int32_t)skipped;
        }
    }
    return LH_OK;
}

lh_status lh_ref_refine_threshold(lh_stream *stream, const lh_refine_threshold_args *a)
{
    int64_t size = (int64_t)1 << a->bits, bin = size - 1, all = 0;
    lh_search s = {0};
    (void)stream;
    for (int64_t b = 0; b <= size; b++) all += a->sums[b];
    s.want = a->from ? a->from->want : lh_min_i64(a->most, all) - a->sums[size];
    for (; bin > 0 && a->sums[bin] < s.want; bin--) s.want -= a->sums[bin];
    s.prefix = (a->from ? a->from->prefix << a->bits : 0) | (uint32_t)bin;
    for (int64_t i = 0; i < a->heads * a->layers; i++) {
        const int32_t *bins = a->histograms + i * size;
        lh_candidate_counts t = a->from ? a->candidates[i] : (lh_candidate_counts){0};
        for (int64_t b = 0; b < size && !a->from; b++) t.competing += bins[b];
        for (int64_t b = bin + 1; b < size; b++) t.above += bins[b];
        t.at = bins[bin];
        a->candidates[i] = t;
    }
    *a->to = s;
    return LH_OK;
}

/* ---- sharing out ---- */

/* The i-th head in the order of ties. */
static int64_t in_order(const lh_head_budgets_args *a, int64_t i)
{
    return i % a->heads * a->layers + i / a->heads;
}

/* What a head has without rounding, over share.den; *rest entries at the prefix are left for it and the others. */
static __int128 claim_of(const lh_head_budgets_args *a, int64_t at, int64_t *rest)
{
    const lh_candidate_counts *t = &a->candidates[at];
    lh_head_safeguard safeguard = a->safeguards ? a->safeguards[at % a->layers] : a->safeguard;
    int64_t own = lh_min_i64(safeguard.floor, t->competing), over = lh_max_i64(0, t->above - own);
    int64_t on = lh_max_i64(0, t->above + t->at - own) - over, more = lh_min_i64(on, lh_max_i64(0, *rest));
    *rest -= more;
    return (__int128)(own + safeguard.bonus) * a->share.den + (__int128)(over + more) * a->share.num;
}

/* The head that is furthest behind its claim, -1 where none can have more. */
static int64_t next_of(const lh_head_budgets_args *a)
{
    int64_t best = -1, rest = a->search->want;
    __int128 most = 0;
    for (int64_t i = 0; i < a->heads * a->layers; i++) {
        int64_t at = in_order(a, i);
        __int128 lag = claim_of(a, at, &rest) - (__int128)a->counts[at] * a->share.den;
        if (a->counts[at] < a->candidates[at].competing && (best < 0 || lag > most)) best = at, most = lag;
    }
    return best;
}

lh_status lh_ref_head_budgets(lh_stream *stream, const lh_head_budgets_args *a)
{
    int64_t rest = a->search->want, held = 0, given = 0;
    (void)stream;
    for (int64_t i = 0; i < a->heads * a->layers; i++) {
        int64_t at = in_order(a, i), room = a->candidates[at].competing;
        a->counts[at] = lh_min_i64((int64_t)(claim_of(a, at, &rest) / a->share.den), room);
        given += a->counts[at];
        held += room;
    }
    for (int64_t missing = lh_min_i64(a->most, held) - given; missing > 0; missing--) {
        int64_t best = next_of(a);
        if (best < 0) break;
        a->counts[best]++;
    }
    return LH_OK;
}

lh_status lh_ref_split_counts(lh_stream *stream, const lh_split_counts_args *a)
{
    (void)stream;
    for (int64_t h = 0; h < a->heads; h++) {
        a->first[h] = lh_stage_of(a->stage, a->counts[h]);
        a->rest[h] = a->counts[h] - a->first[h];
    }
    return LH_OK;
}
