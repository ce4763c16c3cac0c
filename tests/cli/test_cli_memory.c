/* The cache by its memory: budgets in bytes, which every command resolves for its model, on any number of ranks. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/program.h"
#include "cli/same_files.h"
#include "cli/tiny_suite.h"

#define RUN "-m tiny.h5 --chat=off -f text -n 8 --ignore-eos --deterministic -q "

/* 3 layers, 2 KV heads of 8 numbers in f32: 384 bytes an entry in every head. */
#define BYTES "--budget 11.5K " /* 11,776 bytes */
#define ENTRIES "--budget 30 "

START_TEST(test_a_budget_in_bytes_is_the_same_run_on_any_number_of_ranks)
{
    static const char *const policies[] = {"", "--policy ada-snapkv --window 8", "--policy h2o", "--policy tova"};
    program_result r = {0}, later = {0};
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        program_run(&r, 1, "generate " RUN "%s " ENTRIES "--save-cache entries.h5", policies[p]);
        program_exits(&r, 0);
        for (int ranks = 1; ranks <= 4; ranks++) {
            program_run(&later, ranks, "generate " RUN "%s " BYTES "--save-cache bytes.h5", policies[p]);
            program_exits(&later, 0);
            ck_assert_str_eq(r.out.data, later.out.data);
            same_files("cache", "entries.h5", "bytes.h5");
        }
    }
    program_clear(&r);
    program_clear(&later);
}
END_TEST

/* Command lines whose results are the same with bytes and with entries. */
START_TEST(test_every_command_takes_a_budget_in_bytes)
{
    static const char *const commands[] = {
        "plan -m tiny.h5 --context 300 -q %s | grep -v free",
        "trace " RUN "--trace-level full %s -o t.h5 && " LONGHAUL " info t.h5 | grep '^  budget'",
        "replay whole.h5 --policy snapkv,h2o -q %s",
        "eval ppl -m tiny.h5 --text text --context 200 --score 20 --policy snapkv,h2o -q %s | grep -v ' s'",
        "batch -m tiny.h5 -i in.jsonl -q --deterministic %s -o out.jsonl && cat out.jsonl && rm out.jsonl*",
        "batch -m tiny.h5 -i in.jsonl --check -q %s | grep -v time"};
    program_result a = {0}, b = {0};
    program_file("in.jsonl",
                 "{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/completions\", \"body\": {\"prompt\": "
                 "\"once upon a time there was a cache of forty words or more\", \"max_tokens\": 4}}\n");
    program_run(&a, 1, "trace " RUN "--policy full --trace-level full -o whole.h5");
    program_exits(&a, 0);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char line[400];
        snprintf(line, sizeof line, commands[i], ENTRIES);
        program_run(&a, 1, "%s", line);
        program_exits(&a, 0);
        snprintf(line, sizeof line, commands[i], BYTES);
        program_run(&b, 1, "%s", line);
        program_exits(&b, 0);
        ck_assert_str_eq(a.out.data, b.out.data);
    }
    program_clear(&a);
    program_clear(&b);
}
END_TEST

START_TEST(test_bytes_that_hold_nothing_are_refused)
{
    for (int ranks = 1; ranks <= 2; ranks++)
        program_refuses(ranks, 2, "'--budget 300B' is less than one entry", "generate -m tiny.h5 -p Hi --budget 300B");
    program_refuses(1, 2, "or a size of the cache, such as 512M", "generate -m tiny.h5 -p Hi --budget 5X");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_a_budget_in_bytes_is_the_same_run_on_any_number_of_ranks,
                                  test_every_command_takes_a_budget_in_bytes, test_bytes_that_hold_nothing_are_refused,
                                  NULL};
    return tiny_suite_run("cli memory", tests);
}
