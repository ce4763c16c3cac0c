/* thoughts.h - the thoughts of a reasoning model: an answer may begin with a text between "<think>" and "</think>",
 * which the API of OpenAI's kind gives as `reasoning_content` and not as content. The first tag may be the end of the
 * prompt instead, where the chat format opens the thoughts. No byte but the tags' is dropped, as in vLLM. */
#ifndef LH_TEXT_THOUGHTS_H
#define LH_TEXT_THOUGHTS_H

#include "text/messages.h"

typedef struct lh_thoughts {
    int thinks; /* true: there are thoughts, perhaps empty */
    int closed; /* true: they have ended; else the content is empty */
    const char *thoughts, *content;
    int64_t thoughts_bytes, content_bytes;
} lh_thoughts;

/* How far an answer is: it grows, and what could be the beginning of a tag belongs to neither side yet; or not. */
typedef enum lh_text_stage { LH_TEXT_GROWS, LH_TEXT_WHOLE } lh_text_stage;

/* Splits text[bytes], which is borrowed. opened: true if the prompt ends with the first tag. */
lh_thoughts lh_thoughts_split(const char *text, int64_t bytes, int opened, lh_text_stage stage);

/* *opened: true if the ids end with the text "<think>", before white space at most. */
lh_status lh_thoughts_opened(const lh_tokenizer *tok, const lh_tokens *ids, int *opened);

/* True if the text begins with thoughts that it does not end: what continues it is thoughts, too. */
int lh_thoughts_begun(const char *text);

/* Splits the contents of the assistant's messages among the first n, where they have no thoughts of their own. */
lh_status lh_messages_split(lh_messages *messages, int64_t n);

#endif
