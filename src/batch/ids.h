/* ids.h - from a custom_id to a number, by hash: which line of an input or an output it belongs to. */
#ifndef LH_BATCH_IDS_H
#define LH_BATCH_IDS_H

#include <stdint.h>

#include "base/status.h"

typedef struct lh_ids lh_ids;

/* For at most `count` ids, which are borrowed. */
lh_status lh_ids_open(lh_ids **out, int64_t count);
void lh_ids_close(lh_ids *ids); /* NULL is fine */

/* The number of `id`; where it has none, -1, and from now on `number`. */
int64_t lh_ids_add(lh_ids *ids, const char *id, int64_t number);

/* The number of `id`, or -1. */
int64_t lh_ids_find(const lh_ids *ids, const char *id);

#endif
