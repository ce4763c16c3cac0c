/* budgets.h - a policy's numbers for one prompt: every share is an integer here, and budgets are divided exactly, among
 * layers, heads and stages of the selection. The cache keeps these numbers beside the policy; nothing that depends on a
 * prompt is asked of the policy itself. */
#ifndef LH_POLICIES_BUDGETS_H
#define LH_POLICIES_BUDGETS_H

#include "policies/policy.h"

/* may_evict_again: 1 unless the policy evicts only at the end of a prompt, whatever its length. */
typedef struct lh_policy_numbers {
    int evicts, may_evict_again;
    lh_policy_score score;
    lh_policy_shape shape;
    lh_policy_division budgets;
    lh_policy_selection select;
    lh_compat compat;
    lh_position_mode positions;
    int64_t budget;           /* entries per KV head; `full`: the tokens of the prompt */
    int64_t rows, first_rows; /* observed rows, and those of them that begin the prompt; the others end it */
    int64_t window, sinks, recents;
    int64_t every, block;
} lh_policy_numbers;

/* The numbers for a prompt of `tokens` tokens: budget, rows and recents; proxies become rows and window (P = max(1,
 * min(floor(L * p / 100), floor(C / 4))), or the question's tokens for the share of L; NaCl, arXiv 2408.03675), and the
 * sinks beside them are P / 2 at most. At both ends (appendix A.3) P / 2 of them are the first rows and the sinks, and
 * the others the window. A prompt that is no longer than the budget is not taken in in blocks. */
lh_policy_numbers lh_policy_fix(const lh_policy *policy, int64_t tokens);

/* Query rows to observe when `seen` tokens were seen, at most `seen`; 0 for scores without rows. With proxies: P. */
int64_t lh_policy_rows(const lh_policy_numbers *fixed, int64_t seen);

/* The position of the r-th of them, r < lh_policy_rows. */
int64_t lh_policy_row_at(const lh_policy_numbers *fixed, int64_t seen, int64_t r);

/* What an eviction finds: the budget of the layer, and `seen` tokens of which those before `visible_from` can no longer
 * be seen by the next row (0 but in sliding layers). block: entries fewer than the budget are to stay, for the block of
 * the prompt that comes. */
typedef struct lh_protect_request {
    int64_t budget, seen, visible_from, block;
} lh_protect_request;

/* How the budget of one layer divides: protected entries and those that compete. s' = min(s, C), or C less a block
 * where the prompt is taken in blocks: the first s' positions stay from the first eviction on. Those that are out of
 * sight take nothing. So heads that together hold no more than their budgets have no more that compete than may stay.
 */
typedef struct lh_protection {
    int64_t budget;  /* at most what can be seen */
    int64_t sinks;   /* s' that can be seen */
    int64_t recents; /* r' */
    int64_t base;    /* budget - sinks - recents: what a head may keep of the competing entries, on average */
} lh_protection;

lh_protection lh_policy_protect(const lh_policy_numbers *fixed, const lh_protect_request *request);

/* Budgets of all layers (entries per KV head, protected ones included), exact in total. sliding: [layers] or NULL;
 * window: their keys; profile: the policy's, of layers. Where nothing is evicted (seen <= C): C for every layer, the
 * window at most for a sliding one. By a profile: N * C entries in proportion to the weights, a layer whose part would
 * be less than one entry gets one; what rounding leaves goes to the largest remainders, ties to the lower layer; what a
 * layer cannot hold goes one each to layers 0, 1, ... that have room. */
typedef struct lh_layers_request {
    int64_t layers, seen, window;
    const uint8_t *sliding;
    const lh_profile *profile;
} lh_layers_request;

void lh_policy_layers(const lh_policy_numbers *fixed, const lh_layers_request *request, int64_t *budgets);

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
 * score (std-scope: by the deviation); the second stage takes the others. topk: all of them. */
lh_stage lh_policy_stage(const lh_policy_numbers *fixed, const lh_protection *protect);

/* Adaptive heads: what each keeps beside its share of the best entries of all heads, and that share. floor: its own
 * best so many before the heads compete, as far as it has them. interp (AdaKV, arXiv 2407.11550, algorithm 1): `sure`
 * more, whichever they are. */
typedef struct lh_safety {
    int64_t floor, sure;
    lh_fraction share;
} lh_safety;

lh_safety lh_policy_safety(const lh_policy_numbers *fixed, const lh_protection *protect);

#endif
