#include "report/rank.h"

#include <math.h>
#include <string.h>

#include "report/palette.h"

static const double QUOTED_PERCENT = 10;

int lh_can_rank(const lh_figure *figure)
{
    const int policy = lh_figure_dim_find(figure, "policy");
    return figure->better && policy >= 0 && figure->dims[policy].labels && strcmp(figure->x, "budget") == 0;
}

static const lh_figure_dim *policies_of(const lh_ranking *r)
{
    return &r->view.figure->dims[r->view.series];
}

static int is_reference(const lh_ranking *r, int64_t i)
{
    return lh_ink(&(lh_palette){0}, policies_of(r), i) < 0;
}

/* 1 if `a` is better than `b`; what is no number is worst. */
static int is_better(const lh_ranking *r, double a, double b)
{
    return isfinite(a) && (!isfinite(b) || r->view.figure->better * (a - b) > 0);
}

int lh_ranking_is_best(const lh_ranking *r, int64_t policy, int64_t budget)
{
    const double own = lh_view_value(&r->view, 0, policy, budget);
    if (is_reference(r, policy) || !isfinite(own)) return 0;
    for (int64_t s = 0; s < policies_of(r)->count; s++)
        if (!is_reference(r, s) && is_better(r, lh_view_value(&r->view, 0, s, budget), own)) return 0;
    return 1;
}

int64_t lh_ranking_reference(const lh_ranking *r, const char *name)
{
    for (int64_t s = 0; s < policies_of(r)->count; s++)
        if (strcmp(policies_of(r)->labels[s], name) == 0) return s;
    return -1;
}

lh_status lh_ranking_init(lh_ranking *r, const lh_figure *figure)
{
    *r = (lh_ranking){.view = {.figure = figure,
                               .x = lh_figure_dim_find(figure, "budget"),
                               .series = lh_figure_dim_find(figure, "policy"),
                               .panel = -1,
                               .pick = {-1, -1, -1, -1}},
                      .best = {-1, -1}};
    const lh_figure_dim *budgets = &figure->dims[r->view.x];
    const double scale = !budgets->unit ? 0 : *budgets->unit == '%' ? 1 : strstr(budgets->unit, "share of") ? 100 : 0;
    r->quoted = budgets->count / 2;
    for (int64_t i = 0; i < budgets->count && budgets->values; i++)
        if (fabs(budgets->values[i] * scale - QUOTED_PERCENT) < 1e-6) r->quoted = i;
    LH_TRY(lh_calloc(&r->order, policies_of(r)->count, sizeof *r->order));
    for (int64_t s = 0; s < policies_of(r)->count; s++) {
        const double v = lh_view_value(&r->view, 0, s, r->quoted);
        int64_t at = s;
        for (; at > 0 && is_better(r, v, lh_view_value(&r->view, 0, r->order[at - 1], r->quoted)); at--)
            r->order[at] = r->order[at - 1];
        r->order[at] = s;
    }
    for (int64_t i = 0, found = 0; i < policies_of(r)->count && found < 2; i++)
        if (!is_reference(r, r->order[i])) r->best[found++] = r->order[i];
    return LH_OK;
}

void lh_ranking_clear(lh_ranking *r)
{
    lh_free(r->order);
    *r = (lh_ranking){0};
}
