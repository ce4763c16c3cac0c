/* Attention of one row per sequence. A work item is a chunk of CHUNK entries of a KV head: the query heads of its group
 * pass over it together, so that every key and value is read once. Chunks are combined in their order.
 *
 * Query heads are processed in blocks of up to 4; the logits and weights of a block are stored [entry][head], so that a
 * vector holds VL / width entries and all work is done in whole vectors. */
#include "kernels/cpu/softmax.h"
#include "kernels/cpu/stream.h"

enum { CHUNK = 256, BLOCK_HEADS = 4, AHEAD = 32 };
_Static_assert(LH_SHARED_BLOCK % CHUNK == 0, "a chunk lies in one segment");

/* Chunks times query heads that one thread finishes before another one wakes up. */
enum { DECODE_ALONE = 4 };

typedef struct lh_chunk {
    int64_t b, head, i0, group, first, n; /* sequence, KV head, query heads; slots [first, first + n) */
    int64_t before;                       /* entries of all previous chunks */
    float *part;                          /* [group][part_ld]: see lh_decode */
} lh_chunk;

typedef struct lh_decode {
    const lh_attend_decode_args *args;
    int64_t max_dim; /* largest head_dim */
    int64_t part_ld; /* floats of one head's part: sums of values as packed vectors, row maximum, denominator */
    int64_t own;     /* workspace of a thread, in floats */
} lh_decode;

/* A head block on a chunk, and the memory of its thread. */
typedef struct lh_head_block {
    const lh_ragged *kv;
    lh_logit logit;
    int64_t position;
    int64_t at, n, q_ld; /* first element of keys and values; entries; floats of a packed vector */
    float *q;            /* [BLOCK_HEADS, q_ld], times the factor of queries; zero for missing heads */
    float *s;            /* [CHUNK, BLOCK_HEADS] logits, then weights */
    float *o;            /* [BLOCK_HEADS, q_ld] sums of values */
    lh_row_logits out;   /* from the chunk's first entry on; NULL: not wanted */
    float row_max[BLOCK_HEADS], denominator[BLOCK_HEADS];
} lh_head_block;

/* Width of a head block in a vector: 3 heads take the width of 4. */
VEC_FN int block_width(const int heads)
{
    return heads == 3 ? 4 : heads;
}

/* Prefetches the keys or values of entries [j, j + n) of the chunk, or of the entries after it, while arithmetic goes
 * on. */
static inline void prefetch_entries(const lh_head_block *t, const void *keys_or_values, int64_t j, int64_t n)
{
    int64_t bytes = lh_dtype_bytes(t->kv->type), d = t->kv->head_dim;
    const char *p = (const char *)keys_or_values + (t->at + j * d) * bytes;
    for (int64_t i = 0; i < n * d * bytes; i += 64) __builtin_prefetch(p + i, 0, 2);
}

/* Logits of VL / width entries from j on: lane k * width + h is entry j + k with head h, for h < heads. Past the end
 * the last entry is repeated. */
VEC_FN vf decode_logits(const lh_head_block *t, int64_t j, const int heads, const lh_meet kind)
{
    int64_t d = t->kv->head_dim, step = step_elements(kind), i = 0, last = t->n - 1 - j;
    const int width = block_width(heads);
    const float *q = t->q;
    vf sum[VL];
#pragma GCC unroll 16
    for (int n = 0; n < VL; n++) sum[n] = vf_zero();
    for (; i + step <= d; i += step, q += step_floats(kind)) {
#pragma GCC unroll 16
        for (int n = 0; n < VL; n++) {
            if (n % width >= heads) continue;
            vf key = step_load(t->kv->k, t->at + (j + lh_min_i64(n / width, last)) * d + i, step, kind);
            sum[n] = step_add(key, q + n % width * t->q_ld, sum[n], kind);
        }
    }
#pragma GCC unroll 16
    for (int n = 0; n < VL && i < d; n++) {
        if (n % width >= heads) continue;
        vf key = step_load(t->kv->k, t->at + (j + lh_min_i64(n / width, last)) * d + i, d - i, kind);
        sum[n] = step_add(key, q + n % width * t->q_ld, sum[n], kind);
    }
    return vf_sums(sum);
}

/* Vectors of one head's sums in registers, and entries processed before they are stored. */
enum { TOGETHER = VL == 16 ? 4 : 2, PASS = 32 };

