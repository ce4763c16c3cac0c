/* chat_impl.h - a row of the table of chat formats, and the renderers that read it. For chat*.c only. */
#ifndef LH_TEXT_CHAT_IMPL_H
#define LH_TEXT_CHAT_IMPL_H

#include "text/chat.h"

/* Placeholders in texts of the table: first and end token of the tokenizer. */
#define LH_CHAT_BOS "\1"
#define LH_CHAT_EOS "\2"

typedef struct lh_chat_turn {
    const char *role; /* NULL: any other role, which is written between `open` and `middle` */
    const char *open, *middle, *close;
    int trim;       /* white space around the contents is left out */
    int skip_empty; /* no turn for empty contents */
} lh_chat_turn;     /* a list ends with one without `open` */

typedef enum lh_chat_system {
    LH_CHAT_SYSTEM_TURN,    /* a turn like any other */
    LH_CHAT_SYSTEM_REFUSED, /* as the first message: fails with `refusal` */
    LH_CHAT_SYSTEM_FIRST,   /* as the first message: part of the first user turn */
    LH_CHAT_SYSTEM_LAST,    /* ... of the last turn, if that is the user's */
} lh_chat_system;

typedef struct lh_chat_writer lh_chat_writer;

struct lh_chat_format {
    const char *name, *end;
    lh_status (*render)(const lh_chat_format *format, lh_chat_writer *w);
    const char *before;         /* written first, NULL: nothing */
    const char *default_system; /* system text if no message has one, NULL: none */
    const lh_chat_turn *turns;
    lh_chat_system system;
    const char *system_open, *system_close; /* around the system text within a user turn */
    int strip_joined;                       /* system text and contents are stripped together, not the contents alone */
    int thinks;                             /* <think> blocks of older assistant turns are left out */
    const char *refusal;                    /* the template's error for a system message */
    const char *alternate;                  /* ... for roles that do not alternate, NULL: they need not */
    const char *others;                     /* ... for other roles, NULL: they are ignored */
    const char *tools;            /* ... for tool messages, which do not count when roles alternate; NULL: as others */
    const char *generation;       /* begins the assistant's turn */
    int always_generates;         /* ... even if not asked for */
    const char *otherwise;        /* written in place of `generation` when that is not asked for, NULL: nothing */
    const char *all[6], *none[6]; /* substrings that a canonical template has and has not: see chat.c */
};

extern const lh_chat_format lh_chat_formats[]; /* ends with one without a name */

const lh_chat_request *lh_chat_writer_request(const lh_chat_writer *w);
lh_chat_text *lh_chat_writer_text(const lh_chat_writer *w);

/* The renderers. */
lh_status lh_chat_render_turns(const lh_chat_format *f, lh_chat_writer *w);
lh_status lh_chat_render_alternating(const lh_chat_format *f, lh_chat_writer *w);
lh_status lh_chat_render_tools(const lh_chat_format *f, lh_chat_writer *w);
lh_status lh_chat_render_dated(const lh_chat_format *f, lh_chat_writer *w);

#endif
