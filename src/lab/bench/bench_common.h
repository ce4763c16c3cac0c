/* bench_common.h - options and output that the tasks of `bench` share. */
#ifndef LH_LAB_BENCH_BENCH_COMMON_H
#define LH_LAB_BENCH_BENCH_COMMON_H

#include "lab/bench/bench.h"
#include "shell/shell.h"

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
