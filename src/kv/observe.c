#include <assert.h>
#include <math.h>

#include "kv/kv_impl.h"

/* ---- rows ---- */

/* Query heads of one rank that belong to one KV head, and where their rows lie in the work space. */
typedef struct segment {
    int64_t first, heads; /* in the group */
    int64_t q_ld;
    const float *q, *lse;
} segment;

static segment segment_of(const lh_kv *kv, int64_t kv_head, int rank)
{
    lh_heads other = lh_heads_at(&kv->shape.heads, rank);
    int64_t from = kv_head * other.group, to = from + other.group, dim = kv->shape.head_dim;
    if (from < other.q_first) from = other.q_first;
    if (to > other.q_first + other.q_count) to = other.q_first + other.q_count;
    return (segment){.first = from - kv_head * other.group,
                     .heads = to - from,
                     .q_ld = other.q_count * dim,
                     .q =
                         (float *)kv->work.at[LH_WORK_Q] + (kv->work.rows * other.q_first + from - other.q_first) * dim,
                     .lse = (float *)kv->work.at[LH_WORK_LSE] + kv->work.rows * from};
}

/* One NaN among the weights makes every score of a row NaN, and maxima would hide it: the log-sum-exps tell. Of a row
 * that is observed again no entry need be left: -inf. */
static lh_status check_rows(lh_kv *kv, const lh_eviction *e)
{
    lh_status st = LH_OK;
    const lh_heads *h = &kv->shape.heads;
    int64_t count = kv->work.rows * h->q_count;
    const float *own = (float *)kv->work.at[LH_WORK_LSE] + (h->split ? kv->work.rows * h->q_first : 0);
    float *lse = NULL;
    LH_TRY(lh_calloc(&lse, count, sizeof *lse));
    LH_TRY(lh_stream_copy(kv->place.stream, lse, own, count * (int64_t)sizeof *lse, LH_COPY_TO_HOST));
    LH_TRY(lh_stream_sync(kv->place.stream));
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(lse[i]) && !(e->again && isinf(lse[i]) && lse[i] < 0))
            LH_FAIL(LH_EFILE,
                    "layer %lld: the attention of the query heads is not finite, so that the cache cannot be ranked; "
                    "'longhaul verify' tells whether the weights are damaged",
                    (long long)e->layer);
done:
    lh_free(lse);
    return st;
}

/* Collective. Every rank gets the rows of all. */
static lh_status exchange_rows(lh_kv *kv, lh_status *local)
{
    lh_status st = LH_OK;
    const lh_heads *h = &kv->shape.heads;
    const lh_work_part parts[] = {LH_WORK_Q, LH_WORK_LSE};
    if (*local == LH_OK) *local = lh_stream_sync(kv->place.stream);
    for (int i = 0; i < 2; i++) {
        int64_t head = kv->work.rows * (int64_t)sizeof(float) * (i ? 1 : kv->shape.head_dim);
        char *all = kv->work.at[parts[i]];
        for (int r = 0; r < h->ranks; r++) {
            lh_heads other = lh_heads_at(h, r);
            kv->traffic.bytes[r] = head * other.q_count;
            kv->traffic.at[r] = head * other.q_first;
        }
        LH_TRY(
            lh_comm_allgatherv(kv->place.comm, all + kv->traffic.at[h->rank], all, kv->traffic.bytes, kv->traffic.at));
    }
done:
    return st;
}

/* ---- columns ---- */

typedef struct columns {
    int64_t first, count;
} columns;

/* The columns of a KV head that its i-th sharer observes. */
static columns columns_of(int64_t ld, int i, int sharers)
{
    int64_t first = ld * i / sharers;
    return (columns){.first = first, .count = ld * (i + 1) / sharers - first};
}

lh_logit lh_kv_logit(const lh_kv *kv, int64_t layer)
{
    return (lh_logit){.scale = kv->shape.scale,
                      .softcap = kv->shape.softcap,
                      .window = lh_kv_slides(&kv->shape, layer) ? kv->shape.window : 0};
}

static lh_status sum_columns(lh_kv *kv, const lh_eviction *e, const segment *s, lh_column_sums_args *args)
{
    args->q = s->q;
    args->lse = s->lse;
    args->q_ld = s->q_ld;
    args->rows = kv->work.rows;
    args->positions = kv->work.at[LH_WORK_ROWS];
    args->logit = lh_kv_logit(kv, e->layer);
    return kv->place.ops->column_sums(kv->place.stream, args);
}

