/* options.h - the options of a command as tables. Parsing, --help, the man page, the completion of the shell and the
 * record that is stored with results are all made from them; defaults are text in the table and nowhere else.
 *
 * A command is one lh_syntax: groups of options, each a table that several commands may share together with the place
 * of its struct inside the command's own struct of values:
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

/* Texts of the caller in an array of the options object. */
typedef struct lh_strings {
    const char **at;
    int64_t n;
} lh_strings;

typedef enum lh_option_type {
    LH_OPT_FLAG,         /* int: 1 when given */
    LH_OPT_I64,          /* int64_t in [min, max] */
    LH_OPT_F64,          /* double in [low, high], finite */
    LH_OPT_STR,          /* const char *, NULL without a default; with choices one of them */
    LH_OPT_LIST,         /* lh_strings: may be given several times, no default */
    LH_OPT_ENUM,         /* int or an enum: the number of the choice */
    LH_OPT_WORD_OR_FILE, /* const char *, NULL without a default: one of the choices, or a file */
    LH_OPT_BYTES,        /* int64_t: a size, as 512M, 80GiB (of 1024) or 80GB (of 1000) */
    LH_OPT_SWITCH,       /* const char *, NULL when not given: "on", or what "--name=on|off" says; no letter */
    LH_OPT_TYPES
} lh_option_type;

typedef struct lh_option {
    lh_option_type type;
    char letter;                /* short form, or 0 */
    int required;               /* 1: the command needs it */
    const char *name;           /* without the dashes; a row without a name ends a table */
    const char *arg;            /* what help calls the value; "FILE…" and "FOLDER…" are completed as paths */
    const char *def;            /* default as text; NULL: none, the field is 0 or NULL */
    const char *help;           /* whole sentences; NULL: --help and the man page leave the option out */
    size_t at, bytes;           /* the field: LH_FIELD */
    int64_t min, max;           /* of an I64; equal: any */
    double low, high;           /* of an F64; equal: any */
    const char *const *choices; /* of an ENUM, STR, WORD_OR_FILE or SWITCH, ends with NULL */
    const char *(*word)(int i); /* of a STR without choices: words that the shell proposes, several with commas between
                                   them where `arg` is LIST; NULL behind the last. Others may be given, too */
} lh_option;

#define LH_FIELD(type, member) .at = offsetof(type, member), .bytes = sizeof(((type *)0)->member)

typedef struct lh_option_table {
    const char *heading; /* "sampling" */
    const lh_option *rows;
} lh_option_table;

typedef struct lh_option_group {
    const lh_option_table *table; /* NULL ends the list */
    size_t at;                    /* of the table's struct in the struct of all values */
} lh_option_group;

typedef struct lh_example {
    const char *line, *what; /* a command line, and what it does; a NULL line ends the list */
} lh_example;

/* Everything a command understands and how to explain it. */
typedef struct lh_syntax {
    const char *program, *name; /* "longhaul", "import" */
    const char *usage;          /* behind the name, as "SRC -o FILE [options]" */
    const char *summary;        /* one line, no full stop */
    const char *text;           /* paragraphs, separated by empty lines; NULL: none */
    int max_args;               /* positional arguments at most */
    const lh_option_group *groups;
    const lh_example *examples; /* NULL: none */
} lh_syntax;

/* A command line that was understood. Opaque; the values lie in the caller's struct and live as long as this. */
typedef struct lh_options lh_options;

/* Fill `values`, the struct that the groups point into, with the defaults and then from argv[0 .. argc - 1] (program
 * and command taken off). "--name value", "--name=value", "-n value", "-nvalue", flags also joined ("-vq"), switches
 * "--name" or "--name=off"; the last of several wins; "--" ends the options; "-" is an argument. Texts are borrowed
 * from argv. Fails with LH_EUSAGE: an unknown option (with the nearest one), a bad or missing value (with what would be
 * right), a required option left out, too many arguments. */
lh_status lh_options_parse(lh_options **out, const lh_syntax *syntax, void *values, int argc, char **argv);
void lh_options_close(lh_options *options);

/* How often the user gave the option; 0 means that its value is the default. Asserts that there is such an option. */
int64_t lh_options_given(const lh_options *options, const char *name);

/* The i-th positional argument, NULL behind the last. */
const char *lh_options_arg(const lh_options *options, int64_t i);

/* *out = {"command": name, "arguments": […], "options": {name: value, …}, "given": [names]}: every option with its
 * resolved value, null where it has none. The caller's (json_decref). */
lh_status lh_options_json(const lh_options *options, json_t **out);

/* 1 when argv asks for help ("--help" or "-h" before any "--"). Checked before parsing: help is not refused. */
int lh_options_help_asked(int argc, char **argv);

/* Texts made from the table, appended to *out: the --help page; this command's part of the man page (troff); a case of
 * the completion function (bash). */
lh_status lh_options_help(lh_buf *out, const lh_syntax *syntax);
lh_status lh_options_man(lh_buf *out, const lh_syntax *syntax);
lh_status lh_options_completion(lh_buf *out, const lh_syntax *syntax);

/* The words of `text` in lines of 96 columns, as --help has them, appended to *out: every line but the first begins at
 * column `at`; `used` columns of the first one are taken. Empty lines stay. */
lh_status lh_options_wrap(lh_buf *out, const char *text, int at, int used);

/* Of `names` (ends with NULL) the one that `word` was probably meant to be, NULL when none is near. Capitals do not
 * count, and the beginning of a name is nearest. */
const char *lh_nearest(const char *word, const char *const *names);

#endif
