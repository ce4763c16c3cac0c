/* choice_data.h - multiple-choice questions from JSON lines. */
#ifndef LH_LAB_EVAL_CHOICE_DATA_H
#define LH_LAB_EVAL_CHOICE_DATA_H

#include <stdint.h>

#include "base/status.h"

typedef struct lh_choice_record {
    char *id;      /* as the line says, or its number */
    char *context; /* the text that the question is about; "": none */
    char *prompt;  /* what a choice continues, after an empty line if there is a context */
    char **choices;
    int64_t choice_count; /* at least two */
    int64_t right;        /* index */
    int64_t line;         /* of the file, from 1 */
} lh_choice_record;

typedef struct lh_choice_data {
    lh_choice_record *at;
    int64_t n;
    uint64_t hash; /* of the file */
} lh_choice_data;

/* One object a line, with the names of the data sets' own files and of lm-evaluation-harness: "question" (which becomes
 * "Question: …\nAnswer:", as its ARC and PIQA tasks write it), or "query" (taken as it is, as of HellaSwag); "choices",
 * a list or ARC's {"text": list, "label": list}; "answer", "gold" or "label", an index from 0, or "answerKey", one of
 * the labels; "context" and "id" are optional, other members are ignored. At most `max` records, 0: all. LH_EINPUT
 * naming file and line. */
lh_status lh_choice_data_read(lh_choice_data *out, const char *path, int64_t max);
void lh_choice_data_clear(lh_choice_data *data);

#endif
