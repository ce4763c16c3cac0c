/* answer_text.h - the text of an answer while its tokens come: without special tokens, cut at the first stop text. */
#ifndef LH_ENGINE_ANSWER_TEXT_H
#define LH_ENGINE_ANSWER_TEXT_H

#include "engine/stops.h"
#include "text/tokenizer.h"

/* The caller sets the decoder's tokenizer (NULL: there is no text), the stops and the text. */
typedef struct lh_answer_text {
    lh_detokenizer decoder;
    lh_stops stops;
    lh_buf *text;               /* grows */
    int64_t shown;              /* bytes that were shown, which a stop text no longer takes back; the caller's */
    int64_t final;              /* bytes that no stop text can begin in */
    int64_t min_tokens, tokens; /* the stop texts that the first min_tokens tokens end are text; tokens so far */
    int64_t early;              /* bytes of the text of these tokens */
    int stopped;                /* 1: a stop text came, before which the text ends */
} lh_answer_text;

lh_status lh_answer_text_push(lh_answer_text *t, int32_t id);
lh_status lh_answer_text_finish(lh_answer_text *t); /* all of the text is final */
void lh_answer_text_clear(lh_answer_text *t);       /* leaves the text */

#endif
