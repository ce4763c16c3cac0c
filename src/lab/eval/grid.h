/* grid.h - a Markdown table with policies as rows and budgets as columns. */
#ifndef LH_LAB_EVAL_GRID_H
#define LH_LAB_EVAL_GRID_H

#include "base/mem.h"
#include "policies/list.h"

/* `cell` appends the text of one policy and budget to *out. */
typedef struct lh_grid {
    const void *self;
    lh_status (*cell)(const void *self, const lh_policy_choice *choice, lh_buf *out);
} lh_grid;

/* Appends the table. `full`, which has no budget, is alone in the first column of numbers; the cell of a policy that
 * was not run with a budget is empty. */
lh_status lh_grid_print(const lh_policy_list *policies, const lh_grid *grid, lh_buf *out);

#endif
