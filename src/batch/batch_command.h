/* batch_command.h - the command `batch`: its values, and what its steps share. */
#ifndef LH_BATCH_BATCH_COMMAND_H
#define LH_BATCH_BATCH_COMMAND_H

#include "batch/run.h"
#include "shell/shell.h"

typedef struct lh_batch_options {
    const char *input, *from, *text, *output, *context_root, *chat_template, *shard, *metrics;
    int check, resume, retry_failed, ordered;
    int64_t batch, max_errors;
    double prefill_share, checkpoint_s, sync_s;
} lh_batch_options;

typedef struct lh_batch_values {
    lh_shell_common common;
    lh_engine_options engine;
    lh_policy_options policy;
    lh_batch_defaults defaults;
    lh_batch_options own;
} lh_batch_values;

typedef struct lh_batch_call {
    lh_call *call;
    lh_batch_values *v;
    lh_policy policies[LH_ASKED_BOTH]; /* by when the question comes */
    lh_buf no_contexts;                /* why there is no policy for contexts; empty: there is one */
    lh_profiles profiles;              /* those that they name */
    lh_comm *replica, *leaders;        /* of this rank; its first ranks. NULL: the world */
    int64_t replicas;
    lh_engine *engine;
    /* rank 0 */
    char *context_root;
    const lh_chat_format *format; /* NULL: the model has none */
    lh_batch_input *input;
} lh_batch_call;

/* Collective. '--tp' ranks make a replica; without it all of them do. */
lh_status lh_batch_find_replica(lh_batch_call *batch);
lh_status lh_batch_open_engine(lh_batch_call *batch); /* of that replica */

/* LH_EUSAGE: options about the requests that do not go together. */
lh_status lh_batch_check_input_options(const lh_batch_options *options);

/* Rank 0: the requests, those made of documents among them, or a shard of them; with a model of this tokenizer (NULL:
 * it has none) and this many positions. Notes which policies answer them. */
lh_status lh_batch_open_input(lh_batch_call *batch, const lh_tokenizer *tok, int64_t positions);

/* Collective: '--check'. LH_EPARTIAL: some requests cannot be answered. */
lh_status lh_batch_check_all(lh_batch_call *batch);

#endif
