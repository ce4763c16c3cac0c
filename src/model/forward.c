/* forward.c - tokens through all layers: a block of tokens, and the functions that prefill.c and step.c share. */
#include "base/minmax.h"
#include "model/forward_impl.h"
#include "model/sampler.h"

void lh_forward_single_sequence(lh_forward *f, lh_kv *kv, int64_t first, int64_t tokens)
{
    f->sequences.n = 1;
    f->sequences.tokens = tokens;
    f->sequences.kvs[0] = kv;
    f->sequences.first[0] = first;
}

void lh_forward_put_positions(lh_forward *f)
{
    const lh_sequences *s = &f->sequences;
    for (int64_t b = 0; b < s->n; b++)
        for (int64_t t = 0; t < s->tokens; t++) f->numbers[b * s->tokens + t] = (int32_t)(s->first[b] + t);
    lh_exec_put(&f->exec, f->work.positions, f->numbers, s->n * s->tokens * (int64_t)sizeof *f->numbers);
}

void lh_forward_embed(lh_forward *f, int64_t n, float *x)
{
    const lh_shard *s = f->shard;
    LH_RUN(&f->exec, embed, .y = x, .table = f->model->embed, .ids = f->work.ids, .tokens = n, .dim = f->config->hidden,
           .first = s->vocab_first, .rows = s->vocab_count, .scale = (float)f->config->embed_scale);
    if (s->ranks > 1) { /* one rank has the row, the other ranks have zeros: the sum is exact */
        lh_exec_allreduce(&f->exec, x, n * f->config->hidden, LH_F32, LH_SUM);
    }
}

void lh_forward_set_rows(lh_forward *f, int64_t rows)
{
    f->last_rows.n = rows;
    f->last_rows.call++;
    f->last_rows.greedy_count = 0;
}

lh_status lh_forward_greedy(lh_forward *f, int64_t row, int32_t *id)
{
    lh_last_rows *last = &f->last_rows;
    const int64_t first = row - row % f->room.most;
    if (last->greedy_count == 0 || last->greedy_first != first) {
        lh_logits_view view = lh_forward_logits(f);
        view.logits += first * view.count;
        view.rows = lh_min_i64(last->n - first, f->room.most);
        LH_TRY(lh_greedy_tokens(&f->exec, &view, last->greedy));
        last->greedy_first = first;
        last->greedy_count = view.rows;
    }
    *id = last->greedy[row - first];
    return lh_token_check(*id);
}

void lh_forward_compute_logits(lh_forward *f, const float *x, int64_t rows)
{
    const lh_config *c = f->config;
    lh_forward_set_rows(f, rows);
    LH_RUN(&f->exec, norm_gemm,
           .norm = {.y = f->last_rows.normed,
                    .y_type = f->model->options.dtype,
                    .x = x,
                    .w = f->model->norm,
                    .tokens = rows,
                    .heads = 1,
                    .dim = c->hidden,
                    .x_ld = c->hidden,
                    .y_ld = c->hidden,
                    .eps = (float)c->norm_eps,
                    .offset = (float)c->norm_offset},
           .gemm = {.y = f->last_rows.logits,
                    .x = f->last_rows.normed,
                    .w = f->model->head,
                    .type = f->model->options.dtype,
                    .tokens = rows,
                    .out = f->shard->vocab_count,
                    .in = c->hidden,
                    .y_ld = f->shard->vocab_count,
                    .x_ld = c->hidden,
                    .order = f->model->options.order});
    if (c->final_softcap > 0)
        LH_RUN(&f->exec, softcap, f->last_rows.logits, rows * f->shard->vocab_count, (float)c->final_softcap);
}

/* Uploads rotary positions if some of the caches rotate by slots and returns them; NULL if no cache does. */
static const int32_t *put_rope_positions(lh_forward *f, int64_t layer)
{
    const lh_sequences *s = &f->sequences;
    int by_slot = 0;
    for (int64_t b = 0; b < s->n; b++) {
        int64_t first = lh_kv_rotary_position(s->kvs[b], layer, s->first[b]);
        for (int64_t t = 0; t < s->tokens; t++) f->numbers[b * s->tokens + t] = (int32_t)(first + t);
        s->ropes[b] = (lh_row_rope){.rotation = lh_kv_rotation(s->kvs[b], layer),
                                    .keys_unrotated = lh_kv_rotates_by_slot(s->kvs[b])};
        by_slot |= s->ropes[b].keys_unrotated;
    }
    if (!by_slot) return NULL;
    lh_exec_put(&f->exec, f->work.rope_positions, f->numbers, s->n * s->tokens * (int64_t)sizeof *f->numbers);
    return f->work.rope_positions;
}

lh_status lh_forward_through_layers(lh_forward *f, int64_t room)
{
    const lh_sequences *s = &f->sequences;
    lh_ragged *view = NULL;
    lh_forward_embed(f, s->n * s->tokens, f->work.x);
    for (int64_t l = 0; l < f->config->layers; l++) {
        lh_rows_at rows = {.layer = l, .x = f->work.x};
        for (int64_t b = 0; b < s->n; b++) {
            LH_TRY(lh_kv_room(s->kvs[b], l, room, &view));
            s->views[b] = *view;
        }
        rows.rope_positions = put_rope_positions(f, l);
        rows.leaves_len = s->tokens == 1 && !rows.rope_positions;
        lh_layer_append(f, &rows);
        for (int64_t b = 0; b < s->n; b++) {
            LH_TRY(lh_kv_attended(s->kvs[b], l, s->first[b] + s->tokens, &view));
            s->views[b] = *view;
        }
        lh_layer_attend(f, &rows);
        lh_layer_project(f, &rows, NULL);
        lh_layer_mlp(f, &rows, NULL);
    }
    return LH_OK;
}

/* Copies the rows of a chunk that are among the last `rows` of n rows. */
static void keep_last(lh_forward *f, int64_t at, int64_t rows, int64_t n)
{
    int64_t hidden = f->config->hidden, end = at + f->sequences.tokens, from = lh_max_i64(n - rows, at);
    if (from < end)
        lh_exec_copy(&f->exec, f->last_rows.x + (from - (n - rows)) * hidden, f->work.x + (from - at) * hidden,
                     (end - from) * hidden * 4, LH_COPY_ON_DEVICE);
}

lh_status lh_forward_block(lh_forward *f, lh_kv *kv, const int32_t *ids, int64_t n)
{
    const int64_t seen = lh_kv_seen(kv), rows = lh_min_i64(f->last_rows.next, n);
    lh_comm_step(f->exec.comm, "question", seen);
    LH_TRY(lh_kv_reserve(kv, n));
    for (int64_t at = 0; at < n; at += f->chunk) {
        lh_forward_single_sequence(f, kv, seen + at, lh_min_i64(f->chunk, n - at));
        lh_forward_set_call(f, f->sequences.tokens);
        lh_exec_put(&f->exec, f->work.ids, ids + at, f->sequences.tokens * (int64_t)sizeof *ids);
        lh_forward_put_positions(f);
        LH_TRY(lh_forward_through_layers(f, at == 0 ? n : f->sequences.tokens));
        keep_last(f, at, rows, n);
    }
    lh_forward_compute_logits(f, f->last_rows.x, rows);
    LH_TRY(lh_exec_take(&f->exec));
    LH_TRY(lh_kv_settle(kv, LH_KV_BLOCK, n));
    return LH_OK;
}
