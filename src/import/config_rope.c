/* config_rope.c - rotary embedding of a configuration: base, kind of scaling and its parameters, as written by
 * transformers 4 (rope_theta and rope_scaling) and 5 (rope_parameters, one object or one per kind of layer). The
 * frequencies are computed in rope.c. */
#include "import/config_impl.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

/* The source of the members. */
typedef struct words {
    const json_t *json, *scaling; /* scaling: NULL if there is none */
    const char *name, *file;      /* in messages: of the scaling object, and of the file */
    const lh_config *config;
    double theta;
    int v5;
} words;

static const struct {
    const char *name;
    lh_rope_kind kind;
} kinds[] = {{"default", LH_ROPE_DEFAULT}, {"linear", LH_ROPE_LINEAR}, {"dynamic", LH_ROPE_DYNAMIC},
             {"yarn", LH_ROPE_YARN},       {"llama3", LH_ROPE_LLAMA3}, {"longrope", LH_ROPE_LONGROPE},
             {"su", LH_ROPE_LONGROPE},    /* the first name of longrope, in Phi-3 */
             {"mrope", LH_ROPE_DEFAULT}}; /* of Qwen2-VL: tokens of text have one position in all sections */

/* Members by the kinds that have them; a member of another kind is refused. */
enum {
    LINEAR = 1 << LH_ROPE_LINEAR,
    DYNAMIC = 1 << LH_ROPE_DYNAMIC,
    YARN = 1 << LH_ROPE_YARN,
    LLAMA3 = 1 << LH_ROPE_LLAMA3,
    LONGROPE = 1 << LH_ROPE_LONGROPE,
    ALL_KINDS = (1 << LH_ROPE_KINDS) - 1
};

static const struct {
    const char *name;
    int kinds;
} members[] = {{"rope_type", ALL_KINDS},
               {"type", ALL_KINDS},
               {"rope_theta", ALL_KINDS},
               {"partial_rotary_factor", ALL_KINDS},
               {"original_max_position_embeddings", ALL_KINDS},
               {"max_position_embeddings", ALL_KINDS},
               {"finetuned", ALL_KINDS},     /* a remark of YaRN's authors */
               {"mrope_section", ALL_KINDS}, /* tokens of text have one position in all sections */
               {"mrope_interleaved", ALL_KINDS},
               {"factor", LINEAR | DYNAMIC | YARN | LLAMA3 | LONGROPE},
               {"attention_factor", YARN | LONGROPE},
               {"beta_fast", YARN},
               {"beta_slow", YARN},
               {"mscale", YARN},
               {"mscale_all_dim", YARN},
               {"truncate", YARN},
               {"low_freq_factor", LLAMA3},
               {"high_freq_factor", LLAMA3},
               {"long_factor", LONGROPE},
               {"short_factor", LONGROPE}};

static const char *const query_scaling_member = "llama_4_scaling_beta";

static lh_status kind_named(const words *w, const char *type, lh_rope_kind *out)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, type) != 0) continue;
        *out = kinds[i].kind;
        /* Early Phi-3 files call longrope "yarn". */
        if (*out == LH_ROPE_YARN && json_object_get(w->scaling, "long_factor")) *out = LH_ROPE_LONGROPE;
        return LH_OK;
    }
    LH_FAIL(LH_EINPUT, "'%s': rope type '%s' is unknown: default, linear, dynamic, yarn, llama3 and longrope are known",
            w->name, type);
}

static lh_status find_kind(const words *w, lh_rope_kind *out)
{
    const char *type = NULL, *older = NULL;
    lh_rope_kind older_kind = LH_ROPE_DEFAULT;
    LH_TRY(lh_json_string(w->scaling, w->name, "rope_type", &type));
    LH_TRY(lh_json_string(w->scaling, w->name, "type", &older));
    LH_TRY(kind_named(w, type ? type : older ? older : "default", out));
    LH_TRY(kind_named(w, older ? older : type ? type : "default", &older_kind));
    if (*out != older_kind) /* transformers 4 reads one of them, 5 the other */
        LH_FAIL(LH_EINPUT, "'%s': 'rope_type' is '%s' and 'type' is '%s': they must name one type", w->name, type,
                older);
    return LH_OK;
}

