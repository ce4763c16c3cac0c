/* evict.h - the choice of the kept entries of a layer: arrays in, a keep mask out. An evictor knows heads, a policy's
 * numbers and an execution context; it knows no session, no model and no timeline, so that prefill, decoding, replay of
 * a trace and tests all call it.
 *
 * The steps of an eviction (select.c): classify the entries by position; score the competing entries by the policy's
 * source (score_source.h); shape the scores (shape.c); give every head its budget, over all ranks if heads compete
 * (adaptive_heads.c); mark the best entries, in one stage or two. Query rows reach the source as they pass
 * (lh_evict_rows), or with the job.
 *
 * Failures of work are latched by the execution context (exec.h), and the caller agrees on them. All ranks of the TP
 * group make collective calls in the same order. */
#ifndef LH_EVICT_EVICT_H
#define LH_EVICT_EVICT_H

#include "exec/exec.h"
#include "exec/heads.h"
#include "kernels/ops.h"
#include "policies/method.h"
#include "policies/profile.h"

/* ---- numbers of entries (methods.c) ---- */

/* The index of each number among the numbers that a policy stores with an entry; -1: not stored. */
typedef struct lh_entry_stats {
    int64_t score;         /* while layers compete: the score itself */
    int64_t counts;        /* rows that gave the entry more than their mean weight */
    int64_t sums;          /* sums of attention, `parts` of them */
    int64_t squares;       /* sums of squares */
    int64_t priors, norms; /* the squared norm of its value; the norm that weighs its score */
    int64_t parts;         /* separate numbers of an entry: 1, or the query heads of the group */
    int64_t count;         /* of all numbers */
} lh_entry_stats;

lh_entry_stats lh_entry_stats_of(const lh_policy_numbers *policy, const lh_heads *heads);

/* Separate scores of an entry until they are joined: 1, or the query heads of the group. */
int64_t lh_score_parts(const lh_policy_numbers *policy, const lh_heads *heads);

/* True if evictions continue after the end of prefill, or happen during it; and if they then observe query rows. */
int lh_evicts_again(const lh_policy_numbers *policy);
int lh_observes_again(const lh_policy_numbers *policy);

/* Last query rows that are kept while decoding, for evictions to read; 0: none. */
int64_t lh_ring_row_count(const lh_policy_numbers *policy);

/* True if the scores of an eviction read keys or values, not only numbers of entries. counted: true if the attention of
 * the observed rows has been counted before. */
int lh_scores_read_entries(const lh_policy_numbers *policy, int counted);

/* One of the numbers of a view, for operations; at NULL where `index` is -1. */
lh_slot_floats lh_stat_of(const lh_ragged *view, int64_t index);

/* [kv_count * parts, ld] as slot numbers; and slot numbers from KV head g on. */
lh_slot_floats lh_slot_rows(void *at, int64_t parts, int64_t ld);
lh_slot_floats lh_slots_from_head(lh_slot_floats f, int64_t g);

/* A view of KV head g alone. */
lh_ragged lh_one_head(const lh_ragged *view, int64_t g);

/* ---- input ---- */

/* What eviction needs to know of a model. */
typedef struct lh_evict_shape {
    lh_heads heads;
    int64_t head_dim, hidden;
    float scale, softcap;     /* of the logits */
    int64_t projection_bytes; /* of an output projection as plain numbers, if some have few bits, else 0 */
    int64_t layers;           /* for budgets over all of them */
    lh_order order;           /* of sums of products */
} lh_evict_shape;

/* The output projection of a layer, for policies that weigh entries by projected values: this rank's columns. */
typedef struct lh_projection {
    lh_matrix w;   /* [hidden, q_count * head_dim] */
    lh_dtype type; /* as which few bits are unpacked */
} lh_projection;

/* The projection as plain numbers; one of few bits is unpacked into scratch memory (exec/scratch.h). */
lh_matrix lh_evict_plain_projection(const lh_exec *exec, const lh_projection *projection, const lh_evict_shape *shape);

