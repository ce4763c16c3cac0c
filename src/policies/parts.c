/* parts.c - the table of parts: for each row of part_list.h, when it is used, and how its text is read and written. */
#include <string.h>

#include "policies/policy_impl.h"

/* ---- when a part is used ---- */

static int always(const lh_policy *policy)
{
    (void)policy;
    return 1;
}

static int has_window(const lh_policy *policy)
{
    return lh_policy_observes(policy) && !policy->proxies.kind;
}

static int has_share_of_proxies(const lh_policy *policy)
{
    return policy->proxies.kind == LH_PROXIES_SHARE;
}

/* Proxies at both ends are sinks themselves, more than are allowed in addition to proxies. */
static int has_sinks(const lh_policy *policy)
{
    return policy->proxies.at != LH_PROXIES_AT_BOTH_ENDS;
}

static int fits_values(const lh_policy *policy)
{
    return lh_fits_values(policy->fitting.kind);
}

static int adapts(const lh_policy *policy)
{
    return policy->budgets.heads == LH_HEADS_ADAPTIVE;
}

/* Rows are observed, but not by the score. */
static int only_refers(const lh_policy *policy)
{
    return lh_has_references(&policy->fitting, &policy->budgets) && !lh_policy_attends(policy);
}

static int has_rows(const lh_policy *policy)
{
    return (lh_policy_attends(policy) && !policy->proxies.kind) || only_refers(policy);
}

static int places_rows(const lh_policy *policy)
{
    return has_window(policy) || only_refers(policy);
}

static int gains(const lh_policy *policy)
{
    return policy->score.gain;
}

static int observes_again(const lh_policy *policy)
{
    return lh_policy_observes(policy) && !policy->score.running;
}

static int joins(const lh_policy *policy)
{
    return lh_policy_attends(policy) && !lh_statistic_is_joint(policy->score.statistic);
}

static int pools(const lh_policy *policy)
{
    return policy->shape.pool != 0;
}

static int joins_and_pools(const lh_policy *policy)
{
    return joins(policy) && pools(policy);
}

static int ranks(const lh_policy *policy)
{
    return policy->score.source != LH_SCORE_POSITION;
}

/* There may be rows after the prompt to compare with. */
static int may_refer(const lh_policy *policy)
{
    return ranks(policy) && (lh_policy_observes(policy) || !lh_policy_attends(policy));
}

static int adapts_and_may_refer(const lh_policy *policy)
{
    return adapts(policy) && may_refer(policy);
}

static int compares_parts(const lh_policy *policy)
{
    return policy->score.source == LH_SCORE_LAG;
}

static int narrows(const lh_policy *policy)
{
    return policy->budgets.layers == LH_LAYERS_PYRAMID;
}

static int has_stages(const lh_policy *policy)
{
    return policy->select.kind == LH_SELECT_TWO_STAGE;
}

static int has_scope(const lh_policy *policy)
{
    return policy->select.kind == LH_SELECT_STD_SCOPE;
}

static int samples(const lh_policy *policy)
{
    return policy->select.kind == LH_SELECT_TOPK_SAMPLE;
}

static int takes_keys(const lh_policy *policy)
{
    return policy->select.kind == LH_SELECT_TOPK_KEYS;
}

static int takes_keys_and_loses(const lh_policy *policy)
{
    return takes_keys(policy) && lh_competes_by_losses(&policy->budgets);
}

static int differs_in_kvpress(const lh_policy *policy)
{
    return adapts(policy) || has_stages(policy) || narrows(policy);
}

static const char *place_of_references(const lh_policy *policy, const char *usual)
{
    (void)usual;
    return only_refers(policy) ? "after" : NULL;
}

static const char *once_for_spread_rows(const lh_policy *policy, const char *usual)
{
    (void)usual;
    return policy->rows_spread || policy->score.rows_at == LH_ROWS_AT_AFTER ||
                   lh_has_references(&policy->fitting, &policy->budgets)
               ? "never"
               : NULL;
}

