/* Attention that probe tokens give (policies/probes.h): the rows of a segment are counted, as they pass, into the
 * columns of the prompt that it scores: of the stretch that it repeats, or of all if it is a question.
 *
 * With '--output-norms' (KVzip+) a weight counts as what it adds to the row: the norm of the weighted value after the
 * output projection, over the norm of the row's hidden state. Norms of values differ from query head to query head, so
 * that every query head has columns of its own, which its norms weigh at the end of the layer. */
#include "evict/evict_impl.h"

typedef struct outputs_params {
    int on;
} outputs_params;

static int weighs_outputs(const lh_evictor *ev)
{
    return lh_uses_method(&ev->policy.methods, LH_METHOD_output_norms);
}

/* Columns of a KV head. */
static int64_t parts_of(const lh_evictor *ev)
{
    const lh_heads *h = &ev->shape.heads;
    return weighs_outputs(ev) ? h->group : lh_score_parts(&ev->policy, h);
}

/* The columns of the whole prompt, of this rank's KV heads. */
static lh_columns columns_of(const lh_evictor *ev)
{
    const lh_statistic *statistic = lh_methods[ev->policy.score.source]->statistic;
    const int64_t parts = parts_of(ev);
    const lh_slot_floats all = lh_slot_rows(ev->sums, parts, ev->prompt_tokens);
    if (statistic->column == LH_COLUMN_LARGEST) return (lh_columns){.largest = all, .parts = 1, .each_head = 1};
    return (lh_columns){.sums = all, .parts = parts};
}

static int64_t sums_bytes(const lh_evictor *ev)
{
    return ev->shape.heads.kv_count * parts_of(ev) * ev->prompt_tokens * (int64_t)sizeof(float);
}

static void begin(lh_evictor *ev, const lh_evict_job *job)
{
    (void)job;
    lh_exec_zero(&ev->exec, ev->sums, sums_bytes(ev));
}

/* The columns of a stretch, by slots of the segment's view. */
static lh_columns columns_at(const lh_evictor *ev, const lh_probe_rows *probes)
{
    lh_columns to = columns_of(ev);
    lh_slot_floats *used = to.largest.at ? &to.largest : &to.sums;
    used->at += probes->first - probes->slot;
    to.first = probes->slot;
    return to;
}

/* ---- weights as shares of the rows ---- */

/* Divides the weights of the rows by the norms of their hidden states. */
static void divide_by_hidden(lh_evictor *ev, const lh_query_rows *rows, lh_row_block *b)
{
    const lh_exec *x = &ev->exec;
    const int64_t n = rows->tokens, dim = ev->shape.hidden, count = n * b->lse_ld;
    float *hidden = lh_scratch_floats(ev, n * dim), *squares = lh_scratch_floats(ev, n),
          *lse = lh_scratch_floats(ev, count);
    LH_RUN(x, convert, .dst = hidden, .src = rows->hidden, .dst_type = LH_F32, .src_type = rows->hidden_type, .rows = n,
           .cols = dim, .dst_ld = dim, .src_ld = dim);
    LH_RUN(x, squares, .y = squares, .x = hidden, .tokens = n, .heads = 1, .dim = dim, .x_ld = dim, .y_ld = 1);
    lh_exec_copy(x, lse, b->rows.lse, count * (int64_t)sizeof *lse, LH_COPY_ON_DEVICE);
    LH_RUN(x, divide_rows, .lse = lse, .squares = squares, .rows = n, .heads = b->lse_ld);
    b->rows.lse = lse;
}

/* Counts the weights of each query head into the columns of that head. */
static void count_each_head(lh_evictor *ev, const lh_evict_job *job, const lh_row_block *b, const lh_columns *to)
{
    const lh_heads *h = &ev->shape.heads;
    for (int64_t i = 0; i < h->kv_count * h->group; i++) {
        const lh_ragged view = lh_one_head(job->entries, i / h->group);
        lh_slot_floats own = lh_slot_rows(to->largest.at + i * ev->prompt_tokens, 1, ev->prompt_tokens);
        lh_column_stats_args args = {
            .largest = own,
            .parts = 1,
            .each_head = 1,
            .lse = b->rows.lse + i,
            .first = to->first,
            .cols = job->cols - to->first,
            .rows = {.q = b->rows.q + i * ev->shape.head_dim, .kv = &view, .map = {.heads = 1, .group = 1}}};
        lh_run_column_stats(ev, job, b, &args);
    }
}

/* y [entries] = squares of the norms of `entries` values, from value `first` of a KV head on, after the output
 * projection w of a query head. */
typedef struct projected {
    float *y;
    int64_t head, first, entries;
    lh_matrix w;
} projected;

