/* choice.c - the task `choice`: reads questions, asks each in every scenario of every policy and budget, and computes
 * and prints the means. */
#include "lab/eval/choice.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "lab/eval/input_files.h"
#include "lab/eval/measures.h"
#include "lab/eval/questions.h"

/* ---- records ---- */

static void clear_record(lh_choice_record *r)
{
    for (int64_t i = 0; i < r->choice_count; i++) lh_free(r->choices[i]);
    lh_free(r->choices);
    lh_free(r->id);
    lh_free(r->context);
    lh_free(r->prompt);
    *r = (lh_choice_record){0};
}

void lh_choice_data_clear(lh_choice_data *data)
{
    for (int64_t i = 0; i < data->n; i++) clear_record(&data->at[i]);
    lh_free(data->at);
    *data = (lh_choice_data){0};
}

static lh_status read_prompt(lh_choice_record *out, const lh_data_line *line)
{
    lh_status st = LH_OK;
    const json_t *query = json_object_get(line->object, "query"), *context = json_object_get(line->object, "context");
    char *question = NULL;
    if (context) LH_TRY_DONE(lh_data_text(&out->context, line, context, "\"context\""));
    if (!context) LH_TRY_DONE(lh_strdup(&out->context, ""));
    LH_TRY_DONE(lh_data_text(&question, line, query ? query : json_object_get(line->object, "question"),
                             query ? "\"query\"" : "\"question\""));
    if (!*question) LH_FAIL_DONE(LH_EINPUT, "%s: \"%s\" is empty", line->where, query ? "query" : "question");
    const char *before = *out->context ? "\n\n" : "";
    LH_TRY_DONE(query ? lh_asprintf(&out->prompt, "%s%s", before, question)
                      : lh_asprintf(&out->prompt, "%sQuestion: %s\nAnswer:", before, question));
done:
    lh_free(question);
    return st;
}

static lh_status read_choices(lh_choice_record *out, const lh_data_line *line)
{
    const json_t *choices = json_object_get(line->object, "choices");
    if (json_is_object(choices)) choices = json_object_get(choices, "text");
    if (!json_is_array(choices) || json_array_size(choices) < 2)
        LH_FAIL(LH_EINPUT, "%s: \"choices\" must be a list of two texts or more, such as [\"Paris\", \"Rome\"]",
                line->where);
    LH_TRY(lh_data_texts(&out->choices, &out->choice_count, line, choices, "a choice"));
    for (int64_t i = 0; i < out->choice_count; i++)
        if (!*out->choices[i]) LH_FAIL(LH_EINPUT, "%s: a choice is empty", line->where);
    return LH_OK;
}

/* The index of a label, -1 if there is none. */
static int64_t find_label(const lh_data_line *line, const char *wanted)
{
    const json_t *labels = json_object_get(json_object_get(line->object, "choices"), "label");
    for (size_t i = 0; i < json_array_size(labels); i++) {
        const char *label = json_string_value(json_array_get(labels, i));
        if (label && wanted && strcmp(label, wanted) == 0) return (int64_t)i;
    }
    return -1;
}

/* An index, also as HellaSwag writes it: a text. -1 if it is none. */
static int64_t read_index(const json_t *value)
{
    const char *text = json_string_value(value);
    char *end;
    if (json_is_integer(value)) return json_integer_value(value);
    if (!text || !*text) return -1;
    const long long index = strtoll(text, &end, 10);
    return *end ? -1 : index;
}

static lh_status read_right(lh_choice_record *out, const lh_data_line *line)
{
    static const char *const names[] = {"answer", "gold", "label"};
    const json_t *key = json_object_get(line->object, "answerKey"), *value = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !value; i++) value = json_object_get(line->object, names[i]);
    out->right = key ? find_label(line, json_string_value(key)) : read_index(value);
    if (key && out->right < 0)
        LH_FAIL(LH_EINPUT, "%s: \"answerKey\" must be one of the labels of \"choices\"", line->where);
    if (out->right < 0 || out->right >= out->choice_count)
        LH_FAIL(LH_EINPUT, "%s: \"answer\" must be the index of the right choice, from 0 to %lld", line->where,
                (long long)out->choice_count - 1);
    return LH_OK;
}

static lh_status read_record(lh_choice_record *out, const lh_data_line *line)
{
    if (!json_is_object(line->object))
        LH_FAIL(LH_EINPUT,
                "%s: every record must be an object, such as {\"question\": …, \"choices\": [\"Paris\", \"Rome\"], "
                "\"answer\": 0}",
                line->where);
    LH_TRY(read_prompt(out, line));
    LH_TRY(read_choices(out, line));
    LH_TRY(read_right(out, line));
    return lh_data_id(&out->id, line);
}

