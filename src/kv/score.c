/* Scores of the entries: made by the policy's source, shaped, and weighed for the second stage of a selection. */

#include "kv/kv_impl.h"

/* CriticalKV's epsilon, added to scores (arXiv 2502.03805, algorithm 1), and the values over which AhaKV's prior is
 * averaged (arXiv 2506.03762, eq. 12). */
static const float SECOND_EPSILON = 1e-4f;
enum { PRIOR_POOL = 7 };

/* ---- sources ---- */

static lh_draw draw_of(const lh_kv *kv, const lh_eviction *e)
{
    return (lh_draw){.key = {(uint32_t)kv->seed, (uint32_t)(kv->seed >> 32)},
                     .counter = {(uint32_t)e->layer << 16 ^ kv->request, (uint32_t)e->number},
                     .first_head = kv->shape.heads.kv_first};
}

static lh_status by_position(lh_kv *kv, const lh_eviction *e, lh_status *local)
{
    if (*local == LH_OK)
        *local = kv->place.ops->position_scores(
            kv->place.stream,
            &(lh_position_scores_args){.y = kv->work.at[LH_WORK_RAW], .kv = &e->pool->view, .ld = kv->work.ld});
    return LH_OK;
}

static lh_status at_random(lh_kv *kv, const lh_eviction *e, lh_status *local)
{
    if (*local == LH_OK)
        *local = kv->place.ops->random_scores(kv->place.stream, &(lh_random_scores_args){.y = kv->work.at[LH_WORK_RAW],
                                                                                         .kv = &e->pool->view,
                                                                                         .ld = kv->work.ld,
                                                                                         .draw = draw_of(kv, e)});
    return LH_OK;
}

static lh_status by_key_norm(lh_kv *kv, const lh_eviction *e, lh_status *local)
{
    if (*local == LH_OK)
        *local = kv->place.ops->entry_norms(
            kv->place.stream, &(lh_entry_norms_args){.y = lh_kv_rows_of(kv->work.at[LH_WORK_RAW], 1, kv->work.ld),
                                                     .kv = &e->pool->view,
                                                     .last = LH_ALL_ENTRIES,
                                                     .part = LH_PART_KEY,
                                                     .kind = LH_NORM_MINUS_L2});
    return LH_OK;
}

static lh_status by_key_difference(lh_kv *kv, const lh_eviction *e, lh_status *local)
{
    if (*local == LH_OK)
        *local = kv->place.ops->key_difference(
            kv->place.stream,
            &(lh_key_difference_args){.y = kv->work.at[LH_WORK_RAW], .kv = &e->pool->view, .ld = kv->work.ld});
    return LH_OK;
}

/* What was counted, as scores. */
static lh_status finish(lh_kv *kv, const lh_eviction *e, lh_finish_kind kind, float *y)
{
    const lh_policy_numbers *p = &kv->fixed;
    const lh_stat_layout *l = &kv->layout;
    const lh_ragged *view = &e->pool->view;
    int64_t parts = lh_kv_parts(&kv->shape, p), rows = lh_policy_rows(p, e->seen);
    int64_t first = p->score.running ? lh_kv_first_counted(kv) : e->seen - rows + p->first_rows;
    lh_finish_scores_args args = {.y = y,
                                  .x = lh_kv_observed_sums(kv, e),
                                  .squares = lh_kv_rows_of(kv->work.at[LH_WORK_SQUARES], 1, kv->work.ld),
                                  .kv = view,
                                  .ld = kv->work.ld,
                                  .parts = parts,
                                  .first_row = first,
                                  .seen = e->seen,
                                  .window = lh_kv_logit(kv, e->layer).window,
                                  .more = p->score.non_causal ? p->first_rows : 0,
                                  .kind = kind,
                                  .factor = p->score.statistic == LH_STAT_MEAN ? 1.0f / (float)rows : 1.0f};
    if (p->score.running) {
        args.x = lh_kv_stat(view, l->counts < 0 ? l->sums : l->counts);
        args.squares = lh_kv_stat(view, l->squares);
    }
    if (p->shape.group == LH_GROUP_SUM && parts == 1) args.factor *= (float)kv->shape.heads.group;
    return kv->place.ops->finish_scores(kv->place.stream, &args);
}

