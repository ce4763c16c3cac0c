/* Log-sum-exps of query rows over all entries, by the kernel of decode attention without values (split_kv.cuh). */
#include "kernels/cuda/split_kv_launch.cuh"

/* Rows that a launch has at most, times the heads of a group: what bounds the memory for pieces. */
enum { SLAB = 512 };

lh_status lh_cuda_row_lse(lh_stream *stream, const lh_row_lse_args *args)
{
    const lh_observed *o = &args->rows;
    lh_split_kv a = {};
    int64_t slab = SLAB / o->map.group > 1 ? SLAB / o->map.group : 1;
    if (o->rows == 0 || o->map.heads == 0) return LH_OK;
    a.seqs[0] = *o->kv;
    a.map = o->map;
    a.logit = o->logit;
    a.q_ld = o->q_ld;
    for (int64_t r = 0; r < o->rows; r += slab) {
        a.rows = o->rows - r < slab ? o->rows - r : slab;
        a.lse = args->lse + r * o->map.heads;
        a.q = o->q + r * o->q_ld;
        a.positions = o->positions + r;
        a.until = o->until ? o->until + r : NULL;
        a.gains = o->gains ? o->gains + r : NULL;
        LH_TRY(shape_split(&a, "row_lse"));
        if (r == 0) LH_TRY(open_split(stream, &a, 1));
        LH_TRY(launch_split<0>(stream, "row_lse", &a, 1));
    }
    return LH_OK;
}
