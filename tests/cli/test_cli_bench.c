#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/program.h"
#include "cli/tiny.h"
#include "kernels/ops.h"
#include "suite.h"

/* The JSON object that a run prints: of one process, whatever the ranks. */
static json_t *bench(int ranks, const char *options)
{
    program_result r = {0};
    json_error_t error;
    program_run(&r, ranks, "bench %s --quick --json", options);
    program_exits(&r, 0);
    json_t *object = json_loads(r.out.data, 0, &error);
    ck_assert_msg(object != NULL, "no JSON: %s\n%s", error.text, r.out.data);
    program_clear(&r);
    return object;
}

static const json_t *rows(const json_t *object, const char *table)
{
    const json_t *list = json_object_get(object, table);
    ck_assert_msg(json_is_array(list), "no '%s'", table);
    return list;
}

static const char *text(const json_t *row, const char *name)
{
    const char *v = json_string_value(json_object_get(row, name));
    ck_assert_msg(v != NULL, "'%s' is no text", name);
    return v;
}

/* A number above 0, or what is not the measure of this row. */
static void positive_or_null(const json_t *row, const char *name)
{
    const json_t *v = json_object_get(row, name);
    ck_assert_msg(v != NULL, "no '%s'", name);
    if (json_is_null(v)) return;
    ck_assert_msg(json_is_number(v), "'%s' is no number", name);
    ck_assert_msg(isfinite(json_number_value(v)) && json_number_value(v) > 0, "'%s' of %s is %g", name,
                  text(row, "name"), json_number_value(v));
}

/* Every row is complete, and its figures are figures; gives the number of rows. */
static int check_rows(const json_t *list)
{
    static const char *const numbers[] = {"calls", "median_s", "fastest_s"};
    static const char *const measures[] = {"bytes", "flops", "gb_per_s", "tflops_per_s", "share"};
    size_t i;
    const json_t *row;
    json_array_foreach(list, i, row)
    {
        ck_assert_str_ne(text(row, "name"), "");
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
            positive_or_null(row, numbers[k]);
            ck_assert(!json_is_null(json_object_get(row, numbers[k])));
        }
        for (size_t k = 0; k < sizeof measures / sizeof *measures; k++) positive_or_null(row, measures[k]);
        ck_assert_double_le(json_number_value(json_object_get(row, "fastest_s")),
                            json_number_value(json_object_get(row, "median_s")));
        ck_assert_msg(!json_is_null(json_object_get(row, "bytes")) || !json_is_null(json_object_get(row, "flops")),
                      "%s has neither bytes nor FLOPs", text(row, "name"));
    }
    return (int)i;
}

static int named(const json_t *list, const char *name)
{
    size_t i;
    int n = 0;
    const json_t *row;
    json_array_foreach(list, i, row) n += strcmp(text(row, "name"), name) == 0;
    return n;
}

/* Rows of that name with caches of q8, all with their rate of bytes but for blocks of many rows. */
static int with_q8(const json_t *list, const char *name)
{
    int n = 0;
    size_t i;
    const json_t *row;
    json_array_foreach(list, i, row)
    {
        if (strcmp(text(row, "name"), name) != 0 || !strstr(text(row, "shape"), "q8")) continue;
        ck_assert(json_is_number(json_object_get(row, "gb_per_s")) || strcmp(name, "attend_block") == 0);
        n++;
    }
    return n;
}

START_TEST(test_every_operation_has_rows)
{
#define LH_OP(op, summary) #op,
    static const char *const names[] = {LH_OPS(LH_OP) "step"};
#undef LH_OP
    json_t *o = bench(1, "operations");
    const json_t *list = rows(o, "rows");
    check_rows(list);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_msg(named(list, names[i]) > 0, "no row of '%s'", names[i]);
    /* batches of 1 to 16 with full, ragged and evicted caches, one of f32, and two of q8 */
    ck_assert_int_eq(named(list, "attend_decode"), 1 + 5 * 3 + 2);
    ck_assert_int_eq(with_q8(list, "attend_decode"), 2);
    ck_assert_int_eq(with_q8(list, "attend_block"), 2);
    ck_assert_int_eq(with_q8(list, "append"), 1);
    ck_assert_int_eq(with_q8(list, "convert"), 3);
    ck_assert_int_eq(named(list, "step"), 2);
    ck_assert_int_eq(named(rows(o, "figures"), "pay-off of a step"), 1);
    check_rows(rows(o, "machine"));
    ck_assert_int_eq(named(rows(o, "machine"), "copy"), 1);
    ck_assert_int_eq(named(rows(o, "machine"), "gemm"), 2);
    ck_assert_str_eq(text(o, "task"), "operations");
    json_decref(o);
}
END_TEST

