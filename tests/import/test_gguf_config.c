/* Laws of gguf_config.c: metadata of GGUF files mean what llama.cpp takes them for. */
#include <math.h>

#include "gguf_maker.h"
#include "import/config.h"
#include "import/import_source.h"
#include "model_maker.h"

static char tmp[64], path[96];

static void set_up(void)
{
    mm_make_tmp(tmp);
    snprintf(path, sizeof path, "%s/m.gguf", tmp);
}

static void tear_down(void)
{
    mm_remove_tmp(tmp);
}

/* The configuration of the file in *b, whose tensors are an embedding of 40 x 24 and what `more` holds. Clears *b. */
static lh_status config_of(json_t **out, lh_buf *b, const void *more, int64_t bytes)
{
    lh_gguf *gguf = NULL;
    *out = NULL;
    gm_align(b, 32);
    for (int i = 0; i < 40 * 24; i++) gm_bytes(b, "\0\0\0", 4);
    if (bytes) gm_bytes(b, more, bytes);
    mm_put(path, b->data, b->bytes);
    ck_assert_int_eq(lh_gguf_open(&gguf, path), LH_OK);
    lh_status st = lh_gguf_config(out, gguf);
    lh_gguf_close(gguf);
    lh_buf_clear(b);
    return st;
}

/* The same, parsed. */
static lh_status parsed_config_of(lh_config *c, lh_buf *b, const void *more, int64_t bytes)
{
    json_t *json;
    lh_status st = config_of(&json, b, more, bytes);
    if (st == LH_OK) st = lh_config_parse(c, json, "config");
    json_decref(json);
    return st;
}

