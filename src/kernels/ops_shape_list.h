/* ops_shape_list.h - the operations of ops_shape.h: LH_OP(name, what it does). */
LH_OP(group_reduce, "join the query heads of a group")
LH_OP(pool, "pool scores along positions")
LH_OP(weigh_scores, "multiply scores with norms")
LH_OP(apply_prior, "multiply scores with a prior whose maximum is 1")
LH_OP(defend_scores, "raise scores to the mean of their head, and weigh them by shares of norms")
LH_OP(max_score, "the largest score that competes")
LH_OP(add_heads, "add the scores of all heads as integers")
LH_OP(share_scores, "one row of scores for all heads")
