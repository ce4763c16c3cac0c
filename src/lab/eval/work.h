/* work.h - how much of an evaluation is done, and how long the rest takes. Prefills and answers have costs of their
 * own, so each is counted in its own unit and timed: the time left is what remains of each at its own pace. */
#ifndef LH_LAB_EVAL_WORK_H
#define LH_LAB_EVAL_WORK_H

#include <stdint.h>

#include "import/config.h"

typedef enum lh_work_kind { LH_WORK_PREFILL, LH_WORK_ANSWER, LH_WORK_KINDS } lh_work_kind;

/* Prefills in lh_prefill_cost, answers in tokens. */
typedef struct lh_work_pace {
    double done, total, seconds; /* seconds: that `done` took */
} lh_work_pace;

typedef struct lh_eval_work lh_eval_work;

/* Progress of a task, called on every rank at the same points, so that it may be collective; `advance` may be NULL. */
typedef struct lh_eval_progress {
    void *self;
    void (*advance)(void *self, const lh_eval_work *work);
} lh_eval_progress;

struct lh_eval_work {
    lh_eval_progress progress;
    int64_t prompts, prompt_total; /* finished ones, those of an interrupted run included */
    int64_t resumed;               /* of an interrupted run; they are not in `pace` */
    lh_work_pace pace[LH_WORK_KINDS];
    double since_s; /* when the last step ended */
};

/* The cost of a prefill in multiplications per layer: projections and MLP are linear in the tokens, attention is
 * quadratic. */
double lh_prefill_cost(const lh_config *config, int64_t tokens);

/* Begins the clock, after what is expected was added to pace[].total. */
void lh_work_begin(lh_eval_work *work);

/* `amount` of this kind is done since the last call of any of these. */
void lh_work_advance(lh_eval_work *work, lh_work_kind kind, double amount);

/* Shows that `amount` of a step is done, which lh_work_advance will count when it has ended. */
void lh_work_show(const lh_eval_work *work, lh_work_kind kind, double amount);

/* A prompt is finished. */
void lh_work_finish_prompt(lh_eval_work *work);

/* Seconds that the rest takes; negative as long as something that remains has not been timed. */
double lh_work_left_s(const lh_eval_work *work);

#endif
