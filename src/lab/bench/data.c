/* data.c - random data of the cases: weights, caches and rows, in enough copies to exceed the processor's caches. */
#include "base/mem.h"
#include "base/rng.h"
#include "lab/bench/bench.h"

int64_t lh_bench_mark(const lh_bench *b)
{
    return b->held;
}

void lh_bench_drop(lh_bench *b, int64_t mark)
{
    while (b->held > mark) lh_device_free(b->device, b->blocks[--b->held]);
}

static lh_status new_block(lh_bench *b, void *out, int64_t bytes)
{
    if (b->held == b->cap) {
        LH_TRY(lh_realloc(&b->blocks, 2 * b->cap + 16, sizeof *b->blocks));
        b->cap = 2 * b->cap + 16;
    }
    LH_TRY(lh_device_alloc(b->device, &b->blocks[b->held], bytes, LH_MEM_WORK));
    memcpy(out, &b->blocks[b->held++], sizeof(void *));
    return LH_OK;
}

lh_status lh_bench_zeros(lh_bench *b, void *out, int64_t bytes)
{
    void *p;
    LH_TRY(new_block(b, &p, bytes));
    LH_TRY(lh_stream_zero(b->stream, p, bytes));
    memcpy(out, &p, sizeof p);
    return LH_OK;
}

lh_status lh_bench_put(lh_bench *b, void *out, const void *host, int64_t bytes)
{
    void *p;
    LH_TRY(new_block(b, &p, bytes));
    LH_TRY(lh_stream_copy(b->stream, p, host, bytes, LH_COPY_TO_DEVICE));
    LH_TRY(lh_stream_sync(b->stream));
    memcpy(out, &p, sizeof p);
    return LH_OK;
}

lh_status lh_bench_normals(lh_bench *b, void *out, const lh_bench_normal *what)
{
    enum { PERIOD = 1 << 16 };
    lh_status st = LH_OK;
    float *part = NULL;
    void *typed = NULL;
    char *p;
    int64_t size = lh_dtype_bytes(what->type), first = what->n < PERIOD ? what->n : PERIOD;
    LH_TRY_DONE(lh_calloc(&part, first, sizeof *part));
    LH_TRY_DONE(lh_calloc(&typed, first, size));
    lh_normals(part, 7, (uint64_t)what->n, 0, first);
    for (int64_t i = 0; i < first; i++) part[i] *= what->scale;
    lh_dtype_convert(typed, what->type, part, LH_F32, first);
    LH_TRY_DONE(new_block(b, &p, what->n * size));
    LH_TRY_DONE(lh_stream_copy(b->stream, p, typed, first * size, LH_COPY_TO_DEVICE));
    for (int64_t have = first; have < what->n; have *= 2) {
        int64_t more = what->n - have < have ? what->n - have : have;
        LH_TRY_DONE(lh_stream_copy(b->stream, p + have * size, p, more * size, LH_COPY_ON_DEVICE));
    }
    LH_TRY_DONE(lh_stream_sync(b->stream));
    memcpy(out, &p, sizeof p);
done:
    lh_free(part);
    lh_free(typed);
    return st;
}

lh_status lh_bench_positions(lh_bench *b, int32_t **out, int64_t first, int64_t n)
{
    lh_status st = LH_OK;
    int32_t *host = NULL;
    LH_TRY_DONE(lh_calloc(&host, n, sizeof *host));
    for (int64_t i = 0; i < n; i++) host[i] = (int32_t)(first + i);
    LH_TRY_DONE(lh_bench_put(b, out, host, n * 4));
done:
    lh_free(host);
    return st;
}

lh_status lh_bench_bytes(lh_bench *b, uint8_t **out, int64_t bytes, uint8_t value)
{
    lh_status st = LH_OK;
    uint8_t *host = NULL;
    LH_TRY_DONE(lh_calloc(&host, bytes, 1));
    memset(host, value, (size_t)bytes);
    LH_TRY_DONE(lh_bench_put(b, out, host, bytes));
done:
    lh_free(host);
    return st;
}