/* The members that are given and not null are members of the kind. */
static lh_status check_members(const words *w, lh_rope_kind kind)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)w->scaling, key, value)
    {
        int is_known = w->config->family->scaled_queries && strcmp(key, query_scaling_member) == 0;
        for (size_t i = 0; i < sizeof members / sizeof *members; i++)
            is_known |= strcmp(members[i].name, key) == 0 && (members[i].kinds >> kind & 1);
        if (!is_known && !json_is_null(value))
            LH_FAIL(LH_EINPUT, "'%s': the member '%s' is not known for the rope type '%s' of the family '%s'%s",
                    w->name, key, kinds[kind].name, w->config->family->name,
                    json_object_get(w->scaling, "rope_type") || json_object_get(w->scaling, "type")
                        ? ""
                        : ": 'rope_type' is missing");
    }
    return LH_OK;
}

static lh_status required(const words *w, const char *key, double *out)
{
    if (!lh_json_member(w->scaling, key)) LH_FAIL(LH_EINPUT, "'%s': '%s' is missing", w->name, key);
    LH_TRY(lh_json_f64(w->scaling, w->name, key, out));
    if (!isfinite(*out) || *out <= 0) LH_FAIL(LH_EINPUT, "'%s': '%s' must be greater than 0", w->name, key);
    return LH_OK;
}

static lh_status read_factors(const words *w, const char *key, double **out)
{
    lh_status st = LH_OK;
    double *values = NULL;
    const json_t *list = json_object_get(w->scaling, key);
    int64_t n = w->config->rotary_dim / 2;
    if (!json_is_array(list) || (int64_t)json_array_size(list) != n)
        LH_FAIL_DONE(LH_EINPUT, "'%s': '%s' must be a list of %lld numbers", w->name, key, (long long)n);
    LH_TRY_DONE(lh_calloc(&values, n, sizeof *values));
    for (int64_t i = 0; i < n; i++) {
        values[i] = json_number_value(json_array_get(list, (size_t)i));
        if (!(values[i] > 0) || !isfinite(values[i]))
            LH_FAIL_DONE(LH_EINPUT, "'%s': '%s' must hold numbers greater than 0", w->name, key);
    }
    *out = values;
    values = NULL;
done:
    lh_free(values);
    return st;
}

static lh_status read_yarn(const words *w, lh_rope *rope)
{
    int64_t original = 0;
    LH_TRY(required(w, "factor", &rope->factor));
    LH_TRY(lh_json_f64(w->scaling, w->name, "attention_factor", &rope->attention_factor));
    LH_TRY(lh_json_f64(w->scaling, w->name, "mscale", &rope->mscale));
    LH_TRY(lh_json_f64(w->scaling, w->name, "mscale_all_dim", &rope->mscale_all_dim));
    LH_TRY(lh_json_f64(w->scaling, w->name, "beta_fast", &rope->beta_fast));
    LH_TRY(lh_json_f64(w->scaling, w->name, "beta_slow", &rope->beta_slow));
    if (rope->beta_fast == 0) rope->beta_fast = 32;
    if (rope->beta_slow == 0) rope->beta_slow = 1;
    rope->truncate = 1;
    LH_TRY(lh_json_bool(w->scaling, w->name, "truncate", &rope->truncate));
    LH_TRY(lh_json_i64(w->scaling, w->name, "original_max_position_embeddings", 0, INT32_MAX, &original));
    if (original) rope->original_positions = original;
    if (rope->beta_fast < 0 || rope->beta_slow < 0 || rope->theta <= 1)
        LH_FAIL(LH_EINPUT, "'%s': 'beta_fast' and 'beta_slow' must be greater than 0, and 'rope_theta' than 1",
                w->name);
    return LH_OK;
}

static lh_status read_llama3(const words *w, lh_rope *rope)
{
    double original = 0;
    LH_TRY(required(w, "factor", &rope->factor));
    LH_TRY(required(w, "low_freq_factor", &rope->low_freq_factor));
    LH_TRY(required(w, "high_freq_factor", &rope->high_freq_factor));
    LH_TRY(required(w, "original_max_position_embeddings", &original));
    LH_TRY(
        lh_json_i64(w->scaling, w->name, "original_max_position_embeddings", 1, INT32_MAX, &rope->original_positions));
    if (rope->high_freq_factor <= rope->low_freq_factor)
        LH_FAIL(LH_EINPUT, "'%s': 'high_freq_factor' must be greater than 'low_freq_factor'", w->name);
    return LH_OK;
}

