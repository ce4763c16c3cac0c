/* cmd_replay.c - `replay`: policies at budgets on recorded traces, and a table of their losses. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/output.h"
#include "base/progress.h"
#include "engine/engine.h"
#include "engine/prompt.h"
#include "engine/threads.h"
#include "engine/world.h"
#include "kv/figures.h"
#include "lab/analysis/measures.h"
#include "lab/eval/eval_common.h"
#include "lab/eval/run_policies.h"
#include "lab/replay/given_scores.h"
#include "lab/replay/make_budgets.h"
#include "lab/replay/replay.h"
#include "model/score_weights.h"
#include "shell/shell.h"

struct replay_options {
    const char *output, *keep_sets, *make_budgets, *analyse, *continuation;
    int judge;
    int64_t judge_rows;
    lh_strings scores;
};

struct values {
    lh_shell_common common;
    lh_policy_options policy;
    struct replay_options replay;
    lh_engine_options engine;
};

static const char *analysis_name(int i)
{
    const lh_analysis *a = lh_analysis_at(i);
    return a ? a->name : NULL;
}

#define FIELD(member) LH_FIELD(struct replay_options, member)
static const char *const judges[] = {"auto", "after", "prompt", NULL};
static const lh_option rows[] = {
    {.type = LH_OPT_STR,
     .letter = 'o',
     .name = "output",
     FIELD(output),
     .arg = "FILE",
     .writes = 1,
     .makes = "analysis",
     .help = "Write all figures to FILE, an analysis file (HDF5): 'longhaul report' draws it."},
    {.type = LH_OPT_STR,
     .name = "analyse",
     FIELD(analyse),
     .arg = "LIST",
     .def = "all",
     .word = analysis_name,
     .help = "Analyses, with commas between them; all: every one, next-token only with --model. 'longhaul info' lists "
             "them."},
    {.type = LH_OPT_LIST,
     .name = "scores",
     FIELD(scores),
     .arg = "FILE",
     .help =
         "Also a policy that ranks entries by the scores of FILE (HDF5, made by a script), named after it; the parts "
         "of policies shape and select by them."},
    {.type = LH_OPT_ENUM,
     .name = "judge",
     FIELD(judge),
     .choices = judges,
     .def = "auto",
     .help =
         "Reference rows: query rows by which policies are judged, and which the oracle knows. after: rows after the "
         "prompt, of questions and answers, the future that an eviction cannot see; or rows of the prompt. Policies "
         "that evict "
         "while decoding do so along the rows after the prompt. auto: these, where the trace has 8 or more, and all "
         "layers."},
    {.type = LH_OPT_I64,
     .name = "judge-rows",
     FIELD(judge_rows),
     .arg = "N",
     .def = "64",
     .min = 1,
     .max = 1 << 20,
     .help = "Maximum number of these rows, evenly spaced."},
    {.type = LH_OPT_STR,
     .name = "keep-sets",
     FIELD(keep_sets),
     .arg = "FOLDER",
     .writes = 1,
     .help =
         "Write the positions that every head keeps to FOLDER, one file (HDF5) for each policy, budget and trace, as "
         "'generate --keep-sets' does."},
    {.type = LH_OPT_STR,
     .name = "make-budgets",
     FIELD(make_budgets),
     .arg = "FILE",
     .writes = 1,
     .makes = "text",
     .help = "Write head and layer budgets learnt from the traces to FILE, for --head-budget and --layer-budget: of a "
             "single policy and budget, the budgets with the least loss."},
    {.type = LH_OPT_STR,
     .name = "continuation-file",
     FIELD(continuation),
     .arg = "FILE",
     .help = "With --model: file with the text that is forced after the prompt, instead of the recorded questions and "
             "answers; '-' is standard input."},
    {0}};
#undef FIELD
static const lh_option_table table = {"replay", rows};
static const lh_option_group groups[] = {{&table, offsetof(struct values, replay)},
                                         {&lh_shell_policy_list_options, offsetof(struct values, policy)},
                                         {&lh_shell_engine_options, offsetof(struct values, engine)},
                                         {&lh_shell_common_options, offsetof(struct values, common)},
                                         {0}};
static const lh_example examples[] = {
    {"longhaul replay book.trace.h5", "every policy that the trace allows, at seven budgets from 0.5% to 50%"},
    {"longhaul replay book.trace.h5 --policy snapkv,ada-snapkv,h2o --budget 5%,10%,20% -o book.analysis.h5",
     "three policies at three budgets, all figures to a file"},
    {"longhaul replay book.trace.h5 -m m.h5 --policy snapkv,h2o --budget 5%,20% -o book.analysis.h5",
     "also what the model says next with what each keeps"},
    {"longhaul replay *.trace.h5 --policy 'longhaul --head-budget uniform' --budget 10% --make-budgets b.csv",
     "budgets for 'generate --policy longhaul --head-budget b.csv --layer-budget b.csv --budget 10%'"},
    {"mpirun --bind-to none -n 4 longhaul replay *.trace.h5 -o all.analysis.h5",
     "the mean over many traces, their layers shared out among four ranks"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "replay",
    .usage = "TRACE… [options]",
    .summary = "Apply eviction policies to recorded traces; the model is not needed",
    .text =
        "Every policy evicts every layer of the trace at every budget, by the code of the engine: it keeps what a "
        "run keeps, at the end of the prompt and while decoding. Recorded query rows then tell what was lost. Two "
        "baselines are always there: 'random', and "
        "'oracle', which ranks entries by the attention of those very rows; beside policies with adaptive head budgets "
        "also 'oracle-adaptive'.\n\nWithout --policy, all that the trace "
        "holds observations for; without --budget, or with '--budget auto', 0.5%, 1%, 2%, 5%, "
        "10%, 20% and 50% of the prompt.\n\nWith --model, the model goes on from the prompt with what each policy "
        "keeps: "
        "the entries are read from the trace, there is no prefill, and the recorded questions and answers are forced. "
        "Reported are the KL divergence of the next token from that of the full cache, how often the most probable "
        "token is the same, and the likelihood of the answers. Every policy and budget takes a forward pass of those "
        "tokens.",
    .max_args = 4096,
    .reads_args = 1,
    .groups = groups,
    .optional = &lh_shell_engine_options,
    .examples = examples};

typedef struct run {
    lh_call *call;
    struct values *v;
    const char **traces; /* [trace_count], then the files with scores, the model; ends with NULL: all that is read */
    lh_policy_options lists;
    int64_t trace_count;
    lh_policy_list policies;
    lh_score_weights score_weights;
    lh_budget_grid grid;          /* of --make-budgets */
    const lh_analysis **analyses; /* ends with NULL */
    char *record;
    lh_given_scores **scores; /* [v->replay.scores.n] */
    lh_engine *engine;        /* NULL: no model was given */
    lh_threads *threads;      /* without a model; an engine has its own */
    lh_tokens continuation;   /* none: the traces' own */
    lh_progress progress;
    lh_replay *replay;
} run;

