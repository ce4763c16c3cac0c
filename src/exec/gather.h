/* gather.h - sizes and places of what an all-gather collects from the ranks of a TP group. Made once: an allocation
 * between collectives could fail on one rank alone. */
#ifndef LH_EXEC_GATHER_H
#define LH_EXEC_GATHER_H

#include "comm/comm.h"
#include "exec/heads.h"

typedef struct lh_gather {
    int64_t *bytes, *at; /* [ranks] */
} lh_gather;

lh_status lh_gather_init(lh_gather *gather, int ranks);
void lh_gather_clear(lh_gather *gather);

/* Blocks of `head_bytes` for every query head, or for every KV head (from the rank that counts it), in the order of the
 * ranks. */
void lh_gather_query_heads(lh_gather *gather, const lh_heads *heads, int64_t head_bytes);
void lh_gather_kv_heads(lh_gather *gather, const lh_heads *heads, int64_t head_bytes);

/* KV head g has lens[g] entries of `entry_bytes`. */
void lh_gather_entries(lh_gather *gather, const lh_heads *heads, const int64_t *lens, int64_t entry_bytes);

/* Collective. Lengths of this rank's heads -> of all KV heads of the model, on every rank. */
lh_status lh_gather_lens(lh_gather *gather, const lh_heads *heads, lh_comm *comm, const int64_t *lens, int64_t *all);

#endif
