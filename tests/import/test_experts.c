/* Mixtures of experts: tensors of each expert, or of all together, become one dataset; what is not known is refused. */
#include <fcntl.h>
#include <unistd.h>

#include "gguf_maker.h"
#include "import/checkpoint.h"
#include "import/import.h"
#include "model_maker.h"

static char tmp[64], folder[96], gguf[96], out[96], other[96];

static void set_up(void)
{
    mm_make_tmp(tmp);
    snprintf(folder, sizeof folder, "%s/model", tmp);
    snprintf(gguf, sizeof gguf, "%s/m.gguf", tmp);
    snprintf(out, sizeof out, "%s/m.h5", tmp);
    snprintf(other, sizeof other, "%s/n.h5", tmp);
    dup2(open("/dev/null", O_WRONLY), 2); /* warnings about missing tokenizers */
}

static void tear_down(void)
{
    mm_remove_tmp(tmp);
}

enum { EXPERTS = 3, FF = 10, HIDDEN = 24, TENSORS = 16 };

/* A tensor; of a layer where its name begins with none of "model." and "lm_head". '*': of each expert. */
typedef struct listed {
    lh_weight weight;
    int64_t rows, cols;
    const char *hf, *gguf;
    int heads; /* rows of q and k that converters to GGUF interleave */
} listed;

#define USUAL                                                                             \
    {LH_W_EMBED, 40, HIDDEN, "model.embed_tokens.weight", "token_embd.weight", 0},        \
        {LH_W_NORM, HIDDEN, 0, "model.norm.weight", "output_norm.weight", 0},             \
        {LH_W_HEAD, 40, HIDDEN, "lm_head.weight", "output.weight", 0},                    \
        {LH_W_ATTN_NORM, HIDDEN, 0, "input_layernorm.weight", "attn_norm.weight", 0},     \
        {LH_W_V, 12, HIDDEN, "self_attn.v_proj.weight", "attn_v.weight", 0},              \
        {LH_W_O, HIDDEN, 24, "self_attn.o_proj.weight", "attn_output.weight", 0},         \
    {                                                                                     \
        LH_W_MLP_NORM, HIDDEN, 0, "post_attention_layernorm.weight", "ffn_norm.weight", 0 \
    }

static const struct model {
    const char *config, *architecture;
    int normalised;
    listed tensors[TENSORS];
} models[] = {
    {"\"model_type\": \"mixtral\", \"num_local_experts\": 3, \"intermediate_size\": 10, \"rms_norm_eps\": 1e-05, "
     "\"rope_theta\": 10000.0",
     "llama",
     1,
     {USUAL,
      {LH_W_Q, 24, HIDDEN, "self_attn.q_proj.weight", "attn_q.weight", 4},
      {LH_W_K, 12, HIDDEN, "self_attn.k_proj.weight", "attn_k.weight", 2},
      {LH_W_ROUTER, EXPERTS, HIDDEN, "block_sparse_moe.gate.weight", "ffn_gate_inp.weight", 0},
      {LH_W_GATE, FF, HIDDEN, "block_sparse_moe.experts.*.w1.weight", "ffn_gate_exps.weight", 0},
      {LH_W_UP, FF, HIDDEN, "block_sparse_moe.experts.*.w3.weight", "ffn_up_exps.weight", 0},
      {LH_W_DOWN, HIDDEN, FF, "block_sparse_moe.experts.*.w2.weight", "ffn_down_exps.weight", 0}}},
    {"\"model_type\": \"qwen3_moe\", \"num_experts\": 3, \"moe_intermediate_size\": 10, \"intermediate_size\": 77, "
     "\"norm_topk_prob\": true, \"head_dim\": 6, \"rms_norm_eps\": 1e-05, \"rope_theta\": 10000.0",
     "qwen3moe",
     1,
     {USUAL,
      {LH_W_Q, 24, HIDDEN, "self_attn.q_proj.weight", "attn_q.weight", 0},
      {LH_W_K, 12, HIDDEN, "self_attn.k_proj.weight", "attn_k.weight", 0},
      {LH_W_Q_NORM, 6, 0, "self_attn.q_norm.weight", "attn_q_norm.weight", 0},
      {LH_W_K_NORM, 6, 0, "self_attn.k_norm.weight", "attn_k_norm.weight", 0},
      {LH_W_ROUTER, EXPERTS, HIDDEN, "mlp.gate.weight", "ffn_gate_inp.weight", 0},
      {LH_W_GATE, FF, HIDDEN, "mlp.experts.*.gate_proj.weight", "ffn_gate_exps.weight", 0},
      {LH_W_UP, FF, HIDDEN, "mlp.experts.*.up_proj.weight", "ffn_up_exps.weight", 0},
      {LH_W_DOWN, HIDDEN, FF, "mlp.experts.*.down_proj.weight", "ffn_down_exps.weight", 0}}},
};
enum { MODELS = sizeof models / sizeof *models };

