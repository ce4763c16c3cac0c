/* config.c - reads a configuration in the format of Hugging Face's config.json. Absent members take the defaults of
 * the family; every size is bounded and compared with related sizes, so that later arithmetic cannot overflow. Rotary
 * embeddings are in config_rope.c. */
#include "import/config.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "import/config_impl.h"
#include "import/families.h"
#include "import/quantiser.h"

/* Bounds that keep every product of two sizes far below 2^63. */
enum { LAYERS_MAX = 10000, WIDTH_MAX = 1 << 24, HEADS_MAX = 1 << 16, VOCAB_MAX = INT32_MAX, EXPERTS_MAX = 1024 };

/* `what`: the subject of the message. */
static lh_status unknown_family(const char *name, const char *what, const char *said)
{
    lh_status st = LH_OK;
    lh_buf known = {0};
    for (int i = 0; lh_family_at(i); i++)
        LH_TRY_DONE(lh_buf_printf(&known, "%s%s", i ? ", " : "", lh_family_at(i)->name));
    LH_FAIL_DONE(LH_EINPUT, "'%s': %s '%s' is unknown: %s are known", name, what, said, known.data);
done:
    lh_buf_clear(&known);
    return st;
}

const json_t *lh_config_text_of(const json_t *json)
{
    const json_t *text = json_object_get(json, "text_config");
    return json_is_object(text) ? text : json;
}

/* Both the whole model and its text model must be known; the text model's name decides. */
static lh_status find_family(const json_t *json, const char *name, const lh_family **out)
{
    const json_t *text = lh_config_text_of(json);
    const char *type = NULL, *text_type = NULL,
               *architecture = json_string_value(json_array_get(json_object_get(json, "architectures"), 0));
    LH_TRY(lh_json_string(json, name, "model_type", &type));
    LH_TRY(lh_json_string(text, name, "model_type", &text_type));
    if (!type && !architecture)
        LH_FAIL(LH_EINPUT, "'%s' has neither 'model_type' nor 'architectures': it is no model's configuration", name);
    *out = lh_family_find(type ? type : architecture);
    if (!*out) return unknown_family(name, "the architecture", type ? type : architecture);
    if (text != json && text_type) *out = lh_family_find(text_type);
    if (!*out) return unknown_family(name, "the text model ('model_type' of 'text_config')", text_type);
    return LH_OK;
}

/* A size: value `absent` if it is absent, `null` if it is null; a value of 0 means that the size is required. */
typedef struct size_rule {
    const char *key;
    int64_t absent, null, max;
} size_rule;

static lh_status read_size(const json_t *json, const char *name, const size_rule *rule, int64_t *out)
{
    const json_t *value = json_object_get(json, rule->key);
    *out = !value ? rule->absent : rule->null;
    if (value && !json_is_null(value)) LH_TRY(lh_json_i64(json, name, rule->key, 1, rule->max, out));
    if (*out < 1) LH_FAIL(LH_EINPUT, "'%s': '%s' is missing", name, rule->key);
    return LH_OK;
}

