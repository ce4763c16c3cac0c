/* families.c - the table of model families. Defaults come from the configuration classes of transformers (4.57, or
 * 5.24 where 4.57 has no such class), names of tensors from Hugging Face checkpoints and GGUF files. */
#include "import/families.h"

#include <string.h>

/* clang-format off */
#define TENSORS_OF_MODEL_AND_ATTENTION                                  \
    [LH_W_EMBED] = {"embed_tokens.weight", "token_embd.weight", 0, 0},  \
    [LH_W_NORM] = {"norm.weight", "output_norm.weight", 0, 0},          \
    [LH_W_HEAD] = {"lm_head.weight", "output.weight", 0, 0},            \
    [LH_W_ATTN_NORM] = {"input_layernorm.weight", "attn_norm.weight", 0, 0}, \
    [LH_W_O] = {"self_attn.o_proj.weight", "attn_output.weight", 0, 0}, \
    [LH_W_Q_BIAS] = {"self_attn.q_proj.bias", "attn_q.bias", 0, 0},     \
    [LH_W_K_BIAS] = {"self_attn.k_proj.bias", "attn_k.bias", 0, 0},     \
    [LH_W_V_BIAS] = {"self_attn.v_proj.bias", "attn_v.bias", 0, 0},     \
    [LH_W_O_BIAS] = {"self_attn.o_proj.bias", "attn_output.bias", 0, 0}, \
    [LH_W_Q_NORM] = {"self_attn.q_norm.weight", "attn_q_norm.weight", 0, 0}, \
    [LH_W_K_NORM] = {"self_attn.k_norm.weight", "attn_k_norm.weight", 0, 0}

#define TENSORS_OF_ALL                                                  \
    TENSORS_OF_MODEL_AND_ATTENTION,                                     \
    [LH_W_DOWN] = {"mlp.down_proj.weight", "ffn_down.weight", 0, 0},    \
    [LH_W_GATE_BIAS] = {"mlp.gate_proj.bias", "ffn_gate.bias", 0, 0},   \
    [LH_W_UP_BIAS] = {"mlp.up_proj.bias", "ffn_up.bias", 0, 0},         \
    [LH_W_DOWN_BIAS] = {"mlp.down_proj.bias", "ffn_down.bias", 0, 0}

#define TENSORS_QKV                                                     \
    [LH_W_Q] = {"self_attn.q_proj.weight", "attn_q.weight", 0, 0},      \
    [LH_W_K] = {"self_attn.k_proj.weight", "attn_k.weight", 0, 0},      \
    [LH_W_V] = {"self_attn.v_proj.weight", "attn_v.weight", 0, 0}

#define TENSORS_UNFUSED                                                 \
    TENSORS_QKV,                                                        \
    [LH_W_GATE] = {"mlp.gate_proj.weight", "ffn_gate.weight", 0, 0},    \
    [LH_W_UP] = {"mlp.up_proj.weight", "ffn_up.weight", 0, 0}

static const lh_tensor_name usual[LH_WEIGHTS] = {
    TENSORS_OF_ALL,
    TENSORS_UNFUSED,
    [LH_W_MLP_NORM] = {"post_attention_layernorm.weight", "ffn_norm.weight", 0, 0},
};

/* Here post_attention_layernorm follows the attention. */
static const lh_tensor_name with_post_norms[LH_WEIGHTS] = {
    TENSORS_OF_ALL,
    TENSORS_UNFUSED,
    [LH_W_ATTN_POST_NORM] = {"post_attention_layernorm.weight", "post_attention_norm.weight", 0, 0},
    [LH_W_MLP_NORM] = {"pre_feedforward_layernorm.weight", "ffn_norm.weight", 0, 0},
    [LH_W_MLP_POST_NORM] = {"post_feedforward_layernorm.weight", "post_ffw_norm.weight", 0, 0},
};

