/* csv.h - the rows of a table of comma-separated values, by RFC 4180: a field in double quotes may hold commas, line
 * ends, and doubled quotes. Lines end with LF or CR LF; empty lines and a byte order mark are skipped. The text is
 * borrowed. */
#ifndef LH_BASE_CSV_H
#define LH_BASE_CSV_H

#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

typedef struct lh_csv {
    const char *name; /* in messages */
    const char *at, *end;
    int64_t line; /* of the next row, from 1 */
} lh_csv;

/* Fields of a row, each with a NUL after it. All zero at first; reused for the next row. */
typedef struct lh_csv_row {
    lh_buf text;
    int64_t *starts; /* [n + 1]: begin of each field in the text, and the end of the last */
    int64_t n, cap;  /* n 0: there are no more rows */
    int64_t line;    /* where it begins */
} lh_csv_row;

void lh_csv_open(lh_csv *csv, const char *name, const void *text, int64_t bytes);

/* LH_EINPUT, naming the line: quotes that do not end, or text after closing quotes. */
lh_status lh_csv_next(lh_csv *csv, lh_csv_row *row);

const char *lh_csv_field(const lh_csv_row *row, int64_t i);
int64_t lh_csv_bytes(const lh_csv_row *row, int64_t i);
void lh_csv_row_clear(lh_csv_row *row);

#endif