/* Adds the record of a line. */
static lh_status take_choice(void *self, const lh_data_line *line)
{
    lh_status st = LH_OK;
    lh_choice_data *out = self;
    lh_choice_record record = {.line = line->number};
    LH_TRY_DONE(read_record(&record, line));
    LH_TRY_DONE(lh_realloc(&out->at, out->n + 1, sizeof *out->at));
    out->at[out->n++] = record;
    record = (lh_choice_record){0};
done:
    clear_record(&record);
    return st;
}

lh_status lh_choice_data_read(lh_choice_data *out, const char *path, int64_t max)
{
    lh_status st = LH_OK;
    lh_choice_data data = {0};
    LH_TRY_DONE(lh_data_records_read(path, max, &data.hash, take_choice, &data));
    if (data.n == 0)
        LH_FAIL_DONE(LH_EINPUT, "'%s' has no questions: one JSON object a line, or an array of objects", path);
    *out = data;
    data = (lh_choice_data){0};
done:
    lh_choice_data_clear(&data);
    return st;
}

/* ---- tables ---- */

#define BUDGET "entries per KV head, or % of the prompt"

enum {
    Q_POLICY,
    Q_BUDGET,
    Q_SCENARIO,
    Q_ID,
    Q_LINE,
    Q_TOKENS,
    Q_ACC,
    Q_ACC_NORM,
    Q_ANSWER_MEASURES,
    Q_RIGHT = Q_ANSWER_MEASURES + LH_ANSWER_MEASURES,
    Q_CHOSEN,
    Q_CHOSEN_NORM,
    Q_CHOICES,
    Q_FIGURES,
    Q_COLUMNS = Q_FIGURES + LH_FIGURES
};
const lh_column lh_choice_columns[] = {[Q_POLICY] = {"policy", "", LH_COLUMN_LABEL},
                                       [Q_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
                                       [Q_SCENARIO] = {"scenario", "", LH_COLUMN_LABEL},
                                       [Q_ID] = {"id", "", LH_COLUMN_TEXT},
                                       [Q_LINE] = {"line", "", LH_COLUMN_I64},
                                       [Q_TOKENS] = {"prompt_tokens", "tokens", LH_COLUMN_I64},
                                       [Q_ACC] = {"acc", "1: yes", LH_COLUMN_I64},
                                       [Q_ACC_NORM] = {"acc_norm", "1: yes", LH_COLUMN_I64},
                                       LH_ANSWER_MEASURE_COLUMNS(Q_ANSWER_MEASURES),
                                       [Q_RIGHT] = {"right", "index of the right choice", LH_COLUMN_I64},
                                       [Q_CHOSEN] = {"chosen", "index of the most likely one", LH_COLUMN_I64},
                                       [Q_CHOSEN_NORM] = {"chosen_norm", "the same, per character", LH_COLUMN_I64},
                                       [Q_CHOICES] = {"choice_nll", "nats of every choice", LH_COLUMN_TEXT},
                                       LH_FIGURE_COLUMNS(Q_FIGURES),
                                       [Q_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};

enum {
    M_POLICY,
    M_BUDGET,
    M_SCENARIO,
    M_QUESTIONS,
    M_ACC,
    M_ACC_NORM,
    M_ANSWER_MEASURES,
    M_FIGURES = M_ANSWER_MEASURES + LH_ANSWER_MEASURES,
    M_COLUMNS = M_FIGURES + LH_MEAN_FIGURES
};
const lh_column lh_choice_mean_columns[] = {[M_POLICY] = {"policy", "", LH_COLUMN_LABEL},
                                            [M_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
                                            [M_SCENARIO] = {"scenario", "", LH_COLUMN_LABEL},
                                            [M_QUESTIONS] = {"questions", "questions", LH_COLUMN_I64},
                                            [M_ACC] = {"acc", "share of the questions", LH_COLUMN_F64},
                                            [M_ACC_NORM] = {"acc_norm", "share of the questions", LH_COLUMN_F64},
                                            LH_ANSWER_MEASURE_COLUMNS(M_ANSWER_MEASURES),
                                            LH_MEAN_FIGURE_COLUMNS(M_FIGURES, "acc"),
                                            [M_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};

/* ---- the run ---- */

typedef struct run {
    lh_question_task questions;
    const lh_choice_request *request;
    lh_choice_result *out;
    lh_question_sizes sizes;
    const lh_choice_record *now; /* the current question, on rank 0 */
} run;

static lh_status make_choices(void *self, int64_t number, lh_eval_prompt *out)
{
    run *r = self;
    const lh_choice_record *record = &r->request->data->at[number];
    r->now = record;
    out->line = record->line;
    if (!*record->context && r->request->scenarios[LH_CONTEXT_ONLY])
        LH_FAIL(LH_EUSAGE,
                "line %lld of '--data' has no \"context\", which the scenario context-only evicts before the question: "
                "give '--scenario question-aware'",
                (long long)record->line);
    return lh_eval_prompt_make(out, lh_engine_tokenizer(r->questions.engine),
                               &(lh_eval_prompt_text){.text = record->context,
                                                      .bytes = (int64_t)strlen(record->context),
                                                      .question = record->prompt,
                                                      .choices = (const char *const *)record->choices,
                                                      .choice_count = record->choice_count,
                                                      .format = r->questions.chat.format,
                                                      .arguments = r->questions.chat.arguments,
                                                      .system = r->request->chat.system,
                                                      .joint = ""});
}

static void describe_choices(const void *self, int64_t number, lh_scenario scenario, lh_question_case *out)
{
    lh_question_sizes_describe(&((const run *)self)->sizes, number, scenario, out);
}

/* Code points of a text in UTF-8: its length in Python. */
static int64_t characters(const char *text)
{
    int64_t n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

/* The index of the largest log-likelihood, the first of equals. per: characters of each, or NULL. */
static int64_t most_likely(const lh_choice_record *record, const lh_answer_likelihood *choices, int per_character)
{
    int64_t best = 0;
    double least = 0;
    for (int64_t i = 0; i < record->choice_count; i++) {
        const double value = choices[i].nll / (per_character ? (double)characters(record->choices[i]) : 1);
        if (i && !(value < least)) continue;
        least = value;
        best = i;
    }
    return best;
}

static lh_status judge_choice(void *self, const lh_question_answer *answer)
{
    lh_status st = LH_OK;
    run *r = self;
    const lh_policy_choice *policy = &r->request->setup.policies->at[answer->policy];
    const lh_choice_record *record = r->now;
    const lh_answer_likelihood *choices = answer->choices;
    const int64_t chosen = most_likely(record, choices, 0), normed = most_likely(record, choices, 1);
    lh_cell row[Q_COLUMNS] = {{0}};
    lh_buf each = {0};
    for (int64_t i = 0; i < record->choice_count; i++)
        LH_TRY_DONE(lh_buf_printf(&each, "%s%.9g", i ? " " : "", choices[i].nll));
    row[Q_POLICY].text = policy->name;
    row[Q_BUDGET].text = policy->budget;
    row[Q_SCENARIO].text = lh_scenario_names[answer->scenario];
    row[Q_ID].text = record->id;
    row[Q_LINE].number = record->line;
    row[Q_TOKENS].number = lh_eval_prompt_tokens(answer->prompt, answer->scenario);
    row[Q_ACC].number = chosen == record->right;
    row[Q_ACC_NORM].number = normed == record->right;
    lh_answer_measures_put(&row[Q_ANSWER_MEASURES], &choices[record->right]);
    row[Q_RIGHT].number = record->right;
    row[Q_CHOSEN].number = chosen;
    row[Q_CHOSEN_NORM].number = normed;
    row[Q_CHOICES].text = each.data;
    lh_figures_put(&row[Q_FIGURES], answer->figures);
    LH_TRY_DONE(lh_table_add(&r->out->questions, row));
done:
    lh_buf_clear(&each);
    return st;
}

lh_status lh_choice_run(lh_choice_result *out, lh_engine *engine, const lh_choice_request *request)
{
    lh_status st = LH_OK;
    static const lh_question_ops ops = {make_choices, describe_choices, judge_choice};
    run r = {.questions = {.engine = engine,
                           .setup = &request->setup,
                           .scenarios = request->scenarios,
                           .tables = {&out->questions},
                           .ops = &ops,
                           .self = &r},
             .request = request,
             .out = out};
    *out = (lh_choice_result){.request = request};
    lh_table_init(&out->questions, lh_choice_columns);
    LH_TRY_DONE(lh_question_task_open(&r.questions, &request->chat));
    LH_TRY_DONE(lh_question_sizes_measure(&r.sizes, &r.questions, request->data->n));
    LH_TRY_DONE(lh_question_task_run(&r.questions, r.sizes.n));
done:
    lh_question_task_close(&r.questions);
    lh_question_sizes_clear(&r.sizes);
    return st;
}

void lh_choice_result_clear(lh_choice_result *result)
{
    lh_table_clear(&result->questions);
    *result = (lh_choice_result){0};
}

/* ---- means ---- */

/* Sums over the questions for a policy, a budget and a scenario. */
typedef struct sums {
    int64_t acc, acc_norm;
    lh_answer_sums answers;
    lh_figure_sums figures; /* n: questions */
} sums;

static sums sum_up(const lh_choice_result *result, const lh_policy_choice *choice, int scenario)
{
    sums s = {0};
    for (int64_t i = 0; i < result->questions.n; i++) {
        const lh_cell *row = lh_table_row(&result->questions, i);
        if (strcmp(row[Q_SCENARIO].text, lh_scenario_names[scenario]) != 0 ||
            strcmp(row[Q_POLICY].text, choice->name) != 0 || strcmp(row[Q_BUDGET].text, choice->budget) != 0)
            continue;
        s.acc += row[Q_ACC].number;
        s.acc_norm += row[Q_ACC_NORM].number;
        lh_answer_sums_add(&s.answers, &row[Q_ANSWER_MEASURES]);
        lh_figures_add(&s.figures, &row[Q_FIGURES]);
    }
    return s;
}

static lh_status add_mean(const lh_choice_result *result, const lh_policy_choice *choice, int scenario, lh_table *out)
{
    const sums s = sum_up(result, choice, scenario);
    const double n = (double)s.figures.n;
    if (s.figures.n == 0) return LH_OK;
    lh_cell row[M_COLUMNS] = {[M_POLICY] = {.text = choice->name},
                              [M_BUDGET] = {.text = choice->budget},
                              [M_SCENARIO] = {.text = lh_scenario_names[scenario]},
                              [M_QUESTIONS] = {.number = s.figures.n},
                              [M_ACC] = {.value = (double)s.acc / n},
                              [M_ACC_NORM] = {.value = (double)s.acc_norm / n}};
    lh_answer_sums_mean(&s.answers, &row[M_ANSWER_MEASURES]);
    lh_mean_figures_put(&row[M_FIGURES],
                        &(lh_mean_figures){row[M_ACC].value, &s.figures, result->request->setup.model});
    return lh_table_add(out, row);
}

lh_status lh_choice_means(const lh_choice_result *result, lh_table *means)
{
    const lh_policy_list *policies = result->request->setup.policies;
    lh_table_init(means, lh_choice_mean_columns);
    for (int c = 0; c < LH_SCENARIOS; c++)
        for (int64_t p = 0; p < policies->n; p++) LH_TRY(add_mean(result, &policies->at[p], c, means));
    return LH_OK;
}

/* The cells of the table of a scenario. */
typedef struct cells {
    const lh_choice_result *result;
    int scenario;
} cells;

static lh_status write_cell(const void *self, const lh_policy_choice *choice, lh_buf *out)
{
    const cells *c = self;
    const sums s = sum_up(c->result, choice, c->scenario);
    const double n = (double)s.figures.n;
    lh_cell answer[LH_ANSWER_MEASURES];
    if (s.figures.n == 0) return lh_buf_puts(out, "–");
    LH_TRY(lh_buf_printf(out, "%.2f %.2f", (double)s.acc / n, (double)s.acc_norm / n));
    lh_answer_sums_mean(&s.answers, answer);
    return lh_answer_measures_print(answer, out);
}

lh_status lh_choice_print(const lh_choice_result *result, lh_buf *out)
{
    const lh_policy_list *policies = result->request->setup.policies;
    for (int s = 0; s < LH_SCENARIOS; s++) {
        const cells c = {result, s};
        const int64_t n = sum_up(result, &policies->at[0], s).figures.n;
        if (n == 0) continue;
        LH_TRY(
            lh_buf_printf(out,
                          "%s%s: acc, acc_norm, negative log-likelihood of the right choice, share of its tokens that "
                          "are the most likely ones; means of %lld question%s\n\n",
                          out->bytes ? "\n" : "", lh_scenario_names[s], (long long)n, n == 1 ? "" : "s"));
        LH_TRY(lh_grid_print(policies, &(lh_grid){&c, write_cell}, out));
    }
    return LH_OK;
}