static lh_status take_traces(run *r)
{
    const lh_options *o = r->call->options;
    while (lh_options_arg(o, r->trace_count)) r->trace_count++;
    if (r->trace_count == 0) LH_FAIL(LH_EUSAGE, "nothing to replay: give a trace, as 'longhaul trace' makes it");
    const lh_strings *scores = &r->v->replay.scores;
    LH_TRY(lh_calloc(&r->traces, r->trace_count + scores->n + 2, sizeof *r->traces));
    for (int64_t i = 0; i < r->trace_count; i++) r->traces[i] = lh_options_arg(o, i);
    for (int64_t i = 0; i < scores->n; i++) r->traces[r->trace_count + i] = scores->at[i];
    r->traces[r->trace_count + scores->n] = r->v->engine.model;
    return LH_OK;
}

/* The analyses of the list; next tokens need the model, and the model is for nothing else. */
static lh_status take_analyses(run *r)
{
    int64_t n = 0;
    int goes_on = 0, perturbed = 0;
    const struct replay_options *o = &r->v->replay;
    const int curves = o->make_budgets && !lh_options_given(r->call->options, "analyse"); /* the loss curves */
    const char *list = curves ? lh_analysis_perturbation.name : o->analyse, *model = r->v->engine.model;
    const int all = strcmp(list, "all") == 0;
    while (lh_analysis_at((int)n)) n++;
    LH_TRY(lh_calloc(&r->analyses, n + 1, sizeof *r->analyses));
    int *wanted = NULL;
    const char **words = NULL;
    lh_status st = LH_OK;
    LH_TRY_DONE(lh_calloc(&wanted, n, sizeof *wanted));
    LH_TRY_DONE(lh_calloc(&words, n + 1, sizeof *words));
    for (int64_t i = 0; i < n; i++) words[i] = lh_analysis_at((int)i)->name;
    if (!all) LH_TRY_DONE(lh_eval_read_words("analyse", list, words, wanted));
    for (int64_t i = 0, used = 0; i < n; i++) {
        const lh_analysis *a = lh_analysis_at((int)i);
        if (a->continued && wanted[i] && !model)
            LH_FAIL_DONE(LH_EUSAGE, "'--analyse %s' needs the model of the trace: give it with '--model'", a->name);
        if (!wanted[i] && !(all && (model || !a->continued))) continue;
        goes_on |= a->continued != NULL;
        perturbed |= a == &lh_analysis_perturbation;
        r->analyses[used++] = a;
    }
    if (o->make_budgets && !perturbed)
        LH_FAIL_DONE(LH_EUSAGE, "'--make-budgets' needs the analysis '%s', which '--analyse %s' lacks",
                     lh_analysis_perturbation.name, list);
    if (model && !goes_on)
        LH_FAIL_DONE(LH_EUSAGE, "'--model' has no effect on '--analyse %s': name next-token, too, or leave it out",
                     list);
done:
    lh_free(wanted);
    lh_free(words);
    return st;
}

