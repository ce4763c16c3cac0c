/* Attention that entries receive from observed rows, and log-sum-exps of rows. */
#include "kernels/ref/attend.h"

/* Normalisers of the rows, for the slots of a head. */
typedef struct ref_weights {
    const lh_column_stats_args *args;
    double *lse;  /* [rows, heads] */
    double *seen; /* [rows] number of entries of the head that each row sees */
} ref_weights;

static double weight_of(const ref_weights *w, int64_t r, int64_t i, int64_t slot)
{
    double lse = w->lse[r * w->args->rows.map.heads + i];
    return lse == -INFINITY ? 0.0 : exp(ref_observed_logit(&w->args->rows, r, i, slot) - lse);
}

/* Adds the attention that one slot receives. A row that sees a single entry gives it 1, which must not count as above 1
 * / 1 by rounding. */
static void add_column(const ref_weights *w, int64_t head, int64_t slot)
{
    const lh_column_stats_args *a = w->args;
    const lh_observed *o = &a->rows;
    int64_t i0 = head * o->map.group - o->map.first;
    double sum = 0.0, squares = 0.0, largest = 0.0, count = 0.0;
    for (int64_t r = 0; r < o->rows; r++) {
        double mean = 0.0;
        if (!ref_observes(o, r, head, slot)) continue;
        for (int64_t c = 0; c < o->map.group; c++) {
            double weight = weight_of(w, r, i0 + c, slot);
            mean += weight / (double)o->map.group;
            if (!a->each_head) continue;
            squares += weight * weight;
            largest = fmax(largest, weight);
        }
        sum += mean;
        if (!a->each_head) squares += mean * mean;
        if (!a->each_head) largest = fmax(largest, mean);
        count += w->seen[r] > 1 && mean > 1.0 / w->seen[r];
    }
    if (a->sums.at && a->parts == 1) *lh_slot_at(&a->sums, head, slot, 0) += (float)sum;
    for (int64_t c = 0; c < a->parts && a->sums.at && a->parts > 1; c++) {
        sum = 0.0;
        for (int64_t r = 0; r < o->rows; r++)
            if (ref_observes(o, r, head, slot)) sum += weight_of(w, r, i0 + c, slot);
        *lh_slot_at(&a->sums, head, slot, c) += (float)sum;
    }
    if (a->squares.at) *lh_slot_at(&a->squares, head, slot, 0) += (float)squares;
    if (a->largest.at)
        *lh_slot_at(&a->largest, head, slot, 0) = fmaxf(*lh_slot_at(&a->largest, head, slot, 0), (float)largest);
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
            w.lse[r * o->map.heads + i] = a->lse ? a->lse[r * a->lse_ld + i] : ref_observed_lse(o, r, i);
    for (int64_t head = o->map.first / o->map.group; head < (o->map.first + o->map.heads) / o->map.group; head++) {
        for (int64_t r = 0; r < o->rows; r++) {
            w.seen[r] = 0.0;
            for (int64_t j = 0; j < o->kv->len[head]; j++) w.seen[r] += ref_observes(o, r, head, j);
        }
        for (int64_t j = a->first; j < a->first + a->cols && j < o->kv->len[head]; j++) add_column(&w, head, j);
    }
    return LH_OK;
}

lh_status lh_ref_row_lse(lh_stream *stream, const lh_row_lse_args *a)
{
    (void)stream;
    for (int64_t r = 0; r < a->rows.rows; r++)
        for (int64_t i = 0; i < a->rows.map.heads; i++)
            a->lse[r * a->rows.map.heads + i] = (float)ref_observed_lse(&a->rows, r, i);
    return LH_OK;
}
