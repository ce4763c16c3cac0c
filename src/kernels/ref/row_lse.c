/* Log-sum-exps of query rows. */
#include "kernels/ref/attend.h"

lh_status lh_ref_row_lse(lh_stream *stream, const lh_row_lse_args *a)
{
    (void)stream;
    for (int64_t r = 0; r < a->rows.rows; r++)
        for (int64_t i = 0; i < a->rows.map.heads; i++)
            a->lse[r * a->rows.map.heads + i] = (float)ref_observed_lse(&a->rows, r, i);
    return LH_OK;
}
