/* chat_state.h - state of the conversation in a saved cache: its format, and the role of its last turn. Stored as the
 * text /chat of a cache file (docs/files.md); a cache without this text holds no chat, or is of an older version. */
#ifndef LH_ENGINE_CHAT_STATE_H
#define LH_ENGINE_CHAT_STATE_H

#include "text/chat.h"

typedef struct lh_chat_state {
    const lh_chat_format *format; /* NULL: no chat */
    json_t *arguments;            /* variables of its template, owned; NULL: none */
    int answers;                  /* 1: it ends where an answer begins, or in one; 0: in the user's turn */
} lh_chat_state;
void lh_chat_state_clear(lh_chat_state *state); /* closes the format */

/* Sets variables of the template, by name; NULL: none. Others keep their values. */
lh_status lh_chat_state_arguments(lh_chat_state *state, const json_t *arguments);

/* As JSON, appended; nothing for no chat. */
lh_status lh_chat_state_write(const lh_chat_state *state, lh_buf *out);

/* Of the cache file `path`. LH_EFILE. */
lh_status lh_chat_state_read(lh_chat_state *out, const char *path);

#endif
