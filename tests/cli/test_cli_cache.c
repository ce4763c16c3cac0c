#include <check.h>
#include <hdf5.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/program.h"
#include "cli/tiny.h"
#include "suite.h"

static json_t *generate(int ranks, const char *options)
{
    program_result r = {0};
    program_run(&r, ranks, "generate -m tiny.h5 --chat=off --json --deterministic --ignore-eos -n 12 %s", options);
    program_exits(&r, 0);
    json_t *object = json_loads(r.out.data, 0, NULL);
    ck_assert_ptr_nonnull(object);
    program_clear(&r);
    return object;
}

static void same_ids(const json_t *a, const json_t *b)
{
    ck_assert(json_equal(json_object_get(a, "token_ids"), json_object_get(b, "token_ids")));
}

START_TEST(test_a_cache_goes_on_where_it_was_saved_on_any_number_of_ranks)
{
    static const char *const policies[] = {"", "--policy streaming --budget 30", "--budget 30"};
    char options[160];
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        snprintf(options, sizeof options, "-f prompt --question 'What now?' %s --save-cache c.h5", policies[p]);
        json_t *direct = generate(2, options);
        for (int ranks = 1; ranks <= 3; ranks++) {
            json_t *later = generate(ranks, "--load-cache c.h5 --question 'What now?'");
            same_ids(direct, later);
            ck_assert(json_equal(json_object_get(direct, "policy"), json_object_get(later, "policy")));
            json_decref(later);
        }
        json_decref(direct);
    }
}
END_TEST

START_TEST(test_a_loaded_cache_takes_more_prompt)
{
    json_t *a = generate(1, "-f prompt --save-cache c.h5");
    json_t *b = generate(1, "--load-cache c.h5 --prompt ' And then?'");
    json_t *c = generate(1, "--load-cache c.h5 --prompt-tokens more");
    same_ids(b, c);
    json_decref(a);
    json_decref(b);
    json_decref(c);
}
END_TEST

START_TEST(test_a_loaded_cache_may_just_go_on)
{
    json_t *direct = generate(2, "-f prompt --budget 30 --save-cache c.h5");
    for (int ranks = 1; ranks <= 3; ranks++) {
        json_t *later = generate(ranks, "--load-cache c.h5");
        same_ids(direct, later);
        json_decref(later);
    }
    json_decref(direct);
}
END_TEST

START_TEST(test_caches_that_do_not_fit_are_refused)
{
    program_result r = {0};
    json_t *a = generate(1, "-f prompt --save-cache c.h5");
    json_decref(a);
    program_run(&r, 1, "generate -m other.h5 --load-cache c.h5 --question a");
    program_exits(&r, 4);
    program_says(&r, "c.h5");
    program_run(&r, 2, "generate -m tiny.h5 --load-cache no-such.h5 --question a");
    program_exits(&r, 4);
    program_says(&r, "no-such.h5");
    program_run(&r, 2, "generate -m tiny.h5 --load-cache tiny.h5 --question a");
    program_exits(&r, 4);
    program_says(&r, "tiny.h5");
    program_run(&r, 1, "info c.h5 && head -c 3000 c.h5 > torn.h5");
    program_exits(&r, 0);
    program_run(&r, 2, "generate -m tiny.h5 --load-cache torn.h5 --question a");
    program_exits(&r, 4);
    program_says(&r, "torn.h5");
    program_clear(&r);
}
END_TEST

/* ---- biases ---- */

static int64_t numbers(hid_t file, const char *name, hid_t type, void *out, hsize_t most)
{
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(set);
    hssize_t n = H5Sget_simple_extent_npoints(space);
    ck_assert(n >= 0 && (hsize_t)n <= most);
    ck_assert_int_ge(H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out), 0);
    H5Sclose(space), H5Dclose(set);
    return n;
}

/* Give all layers of a cache biases: `value` for positions in [from, to), 0 for the others. */
static void add_biases(const char *path, int from, int to, float value)
{
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    ck_assert_int_ge(file, 0);
    ck_assert_int_ge(H5Adelete(file, "attributes_xxh64"), 0);
    for (int l = 0; l < 3; l++) {
        int positions[1024];
        float biases[1024];
        char name[64];
        snprintf(name, sizeof name, "/layers/%03d/positions", l);
        hsize_t n = (hsize_t)numbers(file, name, H5T_NATIVE_INT, positions, 1024);
        for (hsize_t i = 0; i < n; i++) biases[i] = positions[i] >= from && positions[i] < to ? value : 0;
        snprintf(name, sizeof name, "/layers/%03d/bias", l);
        hid_t space = H5Screate_simple(1, &n, NULL);
        hid_t set = H5Dcreate2(file, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        ck_assert_int_ge(H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, biases), 0);
        H5Dclose(set), H5Sclose(space);
    }
    H5Fclose(file);
}

