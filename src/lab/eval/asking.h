/* asking.h - what the tasks share that ask questions about texts: every policy's cache answers each prompt, with the
 * question in the prompt or after the eviction, and then says how likely the right answer is. A task makes prompts and
 * judges answers; the scenarios, the chat format, the answers, and the prompts that an interrupted run has finished are
 * looked after here. */
#ifndef LH_LAB_EVAL_ASKING_H
#define LH_LAB_EVAL_ASKING_H

#include "lab/eval/asked_prompt.h"
#include "lab/eval/caches.h"
#include "lab/eval/likelihood.h"

enum { LH_PROMPT_NAME_BYTES = 128 };

/* One prompt in one scenario. */
typedef struct lh_asked_case {
    char name[LH_PROMPT_NAME_BYTES]; /* what its keep sets are named after */
    uint64_t seed;                   /* of the policies' random choices; begins as that of the setup */
    int64_t tokens;                  /* that are prefilled */
    int64_t answer;  /* tokens of the right answer, or of all choices, more or less: for the time left */
    int64_t max_new; /* of the answer; begins as that of the setup */
} lh_asked_case;

typedef struct lh_asked_answer {
    int64_t policy; /* index in the list */
    lh_scenario scenario;
    const lh_asked_prompt *prompt;
    const lh_eval_figures *figures;
    const char *text;
    lh_answer_likelihood right;          /* the right answer's */
    const lh_answer_likelihood *choices; /* [prompt->choice_count] */
} lh_asked_answer;

/* The functions of a task, called with lh_asking.self. Prompts are numbered from 0. */
typedef struct lh_asker {
    lh_status (*make)(void *self, int64_t number, lh_asked_prompt *out); /* on rank 0; *out is empty */
    void (*describe)(const void *self, int64_t number, lh_scenario scenario, lh_asked_case *out);
    lh_status (*judge)(void *self, const lh_asked_answer *answer); /* on rank 0; adds a row to the table */
} lh_asker;

typedef struct lh_asking {
    /* The task's to fill: */
    lh_engine *engine;
    const lh_eval_setup *setup;
    const int *scenarios; /* [LH_SCENARIOS] 1: ask in this one */
    lh_table *tables[2];  /* of the answers, on rank 0; ends with NULL */
    const lh_asker *asker;
    void *self;
    /* The state: */
    lh_asked_format chat;
    lh_asked_prompt prompt; /* the current one */
    lh_asked_case now;
    lh_scenario scenario;
    lh_eval_work work;
} lh_asking;

/* Collective. Checks what all prompts have in common, and opens the chat format. LH_EUSAGE: the model has no tokenizer,
 * or a policy cannot see the question. Close also after a failure. */
lh_status lh_asking_open(lh_asking *asking, const lh_asked_chat *chat);
void lh_asking_close(lh_asking *asking);

/* Collective. The prompt with this number is the current one on all ranks. LH_EUSAGE if it and its right answer are
 * longer than the model allows. */
lh_status lh_asking_make(lh_asking *asking, int64_t number);

/* Collective. Asks prompts 0 to n - 1 in their scenarios, after those that an interrupted run has finished. */
lh_status lh_asking_run(lh_asking *asking, int64_t n);

#endif
