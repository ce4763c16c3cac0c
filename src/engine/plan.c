/* plan.c - forecasts memory and communication of a run from the configuration alone, rank by rank. */
#include "engine/plan.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "engine/chunk.h"
#include "engine/devices.h"
#include "import/model_header.h"
#include "kv/forecast.h"
#include "model/rotations.h"
#include "model/score_weights.h"
#include "policies/probes.h"

/* An all-reduce sends its buffer once, of products in `type`; the reproducible mode gathers one product a logical shard
 * instead. */
static int64_t sent_per_token(const lh_config *c, const lh_shard *s, lh_order order, lh_dtype type)
{
    if (s->ranks == 1) return 0;
    int64_t products = order == LH_ORDER_FIXED ? s->heads.q_count + s->block_count : 2;
    return c->hidden * 4 + c->layers * products * c->hidden * lh_dtype_bytes(type);
}

/* A rank's numbers but for what depends on the length of chunks, which is asked for in *chunk. */
static lh_status plan_rank(lh_plan_rank *out, const lh_plan_request *r, const lh_model_header *model, lh_plan *plan,
                           lh_chunk_request *chunk)
{
    const lh_config *c = &model->config;
    const int64_t more = r->question + r->max_new;
    const lh_order order = r->engine->deterministic ? LH_ORDER_FIXED : LH_ORDER_ANY;
    lh_kv_forecast kv;
    chunk->options = lh_model_options_for(c, chunk->shard, plan->device, plan->dtype, order, model->formats);
    const lh_model_memory memory = lh_model_memory_of(c, chunk->shard, &chunk->options);
    lh_kv_shape shape = lh_config_kv_shape(c, chunk->shard, &chunk->options, &plan->kv_types);
    shape.profiles = r->profiles;
    shape.layer_shares = plan->layer_shares;
    shape.leads = lh_typical_leads(&plan->policy.score, r->profiles);
    LH_TRY(lh_kv_forecast_make(&kv, &shape,
                               &(lh_kv_forecast_request){.policy = &plan->policy,
                                                         .tokens = r->context,
                                                         .more = r->forks ? 0 : more,
                                                         .fork_more = r->forks ? more : 0,
                                                         .block = r->question,
                                                         .device = plan->device,
                                                         .layer_budgets = plan->layer_budgets}));
    const int64_t entry = lh_entry_bytes(plan->kv_dtype, c->head_dim);
    const int64_t scores = plan->score_weights ? lh_score_weights_bytes(c, &chunk->shard->heads) : 0;
    *out = (lh_plan_rank){.heads = chunk->shard->heads.q_count,
                          .kv_heads = chunk->shard->heads.kv_count,
                          .weights = memory.weights + scores,
                          .kv_kept = kv.entries * entry,
                          .kv_allocated = kv.held,
                          .kv_one_layer = kv.one_layer,
                          .hidden = lh_forward_prompt_bytes(c, r->context + kv.probe_tokens),
                          .unpacked = memory.unpacked,
                          .work = kv.work};
    chunk->config = c;
    chunk->device = plan->device;
    chunk->wanted = r->engine->chunk;
    chunk->tokens = r->context;
    chunk->rows = chunk->sequences = r->forks;
    chunk->room_bytes = plan->free_bytes;
    chunk->else_bytes =
        out->weights + lh_rotations_bytes(c) + lh_max_i64(kv.prefill_peak + out->hidden, kv.decode_peak);
    plan->entries_kept += kv.counted;
    out->decode_read = memory.weights + out->kv_kept - memory.embedding; /* one row of it is read */
    if (c->experts.count) out->decode_read -= memory.experts / c->experts.count * (c->experts.count - c->experts.top_k);
    const lh_dtype sums = chunk->options.rounds_sums ? LH_BF16 : LH_F32;
    out->decode_sent = sent_per_token(c, chunk->shard, order, LH_F32);
    out->prefill_sent = sent_per_token(c, chunk->shard, order, sums) * (r->context + kv.probe_tokens) + kv.summaries;
    return LH_OK;
}

