#include "engine/plan_time.h"

#include <math.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "engine/read_rate.h"
#include "engine/session.h"
#include "import/model_header.h"
#include "policies/probes.h"

/* Bytes of weights that no processor's cache holds; maximum bytes of all entries of the long caches. */
static const int64_t WEIGHT_BYTES = INT64_C(256) << 20, ENTRY_BYTES = INT64_C(512) << 20;

/* Entries of the short and the long caches, tokens of a block, and the steps that are timed together; each is repeated,
 * and the fastest counts, because a shared host delays some. */
enum { FEW = 64, MANY = 32768, BLOCK = 256, STEPS = 4, REPEATS = 3 };

/* Layers with so many entries in each head of their caches. */
typedef struct measured {
    int64_t layers, entries, block;
    double block_s, step_s;
} measured;

/* Query-key pairs of a block. */
static double block_pairs(const measured *m)
{
    return (double)m->block * ((double)m->entries + (double)(m->block + 1) / 2);
}

/* Leaves the entries as zeros: their values do not change the time. */
static lh_status read_zeros(void *self, int64_t layer, void *keys, void *values)
{
    (void)self;
    (void)layer;
    (void)keys;
    (void)values;
    return LH_OK;
}

/* Waits for the work on the device. */
static lh_status wait_for(lh_session *s)
{
    int32_t id;
    return lh_session_sample(s, NULL, 0, &id);
}

static lh_status time_session(lh_session *s, const int32_t *ids, measured *m)
{
    m->block_s = m->step_s = INFINITY;
    for (int i = 0; i < REPEATS; i++) {
        double start = lh_clock_s();
        LH_TRY(lh_session_block(s, ids, m->block));
        LH_TRY(wait_for(s));
        m->block_s = fmin(m->block_s, lh_clock_s() - start);
    }
    for (int i = 0; i < REPEATS; i++) {
        double start = lh_clock_s();
        for (int step = 0; step < STEPS; step++) {
            LH_TRY(lh_session_step(s, ids[step]));
            LH_TRY(wait_for(s));
        }
        m->step_s = fmin(m->step_s, (lh_clock_s() - start) / STEPS);
    }
    return LH_OK;
}

static lh_status measure(lh_engine *engine, measured *m)
{
    lh_status st = LH_OK;
    const int64_t vocab = lh_engine_get(engine)->config->vocab, more = REPEATS * (m->block + STEPS);
    lh_session *session = NULL;
    lh_policy full;
    int32_t *ids = NULL;
    float *logits = NULL;
    LH_TRY_DONE(lh_policy_resolve(&full, &(lh_policy_options){0}));
    LH_TRY_DONE(lh_calloc(&ids, lh_max_i64(m->entries, BLOCK), sizeof *ids));
    LH_TRY_DONE(lh_calloc(&logits, vocab, sizeof *logits));
    for (int64_t t = 0; t < lh_max_i64(m->entries, BLOCK); t++)
        ids[t] = (int32_t)((t * 7919 + 13) % vocab); /* for many experts */
    LH_TRY_DONE(lh_session_open(
        &session, engine,
        &(lh_session_options){
            .policy = &full, .prompt = m->entries, .more = more, .length = m->entries + more, .block = m->block}));
    LH_TRY_DONE(lh_session_fill(
        session, &(lh_session_prompt){.ids = ids, .n = m->entries, .logits = logits, .read = read_zeros}));
    LH_TRY_DONE(time_session(session, ids, m));
done:
    lh_session_close(session);
    lh_free(ids);
    lh_free(logits);
    return st;
}

/* Bytes of a tensor of the model, on all ranks together: blocks as in the file, although a matrix is plain in memory if
 * its shards end within a block; plain numbers as in memory. */
static double tensor_bytes(const lh_plan *plan, const lh_model_header *model, lh_weight w, int64_t layer)
{
    const lh_format *stored = model->formats ? lh_weight_format(model->formats, w, layer) : NULL,
                    *format = stored && !stored->is_plain ? stored : lh_format_of(lh_weight_type(w, plan->dtype));
    int64_t rows, cols;
    lh_weight_shape(&model->config, w, &rows, &cols);
    return (double)lh_format_bytes(format, rows * cols);
}

