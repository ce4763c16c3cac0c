/* budgets.c - a policy's numbers for a prompt: turns shares into integers, and derives from them the protected entries,
 * the stages of the selection, and the budgets of heads and layers. */
#include "policies/policy_impl.h"

/* ---- shares of a prompt ---- */

int64_t lh_policy_entries(const lh_policy *policy, int64_t tokens)
{
    if (!policy || !policy->evicts) return tokens;
    return policy->budget.percent.digits ? lh_max_i64(1, lh_percent_of(policy->budget.percent, tokens))
                                         : policy->budget.n;
}

void lh_policy_ask(lh_policy *policy, int64_t question)
{
    if (policy->proxies.kind == LH_PROXIES_QUESTION) policy->proxies.question = question;
}

/* Number of NaCl's proxy tokens, which are always kept: at most a quarter of the budget. */
static int64_t proxies(const lh_policy_proxies *p, int64_t budget, int64_t tokens)
{
    int64_t wanted = p->kind == LH_PROXIES_QUESTION ? p->question : lh_percent_of(p->percent, tokens);
    return lh_max_i64(1, lh_min_i64(wanted, budget / 4));
}

static void fix_proxies(lh_policy_numbers *n, const lh_policy *policy, int64_t tokens)
{
    n->rows = proxies(&policy->proxies, n->budget, tokens);
    n->first_rows = policy->proxies.at == LH_PROXIES_AT_BOTH_ENDS ? n->rows / 2 : 0;
    n->window = n->rows - n->first_rows;
    n->sinks = lh_max_i64(n->first_rows, lh_min_i64(n->sinks, n->rows / 2));
    if (policy->every_is_rows) n->every = n->window;
}

int64_t lh_amount_of(lh_policy_amount amount, int64_t budget)
{
    return amount.percent.digits ? lh_percent_of(amount.percent, budget) : amount.n;
}

int lh_window_covers_recents(const lh_policy *policy, int64_t budget)
{
    const int64_t recents = lh_amount_of(policy->protect.recents, budget);
    return !policy->proxies.kind && recents > 0 && recents <= policy->window;
}

int lh_recents_cover_window(const lh_policy *policy, int64_t budget)
{
    return policy->score.running && policy->window > 0 &&
           lh_amount_of(policy->protect.recents, budget) >= policy->window;
}

lh_policy_numbers lh_policy_fix(const lh_policy *policy, int64_t tokens)
{
    const int64_t budget = lh_policy_entries(policy, tokens);
    lh_policy_numbers n = {.evicts = policy->evicts,
                           .may_evict_again = policy->every > 0 || policy->block > 0,
                           .score = policy->score,
                           .shape = policy->shape,
                           .budgets = policy->budgets,
                           .select = policy->select,
                           .fitting = policy->fitting,
                           .compat = policy->compat,
                           .positions = policy->positions,
                           .budget = budget,
                           .rows = policy->rows.n,
                           .rows_spread = policy->rows_spread,
                           .window = policy->window,
                           .sinks = lh_amount_of(policy->protect.sinks, budget),
                           .recents = lh_amount_of(policy->protect.recents, budget),
                           .values = lh_amount_of(policy->protect.values, budget),
                           .every = policy->every,
                           .block = policy->block};
    if (!policy->evicts) return n;
    if (policy->rows.percent.digits) n.rows = lh_max_i64(1, lh_percent_of(policy->rows.percent, tokens));
    if (tokens <= n.budget) n.block = 0;
    if (policy->proxies.kind) fix_proxies(&n, policy, tokens);
    return n;
}

lh_policy_numbers lh_policy_recording(int64_t rows, int64_t tokens)
{
    return (lh_policy_numbers){.evicts = 1,
                               .records = 1,
                               .score = {.source = LH_SCORE_ATTENTION, .statistic = LH_STAT_MAS, .running = 1},
                               .select.kind = LH_SELECT_TWO_STAGE,
                               .budget = tokens,
                               .rows = rows};
}

