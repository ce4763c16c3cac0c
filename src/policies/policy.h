/* policy.h - eviction policies as rows of parts. A preset is a row of text, exactly what the command line would say; it
 * and the options that were given are resolved into numbers once, and everything else reads those. No MPI, no device,
 * no array of scores here. */
#ifndef LH_POLICIES_POLICY_H
#define LH_POLICIES_POLICY_H

#include <jansson.h>
#include <stdint.h>

#include "base/fraction.h"
#include "base/mem.h"
#include "base/status.h"
#include "policies/part_list.h"

/* The parts of a policy as text, as its options say it (part_list.h): NULL where nothing was said. A preset is such a
 * row, and so are the options of a run. What neither says, but what they make necessary, comes from lh_policy_defaults.
 */
typedef struct lh_policy_parts {
#define LH_PART(member, ...) const char *member;
    LH_POLICY_PARTS(LH_PART)
#undef LH_PART
} lh_policy_parts;

/* Words of the parts that have words, in the order of their numbers; each ends with NULL. */
extern const char *const lh_policy_statistics[];
extern const char *const lh_policy_proxy_places[];
extern const char *const lh_policy_switch[];
extern const char *const lh_policy_groups[];
extern const char *const lh_policy_pools[];
extern const char *const lh_policy_group_stages[];
extern const char *const lh_policy_over_heads[];
extern const char *const lh_policy_safeguards[];
extern const char *const lh_policy_over_layers[];
extern const char *const lh_policy_selections[];
extern const char *const lh_policy_shares[];
extern const char *const lh_policy_sets[];
extern const char *const lh_policy_position_modes[];

/* A preset. Without a statistic it evicts nothing. */
typedef enum lh_policy_kind {
    LH_POLICY_OF_PAPER,
    LH_POLICY_OWN,
    LH_POLICY_BASELINE,
    LH_POLICY_COMPATIBLE
} lh_policy_kind;
typedef struct lh_policy {
    const char *name, *summary, *paper; /* paper may be NULL */
    lh_policy_kind kind;
    lh_policy_parts parts;
} lh_policy;

const lh_policy *lh_policy_find(const char *name); /* NULL when there is none */
const lh_policy *lh_policy_at(int i);              /* NULL behind the last */

extern const lh_policy_parts lh_policy_defaults;
/* The preset that a budget without a policy means. */
extern const char lh_policy_by_default[];

/* Weights of budgets that files give (profile.h). */
typedef struct lh_profile lh_profile;
typedef struct lh_profiles lh_profiles;

/* What the user asked for. budget: entries or "20%"; NULL: none given. profiles: where the files that parts name are
 * read to; NULL: no files. */
typedef struct lh_policy_options {
    const char *policy, *budget;
    lh_policy_parts parts;
    lh_profiles *profiles;
} lh_policy_options;

/* What a score is made of. */
typedef enum lh_score_source {
    LH_SCORE_NONE,
    LH_SCORE_POSITION,
    LH_SCORE_ATTENTION, /* a statistic of the observed rows */
    LH_SCORE_RANDOM,
    LH_SCORE_KEY_NORM,       /* small norms first to stay (arXiv 2406.11430) */
    LH_SCORE_KEY_DIFFERENCE, /* KeyDiff (arXiv 2504.15364) */
    LH_SCORE_EXPECTED        /* expected attention (arXiv 2510.00636) */
} lh_score_source;
typedef enum lh_statistic { LH_STAT_SUM, LH_STAT_MEAN, LH_STAT_MAS, LH_STAT_COUNT, LH_STAT_LAST } lh_statistic;
typedef enum lh_proxies_at { LH_PROXIES_AT_END, LH_PROXIES_AT_BOTH_ENDS } lh_proxies_at;
typedef enum lh_heads_budget { LH_HEADS_UNIFORM, LH_HEADS_ADAPTIVE, LH_HEADS_PROFILE } lh_heads_budget;
/* PYRAMID_ROUNDED: as kvpress makes it: of the whole budget, window included, rounded and not exact in total. */
typedef enum lh_layers_budget {
    LH_LAYERS_UNIFORM,
    LH_LAYERS_PYRAMID,
    LH_LAYERS_PYRAMID_ROUNDED,
    LH_LAYERS_ADAPTIVE, /* the heads of all layers compete */
    LH_LAYERS_PROFILE
} lh_layers_budget;
typedef enum lh_safeguard { LH_SAFEGUARD_INTERP, LH_SAFEGUARD_FLOOR } lh_safeguard;
typedef enum lh_select { LH_SELECT_TOPK, LH_SELECT_TWO_STAGE, LH_SELECT_STD_SCOPE, LH_SELECT_TOPK_SAMPLE } lh_select;
/* What alpha and the first stage are shares of: the entries that a head may keep beside the protected ones, or of its
 * whole budget, where the protected ones count as the best (kvpress). */
