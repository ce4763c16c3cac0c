/* eval_ruler.c - `eval ruler`: options and sources of the tasks of RULER. */
#include "base/hash.h"
#include "base/log.h"
#include "lab/eval/eval_synthetic.h"
#include "lab/eval/texts.h"

struct ruler_options {
    const char *task, *haystack, *squad, *hotpot, *scenario;
    int64_t count;
};

struct values {
    lh_eval_values eval;
    struct ruler_options ruler;
};

#define FIELD(member) LH_FIELD(struct ruler_options, member)
static const lh_option ruler_rows[] = {
    {.type = LH_OPT_STR,
     .name = "task",
     FIELD(task),
     .arg = "LIST",
     .help = "Tasks: niah_single_1 to _3, niah_multikey_1 to _3, niah_multivalue, niah_multiquery, vt, cwe, fwe, qa_1, "
             "qa_2; of RULER's second version mk_niah_basic and mv_niah_basic. Default: all whose files are given."},
    {.type = LH_OPT_STR,
     .name = "haystack",
     FIELD(haystack),
     .arg = "FILE|FOLDER",
     .help = "Text in place of the published essays, as for 'needle': niah_single_2, niah_single_3, niah_multikey_1, "
             "niah_multivalue and niah_multiquery need it."},
    {.type = LH_OPT_STR,
     .name = "squad",
     FIELD(squad),
     .arg = "FILE",
     .help = "The JSON file of SQuAD 2.0, for qa_1 (published: dev-v2.0.json)."},
    {.type = LH_OPT_STR,
     .name = "hotpotqa",
     FIELD(hotpot),
     .arg = "FILE",
     .help = "The JSON file of HotpotQA, for qa_2 (published: hotpot_dev_distractor_v1.json)."},
    {LH_EVAL_SYNTHETIC_COUNT, FIELD(count),
     .help = "Prompts of every task and length: seeds from --seed on (published: 500)."},
    {LH_EVAL_SCENARIO, FIELD(scenario)},
    {0}};
#undef FIELD
static const lh_option_table ruler_table = {"tasks", ruler_rows};

static const lh_option run_rows[] = {
    {.type = LH_OPT_STR,
     .name = "length",
     LH_FIELD(lh_eval_options, length),
     .arg = "LIST",
     .def = "4096",
     .help = "Tokens of prompt and answer, chat format included, such as '4k,8k,16k'."},
    {LH_EVAL_MAX_NEW, .def = "0", .max = 1 << 30,
     .help = "Maximum tokens of an answer. 0: as published for the task, 30 to 128."},
    LH_EVAL_SYNTHETIC_ROWS{0}};
static const lh_option_table run_table = {"prompts", run_rows};

static const lh_option_group groups[] = {
    {&ruler_table, offsetof(struct values, ruler)}, {&run_table, offsetof(struct values, eval.run)}, LH_EVAL_GROUPS{0}};