static lh_status read_longrope(const words *w, lh_rope *rope)
{
    int64_t original = w->config->family->defaults.original_positions;
    LH_TRY(read_factors(w, "long_factor", &rope->long_factor));
    LH_TRY(read_factors(w, "short_factor", &rope->short_factor));
    LH_TRY(lh_json_f64(w->scaling, w->name, "attention_factor", &rope->attention_factor));
    LH_TRY(lh_json_f64(w->scaling, w->name, "factor", &rope->factor));
    /* transformers 4 reads it only outside of rope_scaling. */
    if (w->v5) LH_TRY(lh_json_i64(w->scaling, w->name, "original_max_position_embeddings", 1, INT32_MAX, &original));
    LH_TRY(lh_json_i64(w->json, w->name, "original_max_position_embeddings", 1, INT32_MAX, &original));
    if (original) {
        rope->original_positions = original;
        rope->factor = (double)rope->max_positions / (double)original;
    }
    return LH_OK;
}

/* The number of rotated dimensions must agree with the whole configuration, which config.c reads. */
static lh_status check_partial(const words *w)
{
    double partial = (double)w->config->rotary_dim / (double)w->config->head_dim;
    LH_TRY(lh_json_f64(w->scaling, w->name, "partial_rotary_factor", &partial));
    if ((int64_t)((double)w->config->head_dim * partial) != w->config->rotary_dim)
        LH_FAIL(LH_EINPUT, "'%s': 'partial_rotary_factor' is %g, but %lld of %lld dimensions are rotated", w->name,
                partial, (long long)w->config->rotary_dim, (long long)w->config->head_dim);
    return LH_OK;
}

/* Ministral 3 and Devstral 2: queries grow with the logarithm of their position. */
static lh_status read_query_scaling(const words *w, lh_rope *rope)
{
    if (!w->config->family->scaled_queries) return LH_OK;
    if (!w->scaling)
        LH_FAIL(LH_EINPUT, "'rope_parameters' is missing, whose '%s' scales the queries", query_scaling_member);
    if (!lh_json_member(w->scaling, query_scaling_member))
        LH_FAIL(LH_EINPUT, "'%s': '%s' is missing", w->name, query_scaling_member);
    LH_TRY(lh_json_f64(w->scaling, w->name, query_scaling_member, &rope->query_beta));
    if (!isfinite(rope->query_beta) || rope->query_beta < 0)
        LH_FAIL(LH_EINPUT, "'%s': '%s' must not be negative", w->name, query_scaling_member);
    if (rope->query_beta == 0) return LH_OK; /* Devstral 2 123B: no scaling */
    LH_TRY(lh_json_i64(w->scaling, w->name, "original_max_position_embeddings", 1, 1 << 24, &rope->query_positions));
    if (w->config->rotary_dim != w->config->head_dim)
        LH_FAIL(LH_EINPUT, "'%s': '%s' is for heads that are rotated whole, but %lld of %lld dimensions are rotated",
                w->name, query_scaling_member, (long long)w->config->rotary_dim, (long long)w->config->head_dim);
    if (!rope->query_positions)
        LH_FAIL(LH_EINPUT, "'%s': 'original_max_position_embeddings' is missing, which '%s' needs", w->name,
                query_scaling_member);
    return LH_OK;
}

static lh_status read_kind(const words *w, lh_rope *rope)
{
    switch (rope->kind) {
    case LH_ROPE_LINEAR:
    case LH_ROPE_DYNAMIC: return required(w, "factor", &rope->factor);
    case LH_ROPE_YARN: return read_yarn(w, rope);
    case LH_ROPE_LLAMA3: return read_llama3(w, rope);
    case LH_ROPE_LONGROPE: return read_longrope(w, rope);
    default: return LH_OK;
    }
}