static lh_status read_sizes(lh_config *c, const json_t *json, const char *name)
{
    const lh_family_defaults *d = &c->family->defaults;
    const lh_expert_rule *e = c->family->experts;
    double partial = 1;
    LH_TRY(read_size(json, name, &(size_rule){"vocab_size", d->vocab, 0, VOCAB_MAX}, &c->vocab));
    LH_TRY(read_size(json, name, &(size_rule){"hidden_size", d->hidden, 0, WIDTH_MAX}, &c->hidden));
    LH_TRY(read_size(json, name,
                     &(size_rule){e ? e->ff_key : "intermediate_size", e && e->ff ? e->ff : d->ff, 0, WIDTH_MAX},
                     &c->ff));
    LH_TRY(read_size(json, name, &(size_rule){"num_hidden_layers", d->layers, 0, LAYERS_MAX}, &c->layers));
    LH_TRY(read_size(json, name, &(size_rule){"num_attention_heads", d->heads, 0, HEADS_MAX}, &c->heads));
    LH_TRY(read_size(json, name,
                     &(size_rule){"num_key_value_heads", d->kv_heads ? d->kv_heads : c->heads, c->heads, HEADS_MAX},
                     &c->kv_heads));
    int64_t even_share = c->hidden / c->heads;
    LH_TRY(read_size(json, name,
                     &(size_rule){"head_dim", d->head_dim ? d->head_dim : even_share, even_share, HEADS_MAX},
                     &c->head_dim));
    LH_TRY(read_size(json, name,
                     &(size_rule){"max_position_embeddings", d->max_positions, d->max_positions, (int64_t)1 << 40},
                     &c->max_positions));
    if (c->heads % c->kv_heads != 0)
        LH_FAIL(LH_EINPUT, "'%s': 'num_attention_heads' is %lld, it must be a multiple of 'num_key_value_heads', %lld",
                name, (long long)c->heads, (long long)c->kv_heads);
    LH_TRY(lh_json_f64(json_object_get(json, "rope_parameters"), name, "partial_rotary_factor", &partial));
    LH_TRY(lh_json_f64(json, name, "partial_rotary_factor", &partial));
    if (!(partial > 0 && partial <= 1))
        LH_FAIL(LH_EINPUT, "'%s': 'partial_rotary_factor' must be above 0 and at most 1", name);
    c->rotary_dim = (int64_t)((double)c->head_dim * partial);
    if (c->rotary_dim < 2 || c->rotary_dim % 2)
        LH_FAIL(LH_EINPUT, "'%s': %lld dimensions of a head are rotated, it must be an even number", name,
                (long long)c->rotary_dim);
    return LH_OK;
}

/* The number of experts, which one of two members states: transformers 5 writes num_local_experts in all families. */
static lh_status read_expert_count(lh_config *c, const json_t *json, const char *name)
{
    static const char *const keys[] = {"num_experts", "num_local_experts"};
    int64_t counts[2] = {0, 0};
    for (int i = 0; i < 2; i++) LH_TRY(lh_json_i64(json, name, keys[i], 1, EXPERTS_MAX, &counts[i]));
    if (counts[0] && counts[1] && counts[0] != counts[1])
        LH_FAIL(LH_EINPUT, "'%s': '%s' is %lld and '%s' is %lld: they must be equal", name, keys[0],
                (long long)counts[0], keys[1], (long long)counts[1]);
    c->experts.count = counts[0] ? counts[0] : counts[1] ? counts[1] : c->family->experts->count;
    return LH_OK;
}

/* Every layer must be a mixture: dense layers would have MLPs of another width. */
static lh_status read_experts(lh_config *c, const json_t *json, const char *name)
{
    const lh_expert_rule *rule = c->family->experts;
    const json_t *dense = lh_json_member(json, "mlp_only_layers");
    int64_t every = 1;
    if (!rule) return LH_OK;
    LH_TRY(read_expert_count(c, json, name));
    LH_TRY(read_size(json, name, &(size_rule){"num_experts_per_tok", rule->top_k, 0, EXPERTS_MAX}, &c->experts.top_k));
    if (c->experts.top_k > c->experts.count)
        LH_FAIL(LH_EINPUT, "'%s': 'num_experts_per_tok' is %lld, it must be at most 'num_experts', %lld", name,
                (long long)c->experts.top_k, (long long)c->experts.count);
    c->experts.normalised = rule->always_normalised;
    if (!rule->always_normalised) LH_TRY(lh_json_bool(json, name, "norm_topk_prob", &c->experts.normalised));
    LH_TRY(lh_json_i64(json, name, "decoder_sparse_step", INT64_MIN, INT64_MAX, &every));
    if (every != 1)
        LH_FAIL(LH_EINPUT, "'%s': 'decoder_sparse_step' is %lld: only 1 is supported, every layer a mixture of experts",
                name, (long long)every);
    if (dense && (!json_is_array(dense) || json_array_size(dense) > 0))
        LH_FAIL(LH_EINPUT,
                "'%s': 'mlp_only_layers' must be empty: only models are supported whose layers are all "
                "mixtures of experts",
                name);
    return LH_OK;
}

