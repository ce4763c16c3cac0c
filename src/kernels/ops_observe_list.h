/* ops_observe_list.h - the operations of ops_observe.h: LH_OP(name, what it does). */
LH_OP(row_lse, "log-sum-exp of query rows over the entries that they see")
LH_OP(column_stats, "attention that entries receive from query rows: sums, squares, counts")
