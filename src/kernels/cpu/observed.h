/* observed.h - observed query rows (lh_observed), packed, for row_lse and column_stats. Rows are in blocks of way->rows
 * tokens: the tokens of a block times the query heads of a group make whole tiles of logits, and hold whole groups.
 * Entries are processed in steps of STEP. */
#ifndef LH_KERNELS_CPU_OBSERVED_H
#define LH_KERNELS_CPU_OBSERVED_H

#include "kernels/cpu/observed.h"

#include "kernels/cpu/block_products.h"
#include "kernels/cpu/softmax.h"

/* Entries that are multiplied with a block of rows together. */
enum { STEP = 64 };

/* Row maximum of lanes without any entry: finite, so that differences are not NaN. */
#define LOWEST (-3.0e38f)

/* The smallest and the largest bounds of the visible ranges of a block's rows. */
typedef struct lh_block_range {
    lh_visible_range least, most;
} lh_block_range;

typedef struct lh_watch {
    const lh_observed *rows;
    const lh_block_way *way;
    int64_t heads, first_head, blocks; /* KV heads that the map touches; blocks of rows */
    int64_t d_places, head_floats;     /* floats or words of a row; of all packed rows of a KV head */
    float *q;                          /* [heads, head_floats] */
    lh_visible_range *visible;         /* [rows] */
    lh_block_range *block_ranges;      /* [blocks] */
} lh_watch;

/* Entries [first, first + n) of a KV head, n <= STEP, and the memory of their thread. */
typedef struct lh_step {
    const lh_watch *watch;
    int64_t head, i0, group, first, n; /* query heads i0 .. + group */
    int32_t low, high;                 /* lowest and highest position */
    int32_t *positions;                /* [STEP] */
    const float *bias;                 /* [n] biases of the cache; NULL: none */
    float *k;                          /* packed keys */
    float *s;                          /* [rows of a block, STEP] logits, row t * group + i of the block */
} lh_step;

static inline void watch_open(lh_watch *w, const lh_observed *rows)
{
    w->rows = rows;
    w->way = way_of(rows->kv);
    w->first_head = head_first(&rows->map);
    w->heads = head_end(&rows->map) - w->first_head;
    w->blocks = (rows->rows + w->way->rows - 1) / w->way->rows;
    w->d_places = w->way->places(rows->kv->head_dim);
    w->head_floats = w->blocks * w->way->rows * rows->map.group * w->d_places;
}

/* Entries of the longest observed head. */
static inline int64_t watch_longest(const lh_watch *w)
{
    int64_t longest = 0;
    for (int64_t n = 0; n < w->heads; n++) longest = lh_max_i64(longest, w->rows->kv->len[w->first_head + n]);
    return longest;
}

/* Work of all rows with `cols` entries of every KV head; little if their logits are known. */
static inline int64_t watch_work(const lh_watch *w, int64_t cols)
{
    return w->rows->rows * w->rows->map.heads * cols * (w->rows->logits.at ? 1 : 32);
}

static inline int64_t watch_bytes(const lh_watch *w)
{
    return round_up(w->heads * w->head_floats * (int64_t)sizeof *w->q + w->rows->rows * (int64_t)sizeof *w->visible +
                        w->blocks * (int64_t)sizeof *w->block_ranges,
                    64);
}

