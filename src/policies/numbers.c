/* Parts whose value is a number, a share, or a text with a number in it. */
#include <stdio.h>
#include <string.h>

#include "policies/policy_impl.h"

static int number_of(int64_t *out, const char *text, int64_t min)
{
    return lh_whole_read(out, text, (int64_t)strlen(text), min);
}

lh_status lh_part_read_number(lh_policy_plan *plan, const lh_part *part, const char *text)
{
    int64_t number = 0;
    if (!number_of(&number, text, part->min))
        LH_FAIL(LH_EUSAGE, "--%s '%s' must be a whole number from %lld on", part->option, text, (long long)part->min);
    memcpy((char *)plan + part->at, &number, sizeof number);
    return LH_OK;
}

void lh_part_write_number(const lh_policy_plan *plan, const lh_part *part, lh_part_value *out)
{
    int64_t number;
    memcpy(&number, (const char *)plan + part->at, sizeof number);
    snprintf(out->text, sizeof out->text, "%lld", (long long)number);
}

lh_status lh_part_read_odd(lh_policy_plan *plan, const lh_part *part, const char *text)
{
    int64_t number;
    LH_TRY(lh_part_read_number(plan, part, text));
    memcpy(&number, (const char *)plan + part->at, sizeof number);
    if (number % 2 == 0)
        LH_FAIL(LH_EUSAGE, "--%s '%s' must be odd, so that an entry lies in the middle of its pool", part->option,
                text);
    return LH_OK;
}

lh_status lh_part_read_share(lh_policy_plan *plan, const lh_part *part, const char *text)
{
    lh_decimal share;
    if (!lh_share_read(&share, text))
        LH_FAIL(LH_EUSAGE, "--%s '%s' must be a decimal from 0 to 1, as 0.5", part->option, text);
    memcpy((char *)plan + part->at, &share, sizeof share);
    return LH_OK;
}

void lh_part_write_share(const lh_policy_plan *plan, const lh_part *part, lh_part_value *out)
{
    lh_decimal share;
    memcpy(&share, (const char *)plan + part->at, sizeof share);
    lh_decimal_write(share, out);
}

lh_status lh_random_share_read(lh_policy_plan *plan, const lh_part *part, const char *text)
{
    if (!lh_fraction_read(&plan->random_share, text))
        LH_FAIL(LH_EUSAGE, "--%s '%s' must be a decimal or a fraction from 0 to 1, as 0.3 or 7/19", part->option, text);
    return LH_OK;
}

void lh_random_share_write(const lh_policy_plan *plan, const lh_part *part, lh_part_value *out)
{
    (void)part;
    lh_fraction_write(plan->random_share, out);
}

/* ---- rows ---- */

lh_status lh_proxies_read(lh_policy_plan *plan, const lh_part *part, const char *text)
{
    plan->has_proxies = strcmp(text, "none") != 0;
    plan->proxies_are_question = strcmp(text, "question") == 0;
    if (plan->has_proxies && !plan->proxies_are_question && !lh_percent_read(&plan->proxies_share, text))
        LH_FAIL(LH_EUSAGE,
                "--%s '%s' must be none, question, or a share of the prompt above 0%% and up to 100%%, as 1%%",
                part->option, text);
    return LH_OK;
}

void lh_proxies_write(const lh_policy_plan *plan, const lh_part *part, lh_part_value *out)
{
    (void)part;
    snprintf(out->text, sizeof out->text, "%s", plan->has_proxies ? "question" : "none");
    if (plan->has_proxies && !plan->proxies_are_question) lh_percent_write(plan->proxies_share, out);
}

/* Without a text of its own: the window's rows, so it is read after the window. */
lh_status lh_rows_read(lh_policy_plan *plan, const lh_part *part, const char *text)
{
    (void)part;
    if (!text)
        plan->rows = plan->window;
    else if (strcmp(text, "all") == 0)
        plan->rows = INT64_MAX;
    else if (lh_percent_read(&plan->rows_share, text))
        plan->rows_is_share = 1;
    else if (strncmp(text, "last:", 5) != 0 || !number_of(&plan->rows, text + 5, 1))
        LH_FAIL(LH_EUSAGE, "--rows '%s' must be all, last:N with N from 1 on, or a share of the prompt up to 100%%",
                text);
    plan->running = plan->statistic != LH_STAT_LAST && (plan->rows == INT64_MAX || plan->window == 0);
    return LH_OK;
}

