/* template.h - chat templates in Jinja: parsed once, rendered as a program in a sandbox. A template sees the
 * conversation and nothing else: no files, no clock, no other process; it cannot change a value that it was given. Its
 * steps and its memory are bounded by the length of the conversation. docs/chat-templates.md lists the supported parts
 * of Jinja and the limits. */
#ifndef LH_TEXT_TEMPLATE_TEMPLATE_H
#define LH_TEXT_TEMPLATE_TEMPLATE_H

#include "text/chat_text.h"

typedef struct lh_template lh_template;

/* Copies the source. LH_EINPUT: "line N: …". Read-only once open. */
lh_status lh_template_open(lh_template **out, const char *source, int64_t bytes);
void lh_template_close(lh_template *t); /* NULL is fine */

/* Appends to *out. LH_EINPUT: the template's own message if it refuses the messages, else "the chat template, line N:
 * …". */
lh_status lh_template_render(const lh_template *t, const lh_chat_request *request, lh_chat_text *out);

#endif