static const char *last_row(const lh_policy *policy, const char *usual)
{
    (void)usual;
    return policy->score.statistic == LH_STAT_LAST ? "last:1" : NULL;
}

/* Layers compete once, at the end of the prompt, by the ranks of heads that compete. */
static const char *layers_alike(const lh_policy *policy, const char *usual)
{
    int ranked = policy->select.kind == LH_SELECT_TOPK || policy->select.kind == LH_SELECT_TOPK_KEYS;
    if (strcmp(usual, lh_policy_over_layers[LH_LAYERS_ADAPTIVE]) != 0) return NULL;
    return adapts(policy) && ranked && !policy->every && !policy->block ? NULL
                                                                        : lh_policy_over_layers[LH_LAYERS_UNIFORM];
}

/* ---- the table ---- */

static const lh_profile_part layer_profile = {LH_PROFILE_OF_LAYERS, offsetof(lh_policy, budgets.layer_profile),
                                              "Every layer keeps its share, by the weights of a file."},
                             head_profile = {LH_PROFILE_OF_HEADS, offsetof(lh_policy, budgets.head_profile),
                                             "The heads of a layer keep their shares, by the weights of a file."};

#define WORD .read = lh_part_read_word, .write = lh_part_write_word
#define WORD_OR_FILE .read = lh_part_read_profile, .write = lh_part_write_profile
#define NUMBER .read = lh_part_read_number, .write = lh_part_write_number
#define ODD .read = lh_part_read_odd, .write = lh_part_write_number
#define SHARE .read = lh_part_read_share, .write = lh_part_write_share
#define AMOUNT .read = lh_part_read_amount, .write = lh_part_write_amount
#define OWN(name) .read = lh_##name##_read, .write = lh_##name##_write
#define AT(member) .at = offsetof(lh_policy, member)
#define USED(test, what) .used = test, .needs = what
#define OBSERVED "a statistic of rows ('--statistic sum' or mean, mas, count, rms, max, output-error)"
#define ALWAYS USED(always, NULL)
#define ATTENTION           \
    USED(lh_policy_attends, \
         "a statistic of attention ('--statistic sum' or mean, mas, count, rms, max, output-error, last)")
#define POOLS USED(pools, "'--pool max' or avg")
#define ADAPTS USED(adapts, "'--head-budget adaptive'")

#define ROW_statistic ALWAYS, OWN(statistic)
#define ROW_lag USED(compares_parts, "'--statistic lag'"), NUMBER, AT(score.lag), .min = 1
#define ROW_proxies USED(lh_policy_observes, OBSERVED), OWN(proxies)
#define ROW_proxies_at USED(has_share_of_proxies, "'--proxies P%'"), WORD, AT(proxies.at)
#define ROW_window USED(has_window, OBSERVED " and '--proxies none'"), NUMBER, AT(window)
#define ROW_rows                                                                                                     \
    USED(has_rows, "a statistic of attention ('--statistic sum' or mean, mas, count, rms, max, output-error, last) " \
                   "and '--proxies "                                                                                 \
                   "none', or '--fit' or '--compete-by losses'"),                                                    \
        .forced = last_row, OWN(rows)
#define ROW_rows_at                                                                           \
    USED(places_rows, OBSERVED " and '--proxies none', or '--fit' or '--compete-by losses'"), \
        .forced = place_of_references, WORD, AT(score.rows_at)
#define ROW_compete_by                                                                                         \
    USED(adapts_and_may_refer, "'--head-budget adaptive' and a statistic other than position and last"), WORD, \
        AT(budgets.by)
#define ROW_fit USED(may_refer, "a statistic other than position and last"), WORD, AT(fitting.kind)
#define ROW_ridge USED(fits_values, "'--fit values' or both"), SHARE, AT(fitting.ridge)
#define ROW_gain ATTENTION, WORD, AT(score.gain)
#define ROW_gain_floor USED(gains, "'--gain'"), WORD, AT(score.gain_floor)
#define ROW_non_causal                                                                                         \
    USED(observes_again, "rows that are observed again ('--window N' or '--proxies P%') and " OBSERVED), WORD, \
        AT(score.non_causal)
