#include "lab/eval/measures.h"

#include <math.h>
#include <string.h>

#include "base/markdown.h"
#include "base/minmax.h"

/* ---- the cache ---- */

void lh_figures_put(lh_cell *first, const lh_eval_figures *f)
{
    first[0].number = f->entries_kept;
    first[1].number = f->kv_bytes;
    first[2].number = f->filled;
    first[3].value = f->evict_s;
    first[4].value = f->decode_s;
}

void lh_figures_add(lh_figure_sums *sums, const lh_cell *first)
{
    sums->n++;
    sums->of[0] += (double)first[0].number;
    sums->of[1] += (double)first[1].number;
    sums->of[2] += (double)first[2].number;
    sums->of[3] += first[3].value;
    sums->of[4] += first[4].value;
}

void lh_mean_figures_put(lh_cell *first, const lh_mean_figures *of)
{
    const double n = of->sums->n ? (double)of->sums->n : (double)NAN, *sum = of->sums->of;
    lh_confidence_interval(of->mean, of->sums->n, &first[0].value, &first[1].value);
    lh_figures_put(first + 2, &(lh_eval_figures){.entries_kept = llround(sum[0] / n),
                                                 .kv_bytes = llround(sum[1] / n),
                                                 .filled = llround(sum[2] / n),
                                                 .evict_s = sum[3] / n,
                                                 .decode_s = sum[4] / n});
    first[2 + LH_FIGURES].text = of->model;
}

void lh_confidence_interval(double mean, int64_t n, double *low, double *high)
{
    static const double z = 1.959963984540054;
    const double zz = z * z / (double)n;
    const double centre = (mean + zz / 2) / (1 + zz);
    const double half = z / (1 + zz) * sqrt(mean * (1 - mean) / (double)n + zz / (4 * (double)n));
    *low = n > 0 ? fmax(centre - half, 0) : (double)NAN;
    *high = n > 0 ? fmin(centre + half, 1) : (double)NAN;
}

/* ---- the right answer ---- */

void lh_answer_measures_put(lh_cell *first, const lh_answer_likelihood *answer)
{
    const double n = answer->tokens ? (double)answer->tokens : (double)NAN;
    first[0].value = answer->nll / n;
    first[1].value = (double)answer->best / n;
}

void lh_answer_sums_add(lh_answer_sums *sums, const lh_cell *first)
{
    if (isnan(first[0].value)) return;
    sums->n++;
    for (int i = 0; i < LH_ANSWER_MEASURES; i++) sums->of[i] += first[i].value;
}

void lh_answer_sums_mean(const lh_answer_sums *sums, lh_cell *first)
{
    for (int i = 0; i < LH_ANSWER_MEASURES; i++) first[i].value = sums->n ? sums->of[i] / (double)sums->n : (double)NAN;
}

lh_status lh_answer_measures_print(const lh_cell *first, lh_buf *out)
{
    for (int i = 0; i < LH_ANSWER_MEASURES; i++)
        LH_TRY(isnan(first[i].value) ? lh_buf_puts(out, " –") : lh_buf_printf(out, " %.2f", first[i].value));
    return LH_OK;
}

/* ---- printing ---- */

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