/* Adds values times weights to the sums, for entries [at[0], at[1]) and elements from at[2] on: `vectors` vectors of
 * each head, with at[3] elements left in a row. */
VEC_FN void decode_add_values(const lh_head_block *t, const int64_t at[4], const int vectors, const int heads,
                              const lh_meet kind)
{
    int64_t end = at[1], i = at[2], n = at[3], step = step_elements(kind), d = t->kv->head_dim;
    const int per_step = in_order(kind) ? 1 : 2, width = block_width(heads);
    float *o = t->o + i / step * step_floats(kind);
    vf sum[BLOCK_HEADS][TOGETHER];
#pragma GCC unroll 16
    for (int c = 0; c < heads * vectors; c++)
        sum[c / vectors][c % vectors] = vf_load(o + c / vectors * t->q_ld + c % vectors * VL);
    for (int64_t j = at[0]; j < end; j++) {
#pragma GCC unroll 16
        for (int c = 0; c < vectors; c++) {
            int64_t from = c / per_step * step;
            vf value = step_load(t->kv->v, t->at + j * d + i + from, n - from, kind);
            if (!in_order(kind)) value = c % 2 ? vf_odd(value) : vf_even(value);
#pragma GCC unroll 4
            for (int h = 0; h < heads; h++) sum[h][c] = vf_fma(vf_set1(t->s[j * width + h]), value, sum[h][c]);
        }
    }
#pragma GCC unroll 16
    for (int c = 0; c < heads * vectors; c++)
        vf_store(o + c / vectors * t->q_ld + c % vectors * VL, sum[c / vectors][c % vectors]);
}

VEC_FN void decode_values(const lh_head_block *t, const int heads, const lh_meet kind)
{
    const int small = in_order(kind) ? 1 : 2; /* vectors of a step */
    int64_t d = t->kv->head_dim, step = step_elements(kind), block = TOGETHER / small * step;
    for (int64_t j = 0; j < t->n; j += PASS) {
        int64_t at[4] = {j, lh_min_i64(j + PASS, t->n), 0, block};
        prefetch_entries(t, t->kv->k, t->n + j, PASS); /* this thread also has the next chunk */
        for (; at[2] + block <= d; at[2] += block) decode_add_values(t, at, TOGETHER, heads, kind);
        for (at[3] = step; at[2] + step <= d; at[2] += step) decode_add_values(t, at, small, heads, kind);
        at[3] = d - at[2];
        if (at[3] > 0) decode_add_values(t, at, small, heads, kind);
    }
}

static int decode_sees(const lh_head_block *t, int64_t position)
{
    return position <= t->position && (t->logit.window <= 0 || position > t->position - t->logit.window);
}

/* Sets -inf for entries that the row does not see, and for the padding up to a whole vector. */
static void decode_mask(const lh_head_block *t, const lh_chunk *c, int width)
{
    int seen = 1;
    for (int64_t j = 0; j < t->n; j++) seen &= decode_sees(t, lh_position(t->kv, c->head, c->first + j));
    for (int64_t j = 0; j < t->n && !seen; j++) {
        if (decode_sees(t, lh_position(t->kv, c->head, c->first + j))) continue;
        for (int h = 0; h < width; h++) t->s[j * width + h] = -INFINITY;
    }
    for (int64_t i = t->n * width; i < round_up(t->n, VL) * width; i++) t->s[i] = -INFINITY;
}

/* The row maximum of each head, over its lanes. */
VEC_FN void decode_row_max(lh_head_block *t, vf highest, const int width)
{
    float lanes[VL];
    vf_store(lanes, highest);
    for (int h = 0; h < width; h++) {
        t->row_max[h] = lanes[h];
        for (int n = h + width; n < VL; n += width) t->row_max[h] = fmaxf(t->row_max[h], lanes[n]);
    }
}

/* Turns logits into weights and adds them in VL sums per head, entry j to sum j % VL for any width of the block: the
 * bits of a head do not depend on the other heads of its block. */
