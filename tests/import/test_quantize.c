/* Laws of `import --quantize`: blocks are gguf-py's bit for bit, whatever the source's plain type; what cannot be
 * quantised stays as it is. */
#include <check.h>
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "base/format.h"
#include "import/checkpoint.h"
#include "import/import.h"
#include "import/import_impl.h"
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

/* FNV-1a hashes of gguf.quants.quantize (gguf 0.19) of the values below. */
static const struct golden {
    const char *name;
    uint64_t hash;
} goldens[] = {
    {"q4_0", UINT64_C(0xb791a027e7ed3b37)}, {"q4_1", UINT64_C(0xbc5914ac6bedb857)},
    {"q5_0", UINT64_C(0x1c94df1dfa121fbf)}, {"q5_1", UINT64_C(0x9075744a5deba059)},
    {"q8_0", UINT64_C(0xf951a494fac5371c)},
};
enum { GOLDEN_BLOCKS = 512, GOLDENS = sizeof goldens / sizeof *goldens };

START_TEST(test_blocks_are_gguf_py_s)
{
    static float values[GOLDEN_BLOCKS * 32];
    static uint8_t blocks[GOLDEN_BLOCKS * 34];
    const lh_format *format = lh_format_named(goldens[_i].name);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int64_t i = 0; i < GOLDEN_BLOCKS * 32; i++) {
        const int64_t v = (i * 7919 + i * i % 1013 * 104729) % 65521 - 32760;
        values[i] = (float)ldexp((double)v / 1024, (int)(i / 32 % 24) - 14);
        if (i / 32 == 7) values[i] = 0;
        if (i / 32 == 9) values[i] = 0.75f;
    }
    lh_format_from_f32(format, blocks, values, GOLDEN_BLOCKS);
    for (int64_t i = 0; i < GOLDEN_BLOCKS * format->bytes; i++) hash = (hash ^ blocks[i]) * UINT64_C(0x100000001b3);
    ck_assert_msg(hash == goldens[_i].hash, "%s: %016llx", format->name, (unsigned long long)hash);
}
END_TEST

/* Values near the limits of f32, of which no code may overflow. */
START_TEST(test_extreme_values_have_codes)
{
    static const float extremes[] = {0, -0.0f, 0x1p-149f, -0x1p-149f, 0x1p-126f, 0x1p63f, -0x1p63f, 0x1.fffffep-127f};
    enum { N = sizeof extremes / sizeof *extremes };
    const lh_format *format = lh_format_named(goldens[_i].name);
    uint8_t block[34];
    float values[32], back[32];
    for (int a = 0; a < N; a++)
        for (int b = 0; b < N; b++) {
            for (int i = 0; i < 32; i++) values[i] = i % 3 ? extremes[a] : extremes[b];
            lh_format_from_f32(format, block, values, 1);
            lh_format_to_f32(format, back, block, 1);
        }
}
END_TEST

/* hidden 64, 2 heads of 32, MLP 80, which is no multiple of 32. */
static void make_model(lh_dtype type)
{
    static const char config[] =
        "{\"model_type\": \"llama\", \"vocab_size\": 40, \"hidden_size\": 64, \"intermediate_size\": 80, "
        "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1}";
    mm_model m = {0};
    mm_add(&m, 40, 64, "model.embed_tokens.weight");
    mm_add(&m, 64, 0, "model.norm.weight");
    mm_add(&m, 40, 64, "lm_head.weight");
    mm_add_layer(&m, 0, 64, 0, "input_layernorm.weight");
    mm_add_layer(&m, 0, 64, 64, "self_attn.q_proj.weight");
    mm_add_layer(&m, 0, 32, 64, "self_attn.k_proj.weight");
    mm_add_layer(&m, 0, 32, 64, "self_attn.v_proj.weight");
    mm_add_layer(&m, 0, 64, 64, "self_attn.o_proj.weight");
    mm_add_layer(&m, 0, 64, 0, "post_attention_layernorm.weight");
    mm_add_layer(&m, 0, 80, 64, "mlp.gate_proj.weight");
    mm_add_layer(&m, 0, 80, 64, "mlp.up_proj.weight");
    mm_add_layer(&m, 0, 64, 80, "mlp.down_proj.weight");
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
    const lh_weight_range up = {LH_W_UP, 0, 0, 80, 0, 64};
    static float values[80 * 64];
    static uint8_t want[80 * 68], have[80 * 68];
    for (int i = 0; i < 80 * 64; i++) values[i] = mm_value("model.layers.0.mlp.up_proj.weight", i);
    lh_format_from_f32(format, want, values, 80 * 64 / 32);
    for (int t = 0; t < 3; t++) {
        lh_checkpoint *ck;
        int64_t bytes;
        make_model(types[t]);
        ck_assert_msg(quantize("auto", format->name) == LH_OK, "%s", lh_error_message());
        ck_assert_int_eq(lh_checkpoint_open(&ck, out), LH_OK);
        ck_assert_int_eq(lh_checkpoint_read_blocks(ck, &up, have), LH_OK);
        ck_assert(memcmp(have, want, (size_t)lh_format_bytes(format, 80 * 64)) == 0);
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

/* f16 holds scales up to 65504. */
START_TEST(test_a_block_is_refused_for_its_largest_value)
{
    enum { ROWS = 2, COLS = 64, AT = COLS + 37 };
    static float values[ROWS * COLS];
    uint8_t blocks[ROWS * COLS / 32 * 34];
    const lh_format *format = lh_format_named(goldens[_i].name);
    for (int i = 0; i < ROWS * COLS; i++) values[i] = 0.25f;
    ck_assert_int_eq(lh_import_pack(format, (char *)blocks, values, ROWS, COLS), -1);
    values[AT] = -1e9f;
    ck_assert_int_eq(lh_import_pack(format, (char *)blocks, values, ROWS, COLS), AT);
}
END_TEST

START_TEST(test_what_is_not_quantised_to)
{
    make_model(LH_F32);
    ck_assert_int_eq(quantize("auto", "q4_K"), LH_EUSAGE);
    ck_assert(strstr(lh_error_message(), "no weights are quantised to 'q4_K': q8_0, q5_1") != NULL);
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
    tcase_add_loop_test(tc, test_blocks_are_gguf_py_s, 0, GOLDENS);
    tcase_add_loop_test(tc, test_extreme_values_have_codes, 0, GOLDENS);
    tcase_add_loop_test(tc, test_matrices_become_blocks, 0, GOLDENS);
    tcase_add_loop_test(tc, test_a_block_is_refused_for_its_largest_value, 0, GOLDENS);
    tcase_add_test(tc, test_random_weights_become_blocks);
    tcase_add_test(tc, test_what_is_not_quantised_to);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
