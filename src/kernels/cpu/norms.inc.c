/* Norms of keys and values, scores from keys and values, and norms of projected values. Entries are divided among
 * threads in blocks of a head. */
#include "kernels/cpu/softmax.h"
#include "kernels/cpu/stream.h"
#include "kernels/cpu/tile.h"
#include "kernels/elementwise.h"

enum { NORM_ENTRIES = 256, AHEAD_ENTRIES = 64 };

/* Iterator over a thread's blocks of NORM_ENTRIES entries of the heads of a cache. */
typedef struct lh_own_blocks {
    const lh_ragged *kv;
    lh_stretch mine;
    int64_t head, first, n, before; /* n entries from slot `first` on; entries of all previous blocks */
} lh_own_blocks;

static lh_own_blocks own_blocks(const lh_ragged *kv)
{
    return (lh_own_blocks){.kv = kv, .mine = own_stretch(entries_of(kv))};
}

/* Advances to the first or next block; returns 0 if there is none. */
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

/* Heads of this size have specialised code for bf16: the compiler unrolls all vectors of an entry. */
enum { USUAL_DIM = 64 };

/* How keys and values of a cache are multiplied with vectors made here. */
static lh_meet meet_of(const lh_ragged *kv)
{
    return kv->type == LH_F32 ? MEET_F32 : MEET_SPLIT;
}

/* Prefetches the n keys or values from element `at` on: at an eviction they are not in the caches. */
VEC_FN void prefetch_vectors(const void *part, const lh_meet kind, int64_t at, const int64_t d, int64_t n)
{
    const int64_t bytes = kind == MEET_F32 ? sizeof(float) : sizeof(uint16_t), line = 64;
    const char *p = (const char *)part + at * bytes;
    for (int64_t i = 0; i < n * d * bytes; i += line) __builtin_prefetch(p + i, 0, 2);
}

/* Lane n: the sum of the squares of the n-th of `count` adjacent vectors of d elements. */
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

/* The usual count of VL is a constant for the compiler. */
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

/* Passes over a block of a head: adds its directions to `sums`, or compares them with the mean in `sums`. */
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

/* The mean of the directions divided by its norm, from the sums of a head's blocks. */
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

/* One pass of a thread over its blocks. sums: of every block of every head; mean: workspace of the thread, for one
 * head. */
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

/* A block is compared by the thread that summed it, which still has it in its cache; every thread computes the means
 * itself. */
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

/* ---- learnt scores ---- */

/* Sums of an entry by lanes: of its channels and their squares with weights, and of the squares of its key and value.
 */
typedef struct lh_entry_sums {
    vf score, keys, values;
} lh_entry_sums;

/* n channels with their weights, and their squares with weights from w[2 head_dim] on (lh_entry_features_args). */
VEC_FN void weigh_channels(vf *score, vf *squares, vf x, const float *w, int64_t dim, int64_t n)
{
    *score = vf_fma(x, vf_fma(vf_load_first(w + 2 * dim, n), x, vf_load_first(w, n)), *score);
    *squares = vf_fma(x, x, *squares);
}

enum { PAIRS_AT_ONCE = 64 };

/* The rotated channels of the key from element `at` on. */
static void weigh_rotated(const lh_linear_scores_args *a, int64_t at, int32_t position, const float *w,
                          lh_entry_sums *sums)
{
    const lh_ragged *kv = a->kv;
    const int64_t half = a->rotary / 2, d = kv->head_dim;
    float s[PAIRS_AT_ONCE], c[PAIRS_AT_ONCE];
    for (int64_t first = 0; first < half; first += PAIRS_AT_ONCE) {
        const int64_t n = lh_min_i64(half - first, PAIRS_AT_ONCE);
        rotation_of(position, a->inv_freq + first, 1.0f / a->scale, n, s, c);
        for (int64_t j = 0; j < n; j += VL) {
            const int64_t i = first + j, left = n - j;
            const vf low = vf_load_any_first(kv->k, kv->type, at + i, left),
                     high = vf_load_any_first(kv->k, kv->type, at + half + i, left);
            const vf sine = vf_load_first(s + j, left), cosine = vf_load_first(c + j, left);
            weigh_channels(&sums->score, &sums->keys, low * cosine + high * sine, w + i, d, left);
            weigh_channels(&sums->score, &sums->keys, high * cosine - low * sine, w + half + i, d, left);
        }
    }
}

