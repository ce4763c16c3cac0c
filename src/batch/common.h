/* common.h - what the requests of a run have in common. */
#ifndef LH_BATCH_COMMON_H
#define LH_BATCH_COMMON_H

#include "batch/request.h"
#include "engine/engine.h"
#include "policies/policy.h"
#include "text/chat.h"

/* Borrowed. */
typedef struct lh_batch_common {
    lh_engine *engine;             /* NULL: requests are read, and not answered */
    const lh_config *config;       /* of its model, */
    const lh_tokenizer *tokenizer; /* and the text of it; NULL: it has none */
    const lh_batch_defaults *defaults;
    const lh_policy_options *policy; /* of requests that have none ... */
    const lh_policy *plans;          /* ... and what it is: [LH_ASKED_BOTH], by when the question comes */
    const lh_profiles *profiles;     /* that it names */
    const lh_chat_format *format;    /* of chats; NULL: the model has none. Rank 0 */
    const char *context_root;        /* the folder of context files. Rank 0 */
    const char *prefills;            /* the folder of prefills that are kept (prefills.h); NULL: none is */
    const char *model;               /* its name, where a request does not say */
    const json_t *run;               /* of answer.h */
} lh_batch_common;

#endif
