#include "tiny_model.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "evict/evict.h"
#include "import/checkpoint.h"
#include "model/score_weights.h"

/* As large as keeps a random model's activations of order one; biases and norms stay away from 0 and 1, so that a
 * forgotten one would show. */
static void fill(const lh_config *config, float *values, lh_weight w, int64_t layer)
{
    int64_t rows, cols;
    lh_weight_shape(config, w, &rows, &cols);
    lh_normals(values, 7, (uint64_t)(w * 1000 + layer), 0, rows * cols);
    float scale = lh_weight_info_of(w)->rank == 2 ? 1.6f / sqrtf((float)cols) : 0.2f, offset = 0;
    if (lh_weight_is_norm(w)) offset = 1 - (float)config->norm_offset;
    if (w == LH_W_EMBED) scale = 1 / (float)config->embed_scale;
    for (int64_t i = 0; i < rows * cols; i++) values[i] = offset + scale * values[i];
}

/* Formats as files of few bits mix them; the others are f32. */
static const lh_format *format_of(lh_weight w, int64_t layer, int64_t cols)
{
    static const char *const names[LH_WEIGHTS] = {
        [LH_W_EMBED] = "q4_1", [LH_W_HEAD] = "q6_K", [LH_W_Q] = "q4_K",    [LH_W_K] = "iq4_xs", [LH_W_V] = "q6_K",
        [LH_W_O] = "q5_K",     [LH_W_GATE] = "q8_0", [LH_W_UP] = "iq4_nl", [LH_W_DOWN] = "q4_K"};
    const char *name = names[w] && layer % 2 && w != LH_W_DOWN ? "q5_0" : names[w];
    const lh_format *format = lh_format_named(name ? name : "f32");
    return cols % format->values ? lh_format_named("q5_1") : format;
}

/* Blocks of any codes, with values around 0 that are as large as those of `fill` in the mean. */
static void fill_blocks(const lh_format *format, uint8_t *blocks, int64_t count, float size)
{
    float *values = malloc((size_t)format->values * sizeof *values), square = 0;
    const float middle = (float)((1 << format->bits) - 1) / 2;
    for (int64_t b = 0; b < count; b++) {
        uint8_t *block = blocks + b * format->bytes;
        for (int pass = 0; pass < 2; pass++) {
            const float d = pass ? size / sqrtf(square / (float)format->values) : 1;
            const uint16_t halves[2] = {lh_f32_to_f16(d),
                                        lh_f32_to_f16(format->values > 32 ? middle * d : -middle * d)};
            memcpy(block + format->halves_at, halves, (size_t)format->halves * sizeof *halves);
            lh_format_to_f32(format, values, block, 1);
            for (int64_t i = square = 0; i < format->values; i++) square += values[i] * values[i];
        }
    }
    free(values);
}

static void write_rows(lh_checkpoint_writer *out, lh_weight w, int64_t layer, const lh_format *format, const void *data,
                       int64_t rows)
{
    lh_status st = lh_checkpoint_begin(out, w, layer, format);
    if (st == LH_OK) st = lh_checkpoint_rows(out, data, rows);
    if (st == LH_OK) st = lh_checkpoint_end(out);
    if (st != LH_OK) fprintf(stderr, "%s\n", lh_error_message());
    assert(st == LH_OK);
}

static void write_weight(lh_checkpoint_writer *out, const lh_config *config, lh_weight w, int64_t layer,
                         tiny_numbers numbers)
{
    int64_t rows, cols;
    lh_weight_shape(config, w, &rows, &cols);
    if (rows == 0) return;
    float *values = malloc((size_t)(rows * cols) * sizeof *values);
    fill(config, values, w, layer);
    if (numbers != TINY_F32 && lh_weight_takes_blocks(w)) {
        const lh_format *format = format_of(w, layer, cols);
        uint8_t *blocks = malloc((size_t)lh_format_bytes(format, rows * cols));
        memcpy(blocks, values, (size_t)lh_format_bytes(format, rows * cols));
        fill_blocks(format, blocks, rows * cols / format->values,
                    w == LH_W_EMBED ? 1 / (float)config->embed_scale : 1.6f / sqrtf((float)cols));
        if (numbers == TINY_FEW_BITS) write_rows(out, w, layer, format, blocks, rows);
        lh_format_to_f32(format, values, blocks, rows * cols / format->values);
        free(blocks);
    }
    if (numbers != TINY_FEW_BITS || !lh_weight_takes_blocks(w))
        write_rows(out, w, layer, lh_format_of(LH_F32), values, rows);
    free(values);
}

