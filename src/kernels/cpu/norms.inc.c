/* Norms of keys and values, and the scores that are made of keys alone. Entries are shared out in blocks of a head. */
#include "kernels/cpu/inner.h"
#include "kernels/slots.h"

enum { NORM_ENTRIES = 256 };

/* Heads of this size are told apart where entries are bf16: the compiler then lays out all vectors of an entry. */
enum { USUAL_DIM = 64 };

/* Element at which the n-th of `count` vectors of d elements begins, which follow each other; behind the last one it
 * stands in. */
VEC_FN int64_t vector_at(int64_t at, int64_t d, int64_t n, int64_t count)
{
    return at + lh_least(n, count - 1) * d;
}

/* Lane n: the sum of the squares of the n-th vector. */
VEC_FN vf squares_of(const void *p, const lh_dtype type, int64_t at, const int64_t d, int64_t count)
{
    vf sum[VL];
    for (int n = 0; n < VL; n++) {
        int64_t from = vector_at(at, d, n, count);
        sum[n] = vf_zero();
        for (int64_t i = 0; i < d; i += VL) {
            vf x = vf_load_any_first(p, type, from + i, d - i);
            sum[n] = vf_fma(x, x, sum[n]);
        }
    }
    return vf_sums(sum);
}

VEC_FN void entry_norms_of(const lh_entry_norms_args *a, int64_t h, const int64_t range[2], const lh_dtype type,
                           const int64_t d)
{
    const lh_ragged *kv = a->kv;
    const void *part = a->part == LH_PART_KEY ? kv->k : kv->v;
    for (int64_t s = range[0]; s < range[1]; s += VL) {
        int64_t count = lh_least(range[1] - s, VL);
        float squares[VL], *y = lh_slot_at(&a->y, h, s, 0);
        vf_store(squares, squares_of(part, type, (kv->offset[h] + s) * d, d, count));
        for (int64_t n = 0; n < count; n++) {
            float norm = a->kind == LH_NORM_SQUARE ? squares[n] : sqrtf(squares[n]);
            y[n * a->y.step] = a->kind == LH_NORM_MINUS_L2 ? -norm : norm;
        }
    }
}

static void entry_norms_range(const lh_entry_norms_args *a, int64_t h, int64_t first, int64_t end)
{
    const int64_t range[2] = {first, end}, d = a->kv->head_dim;
    if (a->kv->type == LH_F32)
        entry_norms_of(a, h, range, LH_F32, d);
    else if (d == USUAL_DIM)
        entry_norms_of(a, h, range, LH_BF16, USUAL_DIM);
    else
        entry_norms_of(a, h, range, LH_BF16, d);
}

static lh_status op_entry_norms(lh_stream *stream, const lh_entry_norms_args *a)
{
    int64_t blocks = blocks_of(a->kv, NORM_ENTRIES), items = a->kv->heads * blocks, entries = 0;
    (void)stream;
    for (int64_t h = 0; h < a->kv->heads; h++) entries += lh_least(a->kv->len[h], a->last);
#pragma omp parallel for schedule(dynamic) if (entries * a->kv->head_dim >= PARALLEL_FROM / 2)
    for (int64_t n = 0; n < items; n++) {
        int64_t h = n / blocks, first = n % blocks * NORM_ENTRIES, from = lh_slot_of_last(a->kv->len[h], a->last);
        entry_norms_range(a, h, first > from ? first : from, lh_least(first + NORM_ENTRIES, a->kv->len[h]));
    }
    return LH_OK;
}

/* ---- KeyDiff ---- */

/* sums[i] = sum over the slots [first, end) of k / ||k||; y has the inverse norms then. */
VEC_FN void add_directions(const lh_key_difference_args *a, int64_t h, const int64_t range[2], float *sums,
                           const lh_dtype type, const int64_t d)
{
    const lh_ragged *kv = a->kv;
    for (int64_t s = range[0]; s < range[1]; s += VL) {
        int64_t at = (kv->offset[h] + s) * d, count = lh_least(range[1] - s, VL);
        float inverse[VL];
        vf_store(inverse, squares_of(kv->k, type, at, d, count));
        for (int n = 0; n < VL; n++) inverse[n] = inverse[n] > 1e-16f ? 1.0f / sqrtf(inverse[n]) : 1e8f;
        for (int64_t i = 0; i < d; i += VL) {
            vf sum = vf_load_first(sums + i, d - i);
            for (int64_t n = 0; n < count; n++)
                sum = vf_fma(vf_set1(inverse[n]), vf_load_any_first(kv->k, type, at + n * d + i, d - i), sum);
            vf_store_first(sums + i, sum, d - i);
        }
        memcpy(a->y + h * a->ld + s, inverse, (size_t)count * sizeof *inverse);
    }
}

