/* Inputs without damage: models in the formats that are imported. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The makers of test files assert as Check does, which nothing but a test of its own can. */
#undef ck_assert_int_eq
#undef ck_assert_ptr_nonnull
#define ck_assert_int_eq(a, b) must((int64_t)(a) == (int64_t)(b))
#define ck_assert_ptr_nonnull(p) must((p) != NULL)

static inline void must(int is)
{
    if (!is) abort();
}

#include "base/dtype.h"
#include "base/file.h"
#include "base/format.h"
#include "fuzz.h"
#include "import/gguf_maker.h"
#include "import/model_maker.h"
#include "import/sentencepiece_maker.h"

lh_status fz_seeds_add(fz_seeds *seeds, const void *data, int64_t bytes)
{
    LH_TRY(lh_realloc(&seeds->at, seeds->n + 1, sizeof *seeds->at));
    seeds->at[seeds->n] = (lh_buf){0};
    LH_TRY(lh_buf_append(&seeds->at[seeds->n], data, bytes));
    seeds->n++;
    return LH_OK;
}

lh_status fz_seeds_add_file(fz_seeds *seeds, const char *path)
{
    lh_status st = LH_OK;
    lh_buf data = {0};
    LH_TRY_DONE(lh_file_read(&data, path, 1 << 20));
    LH_TRY_DONE(fz_seeds_add(seeds, data.data, data.bytes));
done:
    lh_buf_clear(&data);
    return st;
}

void fz_seeds_clear(fz_seeds *seeds)
{
    for (int64_t i = 0; i < seeds->n; i++) lh_buf_clear(&seeds->at[i]);
    lh_free(seeds->at);
    *seeds = (fz_seeds){0};
}

lh_status fz_put(const char *folder, const char *name, const void *data, int64_t bytes)
{
    lh_status st = LH_OK;
    char *path = NULL;
    FILE *f = NULL;
    LH_TRY_DONE(lh_path_join(&path, folder, name));
    f = fopen(path, "wb");
    if (!f || fwrite(data, 1, (size_t)bytes, f) != (size_t)bytes) LH_FAIL_DONE(LH_EWRITE, "cannot write '%s'", path);
done:
    if (f) fclose(f);
    lh_free(path);
    return st;
}

/* ---- safetensors ---- */

lh_status fz_safetensors_seeds(fz_seeds *seeds, const char *folder)
{
    lh_status st = LH_OK;
    mm_model model;
    lh_buf data = {0};
    (void)folder;
    mm_llama(&model);
    for (int type = LH_F32; type <= LH_BF16; type++) {
        lh_buf_clear(&data);
        mm_safetensors(&data, &model, 0, type == LH_F32 ? model.n : 3, (lh_dtype)type);
        LH_TRY_DONE(fz_seeds_add(seeds, data.data, data.bytes));
    }
    lh_buf_clear(&data);
    mm_safetensors(&data, &model, 0, model.n, LH_BF16);
    LH_TRY_DONE(fz_seeds_add(seeds, data.data, data.bytes));
done:
    lh_buf_clear(&data);
    return st;
}

lh_status fz_quantised_seeds(fz_seeds *seeds, const char *folder)
{
    static const char *const names[] = {
        "int4-asymmetric", "int4-act-order", "int8-asymmetric", "nvfp4", "float8-wide", "gptq-desc-act", "awq"};
    (void)folder;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s/model.safetensors", LH_QUANTISED, names[i]);
        LH_TRY(fz_seeds_add_file(seeds, path));
    }
    return LH_OK;
}

/* ---- tokenizers ---- */

lh_status fz_sentencepiece_seeds(fz_seeds *seeds, const char *folder)
{
    lh_status st = LH_OK;
    lh_buf data = {0};
    (void)folder;
    for (int prefix = 0; prefix < 2; prefix++) {
        data.bytes = 0;
        sm_tiny(&data, 1, prefix);
        LH_TRY_DONE(fz_seeds_add(seeds, data.data, data.bytes));
    }
done:
    lh_buf_clear(&data);
    return st;
}

