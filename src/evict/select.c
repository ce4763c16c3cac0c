/* The steps of an eviction, in order: classify (mask.c), make norms, score, shape, budgets, mark. The best entries are
 * marked in one stage or two: the first stage of a two-stage selection marks its share by one score, the second the
 * rest by another. */
#include <string.h>

#include "evict/evict.h"
#include "evict/evict_impl.h"

/* ---- stages ---- */

/* All entries in the order of their scores. */
const lh_method lh_method_topk = {.word = "topk", .help = "The best scores."};

static lh_stage_scores make_stages(lh_evictor *ev, const lh_evict_job *job, lh_scores by)
{
    const lh_selection *selection = lh_methods[ev->policy.select.kind]->selection;
    lh_stage_scores s = {.first = by, .heads = by, .second = ev->second};
    if (selection) selection->stages(ev, job, &s);
    if (lh_uses_method(&ev->policy.methods, LH_METHOD_losses)) {
        lh_score_gains(ev, job, lh_layer_scores(ev, by));
        s.heads = ev->loss_gains;
    }
    return s;
}

/* The counts of each stage, of each layer: [n, kv_count] each. */
static void split_counts(lh_evictor *ev, const lh_evict_job *jobs, int64_t n, lh_counts stages[2])
{
    const int64_t heads = ev->shape.heads.kv_count, bytes = n * heads * (int64_t)sizeof(int64_t);
    int64_t *first = lh_scratch_alloc(&ev->exec, bytes), *rest = lh_scratch_alloc(&ev->exec, bytes);
    stages[0] = (lh_counts){first, heads};
    stages[1] = (lh_counts){rest, heads};
    for (int64_t i = 0; i < n; i++)
        LH_RUN(&ev->exec, split_counts, .first = first + i * heads, .rest = rest + i * heads,
               .counts = ev->counts.at + i * ev->counts.step, .stage = lh_policy_stage(&ev->policy, &jobs[i].protect),
               .heads = heads);
}

static void mark_stages(lh_evictor *ev, const lh_evict_job *jobs, int64_t n)
{
    const lh_stage_scores *by = &ev->stages;
    lh_counts stages[2];
    if (!by->second.at) {
        lh_mark_best(ev, jobs, n, by->first, ev->counts, LH_ENTRY_DROP);
        return;
    }
    split_counts(ev, jobs, n, stages);
    lh_mark_best(ev, jobs, n, by->first, stages[0], LH_ENTRY_COMPETES);
    lh_mark_best(ev, jobs, n, by->second, stages[1], LH_ENTRY_DROP);
}

/* ---- norms of values ---- */

lh_matrix lh_evict_plain_projection(const lh_exec *exec, const lh_projection *projection, const lh_evict_shape *shape)
{
    const lh_matrix w = projection->w;
    void *plain = lh_scratch_alloc(exec, shape->projection_bytes);
    if (w.format->is_plain) return w;
    LH_RUN(exec, unpack, .dst = plain, .dst_type = projection->type, .w = w, .rows = shape->hidden, .cols = w.ld,
           .dst_ld = w.ld);
    return lh_plain_matrix(plain, projection->type, w.ld);
}

/* Norms that weigh scores: norms of additions, and the L1 norms of projected values, averaged over the group's query
 * heads (CriticalKV, arXiv 2502.03805). A value does not change before it is fitted, and then nothing is evicted any
 * more: its norm is made once, before the first eviction that asks for it, and goes with the entry. */
/* rows = norms of each query head of this rank. */
static void project(lh_evictor *ev, const lh_evict_job *job, float *rows, int64_t entries)
{
    const lh_matrix w = lh_evict_plain_projection(&ev->exec, job->layer.projection, &ev->shape);
    LH_RUN(&ev->exec, projected_norms, .y = rows, .kv = job->entries, .map = lh_heads_grouping(&ev->shape.heads),
           .last = entries, .ld = entries, .w = w.data, .type = w.format->plain, .out = ev->shape.hidden, .w_ld = w.ld);
}

/* Stores the means of rows over the groups of this rank's KV heads with the entries; head 0 of `rows` is query head
 * `first` of the model. */
