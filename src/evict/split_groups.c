/* KV heads that lie on several ranks, which there are where ranks outnumber KV heads: the only file that knows of them.
 * Their query rows and log-sum-exps are gathered, each rank counts a share of the columns for all query heads of the
 * group (the square and the count of the group's mean weight cannot be joined from partial sums), and the ranks
 * exchange the counts. */
#include "evict/evict_impl.h"

void lh_exchange_heads(lh_evictor *ev, const void *own, void *all, int64_t head_bytes)
{
    lh_gather_query_heads(&ev->gather, &ev->shape.heads, head_bytes);
    lh_exec_allgatherv(&ev->exec, own, all, ev->gather.bytes, ev->gather.at);
}

/* ---- rows ---- */

/* Collective. Rows of `head_floats` floats a query head of this rank -> of all query heads that share a KV head with
 * one of this rank: [rows, kv_count * group * head_floats], on the scratch stack. */
static float *gather_rows(lh_evictor *ev, const float *own, int64_t rows, int64_t head_floats)
{
    const lh_heads *h = &ev->shape.heads;
    int64_t first = h->kv_first * h->group, end = first + h->kv_count * h->group, width = (end - first) * head_floats;
    float *grouped = lh_scratch_floats(ev, rows * width);
    const int64_t mark = lh_scratch_mark(&ev->exec);
    float *all = lh_scratch_floats(ev, rows * h->heads * head_floats);
    lh_exchange_heads(ev, own, all, rows * head_floats * (int64_t)sizeof *all);
    for (int r = 0; r < h->ranks; r++) {
        lh_heads other = lh_heads_at(h, r);
        int64_t a = lh_max_i64(other.q_first, first), b = lh_min_i64(other.q_first + other.q_count, end);
        const float *src = all + (rows * other.q_first + a - other.q_first) * head_floats;
        if (a < b)
            LH_RUN(&ev->exec, convert, .dst = grouped + (a - first) * head_floats, .src = src, .dst_type = LH_F32,
                   .src_type = LH_F32, .rows = rows, .cols = (b - a) * head_floats, .dst_ld = width,
                   .src_ld = other.q_count * head_floats);
    }
    lh_scratch_release(&ev->exec, mark);
    return grouped;
}

void lh_gather_groups(lh_evictor *ev, const lh_query_rows *own, lh_row_block *out)
{
    const lh_heads *h = &ev->shape.heads;
    out->lse_ld = h->kv_count * h->group;
    out->rows.q = gather_rows(ev, own->q, own->tokens, ev->shape.head_dim);
    out->rows.q_ld = out->lse_ld * ev->shape.head_dim;
    if (own->lse) out->rows.lse = gather_rows(ev, own->lse, own->tokens, 1);
}

