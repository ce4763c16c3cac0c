/* budgets.h - a policy's numbers for one prompt: every share is an integer here, and budgets are divided exactly among
 * layers, heads and the stages of the selection. The cache stores these numbers with the policy. */
#ifndef LH_POLICIES_BUDGETS_H
#define LH_POLICIES_BUDGETS_H

#include "policies/policy.h"

/* may_evict_again: 1 unless the policy evicts only at the end of a prompt of any length. records: 1 if every statistic
 * of attention is accumulated, for a trace, and not only the score's. */
typedef struct lh_policy_numbers {
    int evicts, may_evict_again, records;
    lh_policy_score score;
    lh_policy_shape shape;
    lh_policy_division budgets;
    lh_policy_selection select;
    lh_policy_methods methods;
    lh_position_mode positions;
    int64_t budget; /* entries per KV head; `full`: the tokens of the prompt */
    int64_t rows,
        first_rows;  /* observed rows, and the number of them at the beginning of the prompt; the rest is at its end */
    int rows_spread; /* 1: over the whole prompt, else at its end */
    int64_t window, sinks, recents, chosen; /* chosen: entries that methods protect (lh_protection) */
    int64_t every, block;
} lh_policy_numbers;

/* The numbers for a prompt of `tokens` tokens: budget, rows and protected entries; proxies become rows and window (P =
 * max(1, min(floor(L * p / 100), floor(C / 4))), or the question's tokens for the share of L; NaCl, arXiv 2408.03675),
 * and then there are at most P / 2 sinks. At both ends (appendix A.3) P / 2 of the proxies are the first rows and the
 * sinks, and the rest is the window. A prompt that is not longer than the budget is not prefilled in blocks. */
lh_policy_numbers lh_policy_fix(const lh_policy *policy, int64_t tokens);

/* No policy: the statistics that a trace records of the last `rows` rows of a prompt of `tokens` tokens, layer by
 * layer. Includes norms of projected values. */
lh_policy_numbers lh_policy_recording(int64_t rows, int64_t tokens);

/* Maximum number of reference rows of curves and fits after `tokens` tokens: the largest power of two from 64 to
 * LH_REFERENCE_ROWS with a product with the tokens of at most 2^19. More rows are nearer to the full cache, but their
 * cost grows with the tokens that they see. Powers of two are among the rows of a trace (lh_policy_spread_row). */
enum { LH_REFERENCE_ROWS = 256 };
int64_t lh_policy_reference_rows(int64_t tokens);

/* Number of query rows to observe after `seen` tokens, at most `seen`; 0 where neither scores nor references need any,
 * and at most lh_policy_reference_rows where only references do. With proxies: P. */
int64_t lh_policy_rows(const lh_policy_numbers *fixed, int64_t seen);

/* True if reference queries (LH_REFERENCES) are separate from the scoring queries, which see only earlier entries. */
int lh_refers_apart(const lh_policy_numbers *fixed);

/* The r-th of `rows` rows that are spread evenly over `tokens` tokens, rows <= tokens: the last of each share of them.
 * So the rows of a divisor of `rows` are a subset of these rows. */
int64_t lh_policy_spread_row(int64_t tokens, int64_t rows, int64_t r);

/* The row of the prompt that is the r-th of them, r < lh_policy_rows, and the position from which it scores: its own,
 * or after the prompt, spread over 256 positions (DapQ, arXiv 2603.11564: the position of a query predicts its
 * attention better than its content). */
int64_t lh_policy_row_of(const lh_policy_numbers *fixed, int64_t seen, int64_t r);
int64_t lh_policy_row_at(const lh_policy_numbers *fixed, int64_t seen, int64_t r);

/* Where the r-th of `rows` rows is that look from after `seen` tokens. */
int64_t lh_policy_row_after(int64_t seen, int64_t rows, int64_t r);

