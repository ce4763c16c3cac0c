/* blocks_maker.h - a checkpoint with matrices of blocks, for tests. The bytes of a matrix follow from its weight and
 * layer; scales are finite and small. */
#ifndef LH_TESTS_BLOCKS_MAKER_H
#define LH_TESTS_BLOCKS_MAKER_H

#include <check.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "import/checkpoint.h"

/* Llama of 2 layers: vocabulary 40, hidden 256, 4 heads (2 KV heads) of 64, MLP 512. */
#define BM_CONFIG                                                                                                  \
    "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 40, \"hidden_size\": " \
    "256, \"intermediate_size\": 512, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "                      \
    "\"num_key_value_heads\": 2, \"max_position_embeddings\": 4096, \"rms_norm_eps\": 1e-05, \"rope_theta\": 10000.0}"

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

/* Writes a checkpoint of BM_CONFIG with matrices of the format `all`, or mixed (NULL). */
static inline void bm_checkpoint(const char *path, const lh_format *all)
{
    const lh_checkpoint_meta meta = {.config_json = BM_CONFIG};
    lh_config config;
    bm_writing w = {.config = &config, .all = all};
    ck_assert_int_eq(lh_config_parse_text(&config, BM_CONFIG, (int64_t)strlen(BM_CONFIG), "config"), LH_OK);
    ck_assert_int_eq(lh_checkpoint_create(&w.writer, path, &meta), LH_OK);
    ck_assert_int_eq(lh_checkpoint_each(&config, bm_write, &w), LH_OK);
    ck_assert_int_eq(lh_checkpoint_finish(w.writer), LH_OK);
    lh_config_clear(&config);
}

#endif
