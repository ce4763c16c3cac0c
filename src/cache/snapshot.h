/* snapshot.h - a layer's entries as they were at one moment, to come back to any number of times. Nothing is copied
 * when it is set: appended entries do not disturb what was there. Who is about to change the entries or their numbers
 * saves them first; the first time that is one copy, later it is nothing. */
#ifndef LH_CACHE_SNAPSHOT_H
#define LH_CACHE_SNAPSHOT_H

#include "cache/arena.h"

typedef struct lh_snapshot {
    lh_ragged view; /* device: what was saved, dense in head order */
    int64_t *len;   /* host, [heads]; NULL: not set */
    int saved;      /* 0: the entries still lie in the arena */
} lh_snapshot;

lh_status lh_snapshot_set(lh_snapshot *snapshot, const lh_arena *arena, lh_device *device);
void lh_snapshot_clear(lh_snapshot *snapshot, lh_device *device);

/* Before the entries of the arena are moved or dropped, and before their numbers change. Nothing where none is set. */
lh_status lh_snapshot_save(lh_snapshot *snapshot, const lh_arena *arena, const lh_exec *exec);
lh_status lh_snapshot_save_stats(lh_snapshot *snapshot, const lh_arena *arena, const lh_exec *exec);

/* The entries come back, each in the slot where it was. */
lh_status lh_snapshot_restore(const lh_snapshot *snapshot, lh_arena *arena, const lh_exec *exec);

int64_t lh_snapshot_held_bytes(const lh_snapshot *snapshot, const lh_arena *arena);

#endif
