#include "lab/learn/query_moments.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "exec/scratch.h"

enum { ROWS_AT_ONCE = 512 };

/* Sums of a layer on this rank. */
static int64_t count_of(const lh_query_moments *m)
{
    return 2 * m->heads.q_count * m->head_dim;
}

lh_status lh_query_moments_open(lh_query_moments *out, const lh_exec *exec, const lh_heads *heads, int64_t layers,
                                int64_t head_dim)
{
    *out = (lh_query_moments){.exec = exec, .heads = *heads, .layers = layers, .head_dim = head_dim};
    const int64_t bytes = layers * count_of(out) * (int64_t)sizeof *out->sums;
    LH_TRY(lh_device_alloc(lh_exec_device(exec), &out->sums, bytes, LH_MEM_WORK));
    lh_exec_zero(exec, out->sums, bytes);
    return lh_exec_take(exec);
}

void lh_query_moments_close(lh_query_moments *m)
{
    if (m->exec) lh_device_free(lh_exec_device(m->exec), m->sums);
    *m = (lh_query_moments){0};
}

void lh_query_moments_add(lh_query_moments *m, const lh_evict_job *job, const lh_query_rows *rows, int64_t skipped)
{
    const lh_exec *x = m->exec;
    const lh_rotation *r = job->layer.rotation;
    const int64_t heads = m->heads.q_count, width = heads * m->head_dim, mark = lh_scratch_mark(x),
                  first = lh_max_i64(skipped - rows->first, 0);
    double *sums = m->sums + job->layer.index * count_of(m);
    float *q = lh_scratch_alloc(x, ROWS_AT_ONCE * width * (int64_t)sizeof *q),
          *inverse = lh_scratch_alloc(x, lh_max_i64(r->rotary / 2, 1) * (int64_t)sizeof *inverse);
    if (r->rotary) LH_LATCH(x, lh_rotation_put_inverse(r, x, inverse));
    for (int64_t at = first; at < rows->tokens; at += ROWS_AT_ONCE) {
        const int64_t n = lh_min_i64(rows->tokens - at, ROWS_AT_ONCE);
        LH_RUN(x, convert, .dst = q, .src = rows->q + at * rows->q_ld, .dst_type = LH_F32, .src_type = LH_F32,
               .rows = n, .cols = width, .dst_ld = width, .src_ld = rows->q_ld);
        if (r->rotary)
            LH_RUN(x, rope, .x = q, .positions = rows->positions + at, .inv_freq = inverse, .tokens = n, .heads = heads,
                   .dim = m->head_dim, .rotary = r->rotary, .ld = width, .scale = 1.0f / r->scale,
                   .scaling = lh_rotation_unscaled(r));
        /* every channel by itself */
        LH_RUN(x, row_moments, .sums = sums, .products = sums + width, .x = q, .type = LH_F32, .rows = n,
               .heads = width, .dim = 1, .x_ld = width);
    }
    if (job->layer.index == 0) m->rows += lh_max_i64(rows->tokens - first, 0);
    lh_scratch_release(x, mark);
}

/* Copies the sums of a rank's query heads, [2 layers, q_count, head_dim], into the sums of all query heads,
 * [2 layers, heads, head_dim]. */
static void place(const lh_query_moments *m, const lh_heads *of, const double *from, double *all)
{
    const int64_t own = of->q_count * m->head_dim, whole = of->heads * m->head_dim;
    for (int64_t i = 0; i < 2 * m->layers; i++)
        memcpy(all + i * whole + of->q_first * m->head_dim, from + i * own, (size_t)own * sizeof *all);
}

/* Collective. part: room for the sums of any rank. */
static lh_status gather(const lh_query_moments *m, double *part, double *all)
{
    for (int rank = 0; rank < m->heads.ranks; rank++) {
        const lh_heads of = lh_heads_at(&m->heads, rank);
        const int64_t bytes = 2 * m->layers * of.q_count * m->head_dim * (int64_t)sizeof *part;
        if (rank == m->heads.rank) lh_exec_fetch(m->exec, part, m->sums, bytes);
        LH_TRY(lh_comm_agree_untimed(m->exec->comm, lh_exec_take(m->exec)));
        LH_TRY(lh_comm_bcast(m->exec->comm, rank, part, bytes));
        place(m, &of, part, all);
    }
    return LH_OK;
}

/* all: sums of a layer. Each KV head: [2, head_dim] with step. */
static void to_numbers(const lh_query_moments *m, const double *all, float *to, int64_t step)
{
    const int64_t dim = m->head_dim, group = m->heads.group, whole = m->heads.heads * dim;
    const double rows = (double)lh_max_i64(m->rows * group, 1);
    for (int64_t g = 0; g < m->heads.kv_heads; g++)
        for (int64_t c = 0; c < dim; c++) {
            double sum = 0, squares = 0;
            for (int64_t i = g * group; i < (g + 1) * group; i++) {
                sum += all[i * dim + c];
                squares += all[whole + i * dim + c];
            }
            const double mean = sum / rows;
            to[g * step + c] = (float)mean;
            to[g * step + dim + c] = (float)sqrt(fmax(squares / rows - mean * mean, 0));
        }
}

lh_status lh_query_moments_share(const lh_query_moments *m, float *to, int64_t step)
{
    const int64_t layer = 2 * m->heads.heads * m->head_dim;
    double *all = NULL;
    lh_status st = lh_calloc(&all, 2 * m->layers * layer, sizeof *all);
    LH_TRY_DONE(lh_comm_agree_untimed(m->exec->comm, st));
    LH_TRY_DONE(gather(m, all + m->layers * layer, all));
    for (int64_t l = 0; l < m->layers; l++) to_numbers(m, all + l * layer, to + l * m->heads.kv_heads * step, step);
done:
    lh_free(all);
    return st;
}
