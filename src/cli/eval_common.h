/* eval_common.h - what the tasks of `eval` share: lists on the command line, the run, and where results go. */
#ifndef LH_CLI_EVAL_COMMON_H
#define LH_CLI_EVAL_COMMON_H

#include "base/progress.h"
#include "base/table.h"
#include "cli/cli.h"
#include "policies/list.h"

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

/* Its rows, as far as they are the same for all tasks; each has a table of its own. */
#define LH_EVAL_LENGTH \
    .type = LH_OPT_STR, .name = "length", LH_FIELD(lh_eval_options, length), .arg = "LIST", .def = "2000"
#define LH_EVAL_MAX_NEW \
    .type = LH_OPT_I64, .letter = 'n', .name = "max-new", LH_FIELD(lh_eval_options, max_new), .arg = "TOKENS"
#define LH_EVAL_CHAT .type = LH_OPT_SWITCH, .name = "chat", LH_FIELD(lh_eval_options, chat), .choices = lh_policy_switch
#define LH_EVAL_CHAT_TEMPLATE                                                                                  \
    .type = LH_OPT_STR, .name = "chat-template", LH_FIELD(lh_eval_options, chat_template), .arg = "NAME|FILE", \
    .help = "Another chat format, as for 'generate'. Means --chat."
#define LH_EVAL_SEED \
    .type = LH_OPT_I64, .name = "seed", LH_FIELD(lh_eval_options, seed), .arg = "N", .def = "0", .max = INT64_MAX >> 1
#define LH_EVAL_TOGETHER                                                                                 \
    .type = LH_OPT_I64, .name = "together", LH_FIELD(lh_eval_options, together), .arg = "N", .def = "0", \
    .max = 1 << 20, .help = "Caches that one prefill fills at most, where memory is short. 0: all."

/* What the values of every task begin with. */
typedef struct lh_eval_values {
    lh_cli_common common;
    lh_engine_options engine;
    lh_policy_options policy;
    lh_eval_options run;
    lh_eval_files files;
} lh_eval_values;

/* The groups after the task's own and that of `run`. */
#define LH_EVAL_GROUPS                                               \
    {&lh_cli_policy_list_options, offsetof(lh_eval_values, policy)}, \
        {&lh_cli_engine_options, offsetof(lh_eval_values, engine)},  \
        {&lh_eval_file_options, offsetof(lh_eval_values, files)},    \
        {&lh_cli_common_options, offsetof(lh_eval_values, common)},

/* Lists: "0.05:0.95:12" (from, to, how many) or "0.1,0.5" in [0, 1]. New memory of the caller. LH_EUSAGE naming option
 * and item. */
lh_status lh_eval_read_shares(const char *option, const char *text, double **out, int64_t *n);

/* 1 in wanted[i] for every word of the list that is words[i]; `words` ends with NULL. */
lh_status lh_eval_read_words(const char *option, const char *text, const char *const *words, int *wanted);

/* What a task does; each function takes the task's own. */
typedef struct lh_eval_kind {
    const char *name;               /* "needle" */
    lh_status (*check)(void *self); /* what can be refused before anything is opened; the same on all ranks */
    lh_status (*load)(void *self);  /* rank 0: what the task reads, and what it checks */
    lh_status (*run)(void *self);   /* collective */
    /* The results so far, on rank 0. */
    lh_status (*means)(const void *self, lh_table *means);
    lh_status (*print)(const void *self, lh_buf *out);
    /* tables beside the means: number i and its name, NULL after the last; the first is the one of --answers */
    const lh_table *(*table)(const void *self, int64_t i, const char **name);
} lh_eval_kind;

/* A task under way. The caller fills in the first four; `check` finds policies and lengths, `run` all. */
typedef struct lh_eval_task {
    const lh_eval_kind *kind;
    void *self;
    lh_call *call;
    const char *input; /* the file that the task reads */
    lh_policy_list policies;
    int64_t *lengths, length_count; /* each in [1, 2^40] */
    int chat;                       /* 1: prompts are put in a chat format */
    lh_engine *engine;
    char *record; /* of the options */
    lh_progress progress;
} lh_eval_task;

/* Collective. The whole task: options are checked, `check`, `load` and `run` called, and results go to standard output
 * and files. What the task's own holds is the caller's to free. */
lh_status lh_eval_run(lh_eval_task *task);

/* For lh_eval_progress, with the task as `self`. An interrupt is looked for here: rank 0 writes what there is, and
 * leaves with LH_EINTERRUPTED; the launcher ends the others. */
void lh_eval_show(void *self, int64_t done, int64_t total);

#endif