/* Places workspace of watch_bytes; sets the parts that threads do not fill. */
static inline void watch_place(lh_watch *w, void *memory)
{
    const lh_observed *o = w->rows;
    w->q = memory;
    w->visible = (lh_visible_range *)(w->q + w->heads * w->head_floats);
    w->block_ranges = (lh_block_range *)(w->visible + o->rows);
    for (int64_t r = 0; r < o->rows; r++)
        w->visible[r] = lh_visible_range_of(o->positions, o->until, o->logit.window, r);
    for (int64_t b = 0; b < w->blocks; b++) {
        lh_block_range all = {{INT32_MAX, INT32_MAX}, {INT32_MIN, INT32_MIN}};
        for (int64_t r = b * w->way->rows; r < lh_min_i64((b + 1) * w->way->rows, o->rows); r++) {
            lh_visible_range s = w->visible[r];
            all.least.before = s.before < all.least.before ? s.before : all.least.before;
            all.least.last = s.last < all.least.last ? s.last : all.least.last;
            all.most.before = s.before > all.most.before ? s.before : all.most.before;
            all.most.last = s.last > all.most.last ? s.last : all.most.last;
        }
        w->block_ranges[b] = all;
    }
}

/* Packs block b of the rows of the n-th KV head. */
static inline void watch_pack(const lh_watch *w, int64_t n, int64_t b)
{
    const lh_observed *o = w->rows;
    int64_t d = o->kv->head_dim, i0, group;
    if (o->logits.at) return;
    head_range(&o->map, w->first_head + n, &i0, &group);
    lh_rows rows = {.src = o->q,
                    .type = LH_F32,
                    .first = i0 * d,
                    .outer_ld = o->q_ld,
                    .inner = group,
                    .inner_ld = d,
                    .count = o->rows * group,
                    .depth = d,
                    .factor = query_factor(&o->logit)};
    for (int64_t tile = b * group; tile < (b + 1) * group && tile * w->way->rows < rows.count; tile++)
        w->way->pack_rows(w->q + n * w->head_floats + tile * w->way->rows * w->d_places, &rows, tile);
}

static inline int64_t step_floats_of(const lh_watch *w)
{
    return STEP * (w->d_places + 1 + w->way->rows * w->rows->map.group);
}

/* Consecutive steps that a thread takes, unless threads would be idle. */
static inline int steps_at_once(int64_t steps)
{
    enum { MOST = 8, PARTS_PER_THREAD = 8 };
    int64_t n = lh_min_i64(steps / (PARTS_PER_THREAD * omp_get_num_threads()), MOST);
    if (omp_get_num_threads() == 1) n = lh_min_i64(steps, INT32_MAX);
    return n > 1 ? (int)n : 1;
}

/* ---- a step of entries: positions, logits, visibility ---- */
/* stored: positions from the step's first entry on; NULL: slots are positions. n: p->n. */
VEC_FN void list_positions(lh_step *p, const int32_t *stored, const int64_t n)
{
    int32_t low = INT32_MAX, high = INT32_MIN;
    int32_t *at = p->positions;
    for (int64_t j = 0; j < n; j++) {
        at[j] = stored ? stored[j] : (int32_t)(p->first + j);
        low = at[j] < low ? at[j] : low;
        high = at[j] > high ? at[j] : high;
    }
    for (int64_t j = n; j < STEP; j++) at[j] = INT32_MAX;
    p->low = low;
    p->high = high;
}

/* The usual size of a step is a constant for the compiler. */
static inline void step_positions(lh_step *p, const int32_t *stored)
{
    if (p->n == STEP)
        list_positions(p, stored, STEP);
    else
        list_positions(p, stored, p->n);
}

/* Starts a step in memory of step_floats_of floats, and packs its keys. */
static inline void step_begin(lh_step *p, float *memory)
{
    const lh_ragged *kv = p->watch->rows->kv;
    int64_t d = kv->head_dim;
    lh_columns keys = {.src = kv->k,
                       .type = kv->type,
                       .first = (kv->offset[p->head] + p->first) * d,
                       .ld = d,
                       .count = p->n,
                       .depth = d,
                       .ahead = STEP};
    p->k = memory;
    p->s = p->k + STEP * p->watch->d_places;
    p->positions = (int32_t *)(p->s + STEP * p->watch->way->rows * p->watch->rows->map.group);
    p->bias = kv->bias ? kv->bias + kv->offset[p->head] + p->first : NULL;
    step_positions(p, kv->positions ? kv->positions + kv->offset[p->head] + p->first : NULL);
    if (!p->watch->rows->logits.at) p->watch->way->pack_keys(p->k, &keys);
}

