/* Histograms of the score keys of heads. */
#include "kernels/ref/ref.h"

lh_status lh_ref_histogram(lh_stream *stream, const lh_histogram_args *a)
{
    int64_t bins = (int64_t)1 << a->bits;
    uint32_t prefix = a->search ? a->search->prefix : 0;
    (void)stream;
    assert(a->bits > 0 && a->prefix_bits + a->bits <= 32);
    for (int64_t h = 0; h < a->heads; h++) {
        for (int64_t b = 0; b < bins; b++) a->histograms[h * a->histograms_ld + b] = 0;
        for (int64_t s = 0; s < a->len[h]; s++) {
            if (a->state[h * a->ld + s] != LH_ENTRY_COMPETES) continue;
            uint64_t key = lh_score_key(a->scores[h * a->ld + s]);
            if (key >> (32 - a->prefix_bits) != prefix) continue;
            a->histograms[h * a->histograms_ld + ((int64_t)(key >> (32 - a->prefix_bits - a->bits)) & (bins - 1))]++;
        }
    }
    return LH_OK;
}