/* Factors that frequencies are divided by, as the converter of Llama 3.1 writes them: theta 500000, dimension 6. */
START_TEST(test_llama3_scaling_is_found_again)
{
    static const char embed[] = "token_embd.weight";
    static const float llama31[3] = {1, 1, 8}, others[3] = {1, 2, 3};
    for (int k = 0; k < 2; k++) {
        lh_buf b = {0};
        gm_head(&b, 3, 2, 8);
        gm_key_text(&b, "general.architecture", "llama");
        gm_key_u32(&b, "llama.block_count", 2);
        gm_key_u32(&b, "llama.context_length", 131072);
        gm_key_u32(&b, "llama.embedding_length", 24);
        gm_key_u32(&b, "llama.feed_forward_length", 20);
        gm_key_u32(&b, "llama.attention.head_count", 4);
        gm_key_f32(&b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
        gm_key_f32(&b, "llama.rope.freq_base", 500000);
        gm_tensor(&b, embed, 40, 24, 0, 0);
        gm_tensor(&b, "rope_freqs.weight", 0, 3, 0, 40 * 24 * 4);
        lh_config c;
        ck_assert_int_eq(parsed_config_of(&c, &b, k ? others : llama31, sizeof llama31), LH_OK);
        if (k == 0) {
            ck_assert(c.rope_global.kind == LH_ROPE_LLAMA3 && c.rope_global.factor == 8);
            ck_assert(c.rope_global.original_positions == 8192 && c.rope_global.high_freq_factor == 4);
        } else { /* the same factors at any length */
            ck_assert(c.rope_global.kind == LH_ROPE_LONGROPE && c.rope_global.attention_factor == 1);
            ck_assert(c.rope_global.long_factor[2] == 3 && c.rope_global.short_factor[1] == 2);
        }
        lh_config_clear(&c);
    }
}
END_TEST

START_TEST(test_a_key_tells_families_of_one_architecture_apart)
{
    static const struct {
        const char *architecture, *key, *family;
        uint32_t value;
    } cases[] = {{"olmo2", "olmo2.attention.sliding_window", "olmo2", 0},
                 {"olmo2", "olmo2.attention.sliding_window", "olmo3", 20},
                 {"llama", "llama.expert_count", "llama", 0},
                 {"llama", "llama.expert_count", "mixtral", 4}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        lh_buf b = {0};
        json_t *json;
        gm_head(&b, 3, 1, 2);
        gm_key_text(&b, "general.architecture", cases[k].architecture);
        gm_key_u32(&b, cases[k].key, cases[k].value);
        gm_tensor(&b, "token_embd.weight", 40, 24, 0, 0);
        ck_assert_msg(config_of(&json, &b, NULL, 0) == LH_OK, "%s", lh_error_message());
        ck_assert_str_eq(json_string_value(json_object_get(json, "model_type")), cases[k].family);
        json_decref(json);
    }
}
END_TEST

/* The configuration of a GGUF file with these lines more, which say something of its rotary scaling. */
static lh_status scaled_config(lh_config *c, const char *type, const char *factor_key, float attn_factor)
{
    lh_buf b = {0};
    gm_head(&b, 3, 1, (uint64_t)(6 + (type != NULL) + (factor_key != NULL) + (attn_factor > 0)));
    gm_key_text(&b, "general.architecture", "llama");
    gm_key_u32(&b, "llama.block_count", 2);
    gm_key_u32(&b, "llama.context_length", 4096);
    gm_key_u32(&b, "llama.embedding_length", 24);
    gm_key_u32(&b, "llama.feed_forward_length", 20);
    gm_key_u32(&b, "llama.attention.head_count", 4);
    if (type) gm_key_text(&b, "llama.rope.scaling.type", type);
    if (factor_key) gm_key_f32(&b, factor_key, 4);
    if (attn_factor > 0) gm_key_f32(&b, "llama.rope.scaling.attn_factor", attn_factor);
    gm_tensor(&b, "token_embd.weight", 40, 24, 0, 0);
    return parsed_config_of(c, &b, NULL, 0);
}

/* llama.cpp: without a type the scaling is linear; the oldest files call its factor scale_linear. YaRN's attn_factor is
 * multiplied onto 0.1 ln(factor) + 1 (ggml's rope_yarn). */
START_TEST(test_scaling_of_a_gguf_is_llama_cpps)
{
    static const char factor[] = "llama.rope.scaling.factor", old[] = "llama.rope.scale_linear";
    static const struct {
        const char *type, *key;
        float attn_factor;
        lh_rope_kind kind;
        double attention;
    } rows[] = {{"linear", factor, 0, LH_ROPE_LINEAR, 0},
                {NULL, factor, 0, LH_ROPE_LINEAR, 0},
                {NULL, old, 0, LH_ROPE_LINEAR, 0},
                {"none", factor, 0, LH_ROPE_DEFAULT, 0},
                {NULL, NULL, 0, LH_ROPE_DEFAULT, 0},
                {"yarn", factor, 0, LH_ROPE_YARN, 0},
                {"yarn", factor, 1, LH_ROPE_YARN, 1.1386294},
                {"yarn", factor, 0.5f, LH_ROPE_YARN, 0.5693147}};
    lh_config c;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_int_eq(scaled_config(&c, rows[i].type, rows[i].key, rows[i].attn_factor), LH_OK);
        ck_assert_msg(c.rope_global.kind == rows[i].kind, "%zu: %d", i, c.rope_global.kind);
        if (rows[i].kind != LH_ROPE_DEFAULT) ck_assert(c.rope_global.factor == 4);
        ck_assert(fabs(c.rope_global.attention_factor - rows[i].attention) < 1e-6);
        lh_config_clear(&c);
    }
    ck_assert_int_eq(scaled_config(&c, "longrope", NULL, 0), LH_EINPUT);
    ck_assert(strstr(lh_error_message(), "has no tensor 'rope_factors_long.weight'") != NULL);
}
END_TEST