/* Learnt scores of order one, around the scores of attention: either may be the larger. Shares of heads differ. */
static void write_score_weights(const char *path, const lh_config *config)
{
    char *beside = NULL;
    lh_checkpoint *ck = NULL;
    lh_score_weights w = {
        .layers = config->layers, .kv_heads = config->kv_heads, .numbers = lh_learnt_numbers(config->head_dim)};
    const int64_t count = w.layers * w.kv_heads * w.numbers;
    w.at = malloc((size_t)count * sizeof *w.at);
    lh_normals(w.at, 7, 0, 0, count);
    for (int64_t i = 0; i < count; i++) w.at[i] /= sqrtf((float)w.numbers);
    for (int64_t i = 0; i < w.layers * w.kv_heads; i++)
        *lh_score_weights_share(&w, i) = (float)(1 + i % 3) / (float)(2 * w.layers * w.kv_heads);
    lh_status st = lh_checkpoint_open(&ck, path);
    if (st == LH_OK) w.model = lh_checkpoint_identity(ck);
    if (st == LH_OK) st = lh_score_weights_name(&beside, path);
    if (st == LH_OK && beside) st = lh_score_weights_write(&w, beside, NULL);
    if (st != LH_OK) fprintf(stderr, "%s\n", lh_error_message());
    assert(st == LH_OK);
    lh_checkpoint_close(ck);
    lh_free(beside);
    free(w.at);
}

void tiny_model_make(const char *path, const tiny_shape *s)
{
    char text[1024];
    lh_config config;
    lh_checkpoint_writer *out = NULL;
    snprintf(text, sizeof text,
             "{\"model_type\": \"%s\", \"hidden_size\": %lld, \"num_attention_heads\": %lld, "
             "\"num_key_value_heads\": %lld, \"head_dim\": %lld, \"num_hidden_layers\": %lld, "
             "\"intermediate_size\": %lld, \"vocab_size\": %lld, \"max_position_embeddings\": 8192, "
             "\"rms_norm_eps\": 1e-5, \"rope_theta\": 10000.0, \"tie_word_embeddings\": false, "
             "\"sliding_window\": %lld%s%s}",
             s->family   ? s->family
             : s->window ? "mistral"
                         : "llama",
             (long long)(s->hidden ? s->hidden : s->heads * s->head_dim), (long long)s->heads, (long long)s->kv_heads,
             (long long)s->head_dim, (long long)s->layers, (long long)s->ff, (long long)s->vocab, (long long)s->window,
             s->more ? ", " : "", s->more ? s->more : "");
    lh_status st = lh_config_parse_text(&config, text, (int64_t)strlen(text), "tiny");
    if (st == LH_OK) st = lh_checkpoint_create(&out, path, &(lh_checkpoint_meta){.config_json = text});
    if (st != LH_OK) fprintf(stderr, "%s\n", lh_error_message());
    assert(st == LH_OK);
    for (int w = 0; w < LH_WEIGHTS; w++) {
        int64_t layers = lh_weight_info_of((lh_weight)w)->per_layer ? config.layers : 1;
        for (int64_t l = 0; l < layers; l++) write_weight(out, &config, (lh_weight)w, l, s->numbers);
    }
    st = lh_checkpoint_finish(out);
    assert(st == LH_OK);
    write_score_weights(path, &config);
    lh_config_clear(&config);
}

void tiny_model_tokens(int32_t *ids, int64_t n, int64_t vocab)
{
    const uint32_t key[2] = {3, 4};
    for (int64_t i = 0; i < n; i++) {
        uint32_t word[4];
        lh_philox(word, key, (const uint32_t[4]){(uint32_t)i, 0, 0, 0});
        ids[i] = (int32_t)(word[0] % (uint64_t)vocab);
    }
}
