/* page_summary.c - the top of the page: the headline, model and texts, the best policies at each budget by the measures
 * that rank policies, and the answers side by side. */
#include <string.h>

#include "base/minmax.h"
#include "lab/analysis/measures.h"
#include "lab/report/report_impl.h"

enum { RANKED_GROUPS = 4, RANKED_POLICIES = 40, RANKED_BUDGETS = 10 };

static const lh_figure_dim *dim_of(const lh_ranking *k, int d)
{
    return &k->view.figure->dims[d];
}

static void put_value(const lh_ranking *k, int64_t policy, int64_t budget, lh_html *out)
{
    lh_html_value(out, lh_view_value(&k->view, 0, policy, budget), k->view.figure->unit);
}

/* ---- model and texts ---- */

static void put_fact(const char *before, const json_t *value, const char *after, lh_html *out)
{
    if (json_is_integer(value))
        lh_html_put(out, "%s%lld%s", before, (long long)json_integer_value(value), after);
    else if (json_is_string(value) && *json_string_value(value))
        lh_html_put(out, "%s%s%s", before, json_string_value(value), after);
}

/* A name of a file, without its folders. */
static void put_file(const char *before, const json_t *value, lh_html *out)
{
    const char *path = json_string_value(value), *slash = path ? strrchr(path, '/') : NULL;
    if (!path || !*path) return;
    lh_html_put(out, "%s%s", before, slash ? slash + 1 : path);
}

/* The continuation that a model was given. */
static void put_continued(const json_t *continued, lh_html *out)
{
    if (!continued) return;
    lh_html_put(out, " · the model goes on with %lld tokens, %.3f nats each with the full cache",
                (long long)json_integer_value(json_object_get(continued, "tokens")),
                json_number_value(json_object_get(continued, "full_nll")));
}

static void put_facts(const lh_report_source *s, lh_html *out)
{
    const json_t *trace;
    size_t i;
    lh_html_put(out, "<li><b>%s</b>", s->name);
    const json_t *model = json_object_get(s->summary, "model");
    if (!model) model = json_object_get(json_object_get(s->run, "options"), "model");
    put_file(" · ", model, out);
    json_array_foreach(json_object_get(s->summary, "traces"), i, trace)
    {
        put_file(" · ", json_object_get(trace, "file"), out);
        put_fact(" (", json_object_get(trace, "prompt_tokens"), " tokens)", out);
        put_continued(json_object_get(trace, "continued"), out);
    }
    put_fact(" · against ", json_object_get(s->summary, "reference"), "", out);
    put_fact(" · ", json_object_get(s->summary, "decoding"), "", out);
    lh_html_put(out, "</li>\n");
}

/* ---- rankings ---- */

/* The tag that opens a cell. */
static const char *cell_of(const lh_ranking *k, int64_t policy, int64_t budget)
{
    if (lh_samples_filled(k->samples, policy, budget)) return "<td" LH_FILLED_CELL ">";
    return lh_ranking_leads(k, policy, budget) ? "<td class=\"best\">" : "<td>";
}

static int has_filled_cells(const lh_ranking *k)
{
    for (int64_t p = 0; p < dim_of(k, k->view.series)->count; p++)
        for (int64_t b = 0; b < dim_of(k, k->view.x)->count; b++)
            if (lh_samples_filled(k->samples, p, b)) return 1;
    return 0;
}

static void put_ranking(const lh_report *r, const lh_report_figure *figure, lh_html *out)
{
    lh_ranking k;
    lh_buf note = {0};
    const lh_figure *f = figure->drawn;
    if (out->st == LH_OK) out->st = lh_ranking_init(&k, f, &figure->samples);
    if (out->st != LH_OK) return;
    out->st = lh_view_note(&k.view, &note);
    const lh_figure_dim *budgets = dim_of(&k, k.view.x), *policies = dim_of(&k, k.view.series);
    const int64_t columns = lh_min_i64(budgets->count, RANKED_BUDGETS);
    const int64_t rows = lh_min_i64(policies->count, RANKED_POLICIES);
    lh_html_put(out, "<div class=\"scroll\"><table class=\"ranking\">\n<caption>%s", f->title);
    lh_html_put(out, f->better < 0 ? " <small>less is better" : " <small>more is better");
    if (r->source_count > 1) {
        lh_html_put(out, " · %s", figure->source->name);
    }
    lh_html_put(out, note.bytes ? " · %s" : "", note.data);
    lh_buf_clear(&note);
    lh_html_put(out, "</small></caption>\n<thead><tr><th scope=\"col\">budget</th>");
    for (int64_t b = 0; b < columns; b++) {
        lh_html_put(out, "<th scope=\"col\">");
        lh_html_point(out, budgets, b, 0);
        lh_html_put(out, "</th>");
    }
    lh_html_put(out, "</tr></thead>\n<tbody>\n");
    for (int64_t i = 0; i < rows; i++) {
        lh_html_put(out, "<tr><th scope=\"row\">");
        lh_draw_key(&r->palette, policies, k.order[i], out);
        lh_html_point(out, policies, k.order[i], 0);
        lh_html_put(out, "</th>");
        for (int64_t b = 0; b < columns; b++) {
            lh_html_put(out, cell_of(&k, k.order[i], b));
            put_value(&k, k.order[i], b, out);
            lh_html_put(out, "</td>");
        }
        lh_html_put(out, "</tr>\n");
    }
    lh_html_put(out, "</tbody></table>\n");
    if (has_filled_cells(&k)) lh_html_put(out, "<p class=\"aside\">Slanted: " LH_FILLED_NOTE ".</p>\n");
    lh_html_put(out, "</div>\n");
    lh_ranking_clear(&k);
}

