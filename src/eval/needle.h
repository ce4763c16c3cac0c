/* needle.h - the task `needle`: how much of one sentence of a long text a cache still has. */
#ifndef LH_EVAL_NEEDLE_H
#define LH_EVAL_NEEDLE_H

#include "base/table.h"
#include "eval/caches.h"
#include "eval/needle_prompt.h"

/* Do policies see the question? It is inside the prompt (question-aware), or comes after the eviction. */
typedef enum lh_scenario { LH_QUESTION_AWARE, LH_CONTEXT_ONLY, LH_SCENARIOS } lh_scenario;
extern const char *const lh_scenario_names[]; /* "question-aware", "context-only", NULL */

typedef struct lh_needle_request {
    lh_needle_form form; /* the haystack is there on rank 0 only */
    const lh_policy_list *policies;
    const int64_t *lengths;
    int64_t length_count;
    const double *depths;
    int64_t depth_count;
    int scenarios[LH_SCENARIOS]; /* 1: wanted */
    uint64_t seed;               /* the first of `seeds` */
    int64_t seeds, max_new;
    int64_t together; /* as lh_caches_request */
    lh_eval_progress progress;
} lh_needle_request;

/* Rows are rank 0's; each is whole as soon as it is there. The request has to outlive it. */
typedef struct lh_needle_result {
    const lh_needle_request *request;
    lh_table prompts; /* one row an answer */
} lh_needle_result;

/* Measures of an answer. exact: 1 when the answer has the words of the secret one after the other; words: share of the
 * secret's words that the answer has; both without case and punctuation. answered: 1 when the full cache's answer to
 * this prompt is exact. */
extern const lh_column lh_needle_prompt_columns[], lh_needle_mean_columns[];

/* Collective. One prompt of every length is made before the first one is read. *out is filled while it works, for what
 * looks at it in `progress`; it is the caller's also when this fails. */
lh_status lh_needle_run(lh_needle_result *out, lh_engine *engine, const lh_needle_request *request);
void lh_needle_result_clear(lh_needle_result *result);

/* Means over depths and seeds of what there is: a row for every policy, budget, length and scenario. `…_answered`: of
 * the prompts alone that the full cache answers; NAN where there are none. */
lh_status lh_needle_means(const lh_needle_result *result, lh_table *means);

/* The means as text: a table for every length and scenario, policies down, budgets across; appended. */
lh_status lh_needle_print(const lh_needle_result *result, lh_buf *out);

#endif
