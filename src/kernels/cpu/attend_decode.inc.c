/* Attention of one row a sequence. An item of work is a chunk of CHUNK entries
 * of one KV head: all query heads of its group pass over it together, so every
 * key and value is read once. Chunks are joined in their order. */
#include "kernels/cpu/softmax.h"

enum { CHUNK = 256 };

typedef struct lh_chunk {
    int64_t b, head, i0, group, first, n; /* sequence, KV head, query heads; slots [first, first + n) */
    float *part;                          /* [group][head_dim + 2]: sums of values, highest logit, mass */
} lh_chunk;

/* Logits, [group, CHUNK]. */
static void chunk_logits(const lh_attend_decode_args *a, const lh_chunk *c, float *s)
{
    const lh_ragged *kv = &a->seqs[c->b];
    int64_t d = kv->head_dim, at = (kv->offset[c->head] + c->first) * d;
    float cap = a->logit.softcap, factor = query_factor(&a->logit);
    for (int64_t j = 0; j < c->n; j++) {
        int64_t p = entry_position(kv, c->head, c->first + j), row = a->positions[c->b];
        int seen = p <= row && (a->logit.window <= 0 || p > row - a->logit.window);
        for (int64_t g = 0; g < c->group; g++) {
            const float *q = a->q + c->b * a->q_ld + (c->i0 + g) * d;
            vf sum = vf_zero();
            for (int64_t i = 0; i < d; i += VL)
                sum =
                    vf_fma(vf_load_first(q + i, d - i), vf_load_any_first(kv->k, kv->type, at + j * d + i, d - i), sum);
            s[g * CHUNK + j] = seen ? factor * vf_sum(sum) : -INFINITY;
        }
    }
    for (int64_t g = 0; g < c->group && cap > 0; g++) {
        for (int64_t j = 0; j < c->n; j++) {
            float *x = s + g * CHUNK + j;
            if (*x != -INFINITY) *x = cap * tanhf(*x);
        }
    }
}

static void attend_chunk(const lh_attend_decode_args *a, const lh_chunk *c, float *s)
{
    const lh_ragged *kv = &a->seqs[c->b];
    int64_t d = kv->head_dim, at = (kv->offset[c->head] + c->first) * d;
    chunk_logits(a, c, s);
    for (int64_t g = 0; g < c->group; g++) {
        float *o = c->part + g * (d + 2), *top = o + d, *mass = top + 1;
        *top = -INFINITY;
        *mass = 0.0f;
        soften(s + g * CHUNK, c->n, c->n, top, mass, 0);
        for (int64_t i = 0; i < d; i++) o[i] = 0.0f;
        for (int64_t j = 0; j < c->n; j++) {
            vf weight = vf_set1(s[g * CHUNK + j]);
            for (int64_t i = 0; i < d; i += VL) {
                vf v = vf_load_any_first(kv->v, kv->type, at + j * d + i, d - i);
                vf_store_first(o + i, vf_fma(weight, v, vf_load_first(o + i, d - i)), d - i);
            }
        }
    }
}

/* The query head i of sequence b from the parts of its chunks, which lie one
 * behind the other from `part`. */
static void join_chunks(const lh_attend_decode_args *a, const lh_chunk *c, int64_t chunks, int64_t g)
{
    int64_t d = a->seqs[c->b].head_dim, stride = c->group * (d + 2), i = c->i0 + g;
    const float *part = c->part + g * (d + 2);
    float *o = a->o + c->b * a->o_ld + i * d, top = -INFINITY, mass = 0.0f;
    for (int64_t n = 0; n < chunks; n++) top = fmaxf(top, part[n * stride + d]);
    for (int64_t k = 0; k < d; k++) o[k] = 0.0f;
    for (int64_t n = 0; n < chunks; n++, part += stride) {
        float factor = part[d + 1] > 0 ? expf(part[d] - top) : 0.0f;
        for (int64_t k = 0; k < d; k++) o[k] += factor * part[k];
        mass += factor * part[d + 1];
    }
    for (int64_t k = 0; k < d; k++) o[k] = mass > 0 ? o[k] / mass : 0.0f;
    if (a->lse) a->lse[c->b * a->map.heads + i] = top + logf(mass);
}

static int64_t chunks_of(const lh_attend_decode_args *a, int64_t b, int64_t head)
{
    return (a->seqs[b].len[head] + CHUNK - 1) / CHUNK;
}

/* Fills `chunks` unless it is NULL, and returns how many there are. */
static int64_t list_chunks(const lh_attend_decode_args *a, lh_chunk *chunks, float *parts)
{
    int64_t count = 0;
    for (int64_t b = 0; b < a->batch; b++) {
        for (int64_t h = head_first(&a->map); h < head_end(&a->map); h++) {
            int64_t len = a->seqs[b].len[h];
            for (int64_t first = 0; first < len; first += CHUNK, count++) {
                if (!chunks) continue;
                lh_chunk c = {
                    .b = b, .head = h, .first = first, .n = len - first < CHUNK ? len - first : CHUNK, .part = parts};
                head_range(&a->map, h, &c.i0, &c.group);
                chunks[count] = c;
                parts += c.group * (a->seqs[b].head_dim + 2);
            }
        }
    }
    return count;
}

static void blank_row(const lh_attend_decode_args *a, int64_t b, int64_t i)
{
    int64_t d = a->seqs[b].head_dim;
    memset(a->o + b * a->o_ld + i * d, 0, (size_t)d * sizeof *a->o);
    if (a->lse) a->lse[b * a->map.heads + i] = -INFINITY;
}

static lh_status op_attend_decode(lh_stream *stream, const lh_attend_decode_args *a)
{
    lh_status st = LH_OK;
    int64_t count, d = 0, own = a->map.group * CHUNK;
    char *memory = NULL;
    if (a->batch == 0 || a->map.heads == 0) return LH_OK;
    count = list_chunks(a, NULL, NULL);
    for (int64_t b = 0; b < a->batch; b++) d = a->seqs[b].head_dim > d ? a->seqs[b].head_dim : d;
    int64_t list = (count * (int64_t)sizeof(lh_chunk) + 63) / 64 * 64, parts = count * a->map.group * (d + 2) * 4;
    parts = (parts + 63) / 64 * 64;
    LH_TRY(lh_stream_scratch(stream, &memory, list + parts + omp_get_max_threads() * own * (int64_t)sizeof(float)));
    lh_chunk *chunks = (lh_chunk *)memory;
    list_chunks(a, chunks, (float *)(memory + list));
#pragma omp parallel
    {
        float *s = (float *)(memory + list + parts) + omp_get_thread_num() * own;
#pragma omp for schedule(dynamic)
        for (int64_t n = 0; n < count; n++) attend_chunk(a, &chunks[n], s);
    }
    for (int64_t b = 0, n = 0; b < a->batch; b++) {
        for (int64_t h = head_first(&a->map); h < head_end(&a->map); h++) {
            int64_t i0, group, mine = chunks_of(a, b, h);
            head_range(&a->map, h, &i0, &group);
            for (int64_t g = 0; g < group; g++) {
                if (mine)
                    join_chunks(a, &chunks[n], mine, g);
                else
                    blank_row(a, b, i0 + g);
            }
            n += mine;
        }
    }
done:
    return st;
}
