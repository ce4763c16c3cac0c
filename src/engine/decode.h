/* decode.h - the decode loop: sample a token, test if it ends the answer, feed it back. Used by `generate` and the
 * tasks of `eval`. */
#ifndef LH_ENGINE_DECODE_H
#define LH_ENGINE_DECODE_H

#include "engine/session.h"

extern const lh_sampling lh_greedy; /* all zero */

const char *lh_finish_name(lh_finish_reason finish); /* "stop", "length", "interrupted" */

typedef struct lh_decode {
    lh_sampling sampling;
    int64_t max_new;
    int64_t min_new;        /* tokens before which no end token is sampled */
    int64_t bans;           /* elements of sampling.bias after its bias_count, which forbid the end tokens until then */
    int ignore_eos;         /* true: the tokenizer's end tokens end no answer */
    const lh_tokens *ends;  /* ids that end the answer, besides the tokenizer's end tokens; NULL: none */
    const lh_tokens *force; /* ids that replace sampled ones (teacher forcing); NULL: none */
    const lh_tokens *known; /* first tokens of the answer, which the session has been fed already; NULL: none */
    void *self;
    /* Called with every token of the answer while the logits are those that it was chosen by. May be NULL. */
    lh_status (*chosen)(void *self, int32_t id);
    /* Called with every token that does not end the answer; *stop = 1 ends it after this one. May be NULL. */
    lh_status (*token)(void *self, int32_t id, int *stop);
    /* Called when `fed` tokens of the answer have been fed back. May be NULL. */
    lh_status (*step)(void *self, int64_t fed);
} lh_decode;

/* Collective. Decodes one answer from the session's state and appends its tokens, including the one that ends it; the
 * last one is not fed back. *finish (may be NULL) is LH_FINISH_STOP or LH_FINISH_LENGTH. */
lh_status lh_session_decode(lh_session *session, const lh_decode *how, lh_tokens *out, lh_finish_reason *finish);

/* The same a token at a time, for several sessions that step together: choose; unless it ended, the last token of `out`
 * is fed to the session, then `fed`, and the next one is chosen. All but session, how and out begin with 0. */
typedef struct lh_answering {
    lh_session *session;
    const lh_decode *how;
    lh_tokens *out;
    int64_t chosen; /* tokens that do not end the answer */
    int ended;
    lh_finish_reason finish;
} lh_answering;

lh_status lh_answering_choose(lh_answering *answering);
lh_status lh_answering_fed(lh_answering *answering);

#endif
