/* options.h - the options of a command as tables. Parsing, --help, the man page, shell completion and the record that
 * is stored with results are all derived from them; defaults are text in the table and nowhere else.
 *
 * A command is one lh_syntax: groups of options, each a table that several commands may share, with the offset of its
 * struct in the command's struct of values:
 *
 *     struct sampling { int64_t max_new; double temperature; };
 *     #define FIELD(member) LH_FIELD(struct sampling, member)
 *     static const lh_option rows[] = {
 *         {.type = LH_OPT_I64, .letter = 'n', .name = "max-new", FIELD(max_new), .arg = "TOKENS", .def = "128",
 *          .min = 1, .max = 1 << 30, .help = "Tokens to generate at most."},
 *         {0}};
 *     const lh_option_table sampling_options = {"sampling", rows};
 */
#ifndef LH_BASE_OPTIONS_H
#define LH_BASE_OPTIONS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

/* Texts are borrowed, the array belongs to lh_options. */
typedef struct lh_strings {
    const char **at;
    int64_t n;
} lh_strings;

/* The text of an option by its name. Slots without a name follow those in use. */
typedef struct lh_named_text {
    const char *name, *text;
} lh_named_text;

/* The slot of `name` among n, or the first one without a name; NULL: all slots have other names. */
lh_named_text *lh_named_slot(lh_named_text *slots, int64_t n, const char *name);

typedef enum lh_option_type {
    LH_OPT_FLAG,         /* int: 1 if given */
    LH_OPT_I64,          /* int64_t in [min, max] */
    LH_OPT_TOKENS,       /* int64_t in [min, max]: a number of tokens such as 4096, 128k or 1M (of 1024) */
    LH_OPT_F64,          /* double in [low, high], finite */
    LH_OPT_STR,          /* const char *, NULL without a default; one of the choices if there are any */
    LH_OPT_LIST,         /* lh_strings: may be given several times, no default */
    LH_OPT_ENUM,         /* int or an enum: the index of the choice */
    LH_OPT_WORD_OR_FILE, /* const char *, NULL without a default: one of the choices, or a file */
    LH_OPT_BYTES,        /* int64_t: a size such as 512M, 80GiB (of 1024) or 80GB (of 1000) */
    LH_OPT_SWITCH,       /* const char *, NULL if not given and without a default: "on", or the choice after it, as in
                            "--name=off" and "--name off"; no letter */
    LH_OPT_TYPES
} lh_option_type;

typedef struct lh_option {
    lh_option_type type;
    char letter;                /* short form, or 0 */
    int required;               /* 1: must be given, unless an option that stands alone is given */
    int alone;                  /* true: with it no other option is required */
    const char *name;           /* without the dashes; a row without a name ends a table */
    const char *arg;            /* name of the value in help; "FILE…" and "FOLDER…" are completed as paths */
    const char *def;            /* default as text; NULL: none, the field is 0 or NULL */
    const char *help;           /* complete sentences; NULL: not shown in --help and the man page */
    size_t at, bytes;           /* the field: LH_FIELD */
    int named;                  /* of a STR, WORD_OR_FILE or SWITCH: 1 if the field is an array of lh_named_text, which
                                   options share, each with the slot of its name */
    int64_t min, max;           /* of an I64 (equal: any) or TOKENS */
    double low, high;           /* of an F64; equal: any */
    const char *const *choices; /* of an ENUM, STR, WORD_OR_FILE or SWITCH, ends with NULL */
    const char *(*word)(int i); /* of a STR without choices: words that the shell completes, NULL after the last;
                                   separated by commas if `arg` is LIST. Other words are allowed */
    int detail;                 /* true: shown by '--help all' only */
    int writes; /* of an option that names a file ("FILE…", "FOLDER…"): true if the file is written, false if it is read
                 */
    const char *file_prefix;   /* of a STR: precedes the file in values that name one, such as "text:", others name
                                  none; NULL: every value names a file if `arg` says so */
    const char *replaces;      /* of an output: the option that names the file it may replace; NULL: none */
    const char *const *beside; /* of an output: endings of files that are written in the same folder; NULL: none */
    const char *makes; /* of an output: the kind of file that it makes and may replace, "text" or the kind of an HDF5
                          file; NULL: the command decides */
    const struct lh_option *(*more)(int64_t i); /* of the row that ends a table: further rows, NULL after the last */
} lh_option;

#define LH_FIELD(type, member) .at = offsetof(type, member), .bytes = sizeof(((type *)0)->member)

typedef struct lh_option_table {
    const char *heading; /* "sampling" */
    const lh_option *rows;
} lh_option_table;

/* Row i of a table; NULL after the last. */
const lh_option *lh_option_row(const lh_option_table *table, int64_t i);

typedef struct lh_option_group {
    const lh_option_table *table; /* NULL ends the list */
    size_t at;                    /* of the table's struct in the struct of all values */
} lh_option_group;

typedef struct lh_example {
    const char *line, *what; /* a command line and its purpose; a NULL line ends the list */
} lh_example;

/* Options and texts of a command. */
typedef struct lh_syntax {
    const char *program, *name; /* "longhaul", "import" */
    const char *usage;          /* after the name, such as "SRC -o FILE [options]" */
    const char *summary;        /* one line, no full stop */
    const char *text;           /* paragraphs, separated by empty lines; NULL: none */
    int max_args;               /* maximum number of positional arguments */
    int reads_args;             /* true: the arguments are files or folders that are read */
    const lh_option_group *groups;
    const lh_option_table *optional; /* the table of a group in which no option is required; NULL: none */
    const lh_example *examples;      /* NULL: none */
} lh_syntax;

