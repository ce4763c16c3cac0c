/* bench.h - how fast this machine is at what a run is made of: single operations, whole runs, collectives, reading a
 * checkpoint. Every figure stands beside what the machine itself can do, measured in the same call. */
#ifndef LH_BENCH_BENCH_H
#define LH_BENCH_BENCH_H

#include "base/table.h"

/* What is measured. */
typedef struct lh_bench_request {
    const char *device;       /* "auto", "cpu", "cuda", "ref" */
    const char *const *words; /* [word_count]: only cases whose names contain one of them; none: all */
    int64_t word_count;
    int64_t context; /* entries a head of the full caches of decode steps; 0: 131072 on a device, 8192 on the host */
    int quick;       /* 1: small shapes and few calls, to see that everything runs; the figures mean little */
} lh_bench_request;

/* Seconds are those of one call. `machine`: the rates of the machine itself, in the columns of `rows`. `ratios`: what
 * is of interest beside another figure of the same run. All are of memory of their own. */
typedef struct lh_bench_result {
    lh_table rows, machine, ratios;
    char about[1024]; /* a line: device, threads, libraries */
} lh_bench_result;

/* Columns of rows and machine, and of ratios. A number that is not the measure of a case is NAN. `share`: the least
 * time that the rates of the machine allow for these bytes and FLOPs, over the median; `limit` names the rate. */
extern const lh_column lh_bench_columns[], lh_bench_ratio_columns[];

void lh_bench_result_clear(lh_bench_result *result);

/* As text: what was measured on, and tables of Markdown. Appended. */
lh_status lh_bench_text(const lh_bench_result *result, lh_buf *out);

/* {"about", "machine": […], "rows": […], "ratios": […]}: new reference. */
lh_status lh_bench_json(const lh_bench_result *result, json_t **out);

/* The operations of a backend on the device of this process; not collective. LH_EUSAGE for a word that is in the name
 * of no case, naming those that there are. */
lh_status lh_bench_operations(const lh_bench_request *request, lh_bench_result *out);

#endif
