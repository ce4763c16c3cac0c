/* forward_open.c - the workspace of the forward pass: one list of buffers and their sizes, used to allocate, to free
 * and to plan; the rows of logits, whose number can change between calls; the rotary frequencies. */
#include <string.h>

#include "base/mem.h"
#include "model/forward_impl.h"

/* A buffer of the workspace: address of its pointer, and size. */
enum { BUFFERS = 26 };
typedef struct buffer {
    void *where;
    int64_t bytes;
} buffer;

/* Sizes that the workspace for chunks of t tokens depends on. */
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
    int64_t shards = o->order == LH_ORDER_FIXED ? (c->heads > LH_FF_BLOCKS ? c->heads : LH_FF_BLOCKS) : 0;
    int64_t q_dim = s->heads.q_count * c->head_dim, experts = c->experts.count, assignments = t * c->experts.top_k;
    int64_t mlp_rows = experts ? assignments : t;
    const buffer list[BUFFERS] = {
        {&f->work.ids, t * 4},
        {&f->work.positions, t * 4},
        {&f->work.turns, t * 4},
        {&f->work.x, t * c->hidden * f32},
        {&f->work.normed, t * c->hidden * type},
        {&f->work.qkv, t * lh_forward_qkv_dim(c, s) * f32},
        {&f->work.squares, c->qk_norm == LH_QK_NORM_ROWS ? t * (c->heads + c->kv_heads) * f32 : 0},
        {&f->work.attended, t * q_dim * f32},
        {&f->work.attended_cast, o->dtype == LH_F32 ? 0 : t * q_dim * type},
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
        {&f->work.products, shards * t * c->hidden * f32},
        {&f->room.best, LH_BEST_MOST * f32},
        {&f->room.best_at, LH_BEST_MOST * 4},
        {&f->room.penalised, s->vocab_count * f32},
        {&f->room.seen, (s->vocab_count + 31) / 32 * 4},
        {&f->room.probabilities, 8},
    };
    memcpy(out, list, sizeof list);
}

int64_t lh_forward_bytes(const lh_config *config, const lh_shard *shard, const lh_model_options *options, int64_t chunk)
{
    lh_forward none;
    buffer list[BUFFERS];
    int64_t bytes = LH_ROTATIONS * (config->rotary_dim / 2) * 4;
    list_buffers(&none, &(extent){config, shard, options, chunk}, list);
    for (int i = 0; i < BUFFERS; i++) bytes += list[i].bytes;
    return bytes + lh_forward_rows_bytes(config, shard, options, 1);
}

int64_t lh_forward_rows_bytes(const lh_config *config, const lh_shard *shard, const lh_model_options *options,
                              int64_t rows)
{
    return rows * (config->hidden * (4 + lh_dtype_bytes(options->dtype)) + shard->vocab_count * 4);
}

int64_t lh_forward_prompt_bytes(const lh_config *config, int64_t tokens)
{
    return tokens * config->hidden * 4;
}

/* `rope` NULL: nothing is rotated. */
static lh_status open_rope(lh_forward *f, const lh_rope *rope, int64_t length, lh_rotation *out)
{
    lh_status st = LH_OK;
    int64_t half = f->config->rotary_dim / 2;
    float *host = NULL, *device = NULL;
    LH_TRY_DONE(lh_calloc(&host, half, sizeof *host));
    out->scale = 1;
    if (rope) lh_rope_frequencies(rope, f->config->rotary_dim, length, host, &out->scale);
    LH_TRY_DONE(lh_device_alloc(f->device, &device, half * 4, LH_MEM_WORK));
    out->inv_freq = device;
    out->rotary = f->config->rotary_dim;
    LH_TRY_DONE(lh_stream_put(f->exec.stream, device, host, half * 4));
done:
    lh_free(host);
    return st;
}

