/* Perplexity after an evicted context: what it must be by its definition, the same on any number of ranks, and what
 * transformers computes for small models of other makers (golden/families of the folder LONGHAUL_TEST_DATA; without it
 * that test says so and passes). */
#include <check.h>
#include <hdf5.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/program.h"
#include "cli/tiny.h"
#include "suite.h"

#define PPL "eval ppl -m tiny.h5 --text hay -q "

static json_t *eval(int ranks, const char *options)
{
    program_result r = {0};
    json_error_t error;
    program_run(&r, ranks, "%s --json", options);
    program_exits(&r, 0);
    json_t *object = json_loads(r.out.data, 0, &error);
    ck_assert_msg(object != NULL, "no JSON: %s\n%s", error.text, r.out.data);
    program_clear(&r);
    return object;
}

static double value(const json_t *row, const char *name)
{
    const json_t *v = json_object_get(row, name);
    ck_assert_msg(json_is_number(v), "'%s' is no number", name);
    return json_number_value(v);
}

/* A number in row i of a table. */
static double at(const json_t *object, const char *table, size_t i, const char *name)
{
    return value(json_array_get(json_object_get(object, table), i), name);
}

/* The sum over the tokens after a context. */
static double nll_after(int context, int score)
{
    char line[128];
    snprintf(line, sizeof line, PPL "--policy full --count 1 --context %d --score %d", context, score);
    json_t *o = eval(1, line);
    const double nll = at(o, "means", 0, "nll") * score;
    ck_assert_double_eq_tol(at(o, "means", 0, "ppl"), exp(nll / score), 1e-6 * exp(nll / score));
    json_decref(o);
    return nll;
}

/* p(a, b | context) = p(a | context) p(b | context, a), also where a spans blocks. */
START_TEST(test_the_likelihood_of_a_text_is_that_of_its_parts)
{
    const double whole = nll_after(90, 150), parts = nll_after(90, 100) + nll_after(190, 50);
    ck_assert_msg(fabs(whole - parts) < 1e-5 * whole, "%.9g, not %.9g", parts, whole);
}
END_TEST

START_TEST(test_results_are_the_same_bytes_on_any_number_of_ranks)
{
    static const char options[] =
        PPL "--context 60,120 --score 40 --count 3 --deterministic --csv means.csv --answers windows.csv --policy "
            "'snapkv --window 8,ada-snapkv --window 8,streaming,h2o --evict every:4,snapkv --window 8 --evict "
            "block:16,random' --budget 30";
    program_result one = {0}, more = {0};
    program_run(&one, 1, "%s && cat means.csv windows.csv", options);
    program_exits(&one, 0);
    ck_assert_int_eq(program_lines(one.out.data, "Context of "), 2);
    for (int ranks = 2; ranks <= 4; ranks++) {
        program_run(&more, ranks, "%s && cat means.csv windows.csv", options);
        program_exits(&more, 0);
        ck_assert_str_eq(one.out.data, more.out.data);
    }
    program_clear(&one);
    program_clear(&more);
}
END_TEST

/* In blocks or token by token, at its end or while decoding. */
START_TEST(test_a_cache_that_loses_nothing_is_as_sure_as_the_full_one)
{
    json_t *o = eval(1, PPL "--context 100 --score 70 --count 2 --policy 'h2o,h2o --evict every:2' --budget 4000 "
                            "--kv-dtype f32");
    for (size_t i = 1; i < 3; i++) {
        const double excess = at(o, "means", i, "over_full");
        ck_assert_msg(fabs(excess) < 1e-5, "%.9g", excess); /* f32 sums in another order */
    }
    json_decref(o);
}
END_TEST

