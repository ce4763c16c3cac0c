#include "model/distribution.h"

#include <math.h>

int64_t lh_best_of(const float *logits, int64_t vocab)
{
    int64_t best = 0;
    for (int64_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* ln Σ exp of a row. */
static double log_sum(const float *logits, int64_t vocab)
{
    const double most = logits[lh_best_of(logits, vocab)];
    double sum = 0;
    for (int64_t i = 0; i < vocab; i++) sum += exp(logits[i] - most);
    return most + log(sum);
}

double lh_kl_of(const float *p, const float *q, int64_t vocab)
{
    const double p_sum = log_sum(p, vocab), q_sum = log_sum(q, vocab);
    double kl = 0;
    for (int64_t i = 0; i < vocab; i++) {
        double ln_p = p[i] - p_sum, ln_q = q[i] - q_sum;
        kl += exp(ln_p) * (ln_p - ln_q);
    }
    return kl > 0 ? kl : 0; /* below 0 only by rounding */
}

double lh_nll_of(const float *logits, int64_t vocab, int32_t id)
{
    return log_sum(logits, vocab) - logits[id];
}
