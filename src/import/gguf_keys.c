/* gguf_keys.c - the keys of a GGUF file that are known in the namespace of its architecture. A key that would change
 * attention, rotation or experts and that is not known is refused by name; any other is named in a warning. */
#include <string.h>

#include "base/log.h"
#include "base/minmax.h"
#include "import/import_source.h"

/* Which families a key is read for. */
typedef enum reader { ALL, WINDOWS, PATTERNS, EXPERTS, MULTIPLIERS, SCALED_QUERIES, ATTN_CAPS, FINAL_CAPS } reader;

static int reads(const lh_family *f, reader who)
{
    const int has[] = {[ALL] = 1,
                       [WINDOWS] = f->window != LH_WINDOW_NONE,
                       [PATTERNS] = f->window == LH_WINDOW_PATTERN,
                       [EXPERTS] = f->experts != NULL,
                       [MULTIPLIERS] = f->multipliers,
                       [SCALED_QUERIES] = f->scaled_queries,
                       [ATTN_CAPS] = f->attn_softcap,
                       [FINAL_CAPS] = f->final_softcap};
    return has[who];
}

/* Keys that gguf_config.c reads, and keys that change no logits here. */
static const struct {
    const char *key;
    reader who;
} known[] = {
    {"block_count", ALL},
    {"context_length", ALL},
    {"embedding_length", ALL},
    {"feed_forward_length", ALL},
    {"attention.head_count", ALL},
    {"attention.head_count_kv", ALL},
    {"attention.key_length", ALL},
    {"attention.value_length", ALL},
    {"attention.layer_norm_rms_epsilon", ALL},
    {"attention.sliding_window", WINDOWS},
    {"attention.sliding_window_pattern", PATTERNS},
    {"attention.temperature_scale", SCALED_QUERIES},
    {"attention.scale", MULTIPLIERS},
    {"embedding_scale", MULTIPLIERS},
    {"residual_scale", MULTIPLIERS},
    {"logit_scale", MULTIPLIERS},
    {"attn_logit_softcapping", ATTN_CAPS},
    {"final_logit_softcapping", FINAL_CAPS},
    {"expert_count", ALL},
    {"expert_used_count", EXPERTS},
    {"expert_feed_forward_length", EXPERTS},
    {"rope.dimension_count", ALL},
    {"rope.freq_base", ALL},
    {"rope.freq_base_swa", ALL},
    {"rope.global.freq_base", PATTERNS}, /* ollama's names in Gemma 3 */
    {"rope.local.freq_base", PATTERNS},
    {"rope.scale_linear", ALL},
    {"rope.scaling.type", ALL},
    {"rope.scaling.factor", ALL},
    {"rope.scaling.attn_factor", ALL},
    {"rope.scaling.original_context_length", ALL},
    {"rope.scaling.yarn_attn_factor", ALL},
    {"rope.scaling.yarn_beta_fast", ALL},
    {"rope.scaling.yarn_beta_slow", ALL},
    {"rope.scaling.yarn_log_multiplier", ALL},
    /* without effect */
    {"vocab_size", ALL},
    {"tensor_data_layout", ALL},
    {"attention.layer_norm_epsilon", ALL}, /* of norms that subtract the mean */
    {"rope.dimension_sections", ALL},      /* tokens of text have one position in all sections */
    {"rope.mrope_section", ALL},           /* the same, by ollama */
    {"n_deepstack_layers", ALL},           /* of images */
    {"expert_weights_norm", EXPERTS},      /* llama.cpp normalises in all families of experts here */
};

/* Keys of which one value is understood. */
static const struct {
    const char *key;
    double value;
    reader who;
} fixed[] = {
    {"attention.causal", 1, ALL},
    {"expert_gating_func", 1, EXPERTS}, /* softmax */
    {"expert_weights_scale", 1, EXPERTS},
    {"rope.scaling.yarn_ext_factor", 1, ALL},
    {"rope.scaling.finetuned", 1, MULTIPLIERS}, /* llama.cpp's granite.cpp: else no layer is rotated */
};

/* What other programs keep beside the text model. */
static const char *const foreign[] = {"vision.", "mm.", "audio."};

/* What they begin with, of keys that change the logits. */
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

static int equals(const lh_gguf_text *key, const char *name)
{
    return key->bytes == (int64_t)strlen(name) && begins(key, name);
}

/* A key without the name of the architecture. *unknown: true if it is to be named in a warning. */
static lh_status check_key(const lh_gguf *gguf, const lh_family *f, const lh_gguf_entry *e, int *unknown)
{
    const int shown = (int)lh_min_i64(e->key.bytes, 80);
    *unknown = 0;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        if (!equals(&e->key, fixed[i].key)) continue;
        if (reads(f, fixed[i].who) && (!e->is_number || e->number != fixed[i].value))
            LH_FAIL(LH_EINPUT, "'%s': '%s.%s' is %g: only %g is supported", lh_gguf_path(gguf), f->gguf, fixed[i].key,
                    e->number, fixed[i].value);
        return LH_OK;
    }
    if (e->is_empty || begins_with_one(&e->key, foreign, sizeof foreign / sizeof *foreign)) return LH_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (equals(&e->key, known[i].key) && reads(f, known[i].who)) return LH_OK;
    if (begins_with_one(&e->key, decisive, sizeof decisive / sizeof *decisive))
        LH_FAIL(LH_EINPUT, "'%s': the key '%s.%.*s' is not known here, and it may change what the model computes",
                lh_gguf_path(gguf), f->gguf, shown, e->key.data);
    *unknown = 1;
    return LH_OK;
}

lh_status lh_gguf_check_keys(const lh_gguf *gguf, const lh_family *family)
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