START_TEST(test_words_choose_cases)
{
    json_t *o = bench(2, "operations step top_ -c 300 --threads 1 --device cpu");
    const json_t *list = rows(o, "rows");
    ck_assert_int_eq(check_rows(list), 4);
    ck_assert_int_eq(named(list, "step"), 2);
    ck_assert_ptr_nonnull(strstr(text(json_array_get(list, 0), "shape"), "300 of 300"));
    json_decref(o);
}
END_TEST

/* Both of them, three sizes of a quick run, between hosts and between devices. */
START_TEST(test_collectives_are_timed_on_any_number_of_ranks)
{
    for (int ranks = 1; ranks <= 3; ranks++) {
        json_t *o = bench(ranks, "collectives");
        const json_t *list = rows(o, "rows");
        ck_assert_int_eq(check_rows(list), 2 * 2 * 3);
        ck_assert_int_eq(named(list, "all-reduce"), 2 * 3);
        ck_assert_int_eq(named(list, "all-gather"), 2 * 3);
        ck_assert_int_ge(check_rows(rows(o, "machine")), 1);
        json_decref(o);
    }
    json_t *o = bench(2, "collectives gather");
    ck_assert_int_eq(named(rows(o, "rows"), "all-gather"), 2 * 3);
    ck_assert_int_eq(check_rows(rows(o, "rows")), 2 * 3);
    json_decref(o);
}
END_TEST

static double figure(const json_t *object, const char *name, const char *shape)
{
    size_t i;
    const json_t *row;
    json_array_foreach(rows(object, "figures"), i, row)
    {
        if (strcmp(text(row, "name"), name) == 0 && strstr(text(row, "shape"), shape))
            return json_number_value(json_object_get(row, "value"));
    }
    ck_abort_msg("no figure '%s' of '%s'", name, shape);
    return 0;
}

START_TEST(test_a_run_has_prefill_and_steps)
{
    for (int ranks = 1; ranks <= 2; ranks++) {
        json_t *o = bench(ranks, "run -m tiny.h5 --policy snapkv --window 8 --budget 20");
        const json_t *list = rows(o, "rows"), *full = json_array_get(list, 1), *evicted = json_array_get(list, 3);
        ck_assert_int_eq(check_rows(list), 4);
        ck_assert_int_eq(named(list, "prefill"), 2);
        ck_assert_int_eq(named(list, "decode step"), 2);
        ck_assert_ptr_nonnull(strstr(text(full, "shape"), "full, "));
        ck_assert_ptr_nonnull(strstr(text(evicted, "shape"), "snapkv "));
        /* an evicted cache is read by fewer bytes: 44 of 64 entries less, keys and values of 2 heads in 3 layers */
        ck_assert_double_gt(json_number_value(json_object_get(full, "bytes")),
                            json_number_value(json_object_get(evicted, "bytes")));
        ck_assert_double_gt(figure(o, "tokens/s of decode step", "full"), 0);
        ck_assert_double_gt(figure(o, "pay-off of a step", "snapkv"), 0);
        json_decref(o);
    }
    json_t *o = bench(1, "run -m tiny.h5 -c 300 -n 5"); /* what was asked for, not what is quick */
    ck_assert_int_eq(check_rows(rows(o, "rows")), 2);
    ck_assert_ptr_nonnull(strstr(text(json_array_get(rows(o, "rows"), 0), "shape"), "300 tokens"));
    ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(rows(o, "rows"), 1), "calls")), 5);
    json_decref(o);
}
END_TEST

START_TEST(test_a_run_tells_the_first_prompt_the_eviction_and_the_memory)
{
    json_t *o = bench(1, "run -m tiny.h5 --policy snapkv --window 8 --budget 20 --warm-up 0 --repeat 2");
    ck_assert_int_eq(named(rows(o, "figures"), "seconds of the first prefill"), 2);
    ck_assert_double_lt(figure(o, "share of eviction in prefill", "snapkv"), 1);
    ck_assert_double_gt(figure(o, "peak memory in GiB, counted; at most in use", ""), 0);
    json_decref(o);
}
END_TEST

