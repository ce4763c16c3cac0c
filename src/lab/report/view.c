/* view.c - how a figure is seen: the dimensions that are drawn, and the means over all other dimensions. */
#include <math.h>
#include <string.h>

#include "lab/report/report_impl.h"

void lh_view_init(lh_view *view, const lh_figure *figure)
{
    const int policy = lh_figure_dim_find(figure, "policy"), last = figure->dim_count - 1;
    *view = (lh_view){.figure = figure, .panel = -1};
    view->x = lh_figure_dim_find(figure, figure->x);
    view->series = lh_figure_dim_find(figure, figure->y);
    if (view->x < 0) view->x = view->series == last ? 0 : last; /* of a table, which need not name them */
    if (view->x == view->series) view->series = -1;
    if (view->series < 0 && view->x != policy) view->series = policy;
    if (view->series < 0 && figure->view == LH_VIEW_TABLE && last > 0) view->series = view->x == 0;
    const int apart = figure->view == LH_VIEW_TABLE ? lh_figure_dim_find(figure, "budget") : policy;
    if (apart >= 0 && apart != view->x && apart != view->series) view->panel = apart;
    for (int d = 0; d < figure->dim_count; d++)
        view->pick[d] =
            figure->dims[d].values || strcmp(figure->dims[d].name, "budget") == 0 ? figure->dims[d].count / 2 : -1;
}

int lh_view_draws(const lh_view *view, int d)
{
    return d == view->x || d == view->series || d == view->panel;
}

int64_t lh_view_count(const lh_view *view, int dim)
{
    return dim < 0 ? 1 : view->figure->dims[dim].count;
}

double lh_view_value(const lh_view *view, int64_t panel, int64_t series, int64_t x)
{
    const lh_figure *f = view->figure;
    int64_t stride[LH_FIGURE_DIMS + 1] = {0}, count[LH_FIGURE_DIMS], base = 0, n = 1, found = 0;
    double sum = 0;
    stride[f->dim_count] = 1;
    for (int d = f->dim_count - 1; d >= 0; d--) stride[d] = stride[d + 1] * f->dims[d].count;
    for (int d = 0; d < f->dim_count; d++) {
        const int64_t at = d == view->x ? x : d == view->series ? series : d == view->panel ? panel : view->pick[d];
        count[d] = at < 0 ? f->dims[d].count : 1;
        n *= count[d];
        base += at < 0 ? 0 : at * stride[d + 1];
    }
    for (int64_t k = 0; k < n; k++) {
        int64_t at = base, rest = k;
        for (int d = f->dim_count - 1; d >= 0; rest /= count[d], d--) at += rest % count[d] * stride[d + 1];
        if (!isfinite(f->values[at])) continue;
        sum += (double)f->values[at];
        found++;
    }
    return found ? sum / (double)found : (double)NAN;
}

void lh_span_add(lh_span *span, double value)
{
    if (!isfinite(value)) return;
    span->low = fmin(span->low, value);
    span->high = fmax(span->high, value);
    if (value > 0) span->least = fmin(span->least, value);
}

void lh_view_span(const lh_view *view, lh_span *span)
{
    for (int64_t p = 0; p < lh_view_count(view, view->panel); p++)
        for (int64_t s = 0; s < lh_view_count(view, view->series); s++)
            for (int64_t x = 0; x < lh_view_count(view, view->x); x++) lh_span_add(span, lh_view_value(view, p, s, x));
}

lh_status lh_view_note_mean(const lh_figure_dim *dim, lh_buf *out)
{
    const size_t bytes = strlen(dim->name);
    const int y = bytes > 1 && dim->name[bytes - 1] == 'y' && dim->name[bytes - 2] != 'a';
    return lh_buf_printf(out, "mean over %lld %.*s%s", (long long)dim->count, (int)bytes - y, dim->name,
                         y ? "ies" : "s");
}

lh_status lh_view_note(const lh_view *view, lh_buf *out)
{
    const char *between = "";
    for (int d = 0; d < view->figure->dim_count; d++) {
        const lh_figure_dim *dim = &view->figure->dims[d];
        if (lh_view_draws(view, d)) continue;
        LH_TRY(lh_buf_puts(out, between));
        between = ", ";
        if (view->pick[d] < 0 && dim->count > 1) {
            LH_TRY(lh_view_note_mean(dim, out));
        } else {
            LH_TRY(lh_buf_printf(out, "%s ", dim->name));
            LH_TRY(lh_point_text(dim, view->pick[d] < 0 ? 0 : view->pick[d], out));
        }
    }
    return LH_OK;
}

lh_status lh_point_text(const lh_figure_dim *dim, int64_t i, lh_buf *out)
{
    if (dim->labels) return lh_buf_puts(out, dim->labels[i]);
    if (dim->values) return lh_value_text(dim->values[i], dim->unit ? dim->unit : "", out);
    return lh_buf_printf(out, "%lld", (long long)i);
}

lh_status lh_value_text(double value, const char *unit, lh_buf *out)
{
    const int share = strstr(unit, "share of") != NULL;
    const double v = (share ? 100 * value : value) + 0.0, size = fabs(v); /* + 0: no "-0" */
    if (!isfinite(value)) return LH_OK;
    if (size >= 100 || v == 0)
        LH_TRY(lh_buf_printf(out, "%.0f", v));
    else if (size < 1e-3)
        LH_TRY(lh_buf_printf(out, "%.2g", v));
    else
        LH_TRY(lh_buf_printf(out, "%.3g", v));
    return lh_buf_puts(out, share || *unit == '%' ? "%" : "");
}
