/* What a file of each kind must hold: files that are sound as HDF5, with a right seal, and nothing of longhaul's. */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/h5.h"
#include "base/temporary.h"
#include "cache/file_kinds.h"
#include "lab/analysis/summary.h"
#include "suite.h"

static const lh_file_kind *const kinds[] = {&lh_checkpoint_kind, &lh_cache_kind, &lh_keep_sets_kind, &lh_analysis_kind,
                                            NULL};
static char path[64];

/* Parts of a file; each case leaves one out or changes it. */
typedef struct file_case {
    const char *kind;
    int64_t schema;
    const char *missing; /* object, or attribute after '@' */
    int64_t budget;      /* of the layer of a cache; entries of the head of keep sets */
    const char *words;   /* of the message; NULL: the file is whole */
} file_case;

static const file_case cases[] = {
    {"cache", 1, NULL, 2, NULL},
    {"cache", 1, "/policy", 2, "has no '/policy', which every file of the kind 'cache' has"},
    {"cache", 1, "/tokens", 2, "'/tokens'"},
    {"cache", 1, "/logits", 2, "'/logits'"},
    {"cache", 1, "/state@layers", 2, "'layers' of '/state' is missing"},
    {"cache", 1, "/layers/000/k", 2, "has no '/layers/000/k'"},
    {"cache", 1, "/layers/000/offsets", 2, "has no '/layers/000/offsets'"},
    {"cache", 1, NULL, INT64_C(1) << 62, "'budget' of '/layers/000' is missing or 4611686018427387904"},
    {"cache", 99, NULL, 2, "has schema 99: this version reads up to 2"},
    {"keep-sets", 1, NULL, 2, NULL},
    {"keep-sets", 1, "/layers/000/kept/positions", 2, "has no '/layers/000/kept'"},
    {"keep-sets", 1, NULL, 3, "head 0 keeps 3 entries, its offsets say 2"},
    {"analysis", 1, NULL, 2, NULL},
    {"analysis", 1, "/tokens", 2, "holds no results"},
    {"checkpoint", 1, NULL, 2, "has no '/config', which every file of the kind 'checkpoint' has"},
    {"poem", 1, NULL, 2, "is of the kind 'poem', which this version does not know"},
};

static const file_case *now;
static lh_h5 *h5;

static int wanted(const char *object)
{
    return !now->missing || strcmp(now->missing, object) != 0;
}

static void put(const char *object, lh_dtype type, int rank, int64_t rows, const void *data)
{
    if (wanted(object))
        ck_assert_int_eq(lh_h5_put(h5, object, &(lh_h5_shape){type, rank, {rows, rank > 1 ? 2 : 0}}, data), LH_OK);
}

static void put_cache(void)
{
    static const int64_t offsets[] = {0, 2};
    static const float values[4] = {1, 2, 3, 4};
    if (wanted("/policy")) ck_assert_int_eq(lh_h5_put_text(h5, "/policy", "{}", 2), LH_OK);
    ck_assert_int_eq(lh_h5_group(h5, "/state"), LH_OK);
    if (wanted("/state@layers")) ck_assert_int_eq(lh_h5_put_i64(h5, "/state", "layers", 1), LH_OK);
    ck_assert_int_eq(lh_h5_put_i64(h5, "/state", "kv_heads", 1), LH_OK);
    put("/logits", LH_F32, 1, 4, values);
    put("/layers/000/offsets", LH_I64, 1, 2, offsets);
    put("/layers/000/k", LH_F32, 2, 2, values);
    put("/layers/000/v", LH_F32, 2, 2, values);
    ck_assert_int_eq(lh_h5_put_i64(h5, "/layers/000", "budget", now->budget), LH_OK);
}

static void put_keep_sets(void)
{
    static const int64_t offsets[] = {0, 2};
    static const int32_t positions[] = {0, 5};
    const int32_t budget = (int32_t)now->budget;
    if (!wanted("/layers/000/kept/positions")) return;
    put("/layers/000/kept/offsets", LH_I64, 1, 2, offsets);
    put("/layers/000/kept/positions", LH_I32, 1, 2, positions);
    put("/layers/000/kept/budgets", LH_I32, 1, 1, &budget);
}

