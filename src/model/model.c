/* model.c - loads a rank's shard from a checkpoint into device memory. Tensors that are multiplied together (q,
 * k and v; gate and up) become one matrix. */
#include "model/model.h"

#include <assert.h>
#include <stddef.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "kv/figures.h"
#include "model/model_impl.h"
#include "model/weight_reader.h"

/* A block of device memory: one tensor, or several with their rows stacked. */
typedef struct piece {
    size_t field;
    lh_weight weights[3];
    int count;
} piece;

#define PIECE(where, field, ...)                                                                             \
    {                                                                                                        \
        offsetof(where, field), {__VA_ARGS__}, (int)(sizeof((lh_weight[]){__VA_ARGS__}) / sizeof(lh_weight)) \
    }

static const piece layer_pieces[] = {
    PIECE(lh_layer, attn_norm, LH_W_ATTN_NORM),
    PIECE(lh_layer, attn_post_norm, LH_W_ATTN_POST_NORM),
    PIECE(lh_layer, mlp_norm, LH_W_MLP_NORM),
    PIECE(lh_layer, mlp_post_norm, LH_W_MLP_POST_NORM),
    PIECE(lh_layer, q_norm, LH_W_Q_NORM),
    PIECE(lh_layer, k_norm, LH_W_K_NORM),
    PIECE(lh_layer, qkv, LH_W_Q, LH_W_K, LH_W_V),
    PIECE(lh_layer, qkv_bias, LH_W_Q_BIAS, LH_W_K_BIAS, LH_W_V_BIAS),
    PIECE(lh_layer, o, LH_W_O),
    PIECE(lh_layer, o_bias, LH_W_O_BIAS),
    PIECE(lh_layer, router, LH_W_ROUTER),
    PIECE(lh_layer, gate_up, LH_W_GATE, LH_W_UP),
    PIECE(lh_layer, gate_up_bias, LH_W_GATE_BIAS, LH_W_UP_BIAS),
    PIECE(lh_layer, down, LH_W_DOWN),
    PIECE(lh_layer, down_bias, LH_W_DOWN_BIAS),
};

static const piece model_pieces[] = {
    PIECE(lh_model, embed, LH_W_EMBED),
    PIECE(lh_model, norm, LH_W_NORM),
    PIECE(lh_model, head, LH_W_HEAD),
};

enum {
    LAYER_PIECES = sizeof layer_pieces / sizeof *layer_pieces,
    MODEL_PIECES = sizeof model_pieces / sizeof *model_pieces
};

/* The range of one part of a tensor that a shard owns (shard NULL: all of it); rows 0 if the model does not have the
 * tensor. */
static lh_weight_range range_of(const lh_config *config, const lh_shard *shard, lh_weight w, int64_t part)
{
    const lh_weight_info *info = lh_weight_info_of(w);
    lh_weight_range range = {.weight = w};
    int64_t first = 0, count = 0;
    lh_weight_shape(config, w, &range.rows, &range.cols);
    range.rows /= lh_weight_parts(config, w);
    range.row = part * range.rows;
    if (range.rows == 0 || !shard || info->sharding == LH_SHARD_ALL) return range;
    lh_shard_range(shard, config, info->unit, &first, &count);
    if (info->sharding == LH_SHARD_ROWS) {
        range.row += first;
        range.rows = count;
    } else {
        range.col = first;
        range.cols = count;
    }
    return range;
}

static int64_t piece_bytes(const lh_config *config, const lh_shard *shard, lh_dtype type, const piece *p)
{
    int64_t bytes = 0;
    for (int i = 0; i < p->count; i++) {
        lh_weight_range range = range_of(config, shard, p->weights[i], 0);
        int64_t values = lh_weight_parts(config, p->weights[i]) * range.rows * range.cols;
        bytes += values * lh_dtype_bytes(lh_weight_type(p->weights[i], type));
    }
    return bytes;
}