static void put_means(lh_evictor *ev, const lh_evict_job *job, const float *rows, int64_t first, int64_t entries)
{
    const lh_heads *h = &ev->shape.heads;
    float *means = lh_scratch_floats(ev, h->kv_count * entries);
    LH_RUN(&ev->exec, group_reduce, .y = means, .x = rows + (h->kv_first * h->group - first) * entries,
           .heads = h->kv_count, .group = h->group, .cols = entries, .y_ld = entries, .x_ld = entries,
           .kind = LH_GROUP_MEAN, .factor = 1.0f);
    LH_RUN(&ev->exec, put_stats, .y = lh_stat_of(job->entries, ev->stats.norms), .x = means, .kv = job->entries,
           .last = entries, .ld = entries);
}

/* Collective where groups are split. */
static void make_projected_norms(lh_evictor *ev, const lh_evict_job *job, int64_t entries)
{
    const lh_heads *h = &ev->shape.heads;
    const int64_t mark = lh_scratch_mark(&ev->exec);
    float *own = lh_scratch_floats(ev, h->q_count * entries);
    project(ev, job, own, entries);
    if (h->split) {
        float *all = lh_scratch_floats(ev, h->heads * entries);
        lh_exchange_heads(ev, own, all, entries * (int64_t)sizeof *all);
        put_means(ev, job, all, 0, entries);
    } else {
        put_means(ev, job, own, h->q_first, entries);
    }
    lh_scratch_release(&ev->exec, mark);
}

void lh_evict_make_norms(lh_evictor *ev, const lh_evict_job *job)
{
    int64_t entries = ev->stats.norms < 0 ? 0 : lh_min_i64(*job->normless, job->cols);
    if (entries == 0) return;
    for (lh_method_id m = 1; m < LH_METHODS; m++) {
        const lh_addition *addition = lh_addition_of(&ev->policy, m);
        if (addition && addition->make_norms) addition->make_norms(ev, job, entries);
    }
    if (lh_methods_have(&ev->policy.methods, LH_NEEDS_PROJECTION)) make_projected_norms(ev, job, entries);
    *job->normless = 0;
}

/* ---- scores ---- */

static void notify(lh_evictor *ev, const lh_evict_job *job, lh_scores by)
{
    const lh_evict_listener *l = &ev->listener;
    float *raw = by.at == ev->shaped.at ? lh_layer_scores(ev, ev->raw) : NULL;
    if (!l->scored || !job->scored || !lh_exec_ok(&ev->exec)) return;
    lh_exec_latch(&ev->exec, l->scored(l->self, job->layer.index,
                                       &(lh_evict_scores){.view = job->entries,
                                                          .raw = raw,
                                                          .scores = lh_layer_scores(ev, by),
                                                          .state = lh_layer_state(ev),
                                                          .ld = ev->ld}));
}

/* Collective where groups are split. The source's scores, shaped. */
static lh_scores score_entries(lh_evictor *ev, const lh_evict_job *job)
{
    ev->scoring = ev->references = (lh_row_block){0};
    lh_evict_make_norms(ev, job);
    lh_source_of(&ev->policy)->score(ev, job, lh_layer_scores(ev, ev->raw));
    return lh_shape_scores(ev, job);
}

static void rank_entries(lh_evictor *ev, const lh_evict_job *job, lh_scores by)
{
    ev->stages = make_stages(ev, job, by);
    notify(ev, job, by);
}

/* Collective. One keep set for all heads of a layer (TOVA): scores become their mean over the heads of all ranks. Sums
 * are of integers, so that every rank and every number of ranks gets the same bits. */
static void join_heads(lh_evictor *ev, const lh_evict_job *jobs, int64_t n, lh_scores by)
{
    const lh_exec *x = &ev->exec;
    const lh_heads *h = &ev->shape.heads;
    const int64_t ld = ev->ld, step = by.step, skip = h->counted_first - h->kv_first, mark = lh_scratch_mark(x);
    int64_t *sums = lh_scratch_alloc(x, n * ld * (int64_t)sizeof *sums), cols = 0;
    float *scores = by.at, *top = lh_scratch_floats(ev, n);
    for (int64_t i = 0; i < n; i++) cols = lh_max_i64(cols, jobs[i].cols);
    LH_RUN(x, max_score, .y = top, .scores = scores, .state = ev->state, .kv = lh_views_of(ev, jobs, n), .batch = n,
           .ld = ld, .scores_step = step);
    lh_exec_allreduce(x, top, n, LH_F32, LH_MAX);
    LH_RUN(x, add_heads, .sums = sums, .scores = scores + skip * ld, .kv = lh_counted_views_of(ev, jobs, n), .top = top,
           .batch = n, .cols = cols, .ld = ld, .scores_step = step, .all_heads = h->kv_heads);
    lh_exec_allreduce(x, sums, n * cols, LH_I64, LH_SUM);
    LH_RUN(x, share_scores, .y = scores, .sums = sums, .top = top, .batch = n, .heads = h->kv_count, .cols = cols,
           .ld = ld, .y_step = step, .all_heads = h->kv_heads);
    lh_scratch_release(x, mark);
}

