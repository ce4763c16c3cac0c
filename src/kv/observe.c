/* Attention that columns receive: counted while the rows pass (statistics that go on), or of the rows that were kept.
 * Of a KV head that several ranks hold each counts a share of the columns, and they put them together. */
#include <assert.h>

#include "kv/kv_impl.h"

/* ---- what is counted, and where ---- */

/* Numbers that go with the entries. */
static lh_columns carried(const lh_kv *kv, const lh_ragged *view)
{
    const lh_stat_layout *l = &kv->layout;
    return (lh_columns){.sums = lh_kv_stat(view, l->sums),
                        .squares = lh_kv_stat(view, l->squares),
                        .counts = lh_kv_stat(view, l->counts),
                        .parts = l->parts};
}

/* Arrays of the work space, of rows that are observed for one eviction. */
static lh_columns observed(const lh_kv *kv)
{
    int64_t parts = lh_kv_parts(&kv->shape, &kv->fixed), ld = kv->work.ld;
    lh_slot_floats raw = lh_kv_rows_of(kv->work.at[LH_WORK_RAW], parts, ld);
    int counts = kv->fixed.score.statistic == LH_STAT_COUNT;
    return (lh_columns){.sums = counts ? (lh_slot_floats){0} : raw,
                        .squares = lh_kv_rows_of(kv->work.at[LH_WORK_SQUARES], 1, ld),
                        .counts = counts ? raw : (lh_slot_floats){0},
                        .parts = parts};
}

typedef struct range {
    int64_t first, count;
} range;

/* The columns of a KV head that its i-th sharer counts. */
static range range_of(int64_t cols, int i, int sharers)
{
    int64_t first = cols * i / sharers;
    return (range){.first = first, .count = cols * (i + 1) / sharers - first};
}

/* ---- counting ---- */

static lh_status count(lh_kv *kv, const lh_eviction *e, const lh_row_block *b, lh_column_stats_args *args)
{
    args->rows.logits = b->logits;
    args->rows.positions = b->positions;
    args->rows.until = b->until;
    args->rows.gains = b->gains;
    args->rows.logit = lh_kv_logit(kv, e->layer);
    args->rows.rows = b->rows;
    args->rows.q_ld = b->q_ld;
    args->lse_ld = b->lse_ld;
    return kv->place.ops->column_stats(kv->place.stream, args);
}

static lh_status count_all(lh_kv *kv, const lh_eviction *e, const lh_row_block *b, const lh_columns *to)
{
    const lh_heads *h = &kv->shape.heads;
    lh_column_stats_args args = {
        .sums = to->sums,
        .squares = to->squares,
        .counts = to->counts,
        .parts = to->parts,
        .lse = b->lse,
        .own = b->own,
        .cols = e->cols,
        .rows = {.q = b->q, .kv = &e->pool->view, .map = {.heads = h->kv_count * h->group, .group = h->group}}};
    return count(kv, e, b, &args);
}

/* Of every KV head the columns that are this rank's share. `cols`: all of them, of the finished layer. */
static lh_status count_shares(lh_kv *kv, const lh_eviction *e, const lh_row_block *b, const lh_columns *to)
{
    const lh_heads *h = &kv->shape.heads;
    for (int64_t g = 0; g < h->kv_count; g++) {
        int first, sharers;
        lh_heads_sharers(h, h->kv_first + g, &first, &sharers);
        range mine = range_of(e->cols, h->rank - first, sharers);
        lh_ragged view = lh_kv_one_head(&e->pool->view, g);
        lh_column_stats_args args = {.sums = lh_kv_from_head(to->sums, g),
                                     .squares = lh_kv_from_head(to->squares, g),
                                     .counts = lh_kv_from_head(to->counts, g),
                                     .parts = to->parts,
                                     .lse = b->lse ? b->lse + g * h->group : NULL,
                                     .own = b->lse ? NULL : b->own + g * h->group,
                                     .first = mine.first,
                                     .cols = mine.count,
                                     .rows = {.q = b->q + g * h->group * kv->shape.head_dim,
                                              .kv = &view,
                                              .map = {.heads = h->group, .group = h->group}}};
        lh_row_block own = *b;
        if (own.logits.at) own.logits.at += g * h->group * own.logits.ld;
        LH_TRY(count(kv, e, &own, &args));
    }
    return LH_OK;
}

