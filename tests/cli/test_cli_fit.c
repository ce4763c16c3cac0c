/* Biases and values that are fitted to rows after the prompt: against numpy, the same on any number of ranks, and in
 * caches that go on elsewhere. */
#include <check.h>
#include <stdio.h>

#include "cli/program.h"
#include "cli/same_files.h"
#include "cli/tiny_suite.h"

#define RUN "-m tiny.h5 --chat=off -f text -n 8 --ignore-eos --deterministic -q "
#define AFTER "--statistic rms --rows-at after --rows sample:24 "

#define LOSSES "--compete-by losses --layer-budget adaptive --select topk+keys "

/* Of attention, which scores by the rows that it is fitted to; of keys, which needs no rows to score; and where layers
 * compete, so that all are fitted in the end, to some of the rows; and of a window, beside which such rows are kept. */
static const char *const policies[] = {
    "--policy ada-snapkv " AFTER "--window 8 --budget 15%%", "--policy keydiff --rows sample:20 --sinks 2 --budget 30",
    "--policy ada-snapkv --statistic rms --rows-at after --rows sample:290 --window 8 " LOSSES "--budget 15%%",
    "--policy ada-snapkv --window 8 " LOSSES "--row-share 0.3 --budget 15%%"};
static const char *const fits[] = {"bias", "values", "both"};
enum { POLICIES = sizeof policies / sizeof *policies };

START_TEST(test_a_fit_is_that_of_an_independent_computation)
{
    program_result r = {0};
    char policy[240];
    program_run(&r, 1, "trace " RUN "--policy full --trace-level full -o whole.h5");
    program_exits(&r, 0);
    for (int i = 0; i < 3 * POLICIES; i++) {
        snprintf(policy, sizeof policy, policies[i / 3]);
        program_run(
            &r, 1,
            "generate " RUN "%s --fit %s --kv-dtype f32 --save-cache fitted.h5 && "
            "{ command -v python3 > /dev/null || exit 0; python3 " SOURCE_DIR
            "/tests/cli/check_fit.py whole.h5 fitted.h5; code=$?; [ $code = 0 ] || [ $code = 77 ] || exit $code; }",
            policy, fits[i % 3]);
        program_exits(&r, 0);
    }
    program_clear(&r);
}
END_TEST

START_TEST(test_a_fit_is_the_same_on_any_number_of_ranks)
{
    program_result r = {0}, later = {0};
    for (int i = 0; i < POLICIES; i++) {
        char policy[240];
        snprintf(policy, sizeof policy, policies[i]);
        program_run(&r, 1, "generate " RUN "%s --fit both --save-cache one.h5", policy);
        program_exits(&r, 0);
        for (int ranks = 2; ranks <= 4; ranks++) {
            program_run(&later, ranks, "generate " RUN "%s --fit both --save-cache more.h5", policy);
            program_exits(&later, 0);
            ck_assert_str_eq(r.out.data, later.out.data);
            same_files("cache", "one.h5", "more.h5");
        }
    }
    program_clear(&r);
    program_clear(&later);
}
END_TEST

START_TEST(test_a_question_is_answered_from_a_fitted_cache_on_other_ranks)
{
    program_result r = {0}, later = {0};
    char policy[240];
    snprintf(policy, sizeof policy, policies[0]);
    program_run(&r, 2, "generate " RUN "%s --fit both --question 'Who?' --save-cache asked.h5", policy);
    program_exits(&r, 0);
    for (int ranks = 1; ranks <= 4; ranks++) {
        program_run(&later, ranks,
                    "generate -m tiny.h5 --chat=off -n 8 --ignore-eos --deterministic -q --load-cache "
                    "asked.h5 --question 'Who?'");
        program_exits(&later, 0);
        ck_assert_str_eq(r.out.data, later.out.data);
    }
    program_clear(&r);
    program_clear(&later);
}
END_TEST

START_TEST(test_what_keeps_everything_is_not_fitted)
{
    program_result r = {0};
    program_run(&r, 1, "generate " RUN "--policy full --save-cache full.h5");
    program_exits(&r, 0);
    program_run(
        &r, 2, "generate " RUN "--policy snapkv " AFTER "--budget 100%% --fit both --kv-dtype f32 --save-cache all.h5");
    program_exits(&r, 0);
    lh_h5 *full = same_files_open("cache", "full.h5"), *all = same_files_open("cache", "all.h5");
    same_array(full, all, "/layers/000/v");
    same_array(full, all, "/layers/002/v");
    same_array(full, all, "/logits");
    ck_assert(!lh_h5_has(all, "/layers/000/bias"));
    lh_h5_close(full);
    lh_h5_close(all);
    program_clear(&r);
}
END_TEST

START_TEST(test_what_cannot_be_fitted_is_refused)
{
    program_refuses(2, 2, "leave '--rows-at own' out",
                    "generate " RUN "--policy keydiff --fit both --rows-at own --budget 30");
    program_refuses(1, 2, "without '--rows all'", "generate " RUN "--policy h2o --fit both --budget 30");
    program_refuses(1, 2, "'--proxies none'", "generate " RUN "--policy nacl --fit both --budget 30");
    program_refuses(1, 2, "a statistic other than position",
                    "generate " RUN "--policy streaming --fit both --budget 30");
    program_refuses(1, 2, "'--evict never'",
                    "generate " RUN "--policy snapkv " AFTER "--evict every --fit both --budget 30");
    program_refuses(1, 2, "'--fit values' or both", "generate " RUN "--policy snapkv --ridge 0.2 --budget 30");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_a_fit_is_that_of_an_independent_computation,
                                  test_a_fit_is_the_same_on_any_number_of_ranks,
                                  test_a_question_is_answered_from_a_fitted_cache_on_other_ranks,
                                  test_what_keeps_everything_is_not_fitted,
                                  test_what_cannot_be_fitted_is_refused,
                                  NULL};
    return tiny_suite_run("cli fit", tests);
}
