/* prompt.h - encodes the user's text as token ids, plain or in a chat format; also reads lists of ids. */
#ifndef LH_ENGINE_PROMPT_H
#define LH_ENGINE_PROMPT_H

#include "engine/engine.h"

typedef struct lh_prompt_text {
    const char *text; /* of the prompt */
    int64_t bytes;
    const char *const *questions; /* questions about the text, each answered from the same cache */
    int64_t question_count;
    int chat;                  /* 1: render in a chat format, the text (and question) as the user's turn */
    const char *chat_template; /* name or file; NULL: the model's own */
    const char *system;        /* NULL: none */
    int after_cache;           /* 1: continues a loaded cache, so no first token is added */
} lh_prompt_text;

/* *prompt: ids of the text, with a begin-of-sequence token if the tokenizer adds one. *questions: new array
 * [question_count]. With a chat format the rendered template is cut where the question begins; the user's turn is the
 * context, an empty line, the question. */
lh_status lh_prompt_encode(const lh_tokenizer *tok, const lh_prompt_text *in, lh_tokens *prompt, lh_tokens **questions);

/* Tokens that end an answer in the chat format, besides the tokenizer's end tokens; none without a chat format. */
lh_status lh_prompt_ends(const lh_tokenizer *tok, const lh_prompt_text *in, lh_tokens *ends);

/* Append ids in [0, vocab) that are separated by white space, from a file, or from a text called `name` in messages.
 * LH_EINPUT, naming it and the invalid id. */
lh_status lh_prompt_ids(const char *path, int64_t vocab, lh_tokens *out);
lh_status lh_prompt_ids_parse(const char *name, const lh_buf *text, int64_t vocab, lh_tokens *out);

#endif
