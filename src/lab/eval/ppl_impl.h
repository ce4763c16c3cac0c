/* ppl_impl.h - the column indices of the tables of `ppl`, shared by ppl.c (rows) and ppl_means.c (means). */
#ifndef LH_LAB_EVAL_PPL_IMPL_H
#define LH_LAB_EVAL_PPL_IMPL_H

#include "lab/eval/figures.h"

enum {
    W_POLICY,
    W_BUDGET,
    W_CONTEXT,
    W_WINDOW,
    W_TEXT,
    W_AT,
    W_TOKENS,
    W_NLL,
    W_FIGURES,
    W_COLUMNS = W_FIGURES + LH_FIGURES
};

enum { P_POLICY, P_BUDGET, P_CONTEXT, P_WINDOW, P_FROM, P_TOKENS, P_NLL, P_COLUMNS };

#endif
