/* documents.h - requests made of documents: each text of a folder, or each row of a table, in a template. They become
 * an input like any other (input.h), so that `--resume`, `merge` and `status` work for documents, too. */
#ifndef LH_BATCH_DOCUMENTS_H
#define LH_BATCH_DOCUMENTS_H

#include "base/status.h"

typedef struct lh_batch_documents {
    /* A folder: its texts (text/text_check.h) with the columns "name" and "text". Or a CSV file; its first line names
     * the columns. */
    const char *from;
    /* The prompt; "{name}" stands for the value of that column, "{{" and "}}" for braces. */
    const char *text;
    int chat; /* true: the prompt is a message of the user; false: a text to be completed */
} lh_batch_documents;

/* Writes the requests to `path`, which is replaced when they are complete. The custom_id is the name of the file, or
 * the column "custom_id" or else "id", or else, also where the column is empty, "row-1", "row-2", …; bytes of it that
 * are not UTF-8 are escaped. Bytes that are not UTF-8 become U+FFFD, and a warning names the document. LH_EUSAGE: the
 * template names no column, or an unknown column; LH_EINPUT: there is no document, or one cannot be read;
 * LH_EWRITE. */
lh_status lh_batch_documents_write(const lh_batch_documents *documents, const char *path);

#endif
