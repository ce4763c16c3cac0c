/* Laws of import/import.h: bits survive, shards and fusions do not show, and what is wrong is refused by name. */
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "base/output.h"
#include "gguf_maker.h"
#include "import/checkpoint.h"
#include "import/import.h"
#include "import/import_source.h"
#include "import/tokenizer_source.h"
#include "model_maker.h"

static char tmp[64], folder[96], out[96], other[96];
static mm_model llama;

static void set_up(void)
{
    mm_make_tmp(tmp);
    snprintf(folder, sizeof folder, "%s/model", tmp);
    snprintf(out, sizeof out, "%s/m.h5", tmp);
    snprintf(other, sizeof other, "%s/n.h5", tmp);
    mm_llama(&llama);
    /* Warnings about missing tokenizers are not what is tested. */
    dup2(open("/dev/null", O_WRONLY), 2);
}

static void tear_down(void)
{
    mm_remove_tmp(tmp);
}

static lh_status import_as(const char *src, const char *to, const char *dtype)
{
    const lh_import_options options = {.src = src, .out = to, .dtype = dtype};
    return lh_import(&options);
}

/* All of a weight as f32. */
static float *read_weight(lh_checkpoint *ck, lh_weight weight, int64_t layer, int64_t *n)
{
    float *values = NULL;
    lh_weight_range range = {.weight = weight, .layer = layer};
    lh_weight_shape(lh_checkpoint_config(ck), weight, &range.rows, &range.cols);
    *n = range.rows * range.cols;
    ck_assert_int_eq(lh_calloc(&values, *n, sizeof *values), LH_OK);
    ck_assert_int_eq(lh_checkpoint_read(ck, &range, values, LH_F32, range.cols), LH_OK);
    return values;
}

/* A weight is the named tensor, from its row `first` on. */
static void check_weight(lh_checkpoint *ck, lh_weight weight, int64_t layer, const char *name, int64_t first)
{
    int64_t n, rows, cols;
    float *values = read_weight(ck, weight, layer, &n);
    lh_weight_shape(lh_checkpoint_config(ck), weight, &rows, &cols);
    ck_assert_int_gt(n, 0);
    for (int64_t i = 0; i < n; i++) ck_assert(values[i] == mm_value(name, first * cols + i));
    lh_free(values);
}

static const struct {
    lh_weight weight;
    const char *name;
} llama_names[] = {{LH_W_ATTN_NORM, "input_layernorm.weight"}, {LH_W_Q, "self_attn.q_proj.weight"},
                   {LH_W_K, "self_attn.k_proj.weight"},        {LH_W_V, "self_attn.v_proj.weight"},
                   {LH_W_O, "self_attn.o_proj.weight"},        {LH_W_MLP_NORM, "post_attention_layernorm.weight"},
                   {LH_W_GATE, "mlp.gate_proj.weight"},        {LH_W_UP, "mlp.up_proj.weight"},
                   {LH_W_DOWN, "mlp.down_proj.weight"}};

static void check_llama(lh_checkpoint *ck)
{
    char name[96];
    check_weight(ck, LH_W_EMBED, 0, "model.embed_tokens.weight", 0);
    check_weight(ck, LH_W_NORM, 0, "model.norm.weight", 0);
    check_weight(ck, LH_W_HEAD, 0, "lm_head.weight", 0);
    for (int l = 0; l < 2; l++) {
        for (size_t i = 0; i < sizeof llama_names / sizeof *llama_names; i++) {
            snprintf(name, sizeof name, "model.layers.%d.%s", l, llama_names[i].name);
            check_weight(ck, llama_names[i].weight, l, name, 0);
        }
    }
}

static const lh_dtype types[] = {LH_F32, LH_F16, LH_BF16};

START_TEST(test_every_type_survives_in_every_type)
{
    lh_checkpoint *ck;
    lh_dtype from = types[_i];
    mm_folder(folder, &llama, MM_LLAMA_CONFIG, from);
    for (int k = -1; k < 3; k++) {
        ck_assert_int_eq(import_as(folder, out, k < 0 ? "auto" : lh_dtype_name(types[k])), LH_OK);
        ck_assert_int_eq(lh_checkpoint_open(&ck, out), LH_OK);
        ck_assert_int_eq(lh_checkpoint_dtype(ck), k < 0 ? from : types[k]);
        check_llama(ck);
        lh_checkpoint_close(ck);
    }
}
END_TEST

static void check_same_bytes(const char *a, const char *b)
{
    lh_buf x = {0}, y = {0};
    ck_assert_int_eq(lh_file_read(&x, a, 1 << 28), LH_OK);
    ck_assert_int_eq(lh_file_read(&y, b, 1 << 28), LH_OK);
    ck_assert_int_eq(x.bytes, y.bytes);
    ck_assert_int_eq(memcmp(x.data, y.data, (size_t)x.bytes), 0);
    lh_buf_clear(&x);
    lh_buf_clear(&y);
}

