/* recorder_steps.c - steps after the prompt: a question, or a token of an answer. How long each took, and the best of
 * the logits that it ends with, with which next-token probabilities can be compared. */
#include <math.h>
#include <string.h>

#include "base/minmax.h"
#include "lab/trace/recorder_impl.h"

void lh_recorded_steps_clear(lh_recorded_steps *s)
{
    lh_buf_clear(&s->seconds);
    lh_buf_clear(&s->rows);
    lh_buf_clear(&s->ids);
    lh_buf_clear(&s->logits);
    lh_buf_clear(&s->lse);
}

/* The best of n logits, best first, equal ones in the order of their ids; -1 and -INFINITY where there are fewer. */
static void find_best(const float *x, int64_t n, int32_t *ids, float *best, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        ids[i] = -1;
        best[i] = -INFINITY;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t at = count - 1;
        if (!(x[i] > best[at])) continue;
        for (; at > 0 && x[i] > best[at - 1]; at--) {
            ids[at] = ids[at - 1];
            best[at] = best[at - 1];
        }
        ids[at] = (int32_t)i;
        best[at] = x[i];
    }
}

static float log_sum_exp(const float *x, int64_t n, float max)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += exp((double)x[i] - (double)max);
    return (float)((double)max + log(sum));
}

/* On rank 0. */
static lh_status take_logits(lh_trace *t, const float *x)
{
    lh_recorded_steps *s = &t->steps;
    const int64_t vocab = t->view.config->vocab, count = lh_trace_top_logits(vocab);
    int32_t ids[LH_TRACE_TOP];
    float best[LH_TRACE_TOP];
    find_best(x, vocab, ids, best, count);
    const float lse = log_sum_exp(x, vocab, best[0]);
    LH_TRY(lh_buf_append(&s->ids, ids, count * (int64_t)sizeof *ids));
    LH_TRY(lh_buf_append(&s->logits, best, count * (int64_t)sizeof *best));
    return lh_buf_append(&s->lse, &lse, sizeof lse);
}

lh_status lh_record_step(lh_trace *t, lh_session *session, int64_t tokens, double seconds)
{
    lh_recorded_steps *s = &t->steps;
    const float own = (float)seconds, *logits = NULL;
    int64_t rows = 0;
    s->rows_seen += tokens;
    s->count++;
    const int32_t last = (int32_t)(s->rows_seen - 1);
    LH_TRY(lh_session_logits(session, &logits, &rows));
    LH_TRY(lh_buf_append(&s->seconds, &own, sizeof own));
    if (!logits) return LH_OK;
    LH_TRY(lh_buf_append(&s->rows, &last, sizeof last));
    return take_logits(t, logits + (rows - 1) * t->view.config->vocab);
}

lh_status lh_record_steps(lh_trace *t, lh_segment *segment)
{
    lh_recorded_steps *s = &t->steps;
    const int64_t top = lh_trace_top_logits(t->view.config->vocab);
    const struct {
        lh_buf *from;
        lh_slab slab;
    } arrays[] = {{&s->rows, {.name = "/steps/rows", .shape = {LH_I32, 1, {s->count}}}},
                  {&s->ids, {.name = "/steps/top_ids", .shape = {LH_I32, 2, {s->count, top}}, .chunk = {0, top}}},
                  {&s->logits, {.name = "/steps/top_logits", .shape = {LH_F32, 2, {s->count, top}}, .chunk = {0, top}}},
                  {&s->lse, {.name = "/steps/lse", .shape = {LH_F32, 1, {s->count}}}}};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays && s->count; i++) {
        lh_slab slab = arrays[i].slab;
        slab.data = arrays[i].from->data;
        *arrays[i].from = (lh_buf){0};
        LH_TRY(lh_segment_add(segment, &slab));
    }
    return LH_OK;
}
