/* asked_sizes.h - the lengths of prompts that are made of the lines of a file: all are known before the first prefill,
 * so that one that is too long is reported early. */
#ifndef LH_LAB_EVAL_ASKED_SIZES_H
#define LH_LAB_EVAL_ASKED_SIZES_H

#include "lab/eval/asking.h"

typedef struct lh_asked_size {
    int64_t whole, context, question; /* tokens */
    int64_t answers;                  /* of the right answer, or of all choices */
    int64_t longest;                  /* of the longest of them */
    int64_t line, max_new;            /* as of the prompt */
} lh_asked_size;

/* The same on all ranks. All zero is empty. */
typedef struct lh_asked_sizes {
    lh_asked_size *at;
    int64_t n;
} lh_asked_sizes;

/* Collective. Makes every prompt on rank 0; n is the number there. LH_EUSAGE, naming the line ('--data'), if a prompt
 * and its answer are longer than the model allows, or a policy is impossible for it. Logs the warnings of policies for
 * the longest and the shortest. */
lh_status lh_asked_sizes_measure(lh_asked_sizes *out, lh_asking *asking, int64_t n);
void lh_asked_sizes_clear(lh_asked_sizes *sizes);

/* For lh_asker.describe: named by line and scenario, with a seed of its own for every prompt. */
void lh_asked_sizes_describe(const lh_asked_sizes *sizes, int64_t number, lh_scenario scenario, lh_asked_case *out);

#endif