static void make_shards(const char *where, const char *second)
{
    lh_buf index = {0}, file = {0};
    mkdir(where, 0777);
    lh_buf_puts(&index, "{\"metadata\":{},\"weight_map\":{");
    for (int i = 0; i < llama.n; i++)
        lh_buf_printf(&index, "%s\"%s\":\"%s\"", i ? "," : "", llama.tensors[i].name,
                      i < 7 ? "model-00001-of-00002.safetensors" : second);
    lh_buf_puts(&index, "}}");
    mm_write(where, "model.safetensors.index.json", index.data, index.bytes);
    mm_safetensors(&file, &llama, 0, 7, LH_BF16);
    mm_write(where, "model-00001-of-00002.safetensors", file.data, file.bytes);
    lh_buf_clear(&file);
    mm_safetensors(&file, &llama, 7, llama.n - 7, LH_BF16);
    mm_write(where, "model-00002-of-00002.safetensors", file.data, file.bytes);
    mm_write(where, "config.json", MM_LLAMA_CONFIG, (int64_t)strlen(MM_LLAMA_CONFIG));
    lh_buf_clear(&file);
    lh_buf_clear(&index);
}

START_TEST(test_shards_do_not_show)
{
    char shards[96];
    snprintf(shards, sizeof shards, "%s/shards", tmp);
    mm_folder(folder, &llama, MM_LLAMA_CONFIG, LH_BF16);
    make_shards(shards, "model-00002-of-00002.safetensors");
    ck_assert_int_eq(import_as(folder, out, "auto"), LH_OK);
    ck_assert_int_eq(import_as(shards, other, "auto"), LH_OK);
    check_same_bytes(out, other);
}
END_TEST

/* ---- GGUF ---- */
static const struct {
    const char *hf, *gguf;
} gguf_names[] = {
    {"input_layernorm", "attn_norm"}, {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},   {"self_attn.o_proj", "attn_output"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},    {"mlp.up_proj", "ffn_up"},           {"mlp.down_proj", "ffn_down"}};

static void gguf_name(const char *hf, char name[96])
{
    int layer;
    if (sscanf(hf, "model.layers.%d.", &layer) != 1) {
        snprintf(name, 96, "%s",
                 strstr(hf, "embed")     ? "token_embd.weight"
                 : strstr(hf, "lm_head") ? "output.weight"
                                         : "output_norm.weight");
        return;
    }
    for (size_t i = 0; i < sizeof gguf_names / sizeof *gguf_names; i++)
        if (strstr(hf, gguf_names[i].hf)) snprintf(name, 96, "blk.%d.%s.weight", layer, gguf_names[i].gguf);
}

/* The same model as converters to GGUF write it: rows of q and k reshaped [heads, 2, dim / 2], axes 1 and 2 swapped. */
static void make_gguf(const char *path, const mm_model *m)
{
    lh_buf b = {0};
    uint64_t offset = 0;
    gm_head(&b, 3, (uint64_t)m->n, 10);
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
    for (int i = 0; i < m->n; i++) {
        const mm_tensor *t = &m->tensors[i];
        char name[96];
        gguf_name(t->name, name);
        gm_tensor(&b, name, t->cols ? t->rows : 0, t->cols ? t->cols : t->rows, 0, offset);
        offset += (uint64_t)(mm_count(t) * 4 + 31) / 32 * 32;
    }
    gm_align(&b, 32);
    for (int i = 0; i < m->n; i++) {
        const mm_tensor *t = &m->tensors[i];
        int heads = strstr(t->name, "q_proj") ? 4 : strstr(t->name, "k_proj") ? 2 : 0;
        for (int64_t k = 0; k < mm_count(t); k++) {
            int64_t from = k;
            if (heads) {
                int64_t row = k / t->cols, dim = t->rows / heads, h = row / dim, pair = row % dim / 2, half = row % 2;
                from = (h * dim + half * (dim / 2) + pair) * t->cols + k % t->cols;
            }
            float f = mm_value(t->name, from);
            gm_bytes(&b, &f, 4);
        }
        gm_align(&b, 32);
    }
    mm_put(path, b.data, b.bytes);
    lh_buf_clear(&b);
}

START_TEST(test_gguf_rows_are_put_back)
{
    char gguf[96];
    lh_checkpoint *ck;
    snprintf(gguf, sizeof gguf, "%s/m.gguf", tmp);
    make_gguf(gguf, &llama);
    ck_assert_int_eq(import_as(gguf, out, "auto"), LH_OK);
    ck_assert_int_eq(lh_checkpoint_open(&ck, out), LH_OK);
    const lh_config *c = lh_checkpoint_config(ck);
    ck_assert(c->norm_eps == 1e-5 && c->head_dim == 6 && !c->tied && lh_checkpoint_dtype(ck) == LH_F32);
    check_llama(ck);
    lh_checkpoint_close(ck);
}
END_TEST

