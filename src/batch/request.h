/* request.h - one request of a batch: a line in the form of OpenAI's batch input files, read by a table of members
 * (request_fields.c). What it asks for and does not get would be a wrong answer, so members that are not supported are
 * refused, and so are members that nobody knows; those that change no answer (`user`, `metadata`, …) are ignored. */
#ifndef LH_BATCH_REQUEST_H
#define LH_BATCH_REQUEST_H

#include <jansson.h>

#include "batch/input.h"
#include "policies/preset.h"
#include "text/messages.h"

typedef enum lh_batch_api { LH_BATCH_COMPLETION, LH_BATCH_CHAT, LH_BATCH_APIS } lh_batch_api;

/* What a request has that does not say otherwise: the options of the command. */
typedef struct lh_batch_defaults {
    int64_t max_new;
    lh_sampling sampling; /* its `request` is not used */
    int ignore_eos;
} lh_batch_defaults;

/* Texts are borrowed from `json`. */
typedef struct lh_batch_request {
    const lh_batch_line *line; /* borrowed */
    lh_batch_api api;
    const char *model;    /* as the request names it; NULL: it does not */
    const char *prompt;   /* of a completion; NULL: it is `ids` */
    lh_tokens ids;        /* not negative */
    lh_messages messages; /* of a chat, one at least */
    int64_t max_new;      /* at least 1 */
    lh_sampling sampling; /* with a seed of its own the draws depend on nothing else, else also on the line's bytes */
    int ignore_eos;
    int split_special;  /* true: special tokens are not recognised in the prompt of a completion */
    const char **stops; /* [stop_count], none empty */
    int64_t stop_count;
    int64_t logprobs;         /* most likely tokens to be reported beside each token of the answer; -1: none is */
    const char *context_id;   /* requests with the same one share what their prompts begin with; NULL: none */
    const char *context_file; /* whose text comes before the prompt; relative, without ".."; NULL: none */
    lh_policy_options
        policy; /* of this request; where all is NULL, that of the command; without a budget, its budget */
    json_t *json;
} lh_batch_request;

/* Read a line of an input. LH_EINPUT: the reason, one sentence without the line's number. Clear it also after a
 * failure. */
lh_status lh_batch_request_read(lh_batch_request *out, const lh_batch_line *line, const lh_batch_defaults *defaults);
void lh_batch_request_clear(lh_batch_request *request);

#endif
