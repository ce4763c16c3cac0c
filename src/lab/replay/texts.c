/* texts.c - results of each single trace: the values that compare policies, as means over layers and heads, and
 * budgets that are filled by protected entries. The figures are means over all traces; an interval of a difference
 * between policies needs the values of each. */
#include <math.h>

#include "base/table.h"
#include "lab/replay/replay_impl.h"

/* Columns before the columns of figures. */
enum { T_POLICY, T_BUDGET, T_TEXT, T_TOKENS, T_FILLED, T_FIGURES };

/* True for a figure of policies and budgets in which one direction is better. Other axes come after these two. */
static int is_compared(const lh_analysis_figure *f)
{
    return f->better && f->axes[0] == LH_AXIS_POLICY && f->axes[1] == LH_AXIS_BUDGET;
}

static int64_t cells_of(const lh_replay *r)
{
    return r->study.policy_count * r->study.budget_count;
}

/* Number of layers of a figure's layer axis; 1 if it has no such axis. */
static int64_t layers_of(const lh_replay *r, const lh_analysis_figure *f)
{
    return f->axes[2] == LH_AXIS_LAYER ? r->study.layers : 1;
}

lh_status lh_replay_open_texts(lh_replay *r)
{
    lh_figure_walk w = {.replay = r};
    lh_replay_texts *t = &r->texts;
    const int64_t cells = cells_of(r), traces = r->request.trace_count;
    for (const lh_analysis_figure *f; (f = lh_replay_next_figure(&w));) t->figures += is_compared(f);
    LH_TRY(lh_calloc(&t->before, t->figures * cells * r->study.layers + 1, sizeof *t->before));
    LH_TRY(lh_calloc(&t->values, traces * t->figures * cells + 1, sizeof *t->values));
    LH_TRY(lh_calloc(&t->tokens, traces, sizeof *t->tokens));
    return lh_calloc(&t->filled, traces * cells, sizeof *t->filled);
}

void lh_replay_close_texts(lh_replay *r)
{
    lh_free(r->texts.before);
    lh_free(r->texts.values);
    lh_free(r->texts.tokens);
    lh_free(r->texts.filled);
}

/* Values that the current trace added to a figure on this rank, as means of every layer: [cells, layers]. `before`
 * holds the sums of the traces until now. */
static void add_figure(const lh_replay *r, const lh_analysis_figure *f, const double *values, double *before,
                       float *out)
{
    const int64_t cells = cells_of(r), layers = layers_of(r, f);
    const int64_t n = lh_figure_values(&r->study, f) / cells / layers;
    for (int64_t i = 0; i < cells * layers; i++) {
        double sum = 0;
        for (int64_t k = 0; k < n; k++) sum += values[i * n + k];
        out[i] = (float)((sum - before[i]) / (double)n);
        before[i] = sum;
    }
}

/* The mean over the layers that the trace has; NAN if it has none. */
static double mean_of_layers(const lh_replay *r, const float *layers, int64_t count)
{
    double sum = 0, n = 0;
    if (count == 1) return (double)layers[0];
    for (int64_t l = 0; l < count; l++) {
        if (!r->trace.recorded[l]) continue;
        sum += (double)layers[l];
        n++;
    }
    return n > 0 ? sum / n : (double)NAN;
}

static void mark_filled(lh_replay *r, int64_t trace)
{
    const int64_t cells = cells_of(r);
    r->texts.tokens[trace] = r->trace.prompt;
    for (int64_t c = 0; c < cells; c++) {
        const lh_policy *policy = r->cells[c].policy;
        r->texts.filled[trace * cells + c] = policy && lh_policy_is_filled(policy, r->trace.prompt);
    }
}

