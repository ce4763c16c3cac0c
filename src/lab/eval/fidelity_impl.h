/* fidelity_impl.h - the column indices of fidelity's tables, shared by fidelity.c (rows) and fidelity_means.c
 * (means). */
#ifndef LH_LAB_EVAL_FIDELITY_IMPL_H
#define LH_LAB_EVAL_FIDELITY_IMPL_H

#include "lab/eval/figures.h"

enum {
    W_POLICY,
    W_BUDGET,
    W_LENGTH,
    W_WINDOW,
    W_TOKENS,
    W_AGREEMENT,
    W_DIVERGED,
    W_ROUGE1,
    W_ROUGE2,
    W_ROUGEL,
    W_BLEU,
    W_KL,
    W_BEST,
    W_TEXT,
    W_FIGURES,
    W_COLUMNS = W_FIGURES + LH_FIGURES
};

enum { R_POLICY, R_BUDGET, R_LENGTH, R_WINDOW, R_ROUGE1, R_ROUGE2, R_ROUGEL, R_BLEU, R_TEXT, R_COLUMNS };

#endif
