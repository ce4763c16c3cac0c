/* headline.c - the largest type of the page: the policy that is ahead by the strongest kind of measure that the files
 * have, or that none is. Measures are tried in their order at the quoted budget, then at the others; those that decide
 * nothing are named with the reason. */
#include <math.h>
#include <string.h>

#include "base/minmax.h"
#include "lab/analysis/measures.h"
#include "lab/report/escape.h"
#include "lab/report/rank.h"
#include "lab/report/report_impl.h"

enum { CANDIDATES = 16 };

/* The rankings that may decide, all of one kind of measure. */
typedef struct contest {
    const lh_report *report;
    lh_ranking list[CANDIDATES];
    const lh_sheet *sheets[CANDIDATES];
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

static lh_status open_contest(contest *c, const lh_report *r)
{
    int kind = LH_MEASURE_OTHER;
    *c = (contest){.report = r};
    for (int64_t i = 0; i < r->sheet_count; i++)
        if (lh_can_rank(r->sheets[i].drawn))
            kind = (int)lh_min_i64(kind, lh_measure_kind_of(r->sheets[i].figure->name));
    for (int64_t i = 0; i < r->sheet_count && c->n < CANDIDATES; i++) {
        const lh_sheet *sheet = &r->sheets[i];
        if (!lh_can_rank(sheet->drawn) || (int)lh_measure_kind_of(sheet->figure->name) != kind) continue;
        c->sheets[c->n] = sheet;
        LH_TRY(lh_ranking_init(&c->list[c->n++], sheet->drawn, &sheet->samples));
    }
    return LH_OK;
}

static void close_contest(contest *c)
{
    for (int i = 0; i < c->n; i++) lh_ranking_clear(&c->list[i]);
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

static lh_status put_policy(const bout *b, int64_t policy, lh_buf *out)
{
    return lh_page_point(dim_of(b, ranking_of(b)->view.series), policy, out);
}

static lh_status put_budget(const bout *b, lh_buf *out)
{
    return lh_page_point(dim_of(b, ranking_of(b)->view.x), b->budget, out);
}

static lh_status put_value(const bout *b, double value, lh_buf *out)
{
    return lh_value_text(value, ranking_of(b)->view.figure->unit, out);
}

static lh_status put_policy_and_value(const bout *b, int64_t policy, const char *before, lh_buf *out)
{
    LH_TRY(lh_buf_puts(out, before));
    LH_TRY(put_policy(b, policy, out));
    LH_TRY(lh_buf_puts(out, " "));
    return put_value(b, lh_view_value(&ranking_of(b)->view, 0, policy, b->budget), out);
}

/* "on 6 texts"; nothing if the file does not say. */
static lh_status put_texts(const bout *b, const char *before, int64_t texts, lh_buf *out)
{
    const int windows = ranking_of(b)->samples->by_window;
    if (texts < 1) return LH_OK;
    return lh_buf_printf(out, "%son %lld %s%s", before, (long long)texts, windows ? "window" : "text",
                         texts == 1 ? "" : "s");
}

/* The file, if the page is of several. */
static lh_status put_source(const bout *b, const char *before, lh_buf *out)
{
    if (b->of->report->source_count < 2) return LH_OK;
    LH_TRY(lh_buf_puts(out, before));
    return lh_html_text(out, b->of->sheets[b->ranking]->source->name);
}

static lh_status put_title(const bout *b, lh_buf *out)
{
    const lh_figure *f = ranking_of(b)->view.figure;
    LH_TRY(put_policy(b, b->verdict.best, out));
    if (b->verdict.standing == LH_STANDING_AHEAD)
        LH_TRY(lh_buf_puts(out, f->better < 0 ? " loses least" : " scores highest"));
    LH_TRY(lh_buf_puts(out, " at a budget of "));
    LH_TRY(put_budget(b, out));
    LH_TRY(put_source(b, " in ", out));
    return b->verdict.standing == LH_STANDING_AHEAD ? put_texts(b, ", ", b->verdict.lead.texts, out) : LH_OK;
}

/* No policy is ahead by any measure at any budget: the weakest thing that is true of all of them. */
static lh_status put_no_winner(const contest *c, lh_buf *out)
{
    int found[LH_STANDINGS] = {0}, budgets = 0;
    for (int i = 0; i < c->n; i++)
        for (int64_t step = 0, b; (b = budget_at(&c->list[i], step)) >= 0; step++) {
            found[lh_ranking_judge(&c->list[i], b).standing] = 1;
            budgets |= step > 0;
        }
    const int chance = found[LH_STANDING_CHANCE], unclear = found[LH_STANDING_UNCLEAR];
    const int alike = found[LH_STANDING_EQUAL] || found[LH_STANDING_LOSSLESS];
    if (!chance && !unclear && !alike) return lh_buf_puts(out, "The full cache answers none");
    LH_TRY(lh_buf_puts(out, chance && !unclear && !alike ? "No policy is better than random at "
                            : chance                     ? "No policy is clearly the best at "
                            : unclear                    ? "No clear difference between policies at "
                                                         : "No difference between policies at "));
    if (budgets) return lh_buf_puts(out, "any budget");
    LH_TRY(lh_buf_puts(out, "a budget of "));
    return put_budget(&(bout){.of = c, .budget = c->list[0].quoted}, out);
}

static lh_status put_references(const bout *b, lh_buf *out)
{
    static const char *const names[] = {"oracle", "oracle-adaptive", "random", "full"};
    const char *before = "; for comparison ";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const int64_t at = lh_ranking_reference(ranking_of(b), names[i]);
        if (at < 0 || !isfinite(lh_view_value(&ranking_of(b)->view, 0, at, b->budget))) continue;
        LH_TRY(put_policy_and_value(b, at, before, out));
        before = "; ";
    }
    return LH_OK;
}

/* "; 95% interval of the difference 0.2 to 0.4" */
static lh_status put_interval(const bout *b, lh_buf *out)
{
    const lh_lead *lead = &b->verdict.lead;
    if (!isfinite(lead->low)) return LH_OK;
    LH_TRY(lh_buf_puts(out, " (95% interval of the difference "));
    LH_TRY(put_value(b, lead->low, out));
    LH_TRY(lh_buf_puts(out, " to "));
    LH_TRY(put_value(b, lead->high, out));
    LH_TRY(put_texts(b, ", ", lead->texts, out));
    return lh_buf_puts(out, ")");
}

/* The sentence of a bout, after the title of its figure. */
static lh_status put_verdict(const bout *b, lh_buf *out)
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
        LH_TRY(lh_buf_puts(out, none[v->standing]));
        LH_TRY(put_budget(b, out));
    } else if (b->budget != k->quoted) {
        LH_TRY(lh_buf_puts(out, " at "));
        LH_TRY(put_budget(b, out));
    }
    LH_TRY(put_policy_and_value(b, v->best, ": ", out));
    if (v->rival >= 0) LH_TRY(put_policy_and_value(b, v->rival, ", then ", out));
    if (v->standing == LH_STANDING_UNCLEAR && !k->samples->values)
        LH_TRY(lh_buf_puts(out, " (means, without the values of single texts)"));
    LH_TRY(put_interval(b, out));
    return put_references(b, out);
}

