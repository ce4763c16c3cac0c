/* model_maker.h - small models as Hugging Face folders and GGUF files, for tests. Tensors are listed by the names that
 * Hugging Face gives them; their values follow from name and index. */
#ifndef LH_TESTS_MODEL_MAKER_H
#define LH_TESTS_MODEL_MAKER_H

#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/dtype.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/temporary.h"
#include "import/checkpoint.h"
#include "import/model_header.h"

typedef struct mm_tensor {
    char name[96];
    int64_t rows, cols; /* cols 0: a vector */
    int64_t first;      /* > 0: of three dimensions, this one before the others */
} mm_tensor;

typedef struct mm_model {
    mm_tensor tensors[128];
    int n;
} mm_model;

static inline void mm_add(mm_model *m, int64_t rows, int64_t cols, const char *name)
{
    mm_tensor *t = &m->tensors[m->n++];
    snprintf(t->name, sizeof t->name, "%s", name);
    t->rows = rows;
    t->cols = cols;
}

static inline void mm_add_layer(mm_model *m, int layer, int64_t rows, int64_t cols, const char *name)
{
    char full[96];
    snprintf(full, sizeof full, "model.layers.%d.%s", layer, name);
    mm_add(m, rows, cols, full);
}

/* Llama of 2 layers: vocabulary 40, hidden 24, 4 heads (2 KV heads) of 6, MLP 20. */
#define MM_LLAMA_CONFIG                                                                                                \
    "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 40, \"hidden_size\": 24, " \
    "\"intermediate_size\": 20, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "    \
    "\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-05, \"rope_theta\": 10000.0}"

static inline void mm_llama(mm_model *m)
{
    memset(m, 0, sizeof *m);
    mm_add(m, 40, 24, "model.embed_tokens.weight");
    mm_add(m, 24, 0, "model.norm.weight");
    mm_add(m, 40, 24, "lm_head.weight");
    for (int l = 0; l < 2; l++) {
        mm_add_layer(m, l, 24, 0, "input_layernorm.weight");
        mm_add_layer(m, l, 24, 24, "self_attn.q_proj.weight");
        mm_add_layer(m, l, 12, 24, "self_attn.k_proj.weight");
        mm_add_layer(m, l, 12, 24, "self_attn.v_proj.weight");
        mm_add_layer(m, l, 24, 24, "self_attn.o_proj.weight");
        mm_add_layer(m, l, 24, 0, "post_attention_layernorm.weight");
        mm_add_layer(m, l, 20, 24, "mlp.gate_proj.weight");
        mm_add_layer(m, l, 20, 24, "mlp.up_proj.weight");
        mm_add_layer(m, l, 24, 20, "mlp.down_proj.weight");
    }
}

/* Value i of a tensor: in (-2, 2), exact in every float type. */
static inline float mm_value(const char *name, int64_t i)
{
    uint64_t key[2] = {lh_hash64(name, (int64_t)strlen(name)), (uint64_t)i};
    return (float)((int)(lh_hash64(key, sizeof key) % 255) - 127) / 64.0f;
}

static inline int64_t mm_count(const mm_tensor *t)
{
    return (t->first ? t->first : 1) * t->rows * (t->cols ? t->cols : 1);
}

