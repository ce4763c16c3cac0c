/* prompt.h - text of a user, plain or in a chat format, to the token ids of a session. */
#ifndef LH_ENGINE_PROMPT_H
#define LH_ENGINE_PROMPT_H

#include "engine/engine.h"

typedef struct lh_prompt_text {
    const char *text; /* of the prompt */
    int64_t bytes;
    const char *const *questions; /* evict on the text once, answer each from there */
    int64_t question_count;
    int chat;                  /* 1: render in a chat format, the text (and question) as the user's turn */
    const char *chat_template; /* name or file; NULL: the model's own */
    const char *system;        /* NULL: none */
    int after_cache;           /* 1: continues a loaded cache, so no first token is added */
} lh_prompt_text;

/* *prompt: ids of the text, with the first token that the tokenizer asks for. *questions: [question_count] new memory.
 * With a chat format the rendered template is cut where the question begins: context first in the user's turn, an empty
 * line, the question. */
lh_status lh_prompt_encode(const lh_tokenizer *tok, const lh_prompt_text *in, lh_tokens *prompt, lh_tokens **questions);

/* Tokens that end an answer in the chat format, besides the tokenizer's own end tokens; none without a chat. */
lh_status lh_prompt_ends(const lh_tokenizer *tok, const lh_prompt_text *in, lh_tokens *ends);

/* Append ids that are written separated by white space, each in [0, vocab): those of a file, or of a text that
 * messages call `name`. LH_EINPUT naming it and what is no such id. */
lh_status lh_prompt_ids(const char *path, int64_t vocab, lh_tokens *out);
lh_status lh_prompt_ids_parse(const char *name, const lh_buf *text, int64_t vocab, lh_tokens *out);

#endif