/* All ranks, and the chunks that fit on all of them, or the shortest ones. */
static lh_status plan_ranks(lh_plan *plan, const lh_plan_request *r, const lh_model_header *model)
{
    const lh_config *c = &model->config;
    lh_status st = LH_OK;
    lh_shard *shards = NULL;
    lh_chunk_request *chunks = NULL;
    plan->layers = c->layers;
    LH_TRY_DONE(lh_calloc(&plan->ranks, plan->tp, sizeof *plan->ranks));
    LH_TRY_DONE(lh_calloc(&plan->layer_budgets, plan->layers, sizeof *plan->layer_budgets));
    LH_TRY_DONE(lh_calloc(&shards, plan->tp, sizeof *shards));
    LH_TRY_DONE(lh_calloc(&chunks, plan->tp, sizeof *chunks));
    for (int rank = 0; rank < plan->tp; rank++) {
        LH_TRY_DONE(lh_shard_of(&shards[rank], c, rank, (int)plan->tp));
        chunks[rank].shard = &shards[rank];
        LH_TRY_DONE(plan_rank(&plan->ranks[rank], r, model, plan, &chunks[rank]));
        int64_t longest = lh_chunk_longest(&chunks[rank]);
        plan->chunk = rank ? lh_min_i64(plan->chunk, longest) : longest;
    }
    plan->fits = plan->chunk > 0;
    if (!plan->fits) plan->chunk = lh_chunk_shortest(&chunks[0]);
    for (int rank = 0; rank < plan->tp; rank++) {
        int64_t work = lh_chunk_bytes(&chunks[rank], plan->chunk);
        plan->ranks[rank].work += work - plan->ranks[rank].unpacked;
        plan->ranks[rank].peak = chunks[rank].else_bytes + work;
    }
done:
    lh_free(shards);
    lh_free(chunks);
    return st;
}

/* Every number of a plan stays below 2^63: a configuration may describe a model of any size. */
static lh_status check_sizes(const lh_plan_request *r, const lh_config *c)
{
    double layers = (double)c->layers, hidden = (double)c->hidden, heads = (double)c->heads,
           width = heads * (double)(c->head_dim + 16), shards = heads + LH_FF_BLOCKS_MAX;
    double weights = 4 * hidden * (layers * (4 * width + 3 * (double)lh_config_mlp_channels(c)) + 2 * (double)c->vocab);
    double token = 4 * hidden * (1 + layers * shards) + 64 * layers * width;
    if (weights + token * (double)(r->context + r->question + r->max_new) > 0x1p60)
        LH_FAIL(LH_EINPUT,
                "'%s' describes a model of %lld layers, %lld heads of %lld and a hidden size of %lld: no memory holds "
                "that with %lld tokens",
                r->engine->model, (long long)c->layers, (long long)c->heads, (long long)c->head_dim,
                (long long)c->hidden, (long long)r->context);
    return LH_OK;
}

static lh_status plan_all(lh_plan *plan, const lh_plan_request *r, const lh_model_header *model,
                          const lh_devices_room *room)
{
    const lh_config *c = &model->config;
    if (r->context < 1) LH_FAIL(LH_EUSAGE, "%s must be at least 1 token", lh_setting("context"));
    const int64_t more = r->question + r->max_new;
    if (r->context > c->max_positions - more) {
        const char *asks = r->question ? "ask and " : "", *max_new = lh_setting("max_new");
        char names[64];
        snprintf(names, sizeof names, r->question ? "'%s', '%s'" : "'%s'",
                 r->question ? lh_setting("questions") : max_new, max_new);
        const int64_t max = c->max_positions - more;
        if (max < 1)
            LH_FAIL(LH_EUSAGE,
                    "%lld tokens after the context are more than the %lld positions of the model: %sgenerate less (%s)",
                    (long long)more, (long long)c->max_positions, asks, names);
        LH_FAIL(LH_EUSAGE,
                "%lld tokens of context and %lld more are longer than the %lld positions of the model: at most "
                "'%s %lld' with so many more, or %sgenerate less (%s)",
                (long long)r->context, (long long)more, (long long)c->max_positions, lh_setting("context"),
                (long long)max, asks, names);
    }
    LH_TRY(check_sizes(r, c));
    plan->device = room->kind;
    int64_t part = room->free_bytes / (room->dealt ? (plan->tp + room->dealt - 1) / room->dealt : 1);
    plan->free_bytes = lh_devices_usable(room->kind, part);
    plan->policy = *r->policy;
    plan->kv_dtype = lh_kv_kept_type(&plan->kv_types, &plan->policy);
    const lh_cache_size cache = lh_config_cache_size(c, &plan->kv_types, plan->score_weights);
    LH_TRY(lh_policy_size(&plan->policy, &cache));
    LH_TRY(plan_ranks(plan, r, model));
    plan->budget = lh_policy_entries(&plan->policy, r->context);
    plan->entries = r->context * c->kv_heads * c->layers;
    plan->full_bytes = plan->entries * lh_entry_bytes(plan->kv_types.full, c->head_dim);
    return LH_OK;
}

