/* model.c - loads a rank's shard from a checkpoint into device memory. Tensors that are multiplied together (q,
 * k and v; gate and up) become one matrix. */
#include "model/model.h"

#include <assert.h>
#include <stddef.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "kv/figures.h"
#include "model/pieces.h"
#include "model/weight_reader.h"

lh_model_memory lh_model_memory_of(const lh_config *config, const lh_shard *shard, const lh_model_options *options)
{
    const lh_rank_weights of = {config, shard, options};
    lh_model_memory m = {0};
    for (int i = 0; i < LH_MODEL_PIECES; i++) {
        const int64_t bytes = lh_piece_bytes(&of, &lh_model_pieces[i], 0);
        m.weights += bytes;
        if (lh_piece_unpacked_bytes(&of, &lh_model_pieces[i], 0)) m.few_bits += bytes;
    }
    if (!config->tied) m.embedding = lh_piece_bytes(&of, &lh_model_pieces[LH_PIECE_EMBED], 0);
    for (int64_t l = 0; l < config->layers; l++) {
        int64_t unpacked = 0;
        for (int i = 0; i < LH_LAYER_PIECES; i++) {
            const lh_piece *piece = &lh_layer_pieces[i];
            const int64_t bytes = lh_piece_bytes(&of, piece, l), plain = lh_piece_unpacked_bytes(&of, piece, l);
            m.weights += bytes;
            if (lh_weight_parts(config, piece->weights[0]) > 1) m.experts += bytes;
            if (plain) m.few_bits += bytes;
            unpacked += plain;
        }
        if (options->order != LH_ORDER_FIXED) m.unpacked = lh_max_i64(m.unpacked, unpacked);
    }
    return m;
}

/* A layer, and an expert of it. */
typedef struct weight_place {
    int64_t layer, expert;
} weight_place;

typedef struct loader {
    lh_weight_reader reader;
    lh_model *model;
    const lh_load_options *options;
    int64_t done, total;
} loader;

static lh_rank_weights weights_of(const lh_model *m)
{
    return (lh_rank_weights){&m->config, &m->shard, &m->options};
}

/* Loads the tensors of a part of a piece, of one expert, one after the other to `at`. */
static lh_status load_part(loader *in, const lh_piece *piece, const lh_piece_part *part, const weight_place *place,
                           char *at)
{
    const lh_model *m = in->model;
    for (int i = part->first; i < part->first + part->count; i++) {
        const lh_weight w = piece->weights[i];
        lh_weight_part read = {.range = lh_range_of(&m->config, &m->shard, w, place->expert),
                               .whole = lh_range_of(&m->config, NULL, w, place->expert),
                               .sharding = lh_weight_info_of(w)->sharding};
        read.range.layer = place->layer;
        LH_TRY(lh_weight_reader_read(&in->reader, &read, at, part->format));
        at += read.range.rows * read.range.cols * part->format->bytes; /* of a part of few bits there is one tensor */
    }
    return LH_OK;
}

static lh_status load_piece(loader *in, const lh_piece *piece, int64_t layer, void *where)
{
    lh_model *m = in->model;
    const lh_rank_weights of = weights_of(m);
    lh_piece_part parts[LH_PIECE_WEIGHTS];
    const int n = lh_piece_parts(&of, piece, layer, parts);
    const int64_t bytes = lh_piece_bytes(&of, piece, layer);
    char *memory = NULL;
    LH_TRY(lh_device_alloc(lh_stream_device(m->exec.stream), &memory, bytes, LH_MEM_WEIGHTS));
    lh_piece_set(piece, where, parts, n, memory); /* freed by lh_model_close from now on */
    for (int i = 0; i < n; i++) {
        for (int64_t e = 0; e < lh_weight_parts(&m->config, piece->weights[0]); e++)
            LH_TRY(load_part(in, piece, &parts[i], &(weight_place){layer, e}, memory + e * parts[i].step));
        memory += lh_piece_room(parts, i, n);
    }
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

/* The model outlives the checkpoint that its options borrow formats from. */
static lh_status copy_formats(lh_model *m)
{
    if (!m->options.formats) return LH_OK;
    LH_TRY(lh_weight_formats_copy(&m->formats, m->options.formats, &m->config));
    m->options.formats = m->formats;
    return LH_OK;
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
    LH_TRY_DONE(copy_formats(m));
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
                 .total = lh_model_memory_of(&m->config, &m->shard, options).weights};
    if (load) {
        in.reader.all = load->all;
        in.reader.same = load->same;
    }
    for (int i = 0; i < LH_MODEL_PIECES; i++) LH_TRY_DONE(load_piece(&in, &lh_model_pieces[i], 0, m));
    if (m->config.tied) m->head = m->embed;
    if (m->config.logit_scale != 1) LH_TRY_DONE(scale_logits(m));
    for (int64_t l = 0; l < m->config.layers; l++)
        for (int i = 0; i < LH_LAYER_PIECES; i++) LH_TRY_DONE(load_piece(&in, &lh_layer_pieces[i], l, &m->layers[l]));
    for (int64_t l = 0; l < m->config.layers; l++)
        m->projections[l] = (lh_projection){.w = m->layers[l].o, .type = options->dtype};
    LH_TRY_DONE(in.reader.stopped);
    LH_TRY_DONE(lh_stream_sync(exec->stream));
    if (load && load->read_bytes) *load->read_bytes = in.reader.read_bytes;
    *out = m;
    m = NULL;
done:
    lh_model_close(m);
    return st;
}

