/* judge_head.c - attention of the reference rows of a KV head over the full cache: weights, which are computed once
 * for all policies, and outputs. */
#include <math.h>
#include <string.h>

#include "base/minmax.h"
#include "lab/replay/judge_impl.h"

lh_status lh_judged_head_open(lh_judged_head *w, const lh_replay *r)
{
    const lh_kv_shape *s = &r->trace.shape;
    const int64_t group = s->heads.group, rows = r->judges.n, n = group * rows, t = r->trace.prompt, d = s->head_dim,
                  m = r->judges.is_after ? r->trace.after_count : 0;
    *w = (lh_judged_head){.n = n, .rows = rows, .tokens = t, .dim = d, .hidden = s->hidden, .after = m};
    const struct {
        float **at;
        int64_t count;
    } arrays[] = {{&w->q, n * d},
                  {&w->keys, lh_max_i64(t, m) * d},
                  {&w->values, t * d},
                  {&w->weights, n * t},
                  {&w->later, n},
                  {&w->recent, n * m},
                  {&w->later_values, n * d},
                  {&w->after_values, m * d},
                  {&w->output, n * d},
                  {&w->output_l1, n},
                  {&w->delta, n * d},
                  {&w->mass, n},
                  {&w->lost, n},
                  {&w->projected_l1, n},
                  {&w->norms, group * t},
                  {&w->later_norm, n},
                  {&w->largest, group},
                  {&w->after_norms, group * m},
                  {&w->projected, lh_max_i64(rows, 512) * s->hidden},
                  {&w->columns, n * t},
                  {&w->columns_of_values, d * t},
                  {&w->class_output, LH_JUDGE_CLASSES * n * d},
                  {&w->class_mass, LH_JUDGE_CLASSES * n},
                  {&w->class_norm, LH_JUDGE_CLASSES * n},
                  {&w->kept_norm, n},
                  {&w->lost_norm, n}};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        LH_TRY(lh_calloc(arrays[i].at, arrays[i].count, sizeof(float)));
    LH_TRY(lh_calloc(&w->order, t, sizeof *w->order));
    LH_TRY(lh_calloc(&w->went, n * (t + m), sizeof *w->went));
    w->top_count = lh_min_i64(LH_STUDY_TOP, t);
    return lh_calloc(&w->top_at, n * w->top_count, sizeof *w->top_at);
}

void lh_judged_head_close(lh_judged_head *w)
{
    float *const arrays[] = {w->q,
                             w->keys,
                             w->values,
                             w->weights,
                             w->later,
                             w->recent,
                             w->later_values,
                             w->after_values,
                             w->output,
                             w->output_l1,
                             w->delta,
                             w->mass,
                             w->lost,
                             w->projected_l1,
                             w->norms,
                             w->later_norm,
                             w->largest,
                             w->after_norms,
                             w->projected,
                             w->columns,
                             w->columns_of_values,
                             w->class_output,
                             w->class_mass,
                             w->class_norm,
                             w->kept_norm,
                             w->lost_norm};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) lh_free(arrays[i]);
    lh_free(w->order);
    lh_free(w->went);
    lh_free(w->top_at);
}

void lh_judge_multiply(const lh_replay *r, const lh_judge_product *p)
{
    LH_RUN(&r->exec, gemm, .y = p->y, .x = p->x, .w = lh_plain_matrix(p->w, LH_F32, p->w_ld), .type = LH_F32,
           .tokens = p->tokens, .out = p->out, .in = p->in, .y_ld = p->y_ld, .x_ld = p->x_ld, .order = LH_ORDER_ANY);
}

/* ---- the full cache ---- */

static int32_t position_of(const lh_replay *r, int64_t row)
{
    const lh_replay_rows *j = &r->judges;
    return (j->is_after ? r->trace.after_positions : r->trace.rows)[j->at[row]];
}

static void gather_queries(lh_judged_head *w, const lh_replay *r, int64_t g)
{
    const lh_replay_rows *j = &r->judges;
    const lh_traced_rows *rows = j->is_after ? &r->layer.data.after : &r->layer.data.rows;
    const int64_t heads = r->trace.shape.heads.heads, group = r->trace.shape.heads.group;
    for (int64_t i = 0; i < group; i++)
        for (int64_t n = 0; n < w->rows; n++)
            memcpy(w->q + (i * w->rows + n) * w->dim, rows->queries + (j->at[n] * heads + g * group + i) * w->dim,
                   (size_t)w->dim * sizeof *w->q);
}

