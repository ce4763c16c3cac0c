/* chat_options.h - options of the chat format, which several commands share. */
#ifndef LH_SHELL_CHAT_OPTIONS_H
#define LH_SHELL_CHAT_OPTIONS_H

#include <jansson.h>

#include "base/options.h"
#include "base/status.h"
#include "text/chat.h"
#include "text/truncate.h"

typedef struct lh_shell_chat {
    const char *format; /* name of a built-in format, or a file with a template; NULL: the model's own */
    lh_strings arguments;
} lh_shell_chat;

extern const lh_option_table lh_shell_chat_options;

/* The option of commands with a prompt, but for its field: a text. */
#define LH_SHELL_TRUNCATE                                                                                              \
    .type = LH_OPT_STR, .name = "truncate", .choices = lh_truncation_names, .detail = 1,                               \
    .help = "Leave out this part of a prompt that is too long for the model, with its answer: of the text, or of the " \
            "longest message; turns and questions stay whole. Without it such a prompt is an error."

/* The option of commands with answers, but for its field. */
#define LH_SHELL_KEEP_THINKING                                                                                           \
    .type = LH_OPT_FLAG, .name = "keep-thinking", .detail = 1,                                                           \
    .help = "Keep thoughts, '<think>…</think>', in the text of an answer, and in the earlier answers of messages. In " \
            "a chat they are 'reasoning_content' otherwise, and a terminal shows them on stderr."

/* *out: the variables that '--template-arg' sets, by name (json_decref); NULL: none. LH_EUSAGE. */
lh_status lh_shell_template_arguments(const lh_shell_chat *chat, json_t **out);

/* Warns about variables that the template does not name. */
void lh_shell_warn_of_arguments(const lh_chat_format *format, const json_t *arguments);

#endif
