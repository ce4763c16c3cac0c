#include "evict/plain_entries.h"

#include "base/mem.h"
#include "exec/scratch.h"
#include "kernels/ops.h"

static lh_status read_lens(lh_plain_entries *p)
{
    const int64_t heads = p->entries->heads, bytes = heads * (int64_t)sizeof *p->len;
    LH_TRY(lh_calloc(&p->len, 2 * heads, sizeof *p->len));
    p->offset = p->len + heads;
    lh_exec_fetch(p->exec, p->len, p->entries->len, bytes);
    lh_exec_fetch(p->exec, p->offset, p->entries->offset, bytes);
    return LH_OK;
}

lh_status lh_plain_entries_open(lh_plain_entries *out, const lh_exec *exec, const lh_ragged *entries,
                                const lh_rotation *rotation, lh_plain_wants wants)
{
    const int64_t dim = entries->head_dim, floats = LH_PLAIN_ENTRIES_AT_ONCE * dim * (int64_t)sizeof(float);
    *out = (lh_plain_entries){.exec = exec, .entries = entries, .mark = lh_scratch_mark(exec)};
    if (rotation && rotation->rotary) out->rotation = rotation;
    out->keys = lh_scratch_alloc(exec, floats);
    if (wants == LH_PLAIN_KEYS_AND_VALUES) out->values = lh_scratch_alloc(exec, floats);
    out->inverse = lh_scratch_alloc(exec, dim * (int64_t)sizeof *out->inverse);
    out->numbers = lh_scratch_alloc(exec, LH_PLAIN_ENTRIES_AT_ONCE * (int64_t)sizeof *out->numbers);
    LH_TRY(read_lens(out));
    return out->rotation ? lh_rotation_put_inverse(rotation, exec, out->inverse) : LH_OK;
}

void lh_plain_entries_close(lh_plain_entries *p)
{
    lh_scratch_release(p->exec, p->mark);
    lh_free(p->len);
}

static void widen(const lh_plain_entries *p, float *y, const void *x, int64_t at, int64_t count)
{
    const lh_ragged *kv = p->entries;
    const int64_t dim = kv->head_dim;
    LH_RUN(p->exec, convert, .dst = y, .src = (const char *)x + at * dim * lh_dtype_bytes(kv->type), .dst_type = LH_F32,
           .src_type = kv->type, .rows = count, .cols = dim, .dst_ld = dim, .src_ld = dim);
}

static void put_numbers(const lh_plain_entries *p, int64_t first, int64_t count)
{
    int32_t numbers[LH_PLAIN_ENTRIES_AT_ONCE];
    for (int64_t i = 0; i < count; i++) numbers[i] = (int32_t)(first + i);
    lh_exec_put(p->exec, p->numbers, numbers, count * (int64_t)sizeof *numbers);
}

static void unrotate(const lh_plain_entries *p, int64_t h, int64_t first, int64_t count)
{
    const lh_ragged *kv = p->entries;
    if (!kv->positions) put_numbers(p, first, count);
    LH_RUN(p->exec, rope, .x = p->keys, .positions = kv->positions ? kv->positions + p->offset[h] + first : p->numbers,
           .inv_freq = p->inverse, .tokens = count, .heads = 1, .dim = kv->head_dim, .rotary = p->rotation->rotary,
           .ld = kv->head_dim, .scale = 1.0f / p->rotation->scale);
}

void lh_plain_entries_load(const lh_plain_entries *p, int64_t h, int64_t first, int64_t count)
{
    const int64_t at = p->offset[h] + first;
    widen(p, p->keys, p->entries->k, at, count);
    if (p->values) widen(p, p->values, p->entries->v, at, count);
    if (p->rotation) unrotate(p, h, first, count);
}
