/* Pooling over the competing entries of a row, ignoring gaps: scores are put in the order of positions first. */
#include "kernels/cpu/common.h"

/* b[i] = max of b[i .. i + k - 1] for i < n: runs of 1, 2, 4, ..., then two overlapping runs of the longest length. */
static void slide_max(float *b, int64_t n, int64_t k)
{
    int64_t run = 1;
    for (; 2 * run <= k; run *= 2) {
        for (int64_t i = 0; i + run < n + k - 1; i++) b[i] = b[i] > b[i + run] ? b[i] : b[i + run];
    }
    for (int64_t i = 0; i < n; i++) b[i] = b[i] > b[i + k - run] ? b[i] : b[i + k - run];
}

/* b[i] = sum of b[i .. i + k - 1] / divisor for i < n, every sum from its first term to its last, so that equal runs
 * have equal sums at any place. */
__attribute__((noinline)) static void slide_mean(float *b, int64_t n, int64_t k, int64_t divisor)
{
    enum { PART = 2 * VL };
    const double share = 1.0 / (double)divisor;
    int64_t i = 0;
    for (; i + PART <= n; i += PART) {
        double sums[PART] = {0};
        for (int64_t m = 0; m < k; m++)
            for (int64_t c = 0; c < PART; c++) sums[c] += b[i + c + m];
        for (int64_t c = 0; c < PART; c++) b[i + c] = (float)(sums[c] * share);
    }
    for (; i < n; i++) {
        double sum = 0;
        for (int64_t m = 0; m < k; m++) sum += b[i + m];
        b[i] = (float)(sum * share);
    }
}

/* Entries on each side of the middle, at most the whole row. */
static int64_t pool_half(const lh_pool_args *a)
{
    return lh_min_i64((a->k - 1) / 2, a->ld);
}

/* Workspace of a thread for a row. b: the scores of competing entries in the order of positions, with padding on both
 * sides, and one more place for the scores of all other entries. places: the place of every slot in b. Where slots are
 * not in the order of positions: a bit per competing position, and their number in the words before. */
typedef struct lh_pool_memory {
    float *b;        /* [ld + 3 * half + 1] */
    int32_t *places; /* [ld] */
    uint64_t *bits;  /* [words] */
    int32_t *before;
} lh_pool_memory;

static int64_t pool_words(const lh_pool_args *a)
{
    return a->kv->positions ? (a->seen + 63) / 64 : 0;
}

/* The place of entries that do not compete. */
static int32_t pool_aside(const lh_pool_args *a)
{
    return (int32_t)(a->ld + 2 * pool_half(a));
}

static int64_t pool_floats(const lh_pool_args *a)
{
    return pool_aside(a) + pool_half(a) + 1;
}

/* Workspace of a thread, in bytes. */
static int64_t pool_bytes(const lh_pool_args *a)
{
    int64_t words = pool_words(a);
    return round_up(words * 8 + pool_floats(a) * 4 + a->ld * 4 + words * 4, 64);
}

static lh_pool_memory pool_place(const lh_pool_args *a, char *memory)
{
    lh_pool_memory m = {.bits = (uint64_t *)memory};
    m.b = (float *)(m.bits + pool_words(a));
    m.places = (int32_t *)(m.b + pool_floats(a));
    m.before = m.places + a->ld;
    return m;
}

/* Slots of a head, and the place of entries that do not compete. */
typedef struct lh_pool_slots {
    const uint8_t *state;
    const int32_t *positions;
    int64_t len;
    int32_t aside;
} lh_pool_slots;

static int64_t place_slots(const lh_pool_slots *p, int32_t *places)
{
    int32_t n = 0;
    for (int64_t s = 0; s < p->len; s++) {
        int competes = p->state[s] == LH_ENTRY_COMPETES;
        places[s] = competes ? n : p->aside;
        n += competes;
    }
    return n;
}

static inline void set_bit(uint64_t *bits, const lh_pool_slots *p, int64_t s)
{
    bits[p->positions[s] >> 6] |= (uint64_t)(p->state[s] == LH_ENTRY_COMPETES) << (p->positions[s] & 63);
}

/* Fills places from bits of positions, all in the words from range[0] to range[1]. Not inlined: the caller has too few
 * registers. */