static const char *name_of(const lh_report *r, int64_t group)
{
    return r->figures[r->groups[group].first].figure->name;
}

/* Figures that are no listed measures and have the same first word in their names, up to a dash, are variants: the
 * first one ranks. */
static int is_variant(const lh_report *r, int64_t group)
{
    const char *name = name_of(r, group);
    const size_t word = strcspn(name, "-");
    if (lh_measure_kind_of(name) != LH_MEASURE_OTHER) return 0;
    for (int64_t t = 0; t < group; t++)
        if (strcspn(name_of(r, t), "-") == word && strncmp(name_of(r, t), name, word) == 0) return 1;
    return 0;
}

static void put_rankings(const lh_report *r, lh_html *out)
{
    int groups = 0;
    lh_html_put(out, "<div class=\"rankings\">\n");
    for (int64_t t = 0; t < r->group_count && groups < RANKED_GROUPS; t++) {
        const lh_figure_group *group = &r->groups[t];
        if (!lh_can_rank(r->figures[group->first].drawn) || is_variant(r, t)) continue;
        for (int64_t i = group->first; i < group->first + group->count; i++)
            if (lh_can_rank(r->figures[i].drawn)) put_ranking(r, &r->figures[i], out);
        groups++;
    }
    lh_html_put(out, "</div>\n");
}

/* ---- answers ---- */

static void put_answer(const char *name, const json_t *trace, const json_t *answer, lh_html *out)
{
    const char *text = json_string_value(json_object_get(answer, "text"));
    lh_html_put(out, "<blockquote><p>%s</p><footer>", text ? text : "");
    lh_html_put(out, "%s", name);
    put_file(" · ", json_object_get(trace, "file"), out);
    put_fact(" · ", json_object_get(answer, "policy"), "", out);
    put_fact(" ", json_object_get(answer, "budget"), "", out);
    lh_html_put(out, "</footer></blockquote>\n");
}

/* The answers of all files to one question. */
static void put_question(const lh_report *r, const char *question, lh_html *out)
{
    const json_t *trace, *answer;
    size_t i, k;
    lh_html_put(out, "<h3>%s</h3>\n<div class=\"answers\">\n", *question ? question : "Continuation");
    for (int64_t s = 0; s < r->source_count; s++)
        json_array_foreach(json_object_get(r->sources[s].summary, "traces"), i, trace)
            json_array_foreach(json_object_get(trace, "answers"), k, answer)
        {
            const char *own = json_string_value(json_object_get(answer, "question"));
            if (strcmp(own ? own : "", question) == 0) put_answer(r->sources[s].name, trace, answer, out);
        }
    lh_html_put(out, "</div>\n");
}

static void put_answers(const lh_report *r, lh_html *out)
{
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
            if (!json_object_size(asked)) lh_html_put(out, "<h2>Answers</h2>\n");
            json_object_set_new(asked, question, json_true());
            put_question(r, question, out);
        }
    json_decref(asked);
}

void lh_page_summary(const lh_report *r, lh_html *out)
{
    lh_html_put(out, "<header>\n<p class=\"kicker\">Longhaul report</p>\n");
    lh_page_headline(r, out);
    lh_html_put(out, "<ul class=\"facts\">\n");
    for (int64_t s = 0; s < r->source_count; s++) put_facts(&r->sources[s], out);
    lh_html_put(out, "</ul>\n");
    put_rankings(r, out);
    put_answers(r, out);
    lh_html_put(out, "</header>\n");
}

/* ---- answers of eval ---- */

enum { PROMPTS = 6, ROWS = 2000, ANSWERS = 48 };

/* Columns that identify prompts, and the expected answers. */
static const char *const prompt_columns[] = {"task", "length", "scenario", "depth",    "seed",
                                             "line", "id",     "name",     "question", NULL};
static const char *const expected_columns[] = {"expected", "secret", NULL};

