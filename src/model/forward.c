/* forward.c - the forward pass. Prefill is layer-major: a layer sees the whole prompt chunk by chunk, then its cache is
 * evicted, before the next layer starts. A decode step is captured as a CUDA graph if the device supports it, and
 * replayed as one launch until memory that it was captured with is reallocated. */
#include "base/log.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "model/forward_impl.h"

/* Collective if the number of rows changes, which it does on all ranks. */
static lh_status agree_keep(lh_forward *f)
{
    return f->last_rows.next == f->last_rows.cap ? LH_OK : lh_comm_agree(f->exec.comm, lh_forward_apply_keep(f));
}

/* Writes positions first, first + 1, … to device memory, n <= chunk. */
static void number(lh_forward *f, int32_t *device, int64_t first, int64_t n)
{
    for (int64_t t = 0; t < n; t++) f->numbers[t] = (int32_t)(first + t);
    lh_exec_put(&f->exec, device, f->numbers, n * (int64_t)sizeof *f->numbers);
}

/* x[0 .. n) = embeddings of the tokens in f->work.ids. */
static void embed(lh_forward *f, int64_t n, float *x)
{
    const lh_shard *s = f->shard;
    LH_RUN(&f->exec, embed, .y = x, .table = f->model->embed, .type = f->model->options.dtype, .ids = f->work.ids,
           .tokens = n, .dim = f->config->hidden, .first = s->vocab_first, .rows = s->vocab_count,
           .scale = (float)f->config->embed_scale);
    if (s->ranks > 1) { /* one rank has the row, the others zeros: the sum is exact */
        lh_exec_allreduce(&f->exec, x, n * f->config->hidden, LH_F32, LH_SUM);
    }
}

/* Logits of the last rows: norm, then lm_head. */
static void compute_logits(lh_forward *f, const float *x, int64_t rows)
{
    const lh_config *c = f->config;
    f->last_rows.n = rows;
    LH_RUN(&f->exec, rmsnorm, .y = f->last_rows.normed, .y_type = f->model->options.dtype, .x = x, .w = f->model->norm,
           .tokens = rows, .heads = 1, .dim = c->hidden, .x_ld = c->hidden, .y_ld = c->hidden,
           .eps = (float)c->norm_eps, .offset = (float)c->norm_offset);
    LH_RUN(&f->exec, gemm, .y = f->last_rows.logits, .x = f->last_rows.normed, .w = f->model->head,
           .type = f->model->options.dtype, .tokens = rows, .out = f->shard->vocab_count, .in = c->hidden,
           .y_ld = f->shard->vocab_count, .x_ld = c->hidden, .w_ld = c->hidden, .order = f->model->options.order);
    if (c->final_softcap > 0)
        LH_RUN(&f->exec, softcap, f->last_rows.logits, rows * f->shard->vocab_count, (float)c->final_softcap);
}

/* Attention of a chunk; passes its queries to the cache if the policy observes them. A single row is a decode step. */
static void attend_and_record(lh_forward *f, lh_kv *kv, const lh_rows_at *rows)
{
    int wanted = rows->first + rows->tokens > lh_kv_wants_rows(kv, rows->layer);
    lh_row_results out = {.lse = wanted ? f->work.lse : NULL};
    /* A group split over ranks never has all logits of a row; equal bits on any number of ranks need the same
     * computation everywhere. */
    if (wanted && rows->tokens == 1 && f->model->options.order == LH_ORDER_ANY)
        out.logits = lh_kv_row_logits(kv, rows->layer);
    if (rows->tokens == 1)
        lh_layer_attend_step(f, rows, &out);
    else
        lh_layer_attend(f, rows, out.lse);
    if (wanted)
        lh_kv_record(kv, rows->layer,
                     &(lh_kv_rows){.queries = {.q = f->work.qkv,
                                               .lse = f->work.lse,
                                               .logits = out.logits,
                                               .positions = f->work.positions,
                                               .first = rows->first,
                                               .tokens = rows->tokens,
                                               .q_ld = lh_forward_qkv_dim(f->config, f->shard)},
                                   .keys = f->work.qkv + lh_forward_key_at(f->config, f->shard),
                                   .values = f->work.qkv + lh_forward_value_at(f->config, f->shard),
                                   .outputs = f->work.attended});
}

/* The prompt of a prefill. */
typedef struct prompt {
    lh_kv *kv;
    float *x; /* [n, hidden], in place */
    int64_t n;
    const lh_forward_progress *progress; /* may be NULL */
} prompt;

/* Reports progress after every chunk, since a layer of a long prompt can take minutes; the callback also polls for
 * interrupts. */
static lh_status report_progress(const lh_forward *f, const prompt *p, int64_t layer, int64_t done)
{
    if (!p->progress || !p->progress->done) return LH_OK;
    return p->progress->done(p->progress->self, layer * p->n + done, f->config->layers * p->n);
}