static const lh_tensor_name fused[LH_WEIGHTS] = {
    TENSORS_OF_ALL,
    [LH_W_MLP_NORM] = {"post_attention_layernorm.weight", "ffn_norm.weight", 0, 0},
    [LH_W_Q] = {"self_attn.qkv_proj.weight", "attn_qkv.weight", LH_W_Q, LH_W_V},
    [LH_W_K] = {"self_attn.qkv_proj.weight", "attn_qkv.weight", LH_W_Q, LH_W_V},
    [LH_W_V] = {"self_attn.qkv_proj.weight", "attn_qkv.weight", LH_W_Q, LH_W_V},
    [LH_W_GATE] = {"mlp.gate_up_proj.weight", "ffn_up.weight", LH_W_GATE, LH_W_UP},
    [LH_W_UP] = {"mlp.gate_up_proj.weight", "ffn_up.weight", LH_W_GATE, LH_W_UP},
};

static const lh_tensor_name mixtral_tensors[LH_WEIGHTS] = {
    TENSORS_OF_MODEL_AND_ATTENTION,
    TENSORS_QKV,
    [LH_W_MLP_NORM] = {"post_attention_layernorm.weight", "ffn_norm.weight", 0, 0},
    [LH_W_ROUTER] = {"block_sparse_moe.gate.weight", "ffn_gate_inp.weight", 0, 0},
    [LH_W_GATE] = {"block_sparse_moe.experts.*.w1.weight", "ffn_gate_exps.weight", 0, 0},
    [LH_W_UP] = {"block_sparse_moe.experts.*.w3.weight", "ffn_up_exps.weight", 0, 0},
    [LH_W_DOWN] = {"block_sparse_moe.experts.*.w2.weight", "ffn_down_exps.weight", 0, 0},
};

static const lh_tensor_name with_experts[LH_WEIGHTS] = {
    TENSORS_OF_MODEL_AND_ATTENTION,
    TENSORS_QKV,
    [LH_W_MLP_NORM] = {"post_attention_layernorm.weight", "ffn_norm.weight", 0, 0},
    [LH_W_ROUTER] = {"mlp.gate.weight", "ffn_gate_inp.weight", 0, 0},
    [LH_W_GATE] = {"mlp.experts.*.gate_proj.weight", "ffn_gate_exps.weight", 0, 0},
    [LH_W_UP] = {"mlp.experts.*.up_proj.weight", "ffn_up_exps.weight", 0, 0},
    [LH_W_DOWN] = {"mlp.experts.*.down_proj.weight", "ffn_down_exps.weight", 0, 0},
};
/* clang-format on */

static const lh_expert_rule mixtral_experts = {
    .ff_key = "intermediate_size", .count = 8, .top_k = 2, .always_normalised = 1};
static const lh_expert_rule qwen3_experts = {.ff_key = "moe_intermediate_size", .count = 128, .top_k = 8, .ff = 768};

