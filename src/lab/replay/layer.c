/* layer.c - a layer: read from the trace, as operations see it, and what its columns are good for. */
#include "base/minmax.h"
#include "lab/replay/replay_impl.h"

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
    l->projection = (lh_projection){.w = l->data.projection, .type = l->data.projection_type, .ld = ld};
    LH_TRY(lh_calloc(&l->projection_f32, n, sizeof *l->projection_f32));
    lh_dtype_convert(l->projection_f32, LH_F32, l->data.projection, l->data.projection_type, n);
    return LH_OK;
}

/* Reads a layer; its entries are a cache of which every head holds the prompt. */
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
                          .type = s->type,
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
    const lh_policy_score *s = &n->score;
    return s->running && !s->gain && !s->non_causal && r->trace.column_rows > 0 &&
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