int lh_statistic_is_joint(lh_statistic statistic)
{
    return statistic == LH_STAT_COUNT || statistic == LH_STAT_RMS || statistic == LH_STAT_MAX ||
           statistic == LH_STAT_OUTPUT_ERROR;
}

int lh_protects_values(const lh_policy_protected *protect)
{
    return protect->values.n || protect->values.percent.digits;
}

int lh_policy_projects(const lh_policy_numbers *fixed)
{
    return fixed->select.kind == LH_SELECT_TWO_STAGE || fixed->score.value_norms;
}

int64_t lh_policy_reference_rows(int64_t tokens)
{
    enum { LEAST = 64, ROW_TOKENS = 1 << 19 };
    int64_t rows = LH_REFERENCE_ROWS;
    while (rows > LEAST && rows * tokens > ROW_TOKENS) rows /= 2;
    return rows;
}

int64_t lh_policy_rows(const lh_policy_numbers *fixed, int64_t seen)
{
    const int scores = fixed->score.source == LH_SCORE_ATTENTION,
              refers = lh_has_references(&fixed->fitting, &fixed->budgets);
    if (!fixed->evicts || (!scores && !refers)) return 0;
    return lh_min_i64(seen, scores ? fixed->rows : lh_min_i64(fixed->rows, lh_policy_reference_rows(seen)));
}

int lh_competes_by_losses(const lh_policy_division *budgets)
{
    return budgets->heads == LH_HEADS_ADAPTIVE && budgets->by == LH_COMPETE_BY_LOSSES;
}

int lh_has_references(const lh_policy_fitting *fitting, const lh_policy_division *budgets)
{
    return fitting->kind != LH_FIT_NONE || lh_competes_by_losses(budgets);
}

int lh_refers_apart(const lh_policy_numbers *fixed)
{
    return fixed->evicts && fixed->score.source == LH_SCORE_ATTENTION && fixed->score.rows_at == LH_ROWS_AT_OWN &&
           lh_has_references(&fixed->fitting, &fixed->budgets);
}

int lh_fits_bias(lh_fit_kind kind)
{
    return kind == LH_FIT_BIAS || kind == LH_FIT_BOTH;
}

int lh_fits_values(lh_fit_kind kind)
{
    return kind == LH_FIT_VALUES || kind == LH_FIT_BOTH;
}

int64_t lh_policy_spread_row(int64_t tokens, int64_t rows, int64_t r)
{
    return (r + 1) * tokens / rows - 1;
}

int64_t lh_policy_row_of(const lh_policy_numbers *fixed, int64_t seen, int64_t r)
{
    int64_t rows = lh_policy_rows(fixed, seen);
    if (fixed->rows_spread) return lh_policy_spread_row(seen, rows, r);
    return r < fixed->first_rows ? r : seen - rows + r;
}

/* Where the r-th of `rows` rows is that are moved after `seen` tokens. */
static int64_t row_after(int64_t seen, int64_t rows, int64_t r)
{
    enum { AHEAD = 256 };
    return seen + ((r + 1) * AHEAD + rows - 1) / rows - 1;
}

int64_t lh_policy_row_at(const lh_policy_numbers *fixed, int64_t seen, int64_t r)
{
    if (fixed->score.rows_at == LH_ROWS_AT_AFTER) return row_after(seen, lh_policy_rows(fixed, seen), r);
    return lh_policy_row_of(fixed, seen, r);
}

int64_t lh_policy_references(const lh_policy_numbers *fixed, int64_t seen)
{
    return lh_refers_apart(fixed) ? lh_min_i64(seen, lh_policy_reference_rows(seen)) : 0;
}

int64_t lh_policy_reference_of(const lh_policy_numbers *fixed, int64_t seen, int64_t r)
{
    return lh_policy_spread_row(seen, lh_policy_references(fixed, seen), r);
}

int64_t lh_policy_reference_at(const lh_policy_numbers *fixed, int64_t seen, int64_t r)
{
    return row_after(seen, lh_policy_references(fixed, seen), r);
}