static const lh_family families[] = {
    {
        /* Llama 1 to 3.3, SmolLM2 and all models with model_type `llama`. */
        .name = "llama",
        .architecture = "LlamaForCausalLM",
        .gguf = "llama",
        .defaults = {.max_positions = 2048, .norm_eps = 1e-6, .theta = 10000, .bos = 1, .eos = 2},
        .bias = LH_BIAS_OPTION,
        .activation_key = "hidden_act",
        .gguf_permuted = 1,
        .tensors = usual,
    },
    {
        .name = "mistral",
        .architecture = "MistralForCausalLM",
        .also = {"mistral3"},
        .gguf = "mistral3",
        .defaults = {.kv_heads = 8,
                     .max_positions = 131072,
                     .window = 4096,
                     .norm_eps = 1e-6,
                     .theta = 10000,
                     .bos = 1,
                     .eos = 2},
        .window = LH_WINDOW_ALL,
        .activation_key = "hidden_act",
        .gguf_permuted = 1,
        .tensors = usual,
    },
    {
        .name = "ministral3",
        .architecture = "Ministral3ForCausalLM",
        .gguf = "mistral3",
        .gguf_key = "attention.temperature_scale",
        .defaults = {.vocab = 131072,
                     .hidden = 4096,
                     .ff = 14336,
                     .layers = 34,
                     .heads = 32,
                     .kv_heads = 8,
                     .head_dim = 128,
                     .max_positions = 262144,
                     .norm_eps = 1e-5,
                     .theta = 1e6,
                     .bos = 1,
                     .eos = 2},
        .window = LH_WINDOW_ALL,
        .activation_key = "hidden_act",
        .scaled_queries = 1,
        .gguf_permuted = 1,
        .tensors = usual,
    },
    {
        .name = "qwen2",
        .architecture = "Qwen2ForCausalLM",
        .gguf = "qwen2",
        .defaults = {.kv_heads = 32,
                     .max_positions = 32768,
                     .window = 4096,
                     .pattern = 28,
                     .norm_eps = 1e-6,
                     .theta = 10000,
                     .bos = -1,
                     .eos = -1},
        .window = LH_WINDOW_LATE,
        .bias = LH_BIAS_QKV,
        .activation_key = "hidden_act",
        .tensors = usual,
    },
    {
        .name = "qwen3",
        .architecture = "Qwen3ForCausalLM",
        .gguf = "qwen3",
        .defaults = {.kv_heads = 32,
                     .head_dim = 128,
                     .max_positions = 32768,
                     .window = 4096,
                     .pattern = 28,
                     .norm_eps = 1e-6,
                     .theta = 10000,
                     .bos = -1,
                     .eos = -1},
        .window = LH_WINDOW_LATE,
        .bias = LH_BIAS_OPTION,
        .activation_key = "hidden_act",
        .qk_norm = LH_QK_NORM_HEADS,
        .tensors = usual,
    },
    {
        .name = "qwen2_5_vl",
        .architecture = "Qwen2_5_VLForConditionalGeneration",
        .also = {"qwen2_5_vl_text", "qwen2_vl", "qwen2_vl_text"},
        .gguf = "qwen2vl",
        .defaults = {.vocab = 152064,
                     .hidden = 8192,
                     .ff = 29568,
                     .layers = 80,
                     .heads = 64,
                     .kv_heads = 8,
                     .max_positions = 32768,
                     .window = 4096,
                     .pattern = 80,
                     .norm_eps = 1e-5,
                     .theta = 1e6,
                     .bos = 151643,
                     .eos = 151645},
        .window = LH_WINDOW_LATE,
        .bias = LH_BIAS_QKV,
        .activation_key = "hidden_act",
        .tensors = usual,
    },
    {
        .name = "qwen3_vl",
        .architecture = "Qwen3VLForConditionalGeneration",
        .also = {"qwen3_vl_text"},
        .gguf = "qwen3vl",
        .defaults = {.vocab = 151936,
                     .hidden = 4096,
                     .ff = 22016,
                     .layers = 32,
                     .heads = 32,
                     .kv_heads = 32,
                     .head_dim = 128,
                     .max_positions = 128000,
                     .norm_eps = 1e-6,
                     .theta = 500000,
                     .bos = -1,
                     .eos = -1},
        .bias = LH_BIAS_OPTION,
        .activation_key = "hidden_act",
        .qk_norm = LH_QK_NORM_HEADS,
        .tensors = usual,
    },
    {
        .name = "gemma2",
        .architecture = "Gemma2ForCausalLM",
        .gguf = "gemma2",
        .defaults = {.vocab = 256000,
                     .hidden = 2304,
                     .ff = 9216,
                     .layers = 26,
                     .heads = 8,
                     .kv_heads = 4,
                     .head_dim = 256,
                     .max_positions = 8192,
                     .window = 4096,
                     .pattern = 2,
                     .norm_eps = 1e-6,
                     .theta = 10000,
                     .query_scalar = 256,
                     .attn_softcap = 50,
                     .final_softcap = 30,
                     .bos = 2,
                     .eos = 1,
                     .tied = 1},
        .window = LH_WINDOW_PATTERN,
        .bias = LH_BIAS_OPTION,
        .activation = LH_ACT_GELU_TANH,
        .activation_key = "hidden_activation",
        .norms = LH_NORMS_AROUND,
        .gemma = 1,
        .attn_softcap = 1,
        .final_softcap = 1,
        .tensors = with_post_norms,
    },
    {
        .name = "gemma3_text",
        .architecture = "Gemma3ForCausalLM",
        .also = {"gemma3"},
        .gguf = "gemma3",
        .defaults = {.vocab = 262208,
                     .hidden = 2304,
                     .ff = 9216,
                     .layers = 26,
                     .heads = 8,
                     .kv_heads = 4,
                     .head_dim = 256,
                     .max_positions = 131072,
                     .window = 4096,
                     .pattern = 6,
                     .norm_eps = 1e-6,
                     .theta = 1e6,
                     .local_theta = 10000,
                     .query_scalar = 256,
                     .bos = 2,
                     .eos = 1,
                     .tied = 1},
        .window = LH_WINDOW_PATTERN,
        .bias = LH_BIAS_OPTION,
        .activation = LH_ACT_GELU_TANH,
        .activation_key = "hidden_activation",
        .norms = LH_NORMS_AROUND,
        .gemma = 1,
        .qk_norm = LH_QK_NORM_HEADS,
        .final_softcap = 1,
        .tensors = with_post_norms,
    },
    {
        .name = "phi3",
        .architecture = "Phi3ForCausalLM",
        .gguf = "phi3",
        .defaults = {.max_positions = 4096,
                     .original_positions = 4096,
                     .norm_eps = 1e-5,
                     .theta = 10000,
                     .bos = 1,
                     .eos = 32000},
        .window = LH_WINDOW_ALL,
        .activation_key = "hidden_act",
        .tensors = fused,
    },
    {
        .name = "smollm3",
        .architecture = "SmolLM3ForCausalLM",
        .gguf = "smollm3",
        .defaults = {.vocab = 128256,
                     .hidden = 2048,
                     .ff = 11008,
                     .layers = 36,
                     .heads = 16,
                     .kv_heads = 4,
                     .max_positions = 32768,
                     .unrotated = 4,
                     .norm_eps = 1e-6,
                     .theta = 2e6,
                     .bos = 128000,
                     .eos = 128001,
                     .tied = 1},
        .window = LH_WINDOW_UNROTATED,
        .unrotated = LH_UNROTATED_LISTED,
        .bias = LH_BIAS_OPTION,
        .activation_key = "hidden_act",
        .gguf_permuted = 1,
        .tensors = usual,
    },
    {
        .name = "granite",
        .architecture = "GraniteForCausalLM",
        .gguf = "granite",
        .defaults = {.max_positions = 2048, .norm_eps = 1e-6, .theta = 10000, .bos = 1, .eos = 2},
        .bias = LH_BIAS_OPTION,
        .activation_key = "hidden_act",
        .multipliers = 1,
        .gguf_permuted = 1,
        .tensors = usual,
    },
    {
        .name = "olmo2",
        .architecture = "Olmo2ForCausalLM",
        .gguf = "olmo2",
        .defaults = {.vocab = 50304,
                     .hidden = 4096,
                     .ff = 11008,
                     .layers = 32,
                     .heads = 32,
                     .max_positions = 2048,
                     .norm_eps = 1e-5,
                     .theta = 10000,
                     .bos = -1,
                     .eos = 50279},
        .bias = LH_BIAS_OPTION,
        .activation_key = "hidden_act",
        .norms = LH_NORMS_AFTER,
        .qk_norm = LH_QK_NORM_ROWS,
        .tensors = with_post_norms,
    },
    {
        .name = "olmo3",
        .architecture = "Olmo3ForCausalLM",
        .gguf = "olmo2",
        .gguf_key = "attention.sliding_window",
        .defaults = {.vocab = 50304,
                     .hidden = 4096,
                     .ff = 11008,
                     .layers = 32,
                     .heads = 32,
                     .max_positions = 2048,
                     .window = 4096,
                     .pattern = 4,
                     .norm_eps = 1e-5,
                     .theta = 10000,
                     .bos = -1,
                     .eos = 50279},
        .window = LH_WINDOW_PATTERN,
        .bias = LH_BIAS_OPTION,
        .activation_key = "hidden_act",
        .norms = LH_NORMS_AFTER,
        .qk_norm = LH_QK_NORM_ROWS,
        .local_plain = 1,
        .tensors = with_post_norms,
    },
    {
        .name = "seed_oss",
        .architecture = "SeedOssForCausalLM",
        .defaults = {.vocab = 155136,
                     .hidden = 4096,
                     .ff = 27648,
                     .layers = 64,
                     .heads = 80,
                     .kv_heads = 8,
                     .head_dim = 128,
                     .max_positions = 524288,
                     .norm_eps = 1e-6,
                     .theta = 10000,
                     .bos = 0,
                     .eos = 2},
        .bias = LH_BIAS_PARTS,
        .activation_key = "hidden_act",
        .tensors = usual,
    },
    {
        .name = "exaone4",
        .architecture = "Exaone4ForCausalLM",
        .defaults = {.vocab = 102400,
                     .hidden = 4096,
                     .ff = 16384,
                     .layers = 32,
                     .heads = 32,
                     .kv_heads = 32,
                     .max_positions = 2048,
                     .window = 4096,
                     .pattern = 4,
                     .norm_eps = 1e-5,
                     .theta = 10000,
                     .bos = 0,
                     .eos = 2},
        .window = LH_WINDOW_PATTERN,
        .activation_key = "hidden_act",
        .norms = LH_NORMS_AFTER,
        .unrotated = LH_UNROTATED_FULL,
        .qk_norm = LH_QK_NORM_HEADS,
        .tensors = with_post_norms,
    },
    {
        .name = "mixtral",
        .architecture = "MixtralForCausalLM",
        .gguf = "llama",
        .gguf_key = "expert_count",
        .defaults = {.vocab = 32000,
                     .hidden = 4096,
                     .ff = 14336,
                     .layers = 32,
                     .heads = 32,
                     .kv_heads = 8,
                     .max_positions = 131072,
                     .norm_eps = 1e-5,
                     .theta = 1e6,
                     .bos = 1,
                     .eos = 2},
        .window = LH_WINDOW_ALL,
        .activation_key = "hidden_act",
        .experts = &mixtral_experts,
        .gguf_permuted = 1,
        .tensors = mixtral_tensors,
    },
    {
        .name = "qwen3_moe",
        .architecture = "Qwen3MoeForCausalLM",
        .gguf = "qwen3moe",
        .defaults = {.vocab = 151936,
                     .hidden = 2048,
                     .ff = 6144,
                     .layers = 24,
                     .heads = 32,
                     .kv_heads = 4,
                     .max_positions = 32768,
                     .window = 4096,
                     .norm_eps = 1e-6,
                     .theta = 10000,
                     .bos = -1,
                     .eos = -1},
        .window = LH_WINDOW_ASKED,
        .bias = LH_BIAS_OPTION,
        .activation_key = "hidden_act",
        .qk_norm = LH_QK_NORM_HEADS,
        .experts = &qwen3_experts,
        .tensors = with_experts,
    },
};