void lh_rows_write(const lh_policy_plan *plan, const lh_part *part, lh_part_value *out)
{
    (void)part;
    if (plan->rows_is_share)
        lh_percent_write(plan->rows_share, out);
    else if (plan->rows == INT64_MAX)
        snprintf(out->text, sizeof out->text, "all");
    else
        snprintf(out->text, sizeof out->text, "last:%lld", (long long)plan->rows);
}

/* ---- protection ---- */

lh_status lh_recents_read(lh_policy_plan *plan, const lh_part *part, const char *text)
{
    plan->recents_is_share = lh_percent_read(&plan->recents_share, text);
    if (!plan->recents_is_share && !number_of(&plan->recents, text, 0))
        LH_FAIL(LH_EUSAGE, "--%s '%s' must be a whole number from 0 on, or a share of the budget up to 100%%, as 50%%",
                part->option, text);
    return LH_OK;
}

void lh_recents_write(const lh_policy_plan *plan, const lh_part *part, lh_part_value *out)
{
    (void)part;
    snprintf(out->text, sizeof out->text, "%lld", (long long)plan->recents);
    if (plan->recents_is_share) lh_percent_write(plan->recents_share, out);
}

/* ---- when ---- */

/* "every" alone: each time that all the rows that are observed again are new ones. */
static int read_every(lh_policy_plan *plan, const char *text)
{
    plan->every = 1;
    if (strcmp(text, "every") != 0) return strncmp(text, "every:", 6) == 0 && number_of(&plan->every, text + 6, 1);
    plan->every_is_rows = plan->has_proxies;
    if (lh_plan_attends(plan) && !plan->running && plan->window > 0) plan->every = plan->window;
    return 1;
}

static int read_block(lh_policy_plan *plan, const char *text)
{
    size_t bytes = strcspn(text, ",");
    if (strncmp(text, "block:", 6) != 0 || !lh_whole_read(&plan->block, text + 6, (int64_t)bytes - 6, 1)) return 0;
    return !text[bytes] || read_every(plan, text + bytes + 1);
}

lh_status lh_evict_read(lh_policy_plan *plan, const lh_part *part, const char *text)
{
    if (strcmp(text, "never") != 0 && !read_every(plan, text) && (plan->every = 0, !read_block(plan, text)))
        LH_FAIL(LH_EUSAGE,
                "--%s '%s' must be never, every:M (M generated tokens from 1 on), block:N (N tokens of the prompt from "
                "1 on), or 'block:N,every:M'",
                part->option, text);
    return LH_OK;
}

void lh_evict_write(const lh_policy_plan *plan, const lh_part *part, lh_part_value *out)
{
    char every[40] = "";
    (void)part;
    if (plan->every) snprintf(every, sizeof every, "every:%lld", (long long)plan->every);
    if (plan->every_is_rows) snprintf(every, sizeof every, "every");
    if (plan->block)
        snprintf(out->text, sizeof out->text, "block:%lld%s%s", (long long)plan->block, *every ? "," : "", every);
    else
        snprintf(out->text, sizeof out->text, "%s", *every ? every : "never");
}

/* ---- budget ---- */

lh_status lh_budget_read(lh_policy_plan *plan, const char *text)
{
    plan->budget_is_share = lh_percent_read(&plan->budget_share, text);
    if (!plan->budget_is_share && !number_of(&plan->budget_entries, text, 1))
        LH_FAIL(LH_EUSAGE,
                "--budget '%s' must be a number of entries from 1 on, or a share of the prompt above 0%% and up to "
                "100%%, as 20%%",
                text);
    return LH_OK;
}

void lh_budget_write(const lh_policy_plan *plan, lh_part_value *out)
{
    snprintf(out->text, sizeof out->text, "%lld", (long long)plan->budget_entries);
    if (plan->budget_is_share) lh_percent_write(plan->budget_share, out);
}