lh_status lh_replay_add_text(lh_replay *r, int64_t trace)
{
    lh_status st = LH_OK;
    lh_replay_texts *t = &r->texts;
    lh_figure_walk w = {.replay = r};
    const int64_t cells = cells_of(r), layers = r->study.layers;
    float *means = NULL;
    int64_t at = 0;
    mark_filled(r, trace);
    LH_TRY_DONE(lh_comm_agree(r->request.comm, lh_calloc(&means, cells * layers, sizeof *means)));
    for (const lh_analysis_figure *f; (f = lh_replay_next_figure(&w));) {
        if (!is_compared(f)) continue;
        const int64_t own = layers_of(r, f);
        add_figure(r, f, r->values[w.index - 1], t->before + at * cells * layers, means);
        /* a layer was analysed by one rank, and next tokens by rank 0: every other rank adds 0 */
        LH_TRY_DONE(lh_comm_allreduce(r->request.comm, means, cells * own, LH_F32, LH_SUM));
        for (int64_t c = 0; c < cells; c++)
            t->values[(trace * t->figures + at) * cells + c] = mean_of_layers(r, means + c * own, own);
        at++;
    }
done:
    lh_free(means);
    return st;
}

/* A row for every text, policy and budget. */
static lh_status add_rows(const lh_replay *r, lh_table *table, lh_cell *row)
{
    const lh_study *s = &r->study;
    const lh_replay_texts *t = &r->texts;
    const int64_t cells = cells_of(r);
    for (int64_t i = 0; i < r->request.trace_count * cells; i++) {
        const int64_t trace = i / cells, c = i % cells;
        if (!r->cells[c].policy) continue;
        row[T_POLICY].text = s->policies[c / s->budget_count];
        row[T_BUDGET].text = s->budgets[c % s->budget_count];
        row[T_TEXT].number = trace;
        row[T_TOKENS].number = t->tokens[trace];
        row[T_FILLED].number = t->filled[i];
        for (int64_t f = 0; f < t->figures; f++)
            row[T_FIGURES + f].value = t->values[(trace * t->figures + f) * cells + c];
        LH_TRY(lh_table_add(table, row));
    }
    return LH_OK;
}

lh_status lh_replay_write_texts(const lh_replay *r, lh_h5 *h5)
{
    lh_status st = LH_OK;
    static const lh_column named[] = {
        [T_POLICY] = {"policy", "", LH_COLUMN_LABEL},
        [T_BUDGET] = {"budget", "entries per KV head, or % of the prompt", LH_COLUMN_LABEL},
        [T_TEXT] = {"text", "index of the trace", LH_COLUMN_I64},
        [T_TOKENS] = {"prompt_tokens", "tokens", LH_COLUMN_I64},
        [T_FILLED] = {"filled", "1: protected entries fill the budget", LH_COLUMN_I64}};
    lh_figure_walk w = {.replay = r};
    lh_table table = {0};
    lh_column *columns = NULL;
    lh_cell *row = NULL;
    int64_t n = 0;
    LH_TRY_DONE(lh_calloc(&columns, T_FIGURES + r->texts.figures + 1, sizeof *columns));
    LH_TRY_DONE(lh_calloc(&row, T_FIGURES + r->texts.figures, sizeof *row));
    for (; n < T_FIGURES; n++) columns[n] = named[n];
    for (const lh_analysis_figure *f; (f = lh_replay_next_figure(&w));)
        if (is_compared(f)) columns[n++] = (lh_column){f->name, f->unit, LH_COLUMN_F64};
    lh_table_init(&table, columns);
    LH_TRY_DONE(add_rows(r, &table, row));
    LH_TRY_DONE(lh_table_h5(&table, h5, "/replay/texts"));
done:
    lh_table_clear(&table);
    lh_free(columns);
    lh_free(row);
    return st;
}

const lh_analysis_figure *lh_replay_next_figure(lh_figure_walk *w)
{
    for (; w->replay->request.analyses[w->analysis]; w->analysis++, w->figure = 0) {
        const lh_analysis_figure *f = &w->replay->request.analyses[w->analysis]->figures[w->figure];
        if (!f->name) continue;
        w->figure++;
        w->index++;
        return f;
    }
    return NULL;
}
