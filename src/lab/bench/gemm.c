/* gemm.c - cases of matrix products. */
#include <stdio.h>

#include "base/mem.h"
#include "kernels/packed.h"
#include "lab/bench/bench.h"

static const char *const names[] = {"gemm", "pack_weights", "unpack", NULL};

typedef struct gemm_case {
    lh_gemm_args args;
    int64_t copies, bytes; /* of the weights, used in turn; of one copy */
} gemm_case;

static lh_status call_copies(lh_bench *b, void *args, int64_t turn)
{
    const gemm_case *c = args;
    lh_gemm_args a = c->args;
    a.w.data = (const char *)a.w.data + turn % c->copies * c->bytes;
    return b->ops->gemm(b->stream, &a);
}

/* Packed or plain weights. Codes and scales are the bits of normals in bf16. */
static lh_status make_weights(lh_bench *b, gemm_case *c, const lh_format *format)
{
    lh_gemm_args *a = &c->args;
    const lh_bench_normal plain = {a->type, c->bytes * c->copies / lh_dtype_bytes(a->type), 1.0f};
    a->w = (lh_matrix){.format = format, .ld = a->in};
    return lh_bench_normals(b, &a->w.data, &plain);
}

/* With few tokens the weights are read from memory: copies of at least 128 MiB exceed the processor's caches. x has
 * the type of plain weights, else bf16. */
static lh_status run_shape(lh_bench *b, const int64_t shape[3], const lh_format *format, lh_order order)
{
    lh_status st = LH_OK;
    const int64_t mark = lh_bench_mark(b), tokens = lh_bench_size(b, shape[0], 32);
    const int64_t in = lh_bench_size(b, shape[1], 256), out = lh_bench_size(b, shape[2], 96);
    const lh_dtype type = format->is_plain ? format->plain : LH_BF16;
    const int64_t few = tokens <= 64,
                  bytes = format->is_plain ? out * in * format->bytes : lh_packed_bytes(format, out, 0, in);
    gemm_case c = {.copies = few ? 1 + lh_bench_size(b, 128 << 20, 1 << 16) / bytes : 1, .bytes = bytes};
    lh_bench_case w = {.name = "gemm", .type = type, .call = call_copies, .args = &c};
    snprintf(w.shape, sizeof w.shape, "%s%s %lld x %lld -> %lld", format->name, order == LH_ORDER_FIXED ? " fixed" : "",
             (long long)tokens, (long long)in, (long long)out);
    w.flops = 2.0 * (double)tokens * (double)in * (double)out;
    w.bytes = few ? (double)bytes : 0;
    c.args =
        (lh_gemm_args){.type = type, .tokens = tokens, .out = out, .in = in, .y_ld = out, .x_ld = in, .order = order};
    LH_TRY_DONE(lh_bench_zeros(b, &c.args.y, tokens * out * 4));
    LH_TRY_DONE(lh_bench_normals(b, &c.args.x, &(lh_bench_normal){type, tokens * in, 1.0f}));
    LH_TRY_DONE(make_weights(b, &c, format));
    LH_TRY_DONE(lh_bench_run(b, &w, NULL));
done:
    lh_bench_drop(b, mark);
    return st;
}

static lh_status run_plain(lh_bench *b)
{
    static const int64_t shapes[][3] = {{512, 576, 192},   {512, 576, 576},   {512, 576, 1536},   {512, 1536, 576},
                                        {512, 2048, 2048}, {512, 2048, 8192}, {2048, 2048, 2048}, {128, 2048, 2048},
                                        {1, 576, 1536},    {1, 4096, 14336},  {1, 576, 49152},    {2, 4096, 14336},
                                        {4, 4096, 14336},  {8, 4096, 14336},  {16, 4096, 14336},  {32, 4096, 14336}};
    for (lh_dtype type = LH_F32; type <= LH_BF16; type += LH_BF16 - LH_F32)
        for (lh_order order = LH_ORDER_ANY; order <= LH_ORDER_FIXED; order++)
            for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
                LH_TRY(run_shape(b, shapes[i], lh_format_of(type), order));
    return LH_OK;
}

/* Weights of few bits, which products on the host read. */
static lh_status run_few_bits(lh_bench *b)
{
    static const char *const formats[] = {"q8_0", "q4_0", "q4_1",   "q5_0",   "q5_1",   "q4_K",
                                          "q5_K", "q6_K", "iq4_nl", "iq4_xs", "f8_e4m3"};
    static const int64_t shapes[][3] = {{1, 4096, 14336}, {4, 4096, 14336}, {16, 4096, 14336}, {1, 1536, 576}};
    for (size_t f = 0; f < sizeof formats / sizeof *formats && b->ops->device == LH_DEVICE_CPU; f++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            LH_TRY(run_shape(b, shapes[i], lh_format_named(formats[f]), LH_ORDER_ANY));
    return LH_OK;
}

LH_BENCH_CALL(pack_weights)
LH_BENCH_CALL(unpack)

/* A matrix of q4_K blocks is packed, as when a model is loaded, and unpacked, as before a prompt. */
static lh_status run_packing(lh_bench *b)
{
    lh_status st = LH_OK;
    const int64_t mark = lh_bench_mark(b), in = lh_bench_size(b, 4096, 256), out = lh_bench_size(b, 14336, 96);
    const lh_format *format = lh_format_named("q4_K");
    const int64_t source = lh_format_bytes(format, out * in), packed = lh_packed_bytes(format, out, 0, in);
    uint8_t *blocks = NULL;
    lh_pack_weights_args pack = {.format = format, .rows = out, .cols = in};
    lh_unpack_args unpack = {.dst_type = LH_BF16, .rows = out, .cols = in, .dst_ld = in};
    lh_bench_case w = {
        .name = "pack_weights", .call = call_pack_weights, .args = &pack, .bytes = (double)(source + packed)};
    LH_TRY_DONE(lh_calloc(&blocks, source, 1));
    pack.src = blocks;
    LH_TRY_DONE(lh_bench_zeros(b, &pack.dst, packed));
    LH_TRY_DONE(lh_bench_zeros(b, &unpack.dst, out * in * 2));
    unpack.w = (lh_matrix){.data = pack.dst, .format = format, .ld = in};
    snprintf(w.shape, sizeof w.shape, "%s %lld x %lld", format->name, (long long)out, (long long)in);
    LH_TRY_DONE(lh_bench_run(b, &w, NULL));
    w.name = "unpack";
    w.call = call_unpack;
    w.args = &unpack;
    w.type = LH_BF16;
    w.bytes = (double)(packed + out * in * 2);
    snprintf(w.shape, sizeof w.shape, "%s %lld x %lld to bf16", format->name, (long long)out, (long long)in);
    LH_TRY_DONE(lh_bench_run(b, &w, NULL));
done:
    lh_free(blocks);
    lh_bench_drop(b, mark);
    return st;
}

static lh_status run_gemm(lh_bench *b)
{
    LH_TRY(run_plain(b));
    LH_TRY(run_few_bits(b));
    return run_packing(b);
}

const lh_bench_group lh_bench_gemm = {names, run_gemm};
