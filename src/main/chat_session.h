/* chat_session.h - the session of `chat` after its document is read: lines typed on rank 0 become orders that all
 * ranks carry out. */
#ifndef LH_MAIN_CHAT_SESSION_H
#define LH_MAIN_CHAT_SESSION_H

#include "base/options.h"
#include "base/progress.h"
#include "engine/chat_state.h"
#include "engine/conversation.h"
#include "engine/stops.h"
#include "main/chat_lines.h"
#include "text/thoughts.h"

/* What rank 0 alone knows. */
typedef struct lh_chat_talk {
    lh_chat_lines lines;
    lh_chat_state chat, begun; /* now, and after the document */
    lh_messages history;
    lh_buf line, answer;
    lh_detokenizer decoder;
    int64_t final;                 /* bytes of the answer that no stop text can begin in */
    int splits;                    /* true: thoughts are no part of answers ... */
    int opened;                    /* ... and the question opens them */
    int64_t shown, shown_thoughts; /* bytes of the content and the thoughts */
    int stopped;                   /* by a stop text */
    lh_progress progress;
    lh_status failed;
    int end; /* 1: the input has ended, or '/quit' was typed */
} lh_chat_talk;

typedef struct lh_chat_session {
    lh_engine *engine;
    lh_comm *comm;
    lh_conversation *conversation;
    const lh_options *options; /* '/save' does not replace their files */
    lh_sampling sampling;
    int64_t max_new;
    lh_stops stops;
    lh_tokens ids, ends; /* of the order; that end an answer */
    lh_buf path;         /* of the order */
    const char *record;  /* resolved options, stored with saved files */
    uint64_t answered;   /* questions so far: each draws other random numbers */
    lh_chat_talk *talk;  /* rank 0; NULL elsewhere */
} lh_chat_session;

/* Collective. Answers the typed lines, to the end of the session. LH_EINTERRUPTED: a signal ended it. */
lh_status lh_chat_go_on(lh_chat_session *s);

void lh_chat_session_clear(lh_chat_session *s); /* and its talk, not its engine */

#endif