static float logit_of(const lh_kv_shape *s, float qk)
{
    const float x = qk * s->scale;
    return s->softcap > 0 ? s->softcap * tanhf(x / s->softcap) : x;
}

/* 1 where judge row n sees the prompt's entry j; and the entry of row m after the prompt. */
static int sees(const lh_replay *r, int64_t n, int64_t j)
{
    const int64_t p = position_of(r, n), window = r->trace.shape.window;
    return j <= p && (!lh_kv_slides(&r->trace.shape, r->layer.data.index) || j > p - window);
}

static int sees_later(const lh_replay *r, int64_t n, int64_t m)
{
    const lh_trace_file *t = &r->trace;
    return t->after_answers[m] == t->after_answers[r->judges.at[n]] && sees(r, n, t->after_positions[m]);
}

/* Logits become weights; together with the weights of the entries after the prompt they sum to 1. */
static void to_weights(lh_judged_head *w, const lh_replay *r)
{
    const lh_kv_shape *s = &r->trace.shape;
#pragma omp parallel for
    for (int64_t n = 0; n < w->n; n++) {
        float *a = w->weights + n * w->tokens, *b = w->recent + n * w->after, top = -INFINITY;
        const int64_t row = n % w->rows;
        double sum = 0, later = 0;
        for (int64_t j = 0; j < w->tokens; j++) {
            a[j] = sees(r, row, j) ? logit_of(s, a[j]) : -INFINITY;
            top = fmaxf(top, a[j]);
        }
        for (int64_t m = 0; m < w->after; m++) {
            b[m] = sees_later(r, row, m) ? logit_of(s, b[m]) : -INFINITY;
            top = fmaxf(top, b[m]);
        }
        for (int64_t j = 0; j < w->tokens; j++) sum += (double)(a[j] = expf(a[j] - top));
        for (int64_t m = 0; m < w->after; m++) later += (double)(b[m] = expf(b[m] - top));
        const float scale = (float)(1 / (sum + later));
        for (int64_t j = 0; j < w->tokens; j++) a[j] *= scale;
        for (int64_t m = 0; m < w->after; m++) b[m] *= scale;
        w->later[n] = (float)(later / (sum + later));
    }
}

/* One KV head of [count, heads, dim] rows after the prompt, as f32. */
static void fetch_after(const lh_judged_head *w, const lh_replay *r, int64_t g, const void *from, float *to)
{
    const int64_t heads = r->trace.shape.heads.kv_heads, size = lh_dtype_bytes(r->trace.shape.types.prompt);
    for (int64_t m = 0; m < w->after; m++)
        lh_dtype_convert(to + m * w->dim, LH_F32, (const char *)from + (m * heads + g) * w->dim * size,
                         r->trace.shape.types.prompt, w->dim);
}

static void fetch_prompt(const lh_judged_head *w, const lh_replay *r, int64_t g, const void *from, float *to)
{
    const int64_t size = lh_dtype_bytes(r->trace.shape.types.prompt), n = w->tokens * w->dim;
    lh_dtype_convert(to, LH_F32, (const char *)from + g * n * size, r->trace.shape.types.prompt, n);
}

static void weigh(lh_judged_head *w, const lh_replay *r, int64_t g)
{
    const lh_trace_layer *l = &r->layer.data;
    gather_queries(w, r, g);
    if (w->after) {
        fetch_after(w, r, g, l->after_keys, w->keys);
        lh_judge_multiply(
            r, &(lh_judge_product){w->recent, w->q, w->keys, w->n, w->after, w->dim, w->after, w->dim, w->dim});
        fetch_after(w, r, g, l->after_values, w->after_values);
    }
    fetch_prompt(w, r, g, l->keys, w->keys);
    lh_judge_multiply(
        r, &(lh_judge_product){w->weights, w->q, w->keys, w->n, w->tokens, w->dim, w->tokens, w->dim, w->dim});
    fetch_prompt(w, r, g, l->values, w->values);
    to_weights(w, r);
}

