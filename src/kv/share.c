/* AdaKV's flat selection over the heads of all ranks, of one layer or of several, without exchanging scores (house:
 * adaptive budgets). Each rank counts the keys of its scores in a histogram; all of them together give the bin that
 * holds the threshold, which two more rounds refine until it is one key. Then every head says how many entries lie
 * above and at it. Three rounds of 11, 11 and 10 bits, 4 bytes a bin: 20 KiB a rank and selection, and 8 bytes a head.
 */
#include <string.h>

#include "kv/kv_impl.h"

static const int round_bits[] = {11, 11, 10};
enum { ROUNDS = sizeof round_bits / sizeof *round_bits };

/* The search for the threshold. A sheet is a layer, or the one layer there is. */
typedef struct search {
    lh_kv *kv;
    const lh_share *q;
    int64_t *above;      /* [sheets, counted heads] entries with a larger prefix */
    int64_t sheet;       /* the one that is open */
    const float *scores; /* of it: [kv_count, ld] */
    uint32_t prefix;
    int prefix_bits;
    int64_t want; /* entries to find at this prefix */
} search;

static lh_status open_sheet(search *s, int64_t sheet)
{
    lh_status st = LH_OK;
    s->sheet = sheet;
    s->scores = s->q->scores;
    if (!s->scores) LH_TRY(lh_kv_show_scores(s->kv, &s->q->e[sheet], &s->scores));
done:
    return st;
}

static const lh_eviction *layer_of(const search *s)
{
    return &s->q->e[s->sheet];
}

/* Best entries of a counted head that are given already and are not counted. */
static int64_t floor_of(const search *s, int64_t i)
{
    const lh_heads *h = &s->kv->shape.heads;
    return s->q->floors ? s->q->floors[s->sheet * h->kv_heads + h->counted_first + i] : 0;
}

static int64_t *above_of(const search *s, int64_t i)
{
    return &s->above[s->sheet * s->kv->shape.heads.counted_count + i];
}

/* Histogram of `heads` counted heads from `head` on, on the host. */
static lh_status count_bins(search *s, int64_t head, int64_t heads, int bits)
{
    lh_status st = LH_OK;
    lh_kv *kv = s->kv;
    int64_t h = kv->shape.heads.counted_first - kv->shape.heads.kv_first + head, ld = kv->work.ld;
    LH_TRY(kv->place.ops->histogram(kv->place.stream,
                                    &(lh_histogram_args){.bins = kv->work.at[LH_WORK_BINS],
                                                         .scores = s->scores + h * ld,
                                                         .state = (uint8_t *)kv->work.at[LH_WORK_STATE] + h * ld,
                                                         .len = layer_of(s)->pool->view.len + h,
                                                         .heads = heads,
                                                         .ld = ld,
                                                         .prefix = s->prefix,
                                                         .prefix_bits = s->prefix_bits,
                                                         .bits = bits}));
    LH_TRY(lh_stream_copy(kv->place.stream, kv->traffic.bins, kv->work.at[LH_WORK_BINS],
                          (INT64_C(1) << bits) * (int64_t)sizeof(int64_t), LH_COPY_TO_HOST));
    LH_TRY(lh_stream_sync(kv->place.stream));
done:
    return st;
}

/* This rank's histogram of one round. Where heads have a floor they are counted one by one, and each leaves out its
 * best ones that are still missing to it. */
static lh_status summarise(search *s, int bits)
{
    lh_status st = LH_OK;
    const lh_heads *h = &s->kv->shape.heads;
    int64_t bins = INT64_C(1) << bits, step = s->q->floors ? 1 : h->counted_count;
    uint32_t *mine = s->kv->traffic.mine;
    memset(mine, 0, (size_t)bins * sizeof *mine);
    for (int64_t sheet = 0; sheet < s->q->sheets; sheet++) {
        LH_TRY(open_sheet(s, sheet));
        for (int64_t i = 0; i < h->counted_count; i += step) {
            LH_TRY(count_bins(s, i, step, bits));
            int64_t skip = s->q->floors ? floor_of(s, i) - *above_of(s, i) : 0;
            for (int64_t b = bins - 1; b >= 0; b--) {
                int64_t n = s->kv->traffic.bins[b], skipped = skip > 0 ? lh_least(skip, n) : 0;
                skip -= skipped;
                mine[b] += (uint32_t)(n - skipped);
            }
        }
    }
done:
    return st;
}

/* The entries of each floored head that lie above the bin that was found. */
static lh_status climb(search *s, int bits, int64_t bin)
{
    lh_status st = LH_OK;
    for (int64_t sheet = 0; sheet < s->q->sheets && s->q->floors; sheet++) {
        LH_TRY(open_sheet(s, sheet));
        for (int64_t i = 0; i < s->kv->shape.heads.counted_count; i++) {
            LH_TRY(count_bins(s, i, 1, bits));
            for (int64_t b = bin + 1; b < INT64_C(1) << bits; b++) *above_of(s, i) += s->kv->traffic.bins[b];
        }
    }
done:
    return st;
}

/* Collective. One round: the prefix grows by `bits` bits. */
static lh_status refine(search *s, int bits, lh_status *local)
{
    lh_status st = LH_OK;
    lh_kv *kv = s->kv;
    int64_t bins = INT64_C(1) << bits, bytes = bins * (int64_t)sizeof(uint32_t), bin = bins;
    if (*local == LH_OK) *local = summarise(s, bits);
    LH_TRY(lh_comm_allgather(kv->place.comm, kv->traffic.mine, kv->traffic.all, bytes));
    kv->summary_bytes += bytes;
    for (int64_t found = 0; bin-- > 0; s->want -= found) {
        found = 0;
        for (int r = 0; r < kv->shape.heads.ranks; r++) found += kv->traffic.all[r * bins + bin];
        if (found >= s->want || bin == 0) break;
    }
    if (*local == LH_OK) *local = climb(s, bits, bin);
    s->prefix = s->prefix << bits | (uint32_t)bin;
    s->prefix_bits += bits;
done:
    return st;
}

