/* request.h - one request of a batch: a line in the form of OpenAI's batch input files, read by a table of members.
 * Unsupported and unknown members are refused, because without them the answer would be wrong; members that change no
 * answer (`user`, `metadata`, …) are ignored. */
#ifndef LH_BATCH_REQUEST_H
#define LH_BATCH_REQUEST_H

#include <jansson.h>

#include "batch/input.h"
#include "engine/prompt_fit.h"
#include "policies/preset.h"
#include "text/messages.h"

typedef enum lh_batch_api { LH_BATCH_COMPLETION, LH_BATCH_CHAT, LH_BATCH_APIS } lh_batch_api;

/* Values for requests that do not give them: options of the command. */
typedef struct lh_batch_defaults {
    int64_t max_new;
    lh_sampling sampling; /* its `request` is not used */
    int ignore_eos, keep_thinking;
    const json_t *arguments; /* variables of the chat template, '--template-arg'; NULL: none */
    const char *truncate;    /* part of a prompt that is too long to leave out (prompt_fit.h); NULL: it fails */
} lh_batch_defaults;

/* Texts are borrowed from `json`. */
typedef struct lh_batch_request {
    const lh_batch_line *line; /* borrowed */
    lh_batch_api api;
    const char *model;    /* name in the request; NULL: none */
    const char *prompt;   /* of a completion; NULL: `ids` is the prompt */
    lh_tokens ids;        /* not negative */
    lh_messages messages; /* of a chat, one at least */
    lh_chat_ending ending;
    json_t *arguments;    /* variables of its template; NULL: none */
    int64_t choices;      /* answers, each with other draws; at least 1 */
    int64_t max_new;      /* at least 1 */
    int64_t min_new;      /* tokens before which no answer ends; at most max_new */
    int64_t keep_last;    /* tokens of the prompt that are kept, the last ones; 0: all, -1: as many as fit */
    lh_sampling sampling; /* a request without a seed draws by the seed of the run and the hash of its line */
    int ignore_eos;
    int keeps_special;  /* true: special tokens are text of the answer */
    int echo;           /* true: a completion's text and log-probabilities begin with its prompt */
    int split_special;  /* true: special tokens are not recognised in the prompt of a completion */
    const char **stops; /* [stop_count], none empty */
    int64_t stop_count;
    lh_tokens stop_ids;       /* that end the answer, not negative */
    lh_logit_bias *bias;      /* [sampling.bias_count] */
    int64_t logprobs;         /* number of likely tokens to report for each token of the answer; -1: no report */
    const char *context_id;   /* requests with the same id share the common prefix of their prompts; NULL: none */
    const char *context_file; /* its text precedes the prompt; relative, without ".."; NULL: none */
    lh_policy_options policy; /* NULL members: the policy or the budget of the command */
    json_t *json;
} lh_batch_request;

/* Read a line of an input. LH_EINPUT: the message is one sentence without the line's number. Clear the request also
 * after a failure. */
lh_status lh_batch_request_read(lh_batch_request *out, const lh_batch_line *line, const lh_batch_defaults *defaults);
void lh_batch_request_clear(lh_batch_request *request);

#endif
