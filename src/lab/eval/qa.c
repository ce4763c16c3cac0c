/* qa.c - runs the task `qa` over every question, scenario, policy and budget, and prints the means of the scores. */
#include "lab/eval/qa.h"

#include <string.h>

#include "lab/eval/answer_measures.h"
#include "lab/eval/asked_sizes.h"
#include "lab/eval/question_means.h"
#include "lab/eval/similarity.h"

#define BUDGET "entries per KV head, or % of the prompt"

enum {
    A_POLICY,
    A_BUDGET,
    A_SCENARIO,
    A_ID,
    A_LINE,
    A_TOKENS,
    A_EXACT,
    A_F1,
    A_ROUGEL,
    A_ANSWER_MEASURES,
    A_QUESTION = A_ANSWER_MEASURES + LH_ANSWER_MEASURES,
    A_EXPECTED,
    A_ANSWER,
    A_FIGURES,
    A_COLUMNS = A_FIGURES + LH_FIGURES
};
const lh_column lh_qa_columns[] = {[A_POLICY] = {"policy", "", LH_COLUMN_LABEL},
                                   [A_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
                                   [A_SCENARIO] = {"scenario", "", LH_COLUMN_LABEL},
                                   [A_ID] = {"id", "", LH_COLUMN_TEXT},
                                   [A_LINE] = {"line", "", LH_COLUMN_I64},
                                   [A_TOKENS] = {"prompt_tokens", "tokens", LH_COLUMN_I64},
                                   [A_EXACT] = {"em", "1: exact match", LH_COLUMN_I64},
                                   [A_F1] = {"f1", "F1 of words", LH_COLUMN_F64},
                                   [A_ROUGEL] = {"rougel", "F1 of the longest common subsequence", LH_COLUMN_F64},
                                   LH_ANSWER_MEASURE_COLUMNS(A_ANSWER_MEASURES),
                                   [A_QUESTION] = {"question", "", LH_COLUMN_TEXT},
                                   [A_EXPECTED] = {"expected", "the first right answer", LH_COLUMN_TEXT},
                                   [A_ANSWER] = {"answer", "", LH_COLUMN_TEXT},
                                   LH_FIGURE_COLUMNS(A_FIGURES),
                                   [A_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};

enum {
    M_POLICY,
    M_BUDGET,
    M_SCENARIO,
    M_QUESTIONS,
    M_EXACT,
    M_F1,
    M_ROUGEL,
    M_ANSWER_MEASURES,
    M_FIGURES = M_ANSWER_MEASURES + LH_ANSWER_MEASURES,
    M_COLUMNS = M_FIGURES + LH_MEAN_FIGURES
};
const lh_column lh_qa_mean_columns[] = {[M_POLICY] = {"policy", "", LH_COLUMN_LABEL},
                                        [M_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
                                        [M_SCENARIO] = {"scenario", "", LH_COLUMN_LABEL},
                                        [M_QUESTIONS] = {"questions", "questions", LH_COLUMN_I64},
                                        [M_EXACT] = {"em", "share of the questions", LH_COLUMN_F64},
                                        [M_F1] = {"f1", "F1 of words", LH_COLUMN_F64},
                                        [M_ROUGEL] = {"rougel", "F1 of the longest common subsequence", LH_COLUMN_F64},
                                        LH_ANSWER_MEASURE_COLUMNS(M_ANSWER_MEASURES),
                                        LH_MEAN_FIGURE_COLUMNS(M_FIGURES, "f1"),
                                        [M_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};

/* ---- the run ---- */

typedef struct run {
    lh_asking asking;
    const lh_qa_request *request;
    lh_qa_result *out;
    lh_asked_sizes sizes;
    const lh_qa_record *now; /* the current question, on rank 0 */
} run;

static lh_status make_question(void *self, int64_t number, lh_asked_prompt *out)
{
    run *r = self;
    r->now = &r->request->data->at[number];
    out->line = r->now->line;
    return lh_asked_prompt_make(out, lh_engine_tokenizer(r->asking.engine),
                                &(lh_asked_text){.text = r->now->context,
                                                 .bytes = (int64_t)strlen(r->now->context),
                                                 .question = r->now->question,
                                                 .answer = r->now->answers[0],
                                                 .format = r->asking.chat.format,
                                                 .system = r->request->chat.system});
}

static void describe_question(const void *self, int64_t number, lh_scenario scenario, lh_asked_case *out)
{
    lh_asked_sizes_describe(&((const run *)self)->sizes, number, scenario, out);
}

static lh_status judge_words(void *self, const lh_asked_answer *answer)
{
    run *r = self;
    const lh_policy_choice *choice = &r->request->setup.policies->at[answer->policy];
    const lh_qa_record *record = r->now;
    lh_cell row[A_COLUMNS] = {{0}};
    lh_answer_score score;
    LH_TRY(lh_answer_score_of(&score, answer->text, (const char *const *)record->answers, record->answer_count));
    row[A_POLICY].text = choice->name;
    row[A_BUDGET].text = choice->budget;
    row[A_SCENARIO].text = lh_scenario_names[answer->scenario];
    row[A_ID].text = record->id;
    row[A_LINE].number = record->line;
    row[A_TOKENS].number = lh_asked_prompt_tokens(answer->prompt, answer->scenario);
    row[A_EXACT].number = score.exact;
    row[A_F1].value = score.f1;
    row[A_ROUGEL].value = score.rougel;
    lh_answer_measures_put(&row[A_ANSWER_MEASURES], &answer->right);
    row[A_QUESTION].text = record->question;
    row[A_EXPECTED].text = record->answers[0];
    row[A_ANSWER].text = answer->text;
    lh_figures_put(&row[A_FIGURES], answer->figures);
    return lh_table_add(&r->out->answers, row);
}

lh_status lh_qa_run(lh_qa_result *out, lh_engine *engine, const lh_qa_request *request)
{
    lh_status st = LH_OK;
    static const lh_asker asker = {make_question, describe_question, judge_words};
    run r = {.asking = {.engine = engine,
                        .setup = &request->setup,
                        .scenarios = request->scenarios,
                        .tables = {&out->answers},
                        .asker = &asker,
                        .self = &r},
             .request = request,
             .out = out};
    *out = (lh_qa_result){.request = request};
    lh_table_init(&out->answers, lh_qa_columns);
    LH_TRY_DONE(lh_asking_open(&r.asking, &request->chat));
    LH_TRY_DONE(lh_asked_sizes_measure(&r.sizes, &r.asking, request->data->n));
    LH_TRY_DONE(lh_asking_run(&r.asking, r.sizes.n));
done:
    lh_asking_close(&r.asking);
    lh_asked_sizes_clear(&r.sizes);
    return st;
}

void lh_qa_result_clear(lh_qa_result *result)
{
    lh_table_clear(&result->answers);
    *result = (lh_qa_result){0};
}

/* ---- means ---- */

_Static_assert((int)A_POLICY == LH_QUESTION_POLICY && (int)A_BUDGET == LH_QUESTION_BUDGET &&
                   (int)A_SCENARIO == LH_QUESTION_SCENARIO && (int)A_EXACT == LH_QUESTION_MEASURES &&
                   (int)A_ANSWER_MEASURES == LH_QUESTION_MEASURES + 3 && (int)M_QUESTIONS == LH_QUESTION_MEAN_COUNT &&
                   (int)M_ANSWER_MEASURES == LH_QUESTION_MEAN_MEASURES + 3,
               "columns are where question_means.h expects them");

static lh_question_means means_of(const lh_qa_result *result)
{
    return (lh_question_means){.setup = &result->request->setup,
                               .rows = &result->answers,
                               .columns = lh_qa_mean_columns,
                               .measures = 3,
                               .leading = M_F1 - LH_QUESTION_MEAN_MEASURES,
                               .figures = A_FIGURES,
                               .said = "exact match, F1, ROUGE-L",
                               .answer = "the right answer"};
}

lh_status lh_qa_means(const lh_qa_result *result, lh_table *means)
{
    const lh_question_means of = means_of(result);
    return lh_question_means_table(&of, means);
}

lh_status lh_qa_print(const lh_qa_result *result, lh_buf *out)
{
    const lh_question_means of = means_of(result);
    return lh_question_means_print(&of, out);
}
