/* work.h - one request at work: its line becomes token ids, then a task of the scheduler on every rank, and its answer
 * becomes a line of the output on rank 0. */
#ifndef LH_BATCH_WORK_H
#define LH_BATCH_WORK_H

#include "batch/answer.h"
#include "engine/answer_text.h"
#include "engine/engine.h"
#include "engine/scheduler.h"
#include "policies/policy.h"
#include "text/chat.h"

/* Shared by the requests of a run; borrowed. */
typedef struct lh_batch_common {
    lh_engine *engine;             /* NULL: requests are read, and not answered */
    const lh_config *config;       /* of the model */
    const lh_tokenizer *tokenizer; /* of the model; NULL: it has none */
    const lh_batch_defaults *defaults;
    const lh_policy_options *policy; /* for requests without a policy */
    const lh_policy *plans;          /* [LH_ASKED_BOTH] the same resolved, by when the question comes */
    lh_cache_size cache;             /* for budgets in bytes */
    const lh_profiles *profiles;     /* includes the profiles that it names */
    const lh_chat_format *format;    /* rank 0; NULL: the model has none */
    const char *context_root;        /* rank 0: the folder of context files */
    const char *prefills;            /* the folder of prefill checkpoints (prefills.h); NULL: none are written */
    const char *model;               /* name of the model, for requests that give none */
    const json_t *run;               /* of answer.h */
} lh_batch_common;

/* ---- context files ---- */

/* *text: text of the file `name` in the folder `root`, without a byte order mark, as `generate -f` reads it. LH_EINPUT:
 * the file is not there, lies outside the folder, also by a symbolic link, is not regular, is empty or is not text. */
lh_status lh_batch_context_read(lh_buf *text, const char *root, const char *name);

/* Hash of such a text, as lines of an output have it (answer.h); never 0. */
uint64_t lh_batch_context_hash(const lh_buf *text);

/* ---- token ids ---- */

/* True if the first of the ids is the begin-of-sequence token that the tokenizer adds to a text. tok: may be NULL. */
int lh_batch_has_added_first(const lh_batch_request *request, const lh_tokenizer *tok, const lh_tokens *prompt);

/* The ids of the prompt, truncated where the request or the command says so; *left_out: tokens that this removed.
 * LH_EINPUT, LH_EUSAGE. */
lh_status lh_batch_encode(const lh_batch_common *common, const lh_batch_request *request, lh_tokens *prompt,
                          int64_t *left_out);

/* The same, where the text `context` precedes the prompt or the last message: *before ends with that text (NULL: not
 * wanted), and *prompt follows it. The same ids as `generate` makes of a question. */
lh_status lh_batch_encode_question(const lh_batch_common *common, const lh_batch_request *request,
                                   const lh_buf *context, lh_tokens *before, lh_tokens *prompt);

/* LH_EINPUT, LH_EUSAGE: the prompt is empty, has ids that the model lacks, or is too long for the model together with
 * the `before` tokens that precede it and its answer. */
lh_status lh_batch_check_tokens(const lh_batch_common *common, const lh_batch_request *request, int64_t before,
                                const lh_tokens *prompt);

/* The ids that end an answer, in addition to the tokenizer's end tokens. */
lh_status lh_batch_encode_ends(const lh_batch_common *common, const lh_batch_request *request, lh_tokens *ends);

/* ---- the request at work ---- */

/* A context of several requests; freed when its last reference is released. */
typedef struct lh_batch_context {
    lh_context shared; /* borrows the members below */
    lh_policy policy;
    lh_tokens ids;
    char *checkpoint;
    int64_t references;
} lh_batch_context;
lh_batch_context *lh_batch_context_retain(lh_batch_context *context);
void lh_batch_context_release(lh_batch_context *context); /* NULL is fine */

struct lh_batch_work;

/* A token and the natural logarithm of its probability. */
typedef struct lh_batch_seen {
    int32_t id;
    double logprob;
} lh_batch_seen;

/* One of the answers to a request. */
typedef struct lh_batch_reply {
    struct lh_batch_work *work;
    lh_task task;
    lh_session *session; /* from the end of the prompt on */
    lh_tokens answer;
    lh_answer_text answer_text;
    lh_buf answer_bytes;
    lh_buf seen; /* rank 0: lh_batch_seen of each token of the answer */
    lh_finish_reason finish;
} lh_batch_reply;

typedef struct lh_batch_work {
    const lh_batch_common *common;
    void *owner; /* for the caller */
    int64_t i;   /* of the line in the input */
    lh_batch_line line;
    char *text; /* of the line, where this rank does not have the input */
    lh_batch_request request;
    lh_batch_context *context; /* precedes the prompt; NULL: none */
    int64_t left_out;          /* tokens that truncation left out of the prompt; on the root */
    lh_batch_context *origin;  /* the prompt where several answers follow it; NULL: they share a context, or there is
                                  one answer */
    lh_policy policy;          /* of the context, or of the prompt */
    char *checkpoint;          /* of the prompt; NULL: none */
    lh_tokens prompt, ends;
    lh_logit_bias *bias;     /* of the request, then bans of the tokens that end an answer, for 'min_tokens' */
    lh_batch_reply *replies; /* [request.choices] */
    int64_t begun, finished; /* replies */
    lh_status failure;       /* of the first reply that failed, with its message */
    lh_buf why;
    lh_buf prompt_seen; /* rank 0: the same of the prompt but for its first token, where it is repeated */
    lh_batch_kv kv;
    double began_s, prefilled_s;
} lh_batch_work;

/* Reads the request of line i and resolves its policy; with shares_context the policy evicts before the question is
 * known. Not collective, and the same on all ranks. LH_EINPUT, LH_EUSAGE: the request cannot be answered; *out is set
 * also then. */
lh_status lh_batch_work_open(lh_batch_work **out, const lh_batch_common *common, int64_t i, const lh_batch_line *line,
                             int shares_context);
void lh_batch_work_close(lh_batch_work *work); /* NULL is fine */

/* On every rank, after the ids were shared: makes the tasks of the replies. The caller sets `done` of each; its `self`
 * is the reply. */
lh_status lh_batch_work_make_tasks(lh_batch_work *work);

/* A reply is finished: with an answer, or with `st` and its message, which is taken. */
lh_status lh_batch_reply_end(lh_batch_reply *reply, lh_finish_reason finish, lh_status st);

/* Tokens of the prompt that are its shared context. */
int64_t lh_batch_context_tokens(const lh_batch_work *work);

/* Number of lh_batch_seen for each token: itself, and the most likely ones in its place. */
int64_t lh_batch_seen_each(const lh_batch_work *work);

/* Rank 0, after all replies: appends the line of the answers, or of the failure. *timing: its times (output.h), a new
 * reference; NULL after a failure. */
lh_status lh_batch_work_write(const lh_batch_work *work, lh_buf *out, json_t **timing);

#endif
