/* KV heads that lie on several ranks, which there are where ranks outnumber KV heads: the only file that knows of them.
 * Their query rows and log-sum-exps are gathered, each rank counts a share of the columns for all query heads of the
 * group (the square and the count of the group's mean weight cannot be joined from partial sums), and the ranks
 * exchange what they counted. */
#include <assert.h>

#include "evict/evict_impl.h"

void lh_exchange_heads(lh_evictor *ev, void *blocks, int64_t head_bytes)
{
    const lh_heads *h = &ev->shape.heads;
    char *all = blocks;
    lh_gather_query_heads(&ev->gather, h, head_bytes);
    lh_exec_allgatherv(&ev->exec, all + ev->gather.at[h->rank], all, ev->gather.bytes, ev->gather.at);
}

/* ---- rows ---- */

/* From the blocks of all ranks those query heads that share a KV head with one of this rank: to [rows, kv_count * group
 * * head_floats]. */
static void pick(lh_evictor *ev, lh_space_part from, lh_space_part to, int64_t rows, int64_t head_floats)
{
    const lh_heads *h = &ev->shape.heads;
    int64_t first = h->kv_first * h->group, end = first + h->kv_count * h->group, width = (end - first) * head_floats;
    for (int r = 0; r < h->ranks; r++) {
        lh_heads other = lh_heads_at(h, r);
        int64_t a = lh_max_i64(other.q_first, first), b = lh_min_i64(other.q_first + other.q_count, end);
        const float *src = (float *)ev->at[from] + (rows * other.q_first + a - other.q_first) * head_floats;
        float *dst = (float *)ev->at[to] + (a - first) * head_floats;
        if (a < b)
            LH_RUN(&ev->exec, convert, .dst = dst, .src = src, .dst_type = LH_F32, .src_type = LH_F32, .rows = rows,
                   .cols = (b - a) * head_floats, .dst_ld = width, .src_ld = other.q_count * head_floats);
    }
}

void lh_gather_groups(lh_evictor *ev, const lh_query_rows *own, lh_row_block *out)
{
    const lh_heads *h = &ev->shape.heads;
    int64_t dim = ev->shape.head_dim, grouped = h->kv_count * h->group, lse = own->tokens * (int64_t)sizeof(float);
    lh_exchange_heads(ev, ev->at[LH_SPACE_Q], lse * dim);
    if (own->lse) lh_exchange_heads(ev, ev->at[LH_SPACE_LSE], lse);
    pick(ev, LH_SPACE_Q, LH_SPACE_GROUP_Q, own->tokens, dim);
    if (own->lse) pick(ev, LH_SPACE_LSE, LH_SPACE_GROUP_LSE, own->tokens, 1);
    out->rows.q = ev->at[LH_SPACE_GROUP_Q];
    out->rows.q_ld = grouped * dim;
    if (own->lse) out->rows.lse = ev->at[LH_SPACE_GROUP_LSE];
    out->lse_ld = grouped;
}

void lh_take_rows(lh_evictor *ev, lh_query_rows *rows)
{
    int64_t width = ev->shape.heads.q_count * ev->shape.head_dim;
    const int64_t lse_bytes = rows->lse ? rows->tokens * ev->shape.heads.q_count * (int64_t)sizeof(float) : 0;
    float *q = lh_own_q(ev, rows->tokens), *lse = lh_own_lse(ev, rows->tokens);
    LH_RUN(&ev->exec, convert, .dst = q, .src = rows->q, .dst_type = LH_F32, .src_type = LH_F32, .rows = rows->tokens,
           .cols = width, .dst_ld = width, .src_ld = rows->q_ld);
    if (rows->lse) lh_exec_copy(&ev->exec, lse, rows->lse, lse_bytes, LH_COPY_ON_DEVICE);
    rows->q = q;
    rows->lse = rows->lse ? lse : NULL;
    rows->q_ld = width;
}

/* ---- columns ---- */

typedef struct range {
    int64_t first, count;
} range;

/* The columns of a KV head that its i-th sharer counts. */
static range range_of(int64_t cols, int i, int sharers)
{
    int64_t first = cols * i / sharers;
    return (range){.first = first, .count = cols * (i + 1) / sharers - first};
}

/* Of KV head g of this rank. */
static void count_share(lh_evictor *ev, const lh_evict_job *job, const lh_row_block *b, const lh_columns *to, int64_t g)
{
    const lh_heads *h = &ev->shape.heads;
    const int64_t i0 = g * h->group; /* among all query heads of this rank's KV heads */
    int first, sharers;
    lh_heads_sharers(h, h->kv_first + g, &first, &sharers);
    range mine = range_of(job->cols, h->rank - first, sharers);
    lh_ragged view = lh_one_head(job->entries, g);
    lh_row_logits logits = b->rows.logits;
    if (logits.at) logits.at += i0 * logits.ld;
    lh_column_stats_args args = {.sums = lh_slots_from_head(to->sums, g),
                                 .squares = lh_slots_from_head(to->squares, g),
                                 .largest = lh_slots_from_head(to->largest, g),
                                 .counts = lh_slots_from_head(to->counts, g),
                                 .parts = to->parts,
                                 .each_head = to->each_head,
                                 .lse = b->rows.lse ? b->rows.lse + i0 : NULL,
                                 .own = b->rows.lse ? NULL : b->own + i0,
                                 .first = mine.first,
                                 .cols = mine.count,
                                 .rows = {.q = b->rows.q + i0 * ev->shape.head_dim,
                                          .logits = logits,
                                          .kv = &view,
                                          .map = {.heads = h->group, .group = h->group}}};
    lh_run_column_stats(ev, job, b, &args);
}

