#include <assert.h>
#include <string.h>

#include "policies/policy_impl.h"

/* ---- shares of a prompt ---- */

int64_t lh_policy_entries(const lh_policy_plan *plan, int64_t seen)
{
    if (!plan->evicts) return seen;
    return plan->budget_is_share ? lh_max_i64(1, lh_percent_of(plan->budget_share, seen)) : plan->budget_entries;
}

void lh_policy_ask(lh_policy_plan *plan, int64_t question)
{
    if (plan->proxies_are_question) plan->question = question;
}

/* NaCl's proxies, which protect themselves: a quarter of the budget at most. */
static int64_t proxies(const lh_policy_plan *plan, int64_t seen)
{
    int64_t wanted = plan->proxies_are_question ? plan->question : lh_percent_of(plan->proxies_share, seen);
    return lh_max_i64(1, lh_min_i64(wanted, lh_policy_entries(plan, seen) / 4));
}

static int64_t rows(const lh_policy_plan *plan, int64_t seen)
{
    if (plan->has_proxies) return proxies(plan, seen);
    return plan->rows_is_share ? lh_max_i64(1, lh_percent_of(plan->rows_share, seen)) : plan->rows;
}

int64_t lh_policy_rows(const lh_policy_plan *plan, int64_t seen)
{
    return plan->evicts && lh_plan_attends(plan) ? lh_min_i64(seen, rows(plan, seen)) : 0;
}

int64_t lh_policy_row_at(const lh_policy_plan *fixed, int64_t seen, int64_t r)
{
    return r < fixed->head_rows ? r : seen - lh_policy_rows(fixed, seen) + r;
}

lh_policy_plan lh_policy_fix(const lh_policy_plan *plan, int64_t seen)
{
    lh_policy_plan fixed;
    memcpy(&fixed, plan, sizeof fixed);
    if (!plan->evicts) return fixed;
    fixed.budget_entries = lh_policy_entries(plan, seen);
    fixed.budget_is_share = 0;
    fixed.budget_share = (lh_decimal){0};
    if (plan->recents_is_share) fixed.recents = lh_percent_of(plan->recents_share, fixed.budget_entries);
    fixed.recents_is_share = 0;
    fixed.recents_share = (lh_decimal){0};
    fixed.rows = rows(plan, seen);
    fixed.rows_is_share = 0;
    fixed.rows_share = (lh_decimal){0};
    if (seen <= fixed.budget_entries) fixed.block = 0;
    if (!plan->has_proxies) return fixed;
    if (plan->proxies_at == LH_PROXIES_AT_BOTH_ENDS) fixed.head_rows = fixed.rows / 2;
    fixed.window = fixed.rows - fixed.head_rows;
    fixed.sinks = lh_max_i64(fixed.head_rows, lh_min_i64(plan->sinks, fixed.rows / 2));
    if (plan->every_is_rows) fixed.every = fixed.window;
    fixed.has_proxies = fixed.proxies_are_question = fixed.proxies_at = fixed.every_is_rows = 0;
    fixed.proxies_share = (lh_decimal){0};
    fixed.question = 0;
    return fixed;
}

lh_protection lh_policy_protect(const lh_policy_plan *plan, const lh_protect_request *request)
{
    int64_t sinks = lh_min_i64(lh_min_i64(plan->sinks, request->budget - plan->block), request->seen);
    lh_protection p = {.sinks = lh_max_i64(0, sinks - request->visible_from)};
    p.budget = lh_min_i64(lh_max_i64(0, request->budget - request->block), request->seen - request->visible_from);
    p.recents = lh_min_i64(lh_max_i64(plan->recents, plan->window), p.budget - p.sinks);
    p.base = p.budget - p.sinks - p.recents;
    return p;
}

/* ---- stages of the selection ---- */

/* What kvpress makes sure of for each head, its protected entries included: int(n_kept * alpha), at least 1. */
static int64_t sure_of_budget(const lh_policy_plan *plan, const lh_protection *protect)
{
    return plan->alpha.digits ? lh_max_i64(1, lh_decimal_of(plan->alpha, protect->budget)) : 0;
}

lh_stage lh_policy_stage(const lh_policy_plan *plan, const lh_protection *protect)
{
    lh_fraction r = plan->random_share;
    lh_stage stage = {.share = {1, 1}};
    switch (plan->select) {
    case LH_SELECT_TOPK: break;
    case LH_SELECT_TWO_STAGE:
        stage.share = lh_decimal_fraction(plan->first_stage);
        if (plan->shares_of == LH_SHARES_OF_COMPETING) break;
        /* the protected entries are the best ones of the first stage; what the floor gave is there too */
        stage.others = protect->sinks + protect->recents;
        stage.least = plan->heads == LH_HEADS_ADAPTIVE ? sure_of_budget(plan, protect) : plan->first_stage.digits > 0;
        break;
    case LH_SELECT_STD_SCOPE:
        stage = (lh_stage){.share = {0, 1}, .least = lh_decimal_of(plan->std_share, protect->budget)};
        break;
    case LH_SELECT_TOPK_SAMPLE: stage = (lh_stage){.share = {r.den - r.num, r.den}, .up = 1}; break;
    }
    return stage;
}

/* ---- over heads ---- */

lh_safety lh_policy_safety(const lh_policy_plan *plan, const lh_protection *protect)
{
    lh_fraction alpha = lh_decimal_fraction(plan->alpha);
    int64_t sure = lh_fraction_of(alpha, protect->base);
    if (plan->safeguard == LH_SAFEGUARD_INTERP)
        return (lh_safety){.sure = sure, .share = {alpha.den - alpha.num, alpha.den}};
    if (plan->shares_of == LH_SHARES_OF_BUDGET)
        sure = lh_max_i64(0, sure_of_budget(plan, protect) - protect->sinks - protect->recents);
    return (lh_safety){.floor = sure, .share = {1, 1}};
}

static int64_t held(const void *of, int64_t h)
{
    const lh_heads_request *q = of;
    return q->room[h] + q->protect->sinks + q->protect->recents;
}

void lh_policy_heads(const lh_heads_request *request, int64_t *budgets)
{
    const lh_protection *p = request->protect;
    int64_t heads = request->heads, protected_ = p->sinks + p->recents;
    assert(request->profile && request->profile->heads == heads);
    lh_portions_share(&(lh_portions){.n = heads,
                                     .total = heads * p->budget,
                                     .least = lh_max_i64(1, protected_),
                                     .weights = request->profile->weights + request->layer * heads,
                                     .most = held,
                                     .of = request},
                      budgets);
    for (int64_t h = 0; h < heads; h++) budgets[h] -= protected_;
}