/* Weighted values of the entries after the prompt, and the output of the full cache. */
static void output(lh_judged_head *w, const lh_replay *r)
{
#pragma omp parallel for
    for (int64_t n = 0; n < w->n; n++) {
        float *o = w->later_values + n * w->dim;
        memset(o, 0, (size_t)w->dim * sizeof *o);
        for (int64_t m = 0; m < w->after; m++)
            for (int64_t x = 0; x < w->dim; x++) o[x] += w->recent[n * w->after + m] * w->after_values[m * w->dim + x];
    }
    for (int64_t j = 0; j < w->tokens; j++)
        for (int64_t x = 0; x < w->dim; x++) w->columns_of_values[x * w->tokens + j] = w->values[j * w->dim + x];
    lh_judge_multiply(r, &(lh_judge_product){w->output, w->weights, w->columns_of_values, w->n, w->dim, w->tokens,
                                             w->dim, w->tokens, w->tokens});
    for (int64_t i = 0; i < w->n * w->dim; i++) w->output[i] += w->later_values[i];
}

/* The columns of the output projection of query head i of the group, [hidden, dim] with r->layer.projection.w.ld. */
const float *lh_judge_projection(const lh_replay *r, int64_t g, int64_t i)
{
    const lh_kv_shape *s = &r->trace.shape;
    return r->layer.projection_f32 + (g * s->heads.group + i) * s->head_dim;
}

/* L1 norms of projected values: of `count` values into norms. */
void lh_judge_norms(lh_judged_head *w, const lh_replay *r, const float *wo, const float *values, int64_t count,
                    float *norms)
{
    for (int64_t at = 0; at < count; at += 512) {
        const int64_t n = lh_min_i64(512, count - at);
        lh_judge_multiply(r, &(lh_judge_product){w->projected, values + at * w->dim, wo, n, w->hidden, w->dim,
                                                 w->hidden, w->dim, r->layer.projection.w.ld});
#pragma omp parallel for
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t x = 0; x < w->hidden; x++) sum += fabs((double)w->projected[j * w->hidden + x]);
            norms[at + j] = (float)sum;
        }
    }
}

static void measure_norms(lh_judged_head *w, const lh_replay *r, int64_t g)
{
    for (int64_t i = 0; i < r->trace.shape.heads.group; i++) {
        float largest = 0;
        lh_judge_norms(w, r, lh_judge_projection(r, g, i), w->values, w->tokens, w->norms + i * w->tokens);
        lh_judge_norms(w, r, lh_judge_projection(r, g, i), w->after_values, w->after, w->after_norms + i * w->after);
        lh_judge_norms(w, r, lh_judge_projection(r, g, i), w->output + i * w->rows * w->dim, w->rows,
                       w->output_l1 + i * w->rows);
        for (int64_t j = 0; j < w->tokens; j++) largest = fmaxf(largest, w->norms[i * w->tokens + j]);
        for (int64_t m = 0; m < w->after; m++) largest = fmaxf(largest, w->after_norms[i * w->after + m]);
        w->largest[i] = largest;
        for (int64_t n = i * w->rows; n < (i + 1) * w->rows; n++) {
            double sum = 0;
            for (int64_t m = 0; m < w->after; m++)
                sum += (double)w->recent[n * w->after + m] * (double)w->after_norms[i * w->after + m];
            w->later_norm[n] = (float)sum;
        }
    }
}

/* The entries that each row attends to most: a heap of them, the least on top. */
static void sift(const float *a, int32_t *heap, int64_t n)
{
    for (int64_t i = 0, child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && a[heap[child + 1]] < a[heap[child]]) child++;
        if (a[heap[i]] <= a[heap[child]]) return;
        const int32_t swap = heap[i];
        heap[i] = heap[child];
        heap[child] = swap;
    }
}

static void find_top(lh_judged_head *w)
{
#pragma omp parallel for
    for (int64_t n = 0; n < w->n; n++) {
        const float *a = w->weights + n * w->tokens;
        int32_t *heap = w->top_at + n * w->top_count;
        for (int64_t j = 0; j < w->top_count; j++) {
            int64_t at = j; /* sift up */
            heap[at] = (int32_t)j;
            for (int64_t parent; at && a[heap[at]] < a[heap[parent = (at - 1) / 2]]; at = parent) {
                const int32_t swap = heap[at];
                heap[at] = heap[parent];
                heap[parent] = swap;
            }
        }
        for (int64_t j = w->top_count; j < w->tokens; j++)
            if (a[j] > a[heap[0]]) {
                heap[0] = (int32_t)j;
                sift(a, heap, w->top_count);
            }
    }
}