typedef enum lh_seen { SEEN_NONE, SEEN_SOME, SEEN_ALL } lh_seen;

/* Whether the rows of block b see all, some or none of the step's entries. */
static inline lh_seen step_seen(const lh_step *p, int64_t b)
{
    const lh_block_range *s = &p->watch->block_ranges[b];
    if (s->most.last < p->low || s->least.before >= p->high) return SEEN_NONE;
    return s->least.last >= p->high && s->most.before < p->low ? SEEN_ALL : SEEN_SOME;
}

/* Entries of the step, in whole panels, after which no row of block b sees an entry. */
static inline int64_t step_reach(const lh_step *p, int64_t b)
{
    int32_t last = p->watch->block_ranges[b].most.last;
    int64_t n = p->n;
    while (n > 0 && p->positions[n - 1] > last) n--;
    return lh_min_i64(round_up(n, TILE_COLS), p->n);
}

/* Copies given logits. */
static inline void step_take(const lh_step *p)
{
    const lh_row_logits *given = &p->watch->rows->logits;
    for (int64_t i = 0; i < p->group; i++) {
        float *s = p->s + i * STEP;
        const float *from = given->at + (p->i0 + i) * given->ld + p->first;
        int64_t j = 0;
        for (; j < p->n; j += VL) vf_store(s + j, vf_load_first(from + j, p->n - j));
        for (; j < STEP; j += VL) vf_store(s + j, vf_zero());
    }
}

/* The biases of the step's entries from j on. */
VEC_FN vf step_bias(const lh_step *p, int64_t j)
{
    return vf_load_first(p->bias + j, p->n - j);
}

/* Computes the logits of the rows of block b with the first n entries, without gain and bias; with a soft cap the
 * factor of the cap is missing, unless logits are given. Returns the tokens of the block. */
static inline int64_t step_logits(const lh_step *p, int64_t b, int64_t n)
{
    const lh_watch *w = p->watch;
    const int64_t whole = w->way->rows, half = whole / 2;
    int64_t tokens = lh_min_i64(w->rows->rows - b * whole, whole), rows = tokens * p->group;
    const float *q = w->q + (p->head - w->first_head) * w->head_floats + b * p->group * whole * w->d_places;
    if (w->rows->logits.at) {
        step_take(p);
        return tokens;
    }
    for (int64_t r = 0; r < rows; r += whole) {
        lh_tile tile = {.a = q + r * w->d_places,
                        .b = p->k,
                        .c = p->s + r * STEP,
                        .depth = w->d_places,
                        .cols = n,
                        .b_next = TILE_COLS * w->d_places,
                        .c_ld = STEP,
                        .from_zero = 1};
        int64_t left = rows - r; /* one call with many rows is faster than two calls */
        w->way->logits(&tile, left > half ? whole : left > SOME_ROWS ? half : left > 2 ? SOME_ROWS : left);
    }
    if (w->rows->logit.softcap > 0) {
        for (int64_t i = 0; i < rows * STEP; i += VL) vf_store(p->s + i, vf_tanh(vf_load(p->s + i)));
    }
    return tokens;
}

/* The missing factor of logits, and the same with the gain of row r. */
static inline float cap_left(const lh_observed *o)
{
    return o->logit.softcap > 0 && !o->logits.at ? o->logit.softcap : 1.0f;
}

static inline float row_gain(const lh_observed *o, int64_t r)
{
    return (o->gains ? o->gains[r] : 1.0f) * cap_left(o);
}

VEC_FN vm seen_by(const int32_t *positions, lh_visible_range visible)
{
    vi p = vi_load(positions);
    return vm_and(vi_gt(p, vi_set1(visible.before)), vm_not(vi_gt(p, vi_set1(visible.last))));
}

#endif