/* Collective. Layers that were scored: heads are joined before they are ranked. */
static void join_layers(lh_evictor *ev, const lh_evict_job *jobs, int64_t n)
{
    const lh_scores by = ev->stages.first;
    join_heads(ev, jobs, n, by);
    for (ev->layer = 0; ev->layer < n; ev->layer++) rank_entries(ev, &jobs[ev->layer], by);
    ev->layer = 0;
}

/* What this rank's heads keep of their competing entries where no scores are needed for it: counts [kv_count]. */
static void plan_counts(lh_evictor *ev, const lh_evict_job *job, int64_t *counts)
{
    const lh_heads *h = &ev->shape.heads;
    for (int64_t g = 0; g < h->kv_heads; g++) ev->budgets[g] = job->protect.base;
    if (ev->policy.budgets.heads == LH_HEADS_PROFILE)
        lh_policy_heads(&(lh_heads_request){.layer = job->layer.index,
                                            .heads = h->kv_heads,
                                            .protect = &job->protect,
                                            .room = job->room,
                                            .profile = ev->head_profile},
                        ev->budgets);
    memcpy(counts, ev->budgets + h->kv_first, (size_t)h->kv_count * sizeof *counts);
}

static void count_by_plan(lh_evictor *ev, const lh_evict_job *jobs, int64_t n)
{
    const int64_t heads = ev->shape.heads.kv_count, bytes = n * heads * (int64_t)sizeof *ev->planned;
    int64_t *counts = lh_scratch_alloc(&ev->exec, bytes);
    for (int64_t i = 0; i < n; i++) plan_counts(ev, &jobs[i], ev->planned + i * heads);
    lh_exec_put(&ev->exec, counts, ev->planned, bytes);
    ev->counts = (lh_counts){.at = counts, .step = heads};
}

void lh_evict_score(lh_evictor *ev, const lh_evict_job *job, int64_t i)
{
    lh_scratch_release(&ev->exec, ev->scoring_mark);
    ev->outputs = NULL;
    ev->layer = i;
    for (lh_method_id m = 1; m < LH_METHODS && job->protect.chosen; m++) {
        const lh_addition *addition = lh_addition_of(&ev->policy, m);
        if (addition && addition->protect) addition->protect(ev, job);
    }
    const lh_scores by = score_entries(ev, job);
    if (ev->policy.select.joint)
        ev->stages.first = by;
    else
        rank_entries(ev, job, by);
}

void lh_evict_choose(lh_evictor *ev, const lh_evict_job *jobs, int64_t n, int64_t *counts)
{
    const int64_t bytes = ev->shape.heads.kv_count * (int64_t)sizeof *counts;
    const int adaptive = ev->policy.budgets.heads == LH_HEADS_ADAPTIVE;
    ev->layer = 0;
    if (ev->policy.select.joint) join_layers(ev, jobs, n);
    (adaptive ? lh_adaptive_counts : count_by_plan)(ev, jobs, n);
    if (counts && adaptive) lh_exec_copy(&ev->exec, counts, ev->counts.at, bytes, LH_COPY_TO_HOST);
    if (counts && !adaptive) memcpy(counts, ev->planned, (size_t)bytes);
    mark_stages(ev, jobs, n);
}

void lh_evict_select(lh_evictor *ev, const lh_evict_job *job, int64_t *counts)
{
    for (int64_t h = 0; h < ev->shape.heads.kv_count && counts; h++) counts[h] = job->ranked ? job->protect.base : 0;
    lh_evict_classify(ev, job, 1);
    if (!job->ranked) return;
    lh_evict_score(ev, job, 0);
    lh_evict_choose(ev, job, 1, counts);
}

void lh_evict_keep_scores(lh_evictor *ev, const lh_evict_job *job)
{
    lh_evict_classify(ev, job, 1);
    rank_entries(ev, job, score_entries(ev, job));
    /* protected entries get a defined number, too: a prefill in flight is saved */
    LH_RUN(&ev->exec, put_stats, .y = lh_stat_of(job->entries, ev->stats.score), .x = ev->stages.heads.at,
           .state = ev->state, .kv = job->entries, .last = LH_ALL_ENTRIES, .ld = ev->ld);
}
