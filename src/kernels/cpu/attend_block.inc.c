/* Attention of a block of rows: flash attention over tiles of KEYS slots. An
 * item of work is a KV head and a run of rows; its rows are those of all query
 * heads of the group, token by token, so that a packed tile of keys and values
 * serves them all. Every step of a row's arithmetic is laid out by absolute
 * slots, so its bits do not depend on the rows beside it. */
#include "kernels/cpu/softmax.h"
#include "kernels/cpu/tile.h"

typedef struct lh_block {
    const lh_attend_block_args *args;
    int64_t d, d_padded; /* head_dim, and rounded up to TILE_COLS */
    int64_t most_rows;   /* of an item */
    int64_t pairs;       /* 1: queries, keys, values and weights are multiplied as words
                            of two bf16 */
    int64_t depth;       /* places of a row of queries: d, or words */
} lh_block;

/* An item and the memory of the thread that has it. Rows are (token - t0) *
 * group + (head - i0). */
typedef struct lh_block_item {
    const lh_block *block;
    int64_t head, i0, group, t0, t1, rows, blocks; /* KV head, query heads, tokens; rows and their blocks of
                                                      TILE_ROWS */
    int64_t window_from;                           /* rows from this position on do not see all of the tile
                                                      at hand */
    float *q;                                      /* [blocks][depth][TILE_ROWS] */
    float *o;                                      /* [blocks * TILE_ROWS, d_padded] */
    float *top, *mass;                             /* [rows] */
    float *k;                                      /* [KEYS / TILE_COLS][depth][TILE_COLS] */
    float *v;                                      /* [d_padded / TILE_COLS][KEYS][TILE_COLS]; pairs: every other row
                                                      is left out */
    float *s;                                      /* [TILE_ROWS, KEYS] */
} lh_block_item;

static int64_t item_floats(const lh_block *b)
{
    int64_t rows = round_up(b->most_rows, TILE_ROWS);
    return round_up(rows * (b->depth + b->d_padded + 2) + KEYS * (b->depth + b->d_padded) + TILE_ROWS * KEYS, 16);
}

static void item_place(lh_block_item *item, float *memory)
{
    const lh_block *b = item->block;
    int64_t rows = round_up(b->most_rows, TILE_ROWS);
    item->k = memory;
    item->v = item->k + KEYS * b->depth;
    item->s = item->v + KEYS * b->d_padded;
    item->q = item->s + TILE_ROWS * KEYS;
    item->o = item->q + rows * b->depth;
    item->top = item->o + rows * b->d_padded;
    item->mass = item->top + rows;
}

static void item_begin(lh_block_item *item)
{
    const lh_attend_block_args *a = item->block->args;
    int64_t d = item->block->d;
    lh_rows rows = {.src = a->q,
                    .type = LH_F32,
                    .first = item->t0 * a->q_ld + item->i0 * d,
                    .outer_ld = a->q_ld,
                    .inner = item->group,
                    .inner_ld = d,
                    .count = item->rows,
                    .depth = d,
                    .factor = query_factor(&a->logit)};
    void (*pack)(float *, const lh_rows *, int64_t) = item->block->pairs ? pack_row_pairs : pack_rows;
    for (int64_t b = 0; b < item->blocks; b++) pack(item->q + b * TILE_ROWS * item->block->depth, &rows, b);
    memset(item->o, 0, (size_t)(item->blocks * TILE_ROWS * item->block->d_padded) * sizeof *item->o);
    for (int64_t r = 0; r < item->rows; r++) {
        item->top[r] = -INFINITY;
        item->mass[r] = 0.0f;
    }
}

/* Slots that row r sees when nothing but order counts. */
static int64_t row_end(const lh_block_item *item, int64_t r)
{
    const lh_attend_block_args *a = item->block->args;
    return a->kv->len[item->head] - a->tokens + item->t0 + r / item->group + 1;
}

/* Values [first, first + n) in panels. */
static void load_values(const lh_block_item *item, int64_t first, int64_t n)
{
    const lh_ragged *kv = item->block->args->kv;
    int64_t d = item->block->d, at = (kv->offset[item->head] + first) * d, step = 1 + item->block->pairs;
    for (int64_t i = 0; i < item->block->d_padded; i += VL) {
        float *v = item->v + i / TILE_COLS * TILE_COLS * KEYS + i % TILE_COLS;
        for (int64_t j = 0; j < n; j += step, v += TILE_COLS) {
            int64_t here = at + j * d + i, left = i < d ? d - i : 0;
            vf x = vf_load_any_first(kv->v, kv->type, here, left);
            if (step == 2) x = vf_pair(x, j + 1 < n ? vf_load_any_first(kv->v, kv->type, here + d, left) : vf_zero());
            vf_store(v, x);
        }
    }
}

