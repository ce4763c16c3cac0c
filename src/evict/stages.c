/* How the entries of a head are chosen by their scores: the best, in one stage or in two. The first stage of a
 * two-stage selection takes its share by one score, the second the rest by another. */
#include "evict/evict_impl.h"
#include "evict/loss_curves.h"
#include "evict/turns.h"

static const float NORM_EPSILON = 1e-4f; /* added to scores before norms weigh them (arXiv 2502.03805) */

/* CriticalKV (arXiv 2502.03805, algorithm 1): the second stage ranks by scores times projected norms. */
static void weigh_by_norms(lh_evictor *ev, const lh_evict_job *job, const float *scores)
{
    LH_RUN(&ev->exec, weigh_scores, .y = lh_layer_scores(ev, ev->second), .x = scores,
           .norms = lh_stat_of(job->entries, ev->stats.norms), .len = job->entries->len,
           .heads = ev->shape.heads.kv_count, .ld = ev->ld, .add = NORM_EPSILON);
}

/* NaCl (arXiv 2408.03675, algorithm 1): the rest is drawn with probabilities softmax(score); or in proportion to the
 * scores (VaSE, arXiv 2606.03928). Joint heads draw as one. */
static void perturb(lh_evictor *ev, const lh_evict_job *job, const float *scores)
{
    float *y = lh_layer_scores(ev, ev->second);
    lh_ragged view = *job->entries;
    lh_draw draw = lh_draw_of(ev, job);
    if (ev->policy.select.joint) {
        draw.first_head = 0;
        view.heads = 1;
    }
    LH_RUN(&ev->exec, gumbel_scores, .y = y, .x = scores, .kv = &view, .ld = ev->ld, .temperature = 1.0f,
           .proportional = ev->policy.select.draw == LH_DRAW_BY_SCORE, .draw = draw);
    for (int64_t g = 1; g < ev->shape.heads.kv_count && ev->policy.select.joint; g++)
        lh_exec_copy(&ev->exec, y + g * ev->ld, y, job->cols * (int64_t)sizeof *y, LH_COPY_ON_DEVICE);
}

lh_stage_scores lh_make_stages(lh_evictor *ev, const lh_evict_job *job, lh_scores by)
{
    float *scores = lh_layer_scores(ev, by);
    lh_stage_scores s = {.first = by, .heads = by, .second = ev->second};
    switch (ev->policy.select.kind) {
    case LH_SELECT_TOPK: break;
    case LH_SELECT_TWO_STAGE: weigh_by_norms(ev, job, scores); break;
    case LH_SELECT_STD_SCOPE: /* RoCo (arXiv 2402.06262): the deviations come first */
        s.first = ev->second;
        s.second = by;
        break;
    case LH_SELECT_TOPK_SAMPLE: perturb(ev, job, scores); break;
    case LH_SELECT_TOPK_KEYS: lh_take_turns(ev, job, scores); break;
    }
    if (lh_competes_by_losses(&ev->policy.budgets)) {
        lh_score_gains(ev, job, scores);
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

void lh_mark_stages(lh_evictor *ev, const lh_evict_job *jobs, int64_t n)
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
