/* check.c - combinations of parts that are not allowed: pairs of traits that exclude each other. Traits come from
 * methods and from common parts; a method checks by itself what concerns it alone. */
#include "policies/policy_impl.h"

/* ---- traits of common parts ---- */

static int evicts_later(const lh_policy *p)
{
    return p->every || p->block;
}

static int evicts_blocks(const lh_policy *p)
{
    return p->block != 0;
}

static int counts_running(const lh_policy *p)
{
    return p->score.running || p->rows.n == INT64_MAX;
}

static int moves_rows(const lh_policy *p)
{
    return p->score.rows_at == LH_ROWS_AT_AFTER;
}

static int repeats(const lh_policy *p)
{
    return p->score.rows_at == LH_ROWS_AT_REPEAT;
}

static int asks_text(const lh_policy *p)
{
    return p->score.rows_at == LH_ROWS_AT_TEXT;
}

int lh_policy_has_probes(const lh_policy *p)
{
    return p->evicts && lh_scores_by_probes(&p->score);
}

static int spreads_rows(const lh_policy *p)
{
    return p->rows_spread;
}

static int has_proxies(const lh_policy *p)
{
    return p->proxies.kind != LH_PROXIES_NONE;
}

static int competes_by_scores(const lh_policy *p)
{
    return p->budgets.heads == LH_HEADS_ADAPTIVE && !lh_uses_method(&p->methods, LH_METHOD_losses);
}

static int has_uneven_heads(const lh_policy *p)
{
    return p->budgets.heads != LH_HEADS_UNIFORM;
}

static int has_joint_set(const lh_policy *p)
{
    return p->select.joint;
}

static int uses_slots(const lh_policy *p)
{
    return p->positions == LH_POSITION_SLOT;
}

static int has_uneven_layers(const lh_policy *p)
{
    return p->budgets.layers != LH_LAYERS_UNIFORM;
}

static int observes_again(const lh_policy *p)
{
    const int attends = lh_policy_attends(p) && !p->score.running;
    return attends || (lh_policy_has(p, LH_PROMPT_ROWS) && p->every);
}

static int attends_not(const lh_policy *p)
{
    return !lh_policy_attends(p);
}

static int reads_hidden(const lh_policy *p)
{
    return lh_score_reads_hidden(&p->score);
}

/* label NULL: the statistic. */
static const struct {
    int (*has)(const lh_policy *policy);
    uint64_t traits;
    const char *label;
} settings[] = {
    {evicts_later, LH_EVICTS_LATER, "--evict every:M or block:N"},
    {evicts_blocks, LH_BLOCKS, "--evict block:N"},
    {counts_running, LH_RUNNING, "--rows all or --window 0"},
    {moves_rows, LH_SPREAD_ROWS | LH_WHOLE_PROMPT | LH_AT_EVICTION, "--rows-at after"},
    {repeats, LH_SPREAD_ROWS | LH_WHOLE_PROMPT | LH_HAS_PROBES, "--rows-at repeat"},
    {asks_text, LH_SPREAD_ROWS | LH_WHOLE_PROMPT | LH_HAS_PROBES, "--rows-at text:FILE"},
    {spreads_rows, LH_SPREAD_ROWS | LH_WHOLE_PROMPT, "--rows sample:N"},
    {has_proxies, LH_PROXIES, "--proxies"},
    {reads_hidden, LH_WHOLE_PROMPT, "a score of hidden states"},
    {competes_by_scores, LH_COMPETES, "--head-budget adaptive"},
    {has_uneven_heads, LH_UNEVEN_HEADS, "--head-budget adaptive or FILE"},
    {has_joint_set, LH_JOINT_SET, "--set-per layer"},
    {uses_slots, LH_SLOTS | LH_EVEN_HEADS, "--positions slot"},
    {has_uneven_layers, LH_UNEVEN_LAYERS, "--layer-budget other than uniform"},
    {observes_again, LH_FIXED_ROWS, NULL},
    {attends_not, LH_NO_ATTENTION, NULL},
};

/* ---- rules ---- */

