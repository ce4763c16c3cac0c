/* rerun_steps.c - the rows after the prompt of a rerun, in the order of a run: a question as a block, then single
 * tokens. The held entries are marked before each; entries whose mark is gone afterwards were evicted. */
#include <string.h>

#include "base/minmax.h"
#include "kernels/ragged.h"
#include "kv/save.h"
#include "lab/replay/replay_impl.h"

/* Rows that are taken in together. */
typedef struct block {
    int64_t row, tokens, position; /* of the first */
    lh_kv_taken what;
} block;

static int64_t reach(const lh_rerun_group *g)
{
    return g->replay->trace.prompt + g->longest;
}

static void mark_held(lh_rerun_group *g, int64_t layer, int64_t row, const lh_ragged *view)
{
    for (int64_t h = 0; h < view->heads; h++) {
        int32_t *marks = g->marks + (layer * view->heads + h) * reach(g);
        for (int64_t first = 0; first < view->len[h]; first += LH_SHARED_BLOCK) {
            const lh_ragged segment = lh_segment_at(view, h, first);
            const int32_t *positions = lh_positions_of(&segment, h);
            const int64_t end = lh_min_i64(first + LH_SHARED_BLOCK, view->len[h]);
            for (int64_t s = first; s < end; s++) marks[positions ? positions[s] : s] = (int32_t)row;
        }
    }
}

/* As the forward pass has it (model/forward.c), where the cache wants to know of rows. */
static void attend(lh_rerun_group *g, lh_kv *kv, int64_t layer, const block *b, const lh_ragged *view)
{
    const lh_replay *r = g->replay;
    const lh_kv_shape *s = &r->trace.shape;
    const int64_t width = s->heads.heads * s->head_dim;
    const float *q = g->layers[layer].after.queries + b->row * width;
    const lh_logit logit = {s->scale, s->softcap, lh_kv_slides(s, layer) ? s->window : 0};
    lh_row_logits logits = {0};
    if (b->position + b->tokens <= lh_kv_wants_rows(kv, layer)) return;
    if (b->tokens == 1) {
        if (s->order == LH_ORDER_ANY) logits = lh_kv_row_logits(kv, layer);
        LH_RUN(&r->exec, attend_decode, .o = g->outputs, .lse = g->lse, .logits = &logits, .q = q,
               .positions = g->positions, .seqs = view, .batch = 1, .q_ld = width, .o_ld = width,
               .map = lh_heads_grouping(&s->heads), .logit = logit, .order = s->order);
    } else {
        LH_RUN(&r->exec, attend_block, .o = g->outputs, .lse = g->lse, .q = q, .positions = g->positions, .kv = view,
               .map = lh_heads_grouping(&s->heads), .logit = logit, .tokens = b->tokens, .q_ld = width, .o_ld = width,
               .most = b->position + b->tokens, .order = s->order);
    }
    lh_kv_record(kv, layer,
                 &(lh_kv_rows){.queries = {.q = q,
                                           .lse = g->lse,
                                           .logits = logits,
                                           .positions = g->positions,
                                           .first = b->position,
                                           .tokens = b->tokens,
                                           .q_ld = width}});
}

/* A chunk through all layers; room: tokens to reserve. */
static lh_status pass_chunk(lh_rerun_group *g, lh_kv *kv, const block *c, int64_t room)
{
    for (int64_t l = 0; l < g->replay->trace.shape.layers; l++) {
        const lh_trace_layer *layer = &g->layers[l];
        lh_ragged *view = NULL;
        LH_TRY(lh_kv_room(kv, l, room, &view));
        mark_held(g, l, c->row, view);
        lh_rerun_append(g,
                        &(lh_rerun_entries){.keys = layer->after_keys,
                                            .values = layer->after_values,
                                            .first = c->row,
                                            .tokens = c->tokens,
                                            .by_token = 1},
                        c->position, view);
        LH_TRY(lh_kv_attended(kv, l, c->position + c->tokens, &view));
        attend(g, kv, l, c, view);
    }
    return LH_OK;
}

static lh_status take_in(lh_rerun_group *g, lh_kv *kv, const block *b)
{
    LH_TRY(lh_kv_reserve(kv, b->tokens));
    for (int64_t at = 0; at < b->tokens; at += g->chunk) {
        const int64_t n = lh_min_i64(g->chunk, b->tokens - at);
        LH_TRY(pass_chunk(g, kv, &(block){b->row + at, n, b->position + at, b->what}, at == 0 ? b->tokens : n));
    }
    LH_TRY(lh_exec_take(&g->replay->exec));
    return lh_kv_settle(kv, b->what, b->tokens);
}

