#include "batch/ids.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

typedef struct slot {
    const char *id; /* NULL: free */
    int64_t number;
} slot;

struct lh_ids {
    slot *slots;
    int64_t size; /* a power of two, twice the ids or more */
    int64_t n;
};

lh_status lh_ids_open(lh_ids **out, int64_t count)
{
    lh_status st = LH_OK;
    lh_ids *ids = NULL;
    LH_TRY_DONE(lh_calloc(&ids, 1, sizeof *ids));
    for (ids->size = 16; ids->size < 2 * count;) ids->size *= 2;
    LH_TRY_DONE(lh_calloc(&ids->slots, ids->size, sizeof *ids->slots));
    *out = ids;
    ids = NULL;
done:
    lh_ids_close(ids);
    return st;
}

void lh_ids_close(lh_ids *ids)
{
    if (!ids) return;
    lh_free(ids->slots);
    lh_free(ids);
}

/* The slot that holds `id`, or the free one where it would be. */
static slot *slot_of(const lh_ids *ids, const char *id)
{
    uint64_t at = lh_hash64(id, (int64_t)strlen(id));
    for (;; at++) {
        slot *s = &ids->slots[at & (uint64_t)(ids->size - 1)];
        if (!s->id || strcmp(s->id, id) == 0) return s;
    }
}

int64_t lh_ids_add(lh_ids *ids, const char *id, int64_t number)
{
    slot *s = slot_of(ids, id);
    if (s->id) return s->number;
    assert(2 * ids->n < ids->size);
    ids->n++;
    *s = (slot){id, number};
    return -1;
}

int64_t lh_ids_find(const lh_ids *ids, const char *id)
{
    const slot *s = slot_of(ids, id);
    return s->id ? s->number : -1;
}
