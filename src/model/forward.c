/* forward.c - tokens through the layers. Prefill is layer-major: a layer sees the whole prompt chunk by chunk, then its
 * cache shrinks, before the next layer starts. */
#include <assert.h>
#include <math.h>

#include "base/mem.h"
#include "model/forward_impl.h"

int64_t lh_forward_chunk(lh_order order)
{
    return order == LH_ORDER_FIXED ? 64 : 512;
}

static int64_t qkv_dim(const lh_config *c, const lh_shard *s)
{
    return (s->heads.q_count + 2 * s->heads.kv_count) * c->head_dim;
}

/* The workspace as a list: which pointer, how many bytes. One list for opening, closing and planning. */
enum { BUFFERS = 13 };
typedef struct buffer {
    void *where;
    int64_t bytes;
} buffer;

static void list_buffers(lh_forward *f, const lh_config *c, const lh_shard *s, const lh_model_options *o,
                         buffer out[BUFFERS])
{
    int64_t t = lh_forward_chunk(o->order), type = lh_dtype_bytes(o->dtype), f32 = 4;
    int64_t parts = o->order == LH_ORDER_FIXED ? (c->heads > LH_FF_BLOCKS ? c->heads : LH_FF_BLOCKS) : 0;
    int64_t q_dim = s->heads.q_count * c->head_dim;
    const buffer list[BUFFERS] = {
        {&f->ids, t * 4},
        {&f->positions, t * 4},
        {&f->turns, t * 4},
        {&f->x, t * c->hidden * f32},
        {&f->normed, t * c->hidden * type},
        {&f->qkv, t * qkv_dim(c, s) * f32},
        {&f->attended, t * q_dim * f32},
        {&f->attended_cast, o->dtype == LH_F32 ? 0 : t * q_dim * type},
        {&f->lse, t * s->heads.q_count * f32},
        {&f->gate_up, t * 2 * s->ff_count * f32},
        {&f->gated, t * s->ff_count * type},
        {&f->y, t * c->hidden * f32},
        {&f->parts, parts * t * c->hidden * f32},
    };
    memcpy(out, list, sizeof list);
}

int64_t lh_forward_bytes(const lh_config *config, const lh_shard *shard, const lh_model_options *options)
{
    lh_forward none;
    buffer list[BUFFERS];
    int64_t bytes = 2 * (config->rotary_dim / 2) * 4;
    list_buffers(&none, config, shard, options, list);
    for (int i = 0; i < BUFFERS; i++) bytes += list[i].bytes;
    return bytes + config->hidden * (4 + lh_dtype_bytes(options->dtype)) + shard->vocab_count * 4;
}

int64_t lh_forward_prompt_bytes(const lh_config *config, int64_t tokens)
{
    return tokens * config->hidden * 4;
}

static lh_status open_rope(lh_forward *f, const lh_rope *rope, int64_t length, lh_kv_rotation *out)
{
    lh_status st = LH_OK;
    int64_t half = f->config->rotary_dim / 2;
    float *host = NULL, *device = NULL;
    LH_TRY(lh_calloc(&host, half, sizeof *host));
    lh_rope_frequencies(rope, f->config->rotary_dim, length, host, &out->scale);
    LH_TRY(lh_device_alloc(f->device, &device, half * 4, LH_MEM_WORK));
    out->inv_freq = device;
    out->rotary = f->config->rotary_dim;
    LH_TRY(lh_stream_copy(f->place.stream, device, host, half * 4, LH_COPY_TO_DEVICE));
    LH_TRY(lh_stream_sync(f->place.stream)); /* before `host` goes */
done:
    lh_free(host);
    return st;
}