VEC_FN void decode_softmax(lh_head_block *t, const int width)
{
    float lanes[VL * BLOCK_HEADS];
    vf base, sum[BLOCK_HEADS];
    for (int n = 0; n < VL; n++) lanes[n] = t->row_max[n % width] == -INFINITY ? 0.0f : t->row_max[n % width];
    base = vf_load(lanes);
#pragma GCC unroll 4
    for (int u = 0; u < width; u++) sum[u] = vf_zero();
    for (int64_t i = 0; i < t->n * width; i += VL * width) {
#pragma GCC unroll 4
        for (int u = 0; u < width; u++) {
            float *s = t->s + i + u * VL;
            vf weight = vf_exp_negative(vf_load(s) - base);
            vf_store(s, weight);
            sum[u] = sum[u] + weight;
        }
    }
#pragma GCC unroll 4
    for (int u = 0; u < width; u++) vf_store(lanes + u * VL, sum[u]);
    for (int h = 0; h < width; h++) {
        t->denominator[h] = 0.0f;
        for (int n = h; n < VL * width; n += width) t->denominator[h] += lanes[n];
    }
}

/* Multiplies the numbers of each entry by its scale. */
VEC_FN void decode_scale(const lh_head_block *t, const float *scales, const int width)
{
    for (int64_t j = 0; j < t->n; j++) {
        for (int h = 0; h < width; h++) t->s[j * width + h] *= scales[j];
    }
}

VEC_FN void decode_store_logits(const lh_head_block *t, const int heads)
{
    const int width = block_width(heads);
    for (int h = 0; h < heads; h++) {
        for (int64_t j = 0; j < t->n; j++) t->out.at[h * t->out.ld + j] = t->s[j * width + h];
    }
}

VEC_FN void decode_add_bias(const lh_head_block *t, const lh_chunk *c, const int width)
{
    const float *bias = lh_bias_of(t->kv, c->head) + c->first;
    for (int64_t j = 0; j < t->n; j++) {
        for (int h = 0; h < width; h++) t->s[j * width + h] += bias[j];
    }
}

/* Attention of a head block over its chunk: sums of values, row maximum, denominator. heads and kind are constants at
 * each call. */
VEC_FN void decode_head_block(lh_head_block *t, const lh_chunk *c, const int heads, const lh_meet kind)
{
    const int width = block_width(heads);
    int64_t numbers = round_up(t->n, VL) * width;
    vf highest = vf_set1(-INFINITY);
    for (int64_t j = 0; j < t->n; j += VL / width) {
        prefetch_entries(t, t->kv->k, j + AHEAD, VL / width);
        prefetch_entries(t, t->kv->v, j, VL / width);
        vf_store(t->s + j * width, decode_logits(t, j, heads, kind));
    }
    if (kind == MEET_CODES) decode_scale(t, t->kv->k_scale + t->at / t->kv->head_dim, width);
    if (t->logit.softcap > 0) cap_logits(t->s, t->n * width, t->logit.softcap);
    if (t->out.at) decode_store_logits(t, heads);
    if (t->kv->bias) decode_add_bias(t, c, width);
    decode_mask(t, c, width);
    for (int64_t i = 0; i < numbers; i += VL) highest = vf_max(vf_load(t->s + i), highest);
    decode_row_max(t, highest, width);
    decode_softmax(t, width);
    if (kind == MEET_CODES) decode_scale(t, t->kv->v_scale + t->at / t->kv->head_dim, width);
    memset(t->o, 0, (size_t)(width * t->q_ld) * sizeof *t->o);
    decode_values(t, heads, kind);
}

#define HEAD_BLOCK(heads, name, kind)                               \
    static void name##_##heads(lh_head_block *t, const lh_chunk *c) \
    {                                                               \
        decode_head_block(t, c, heads, kind);                       \
    }
#define HEAD_BLOCKS(name, kind) \
    HEAD_BLOCK(1, name, kind)   \
    HEAD_BLOCK(2, name, kind)   \
    HEAD_BLOCK(3, name, kind)   \
    HEAD_BLOCK(4, name, kind)
HEAD_BLOCKS(head_block_f32, MEET_F32)
HEAD_BLOCKS(head_block_codes, MEET_CODES)
HEAD_BLOCKS(head_block_bf16, MEET_SPLIT)

/* By the number of heads. */
typedef void (*lh_head_block_fn)(lh_head_block *, const lh_chunk *);
static const lh_head_block_fn head_blocks[][BLOCK_HEADS + 1] = {
    [MEET_F32] = {NULL, head_block_f32_1, head_block_f32_2, head_block_f32_3, head_block_f32_4},
    [MEET_CODES] = {NULL, head_block_codes_1, head_block_codes_2, head_block_codes_3, head_block_codes_4},
    [MEET_SPLIT] = {NULL, head_block_bf16_1, head_block_bf16_2, head_block_bf16_3, head_block_bf16_4}};