/* Models for images and text keep the text model under one of two names, beside tensors that are no use here. */
START_TEST(test_the_text_model_of_one_for_images_too)
{
    static const char config[] =
        "{\"model_type\": \"gemma3\", \"architectures\": [\"Gemma3ForConditionalGeneration\"], \"eos_token_id\": [1, "
        "2],"
        " \"text_config\": {\"model_type\": \"gemma3_text\", \"vocab_size\": 40, \"hidden_size\": 24, \"head_dim\": 6,"
        " \"intermediate_size\": 20, \"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
        " \"tie_word_embeddings\": false}, \"vision_config\": {\"hidden_size\": 8}}";
    static const struct {
        const char *prefix, *head;
    } names[] = {{"language_model.model.", "language_model.lm_head.weight"},
                 {"model.language_model.", "lm_head.weight"}};
    static const struct {
        lh_weight weight;
        int64_t rows, cols;
        const char *name;
    } rows[] = {{LH_W_EMBED, 40, 24, "embed_tokens.weight"},
                {LH_W_NORM, 24, 0, "norm.weight"},
                {LH_W_ATTN_NORM, 24, 0, "layers.0.input_layernorm.weight"},
                {LH_W_Q, 24, 24, "layers.0.self_attn.q_proj.weight"},
                {LH_W_K, 12, 24, "layers.0.self_attn.k_proj.weight"},
                {LH_W_V, 12, 24, "layers.0.self_attn.v_proj.weight"},
                {LH_W_O, 24, 24, "layers.0.self_attn.o_proj.weight"},
                {LH_W_Q_NORM, 6, 0, "layers.0.self_attn.q_norm.weight"},
                {LH_W_K_NORM, 6, 0, "layers.0.self_attn.k_norm.weight"},
                {LH_W_ATTN_POST_NORM, 24, 0, "layers.0.post_attention_layernorm.weight"},
                {LH_W_MLP_NORM, 24, 0, "layers.0.pre_feedforward_layernorm.weight"},
                {LH_W_MLP_POST_NORM, 24, 0, "layers.0.post_feedforward_layernorm.weight"},
                {LH_W_GATE, 20, 24, "layers.0.mlp.gate_proj.weight"},
                {LH_W_UP, 20, 24, "layers.0.mlp.up_proj.weight"},
                {LH_W_DOWN, 24, 20, "layers.0.mlp.down_proj.weight"}};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        mm_model m = {0};
        lh_checkpoint *ck;
        char full[96];
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            snprintf(full, sizeof full, "%s%s", names[k].prefix, rows[i].name);
            mm_add(&m, rows[i].rows, rows[i].cols, full);
        }
        mm_add(&m, 40, 24, names[k].head);
        mm_add(&m, 8, 8, "vision_tower.vision_model.encoder.layers.0.self_attn.q_proj.weight");
        mm_folder(folder, &m, config, LH_F32);
        ck_assert_int_eq(import_as(folder, out, "auto"), LH_OK);
        ck_assert_int_eq(lh_checkpoint_open(&ck, out), LH_OK);
        check_weight(ck, LH_W_HEAD, 0, names[k].head, 0);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            snprintf(full, sizeof full, "%s%s", names[k].prefix, rows[i].name);
            check_weight(ck, rows[i].weight, 0, full, 0);
        }
        ck_assert(lh_checkpoint_config(ck)->eos_count == 2 && lh_checkpoint_config(ck)->eos[1] == 2);
        lh_checkpoint_close(ck);
    }
}
END_TEST

/* Import of a model with a head that is `head`, of a family that has one in its text model; the configuration says
 * whether it is tied outside and inside (-1: nothing). */
typedef enum kind_of_head { NO_HEAD, OWN_HEAD, EMBEDDING_AS_HEAD } kind_of_head;

static void make_headed(kind_of_head head, int outer, int inner)
{
    static const char *const said[] = {"", "\"tie_word_embeddings\": false, ", "\"tie_word_embeddings\": true, "};
    mm_model m = llama;
    lh_buf config = {0};
    for (int i = 0; i < m.n; i++) {
        if (strcmp(m.tensors[i].name, "lm_head.weight") == 0 && head == NO_HEAD) m.tensors[i--] = m.tensors[--m.n];
    }
    lh_buf_printf(&config, "{\"model_type\": \"mistral3\", %s\"text_config\": {%s%s}", said[outer + 1], said[inner + 1],
                  strstr(MM_LLAMA_CONFIG, "\"vocab_size\""));
    mm_folder(folder, &m, config.data, LH_F32);
    lh_buf_clear(&config);
    if (head == EMBEDDING_AS_HEAD) mm_copy_tensor(folder, &m, "lm_head.weight", "model.embed_tokens.weight");
}

/* What transformers 5 does: the whole model's member is asked first, a head that is not the embedding is used whatever
 * is said, and where there is none, the embedding is, unless that is denied. */
