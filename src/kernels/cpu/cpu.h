/* cpu.h - what the parts of the `cpu` backend share. The operations are
 * compiled once per instruction set into a table of their own (backend.inc.c);
 * cpu.c chooses one at run time. */
#ifndef LH_KERNELS_CPU_CPU_H
#define LH_KERNELS_CPU_CPU_H

#include "kernels/ops.h"
#include "kernels/ref/ref.h" /* a few operations are as fast as they are defined */

extern const lh_ops lh_cpu_ops_generic, lh_cpu_ops_avx2, lh_cpu_ops_avx512, lh_cpu_ops_avx512_bf16, lh_cpu_ops_amx;

/* 1 where the program was built with oneDNN and this multiplies bf16 by the
 * instructions of the processor; asked once. Then gemm of bf16 in any order: */
int lh_cpu_onednn_there(void);
lh_status lh_cpu_onednn_gemm(lh_stream *stream, const lh_gemm_args *args);

#endif