/* The configuration of a GGUF file of a family whose layers slide, with a base of sliding layers (0: none). */
static lh_status local_config(lh_config *c, const char *family, float swa, float factor)
{
    static const struct {
        const char *key;
        uint32_t value;
    } sizes[] = {{"block_count", 6},          {"context_length", 4096},    {"embedding_length", 24},
                 {"feed_forward_length", 20}, {"attention.head_count", 4}, {"attention.sliding_window", 64}};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    lh_buf b = {0};
    char key[64];
    gm_head(&b, 3, 1, (uint64_t)(SIZES + 2 + (swa > 0) + (factor > 0)));
    gm_key_text(&b, "general.architecture", family);
    for (int i = 0; i < SIZES; i++) {
        snprintf(key, sizeof key, "%s.%s", family, sizes[i].key);
        gm_key_u32(&b, key, sizes[i].value);
    }
    snprintf(key, sizeof key, "%s.rope.freq_base", family);
    gm_key_f32(&b, key, 500000);
    snprintf(key, sizeof key, "%s.rope.freq_base_swa", family);
    if (swa > 0) gm_key_f32(&b, key, swa);
    snprintf(key, sizeof key, "%s.rope.scaling.factor", family);
    if (factor > 0) gm_key_f32(&b, key, factor);
    gm_tensor(&b, "token_embd.weight", 40, 24, 0, 0);
    return parsed_config_of(c, &b, NULL, 0);
}

/* llama.cpp's rope_freq_base_train_swa: 10000 where nothing is said; the scaling is of the layers that see all. */
START_TEST(test_sliding_layers_have_a_base_of_their_own)
{
    static const float bases[] = {0, 10000, 25000};
    lh_config c;
    for (int i = 0; i < 6; i++) {
        float factor = i % 2 ? 8 : 0;
        ck_assert_msg(local_config(&c, "gemma3", bases[i / 2], factor) == LH_OK, "%s", lh_error_message());
        ck_assert(c.rope_global.theta == 500000 && c.rope_local.theta == (i / 2 == 2 ? 25000 : 10000));
        ck_assert(c.rope_global.kind == (factor > 0 ? LH_ROPE_LINEAR : LH_ROPE_DEFAULT));
        ck_assert(c.rope_local.kind == LH_ROPE_DEFAULT);
        if (factor > 0) ck_assert(c.rope_global.factor == 8);
        lh_config_clear(&c);
    }
    ck_assert_msg(local_config(&c, "gemma2", 500000, 0) == LH_OK, "%s", lh_error_message());
    ck_assert(c.rope_local.theta == 500000);
    lh_config_clear(&c);
    ck_assert_int_eq(local_config(&c, "gemma2", 10000, 0), LH_EINPUT);
    ck_assert(strstr(lh_error_message(), "'gemma2.rope.freq_base_swa' 10000 is not 'gemma2.rope.freq_base' 500000"));
}
END_TEST

/* A key of an architecture: a number (f32, or u32 where it is whole), a text, a list of booleans or a boolean. */
typedef struct extra {
    const char *key;
    double number;
    const char *text, *list;
    int is_bool;
} extra;

/* The configuration of a file of 4 layers with these keys more, up to one without a name. */
static lh_status config_with(lh_config *c, const char *architecture, const extra *more)
{
    static const extra sizes[] = {
        {.key = "block_count", .number = 4},          {.key = "context_length", .number = 4096},
        {.key = "embedding_length", .number = 24},    {.key = "feed_forward_length", .number = 20},
        {.key = "attention.head_count", .number = 4}, {.key = NULL}};
    lh_buf keys = {0}, b = {0};
    uint64_t n = 0;
    for (int k = 0; k < 2; k++)
        for (const extra *e = k ? more : sizes; e->key; e++, n++) {
            char key[96];
            snprintf(key, sizeof key, "%s.%s", architecture, e->key);
            if (e->text)
                gm_key_text(&keys, key, e->text);
            else if (e->list)
                gm_key_bools(&keys, key, e->list);
            else if (e->is_bool)
                gm_key_bool(&keys, key, e->number != 0);
            else if (e->number == floor(e->number) && !strstr(key, "freq_base"))
                gm_key_u32(&keys, key, (uint32_t)e->number);
            else
                gm_key_f32(&keys, key, (float)e->number);
        }
    gm_head(&b, 3, 1, n + 1);
    gm_key_text(&b, "general.architecture", architecture);
    gm_bytes(&b, keys.data, keys.bytes);
    gm_tensor(&b, "token_embd.weight", 40, 24, 0, 0);
    lh_buf_clear(&keys);
    return parsed_config_of(c, &b, NULL, 0);
}