/* "ideas/mine.h5" as "mine". */
static lh_status name_scores(const char *path, char **out)
{
    const char *base = lh_path_name(path);
    return lh_strndup(out, base, (int64_t)strcspn(base, "."));
}

/* A policy of a file with scores, at the budget of another choice. */
static lh_status add_scored(run *r, const lh_policy_options *lists, const lh_scorer *scorer, const char *path,
                            const char *budget)
{
    lh_policy_list *all = &r->policies;
    lh_policy_choice *choice;
    lh_policy_options own = *lists;
    own.policy = NULL;
    own.budget = budget;
    own.scorer = scorer;
    own.profiles = &all->profiles;
    LH_TRY(lh_realloc(&all->at, all->n + 1, sizeof *all->at));
    all->cap = all->n + 1;
    choice = &all->at[all->n];
    *choice = (lh_policy_choice){.given = NULL};
    LH_TRY(lh_policy_resolve(&choice->policy, &own));
    all->n++;
    LH_TRY(name_scores(path, &choice->name));
    return lh_strdup(&choice->budget, budget);
}

/* Files with scores, at every budget of the list. */
static lh_status add_scores(run *r)
{
    const lh_strings *files = &r->v->replay.scores;
    const int64_t others = r->policies.n;
    LH_TRY(lh_calloc(&r->scores, files->n + 1, sizeof *r->scores));
    for (int64_t f = 0; f < files->n; f++) {
        LH_TRY(lh_given_scores_open(&r->scores[f], files->at[f]));
        const lh_scorer scorer = lh_given_scores_scorer(r->scores[f]);
        for (int64_t i = 0; i < others; i++) {
            const char *budget = r->policies.at[i].budget;
            int known = !r->policies.at[i].policy.evicts;
            for (int64_t k = 0; k < i && !known; k++)
                known = r->policies.at[k].policy.evicts && strcmp(r->policies.at[k].budget, budget) == 0;
            if (!known) LH_TRY(add_scored(r, &r->lists, &scorer, files->at[f], budget));
        }
    }
    return LH_OK;
}

/* Adds the random baseline, which evicts when the listed policies evict, without their other parts; not twice. */
static lh_status add_random(run *r)
{
    lh_status st = LH_OK;
    lh_policy_list *all = &r->policies, own = {0};
    for (int64_t i = 0; i < all->n; i++)
        if (strncmp(all->at[i].name, "random", 6) == 0) return LH_OK;
    LH_TRY_DONE(lh_policy_list_resolve(
        &own,
        &(lh_policy_options){.policy = "random", .budget = r->lists.budget, .parts = {.evict = r->lists.parts.evict}}));
    LH_TRY_DONE(lh_realloc(&all->at, all->n + own.n, sizeof *all->at));
    all->cap = all->n + own.n;
    for (int64_t i = 0; i < own.n; i++) {
        if (!own.at[i].policy.evicts) continue;
        own.at[i].added = 1;
        all->at[all->n++] = own.at[i];
        own.at[i] = (lh_policy_choice){0};
    }
done:
    lh_policy_list_clear(&own);
    return st;
}

