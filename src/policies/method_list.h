/* method_list.h - the methods of policies, once each, by name. Each has a separate file, mostly in src/evict, with its
 * options, its help and its computation (method.h). A new method is that file and its line here. */

/* Scores, in the order of '--statistic'. The caller's are functions of a program or a plug-in. */
LH_METHOD(sum)
LH_METHOD(mean)
LH_METHOD(mas)
LH_METHOD(count)
LH_METHOD(rms)
LH_METHOD(max)
LH_METHOD(output_error)
LH_METHOD(last)
LH_METHOD(position)
LH_METHOD(random)
LH_METHOD(key_norm)
LH_METHOD(key_difference)
LH_METHOD(lag)
LH_METHOD(leverage)
LH_METHOD(expected)
LH_METHOD(linear)
LH_METHOD(caller)
LH_METHOD(caller_rows)

/* Selections by these scores, in the order of '--select'. */
LH_METHOD(topk)
LH_METHOD(two_stage)
LH_METHOD(std_scope)
LH_METHOD(topk_sample)
LH_METHOD(topk_keys)

/* Additions, each activated by an option. Changes of scores are applied in this order. */
LH_METHOD(gain)
LH_METHOD(non_causal)
LH_METHOD(value_prior)
LH_METHOD(mean_floor)
LH_METHOD(value_norms)
LH_METHOD(learnt)
LH_METHOD(values)
LH_METHOD(losses)
LH_METHOD(fit)
LH_METHOD(adaptive)
LH_METHOD(adaptive_layers)
LH_METHOD(pyramid)
LH_METHOD(kvpress)
