/* records.h - the lines of an output that exists (answer.h): which requests they answer. Read by a run that goes on, by
 * `status` and by `merge`. Each line is parsed once; the answers themselves are not kept. */
#ifndef LH_BATCH_RECORDS_H
#define LH_BATCH_RECORDS_H

#include <jansson.h>

#include "base/file.h"

typedef struct lh_batch_record {
    int64_t at, bytes; /* in the file, with the line's end */
    int64_t number;    /* of the request's line in the input */
    uint64_t hash;     /* of that line */
    uint64_t
        context; /* of the text of its context_file; 0: it has none, or the line is of a run that wrote no such hash */
    char *custom_id;   /* NULL: it has none that can be used */
    int failed;        /* 1: an error in place of an answer */
    const json_t *run; /* of the run that wrote the line; lines of one run share the object */
} lh_batch_record;

typedef struct lh_batch_records {
    lh_map map; /* without data: the file is empty */
    lh_batch_record *at;
    int64_t n, cap, failed;
    json_t **runs; /* [run_count] of the records, each unlike the one before it */
    int64_t run_count;
    int64_t good_bytes; /* of whole lines */
    int64_t torn_bytes; /* after them: of a line that was not written to its end */
} lh_batch_records;

/* All lines of a regular file. A last line that ends too early, as a kill or a loss of power leaves it, is torn.
 * LH_EFILE, naming the line: another line is none of an output; or the last one does not begin as one, so that this is
 * no output. */
lh_status lh_batch_records_read(lh_batch_records *out, const char *path);
void lh_batch_records_clear(lh_batch_records *records); /* also after a failure */

/* Code and message of a record that failed, as one text. LH_EFILE if they cannot be read. */
lh_status lh_batch_record_error(const lh_batch_records *records, int64_t i, lh_buf *out);

#endif