/* ---- columns of shared KV heads go to all ranks that hold them ---- */

/* Floats of one KV head that lie in a row: `rows` rows of `per_slot` floats a slot, row_ld apart. */
typedef struct stretch {
    float *at; /* of slot 0, in the first row */
    int64_t rows, per_slot, row_ld;
} stretch;

static stretch carried_stretch(const lh_pool *pool, int64_t g)
{
    int64_t n = pool->view.stat_count;
    return (stretch){.at = pool->view.stats + pool->offset[g] * n, .rows = 1, .per_slot = n};
}

static stretch observed_stretch(const lh_kv *kv, lh_work_part part, int64_t parts, int64_t g)
{
    return (stretch){.at = (float *)kv->work.at[part] + g * parts * kv->work.ld,
                     .rows = parts,
                     .per_slot = 1,
                     .row_ld = kv->work.ld};
}

/* All that goes with the columns of a KV head of this rank. Returns how many. */
static int stretches(const lh_kv *kv, const lh_eviction *e, int64_t g, stretch out[2])
{
    if (kv->fixed.score.running) {
        out[0] = carried_stretch(e->pool, g);
        return 1;
    }
    out[0] = observed_stretch(kv, LH_WORK_RAW, lh_kv_parts(&kv->shape, &kv->fixed), g);
    if (kv->work.at[LH_WORK_SQUARES]) out[1] = observed_stretch(kv, LH_WORK_SQUARES, 1, g);
    return kv->work.at[LH_WORK_SQUARES] ? 2 : 1;
}

/* Columns of one KV head of this rank among all pieces. */
typedef enum way { INTO_PIECES, OUT_OF_PIECES } way;
typedef struct piece {
    int64_t g;
    range columns;
    float *at;
} piece;

static lh_status move_piece(lh_kv *kv, const lh_eviction *e, const piece *p, way to)
{
    stretch s[2];
    float *at = p->at;
    int n = stretches(kv, e, p->g, s);
    for (int i = 0; i < n; i++)
        for (int64_t r = 0; r < s[i].rows; r++) {
            float *own = s[i].at + r * s[i].row_ld + p->columns.first * s[i].per_slot;
            int64_t floats = p->columns.count * s[i].per_slot;
            LH_TRY(lh_stream_copy(kv->place.stream, to == INTO_PIECES ? at : own, to == INTO_PIECES ? own : at,
                                  floats * (int64_t)sizeof(float), LH_COPY_ON_DEVICE));
            at += floats;
        }
    return LH_OK;
}

static int64_t floats_a_column(const lh_kv *kv)
{
    if (kv->fixed.score.running) return kv->layout.count;
    return lh_kv_parts(&kv->shape, &kv->fixed) + (kv->work.at[LH_WORK_SQUARES] != NULL);
}

/* The pieces that rank r counted: out of this rank's columns (r is this rank), or into those that lie here too. */
static lh_status move_pieces(lh_kv *kv, const lh_eviction *e, int r)
{
    const lh_heads *h = &kv->shape.heads;
    lh_heads other = lh_heads_at(h, r);
    piece p = {.at = (float *)kv->work.at[LH_WORK_PIECES] + kv->traffic.at[r] / (int64_t)sizeof(float)};
    for (int64_t g = other.kv_first; g < other.kv_first + other.kv_count; g++) {
        int first, sharers;
        lh_heads_sharers(h, g, &first, &sharers);
        if (sharers == 1) continue;
        p.g = g - h->kv_first;
        p.columns = range_of(e->cols, r - first, sharers);
        if (p.g >= 0 && p.g < h->kv_count) LH_TRY(move_piece(kv, e, &p, r == h->rank ? INTO_PIECES : OUT_OF_PIECES));
        p.at += p.columns.count * floats_a_column(kv);
    }
    return LH_OK;
}

