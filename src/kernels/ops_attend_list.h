/* ops_attend_list.h - the operations of ops_attend.h: LH_OP(name, what it does). */
LH_OP(attend_block, "causal attention of a block of rows over a ragged cache")
LH_OP(attend_decode, "attention of one row a sequence, over a batch of ragged caches")
