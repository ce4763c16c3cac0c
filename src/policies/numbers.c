/* numbers.c - reads the values of parts into a resolved policy and writes them from it: words, numbers, shares,
 * names of profiles, and parts with a special syntax. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size_text.h"
#include "policies/policy_impl.h"
#include "policies/probes.h"

static int number_of(int64_t *out, const char *text, int64_t min)
{
    return lh_integer_read(out, text, (int64_t)strlen(text), min);
}

static int amount_of(lh_policy_amount *out, const char *text, int64_t min)
{
    return lh_percent_read(&out->percent, text) || number_of(&out->n, text, min);
}

static void write_amount(lh_policy_amount amount, lh_part_value *out)
{
    if (amount.percent.digits)
        lh_percent_write(amount.percent, out);
    else
        snprintf(out->text, sizeof out->text, "%lld", (long long)amount.n);
}

lh_status lh_part_read_number(lh_policy *policy, const lh_part *part, const char *text)
{
    int64_t number = 0;
    if (!number_of(&number, text, part->min))
        LH_FAIL(LH_EUSAGE, "--%s '%s' must be an integer from %lld on", part->row.name, text, (long long)part->min);
    memcpy((char *)policy + part->at, &number, sizeof number);
    return LH_OK;
}

void lh_part_write_number(const lh_policy *policy, const lh_part *part, lh_part_value *out)
{
    int64_t number;
    memcpy(&number, (const char *)policy + part->at, sizeof number);
    snprintf(out->text, sizeof out->text, "%lld", (long long)number);
}

lh_status lh_part_read_odd(lh_policy *policy, const lh_part *part, const char *text)
{
    int64_t number;
    LH_TRY(lh_part_read_number(policy, part, text));
    memcpy(&number, (const char *)policy + part->at, sizeof number);
    if (number % 2 == 0)
        LH_FAIL(LH_EUSAGE, "--%s '%s' must be odd, so that it is centred on an entry", part->row.name, text);
    return LH_OK;
}

lh_status lh_part_read_share(lh_policy *policy, const lh_part *part, const char *text)
{
    lh_decimal share;
    if (!lh_share_read(&share, text))
        LH_FAIL(LH_EUSAGE, "--%s '%s' must be a decimal from 0 to 1, such as 0.5", part->row.name, text);
    memcpy((char *)policy + part->at, &share, sizeof share);
    return LH_OK;
}

void lh_part_write_share(const lh_policy *policy, const lh_part *part, lh_part_value *out)
{
    lh_decimal share;
    memcpy(&share, (const char *)policy + part->at, sizeof share);
    lh_decimal_write(share, out);
}

lh_status lh_part_read_fraction(lh_policy *policy, const lh_part *part, const char *text)
{
    lh_fraction share;
    if (!lh_fraction_read(&share, text))
        LH_FAIL(LH_EUSAGE, "--%s '%s' must be a decimal or a fraction from 0 to 1, such as 0.3 or 7/19", part->row.name,
                text);
    memcpy((char *)policy + part->at, &share, sizeof share);
    return LH_OK;
}

void lh_part_write_fraction(const lh_policy *policy, const lh_part *part, lh_part_value *out)
{
    lh_fraction share;
    memcpy(&share, (const char *)policy + part->at, sizeof share);
    lh_fraction_write(share, out);
}

lh_status lh_part_read_word(lh_policy *policy, const lh_part *part, const char *text)
{
    int number = 0;
    LH_TRY(lh_choice_find(&number, part->row.name, part->row.choices, text));
    memcpy((char *)policy + part->at, &number, sizeof number);
    return LH_OK;
}

void lh_part_write_word(const lh_policy *policy, const lh_part *part, lh_part_value *out)
{
    int number = 0;
    memcpy(&number, (const char *)policy + part->at, sizeof number);
    snprintf(out->text, sizeof out->text, "%s", part->row.choices[number]);
}

/* ---- names of profiles ---- */

enum { HEX = 16 };

/* What stands before the hash. */
static const char *prefix_of(const lh_part *part)
{
    return part->row.file_prefix ? part->row.file_prefix : "profile:";
}

int lh_profile_hash_read(const lh_part *part, const char *text, uint64_t *out)
{
    const size_t before = strlen(prefix_of(part));
    const char *digits = text + before;
    if (strncmp(text, prefix_of(part), before) != 0 || strspn(digits, "0123456789abcdef") != HEX || digits[HEX])
        return 0;
    *out = strtoull(digits, NULL, 16);
    return *out != 0;
}

