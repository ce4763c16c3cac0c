#include <assert.h>
#include <math.h>

#include "kernels/ref/ref.h"
#include "kernels/slots.h"

/* A query row of one head, and the entries of its KV head from which the mask chooses. */
typedef struct lh_ref_row {
    const float *q;
    const lh_ragged *kv;
    lh_logit logit;
    int64_t head, slots, position; /* KV head; its first `slots` slots; position of the row */
} lh_ref_row;

static double logit_of(const lh_ref_row *row, int64_t slot)
{
    const lh_ragged *kv = row->kv;
    int64_t at = (kv->offset[row->head] + slot) * kv->head_dim;
    double dot = 0.0;
    for (int64_t i = 0; i < kv->head_dim; i++) dot += row->q[i] * ref_load(kv->k, kv->type, at + i);
    double s = row->logit.scale * dot;
    return row->logit.softcap > 0 ? row->logit.softcap * tanh(s / row->logit.softcap) : s;
}

/* Whether the window leaves the slot. */
static int in_window(const lh_ref_row *row, int64_t slot)
{
    return row->logit.window <= 0 || ref_position(row->kv, row->head, slot) > row->position - row->logit.window;
}

static int sees(const lh_ref_row *row, int64_t slot)
{
    return ref_position(row->kv, row->head, slot) <= row->position && in_window(row, slot);
}

/* Softmax over the slots that `visible` lets through. work: slots + head_dim numbers. */
static void attend(const lh_ref_row *row, int (*visible)(const lh_ref_row *, int64_t), double *work, float *o,
                   float *lse)
{
    const lh_ragged *kv = row->kv;
    double *s = work, *sum = work + row->slots, top = -INFINITY, mass = 0.0;
    for (int64_t j = 0; j < row->slots; j++) {
        s[j] = visible(row, j) ? logit_of(row, j) : -INFINITY;
        top = fmax(top, s[j]);
    }
    for (int64_t i = 0; i < kv->head_dim; i++) sum[i] = 0.0;
    for (int64_t j = 0; j < row->slots; j++) {
        if (s[j] == -INFINITY) continue;
        double weight = exp(s[j] - top);
        int64_t at = (kv->offset[row->head] + j) * kv->head_dim;
        for (int64_t i = 0; i < kv->head_dim; i++) sum[i] += weight * ref_load(kv->v, kv->type, at + i);
        mass += weight;
    }
    for (int64_t i = 0; i < kv->head_dim; i++) o[i] = mass != 0 ? (float)(sum[i] / mass) : 0.0f;
    if (lse) *lse = mass != 0 ? (float)(top + log(mass)) : -INFINITY;
}

/* Workspace for rows of any head of kv. */
static lh_status open_work(lh_stream *stream, double **work, const lh_ragged *kv)
{
    int64_t most = 0;
    for (int64_t h = 0; h < kv->heads; h++) most = kv->len[h] > most ? kv->len[h] : most;
    return lh_stream_scratch(stream, work, (most + kv->head_dim) * (int64_t)sizeof **work);
}

lh_status lh_ref_attend_block(lh_stream *stream, const lh_attend_block_args *a)
{
    double *work = NULL;
    if (a->tokens == 0 || a->map.heads == 0) return LH_OK;
    LH_TRY(open_work(stream, &work, a->kv));
    for (int64_t t = 0; t < a->tokens; t++) {
        for (int64_t i = 0; i < a->map.heads; i++) {
            int64_t head = (a->map.first + i) / a->map.group, slots = a->kv->len[head] - a->tokens + t + 1;
            lh_ref_row row = {.q = a->q + t * a->q_ld + i * a->kv->head_dim,
                              .kv = a->kv,
                              .logit = a->logit,
                              .head = head,
                              .slots = slots > 0 ? slots : 0,
                              .position = a->positions[t]};
            attend(&row, in_window, work, a->o + t * a->o_ld + i * a->kv->head_dim,
                   a->lse ? a->lse + t * a->map.heads + i : NULL);
        }
    }
    return LH_OK;
}

lh_status lh_ref_attend_decode(lh_stream *stream, const lh_attend_decode_args *a)
{
    double *work = NULL;
    if (a->map.heads == 0) return LH_OK;
    for (int64_t b = 0; b < a->batch; b++) {
        const lh_ragged *kv = &a->seqs[b];
        LH_TRY(open_work(stream, &work, kv));
        for (int64_t i = 0; i < a->map.heads; i++) {
            int64_t head = (a->map.first + i) / a->map.group;
            lh_ref_row row = {.q = a->q + b * a->q_ld + i * kv->head_dim,
                              .kv = kv,
                              .logit = a->logit,
                              .head = head,
                              .slots = kv->len[head],
                              .position = a->positions[b]};
            for (int64_t s = 0; s < row.slots && a->logits.at; s++)
                a->logits.at[(b * a->map.heads + i) * a->logits.ld + s] = (float)logit_of(&row, s);
            attend(&row, sees, work, a->o + b * a->o_ld + i * kv->head_dim,
                   a->lse ? a->lse + b * a->map.heads + i : NULL);
        }
    }
    return LH_OK;
}

/* The position up to which row r sees entries. */
static int64_t last_seen(const lh_observed *o, int64_t r)
{
    return o->until ? o->until[r] : o->positions[r];
}

