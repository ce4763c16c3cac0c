/* The backend for AVX-512 with products of bf16 pairs. */
#define LH_VEC_HEADER "kernels/cpu/vec_avx512.h"
#define LH_PAIRS_HEADER "kernels/cpu/pairs_vec.h"
#define LH_TABLE lh_cpu_ops_avx512_bf16
#define TILE_ROWS 14

#include "kernels/cpu/backend.inc.c"
