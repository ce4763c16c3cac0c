/* grid.c - places results in a table of policies by budgets. */
#include "lab/eval/grid.h"

#include <string.h>

#include "base/markdown.h"
#include "base/minmax.h"

/* Index of choice i among the distinct texts that the list has at offset `member`. */
static int64_t index_of(const lh_policy_list *policies, int64_t i, size_t member)
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
    lh_markdown table = {0};
    int64_t rows = 1, width = 1;
    for (int64_t i = 0; i < policies->n; i++) {
        rows = lh_max_i64(rows, 2 + index_of(policies, i, offsetof(lh_policy_choice, name)));
        width = lh_max_i64(width, 2 + index_of(policies, i, offsetof(lh_policy_choice, budget)));
    }
    LH_TRY_DONE(lh_markdown_init(&table, rows, width));
    LH_TRY_DONE(lh_buf_puts(lh_markdown_cell(&table, 0, 0), "policy"));
    for (int64_t i = 0; i < policies->n; i++) {
        const lh_policy_choice *choice = &policies->at[i];
        const int64_t row = 1 + index_of(policies, i, offsetof(lh_policy_choice, name));
        const int64_t column = 1 + index_of(policies, i, offsetof(lh_policy_choice, budget));
        lh_buf *budget = lh_markdown_cell(&table, 0, column), *name = lh_markdown_cell(&table, row, 0);
        if (!budget->bytes) LH_TRY_DONE(lh_buf_puts(budget, *choice->budget ? choice->budget : "all"));
        if (!name->bytes) LH_TRY_DONE(lh_buf_puts(name, choice->name));
        LH_TRY_DONE(grid->cell(grid->self, choice, lh_markdown_cell(&table, row, column)));
    }
    LH_TRY_DONE(lh_markdown_print(&table, 1, out));
done:
    lh_markdown_clear(&table);
    return st;
}
