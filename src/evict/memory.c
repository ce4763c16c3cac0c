/* How much of the scratch stack evictions take, and rows that pass before them: both are run on a device that only
 * counts (exec/exec.h), by an evictor that has reserved nothing, so that this device sees every allocation. Lengths
 * of heads are not known there. Heads are taken to keep what the plan says; a fit of heads that compete for entries and
 * keep more gets further blocks (exec/scratch.h). */
#include "evict/counted_rows.h"
#include "evict/evict.h"
#include "evict/evict_impl.h"
#include "exec/exec.h"
#include "policies/probes.h"

/* ---- rows that are kept ---- */

/* Rows of a prompt of `tokens` tokens, or (0) of decoding. */
static lh_status alloc_store(lh_evictor *ev, int64_t tokens)
{
    const lh_policy_numbers *p = &ev->policy;
    const lh_source *source = lh_source_of(p);
    lh_device *device = lh_exec_device(&ev->exec);
    lh_row_store *s = &ev->store;
    const int64_t heads = ev->shape.heads.q_count, row = heads * ev->shape.head_dim * (int64_t)sizeof *s->q;
    if (source && source->sums_bytes) LH_TRY(lh_device_alloc(device, &ev->sums, source->sums_bytes(ev), LH_MEM_WORK));
    const int keeps = tokens ? lh_keeps_rows(p) : lh_ring_row_count(p) > 0;
    if (!keeps) return LH_OK;
    const int64_t rows = tokens ? lh_policy_rows(p, tokens) : lh_ring_row_count(p);
    LH_TRY(lh_device_alloc(device, &s->q, rows * row, LH_MEM_WORK));
    LH_TRY(lh_device_alloc(device, &s->lse, rows * heads * (int64_t)sizeof *s->lse, LH_MEM_WORK));
    LH_TRY(lh_device_alloc(device, &s->positions, rows * (int64_t)sizeof *s->positions, LH_MEM_WORK));
    if (lh_score_reads_hidden(&p->score))
        LH_TRY(lh_device_alloc(device, &s->hidden, rows * ev->shape.hidden * (int64_t)sizeof *s->hidden, LH_MEM_WORK));
    return lh_device_alloc(device, &s->references, lh_policy_references(p, tokens) * row, LH_MEM_WORK);
}

/* ---- the dry run ---- */

/* Evictions of `layers` layers together. */
typedef struct occasion {
    lh_evict_need need;
    int64_t layers;
    lh_evict_phase phase;
} occasion;

typedef struct rehearsal {
    const occasion *of;
    lh_counting on;
    lh_evictor *ev;
    lh_ragged entries;
    lh_rotation rotation;
    lh_projection projection;
    int64_t *lens, *offsets; /* [kv_count] of the longest heads */
    int64_t *counts;         /* [kv_count] competing entries that stay */
    int64_t *room;           /* [kv_heads of the model] */
    int64_t *budgets;        /* [layers, kv_heads of the model] */
    int64_t normless;
    void *anywhere; /* the address of rows, keys, values and numbers of entries */
} rehearsal;

static lh_status open_evictor(rehearsal *r, const lh_evictor *ev, int64_t tokens)
{
    const lh_heads *h = &ev->shape.heads;
    LH_TRY(lh_counting_open(&r->on, lh_device_kind_of(lh_exec_device(&ev->exec)), h->rank, h->ranks));
    LH_TRY(lh_evictor_open(&r->ev, &r->on.exec, &ev->shape, ev->head_profile));
    lh_evictor_begin(r->ev, &ev->policy, ev->prompt_tokens);
    r->ev->ld = r->ev->max_ld = r->of->need.ld;
    r->ev->layers = r->of->layers;
    LH_TRY(alloc_store(r->ev, tokens));
    LH_TRY(lh_device_alloc(r->on.device, &r->anywhere, 1, LH_MEM_WORK));
    lh_device_reset_peak(r->on.device);
    return LH_OK;
}

