#include "bench.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/rng.h"

/* With one thread its own time is counted, which others on the machine disturb less. */
static double now_s(void)
{
    struct timespec t;
    clock_gettime(omp_get_max_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void bench_must(lh_status st)
{
    if (st == LH_OK) return;
    fprintf(stderr, "%s\n", lh_error_message());
    exit((int)st);
}

/* ---- the machine ---- */

#if defined(__x86_64__)
#define WITH(set) __attribute__((target(set), noinline))
#else
#define WITH(set) __attribute__((noinline))
#endif
enum { CHAINS = 12, STEPS = 10000000 };

/* Multiply-adds in CHAINS independent chains of vectors of `lanes` floats. */
#define FMA_LOOP(name, set, lanes)                                                             \
    WITH(set) static float name(void)                                                          \
    {                                                                                          \
        typedef float vector __attribute__((vector_size(4 * (lanes))));                        \
        vector sum[CHAINS], x = (vector){0} + 0.5f, y = (vector){0} + 0.25f;                   \
        for (int c = 0; c < CHAINS; c++) sum[c] = x + (float)(c + 1);                          \
        for (int n = 0; n < STEPS; n++) {                                                      \
            _Pragma("GCC unroll 12") for (int c = 0; c < CHAINS; c++) sum[c] = sum[c] * x + y; \
        }                                                                                      \
        for (int c = 1; c < CHAINS; c++) sum[0] += sum[c];                                     \
        return sum[0][0];                                                                      \
    }
FMA_LOOP(fma_plain, "sse2", 4)
FMA_LOOP(fma_avx2, "avx2,fma", 8)
FMA_LOOP(fma_avx512, "avx512f", 16)

static double fma_rate(float (*loop)(void), int lanes)
{
    double best = 0;
    for (int n = 0; n < 5; n++) {
        double start = now_s();
        float keep = 0;
#pragma omp parallel reduction(+ : keep)
        keep += loop();
        double rate = 2.0 * CHAINS * STEPS * lanes * omp_get_max_threads() / (now_s() - start);
        best = rate > best && keep > 0 ? rate : best;
    }
    return best;
}

static double read_rate(bench *b)
{
    enum { MIB = 1 << 20, PARTS = 512 };
    uint64_t *data, total = 0;
    double best = 0;
    bench_must(lh_device_alloc(b->device, &data, PARTS * (int64_t)MIB, LH_MEM_WORK));
    memset(data, 1, (size_t)PARTS * MIB);
    for (int n = 0; n < 5; n++) {
        double start = now_s();
#pragma omp parallel for reduction(+ : total)
        for (int64_t p = 0; p < PARTS; p++) {
            const uint64_t *x = data + p * (MIB / 8);
            for (int64_t i = 0; i < MIB / 8; i++) total += x[i];
        }
        double rate = (double)PARTS * MIB / (now_s() - start);
        best = rate > best && total ? rate : best;
    }
    lh_device_free(b->device, data);
    return best;
}

static void measure_machine(bench *b)
{
    b->flops = fma_rate(fma_plain, 4);
#if defined(__x86_64__)
    double wide = __builtin_cpu_supports("fma") ? fma_rate(fma_avx2, 8) : 0;
    double widest = __builtin_cpu_supports("avx512f") ? fma_rate(fma_avx512, 16) : 0;
    b->flops = wide > b->flops ? wide : b->flops;
    b->flops = widest > b->flops ? widest : b->flops;
#endif
    b->bytes_per_s = read_rate(b);
    printf("%s; %d threads; instruction set '%s'; gemm: f32 by %s, bf16 by %s\n", lh_device_name(b->device),
           omp_get_max_threads(), lh_cpu_isa(), lh_cpu_gemm_library(LH_F32), lh_cpu_gemm_library(LH_BF16));
    printf("f32 multiply-adds %.0f GFLOP/s, reads %.1f GB/s\n", b->flops * 1e-9, b->bytes_per_s * 1e-9);
}

void bench_open(bench *b, int argc, char **argv)
{
    *b = (bench){.words = argc - 1, .word = argv + 1};
    bench_must(lh_device_open(&b->device, &(lh_device_choice){.kind = LH_DEVICE_CPU}));
    bench_must(lh_stream_open(&b->stream, b->device));
    measure_machine(b);
}

void bench_close(bench *b)
{
    lh_stream_close(b->stream);
    lh_device_close(b->device);
}

/* ---- data ---- */

void *bench_zeros(bench *b, int64_t bytes)
{
    void *p;
    bench_must(lh_device_alloc(b->device, &p, bytes, LH_MEM_WORK));
    memset(p, 0, (size_t)bytes);
    return p;
}

void *bench_normals(bench *b, lh_dtype type, int64_t n, float scale)
{
    enum { PERIOD = 1 << 16, PART = 1 << 10 };
    char *p = bench_zeros(b, n * lh_dtype_bytes(type));
    float part[PART];
    for (int64_t i = 0; i < n && i < PERIOD; i += PART) {
        int64_t count = n - i < PART ? n - i : PART;
        lh_normals(part, 7, (uint64_t)n, i, count);
        for (int64_t c = 0; c < count; c++) part[c] *= scale;
        lh_dtype_convert(p + i * lh_dtype_bytes(type), type, part, LH_F32, count);
    }
    for (int64_t i = PERIOD; i < n; i += PERIOD) {
        int64_t count = n - i < PERIOD ? n - i : PERIOD;
        memcpy(p + i * lh_dtype_bytes(type), p, (size_t)(count * lh_dtype_bytes(type)));
    }
    return p;
}

void bench_drop(bench *b, void *p)
{
    lh_device_free(b->device, p);
}

lh_ragged bench_cache(bench *b, lh_dtype type, const int64_t heads_len_dim[3])
{
    int64_t heads = heads_len_dim[0], len = heads_len_dim[1], dim = heads_len_dim[2];
    int64_t *offset = bench_zeros(b, heads * 8), *lens = bench_zeros(b, heads * 8);
    int32_t *positions = bench_zeros(b, heads * len * 4);
    for (int64_t h = 0; h < heads; h++) {
        offset[h] = h * len;
        lens[h] = len;
        for (int64_t s = 0; s < len; s++) positions[h * len + s] = (int32_t)s;
    }
    return (lh_ragged){.k = bench_normals(b, type, heads * len * dim, 1.0f),
                       .v = bench_normals(b, type, heads * len * dim, 1.0f),
                       .type = type,
                       .positions = positions,
                       .offset = offset,
                       .len = lens,
                       .heads = heads,
                       .head_dim = dim};
}

void bench_cache_drop(bench *b, lh_ragged *kv)
{
    bench_drop(b, kv->k);
    bench_drop(b, kv->v);
    bench_drop(b, kv->positions);
    bench_drop(b, (void *)kv->offset);
    bench_drop(b, kv->len);
}

/* ---- timing ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int bench_wanted(const bench *b, const char *name)
{
    for (int w = 0; w < b->words; w++) {
        if (strstr(name, b->word[w])) return 1;
    }
    return b->words == 0;
}

double bench_run(bench *b, const bench_work *w)
{
    double seconds[400], start = now_s();
    int64_t n = 0;
    if (!bench_wanted(b, w->name)) return 0;
    bench_must(w->call(b, w->args));
    while (n < 400 && (n < 5 || now_s() - start < 0.5)) {
        double t = now_s();
        bench_must(w->call(b, w->args));
        seconds[n++] = now_s() - t;
    }
    qsort(seconds, (size_t)n, sizeof *seconds, by_size);
    double t = seconds[0];
    printf("%-46s %9.3f ms, median %9.3f", w->name, t * 1e3, seconds[n / 2] * 1e3);
    if (w->flops > 0) printf("  %7.1f GFLOP/s (%4.2f)", w->flops / t * 1e-9, w->flops / t / b->flops);
    if (w->bytes > 0) printf("  %6.2f GB/s (%4.2f)", w->bytes / t * 1e-9, w->bytes / t / b->bytes_per_s);
    printf("\n");
    return t;
}
