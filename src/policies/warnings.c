/* warnings.c - warnings before a long run: parts that have no effect with their numbers for this prompt. */
#include <math.h>

#include "policies/policy_impl.h"

/* A policy, its numbers for the prompt, and what it protects there. */
typedef struct outlook {
    const lh_policy *policy;
    lh_policy_numbers fixed;
    int64_t seen;
    lh_protection protect;
} outlook;

static lh_status warn_all_kept(const outlook *o, lh_buf *out)
{
    return lh_buf_printf(out, "the budget of %lld entries holds the whole prompt of %lld tokens: nothing is evicted\n",
                         (long long)o->fixed.budget, (long long)o->seen);
}

/* The option that protects most, and its value. */
static const char *protector(const outlook *o, int64_t *value)
{
    const lh_policy_numbers *p = &o->fixed;
    *value = p->sinks;
    if (o->protect.sinks == o->protect.budget && !p->first_rows) return "sinks";
    *value = lh_max_i64(p->window, p->recents);
    if (p->recents > p->window) return "recents";
    if (o->policy->proxies.kind) *value = p->rows;
    return o->policy->proxies.kind ? "proxies" : "window";
}

static lh_status warn_protected(const outlook *o, lh_buf *out)
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

/* Scores are worked out, and nothing is chosen by them. */
static lh_status warn_values(const outlook *o, lh_buf *out)
{
    const lh_protection *p = &o->protect;
    if (p->values == 0 || p->base > 0 || o->fixed.score.source == LH_SCORE_POSITION) return LH_OK;
    return lh_buf_printf(out,
                         "%lld entries by their values, %lld sinks and the last %lld entries are the whole budget of "
                         "%lld: scores choose nothing; give a larger '--budget' or a smaller '--values'\n",
                         (long long)p->values, (long long)p->sinks, (long long)p->recents, (long long)p->budget);
}

/* AhaKV's gain is sqrt(2 ln(i / k)) (arXiv 2506.03762): below 1 for i < k * sqrt(e), and 0 at k. */
static lh_status warn_gain(const outlook *o, lh_buf *out)
{
    double ratio = (double)o->seen / (double)o->fixed.budget;
    if (!o->fixed.score.gain || o->fixed.score.gain_floor || ratio * ratio >= exp(1)) return LH_OK;
    return lh_buf_printf(out,
                         "the gain of the last row is %.2f: just above the budget of %lld entries it flattens the "
                         "attention that scores; '--gain-floor' keeps it at 1\n",
                         sqrt(2 * log(ratio)), (long long)o->fixed.budget);
}

static lh_status warn_pyramid(const outlook *o, lh_buf *out)
{
    int64_t budgets[2];
    lh_layers_request two = {.layers = 2, .seen = o->seen};
    if (o->fixed.budgets.layers != LH_LAYERS_PYRAMID || o->fixed.compat != LH_COMPAT_KVPRESS ||
        lh_layers_differ(&o->fixed, &two, budgets))
        return LH_OK;
    return lh_buf_printf(out,
                         "every layer gets %lld entries: the narrow end of the pyramid would be smaller than the "
                         "window %lld, and a pyramid of kvpress then is uniform\n",
                         (long long)o->fixed.budget, (long long)o->fixed.window);
}

/* Shares alone: numbers of entries are compared when the options are read. Policies of running statistics have recents
 * by themselves, and a larger window is what was asked for. */
static lh_status warn_end(const outlook *o, lh_buf *out)
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

/* What has no next part is kept before anything is ranked. */
static lh_status warn_lag(const outlook *o, lh_buf *out)
{
    const lh_policy_numbers *n = &o->fixed;
    if (n->score.source != LH_SCORE_LAG || o->protect.base == 0) return LH_OK;
    int64_t parts = lh_max_i64(1, (o->seen - n->sinks) / n->score.lag), ranked = (parts - 1) * n->score.lag;
    if (n->budget > o->seen - ranked) return LH_OK;
    return lh_buf_printf(out,
                         "the budget of %lld entries holds nothing but sinks and the end of the prompt: its last %lld "
                         "tokens have no next part of %lld that they could be compared with; give a smaller '--lag'\n",
                         (long long)n->budget, (long long)(o->seen - n->sinks - ranked), (long long)n->score.lag);
}

static outlook look(const lh_policy *policy, int64_t seen)
{
    outlook o = {.policy = policy, .fixed = lh_policy_fix(policy, seen), .seen = seen};
    o.protect = lh_policy_protect(
        &o.fixed, &(lh_protect_request){.budget = o.fixed.budget, .seen = seen, .block = o.fixed.block});
    return o;
}

static int is_filled(const outlook *o)
{
    return o->fixed.budget < o->seen && !lh_protection_ranks(&o->protect) &&
           o->policy->score.source != LH_SCORE_POSITION;
}

int lh_policy_is_filled(const lh_policy *policy, int64_t seen)
{
    if (!policy->evicts || seen <= 0) return 0;
    const outlook o = look(policy, seen);
    return is_filled(&o);
}

lh_status lh_policy_warnings(const lh_policy *policy, int64_t seen, lh_buf *out)
{
    if (!policy->evicts || seen <= 0) return LH_OK;
    const outlook o = look(policy, seen);
    if (o.fixed.budget >= seen) {
        LH_TRY(warn_all_kept(&o, out));
        return LH_OK;
    }
    if (is_filled(&o)) LH_TRY(warn_protected(&o, out));
    LH_TRY(warn_values(&o, out));
    LH_TRY(warn_gain(&o, out));
    LH_TRY(warn_pyramid(&o, out));
    LH_TRY(warn_lag(&o, out));
    LH_TRY(warn_end(&o, out));
    return LH_OK;
}

lh_status lh_policy_question_warnings(const lh_policy *policy, int64_t seen, lh_buf *out)
{
    if (!policy->evicts || seen <= 0 || !lh_policy_attends(policy) || lh_policy_fix(policy, seen).budget >= seen)
        return LH_OK;
    if (policy->score.rows_at == LH_ROWS_AT_AFTER) return LH_OK;
    LH_TRY(lh_buf_printf(out,
                         "'%s' evicts by the attention of the context, before it sees a question, and may evict the "
                         "answer: 'generate --scenario question-aware' shows it one question first; '--policy %s' "
                         "keeps what questions to "
                         "come may need\n",
                         policy->name, lh_policy_to_ask_later));
    return LH_OK;
}
