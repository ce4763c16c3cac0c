/* replay_impl.h - a replay's state, and what its files call of each other. */
#ifndef LH_LAB_REPLAY_REPLAY_IMPL_H
#define LH_LAB_REPLAY_REPLAY_IMPL_H

#include "evict/counted_rows.h"
#include "lab/replay/replay.h"

/* A rerun: a run without its model: the keep sets of a policy over a whole trace. The prompt passes through kv/ layer
 * by layer, with recorded keys, values and query rows, then the rows after it, answer by answer and step by step:
 * layers compete and decoding evicts by the code of the engine. Query rows come from the recorded run (teacher
 * forcing): they are exact only if that run had the same policy. */
/* An entry that goes after the prompt. Rows are numbered over all answers. */
typedef struct lh_drop {
    int32_t row;   /* the first that does not see it any more; of the same answer, or one past its end */
    int32_t entry; /* a position of the prompt, or the tokens of the prompt and the entry's row */
} lh_drop;

/* All zero: none. */
typedef struct lh_rerun {
    int64_t layers, heads, answers;
    int64_t *kept_at; /* [layers * heads + 1] */
    int32_t *kept;    /* positions at the end of the prompt, ascending within a head */
    int64_t *drop_at; /* [answers * layers * heads + 1] */
    lh_drop *drops;
} lh_rerun;

void lh_rerun_clear(lh_rerun *rerun);

/* Entries that a head of a layer keeps at the end of the prompt, and entries that are evicted during each answer of
 * the trace. */
typedef struct lh_rerun_kept {
    const int32_t *positions;
    int64_t count;
} lh_rerun_kept;
typedef struct lh_rerun_drops {
    const lh_drop *at;
    int64_t count;
} lh_rerun_drops;
lh_rerun_kept lh_rerun_kept_of(const lh_rerun *rerun, int64_t layer, int64_t head);
lh_rerun_drops lh_rerun_drops_of(const lh_rerun *rerun, int64_t answer, int64_t layer, int64_t head);

/* A policy at a budget. */
typedef struct lh_replay_cell {
    const lh_policy *policy; /* own; NULL: the policy is not replayed at this budget */
    lh_policy own;           /* knows the question of the trace in work */
    lh_rerun rerun;          /* of the trace in work; none where layers are replayed one by one */
    int recorded, forced;    /* 1: it evicted while decoding in a trace of a run with this policy; with another one */
} lh_replay_cell;

/* The current layer: its entries as arguments of operations, and its keep sets. */
typedef struct lh_replay_layer {
    lh_trace_layer data;
    lh_ragged view;           /* borrows keys and values; no statistics */
    int64_t *offset, *len;    /* [kv_heads] */
    uint32_t *kept, *given;   /* as lh_layer_facts */
    lh_projection projection; /* borrows; w.data NULL: not recorded */
    float *projection_f32;    /* the same as f32, [hidden, heads * head_dim] */
    lh_rotation rotation;
} lh_replay_layer;

/* Reference rows of the trace in work: indices among the rows after the prompt, or of the prompt. */
typedef struct lh_replay_rows {
    int is_after;
    int64_t *at;     /* [n] */
    int64_t *answer; /* [n] after the prompt: of the answers that the trace has */
    int64_t n;
} lh_replay_rows;

/* Progress for the caller: finished layers of this rank, and layers of each trace. */
typedef struct lh_replay_progress {
    int64_t done, each;
} lh_replay_progress;

/* For the summary. */
typedef struct lh_replay_words {
    char *reference; /* what judged */
    char *decoding;  /* evictions after the prompt */
    json_t *traces;
} lh_replay_words;

/* What each trace shows by itself, of the figures that compare policies at budgets. */
typedef struct lh_replay_texts {
    int64_t figures;
    double *before;  /* [figures, policies, budgets, layers] sums over the heads of a layer, of the traces until now */
    double *values;  /* [traces, figures, policies, budgets] means over layers and heads; NAN: none */
    int64_t *tokens; /* [traces] of the prompt */
    uint8_t *filled; /* [traces, policies, budgets] lh_policy_is_filled */
} lh_replay_texts;