static lh_status open_rotations(lh_forward *f, int64_t length)
{
    const lh_config *c = f->config;
    const lh_rope *ropes[LH_ROTATIONS] = {
        [LH_ROTATION_GLOBAL] = &c->rope_global, [LH_ROTATION_LOCAL] = &c->rope_local, [LH_ROTATION_NONE] = NULL};
    for (int k = 0; k < LH_ROTATIONS; k++) LH_TRY(open_rope(f, ropes[k], length, &f->kinds[k]));
    LH_TRY(lh_calloc(&f->rotations, c->layers, sizeof *f->rotations));
    for (int64_t l = 0; l < c->layers; l++) {
        int slides = c->window > 0 && c->sliding[l];
        f->rotations[l] = f->kinds[c->unrotated[l] ? LH_ROTATION_NONE
                                   : slides        ? LH_ROTATION_LOCAL
                                                   : LH_ROTATION_GLOBAL];
    }
    return LH_OK;
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
    f->block_shards.first[ranks] = LH_FF_BLOCKS;
    for (int64_t i = 0; i <= f->shard->heads.q_count; i++) f->head_shards.bounds[i] = i * f->config->head_dim;
    for (int64_t i = 0; i <= f->shard->block_count; i++)
        f->block_shards.bounds[i] = lh_ff_block(f->config->ff, f->shard->block_first + i) - f->shard->ff_first;
    return LH_OK;
}

const lh_rotation *lh_forward_rotations(const lh_forward *f)
{
    return f->rotations;
}

void lh_forward_keep(lh_forward *f, int64_t rows)
{
    f->last_rows.next = rows;
}

void lh_forward_forget_step(lh_forward *f)
{
    lh_graph_close(f->step.graph);
    f->step = (lh_captured_step){.refused = f->step.refused};
}

lh_status lh_forward_apply_keep(lh_forward *f)
{
    int64_t rows = f->last_rows.next;
    if (rows == f->last_rows.cap) return LH_OK;
    lh_forward_forget_step(f);
    lh_device_free(f->device, f->last_rows.x);
    lh_device_free(f->device, f->last_rows.normed);
    lh_device_free(f->device, f->last_rows.logits);
    f->last_rows.x = f->last_rows.logits = NULL;
    f->last_rows.normed = NULL;
    f->last_rows.cap = 0; /* stays 0 if one of these fails */
    LH_TRY(lh_device_alloc(f->device, &f->last_rows.x, rows * f->config->hidden * 4, LH_MEM_WORK));
    LH_TRY(lh_device_alloc(f->device, &f->last_rows.normed,
                           rows * f->config->hidden * lh_dtype_bytes(f->model->options.dtype), LH_MEM_WORK));
    LH_TRY(lh_device_alloc(f->device, &f->last_rows.logits, rows * f->shard->vocab_count * 4, LH_MEM_WORK));
    f->last_rows.cap = rows;
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
    f->room.most = LH_BEST_MOST;
    f->experts.routes.top_k = f->config->experts.top_k;
    f->experts.routes.experts = f->config->experts.count;
    LH_TRY_DONE(lh_calloc(&f->numbers, f->chunk, sizeof *f->numbers));
    list_buffers(f, &(extent){f->config, f->shard, &model->options, f->chunk}, list);
    for (int i = 0; i < BUFFERS; i++)
        LH_TRY_DONE(lh_device_alloc(f->device, list[i].where, list[i].bytes, LH_MEM_WORK));
    LH_TRY_DONE(open_rotations(f, run->length));
    LH_TRY_DONE(open_logical_shards(f));
    lh_forward_keep(f, 1);
    LH_TRY_DONE(lh_forward_apply_keep(f));
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
    lh_forward_forget_step(f);
    list_buffers(f, &(extent){f->config, f->shard, &f->model->options, f->chunk}, list);
    for (int i = 0; i < BUFFERS; i++) lh_device_free(f->device, *(void **)list[i].where);
    for (int k = 0; k < LH_ROTATIONS; k++) lh_device_free(f->device, (float *)f->kinds[k].inv_freq);
    lh_device_free(f->device, f->last_rows.x);
    lh_device_free(f->device, f->last_rows.normed);
    lh_device_free(f->device, f->last_rows.logits);
    lh_free(f->numbers);
    lh_free(f->rotations);
    lh_free(f->head_shards.first);
    lh_free(f->head_shards.bounds);
    lh_free(f->block_shards.first);
    lh_free(f->block_shards.bounds);
    lh_free(f->gather_bytes);
    lh_free(f->gather_at);
    lh_free(f);
}

lh_logits_view lh_forward_logits(const lh_forward *f)
{
    return (lh_logits_view){.logits = f->last_rows.logits,
                            .rows = f->last_rows.n,
                            .first = f->shard->vocab_first,
                            .count = f->shard->vocab_count,
                            .vocab = f->config->vocab,
                            .room = f->room};
}

lh_status lh_forward_put_logits(lh_forward *f, const float *part)
{
    f->last_rows.n = 1;
    return lh_stream_put(f->exec.stream, f->last_rows.logits, part, f->shard->vocab_count * (int64_t)sizeof *part);
}