/* Sums of a tile of columns -> raw: joined over the group, or as they are where that comes after the pool. */
static lh_status join(lh_kv *kv, const lh_group_reduce_args *shape)
{
    lh_group_reduce_args args = *shape;
    args.group = kv->shape.heads.group;
    args.kind = (lh_group_kind)kv->fixed.group_kind;
    args.factor = kv->fixed.mean ? 1.0f / (float)kv->work.rows : 1.0f;
    return kv->place.ops->group_reduce(kv->place.stream, &args);
}

/* The groups lie whole on this rank: all heads at once. */
static lh_status observe_whole(lh_kv *kv, const lh_eviction *e)
{
    lh_status st = LH_OK;
    const lh_work *w = &kv->work;
    const lh_heads *h = &kv->shape.heads;
    segment all = {
        .heads = h->q_count, .q_ld = h->q_count * kv->shape.head_dim, .q = w->at[LH_WORK_Q], .lse = w->at[LH_WORK_LSE]};
    for (int64_t at = 0; at < e->cols; at += w->tile) {
        float *raw = (float *)w->at[LH_WORK_RAW] + at, *sums = w->at[LH_WORK_SUMS];
        int64_t cols = e->cols - at < w->tile ? e->cols - at : w->tile;
        lh_column_sums_args args = {.sums = sums ? sums : raw,
                                    .ld = sums ? w->tile : w->ld,
                                    .kv = &e->pool->view,
                                    .map = lh_heads_grouping(h),
                                    .first = at,
                                    .cols = cols};
        LH_TRY(sum_columns(kv, e, &all, &args));
        if (sums)
            LH_TRY(
                join(kv, &(lh_group_reduce_args){
                             .y = raw, .x = sums, .heads = h->kv_count, .cols = cols, .y_ld = w->ld, .x_ld = w->tile}));
    }
done:
    return st;
}

/* All query heads of one KV head, from the ranks that have them, over this rank's columns. */
static lh_status observe_shared(lh_kv *kv, const lh_eviction *e, int64_t g)
{
    lh_status st = LH_OK;
    const lh_work *w = &kv->work;
    const lh_heads *h = &kv->shape.heads;
    lh_ragged view = e->pool->view;
    view.offset += g;
    view.len += g;
    view.heads = 1;
    int first, sharers;
    lh_heads_sharers(h, h->kv_first + g, &first, &sharers);
    columns mine = columns_of(e->cols, h->rank - first, sharers);
    for (int64_t at = mine.first; at < mine.first + mine.count; at += w->tile) {
        float *raw = (float *)w->at[LH_WORK_RAW] + g * w->rows_per_head * w->ld + at, *sums = w->at[LH_WORK_SUMS];
        int64_t left = mine.first + mine.count - at, cols = left < w->tile ? left : w->tile;
        for (int r = first; r < first + sharers; r++) {
            segment s = segment_of(kv, h->kv_first + g, r);
            int64_t ld = sums ? w->tile : w->ld;
            lh_column_sums_args args = {.sums = (sums ? sums : raw) + s.first * ld,
                                        .ld = ld,
                                        .kv = &view,
                                        .map = {.heads = s.heads, .group = h->group},
                                        .first = at,
                                        .cols = cols};
            LH_TRY(sum_columns(kv, e, &s, &args));
        }
        if (sums)
            LH_TRY(join(kv, &(lh_group_reduce_args){
                                .y = raw, .x = sums, .heads = 1, .cols = cols, .y_ld = w->ld, .x_ld = w->tile}));
    }
done:
    return st;
}

/* Copy the pieces of the shared KV heads that rank r observed: from raw to its place among all pieces (r is this rank),
 * or back for those KV heads that lie here too. */
static lh_status move_pieces(lh_kv *kv, int64_t cols, int r)
{
    lh_status st = LH_OK;
    const lh_work *w = &kv->work;
    const lh_heads *h = &kv->shape.heads;
    lh_heads other = lh_heads_at(h, r);
    float *piece = (float *)w->at[LH_WORK_PIECES] + kv->traffic.at[r] / (int64_t)sizeof(float);
    for (int64_t g = other.kv_first; g < other.kv_first + other.kv_count; g++) {
        int first, sharers;
        lh_heads_sharers(h, g, &first, &sharers);
        if (sharers == 1) continue;
        columns c = columns_of(cols, r - first, sharers);
        for (int64_t i = 0; i < w->rows_per_head; i++, piece += c.count) {
            if (g < h->kv_first || g >= h->kv_first + h->kv_count) continue;
            float *raw = (float *)w->at[LH_WORK_RAW] + ((g - h->kv_first) * w->rows_per_head + i) * w->ld + c.first;
            LH_TRY(lh_stream_copy(kv->place.stream, r == h->rank ? piece : raw, r == h->rank ? raw : piece,
                                  c.count * (int64_t)sizeof(float), LH_COPY_ON_DEVICE));
        }
    }
done:
    return st;
}

