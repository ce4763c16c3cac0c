/* What a GPU is asked to do, by `bench run --count` on the emulated device: each number is at most what it is today, so
 * that whoever lowers one writes it here. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/program.h"
#include "suite.h"

/* What `longhaul bench <options> --count --json` prints. */
static json_t *count(int ranks, const char *options)
{
    program_result r = {0};
    json_error_t error;
    program_run(&r, ranks, "bench %s --count --json", options);
    program_exits(&r, 0);
    json_t *object = json_loads(r.out.data, 0, &error);
    ck_assert_msg(object != NULL, "no JSON: %s\n%s", error.text, r.out.data);
    program_clear(&r);
    return object;
}

static double figure(const json_t *object, const char *name, const char *shape)
{
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(object, "figures"), i, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "name")), name) == 0 &&
            strstr(json_string_value(json_object_get(row, "shape")), shape))
            return json_number_value(json_object_get(row, "value"));
    }
    ck_abort_msg("no figure '%s' of '%s'", name, shape);
    return 0;
}

typedef struct bound {
    const char *name, *shape;
    double most;
} bound;

/* ends with a bound without a name */
static void check(const json_t *object, const bound *bounds)
{
    for (const bound *b = bounds; b->name; b++) {
        double value = figure(object, b->name, b->shape);
        ck_assert_msg(value <= b->most, "%s, %s: %g, not %g", b->name, b->shape, value, b->most);
    }
}

#define RUN "run -m narrow.h5 -c 32 -n 3 "

static void check_run(int ranks, const char *options, const bound *bounds)
{
    json_t *o = count(ranks, options);
    check(o, bounds);
    json_decref(o);
}

START_TEST(test_a_full_cache_and_a_window_policy)
{
    static const bound bounds[] = {
        {"kernels of a layer of the prompt", "full", 10},
        {"copies of a layer of the prompt", "full", 3},
        {"waits of a layer of the prompt", "full", 1},
        {"bytes beside products and attention, of a token in a layer of the prompt", "full", 23190},
        {"waits of a decode step", "full", 1},
        {"kernels of a layer of the prompt", "snapkv", 26},
        {"copies of a layer of the prompt", "snapkv", 10},
        {"waits of a layer of the prompt", "snapkv", 1},
        {"kernels of a layer in a decode step", "snapkv", 6},
        {"waits of a decode step", "snapkv", 1},
        {0}};
    check_run(1, RUN "--policy snapkv --window 8 --budget 24", bounds);
}
END_TEST