static int is_one_prompt(const lh_table *table, int64_t a, int64_t b)
{
    for (int i = 0; prompt_columns[i]; i++) {
        const int64_t c = lh_table_column_find(table, prompt_columns[i]);
        if (c < 0) continue;
        const lh_cell *x = &lh_table_row(table, a)[c], *y = &lh_table_row(table, b)[c];
        if (lh_column_is_text(&table->columns[c])     ? strcmp(x->text, y->text) != 0
            : table->columns[c].type == LH_COLUMN_I64 ? x->number != y->number
                                                      : x->value != y->value)
            return 0;
    }
    return 1;
}

/* 1 if row `first` is the first of its prompt, and a later one has another answer. */
static int is_worth_showing(const lh_table *table, int64_t answer, int64_t first)
{
    const int64_t n = lh_min_i64(table->n, ROWS);
    const char *text = lh_table_row(table, first)[answer].text;
    for (int64_t i = 0; i < first; i++)
        if (is_one_prompt(table, i, first)) return 0;
    for (int64_t i = first + 1; i < n; i++)
        if (is_one_prompt(table, i, first) && strcmp(lh_table_row(table, i)[answer].text, text) != 0) return 1;
    return 0;
}

static void put_cell(const lh_column *column, const lh_cell *cell, lh_html *out)
{
    if (lh_column_is_text(column))
        lh_html_put(out, "%s", cell->text);
    else if (column->type == LH_COLUMN_I64)
        lh_html_put(out, "%lld", (long long)cell->number);
    else
        lh_html_value(out, cell->value, "");
}

/* "length 500, depth 0.1, question-aware". */
static void put_prompt(const lh_table *table, int64_t row, lh_html *out)
{
    const char *between = "";
    lh_html_put(out, "<h3>");
    for (int i = 0; prompt_columns[i]; i++) {
        const int64_t c = lh_table_column_find(table, prompt_columns[i]);
        if (c < 0) continue;
        lh_html_put(out, "%s", between);
        if (!lh_column_is_text(&table->columns[c])) lh_html_put(out, "%s ", prompt_columns[i]);
        put_cell(&table->columns[c], &lh_table_row(table, row)[c], out);
        between = ", ";
    }
    lh_html_put(out, "</h3>\n");
    for (int i = 0; expected_columns[i]; i++) {
        const int64_t c = lh_table_column_find(table, expected_columns[i]);
        if (c < 0) continue;
        lh_html_put(out, "<p class=\"about\">Expected: ");
        put_cell(&table->columns[c], &lh_table_row(table, row)[c], out);
        lh_html_put(out, "</p>\n");
    }
}

static void put_reply(const lh_report *r, const lh_table *table, int64_t row, int64_t answer, lh_html *out)
{
    const lh_cell *cells = lh_table_row(table, row);
    const int64_t policy = lh_table_column_find(table, "policy"), budget = lh_table_column_find(table, "budget");
    lh_html_put(out, "<blockquote><p>%s</p><footer>", cells[answer].text);
    if (policy >= 0 && table->columns[policy].type == LH_COLUMN_LABEL) {
        const lh_figure_dim dim = {.name = "policy", .count = 1, .labels = &cells[policy].text};
        lh_draw_key(&r->palette, &dim, 0, out);
        lh_html_put(out, "%s", cells[policy].text);
    }
    if (budget >= 0) lh_html_put(out, " ");
    if (budget >= 0) put_cell(&table->columns[budget], &cells[budget], out);
    lh_html_put(out, "</footer></blockquote>\n");
}

static void put_table(const lh_report *r, const lh_stored_table *stored, int *heading, lh_html *out)
{
    const lh_table *table = &stored->table;
    const int64_t answer = lh_table_column_find(table, "answer"), n = lh_min_i64(table->n, ROWS);
    int prompts = 0;
    if (answer < 0 || table->columns[answer].type != LH_COLUMN_TEXT) return;
    for (int64_t first = 0; first < n && prompts < PROMPTS; first++) {
        int answers = 0;
        if (!is_worth_showing(table, answer, first)) continue;
        if (!*heading)
            lh_html_put(out, "<section class=\"group wide\" id=\"answers\">\n<h2>Answers</h2>\n<p "
                             "class=\"about\">The first prompts to which policies answer differently; the tables "
                             "have all.</p>\n");
        *heading = 1;
        prompts++;
        put_prompt(table, first, out);
        lh_html_put(out, "<div class=\"answers\">\n");
        for (int64_t i = first; i < n && answers < ANSWERS; i++) {
            if (!is_one_prompt(table, first, i)) continue;
            put_reply(r, table, i, answer, out);
            answers++;
        }
        lh_html_put(out, "</div>\n");
    }
}

void lh_page_prompts(const lh_report *r, lh_html *out)
{
    int heading = 0;
    for (int64_t s = 0; s < r->source_count; s++)
        for (int64_t i = 0; i < r->sources[s].tables.count; i++)
            put_table(r, &r->sources[s].tables.list[i], &heading, out);
    if (heading) lh_html_put(out, "</section>\n");
}