START_TEST(test_the_curve_has_the_mean_of_the_windows)
{
    enum { BINS = 7, SCORE = 40, WINDOWS = 3 };
    json_t *o = eval(2, PPL "--context 60 --score 40 --count 3 --bins 7 --policy h2o --budget 20");
    ck_assert_uint_eq(json_array_size(json_object_get(o, "curve")), 2 * BINS);
    for (size_t p = 0; p < 2; p++) {
        double sum = 0, tokens = 0;
        for (size_t b = 0; b < BINS; b++) {
            ck_assert_double_eq(at(o, "curve", p * BINS + b, "from"), (double)(SCORE * b / BINS));
            const double n = at(o, "curve", p * BINS + b, "tokens");
            sum += at(o, "curve", p * BINS + b, "nll") * n;
            tokens += n;
        }
        ck_assert_double_eq(tokens, SCORE * WINDOWS);
        ck_assert_double_eq_tol(sum / tokens, at(o, "means", p, "nll"), 1e-6);
    }
    /* the prefill predicts the first token */
    json_t *first = eval(1, PPL "--context 60 --score 40 --count 3 --bins 40 --policy h2o --budget 20");
    ck_assert_double_eq(at(first, "curve", 0, "nll"), at(first, "curve", 40, "nll"));
    json_decref(first);
    json_decref(o);
}
END_TEST

START_TEST(test_windows_slide_and_contexts_end_at_the_same_token)
{
    json_t *o = eval(1, PPL "--context 60,90 --score 25 --stride 25 --count 0 --policy full");
    const size_t rows = json_array_size(json_object_get(o, "windows")), n = rows / 2;
    ck_assert_uint_gt(n, 10);
    for (size_t i = 0; i < n; i++) {
        ck_assert_double_eq(at(o, "windows", i, "at"), 90 + 25.0 * (double)i);
        ck_assert_double_eq(at(o, "windows", n + i, "at"), 90 + 25.0 * (double)i);
        ck_assert_double_eq(at(o, "windows", i, "context"), 60);
        ck_assert_double_eq(at(o, "windows", n + i, "context"), 90);
    }
    json_decref(o);
    o = eval(1, PPL "--context 60 --score 25 --count 3 --policy full"); /* apart, and spread over the text */
    ck_assert_double_ge(at(o, "windows", 1, "at") - at(o, "windows", 0, "at"), 85);
    ck_assert_double_ge(at(o, "windows", 2, "at") - at(o, "windows", 1, "at"), 85);
    json_decref(o);
}
END_TEST

START_TEST(test_what_cannot_be_scored_is_said)
{
    static const struct {
        const char *line, *says;
        int code;
    } cases[] = {
        {"eval ppl -m tiny.h5", "needs '--text FILE|FOLDER'", 2},
        {PPL "--context 0", "'--context' got '0'", 2},
        {PPL "--stride 100 --score 200", "'--stride 100' must be at least '--score', 200", 2},
        {PPL "--score 4 --bins 5", "'--bins 5' must be at most '--score', 4", 2},
        {PPL "--context 9000", "longer than the 4096 positions of the model", 2},
        {"eval ppl -m tiny.h5 --text passage --context 100 --score 90", "no text has 190 tokens", 3},
        {PPL "--context 60 --policy 'nacl --proxies question' --budget 40", "question", 2},
        {PPL "--context 60 --policy 'snapkv --evict block:50' --budget 40", "block", 2},
        {"eval ppl -m bare.h5 --text hay", "the model has no tokenizer", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        program_refuses(1, cases[i].code, cases[i].says, cases[i].line);
    program_refuses(3, 3, "no text has 190 tokens", "eval ppl -m tiny.h5 --text passage --context 100 --score 90");
}
END_TEST

/* One line each: bytes that are not UTF-8, and files of a folder that are no texts. */
START_TEST(test_what_is_no_text_is_named)
{
    program_result r = {0};
    program_run(&r, 1, "--version; mkdir l1 && sed 's/the/th\\xe9/g' hay > l1/HAY.TXT && touch l1/a.pdf l1/._HAY.TXT");
    program_run(&r, 1, "eval ppl -m tiny.h5 --text l1 -q --count 1 --context 60 --score 40");
    program_exits(&r, 0);
    ck_assert_msg(strstr(r.err.data, "'l1/HAY.TXT' is not UTF-8: byte "), "%s", r.err.data);
    ck_assert_msg(
        strstr(r.err.data,
               "'l1': 1 file is left out, texts are regular files '*.txt', '*.md' and '*.markdown': 'a.pdf'\n"),
        "%s", r.err.data);
    ck_assert_int_eq(program_lines(r.err.data, "longhaul: warning: "), 2);
    program_clear(&r);
}
END_TEST

/* Writes the text of a golden to NAME.txt; *tokens: of its run. The perplexity of every token but the first. */
static double read_golden(const char *path, const char *name, int *tokens)
{
    char file_name[64], text[4096] = "";
    hsize_t n = 0;
    double ppl = 0;
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), set = H5Dopen2(file, "/tokens", H5P_DEFAULT);
    hid_t space = H5Dget_space(set), of = H5Aopen(file, "ppl", H5P_DEFAULT);
    H5Sget_simple_extent_dims(space, &n, NULL);
    ck_assert_int_ge(H5Aread(of, H5T_NATIVE_DOUBLE, &ppl), 0);
    H5Sclose(space), H5Dclose(set), H5Aclose(of);
    set = H5Dopen2(file, "/text", H5P_DEFAULT);
    hid_t type = H5Dget_type(set);
    char *varying = NULL;
    const int fixed = !H5Tis_variable_str(type);
    ck_assert_uint_lt(H5Tget_size(type), sizeof text);
    ck_assert_int_ge(H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, fixed ? (void *)text : (void *)&varying), 0);
    H5Tclose(type), H5Dclose(set), H5Fclose(file);
    snprintf(file_name, sizeof file_name, "%s.txt", name);
    program_file(file_name, fixed ? text : varying);
    H5free_memory(varying);
    *tokens = (int)n;
    return ppl;
}