/* The answer to a question from a cache, and its logits. */
typedef struct answer {
    json_t *said;
    float logits[8192];
    int64_t n;
} answer;

static void ask(answer *a, int ranks, const char *cache)
{
    char options[160];
    snprintf(options, sizeof options, "--kv-dtype f32 --load-cache %s --question 'What now?' --logits l.h5", cache);
    a->said = generate(ranks, options);
    hid_t file = H5Fopen("l.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
    ck_assert_int_ge(file, 0);
    a->n = numbers(file, "/logits", H5T_NATIVE_FLOAT, a->logits, 8192);
    H5Fclose(file);
}

/* The answers of two caches, on so many ranks; their logits to within `tolerance`. */
static void answers_agree(const char *cache, int ranks, const char *other, int other_ranks, double tolerance)
{
    static answer a, b;
    ask(&a, ranks, cache);
    ask(&b, other_ranks, other);
    same_ids(a.said, b.said);
    ck_assert(a.n == b.n && a.n > 0);
    for (int64_t i = 0; i < a.n; i++)
        ck_assert_msg(fabs((double)a.logits[i] - (double)b.logits[i]) <= tolerance, "%d ranks: logit %d is %g and %g",
                      ranks, (int)i, (double)a.logits[i], (double)b.logits[i]);
    json_decref(a.said);
    json_decref(b.said);
}

START_TEST(test_biases_of_zero_change_no_bit_of_an_answer)
{
    program_result r = {0};
    json_decref(generate(2, "-f prompt --policy longhaul --budget 30 --window 8 --kv-dtype f32 --save-cache c.h5"));
    program_run(&r, 1, "verify c.h5 && cp c.h5 zero.h5");
    program_exits(&r, 0);
    add_biases("zero.h5", 0, 0, 0);
    program_run(&r, 1, "verify zero.h5");
    program_exits(&r, 0);
    for (int ranks = 1; ranks <= 3; ranks += 2) answers_agree("zero.h5", ranks, "c.h5", ranks, 0);
    program_clear(&r);
}
END_TEST

/* 77 tokens, of which `streaming` keeps the first 4 and the last 26; logits are of the order of 1. */
START_TEST(test_biases_far_below_zero_are_an_eviction)
{
    program_result r = {0};
    json_decref(generate(3, "-f prompt --save-cache all.h5"));
    json_decref(
        generate(2, "-f prompt --policy streaming --evict never --budget 30 --kv-dtype f32 --save-cache kept.h5"));
    add_biases("all.h5", 4, 77 - 26, -1000);
    for (int ranks = 1; ranks <= 4; ranks++) answers_agree("all.h5", ranks, "kept.h5", 5 - ranks, 1e-4);
    program_run(&r, 1,
                "generate -m tiny.h5 --chat=off --load-cache all.h5 -p 'And then?' -n 2 --save-cache more.h5 -q");
    program_exits(&r, 0);
    float biases[1024];
    hid_t more = H5Fopen("more.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
    ck_assert_int_gt(numbers(more, "/layers/002/bias", H5T_NATIVE_FLOAT, biases, 1024), 2 * 77);
    ck_assert(biases[3] == 0 && biases[4] == -1000 && biases[77 - 26] == 0 && biases[77] == 0);
    H5Fclose(more);
    program_clear(&r);
}
END_TEST

START_TEST(test_a_bias_that_cannot_be_is_refused)
{
    program_result r = {0};
    json_decref(generate(1, "-f prompt --save-cache huge.h5"));
    add_biases("huge.h5", 5, 6, 4096);
    program_run(&r, 2, "generate -m tiny.h5 --load-cache huge.h5 --question a");
    program_exits(&r, 4);
    program_says(&r, "'huge.h5': 'bias' holds a value that is not finite or not below 2^10");
    program_run(&r, 1, "verify huge.h5");
    program_exits(&r, 4);
    program_says(&r, "'/layers/000/bias' of 'huge.h5' holds a bias that is not finite or not below 2^10, at entry 5");
    program_clear(&r);
}
END_TEST

/* Weights of layer 1, from number `first` on, become the largest that are read. */
static void enlarge_weights(hid_t file, const char *name, int first)
{
    float weights[8192];
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT);
    const int64_t n = numbers(file, name, H5T_NATIVE_FLOAT, weights, 8192);
    for (int64_t i = first < 0 ? n + first : first; i < n; i++) weights[i] = 0x1p63f;
    ck_assert_int_ge(H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, weights), 0);
    H5Dclose(set);
}