/* Collective. Columns of shared KV heads go to all ranks that hold them. */
static lh_status exchange_columns(lh_kv *kv, int64_t cols, lh_status *local)
{
    lh_status st = LH_OK;
    const lh_heads *h = &kv->shape.heads;
    int64_t end = 0;
    for (int r = 0; r < h->ranks; r++) {
        lh_heads other = lh_heads_at(h, r);
        kv->traffic.at[r] = end;
        for (int64_t g = other.kv_first; g < other.kv_first + other.kv_count; g++) {
            int first, sharers;
            lh_heads_sharers(h, g, &first, &sharers);
            if (sharers > 1)
                end += columns_of(cols, r - first, sharers).count * kv->work.rows_per_head * (int64_t)sizeof(float);
        }
        kv->traffic.bytes[r] = end - kv->traffic.at[r];
    }
    assert(end <= kv->work.bytes[LH_WORK_PIECES]);
    if (*local == LH_OK) *local = move_pieces(kv, cols, h->rank);
    if (*local == LH_OK) *local = lh_stream_sync(kv->place.stream);
    char *all = kv->work.at[LH_WORK_PIECES];
    LH_TRY(lh_comm_allgatherv(kv->place.comm, all + kv->traffic.at[h->rank], all, kv->traffic.bytes, kv->traffic.at));
    for (int r = 0; r < h->ranks && *local == LH_OK; r++)
        if (r != h->rank) *local = move_pieces(kv, cols, r);
done:
    return st;
}

/* ---- shape ---- */

/* Pool the competing entries, and join the group where that comes after it. */
static lh_status shape_scores(lh_kv *kv, const lh_eviction *e, const float **scores)
{
    lh_status st = LH_OK;
    const lh_work *w = &kv->work;
    int64_t heads = kv->shape.heads.kv_count;
    *scores = w->at[LH_WORK_RAW];
    if (kv->fixed.pool_kind == LH_POOL_NONE) goto done;
    LH_TRY(kv->place.ops->pool(kv->place.stream, &(lh_pool_args){.y = w->at[LH_WORK_SHAPED],
                                                                 .x = w->at[LH_WORK_RAW],
                                                                 .state = w->at[LH_WORK_STATE],
                                                                 .len = e->pool->view.len,
                                                                 .rows = heads * w->rows_per_head,
                                                                 .rows_per_head = w->rows_per_head,
                                                                 .ld = w->ld,
                                                                 .k = kv->fixed.pool_size,
                                                                 .kind = (lh_pool_kind)kv->fixed.pool_kind}));
    *scores = w->at[LH_WORK_SHAPED];
    if (!kv->fixed.group_after_pool) goto done;
    LH_TRY(join(kv, &(lh_group_reduce_args){.y = w->at[LH_WORK_RAW],
                                            .x = w->at[LH_WORK_SHAPED],
                                            .heads = heads,
                                            .cols = e->cols,
                                            .y_ld = w->ld,
                                            .x_ld = w->ld}));
    *scores = w->at[LH_WORK_RAW];
done:
    return st;
}

static lh_status tell(lh_kv *kv, const lh_eviction *e, const float *scores)
{
    int raw = scores == kv->work.at[LH_WORK_SHAPED];
    if (!kv->listener.scored) return LH_OK;
    return kv->listener.scored(kv->listener.self, e->layer,
                               &(lh_kv_scores){.view = &e->pool->view,
                                               .raw = raw ? kv->work.at[LH_WORK_RAW] : NULL,
                                               .scores = scores,
                                               .state = kv->work.at[LH_WORK_STATE],
                                               .ld = kv->work.ld});
}

lh_status lh_kv_observe(lh_kv *kv, const lh_eviction *e, lh_status *local, const float **scores)
{
    lh_status st = LH_OK;
    const lh_heads *h = &kv->shape.heads;
    if (*local == LH_OK && e->again) *local = lh_kv_ring_unroll(kv, e);
    if (*local == LH_OK) *local = check_rows(kv, e);
    if (!h->split) {
        if (*local == LH_OK) *local = observe_whole(kv, e);
    } else {
        LH_TRY(exchange_rows(kv, local));
        for (int64_t g = 0; g < h->kv_count && *local == LH_OK; g++) *local = observe_shared(kv, e, g);
        LH_TRY(exchange_columns(kv, e->cols, local));
    }
    if (*local == LH_OK) *local = shape_scores(kv, e, scores);
    if (*local == LH_OK) *local = tell(kv, e, *scores);
done:
    return st;
}
