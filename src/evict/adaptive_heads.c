/* AdaKV's flat selection over the heads of all ranks (arXiv 2407.11550), of one layer or of several, without exchanging
 * scores and without the host. Each rank counts the keys of its scores in histograms; their sum over its heads is its
 * score summary. Every rank gets the summaries of all ranks by one all-gather, adds them up, and finds the bin that
 * holds the threshold, which two more rounds refine until it is one key. Then every head says how many entries compete,
 * lie above it and at it, and every rank divides for all. Three rounds of 11, 11 and 10 bits, 4 bytes a bin: a rank
 * sends 20 KiB a selection, and 12 bytes a head. */
#include "evict/adaptive_heads.h"

#include <assert.h>

#include "evict/evict_impl.h"

static const int round_bits[] = {11, 11, 10};

/* The search for the threshold of each contest. Cells are this rank's counted heads in each layer, the layers of a head
 * side by side. */
typedef struct search {
    lh_evictor *ev;
    const lh_top_request *q;
    lh_contests of;                  /* of the counted heads */
    lh_search *rounds;               /* [LH_SEARCH_ROUNDS, contests] */
    lh_candidate_counts *candidates; /* [cells] */
    lh_layer_limits *limits;         /* [layers] */
    int round, prefix_bits;
} search;

static lh_search *search_of(const search *s, int round)
{
    return round < 0 ? NULL : s->rounds + round * lh_contest_count(&s->of);
}

/* Histograms of the counted heads of `n` layers from layer `first` on, whose scores are in `by`. */
static void count_layers(const search *s, int64_t first, int64_t n, lh_space_part by)
{
    lh_evictor *ev = s->ev;
    const lh_heads *h = &ev->shape.heads;
    int64_t skip = h->counted_first - h->kv_first, size = INT64_C(1) << round_bits[s->round];
    LH_RUN(&ev->exec, histogram, .histograms = (int32_t *)ev->at[LH_SPACE_HISTOGRAMS] + first * size,
           .scores = (float *)ev->at[by] + skip * ev->ld, .state = (uint8_t *)ev->at[LH_SPACE_STATE] + skip * ev->ld,
           .kv = lh_counted_views_of(ev, s->q->jobs + first, n), .search = search_of(s, s->round - 1), .batch = n,
           .ld = ev->ld, .histograms_ld = s->q->layers * size, .scores_step = ev->bytes[by] / (int64_t)sizeof(float),
           .state_step = ev->bytes[LH_SPACE_STATE], .prefix_bits = s->prefix_bits, .bits = round_bits[s->round]);
}

static void count_cells(const search *s)
{
    if (s->q->scores) {
        count_layers(s, 0, s->q->layers, *s->q->scores);
        return;
    }
    assert(!s->of.each_layer); /* shown layers are searched as one */
    for (int64_t l = 0; l < s->q->layers; l++) {
        lh_evict_show_scores(s->ev, &s->q->jobs[l]);
        count_layers(s, l, 1, LH_SPACE_RAW);
    }
}

/* Collective. One round: the prefixes grow by its bits. */
static void refine(search *s)
{
    lh_evictor *ev = s->ev;
    int bits = round_bits[s->round];
    int64_t bins = lh_contest_count(&s->of) * ((INT64_C(1) << bits) + 1);
    int32_t *summaries = ev->at[LH_SPACE_SUMMARY], *own = summaries + ev->shape.heads.rank * bins;
    count_cells(s);
    LH_RUN(&ev->exec, add_histograms, .sums = own, .histograms = ev->at[LH_SPACE_HISTOGRAMS],
           .candidates = s->round ? s->candidates : NULL, .limits = s->limits, .of = s->of, .bits = bits);
    lh_exec_allgather(&ev->exec, own, summaries, bins * (int64_t)sizeof *own);
    LH_RUN(&ev->exec, refine_threshold, .to = search_of(s, s->round), .from = search_of(s, s->round - 1),
           .candidates = s->candidates, .histograms = ev->at[LH_SPACE_HISTOGRAMS], .summaries = summaries,
           .limits = s->limits, .of = s->of, .ranks = ev->shape.heads.ranks, .bits = bits);
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
    search s = {.ev = ev,
                .q = q,
                .of = {.heads = h->counted_count, .layers = q->layers, .each_layer = q->each_layer},
                .rounds = ev->at[LH_SPACE_SEARCH],
                .candidates = (lh_candidate_counts *)ev->at[LH_SPACE_CANDIDATES] + h->counted_first * q->layers,
                .limits = ev->at[LH_SPACE_LIMITS]};
    lh_contests all = s.of;
    all.heads = h->kv_heads;
    lh_exec_put(&ev->exec, s.limits, q->limits, q->layers * (int64_t)sizeof *s.limits);
    int64_t sent = lh_comm_sent_bytes(ev->exec.device_comm);
    while (s.round < LH_SEARCH_ROUNDS) refine(&s);
    gather_candidates(&s);
    ev->summary_bytes += lh_comm_sent_bytes(ev->exec.device_comm) - sent;
    LH_RUN(&ev->exec, head_budgets, .counts = ev->at[LH_SPACE_BUDGETS], .candidates = ev->at[LH_SPACE_CANDIDATES],
           .search = search_of(&s, LH_SEARCH_ROUNDS - 1), .limits = s.limits, .of = all, .share = q->share);
    return ev->at[LH_SPACE_BUDGETS];
}

void lh_adaptive_counts(lh_evictor *ev, const lh_evict_job *jobs, int64_t n)
{
    const lh_heads *h = &ev->shape.heads;
    lh_layer_limits limits[LH_EVICT_AT_ONCE];
    lh_top_request q = {.layers = n, .each_layer = 1, .jobs = jobs, .scores = &ev->stages.heads, .limits = limits};
    for (int64_t i = 0; i < n; i++) {
        lh_safety safety = lh_policy_safety(&ev->policy, &jobs[i].protect);
        limits[i] = (lh_layer_limits){safety.floor, safety.bonus, h->kv_heads * jobs[i].protect.base};
        q.share = safety.share;
    }
    ev->counts = (lh_counts){.at = lh_evict_global_top(ev, &q) + h->kv_first, .step = h->kv_heads};
}

void lh_evict_show_scores(lh_evictor *ev, const lh_evict_job *job)
{
    float *scores = ev->at[LH_SPACE_RAW];
    lh_evict_classify(ev, job, 1);
    LH_RUN(&ev->exec, finish_scores, .y = scores, .x = lh_stat_of(job->entries, ev->stats.score), .kv = job->entries,
           .ld = ev->ld, .parts = 1, .kind = LH_FINISH_PLAIN, .factor = 1.0f);
}
