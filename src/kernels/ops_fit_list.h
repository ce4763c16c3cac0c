/* ops_fit_list.h - the operations of ops_fit.h: LH_OP(name, what it does). */
LH_OP(row_weights, "weights that query rows give to entries, from logits")
LH_OP(normalise_rows, "weights of rows, by factors, as shares of their sum")
LH_OP(transpose, "transpose a matrix, between number formats")
LH_OP(conjugate_gradients, "one step of conjugate gradients for ridge regressions that share a matrix")
LH_OP(mass_bias, "biases of entries that make up for evicted attention")
LH_OP(curve_losses, "losses of attention outputs by the number of entries that stay")
LH_OP(output_errors, "squared errors of attention outputs without an entry")