/* This rank's counted heads of the open sheet: entries above and at the threshold, beyond their floors. */
static lh_status count_heads(search *s)
{
    lh_status st = LH_OK;
    lh_kv *kv = s->kv;
    const lh_heads *h = &kv->shape.heads;
    int64_t first = h->counted_first - h->kv_first, ld = kv->work.ld, n = h->counted_count;
    int64_t *above = (int64_t *)kv->work.at[LH_WORK_COUNTS] + h->kv_count, *at = above + h->kv_count;
    LH_TRY(kv->place.ops->count_at(kv->place.stream,
                                   &(lh_count_at_args){.above = above,
                                                       .at = at,
                                                       .scores = s->scores + first * ld,
                                                       .state = (uint8_t *)kv->work.at[LH_WORK_STATE] + first * ld,
                                                       .len = layer_of(s)->pool->view.len + first,
                                                       .heads = n,
                                                       .ld = ld,
                                                       .threshold = s->prefix}));
    LH_TRY(lh_stream_copy(kv->place.stream, kv->traffic.bins, above, 2 * h->kv_count * (int64_t)sizeof(int64_t),
                          LH_COPY_TO_HOST));
    LH_TRY(lh_stream_sync(kv->place.stream));
    for (int64_t i = 0; i < n; i++) {
        int64_t over = kv->traffic.bins[i], on = kv->traffic.bins[h->kv_count + i];
        int64_t given = lh_least(floor_of(s, i), over + on);
        kv->traffic.mine[2 * i] = (uint32_t)(given < over ? over - given : 0);
        kv->traffic.mine[2 * i + 1] = (uint32_t)(given < over ? on : over + on - given);
    }
done:
    return st;
}

/* Collective. What each head of a sheet has of the flat top; `rest` entries at the threshold go to the first heads. */
static lh_status gather_heads(search *s, int64_t sheet, int64_t *rest, lh_status *local)
{
    lh_status st = LH_OK;
    lh_kv *kv = s->kv;
    const lh_heads *h = &kv->shape.heads;
    const int64_t pair = 2 * sizeof(uint32_t);
    int64_t *counts = s->q->counts + sheet * h->kv_heads;
    if (*local == LH_OK) *local = open_sheet(s, sheet);
    if (*local == LH_OK) *local = count_heads(s);
    for (int r = 0; r < h->ranks; r++) {
        lh_heads other = lh_heads_at(h, r);
        kv->traffic.at[r] = other.counted_first * pair;
        kv->traffic.bytes[r] = other.counted_count * pair;
    }
    LH_TRY(lh_comm_allgatherv(kv->place.comm, kv->traffic.mine, kv->traffic.all, kv->traffic.bytes, kv->traffic.at));
    kv->summary_bytes += h->counted_count * pair;
    for (int64_t g = 0; g < h->kv_heads; g++) {
        *rest -= counts[g] = kv->traffic.all[2 * g];
        s->q->ties[sheet * h->kv_heads + g] = kv->traffic.all[2 * g + 1];
    }
done:
    return st;
}

lh_status lh_kv_flat_top(lh_kv *kv, const lh_share *q, lh_status *local)
{
    lh_status st = LH_OK;
    int64_t rest = q->want, cells = q->sheets * kv->shape.heads.kv_heads;
    search s = {.kv = kv, .q = q, .above = q->above, .want = q->want};
    memset(s.above, 0, (size_t)(q->sheets * kv->shape.heads.counted_count) * sizeof *s.above);
    for (int i = 0; i < ROUNDS; i++) LH_TRY(refine(&s, round_bits[i], local));
    for (int64_t sheet = 0; sheet < q->sheets; sheet++) LH_TRY(gather_heads(&s, sheet, &rest, local));
    for (int64_t i = 0; i < cells && rest > 0; i++) {
        int64_t more = lh_least(rest, q->ties[i]);
        q->counts[i] += more;
        rest -= more;
    }
done:
    return st;
}

lh_status lh_kv_share(lh_kv *kv, const lh_eviction *e, const float *scores, lh_status *local, int64_t *budgets)
{
    lh_status st = LH_OK;
    int64_t heads = kv->shape.heads.kv_heads, base = e->protect.base, room = 0, given = 0;
    int64_t *floors = kv->traffic.floors, *counts = kv->traffic.counts;
    int floored = kv->fixed.safeguard == LH_SAFEGUARD_FLOOR;
    for (int64_t g = 0; g < heads; g++) {
        floors[g] = floored ? lh_policy_floor(&kv->fixed, &e->protect, e->room[g]) : 0;
        given += floors[g];
        room += e->room[g];
    }
    LH_TRY(lh_kv_flat_top(kv,
                          &(lh_share){.sheets = 1,
                                      .e = e,
                                      .scores = scores,
                                      .floors = floored ? floors : NULL,
                                      .want = lh_least(heads * base, room) - given,
                                      .counts = counts,
                                      .ties = kv->traffic.ties,
                                      .above = kv->traffic.above},
                          local));
    if (floored)
        for (int64_t g = 0; g < heads; g++) budgets[g] = floors[g] + counts[g];
    else
        lh_policy_interp(
            &kv->fixed, &(lh_interp_request){.heads = heads, .base = base, .counts = counts, .room = e->room}, budgets);
done:
    return st;
}
