/* evict_impl.h - the evictor, and what the files of this room call of each other. */
#ifndef LH_EVICT_EVICT_IMPL_H
#define LH_EVICT_EVICT_IMPL_H

#include "base/mem.h"
#include "base/minmax.h"
#include "evict/rows_check.h"
#include "evict/score_source.h"
#include "evict/workspace.h"
#include "exec/gather.h"

/* Rows as they are counted: q with all query heads of this rank's KV heads. */
typedef struct lh_row_block {
    lh_query_rows rows;
    int64_t lse_ld;
    float *own;           /* where a single row's own log-sum-exps go, in place of rows.lse */
    const int32_t *until; /* the last position that a row sees, where it is not its own */
    const float *gains;
} lh_row_block;

/* Where [kv_count, ld] is by which the first stage ranks, heads compete, and the second stage ranks (LH_SPACE_PARTS:
 * one stage). */
typedef struct lh_stage_scores {
    lh_space_part first, heads, second;
} lh_stage_scores;

/* Numbers of this rank's heads, on the device: those of each layer [kv_count], `step` apart. */
typedef struct lh_counts {
    const int64_t *at;
    int64_t step;
} lh_counts;

struct lh_evictor {
    lh_exec exec;
    lh_evict_shape shape;
    lh_policy_numbers policy;
    lh_entry_stats stats;
    const lh_profile *head_profile;
    int64_t prompt_tokens;
    uint64_t seed;
    lh_evict_listener listener;
    void *at[LH_SPACE_PARTS];          /* of the layer in use */
    int64_t bytes[LH_SPACE_PARTS];     /* of `at`, of one layer */
    int64_t ld, layers, layer;         /* layers: at once; the one in use */
    lh_stage_scores stages;            /* of the layers that were scored */
    lh_ragged views[LH_EVICT_AT_ONCE]; /* of the layers that are evicted at once */
    lh_row_block scoring, references;  /* rows of this eviction, once they are where they look from; q NULL: not yet */
    lh_gather gather;
    int64_t *budgets; /* host, [kv_heads of the model] */
    int64_t *planned; /* host, [LH_EVICT_AT_ONCE, kv_count] */
    lh_counts counts; /* competing entries that stay */
    lh_rows_check check;
    int64_t summary_bytes; /* that this rank has sent */
};

/* ---- query rows on their way to the columns (query_rows.c) ---- */

/* This rank's query heads among those of the row space (evictor.c). */
float *lh_own_q(const lh_evictor *ev, int64_t rows);
float *lh_own_lse(const lh_evictor *ev, int64_t rows);

/* Collective where groups are split; then q and lse lie in lh_own_q and lh_own_lse. Rows with all query heads of this
 * rank's KV heads, and their log-sum-exps: those given, or their own where there are none, the policy has a gain, or it
 * is not causal. */
lh_row_block lh_join_rows(lh_evictor *ev, const lh_evict_job *job, const lh_query_rows *own);

/* ---- columns that rows are counted in (columns.c) ---- */

typedef struct lh_columns {
    lh_slot_floats sums, squares, largest, counts; /* at NULL: not wanted */
    int64_t parts;
    int each_head; /* 1: squares and largest are of the weights of each query head, and not of their mean */
} lh_columns;

lh_logit lh_logit_of(const lh_evictor *ev, const lh_evict_job *job);
void lh_count_columns(lh_evictor *ev, const lh_evict_job *job, const lh_row_block *b, const lh_columns *to);

/* One call of column_stats: args has the columns, the heads and the normalisers, b the rest. */
void lh_run_column_stats(lh_evictor *ev, const lh_evict_job *job, const lh_row_block *b, lh_column_stats_args *args);

/* What was counted in `from`, as scores in LH_SPACE_RAW; first_row: the first that was counted, `squares` of std-scope.
 */
void lh_finish_statistics(lh_evictor *ev, const lh_evict_job *job, const lh_columns *from, int64_t first_row);

/* ---- KV heads that lie on several ranks (split_groups.c) ---- */

/* Collective. `blocks` of all ranks (device), in place, `head_bytes` a query head. */
void lh_exchange_heads(lh_evictor *ev, void *blocks, int64_t head_bytes);

/* Collective. Rows of this rank's query heads -> all query heads of its KV heads. */
void lh_gather_groups(lh_evictor *ev, const lh_query_rows *own, lh_row_block *out);

/* A slice of rows goes to lh_own_q and, where log-sum-exps are known, lh_own_lse. */
void lh_take_rows(lh_evictor *ev, lh_query_rows *rows);

/* Of every KV head the columns that are this rank's share are counted, all where no other rank has the head; then
 * (collective) ranks exchange them. */
void lh_count_shares(lh_evictor *ev, const lh_evict_job *job, const lh_row_block *b, const lh_columns *to);
void lh_exchange_columns(lh_evictor *ev, const lh_evict_job *job);

/* Bytes that all ranks together exchange of shared KV heads, `floats` a column of `ld`. */
int64_t lh_exchanged_bytes(const lh_heads *heads, int64_t floats, int64_t ld);

/* ---- from scores to the mask ---- */

/* The scores and the mask of a layer lie after those of the layers before it (LH_SPACE_LAYER_PARTS): `at` becomes that
 * of one of them, the layer in use (evictor.c). */
void lh_evict_use_layer(lh_evictor *ev, int64_t layer);

/* shape.c: the source's scores pooled, joined over the group, weighed; returns where they are. */
lh_space_part lh_shape_scores(lh_evictor *ev, const lh_evict_job *job);
/* x, y: [kv_count * parts, ld]. Competing entries alone: what is protected never leaks in. */
void lh_pool_entries(lh_evictor *ev, const lh_evict_job *job, const lh_pool_args *of);
void lh_join_group(lh_evictor *ev, const lh_evict_job *job, const float *x, float *y);

/* joint_heads.c. Collective. The same scores for all heads of each of n layers, in place. */
void lh_join_heads(lh_evictor *ev, const lh_evict_job *jobs, int64_t n, lh_space_part by);

/* stages.c: what each stage of the selection ranks by. And the masks of n layers, by the counts. */
lh_stage_scores lh_make_stages(lh_evictor *ev, const lh_evict_job *job, lh_space_part scores);
void lh_mark_stages(lh_evictor *ev, const lh_evict_job *jobs, int64_t n);

/* mask.c: the entries of several layers, side by side, of all heads of this rank or of those that it counts. And: so
 * many competing entries of each of their heads stay, the best by the scores in `by`; what becomes of the others:
 * `others`. From the layer in use on. */
const lh_ragged *lh_views_of(lh_evictor *ev, const lh_evict_job *jobs, int64_t n);
const lh_ragged *lh_counted_views_of(lh_evictor *ev, const lh_evict_job *jobs, int64_t n);
void lh_mark_best(lh_evictor *ev, const lh_evict_job *jobs, int64_t n, lh_space_part by, lh_counts counts,
                  lh_entry_state others);

/* adaptive_heads.c. Collective. AdaKV's selection over the heads of each of n layers, which were scored: the counts. */
void lh_adaptive_counts(lh_evictor *ev, const lh_evict_job *jobs, int64_t n);

lh_draw lh_draw_of(const lh_evictor *ev, const lh_evict_job *job);

#endif
