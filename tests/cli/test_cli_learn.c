#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/same_files.h"
#include "cli/tiny_suite.h"

/* `learn`, and runs with its weights. The tiny model has 2 KV heads: on 3 and 4 ranks they are split. */
#define LEARN "learn -m tiny.h5 long --length 256 --count 2 --deterministic -q "
#define LINEAR "--policy 'snapkv --statistic linear --sinks 2' --budget 60 "
#define REFIT                                                                                                        \
    "--policy 'snapkv --statistic linear --sinks 2 --layer-budget learnt --refit both --evict every:3' --budget 60 " \
    "--save-cache kept%d.h5 "
#define GENERATE "generate -m tiny.h5 --chat=off -f text -n 8 --ignore-eos --deterministic -q "

static void write_texts(void)
{
    lh_buf text = {0};
    tiny_sentences(&text);
    program_file("long", text.data);
    lh_buf_clear(&text);
}

/* The hash of a file's weights. */
static void hash_of(const char *path, char out[17])
{
    program_result r = {0};
    program_run(&r, 1, "info %s --json", path);
    program_exits(&r, 0);
    const char *at = strstr(r.out.data, "\"/weights\""), *hash = at ? strstr(at, "\"xxh64\"") : NULL;
    ck_assert_msg(hash &&
                      sscanf(hash, "\"xxh64\": \"%16[0-9a-f]", out) + sscanf(hash, "\"xxh64\":\"%16[0-9a-f]", out) > 0,
                  "%s", r.out.data);
    program_clear(&r);
}

START_TEST(test_any_number_of_ranks_learns_the_same_weights_and_keeps_the_same_entries_by_them)
{
    program_result r = {0}, alone = {0};
    char first[17] = "", hash[17] = "";
    write_texts();
    for (int ranks = 1; ranks <= 4; ranks++) {
        program_run(&r, ranks, LEARN "-o w%d.h5", ranks);
        program_exits(&r, 0);
        ck_assert_msg(strstr(r.out.data, "from 2 prompts, 512 tokens") != NULL, "%s", r.out.data);
        char path[16];
        snprintf(path, sizeof path, "w%d.h5", ranks);
        hash_of(path, ranks == 1 ? first : hash);
        if (ranks > 1) ck_assert_str_eq(hash, first);
        program_run(ranks == 1 ? &alone : &r, ranks, GENERATE REFIT "--score-weights w1.h5", ranks);
        program_exits(ranks == 1 ? &alone : &r, 0);
        if (ranks == 1) continue;
        ck_assert_str_eq(r.out.data, alone.out.data);
        snprintf(path, sizeof path, "kept%d.h5", ranks);
        same_files("cache", "kept1.h5", path);
    }
    program_run(&r, 1, "verify w1.h5");
    program_exits(&r, 0);
    program_clear(&r);
    program_clear(&alone);
}
END_TEST

/* The tiny model's, and the rows whose queries count. */
enum { LAYERS = 3, HEADS = 4, KV_HEADS = 2, GROUP = HEADS / KV_HEADS, TOKENS = 256, SINKS = 4 };

/* An array of floats; *n: how many. */
static float *floats_of(lh_h5 *h5, const char *name, int rank, int64_t *n)
{
    float *data = NULL;
    lh_h5_shape shape, want = {.type = LH_F32, .rank = rank};
    for (int i = 0; i < rank; i++) want.dims[i] = -1;
    ck_assert_msg(lh_h5_get(h5, name, &want, &shape, &data) == LH_OK, "%s", lh_error_message());
    *n = lh_h5_shape_count(&shape);
    return data;
}

/* The channel of a recorded query, [dim], without its rotation. */
static double before_rotation(const float *q, const float *frequencies, int64_t dim, int64_t position, int64_t channel)
{
    const int64_t half = dim / 2, i = channel % half;
    const double angle = (double)position * (double)frequencies[i], low = (double)q[i], high = (double)q[i + half];
    return channel < half ? low * cos(angle) + high * sin(angle) : high * cos(angle) - low * sin(angle);
}

/* queries: [TOKENS, HEADS, dim], rotated; means: [2, dim] of a KV head, and deviations. */
static void check_moments(const float *queries, const float *frequencies, const float *means, int64_t dim, int64_t g)
{
    const double rows = (double)(TOKENS - SINKS) * GROUP;
    for (int64_t c = 0; c < dim; c++) {
        double sum = 0, squares = 0;
        for (int64_t t = SINKS; t < TOKENS; t++)
            for (int64_t h = g * GROUP; h < (g + 1) * GROUP; h++) {
                const double x = before_rotation(queries + (t * HEADS + h) * dim, frequencies, dim, t, c);
                sum += x;
                squares += x * x;
            }
        const double mean = sum / rows, deviation = sqrt(squares / rows - mean * mean);
        ck_assert_double_gt(deviation, 1e-3);
        ck_assert_double_eq_tol((double)means[c], mean, 1e-4 * deviation);
        ck_assert_double_eq_tol((double)means[dim + c], deviation, 1e-4 * deviation);
    }
}