/* As the converter writes Ministral 3: Mistral's numbers of YaRN, and the scaling of queries. Without that it is
 * Mistral Small 3, of which no layer slides. */
START_TEST(test_mistral3_is_ministral_where_queries_are_scaled)
{
    static const extra yarn[] = {{.key = "attention.temperature_scale", .number = 0.3},
                                 {.key = "rope.scaling.type", .text = "yarn"},
                                 {.key = "rope.scaling.factor", .number = 4},
                                 {.key = "rope.scaling.original_context_length", .number = 64},
                                 {.key = "rope.scaling.yarn_beta_fast", .number = 32},
                                 {.key = "rope.scaling.yarn_beta_slow", .number = 1},
                                 {.key = "rope.scaling.yarn_log_multiplier", .number = 1},
                                 {.key = NULL}};
    lh_config c;
    ck_assert_msg(config_with(&c, "mistral3", yarn) == LH_OK, "%s", lh_error_message());
    ck_assert_str_eq(lh_config_family_name(&c), "ministral3");
    ck_assert(c.rope_global.query_beta == 0.3 && c.rope_global.query_positions == 64 && c.window == 0);
    ck_assert(c.rope_global.kind == LH_ROPE_YARN && c.rope_global.mscale == 1 && c.rope_global.mscale_all_dim == 1);
    lh_config_clear(&c);
    ck_assert_msg(config_with(&c, "mistral3", yarn + 1) == LH_OK, "%s", lh_error_message());
    ck_assert_str_eq(lh_config_family_name(&c), "mistral");
    ck_assert(c.rope_global.query_beta == 0 && c.window == 0);
    lh_config_clear(&c);
    ck_assert_int_eq(config_with(&c, "llama", yarn), LH_EINPUT);
    ck_assert_msg(strstr(lh_error_message(), "'llama.attention.temperature_scale' is not known") != NULL, "%s",
                  lh_error_message());
}
END_TEST

START_TEST(test_yarn_of_a_gguf_has_the_numbers_that_are_there)
{
    static const extra yarn[] = {{.key = "rope.scaling.type", .text = "yarn"},
                                 {.key = "rope.scaling.factor", .number = 4},
                                 {.key = "rope.scaling.yarn_beta_fast", .number = 16},
                                 {.key = "rope.scaling.yarn_beta_slow", .number = 2},
                                 {.key = "rope.scaling.yarn_attn_factor", .number = 1.3},
                                 {.key = NULL}};
    lh_config c;
    ck_assert_msg(config_with(&c, "llama", yarn) == LH_OK, "%s", lh_error_message());
    ck_assert(c.rope_global.beta_fast == 16 && c.rope_global.beta_slow == 2 && c.rope_global.attention_factor == 1.3);
    lh_config_clear(&c);
}
END_TEST

START_TEST(test_a_gguf_says_which_layers_slide)
{
    static const struct {
        extra more[3];
        uint8_t sliding[4];
    } rows[] = {
        {{{.key = "attention.sliding_window", .number = 64}}, {1, 1, 1, 0}},
        {{{.key = "attention.sliding_window", .number = 64},
          {.key = "attention.sliding_window_pattern", .list = "0110"}},
         {0, 1, 1, 0}},
        {{{.key = "attention.sliding_window", .number = 64}, {.key = "attention.sliding_window_pattern", .number = 2}},
         {1, 0, 1, 0}},
    };
    lh_config c;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_msg(config_with(&c, "olmo2", rows[i].more) == LH_OK, "%s", lh_error_message());
        ck_assert_msg(memcmp(c.sliding, rows[i].sliding, 4) == 0, "%zu", i);
        lh_config_clear(&c);
    }
    ck_assert_int_eq(config_with(&c, "llama", rows[0].more), LH_EINPUT); /* a window that would be left out */
}
END_TEST