static lh_status read_activation(lh_config *c, const json_t *json, const char *name)
{
    static const struct {
        const char *name;
        lh_activation activation;
    } known[] = {{"silu", LH_ACT_SILU},
                 {"swish", LH_ACT_SILU},
                 {"gelu_pytorch_tanh", LH_ACT_GELU_TANH},
                 {"gelu_new", LH_ACT_GELU_TANH},
                 {"gelu", LH_ACT_GELU}};
    const char *said = NULL;
    c->activation = c->family->activation;
    LH_TRY(lh_json_string(json, name, c->family->activation_key, &said));
    if (!said) return LH_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].name, said) != 0) continue;
        c->activation = known[i].activation;
        return LH_OK;
    }
    LH_FAIL(LH_EINPUT, "'%s': '%s' is '%s': silu, gelu_pytorch_tanh and gelu are known", name,
            c->family->activation_key, said);
}

/* A soft cap: the family's default if absent, none if null. */
static lh_status read_softcap(const json_t *json, const char *name, const char *key, double *inout)
{
    const json_t *value = json_object_get(json, key);
    if (value && json_is_null(value)) *inout = 0;
    LH_TRY(lh_json_f64(json, name, key, inout));
    if (!isfinite(*inout) || *inout < 0) LH_FAIL(LH_EINPUT, "'%s': '%s' must not be negative", name, key);
    return LH_OK;
}

static lh_status read_multiplier(const json_t *json, const char *name, const char *key, double *out)
{
    *out = 1;
    LH_TRY(lh_json_f64(json, name, key, out));
    if (!isfinite(*out) || *out <= 0) LH_FAIL(LH_EINPUT, "'%s': '%s' must be greater than 0", name, key);
    return LH_OK;
}

/* Granite's. There the outputs of attention and MLP are multiplied by r before they are added to the residual. Here
 * the residual is divided by r instead: embeddings are divided by r, and a norm, which depends on the length of its
 * row only by eps, takes eps / r^2. */
static lh_status read_multipliers(lh_config *c, const json_t *json, const char *name)
{
    double residual, logits;
    LH_TRY(read_multiplier(json, name, "attention_multiplier", &c->attn_scale));
    LH_TRY(read_multiplier(json, name, "embedding_multiplier", &c->embed_scale));
    LH_TRY(read_multiplier(json, name, "residual_multiplier", &residual));
    LH_TRY(read_multiplier(json, name, "logits_scaling", &logits));
    c->embed_scale /= residual;
    c->norm_eps /= residual * residual;
    c->logit_scale = 1 / logits;
    return LH_OK;
}

static lh_status read_scales(lh_config *c, const json_t *json, const char *name)
{
    const lh_family *f = c->family;
    double scalar = f->defaults.query_scalar > 0 ? f->defaults.query_scalar : (double)c->head_dim;
    c->norm_eps = f->defaults.norm_eps;
    LH_TRY(lh_json_f64(json, name, "rms_norm_eps", &c->norm_eps));
    if (!(c->norm_eps >= 0 && c->norm_eps < 1)) LH_FAIL(LH_EINPUT, "'%s': 'rms_norm_eps' must be in [0, 1)", name);
    if (f->gemma) LH_TRY(lh_json_f64(json, name, "query_pre_attn_scalar", &scalar));
    if (!(scalar > 0) || !isfinite(scalar))
        LH_FAIL(LH_EINPUT, "'%s': 'query_pre_attn_scalar' must be greater than 0", name);
    c->attn_scale = 1 / sqrt(scalar);
    c->norm_offset = f->gemma ? 1 : 0;
    c->embed_scale = f->gemma ? sqrt((double)c->hidden) : 1;
    c->logit_scale = 1;
    c->pre_norms = f->norms != LH_NORMS_AFTER;
    c->post_norms = f->norms != LH_NORMS_BEFORE;
    c->qk_norm = f->qk_norm;
    c->attn_softcap = f->defaults.attn_softcap;
    c->final_softcap = f->defaults.final_softcap;
    if (f->attn_softcap) LH_TRY(read_softcap(json, name, "attn_logit_softcapping", &c->attn_softcap));
    if (f->final_softcap) LH_TRY(read_softcap(json, name, "final_logit_softcapping", &c->final_softcap));
    return f->multipliers ? read_multipliers(c, json, name) : LH_OK;
}

/* A member of the text model, or else of the whole model. */
static const json_t *member_of(const json_t *text, const json_t *whole, const char *key)
{
    const json_t *value = json_object_get(text, key);
    return value && !json_is_null(value) ? value : json_object_get(whole, key);
}

