/* page_summary.c - the top of the page: the headline, what was measured, which policy is best at which budget by the
 * measures that rank policies, and the answers beside each other. */
#include <string.h>

#include "base/minmax.h"
#include "lab/analysis/measures.h"
#include "lab/report/escape.h"
#include "lab/report/rank.h"
#include "lab/report/report_impl.h"

enum { RANKED_TOPICS = 4, RANKED_POLICIES = 40, RANKED_BUDGETS = 10 };

static const lh_figure_dim *dim_of(const lh_ranking *k, int d)
{
    return &k->view.figure->dims[d];
}

static lh_status put_value(const lh_ranking *k, int64_t policy, int64_t budget, lh_buf *out)
{
    return lh_value_text(lh_view_value(&k->view, 0, policy, budget), k->view.figure->unit, out);
}

/* ---- what was measured ---- */

static lh_status put_fact(const char *before, const json_t *value, const char *after, lh_buf *out)
{
    if (json_is_integer(value))
        return lh_buf_printf(out, "%s%lld%s", before, (long long)json_integer_value(value), after);
    if (!json_is_string(value) || !*json_string_value(value)) return LH_OK;
    LH_TRY(lh_buf_puts(out, before));
    LH_TRY(lh_html_text(out, json_string_value(value)));
    return lh_buf_puts(out, after);
}

/* A name of a file, without its folders. */
static lh_status put_file(const char *before, const json_t *value, lh_buf *out)
{
    const char *path = json_string_value(value), *slash = path ? strrchr(path, '/') : NULL;
    if (!path || !*path) return LH_OK;
    LH_TRY(lh_buf_puts(out, before));
    return lh_html_text(out, slash ? slash + 1 : path);
}

/* What a model was made to go on with. */
static lh_status put_continued(const json_t *continued, lh_buf *out)
{
    if (!continued) return LH_OK;
    return lh_buf_printf(out, " · the model goes on with %lld tokens, %.3f nats each with the full cache",
                         (long long)json_integer_value(json_object_get(continued, "tokens")),
                         json_number_value(json_object_get(continued, "full_nll")));
}

static lh_status put_facts(const lh_report_source *s, lh_buf *out)
{
    const json_t *trace;
    size_t i;
    LH_TRY(lh_buf_puts(out, "<li><b>"));
    LH_TRY(lh_html_text(out, s->name));
    LH_TRY(lh_buf_puts(out, "</b>"));
    const json_t *model = json_object_get(s->summary, "model");
    if (!model) model = json_object_get(json_object_get(s->run, "options"), "model");
    LH_TRY(put_file(" · ", model, out));
    json_array_foreach(json_object_get(s->summary, "traces"), i, trace)
    {
        LH_TRY(put_file(" · ", json_object_get(trace, "file"), out));
        LH_TRY(put_fact(" (", json_object_get(trace, "prompt_tokens"), " tokens)", out));
        LH_TRY(put_continued(json_object_get(trace, "continued"), out));
    }
    LH_TRY(put_fact(" · against ", json_object_get(s->summary, "reference"), "", out));
    LH_TRY(put_fact(" · ", json_object_get(s->summary, "decoding"), "", out));
    return lh_buf_puts(out, "</li>\n");
}

/* ---- rankings ---- */

/* What the means of a ranking are taken over. */
static lh_status put_note(const lh_view *view, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(lh_view_note(view, &text));
    if (text.bytes) LH_TRY_DONE(lh_buf_puts(out, " · "));
    if (text.bytes) LH_TRY_DONE(lh_html_text(out, text.data));
done:
    lh_buf_clear(&text);
    return st;
}

static const char *class_of(const lh_ranking *k, int64_t policy, int64_t budget)
{
    if (lh_samples_filled(k->samples, policy, budget)) return LH_FILLED_CELL;
    return lh_ranking_leads(k, policy, budget) ? " class=\"best\"" : "";
}

