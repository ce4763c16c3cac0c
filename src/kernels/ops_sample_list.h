/* ops_sample_list.h - the operations of ops_sample.h: LH_OP(name, what it does). */
LH_OP(penalise, "logits with a penalty on tokens seen")
LH_OP(top_logits, "the largest logits of a row")
LH_OP(sum_probabilities, "the sum of the probabilities of logits")
