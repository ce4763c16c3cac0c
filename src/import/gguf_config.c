/* gguf_config.c - makes a configuration in the format of config.json from the metadata of a GGUF file. Values that
 * GGUF does not store are llama.cpp's constants for the architecture; comments name the places. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "import/import_source.h"

/* ---- known keys ----
 *
 * A key in the namespace of the architecture that would change attention, rotation or experts and that is not known is
 * refused by name; any other unknown key is named in a warning. */

/* Keys that are read, and keys that change no logits here. */
static const struct {
    const char *key;
    lh_trait who;
} known_keys[] = {
    {"block_count", LH_TRAIT_ANY},
    {"context_length", LH_TRAIT_ANY},
    {"embedding_length", LH_TRAIT_ANY},
    {"feed_forward_length", LH_TRAIT_ANY},
    {"attention.head_count", LH_TRAIT_ANY},
    {"attention.head_count_kv", LH_TRAIT_ANY},
    {"attention.key_length", LH_TRAIT_ANY},
    {"attention.value_length", LH_TRAIT_ANY},
    {"attention.layer_norm_rms_epsilon", LH_TRAIT_ANY},
    {"attention.sliding_window", LH_TRAIT_WINDOWS},
    {"attention.sliding_window_pattern", LH_TRAIT_PATTERNS},
    {"attention.temperature_scale", LH_TRAIT_SCALED_QUERIES},
    {"attention.scale", LH_TRAIT_MULTIPLIERS},
    {"embedding_scale", LH_TRAIT_MULTIPLIERS},
    {"residual_scale", LH_TRAIT_MULTIPLIERS},
    {"logit_scale", LH_TRAIT_MULTIPLIERS},
    {"attn_logit_softcapping", LH_TRAIT_ATTN_CAPS},
    {"final_logit_softcapping", LH_TRAIT_FINAL_CAPS},
    {"expert_count", LH_TRAIT_ANY},
    {"expert_used_count", LH_TRAIT_EXPERTS},
    {"expert_feed_forward_length", LH_TRAIT_EXPERTS},
    {"rope.dimension_count", LH_TRAIT_ANY},
    {"rope.freq_base", LH_TRAIT_ANY},
    {"rope.freq_base_swa", LH_TRAIT_ANY},
    {"rope.global.freq_base", LH_TRAIT_LOCAL_THETA}, /* ollama's names in Gemma 3 */
    {"rope.local.freq_base", LH_TRAIT_LOCAL_THETA},
    {"rope.scale_linear", LH_TRAIT_ANY},
    {"rope.scaling.type", LH_TRAIT_ANY},
    {"rope.scaling.factor", LH_TRAIT_ANY},
    {"rope.scaling.attn_factor", LH_TRAIT_ANY},
    {"rope.scaling.original_context_length", LH_TRAIT_ANY},
    {"rope.scaling.yarn_attn_factor", LH_TRAIT_ANY},
    {"rope.scaling.yarn_beta_fast", LH_TRAIT_ANY},
    {"rope.scaling.yarn_beta_slow", LH_TRAIT_ANY},
    {"rope.scaling.yarn_log_multiplier", LH_TRAIT_ANY},
    /* without effect */
    {"vocab_size", LH_TRAIT_ANY},
    {"tensor_data_layout", LH_TRAIT_ANY},
    {"attention.layer_norm_epsilon", LH_TRAIT_ANY}, /* of norms that subtract the mean */
    {"rope.dimension_sections", LH_TRAIT_ANY},      /* tokens of text have one position in all sections */
    {"rope.mrope_section", LH_TRAIT_ANY},           /* the same, by ollama */
    {"n_deepstack_layers", LH_TRAIT_ANY},           /* of images */
    {"expert_weights_norm", LH_TRAIT_EXPERTS},      /* llama.cpp normalises in all families of experts here */
};

/* Keys with one supported value, and one that stands for an absent key. */
static const struct {
    const char *key;
    double value, absent;
    lh_trait who;
} fixed_keys[] = {
    {"attention.causal", 1, 1, LH_TRAIT_ANY},
    {"expert_gating_func", 1, 0, LH_TRAIT_EXPERTS}, /* softmax */
    {"expert_weights_scale", 1, 0, LH_TRAIT_EXPERTS},
    {"rope.scaling.yarn_ext_factor", 1, -1, LH_TRAIT_ANY},
    {"rope.scaling.finetuned", 1, 1, LH_TRAIT_MULTIPLIERS}, /* llama.cpp's granite.cpp: else no layer is rotated */
};