/* The policies of the command line, with the default budgets. */
static lh_status take_policies(run *r)
{
    r->lists = r->v->policy;
    if (r->v->replay.make_budgets) {
        if (r->v->replay.scores.n) LH_FAIL(LH_EUSAGE, "'--make-budgets' cannot be combined with '--scores'");
        LH_TRY(lh_budget_grid_make(&r->grid, &r->policies, &r->lists));
        return LH_OK;
    }
    if (!r->lists.budget || strcmp(r->lists.budget, "auto") == 0) r->lists.budget = "0.5%,1%,2%,5%,10%,20%,50%";
    if (!r->lists.policy) r->lists.policy = r->v->replay.scores.n ? "random" : "all";
    LH_TRY(lh_policy_list_resolve(&r->policies, &r->lists));
    return add_random(r);
}

/* Budgets are learnt from the future of the eviction, unless rows of the prompt are asked for. */
static lh_replay_judge judge_of(const run *r)
{
    const lh_replay_judge judge = (lh_replay_judge)r->v->replay.judge;
    return r->v->replay.make_budgets && judge == LH_JUDGE_AUTO ? LH_JUDGE_DECODE : judge;
}

/* The cache whose bytes a budget counts: the first trace's, with the types of a run with these options; and the score
 * weights for it. */
static lh_status size_cache(lh_cache_size *out, run *r, const lh_trace_file *trace)
{
    lh_kv_shape shape = trace->shape;
    lh_dtype dtype;
    const lh_engine_options *o = &r->v->engine;
    LH_TRY(
        lh_score_weights_find(&r->score_weights, &(lh_score_weights_request){o->score_weights, o->model, shape.layers,
                                                                             shape.heads.kv_heads, shape.head_dim, 0}));
    LH_TRY(lh_engine_dtypes(&r->v->engine, trace->shape.types.prompt, &dtype, &shape.types));
    *out = lh_kv_cache_size(&shape);
    out->score_weights = r->score_weights.hash;
    return LH_OK;
}

/* Budgets in bytes become entries of that cache; drops policies that the user did not name and that trace
 * does not allow, with a log line. */
static lh_status drop_missing(run *r)
{
    lh_status st = LH_OK;
    lh_trace_file trace = {0};
    lh_buf left = {0};
    int64_t n = 0;
    const char *last = "";
    const int named = r->v->policy.policy || r->v->replay.make_budgets;
    LH_TRY_DONE(lh_trace_file_open(&trace, r->traces[0]));
    lh_cache_size cache;
    LH_TRY_DONE(size_cache(&cache, r, &trace));
    LH_TRY_DONE(lh_policy_list_size(&r->policies, &cache));
    for (int64_t i = 0; i < r->policies.n; i++) {
        lh_policy_choice *c = &r->policies.at[i];
        const int there = c->policy.evicts;
        if (there && (c->added || !named) && lh_replay_missing(&trace, judge_of(r), &c->policy)) {
            if (strcmp(last, c->name) != 0) LH_TRY_DONE(lh_buf_printf(&left, "%s%s", left.bytes ? ", " : "", c->name));
            last = c->name;
            c->policy.evicts = 0; /* as `full`, it is not replayed */
        } else {
            n += there;
        }
    }
    if (left.bytes) lh_info("left out, for '%s' does not hold what they need: %s", r->traces[0], left.data);
    if (n == 0) LH_FAIL_DONE(LH_EUSAGE, "'%s' does not hold what any policy needs", r->traces[0]);
done:
    lh_buf_clear(&left);
    lh_trace_file_close(&trace);
    return st;
}

/* Warnings of the policies for the prompts of the traces, before long work. Not collective: on rank 0. */
static lh_status warn(const run *r)
{
    lh_status st = LH_OK;
    int64_t *lengths = NULL;
    lh_trace_file trace = {0};
    LH_TRY_DONE(lh_calloc(&lengths, r->trace_count, sizeof *lengths));
    for (int64_t i = 0; i < r->trace_count; i++) {
        lh_trace_file_close(&trace);
        LH_TRY_DONE(lh_trace_file_open(&trace, r->traces[i]));
        lengths[i] = trace.prompt;
    }
    LH_TRY_DONE(lh_eval_warn_of_policies(&r->policies, lengths, r->trace_count));
done:
    lh_trace_file_close(&trace);
    lh_free(lengths);
    return st;
}

