#include "eval/grid.h"

#include <string.h>

/* Characters of UTF-8. */
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

lh_status lh_grid_align(const lh_buf *cells, int64_t rows, int64_t width, lh_buf *out)
{
    lh_status st = LH_OK;
    int64_t *widest = NULL;
    LH_TRY_DONE(lh_calloc(&widest, width, sizeof *widest));
    for (int64_t i = 0; i < rows * width; i++)
        if (columns_of(&cells[i]) > widest[i % width]) widest[i % width] = columns_of(&cells[i]);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < width; c++) {
            const lh_buf *cell = &cells[r * width + c];
            const int64_t room = widest[c] - columns_of(cell);
            LH_TRY_DONE(lh_buf_puts(out, "| "));
            if (c) LH_TRY_DONE(repeat(out, " ", room)); /* numbers stand to the right */
            LH_TRY_DONE(lh_buf_append(out, cell->data ? cell->data : "", cell->bytes));
            LH_TRY_DONE(repeat(out, " ", (c ? 0 : room) + 1));
        }
        LH_TRY_DONE(lh_buf_puts(out, "|\n"));
        for (int64_t c = 0; c < width && r == 0; c++) {
            LH_TRY_DONE(lh_buf_puts(out, "|"));
            LH_TRY_DONE(repeat(out, "-", widest[c] + 1));
            LH_TRY_DONE(lh_buf_puts(out, c ? ":" : "-"));
        }
        if (r == 0) LH_TRY_DONE(lh_buf_puts(out, "|\n"));
    }
done:
    lh_free(widest);
    return st;
}

/* The number of a choice among the first choices that `same` calls the same. */
static int64_t place_of(const lh_policy_list *policies, int64_t i, size_t member)
{
    int64_t n = 0;
    const char *text[2];
    for (int64_t k = 0; k <= i; k++) {
        int first = 1;
        memcpy(&text[0], (const char *)&policies->at[k] + member, sizeof text[0]);
        for (int64_t j = 0; j < k && first; j++) {
            memcpy(&text[1], (const char *)&policies->at[j] + member, sizeof text[1]);
            first = strcmp(text[0], text[1]) != 0;
        }
        memcpy(&text[1], (const char *)&policies->at[i] + member, sizeof text[1]);
        if (strcmp(text[0], text[1]) == 0) return n;
        n += first;
    }
    return n;
}

lh_status lh_grid_print(const lh_policy_list *policies, const lh_grid *grid, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_buf *cells = NULL;
    int64_t rows = 1, width = 1;
    for (int64_t i = 0; i < policies->n; i++) {
        int64_t row = 1 + place_of(policies, i, offsetof(lh_policy_choice, name));
        int64_t column = 1 + place_of(policies, i, offsetof(lh_policy_choice, budget));
        if (row >= rows) rows = row + 1;
        if (column >= width) width = column + 1;
    }
    LH_TRY_DONE(lh_calloc(&cells, rows * width, sizeof *cells));
    LH_TRY_DONE(lh_buf_puts(&cells[0], "policy"));
    for (int64_t i = 0; i < policies->n; i++) {
        const lh_policy_choice *choice = &policies->at[i];
        int64_t row = 1 + place_of(policies, i, offsetof(lh_policy_choice, name));
        int64_t column = 1 + place_of(policies, i, offsetof(lh_policy_choice, budget));
        if (!cells[column].bytes) LH_TRY_DONE(lh_buf_puts(&cells[column], *choice->budget ? choice->budget : "all"));
        if (!cells[row * width].bytes) LH_TRY_DONE(lh_buf_puts(&cells[row * width], choice->name));
        LH_TRY_DONE(grid->cell(grid->self, choice, &cells[row * width + column]));
    }
    LH_TRY_DONE(lh_grid_align(cells, rows, width, out));
done:
    for (int64_t i = 0; cells && i < rows * width; i++) lh_buf_clear(&cells[i]);
    lh_free(cells);
    return st;
}
