/* evict_impl.h - the evictor, and what the files of this room call of each other. */
#ifndef LH_EVICT_EVICT_IMPL_H
#define LH_EVICT_EVICT_IMPL_H

#include "base/mem.h"
#include "base/minmax.h"
#include "evict/rows_check.h"
#include "evict/score_source.h"
#include "exec/heads.h"
#include "exec/scratch.h"

enum { LH_ROWS_AT_ONCE = 512 }; /* rows that are counted at a time while statistics go on */

/* Rows as they are counted: q with all query heads of this rank's KV heads. */
typedef struct lh_row_block {
    lh_query_rows rows;
    int64_t lse_ld;
    float *own;           /* where a single row's own log-sum-exps go, in place of rows.lse */
    const int32_t *until; /* the last position that a row sees, where it is not its own */
    const float *gains;
} lh_row_block;

/* Scores of the layers of an eviction, [kv_count, ld] each, `step` floats apart. at NULL: there are none. */
typedef struct lh_scores {
    float *at;
    int64_t step;
} lh_scores;

/* The scores by which the first stage ranks, heads compete, and the second stage ranks (at NULL: one stage). */
typedef struct lh_stage_scores {
    lh_scores first, heads, second;
} lh_stage_scores;

/* The functions of a selection. stages: makes the scores of the second stage, or changes those of the first. */
typedef struct lh_selection {
    void (*stages)(lh_evictor *evictor, const lh_evict_job *job, lh_stage_scores *by);
} lh_selection;

/* The functions of an addition. Members that are NULL have nothing to do. */
typedef struct lh_addition {
    void (*stats)(lh_entry_stats *stats); /* as of a source */
    /* the norms of the last `entries` of every head, into their numbers */
    void (*make_norms)(lh_evictor *evictor, const lh_evict_job *job, int64_t entries);
    void (*alter)(lh_evictor *evictor, const lh_evict_job *job, lh_row_block *rows); /* scoring rows */
    void (*protect)(lh_evictor *evictor, const lh_evict_job *job);                   /* marks entries that stay */
    void (*weigh)(lh_evictor *evictor, const lh_evict_job *job, float *scores); /* pooled and joined, [kv_count, ld] */
} lh_addition;

/* NULL if the policy does not use the method, or it has no such functions. */
const lh_addition *lh_addition_of(const lh_policy_numbers *policy, lh_method_id id);

/* Numbers of this rank's heads, on the device: those of each layer [kv_count], `step` apart. */
typedef struct lh_counts {
    const int64_t *at;
    int64_t step;
} lh_counts;

/* Query rows of a prompt that are kept as they pass (kept_rows.c), or rows of a ring. */
typedef struct lh_row_store {
    float *q, *lse;     /* [rows, q_count, head_dim], [rows, q_count] */
    int32_t *positions; /* [rows] */
    float *references;  /* [references, q_count, head_dim] separate reference queries */
} lh_row_store;

struct lh_evictor {
    lh_exec exec; /* with the scratch stack below */
    lh_scratch scratch;
    lh_evict_shape shape;
    lh_policy_numbers policy;
    lh_entry_stats stats;
    const lh_profile *head_profile;
    int64_t prompt_tokens;
    uint64_t seed;
    lh_evict_listener listener;
    lh_row_store store;
    void *sums;                           /* of the policy's source, from the first row of a layer to its eviction */
    float *logits;                        /* [kv_count x group, ld] of the row of a decode step */
    int64_t row_bytes, eviction_bytes;    /* of the scratch stack: of rows that pass, and of evictions */
    int64_t ld, layers;                   /* max. slots of a head, and layers of an eviction */
    int64_t layer;                        /* the layer of the eviction that is being scored */
    uint8_t *state;                       /* [layers, kv_count, ld] lh_entry_state */
    lh_scores raw;                        /* [kv_count x parts, ld] of each layer: as the source makes them */
    lh_scores shaped, second, loss_gains; /* pooled raw scores; of the second stage; gains of losses */
    int64_t scoring_mark;                 /* of the scratch stack, before the temporaries of a layer's scores */
    lh_stage_scores stages;               /* of the layers that were scored */
    lh_ragged views[LH_EVICT_AT_ONCE];    /* of the layers that are evicted at once */
    lh_row_block scoring, references;     /* rows of this eviction, moved to where they score from; q NULL: not yet */
    float *outputs;                       /* of the references (lh_reference_outputs); NULL: not yet */
    lh_gather gather;
    int64_t *budgets; /* host, [kv_heads of the model] */
    int64_t *planned; /* host, [LH_EVICT_AT_ONCE, kv_count] */
    lh_counts counts; /* competing entries that stay */
    lh_rows_check check;
    int64_t summary_bytes; /* that this rank has sent */
};

