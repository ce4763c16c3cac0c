/* Laws of `import --quantize`: blocks are ggml's bit for bit from every plain type; short rows and sensitive matrices
 * get llama.cpp's formats; other tensors stay plain. */
#include <check.h>
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "base/format.h"
#include "import/checkpoint.h"
#include "import/import.h"
#include "import/stored_types.h"
#include "model_maker.h"

static char tmp[64], folder[96], out[96];

static void set_up(void)
{
    mm_make_tmp(tmp);
    snprintf(folder, sizeof folder, "%s/model", tmp);
    snprintf(out, sizeof out, "%s/m.h5", tmp);
    dup2(open("/dev/null", O_WRONLY), 2);
}

static void tear_down(void)
{
    mm_remove_tmp(tmp);
}

/* FNV-1a hashes of ggml_quantize_chunk (ggml 0.13.1) of the values below, made by tools/make_block_goldens.py. */
static const struct golden {
    const char *name;
    uint64_t hash;
} goldens[] = {
    {"q4_0", UINT64_C(0xb99eb38d468adca5)}, {"q4_1", UINT64_C(0x6c0cf44c77057a72)},
    {"q5_0", UINT64_C(0xe3625d82aea8aa79)}, {"q5_1", UINT64_C(0xcb1773442c00ee53)},
    {"q8_0", UINT64_C(0x8255e31b7d18a721)}, {"q4_K", UINT64_C(0x0db58bfa01ea3979)},
    {"q5_K", UINT64_C(0x26751728c7b35109)}, {"q6_K", UINT64_C(0x96a944767ceb4ed2)},
};
enum { GOLDEN_VALUES = 1 << 17, GOLDENS = sizeof goldens / sizeof *goldens };

/* Sums of four hashed integers, which are nearly normal, with a scale per 32 values and one per 4,096 values; then
 * zeros, constants, values with one sign, and outliers. */
static float golden_value(int64_t i)
{
    const int64_t group = i / 32, kind = i / 4096 % 8;
    int64_t v = 0;
    for (uint32_t j = 0; j < 4; j++) v += (int64_t)((uint32_t)(4 * i + j) * 2654435761u >> 16) - 32768;
    if (kind == 1) v = v % 3 ? 0 : v;
    if (kind == 2) v = 4096 * (group % 5);
    if (kind == 3) v = v < 0 ? -v : v;
    if (kind == 4) v = v < 0 ? v : -v;
    if (kind == 5) v *= i % 61 ? 1 : 64;
    return (float)ldexp((double)v, (int)(group * 7 % 11 + i / 4096 * 5 % 37) - 60);
}

START_TEST(test_blocks_are_ggml_s)
{
    static float values[GOLDEN_VALUES];
    static uint8_t blocks[2 * GOLDEN_VALUES];
    const lh_format *format = lh_format_named(goldens[_i].name);
    const int64_t n = GOLDEN_VALUES / format->values;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int64_t i = 0; i < GOLDEN_VALUES; i++) values[i] = golden_value(i);
    lh_format_from_f32(format, blocks, values, n);
    for (int64_t i = 0; i < n * format->bytes; i++) hash = (hash ^ blocks[i]) * UINT64_C(0x100000001b3);
    ck_assert_msg(hash == goldens[_i].hash, "%s: %016llx", format->name, (unsigned long long)hash);
}
END_TEST

/* Values near the limits of f32, of which no code may overflow. */
START_TEST(test_extreme_values_have_codes)
{
    static const float extremes[] = {0, -0.0f, 0x1p-149f, -0x1p-149f, 0x1p-126f, 0x1p63f, -0x1p63f, 0x1.fffffep-127f};
    enum { N = sizeof extremes / sizeof *extremes };
    const lh_format *format = lh_format_named(goldens[_i].name);
    uint8_t blocks[256 / 32 * 34];
    float values[256], back[256];
    for (int a = 0; a < N; a++)
        for (int b = 0; b < N; b++) {
            for (int i = 0; i < 256; i++) values[i] = i % 3 ? extremes[a] : extremes[b];
            lh_format_from_f32(format, blocks, values, 256 / format->values);
            lh_format_to_f32(format, back, blocks, 256 / format->values);
        }
}
END_TEST