static void show(run *r, const char *what, const char *unit, int64_t done, int64_t total)
{
    if (!r->progress.what || strcmp(r->progress.what, what) != 0) {
        lh_progress_clear(&r->progress);
        lh_progress_init(&r->progress, what, unit, total);
    }
    r->progress.total = total; /* later traces may take more */
    lh_progress_update(&r->progress, done);
}

static void show_layers(void *self, int64_t done, int64_t total)
{
    show(self, "replaying", "layers", done, total);
}

static void show_continued(void *self, int64_t done, int64_t total)
{
    show(self, "going on", "caches", done, total);
}

/* ---- the table ---- */

#define OF_HEADS "mean over layers and heads"
typedef struct printed_table {
    const char *figure, *title;
} printed_table;

/* Printed in the order of analysis/measures.h. */
static const printed_table tables[] = {
    {"perturbation-l2", "output perturbation (L2, share of the output's norm; less is better), " OF_HEADS},
    {"mass", "attention kept (share of 1; more is better), " OF_HEADS},
    {"hits", "hit rate of the 64 most attended entries (share of 1; more is better), " OF_HEADS},
    {"next-token-kl", "next token: KL divergence from the full cache (nats; less is better)"},
    {"next-token-agreement", "next token: the full cache's is the most probable one (share of 1; more is better)"},
    {"answer-nll", "negative log-likelihood of what follows the prompt (nats per token; less is better)"},
};
enum { TABLES = sizeof tables / sizeof *tables };

static int by_rank(const void *a, const void *b)
{
    const printed_table *const *x = a, *const *y = b;
    const int ranks[] = {lh_measure_rank((*x)->figure), lh_measure_rank((*y)->figure)};
    return ranks[0] != ranks[1] ? ranks[0] - ranks[1] : (*x > *y) - (*x < *y);
}

/* The value of each budget of a policy, in a line. */
static lh_status put_row(const lh_study *s, int64_t p, const double *values, lh_buf *out)
{
    LH_TRY(lh_buf_printf(out, "  %-20s", s->policies[p]));
    for (int64_t b = 0; b < s->budget_count; b++) {
        const double x = values[p * s->budget_count + b];
        if (isnan(x))
            LH_TRY(lh_buf_printf(out, " %9s", "-"));
        else
            LH_TRY(lh_buf_printf(out, " %9.4f", x));
    }
    return lh_buf_puts(out, "\n");
}

static lh_status put_table(const run *r, const printed_table *t, lh_buf *out)
{
    lh_status st = LH_OK;
    const lh_study *s = lh_replay_study(r->replay);
    double *values = NULL;
    int found = 0;
    LH_TRY_DONE(lh_calloc(&values, s->policy_count * s->budget_count, sizeof *values));
    LH_TRY_DONE(lh_replay_mean(r->replay, t->figure, values));
    for (int64_t i = 0; i < s->policy_count * s->budget_count; i++) found |= !isnan(values[i]);
    if (!found) goto done; /* that analysis was not asked for */
    LH_TRY_DONE(lh_buf_printf(out, "%s%s\n  %-20s", out->bytes ? "\n" : "", t->title, "kept"));
    for (int64_t b = 0; b < s->budget_count; b++) LH_TRY_DONE(lh_buf_printf(out, " %9s", s->budgets[b]));
    LH_TRY_DONE(lh_buf_puts(out, "\n"));
    for (int64_t p = 0; p < s->policy_count; p++) LH_TRY_DONE(put_row(s, p, values, out));
    if (strcmp(t->figure, "answer-nll") == 0)
        LH_TRY_DONE(lh_buf_printf(out, "  %-20s %9.4f\n", "full", lh_replay_full_nll(r->replay)));
done:
    lh_free(values);
    return st;
}

/* A rate in the unit that fits: "12.3 million", "45.6 thousand", "789". */
typedef struct rate_text {
    char text[32];
} rate_text;

static const char *print_rate(rate_text *out, double rate)
{
    static const struct {
        double size;
        const char *name;
    } units[] = {{1e9, " billion"}, {1e6, " million"}, {1e3, " thousand"}, {1, ""}};
    size_t u = 0;
    while (units[u].size > 1 && rate < units[u].size) u++;
    snprintf(out->text, sizeof out->text, "%.*f%s", units[u].size > 1, rate / units[u].size, units[u].name);
    return out->text;
}

