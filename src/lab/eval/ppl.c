/* ppl.c - runs the task `ppl`: finds the windows of the texts, prefills the context of each, and scores the tokens
 * after it with the cache of every policy. */
#include "lab/eval/ppl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/markdown.h"
#include "base/minmax.h"
#include "engine/prompt.h"
#include "lab/eval/measures.h"
#include "lab/eval/run_policies.h"

/* Columns of the tables. */
enum {
    W_POLICY,
    W_BUDGET,
    W_CONTEXT,
    W_WINDOW,
    W_TEXT,
    W_AT,
    W_TOKENS,
    W_NLL,
    W_FIGURES,
    W_COLUMNS = W_FIGURES + LH_FIGURES
};

enum { P_POLICY, P_BUDGET, P_CONTEXT, P_WINDOW, P_FROM, P_TOKENS, P_NLL, P_COLUMNS };

/* The tokens of a window that are scored. */
typedef struct window {
    int64_t start; /* of the first one, in the ids of all texts */
    int64_t text;  /* index */
    int64_t at;    /* of the first one, in this text */
} window;

typedef struct run {
    lh_engine *engine;
    const lh_ppl_request *request;
    lh_ppl_result *out;
    lh_table *tables[3]; /* of the result, ends with NULL */
    lh_tokens ids;       /* of all texts */
    window *windows;     /* [n] */
    int64_t n;
    int first;   /* 1: a beginning-of-sequence token stands before the context */
    double *nll; /* [score] of the current window */
    lh_eval_work work;
    const window *now;
    int64_t context; /* tokens before it */
    lh_tokens prompt, scored;
} run;

static lh_comm *comm_of(const run *r)
{
    return lh_engine_get(r->engine)->comm;
}

static int is_root(const run *r)
{
    return lh_comm_rank(comm_of(r)) == 0;
}

/* ---- windows ---- */

/* Tokens of text in the longest context. */
static int64_t longest_context(const run *r)
{
    int64_t longest = 0;
    for (int64_t c = 0; c < r->request->context_count; c++) longest = lh_max_i64(longest, r->request->contexts[c]);
    return longest - r->first;
}

static int64_t stride_of(const run *r)
{
    return r->request->stride ? r->request->stride : longest_context(r) + r->request->score;
}

/* Windows in a text of `tokens` tokens. */
static int64_t windows_in(const run *r, int64_t tokens)
{
    const int64_t rest = tokens - longest_context(r) - r->request->score;
    return rest < 0 ? 0 : rest / stride_of(r) + 1;
}

/* Windows `i` of all that the texts have. starts: of their ids. */
static window find_window(const run *r, const int64_t *starts, int64_t i)
{
    int64_t t = 0;
    for (int64_t has; i >= (has = windows_in(r, starts[t + 1] - starts[t])); t++) i -= has;
    const int64_t at = longest_context(r) + i * stride_of(r);
    return (window){starts[t] + at, t, at};
}

/* On rank 0. */
static lh_status find_windows(run *r)
{
    lh_status st = LH_OK;
    const lh_ppl_request *q = r->request;
    int64_t *starts = NULL, all = 0;
    LH_TRY_DONE(lh_calloc(&starts, q->texts->n + 1, sizeof *starts));
    LH_TRY_DONE(lh_texts_encode(q->texts, lh_engine_tokenizer(r->engine), &r->ids, starts));
    for (int64_t t = 0; t < q->texts->n; t++) all += windows_in(r, starts[t + 1] - starts[t]);
    if (all == 0)
        LH_FAIL_DONE(LH_EINPUT,
                     "no text has %lld tokens, '--context' and '--score' together: give a longer one with '--text', or "
                     "reduce them",
                     (long long)(longest_context(r) + q->score));
    r->n = q->count ? lh_min_i64(q->count, all) : all;
    LH_TRY_DONE(lh_calloc(&r->windows, r->n, sizeof *r->windows));
    for (int64_t i = 0; i < r->n; i++) r->windows[i] = find_window(r, starts, i * all / r->n);
done:
    lh_free(starts);
    return st;
}

static lh_status take_ids(lh_tokens *out, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++) LH_TRY(lh_tokens_push(out, ids[i]));
    return LH_OK;
}

