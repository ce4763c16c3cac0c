/* gemm.c - cases of matrix products. */
#include <stdio.h>

#include "lab/bench/bench.h"

static const char *const names[] = {"gemm", NULL};

typedef struct gemm_case {
    lh_gemm_args args;
    int64_t copies; /* of the weights, used in turn */
} gemm_case;

static lh_status call_copies(lh_bench *b, void *args, int64_t turn)
{
    const gemm_case *c = args;
    lh_gemm_args a = c->args;
    a.w.data = (const char *)a.w.data + turn % c->copies * a.out * a.in * lh_dtype_bytes(a.type);
    return b->ops->gemm(b->stream, &a);
}

/* With few tokens the weights are read from memory: copies of at least 128 MiB exceed the processor's caches. */
static lh_status run_shape(lh_bench *b, const int64_t shape[3], lh_dtype type, lh_order order)
{
    lh_status st = LH_OK;
    const int64_t mark = lh_bench_mark(b), tokens = lh_bench_size(b, shape[0], 32);
    const int64_t in = lh_bench_size(b, shape[1], 64), out = lh_bench_size(b, shape[2], 96);
    const int64_t bytes = out * in * lh_dtype_bytes(type), few = tokens <= 64;
    gemm_case c = {.copies = few ? 1 + lh_bench_size(b, 128 << 20, 1 << 16) / bytes : 1};
    lh_bench_case w = {.name = "gemm", .type = type, .call = call_copies, .args = &c};
    snprintf(w.shape, sizeof w.shape, "%s%s %lld x %lld -> %lld", lh_dtype_name(type),
             order == LH_ORDER_FIXED ? " fixed" : "", (long long)tokens, (long long)in, (long long)out);
    w.flops = 2.0 * (double)tokens * (double)in * (double)out;
    w.bytes = few ? (double)bytes : 0;
    c.args = (lh_gemm_args){.type = type,
                            .tokens = tokens,
                            .out = out,
                            .in = in,
                            .y_ld = out,
                            .x_ld = in,
                            .w = lh_plain_matrix(NULL, type, in),
                            .order = order};
    LH_TRY_DONE(lh_bench_zeros(b, &c.args.y, tokens * out * 4));
    LH_TRY_DONE(lh_bench_normals(b, &c.args.x, &(lh_bench_normal){type, tokens * in, 1.0f}));
    LH_TRY_DONE(lh_bench_normals(b, &c.args.w.data, &(lh_bench_normal){type, out * in * c.copies, 1.0f}));
    LH_TRY_DONE(lh_bench_run(b, &w, NULL));
done:
    lh_bench_drop(b, mark);
    return st;
}

static lh_status run_gemm(lh_bench *b)
{
    static const int64_t shapes[][3] = {{512, 576, 192},   {512, 576, 576},   {512, 576, 1536},   {512, 1536, 576},
                                        {512, 2048, 2048}, {512, 2048, 8192}, {2048, 2048, 2048}, {128, 2048, 2048},
                                        {1, 576, 1536},    {1, 4096, 14336},  {1, 576, 49152},    {2, 4096, 14336},
                                        {4, 4096, 14336},  {8, 4096, 14336},  {16, 4096, 14336},  {32, 4096, 14336}};
    for (lh_dtype type = LH_F32; type <= LH_BF16; type += LH_BF16 - LH_F32)
        for (lh_order order = LH_ORDER_ANY; order <= LH_ORDER_FIXED; order++)
            for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) LH_TRY(run_shape(b, shapes[i], type, order));
    return LH_OK;
}

const lh_bench_group lh_bench_gemm = {names, run_gemm};
