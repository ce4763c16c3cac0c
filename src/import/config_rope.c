/* config_rope.c - rotary embedding of a configuration: base, kind of scaling and its parameters, as written by
 * transformers 4 (rope_theta beside rope_scaling) and 5 (rope_parameters, one object or one per kind of layer). The
 * frequencies are computed in rope.c. */
#include "import/config_rope.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

/* Where the members are read from. */
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
             {"su", LH_ROPE_LONGROPE}}; /* its first name, in Phi-3 */

static lh_status find_kind(const words *w, lh_rope_kind *out)
{
    const char *type = "default";
    /* `type` is the older name and wins if both are given, as in transformers. */
    LH_TRY(lh_json_string(w->scaling, w->name, "rope_type", &type));
    LH_TRY(lh_json_string(w->scaling, w->name, "type", &type));
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

static lh_status required(const words *w, const char *key, double *out)
{
    const json_t *value = json_object_get(w->scaling, key);
    if (!value || json_is_null(value)) LH_FAIL(LH_EINPUT, "'%s': '%s' is missing", w->name, key);
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
    /* transformers 4 reads it beside rope_scaling only. */
    if (w->v5) LH_TRY(lh_json_i64(w->scaling, w->name, "original_max_position_embeddings", 1, INT32_MAX, &original));
    LH_TRY(lh_json_i64(w->json, w->name, "original_max_position_embeddings", 1, INT32_MAX, &original));
    if (original) {
        rope->original_positions = original;
        rope->factor = (double)rope->max_positions / (double)original;
    }
    return LH_OK;
}

static lh_status read_rope(const words *w, lh_rope *rope)
{
    lh_status st = LH_OK;
    *rope = (lh_rope){.theta = w->theta, .max_positions = w->config->max_positions};
    rope->original_positions = rope->max_positions;
    if (w->scaling && !json_is_object(w->scaling)) LH_FAIL_DONE(LH_EINPUT, "'%s' must be an object or null", w->name);
    if (w->scaling) LH_TRY_DONE(find_kind(w, &rope->kind));
    if (w->v5) LH_TRY_DONE(lh_json_f64(w->scaling, w->name, "rope_theta", &rope->theta));
    if (!isfinite(rope->theta) || rope->theta < 1)
        LH_FAIL_DONE(LH_EINPUT, "'%s': 'rope_theta' must be 1 or more", w->name);
    switch (rope->kind) {
    case LH_ROPE_LINEAR:
    case LH_ROPE_DYNAMIC: LH_TRY_DONE(required(w, "factor", &rope->factor)); break;
    case LH_ROPE_YARN: LH_TRY_DONE(read_yarn(w, rope)); break;
    case LH_ROPE_LLAMA3: LH_TRY_DONE(read_llama3(w, rope)); break;
    case LH_ROPE_LONGROPE: LH_TRY_DONE(read_longrope(w, rope)); break;
    default: break;
    }
    if (rope->kind == LH_ROPE_DYNAMIC && w->config->rotary_dim <= 2)
        LH_FAIL_DONE(LH_EINPUT, "'%s': dynamic scaling needs heads of more than 2 rotated dimensions", w->name);
    if (!isfinite(rope->attention_factor) || rope->attention_factor < 0)
        LH_FAIL_DONE(LH_EINPUT, "'%s': 'attention_factor' must not be negative", w->name);
done:
    if (st != LH_OK) lh_fail_within(st, "'%s'", w->file);
    return st;
}

static const json_t *object_or_null(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);
    return value && !json_is_null(value) ? value : NULL;
}

lh_status lh_config_rope(lh_config *config, const json_t *json, const char *name)
{
    const lh_family_defaults *defaults = &config->family->defaults;
    double theta = defaults->theta, local_theta = defaults->local_theta;
    int apart = local_theta > 0 || config->family->local_plain; /* sliding layers have a rotary embedding of their own */
    const json_t *parameters = object_or_null(json, "rope_parameters");
    LH_TRY(lh_json_f64(json, name, "rope_theta", &theta));
    if (local_theta > 0) LH_TRY(lh_json_f64(json, name, "rope_local_base_freq", &local_theta));
    words global = {.json = json, .name = "rope_scaling", .file = name, .config = config, .theta = theta},
          local = global;
    global.scaling = object_or_null(json, "rope_scaling");
    if (local_theta > 0) local.theta = local_theta;
    if (parameters) {
        const json_t *full = object_or_null(parameters, "full_attention");
        global.name = local.name = "rope_parameters";
        global.v5 = 1;
        global.scaling = full ? full : parameters;
        local.scaling = object_or_null(parameters, "sliding_attention");
        local.v5 = local.scaling != NULL;
    }
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
