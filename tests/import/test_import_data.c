/* Real model folders: all are imported as what they are, and the checkpoints are whole. */
#include <fcntl.h>
#include <unistd.h>

#include "import/checkpoint.h"
#include "import/import.h"
#include "import/verify.h"
#include "model_maker.h"

static const lh_file_kind *const kinds[] = {&lh_checkpoint_kind, NULL};

static char tmp[64], out[96], data[512];

static void set_up(void)
{
    mm_make_tmp(tmp);
    snprintf(out, sizeof out, "%s/m.h5", tmp);
    dup2(open("/dev/null", O_WRONLY), 2);
}

static void tear_down(void)
{
    mm_remove_tmp(tmp);
}

static const struct {
    const char *folder, *family;
    lh_dtype type;
    int64_t window, kv_heads;
    lh_rope_kind rope;
} models[] = {
    {"golden/families/llama3-rope", "llama", LH_F32, 0, 2, LH_ROPE_LLAMA3},
    {"golden/families/llama-6-3", "llama", LH_F32, 0, 3, LH_ROPE_DEFAULT},
    {"golden/families/llama-mha5", "llama", LH_F32, 0, 5, LH_ROPE_DEFAULT},
    {"golden/families/llama-sharded-bf16", "llama", LH_BF16, 0, 2, LH_ROPE_DEFAULT},
    {"golden/families/mistral", "mistral", LH_F32, 64, 2, LH_ROPE_DEFAULT},
    {"golden/families/qwen2", "qwen2", LH_F32, 0, 1, LH_ROPE_DEFAULT},
    {"golden/families/qwen2-yarn", "qwen2", LH_F32, 0, 2, LH_ROPE_YARN},
    {"golden/families/qwen3", "qwen3", LH_F32, 0, 2, LH_ROPE_DEFAULT},
    {"golden/families/gemma2", "gemma2", LH_F32, 64, 2, LH_ROPE_DEFAULT},
    {"golden/families/gemma3", "gemma3_text", LH_F32, 32, 1, LH_ROPE_DEFAULT},
    {"golden/families/gemma3-linear", "gemma3_text", LH_F32, 48, 2, LH_ROPE_LINEAR},
    {"golden/families/phi3", "phi3", LH_F32, 0, 2, LH_ROPE_DEFAULT},
    {"golden/families/phi3-longrope", "phi3", LH_F32, 0, 4, LH_ROPE_LONGROPE},
    {"models/stories260K", "llama", LH_F32, 0, 4, LH_ROPE_DEFAULT},
    {"models/stories15M", "llama", LH_F16, 0, 6, LH_ROPE_DEFAULT},
    {"models/minimind2-small", "llama", LH_F16, 0, 2, LH_ROPE_DEFAULT},
};

START_TEST(test_a_real_folder_becomes_a_whole_checkpoint)
{
    char src[640];
    lh_checkpoint *ck;
    lh_verify_report report;
    snprintf(src, sizeof src, "%s/%s", data, models[_i].folder);
    const lh_import_options options = {.src = src, .out = out, .dtype = "auto"};
    ck_assert_msg(lh_import(&options) == LH_OK, "%s", lh_error_message());
    ck_assert_msg(lh_verify(out, kinds, NULL, &report) == LH_OK, "%s", lh_error_message());
    ck_assert_int_eq(lh_checkpoint_open(&ck, out), LH_OK);
    const lh_config *c = lh_checkpoint_config(ck);
    ck_assert_str_eq(lh_config_family_name(c), models[_i].family);
    ck_assert_int_eq(lh_checkpoint_dtype(ck), models[_i].type);
    ck_assert_int_eq(c->window, models[_i].window);
    ck_assert_int_eq(c->kv_heads, models[_i].kv_heads);
    ck_assert_int_eq(c->rope_global.kind, models[_i].rope);
    lh_checkpoint_close(ck);
}
END_TEST

int main(void)
{
    const char *folder = getenv("LONGHAUL_TEST_DATA");
    snprintf(data, sizeof data, "%s", folder ? folder : LH_TEST_DATA);
    if (!lh_file_is_folder(data)) {
        printf("skipped: '%s' is not there\n", data);
        return 0;
    }
    Suite *suite = suite_create("import of real models");
    TCase *tc = tcase_create("laws");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, test_a_real_folder_becomes_a_whole_checkpoint, 0, sizeof models / sizeof *models);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
