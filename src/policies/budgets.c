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
                           .methods = policy->methods,
                           .positions = policy->positions,
                           .budget = budget,
                           .rows = policy->rows.n,
                           .rows_spread = policy->rows_spread,
                           .window = policy->window,
                           .sinks = lh_amount_of(policy->protect.sinks, budget),
                           .recents = lh_amount_of(policy->protect.recents, budget),
                           .every = policy->every,
                           .block = policy->block};
    if (!policy->evicts) return n;
    for (lh_method_id m = 1; m < LH_METHODS; m++)
        if (lh_uses_method(&n.methods, m) && lh_methods[m]->protects)
            n.chosen += lh_methods[m]->protects(policy, budget);
    if (policy->rows.percent.digits) n.rows = lh_max_i64(1, lh_percent_of(policy->rows.percent, tokens));
    if (tokens <= n.budget) n.block = 0;
    if (policy->proxies.kind) fix_proxies(&n, policy, tokens);
    return n;
}

lh_policy_numbers lh_policy_recording(int64_t rows, int64_t tokens)
{
    lh_policy p = {.evicts = 1,
                   .budget.n = tokens,
                   .rows.n = rows,
                   .score = {.source = LH_METHOD_mas, .running = 1},
                   .select.kind = LH_METHOD_two_stage};
    lh_policy_update_methods(&p);
    lh_policy_numbers n = lh_policy_fix(&p, tokens);
    n.records = 1;
    return n;
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
    const int scores = lh_methods_have(&fixed->methods, LH_ATTENDS);
    if (!fixed->evicts || (!scores && !lh_methods_have(&fixed->methods, LH_REFERENCES))) return 0;
    return lh_min_i64(seen, scores ? fixed->rows : lh_min_i64(fixed->rows, lh_policy_reference_rows(seen)));
}