/* The host waits once for the tokens of all. */
START_TEST(test_sequences_that_step_together)
{
    static const struct {
        int batch, kernels;
    } cases[] = {{2, 6}, {3, 8}, {16, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bound bounds[] = {{"kernels of a layer in a decode step", "full", cases[i].kernels},
                                {"waits of a decode step", "full", 1},
                                {0}};
        char options[128];
        snprintf(options, sizeof options, RUN "--batch %d", cases[i].batch);
        check_run(1, options, bounds);
    }
}
END_TEST

START_TEST(test_evictions_while_decoding)
{
    static const struct {
        const char *policy;
        int kernels;
    } cases[] = {{"h2o", 8}, {"roco", 10}, {"tova", 9}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bound bounds[] = {{"kernels of a layer in a decode step", cases[i].policy, cases[i].kernels},
                                {"waits of a layer of the prompt", cases[i].policy, 1},
                                {"waits of a decode step", cases[i].policy, 1},
                                {0}};
        char options[128];
        snprintf(options, sizeof options, RUN "--policy %s --budget 24", cases[i].policy);
        check_run(1, options, bounds);
    }
}
END_TEST

START_TEST(test_ranks_exchange)
{
    for (int ranks = 2; ranks <= 3; ranks++) {
        const bound bounds[] = {
            {"bytes sent, of a token in a layer of the prompt", "full", 2 * 512 * 2}, /* hidden states in bf16, twice */
            {"kernels of a layer in a decode step", "full", 8},
            {"waits of a decode step", "full", 1},
            {"kernels of a layer of the prompt", "full", 11},
            {"waits of a layer of the prompt", "full", 1},
            {"bytes beside products and attention, of a token in a layer of the prompt", "full", 22930},
            {"kernels of a layer of the prompt", "ada-snapkv", ranks == 2 ? 35 : 41}, /* 3 share two KV heads */
            {"copies of a layer of the prompt", "ada-snapkv", ranks == 2 ? 14 : 16},
            {"waits of a layer of the prompt", "ada-snapkv", 1},
            {0}};
        check_run(ranks, RUN "--policy adakv --window 8 --budget 24", bounds);
    }
}
END_TEST

/* Layers that compete: one that is cut by the threshold costs less than heads that compete in each layer. Now and then
 * all layers that have come are evicted together, which takes one wait more. */
START_TEST(test_layers_that_compete)
{
    const bound few[] = {{"kernels of a layer of the prompt", "longhaul", 24},
                         {"copies of a layer of the prompt", "longhaul", 10},
                         {"waits of a layer of the prompt", "longhaul", 1},
                         {0}};
    check_run(1, RUN "--policy longhaul --window 8 --budget 24", few);
    for (int ranks = 1; ranks <= 2; ranks++) {
        const bound all[] = {
            {"kernels of a layer of the prompt, mean of the later layers", "longhaul", ranks == 1 ? 57.4 : 55.7},
            {"copies of a layer of the prompt, mean of the later layers", "longhaul", 21},
            {"waits of a layer of the prompt, mean of the later layers", "longhaul", 2},
            {0}};
        check_run(ranks, "run -m narrow.h5 -c 64 -n 3 --policy longhaul --window 8 --budget 16", all);
    }
}
END_TEST

/* Two sums a layer and one of the token's row; and what an eviction of all layers exchanges. */
START_TEST(test_layers_that_are_evicted_share_exchanges)
{
    static const struct {
        const char *options, *policy;
        int exchanges;
    } cases[] = {
        {"tova", "tova", 9 + 2},                                    /* the largest scores, and their sums */
        {"adakv --window 8 --evict every:1", "ada-snapkv", 9 + 5}}; /* three rounds, and candidates of each rank */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bound bounds[] = {{"exchanges of a decode step", "full", 9},
                                {"exchanges of a decode step", cases[i].policy, cases[i].exchanges},
                                {0}};
        char options[128];
        snprintf(options, sizeof options, RUN "--budget 24 --policy %s", cases[i].options);
        check_run(2, options, bounds);
    }
}
END_TEST

/* Element-wise operations load and store what they must. */
START_TEST(test_operations_touch_what_they_must)
{
    size_t i;
    const json_t *row;
    json_t *o = count(1, "operations rmsnorm rope gated add convert append --quick");
    json_array_foreach(json_object_get(o, "figures"), i, row)
    {
        double value = json_number_value(json_object_get(row, "value"));
        ck_assert_msg(value <= 1.1, "%s, %s: %g of the bytes", json_string_value(json_object_get(row, "name")),
                      json_string_value(json_object_get(row, "shape")), value);
    }
    ck_assert_uint_ge(i, 6);
    json_decref(o);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_a_full_cache_and_a_window_policy,
                                  test_sequences_that_step_together,
                                  test_evictions_while_decoding,
                                  test_ranks_exchange,
                                  test_layers_that_compete,
                                  test_layers_that_are_evicted_share_exchanges,
                                  test_operations_touch_what_they_must,
                                  NULL};
    program_enter();
    program_result r = {0};
    program_run(&r, 1, "import --random llama-3.1-8b-narrow -o narrow.h5 -q");
    int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    if (code == 0) code = suite_run("counts", tests);
    program_leave();
    return code;
}
