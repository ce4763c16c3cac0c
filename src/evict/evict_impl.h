/* evict_impl.h - the evictor, and the calls between the files of this folder. */
#ifndef LH_EVICT_EVICT_IMPL_H
#define LH_EVICT_EVICT_IMPL_H

#include "base/mem.h"
#include "base/minmax.h"
#include "evict/score_source.h"
#include "exec/heads.h"
#include "exec/scratch.h"

enum { LH_ROWS_AT_ONCE = 512 }; /* max. rows of an update of running statistics */

/* The check that the log-sum-exps of a prompt's rows are finite: one NaN among the weights makes every score of a row
 * NaN, and maxima would hide it. The device notes it as the rows pass, so that the host waits once a layer. */
typedef struct lh_rows_check {
    int32_t *wrong; /* device: 1 if any log-sum-exp was not finite */
    int32_t *known; /* host: a copy */
} lh_rows_check;

/* Rows for counting: q with all query heads of this rank's KV heads. */
typedef struct lh_row_block {
    lh_query_rows rows;
    int64_t lse_ld;
    float *own;           /* output of a single row's log-sum-exps, if rows.lse is NULL */
    const int32_t *until; /* the last position that a row sees; NULL: its own */
    const float *gains;
} lh_row_block;

/* Scores of the layers of an eviction, [kv_count, ld] each, with a stride of `step` floats. at NULL: no scores. */
typedef struct lh_scores {
    float *at;
    int64_t step;
} lh_scores;

/* The scores for the first stage, the competition of heads, and the second stage (at NULL: one stage). */
typedef struct lh_stage_scores {
    lh_scores first, heads, second;
} lh_stage_scores;

/* The functions of a selection. stages: makes the scores of the second stage, or changes the scores of the first stage.
 */
typedef struct lh_selection {
    void (*stages)(lh_evictor *evictor, const lh_evict_job *job, lh_stage_scores *by);
} lh_selection;

/* The functions of an addition. Members that are NULL have nothing to do. */
typedef struct lh_addition {
    void (*stats)(lh_entry_stats *stats); /* as of a source */
    /* the norms of the last `entries` of every head, into their numbers */
    void (*make_norms)(lh_evictor *evictor, const lh_evict_job *job, int64_t entries);
    void (*alter)(lh_evictor *evictor, const lh_evict_job *job, lh_row_block *rows); /* scoring rows */
    void (*protect)(lh_evictor *evictor, const lh_evict_job *job);                   /* marks kept entries */
    void (*weigh)(lh_evictor *evictor, const lh_evict_job *job, float *scores); /* pooled and joined, [kv_count, ld] */
} lh_addition;

/* NULL if the policy does not use the method, or it has no such functions. */
const lh_addition *lh_addition_of(const lh_policy_numbers *policy, lh_method_id id);

/* Counts of this rank's heads, on the device: [kv_count] of each layer, with stride `step`. */
typedef struct lh_counts {
    const int64_t *at;
    int64_t step;
} lh_counts;