/* Rows that are quantised. */
typedef struct rows_q8 {
    int64_t rows, dim;
    int are_keys;
} rows_q8;

static int64_t length_of(const lh_bench_cache *c, int64_t head)
{
    uint32_t out[4];
    if (!c->uneven || c->len < 2) return c->len;
    lh_philox(out, (const uint32_t[]){(uint32_t)c->uneven, 0}, (const uint32_t[]){(uint32_t)head, 0, 0, 0});
    return c->len / 2 + (int64_t)(lh_uniform(out[0]) * (float)c->len);
}

/* *codes, *scales = `rows` rows of `dim` normals as keys or values of q8. */
static lh_status draw_q8(lh_bench *b, void *codes, float **scales, const rows_q8 *what)
{
    lh_status st = LH_OK;
    lh_convert_args convert = {.dst_type = LH_Q8,
                               .src_type = LH_BF16,
                               .are_keys = what->are_keys,
                               .rows = what->rows,
                               .cols = what->dim,
                               .dst_ld = what->dim,
                               .src_ld = what->dim};
    LH_TRY(lh_bench_zeros(b, &convert.dst, what->rows * what->dim));
    LH_TRY(lh_bench_zeros(b, &convert.dst_scale, what->rows * (int64_t)sizeof(float)));
    const int64_t mark = lh_bench_mark(b);
    LH_TRY_DONE(lh_bench_normals(b, &convert.src, &(lh_bench_normal){LH_BF16, what->rows * what->dim, 1.0f}));
    LH_TRY_DONE(b->ops->convert(b->stream, &convert));
    LH_TRY_DONE(lh_stream_sync(b->stream));
    memcpy(codes, &convert.dst, sizeof convert.dst);
    *scales = convert.dst_scale;
done:
    lh_bench_drop(b, mark);
    return st;
}

/* Keys and values of n entries. */
static lh_status draw_entries(lh_bench *b, lh_ragged *out, int64_t n)
{
    const lh_bench_normal normal = {out->type, n * out->head_dim, 1.0f};
    if (out->type == LH_Q8) {
        LH_TRY(draw_q8(b, &out->k, &out->k_scale, &(rows_q8){n, out->head_dim, 1}));
        return draw_q8(b, &out->v, &out->v_scale, &(rows_q8){n, out->head_dim, 0});
    }
    LH_TRY(lh_bench_normals(b, &out->k, &normal));
    return lh_bench_normals(b, &out->v, &normal);
}

lh_status lh_bench_fill(lh_bench *b, lh_ragged *out, const lh_bench_cache *what, int64_t *entries)
{
    lh_status st = LH_OK;
    int64_t *offset = NULL, *len = NULL, n = 0;
    int32_t *positions = NULL;
    LH_TRY_DONE(lh_calloc(&offset, what->heads, sizeof *offset));
    LH_TRY_DONE(lh_calloc(&len, what->heads, sizeof *len));
    for (int64_t h = 0; h < what->heads; h++) {
        offset[h] = n;
        n += len[h] = length_of(what, h);
    }
    LH_TRY_DONE(lh_calloc(&positions, n, sizeof *positions));
    for (int64_t h = 0; h < what->heads; h++)
        for (int64_t s = 0; s < len[h]; s++) positions[offset[h] + s] = (int32_t)s;
    *out = (lh_ragged){.type = what->type, .heads = what->heads, .head_dim = what->dim};
    LH_TRY_DONE(draw_entries(b, out, n));
    LH_TRY_DONE(lh_bench_put(b, &out->positions, positions, n * 4));
    LH_TRY_DONE(lh_bench_put(b, &out->offset, offset, what->heads * 8));
    LH_TRY_DONE(lh_bench_put(b, &out->len, len, what->heads * 8));
    if (entries) *entries = n;
done:
    lh_free(offset);
    lh_free(len);
    lh_free(positions);
    return st;
}
