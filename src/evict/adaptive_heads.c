/* AdaKV's flat selection over the heads of all ranks (arXiv 2407.11550), of a layer or several layers, without
 * exchanging scores and without the host. Each rank counts the keys of its scores in histograms; their sum over its
 * heads is its score summary. Every rank gets the summaries of all ranks by one all-gather, adds them up, and finds the
 * bin that holds the threshold, which two more rounds refine until it is one key. Then every head says how many entries
 * compete, lie above it and at it, and every rank divides for all. Three rounds of 11, 11 and 10 bits, 4 bytes a bin: a
 * rank sends 20 KiB a selection, and 12 bytes a head. */
#include "evict/evict.h"

#include "evict/evict_impl.h"

enum { ROUNDS = 3 };
static const int round_bits[ROUNDS] = {11, 11, 10};

/* The search for the threshold of each contest. Cells are this rank's counted heads in each layer, the layers of a head
 * next to each other. Device memory. */
typedef struct search {
    lh_evictor *ev;
    const lh_top_request *q;
    lh_contests of;                      /* of the counted heads */
    lh_layer_limits *limits;             /* [layers] */
    lh_candidate_counts *all_candidates; /* [kv_heads of the model, layers] */
    lh_candidate_counts *candidates;     /* [cells], the counted heads among them */
    lh_search *rounds;                   /* [ROUNDS, contests] */
    int32_t *histograms;                 /* [cells, 2048] */
    int32_t *summaries;                  /* [ranks, contests, 2048 + 1]: the score summaries of all ranks */
    int round, prefix_bits;
} search;

static search open_search(lh_evictor *ev, const lh_top_request *q)
{
    const lh_exec *x = &ev->exec;
    const lh_heads *h = &ev->shape.heads;
    const int64_t max_bins = INT64_C(1) << round_bits[0], i32 = sizeof(int32_t);
    search s = {.ev = ev, .q = q, .of = {.heads = h->counted_count, .layers = q->layers, .each_layer = q->each_layer}};
    const int64_t contests = lh_contest_count(&s.of);
    s.limits = lh_scratch_alloc(x, q->layers * (int64_t)sizeof *s.limits);
    s.all_candidates = lh_scratch_alloc(x, h->kv_heads * q->layers * (int64_t)sizeof *s.candidates);
    s.candidates = s.all_candidates + h->counted_first * q->layers;
    s.rounds = lh_scratch_alloc(x, ROUNDS * contests * (int64_t)sizeof *s.rounds);
    s.histograms = lh_scratch_alloc(x, h->counted_count * q->layers * max_bins * i32);
    s.summaries = lh_scratch_alloc(x, h->ranks * contests * (max_bins + 1) * i32);
    return s;
}

static lh_search *search_of(const search *s, int round)
{
    return round < 0 ? NULL : s->rounds + round * lh_contest_count(&s->of);
}

/* Histograms of the counted heads of `n` layers from layer `first` on. */
static void count_layers(const search *s, int64_t first, int64_t n, const float *scores, int64_t step)
{
    lh_evictor *ev = s->ev;
    const lh_heads *h = &ev->shape.heads;
    int64_t skip = h->counted_first - h->kv_first, size = INT64_C(1) << round_bits[s->round];
    const lh_search *found = search_of(s, s->round - 1);
    LH_RUN(&ev->exec, histogram, .histograms = s->histograms + first * size, .scores = scores + skip * ev->ld,
           .state = ev->state + skip * ev->ld, .kv = lh_counted_views_of(ev, s->q->jobs + first, n),
           .search = found && s->of.each_layer ? found + first : found, .search_step = s->of.each_layer, .batch = n,
           .ld = ev->ld, .histograms_ld = s->q->layers * size, .scores_step = step, .state_step = h->kv_count * ev->ld,
           .prefix_bits = s->prefix_bits, .bits = round_bits[s->round]);
}

static void count_cells(const search *s)
{
    lh_evictor *ev = s->ev;
    if (s->q->scores) {
        count_layers(s, 0, s->q->layers, s->q->scores, s->q->scores_step);
        return;
    }
    for (int64_t l = 0, n; l < s->q->layers; l += n) {
        const int64_t mark = lh_scratch_mark(&ev->exec);
        n = lh_evict_together(ev, s->q->jobs + l, s->q->layers - l);
        lh_evict_show_scores(ev, s->q->jobs + l, n);
        count_layers(s, l, n, ev->raw.at, ev->raw.step);
        lh_scratch_release(&ev->exec, mark);
    }
}