static lh_meet decode_kind(const lh_ragged *kv)
{
    return kv->type == LH_F32 ? MEET_F32 : kv->type == LH_Q8 ? MEET_CODES : MEET_SPLIT;
}

static void attend_chunk(const lh_decode *decode, const lh_chunk *c, float *memory)
{
    const lh_attend_decode_args *a = decode->args;
    const lh_ragged kv = lh_segment_at(&a->seqs[c->b], c->head, c->first);
    int64_t d = kv.head_dim;
    lh_meet kind = decode_kind(&kv);
    lh_head_block t = {.kv = &kv,
                       .logit = a->logit,
                       .position = a->positions[c->b],
                       .at = (kv.offset[c->head] + c->first) * d,
                       .n = c->n,
                       .q_ld = packed_floats(d, kind),
                       .s = memory};
    t.q = t.s + CHUNK * BLOCK_HEADS;
    t.o = t.q + BLOCK_HEADS * t.q_ld;
    for (int64_t g = 0; g < c->group; g += BLOCK_HEADS) {
        int64_t heads = lh_min_i64(c->group - g, BLOCK_HEADS);
        const float *q = a->q + c->b * a->q_ld + (c->i0 + g) * d;
        memset(t.q, 0, (size_t)(BLOCK_HEADS * t.q_ld) * sizeof *t.q);
        for (int64_t h = 0; h < heads; h++) {
            pack_floats_for(t.q + h * t.q_ld, q + h * d, d, query_factor(&a->logit), kind);
            if (kind == MEET_CODES) lh_q8_hadamard_inverse(t.q + h * t.q_ld, d);
        }
        if (a->logits && a->logits[c->b].at) {
            t.out = a->logits[c->b];
            t.out.at += (c->i0 + g) * t.out.ld + c->first;
        }
        head_blocks[kind][heads](&t, c);
        for (int64_t h = 0; h < heads; h++) {
            float *part = c->part + (g + h) * decode->part_ld;
            memcpy(part, t.o + h * t.q_ld, (size_t)t.q_ld * sizeof *part);
            part[decode->part_ld - 2] = t.row_max[h];
            part[decode->part_ld - 1] = t.denominator[h];
        }
    }
}

/* Combines the parts of the `chunks` chunks of a query head, which are adjacent; the first part is overwritten. */
static void join_chunks(const lh_decode *decode, const lh_chunk *c, int64_t chunks, int64_t g)
{
    const lh_attend_decode_args *a = decode->args;
    const lh_ragged *kv = &a->seqs[c->b];
    int64_t d = kv->head_dim, stride = c->group * decode->part_ld, i = c->i0 + g, top_at = decode->part_ld - 2;
    int64_t floats = packed_floats(d, decode_kind(kv)), at = c->b * a->o_ld + i * d;
    float *sum = c->part + g * decode->part_ld, row_max = -INFINITY, denominator = 0.0f;
    for (int64_t n = 0; n < chunks; n++) row_max = fmaxf(row_max, sum[n * stride + top_at]);
    for (int64_t n = 0; n < chunks; n++) {
        const float *part = sum + n * stride;
        float factor = part[top_at + 1] != 0 ? expf(part[top_at] - row_max) : 0.0f;
        denominator += factor * part[top_at + 1];
        for (int64_t k = 0; k < floats; k += VL) {
            vf so_far = n > 0 ? vf_load(sum + k) : vf_zero();
            vf_store(sum + k, vf_fma(vf_set1(factor), vf_load(part + k), so_far));
        }
    }
    for (int64_t k = 0; k < floats; k++) sum[k] = denominator != 0 ? sum[k] / denominator : 0.0f;
    unpack_floats(a->o + at, sum, d, decode_kind(kv));
    if (a->o_bf16) lh_dtype_convert((uint16_t *)a->o_bf16 + at, LH_BF16, a->o + at, LH_F32, d);
    if (a->lse) a->lse[c->b * a->map.heads + i] = row_max + logf(denominator);
}