#define ROW_value_prior ATTENTION, WORD, AT(score.value_prior)
#define ROW_mean_floor ATTENTION, WORD, AT(score.mean_floor)
#define ROW_value_norms ATTENTION, WORD, AT(score.value_norms)
#define ROW_group \
    USED(joins, "a statistic that each query head has ('--statistic sum' or mean, mas, last)"), WORD, AT(shape.group)
/* pooled positions stay in the same order */
#define ROW_pool USED(ranks, "a statistic other than position"), WORD, AT(shape.pool)
#define ROW_pool_size POOLS, ODD, AT(shape.pool_size), .min = 1
#define ROW_group_stage                                                                           \
    USED(joins_and_pools, "'--pool max' or avg, and '--statistic sum' or mean, mas, last"), WORD, \
        AT(shape.group_after_pool)
#define ROW_sinks USED(has_sinks, "'--proxies-at end': proxies at both ends are the sinks"), AMOUNT, AT(protect.sinks)
/* by position the most recent entries are the best: protecting them would change nothing */
#define ROW_recents USED(ranks, "a statistic other than position"), AMOUNT, AT(protect.recents)
#define ROW_values ALWAYS, AMOUNT, AT(protect.values)
#define ROW_head_budget ALWAYS, WORD_OR_FILE, AT(budgets.heads), .profile = &head_profile
#define ROW_alpha ADAPTS, SHARE, AT(budgets.alpha)
#define ROW_safeguard ADAPTS, WORD, AT(budgets.safeguard)
#define ROW_layer_budget ALWAYS, .forced = layers_alike, WORD_OR_FILE, AT(budgets.layers), .profile = &layer_profile
#define ROW_beta USED(narrows, "'--layer-budget pyramid'"), NUMBER, AT(budgets.beta), .min = 1
#define ROW_select ALWAYS, WORD, AT(select.kind)
#define ROW_first_stage USED(has_stages, "'--select two-stage'"), SHARE, AT(select.first_stage)
#define ROW_std_share USED(has_scope, "'--select std-scope'"), SHARE, AT(select.std_share)
#define ROW_random_share USED(samples, "'--select topk+sample'"), OWN(random_share)
#define ROW_draw USED(samples, "'--select topk+sample'"), WORD, AT(select.draw)
#define ROW_key_share USED(takes_keys, "'--select topk+keys'"), SHARE, AT(select.key_share)
#define ROW_row_share                                                                                              \
    USED(takes_keys_and_loses, "'--select topk+keys' and '--compete-by losses', which observes such rows"), SHARE, \
        AT(select.row_share)
#define ROW_compat                                                                                                \
    USED(differs_in_kvpress, "'--head-budget adaptive', '--select two-stage' or '--layer-budget pyramid'"), WORD, \
        AT(compat)
#define ROW_set_per ALWAYS, WORD, AT(select.joint)
#define ROW_evict ALWAYS, .forced = once_for_spread_rows, OWN(evict)
#define ROW_positions ALWAYS, WORD, AT(positions)

static const lh_part table[] = {
#define LH_PART(member, name, type, list, argument, sentence) \
    {.option = name, .help = sentence, .words = list, .text_at = offsetof(lh_policy_parts, member), ROW_##member},
    LH_POLICY_PARTS(LH_PART)
#undef LH_PART
};

enum { PARTS = sizeof table / sizeof *table };

const lh_part *lh_part_at(int i)
{
    return i >= 0 && i < PARTS ? &table[i] : NULL;
}

const char *lh_part_text(const lh_part *part, const lh_policy_parts *parts)
{
    const char *text;
    memcpy(&text, (const char *)parts + part->text_at, sizeof text);
    return text;
}

void lh_part_set_text(const lh_part *part, lh_policy_parts *parts, const char *text)
{
    memcpy((char *)parts + part->text_at, &text, sizeof text);
}
