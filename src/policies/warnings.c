/* warnings.c - warnings before a long run: parts that have no effect with their numbers for this prompt. */
#include "policies/policy_impl.h"

static lh_status warn_all_kept(const lh_outlook *o, lh_buf *out)
{
    return lh_buf_printf(out,
                         "the budget of %lld entries holds the whole prompt of %lld tokens: nothing is evicted%s\n",
                         (long long)o->fixed.budget, (long long)o->seen, o->fixed.every ? " before it is full" : "");
}

/* The option that protects most, and its value. */
static const char *protector(const lh_outlook *o, int64_t *value)
{
    const lh_policy_numbers *p = &o->fixed;
    *value = p->sinks;
    if (o->protect.sinks == o->protect.budget && !p->first_rows) return "sinks";
    *value = lh_max_i64(p->window, p->recents);
    if (p->recents > p->window) return "recents";
    if (o->policy->proxies.kind) *value = p->rows;
    return o->policy->proxies.kind ? "proxies" : "window";
}

static lh_status warn_protected(const lh_outlook *o, lh_buf *out)
{
    int64_t value;
    const char *option = protector(o, &value);
    return lh_buf_printf(
        out,
        "%s %lld leaves no entry of the budget of %lld to compete for: nothing is scored, %lld sinks and "
        "the last %lld entries are kept; give a larger '--budget' or a smaller '--%s'\n",
        option, (long long)value, (long long)o->protect.budget, (long long)o->protect.sinks,
        (long long)o->protect.recents, o->fixed.block ? "evict block:N" : option);
}

/* Shares alone: numbers of entries are compared when the options are read. Policies of running statistics have recents
 * by themselves, and a larger window is the wish of the user. */
static lh_status warn_end(const lh_outlook *o, lh_buf *out)
{
    const int of_window = !o->policy->score.running && lh_window_covers_recents(o->policy, o->fixed.budget);
    if (!o->policy->protect.recents.percent.digits) return LH_OK;
    if (!of_window && !lh_recents_cover_window(o->policy, o->fixed.budget)) return LH_OK;
    return lh_buf_printf(out,
                         "'--%s' has no effect: of the budget of %lld entries the last %lld are recents, and the "
                         "window is of %lld\n",
                         of_window ? "recents" : "window", (long long)o->fixed.budget, (long long)o->fixed.recents,
                         (long long)o->fixed.window);
}

static lh_outlook look(const lh_policy *policy, int64_t seen)
{
    lh_outlook o = {.policy = policy, .fixed = lh_policy_fix(policy, seen), .seen = seen};
    o.protect = lh_policy_protect(
        &o.fixed, &(lh_protect_request){.budget = o.fixed.budget, .seen = seen, .block = o.fixed.block});
    return o;
}

static int is_filled(const lh_outlook *o)
{
    return o->fixed.budget < o->seen && !lh_protection_ranks(&o->protect) && !lh_policy_has(o->policy, LH_BY_POSITION);
}

int lh_policy_is_filled(const lh_policy *policy, int64_t seen)
{
    if (!policy->evicts || seen <= 0) return 0;
    const lh_outlook o = look(policy, seen);
    return is_filled(&o);
}

lh_status lh_policy_warnings(const lh_policy *policy, int64_t seen, lh_buf *out)
{
    if (!policy->evicts || seen <= 0) return LH_OK;
    const lh_outlook o = look(policy, seen);
    if (o.fixed.budget >= seen) {
        LH_TRY(warn_all_kept(&o, out));
        return LH_OK;
    }
    if (is_filled(&o)) LH_TRY(warn_protected(&o, out));
    for (lh_method_id m = 1; m < LH_METHODS; m++)
        if (lh_uses_method(&policy->methods, m) && lh_methods[m]->warn) LH_TRY(lh_methods[m]->warn(&o, out));
    LH_TRY(warn_end(&o, out));
    return LH_OK;
}

lh_status lh_policy_question_warnings(const lh_policy *policy, int64_t seen, lh_buf *out)
{
    if (!policy->evicts || seen <= 0 || !lh_policy_attends(policy) || lh_policy_fix(policy, seen).budget >= seen)
        return LH_OK;
    if (policy->score.rows_at != LH_ROWS_AT_OWN) return LH_OK;
    LH_TRY(lh_buf_printf(out,
                         "'%s' evicts by the attention of the context, before it sees a question, and may evict the "
                         "answer: 'generate --scenario question-aware' shows it one question first; '--policy %s' "
                         "or, with learnt scores of the model, "
                         "'%s' keeps what questions to come may need\n",
                         policy->name, lh_policy_to_ask_later, lh_policy_of_learnt));
    return LH_OK;
}
