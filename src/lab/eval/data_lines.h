/* data_lines.h - the data of tasks as JSON lines: reads a file line by line, and the members that they have in common.
 */
#ifndef LH_LAB_EVAL_DATA_LINES_H
#define LH_LAB_EVAL_DATA_LINES_H

#include <jansson.h>
#include <stdint.h>

#include "base/status.h"

typedef struct lh_data_line {
    const json_t *object;
    const char *where; /* "line 7 of 'FILE'", for messages */
    int64_t number;    /* from 1 */
} lh_data_line;

/* Calls `take` for every line that is not empty, at most `max` times, 0: without end. *hash: of the whole file.
 * LH_EINPUT naming file and line if a line is not JSON, or holds a zero byte. */
typedef lh_status (*lh_data_taker)(void *self, const lh_data_line *line);
lh_status lh_data_lines_read(const char *path, int64_t max, uint64_t *hash, lh_data_taker take, void *self);

/* The same for every record of a file that is JSON Lines, one JSON array, an object with records as its values, or
 * SQuAD's data set {"data": [{"paragraphs": […]}]}, whose questions are the records. */
lh_status lh_data_records_read(const char *path, uint64_t *hash, lh_data_taker take, void *self);

/* A copy of a text. LH_EINPUT if it is none, or holds a zero byte; `what`: its name in messages. */
lh_status lh_data_text(char **out, const lh_data_line *line, const json_t *value, const char *what);

/* Copies of a list of texts, *n of them. LH_EINPUT if one is none; the caller frees what *n counts, also then. */
lh_status lh_data_texts(char ***out, int64_t *n, const lh_data_line *line, const json_t *list, const char *what);

/* The member "id" as a text, or the number of the line. */
lh_status lh_data_id(char **out, const lh_data_line *line);

#endif
