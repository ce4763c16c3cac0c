#include "lab/report/rank.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lab/analysis/measures.h"
#include "lab/report/palette.h"

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

static double value_of(const lh_ranking *r, int64_t policy, int64_t budget)
{
    return lh_view_value(&r->view, 0, policy, budget);
}

int64_t lh_ranking_reference(const lh_ranking *r, const char *name)
{
    for (int64_t s = 0; s < policies_of(r)->count; s++)
        if (strcmp(policies_of(r)->labels[s], name) == 0) return s;
    return -1;
}

lh_status lh_ranking_init(lh_ranking *r, const lh_figure *figure, const lh_samples *samples)
{
    *r = (lh_ranking){.view = {.figure = figure,
                               .x = lh_figure_dim_find(figure, "budget"),
                               .series = lh_figure_dim_find(figure, "policy"),
                               .panel = -1,
                               .pick = {-1, -1, -1, -1, -1}},
                      .samples = samples};
    const lh_figure_dim *budgets = &figure->dims[r->view.x];
    const double scale = !budgets->unit ? 0 : *budgets->unit == '%' ? 1 : strstr(budgets->unit, "share of") ? 100 : 0;
    r->quoted = budgets->count / 2;
    for (int64_t i = 0; i < budgets->count && budgets->values; i++)
        if (fabs(budgets->values[i] * scale - QUOTED_PERCENT) < 1e-6) r->quoted = i;
    LH_TRY(lh_calloc(&r->order, policies_of(r)->count, sizeof *r->order));
    for (int64_t s = 0; s < policies_of(r)->count; s++) {
        const double v = value_of(r, s, r->quoted);
        int64_t at = s;
        for (; at > 0 && is_better(r, v, value_of(r, r->order[at - 1], r->quoted)); at--)
            r->order[at] = r->order[at - 1];
        r->order[at] = s;
    }
    return LH_OK;
}

void lh_ranking_clear(lh_ranking *r)
{
    lh_free(r->order);
    *r = (lh_ranking){0};
}

/* ---- who is ahead ---- */

static int takes_part(const lh_ranking *r, int64_t policy, int64_t budget)
{
    return !is_reference(r, policy) && !lh_samples_filled(r->samples, policy, budget) &&
           isfinite(value_of(r, policy, budget));
}

/* 1 if the figure's values are answers, right or wrong. */
static int is_of_answers(const lh_figure *f)
{
    return f->better > 0 && lh_measure_kind_of(f->name) == LH_MEASURE_MODEL;
}

/* 1 if two values look the same on the page, which shows three digits. */
static int looks_equal(double a, double b)
{
    char shown[2][32];
    snprintf(shown[0], sizeof shown[0], "%.3g", a + 0.0); /* + 0: no "-0" */
    snprintf(shown[1], sizeof shown[1], "%.3g", b + 0.0);
    return strcmp(shown[0], shown[1]) == 0;
}

/* 1 if the policy is no worse than the full cache. */
static int loses_nothing(const lh_ranking *r, int64_t policy, int64_t budget)
{
    const int64_t full = lh_ranking_reference(r, "full");
    const double all = full < 0 ? (double)NAN : value_of(r, full, budget);
    return isfinite(all) && !is_better(r, all, value_of(r, policy, budget));
}

/* How the best policy stands to another one: EQUAL, LOSSLESS, UNCLEAR or AHEAD. */
static lh_standing compare(const lh_ranking *r, const lh_pair *pair, lh_lead *lead)
{
    const lh_figure *f = r->view.figure;
    const lh_samples *s = r->samples;
    *lead = (lh_lead){.texts = s->texts, .low = NAN, .high = NAN};
    if (looks_equal(value_of(r, pair->policy, pair->budget), value_of(r, pair->other, pair->budget)))
        return LH_STANDING_EQUAL;
    if (loses_nothing(r, pair->other, pair->budget)) return LH_STANDING_LOSSLESS;
    if (s->texts < 2) return LH_STANDING_AHEAD;
    if (!s->values) return LH_STANDING_UNCLEAR;
    *lead = lh_samples_lead(s, pair);
    return (f->better > 0 ? lead->low > 0 : lead->high < 0) ? LH_STANDING_AHEAD : LH_STANDING_UNCLEAR;
}

static lh_pair pair_of(const lh_ranking *r, int64_t best, int64_t other, int64_t budget)
{
    const lh_figure *f = r->view.figure;
    return (lh_pair){best, other, budget, !is_of_answers(f) ? 0 : *f->unit == '%' ? 100 : 1};
}

/* -1: no policy has a value. */
static int64_t best_at(const lh_ranking *r, int64_t budget)
{
    int64_t best = -1;
    for (int64_t s = 0; s < policies_of(r)->count; s++)
        if (takes_part(r, s, budget) && (best < 0 || is_better(r, value_of(r, s, budget), value_of(r, best, budget))))
            best = s;
    return best;
}

static int is_unanswered(const lh_ranking *r, int64_t budget)
{
    const int64_t full = lh_ranking_reference(r, "full");
    return full >= 0 && is_of_answers(r->view.figure) && value_of(r, full, budget) == 0;
}

/* 1 if a random choice is no worse than the policy. */
static int is_chance(const lh_ranking *r, int64_t policy, int64_t budget)
{
    const int64_t random = lh_ranking_reference(r, "random");
    const double chance = random < 0 ? (double)NAN : value_of(r, random, budget);
    return isfinite(chance) && !is_better(r, value_of(r, policy, budget), chance);
}

lh_verdict lh_ranking_judge(const lh_ranking *r, int64_t budget)
{
    lh_verdict v = {.best = best_at(r, budget), .rival = -1};
    if (v.best < 0) return v;
    v.standing = LH_STANDING_ALONE;
    for (int64_t s = 0; s < policies_of(r)->count; s++) {
        if (s == v.best || !takes_part(r, s, budget)) continue;
        const lh_pair pair = pair_of(r, v.best, s, budget);
        lh_lead lead;
        const lh_standing standing = compare(r, &pair, &lead);
        const int nearer = is_better(r, value_of(r, s, budget), value_of(r, v.rival < 0 ? s : v.rival, budget));
        if (v.rival >= 0 && (standing > v.standing || (standing == v.standing && !nearer))) continue;
        v = (lh_verdict){standing, v.best, s, lead};
    }
    if (v.standing == LH_STANDING_AHEAD && is_chance(r, v.best, budget)) v.standing = LH_STANDING_CHANCE;
    if (v.rival >= 0 && is_unanswered(r, budget)) v.standing = LH_STANDING_UNANSWERED;
    return v;
}

int lh_ranking_leads(const lh_ranking *r, int64_t policy, int64_t budget)
{
    const int64_t best = best_at(r, budget);
    int leads = 0, worse = 0;
    if (best < 0 || is_unanswered(r, budget)) return 0;
    for (int64_t s = 0; s < policies_of(r)->count; s++) {
        if (!takes_part(r, s, budget)) continue;
        const lh_pair pair = pair_of(r, best, s, budget);
        lh_lead lead;
        const int close = s == best || compare(r, &pair, &lead) != LH_STANDING_AHEAD;
        worse |= !close;
        leads |= close && s == policy;
    }
    return leads && worse;
}
