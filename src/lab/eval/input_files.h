/* input_files.h - the input of tasks, read on rank 0: texts, from one file or the text files of a folder, and records
 * of JSON files. */
#ifndef LH_LAB_EVAL_INPUT_FILES_H
#define LH_LAB_EVAL_INPUT_FILES_H

#include <jansson.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"
#include "text/tokenizer.h"

typedef struct lh_texts {
    lh_buf *at;
    int64_t n;
} lh_texts;

/* Reads a file, or the texts of a folder (text/text_check.h). LH_EINPUT, naming the path, if it does not exist, has no
 * text, is empty, contains a zero byte, or is of another kind (text/text_check.h); a warning names bytes that are not
 * UTF-8. `what`: its name in messages. */
lh_status lh_texts_read(lh_texts *out, const char *what, const char *path);
void lh_texts_clear(lh_texts *texts);

/* Moves the texts of `more` to the end of `texts`. */
lh_status lh_texts_append(lh_texts *texts, lh_texts *more);

/* A hash of all texts in their order. */
uint64_t lh_texts_hash(const lh_texts *texts);

/* Appends the ids of all texts, one after the other; text t has [starts[t], starts[t + 1]) of them. starts: [n + 1]. */
lh_status lh_texts_encode(const lh_texts *texts, const lh_tokenizer *tok, lh_tokens *ids, int64_t *starts);

/* Appends all texts, separated by empty lines. */
lh_status lh_texts_join(const lh_texts *texts, lh_buf *out);

/* ---- JSON ---- */

typedef struct lh_data_line {
    const json_t *object;
    const char *where; /* "line 7 of 'FILE'", for messages */
    int64_t number;    /* from 1 */
} lh_data_line;

/* Calls `take` for every record of a file that is JSON Lines, one JSON array, an object with records as its values, or
 * SQuAD's data set {"data": [{"paragraphs": […]}]}, in which the questions are the records; at most `max` times, 0:
 * without end. *hash: of the whole file. LH_EINPUT naming file and line if a line is not JSON, or holds a zero byte. */
typedef lh_status (*lh_data_taker)(void *self, const lh_data_line *line);
lh_status lh_data_records_read(const char *path, int64_t max, uint64_t *hash, lh_data_taker take, void *self);

/* A copy of a text. LH_EINPUT if it is none, or holds a zero byte; `what`: its name in messages. */
lh_status lh_data_text(char **out, const lh_data_line *line, const json_t *value, const char *what);

/* Copies of a list of texts, *n of them. LH_EINPUT if one is none; the caller frees what *n counts, also then. */
lh_status lh_data_texts(char ***out, int64_t *n, const lh_data_line *line, const json_t *list, const char *what);

/* The member "id" as a text, or the number of the line. */
lh_status lh_data_id(char **out, const lh_data_line *line);

#endif
