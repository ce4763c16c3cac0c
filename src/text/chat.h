/* chat.h - chat formats: how a conversation is written as the text that a model was trained on. A format is a Jinja
 * template, the model's own or a built-in one, which an interpreter renders (template/template.h). */
#ifndef LH_TEXT_CHAT_H
#define LH_TEXT_CHAT_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "text/chat_text.h"

typedef struct lh_chat_format lh_chat_format;

/* The built-in formats, which the build makes of the templates in chat/ (CMakeLists.txt lists them). */
typedef struct lh_chat_builtin {
    const char *name, *jinja; /* jinja: UTF-8, NUL-terminated */
    int64_t bytes;
} lh_chat_builtin;

extern const lh_chat_builtin lh_chat_builtins[]; /* ends with a row without a name */

/* Name of the i-th built-in format, such as "chatml"; NULL after the last. */
const char *lh_chat_builtin_name(int i);

/* The built-in format of this name, NULL if there is none. Close it. */
lh_status lh_chat_named(const lh_chat_format **out, const char *name);

/* The format of a Jinja template, called `name` in messages (copied). LH_EINPUT: the template cannot be read. Close
 * it. */
lh_status lh_chat_open(const lh_chat_format **out, const char *name, const char *jinja, int64_t bytes);
void lh_chat_close(const lh_chat_format *format); /* NULL is fine */

/* The format of a tokenizer: its template, or the built-in format that it names; NULL if it has none. LH_EINPUT if its
 * template cannot be read. Close it. */
lh_status lh_chat_of(const lh_chat_format **out, const lh_tokenizer *tok);

/* --chat-template's argument: a name, or a file with a Jinja template. LH_EUSAGE lists the names. Close it. */
lh_status lh_chat_resolve(const lh_chat_format **out, const char *name_or_file);

const char *lh_chat_name(const lh_chat_format *format);  /* "template" for the template of a model or a file */
const char *lh_chat_jinja(const lh_chat_format *format); /* text of the template */

/* LH_EINPUT unless `arguments`, called `name` in messages, is an object that sets no variable of the engine and holds
 * no number with a fraction, which templates do not have. */
lh_status lh_chat_arguments_check(const char *name, const json_t *arguments);

/* True if the text of the template has `name` as a word: the template may read this variable. */
int lh_chat_names(const lh_chat_format *format, const char *name);

/* Render into *out, all zero. LH_EINPUT, with the template's own message if it refuses the messages. */
lh_status lh_chat_render(const lh_chat_format *format, const lh_chat_request *request, lh_chat_text *out);

/* ---- how a format marks turns, found by rendering short conversations ---- */

/* Append the format's text between an answer and the next turn's contents, NUL-terminated: "" if it refuses such a
 * conversation. eos: text of the end token. */
lh_status lh_chat_after_answer(const lh_chat_format *format, const char *eos, lh_buf *out);

/* *id: the special token that ends the model's turn, found in the format's text after an answer; -1: none. */
lh_status lh_chat_end(const lh_tokenizer *tok, const lh_buf *after_answer, int32_t *id);

/* The form of a text in a chat format. White space at its ends does not count. */
typedef enum lh_chat_form {
    LH_CHAT_NO_TURN,  /* it does not begin like a turn */
    LH_CHAT_TURNS,    /* it begins with the opening of a turn, perhaps after the text of the first token */
    LH_CHAT_RENDERED, /* ... and ends with the beginning of an answer: the format has rendered it already */
} lh_chat_form;

lh_status lh_chat_form_of(const lh_chat_format *format, const lh_tokenizer *tok, const char *text, int64_t bytes,
                          lh_chat_form *out);

#endif
