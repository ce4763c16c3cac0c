/* arena.h - the memory of a layer's KV heads: keys, values, positions and numbers of the entries, ragged. Head h owns
 * the slots offset[h] .. offset[h] + cap[h] - 1 and holds len[h] entries; the other slots are slack, so that decoding
 * appends without a copy. The arena knows no policy: the caller gives an entry's numbers their meaning.
 *
 * The first shared[h] slots of head h may be slots of another arena, the parent: shared blocks (kernels/ragged.h),
 * which have no memory here. The parent must not change while they are shared.
 *
 * The host arrays equal the device's copies in `view` whenever no call is under way. During a prefill or a step, when
 * the caller appends, and after evictions without a wait, the host's lengths are upper bounds. */
#ifndef LH_CACHE_ARENA_H
#define LH_CACHE_ARENA_H

#include "exec/exec.h"

typedef struct lh_arena_shape {
    int64_t heads, head_dim;
    lh_dtype type; /* of keys and values */
} lh_arena_shape;

/* Data of an entry besides key and value. Where nothing is evicted the position of an entry is its slot. */
typedef struct lh_arena_form {
    int has_positions;
    int has_bias;  /* of lh_ragged: 0 for entries that are appended */
    int64_t stats; /* f32 numbers an entry */
} lh_arena_form;

typedef struct lh_arena lh_arena;
struct lh_arena {
    lh_ragged view;                       /* device */
    int64_t *offset, *len, *cap, *shared; /* host, [heads], one block */
    int64_t *heads_block;                 /* device: offset and len, borrowed */
    const lh_arena *parent;               /* NULL: none */
    int64_t slots;                        /* of memory that the arena owns, slack included */
    int64_t epoch;                        /* grows with every reallocation */
    lh_arena_form form;
};

int64_t lh_arena_bytes(const lh_arena_shape *shape, int64_t slots, lh_arena_form form);
int64_t lh_arena_held_bytes(const lh_arena *arena);

/* heads_block: device memory for 2 x heads int64, borrowed. The arena has no slots yet. */
lh_status lh_arena_init(lh_arena *arena, const lh_arena_shape *shape, int64_t *heads_block, lh_arena_form form);
void lh_arena_clear(lh_arena *arena, lh_device *device);

/* Memory for cap[h] slots of head h, or `cap` slots of each head; no entries. */
lh_status lh_arena_alloc(lh_arena *arena, const lh_exec *exec, const int64_t *cap);
lh_status lh_arena_alloc_even(lh_arena *arena, const lh_exec *exec, int64_t cap);
void lh_arena_free(lh_arena *arena, lh_device *device);

/* New memory for cap[h] slots a head, shared ones included, without entries. *old: the arena before, until
 * lh_arena_clear: the device has its memory, but not its offsets and lengths any more. A failure changes nothing. */
lh_status lh_arena_replace(lh_arena *arena, const lh_exec *exec, const int64_t *cap, lh_arena *old);

/* The same entries in the same order, in new memory of cap[h] >= len[h] slots a head, shared ones included. After a
 * failed copy the arena can only be freed. */
lh_status lh_arena_resize(lh_arena *arena, const lh_exec *exec, const int64_t *cap);

/* The entries of `from` in the same order, in new memory of cap[h] slots a head; `arena`, without slots, gets the form
 * of `from`. LH_ENTRIES_SHARED: whole blocks stay in `from`, which must have no parent and no numbers. */
typedef enum lh_entries_kind { LH_ENTRIES_COPIED, LH_ENTRIES_SHARED } lh_entries_kind;
lh_status lh_arena_copy(lh_arena *arena, const lh_exec *exec, const lh_arena *from, const int64_t *cap,
                        lh_entries_kind kind);

/* The same entries without a parent, whose shared entries are copied. */
lh_status lh_arena_unshare(lh_arena *arena, const lh_exec *exec);

/* Copies the lengths from the host to the device; and back, with a wait, after an operation changed them. */
lh_status lh_arena_push_len(lh_arena *arena, const lh_exec *exec);
lh_status lh_arena_pull_len(lh_arena *arena, const lh_exec *exec);

int64_t lh_arena_entries(const lh_arena *arena);     /* of all heads */
int64_t lh_arena_longest(const lh_arena *arena);     /* entries of the longest head */
int64_t lh_arena_longest_cap(const lh_arena *arena); /* slots of the head with the most slots */

/* dst->k and dst->v, with their scales, = keys and values of src in the type of dst, in the same slots: of the entries
 * that the host knows of, and `more` of each head. src has no parent. lh_arena_convert: in new memory of the arena. */
lh_status lh_convert_entries(const lh_exec *exec, const lh_ragged *dst, const lh_arena *src, int64_t more);
/* The values of dst alone, from a view with the same slots: of the entries that the host knows of. */
lh_status lh_convert_values(const lh_exec *exec, const lh_arena *dst, const lh_ragged *src);
lh_status lh_arena_convert(lh_arena *arena, const lh_exec *exec, lh_dtype type);

/* Slots of a head, from `slot` on. */
typedef struct lh_slots {
    const lh_ragged *view;
    int64_t slot;
} lh_slots;

/* Copies keys, values, positions and biases of `entries` entries; and their numbers, if both sides have numbers. */
lh_status lh_copy_entries(const lh_exec *exec, const lh_slots *dst, const lh_slots *src, int64_t entries);
lh_status lh_copy_stats(const lh_exec *exec, const lh_slots *dst, const lh_slots *src, int64_t entries);

#endif
