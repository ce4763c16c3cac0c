/* eval_common.h - what the tasks of `eval` share: lists on the command line, the run, and where results go. */
#ifndef LH_CLI_EVAL_COMMON_H
#define LH_CLI_EVAL_COMMON_H

#include "base/progress.h"
#include "cli/cli.h"

/* Policies and budgets as lists; the struct behind it is lh_policy_options. */
extern const lh_option_table lh_cli_policy_list_options;

/* Where results go. */
typedef struct lh_eval_files {
    int json;
    const char *csv, *answers, *output;
} lh_eval_files;

extern const lh_option_table lh_eval_file_options;

/* How a task runs, whatever it is. */
typedef struct lh_eval_options {
    const char *length; /* a list */
    int64_t seed, max_new, together;
    const char *chat; /* NULL: where the model has a chat format; else "on" or "off" */
    const char *chat_template, *system;
} lh_eval_options;

/* Lists: "2000,6000" in [1, 2^40]; "0.05:0.95:12" (from, to, how many) or "0.1,0.5" in [0, 1]. New memory of the
 * caller. LH_EUSAGE naming option and item. */
lh_status lh_eval_read_lengths(const char *option, const char *text, int64_t **out, int64_t *n);
lh_status lh_eval_read_shares(const char *option, const char *text, double **out, int64_t *n);

/* 1 in wanted[i] for every word of the list that is words[i]; `words` ends with NULL. */
lh_status lh_eval_read_words(const char *option, const char *text, const char *const *words, int *wanted);

/* A task under way. Its three functions give the results so far, on rank 0. */
typedef struct lh_eval_task {
    lh_call *call;
    const char *name; /* "needle" */
    const lh_engine_options *engine_options;
    const lh_eval_files *files;
    lh_policy_list policies;
    lh_engine *engine;
    const void *result; /* the task's own; NULL: nothing yet */
    lh_status (*means)(const void *result, lh_table *means);
    lh_status (*print)(const void *result, lh_buf *out);
    /* tables beside the means: number i and its name, NULL behind the last; the first is the one of --answers */
    const lh_table *(*table)(const void *result, int64_t i, const char **name);
    char *record; /* of the options */
    lh_progress progress;
} lh_eval_task;

/* Refuse files that are written and read. read: files that the task reads, ends with NULL. */
lh_status lh_eval_check_files(const lh_eval_task *task, const char *const *read);

/* The world; rank 0 calls `load` (what the task reads, and what it checks); the engine. */
lh_status lh_eval_open(lh_eval_task *task, lh_status (*load)(void *self), void *self);

/* 1 when prompts are put in a chat format. LH_EUSAGE where it was asked for and there is none. */
lh_status lh_eval_chat(const lh_eval_task *task, const lh_eval_options *options, int *chat);

/* What a user should know of the policies before a long run, for prompts of these lengths. On rank 0. */
lh_status lh_eval_warn(const lh_eval_task *task, const int64_t *lengths, int64_t n);

/* For lh_eval_progress, with the task as `self`. An interrupt is looked for here: rank 0 writes what there is, and
 * leaves with LH_EINTERRUPTED; the launcher ends the others. */
void lh_eval_show(void *self, int64_t done, int64_t total);

/* Results to standard output and files, on rank 0. */
lh_status lh_eval_finish(lh_eval_task *task);
void lh_eval_clear(lh_eval_task *task);

#endif
