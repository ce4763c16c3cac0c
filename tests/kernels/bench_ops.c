/* bench_ops - how fast the operations of the `cpu` backend are here, beside the multiply-add rate and the read
 * bandwidth of this machine, measured in the same run. For developers; not a test.
 *
 *     bench_ops [WORD…]     only the cases whose names contain one of the words
 *
 * OMP_NUM_THREADS and LONGHAUL_CPU_ISA are respected. Data are random; weights and caches that are read once are larger
 * than the caches of the processor. Rates are those of the fastest call; the median
 * time stands beside it, and is much larger where others use the machine. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "kernels/ops.h"

typedef struct bench {
    lh_device *device;
    lh_stream *stream;
    double flops, bytes_per_s; /* of the machine */
    int words;
    char **word;
} bench;

/* With one thread its own time is counted, which others on the machine disturb less. */
static double now_s(void)
{
    struct timespec t;
    clock_gettime(omp_get_max_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(lh_status st)
{
    if (st == LH_OK) return;
    fprintf(stderr, "bench_ops: %s\n", lh_error_message());
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
    must(lh_device_alloc(b->device, &data, PARTS * (int64_t)MIB, LH_MEM_WORK));
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

/* ---- data ---- */

static void *fresh(bench *b, int64_t bytes)
{
    void *p;
    must(lh_device_alloc(b->device, &p, bytes, LH_MEM_WORK));
    memset(p, 0, (size_t)bytes);
    return p;
}

/* n normals, repeated after a while, times scale. */
static void *random_data(bench *b, lh_dtype type, int64_t n, float scale)
{
    enum { PERIOD = 1 << 16 };
    char *p = fresh(b, n * lh_dtype_bytes(type));
    float part[1 << 10];
    for (int64_t i = 0; i < n && i < PERIOD; i += 1 << 10) {
        int64_t count = n - i < 1 << 10 ? n - i : 1 << 10;
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

/* A cache of `heads` heads with `len` entries each. */
typedef struct cache {
    lh_ragged view;
    int64_t *lens;
} cache;

static cache cache_make(bench *b, lh_dtype type, int64_t heads, int64_t len, int64_t dim)
{
    int64_t *offset = fresh(b, heads * 8), *lens = fresh(b, heads * 8);
    int32_t *positions = fresh(b, heads * len * 4);
    for (int64_t h = 0; h < heads; h++) {
        offset[h] = h * len;
        lens[h] = len;
        for (int64_t s = 0; s < len; s++) positions[h * len + s] = (int32_t)s;
    }
    return (cache){.view = {.k = random_data(b, type, heads * len * dim, 1.0f),
                            .v = random_data(b, type, heads * len * dim, 1.0f),
                            .type = type,
                            .positions = positions,
                            .offset = offset,
                            .len = lens,
                            .heads = heads,
                            .head_dim = dim},
                   .lens = lens};
}

static void cache_drop(bench *b, cache *c)
{
    lh_device_free(b->device, c->view.k);
    lh_device_free(b->device, c->view.v);
    lh_device_free(b->device, c->view.positions);
    lh_device_free(b->device, (void *)c->view.offset);
    lh_device_free(b->device, c->lens);
}

/* ---- timing ---- */

typedef struct work {
    char name[96];
    double flops, bytes; /* of one call; 0: not the measure */
    lh_status (*call)(bench *b, void *args, int64_t turn);
    void *args;
} work;

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int wanted(const bench *b, const char *name)
{
    for (int w = 0; w < b->words; w++) {
        if (strstr(name, b->word[w])) return 1;
    }
    return b->words == 0;
}

static void measure(bench *b, const work *w)
{
    double seconds[400], start = now_s();
    int64_t n = 0;
    must(w->call(b, w->args, 0));
    while (n < 400 && (n < 5 || now_s() - start < 0.5)) {
        double t = now_s();
        must(w->call(b, w->args, n + 1));
        seconds[n++] = now_s() - t;
    }
    qsort(seconds, (size_t)n, sizeof *seconds, by_size);
    double t = seconds[0];
    printf("%-46s %9.3f ms, median %9.3f", w->name, t * 1e3, seconds[n / 2] * 1e3);
    if (w->flops > 0) printf("  %7.1f GFLOP/s (%4.2f)", w->flops / t * 1e-9, w->flops / t / b->flops);
    if (w->bytes > 0) printf("  %6.2f GB/s (%4.2f)", w->bytes / t * 1e-9, w->bytes / t / b->bytes_per_s);
    printf("\n");
}

/* ---- gemm ---- */

typedef struct gemm_case {
    lh_gemm_args args;
    int64_t copies; /* of the weights, used in turn */
} gemm_case;

static lh_status call_gemm(bench *b, void *args, int64_t turn)
{
    const gemm_case *c = args;
    lh_gemm_args a = c->args;
    a.w = (const char *)a.w + turn % c->copies * a.out * a.in * lh_dtype_bytes(a.type);
    return lh_ops_cpu.gemm(b->stream, &a);
}

static void bench_gemm(bench *b, const int64_t shape[3], lh_dtype type, lh_order order)
{
    int64_t tokens = shape[0], in = shape[1], out = shape[2], bytes = out * in * lh_dtype_bytes(type);
    gemm_case c = {.copies = tokens <= 64 ? 1 + (128 << 20) / bytes : 1};
    work w = {.call = call_gemm, .args = &c};
    snprintf(w.name, sizeof w.name, "gemm %s%s %d x %d -> %d", lh_dtype_name(type),
             order == LH_ORDER_FIXED ? " fixed" : "", (int)tokens, (int)in, (int)out);
    if (!wanted(b, w.name)) return;
    w.flops = tokens > 1 ? 2.0 * (double)tokens * (double)in * (double)out : 0;
    w.bytes = tokens <= 64 ? (double)bytes : 0;
    c.args = (lh_gemm_args){.y = fresh(b, tokens * out * 4),
                            .x = random_data(b, type, tokens * in, 1.0f),
                            .w = random_data(b, type, out * in * c.copies, 1.0f),
                            .type = type,
                            .tokens = tokens,
                            .out = out,
                            .in = in,
                            .y_ld = out,
                            .x_ld = in,
                            .w_ld = in,
                            .order = order};
    measure(b, &w);
    lh_device_free(b->device, c.args.y);
    lh_device_free(b->device, (void *)c.args.x);
    lh_device_free(b->device, (void *)c.args.w);
}

/* ---- attention ---- */

typedef struct attend_case {
    lh_dtype type;
    int64_t kv_heads, group, dim, tokens, len;
} attend_case;

static lh_status call_block(bench *b, void *args, int64_t turn)
{
    (void)turn;
    return lh_ops_cpu.attend_block(b->stream, args);
}

static lh_status call_decode(bench *b, void *args, int64_t turn)
{
    (void)turn;
    return lh_ops_cpu.attend_decode(b->stream, args);
}

static lh_status call_columns(bench *b, void *args, int64_t turn)
{
    (void)turn;
    return lh_ops_cpu.column_sums(b->stream, args);
}

static void name_attend(char *out, const char *what, const attend_case *c)
{
    snprintf(out, 96, "%s %s %d/%d x %d, %d rows of %d", what, lh_dtype_name(c->type), (int)(c->kv_heads * c->group),
             (int)c->kv_heads, (int)c->dim, (int)c->tokens, (int)c->len);
}

static void bench_attention(bench *b, const attend_case *c)
{
    int64_t heads = c->kv_heads * c->group, ld = heads * c->dim, entries = c->kv_heads * c->len;
    double rows = (double)c->tokens, pairs = rows * (double)c->len - rows * (rows - 1) / 2;
    work block = {.call = call_block, .flops = 4.0 * pairs * (double)ld};
    work decode = {.call = call_decode, .bytes = 2.0 * (double)(entries * c->dim * lh_dtype_bytes(c->type))};
    work columns = {.call = call_columns, .flops = 2.0 * 32 * (double)c->len * (double)ld};
    name_attend(block.name, "attend_block", c);
    name_attend(decode.name, "attend_decode", c);
    name_attend(columns.name, "column_sums", c);
    if (!wanted(b, block.name) && !wanted(b, decode.name) && !wanted(b, columns.name)) return;
    cache kv = cache_make(b, c->type, c->kv_heads, c->len, c->dim);
    float *q = random_data(b, LH_F32, c->tokens * ld, 1.0f), *o = fresh(b, c->tokens * ld * 4);
    float *lse = fresh(b, c->tokens * heads * 4), *sums = fresh(b, heads * c->len * 4);
    int32_t *positions = fresh(b, c->tokens * 4);
    lh_grouping map = {heads, c->group, 0};
    lh_logit logit = {.scale = 0.1f};
    for (int64_t t = 0; t < c->tokens; t++) positions[t] = (int32_t)(c->len - c->tokens + t);
    lh_attend_block_args block_args = {.o = o,
                                       .lse = lse,
                                       .q = q,
                                       .positions = positions,
                                       .kv = &kv.view,
                                       .map = map,
                                       .logit = logit,
                                       .tokens = c->tokens,
                                       .q_ld = ld,
                                       .o_ld = ld};
    lh_attend_decode_args decode_args = {.o = o,
                                         .lse = lse,
                                         .q = q,
                                         .positions = positions + c->tokens - 1,
                                         .seqs = &kv.view,
                                         .batch = 1,
                                         .q_ld = ld,
                                         .o_ld = ld,
                                         .map = map,
                                         .logit = logit};
    int64_t window = c->tokens < 32 ? c->tokens : 32;
    lh_column_sums_args columns_args = {.sums = sums,
                                        .q = q,
                                        .lse = lse,
                                        .positions = positions + c->tokens - window,
                                        .kv = &kv.view,
                                        .map = map,
                                        .logit = logit,
                                        .rows = window,
                                        .cols = c->len,
                                        .q_ld = ld,
                                        .ld = c->len};
    block.args = &block_args;
    decode.args = &decode_args;
    columns.args = &columns_args;
    if (wanted(b, block.name)) measure(b, &block);
    if (c->tokens == 1 && wanted(b, decode.name)) measure(b, &decode);
    if (c->tokens >= 32 && wanted(b, columns.name)) measure(b, &columns);
    lh_device_free(b->device, q);
    lh_device_free(b->device, o);
    lh_device_free(b->device, lse);
    lh_device_free(b->device, sums);
    lh_device_free(b->device, positions);
    cache_drop(b, &kv);
}

/* ---- rows and scores ---- */

#define CALL(op)                                                   \
    static lh_status call_##op(bench *b, void *args, int64_t turn) \
    {                                                              \
        (void)turn;                                                \
        return lh_ops_cpu.op(b->stream, args);                     \
    }
CALL(rmsnorm)
CALL(rope)
CALL(gated)
CALL(add)
CALL(softcap)
CALL(top_logits)
CALL(pool)
CALL(histogram)
CALL(select_top)
CALL(compact)

static void run(bench *b, work w, const char *name)
{
    snprintf(w.name, sizeof w.name, "%s", name);
    if (wanted(b, name)) measure(b, &w);
}

static void bench_rows(bench *b)
{
    enum { T = 512, DIM = 2048, N = T * DIM, HEADS = 32, VOCAB = 1 << 17 };
    float *x = random_data(b, LH_F32, N, 1.0f), *y = random_data(b, LH_F32, N, 1.0f),
          *w = random_data(b, LH_F32, DIM, 1.0f);
    float *logits = random_data(b, LH_F32, VOCAB, 3.0f), values[64];
    int32_t *positions = fresh(b, T * 4), indices[64];
    for (int t = 0; t < T; t++) positions[t] = 1000 + t;
    run(b,
        (work){.call = call_rmsnorm,
               .bytes = 6.0 * N,
               .args = &(lh_rmsnorm_args){.y = y,
                                          .y_type = LH_BF16,
                                          .x = x,
                                          .w = w,
                                          .tokens = T,
                                          .heads = 1,
                                          .dim = DIM,
                                          .x_ld = DIM,
                                          .y_ld = DIM}},
        "rmsnorm 512 x 2048 to bf16");
    run(b,
        (work){.call = call_rope,
               .bytes = 8.0 * N,
               .args = &(lh_rope_args){.x = x,
                                       .positions = positions,
                                       .inv_freq = w,
                                       .tokens = T,
                                       .heads = HEADS,
                                       .dim = 64,
                                       .rotary = 64,
                                       .ld = DIM,
                                       .scale = 1}},
        "rope 512 x 32 x 64");
    run(b,
        (work){.call = call_gated,
               .bytes = 10.0 * N,
               .args =
                   &(lh_gated_args){
                       .y = y, .y_type = LH_BF16, .gate = x, .up = x, .tokens = T, .dim = DIM, .y_ld = DIM, .ld = DIM}},
        "gated silu 512 x 2048 to bf16");
    run(b,
        (work){.call = call_gated,
               .bytes = 10.0 * N,
               .args = &(lh_gated_args){.y = y,
                                        .y_type = LH_BF16,
                                        .gate = x,
                                        .up = x,
                                        .tokens = T,
                                        .dim = DIM,
                                        .y_ld = DIM,
                                        .ld = DIM,
                                        .gate_kind = LH_GATE_GELU}},
        "gated gelu 512 x 2048 to bf16");
    run(b,
        (work){.call = call_add,
               .bytes = 12.0 * N,
               .args = &(lh_add_args){.y = y, .x = x, .tokens = T, .dim = DIM, .y_ld = DIM, .x_ld = DIM}},
        "add 512 x 2048");
    run(b, (work){.call = call_softcap, .bytes = 8.0 * VOCAB, .args = &(lh_softcap_args){logits, VOCAB, 1e6f}},
        "softcap 131072");
    run(b,
        (work){
            .call = call_top_logits,
            .bytes = 4.0 * VOCAB,
            .args =
                &(lh_top_logits_args){
                    .values = values, .indices = indices, .x = logits, .rows = 1, .cols = VOCAB, .ld = VOCAB, .k = 50}},
        "top_logits 50 of 131072");
    lh_device_free(b->device, x);
    lh_device_free(b->device, y);
    lh_device_free(b->device, w);
    lh_device_free(b->device, logits);
    lh_device_free(b->device, positions);
}

static void bench_scores(bench *b)
{
    enum { HEADS = 8, LEN = 1 << 16, N = HEADS * LEN, DIM = 64 };
    float *x = random_data(b, LH_F32, N, 1.0f), *y = fresh(b, (int64_t)N * 4);
    uint8_t *state = fresh(b, N), *compete = fresh(b, N);
    int64_t counts[HEADS], bins[2048];
    cache kv = cache_make(b, LH_BF16, HEADS, LEN, DIM);
    memset(compete, LH_ENTRY_COMPETES, N);
    for (int h = 0; h < HEADS; h++) counts[h] = LEN / 2;
    run(b,
        (work){.call = call_pool,
               .bytes = 9.0 * N,
               .args = &(lh_pool_args){.y = y,
                                       .x = x,
                                       .state = compete,
                                       .len = kv.lens,
                                       .rows = HEADS,
                                       .rows_per_head = 1,
                                       .ld = LEN,
                                       .k = 31,
                                       .kind = LH_POOL_MAX}},
        "pool max 31, 8 x 65536");
    run(b,
        (work){.call = call_pool,
               .bytes = 9.0 * N,
               .args = &(lh_pool_args){.y = y,
                                       .x = x,
                                       .state = compete,
                                       .len = kv.lens,
                                       .rows = HEADS,
                                       .rows_per_head = 1,
                                       .ld = LEN,
                                       .k = 5,
                                       .kind = LH_POOL_AVG}},
        "pool avg 5, 8 x 65536");
    run(b,
        (work){.call = call_histogram,
               .bytes = 5.0 * N,
               .args = &(lh_histogram_args){.bins = bins,
                                            .scores = x,
                                            .state = compete,
                                            .len = kv.lens,
                                            .heads = HEADS,
                                            .ld = LEN,
                                            .bits = 11}},
        "histogram 8 x 65536");
    run(b,
        (work){.call = call_select_top,
               .bytes = 5.0 * N,
               .args =
                   &(lh_select_top_args){.state = compete, .scores = x, .kv = &kv.view, .counts = counts, .ld = LEN}},
        "select_top of 8 x 65536, mostly once");
    for (int64_t i = 0; i < N; i++) state[i] = i % 3 == 0 ? LH_ENTRY_KEEP : LH_ENTRY_DROP;
    cache kept = cache_make(b, LH_BF16, HEADS, LEN, DIM);
    run(b,
        (work){.call = call_compact,
               .bytes = 4.0 * DIM * N / 3,
               .args = &(lh_compact_args){.dst = &kept.view, .src = &kv.view, .state = state, .ld = LEN}},
        "compact a third of 8 x 65536 x 64 bf16");
    cache_drop(b, &kept);
    cache_drop(b, &kv);
    lh_device_free(b->device, x);
    lh_device_free(b->device, y);
    lh_device_free(b->device, state);
    lh_device_free(b->device, compete);
}

int main(int argc, char **argv)
{
    static const int64_t many[][3] = {{512, 576, 192},   {512, 576, 576},   {512, 576, 1536},   {512, 1536, 576},
                                      {512, 2048, 2048}, {512, 2048, 8192}, {2048, 2048, 2048}, {128, 2048, 2048}};
    static const int64_t few[][3] = {{1, 576, 1536},   {1, 4096, 14336}, {1, 576, 49152},   {2, 4096, 14336},
                                     {4, 4096, 14336}, {8, 4096, 14336}, {16, 4096, 14336}, {32, 4096, 14336}};
    static const attend_case attend[] = {{LH_F32, 3, 3, 64, 512, 512},  {LH_F32, 3, 3, 64, 2048, 2048},
                                         {LH_F32, 3, 3, 64, 512, 8192}, {LH_F32, 8, 4, 128, 2048, 2048},
                                         {LH_F32, 3, 3, 64, 20, 4096},  {LH_F32, 3, 3, 64, 1, 8192},
                                         {LH_F32, 8, 4, 128, 1, 32768}};
    bench b = {.words = argc - 1, .word = argv + 1};
    must(lh_device_open(&b.device, LH_DEVICE_CPU, 0));
    must(lh_stream_open(&b.stream, b.device));
    measure_machine(&b);
    for (lh_dtype type = LH_F32; type <= LH_BF16; type += LH_BF16 - LH_F32) {
        for (size_t i = 0; i < sizeof many / sizeof *many; i++) bench_gemm(&b, many[i], type, LH_ORDER_ANY);
        for (size_t i = 0; i < sizeof many / sizeof *many; i++) bench_gemm(&b, many[i], type, LH_ORDER_FIXED);
        for (size_t i = 0; i < sizeof few / sizeof *few; i++) bench_gemm(&b, few[i], type, LH_ORDER_ANY);
        for (size_t i = 0; i < sizeof few / sizeof *few; i++) bench_gemm(&b, few[i], type, LH_ORDER_FIXED);
        for (size_t i = 0; i < sizeof attend / sizeof *attend; i++) {
            attend_case c = attend[i];
            c.type = type;
            bench_attention(&b, &c);
        }
    }
    bench_rows(&b);
    bench_scores(&b);
    lh_stream_close(b.stream);
    lh_device_close(b.device);
    return 0;
}
