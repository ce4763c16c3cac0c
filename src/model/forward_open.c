/* forward_open.c - the workspace of the forward pass: one list of buffers and their sizes, used to allocate, to free
 * and to plan memory; the rows of logits. */
#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "model/forward_impl.h"

/* A buffer of the workspace: address of its pointer, and size. */
enum { BUFFERS = 31 };
typedef struct buffer {
    void *where;
    int64_t bytes;
} buffer;

/* Sizes that determine the workspace for chunks of t tokens. */
typedef struct extent {
    const lh_config *config;
    const lh_shard *shard;
    const lh_model_options *options;
    int64_t t;
} extent;

static void list_buffers(lh_forward *f, const extent *e, buffer out[BUFFERS])
{
    const lh_config *c = e->config;
    const lh_shard *s = e->shard;
    const lh_model_options *o = e->options;
    int64_t t = e->t, type = lh_dtype_bytes(o->dtype), f32 = 4;
    int64_t shards = o->order == LH_ORDER_FIXED ? lh_max_i64(c->heads, lh_ff_blocks(c->ff)) : 0;
    int64_t q_dim = s->heads.q_count * c->head_dim, experts = c->experts.count, assignments = t * c->experts.top_k;
    int64_t mlp_rows = experts ? assignments : t, pending = o->rounds_sums ? t * c->hidden * type : 0;
    const buffer list[BUFFERS] = {
        {&f->work.ids, t * 4},
        {&f->work.positions, t * 4},
        {&f->work.rope_positions, t * 4},
        {&f->work.x, t * c->hidden * f32},
        {&f->work.normed, t * c->hidden * type},
        {&f->work.qkv, t * lh_forward_qkv_dim(c, s) * f32},
        {&f->work.squares, c->qk_norm == LH_QK_NORM_ROWS ? t * (c->heads + c->kv_heads) * f32 : 0},
        {&f->work.attended, t * q_dim * f32},
        {&f->work.attended_bf16, o->dtype == LH_F32 ? 0 : t * q_dim * type},
        {&f->work.lse, t * s->heads.q_count * f32},
        {&f->work.gate_up, mlp_rows * 2 * s->ff_count * f32},
        {&f->work.gated, mlp_rows * s->ff_count * type},
        {&f->experts.logits, t * experts * f32},
        {&f->experts.routes.weight, assignments * f32},
        {&f->experts.routes.assignment, assignments * 4},
        {&f->experts.routes.token, assignments * 4},
        {&f->experts.routes.first, experts ? (experts + 1) * 4 : 0},
        {&f->experts.rows, assignments * c->hidden * type},
        {&f->experts.outputs, assignments * c->hidden * f32},
        {&f->work.y, t * c->hidden * f32},
        {&f->work.sums[0], pending},
        {&f->work.sums[1], pending},
        {&f->work.sums[2], pending},
        {&f->work.products, shards * t * c->hidden * f32},
        {&f->unpacked.memory, lh_model_memory_of(c, s, o).unpacked},
        {&f->room.best, 2 * LH_BEST_MAX * f32},
        {&f->room.penalised, s->vocab_count * f32},
        {&f->room.seen, (s->vocab_count + 31) / 32 * 4},
        {&f->room.bias, s->vocab_count * f32},
        {&f->room.minus, s->vocab_count * f32},
        {&f->room.probabilities, 8},
    };
    memcpy(out, list, sizeof list);
}

static int64_t most_tokens(const lh_forward_run *run)
{
    return lh_max_i64(run->chunk, run->sequences);
}

int64_t lh_forward_bytes(const lh_config *config, const lh_shard *shard, const lh_model_options *options,
                         const lh_forward_run *run)
{
    lh_forward none;
    buffer list[BUFFERS];
    int64_t bytes = run->rows * (config->hidden * (4 + lh_dtype_bytes(options->dtype)) + shard->vocab_count * 4);
    list_buffers(&none, &(extent){config, shard, options, most_tokens(run)}, list);
    for (int i = 0; i < BUFFERS; i++) bytes += list[i].bytes;
    return bytes;
}

int64_t lh_forward_prompt_bytes(const lh_config *config, int64_t tokens)
{
    return tokens * config->hidden * 4;
}

/* The logical shards of every rank, for reproducible sums. */
static lh_status open_logical_shards(lh_forward *f)
{
    int ranks = f->shard->ranks;
    LH_TRY(lh_calloc(&f->head_shards.first, ranks + 1, sizeof(int64_t)));
    LH_TRY(lh_calloc(&f->block_shards.first, ranks + 1, sizeof(int64_t)));
    LH_TRY(lh_calloc(&f->head_shards.bounds, f->shard->heads.q_count + 1, sizeof(int64_t)));
    LH_TRY(lh_calloc(&f->block_shards.bounds, f->shard->block_count + 1, sizeof(int64_t)));
    LH_TRY(lh_calloc(&f->gather_bytes, ranks, sizeof(int64_t)));
    LH_TRY(lh_calloc(&f->gather_at, ranks, sizeof(int64_t)));
    for (int r = 0; r < ranks; r++) {
        lh_shard s;
        LH_TRY(lh_shard_of(&s, f->config, r, ranks));
        f->head_shards.first[r] = s.heads.q_first;
        f->block_shards.first[r] = s.block_first;
    }
    f->head_shards.first[ranks] = f->config->heads;
    f->block_shards.first[ranks] = lh_ff_blocks(f->config->ff);
    for (int64_t i = 0; i <= f->shard->heads.q_count; i++) f->head_shards.bounds[i] = i * f->config->head_dim;
    for (int64_t i = 0; i <= f->shard->block_count; i++)
        f->block_shards.bounds[i] = lh_ff_block(f->config->ff, f->shard->block_first + i) - f->shard->ff_first;
    return LH_OK;
}