static lh_status find_score_weights(lh_plan *plan, const lh_engine_options *o, const lh_model_header *header)
{
    const lh_config *c = &header->config;
    lh_score_weights weights;
    LH_TRY(lh_score_weights_find(&weights, &(lh_score_weights_request){o->score_weights, o->model, c->layers,
                                                                       c->kv_heads, c->head_dim, header->identity}));
    plan->score_weights = weights.hash;
    plan->layer_shares = weights.layer_shares;
    weights.layer_shares = NULL;
    lh_score_weights_clear(&weights);
    return LH_OK;
}

/* What plans of a request for any number of ranks share. */
typedef struct plan_basis {
    lh_model_header header;
    lh_devices_room room;
} plan_basis;

static lh_status read_basis(plan_basis *out, const lh_engine_options *engine)
{
    LH_TRY(lh_engine_check(engine));
    LH_TRY(lh_devices_query(
        &out->room,
        &(lh_device_request){.device = engine->device, .share = engine->share_device, .memory = engine->memory}));
    if (!engine->model) LH_FAIL(LH_EUSAGE, "%s is not given, it must name a model", lh_setting("model"));
    return lh_model_header_read(&out->header, engine->model, engine->weights);
}

static lh_status plan_on(lh_plan *out, const lh_plan_request *request, const plan_basis *basis)
{
    lh_status st = LH_OK;
    const lh_model_header *header = &basis->header;
    lh_plan plan = {
        .tp = request->engine->tp ? request->engine->tp : 1, .stored = header->weights, .quantiser = header->quantiser};
    LH_TRY_DONE(lh_engine_dtypes(request->engine, header->stored, &plan.dtype, &plan.kv_types));
    LH_TRY_DONE(find_score_weights(&plan, request->engine, header));
    LH_TRY_DONE(plan_all(&plan, request, header, &basis->room));
    *out = plan;
    plan = (lh_plan){0};
done:
    lh_plan_clear(&plan);
    return st;
}

lh_status lh_plan_make(lh_plan *out, const lh_plan_request *request)
{
    plan_basis basis = {0};
    lh_status st = read_basis(&basis, request->engine);
    if (st == LH_OK) st = plan_on(out, request, &basis);
    lh_model_header_clear(&basis.header);
    return st;
}

void lh_plan_clear(lh_plan *plan)
{
    lh_free(plan->ranks);
    lh_free(plan->layer_budgets);
    lh_free(plan->layer_shares);
    plan->ranks = NULL;
    plan->layer_budgets = plan->layer_shares = NULL;
}

/* 1 if the run fits on so many ranks; -1: the model cannot be divided over them. */
static int fits_on(const lh_plan_request *request, const plan_basis *basis, int64_t tp)
{
    lh_engine_options engine = *request->engine;
    lh_plan_request other = *request;
    lh_plan plan;
    engine.tp = tp;
    other.engine = &engine;
    if (plan_on(&plan, &other, basis) != LH_OK) {
        lh_error_clear();
        return -1;
    }
    int fits = plan.fits;
    lh_plan_clear(&plan);
    return fits;
}

/* Looks for the first number that fits or is too large: each one after it is one of the two, too. */
static int64_t find_ranks(const lh_plan_request *request, const plan_basis *basis)
{
    int64_t low = request->engine->tp ? request->engine->tp : 1, high = low;
    int fits = 0;
    while (fits == 0) {
        low = high;
        high *= 2;
        fits = fits_on(request, basis, high);
    }
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        int there = fits_on(request, basis, middle);
        if (there == 0) {
            low = middle;
        } else {
            high = middle;
            fits = there;
        }
    }
    return fits == 1 ? high : 0;
}

int64_t lh_plan_ranks_needed(const lh_plan_request *request)
{
    plan_basis basis = {0};
    const int64_t ranks = read_basis(&basis, request->engine) == LH_OK ? find_ranks(request, &basis) : 0;
    lh_model_header_clear(&basis.header);
    return ranks;
}

static json_t *rank_json(const lh_plan_rank *r)
{
    json_t *o = json_object();
    json_object_set_new(o, "heads", json_integer(r->heads));
    json_object_set_new(o, "kv_heads", json_integer(r->kv_heads));
    json_object_set_new(o, "weights_bytes", json_integer(r->weights));
    json_object_set_new(o, "kv_kept_bytes", json_integer(r->kv_kept));
    json_object_set_new(o, "kv_allocated_bytes", json_integer(r->kv_allocated));
    json_object_set_new(o, "kv_one_layer_bytes", json_integer(r->kv_one_layer));
    json_object_set_new(o, "hidden_bytes", json_integer(r->hidden));
    json_object_set_new(o, "unpacked_bytes", json_integer(r->unpacked));
    json_object_set_new(o, "work_bytes", json_integer(r->work));
    json_object_set_new(o, "peak_bytes", json_integer(r->peak));
    json_object_set_new(o, "decode_read_bytes_per_token", json_integer(r->decode_read));
    json_object_set_new(o, "prefill_sent_bytes", json_integer(r->prefill_sent));
    json_object_set_new(o, "decode_sent_bytes_per_token", json_integer(r->decode_sent));
    return o;
}

