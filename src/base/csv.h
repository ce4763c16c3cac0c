/* csv.h - the rows of a table of comma-separated values, as RFC 4180 has them: a field may stand in double quotes, and
 * then hold commas, line ends, and quotes written twice. Lines end with a line feed, before which a carriage return may
 * stand; empty lines are skipped, and so is a byte order mark. The text is borrowed. */
#ifndef LH_BASE_CSV_H
#define LH_BASE_CSV_H

#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

typedef struct lh_csv {
    const char *name; /* in messages */
    const char *at, *end;
    int64_t line; /* that comes next, from 1 */
} lh_csv;

/* Fields of a row, each with a NUL after it; all zero at first, and used again for the next row. */
typedef struct lh_csv_row {
    lh_buf text;
    int64_t *starts; /* [n + 1] in the text, the last one of its end */
    int64_t n, cap;  /* 0 fields: nothing comes any more */
    int64_t line;    /* where it begins */
} lh_csv_row;

void lh_csv_open(lh_csv *csv, const char *name, const void *text, int64_t bytes);

/* LH_EINPUT, naming the line: quotes that do not end, or text beside them. */
lh_status lh_csv_next(lh_csv *csv, lh_csv_row *row);

const char *lh_csv_field(const lh_csv_row *row, int64_t i);
int64_t lh_csv_bytes(const lh_csv_row *row, int64_t i);
void lh_csv_row_clear(lh_csv_row *row);

#endif