/* ---- the scratch stack ---- */

/* Reserves the stack for rows that pass and for evictions, by row_bytes and eviction_bytes, and ends the eviction under
 * way (evictor.c). */
lh_status lh_evictor_reserve(lh_evictor *ev);

float *lh_scratch_floats(const lh_evictor *ev, int64_t count);

/* Arrays of the layer that is being scored. */
float *lh_layer_scores(const lh_evictor *ev, lh_scores scores);
uint8_t *lh_layer_state(const lh_evictor *ev);

/* ---- query rows on their way to the columns (query_rows.c) ---- */

/* Collective where groups are split; then q and lse of `own` have no gaps. Rows with all query heads of this rank's KV
 * heads, and their log-sum-exps: those given, or their own where there are none, the policy has a gain, or it is not
 * causal. On the scratch stack where they are not those given. */
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

/* scores = what was counted in `from`; first_row: the first row that was counted, `squares` of std-scope. */
void lh_finish_statistics(lh_evictor *ev, const lh_evict_job *job, const lh_columns *from, int64_t first_row,
                          float *scores);

/* ---- KV heads that lie on several ranks (split_groups.c) ---- */

/* Collective. all = the blocks of all ranks, `own` of this rank, `head_bytes` a query head. */
void lh_exchange_heads(lh_evictor *ev, const void *own, void *all, int64_t head_bytes);

/* Collective. Rows of this rank's query heads -> all query heads of its KV heads. */
void lh_gather_groups(lh_evictor *ev, const lh_query_rows *own, lh_row_block *out);

/* Copies rows, and log-sum-exps where they are known, to the scratch stack, without gaps; returns the new q. */
float *lh_copy_rows(lh_evictor *ev, lh_query_rows *rows);

/* Of every KV head the columns that are this rank's share are counted, all where no other rank has the head; then
 * (collective) ranks exchange them: scores [kv_count x parts, ld] and squares [kv_count, ld], or, both NULL, the
 * statistics of the entries. */
void lh_count_shares(lh_evictor *ev, const lh_evict_job *job, const lh_row_block *b, const lh_columns *to);
void lh_exchange_columns(lh_evictor *ev, const lh_evict_job *job, float *scores, float *squares);

/* ---- from scores to the mask ---- */

/* shape.c: the source's scores pooled, joined over the group, weighed; returns where they are. */
lh_scores lh_shape_scores(lh_evictor *ev, const lh_evict_job *job);
/* x, y: [kv_count * parts, ld]. Competing entries alone: what is protected never leaks in. */
void lh_pool_entries(lh_evictor *ev, const lh_evict_job *job, const lh_pool_args *of);
void lh_join_group(lh_evictor *ev, const lh_evict_job *job, const float *x, float *y);

/* joint_heads.c. Collective. The same scores for all heads of each of n layers, in place. */
void lh_join_heads(lh_evictor *ev, const lh_evict_job *jobs, int64_t n, lh_scores by);

/* stages.c: the scores by which each stage of the selection ranks; and the masks of n layers, by the counts. */
lh_stage_scores lh_make_stages(lh_evictor *ev, const lh_evict_job *job, lh_scores by);
void lh_mark_stages(lh_evictor *ev, const lh_evict_job *jobs, int64_t n);

/* mask.c: the entries of several layers, side by side, of all heads of this rank or of those that it counts. And: so
 * many competing entries of each of their heads stay, the best by the scores `by`; the others become `others`. */
const lh_ragged *lh_views_of(lh_evictor *ev, const lh_evict_job *jobs, int64_t n);
const lh_ragged *lh_counted_views_of(lh_evictor *ev, const lh_evict_job *jobs, int64_t n);
void lh_mark_best(lh_evictor *ev, const lh_evict_job *jobs, int64_t n, lh_scores by, lh_counts counts,
                  lh_entry_state others);

/* adaptive_heads.c. Collective. AdaKV's selection over the heads of each of n layers, which were scored: the counts. */
void lh_adaptive_counts(lh_evictor *ev, const lh_evict_job *jobs, int64_t n);

lh_draw lh_draw_of(const lh_evictor *ev, const lh_evict_job *job);

#endif