struct lh_replay {
    lh_replay_request request;
    lh_study study;
    char **names, **budgets; /* of the study */
    lh_replay_cell *cells;   /* [policies, budgets] */
    double **values;         /* of all figures of all analyses, in order */
    int64_t value_arrays;
    int64_t *analysed; /* [layers] traces that have the layer */
    lh_replay_texts texts;
    lh_device *device;
    lh_stream *stream;
    lh_comm *self;
    lh_comm *self_device;
    lh_exec exec;
    lh_trace_file trace;   /* in work */
    lh_replay_layer layer; /* in work */
    lh_replay_rows judges;
    lh_replay_words words;
    lh_keep_sets *keep_sets; /* [policies, budgets] of the trace in work; NULL: not wanted */
    lh_replay_progress progress;
    lh_replay_pace pace;
};

/* observe.c: r->layer; true if the recorded columns of layers are the statistics of a policy; and the report of a
 * finished layer. */
lh_status lh_replay_open_layer(lh_replay *r, int64_t layer);
void lh_replay_layer_clear(lh_replay_layer *layer);
int lh_replay_columns_serve(const lh_replay *r, const lh_policy_numbers *numbers);
void lh_replay_step(lh_replay *r);

/* setup.c: policies, budgets and the oracle; checks that the open trace has the data they need, including its
 * question. */
lh_status lh_replay_set_up(lh_replay *r);
lh_status lh_replay_check(lh_replay *r);
lh_status lh_replay_choose_judges(lh_replay *r);
void lh_replay_clear_judges(lh_replay_rows *judges);
lh_replay_judge lh_replay_judge_of(const lh_trace_file *trace, lh_replay_judge wanted); /* not auto */
int lh_replay_is_oracle(const lh_replay *r, int64_t policy);

/* observe.c */
lh_policy lh_replay_policy(const lh_policy *policy);

/* observe.c: what policy p observes of the layer. A watch belongs to one policy and lasts over its budgets. */
/* Recorded rows, one after the other. */
typedef struct lh_gathered_rows {
    float *q, *lse;
    int32_t *positions;
    int64_t rows;
} lh_gathered_rows;

typedef struct lh_replay_watch {
    int64_t policy; /* index in the study */
    lh_evictor *evictor;
    lh_policy_numbers numbers; /* of the last observation */
    lh_counted_rows counted;
    float *stats;                      /* [slots, stat_count] */
    lh_gathered_rows rows, references; /* observed rows, and reference queries */
    int64_t normless;
    int observed;
} lh_replay_watch;

lh_status lh_replay_watch_open(lh_replay_watch *w, const lh_replay *r, const lh_policy *policy, int64_t number);
void lh_replay_watch_close(lh_replay_watch *w, const lh_replay *r);

/* The job of the layer's eviction by these numbers, with all that was observed. view and rows: the caller's, for the
 * life of the job. */
typedef struct lh_replay_job {
    lh_evict_job job;
    lh_ragged view;
    lh_query_rows rows, references;
} lh_replay_job;
lh_status lh_replay_observe(lh_replay_watch *w, lh_replay *r, const lh_policy_numbers *numbers, lh_replay_job *job);

/* keep.c: r->layer.kept of all policies. */
lh_status lh_replay_select(lh_replay *r);

/* rerun_plan.c: true if a policy is rerun over a whole trace, with reference rows after the prompt or in it; the name
 * of data that the trace lacks for it, NULL: none. Collective: all reruns. */
int lh_rerun_needed(const lh_trace_file *trace, int after, const lh_policy *policy);
const char *lh_rerun_missing(const lh_trace_file *trace, const lh_policy *policy);
lh_status lh_replay_rerun_all(lh_replay *r);
lh_status lh_replay_log_decoding(const lh_replay *r, char **out); /* in words */
void lh_replay_clear_reruns(lh_replay *r);

