/* longbench_data.h - the data sets of LongBench (Bai et al., arXiv 2308.14508): prompts, lengths of answers and metrics
 * as published (THUDM/LongBench 2e00731), and records from its JSON lines. */
#ifndef LH_LAB_EVAL_LONGBENCH_DATA_H
#define LH_LAB_EVAL_LONGBENCH_DATA_H

#include "base/mem.h"
#include "lab/eval/longbench_metrics.h"

typedef struct lh_longbench_set {
    const char *name;
    const char *head, *question; /* the context is between them; {input} is replaced in the question */
    int64_t max_new;             /* tokens of an answer */
    int plain;                   /* 1: never in a chat format */
    int first_line;              /* 1: of an answer, what follows its first line does not count */
    lh_longbench_metric *score;  /* NULL: needs a segmentation of Chinese words */
} lh_longbench_set;
enum { LH_LONGBENCH_SETS = 21 };
extern const lh_longbench_set lh_longbench_sets[]; /* ends with one without a name */

typedef struct lh_longbench_record {
    const lh_longbench_set *set;
    char *context, *input;
    char **answers, **classes; /* at least one answer; classes: of a classification, else none */
    int64_t answer_count, class_count;
    int64_t line; /* of its file, from 1 */
} lh_longbench_record;

typedef struct lh_longbench_data {
    lh_longbench_record *at; /* in the order of the sets, then of the lines */
    int64_t n;
    uint64_t hash; /* of the files */
} lh_longbench_data;

/* A file, or the '*.jsonl' of a folder in the order of their names but for LongBench-E's '*_e.jsonl', in the published
 * form. wanted: [LH_LONGBENCH_SETS]
 * 1: take the records of this set, at most `max` of each, 0: all. LH_EINPUT naming file and line, or if no record is
 * left. */
typedef struct lh_longbench_choice {
    const int *wanted;
    int64_t max;
} lh_longbench_choice;
lh_status lh_longbench_data_read(lh_longbench_data *out, const char *path, const lh_longbench_choice *choice);
void lh_longbench_data_clear(lh_longbench_data *data);

/* The score of an answer, in %: the best over the right ones. */
lh_status lh_longbench_score(const lh_longbench_record *record, const char *answer, double *score);

#endif
