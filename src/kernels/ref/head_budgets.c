/* Budgets of the heads of one layer or several: head_budgets.h, on the host. */
#include "kernels/head_budgets.h"

#include "kernels/ref/ref.h"

lh_status lh_ref_add_histograms(lh_stream *stream, const lh_add_histograms_args *a)
{
    (void)stream;
    lh_add_all_histograms(a);
    return LH_OK;
}

lh_status lh_ref_refine_threshold(lh_stream *stream, const lh_refine_threshold_args *a)
{
    (void)stream;
    lh_refine_all(a);
    return LH_OK;
}

lh_status lh_ref_head_budgets(lh_stream *stream, const lh_head_budgets_args *a)
{
    int64_t *lags = NULL;
    LH_TRY(lh_stream_scratch(stream, &lags, a->of.heads * a->of.layers * (int64_t)sizeof *lags));
    for (int64_t i = 0; i < lh_contest_count(&a->of); i++) {
        lh_contest c = lh_contest_at(&a->of, i);
        lh_give_last(a, c, lh_give_rounds(a, c, lh_give_shares(a, c, lags), lags), lags, 0, 1);
    }
    return LH_OK;
}
