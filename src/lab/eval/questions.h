/* questions.h - the shared part of tasks that ask questions about texts: every policy's cache answers each prompt, with
 * the question in the prompt or after the eviction, and then the likelihood of the right answer is measured. A task
 * makes prompts and judges answers; scenarios, chat format, answers and the finished prompts of an interrupted run are
 * handled here. */
#ifndef LH_LAB_EVAL_QUESTIONS_H
#define LH_LAB_EVAL_QUESTIONS_H

#include "comm/comm.h"
#include "engine/prompt.h"
#include "lab/eval/run_policies.h"

/* ---- prompts: a text and a question about it as token ids, with the question before the eviction and after it ---- */

/* The chat format of the options: of the model, or named. */
typedef struct lh_eval_chat {
    int on;                    /* 0: prompts are plain text */
    const char *chat_template; /* name or file; NULL: the model's own */
    const char *system;        /* message; NULL: none */
    const json_t *arguments;   /* variables of the template; NULL: none */
} lh_eval_chat;

/* Collective. Opens the format once, on rank 0 alone, and finds the tokens that end an answer in it. */
typedef struct lh_eval_format {
    const lh_chat_format *format; /* NULL: none, and on other ranks */
    const json_t *arguments;      /* of lh_eval_chat */
    lh_tokens ends;               /* on all ranks */
} lh_eval_format;
lh_status lh_eval_format_open(lh_eval_format *out, const lh_engine *engine, const lh_eval_chat *chat);
void lh_eval_format_close(lh_eval_format *format);

typedef struct lh_eval_prompt_text {
    const char *text; /* NUL-terminated */
    int64_t bytes;
    const char *question;
    const char *answer;         /* right answer, which continues the prompt; NULL: see choices */
    const char *const *choices; /* [choice_count] that may continue it, a blank before each in plain text */
    int64_t choice_count;
    const lh_chat_format *format; /* text and question go into the user's turn; NULL: "Question: … Answer:" */
    const json_t *arguments;      /* variables of its template; NULL: none */
    const char *system;           /* message, with a format; NULL: none */
    const char *joint;            /* between text and question, which are used unchanged then; NULL: an empty line */
    const char *prefix; /* with a joint: the beginning of the answer, which is given to the model; NULL: none */
} lh_eval_prompt_text;

typedef struct lh_eval_prompt {
    lh_tokens whole;    /* text and question */
    lh_tokens context;  /* the prompt up to the question … */
    lh_tokens question; /* … and the question */
    lh_tokens answer;   /* right answer; no tokens: there is none, or it is empty */
    lh_tokens *choices; /* [choice_count] instead of a right answer */
    int64_t choice_count;
    int64_t line;    /* of its file; 0: none */
    int64_t max_new; /* maximum tokens of an answer; 0: the setup's */
} lh_eval_prompt;

lh_status lh_eval_prompt_make(lh_eval_prompt *out, const lh_tokenizer *tok, const lh_eval_prompt_text *text);
void lh_eval_prompt_clear(lh_eval_prompt *prompt);

/* Collective. Broadcasts the prompt of rank 0; on other ranks it is empty before. */
lh_status lh_eval_prompt_share(lh_comm *comm, lh_eval_prompt *prompt);

/* The tokens that are prefilled in a scenario. */
const lh_tokens *lh_eval_prompt_of(const lh_eval_prompt *prompt, lh_scenario scenario);

/* Number of tokens of the right answer, or of the longest choice. */
int64_t lh_eval_prompt_longest(const lh_eval_prompt *prompt);

/* Number of tokens of text and question in a scenario, and the larger number of both scenarios. */
int64_t lh_eval_prompt_tokens(const lh_eval_prompt *prompt, lh_scenario scenario);
int64_t lh_eval_prompt_max(const lh_eval_prompt *prompt);

/* ---- the task ---- */

enum { LH_PROMPT_NAME_BYTES = 128 };

