/* random_shapes.c - the table of shapes, and the byte tokenizer of the tiny one. */
#include "import/random_shapes.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/unicode.h"
#include "import/config.h"
#include "import/quantiser.h"
#include "text/pretok.h"

/* clang-format off */
static const struct {
    const char *name, *summary, *config;
    int tokenizer; /* true: with a tokenizer of single bytes */
} shapes[] = {
    {"tiny", "4 layers of 4 heads (2 KV heads) of 32, 131072 positions, a tokenizer of bytes",
     "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 259, \"hidden_size\": 128,"
     " \"intermediate_size\": 384, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
     " \"head_dim\": 32, \"max_position_embeddings\": 131072, \"rms_norm_eps\": 1e-05, \"rope_theta\": 500000.0,"
     " \"hidden_act\": \"silu\", \"tie_word_embeddings\": false, \"bos_token_id\": null, \"eos_token_id\": [258, 256]}",
     1},
    {"llama-3.2-1b", "16 layers, 32 heads (8 KV heads) of 64, tied",
     "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 128256,"
     " \"hidden_size\": 2048, \"intermediate_size\": 8192, \"num_hidden_layers\": 16, \"num_attention_heads\": 32,"
     " \"num_key_value_heads\": 8, \"head_dim\": 64, \"max_position_embeddings\": 131072, \"rms_norm_eps\": 1e-05,"
     " \"rope_theta\": 500000.0, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 32.0,"
     " \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192},"
     " \"hidden_act\": \"silu\", \"tie_word_embeddings\": true, \"bos_token_id\": 128000, \"eos_token_id\": 128001}",
     0},
    {"llama-3.1-8b", "32 layers, 32 heads (8 KV heads) of 128",
     "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 128256,"
     " \"hidden_size\": 4096, \"intermediate_size\": 14336, \"num_hidden_layers\": 32, \"num_attention_heads\": 32,"
     " \"num_key_value_heads\": 8, \"max_position_embeddings\": 131072, \"rms_norm_eps\": 1e-05,"
     " \"rope_theta\": 500000.0, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0,"
     " \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192},"
     " \"hidden_act\": \"silu\", \"tie_word_embeddings\": false, \"bos_token_id\": 128000, \"eos_token_id\": 128001}",
     0},
    {"llama-3.1-8b-4m", "the same with 4194304 positions, for measuring very long prompts",
     "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 128256,"
     " \"hidden_size\": 4096, \"intermediate_size\": 14336, \"num_hidden_layers\": 32, \"num_attention_heads\": 32,"
     " \"num_key_value_heads\": 8, \"max_position_embeddings\": 4194304, \"rms_norm_eps\": 1e-05,"
     " \"rope_theta\": 500000.0, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 512.0,"
     " \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192},"
     " \"hidden_act\": \"silu\", \"tie_word_embeddings\": false, \"bos_token_id\": 128000, \"eos_token_id\": 128001}",
     0},
    {"llama-3.1-8b-narrow", "4 layers of an eighth of the widths: 8 heads (2 KV heads) of 64, for counting ('bench run --count')",
     "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 1024,"
     " \"hidden_size\": 512, \"intermediate_size\": 1792, \"num_hidden_layers\": 4, \"num_attention_heads\": 8,"
     " \"num_key_value_heads\": 2, \"max_position_embeddings\": 131072, \"rms_norm_eps\": 1e-05,"
     " \"rope_theta\": 500000.0, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0,"
     " \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192},"
     " \"hidden_act\": \"silu\", \"tie_word_embeddings\": false, \"bos_token_id\": 1, \"eos_token_id\": 2}",
     0},
    {"llama-3.1-70b", "80 layers, 64 heads (8 KV heads) of 128",
     "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 128256,"
     " \"hidden_size\": 8192, \"intermediate_size\": 28672, \"num_hidden_layers\": 80, \"num_attention_heads\": 64,"
     " \"num_key_value_heads\": 8, \"max_position_embeddings\": 131072, \"rms_norm_eps\": 1e-05,"
     " \"rope_theta\": 500000.0, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0,"
     " \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192},"
     " \"hidden_act\": \"silu\", \"tie_word_embeddings\": false, \"bos_token_id\": 128000, \"eos_token_id\": 128001}",
     0},
    {"qwen2.5-7b", "28 layers, 28 heads (4 KV heads) of 128, biases",
     "{\"model_type\": \"qwen2\", \"architectures\": [\"Qwen2ForCausalLM\"], \"vocab_size\": 152064,"
     " \"hidden_size\": 3584, \"intermediate_size\": 18944, \"num_hidden_layers\": 28, \"num_attention_heads\": 28,"
     " \"num_key_value_heads\": 4, \"max_position_embeddings\": 131072, \"rms_norm_eps\": 1e-06,"
     " \"rope_theta\": 1000000.0, \"hidden_act\": \"silu\", \"use_sliding_window\": false,"
     " \"tie_word_embeddings\": false, \"bos_token_id\": 151643, \"eos_token_id\": 151643}",
     0},
    {"mistral-7b", "32 layers, 32 heads (8 KV heads) of 128",
     "{\"model_type\": \"mistral\", \"architectures\": [\"MistralForCausalLM\"], \"vocab_size\": 32768,"
     " \"hidden_size\": 4096, \"intermediate_size\": 14336, \"num_hidden_layers\": 32, \"num_attention_heads\": 32,"
     " \"num_key_value_heads\": 8, \"max_position_embeddings\": 32768, \"rms_norm_eps\": 1e-05,"
     " \"rope_theta\": 1000000.0, \"sliding_window\": null, \"hidden_act\": \"silu\","
     " \"tie_word_embeddings\": false, \"bos_token_id\": 1, \"eos_token_id\": 2}",
     0},
    {"mixtral-8x7b", "32 layers, 32 heads (8 KV heads) of 128, 2 of 8 experts",
     "{\"model_type\": \"mixtral\", \"architectures\": [\"MixtralForCausalLM\"], \"vocab_size\": 32000,"
     " \"hidden_size\": 4096, \"intermediate_size\": 14336, \"num_hidden_layers\": 32, \"num_attention_heads\": 32,"
     " \"num_key_value_heads\": 8, \"num_local_experts\": 8, \"num_experts_per_tok\": 2,"
     " \"max_position_embeddings\": 32768, \"rms_norm_eps\": 1e-05, \"rope_theta\": 1000000.0,"
     " \"sliding_window\": null, \"hidden_act\": \"silu\", \"tie_word_embeddings\": false, \"bos_token_id\": 1,"
     " \"eos_token_id\": 2}",
     0},
    {"qwen3-30b-a3b", "48 layers, 32 heads (4 KV heads) of 128, 8 of 128 experts",
     "{\"model_type\": \"qwen3_moe\", \"architectures\": [\"Qwen3MoeForCausalLM\"], \"vocab_size\": 151936,"
     " \"hidden_size\": 2048, \"intermediate_size\": 6144, \"moe_intermediate_size\": 768, \"num_experts\": 128,"
     " \"num_experts_per_tok\": 8, \"norm_topk_prob\": true, \"num_hidden_layers\": 48, \"num_attention_heads\": 32,"
     " \"num_key_value_heads\": 4, \"head_dim\": 128, \"max_position_embeddings\": 40960, \"rms_norm_eps\": 1e-06,"
     " \"rope_theta\": 1000000.0, \"hidden_act\": \"silu\", \"tie_word_embeddings\": false,"
     " \"bos_token_id\": 151643, \"eos_token_id\": 151645}",
     0},
};
/* clang-format on */