/* safetensors of tensors first .. first + n - 1. */
static inline void mm_safetensors(lh_buf *out, const mm_model *m, int first, int n, lh_dtype type)
{
    static const char *const names[] = {"F32", "F16", "BF16"};
    lh_buf header = {0};
    int64_t at = 0, size = lh_dtype_bytes(type);
    lh_buf_puts(&header, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (int k = first; k < first + n; k++) {
        const mm_tensor *t = &m->tensors[k];
        lh_buf_printf(&header, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name, names[type]);
        if (t->first) lh_buf_printf(&header, "%lld,", (long long)t->first);
        lh_buf_printf(&header, "%lld", (long long)t->rows);
        if (t->cols) lh_buf_printf(&header, ",%lld", (long long)t->cols);
        lh_buf_printf(&header, "],\"data_offsets\":[%lld,%lld]}", (long long)at, (long long)(at + mm_count(t) * size));
        at += mm_count(t) * size;
    }
    lh_buf_puts(&header, "}");
    uint64_t bytes = (uint64_t)header.bytes;
    lh_buf_append(out, &bytes, 8);
    lh_buf_append(out, header.data, header.bytes);
    for (int k = first; k < first + n; k++) {
        for (int64_t i = 0; i < mm_count(&m->tensors[k]); i++) {
            float f = mm_value(m->tensors[k].name, i);
            char raw[4];
            lh_dtype_convert(raw, type, &f, LH_F32, 1);
            lh_buf_append(out, raw, size);
        }
    }
    lh_buf_clear(&header);
}

/* A file at once, without the sync that makes thousands of them slow. */
static inline void mm_put(const char *path, const void *data, int64_t bytes)
{
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    if (bytes) ck_assert_int_eq(fwrite(data, 1, (size_t)bytes, f), bytes);
    ck_assert_int_eq(fclose(f), 0);
}

static inline void mm_write(const char *folder, const char *name, const void *data, int64_t bytes)
{
    char *path = NULL;
    ck_assert_int_eq(lh_path_join(&path, folder, name), LH_OK);
    mm_put(path, data, bytes);
    lh_free(path);
}

static inline void mm_folder(const char *folder, const mm_model *m, const char *config, lh_dtype type)
{
    lh_buf file = {0};
    mkdir(folder, 0777);
    mm_safetensors(&file, m, 0, m->n, type);
    mm_write(folder, "model.safetensors", file.data, file.bytes);
    mm_write(folder, "config.json", config, (int64_t)strlen(config));
    lh_buf_clear(&file);
}

/* The values of tensor `from` become those of `to`, of the same shape, in model.safetensors of a folder, in f32. */
static inline void mm_copy_tensor(const char *folder, const mm_model *m, const char *to, const char *from)
{
    lh_buf b = {0};
    char *path = NULL;
    int64_t header, at = 0, source = 0, target = 0, bytes = 0;
    ck_assert_int_eq(lh_path_join(&path, folder, "model.safetensors"), LH_OK);
    ck_assert_int_eq(lh_file_read(&b, path, 1 << 28), LH_OK);
    memcpy(&header, b.data, 8);
    for (int i = 0; i < m->n; i++) {
        if (strcmp(m->tensors[i].name, from) == 0) source = at, bytes = 4 * mm_count(&m->tensors[i]);
        if (strcmp(m->tensors[i].name, to) == 0) target = at;
        at += 4 * mm_count(&m->tensors[i]);
    }
    memcpy(b.data + 8 + header + target, b.data + 8 + header + source, (size_t)bytes);
    mm_put(path, b.data, b.bytes);
    lh_free(path);
    lh_buf_clear(&b);
}

/* The header of a source says the formats and bytes of the checkpoint that an import of it made. */
static inline void mm_check_header(const char *src, const lh_checkpoint *ck)
{
    const lh_config *config = lh_checkpoint_config(ck);
    lh_model_header header;
    lh_format_tally stored;
    ck_assert_msg(lh_model_header_read(&header, src, NULL) == LH_OK, "%s: %s", src, lh_error_message());
    ck_assert_int_eq(lh_format_tally_of(&stored, config, lh_checkpoint_formats(ck)), LH_OK);
    ck_assert_int_eq(header.config.tied, config->tied);
    ck_assert_int_eq(header.stored, lh_checkpoint_dtype(ck));
    ck_assert_int_eq(header.weights.bytes, stored.bytes);
    ck_assert_int_eq(lh_weight_formats_count(&header.config), lh_weight_formats_count(config));
    ck_assert(memcmp(header.formats, lh_checkpoint_formats(ck),
                     (size_t)lh_weight_formats_count(config) * sizeof *header.formats) == 0);
    lh_model_header_clear(&header);
}

/* A fresh folder for a test, and its end. */
static inline void mm_make_tmp(char tmp[TEMPORARY_BYTES])
{
    ck_assert_ptr_nonnull(mkdtemp(temporary_name(tmp, "/tmp")));
}

static inline void mm_remove_tmp(const char *tmp)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", tmp);
    ck_assert_int_eq(system(command), 0);
}

#endif