/* Which logical shards every rank makes, for the reproducible sums. */
static lh_status open_parts(lh_forward *f)
{
    lh_status st = LH_OK;
    int ranks = f->shard->ranks;
    LH_TRY(lh_calloc(&f->head_parts.first, ranks + 1, sizeof(int64_t)));
    LH_TRY(lh_calloc(&f->block_parts.first, ranks + 1, sizeof(int64_t)));
    LH_TRY(lh_calloc(&f->head_parts.bounds, f->shard->heads.q_count + 1, sizeof(int64_t)));
    LH_TRY(lh_calloc(&f->block_parts.bounds, f->shard->block_count + 1, sizeof(int64_t)));
    LH_TRY(lh_calloc(&f->gather_bytes, ranks, sizeof(int64_t)));
    LH_TRY(lh_calloc(&f->gather_at, ranks, sizeof(int64_t)));
    for (int r = 0; r < ranks; r++) {
        lh_shard s;
        LH_TRY(lh_shard_of(&s, f->config, r, ranks));
        f->head_parts.first[r] = s.heads.q_first;
        f->block_parts.first[r] = s.block_first;
    }
    f->head_parts.first[ranks] = f->config->heads;
    f->block_parts.first[ranks] = LH_FF_BLOCKS;
    for (int64_t i = 0; i <= f->shard->heads.q_count; i++) f->head_parts.bounds[i] = i * f->config->head_dim;
    for (int64_t i = 0; i <= f->shard->block_count; i++)
        f->block_parts.bounds[i] = lh_ff_block(f->config->ff, f->shard->block_first + i) - f->shard->ff_first;
done:
    return st;
}

const lh_kv_rotation *lh_forward_rotations(const lh_forward *f)
{
    return f->rotations;
}

void lh_forward_keep(lh_forward *f, int64_t rows)
{
    f->keep_next = rows;
}

/* Room for the rows that are wanted from now on; the ones of the call before are gone. */
static lh_status apply_keep(lh_forward *f)
{
    lh_status st = LH_OK;
    int64_t rows = f->keep_next;
    if (rows == f->keep) return LH_OK;
    lh_device_free(f->device, f->last);
    lh_device_free(f->device, f->last_normed);
    lh_device_free(f->device, f->logits);
    f->last = f->logits = NULL;
    f->last_normed = NULL;
    f->keep = 0; /* if one of these fails, there is no room for any */
    LH_TRY(lh_device_alloc(f->device, &f->last, rows * f->config->hidden * 4, LH_MEM_WORK));
    LH_TRY(lh_device_alloc(f->device, &f->last_normed,
                           rows * f->config->hidden * lh_dtype_bytes(f->model->options.dtype), LH_MEM_WORK));
    LH_TRY(lh_device_alloc(f->device, &f->logits, rows * f->shard->vocab_count * 4, LH_MEM_WORK));
    f->keep = rows;
done:
    return st;
}

/* Collective where the number of rows changes, which it does on all ranks. */
static lh_status agree_keep(lh_forward *f)
{
    return f->keep_next == f->keep ? LH_OK : lh_comm_agree(f->place.comm, apply_keep(f));
}

lh_status lh_forward_open(lh_forward **out, lh_model *model, const lh_kv_place *place, int64_t length)
{
    lh_status st = LH_OK;
    lh_forward *f = NULL;
    buffer list[BUFFERS];
    LH_TRY(lh_calloc(&f, 1, sizeof *f));
    f->model = model;
    f->config = &model->config;
    f->shard = &model->shard;
    f->place = *place;
    f->device = lh_stream_device(place->stream);
    f->chunk = lh_forward_chunk(model->options.order);
    list_buffers(f, f->config, f->shard, &model->options, list);
    for (int i = 0; i < BUFFERS; i++) LH_TRY(lh_device_alloc(f->device, list[i].where, list[i].bytes, LH_MEM_WORK));
    LH_TRY(open_rope(f, &f->config->rope_global, length, &f->rotations[0]));
    LH_TRY(open_rope(f, &f->config->rope_local, length, &f->rotations[1]));
    LH_TRY(open_parts(f));
    lh_forward_keep(f, 1);
    LH_TRY(apply_keep(f));
    *out = f;
    f = NULL;
done:
    lh_forward_close(f);
    return st;
}