/* The current window with a context of `tokens` tokens. */
static lh_status cut_window(run *r, int64_t tokens)
{
    const int64_t of_text = tokens - r->first;
    r->context = tokens;
    r->prompt.n = r->scored.n = 0;
    if (r->first) LH_TRY(lh_tokens_push(&r->prompt, lh_tokenizer_bos(lh_engine_tokenizer(r->engine))));
    LH_TRY(take_ids(&r->prompt, r->ids.ids + r->now->start - of_text, of_text));
    LH_TRY(take_ids(&r->scored, r->ids.ids + r->now->start, r->request->score));
    return LH_OK;
}

/* ---- before the first prefill ---- */

/* The same on all ranks. */
static lh_status check_request(const run *r)
{
    const lh_ppl_request *q = r->request;
    const int64_t positions = lh_engine_get(r->engine)->config->max_positions;
    if (q->stride && q->stride < q->score)
        LH_FAIL(LH_EUSAGE, "'--stride %lld' must be at least '--score', %lld: tokens would be scored twice",
                (long long)q->stride, (long long)q->score);
    if (q->bins > q->score)
        LH_FAIL(LH_EUSAGE, "'--bins %lld' must be at most '--score', %lld", (long long)q->bins, (long long)q->score);
    for (int64_t p = 0; p < q->setup.policies->n; p++)
        LH_TRY(lh_policy_check_question(&q->setup.policies->at[p].policy));
    for (int64_t c = 0; c < q->context_count; c++) {
        if (q->contexts[c] + q->score > positions)
            LH_FAIL(LH_EUSAGE,
                    "%lld tokens of context and %lld that are scored are longer than the %lld positions of the model: "
                    "reduce '--context' or '--score'",
                    (long long)q->contexts[c], (long long)q->score, (long long)positions);
        for (int64_t p = 0; p < q->setup.policies->n; p++)
            LH_TRY(lh_policy_check(&q->setup.policies->at[p].policy, q->contexts[c]));
    }
    return LH_OK;
}

/* Of the windows that are not finished. */
static void plan_work(run *r)
{
    const lh_ppl_request *q = r->request;
    r->work.progress = q->setup.progress;
    r->work.prompt_total = r->n * q->context_count;
    r->work.prompts = r->work.resumed;
    for (int64_t i = r->work.resumed; i < r->work.prompt_total; i++)
        lh_policies_expect(&r->work, &q->setup, lh_engine_get(r->engine)->config,
                           &(lh_policies_plan){q->contexts[i / r->n], q->score});
    lh_work_begin(&r->work);
}

/* Collective. The ids and the windows of rank 0 go to all. */
static lh_status share_windows(run *r)
{
    lh_status st = LH_OK;
    LH_TRY(lh_prompt_share(comm_of(r), &r->ids));
    LH_TRY(lh_comm_bcast(comm_of(r), 0, &r->n, sizeof r->n));
    if (!is_root(r)) st = lh_calloc(&r->windows, r->n, sizeof *r->windows);
    if (st == LH_OK) st = lh_calloc(&r->nll, r->request->score, sizeof *r->nll);
    LH_TRY(lh_comm_agree(comm_of(r), st));
    return lh_comm_bcast(comm_of(r), 0, r->windows, r->n * (int64_t)sizeof *r->windows);
}

static lh_status open_run(run *r)
{
    lh_status st = lh_eval_check_tokenizer(r->engine);
    const lh_tokenizer *tok = lh_engine_tokenizer(r->engine);
    if (st == LH_OK) st = check_request(r);
    LH_TRY(lh_comm_agree(comm_of(r), st));
    r->first = lh_tokenizer_adds_bos(tok) && lh_tokenizer_bos(tok) >= 0;
    if (is_root(r)) st = find_windows(r);
    LH_TRY(lh_comm_agree_untimed(comm_of(r), st));
    LH_TRY(share_windows(r));
    LH_TRY(lh_resume_begin(r->request->setup.resume, comm_of(r), r->tables, &r->work.resumed));
    plan_work(r);
    return LH_OK;
}

/* ---- one window ---- */

/* The positions after the context from which bin `b` counts. */
static int64_t bin_start(const lh_ppl_request *q, int64_t b)
{
    return q->score * b / q->bins;
}