/* Heads of 32, MLP 80, which is no multiple of 32. */
static void make_model(lh_dtype type, int hidden)
{
    char config[512];
    snprintf(config, sizeof config,
             "{\"model_type\": \"llama\", \"vocab_size\": 40, \"hidden_size\": %d, \"intermediate_size\": 80, "
             "\"num_hidden_layers\": 1, \"num_attention_heads\": %d, \"num_key_value_heads\": 1}",
             hidden, hidden / 32);
    mm_model m = {0};
    mm_add(&m, 40, hidden, "model.embed_tokens.weight");
    mm_add(&m, hidden, 0, "model.norm.weight");
    mm_add(&m, 40, hidden, "lm_head.weight");
    mm_add_layer(&m, 0, hidden, 0, "input_layernorm.weight");
    mm_add_layer(&m, 0, hidden, hidden, "self_attn.q_proj.weight");
    mm_add_layer(&m, 0, 32, hidden, "self_attn.k_proj.weight");
    mm_add_layer(&m, 0, 32, hidden, "self_attn.v_proj.weight");
    mm_add_layer(&m, 0, hidden, hidden, "self_attn.o_proj.weight");
    mm_add_layer(&m, 0, hidden, 0, "post_attention_layernorm.weight");
    mm_add_layer(&m, 0, 80, hidden, "mlp.gate_proj.weight");
    mm_add_layer(&m, 0, 80, hidden, "mlp.up_proj.weight");
    mm_add_layer(&m, 0, hidden, 80, "mlp.down_proj.weight");
    mm_folder(folder, &m, config, type);
}

static lh_status quantize(const char *dtype, const char *format)
{
    return lh_import(&(lh_import_options){.src = folder, .out = out, .dtype = dtype, .quantize = format});
}

START_TEST(test_matrices_become_blocks)
{
    static const lh_dtype types[] = {LH_F32, LH_F16, LH_BF16};
    const lh_format *format = lh_format_named(goldens[_i].name);
    const lh_weight_range up = {LH_W_UP, 0, 0, 80, 0, 256};
    static float values[80 * 256];
    static uint8_t want[80 * 272], have[80 * 272];
    for (int i = 0; i < 80 * 256; i++) values[i] = mm_value("model.layers.0.mlp.up_proj.weight", i);
    lh_format_from_f32(format, want, values, 80 * 256 / format->values);
    for (int t = 0; t < 3; t++) {
        lh_checkpoint *ck;
        int64_t bytes;
        make_model(types[t], 256);
        ck_assert_msg(quantize("auto", format->name) == LH_OK, "%s", lh_error_message());
        ck_assert_int_eq(lh_checkpoint_open(&ck, out), LH_OK);
        ck_assert_int_eq(lh_checkpoint_read_blocks(ck, &up, have), LH_OK);
        ck_assert(memcmp(have, want, (size_t)lh_format_bytes(format, 80 * 256)) == 0);
        ck_assert_ptr_eq(lh_checkpoint_format(ck, LH_W_EMBED, 0), format);
        ck_assert_ptr_eq(lh_checkpoint_format(ck, LH_W_DOWN, 0), lh_format_of(types[t]));
        ck_assert(lh_checkpoint_format(ck, LH_W_NORM, 0)->is_plain);
        lh_checkpoint_close(ck);
        ck_assert_msg(lh_import_compare(folder, out, &(lh_import_progress){0}, &bytes) == LH_OK, "%s",
                      lh_error_message());
    }
}
END_TEST

START_TEST(test_random_weights_become_blocks)
{
    lh_checkpoint *ck;
    const lh_import_options options = {.random = "tiny", .out = out, .dtype = "auto", .quantize = "q8_0"};
    ck_assert_int_eq(lh_import(&options), LH_OK);
    ck_assert_int_eq(lh_checkpoint_open(&ck, out), LH_OK);
    ck_assert_str_eq(lh_checkpoint_format(ck, LH_W_Q, 0)->name, "q8_0");
    lh_checkpoint_close(ck);
}
END_TEST

/* f16 holds scales up to 65504. The sums of some searches overflow at 2^60. */
START_TEST(test_a_block_is_refused_for_its_largest_value)
{
    enum { ROWS = 2, COLS = 512, AT = COLS + 37 };
    static const float large[] = {-1e9f, 0x1p60f};
    static float values[ROWS * COLS];
    static uint8_t blocks[ROWS * COLS / 32 * 34];
    const lh_format *format = lh_format_named(goldens[_i].name);
    for (int i = 0; i < ROWS * COLS; i++) values[i] = 0.25f;
    ck_assert_int_eq(lh_import_pack(format, (char *)blocks, values, ROWS, COLS), -1);
    for (int l = 0; l < 2; l++) {
        values[AT] = large[l];
        ck_assert_int_eq(lh_import_pack(format, (char *)blocks, values, ROWS, COLS), AT);
    }
}
END_TEST

