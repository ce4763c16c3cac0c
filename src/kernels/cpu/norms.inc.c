/* Norms of keys and values, and the scores that are made of keys alone. Entries are shared out in blocks of a head. */
#include "kernels/cpu/stream.h"

enum { NORM_ENTRIES = 256, AHEAD_ENTRIES = 64 };

/* Those blocks of NORM_ENTRIES entries of the heads of a cache that are a thread's. */
typedef struct lh_own_blocks {
    const lh_ragged *kv;
    lh_stretch mine;
    int64_t head, first, n, before; /* n entries from slot `first` on; entries of all blocks before it */
} lh_own_blocks;

static lh_own_blocks own_blocks(const lh_ragged *kv)
{
    return (lh_own_blocks){.kv = kv, .mine = own_stretch(entries_of(kv))};
}

/* The first one, or the next; 0: there is none. */
static int next_block(lh_own_blocks *b)
{
    do {
        b->before += b->n;
        b->first += b->n;
        while (b->head < b->kv->heads && b->first == b->kv->len[b->head]) b->head++, b->first = 0;
        if (b->head == b->kv->heads) return 0;
        b->n = lh_min_i64(b->kv->len[b->head] - b->first, NORM_ENTRIES);
    } while (!is_of(b->mine, b->before, b->n));
    return 1;
}

/* Heads of this size have code of their own where entries are bf16: the compiler unrolls all vectors of an entry. */
enum { USUAL_DIM = 64 };

/* The way in which keys and values of a cache are multiplied with the vectors made here. */
static lh_meet meet_of(const lh_ragged *kv)
{
    return kv->type == LH_F32 ? MEET_F32 : MEET_SPLIT;
}

/* Prefetch the n keys or values from element `at` on: an eviction finds them outside the caches. */
VEC_FN void prefetch_vectors(const void *part, const lh_meet kind, int64_t at, const int64_t d, int64_t n)
{
    const int64_t bytes = kind == MEET_F32 ? sizeof(float) : sizeof(uint16_t), line = 64;
    const char *p = (const char *)part + at * bytes;
    for (int64_t i = 0; i < n * d * bytes; i += line) __builtin_prefetch(p + i, 0, 2);
}

/* Lane n: the sum of the squares of the n-th of `count` vectors of d elements, which follow each other. */
VEC_FN vf some_squares(const void *p, const lh_meet kind, int64_t at, const int64_t d, const int64_t count)
{
    vf sum[VL];
    for (int n = 0; n < VL; n++) {
        sum[n] = vf_zero();
        for (int64_t i = 0; i < d && n < count; i += step_elements(kind)) {
            vf x = step_load(p, at + n * d + i, d - i, kind);
            sum[n] = kind == MEET_F32 ? vf_fma(x, x, sum[n]) : vf_dot(x, x, sum[n]);
        }
    }
    return vf_sums(sum);
}

/* Most often there are VL, and the compiler knows it. */
VEC_FN vf squares_of(const void *p, const lh_meet kind, int64_t at, const int64_t d, int64_t count)
{
    return count == VL ? some_squares(p, kind, at, d, VL) : some_squares(p, kind, at, d, count);
}

VEC_FN void entry_norms_of(const lh_entry_norms_args *a, int64_t h, const int64_t range[2], const lh_meet kind,
                           const int64_t d)
{
    const lh_ragged *kv = a->kv;
    const void *part = a->part == LH_PART_KEY ? kv->k : kv->v;
    for (int64_t s = range[0]; s < range[1]; s += VL) {
        int64_t at = (kv->offset[h] + s) * d, count = lh_min_i64(range[1] - s, VL);
        float squares[VL], *y = lh_slot_at(&a->y, h, s, 0);
        if (s + AHEAD_ENTRIES < range[1]) prefetch_vectors(part, kind, at + AHEAD_ENTRIES * d, d, VL);
        vf_store(squares, squares_of(part, kind, at, d, count));
        for (int64_t n = 0; n < count; n++) {
            float norm = a->kind == LH_NORM_SQUARE ? squares[n] : sqrtf(squares[n]);
            y[n * a->y.step] = a->kind == LH_NORM_MINUS_L2 ? -norm : norm;
        }
    }
}

