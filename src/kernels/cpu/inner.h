/* inner.h - what every file of the backend starts from, in one instruction set.
 */
#ifndef LH_KERNELS_CPU_INNER_H
#define LH_KERNELS_CPU_INNER_H

#include <assert.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/whole.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"
#include "kernels/cpu/vecmath.h"

/* Work of fewer elements than this is over before other threads wake up. */
enum { PARALLEL_FROM = 1 << 15 };

static inline int64_t round_up(int64_t n, int64_t step)
{
    return (n + step - 1) / step * step;
}

static inline int64_t entry_position(const lh_ragged *kv, int64_t h, int64_t s)
{
    return kv->positions ? kv->positions[kv->offset[h] + s] : s;
}

/* Blocks of `entries` that the longest head has. */
static inline int64_t blocks_of(const lh_ragged *kv, int64_t entries)
{
    int64_t most = 0;
    for (int64_t h = 0; h < kv->heads; h++) most = lh_most(most, kv->len[h]);
    return (most + entries - 1) / entries;
}

#endif
