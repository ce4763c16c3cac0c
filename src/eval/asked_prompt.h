/* asked_prompt.h - a text and a question about it as token ids, with the question before the eviction and after it. */
#ifndef LH_EVAL_ASKED_PROMPT_H
#define LH_EVAL_ASKED_PROMPT_H

#include "comm/comm.h"
#include "engine/prompt.h"

/* Whether policies see the question: it is part of the prompt (question-aware), or comes after the eviction
 * (context-only). */
typedef enum lh_scenario { LH_QUESTION_AWARE, LH_CONTEXT_ONLY, LH_SCENARIOS } lh_scenario;
extern const char *const lh_scenario_names[]; /* "question-aware", "context-only", NULL */

typedef struct lh_asked_text {
    const char *text; /* NUL-terminated */
    int64_t bytes;
    const char *question;
    int chat; /* 1: both go into the user's turn of a chat format, as lh_prompt_text; 0: "Question: … Answer:" */
    const char *chat_template, *system;
} lh_asked_text;

typedef struct lh_asked_prompt {
    lh_tokens whole;    /* text and question */
    lh_tokens context;  /* the prompt up to the question … */
    lh_tokens question; /* … and the question */
} lh_asked_prompt;

lh_status lh_asked_prompt_make(lh_asked_prompt *out, const lh_tokenizer *tok, const lh_asked_text *text);
void lh_asked_prompt_clear(lh_asked_prompt *prompt);

/* Collective. Broadcasts the prompt of rank 0; on other ranks it is empty before. */
lh_status lh_asked_prompt_share(lh_comm *comm, lh_asked_prompt *prompt);

/* What is prefilled in a scenario. */
const lh_tokens *lh_asked_prompt_of(const lh_asked_prompt *prompt, lh_scenario scenario);

/* Tokens of the scenario that has more. */
int64_t lh_asked_prompt_tokens(const lh_asked_prompt *prompt);

#endif
