/* Pooling of scores along the positions of competing entries. */
#include <math.h>
#include <stdlib.h>

#include "kernels/ref/ref.h"

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Lists the competing slots of head h by their positions. Returns their number. */
static int64_t list_competing(const lh_pool_args *a, int64_t h, int64_t *slots)
{
    int64_t n = 0;
    for (int64_t s = 0; s < a->kv->len[h]; s++) {
        if (a->state[h * a->ld + s] == LH_ENTRY_COMPETES) slots[n++] = lh_position(a->kv, h, s) << 32 | s;
    }
    qsort(slots, (size_t)n, sizeof *slots, by_number);
    for (int64_t i = 0; i < n; i++) slots[i] &= UINT32_MAX;
    return n;
}

/* The pooled value of the i-th of n slots. */
static float pool_at(const lh_pool_args *a, const float *x, const int64_t *slots, int64_t n, int64_t i)
{
    int64_t half = (a->k - 1) / 2, first = i > half ? i - half : 0, last = n - 1 - i > half ? i + half : n - 1;
    double sum = 0.0, top = x[slots[i]];
    if (a->kind == LH_POOL_NONE) return x[slots[i]];
    for (int64_t m = first; m <= last; m++) {
        sum += x[slots[m]];
        top = fmax(top, x[slots[m]]);
    }
    return a->kind == LH_POOL_MAX ? (float)top : (float)(sum / (double)a->k);
}

lh_status lh_ref_pool(lh_stream *stream, const lh_pool_args *a)
{
    int64_t *slots = NULL;
    assert(a->kind == LH_POOL_NONE || a->k % 2 == 1);
    LH_TRY(lh_stream_scratch(stream, &slots, a->ld * (int64_t)sizeof *slots));
    for (int64_t r = 0; r < a->rows; r++) {
        int64_t h = r / a->rows_per_head, n = list_competing(a, h, slots);
        const float *x = a->x + r * a->ld;
        float *y = a->y + r * a->ld;
        for (int64_t s = 0; s < a->kv->len[h]; s++) y[s] = 0.0f;
        for (int64_t i = 0; i < n; i++) y[slots[i]] = pool_at(a, x, slots, n, i);
    }
    return LH_OK;
}
