/* eval_longbench.c - `eval longbench`: options and output of the task of eval/longbench.h. */
#include "lab/eval/eval_common.h"
#include "lab/eval/longbench.h"

struct longbench_options {
    const char *data, *task, *scenario;
    int64_t count;
};

struct values {
    lh_eval_values eval;
    struct longbench_options longbench;
};

#define FIELD(member) LH_FIELD(struct longbench_options, member)
static const lh_option longbench_rows[] = {
    {.type = LH_OPT_STR,
     .required = 1,
     .name = "data",
     FIELD(data),
     .arg = "FILE|FOLDER",
     .help = "Records of LongBench as JSON lines: a file, or all '*.jsonl' of a folder but for those of LongBench-E "
             "('*_e.jsonl')."},
    {.type = LH_OPT_STR,
     .name = "task",
     FIELD(task),
     .arg = "LIST",
     .help =
         "Data sets, such as 'hotpotqa,qmsum'. Default: all that the data has, but for multifieldqa_zh, dureader and "
         "vcsum, whose metrics need a segmentation of Chinese words."},
    {.type = LH_OPT_I64,
     .name = "count",
     FIELD(count),
     .arg = "N",
     .def = "0",
     .max = 1 << 30,
     .help = "Ask the first N records of every data set only. 0: all."},
    {LH_EVAL_SCENARIO, FIELD(scenario)},
    {0}};
#undef FIELD
static const lh_option_table longbench_table = {"data sets", longbench_rows};

static const lh_option run_rows[] = {
    {.type = LH_OPT_STR,
     .name = "length",
     LH_FIELD(lh_eval_options, length),
     .arg = "LIST",
     .def = "4096",
     .help = "Maximum tokens of prompt and answer: a longer context is cut in the middle."},
    {LH_EVAL_MAX_NEW, .def = "0", .max = 1 << 30,
     .help = "Maximum tokens of an answer. 0: as published for the data set, 32 to 512."},
    {LH_EVAL_CHAT,
     .help =
         "Put prompts into the user's turn of the model's chat format, except those of trec, triviaqa, samsum, lsht, "
         "lcc and repobench-p, as published. auto: on if the model has one."},
    {LH_EVAL_CHAT_TEMPLATE},
    {.type = LH_OPT_STR, .name = "system", LH_FIELD(lh_eval_options, system), .arg = "TEXT", .help = "System message."},
    {LH_EVAL_SEED, .help = "Random seed of the policies."},
    {LH_EVAL_GIVEN},
    {LH_EVAL_TOGETHER},
    {0}};
static const lh_option_table run_table = {"prompts", run_rows};

static const lh_option_group groups[] = {{&longbench_table, offsetof(struct values, longbench)},
                                         {&run_table, offsetof(struct values, eval.run)},
                                         LH_EVAL_GROUPS{0}};
static const lh_example examples[] = {
    {"longhaul eval longbench -m m.h5 --data LongBench/data --length 8k --policy snapkv,h2o --budget 10%,25% -o lb.h5",
     "two policies at two budgets, and the full cache, on all data sets"},
    {"longhaul eval longbench -m m.h5 --data hotpotqa.jsonl --count 20 --scenario context-only --budget 512",
     "twenty questions after the eviction"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "eval longbench",
    .usage = "-m FILE --data FILE|FOLDER [options]",
    .summary = "Questions, summaries, few-shot examples and code of LongBench",
    .text =
        "Prompts, lengths of answers and metrics are the published ones. Scores are in %; the average is that of the "
        "data sets. One prefill of a prompt serves all policies and budgets (a policy that evicts during prefill "
        "needs its own).\n\n" LH_EVAL_INTERRUPT,
    .groups = groups,
    .examples = examples};

typedef struct run {
    lh_eval_task task;
    const struct values *v;
    int wanted[LH_LONGBENCH_SETS];
    lh_longbench_request request;
    lh_task_scores scores;
    lh_longbench_data data;
} run;

static lh_status longbench_means(const void *self, lh_table *out)
{
    return lh_task_scores_means(&((const run *)self)->scores, out);
}

static lh_status print_longbench(const void *self, lh_buf *out)
{
    return lh_task_scores_print(&((const run *)self)->scores, out);
}

/* LH_EUSAGE for a data set that has no metric here. */
static lh_status check_longbench(void *self)
{
    run *r = self;
    const struct longbench_options *o = &r->v->longbench;
    const char *names[LH_LONGBENCH_SETS + 1] = {NULL};
    LH_TRY(lh_eval_read_scenarios(&r->task, o->scenario, r->request.scenarios));
    for (int s = 0; s < LH_LONGBENCH_SETS; s++) {
        names[s] = lh_longbench_sets[s].name;
        r->wanted[s] = o->task == NULL;
    }
    if (o->task) LH_TRY(lh_eval_read_words("task", o->task, names, r->wanted));
    for (int s = 0; s < LH_LONGBENCH_SETS; s++)
        if (o->task && r->wanted[s] && !lh_longbench_sets[s].score)
            LH_FAIL(LH_EUSAGE, "the metric of '%s' needs a segmentation of Chinese words: leave it out of '--task'",
                    names[s]);
    return LH_OK;
}

static lh_status load_longbench(void *self)
{
    run *r = self;
    LH_TRY(lh_longbench_data_read(&r->data, r->v->longbench.data,
                                  &(lh_longbench_choice){r->wanted, r->v->longbench.count}));
    r->task.data = r->data.hash;
    return LH_OK;
}

static lh_status ask_longbench(void *self)
{
    run *r = self;
    const lh_eval_options *o = &r->v->eval.run;
    r->request.setup = lh_eval_setup_of(&r->task);
    r->request.data = &r->data;
    r->request.chat = (lh_asked_chat){r->task.chat, o->chat_template, o->system};
    r->request.lengths = r->task.lengths;
    r->request.length_count = r->task.length_count;
    return lh_longbench_run(&r->scores, r->task.engine, &r->request);
}

static const lh_eval_kind kind = {.name = "longbench",
                                  .check = check_longbench,
                                  .load = load_longbench,
                                  .run = ask_longbench,
                                  .means = longbench_means,
                                  .print = print_longbench,
                                  .tables = {{"answers", offsetof(run, scores.answers)}}};

static lh_status run_longbench(lh_call *call)
{
    const struct values *v = call->values;
    run r = {.v = v};
    r.task = (lh_eval_task){.kind = &kind, .self = &r, .call = call};
    lh_status st = lh_eval_run(&r.task);
    lh_task_scores_clear(&r.scores);
    lh_longbench_data_clear(&r.data);
    return st;
}

const lh_command lh_command_eval_longbench = {&syntax, sizeof(struct values), run_longbench, NULL};