static lh_status add_rows(const run *r, const lh_cache_at *at)
{
    const lh_ppl_request *q = r->request;
    const lh_policy_choice *choice = &q->setup.policies->at[at->policy];
    lh_cell row[W_COLUMNS] = {[W_POLICY] = {.text = choice->name},  [W_BUDGET] = {.text = choice->budget},
                              [W_CONTEXT] = {.number = r->context}, [W_WINDOW] = {.number = r->now - r->windows},
                              [W_TEXT] = {.number = r->now->text},  [W_AT] = {.number = r->now->at},
                              [W_TOKENS] = {.number = q->score},    [W_NLL] = {.value = lh_nll_mean(r->nll, q->score)}};
    lh_figures_put(&row[W_FIGURES], &at->figures);
    LH_TRY(lh_table_add(&r->out->windows, row));
    for (int64_t b = 0; b < q->bins; b++) {
        const int64_t from = bin_start(q, b), n = bin_start(q, b + 1) - from;
        LH_TRY(
            lh_table_add(&r->out->positions, (lh_cell[P_COLUMNS]){[P_POLICY] = {.text = choice->name},
                                                                  [P_BUDGET] = {.text = choice->budget},
                                                                  [P_CONTEXT] = {.number = r->context},
                                                                  [P_WINDOW] = {.number = r->now - r->windows},
                                                                  [P_FROM] = {.number = from},
                                                                  [P_TOKENS] = {.number = n},
                                                                  [P_NLL] = {.value = lh_nll_mean(r->nll + from, n)}}));
    }
    return LH_OK;
}

static lh_status score_cache(void *self, const lh_cache_at *at)
{
    lh_status st = LH_OK;
    run *r = self;
    lh_cache_at now = *at;
    const lh_eval_setup *setup = &r->request->setup;
    const double start = lh_clock_s();
    LH_TRY(lh_likelihood_of(
        at->session,
        &(lh_likelihood){.ids = &r->scored, .policy = &setup->policies->at[at->policy].policy, .work = &r->work},
        r->nll, NULL));
    now.figures.decode_s = lh_eval_seconds(setup, start);
    lh_work_advance(&r->work, LH_WORK_ANSWER, (double)r->scored.n);
    if (is_root(r)) st = add_rows(r, &now);
    return lh_comm_agree(comm_of(r), st);
}

static lh_status score_window(run *r, int64_t context)
{
    const lh_ppl_request *q = r->request;
    const int64_t number = r->now - r->windows, rows = lh_likelihood_rows(q->score);
    char name[64];
    LH_TRY(lh_comm_agree(comm_of(r), cut_window(r, context)));
    snprintf(name, sizeof name, "%04lld-%lld", (long long)number, (long long)context);
    LH_TRY(lh_run_policies(r->engine,
                           &(lh_policies_request){.setup = &q->setup,
                                                  .name = name,
                                                  .prompt = &r->prompt,
                                                  .more = q->score,
                                                  .block = rows,
                                                  .rows = rows,
                                                  .seed = q->setup.seed + (uint64_t)number,
                                                  .work = &r->work},
                           score_cache, r));
    lh_eval_finish_prompt(&q->setup, &r->work, r->tables);
    return LH_OK;
}

lh_status lh_ppl_run(lh_ppl_result *out, lh_engine *engine, const lh_ppl_request *request)
{
    lh_status st = LH_OK;
    run r = {.engine = engine, .request = request, .out = out, .tables = {&out->windows, &out->positions}};
    *out = (lh_ppl_result){.request = request};
    lh_table_init(&out->windows, lh_ppl_columns);
    lh_table_init(&out->positions, lh_ppl_position_columns);
    LH_TRY_DONE(open_run(&r));
    for (int64_t i = r.work.resumed; i < r.work.prompt_total; i++) {
        r.now = &r.windows[i % r.n];
        LH_TRY_DONE(score_window(&r, request->contexts[i / r.n]));
    }
done:
    lh_tokens_clear(&r.ids);
    lh_tokens_clear(&r.prompt);
    lh_tokens_clear(&r.scored);
    lh_free(r.windows);
    lh_free(r.nll);
    return st;
}

void lh_ppl_result_clear(lh_ppl_result *result)
{
    lh_table_clear(&result->windows);
    lh_table_clear(&result->positions);
    *result = (lh_ppl_result){0};
}

/* ---- tables ---- */

#define BUDGET "entries per KV head, or % of the prompt"
#define NLL "nats per token"

