/* rank.h - figures that measure policies over budgets, as a ranking: what a summary says first. */
#ifndef LH_REPORT_RANK_H
#define LH_REPORT_RANK_H

#include "report/view.h"

typedef struct lh_ranking {
    lh_view view;    /* budgets along x, policies as series, means over all else */
    int64_t quoted;  /* the budget that a summary names: 10%, or one in the middle */
    int64_t *order;  /* policies, the best at that budget first; references too */
    int64_t best[2]; /* the first and second that are no references; -1: none */
} lh_ranking;

/* 1 if a figure has policies and its x is budgets, and one direction is better. */
int lh_can_rank(const lh_figure *figure);

/* Of a figure that can be ranked. */
lh_status lh_ranking_init(lh_ranking *ranking, const lh_figure *figure);
void lh_ranking_clear(lh_ranking *ranking);

/* 1 if no other policy is better at this budget, and it is no reference. */
int lh_ranking_is_best(const lh_ranking *ranking, int64_t policy, int64_t budget);

/* The reference of this name among the policies; -1: none. */
int64_t lh_ranking_reference(const lh_ranking *ranking, const char *name);

#endif
