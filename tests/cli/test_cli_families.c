/* Real checkpoints of the families, tiny and random, as Hugging Face writes them (golden/families of the folder
 * LONGHAUL_TEST_DATA; without it the test says so and passes): every preset of the table says and keeps on three ranks
 * what it says and keeps on one. A sample of the keep sets as it is; with LONGHAUL_LONG=1 all of them. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/h5.h"
#include "cli/program.h"
#include "policies/policy.h"
#include "suite.h"

static const char *const families[] = {"qwen2", "qwen3", "gemma2", "gemma3", "mistral"};
enum { FAMILIES = sizeof families / sizeof *families };

static int found;

static int presets(void)
{
    int n = 0;
    while (lh_policy_at(n)) n++;
    return n;
}

/* ---- what they say ---- */

START_TEST(test_every_preset_says_the_same_on_three_ranks)
{
    program_result one = {0}, three = {0};
    lh_buf list = {0};
    if (!found) return;
    for (int p = 0; p < presets(); p++)
        ck_assert(lh_buf_printf(&list, "%s%s", p ? "," : "", lh_policy_at(p)->name) == LH_OK);
    for (int ranks = 1; ranks <= 3; ranks += 2)
        program_run(ranks == 1 ? &one : &three, ranks,
                    "eval fidelity -m %s.h5 --text text -q --length 160 --count 1 -n 12 --deterministic --dtype f32 "
                    "--policy %s --budget 40,50%% --csv means.csv --answers answers.csv && cat means.csv answers.csv",
                    families[_i], list.data);
    program_exits(&one, 0);
    program_exits(&three, 0);
    ck_assert_int_ge(program_lines(one.out.data, "| "), 1 + 1 + 2 * (presets() - 1)); /* of its names, full, others */
    ck_assert_str_eq(one.out.data, three.out.data);
    lh_buf_clear(&list);
    program_clear(&one);
    program_clear(&three);
}
END_TEST

/* ---- what they keep ---- */

/* All positions of a layer's heads, and where each head's begin; NULL where there are none. */
typedef struct keep_set {
    int64_t *offsets;
    int32_t *positions;
    int64_t heads, n;
} keep_set;

static keep_set read_set(lh_h5 *h5, const char *part, int64_t layer)
{
    keep_set s = {0};
    char name[64];
    lh_h5_shape shape = {0};
    snprintf(name, sizeof name, "/layers/%03d/%s/offsets", (int)layer, part);
    if (lh_h5_get(h5, name, &(lh_h5_shape){LH_I64, 1, {-1}}, &shape, &s.offsets) != LH_OK) return s;
    s.heads = shape.dims[0] - 1;
    snprintf(name, sizeof name, "/layers/%03d/%s/positions", (int)layer, part);
    ck_assert_int_eq(lh_h5_get(h5, name, &(lh_h5_shape){LH_I32, 1, {-1}}, &shape, &s.positions), LH_OK);
    s.n = shape.dims[0];
    return s;
}

/* Of the layers that there are; returns how many. */
static int64_t check_files(const char *what, const char *part)
{
    lh_h5 *files[2] = {0};
    int64_t layer = 0;
    for (int there = 1; there; layer += there) {
        keep_set s[2];
        for (int i = 0; i < 2; i++) {
            if (!files[i])
                ck_assert_int_eq(lh_h5_open(&files[i], i ? "three.h5" : "one.h5", &(lh_h5_header){0}), LH_OK);
            s[i] = read_set(files[i], part, layer);
        }
        there = s[0].offsets != NULL;
        ck_assert_msg(there == (s[1].offsets != NULL), "%s: layers are missing", what);
        if (there)
            ck_assert_msg(s[0].heads == s[1].heads && s[0].n == s[1].n &&
                              memcmp(s[0].offsets, s[1].offsets, (size_t)(s[0].heads + 1) * sizeof *s[0].offsets) ==
                                  0 &&
                              memcmp(s[0].positions, s[1].positions, (size_t)s[0].n * sizeof *s[0].positions) == 0,
                          "%s: layer %d keeps other entries (%s)", what, (int)layer, part);
        for (int i = 0; i < 2; i++) lh_free(s[i].offsets), lh_free(s[i].positions);
    }
    for (int i = 0; i < 2; i++) lh_h5_close(files[i]);
    return layer;
}

