/* task_prompts.h - the prompt of a record of `eval tasks`, and how it is truncated. */
#ifndef LH_LAB_EVAL_TASK_PROMPTS_H
#define LH_LAB_EVAL_TASK_PROMPTS_H

#include "lab/eval/questions.h"
#include "lab/eval/task_files.h"
#include "text/truncate.h"

typedef struct lh_task_limits {
    lh_truncation part; /* of the prompt to remove */
    int64_t max_prompt; /* maximum tokens of the prompt before the chat format, with the first token that the tokenizer
                           adds; 0: any number */
    int64_t length;     /* maximum tokens of prompt and answer; 0: any number */
    int64_t positions;  /* of the model */
    int64_t max_new;    /* maximum tokens of the answer */
} lh_task_limits;

typedef struct lh_task_prompt {
    lh_eval_prompt *prompt;
    int64_t context_tokens, left_out; /* tokens of the context in the prompt, and those that were left out */
} lh_task_prompt;

/* A prompt that is too long is decoded again from the kept tokens, as the published scripts do it: without the middle,
 * of context, question and answer prefix as one text; otherwise start or end of the context are left out. LH_EUSAGE if
 * the prompt fits without its context only, or if it is longer than the positions and there is no limit. The right
 * answer, for its likelihood, ends at the positions. */
lh_status lh_task_prompt_make(lh_task_prompt *out, const lh_tokenizer *tok, const lh_task_record *record,
                              const lh_eval_prompt_text *how, const lh_task_limits *limits);

/* Appends the right answer, or all parts of it. */
lh_status lh_task_right_answer(lh_buf *out, const lh_task_record *record);

#endif