static lh_status put_filled_note(const lh_ranking *k, lh_buf *out)
{
    for (int64_t p = 0; p < dim_of(k, k->view.series)->count; p++)
        for (int64_t b = 0; b < dim_of(k, k->view.x)->count; b++)
            if (lh_samples_filled(k->samples, p, b))
                return lh_buf_puts(out, "<p class=\"aside\">Slanted: " LH_FILLED_NOTE ".</p>\n");
    return LH_OK;
}

static lh_status put_ranking(const lh_report *r, const lh_sheet *sheet, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_ranking k;
    const lh_figure *f = sheet->drawn;
    LH_TRY_DONE(lh_ranking_init(&k, f, &sheet->samples));
    const lh_figure_dim *budgets = dim_of(&k, k.view.x), *policies = dim_of(&k, k.view.series);
    const int64_t columns = lh_min_i64(budgets->count, RANKED_BUDGETS);
    const int64_t rows = lh_min_i64(policies->count, RANKED_POLICIES);
    LH_TRY_DONE(lh_buf_puts(out, "<div class=\"scroll\"><table class=\"ranking\">\n<caption>"));
    LH_TRY_DONE(lh_html_text(out, f->title));
    LH_TRY_DONE(lh_buf_puts(out, f->better < 0 ? " <small>less is better" : " <small>more is better"));
    if (r->source_count > 1) {
        LH_TRY_DONE(lh_buf_puts(out, " · "));
        LH_TRY_DONE(lh_html_text(out, sheet->source->name));
    }
    LH_TRY_DONE(put_note(&k.view, out));
    LH_TRY_DONE(lh_buf_puts(out, "</small></caption>\n<thead><tr><th scope=\"col\">budget</th>"));
    for (int64_t b = 0; b < columns; b++) {
        LH_TRY_DONE(lh_buf_puts(out, "<th scope=\"col\">"));
        LH_TRY_DONE(lh_page_point(budgets, b, out));
        LH_TRY_DONE(lh_buf_puts(out, "</th>"));
    }
    LH_TRY_DONE(lh_buf_puts(out, "</tr></thead>\n<tbody>\n"));
    for (int64_t i = 0; i < rows; i++) {
        LH_TRY_DONE(lh_buf_puts(out, "<tr><th scope=\"row\">"));
        LH_TRY_DONE(lh_page_key(r, policies, k.order[i], out));
        LH_TRY_DONE(lh_page_point(policies, k.order[i], out));
        LH_TRY_DONE(lh_buf_puts(out, "</th>"));
        for (int64_t b = 0; b < columns; b++) {
            LH_TRY_DONE(lh_buf_printf(out, "<td%s>", class_of(&k, k.order[i], b)));
            LH_TRY_DONE(put_value(&k, k.order[i], b, out));
            LH_TRY_DONE(lh_buf_puts(out, "</td>"));
        }
        LH_TRY_DONE(lh_buf_puts(out, "</tr>\n"));
    }
    LH_TRY_DONE(lh_buf_puts(out, "</tbody></table>\n"));
    LH_TRY_DONE(put_filled_note(&k, out));
    LH_TRY_DONE(lh_buf_puts(out, "</div>\n"));
done:
    lh_ranking_clear(&k);
    return st;
}

static const char *name_of(const lh_report *r, int64_t topic)
{
    return r->sheets[r->topics[topic].first].figure->name;
}

/* Figures that are no listed measures and whose names begin with the same word, up to a dash, are one thing in several
 * measures: the first one ranks. */
static int is_variant(const lh_report *r, int64_t topic)
{
    const char *name = name_of(r, topic);
    const size_t word = strcspn(name, "-");
    if (lh_measure_kind_of(name) != LH_MEASURE_OTHER) return 0;
    for (int64_t t = 0; t < topic; t++)
        if (strcspn(name_of(r, t), "-") == word && strncmp(name_of(r, t), name, word) == 0) return 1;
    return 0;
}