/* The number of separate reference rows: lh_policy_reference_rows of the prompt, spread over it, at most `seen`, with
 * positions after it; 0 if the policy has none. */
int64_t lh_policy_references(const lh_policy_numbers *fixed, int64_t seen);
int64_t lh_policy_reference_of(const lh_policy_numbers *fixed, int64_t seen, int64_t r);
int64_t lh_policy_reference_at(const lh_policy_numbers *fixed, int64_t seen, int64_t r);

/* State of a layer at an eviction: its budget, and `seen` tokens; the next row does not see tokens before
 * `visible_from` (0 except in sliding layers). block: tokens of the next block of the prompt; as many entries must be
 * freed. */
typedef struct lh_protect_request {
    int64_t budget, seen, visible_from, block;
} lh_protect_request;

/* The budget of a layer, divided into protected and competing entries. s' = min(s, C), or C less a block if the
 * prompt is prefilled in blocks: the first s' positions are kept from the first eviction on; those outside a
 * sliding window do not count. So protected entries are never missing, and heads that hold no more than their
 * budgets lose nothing. */
typedef struct lh_protection {
    int64_t budget;  /* at most the visible entries */
    int64_t sinks;   /* s' that are visible */
    int64_t recents; /* r' */
    int64_t chosen;  /* entries that methods protect in every head, such as the largest values */
    int64_t base;    /* rest of the budget: competing entries that a head keeps, on average */
} lh_protection;

lh_protection lh_policy_protect(const lh_policy_numbers *fixed, const lh_protect_request *request);

/* 1 where the budget is not filled by position alone. */
int lh_protection_ranks(const lh_protection *protect);

/* Budgets of all layers (entries per KV head, protected ones included), exact in total. sliding: [layers] or NULL;
 * window: their keys; profile: the policy's, of layers. Where nothing is evicted (seen <= C): C for every layer, the
 * window at most for a sliding one. By a profile: N * C entries in proportion to the weights, at least one per layer;
 * what rounding leaves goes to the largest remainders, ties to the lower layer; what exceeds a layer's capacity goes
 * one by one to layers 0, 1, ... that have room. By learnt shares: each layer has the protected entries of a uniform
 * budget, or a quarter of C if that is more, and the rest is divided in the same way; where evictions follow after
 * the prompt, a layer can get more than was seen, and holds it when the sequence is long enough. */
typedef struct lh_layers_request {
    int64_t layers, seen, window;
    const uint8_t *sliding;
    const lh_profile *profile;
    const int64_t *shares; /* [layers] learnt shares, below 10^18 and not all 0 */
} lh_layers_request;

void lh_policy_layers(const lh_policy_numbers *fixed, const lh_layers_request *request, int64_t *budgets);

/* One layer's budget divided among its heads by a profile, in the same way: heads * budget entries, each head at least
 * its protected ones and one entry, at most the entries it holds. room[h]: competing entries held; budgets[h]: those
 * that stay. All heads of the layer, in global order. */
typedef struct lh_heads_request {
    int64_t layer, heads;
    const lh_protection *protect;
    const int64_t *room;
    const lh_profile *profile;
} lh_heads_request;

void lh_policy_heads(const lh_heads_request *request, int64_t *budgets);

/* Number of the competing entries kept by a head that the first stage of the selection takes (lh_stage_of), by score
 * (std-scope: by deviation); the second stage selects the rest. topk: all of them. */
lh_stage lh_policy_stage(const lh_policy_numbers *fixed, const lh_protection *protect);

/* Safeguard of adaptive heads, in addition to each head's share of the best entries of all heads. floor: its own best
 * entries, taken before the heads compete. bonus: entries added to its share (interp: AdaKV, arXiv 2407.11550,
 * algorithm 1). */
typedef struct lh_safety {
    int64_t floor, bonus;
    lh_fraction share;
} lh_safety;

lh_safety lh_policy_safety(const lh_policy_numbers *fixed, const lh_protection *protect);

#endif