void lh_profile_hash_write(const lh_part *part, uint64_t hash, lh_part_value *out)
{
    snprintf(out->text, sizeof out->text, "%s%016llx", prefix_of(part), (unsigned long long)hash);
}

lh_status lh_part_read_profile(lh_policy *policy, const lh_part *part, const char *text)
{
    uint64_t hash;
    int number = 0; /* follows the numbers of the words */
    if (!lh_profile_hash_read(part, text, &hash)) return lh_part_read_word(policy, part, text);
    while (part->row.choices[number]) number++;
    memcpy((char *)policy + part->at, &number, sizeof number);
    memcpy((char *)policy + part->profile->hash_at, &hash, sizeof hash);
    return LH_OK;
}

void lh_part_write_profile(const lh_policy *policy, const lh_part *part, lh_part_value *out)
{
    uint64_t hash;
    memcpy(&hash, (const char *)policy + part->profile->hash_at, sizeof hash);
    if (hash)
        lh_profile_hash_write(part, hash, out);
    else
        lh_part_write_word(policy, part, out);
}

/* ---- rows ---- */

lh_status lh_proxies_read(lh_policy *policy, const lh_part *part, const char *text)
{
    if (strcmp(text, "none") == 0)
        policy->proxies.kind = LH_PROXIES_NONE;
    else if (strcmp(text, "question") == 0)
        policy->proxies.kind = LH_PROXIES_QUESTION;
    else if (lh_percent_read(&policy->proxies.percent, text))
        policy->proxies.kind = LH_PROXIES_SHARE;
    else
        LH_FAIL(LH_EUSAGE,
                "--%s '%s' must be none, question, or a share of the prompt above 0%% and up to 100%%, such as 1%%",
                part->row.name, text);
    return LH_OK;
}

void lh_proxies_write(const lh_policy *policy, const lh_part *part, lh_part_value *out)
{
    (void)part;
    if (policy->proxies.kind == LH_PROXIES_SHARE)
        lh_percent_write(policy->proxies.percent, out);
    else
        snprintf(out->text, sizeof out->text, "%s", policy->proxies.kind ? "question" : "none");
}

/* 1, or 0 if the text is no place. */
static int read_place(lh_policy_score *score, const lh_part *part, const char *text)
{
    const char *repeat = "repeat:";
    score->segment = 0;
    score->text = 0;
    score->rows_at = LH_ROWS_AT_REPEAT;
    if (strncmp(text, repeat, strlen(repeat)) == 0)
        return number_of(&score->segment, text + strlen(repeat), LH_SEGMENT_MIN);
    score->rows_at = LH_ROWS_AT_TEXT;
    if (lh_profile_hash_read(part, text, &score->text)) return 1;
    for (int i = 0; part->row.word(i); i++) {
        score->rows_at = (lh_row_place)i;
        if (strcmp(part->row.word(i), text) == 0) return 1;
    }
    return 0;
}

lh_status lh_rows_at_read(lh_policy *policy, const lh_part *part, const char *text)
{
    const size_t before = strlen(part->row.file_prefix);
    if (read_place(&policy->score, part, text)) return LH_OK;
    if (strncmp(text, part->row.file_prefix, before) == 0 && text[before])
        LH_FAIL(LH_EUSAGE, "--%s '%s' names a file, and no file is read here", part->row.name, text);
    LH_FAIL(LH_EUSAGE, "--%s '%s' must be own, after, repeat, repeat:N with N from %d on, or text:FILE", part->row.name,
            text, LH_SEGMENT_MIN);
}

void lh_rows_at_write(const lh_policy *policy, const lh_part *part, lh_part_value *out)
{
    snprintf(out->text, sizeof out->text, "%s", part->words[policy->score.rows_at]);
    if (policy->score.segment) snprintf(out->text, sizeof out->text, "repeat:%lld", (long long)policy->score.segment);
    if (policy->score.text) lh_profile_hash_write(part, policy->score.text, out);
}

/* text NULL: the rows of the window, which is read earlier; or, from after the prompt, rows of all of it: as many as
 * score well, or as references are. */