static lh_status print(const run *r)
{
    lh_status st = LH_OK;
    const lh_replay_pace pace = lh_replay_pace_of(r->replay);
    rate_text rate;
    lh_buf text = {0};
    const printed_table *order[TABLES];
    for (int i = 0; i < TABLES; i++) order[i] = &tables[i];
    qsort(order, TABLES, sizeof *order, by_rank);
    for (int i = 0; i < TABLES; i++) LH_TRY_DONE(put_table(r, order[i], &text));
    if (text.bytes) LH_TRY_DONE(lh_shell_write(text.data, text.bytes));
    if (*lh_replay_decoding(r->replay)) lh_info("%s", lh_replay_decoding(r->replay));
    lh_info("replayed %lld %s in %.1f s: %s entries scored a second", (long long)r->trace_count,
            r->trace_count == 1 ? "trace" : "traces", pace.seconds,
            print_rate(&rate, (double)pace.entries / pace.seconds));
done:
    lh_buf_clear(&text);
    return st;
}

/* Writes the file of --make-budgets, and prints its gain on these traces. */
static lh_status make_budgets(const run *r)
{
    lh_status st = LH_OK;
    const char *path = r->v->replay.make_budgets;
    lh_made_budgets made = {0};
    lh_buf text = {0};
    LH_TRY_DONE(lh_made_budgets_make(&made, r->replay, &r->grid));
    LH_TRY_DONE(lh_made_budgets_text(&made, r->replay, &r->grid, &text));
    LH_TRY_DONE(lh_file_write(path, text.data, text.bytes));
    lh_buf_clear(&text);
    const int heads = made.profile.kind == LH_PROFILE_OF_HEADS;
    LH_TRY_DONE(lh_buf_printf(&text,
                              "squared perturbation of the layers' outputs (share of 1; less is better), sum over "
                              "layers, on these traces\n  %-20s %9.4f\n  %-20s %9.4f\n%s get %.2f to %.2f times the "
                              "budget; use them with: --layer-budget %s%s%s\n",
                              "uniform", made.uniform, "these budgets", made.made, heads ? "KV heads" : "layers",
                              made.least, made.greatest, path, heads ? " --head-budget " : "", heads ? path : ""));
    LH_TRY_DONE(lh_shell_write(text.data, text.bytes));
done:
    lh_buf_clear(&text);
    lh_made_budgets_clear(&made);
    return st;
}

static lh_status replay(run *r)
{
    const struct replay_options *o = &r->v->replay;
    lh_comm *comm = lh_world_comm(r->call->world);
    LH_TRY(lh_replay_run(&r->replay, &(lh_replay_request){.traces = r->traces,
                                                          .trace_count = r->trace_count,
                                                          .policies = &r->policies,
                                                          .score_weights = r->score_weights.at,
                                                          .layer_shares = r->score_weights.layer_shares,
                                                          .analyses = r->analyses,
                                                          .judge = judge_of(r),
                                                          .judge_rows = o->judge_rows,
                                                          .keep_sets = o->keep_sets,
                                                          .run = r->record,
                                                          .comm = comm,
                                                          .engine = r->engine,
                                                          .continuation = o->continuation ? &r->continuation : NULL,
                                                          .self = r,
                                                          .continued = show_continued,
                                                          .progress = show_layers}));
    lh_progress_clear(&r->progress);
    lh_status st = LH_OK;
    if (lh_shell_first()) {
        if (o->output) st = lh_replay_write(r->replay, o->output);
        if (st == LH_OK) st = o->make_budgets ? make_budgets(r) : print(r);
    }
    return lh_comm_agree(comm, st);
}

/* The outputs, before long work. */
static lh_status claim(const struct replay_options *o)
{
    const int error = o->keep_sets && mkdir(o->keep_sets, 0777) != 0 ? errno : 0;
    if (error && !lh_file_is_folder(o->keep_sets))
        LH_FAIL(LH_EWRITE, "cannot create the folder '%s': %s", o->keep_sets, strerror(error));
    if (o->make_budgets) LH_TRY(lh_file_claim(o->make_budgets, 1 << 16));
    return o->output ? lh_partial_claim(o->output, 1 << 20) : LH_OK;
}

