/* bench.h - measures single operations, prefill and decode of a model, collectives, and reading a checkpoint. Every
 * result is compared with the peak rates of the machine (copies, multiply-adds, large products), which are measured in
 * the same call. */
#ifndef LH_LAB_BENCH_BENCH_H
#define LH_LAB_BENCH_BENCH_H

#include "base/table.h"
#include "engine/engine.h"

typedef struct lh_bench_request {
    const char *device;       /* "auto", "cpu", "cuda", "ref" */
    int share_device;         /* 1: ranks of one host may share a CUDA device */
    const char *const *words; /* [word_count]: run only cases whose names contain one of them; none: all */
    int64_t word_count;
    int64_t context; /* entries per head in the full caches of decode steps; 0: 131072 on a GPU, 8192 on the host */
    int quick;       /* 1: small shapes and few calls, as a smoke test; the figures mean little */
    int count;       /* 1: count what the device does in place of timing it (device/counts.h) */
} lh_bench_request;

/* Seconds are those of one call. `machine`: the machine's peak rates, in the columns of `rows`. `figures`: ratios of
 * several rows, each with its upper limit. The tables own their memory. */
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

/* Measures the operations of a backend on the device of this process; not collective. LH_EUSAGE for a word that no
 * case's name contains, listing the names, and with `count` for a device that does not count. */
lh_status lh_bench_operations(const lh_bench_request *request, lh_bench_result *out);

/* Collective. Measures all-reduce (of f32) and all-gather of buffers of 8 KiB to 64 MiB, between hosts and between
 * devices. The time of a call is that of the slowest rank; bytes are those that every rank holds afterwards. The words
 * select "all-reduce" or "all-gather". The result is on rank 0. */
lh_status lh_bench_collectives(const lh_bench_request *request, lh_comm *world, lh_bench_result *out);

/* Measurement of prefill and decode of a model. */
typedef struct lh_bench_model_request {
    const lh_engine_options *options; /* those of the open engine */
    const lh_policy *policy;          /* measured in addition to the full cache, if it evicts */
    const lh_profiles *profiles;      /* includes those that the policy names */
    int64_t context, steps, repeat;   /* prompt tokens, decode steps, runs with each cache */
    int64_t batch;                    /* sequences that decode together, from the same prompt */
    int64_t warm_up;                  /* prompt tokens that are computed first, not timed; 0: the first run is cold */
    int quick, count;                 /* as of lh_bench_request */
} lh_bench_model_request;

/* Collective over the engine's ranks. Measures prefill and decode steps after a prompt of random tokens, with the full
 * cache and with the policy's. FLOPs are those of matrix products and full attention; bytes are the minimum that a step
 * reads (lh_plan_make). Both, and the rates they are compared with, are sums over all ranks. The result is on rank
 * 0. With `count`: what the device does in a layer of the prompt and in steps; LH_EUSAGE if it does not count. */
lh_status lh_bench_model(lh_engine *engine, const lh_bench_model_request *request, lh_bench_result *out);

/* Collective over the engine's ranks: seconds of one prefill of `context` random tokens, and the median of `steps`
 * steps of `batch` sequences after it, with the request's policy; of each rank. */
typedef struct lh_bench_pace {
    double prefill_s, step_s;
} lh_bench_pace;
lh_status lh_bench_speed(lh_engine *engine, const lh_bench_model_request *request, lh_bench_pace *out);

/* FLOPs of a prefill: the products of all layers, full or sliding-window attention, and one row of logits. */
double lh_bench_prefill_flops(const lh_config *config, int64_t tokens);

/* Measures reading and converting all weights of a checkpoint in this process; not collective. */
lh_status lh_bench_reading(const char *path, int quick, lh_bench_result *out);

#endif
