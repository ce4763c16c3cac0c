/* needle.c - runs the task `needle` over every length, depth, seed, scenario, policy and budget: makes the prompt on
 * rank 0, lets every cache answer it (caches.h), judges the answers, and prints their means. */
#include "eval/needle.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/clock.h"
#include "eval/grid.h"
#include "eval/text_metrics.h"

enum {
    P_POLICY,
    P_BUDGET,
    P_LENGTH,
    P_SCENARIO,
    P_DEPTH,
    P_SEED,
    P_TOKENS,
    P_AT,
    P_EXACT,
    P_WORDS,
    P_ANSWERED,
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
    [P_DEPTH] = {"depth", "share of the haystack", LH_COLUMN_F64},
    [P_SEED] = {"seed", "", LH_COLUMN_I64},
    [P_TOKENS] = {"prompt_tokens", "tokens", LH_COLUMN_I64},
    [P_AT] = {"needle_at", "tokens", LH_COLUMN_I64},
    [P_EXACT] = {"exact", "1: yes", LH_COLUMN_I64},
    [P_WORDS] = {"words", "share of the secret's words", LH_COLUMN_F64},
    [P_ANSWERED] = {"answered", "1: the full cache's answer is exact", LH_COLUMN_I64},
    [P_NAME] = {"name", "", LH_COLUMN_LABEL},
    [P_SECRET] = {"secret", "", LH_COLUMN_TEXT},
    [P_ANSWER] = {"answer", "", LH_COLUMN_TEXT},
    LH_FIGURE_COLUMNS(P_FIGURES),
    [P_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};

enum {
    M_POLICY,
    M_BUDGET,
    M_LENGTH,
    M_SCENARIO,
    M_PROMPTS,
    M_EXACT,
    M_WORDS,
    M_ANSWERED,
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
    [M_PROMPTS] = {"prompts", "prompts", LH_COLUMN_I64},
    [M_EXACT] = {"exact", "share of the prompts", LH_COLUMN_F64},
    [M_WORDS] = {"words", "mean share of the secret's words", LH_COLUMN_F64},
    [M_ANSWERED] = {"prompts_answered", "prompts that the full cache answers", LH_COLUMN_I64},
    [M_EXACT_ANSWERED] = {"exact_answered", "share of these prompts", LH_COLUMN_F64},
    [M_WORDS_ANSWERED] = {"words_answered", "mean share of the secret's words", LH_COLUMN_F64},
    LH_MEAN_FIGURE_COLUMNS(M_FIGURES, "exact"),
    [M_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};

/* ---- prompts ---- */

typedef struct run {
    lh_engine *engine;
    const lh_needle_request *request;
    lh_needle_result *out;
    lh_table *tables[2]; /* of the result, ends with NULL */
    lh_tokens ends;
    lh_eval_work work;
    int64_t number; /* of the next prompt and scenario */
    /* of the current prompt: */
    lh_needle_spec spec;
    lh_needle needle;
    lh_scenario scenario;
    int answered; /* by the full cache, on rank 0 */
} run;

static int is_root(const run *r)
{
    return lh_comm_rank(lh_engine_get(r->engine)->comm) == 0;
}

/* Checks all that is known before work begins; the same on all ranks except for the haystack. */
static lh_status check_request(const run *r)
{
    const lh_needle_request *q = r->request;
    const lh_config *c = lh_engine_get(r->engine)->config;
    if (!lh_engine_tokenizer(r->engine))
        LH_FAIL(LH_EUSAGE, "the model has no tokenizer, so it cannot read text: import it from a folder that has one");
    LH_TRY(lh_needle_check(&q->form));
    for (int64_t i = 0; i < q->length_count; i++) {
        if (q->lengths[i] + q->setup.max_new > c->max_positions)
            LH_FAIL(LH_EUSAGE,
                    "%lld tokens of prompt and %lld of the answer are longer than the %lld positions of the "
                    "model: reduce '--length' or '--max-new'",
                    (long long)q->lengths[i], (long long)q->setup.max_new, (long long)c->max_positions);
        for (int64_t p = 0; p < q->setup.policies->n; p++)
            LH_TRY(lh_policy_check(&q->setup.policies->at[p].policy, q->lengths[i]));
    }
    for (int64_t p = 0; p < q->setup.policies->n; p++)
        if (q->scenarios[LH_CONTEXT_ONLY] && q->setup.policies->at[p].policy.proxies.kind == LH_PROXIES_QUESTION)
            LH_FAIL(LH_EUSAGE,
                    "policy '%s' observes the question, which comes after the eviction in the scenario context-only: "
                    "give '--scenario question-aware'",
                    q->setup.policies->at[p].name);
    return LH_OK;
}

/* Collective. Makes the prompt of r->spec on rank 0 and broadcasts its ids. */
static lh_status make_prompt(run *r)
{
    lh_status st = LH_OK;
    lh_comm *comm = lh_engine_get(r->engine)->comm;
    lh_needle *n = &r->needle;
    lh_needle_clear(n);
    if (is_root(r)) st = lh_needle_make(n, lh_engine_tokenizer(r->engine), &r->request->form, &r->spec);
    LH_TRY(lh_comm_agree_patiently(comm, st));
    LH_TRY(lh_asked_prompt_share(comm, &n->prompt));
    return st;
}

/* Of the prompts that are not finished. tokens: of a prompt, [lengths, scenarios]. */
static void plan_work(run *r, const int64_t *tokens)
{
    const lh_needle_request *q = r->request;
    const lh_config *config = lh_engine_get(r->engine)->config;
    r->work.progress = q->setup.progress;
    r->work.prompts = r->work.resumed;
    for (int64_t l = 0; l < q->length_count; l++)
        for (int64_t i = 0; i < q->depth_count * q->seeds; i++)
            for (int s = 0; s < LH_SCENARIOS; s++)
                if (q->scenarios[s] && r->work.prompt_total++ >= r->work.resumed)
                    lh_caches_expect(&r->work, &q->setup, config,
                                     &(lh_caches_plan){tokens[l * LH_SCENARIOS + s], q->setup.max_new});
    lh_work_begin(&r->work);
}

/* Makes one prompt of every length, so that one that cannot be made is reported before the work begins. tokens: of a
 * prompt, [lengths, scenarios]. */
static lh_status open_run(run *r, int64_t *tokens)
{
    lh_status st = LH_OK;
    const lh_needle_request *q = r->request;
    st = check_request(r);
    if (st == LH_OK)
        st = lh_prompt_ends(lh_engine_tokenizer(r->engine),
                            &(lh_prompt_text){.chat = q->form.chat, .chat_template = q->form.chat_template}, &r->ends);
    LH_TRY(lh_comm_agree(lh_engine_get(r->engine)->comm, st));
    for (int64_t l = 0; l < q->length_count; l++) {
        r->spec = (lh_needle_spec){q->lengths[l], q->depths[0], q->setup.seed};
        LH_TRY(make_prompt(r));
        for (int s = 0; s < LH_SCENARIOS; s++)
            tokens[l * LH_SCENARIOS + s] = lh_asked_prompt_of(&r->needle.prompt, (lh_scenario)s)->n;
    }
    LH_TRY(lh_resume_begin(q->setup.resume, lh_engine_get(r->engine)->comm, r->tables, &r->work.resumed));
    plan_work(r, tokens);
    return st;
}

/* ---- answers ---- */

static lh_status judge(run *r, const lh_cache_at *at, const lh_tokens *ids)
{
    lh_status st = LH_OK;
    const lh_policy_choice *choice = &r->request->setup.policies->at[at->policy];
    const lh_needle *n = &r->needle;
    lh_cell row[P_COLUMNS] = {{0}};
    lh_buf answer = {0};
    int exact = 0;
    double words = 0;
    LH_TRY_DONE(lh_eval_text(lh_engine_tokenizer(r->engine), ids->ids, ids->n, &answer));
    LH_TRY_DONE(lh_words_contain(&exact, n->secret, answer.data));
    LH_TRY_DONE(lh_words_found(&words, n->secret, answer.data));
    if (at->policy == 0) r->answered = exact;
    row[P_POLICY].text = choice->name;
    row[P_BUDGET].text = choice->budget;
    row[P_LENGTH].number = r->spec.length;
    row[P_SCENARIO].text = lh_scenario_names[r->scenario];
    row[P_DEPTH].value = r->spec.depth;
    row[P_SEED].number = (int64_t)r->spec.seed;
    row[P_TOKENS].number =
        r->scenario == LH_QUESTION_AWARE ? n->prompt.whole.n : n->prompt.context.n + n->prompt.question.n;
    row[P_AT].number = n->at_token;
    row[P_EXACT].number = exact;
    row[P_WORDS].value = words;
    row[P_ANSWERED].number = r->answered;
    row[P_NAME].text = n->name;
    row[P_SECRET].text = n->secret;
    row[P_ANSWER].text = answer.data;
    lh_figures_put(&row[P_FIGURES], &at->figures);
    LH_TRY_DONE(lh_table_add(&r->out->prompts, row));
done:
    lh_buf_clear(&answer);
    return st;
}

static lh_status answer_prompt(void *self, const lh_cache_at *at)
{
    lh_status st = LH_OK;
    run *r = self;
    const lh_tokens *question = &r->needle.prompt.question;
    lh_tokens ids = {0};
    lh_cache_at now = *at;
    if (r->scenario == LH_CONTEXT_ONLY) LH_TRY_DONE(lh_session_block(at->session, question->ids, question->n));
    const double start = lh_clock_s();
    LH_TRY_DONE(lh_eval_generate(at->session, &(lh_eval_answer){&r->ends, r->request->setup.max_new, &r->work}, &ids));
    now.figures.decode_s = lh_eval_seconds(&r->request->setup, start);
    if (is_root(r)) st = judge(r, &now, &ids);
    LH_TRY_DONE(lh_comm_agree(lh_engine_get(r->engine)->comm, st));
done:
    lh_tokens_clear(&ids);
    return st;
}

enum { NAME_BYTES = 128 };

/* What the prompt's keep sets are named after, which depends on nothing but the prompt: the depth as in the table of
 * answers, without its dot. */
static void name_prompt(char name[NAME_BYTES], const lh_needle_spec *spec, lh_scenario scenario)
{
    char depth[32];
    snprintf(depth, sizeof depth, "%.9g", spec->depth);
    for (char *c = depth; *c; c++)
        if (*c == '.') *c = '_';
    snprintf(name, NAME_BYTES, "%lld-%s-depth%s-seed%llu", (long long)spec->length, lh_scenario_names[scenario], depth,
             (unsigned long long)spec->seed);
}

/* Runs the prompt of r->spec in a scenario with every policy. */
static lh_status run_scenario(run *r, lh_scenario scenario)
{
    const lh_needle_request *q = r->request;
    const int64_t question = r->needle.prompt.question.n;
    const int aware = scenario == LH_QUESTION_AWARE;
    char name[NAME_BYTES];
    name_prompt(name, &r->spec, scenario);
    r->scenario = scenario;
    LH_TRY(lh_caches_each(r->engine,
                          &(lh_caches_request){.setup = &q->setup,
                                               .name = name,
                                               .prompt = lh_asked_prompt_of(&r->needle.prompt, scenario),
                                               .question = aware ? question : 0,
                                               .more = q->setup.max_new + (aware ? 0 : question),
                                               .block = aware ? 0 : question,
                                               .seed = r->spec.seed,
                                               .work = &r->work},
                          answer_prompt, r));
    lh_eval_finish_prompt(&q->setup, &r->work, r->tables);
    return LH_OK;
}

/* Runs the prompt of r->spec in every scenario that is not finished. */
static lh_status run_prompt(run *r)
{
    int made = 0;
    for (int s = 0; s < LH_SCENARIOS; s++) {
        if (!r->request->scenarios[s] || r->number++ < r->work.resumed) continue;
        if (!made++) LH_TRY(make_prompt(r));
        LH_TRY(run_scenario(r, (lh_scenario)s));
    }
    return LH_OK;
}

lh_status lh_needle_run(lh_needle_result *out, lh_engine *engine, const lh_needle_request *request)
{
    lh_status st = LH_OK;
    run r = {.engine = engine, .request = request, .out = out, .tables = {&out->prompts}};
    int64_t *tokens = NULL;
    *out = (lh_needle_result){.request = request};
    lh_table_init(&out->prompts, lh_needle_prompt_columns);
    st = lh_calloc(&tokens, request->length_count * LH_SCENARIOS, sizeof *tokens);
    LH_TRY_DONE(lh_comm_agree(lh_engine_get(engine)->comm, st));
    LH_TRY_DONE(open_run(&r, tokens));
    for (int64_t l = 0; l < request->length_count; l++)
        for (int64_t d = 0; d < request->depth_count; d++)
            for (int64_t i = 0; i < request->seeds; i++) {
                r.spec = (lh_needle_spec){request->lengths[l], request->depths[d], request->setup.seed + (uint64_t)i};
                LH_TRY_DONE(run_prompt(&r));
            }
done:
    lh_needle_clear(&r.needle);
    lh_tokens_clear(&r.ends);
    lh_free(tokens);
    return st;
}

void lh_needle_result_clear(lh_needle_result *result)
{
    lh_table_clear(&result->prompts);
    *result = (lh_needle_result){0};
}

/* ---- means ---- */

/* Sums over the prompts of one policy, budget, length and scenario. */
typedef struct sums {
    int64_t n, exact, answered, exact_answered;
    double words, words_answered;
    lh_figure_sums figures;
} sums;

static int is_of(const lh_cell *row, const lh_policy_choice *choice, int64_t length, int scenario)
{
    return row[P_LENGTH].number == length && strcmp(row[P_SCENARIO].text, lh_scenario_names[scenario]) == 0 &&
           strcmp(row[P_POLICY].text, choice->name) == 0 && strcmp(row[P_BUDGET].text, choice->budget) == 0;
}

static sums sum_up(const lh_needle_result *result, const lh_policy_choice *choice, int64_t length, int scenario)
{
    sums s = {0};
    for (int64_t i = 0; i < result->prompts.n; i++) {
        const lh_cell *row = lh_table_row(&result->prompts, i);
        if (!is_of(row, choice, length, scenario)) continue;
        s.n++;
        lh_figures_add(&s.figures, &row[P_FIGURES]);
        s.exact += row[P_EXACT].number;
        s.words += row[P_WORDS].value;
        if (!row[P_ANSWERED].number) continue;
        s.answered++;
        s.exact_answered += row[P_EXACT].number;
        s.words_answered += row[P_WORDS].value;
    }
    return s;
}

static double mean(double sum, int64_t n)
{
    return n ? sum / (double)n : (double)NAN;
}

lh_status lh_needle_means(const lh_needle_result *result, lh_table *means)
{
    const lh_needle_request *q = result->request;
    lh_table_init(means, lh_needle_mean_columns);
    for (int64_t l = 0; l < q->length_count; l++)
        for (int c = 0; c < LH_SCENARIOS; c++)
            for (int64_t p = 0; p < q->setup.policies->n; p++) {
                const lh_policy_choice *choice = &q->setup.policies->at[p];
                const sums s = sum_up(result, choice, q->lengths[l], c);
                if (s.n == 0) continue;
                lh_cell row[M_COLUMNS] = {[M_POLICY] = {.text = choice->name},
                                          [M_BUDGET] = {.text = choice->budget},
                                          [M_LENGTH] = {.number = q->lengths[l]},
                                          [M_SCENARIO] = {.text = lh_scenario_names[c]},
                                          [M_PROMPTS] = {.number = s.n},
                                          [M_EXACT] = {.value = mean((double)s.exact, s.n)},
                                          [M_WORDS] = {.value = mean(s.words, s.n)},
                                          [M_ANSWERED] = {.number = s.answered},
                                          [M_EXACT_ANSWERED] = {.value = mean((double)s.exact_answered, s.answered)},
                                          [M_WORDS_ANSWERED] = {.value = mean(s.words_answered, s.answered)}};
                lh_mean_figures_put(&row[M_FIGURES],
                                    &(lh_mean_figures){row[M_EXACT].value, &s.figures, q->setup.model});
                LH_TRY(lh_table_add(means, row));
            }
    return LH_OK;
}

/* ---- text ---- */

/* The cells of one table of the grid. */
typedef struct cells {
    const lh_needle_result *result;
    int64_t length;
    int scenario;
    int answered; /* 1: only prompts that the full cache answers */
} cells;

static lh_status write_cell(const void *self, const lh_policy_choice *choice, lh_buf *out)
{
    const cells *c = self;
    const sums s = sum_up(c->result, choice, c->length, c->scenario);
    const int64_t n = c->answered ? s.answered : s.n;
    if (n == 0) return lh_buf_puts(out, "–");
    return lh_buf_printf(out, "%lld/%lld %.2f", (long long)(c->answered ? s.exact_answered : s.exact), (long long)n,
                         mean(c->answered ? s.words_answered : s.words, n));
}

lh_status lh_needle_print(const lh_needle_result *result, lh_buf *out)
{
    const lh_needle_request *q = result->request;
    for (int64_t l = 0; l < q->length_count; l++)
        for (int s = 0; s < LH_SCENARIOS; s++) {
            cells c = {result, q->lengths[l], s, 0};
            const sums full = sum_up(result, &q->setup.policies->at[0], q->lengths[l], s);
            if (full.n == 0) continue;
            LH_TRY(lh_buf_printf(out, "%s%lld tokens, %s: exact answers of %lld, mean share of the secret's words\n\n",
                                 out->bytes ? "\n" : "", (long long)q->lengths[l], lh_scenario_names[s],
                                 (long long)full.n));
            LH_TRY(lh_grid_print(q->setup.policies, &(lh_grid){&c, write_cell}, out));
            if (full.answered == full.n || full.answered == 0) continue;
            c.answered = 1;
            LH_TRY(lh_buf_printf(out, "\nOnly the %lld prompt%s that the full cache answers:\n\n",
                                 (long long)full.answered, full.answered == 1 ? "" : "s"));
            LH_TRY(lh_grid_print(q->setup.policies, &(lh_grid){&c, write_cell}, out));
        }
    return LH_OK;
}