typedef enum lh_shares_of { LH_SHARES_OF_COMPETING, LH_SHARES_OF_BUDGET } lh_shares_of;
typedef enum lh_position_mode { LH_POSITION_ORIGINAL, LH_POSITION_SLOT } lh_position_mode;

/* A decimal as it was written: value = digits / 10^scale, scale <= 18. Shares are taken of it in whole numbers. No
 * padding: plans are compared byte by byte. */
typedef struct lh_decimal {
    int64_t digits, scale;
} lh_decimal;

/* A resolved policy. */
typedef struct lh_policy_plan {
    char name[64];
    int by_default;      /* 1: no policy was named, this is what a budget alone means */
    int evicts;          /* 0: `full`, nothing below means anything */
    int budget_is_share; /* budget_share (percent) of the prompt, else budget_entries */
    int64_t budget_entries;
    lh_decimal budget_share;
    lh_score_source source;
    /* attention: */
    lh_statistic statistic;
    int rows_is_share; /* rows_share (percent) of the prompt, else rows; see lh_policy_rows */
    int64_t rows;      /* observed rows, INT64_MAX: all; 0 for scores without rows */
    lh_decimal rows_share;
    int running; /* statistics go on while decoding; else the last rows are observed again at each eviction */
    int gain, gain_floor, non_causal, value_prior;
    int group_kind, pool_kind; /* lh_group_kind, lh_pool_kind of kernels/ops.h, as numbers */
    int group_after_pool;
    int64_t pool_size, window;
    int has_proxies;          /* they are observed and protected, see lh_policy_fix: proxies_share (percent) of … */
    int proxies_are_question; /* … the prompt, or as many as the question has tokens (lh_policy_ask) */
    int proxies_at;           /* lh_proxies_at */
    lh_decimal proxies_share;
    int64_t question;  /* 0: not known yet */
    int64_t head_rows; /* of the observed rows, those that are the first ones of the prompt; the others are the last */
    int64_t sinks;
    int recents_is_share; /* recents_share (percent) of the budget, else recents */
    int64_t recents;
    lh_decimal recents_share;
    lh_heads_budget heads;
    lh_layers_budget layers;
    uint64_t head_profile, layer_profile; /* their hashes, 0: none */
    lh_safeguard safeguard;
    lh_decimal alpha;
    int64_t beta;
    lh_select select;
    lh_shares_of shares_of;
    lh_decimal first_stage, std_share; /* shares of 1 */
    lh_fraction random_share;          /* as it was written, "7/19" or a decimal */
    int joint;                         /* 1: one keep set for all heads of a layer */
    int64_t every;                     /* decode: evict at every m-th generated token; 0: never */
    int every_is_rows; /* as many tokens as there are proxies: lh_policy_fix makes `every` of them, 1 until then */
    int64_t block;     /* prefill: evict before each block of so many tokens; 0: once, at its end */
    lh_position_mode positions;
} lh_policy_plan;

/* Resolve. Fails with LH_EUSAGE on an unknown preset (naming the nearest), a value that is none, an option that the
 * resolved policy would ignore, a budget of 0, a policy that evicts without a budget; with LH_EINPUT on a file that is
 * no profile. options->policy NULL: `full` without a budget, else the default policy. Equal plans are equal byte by
 * byte. */
lh_status lh_policy_resolve(lh_policy_plan *out, const lh_policy_options *options);

/* The policy in words of the command line, as "ada-snapkv --pool-size 31 --budget 256": the preset and what differs
 * from it; appended. */
lh_status lh_policy_text(const lh_policy_plan *plan, lh_buf *out);

/* The resolved parts, complete, as JSON: new reference; parts that are not used are null. And back from what a cache
 * file stored (by_default is then 0): LH_EFILE when it cannot be, naming `name`. */
lh_status lh_policy_json(const lh_policy_plan *plan, json_t **out);
lh_status lh_policy_from_json(lh_policy_plan *out, const json_t *json, const char *name);

/* Entries per KV head for a prompt of `seen` tokens: at least 1; `seen` or more means nothing is evicted. `full`: as
 * many as were seen. */
int64_t lh_policy_entries(const lh_policy_plan *plan, int64_t seen);

/* LH_EUSAGE where the length of the prompt makes a plan impossible: a block must be smaller than the budget. What does
 * not depend on the length was refused by lh_policy_resolve. */
lh_status lh_policy_check(const lh_policy_plan *plan, int64_t seen);

/* Proxies that are the question's tokens: how many these are, of a prompt that ends with the question. Other plans are
 * left as they are. */
void lh_policy_ask(lh_policy_plan *plan, int64_t question);

/* LH_EUSAGE where that would have to be known, and is not. */
lh_status lh_policy_check_question(const lh_policy_plan *plan);

