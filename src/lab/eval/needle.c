/* needle.c - runs the task `needle` over every length, depth, seed, scenario, policy and budget: makes the prompt on
 * rank 0, lets every cache answer it (questions.h), judges the answers, and prints their means. */
#include "lab/eval/needle.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "comm/comm.h"
#include "lab/eval/measures.h"
#include "lab/eval/questions.h"
#include "lab/eval/text_metrics.h"

enum {
    P_POLICY,
    P_BUDGET,
    P_LENGTH,
    P_SCENARIO,
    P_TASK,
    P_DEPTH,
    P_SEED,
    P_TOKENS,
    P_AT,
    P_EXACT,
    P_WORDS,
    P_ANSWER_MEASURES,
    P_ANSWERED = P_ANSWER_MEASURES + LH_ANSWER_MEASURES,
    P_NAME,
    P_SECRET,
    P_ANSWER,
    P_FIGURES,
    P_COLUMNS = P_FIGURES + LH_FIGURES
};
const lh_column lh_needle_prompt_columns[] = {
    [P_POLICY] = {"policy", "", LH_COLUMN_LABEL},
    [P_BUDGET] = {"budget", "entries per KV head, or % of the prompt", LH_COLUMN_LABEL},
    [P_LENGTH] = {"length", "tokens", LH_COLUMN_I64},
    [P_SCENARIO] = {"scenario", "", LH_COLUMN_LABEL},
    [P_TASK] = {"task", "", LH_COLUMN_LABEL},
    [P_DEPTH] = {"depth", "share of the haystack", LH_COLUMN_F64},
    [P_SEED] = {"seed", "", LH_COLUMN_I64},
    [P_TOKENS] = {"prompt_tokens", "tokens", LH_COLUMN_I64},
    [P_AT] = {"needle_at", "tokens", LH_COLUMN_I64},
    [P_EXACT] = {"exact", "1: yes", LH_COLUMN_I64},
    [P_WORDS] = {"words", "share of the right answer's words", LH_COLUMN_F64},
    LH_ANSWER_MEASURE_COLUMNS(P_ANSWER_MEASURES),
    [P_ANSWERED] = {"answered", "1: the full cache's answer is exact", LH_COLUMN_I64},
    [P_NAME] = {"name", "", LH_COLUMN_TEXT},
    [P_SECRET] = {"secret", "", LH_COLUMN_TEXT},
    [P_ANSWER] = {"answer", "", LH_COLUMN_TEXT},
    LH_FIGURE_COLUMNS(P_FIGURES),
    [P_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};

enum {
    M_POLICY,
    M_BUDGET,
    M_LENGTH,
    M_SCENARIO,
    M_TASK,
    M_PROMPTS,
    M_EXACT,
    M_WORDS,
    M_ANSWER_MEASURES,
    M_ANSWERED = M_ANSWER_MEASURES + LH_ANSWER_MEASURES,
    M_EXACT_ANSWERED,
    M_WORDS_ANSWERED,
    M_FIGURES,
    M_COLUMNS = M_FIGURES + LH_MEAN_FIGURES
};
const lh_column lh_needle_mean_columns[] = {
    [M_POLICY] = {"policy", "", LH_COLUMN_LABEL},
    [M_BUDGET] = {"budget", "entries per KV head, or % of the prompt", LH_COLUMN_LABEL},
    [M_LENGTH] = {"length", "tokens", LH_COLUMN_I64},
    [M_SCENARIO] = {"scenario", "", LH_COLUMN_LABEL},
    [M_TASK] = {"task", "", LH_COLUMN_LABEL},
    [M_PROMPTS] = {"prompts", "prompts", LH_COLUMN_I64},
    [M_EXACT] = {"exact", "share of the prompts", LH_COLUMN_F64},
    [M_WORDS] = {"words", "mean share of the right answer's words", LH_COLUMN_F64},
    LH_ANSWER_MEASURE_COLUMNS(M_ANSWER_MEASURES),
    [M_ANSWERED] = {"prompts_answered", "prompts that the full cache answers", LH_COLUMN_I64},
    [M_EXACT_ANSWERED] = {"exact_answered", "share of these prompts", LH_COLUMN_F64},
    [M_WORDS_ANSWERED] = {"words_answered", "mean share of the right answer's words", LH_COLUMN_F64},
    LH_MEAN_FIGURE_COLUMNS(M_FIGURES, "exact"),
    [M_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};

/* ---- the run ---- */

typedef struct run {
    lh_question_task questions;
    const lh_needle_request *request;
    lh_needle_result *out;
    lh_needle_form form;
    struct {
        int64_t prefilled[LH_SCENARIOS], answer;
    } * tokens; /* [lengths], of the first prompt of each */
    /* of the current prompt, on rank 0: */
    lh_needle_spec spec;
    lh_needle needle;
    int answered; /* by the full cache */
} run;

/* Number of prompts of a length. Prompts are numbered by length, depth, seed and kind, the last changing fastest. */
static int64_t prompts_of_length(const run *r)
{
    return r->request->depth_count * r->request->seeds * r->out->kind_count;
}

static lh_needle_spec spec_of(const run *r, int64_t number)
{
    const lh_needle_request *q = r->request;
    const int64_t seed = number / r->out->kind_count, place = seed / q->seeds;
    return (lh_needle_spec){q->lengths[place / q->depth_count], q->depths[place % q->depth_count],
                            q->setup.seed + (uint64_t)(seed % q->seeds), number % r->out->kind_count};
}

static lh_status make_needle(void *self, int64_t number, lh_eval_prompt *out)
{
    run *r = self;
    lh_needle_clear(&r->needle);
    r->spec = spec_of(r, number);
    r->form.format = r->questions.chat.format;
    r->form.arguments = r->questions.chat.arguments;
    r->form.system = r->request->chat.system;
    LH_TRY(lh_needle_make(&r->needle, lh_engine_tokenizer(r->questions.engine), &r->form, &r->spec));
    *out = r->needle.prompt;
    r->needle.prompt = (lh_eval_prompt){0};
    return LH_OK;
}

/* Name of the prompt in names of keep sets, which depends on the prompt alone: the depth as in the table of answers,
 * without its dot, and the kind if a file names it. */
static void name_prompt(const run *r, char name[LH_PROMPT_NAME_BYTES], const lh_needle_spec *spec, lh_scenario scenario)
{
    char depth[32];
    snprintf(depth, sizeof depth, "%.9g", spec->depth);
    for (char *c = depth; *c; c++)
        if (*c == '.') *c = '_';
    const int n = snprintf(name, LH_PROMPT_NAME_BYTES, "%lld-%s-depth%s-seed%llu", (long long)spec->length,
                           lh_scenario_names[scenario], depth, (unsigned long long)spec->seed);
    if (r->request->names_kinds) snprintf(name + n, LH_PROMPT_NAME_BYTES - (size_t)n, "-%s", r->out->kinds[spec->kind]);
}

static void describe_needle(const void *self, int64_t number, lh_scenario scenario, lh_question_case *out)
{
    const run *r = self;
    const lh_needle_spec spec = spec_of(r, number);
    const int64_t length = number / prompts_of_length(r);
    name_prompt(r, out->name, &spec, scenario);
    out->seed = spec.seed;
    out->tokens = r->tokens[length].prefilled[scenario];
    out->answer = r->tokens[length].answer;
}

static lh_status judge_secret(void *self, const lh_question_answer *answer)
{
    run *r = self;
    const lh_policy_choice *choice = &r->request->setup.policies->at[answer->policy];
    const lh_needle *n = &r->needle;
    lh_cell row[P_COLUMNS] = {{0}};
    int exact = 0;
    double words = 0;
    LH_TRY(lh_words_contain(&exact, n->secret, answer->text));
    LH_TRY(lh_words_found(&words, n->secret, answer->text));
    if (answer->policy == 0) r->answered = exact;
    row[P_POLICY].text = choice->name;
    row[P_BUDGET].text = choice->budget;
    row[P_LENGTH].number = r->spec.length;
    row[P_SCENARIO].text = lh_scenario_names[answer->scenario];
    row[P_TASK].text = r->out->kinds[r->spec.kind];
    row[P_DEPTH].value = r->spec.depth;
    row[P_SEED].number = (int64_t)r->spec.seed;
    row[P_TOKENS].number = lh_eval_prompt_tokens(answer->prompt, answer->scenario);
    row[P_AT].number = n->at_token;
    row[P_EXACT].number = exact;
    row[P_WORDS].value = words;
    lh_answer_measures_put(&row[P_ANSWER_MEASURES], &answer->right);
    row[P_ANSWERED].number = r->answered;
    row[P_NAME].text = n->name;
    row[P_SECRET].text = n->secret;
    row[P_ANSWER].text = answer->text;
    lh_figures_put(&row[P_FIGURES], answer->figures);
    return lh_table_add(&r->out->prompts, row);
}

/* Collective. The names of the kinds on all ranks. */
static lh_status list_kinds(run *r)
{
    const lh_needle_kinds *kinds = &r->request->form.kinds;
    lh_comm *comm = lh_engine_get(r->questions.engine)->comm;
    lh_needle_result *out = r->out;
    out->kind_count = kinds->n;
    LH_TRY(lh_comm_bcast(comm, 0, &out->kind_count, sizeof out->kind_count));
    LH_TRY(lh_comm_agree(comm, lh_calloc(&out->kinds, out->kind_count, sizeof *out->kinds)));
    for (int64_t k = 0; k < kinds->n; k++) memcpy(out->kinds[k], kinds->at[k].name, sizeof out->kinds[k]);
    return lh_comm_bcast(comm, 0, out->kinds, out->kind_count * (int64_t)sizeof *out->kinds);
}

/* Makes one prompt of every length, so that one that cannot be made is reported before the work begins. */
static lh_status make_first_prompts(run *r)
{
    const lh_needle_request *q = r->request;
    for (int64_t l = 0; l < q->length_count; l++) {
        LH_TRY(lh_question_task_make(&r->questions, l * prompts_of_length(r)));
        for (int s = 0; s < LH_SCENARIOS; s++)
            r->tokens[l].prefilled[s] = lh_eval_prompt_of(&r->questions.prompt, (lh_scenario)s)->n;
        r->tokens[l].answer = r->questions.prompt.answer.n;
    }
    return LH_OK;
}

lh_status lh_needle_run(lh_needle_result *out, lh_engine *engine, const lh_needle_request *request)
{
    lh_status st = LH_OK;
    static const lh_question_ops ops = {make_needle, describe_needle, judge_secret};
    run r = {.questions = {.engine = engine,
                           .setup = &request->setup,
                           .scenarios = request->scenarios,
                           .tables = {&out->prompts},
                           .ops = &ops,
                           .self = &r},
             .request = request,
             .out = out,
             .form = request->form};
    const lh_engine_view *view = lh_engine_get(engine);
    *out = (lh_needle_result){.request = request};
    lh_table_init(&out->prompts, lh_needle_prompt_columns);
    LH_TRY_DONE(lh_question_task_open(&r.questions, &request->chat));
    LH_TRY_DONE(list_kinds(&r));
    st = lh_eval_check_lengths(&request->setup, view->config, request->lengths, request->length_count);
    if (st == LH_OK) st = lh_calloc(&r.tokens, request->length_count, sizeof *r.tokens);
    LH_TRY_DONE(lh_comm_agree(view->comm, st));
    LH_TRY_DONE(make_first_prompts(&r));
    LH_TRY_DONE(lh_question_task_run(&r.questions, request->length_count * prompts_of_length(&r)));
done:
    lh_question_task_close(&r.questions);
    lh_needle_clear(&r.needle);
    lh_free(r.tokens);
    return st;
}

void lh_needle_result_clear(lh_needle_result *result)
{
    lh_table_clear(&result->prompts);
    lh_free(result->kinds);
    *result = (lh_needle_result){0};
}

/* ---- means ---- */

/* A table of means: of a length, a scenario and a kind. */
typedef struct cells {
    const lh_needle_result *result;
    int64_t length;
    int scenario;
    int64_t kind; /* kind_count: all kinds */
    int answered; /* 1: only prompts that the full cache answers */
} cells;

/* Sums over its prompts for a policy and a budget. */
typedef struct sums {
    int64_t n, exact, answered, exact_answered;
    double words, words_answered;
    lh_answer_sums answers, answers_answered;
    lh_figure_sums figures;
} sums;

static int is_all(const cells *c)
{
    return c->kind == c->result->kind_count;
}

static const char *task_of(const cells *c)
{
    return is_all(c) ? "average" : c->result->kinds[c->kind];
}

static int is_of(const lh_cell *row, const cells *c, const lh_policy_choice *choice)
{
    return row[P_LENGTH].number == c->length && strcmp(row[P_SCENARIO].text, lh_scenario_names[c->scenario]) == 0 &&
           (is_all(c) || strcmp(row[P_TASK].text, task_of(c)) == 0) && strcmp(row[P_POLICY].text, choice->name) == 0 &&
           strcmp(row[P_BUDGET].text, choice->budget) == 0;
}

static sums sum_up(const cells *c, const lh_policy_choice *choice)
{
    const lh_table *prompts = &c->result->prompts;
    sums s = {0};
    for (int64_t i = 0; i < prompts->n; i++) {
        const lh_cell *row = lh_table_row(prompts, i);
        if (!is_of(row, c, choice)) continue;
        s.n++;
        lh_figures_add(&s.figures, &row[P_FIGURES]);
        s.exact += row[P_EXACT].number;
        s.words += row[P_WORDS].value;
        lh_answer_sums_add(&s.answers, &row[P_ANSWER_MEASURES]);
        if (!row[P_ANSWERED].number) continue;
        s.answered++;
        s.exact_answered += row[P_EXACT].number;
        s.words_answered += row[P_WORDS].value;
        lh_answer_sums_add(&s.answers_answered, &row[P_ANSWER_MEASURES]);
    }
    return s;
}

/* Calls `take` for every length, scenario and kind, and, of several kinds, for all of them together. */
static lh_status each_table(const lh_needle_result *result, lh_status (*take)(void *self, cells *c), void *self)
{
    const lh_needle_request *q = result->request;
    const int64_t kinds = result->kind_count > 1 ? result->kind_count + 1 : result->kind_count;
    for (int64_t l = 0; l < q->length_count; l++)
        for (int s = 0; s < LH_SCENARIOS; s++)
            for (int64_t k = 0; k < kinds; k++) LH_TRY(take(self, &(cells){result, q->lengths[l], s, k, 0}));
    return LH_OK;
}

static double mean(double sum, int64_t n)
{
    return n ? sum / (double)n : (double)NAN;
}

static lh_status add_means(void *self, cells *c)
{
    lh_table *means = self;
    const lh_needle_request *q = c->result->request;
    for (int64_t p = 0; p < q->setup.policies->n; p++) {
        const lh_policy_choice *choice = &q->setup.policies->at[p];
        const sums s = sum_up(c, choice);
        if (s.n == 0) continue;
        lh_cell row[M_COLUMNS] = {[M_POLICY] = {.text = choice->name},
                                  [M_BUDGET] = {.text = choice->budget},
                                  [M_LENGTH] = {.number = c->length},
                                  [M_SCENARIO] = {.text = lh_scenario_names[c->scenario]},
                                  [M_TASK] = {.text = task_of(c)},
                                  [M_PROMPTS] = {.number = s.n},
                                  [M_EXACT] = {.value = mean((double)s.exact, s.n)},
                                  [M_WORDS] = {.value = mean(s.words, s.n)},
                                  [M_ANSWERED] = {.number = s.answered},
                                  [M_EXACT_ANSWERED] = {.value = mean((double)s.exact_answered, s.answered)},
                                  [M_WORDS_ANSWERED] = {.value = mean(s.words_answered, s.answered)}};
        lh_answer_sums_mean(&s.answers, &row[M_ANSWER_MEASURES]);
        lh_mean_figures_put(&row[M_FIGURES], &(lh_mean_figures){row[M_EXACT].value, &s.figures, q->setup.model});
        LH_TRY(lh_table_add(means, row));
    }
    return LH_OK;
}

lh_status lh_needle_means(const lh_needle_result *result, lh_table *means)
{
    lh_table_init(means, lh_needle_mean_columns);
    return each_table(result, add_means, means);
}

/* ---- text ---- */

static lh_status write_cell(const void *self, const lh_policy_choice *choice, lh_buf *out)
{
    const cells *c = self;
    const sums s = sum_up(c, choice);
    const int64_t n = c->answered ? s.answered : s.n;
    lh_cell answer[LH_ANSWER_MEASURES];
    if (n == 0) return lh_buf_puts(out, "–");
    LH_TRY(lh_buf_printf(out, "%lld/%lld %.2f", (long long)(c->answered ? s.exact_answered : s.exact), (long long)n,
                         mean(c->answered ? s.words_answered : s.words, n)));
    lh_answer_sums_mean(c->answered ? &s.answers_answered : &s.answers, answer);
    return lh_answer_measures_print(answer, out);
}

static lh_status print_table(void *self, cells *c)
{
    lh_buf *out = self;
    const lh_policy_list *policies = c->result->request->setup.policies;
    const sums full = sum_up(c, &policies->at[0]);
    if (full.n == 0) return LH_OK;
    LH_TRY(lh_buf_printf(out, "%s%lld tokens, %s", out->bytes ? "\n" : "", (long long)c->length,
                         lh_scenario_names[c->scenario]));
    if (c->result->request->names_kinds) LH_TRY(lh_buf_printf(out, ", %s", task_of(c)));
    LH_TRY(lh_buf_printf(
        out,
        ": exact answers of %lld, mean share of the right answer's words, its mean negative log-likelihood, mean "
        "share of its tokens that are the most likely ones\n\n",
        (long long)full.n));
    LH_TRY(lh_grid_print(policies, &(lh_grid){c, write_cell}, out));
    if (full.answered == full.n || full.answered == 0) return LH_OK;
    c->answered = 1;
    LH_TRY(lh_buf_printf(out, "\nOnly the %lld prompt%s that the full cache answers:\n\n", (long long)full.answered,
                         full.answered == 1 ? "" : "s"));
    return lh_grid_print(policies, &(lh_grid){c, write_cell}, out);
}

lh_status lh_needle_print(const lh_needle_result *result, lh_buf *out)
{
    return each_table(result, print_table, out);
}