int64_t lh_model_bytes(const lh_config *config, const lh_shard *shard, lh_dtype type)
{
    int64_t bytes = 0;
    for (int i = 0; i < MODEL_PIECES; i++) bytes += piece_bytes(config, shard, type, &model_pieces[i]);
    for (int i = 0; i < LAYER_PIECES; i++) bytes += config->layers * piece_bytes(config, shard, type, &layer_pieces[i]);
    return bytes;
}

typedef struct loader {
    lh_weight_reader reader;
    lh_model *model;
    const lh_load_options *options;
    int64_t done, total;
} loader;

/* Loads part `part` of each weight of a piece, one after the other, to *at, which is advanced. */
static lh_status load_part(loader *in, const piece *p, int64_t layer, int64_t part, char **at)
{
    const lh_model *m = in->model;
    for (int i = 0; i < p->count; i++) {
        const lh_weight w = p->weights[i];
        lh_weight_part read = {.range = range_of(&m->config, &m->shard, w, part),
                               .whole = range_of(&m->config, NULL, w, part),
                               .sharding = lh_weight_info_of(w)->sharding};
        lh_dtype type = lh_weight_type(w, m->options.dtype);
        read.range.layer = layer;
        if (read.whole.rows == 0) continue;
        LH_TRY(lh_weight_reader_read(&in->reader, &read, *at, type));
        *at += read.range.rows * read.range.cols * lh_dtype_bytes(type);
    }
    return LH_OK;
}

static lh_status load_piece(loader *in, const piece *p, int64_t layer, void *where)
{
    lh_model *m = in->model;
    char *memory = NULL, *at;
    int64_t bytes = piece_bytes(&m->config, &m->shard, m->options.dtype, p);
    LH_TRY(lh_device_alloc(lh_stream_device(m->exec.stream), &memory, bytes, LH_MEM_WEIGHTS));
    memcpy((char *)where + p->field, &memory, sizeof memory); /* freed by lh_model_close from now on */
    at = memory;
    for (int64_t part = 0; part < lh_weight_parts(&m->config, p->weights[0]); part++)
        LH_TRY(load_part(in, p, layer, part, &at));
    in->done += bytes;
    if (in->options && in->options->done && in->reader.stopped == LH_OK)
        in->reader.stopped = in->options->done(in->options->self, in->done, in->total);
    return in->reader.all ? LH_OK : in->reader.stopped;
}

/* Multiplies the weights of the last norm by the scale of the logits. */
static lh_status scale_logits(lh_model *m)
{
    lh_status st = LH_OK;
    lh_stream *stream = m->exec.stream;
    int64_t bytes = m->config.hidden * (int64_t)sizeof *m->norm;
    float *host = NULL;
    LH_TRY_DONE(lh_calloc(&host, m->config.hidden, sizeof *host));
    LH_TRY_DONE(lh_stream_copy(stream, host, m->norm, bytes, LH_COPY_TO_HOST));
    LH_TRY_DONE(lh_stream_sync(stream));
    for (int64_t i = 0; i < m->config.hidden; i++) host[i] *= (float)m->config.logit_scale;
    LH_TRY_DONE(lh_stream_copy(stream, m->norm, host, bytes, LH_COPY_TO_DEVICE));
    LH_TRY_DONE(lh_stream_sync(stream));
done:
    lh_free(host);
    return st;
}