/* By the queries that a trace of the same tokens has recorded. */
START_TEST(test_means_and_deviations_of_queries_are_those_of_the_prompt)
{
    program_result r = {0};
    write_texts();
    program_run(&r, 1,
                "--version > version; head -c %d long > prompt; " LONGHAUL
                " learn -m tiny.h5 prompt --length %d --count 1 -q -o moments.h5 && " LONGHAUL
                " trace -m tiny.h5 --chat=off -f prompt -n 1 --trace-level full --trace-window %d -q -o t.h5",
                TOKENS, TOKENS, TOKENS);
    program_exits(&r, 0);
    lh_h5 *trace = same_files_open("trace", "t.h5"), *learnt = same_files_open("score-weights", "moments.h5");
    int64_t n, all;
    float *weights = floats_of(learnt, "/weights", 3, &all);
    for (int64_t l = 0; l < LAYERS; l++) {
        char name[64];
        snprintf(name, sizeof name, "/layers/%03d/prefill/queries", (int)l);
        float *queries = floats_of(trace, name, 3, &n);
        const int64_t dim = n / (TOKENS * HEADS), numbers = all / (LAYERS * KV_HEADS);
        ck_assert_int_eq(n, TOKENS * HEADS * dim);
        snprintf(name, sizeof name, "/layers/%03d/rotation/frequencies", (int)l);
        float *frequencies = floats_of(trace, name, 1, &n);
        ck_assert_int_eq(n, dim / 2);
        for (int64_t g = 0; g < KV_HEADS; g++)
            check_moments(queries, frequencies, weights + (l * KV_HEADS + g) * numbers + 4 * dim + 3, dim, g);
        lh_free(queries);
        lh_free(frequencies);
    }
    lh_free(weights);
    lh_h5_close(trace);
    lh_h5_close(learnt);
    program_clear(&r);
}
END_TEST

START_TEST(test_weights_beside_the_model_need_no_option)
{
    static const char learnt[] = "--policy learnt --budget 60 ";
    program_result r = {0}, named = {0};
    write_texts();
    program_refuses(1, 2, "there are none for this one: make them with 'longhaul learn'", GENERATE LINEAR);
    program_run(&r, 1, LEARN);
    program_exits(&r, 0);
    ck_assert_msg(strncmp(r.out.data, "tiny.scores.h5: ", 16) == 0, "%s", r.out.data);
    program_run(&r, 1, GENERATE "%s", learnt);
    program_exits(&r, 0);
    program_run(&named, 1, "--version > v; mv tiny.scores.h5 named.h5");
    program_run(&named, 1, GENERATE "%s --score-weights named.h5", learnt);
    program_exits(&named, 0);
    ck_assert_str_eq(named.out.data, r.out.data);
    program_clear(&r);
    program_clear(&named);
}
END_TEST

/* The name of the policy of a plan, and a message of it, or NULL. */
static void is_planned(const char *options, const char *policy, const char *said)
{
    program_result r = {0};
    program_run(&r, 1, "plan --context 200 --budget 60 --json -q %s", options);
    program_exits(&r, 0);
    json_t *o = json_loads(r.out.data, 0, NULL);
    const json_t *name = json_object_get(json_object_get(o, "policy"), "name");
    ck_assert_msg(name && strcmp(json_string_value(name), policy) == 0, "%s: not %s in %s", options, policy,
                  r.out.data);
    ck_assert_msg(said ? strstr(r.err.data, said) != NULL : !r.err.data[0], "%s: %s", options, r.err.data);
    json_decref(o);
    program_clear(&r);
}

