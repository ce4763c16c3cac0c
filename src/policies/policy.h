/* policy.h - eviction policies as rows of parts. A preset is a row of text, as on the command line. Preset and options
 * are resolved once into a struct lh_policy, which everything else reads; budgets.h computes its numbers for a prompt.
 * No MPI, no device and no arrays of scores here. */
#ifndef LH_POLICIES_POLICY_H
#define LH_POLICIES_POLICY_H

#include <jansson.h>
#include <stdint.h>

#include "base/fraction.h"
#include "base/mem.h"
#include "base/status.h"
#include "policies/decimal.h"
#include "policies/preset.h"

/* The input of a score: a statistic of the attention that observed rows give, a function of the program that uses the
 * library, or one of word_list.h. */
typedef enum lh_score_source {
    LH_SCORE_NONE,
    LH_SCORE_ATTENTION,
    LH_SCORE_CALLER,
#define LH_SOURCE(word, meaning, number, ...) number,
    LH_SOURCE_WORDS(LH_SOURCE)
#undef LH_SOURCE
} lh_score_source;
typedef enum lh_statistic {
    LH_STAT_SUM,
    LH_STAT_MEAN,
    LH_STAT_MAS,
    LH_STAT_COUNT,
    LH_STAT_RMS,
    LH_STAT_MAX,
    LH_STAT_OUTPUT_ERROR,
    LH_STAT_LAST
} lh_statistic;

/* Numbers of words. A profile may stand in place of a word; its number follows theirs. LH_COMPAT_KVPRESS: alpha and the
 * first stage are shares of the whole budget, where protected entries count as the best, not of what may be kept beside
 * them; and a pyramid falls over the whole budget, window included, rounded and not exact in total. */
#define LH_NUMBER(word, meaning, number) number,
typedef enum lh_proxies_at { LH_PROXIES_AT_WORDS(LH_NUMBER) } lh_proxies_at;
typedef enum lh_compete_by { LH_COMPETE_WORDS(LH_NUMBER) } lh_compete_by;
typedef enum lh_fit_kind { LH_FIT_WORDS(LH_NUMBER) } lh_fit_kind;
typedef enum lh_row_place { LH_ROWS_AT_WORDS(LH_NUMBER) } lh_row_place;
typedef enum lh_heads_budget { LH_HEADS_WORDS(LH_NUMBER) LH_HEADS_PROFILE } lh_heads_budget;
typedef enum lh_layers_budget { LH_LAYERS_WORDS(LH_NUMBER) LH_LAYERS_PROFILE } lh_layers_budget;
typedef enum lh_safeguard { LH_SAFEGUARD_WORDS(LH_NUMBER) } lh_safeguard;
typedef enum lh_select { LH_SELECT_WORDS(LH_NUMBER) } lh_select;
typedef enum lh_draw_kind { LH_DRAW_WORDS(LH_NUMBER) } lh_draw_kind;
typedef enum lh_compat { LH_COMPAT_WORDS(LH_NUMBER) } lh_compat;
typedef enum lh_position_mode { LH_POSITION_WORDS(LH_NUMBER) } lh_position_mode;
#undef LH_NUMBER

/* An amount as it was written: n, or where percent.digits > 0 a percentage of something; n is 0 then. */
typedef struct lh_policy_amount {
    int64_t n;
    lh_decimal percent;
} lh_policy_amount;

/* ---- what a resolved policy (lh_policy) and its numbers for a prompt (lh_policy_numbers) have in common ---- */

/* What scores an entry. All but source, lag, scorer and, for a fit, rows_at are of
 * LH_SCORE_ATTENTION. */
typedef struct lh_policy_score {
    lh_score_source source;
    lh_statistic statistic;
    int running; /* statistics go on while decoding; else the last rows are observed again at each eviction */
    lh_row_place rows_at;
    int gain, gain_floor, non_causal, value_prior, mean_floor, value_norms;
    int64_t lag;      /* of LH_SCORE_LAG: entries of a part */
    lh_scorer scorer; /* of LH_SCORE_CALLER */
} lh_policy_score;

/* From the scores of query heads to those of a KV head. */
typedef struct lh_policy_shape {
    int group, pool; /* lh_group_kind, lh_pool_kind of kernels/ops.h, as numbers */
    int group_after_pool;
    int64_t pool_size;
} lh_policy_shape;

/* How entries are divided among layers, and among the heads of a layer. */
typedef struct lh_policy_division {
    lh_heads_budget heads;
    lh_layers_budget layers;
    lh_compete_by by;                     /* where heads compete */
    uint64_t head_profile, layer_profile; /* their hashes, 0: none */
    lh_safeguard safeguard;
    lh_decimal alpha;
    int64_t beta;
} lh_policy_division;

