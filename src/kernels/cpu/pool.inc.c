/* Pooling over what competes in a row, whatever lies between: what competes is put in the order of its positions. */
#include "kernels/cpu/inner.h"

/* b[i] = max of b[i .. i + k - 1] for i < n: runs of 1, 2, 4, ..., then two
 * overlapping ones of the longest. */
static void slide_max(float *b, int64_t n, int64_t k)
{
    int64_t run = 1;
    for (; 2 * run <= k; run *= 2) {
        for (int64_t i = 0; i + run < n + k - 1; i++) b[i] = b[i] > b[i + run] ? b[i] : b[i + run];
    }
    for (int64_t i = 0; i < n; i++) b[i] = b[i] > b[i + k - run] ? b[i] : b[i + k - run];
}

/* b[i] = sum of b[i .. i + k - 1] / divisor for i < n, every sum from its first term to its last, so that equal runs
 * have equal sums wherever they lie. */
static void slide_mean(float *b, int64_t n, int64_t k, int64_t divisor)
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

/* Entries on each side of the middle: a pool that is longer than the row reaches over all of it. */
static int64_t pool_half(const lh_pool_args *a)
{
    return lh_least((a->k - 1) / 2, a->ld);
}

/* A thread's memory for a row: the competing slots in order, their numbers with padding on both sides, and where slots
 * are in no order, which positions compete, a bit each, and how many do in the words before. */
typedef struct lh_pool_memory {
    float *b;       /* [ld + 2 * half] */
    int32_t *slots; /* [ld] */
    uint64_t *bits; /* [words] */
    int32_t *before;
} lh_pool_memory;

static int64_t pool_words(const lh_pool_args *a)
{
    return a->kv->positions ? (a->seen + 63) / 64 : 0;
}

/* Bytes of one thread. */
static int64_t pool_bytes(const lh_pool_args *a)
{
    int64_t words = pool_words(a);
    return round_up(words * 8 + (a->ld + 2 * pool_half(a)) * 4 + a->ld * 4 + words * 4, 64);
}

static lh_pool_memory pool_place(const lh_pool_args *a, char *memory)
{
    lh_pool_memory m = {.bits = (uint64_t *)memory};
    m.b = (float *)(m.bits + pool_words(a));
    m.slots = (int32_t *)(m.b + a->ld + 2 * pool_half(a));
    m.before = m.slots + a->ld;
    return m;
}

static int64_t list_slots(const uint8_t *state, int64_t len, int32_t *slots)
{
    int64_t n = 0;
    for (int64_t s = 0; s < len; s++) {
        slots[n] = (int32_t)s;
        n += state[s] == LH_ENTRY_COMPETES;
    }
    return n;
}

static inline void set_bit(uint64_t *bits, int32_t position, uint8_t state)
{
    bits[position >> 6] |= (uint64_t)(state == LH_ENTRY_COMPETES) << (position & 63);
}

/* By the words from `low` to `high`, in which all positions lie. */
static int64_t list_positions_of(const uint8_t *state, const int32_t *positions, int64_t len, const int64_t range[2],
                                 const lh_pool_memory *m)
{
    enum { STRETCHES = 4 };
    int64_t each = len / STRETCHES;
    int32_t n = 0;
    memset(m->bits + range[0], 0, (size_t)(range[1] - range[0] + 1) * sizeof *m->bits);
    /* neighbours often share a word: stretches take turns, so that none waits for the last one's */
    for (int64_t i = 0; i < each; i++) {
        for (int64_t s = i; s < each * STRETCHES; s += each) set_bit(m->bits, positions[s], state[s]);
    }
    for (int64_t s = each * STRETCHES; s < len; s++) set_bit(m->bits, positions[s], state[s]);
    for (int64_t w = range[0]; w <= range[1]; w++) {
        m->before[w] = n;
        n += __builtin_popcountll(m->bits[w]);
    }
    for (int64_t s = 0; s < len; s++) {
        uint64_t lower = m->bits[positions[s] >> 6] & (((uint64_t)1 << (positions[s] & 63)) - 1);
        if (state[s] == LH_ENTRY_COMPETES)
            m->slots[m->before[positions[s] >> 6] + __builtin_popcountll(lower)] = (int32_t)s;
    }
    return n;
}

/* The competing slots of head h by their positions. Returns how many. */
static int64_t list_competing(const lh_pool_args *a, int64_t h, const lh_pool_memory *m)
{
    const uint8_t *state = a->state + h * a->ld;
    const int32_t *positions = a->kv->positions ? a->kv->positions + a->kv->offset[h] : NULL;
    int64_t len = a->kv->len[h];
    int32_t low = INT32_MAX, high = 0, falls = 0;
    for (int64_t s = 0; positions && s < len; s++) {
        low = positions[s] < low ? positions[s] : low;
        high = positions[s] > high ? positions[s] : high;
    }
    for (int64_t s = 1; positions && s < len; s++) falls |= positions[s] < positions[s - 1];
    if (!falls) return list_slots(state, len, m->slots);
    return list_positions_of(state, positions, len, (const int64_t[]){low / 64, high / 64}, m);
}

static void pool_row(const lh_pool_args *a, int64_t r, char *memory)
{
    const lh_pool_memory m = pool_place(a, memory);
    int64_t h = r / a->rows_per_head, half = pool_half(a), n = list_competing(a, h, &m);
    float padding = a->kind == LH_POOL_MAX ? -INFINITY : 0.0f, *b = m.b, *y = a->y + r * a->ld;
    const float *x = a->x + r * a->ld;
    const int32_t *slots = m.slots;
    for (int64_t i = 0; i < half; i++) b[i] = b[half + n + i] = padding;
    for (int64_t i = 0; i < n; i++) b[half + i] = x[slots[i]];
    if (a->kind == LH_POOL_MAX)
        slide_max(b, n, 2 * half + 1);
    else
        slide_mean(b, n, 2 * half + 1, a->k);
    memset(y, 0, (size_t)a->kv->len[h] * sizeof *y);
    for (int64_t i = 0; i < n; i++) y[slots[i]] = b[i];
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
    lh_status st = LH_OK;
    char *memory = NULL;
    int64_t own = a->kind == LH_POOL_NONE ? 0 : pool_bytes(a);
    assert(a->kind == LH_POOL_NONE || a->k % 2 == 1);
    LH_TRY(lh_stream_scratch(stream, &memory, omp_get_max_threads() * own));
    if (a->kind == LH_POOL_NONE)
        FOR_EACH(r, a->rows, a->rows * a->ld >= PARALLEL_FROM, copy_competing(a, r));
    else
        FOR_EACH(r, a->rows, a->rows * a->ld >= PARALLEL_FROM, pool_row(a, r, memory + omp_get_thread_num() * own));
done:
    return st;
}