static int parts_of(const listed *t)
{
    return strchr(t->hf, '*') ? EXPERTS : 1;
}

static void hf_name(const listed *t, int expert, char name[96])
{
    const char *star = strchr(t->hf, '*');
    int of_layer = strncmp(t->hf, "model.", 6) != 0 && strncmp(t->hf, "lm_head", 7) != 0;
    if (star)
        snprintf(name, 96, "model.layers.0.%.*s%d%s", (int)(star - t->hf), t->hf, expert, star + 1);
    else
        snprintf(name, 96, "%s%s", of_layer ? "model.layers.0." : "", t->hf);
}

static void make_config(const struct model *m, const char *more, char text[640])
{
    snprintf(text, 640,
             "{%s, \"vocab_size\": 40, \"hidden_size\": 24, \"num_hidden_layers\": 1, \"num_attention_heads\": 4, "
             "\"num_key_value_heads\": 2, \"num_experts_per_tok\": 2, \"max_position_embeddings\": 64%s}",
             m->config, more);
}

/* `without`: a tensor that is left out, or NULL. With `shape` it is there, in that shape of three dimensions. */
static void make_folder_but(const struct model *m, const char *more, const char *without, const int64_t shape[3])
{
    mm_model all = {0};
    char name[96], config[640];
    for (const listed *t = m->tensors; t->hf; t++) {
        for (int e = 0; e < parts_of(t); e++) {
            int is_it;
            hf_name(t, e, name);
            is_it = without && strcmp(name, without) == 0;
            if (!is_it || shape) mm_add(&all, t->rows, t->cols, name);
            if (is_it && shape) all.tensors[all.n - 1].first = shape[0], all.tensors[all.n - 1].rows = shape[1];
            if (is_it && shape) all.tensors[all.n - 1].cols = shape[2];
        }
    }
    make_config(m, more, config);
    mm_folder(folder, &all, config, LH_F32);
}

static void make_folder(const struct model *m, const char *more, const char *without)
{
    make_folder_but(m, more, without, NULL);
}

static void put_values(lh_buf *b, const listed *t)
{
    for (int e = 0; e < parts_of(t); e++) {
        char name[96];
        hf_name(t, e, name);
        for (int64_t k = 0; k < t->rows * (t->cols ? t->cols : 1); k++) {
            int64_t from = k;
            if (t->heads) {
                int64_t row = k / t->cols, dim = t->rows / t->heads, pair = row % dim / 2, half = row % 2;
                from = (row / dim * dim + half * (dim / 2) + pair) * t->cols + k % t->cols;
            }
            float f = mm_value(name, from);
            gm_bytes(b, &f, 4);
        }
    }
    gm_align(b, 32);
}

static void put_key_u32(lh_buf *b, const struct model *m, const char *key, uint32_t value)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", m->architecture, key);
    gm_key_u32(b, full, value);
}

