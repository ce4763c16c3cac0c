/* Split-KV decode attention (flash-decoding): one query row a sequence (split_kv.cuh). */
#include "kernels/cuda/split_kv_launch.cuh"

/* Blocks of a launch where the order of adding may be any: for each multiprocessor as many as run at a time. */
enum { SPLIT_BUSY = 3 };

/* Pieces of a head, of `seqs` sequences, that keep the processors busy. */
static int busy_splits(lh_stream *stream, const lh_split_kv *a, int64_t seqs)
{
    int64_t most = lh_cuda_processors(stream) * SPLIT_BUSY / (seqs * a->heads * a->tiles);
    return (int)(most < 1 ? 1 : most < LH_SPLITS ? most : +LH_SPLITS);
}

/* Those from sequence b on, as many as a launch has and as are of one type. */
static int64_t take_seqs(lh_split_kv *a, const lh_attend_decode_args *d, int64_t b)
{
    const lh_ragged *seqs = d->seqs + b;
    int64_t n = 0, left = d->batch - b;
    a->form = lh_form_of(&seqs[0]);
    for (; n < left && n < LH_SPLIT_SEQS && seqs[n].type == seqs[0].type; n++) {
        a->seqs[n] = seqs[n];
        a->logits[n] = d->logits ? d->logits[b + n] : lh_row_logits{};
        a->form.wide &= lh_form_of(&seqs[n]).wide;
    }
    return n;
}

lh_status lh_cuda_attend_decode(lh_stream *stream, const lh_attend_decode_args *d)
{
    lh_split_kv a = {};
    if (d->batch == 0 || d->map.heads == 0 || d->seqs[0].head_dim == 0) return LH_OK;
    a.seqs[0] = d->seqs[0];
    a.o = d->o;
    a.map = d->map;
    a.logit = d->logit;
    a.rows = 1;
    a.q_ld = d->q_ld;
    a.o_ld = d->o_ld;
    LH_TRY(shape_split(&a, "attend_decode"));
    LH_TRY(open_split(stream, &a, d->batch));
    for (int64_t b = 0, n; b < d->batch; b += n) {
        n = take_seqs(&a, d, b);
        if (d->order == LH_ORDER_ANY) a.most = busy_splits(stream, &a, n);
        a.o = d->o + b * d->o_ld;
        a.o_bf16 = d->o_bf16 ? (__nv_bfloat16 *)d->o_bf16 + b * d->o_ld : NULL;
        a.lse = d->lse ? d->lse + b * d->map.heads : NULL;
        a.q = d->q + b * d->q_ld;
        a.positions = d->positions + b;
        LH_TRY(launch_split<1>(stream, "attend_decode", &a, n));
    }
    return LH_OK;
}
