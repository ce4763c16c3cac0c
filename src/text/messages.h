/* messages.h - conversations as JSON, in the form of OpenAI's chat requests: an array of {"role", "content"}, or an
 * object that has such an array as "messages". */
#ifndef LH_TEXT_MESSAGES_H
#define LH_TEXT_MESSAGES_H

#include <jansson.h>

#include "text/chat.h"

typedef struct lh_messages {
    lh_message *at; /* the texts are owned */
    int64_t n;
} lh_messages;

/* Appends. A content is a text, or an array of parts {"type": "text", "text"}, which are joined by line feeds. `name`
 * stands for the JSON in messages. LH_EINPUT for unknown members, for members that a chat format cannot render (calls
 * of tools, images) unless they are empty, and for texts with a zero byte. */
lh_status lh_messages_parse(lh_messages *out, const char *name, const json_t *json);

/* The same from a file ("-": standard input), which must hold a message. */
lh_status lh_messages_read(lh_messages *out, const char *path);

lh_status lh_messages_add(lh_messages *messages, const char *role, const char *content);
void lh_messages_drop(lh_messages *messages); /* the last one */
void lh_messages_clear(lh_messages *messages);

#endif