/* Options of neighbouring tools (llama.cpp, vLLM, Transformers, kvpress and others), which people type from habit: an
 * unknown option is looked up in this table. Of several rows with one word the first counts that names an option
 * of the command. */
typedef struct lh_foreign_option {
    const char *word; /* with its dashes; a NULL word ends the table */
    const char *ours; /* name of the option to use instead; the row holds for commands that have it */
    const char *note; /* NULL: nothing to mind */
    int needless;     /* true: where there is `ours`, nothing has to replace the option, and `note` says why */
} lh_foreign_option;

extern const lh_foreign_option lh_foreign_options[];

/* Values that people type from habit, for any option with choices. Of several rows with one word the first counts that
 * names a choice of the option. */
typedef struct lh_foreign_value {
    const char *word; /* a NULL word ends the table */
    const char *ours;
    const char *note; /* NULL: nothing to mind */
} lh_foreign_value;

extern const lh_foreign_value lh_foreign_values[];

/* A parsed command line. The values are in the caller's struct and live as long as this. */
typedef struct lh_options lh_options;

/* Fill `values`, the struct of the groups' offsets, with the defaults and then from argv[0 .. argc - 1] (without
 * program and command). "--name value", "--name=value", "-n value", "-nvalue", flags also joined ("-vq"), switches
 * "--name" or "--name=off"; "--" ends the options; "-" is an argument. Of several values of an option the last one
 * counts, but an input takes one value: a STR with the `arg` TEXT, or a STR of which every value names a file or folder
 * that is read. Texts are borrowed from argv. Fails with LH_EUSAGE: an unknown option (the message has the nearest
 * one), a bad or missing value (the message has valid ones), a second input, a missing required option, too many
 * arguments. */
lh_status lh_options_parse(lh_options **out, const lh_syntax *syntax, void *values, int argc, char **argv);
void lh_options_close(lh_options *options);

/* Log a message for each option with an earlier, different value that the last one replaced. */
void lh_options_note_replaced(const lh_options *options);

/* Times the user gave the option; 0 means that its value is the default. Asserts that the option exists. */
int64_t lh_options_given(const lh_options *options, const char *name);

/* The i-th positional argument, NULL after the last. */
const char *lh_options_arg(const lh_options *options, int64_t i);

/* A file that the command line names. */
typedef struct lh_named_file {
    const char *option; /* NULL: an argument */
    const char *path, *replaces, *makes;
    const char *const *beside; /* of lh_option */
    int writes;
} lh_named_file;

/* *out: [*n] in the order of the tables, then the arguments; written and read files. Release with lh_free. */
lh_status lh_options_files(const lh_options *options, lh_named_file **out, int64_t *n);

/* *out = {"command": name, "arguments": […], "options": {name: value, …}, "given": [names]}: every option with its
 * resolved value, null if it has none. New reference (json_decref). */
lh_status lh_options_json(const lh_options *options, json_t **out);

/* How much help: for a command with options of detail LH_HELP_SHORT shows a sentence for each other option. */
typedef enum lh_help { LH_HELP_NONE, LH_HELP_SHORT, LH_HELP_ALL } lh_help;

/* The help that argv asks for: "--help" or "-h" before any "--", or "help" as the first word, and "all" after it.
 * Checked before parsing, so that bad options do not prevent help. */
lh_help lh_options_help_asked(int argc, char **argv);

/* Texts from the table, appended to *out: the --help page; a case of the completion function (bash). */
lh_status lh_options_help(lh_buf *out, const lh_syntax *syntax, lh_help help);
lh_status lh_options_completion(lh_buf *out, const lh_syntax *syntax);

/* Append a section of a man page (troff): a command, which only names the tables of `shared` (ends with
 * NULL); and a table of `shared`. */
lh_status lh_options_man(lh_buf *out, const lh_syntax *syntax, const lh_option_table *const *shared);
lh_status lh_options_man_shared(lh_buf *out, const lh_option_table *table);

/* Appends the options of a table as a list in Markdown. */
lh_status lh_options_markdown(lh_buf *out, const lh_option_table *table);

/* Append the words of `text`, wrapped at the width of the terminal, as in --help: every line but the first begins at
 * column `at`; the first line has `used` columns already. Empty lines stay. The width is COLUMNS of the environment,
 * else the width of the terminal on standard output, else 96; at least 40 and at most 120. */
lh_status lh_options_wrap(lh_buf *out, const char *text, int at, int used);

/* True if `word` is a choice of a switch: after the switch it is its value. */
int lh_option_is_choice(const lh_option *row, const char *word);

/* Read a number of tokens such as "4096", "128k" or "1M" (of 1024); false for other texts and negative numbers. */
int lh_token_count_read(const char *text, int64_t *out);

/* The index of `text` among the words of an option (NULL after the last). LH_EUSAGE names the option, the word for a
 * foreign value or the nearest word, and all words. */
lh_status lh_choice_find(int *out, const char *option, const char *const *choices, const char *text);

/* The name nearest to `word` in `names` (NULL after the last), NULL if no name is near. Case is ignored, and a prefix
 * of a name is nearest. */
const char *lh_nearest(const char *word, const char *const *names);

#endif
