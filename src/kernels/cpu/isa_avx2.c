/* The backend for AVX2 with FMA. */
#define LH_VEC_HEADER "kernels/cpu/vec_avx2.h"
#define LH_PAIRS_HEADER "kernels/cpu/pairs_vec.h"
#define LH_TABLE lh_cpu_ops_avx2
#define TILE_ROWS 6
#define TOKEN_TILES(X, ...) X(1, __VA_ARGS__) X(2, __VA_ARGS__) X(4, __VA_ARGS__) X(8, __VA_ARGS__)

#include "kernels/cpu/backend.inc.c"
