/* headline.c - the largest type of the page: the policy that is ahead by the strongest kind of measure in the files,
 * or that there is none. Measures are tried in their order at the quoted budget, then at other budgets; a measure that
 * decides nothing is named with the reason. */
#include <math.h>
#include <string.h>

#include "base/minmax.h"
#include "lab/analysis/measures.h"
#include "lab/report/report_impl.h"

enum { CANDIDATES = 16 };

/* The rankings that may decide, all by the same kind of measure. */
typedef struct contest {
    const lh_report *report;
    lh_ranking list[CANDIDATES];
    const lh_report_figure *figures[CANDIDATES];
    int n;
} contest;

/* A ranking at one of its budgets. */
typedef struct bout {
    const contest *of;
    int ranking;
    int64_t budget;
    lh_verdict verdict;
} bout;

static const lh_figure_dim *dim_of(const bout *b, int d)
{
    return &b->of->list[b->ranking].view.figure->dims[d];
}

static const lh_ranking *ranking_of(const bout *b)
{
    return &b->of->list[b->ranking];
}

/* ---- who decides ---- */

static void close_contest(contest *c)
{
    for (int i = 0; i < c->n; i++) lh_ranking_clear(&c->list[i]);
}

static lh_status open_contest(contest *c, const lh_report *r)
{
    int kind = LH_MEASURE_OTHER;
    *c = (contest){.report = r};
    for (int64_t i = 0; i < r->figure_count; i++)
        if (lh_can_rank(r->figures[i].drawn))
            kind = (int)lh_min_i64(kind, lh_measure_kind_of(r->figures[i].figure->name));
    for (int64_t i = 0; i < r->figure_count && c->n < CANDIDATES; i++) {
        const lh_report_figure *figure = &r->figures[i];
        if (!lh_can_rank(figure->drawn) || (int)lh_measure_kind_of(figure->figure->name) != kind) continue;
        c->figures[c->n] = figure;
        lh_status st = lh_ranking_init(&c->list[c->n], figure->drawn, &figure->samples);
        if (st != LH_OK) close_contest(c);
        LH_TRY(st);
        c->n++;
    }
    return LH_OK;
}

/* The `step`-th budget to look at: the quoted one, the smaller ones from there, the larger ones; -1: none. */
static int64_t budget_at(const lh_ranking *k, int64_t step)
{
    const int64_t n = k->view.figure->dims[k->view.x].count, at = step <= k->quoted ? k->quoted - step : step;
    return step < n ? at : -1;
}

/* The first bout that has a winner, or else the first of a policy that is alone, or else the first with values. */
static bout decide(const contest *c)
{
    bout found = {.of = c};
    int64_t most = 0;
    for (int i = 0; i < c->n; i++) most = lh_max_i64(most, c->list[i].view.figure->dims[c->list[i].view.x].count);
    for (int64_t step = 0; step < most; step++)
        for (int i = 0; i < c->n; i++) {
            bout b = {c, i, budget_at(&c->list[i], step), {0}};
            if (b.budget < 0) continue;
            b.verdict = lh_ranking_judge(&c->list[i], b.budget);
            if (b.verdict.standing == LH_STANDING_AHEAD) return b;
            const int alone = b.verdict.standing == LH_STANDING_ALONE && found.verdict.standing != LH_STANDING_ALONE;
            if (alone || found.verdict.standing == LH_STANDING_NONE) found = b;
        }
    return found;
}

/* ---- words ---- */

static void put_policy(const bout *b, int64_t policy, lh_html *out)
{
    lh_html_point(out, dim_of(b, ranking_of(b)->view.series), policy, 0);
}

static void put_budget(const bout *b, lh_html *out)
{
    lh_html_point(out, dim_of(b, ranking_of(b)->view.x), b->budget, 0);
}

static void put_value(const bout *b, double value, lh_html *out)
{
    lh_html_value(out, value, ranking_of(b)->view.figure->unit);
}

static void put_policy_and_value(const bout *b, int64_t policy, const char *before, lh_html *out)
{
    lh_html_put(out, "%s", before);
    put_policy(b, policy, out);
    lh_html_put(out, " ");
    put_value(b, lh_view_value(&ranking_of(b)->view, 0, policy, b->budget), out);
}

/* "on 6 texts"; nothing if the file does not say. */
static void put_texts(const bout *b, const char *before, int64_t texts, lh_html *out)
{
    const int windows = ranking_of(b)->samples->by_window;
    if (texts < 1) return;
    lh_html_put(out, "%son %lld %s%s", before, (long long)texts, windows ? "window" : "text", texts == 1 ? "" : "s");
}

/* The file, if the page is of several. */
static void put_source(const bout *b, const char *before, lh_html *out)
{
    if (b->of->report->source_count < 2) return;
    lh_html_put(out, "%s%s", before, b->of->figures[b->ranking]->source->name);
}

static void put_title(const bout *b, lh_html *out)
{
    const lh_figure *f = ranking_of(b)->view.figure;
    put_policy(b, b->verdict.best, out);
    if (b->verdict.standing == LH_STANDING_AHEAD) lh_html_put(out, f->better < 0 ? " loses least" : " scores highest");
    lh_html_put(out, " at a budget of ");
    put_budget(b, out);
    put_source(b, " in ", out);
    if (b->verdict.standing == LH_STANDING_AHEAD) put_texts(b, ", ", b->verdict.lead.texts, out);
}