/* How the entries of a head are chosen by their scores. */
typedef struct lh_policy_selection {
    lh_select kind;
    int joint;                                               /* 1: one keep set for all heads of a layer */
    lh_decimal first_stage, std_share, key_share, row_share; /* shares of 1 */
    lh_fraction random_share;                                /* as it was written, "7/19" or a decimal */
    lh_draw_kind draw;
} lh_policy_selection;

/* What is fitted of the entries that stay, to the rows that score after the prompt, or to rows kept for it. */
typedef struct lh_policy_fitting {
    lh_fit_kind kind;
    lh_decimal ridge;
} lh_policy_fitting;

/* Rows that are observed and protected. question: the tokens of the question, 0: not known yet (lh_policy_ask). */
typedef enum lh_proxies_kind { LH_PROXIES_NONE, LH_PROXIES_SHARE, LH_PROXIES_QUESTION } lh_proxies_kind;
typedef struct lh_policy_proxies {
    lh_proxies_kind kind;
    lh_proxies_at at;
    lh_decimal percent; /* of the prompt */
    int64_t question;
} lh_policy_proxies;

/* What is always kept, beside the window and proxies; percent: of the budget. */
typedef struct lh_policy_protected {
    lh_policy_amount sinks, recents, values; /* values: entries of the largest ones */
} lh_policy_protected;

/* A resolved policy: shares are still shares. What they are for a prompt is lh_policy_numbers (budgets.h). */
typedef struct lh_policy {
    char name[64];           /* of the preset */
    int by_default;          /* 1: no policy was named, this is the default with a budget */
    int evicts;              /* 0: `full`, the members below are unused */
    lh_policy_amount budget; /* percent: of the prompt */
    lh_policy_score score;
    lh_policy_amount rows; /* observed rows, INT64_MAX: all; 0 for scores without rows. percent: of the prompt */
    int rows_spread;       /* 1: rows.n of them spread over the prompt, else the last ones */
    lh_policy_proxies proxies;
    lh_policy_shape shape;
    int64_t window;
    lh_policy_protected protect;
    lh_policy_division budgets;
    lh_policy_selection select;
    lh_policy_fitting fitting;
    lh_compat compat;
    int64_t every;     /* decode: evict at every m-th generated token; 0: never */
    int every_is_rows; /* as many tokens as there are proxies; `every` is 1 */
    int64_t block;     /* prefill: evict before each block of so many tokens; 0: once, at its end */
    lh_position_mode positions;
} lh_policy;

/* Resolves preset and options. LH_EUSAGE: an unknown preset (naming the nearest), an invalid value, an option that the
 * resolved policy would ignore, a budget of 0, a policy that evicts without a budget. LH_EINPUT: a file that is not a
 * profile. options->policy NULL: `full` without a budget, else the default policy. Equal policies are equal byte by
 * byte. */
lh_status lh_policy_resolve(lh_policy *out, const lh_policy_options *options);

/* 1 if the options name a policy, a budget or a part of a policy. */
int lh_policy_given(const lh_policy_options *options);

/* The policy as on a command line, e.g. "ada-snapkv --pool-size 31 --budget 256": the preset and what differs from it;
 * appended. */
lh_status lh_policy_text(const lh_policy *policy, lh_buf *out);

/* All resolved parts as JSON (a new reference); parts that are not used are null. And back, as a cache file stores it
 * (by_default is then 0): LH_EFILE, naming `name`, if it is invalid. */
lh_status lh_policy_json(const lh_policy *policy, json_t **out);
lh_status lh_policy_from_json(lh_policy *out, const json_t *json, const char *name);

/* LH_EUSAGE if the policy is impossible for a prompt of this length: a block must be smaller than the budget.
 * lh_policy_resolve refuses what does not depend on the length. */
lh_status lh_policy_check(const lh_policy *policy, int64_t seen);

/* Sets the number of tokens of the question at the end of the prompt, if these are the policy's proxies; no effect on
 * other policies. */
void lh_policy_ask(lh_policy *policy, int64_t question);

/* LH_EUSAGE if that number is needed and not set. */
lh_status lh_policy_check_question(const lh_policy *policy);

/* Warnings before a long run of `seen` tokens, e.g. "the budget of 64 entries holds the whole prompt …"; appended to
 * *out as lines. */
lh_status lh_policy_warnings(const lh_policy *policy, int64_t seen, lh_buf *out);

/* 1 if protected entries (window, sinks, recents, rows of proxies) are the whole budget of a prompt of `seen` tokens,
 * so that scores choose nothing, though the policy has some. */
int lh_policy_is_filled(const lh_policy *policy, int64_t seen);

/* Likewise for questions that come after the eviction: a policy that scores by attention has seen the context alone,
 * and may have evicted the answer (docs/results.md, context-only). */
lh_status lh_policy_question_warnings(const lh_policy *policy, int64_t seen, lh_buf *out);

/* The resolved parts, one per line: the option, its value and its meaning; then what happens while decoding.
 * Appended. */
lh_status lh_policy_describe(const lh_policy *policy, lh_buf *out);

#endif