static lh_status open_rehearsal(rehearsal *r, const lh_evictor *ev, int64_t tokens)
{
    const lh_evict_shape *s = &ev->shape;
    const int64_t heads = s->heads.kv_count, all = s->heads.kv_heads;
    LH_TRY(lh_calloc(&r->lens, 3 * heads + (s->layers + 1) * all, sizeof *r->lens));
    r->offsets = r->lens + heads;
    r->counts = r->offsets + heads;
    r->room = r->counts + heads;
    r->budgets = r->room + all;
    for (int64_t h = 0; h < heads; h++) r->lens[h] = r->of->need.ld;
    for (int64_t g = 0; g < all; g++) r->room[g] = r->of->need.ld;
    for (int64_t i = 0; i < s->layers * all; i++) r->budgets[i] = r->of->need.protect.base;
    LH_TRY(open_evictor(r, ev, tokens));
    r->projection = (lh_projection){.w = lh_plain_matrix(r->anywhere, LH_BF16, 0), .type = LH_BF16};
    r->rotation = (lh_rotation){.inv_freq = r->anywhere, .rotary = s->head_dim, .scale = 1.0f};
    r->entries = (lh_ragged){.k = r->anywhere,
                             .v = r->anywhere,
                             .type = LH_BF16, /* with the most temporaries */
                             .positions = r->anywhere,
                             .bias = r->anywhere,
                             .stats = r->anywhere,
                             .stat_count = r->ev->stats.count,
                             .offset = r->offsets,
                             .len = r->lens,
                             .heads = heads,
                             .head_dim = s->head_dim};
    return LH_OK;
}

static void close_rehearsal(rehearsal *r)
{
    lh_evictor_close(r->ev);
    if (r->anywhere) lh_device_free(r->on.device, r->anywhere);
    lh_counting_close(&r->on);
    lh_free(r->lens);
}

static lh_evict_job job_of(rehearsal *r, lh_evict_phase phase)
{
    const lh_evict_need *need = &r->of->need;
    return (lh_evict_job){.phase = phase,
                          .layer = {.projection = &r->projection, .rotation = &r->rotation},
                          .entries = &r->entries,
                          .offset = r->offsets,
                          .seen = lh_max_i64(lh_max_i64(need->ld, r->ev->prompt_tokens), r->ev->policy.rows),
                          .protect = need->protect,
                          .cols = need->ld,
                          .ranked = need->ranked,
                          .scored = need->scored,
                          .room = r->room,
                          .normless = &r->normless};
}

/* Query rows that end at the job's last token. */
static lh_query_rows rows_of(const rehearsal *r, const lh_evict_job *job, int64_t tokens)
{
    return (lh_query_rows){.q = r->anywhere,
                           .positions = r->anywhere,
                           .first = job->seen - tokens,
                           .tokens = tokens,
                           .q_ld = r->ev->shape.heads.q_count * r->ev->shape.head_dim,
                           .hidden = r->anywhere};
}

/* ---- rows that pass ---- */

/* Entries that the rows of a segment of probe tokens score. */
static int64_t longest_stretch(const rehearsal *r)
{
    const lh_evictor *ev = r->ev;
    if (lh_probes_score_all(&ev->policy)) return ev->prompt_tokens;
    return lh_probe_segment_of(&ev->policy, ev->prompt_tokens, &(lh_probe_leads){0}, 0).tokens;
}

static void pass_rows(rehearsal *r, lh_evict_phase phase)
{
    lh_evict_job job = job_of(r, phase);
    const int in_prefill = phase == LH_EVICT_PREFILL,
              scores_probes = in_prefill && lh_evict_uses_probes(&r->ev->policy),
              uses_rows = lh_evict_uses_rows(&r->ev->policy, phase, 1);
    if (!uses_rows && !scores_probes) return;
    if (in_prefill) job.seen = r->ev->prompt_tokens;
    lh_query_rows rows = rows_of(r, &job, lh_min_i64(job.seen, LH_ROWS_AT_ONCE));
    if (in_prefill) {
        rows.lse = r->anywhere;
        lh_evict_begin_layer(r->ev, &job);
    }
    if (uses_rows) lh_evict_rows(r->ev, &job, &rows);
    if (scores_probes)
        lh_evict_probes(r->ev, &job,
                        &(lh_probe_rows){.queries = rows,
                                         .count = longest_stretch(r),
                                         .attends_more = lh_probes_see_more(&r->ev->policy)});
}