/* Query rows of a prompt that are kept as they pass (kept_rows.c), or rows of a ring. */
typedef struct lh_row_store {
    float *q, *lse;     /* [rows, q_count, head_dim], [rows, q_count] */
    int32_t *positions; /* [rows] */
    float *hidden;      /* [rows, hidden]; NULL: the score does not read it */
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
    void *sums;                        /* of the policy's source, from the first row of a layer to its eviction */
    float *logits;                     /* [kv_count x group, ld] of the row of a decode step */
    int64_t row_bytes, eviction_bytes; /* of the scratch stack: of rows that pass, and of evictions */
    int64_t max_ld, layers;            /* max. slots of a head, and layers of an eviction */
    int64_t ld;                        /* slots of a head in the arrays of the eviction under way: max_ld, or fewer */
    int64_t layer;                     /* the layer of the eviction that is being scored */
    uint8_t *state;                    /* [layers, kv_count, ld] lh_entry_state */
    lh_scores raw;                     /* [kv_count x parts, ld] of each layer: as the source makes them */
    lh_scores shaped, second, loss_gains; /* pooled raw scores; of the second stage; gains of losses */
    int64_t scoring_mark;                 /* of the scratch stack, before the temporaries of a layer's scores */
    lh_stage_scores stages;               /* of the layers that were scored */
    lh_ragged views[LH_EVICT_AT_ONCE];    /* of the layers of an eviction */
    lh_row_block scoring, references;     /* rows of this eviction at their positions; q NULL: not yet */
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

/* A position of row r (budgets.h); and the positions of n rows, on the scratch stack. */
typedef int64_t lh_row_position(const lh_policy_numbers *fixed, int64_t seen, int64_t r);
int32_t *lh_put_row_positions(lh_evictor *ev, lh_row_position *of, int64_t seen, int64_t n);

/* lse = the log-sum-exps of a block's rows over the entries of the job, [tokens, query heads]. */
void lh_find_normalisers(lh_evictor *ev, const lh_evict_job *job, const lh_row_block *b, float *lse);

/* The rows from row `at` on, at most LH_ROWS_AT_ONCE of them. */
lh_query_rows lh_rows_from(const lh_evictor *ev, const lh_query_rows *rows, int64_t at);

/* Collective where groups are split; then q and lse of `own` have no gaps. Rows with all query heads of this rank's KV
 * heads, and their log-sum-exps: the given ones, or new ones if none are given, the policy has a gain, or it is not
 * causal. New arrays lie on the scratch stack. */
lh_row_block lh_join_rows(lh_evictor *ev, const lh_evict_job *job, const lh_query_rows *own);

/* ---- kept rows (kept_rows.c) ---- */

/* Collective where groups are split. The scoring rows, ready for counting (query_rows.c): the rows of the job (of a
 * ring or a trace, at the positions of the policy) or the kept rows; with '--rows-at after' rotated to positions after
 * the prompt, from which they see other entries. */
lh_row_block lh_scoring_rows(lh_evictor *ev, const lh_evict_job *job);

/* Collective where groups are split, at the first call of an eviction. The reference queries of a fit, of loss curves
 * and of scores that are interleaved: the scoring rows, if they score from after the prompt, thinned evenly to at most
 * lh_policy_reference_rows; else separate rows of the store or of the job, rotated to after the prompt. */
lh_row_block lh_reference_rows(lh_evictor *ev, const lh_evict_job *job);

/* Reference queries that are drawn (drawn_queries.c), and their number; on the scratch stack. */
lh_row_block lh_drawn_references(lh_evictor *ev, const lh_evict_job *job);
enum { LH_DRAWN_REFERENCES = 128 };

/* The outputs of `rows` reference queries over all entries (references.c): [kv_count, head_dim + 1, group x rows]
 * (fit.h), for the curves or the fit to fill. */
float *lh_reference_outputs(lh_evictor *ev, int64_t rows);

/* ---- columns that rows are counted in (columns.c) ---- */

/* The column that a statistic of attention counts for every entry, and the score of the column. */
typedef enum lh_column_kind { LH_COLUMN_SUMS, LH_COLUMN_COUNTS, LH_COLUMN_SQUARES, LH_COLUMN_LARGEST } lh_column_kind;
typedef struct lh_statistic {
    lh_column_kind column;
    lh_finish_kind finish;
    int per_row, per_head; /* true if it is divided by the rows; by the query heads of a group */
} lh_statistic;

/* LH_EUSAGE if there is no row to score. A check of statistics of attention. */
lh_status lh_check_scoring_rows(const lh_policy *policy);

/* 1, or the group where query heads are joined by their maximum, or after the pool. */
int64_t lh_attention_parts(const lh_policy_numbers *policy, const lh_heads *heads);

typedef struct lh_columns {
    lh_slot_floats sums, squares, largest, counts; /* at NULL: not wanted */
    int64_t parts;
    int64_t first; /* the first slot that is counted */
    int each_head; /* 1: squares and largest are of the weights of each query head, not of the group's mean weight */
} lh_columns;

lh_logit lh_logit_of(const lh_evictor *ev, const lh_evict_job *job);
void lh_count_columns(lh_evictor *ev, const lh_evict_job *job, const lh_row_block *b, const lh_columns *to);

/* One call of column_stats: args has the columns, the heads and the normalisers, b the rest. */
void lh_run_column_stats(lh_evictor *ev, const lh_evict_job *job, const lh_row_block *b, lh_column_stats_args *args);

/* scores = the scores of the columns `from`; first_row: the first row that was counted, `squares` of std-scope. */
void lh_finish_statistics(lh_evictor *ev, const lh_evict_job *job, const lh_columns *from, int64_t first_row,
                          float *scores);

/* ---- KV heads that lie on several ranks (split_groups.c) ---- */

/* Collective. all = the blocks of all ranks, `own` of this rank, `head_bytes` a query head. */
void lh_exchange_heads(lh_evictor *ev, const void *own, void *all, int64_t head_bytes);

/* Collective. Rows of this rank's query heads -> all query heads of its KV heads. */
void lh_gather_groups(lh_evictor *ev, const lh_query_rows *own, lh_row_block *out);

/* Copies rows, and log-sum-exps where they are known, to the scratch stack, without gaps; returns the new q. */
float *lh_copy_rows(lh_evictor *ev, lh_query_rows *rows);

/* Counts this rank's share of the columns of every KV head, all columns if no other rank has the head; then
 * (collective) ranks exchange them: scores [kv_count x parts, ld] and squares [kv_count, ld], or, both NULL, the
 * statistics of the entries. */
void lh_count_shares(lh_evictor *ev, const lh_evict_job *job, const lh_row_block *b, const lh_columns *to);
void lh_exchange_columns(lh_evictor *ev, const lh_evict_job *job, float *scores, float *squares);

/* ---- from scores to the mask ---- */

/* shape.c: the source's scores pooled, joined over the group, weighed. */
lh_scores lh_shape_scores(lh_evictor *ev, const lh_evict_job *job);
/* x, y: [kv_count * parts, ld]. Only competing entries: protected entries never enter a pool. */
void lh_pool_entries(lh_evictor *ev, const lh_evict_job *job, const lh_pool_args *of);
void lh_join_group(lh_evictor *ev, const lh_evict_job *job, const float *x, float *y);

/* The rotation of the cached keys: NULL after the prompt with '--positions slot', where keys are cached without it. */
const lh_rotation *lh_key_rotation(const lh_evictor *ev, const lh_evict_job *job);

/* source_linear.c: the learnt scores of all entries, [kv_count, ld]. */
void lh_linear_scores(lh_evictor *ev, const lh_evict_job *job, float *scores);

/* loss_curves.c. Collective where groups are split, and where layers compete. ev->loss_gains = the gain of each
 * competing entry, in the order of `scores` in each head. */
void lh_score_gains(lh_evictor *ev, const lh_evict_job *job, const float *scores);

/* mask.c: the entries of n layers, of all heads of this rank or of its counted heads. lh_mark_best marks the best
 * `counts` competing entries of every head, by the scores `by`; all other competing entries become `others`. */
const lh_ragged *lh_views_of(lh_evictor *ev, const lh_evict_job *jobs, int64_t n);
const lh_ragged *lh_counted_views_of(lh_evictor *ev, const lh_evict_job *jobs, int64_t n);
void lh_mark_best(lh_evictor *ev, const lh_evict_job *jobs, int64_t n, lh_scores by, lh_counts counts,
                  lh_entry_state others);

/* adaptive_heads.c. Collective. AdaKV's selection over the heads of each of n layers, which were scored: the counts. */
void lh_adaptive_counts(lh_evictor *ev, const lh_evict_job *jobs, int64_t n);

lh_draw lh_draw_of(const lh_evictor *ev, const lh_evict_job *job);

#endif
