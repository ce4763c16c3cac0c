/* config_members.c - the known members of a configuration: members that are read, with the property of the families
 * that read them, and members that change no logits. Any other member is named in a warning. The lists hold the
 * members of the configuration classes of transformers 4.57 and 5.24 and of published models. */
#include <string.h>

#include "base/json.h"
#include "import/config_impl.h"

typedef struct member {
    const char *name;
    lh_trait who;
} member;

static const member read[] = {
    {"architectures", LH_TRAIT_ANY},
    {"attention_bias", LH_TRAIT_BIASES},
    {"attention_multiplier", LH_TRAIT_MULTIPLIERS},
    {"attention_out_bias", LH_TRAIT_OUT_BIAS},
    {"attn_logit_softcapping", LH_TRAIT_GEMMA}, /* Gemma 3 has the member, but ignores it */
    {"bos_token_id", LH_TRAIT_ANY},
    {"decoder_sparse_step", LH_TRAIT_EXPERTS},
    {"embedding_multiplier", LH_TRAIT_MULTIPLIERS},
    {"eos_token_id", LH_TRAIT_ANY},
    {"final_logit_softcapping", LH_TRAIT_FINAL_CAPS},
    {"head_dim", LH_TRAIT_ANY},
    {"hidden_act", LH_TRAIT_ANY},
    {"hidden_activation", LH_TRAIT_GEMMA},
    {"hidden_size", LH_TRAIT_ANY},
    {"intermediate_size", LH_TRAIT_ANY},
    {"is_causal", LH_TRAIT_ANY},
    {"layer_types", LH_TRAIT_ANY},
    {"logits_scaling", LH_TRAIT_MULTIPLIERS},
    {"max_position_embeddings", LH_TRAIT_ANY},
    {"max_window_layers", LH_TRAIT_WINDOWS},
    {"mlp_bias", LH_TRAIT_BIASES},
    {"mlp_only_layers", LH_TRAIT_EXPERTS},
    {"model_type", LH_TRAIT_ANY},
    {"moe_intermediate_size", LH_TRAIT_EXPERTS},
    {"no_rope_layer_interval", LH_TRAIT_UNROTATED},
    {"no_rope_layers", LH_TRAIT_UNROTATED},
    {"norm_topk_prob", LH_TRAIT_EXPERTS},
    {"num_attention_heads", LH_TRAIT_ANY},
    {"num_experts", LH_TRAIT_EXPERTS},
    {"num_experts_per_tok", LH_TRAIT_EXPERTS},
    {"num_hidden_layers", LH_TRAIT_ANY},
    {"num_key_value_heads", LH_TRAIT_ANY},
    {"num_local_experts", LH_TRAIT_EXPERTS},
    {"original_max_position_embeddings", LH_TRAIT_ANY},
    {"partial_rotary_factor", LH_TRAIT_ANY},
    {"quantization_config", LH_TRAIT_ANY},
    {"query_pre_attn_scalar", LH_TRAIT_GEMMA},
    {"residual_multiplier", LH_TRAIT_MULTIPLIERS},
    {"rms_norm_eps", LH_TRAIT_ANY},
    {"rope_local_base_freq", LH_TRAIT_LOCAL_THETA},
    {"rope_parameters", LH_TRAIT_ANY},
    {"rope_scaling", LH_TRAIT_ANY},
    {"rope_theta", LH_TRAIT_ANY},
    {"sliding_window", LH_TRAIT_WINDOWS},
    {"sliding_window_pattern", LH_TRAIT_PATTERNS},
    {"_sliding_window_pattern", LH_TRAIT_PATTERNS}, /* a remark of transformers about layer_types */
    {"tie_word_embeddings", LH_TRAIT_ANY},
    {"use_bidirectional_attention", LH_TRAIT_ANY},
    {"use_qk_norm", LH_TRAIT_QK_NORMS},
    {"use_sliding_window", LH_TRAIT_WINDOWS},
    {"vocab_size", LH_TRAIT_ANY},
};

