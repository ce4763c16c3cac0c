/* Query rows on their way to the columns: those of shared KV heads are put together from the ranks that have them, and
 * rows with a gain, or that see what comes after them, get a normaliser of their own. */
#include <math.h>

#include "kv/kv_impl.h"

float *lh_kv_own_q(lh_kv *kv, int64_t rows)
{
    const lh_heads *h = &kv->shape.heads;
    return (float *)kv->rows.at[LH_ROWS_Q] + (h->split ? rows * h->q_first * kv->shape.head_dim : 0);
}

float *lh_kv_own_lse(lh_kv *kv, int64_t rows)
{
    const lh_heads *h = &kv->shape.heads;
    return (float *)kv->rows.at[LH_ROWS_LSE] + (h->split ? rows * h->q_first : 0);
}

lh_logit lh_kv_logit(const lh_kv *kv, int64_t layer)
{
    return (lh_logit){.scale = kv->shape.scale,
                      .softcap = kv->shape.softcap,
                      .window = lh_kv_slides(&kv->shape, layer) ? kv->shape.window : 0};
}

/* One NaN among the weights makes every score of a row NaN, and maxima would hide it: the log-sum-exps tell. */
lh_status lh_kv_check_rows(lh_kv *kv, int64_t layer, const lh_row_block *block)
{
    lh_status st = LH_OK;
    int64_t width = block->lse_ld, count = block->rows * width;
    float *lse = NULL;
    LH_TRY_DONE(lh_calloc(&lse, count, sizeof *lse));
    LH_TRY_DONE(lh_stream_copy(kv->place.stream, lse, block->lse, count * (int64_t)sizeof *lse, LH_COPY_TO_HOST));
    LH_TRY_DONE(lh_stream_sync(kv->place.stream));
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(lse[i]))
            LH_FAIL_DONE(
                LH_EFILE,
                "layer %lld: the attention of the query heads is not finite, so that the cache cannot be ranked; "
                "'longhaul verify' tells whether the weights are damaged",
                (long long)layer);
done:
    lh_free(lse);
    return st;
}

/* ---- groups that lie on several ranks ---- */

lh_status lh_kv_exchange_heads(lh_kv *kv, void *blocks, int64_t head_bytes, lh_status *local)
{
    const lh_heads *h = &kv->shape.heads;
    char *all = blocks;
    for (int r = 0; r < h->ranks; r++) {
        lh_heads other = lh_heads_at(h, r);
        kv->traffic.bytes[r] = head_bytes * other.q_count;
        kv->traffic.at[r] = head_bytes * other.q_first;
    }
    if (*local == LH_OK) *local = lh_comm_flush(kv->place.device_comm);
    return lh_comm_allgatherv(kv->place.device_comm, all + kv->traffic.at[h->rank], all, kv->traffic.bytes,
                              kv->traffic.at);
}

/* From the blocks of all ranks, those query heads that share a KV head with one of this rank: dst [rows, kv_count *
 * group * head_floats]. */
static lh_status pick(lh_kv *kv, lh_row_part from, lh_row_part to, int64_t rows, int64_t head_floats)
{
    const lh_heads *h = &kv->shape.heads;
    int64_t first = h->kv_first * h->group, end = first + h->kv_count * h->group, width = (end - first) * head_floats;
    for (int r = 0; r < h->ranks; r++) {
        lh_heads other = lh_heads_at(h, r);
        int64_t a = other.q_first > first ? other.q_first : first,
                b = other.q_first + other.q_count < end ? other.q_first + other.q_count : end;
        const float *src = (float *)kv->rows.at[from] + (rows * other.q_first + a - other.q_first) * head_floats;
        float *dst = (float *)kv->rows.at[to] + (a - first) * head_floats;
        for (int64_t t = 0; t < rows && a < b; t++)
            LH_TRY(lh_stream_copy(kv->place.stream, dst + t * width, src + t * other.q_count * head_floats,
                                  (b - a) * head_floats * (int64_t)sizeof(float), LH_COPY_ON_DEVICE));
    }
    return LH_OK;
}

