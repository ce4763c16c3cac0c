/* evict.h - which entries of a layer stay: arrays in, a keep mask out. An evictor knows heads, a policy's numbers and
 * an execution context; it knows no session, no model and no timeline, so that prefill, decoding, replay of a trace and
 * tests all call it.
 *
 * The way of one eviction (select.c): classify the entries by position; score those that compete by the policy's source
 * (score_source.h); shape the scores (shape.c); give every head its budget, over all ranks where heads compete
 * (adaptive_heads.c); mark the best, in one stage or two (stages.c). Query rows reach the source as they pass
 * (lh_evict_rows), or with the job.
 *
 * Nothing here returns a status: failures are latched by the execution context (exec.h), and the caller agrees on them.
 * Calls marked collective are made by all ranks of the TP group in the same order. */
#ifndef LH_EVICT_EVICT_H
#define LH_EVICT_EVICT_H

#include "evict/entry_stats.h"
#include "evict/job.h"
#include "policies/profile.h"

typedef struct lh_evictor lh_evictor;

/* The scores of one eviction on this rank: [kv_count, ld], of slots in the order of the view. Device memory, valid
 * during the call. */
typedef struct lh_evict_scores {
    const lh_ragged *view; /* before the eviction */
    const float *raw;      /* before pooling, NULL where nothing is pooled or heads are joined after it */
    const float *scores;   /* what is ranked */
    const uint8_t *state;  /* lh_entry_state before the selection */
    int64_t ld;
} lh_evict_scores;

typedef struct lh_evict_listener {
    void *self;
    lh_status (*scored)(void *self, int64_t layer, const lh_evict_scores *scores); /* NULL: nobody listens */
} lh_evict_listener;

/* head_profile: of the policy, NULL where it has none; borrowed. */
lh_status lh_evictor_open(lh_evictor **out, const lh_exec *exec, const lh_evict_shape *shape,
                          const lh_profile *head_profile);
void lh_evictor_close(lh_evictor *evictor); /* NULL is fine */

/* The policy's numbers for a prompt of `tokens` tokens; before any call below. */
void lh_evictor_begin(lh_evictor *evictor, const lh_policy_numbers *policy, int64_t tokens);

/* What random choices are keyed by, beside layer, KV head, position and eviction. */
void lh_evictor_seed(lh_evictor *evictor, uint64_t seed);
void lh_evictor_listen(lh_evictor *evictor, const lh_evict_listener *listener);

/* Layers that may be evicted at once, which share launches. */
enum { LH_EVICT_AT_ONCE = 8 };

/* The evictions at the end of a prompt, for the memory that they need. ranked, scored: of any layer (lh_evict_job). */
typedef struct lh_evict_need {
    int64_t ld; /* slots of the longest head */
    int ranked, scored;
    int counted;            /* statistics of a prompt are counted in columns of ranks and put together */
    lh_protection protect;  /* of the scored layer whose heads keep the most entries */
    int64_t protected_kept; /* protected entries of each of its heads */
} lh_evict_need;

/* Memory, found by a dry run (memory.c): of the evictions at the end of a prompt; of the evictions after a prompt,
 * of `layers` layers at once, with heads of up to `ld` slots; and of the query rows of a prompt of `tokens` tokens, or
 * (0) of decoding. No eviction may be under way. */
lh_status lh_evictor_alloc(lh_evictor *evictor, const lh_evict_need *need);
lh_status lh_evictor_alloc_steps(lh_evictor *evictor, int64_t ld, int64_t layers);
lh_status lh_evictor_alloc_rows(lh_evictor *evictor, int64_t tokens);
void lh_evictor_free(lh_evictor *evictor);
void lh_evictor_free_rows(lh_evictor *evictor);
int64_t lh_evictor_ld(const lh_evictor *evictor);

/* 1 where the rows of a phase are observed as they pass; `scored`: of the layer's eviction at the end of its prefill.
 * The first position of a prompt whose rows are. */
int lh_evict_uses_rows(const lh_policy_numbers *policy, lh_evict_phase phase, int scored);
int64_t lh_evict_first_row(const lh_evictor *evictor);

/* AhaKV's step gain (arXiv 2506.03762, eq. 12) on logits that are scaled by 1 / sqrt(d) already, of a row that sees
 * `seen` tokens where `kept` entries stay: sqrt(2 ln(seen / kept)); 1 where nothing is evicted yet. */
float lh_step_gain(int64_t seen, int64_t kept);

/* Before a layer's first row; its rows; and the end of its prefill, where ranks put together what they counted of
 * shared KV heads. Collective where groups are split. */
void lh_evict_begin_layer(lh_evictor *evictor, const lh_evict_job *job);
void lh_evict_rows(lh_evictor *evictor, const lh_evict_job *job, const lh_query_rows *rows);
void lh_evict_end_layer(lh_evictor *evictor, const lh_evict_job *job);

/* After lh_evict_end_layer and a wait for the stream: LH_EFILE if a log-sum-exp of the rows of the prompt that passed
 * was not finite: the weights are damaged. */
lh_status lh_evict_check_rows(const lh_evictor *evictor, int64_t layer);

