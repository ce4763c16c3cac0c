/* batch_command.h - the command `batch`: its values, and the state that its steps share. */
#ifndef LH_BATCH_BATCH_COMMAND_H
#define LH_BATCH_BATCH_COMMAND_H

#include "batch/run.h"
#include "shell/chat_options.h"
#include "shell/shell.h"

typedef struct lh_batch_options {
    const char *input, *from, *text, *output, *context_root, *shard, *metrics;
    int check, json, resume, retry_failed, ordered, openai;
    int64_t batch, max_errors;
    double prefill_share, checkpoint_s, sync_s;
} lh_batch_options;

typedef struct lh_batch_values {
    lh_shell_common common;
    lh_engine_options engine;
    lh_policy_options policy;
    lh_batch_defaults defaults;
    lh_batch_options own;
    lh_shell_chat chat;
    lh_context_store_options store;
} lh_batch_values;

typedef struct lh_batch_call {
    lh_call *call;
    lh_batch_values *v;
    lh_policy policies[LH_ASKED_BOTH]; /* by when the question comes */
    lh_buf no_contexts;                /* reason why there is no policy for contexts; empty: there is one */
    lh_profiles profiles;              /* named by the policies */
    json_t *arguments;                 /* variables of chat templates; NULL: none */
    lh_comm *replica, *roots;          /* the ranks of this replica; the first rank of each replica */
    int64_t replicas;
    lh_engine *engine;
    /* rank 0 */
    char *context_root;
    char *metrics;                /* of lh_batch_metrics_path */
    const lh_chat_format *format; /* NULL: the model has none */
    lh_batch_input *input;
} lh_batch_call;

/* Collective. Divides the ranks into replicas of '--tp' ranks, without it into one; opens the engine of the replica. */
lh_status lh_batch_find_replica(lh_batch_call *batch);
lh_status lh_batch_open_engine(lh_batch_call *batch);

/* Budgets in bytes of the run's policies become entries of this cache; lh_batch_open_engine does it itself. */
lh_status lh_batch_size_policies(lh_batch_call *batch, const lh_cache_size *cache);

/* *out: the file of '--metrics', NULL: none. "%j" in its name becomes the job, "%a" the part of '--shard' or the task
 * of the array; with '--shard' and without "%a", ".I-of-N" stands before the ending. LH_EUSAGE: there is no job or
 * task. */
lh_status lh_batch_metrics_path(char **out, const lh_batch_options *options);

/* LH_EUSAGE: options of the input exclude each other, or one is missing. */
lh_status lh_batch_check_input_options(const lh_batch_options *options);

/* Rank 0: opens the requests, which may be made of documents, or a shard of them, and notes the policies that answer
 * them. tok: of the model, NULL: it has none; positions: maximum of the model. */
lh_status lh_batch_open_input(lh_batch_call *batch, const lh_tokenizer *tok, int64_t positions);

/* Collective: '--check'. LH_EPARTIAL: some requests cannot be answered. */
lh_status lh_batch_check_all(lh_batch_call *batch);

#endif
