/* resume.h - an output that exists: its lines (answer.h) as records, and the requests of an input that they answer. A
 * resumed run, `status` and `merge` read records. A request is known by its custom_id and the hash of its line; a
 * line without a custom_id by its number. */
#ifndef LH_BATCH_RESUME_H
#define LH_BATCH_RESUME_H

#include <jansson.h>

#include "base/file.h"
#include "batch/input.h"

/* ---- records ---- */

typedef struct lh_batch_record {
    int64_t at, bytes; /* place in the file, with the line feed */
    int64_t number;    /* number of the request's line in the input */
    uint64_t hash;     /* of that line */
    uint64_t context;  /* hash of the text of its context_file; 0: the line has none */
    char *custom_id;   /* NULL: the line has none */
    int failed;        /* true for an error */
    const json_t *run; /* of the run that wrote the line; lines of the same run share the object */
} lh_batch_record;

typedef struct lh_batch_records {
    lh_map map; /* data NULL: the file is empty */
    lh_batch_record *at;
    int64_t n, cap, failed;
    json_t **runs; /* [run_count] `run` of the records, each different from the one before it */
    int64_t run_count;
    int64_t whole_bytes; /* of whole lines */
    int64_t torn_bytes;  /* of a torn line after them */
} lh_batch_records;

/* Reads all lines of a regular file; each is parsed once, and answers are not kept. A last line that was not written
 * to its end, because of a kill or a loss of power, is torn. LH_EFILE, naming the line: another line is no line of an
 * output; or the last line does not begin like one, so that the file is no output. */
lh_status lh_batch_records_read(lh_batch_records *out, const char *path);
void lh_batch_records_clear(lh_batch_records *records); /* also after a failure */

/* Appends code and message of a failed record. LH_EFILE if they cannot be read. */
lh_status lh_batch_record_error(const lh_batch_records *records, int64_t i, lh_buf *out);

/* ---- resuming ---- */

/* The resumed run; borrowed. */
typedef struct lh_batch_resumed {
    const lh_batch_input *input;
    const json_t *run;        /* of answer.h */
    const char *context_root; /* the folder of context files; NULL: their texts are not compared */
} lh_batch_resumed;

/* Sets done[i] to 1 for the lines of the input that the records answer. done: [lines of the input], zeroed. LH_EUSAGE:
 * lines changed or disappeared after they were answered, or the text of their context_file changed, naming lines; or
 * another run made the records, naming the member that differs. LH_EFILE: a request is answered twice. */
lh_status lh_batch_resume(const lh_batch_resumed *resumed, const lh_batch_records *records, unsigned char *done);

/* The line of the input that a record answers; -1: it changed, or is not there. */
int64_t lh_batch_resume_find(const lh_batch_input *input, const lh_batch_record *record);

/* Removes the lines of failed requests from an output and from its held lines (output.h), so that a resumed run tries
 * these requests again. *changed: true if there were some; another file has the name of the output then, and the
 * caller locks it. Fails like lh_batch_resume, for the other lines, before anything is changed; LH_EWRITE. */
typedef struct lh_batch_retry {
    const lh_batch_resumed *resumed;
    const char *path, *held_path; /* of the output, which the caller has locked, and of its held lines */
    int ordered;                  /* true: answers after a removed line become held lines */
} lh_batch_retry;
lh_status lh_batch_retry_failed(const lh_batch_retry *retry, int *changed);

#endif
