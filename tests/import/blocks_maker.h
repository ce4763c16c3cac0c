/* blocks_maker.h - a model with matrices of blocks as a checkpoint and as a GGUF file, for tests. The bytes of a matrix
 * follow from its weight and layer; scales are finite and small. */
#ifndef LH_TESTS_BLOCKS_MAKER_H
#define LH_TESTS_BLOCKS_MAKER_H

#include <check.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "gguf_maker.h"
#include "import/checkpoint.h"
#include "import/families.h"
#include "model_maker.h"

/* Llama of 2 layers: vocabulary 40, hidden 256, 4 heads (2 KV heads) of 64, MLP 512. */
#define BM_CONFIG                                                                                                  \
    "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 40, \"hidden_size\": " \
    "256, \"intermediate_size\": 512, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "                      \
    "\"num_key_value_heads\": 2, \"max_position_embeddings\": 4096, \"rms_norm_eps\": 1e-05, \"rope_theta\": 10000.0}"

/* Blocks of floats: NaN codes become numbers, scales are 2^-12, and the first code is 0x70. */
static inline void bm_fill_floats(uint8_t *blocks, int64_t n)
{
    const float scale = 0x1p-12f;
    for (int64_t i = 0; i < n * LH_F8_BYTES; i++)
        if (lh_e4m3_is_nan(blocks[i])) blocks[i] ^= 1;
    for (int64_t i = 0; i < n; i++) {
        memcpy(blocks + i * LH_F8_BYTES, &scale, sizeof scale);
        blocks[i * LH_F8_BYTES + (int64_t)sizeof scale] = 0x70;
    }
}

/* n blocks with any codes and integer scales, and f16 scales between 2^-11 and 2^-10. */
static inline void bm_fill(const lh_format *format, uint8_t *blocks, int64_t n, uint64_t seed)
{
    for (int64_t i = 0; i < n * format->bytes; i++) {
        const uint64_t key[2] = {seed, (uint64_t)i};
        blocks[i] = (uint8_t)lh_hash64(key, sizeof key);
    }
    for (int64_t i = 0; i < n * format->halves; i++) {
        uint8_t *half = blocks + i / format->halves * format->bytes + format->halves_at + i % format->halves * 2;
        half[1] = (uint8_t)(0x10 + half[1] % 4);
    }
    if (format->by_rows) bm_fill_floats(blocks, n);
}

/* Formats of a checkpoint: of all matrices, or NULL for a mixture as Q4_K_M files have it. */
static inline const lh_format *bm_format(const lh_format *all, lh_weight weight)
{
    static const char *const mixed[LH_WEIGHTS] = {
        [LH_W_EMBED] = "q4_K", [LH_W_HEAD] = "q6_K", [LH_W_Q] = "q4_K",  [LH_W_K] = "bf16",   [LH_W_V] = "q6_K",
        [LH_W_O] = "q5_0",     [LH_W_GATE] = "q8_0", [LH_W_UP] = "q5_K", [LH_W_DOWN] = "q4_1"};
    return !lh_weight_takes_blocks(weight) ? lh_format_named("f32") : all ? all : lh_format_named(mixed[weight]);
}

/* The bytes of a tensor [rows, bytes of a row] (lh_free): 1 for the weights of norms. */
static inline uint8_t *bm_tensor(const lh_config *config, lh_weight weight, int64_t layer, const lh_format *format)
{
    int64_t rows, cols;
    uint8_t *data = NULL;
    lh_weight_shape(config, weight, &rows, &cols);
    const int64_t blocks = rows * cols / format->values;
    ck_assert_int_eq(lh_calloc(&data, blocks, format->bytes), LH_OK);
    if (!format->is_plain) {
        bm_fill(format, data, blocks, (uint64_t)(weight * 100 + layer));
        return data;
    }
    for (int64_t i = 0; i < blocks; i++) {
        const float value = cols == 1 ? 1 : (float)((i * 37 + weight + layer) % 101 - 50) / 1024;
        lh_dtype_convert(data + i * format->bytes, format->plain, &value, LH_F32, 1);
    }
    return data;
}

typedef struct bm_writing {
    lh_checkpoint_writer *writer;
    const lh_config *config;
    const lh_format *all;
} bm_writing;

static inline lh_status bm_write(void *self, lh_weight weight, int64_t layer)
{
    const bm_writing *w = self;
    const lh_format *format = bm_format(w->all, weight);
    int64_t rows, cols;
    lh_weight_shape(w->config, weight, &rows, &cols);
    uint8_t *data = bm_tensor(w->config, weight, layer, format);
    LH_TRY(lh_checkpoint_begin(w->writer, weight, layer, format));
    for (int64_t r = 0; r < rows; r += 7) /* in uneven portions */
        LH_TRY(lh_checkpoint_rows(w->writer, data + r * lh_format_bytes(format, cols), rows - r < 7 ? rows - r : 7));
    LH_TRY(lh_checkpoint_end(w->writer));
    lh_free(data);
    return LH_OK;
}

static inline void bm_parse(lh_config *config)
{
    ck_assert_int_eq(lh_config_parse_text(config, BM_CONFIG, (int64_t)strlen(BM_CONFIG), "config"), LH_OK);
}