/* [kv_count * parts, ld] -> [kv_count, ld]. */
static lh_status join_group(lh_kv *kv, const lh_eviction *e, const float *x, float *y)
{
    return kv->place.ops->group_reduce(kv->place.stream,
                                       &(lh_group_reduce_args){.y = y,
                                                               .x = x,
                                                               .heads = kv->shape.heads.kv_count,
                                                               .group = kv->shape.heads.group,
                                                               .cols = e->cols,
                                                               .y_ld = kv->work.ld,
                                                               .x_ld = kv->work.ld,
                                                               .kind = (lh_group_kind)kv->fixed.shape.group,
                                                               .factor = 1.0f});
}

/* Statistics of the observed rows -> LH_WORK_RAW, and the deviations where the first stage wants them. */
static lh_status finish_statistics(lh_kv *kv, const lh_eviction *e)
{
    float *raw = kv->work.at[LH_WORK_RAW];
    if (kv->fixed.select.kind == LH_SELECT_STD_SCOPE)
        LH_TRY(finish(kv, e, LH_FINISH_DEVIATION, kv->work.at[LH_WORK_SECOND]));
    LH_TRY(finish(kv, e, kv->fixed.score.statistic == LH_STAT_MAS ? LH_FINISH_PER_VISIT : LH_FINISH_PLAIN, raw));
    if (lh_kv_parts(&kv->shape, &kv->fixed) > 1 && !kv->fixed.shape.group_after_pool)
        LH_TRY(join_group(kv, e, raw, raw));
    return LH_OK;
}

static lh_status by_attention(lh_kv *kv, const lh_eviction *e, lh_status *local)
{
    LH_TRY(lh_kv_make_norms(kv, e, local));
    if (!kv->fixed.score.running) LH_TRY(lh_kv_observe(kv, e, local));
    if (*local == LH_OK) *local = finish_statistics(kv, e);
    return LH_OK;
}

/* ---- shape ---- */

static lh_status pool(lh_kv *kv, const lh_eviction *e, const lh_pool_args *shape)
{
    lh_pool_args args = *shape;
    args.state = kv->work.at[LH_WORK_STATE];
    args.kv = &e->pool->view;
    args.seen = e->seen;
    args.ld = kv->work.ld;
    args.rows = kv->shape.heads.kv_count * args.rows_per_head;
    return kv->place.ops->pool(kv->place.stream, &args);
}

/* AhaKV: scores times the pooled squares of value norms, over their maximum in the head. */
static lh_status weigh_by_values(lh_kv *kv, const lh_eviction *e, float *scores)
{
    int64_t heads = kv->shape.heads.kv_count;
    float *norms = kv->work.at[LH_WORK_PRIOR], *prior = norms + heads * kv->work.ld;
    LH_TRY(kv->place.ops->finish_scores(kv->place.stream,
                                        &(lh_finish_scores_args){.y = norms,
                                                                 .x = lh_kv_stat(&e->pool->view, kv->layout.priors),
                                                                 .kv = &e->pool->view,
                                                                 .ld = kv->work.ld,
                                                                 .parts = 1,
                                                                 .kind = LH_FINISH_PLAIN,
                                                                 .factor = 1.0f}));
    LH_TRY(
        pool(kv, e, &(lh_pool_args){.y = prior, .x = norms, .rows_per_head = 1, .k = PRIOR_POOL, .kind = LH_POOL_AVG}));
    LH_TRY(kv->place.ops->apply_prior(kv->place.stream, &(lh_apply_prior_args){.y = scores,
                                                                               .prior = prior,
                                                                               .state = kv->work.at[LH_WORK_STATE],
                                                                               .len = e->pool->view.len,
                                                                               .heads = heads,
                                                                               .ld = kv->work.ld}));
    return LH_OK;
}