static float linear_score(const lh_linear_scores_args *a, int64_t h, int64_t slot)
{
    const lh_ragged *kv = a->kv;
    const int64_t d = kv->head_dim, at = (kv->offset[h] + slot) * d;
    const int32_t *positions = lh_positions_of(kv, h);
    const float *w = a->w + h * a->w_ld;
    lh_entry_sums sums = {vf_zero(), vf_zero(), vf_zero()};
    weigh_rotated(a, at, positions ? positions[slot] : (int32_t)slot, w, &sums);
    for (int64_t i = a->rotary; i < d; i += VL)
        weigh_channels(&sums.score, &sums.keys, vf_load_any_first(kv->k, kv->type, at + i, d - i), w + i, d, d - i);
    for (int64_t i = 0; i < d; i += VL)
        weigh_channels(&sums.score, &sums.values, vf_load_any_first(kv->v, kv->type, at + i, d - i), w + d + i, d,
                       d - i);
    return vf_sum(sums.score) + w[4 * d] * lh_log_length(vf_sum(sums.keys)) +
           w[4 * d + 1] * lh_log_length(vf_sum(sums.values)) + w[4 * d + 2];
}

static void linear_scores_stretch(const lh_linear_scores_args *a)
{
    lh_own_blocks b = own_blocks(a->kv);
    while (next_block(&b))
        for (int64_t s = b.first; s < b.first + b.n; s++) a->y[b.head * a->ld + s] = linear_score(a, b.head, s);
}

static lh_status op_linear_scores(lh_stream *stream, const lh_linear_scores_args *a)
{
    (void)stream;
#pragma omp parallel if (entries_of(a->kv) * a->kv->head_dim >= PARALLEL_FROM / 4)
    linear_scores_stretch(a);
    return LH_OK;
}

/* ---- norms of values after the output projection ----
 *
 * A matrix product that keeps only the sums of absolute values. The weights of a query head are packed PROJECTED_COLS
 * columns at a time and multiplied with a run of entries, and the products are immediately added by lanes. A section of
 * PROJECTED_SECTION columns has a separate sum, with the columns added to lanes in order; the sums of the sections are
 * added in order, too. So the bits depend neither on neighbouring entries nor on the division of sections among
 * threads. Measured on Zen 4, one core, relative to gemm with the same operations: 1.0 in f32, 0.9 to 1.0 in pairs of
 * bf16. */
/* Packing a column costs as much as some ten entries, so a run has many entries. */
enum { PROJECTED_COLS = 4 * TILE_COLS, PROJECTED_SECTION = 512, PROJECTED_ENTRIES = 512, PROJECTED_MIN = 96 };

typedef struct lh_projected {
    const lh_projected_norms_args *args;
    int pairs;            /* true: products of bf16 pairs */
    int64_t rows, places; /* rows of a block; floats or words of a value */
    int64_t entries;      /* entries of a run, in whole blocks */
    int64_t runs;         /* runs of a query head */
    int64_t sections;
} lh_projected;

/* Sections [begin, end) of a run of entries of a query head, and their workspace. */
typedef struct lh_projected_item {
    const lh_projected *product;
    int64_t i, head, first, count; /* first: index among the wanted entries */
    int64_t begin, end;
    float *v, *w, *c, *lanes; /* packed values and weights; [rows, PROJECTED_COLS] products; [entries, VL] */
    float *sums;              /* [sections, entries] of the run */
} lh_projected_item;