/* Namespaces of other programs for images and sound. */
static const char *const foreign[] = {"vision.", "mm.", "audio."};

/* Prefixes of keys that change the logits. */
static const char *const decisive[] = {"attention.", "rope.", "expert"};

static int begins(const lh_gguf_text *key, const char *with)
{
    return key->bytes >= (int64_t)strlen(with) && memcmp(key->data, with, strlen(with)) == 0;
}

static int begins_with_one(const lh_gguf_text *key, const char *const *list, size_t n)
{
    int any = 0;
    for (size_t i = 0; i < n; i++) any |= begins(key, list[i]);
    return any;
}

/* `e` has its key without the name of the architecture. *unknown: true if the key needs a warning. */
static lh_status check_key(const lh_gguf *gguf, const lh_family *f, const lh_gguf_entry *e, int *unknown)
{
    const int shown = (int)lh_min_i64(e->key.bytes, 80);
    *unknown = 0;
    for (size_t i = 0; i < sizeof fixed_keys / sizeof *fixed_keys; i++) {
        if (!lh_gguf_text_is(&e->key, fixed_keys[i].key)) continue;
        const int is_right = e->is_number && (e->number == fixed_keys[i].value || e->number == fixed_keys[i].absent);
        if (lh_family_has(f, fixed_keys[i].who) && !is_right)
            LH_FAIL(LH_EINPUT, "'%s': '%s.%s' is %g: only %g is supported", lh_gguf_path(gguf), f->gguf,
                    fixed_keys[i].key, e->number, fixed_keys[i].value);
        return LH_OK;
    }
    if (e->is_empty || begins_with_one(&e->key, foreign, sizeof foreign / sizeof *foreign)) return LH_OK;
    for (size_t i = 0; i < sizeof known_keys / sizeof *known_keys; i++)
        if (lh_gguf_text_is(&e->key, known_keys[i].key) && lh_family_has(f, known_keys[i].who)) return LH_OK;
    if (begins_with_one(&e->key, decisive, sizeof decisive / sizeof *decisive))
        LH_FAIL(LH_EINPUT, "'%s': the key '%s.%.*s' is not known here, and it may change what the model computes",
                lh_gguf_path(gguf), f->gguf, shown, e->key.data);
    *unknown = 1;
    return LH_OK;
}

static lh_status check_keys(const lh_gguf *gguf, const lh_family *family)
{
    lh_status st = LH_OK;
    lh_buf names = {0};
    const int64_t prefix = (int64_t)strlen(family->gguf) + 1;
    for (int64_t i = 0; i < lh_gguf_entries(gguf); i++) {
        lh_gguf_entry e = lh_gguf_entry_at(gguf, i);
        int unknown;
        if (e.key.bytes <= prefix || !begins(&e.key, family->gguf) || e.key.data[prefix - 1] != '.') continue;
        e.key.data += prefix;
        e.key.bytes -= prefix;
        LH_TRY_DONE(check_key(gguf, family, &e, &unknown));
        if (unknown)
            LH_TRY_DONE(lh_buf_printf(&names, "%s'%s.%.*s'", names.bytes ? ", " : "", family->gguf,
                                      (int)lh_min_i64(e.key.bytes, 80), e.key.data));
    }
    if (names.bytes) lh_warn("'%s' has keys that are not known here and not used: %s", lh_gguf_path(gguf), names.data);
done:
    lh_buf_clear(&names);
    return st;
}

/* ---- values ---- */

typedef struct maker {
    const lh_gguf *gguf;
    const lh_family *family;
    json_t *json;
} maker;

/* GGUF stores float32: write the shortest decimal with the same value, so that 1e-05 stays 1e-05. */
static json_t *shortest(double value)
{
    char text[40];
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtof(text, NULL) == (float)value) break;
    }
    return json_real(strtod(text, NULL));
}

/* "ARCHITECTURE.key". */
static lh_status key_of(const maker *m, const char *key, char **out)
{
    return lh_asprintf(out, "%s.%s", m->family->gguf, key);
}

