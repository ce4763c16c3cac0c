/* table.h - results as rows of named columns, written as CSV, JSON or a group of an analysis file. */
#ifndef LH_BASE_TABLE_H
#define LH_BASE_TABLE_H

#include <jansson.h>
#include <stdint.h>

#include "base/h5.h"
#include "base/mem.h"

typedef enum lh_column_type {
    LH_COLUMN_TEXT,  /* any text */
    LH_COLUMN_LABEL, /* a text of a small set */
    LH_COLUMN_I64,
    LH_COLUMN_F64 /* NAN: none */
} lh_column_type;

typedef struct lh_column {
    const char *name, *unit; /* a row without a name ends the list; unit: "tokens", "share of 1", "" */
    lh_column_type type;
} lh_column;

/* True for a column of texts: LH_COLUMN_TEXT or LH_COLUMN_LABEL. */
int lh_column_is_text(const lh_column *column);

/* The member for the type of the column. */
typedef struct lh_cell {
    const char *text;
    int64_t number;
    double value;
} lh_cell;

typedef struct lh_table {
    const lh_column *columns; /* borrowed */
    lh_cell *cells;           /* [n, width]; texts are owned */
    int64_t n, cap, width;
} lh_table;

void lh_table_init(lh_table *table, const lh_column *columns);
void lh_table_clear(lh_table *table);

/* A row, [width]; texts are copied, NULL is "". */
lh_status lh_table_add(lh_table *table, const lh_cell *row);
const lh_cell *lh_table_row(const lh_table *table, int64_t i);

/* A line of names, then the rows; RFC 4180 with "\n". Appended. */
lh_status lh_table_csv(const lh_table *table, lh_buf *out);

/* An array of objects, new reference. */
lh_status lh_table_json(const lh_table *table, json_t **out);

/* The group `name`: one array a column, with the attribute `unit`. Numbers are i64 and f32 (NaN: none); labels
 * are i32 indices into the attribute `labels`, a JSON array; other texts are one text, a JSON array. The group's
 * attribute `columns` is a JSON array of their names in order. A table without rows is not written. */
lh_status lh_table_h5(const lh_table *table, lh_h5 *h5, const char *name);

#endif
