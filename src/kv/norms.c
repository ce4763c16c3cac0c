/* Norms that weigh scores: of values (AhaKV's prior, arXiv 2506.03762) or of what the output projection makes of them
 * (CriticalKV, arXiv 2502.03805). A value never changes, so its norm is made once and goes with the entry. */
#include <string.h>

#include "kv/kv_impl.h"

/* Entries of one eviction that have no norm yet: the last `count` of every head at most. */
typedef struct fresh {
    int64_t count;
    const int64_t *from;   /* host, [kv_count] first slot */
    const int64_t *device; /* the same */
} fresh;

static lh_status find(lh_kv *kv, const lh_eviction *e, int64_t *from, fresh *out)
{
    lh_status st = LH_OK;
    int64_t heads = e->pool->view.heads;
    out->count = kv->layers[e->layer].fresh;
    for (int64_t g = 0; g < heads; g++) from[g] = e->pool->len[g] > out->count ? e->pool->len[g] - out->count : 0;
    out->from = from;
    out->device = kv->work.at[LH_WORK_COUNTS];
    LH_TRY(lh_stream_copy(kv->place.stream, kv->work.at[LH_WORK_COUNTS], from, heads * (int64_t)sizeof *from,
                          LH_COPY_TO_DEVICE));
    LH_TRY(lh_stream_sync(kv->place.stream));
done:
    return st;
}

static lh_status square_values(lh_kv *kv, const lh_eviction *e, const fresh *n)
{
    return kv->place.ops->entry_norms(kv->place.stream,
                                      &(lh_entry_norms_args){.y = lh_kv_stat(&e->pool->view, kv->layout.priors),
                                                             .kv = &e->pool->view,
                                                             .from = n->device,
                                                             .part = LH_PART_VALUE,
                                                             .kind = LH_NORM_SQUARE});
}

/* Norms behind the columns of each query head of this rank: rows of LH_WORK_NORMS, where the row of query head 0 of the
 * ranks' is first. */
static lh_status project(lh_kv *kv, const lh_eviction *e, const fresh *n)
{
    lh_status st = LH_OK;
    const lh_heads *h = &kv->shape.heads;
    const lh_kv_projection *o = &kv->shape.projections[e->layer];
    int64_t dim = kv->shape.head_dim, column = dim * lh_dtype_bytes(o->type);
    for (int64_t i = 0; i < h->q_count; i++) {
        int64_t g = (h->q_first + i) / h->group - h->kv_first, row = h->split ? h->q_first + i : i;
        lh_ragged view = lh_kv_one_head(&e->pool->view, g);
        float *y = (float *)kv->work.at[LH_WORK_NORMS] + row * n->count - n->from[g];
        LH_TRY(kv->place.ops->projected_norms(kv->place.stream,
                                              &(lh_projected_norms_args){.y = {.at = y, .step = 1},
                                                                         .kv = &view,
                                                                         .map = {.heads = 1, .group = 1},
                                                                         .from = n->device + g,
                                                                         .w = (const char *)o->w + i * column,
                                                                         .type = o->type,
                                                                         .out = kv->shape.hidden,
                                                                         .w_ld = o->ld,
                                                                         .factor = 1.0f}));
    }
done:
    return st;
}

/* Collective. The rows of all ranks. */
static lh_status exchange(lh_kv *kv, int64_t count, lh_status *local)
{
    const lh_heads *h = &kv->shape.heads;
    int64_t row = count * (int64_t)sizeof(float);
    char *all = kv->work.at[LH_WORK_NORMS];
    for (int r = 0; r < h->ranks; r++) {
        lh_heads other = lh_heads_at(h, r);
        kv->traffic.at[r] = other.q_first * row;
        kv->traffic.bytes[r] = other.q_count * row;
    }
    if (*local == LH_OK) *local = lh_stream_sync(kv->place.stream);
    return lh_comm_allgatherv(kv->place.comm, all + kv->traffic.at[h->rank], all, kv->traffic.bytes, kv->traffic.at);
}

/* Means over the groups of this rank's KV heads go with the entries. */
static lh_status put_means(lh_kv *kv, const lh_eviction *e, const fresh *n)
{
    lh_status st = LH_OK;
    const lh_heads *h = &kv->shape.heads;
    float *rows = kv->work.at[LH_WORK_NORMS], *means = rows + (h->split ? h->heads : h->q_count) * n->count;
    LH_TRY(kv->place.ops->group_reduce(
        kv->place.stream, &(lh_group_reduce_args){.y = means,
                                                  .x = rows + (h->split ? h->kv_first * h->group * n->count : 0),
                                                  .heads = h->kv_count,
                                                  .group = h->group,
                                                  .cols = n->count,
                                                  .y_ld = n->count,
                                                  .x_ld = n->count,
                                                  .kind = LH_GROUP_MEAN,
                                                  .factor = 1.0f}));
    LH_TRY(kv->place.ops->put_stats(kv->place.stream,
                                    &(lh_put_stats_args){.y = lh_kv_stat(&e->pool->view, kv->layout.norms),
                                                         .x = means,
                                                         .kv = &e->pool->view,
                                                         .from = n->device,
                                                         .ld = n->count}));
done:
    return st;
}

lh_status lh_kv_make_norms(lh_kv *kv, const lh_eviction *e, lh_status *local)
{
    lh_status st = LH_OK;
    fresh n = {0};
    if (kv->layout.norms < 0 || kv->layers[e->layer].fresh == 0) goto done;
    if (*local == LH_OK && kv->clock.seen) *local = lh_kv_save_stats(kv, e->layer);
    if (*local == LH_OK) *local = find(kv, e, kv->traffic.above, &n);
    if (kv->fixed.value_prior && *local == LH_OK) *local = square_values(kv, e, &n);
    if (kv->fixed.select == LH_SELECT_TWO_STAGE) {
        if (*local == LH_OK) *local = project(kv, e, &n);
        if (kv->shape.heads.split) LH_TRY(exchange(kv, kv->layers[e->layer].fresh, local));
        if (*local == LH_OK) *local = put_means(kv, e, &n);
    }
    kv->layers[e->layer].fresh = 0;
done:
    return st;
}
