/* How the entries of a head are chosen by their scores: the best, in one stage or in two. The first stage of a
 * two-stage selection takes its share by one score, the second the rest by another. */
#include "evict/evict_impl.h"
#include "evict/loss_curves.h"

/* All entries in the order of their scores. */
const lh_method lh_method_topk = {.word = "topk", .help = "The best scores."};

lh_stage_scores lh_make_stages(lh_evictor *ev, const lh_evict_job *job, lh_scores by)
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
