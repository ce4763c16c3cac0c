/* The backend for the compiler's plain instruction set (SSE2, NEON). */
#define LH_VEC_HEADER "kernels/cpu/vec_generic.h"
#define LH_PAIRS_HEADER "kernels/cpu/pairs_vec.h"
#define LH_TABLE lh_cpu_ops_generic
#define TILE_ROWS 4
#define TOKEN_TILES(X, ...) X(1, __VA_ARGS__) X(2, __VA_ARGS__) X(4, __VA_ARGS__)

#include "kernels/cpu/backend.inc.c"
