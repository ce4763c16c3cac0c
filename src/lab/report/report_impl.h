/* report_impl.h - inside of src/lab/report: what was read from the files, in the order in which it is shown. */
#ifndef LH_LAB_REPORT_REPORT_IMPL_H
#define LH_LAB_REPORT_REPORT_IMPL_H

#include <jansson.h>

#include "lab/analysis/figures.h"
#include "lab/analysis/tables.h"
#include "lab/report/palette.h"
#include "lab/report/report.h"
#include "lab/report/samples.h"

/* A file. */
typedef struct lh_report_source {
    const char *path; /* borrowed */
    char *name;       /* without folders and ending; of several files with this name the later ones are numbered */
    char *command, *created_by;
    json_t *summary, *run;
    lh_figures figures; /* those of the file, and those made of its tables */
    lh_figures small;   /* of the large ones: binned copies that fit into a page */
    lh_tables tables;
} lh_report_source;

/* A figure of one file, and what of it fits into a page. */
typedef struct lh_sheet {
    const lh_figure *figure, *drawn;
    const lh_report_source *source;
    lh_samples samples;
} lh_sheet;

/* Figures of one name: sheets [first, first + count). */
typedef struct lh_topic {
    int64_t first, count;
} lh_topic;

struct lh_report {
    lh_report_source *sources;
    lh_sheet *sheets;
    lh_topic *topics;
    int64_t source_count, sheet_count, topic_count;
    lh_palette palette;
};

/* Appends figures of the tables that `eval` writes: measures over budgets, and maps over depth and length. */
lh_status lh_figures_of_tables(const lh_tables *tables, lh_figures *out);

/* Appends a copy of `figure` in which neighbours along its longest dimensions are averaged until at most `max_values`
 * are left, or nothing is left that has neighbours. */
lh_status lh_figure_shrink(const lh_figure *figure, int64_t max_values, lh_figures *out);

/* *out = `name`, or with the first number from 2 on that makes a new one ("a-2"); `taken`: an object whose members are
 * the names so far, and which gets this one. */
lh_status lh_name_apart(json_t *taken, const char *name, char **out);

/* Smallest and largest value over the sheets of a topic, as drawn. */
void lh_topic_range(const lh_report *report, const lh_topic *topic, double *low, double *high);

/* Parts of the page, appended (page_*.c). */
lh_status lh_page_summary(const lh_report *report, lh_buf *out);
lh_status lh_page_headline(const lh_report *report, lh_buf *out);
lh_status lh_page_figures(const lh_report *report, lh_buf *out);
lh_status lh_page_prompts(const lh_report *report, lh_buf *out); /* answers of `eval` */
lh_status lh_page_tables(const lh_report *report, lh_buf *out);
lh_status lh_page_data(const lh_report *report, lh_buf *out); /* the JSON block */

/* Attributes of a table's cell whose policy chooses nothing at its budget, and what the page says of such cells. */
#define LH_FILLED_CELL " class=\"filled\" title=\"window fills the budget\""
#define LH_FILLED_NOTE                                                                                              \
    "window fills the budget: sinks and the last entries, which are always kept, are all of it, and scores choose " \
    "nothing"

/* The name of a point of a dimension. Appended. */
lh_status lh_page_point(const lh_figure_dim *dim, int64_t i, lh_buf *out);

/* A short line in the ink of a series, before its name. Appended. */
lh_status lh_page_key(const lh_report *report, const lh_figure_dim *dim, int64_t i, lh_buf *out);

#endif
