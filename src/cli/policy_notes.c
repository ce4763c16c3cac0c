/* policy_notes.c - the policy of a run: what it cannot be given with, and its warnings as lines of the log. */
#include "cli/policy_notes.h"

#include <string.h>

#include "base/log.h"
#include "cli/cli.h"

lh_status lh_cli_check_loaded(const lh_policy_options *options, const char *load_cache)
{
    if (load_cache && lh_policy_given(options))
        LH_FAIL(LH_EUSAGE, "a loaded cache continues with the policy it was made with: leave out '--policy', "
                           "'--budget' and the parts of a policy");
    return LH_OK;
}

lh_status lh_cli_note_policy(const lh_policy *policy, int64_t tokens, int asks_later)
{
    lh_status st = LH_OK;
    lh_buf text = {0}, warnings = {0};
    if (!lh_cli_first()) goto done;
    LH_TRY_DONE(lh_policy_text(policy, &text));
    if (policy->by_default)
        lh_info("policy: %s (the default with a budget%s; '--policy' selects another)", text.data,
                asks_later ? " for questions that come later" : "");
    else
        lh_debug("policy: %s", text.data);
    LH_TRY_DONE(lh_policy_warnings(policy, tokens, &warnings));
    if (asks_later) LH_TRY_DONE(lh_policy_question_warnings(policy, tokens, &warnings));
    for (char *line = warnings.data, *end; line && *line; line = end + 1) {
        end = line + strcspn(line, "\n");
        lh_warn("%.*s", (int)(end - line), line);
        if (!*end) break;
    }
done:
    lh_buf_clear(&text);
    lh_buf_clear(&warnings);
    return st;
}
