#include "report/sample.h"

#include <jansson.h>
#include <math.h>

#include "base/table.h"
#include "lab/analysis/figures.h"
#include "lab/analysis/summary.h"

enum { POLICIES = 8, BUDGETS = 7, LAYERS = 6, HEADS = 4, POSITIONS = 300 };

static const char *const policies[POLICIES] = {"ada-snapkv", "snapkv", "h2o",    "tova",
                                               "streaming",  "nacl",   "oracle", "random"};
static const double quality[POLICIES] = {0.8, 0.7, 0.55, 0.5, 0.3, 0.6, 1, 0.02};
static const double budgets[BUDGETS] = {0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5};

const char *const sample_hostile_text =
    "</script></style></title>--><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
    "'\"`&amp;\xE2\x80\xA8\xE2\x80\xAE\x01\x7F{{}}${document.title='taken'}\\";

static const lh_figure_dim policy_dim = {.name = "policy", .count = POLICIES, .labels = policies};
static const lh_figure_dim budget_dim = {
    .name = "budget", .unit = "share of the prompt", .count = BUDGETS, .values = budgets};
static const lh_figure_dim layer_dim = {.name = "layer", .count = LAYERS};
static const lh_figure_dim head_dim = {.name = "head", .count = HEADS};

/* A number in [0, 1) that looks random. */
static double noise(int64_t i)
{
    const double v = sin((double)i * 12.9898) * 43758.5453;
    return v - floor(v);
}

static float kept(const int64_t at[LH_FIGURE_DIMS], int64_t i)
{
    const double b = budgets[at[1]], easy = 0.4 + 0.1 * (double)at[2] + 0.03 * noise(i);
    return (float)(b + (1 - b) * quality[at[0]] * (1 - exp(-b * 40 * easy)));
}

static float lost(const int64_t at[LH_FIGURE_DIMS], int64_t i)
{
    return 3 * (float)pow(1 - (double)kept(at, i), 2.5) + 1e-4f;
}

static float shared(const int64_t at[LH_FIGURE_DIMS], int64_t i)
{
    return at[0] == at[1] ? 1 : (float)(0.2 + 0.6 * (1 - fabs(quality[at[0]] - quality[at[1]])) * noise(i / BUDGETS));
}

static float head_budget(const int64_t at[LH_FIGURE_DIMS], int64_t i)
{
    return at[0] == 0 ? (float)floor(800 * noise(i) * (1 + (double)at[1])) : 409;
}

static float position_kept(const int64_t at[LH_FIGURE_DIMS], int64_t i)
{
    return at[3] < 4 || at[3] > POSITIONS - 16 || noise(i) < quality[at[0]] * 0.2;
}

static float entropy(const int64_t at[LH_FIGURE_DIMS], int64_t i)
{
    return (float)(2 + (double)at[0] * 0.5 + noise(i));
}

typedef float (*formula)(const int64_t at[LH_FIGURE_DIMS], int64_t i);

static lh_status write_figure(lh_figure figure, formula f, lh_h5 *h5)
{
    lh_status st = LH_OK;
    float *values = NULL;
    LH_TRY_DONE(lh_calloc(&values, lh_figure_count(&figure), sizeof *values));
    for (int64_t i = 0; i < lh_figure_count(&figure); i++) {
        int64_t at[LH_FIGURE_DIMS] = {0}, rest = i;
        for (int d = figure.dim_count - 1; d >= 0; rest /= figure.dims[d].count, d--)
            at[d] = rest % figure.dims[d].count;
        values[i] = f(at, i);
    }
    figure.values = values;
    LH_TRY_DONE(lh_figure_write(&figure, h5));
done:
    lh_free(values);
    return st;
}

static lh_status write_figures(lh_h5 *h5)
{
    const lh_figure_dim other = {.name = "other policy", .count = POLICIES, .labels = policies};
    const lh_figure_dim position = {.name = "position", .unit = "tokens", .count = POSITIONS};
    LH_TRY(
        write_figure((lh_figure){.name = "attention-kept",
                                 .title = "Attention kept",
                                 .about = "Share of the attention of later queries that falls on kept entries; more is "
                                          "better.",
                                 .unit = "share of 1",
                                 .source = "AdaKV, arXiv 2407.11550, figure 2",
                                 .view = LH_VIEW_CURVES,
                                 .x = "budget",
                                 .y = "policy",
                                 .better = 1,
                                 .dim_count = 4,
                                 .dims = {policy_dim, budget_dim, layer_dim, head_dim}},
                     kept, h5));
    LH_TRY(write_figure((lh_figure){.name = "perturbation-l2",
                                    .title = "Output perturbation, L2",
                                    .about = "Distance between the outputs of the full and the evicted cache; less is "
                                             "better.",
                                    .unit = "L2 norm",
                                    .source = "CriticalKV, arXiv 2502.03805, figure 5",
                                    .view = LH_VIEW_CURVES,
                                    .x = "budget",
                                    .y = "policy",
                                    .better = -1,
                                    .dim_count = 4,
                                    .dims = {policy_dim, budget_dim, layer_dim, head_dim}},
                        lost, h5));
    LH_TRY(write_figure((lh_figure){.name = "jaccard",
                                    .title = "Similarity of keep sets",
                                    .about = "Jaccard index of what two policies keep.",
                                    .unit = "share of the union",
                                    .view = LH_VIEW_HEATMAP,
                                    .x = "other policy",
                                    .y = "policy",
                                    .dim_count = 3,
                                    .dims = {policy_dim, other, budget_dim}},
                        shared, h5));
    LH_TRY(write_figure((lh_figure){.name = "head-budgets",
                                    .title = "Budgets of heads",
                                    .about = "Entries that each head keeps.",
                                    .unit = "entries",
                                    .view = LH_VIEW_HEATMAP,
                                    .x = "head",
                                    .y = "layer",
                                    .dim_count = 3,
                                    .dims = {policy_dim, layer_dim, head_dim}},
                        head_budget, h5));
    LH_TRY(write_figure((lh_figure){.name = "kept-positions",
                                    .title = "Positions kept",
                                    .about = "What each head keeps of the prompt.",
                                    .unit = "share of 1",
                                    .view = LH_VIEW_HEATMAP,
                                    .x = "position",
                                    .y = "head",
                                    .dim_count = 4,
                                    .dims = {policy_dim, layer_dim, head_dim, position}},
                        position_kept, h5));
    return write_figure((lh_figure){.name = "entropy",
                                    .title = "Entropy of attention",
                                    .about = "Of the recorded rows, by layer.",
                                    .unit = "nats",
                                    .view = LH_VIEW_BARS,
                                    .x = "layer",
                                    .y = "head",
                                    .dim_count = 2,
                                    .dims = {layer_dim, head_dim}},
                        entropy, h5);
}

