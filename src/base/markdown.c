#include "base/markdown.h"

lh_status lh_markdown_init(lh_markdown *table, int64_t rows, int64_t width)
{
    *table = (lh_markdown){.rows = rows, .width = width};
    LH_TRY(lh_calloc(&table->cells, rows * width, sizeof *table->cells));
    return LH_OK;
}

void lh_markdown_clear(lh_markdown *table)
{
    for (int64_t i = 0; table->cells && i < table->rows * table->width; i++) lh_buf_clear(&table->cells[i]);
    lh_free(table->cells);
    *table = (lh_markdown){0};
}

lh_buf *lh_markdown_cell(const lh_markdown *table, int64_t row, int64_t column)
{
    return &table->cells[row * table->width + column];
}

/* Number of UTF-8 characters. */
static int64_t columns_of(const lh_buf *cell)
{
    int64_t n = 0;
    for (int64_t i = 0; i < cell->bytes; i++) n += ((unsigned char)cell->data[i] & 0xc0) != 0x80;
    return n;
}

static lh_status repeat(lh_buf *out, const char *text, int64_t n)
{
    for (int64_t i = 0; i < n; i++) LH_TRY(lh_buf_puts(out, text));
    return LH_OK;
}

lh_status lh_markdown_print(const lh_markdown *table, uint64_t left, lh_buf *out)
{
    lh_status st = LH_OK;
    int64_t *widest = NULL;
    LH_TRY_DONE(lh_calloc(&widest, table->width, sizeof *widest));
    for (int64_t i = 0; i < table->rows * table->width; i++)
        if (columns_of(&table->cells[i]) > widest[i % table->width])
            widest[i % table->width] = columns_of(&table->cells[i]);
    for (int64_t r = 0; r < table->rows; r++) {
        for (int64_t c = 0; c < table->width; c++) {
            const lh_buf *cell = lh_markdown_cell(table, r, c);
            const int64_t room = widest[c] - columns_of(cell);
            const int to_left = left >> c & 1;
            LH_TRY_DONE(lh_buf_puts(out, "| "));
            LH_TRY_DONE(repeat(out, " ", to_left ? 0 : room));
            LH_TRY_DONE(lh_buf_append(out, cell->data ? cell->data : "", cell->bytes));
            LH_TRY_DONE(repeat(out, " ", (to_left ? room : 0) + 1));
        }
        LH_TRY_DONE(lh_buf_puts(out, "|\n"));
        for (int64_t c = 0; c < table->width && r == 0; c++) {
            LH_TRY_DONE(lh_buf_puts(out, "|"));
            LH_TRY_DONE(repeat(out, "-", widest[c] + 1));
            LH_TRY_DONE(lh_buf_puts(out, left >> c & 1 ? "-" : ":"));
        }
        if (r == 0) LH_TRY_DONE(lh_buf_puts(out, "|\n"));
    }
done:
    lh_free(widest);
    return st;
}