START_TEST(test_the_full_cache_has_the_perplexity_of_transformers)
{
    static const char *const families[] = {"qwen3", "gemma2", "mistral"};
    const char *given = getenv("LONGHAUL_TEST_DATA"), *data = given ? given : LH_TEST_DATA;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        char path[1024], line[512];
        int tokens;
        program_result r = {0};
        snprintf(path, sizeof path, "%s/golden/families/%s.h5", data, families[i]);
        if (access(path, R_OK) != 0) {
            printf("skipped: no '%s'\n", path);
            return;
        }
        const double expected = read_golden(path, families[i], &tokens);
        program_run(&r, 1, "import %s/golden/families/%s -o %s.h5 -q", data, families[i], families[i]);
        program_exits(&r, 0);
        snprintf(line, sizeof line,
                 "eval ppl -m %s.h5 --text %s.txt --dtype f32 --kv-dtype f32 --context 1 --score %d --policy full -q",
                 families[i], families[i], tokens - 1);
        json_t *o = eval(1 + (int)i % 2, line);
        const double got = at(o, "means", 0, "ppl");
        /* eager and other attention of transformers differ by 1e-5 in a logit */
        ck_assert_msg(fabs(got - expected) < 1e-5 * expected, "%s: %.9g, not %.9g", families[i], got, expected);
        json_decref(o);
        program_clear(&r);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_the_likelihood_of_a_text_is_that_of_its_parts,
                                  test_results_are_the_same_bytes_on_any_number_of_ranks,
                                  test_a_cache_that_loses_nothing_is_as_sure_as_the_full_one,
                                  test_the_curve_has_the_mean_of_the_windows,
                                  test_windows_slide_and_contexts_end_at_the_same_token,
                                  test_what_cannot_be_scored_is_said,
                                  test_what_is_no_text_is_named,
                                  test_the_full_cache_has_the_perplexity_of_transformers,
                                  NULL};
    lh_buf hay = {0};
    program_result r = {0};
    program_enter();
    tiny_write("tiny");
    tiny_sentences(&hay);
    program_file("hay", hay.data);
    hay.data[120] = '\0';
    program_file("passage", hay.data);
    lh_buf_clear(&hay);
    program_run(&r, 1,
                "import tiny -o tiny.h5 -q && cp -r tiny bare && rm bare/tokenizer* && " LONGHAUL
                " import bare -o bare.h5 -q");
    int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    if (code == 0) code = suite_run("cli ppl", tests);
    program_leave();
    return code;
}
