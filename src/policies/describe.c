/* describe.c - the text of '--policy NAME --help': the parts of a resolved policy with their meaning, and its behaviour
 * while decoding. */
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "policies/policy_impl.h"

enum { MEANING_AT = 32 }; /* column of the meaning of a part */

/* 1 for parts that are omitted: switches that are off, no proxies, no compatibility. */
static int is_omitted(const lh_part *part, const char *text)
{
    return (part->row.type == LH_OPT_SWITCH && strcmp(text, "off") == 0) ||
           ((!part->row.choices || !part->row.help) && strcmp(text, "none") == 0);
}

static lh_status describe_part(const lh_policy *policy, const lh_part *part, lh_buf *out)
{
    lh_part_value value;
    char option[128], left[136];
    part->write(policy, part, &value);
    if (is_omitted(part, value.text)) return LH_OK;
    const char *meaning = lh_part_meaning(part, value.text);
    if (part->profile && !meaning) meaning = part->profile->meaning;
    const char *shown = part->row.type == LH_OPT_SWITCH ? "" : value.text;
    snprintf(option, sizeof option, "--%s %s", part->row.name, shown);
    int used = snprintf(left, sizeof left, "  %-*s ", MEANING_AT - 3, option);
    LH_TRY(lh_buf_puts(out, left));
    LH_TRY(lh_options_wrap(out, meaning ? meaning : part->row.help, MEANING_AT, used));
    return LH_OK;
}

/* Describes the interval of evictions while decoding, and their scores. */
static lh_status describe_decoding(const lh_policy *policy, lh_buf *out)
{
    lh_part_value share;
    int at_both_ends = policy->proxies.at == LH_PROXIES_AT_BOTH_ENDS;
    LH_TRY(lh_buf_puts(out, "\nwhile decoding: "));
    if (!policy->every) {
        LH_TRY(lh_buf_puts(out, "nothing is evicted, the cache grows by one entry per head and token\n"));
        return LH_OK;
    }
    if (policy->every_is_rows)
        LH_TRY(lh_buf_printf(out, "down to the budget whenever all proxies%s are new ones; ",
                             at_both_ends ? " at the end" : ""));
    else if (policy->every == 1)
        LH_TRY(lh_buf_puts(out, "down to the budget at every token; "));
    else
        LH_TRY(lh_buf_printf(out, "down to the budget at every %lld tokens; ", (long long)policy->every));
    if (!lh_policy_attends(policy)) {
        LH_TRY(lh_buf_puts(out, "entries are scored anew\n"));
    } else if (policy->score.running) {
        LH_TRY(lh_buf_puts(out, "statistics continue from the prompt's\n"));
    } else if (lh_policy_has(policy, LH_ONE_ROW)) {
        LH_TRY(lh_buf_puts(out, "the newest row is observed\n"));
    } else if (policy->proxies.kind == LH_PROXIES_QUESTION) {
        LH_TRY(lh_buf_puts(out, "the last rows, as many as the question's that are proxies, are observed again\n"));
    } else if (policy->proxies.kind || policy->rows.percent.digits) {
        lh_percent_write(policy->proxies.kind ? policy->proxies.percent : policy->rows.percent, &share);
        LH_TRY(lh_buf_printf(out, "%s rows, as many as %s of the prompt, are observed again\n",
                             at_both_ends ? "the first proxies and the last" : "the last", share.text));
    } else {
        LH_TRY(lh_buf_printf(out, "the last %lld rows are observed again\n", (long long)policy->rows.n));
    }
    return LH_OK;
}

/* Decoding may evict the first entries or the newest, which a model uses most. */
static int protects_nothing(const lh_policy *policy)
{
    lh_policy many = *policy;
    if (policy->budget_bytes) many.budget.n = INT32_MAX; /* not known yet */
    lh_policy_numbers n = lh_policy_fix(&many, INT32_MAX);
    return policy->every && !lh_policy_has(policy, LH_BY_POSITION) && !n.sinks && !n.recents && !n.window;
}

lh_status lh_policy_describe(const lh_policy *policy, lh_buf *out)
{
    if (!policy->evicts) {
        LH_TRY(lh_buf_puts(out, "  nothing is evicted: no part is used\n"));
        return LH_OK;
    }
    const lh_part *part;
    for (int i = 0; (part = lh_policy_part(policy, i)); i++)
        if (lh_part_is_used(part, policy)) LH_TRY(describe_part(policy, part, out));
    if (policy->block)
        LH_TRY(lh_buf_printf(out, "\nin the prompt: before each block of %lld tokens the cache makes room for it\n",
                             (long long)policy->block));
    LH_TRY(describe_decoding(policy, out));
    if (protects_nothing(policy))
        LH_TRY(lh_buf_puts(out, "no entry is protected: '--sinks 10% --recents 10%' keep the first and the newest\n"));
    return LH_OK;
}
