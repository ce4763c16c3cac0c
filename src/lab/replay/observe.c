/* observe.c - observation of a recorded layer for a policy, by the same calls as in a run: query rows in the same
 * slices, so that the statistics are the same bits; or statistics from the trace. */
#include <string.h>

#include "base/minmax.h"
#include "evict/evict.h"
#include "lab/replay/replay_impl.h"

lh_status lh_replay_watch_open(lh_replay_watch *w, const lh_replay *r, const lh_policy *policy, int64_t number)
{
    const lh_kv_shape *s = &r->trace.shape;
    const lh_evict_shape shape = {.heads = s->heads,
                                  .head_dim = s->head_dim,
                                  .hidden = s->hidden,
                                  .scale = s->scale,
                                  .softcap = s->softcap,
                                  .layers = s->layers,
                                  .order = s->order};
    lh_policy_numbers numbers = lh_policy_fix(policy, r->trace.prompt);
    const int64_t stats = lh_entry_stats_of(&numbers, &s->heads).count;
    *w = (lh_replay_watch){.policy = number, .counted.position = -1};
    LH_TRY(lh_evictor_open(
        &w->evictor, &r->exec, &shape,
        lh_profiles_find(&r->request.policies->profiles, LH_PROFILE_OF_HEADS, policy->budgets.head_profile)));
    lh_evictor_seed(w->evictor, r->trace.seed);
    if (stats) LH_TRY(lh_calloc(&w->stats, s->heads.kv_heads * r->trace.prompt * stats, sizeof *w->stats));
    return LH_OK;
}

static void clear_rows(lh_gathered_rows *g)
{
    lh_free(g->q);
    lh_free(g->lse);
    lh_free(g->positions);
}

void lh_replay_watch_close(lh_replay_watch *w, const lh_replay *r)
{
    lh_counted_rows_free(&w->counted, r->device);
    lh_evictor_close(w->evictor);
    lh_free(w->stats);
    clear_rows(&w->rows);
    clear_rows(&w->references);
    *w = (lh_replay_watch){0};
}

/* ---- rows ---- */

static int64_t q_width(const lh_replay *r)
{
    return r->trace.shape.heads.heads * r->trace.shape.head_dim;
}

static lh_status make_room(lh_gathered_rows *g, const lh_replay *r, int64_t rows)
{
    LH_TRY(lh_realloc(&g->q, rows * q_width(r), sizeof *g->q));
    LH_TRY(lh_realloc(&g->lse, rows * r->trace.shape.heads.heads, sizeof *g->lse));
    LH_TRY(lh_realloc(&g->positions, rows, sizeof *g->positions));
    g->rows = rows;
    return LH_OK;
}

static void copy_row(lh_gathered_rows *g, const lh_replay *r, int64_t to, const lh_traced_rows *rows, int64_t from)
{
    const int64_t heads = r->trace.shape.heads.heads;
    memcpy(g->q + to * q_width(r), rows->queries + from * q_width(r), (size_t)q_width(r) * sizeof *g->q);
    memcpy(g->lse + to * heads, rows->lse + from * heads, (size_t)heads * sizeof *g->lse);
}

/* The rows of the window, or proxies, in the order in which a run has them. */
static lh_status gather_window(lh_replay_watch *w, const lh_replay *r, const lh_policy_numbers *n)
{
    const lh_trace_file *t = &r->trace;
    lh_gathered_rows *g = &w->rows;
    LH_TRY(make_room(g, r, lh_policy_rows(n, t->prompt)));
    for (int64_t i = 0; i < g->rows; i++) {
        g->positions[i] = (int32_t)lh_policy_row_at(n, t->prompt, i);
        copy_row(g, r, i, &r->layer.data.rows, lh_trace_row_at(t, lh_policy_row_of(n, t->prompt, i)));
    }
    return LH_OK;
}

static lh_status gather_references(lh_replay_watch *w, const lh_replay *r, const lh_policy_numbers *n)
{
    const lh_trace_file *t = &r->trace;
    lh_gathered_rows *g = &w->references;
    LH_TRY(make_room(g, r, lh_policy_references(n, t->prompt)));
    for (int64_t i = 0; i < g->rows; i++) {
        g->positions[i] = (int32_t)lh_policy_reference_at(n, t->prompt, i);
        copy_row(g, r, i, &r->layer.data.rows, lh_trace_row_at(t, lh_policy_reference_of(n, t->prompt, i)));
    }
    return LH_OK;
}