static lh_status read_rope(const words *w, lh_rope *rope)
{
    lh_status st = LH_OK;
    *rope = (lh_rope){.theta = w->theta, .max_positions = w->config->max_positions};
    rope->original_positions = rope->max_positions;
    if (w->scaling && !json_is_object(w->scaling)) LH_FAIL_DONE(LH_EINPUT, "'%s' must be an object or null", w->name);
    if (w->scaling) {
        LH_TRY_DONE(find_kind(w, &rope->kind));
        LH_TRY_DONE(check_members(w, rope->kind));
        LH_TRY_DONE(check_partial(w));
        LH_TRY_DONE(lh_json_f64(w->scaling, w->name, "rope_theta", &rope->theta));
    }
    if (!isfinite(rope->theta) || rope->theta < 1)
        LH_FAIL_DONE(LH_EINPUT, "'%s': 'rope_theta' must be 1 or more", w->name);
    LH_TRY_DONE(read_kind(w, rope));
    LH_TRY_DONE(read_query_scaling(w, rope));
    if (rope->kind == LH_ROPE_DYNAMIC && w->config->rotary_dim <= 2)
        LH_FAIL_DONE(LH_EINPUT, "'%s': dynamic scaling needs heads of more than 2 rotated dimensions", w->name);
    if (!isfinite(rope->attention_factor) || rope->attention_factor < 0)
        LH_FAIL_DONE(LH_EINPUT, "'%s': 'attention_factor' must not be negative", w->name);
done:
    if (st != LH_OK) lh_fail_within(st, "'%s'", w->file);
    return st;
}

/* 'rope_parameters' of transformers 5 with an object for each kind of layer. */
static lh_status split_by_layers(const json_t *parameters, const char *file, words *global, words *local)
{
    const json_t *full = lh_json_member(parameters, "full_attention"),
                 *sliding = lh_json_member(parameters, "sliding_attention");
    const char *key;
    json_t *value;
    global->name = local->name = "rope_parameters";
    global->v5 = 1;
    global->scaling = full ? full : parameters;
    local->scaling = sliding;
    local->v5 = sliding != NULL;
    if (!full) return LH_OK;
    json_object_foreach((json_t *)(uintptr_t)parameters, key, value)
    {
        if (value != full && value != sliding && !json_is_null(value) && strcmp(key, "rope_theta") != 0)
            LH_FAIL(LH_EINPUT,
                    "'%s': 'rope_parameters': the member '%s' is not known beside those of full_attention and "
                    "sliding_attention",
                    file, key);
    }
    return LH_OK;
}

lh_status lh_config_rope(lh_config *config, const json_t *json, const char *name)
{
    const lh_family_defaults *defaults = &config->family->defaults;
    double theta = defaults->theta, local_theta = defaults->local_theta;
    int apart =
        local_theta > 0 || config->family->local_plain; /* true: sliding layers have a separate rotary embedding */
    const json_t *parameters = lh_json_member(json, "rope_parameters"), *scaling = lh_json_member(json, "rope_scaling");
    LH_TRY(lh_json_f64(json, name, "rope_theta", &theta));
    if (local_theta > 0) LH_TRY(lh_json_f64(json, name, "rope_local_base_freq", &local_theta));
    words global = {.json = json,
                    .scaling = scaling,
                    .name = "rope_scaling",
                    .file = name,
                    .config = config,
                    .theta = theta},
          local = global;
    local.scaling = NULL;
    if (local_theta > 0) local.theta = local_theta;
    if (parameters && scaling && !json_equal(parameters, scaling))
        LH_FAIL(LH_EINPUT, "'%s' has 'rope_parameters' and another 'rope_scaling': give one of them", name);
    if (parameters) LH_TRY(split_by_layers(parameters, name, &global, &local));
    if (!apart && local.scaling && !json_equal(local.scaling, global.scaling))
        LH_FAIL(LH_EINPUT,
                "'%s': 'rope_parameters': sliding_attention is not full_attention, and the family '%s' rotates all "
                "layers alike",
                name, config->family->name);
    LH_TRY(read_rope(&global, &config->rope_global));
    if (apart)
        LH_TRY(read_rope(&local, &config->rope_local));
    else
        config->rope_local = config->rope_global;
    return LH_OK;
}

void lh_config_rope_clear(lh_config *config)
{
    if (config->rope_local.long_factor != config->rope_global.long_factor) lh_free(config->rope_local.long_factor);
    if (config->rope_local.short_factor != config->rope_global.short_factor) lh_free(config->rope_local.short_factor);
    lh_free(config->rope_global.long_factor);
    lh_free(config->rope_global.short_factor);
    config->rope_local = config->rope_global = (lh_rope){0};
}