static void free_pieces(lh_device *device, const lh_piece *pieces, int count, void *where)
{
    for (int i = 0; i < count; i++) lh_device_free(device, lh_piece_memory(&pieces[i], where));
}

void lh_model_close(lh_model *model)
{
    if (!model) return;
    lh_device *device = lh_stream_device(model->exec.stream);
    if (model->head.data == model->embed.data) model->head.data = NULL;
    free_pieces(device, lh_model_pieces, LH_MODEL_PIECES, model);
    for (int64_t l = 0; model->layers && l < model->config.layers; l++)
        free_pieces(device, lh_layer_pieces, LH_LAYER_PIECES, &model->layers[l]);
    lh_device_free(device, model->score_weights);
    lh_free(model->layer_shares);
    lh_free(model->layers);
    lh_free(model->projections);
    lh_free(model->formats);
    lh_config_clear(&model->config);
    lh_free(model);
}

void lh_model_take_score_weights(lh_model *model, float *rows, int64_t *layer_shares)
{
    model->score_weights = rows;
    model->layer_shares = layer_shares;
}

const lh_config *lh_model_config(const lh_model *model)
{
    return &model->config;
}

lh_model_options lh_model_options_for(const lh_config *config, const lh_shard *shard, lh_device_kind device,
                                      lh_dtype dtype, lh_order order, const lh_format *const *formats)
{
    const int is_plain = order == LH_ORDER_ANY && !config->post_norms && !config->o_bias && !config->mlp_bias;
    return (lh_model_options){.dtype = dtype,
                              .order = order,
                              .formats = formats,
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

/* Bytes of the output projection of a layer as plain numbers, if one of them has few bits. */
static int64_t projection_bytes(const lh_rank_weights *of)
{
    int64_t bytes = 0;
    for (int64_t l = 0; l < of->config->layers; l++)
        bytes = lh_max_i64(bytes, lh_piece_unpacked_bytes(of, &lh_layer_pieces[LH_PIECE_O], l));
    return bytes;
}

lh_kv_shape lh_config_kv_shape(const lh_config *config, const lh_shard *shard, const lh_model_options *options,
                               const lh_kv_types *types)
{
    return (lh_kv_shape){.heads = shard->heads,
                         .layers = config->layers,
                         .head_dim = config->head_dim,
                         .types = *types,
                         .scale = (float)config->attn_scale,
                         .softcap = (float)config->attn_softcap,
                         .window = config->window,
                         .sliding = config->window ? config->sliding : NULL,
                         .hidden = config->hidden,
                         .max_positions = config->max_positions,
                         .projection_bytes = projection_bytes(&(lh_rank_weights){config, shard, options})};
}

lh_cache_size lh_config_cache_size(const lh_config *config, const lh_kv_types *types, uint64_t score_weights)
{
    const lh_shard whole = {.heads.kv_heads = config->kv_heads};
    const lh_kv_shape shape = lh_config_kv_shape(config, &whole, &(lh_model_options){.dtype = LH_F32}, types);
    lh_cache_size size = lh_kv_cache_size(&shape);
    size.score_weights = score_weights;
    return size;
}

lh_kv_shape lh_model_kv_shape(const lh_model *model, const lh_kv_types *types)
{
    lh_kv_shape shape = lh_config_kv_shape(&model->config, &model->shard, &model->options, types);
    shape.projections = model->projections;
    shape.score_weights = model->score_weights;
    shape.layer_shares = model->layer_shares;
    shape.order = model->options.order;
    return shape;
}