__attribute__((noinline)) static int64_t place_positions(const lh_pool_slots *p, const int64_t range[2],
                                                         const lh_pool_memory *m)
{
    enum { STRETCHES = 4 };
    const int64_t each = p->len / STRETCHES;
    const uint64_t *bits = m->bits;
    const int32_t *before = m->before;
    int32_t n = 0;
    memset(m->bits + range[0], 0, (size_t)(range[1] - range[0] + 1) * sizeof *m->bits);
    /* neighbours often share a word: four stretches alternate, so that stores do not wait for each other */
    for (int64_t i = 0; i < each; i++) {
        for (int64_t c = 0; c < STRETCHES; c++) set_bit(m->bits, p, c * each + i);
    }
    for (int64_t s = each * STRETCHES; s < p->len; s++) set_bit(m->bits, p, s);
    for (int64_t w = range[0]; w <= range[1]; w++) {
        m->before[w] = n;
        n += __builtin_popcountll(bits[w]);
    }
    for (int64_t s = 0; s < p->len; s++) { /* without branches: the pattern of competing slots is random */
        uint32_t at = (uint32_t)p->positions[s];
        int32_t competes = p->state[s] == LH_ENTRY_COMPETES;
        uint64_t up_to = bits[at >> 6] << (63 - (at & 63)); /* the position's bit is the highest */
        int32_t place = before[at >> 6] + __builtin_popcountll(up_to << 1);
        m->places[s] = p->aside + competes * (place - p->aside);
    }
    return n;
}

/* Fills m->places; returns the number of competing slots of head h. */
static int64_t place_competing(const lh_pool_args *a, int64_t h, const lh_pool_memory *m)
{
    lh_pool_slots slots = {.state = a->state + h * a->ld, .len = a->kv->len[h], .aside = pool_aside(a)};
    const int32_t *p = a->kv->positions ? a->kv->positions + a->kv->offset[h] : NULL;
    int32_t low = INT32_MAX, high = 0, falls = 0;
    if (p) {
        for (int64_t s = 0; s < slots.len; s++) low = p[s] < low ? p[s] : low;
        for (int64_t s = 0; s < slots.len; s++) high = p[s] > high ? p[s] : high;
        for (int64_t s = 1; s < slots.len; s++) falls |= p[s] < p[s - 1];
    }
    slots.positions = p;
    return falls ? place_positions(&slots, (const int64_t[]){low / 64, high / 64}, m) : place_slots(&slots, m->places);
}

static void pool_row(const lh_pool_args *a, int64_t r, char *memory)
{
    const lh_pool_memory m = pool_place(a, memory);
    int64_t h = r / a->rows_per_head, half = pool_half(a), n = place_competing(a, h, &m), len = a->kv->len[h];
    float padding = a->kind == LH_POOL_MAX ? -INFINITY : 0.0f, *restrict b = m.b, *restrict y = a->y + r * a->ld;
    const float *x = a->x + r * a->ld;
    const int32_t *places = m.places;
    for (int64_t i = 0; i < half; i++) b[i] = b[half + n + i] = padding;
    for (int64_t s = 0; s < len; s++) b[half + places[s]] = x[s];
    if (a->kind == LH_POOL_MAX)
        slide_max(b, n, 2 * half + 1);
    else
        slide_mean(b, n, 2 * half + 1, a->k);
    b[pool_aside(a)] = 0.0f;
    for (int64_t s = 0; s < len; s++) y[s] = b[places[s]];
}

static void copy_competing(const lh_pool_args *a, int64_t r)
{
    int64_t h = r / a->rows_per_head;
    const uint8_t *state = a->state + h * a->ld;
    for (int64_t s = 0; s < a->kv->len[h]; s++)
        a->y[r * a->ld + s] = state[s] == LH_ENTRY_COMPETES ? a->x[r * a->ld + s] : 0.0f;
}

static lh_status op_pool(lh_stream *stream, const lh_pool_args *a)
{
    char *memory = NULL;
    int64_t own = a->kind == LH_POOL_NONE ? 0 : pool_bytes(a);
    assert(a->kind == LH_POOL_NONE || a->k % 2 == 1);
    LH_TRY(lh_stream_scratch(stream, &memory, omp_get_max_threads() * own));
    if (a->kind == LH_POOL_NONE)
        FOR_EACH(r, a->rows, a->rows * a->ld >= PARALLEL_FROM, copy_competing(a, r));
    else
        FOR_EACH(r, a->rows, a->rows * a->ld >= PARALLEL_FROM, pool_row(a, r, memory + omp_get_thread_num() * own));
    return LH_OK;
}