static lh_status read_switches(lh_config *c, const json_t *json, const json_t *whole, const char *name)
{
    int attention_bias = 0, bidirectional = 0;
    lh_quantiser quantiser;
    c->tied = c->family->defaults.tied;
    LH_TRY(lh_json_bool(json, name, "tie_word_embeddings", &c->tied));
    LH_TRY(lh_json_bool(whole, name, "tie_word_embeddings", &c->tied)); /* the whole model's member decides */
    LH_TRY(lh_json_bool(json, name, "attention_bias", &attention_bias));
    c->qkv_bias = c->family->bias == LH_BIAS_QKV;
    if (c->family->bias == LH_BIAS_PARTS) {
        c->qkv_bias = 1;
        LH_TRY(lh_json_bool(json, name, "attention_bias", &c->qkv_bias));
        LH_TRY(lh_json_bool(json, name, "attention_out_bias", &c->o_bias));
        LH_TRY(lh_json_bool(json, name, "mlp_bias", &c->mlp_bias));
    }
    if (c->family->bias == LH_BIAS_OPTION) {
        c->qkv_bias = c->o_bias = attention_bias;
        LH_TRY(lh_json_bool(json, name, "mlp_bias", &c->mlp_bias));
    }
    LH_TRY(lh_json_bool(json, name, "use_bidirectional_attention", &bidirectional));
    if (bidirectional) LH_FAIL(LH_EINPUT, "'%s': 'use_bidirectional_attention' is not for causal models", name);
    return lh_quantiser_read(&quantiser, whole, name);
}

/* 'layer_types' where it decides which layers slide, or else NULL. */
static const json_t *listed_types(const lh_config *c, const json_t *json)
{
    const int is_read = c->family->window != LH_WINDOW_ALL && c->family->window != LH_WINDOW_ASKED;
    return is_read ? lh_json_member(json, "layer_types") : NULL;
}

static lh_status read_listed_types(lh_config *c, const json_t *types, const char *name)
{
    if ((int64_t)json_array_size(types) != c->layers)
        LH_FAIL(LH_EINPUT, "'%s': 'layer_types' must list %lld layers", name, (long long)c->layers);
    for (int64_t l = 0; l < c->layers; l++) {
        const char *type = json_string_value(json_array_get(types, (size_t)l));
        c->sliding[l] = type && strcmp(type, "sliding_attention") == 0;
        if (!type || (!c->sliding[l] && strcmp(type, "full_attention") != 0))
            LH_FAIL(LH_EINPUT, "'%s': 'layer_types' of layer %lld must be 'full_attention' or 'sliding_attention'",
                    name, (long long)l);
    }
    return LH_OK;
}

/* Letters that repeat over the layers, L (local) for one that slides and G (global) for one that does not. */
static lh_status read_letters(lh_config *c, const char *letters, const char *name)
{
    const size_t n = strlen(letters);
    if (n == 0 || strspn(letters, "LG") != n)
        LH_FAIL(LH_EINPUT,
                "'%s': 'sliding_window_pattern' is '%s': it must be a number or letters L (a layer that slides) and G",
                name, letters);
    for (int64_t l = 0; l < c->layers; l++) c->sliding[l] = letters[(size_t)l % n] == 'L';
    return LH_OK;
}

/* Sliding layers by the rule of the family, where no list decides. */
static lh_status apply_window_rule(lh_config *c, const json_t *json, const char *name)
{
    const lh_window_rule rule = c->family->window;
    const json_t *letters = json_object_get(json, "sliding_window_pattern");
    int64_t pattern = c->family->defaults.pattern;
    if (rule == LH_WINDOW_PATTERN && json_is_string(letters)) return read_letters(c, json_string_value(letters), name);
    if (rule == LH_WINDOW_LATE) LH_TRY(lh_json_i64(json, name, "max_window_layers", 0, LAYERS_MAX, &pattern));
    if (rule == LH_WINDOW_PATTERN) LH_TRY(lh_json_i64(json, name, "sliding_window_pattern", 1, LAYERS_MAX, &pattern));
    for (int64_t l = 0; l < c->layers; l++)
        c->sliding[l] = rule == LH_WINDOW_ALL || rule == LH_WINDOW_ASKED || (rule == LH_WINDOW_LATE && l >= pattern) ||
                        (rule == LH_WINDOW_PATTERN && (l + 1) % pattern != 0) ||
                        (rule == LH_WINDOW_UNROTATED && c->unrotated[l]);
    return LH_OK;
}