void lh_forward_close(lh_forward *f)
{
    if (!f) return;
    buffer list[BUFFERS];
    list_buffers(f, f->config, f->shard, &f->model->options, list);
    for (int i = 0; i < BUFFERS; i++) lh_device_free(f->device, *(void **)list[i].where);
    for (int i = 0; i < 2; i++) lh_device_free(f->device, (float *)f->rotations[i].inv_freq);
    lh_device_free(f->device, f->last);
    lh_device_free(f->device, f->last_normed);
    lh_device_free(f->device, f->logits);
    lh_free(f->head_parts.first);
    lh_free(f->head_parts.bounds);
    lh_free(f->block_parts.first);
    lh_free(f->block_parts.bounds);
    lh_free(f->gather_bytes);
    lh_free(f->gather_at);
    lh_free(f);
}

lh_logits_view lh_forward_logits(const lh_forward *f)
{
    return (lh_logits_view){f->logits, f->rows, f->shard->vocab_first, f->shard->vocab_count};
}

/* x[0 .. n) = embedded tokens, for n <= chunk. */
static lh_status embed(lh_forward *f, const int32_t *ids, int64_t n, float *x)
{
    lh_status st = LH_OK;
    const lh_shard *s = f->shard;
    LH_TRY(lh_stream_copy(f->place.stream, f->ids, ids, n * 4, LH_COPY_TO_DEVICE));
    LH_TRY(f->place.ops->embed(f->place.stream, &(lh_embed_args){.y = x,
                                                                 .table = f->model->embed,
                                                                 .type = f->model->options.dtype,
                                                                 .ids = f->ids,
                                                                 .tokens = n,
                                                                 .dim = f->config->hidden,
                                                                 .first = s->vocab_first,
                                                                 .rows = s->vocab_count,
                                                                 .scale = (float)f->config->embed_scale}));
    if (s->ranks > 1) { /* one rank has the row, the others zeros: the sum is exact */
        LH_TRY(lh_comm_flush(f->place.device_comm));
        LH_TRY(lh_comm_allreduce(f->place.device_comm, x, n * f->config->hidden, LH_F32, LH_SUM));
    }
done:
    return st;
}

/* Numbers first .. first + n on the device. */
static lh_status number(lh_forward *f, int32_t *device, int64_t first, int64_t n)
{
    lh_status st = LH_OK;
    int32_t *host = NULL;
    LH_TRY(lh_calloc(&host, n, sizeof *host));
    for (int64_t t = 0; t < n; t++) host[t] = (int32_t)(first + t);
    LH_TRY(lh_stream_copy(f->place.stream, device, host, n * 4, LH_COPY_TO_DEVICE));
    LH_TRY(lh_stream_sync(f->place.stream)); /* before `host` goes */
done:
    lh_free(host);
    return st;
}

/* Normalise the last rows, multiply with the output head. */
static lh_status head(lh_forward *f, const float *x, int64_t rows)
{
    lh_status st = LH_OK;
    const lh_config *c = f->config;
    const lh_ops *ops = f->place.ops;
    lh_stream *s = f->place.stream;
    f->rows = rows;
    LH_TRY(ops->rmsnorm(s, &(lh_rmsnorm_args){.y = f->last_normed,
                                              .y_type = f->model->options.dtype,
                                              .x = x,
                                              .w = f->model->norm,
                                              .tokens = rows,
                                              .heads = 1,
                                              .dim = c->hidden,
                                              .x_ld = c->hidden,
                                              .y_ld = c->hidden,
                                              .eps = (float)c->norm_eps,
                                              .offset = (float)c->norm_offset}));
    LH_TRY(ops->gemm(s, &(lh_gemm_args){.y = f->logits,
                                        .x = f->last_normed,
                                        .w = f->model->head,
                                        .type = f->model->options.dtype,
                                        .tokens = rows,
                                        .out = f->shard->vocab_count,
                                        .in = c->hidden,
                                        .y_ld = f->shard->vocab_count,
                                        .x_ld = c->hidden,
                                        .w_ld = c->hidden,
                                        .order = f->model->options.order}));
    if (c->final_softcap > 0)
        LH_TRY(ops->softcap(s, &(lh_softcap_args){f->logits, rows * f->shard->vocab_count, (float)c->final_softcap}));
done:
    return st;
}

