/* Reference queries that are drawn and not kept ('--refit'): every channel of a KV head's queries, before the rotation,
 * is taken for normally distributed, with the mean and the deviation that 'longhaul learn' has found on texts. Nothing
 * of a sequence is stored for them, and no rank asks another. Drawn queries stand at the positions after the tokens
 * seen; they depend on the layer, the KV head and the number of the eviction alone. */
#include "base/rng.h"
#include "evict/evict_impl.h"

int64_t lh_learnt_numbers(int64_t head_dim)
{
    return lh_feature_count(head_dim) + 2 * head_dim + 1;
}

/* Queries of one query head, [LH_DRAWN_REFERENCES, dim] with ld. */
typedef struct head_queries {
    float *q;
    int64_t ld;
    const float *means; /* [2, dim]: means, then standard deviations */
    uint64_t stream;
    int64_t first; /* of the stream's normals */
} head_queries;

static void draw_head(const head_queries *h, int64_t dim, float *normals)
{
    lh_normals(normals, 0, h->stream, h->first, LH_DRAWN_REFERENCES * dim);
    for (int64_t r = 0; r < LH_DRAWN_REFERENCES; r++)
        for (int64_t c = 0; c < dim; c++) h->q[r * h->ld + c] = h->means[c] + h->means[dim + c] * normals[r * dim + c];
}

/* Of all query heads of this rank's KV heads. learnt: [kv_count, lh_learnt_numbers]. normals: room for a head's. */
static void draw(const lh_evictor *ev, const lh_evict_job *job, const float *learnt, float *q, float *normals)
{
    const lh_heads *h = &ev->shape.heads;
    const int64_t dim = ev->shape.head_dim, numbers = lh_learnt_numbers(dim);
    for (int64_t i = 0; i < h->kv_count * h->group; i++) {
        const int64_t own = i / h->group;
        const uint64_t head = (uint64_t)(job->layer.index * h->kv_heads + h->kv_first + own);
        draw_head(&(head_queries){.q = q + i * dim,
                                  .ld = h->kv_count * h->group * dim,
                                  .means = learnt + own * numbers + lh_feature_count(dim),
                                  .stream = head << 32 | (uint64_t)job->number,
                                  .first = i % h->group * LH_DRAWN_REFERENCES * dim},
                  dim, normals);
    }
}

static lh_status put_draws(lh_evictor *ev, const lh_evict_job *job, float *to)
{
    lh_status st = LH_OK;
    const lh_heads *h = &ev->shape.heads;
    const int64_t dim = ev->shape.head_dim, learnt = h->kv_count * lh_learnt_numbers(dim),
                  drawn = LH_DRAWN_REFERENCES * h->kv_count * h->group * dim;
    float *numbers = NULL, *q, *normals;
    LH_TRY_DONE(lh_calloc(&numbers, learnt + drawn + LH_DRAWN_REFERENCES * dim, sizeof *numbers));
    q = numbers + learnt;
    normals = q + drawn;
    lh_exec_fetch(&ev->exec, numbers, job->layer.score_weights, learnt * (int64_t)sizeof *numbers);
    draw(ev, job, numbers, q, normals);
    lh_exec_put(&ev->exec, to, q, drawn * (int64_t)sizeof *q);
done:
    lh_free(numbers);
    return st;
}

static int64_t position_of(const lh_policy_numbers *fixed, int64_t seen, int64_t r)
{
    (void)fixed;
    return lh_policy_row_after(seen, LH_DRAWN_REFERENCES, r);
}

lh_row_block lh_drawn_references(lh_evictor *ev, const lh_evict_job *job)
{
    const lh_exec *x = &ev->exec;
    const lh_rotation *r = job->layer.rotation;
    const int64_t heads = ev->shape.heads.kv_count * ev->shape.heads.group, dim = ev->shape.head_dim,
                  rows = LH_DRAWN_REFERENCES;
    float *q = lh_scratch_floats(ev, rows * heads * dim), *lse = lh_scratch_floats(ev, rows * heads);
    lh_row_block b = {.rows = {.q = q,
                               .positions = lh_put_row_positions(ev, position_of, job->seen, rows),
                               .tokens = rows,
                               .q_ld = heads * dim},
                      .lse_ld = heads};
    LH_LATCH(x, put_draws(ev, job, q));
    if (r->rotary)
        LH_RUN(x, rope, .x = q, .positions = b.rows.positions, .inv_freq = r->inv_freq, .tokens = rows, .heads = heads,
               .dim = dim, .rotary = r->rotary, .ld = heads * dim, .scale = r->scale, .scaling = r->queries);
    lh_find_normalisers(ev, job, &b, lse);
    b.rows.lse = lse;
    return b;
}
