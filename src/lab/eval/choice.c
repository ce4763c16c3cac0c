/* choice.c - runs the task `choice` over every question, scenario, policy and budget, and prints the means. */
#include "lab/eval/choice.h"

#include <string.h>

#include "lab/eval/answer_measures.h"
#include "lab/eval/asked_sizes.h"
#include "lab/eval/question_means.h"

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
    lh_asking asking;
    const lh_choice_request *request;
    lh_choice_result *out;
    lh_asked_sizes sizes;
    const lh_choice_record *now; /* the current question, on rank 0 */
} run;

static lh_status make_choices(void *self, int64_t number, lh_asked_prompt *out)
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
    return lh_asked_prompt_make(out, lh_engine_tokenizer(r->asking.engine),
                                &(lh_asked_text){.text = record->context,
                                                 .bytes = (int64_t)strlen(record->context),
                                                 .question = record->prompt,
                                                 .choices = (const char *const *)record->choices,
                                                 .choice_count = record->choice_count,
                                                 .format = r->asking.chat.format,
                                                 .system = r->request->chat.system,
                                                 .joint = ""});
}

static void describe_choices(const void *self, int64_t number, lh_scenario scenario, lh_asked_case *out)
{
    lh_asked_sizes_describe(&((const run *)self)->sizes, number, scenario, out);
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

static lh_status judge_choice(void *self, const lh_asked_answer *answer)
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
    row[Q_TOKENS].number = lh_asked_prompt_tokens(answer->prompt, answer->scenario);
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
    static const lh_asker asker = {make_choices, describe_choices, judge_choice};
    run r = {.asking = {.engine = engine,
                        .setup = &request->setup,
                        .scenarios = request->scenarios,
                        .tables = {&out->questions},
                        .asker = &asker,
                        .self = &r},
             .request = request,
             .out = out};
    *out = (lh_choice_result){.request = request};
    lh_table_init(&out->questions, lh_choice_columns);
    LH_TRY_DONE(lh_asking_open(&r.asking, &request->chat));
    LH_TRY_DONE(lh_asked_sizes_measure(&r.sizes, &r.asking, request->data->n));
    LH_TRY_DONE(lh_asking_run(&r.asking, r.sizes.n));
done:
    lh_asking_close(&r.asking);
    lh_asked_sizes_clear(&r.sizes);
    return st;
}

void lh_choice_result_clear(lh_choice_result *result)
{
    lh_table_clear(&result->questions);
    *result = (lh_choice_result){0};
}

/* ---- means ---- */

_Static_assert((int)Q_POLICY == LH_QUESTION_POLICY && (int)Q_BUDGET == LH_QUESTION_BUDGET &&
                   (int)Q_SCENARIO == LH_QUESTION_SCENARIO && (int)Q_ACC == LH_QUESTION_MEASURES &&
                   (int)Q_ANSWER_MEASURES == LH_QUESTION_MEASURES + 2 && (int)M_QUESTIONS == LH_QUESTION_MEAN_COUNT &&
                   (int)M_ANSWER_MEASURES == LH_QUESTION_MEAN_MEASURES + 2,
               "columns are where question_means.h expects them");

static lh_question_means means_of(const lh_choice_result *result)
{
    return (lh_question_means){.setup = &result->request->setup,
                               .rows = &result->questions,
                               .columns = lh_choice_mean_columns,
                               .measures = 2,
                               .leading = M_ACC - LH_QUESTION_MEAN_MEASURES,
                               .figures = Q_FIGURES,
                               .said = "acc, acc_norm",
                               .answer = "the right choice"};
}

lh_status lh_choice_means(const lh_choice_result *result, lh_table *means)
{
    const lh_question_means of = means_of(result);
    return lh_question_means_table(&of, means);
}

lh_status lh_choice_print(const lh_choice_result *result, lh_buf *out)
{
    const lh_question_means of = means_of(result);
    return lh_question_means_print(&of, out);
}
