/* heads.h - which heads a rank owns. KV heads go in contiguous ranges, with their query heads, as even as they can
 * (3 on 2 ranks: 2 + 1). With more ranks than KV heads the query heads go in contiguous ranges, and a rank holds the KV
 * heads that its query heads touch: then a KV head may lie on several ranks, and the lowest of them counts it. If the
 * ranks are a multiple of the KV heads, each group is divided over its own ranks (28 query heads of 4 KV heads on 8
 * ranks: 4 + 3 of each group), so that no rank holds a second KV head. */
#ifndef LH_EXEC_HEADS_H
#define LH_EXEC_HEADS_H

#include <stdint.h>

#include "base/status.h"
#include "comm/comm.h"
#include "kernels/ragged.h"

typedef struct lh_heads {
    int64_t heads, kv_heads, group;       /* of the model; group = heads / kv_heads */
    int64_t q_first, q_count;             /* this rank's query heads */
    int64_t kv_first, kv_count;           /* the KV heads they touch */
    int64_t counted_first, counted_count; /* the KV heads that no lower rank holds */
    int split;                            /* true if any group of the model lies on several ranks */
    int rank, ranks;                      /* the owner of the heads, and the size of its communicator */
} lh_heads;

/* LH_EUSAGE when there are more ranks than query heads, or heads is no multiple of kv_heads. */
lh_status lh_heads_of(lh_heads *out, int64_t heads, int64_t kv_heads, int rank, int ranks);

/* The heads of another rank of the same communicator. */
lh_heads lh_heads_at(const lh_heads *heads, int rank);

/* The ranks that hold a KV head: [*first, *first + *count). */
void lh_heads_sharers(const lh_heads *heads, int64_t kv_head, int *first, int *count);

/* The mapping of query heads to KV heads on this rank, for operations. */
lh_grouping lh_heads_grouping(const lh_heads *heads);

/* Sizes and offsets of the blocks that an all-gather collects from the ranks of a TP group. Allocated once: an
 * allocation between collectives could fail on a single rank. */
typedef struct lh_gather {
    int64_t *bytes, *at; /* [ranks] */
} lh_gather;

lh_status lh_gather_init(lh_gather *gather, int ranks);
void lh_gather_clear(lh_gather *gather);

/* Blocks of `head_bytes` for every query head, or for every KV head (from the rank that counts the head), in the order
 * of the ranks. */
void lh_gather_query_heads(lh_gather *gather, const lh_heads *heads, int64_t head_bytes);
void lh_gather_kv_heads(lh_gather *gather, const lh_heads *heads, int64_t head_bytes);

/* KV head g has lens[g] entries of `entry_bytes`. */
void lh_gather_entries(lh_gather *gather, const lh_heads *heads, const int64_t *lens, int64_t entry_bytes);

/* Collective. all = the lengths of all KV heads of the model, on every rank; lens: of this rank's heads. */
lh_status lh_gather_lens(lh_gather *gather, const lh_heads *heads, lh_comm *comm, const int64_t *lens, int64_t *all);

#endif
