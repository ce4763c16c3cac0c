#include "tiny_model.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "import/checkpoint.h"

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

static void write_weight(lh_checkpoint_writer *out, const lh_config *config, lh_weight w, int64_t layer)
{
    int64_t rows, cols;
    lh_weight_shape(config, w, &rows, &cols);
    if (rows == 0) return;
    float *values = malloc((size_t)(rows * cols) * sizeof *values);
    fill(config, values, w, layer);
    lh_status st = lh_checkpoint_begin(out, w, layer, lh_format_of(LH_F32));
    if (st == LH_OK) st = lh_checkpoint_rows(out, values, rows);
    if (st == LH_OK) st = lh_checkpoint_end(out);
    if (st != LH_OK) fprintf(stderr, "%s\n", lh_error_message());
    assert(st == LH_OK);
    free(values);
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
        for (int64_t l = 0; l < layers; l++) write_weight(out, &config, (lh_weight)w, l);
    }
    st = lh_checkpoint_finish(out);
    assert(st == LH_OK);
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
