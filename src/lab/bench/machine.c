/* machine.c - peak rates of the machine, with which cases are compared: copies, and large products; on the host also
 * reads and f32 multiply-adds. */
#include <omp.h>
#include <stdio.h>

#include "engine/read_rate.h"
#include "lab/bench/bench.h"

/* ---- the processor's multiply-adds ---- */

#if defined(__x86_64__)
#define WITH(set) __attribute__((target(set), noinline))
#else
#define WITH(set) __attribute__((noinline))
#endif
enum { CHAINS = 12, STEPS = 10000000, QUICK_STEPS = 100000 };

/* Defines a loop of multiply-adds: CHAINS independent chains on vectors of `lanes` floats. */
#define FMA_LOOP(name, set, lanes)                                                             \
    WITH(set) static float name(int64_t steps)                                                 \
    {                                                                                          \
        typedef float vector __attribute__((vector_size(4 * (lanes))));                        \
        vector sum[CHAINS], x = (vector){0} + 0.5f, y = (vector){0} + 0.25f;                   \
        for (int c = 0; c < CHAINS; c++) sum[c] = x + (float)(c + 1);                          \
        for (int64_t n = 0; n < steps; n++) {                                                  \
            _Pragma("GCC unroll 12") for (int c = 0; c < CHAINS; c++) sum[c] = sum[c] * x + y; \
        }                                                                                      \
        for (int c = 1; c < CHAINS; c++) sum[0] += sum[c];                                     \
        return sum[0][0];                                                                      \
    }
FMA_LOOP(fma_plain, "sse2", 4)
#if defined(__x86_64__)
FMA_LOOP(fma_avx2, "avx2,fma", 8)
FMA_LOOP(fma_avx512, "avx512f", 16)
#endif

typedef struct fma_loop {
    float (*loop)(int64_t steps);
    int64_t lanes, steps;
} fma_loop;

static fma_loop widest_loop(void)
{
    fma_loop best = {fma_plain, 4, STEPS};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("fma")) best = (fma_loop){fma_avx2, 8, STEPS};
    if (__builtin_cpu_supports("avx512f")) best = (fma_loop){fma_avx512, 16, STEPS};
#endif
    return best;
}

static lh_status call_fma(lh_bench *b, void *args, int64_t turn)
{
    const fma_loop *f = args;
    float keep = 0;
    (void)b;
    (void)turn;
#pragma omp parallel reduction(+ : keep)
    keep += f->loop(f->steps);
    if (!(keep > 0)) LH_FAIL(LH_EINTERNAL, "multiply-adds gave no number");
    return LH_OK;
}

/* ---- memory ---- */

typedef struct memory {
    char *to, *from;
    int64_t bytes;
} memory;

static lh_status call_copy(lh_bench *b, void *args, int64_t turn)
{
    const memory *m = args;
    (void)turn;
    return lh_stream_copy(b->stream, m->to, m->from, m->bytes, LH_COPY_ON_DEVICE);
}

/* Sums all numbers, on the host only. */
static lh_status call_read(lh_bench *b, void *args, int64_t turn)
{
    const memory *m = args;
    (void)b;
    (void)turn;
    if (!lh_read_memory(m->from, m->bytes)) LH_FAIL(LH_EINTERNAL, "memory that was written reads as zeros");
    return LH_OK;
}

/* ---- rates ---- */

/* Adds a row of `machine`; *rate: bytes or FLOPs per second of the fastest call. */
static lh_status measure_rate(lh_bench *b, const lh_bench_case *c, double *rate)
{
    lh_bench_time time;
    LH_TRY(lh_bench_measure(b, c, &time));
    LH_TRY(lh_bench_add(
        &b->result->machine,
        &(lh_bench_row){
            .name = c->name, .shape = c->shape, .limit = "", .time = time, .bytes = c->bytes, .flops = c->flops}));
    *rate = (c->bytes > 0 ? c->bytes : c->flops) / time.fastest_s;
    return LH_OK;
}

