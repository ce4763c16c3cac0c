/* cpu.h - the instruction sets of the `cpu` backend, and oneDNN. The operations are compiled once per instruction set
 * into separate tables (backend.inc.c); cpu.c chooses one at run time. */
#ifndef LH_KERNELS_CPU_CPU_H
#define LH_KERNELS_CPU_CPU_H

#include "kernels/ops.h"
#include "kernels/ref/ref.h" /* a few operations use their definition */

extern const lh_ops lh_cpu_ops_generic, lh_cpu_ops_avx2, lh_cpu_ops_avx512, lh_cpu_ops_avx512_bf16, lh_cpu_ops_amx;

/* Returns 1 if the program was built with oneDNN and oneDNN has bf16 instructions on this processor; determined once.
 * Then lh_cpu_onednn_gemm multiplies bf16, in any order of sums. */
int lh_cpu_onednn_there(void);
lh_status lh_cpu_onednn_gemm(lh_stream *stream, const lh_gemm_args *args);

#endif
