/* ops_budgets_list.h - the operations of ops_budgets.h: LH_OP(name, what it does). */
LH_OP(add_histograms, "add up the histograms of heads, without what they are sure of")
LH_OP(refine_threshold, "the bin of a radix round that holds the last of the best")
LH_OP(head_budgets, "what heads keep whose entries compete")