/* What an eviction needs of a layer of the model. */
typedef struct lh_evict_layer {
    int64_t index;
    int64_t window;                  /* keys that a row sees, in a sliding layer; 0: all */
    const lh_projection *projection; /* NULL: no policy needs it */
    const lh_rotation *rotation;
    const float *score_weights; /* device, [kv_count, lh_learnt_numbers(head_dim)]; NULL: no policy needs them */
} lh_evict_layer;

/* What 'longhaul learn' finds of a KV head: weights of the features of an entry (lh_feature_count); then the means and
 * the standard deviations of the channels of its queries before their rotation, [2, head_dim]; then its share of the
 * best entries of all heads and layers, or an even one where no entry was scored. */
int64_t lh_learnt_numbers(int64_t head_dim);

/* Query rows of this rank's query heads, rotated: q [tokens, q_count, head_dim] with q_ld. */
typedef struct lh_query_rows {
    const float *q;
    const float *lse;         /* [tokens, q_count] log-sum-exps over all keys that a row sees; NULL: not known */
    lh_row_logits logits;     /* of a single row, as attend_decode left them; at NULL: not known */
    const int32_t *positions; /* [tokens], device */
    int64_t first, tokens, first_rows; /* row r has position r if r < first_rows, else first + r */
    int64_t q_ld;
    const void *hidden; /* [tokens, hidden] input of the layer's projections; NULL: no policy reads it */
    lh_dtype hidden_type;
} lh_query_rows;

/* The attention of rows to the entries, counted before an eviction (counted_rows.h). */
typedef struct lh_counted_rows {
    float *sums; /* device, [kv_count x parts, ld] */
    int64_t ld;
    int64_t position; /* of the last row; -1: none */
} lh_counted_rows;

typedef enum lh_evict_phase { LH_EVICT_PREFILL, LH_EVICT_DECODE } lh_evict_phase;

/* One eviction, or the rows that pass before it. */
typedef struct lh_evict_job {
    lh_evict_phase phase;
    lh_evict_layer layer;
    const lh_ragged *entries; /* device */
    const int64_t *offset;    /* host, [kv_count]: of the heads; needed if KV heads lie on several ranks */
    int64_t seen, visible_from;
    lh_protection protect;
    int64_t cols;                    /* slots of the longest head of all ranks, or more */
    int64_t number;                  /* of evictions of this layer before it */
    int ranked;                      /* entries compete and not all of them stay */
    int scored;                      /* they are ranked by more than their position */
    const int64_t *room;             /* [kv_heads of the model] entries that compete; with a profile */
    const lh_query_rows *rows;       /* observed rows; NULL: the rows that lh_evict_rows kept */
    const lh_query_rows *references; /* separate reference queries; NULL: the kept ones */
    const lh_counted_rows *counted;  /* replaces the observation of rows; NULL: none */
    int64_t *normless;               /* entries without norms at the end of every head; 0 after the norms are made */
} lh_evict_job;

/* ---- the evictor ---- */

typedef struct lh_evictor lh_evictor;

/* The scores of an eviction on this rank: [kv_count, ld], of slots in the order of the view. Device memory, valid
 * during the call. */
typedef struct lh_evict_scores {
    const lh_ragged *view; /* before the eviction */
    const float *raw;      /* before pooling, NULL where nothing is pooled or heads are joined after it */
    const float *scores;   /* the ranked scores */
    const uint8_t *state;  /* lh_entry_state before the selection */
    int64_t ld;
} lh_evict_scores;

typedef struct lh_evict_listener {
    void *self;
    lh_status (*scored)(void *self, int64_t layer, const lh_evict_scores *scores); /* NULL: none */
} lh_evict_listener;