static void blank_row(const lh_attend_decode_args *a, int64_t b, int64_t i)
{
    int64_t d = a->seqs[b].head_dim, at = b * a->o_ld + i * d;
    memset(a->o + at, 0, (size_t)d * sizeof *a->o);
    if (a->o_bf16) memset((uint16_t *)a->o_bf16 + at, 0, (size_t)d * sizeof(uint16_t));
    if (a->lse) a->lse[b * a->map.heads + i] = -INFINITY;
}

/* The first chunk of KV head h of sequence b is chunks[starts[b * heads + h]]; one more start ends the list. Fills
 * `chunks` unless it is NULL, and returns their number. */
static int64_t list_chunks(const lh_decode *decode, lh_chunk *chunks, int64_t *starts, float *parts)
{
    const lh_attend_decode_args *a = decode->args;
    int64_t count = 0, before = 0;
    for (int64_t b = 0; b < a->batch; b++) {
        for (int64_t h = head_first(&a->map); h < head_end(&a->map); h++) {
            int64_t len = a->seqs[b].len[h];
            if (chunks) *starts++ = count;
            for (int64_t first = 0; first < len; first += CHUNK, count++) {
                lh_chunk c = {.b = b, .head = h, .first = first, .n = lh_min_i64(len - first, CHUNK)};
                if (!chunks) continue;
                c.before = before;
                c.part = parts;
                before += c.n;
                head_range(&a->map, h, &c.i0, &c.group);
                chunks[count] = c;
                parts += c.group * decode->part_ld;
            }
        }
    }
    if (chunks) *starts = count;
    return count;
}

/* Divides the entries evenly among the threads, because the last chunk of a head may be short. */
static void attend_stretch(const lh_decode *decode, const lh_chunk *chunks, int64_t count, float *own)
{
    lh_stretch mine = own_stretch(count ? chunks[count - 1].before + chunks[count - 1].n : 0);
    for (int64_t n = 0; n < count; n++)
        if (is_of(mine, chunks[n].before, chunks[n].n)) attend_chunk(decode, &chunks[n], own);
}

/* Combines all query heads of a KV head of a sequence. */
static void join_head(const lh_decode *decode, const lh_chunk *chunks, const int64_t *starts, int64_t n)
{
    const lh_attend_decode_args *a = decode->args;
    int64_t heads = head_end(&a->map) - head_first(&a->map), b = n / heads, i0, group;
    head_range(&a->map, head_first(&a->map) + n % heads, &i0, &group);
    for (int64_t g = 0; g < group; g++) {
        if (starts[n] < starts[n + 1])
            join_chunks(decode, &chunks[starts[n]], starts[n + 1] - starts[n], g);
        else
            blank_row(a, b, i0 + g);
    }
}

static lh_status op_attend_decode(lh_stream *stream, const lh_attend_decode_args *a)
{
    lh_decode decode = {.args = a};
    char *memory = NULL;
    lh_count_fresh(a);
    if (a->batch == 0 || a->map.heads == 0) return LH_OK;
    int64_t rows = a->batch * (head_end(&a->map) - head_first(&a->map)), count = list_chunks(&decode, NULL, NULL, NULL);
    for (int64_t b = 0; b < a->batch; b++)
        decode.max_dim = a->seqs[b].head_dim > decode.max_dim ? a->seqs[b].head_dim : decode.max_dim;
    decode.part_ld = packed_floats(decode.max_dim, MEET_SPLIT) + 2;
    decode.own = BLOCK_HEADS * (CHUNK + 2 * packed_floats(decode.max_dim, MEET_SPLIT));
    int64_t list = round_up(count * (int64_t)sizeof(lh_chunk) + (rows + 1) * 8, 64);
    int64_t parts = round_up(count * a->map.group * decode.part_ld * 4, 64);
    LH_TRY(
        lh_stream_scratch(stream, &memory, list + parts + omp_get_max_threads() * decode.own * (int64_t)sizeof(float)));
    lh_chunk *chunks = (lh_chunk *)memory;
    int64_t *starts = (int64_t *)(chunks + count);
    list_chunks(&decode, chunks, starts, (float *)(memory + list));
#pragma omp parallel if (count * a->map.heads >= 2 * DECODE_ALONE)
    {
        float *own = (float *)(memory + list + parts) + omp_get_thread_num() * decode.own;
        attend_stretch(&decode, chunks, count, own);
#pragma omp barrier
#pragma omp for
        for (int64_t n = 0; n < rows; n++) join_head(&decode, chunks, starts, n);
    }
    return LH_OK;
}