/* Floats of a thread, and of the sums of a run. */
static int64_t projected_floats(const lh_projected *p)
{
    return p->entries * (p->places + VL) + PROJECTED_COLS * (p->places + p->rows);
}

static int64_t projected_sums(const lh_projected *p)
{
    return p->sections * p->entries;
}

/* Number of wanted entries of KV head h. */
static int64_t projected_count(const lh_projected_norms_args *a, int64_t h)
{
    return lh_min_i64(a->kv->len[h], a->last);
}

static lh_projected_item projected_run(const lh_projected *p, int64_t run, float *memory, float *sums)
{
    const lh_projected_norms_args *a = p->args;
    lh_projected_item item = {.product = p, .i = run / p->runs, .end = p->sections, .sums = sums};
    item.head = (a->map.first + item.i) / a->map.group;
    item.first = run % p->runs * p->entries;
    item.count = lh_min_i64(projected_count(a, item.head) - item.first, p->entries);
    item.v = memory;
    item.w = item.v + p->entries * p->places;
    item.c = item.w + PROJECTED_COLS * p->places;
    item.lanes = item.c + PROJECTED_COLS * p->rows;
    return item;
}

static void projected_values(const lh_projected_item *item)
{
    const lh_projected *p = item->product;
    const lh_ragged *kv = p->args->kv;
    int64_t d = kv->head_dim, slot = lh_slot_of_last(kv->len[item->head], p->args->last) + item->first;
    lh_rows rows = {.src = kv->v,
                    .type = kv->type,
                    .first = (kv->offset[item->head] + slot) * d,
                    .outer_ld = d,
                    .inner = 1,
                    .count = item->count,
                    .depth = d,
                    .factor = 1.0f};
    for (int64_t b = 0; b * p->rows < item->count; b++) {
        if (p->pairs)
            pack_row_pairs(item->v + b * p->rows * p->places, &rows, b);
        else
            pack_rows(item->v + b * p->rows * p->places, &rows, b);
    }
}

/* Output columns [o, o + count). */
static void projected_weights(const lh_projected_item *item, int64_t o, int64_t count)
{
    const lh_projected_norms_args *a = item->product->args;
    lh_columns columns = {.src = a->w,
                          .type = a->type,
                          .first = o * a->w_ld + item->i * a->kv->head_dim,
                          .ld = a->w_ld,
                          .count = count,
                          .depth = a->kv->head_dim};
    if (item->product->pairs)
        pack_column_words(item->w, &columns, item->product->places);
    else
        pack_columns(item->w, &columns);
}

/* Adds the columns in item->w to the lanes of all entries; columns after `count` are zeros. */
static void projected_columns(const lh_projected_item *item, int64_t count)
{
    const lh_projected *p = item->product;
    lh_tile tile = {.b = item->w,
                    .c = item->c,
                    .depth = p->places,
                    .cols = count,
                    .b_next = TILE_COLS * p->places,
                    .c_ld = PROJECTED_COLS,
                    .from_zero = 1};
    for (int64_t first = 0; first < item->count; first += p->rows) {
        int64_t rows = lh_min_i64(item->count - first, p->rows);
        tile.a = item->v + first * p->places;
        if (p->pairs)
            pairs_logits(&tile, rows);
        else
            tile_strip(&tile, tile_packed, rows, 1);
        for (int64_t r = 0; r < rows; r++) {
            float *lanes = item->lanes + (first + r) * VL;
            vf sum = vf_load(lanes);
            for (int64_t j = 0; j < round_up(count, TILE_COLS); j += VL)
                sum = sum + vf_abs(vf_load(item->c + r * PROJECTED_COLS + j));
            vf_store(lanes, sum);
        }
    }
}

