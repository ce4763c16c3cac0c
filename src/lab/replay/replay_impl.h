/* replay_impl.h - a replay's state, and what its files call of each other. */
#ifndef LH_LAB_REPLAY_REPLAY_IMPL_H
#define LH_LAB_REPLAY_REPLAY_IMPL_H

#include "evict/counted_rows.h"
#include "lab/replay/replay.h"
#include "lab/replay/rerun.h"

/* A policy at a budget. */
typedef struct lh_replay_cell {
    const lh_policy *policy; /* own; NULL: the policy is not replayed at this budget */
    lh_policy own;           /* knows the question of the trace in work */
    lh_rerun rerun;          /* of the trace in work; none where layers are replayed one by one */
    int recorded, forced;    /* 1: it evicted while decoding in a trace of a run with this policy; with another one */
} lh_replay_cell;

/* The layer in work: its entries as operations see them, and what is kept of them. */
typedef struct lh_replay_layer {
    lh_trace_layer data;
    lh_ragged view;           /* borrows keys and values; no statistics */
    int64_t *offset, *len;    /* [kv_heads] */
    uint32_t *kept, *given;   /* as lh_layer_facts */
    lh_projection projection; /* borrows; w NULL: not recorded */
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

/* What the caller hears of: layers of this rank that are done, and those of each trace. */
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

/* layer.c: r->layer; 1 where the columns of layers are what a policy counts; and
 * a layer is done, which the caller hears of. */
lh_status lh_replay_open_layer(lh_replay *r, int64_t layer);
void lh_replay_layer_clear(lh_replay_layer *layer);
int lh_replay_columns_serve(const lh_replay *r, const lh_policy_numbers *numbers);
void lh_replay_step(lh_replay *r);

/* setup.c: policies, budgets and the oracle; whether the trace that is open has what they need, its question among it.
 */
lh_status lh_replay_set_up(lh_replay *r);
lh_status lh_replay_check(lh_replay *r);
lh_status lh_replay_choose_judges(lh_replay *r);
void lh_replay_clear_judges(lh_replay_rows *judges);
lh_replay_judge lh_replay_judge_of(const lh_trace_file *trace, lh_replay_judge wanted); /* not auto */
int lh_replay_is_oracle(const lh_replay *r, int64_t policy);

/* policy.c */
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
    lh_gathered_rows rows, references; /* observed, and beside them */
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

/* select.c: r->layer.kept of all policies. */
lh_status lh_replay_select(lh_replay *r);

/* rerun_plan.c: 1 where a policy is rerun over a whole trace, judged by rows after the prompt or not; what the trace
 * lacks for it, in words, NULL: nothing. Collective: all of them. */
int lh_rerun_needed(const lh_trace_file *trace, int after, const lh_policy *policy);
const char *lh_rerun_missing(const lh_trace_file *trace, const lh_policy *policy);
lh_status lh_replay_rerun_all(lh_replay *r);
lh_status lh_replay_tell_decoding(const lh_replay *r, char **out); /* in words */
void lh_replay_clear_reruns(lh_replay *r);

/* judge.c: outcomes of all policies of the layer, head by head, to the analyses. */
lh_status lh_replay_judge_layer(lh_replay *r);

/* keep.c: keep sets of the trace in work; of the layer in work; those of all ranks to all; to files (collective, both).
 */
lh_status lh_replay_open_keep_sets(lh_replay *r);
void lh_replay_close_keep_sets(lh_replay *r);
lh_status lh_replay_keep_layer(lh_replay *r);
lh_status lh_replay_share_keep_sets(lh_replay *r);
lh_status lh_replay_write_keep_sets(lh_replay *r);

/* next_token.c: LH_EUSAGE if the model cannot go on from the trace that is open; the next tokens of the trace in work
 * (collective). Without a model there is nothing to do. */
lh_status lh_replay_check_engine(const lh_replay *r);
lh_status lh_replay_continue(lh_replay *r);

/* figure_walk.c: the figures of all analyses in order, NULL after the last; w->index is their number so far. */
typedef struct lh_figure_walk {
    const lh_replay *replay;
    int64_t analysis, figure, index;
} lh_figure_walk;
const lh_analysis_figure *lh_replay_next_figure(lh_figure_walk *w);

/* texts.c: memory for the values of each trace; those of the trace in work, when all its layers are analysed
 * (collective); the table /replay/texts. */
lh_status lh_replay_open_texts(lh_replay *r);
void lh_replay_close_texts(lh_replay *r);
lh_status lh_replay_add_text(lh_replay *r, int64_t trace);
lh_status lh_replay_write_texts(const lh_replay *r, lh_h5 *h5);

/* results.c: room for the values of all figures; after the last trace, of all ranks (collective). */
lh_status lh_replay_open_values(lh_replay *r);
lh_status lh_replay_join_ranks(lh_replay *r);

/* Calls an analysis' function with its arrays. */
typedef struct lh_replay_event {
    const lh_layer_facts *layer;
    const lh_head_facts *head;
    const lh_outcome *outcome;
    const lh_continued *continued;
} lh_replay_event;
int lh_replay_judges(const lh_replay *r); /* 1: some analysis asks what evictions do to a layer */
lh_status lh_replay_tell(lh_replay *r, const lh_replay_event *event);

#endif