/* Attention of a chunk; its queries go to the cache where the policy will look at them. One row is a step of decoding.
 */
static lh_status attend_and_record(lh_forward *f, lh_kv *kv, const lh_rows_at *rows)
{
    lh_status st = LH_OK;
    int wanted = rows->first + rows->tokens > lh_kv_wants_rows(kv, rows->layer);
    lh_row_results out = {.lse = wanted ? f->lse : NULL};
    /* groups that are split over ranks never have all logits of a row: the same bits on any number of ranks need the
     * same way everywhere */
    if (wanted && rows->tokens == 1 && f->model->options.order == LH_ORDER_ANY)
        out.logits = lh_kv_row_logits(kv, rows->layer);
    LH_TRY(rows->tokens == 1 ? lh_layer_attend_step(f, rows, &out) : lh_layer_attend(f, rows, out.lse));
    if (wanted)
        LH_TRY(lh_kv_record(kv, rows->layer,
                            &(lh_kv_rows){.q = f->qkv,
                                          .lse = f->lse,
                                          .logits = out.logits,
                                          .positions = f->positions,
                                          .first = rows->first,
                                          .tokens = rows->tokens,
                                          .q_ld = qkv_dim(f->config, f->shard)}));
done:
    return st;
}

/* A prompt on its way through the layers. */
typedef struct prompt {
    lh_kv *kv;
    float *x; /* [n, hidden], in place */
    int64_t n;
    const lh_forward_progress *progress; /* may be NULL */
} prompt;

/* After every chunk: a layer of a long prompt can take minutes, and an interrupt is looked for here. */
static lh_status tell(const lh_forward *f, const prompt *p, int64_t layer, int64_t done)
{
    if (!p->progress || !p->progress->done) return LH_OK;
    return p->progress->done(p->progress->self, layer * p->n + done, f->config->layers * p->n);
}

/* One layer of the prompt. In the last one only the rows from `needed` on go through the MLP. */
static lh_status prefill_layer(lh_forward *f, const prompt *p, int64_t layer)
{
    lh_status st = LH_OK;
    lh_kv *kv = p->kv;
    lh_ragged *view = NULL;
    int64_t n = p->n, wanted = lh_kv_wants_rows(kv, layer), rows = f->keep < n ? f->keep : n;
    int64_t needed = layer + 1 < f->config->layers ? 0 : (n - rows < wanted ? n - rows : wanted);
    st = lh_kv_prefill_begin(kv, layer, &view); /* allocates: may fail on one rank only */
    LH_TRY(lh_comm_agree(f->place.comm, st));
    for (int64_t at = 0, t; at < n; at += t) {
        t = n - at < f->chunk ? n - at : f->chunk;
        LH_TRY(lh_kv_prefill_next(kv, layer, at, &t, &view));
        lh_rows_at rows_at = {
            .layer = layer, .first = at, .tokens = t, .view = view, .x = p->x + at * f->config->hidden};
        LH_TRY(number(f, f->positions, at, t));
        LH_TRY(lh_layer_append(f, &rows_at));
        if (at + t <= needed) continue;
        LH_TRY(attend_and_record(f, kv, &rows_at));
        LH_TRY(lh_layer_output(f, &rows_at));
        LH_TRY(tell(f, p, layer, at + t));
    }
    LH_TRY(lh_kv_prefill_end(kv, layer));
done:
    return st;
}

