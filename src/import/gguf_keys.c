/* gguf_keys.c - the keys of a GGUF file that are known in the namespace of its architecture. A key that would change
 * attention, rotation or experts and that is not known is refused by name; any other is named in a warning. */
#include <string.h>

#include "base/log.h"
#include "base/minmax.h"
#include "import/import_source.h"

/* Keys that gguf_config.c reads, and keys that change no logits here. */
static const struct {
    const char *key;
    lh_trait who;
} known[] = {
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

/* Keys of which one value is understood, and one that stands for an absent key. */
static const struct {
    const char *key;
    double value, absent;
    lh_trait who;
} fixed[] = {
    {"attention.causal", 1, 1, LH_TRAIT_ANY},
    {"expert_gating_func", 1, 0, LH_TRAIT_EXPERTS}, /* softmax */
    {"expert_weights_scale", 1, 0, LH_TRAIT_EXPERTS},
    {"rope.scaling.yarn_ext_factor", 1, -1, LH_TRAIT_ANY},
    {"rope.scaling.finetuned", 1, 1, LH_TRAIT_MULTIPLIERS}, /* llama.cpp's granite.cpp: else no layer is rotated */
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
        const int is_right = e->is_number && (e->number == fixed[i].value || e->number == fixed[i].absent);
        if (lh_family_has(f, fixed[i].who) && !is_right)
            LH_FAIL(LH_EINPUT, "'%s': '%s.%s' is %g: only %g is supported", lh_gguf_path(gguf), f->gguf, fixed[i].key,
                    e->number, fixed[i].value);
        return LH_OK;
    }
    if (e->is_empty || begins_with_one(&e->key, foreign, sizeof foreign / sizeof *foreign)) return LH_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (equals(&e->key, known[i].key) && lh_family_has(f, known[i].who)) return LH_OK;
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