static void make_gguf(const struct model *m, const char *architecture)
{
    lh_buf b = {0};
    struct model as = *m;
    char full[96];
    uint64_t offset = 0, count = 0;
    as.architecture = architecture;
    for (const listed *t = m->tensors; t->hf; t++) count++;
    gm_head(&b, 3, count, 13);
    gm_key_text(&b, "general.architecture", architecture);
    put_key_u32(&b, &as, "block_count", 1);
    put_key_u32(&b, &as, "context_length", 64);
    put_key_u32(&b, &as, "embedding_length", HIDDEN);
    put_key_u32(&b, &as, "feed_forward_length", strcmp(architecture, "llama") == 0 ? FF : 77);
    put_key_u32(&b, &as, "expert_feed_forward_length", FF);
    put_key_u32(&b, &as, "expert_count", EXPERTS);
    put_key_u32(&b, &as, "expert_used_count", 2);
    put_key_u32(&b, &as, "attention.head_count", 4);
    put_key_u32(&b, &as, "attention.head_count_kv", 2);
    put_key_u32(&b, &as, "rope.dimension_count", 6);
    snprintf(full, sizeof full, "%s.attention.layer_norm_rms_epsilon", architecture);
    gm_key_f32(&b, full, 1e-5f);
    snprintf(full, sizeof full, "%s.rope.freq_base", architecture);
    gm_key_f32(&b, full, 10000);
    for (const listed *t = m->tensors; t->hf; t++) {
        int64_t values = parts_of(t) * t->rows * (t->cols ? t->cols : 1);
        snprintf(full, sizeof full, "%s%s", t->weight <= LH_W_HEAD ? "" : "blk.0.", t->gguf);
        if (parts_of(t) > 1)
            gm_tensor_of_experts(&b, full, (const int64_t[]){EXPERTS, t->rows, t->cols}, offset);
        else
            gm_tensor(&b, full, t->cols ? t->rows : 0, t->cols ? t->cols : t->rows, 0, offset);
        offset += (uint64_t)(values * 4 + 31) / 32 * 32;
    }
    gm_align(&b, 32);
    for (const listed *t = m->tensors; t->hf; t++) put_values(&b, t);
    mm_put(gguf, b.data, b.bytes);
    lh_buf_clear(&b);
}

static void check_weight(lh_checkpoint *ck, const listed *t)
{
    float *values = NULL;
    lh_weight_range range = {.weight = t->weight};
    int64_t part = t->rows * (t->cols ? t->cols : 1);
    lh_weight_shape(lh_checkpoint_config(ck), t->weight, &range.rows, &range.cols);
    ck_assert_int_eq(range.rows, parts_of(t) * t->rows);
    ck_assert_int_eq(range.cols, t->cols ? t->cols : 1);
    ck_assert_int_eq(lh_calloc(&values, parts_of(t) * part, sizeof *values), LH_OK);
    ck_assert_int_eq(lh_checkpoint_read(ck, &range, values, LH_F32, range.cols), LH_OK);
    for (int e = 0; e < parts_of(t); e++) {
        char name[96];
        hf_name(t, e, name);
        for (int64_t i = 0; i < part; i++)
            ck_assert_msg(values[e * part + i] == mm_value(name, i), "%s, value %d", name, (int)i);
    }
    lh_free(values);
}

static void check_import(const struct model *m, const char *src, const char *dtype)
{
    lh_checkpoint *ck = NULL;
    ck_assert_msg(lh_import(&(lh_import_options){.src = src, .out = out, .dtype = dtype}) == LH_OK, "%s",
                  lh_error_message());
    ck_assert_int_eq(lh_checkpoint_open(&ck, out), LH_OK);
    const lh_config *c = lh_checkpoint_config(ck);
    ck_assert_int_eq(c->experts.count, EXPERTS);
    ck_assert_int_eq(c->experts.top_k, 2);
    ck_assert_int_eq(c->experts.normalised, m->normalised);
    ck_assert_int_eq(c->ff, FF);
    for (const listed *t = m->tensors; t->hf; t++) check_weight(ck, t);
    lh_checkpoint_close(ck);
}

START_TEST(test_experts_of_a_folder_become_one_dataset)
{
    make_folder(&models[_i], "", NULL);
    check_import(&models[_i], folder, "auto");
    check_import(&models[_i], folder, "bf16");
}
END_TEST

START_TEST(test_experts_of_a_gguf_are_the_same)
{
    make_gguf(&models[_i], models[_i].architecture);
    check_import(&models[_i], gguf, "auto");
}
END_TEST

