/* check.c - combinations of parts that are not allowed: a table of predicates, each with its error message. */
#include "policies/policy_impl.h"

static int no_rows(const lh_policy *p)
{
    return lh_policy_attends(p) && !p->proxies.kind && !p->rows.percent.digits && !p->rows.n;
}

static int last_of_more(const lh_policy *p)
{
    return lh_policy_attends(p) && p->score.statistic == LH_STAT_LAST && (p->rows.n != 1 || p->rows.percent.digits);
}

static int running_mean(const lh_policy *p)
{
    return p->score.running && p->score.statistic == LH_STAT_MEAN;
}

static int chooses_without_attention(const lh_policy *p)
{
    return p->select.kind != LH_SELECT_TOPK && p->select.kind != LH_SELECT_TOPK_KEYS && !lh_policy_attends(p);
}

static int takes_keys_by_position(const lh_policy *p)
{
    return p->select.kind == LH_SELECT_TOPK_KEYS &&
           (p->score.source == LH_SCORE_POSITION || p->score.source == LH_SCORE_KEY_DIFFERENCE);
}

static int deviates_without_mean(const lh_policy *p)
{
    return p->select.kind == LH_SELECT_STD_SCOPE && (p->score.statistic != LH_STAT_MAS || p->shape.group != 0);
}

static int adapts_to_deviation(const lh_policy *p)
{
    return p->budgets.heads == LH_HEADS_ADAPTIVE && p->select.kind == LH_SELECT_STD_SCOPE;
}

static int adapts_by_position(const lh_policy *p)
{
    return p->budgets.heads == LH_HEADS_ADAPTIVE && p->score.source == LH_SCORE_POSITION;
}

static int keeps_values_apart(const lh_policy *p)
{
    return lh_protects_values(&p->protect) && (p->budgets.heads != LH_HEADS_UNIFORM || p->select.joint);
}

static int adapts_jointly(const lh_policy *p)
{
    return p->budgets.heads == LH_HEADS_ADAPTIVE && p->select.joint;
}

static int joins_a_profile(const lh_policy *p)
{
    return p->budgets.heads == LH_HEADS_PROFILE && p->select.joint;
}

static int joins_positions(const lh_policy *p)
{
    return p->select.joint && p->score.source == LH_SCORE_POSITION;
}

static int joins_stages(const lh_policy *p)
{
    return p->select.joint && (p->select.kind == LH_SELECT_TWO_STAGE || p->select.kind == LH_SELECT_STD_SCOPE ||
                               p->select.kind == LH_SELECT_TOPK_KEYS);
}

static int mixes_shares(const lh_policy *p)
{
    return p->budgets.heads == LH_HEADS_ADAPTIVE && p->compat == LH_COMPAT_KVPRESS &&
           p->budgets.safeguard == LH_SAFEGUARD_INTERP;
}

static int slots_of_uneven_heads(const lh_policy *p)
{
    return p->positions == LH_POSITION_SLOT && (p->budgets.heads != LH_HEADS_UNIFORM || p->select.joint);
}

static int slots_of_old_rows(const lh_policy *p)
{
    return p->positions == LH_POSITION_SLOT && lh_policy_attends(p) && !p->score.running;
}

static int layers_compete(const lh_policy *p)
{
    return p->budgets.layers == LH_LAYERS_ADAPTIVE &&
           (p->budgets.heads != LH_HEADS_ADAPTIVE ||
            (p->select.kind != LH_SELECT_TOPK && p->select.kind != LH_SELECT_TOPK_KEYS));
}

static int layers_compete_later(const lh_policy *p)
{
    return p->budgets.layers == LH_LAYERS_ADAPTIVE && (p->every || p->block);
}

static int blocks_of_slots(const lh_policy *p)
{
    return p->positions == LH_POSITION_SLOT && p->block;
}

static int expects_later(const lh_policy *p)
{
    return p->score.source == LH_SCORE_EXPECTED && (p->every || p->block);
}

static int moves_all_rows(const lh_policy *p)
{
    return p->score.rows_at == LH_ROWS_AT_AFTER && (p->score.running || p->rows.n == INT64_MAX);
}

/* References are rows of the whole prompt at its end. */
static int refers_to_rows_to_come(const lh_policy *p)
{
    return lh_has_references(&p->fitting, &p->budgets) && (p->score.running || p->every || p->block);
}

static int refers_to_own_places(const lh_policy *p)
{
    return lh_has_references(&p->fitting, &p->budgets) && !lh_policy_attends(p) && p->score.rows_at != LH_ROWS_AT_AFTER;
}