float *lh_copy_rows(lh_evictor *ev, lh_query_rows *rows)
{
    int64_t width = ev->shape.heads.q_count * ev->shape.head_dim;
    const int64_t lse_count = rows->tokens * ev->shape.heads.q_count;
    float *q = lh_scratch_floats(ev, rows->tokens * width);
    LH_RUN(&ev->exec, convert, .dst = q, .src = rows->q, .dst_type = LH_F32, .src_type = LH_F32, .rows = rows->tokens,
           .cols = width, .dst_ld = width, .src_ld = rows->q_ld);
    if (rows->lse) {
        float *lse = lh_scratch_floats(ev, lse_count);
        lh_exec_copy(&ev->exec, lse, rows->lse, lse_count * (int64_t)sizeof *lse, LH_COPY_ON_DEVICE);
        rows->lse = lse;
    }
    rows->q = q;
    rows->q_ld = width;
    return q;
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

/* Numbers of a KV head's columns: `rows` rows of `per_column` floats a column, with leading dimension row_ld. */
typedef struct stretch {
    float *at; /* of column 0, in the first row */
    int64_t rows, per_column, row_ld;
} stretch;

/* The exchanged columns: scores [kv_count x parts, ld] and squares [kv_count, ld], NULL: none;
 * scores NULL: the statistics of the entries. */
typedef struct exchange {
    lh_evictor *ev;
    const lh_evict_job *job;
    float *scores, *squares;
    char *all; /* the exchanged columns of all ranks */
} exchange;

/* The stretches of a KV head of this rank; returns their number. */
static int stretches(const exchange *e, int64_t g, stretch out[2])
{
    const lh_evictor *ev = e->ev;
    int64_t parts = lh_score_parts(&ev->policy, &ev->shape.heads), n = e->job->entries->stat_count;
    if (!e->scores) {
        out[0] = (stretch){.at = e->job->entries->stats + e->job->offset[g] * n, .rows = 1, .per_column = n};
        return 1;
    }
    out[0] = (stretch){.at = e->scores + g * parts * ev->ld, .rows = parts, .per_column = 1, .row_ld = ev->ld};
    if (e->squares) out[1] = (stretch){.at = e->squares + g * ev->ld, .rows = 1, .per_column = 1, .row_ld = ev->ld};
    return e->squares ? 2 : 1;
}

static int64_t floats_a_column(const exchange *e)
{
    if (!e->scores) return e->ev->stats.count;
    return lh_score_parts(&e->ev->policy, &e->ev->shape.heads) + (e->squares != NULL);
}

/* Columns of a KV head of this rank among all exchanged columns. */
typedef enum way { PACK, UNPACK } way;
typedef struct piece {
    int64_t g;
    range columns;
    float *at;
} piece;

static void move_piece(const exchange *e, const piece *p, way to)
{
    stretch s[2];
    float *at = p->at;
    int n = stretches(e, p->g, s);
    for (int i = 0; i < n; i++)
        for (int64_t r = 0; r < s[i].rows; r++) {
            float *own = s[i].at + r * s[i].row_ld + p->columns.first * s[i].per_column;
            int64_t floats = p->columns.count * s[i].per_column;
            lh_exec_copy(&e->ev->exec, to == PACK ? at : own, to == PACK ? own : at, floats * (int64_t)sizeof(float),
                         LH_COPY_ON_DEVICE);
            at += floats;
        }
}

/* The pieces that rank r counted: out of this rank's columns (r is this rank), or into those that lie here too. */
static void move_pieces(const exchange *e, int r)
{
    const lh_heads *h = &e->ev->shape.heads;
    lh_heads other = lh_heads_at(h, r);
    piece p = {.at = (float *)(e->all + e->ev->gather.at[r])};
    for (int64_t g = other.kv_first; g < other.kv_first + other.kv_count; g++) {
        int first, sharers;
        lh_heads_sharers(h, g, &first, &sharers);
        if (sharers == 1) continue;
        p.g = g - h->kv_first;
        p.columns = range_of(e->job->cols, r - first, sharers);
        if (p.g >= 0 && p.g < h->kv_count) move_piece(e, &p, r == h->rank ? PACK : UNPACK);
        p.at += p.columns.count * floats_a_column(e);
    }
}

void lh_exchange_columns(lh_evictor *ev, const lh_evict_job *job, float *scores, float *squares)
{
    const lh_heads *h = &ev->shape.heads;
    const int64_t mark = lh_scratch_mark(&ev->exec);
    exchange e = {.ev = ev, .job = job, .scores = scores, .squares = squares};
    int64_t end = 0, column = floats_a_column(&e) * (int64_t)sizeof(float);
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
    e.all = lh_scratch_alloc(&ev->exec, end);
    move_pieces(&e, h->rank);
    lh_exec_allgatherv(&ev->exec, e.all + ev->gather.at[h->rank], e.all, ev->gather.bytes, ev->gather.at);
    for (int r = 0; r < h->ranks; r++)
        if (r != h->rank) move_pieces(&e, r);
    lh_scratch_release(&ev->exec, mark);
}
