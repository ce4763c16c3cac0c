/* bench.h - what the programs that measure operations share: the multiply-add rate and the read bandwidth of this
 * machine, data, and the fastest and the median of many calls. OMP_NUM_THREADS and LONGHAUL_CPU_ISA are respected. */
#ifndef LH_TESTS_KERNELS_BENCH_H
#define LH_TESTS_KERNELS_BENCH_H

#include "kernels/ops.h"

typedef struct bench {
    lh_device *device;
    lh_stream *stream;
    double flops, bytes_per_s; /* of the machine */
    int words;
    char **word; /* only cases whose names contain one of them; none: all */
} bench;

/* Opens a device, measures the machine and prints it; the arguments of the program are the words. */
void bench_open(bench *b, int argc, char **argv);
void bench_close(bench *b);

/* Ends the program when something failed. */
void bench_must(lh_status st);

/* `bytes` zeros, and n normals times `scale`, repeated after a while, until bench_drop. */
void *bench_zeros(bench *b, int64_t bytes);
void *bench_normals(bench *b, lh_dtype type, int64_t n, float scale);
void bench_drop(bench *b, void *p);

/* A cache of `heads` heads with `len` entries each, positions and no statistics. */
lh_ragged bench_cache(bench *b, lh_dtype type, const int64_t heads_len_dim[3]);
void bench_cache_drop(bench *b, lh_ragged *kv);

typedef struct bench_work {
    char name[96];
    double flops, bytes; /* of one call; 0: not the measure */
    lh_status (*call)(bench *b, void *args);
    void *args;
} bench_work;

/* Whether the words choose a case of this name. */
int bench_wanted(const bench *b, const char *name);

/* Prints the rates of the fastest call, and the median time, which is much larger where others use the machine. Gives
 * the seconds of the fastest; 0 where the words leave the case out. */
double bench_run(bench *b, const bench_work *w);

#endif