/* head_profile: of the policy, NULL: none; borrowed. */
lh_status lh_evictor_open(lh_evictor **out, const lh_exec *exec, const lh_evict_shape *shape,
                          const lh_profile *head_profile);
void lh_evictor_close(lh_evictor *evictor); /* NULL is fine */

/* The policy's numbers for a prompt of `tokens` tokens; before any call below. */
void lh_evictor_begin(lh_evictor *evictor, const lh_policy_numbers *policy, int64_t tokens);

/* The key of random choices, together with layer, KV head, position and number of the eviction. */
void lh_evictor_seed(lh_evictor *evictor, uint64_t seed);
void lh_evictor_listen(lh_evictor *evictor, const lh_evict_listener *listener);

/* Max. layers of an eviction, which share launches. */
enum { LH_EVICT_AT_ONCE = 8 };

/* The evictions at the end of a prompt, for the memory that they need. ranked, scored: of any layer (lh_evict_job). */
typedef struct lh_evict_need {
    int64_t ld; /* slots of the longest head */
    int ranked, scored;
    int counted;            /* statistics of a prompt are counted in columns of ranks and put together */
    lh_protection protect;  /* of the scored layer with the most kept entries */
    int64_t protected_kept; /* protected entries of each of its heads */
} lh_evict_need;

/* Memory, found by a dry run (memory.c): of the evictions at the end of a prompt; of the evictions after a prompt,
 * of `layers` layers together, with heads of up to `ld` slots; and of the query rows of a prompt of `tokens` tokens, or
 * (0) of decoding. No eviction may be under way. */
lh_status lh_evictor_alloc(lh_evictor *evictor, const lh_evict_need *need);
lh_status lh_evictor_alloc_steps(lh_evictor *evictor, int64_t ld, int64_t layers);
lh_status lh_evictor_alloc_rows(lh_evictor *evictor, int64_t tokens);
void lh_evictor_free(lh_evictor *evictor);
void lh_evictor_free_rows(lh_evictor *evictor);
int64_t lh_evictor_ld(const lh_evictor *evictor);

/* True if the rows of a phase are observed as they pass; scored: of the layer's eviction at the end of its prefill. And
 * the first position of a prompt with observed rows. */
int lh_evict_uses_rows(const lh_policy_numbers *policy, lh_evict_phase phase, int scored);
int64_t lh_evict_first_row(const lh_evictor *evictor);

/* AhaKV's step gain (arXiv 2506.03762, eq. 12) on logits that are scaled by 1 / sqrt(d) already, of a row that sees
 * `seen` tokens where `kept` entries stay: sqrt(2 ln(seen / kept)); 1 where nothing is evicted yet. */
float lh_step_gain(int64_t seen, int64_t kept);

/* Before a layer's first row; its rows; and the end of its prefill, where ranks exchange the counts of shared KV heads.
 * Collective where groups are split. */
void lh_evict_begin_layer(lh_evictor *evictor, const lh_evict_job *job);
void lh_evict_rows(lh_evictor *evictor, const lh_evict_job *job, const lh_query_rows *rows);
void lh_evict_end_layer(lh_evictor *evictor, const lh_evict_job *job);

/* Rows of probe tokens (policies/probes.h) that pass a layer, after all rows of the prompt. They score `count` entries
 * of every head of the job's view, from slot `slot` on: those of the prompt from position `first` on. attends_more:
 * true if the view lacks entries that the rows attended to, which the log-sum-exps include. Collective where groups are
 * split. */
typedef struct lh_probe_rows {
    lh_query_rows queries;
    int64_t slot, first, count;
    int attends_more;
} lh_probe_rows;
void lh_evict_probes(lh_evictor *evictor, const lh_evict_job *job, const lh_probe_rows *probes);

/* True if the rows of probe tokens score the entries. */
int lh_evict_uses_probes(const lh_policy_numbers *policy);

/* After lh_evict_end_layer and a wait for the stream: LH_EFILE if a log-sum-exp of the rows of the prompt that passed
 * was not finite: the weights are damaged. */