static lh_status rehearse_rows(const lh_evictor *ev, int64_t *bytes)
{
    const occasion of = {.need = {.ld = lh_max_i64(ev->prompt_tokens, 1)}, .layers = 1};
    rehearsal r = {.of = &of};
    lh_status st = open_rehearsal(&r, ev, ev->prompt_tokens);
    if (st == LH_OK) {
        const int64_t before = lh_device_usage(r.on.device).now[LH_MEM_WORK];
        if (ev->prompt_tokens > 0) pass_rows(&r, LH_EVICT_PREFILL);
        pass_rows(&r, LH_EVICT_DECODE);
        *bytes = lh_device_usage(r.on.device).peak[LH_MEM_WORK] - before;
        st = lh_exec_take(&r.ev->exec);
    }
    close_rehearsal(&r);
    return st;
}

/* ---- evictions ---- */

/* Entries of each head that stay are fitted. */
static void fit(rehearsal *r, const lh_reference_queries *reference)
{
    for (int64_t h = 0; h < r->entries.heads; h++) r->counts[h] += r->of->need.protected_kept;
    lh_evict_fit(r->ev, reference,
                 &(lh_evict_kept){.entries = &r->entries, .offset = r->offsets, .len = r->counts, .before = r->lens});
}

static void evict(rehearsal *r, const lh_evict_job *jobs)
{
    const int64_t n = r->of->layers;
    lh_evict_classify(r->ev, jobs, n);
    for (int64_t h = 0; h < r->entries.heads; h++) r->counts[h] = jobs->protect.base;
    for (int64_t i = 0; i < n && jobs->ranked; i++) lh_evict_score(r->ev, &jobs[i], i);
    if (jobs->ranked) lh_evict_choose(r->ev, jobs, n, r->counts);
    if (lh_evict_fits(r->ev, jobs)) {
        const lh_reference_queries reference = lh_evict_reference_queries(r->ev, jobs, r->lens);
        fit(r, &reference);
    }
    lh_evict_end(r->ev);
}

/* Layers compete with each other (kv/layer_competition.c): a layer by a threshold; the division over all layers; and
 * the layers that are marked together, which take no more than one layer with the longest heads. */
static void compete(rehearsal *r, const lh_evict_job *job)
{
    lh_evictor *ev = r->ev;
    lh_layer_limits *limits = NULL;
    lh_evict_job *jobs = NULL;
    lh_reference_queries reference = {0};
    lh_search threshold;
    lh_evict_keep_scores(ev, job);
    if (lh_evict_fits(ev, job)) reference = lh_evict_reference_queries(ev, job, r->lens);
    lh_evict_mark_from(ev, job, &(lh_count_best_args){0}, r->counts);
    lh_evict_end(ev);
    lh_exec_latch(&ev->exec, lh_calloc(&limits, ev->shape.layers, sizeof *limits));
    lh_exec_latch(&ev->exec, lh_calloc(&jobs, ev->shape.layers, sizeof *jobs));
    for (int64_t l = 0; l < ev->shape.layers && jobs; l++) jobs[l] = *job;
    if (limits && jobs)
        lh_evict_divide(ev, &(lh_top_request){.layers = ev->shape.layers, .jobs = jobs, .limits = limits}, r->budgets,
                        &threshold);
    lh_evict_show_scores(ev, job, 1);
    lh_evict_mark(ev, job, 1, r->budgets);
    lh_evict_end(ev);
    for (int64_t h = 0; h < r->entries.heads; h++) r->counts[h] = job->protect.base;
    if (lh_evict_fits(ev, job)) fit(r, &reference);
    lh_free(limits);
    lh_free(jobs);
}