enum { SHAPES = sizeof shapes / sizeof *shapes, BYTES = 256 };

const char *lh_random_shape_name(int i)
{
    return i >= 0 && i < SHAPES ? shapes[i].name : NULL;
}

const char *lh_random_shape_summary(int i)
{
    return i >= 0 && i < SHAPES ? shapes[i].summary : NULL;
}

/* The index of a shape, or -1. */
static int find_shape(const char *name)
{
    for (int i = 0; i < SHAPES; i++)
        if (strcmp(shapes[i].name, name) == 0) return i;
    return -1;
}

int lh_random_shape_is_known(const char *name)
{
    return find_shape(name) >= 0;
}

static lh_status refuse_shape(const char *name)
{
    lh_status st = LH_OK;
    lh_buf known = {0};
    for (int i = 0; i < SHAPES; i++) LH_TRY_DONE(lh_buf_printf(&known, "%s%s", i ? ", " : "", shapes[i].name));
    LH_FAIL_DONE(LH_EUSAGE, "shape '%s' is unknown: %s are known, or a folder with a config.json", name, known.data);
done:
    lh_buf_clear(&known);
    return st;
}

/* The configuration of a folder without 'quantization_config', which does not describe random weights. */
static lh_status read_folder(char **json, const char *folder)
{
    lh_status st = LH_OK;
    char *path = NULL;
    lh_buf text = {0};
    json_t *config = NULL;
    LH_TRY_DONE(lh_path_join(&path, folder, "config.json"));
    LH_TRY_DONE(lh_file_read_regular(&text, path, LH_CONFIG_BYTES_MAX));
    LH_TRY_DONE(lh_json_parse(&config, path, text.data, text.bytes));
    if (lh_quantiser_drop(config))
        LH_TRY_DONE(lh_json_dump(json, config, JSON_INDENT(2)));
    else
        LH_TRY_DONE(lh_strdup(json, text.data));
done:
    json_decref(config);
    lh_buf_clear(&text);
    lh_free(path);
    return st;
}