/* The oracle's: those that judge. */
static lh_status gather_judges(lh_replay_watch *w, const lh_replay *r)
{
    const lh_replay_rows *j = &r->judges;
    LH_TRY(make_room(&w->rows, r, j->n));
    for (int64_t i = 0; i < j->n; i++) {
        w->rows.positions[i] = (j->is_after ? r->trace.after_positions : r->trace.rows)[j->at[i]];
        copy_row(&w->rows, r, i, j->is_after ? &r->layer.data.after : &r->layer.data.rows, j->at[i]);
    }
    return LH_OK;
}

static lh_query_rows gathered(const lh_gathered_rows *g, const lh_replay *r, const lh_policy_numbers *n)
{
    return (lh_query_rows){.q = g->q,
                           .lse = g->lse,
                           .positions = g->positions,
                           .first = r->trace.prompt - g->rows,
                           .tokens = g->rows,
                           .first_rows = n->first_rows,
                           .q_ld = q_width(r)};
}

/* The recorded rows that end the prompt pass, in the chunks of the run. */
static void pass_rows(lh_replay_watch *w, lh_replay *r, const lh_evict_job *job)
{
    const lh_trace_file *t = &r->trace;
    const int64_t chunk = t->chunk ? t->chunk : t->prompt, first = t->prompt - t->window;
    for (int64_t at = 0, end; at < t->prompt; at = end) {
        end = lh_min_i64(at + chunk, t->prompt);
        const int64_t from = lh_max_i64(at, first), row = t->row_count - (t->prompt - from);
        if (from >= end) continue;
        lh_evict_rows(w->evictor, job,
                      &(lh_query_rows){.q = r->layer.data.rows.queries + row * q_width(r),
                                       .lse = r->layer.data.rows.lse + row * t->shape.heads.heads,
                                       .positions = t->rows + row,
                                       .first = from,
                                       .tokens = end - from,
                                       .q_ld = q_width(r)});
    }
}

/* ---- statistics ---- */

static void put_stat(lh_replay_watch *w, const lh_replay *r, int64_t index, const float *values)
{
    const int64_t count = lh_entry_stats_of(&w->numbers, &r->trace.shape.heads).count,
                  n = r->trace.shape.heads.kv_heads * r->trace.prompt;
    for (int64_t i = 0; i < n && index >= 0; i++) w->stats[i * count + index] = values[i];
}

/* Counted by the trace itself. */
static int use_columns(lh_replay_watch *w, const lh_replay *r, const lh_policy_numbers *n)
{
    const lh_trace_layer *l = &r->layer.data;
    const lh_entry_stats at = lh_entry_stats_of(n, &r->trace.shape.heads);
    if (!lh_replay_columns_serve(r, n)) return 0;
    put_stat(w, r, at.sums, l->sums);
    put_stat(w, r, at.squares, l->squares);
    put_stat(w, r, at.counts, l->counts);
    return 1;
}

/* True if the observation for the last budget is valid for this one. */
static int still_holds(const lh_replay_watch *w, const lh_policy_numbers *n)
{
    return w->observed && !lh_methods_have(&n->methods, LH_ALTERS_ROWS) && w->numbers.rows == n->rows &&
           w->numbers.first_rows == n->first_rows;
}

/* What all rows give, or are expected to give. */
static void take_passing(lh_replay_watch *w, lh_replay *r, const lh_policy_numbers *n, lh_replay_job *j)
{
    if (still_holds(w, n)) return;
    if (!use_columns(w, r, n)) {
        lh_evict_begin_layer(w->evictor, &j->job);
        pass_rows(w, r, &j->job);
    }
    lh_evict_end_layer(w->evictor, &j->job);
}

