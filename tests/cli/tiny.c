#include "cli/tiny.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/output.h"
#include "base/rng.h"
#include "cli/program.h"

enum { VOCAB = 258, HIDDEN = 32, HEADS = 4, KV_HEADS = 2, HEAD = 8, FF = 48, LAYERS = 3, POSITIONS = 4096 };

#define MUST(call) program_must((call) == LH_OK, #call)

static void put(const char *folder, const char *name, const lh_buf *text)
{
    char *path = NULL;
    MUST(lh_path_join(&path, folder, name));
    MUST(lh_file_write(path, text->data, text->bytes));
    lh_free(path);
}

static void write_config(const char *folder)
{
    lh_buf text = {0};
    MUST(lh_buf_printf(&text,
                       "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_size\": %d, "
                       "\"intermediate_size\": %d, \"num_hidden_layers\": %d, \"num_attention_heads\": %d, "
                       "\"num_key_value_heads\": %d, \"head_dim\": %d, \"vocab_size\": %d, "
                       "\"max_position_embeddings\": %d, \"rms_norm_eps\": 1e-5, \"rope_theta\": 10000.0, "
                       "\"hidden_act\": \"silu\", \"tie_word_embeddings\": true, \"bos_token_id\": null, "
                       "\"eos_token_id\": 257, \"torch_dtype\": \"float32\"}",
                       HIDDEN, FF, LAYERS, HEADS, KV_HEADS, HEAD, VOCAB, POSITIONS));
    put(folder, "config.json", &text);
    lh_buf_clear(&text);
}

/* The character that stands for a byte in a byte-level vocabulary: printable bytes are themselves, the others follow
 * from U+0100 on. */
static int character_of(int byte)
{
    int next = 256;
    for (int b = 0; b < 256; b++) {
        int itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        if (b == byte) return itself ? b : next;
        next += !itself;
    }
    return 0;
}

static void write_tokenizer(const char *folder)
{
    lh_buf text = {0};
    MUST(lh_buf_puts(&text, "{\"version\": \"1.0\", \"added_tokens\": ["));
    for (int i = 256; i < VOCAB; i++)
        MUST(lh_buf_printf(&text,
                           "%s{\"id\": %d, \"content\": \"%s\", \"single_word\": false, \"lstrip\": false, "
                           "\"rstrip\": false, \"normalized\": false, \"special\": true}",
                           i > 256 ? ", " : "", i, i == 256 ? "<|im_start|>" : "<|im_end|>"));
    MUST(lh_buf_puts(&text, "], \"normalizer\": null, \"pre_tokenizer\": {\"type\": \"ByteLevel\", "
                            "\"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true}, "
                            "\"post_processor\": null, \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": "
                            "false, \"trim_offsets\": true, \"use_regex\": true}, \"model\": {\"type\": \"BPE\", "
                            "\"merges\": [], \"vocab\": {"));
    for (int b = 0; b < 256; b++) MUST(lh_buf_printf(&text, "%s\"\\u%04x\": %d", b ? ", " : "", character_of(b), b));
    MUST(lh_buf_puts(&text, "}}}"));
    put(folder, "tokenizer.json", &text);
    text.bytes = 0;
    MUST(lh_buf_puts(&text,
                     "{\"eos_token\": \"<|im_end|>\", \"chat_template\": \"{% for message in messages %}"
                     "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
                     "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}\"}"));
    put(folder, "tokenizer_config.json", &text);
    lh_buf_clear(&text);
}

/* One tensor: its line in the header of the safetensors file, and its numbers. */
static void tensor(lh_buf *header, lh_buf *data, const char *name, int rows, int cols)
{
    const int64_t n = (int64_t)rows * (cols ? cols : 1), at = data->bytes;
    float *values = malloc((size_t)n * sizeof *values);
    lh_normals(values, 11, (uint64_t)at, 0, n);
    for (int64_t i = 0; i < n; i++) values[i] = cols ? 0.3f * values[i] : 1.0f + 0.1f * values[i];
    MUST(lh_buf_append(data, values, n * (int64_t)sizeof *values));
    MUST(lh_buf_printf(header, "%s\"%s\": {\"dtype\": \"F32\", \"shape\": [%d", at ? ", " : "", name, rows));
    if (cols) MUST(lh_buf_printf(header, ", %d", cols));
    MUST(lh_buf_printf(header, "], \"data_offsets\": [%lld, %lld]}", (long long)at, (long long)data->bytes));
    free(values);
}

static void layer(lh_buf *header, lh_buf *data, int l)
{
    static const struct {
        const char *name;
        int rows, cols;
    } parts[] = {{"input_layernorm", HIDDEN, 0},
                 {"self_attn.q_proj", HEADS * HEAD, HIDDEN},
                 {"self_attn.k_proj", KV_HEADS * HEAD, HIDDEN},
                 {"self_attn.v_proj", KV_HEADS * HEAD, HIDDEN},
                 {"self_attn.o_proj", HIDDEN, HEADS * HEAD},
                 {"post_attention_layernorm", HIDDEN, 0},
                 {"mlp.gate_proj", FF, HIDDEN},
                 {"mlp.up_proj", FF, HIDDEN},
                 {"mlp.down_proj", HIDDEN, FF}};
    char name[96];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(name, sizeof name, "model.layers.%d.%s.weight", l, parts[i].name);
        tensor(header, data, name, parts[i].rows, parts[i].cols);
    }
}

void tiny_write(const char *name)
{
    lh_buf header = {0}, data = {0}, file = {0};
    program_must(mkdir(name, 0777) == 0, name);
    write_config(name);
    write_tokenizer(name);
    MUST(lh_buf_puts(&header, "{"));
    tensor(&header, &data, "model.embed_tokens.weight", VOCAB, HIDDEN);
    for (int l = 0; l < LAYERS; l++) layer(&header, &data, l);
    tensor(&header, &data, "model.norm.weight", HIDDEN, 0);
    MUST(lh_buf_puts(&header, "}"));
    uint64_t bytes = (uint64_t)header.bytes;
    MUST(lh_buf_append(&file, &bytes, sizeof bytes));
    MUST(lh_buf_append(&file, header.data, header.bytes));
    MUST(lh_buf_append(&file, data.data, data.bytes));
    put(name, "model.safetensors", &file);
    lh_buf_clear(&header);
    lh_buf_clear(&data);
    lh_buf_clear(&file);
}

void tiny_sentences(lh_buf *out)
{
    for (int i = 0; i < 150; i++)
        MUST(lh_buf_printf(out, "Sentence %d speaks of thing %d and of %d others. ", i, i * 7 % 31, i * i % 13));
}
