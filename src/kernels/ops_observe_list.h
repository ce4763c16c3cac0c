/* ops_observe_list.h - the operations of ops_observe.h: LH_OP(name, what it does). */
LH_OP(row_lse, "log-sum-exp of observed rows over the entries they see")
LH_OP(column_stats, "what columns receive from the observed rows: sums, squares, counts")