START_TEST(test_questions_to_come_have_the_learnt_scores_of_a_model_that_has_some)
{
    program_result r = {0}, named = {0};
    write_texts();
    is_planned("-m tiny.h5 --question 5", "ask-later", NULL);
    program_run(&r, 1, LEARN);
    program_exits(&r, 0);
    is_planned("-m tiny.h5 --question 5", "learnt", NULL);
    is_planned("-m tiny.h5", "longhaul", NULL);
    is_planned("-m tiny.h5 --question 5 --sinks 8", "ask-later", NULL); /* a part of it is given */
    is_planned("-m tiny.h5 --question 5 --policy ask-later", "ask-later", NULL);
    program_run(&r, 1, "import tiny -o other.h5 --dtype bf16 -q; cp tiny.scores.h5 other.scores.h5");
    is_planned("-m other.h5 --question 5", "ask-later", "was learnt from other weights than this model has");
    is_planned("-m other.h5 --question 5 --score-weights tiny.scores.h5", "learnt", "were learnt from other weights");
    program_run(&named, 1, GENERATE "--budget 64K --question b --policy learnt");
    program_exits(&named, 0);
    for (int ranks = 1; ranks <= 3; ranks += 2) {
        program_run(&r, ranks, GENERATE "--budget 64K --question b");
        program_exits(&r, 0);
        ck_assert_str_eq(r.out.data, named.out.data);
    }
    program_run(&r, 1,
                "eval needle -m tiny.h5 --haystack long --length 200 --depth 0.5 -n 2 --budget 60 --scenario "
                "context-only --json");
    program_exits(&r, 0);
    ck_assert_msg(strstr(r.err.data, "policy: learnt (the default with a budget for questions that come later; '"),
                  "%s", r.err.data);
    ck_assert_msg(strstr(r.out.data, "\"learnt\""), "%s", r.out.data);
    program_run(&r, 1, "--version > v; rm tiny.scores.h5 other.scores.h5");
    program_clear(&r);
    program_clear(&named);
}
END_TEST

START_TEST(test_a_saved_cache_goes_on_with_its_own_weights_alone)
{
    static const char go_on[] = "generate -m tiny.h5 --load-cache c.h5 --chat=off -p a -n 8 --ignore-eos -q ";
    program_result r = {0};
    char line[256];
    write_texts();
    program_run(&r, 1, LEARN "-o w1.h5");
    program_exits(&r, 0);
    program_run(&r, 1, "learn -m tiny.h5 long --length 256 --count 1 -q -o w2.h5");
    program_exits(&r, 0);
    program_run(&r, 1,
                GENERATE "--policy 'snapkv --statistic linear --evict every:4' --budget 60 --score-weights w1.h5 "
                         "--save-cache c.h5");
    program_exits(&r, 0);
    program_run(&r, 2, "%s--score-weights w1.h5", go_on);
    program_exits(&r, 0);
    program_refuses(1, 2, "there are none for this one", go_on);
    snprintf(line, sizeof line, "%s--score-weights w2.h5", go_on);
    program_refuses(1, 3, "with other score weights", line);
    program_clear(&r);
}
END_TEST

START_TEST(test_damaged_weights_beside_the_model_are_warned_of)
{
    program_result r = {0};
    write_texts();
    program_file("tiny.scores.h5", "no HDF5");
    program_run(&r, 1, GENERATE);
    program_exits(&r, 0);
    ck_assert_msg(strstr(r.err.data, "'tiny.scores.h5'") && strstr(r.err.data, "are not used"), "%s", r.err.data);
    program_run(&r, 1, "--version > v; rm tiny.scores.h5");
    program_clear(&r);
}
END_TEST

START_TEST(test_what_cannot_be_learnt_or_used_is_named)
{
    write_texts();
    program_refuses(1, 2, "nothing to learn from", "learn -m tiny.h5");
    program_refuses(1, 3, "'--length'", "learn -m tiny.h5 text -o w.h5 --length 4096");
    program_refuses(1, 2, "with '--target full'", "learn -m tiny.h5 long --target full -o w.h5");
    program_refuses(1, 2, "name one with '--output'", "learn -m random:tiny long");
    program_refuses(1, 2, "'--statistic rms' alone, of rows that are observed",
                    GENERATE "--policy 'snapkv --learnt' --budget 60");
    program_refuses(1, 4, "'tiny.h5' is a checkpoint", GENERATE LINEAR "--score-weights tiny.h5");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_any_number_of_ranks_learns_the_same_weights_and_keeps_the_same_entries_by_them,
                                  test_means_and_deviations_of_queries_are_those_of_the_prompt,
                                  test_weights_beside_the_model_need_no_option,
                                  test_questions_to_come_have_the_learnt_scores_of_a_model_that_has_some,
                                  test_a_saved_cache_goes_on_with_its_own_weights_alone,
                                  test_damaged_weights_beside_the_model_are_warned_of,
                                  test_what_cannot_be_learnt_or_used_is_named,
                                  NULL};
    return tiny_suite_run("learn", tests);
}