void lh_count_shares(lh_evictor *ev, const lh_evict_job *job, const lh_row_block *b, const lh_columns *to)
{
    for (int64_t g = 0; g < ev->shape.heads.kv_count; g++) count_share(ev, job, b, to, g);
}

/* Numbers of one KV head's columns: `rows` rows of `per_column` floats a column, row_ld apart. */
typedef struct stretch {
    float *at; /* of column 0, in the first row */
    int64_t rows, per_column, row_ld;
} stretch;

/* All that goes with the columns of a KV head of this rank; returns how many stretches. */
static int stretches(const lh_evictor *ev, const lh_evict_job *job, int64_t g, stretch out[2])
{
    int64_t parts = lh_score_parts(&ev->policy, &ev->shape.heads), n = job->entries->stat_count;
    float *squares = ev->at[LH_SPACE_SQUARES];
    if (ev->policy.score.running) {
        out[0] = (stretch){.at = job->entries->stats + job->offset[g] * n, .rows = 1, .per_column = n};
        return 1;
    }
    out[0] = (stretch){
        .at = (float *)ev->at[LH_SPACE_RAW] + g * parts * ev->ld, .rows = parts, .per_column = 1, .row_ld = ev->ld};
    if (squares) out[1] = (stretch){.at = squares + g * ev->ld, .rows = 1, .per_column = 1, .row_ld = ev->ld};
    return squares ? 2 : 1;
}

static int64_t floats_a_column(const lh_evictor *ev)
{
    if (ev->policy.score.running) return ev->stats.count;
    return lh_score_parts(&ev->policy, &ev->shape.heads) + (ev->at[LH_SPACE_SQUARES] != NULL);
}

/* Columns of one KV head of this rank among all that are exchanged. */
typedef enum way { PACK, UNPACK } way;
typedef struct piece {
    int64_t g;
    range columns;
    float *at;
} piece;

static void move_piece(lh_evictor *ev, const lh_evict_job *job, const piece *p, way to)
{
    stretch s[2];
    float *at = p->at;
    int n = stretches(ev, job, p->g, s);
    for (int i = 0; i < n; i++)
        for (int64_t r = 0; r < s[i].rows; r++) {
            float *own = s[i].at + r * s[i].row_ld + p->columns.first * s[i].per_column;
            int64_t floats = p->columns.count * s[i].per_column;
            lh_exec_copy(&ev->exec, to == PACK ? at : own, to == PACK ? own : at, floats * (int64_t)sizeof(float),
                         LH_COPY_ON_DEVICE);
            at += floats;
        }
}

/* The pieces that rank r counted: out of this rank's columns (r is this rank), or into those that lie here too. */
static void move_pieces(lh_evictor *ev, const lh_evict_job *job, int r)
{
    const lh_heads *h = &ev->shape.heads;
    lh_heads other = lh_heads_at(h, r);
    piece p = {.at = (float *)ev->at[LH_SPACE_COLUMNS] + ev->gather.at[r] / (int64_t)sizeof(float)};
    for (int64_t g = other.kv_first; g < other.kv_first + other.kv_count; g++) {
        int first, sharers;
        lh_heads_sharers(h, g, &first, &sharers);
        if (sharers == 1) continue;
        p.g = g - h->kv_first;
        p.columns = range_of(job->cols, r - first, sharers);
        if (p.g >= 0 && p.g < h->kv_count) move_piece(ev, job, &p, r == h->rank ? PACK : UNPACK);
        p.at += p.columns.count * floats_a_column(ev);
    }
}

int64_t lh_exchanged_bytes(const lh_heads *heads, int64_t floats, int64_t ld)
{
    int64_t shared = 0;
    for (int64_t g = 0; g < heads->kv_heads; g++) {
        int first, sharers;
        lh_heads_sharers(heads, g, &first, &sharers);
        shared += sharers > 1;
    }
    return shared * floats * ld * (int64_t)sizeof(float);
}

void lh_exchange_columns(lh_evictor *ev, const lh_evict_job *job)
{
    const lh_heads *h = &ev->shape.heads;
    int64_t end = 0, column = floats_a_column(ev) * (int64_t)sizeof(float);
    for (int r = 0; r < h->ranks; r++) {
        lh_heads other = lh_heads_at(h, r);
        ev->gather.at[r] = end;
        for (int64_t g = other.kv_first; g < other.kv_first + other.kv_count; g++) {
            int first, sharers;
            lh_heads_sharers(h, g, &first, &sharers);
            if (sharers > 1) end += range_of(job->cols, r - first, sharers).count * column;
        }
        ev->gather.bytes[r] = end - ev->gather.at[r];
    }
    assert(end <= ev->bytes[LH_SPACE_COLUMNS]);
    move_pieces(ev, job, h->rank);
    char *all = ev->at[LH_SPACE_COLUMNS];
    lh_exec_allgatherv(&ev->exec, all + ev->gather.at[h->rank], all, ev->gather.bytes, ev->gather.at);
    for (int r = 0; r < h->ranks; r++)
        if (r != h->rank) move_pieces(ev, job, r);
}