/* Bytes of the matrices of a layer; read: of those that a token is multiplied by. */
static double layer_bytes_of(const lh_plan *plan, const lh_model_header *model, int64_t layer, double *read)
{
    static const lh_weight attention[] = {LH_W_Q, LH_W_K, LH_W_V, LH_W_O}, mlp[] = {LH_W_GATE, LH_W_UP, LH_W_DOWN};
    const lh_config *c = &model->config;
    const double passed = (double)lh_config_mlp_channels_passed(c) / (double)lh_config_mlp_channels(c);
    double bytes = 0;
    for (size_t i = 0; i < sizeof attention / sizeof *attention; i++)
        bytes += tensor_bytes(plan, model, attention[i], layer);
    *read = bytes;
    for (size_t i = 0; i < sizeof mlp / sizeof *mlp; i++) {
        const double own = tensor_bytes(plan, model, mlp[i], layer);
        bytes += own;
        *read += own * passed;
    }
    return bytes;
}

/* Bytes of the matrices that a token is multiplied by in the first layers. */
static double read_bytes_of(const lh_plan *plan, const lh_model_header *model, int64_t layers)
{
    double sum = 0;
    for (int64_t l = 0; l < layers; l++) {
        double read;
        layer_bytes_of(plan, model, l, &read);
        sum += read;
    }
    return sum;
}

static measured what_to_measure(const lh_plan_request *request, const lh_plan *plan, const lh_model_header *model)
{
    const lh_config *c = &model->config;
    double read;
    const int64_t layer_bytes = (int64_t)(layer_bytes_of(plan, model, 0, &read) / (double)plan->tp);
    const int64_t layers = lh_min_i64(c->layers, WEIGHT_BYTES / lh_max_i64(layer_bytes, 1) + 1);
    const int64_t kv_heads = (c->kv_heads + plan->tp - 1) / plan->tp;
    const int64_t token_bytes = layers * kv_heads * lh_entry_bytes(plan->kv_dtype, c->head_dim);
    const int64_t most = lh_min_i64(MANY, ENTRY_BYTES / token_bytes);
    return (measured){.layers = layers,
                      .entries = lh_max_i64(lh_min_i64(request->context, most), 16 * FEW),
                      .block = lh_min_i64(lh_min_i64(BLOCK, plan->chunk), request->context)};
}

/* An engine of the layers, on this process alone. */
static lh_status open_layers(lh_engine **out, int64_t layers, lh_comm *self, const lh_plan_request *request,
                             const lh_plan *plan, const lh_model_header *model)
{
    lh_checkpoint *part = NULL;
    lh_engine_options options = lh_engine_defaults(request->engine);
    options.tp = 0;
    options.memory = 0; /* of the planned machine */
    options.chunk = 0;
    options.dtype = lh_dtype_name(plan->dtype);
    options.kv_dtype = lh_dtype_name(plan->kv_dtype);
    LH_TRY(lh_checkpoint_open_layers(&part, &(lh_checkpoint_part){&model->config, model->formats, layers, plan->tp}));
    return lh_engine_open_model(out, self, part, &options);
}

/* Seconds of a layer: of a token in a block and of a step without a cache, and of each query-key pair of both. */
typedef struct rates {
    double token_s, pair_s, step_s, entry_s;
} rates;

static rates rates_of(const measured *few, const measured *many)
{
    const double layers = (double)few->layers, block_s = few->block_s / layers, step_s = few->step_s / layers;
    const double pair_s = (many->block_s / layers - block_s) / (block_pairs(many) - block_pairs(few));
    const double entry_s = (many->step_s / layers - step_s) / (double)(many->entries - few->entries);
    rates r = {.pair_s = fmax(pair_s, 0), .entry_s = fmax(entry_s, 0)};
    r.token_s = fmax(block_s - r.pair_s * block_pairs(few), 0) / (double)few->block;
    r.step_s = fmax(step_s - r.entry_s * (double)few->entries, 0);
    return r;
}