lh_status lh_evict_check_rows(const lh_evictor *evictor, int64_t layer);

/* Collective where groups are split. The norms that weigh scores, of the entries that have none yet: into their
 * numbers, by the policy. lh_evict_select does it itself. */
void lh_evict_make_norms(lh_evictor *evictor, const lh_evict_job *job);

/* Memory for the observed rows after `seen` tokens, and their positions; the caller fills q and lse. */
typedef struct lh_row_room {
    float *q, *lse;
    int32_t *positions; /* device */
    int64_t rows;
} lh_row_room;
lh_row_room lh_evict_row_room(lh_evictor *evictor, int64_t seen);
void lh_evict_put_positions(lh_evictor *evictor, const int32_t *positions, int64_t rows);

/* An eviction of n layers has three steps; all jobs have the same `ranked`, and if it is 0 the first step is the only
 * one. Its mask, scores and reference rows lie on the scratch stack until lh_evict_end.
 *
 * In the mask of each layer: what cannot be seen any more (DROP), is protected (KEEP) or competes. */
void lh_evict_classify(lh_evictor *evictor, const lh_evict_job *jobs, int64_t n);
void lh_evict_end(lh_evictor *evictor);

/* Collective where attention ranks and groups are split. Scores the competing entries of layer i; called for the layers
 * in order. The job's query rows and counted rows are read in this call only. */
void lh_evict_score(lh_evictor *evictor, const lh_evict_job *job, int64_t i);

/* Collective where heads compete and where they are joined. Completes the masks; counts[h] (n = 1; of
 * lh_device_alloc_host, NULL: not wanted) = max. competing entries that this rank's head h keeps, after the next wait
 * for the stream. */
void lh_evict_choose(lh_evictor *evictor, const lh_evict_job *jobs, int64_t n, int64_t *counts);

/* The three steps for one layer: collective where they are. */
void lh_evict_select(lh_evictor *evictor, const lh_evict_job *job, int64_t *counts);

/* The keep mask: state [layers of the eviction, kv_count, ld] lh_entry_state. */
typedef struct lh_keep {
    uint8_t *state;
    int64_t ld;
} lh_keep;
lh_keep lh_evict_keep(const lh_evictor *evictor);

/* Sets a given mask instead of lh_evict_select, until lh_evict_end: [kv_count, lh_evictor_ld] on the host. */
void lh_evict_put_keep(lh_evictor *evictor, const uint8_t *state);

/* The kept entries in their arena after lh_evict_select. */
typedef struct lh_evict_kept {
    const lh_ragged *entries;    /* with biases where the policy fits them */
    const int64_t *offset, *len; /* host, [kv_count] */
    const int64_t *before;       /* host, [kv_count]: entries of the job's view */
} lh_evict_kept;

/* The queries of a fit: rows after the prompt, of all query heads of this rank's KV heads, and their outputs over all
 * entries of the layer (fit.h). */
typedef struct lh_reference_queries {
    lh_evict_layer layer;
    const float *q, *lse;     /* device: [rows, kv_count x group, head_dim] with q_ld, [rows, kv_count x group] */
    const int32_t *positions; /* device: [rows] */
    float *outputs;           /* device: [kv_count, head_dim + 1, group x rows], where lh_evict_uses_outputs */
    int64_t rows, q_ld, lse_ld;
} lh_reference_queries;

/* The arrays of reference queries in one block of memory, which the caller frees at q. */
typedef struct lh_saved_queries {
    float *q, *lse, *outputs;
    int32_t *positions;
} lh_saved_queries;

/* True if the policy fits the kept entries of a job: at the end of a prompt, or at any eviction. */
int lh_evict_fits(const lh_evictor *evictor, const lh_evict_job *job);

/* True if biases of kept entries are fitted; and if values are. */
int lh_fits_bias(const lh_policy_methods *methods);
int lh_fits_values(const lh_policy_methods *methods);