/* One layer of the prompt; failures of operations are latched until lh_kv_prefill_end. In the last layer only rows
 * whose logits are kept go through the MLP, and only these and those that the cache wants attend. */
static lh_status prefill_layer(lh_forward *f, const prompt *p, int64_t layer)
{
    lh_status st = LH_OK;
    lh_kv *kv = p->kv;
    lh_ragged *view = NULL;
    int64_t n = p->n, wanted = lh_kv_wants_rows(kv, layer), rows = f->last_rows.cap < n ? f->last_rows.cap : n;
    int64_t goes_on = layer + 1 < f->config->layers ? 0 : n - rows, attends = lh_min_i64(goes_on, wanted);
    st = lh_kv_prefill_begin(kv, layer, &view); /* allocates: may fail on one rank only */
    LH_TRY(lh_comm_agree(f->exec.comm, st));
    for (int64_t at = 0, t; at < n; at += t) {
        t = n - at < f->chunk ? n - at : f->chunk;
        LH_TRY(lh_kv_prefill_next(kv, layer, at, &t, &view));
        lh_rows_at rows_at = {
            .layer = layer, .first = at, .tokens = t, .view = view, .x = p->x + at * f->config->hidden};
        number(f, f->work.positions, at, t);
        lh_layer_append(f, &rows_at);
        if (at + t <= attends) continue;
        attend_and_record(f, kv, &rows_at);
        if (at + t > goes_on) lh_layer_output(f, &rows_at);
        LH_TRY(report_progress(f, p, layer, at + t));
    }
    LH_TRY(lh_kv_prefill_end(kv, layer));
    return st;
}

lh_status lh_forward_prefill(lh_forward *f, lh_kv *kv, const int32_t *ids, int64_t n,
                             const lh_forward_progress *progress)
{
    lh_status st = LH_OK;
    float *x = NULL;
    int64_t hidden = f->config->hidden, rows = f->last_rows.next < n ? f->last_rows.next : n;
    st = lh_forward_apply_keep(f);
    if (st == LH_OK) st = lh_device_alloc(f->device, &x, lh_forward_prompt_bytes(f->config, n), LH_MEM_WORK);
    LH_TRY_DONE(lh_comm_agree(f->exec.comm, st));
    for (int64_t at = 0; at < n; at += f->chunk) {
        int64_t t = lh_min_i64(f->chunk, n - at);
        lh_exec_put(&f->exec, f->work.ids, ids + at, t * (int64_t)sizeof *ids);
        embed(f, t, x + at * hidden);
    }
    for (int64_t l = 0; l < f->config->layers; l++) {
        lh_comm_step(f->exec.comm, "prefill of layer", l);
        LH_TRY_DONE(prefill_layer(f, &(prompt){kv, x, n, progress}, l));
    }
    compute_logits(f, x + (n - rows) * hidden, rows);
    LH_TRY_DONE(lh_exec_take(&f->exec));
done:
    lh_device_free(f->device, x);
    return st;
}

/* Copies those rows of a chunk that are among the last rows to keep. */
static void keep_last(lh_forward *f, const float *x, int64_t at, int64_t t, int64_t n)
{
    int64_t hidden = f->config->hidden, rows = f->last_rows.cap < n ? f->last_rows.cap : n,
            from = n - rows > at ? n - rows : at;
    if (from < at + t)
        lh_exec_copy(&f->exec, f->last_rows.x + (from - (n - rows)) * hidden, x + (from - at) * hidden,
                     (at + t - from) * hidden * 4, LH_COPY_ON_DEVICE);
}

/* Tokens that follow those in the cache; ids and positions are on the device. `first`: position of the first. */
typedef struct chunk {
    int64_t first, tokens;
    int64_t room; /* tokens to reserve in the cache */
} chunk;

/* Passes a chunk through all layers, in f->work.x. */
static lh_status through_layers(lh_forward *f, lh_kv *kv, const chunk *c)
{
    embed(f, c->tokens, f->work.x);
    for (int64_t l = 0; l < f->config->layers; l++) {
        lh_rows_at rows = {.layer = l, .first = c->first, .tokens = c->tokens, .x = f->work.x};
        LH_TRY(lh_kv_room(kv, l, c->room, &rows.view));
        if (lh_kv_rotates_by_slot(kv)) {
            number(f, f->work.turns, lh_kv_rotary_position(kv, l, rows.first), c->tokens);
            rows.turns = f->work.turns;
            rows.keys_as_they_are = 1;
        }
        lh_layer_append(f, &rows);
        LH_TRY(lh_kv_attended(kv, l, rows.first + c->tokens, &rows.view));
        attend_and_record(f, kv, &rows);
        lh_layer_output(f, &rows);
    }
    return LH_OK;
}

