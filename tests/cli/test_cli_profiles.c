/* Budgets of one's own, as people give them: files of weights. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/program.h"
#include "cli/tiny.h"
#include "suite.h"

#define BY_HAND "--version > version; "
#define RUN "generate -m tiny.h5 -f prompt -n 6 --ignore-eos --json -q --deterministic --policy streaming --budget 16 "

START_TEST(test_bad_files_of_weights_are_named)
{
    static const struct {
        int code;
        const char *part, *line;
    } cases[] = {
        {3, "'twice.csv', line 4: layer 1 has a weight already, in line 3",
         "generate -m tiny.h5 -p a --budget 8 --layer-budget twice.csv"},
        {3, "'minus.csv', line 3: the weight '-1'", "plan -m tiny.h5 --context 99 --budget 8 --head-budget minus.csv"},
        {3, "'empty' is empty", "generate -m tiny.h5 -p a --budget 8 --head-budget empty"},
        {3, "'heads.csv', line 1", "generate -m tiny.h5 -p a --budget 8 --layer-budget heads.csv"},
        {3, "'four.csv' has weights of 4 layers, the model has 3",
         "generate -m tiny.h5 -p a --budget 8 --layer-budget four.csv"},
        {3, "'four.csv' has weights of 4 layers, the model has 3",
         "plan -m tiny.h5 --context 99 --budget 8 --layer-budget four.csv"},
        {3, "'one.csv' has weights of 1 heads in each layer, the model has 2 KV heads",
         "generate -m tiny.h5 -p a --budget 8 --head-budget one.csv"},
        {2, "nor is there a file of that name", "generate -m tiny.h5 -p a --budget 8 --head-budget no-such.csv"},
        {2, "did you mean 'adaptive'?", "generate -m tiny.h5 -p a --budget 8 --head-budget adaptiv"},
        {2, "needs a budget", "generate -m tiny.h5 -p a --head-budget heads.csv"},
        {2, "'--save-cache' and '--head-budget' are both",
         "generate -m tiny.h5 -p a --budget 8 --head-budget heads.csv --save-cache heads.csv"},
        {3, "'minus.csv', line 3", "generate --policy snapkv --head-budget minus.csv --help"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        program_refuses(1, cases[i].code, cases[i].part, cases[i].line);
        if (i % 4 == 0) program_refuses(2, cases[i].code, cases[i].part, cases[i].line);
    }
}
END_TEST

START_TEST(test_ranks_with_different_weights_are_told_apart)
{
    program_result r = {0};
    program_run(&r, 1,
                BY_HAND
                "cd here; " MPIEXEC " -n 1 " LONGHAUL
                " generate -m ../tiny.h5 -p a --budget 8 --head-budget heads.csv : -wdir ../there -n 1 " LONGHAUL
                " generate -m ../tiny.h5 -p a --budget 8 --head-budget heads.csv");
    program_exits(&r, 2);
    program_says(&r, "the files of '--layer-budget' and '--head-budget' of rank 1");
    program_run(&r, 1,
                BY_HAND
                "cd here; " MPIEXEC " -n 1 " LONGHAUL
                " generate -m ../tiny.h5 -p a --budget 8 --head-budget heads.csv : -wdir ../nothing -n 1 " LONGHAUL
                " generate -m ../tiny.h5 -p a --budget 8 --head-budget heads.csv");
    program_exits(&r, 2);
    program_says(&r, "nor is there a file of that name");
    program_clear(&r);
}
END_TEST

/* What a run says of its cache; the text that it generates. */
static json_t *result_of(int ranks, const char *line)
{
    program_result r = {0};
    program_run(&r, ranks, "%s", line);
    program_exits(&r, 0);
    json_t *o = json_loads(r.out.data, 0, NULL);
    ck_assert_ptr_nonnull(o);
    program_clear(&r);
    return o;
}

static int64_t kept_by(const json_t *o)
{
    return json_integer_value(json_object_get(json_object_get(o, "kv"), "model_entries_kept"));
}

