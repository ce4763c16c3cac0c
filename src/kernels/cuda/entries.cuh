/* entries.cuh - shared by kernels over the entries of a ragged cache: grids over [heads, slots], positions, and loads
 * of 16 bytes. */
#ifndef LH_KERNELS_CUDA_ENTRIES_CUH
#define LH_KERNELS_CUDA_ENTRIES_CUH

#include "base/minmax.h"
#include "kernels/cuda/vector.cuh"

/* Grid over slots: blockIdx.y is the head, x runs over its slots (lh_grid_first, lh_grid_step). Blocks after a head's
 * end are idle. `each`: slots of a block. */
static inline lh_shape lh_over_slots(int64_t heads, int64_t ld, int threads, int64_t each)
{
    return lh_shape{dim3(lh_blocks(ld, each), (unsigned)heads), threads, 0};
}

/* Some of the caches of a batch, as a kernel parameter, because their descriptions are host memory. `first`: row of the
 * first head of the first one in the batch; the heads of all follow. */
enum { LH_CACHES_AT_ONCE = 8 };
typedef struct lh_caches {
    lh_ragged at[LH_CACHES_AT_ONCE];
    int64_t first, rows, count;
} lh_caches;
static_assert(2 * sizeof(lh_caches) + 512 <= 4096, "parameters of a kernel above 4 KB need CUDA 12.1");

/* The caches from `from` on, of `batch`. */
static inline lh_caches lh_caches_from(const lh_ragged *kv, int64_t from, int64_t batch)
{
    lh_caches some = {};
    int64_t n = lh_min_i64(batch - from, LH_CACHES_AT_ONCE);
    for (int64_t b = 0; b < n; b++) some.at[b] = kv[from + b];
    some.first = from * kv->heads;
    some.rows = n * kv->heads;
    some.count = n;
    return some;
}

/* Blocks of 256 threads per head that keep the device busy; lengths of heads are unknown on the host. */
static inline unsigned lh_blocks_per_head(const lh_stream *stream, int64_t heads)
{
    const int64_t resident = 8; /* blocks on a multiprocessor */
    int64_t blocks = heads > 0 ? lh_cuda_processors(stream) * resident / heads : 1;
    return (unsigned)(blocks > 1 ? blocks : 1);
}

/* Bit i: whether x[i] is `state`, for i < LH_MARKS and i < n; n may be negative. `state`: not LH_ENTRY_DROP. */
enum { LH_MARKS = 16 };
static __device__ __forceinline__ unsigned lh_marks_of(const uint8_t *x, int64_t n, lh_entry_state state)
{
    unsigned words[LH_MARKS / 4] = {0, 0, 0, 0}, marks = 0;
    if (n >= LH_MARKS && (uintptr_t)x % 16 == 0) {
        uint4 all = *(const uint4 *)x;
        words[0] = all.x;
        words[1] = all.y;
        words[2] = all.z;
        words[3] = all.w;
    } else {
#pragma unroll
        for (int i = 0; i < LH_MARKS; i++) words[i / 4] |= (unsigned)(i < n ? x[i] : 0) << (i % 4 * 8);
    }
#pragma unroll
    for (int i = 0; i < LH_MARKS; i++) {
        unsigned byte = words[i / 4] >> (i % 4 * 8) & 0xff;
        marks |= (unsigned)(byte == state) << i;
    }
    return marks; /* zeros after the end are LH_ENTRY_DROP */
}

/* lh_load_some for N numbers, a multiple of 16 bytes; p may be NULL, for zeros. */
template <typename T, int N>
static __device__ __forceinline__ void lh_load_many(float (&x)[N], const T *p, int64_t n)
{
    float part[lh_wide<T>()];
#pragma unroll
    for (int i = 0; i < N; i += lh_wide<T>()) {
        lh_load_some(part, p + i, p ? n - i : 0);
#pragma unroll
        for (int c = 0; c < lh_wide<T>(); c++) x[i + c] = part[c];
    }
}

/* Lanes that share a vector of d numbers, 16 bytes each, and more than one load if 32 lanes do not suffice: a power of
 * two. */
static inline int lh_lanes_of(int64_t d, lh_dtype type)
{
    int64_t wide = 16 / lh_dtype_bytes(type);
    int lanes = 1;
    while (lanes < LH_WARP && lanes * wide < d) lanes *= 2;
    return lanes;
}

/* The sum over the `lanes` neighbours that share a vector; all of them get it. */
static __device__ __forceinline__ float lh_lanes_sum(float x, int lanes)
{
    for (int with = lanes / 2; with > 0; with /= 2) x += __shfl_xor_sync(LH_ALL, x, with);
    return x;
}

#endif