lh_status lh_random_shape_config(const char *name, char **json)
{
    const int i = find_shape(name);
    if (i >= 0) return lh_strdup(json, shapes[i].config);
    return lh_file_is_folder(name) ? read_folder(json, name) : refuse_shape(name);
}

/* ---- a tokenizer of the 256 bytes and three special tokens ---- */

static json_t *byte_vocabulary(void)
{
    json_t *vocab = json_object();
    for (int b = 0; b < BYTES; b++) {
        char text[5] = "";
        lh_utf8_write(text, lh_byte_to_char((uint8_t)b));
        json_object_set_new(vocab, text, json_integer(b));
    }
    return vocab;
}

static lh_status byte_tokenizer(char **out)
{
    static const char *const specials[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    lh_status st = LH_OK;
    json_t *added = json_array(), *all = NULL;
    for (int i = 0; i < 3; i++)
        json_array_append_new(added,
                              json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", BYTES + i, "content", specials[i],
                                        "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", 1));
    all = json_pack("{s:s, s:n, s:n, s:O, s:n, s:{s:s, s:b, s:b, s:b}, s:n, s:{s:s, s:b, s:b, s:b}, "
                    "s:{s:s, s:n, s:n, s:b, s:b, s:o, s:[]}}",
                    "version", "1.0", "truncation", "padding", "added_tokens", added, "normalizer", "pre_tokenizer",
                    "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex", 1, "post_processor",
                    "decoder", "type", "ByteLevel", "add_prefix_space", 1, "trim_offsets", 1, "use_regex", 1, "model",
                    "type", "BPE", "dropout", "unk_token", "fuse_unk", 0, "byte_fallback", 0, "vocab",
                    byte_vocabulary(), "merges");
    LH_TRY_DONE(lh_json_dump(out, all, JSON_COMPACT));
done:
    json_decref(all);
    json_decref(added);
    return st;
}

lh_status lh_random_shape_tokenizer(const char *name, char **json, const char **meta)
{
    *json = NULL;
    *meta = NULL;
    const int i = find_shape(name);
    if (i < 0 || !shapes[i].tokenizer) return LH_OK;
    *meta = "{\"bos\": null, \"eos\": [258, 256], \"add_bos\": false, \"chat_template\": null, "
            "\"chat_format\": \"chatml\"}";
    return byte_tokenizer(json);
}

const char *lh_random_shape_of(const char *model)
{
    static const char before[] = "random:";
    return strncmp(model, before, sizeof before - 1) == 0 ? model + sizeof before - 1 : NULL;
}
