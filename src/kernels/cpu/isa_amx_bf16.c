/* The backend for AVX-512 with products of bf16 pairs and the matrix tiles of AMX. */
#define LH_VEC_HEADER "kernels/cpu/vec_avx512.h"
#define LH_PAIRS_HEADER "kernels/cpu/pairs_amx.h"
#define LH_TABLE lh_cpu_ops_amx
#define TILE_ROWS 14
#define TOKEN_TILES(X, ...) \
    X(1, __VA_ARGS__) X(2, __VA_ARGS__) X(4, __VA_ARGS__) X(8, __VA_ARGS__) X(12, __VA_ARGS__) X(16, __VA_ARGS__)

#include "kernels/cpu/backend.inc.c"