const lh_column lh_ppl_columns[] = {[W_POLICY] = {"policy", "", LH_COLUMN_LABEL},
                                    [W_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
                                    [W_CONTEXT] = {"context", "tokens", LH_COLUMN_I64},
                                    [W_WINDOW] = {"window", "", LH_COLUMN_I64},
                                    [W_TEXT] = {"text", "", LH_COLUMN_I64},
                                    [W_AT] = {"at", "tokens", LH_COLUMN_I64},
                                    [W_TOKENS] = {"tokens", "tokens", LH_COLUMN_I64},
                                    [W_NLL] = {"nll", NLL, LH_COLUMN_F64},
                                    LH_FIGURE_COLUMNS(W_FIGURES),
                                    [W_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};
const lh_column lh_ppl_position_columns[] = {[P_POLICY] = {"policy", "", LH_COLUMN_LABEL},
                                             [P_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
                                             [P_CONTEXT] = {"context", "tokens", LH_COLUMN_I64},
                                             [P_WINDOW] = {"window", "", LH_COLUMN_I64},
                                             [P_FROM] = {"from", "tokens after the context", LH_COLUMN_I64},
                                             [P_TOKENS] = {"tokens", "tokens", LH_COLUMN_I64},
                                             [P_NLL] = {"nll", NLL, LH_COLUMN_F64},
                                             [P_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};

/* The first columns are the same in both tables: policy, budget, context, window. */
_Static_assert((int)W_WINDOW == (int)P_WINDOW && (int)W_CONTEXT == (int)P_CONTEXT, "columns that name a row");

enum {
    M_POLICY,
    M_BUDGET,
    M_CONTEXT,
    M_WINDOWS,
    M_TOKENS,
    M_PPL,
    M_NLL,
    M_OVER,
    M_OVER_LOW,
    M_OVER_HIGH,
    M_FIGURES,
    M_COLUMNS = M_FIGURES + LH_MEAN_FIGURES
};
const lh_column lh_ppl_mean_columns[] = {
    [M_POLICY] = {"policy", "", LH_COLUMN_LABEL},
    [M_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
    [M_CONTEXT] = {"context", "tokens", LH_COLUMN_I64},
    [M_WINDOWS] = {"windows", "windows", LH_COLUMN_I64},
    [M_TOKENS] = {"tokens", "tokens", LH_COLUMN_I64},
    [M_PPL] = {"ppl", "perplexity", LH_COLUMN_F64},
    [M_NLL] = {"nll", NLL, LH_COLUMN_F64},
    [M_OVER] = {"over_full", NLL " more than the full cache", LH_COLUMN_F64},
    [M_OVER_LOW] = {"over_full_low", "95% confidence interval of over_full", LH_COLUMN_F64},
    [M_OVER_HIGH] = {"over_full_high", "95% confidence interval of over_full", LH_COLUMN_F64},
    LH_MEAN_FIGURE_COLUMNS(M_FIGURES, "ppl"),
    [M_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};

enum { C_POLICY, C_BUDGET, C_CONTEXT, C_FROM, C_TOKENS, C_NLL, C_COLUMNS };
const lh_column lh_ppl_curve_columns[] = {
    [C_POLICY] = {"policy", "", LH_COLUMN_LABEL},       [C_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
    [C_CONTEXT] = {"context", "tokens", LH_COLUMN_I64}, [C_FROM] = {"from", "tokens after the context", LH_COLUMN_I64},
    [C_TOKENS] = {"tokens", "tokens", LH_COLUMN_I64},   [C_NLL] = {"nll", NLL, LH_COLUMN_F64},
    [C_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};

/* ---- means ---- */

static int is_of(const lh_cell *row, const lh_policy_choice *choice, int64_t context)
{
    return row[W_CONTEXT].number == context && strcmp(row[W_POLICY].text, choice->name) == 0 &&
           strcmp(row[W_BUDGET].text, choice->budget) == 0;
}

/* Mean of a value over windows, and the half width of its 95% confidence interval. All zero is empty. */
typedef struct spread {
    int64_t n;
    double mean, squares; /* Welford's recurrence */
} spread;

static void add_value(spread *s, double value)
{
    const double before = value - s->mean;
    s->n++;
    s->mean += before / (double)s->n;
    s->squares += before * (value - s->mean);
}

static double half_width(const spread *s)
{
    if (s->n < 2) return (double)NAN;
    return 1.959963984540054 * sqrt(s->squares / (double)(s->n - 1) / (double)s->n);
}

typedef struct sums {
    spread nll, over;
    lh_figure_sums figures;
} sums;

/* The row of the full cache for the window of row `i`: the first of the window's rows. */
static const lh_cell *full_of(const lh_ppl_result *result, int64_t i)
{
    const lh_policy_choice *full = &result->request->setup.policies->at[0];
    const int64_t context = lh_table_row(&result->windows, i)[W_CONTEXT].number;
    while (i > 0 && !is_of(lh_table_row(&result->windows, i), full, context)) i--;
    return lh_table_row(&result->windows, i);
}

static sums sum_up(const lh_ppl_result *result, const lh_policy_choice *choice, int64_t context)
{
    sums s = {0};
    for (int64_t i = 0; i < result->windows.n; i++) {
        const lh_cell *row = lh_table_row(&result->windows, i);
        if (!is_of(row, choice, context)) continue;
        add_value(&s.nll, row[W_NLL].value);
        add_value(&s.over, row[W_NLL].value - full_of(result, i)[W_NLL].value);
        lh_figures_add(&s.figures, &row[W_FIGURES]);
    }
    return s;
}

static lh_status add_mean(const lh_ppl_result *result, const lh_policy_choice *choice, int64_t context, lh_table *means)
{
    const lh_ppl_request *q = result->request;
    const sums s = sum_up(result, choice, context);
    const double half = half_width(&s.nll), over = half_width(&s.over);
    if (s.nll.n == 0) return LH_OK;
    lh_cell row[M_COLUMNS] = {[M_POLICY] = {.text = choice->name},
                              [M_BUDGET] = {.text = choice->budget},
                              [M_CONTEXT] = {.number = context},
                              [M_WINDOWS] = {.number = s.nll.n},
                              [M_TOKENS] = {.number = s.nll.n * q->score},
                              [M_PPL] = {.value = exp(s.nll.mean)},
                              [M_NLL] = {.value = s.nll.mean},
                              [M_OVER] = {.value = s.over.mean},
                              [M_OVER_LOW] = {.value = s.over.mean - over},
                              [M_OVER_HIGH] = {.value = s.over.mean + over}};
    lh_mean_figures_put(&row[M_FIGURES], &(lh_mean_figures){(double)NAN, &s.figures, q->setup.model});
    row[M_FIGURES].value = exp(s.nll.mean - half); /* no share: Wilson's interval does not hold */
    row[M_FIGURES + 1].value = exp(s.nll.mean + half);
    return lh_table_add(means, row);
}

lh_status lh_ppl_means(const lh_ppl_result *result, lh_table *means)
{
    const lh_ppl_request *q = result->request;
    lh_table_init(means, lh_ppl_mean_columns);
    for (int64_t c = 0; c < q->context_count; c++)
        for (int64_t p = 0; p < q->setup.policies->n; p++)
            LH_TRY(add_mean(result, &q->setup.policies->at[p], q->contexts[c], means));
    return LH_OK;
}

/* Adds the rows for a policy, a budget and a context. Every window has all bins, in their order. */
static lh_status add_curve(const lh_ppl_result *result, const lh_policy_choice *choice, int64_t context,
                           lh_table *curve)
{
    lh_status st = LH_OK;
    const int64_t bins = result->request->bins;
    lh_cell *rows = NULL;
    int64_t seen = 0;
    LH_TRY_DONE(lh_calloc(&rows, bins * C_COLUMNS, sizeof *rows));
    for (int64_t i = 0; i < result->positions.n; i++) {
        const lh_cell *row = lh_table_row(&result->positions, i);
        if (!is_of(row, choice, context)) continue;
        lh_cell *out = rows + seen++ % bins * C_COLUMNS;
        out[C_FROM].number = row[P_FROM].number;
        out[C_TOKENS].number += row[P_TOKENS].number;
        out[C_NLL].value += row[P_NLL].value * (double)row[P_TOKENS].number;
    }
    for (int64_t b = 0; seen && b < bins; b++) {
        lh_cell *out = rows + b * C_COLUMNS;
        out[C_POLICY].text = choice->name;
        out[C_BUDGET].text = choice->budget;
        out[C_CONTEXT].number = context;
        out[C_NLL].value /= (double)out[C_TOKENS].number;
        LH_TRY_DONE(lh_table_add(curve, out));
    }
done:
    lh_free(rows);
    return st;
}

lh_status lh_ppl_curve(const lh_ppl_result *result, lh_table *curve)
{
    const lh_ppl_request *q = result->request;
    lh_table_init(curve, lh_ppl_curve_columns);
    for (int64_t c = 0; c < q->context_count; c++)
        for (int64_t p = 0; p < q->setup.policies->n; p++)
            LH_TRY(add_curve(result, &q->setup.policies->at[p], q->contexts[c], curve));
    return LH_OK;
}

/* ---- text ---- */

typedef struct cells {
    const lh_ppl_result *result;
    int64_t context;
} cells;

static lh_status write_cell(const void *self, const lh_policy_choice *choice, lh_buf *out)
{
    const cells *c = self;
    const sums s = sum_up(c->result, choice, c->context);
    if (s.nll.n == 0) return lh_buf_puts(out, "–");
    return lh_buf_printf(out, "%.3f %+.4f", exp(s.nll.mean), s.over.mean);
}

static lh_status fill_curve(const lh_markdown *table, const lh_table *curve, int64_t first, int64_t bins)
{
    LH_TRY(lh_buf_puts(lh_markdown_cell(table, 0, 0), "policy"));
    LH_TRY(lh_buf_puts(lh_markdown_cell(table, 0, 1), "budget"));
    for (int64_t r = 0; r + 1 < table->rows; r++)
        for (int64_t b = 0; b < bins; b++) {
            const lh_cell *row = lh_table_row(curve, first + r * bins + b);
            const char *budget = *row[C_BUDGET].text ? row[C_BUDGET].text : "all";
            if (r == 0) LH_TRY(lh_buf_printf(lh_markdown_cell(table, 0, 2 + b), "%lld", (long long)row[C_FROM].number));
            if (b == 0) LH_TRY(lh_buf_puts(lh_markdown_cell(table, r + 1, 0), row[C_POLICY].text));
            if (b == 0) LH_TRY(lh_buf_puts(lh_markdown_cell(table, r + 1, 1), budget));
            LH_TRY(lh_buf_printf(lh_markdown_cell(table, r + 1, 2 + b), "%.3f", row[C_NLL].value));
        }
    return LH_OK;
}

/* Prints the curves of a context. */
static lh_status print_curve(const lh_ppl_result *result, const lh_table *curve, int64_t context, lh_buf *out)
{
    lh_status st = LH_OK;
    const int64_t bins = result->request->bins;
    int64_t first = -1, rows = 0;
    lh_markdown table = {0};
    for (int64_t i = 0; i < curve->n; i++) {
        if (lh_table_row(curve, i)[C_CONTEXT].number != context) continue;
        if (first < 0) first = i;
        rows++;
    }
    LH_TRY_DONE(lh_markdown_init(&table, rows / bins + 1, 2 + bins));
    LH_TRY_DONE(fill_curve(&table, curve, first, bins));
    LH_TRY_DONE(lh_buf_puts(out, "\nNats per token from each token after the context on\n\n"));
    LH_TRY_DONE(lh_markdown_print(&table, 3, out));
done:
    lh_markdown_clear(&table);
    return st;
}

lh_status lh_ppl_print(const lh_ppl_result *result, lh_buf *out)
{
    lh_status st = LH_OK;
    const lh_ppl_request *q = result->request;
    lh_table curve = {0};
    LH_TRY_DONE(lh_ppl_curve(result, &curve));
    for (int64_t c = 0; c < q->context_count; c++) {
        const cells of = {result, q->contexts[c]};
        const sums full = sum_up(result, &q->setup.policies->at[0], q->contexts[c]);
        if (full.nll.n == 0) continue;
        LH_TRY_DONE(lh_buf_printf(out,
                                  "%sContext of %lld tokens: perplexity of the %lld after it, and nats per token more "
                                  "than with the full cache, over %lld window%s\n\n",
                                  out->bytes ? "\n" : "", (long long)q->contexts[c], (long long)q->score,
                                  (long long)full.nll.n, full.nll.n == 1 ? "" : "s"));
        LH_TRY_DONE(lh_grid_print(q->setup.policies, &(lh_grid){&of, write_cell}, out));
        if (q->bins > 1) LH_TRY_DONE(print_curve(result, &curve, q->contexts[c], out));
    }
done:
    lh_table_clear(&curve);
    return st;
}