/* Collective. */
static lh_status exchange_columns(lh_kv *kv, const lh_eviction *e, lh_status *local)
{
    const lh_heads *h = &kv->shape.heads;
    int64_t end = 0;
    for (int r = 0; r < h->ranks; r++) {
        lh_heads other = lh_heads_at(h, r);
        kv->traffic.at[r] = end;
        for (int64_t g = other.kv_first; g < other.kv_first + other.kv_count; g++) {
            int first, sharers;
            lh_heads_sharers(h, g, &first, &sharers);
            if (sharers > 1)
                end += range_of(e->cols, r - first, sharers).count * floats_a_column(kv) * (int64_t)sizeof(float);
        }
        kv->traffic.bytes[r] = end - kv->traffic.at[r];
    }
    assert(end <= kv->work.bytes[LH_WORK_PIECES]);
    if (*local == LH_OK) *local = move_pieces(kv, e, h->rank);
    if (*local == LH_OK) *local = lh_comm_flush(kv->place.device_comm);
    char *all = kv->work.at[LH_WORK_PIECES];
    LH_TRY(lh_comm_allgatherv(kv->place.device_comm, all + kv->traffic.at[h->rank], all, kv->traffic.bytes,
                              kv->traffic.at));
    for (int r = 0; r < h->ranks && *local == LH_OK; r++)
        if (r != h->rank) *local = move_pieces(kv, e, r);
    return LH_OK;
}

lh_status lh_kv_join_stats(lh_kv *kv, const lh_eviction *e, lh_status *local)
{
    return kv->shape.heads.split ? exchange_columns(kv, e, local) : LH_OK;
}

/* ---- rows that pass ---- */

/* Where groups are split, a slice of this rank's rows goes into its block of the row space. */
static lh_status take_slice(lh_kv *kv, const lh_kv_rows *rows, lh_row_block *b)
{
    int64_t width = kv->shape.heads.q_count * kv->shape.head_dim;
    float *q = lh_kv_own_q(kv, b->rows), *lse = lh_kv_own_lse(kv, b->rows);
    for (int64_t r = 0; r < b->rows; r++)
        LH_TRY(lh_stream_copy(kv->place.stream, q + r * width, b->q + r * rows->q_ld, width * (int64_t)sizeof *q,
                              LH_COPY_ON_DEVICE));
    LH_TRY(
        lh_stream_copy(kv->place.stream, lse, b->lse, b->rows * b->lse_ld * (int64_t)sizeof *lse, LH_COPY_ON_DEVICE));
    b->q = q;
    b->lse = lse;
    b->q_ld = width;
    return LH_OK;
}

static int64_t longest(const lh_pool *pool)
{
    int64_t most = 0;
    for (int64_t g = 0; g < pool->view.heads; g++) most = pool->len[g] > most ? pool->len[g] : most;
    return most;
}

/* Slots of the head that has most: what is counted while decoding is the same whatever the lengths are by then. */
static int64_t widest(const lh_pool *pool)
{
    int64_t most = 0;
    for (int64_t g = 0; g < pool->view.heads; g++) most = lh_max_i64(most, pool->cap[g]);
    return most;
}

/* Collective where groups are split. The rows of one slice are added to what their columns carry. */
static lh_status count_slice(lh_kv *kv, const lh_eviction *e, const lh_row_block *own, lh_status *local)
{
    lh_row_block b = *own;
    lh_columns to = carried(kv, &e->pool->view);
    int in_prefill = kv->clock.seen == 0;
    if (*local == LH_OK && in_prefill) *local = lh_kv_check_rows(kv, e->layer, own);
    LH_TRY(lh_kv_join_rows(kv, e, own, local, &b));
    if (*local != LH_OK) return LH_OK;
    *local = kv->shape.heads.split && in_prefill && !kv->fixed.block ? count_shares(kv, e, &b, &to)
                                                                     : count_all(kv, e, &b, &to);
    return LH_OK;
}