START_TEST(test_a_file_holds_what_its_kind_must)
{
    static const int32_t tokens[] = {1, 2, 3};
    lh_verify_report report;
    now = &cases[_i];
    ck_assert_int_eq(lh_h5_create(&h5, path, &(lh_h5_header){now->kind, now->schema, NULL}), LH_OK);
    put("/tokens", LH_I32, 1, 3, tokens);
    if (strcmp(now->kind, "cache") == 0) put_cache();
    if (strcmp(now->kind, "keep-sets") == 0) put_keep_sets();
    ck_assert_int_eq(lh_h5_commit(h5), LH_OK);
    const lh_status st = lh_verify(path, kinds, NULL, &report);
    const char *message = lh_error_message();
    if (now->words)
        ck_assert_msg(st == LH_EFILE && strstr(message, path) && strstr(message, now->words), "case %d: %d, '%s'", _i,
                      st, message);
    else
        ck_assert_msg(st == LH_OK, "case %d: '%s'", _i, message);
    unlink(path);
}
END_TEST

static void put_ragged(const int64_t offsets[3], const int32_t positions[4])
{
    const lh_h5_header head = {.kind = "keep-sets", .schema = 1};
    const lh_h5_shape three = {.type = LH_I64, .rank = 1, .dims = {3}}, four = {.type = LH_I32, .rank = 1, .dims = {4}},
                      two = {.type = LH_I32, .rank = 1, .dims = {2}};
    const int32_t budgets[] = {(int32_t)(offsets[1] - offsets[0]), (int32_t)(offsets[2] - offsets[1])};
    ck_assert_int_eq(lh_h5_create(&h5, path, &head), LH_OK);
    ck_assert_int_eq(lh_h5_put(h5, "/layers/000/kept/offsets", &three, offsets), LH_OK);
    ck_assert_int_eq(lh_h5_put(h5, "/layers/000/kept/positions", &four, positions), LH_OK);
    ck_assert_int_eq(lh_h5_put(h5, "/layers/000/kept/budgets", &two, budgets), LH_OK);
    ck_assert_int_eq(lh_h5_put(h5, "/tokens", &four, positions), LH_OK);
    ck_assert_int_eq(lh_h5_commit(h5), LH_OK);
}

START_TEST(test_ragged_arrays_are_checked_in_any_file)
{
    static const struct {
        int64_t offsets[3];
        int32_t positions[4];
        const char *says;
    } rows[] = {{{0, 1, 4}, {5, 0, 2, 9}, NULL},
                {{0, 0, 4}, {0, 1, 2, 3}, NULL},
                {{1, 2, 4}, {5, 0, 2, 9}, "must rise from 0"},
                {{0, 3, 2}, {0, 1, 2, 9}, "must rise from 0"},
                {{0, 1, 3}, {5, 0, 2, 9}, "has 4 entries"},
                {{0, 1, 4}, {5, 0, 0, 9}, "entry 1 of head 1"},
                {{0, 1, 4}, {-5, 0, 1, 9}, "entry 0 of head 0"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lh_verify_report report;
        put_ragged(rows[i].offsets, rows[i].positions);
        ck_assert_int_eq(lh_verify(path, kinds, NULL, &report), rows[i].says ? LH_EFILE : LH_OK);
        if (rows[i].says) ck_assert_msg(strstr(lh_error_message(), rows[i].says) != NULL, "%s", lh_error_message());
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verify");
    TCase *tc = tcase_create("kinds");
    if (mkstemp(temporary_name(path, "/tmp")) < 0) return 99;
    tcase_add_loop_test(tc, test_a_file_holds_what_its_kind_must, 0, sizeof cases / sizeof *cases);
    tcase_add_test(tc, test_ragged_arrays_are_checked_in_any_file);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