/* Collective. One round: the prefixes grow by its bits. */
static void refine(search *s)
{
    lh_evictor *ev = s->ev;
    int bits = round_bits[s->round];
    int64_t bins = lh_contest_count(&s->of) * ((INT64_C(1) << bits) + 1);
    int32_t *own = s->summaries + ev->shape.heads.rank * bins;
    count_cells(s);
    LH_RUN(&ev->exec, add_histograms, .sums = own, .histograms = s->histograms,
           .candidates = s->round ? s->candidates : NULL, .limits = s->limits, .of = s->of, .bits = bits);
    lh_exec_allgather(&ev->exec, own, s->summaries, bins * (int64_t)sizeof *own);
    LH_RUN(&ev->exec, refine_threshold, .to = search_of(s, s->round), .from = search_of(s, s->round - 1),
           .candidates = s->candidates, .histograms = s->histograms, .summaries = s->summaries, .limits = s->limits,
           .of = s->of, .ranks = ev->shape.heads.ranks, .bits = bits);
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
    lh_exec_allgatherv(&ev->exec, s->candidates, s->all_candidates, ev->gather.bytes, ev->gather.at);
}

/* Collective. budgets (device): [layers, kv_heads of the model]; threshold (host, after the next wait): NULL: not
 * wanted. Nothing waits for the device, and nothing goes through the host that the communicator of device memory does
 * not send through it. */
static void find_top(lh_evictor *ev, const lh_top_request *q, int64_t *budgets, lh_search *threshold)
{
    const int64_t mark = lh_scratch_mark(&ev->exec);
    search s = open_search(ev, q);
    lh_contests all = s.of;
    all.heads = ev->shape.heads.kv_heads;
    lh_exec_put(&ev->exec, s.limits, q->limits, q->layers * (int64_t)sizeof *s.limits);
    int64_t sent = lh_comm_sent_bytes(ev->exec.device_comm);
    while (s.round < ROUNDS) refine(&s);
    gather_candidates(&s);
    ev->summary_bytes += lh_comm_sent_bytes(ev->exec.device_comm) - sent;
    LH_RUN(&ev->exec, head_budgets, .counts = budgets, .candidates = s.all_candidates,
           .search = search_of(&s, ROUNDS - 1), .limits = s.limits, .of = all, .share = q->share);
    if (threshold) lh_exec_copy(&ev->exec, threshold, search_of(&s, ROUNDS - 1), sizeof *threshold, LH_COPY_TO_HOST);
    lh_scratch_release(&ev->exec, mark);
}

void lh_evict_divide(lh_evictor *ev, const lh_top_request *q, int64_t *budgets, lh_search *threshold)
{
    const int64_t bytes = q->layers * ev->shape.heads.kv_heads * (int64_t)sizeof *budgets;
    int64_t *found = lh_scratch_alloc(&ev->exec, bytes);
    find_top(ev, q, found, threshold);
    lh_exec_copy(&ev->exec, budgets, found, bytes, LH_COPY_TO_HOST);
    lh_evict_end(ev);
}

void lh_adaptive_counts(lh_evictor *ev, const lh_evict_job *jobs, int64_t n)
{
    const lh_heads *h = &ev->shape.heads;
    const lh_scores *by = &ev->stages.heads;
    lh_layer_limits limits[LH_EVICT_AT_ONCE];
    lh_top_request q = {
        .layers = n, .each_layer = 1, .jobs = jobs, .scores = by->at, .scores_step = by->step, .limits = limits};
    int64_t *budgets = lh_scratch_alloc(&ev->exec, n * h->kv_heads * (int64_t)sizeof *budgets);
    for (int64_t i = 0; i < n; i++) {
        lh_safety safety = lh_policy_safety(&ev->policy, &jobs[i].protect);
        limits[i] = (lh_layer_limits){safety.floor, safety.bonus, h->kv_heads * jobs[i].protect.base};
        q.share = safety.share;
    }
    find_top(ev, &q, budgets, NULL);
    ev->counts = (lh_counts){.at = budgets + h->kv_first, .step = h->kv_heads};
}