/* Of one head, of the last rank: every rank leaves, and the message names the layer. */
START_TEST(test_attention_that_is_not_finite_is_named)
{
    static const char *const policies[] = {"snapkv --window 8", "h2o", "longhaul --window 8", "layer-defensive"};
    program_result r = {0};
    program_run(&r, 1, "--version && cp tiny.h5 bad.h5");
    program_exits(&r, 0);
    hid_t file = H5Fopen("bad.h5", H5F_ACC_RDWR, H5P_DEFAULT);
    ck_assert_int_ge(file, 0);
    enlarge_weights(file, "/weights/layers/001/attn_norm", 0);
    enlarge_weights(file, "/weights/layers/001/q", -32);
    H5Fclose(file);
    for (int p = 0; p < 4; p++)
        for (int turn = 0; turn < 2; turn++) {
            program_run(&r, turn ? 4 - p : p + 1,
                        "generate -m bad.h5 --chat=off -f prompt -n 2 --budget 40 --policy %s", policies[p]);
            program_exits(&r, 4);
            program_says(&r, "layer 1: the attention of the query heads is not finite");
        }
    program_clear(&r);
}
END_TEST

/* Replace the logits of a cache by none. The seal over all attributes goes, too: those of the logits are part of it. */
static void drop_logits(const char *path)
{
    hsize_t none = 0;
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT), space = H5Screate_simple(1, &none, NULL);
    ck_assert_int_ge(file, 0);
    ck_assert_int_ge(H5Ldelete(file, "/logits", H5P_DEFAULT), 0);
    hid_t set = H5Dcreate2(file, "/logits", H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    ck_assert_int_ge(set, 0);
    ck_assert_int_ge(H5Adelete(file, "attributes_xxh64"), 0);
    H5Dclose(set), H5Sclose(space), H5Fclose(file);
}

START_TEST(test_a_cache_without_logits_is_named)
{
    program_result r = {0};
    json_decref(generate(1, "-f prompt --save-cache empty.h5"));
    drop_logits("empty.h5");
    program_run(&r, 2, "generate -m tiny.h5 --load-cache empty.h5 --question a");
    program_exits(&r, 4);
    program_says(&r, "'empty.h5' holds 0 logits of the last token, the model has ");
    program_clear(&r);
}
END_TEST

START_TEST(test_a_cache_that_cannot_be_written_is_said_before_the_work)
{
    program_result r = {0};
    program_run(&r, 2, "generate -m tiny.h5 -f prompt --save-cache no/such/c.h5");
    program_exits(&r, 6);
    program_says(&r, "no/such/c.h5");
    program_clear(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_a_cache_goes_on_where_it_was_saved_on_any_number_of_ranks,
                                  test_a_loaded_cache_takes_more_prompt,
                                  test_a_loaded_cache_may_just_go_on,
                                  test_caches_that_do_not_fit_are_refused,
                                  test_biases_of_zero_change_no_bit_of_an_answer,
                                  test_biases_far_below_zero_are_an_eviction,
                                  test_a_bias_that_cannot_be_is_refused,
                                  test_attention_that_is_not_finite_is_named,
                                  test_a_cache_without_logits_is_named,
                                  test_a_cache_that_cannot_be_written_is_said_before_the_work,
                                  NULL};
    program_enter();
    tiny_write("tiny");
    program_file("prompt", "It was the best of times, it was the worst of times, it was the age of wisdom");
    program_file("more", "32 65 110 100 32 116 104 101 110 63");
    program_result r = {0};
    program_run(&r, 1, "import tiny -o tiny.h5 -q && " LONGHAUL " import tiny --dtype bf16 -o other.h5 -q");
    int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    if (code == 0) code = suite_run("cli cache", tests);
    program_leave();
    return code;
}