/* Pool the competing entries, join the group where that comes after it, weigh. */
static lh_status shape(lh_kv *kv, const lh_eviction *e, float **scores)
{
    int64_t parts = lh_kv_parts(&kv->shape, &kv->fixed);
    *scores = kv->work.at[LH_WORK_RAW];
    if (kv->fixed.shape.pool != LH_POOL_NONE) {
        int apart = parts > 1 && kv->fixed.shape.group_after_pool;
        LH_TRY(pool(kv, e,
                    &(lh_pool_args){.y = kv->work.at[LH_WORK_SHAPED],
                                    .x = kv->work.at[LH_WORK_RAW],
                                    .rows_per_head = apart ? parts : 1,
                                    .k = kv->fixed.shape.pool_size,
                                    .kind = (lh_pool_kind)kv->fixed.shape.pool}));
        *scores = kv->work.at[LH_WORK_SHAPED];
        if (apart) {
            LH_TRY(join_group(kv, e, *scores, kv->work.at[LH_WORK_RAW]));
            *scores = kv->work.at[LH_WORK_RAW];
        }
    }
    if (kv->fixed.score.value_prior) LH_TRY(weigh_by_values(kv, e, *scores));
    return LH_OK;
}

/* ---- one set for all heads ---- */

lh_status lh_kv_join_scores(lh_kv *kv, const lh_eviction *e, lh_status *local, float *scores)
{
    const lh_heads *h = &kv->shape.heads;
    const lh_ops *ops = kv->place.ops;
    int64_t ld = kv->work.ld, *sums = kv->work.at[LH_WORK_JOINT];
    float *top = (float *)(void *)(sums + ld);
    if (*local == LH_OK)
        *local = ops->max_score(kv->place.stream, &(lh_max_score_args){.y = top,
                                                                       .scores = scores,
                                                                       .state = kv->work.at[LH_WORK_STATE],
                                                                       .len = e->pool->view.len,
                                                                       .heads = h->kv_count,
                                                                       .ld = ld});
    if (*local == LH_OK) *local = lh_comm_flush(kv->place.device_comm);
    LH_TRY(lh_comm_allreduce(kv->place.device_comm, top, 1, LH_F32, LH_MAX));
    int64_t skip = h->counted_first - h->kv_first;
    if (*local == LH_OK)
        *local = ops->add_heads(kv->place.stream, &(lh_add_heads_args){.sums = sums,
                                                                       .scores = scores + skip * ld,
                                                                       .len = e->pool->view.len + skip,
                                                                       .top = top,
                                                                       .heads = h->counted_count,
                                                                       .cols = e->cols,
                                                                       .ld = ld,
                                                                       .all_heads = h->kv_heads});
    if (*local == LH_OK) *local = lh_comm_flush(kv->place.device_comm);
    LH_TRY(lh_comm_allreduce(kv->place.device_comm, sums, e->cols, LH_I64, LH_SUM));
    if (*local == LH_OK)
        *local = ops->share_scores(kv->place.stream, &(lh_share_scores_args){.y = scores,
                                                                             .sums = sums,
                                                                             .top = top,
                                                                             .heads = h->kv_count,
                                                                             .cols = e->cols,
                                                                             .ld = ld,
                                                                             .all_heads = h->kv_heads});
    return LH_OK;
}

/* ---- the second stage ---- */

static lh_status weigh_by_norms(lh_kv *kv, const lh_eviction *e, const float *scores)
{
    return kv->place.ops->weigh_scores(kv->place.stream,
                                       &(lh_weigh_scores_args){.y = kv->work.at[LH_WORK_SECOND],
                                                               .x = scores,
                                                               .norms = lh_kv_stat(&e->pool->view, kv->layout.norms),
                                                               .len = e->pool->view.len,
                                                               .heads = kv->shape.heads.kv_count,
                                                               .ld = kv->work.ld,
                                                               .add = SECOND_EPSILON});
}

