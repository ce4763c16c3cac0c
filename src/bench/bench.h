/* bench.h - measures single operations, whole runs, collectives and reading a checkpoint. Every result is compared with
 * the peak rates of the machine, measured in the same call. */
#ifndef LH_BENCH_BENCH_H
#define LH_BENCH_BENCH_H

#include "base/table.h"
#include "engine/engine.h"

typedef struct lh_bench_request {
    const char *device;       /* "auto", "cpu", "cuda", "ref" */
    int share_device;         /* 1: ranks of one host may share a CUDA device */
    const char *const *words; /* [word_count]: only cases whose names contain one of them; none: all */
    int64_t word_count;
    int64_t context; /* entries a head of the full caches of decode steps; 0: 131072 on a device, 8192 on the host */
    int quick;       /* 1: small shapes and few calls, as a smoke test; the figures mean little */
} lh_bench_request;

/* Seconds are those of one call. `machine`: the rates of the machine itself, in the columns of `rows`. `figures`: what
 * follows from several rows, beside the most that is possible. All are of memory of their own. */
typedef struct lh_bench_result {
    lh_table rows, machine, figures;
    char about[1024]; /* a line: device, threads, libraries */
} lh_bench_result;

/* Columns of rows and machine, and of figures. A number that is not the measure of a case is NAN. `share`: the least
 * time that the rates of the machine allow for these bytes and FLOPs, over the median; `limit` names the rate. */
extern const lh_column lh_bench_columns[], lh_bench_figure_columns[];

void lh_bench_result_clear(lh_bench_result *result);

/* As text: what was measured on, and tables of Markdown. Appended. */
lh_status lh_bench_text(const lh_bench_result *result, lh_buf *out);

/* {"about", "machine": […], "rows": […], "figures": […]}: new reference. */
lh_status lh_bench_json(const lh_bench_result *result, json_t **out);

/* The operations of a backend on the device of this process; not collective. LH_EUSAGE for a word that is in the name
 * of no case, naming those that there are. */
lh_status lh_bench_operations(const lh_bench_request *request, lh_bench_result *out);

/* Collective: all-reduce (of f32) and all-gather of buffers of 8 KiB to 64 MiB, between the hosts and between the
 * devices. A call takes as long as it takes the last rank; bytes are those that every rank holds afterwards. The words
 * choose among "all-reduce" and "all-gather". The result is rank 0's. */
lh_status lh_bench_collectives(const lh_bench_request *request, lh_comm *world, lh_bench_result *out);

/* A whole run of a model. */
typedef struct lh_bench_model_request {
    const lh_engine_options *options; /* that the engine was opened with */
    const lh_policy *policy;          /* measured beside the full cache, where it evicts */
    const lh_profiles *profiles;      /* those that the policy names are in it */
    int64_t context, steps, repeat;   /* tokens of the prompt, tokens after it, runs of each */
    int quick;
} lh_bench_model_request;

/* Collective over the engine's ranks: prefill and decode steps of a prompt of random tokens, with the full cache and
 * with the policy's. FLOPs are those of the products and of full attention; bytes those that a step reads at least
 * (lh_plan_make), of all ranks together, as the rates that they are held to are. The result is rank 0's. */
lh_status lh_bench_model(lh_engine *engine, const lh_bench_model_request *request, lh_bench_result *out);

/* Every weight of a checkpoint, read and converted by this process; not collective. */
lh_status lh_bench_reading(const char *path, int quick, lh_bench_result *out);

#endif