/* Query rows to observe of a prompt of `seen` tokens, at most `seen`; 0 for scores without rows. With proxies: P. */
int64_t lh_policy_rows(const lh_policy_plan *plan, int64_t seen);

/* The position of the r-th of them, r < lh_policy_rows. A fixed plan. */
int64_t lh_policy_row_at(const lh_policy_plan *fixed, int64_t seen, int64_t r);

/* The plan with every share turned into a number for a prompt of `seen` tokens: budget, rows, recents; proxies become
 * rows and window (P = max(1, min(floor(L * p / 100), floor(C / 4))), or the question's tokens for the share of L;
 * NaCl, arXiv 2408.03675), and the sinks beside them are P / 2 at most. At both ends (appendix A.3) P / 2 of them are
 * the first rows and the sinks, and the others the window. A prompt that is no longer than the budget is not taken in
 * in blocks. Resolving shares again changes nothing. */
lh_policy_plan lh_policy_fix(const lh_policy_plan *plan, int64_t seen);

/* floor(n * decimal) and floor(n * percent / 100), exact. n < 2^62. */
int64_t lh_decimal_of(lh_decimal share, int64_t n);
int64_t lh_percent_of(lh_decimal percent, int64_t n);

/* What an eviction finds: the budget of the layer, and `seen` tokens of which those before `visible_from` can no longer
 * be seen by the next row (0 but in sliding layers). block: entries fewer than the budget are to stay, for the block of
 * the prompt that comes. */
typedef struct lh_protect_request {
    int64_t budget, seen, visible_from, block;
} lh_protect_request;

/* How the budget of one layer divides: protected entries and those that compete. s' = min(s, C), or C less a block where
 * the prompt is taken in blocks: the first s' positions stay from the first eviction on. Those that are out of sight
 * take nothing. So heads that together hold no more than their budgets have no more that compete than may stay. */
typedef struct lh_protection {
    int64_t budget;  /* at most what can be seen */
    int64_t sinks;   /* s' that can be seen */
    int64_t recents; /* r' */
    int64_t base;    /* budget - sinks - recents: what a head may keep of the competing entries, on average */
} lh_protection;

lh_protection lh_policy_protect(const lh_policy_plan *plan, const lh_protect_request *request);

/* Budgets of all layers (entries per KV head, protected ones included), exact in total. sliding: [layers] or NULL;
 * window: their keys; profile: the plan's, of layers. Where nothing is evicted (seen <= C): C for every layer, the
 * window at most for a sliding one. By a profile: N * C entries in proportion to the weights, a layer whose part would
 * be less than one entry gets one; what rounding leaves goes to the largest remainders, ties to the lower layer; what a
 * layer cannot hold goes one each to layers 0, 1, ... that have room. */
typedef struct lh_layers_request {
    int64_t layers, seen, window;
    const uint8_t *sliding;
    const lh_profile *profile;
} lh_layers_request;

void lh_policy_layers(const lh_policy_plan *plan, const lh_layers_request *request, int64_t *budgets);

/* One layer's budget shared out over its heads by a profile, in the same way: of heads * budget entries each head gets
 * its part, the protected ones and one entry at least, what it holds at most. room[h]: competing entries held;
 * budgets[h]: those that stay. All heads of the layer, in global order. */
typedef struct lh_heads_request {
    int64_t layer, heads;
    const lh_protection *protect;
    const int64_t *room;
    const lh_profile *profile;
} lh_heads_request;

void lh_policy_heads(const lh_heads_request *request, int64_t *budgets);

/* Of the competing entries that a head may keep: how many the first stage of the selection takes (lh_stage_of), by the
 * score (std-scope: by the deviation); the second stage takes the others. topk: all of them. A fixed plan. */
lh_stage lh_policy_stage(const lh_policy_plan *plan, const lh_protection *protect);

/* Adaptive heads: what each keeps beside its share of the best entries of all heads, and that share. floor: its own
 * best so many before the heads compete, as far as it has them. interp (AdaKV, arXiv 2407.11550, algorithm 1): `sure`
 * more, whichever they are. A fixed plan. */
typedef struct lh_safety {
    int64_t floor, sure;
    lh_fraction share;
} lh_safety;

lh_safety lh_policy_safety(const lh_policy_plan *plan, const lh_protection *protect);

/* What a user should know before a long run of `seen` tokens, as "window 64 is not smaller than the budget 32: …";
 * appended to *out as lines. */
lh_status lh_policy_warnings(const lh_policy_plan *plan, int64_t seen, lh_buf *out);

/* The resolved parts, a line each: the option, its value and what it does; then what happens while decoding. Appended.
 */
lh_status lh_policy_describe(const lh_policy_plan *plan, lh_buf *out);

#endif