/* Whether row r sees the entry in a slot. */
static int observes(const lh_observed *o, int64_t r, int64_t head, int64_t slot)
{
    int64_t p = ref_position(o->kv, head, slot);
    return p <= last_seen(o, r) && (o->logit.window <= 0 || p > o->positions[r] - o->logit.window);
}

/* The logit of row r of query head i and an entry of its KV head. */
static double observed_logit(const lh_observed *o, int64_t r, int64_t i, int64_t slot)
{
    lh_ref_row row = {.q = o->q + r * o->q_ld + i * o->kv->head_dim,
                      .kv = o->kv,
                      .logit = o->logit,
                      .head = (o->map.first + i) / o->map.group};
    double plain = o->logits.at ? o->logits.at[i * o->logits.ld + slot] : logit_of(&row, slot);
    return (o->gains ? o->gains[r] : 1.0) * plain;
}

static double observed_lse(const lh_observed *o, int64_t r, int64_t i)
{
    int64_t head = (o->map.first + i) / o->map.group;
    double top = -INFINITY, mass = 0.0;
    for (int64_t j = 0; j < o->kv->len[head]; j++)
        if (observes(o, r, head, j)) top = fmax(top, observed_logit(o, r, i, j));
    for (int64_t j = 0; j < o->kv->len[head]; j++)
        if (observes(o, r, head, j)) mass += exp(observed_logit(o, r, i, j) - top);
    return mass != 0 ? top + log(mass) : -INFINITY;
}

lh_status lh_ref_row_lse(lh_stream *stream, const lh_row_lse_args *a)
{
    (void)stream;
    for (int64_t r = 0; r < a->rows.rows; r++)
        for (int64_t i = 0; i < a->rows.map.heads; i++)
            a->lse[r * a->rows.map.heads + i] = (float)observed_lse(&a->rows, r, i);
    return LH_OK;
}

/* Of a row, for the slots of a head. */
typedef struct ref_weights {
    const lh_column_stats_args *args;
    double *lse;  /* [rows, heads] */
    double *seen; /* [rows] entries of the head that each row sees */
} ref_weights;

static double weight_of(const ref_weights *w, int64_t r, int64_t i, int64_t slot)
{
    double lse = w->lse[r * w->args->rows.map.heads + i];
    return lse == -INFINITY ? 0.0 : exp(observed_logit(&w->args->rows, r, i, slot) - lse);
}

/* What one slot receives. A row that sees a single entry gives it 1, which is never above 1 / 1, whatever the rounding
 * of lse makes of it. */
static void add_column(const ref_weights *w, int64_t head, int64_t slot)
{
    const lh_column_stats_args *a = w->args;
    const lh_observed *o = &a->rows;
    int64_t i0 = head * o->map.group - o->map.first;
    double sum = 0.0, squares = 0.0, count = 0.0;
    for (int64_t r = 0; r < o->rows; r++) {
        double mean = 0.0;
        if (!observes(o, r, head, slot)) continue;
        for (int64_t c = 0; c < o->map.group; c++) mean += weight_of(w, r, i0 + c, slot) / (double)o->map.group;
        sum += mean;
        squares += mean * mean;
        count += w->seen[r] > 1 && mean > 1.0 / w->seen[r];
    }
    if (a->sums.at && a->parts == 1) *lh_slot_at(&a->sums, head, slot, 0) += (float)sum;
    for (int64_t c = 0; c < a->parts && a->sums.at && a->parts > 1; c++) {
        sum = 0.0;
        for (int64_t r = 0; r < o->rows; r++)
            if (observes(o, r, head, slot)) sum += weight_of(w, r, i0 + c, slot);
        *lh_slot_at(&a->sums, head, slot, c) += (float)sum;
    }
    if (a->squares.at) *lh_slot_at(&a->squares, head, slot, 0) += (float)squares;
    if (a->counts.at) *lh_slot_at(&a->counts, head, slot, 0) += (float)count;
}

lh_status lh_ref_column_stats(lh_stream *stream, const lh_column_stats_args *a)
{
    const lh_observed *o = &a->rows;
    ref_weights w = {.args = a};
    assert(a->lse || o->rows <= 1);
    if (o->map.heads == 0 || o->rows == 0 || a->cols == 0) return LH_OK;
    LH_TRY(lh_stream_scratch(stream, &w.lse, o->rows * (o->map.heads + 1) * (int64_t)sizeof *w.lse));
    w.seen = w.lse + o->rows * o->map.heads;
    for (int64_t r = 0; r < o->rows; r++)
        for (int64_t i = 0; i < o->map.heads; i++)
            w.lse[r * o->map.heads + i] = a->lse ? a->lse[r * a->lse_ld + i] : observed_lse(o, r, i);
    for (int64_t head = o->map.first / o->map.group; head < (o->map.first + o->map.heads) / o->map.group; head++) {
        for (int64_t r = 0; r < o->rows; r++) {
            w.seen[r] = 0.0;
            for (int64_t j = 0; j < o->kv->len[head]; j++) w.seen[r] += observes(o, r, head, j);
        }
        for (int64_t j = a->first; j < a->first + a->cols && j < o->kv->len[head]; j++) add_column(&w, head, j);
    }
    return LH_OK;
}
