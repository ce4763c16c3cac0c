/* Attention that columns receive from rows, and the scores that statistics of it make. */
#include "evict/attention.h"

int64_t lh_attention_parts(const lh_policy_numbers *p, const lh_heads *heads)
{
    if (lh_statistic_is_joint(p->score.statistic)) return 1;
    return p->shape.group == LH_GROUP_MAX || p->shape.group_after_pool ? heads->group : 1;
}

lh_logit lh_logit_of(const lh_evictor *ev, const lh_evict_job *job)
{
    return (lh_logit){.scale = ev->shape.scale, .softcap = ev->shape.softcap, .window = job->layer.window};
}

void lh_run_column_stats(lh_evictor *ev, const lh_evict_job *job, const lh_row_block *b, lh_column_stats_args *args)
{
    args->rows.positions = b->rows.positions;
    args->rows.until = b->until;
    args->rows.gains = b->gains;
    args->rows.logit = lh_logit_of(ev, job);
    args->rows.rows = b->rows.tokens;
    args->rows.q_ld = b->rows.q_ld;
    args->lse_ld = b->lse_ld;
    LH_LATCH(&ev->exec, ev->exec.ops->column_stats(ev->exec.stream, args));
}

void lh_count_columns(lh_evictor *ev, const lh_evict_job *job, const lh_row_block *b, const lh_columns *to)
{
    const lh_heads *h = &ev->shape.heads;
    lh_column_stats_args args = {.sums = to->sums,
                                 .squares = to->squares,
                                 .largest = to->largest,
                                 .counts = to->counts,
                                 .parts = to->parts,
                                 .each_head = to->each_head,
                                 .lse = b->rows.lse,
                                 .own = b->own,
                                 .cols = job->cols,
                                 .rows = {.q = b->rows.q,
                                          .logits = b->rows.logits,
                                          .kv = job->entries,
                                          .map = {.heads = h->kv_count * h->group, .group = h->group}}};
    lh_run_column_stats(ev, job, b, &args);
}

/* What a number of `rows` is multiplied with. */
static float factor_of(const lh_policy_numbers *p, const lh_heads *heads, int64_t rows)
{
    switch (p->score.statistic) {
    case LH_STAT_MEAN: return 1.0f / (float)rows;
    case LH_STAT_RMS: return 1.0f / (float)(rows * heads->group);
    default: return 1.0f;
    }
}

static lh_finish_kind finish_kind(const lh_policy_numbers *p)
{
    switch (p->score.statistic) {
    case LH_STAT_MAS: return LH_FINISH_PER_VISIT;
    case LH_STAT_RMS: return LH_FINISH_ROOT;
    default: return LH_FINISH_PLAIN;
    }
}

static void finish(lh_evictor *ev, const lh_evict_job *job, const lh_finish_scores_args *of)
{
    const lh_policy_numbers *p = &ev->policy;
    lh_finish_scores_args args = *of;
    args.kv = job->entries;
    args.ld = ev->ld;
    args.parts = lh_score_parts(p, &ev->shape.heads);
    args.seen = job->seen;
    args.window = job->layer.window;
    args.more = p->score.non_causal ? p->first_rows : 0;
    args.factor = factor_of(p, &ev->shape.heads, lh_policy_rows(p, job->seen));
    if (p->shape.group == LH_GROUP_SUM && args.parts == 1) args.factor *= (float)ev->shape.heads.group;
    LH_LATCH(&ev->exec, ev->exec.ops->finish_scores(ev->exec.stream, &args));
}

void lh_finish_statistics(lh_evictor *ev, const lh_evict_job *job, const lh_columns *from, int64_t first_row,
                          float *scores)
{
    const lh_policy_numbers *p = &ev->policy;
    lh_finish_scores_args args = {.x = from->counts.at    ? from->counts
                                       : from->largest.at ? from->largest
                                       : from->sums.at    ? from->sums
                                                          : from->squares,
                                  .squares = from->squares,
                                  .first_row = first_row};
    if (p->select.kind == LH_SELECT_STD_SCOPE) { /* the first stage wants the deviations */
        args.y = lh_layer_scores(ev, ev->second);
        args.kind = LH_FINISH_DEVIATION;
        finish(ev, job, &args);
    }
    args.y = scores;
    args.kind = finish_kind(p);
    finish(ev, job, &args);
    if (lh_score_parts(p, &ev->shape.heads) > 1 && !p->shape.group_after_pool) lh_join_group(ev, job, scores, scores);
}
