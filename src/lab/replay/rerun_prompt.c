/* rerun_prompt.c - the prompt of a rerun: recorded entries and rows go through a layer in the chunks of the run, and
 * all caches of the group evict it. */
#include "base/minmax.h"
#include "lab/replay/replay_impl.h"

static const lh_policy *policy_of(const lh_rerun_group *g, int64_t i)
{
    return g->replay->cells[g->cells[i]].policy;
}

static lh_status open_caches(lh_rerun_group *g)
{
    lh_replay *r = g->replay;
    lh_kv_shape shape = r->trace.shape;
    shape.projections = g->projections;
    shape.rotations = g->rotations;
    shape.profiles = &r->request.policies->profiles;
    LH_TRY(lh_calloc(&g->caches, g->n, sizeof *g->caches));
    for (int64_t i = 0; i < g->n; i++) {
        LH_TRY(lh_kv_open(&g->caches[i], &r->exec, &shape, policy_of(g, i)));
        lh_kv_seed(g->caches[i], r->trace.seed);
        if (i) LH_TRY(lh_kv_follow(g->caches[i], g->caches[0]));
    }
    return LH_OK;
}

lh_status lh_rerun_open(lh_rerun_group *g)
{
    const lh_trace_file *t = &g->replay->trace;
    const lh_heads *h = &t->shape.heads;
    lh_trace_answer_rows rows = {0};
    for (; lh_trace_next_answer(t, &rows); g->answers++) g->longest = lh_max_i64(g->longest, rows.end - rows.first);
    g->chunk = t->chunk ? lh_min_i64(t->chunk, lh_max_i64(t->prompt, g->longest)) : t->prompt;
    if (t->prompt + t->after_count > INT32_MAX)
        LH_FAIL(LH_EFILE, "'%s' has %lld tokens and %lld rows after them, more than can be numbered", lh_h5_path(t->h5),
                (long long)t->prompt, (long long)t->after_count);
    const int64_t q = g->chunk * h->heads, kv = g->chunk * h->kv_heads, dim = t->shape.head_dim, l = t->shape.layers;
    LH_TRY(lh_calloc(&g->layers, l, sizeof *g->layers));
    LH_TRY(lh_calloc(&g->projections, l, sizeof *g->projections));
    LH_TRY(lh_calloc(&g->rotations, l, sizeof *g->rotations));
    LH_TRY(lh_calloc(&g->k, kv * dim, sizeof *g->k));
    LH_TRY(lh_calloc(&g->v, kv * dim, sizeof *g->v));
    LH_TRY(lh_calloc(&g->outputs, q * dim, sizeof *g->outputs));
    LH_TRY(lh_calloc(&g->lse, q, sizeof *g->lse));
    LH_TRY(lh_calloc(&g->positions, g->chunk, sizeof *g->positions));
    LH_TRY(lh_calloc(&g->marks, l * h->kv_heads, (t->prompt + g->longest) * (int64_t)sizeof *g->marks));
    return open_caches(g);
}

void lh_rerun_close(lh_rerun_group *g)
{
    for (int64_t i = g->caches ? g->n - 1 : -1; i >= 0; i--) lh_kv_close(g->caches[i]);
    for (int64_t l = 0; g->layers && l < g->replay->trace.shape.layers; l++) lh_trace_layer_clear(&g->layers[l]);
    lh_free(g->caches);
    lh_free(g->layers);
    lh_free(g->projections);
    lh_free(g->rotations);
    lh_free(g->k);
    lh_free(g->v);
    lh_free(g->outputs);
    lh_free(g->lse);
    lh_free(g->positions);
    lh_free(g->marks);
}

void lh_rerun_append(lh_rerun_group *g, const lh_rerun_entries *e, int64_t position, lh_ragged *view)
{
    const lh_kv_shape *s = &g->replay->trace.shape;
    const int64_t heads = s->heads.kv_heads, dim = s->head_dim, bytes = dim * lh_dtype_bytes(s->types.prompt);
    for (int64_t t = 0; t < e->tokens; t++) {
        g->positions[t] = (int32_t)(position + t);
        for (int64_t h = 0; h < heads; h++) {
            const int64_t from = e->by_token ? (e->first + t) * heads + h : h * e->all + e->first + t,
                          to = (t * heads + h) * dim;
            lh_dtype_convert(g->k + to, LH_F32, (const char *)e->keys + from * bytes, s->types.prompt, dim);
            lh_dtype_convert(g->v + to, LH_F32, (const char *)e->values + from * bytes, s->types.prompt, dim);
        }
    }
    LH_RUN(&g->replay->exec, append, .seqs = view, .batch = 1, .tokens = e->tokens, .ld = heads * dim, .k = g->k,
           .v = g->v, .positions = g->positions);
}