START_TEST(test_a_checkpoint_is_read)
{
    for (int ranks = 1; ranks <= 2; ranks++) {
        json_t *o = bench(ranks, "reading -m tiny.h5");
        ck_assert_int_eq(check_rows(rows(o, "rows")), 3);
        ck_assert_int_eq(named(rows(o, "rows"), "weights"), 3);
        ck_assert_int_eq(check_rows(rows(o, "machine")), 1);
        json_decref(o);
    }
}
END_TEST

START_TEST(test_tables_are_markdown_and_csv)
{
    program_result r = {0};
    program_run(&r, 1, "bench operations pool histogram --quick --csv rows.csv && cat rows.csv");
    program_exits(&r, 0);
    ck_assert_int_eq(program_lines(r.out.data, "| case "), 2); /* machine and rows */
    ck_assert_int_eq(program_lines(r.out.data, "| pool "), 2);
    ck_assert_int_eq(program_lines(r.out.data, "name,shape,calls,median_s,"), 1);
    ck_assert_int_eq(program_lines(r.out.data, "pool,"), 2);
    ck_assert_int_eq(program_lines(r.out.data, "histogram,"), 1);
    program_clear(&r);
}
END_TEST

START_TEST(test_what_cannot_be_is_said)
{
    program_refuses(1, 2, "'bench' needs a task after its name: operations, run, collectives, reading", "bench");
    program_refuses(1, 2, "unknown task 'operation', did you mean 'operations'?", "bench operation");
    program_refuses(1, 2, "no case has 'gem5' in its name; cases: gemm, pack_weights, unpack, attend_block, ",
                    "bench operations gem5 --quick");
    program_refuses(1, 2, "'--device' got 'gpu', here it is 'cuda'", "bench operations --device gpu");
    program_refuses(1, 2, "no case has 'some' in its name; cases: all-reduce, all-gather",
                    "bench collectives some --quick");
    program_refuses(1, 2, "needs '--model FILE'", "bench run");
    program_refuses(1, 2, "needs '--model FILE'", "bench reading");
    program_refuses(1, 2, "4096 positions of the model: reduce '--context'", "bench run -m tiny.h5 -c 5000");
    program_refuses(1, 2, "'--count' needs a device that counts", "bench operations --count --quick --device cpu");
    program_refuses(1, 2, "'--count' needs a device that counts", "bench run -m tiny.h5 --count --quick --device cpu");
    program_refuses(1, 2, "'--repeat' has no effect with '--count'", "bench run -m tiny.h5 --count --repeat 2");
    program_refuses(1, 2, "'--warm-up' has no effect with '--count'", "bench run -m tiny.h5 --count --warm-up 0");
    program_refuses(1, 2, "needs a budget", "bench run -m tiny.h5 --policy snapkv");
    program_refuses(1, 4, "nowhere.h5", "bench reading -m nowhere.h5");
    program_refuses(1, 6, "no/where.csv", "bench operations --quick --csv no/where.csv");
}
END_TEST

START_TEST(test_tasks_explain_themselves)
{
    program_result r = {0};
    static const char *const tasks[] = {"operations", "run", "collectives", "reading"};
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        char start[64];
        snprintf(start, sizeof start, "usage: longhaul bench %s ", tasks[i]);
        program_run(&r, 1, "bench %s --help", tasks[i]);
        program_exits(&r, 0);
        ck_assert_int_eq(program_lines(r.out.data, start), 1);
        ck_assert_int_eq(program_lines(r.out.data, "examples:"), 1);
    }
    program_clear(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_every_operation_has_rows,
                                  test_words_choose_cases,
                                  test_collectives_are_timed_on_any_number_of_ranks,
                                  test_a_run_has_prefill_and_steps,
                                  test_a_run_tells_the_first_prompt_the_eviction_and_the_memory,
                                  test_a_checkpoint_is_read,
                                  test_tables_are_markdown_and_csv,
                                  test_what_cannot_be_is_said,
                                  test_tasks_explain_themselves,
                                  NULL};
    program_enter();
    tiny_write("tiny");
    program_result r = {0};
    program_run(&r, 1, "import tiny -o tiny.h5 -q");
    int code = r.code;
    if (code) fprintf(stderr, "%s", r.err.data);
    program_clear(&r);
    if (code == 0) code = suite_run("cli bench", tests);
    program_leave();
    return code;
}
