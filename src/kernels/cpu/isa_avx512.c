/* The backend for AVX-512 (F, BW, DQ, VL). */
#define LH_VEC_HEADER "kernels/cpu/vec_avx512.h"
#define LH_PAIRS_HEADER "kernels/cpu/pairs_vec.h"
#define LH_TABLE lh_cpu_ops_avx512
#define TILE_ROWS 14

#include "kernels/cpu/backend.inc.c"
