/* The time left of an evaluation, from made-up costs: prefills that are linear and quadratic in their tokens, answers
 * that take a time of their own. */
#include <check.h>

#include "lab/eval/run_policies.h"
#include "suite.h"

static const lh_config config = {.hidden = 576, .heads = 9, .kv_heads = 3, .head_dim = 64, .ff = 1536};

enum { LENGTHS = 3, PROMPTS = 12, POLICIES = 8, ANSWER = 32 };
static const int64_t lengths[LENGTHS] = {2000, 6000, 16000};

/* Seconds of a prefill on the made-up machine. */
static double prefill_s(int64_t n)
{
    return 3e-10 * lh_prefill_cost(&config, n);
}

static const double answer_s = 0.9; /* of ANSWER tokens */

static lh_eval_work planned(void)
{
    lh_eval_work work = {0};
    for (int l = 0; l < LENGTHS; l++)
        for (int p = 0; p < PROMPTS; p++) {
            work.pace[LH_WORK_PREFILL].total += lh_prefill_cost(&config, lengths[l]);
            work.pace[LH_WORK_ANSWER].total += POLICIES * ANSWER;
        }
    return work;
}

static double all_s(void)
{
    double all = 0;
    for (int l = 0; l < LENGTHS; l++) all += PROMPTS * (prefill_s(lengths[l]) + POLICIES * answer_s);
    return all;
}

static void take(lh_eval_work *work, lh_work_kind kind, double amount, double seconds)
{
    work->pace[kind].done += amount;
    work->pace[kind].seconds += seconds;
}

START_TEST(test_the_time_left_holds_from_the_first_answer_on)
{
    lh_eval_work work = planned();
    double elapsed = 0, all = all_s();
    ck_assert_double_lt(lh_work_left_s(&work), 0); /* nothing is known yet */
    for (int l = 0; l < LENGTHS; l++)
        for (int p = 0; p < PROMPTS; p++) {
            take(&work, LH_WORK_PREFILL, lh_prefill_cost(&config, lengths[l]), prefill_s(lengths[l]));
            elapsed += prefill_s(lengths[l]);
            if (elapsed == prefill_s(lengths[0])) ck_assert_double_lt(lh_work_left_s(&work), 0); /* answers: unknown */
            for (int a = 0; a < POLICIES; a++) {
                take(&work, LH_WORK_ANSWER, ANSWER, answer_s);
                elapsed += answer_s;
                ck_assert_double_eq_tol(lh_work_left_s(&work), all - elapsed, 1e-6 * all);
            }
        }
    ck_assert_double_eq(lh_work_left_s(&work), 0);
}
END_TEST

START_TEST(test_attention_is_the_quadratic_part)
{
    const double one = lh_prefill_cost(&config, 1000), two = lh_prefill_cost(&config, 2000);
    ck_assert_double_gt(two, 2 * one);
    ck_assert_double_lt(two, 4 * one);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_the_time_left_holds_from_the_first_answer_on,
                                  test_attention_is_the_quadratic_part, NULL};
    return suite_run("work", tests);
}
