/* Attention of a block of rows: flash attention over tiles of KEYS slots. A work item is a KV head and a run of
 * rows, the rows of all query heads of the group, token by token, so that a packed tile of keys and values serves
 * all of them. Every step of a row's arithmetic is laid out by absolute slots, so its bits do not depend on
 * neighbouring rows. */
#include "kernels/cpu/block_products.h"
#include "kernels/cpu/softmax.h"

typedef struct lh_block {
    const lh_attend_block_args *args;
    const lh_block_way *way;
    int64_t d, d_padded, d_places; /* head_dim; rounded up to TILE_COLS; floats or words of it */
    int64_t d_wide;                /* head_dim of a cache of codes, else 0 */
    int64_t most_rows;             /* rows of an item, in whole blocks */
} lh_block;

/* An item and the memory of its thread. Row (t - t0) * group + (i - i0) is token t of query head i. */
typedef struct lh_block_item {
    const lh_block *block;
    int64_t head, i0, group, t0, t1, rows;
    lh_ragged kv;                 /* the cache, with the arrays of the current tile */
    int64_t window_from;          /* rows from this position on do not see the whole current tile */
    float *q;                     /* packed, by blocks of rows */
    float *k, *v, *s;             /* packed keys and values of a tile; [way->rows, KEYS] logits, then weights */
    float *wide;                  /* of a cache of codes: [most_rows, d] transformed queries (q8.h), or [KEYS, d] keys
                                     or values of a tile, times their scales */
    float *o;                     /* [most_rows, d_padded] */
    float *row_max, *denominator; /* [most_rows] */
} lh_block_item;

static int64_t item_floats(const lh_block *b)
{
    return b->most_rows * (b->d_places + b->d_padded + 2) + KEYS * (b->d_places + b->d_padded) + b->way->rows * KEYS +
           b->d_wide * lh_max_i64(KEYS, b->most_rows);
}

static void item_place(lh_block_item *item, float *memory)
{
    const lh_block *b = item->block;
    item->k = memory;
    item->v = item->k + KEYS * b->d_places;
    item->s = item->v + KEYS * b->d_padded;
    item->q = item->s + b->way->rows * KEYS;
    item->o = item->q + b->most_rows * b->d_places;
    item->row_max = item->o + b->most_rows * b->d_padded;
    item->denominator = item->row_max + b->most_rows;
    item->wide = item->denominator + b->most_rows;
}

/* Rows of the queries of a cache of codes, transformed. */
static void transform_queries(const lh_block_item *item, lh_rows *rows)
{
    const lh_attend_block_args *a = item->block->args;
    const int64_t d = item->block->d;
    for (int64_t r = 0; r < item->rows; r++) {
        const int64_t t = r / item->group, i = r % item->group;
        memcpy(item->wide + r * d, a->q + rows->first + t * a->q_ld + i * d, (size_t)d * sizeof *a->q);
        lh_q8_hadamard_inverse(item->wide + r * d, d);
    }
    rows->src = item->wide;
    rows->first = 0;
    rows->outer_ld = item->group * d;
}

static void item_begin(lh_block_item *item)
{
    const lh_block *b = item->block;
    const lh_attend_block_args *a = b->args;
    lh_rows rows = {.src = a->q,
                    .type = LH_F32,
                    .first = item->t0 * a->q_ld + item->i0 * b->d,
                    .outer_ld = a->q_ld,
                    .inner = item->group,
                    .inner_ld = b->d,
                    .count = item->rows,
                    .depth = b->d,
                    .factor = query_factor(&a->logit)};
    if (b->d_wide) transform_queries(item, &rows);
    for (int64_t r = 0; r < item->rows; r += b->way->rows)
        b->way->pack_rows(item->q + r * b->d_places, &rows, r / b->way->rows);
    memset(item->o, 0, (size_t)(b->most_rows * b->d_padded) * sizeof *item->o);
    for (int64_t r = 0; r < item->rows; r++) {
        item->row_max[r] = -INFINITY;
        item->denominator[r] = 0.0f;
    }
}

/* End of the slots that row r sees by order alone, without the window. */
static int64_t row_end(const lh_block_item *item, int64_t r)
{
    const lh_attend_block_args *a = item->block->args;
    return a->kv->len[item->head] - a->tokens + item->t0 + r / item->group + 1;
}

/* Number of visible slots among the n slots from `first` on. */
static int64_t row_sees(const lh_block_item *item, int64_t r, int64_t first, int64_t n)
{
    int64_t seen = lh_min_i64(row_end(item, r) - first, n);
    return seen < 0 ? 0 : seen;
}