static void entry_norms_block(const lh_entry_norms_args *a, int64_t h, int64_t first)
{
    const int64_t from = lh_slot_of_last(a->kv->len[h], a->last), end = lh_min_i64(first + NORM_ENTRIES, a->kv->len[h]);
    const int64_t range[2] = {lh_max_i64(first, from), end}, d = a->kv->head_dim;
    if (meet_of(a->kv) == MEET_F32)
        entry_norms_of(a, h, range, MEET_F32, d);
    else if (d == USUAL_DIM)
        entry_norms_of(a, h, range, MEET_SPLIT, USUAL_DIM);
    else
        entry_norms_of(a, h, range, MEET_SPLIT, d);
}

static void entry_norms_stretch(const lh_entry_norms_args *a)
{
    lh_own_blocks b = own_blocks(a->kv);
    while (next_block(&b)) entry_norms_block(a, b.head, b.first);
}

static lh_status op_entry_norms(lh_stream *stream, const lh_entry_norms_args *a)
{
    int64_t entries = 0;
    (void)stream;
    for (int64_t h = 0; h < a->kv->heads; h++) entries += lh_min_i64(a->kv->len[h], a->last);
    if (entries * a->kv->head_dim >= PARALLEL_FROM / 2) {
#pragma omp parallel
        entry_norms_stretch(a);
    } else {
        entry_norms_stretch(a);
    }
    return LH_OK;
}

/* ---- KeyDiff ---- */

/* Sums and means of directions are packed (stream.h). */

/* sums += sum over `count` keys from element `at` on of k * inverse. */
VEC_FN void add_scaled(const void *k, const lh_meet kind, int64_t at, const int64_t d, const float *inverse,
                       int64_t count, float *sums)
{
    for (int64_t i = 0; i < d; i += step_elements(kind), sums += step_floats(kind)) {
        vf even = vf_load(sums), odd = kind == MEET_F32 ? vf_zero() : vf_load(sums + VL);
        for (int64_t n = 0; n < count; n++) {
            vf x = step_load(k, at + n * d + i, d - i, kind), by = vf_set1(inverse[n]);
            even = vf_fma(by, kind == MEET_F32 ? x : vf_even(x), even);
            if (kind != MEET_F32) odd = vf_fma(by, vf_odd(x), odd);
        }
        vf_store(sums, even);
        if (kind != MEET_F32) vf_store(sums + VL, odd);
    }
}

/* sums += sum over the slots [first, end) of k / ||k||; y has the inverse norms then. */
VEC_FN void add_directions(const lh_key_difference_args *a, int64_t h, const int64_t range[2], float *sums,
                           const lh_meet kind, const int64_t d)
{
    const lh_ragged *kv = a->kv;
    prefetch_vectors(kv->k, kind, (kv->offset[h] + range[0]) * d, d, AHEAD_ENTRIES);
    for (int64_t s = range[0]; s < range[1]; s += VL) {
        int64_t at = (kv->offset[h] + s) * d, count = lh_min_i64(range[1] - s, VL);
        float inverse[VL];
        prefetch_vectors(kv->k, kind, at + AHEAD_ENTRIES * d, d, VL);
        vf_store(inverse, squares_of(kv->k, kind, at, d, count));
        for (int n = 0; n < VL; n++) inverse[n] = inverse[n] > 1e-16f ? 1.0f / sqrtf(inverse[n]) : 1e8f;
        if (count == VL)
            add_scaled(kv->k, kind, at, d, inverse, VL, sums);
        else
            add_scaled(kv->k, kind, at, d, inverse, count, sums);
        memcpy(a->y + h * a->ld + s, inverse, (size_t)count * sizeof *inverse);
    }
}

/* Lane n: the product of the n-th of `count` keys and x. */
VEC_FN vf some_products(const void *k, const lh_meet kind, int64_t at, const int64_t d, const float *x,
                        const int64_t count)
{
    vf dot[VL];
    for (int n = 0; n < VL; n++) {
        const float *part = x;
        dot[n] = vf_zero();
        for (int64_t i = 0; i < d && n < count; i += step_elements(kind), part += step_floats(kind))
            dot[n] = step_add(step_load(k, at + n * d + i, d - i, kind), part, dot[n], kind);
    }
    return vf_sums(dot);
}

