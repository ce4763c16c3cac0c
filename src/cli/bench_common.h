/* bench_common.h - what the tasks of `bench` share: how short the run is, and where results go. */
#ifndef LH_CLI_BENCH_COMMON_H
#define LH_CLI_BENCH_COMMON_H

#include "bench/bench.h"
#include "cli/cli.h"

typedef struct lh_bench_output {
    int quick, json;
    const char *csv;
} lh_bench_output;

extern const lh_option_table lh_bench_output_options;

/* What the values of every task begin with. */
typedef struct lh_bench_values {
    lh_cli_common common;
    lh_bench_output output;
} lh_bench_values;

/* The positional arguments of a call as an array of new memory. */
lh_status lh_bench_words(const lh_call *call, const char ***words, int64_t *n);

/* On the rank that speaks. Before long work: LH_EWRITE where the file cannot be written. Behind it: results to standard
 * output and the file; task: what JSON calls it. */
lh_status lh_bench_check_output(const lh_bench_output *output);
lh_status lh_bench_write(const lh_bench_output *output, const char *task, const lh_bench_result *result);

#endif
