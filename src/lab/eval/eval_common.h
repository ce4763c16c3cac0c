/* eval_common.h - the shared parts of the tasks of `eval`: lists on the command line, the run, and its output. A task
 * provides a table of functions (lh_eval_kind) that check, load, run and print; lh_eval_run calls them in order and
 * writes the results. */
#ifndef LH_LAB_EVAL_EVAL_COMMON_H
#define LH_LAB_EVAL_EVAL_COMMON_H

#include "base/progress.h"
#include "base/table.h"
#include "lab/eval/keep_files.h"
#include "lab/eval/run_policies.h"
#include "policies/list.h"
#include "shell/chat_options.h"
#include "shell/shell.h"

/* Output of results. */
typedef struct lh_eval_files {
    int json;
    const char *csv, *answers, *output, *keep_sets;
} lh_eval_files;

extern const lh_option_table lh_eval_file_options;

/* Options of every task. */
typedef struct lh_eval_options {
    const char *length; /* a list */
    int64_t seed, max_new, together;
    const char
        *chat; /* one of lh_shell_chat_choices; auto: on if the model has a chat format; NULL: the task has none */
    const char *system;
    lh_shell_chat format;
    lh_strings given; /* files or folders of keep sets */
} lh_eval_options;

/* The rows of lh_eval_options, as far as all tasks agree on them; every task has its own table. */
#define LH_EVAL_LENGTH \
    .type = LH_OPT_STR, .name = "length", LH_FIELD(lh_eval_options, length), .arg = "LIST", .def = "2000"
#define LH_EVAL_MAX_NEW \
    .type = LH_OPT_TOKENS, .letter = 'n', .name = "max-new", LH_FIELD(lh_eval_options, max_new), .arg = "TOKENS"
#define LH_EVAL_CHAT                                                                       \
    .type = LH_OPT_SWITCH, .name = "chat", LH_FIELD(lh_eval_options, chat), .def = "auto", \
    .choices = lh_shell_chat_choices
#define LH_EVAL_SEED \
    .type = LH_OPT_I64, .name = "seed", LH_FIELD(lh_eval_options, seed), .arg = "N", .def = "0", .max = INT64_MAX >> 1
#define LH_EVAL_SCENARIO                                                                                        \
    .type = LH_OPT_STR, .name = "scenario", .arg = "LIST", .def = "question-aware,context-only",                \
    .help = "question-aware: the question is part of the prompt, and policies that observe its end see it; "    \
            "context-only: it comes after the eviction. Without --policy a budget is for the default of each, " \
            "longhaul and ask-later (or learnt), in all scenarios of the list."
#define LH_EVAL_GIVEN                                                                                                 \
    .type = LH_OPT_LIST, .name = "keep-sets-from", LH_FIELD(lh_eval_options, given), .arg = "FOLDER|FILE",            \
    .help = "Also keep the positions of files, as one more policy: of the file PROMPT.h5 in FOLDER for every prompt " \
            "(named as by --keep-sets), or of FILE for a single prompt."
#define LH_EVAL_TOGETHER                                                                                 \
    .type = LH_OPT_I64, .name = "together", LH_FIELD(lh_eval_options, together), .arg = "N", .def = "0", \
    .max = 1 << 20, .help = "Maximum number of caches filled by one prefill; lower it if memory is short. 0: all."

/* The last paragraph of every task's help. */
#define LH_EVAL_INTERRUPT                                                                                            \
    "Ctrl-C prints the results so far and exits with code 75. Finished prompts are kept beside the output, and the " \
    "same command goes on with the others."

/* The first members of every task's values. */
typedef struct lh_eval_values {
    lh_shell_common common;
    lh_engine_options engine;
    lh_policy_options policy;
    lh_eval_options run;
    lh_eval_files files;
} lh_eval_values;

/* The groups of options after the task's own groups. */
#define LH_EVAL_GROUPS                                                 \
    {&lh_shell_policy_list_options, offsetof(lh_eval_values, policy)}, \
        {&lh_shell_engine_options, offsetof(lh_eval_values, engine)},  \
        {&lh_eval_file_options, offsetof(lh_eval_values, files)},      \
        {&lh_shell_common_options, offsetof(lh_eval_values, common)},

