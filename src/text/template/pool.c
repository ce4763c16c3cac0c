/* pool.c - memory, steps and depth of the work on a chat template. */
#include "text/template/pool.h"

enum { BLOCK_BYTES = 1 << 14, ALIGN = 16, DEPTH = 400 };

struct lh_tpl_block {
    lh_tpl_block *next;
    int64_t used, bytes;
    _Alignas(ALIGN) char data[];
};

lh_status lh_tpl_alloc(lh_tpl_pool *pool, void *out, int64_t count, int64_t size)
{
    lh_tpl_block *b = pool->blocks;
    if (count < 0 || count > pool->bytes_left / size)
        LH_FAIL(LH_EINPUT, "it takes more memory than a chat template may");
    int64_t bytes = (count * size + ALIGN - 1) / ALIGN * ALIGN;
    if (!b || b->bytes - b->used < bytes) {
        int64_t room = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        LH_TRY(lh_calloc(&b, 1, (int64_t)sizeof *b + room));
        b->bytes = room;
        b->next = pool->blocks;
        pool->blocks = b;
    }
    *(void **)out = b->data + b->used;
    b->used += bytes;
    pool->bytes_left -= bytes;
    return LH_OK;
}

lh_status lh_tpl_step(lh_tpl_pool *pool, int64_t steps)
{
    pool->steps_left -= steps;
    if (pool->steps_left < 0) LH_FAIL(LH_EINPUT, "it takes more steps than a chat template may");
    return LH_OK;
}

lh_status lh_tpl_enter(lh_tpl_pool *pool)
{
    LH_TRY(lh_tpl_step(pool, 1));
    if (pool->depth >= DEPTH) LH_FAIL(LH_EINPUT, "it is nested deeper than %d levels", DEPTH);
    pool->depth++;
    return LH_OK;
}

void lh_tpl_pool_clear(lh_tpl_pool *pool)
{
    while (pool->blocks) {
        lh_tpl_block *next = pool->blocks->next;
        lh_free(pool->blocks);
        pool->blocks = next;
    }
}