static int refers_beside_others(const lh_policy *p)
{
    return lh_has_references(&p->fitting, &p->budgets) && (p->proxies.kind || p->score.gain || p->score.non_causal);
}

static int loses_in_stages(const lh_policy *p)
{
    return p->budgets.by == LH_COMPETE_BY_LOSSES && p->select.kind != LH_SELECT_TOPK &&
           p->select.kind != LH_SELECT_TOPK_KEYS;
}

static int loses_slots(const lh_policy *p)
{
    return p->budgets.by == LH_COMPETE_BY_LOSSES && p->positions == LH_POSITION_SLOT;
}

static int fits_slots(const lh_policy *p)
{
    return p->fitting.kind && p->positions == LH_POSITION_SLOT;
}

static int spreads_visits(const lh_policy *p)
{
    return (p->score.rows_at == LH_ROWS_AT_AFTER || p->rows_spread) && p->score.statistic == LH_STAT_MAS;
}

static int spreads_later(const lh_policy *p)
{
    return (p->score.rows_at == LH_ROWS_AT_AFTER || p->rows_spread) && (p->every || p->block);
}

static int spreads_gains(const lh_policy *p)
{
    return (p->score.rows_at == LH_ROWS_AT_AFTER || p->rows_spread) && (p->score.gain || p->score.non_causal);
}

static int runs_on_without_sums(const lh_policy *p)
{
    return p->score.running && (p->score.statistic == LH_STAT_RMS || p->score.statistic == LH_STAT_MAX ||
                                p->score.statistic == LH_STAT_OUTPUT_ERROR);
}

static int spans_later(const lh_policy *p)
{
    return p->score.source == LH_SCORE_LEVERAGE && (p->every || p->block);
}

static int compares_later(const lh_policy *p)
{
    return p->score.source == LH_SCORE_LAG && (p->every || p->block);
}

static int competes_by_scores(const lh_policy *p)
{
    return p->budgets.heads == LH_HEADS_ADAPTIVE && p->budgets.by == LH_COMPETE_BY_SCORES;
}

static int adapts_to_ranks(const lh_policy *p)
{
    return p->score.source == LH_SCORE_LAG && competes_by_scores(p);
}

static int adapts_to_turns(const lh_policy *p)
{
    return p->select.kind == LH_SELECT_TOPK_KEYS && competes_by_scores(p);
}

static int narrows_blocks(const lh_policy *p)
{
    return p->block && p->budgets.layers != LH_LAYERS_UNIFORM;
}