static void run_evictions(rehearsal *r)
{
    lh_evictor *ev = r->ev;
    const lh_policy_numbers *p = &ev->policy;
    lh_evict_job jobs[LH_EVICT_AT_ONCE];
    lh_query_rows rows;
    jobs[0] = job_of(r, r->of->phase);
    if (r->of->phase == LH_EVICT_PREFILL) {
        jobs[0].seen = ev->prompt_tokens;
        if (r->of->need.counted) lh_evict_end_layer(ev, &jobs[0]);
    } else if (lh_ring_row_count(p) > 0) {
        rows = rows_of(r, &jobs[0], lh_min_i64(lh_ring_row_count(p), jobs[0].seen));
        rows.first_rows = p->first_rows;
        jobs[0].rows = &rows;
    }
    for (int64_t i = 1; i < r->of->layers; i++) jobs[i] = jobs[0];
    r->normless = jobs[0].scored ? jobs[0].cols : 0;
    if (!jobs[0].ranked) lh_evict_make_norms(ev, &jobs[0]); /* of a trace */
    if (r->of->phase == LH_EVICT_PREFILL && jobs[0].ranked && p->budgets.layers == LH_LAYERS_ADAPTIVE)
        compete(r, &jobs[0]);
    else
        evict(r, jobs);
}

static lh_status rehearse_eviction(const lh_evictor *ev, const occasion *of, int64_t *bytes)
{
    rehearsal r = {.of = of};
    lh_status st = open_rehearsal(&r, ev, of->phase == LH_EVICT_PREFILL ? ev->prompt_tokens : 0);
    if (st == LH_OK) {
        const int64_t before = lh_device_usage(r.on.device).now[LH_MEM_WORK];
        run_evictions(&r);
        *bytes = lh_device_usage(r.on.device).peak[LH_MEM_WORK] - before;
        st = lh_exec_take(&r.ev->exec);
    }
    close_rehearsal(&r);
    return st;
}

/* ---- allocation ---- */

static lh_status alloc_evictions(lh_evictor *ev, const occasion *of)
{
    lh_evictor_free(ev);
    LH_TRY(rehearse_eviction(ev, of, &ev->eviction_bytes));
    LH_TRY(lh_evictor_reserve(ev));
    ev->ld = ev->max_ld = of->need.ld;
    ev->layers = of->layers;
    return LH_OK;
}

lh_status lh_evictor_alloc(lh_evictor *ev, const lh_evict_need *need)
{
    return alloc_evictions(ev, &(occasion){.need = *need, .layers = 1, .phase = LH_EVICT_PREFILL});
}

/* 1 where the attention of a decode step leaves its logits for the statistics. */
static int keeps_logits(const lh_evictor *ev)
{
    const int counts = lh_observes_again(&ev->policy) && ev->policy.score.running && !ev->shape.heads.split;
    return counts || lh_counted_rows_latest(&ev->policy, &ev->shape.heads);
}

lh_status lh_evictor_alloc_steps(lh_evictor *ev, int64_t ld, int64_t layers)
{
    const int evicts = lh_evicts_again(&ev->policy),
              scored = evicts && !lh_methods_have(&ev->policy.methods, LH_BY_POSITION);
    const int64_t bytes = ev->shape.heads.kv_count * ev->shape.heads.group * ld * (int64_t)sizeof *ev->logits;
    LH_TRY(alloc_evictions(ev, &(occasion){.need = {.ld = ld, .ranked = evicts, .scored = scored},
                                           .layers = layers,
                                           .phase = LH_EVICT_DECODE}));
    if (!keeps_logits(ev)) return LH_OK;
    lh_status st = lh_device_alloc(lh_exec_device(&ev->exec), &ev->logits, bytes, LH_MEM_WORK);
    if (st != LH_OK) lh_evictor_free(ev);
    return st;
}

lh_status lh_evictor_alloc_rows(lh_evictor *ev, int64_t tokens)
{
    lh_evictor_free_rows(ev);
    LH_TRY(rehearse_rows(ev, &ev->row_bytes));
    LH_TRY(lh_evictor_reserve(ev));
    return alloc_store(ev, tokens);
}