/* Collective where groups are split. After the selection, before any entry of the job is evicted: valid until
 * lh_evict_end. lh_evict_save_queries copies them to new memory. */
lh_reference_queries lh_evict_reference_queries(lh_evictor *evictor, const lh_evict_job *job, const int64_t *len);
lh_status lh_evict_save_queries(const lh_evictor *evictor, lh_reference_queries *reference, lh_saved_queries *held);

/* Allocates that memory for `rows` rows; and makes the saved queries the reference queries. */
lh_status lh_evict_alloc_saved_queries(const lh_evictor *evictor, int64_t rows, lh_saved_queries *held);
void lh_evict_use_saved_queries(const lh_evictor *evictor, lh_reference_queries *reference,
                                const lh_saved_queries *held);

/* Number of reference queries after `seen` tokens; and true if their outputs are needed. */
int64_t lh_evict_reference_rows(const lh_evictor *evictor, int64_t seen);
int lh_evict_uses_outputs(const lh_evictor *evictor);

/* Fits biases and values of the kept entries, so that their attention output for the reference queries is close to the
 * output over all entries. */
void lh_evict_fit(lh_evictor *evictor, const lh_reference_queries *reference, const lh_evict_kept *kept);

/* Memory for the logits of a single row's attention: [kv_count x group, ld]. */
lh_row_logits lh_evict_row_logits(const lh_evictor *evictor);

int64_t lh_evict_summary_bytes(const lh_evictor *evictor); /* of score summaries, sent so far */

/* ---- layers that compete with each other (adaptive_heads.c) ---- */

/* A search for the number of competing entries that every head of the model keeps, over one layer or several. */
typedef struct lh_top_request {
    int64_t layers;
    int each_layer;           /* 1: the heads of each layer compete with each other; 0: the heads of all layers */
    const lh_evict_job *jobs; /* [layers] */
    const float *scores;      /* of the layers of an eviction; NULL: stored ones (lh_evict_show_scores) */
    int64_t scores_step;
    const lh_layer_limits *limits; /* host, [layers] */
    lh_fraction share;
} lh_top_request;

/* Collective. budgets (host): [layers, kv_heads of the model]; *threshold (host): its prefix is the score key of the
 * last of the best entries. Both of lh_device_alloc_host, after the next wait for the stream. Not while an eviction is
 * under way. */
void lh_evict_divide(lh_evictor *evictor, const lh_top_request *request, int64_t *budgets, lh_search *threshold);

/* While layers compete, scores are stored with their entries. lh_evict_keep_scores scores a layer and stores the
 * scores; lh_evict_show_scores makes the masks and the scores of n layers from the stored ones. Until lh_evict_end. */
void lh_evict_keep_scores(lh_evictor *evictor, const lh_evict_job *job);
void lh_evict_show_scores(lh_evictor *evictor, const lh_evict_job *jobs, int64_t n);

/* How many of n layers, at most LH_EVICT_AT_ONCE, can be shown together: the slots of their longest heads (cols) are no
 * more than those that memory was allocated for; at least 1. */
int64_t lh_evict_together(const lh_evictor *evictor, const lh_evict_job *jobs, int64_t n);

/* By the kept scores: marks the best competing entries of this rank's heads, as many as count_best finds with the key
 * and the limits of `from`, without a wait of the host. counts (host, [kv_count], of lh_device_alloc_host): their
 * numbers, after the next wait for the stream. And by the kept or shown scores: marks the best budgets[l,g] (host, [n,
 * kv_heads of the model]) competing entries of each head. */
void lh_evict_mark_from(lh_evictor *evictor, const lh_evict_job *job, const lh_count_best_args *from, int64_t *counts);
void lh_evict_mark(lh_evictor *evictor, const lh_evict_job *jobs, int64_t n, const int64_t *budgets);

#endif