int lh_refers_apart(const lh_policy_numbers *fixed)
{
    return fixed->evicts && fixed->score.rows_at != LH_ROWS_AT_AFTER && lh_methods_have(&fixed->methods, LH_ATTENDS) &&
           lh_methods_have(&fixed->methods, LH_REFERENCES);
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

int64_t lh_policy_row_after(int64_t seen, int64_t rows, int64_t r)
{
    enum { AHEAD = 256 };
    return seen + ((r + 1) * AHEAD + rows - 1) / rows - 1;
}

int64_t lh_policy_row_at(const lh_policy_numbers *fixed, int64_t seen, int64_t r)
{
    if (fixed->score.rows_at == LH_ROWS_AT_AFTER) return lh_policy_row_after(seen, lh_policy_rows(fixed, seen), r);
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
    return lh_policy_row_after(seen, lh_policy_references(fixed, seen), r);
}

lh_protection lh_policy_protect(const lh_policy_numbers *fixed, const lh_protect_request *request)
{
    int64_t sinks = lh_min_i64(lh_min_i64(fixed->sinks, request->budget - fixed->block), request->seen);
    lh_protection p = {.sinks = lh_max_i64(0, sinks - request->visible_from)};
    p.budget = lh_min_i64(lh_max_i64(0, request->budget - request->block), request->seen - request->visible_from);
    p.recents = lh_min_i64(lh_max_i64(fixed->recents, fixed->window), p.budget - p.sinks);
    p.chosen = lh_min_i64(fixed->chosen, p.budget - p.sinks - p.recents);
    p.base = p.budget - p.sinks - p.recents - p.chosen;
    return p;
}

int lh_protection_ranks(const lh_protection *protect)
{
    return protect->base + protect->chosen > 0;
}

/* ---- stages of the selection ---- */

lh_stage lh_policy_stage(const lh_policy_numbers *fixed, const lh_protection *protect)
{
    const lh_method *select = lh_methods[fixed->select.kind];
    return select->stage ? select->stage(fixed, protect) : (lh_stage){.share = {1, 1}};
}

/* ---- over heads: AdaKV's competition ---- */

typedef struct adaptive_params {
    lh_decimal alpha;
    int safeguard;
} adaptive_params;

enum { INTERP, FLOOR };
static const char *const safeguards[] = {"interp", "floor", NULL};

static int adapts(const lh_policy *policy)
{
    return policy->budgets.heads == LH_HEADS_ADAPTIVE;
}

static const adaptive_params *params_of(const lh_policy_methods *methods)
{
    return lh_params_of(methods, LH_METHOD_adaptive);
}

/* int(n_kept * alpha), at least 1, protected entries included. */
int64_t lh_kvpress_floor(const lh_policy_numbers *fixed, const lh_protection *protect)
{
    const lh_decimal alpha = params_of(&fixed->methods)->alpha;
    return alpha.digits ? lh_max_i64(1, lh_decimal_of(alpha, protect->budget)) : 0;
}

lh_safety lh_policy_safety(const lh_policy_numbers *fixed, const lh_protection *protect)
{
    const adaptive_params *p = params_of(&fixed->methods);
    lh_fraction alpha = lh_decimal_fraction(p->alpha);
    int64_t share = lh_fraction_of(alpha, protect->base);
    if (p->safeguard == INTERP) return (lh_safety){.bonus = share, .share = {alpha.den - alpha.num, alpha.den}};
    if (lh_is_kvpress(&fixed->methods))
        share = lh_max_i64(0, lh_kvpress_floor(fixed, protect) - protect->sinks - protect->recents);
    return (lh_safety){.floor = share, .share = {1, 1}};
}

/* In kvpress protected entries count as part of a floor. */
static lh_status check_shares(const lh_policy *policy)
{
    if (lh_is_kvpress(&policy->methods) && params_of(&policy->methods)->safeguard == INTERP)
        LH_FAIL(LH_EUSAGE, "'--compat kvpress' needs '--safeguard floor': interp mixes counts of competing entries");
    return LH_OK;
}

static const lh_part adaptive_parts[] = {
    {LH_PART_SHARE(adaptive, adaptive_params, alpha), .after = "recents", .def = "0.5", .row.name = "alpha",
     .row.arg = "X",
     .row.help = "Share of the budget that every head keeps whatever its scores are, when heads compete."},
    {LH_PART_WORD(adaptive, adaptive_params, safeguard), .after = "recents", .def = "interp", .row.name = "safeguard",
     .row.choices = safeguards,
     .meanings = (const char *const[]){"The share alpha is mixed into the counts that competition gives.",
                                       "The share alpha is given first, the rest by competition."},
     .row.help = "How alpha is given: mixed into the counts of entries, or first."},
    {.row.name = NULL}};

const lh_method lh_method_adaptive = {.option = "--head-budget adaptive",
                                      .active = adapts,
                                      .parts = adaptive_parts,
                                      .traits = LH_HAS_COMPAT,
                                      .check = check_shares};

/* The heads of all layers compete, once, at the end of the prompt. */
static int layers_adapt(const lh_policy *policy)
{
    return policy->budgets.layers == LH_LAYERS_ADAPTIVE;
}

static lh_status check_layers(const lh_policy *policy)
{
    if (!adapts(policy))
        LH_FAIL(LH_EUSAGE,
                "'--layer-budget adaptive' lets the heads of all layers compete: it needs '--head-budget adaptive'");
    return LH_OK;
}

const lh_method lh_method_adaptive_layers = {.option = "--layer-budget adaptive",
                                             .active = layers_adapt,
                                             .traits = LH_WHOLE_PROMPT | LH_ONE_ORDER,
                                             .check = check_layers};

/* ---- over layers ---- */

static int has_learnt_layers(const lh_policy *policy)
{
    return policy->budgets.layers == LH_LAYERS_LEARNT;
}

const lh_method lh_method_learnt_layers = {
    .option = "--layer-budget learnt", .active = has_learnt_layers, .traits = LH_NEEDS_SCORE_WEIGHTS};

/* The part of a budget that every layer gets before learnt shares divide the rest: a quarter keeps a text near the full
 * cache. */
enum { EVEN_PARTS = 4 };

static int64_t even_entries(const lh_policy_numbers *fixed, int64_t seen)
{
    const lh_protection p = lh_policy_protect(fixed, &(lh_protect_request){.budget = fixed->budget, .seen = seen});
    return lh_max_i64(p.budget - p.base, fixed->budget / EVEN_PARTS);
}

int lh_layers_differ(const lh_policy_numbers *fixed, const lh_layers_request *request, int64_t *budgets)
{
    lh_layers_request full = *request;
    if (!fixed->evicts || fixed->budget >= request->seen) return 0;
    switch (fixed->budgets.layers) {
    case LH_LAYERS_PROFILE: lh_profile_layers(request, fixed->budget, budgets); return 1;
    case LH_LAYERS_LEARNT:
        if (fixed->every) full.seen = lh_max_i64(full.seen, full.layers * fixed->budget);
        lh_learnt_layers(&full, fixed->budget, even_entries(fixed, request->seen), budgets);
        return 1;
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
