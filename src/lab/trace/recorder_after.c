/* recorder_after.c - records the rows of questions and answers, in segments of some rows of all layers. */
#include <math.h>
#include <string.h>

#include "base/minmax.h"
#include "lab/trace/recorder_impl.h"

enum { ROWS_AT_ONCE = 64 }; /* that wait before they are written */

void lh_recorded_after_clear(lh_recorded_after *a, int64_t layers)
{
    lh_buf *const arrays[] = {a->queries, a->outputs, a->lse, a->keys, a->values};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        for (int64_t l = 0; arrays[i] && l < layers; l++) lh_buf_clear(&arrays[i][l]);
        lh_free(arrays[i]);
    }
    lh_free(a->rows);
    lh_buf_clear(&a->positions);
    lh_buf_clear(&a->answers);
    lh_buf_clear(&a->tokens);
}

static lh_status open_after(lh_trace *t)
{
    lh_recorded_after *a = &t->after;
    lh_buf **const arrays[] = {&a->queries, &a->outputs, &a->lse, &a->keys, &a->values};
    if (a->rows) return LH_OK;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        LH_TRY(lh_calloc(arrays[i], t->shape.layers, sizeof **arrays[i]));
    return lh_calloc(&a->rows, t->shape.layers, sizeof *a->rows);
}

/* Rows of `width` numbers with stride ld, appended as `type`. */
typedef struct appended {
    const float *device;
    lh_buf *to;
    lh_dtype type;
    int64_t first, width, ld; /* first: of the numbers of a row */
} appended;

static lh_status append_rows(lh_trace *t, const lh_query_rows *rows, const appended *p)
{
    lh_status st = LH_OK;
    const float *x;
    char *row = NULL;
    int64_t bytes = p->width * lh_dtype_bytes(p->type);
    LH_TRY_DONE(lh_calloc(&row, p->width, lh_dtype_bytes(p->type)));
    LH_TRY_DONE(lh_record_fetch(t, p->device, rows, p->first + p->width, p->ld, &x));
    for (int64_t r = 0; r < rows->tokens; r++) {
        lh_dtype_convert(row, p->type, x + r * p->ld + p->first, LH_F32, p->width);
        LH_TRY_DONE(lh_buf_append(p->to, row, bytes));
    }
done:
    lh_free(row);
    return st;
}

lh_status lh_record_after(lh_trace *t, const lh_evict_job *job, const lh_kv_rows *k)
{
    const lh_query_rows *rows = &k->queries;
    const lh_heads *h = &t->shape.heads;
    lh_recorded_after *a = &t->after;
    int64_t l = job->layer.index, dim = t->shape.head_dim, width = h->q_count * dim,
            first = (h->counted_first - h->kv_first) * dim, counted = h->counted_count * dim;
    lh_dtype row = t->row_type, entry = t->shape.types.prompt;
    if (!lh_exec_ok(t->view.exec)) return LH_OK;
    LH_TRY(open_after(t));
    LH_TRY(append_rows(t, rows, &(appended){rows->q, &a->queries[l], row, 0, width, rows->q_ld}));
    LH_TRY(append_rows(t, rows, &(appended){k->outputs, &a->outputs[l], row, 0, width, width}));
    LH_TRY(append_rows(t, rows, &(appended){rows->lse, &a->lse[l], LH_F32, 0, h->q_count, h->q_count}));
    if (t->level->entries) {
        LH_TRY(append_rows(t, rows, &(appended){k->keys, &a->keys[l], entry, first, counted, rows->q_ld}));
        LH_TRY(append_rows(t, rows, &(appended){k->values, &a->values[l], entry, first, counted, rows->q_ld}));
    }
    a->rows[l] += rows->tokens;
    if (l == t->last_layer && a->rows[l] >= ROWS_AT_ONCE) LH_TRY(lh_record_flush(t));
    return LH_OK;
}

/* Takes the bytes of a buffer as the data of a slab. */
static lh_status add_waiting(lh_trace *t, lh_segment *segment, int64_t layer, const char *array, const lh_slab *slab,
                             lh_buf *from)
{
    lh_slab s = *slab;
    s.at[0] = t->after.written;
    s.data = from->data;
    *from = (lh_buf){0};
    return lh_record_slab(segment, layer, array, &s);
}

static lh_status add_layer(lh_trace *t, lh_segment *segment, int64_t l)
{
    const lh_heads *h = &t->shape.heads;
    lh_recorded_after *a = &t->after;
    int64_t n = a->rows[l], dim = t->shape.head_dim;
    const lh_slab rows = {.shape = {t->row_type, 3, {n, h->q_count, dim}},
                          .at = {0, h->q_first},
                          .chunk = {ROWS_AT_ONCE, 1, dim}},
                  lse = {.shape = {LH_F32, 2, {n, h->q_count}}, .at = {0, h->q_first}},
                  entries = {.shape = {t->shape.types.prompt, 3, {n, h->counted_count, dim}},
                             .at = {0, h->counted_first},
                             .chunk = {ROWS_AT_ONCE, 1, dim}};
    LH_TRY(add_waiting(t, segment, l, "decode/queries", &rows, &a->queries[l]));
    LH_TRY(add_waiting(t, segment, l, "decode/outputs", &rows, &a->outputs[l]));
    LH_TRY(add_waiting(t, segment, l, "decode/lse", &lse, &a->lse[l]));
    if (t->level->entries) {
        LH_TRY(add_waiting(t, segment, l, "decode/keys", &entries, &a->keys[l]));
        LH_TRY(add_waiting(t, segment, l, "decode/values", &entries, &a->values[l]));
    }
    return LH_OK;
}

lh_status lh_record_flush(lh_trace *t)
{
    lh_status st = LH_OK;
    lh_recorded_after *a = &t->after;
    lh_segment segment = {0};
    if (!a->rows || a->rows[t->last_layer] == 0) return LH_OK;
    lh_segment_name(segment.name, LH_SEGMENT_OF_ROWS, a->segments++, lh_comm_rank(t->view.comm));
    for (int64_t l = 0; l < t->shape.layers; l++)
        if (t->layers[l]) LH_TRY_DONE(add_layer(t, &segment, l));
    a->written += a->rows[t->last_layer];
    memset(a->rows, 0, (size_t)t->shape.layers * sizeof *a->rows);
    LH_TRY_DONE(lh_segment_writer_put(t->writer, &segment));
done:
    lh_segment_clear(&segment);
    return st;
}

lh_status lh_record_index(lh_trace *t, lh_segment *segment)
{
    lh_recorded_after *a = &t->after;
    struct {
        const char *name;
        lh_buf *from;
    } arrays[] = {
        {"/decode/positions", &a->positions}, {"/decode/answers", &a->answers}, {"/decode/tokens", &a->tokens}};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        int64_t n = arrays[i].from->bytes / (int64_t)sizeof(int32_t);
        lh_slab slab = {.shape = {LH_I32, 1, {n}}, .data = arrays[i].from->data};
        *arrays[i].from = (lh_buf){0};
        snprintf(slab.name, sizeof slab.name, "%s", arrays[i].name);
        if (n) LH_TRY(lh_segment_add(segment, &slab));
    }
    return LH_OK;
}

/* Steps after the prompt: a question, or a token of an answer. How long each took, and the best of the logits that it
 * ends with, with which next-token probabilities can be compared. */
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
