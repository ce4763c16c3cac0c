/* bench_impl.h - what the bench cases share: a device with its operations, random data on it, timing, and rows of
 * results. A case enqueues one call of an operation; a group (one file) lists the names of its cases and runs them. */
#ifndef LH_LAB_BENCH_BENCH_IMPL_H
#define LH_LAB_BENCH_BENCH_IMPL_H

#include "base/progress.h"
#include "device/counts.h"
#include "kernels/ops.h"
#include "lab/bench/bench.h"

/* Peak rates of a machine; 0: unknown. On the host those of reading memory and of f32 multiply-adds; on a GPU those of
 * copies and of gemm. */
typedef struct lh_bench_rates {
    double bytes_per_s;
    double flops_f32, flops_bf16; /* per second */
} lh_bench_rates;

typedef struct lh_bench {
    const lh_bench_request *request;
    const lh_ops *ops;
    lh_device *device;
    lh_stream *stream;
    lh_event *begin, *end;
    int one_device_per_rank; /* 1: no two ranks share a GPU */
    lh_bench_rates rates;
    lh_bench_result *result;
    void **blocks; /* memory of the cases, newest last */
    int64_t held, cap;
    lh_progress progress; /* counts cases */
} lh_bench;

/* ---- timing.c ---- */

/* Collective over `world`: opens a device with its operations on every rank. Fails on all ranks or on none. */
lh_status lh_bench_open(lh_bench *b, const lh_bench_request *request, lh_comm *world, lh_bench_result *result);
void lh_bench_close(lh_bench *b);

/* n; in a quick run at most `quick_max`. */
int64_t lh_bench_size(const lh_bench *b, int64_t n, int64_t quick_max);

/* 1 if the words of the request select cases of this name. */
int lh_bench_wanted(const lh_bench *b, const char *name);

/* One case. call: enqueues call number `turn`, counted from 0. before: preparation of every call, not timed; may be
 * NULL. */
typedef struct lh_bench_case {
    const char *name; /* of the operation */
    char shape[112];
    lh_dtype type;       /* of the products */
    double flops, bytes; /* of one call; 0: not applicable */
    lh_status (*call)(lh_bench *b, void *args, int64_t turn);
    lh_status (*before)(lh_bench *b, void *args);
    void *args;
} lh_bench_case;

typedef struct lh_bench_time {
    int64_t calls;
    double median_s, fastest_s;
} lh_bench_time;

/* Times a call on the device's clock after a warm-up: at least 5 calls and half a second. */
lh_status lh_bench_measure(lh_bench *b, const lh_bench_case *c, lh_bench_time *out);

/* Measures a case and adds its row, if the words select it; in a quick run only the first of cases with equal shapes.
 * *median_s (may be NULL): 0 if there is no row. */
lh_status lh_bench_run(lh_bench *b, const lh_bench_case *c, double *median_s);

/* Sorts `n` times; median and fastest go to *out. */
void lh_bench_sort(double *seconds, int64_t n, lh_bench_time *out);

/* ---- result.c ---- */

/* The content of a row. bytes, flops and share: 0 if not applicable. */
typedef struct lh_bench_row {
    const char *name, *shape, *limit;
    lh_bench_time time;
    double bytes, flops, share;
} lh_bench_row;

/* columns: of the rows. */
void lh_bench_result_init(lh_bench_result *result, const lh_column *columns);
lh_status lh_bench_add(lh_table *table, const lh_bench_row *row);
/* Adds a figure; value_limit[1]: its upper limit, 0 if unknown. */
lh_status lh_bench_figure(lh_bench_result *result, const char *name, const char *shape, const double value_limit[2]);

/* Minimum seconds that `rates` allow for the bytes and FLOPs of a case. */
double lh_bench_min_s(const lh_bench_rates *rates, const lh_bench_case *c);

/* Adds the row of a case that took `time`, with its share of the rates. */
lh_status lh_bench_add_case(lh_bench *b, const lh_bench_case *c, const lh_bench_time *time);

/* ---- prompt.c ---- */

/* Who is told of each step. */
typedef struct lh_bench_stepped {
    void *self;
    void (*done)(void *self, int64_t step);
} lh_bench_stepped;

/* A prompt and the steps after it. */
typedef struct lh_bench_prompt {
    lh_engine *engine;
    const lh_policy *policy;
    const lh_profiles *profiles;
    const int32_t *ids;                  /* [tokens + steps] */
    int64_t tokens, steps, batch;        /* sequences that step together */
    int64_t *step_nodes;                 /* of the last step's graph (forward.h); NULL: not asked for */
    const lh_forward_progress *progress; /* NULL: none */
    const lh_bench_stepped *stepped;     /* NULL: nobody */
} lh_bench_prompt;

/* n random tokens, the same on all ranks. */
lh_status lh_bench_draw_ids(int32_t **out, int64_t n, int64_t vocab);

