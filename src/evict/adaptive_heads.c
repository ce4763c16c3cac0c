/* AdaKV's flat selection over the heads of all ranks (arXiv 2407.11550), of one layer or of several, without exchanging
 * scores and without the host. Each rank counts the keys of its scores in histograms; their sum over its heads is its
 * score summary. Every rank gets the summaries of all ranks by one all-gather, adds them up, and finds the bin that
 * holds the threshold, which two more rounds refine until it is one key. Then every head says how many entries compete,
 * lie above it and at it, and every rank divides for all. Three rounds of 11, 11 and 10 bits, 4 bytes a bin: a rank
 * sends 20 KiB a selection, and 12 bytes a head. */
#include "evict/adaptive_heads.h"

#include "evict/evict_impl.h"

static const int round_bits[] = {11, 11, 10};

/* The search for the threshold. Cells are this rank's counted heads in each layer, the layers of a head side by side.
 */
typedef struct search {
    lh_evictor *ev;
    const lh_top_request *q;
    const lh_head_safeguard *safeguards; /* device, as of the request */
    lh_search *rounds;                   /* [LH_SEARCH_ROUNDS] */
    lh_candidate_counts *candidates;     /* [cells] */
    int round, prefix_bits;
} search;

static lh_search *search_before(const search *s)
{
    return s->round ? s->rounds + s->round - 1 : NULL;
}

/* Histograms of the counted heads of one layer. */
static void count_layer(const search *s, int64_t layer)
{
    lh_evictor *ev = s->ev;
    const lh_heads *h = &ev->shape.heads;
    const lh_evict_job *job = &s->q->jobs[layer];
    int64_t first = h->counted_first - h->kv_first, size = INT64_C(1) << round_bits[s->round];
    const float *scores = s->q->scores ? s->q->scores : lh_evict_show_scores(ev, job);
    LH_RUN(&ev->exec, histogram, .histograms = (int32_t *)ev->at[LH_SPACE_HISTOGRAMS] + layer * size,
           .scores = scores + first * ev->ld, .state = (uint8_t *)ev->at[LH_SPACE_STATE] + first * ev->ld,
           .len = job->entries->len + first, .search = search_before(s), .heads = h->counted_count, .ld = ev->ld,
           .histograms_ld = s->q->layers * size, .prefix_bits = s->prefix_bits, .bits = round_bits[s->round]);
}

/* Collective. One round: the prefix grows by its bits. */
static void refine(search *s)
{
    lh_evictor *ev = s->ev;
    int bits = round_bits[s->round];
    int64_t heads = ev->shape.heads.counted_count, bins = (INT64_C(1) << bits) + 1;
    int32_t *summaries = ev->at[LH_SPACE_SUMMARY], *own = summaries + ev->shape.heads.rank * bins;
    for (int64_t layer = 0; layer < s->q->layers; layer++) count_layer(s, layer);
    LH_RUN(&ev->exec, add_histograms, .sums = own, .histograms = ev->at[LH_SPACE_HISTOGRAMS],
           .candidates = s->round ? s->candidates : NULL, .safeguards = s->safeguards, .safeguard = s->q->safeguard,
           .heads = heads, .layers = s->q->layers, .bits = bits);
    lh_exec_allgather(&ev->exec, own, summaries, bins * (int64_t)sizeof *own);
    LH_RUN(&ev->exec, refine_threshold, .to = s->rounds + s->round, .from = search_before(s),
           .candidates = s->candidates, .histograms = ev->at[LH_SPACE_HISTOGRAMS], .summaries = summaries,
           .ranks = ev->shape.heads.ranks, .heads = heads, .layers = s->q->layers, .most = s->q->max_kept,
           .bits = bits);
    s->prefix_bits += round_bits[s->round++];
}

/* Collective. The candidates of all heads of the model. A rank that has failed has none. */
static void gather_candidates(const search *s)
{
    lh_evictor *ev = s->ev;
    const lh_heads *h = &ev->shape.heads;
    int64_t head_bytes = s->q->layers * (int64_t)sizeof *s->candidates, bytes = h->counted_count * head_bytes;
    if (!lh_exec_ok(&ev->exec)) (void)lh_stream_zero(ev->exec.stream, s->candidates, bytes);
    lh_gather_kv_heads(&ev->gather, h, head_bytes);
    lh_exec_allgatherv(&ev->exec, s->candidates, ev->at[LH_SPACE_CANDIDATES], ev->gather.bytes, ev->gather.at);
}

const int64_t *lh_evict_global_top(lh_evictor *ev, const lh_top_request *q)
{
    const lh_heads *h = &ev->shape.heads;
    lh_head_safeguard *safeguards = q->safeguards ? ev->at[LH_SPACE_SAFEGUARDS] : NULL;
    search s = {.ev = ev,
                .q = q,
                .safeguards = safeguards,
                .rounds = ev->at[LH_SPACE_SEARCH],
                .candidates = (lh_candidate_counts *)ev->at[LH_SPACE_CANDIDATES] + h->counted_first * q->layers};
    if (safeguards) lh_exec_put(&ev->exec, safeguards, q->safeguards, q->layers * (int64_t)sizeof *safeguards);
    int64_t sent = lh_comm_sent_bytes(ev->exec.device_comm);
    while (s.round < LH_SEARCH_ROUNDS) refine(&s);
    gather_candidates(&s);
    ev->summary_bytes += lh_comm_sent_bytes(ev->exec.device_comm) - sent;
    LH_RUN(&ev->exec, head_budgets, .counts = ev->at[LH_SPACE_BUDGETS], .candidates = ev->at[LH_SPACE_CANDIDATES],
           .search = search_before(&s), .safeguards = safeguards, .safeguard = q->safeguard, .share = q->share,
           .heads = h->kv_heads, .layers = q->layers, .most = q->max_kept);
    return ev->at[LH_SPACE_BUDGETS];
}

void lh_adaptive_counts(lh_evictor *ev, const lh_evict_job *job, const float *scores, int64_t *counts)
{
    const lh_heads *h = &ev->shape.heads;
    lh_safety safety = lh_policy_safety(&ev->policy, &job->protect);
    const int64_t *budgets = lh_evict_global_top(ev, &(lh_top_request){.layers = 1,
                                                                       .jobs = job,
                                                                       .scores = scores,
                                                                       .safeguard = {safety.floor, safety.bonus},
                                                                       .share = safety.share,
                                                                       .max_kept = h->kv_heads * job->protect.base});
    lh_exec_copy(&ev->exec, counts, budgets + h->kv_first, h->kv_count * (int64_t)sizeof *budgets, LH_COPY_ON_DEVICE);
}

const float *lh_evict_show_scores(lh_evictor *ev, const lh_evict_job *job)
{
    float *scores = ev->at[LH_SPACE_RAW];
    lh_evict_classify(ev, job, 1);
    LH_RUN(&ev->exec, finish_scores, .y = scores, .x = lh_stat_of(job->entries, ev->stats.score), .kv = job->entries,
           .ld = ev->ld, .parts = 1, .kind = LH_FINISH_PLAIN, .factor = 1.0f);
    return scores;
}
