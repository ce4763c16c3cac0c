#include "lab/eval/likelihood.h"

#include <math.h>

#include "base/minmax.h"
#include "model/sampler.h"

int64_t lh_likelihood_rows(int64_t tokens)
{
    return lh_max_i64(1, lh_min_i64(tokens - 1, LH_LIKELIHOOD_BLOCK));
}

/* Collective. The last n rows of logits are those before ids[0 .. n). Adds to *best. */
static lh_status read_rows(lh_session *session, const int32_t *ids, int64_t n, double *nll, int64_t *best)
{
    const int64_t vocab = lh_engine_get(lh_session_engine(session))->config->vocab;
    const float *logits = NULL;
    int64_t rows;
    LH_TRY(lh_session_logits(session, &logits, &rows));
    for (int64_t i = 0; i < n && logits; i++) {
        const float *row = logits + (rows - n + i) * vocab;
        nll[i] = lh_nll_of(row, vocab, ids[i]);
        if (best) *best += lh_best_of(row, vocab) == ids[i];
    }
    return LH_OK;
}

lh_status lh_likelihood_of(lh_session *session, const lh_likelihood *how, double *nll, int64_t *best)
{
    lh_status st = LH_OK;
    const int32_t *ids = how->ids->ids;
    const int64_t n = how->ids->n;
    if (best) *best = 0;
    if (n == 0) return LH_OK;
    LH_TRY_DONE(read_rows(session, ids, 1, nll, best));
    for (int64_t at = 1, fed; at < n; at += fed) {
        fed = how->policy->every ? 1 : lh_min_i64(n - at, LH_LIKELIHOOD_BLOCK);
        lh_session_keep_logits(session, fed);
        LH_TRY_DONE(how->policy->every ? lh_session_step(session, ids[at - 1])
                                       : lh_session_block(session, ids + at - 1, fed));
        LH_TRY_DONE(read_rows(session, ids + at, fed, nll + at, best));
        if (how->work) lh_work_show(how->work, LH_WORK_ANSWER, (double)(at + fed));
    }
done:
    lh_session_keep_logits(session, 1);
    return st;
}

double lh_nll_mean(const double *nll, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += nll[i];
    return n ? sum / (double)n : (double)NAN;
}