/* y = -cos(k, mean); mean has length 1. */
VEC_FN void compare_directions(const lh_key_difference_args *a, int64_t h, const int64_t range[2], const float *mean,
                               const lh_dtype type, const int64_t d)
{
    const lh_ragged *kv = a->kv;
    for (int64_t s = range[0]; s < range[1]; s += VL) {
        int64_t at = (kv->offset[h] + s) * d, count = lh_least(range[1] - s, VL);
        float *y = a->y + h * a->ld + s;
        vf dot[VL];
        for (int n = 0; n < VL; n++) {
            int64_t from = vector_at(at, d, n, count);
            dot[n] = vf_zero();
            for (int64_t i = 0; i < d; i += VL)
                dot[n] =
                    vf_fma(vf_load_any_first(kv->k, type, from + i, d - i), vf_load_first(mean + i, d - i), dot[n]);
        }
        vf_store_first(y, (vf_zero() - vf_load_first(y, count)) * vf_sums(dot), count);
    }
}

/* What is done to a block of a head: its directions are added up in `sums`, or compared with their mean there. */
typedef enum lh_directions { ADD_DIRECTIONS, COMPARE_DIRECTIONS } lh_directions;

VEC_FN void visit_directions(const lh_key_difference_args *a, int64_t h, const int64_t range[2], float *sums,
                             const lh_dtype type, const int64_t d, lh_directions what)
{
    if (what == COMPARE_DIRECTIONS) {
        compare_directions(a, h, range, sums, type, d);
        return;
    }
    memset(sums, 0, (size_t)d * sizeof *sums);
    add_directions(a, h, range, sums, type, d);
}

static void visit_block(const lh_key_difference_args *a, int64_t h, int64_t first, float *sums, lh_directions what)
{
    const int64_t range[2] = {first, lh_least(first + NORM_ENTRIES, a->kv->len[h])}, d = a->kv->head_dim;
    if (a->kv->type == LH_F32)
        visit_directions(a, h, range, sums, LH_F32, d, what);
    else if (d == USUAL_DIM)
        visit_directions(a, h, range, sums, LH_BF16, USUAL_DIM, what);
    else
        visit_directions(a, h, range, sums, LH_BF16, d, what);
}

/* The mean of the directions over the norm of the mean, in place of the sums of the first of a head's blocks. */
static void mean_direction(float *sums, int64_t blocks, int64_t d, int64_t len)
{
    double squares = 0.0;
    for (int64_t i = 0; i < d; i++) {
        double sum = 0.0;
        for (int64_t b = 0; b < blocks; b++) sum += sums[b * d + i];
        sums[i] = (float)(sum / (double)len);
        squares += (double)sums[i] * sums[i];
    }
    double inverse = 1.0 / fmax(sqrt(squares), 1e-8);
    for (int64_t i = 0; i < d; i++) sums[i] = (float)(sums[i] * inverse);
}

static lh_status op_key_difference(lh_stream *stream, const lh_key_difference_args *a)
{
    lh_status st = LH_OK;
    const lh_ragged *kv = a->kv;
    int64_t blocks = blocks_of(kv, NORM_ENTRIES), items = kv->heads * blocks, d = kv->head_dim;
    float *sums = NULL;
    if (items == 0) return LH_OK;
    LH_TRY(lh_stream_scratch(stream, &sums, items * d * (int64_t)sizeof *sums));
#pragma omp parallel if (items > 1)
    {
#pragma omp for schedule(dynamic)
        for (int64_t n = 0; n < items; n++)
            visit_block(a, n / blocks, n % blocks * NORM_ENTRIES, sums + n * d, ADD_DIRECTIONS);
#pragma omp for
        for (int64_t h = 0; h < kv->heads; h++)
            mean_direction(sums + h * blocks * d, (kv->len[h] + NORM_ENTRIES - 1) / NORM_ENTRIES, d, kv->len[h]);
#pragma omp for schedule(dynamic)
        for (int64_t n = 0; n < items; n++)
            visit_block(a, n / blocks, n % blocks * NORM_ENTRIES, sums + n / blocks * blocks * d, COMPARE_DIRECTIONS);
    }
done:
    return st;
}