/* Sets -inf for slots of [first, first + n) outside the window of a row at `position`. */
static void mask_window(const lh_block_item *item, float *s, int64_t position, int64_t first, int64_t n)
{
    const lh_attend_block_args *a = item->block->args;
    for (int64_t j = 0; j < n; j++) {
        if (lh_position(&item->kv, item->head, first + j) <= position - a->logit.window) s[j] = -INFINITY;
    }
}

/* Adds the biases of the slots [first, first + n) to a row's logits. */
static void add_biases(const lh_block_item *item, float *s, int64_t first, int64_t n)
{
    const float *bias = lh_bias_of(&item->kv, item->head) + first;
    for (int64_t j = 0; j < n; j++) s[j] += bias[j];
}

/* Turns the logits of rows [row, row + rows) with slots [first, first + n) into weights, and rescales the rows' sums
 * where the row maximum has grown. */
static void weigh_rows(const lh_block_item *item, const int64_t range[2], int64_t first, int64_t n)
{
    const lh_attend_block_args *a = item->block->args;
    int64_t row = range[0], rows = range[1], padded = item->block->d_padded;
    float row_maxima[VL], shrinks[VL], *row_max = item->row_max + row, *denominator = item->denominator + row;
    for (int64_t r = 0; r < rows; r++) {
        float *s = item->s + r * KEYS;
        int64_t seen = row_sees(item, row + r, first, n), position = a->positions[item->t0 + (row + r) / item->group];
        if (a->logit.softcap > 0) cap_logits(s, seen, a->logit.softcap);
        if (a->kv->bias) add_biases(item, s, first, seen);
        if (item->window_from <= position) mask_window(item, s, position, first, seen);
        row_maxima[r] = row_top(s, seen, row_max[r]);
        shrinks[r] = row_maxima[r] == -INFINITY ? -INFINITY : row_max[r] - row_maxima[r];
        row_max[r] = row_maxima[r];
    }
    for (int64_t r = rows; r < VL; r++) shrinks[r] = 0.0f;
    vf_store(shrinks, vf_exp_negative(vf_load(shrinks)));
    for (int64_t r = 0; r < rows; r++) {
        float *o = item->o + (row + r) * padded, base = row_maxima[r] == -INFINITY ? 0.0f : row_maxima[r];
        float sum = item->block->way->weigh(item->s + r * KEYS, row_sees(item, row + r, first, n), n, base);
        denominator[r] = denominator[r] * shrinks[r] + sum;
        for (int64_t i = 0; i < padded && shrinks[r] != 1; i += VL)
            vf_store(o + i, vf_set1(shrinks[r]) * vf_load(o + i));
    }
}

/* Attends the block of rows that begins at `row` to the n slots of the tile that begins at slot `first`. */
static void attend_rows(const lh_block_item *item, int64_t row, int64_t first, int64_t n)
{
    const lh_block *b = item->block;
    int64_t rows = lh_min_i64(item->rows - row, b->way->rows);
    n = lh_min_i64(n, row_end(item, row + rows - 1) - first);
    if (n <= 0) return;
    lh_tile logits = {.a = item->q + row * b->d_places,
                      .b = item->k,
                      .c = item->s,
                      .depth = b->d_places,
                      .cols = n,
                      .b_next = TILE_COLS * b->d_places,
                      .c_ld = KEYS,
                      .from_zero = 1};
    lh_tile sums = {.a = item->s,
                    .b = item->v,
                    .c = item->o + row * b->d_padded,
                    .depth = b->way->places(n),
                    .cols = b->d_padded,
                    .b_next = KEYS * TILE_COLS,
                    .c_ld = b->d_padded};
    b->way->logits(&logits, rows);
    weigh_rows(item, (const int64_t[]){row, rows}, first, n);
    b->way->sums(&sums, rows);
}

static void item_end(const lh_block_item *item)
{
    const lh_attend_block_args *a = item->block->args;
    int64_t d = item->block->d;
    for (int64_t r = 0; r < item->rows; r++) {
        int64_t t = item->t0 + r / item->group, i = item->i0 + r % item->group;
        vf share = vf_set1(item->denominator[r] != 0 ? 1.0f / item->denominator[r] : 0.0f);
        const float *from = item->o + r * item->block->d_padded;
        int64_t at = t * a->o_ld + i * d;
        for (int64_t c = 0; c < d; c += VL) {
            vf o = share * vf_load(from + c);
            if (a->o_bf16) vf_store_any_first(a->o_bf16, LH_BF16, at + c, o, d - c);
            if (!a->o_bf16 || a->keeps_o) vf_store_first(a->o + at + c, o, d - c);
        }
        if (a->lse) a->lse[t * a->map.heads + i] = item->row_max[r] + logf(item->denominator[r]);
    }
}

