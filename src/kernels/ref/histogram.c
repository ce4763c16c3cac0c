/* Histograms of the score keys of heads. */
#include "kernels/ref/ref.h"
#include "kernels/score_rows.h"

lh_status lh_ref_histogram(lh_stream *stream, const lh_histogram_args *a)
{
    (void)stream;
    assert(a->bits > 0 && a->prefix_bits + a->bits <= 32);
    for (int64_t r = 0; r < a->batch * a->kv->heads; r++) {
        const lh_histogram_row row = lh_histogram_row_at(a, r);
        for (int64_t b = 0; b < (int64_t)1 << a->bits; b++) row.bins[b] = 0;
        for (int64_t s = 0; s < row.len; s++) {
            int64_t bin = lh_histogram_bin(a, &row, s);
            if (bin >= 0) row.bins[bin]++;
        }
    }
    return LH_OK;
}