/* Rows of a window, spread rows or proxies, which score or are references. */
static lh_status take_rows(lh_replay_watch *w, lh_replay *r, const lh_policy_numbers *n, lh_replay_job *j)
{
    if (!still_holds(w, n)) {
        LH_TRY(lh_replay_is_oracle(r, w->policy) ? gather_judges(w, r) : gather_window(w, r, n));
        LH_TRY(gather_references(w, r, n));
        j->rows = gathered(&w->rows, r, n);
        if (lh_counted_rows_suffice(n)) {
            lh_counted_rows_reserve(&w->counted, w->evictor);
            lh_counted_rows_take(&w->counted, w->evictor, &j->job, &j->rows);
        }
    }
    j->rows = gathered(&w->rows, r, n);
    j->references = gathered(&w->references, r, n);
    j->job.references = &j->references;
    if (lh_counted_rows_suffice(n))
        j->job.counted = &w->counted;
    else
        j->job.rows = &j->rows;
    return LH_OK;
}

lh_status lh_replay_observe(lh_replay_watch *w, lh_replay *r, const lh_policy_numbers *n, lh_replay_job *j)
{
    const lh_trace_file *t = &r->trace;
    const lh_entry_stats at = lh_entry_stats_of(n, &t->shape.heads);
    const int passing = n->score.running || lh_methods_have(&n->methods, LH_PROMPT_ROWS);
    j->view = r->layer.view;
    j->view.stats = w->stats;
    j->view.stat_count = at.count;
    j->job.entries = &j->view;
    j->job.normless = &w->normless;
    if (!still_holds(w, n)) {
        if (w->stats) memset(w->stats, 0, (size_t)(t->shape.heads.kv_heads * t->prompt * at.count) * sizeof *w->stats);
        w->normless = t->prompt;
        w->numbers = *n;
        if (lh_methods_have(&n->methods, LH_NEEDS_PROJECTION) && at.priors < 0 && r->layer.data.projected) {
            put_stat(w, r, at.norms, r->layer.data.projected);
            w->normless = 0;
        }
        w->observed = 0;
    }
    if (passing && j->job.scored) take_passing(w, r, n, j);
    if (!n->score.running && lh_policy_rows(n, t->prompt) > 0 && j->job.scored) LH_TRY(take_rows(w, r, n, j));
    w->numbers = *n;
    w->observed = j->job.scored; /* where all that may stay is protected, nothing was looked at */
    return lh_exec_take(&r->exec);
}

/* For analyses: what recorded rows of the prompt give to the entries of the layer in work, by the same operations as
 * when a policy observes them. */
int64_t lh_layer_observable(const lh_layer_facts *l)
{
    return l->replay->trace.window;
}

static lh_status observe(const lh_replay *r, const lh_observed *rows, const float *lse, float *sums)
{
    const int64_t heads = r->trace.shape.heads.heads;
    LH_RUN(&r->exec, column_stats, .sums = {.at = sums, .ld = r->trace.prompt, .step = 1}, .rows = *rows, .lse = lse,
           .lse_ld = heads, .parts = 1, .cols = r->trace.prompt);
    return lh_exec_take(&r->exec);
}

/* Rows with a gain have a separate softmax denominator. */
static lh_status observe_with_gain(const lh_replay *r, lh_observed *rows, int64_t kept, float *sums)
{
    lh_status st = LH_OK;
    float *gains = NULL, *lse = NULL;
    LH_TRY_DONE(lh_calloc(&gains, rows->rows, sizeof *gains));
    LH_TRY_DONE(lh_calloc(&lse, rows->rows * rows->map.heads, sizeof *lse));
    for (int64_t i = 0; i < rows->rows; i++) gains[i] = lh_step_gain(rows->positions[i] + 1, kept);
    rows->gains = gains;
    LH_RUN(&r->exec, row_lse, .lse = lse, .rows = *rows);
    LH_TRY_DONE(observe(r, rows, lse, sums));
done:
    lh_free(gains);
    lh_free(lse);
    return st;
}