START_TEST(test_a_head_that_is_in_the_file_is_not_dropped)
{
    static const struct {
        kind_of_head head;
        int outer, inner, tied; /* tied -1: refused */
    } rows[] = {{OWN_HEAD, 1, 1, 0},          {OWN_HEAD, 0, 1, 0},          {OWN_HEAD, 1, 0, 0},
                {OWN_HEAD, 0, 0, 0},          {OWN_HEAD, -1, -1, 0},        {EMBEDDING_AS_HEAD, 1, 1, 1},
                {EMBEDDING_AS_HEAD, 1, 0, 1}, {EMBEDDING_AS_HEAD, 0, 1, 0}, {EMBEDDING_AS_HEAD, -1, 1, 1},
                {NO_HEAD, 1, 1, 1},           {NO_HEAD, 1, 0, 1},           {NO_HEAD, 0, 1, 1},
                {NO_HEAD, -1, -1, 1},         {NO_HEAD, 0, 0, -1},          {NO_HEAD, -1, 0, -1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lh_checkpoint *ck;
        make_headed(rows[i].head, rows[i].outer, rows[i].inner);
        unlink(out);
        lh_status st = import_as(folder, out, "auto");
        ck_assert_msg(st == (rows[i].tied < 0 ? LH_EINPUT : LH_OK), "%zu: %s", i, lh_error_message());
        if (st != LH_OK) continue;
        ck_assert_int_eq(lh_checkpoint_open(&ck, out), LH_OK);
        ck_assert_msg(lh_checkpoint_config(ck)->tied == rows[i].tied, "%zu", i);
        if (!rows[i].tied)
            check_weight(ck, LH_W_HEAD, 0, rows[i].head == OWN_HEAD ? "lm_head.weight" : "model.embed_tokens.weight",
                         0);
        lh_checkpoint_close(ck);
    }
}
END_TEST

/* Gemma's norms are stored as 1 + w there, and as w here. */
START_TEST(test_gemma_norms_lose_their_one)
{
    static const struct {
        const char *name;
        int64_t rows, cols;
        int norm;
    } tensors[] = {{"token_embd.weight", 40, 24, 0},        {"output_norm.weight", 24, 0, 1},
                   {"blk.0.attn_norm.weight", 24, 0, 1},    {"blk.0.attn_q.weight", 24, 24, 0},
                   {"blk.0.attn_k.weight", 12, 24, 0},      {"blk.0.attn_v.weight", 12, 24, 0},
                   {"blk.0.attn_output.weight", 24, 24, 0}, {"blk.0.post_attention_norm.weight", 24, 0, 1},
                   {"blk.0.ffn_norm.weight", 24, 0, 1},     {"blk.0.ffn_gate.weight", 20, 24, 0},
                   {"blk.0.ffn_up.weight", 20, 24, 0},      {"blk.0.ffn_down.weight", 24, 20, 0},
                   {"blk.0.post_ffw_norm.weight", 24, 0, 1}};
    enum { N = sizeof tensors / sizeof *tensors };
    lh_buf b = {0};
    lh_checkpoint *ck;
    uint64_t offset = 0;
    gm_head(&b, 3, N, 9);
    gm_key_text(&b, "general.architecture", "gemma2");
    gm_key_u32(&b, "gemma2.block_count", 1);
    gm_key_u32(&b, "gemma2.context_length", 64);
    gm_key_u32(&b, "gemma2.embedding_length", 24);
    gm_key_u32(&b, "gemma2.feed_forward_length", 20);
    gm_key_u32(&b, "gemma2.attention.head_count", 4);
    gm_key_u32(&b, "gemma2.attention.head_count_kv", 2);
    gm_key_u32(&b, "gemma2.attention.key_length", 6);
    gm_key_u32(&b, "gemma2.attention.value_length", 6);
    for (int i = 0; i < N; i++) {
        int64_t cols = tensors[i].cols ? tensors[i].cols : tensors[i].rows;
        gm_tensor(&b, tensors[i].name, tensors[i].cols ? tensors[i].rows : 0, cols, 0, offset);
        offset += (uint64_t)(tensors[i].rows * (tensors[i].cols ? tensors[i].cols : 1) * 4 + 31) / 32 * 32;
    }
    gm_align(&b, 32);
    for (int i = 0; i < N; i++) {
        for (int64_t k = 0; k < tensors[i].rows * (tensors[i].cols ? tensors[i].cols : 1); k++) {
            float f = mm_value(tensors[i].name, k) + (float)tensors[i].norm;
            gm_bytes(&b, &f, 4);
        }
        gm_align(&b, 32);
    }
    mm_put(other, b.data, b.bytes);
    ck_assert_msg(import_as(other, out, "auto") == LH_OK, "%s", lh_error_message());
    ck_assert_int_eq(lh_checkpoint_open(&ck, out), LH_OK);
    ck_assert(lh_checkpoint_config(ck)->norm_offset == 1 && lh_checkpoint_config(ck)->tied);
    check_weight(ck, LH_W_NORM, 0, "output_norm.weight", 0);
    check_weight(ck, LH_W_ATTN_NORM, 0, "blk.0.attn_norm.weight", 0);
    check_weight(ck, LH_W_ATTN_POST_NORM, 0, "blk.0.post_attention_norm.weight", 0);
    check_weight(ck, LH_W_MLP_NORM, 0, "blk.0.ffn_norm.weight", 0);
    check_weight(ck, LH_W_MLP_POST_NORM, 0, "blk.0.post_ffw_norm.weight", 0);
    check_weight(ck, LH_W_Q, 0, "blk.0.attn_q.weight", 0); /* Gemma's rows are in order */
    lh_checkpoint_close(ck);
    lh_buf_clear(&b);
}
END_TEST

START_TEST(test_fused_projections_are_split)
{
    static const char config[] =
        "{\"model_type\": \"phi3\", \"vocab_size\": 40, \"hidden_size\": 24, \"intermediate_size\": 20, "
        "\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"num_key_value_heads\": 2}";
    mm_model m = {0};
    lh_checkpoint *ck;
    mm_add(&m, 40, 24, "model.embed_tokens.weight");
    mm_add(&m, 24, 0, "model.norm.weight");
    mm_add(&m, 40, 24, "lm_head.weight");
    mm_add_layer(&m, 0, 24, 0, "input_layernorm.weight");
    mm_add_layer(&m, 0, 48, 24, "self_attn.qkv_proj.weight");
    mm_add_layer(&m, 0, 24, 24, "self_attn.o_proj.weight");
    mm_add_layer(&m, 0, 24, 0, "post_attention_layernorm.weight");
    mm_add_layer(&m, 0, 40, 24, "mlp.gate_up_proj.weight");
    mm_add_layer(&m, 0, 24, 20, "mlp.down_proj.weight");
    mm_folder(folder, &m, config, LH_F32);
    ck_assert_int_eq(import_as(folder, out, "auto"), LH_OK);
    ck_assert_int_eq(lh_checkpoint_open(&ck, out), LH_OK);
    check_weight(ck, LH_W_Q, 0, "model.layers.0.self_attn.qkv_proj.weight", 0);
    check_weight(ck, LH_W_K, 0, "model.layers.0.self_attn.qkv_proj.weight", 24);
    check_weight(ck, LH_W_V, 0, "model.layers.0.self_attn.qkv_proj.weight", 36);
    check_weight(ck, LH_W_GATE, 0, "model.layers.0.mlp.gate_up_proj.weight", 0);
    check_weight(ck, LH_W_UP, 0, "model.layers.0.mlp.gate_up_proj.weight", 20);
    lh_checkpoint_close(ck);
}
END_TEST

/* ---- refusals ---- */
static void check_refused(const char *src, const char *dtype, lh_status want, const char *says)
{
    char *partial;
    ck_assert_int_eq(import_as(src, out, dtype), want);
    ck_assert_msg(strstr(lh_error_message(), says) != NULL, "%s", lh_error_message());
    ck_assert_int_eq(lh_partial_name(&partial, out), LH_OK);
    ck_assert(!lh_file_exists(out) && !lh_file_exists(partial));
    lh_free(partial);
}

START_TEST(test_tensors_that_contradict_the_configuration)
{
    mm_model m = llama;
    m.tensors[4].rows = 18; /* q of layer 0 */
    mm_folder(folder, &m, MM_LLAMA_CONFIG, LH_F32);
    check_refused(folder, "auto", LH_EINPUT,
                  "'model.layers.0.self_attn.q_proj.weight' is [18, 24], the configuration asks for [24, 24]");
    m = llama;
    m.n--; /* the last layer's down */
    mm_folder(folder, &m, MM_LLAMA_CONFIG, LH_F32);
    check_refused(folder, "auto", LH_EINPUT, "no tensor 'model.layers.1.mlp.down_proj.weight' [24, 20]");
    m = llama;
    m.tensors[1].cols = 24; /* a norm that is a matrix */
    mm_folder(folder, &m, MM_LLAMA_CONFIG, LH_F32);
    check_refused(folder, "auto", LH_EINPUT, "'model.norm.weight'");
    m = llama;
    snprintf(m.tensors[0].name, sizeof m.tensors[0].name, "transformer.wte");
    mm_folder(folder, &m, MM_LLAMA_CONFIG, LH_F32);
    check_refused(folder, "auto", LH_EINPUT, "no language model");
}
END_TEST

/* Replace one value of model.safetensors by other bits. */
static void poke(const char *tensor, int64_t index, uint32_t bits)
{
    char path[128];
    lh_buf b = {0};
    int64_t at = 0, header;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    ck_assert_int_eq(lh_file_read(&b, path, 1 << 28), LH_OK);
    memcpy(&header, b.data, 8);
    for (int i = 0; strcmp(llama.tensors[i].name, tensor) != 0; i++) at += 4 * mm_count(&llama.tensors[i]);
    memcpy(b.data + 8 + header + at + 4 * index, &bits, 4);
    mm_put(path, b.data, b.bytes);
    lh_buf_clear(&b);
}

START_TEST(test_values_that_nothing_can_be_computed_with)
{
    static const uint32_t bits[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0x7f800001u, 0x5f800000u, 0xff000000u};
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
        mm_folder(folder, &llama, MM_LLAMA_CONFIG, LH_F32);
        poke("model.layers.1.self_attn.k_proj.weight", 5 * 24 + 7, bits[i]);
        check_refused(folder, i % 2 ? "bf16" : "auto", LH_EINPUT, "'model.layers.1.self_attn.k_proj.weight' holds");
        ck_assert(strstr(lh_error_message(), "[5, 7]: weights must be finite") != NULL);
    }
    mm_folder(folder, &llama, MM_LLAMA_CONFIG, LH_F32);
    poke("lm_head.weight", 3, 0x5f7fffffu); /* just below 2^64 */
    ck_assert_int_eq(import_as(folder, out, "f32"), LH_OK);
    unlink(out);
    mm_folder(folder, &llama, MM_LLAMA_CONFIG, LH_F32);
    poke("lm_head.weight", 3, 0x47c35000u); /* 100000 */
    check_refused(folder, "f16", LH_EINPUT, "holds 100000 at [0, 3], more than f16 can: use --dtype bf16");
    ck_assert_int_eq(import_as(folder, out, "bf16"), LH_OK);
}
END_TEST

