/* markdown.h - Markdown tables with columns as wide as their widest cell, readable as plain text. */
#ifndef LH_BASE_MARKDOWN_H
#define LH_BASE_MARKDOWN_H

#include <stdint.h>

#include "base/mem.h"

/* The first row is the heading. */
typedef struct lh_markdown {
    lh_buf *cells; /* [rows, width] */
    int64_t rows, width;
} lh_markdown;

lh_status lh_markdown_init(lh_markdown *table, int64_t rows, int64_t width);
void lh_markdown_clear(lh_markdown *table); /* after a failed init, too */

/* Text is appended to a cell. */
lh_buf *lh_markdown_cell(const lh_markdown *table, int64_t row, int64_t column);

/* Append the table. Bit c of `left`: column c is aligned to the left, for text; other columns to the right, for
 * numbers. */
lh_status lh_markdown_print(const lh_markdown *table, uint64_t left, lh_buf *out);

#endif
