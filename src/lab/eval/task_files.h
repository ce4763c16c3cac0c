/* task_files.h - the records of `eval tasks`: questions about contexts, from JSON files as benchmarks publish them.
 * The member names and the prompts of a benchmark are rows of the tables in task_formats.c. */
#ifndef LH_LAB_EVAL_TASK_FILES_H
#define LH_LAB_EVAL_TASK_FILES_H

#include "base/options.h"
#include "lab/eval/task_metrics.h"

/* The members of a benchmark's records. Alternative names of a member are separated by '|'; NULL: it has no such
 * member. The member names of a record decide its format: the first row of the table with all its `signs` in the
 * record. */
typedef struct lh_task_format {
    const char *signs[3];                    /* ends with NULL */
    const char *context, *question, *prompt; /* prompt: context, question and answer prefix in one text */
    const char *answers, *choices, *prefix;  /* prefix: the beginning of the answer, which is given to the model */
    const char *task, *metric, *max_new;     /* no task: the name of the file, of its folder for "validation.jsonl" */
    const char *length;                      /* tokens of prompt and answer that the record was made for */
    const char *fixed_task;                  /* the task of all records */
    int has_template;                        /* true: prompts are made with head and tail of lh_task_row */
    int needs_row;                           /* true: the task must have a row */
} lh_task_format;
extern const lh_task_format lh_task_formats[]; /* the last row fits every record */

/* A task of a benchmark. */
typedef struct lh_task_row {
    const char *name; /* of the task, or, with "_" after it, the beginning of its name */
    const char *metric;
    int64_t max_new;                /* tokens of an answer */
    const char *head, *tail;        /* the prompt is head, context, tail; {member} in it is a member of the record */
    const char *question_begins[2]; /* a finished prompt has its question from the last of these texts on; none: from
                                       the beginning of the tail on */
    const char *prefix_begins;      /* then its answer prefix from the first of this text on; NULL: it has none */
    int plain;                      /* true: never in a chat format */
    int first_line;                 /* true: only the first line of an answer is scored */
    int strips;                     /* true: white space at both ends of members is dropped */
} lh_task_row;
extern const lh_task_row lh_task_rows[]; /* ends with a row without a name */

typedef struct lh_task_record {
    char *task;                /* its name in tables */
    char *where;               /* "line 7 of 'FILE'", for messages */
    char *head, *context;      /* head: before the context, "" if there is none */
    char *question, *prefix;   /* prefix: how the answer begins, NULL: no text is given */
    char **answers, **choices; /* at least one answer */
    int64_t answer_count, choice_count;
    const lh_task_metric *metric;
    int64_t max_new; /* tokens of an answer; 0: not given */
    int64_t length;  /* tokens of prompt and answer that the record was made for; 0: not given */
    int64_t line;    /* number in its file, from 1 */
    int64_t file;    /* number of its file, from 0 */
    int verbatim;    /* true: the question follows the context without a word between them */
    int plain, first_line;
} lh_task_record;

typedef struct lh_task_records {
    lh_task_record *at;
    int64_t n;
    uint64_t hash; /* of the files */
} lh_task_records;

typedef struct lh_task_choice {
    const lh_strings *paths; /* files, or folders: all '*.json' and '*.jsonl' in the order of their names */
    const char *tasks;       /* a list of names separated by commas; NULL: all */
    const char *metric;      /* replaces the metrics of the records; NULL: does not */
    int64_t max;             /* maximum number of records of each task; 0: all */
    int has_words;           /* true: metrics of Chinese words can be computed */
} lh_task_choice;

/* LH_EINPUT, naming file and line of a bad record, a task of the list without a record, or if there is no record at
 * all. */
lh_status lh_task_records_read(lh_task_records *out, const lh_task_choice *choice);
void lh_task_records_clear(lh_task_records *records);

#endif
