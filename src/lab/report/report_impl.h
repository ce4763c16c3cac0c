/* report_impl.h - inside of src/lab/report: figures of files, their views, rankings and drawings. */
#ifndef LH_LAB_REPORT_REPORT_IMPL_H
#define LH_LAB_REPORT_REPORT_IMPL_H

#include <jansson.h>

#include "lab/analysis/figures.h"
#include "lab/analysis/tables.h"
#include "lab/report/report.h"

/* ---- text (html.c) ---- */

/* Appends text for an element or a quoted attribute. Control characters, characters that reverse the direction of
 * writing and bytes that are not UTF-8 become U+FFFD, line separators a space. */
lh_status lh_html_text(lh_buf *out, const char *text);

/* Appends JSON for a script element: ASCII without '<', '>' and '&'. */
lh_status lh_html_json(lh_buf *out, const json_t *value);
json_t *lh_html_json_text(const char *text); /* with the same characters replaced */

lh_status lh_base64(lh_buf *out, const void *data, int64_t bytes);

/* Markup that is being written: the first failure stays in `st` and ends the writing. */
typedef struct lh_html {
    lh_buf *out;
    lh_status st;
} lh_html;

/* Markup is the format; %s is text, which is escaped. %d, %lld, %.1f and %g are the other conversions. */
void lh_html_put(lh_html *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
void lh_html_short(lh_html *h, const char *text, int64_t limit); /* escaped, at most `limit` characters; 0: all */
void lh_html_raw(lh_html *h, const void *text, int64_t bytes);   /* not escaped */
void lh_html_point(lh_html *h, const lh_figure_dim *dim, int64_t i, int64_t limit);
void lh_html_value(lh_html *h, double value, const char *unit);

/* ---- views (view.c) ---- */

/* How a figure is drawn: of its up to five dimensions one runs along the axis, one makes the series (or the rows of
 * a heat map), one the panels; of every other dimension one point is chosen, or the mean over all points is taken. */
typedef struct lh_view {
    const lh_figure *figure;
    int x, series, panel;         /* indices of dimensions; -1: none */
    int64_t pick[LH_FIGURE_DIMS]; /* of every other dimension: the point, or -1 for the mean over all */
} lh_view;

/* The first view of a figure. Policies that are on no axis make the panels, budgets those of a table; of another
 * dimension on no axis the point in the middle is chosen if it is the budget or has values, else the mean is taken. */
void lh_view_init(lh_view *view, const lh_figure *figure);

/* 1 if the dimension runs along the axis or makes series or panels. */
int lh_view_draws(const lh_view *view, int dim);

/* Number of points of a dimension of the view; 1 for none. */
int64_t lh_view_count(const lh_view *view, int dim);

/* NAN: none, or no finite one among the values of the mean. */
double lh_view_value(const lh_view *view, int64_t panel, int64_t series, int64_t x);

/* Smallest, largest and smallest positive value; begin with LH_NO_SPAN, which has none. */
typedef struct lh_span {
    double low, high, least;
} lh_span;
#define LH_NO_SPAN ((lh_span){INFINITY, -INFINITY, INFINITY})

void lh_span_add(lh_span *span, double value); /* not finite: nothing */
void lh_view_span(const lh_view *view, lh_span *span);

/* "mean over 30 layers, budget 10%": the means and points of the dimensions that are not drawn. Appended; the second
 * function names the mean over one dimension. */
lh_status lh_view_note(const lh_view *view, lh_buf *out);
lh_status lh_view_note_mean(const lh_figure_dim *dim, lh_buf *out);

/* The name of point `i` of a dimension, appended: its label, its value or its number. */
lh_status lh_point_text(const lh_figure_dim *dim, int64_t i, lh_buf *out);

/* A value with three significant digits, appended; shares and units such as "% of the prompt" as percentages; "" for
 * NAN. */
lh_status lh_value_text(double value, const char *unit, lh_buf *out);

/* ---- texts behind a figure, and rankings (ranking.c) ---- */

/* The evidence behind a figure of policies at budgets: the value of each text, which distinguishes a lead from chance,
 * and the cells in which a policy chooses nothing. Columns of the tables that have a row for each text hold both: the
 * prompts, answers or windows of `eval`, the texts of `replay`. */
typedef struct lh_samples {
    int64_t budgets; /* of the figure */
    int64_t texts;   /* 0: the file does not say how many */
    int by_window;   /* 1: the texts are windows; a document may have several */
    double *values;  /* [policies, budgets, texts], NAN: none; NULL: the file has no values of single texts */
    uint8_t *filled; /* [policies, budgets] 1: protected entries fill the budget, so that scores choose nothing; NULL:
                      * nowhere */
} lh_samples;

/* Of a figure with the dimensions `policy` (labels) and `budget`, and of the tables and the summary (NULL: none) of its
 * file; all zero for another figure. */
lh_status lh_samples_read(lh_samples *out, const lh_figure *figure, const lh_tables *tables, const json_t *summary);
void lh_samples_clear(lh_samples *samples);

/* 1 if protected entries fill this budget of this policy; at this place of a view with policies as series and budgets
 * along x, of another view 0. */
int lh_samples_filled(const lh_samples *samples, int64_t policy, int64_t budget);
int lh_samples_filled_at(const lh_samples *samples, const lh_view *view, int64_t series, int64_t x);

/* 95% confidence interval of the mean over texts that is shown at this place of a view; 0: unknown, since the
 * file has no values of two texts, or the view shows another mean. Wilson's for shares of right answers, else
 * Student's. */
int lh_samples_band(const lh_samples *samples, const lh_view *view, int64_t series, int64_t x, double band[2]);

/* What one policy has more than another at a budget, over the texts that both have. */
typedef struct lh_lead {
    int64_t texts;    /* that both have */
    double low, high; /* 95% confidence interval of the mean of the differences; NAN: fewer than two texts */
} lh_lead;

/* A figure that measures policies over budgets. */
typedef struct lh_ranking {
    lh_view view; /* budgets along x, policies as series, means over all else */
    const lh_samples *samples;
    int64_t quoted; /* the budget that a summary names: 10%, or one in the middle */
    int64_t *order; /* policies, the best at that budget first; references too */
} lh_ranking;

/* 1 if a figure has policies and its x is budgets, and one direction is better. */
int lh_can_rank(const lh_figure *figure);

/* Of a figure that can be ranked; `samples` are borrowed. */
lh_status lh_ranking_init(lh_ranking *ranking, const lh_figure *figure, const lh_samples *samples);
void lh_ranking_clear(lh_ranking *ranking);

/* The verdict of a measure about the policies at a budget. References, and cells with a budget that protected entries
 * fill, take no part. */
typedef enum lh_standing {
    LH_STANDING_NONE,       /* no policy has a value */
    LH_STANDING_ALONE,      /* one has */
    LH_STANDING_UNANSWERED, /* the full cache answers nothing, so that nothing could be lost */
    LH_STANDING_CHANCE,     /* the policy `random` is as good as the best one */
    LH_STANDING_EQUAL,      /* another policy has the same value, to the three digits that are shown */
    LH_STANDING_LOSSLESS,   /* another one is no worse than the full cache either: no policy loses anything */
    LH_STANDING_UNCLEAR,    /* another one is no worse by the interval of the paired differences, or has no interval */
    LH_STANDING_AHEAD,      /* one is better than all others */
    LH_STANDINGS
} lh_standing;

typedef struct lh_verdict {
    lh_standing standing;
    int64_t best, rival; /* rival: the one that equals it, that it is not clearly better than, or the next; -1: none */
    lh_lead lead;        /* of `best` over `rival`, in the direction of the values; ends NAN: by the values alone */
} lh_verdict;

lh_verdict lh_ranking_judge(const lh_ranking *ranking, int64_t budget);

/* 1 if the policy is not clearly worse than the best one at this budget, and some policy is. */
int lh_ranking_leads(const lh_ranking *ranking, int64_t policy, int64_t budget);

/* The reference of this name among the policies; -1: none. */
int64_t lh_ranking_reference(const lh_ranking *ranking, const char *name);

/* ---- drawings (axes.c, draw.c) ---- */

enum {
    LH_TICKS = 10,
    LH_RANGES = 80,
    LH_COLOURS = 6,
    LH_RAMP = 1000,
    LH_STYLE_CLASS = 32,
    LH_PANELS = 40,
    LH_BANDS = 4
};

/* From values to coordinates. */
typedef struct lh_scale {
    int log;
    double low, high; /* of values, low < high */
    double from, to;  /* their coordinates */
} lh_scale;

/* The points of a dimension: its values, logarithmic if they are positive, span more than a factor of 10 and are not
 * evenly spaced; labels and unnumbered points are. */
void lh_scale_of_dim(lh_scale *scale, const lh_figure_dim *dim);
double lh_scale_at(const lh_scale *scale, double value); /* values outside of a logarithmic scale lie at its end */
int lh_scale_ticks(const lh_scale *scale, double ticks[LH_TICKS]); /* round values; returns the number */
double lh_point_value(const lh_figure_dim *dim, int64_t i);        /* of a dimension, on its scale */
double lh_round_step(double least); /* 1, 2 or 5 times a power of ten, at least `least`, which is positive */

/* The axis of the values of a figure: every range that it may need, the narrowest first. A drawing shows the first
 * range that holds its values; page.js chooses another when the reader hides a policy or chooses a layer. */
typedef struct lh_axis {
    int log; /* logarithmic if the values that are shown first span more than a factor of 10 and are no shares
              * that had better be large */
    int count;
    struct {
        double low, high;
    } ranges[LH_RANGES];
} lh_axis;

/* `shown`: the values that are shown first; `all`: the values that any choice may show. */
void lh_axis_init(lh_axis *axis, const lh_figure *figure, const lh_span *shown, const lh_span *all);
int lh_axis_range(const lh_axis *axis, const lh_span *shown);

/* All policies of a page, in the order in which they appear; texts are borrowed. */
typedef struct lh_palette {
    const char **policies;
    int64_t count;
} lh_palette;

/* Adds the labels of every dimension that holds policies. */
lh_status lh_palette_add(lh_palette *palette, const lh_figure *figure);
void lh_palette_clear(lh_palette *palette);

/* 1 if the points of this dimension are policies. */
int lh_dim_is_policies(const lh_figure_dim *dim);

/* How a series looks, the same in every figure of a page: a colour of Okabe and Ito, a dash and a marker, as classes of
 * drawing.css: "c0 d1"; "c-full" for a policy that others are measured against; "r15", a step of a ramp, where many
 * points are in an order. Returns its number: negative for a reference, from LH_RAMP on for a step. */
int64_t lh_series_style(const lh_palette *palette, const lh_figure_dim *dim, int64_t i, char out[LH_STYLE_CLASS]);

typedef struct lh_drawing {
    const lh_view *view;
    const lh_palette *palette;
    const lh_samples *samples; /* NULL: no hollow points and no bands */
    const lh_axis *axis;
    int range;    /* of the axis, that is shown */
    int live;     /* 1: with the other ranges and with the coordinates that page.js needs */
    double width; /* in pixels; the text does not grow with it */
    double at[2]; /* coordinates inside another drawing */
    int64_t panel;
} lh_drawing;

/* Appends one panel as an SVG element; a table is not drawn. */
void lh_draw(const lh_drawing *drawing, lh_html *out);
double lh_draw_height(const lh_drawing *drawing);

/* Appends the colours of heat maps with the values at their ends, as an SVG element. */
void lh_draw_colours(const lh_drawing *drawing, lh_html *out);

/* Appends a short line in the style of a series, an SVG element. */
void lh_draw_key(const lh_palette *palette, const lh_figure_dim *dim, int64_t i, lh_html *out);

/* ---- the report ---- */

/* A file. */
typedef struct lh_report_source {
    const char *path; /* borrowed */
    char *name;       /* without folders and ending; later files with the same name are numbered */
    char *command, *created_by;
    json_t *summary, *run;
    lh_figures figures; /* of the file, and made from its tables */
    lh_figures small;   /* binned copies of large figures, which fit into a page */
    lh_tables tables;
} lh_report_source;

/* A figure of a file. */
typedef struct lh_report_figure {
    const lh_figure *figure, *drawn; /* drawn: a copy with means of neighbours if the figure is too large for a page */
    const lh_report_source *source;
    lh_samples samples;
} lh_report_figure;

/* Figures with the same name: [first, first + count). */
typedef struct lh_figure_group {
    int64_t first, count;
    lh_span shown; /* the values of all of them that are shown first */
    lh_axis axis;
} lh_figure_group;

struct lh_report {
    lh_report_source *sources;
    lh_report_figure *figures;
    lh_figure_group *groups;
    int64_t source_count, figure_count, group_count;
    lh_palette palette;
};

/* Appends figures of the tables that `eval` writes: measures over budgets, and maps over depth and length. */
lh_status lh_figures_of_tables(const lh_tables *tables, lh_figures *out);

/* Appends a copy of `figure` in which neighbours along its longest dimensions are averaged until at most `max_values`
 * are left. Labels, such as policies, and budgets are never averaged. */
lh_status lh_figure_shrink(const lh_figure *figure, int64_t max_values, lh_figures *out);

/* *out = `name`, or with the first number from 2 on that makes it new ("a-2"); `taken`: an object with the names so far
 * as members, which gets this one. */
lh_status lh_unique_name(json_t *taken, const char *name, char **out);

/* Parts of the page (page.c, page_summary.c, headline.c). */
void lh_page_summary(const lh_report *report, lh_html *out);
void lh_page_headline(const lh_report *report, lh_html *out);
void lh_page_prompts(const lh_report *report, lh_html *out); /* answers of `eval` */

/* Attributes of a table's cell in which a policy chooses nothing, and the note about such cells. */
#define LH_FILLED_CELL " class=\"filled\" title=\"window fills the budget\""
#define LH_FILLED_NOTE                                                                                              \
    "window fills the budget: sinks and the last entries, which are always kept, are all of it, and scores choose " \
    "nothing"

/* Style sheets and script, as they were when the program was built (embed.cmake makes the source). */
typedef struct lh_asset {
    const unsigned char *text;
    int64_t bytes;
    unsigned char sha256[32];
} lh_asset;

extern const lh_asset lh_asset_drawing, lh_asset_page, lh_asset_js;

#endif
