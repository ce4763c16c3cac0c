/* AdaKV's flat selection over the heads of all ranks, of one layer or of several, without exchanging scores (house:
 * adaptive budgets) and without the host. Each rank counts the keys of its scores in histograms; their sum over all
 * heads gives the bin that holds the threshold, which two more rounds refine until it is one key. Then every head says
 * how many entries compete, lie above it and at it, and every rank shares out for all. Three rounds of 11, 11 and 10
 * bits, 4 bytes a bin: 20 KiB a rank and selection, and 12 bytes a head. */
#include "kv/kv_impl.h"

static const int round_bits[] = {11, 11, 10};

/* The search for the threshold. Cells are this rank's counted heads in each sheet, the sheets of a head side by side. A
 * sheet is a layer, or the one layer there is. */
typedef struct search {
    lh_kv *kv;
    const lh_share *q;
    lh_search *rounds; /* [LH_SHARE_ROUNDS] */
    lh_tally *tallies; /* [cells] */
    int round, prefix_bits;
} search;

static lh_search *search_before(const search *s)
{
    return s->round ? s->rounds + s->round - 1 : NULL;
}

/* Histograms of the counted heads of one sheet. */
static lh_status count_sheet(const search *s, int64_t sheet)
{
    lh_kv *kv = s->kv;
    const lh_heads *h = &kv->shape.heads;
    const lh_eviction *e = &s->q->e[sheet];
    int64_t first = h->counted_first - h->kv_first, ld = kv->work.ld, size = INT64_C(1) << round_bits[s->round];
    const float *scores = s->q->scores;
    if (!scores) LH_TRY(lh_kv_show_scores(kv, e, &scores));
    LH_TRY(kv->place.ops->histogram(kv->place.stream,
                                    &(lh_histogram_args){.bins = (int32_t *)kv->work.at[LH_WORK_BINS] + sheet * size,
                                                         .scores = scores + first * ld,
                                                         .state = (uint8_t *)kv->work.at[LH_WORK_STATE] + first * ld,
                                                         .len = e->pool->view.len + first,
                                                         .search = search_before(s),
                                                         .heads = h->counted_count,
                                                         .ld = ld,
                                                         .bins_ld = s->q->sheets * size,
                                                         .prefix_bits = s->prefix_bits,
                                                         .bits = round_bits[s->round]}));
    return LH_OK;
}

/* This rank's histogram of one round. */
static lh_status summarise(const search *s)
{
    lh_kv *kv = s->kv;
    for (int64_t sheet = 0; sheet < s->q->sheets; sheet++) LH_TRY(count_sheet(s, sheet));
    LH_TRY(kv->place.ops->add_bins(kv->place.stream, &(lh_add_bins_args){.sums = kv->work.at[LH_WORK_SUMS],
                                                                         .bins = kv->work.at[LH_WORK_BINS],
                                                                         .tallies = s->round ? s->tallies : NULL,
                                                                         .grants = s->q->grants,
                                                                         .grant = s->q->grant,
                                                                         .heads = kv->shape.heads.counted_count,
                                                                         .sheets = s->q->sheets,
                                                                         .bits = round_bits[s->round]}));
    LH_TRY(lh_comm_flush(kv->place.device_comm));
    return LH_OK;
}

/* Collective. One round: the prefix grows by its bits. */
static lh_status refine(search *s, lh_status *local)
{
    lh_kv *kv = s->kv;
    int64_t sums = (INT64_C(1) << round_bits[s->round]) + 1;
    if (*local == LH_OK) *local = summarise(s);
    LH_TRY(lh_comm_allreduce(kv->place.device_comm, kv->work.at[LH_WORK_SUMS], sums, LH_I32, LH_SUM));
    kv->summary_bytes += sums * (int64_t)sizeof(int32_t);
    if (*local == LH_OK)
        *local = kv->place.ops->narrow(kv->place.stream, &(lh_narrow_args){.to = s->rounds + s->round,
                                                                           .from = search_before(s),
                                                                           .tallies = s->tallies,
                                                                           .bins = kv->work.at[LH_WORK_BINS],
                                                                           .sums = kv->work.at[LH_WORK_SUMS],
                                                                           .heads = kv->shape.heads.counted_count,
                                                                           .sheets = s->q->sheets,
                                                                           .most = s->q->most,
                                                                           .bits = round_bits[s->round]});
    s->prefix_bits += round_bits[s->round++];
    return LH_OK;
}

/* Collective. The tallies of all heads of the model. A rank that has failed tells of nothing. */
static lh_status gather_tallies(const search *s, lh_status *local)
{
    lh_kv *kv = s->kv;
    const lh_heads *h = &kv->shape.heads;
    int64_t head_bytes = s->q->sheets * (int64_t)sizeof(lh_tally), bytes = h->counted_count * head_bytes;
    if (*local != LH_OK) (void)lh_stream_zero(kv->place.stream, s->tallies, bytes);
    for (int r = 0; r < h->ranks; r++) {
        lh_heads other = lh_heads_at(h, r);
        kv->traffic.at[r] = other.counted_first * head_bytes;
        kv->traffic.bytes[r] = other.counted_count * head_bytes;
    }
    if (*local == LH_OK) *local = lh_comm_flush(kv->place.device_comm);
    LH_TRY(lh_comm_allgatherv(kv->place.device_comm, s->tallies, kv->work.at[LH_WORK_TALLIES], kv->traffic.bytes,
                              kv->traffic.at));
    kv->summary_bytes += bytes;
    return LH_OK;
}

lh_status lh_kv_flat_top(lh_kv *kv, const lh_share *q, lh_status *local)
{
    const lh_heads *h = &kv->shape.heads;
    search s = {.kv = kv,
                .q = q,
                .rounds = kv->work.at[LH_WORK_SEARCH],
                .tallies = (lh_tally *)kv->work.at[LH_WORK_TALLIES] + h->counted_first * q->sheets};
    while (s.round < LH_SHARE_ROUNDS) LH_TRY(refine(&s, local));
    LH_TRY(gather_tallies(&s, local));
    if (*local == LH_OK)
        *local =
            kv->place.ops->share_out(kv->place.stream, &(lh_share_out_args){.counts = kv->work.at[LH_WORK_BUDGETS],
                                                                            .tallies = kv->work.at[LH_WORK_TALLIES],
                                                                            .search = search_before(&s),
                                                                            .grants = q->grants,
                                                                            .grant = q->grant,
                                                                            .share = q->share,
                                                                            .heads = h->kv_heads,
                                                                            .sheets = q->sheets,
                                                                            .most = q->most});
    return LH_OK;
}

lh_status lh_kv_share(lh_kv *kv, const lh_eviction *e, const float *scores, lh_status *local)
{
    const lh_heads *h = &kv->shape.heads;
    lh_safety safety = lh_policy_safety(&kv->fixed, &e->protect);
    LH_TRY(lh_kv_flat_top(kv,
                          &(lh_share){.sheets = 1,
                                      .e = e,
                                      .scores = scores,
                                      .grant = {safety.floor, safety.sure},
                                      .share = safety.share,
                                      .most = h->kv_heads * e->protect.base},
                          local));
    if (*local == LH_OK)
        *local = lh_stream_copy(kv->place.stream, kv->work.at[LH_WORK_COUNTS],
                                (int64_t *)kv->work.at[LH_WORK_BUDGETS] + h->kv_first,
                                h->kv_count * (int64_t)sizeof(int64_t), LH_COPY_ON_DEVICE);
    return LH_OK;
}
