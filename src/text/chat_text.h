/* chat_text.h - a conversation, and its rendering in a chat format, with cuts and token ids. */
#ifndef LH_TEXT_CHAT_TEXT_H
#define LH_TEXT_CHAT_TEXT_H

#include <jansson.h>
#include <stdint.h>

#include "base/status.h"
#include "text/tokenizer.h"

/* Names of further texts of a message that a template may read, ended by NULL. */
enum { LH_MESSAGE_THOUGHTS, LH_MESSAGE_MEMBERS = 3 };
extern const char *const lh_message_members[];

typedef struct lh_message {
    const char *role, *content;              /* NUL-terminated UTF-8 */
    const char *members[LH_MESSAGE_MEMBERS]; /* by lh_message_members; NULL: the message has none */
} lh_message;

/* A rendering is a sequence of pieces without gaps: text of the template, in which special tokens are recognised, and
 * contents of messages, in which they are not. */
typedef struct lh_chat_piece {
    int64_t start, bytes; /* in lh_chat_text.text */
    int from_content;     /* true: contents of a message */
    int message;          /* number of the message, -1: none */
    int64_t skipped;      /* bytes of the message's contents before this piece (templates may trim them) */
} lh_chat_piece;

typedef struct lh_chat_text {
    lh_buf text;
    lh_chat_piece *pieces;
    int64_t n, cap;
} lh_chat_text;

/* Append a piece; the text has its bytes already. */
lh_status lh_chat_text_add(lh_chat_text *text, lh_chat_piece piece);
void lh_chat_text_clear(lh_chat_text *text);

/* A conversation to be rendered. */
typedef struct lh_chat_request {
    const lh_message *messages;
    int64_t n;
    int add_generation_prompt;
    const char *bos, *eos;   /* texts of the first and end token, "" or NULL: none */
    const json_t *arguments; /* further variables of the template, by name (lh_chat_arguments_check); NULL: none */
} lh_chat_request;

/* Append the texts of a tokenizer's first and end token, "" for none. */
lh_status lh_chat_tokens(const lh_tokenizer *tok, lh_buf *bos, lh_buf *eos);

/* Append the beginning of the model's answer to a rendering with a generation prompt. */
lh_status lh_chat_begin_answer(lh_chat_text *text, const char *answer);

/* Position of byte `content_at` of a message's contents in the rendering, for cutting it in two; a trimmed byte has
 * the position of the next byte. -1: the contents are not in the rendering. A context that is evicted once goes first
 * in the user's turn, {"user", context + "\n\n" + question}, and the cut is at lh_chat_cut(text, i, bytes of the
 * context and the empty line): lh_chat_encode [0, cut) is the prompt, lh_chat_encode [cut, text.bytes) each question
 * with the template's text after it. */
int64_t lh_chat_cut(const lh_chat_text *text, int64_t message, int64_t content_at);

/* Append the ids of bytes [from, until) of a rendering: special tokens are recognised in the template's own pieces
 * only, otherwise as one text. A range that does not begin at 0 continues other text (LH_ENCODE_CONTINUES). */
lh_status lh_chat_encode(const lh_tokenizer *tok, const lh_chat_text *text, int64_t from, int64_t until,
                         lh_tokens *out);

#endif
