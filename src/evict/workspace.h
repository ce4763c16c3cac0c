/* workspace.h - the device memory that evictions work in: one table of parts, each as large as the policy, the phase
 * and the longest head make it, 0 where nobody needs it. */
#ifndef LH_EVICT_WORKSPACE_H
#define LH_EVICT_WORKSPACE_H

#include "evict/evict.h"

typedef enum lh_space_part {
    /* of an eviction, by the slots of the longest head (ld): those of each layer that is evicted at once */
    LH_SPACE_RAW,         /* [kv_count x parts, ld] f32: scores as their source makes them */
    LH_SPACE_SHAPED,      /* alike, pooled */
    LH_SPACE_SECOND,      /* [kv_count, ld] f32: scores of the second stage */
    LH_SPACE_ENTRY_GAINS, /* [kv_count, ld] f32: what entries gain, where heads compete by losses */
    LH_SPACE_STATE,       /* [kv_count, ld] lh_entry_state: the keep mask */
    /* and those that layers use one after the other, or all together */
    LH_SPACE_SQUARES,    /* [kv_count, ld] f32, where rows are observed again */
    LH_SPACE_PRIOR,      /* [2, kv_count, ld] f32 */
    LH_SPACE_NORMS,      /* [query heads + kv_count, ld] f32: norms of every query head (of all ranks where groups are
                            split), and their means */
    LH_SPACE_JOINT,      /* [layers at once, ld] int64: sums over heads; and f32: the largest scores */
    LH_SPACE_COUNTS,     /* [3, layers at once x kv_count] int64: to select; of both stages (split_counts) */
    LH_SPACE_HISTOGRAMS, /* [counted heads, layers, 2048] int32 */
    LH_SPACE_SUMMARY,    /* [ranks, contests, 2048 + 1] int32: the score summaries of all ranks */
    LH_SPACE_SEARCH,     /* [LH_SEARCH_ROUNDS, contests] lh_search */
    LH_SPACE_CANDIDATES, /* [kv_heads of the model, layers] lh_candidate_counts */
    LH_SPACE_LIMITS,     /* [layers] lh_layer_limits */
    LH_SPACE_BUDGETS,    /* [layers, kv_heads of the model] int64: competing entries that stay */
    LH_SPACE_LOGITS,     /* [kv_count x group, ld] f32: of the row that a decode step adds, where no group is split */
    LH_SPACE_COLUMNS,    /* columns that ranks observed of shared KV heads */
    LH_SPACE_TURNS,      /* the order of entries, where two scores take turns (turns.c) */
    LH_SPACE_CURVES,     /* what gains are made of (loss_curves.c) */
    LH_SPACE_KEYS,       /* what leverage scores make of a block of keys (source_leverage.c) */
    LH_SPACE_ERRORS,     /* what output errors are made of (source_output_error.c) */
    /* of observed rows. Where groups are split over ranks, Q and LSE hold the blocks of all ranks in their order, and
     * GROUP_* the same rows with all query heads of this rank's KV heads, one after the other. */
    LH_SPACE_Q,          /* [rows, q_count, head_dim] f32 */
    LH_SPACE_LSE,        /* [rows, q_count] f32 */
    LH_SPACE_GROUP_Q,    /* [rows, kv_count * group, head_dim] f32 */
    LH_SPACE_GROUP_LSE,  /* [rows, kv_count * group] f32: also where rows have a normaliser of their own */
    LH_SPACE_POSITIONS,  /* [rows] int32 */
    LH_SPACE_UNTIL,      /* [rows] int32: the last position that a row sees, where it is not its own */
    LH_SPACE_PLACES,     /* [rows] int32: where a row is in the prompt, where it scores from after it */
    LH_SPACE_REFERENCES, /* [references, q_count, head_dim] f32: rows that are looked from, beside those that score */
    LH_SPACE_REFERENCES_AT, /* [references] int32: from where */
    LH_SPACE_GAINS,         /* [rows] f32 */
    LH_SPACE_INVERSE,       /* [rotary / 2] f32: frequencies of the inverse rotation */
    LH_SPACE_OUTPUTS,       /* [kv_count, head_dim + 1, group x rows] f32: what rows saw in all entries (fit.h) */
    LH_SPACE_FIT,           /* work of a fit, by the longest head that stays */
    /* of expected attention */
    LH_SPACE_UNROTATED,   /* [LH_ROWS_AT_ONCE, q_count, head_dim] f32 */
    LH_SPACE_SUMS,        /* [q_count, head_dim] f64; where groups are split of all ranks, as above */
    LH_SPACE_PRODUCTS,    /* [q_count, head_dim, head_dim] f64 */
    LH_SPACE_MEANS,       /* [kv_count * group, head_dim] f32 */
    LH_SPACE_COVARIANCES, /* [kv_count * group, head_dim, head_dim] f32 */
    LH_SPACE_PARTS
} lh_space_part;

enum { LH_SPACE_LAYER_PARTS = LH_SPACE_SQUARES, LH_SPACE_FIRST_OF_ROWS = LH_SPACE_Q };
enum { LH_SUMMARY_BINS = 2048, LH_SEARCH_ROUNDS = 3 }; /* of the largest round: 11 bits */
enum { LH_ROWS_AT_ONCE = 512 };                        /* rows that are counted at a time while statistics go on */

/* What for: evictions of heads of up to `ld` slots, or rows. */
typedef struct lh_space_request {
    const lh_evict_shape *shape;
    const lh_policy_numbers *policy;
    lh_evict_need need;
    int64_t layers; /* that are evicted at once */
    int64_t tokens; /* rows of a prompt of so many tokens, or (0) of decoding */
    int steps;      /* 1: single rows are observed */
} lh_space_request;

/* Bytes of all parts; of those before LH_SPACE_LAYER_PARTS in each of the layers. */
void lh_space_sizes(const lh_space_request *request, int64_t bytes[LH_SPACE_PARTS]);

#endif