lh_status lh_layer_observe(const lh_layer_facts *l, const lh_observed_rows *of, float *sums)
{
    const lh_replay *r = l->replay;
    const lh_kv_shape *s = &r->trace.shape;
    const int64_t heads = s->heads.heads, width = heads * s->head_dim,
                  first = r->trace.row_count - (r->trace.prompt - of->first);
    lh_observed rows = {.q = l->recorded->rows.queries + first * width,
                        .positions = r->trace.rows + first,
                        .kv = &r->layer.view,
                        .map = {.heads = heads, .group = s->heads.group},
                        .logit = {.scale = s->scale, .softcap = s->softcap, .window = l->window},
                        .rows = of->end - of->first,
                        .q_ld = width};
    return of->kept ? observe_with_gain(r, &rows, of->kept, sums)
                    : observe(r, &rows, l->recorded->rows.lse + first * heads, sums);
}

/* ---- the current layer, read from the trace ---- */
void lh_replay_layer_clear(lh_replay_layer *l)
{
    lh_trace_layer_clear(&l->data);
    lh_free(l->offset);
    lh_free(l->len);
    lh_free(l->kept);
    lh_free(l->given);
    lh_free(l->projection_f32);
    *l = (lh_replay_layer){0};
}

static lh_status fetch_projection(lh_replay *r)
{
    const lh_kv_shape *s = &r->trace.shape;
    lh_replay_layer *l = &r->layer;
    const int64_t ld = s->heads.heads * s->head_dim, n = s->hidden * ld;
    if (!l->data.projection) return LH_OK;
    l->projection = (lh_projection){.w = lh_plain_matrix(l->data.projection, l->data.projection_type, ld)};
    LH_TRY(lh_calloc(&l->projection_f32, n, sizeof *l->projection_f32));
    lh_dtype_convert(l->projection_f32, LH_F32, l->data.projection, l->data.projection_type, n);
    return LH_OK;
}

/* Reads a layer; its entries are a cache in which every head holds the whole prompt. */
lh_status lh_replay_open_layer(lh_replay *r, int64_t layer)
{
    const lh_kv_shape *s = &r->trace.shape;
    lh_replay_layer *l = &r->layer;
    const int64_t heads = s->heads.kv_heads;
    lh_replay_layer_clear(l);
    LH_TRY(lh_trace_layer_read(&l->data, &r->trace, layer));
    LH_TRY(lh_calloc(&l->offset, heads, sizeof *l->offset));
    LH_TRY(lh_calloc(&l->len, heads, sizeof *l->len));
    LH_TRY(lh_calloc(&l->kept, r->study.policy_count * heads * r->trace.prompt, sizeof *l->kept));
    LH_TRY(lh_calloc(&l->given, r->study.policy_count, sizeof *l->given));
    for (int64_t g = 0; g < heads; g++) {
        l->offset[g] = g * r->trace.prompt;
        l->len[g] = r->trace.prompt;
    }
    l->view = (lh_ragged){.k = l->data.keys,
                          .v = l->data.values,
                          .type = s->types.prompt,
                          .offset = l->offset,
                          .len = l->len,
                          .heads = heads,
                          .head_dim = s->head_dim};
    if (l->data.frequencies)
        l->rotation = (lh_rotation){.inv_freq = l->data.frequencies,
                                    .rotary = l->data.rotary,
                                    .scale = l->data.rotation_scale,
                                    .queries = l->data.query_scaling};
    return fetch_projection(r);
}

int lh_replay_columns_serve(const lh_replay *r, const lh_policy_numbers *n)
{
    return n->score.running && !lh_methods_have(&n->methods, LH_ALTERS_ROWS) && r->trace.column_rows > 0 &&
           lh_policy_rows(n, r->trace.prompt) == r->trace.column_rows &&
           lh_entry_stats_of(n, &r->trace.shape.heads).parts == 1;
}

void lh_replay_step(lh_replay *r)
{
    const lh_replay_request *q = &r->request;
    r->progress.done++;
    if (q->progress)
        q->progress(q->self, r->progress.done, lh_max_i64(r->progress.each * q->trace_count, r->progress.done));
}

int lh_replay_is_oracle(const lh_replay *r, int64_t policy)
{
    return policy >= r->study.oracle;
}

/* The policy of a replay: recorded entries are evaluated without a fit. */
lh_policy lh_replay_policy(const lh_policy *policy)
{
    lh_policy replayed = *policy;
    lh_policy_drop_method(&replayed, LH_METHOD_fit);
    return replayed;
}