int64_t lh_kv_first_counted(const lh_kv *kv)
{
    return kv->fixed.block ? 0 : kv->prompt.tokens - lh_policy_rows(&kv->fixed, kv->prompt.tokens);
}

lh_status lh_kv_count_rows(lh_kv *kv, int64_t layer, const lh_kv_rows *rows)
{
    const lh_heads *h = &kv->shape.heads;
    int in_prefill = kv->clock.seen == 0;
    lh_pool *pool = in_prefill ? lh_kv_prefill_pool(kv, layer) : &kv->layers[layer].pool;
    int64_t from = in_prefill ? lh_kv_first_counted(kv) : 0;
    int64_t skip = from > rows->first ? from - rows->first : 0;
    if (!in_prefill && lh_kv_turns(&kv->fixed)) pool = &kv->turn.pool; /* rows look at turned keys */
    lh_eviction e = {.layer = layer, .pool = pool, .seen = rows->first + rows->tokens, .cols = kv->prompt.tokens};
    if (kv->fixed.block && in_prefill) {
        if (kv->counting == LH_OK) kv->counting = lh_pool_pull_len(pool, kv->place.stream);
        e.cols = longest(pool);
    }
    if (!in_prefill) e.cols = widest(pool);
    if (kv->counting == LH_OK && !in_prefill) kv->counting = lh_kv_save_stats(kv, layer);
    for (int64_t at = skip; at < rows->tokens; at += LH_ROWS_AT_ONCE) {
        lh_row_block b = {.q = rows->q + at * rows->q_ld,
                          .lse = rows->lse + at * h->q_count,
                          .logits = rows->logits,
                          .positions = rows->positions + at,
                          .rows = rows->tokens - at < LH_ROWS_AT_ONCE ? rows->tokens - at : LH_ROWS_AT_ONCE,
                          .first = rows->first + at,
                          .q_ld = rows->q_ld,
                          .lse_ld = h->q_count};
        if (h->split && kv->counting == LH_OK) kv->counting = take_slice(kv, rows, &b);
        LH_TRY(count_slice(kv, &e, &b, &kv->counting));
    }
    return LH_OK;
}

/* ---- the newest row ---- */

int lh_kv_counts_latest(const lh_kv_shape *shape, const lh_policy_numbers *fixed, int64_t layer)
{
    return lh_kv_latest_bytes(shape, fixed, 1) > 0 && !lh_kv_slides(shape, layer);
}

/* Gains, later rows and deviations are left to the ring. */
int64_t lh_kv_latest_bytes(const lh_kv_shape *shape, const lh_policy_numbers *fixed, int64_t ld)
{
    int counts = fixed->every > 0 && lh_kv_observes_again(fixed) && !fixed->score.running && fixed->rows == 1 &&
                 !shape->heads.split;
    if (fixed->score.gain || fixed->score.non_causal || fixed->score.statistic == LH_STAT_COUNT ||
        fixed->select.kind == LH_SELECT_STD_SCOPE)
        counts = 0;
    if (!counts) return 0;
    return shape->heads.kv_count * lh_kv_parts(shape, fixed) * ld * (int64_t)sizeof(float);
}

void lh_kv_free_latest(lh_kv *kv, lh_latest *latest)
{
    lh_device_free(lh_kv_device(kv), latest->sums);
    *latest = (lh_latest){.row = -1};
}

static lh_status latest_room(lh_kv *kv, lh_latest *latest, int64_t ld)
{
    if (latest->ld >= ld) return LH_OK;
    kv->moves++;
    lh_kv_free_latest(kv, latest);
    LH_TRY(
        lh_device_alloc(lh_kv_device(kv), &latest->sums, lh_kv_latest_bytes(&kv->shape, &kv->fixed, ld), LH_MEM_WORK));
    latest->ld = ld;
    return LH_OK;
}