static void check_format(const char *name, lh_weight weight, int64_t layer, const char *want)
{
    lh_checkpoint *ck;
    ck_assert_int_eq(lh_checkpoint_open(&ck, out), LH_OK);
    const char *have = lh_checkpoint_format(ck, weight, layer)->name;
    ck_assert_msg(strcmp(have, want) == 0, "%s: tensor %d of layer %d is %s", name, (int)weight, (int)layer, have);
    lh_checkpoint_close(ck);
}

/* As llama.cpp's tensor_type_fallback. */
START_TEST(test_short_rows_have_blocks_of_32)
{
    static const struct {
        const char *name, *want, *head;
    } rows[] = {
        {"q4_K", "q5_0", "q5_0"}, {"q5_K", "q5_1", "q5_1"}, {"q6_K", "q8_0", "q8_0"}, {"q4_K_M", "q5_0", "q8_0"}};
    make_model(LH_BF16, 96);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_msg(quantize("auto", rows[i].name) == LH_OK, "%s", lh_error_message());
        check_format(rows[i].name, LH_W_Q, 0, rows[i].want);
        check_format(rows[i].name, LH_W_HEAD, 0, rows[i].head);
        check_format(rows[i].name, LH_W_DOWN, 0, "bf16");
    }
}
END_TEST

/* Llama 3.2 1B as llama-quantize stores it: Q6_K in these layers and in the embedding, which is the output projection;
 * Q4_K elsewhere. */
START_TEST(test_a_mixture_is_llama_cpp_s)
{
    static const char sensitive[] = "1100100100100111";
    const lh_config config = {.layers = 16,
                              .hidden = 2048,
                              .vocab = 128256,
                              .ff = 8192,
                              .heads = 32,
                              .kv_heads = 8,
                              .head_dim = 64,
                              .tied = 1};
    lh_import_types types;
    ck_assert_int_eq(lh_import_types_of(&types, &(lh_import_options){.dtype = "auto", .quantize = "q4_K_M"}), LH_OK);
    for (int64_t l = 0; l < 16; l++) {
        const char *more = sensitive[l] == '1' ? "q6_K" : "q4_K";
        ck_assert_str_eq(lh_import_quantised(&types, &config, LH_W_V, l)->name, more);
        ck_assert_str_eq(lh_import_quantised(&types, &config, LH_W_DOWN, l)->name, more);
        ck_assert_str_eq(lh_import_quantised(&types, &config, LH_W_UP, l)->name, "q4_K");
    }
    ck_assert_str_eq(lh_import_quantised(&types, &config, LH_W_EMBED, 0)->name, "q6_K");
    ck_assert_ptr_null(lh_import_quantised(&types, &config, LH_W_NORM, 0));
}
END_TEST

START_TEST(test_what_is_not_quantised_to)
{
    make_model(LH_F32, 64);
    ck_assert_int_eq(quantize("auto", "q3_K"), LH_EUSAGE);
    ck_assert(strstr(lh_error_message(), "blocks 'q3_K' are unknown: q8_0, q6_K, q5_K_M, q5_K, q5_1, q5_0, q4_K_M, "
                                         "q4_K, q4_1, q4_0 and f8_e4m3 are known") != NULL);
    ck_assert_int_eq(quantize("bf16", "q8_0"), LH_EUSAGE);
    ck_assert(strstr(lh_error_message(), "'--dtype bf16' and '--quantize q8_0' both set the stored type") != NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("quantize");
    TCase *tc = tcase_create("laws");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, test_blocks_are_ggml_s, 0, GOLDENS);
    tcase_add_loop_test(tc, test_extreme_values_have_codes, 0, GOLDENS);
    tcase_add_loop_test(tc, test_matrices_become_blocks, 0, GOLDENS);
    tcase_add_loop_test(tc, test_a_block_is_refused_for_its_largest_value, 0, GOLDENS);
    tcase_add_test(tc, test_random_weights_become_blocks);
    tcase_add_test(tc, test_short_rows_have_blocks_of_32);
    tcase_add_test(tc, test_a_mixture_is_llama_cpp_s);
    tcase_add_test(tc, test_what_is_not_quantised_to);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
