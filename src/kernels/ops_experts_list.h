/* ops_experts_list.h - the operations of ops_experts.h: LH_OP(name, what it does). */
LH_OP(route, "choose the experts of tokens and order tokens by expert")
LH_OP(gather_rows, "rows in the order of an index")
LH_OP(expert_gemm, "matrix products of each expert's rows with its weights")
LH_OP(combine, "add the outputs of a token's experts by their routing weights")