lh_status lh_kv_count_latest(lh_kv *kv, int64_t layer, const lh_kv_rows *rows)
{
    lh_latest *latest = &kv->layers[layer].latest;
    lh_pool *pool = &kv->layers[layer].pool;
    lh_eviction e = {.layer = layer, .pool = pool, .seen = rows->first + 1, .cols = widest(pool)};
    lh_row_block b = {.q = rows->q,
                      .lse = rows->lse,
                      .logits = rows->logits,
                      .positions = rows->positions,
                      .rows = 1,
                      .first = rows->first,
                      .q_ld = rows->q_ld,
                      .lse_ld = kv->shape.heads.q_count};
    int64_t parts = lh_kv_parts(&kv->shape, &kv->fixed);
    LH_TRY(latest_room(kv, latest, kv->work.ld));
    LH_TRY(lh_stream_zero(kv->place.stream, latest->sums, lh_kv_latest_bytes(&kv->shape, &kv->fixed, latest->ld)));
    lh_columns to = {.sums = lh_kv_rows_of(latest->sums, parts, latest->ld), .parts = parts};
    LH_TRY(count_all(kv, &e, &b, &to));
    latest->row = rows->first;
    return LH_OK;
}

int lh_kv_is_latest(const lh_kv *kv, const lh_eviction *e)
{
    const lh_latest *latest = &kv->layers[e->layer].latest;
    return latest->sums && latest->row == e->seen - 1;
}

lh_slot_floats lh_kv_observed_sums(const lh_kv *kv, const lh_eviction *e)
{
    const lh_latest *latest = &kv->layers[e->layer].latest;
    int64_t parts = lh_kv_parts(&kv->shape, &kv->fixed);
    if (e->again && lh_kv_is_latest(kv, e)) return lh_kv_rows_of(latest->sums, parts, latest->ld);
    return lh_kv_rows_of(kv->work.at[LH_WORK_RAW], parts, kv->work.ld);
}

/* ---- rows that were kept ---- */

static lh_status clear(lh_kv *kv)
{
    static const lh_work_part parts[] = {LH_WORK_RAW, LH_WORK_SQUARES};
    for (int i = 0; i < 2; i++)
        if (kv->work.at[parts[i]])
            LH_TRY(lh_stream_zero(kv->place.stream, kv->work.at[parts[i]], kv->work.bytes[parts[i]]));
    return LH_OK;
}

lh_status lh_kv_observe(lh_kv *kv, const lh_eviction *e, lh_status *local)
{
    const lh_heads *h = &kv->shape.heads;
    lh_columns to = observed(kv);
    int64_t rows = lh_policy_rows(&kv->fixed, e->seen);
    lh_row_block own = {.q = lh_kv_own_q(kv, rows),
                        .lse = e->again ? NULL : lh_kv_own_lse(kv, rows), /* again: of the entries that are held now */
                        .positions = kv->rows.at[LH_ROWS_AT],
                        .rows = rows,
                        .first = e->seen - rows,
                        .head = kv->fixed.first_rows,
                        .q_ld = h->q_count * kv->shape.head_dim,
                        .lse_ld = h->q_count};
    lh_row_block b = own;
    if (e->again && lh_kv_is_latest(kv, e)) return LH_OK;
    if (*local == LH_OK && e->again) *local = lh_kv_ring_unroll(kv, e);
    if (*local == LH_OK && !e->again) *local = lh_kv_check_rows(kv, e->layer, &own);
    LH_TRY(lh_kv_join_rows(kv, e, &own, local, &b));
    if (*local == LH_OK) *local = clear(kv);
    if (*local == LH_OK) *local = h->split ? count_shares(kv, e, &b, &to) : count_all(kv, e, &b, &to);
    if (h->split) LH_TRY(exchange_columns(kv, e, local));
    return LH_OK;
}