static lh_status read_windows(lh_config *c, const json_t *json, const char *name)
{
    lh_window_rule rule = c->family->window;
    int asked = rule == LH_WINDOW_LATE || rule == LH_WINDOW_UNROTATED || rule == LH_WINDOW_ASKED;
    int use = !asked, any = 0;
    const json_t *said = json_object_get(json, "sliding_window"), *types = listed_types(c, json);
    LH_TRY(lh_calloc(&c->sliding, c->layers, sizeof *c->sliding));
    if (rule == LH_WINDOW_NONE) return LH_OK;
    if (asked) LH_TRY(lh_json_bool(json, name, "use_sliding_window", &use));
    c->window = said ? 0 : c->family->defaults.window; /* null: none */
    LH_TRY(lh_json_i64(json, name, "sliding_window", 0, INT64_MAX, &c->window));
    if (!use || c->window == 0) {
        c->window = 0;
        return LH_OK;
    }
    LH_TRY(types ? read_listed_types(c, types, name) : apply_window_rule(c, json, name));
    for (int64_t l = 0; l < c->layers; l++) any |= c->sliding[l];
    if (!any) c->window = 0;
    return LH_OK;
}

/* 'no_rope_layers' holds 1 for a layer that is rotated. */
static lh_status read_no_rope_layers(lh_config *c, const json_t *json, const char *name)
{
    const json_t *list = lh_json_member(json, "no_rope_layers");
    int64_t every = c->family->defaults.unrotated;
    LH_TRY(lh_json_i64(json, name, "no_rope_layer_interval", 1, LAYERS_MAX, &every));
    if (list && (int64_t)json_array_size(list) != c->layers)
        LH_FAIL(LH_EINPUT, "'%s': 'no_rope_layers' must list %lld layers", name, (long long)c->layers);
    for (int64_t l = 0; l < c->layers; l++) {
        const json_t *rotated = list ? json_array_get(list, (size_t)l) : NULL;
        if (list && !json_is_integer(rotated))
            LH_FAIL(LH_EINPUT, "'%s': 'no_rope_layers' of layer %lld must be 0 or 1", name, (long long)l);
        c->unrotated[l] = list ? json_integer_value(rotated) == 0 : (l + 1) % every == 0;
    }
    return LH_OK;
}

static lh_status push_eos(lh_config *c, const json_t *value, const char *name)
{
    int64_t max = (int64_t)(sizeof c->eos / sizeof *c->eos);
    if (!json_is_integer(value)) LH_FAIL(LH_EINPUT, "'%s': 'eos_token_id' must be a number or a list of them", name);
    if (c->eos_count == max) LH_FAIL(LH_EINPUT, "'%s': 'eos_token_id' lists more than %lld", name, (long long)max);
    c->eos[c->eos_count++] = json_integer_value(value);
    return LH_OK;
}

static lh_status read_ids(lh_config *c, const json_t *text, const json_t *whole, const char *name)
{
    const json_t *bos = member_of(text, whole, "bos_token_id"), *eos = member_of(text, whole, "eos_token_id"), *id;
    size_t i;
    c->bos = bos ? -1 : c->family->defaults.bos;
    if (json_is_array(bos)) bos = json_array_get(bos, 0);
    if (json_is_integer(bos)) c->bos = json_integer_value(bos);
    if (!eos && c->family->defaults.eos >= 0) c->eos[c->eos_count++] = c->family->defaults.eos;
    if (json_is_array(eos))
        json_array_foreach(eos, i, id) LH_TRY(push_eos(c, id, name));
    else if (eos && !json_is_null(eos))
        LH_TRY(push_eos(c, eos, name));
    return LH_OK;
}

/* Positions after scaling. max_position_embeddings often holds the length before scaling, as Hugging Face asks for with
 * linear and dynamic scaling; Gemma 3 (two rotary embeddings) holds the length after it. Positions have 32 bits. */