void lh_forward_keep(lh_forward *f, int64_t rows)
{
    f->last_rows.next = lh_min_i64(rows, f->last_rows.cap);
}

static lh_status open_last_rows(lh_forward *f, int64_t rows)
{
    lh_last_rows *last = &f->last_rows;
    LH_TRY(lh_device_alloc(f->device, &last->x, rows * f->config->hidden * 4, LH_MEM_WORK));
    LH_TRY(lh_device_alloc(f->device, &last->normed, rows * f->config->hidden * lh_dtype_bytes(f->model->options.dtype),
                           LH_MEM_WORK));
    LH_TRY(lh_device_alloc(f->device, &last->logits, rows * f->shard->vocab_count * 4, LH_MEM_WORK));
    LH_TRY(lh_calloc(&last->greedy, LH_BEST_MAX, sizeof *last->greedy));
    last->cap = rows;
    last->next = 1;
    return LH_OK;
}

/* Host arrays for the sequences of a step. */
static lh_status open_sequences(lh_forward *f, int64_t most)
{
    lh_sequences *s = &f->sequences;
    LH_TRY(lh_calloc(&s->kvs, most, sizeof *s->kvs));
    LH_TRY(lh_calloc(&s->first, most, sizeof *s->first));
    LH_TRY(lh_calloc(&s->views, most, sizeof *s->views));
    LH_TRY(lh_calloc(&s->ropes, most, sizeof *s->ropes));
    LH_TRY(lh_calloc(&s->logits, most, sizeof *s->logits));
    LH_TRY(lh_calloc(&f->step.kvs, most, sizeof *f->step.kvs));
    LH_TRY(lh_calloc(&f->step.epochs, most, sizeof *f->step.epochs));
    return LH_OK;
}

lh_status lh_forward_open(lh_forward **out, lh_model *model, const lh_exec *exec, const lh_forward_run *run)
{
    lh_status st = LH_OK;
    lh_forward *f = NULL;
    buffer list[BUFFERS];
    LH_TRY_DONE(lh_calloc(&f, 1, sizeof *f));
    f->model = model;
    f->config = &model->config;
    f->shard = &model->shard;
    f->exec = *exec;
    f->device = lh_stream_device(exec->stream);
    f->chunk = run->chunk;
    f->together = run->sequences;
    f->room.most = LH_BEST_MAX;
    f->unpacked.layer = -1;
    f->experts.routes.top_k = f->config->experts.top_k;
    f->experts.routes.experts = f->config->experts.count;
    LH_TRY_DONE(lh_calloc(&f->numbers, most_tokens(run), sizeof *f->numbers));
    list_buffers(f, &(extent){f->config, f->shard, &model->options, most_tokens(run)}, list);
    for (int i = 0; i < BUFFERS; i++)
        LH_TRY_DONE(lh_device_alloc(f->device, list[i].where, list[i].bytes, LH_MEM_WORK));
    LH_TRY_DONE(open_logical_shards(f));
    LH_TRY_DONE(open_last_rows(f, run->rows));
    LH_TRY_DONE(open_sequences(f, run->sequences));
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
    lh_graph_close(f->step.graph);
    list_buffers(f, &(extent){f->config, f->shard, &f->model->options, f->chunk}, list);
    for (int i = 0; i < BUFFERS; i++) lh_device_free(f->device, *(void **)list[i].where);
    lh_device_free(f->device, f->last_rows.x);
    lh_device_free(f->device, f->last_rows.normed);
    lh_device_free(f->device, f->last_rows.logits);
    lh_free(f->last_rows.greedy);
    lh_free(f->numbers);
    lh_free(f->sequences.kvs);
    lh_free(f->sequences.first);
    lh_free(f->sequences.views);
    lh_free(f->sequences.ropes);
    lh_free(f->sequences.logits);
    lh_free(f->step.kvs);
    lh_free(f->step.epochs);
    lh_free(f->head_shards.first);
    lh_free(f->head_shards.bounds);
    lh_free(f->block_shards.first);
    lh_free(f->block_shards.bounds);
    lh_free(f->gather_bytes);
    lh_free(f->gather_at);
    lh_free(f);
}

int64_t lh_forward_sequences(const lh_forward *f)
{
    return f->together;
}

lh_logits_view lh_forward_logits(const lh_forward *f)
{
    return (lh_logits_view){.logits = f->last_rows.logits,
                            .rows = f->last_rows.n,
                            .call = f->last_rows.call,
                            .first = f->shard->vocab_first,
                            .count = f->shard->vocab_count,
                            .vocab = f->config->vocab,
                            .room = f->room};
}

lh_status lh_forward_put_logits(lh_forward *f, const float *part)
{
    lh_forward_set_rows(f, 1);
    return lh_stream_put(f->exec.stream, f->last_rows.logits, part, f->shard->vocab_count * (int64_t)sizeof *part);
}
