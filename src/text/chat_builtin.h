/* chat_builtin.h - the table of built-in chat formats, which the build makes of the templates in chat/ (CMakeLists.txt
 * lists them). For chat.c only. */
#ifndef LH_TEXT_CHAT_BUILTIN_H
#define LH_TEXT_CHAT_BUILTIN_H

#include <stddef.h>
#include <stdint.h>

typedef struct lh_chat_builtin {
    const char *name, *jinja; /* jinja: UTF-8, NUL-terminated */
    int64_t bytes;
} lh_chat_builtin;

extern const lh_chat_builtin lh_chat_builtins[]; /* ends with a row without a name */

#endif