START_TEST(test_sources_that_are_none)
{
    char path[128];
    check_refused("/nowhere", "auto", LH_EINPUT, "'/nowhere' does not exist");
    mkdir(folder, 0777);
    check_refused(folder, "auto", LH_EINPUT, "no 'config.json'");
    mm_write(folder, "config.json", MM_LLAMA_CONFIG, (int64_t)strlen(MM_LLAMA_CONFIG));
    check_refused(folder, "auto", LH_EINPUT, "neither 'model.safetensors' nor 'model.safetensors.index.json'");
    mm_write(folder, "pytorch_model.bin", "x", 1);
    check_refused(folder, "auto", LH_EINPUT, "PyTorch");
    mm_write(folder, "model.safetensors", "", 0);
    check_refused(folder, "auto", LH_EINPUT, "is empty");
    mm_write(folder, "model.safetensors", "\2\0\0\0\0\0\0\0{}", 10);
    check_refused(folder, "auto", LH_EINPUT, "holds no tensors");
    snprintf(path, sizeof path, "%s/config.json", folder);
    check_refused(path, "auto", LH_EINPUT, "neither a Hugging Face folder nor a GGUF file");
    mm_write(folder, "config.json", "{\"model_type\": \"rwkv\"}", 22);
    check_refused(folder, "auto", LH_EINPUT, "'rwkv' is unknown");
    mm_folder(folder, &llama, MM_LLAMA_CONFIG, LH_F32);
    check_refused(folder, "f8", LH_EUSAGE, "dtype 'f8' is unknown: auto, f32, f16 and bf16 are known");
    make_shards(folder, "../secret.safetensors");
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    unlink(path);
    check_refused(folder, "auto", LH_EINPUT, "in the same folder");
    make_shards(folder, "model-00003.safetensors");
    check_refused(folder, "auto", LH_EINPUT, "model-00003.safetensors");
}
END_TEST

