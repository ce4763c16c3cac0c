/* shell.h - the interface of commands, and the code they share. A command is one entry of the table in commands.c: its
 * syntax (base/options.h) and a function, which is called on every rank. A command that only works on files does so on
 * rank 0, without MPI. */
#ifndef LH_SHELL_SHELL_H
#define LH_SHELL_SHELL_H

#include "base/interrupt.h"
#include "base/mem.h"
#include "base/options.h"
#include "base/status.h"
#include "comm/comm.h"
#include "engine/context_store.h"
#include "engine/world.h"
#include "policies/profile.h"

/* Options of every command; the first member of a command's values. */
typedef struct lh_shell_common {
    int verbose, quiet;
    const char *log_file;
    double comm_timeout_s;
} lh_shell_common;

extern const lh_option_table lh_shell_common_options;

/* Shared tables of options; each fills the struct that the engine takes. */
extern const lh_option_table lh_shell_engine_options;        /* lh_engine_options */
extern const lh_option_table lh_shell_policy_options;        /* lh_policy_options */
extern const lh_option_table lh_shell_policy_list_options;   /* lh_policy_options with lists of policies and budgets */
extern const lh_option_table lh_shell_sampling_options;      /* lh_sampling */
extern const lh_option_table lh_shell_context_store_options; /* lh_context_store_options */

/* LH_EUSAGE for a limit without a folder. */
lh_status lh_shell_check_store(const lh_context_store_options *options);

/* LH_EUSAGE for an empty '--stop'. */
lh_status lh_shell_check_stops(const lh_strings *stops);

extern const char *const lh_shell_chat_choices[]; /* of --chat: "auto", "on", "off" */

/* The output of a command as JSON instead of text. */
typedef struct lh_shell_format {
    int json;
} lh_shell_format;

extern const lh_option_table lh_shell_format_options;

/* One call of a command. A command that needs ranks opens *world (engine/world.h); main ends it with the status. */
typedef struct lh_call {
    const lh_options *options;
    void *values;
    lh_world *world;
} lh_call;

typedef struct lh_command {
    const lh_syntax *syntax;
    int64_t values_bytes;
    lh_status (*run)(lh_call *call);       /* NULL if it has tasks */
    const struct lh_command *const *tasks; /* ends with NULL; NULL: none. Each is a command named "command task" */
} lh_command;

const lh_command *lh_command_at(int i); /* NULL after the last */

/* NULL if there is none. */
const lh_command *lh_command_find(const char *name);
const lh_command *lh_command_task(const lh_command *command, const char *task);

/* The last word of a command's name: for a task, its name without the command's. */
const char *lh_command_word(const lh_command *command);

/* Append the list of commands, the man page of the program and of a command, every option as a page in Markdown, the
 * completion script. */
lh_status lh_shell_list(lh_buf *out);
lh_status lh_shell_man(lh_buf *out);
lh_status lh_shell_man_of(lh_buf *out, const lh_command *command);
lh_status lh_shell_markdown(lh_buf *out);
lh_status lh_shell_completion(lh_buf *out);

/* 1 on rank 0, which prints and works on files. */
int lh_shell_first(void);

/* Writes to stdout and flushes. LH_EWRITE. When the reader of a pipe has gone, as `head` does, the rest is dropped
 * without a word: files are still to be written. lh_shell_unread is 1 then, for a command that does nothing else. */
lh_status lh_shell_write(const void *data, int64_t bytes);
int lh_shell_unread(void);

/* Writes text that belongs beside the result, such as the thoughts of an answer, to stderr, where that is a terminal.
 */
void lh_shell_show(const void *data, int64_t bytes);

/* The same for lines with texts of files in them, which control no terminal (lh_text_make_plain). Changes `text`. */
lh_status lh_shell_write_plain(lh_buf *text);

/* Write one line of JSON, to stdout or to a file (lh_file_write); or indented text, "name: value". */
lh_status lh_shell_write_json(const json_t *value);
lh_status lh_shell_save_json(const char *path, const json_t *value);
lh_status lh_shell_write_tree(const json_t *value);

/* Checks the structure of a foreign HDF5 file in a child process (lh_h5_probe). LH_EFILE. For commands without a world;
 * opening the world does this itself. */
lh_status lh_shell_probe(const char *path);

/* Collective. LH_EUSAGE unless the files of policies, which every rank reads itself, are the same on all ranks: budget
 * profiles and plug-ins. */
lh_status lh_shell_same_policies(const lh_call *call, const lh_profiles *profiles);

/* The resolved options as JSON, stored with every file that a run writes; release with free(). */
lh_status lh_shell_record(const lh_call *call, char **out);

/* The options that results depend on, as JSON (json_decref): those of the record without the common ones, the rows of
 * `without` (ends with NULL), where the run is computed, and names of files, which are known by their contents. */
lh_status lh_shell_result_options(const lh_call *call, const lh_option_table *const *without, json_t **out);

/* Opens the world of this call: probes the HDF5 files that will be read (`files` ends with NULL), starts MPI, checks
 * that all ranks have the same options. */
lh_status lh_shell_open_world(lh_call *call, const char *const *files);

/* ---- an interrupt of any rank ends the run on all of them ---- */
/* Collective. The most urgent of the signals that any rank got (base/interrupt.h), on all ranks: rank 0 then saves what
 * there is, and all leave with LH_EINTERRUPTED (lh_comm_leave). Costs an all-reduce of 8 bytes. */
lh_interrupt lh_shell_interrupted(lh_comm *comm);

/* The same, with *any: 1 on any rank is 1 on all. */
lh_interrupt lh_shell_interrupted_any(lh_comm *comm, int *any);

/* ---- texts that the user gives ---- */
/* Appends a file; '-' is standard input. Refuses and warns as lh_text_check (text/text_check.h). */
lh_status lh_text_read(lh_buf *out, const char *path);

#endif