/* Collective. */
static lh_status gather_groups(lh_kv *kv, const lh_row_block *own, lh_status *local, lh_row_block *out)
{
    const lh_heads *h = &kv->shape.heads;
    int64_t dim = kv->shape.head_dim, grouped = h->kv_count * h->group, lse = own->rows * (int64_t)sizeof(float);
    LH_TRY(lh_kv_exchange_heads(kv, kv->rows.at[LH_ROWS_Q], lse * dim, local));
    if (own->lse) LH_TRY(lh_kv_exchange_heads(kv, kv->rows.at[LH_ROWS_LSE], lse, local));
    if (*local == LH_OK) *local = pick(kv, LH_ROWS_Q, LH_ROWS_GROUP_Q, own->rows, dim);
    if (*local == LH_OK && own->lse) *local = pick(kv, LH_ROWS_LSE, LH_ROWS_GROUP_LSE, own->rows, 1);
    out->q = kv->rows.at[LH_ROWS_GROUP_Q];
    out->q_ld = grouped * dim;
    if (own->lse) out->lse = kv->rows.at[LH_ROWS_GROUP_LSE];
    out->lse_ld = grouped;
    return LH_OK;
}

/* ---- normalisers of their own ---- */

/* AhaKV's step gain (arXiv 2506.03762, eq. 9): sqrt(2 ln(i / k)) on logits that are scaled by 1 / sqrt(d) already, with
 * i tokens seen and k entries kept; 1 where nothing is evicted yet. */
static float step_gain(const lh_policy_numbers *fixed, int64_t seen)
{
    double i = (double)seen, k = (double)fixed->budget;
    float gain = i > k ? (float)sqrt(2.0 * log(i / k)) : 1.0f;
    return fixed->score.gain_floor && gain < 1.0f ? 1.0f : gain;
}

static lh_status describe(lh_kv *kv, const lh_eviction *e, lh_row_block *b)
{
    lh_status st = LH_OK;
    int32_t *until = NULL;
    float *gains = NULL;
    LH_TRY_DONE(lh_calloc(&until, b->rows, sizeof *until));
    LH_TRY_DONE(lh_calloc(&gains, b->rows, sizeof *gains));
    for (int64_t r = 0; r < b->rows; r++) {
        until[r] = (int32_t)(e->seen - 1);
        gains[r] = step_gain(&kv->fixed, (r < b->head ? r : b->first + r) + 1);
    }
    if (kv->fixed.score.non_causal) {
        b->until = kv->rows.at[LH_ROWS_UNTIL];
        LH_TRY_DONE(
            lh_stream_put(kv->place.stream, kv->rows.at[LH_ROWS_UNTIL], until, b->rows * (int64_t)sizeof *until));
    }
    if (kv->fixed.score.gain) {
        b->gains = kv->rows.at[LH_ROWS_GAINS];
        LH_TRY_DONE(
            lh_stream_put(kv->place.stream, kv->rows.at[LH_ROWS_GAINS], gains, b->rows * (int64_t)sizeof *gains));
    }
done:
    lh_free(until);
    lh_free(gains);
    return st;
}

/* A single row's is worked out where it is counted. */
static lh_status normalise(lh_kv *kv, const lh_eviction *e, lh_row_block *b)
{
    const lh_heads *h = &kv->shape.heads;
    int64_t grouped = h->kv_count * h->group;
    float *lse = kv->rows.at[LH_ROWS_GROUP_LSE];
    LH_TRY(describe(kv, e, b));
    b->lse_ld = grouped;
    b->own = b->rows == 1 ? lse : NULL;
    b->lse = b->rows == 1 ? NULL : lse;
    if (b->own) return LH_OK;
    LH_TRY(kv->place.ops->row_lse(kv->place.stream,
                                  &(lh_row_lse_args){.lse = lse,
                                                     .rows = {.q = b->q,
                                                              .positions = b->positions,
                                                              .until = b->until,
                                                              .gains = b->gains,
                                                              .kv = &e->pool->view,
                                                              .map = {.heads = grouped, .group = h->group},
                                                              .logit = lh_kv_logit(kv, e->layer),
                                                              .rows = b->rows,
                                                              .q_ld = b->q_ld}}));
    return LH_OK;
}

lh_status lh_kv_join_rows(lh_kv *kv, const lh_eviction *e, const lh_row_block *own, lh_status *local, lh_row_block *out)
{
    int of_their_own = !own->lse || kv->fixed.score.gain || kv->fixed.score.non_causal;
    lh_row_block given = *own;
    if (of_their_own) given.lse = NULL;
    *out = given;
    if (kv->shape.heads.split) LH_TRY(gather_groups(kv, &given, local, out));
    if (*local == LH_OK && of_their_own) *local = normalise(kv, e, out);
    return LH_OK;
}