/* A trait of `a` excludes one of `b`; what would be right for the setting with `a`. */
static const struct {
    uint64_t a, b;
    const char *right;
} rules[] = {
    {LH_WHOLE_PROMPT, LH_EVICTS_LATER, "it works on the whole prompt, once at its end: it needs '--evict never'"},
    {LH_AT_EVICTION, LH_RUNNING,
     "it needs rows that are observed at the eviction ('--rows sample:N' or last:N, and a window, without '--rows "
     "all')"},
    {LH_SAME_RANKS, LH_COMPETES,
     "all heads have the same ranks, or scores that do not compare, and none would get more than another; give "
     "'--compete-by losses', or '--head-budget uniform'"},
    {LH_EVEN_HEADS, LH_UNEVEN_HEADS | LH_JOINT_SET,
     "it keeps as many entries in every head, each its own: it needs '--head-budget uniform' and '--set-per head'"},
    {LH_EACH_HEAD | LH_UNEVEN_HEADS, LH_JOINT_SET,
     "with one set for a layer no head chooses for itself: it needs '--set-per head'"},
    {LH_FIXED_ROWS | LH_REFERENCES, LH_SLOTS,
     "rows that are observed again were rotated before the slots changed: it needs '--positions original', or "
     "statistics that go on ('--rows all', or '--window 0')"},
    {LH_REFITS, LH_SLOTS | LH_BLOCKS,
     "it fits entries with the rotation of their positions, at the end of the prompt and after it: it needs "
     "'--positions original' and '--evict never' or every:M"},
    {LH_SLOTS | LH_UNEVEN_LAYERS, LH_BLOCKS,
     "in blocks a layer is cut before the prompt ends: it needs '--evict never' or every:M, or '--layer-budget "
     "uniform' and '--positions original'"},
    {LH_ONE_ORDER, LH_STAGED, "it needs entries in one order: give '--select topk' or topk+keys"},
    {LH_SPREAD_ROWS | LH_REFERENCES, LH_ALTERS_ROWS | LH_PROXIES,
     "it observes rows of its own: it needs '--proxies none', and neither '--gain' nor '--non-causal'"},
    {LH_HAS_PROBES, LH_ROWS_TOGETHER | LH_NO_ATTENTION,
     "its rows are counted as they pass, segment by segment: it needs '--statistic max' or sum"},
    {LH_NEEDS_ATTENTION, LH_NO_ATTENTION,
     "it needs a statistic of attention ('--statistic sum' or mean, mas, count, rms, max, output-error, last): give "
     "'--select topk'"},
};

/* The option of the first setting with one of the traits; 0: there is none. */
static int find_holder(const lh_policy *p, uint64_t traits, lh_part_value *label)
{
    for (lh_method_id m = 1; m < LH_METHODS; m++)
        if (lh_uses_method(&p->methods, m) && (lh_methods[m]->traits & traits)) {
            *label = lh_method_label(m);
            return 1;
        }
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if ((settings[i].traits & traits) && settings[i].has(p)) {
            *label = lh_method_label(p->score.source);
            if (settings[i].label) snprintf(label->text, sizeof label->text, "%s", settings[i].label);
            return 1;
        }
    return 0;
}

lh_status lh_parts_check(const lh_policy *policy)
{
    lh_part_value a, b;
    for (lh_method_id m = 1; m < LH_METHODS; m++)
        if (lh_uses_method(&policy->methods, m) && lh_methods[m]->check) LH_TRY(lh_methods[m]->check(policy));
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (find_holder(policy, rules[i].a, &a) && find_holder(policy, rules[i].b, &b))
            LH_FAIL(LH_EUSAGE, "'%s' does not go with '%s': %s", a.text, b.text, rules[i].right);
    if (policy->budget.n) LH_TRY(lh_policy_check(policy, policy->budget.n)); /* a share or bytes: not known yet */
    return LH_OK;
}

lh_status lh_check_references(const lh_policy *policy)
{
    if (!lh_policy_attends(policy) && policy->score.rows_at != LH_ROWS_AT_AFTER)
        LH_FAIL(LH_EUSAGE,
                "'--fit' and '--compete-by losses' look from rows after the prompt, and these scores need no rows: "
                "leave '--rows-at %s' out",
                lh_policy_row_places[policy->score.rows_at]);
    return LH_OK;
}

int lh_policy_shares_prefill(const lh_policy *policy)
{
    return !evicts_blocks(policy) && !lh_policy_has_probes(policy);
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
