#include "lab/eval/answer_measures.h"

#include <math.h>

void lh_answer_measures_put(lh_cell *first, const lh_answer_likelihood *answer)
{
    const double n = answer->tokens ? (double)answer->tokens : (double)NAN;
    first[0].value = answer->nll / n;
    first[1].value = (double)answer->best / n;
}

void lh_answer_sums_add(lh_answer_sums *sums, const lh_cell *first)
{
    if (isnan(first[0].value)) return;
    sums->n++;
    for (int i = 0; i < LH_ANSWER_MEASURES; i++) sums->of[i] += first[i].value;
}

void lh_answer_sums_mean(const lh_answer_sums *sums, lh_cell *first)
{
    for (int i = 0; i < LH_ANSWER_MEASURES; i++) first[i].value = sums->n ? sums->of[i] / (double)sums->n : (double)NAN;
}

lh_status lh_answer_measures_print(const lh_cell *first, lh_buf *out)
{
    for (int i = 0; i < LH_ANSWER_MEASURES; i++)
        LH_TRY(isnan(first[i].value) ? lh_buf_puts(out, " –") : lh_buf_printf(out, " %.2f", first[i].value));
    return LH_OK;
}