const lh_family *lh_family_at(int i)
{
    return i >= 0 && (size_t)i < sizeof families / sizeof *families ? &families[i] : NULL;
}

const lh_family *lh_family_find(const char *name)
{
    for (int i = 0; lh_family_at(i); i++) {
        const lh_family *f = &families[i];
        if (strcmp(f->name, name) == 0 || strcmp(f->architecture, name) == 0) return f;
        for (int k = 0; f->also[k]; k++)
            if (strcmp(f->also[k], name) == 0) return f;
    }
    return NULL;
}

int lh_family_has(const lh_family *f, lh_trait trait)
{
    const int has[LH_TRAITS] = {
        [LH_TRAIT_ANY] = 1,
        [LH_TRAIT_WINDOWS] = f->window != LH_WINDOW_NONE,
        [LH_TRAIT_PATTERNS] = f->window == LH_WINDOW_PATTERN,
        [LH_TRAIT_LOCAL_THETA] = f->defaults.local_theta > 0,
        [LH_TRAIT_UNROTATED] = f->unrotated == LH_UNROTATED_LISTED,
        [LH_TRAIT_SCALED_QUERIES] = f->scaled_queries,
        [LH_TRAIT_QK_NORMS] = f->qk_norm != LH_QK_NORM_NONE,
        [LH_TRAIT_BIASES] = f->bias == LH_BIAS_OPTION || f->bias == LH_BIAS_PARTS,
        [LH_TRAIT_OUT_BIAS] = f->bias == LH_BIAS_PARTS,
        [LH_TRAIT_GEMMA] = f->gemma,
        [LH_TRAIT_ATTN_CAPS] = f->attn_softcap,
        [LH_TRAIT_FINAL_CAPS] = f->final_softcap,
        [LH_TRAIT_MULTIPLIERS] = f->multipliers,
        [LH_TRAIT_EXPERTS] = f->experts != NULL,
    };
    return has[trait];
}