lh_status lh_rows_read(lh_policy *policy, const lh_part *part, const char *text)
{
    (void)part;
    const int64_t spread = lh_policy_attends(policy) ? 512 : LH_REFERENCE_ROWS;
    policy->rows_spread = text ? strncmp(text, "sample:", 7) == 0 : policy->score.rows_at == LH_ROWS_AT_AFTER;
    const char *number = policy->rows_spread ? "sample:" : "last:";
    if (!text)
        policy->rows.n = policy->rows_spread ? spread : policy->window;
    else if (strcmp(text, "all") == 0)
        policy->rows.n = INT64_MAX;
    else if (!lh_percent_read(&policy->rows.percent, text) &&
             (strncmp(text, number, strlen(number)) != 0 || !number_of(&policy->rows.n, text + strlen(number), 1)))
        LH_FAIL(LH_EUSAGE,
                "--rows '%s' must be all, last:N or sample:N with N from 1 on, or a share of the prompt up to 100%%",
                text);
    policy->score.running =
        lh_policy_observes(policy) && !policy->rows_spread && (policy->rows.n == INT64_MAX || policy->window == 0);
    return LH_OK;
}

void lh_rows_write(const lh_policy *policy, const lh_part *part, lh_part_value *out)
{
    (void)part;
    if (policy->rows.percent.digits)
        lh_percent_write(policy->rows.percent, out);
    else if (policy->rows.n == INT64_MAX)
        snprintf(out->text, sizeof out->text, "all");
    else if (policy->rows_spread)
        snprintf(out->text, sizeof out->text, "sample:%lld", (long long)policy->rows.n);
    else
        snprintf(out->text, sizeof out->text, "last:%lld", (long long)policy->rows.n);
}

/* ---- protection ---- */

lh_status lh_part_read_amount(lh_policy *policy, const lh_part *part, const char *text)
{
    lh_policy_amount amount = {0};
    if (!amount_of(&amount, text, 0))
        LH_FAIL(LH_EUSAGE, "--%s '%s' must be an integer from 0 on, or a share of the budget up to 100%%, such as 50%%",
                part->row.name, text);
    memcpy((char *)policy + part->at, &amount, sizeof amount);
    return LH_OK;
}

void lh_part_write_amount(const lh_policy *policy, const lh_part *part, lh_part_value *out)
{
    lh_policy_amount amount;
    memcpy(&amount, (const char *)policy + part->at, sizeof amount);
    write_amount(amount, out);
}

/* ---- when ---- */

/* "every" without a number: when all rows that are observed again are new. */
static int read_every(lh_policy *policy, const char *text)
{
    policy->every = 1;
    if (strcmp(text, "every") != 0) return strncmp(text, "every:", 6) == 0 && number_of(&policy->every, text + 6, 1);
    policy->every_is_rows = policy->proxies.kind != LH_PROXIES_NONE;
    if (lh_policy_attends(policy) && !policy->score.running && policy->window > 0) policy->every = policy->window;
    return 1;
}

static int read_block(lh_policy *policy, const char *text)
{
    size_t bytes = strcspn(text, ",");
    if (strncmp(text, "block:", 6) != 0 || !lh_integer_read(&policy->block, text + 6, (int64_t)bytes - 6, 1)) return 0;
    return !text[bytes] || read_every(policy, text + bytes + 1);
}

lh_status lh_evict_read(lh_policy *policy, const lh_part *part, const char *text)
{
    if (strcmp(text, "never") != 0 && !read_every(policy, text) && (policy->every = 0, !read_block(policy, text)))
        LH_FAIL(LH_EUSAGE,
                "--%s '%s' must be never, every:M (M generated tokens from 1 on), block:N (N tokens of the prompt from "
                "1 on), or 'block:N,every:M'",
                part->row.name, text);
    return LH_OK;
}

void lh_evict_write(const lh_policy *policy, const lh_part *part, lh_part_value *out)
{
    char every[40] = "";
    (void)part;
    if (policy->every) snprintf(every, sizeof every, "every:%lld", (long long)policy->every);
    if (policy->every_is_rows) snprintf(every, sizeof every, "every");
    if (policy->block)
        snprintf(out->text, sizeof out->text, "block:%lld%s%s", (long long)policy->block, *every ? "," : "", every);
    else
        snprintf(out->text, sizeof out->text, "%s", *every ? every : "never");
}

/* ---- budget ---- */

lh_status lh_budget_read(lh_policy *policy, const char *text)
{
    if (!amount_of(&policy->budget, text, 1) && !lh_size_read(&policy->budget_bytes, text))
        LH_FAIL(LH_EUSAGE,
                "--budget '%s' must be a number of entries from 1 on, a share of the prompt above 0%% and up to 100%%, "
                "such as 20%%, or a size of the cache, such as 512M",
                text);
    return LH_OK;
}

void lh_budget_write(const lh_policy *policy, lh_part_value *out)
{
    write_amount(policy->budget, out);
    if (policy->budget_bytes) lh_size_write(out->text, policy->budget_bytes);
}
