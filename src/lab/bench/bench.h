/* bench.h - measures single operations, prefill and decode of a model, collectives, and reading a checkpoint. Every
 * result is compared with the peak rates of the machine (copies, multiply-adds, large products), which are measured in
 * the same call. */
#ifndef LH_LAB_BENCH_BENCH_H
#define LH_LAB_BENCH_BENCH_H

#include "base/progress.h"
#include "base/table.h"
#include "device/counts.h"
#include "engine/engine.h"
#include "kernels/ops.h"
#include "shell/shell.h"

typedef struct lh_bench_request {
    const char *device;       /* "auto", "cpu", "cuda", "ref" */
    int share_device;         /* 1: ranks of one host may share a CUDA device */
    const char *const *words; /* [word_count]: run only cases with one of these words in their name; none: all */
    int64_t word_count;
    int64_t context; /* entries per head in the full caches of decode steps; 0: 131072 on a GPU, 8192 on the host */
    int quick;       /* 1: small shapes and few calls, as a smoke test; the figures mean little */
    int count;       /* 1: count operations, launches and bytes instead of time (device/counts.h) */
} lh_bench_request;

/* Seconds are per call. `machine`: the machine's peak rates, in the columns of `rows`. `figures`: ratios of several
 * rows, each with its upper limit. The tables own their memory. */
typedef struct lh_bench_result {
    lh_table rows, machine, figures;
    char about[1024]; /* one line: device, threads, libraries */
} lh_bench_result;

/* Columns of rows and machine, and of figures. A number that does not apply to a case is NAN. `share`: the minimum time
 * that the machine's rates allow for these bytes and FLOPs, divided by the median; `limit` names the rate. */
extern const lh_column lh_bench_columns[], lh_bench_figure_columns[];
extern const lh_column lh_bench_count_columns[]; /* of rows, where they are counts */

void lh_bench_result_clear(lh_bench_result *result);

/* Appends the result as text: the machine, then Markdown tables. */
lh_status lh_bench_text(const lh_bench_result *result, lh_buf *out);

/* {"about", "machine": […], "rows": […], "figures": […]} as a new reference. */
lh_status lh_bench_json(const lh_bench_result *result, json_t **out);

/* Measurement of prefill and decode of a model. */
typedef struct lh_bench_model_request {
    const lh_engine_options *options; /* the options of the open engine */
    const lh_policy *policy;          /* measured in addition to the full cache, if it evicts */
    const lh_profiles *profiles;      /* includes those that the policy names */
    int64_t context, steps, repeat;   /* prompt tokens, decode steps, runs with each cache */
    int64_t batch;                    /* sequences that decode together, from the same prompt */
    int64_t warm_up; /* tokens at most of a prompt with each cache, computed first, not timed; 0: first runs are cold */
    int quick, count; /* as of lh_bench_request */
} lh_bench_model_request;

/* ---- timing.c ---- */

/* Peak rates of a machine; 0: unknown. On the host: rates of reading memory and of f32 multiply-adds; on a GPU: rates
 * of copies and of gemm. */
typedef struct lh_bench_rates {
    double bytes_per_s;
    double flops_f32, flops_bf16; /* per second */
} lh_bench_rates;

/* A device with its operations. A case enqueues one call of an operation; a group (one file) lists the names of its
 * cases and runs them. */
typedef struct lh_bench {
    const lh_bench_request *request;
    const lh_ops *ops;
    lh_device *device;
    lh_stream *stream;
    lh_event *begin, *end;
    int one_device_per_rank;
    lh_bench_rates rates;
    lh_bench_result *result;
    void **blocks; /* memory of the cases, newest last */
    int64_t held, cap;
    lh_progress progress; /* counts cases */
} lh_bench;

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
    double flops, bytes; /* per call; 0: not applicable */
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

/* Called after each step. */
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
    const lh_bench_stepped *stepped;     /* may be NULL */
} lh_bench_prompt;

/* n random tokens, the same on all ranks. */
lh_status lh_bench_draw_ids(int32_t **out, int64_t n, int64_t vocab);

/* Collective. Seconds go to *prefill and steps [steps], unless these are NULL. */
lh_status lh_bench_time_prompt(const lh_bench_prompt *prompt, double *prefill, double *steps);

/* The same with few steps and at most `tokens` tokens, or the whole prompt if the policy is impossible for fewer, not
 * timed; 0: nothing. */
lh_status lh_bench_warm_up(const lh_bench_prompt *prompt, int64_t tokens);

/* ---- counts.c: rows with the columns lh_bench_count_columns ---- */

/* LH_EUSAGE if the device does not count. */
lh_status lh_bench_check_counts(const lh_device *device);

/* Counts, each in its place. */
enum { LH_BENCH_TALLY_MOST = 256 };
typedef struct lh_bench_tally {
    lh_count counts[LH_BENCH_TALLY_MOST];
    int64_t n;
} lh_bench_tally;

/* *since = counts since *last; *last becomes the current counts. */
void lh_bench_tally_take(const lh_device *device, lh_bench_tally *last, lh_bench_tally *since);
lh_count lh_bench_tally_sum(const lh_bench_tally *tally, lh_count_kind kind);
/* Adds a row for each that is not 0. */
lh_status lh_bench_tally_report(const lh_bench_tally *tally, const char *name, const char *shape,
                                lh_bench_result *result);

/* The second call of a case; and its bytes relative to those it must move, as a figure. */
lh_status lh_bench_count_case(lh_bench *b, const lh_bench_case *c);

/* Collective over the engine's ranks. A layer in the middle of the prompt, its end included, and the mean of the layers
 * after the first; of the steps after the first LH_BENCH_FIRST_STEPS, which allocate and capture, the one of the fewest
 * kernels, and the one of the most, which evicts; on rank 0. `shape`: of the rows. */
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

/* ---- cmd_bench.c: options and output of the tasks ---- */
typedef struct lh_bench_output {
    int quick, json;
    const char *csv;
} lh_bench_output;

extern const lh_option_table lh_bench_output_options;

/* The first members of every task's values. */
typedef struct lh_bench_values {
    lh_shell_common common;
    lh_bench_output output;
} lh_bench_values;

/* The positional arguments of a call as a new array. */
lh_status lh_bench_words(const lh_call *call, const char ***words, int64_t *n);

/* On rank 0. Before long work: claim the file (base/output.h). After it: write results to standard output and the file;
 * task: its name in JSON. At the end, also of a failed run: release the claim. */
lh_status lh_bench_claim_output(const lh_bench_output *output);
lh_status lh_bench_write(const lh_bench_output *output, const char *task, const lh_bench_result *result);
void lh_bench_drop_output(const lh_bench_output *output);

#endif