/* y = -cos(k, mean); mean has length 1. */
VEC_FN void compare_directions(const lh_key_difference_args *a, int64_t h, const int64_t range[2], const float *mean,
                               const lh_meet kind, const int64_t d)
{
    const lh_ragged *kv = a->kv;
    for (int64_t s = range[0]; s < range[1]; s += VL) {
        int64_t at = (kv->offset[h] + s) * d, count = lh_min_i64(range[1] - s, VL);
        float *y = a->y + h * a->ld + s;
        vf dot =
            count == VL ? some_products(kv->k, kind, at, d, mean, VL) : some_products(kv->k, kind, at, d, mean, count);
        vf_store_first(y, (vf_zero() - vf_load_first(y, count)) * dot, count);
    }
}

/* Passes over a block of a head: its directions are added up in `sums`, or compared with their mean there. */
typedef enum lh_directions { ADD_DIRECTIONS, COMPARE_DIRECTIONS } lh_directions;

VEC_FN void visit_directions(const lh_key_difference_args *a, int64_t h, const int64_t range[2], float *sums,
                             const lh_meet kind, const int64_t d, lh_directions what)
{
    if (what == COMPARE_DIRECTIONS) {
        compare_directions(a, h, range, sums, kind, d);
        return;
    }
    memset(sums, 0, (size_t)packed_floats(d, kind) * sizeof *sums);
    add_directions(a, h, range, sums, kind, d);
}

static void visit_block(const lh_key_difference_args *a, int64_t h, int64_t first, float *sums, lh_directions what)
{
    const int64_t range[2] = {first, lh_min_i64(first + NORM_ENTRIES, a->kv->len[h])}, d = a->kv->head_dim;
    if (meet_of(a->kv) == MEET_F32)
        visit_directions(a, h, range, sums, MEET_F32, d, what);
    else if (d == USUAL_DIM)
        visit_directions(a, h, range, sums, MEET_SPLIT, USUAL_DIM, what);
    else
        visit_directions(a, h, range, sums, MEET_SPLIT, d, what);
}

/* The mean of the directions over the norm of the mean, from the sums of a head's blocks. */
static void mean_direction(const float *sums, int64_t blocks, int64_t floats, int64_t len, float *mean)
{
    double squares = 0.0;
    for (int64_t i = 0; i < floats; i++) {
        double sum = 0.0;
        for (int64_t b = 0; b < blocks; b++) sum += sums[b * floats + i];
        mean[i] = (float)(sum / (double)len);
        squares += (double)mean[i] * mean[i];
    }
    double inverse = 1.0 / fmax(sqrt(squares), 1e-8);
    for (int64_t i = 0; i < floats; i++) mean[i] = (float)(mean[i] * inverse);
}

/* One pass of a thread over its blocks. sums: of every block of every head; mean: of a head, its own. */
static void visit_blocks(const lh_key_difference_args *a, float *sums, float *mean, lh_directions what)
{
    const lh_ragged *kv = a->kv;
    int64_t blocks = blocks_of(kv, NORM_ENTRIES), floats = packed_floats(kv->head_dim, meet_of(kv)), made = -1;
    lh_own_blocks b = own_blocks(kv);
    while (next_block(&b)) {
        float *all = sums + b.head * blocks * floats;
        int64_t len = kv->len[b.head];
        if (what == COMPARE_DIRECTIONS && made != b.head)
            mean_direction(all, (len + NORM_ENTRIES - 1) / NORM_ENTRIES, floats, len, mean);
        made = b.head;
        visit_block(a, b.head, b.first, what == ADD_DIRECTIONS ? all + b.first / NORM_ENTRIES * floats : mean, what);
    }
}

/* A block is compared by the thread that has added it up and has it near; every thread makes the means for itself. */
static lh_status op_key_difference(lh_stream *stream, const lh_key_difference_args *a)
{
    const lh_ragged *kv = a->kv;
    int64_t blocks = blocks_of(kv, NORM_ENTRIES), items = kv->heads * blocks;
    int64_t floats = packed_floats(kv->head_dim, meet_of(kv));
    float *sums = NULL;
    if (items == 0) return LH_OK;
    LH_TRY(lh_stream_scratch(stream, &sums, (items + omp_get_max_threads()) * floats * (int64_t)sizeof *sums));
#pragma omp parallel if (items > 1)
    {
        float *mean = sums + (items + omp_get_thread_num()) * floats;
        visit_blocks(a, sums, mean, ADD_DIRECTIONS);
#pragma omp barrier
        visit_blocks(a, sums, mean, COMPARE_DIRECTIONS);
    }
    return LH_OK;
}
