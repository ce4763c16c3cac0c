/* Attention that columns receive from rows, and the statistics of it: the scores sum, mean, mas, count, rms, max and
 * last. */
#include "evict/evict_impl.h"

int64_t lh_attention_parts(const lh_policy_numbers *p, const lh_heads *heads)
{
    if (lh_methods_have(&p->methods, LH_JOINT_STATISTIC)) return 1;
    return p->shape.group == LH_GROUP_MAX || lh_groups_after_pool(&p->methods) ? heads->group : 1;
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
                                 .first = to->first,
                                 .cols = job->cols - to->first,
                                 .rows = {.q = b->rows.q,
                                          .logits = b->rows.logits,
                                          .kv = job->entries,
                                          .map = {.heads = h->kv_count * h->group, .group = h->group}}};
    lh_run_column_stats(ev, job, b, &args);
}

static const lh_statistic *statistic_of(const lh_policy_numbers *p)
{
    return lh_methods[p->score.source]->statistic;
}

/* The factor of a statistic of `rows` rows. */
static float factor_of(const lh_policy_numbers *p, const lh_heads *heads, int64_t rows)
{
    const lh_statistic *s = statistic_of(p);
    return 1.0f / (float)((s->per_row ? rows : 1) * (s->per_head ? heads->group : 1));
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
    args.more = lh_uses_method(&p->methods, LH_METHOD_non_causal) ? p->first_rows : 0;
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
    if (lh_methods_have(&p->methods, LH_NEEDS_SQUARES)) { /* the first stage wants the deviations */
        args.y = lh_layer_scores(ev, ev->second);
        args.kind = LH_FINISH_DEVIATION;
        finish(ev, job, &args);
    }
    args.y = scores;
    args.kind = statistic_of(p)->finish;
    finish(ev, job, &args);
    if (lh_score_parts(p, &ev->shape.heads) > 1 && !lh_groups_after_pool(&p->methods))
        lh_join_group(ev, job, scores, scores);
}

/* ---- the statistics ---- */

lh_status lh_check_scoring_rows(const lh_policy *policy)
{
    const int probes = lh_scores_by_probes(&policy->score);
    if (!policy->proxies.kind && !policy->rows.percent.digits && !policy->rows.n && !probes)
        LH_FAIL(LH_EUSAGE,
                "--window 0 leaves no row to observe: give '--rows all', '--rows last:N', or a window of at least 1");
    return LH_OK;
}

static lh_status check_mean(const lh_policy *policy)
{
    LH_TRY(lh_check_scoring_rows(policy));
    if (policy->score.running)
        LH_FAIL(LH_EUSAGE, "'--statistic mean' needs rows that are observed again ('--window N' or '--proxies P%%', "
                           "without '--rows all'); use sum or mas");
    return LH_OK;
}

static lh_status check_mas(const lh_policy *policy)
{
    LH_TRY(lh_check_scoring_rows(policy));
    if (policy->rows_spread || policy->score.rows_at == LH_ROWS_AT_AFTER)
        LH_FAIL(LH_EUSAGE, "'--statistic mas' divides by the rows after an entry, but rows that are spread or moved by "
                           "'--rows sample:N' or '--rows-at after' are not those: give mean");
    return LH_OK;
}

static lh_status check_last(const lh_policy *policy)
{
    if (policy->rows.n != 1 || policy->rows.percent.digits)
        LH_FAIL(LH_EUSAGE,
                "'--statistic last' observes the last row alone: leave '--rows' out, or give another statistic");
    return LH_OK;
}

#define STATISTIC(name, sentence, verify, more, ...)                                      \
    const lh_method lh_method_##name = {.word = #name,                                    \
                                        .help = sentence,                                 \
                                        .traits = LH_ATTENDS | LH_NEEDS_ENTRIES | (more), \
                                        .check = verify,                                  \
                                        .statistic = &(const lh_statistic){__VA_ARGS__},  \
                                        .source = &lh_source_window}

STATISTIC(sum, "The attention that an entry receives, summed over the rows.", lh_check_scoring_rows, 0,
          .column = LH_COLUMN_SUMS, .finish = LH_FINISH_PLAIN);
STATISTIC(mean, "The attention that an entry receives, a mean over the rows.", check_mean, LH_ROWS_TOGETHER,
          .column = LH_COLUMN_SUMS, .finish = LH_FINISH_PLAIN, .per_row = 1);
STATISTIC(mas, "The attention that an entry receives, a mean over the rows that could see it.", check_mas,
          LH_ROWS_TOGETHER, .column = LH_COLUMN_SUMS, .finish = LH_FINISH_PER_VISIT);
STATISTIC(count, "The number of rows that give an entry more than their mean weight.", lh_check_scoring_rows,
          LH_JOINT_STATISTIC | LH_ROWS_TOGETHER, .column = LH_COLUMN_COUNTS, .finish = LH_FINISH_PLAIN);
STATISTIC(rms, "The attention that an entry receives, as the root of its mean square over rows and query heads.",
          lh_check_scoring_rows, LH_JOINT_STATISTIC | LH_AT_EVICTION | LH_ROWS_TOGETHER, .column = LH_COLUMN_SQUARES,
          .finish = LH_FINISH_ROOT, .per_row = 1, .per_head = 1);
STATISTIC(max, "The largest attention that an entry receives, of all rows and query heads.", lh_check_scoring_rows,
          LH_JOINT_STATISTIC | LH_AT_EVICTION, .column = LH_COLUMN_LARGEST, .finish = LH_FINISH_PLAIN);
STATISTIC(last, "The attention of the last row alone.", check_last, LH_ONE_ROW | LH_ROWS_TOGETHER,
          .column = LH_COLUMN_SUMS, .finish = LH_FINISH_PLAIN);