/* Keys [first, first + n) transposed. */
static void load_keys(const lh_block_item *item, int64_t first, int64_t n)
{
    const lh_ragged *kv = item->block->args->kv;
    int64_t d = item->block->d, at = (kv->offset[item->head] + first) * d;
    lh_columns keys = {.src = kv->k, .type = kv->type, .first = at, .ld = d, .count = n, .depth = d};
    if (item->block->pairs)
        pack_column_pairs(item->k, &keys);
    else
        pack_columns(item->k, &keys);
}

/* -inf where the window of a row at `position` leaves the slots [first, first +
 * n). */
static void mask_window(const lh_block_item *item, float *s, int64_t position, int64_t first, int64_t n)
{
    const lh_attend_block_args *a = item->block->args;
    for (int64_t j = 0; j < n; j++) {
        if (entry_position(a->kv, item->head, first + j) <= position - a->logit.window) s[j] = -INFINITY;
    }
}

/* How many of the n keys from slot `first` on row r sees when only order counts. */
static int64_t row_sees(const lh_block_item *item, int64_t r, int64_t first, int64_t n)
{
    int64_t seen = least(row_end(item, r) - first, n);
    return seen < 0 ? 0 : seen;
}

/* Rows of a block, or a part of it: logits in item->s become weights; what the rows have so far is shrunk as they
 * demand. */
typedef struct lh_weighed {
    int64_t row, rows, first, n; /* of the item; slots [first, first + n) */
    float *s;
} lh_weighed;

VEC_FN void weigh_rows(const lh_block_item *item, const lh_weighed *w, const int pairs)
{
    const lh_attend_block_args *a = item->block->args;
    float tops[VL], shrinks[VL], *top = item->top + w->row, *mass = item->mass + w->row;
    for (int64_t r = 0; r < w->rows; r++) {
        float *s = w->s + r * KEYS;
        int64_t seen = row_sees(item, w->row + r, w->first, w->n);
        int64_t position = a->positions[item->t0 + (w->row + r) / item->group];
        if (a->logit.softcap > 0) cap_logits(s, seen, a->logit.softcap);
        if (item->window_from <= position) mask_window(item, s, position, w->first, seen);
        tops[r] = row_top(s, seen, top[r]);
        shrinks[r] = tops[r] == -INFINITY ? -INFINITY : top[r] - tops[r];
        top[r] = tops[r];
    }
    for (int64_t r = w->rows; r < VL; r++) shrinks[r] = 0.0f;
    vf_store(shrinks, vf_exp_negative(vf_load(shrinks)));
    for (int64_t r = 0; r < w->rows; r++) {
        float *o = item->o + (w->row + r) * item->block->d_padded, base = tops[r] == -INFINITY ? 0.0f : tops[r];
        float sum = row_weigh(w->s + r * KEYS, row_sees(item, w->row + r, w->first, w->n), w->n, base, pairs);
        mass[r] = mass[r] * shrinks[r] + sum;
        for (int64_t i = 0; i < item->block->d_padded && shrinks[r] != 1; i += VL)
            vf_store(o + i, vf_set1(shrinks[r]) * vf_load(o + i));
    }
}

/* A block of rows against the n keys of the tile that begins at slot `first`. */
static void attend_rows(const lh_block_item *item, int64_t b, int64_t first, int64_t n)
{
    const lh_block *block = item->block;
    int64_t row = b * TILE_ROWS, rows = least(item->rows - row, TILE_ROWS), padded = block->d_padded;
    n = least(n, row_end(item, row + rows - 1) - first);
    if (n <= 0) return;
    lh_tile logits = {.a = item->q + row * block->depth,
                      .b = item->k,
                      .c = item->s,
                      .depth = block->depth,
                      .cols = n,
                      .b_next = TILE_COLS * block->depth,
                      .c_ld = KEYS,
                      .from_zero = 1};
    lh_tile sums = {.a = item->s,
                    .b = item->v,
                    .c = item->o + row * padded,
                    .depth = block->pairs ? (n + 1) / 2 : n,
                    .cols = padded,
                    .b_next = KEYS * TILE_COLS,
                    .c_ld = padded};
    lh_weighed w = {row, rows, first, n, item->s};
    if (block->pairs) {
        tile_strip(&logits, tile_packed_pairs, rows, 1);
        weigh_rows(item, &w, 1);
        tile_strip(&sums, tile_weights_pairs, rows, KEYS);
    } else {
        tile_strip(&logits, tile_packed, rows, 1);
        weigh_rows(item, &w, 0);
        tile_strip(&sums, tile_weights, rows, KEYS);
    }
}

