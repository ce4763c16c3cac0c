/* heads.h - which heads a rank owns. KV heads go in contiguous ranges, with their query heads, as even as they can
 * (3 on 2 ranks: 2 + 1). With more ranks than KV heads the query heads go in contiguous ranges, and a rank holds the KV
 * heads that its query heads touch: then a KV head may lie on several ranks, and the lowest of them counts it. If the
 * ranks are a multiple of the KV heads, each group is divided over its own ranks (28 query heads of 4 KV heads on 8
 * ranks: 4 + 3 of each group), so that no rank holds a second KV head. */
#ifndef LH_EXEC_HEADS_H
#define LH_EXEC_HEADS_H

#include <stdint.h>

#include "base/status.h"
#include "kernels/ragged.h"

typedef struct lh_heads {
    int64_t heads, kv_heads, group;       /* of the model; group = heads / kv_heads */
    int64_t q_first, q_count;             /* this rank's query heads */
    int64_t kv_first, kv_count;           /* the KV heads they touch */
    int64_t counted_first, counted_count; /* those of them that no lower rank holds */
    int split;       /* 1: some group lies on several ranks (of this communicator, not only here) */
    int rank, ranks; /* whose heads these are */
} lh_heads;

/* LH_EUSAGE when there are more ranks than query heads, or heads is no multiple of kv_heads. */
lh_status lh_heads_of(lh_heads *out, int64_t heads, int64_t kv_heads, int rank, int ranks);

/* The heads of another rank of the same communicator. */
lh_heads lh_heads_at(const lh_heads *heads, int rank);

/* The ranks that hold a KV head: [*first, *first + *count). */
void lh_heads_sharers(const lh_heads *heads, int64_t kv_head, int *first, int *count);

/* The mapping that operations take, for the heads of this rank. */
lh_grouping lh_heads_grouping(const lh_heads *heads);

#endif