static const lh_example examples[] = {
    {"longhaul eval ruler -m m.h5 --haystack essays/ --policy snapkv,h2o --budget 10%,20% -o ruler.h5",
     "two policies at two budgets, and the full cache, on all tasks but those of documents"},
    {"mpirun --bind-to none -n 4 longhaul eval ruler -m m.h5 --task vt,cwe,fwe --length 8k,16k --count 100 --policy "
     "all --budget 1024 --csv ruler.csv",
     "tracking and aggregation, all policies, on four ranks"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "eval ruler",
    .usage = "-m FILE [options]",
    .summary = "The synthetic tasks of RULER: retrieval, tracking, aggregation, questions",
    .text = "Prompts have the published templates and distributions and are made from seeds. A task whose words or "
            "haystack are not the published ones is reported as NAME@words or NAME@text. Scores are in %: the share of "
            "the right words or numbers that an answer contains; the average is that of the tasks of the first "
            "version. One prefill of a prompt serves all policies and budgets (a policy that evicts during prefill "
            "needs its own).\n\n" LH_EVAL_INTERRUPT,
    .groups = groups,
    .examples = examples};

static const struct ruler_options *options_of(const lh_eval_synthetic *r)
{
    return &((const struct values *)r->task.call->values)->ruler;
}

/* The option that gives what a task needs, and its value. */
static const char *source_of(const struct ruler_options *o, lh_synthetic_need need, const char **option)
{
    const struct {
        const char *option, *value;
    } sources[] = {[LH_SYNTHETIC_NOTHING] = {"", ""},
                   [LH_SYNTHETIC_TEXT] = {"--haystack", o->haystack},
                   [LH_SYNTHETIC_SQUAD] = {"--squad", o->squad},
                   [LH_SYNTHETIC_HOTPOT] = {"--hotpotqa", o->hotpot}};
    *option = sources[need].option;
    return sources[need].value;
}

static void take(lh_synthetic_request *request, const lh_synthetic_task *task)
{
    request->tasks[request->task_count++] = task;
}

/* Takes the tasks of the list. LH_EUSAGE for one whose source is not given. */
static lh_status take_list(lh_eval_synthetic *r)
{
    const char *names[LH_RULER_TASKS + 1] = {NULL}, *option;
    int wanted[LH_RULER_TASKS] = {0};
    for (int t = 0; t < LH_RULER_TASKS; t++) names[t] = lh_ruler_tasks[t].name;
    LH_TRY(lh_eval_read_words("task", options_of(r)->task, names, wanted));
    for (int t = 0; t < LH_RULER_TASKS; t++) {
        if (!wanted[t]) continue;
        if (!source_of(options_of(r), lh_ruler_tasks[t].need, &option))
            LH_FAIL(LH_EUSAGE, "task '%s' needs '%s'", names[t], option);
        take(&r->request, &lh_ruler_tasks[t]);
    }
    return LH_OK;
}

/* Takes all tasks whose sources are given. */
static lh_status take_all(lh_eval_synthetic *r)
{
    lh_status st = LH_OK;
    lh_buf out = {0};
    const char *option;
    for (const lh_synthetic_task *task = lh_ruler_tasks; task->name; task++) {
        if (source_of(options_of(r), task->need, &option))
            take(&r->request, task);
        else
            LH_TRY_DONE(lh_buf_printf(&out, "%s%s (%s)", out.bytes ? ", " : "", task->name, option));
    }
    if (out.bytes) lh_info("left out, because their files are not given: %s", out.data);
done:
    lh_buf_clear(&out);
    return st;
}

static lh_status check_ruler(void *self)
{
    lh_eval_synthetic *r = self;
    const struct ruler_options *o = options_of(r);
    r->request.count = o->count;
    LH_TRY(lh_eval_read_scenarios(&r->task, o->scenario, r->request.scenarios));
    return o->task ? take_list(r) : take_all(r);
}

static lh_status load_text(lh_eval_synthetic *r)
{
    lh_status st = LH_OK;
    lh_texts texts = {0};
    lh_buf text = {0};
    LH_TRY_DONE(lh_texts_read(&texts, "--haystack", options_of(r)->haystack));
    LH_TRY_DONE(lh_texts_join(&texts, &text));
    LH_TRY_DONE(lh_synthetic_sources_text(&r->sources, &text));
    if (r->sources.words == 0) LH_FAIL_DONE(LH_EINPUT, "'%s' of '--haystack' has no words", options_of(r)->haystack);
done:
    lh_texts_clear(&texts);
    lh_buf_clear(&text);
    return st;
}

static lh_status load_sources(void *self)
{
    lh_eval_synthetic *r = self;
    const struct ruler_options *o = options_of(r);
    if (o->haystack) LH_TRY(load_text(r));
    if (o->squad) LH_TRY(lh_documents_squad(&r->sources.squad, o->squad));
    if (o->hotpot) LH_TRY(lh_documents_hotpot(&r->sources.hotpot, o->hotpot));
    const uint64_t hashes[] = {o->haystack ? lh_hash64(r->sources.text.data, r->sources.text.bytes) : 0,
                               r->sources.squad.hash, r->sources.hotpot.hash};
    r->task.data = lh_hash64(hashes, sizeof hashes);
    return LH_OK;
}

static const lh_eval_kind kind = LH_EVAL_SYNTHETIC_KIND("ruler", check_ruler, load_sources);

static lh_status run_ruler(lh_call *call)
{
    lh_eval_synthetic run = {0};
    return lh_eval_synthetic_call(&run, &kind, call);
}

const lh_command lh_command_eval_ruler = {&syntax, sizeof(struct values), run_ruler, NULL};
