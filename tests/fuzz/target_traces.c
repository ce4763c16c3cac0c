/* target_traces.c - traces, which are replayed. */
#include "base/h5.h"
#include "base/mem.h"
#include "fuzz.h"
#include "lab/replay/replay.h"
#include "lab/report/report.h"
#include "lab/trace/trace_file.h"
#include "main/file_kinds.h"
#include "policies/list.h"
#include "replay/trace_maker.h"

static lh_status make_seeds(fz_seeds *seeds, const char *folder)
{
    lh_status st = LH_OK;
    char *path = NULL;
    LH_TRY_DONE(lh_asprintf(&path, "%s/seed.h5", folder));
    LH_TRY_DONE(made_trace_write(path, MADE_RANDOM));
    LH_TRY_DONE(fz_seeds_add_file(seeds, path));
    LH_TRY_DONE(made_trace_write(path, MADE_COMPRESSED));
    LH_TRY_DONE(fz_seeds_add_file(seeds, path));
done:
    lh_free(path);
    return st;
}

/* Every policy at two budgets, and every analysis. */
static lh_status replay(const char *path)
{
    lh_status st = LH_OK;
    const lh_analysis *analyses[64] = {NULL};
    lh_policy_list policies = {0};
    lh_replay *out = NULL;
    lh_comm *comm = NULL;
    for (int i = 0; lh_analysis_at(i); i++) analyses[i] = lh_analysis_at(i);
    LH_TRY_DONE(lh_h5_probe(path));
    LH_TRY_DONE(lh_comm_open_self(&comm));
    LH_TRY_DONE(lh_policy_list_resolve(
        &policies,
        &(lh_policy_options){.policy = "h2o,snapkv --window 4,ada-snapkv --window 4,critical-snapkv --window 4,"
                                       "keydiff,streaming,random",
                             .budget = "6,50%"}));
    LH_TRY_DONE(lh_replay_run(&out, &(lh_replay_request){.traces = &path,
                                                         .trace_count = 1,
                                                         .policies = &policies,
                                                         .analyses = analyses,
                                                         .judge_rows = 8,
                                                         .comm = comm}));
done:
    lh_replay_close(out);
    lh_policy_list_clear(&policies);
    lh_comm_close(comm);
    return st == LH_EUSAGE ? lh_fail_within(LH_EFILE, "cannot be replayed") : st;
}

/* As `info` does. */
static lh_status draw(const char *path)
{
    lh_status st = LH_OK;
    lh_trace_file trace = {0};
    lh_figures figures = {0};
    lh_buf text = {0};
    LH_TRY_DONE(lh_h5_probe(path));
    LH_TRY_DONE(lh_trace_file_open(&trace, path));
    LH_TRY_DONE(lh_trace_figures(&trace, &figures));
    LH_TRY_DONE(lh_figures_plot(&figures, &text));
done:
    lh_buf_clear(&text);
    lh_figures_clear(&figures);
    lh_trace_file_close(&trace);
    return st;
}

static lh_status run_trace(fz_case *c)
{
    lh_verify_report report;
    const int64_t way = fz_below(&c->rng, 4);
    if (way == 0) return lh_verify(c->path, file_kinds, &(lh_import_progress){0}, &report);
    return way == 1 ? draw(c->path) : replay(c->path);
}

const fz_target fz_trace = {.name = "trace",
                            .summary = "a trace, verified, drawn and replayed",
                            .file = "trace.h5",
                            .form = FZ_BINARY,
                            .quick = 60,
                            .share = 3000,
                            .seeds = make_seeds,
                            .run = run_trace};