static void put_tokens(lh_forward *f, const int32_t *ids, int64_t first, int64_t n)
{
    lh_exec_put(&f->exec, f->work.ids, ids, n * (int64_t)sizeof *ids);
    number(f, f->work.positions, first, n);
}

lh_status lh_forward_block(lh_forward *f, lh_kv *kv, const int32_t *ids, int64_t n)
{
    int64_t seen = lh_kv_seen(kv);
    lh_comm_step(f->exec.comm, "question", seen);
    LH_TRY(agree_keep(f));
    LH_TRY(lh_kv_reserve(kv, n));
    for (int64_t at = 0; at < n; at += f->chunk) {
        chunk c = {.first = seen + at, .tokens = lh_min_i64(f->chunk, n - at)};
        c.room = at == 0 ? n : c.tokens;
        put_tokens(f, ids + at, c.first, c.tokens);
        LH_TRY(through_layers(f, kv, &c));
        keep_last(f, f->work.x, at, c.tokens, n);
    }
    compute_logits(f, f->last_rows.x, lh_min_i64(f->last_rows.cap, n));
    LH_TRY(lh_exec_take(&f->exec));
    LH_TRY(lh_kv_settle(kv, LH_KV_BLOCK, n));
    return LH_OK;
}

/* ---- decode step ---- */

static lh_status step(lh_forward *f, lh_kv *kv)
{
    lh_status st = through_layers(f, kv, &(chunk){.first = lh_kv_seen(kv), .tokens = 1, .room = 1});
    if (st == LH_OK) compute_logits(f, f->work.x, 1);
    lh_status latched = lh_exec_take(&f->exec);
    return st == LH_OK ? latched : st;
}

static int records(const lh_forward *f, const lh_kv *kv)
{
    return !f->step.refused && lh_device_records(f->device) && lh_comm_enqueues(f->exec.device_comm) &&
           lh_kv_can_capture(kv);
}

/* 1 if the last step used the same cache and memory, so that all workspace exists. */
static int is_same_step(const lh_forward *f, lh_kv *kv)
{
    const lh_captured_step *s = &f->step;
    return s->kv == kv && s->kv_epoch == lh_kv_graph_epoch(kv) && (!s->graph || lh_graph_holds(s->graph));
}

static lh_status record_step(lh_forward *f, lh_kv *kv)
{
    lh_status st = LH_OK, end;
    int64_t sent = lh_comm_sent_bytes(f->exec.device_comm);
    LH_TRY(lh_stream_record(f->exec.stream));
    st = step(f, kv);
    end = lh_stream_recorded(f->exec.stream, st == LH_OK ? &f->step.graph : NULL);
    if (st == LH_OK) st = end;
    f->step.sent_bytes = lh_comm_sent_bytes(f->exec.device_comm) - sent;
    return st;
}

/* Falls back to launching operations one by one if a step cannot be captured. */
static lh_status run_uncaptured(lh_forward *f, lh_kv *kv, lh_status why)
{
    if (why != LH_EINTERNAL && why != LH_ENOMEM) return why;
    lh_warn("a decode step cannot be captured as a CUDA graph, its operations are launched one by one: %s",
            lh_error_message());
    lh_error_clear();
    lh_forward_forget_step(f);
    f->step.refused = 1;
    return step(f, kv);
}

/* The first step allocates all workspace, the second is captured, later ones replay it: one launch instead of about ten
 * per layer. */
static lh_status run_step(lh_forward *f, lh_kv *kv)
{
    lh_status st = LH_OK;
    if (!records(f, kv)) return step(f, kv);
    if (!is_same_step(f, kv)) {
        lh_forward_forget_step(f);
        LH_TRY(step(f, kv));
        f->step = (lh_captured_step){.kv = kv, .kv_epoch = lh_kv_graph_epoch(kv)};
        return st;
    }
    if (f->step.graph) {
        LH_TRY(lh_comm_again(f->exec.device_comm, f->step.sent_bytes));
    } else {
        st = record_step(f, kv);
        if (st != LH_OK) return run_uncaptured(f, kv, st);
    }
    LH_TRY(lh_graph_run(f->step.graph));
    lh_kv_graph_replayed(kv);
    f->last_rows.n = 1;
    return lh_exec_take(&f->exec);
}

lh_status lh_forward_step(lh_forward *f, lh_kv *kv, int32_t id)
{
    lh_comm_step(f->exec.comm, "decode at position", lh_kv_seen(kv));
    LH_TRY(agree_keep(f));
    LH_TRY(lh_kv_reserve(kv, 1));
    put_tokens(f, &id, lh_kv_seen(kv), 1);
    LH_TRY(run_step(f, kv));
    LH_TRY(lh_kv_settle(kv, LH_KV_STEP, 1));
    return LH_OK;
}
