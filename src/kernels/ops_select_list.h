/* ops_select_list.h - the operations of ops_select.h: LH_OP(name, what it does). */
LH_OP(classify, "protected, competing and invisible entries")
LH_OP(histogram, "histograms of the score keys of heads, one radix round")
LH_OP(split_counts, "counts of a selection in two stages")
LH_OP(select_top, "mark the highest scores of each head")
LH_OP(order_entries, "order the entries of each head by score")
LH_OP(rank_scores, "score entries by a function of their rank in an order")
