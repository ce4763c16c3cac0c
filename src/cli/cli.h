/* cli.h - what the commands share. A command is one entry of the table in commands.c: its syntax (base/options.h) and a
 * function. The function is called on every rank; work on files alone is rank 0's and needs no world. */
#ifndef LH_CLI_CLI_H
#define LH_CLI_CLI_H

#include "base/options.h"
#include "engine/world.h"
#include "policies/profile.h"

/* Options of every command; a command's values begin with them. */
typedef struct lh_cli_common {
    int verbose, quiet;
    const char *log_file;
    double comm_timeout_s;
} lh_cli_common;

extern const lh_option_table lh_cli_common_options;

/* Shared tables; the struct behind each is the one that the engine takes. */
extern const lh_option_table lh_cli_engine_options;   /* lh_engine_options */
extern const lh_option_table lh_cli_policy_options;   /* lh_policy_options */
extern const lh_option_table lh_cli_sampling_options; /* lh_sampling */

/* The output of a command as JSON instead of text. */
typedef struct lh_cli_format {
    int json;
} lh_cli_format;

extern const lh_option_table lh_cli_format_options;

/* One call of a command. A command that needs ranks opens *world (engine/world.h); main ends it with the status. */
typedef struct lh_call {
    const lh_options *options;
    void *values;
    lh_world *world;
} lh_call;

typedef struct lh_command {
    const lh_syntax *syntax;
    int64_t values_bytes;
    lh_status (*run)(lh_call *call);       /* NULL where there are tasks */
    const struct lh_command *const *tasks; /* ends with NULL; NULL: none. Commands of their own, named "command task" */
} lh_command;

const lh_command *lh_command_at(int i); /* NULL after the last */

/* NULL when there is none. */
const lh_command *lh_command_find(const char *name);
const lh_command *lh_command_task(const lh_command *command, const char *task);

/* The name of a command, after that of the command whose task it is. */
const char *lh_command_word(const lh_command *command);

/* The list of commands, the man page and the completion script, appended to *out. */
lh_status lh_cli_list(lh_buf *out);
lh_status lh_cli_man(lh_buf *out);
lh_status lh_cli_completion(lh_buf *out);

/* 1 on the rank that speaks and works on files. */
int lh_cli_first(void);

/* To stdout, flushed. LH_EWRITE. */
lh_status lh_cli_write(const void *data, int64_t bytes);

/* One line of JSON; or as indented text, "name: value". */
lh_status lh_cli_write_json(const json_t *value);
lh_status lh_cli_write_tree(const json_t *value);

/* The structure of the files that are HDF5, probed in a child process: they are other people's. NULL entries are
 * skipped. LH_EFILE. For commands without a world, which does it itself. */
lh_status lh_cli_probe(const char *path);

/* Collective. The weights of budgets that every rank has read for itself must be the same on all. LH_EUSAGE. */
lh_status lh_cli_same_profiles(const lh_call *call, const lh_profiles *profiles);

/* The resolved options as JSON, for what a run writes: new memory for free(). */
lh_status lh_cli_record(const lh_call *call, char **out);

/* Open the world of this call: ranks, and the same options on all of them. files: HDF5 that will be read, ends with
 * NULL. */
lh_status lh_cli_open_world(lh_call *call, const char *const *files);

#endif
