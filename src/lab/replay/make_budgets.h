/* make_budgets.h - budgets of KV heads and layers, learnt from traces: a policy is replayed at budgets around the
 * given one, with the same budget for all heads, which gives the loss curve of every KV head; it divides the
 * budget by these curves; the result is a file of weights (policies/profile.h). Where a policy divides the budget of a
 * layer itself, because its heads compete or share a keep set, units are layers, also in the file. */
#ifndef LH_LAB_REPLAY_MAKE_BUDGETS_H
#define LH_LAB_REPLAY_MAKE_BUDGETS_H

#include "base/status.h"
#include "lab/replay/replay.h"

/* The policy, and the budgets of its loss curves as multiples of the policy's budget. */
typedef struct lh_budget_grid {
    lh_policy policy;
    int64_t points;
    double shares[LH_STUDY_BUDGETS];
} lh_budget_grid;

/* What to replay: the policy of the options, which must be one at one budget, at budgets from 1/13 to 13 times that
 * one. LH_EUSAGE naming the option that would be right. */
lh_status lh_budget_grid_make(lh_budget_grid *out, lh_policy_list *policies, const lh_policy_options *options);

typedef struct lh_made_budgets {
    lh_profile profile;     /* without name and hash */
    double uniform, made;   /* losses with uniform budgets and with these, on the traces that they were made from */
    double least, greatest; /* shares of the budget that a unit gets */
} lh_made_budgets;

/* From a replay of the grid's policies with the analysis `perturbation`. The loss of a KV head: the squared change of
 * what its query heads add to the hidden state, over the square of what all heads of the layer add. LH_EUSAGE where
 * nothing is evicted; LH_EFILE where the traces lack a layer. Clear also after a failure. */
lh_status lh_made_budgets_make(lh_made_budgets *out, const lh_replay *replay, const lh_budget_grid *grid);
void lh_made_budgets_clear(lh_made_budgets *made);

/* Appends the file, with a comment that names its origin. */
lh_status lh_made_budgets_text(const lh_made_budgets *made, const lh_replay *replay, const lh_budget_grid *grid,
                               lh_buf *out);

/* One budget divided among units (KV heads, or layers) by their loss curves: losses as a function of the share that a
 * unit keeps. Marginal gains are taken in order, on the lower convex hull of every curve, until the budget is spent
 * (LU-KV, arXiv 2602.08585; the head budgets of attention matching, arXiv 2602.16284). On the hulls this has the least
 * sum of losses. */
/* Shares are multiples of the mean budget of a unit. */
typedef struct lh_loss_curves {
    int64_t units, points;
    const double *shares; /* [points] ascending, 1 among them */
    const double *losses; /* [units, points], finite */
    double least;         /* share that every unit gets, at most 1; at least the first point */
} lh_loss_curves;

/* shares: [units], with the mean 1. Equal gains go to the lower unit; a remainder smaller than the next step goes to
 * the unit with the largest gain from it; a remainder without any gain is divided evenly. Never worse than 1 for every
 * unit. */
lh_status lh_curves_allocate(const lh_loss_curves *curves, double *shares);

/* The sum of the losses with these shares; straight between points. shares NULL: 1 for every unit. */
double lh_curves_loss(const lh_loss_curves *curves, const double *shares);

#endif
