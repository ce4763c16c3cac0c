#include "exec/scratch.h"

#include <assert.h>

#include "base/mem.h"

enum { ALIGN = 64 };

struct lh_scratch_block {
    lh_scratch_block *below;
    void *at;
    int64_t top; /* of the stack before this block */
};

lh_status lh_scratch_reserve(const lh_exec *x, int64_t bytes)
{
    lh_scratch *s = x->scratch;
    lh_device *device = lh_exec_device(x);
    assert(s->top == 0 && !s->more);
    if (bytes == s->bytes) return LH_OK;
    lh_device_free(device, s->reserved);
    *s = (lh_scratch){0};
    LH_TRY(lh_device_alloc(device, &s->reserved, bytes, LH_MEM_WORK));
    s->bytes = bytes;
    return LH_OK;
}

static lh_status add_block(const lh_exec *x, int64_t bytes)
{
    lh_scratch *s = x->scratch;
    lh_scratch_block *block = NULL;
    LH_TRY(lh_calloc(&block, 1, sizeof *block));
    lh_status st = lh_device_alloc(lh_exec_device(x), &block->at, bytes, LH_MEM_WORK);
    if (st != LH_OK) {
        lh_free(block);
        return st;
    }
    block->top = s->top;
    block->below = s->more;
    s->more = block;
    return LH_OK;
}

void *lh_scratch_alloc(const lh_exec *x, int64_t bytes)
{
    lh_scratch *s = x->scratch;
    void *at = NULL;
    assert(bytes >= 0);
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (bytes == 0) return NULL;
    if (!s->more && bytes <= s->bytes - s->top) {
        at = s->reserved + s->top;
    } else {
        lh_status st = add_block(x, bytes);
        lh_exec_latch(x, st);
        if (st != LH_OK) return NULL;
        at = s->more->at;
    }
    s->top += bytes;
    return at;
}

int64_t lh_scratch_mark(const lh_exec *x)
{
    return x->scratch->top;
}

void lh_scratch_release(const lh_exec *x, int64_t mark)
{
    lh_scratch *s = x->scratch;
    assert(mark <= s->top);
    while (s->more && s->more->top >= mark) {
        lh_scratch_block *block = s->more;
        s->more = block->below;
        lh_device_free(lh_exec_device(x), block->at);
        lh_free(block);
    }
    s->top = mark;
}
