/* A prefill in flight to a file. */
#include <string.h>

#include "base/mem.h"
#include "cache/layer_writer.h"
#include "cache/prefill_file.h"

/* Where the outputs of this rank's KV heads lie, and how many rows of numbers each has. */
typedef struct output_heads {
    int64_t *offset; /* [kv_count] */
    int64_t *lens;   /* [kv_heads], of the same block */
} output_heads;

static lh_status count_outputs(output_heads *out, const lh_heads *h, int64_t head_dim)
{
    LH_TRY(lh_calloc(&out->offset, h->kv_count + h->kv_heads, sizeof *out->offset));
    out->lens = out->offset + h->kv_count;
    for (int64_t g = 0; g < h->kv_count; g++) out->offset[g] = g * (head_dim + 1);
    for (int64_t g = 0; g < h->kv_heads; g++) out->lens[g] = head_dim + 1;
    return LH_OK;
}

static lh_status put_prefill(lh_h5 *h5, const lh_prefill_contents *c)
{
    LH_TRY(lh_cache_put_state(h5, &c->cache));
    LH_TRY(lh_h5_put_i64(h5, "/state", "layers_done", c->state.layers_done));
    LH_TRY(lh_h5_put_i64(h5, "/state", "divided", c->state.divided));
    return lh_h5_put_text(h5, "/identity", c->state.identity, (int64_t)strlen(c->state.identity));
}

/* On rank 0. */
static lh_status put_layer(lh_layer_writer *w, int64_t layer, const lh_prefill_layer *of)
{
    lh_status st = LH_OK;
    lh_layer_name name;
    int32_t *positions = NULL;
    LH_TRY_DONE(lh_h5_put_i64(w->h5, lh_layer_array(&name, layer, NULL), "normless", of->normless));
    if (!of->held.rows) goto done;
    LH_TRY_DONE(lh_calloc(&positions, of->held.rows, sizeof *positions));
    LH_TRY_DONE(lh_stream_copy(w->exec->stream, positions, of->held.positions,
                               of->held.rows * (int64_t)sizeof *positions, LH_COPY_TO_HOST));
    LH_TRY_DONE(lh_stream_sync(w->exec->stream));
    LH_TRY_DONE(lh_h5_put(w->h5, lh_layer_array(&name, layer, "held_positions"),
                          &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {of->held.rows}}, positions));
done:
    lh_free(positions);
    return st;
}

/* Collective. */
static lh_status write_held(lh_layer_writer *w, int64_t layer, const lh_prefill_contents *c, const output_heads *heads)
{
    const lh_heads *h = w->heads;
    const lh_held_rows *held = &c->layers[layer].held;
    const int64_t dim = c->cache.numbers.head_dim, own = h->q_first - h->kv_first * h->group,
                  grouped = h->kv_count * h->group, n = held->rows * h->group;
    if (!held->rows) return LH_OK;
    LH_TRY(lh_write_rows(w, layer,
                         &(lh_row_array){.name = "held_q",
                                         .type = LH_F32,
                                         .at = held->q + own * dim,
                                         .rows = held->rows,
                                         .width = dim,
                                         .ld = grouped * dim}));
    LH_TRY(lh_write_rows(
        w, layer,
        &(lh_row_array){
            .name = "held_lse", .type = LH_I32, .at = held->lse + own, .rows = held->rows, .width = 1, .ld = grouped}));
    if (!held->outputs) return LH_OK;
    const lh_entry_array outputs = {.name = "held_outputs",
                                    .type = LH_F32,
                                    .rank = 2,
                                    .width = n,
                                    .bytes = n * (int64_t)sizeof *held->outputs,
                                    .at = held->outputs};
    return lh_write_heads(w, layer, &(lh_head_array){.array = outputs, .offset = heads->offset, .lens = heads->lens});
}

/* Collective. */
static lh_status write_layers(lh_layer_writer *w, const lh_prefill_contents *c, const output_heads *heads)
{
    for (int64_t l = 0; l < c->state.layers_done; l++) {
        LH_TRY(lh_write_layer(w, l, &c->cache.layers[l], c->cache.numbers.seen));
        if (w->h5 && w->local == LH_OK) w->local = put_layer(w, l, &c->layers[l]);
        LH_TRY(write_held(w, l, c, heads));
    }
    return LH_OK;
}

lh_status lh_prefill_write(const char *path, const lh_prefill_contents *c)
{
    lh_status st = LH_OK;
    lh_layer_writer w;
    output_heads heads = {0};
    const lh_exec *exec = c->cache.exec;
    st = lh_layer_writer_open(
        &w, exec, c->cache.heads, path,
        &(lh_h5_header){.kind = "prefill", .schema = LH_PREFILL_SCHEMA, .run = c->cache.extra->run});
    if (st == LH_OK) st = count_outputs(&heads, c->cache.heads, c->cache.numbers.head_dim);
    if (st == LH_OK && w.h5) st = put_prefill(w.h5, c);
    LH_TRY_DONE(lh_comm_agree(exec->comm, st));
    LH_TRY_DONE(write_layers(&w, c, &heads));
    lh_write_matrix(&w, "/hidden", c->hidden, c->cache.numbers.prompt_tokens, c->width);
    LH_TRY_DONE(lh_layer_writer_commit(&w));
done:
    lh_layer_writer_close(&w);
    lh_free(heads.offset);
    return st;
}