static lh_status get_i64(const maker *m, const char *key, int64_t *out)
{
    lh_status st = LH_OK;
    char *full = NULL;
    LH_TRY_DONE(key_of(m, key, &full));
    LH_TRY_DONE(lh_gguf_i64(m->gguf, full, out));
done:
    lh_free(full);
    return st;
}

static lh_status get_f64(const maker *m, const char *key, double *out)
{
    lh_status st = LH_OK;
    char *full = NULL;
    LH_TRY_DONE(key_of(m, key, &full));
    LH_TRY_DONE(lh_gguf_f64(m->gguf, full, out));
done:
    lh_free(full);
    return st;
}

/* An integer, or a list with one per layer, which must all be equal. */
static lh_status get_same(const maker *m, const char *key, int64_t *out)
{
    lh_status st = LH_OK;
    char *full = NULL;
    int64_t *values = NULL, n = 0;
    LH_TRY_DONE(key_of(m, key, &full));
    LH_TRY_DONE(lh_gguf_i64s(m->gguf, full, &values, &n));
    for (int64_t i = 1; i < n; i++)
        if (values[i] != values[0])
            LH_FAIL_DONE(LH_EINPUT, "'%s': '%s' differs from layer to layer, which is not supported",
                         lh_gguf_path(m->gguf), full);
    if (n > 0) *out = values[0];
done:
    lh_free(values);
    lh_free(full);
    return st;
}