static void stretch(lh_config *c)
{
    const lh_rope *rope = &c->rope_global;
    double reach = (double)c->max_positions;
    if (rope->kind == LH_ROPE_YARN) reach = (double)rope->original_positions * rope->factor;
    if (rope->kind == LH_ROPE_DYNAMIC || (rope->kind == LH_ROPE_LINEAR && c->family->defaults.local_theta == 0))
        reach *= rope->factor;
    if (reach > (double)c->max_positions && reach < 0x1p40) c->max_positions = (int64_t)reach;
    c->max_positions = lh_min_i64(c->max_positions, INT32_MAX);
}

lh_status lh_config_parse(lh_config *config, const json_t *json, const char *name)
{
    lh_status st = LH_OK;
    lh_config c = {0};
    const json_t *outer = json;
    if (!json_is_object(json)) LH_FAIL_DONE(LH_EINPUT, "'%s' must be a JSON object", name);
    LH_TRY_DONE(find_family(json, name, &c.family));
    json = lh_config_text_of(json);
    LH_TRY_DONE(lh_config_refuse_members(outer, name));
    LH_TRY_DONE(lh_config_refuse_members(json, name));
    LH_TRY_DONE(read_sizes(&c, json, name));
    LH_TRY_DONE(read_experts(&c, json, name));
    LH_TRY_DONE(read_activation(&c, json, name));
    LH_TRY_DONE(read_scales(&c, json, name));
    LH_TRY_DONE(read_switches(&c, json, outer, name));
    if (c.experts.count && c.mlp_bias)
        LH_FAIL_DONE(LH_EINPUT, "'%s': 'mlp_bias' is set: experts with biases are not supported", name);
    LH_TRY_DONE(lh_calloc(&c.unrotated, c.layers, sizeof *c.unrotated));
    if (c.family->unrotated == LH_UNROTATED_LISTED) LH_TRY_DONE(read_no_rope_layers(&c, json, name));
    LH_TRY_DONE(read_windows(&c, json, name));
    for (int64_t l = 0; l < c.layers && c.family->unrotated == LH_UNROTATED_FULL; l++)
        c.unrotated[l] = c.window > 0 && !c.sliding[l];
    LH_TRY_DONE(lh_config_rope(&c, json, name));
    LH_TRY_DONE(read_ids(&c, json, outer, name));
    stretch(&c);
    *config = c;
    c = (lh_config){0};
done:
    lh_config_clear(&c);
    return st;
}

lh_status lh_config_parse_text(lh_config *config, const char *text, int64_t bytes, const char *name)
{
    lh_status st = LH_OK;
    json_t *json = NULL;
    LH_TRY_DONE(lh_json_parse(&json, name, text, bytes));
    LH_TRY_DONE(lh_config_parse(config, json, name));
done:
    json_decref(json);
    return st;
}

/* *array: of `count` elements of `size` bytes, replaced by a copy; NULL stays. */
static lh_status copy_array(void *array, int64_t count, int64_t size)
{
    void **at = array, *of = *at;
    *at = NULL;
    if (!of) return LH_OK;
    LH_TRY(lh_calloc(at, count, size));
    memcpy(*at, of, (size_t)(count * size));
    return LH_OK;
}

lh_status lh_config_copy(lh_config *out, const lh_config *of)
{
    const int64_t pairs = of->rotary_dim / 2;
    lh_rope *ropes[] = {&out->rope_global, &out->rope_local};
    *out = *of;
    lh_status st = copy_array(&out->sliding, of->layers, sizeof *of->sliding);
    lh_status other = copy_array(&out->unrotated, of->layers, sizeof *of->unrotated);
    if (st == LH_OK) st = other;
    for (int i = 0; i < 2; i++) {
        other = copy_array(&ropes[i]->long_factor, pairs, sizeof(double));
        if (st == LH_OK) st = other;
        other = copy_array(&ropes[i]->short_factor, pairs, sizeof(double));
        if (st == LH_OK) st = other;
    }
    return st;
}

void lh_config_clear(lh_config *config)
{
    lh_free(config->sliding);
    lh_free(config->unrotated);
    lh_config_rope_clear(config);
    *config = (lh_config){0};
}

const char *lh_config_family_name(const lh_config *config)
{
    return config->family->name;
}

int64_t lh_config_mlp_channels(const lh_config *config)
{
    return config->ff * (config->experts.count ? config->experts.count : 1);
}

int64_t lh_config_mlp_channels_passed(const lh_config *config)
{
    return config->ff * (config->experts.count ? config->experts.top_k : 1);
}