static void item_end(const lh_block_item *item)
{
    const lh_attend_block_args *a = item->block->args;
    int64_t d = item->block->d;
    for (int64_t r = 0; r < item->rows; r++) {
        int64_t t = item->t0 + r / item->group, i = item->i0 + r % item->group;
        vf share = vf_set1(item->mass[r] > 0 ? 1.0f / item->mass[r] : 0.0f);
        const float *from = item->o + r * item->block->d_padded;
        float *o = a->o + t * a->o_ld + i * d;
        for (int64_t c = 0; c < d; c += VL) vf_store_first(o + c, share * vf_load(from + c), d - c);
        if (a->lse) a->lse[t * a->map.heads + i] = item->top[r] + logf(item->mass[r]);
    }
}

/* Lowest and highest position of the slots [first, first + n). */
static void position_range(const lh_block_item *item, int64_t first, int64_t n, int64_t *low, int64_t *high)
{
    const lh_ragged *kv = item->block->args->kv;
    int32_t lowest = INT32_MAX, most = INT32_MIN;
    *low = first;
    *high = first + n - 1;
    if (!kv->positions) return;
    for (const int32_t *p = kv->positions + kv->offset[item->head] + first, *end = p + n; p < end; p++) {
        lowest = *p < lowest ? *p : lowest;
        most = *p > most ? *p : most;
    }
    *low = lowest;
    *high = most;
}

static void attend_item(lh_block_item *item)
{
    const lh_attend_block_args *a = item->block->args;
    int64_t end = row_end(item, item->rows - 1), window = a->logit.window, lowest = INT64_MAX;
    item_begin(item);
    for (int64_t t = item->t0; t < item->t1; t++) lowest = a->positions[t] < lowest ? a->positions[t] : lowest;
    for (int64_t first = 0; first < end; first += KEYS) {
        int64_t n = end - first < KEYS ? end - first : KEYS, low, high;
        item->window_from = INT64_MAX;
        if (window > 0) {
            position_range(item, first, n, &low, &high);
            if (high <= lowest - window) continue;
            item->window_from = low + window;
        }
        load_keys(item, first, n);
        load_values(item, first, n);
        for (int64_t b = 0; b < item->blocks; b++) attend_rows(item, b, first, n);
    }
    item_end(item);
}

/* Rows of an item: as many as keep queries and sums in the second-level cache,
 * fewer where threads would be idle. */
static int64_t choose_rows(const lh_attend_block_args *a, int64_t d)
{
    enum { ITEM_FLOATS = 1 << 15, ITEMS_PER_THREAD = 4, LEAST_BLOCKS = 4 };
    int64_t most = ITEM_FLOATS / d, shared = a->tokens * a->map.heads / (ITEMS_PER_THREAD * omp_get_max_threads());
    int64_t rows = shared < most ? shared : most;
    return rows > LEAST_BLOCKS * TILE_ROWS ? rows : LEAST_BLOCKS * TILE_ROWS;
}

static lh_status op_attend_block(lh_stream *stream, const lh_attend_block_args *a)
{
    lh_status st = LH_OK;
    int64_t d = a->kv->head_dim, heads, tokens, pieces;
    lh_block block = {.args = a, .d = d, .d_padded = round_up(d, TILE_COLS), .pairs = PAIRS && a->kv->type == LH_BF16};
    block.depth = block.pairs ? (d + 1) / 2 : d;
    float *memory = NULL;
    if (a->tokens == 0 || a->map.heads == 0 || d == 0) return LH_OK;
    heads = head_end(&a->map) - head_first(&a->map);
    tokens = choose_rows(a, d) / a->map.group;
    tokens = tokens < 1 ? 1 : tokens;
    pieces = (a->tokens + tokens - 1) / tokens;
    block.most_rows = tokens * a->map.group;
    LH_TRY(lh_stream_scratch(stream, &memory, omp_get_max_threads() * item_floats(&block) * (int64_t)sizeof *memory));
    /* The last rows see the most: they go first. */
#pragma omp parallel for schedule(dynamic)
    for (int64_t n = 0; n < pieces * heads; n++) {
        int64_t head = head_first(&a->map) + n % heads, piece = pieces - 1 - n / heads;
        lh_block_item item = {.block = &block, .head = head, .t0 = piece * tokens};
        head_range(&a->map, head, &item.i0, &item.group);
        item.t1 = least(item.t0 + tokens, a->tokens);
        item.rows = (item.t1 - item.t0) * item.group;
        item.blocks = (item.rows + TILE_ROWS - 1) / TILE_ROWS;
        item_place(&item, memory + omp_get_thread_num() * item_floats(&block));
        attend_item(&item);
    }
done:
    return st;
}
