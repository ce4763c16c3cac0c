/* pool.h - the memory of a template, or of one rendering of it, which goes as a whole. The pool also counts the steps
 * and the depth of the work in it. All three are bounded, because a template is a foreign program. */
#ifndef LH_TEXT_TEMPLATE_POOL_H
#define LH_TEXT_TEMPLATE_POOL_H

#include <stdint.h>

#include "base/mem.h"

typedef struct lh_tpl_block lh_tpl_block;

/* steps: an evaluated node is one, and 64 bytes of a text that is made or searched are one. */
typedef struct lh_tpl_pool {
    lh_tpl_block *blocks;
    int64_t bytes_left, steps_left, depth;
} lh_tpl_pool;

/* Zeroed. LH_EINPUT when the memory of the rendering is used up. */
lh_status lh_tpl_alloc(lh_tpl_pool *pool, void *out, int64_t count, int64_t size);

/* LH_EINPUT when the steps are used up. */
lh_status lh_tpl_step(lh_tpl_pool *pool, int64_t steps);

/* Around whatever calls itself: LH_EINPUT when it is too deep for the stack. */
lh_status lh_tpl_enter(lh_tpl_pool *pool);
static inline lh_status lh_tpl_leave(lh_tpl_pool *pool, lh_status st)
{
    pool->depth--;
    return st;
}
void lh_tpl_pool_clear(lh_tpl_pool *pool);

#endif
