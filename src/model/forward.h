/* forward.h - the forward pass of a model: prefill of a prompt, whole or in pieces, a block of tokens (a question), a
 * decode step for one or more sequences. Hidden states are processed in chunks of a fixed number of tokens; keys,
 * values and the query rows that policies observe go to the caches, which evict between layers. A cache brings the
 * rotations of its sequence. */
#ifndef LH_MODEL_FORWARD_H
#define LH_MODEL_FORWARD_H

#include "kv/save.h"
#include "model/model.h"

/* Workspace for any number of caches, used by one call at a time. */
typedef struct lh_forward lh_forward;

typedef struct lh_forward_run {
    int64_t chunk;     /* maximum tokens per chunk, the same on all ranks */
    int64_t sequences; /* maximum sequences per step; at least 1 */
    int64_t rows;      /* maximum rows of logits per call; at least `sequences` */
} lh_forward_run;

/* Bytes of workspace: allocated by lh_forward_open, and in addition while a prompt of `tokens` tokens, probe tokens
 * included, is prefilled. */
int64_t lh_forward_bytes(const lh_config *config, const lh_shard *shard, const lh_model_options *options,
                         const lh_forward_run *run);
int64_t lh_forward_prompt_bytes(const lh_config *config, int64_t tokens);

lh_status lh_forward_open(lh_forward **out, lh_model *model, const lh_exec *exec, const lh_forward_run *run);
void lh_forward_close(lh_forward *f);

/* All collective. Append tokens; the cache evicts by its policy. The ids of a prompt's n tokens are followed by the ids
 * of the cache's probe tokens (lh_kv_probe_tokens), also in lh_prefill_open. Afterwards lh_forward_logits gives the logits of the
 * last min(n, rows) tokens, where lh_forward_keep sets rows (1 unless set). */
lh_status lh_forward_prefill(lh_forward *f, lh_kv *kv, const int32_t *ids, int64_t n,
                             const lh_forward_progress *progress);
lh_status lh_forward_block(lh_forward *f, lh_kv *kv, const int32_t *ids, int64_t n);

/* Rows of logits that the next prefills and blocks keep, at most lh_forward_run.rows; the current rows stay until then.
 * Not collective. */
void lh_forward_keep(lh_forward *f, int64_t rows);

/* The next token of a sequence. */
typedef struct lh_next_token {
    lh_kv *kv;
    int32_t id;
} lh_next_token;

/* Collective. One token each for n different sequences, which pass through the layers together: the weights are read
 * once. Row b of the logits belongs to sequence b. With LH_ORDER_FIXED the bits of a sequence do not depend on the
 * other sequences. */
lh_status lh_forward_step(lh_forward *f, const lh_next_token *next, int64_t n);
int64_t lh_forward_sequences(const lh_forward *f); /* the maximum of n */

/* Kernels, copies and fills of the captured step; 0: the last step was not captured. */
int64_t lh_forward_step_nodes(const lh_forward *f);

/* Call it before a cache is closed while the forward pass stays open. Not collective. */
void lh_forward_forget(lh_forward *f, const lh_kv *kv);

/* A prefill in pieces. Blocks and steps of other caches may run between two pieces: agree first (lh_exec_agree),
 * because failures are latched up to the end of a layer. All collective but lh_prefill_close. */
typedef struct lh_prefill lh_prefill;
lh_status lh_prefill_open(lh_prefill **out, lh_forward *f, lh_kv *kv, const int32_t *ids, int64_t n);
void lh_prefill_close(lh_prefill *p); /* NULL is fine */

/* Follows the logits of a whole prompt: after the last layer `rows` is called on all ranks, once per lh_prefill_next,
 * for the next rows, which lh_forward_logits has during the call; `first`: number of their first token. Set it before
 * the last layer begins. */
typedef struct lh_row_watch {
    void *self;
    lh_status (*rows)(void *self, int64_t first, int64_t n);
} lh_row_watch;
void lh_prefill_watch(lh_prefill *p, const lh_row_watch *watch);

/* Processes the next chunk of a layer, or of the watched rows. *left: remaining tokens x layers, and watched rows; 0: the
 * prompt is in the cache, and the logits of its last rows are available. */
lh_status lh_prefill_next(lh_prefill *p, int64_t *left);

/* The number of layers that are not finished. */
int64_t lh_prefill_layers_left(const lh_prefill *p);

/* The number of finished layers between two layers, elsewhere 0. Between two layers the prefill can be saved
 * (collective, errors of lh_kv_save_prefill; extra: data that belongs to the caller), and then continued. A prefill
 * that has just been opened can load that state (not collective, errors of lh_kv_load_prefill). */
int64_t lh_prefill_layers_done(const lh_prefill *p);
lh_status lh_prefill_save(lh_prefill *p, const char *path, const lh_prefill_extra *extra);
lh_status lh_prefill_load(lh_prefill *p, lh_saved_prefill *saved, uint64_t model);

/* Device memory for sampling (lh_sample). */
typedef struct lh_sample_room {
    float *best;            /* [2 most]: the k best logits, then their k indices (int32) */
    float *penalised;       /* [count]: logits with a bias and penalties */
    uint32_t *seen;         /* [count / 32, rounded up]: a bit per token */
    float *bias, *minus;    /* [count] each: for the logits before and after the repeat penalty */
    int64_t *probabilities; /* [1]: the sum of the probabilities */
    int64_t most;           /* LH_BEST_MAX, or less */
} lh_sample_room;

/* This rank's shard of the logits of the last rows: [rows, count] in device memory, valid until the next call. */
typedef struct lh_logits_view {
    const float *logits;
    int64_t rows, first, count, vocab; /* tokens first .. first + count of the vocabulary */
    int64_t call;                      /* the how many-th that made rows */
    lh_sample_room room;
} lh_logits_view;
lh_logits_view lh_forward_logits(const lh_forward *f);

/* Collective. The token of the largest logit of a row of the last call. The first call after a forward pass fetches the
 * tokens of all rows (at most LH_BEST_MAX): sequences that step together wait once. LH_EFILE if every logit of the row
 * is NaN. */
lh_status lh_forward_greedy(lh_forward *f, int64_t row, int32_t *id);

/* Restores one row of logits, as the row of the last token. part: host, [vocab_count]. */
lh_status lh_forward_put_logits(lh_forward *f, const float *part);

#endif
