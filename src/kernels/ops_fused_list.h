/* ops_fused_list.h - the operations of ops_fused.h: LH_OP(name, what it does). */
LH_OP(norm_gemm, "norm of rows, a matrix product of them, and its gate")
LH_OP(rope_append, "norm and rotate queries and keys, append keys and values")