/* Reads a range such as "0.05:0.95:12" (from, to, count) or a list such as "0.1,0.5", in [0, 1], into a new array.
 * LH_EUSAGE, naming option and item. */
lh_status lh_eval_read_shares(const char *option, const char *text, double **out, int64_t *n);

/* Reads a list of numbers of tokens such as "2000,8k" into a new array. LH_EUSAGE, naming option and item. */
lh_status lh_eval_read_lengths(const char *option, const char *text, int64_t **out, int64_t *n);

/* Sets wanted[i] = 1 for every words[i] in the list; `words` ends with NULL. */
lh_status lh_eval_read_words(const char *option, const char *text, const char *const *words, int *wanted);

/* The functions of a task, called with lh_eval_task.self. */
typedef struct lh_eval_kind {
    const char *name; /* "needle" */
    /* Checks before anything is opened, the same on all ranks; NULL: there is nothing to check. */
    lh_status (*check)(void *self);
    lh_status (*load)(void *self); /* rank 0: reads and checks the task's input, and sets `data` of the task */
    lh_status (*run)(void *self);  /* collective */
    /* The results so far, on rank 0. */
    lh_status (*means)(const void *self, lh_table *means);
    lh_status (*curve)(const void *self, lh_table *curve); /* a measure by position, made of them; NULL: none */
    lh_status (*print)(const void *self, lh_buf *out);
    struct { /* tables besides the means, ends with {0}; --answers writes the first; empty later ones are left out */
        const char *name;
        size_t at; /* offset of the lh_table in `self` */
    } tables[3];
} lh_eval_kind;

/* State of a task. The caller fills in the first three members, lh_eval_run the rest. */
typedef struct lh_eval_task {
    const lh_eval_kind *kind;
    void *self;
    lh_call *call;
    lh_policy_options lists;        /* as given, and when the task asks */
    lh_policy_list policies;        /* resolved `lists` */
    int64_t *lengths, length_count; /* each in [1, 2^40]; none if the task has no --length */
    lh_given_files given;           /* keep sets that the policies name */
    int chat;                       /* 1: prompts are put in a chat format */
    json_t *arguments;              /* variables of its template; NULL: none */
    uint64_t data;                  /* a hash of the task's input, on rank 0 */
    lh_engine *engine;
    lh_resume *resume;     /* NULL: no output is a file */
    char *record;          /* resolved options, JSON */
    char *model;           /* name of the checkpoint's file, without ".h5" */
    lh_failures unwritten; /* keep sets, the same on all ranks */
    lh_progress progress;
} lh_eval_task;

/* For `check` of a task that asks questions: reads '--scenario'; the default policies of the lists depend on it. */
lh_status lh_eval_read_scenarios(lh_eval_task *task, const char *text, int *wanted);

/* For the request of a task. */
lh_eval_setup lh_eval_setup_of(lh_eval_task *task);

/* Collective. Runs a task: checks the options, calls `check`, `load` and `run`, and writes results to standard output
 * and files. The caller frees what `self` holds. */
lh_status lh_eval_run(lh_eval_task *task);

/* On rank 0, once the engine is open: finds the prompts that an interrupted run of the same command has finished. */
lh_status lh_eval_open_resume(lh_eval_task *task);

/* On rank 0. lh_eval_claim: claims the outputs before long work; lh_eval_drop_claims: those that were not written.
 * lh_eval_write: writes the results to files and standard output; one that cannot be written prevents no other.
 * Interrupted results go to standard output only: a file may hold better ones. */
lh_status lh_eval_claim(const lh_eval_task *task);
void lh_eval_drop_claims(const lh_eval_task *task);
lh_status lh_eval_write(const lh_eval_task *task, int interrupted);

/* *path: the output whose NAME.resume keeps finished prompts; NULL if no output is a file. */
lh_status lh_eval_kept_beside(const lh_eval_task *task, const char **path);

/* 1 for "-". */
int lh_eval_is_stdout(const char *path);

#endif
