/* cpu.h - what the parts of the `cpu` backend share. The operations are compiled once per instruction set into a table
 * of their own (backend.inc.c); cpu.c chooses one at run time. */
#ifndef LH_KERNELS_CPU_CPU_H
#define LH_KERNELS_CPU_CPU_H

#include "kernels/ops.h"

extern const lh_ops lh_cpu_ops_generic, lh_cpu_ops_avx2, lh_cpu_ops_avx512;

/* gemm in any order, by a library: OpenBLAS, or oneDNN for bf16 where it is there and the processor multiplies bf16. */
lh_status lh_cpu_gemm_library_run(lh_stream *stream, const lh_gemm_args *args);

#endif
