#include "kernels/ops.h"

#include <assert.h>
#include <stddef.h>

static const lh_ops *const backends[] = {
    &lh_ops_ref,
    &lh_ops_cpu, /* this entry and the next are NULL if they are not linked */
    &lh_ops_cuda,
};
#define BACKENDS ((int)(sizeof backends / sizeof backends[0]))

static const struct {
    const char *name, *summary;
    size_t member; /* offset of its function in lh_ops */
} operations[] = {
#define LH_OP(op, text) {#op, text, offsetof(lh_ops, op)},
    LH_OPS(LH_OP)
#undef LH_OP
};
#define OPERATIONS ((int)(sizeof operations / sizeof operations[0]))

/* cpu: longer chunks are no faster (docs/performance.md); gemm_tiled packs its input. cuda: for the smallest product of
 * an 8B model on 132 multiprocessors 2048 rows are two waves of tiles of 128 x 256, and 4096 are four; more rows do not
 * fill the last wave better. The first results of attend_block's wgmma kernels are compared with f32 sums; cuBLAS gets
 * 32 MiB. */
static const lh_chunking chunkings[LH_DEVICE_KINDS] = {
    [LH_DEVICE_CPU] =
        {.most = 512, .input_bytes = 4, .input_tokens = 512, .rounded_bytes = 80, .rounded_tokens = 96, .few_rows = 64},
    [LH_DEVICE_CUDA] = {.most = 4096,
                        .query_bytes = 4,
                        .fixed_bytes = INT64_C(32) << 20,
                        .rounded_bytes = 80,
                        .rounded_tokens = 64,
                        .few_rows = 16},
};

const lh_chunking *lh_ops_chunking(lh_device_kind kind)
{
    return &chunkings[kind];
}

const lh_ops *lh_ops_find(const char *name)
{
    for (int i = 0; i < BACKENDS; i++) {
        if (backends[i] && strcmp(backends[i]->name, name) == 0) return backends[i];
    }
    return NULL;
}

const lh_ops *lh_ops_at(int i)
{
    for (int b = 0; b < BACKENDS && i >= 0; b++)
        if (backends[b] && i-- == 0) return backends[b];
    return NULL;
}

const char *lh_op_name(int i)
{
    return i >= 0 && i < OPERATIONS ? operations[i].name : NULL;
}

const char *lh_op_summary(int i)
{
    return i >= 0 && i < OPERATIONS ? operations[i].summary : NULL;
}

lh_status lh_ops_check(const lh_ops *ops)
{
    for (int i = 0; i < OPERATIONS; i++) {
        void (*function)(void);
        memcpy(&function, (const char *)ops + operations[i].member, sizeof function);
        if (!function) LH_FAIL(LH_EINTERNAL, "backend '%s' lacks the operation '%s'", ops->name, operations[i].name);
    }
    return LH_OK;
}

/* ---- operations composed of other operations ---- */

lh_status lh_norm_rows(const lh_ops *ops, lh_stream *stream, const lh_rmsnorm_args *n)
{
    const lh_convert_args convert = {.dst = n->y,
                                     .src = n->x,
                                     .dst_type = n->y_type,
                                     .src_type = LH_F32,
                                     .rows = n->tokens,
                                     .cols = n->dim,
                                     .dst_ld = n->y_ld,
                                     .src_ld = n->x_ld};
    return n->w ? ops->rmsnorm(stream, n) : ops->convert(stream, &convert);
}

lh_status lh_norm_gemm_in_turn(const lh_ops *ops, lh_stream *stream, const lh_norm_gemm_args *a)
{
    LH_TRY(lh_norm_rows(ops, stream, &a->norm));
    LH_TRY(ops->gemm(stream, &a->gemm));
    if (a->gated.y) LH_TRY(ops->gated(stream, &a->gated));
    return LH_OK;
}

lh_status lh_gemm_convert_in_turn(const lh_ops *ops, lh_stream *stream, const lh_gemm_convert_args *a)
{
    LH_TRY(ops->gemm(stream, &a->gemm));
    return ops->convert(stream, &a->convert);
}

lh_status lh_rope_append_in_turn(const lh_ops *ops, lh_stream *stream, const lh_rope_append_args *a)
{
    if (a->q_norm.heads) LH_TRY(ops->rmsnorm(stream, &a->q_norm));
    if (a->k_norm.heads) LH_TRY(ops->rmsnorm(stream, &a->k_norm));
    if (a->q.heads) LH_TRY(ops->rope(stream, &a->q));
    if (a->k.heads) LH_TRY(ops->rope(stream, &a->k));
    LH_TRY(ops->append(stream, &a->append));
    return LH_OK;
}

void lh_count_fresh(const lh_attend_decode_args *a)
{
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t h = 0; h < a->seqs[b].heads; h++) a->seqs[b].len[h] += a->fresh;
}

lh_gemm_args lh_product_of_expert(const lh_expert_gemm_args *a, int64_t e)
{
    const int64_t first = a->routes.first[e], bytes = lh_dtype_bytes(a->type);
    lh_matrix w = a->w;
    assert(!w.next);
    w.data = (const char *)w.data + e * w.step;
    return (lh_gemm_args){.y = a->y + first * a->y_ld,
                          .x = (const char *)a->x + first * a->x_ld * bytes,
                          .w = w,
                          .type = a->type,
                          .tokens = a->routes.first[e + 1] - first,
                          .out = a->out,
                          .in = a->in,
                          .y_ld = a->y_ld,
                          .x_ld = a->x_ld,
                          .order = a->order};
}

/* ---- a device that only counts (device/counting_device.c) ---- */

#define LH_OP(op, summary)                                                  \
    static lh_status count_##op(lh_stream *stream, const lh_##op##_args *a) \
    {                                                                       \
        (void)stream, (void)a;                                              \
        return LH_OK;                                                       \
    }
LH_OPS(LH_OP)
#undef LH_OP

const lh_ops lh_ops_counting = {.name = "counting",
#define LH_OP(op, summary) .op = count_##op,
                                LH_OPS(LH_OP)
#undef LH_OP
};