lh_status lh_plan_json(const lh_plan *plan, const lh_plan_request *request, int64_t ranks_needed, json_t **out)
{
    lh_status st = LH_OK;
    json_t *o = NULL, *policy = NULL, *stored = NULL, *ranks = json_array(), *budgets = json_array();
    LH_TRY_DONE(lh_policy_json(&plan->policy, &policy));
    LH_TRY_DONE(lh_format_tally_json(&plan->stored, &stored));
    o = json_object();
    for (int64_t r = 0; r < plan->tp; r++) json_array_append_new(ranks, rank_json(&plan->ranks[r]));
    for (int64_t l = 0; l < plan->layers; l++) json_array_append_new(budgets, json_integer(plan->layer_budgets[l]));
    json_object_set_new(o, "context", json_integer(request->context));
    json_object_set_new(o, "question", json_integer(request->question));
    json_object_set_new(o, "max_new", json_integer(request->max_new));
    json_object_set(o, "policy", policy);
    json_object_set_new(o, "budget", plan->policy.evicts ? json_integer(plan->budget) : json_null());
    json_object_set(o, "layer_budgets", plan->policy.evicts ? budgets : json_null());
    json_object_set_new(o, "entries", json_integer(plan->entries));
    json_object_set_new(o, "entries_kept", json_integer(plan->entries_kept));
    json_object_set_new(o, "dtype", json_string(lh_dtype_name(plan->dtype)));
    json_object_set_new(o, "kv_dtype", json_string(lh_dtype_name(plan->kv_dtype)));
    json_object_set(o, "stored_formats", stored);
    json_object_set(o, "ranks", ranks);
    json_object_set_new(o, "chunk", json_integer(plan->chunk));
    json_object_set_new(o, "device", json_string(lh_device_kind_name(plan->device)));
    json_object_set_new(o, "free_bytes", json_integer(plan->free_bytes));
    json_object_set_new(o, "full_cache_bytes", json_integer(plan->full_bytes));
    json_object_set_new(o, "fits", json_boolean(plan->fits));
    json_object_set_new(o, "fits_from_tp", ranks_needed ? json_integer(ranks_needed) : json_null());
    *out = o;
done:
    json_decref(policy);
    json_decref(stored);
    json_decref(ranks);
    json_decref(budgets);
    return st;
}

double lh_plan_layer_weights(const lh_config *c)
{
    const double q = (double)(c->heads * c->head_dim), kv = (double)(c->kv_heads * c->head_dim);
    return (double)c->hidden * (2 * q + 2 * kv) + 3 * (double)c->hidden * (double)lh_config_mlp_channels_passed(c);
}

/* Query-key pairs of the first n tokens in a layer. */
static double layer_pairs(const lh_config *c, int64_t layer, double n)
{
    const double window = (double)c->window;
    const int slides = c->window > 0 && c->sliding[layer] && window < n;
    return slides ? window * (window + 1) / 2 + (n - window) * window : n * (n + 1) / 2;
}

double lh_plan_attended(const lh_config *c, int64_t tokens)
{
    double pairs = 0;
    for (int64_t l = 0; l < c->layers; l++) pairs += layer_pairs(c, l, (double)tokens);
    return pairs;
}

/* FLOPs of the first n tokens of a prompt in a layer: the products, and the attention to the tokens before each. */
static double layer_flops(const lh_config *c, int64_t layer, double n)
{
    const double q = (double)(c->heads * c->head_dim);
    return 2 * lh_plan_layer_weights(c) * n + 4 * q * layer_pairs(c, layer, n);
}

/* The same of the first `layers` layers. */
static double layers_flops(const lh_config *c, int64_t layers, int64_t tokens)
{
    double flops = 0;
    for (int64_t l = 0; l < layers; l++) flops += layer_flops(c, l, (double)tokens);
    return flops;
}

double lh_plan_prefill_flops(const lh_config *c, int64_t tokens)
{
    return layers_flops(c, c->layers, tokens) + 2 * (double)c->hidden * (double)c->vocab;
}

double lh_plan_prefill_share(const lh_config *c, int64_t tokens, int64_t done)
{
    const int64_t layer = done / tokens;
    double flops = layers_flops(c, layer, tokens);
    if (layer < c->layers) flops += layer_flops(c, layer, (double)(done % tokens));
    return flops / layers_flops(c, c->layers, tokens);
}