static lh_status copy_sizes(const maker *m)
{
    static const struct {
        const char *gguf, *hf;
        int derived; /* true: if absent, llama.cpp derives it from other sizes and has no default of a family */
    } rows[] = {{"block_count", "num_hidden_layers", 0},
                {"context_length", "max_position_embeddings", 0},
                {"embedding_length", "hidden_size", 0},
                {"feed_forward_length", "intermediate_size", 0},
                {"attention.head_count", "num_attention_heads", 0},
                {"attention.head_count_kv", "num_key_value_heads", 1},
                {"attention.key_length", "head_dim", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t value = INT64_MIN;
        LH_TRY(get_same(m, rows[i].gguf, &value));
        if (value != INT64_MIN)
            LH_TRY(lh_json_set(m->json, rows[i].hf, json_integer(value)));
        else if (rows[i].derived)
            LH_TRY(lh_json_set(m->json, rows[i].hf, json_null()));
    }
    int64_t key_length = 0, value_length = 0, rope_dims = 0, heads = 1, hidden = 0;
    LH_TRY(get_i64(m, "attention.key_length", &key_length));
    LH_TRY(get_i64(m, "attention.value_length", &value_length));
    if (key_length != value_length)
        LH_FAIL(LH_EINPUT, "'%s': keys of %" PRId64 " and values of %" PRId64 " dimensions are not known here",
                lh_gguf_path(m->gguf), key_length, value_length);
    /* Partial rotation: fewer rotated dimensions than a head has. */
    LH_TRY(get_i64(m, "rope.dimension_count", &rope_dims));
    LH_TRY(get_same(m, "attention.head_count", &heads));
    LH_TRY(get_i64(m, "embedding_length", &hidden));
    int64_t head_dim = key_length > 0 ? key_length : heads > 0 ? hidden / heads : 0;
    if (rope_dims > 0 && rope_dims < head_dim)
        LH_TRY(lh_json_set(m->json, "partial_rotary_factor", json_real((double)rope_dims / (double)head_dim)));
    return LH_OK;
}

/* llama.cpp makes the routing weights of a token's experts add up to 1 in all families that are known here
 * (build_moe_ffn). */
static lh_status copy_experts(const maker *m)
{
    const lh_expert_rule *rule = m->family->experts;
    int64_t count = 0, top_k = 0, ff = 0;
    if (!rule) return LH_OK;
    LH_TRY(get_i64(m, "expert_count", &count));
    LH_TRY(get_i64(m, "expert_used_count", &top_k));
    LH_TRY(get_i64(m, "expert_feed_forward_length", &ff));
    LH_TRY(lh_json_set(m->json, "num_experts", json_integer(count)));
    LH_TRY(lh_json_set(m->json, "num_experts_per_tok", json_integer(top_k)));
    if (ff > 0) LH_TRY(lh_json_set(m->json, rule->ff_key, json_integer(ff)));
    return rule->always_normalised ? LH_OK : lh_json_set(m->json, "norm_topk_prob", json_true());
}

/* Base of the rotation. llama.cpp has one default for all architectures. */
static lh_status get_theta(const maker *m, double *theta)
{
    *theta = 10000;
    LH_TRY(get_f64(m, "rope.global.freq_base", theta)); /* ollama's name in Gemma 3 */
    return get_f64(m, "rope.freq_base", theta);
}

/* Base of sliding layers; llama.cpp has the same default as the family. Scaling is for the other layers only. */
static lh_status add_thetas(const maker *m)
{
    double local = NAN, theta = 0;
    LH_TRY(get_theta(m, &theta));
    LH_TRY(lh_json_set(m->json, "rope_theta", shortest(theta)));
    LH_TRY(get_f64(m, "rope.local.freq_base", &local)); /* ollama's name in Gemma 3 */
    LH_TRY(get_f64(m, "rope.freq_base_swa", &local));
    if (!isfinite(local)) return LH_OK;
    if (m->family->defaults.local_theta > 0)
        LH_TRY(lh_json_set(m->json, "rope_local_base_freq", shortest(local)));
    else if (local != theta)
        LH_FAIL(LH_EINPUT,
                "'%s': '%s.rope.freq_base_swa' %g is not '%s.rope.freq_base' %g, and this family rotates all "
                "layers alike here",
                lh_gguf_path(m->gguf), m->family->gguf, local, m->family->gguf, theta);
    return LH_OK;
}

static lh_status copy_numbers(const maker *m)
{
    static const struct {
        const char *gguf, *hf;
    } rows[] = {{"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
                {"attn_logit_softcapping", "attn_logit_softcapping"},
                {"final_logit_softcapping", "final_logit_softcapping"},
                {"attention.scale", "attention_multiplier"}, /* Granite's */
                {"embedding_scale", "embedding_multiplier"},
                {"residual_scale", "residual_multiplier"},
                {"logit_scale", "logits_scaling"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double value = NAN;
        LH_TRY(get_f64(m, rows[i].gguf, &value));
        if (isfinite(value)) LH_TRY(lh_json_set(m->json, rows[i].hf, shortest(value)));
    }
    return add_thetas(m);
}

/* A list of true for layers that slide, or a number n: all but every n-th. */
static lh_status add_window_pattern(const maker *m)
{
    lh_status st = LH_OK;
    char *key = NULL;
    int64_t *values = NULL, n = 0, layers = 0;
    json_t *types = NULL;
    if (m->family->window != LH_WINDOW_PATTERN) goto done;
    LH_TRY_DONE(get_i64(m, "block_count", &layers));
    LH_TRY_DONE(key_of(m, "attention.sliding_window_pattern", &key));
    LH_TRY_DONE(lh_gguf_i64s(m->gguf, key, &values, &n));
    if (n == 1 && layers > 1) LH_TRY_DONE(lh_json_set(m->json, "sliding_window_pattern", json_integer(values[0])));
    if (n < 2) goto done;
    types = json_array();
    for (int64_t i = 0; i < n; i++)
        json_array_append_new(types, json_string(values[i] ? "sliding_attention" : "full_attention"));
    LH_TRY_DONE(lh_json_set(m->json, "layer_types", json_incref(types)));
done:
    json_decref(types);
    lh_free(values);
    lh_free(key);
    return st;
}

/* Without the key no layer slides, unless the family has a rule (llama.cpp, models/mistral3.cpp). */
static lh_status add_windows(const maker *m)
{
    int64_t window = -1;
    LH_TRY(get_i64(m, "attention.sliding_window", &window));
    if (window > 0)
        LH_TRY(lh_json_set(m->json, "sliding_window", json_integer(window)));
    else if (m->family->window == LH_WINDOW_ALL)
        LH_TRY(lh_json_set(m->json, "sliding_window", json_null()));
    return add_window_pattern(m);
}

/* llama.cpp, models/gemma2.cpp and gemma3.cpp: the largest model of each has a different scale. */
static lh_status add_query_scalar(const maker *m)
{
    int64_t layers = 0, heads = 0, hidden = 0, key_length = 0;
    if (!m->family->gemma) return LH_OK;
    LH_TRY(get_i64(m, "block_count", &layers));
    LH_TRY(get_same(m, "attention.head_count", &heads));
    LH_TRY(get_i64(m, "embedding_length", &hidden));
    LH_TRY(get_i64(m, "attention.key_length", &key_length));
    int largest = layers == (m->family->qk_norm ? 62 : 46);
    if (key_length <= 0 || heads <= 0) return LH_OK;
    LH_TRY(lh_json_set(m->json, "query_pre_attn_scalar", json_integer(largest ? hidden / heads : key_length)));
    return LH_OK;
}

static json_t *reals(const double *values, int64_t n)
{
    json_t *list = json_array();
    for (int64_t i = 0; list && i < n; i++) json_array_append_new(list, shortest(values[i]));
    return list;
}

/* The float32 values of a small tensor as doubles; *out is NULL if there is none. */
static lh_status read_factors(const maker *m, const char *name, double **out, int64_t *n)
{
    lh_status st = LH_OK;
    double *values = NULL;
    const lh_gguf_tensor *t = lh_gguf_tensor_find(m->gguf, name);
    *out = NULL;
    *n = 0;
    if (!t) goto done;
    if (t->type != 0 || t->rank != 1 || t->dims[0] > 65536)
        LH_FAIL_DONE(LH_EINPUT, "'%s': tensor '%s' must be a list of F32 numbers", lh_gguf_path(m->gguf), name);
    LH_TRY_DONE(lh_calloc(&values, t->dims[0], sizeof *values));
    for (int64_t i = 0; i < t->dims[0]; i++) {
        float f;
        memcpy(&f, t->data + 4 * i, 4);
        if (!isfinite(f) || f <= 0)
            LH_FAIL_DONE(LH_EINPUT, "'%s': tensor '%s' must hold numbers above 0", lh_gguf_path(m->gguf), name);
        values[i] = f;
    }
    *out = values;
    *n = t->dims[0];
    values = NULL;
done:
    lh_free(values);
    return st;
}

/* 1 if llama3 scaling by `factor` with Llama 3.1's constants divides the frequencies by these numbers. */
static int is_llama3(const double *factors, int64_t n, double theta, double factor)
{
    const lh_rope plain = {.theta = theta}, scaled = {.kind = LH_ROPE_LLAMA3,
                                                      .theta = theta,
                                                      .factor = factor,
                                                      .low_freq_factor = 1,
                                                      .high_freq_factor = 4,
                                                      .original_positions = 8192};
    float *a = NULL, *b = NULL, scale;
    int same = 0;
    if (lh_calloc(&a, n, sizeof *a) == LH_OK && lh_calloc(&b, n, sizeof *b) == LH_OK) {
        lh_rope_frequencies(&plain, 2 * n, 1, a, &scale);
        lh_rope_frequencies(&scaled, 2 * n, 1, b, &scale);
        same = 1;
        for (int64_t i = 0; i < n; i++) same &= fabs((double)a[i] / (double)b[i] / factors[i] - 1) < 1e-4;
    }
    lh_free(a);
    lh_free(b);
    return same;
}

/* rope_freqs holds a divisor per frequency. Llama 3's converter computed it from parameters that GGUF does not store:
 * they are recovered here; anything else becomes longrope with these factors at any length. */
static lh_status add_divided(const maker *m, json_t *scaling, const double *factors, int64_t n)
{
    double theta = 0, largest = 1, attention = 1;
    LH_TRY(get_theta(m, &theta));
    LH_TRY(get_f64(m, "rope.scaling.attn_factor", &attention));
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, factors[i]);
    if (is_llama3(factors, n, theta, largest)) {
        LH_TRY(lh_json_set(scaling, "rope_type", json_string("llama3")));
        LH_TRY(lh_json_set(scaling, "factor", shortest(largest)));
        LH_TRY(lh_json_set(scaling, "low_freq_factor", json_real(1)));
        LH_TRY(lh_json_set(scaling, "high_freq_factor", json_real(4)));
        LH_TRY(lh_json_set(scaling, "original_max_position_embeddings", json_integer(8192)));
    } else {
        LH_TRY(lh_json_set(scaling, "rope_type", json_string("longrope")));
        LH_TRY(lh_json_set(scaling, "factor", json_real(1)));
        LH_TRY(lh_json_set(scaling, "attention_factor", shortest(attention > 0 ? attention : 1)));
        LH_TRY(lh_json_set(scaling, "long_factor", reals(factors, n)));
        LH_TRY(lh_json_set(scaling, "short_factor", reals(factors, n)));
    }
    return LH_OK;
}

/* Phi-3's pair of factor lists. */
static lh_status add_longrope(const maker *m, json_t *scaling)
{
    lh_status st = LH_OK;
    double *long_factors = NULL, *short_factors = NULL, attention = 0;
    int64_t n = 0, k = 0, original = 0;
    LH_TRY_DONE(read_factors(m, "rope_factors_long.weight", &long_factors, &n));
    LH_TRY_DONE(read_factors(m, "rope_factors_short.weight", &short_factors, &k));
    if (!long_factors || !short_factors || n != k)
        LH_FAIL_DONE(LH_EINPUT,
                     "'%s': 'rope_factors_long.weight' and 'rope_factors_short.weight' must be of one length",
                     lh_gguf_path(m->gguf));
    LH_TRY_DONE(lh_json_set(scaling, "type", json_string("longrope")));
    LH_TRY_DONE(lh_json_set(scaling, "long_factor", reals(long_factors, n)));
    LH_TRY_DONE(lh_json_set(scaling, "short_factor", reals(short_factors, n)));
    LH_TRY_DONE(get_f64(m, "rope.scaling.attn_factor", &attention));
    if (attention > 0) LH_TRY_DONE(lh_json_set(scaling, "attention_factor", shortest(attention)));
    LH_TRY_DONE(get_i64(m, "rope.scaling.original_context_length", &original));
    if (original > 0) LH_TRY_DONE(lh_json_set(m->json, "original_max_position_embeddings", json_integer(original)));
done:
    lh_free(long_factors);
    lh_free(short_factors);
    return st;
}

/* YaRN's numbers. llama.cpp reads them for some architectures only, its converter writes them for all: Hugging Face's
 * numbers, and for Mistral mscale_all_dim as yarn_log_multiplier, with an mscale of 1. */
static lh_status add_yarn(const maker *m, json_t *scaling, double factor)
{
    static const struct {
        const char *gguf, *hf;
    } rows[] = {{"rope.scaling.yarn_beta_fast", "beta_fast"},
                {"rope.scaling.yarn_beta_slow", "beta_slow"},
                {"rope.scaling.yarn_log_multiplier", "mscale_all_dim"},
                {"rope.scaling.yarn_attn_factor", "attention_factor"}};
    double value = 0, attention = 0, times = 0;
    int64_t original = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++, value = 0) {
        LH_TRY(get_f64(m, rows[i].gguf, &value));
        if (value > 0) LH_TRY(lh_json_set(scaling, rows[i].hf, shortest(value)));
    }
    if (json_object_get(scaling, "mscale_all_dim")) LH_TRY(lh_json_set(scaling, "mscale", json_real(1)));
    LH_TRY(get_i64(m, "rope.scaling.original_context_length", &original));
    if (original > 0) LH_TRY(lh_json_set(scaling, "original_max_position_embeddings", json_integer(original)));
    LH_TRY(get_f64(m, "rope.scaling.attn_factor", &times));
    if (!(times > 0)) return LH_OK;
    /* ggml multiplies YaRN's own factor by it (rope_yarn); Hugging Face replaces that factor. */
    attention = json_number_value(json_object_get(scaling, "attention_factor"));
    value = json_number_value(json_object_get(scaling, "mscale_all_dim"));
    if (attention == 0) attention = factor > 1 ? (0.1 * log(factor) + 1) / (0.1 * value * log(factor) + 1) : 1;
    return lh_json_set(scaling, "attention_factor", json_real(times * attention));
}

/* The scaling of queries by position, in steps of the length before YaRN. */
static lh_status add_query_scaling(const maker *m, json_t *scaling)
{
    double beta = 0;
    int64_t original = 0;
    if (!m->family->scaled_queries) return LH_OK;
    LH_TRY(get_f64(m, "attention.temperature_scale", &beta));
    LH_TRY(get_i64(m, "context_length", &original));
    LH_TRY(get_i64(m, "rope.scaling.original_context_length", &original));
    LH_TRY(lh_json_set(scaling, "llama_4_scaling_beta", shortest(beta)));
    if (json_object_get(scaling, "original_max_position_embeddings")) return LH_OK;
    return lh_json_set(scaling, "original_max_position_embeddings", json_integer(original));
}

static lh_status add_typed_scaling(const maker *m, json_t *scaling, const lh_gguf_text *type)
{
    double factor = 0;
    const int yarn = lh_gguf_text_is(type, "yarn"), linear = lh_gguf_text_is(type, "linear");
    if (lh_gguf_text_is(type, "none")) return LH_OK;
    if (lh_gguf_text_is(type, "longrope"))
        LH_FAIL(LH_EINPUT, "'%s' has no tensor 'rope_factors_long.weight', which its rope scaling 'longrope' needs",
                lh_gguf_path(m->gguf));
    if (!yarn && !linear)
        LH_FAIL(LH_EINPUT, "'%s': rope scaling '%.*s' is unknown: none, linear, yarn and longrope are known",
                lh_gguf_path(m->gguf), (int)(type->bytes < 40 ? type->bytes : 40), type->data);
    LH_TRY(get_f64(m, "rope.scale_linear", &factor)); /* its older name */
    LH_TRY(get_f64(m, "rope.scaling.factor", &factor));
    if (!(factor > 0)) return LH_OK; /* llama.cpp: no scaling */
    LH_TRY(lh_json_set(scaling, "rope_type", json_string(yarn ? "yarn" : "linear")));
    LH_TRY(lh_json_set(scaling, "factor", shortest(factor)));
    return yarn ? add_yarn(m, scaling, factor) : LH_OK;
}

/* llama.cpp multiplies cosines and sines by attn_factor for any type of scaling; the configuration has a member for it
 * in yarn and longrope. */
static lh_status check_attention_factor(const maker *m, const json_t *scaling)
{
    double attention = 1;
    LH_TRY(get_f64(m, "rope.scaling.attn_factor", &attention));
    if (attention != 1 && attention != 0 && !json_object_get(scaling, "attention_factor"))
        LH_FAIL(LH_EINPUT, "'%s': '%s.rope.scaling.attn_factor' is %g: it is supported with yarn and longrope",
                lh_gguf_path(m->gguf), m->family->gguf, attention);
    return LH_OK;
}

static lh_status add_scaling(const maker *m)
{
    lh_status st = LH_OK;
    json_t *scaling = json_object();
    char *key = NULL;
    double *factors = NULL;
    int64_t n = 0;
    lh_gguf_text type = {.data = "linear", .bytes = 6}; /* llama.cpp's default if there is a factor */
    if (!scaling) LH_FAIL_DONE(LH_ENOMEM, "cannot hold the configuration");
    LH_TRY_DONE(key_of(m, "rope.scaling.type", &key));
    LH_TRY_DONE(lh_gguf_string(m->gguf, key, &type));
    LH_TRY_DONE(read_factors(m, "rope_freqs.weight", &factors, &n));
    if (lh_gguf_tensor_find(m->gguf, "rope_factors_long.weight"))
        LH_TRY_DONE(add_longrope(m, scaling));
    else if (factors)
        LH_TRY_DONE(add_divided(m, scaling, factors, n));
    else
        LH_TRY_DONE(add_typed_scaling(m, scaling, &type));
    LH_TRY_DONE(check_attention_factor(m, scaling));
    LH_TRY_DONE(add_query_scaling(m, scaling));
    if (json_object_size(scaling) > 0) LH_TRY_DONE(lh_json_set(m->json, "rope_scaling", json_incref(scaling)));
done:
    json_decref(scaling);
    lh_free(factors);
    lh_free(key);
    return st;
}

static lh_status add_ids(const maker *m)
{
    static const char *const ends[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    lh_status st = LH_OK;
    int64_t bos = -1;
    json_t *eos = json_array();
    LH_TRY_DONE(lh_gguf_i64(m->gguf, "tokenizer.ggml.bos_token_id", &bos));
    LH_TRY_DONE(lh_json_set(m->json, "bos_token_id", bos >= 0 ? json_integer(bos) : json_null()));
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        int64_t id = -1;
        int known = 0;
        LH_TRY_DONE(lh_gguf_i64(m->gguf, ends[i], &id));
        for (size_t k = 0; k < json_array_size(eos); k++) known |= json_integer_value(json_array_get(eos, k)) == id;
        if (id >= 0 && !known) json_array_append_new(eos, json_integer(id));
    }
    LH_TRY_DONE(lh_json_set(m->json, "eos_token_id", json_incref(eos)));
done:
    json_decref(eos);
    return st;
}

/* From the tensors. */
static lh_status add_tensors(const maker *m)
{
    const lh_gguf_tensor *embed = lh_gguf_tensor_find(m->gguf, "token_embd.weight");
    if (!embed || embed->rank != 2)
        LH_FAIL(LH_EINPUT, "'%s' has no tensor 'token_embd.weight': it is no language model", lh_gguf_path(m->gguf));
    LH_TRY(lh_json_set(m->json, "vocab_size", json_integer(embed->dims[1])));
    LH_TRY(lh_json_set(m->json, "tie_word_embeddings", json_boolean(!lh_gguf_tensor_find(m->gguf, "output.weight"))));
    if (m->family->bias == LH_BIAS_OPTION) {
        LH_TRY(lh_json_set(m->json, "attention_bias",
                           json_boolean(lh_gguf_tensor_find(m->gguf, "blk.0.attn_q.bias") != NULL)));
        LH_TRY(
            lh_json_set(m->json, "mlp_bias", json_boolean(lh_gguf_tensor_find(m->gguf, "blk.0.ffn_up.bias") != NULL)));
    }
    return LH_OK;
}

static lh_status unknown_architecture(const lh_gguf *gguf, const lh_gguf_text *arch)
{
    lh_status st = LH_OK;
    lh_buf known = {0};
    for (int i = 0; lh_family_at(i); i++)
        if (lh_family_at(i)->gguf && !lh_family_at(i)->gguf_key)
            LH_TRY_DONE(lh_buf_printf(&known, "%s%s", known.bytes ? ", " : "", lh_family_at(i)->gguf));
    LH_FAIL_DONE(LH_EINPUT, "'%s': the architecture '%.*s' is unknown: %s are known", lh_gguf_path(gguf),
                 (int)lh_min_i64(arch->bytes, 40), arch->data, known.data);
done:
    lh_buf_clear(&known);
    return st;
}

/* The family of this architecture that has its key, or else the family without a key. */
static lh_status find_family(maker *m)
{
    lh_gguf_text arch = {.data = "", .bytes = 0};
    int64_t experts = 0;
    LH_TRY(lh_gguf_string(m->gguf, "general.architecture", &arch));
    for (int i = 0; lh_family_at(i); i++) {
        const maker candidate = {m->gguf, lh_family_at(i), NULL};
        const char *name = candidate.family->gguf, *key = candidate.family->gguf_key;
        double value = 0;
        if (!name || !lh_gguf_text_is(&arch, name)) continue;
        if (key) LH_TRY(get_f64(&candidate, key, &value));
        if (key ? value > 0 : !m->family) m->family = candidate.family;
    }
    if (!m->family) return unknown_architecture(m->gguf, &arch);
    LH_TRY(get_i64(m, "expert_count", &experts));
    if (experts > 0 && !m->family->experts)
        LH_FAIL(LH_EINPUT, "'%s' is a mixture of %" PRId64 " experts of the architecture '%s', which is not known here",
                lh_gguf_path(m->gguf), experts, m->family->gguf);
    return LH_OK;
}

lh_status lh_gguf_config(json_t **out, const lh_gguf *gguf)
{
    lh_status st = LH_OK;
    maker m = {.gguf = gguf, .json = json_object()};
    LH_TRY_DONE(find_family(&m));
    LH_TRY_DONE(check_keys(gguf, m.family));
    LH_TRY_DONE(lh_json_set(m.json, "model_type", json_string(m.family->name)));
    LH_TRY_DONE(lh_json_set(m.json, "architectures", json_pack("[s]", m.family->architecture)));
    LH_TRY_DONE(copy_sizes(&m));
    LH_TRY_DONE(copy_experts(&m));
    LH_TRY_DONE(copy_numbers(&m));
    LH_TRY_DONE(add_windows(&m));
    LH_TRY_DONE(add_query_scalar(&m));
    LH_TRY_DONE(add_tensors(&m));
    LH_TRY_DONE(add_scaling(&m));
    LH_TRY_DONE(add_ids(&m));
    *out = json_incref(m.json);
done:
    json_decref(m.json);
    return st;
}
