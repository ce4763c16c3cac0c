/* recall_tables.h - the rows of `recall`: one for every fact that a cache was asked for, and one for every trace that
 * it was fed. Their means are in recall.h. */
#ifndef LH_LAB_EVAL_RECALL_TABLES_H
#define LH_LAB_EVAL_RECALL_TABLES_H

#include "lab/eval/measures.h"
#include "lab/eval/recall.h"

/* A cache of a window. */
typedef struct lh_recall_at {
    const lh_cache_at *cache;
    const lh_recall_spec *spec;
    const lh_recall_trace *trace;
} lh_recall_at;

/* Adds the row of fact `place` of the window. */
lh_status lh_recall_add_fact(lh_recall_result *out, const lh_recall_at *at, int64_t place,
                             const lh_answer_likelihood *answer);

/* Means over the fed tokens, in nats. */
typedef struct lh_recall_along {
    double kl, nll;
    double full_nll; /* nll of the full cache */
} lh_recall_along;
lh_status lh_recall_add_trace(lh_recall_result *out, const lh_recall_at *at, const lh_recall_along *along);

#endif