/* Kept in f32 where the source has it so: its choices would change. */
START_TEST(test_the_router_is_not_rounded)
{
    lh_checkpoint *ck = NULL;
    lh_h5_array *array = NULL;
    make_folder(&models[_i], "", NULL);
    ck_assert_int_eq(lh_import(&(lh_import_options){.src = folder, .out = out, .dtype = "bf16"}), LH_OK);
    ck_assert_int_eq(lh_checkpoint_open(&ck, out), LH_OK);
    ck_assert_int_eq(lh_h5_array_open(&array, lh_checkpoint_file(ck), "/weights/layers/000/router"), LH_OK);
    ck_assert_int_eq(lh_h5_array_shape(array)->type, LH_F32);
    lh_h5_array_close(array);
    ck_assert_int_eq(lh_h5_array_open(&array, lh_checkpoint_file(ck), "/weights/layers/000/gate"), LH_OK);
    ck_assert_int_eq(lh_h5_array_shape(array)->type, LH_BF16);
    lh_h5_array_close(array);
    lh_checkpoint_close(ck);
}
END_TEST

static void check_refused(const char *src, const char *says)
{
    ck_assert_int_eq(lh_import(&(lh_import_options){.src = src, .out = other, .dtype = "auto"}), LH_EINPUT);
    ck_assert_msg(strstr(lh_error_message(), says) != NULL, "%s", lh_error_message());
    ck_assert(!lh_file_exists(other));
    lh_error_clear();
}

START_TEST(test_what_is_no_mixture_of_ours_is_refused)
{
    make_folder(&models[0], "", "model.layers.0.block_sparse_moe.experts.1.w3.weight");
    check_refused(folder, "has no tensor 'model.layers.0.block_sparse_moe.experts.1.w3.weight' [10, 24]");
    make_folder(&models[1], ", \"num_experts\": 1", NULL);
    check_refused(folder, "'num_experts_per_tok' is 2, it must be at most 'num_experts', 1");
    make_folder(&models[1], ", \"decoder_sparse_step\": 2", NULL);
    check_refused(folder, "'decoder_sparse_step' is 2: only 1 is supported");
    make_folder(&models[1], ", \"mlp_only_layers\": [0]", NULL);
    check_refused(folder, "'mlp_only_layers' must be empty");
    make_folder(&models[1], ", \"mlp_only_layers\": 5", NULL);
    check_refused(folder, "'mlp_only_layers' must be empty");
    make_folder(&models[1], ", \"mlp_bias\": true", NULL);
    check_refused(folder, "'mlp_bias' is set");
    make_gguf(&models[0], "gemma2");
    check_refused(gguf, "is a mixture of 3 experts of the architecture 'gemma2', which is not known here");
}
END_TEST

/* Where all experts may lie in one tensor, others of three dimensions are no less wrong for it. */
START_TEST(test_tensors_of_three_dimensions_are_refused)
{
    static const struct {
        const char *name, *says;
        int64_t shape[3];
    } cases[] = {
        {"model.embed_tokens.weight", "is [3, 13, 24], the configuration asks for [40, 24]", {3, 13, 24}},
        {"lm_head.weight", "is [40, 24, 1], the configuration asks for [40, 24]", {40, 24, 1}},
        {"model.norm.weight", "is [3, 8, 1], the configuration asks for [24, 1]", {3, 8, 1}},
        {"model.layers.0.mlp.gate.weight", "is [3, 1, 24], the configuration asks for [3, 24]", {3, 1, 24}},
        {"model.layers.0.mlp.experts.1.down_proj.weight", "is [3, 8, 10], the", {3, 8, 10}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        make_folder_but(&models[1], "", cases[k].name, cases[k].shape);
        check_refused(folder, cases[k].says);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("import/experts");
    TCase *tc = tcase_create("experts");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, test_experts_of_a_folder_become_one_dataset, 0, MODELS);
    tcase_add_loop_test(tc, test_experts_of_a_gguf_are_the_same, 0, MODELS);
    tcase_add_loop_test(tc, test_the_router_is_not_rounded, 0, MODELS);
    tcase_add_test(tc, test_what_is_no_mixture_of_ours_is_refused);
    tcase_add_test(tc, test_tensors_of_three_dimensions_are_refused);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
