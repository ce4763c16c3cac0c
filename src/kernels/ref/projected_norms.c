/* L1 norms of values after the output projection. */
#include <math.h>

#include "kernels/ref/ref.h"

/* L1 norm of the value of slot s of head h after the projection of query head i. */
static double projected_norm(const lh_projected_norms_args *a, int64_t h, int64_t s, int64_t i)
{
    int64_t at = (a->kv->offset[h] + s) * a->kv->head_dim;
    double norm = 0.0;
    for (int64_t o = 0; o < a->out; o++) {
        double sum = 0.0;
        for (int64_t d = 0; d < a->kv->head_dim; d++)
            sum += ref_load(a->kv->v, a->kv->type, at + d) *
                   ref_load(a->w, a->type, o * a->w_ld + i * a->kv->head_dim + d);
        norm += fabs(sum);
    }
    return norm;
}

lh_status lh_ref_projected_norms(lh_stream *stream, const lh_projected_norms_args *a)
{
    (void)stream;
    for (int64_t i = 0; i < a->map.heads; i++) {
        int64_t h = (a->map.first + i) / a->map.group;
        int64_t len = a->kv->len[h], first = lh_slot_of_last(len, a->last);
        for (int64_t s = first; s < len; s++) a->y[i * a->ld + s - first] = (float)projected_norm(a, h, s, i);
    }
    return LH_OK;
}
