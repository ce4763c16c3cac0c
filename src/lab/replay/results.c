/* results.c - the values of all figures of a replay: told to analyses, joined over ranks, and written to a file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "lab/analysis/figures.h"
#include "lab/analysis/summary.h"
#include "lab/replay/replay_impl.h"

/* ---- analyses ---- */

lh_status lh_replay_open_values(lh_replay *r)
{
    lh_figure_walk w = {.replay = r};
    while (lh_replay_next_figure(&w)) r->value_arrays++;
    LH_TRY(lh_calloc(&r->analysed, r->study.layers, sizeof *r->analysed));
    LH_TRY(lh_calloc(&r->values, r->value_arrays + 1, sizeof *r->values));
    w = (lh_figure_walk){.replay = r};
    for (const lh_analysis_figure *f; (f = lh_replay_next_figure(&w));)
        LH_TRY(lh_calloc(&r->values[w.index - 1], lh_figure_values(&r->study, f), sizeof **r->values));
    return LH_OK;
}

lh_status lh_replay_tell(lh_replay *r, const lh_replay_event *e)
{
    double *const *out = r->values;
    for (const lh_analysis *const *a = r->request.analyses; *a; a++) {
        if (e->continued && (*a)->continued) LH_TRY((*a)->continued(e->continued, out));
        if (e->outcome && (*a)->outcome) LH_TRY((*a)->outcome(e->head, e->outcome, out));
        if (!e->outcome && e->head && (*a)->head) LH_TRY((*a)->head(e->head, out));
        if (!e->head && e->layer && (*a)->layer) LH_TRY((*a)->layer(e->layer, out));
        for (const lh_analysis_figure *f = (*a)->figures; f->name; f++) out++;
    }
    return LH_OK;
}

/* Traces that are in the i-th value of a figure: those that have its layer, or all. */
static int64_t traces_of(const lh_replay *r, const lh_analysis_figure *f, int64_t i)
{
    const lh_study *s = &r->study;
    for (int d = LH_FIGURE_DIMS - 1; d >= 0; d--) {
        const int64_t n = lh_axis_count(s, f->axes[d]);
        if (f->axes[d] == LH_AXIS_LAYER) return r->analysed[i % n];
        i /= n;
    }
    return r->request.trace_count;
}

/* Collective. A layer was analysed by one rank, and next tokens by the first: others add 0 to their values. Values of
 * layers that no trace has become NAN. */
lh_status lh_replay_join_ranks(lh_replay *r)
{
    lh_status st = LH_OK;
    lh_figure_walk w = {.replay = r};
    float *floats = NULL;
    LH_TRY_DONE(lh_comm_allreduce(r->request.comm, r->analysed, r->study.layers, LH_I64, LH_SUM));
    for (const lh_analysis_figure *f; (f = lh_replay_next_figure(&w));) {
        const int64_t n = lh_figure_values(&r->study, f);
        double *values = r->values[w.index - 1];
        LH_TRY_DONE(lh_comm_agree(r->request.comm, lh_realloc(&floats, n, sizeof *floats)));
        for (int64_t i = 0; i < n; i++) {
            const int64_t traces = traces_of(r, f, i);
            floats[i] = traces ? (float)(values[i] / (double)traces) : 0;
        }
        LH_TRY_DONE(lh_comm_allreduce(r->request.comm, floats, n, LH_F32, LH_SUM));
        for (int64_t i = 0; i < n; i++) values[i] = traces_of(r, f, i) ? (double)floats[i] : (double)NAN;
    }
    LH_TRY_DONE(lh_comm_allreduce(r->request.comm, &r->pace.entries, 1, LH_I64, LH_SUM));
done:
    lh_free(floats);
    return st;
}

/* ---- the analysis file ---- */

/* Budgets as entries or percent; and the bins of a prompt as percent. */
typedef struct dim_texts {
    double budgets[LH_STUDY_BUDGETS], bins[LH_STUDY_BINS];
    int percent; /* 1: every budget is a share of the prompt */
} dim_texts;

static void make_texts(const lh_study *s, dim_texts *t)
{
    *t = (dim_texts){.percent = 1};
    for (int64_t b = 0; b < s->budget_count; b++) {
        t->budgets[b] = strtod(s->budgets[b], NULL);
        t->percent &= strchr(s->budgets[b], '%') != NULL;
    }
    for (int64_t i = 0; i < LH_STUDY_BINS; i++) t->bins[i] = 100.0 * ((double)i + 0.5) / LH_STUDY_BINS;
}

/* True if all budgets are shares, or all are numbers: then they form an axis. */
static int comparable(const lh_study *s)
{
    int shares = 0;
    for (int64_t b = 0; b < s->budget_count; b++) shares += strchr(s->budgets[b], '%') != NULL;
    return shares == 0 || shares == s->budget_count;
}

