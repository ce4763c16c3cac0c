/* The backend for AMX with tiles in plain C (pairs_amx.h): what is built on them can be tested wherever AVX-512 is. */
#define LH_AMX_EMULATED
#define LH_VEC_HEADER "kernels/cpu/vec_avx512.h"
#define LH_PAIRS_HEADER "kernels/cpu/pairs_amx.h"
#define LH_TABLE amx_ops
#define TILE_ROWS 14
#define TOKEN_TILES(X, ...) X(1, __VA_ARGS__) X(4, __VA_ARGS__)

#include "kernels/cpu/backend.inc.c"