/* Members that change no logits: of training, generation, classification, storage, images and sound. */
/* clang-format off */
static const char *const harmless[] = {
    /* names, versions, types */
    "_name_or_path", "name_or_path", "_commit_hash", "auto_map", "dtype", "torch_dtype", "tokenizer_class",
    "transformers_version", "transformers.js_config", "unsloth_fixed", "unsloth_version", "is_llama_config",
    "base_config_key", "model_name", "version", "license", "use_bfloat16", "torchscript", "pruned_heads",
    /* how transformers computes, not what */
    "_attn_implementation", "_attn_implementation_autoset", "attn_implementation", "use_cache", "pretraining_tp",
    "chunk_size_feed_forward", "cache_implementation", "use_flash_attn", "use_flash_attention",
    "use_flash_attention_2", "return_dict", "use_return_dict", "output_attentions", "output_hidden_states",
    "output_scores", "is_decoder", "experts_implementation",
    /* training */
    "initializer_range", "initializer_factor", "attention_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop",
    "residual_dropout", "hidden_dropout", "hidden_dropout_prob", "dropout", "gradient_checkpointing",
    "router_aux_loss_coef", "router_jitter_noise", "router_z_loss_coef", "output_router_logits",
    /* tokens and generation */
    "pad_token_id", "unk_token_id", "sep_token_id", "decoder_start_token_id", "forced_bos_token_id",
    "forced_eos_token_id", "suppress_tokens", "begin_suppress_tokens", "bad_words_ids", "max_length", "min_length",
    "max_new_tokens", "do_sample", "early_stopping", "num_beams", "num_beam_groups", "num_return_sequences",
    "diversity_penalty", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty",
    "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "remove_invalid_values",
    "exponential_decay_length_penalty", "tf_legacy_loss", "prefix", "max_sequence_length", "model_max_length",
    "seq_length", "seq_len", "task_specific_params",
    /* classification */
    "id2label", "label2id", "num_labels", "problem_type", "finetuning_task",
    /* of other families, without effect at the values that are published */
    "layer_norm_eps", "layer_norm_epsilon", /* of norms that subtract the mean */
    "activation", /* Falcon 3: "swiglu", in addition to hidden_act */
    "full_attn_mod", "interpolate_factor", "lm_head_bias", /* Phi-4-mini: 1, 1, false */
    "shared_expert_intermediate_size", /* Qwen3-Coder: 0 */
    "num_nextn_predict_layers", "mtp_num_hidden_layers", /* separate layers, which predict further tokens */
    /* images, sound */
    "text_config", "vision_config", "audio_config", "image_token_id", "image_token_index", "video_token_id",
    "video_token_index", "audio_token_id", "vision_start_token_id", "vision_end_token_id", "vision_token_id",
    "boi_token_index", "eoi_token_index", "boi_token_id", "eoi_token_id", "mm_tokens_per_image",
    "spatial_merge_size", "vision_feature_layer", "vision_feature_select_strategy", "projector_hidden_act",
    "multimodal_projector_bias",
};
/* clang-format on */

/* Members that change the logits unless they are null, false, 0, or an empty text, list or object. */
static const struct {
    const char *name, *why;
} refused[] = {
    {"per_layer_config", "layers that differ from each other are not supported"},
    {"clip_qkv", "queries, keys and values that are clipped are not supported"},
    {"alibi", "positions are supported by rotation only"},
    {"compression_config",
     "the weights are quantised by an early version of compressed-tensors: only those with 'quantization_config' are "
     "supported"},
    {"quantization",
     "the weights are quantised by MLX: use a GGUF file, or a folder in 16 bits or with 'quantization_config'"},
};

static int is_empty(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return json_object_size(value) == 0;
    case JSON_ARRAY: return json_array_size(value) == 0;
    case JSON_STRING: return json_string_length(value) == 0;
    case JSON_INTEGER:
    case JSON_REAL: return json_number_value(value) == 0;
    case JSON_TRUE: return 0;
    default: return 1;
    }
}

static int is_known(const lh_family *family, const char *name)
{
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (strcmp(read[i].name, name) == 0) return lh_family_has(family, read[i].who);
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (strcmp(harmless[i], name) == 0) return 1;
    return 0;
}

lh_status lh_config_refuse_members(const json_t *json, const char *name)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const json_t *value = json_object_get(json, refused[i].name);
        if (value && !is_empty(value)) LH_FAIL(LH_EINPUT, "'%s': '%s': %s", name, refused[i].name, refused[i].why);
    }
    if (json_is_false(json_object_get(json, "is_causal")))
        LH_FAIL(LH_EINPUT, "'%s': 'is_causal' is false: only causal models are supported", name);
    return LH_OK;
}

lh_status lh_config_unknown_members(lh_buf *out, const lh_family *family, const json_t *json)
{
    const char *name;
    json_t *value;
    int64_t n = 0;
    json_object_foreach((json_t *)(uintptr_t)json, name, value)
    {
        if (is_empty(value) || is_known(family, name)) continue;
        if (n < 6) LH_TRY(lh_buf_printf(out, "%s'%s'", n ? ", " : "", name));
        n++;
    }
    return n > 6 ? lh_buf_printf(out, ", and %lld more", (long long)(n - 6)) : LH_OK;
}
