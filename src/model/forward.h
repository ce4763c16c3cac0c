/* forward.h - the forward pass of a model: prefill of a prompt, a block of tokens (a question), a decode step. Hidden
 * states are processed in chunks of a fixed number of tokens; keys, values and the query rows that policies observe go
 * to the cache, which evicts between layers. */
#ifndef LH_MODEL_FORWARD_H
#define LH_MODEL_FORWARD_H

#include "model/model.h"

/* Workspace of one session. */
typedef struct lh_forward lh_forward;

typedef struct lh_forward_run {
    int64_t length; /* tokens of the whole run; some rotary scalings depend on it */
    int64_t chunk;  /* maximum tokens per chunk, the same on all ranks */
} lh_forward_run;

/* Bytes of workspace: taken by lh_forward_open, and in addition while a prompt of `tokens` tokens is prefilled. */
int64_t lh_forward_bytes(const lh_config *config, const lh_shard *shard, const lh_model_options *options,
                         int64_t chunk);
int64_t lh_forward_prompt_bytes(const lh_config *config, int64_t tokens);

/* Of the former, for the last `rows` rows and their logits; lh_forward_open takes one row. */
int64_t lh_forward_rows_bytes(const lh_config *config, const lh_shard *shard, const lh_model_options *options,
                              int64_t rows);

lh_status lh_forward_open(lh_forward **out, lh_model *model, const lh_exec *exec, const lh_forward_run *run);
void lh_forward_close(lh_forward *f);

/* Rotary embeddings: [layers]. Borrowed. */
const lh_rotation *lh_forward_rotations(const lh_forward *forward);

/* All collective. Append tokens; the cache evicts by its policy. Afterwards lh_forward_logits gives the logits of the
 * last min(n, rows) tokens, where lh_forward_keep sets rows (default 1). */
lh_status lh_forward_prefill(lh_forward *f, lh_kv *kv, const int32_t *ids, int64_t n,
                             const lh_forward_progress *progress);
lh_status lh_forward_block(lh_forward *f, lh_kv *kv, const int32_t *ids, int64_t n);
lh_status lh_forward_step(lh_forward *f, lh_kv *kv, int32_t id);

/* Rows of logits that the next calls keep; those of the last call stay until then. Not collective. */
void lh_forward_keep(lh_forward *f, int64_t rows);

/* Device memory for sampling (lh_sample). */
enum { LH_BEST_MOST = 1024 };
typedef struct lh_sample_room {
    float *best; /* [most]: the best logits and their indices */
    int32_t *best_at;
    float *penalised;       /* [count]: logits after the repeat penalty */
    uint32_t *seen;         /* [count / 32, rounded up]: a bit per token */
    int64_t *probabilities; /* [1]: the sum of theirs */
    int64_t most;           /* LH_BEST_MOST, or less */
} lh_sample_room;

/* This rank's shard of the logits of the last rows: [rows, count] in device memory, valid until the next call. */
typedef struct lh_logits_view {
    const float *logits;
    int64_t rows, first, count, vocab; /* tokens first .. first + count of the vocabulary */
    lh_sample_room room;
} lh_logits_view;
lh_logits_view lh_forward_logits(const lh_forward *f);

/* Restore one row of logits as that of the last token. part: host, [vocab_count]. */
lh_status lh_forward_put_logits(lh_forward *f, const float *part);

#endif
