/* sampler.h - the next token from logits that are sharded over the ranks of a TP group. Ranks send their best logit for
 * greedy, their k best for top-k, else their LH_BEST_MAX best and the sum of all their probabilities. All logits are
 * gathered only if these do not decide the draw (a flat distribution, more than LH_BEST_MAX candidates). Probabilities
 * are integers (kernels/ops_sample.h), so the token is the same either way, on any number of ranks and on every device.
 * And rows of logits as distributions. */
#ifndef LH_MODEL_SAMPLER_H
#define LH_MODEL_SAMPLER_H

#include <stdint.h>

#include "model/forward.h"

/* LH_EUSAGE, naming the invalid option. */
lh_status lh_sampling_check(const lh_sampling *sampling);

/* Further inputs of a draw. */
typedef struct lh_sample_at {
    const lh_exec *exec;
    const int32_t *seen; /* tokens of the run so far, the last `step` ones of the answer, for the penalties */
    int64_t n, step;     /* step: number of the draw; the draw is keyed by (seed, request, step) */
} lh_sample_at;

/* Collective. row: this rank's shard of a row of logits, which stay unchanged. All ranks get the same id.
 * LH_EINTERNAL if every logit is NaN. */
lh_status lh_sample(const lh_sampling *sampling, const lh_sample_at *at, const lh_logits_view *row, int32_t *id);

/* Returns 1 if the sampling takes the largest logit. */
int lh_sampling_is_greedy(const lh_sampling *sampling);

/* Collective. The token of the largest logit of each row, for at most room.most rows; LH_TOKEN_NONE if every logit of a
 * row is NaN. */
enum { LH_TOKEN_NONE = -1 };
lh_status lh_greedy_tokens(const lh_exec *exec, const lh_logits_view *view, int32_t *ids);

/* Returns LH_EFILE, with the likely cause, for LH_TOKEN_NONE. */
lh_status lh_token_check(int32_t id);

/* Collective. Gather complete rows of logits: row r at out + r * vocab on every rank (root < 0) or on `root` alone. */
lh_status lh_logits_gather(const lh_exec *exec, const lh_logits_view *view, int64_t vocab, int root, float *out);

/* ---- rows of logits [vocab] as distributions of the next token, in double, in host memory ---- */
/* KL(p || q) = Σ p (ln p − ln q) in nats of the softmax of two rows; and the id of the largest logit of a row, the
 * lowest among equals. */
double lh_kl_of(const float *p, const float *q, int64_t vocab);
int64_t lh_best_of(const float *logits, int64_t vocab);

/* -ln of the softmax of a row at `id`, in nats. */
double lh_nll_of(const float *logits, int64_t vocab, int32_t id);

#endif
