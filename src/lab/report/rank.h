/* rank.h - figures that measure policies over budgets, as a ranking: which policy is ahead at a budget, or why none is.
 */
#ifndef LH_LAB_REPORT_RANK_H
#define LH_LAB_REPORT_RANK_H

#include "lab/report/samples.h"
#include "lab/report/view.h"

typedef struct lh_ranking {
    lh_view view; /* budgets along x, policies as series, means over all else */
    const lh_samples *samples;
    int64_t quoted; /* the budget that a summary names: 10%, or one in the middle */
    int64_t *order; /* policies, the best at that budget first; references too */
} lh_ranking;

/* 1 if a figure has policies and its x is budgets, and one direction is better. */
int lh_can_rank(const lh_figure *figure);

/* Of a figure that can be ranked; `samples` are borrowed. */
lh_status lh_ranking_init(lh_ranking *ranking, const lh_figure *figure, const lh_samples *samples);
void lh_ranking_clear(lh_ranking *ranking);

/* What a measure says about the policies at a budget. References, and cells whose budget is filled by protected
 * entries, take no part. */
typedef enum lh_standing {
    LH_STANDING_NONE,       /* no policy has a value */
    LH_STANDING_ALONE,      /* one has */
    LH_STANDING_UNANSWERED, /* the full cache answers nothing, so that nothing could be lost */
    LH_STANDING_CHANCE,     /* the policy `random` is as good as the best one */
    LH_STANDING_EQUAL,      /* another policy has the same value, to the three digits that are shown */
    LH_STANDING_LOSSLESS,   /* another one is no worse than the full cache either: nobody loses anything */
    LH_STANDING_UNCLEAR,    /* another one is no worse by the interval of the paired differences, or has no interval */
    LH_STANDING_AHEAD,      /* one is better than all others */
    LH_STANDINGS
} lh_standing;

typedef struct lh_verdict {
    lh_standing standing;
    int64_t best, rival; /* rival: the one that equals it, that it is not clearly better than, or the next; -1: none */
    lh_lead lead;        /* of `best` over `rival`, in the direction of the values; ends NAN: by the values alone */
} lh_verdict;

lh_verdict lh_ranking_judge(const lh_ranking *ranking, int64_t budget);

/* 1 if the policy is not clearly worse than the best one at this budget, and some policy is. */
int lh_ranking_leads(const lh_ranking *ranking, int64_t policy, int64_t budget);

/* The reference of this name among the policies; -1: none. */
int64_t lh_ranking_reference(const lh_ranking *ranking, const char *name);

#endif
