/* chat.h - chat formats. A Jinja template whose text is recognised as one of the formats of a table is rendered by
 * that, exactly as the template would be; any other one is interpreted (template/template.h). */
#ifndef LH_TEXT_CHAT_H
#define LH_TEXT_CHAT_H

#include <stdint.h>

#include "base/status.h"
#include "text/tokenizer.h"

typedef struct lh_chat_format lh_chat_format; /* a row of the table, or a template that is interpreted */

/* By name, such as "chatml"; NULL if there is none. */
const lh_chat_format *lh_chat_find(const char *name);

/* The format of a Jinja template, or NULL if it is none of the table: white space between tags, kinds of quotes and
 * spellings of the same expression do not matter, all other text does. */
const lh_chat_format *lh_chat_recognise(const char *jinja, int64_t bytes);

/* The format of a Jinja template: of the table if it is recognised, else one that is interpreted. LH_EINPUT: what of
 * the template cannot be read. Close it. */
lh_status lh_chat_open(const lh_chat_format **out, const char *jinja, int64_t bytes);
void lh_chat_close(const lh_chat_format *format); /* NULL and rows of the table are fine */

/* The format of a tokenizer; NULL if it has none. LH_EINPUT if its template cannot be read. Close it. */
lh_status lh_chat_of(const lh_chat_format **out, const lh_tokenizer *tok);

/* --chat-template's argument: a name, or a file with a Jinja template. LH_EUSAGE lists the names. Close it. */
lh_status lh_chat_resolve(const lh_chat_format **out, const char *name_or_file);

const char *lh_chat_name(const lh_chat_format *format);  /* "template" for one that is interpreted */
const char *lh_chat_jinja(const lh_chat_format *format); /* its text; NULL for a row of the table */
const char *
lh_chat_end(const lh_chat_format *format); /* text of the token that ends a turn of the model; "": unknown */
const lh_chat_format *lh_chat_at(int i);   /* NULL after the last */

/* Texts of a message that a template may read besides its role and its content; the names end with NULL. */
enum { LH_MESSAGE_MEMBERS = 3 };
extern const char *const lh_message_members[];

typedef struct lh_message {
    const char *role, *content;              /* NUL-terminated UTF-8 */
    const char *members[LH_MESSAGE_MEMBERS]; /* by lh_message_members; NULL: the message has none */
} lh_message;

/* A rendering is a sequence of pieces without gaps: text of the template, in which special tokens are recognised, and
 * contents of messages, in which they are not. */
typedef struct lh_chat_piece {
    int64_t start, bytes; /* in lh_chat_text.text */
    int from_content;     /* 1: contents of a message */
    int message;          /* number of the message, -1: none */
    int64_t skipped;      /* bytes of the message's contents before this piece (templates may trim them) */
} lh_chat_piece;

typedef struct lh_chat_text {
    lh_buf text;
    lh_chat_piece *pieces;
    int64_t n, cap;
} lh_chat_text;

/* Render into *out, all zero. bos and eos: their text, "" where there is none (NULL means that too). Fails with
 * LH_EINPUT and the template's own message if the template refuses the messages. */
typedef struct lh_chat_request {
    const lh_message *messages;
    int64_t n;
    int add_generation_prompt;
    const char *bos, *eos;
} lh_chat_request;

lh_status lh_chat_render(const lh_chat_format *format, const lh_chat_request *request, lh_chat_text *out);
void lh_chat_text_clear(lh_chat_text *text);

/* Append how the model's answer begins to a rendering with a generation prompt. */
lh_status lh_chat_begin_answer(lh_chat_text *text, const char *answer);

/* Position of byte `content_at` of a message's contents in the rendering, for cutting it in two; trimmed bytes count
 * where they would have been. -1: the contents are not in the rendering.
 * A context whose cache is evicted once goes first in the user's turn, {"user", context + "\n\n" + question}, and the
 * cut is at lh_chat_cut(text, i, bytes of the context and the empty line): lh_chat_encode [0, cut) is the prompt,
 * lh_chat_encode [cut, text.bytes) each question with what the template writes after it. */
int64_t lh_chat_cut(const lh_chat_text *text, int64_t message, int64_t content_at);

/* Append the ids of bytes [from, until) of a rendering: special tokens are recognised in the template's own pieces
 * only, otherwise as one text. A range that does not begin at 0 continues other text (LH_ENCODE_CONTINUES). */
lh_status lh_chat_encode(const lh_tokenizer *tok, const lh_chat_text *text, int64_t from, int64_t until,
                         lh_tokens *out);

#endif