/* Collective. Seconds go to *prefill and steps [steps], unless these are NULL. */
lh_status lh_bench_time_prompt(const lh_bench_prompt *prompt, double *prefill, double *steps);

/* The same with few steps and at most `tokens` tokens, not timed; 0: nothing. */
lh_status lh_bench_warm_up(const lh_bench_prompt *prompt, int64_t tokens);

/* ---- counts.c: counts in place of times, in rows with the columns lh_bench_count_columns ---- */

/* LH_EUSAGE if the device does not count. */
lh_status lh_bench_check_counts(const lh_device *device);

/* Counts, each in its place. */
enum { LH_BENCH_TALLY_MOST = 256 };
typedef struct lh_bench_tally {
    lh_count counts[LH_BENCH_TALLY_MOST];
    int64_t n;
} lh_bench_tally;

/* *since = what was counted since *last, which becomes what is counted now. */
void lh_bench_tally_take(const lh_device *device, lh_bench_tally *last, lh_bench_tally *since);
lh_count lh_bench_tally_sum(const lh_bench_tally *tally, lh_count_kind kind);
/* Adds a row for each that is not 0. */
lh_status lh_bench_tally_report(const lh_bench_tally *tally, const char *name, const char *shape,
                                lh_bench_result *result);

/* The second call of a case; and its bytes relative to those it must move, as a figure. */
lh_status lh_bench_count_case(lh_bench *b, const lh_bench_case *c);

/* ---- prompt_counts.c ---- */

/* Collective over the engine's ranks. A layer in the middle of the prompt, its end included, and steps after the first
 * LH_BENCH_FIRST_STEPS, which allocate and capture: the one of the fewest kernels, and the one of the most, which
 * evicts; on rank 0. `shape`: of the rows. */
enum { LH_BENCH_FIRST_STEPS = 2 };
lh_status lh_bench_count_prompt(const lh_bench_prompt *prompt, const char *shape, lh_bench_result *out);

/* ---- operations.c ---- */

/* LH_EUSAGE for a word of the request that none of `names` (ends with NULL) contains, listing the names. */
lh_status lh_bench_check_words(const lh_bench_request *request, const char *const *names);

/* Writes the line about device, threads and libraries. */
void lh_bench_describe(const lh_bench *b);

/* ---- machine.c ---- */

/* Measure the machine's rates, into b->rates and rows of `machine`: memory alone, or memory and products. Local. */
lh_status lh_bench_machine_memory(lh_bench *b);
lh_status lh_bench_machine(lh_bench *b);

/* ---- data.c: device memory, freed by lh_bench_drop(b, mark) with the mark taken before ---- */
int64_t lh_bench_mark(const lh_bench *b);
void lh_bench_drop(lh_bench *b, int64_t mark);

/* Allocate and fill: `bytes` zeros; a copy of host memory; n normals times `scale`, in repeated blocks. */
lh_status lh_bench_zeros(lh_bench *b, void *out, int64_t bytes);
lh_status lh_bench_put(lh_bench *b, void *out, const void *host, int64_t bytes);
typedef struct lh_bench_normal {
    lh_dtype type;
    int64_t n;
    float scale;
} lh_bench_normal;
lh_status lh_bench_normals(lh_bench *b, void *out, const lh_bench_normal *what);

/* Allocate and fill: n integers first, first + 1, …; `bytes` bytes of one value. */
lh_status lh_bench_positions(lh_bench *b, int32_t **out, int64_t first, int64_t n);
lh_status lh_bench_bytes(lh_bench *b, uint8_t **out, int64_t bytes, uint8_t value);

/* A cache of `heads` heads of about `len` entries with positions, without statistics. uneven: 0: equal lengths; else
 * lengths from 0.5 len to 1.5 len, where the number selects their distribution. *entries: sum over all heads. */
typedef struct lh_bench_cache {
    lh_dtype type;
    int64_t heads, len, dim, uneven;
} lh_bench_cache;
lh_status lh_bench_fill(lh_bench *b, lh_ragged *out, const lh_bench_cache *what, int64_t *entries);

/* ---- groups of cases: their names (end with NULL) and the function that runs them ---- */
typedef struct lh_bench_group {
    const char *const *names;
    lh_status (*run)(lh_bench *b);
} lh_bench_group;

extern const lh_bench_group lh_bench_fused, lh_bench_gemm, lh_bench_attention, lh_bench_decode, lh_bench_rows,
    lh_bench_projections, lh_bench_scores, lh_bench_shares, lh_bench_fit, lh_bench_experts;

/* Defines call_<op>, which enqueues one operation with args as its arguments. */
#define LH_BENCH_CALL(op)                                                                     \
    static lh_status call_##op(lh_bench *b, void *args, __attribute__((unused)) int64_t turn) \
    {                                                                                         \
        return b->ops->op(b->stream, args);                                                   \
    }

#endif