static lh_figure_dim dim_of(const lh_study *s, lh_axis axis, const dim_texts *t)
{
    const lh_figure_dim dims[LH_AXES] = {
        [LH_AXIS_POLICY] = {.name = "policy", .labels = s->policies},
        [LH_AXIS_OTHER] = {.name = "other policy", .labels = s->policies},
        [LH_AXIS_BUDGET] = comparable(s)
                               ? (lh_figure_dim){.name = "budget",
                                                 .unit = t->percent ? "% of the prompt" : "entries per KV head",
                                                 .values = t->budgets}
                               : (lh_figure_dim){.name = "budget", .labels = s->budgets},
        [LH_AXIS_LAYER] = {.name = "layer"},
        [LH_AXIS_HEAD] = {.name = "head"},
        [LH_AXIS_KV_HEAD] = {.name = "kv head"},
        [LH_AXIS_BIN] = {.name = "position", .unit = "% of the prompt", .values = t->bins},
        [LH_AXIS_SHARE] = {.name = "share of the attention", .unit = "share of 1", .values = lh_study_shares},
        [LH_AXIS_THRESHOLD] = {.name = "threshold", .unit = "share of 1", .values = lh_study_thresholds},
        [LH_AXIS_PROXIES] = {.name = "proxies", .unit = "rows", .values = lh_study_proxies},
        [LH_AXIS_SCORE] = {.name = "score", .labels = lh_study_scores},
        [LH_AXIS_ALLOCATION] = {.name = "head budgets", .labels = lh_study_allocations}};
    lh_figure_dim dim = dims[axis];
    dim.count = lh_axis_count(s, axis);
    return dim;
}

static lh_status write_figure(const lh_replay *r, const lh_analysis_figure *f, const double *values, lh_h5 *h5)
{
    const lh_study *s = &r->study;
    const int64_t n = lh_figure_values(s, f);
    dim_texts texts;
    float *floats = NULL;
    LH_TRY(lh_calloc(&floats, n, sizeof *floats));
    for (int64_t i = 0; i < n; i++) floats[i] = (float)values[i];
    make_texts(s, &texts);
    lh_figure out = {.name = f->name,
                     .title = f->title,
                     .about = f->about,
                     .unit = f->unit,
                     .source = f->source,
                     .view = f->view,
                     .better = f->better,
                     .values = floats};
    for (; out.dim_count < LH_FIGURE_DIMS && f->axes[out.dim_count] != LH_AXIS_NONE; out.dim_count++)
        out.dims[out.dim_count] = dim_of(s, f->axes[out.dim_count], &texts);
    out.x = dim_of(s, f->x, &texts).name;
    out.y = dim_of(s, f->y, &texts).name;
    lh_status st = lh_figure_write(&out, h5);
    lh_free(floats);
    return st;
}

/* The replayed policies and traces, for the page's summary. */
static lh_status write_summary(const lh_replay *r, lh_h5 *h5)
{
    json_t *summary = json_object(), *policies = json_array(), *traces = json_array();
    for (int64_t p = 0; p < r->study.policy_count; p++)
        json_array_append_new(policies, lh_json_text(r->names[p], (int64_t)strlen(r->names[p])));
    for (int64_t i = 0; i < r->request.trace_count; i++)
        json_array_append(traces, json_array_get(r->words.traces, (size_t)i));
    json_object_set_new(summary, "policies", policies);
    json_object_set_new(summary, "traces", traces);
    json_object_set_new(summary, "reference", lh_json_text(r->words.reference, (int64_t)strlen(r->words.reference)));
    json_object_set_new(summary, "decoding", lh_json_text(r->words.decoding, (int64_t)strlen(r->words.decoding)));
    lh_status st = lh_summary_write(summary, h5);
    json_decref(summary);
    return st;
}

lh_status lh_replay_write(const lh_replay *r, const char *path)
{
    lh_status st = LH_OK;
    lh_h5 *h5 = NULL;
    lh_figure_walk w = {.replay = r};
    LH_TRY_DONE(lh_h5_create(&h5, path, &(lh_h5_header){.kind = "analysis", .schema = 1, .run = r->request.run}));
    LH_TRY_DONE(write_summary(r, h5));
    for (const lh_analysis_figure *f; (f = lh_replay_next_figure(&w));)
        LH_TRY_DONE(write_figure(r, f, r->values[w.index - 1], h5));
    LH_TRY_DONE(lh_replay_write_texts(r, h5));
    lh_h5 *whole = h5;
    h5 = NULL;
    LH_TRY_DONE(lh_h5_commit(whole));
done:
    lh_h5_close(h5);
    return st;
}

/* Sets w->index after the figure; NULL: there is none. */
static const lh_analysis_figure *find_figure(lh_figure_walk *w, const char *name)
{
    for (const lh_analysis_figure *f; (f = lh_replay_next_figure(w));)
        if (strcmp(f->name, name) == 0) return f;
    return NULL;
}

const double *lh_replay_values(const lh_replay *r, const char *figure)
{
    lh_figure_walk w = {.replay = r};
    return find_figure(&w, figure) ? r->values[w.index - 1] : NULL;
}

/* The first two dimensions of the figure are policy and budget. */
lh_status lh_replay_mean(const lh_replay *r, const char *figure, double *out)
{
    const lh_study *s = &r->study;
    const int64_t cells = s->policy_count * s->budget_count;
    lh_figure_walk w = {.replay = r};
    const lh_analysis_figure *f = find_figure(&w, figure);
    if (f) {
        const int64_t rest = lh_figure_values(s, f) / cells;
        for (int64_t c = 0; c < cells; c++) {
            double sum = 0;
            int64_t n = 0;
            for (int64_t i = 0; i < rest; i++) {
                const double x = r->values[w.index - 1][c * rest + i];
                if (isfinite(x)) sum += x, n++;
            }
            out[c] = n ? sum / (double)n : (double)NAN;
        }
        return LH_OK;
    }
    for (int64_t c = 0; c < cells; c++) out[c] = (double)NAN;
    return LH_OK;
}