/* A key of attention, rotation or experts that is not read would change the logits without a word. */
START_TEST(test_keys_of_a_gguf_are_known_or_named)
{
    static const struct {
        const char *architecture;
        extra more[2];
        const char *says; /* NULL: no refusal */
    } rows[] = {
        {"llama", {{.key = "attention.clamp_kqv", .number = 8}}, "'llama.attention.clamp_kqv' is not known here"},
        {"llama", {{.key = "rope.scaling.attn_factor", .number = 1.5}}, "'llama.rope.scaling.attn_factor' is 1.5"},
        {"llama", {{.key = "rope.scaling.attn_factor", .number = 1}}, NULL},
        {"llama", {{.key = "rope.scaling.alpha", .number = 2.5}}, "'llama.rope.scaling.alpha' is not known here"},
        {"qwen3moe", {{.key = "expert_shared_count", .number = 1}}, "'qwen3moe.expert_shared_count' is not known"},
        {"llama", {{.key = "attention.causal", .is_bool = 1, .number = 0}}, "'llama.attention.causal' is 0: only 1"},
        {"llama", {{.key = "rope.scaling.yarn_ext_factor", .number = 0.5}}, "only 1 is supported"},
        {"granite", {{.key = "rope.scaling.finetuned", .is_bool = 1, .number = 0}}, "'granite.rope.scaling.finetuned'"},
        {"llama", {{.key = "rope.scaling.finetuned", .is_bool = 1, .number = 0}}, NULL},
        {"llama", {{.key = "attention.causal", .is_bool = 1, .number = 1}}, NULL},
        {"llama", {{.key = "expert_shared_count", .number = 0}}, NULL},
        {"qwen3moe",
         {{.key = "expert_weights_scale", .number = 2.5}},
         "'qwen3moe.expert_weights_scale' is 2.5: only 1"},
        {"qwen3moe", {{.key = "expert_gating_func", .number = 2}}, "'qwen3moe.expert_gating_func' is 2: only 1"},
        {"qwen3vl", {{.key = "rope.dimension_sections", .list = "1110"}}, NULL},
        {"qwen2vl", {{.key = "vision.attention.head_count", .number = 16}}, NULL},
        {"gemma3", {{.key = "rope.local.freq_base", .number = 5000}}, NULL},
        {"llama", {{.key = "remark", .text = "hello"}}, NULL}, /* a warning */
    };
    lh_config c;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lh_status st = config_with(&c, rows[i].architecture, rows[i].more);
        ck_assert_msg(st == (rows[i].says ? LH_EINPUT : LH_OK), "%zu: %s", i, lh_error_message());
        if (rows[i].says)
            ck_assert_msg(strstr(lh_error_message(), rows[i].says) != NULL, "%s", lh_error_message());
        else
            lh_config_clear(&c);
    }
}
END_TEST

/* llama.cpp has one default for all architectures, whatever the family's own configuration class has. */
START_TEST(test_a_gguf_without_a_base_rotates_by_llama_cpps)
{
    static const char *const architectures[] = {"llama", "smollm3", "gemma3", "qwen3vl"};
    static const extra none[] = {{.key = NULL}};
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++) {
        lh_config c;
        ck_assert_msg(config_with(&c, architectures[i], none) == LH_OK, "%s", lh_error_message());
        ck_assert_msg(c.rope_global.theta == 10000, "%s: %g", architectures[i], c.rope_global.theta);
        lh_config_clear(&c);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gguf configuration");
    TCase *tc = tcase_create("laws");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, test_llama3_scaling_is_found_again);
    tcase_add_test(tc, test_a_key_tells_families_of_one_architecture_apart);
    tcase_add_test(tc, test_scaling_of_a_gguf_is_llama_cpps);
    tcase_add_test(tc, test_sliding_layers_have_a_base_of_their_own);
    tcase_add_test(tc, test_mistral3_is_ministral_where_queries_are_scaled);
    tcase_add_test(tc, test_yarn_of_a_gguf_has_the_numbers_that_are_there);
    tcase_add_test(tc, test_a_gguf_says_which_layers_slide);
    tcase_add_test(tc, test_keys_of_a_gguf_are_known_or_named);
    tcase_add_test(tc, test_a_gguf_without_a_base_rotates_by_llama_cpps);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