static const struct {
    int (*clash)(const lh_policy *policy);
    const char *message;
} clashes[] = {
    {no_rows, "--window 0 leaves no row to observe: give '--rows all', '--rows last:N', or a window of at least 1"},
    {last_of_more, "'--statistic last' observes the last row alone: leave '--rows' out, or give another statistic"},
    {running_mean, "'--statistic mean' needs rows that are observed again ('--window N' or '--proxies P%', without "
                   "'--rows all'); use sum or mas"},
    {chooses_without_attention, "this '--select' needs a statistic of attention ('--statistic sum' or mean, mas, "
                                "count, rms, max, output-error, last): give '--select topk'"},
    {deviates_without_mean, "'--select std-scope' compares each weight with the mean of an entry: it needs "
                            "'--statistic mas' and '--group mean'"},
    {adapts_to_deviation, "'--head-budget adaptive' compares the scores of heads, but '--select std-scope' chooses by "
                          "deviations: give '--select topk', or '--head-budget uniform'"},
    {adapts_by_position, "'--head-budget adaptive' would change nothing: by '--statistic position' all heads score "
                         "alike"},
    {keeps_values_apart,
     "'--values' keeps as many entries in every head, its own: it needs '--head-budget uniform' and "
     "'--set-per head'"},
    {adapts_jointly, "'--head-budget adaptive' needs '--set-per head': with one set for a layer no head gets more than "
                     "another"},
    {joins_a_profile, "'--head-budget FILE' needs '--set-per head': with one set for a layer no head gets more than "
                      "another"},
    {joins_positions, "'--set-per layer' would change nothing: by '--statistic position' all heads score alike"},
    {joins_stages, "'--set-per layer' needs '--select topk' or topk+sample: value norms and deviations are each head's "
                   "own"},
    {layers_compete,
     "'--layer-budget adaptive' lets the heads of all layers compete: it needs '--head-budget adaptive' and "
     "'--select topk' or topk+keys"},
    {layers_compete_later, "'--layer-budget adaptive' ranks the entries of all layers once, at the end of the prefill: "
                           "it needs '--evict never'"},
    {blocks_of_slots, "'--positions slot' begins after the prefill: it needs '--evict never' or every:N"},
    {expects_later, "'--statistic expected' sums up the queries of the whole prompt: it needs '--evict never'"},
    {spans_later, "'--statistic leverage' compares the keys of the whole prompt: it needs '--evict never'"},
    {compares_later, "'--statistic lag' compares each part of the prompt with the next: it needs '--evict never'"},
    {takes_keys_by_position,
     "'--select topk+keys' takes some entries by their keys and the others by their scores: give a "
     "statistic other than position and key-difference"},
    {adapts_to_ranks,
     "'--head-budget adaptive' would change nothing: '--statistic lag' ranks the entries of a part, and "
     "all heads have the same ranks; give '--compete-by losses', or '--head-budget uniform'"},
    {adapts_to_turns,
     "'--head-budget adaptive' would change nothing: '--select topk+keys' ranks the entries of a head, and "
     "all heads have the same ranks; give '--compete-by losses', or '--head-budget uniform'"},
    {loses_in_stages, "'--compete-by losses' needs entries in one order: give '--select topk' or topk+keys"},
    {loses_slots,
     "'--compete-by losses' is of rows that see entries at their positions: it needs '--positions original'"},
    {mixes_shares, "'--compat kvpress' needs '--safeguard floor': interp mixes counts of competing entries"},
    {slots_of_uneven_heads, "'--positions slot' needs '--head-budget uniform' and '--set-per head': a new row has one "
                            "position, the number of entries that every head holds"},
    {slots_of_old_rows, "'--positions slot' needs scores without attention, or statistics that go on ('--rows all', or "
                        "'--window 0'): rows that are observed again were rotated before the slots changed"},
    {runs_on_without_sums, "'--statistic rms', max and output-error need rows that are observed at the eviction "
                           "('--rows sample:N' or last:N, and a window)"},
    {moves_all_rows,
     "'--rows-at after' moves some rows, and not all as they pass: give '--rows sample:N' or last:N, and "
     "a window"},
    {refers_to_rows_to_come,
     "'--fit' and '--compete-by losses' look from rows of the whole prompt, once at its end: they need '--evict never' "
     "and rows that are observed then ('--window N', without '--rows all')"},
    {refers_to_own_places,
     "'--fit' and '--compete-by losses' look from rows after the prompt, and these scores need no rows: leave "
     "'--rows-at own' out"},
    {refers_beside_others,
     "'--fit' and '--compete-by losses' look from rows of their own: they need '--proxies none', and neither '--gain' "
     "nor '--non-causal'"},
    {fits_slots, "'--fit' is to rows that see entries at their positions: it needs '--positions original'"},
    {spreads_visits,
     "'--statistic mas' divides by the rows after an entry, but rows that are spread or moved by '--rows "
     "sample:N' or '--rows-at after' are not those: give mean"},
    {spreads_later,
     "'--rows-at after' and '--rows sample:N' observe rows of the whole prompt: they need '--evict never'"},
    {spreads_gains,
     "'--gain' and '--non-causal' are for the last rows: leave them out with '--rows-at after' and '--rows sample:N'"},
    {narrows_blocks, "'--evict block:N' needs '--layer-budget uniform': in blocks a layer is cut before the length of "
                     "the prompt shapes the budgets of layers"},
};

lh_status lh_parts_check(const lh_policy *policy)
{
    for (size_t i = 0; i < sizeof clashes / sizeof *clashes; i++)
        if (clashes[i].clash(policy)) LH_FAIL(LH_EUSAGE, "%s", clashes[i].message);
    if (!policy->budget.percent.digits) LH_TRY(lh_policy_check(policy, policy->budget.n));
    return LH_OK;
}

lh_status lh_policy_check_question(const lh_policy *policy)
{
    if (policy->proxies.kind == LH_PROXIES_QUESTION && !policy->proxies.question)
        LH_FAIL(LH_EUSAGE, "'--proxies question' observes the tokens of the question that ends the prompt, and there "
                           "is none here: give '--proxies P%%' of the prompt");
    return LH_OK;
}

lh_status lh_policy_check(const lh_policy *policy, int64_t seen)
{
    int64_t entries = lh_policy_entries(policy, seen);
    if (policy->evicts && policy->block >= entries)
        LH_FAIL(LH_EUSAGE,
                "'--evict block:%lld' must be smaller than the budget of %lld entries, which a block has to fit into",
                (long long)policy->block, (long long)entries);
    return LH_OK;
}