static json_t *summary_json(const char *text)
{
    return json_pack("{s:s, s:s, s:s, s:[{s:s, s:i, s:[{s:s, s:s}, {s:s, s:s}]}]}", "command",
                     text ? text : "longhaul replay t.h5 --policy all --budget auto -o sample.h5", "model",
                     text ? text : "SmolLM2-135M-Instruct", "reference", text ? text : "the full cache", "traces",
                     "file", text ? text : "t.h5", "prompt_tokens", 8192, "answers", "question",
                     text ? text : "Who wrote it?", "text", text ? text : "It was written in 1813 by Jane Austen.",
                     "question", "And where?", "text", "In Chawton.");
}

static lh_status write_file(const char *path, const char *text, lh_status (*figures)(lh_h5 *h5))
{
    lh_status st = LH_OK;
    lh_h5 *h5 = NULL;
    json_t *summary = summary_json(text);
    LH_TRY_DONE(lh_h5_create(&h5, path, &(lh_h5_header){"analysis", 1, "{}"}));
    LH_TRY_DONE(lh_summary_write(summary, h5));
    LH_TRY_DONE(figures(h5));
    st = lh_h5_commit(h5);
    h5 = NULL;
done:
    lh_h5_close(h5);
    json_decref(summary);
    return st;
}

lh_status sample_write(const char *path)
{
    return write_file(path, NULL, write_figures);
}

/* ---- hostile ---- */

static float third(const int64_t at[LH_FIGURE_DIMS], int64_t i)
{
    return i % 3 ? (float)at[0] : INFINITY;
}

static lh_status write_hostile_table(lh_h5 *h5)
{
    const char *t = sample_hostile_text;
    const lh_column columns[] = {{"policy", t, LH_COLUMN_LABEL},
                                 {"budget", t, LH_COLUMN_LABEL},
                                 {"<b>", t, LH_COLUMN_F64},
                                 {"answer", t, LH_COLUMN_TEXT},
                                 {NULL, NULL, LH_COLUMN_TEXT}};
    lh_table table;
    lh_table_init(&table, columns);
    lh_status st = lh_table_add(&table, (lh_cell[]){{.text = t}, {.text = "7"}, {.value = 0.5}, {.text = t}});
    if (st == LH_OK) st = lh_table_add(&table, (lh_cell[]){{.text = "b"}, {.text = t}, {.value = 0.25}, {.text = t}});
    if (st == LH_OK) st = lh_table_h5(&table, h5, "/<i>/means");
    lh_table_clear(&table);
    return st;
}

static lh_status write_hostile_figures(lh_h5 *h5)
{
    const char *t = sample_hostile_text, *labels[] = {t, "b", "c"};
    static const lh_figure_view views[] = {LH_VIEW_CURVES, LH_VIEW_HEATMAP, LH_VIEW_BARS, LH_VIEW_TABLE};
    static const char *const names[] = {"a", "b", "c", "d"};
    for (int v = 0; v < LH_VIEWS; v++)
        LH_TRY(write_figure((lh_figure){.name = names[v],
                                        .title = t,
                                        .about = t,
                                        .unit = t,
                                        .source = t,
                                        .view = views[v],
                                        .x = "budget",
                                        .y = t,
                                        .better = 1,
                                        .dim_count = 4,
                                        .dims = {{.name = "policy", .count = 3, .labels = labels},
                                                 {.name = "budget", .unit = t, .count = 3, .labels = labels},
                                                 {.name = t, .unit = t, .count = 3, .labels = labels},
                                                 {.name = "__proto__", .count = 2}}},
                            third, h5));
    return write_hostile_table(h5);
}

lh_status sample_write_hostile(const char *path)
{
    return write_file(path, sample_hostile_text, write_hostile_figures);
}