static void check_preset(const char *family, const lh_policy_preset *preset)
{
    json_t *ids[2];
    char what[160];
    snprintf(what, sizeof what, "%s: %s", family, preset->name);
    for (int i = 0; i < 2; i++) {
        program_result r = {0};
        program_run(&r, i ? 3 : 1,
                    "generate -m %s.h5 --chat=off -f prompt -n 14 --ignore-eos --json -q --deterministic --dtype f32 "
                    "--policy %s %s "
                    "--keep-sets %s",
                    family, preset->name, preset->parts ? "--budget 40" : "", i ? "three.h5" : "one.h5");
        program_exits(&r, 0);
        json_t *o = json_loads(r.out.data, JSON_ALLOW_NUL, NULL);
        ck_assert_ptr_nonnull(o);
        ids[i] = json_incref(json_object_get(o, "token_ids"));
        json_decref(o);
        program_clear(&r);
    }
    ck_assert_msg(json_array_size(ids[0]) == 14 && json_equal(ids[0], ids[1]), "%s: other tokens", what);
    ck_assert_int_gt(check_files(what, "kept"), 0);
    check_files(what, "final"); /* where decoding evicted */
    for (int i = 0; i < 2; i++) json_decref(ids[i]);
}

START_TEST(test_every_preset_keeps_the_same_on_three_ranks)
{
    int all = getenv("LONGHAUL_LONG") != NULL;
    for (int p = 0; p < presets() && found; p++)
        if (all || p % (3 * FAMILIES) == 3 * _i) check_preset(families[_i], lh_policy_at(p));
}
END_TEST

/* ---- the models ---- */

static int import(const char *root)
{
    program_result r = {0};
    int code = 0;
    for (int i = 0; i < FAMILIES && code == 0; i++) {
        program_run(&r, 1, "import %s/%s -o %s.h5 -q", root, families[i], families[i]);
        code = r.code;
        if (code) break;
        program_run(&r, 1,
                    "learn -m %s.h5 text --length 256 --count 1 -q --target 'snapkv --statistic max --rows-at repeat:128 "
                    "--window 0 --pool none'",
                    families[i]);
        code = r.code;
    }
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    return code;
}

static void write_texts(void)
{
    char text[601];
    for (size_t i = 0; i + 1 < sizeof text; i++) text[i] = (char)(i % 7 == 6 ? ' ' : 'a' + i * i % 23);
    text[sizeof text - 1] = '\0';
    program_file("text", text);
    text[240] = '\0';
    program_file("prompt", text);
}

int main(void)
{
    char root[512];
    const char *given = getenv("LONGHAUL_TEST_DATA");
    snprintf(root, sizeof root, "%s/golden/families", given ? given : LH_TEST_DATA);
    found = lh_file_is_folder(root);
    if (!found) printf("skipped: no families under LONGHAUL_TEST_DATA\n");
    program_enter();
    write_texts();
    int code = found ? import(root) : 0;
    Suite *suite = suite_create("cli families");
    TCase *laws = tcase_create("laws");
    tcase_set_timeout(laws, 1200);
    tcase_add_loop_test(laws, test_every_preset_says_the_same_on_three_ranks, 0, FAMILIES);
    tcase_add_loop_test(laws, test_every_preset_keeps_the_same_on_three_ranks, 0, FAMILIES);
    suite_add_tcase(suite, laws);
    SRunner *runner = srunner_create(suite);
    if (code == 0) {
        srunner_run_all(runner, CK_ENV);
        code = srunner_ntests_failed(runner) != 0;
    }
    srunner_free(runner);
    program_leave();
    return code;
}