/* Options of the model without it. */
static lh_status check_model(const run *r)
{
    const lh_options *o = r->call->options;
    if (r->v->engine.model) return LH_OK;
    if (r->v->replay.continuation)
        LH_FAIL(LH_EUSAGE, "'--continuation-file' is what the model goes on with: give '--model', too");
    for (const lh_option *row = lh_shell_engine_options.rows; row->name; row++)
        if (strcmp(row->name, "threads") != 0 && lh_options_given(o, row->name))
            LH_FAIL(LH_EUSAGE, "'--%s' has no effect without '--model': give that option, too", row->name);
    return LH_OK;
}

/* The text continues the prompt: no begin-of-sequence token. */
static lh_status read_continuation(run *r)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    const lh_tokenizer *tok = lh_engine_tokenizer(r->engine);
    const char *path = r->v->replay.continuation;
    if (!tok) LH_FAIL_DONE(LH_EUSAGE, "'%s' has no tokenizer for '--continuation-file'", r->v->engine.model);
    LH_TRY_DONE(lh_text_read(&text, path));
    LH_TRY_DONE(lh_tokenizer_encode(tok, text.bytes ? text.data : "", text.bytes,
                                    LH_ENCODE_SPECIAL | LH_ENCODE_CONTINUES, &r->continuation));
    if (r->continuation.n < 2)
        LH_FAIL_DONE(LH_EINPUT, "'%s' is too short to judge next tokens by: at least 2 tokens are needed", path);
done:
    lh_buf_clear(&text);
    return st;
}

/* Collective. Of a run without a model. */
static lh_status open_threads(run *r, lh_comm *comm)
{
    LH_TRY(lh_threads_open(&r->threads, comm, r->v->engine.threads));
    lh_threads_check_binding(r->threads);
    return LH_OK;
}

/* Collective. The model, or threads alone. */
static lh_status open_engine(run *r)
{
    lh_status st = LH_OK;
    lh_comm *comm = lh_world_comm(r->call->world);
    if (!r->v->engine.model) return open_threads(r, comm);
    LH_TRY(lh_engine_open_on(&r->engine, lh_world_comm(r->call->world), &r->v->engine));
    if (!r->v->replay.continuation) return LH_OK;
    if (lh_shell_first()) st = read_continuation(r);
    LH_TRY(lh_comm_agree_untimed(comm, st));
    return lh_prompt_share(comm, &r->continuation);
}

static lh_status run_replay(lh_call *call)
{
    lh_status st = LH_OK;
    run r = {.call = call, .v = call->values};
    LH_TRY_DONE(check_model(&r));
    LH_TRY_DONE(take_traces(&r));
    LH_TRY_DONE(take_analyses(&r));
    LH_TRY_DONE(take_policies(&r));
    LH_TRY_DONE(lh_shell_record(call, &r.record));
    LH_TRY_DONE(lh_shell_open_world(call, r.traces));
    LH_TRY_DONE(lh_shell_same_policies(call, &r.policies.profiles));
    if (lh_shell_first()) st = claim(&r.v->replay);
    LH_TRY_DONE(lh_comm_agree(lh_world_comm(call->world), st));
    st = drop_missing(&r);
    if (st == LH_OK) st = add_scores(&r);
    if (st == LH_OK && lh_shell_first()) st = warn(&r);
    LH_TRY_DONE(lh_comm_agree(lh_world_comm(call->world), st));
    LH_TRY_DONE(open_engine(&r));
    LH_TRY_DONE(replay(&r));
done:
    lh_progress_clear(&r.progress);
    if (lh_shell_first() && r.v->replay.output) lh_partial_drop(r.v->replay.output);
    if (lh_shell_first() && r.v->replay.make_budgets) lh_partial_drop(r.v->replay.make_budgets);
    lh_replay_close(r.replay);
    lh_engine_close(r.engine);
    lh_threads_close(r.threads);
    lh_tokens_clear(&r.continuation);
    for (int64_t i = 0; r.scores && i < r.v->replay.scores.n; i++) lh_given_scores_close(r.scores[i]);
    lh_free(r.scores);
    lh_policy_list_clear(&r.policies);
    lh_score_weights_clear(&r.score_weights);
    lh_free(r.analyses);
    lh_free(r.traces);
    free(r.record);
    return st;
}

const lh_command lh_command_replay = {&syntax, sizeof(struct values), run_replay, NULL};