static void put_file(const char *name, const char *text)
{
    mm_write(folder, name, text, (int64_t)strlen(text));
}

/* What is found in place of a model is named, and what to do. */
START_TEST(test_what_is_found_in_place_of_a_model_is_named)
{
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n";
    static const struct {
        const char *file, *text;
        const char *says;
    } rows[] = {{"a.gguf", pointer, "is a Git LFS pointer, not the file itself: run 'git lfs pull'"},
                {"a.bin", "PK\3\4", "it is a PyTorch file or a ZIP archive"},
                {"a.pt", "\x80\2}q", "it is a PyTorch file (pickle)"},
                {"a.bin", "tjgg", "it is a GGML file of 2023"},
                {"a.json", "{}", "give the folder that holds it"}};
    char path[128];
    mkdir(folder, 0777);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put_file(rows[i].file, rows[i].text);
        snprintf(path, sizeof path, "%s/%s", folder, rows[i].file);
        check_refused(path, "auto", LH_EINPUT, rows[i].says);
        unlink(path);
    }
    put_file("m.gguf", "GGUF");
    check_refused(folder, "auto", LH_EINPUT, "has no 'config.json', but 'm.gguf': give the GGUF file itself");
    put_file("adapter_config.json", "{\"base_model_name_or_path\": \"meta/llama\", \"peft_type\": \"LORA\"}");
    check_refused(folder, "auto", LH_EINPUT, "holds an adapter (LoRA) of 'meta/llama', no model: merge it");
    put_file("config.json", MM_LLAMA_CONFIG);
    check_refused(folder, "auto", LH_EINPUT, "holds an adapter (LoRA) of 'meta/llama'");
    snprintf(path, sizeof path, "%s/adapter_config.json", folder);
    unlink(path);
    put_file("model.fp16.safetensors", "x");
    check_refused(folder, "auto", LH_EINPUT, "'model.safetensors.index.json', but 'model.fp16.safetensors'");
    put_file("consolidated.safetensors", "x");
    check_refused(folder, "auto", LH_EINPUT, "'consolidated.safetensors', Mistral's layout");
    put_file("model.safetensors", pointer);
    check_refused(folder, "auto", LH_EINPUT, "model.safetensors' is a Git LFS pointer");
    mm_folder(folder, &llama, MM_LLAMA_CONFIG, LH_F32);
    put_file("tokenizer.json", pointer);
    check_refused(folder, "auto", LH_EINPUT, "tokenizer.json' is a Git LFS pointer");
}
END_TEST

