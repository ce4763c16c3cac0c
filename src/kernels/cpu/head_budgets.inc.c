/* Budgets of the heads of one layer or several: head_budgets.h, in this instruction set. */
#include "kernels/head_budgets.h"
#include "kernels/cpu/common.h"

static lh_status op_add_histograms(lh_stream *stream, const lh_add_histograms_args *a)
{
    (void)stream;
    lh_add_all_histograms(a);
    return LH_OK;
}

static lh_status op_refine_threshold(lh_stream *stream, const lh_refine_threshold_args *a)
{
    (void)stream;
    lh_refine_all(a);
    return LH_OK;
}

static lh_status op_head_budgets(lh_stream *stream, const lh_head_budgets_args *a)
{
    return lh_ref_head_budgets(stream, a); /* some numbers a head */
}