lh_status lh_bench_machine_memory(lh_bench *b)
{
    lh_status st = LH_OK;
    const int64_t mark = lh_bench_mark(b), bytes = lh_bench_size(b, INT64_C(512) << 20, 4 << 20);
    const int host = lh_device_kind_of(b->device) == LH_DEVICE_CPU;
    memory m = {.bytes = bytes};
    double copied;
    lh_bench_case copy = {.name = "copy", .call = call_copy, .args = &m, .bytes = 2.0 * (double)bytes};
    lh_bench_case read = {.name = "read", .call = call_read, .args = &m, .bytes = (double)bytes};
    LH_TRY_DONE(lh_bench_zeros(b, &m.to, bytes));
    LH_TRY_DONE(lh_bench_normals(b, &m.from, &(lh_bench_normal){LH_F32, bytes / 4, 1.0f}));
    snprintf(copy.shape, sizeof copy.shape, "%lld MiB, read and written", (long long)(bytes >> 20));
    snprintf(read.shape, sizeof read.shape, "%lld MiB", (long long)(bytes >> 20));
    LH_TRY_DONE(measure_rate(b, &copy, &copied));
    b->rates.bytes_per_s = copied;
    if (host) LH_TRY_DONE(measure_rate(b, &read, &b->rates.bytes_per_s));
done:
    lh_bench_drop(b, mark);
    return st;
}

LH_BENCH_CALL(gemm)

static lh_status measure_gemm(lh_bench *b, lh_dtype type, double *rate)
{
    lh_status st = LH_OK;
    const int64_t mark = lh_bench_mark(b), device = lh_device_kind_of(b->device) != LH_DEVICE_CPU;
    const int64_t n = lh_bench_size(b, b->ops == &lh_ops_ref ? 256 : device ? 8192 : 2048, 64);
    lh_gemm_args a = {
        .type = type, .tokens = n, .out = n, .in = n, .y_ld = n, .x_ld = n, .w = lh_plain_matrix(NULL, type, n)};
    lh_bench_case c = {.name = "gemm", .call = call_gemm, .args = &a, .flops = 2.0 * (double)n * (double)n * (double)n};
    snprintf(c.shape, sizeof c.shape, "%s %lld x %lld -> %lld", lh_dtype_name(type), (long long)n, (long long)n,
             (long long)n);
    LH_TRY_DONE(lh_bench_zeros(b, &a.y, n * n * 4));
    LH_TRY_DONE(lh_bench_normals(b, &a.x, &(lh_bench_normal){type, n * n, 1.0f}));
    LH_TRY_DONE(lh_bench_normals(b, &a.w.data, &(lh_bench_normal){type, n * n, 1.0f}));
    LH_TRY_DONE(measure_rate(b, &c, rate));
done:
    lh_bench_drop(b, mark);
    return st;
}

static lh_status measure_multiply_adds(lh_bench *b)
{
    fma_loop loop = widest_loop();
    loop.steps = lh_bench_size(b, STEPS, QUICK_STEPS);
    lh_bench_case c = {.name = "multiply-adds", .call = call_fma, .args = &loop};
    c.flops = 2.0 * CHAINS * (double)(loop.steps * loop.lanes) * omp_get_max_threads();
    snprintf(c.shape, sizeof c.shape, "f32, vectors of %lld", (long long)loop.lanes);
    LH_TRY(measure_rate(b, &c, &b->rates.flops_f32));
    b->rates.flops_bf16 = b->rates.flops_f32;
    return LH_OK;
}

lh_status lh_bench_machine(lh_bench *b)
{
    LH_TRY(lh_bench_machine_memory(b));
    LH_TRY(measure_gemm(b, LH_F32, &b->rates.flops_f32));
    LH_TRY(measure_gemm(b, LH_BF16, &b->rates.flops_bf16));
    if (lh_device_kind_of(b->device) == LH_DEVICE_CPU) LH_TRY(measure_multiply_adds(b));
    return LH_OK;
}
