/* report.h - analyses for readers: one page of HTML that needs nothing else, CSV and SVG files, tables in Markdown and
 * LaTeX, and small plots of text. It draws the figures that a file holds (analysis/figures.h) and makes figures of the
 * tables of `eval`, without knowing their meaning. The files are foreign: their texts stay text in the page. */
#ifndef LH_LAB_REPORT_REPORT_H
#define LH_LAB_REPORT_REPORT_H

#include "base/mem.h"
#include "lab/analysis/figures.h"

typedef struct lh_report lh_report;

/* Reads analyses; figures with the same name are shown side by side. Probe the files first (lh_h5_probe). LH_EFILE
 * if one is no analysis or is damaged. */
lh_status lh_report_open(lh_report **out, const char *const *paths, int64_t n);
void lh_report_close(lh_report *report); /* NULL is fine */

/* 1 if there is neither a figure nor a table. */
int lh_report_is_empty(const lh_report *report);

/* The page, appended. */
lh_status lh_report_page(const lh_report *report, lh_buf *out);

/* Figures as tables in Markdown, or in LaTeX with booktabs, appended. */
lh_status lh_report_markdown(const lh_report *report, lh_buf *out);
lh_status lh_report_latex(const lh_report *report, lh_buf *out);

/* Each figure as a line of block characters for every series, appended: for terminals. */
lh_status lh_report_plots(const lh_report *report, lh_buf *out);
lh_status lh_figures_plot(const lh_figures *figures, lh_buf *out);

/* One CSV for each figure, a row for each value, and for each table. The folder is made if it is not there. LH_EWRITE.
 */
lh_status lh_report_csv(const lh_report *report, const char *folder);

/* Each figure that is drawn as an SVG file. The same for the folder. */
lh_status lh_report_svg(const lh_report *report, const char *folder);

#endif
