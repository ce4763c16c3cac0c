#include <check.h>
#include <hdf5.h>
#include <jansson.h>
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
    static const char *const policies[] = {"", "--policy streaming --budget 30", "--budget 30 --window 8"};
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
    json_t *direct = generate(2, "-f prompt --budget 30 --window 8 --save-cache c.h5");
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