/* ---- what has gone ---- */

/* The drops of a head over an answer, by the marks. */
static lh_status find_drops(const lh_rerun_group *g, const lh_trace_answer_rows *rows, const int32_t *marks,
                            lh_buf *out)
{
    const int64_t prompt = g->replay->trace.prompt;
    for (int64_t p = 0; p < prompt + rows->end - rows->first; p++) {
        int64_t last = marks[p];
        if (last == rows->end || (p < prompt && last < 0)) continue; /* still there; gone with the prompt */
        if (last < 0) last = rows->first + p - prompt;               /* gone before the next row saw it */
        const int64_t block_end = rows->first + rows->block;
        const lh_drop drop = {.row = (int32_t)(last < block_end ? block_end : last + 1),
                              .entry = (int32_t)(p < prompt ? p : p + rows->first)};
        LH_TRY(lh_buf_append(out, &drop, sizeof drop));
    }
    return LH_OK;
}

/* One answer, in a fork of the cache that holds the prompt. */
static lh_status answer(lh_rerun_group *g, lh_kv *from, const lh_trace_answer_rows *rows)
{
    lh_status st = LH_OK;
    lh_kv *kv = NULL;
    const int64_t prompt = g->replay->trace.prompt, layers = g->replay->trace.shape.layers;
    memset(g->marks, -1, (size_t)(layers * g->replay->study.kv_heads * reach(g)) * sizeof *g->marks);
    LH_TRY_DONE(lh_kv_fork(&kv, from, rows->end - rows->first));
    if (rows->block) LH_TRY_DONE(take_in(g, kv, &(block){rows->first, rows->block, prompt, LH_KV_BLOCK}));
    for (int64_t row = rows->first + rows->block; row < rows->end; row++)
        LH_TRY_DONE(take_in(g, kv, &(block){row, 1, prompt + row - rows->first, LH_KV_STEP}));
    LH_TRY_DONE(lh_kv_reserve(kv, 0)); /* the lengths after the last eviction */
    for (int64_t l = 0; l < layers; l++) {
        lh_ragged *view = NULL;
        LH_TRY_DONE(lh_kv_room(kv, l, 0, &view));
        mark_held(g, l, rows->end, view);
    }
done:
    lh_kv_close(kv);
    return st;
}

static lh_status take_kept(lh_kv *kv, lh_rerun *out)
{
    lh_status st = LH_OK;
    lh_buf kept = {0};
    lh_positions p = {0};
    for (int64_t l = 0, at = 0; l < out->layers; l++) {
        const int64_t before = kept.bytes / (int64_t)sizeof *out->kept;
        LH_TRY_DONE(lh_kv_gather_positions(kv, l, &p));
        for (int64_t h = 0; h < out->heads; h++) out->kept_at[++at] = before + p.offsets[h + 1];
        LH_TRY_DONE(lh_buf_append(&kept, p.positions, p.offsets[out->heads] * (int64_t)sizeof *p.positions));
        lh_positions_clear(&p);
    }
    out->kept = (int32_t *)(void *)kept.data;
    kept = (lh_buf){0};
done:
    lh_positions_clear(&p);
    lh_buf_clear(&kept);
    return st;
}

lh_status lh_rerun_answers(lh_rerun_group *g, lh_kv *kv, lh_rerun *out)
{
    lh_status st = LH_OK;
    lh_trace_answer_rows rows = {0};
    lh_buf drops = {0};
    const int64_t layers = g->replay->study.layers, heads = g->replay->study.kv_heads;
    *out = (lh_rerun){.layers = layers, .heads = heads, .answers = g->replay->judges.is_after ? g->answers : 0};
    LH_TRY_DONE(lh_calloc(&out->kept_at, layers * heads + 1, sizeof *out->kept_at));
    LH_TRY_DONE(lh_calloc(&out->drop_at, out->answers * layers * heads + 1, sizeof *out->drop_at));
    LH_TRY_DONE(take_kept(kv, out));
    for (int64_t a = 0, at = 0; a < out->answers && lh_trace_next_answer(&g->replay->trace, &rows); a++) {
        LH_TRY_DONE(answer(g, kv, &rows));
        for (int64_t i = 0; i < layers * heads; i++) {
            LH_TRY_DONE(find_drops(g, &rows, g->marks + i * reach(g), &drops));
            out->drop_at[++at] = drops.bytes / (int64_t)sizeof(lh_drop);
        }
    }
    out->drops = (lh_drop *)(void *)drops.data;
    drops = (lh_buf){0};
done:
    lh_buf_clear(&drops);
    return st;
}