/* GPTQ beside a configuration that does not say so. */
START_TEST(test_quantised_weights_in_place_of_plain_ones_are_named)
{
    mm_model m = llama;
    snprintf(m.tensors[4].name, sizeof m.tensors[4].name, "model.layers.0.self_attn.q_proj.qweight");
    mm_folder(folder, &m, MM_LLAMA_CONFIG, LH_F32);
    check_refused(folder, "auto", LH_EINPUT,
                  "in place of 'model.layers.0.self_attn.q_proj.weight': the weights are quantised, and "
                  "'quantization_config' of config.json does not describe them");
}
END_TEST

START_TEST(test_gguf_files_that_are_no_language_model_are_named)
{
    static const struct {
        const char *architecture, *type, *says;
    } rows[] = {{"clip", "model", "(mmproj): give the GGUF file of the language model"},
                {"clip", "mmproj", "(mmproj)"},
                {"llama", "adapter", "is an adapter (LoRA), no model"},
                {"llama", "imatrix", "is an importance matrix, no model"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lh_buf b = {0};
        gm_head(&b, 3, 0, 2);
        gm_key_text(&b, "general.architecture", rows[i].architecture);
        gm_key_text(&b, "general.type", rows[i].type);
        gm_align(&b, 32);
        mm_put(other, b.data, b.bytes);
        check_refused(other, "auto", LH_EINPUT, rows[i].says);
        lh_buf_clear(&b);
    }
}
END_TEST

START_TEST(test_outputs_that_cannot_be)
{
    mm_folder(folder, &llama, MM_LLAMA_CONFIG, LH_F32);
    ck_assert_int_eq(import_as(folder, tmp, "auto"), LH_EWRITE);
    ck_assert(strstr(lh_error_message(), "it is a folder") != NULL);
    ck_assert_int_eq(import_as(folder, "/nowhere/m.h5", "auto"), LH_EWRITE);
    char gguf[96];
    snprintf(gguf, sizeof gguf, "%s/m.gguf", tmp);
    make_gguf(gguf, &llama);
    ck_assert_int_eq(import_as(gguf, gguf, "auto"), LH_EUSAGE);
    ck_assert(strstr(lh_error_message(), "the source itself") != NULL);
}
END_TEST

static lh_status stop_at_half(void *self, int64_t done_bytes, int64_t total_bytes)
{
    *(int64_t *)self = total_bytes;
    return 2 * done_bytes > total_bytes ? LH_EINTERRUPTED : LH_OK;
}

START_TEST(test_an_interrupted_import_leaves_what_was_there)
{
    int64_t total = 0;
    const lh_import_options options = {.src = folder, .out = out, .dtype = "auto", .progress = {&total, stop_at_half}};
    mm_folder(folder, &llama, MM_LLAMA_CONFIG, LH_F32);
    mm_put(out, "old", 3);
    ck_assert_int_eq(lh_import(&options), LH_EINTERRUPTED);
    lh_buf b = {0};
    ck_assert_int_eq(lh_file_read(&b, out, 100), LH_OK);
    ck_assert_str_eq(b.data, "old");
    lh_buf_clear(&b);
    int64_t values = 0;
    for (int i = 0; i < llama.n; i++) values += mm_count(&llama.tensors[i]);
    ck_assert_int_eq(total, 4 * values);
}
END_TEST

/* ---- a source that changes ---- */

/* What happens to model.safetensors when the first rows are written: 0: nothing, 1: all but its first page is lost, 2:
 * it is written again, 3: another has its name. */
typedef struct accident {
    int how, done;
} accident;

static lh_status have_accident(void *self, int64_t done_bytes, int64_t total_bytes)
{
    accident *a = self;
    char path[128], moved[128];
    lh_buf bytes = {0};
    (void)done_bytes, (void)total_bytes;
    if (a->done++) return LH_OK;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    snprintf(moved, sizeof moved, "%s/moved.safetensors", folder);
    if (a->how == 1) ck_assert_int_eq(truncate(path, 4096), 0);
    if (a->how == 3) ck_assert_int_eq(rename(path, moved), 0);
    if (a->how >= 2) {
        ck_assert_int_eq(lh_file_read(&bytes, a->how == 2 ? path : moved, 1 << 28), LH_OK);
        mm_put(path, bytes.data, bytes.bytes);
        lh_buf_clear(&bytes);
    }
    return LH_OK;
}

START_TEST(test_a_source_that_changes_is_refused_and_leaves_what_was_there)
{
    accident a = {.how = _i};
    char partial[128];
    lh_buf b = {0};
    const lh_import_options options = {.src = folder, .out = out, .dtype = "auto", .progress = {&a, have_accident}};
    snprintf(partial, sizeof partial, "%s.partial", out);
    mm_folder(folder, &llama, MM_LLAMA_CONFIG, LH_F32);
    usleep(20000); /* times of files advance in steps of some milliseconds */
    mm_put(out, "old", 3);
    ck_assert_int_eq(lh_import(&options), _i ? LH_EINPUT : LH_OK);
    if (_i == 0) return;
    ck_assert_msg(strstr(lh_error_message(), "model.safetensors' changed while it was read"), "%s", lh_error_message());
    ck_assert_int_eq(lh_file_read(&b, out, 100), LH_OK);
    ck_assert_str_eq(b.data, "old");
    ck_assert(!lh_file_exists(partial));
    lh_buf_clear(&b);
}
END_TEST

/* ---- random ones ---- */
START_TEST(test_random_models_follow_from_their_seed)
{
    lh_import_options options = {.random = "tiny", .out = out, .dtype = "auto", .seed = 7};
    lh_checkpoint *ck;
    int64_t n;
    ck_assert_int_eq(lh_import(&options), LH_OK);
    options.out = other;
    ck_assert_int_eq(lh_import(&options), LH_OK);
    check_same_bytes(out, other);
    ck_assert_int_eq(lh_checkpoint_open(&ck, out), LH_OK);
    uint64_t identity = lh_checkpoint_identity(ck);
    ck_assert_int_ge(lh_checkpoint_config(ck)->max_positions, 131072);
    float *q = read_weight(ck, LH_W_Q, 1, &n);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += q[i], squares += q[i] * q[i];
    /* n normals of variance 1/128: mean and variance within five standard errors. */
    ck_assert(fabs(sum / (double)n) < 5 * sqrt(1.0 / 128 / (double)n));
    ck_assert(fabs(squares / (double)n * 128 - 1) < 5 * sqrt(2.0 / (double)n));
    lh_free(q);
    lh_checkpoint_close(ck);
    options.seed = 8;
    ck_assert_int_eq(lh_import(&options), LH_OK);
    ck_assert_int_eq(lh_checkpoint_open(&ck, other), LH_OK);
    ck_assert(lh_checkpoint_identity(ck) != identity);
    lh_checkpoint_close(ck);
    options.random = "huge";
    ck_assert_int_eq(lh_import(&options), LH_EUSAGE);
    ck_assert(strstr(lh_error_message(), "tiny, llama-3.2-1b, llama-3.1-8b, llama-3.1-8b-4m, llama-3.1-8b-narrow, "
                                         "llama-3.1-70b, qwen2.5-7b, mistral-7b"));
}
END_TEST

START_TEST(test_tiny_speaks_bytes)
{
    const lh_import_options options = {.random = "tiny", .out = out, .dtype = "f32", .seed = 7};
    lh_tokenizer *tok;
    lh_tokens ids = {0};
    lh_buf text = {0};
    char all[256];
    for (int i = 0; i < 255; i++) all[i] = (char)(i < 127 ? i + 1 : 'a' + i % 26);
    ck_assert_int_eq(lh_import(&options), LH_OK);
    ck_assert_int_eq(lh_tokenizer_open(&tok, out), LH_OK);
    ck_assert_int_eq(lh_tokenizer_vocab(tok), 259);
    ck_assert_int_eq(lh_tokenizer_encode(tok, all, 255, LH_ENCODE_PLAIN, &ids), LH_OK);
    ck_assert_int_eq(ids.n, 255);
    for (int i = 0; i < 255; i++) ck_assert_int_eq(ids.ids[i], (unsigned char)all[i]);
    ck_assert_int_eq(lh_tokenizer_decode(tok, ids.ids, ids.n, &text), LH_OK);
    ck_assert(text.bytes == 255 && memcmp(text.data, all, 255) == 0);
    ck_assert(lh_tokenizer_is_eos(tok, 258) && lh_tokenizer_find(tok, "<|im_start|>") == 257);
    ck_assert_str_eq(lh_tokenizer_chat_format(tok), "chatml");
    lh_buf_clear(&text);
    lh_tokens_clear(&ids);
    lh_tokenizer_close(tok);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import");
    TCase *tc = tcase_create("laws");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, test_every_type_survives_in_every_type, 0, 3);
    tcase_add_test(tc, test_shards_do_not_show);
    tcase_add_test(tc, test_the_text_model_of_one_for_images_too);
    tcase_add_test(tc, test_a_head_that_is_in_the_file_is_not_dropped);
    tcase_add_test(tc, test_gguf_rows_are_put_back);
    tcase_add_test(tc, test_gemma_norms_lose_their_one);
    tcase_add_test(tc, test_fused_projections_are_split);
    tcase_add_test(tc, test_tensors_that_contradict_the_configuration);
    tcase_add_test(tc, test_values_that_nothing_can_be_computed_with);
    tcase_add_test(tc, test_sources_that_are_none);
    tcase_add_test(tc, test_what_is_found_in_place_of_a_model_is_named);
    tcase_add_test(tc, test_quantised_weights_in_place_of_plain_ones_are_named);
    tcase_add_test(tc, test_gguf_files_that_are_no_language_model_are_named);
    tcase_add_test(tc, test_outputs_that_cannot_be);
    tcase_add_test(tc, test_an_interrupted_import_leaves_what_was_there);
    tcase_add_loop_test(tc, test_a_source_that_changes_is_refused_and_leaves_what_was_there, 0, 4);
    tcase_add_test(tc, test_random_models_follow_from_their_seed);
    tcase_add_test(tc, test_tiny_speaks_bytes);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
