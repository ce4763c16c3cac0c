/* answer.h - lines of an output: the answer to a request as the object that OpenAI's API returns, within the line of
 * OpenAI's batch output files, or the reason why there is none. A line depends on the request and its answer alone, not
 * on the time, the place or the order: two runs that compute the same write the same bytes. So `created` is 0, ids are
 * made of the hash of the request's line, and times go to another file (output.h). */
#ifndef LH_BATCH_ANSWER_H
#define LH_BATCH_ANSWER_H

#include "batch/request.h"

/* The beginning of every line of an output. */
#define LH_BATCH_LINE_START "{\"id\":\"batch_req_"

/* Significant digits of numbers that are no integers. */
enum { LH_BATCH_DIGITS = 9 };

/* A token and the natural logarithm of its probability. */
typedef struct lh_batch_likely {
    const char *text; /* [bytes] of the token, which need not be UTF-8 */
    int64_t bytes;
    double logprob;
    int32_t id;
} lh_batch_likely;

/* A token of the answer, and the most likely tokens in its place. */
typedef struct lh_batch_token {
    lh_batch_likely chosen;
    const lh_batch_likely *top; /* [top_count] */
    int64_t top_count;
    int64_t offset; /* complete characters of the text before the token */
    int is_first;   /* true: the first one of a prompt, which has no probability */
} lh_batch_token;

/* The cache of the whole model after the prompt; heads that several ranks store count once. */
typedef struct lh_batch_kv {
    int64_t budget; /* entries per KV head, -1: everything is kept */
    int64_t entries, entries_kept, bytes, bytes_kept;
} lh_batch_kv;

/* One of the answers to a request. */
typedef struct lh_batch_choice {
    const char *text; /* [bytes], without special tokens and the stop text */
    int64_t bytes;
    const char *thoughts; /* [thoughts_bytes] of a chat; NULL: there are none */
    int64_t thoughts_bytes;
    int no_content;               /* true: the answer ends within its thoughts */
    lh_finish_reason finish;      /* not LH_FINISH_INTERRUPTED: an interrupted request has no answer yet */
    const lh_batch_token *tokens; /* [token_count], 0 without log-probabilities */
    int64_t token_count;
} lh_batch_choice;

typedef struct lh_batch_answer {
    const char *model;              /* name of the model, for a request that gives none */
    const lh_batch_choice *choices; /* [choice_count] */
    int64_t choice_count;
    int64_t prompt_tokens, new_tokens; /* new: of all choices */
    int64_t left_out;                  /* tokens that truncation left out of the prompt */
    int64_t context_tokens;            /* tokens of the prompt that are its shared context */
    lh_batch_kv kv;
} lh_batch_answer;

/* Append a line with its line feed. `run`: object of the lines of a run (borrowed): the model, the resolved policy, the
 * version; the same on every number of ranks. */
lh_status lh_batch_answer_line(const lh_batch_request *request, const lh_batch_answer *answer, const json_t *run,
                               lh_buf *out);

/* The same for a request that failed with `st` and lh_error_message(), which stays. */
lh_status lh_batch_failure_line(const lh_batch_line *line, lh_status st, const json_t *run, lh_buf *out);

/* The code that such a line has for a status, e.g. "invalid_request". */
const char *lh_batch_code(lh_status st);

#endif
