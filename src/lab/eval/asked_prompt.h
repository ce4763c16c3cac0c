/* asked_prompt.h - a text and a question about it as token ids, with the question before the eviction and after it. */
#ifndef LH_LAB_EVAL_ASKED_PROMPT_H
#define LH_LAB_EVAL_ASKED_PROMPT_H

#include "comm/comm.h"
#include "engine/prompt.h"

/* The chat format that a task is asked for: of the model, or named. */
typedef struct lh_asked_chat {
    int on;                    /* 0: prompts are plain text */
    const char *chat_template; /* name or file; NULL: the model's own */
    const char *system;        /* message; NULL: none */
} lh_asked_chat;

/* Collective. Opens it once, on rank 0 alone, and finds the tokens that end an answer in it. */
typedef struct lh_asked_format {
    const lh_chat_format *format; /* NULL: none, and on other ranks */
    lh_tokens ends;               /* on all ranks */
} lh_asked_format;
lh_status lh_asked_format_open(lh_asked_format *out, const lh_engine *engine, const lh_asked_chat *chat);
void lh_asked_format_close(lh_asked_format *format);

typedef struct lh_asked_text {
    const char *text; /* NUL-terminated */
    int64_t bytes;
    const char *question;
    const char *answer;         /* the right one, which continues the prompt; NULL: see choices */
    const char *const *choices; /* [choice_count] that may continue it, a blank before each in plain text */
    int64_t choice_count;
    const lh_chat_format *format; /* both go into its user's turn; NULL: "Question: … Answer:" */
    const char *system;           /* message, with a format; NULL: none */
    const char *joint;            /* between text and question, which are then taken as they are; NULL: an empty line */
    const char *prefix;           /* with a joint: how the model's answer begins, which is given to it; NULL: nothing */
} lh_asked_text;

typedef struct lh_asked_prompt {
    lh_tokens whole;    /* text and question */
    lh_tokens context;  /* the prompt up to the question … */
    lh_tokens question; /* … and the question */
    lh_tokens answer;   /* the right one, after either; none: there is no right answer, or it is empty */
    lh_tokens *choices; /* [choice_count] of which one is right, in place of it */
    int64_t choice_count;
    int64_t line;    /* of the file that it was made of; 0: none */
    int64_t max_new; /* tokens of an answer; 0: as many as the setup says */
} lh_asked_prompt;

lh_status lh_asked_prompt_make(lh_asked_prompt *out, const lh_tokenizer *tok, const lh_asked_text *text);
void lh_asked_prompt_clear(lh_asked_prompt *prompt);

/* Collective. Broadcasts the prompt of rank 0; on other ranks it is empty before. */
lh_status lh_asked_prompt_share(lh_comm *comm, lh_asked_prompt *prompt);

/* What is prefilled in a scenario. */
const lh_tokens *lh_asked_prompt_of(const lh_asked_prompt *prompt, lh_scenario scenario);

/* Tokens of the right answer, or of the longest choice. */
int64_t lh_asked_prompt_longest(const lh_asked_prompt *prompt);

/* Tokens of text and question in a scenario, and in that which has more. */
int64_t lh_asked_prompt_tokens(const lh_asked_prompt *prompt, lh_scenario scenario);
int64_t lh_asked_prompt_max(const lh_asked_prompt *prompt);

#endif
