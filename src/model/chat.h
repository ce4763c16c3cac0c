/* chat.h - chat templates as built-in formats. A Jinja template is never run: it is recognised as one of the
 * formats of the table (by its text), and the format renders exactly what the template would. */
#ifndef LH_MODEL_CHAT_H
#define LH_MODEL_CHAT_H

#include <stdint.h>

#include "base/status.h"
#include "model/tokenizer.h"

typedef struct lh_chat_format lh_chat_format; /* a row of the table */

/* By name, as "chatml"; NULL when there is none. */
const lh_chat_format *lh_chat_find(const char *name);

/* The format a Jinja template is, or NULL when it is none of ours. */
const lh_chat_format *lh_chat_recognise(const char *jinja, int64_t bytes);

/* --chat-template's argument: a name, or a file with a Jinja template. LH_EUSAGE lists the names. */
lh_status lh_chat_resolve(const lh_chat_format **out, const char *name_or_file);

const char *lh_chat_name(const lh_chat_format *format);
const lh_chat_format *lh_chat_at(int i); /* NULL behind the last */

typedef struct lh_message {
    const char *role, *content; /* NUL-terminated UTF-8 */
} lh_message;

/* What a rendering is made of: pieces of the template (special tokens recognised) and of contents (not). */
typedef struct lh_chat_piece {
    int64_t start, bytes; /* in lh_chat_text.text */
    int from_content;     /* 1: contents of a message */
    int message;          /* number of the message, -1: none */
} lh_chat_piece;

typedef struct lh_chat_text {
    lh_buf text;
    lh_chat_piece *pieces;
    int64_t n;
} lh_chat_text;

/* Render. bos and eos: their text, "" where there is none. Fails with LH_EINPUT and the template's own message
 * where the template refuses the messages. */
typedef struct lh_chat_request {
    const lh_message *messages;
    int64_t n;
    int add_generation_prompt;
    const char *bos, *eos;
} lh_chat_request;

lh_status lh_chat_render(const lh_chat_format *format, const lh_chat_request *request, lh_chat_text *out);
void lh_chat_text_clear(lh_chat_text *text);

/* Ids of a rendering: special tokens are recognised in the template's own pieces only. `until` bytes of text. */
lh_status lh_chat_encode(const lh_tokenizer *tok, const lh_chat_text *text, int64_t from, int64_t until,
                         lh_tokens *out);

#endif