static const char tokenizer[] =
    "{\"added_tokens\": [{\"id\": 0, \"content\": \"<unk>\", \"special\": true}], \"model\": {\"type\": \"BPE\", "
    "\"unk_token\": \"<unk>\", \"vocab\": {\"<unk>\": 0, \"a\": 1, \"b\": 2, \"ab\": 3}, \"merges\": [\"a b\"]}}";

lh_status fz_put_model(const char *folder)
{
    mm_model model;
    mm_llama(&model);
    mm_folder(folder, &model, MM_LLAMA_CONFIG, LH_F32);
    LH_TRY(fz_put(folder, "tokenizer.json", tokenizer, sizeof tokenizer - 1));
    return LH_OK;
}

/* A plain configuration, and ones of quantised folders. */
lh_status fz_config_seeds(fz_seeds *seeds, const char *folder)
{
    static const char *const names[] = {"int4-asymmetric", "fp8-block", "gptq-v2", "awq"};
    (void)folder;
    LH_TRY(fz_seeds_add(seeds, MM_LLAMA_CONFIG, sizeof MM_LLAMA_CONFIG - 1));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s/config.json", LH_QUANTISED, names[i]);
        LH_TRY(fz_seeds_add_file(seeds, path));
    }
    return LH_OK;
}

/* The index of two shards, which are put into the folder. */
lh_status fz_index_seeds(fz_seeds *seeds, const char *folder)
{
    lh_status st = LH_OK;
    mm_model model;
    lh_buf index = {0}, data = {0};
    mm_llama(&model);
    LH_TRY_DONE(lh_buf_puts(&index, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {"));
    for (int i = 0; i < model.n; i++)
        LH_TRY_DONE(lh_buf_printf(&index, "%s\"%s\": \"model-0000%d-of-00002.safetensors\"", i ? ", " : "",
                                  model.tensors[i].name, i < 9 ? 1 : 2));
    LH_TRY_DONE(lh_buf_puts(&index, "}}"));
    LH_TRY_DONE(fz_seeds_add(seeds, index.data, index.bytes));
    mm_safetensors(&data, &model, 0, 9, LH_F32);
    LH_TRY_DONE(fz_put(folder, "model-00001-of-00002.safetensors", data.data, data.bytes));
    lh_buf_clear(&data);
    mm_safetensors(&data, &model, 9, model.n - 9, LH_F32);
    LH_TRY_DONE(fz_put(folder, "model-00002-of-00002.safetensors", data.data, data.bytes));
    LH_TRY_DONE(fz_put(folder, "config.json", MM_LLAMA_CONFIG, sizeof MM_LLAMA_CONFIG - 1));
done:
    lh_buf_clear(&index);
    lh_buf_clear(&data);
    return st;
}

/* ---- GGUF ---- */

static const struct {
    const char *hf, *gguf;
} names[] = {{"embed_tokens", "token_embd"},
             {"lm_head", "output"},
             {"model.norm", "output_norm"},
             {"input_layernorm", "attn_norm"},
             {"self_attn.q_proj", "attn_q"},
             {"self_attn.k_proj", "attn_k"},
             {"self_attn.v_proj", "attn_v"},
             {"self_attn.o_proj", "attn_output"},
             {"post_attention_layernorm", "ffn_norm"},
             {"mlp.gate_proj", "ffn_gate"},
             {"mlp.up_proj", "ffn_up"},
             {"mlp.down_proj", "ffn_down"}};

static void gguf_name(const char *hf, char name[96])
{
    int layer;
    char where[32] = "";
    if (sscanf(hf, "model.layers.%d.", &layer) == 1) snprintf(where, sizeof where, "blk.%d.", layer);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(hf, names[i].hf)) snprintf(name, 96, "%s%s.weight", where, names[i].gguf);
}

/* A Llama of 2 layers with a vocabulary of three tokens. */
static lh_status add_model(fz_seeds *seeds)
{
    lh_status st = LH_OK;
    static const char *const tokens[] = {"<unk>", "a", "b"};
    static const float scores[] = {0, -1, -2};
    static const uint32_t kinds[] = {2, 1, 1};
    lh_buf b = {0};
    mm_model model;
    uint64_t offset = 0;
    char name[96] = "";
    mm_llama(&model);
    gm_head(&b, 3, (uint64_t)model.n, 14);
    gm_key_text(&b, "general.architecture", "llama");
    gm_key_u32(&b, "llama.block_count", 2);
    gm_key_u32(&b, "llama.context_length", 64);
    gm_key_u32(&b, "llama.embedding_length", 24);
    gm_key_u32(&b, "llama.feed_forward_length", 20);
    gm_key_u32(&b, "llama.attention.head_count", 4);
    gm_key_u32(&b, "llama.attention.head_count_kv", 2);
    gm_key_f32(&b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gm_key_f32(&b, "llama.rope.freq_base", 10000);
    gm_key_u32(&b, "llama.rope.dimension_count", 6);
    gm_key_text(&b, "tokenizer.ggml.model", "llama");
    gm_key(&b, "tokenizer.ggml.tokens", 9);
    gm_u32(&b, 8);
    gm_u64(&b, 3);
    for (int i = 0; i < 3; i++) gm_text(&b, tokens[i]);
    gm_key(&b, "tokenizer.ggml.scores", 9);
    gm_u32(&b, 6);
    gm_u64(&b, 3);
    gm_bytes(&b, scores, sizeof scores);
    gm_key(&b, "tokenizer.ggml.token_type", 9);
    gm_u32(&b, 5);
    gm_u64(&b, 3);
    gm_bytes(&b, kinds, sizeof kinds);
    for (int i = 0; i < model.n; i++) {
        const mm_tensor *t = &model.tensors[i];
        gguf_name(t->name, name);
        gm_tensor(&b, name, t->cols ? t->rows : 0, t->cols ? t->cols : t->rows, 0, offset);
        offset += (uint64_t)(mm_count(t) * 4 + 31) / 32 * 32;
    }
    gm_align(&b, 32);
    for (int i = 0; i < model.n; i++) {
        for (int64_t k = 0; k < mm_count(&model.tensors[i]); k++) {
            float f = mm_value(model.tensors[i].name, k);
            gm_bytes(&b, &f, 4);
        }
        gm_align(&b, 32);
    }
    LH_TRY_DONE(fz_seeds_add(seeds, b.data, b.bytes));
done:
    lh_buf_clear(&b);
    return st;
}

/* A tensor [2, 256] of every type there is. */
static lh_status add_types(fz_seeds *seeds)
{
    enum { TYPES = 64 };
    lh_status st = LH_OK;
    lh_buf b = {0};
    uint64_t offset = 0, n = 0;
    for (int type = 0; type < TYPES; type++) n += lh_format_numbered(type) != NULL;
    gm_head(&b, 2, n, 3);
    gm_key_u32(&b, "general.alignment", 64);
    gm_key(&b, "nested", 9); /* an array of arrays */
    gm_u32(&b, 9);
    gm_u64(&b, 1);
    gm_u32(&b, 4);
    gm_u64(&b, 2);
    gm_u64(&b, 17);
    gm_key_f32(&b, "number", 0.5f);
    for (int type = 0; type < TYPES; type++) {
        const lh_format *t = lh_format_numbered(type);
        if (!t) continue;
        gm_tensor(&b, t->name, 2, 256, (uint32_t)type, offset);
        offset += (uint64_t)(lh_format_bytes(t, 512) + 63) / 64 * 64;
    }
    gm_align(&b, 64);
    for (uint64_t i = 0; i < offset; i++) gm_bytes(&b, &(uint8_t){(uint8_t)(i * 37)}, 1);
    LH_TRY_DONE(fz_seeds_add(seeds, b.data, b.bytes));
done:
    lh_buf_clear(&b);
    return st;
}

lh_status fz_gguf_seeds(fz_seeds *seeds, const char *folder)
{
    (void)folder;
    LH_TRY(add_model(seeds));
    LH_TRY(add_types(seeds));
    return LH_OK;
}
