/* policy_notes.c - the policy of a run: what it cannot be given with, and its warnings as lines of the log. */
#include "shell/policy_notes.h"

#include <string.h>

#include "base/log.h"
#include "shell/shell.h"

lh_status lh_shell_check_loaded(const lh_policy_options *options, const char *load_cache)
{
    if (load_cache && lh_policy_given(options))
        LH_FAIL(LH_EUSAGE, "a loaded cache continues with the policy it was made with: leave out '--policy', "
                           "'--budget' and the parts of a policy");
    return LH_OK;
}

/* What a default is for. */
static const char *const defaults[] = {[LH_ASKED_IN_PROMPT] = "the default with a budget",
                                       [LH_ASKED_LATER] = "the default with a budget for questions that come later"};

lh_status lh_shell_note_policy(const lh_policy *policy, int64_t tokens, lh_policy_asked asked)
{
    lh_status st = LH_OK;
    lh_buf text = {0}, warnings = {0};
    if (!lh_shell_first()) goto done;
    LH_TRY_DONE(lh_policy_text(policy, &text));
    if (policy->by_default)
        lh_info("policy: %s (%s; '--policy' selects another)", text.data, defaults[asked]);
    else
        lh_debug("policy: %s", text.data);
    LH_TRY_DONE(lh_policy_warnings(policy, tokens, &warnings));
    if (asked == LH_ASKED_LATER) LH_TRY_DONE(lh_policy_question_warnings(policy, tokens, &warnings));
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

void lh_shell_note_defaults(const lh_policy_options *lists)
{
    if (lists->policy || !lists->budget) return;
    if (lists->asked == LH_ASKED_BOTH)
        lh_info("policies: %s (%s) and %s (%s); '--policy' selects others", lh_policy_by_default,
                defaults[LH_ASKED_IN_PROMPT], lh_policy_to_ask_later, defaults[LH_ASKED_LATER]);
    else
        lh_info("policy: %s (%s; '--policy' selects others)",
                lists->asked == LH_ASKED_LATER ? lh_policy_to_ask_later : lh_policy_by_default, defaults[lists->asked]);
}
