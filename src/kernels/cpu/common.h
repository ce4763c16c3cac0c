/* common.h - included by every file of the backend: vectors, threads, work division. */
#ifndef LH_KERNELS_CPU_COMMON_H
#define LH_KERNELS_CPU_COMMON_H

#include <assert.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/minmax.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"
#include "kernels/q8.h"
#include "kernels/ragged.h"

/* Work on fewer elements is done before other threads wake up. */
enum { PARALLEL_FROM = 1 << 15 };

/* Columns of a row are divided into blocks. */
enum { COLUMNS = 2048 };

/* `call` for every n < items, on all threads if the work is `large`; else without a parallel region: one with a single
 * thread costs a third of a microsecond, and the evictions of a decode step have hundreds of small operations. */
#define FOR_EACH(n, items, large, call)                                                               \
    do {                                                                                              \
        if (large) {                                                                                  \
            _Pragma("omp parallel for schedule(dynamic)") for (int64_t n = 0; n < (items); n++) call; \
        } else {                                                                                      \
            for (int64_t n = 0; n < (items); n++) call;                                               \
        }                                                                                             \
    } while (0)

static inline int64_t round_up(int64_t n, int64_t step)
{
    return (n + step - 1) / step * step;
}

/* y[i] = scale * codes[i], i < n. */
static inline void widen_row(float *y, const int8_t *codes, float scale, int64_t n)
{
    for (int64_t i = 0; i < n; i += VL)
        vf_store_first(y + i, vf_set1(scale) * vf_load_codes_first(codes + i, n - i), n - i);
}

/* The largest |x| of the competing slots, ignoring NaN. Compared as integers, which have the same order: the compiler
 * vectorises the loop. */
static inline float largest_competing(const float *x, const uint8_t *state, int64_t n)
{
    int32_t top = 0;
    float largest;
    for (int64_t s = 0; s < n; s++) {
        int32_t bits;
        memcpy(&bits, &x[s], sizeof bits);
        bits &= INT32_MAX;
        bits = state[s] == LH_ENTRY_COMPETES && bits <= 0x7f800000 ? bits : 0; /* infinity */
        top = bits > top ? bits : top;
    }
    memcpy(&largest, &top, sizeof largest);
    return largest;
}

/* A thread's range of consecutive entries, [from, to). It is the same in all operations on entries, so that entries
 * read by one operation are still in the core's cache for the next. */
typedef struct lh_stretch {
    int64_t from, to;
} lh_stretch;

static inline lh_stretch own_stretch(int64_t entries)
{
    int64_t threads = omp_get_num_threads(), t = omp_get_thread_num();
    return (lh_stretch){.from = entries * t / threads, .to = entries * (t + 1) / threads};
}

/* Returns 1 if n > 0 entries that follow `before` entries belong to the stretch, i.e. if their middle is in it. */
static inline int is_of(lh_stretch s, int64_t before, int64_t n)
{
    return 2 * before + n >= 2 * s.from && 2 * before + n < 2 * s.to;
}

static inline int64_t entries_of(const lh_ragged *kv)
{
    int64_t entries = 0;
    for (int64_t h = 0; h < kv->heads; h++) entries += kv->len[h];
    return entries;
}

/* Blocks of `entries` entries in the longest head. */
static inline int64_t blocks_of(const lh_ragged *kv, int64_t entries)
{
    int64_t most = 0;
    for (int64_t h = 0; h < kv->heads; h++) most = lh_max_i64(most, kv->len[h]);
    return (most + entries - 1) / entries;
}

#endif