/* Query-key pairs of the probe tokens in a layer, and their number, after the prompt. */
static double probe_pairs(const lh_policy_numbers *fixed, const lh_plan_request *request, int64_t *probes)
{
    const lh_probe_leads leads = lh_typical_leads(&fixed->score, request->profiles);
    const int64_t tokens = request->context;
    double pairs = 0;
    *probes = lh_probe_tokens(fixed, tokens, &leads);
    for (int64_t i = 0; i < lh_probe_segments(fixed, tokens, &leads); i++) {
        const lh_probe_segment s = lh_probe_segment_of(fixed, tokens, &leads, i);
        const int64_t rows = s.lead + s.tokens,
                      before = lh_probes_see_all(fixed) ? tokens : lh_probe_sinks(fixed, &s) + s.tokens;
        pairs += (double)rows * ((double)before + (double)(rows + 1) / 2);
    }
    return pairs;
}

/* layers: the number of measured layers, which lack lm_head and may have other formats than the rest of the model. A
 * step reads all weights at the rate of the measured weights; the products of a prompt take about the same time in any
 * format. */
static lh_plan_time time_of(const lh_plan_request *request, const lh_plan *plan, const lh_model_header *model,
                            const rates *r, int64_t layers)
{
    const lh_config *c = &model->config;
    const double measured_bytes = read_bytes_of(plan, model, layers) / (double)layers;
    const double weight_bytes =
        read_bytes_of(plan, model, c->layers) + tensor_bytes(plan, model, c->tied ? LH_W_EMBED : LH_W_HEAD, 0);
    const double kept = (double)plan->entries_kept / (double)c->kv_heads;
    const double grown = plan->policy.every ? 0 : (double)(c->layers * (2 * request->question + request->max_new)) / 2;
    const lh_policy_numbers fixed = lh_policy_fix(&plan->policy, request->context);
    int64_t probes;
    const double pairs =
        lh_plan_attended(c, request->context) + (double)c->layers * probe_pairs(&fixed, request, &probes);
    lh_plan_time t = {.prefill_s = r->token_s * (double)(c->layers * (request->context + probes)) + r->pair_s * pairs,
                      .step_s = r->step_s * weight_bytes / measured_bytes + r->entry_s * (kept + grown)};
    t.decode_s = t.step_s * (double)request->max_new;
    return t;
}

lh_status lh_plan_measure(lh_plan_time *out, const lh_plan_request *request, const lh_plan *plan)
{
    lh_status st = LH_OK;
    lh_comm *self = NULL;
    lh_engine *engine = NULL;
    lh_model_header header = {0};
    LH_TRY_DONE(lh_model_header_read(&header, request->engine->model, request->engine->weights));
    measured many = what_to_measure(request, plan, &header), few = many, warm;
    few.entries = FEW;
    warm = few;
    LH_TRY_DONE(lh_comm_open_self(&self));
    LH_TRY_DONE(open_layers(&engine, many.layers, self, request, plan, &header));
    LH_TRY_DONE(measure(engine, &warm));
    LH_TRY_DONE(measure(engine, &few));
    LH_TRY_DONE(measure(engine, &many));
    const rates r = rates_of(&few, &many);
    *out = time_of(request, plan, &header, &r, many.layers);
done:
    lh_engine_close(engine);
    lh_comm_close(self);
    lh_model_header_clear(&header);
    return st;
}

lh_status lh_plan_read(lh_plan_reads *out, const lh_plan *plan, double bytes_per_s)
{
    const int shared = bytes_per_s == 0 && plan->device == LH_DEVICE_CPU;
    double bytes = 0;
    for (int64_t r = 0; r < plan->tp; r++) {
        const double own = (double)plan->ranks[r].decode_read;
        bytes = shared ? bytes + own : fmax(bytes, own);
    }
    if (bytes_per_s == 0) LH_TRY(lh_read_rate(&bytes_per_s, plan->device, plan->free_bytes));
    *out = (lh_plan_reads){bytes, bytes_per_s, bytes_per_s / bytes};
    return LH_OK;
}

json_t *lh_plan_time_json(const lh_plan_time *t)
{
    return json_pack("{s:f, s:f, s:f}", "prefill_s", t->prefill_s, "step_s", t->step_s, "decode_s", t->decode_s);
}
