/* distribution.h - rows of logits as distributions of the next token: how far two are apart, what is likeliest, how
 * likely a token is. In double, from host memory. */
#ifndef LH_MODEL_DISTRIBUTION_H
#define LH_MODEL_DISTRIBUTION_H

#include <stdint.h>

/* KL(p || q) = Σ p (ln p − ln q) in nats of the softmax of two rows of logits [vocab]; and the id of the largest logit
 * of a row, the lowest among equals. */
double lh_kl_of(const float *p, const float *q, int64_t vocab);
int64_t lh_best_of(const float *logits, int64_t vocab);

/* -ln of the softmax of a row of logits [vocab] at `id`, in nats. */
double lh_nll_of(const float *logits, int64_t vocab, int32_t id);

#endif
