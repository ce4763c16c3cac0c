/* qa_data.h - questions about texts, from JSON lines. */
#ifndef LH_LAB_EVAL_QA_DATA_H
#define LH_LAB_EVAL_QA_DATA_H

#include <stdint.h>

#include "base/status.h"

typedef struct lh_qa_record {
    char *id; /* as the line says, or its number */
    char *context, *question;
    char **answers; /* at least one */
    int64_t answer_count;
    int64_t line; /* of the file, from 1 */
} lh_qa_record;

typedef struct lh_qa_data {
    lh_qa_record *at;
    int64_t n;
    uint64_t hash; /* of the file */
} lh_qa_data;

/* One object a line: "context"; "question" or "input"; "answers", a list, SQuAD's {"text": list}, or a text ("answer"
 * is another name for it; an empty list: the right answer is empty); "id" is optional, other members are ignored. At
 * most `max` records, 0: all. LH_EINPUT naming file and line. */
lh_status lh_qa_data_read(lh_qa_data *out, const char *path, int64_t max);
void lh_qa_data_clear(lh_qa_data *data);

#endif