void lh_judged_head_weigh(lh_judged_head *w, const lh_replay *r, int64_t g)
{
    weigh(w, r, g);
    output(w, r);
    if (r->layer.projection_f32) measure_norms(w, r, g);
    find_top(w);
}

/* Entries that a policy evicts after the prompt: a row that comes later does not see them, though they were kept at the
 * prompt's end. They change sides, one by one: few go at each step. */
/* An entry, as row n sees it. */
typedef struct entry {
    float weight, norm;
    const float *value;
} entry;

static entry entry_at(const lh_judged_head *w, int64_t n, int64_t at)
{
    const int64_t i = n / w->rows, m = at - w->tokens;
    if (at < w->tokens)
        return (entry){w->weights[n * w->tokens + at], w->norms[i * w->tokens + at], w->values + at * w->dim};
    return (entry){w->recent[n * w->after + m], w->after_norms[i * w->after + m], w->after_values + m * w->dim};
}

static lh_rerun_drops drops_of(const lh_judged_head *w, const lh_replay *r, const lh_judge_cell *c, int64_t n)
{
    const lh_rerun *x = &r->cells[c->cell].rerun;
    if (!x->answers) return (lh_rerun_drops){0};
    return lh_rerun_drops_of(x, r->judges.answer[n % w->rows], r->layer.data.index, c->head);
}

/* 1 where row n comes after the entry has gone. */
static int is_gone(const lh_judged_head *w, const lh_replay *r, const lh_drop *d, int64_t n)
{
    return d->row <= r->judges.at[n % w->rows];
}

static void add(const lh_judged_head *w, const entry *e, float sign, lh_judge_share *sum, float *values)
{
    sum->mass += (double)e->weight;
    sum->norm += (double)e->weight * (double)e->norm;
    for (int64_t x = 0; x < w->dim && values; x++) values[x] += sign * e->weight * e->value[x];
}

lh_judge_share lh_judge_evicted(const lh_judged_head *w, const lh_replay *r, const lh_judge_cell *c, int64_t n,
                                float *values)
{
    const lh_rerun_drops drops = drops_of(w, r, c, n);
    lh_judge_share sum = {0};
    for (int64_t i = 0; i < drops.count; i++) {
        if (!is_gone(w, r, &drops.at[i], n)) continue;
        const entry e = entry_at(w, n, drops.at[i].entry);
        add(w, &e, -1, &sum, values);
    }
    return sum;
}

lh_judge_share lh_judge_kept(const lh_judged_head *w, const lh_replay *r, const lh_judge_cell *c, int64_t n,
                             float *values)
{
    const lh_rerun_drops drops = drops_of(w, r, c, n);
    const lh_rerun_kept kept = lh_rerun_kept_of(&r->cells[c->cell].rerun, r->layer.data.index, c->head);
    uint8_t *went = w->went + n * (w->tokens + w->after);
    lh_judge_share sum = {0};
    memset(went, 0, (size_t)(w->tokens + w->after));
    for (int64_t i = 0; i < drops.count; i++) went[drops.at[i].entry] = (uint8_t)is_gone(w, r, &drops.at[i], n);
    for (int64_t k = 0; k < kept.count + w->after; k++) {
        const int64_t at = k < kept.count ? kept.positions[k] : w->tokens + k - kept.count;
        const entry e = entry_at(w, n, at);
        if (!went[at]) add(w, &e, 1, &sum, values);
    }
    return sum;
}

int64_t lh_judge_evicted_hits(const lh_judged_head *w, const lh_replay *r, const lh_judge_cell *c, int64_t n)
{
    const lh_rerun_drops drops = drops_of(w, r, c, n);
    const int32_t *top = w->top_at + n * w->top_count;
    int64_t hits = 0;
    for (int64_t i = 0; i < drops.count; i++)
        for (int64_t j = 0; is_gone(w, r, &drops.at[i], n) && j < w->top_count; j++)
            hits += top[j] == drops.at[i].entry;
    return hits;
}