lh_status lh_model_load(lh_model **out, lh_checkpoint *ck, const lh_exec *exec, const lh_model_options *options,
                        const lh_load_options *load)
{
    lh_status st = LH_OK;
    lh_model *m = NULL;
    LH_TRY_DONE(lh_calloc(&m, 1, sizeof *m));
    m->exec = *exec;
    m->options = *options;
    LH_TRY_DONE(lh_config_copy(&m->config, lh_checkpoint_config(ck)));
    LH_TRY_DONE(lh_shard_of(&m->shard, &m->config, lh_comm_rank(exec->comm), lh_comm_size(exec->comm)));
    LH_TRY_DONE(lh_calloc(&m->layers, m->config.layers, sizeof *m->layers));
    LH_TRY_DONE(lh_calloc(&m->projections, m->config.layers, sizeof *m->projections));
    loader in = {.reader = {.ck = ck,
                            .stream = exec->stream,
                            .ops = exec->ops,
                            .piece_bytes = 64 << 20,
                            .alone_bytes = 64 << 10},
                 .model = m,
                 .options = load,
                 .total = lh_model_bytes(&m->config, &m->shard, options->dtype)};
    if (load) {
        in.reader.all = load->all;
        in.reader.same = load->same;
    }
    for (int i = 0; i < MODEL_PIECES; i++) LH_TRY_DONE(load_piece(&in, &model_pieces[i], 0, m));
    if (m->config.tied) m->head = m->embed;
    if (m->config.logit_scale != 1) LH_TRY_DONE(scale_logits(m));
    for (int64_t l = 0; l < m->config.layers; l++)
        for (int i = 0; i < LAYER_PIECES; i++) LH_TRY_DONE(load_piece(&in, &layer_pieces[i], l, &m->layers[l]));
    for (int64_t l = 0; l < m->config.layers; l++)
        m->projections[l] = (lh_projection){
            .w = m->layers[l].o, .type = options->dtype, .ld = m->shard.heads.q_count * m->config.head_dim};
    LH_TRY_DONE(in.reader.stopped);
    LH_TRY_DONE(lh_stream_sync(exec->stream));
    if (load && load->read_bytes) *load->read_bytes = in.reader.read_bytes;
    *out = m;
    m = NULL;
done:
    lh_model_close(m);
    return st;
}

static void free_pieces(lh_device *device, const piece *pieces, int count, void *where)
{
    for (int i = 0; i < count; i++) {
        void *memory;
        memcpy(&memory, (char *)where + pieces[i].field, sizeof memory);
        lh_device_free(device, memory);
    }
}

void lh_model_close(lh_model *model)
{
    if (!model) return;
    lh_device *device = lh_stream_device(model->exec.stream);
    if (model->head == model->embed) model->head = NULL;
    free_pieces(device, model_pieces, MODEL_PIECES, model);
    for (int64_t l = 0; model->layers && l < model->config.layers; l++)
        free_pieces(device, layer_pieces, LAYER_PIECES, &model->layers[l]);
    lh_free(model->layers);
    lh_free(model->projections);
    lh_config_clear(&model->config);
    lh_free(model);
}

const lh_config *lh_model_config(const lh_model *model)
{
    return &model->config;
}

lh_model_options lh_model_options_for(const lh_config *config, const lh_shard *shard, lh_device_kind device,
                                      lh_dtype dtype, lh_order order)
{
    const int is_plain = order == LH_ORDER_ANY && !config->post_norms && !config->o_bias && !config->mlp_bias;
    return (lh_model_options){.dtype = dtype,
                              .order = order,
                              .rounds_sums =
                                  is_plain && shard->ranks > 1 && dtype == LH_BF16 && device != LH_DEVICE_CPU};
}

lh_model_options lh_model_options_of(const lh_model *model)
{
    return model->options;
}

const lh_shard *lh_model_shard(const lh_model *model)
{
    return &model->shard;
}

lh_kv_shape lh_config_kv_shape(const lh_config *config, const lh_shard *shard, lh_dtype kv_type)
{
    return (lh_kv_shape){.heads = shard->heads,
                         .layers = config->layers,
                         .head_dim = config->head_dim,
                         .type = kv_type,
                         .scale = (float)config->attn_scale,
                         .softcap = (float)config->attn_softcap,
                         .window = config->window,
                         .sliding = config->window ? config->sliding : NULL,
                         .hidden = config->hidden};
}

lh_cache_size lh_config_cache_size(const lh_config *config, lh_dtype kv_type)
{
    const lh_shard whole = {.heads.kv_heads = config->kv_heads};
    const lh_kv_shape shape = lh_config_kv_shape(config, &whole, kv_type);
    return lh_kv_cache_size(&shape);
}

lh_kv_shape lh_model_kv_shape(const lh_model *model, lh_dtype kv_type)
{
    lh_kv_shape shape = lh_config_kv_shape(&model->config, &model->shard, kv_type);
    shape.projections = model->projections;
    shape.order = model->options.order;
    return shape;
}