/* Lowest and highest position of the slots [first, first + n). */
static void position_range(const lh_block_item *item, int64_t first, int64_t n, int64_t *low, int64_t *high)
{
    const lh_ragged *kv = &item->kv;
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

/* Keys or values of the slots [first, first + n). */
static lh_columns entries_of_tile(const lh_block_item *item, const void *src, const float *scales, int64_t n,
                                  int64_t first)
{
    const int64_t d = item->block->d, at = item->kv.offset[item->head] + first;
    lh_columns entries = {.src = src, .type = item->kv.type, .first = at * d, .ld = d, .count = n, .depth = d};
    if (item->kv.type != LH_Q8) return entries;
    for (int64_t j = 0; j < n; j++)
        widen_row(item->wide + j * d, (const int8_t *)src + (at + j) * d, scales[at + j], d);
    entries.src = item->wide;
    entries.type = LH_F32;
    entries.first = 0;
    return entries;
}

static void attend_item(lh_block_item *item)
{
    const lh_block *b = item->block;
    const lh_attend_block_args *a = b->args;
    const lh_ragged *kv = &item->kv;
    int64_t end = row_end(item, item->rows - 1), window = a->logit.window, lowest = INT64_MAX;
    item_begin(item);
    for (int64_t t = item->t0; t < item->t1; t++) lowest = a->positions[t] < lowest ? a->positions[t] : lowest;
    for (int64_t first = 0; first < end; first += KEYS) {
        int64_t n = lh_min_i64(end - first, KEYS), low, high;
        item->kv = lh_segment_at(a->kv, item->head, first);
        item->window_from = INT64_MAX;
        if (window > 0) {
            position_range(item, first, n, &low, &high);
            if (high <= lowest - window) continue;
            item->window_from = low + window;
        }
        lh_columns entries = entries_of_tile(item, kv->k, kv->k_scale, n, first);
        b->way->pack_keys(item->k, &entries);
        entries = entries_of_tile(item, kv->v, kv->v_scale, n, first);
        b->way->pack_values(item->v, &entries);
        for (int64_t row = 0; row < item->rows; row += b->way->rows) attend_rows(item, row, first, n);
    }
    item_end(item);
}

/* Tokens of an item: queries and sums must fit in the L2 cache; fewer tokens if threads would be idle. */
static int64_t item_tokens(const lh_attend_block_args *a)
{
    enum { ITEM_FLOATS = 1 << 15, ITEMS_PER_THREAD = 4, MIN_ROWS = 64 };
    int64_t most = ITEM_FLOATS / a->kv->head_dim,
            shared = a->tokens * a->map.heads / (ITEMS_PER_THREAD * omp_get_max_threads());
    int64_t rows = lh_min_i64(most, shared > MIN_ROWS ? shared : MIN_ROWS);
    return rows > a->map.group ? rows / a->map.group : 1;
}

static lh_status op_attend_block(lh_stream *stream, const lh_attend_block_args *a)
{
    const lh_block_way *way = way_of(a->kv);
    int64_t d = a->kv->head_dim, tokens, pieces, heads, own;
    float *memory = NULL;
    if (a->tokens == 0 || a->map.heads == 0 || d == 0) return LH_OK;
    tokens = item_tokens(a);
    pieces = (a->tokens + tokens - 1) / tokens;
    heads = head_end(&a->map) - head_first(&a->map);
    lh_block block = {.args = a,
                      .way = way,
                      .d = d,
                      .d_padded = round_up(d, TILE_COLS),
                      .d_places = way->places(d),
                      .d_wide = a->kv->type == LH_Q8 ? d : 0,
                      .most_rows = round_up(tokens * a->map.group, way->rows)};
    own = round_up(item_floats(&block), 16);
    LH_TRY(lh_stream_scratch(stream, &memory, omp_get_max_threads() * own * (int64_t)sizeof *memory));
    /* The last rows see the most entries: they are scheduled first. */
#pragma omp parallel for schedule(dynamic) if (a->tokens * a->map.heads * a->kv->len[head_first(&a->map)] >= \
                                               PARALLEL_FROM / 32)
    for (int64_t n = 0; n < pieces * heads; n++) {
        lh_block_item item = {
            .block = &block, .head = head_first(&a->map) + n % heads, .t0 = (pieces - 1 - n / heads) * tokens};
        head_range(&a->map, item.head, &item.i0, &item.group);
        item.t1 = lh_min_i64(item.t0 + tokens, a->tokens);
        item.rows = (item.t1 - item.t0) * item.group;
        item_place(&item, memory + omp_get_thread_num() * own);
        way->begin();
        attend_item(&item);
        way->end();
    }
    return LH_OK;
}
