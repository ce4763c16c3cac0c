/* Sums of rows and of their outer products. */
#include "kernels/ref/ref.h"

lh_status lh_ref_row_moments(lh_stream *stream, const lh_row_moments_args *a)
{
    (void)stream;
    for (int64_t i = 0; i < a->heads; i++)
        for (int64_t x = 0; x < a->dim; x++) {
            int64_t at = i * a->dim + x;
            double sum = 0.0;
            for (int64_t r = 0; r < a->rows; r++) sum += ref_load(a->x, a->type, r * a->x_ld + at);
            if (a->sums) a->sums[at] += sum;
            for (int64_t y = 0; y < a->dim; y++) {
                double product = 0.0;
                for (int64_t r = 0; r < a->rows; r++)
                    product += ref_load(a->x, a->type, r * a->x_ld + at) *
                               ref_load(a->x, a->type, r * a->x_ld + i * a->dim + y);
                a->products[at * a->dim + y] += product;
            }
        }
    return LH_OK;
}
