/* ops_cache_list.h - the operations of ops_cache.h: LH_OP(name, what it does). */
LH_OP(append, "append keys and values to ragged caches")
LH_OP(put_rows, "keep the newest rows in a ring")
LH_OP(put_stats, "store numbers with their entries")
LH_OP(compact, "compact the entries that are kept")
LH_OP(gather_entries, "entries of a head in the order of an index")