/* No policy is ahead by any measure at any budget: the weakest thing that is true of all of them. */
static void put_no_winner(const contest *c, lh_html *out)
{
    int found[LH_STANDINGS] = {0}, budgets = 0;
    for (int i = 0; i < c->n; i++)
        for (int64_t step = 0, b; (b = budget_at(&c->list[i], step)) >= 0; step++) {
            found[lh_ranking_judge(&c->list[i], b).standing] = 1;
            budgets |= step > 0;
        }
    const int chance = found[LH_STANDING_CHANCE], unclear = found[LH_STANDING_UNCLEAR];
    const int alike = found[LH_STANDING_EQUAL] || found[LH_STANDING_LOSSLESS];
    if (!chance && !unclear && !alike) {
        lh_html_put(out, "The full cache answers none");
        return;
    }
    lh_html_put(out, chance && !unclear && !alike ? "No policy is better than random at "
                     : chance                     ? "No policy is clearly the best at "
                     : unclear                    ? "No clear difference between policies at "
                                                  : "No difference between policies at ");
    lh_html_put(out, budgets ? "any budget" : "a budget of ");
    if (!budgets) put_budget(&(bout){.of = c, .budget = c->list[0].quoted}, out);
}

static void put_references(const bout *b, lh_html *out)
{
    static const char *const names[] = {"oracle", "oracle-adaptive", "random", "full"};
    const char *before = "; for comparison ";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const int64_t at = lh_ranking_reference(ranking_of(b), names[i]);
        if (at < 0 || !isfinite(lh_view_value(&ranking_of(b)->view, 0, at, b->budget))) continue;
        put_policy_and_value(b, at, before, out);
        before = "; ";
    }
}

/* "; 95% interval of the difference 0.2 to 0.4" */
static void put_interval(const bout *b, lh_html *out)
{
    const lh_lead *lead = &b->verdict.lead;
    if (!isfinite(lead->low)) return;
    lh_html_put(out, " (95%% interval of the difference ");
    put_value(b, lead->low, out);
    lh_html_put(out, " to ");
    put_value(b, lead->high, out);
    put_texts(b, ", ", lead->texts, out);
    lh_html_put(out, ")");
}

/* The sentence of a bout, after the title of its figure. */
static void put_verdict(const bout *b, lh_html *out)
{
    const lh_verdict *v = &b->verdict;
    const lh_ranking *k = ranking_of(b);
    static const char *const none[] = {[LH_STANDING_UNANSWERED] = ": the full cache answers none at ",
                                       [LH_STANDING_CHANCE] = ": none is better than random at ",
                                       [LH_STANDING_EQUAL] = ": no difference at ",
                                       [LH_STANDING_LOSSLESS] = ": no loss at ",
                                       [LH_STANDING_UNCLEAR] = ": no clear difference at ",
                                       [LH_STANDING_AHEAD] = NULL};
    if (none[v->standing]) {
        lh_html_put(out, "%s", none[v->standing]);
        put_budget(b, out);
    } else if (b->budget != k->quoted) {
        lh_html_put(out, " at ");
        put_budget(b, out);
    }
    put_policy_and_value(b, v->best, ": ", out);
    if (v->rival >= 0) put_policy_and_value(b, v->rival, ", then ", out);
    if (v->standing == LH_STANDING_UNCLEAR && !k->samples->values)
        lh_html_put(out, " (means, without the values of single texts)");
    put_interval(b, out);
    put_references(b, out);
}

static void put_sentence(const bout *b, const char *before, lh_html *out)
{
    if (b->verdict.standing == LH_STANDING_NONE) return;
    lh_html_put(out, "%s%s", before, ranking_of(b)->view.figure->title);
    put_source(b, ", ", out);
    put_verdict(b, out);
    lh_html_put(out, ".");
}

/* The measures before the one that decides, at the quoted budget, then that one. */
static void put_standfirst(const bout *last, lh_html *out)
{
    const contest *c = last->of;
    const int wins = last->verdict.standing == LH_STANDING_AHEAD || last->verdict.standing == LH_STANDING_ALONE;
    const char *before = "";
    for (int i = 0; i < c->n; i++) {
        const bout b = {c, i, c->list[i].quoted, lh_ranking_judge(&c->list[i], c->list[i].quoted)};
        if (wins && i >= last->ranking && last->budget == c->list[last->ranking].quoted) break;
        put_sentence(&b, before, out);
        before = " ";
    }
    if (wins) put_sentence(last, before, out);
}

void lh_page_headline(const lh_report *r, lh_html *out)
{
    contest c;
    if (out->st == LH_OK) out->st = open_contest(&c, r);
    if (out->st != LH_OK) return;
    const bout b = decide(&c);
    lh_html_put(out, "<h1>");
    if (c.n == 0 || b.verdict.standing == LH_STANDING_NONE)
        lh_html_put(out, "%s", r->sources[0].name);
    else if (b.verdict.standing == LH_STANDING_AHEAD || b.verdict.standing == LH_STANDING_ALONE)
        put_title(&b, out);
    else
        put_no_winner(&c, out);
    lh_html_put(out, "</h1>\n");
    if (c.n && b.verdict.standing != LH_STANDING_NONE) {
        lh_html_put(out, "<p class=\"standfirst\">");
        put_standfirst(&b, out);
        lh_html_put(out, "</p>\n");
    }
    close_contest(&c);
}