/* Collective where groups are split. The norms that weigh scores, of the entries that have none yet: into their
 * numbers, by the policy. lh_evict_select does it itself. */
void lh_evict_make_norms(lh_evictor *evictor, const lh_evict_job *job);

/* Room for the rows that are observed when `seen` tokens were seen, and their positions; q and lse are the caller's to
 * fill. */
typedef struct lh_row_room {
    float *q, *lse;
    int32_t *positions; /* device */
    int64_t rows;
} lh_row_room;
lh_row_room lh_evict_row_room(lh_evictor *evictor, int64_t seen);
void lh_evict_put_positions(lh_evictor *evictor, const int32_t *positions, int64_t rows);

/* An eviction of one layer, or of n at once, is made in three steps; either all of the layers are `ranked` or none is,
 * and then the first step is all. Its mask, scores and reference rows lie on the scratch stack until lh_evict_end.
 *
 * In the mask of each layer: what cannot be seen any more (DROP), is protected (KEEP) or competes. */
void lh_evict_classify(lh_evictor *evictor, const lh_evict_job *jobs, int64_t n);
void lh_evict_end(lh_evictor *evictor);

/* Collective where attention ranks and groups are split. Scores the competing entries of layer i of them: of each, one
 * after the other. The job's query rows and counted rows are read in this call only. */
void lh_evict_score(lh_evictor *evictor, const lh_evict_job *job, int64_t i);

/* Collective where heads compete and where they are joined. The masks say what stays; counts[h]: competing entries of
 * this rank's head h of the only layer that stay, as far as there are so many, after the next wait for the stream.
 * counts: of lh_device_alloc_host; NULL: nobody has to know on the host. */
void lh_evict_choose(lh_evictor *evictor, const lh_evict_job *jobs, int64_t n, int64_t *counts);

/* The three steps for one layer: collective where they are. */
void lh_evict_select(lh_evictor *evictor, const lh_evict_job *job, int64_t *counts);

/* The keep mask: state [layers of the eviction, kv_count, ld] lh_entry_state. */
typedef struct lh_keep {
    uint8_t *state;
    int64_t ld;
} lh_keep;
lh_keep lh_evict_keep(const lh_evictor *evictor);

/* A mask made elsewhere, in place of lh_evict_select, until lh_evict_end: [kv_count, lh_evictor_ld] on the host. */
void lh_evict_put_keep(lh_evictor *evictor, const uint8_t *state);

/* The entries that stayed, where they went after lh_evict_select. */
typedef struct lh_evict_kept {
    const lh_ragged *entries;    /* with biases where the policy fits them */
    const int64_t *offset, *len; /* host, [kv_count] */
    const int64_t *before;       /* host, [kv_count]: entries of the job's view */
} lh_evict_kept;

/* What a fit looks from: rows after the prompt, of all query heads of this rank's KV heads, and what they put out over
 * all entries of the layer (fit.h). */
typedef struct lh_evict_reference {
    lh_evict_layer layer;
    const float *q, *lse;     /* device: [rows, kv_count x group, head_dim] with q_ld, [rows, kv_count x group] */
    const int32_t *positions; /* device: [rows] */
    float *outputs;           /* device: [kv_count, head_dim + 1, group x rows], where lh_evict_uses_outputs */
    int64_t rows, q_ld, lse_ld;
} lh_evict_reference;

/* The arrays of a reference in memory of its own, which begins at q: all that the caller frees. */
typedef struct lh_evict_held {
    float *q, *lse, *outputs;
    int32_t *positions;
} lh_evict_held;

/* 1 where the policy fits what stays of a job. */
int lh_evict_fits(const lh_evictor *evictor, const lh_evict_job *job);

/* True if biases of the kept entries are fitted; and if values are. */
int lh_fits_bias(const lh_policy_methods *methods);
int lh_fits_values(const lh_policy_methods *methods);

/* Collective where groups are split. After the selection, while the job's entries are all there: valid until
 * lh_evict_end. And the same in memory of its own. */
lh_evict_reference lh_evict_refer(lh_evictor *evictor, const lh_evict_job *job, const int64_t *len);
lh_status lh_evict_hold(const lh_evictor *evictor, lh_evict_reference *reference, lh_evict_held *held);

/* That memory alone, for `rows` rows to come; and a reference to what lies in it. */
lh_status lh_evict_hold_room(const lh_evictor *evictor, int64_t rows, lh_evict_held *held);
void lh_evict_refer_to(const lh_evictor *evictor, lh_evict_reference *reference, const lh_evict_held *held);

/* Rows of a reference when `seen` tokens were seen; and 1 where what they put out is asked for. */
int64_t lh_evict_reference_rows(const lh_evictor *evictor, int64_t seen);
int lh_evict_uses_outputs(const lh_evictor *evictor);

/* Biases and values of the entries that stayed become such that the rows see in them what they saw in all. */
void lh_evict_fit(lh_evictor *evictor, const lh_evict_reference *reference, const lh_evict_kept *kept);

/* Where the attention of a single row may leave its logits: [kv_count x group, ld]. */
lh_row_logits lh_evict_row_logits(const lh_evictor *evictor);

int64_t lh_evict_summary_bytes(const lh_evictor *evictor); /* of score summaries, sent so far */

#endif