static lh_status put_sentence(const bout *b, const char *before, lh_buf *out)
{
    if (b->verdict.standing == LH_STANDING_NONE) return LH_OK;
    LH_TRY(lh_buf_puts(out, before));
    LH_TRY(lh_html_text(out, ranking_of(b)->view.figure->title));
    LH_TRY(put_source(b, ", ", out));
    LH_TRY(put_verdict(b, out));
    return lh_buf_puts(out, ".");
}

/* The measures before the one that decides, at the quoted budget, then that one. */
static lh_status put_standfirst(const bout *last, lh_buf *out)
{
    const contest *c = last->of;
    const int wins = last->verdict.standing == LH_STANDING_AHEAD || last->verdict.standing == LH_STANDING_ALONE;
    const char *before = "";
    for (int i = 0; i < c->n; i++) {
        const bout b = {c, i, c->list[i].quoted, lh_ranking_judge(&c->list[i], c->list[i].quoted)};
        if (wins && i >= last->ranking && last->budget == c->list[last->ranking].quoted) break;
        LH_TRY(put_sentence(&b, before, out));
        before = " ";
    }
    return wins ? put_sentence(last, before, out) : LH_OK;
}

lh_status lh_page_headline(const lh_report *r, lh_buf *out)
{
    lh_status st = LH_OK;
    contest c;
    LH_TRY_DONE(open_contest(&c, r));
    const bout b = decide(&c);
    LH_TRY_DONE(lh_buf_puts(out, "<h1>"));
    if (c.n == 0 || b.verdict.standing == LH_STANDING_NONE)
        LH_TRY_DONE(lh_html_text(out, r->sources[0].name));
    else if (b.verdict.standing == LH_STANDING_AHEAD || b.verdict.standing == LH_STANDING_ALONE)
        LH_TRY_DONE(put_title(&b, out));
    else
        LH_TRY_DONE(put_no_winner(&c, out));
    LH_TRY_DONE(lh_buf_puts(out, "</h1>\n"));
    if (c.n && b.verdict.standing != LH_STANDING_NONE) {
        LH_TRY_DONE(lh_buf_puts(out, "<p class=\"standfirst\">"));
        LH_TRY_DONE(put_standfirst(&b, out));
        LH_TRY_DONE(lh_buf_puts(out, "</p>\n"));
    }
done:
    close_contest(&c);
    return st;
}