static lh_status put_rankings(const lh_report *r, lh_buf *out)
{
    int topics = 0;
    LH_TRY(lh_buf_puts(out, "<div class=\"rankings\">\n"));
    for (int64_t t = 0; t < r->topic_count && topics < RANKED_TOPICS; t++) {
        const lh_topic *topic = &r->topics[t];
        if (!lh_can_rank(r->sheets[topic->first].drawn) || is_variant(r, t)) continue;
        for (int64_t i = topic->first; i < topic->first + topic->count; i++)
            if (lh_can_rank(r->sheets[i].drawn)) LH_TRY(put_ranking(r, &r->sheets[i], out));
        topics++;
    }
    return lh_buf_puts(out, "</div>\n");
}

/* ---- answers ---- */

static lh_status put_answer(const char *name, const json_t *trace, const json_t *answer, lh_buf *out)
{
    const char *text = json_string_value(json_object_get(answer, "text"));
    LH_TRY(lh_buf_puts(out, "<blockquote><p>"));
    LH_TRY(lh_html_text(out, text ? text : ""));
    LH_TRY(lh_buf_puts(out, "</p><footer>"));
    LH_TRY(lh_html_text(out, name));
    LH_TRY(put_file(" · ", json_object_get(trace, "file"), out));
    LH_TRY(put_fact(" · ", json_object_get(answer, "policy"), "", out));
    LH_TRY(put_fact(" ", json_object_get(answer, "budget"), "", out));
    return lh_buf_puts(out, "</footer></blockquote>\n");
}

/* The answers of all files to one question. */
static lh_status put_question(const lh_report *r, const char *question, lh_buf *out)
{
    const json_t *trace, *answer;
    size_t i, k;
    LH_TRY(lh_buf_puts(out, "<h3>"));
    LH_TRY(lh_html_text(out, *question ? question : "Continuation"));
    LH_TRY(lh_buf_puts(out, "</h3>\n<div class=\"answers\">\n"));
    for (int64_t s = 0; s < r->source_count; s++)
        json_array_foreach(json_object_get(r->sources[s].summary, "traces"), i, trace)
            json_array_foreach(json_object_get(trace, "answers"), k, answer)
        {
            const char *own = json_string_value(json_object_get(answer, "question"));
            if (strcmp(own ? own : "", question) == 0) LH_TRY(put_answer(r->sources[s].name, trace, answer, out));
        }
    return lh_buf_puts(out, "</div>\n");
}

static lh_status put_answers(const lh_report *r, lh_buf *out)
{
    lh_status st = LH_OK;
    json_t *asked = json_object(); /* questions that were written */
    const json_t *trace, *answer;
    size_t i, k;
    for (int64_t s = 0; s < r->source_count; s++)
        json_array_foreach(json_object_get(r->sources[s].summary, "traces"), i, trace)
            json_array_foreach(json_object_get(trace, "answers"), k, answer)
        {
            const char *question = json_string_value(json_object_get(answer, "question"));
            if (!question) question = "";
            if (json_object_get(asked, question)) continue;
            if (!json_object_size(asked)) LH_TRY_DONE(lh_buf_puts(out, "<h2>Answers</h2>\n"));
            json_object_set_new(asked, question, json_true());
            LH_TRY_DONE(put_question(r, question, out));
        }
done:
    json_decref(asked);
    return st;
}

lh_status lh_page_summary(const lh_report *r, lh_buf *out)
{
    LH_TRY(lh_buf_puts(out, "<header>\n<p class=\"kicker\">Longhaul report</p>\n"));
    LH_TRY(lh_page_headline(r, out));
    LH_TRY(lh_buf_puts(out, "<ul class=\"facts\">\n"));
    for (int64_t s = 0; s < r->source_count; s++) LH_TRY(put_facts(&r->sources[s], out));
    LH_TRY(lh_buf_puts(out, "</ul>\n"));
    LH_TRY(put_rankings(r, out));
    LH_TRY(put_answers(r, out));
    return lh_buf_puts(out, "</header>\n");
}