/* Recorded rows [at, at + tokens), which follow each other in the prompt. */
static void record(lh_rerun_group *g, int64_t layer, int64_t at, int64_t tokens)
{
    const lh_trace_file *t = &g->replay->trace;
    const lh_traced_rows *rows = &g->layers[layer].rows;
    const int64_t width = t->shape.heads.heads * t->shape.head_dim;
    lh_kv_record(g->caches[0], layer,
                 &(lh_kv_rows){.queries = {.q = rows->queries + at * width,
                                           .lse = rows->lse + at * t->shape.heads.heads,
                                           .positions = t->rows + at,
                                           .first = t->rows[at],
                                           .tokens = tokens,
                                           .q_ld = width}});
}

/* Of tokens [from, end) those rows that were recorded: spread over the prompt, and all at its end. */
static void record_rows(lh_rerun_group *g, int64_t layer, int64_t from, int64_t end)
{
    const lh_trace_file *t = &g->replay->trace;
    const int64_t last = t->prompt - t->window, first = lh_max_i64(from, last);
    for (int64_t i = 0; i < t->row_count - t->window; i++)
        if (t->rows[i] >= from && t->rows[i] < end) record(g, layer, i, 1);
    if (first < end) record(g, layer, t->row_count - (t->prompt - first), end - first);
}

/* True if the recorded statistics are all that the policy observes. */
static int columns_serve(const lh_rerun_group *g)
{
    const lh_policy_numbers n =
        lh_policy_fix(policy_of(g, 0), g->replay->trace.prompt); /* the same for all policies of the group */
    return lh_replay_columns_serve(g->replay, &n);
}

/* 1 where output projections are asked for. */
static int uses_projections(const lh_rerun_group *g)
{
    for (int64_t i = 0; i < g->n; i++) {
        const lh_policy_numbers n = lh_policy_fix(policy_of(g, i), g->replay->trace.prompt);
        if (lh_entry_stats_of(&n, &g->replay->trace.shape.heads).norms >= 0) return 1;
    }
    return 0;
}

static void put_columns(lh_rerun_group *g, int64_t layer)
{
    const lh_trace_layer *l = &g->layers[layer];
    for (int64_t i = 0; i < g->n; i++)
        lh_kv_put_columns(g->caches[i], layer, &(lh_kv_columns){l->sums, l->squares, l->counts});
}

/* Frees the arrays that only the layer's prefill needs; projections also weigh later entries. */
static void drop_prompt(const lh_rerun_group *g, lh_trace_layer *l)
{
    void **const arrays[] = {
        (void **)&l->rows.queries, (void **)&l->rows.lse, &l->keys, &l->values, (void **)&l->sums, (void **)&l->squares,
        (void **)&l->counts,       (void **)&l->projected};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        lh_free(*arrays[i]);
        *arrays[i] = NULL;
    }
    if (uses_projections(g)) return;
    lh_free(l->projection);
    l->projection = NULL;
}

static lh_status pass_layer(lh_rerun_group *g, int64_t layer)
{
    const lh_trace_file *t = &g->replay->trace;
    lh_trace_layer *l = &g->layers[layer];
    lh_kv *lead = g->caches[0];
    lh_ragged *view = NULL;
    LH_TRY(lh_trace_layer_read(l, t, layer));
    g->projections[layer] = (lh_projection){
        .w = lh_plain_matrix(l->projection, l->projection_type, t->shape.heads.heads * t->shape.head_dim)};
    g->rotations[layer] = (lh_rotation){
        .inv_freq = l->frequencies, .rotary = l->rotary, .scale = l->rotation_scale, .queries = l->query_scaling};
    LH_TRY(lh_kv_prefill_begin(lead, layer, &view));
    const int counted = columns_serve(g);
    const int64_t wanted = counted ? t->prompt : lh_kv_wants_rows(lead, layer);
    for (int64_t at = 0, n; at < t->prompt; at += n) {
        n = lh_min_i64(g->chunk, t->prompt - at);
        LH_TRY(lh_kv_prefill_next(lead, layer, at, &n, &view));
        lh_rerun_append(
            g, &(lh_rerun_entries){.keys = l->keys, .values = l->values, .first = at, .tokens = n, .all = t->prompt},
            at, view);
        record_rows(g, layer, lh_max_i64(at, wanted), at + n);
    }
    if (counted) put_columns(g, layer);
    LH_TRY(lh_kv_prefill_end(lead, layer));
    drop_prompt(g, l);
    return LH_OK;
}

lh_status lh_rerun_prompt(lh_rerun_group *g)
{
    const lh_trace_file *t = &g->replay->trace;
    LH_TRY(lh_kv_begin(g->caches[0], t->prompt, 0));
    for (int64_t l = 0; l < t->shape.layers; l++) {
        LH_TRY(pass_layer(g, l));
        lh_replay_step(g->replay);
    }
    return LH_OK;
}