/* judge.c: outcomes of all policies of the layer, head by head, to the analyses. */
lh_status lh_replay_judge_layer(lh_replay *r);

/* keep.c: keep sets of the current trace; of the current layer; all-gathered; written to files (both collective). */
lh_status lh_replay_open_keep_sets(lh_replay *r);
void lh_replay_close_keep_sets(lh_replay *r);
lh_status lh_replay_keep_layer(lh_replay *r);
lh_status lh_replay_share_keep_sets(lh_replay *r);
lh_status lh_replay_write_keep_sets(lh_replay *r);

/* next_token.c: LH_EUSAGE if the model cannot continue the open trace; the next tokens of the current trace
 * (collective). Without a model there is nothing to do. */
lh_status lh_replay_check_engine(const lh_replay *r);
lh_status lh_replay_continue(lh_replay *r);

/* texts.c: the figures of all analyses in order, NULL after the last; w->index is their number so far. */
typedef struct lh_figure_walk {
    const lh_replay *replay;
    int64_t analysis, figure, index;
} lh_figure_walk;
const lh_analysis_figure *lh_replay_next_figure(lh_figure_walk *w);

/* texts.c: memory for the values of each trace; the values of the current trace, after all its layers (collective);
 * the table /replay/texts. */
lh_status lh_replay_open_texts(lh_replay *r);
void lh_replay_close_texts(lh_replay *r);
lh_status lh_replay_add_text(lh_replay *r, int64_t trace);
lh_status lh_replay_write_texts(const lh_replay *r, lh_h5 *h5);

/* texts.c: room for the values of all figures; after the last trace, of all ranks (collective). */
lh_status lh_replay_open_values(lh_replay *r);
lh_status lh_replay_join_ranks(lh_replay *r);

/* Calls an analysis' function with its arrays. */
typedef struct lh_replay_event {
    const lh_layer_facts *layer;
    const lh_head_facts *head;
    const lh_outcome *outcome;
    const lh_continued *continued;
} lh_replay_event;
lh_status lh_replay_tell(lh_replay *r, const lh_replay_event *event);

/* ---- rerun ---- */

/* Several policies at budgets that are rerun in one pass over a trace, and the functions that the files
 * of the rerun share. */
typedef struct lh_rerun_group {
    lh_replay *replay;
    const int64_t *cells; /* [n] indices of replay->cells */
    lh_kv **caches;       /* [n] the prefill of the first fills all */
    int64_t n;
    int64_t answers, longest; /* of the trace; rows of the longest */
    /* [layers] what lasts over the prompt: rows after it, output projections, rotations */
    lh_trace_layer *layers;
    lh_projection *projections;
    lh_rotation *rotations;
    int64_t chunk;        /* tokens that go through a layer together */
    float *k, *v;         /* [chunk, kv_heads, head_dim] */
    float *outputs, *lse; /* [chunk, heads, head_dim], [chunk, heads] */
    int32_t *positions;   /* [chunk] */
    int32_t *marks;       /* [layers, kv_heads, prompt + longest]: the last row before which the entry was held */
} lh_rerun_group;

/* rerun_prompt.c: caches and work space; the prompt through all layers. Clear also after a failure. */
lh_status lh_rerun_open(lh_rerun_group *group);
void lh_rerun_close(lh_rerun_group *group);
lh_status lh_rerun_prompt(lh_rerun_group *group);

/* `tokens` tokens of a layer's entries into group->k and v, from an array with `all` tokens a head, or, by_token, with
 * the heads of a token adjacent. */
typedef struct lh_rerun_entries {
    const void *keys, *values;
    int64_t first, tokens, all;
    int by_token;
} lh_rerun_entries;
void lh_rerun_append(lh_rerun_group *group, const lh_rerun_entries *entries, int64_t position, lh_ragged *view);

/* rerun_steps.c: the rows after the prompt, through one cache; and its kept entries. */
lh_status lh_rerun_answers(lh_rerun_group *group, lh_kv *kv, lh_rerun *out);

#endif
