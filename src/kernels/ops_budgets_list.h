/* ops_budgets_list.h - the operations of ops_budgets.h: LH_OP(name, what it does). */
LH_OP(add_histograms, "sum of the histograms of heads, without their safeguarded entries")
LH_OP(refine_threshold, "threshold of the best entries of all heads, one radix round")
LH_OP(head_budgets, "entries that each head keeps, with a safeguard (AdaKV)")