static void projected_section(const lh_projected_item *item, int64_t section)
{
    const lh_projected *p = item->product;
    int64_t end = lh_min_i64((section + 1) * PROJECTED_SECTION, p->args->out);
    float *sums = item->sums + section * p->entries;
    memset(item->lanes, 0, (size_t)(item->count * VL) * sizeof *item->lanes);
    for (int64_t o = section * PROJECTED_SECTION; o < end; o += PROJECTED_COLS) {
        int64_t count = lh_min_i64(PROJECTED_COLS, end - o);
        projected_weights(item, o, count);
        projected_columns(item, count);
    }
    for (int64_t r = 0; r < item->count; r++) sums[r] = vf_sum(vf_load(item->lanes + r * VL));
}

static void projected_work(const lh_projected_item *item)
{
    projected_values(item);
    if (item->product->pairs) pairs_begin();
    for (int64_t section = item->begin; section < item->end; section++) projected_section(item, section);
    if (item->product->pairs) pairs_end();
}

static void projected_finish(const lh_projected_item *item)
{
    const lh_projected *p = item->product;
    for (int64_t r = 0; r < item->count; r++) {
        double sum = 0.0;
        for (int64_t n = 0; n < p->sections; n++) sum += item->sums[n * p->entries + r];
        p->args->y[item->i * p->args->ld + item->first + r] = (float)sum;
    }
}

/* Divides the entries into runs of whole blocks, enough for every thread. Returns the entries of all query heads. */
static int64_t projected_cut(lh_projected *p)
{
    enum { TURNS = 4 };
    const lh_projected_norms_args *a = p->args;
    int64_t all = 0, most = 0;
    for (int64_t h = 0; h < a->kv->heads; h++) {
        int64_t i0, group, count = projected_count(a, h);
        head_range(&a->map, h, &i0, &group);
        all += group > 0 ? group * count : 0;
        most = count > most ? count : most;
    }
    int64_t share = lh_min_i64(all / (TURNS * omp_get_max_threads()), PROJECTED_ENTRIES);
    p->entries = round_up(lh_min_i64(most, share > PROJECTED_MIN ? share : PROJECTED_MIN), p->rows);
    p->runs = p->entries > 0 ? (most + p->entries - 1) / p->entries : 0;
    return all;
}

static lh_status op_projected_norms(lh_stream *stream, const lh_projected_norms_args *a)
{
    lh_projected p = {.args = a,
                      .pairs = BLOCK_IN_PAIRS && a->type == LH_BF16,
                      .sections = (a->out + PROJECTED_SECTION - 1) / PROJECTED_SECTION};
    float *memory = NULL;
    p.rows = p.pairs ? PAIR_ROWS : TILE_ROWS;
    p.places = p.pairs ? pair_words(a->kv->head_dim) : a->kv->head_dim;
    int64_t entries = projected_cut(&p), runs = a->map.heads * p.runs, threads = omp_get_max_threads();
    int64_t own = projected_floats(&p), sums = projected_sums(&p);
    int64_t cuts = runs < 2 * threads && p.sections > 1 ? p.sections : 1;
    int64_t floats = threads * own + (cuts > 1 ? runs : threads) * sums;
    LH_TRY(lh_stream_scratch(stream, &memory, floats * (int64_t)sizeof *memory));
#pragma omp parallel if (entries * a->out * a->kv->head_dim >= PARALLEL_FROM)
    {
        int64_t thread = omp_get_thread_num();
        float *mine = memory + thread * own, *all = memory + threads * own;
#pragma omp for schedule(dynamic)
        for (int64_t n = 0; n < runs * cuts; n++) {
            lh_projected_item item = projected_run(&p, n / cuts, mine, all + (cuts > 1 ? n / cuts : thread) * sums);
            if (cuts > 1) {
                item.begin = n % cuts;
                item.end = item.begin + 1;
            }
            if (item.count > 0) projected_work(&item);
            if (cuts == 1) projected_finish(&item);
        }
#pragma omp for
        for (int64_t run = 0; run < (cuts > 1 ? runs : 0); run++) {
            lh_projected_item item = projected_run(&p, run, mine, all + run * sums);
            projected_finish(&item);
        }
    }
    return LH_OK;
}