/* NaCl (arXiv 2408.03675, algorithm 1). Joint heads draw as one. */
static lh_status perturb(lh_kv *kv, const lh_eviction *e, const float *scores)
{
    float *y = kv->work.at[LH_WORK_SECOND];
    lh_ragged view = e->pool->view;
    lh_draw draw = draw_of(kv, e);
    if (kv->fixed.select.joint) {
        draw.first_head = 0;
        view.heads = 1;
    }
    LH_TRY(kv->place.ops->gumbel_scores(
        kv->place.stream, &(lh_gumbel_scores_args){
                              .y = y, .x = scores, .kv = &view, .ld = kv->work.ld, .temperature = 1.0f, .draw = draw}));
    for (int64_t g = 1; g < kv->shape.heads.kv_count && kv->fixed.select.joint; g++)
        LH_TRY(
            lh_stream_copy(kv->place.stream, y + g * kv->work.ld, y, e->cols * (int64_t)sizeof *y, LH_COPY_ON_DEVICE));
    return LH_OK;
}

/* Collective where heads are joined. */
static lh_status make_stages(lh_kv *kv, const lh_eviction *e, lh_status *local, float *scores, lh_scores *out)
{
    float *second = kv->work.at[LH_WORK_SECOND];
    *out = (lh_scores){.first = scores, .heads = scores};
    if (kv->fixed.select.joint) LH_TRY(lh_kv_join_scores(kv, e, local, scores));
    switch (kv->fixed.select.kind) {
    case LH_SELECT_TOPK: break;
    case LH_SELECT_TWO_STAGE:
        if (*local == LH_OK) *local = weigh_by_norms(kv, e, scores);
        out->second = second;
        break;
    case LH_SELECT_STD_SCOPE: /* the deviations come first */
        out->first = second;
        out->second = scores;
        break;
    case LH_SELECT_TOPK_SAMPLE:
        if (*local == LH_OK) *local = perturb(kv, e, scores);
        out->second = second;
        break;
    }
    return LH_OK;
}

static lh_status tell(lh_kv *kv, const lh_eviction *e, const float *scores)
{
    int raw = scores == kv->work.at[LH_WORK_SHAPED];
    if (!kv->listener.scored || !e->scored) return LH_OK;
    return kv->listener.scored(kv->listener.self, e->layer,
                               &(lh_kv_scores){.view = &e->pool->view,
                                               .raw = raw ? kv->work.at[LH_WORK_RAW] : NULL,
                                               .scores = scores,
                                               .state = kv->work.at[LH_WORK_STATE],
                                               .ld = kv->work.ld});
}

lh_status lh_kv_score(lh_kv *kv, const lh_eviction *e, lh_status *local, lh_scores *out)
{
    static lh_status (*const sources[])(lh_kv *, const lh_eviction *, lh_status *) = {
        [LH_SCORE_POSITION] = by_position,
        [LH_SCORE_ATTENTION] = by_attention,
        [LH_SCORE_RANDOM] = at_random,
        [LH_SCORE_KEY_NORM] = by_key_norm,
        [LH_SCORE_KEY_DIFFERENCE] = by_key_difference,
        [LH_SCORE_EXPECTED] = lh_kv_expect,
    };
    float *scores = kv->work.at[LH_WORK_RAW];
    LH_TRY(sources[kv->fixed.score.source](kv, e, local));
    if (*local == LH_OK) *local = shape(kv, e, &scores);
    if (*local != LH_OK) scores = kv->work.at[kv->work.at[LH_WORK_SHAPED] ? LH_WORK_SHAPED : LH_WORK_RAW];
    LH_TRY(make_stages(kv, e, local, scores, out));
    if (*local == LH_OK) *local = tell(kv, e, scores);
    return LH_OK;
}