/* One prompt in one scenario. */
typedef struct lh_question_case {
    char name[LH_PROMPT_NAME_BYTES]; /* name of the prompt in the names of keep sets */
    uint64_t seed;                   /* of the policies' random choices; initially the setup's */
    int64_t tokens;                  /* number of prefilled tokens */
    int64_t answer;                  /* estimated tokens of the right answer, or of all choices: for the time left */
    int64_t max_new;                 /* maximum tokens of the answer; initially the setup's */
} lh_question_case;

typedef struct lh_question_answer {
    int64_t policy; /* index in the list */
    lh_scenario scenario;
    const lh_eval_prompt *prompt;
    const lh_eval_figures *figures;
    const char *text;
    lh_answer_likelihood right;          /* of the right answer */
    const lh_answer_likelihood *choices; /* [prompt->choice_count] */
} lh_question_answer;

/* The functions of a task, called with lh_question_task.self. Prompts are numbered from 0. */
typedef struct lh_question_ops {
    lh_status (*make)(void *self, int64_t number, lh_eval_prompt *out); /* on rank 0; *out is empty */
    void (*describe)(const void *self, int64_t number, lh_scenario scenario, lh_question_case *out);
    lh_status (*judge)(void *self, const lh_question_answer *answer); /* on rank 0; adds a row to the table */
} lh_question_ops;

typedef struct lh_question_task {
    /* Set by the task: */
    lh_engine *engine;
    const lh_eval_setup *setup;
    const int *scenarios; /* [LH_SCENARIOS] true: ask in this scenario */
    lh_table *tables[2];  /* of the answers, on rank 0; ends with NULL */
    const lh_question_ops *ops;
    void *self;
    /* State: */
    lh_eval_format chat;
    lh_eval_prompt prompt; /* the current one */
    lh_question_case now;
    lh_scenario scenario;
    lh_eval_work work;
} lh_question_task;

/* Collective. Checks what all prompts have in common, and opens the chat format. LH_EUSAGE: the model has no tokenizer,
 * or a policy cannot see the question. Close also after a failure. */
lh_status lh_question_task_open(lh_question_task *task, const lh_eval_chat *chat);
void lh_question_task_close(lh_question_task *task);

/* Collective. The prompt with this number is the current one on all ranks. LH_EUSAGE if it and its right answer are
 * longer than the model allows. */
lh_status lh_question_task_make(lh_question_task *task, int64_t number);

/* Collective. Asks prompts 0 to n - 1 in their scenarios, after those that an interrupted run has finished. */
lh_status lh_question_task_run(lh_question_task *task, int64_t n);

/* ---- sizes: the lengths of all prompts of a file, known before the first prefill, so that a prompt that is too long
 * is reported early ---- */

typedef struct lh_question_size {
    int64_t whole, context, question; /* tokens */
    int64_t answers;                  /* tokens of the right answer, or of all choices */
    int64_t longest;                  /* tokens of the right answer, or of the longest choice */
    int64_t line, max_new;            /* as in lh_eval_prompt */
} lh_question_size;

/* The same on all ranks. All zero is empty. */
typedef struct lh_question_sizes {
    lh_question_size *at;
    int64_t n;
} lh_question_sizes;

/* Collective. Makes every prompt on rank 0; n: number of prompts on rank 0. LH_EUSAGE, naming the line ('--data'), if a
 * prompt and its answer are longer than the model allows, or a policy is impossible for it. Logs the warnings of
 * policies for the longest and the shortest. */
lh_status lh_question_sizes_measure(lh_question_sizes *out, lh_question_task *task, int64_t n);
void lh_question_sizes_clear(lh_question_sizes *sizes);

/* For lh_question_ops.describe: a name made of line and scenario, and a different seed for every prompt. */
void lh_question_sizes_describe(const lh_question_sizes *sizes, int64_t number, lh_scenario scenario,
                                lh_question_case *out);

#endif