lh_protection lh_policy_protect(const lh_policy_numbers *fixed, const lh_protect_request *request)
{
    int64_t sinks = lh_min_i64(lh_min_i64(fixed->sinks, request->budget - fixed->block), request->seen);
    lh_protection p = {.sinks = lh_max_i64(0, sinks - request->visible_from)};
    p.budget = lh_min_i64(lh_max_i64(0, request->budget - request->block), request->seen - request->visible_from);
    p.recents = lh_min_i64(lh_max_i64(fixed->recents, fixed->window), p.budget - p.sinks);
    p.values = lh_min_i64(fixed->values, p.budget - p.sinks - p.recents);
    p.base = p.budget - p.sinks - p.recents - p.values;
    return p;
}

int lh_protection_ranks(const lh_protection *protect)
{
    return protect->base + protect->values > 0;
}

/* ---- stages of the selection ---- */

/* The safeguard of kvpress for each head, its protected entries included: int(n_kept * alpha), at least 1. */
static int64_t floor_of_budget(const lh_policy_numbers *fixed, const lh_protection *protect)
{
    return fixed->budgets.alpha.digits ? lh_max_i64(1, lh_decimal_of(fixed->budgets.alpha, protect->budget)) : 0;
}

lh_stage lh_policy_stage(const lh_policy_numbers *fixed, const lh_protection *protect)
{
    lh_fraction r = fixed->select.random_share;
    lh_stage stage = {.share = {1, 1}};
    switch (fixed->select.kind) {
    case LH_SELECT_TOPK:
    case LH_SELECT_TOPK_KEYS: break;
    case LH_SELECT_TWO_STAGE:
        stage.share = lh_decimal_fraction(fixed->select.first_stage);
        if (fixed->compat != LH_COMPAT_KVPRESS) break;
        /* protected entries are the best ones of the first stage, which includes those of the floor */
        stage.others = protect->sinks + protect->recents + protect->values;
        stage.least = fixed->budgets.heads == LH_HEADS_ADAPTIVE ? floor_of_budget(fixed, protect)
                                                                : fixed->select.first_stage.digits > 0;
        break;
    case LH_SELECT_STD_SCOPE:
        stage = (lh_stage){.share = {0, 1}, .least = lh_decimal_of(fixed->select.std_share, protect->budget)};
        break;
    case LH_SELECT_TOPK_SAMPLE: stage = (lh_stage){.share = {r.den - r.num, r.den}, .up = 1}; break;
    }
    return stage;
}

/* ---- over heads ---- */

lh_safety lh_policy_safety(const lh_policy_numbers *fixed, const lh_protection *protect)
{
    lh_fraction alpha = lh_decimal_fraction(fixed->budgets.alpha);
    int64_t share = lh_fraction_of(alpha, protect->base);
    if (fixed->budgets.safeguard == LH_SAFEGUARD_INTERP)
        return (lh_safety){.bonus = share, .share = {alpha.den - alpha.num, alpha.den}};
    if (fixed->compat == LH_COMPAT_KVPRESS)
        share = lh_max_i64(0, floor_of_budget(fixed, protect) - protect->sinks - protect->recents);
    return (lh_safety){.floor = share, .share = {1, 1}};
}

/* ---- over layers ---- */

int lh_layers_differ(const lh_policy_numbers *fixed, const lh_layers_request *request, int64_t *budgets)
{
    if (!fixed->evicts || fixed->budget >= request->seen) return 0;
    switch (fixed->budgets.layers) {
    case LH_LAYERS_PROFILE: lh_profile_layers(request, fixed->budget, budgets); return 1;
    case LH_LAYERS_PYRAMID: return lh_pyramid(fixed, request, budgets);
    default: return 0;
    }
}

void lh_policy_layers(const lh_policy_numbers *fixed, const lh_layers_request *request, int64_t *budgets)
{
    if (lh_layers_differ(fixed, request, budgets)) return;
    int64_t entries = fixed->evicts ? fixed->budget : request->seen;
    for (int64_t l = 0; l < request->layers; l++) budgets[l] = lh_layer_within(request, l, entries);
}