START_TEST(test_weights_say_what_is_kept)
{
    json_t *o = result_of(1, RUN "--layer-budget layers.csv --head-budget heads.csv");
    ck_assert_int_eq(kept_by(o), 3 * 2 * 16);
    const char *said = json_string_value(json_object_get(json_object_get(o, "policy"), "head-budget"));
    ck_assert(said && strncmp(said, "profile:", 8) == 0);
    json_t *two = result_of(2, RUN "--layer-budget layers.csv --head-budget heads.csv");
    ck_assert(json_equal(json_object_get(o, "token_ids"), json_object_get(two, "token_ids")));
    ck_assert(json_equal(json_object_get(o, "policy"), json_object_get(two, "policy")));
    json_decref(two);
    json_decref(o);
    program_result r = {0};
    o = result_of(1, "plan -m tiny.h5 --context 2000 --budget 16 --layer-budget layers.csv --json");
    json_t *budgets = json_object_get(o, "layer_budgets");
    ck_assert_int_eq(json_integer_value(json_array_get(budgets, 0)), 8);
    ck_assert_int_eq(json_integer_value(json_array_get(budgets, 1)), 16);
    ck_assert_int_eq(json_integer_value(json_array_get(budgets, 2)), 24);
    ck_assert_int_eq(json_integer_value(json_object_get(o, "entries_kept")), 3 * 2 * 16);
    json_decref(o);
    program_run(&r, 1, "plan -m tiny.h5 --context 2000 --budget 16 --layer-budget layers.csv");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.out.data, "kept after the prompt, 8 to 24 a head by layer"));
    program_run(&r, 1, "generate --policy snapkv --layer-budget layers.csv --help");
    program_exits(&r, 0);
    ck_assert_ptr_nonnull(strstr(r.out.data, "by the weights of a file"));
    program_clear(&r);
}
END_TEST

START_TEST(test_a_cache_goes_on_without_its_files)
{
    json_t *whole = result_of(1, RUN "--layer-budget layers.csv --head-budget heads.csv");
    json_t *saving = result_of(2, RUN "--layer-budget layers.csv --head-budget heads.csv --save-cache c.h5");
    program_result r = {0};
    program_run(&r, 1, "--version > v && mkdir -p away && mv c.h5 away");
    json_t *loaded =
        result_of(1, "generate -m tiny.h5 --load-cache away/c.h5 -n 6 --ignore-eos --json -q --deterministic");
    ck_assert(json_equal(json_object_get(whole, "token_ids"), json_object_get(saving, "token_ids")));
    ck_assert(json_equal(json_object_get(whole, "token_ids"), json_object_get(loaded, "token_ids")));
    ck_assert(json_equal(json_object_get(whole, "policy"), json_object_get(loaded, "policy")));
    json_decref(whole);
    json_decref(saving);
    json_decref(loaded);
    program_run(&r, 1, "info away/c.h5");
    program_exits(&r, 0);
    ck_assert_msg(strstr(r.out.data, "layer-budget: layers.csv"), "%s", r.out.data);
    program_clear(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_bad_files_of_weights_are_named, test_ranks_with_different_weights_are_told_apart,
                                  test_weights_say_what_is_kept, test_a_cache_goes_on_without_its_files, NULL};
    static const char heads[] = "layer,head,weight\n0,0,1\n0,1,3\n1,0,0\n1,1,1\n2,0,7\n2,1,7\n";
    program_result r = {0};
    program_enter();
    tiny_write("tiny");
    program_file("prompt", "It was the best of times, it was the worst of times, it was the age of wisdom");
    program_file("empty", "");
    program_file("layers.csv", "layer,weight # more and more\n0,0.5\n1,1\n2,1.5\n");
    program_file("heads.csv", heads);
    program_file("twice.csv", "layer,weight\n0,1\n1,1\n1,1\n");
    program_file("minus.csv", "layer,head,weight\n0,0,1\n0,1,-1\n");
    program_file("four.csv", "layer,weight\n0,1\n1,1\n2,1\n3,1\n");
    program_file("one.csv", "layer,head,weight\n0,0,1\n1,0,1\n2,0,1\n");
    program_run(&r, 1, "import tiny -o tiny.h5 -q && mkdir here there nothing");
    program_file("here/heads.csv", heads);
    program_file("there/heads.csv", "layer,head,weight\n0,0,1\n0,1,3\n1,0,0\n1,1,1\n2,0,7\n2,1,8\n");
    int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    if (code == 0) code = suite_run("cli profiles", tests);
    program_leave();
    return code;
}