/* Writes a checkpoint of BM_CONFIG with matrices of the format `all`, or mixed (NULL). */
static inline void bm_checkpoint(const char *path, const lh_format *all)
{
    const lh_checkpoint_meta meta = {.config_json = BM_CONFIG};
    lh_config config;
    bm_writing w = {.config = &config, .all = all};
    bm_parse(&config);
    ck_assert_int_eq(lh_checkpoint_create(&w.writer, path, &meta), LH_OK);
    ck_assert_int_eq(lh_checkpoint_each(&config, bm_write, &w), LH_OK);
    ck_assert_int_eq(lh_checkpoint_finish(w.writer), LH_OK);
    lh_config_clear(&config);
}

/* ---- GGUF ---- */

/* Tensors of a GGUF file, or of a part of one: descriptions, and the data that follow them. */
typedef struct bm_part {
    lh_buf descriptions, data;
    int64_t tensors;
} bm_part;

typedef struct bm_gguf_writing {
    const lh_config *config;
    const lh_format *all;
    bm_part *parts;
    int64_t count, next; /* parts; tensors go to one part after another */
} bm_gguf_writing;

/* Row r of q or k as converters to GGUF place it: rows [heads, 2, dim / 2] with axes 1 and 2 swapped. */
static inline int64_t bm_gguf_row(const lh_config *config, lh_weight weight, int64_t r)
{
    const int64_t dim = config->head_dim, i = r % dim;
    if (weight != LH_W_Q && weight != LH_W_K) return r;
    return r - i + i % (dim / 2) * 2 + i / (dim / 2);
}

static inline lh_status bm_put_tensor(void *self, lh_weight weight, int64_t layer)
{
    bm_gguf_writing *w = self;
    bm_part *part = &w->parts[w->next++ % w->count];
    const lh_format *format = bm_format(w->all, weight);
    const char *listed = w->config->family->tensors[weight].gguf;
    char name[96];
    int64_t rows, cols;
    lh_weight_shape(w->config, weight, &rows, &cols);
    const int is_vector = cols == 1;
    const int64_t row_bytes = lh_format_bytes(format, cols);
    uint8_t *data = bm_tensor(w->config, weight, layer, format), *placed = NULL;
    LH_TRY(lh_calloc(&placed, rows, row_bytes));
    for (int64_t r = 0; r < rows; r++)
        memcpy(placed + bm_gguf_row(w->config, weight, r) * row_bytes, data + r * row_bytes, (size_t)row_bytes);
    snprintf(name, sizeof name, "%s", listed);
    if (lh_weight_info_of(weight)->per_layer) snprintf(name, sizeof name, "blk.%d.%s", (int)layer, listed);
    gm_tensor(&part->descriptions, name, is_vector ? 0 : rows, is_vector ? rows : cols, (uint32_t)format->number,
              (uint64_t)part->data.bytes);
    gm_bytes(&part->data, placed, rows * row_bytes);
    gm_align(&part->data, 32);
    part->tensors++;
    lh_free(placed);
    lh_free(data);
    return LH_OK;
}

/* The keys of BM_CONFIG. */
static inline void bm_put_keys(lh_buf *b)
{
    gm_key_text(b, "general.architecture", "llama");
    gm_key_u32(b, "llama.block_count", 2);
    gm_key_u32(b, "llama.context_length", 4096);
    gm_key_u32(b, "llama.embedding_length", 256);
    gm_key_u32(b, "llama.feed_forward_length", 512);
    gm_key_u32(b, "llama.attention.head_count", 4);
    gm_key_u32(b, "llama.attention.head_count_kv", 2);
    gm_key_f32(b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gm_key_f32(b, "llama.rope.freq_base", 10000);
    gm_key_u32(b, "llama.rope.dimension_count", 64);
}

/* Writes a file of the model, one of `count`. */
static inline void bm_put_file(const char *path, bm_part *part, int number, int count, int tensors)
{
    lh_buf b = {0};
    gm_head(&b, 3, (uint64_t)part->tensors, (number == 1 ? 10 : 0) + (count > 1 ? 3 : 0));
    if (number == 1) bm_put_keys(&b);
    if (count > 1) {
        gm_key_u32(&b, "split.no", (uint32_t)number - 1);
        gm_key_u32(&b, "split.count", (uint32_t)count);
        gm_key_u32(&b, "split.tensors.count", (uint32_t)tensors);
    }
    if (part->descriptions.bytes) gm_bytes(&b, part->descriptions.data, part->descriptions.bytes);
    gm_align(&b, 32);
    if (part->data.bytes) gm_bytes(&b, part->data.data, part->data.bytes);
    mm_put(path, b.data, b.bytes);
    lh_buf_clear(&part->descriptions);
    lh_buf_clear(&part->data);
    lh_buf_clear(&b);
}

/* Writes the same model as a GGUF file `path`, or as `count` files whose names begin with `path`. */
static inline void bm_gguf_split(const char *path, const lh_format *all, int count)
{
    lh_config config;
    bm_part parts[8] = {0};
    int tensors = 0;
    bm_parse(&config);
    bm_gguf_writing w = {.config = &config, .all = all, .parts = parts, .count = count};
    ck_assert_int_eq(lh_checkpoint_each(&config, bm_put_tensor, &w), LH_OK);
    for (int i = 0; i < count; i++) tensors += (int)parts[i].tensors;
    for (int i = 0; i < count; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s", path);
        if (count > 1) snprintf(name, sizeof name, "%s-%05d-of-%05d.gguf", path, i + 1, count);
        bm_put_file(name, &parts[i], i + 1, count, tensors);
    }
    lh_config_clear(&config);
}

static inline void bm_gguf(const char *path, const lh_format *all)
{
    bm_gguf_split(path, all, 1);
}

#endif
