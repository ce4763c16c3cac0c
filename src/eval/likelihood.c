#include "eval/likelihood.h"

#include <math.h>

#include "base/minmax.h"
#include "model/distribution.h"

int64_t lh_likelihood_rows(int64_t tokens)
{
    return lh_max_i64(1, lh_min_i64(tokens - 1, LH_LIKELIHOOD_BLOCK));
}

/* Collective. The last n rows of logits are those before ids[0 .. n). */
static lh_status read_rows(lh_session *session, const int32_t *ids, int64_t n, double *nll)
{
    const int64_t vocab = lh_engine_get(lh_session_engine(session))->config->vocab;
    const float *logits = NULL;
    int64_t rows;
    LH_TRY(lh_session_logits(session, &logits, &rows));
    for (int64_t i = 0; i < n && logits; i++) nll[i] = lh_nll_of(logits + (rows - n + i) * vocab, vocab, ids[i]);
    return LH_OK;
}

lh_status lh_likelihood_of(lh_session *session, const lh_likelihood *how, double *nll)
{
    lh_status st = LH_OK;
    const int32_t *ids = how->ids->ids;
    const int64_t n = how->ids->n;
    if (n == 0) return LH_OK;
    LH_TRY_DONE(read_rows(session, ids, 1, nll));
    for (int64_t at = 1, fed; at < n; at += fed) {
        fed = how->policy->every ? 1 : lh_min_i64(n - at, LH_LIKELIHOOD_BLOCK);
        lh_session_keep_logits(session, fed);
        LH_TRY_DONE(how->policy->every ? lh_session_step(session, ids[at - 1])
                                       : lh_session_block(session, ids + at - 1, fed));
        LH_TRY_DONE(read_rows(session, ids + at, fed, nll + at));
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

void lh_nll_add(lh_nll_sum *sum, double nll)
{
    if (isnan(nll)) return;
    sum->sum += nll;
    sum->n++;
}

double lh_nll_of_sum(const lh_nll_sum *sum)
{
    return sum->n ? sum->sum / (double)sum->n : (double)NAN;
}

lh_status lh_nll_print(double nll, lh_buf *out)
{
    return isnan(nll) ? lh_buf_puts(out, " –") : lh_buf_printf(out, " %.2f", nll);
}