static void square_outputs(lh_evictor *ev, const lh_evict_job *job, const projected *p)
{
    const lh_exec *x = &ev->exec;
    const lh_ragged *kv = job->entries;
    const lh_dtype type = p->w.format->plain;
    const int64_t dim = kv->head_dim, n = p->entries, out = ev->shape.hidden, mark = lh_scratch_mark(x);
    void *values = lh_scratch_alloc(x, n * dim * (int64_t)sizeof(float));
    float *outputs = lh_scratch_floats(ev, n * out);
    LH_RUN(x, convert, .dst = values,
           .src = (const char *)kv->v + (job->offset[p->head] + p->first) * dim * lh_dtype_bytes(kv->type),
           .dst_type = type, .src_type = kv->type, .rows = n, .cols = dim, .dst_ld = dim, .src_ld = dim);
    LH_RUN(x, gemm, .y = outputs, .x = values, .w = p->w, .type = type, .tokens = n, .out = out, .in = dim, .y_ld = out,
           .x_ld = dim, .order = ev->shape.order);
    LH_RUN(x, squares, .y = p->y, .x = outputs, .tokens = n, .heads = 1, .dim = out, .x_ld = out, .y_ld = 1);
    lh_scratch_release(x, mark);
}

/* Of all entries and query heads of this rank: [q_count, prompt]. */
static float *project_values(lh_evictor *ev, const lh_evict_job *job)
{
    const lh_heads *h = &ev->shape.heads;
    const int64_t n = ev->prompt_tokens, dim = ev->shape.head_dim;
    float *y = lh_scratch_floats(ev, h->q_count * n);
    const lh_matrix w = lh_evict_plain_projection(&ev->exec, job->layer.projection, &ev->shape);
    const lh_dtype type = w.format->plain;
    for (int64_t i = 0; i < h->q_count; i++) {
        projected p = {.head = (h->q_first + i) / h->group - h->kv_first,
                       .w = lh_plain_matrix((const char *)w.data + i * dim * lh_dtype_bytes(type), type, w.ld)};
        for (p.first = 0; p.first < n; p.first += LH_ROWS_AT_ONCE) {
            p.y = y + i * n + p.first;
            p.entries = lh_min_i64(LH_ROWS_AT_ONCE, n - p.first);
            square_outputs(ev, job, &p);
        }
    }
    return y;
}

/* Collective where groups are split. */
static void score_outputs(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    const lh_heads *h = &ev->shape.heads;
    const int64_t n = ev->prompt_tokens;
    const float *squares = project_values(ev, job);
    if (h->split) {
        float *all = lh_scratch_floats(ev, h->heads * n);
        lh_exchange_heads(ev, squares, all, n * (int64_t)sizeof *all);
        squares = all + h->kv_first * h->group * n;
    }
    LH_RUN(&ev->exec, largest_outputs, .y = scores, .x = ev->sums, .squares = squares, .heads = h->kv_count,
           .group = h->group, .cols = n, .y_ld = ev->ld, .x_ld = n);
}

/* ---- the source ---- */

/* Collective where groups are split: every rank counts all columns of its KV heads. */
static void count(lh_evictor *ev, const lh_evict_job *job, const lh_query_rows *own, const lh_columns *to)
{
    const int64_t mark = lh_scratch_mark(&ev->exec);
    lh_query_rows rows = *own;
    if (ev->shape.heads.split) lh_copy_rows(ev, &rows);
    lh_row_block b = lh_join_rows(ev, job, &rows);
    if (weighs_outputs(ev)) {
        divide_by_hidden(ev, own, &b);
        count_each_head(ev, job, &b, to);
    } else {
        lh_count_columns(ev, job, &b, to);
    }
    lh_scratch_release(&ev->exec, mark);
}

static void count_probes(lh_evictor *ev, const lh_evict_job *of, const lh_probe_rows *probes)
{
    const lh_columns to = columns_at(ev, probes);
    lh_evict_job job = *of;
    job.cols = probes->slot + probes->count;
    for (int64_t at = 0; at < probes->queries.tokens; at += LH_ROWS_AT_ONCE) {
        lh_query_rows slice = lh_rows_from(ev, &probes->queries, at);
        if (probes->attends_more) slice.lse = NULL;
        count(ev, &job, &slice, &to);
    }
}

static void score(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    const lh_columns from = columns_of(ev);
    if (weighs_outputs(ev))
        score_outputs(ev, job, scores);
    else
        lh_finish_statistics(ev, job, &from, 0, scores);
}

const lh_source lh_source_probes = {
    .parts = lh_attention_parts, .sums_bytes = sums_bytes, .begin = begin, .probes = count_probes, .score = score};

/* ---- the option ---- */

static int is_on(const lh_policy *policy)
{
    const outputs_params *p = lh_params_of(&policy->methods, LH_METHOD_output_norms);
    return p->on;
}

static int takes_largest(const lh_policy *policy)
{
    return lh_scores_by_probes(&policy->score) && policy->score.source == LH_METHOD_max;
}

static const lh_part parts[] = {
    {LH_PART_SWITCH(output_norms, outputs_params, on), .after = "rows", .used = takes_largest,
     .needs = "'--statistic max' with '--rows-at repeat' or 'text:FILE'", .row.name = "output-norms",
     .row.help = "Multiply attention by the norm of the value after the output projection, "
                 "and divide it by the norm of the row's hidden state (KVzip+)."},
    {.row.name = NULL}};

const lh_method lh_method_output_norms = {
    .option = "--output-norms", .active = is_on, .parts = parts, .traits = LH_NEEDS_ENTRIES | LH_NORMALISERS};
