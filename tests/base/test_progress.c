#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/progress.h"
#include "suite.h"

static void shows(const lh_progress *p, int64_t done, double elapsed_s, const char *want)
{
    char text[256];
    lh_progress_text(p, done, elapsed_s, text, sizeof text);
    ck_assert_str_eq(text, want);
}

START_TEST(test_a_line_has_done_total_rate_and_time_left)
{
    lh_progress p;
    lh_progress_init(&p, "prefill", "tokens", 7061);
    shows(&p, 0, 0, "prefill 0/7061 tokens (0%)");
    shows(&p, 2048, 2, "prefill 2048/7061 tokens (29%), 1024 tokens/s, 5 s left");
    shows(&p, 10, 20, "prefill 10/7061 tokens (0%), 0.5 tokens/s, 3.9 h left");
    shows(&p, 7061, 7, "prefill 7061/7061 tokens (100%), 1009 tokens/s, 0 s left");
    lh_progress_clear(&p);
}
END_TEST

START_TEST(test_bytes_are_shown_as_mebibytes)
{
    lh_progress p;
    lh_progress_init(&p, "import", "bytes", INT64_C(1) << 40);
    shows(&p, INT64_C(1) << 30, 4, "import 1024/1048576 MiB (0%), 256 MiB/s, 68 min left");
    lh_progress_clear(&p);
}
END_TEST

START_TEST(test_without_a_total_there_is_no_share)
{
    lh_progress p;
    lh_progress_init(&p, "verify", "datasets", 0);
    shows(&p, 12, 2, "verify 12 datasets, 6.0 datasets/s");
    lh_progress_clear(&p);
}
END_TEST

START_TEST(test_a_line_names_a_limit_of_the_job_that_comes_first)
{
    lh_progress p;
    char end[32];
    lh_progress_init(&p, "reading", "tokens", 1000);
    snprintf(end, sizeof end, "%lld", (long long)time(NULL) + 605);
    setenv("SLURM_JOB_END_TIME", end, 1);
    shows(&p, 100, 100, "reading 100/1000 tokens (10%), 1.0 tokens/s, 15 min left, the job's limit in 10 min");
    shows(&p, 500, 500, "reading 500/1000 tokens (50%), 1.0 tokens/s, 8 min left");
    setenv("SLURM_JOB_END_TIME", "Unknown", 1);
    shows(&p, 100, 100, "reading 100/1000 tokens (10%), 1.0 tokens/s, 15 min left");
    unsetenv("SLURM_JOB_END_TIME");
    lh_progress_clear(&p);
}
END_TEST

/* Slow work has a rate per minute or hour; what an earlier run did is not in it; an estimate takes the rate's place. */
START_TEST(test_slow_work_has_a_rate_and_an_estimate_of_its_own)
{
    lh_progress p;
    lh_progress_init(&p, "needle", "prompts", 24);
    shows(&p, 3, 90, "needle 3/24 prompts (12%), 2.0 prompts/min, 10 min left");
    shows(&p, 3, 36000, "needle 3/24 prompts (12%), 0.3 prompts/h, 70.0 h left");
    p.before = 20;
    shows(&p, 22, 60, "needle 22/24 prompts (92%), 2.0 prompts/min, 60 s left");
    p.estimated = 1;
    p.left_s = 75;
    shows(&p, 22, 60, "needle 22/24 prompts (92%), 2.0 prompts/min, 75 s left");
    shows(&p, 20, 60, "needle 20/24 prompts (83%), 75 s left");
    p.left_s = -1;
    shows(&p, 20, 60, "needle 20/24 prompts (83%)");
    p.more = ", 2 failed";
    shows(&p, 20, 60, "needle 20/24 prompts (83%), 2 failed");
    lh_progress_clear(&p);
}
END_TEST

START_TEST(test_a_short_buffer_is_not_overrun)
{
    lh_progress p;
    char text[8];
    lh_progress_init(&p, "prefill", "tokens", 100);
    lh_progress_text(&p, 50, 1, text, sizeof text);
    ck_assert_uint_eq(strlen(text), 7);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_a_line_has_done_total_rate_and_time_left,
                                  test_bytes_are_shown_as_mebibytes,
                                  test_without_a_total_there_is_no_share,
                                  test_a_line_names_a_limit_of_the_job_that_comes_first,
                                  test_slow_work_has_a_rate_and_an_estimate_of_its_own,
                                  test_a_short_buffer_is_not_overrun,
                                  NULL};
    return suite_run("progress", tests);
}