lh_status lh_forward_prefill(lh_forward *f, lh_kv *kv, const int32_t *ids, int64_t n,
                             const lh_forward_progress *progress)
{
    lh_status st = LH_OK;
    float *x = NULL;
    int64_t hidden = f->config->hidden, rows = f->keep_next < n ? f->keep_next : n;
    st = apply_keep(f);
    if (st == LH_OK) st = lh_device_alloc(f->device, &x, lh_forward_prompt_bytes(f->config, n), LH_MEM_WORK);
    LH_TRY(lh_comm_agree(f->place.comm, st));
    for (int64_t at = 0; at < n; at += f->chunk)
        LH_TRY(embed(f, ids + at, n - at < f->chunk ? n - at : f->chunk, x + at * hidden));
    for (int64_t l = 0; l < f->config->layers; l++) {
        lh_comm_step(f->place.comm, "prefill of layer", l);
        LH_TRY(prefill_layer(f, &(prompt){kv, x, n, progress}, l));
    }
    LH_TRY(head(f, x + (n - rows) * hidden, rows));
done:
    lh_device_free(f->device, x);
    return st;
}

/* Keep the last `keep` rows of a block that comes in chunks. */
static lh_status keep_last(lh_forward *f, const float *x, int64_t at, int64_t t, int64_t n)
{
    lh_status st = LH_OK;
    int64_t hidden = f->config->hidden, rows = f->keep < n ? f->keep : n, from = n - rows > at ? n - rows : at;
    if (from < at + t)
        LH_TRY(lh_stream_copy(f->place.stream, f->last + (from - (n - rows)) * hidden, x + (from - at) * hidden,
                              (at + t - from) * hidden * 4, LH_COPY_ON_DEVICE));
done:
    return st;
}

/* Tokens behind what the cache holds, chunk by chunk through all layers. */
static lh_status take_in(lh_forward *f, lh_kv *kv, const int32_t *ids, int64_t n)
{
    lh_status st = LH_OK;
    int64_t seen = lh_kv_seen(kv);
    LH_TRY(agree_keep(f));
    LH_TRY(lh_kv_reserve(kv, n));
    for (int64_t at = 0; at < n; at += f->chunk) {
        int64_t t = n - at < f->chunk ? n - at : f->chunk;
        LH_TRY(embed(f, ids + at, t, f->x));
        LH_TRY(number(f, f->positions, seen + at, t));
        for (int64_t l = 0; l < f->config->layers; l++) {
            lh_rows_at rows = {.layer = l, .first = seen + at, .tokens = t, .x = f->x};
            LH_TRY(lh_kv_room(kv, l, at == 0 ? n : t, &rows.view));
            if (lh_kv_by_slots(kv)) {
                LH_TRY(number(f, f->turns, lh_kv_slot_of(kv, l, rows.first), t));
                rows.turns = f->turns;
                rows.keys_as_they_are = 1;
            }
            LH_TRY(lh_layer_append(f, &rows));
            LH_TRY(lh_kv_turned(kv, l, rows.first + t, &rows.view));
            LH_TRY(attend_and_record(f, kv, &rows));
            LH_TRY(lh_layer_output(f, &rows));
        }
        LH_TRY(keep_last(f, f->x, at, t, n));
    }
    LH_TRY(head(f, f->last, f->keep < n ? f->keep : n));
done:
    return st;
}

lh_status lh_forward_block(lh_forward *f, lh_kv *kv, const int32_t *ids, int64_t n)
{
    lh_status st = LH_OK;
    lh_comm_step(f->place.comm, "question", lh_kv_seen(kv));
    LH_TRY(take_in(f, kv, ids, n));
    LH_TRY(lh_kv_settle(kv, LH_KV_BLOCK, n));
done:
    return st;
}

lh_status lh_forward_step(lh_forward *f, lh_kv *kv, int32_t id)
{
    lh_status st = LH_OK;
    lh_comm_step(f->place.comm, "decode at position", lh_kv_seen(kv));
    LH_TRY(take_in(f, kv, &id, 1));
    LH_TRY(lh_kv_settle(kv, LH_KV_STEP, 1));
done:
    return st;
}
