/* grid.h - a table for people: policies down, budgets across, in the style of markdown. */
#ifndef LH_EVAL_GRID_H
#define LH_EVAL_GRID_H

#include "base/mem.h"
#include "policies/list.h"

/* What stands where a policy meets a budget, appended to *out. */
typedef struct lh_grid {
    const void *self;
    lh_status (*cell)(const void *self, const lh_policy_choice *choice, lh_buf *out);
} lh_grid;

/* Appended. `full`, which has no budget, stands alone in the first column of numbers; a policy that was not run with a
 * budget has an empty cell there. */
lh_status lh_grid_print(const lh_policy_list *policies, const lh_grid *grid, lh_buf *out);

#endif
