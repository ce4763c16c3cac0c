/* bench_impl.h - what the cases of the benches share: a device with its operations, data on it, time, and rows. */
#ifndef LH_BENCH_BENCH_IMPL_H
#define LH_BENCH_BENCH_IMPL_H

#include "base/progress.h"
#include "bench/bench.h"
#include "kernels/ops.h"

/* Peak rates of a machine. 0: unknown. On the host memory is read (sums of numbers) and products are multiply-adds of
 * f32; on a device it is copied, and products are those of gemm. */
typedef struct lh_bench_rates {
    double bytes_per_s;
    double flops_f32, flops_bf16; /* a second */
} lh_bench_rates;

typedef struct lh_bench {
    const lh_bench_request *request;
    const lh_ops *ops;
    lh_device *device;
    lh_stream *stream;
    lh_event *begin, *end;
    int apart; /* no two ranks share a device that is not the host */
    lh_bench_rates rates;
    lh_bench_result *result;
    void **blocks; /* memory of the cases, the newest last */
    int64_t held, cap;
    lh_progress progress; /* in cases */
} lh_bench;

/* ---- timing.c ---- */

/* Collective over `world`: a device with its operations for every rank. Fails on all ranks or on none. */
lh_status lh_bench_open(lh_bench *b, const lh_bench_request *request, lh_comm *world, lh_bench_result *result);
void lh_bench_close(lh_bench *b);

/* n, and `least` where the run is a quick one and n is more. */
int64_t lh_bench_size(const lh_bench *b, int64_t n, int64_t least);

/* 1 when the words of the request choose cases of this name. */
int lh_bench_wanted(const lh_bench *b, const char *name);

/* One case. call: enqueues one call, of which turns are counted from 0. before: what every call needs, out of the time;
 * NULL: nothing. */
typedef struct lh_bench_case {
    const char *name; /* of the operation */
    char shape[112];
    lh_dtype type;       /* of the products */
    double flops, bytes; /* of one call; 0: not the measure */
    lh_status (*call)(lh_bench *b, void *args, int64_t turn);
    lh_status (*before)(lh_bench *b, void *args);
    void *args;
} lh_bench_case;

typedef struct lh_bench_time {
    int64_t calls;
    double median_s, fastest_s;
} lh_bench_time;

/* Seconds of one call on the clock of the device, after a warm-up: 5 calls and half a second of them at least. */
lh_status lh_bench_measure(lh_bench *b, const lh_bench_case *c, lh_bench_time *out);

/* A row of the results, where the words choose the case; of a quick run, whose shapes may be the same, the first alone.
 * *median_s (may be NULL): 0 where there is no row. */
lh_status lh_bench_run(lh_bench *b, const lh_bench_case *c, double *median_s);

/* `n` times in ascending order: the median and the fastest. */
void lh_bench_sort(double *seconds, int64_t n, lh_bench_time *out);

/* ---- result.c ---- */

/* What a row says. bytes, flops and share: 0 where there is none. */
typedef struct lh_bench_row {
    const char *name, *shape, *limit;
    lh_bench_time time;
    double bytes, flops, share;
} lh_bench_row;

void lh_bench_result_init(lh_bench_result *result);
lh_status lh_bench_add(lh_table *table, const lh_bench_row *row);
/* A figure; value_limit[1]: the most that is possible, 0 where that is not known. */
lh_status lh_bench_figure(lh_bench_result *result, const char *name, const char *shape, const double value_limit[2]);

/* The least seconds that `rates` allow for these bytes and FLOPs of products of a type. */
double lh_bench_least_s(const lh_bench_rates *rates, const lh_bench_case *c);

/* The row of a case that took `time`, with its share of `rates`. */
lh_status lh_bench_add_case(lh_bench *b, const lh_bench_case *c, const lh_bench_time *time);

/* ---- operations.c ---- */

/* LH_EUSAGE for a word of the request that is in none of `names` (ends with NULL), naming these. */
lh_status lh_bench_check_words(const lh_bench_request *request, const char *const *names);

/* The line about device, threads and libraries. */
void lh_bench_describe(const lh_bench *b);

/* ---- machine.c ---- */

/* The rates of the machine, as rows of `machine` and in b->rates: of memory, and of products, too. Local. */
lh_status lh_bench_machine_memory(lh_bench *b);
lh_status lh_bench_machine(lh_bench *b);

/* ---- data.c: memory of the device, until lh_bench_drop(b, mark) with the mark taken before ---- */
int64_t lh_bench_mark(const lh_bench *b);
void lh_bench_drop(lh_bench *b, int64_t mark);

/* `bytes` zeros; what lies at `host`; n normals times `scale`, repeated after a while. */
lh_status lh_bench_zeros(lh_bench *b, void *out, int64_t bytes);
lh_status lh_bench_put(lh_bench *b, void *out, const void *host, int64_t bytes);
typedef struct lh_bench_normal {
    lh_dtype type;
    int64_t n;
    float scale;
} lh_bench_normal;
lh_status lh_bench_normals(lh_bench *b, void *out, const lh_bench_normal *what);

/* n numbers first, first + 1, …; `bytes` bytes of one value. */
lh_status lh_bench_positions(lh_bench *b, int32_t **out, int64_t first, int64_t n);
lh_status lh_bench_bytes(lh_bench *b, uint8_t **out, int64_t bytes, uint8_t value);

/* A cache: `heads` heads of about `len` entries with positions and without statistics. uneven: 0: all heads are as
 * long; else they have from a half to three halves, another number another deal. entries: of all heads. */
typedef struct lh_bench_cache {
    lh_dtype type;
    int64_t heads, len, dim, uneven;
} lh_bench_cache;
lh_status lh_bench_fill(lh_bench *b, lh_ragged *out, const lh_bench_cache *what, int64_t *entries);

/* ---- the cases, by what they measure: their names, which end with NULL, and their runs ---- */
typedef struct lh_bench_group {
    const char *const *names;
    lh_status (*run)(lh_bench *b);
} lh_bench_group;

extern const lh_bench_group lh_bench_gemm, lh_bench_attention, lh_bench_decode, lh_bench_rows, lh_bench_projections,
    lh_bench_scores, lh_bench_shares;

/* call_<op>: a call of one operation, with its arguments as args. */
#define LH_BENCH_CALL(op)                                                                     \
    static lh_status call_##op(lh_bench *b, void *args, __attribute__((unused)) int64_t turn) \
    {                                                                                         \
        return b->ops->op(b->stream, args);                                                   \
    }

#endif
