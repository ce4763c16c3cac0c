/* eval_path.c - `eval path`: options of the task of eval/path_task.c. */
#include "lab/eval/eval_synthetic.h"

struct path_options {
    int64_t steps, count;
    const char *scenario;
};

struct values {
    lh_eval_values eval;
    struct path_options path;
};

#define FIELD(member) LH_FIELD(struct path_options, member)
static const lh_option path_rows[] = {
    {.type = LH_OPT_I64,
     .name = "steps",
     FIELD(steps),
     .arg = "N",
     .def = "40",
     .min = 2,
     .max = 4096,
     .help = "Steps of the route, one line of the answer each."},
    {LH_EVAL_SYNTHETIC_COUNT, FIELD(count), .help = "Prompts of every length: seeds from --seed on."},
    {LH_EVAL_SCENARIO, FIELD(scenario)},
    {0}};
#undef FIELD
static const lh_option_table path_table = {"route", path_rows};

static const lh_option run_rows[] = {
    {.type = LH_OPT_STR,
     .name = "length",
     LH_FIELD(lh_eval_options, length),
     .arg = "LIST",
     .def = "4096",
     .help = "Tokens of prompt and answer, chat format included, such as '4k,8k,16k'. Connections of other cities fill "
             "the rest."},
    {LH_EVAL_MAX_NEW, .def = "0", .max = 1 << 30,
     .help = "Maximum tokens of an answer. 0: a quarter more than the right answer to the first prompt has, and 16."},
    LH_EVAL_SYNTHETIC_ROWS{0}};
static const lh_option_table run_table = {"prompts", run_rows};

static const lh_option_group groups[] = {
    {&path_table, offsetof(struct values, path)}, {&run_table, offsetof(struct values, eval.run)}, LH_EVAL_GROUPS{0}};
static const lh_example examples[] = {
    {"longhaul eval path -m m.h5 --policy 'snapkv,snapkv --evict every:64' --budget 512 --steps 60 --csv path.csv",
     "the same policy once, and while decoding"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "eval path",
    .usage = "-m FILE [options]",
    .summary = "Follow a long route through a list of connections: long answers",
    .text = "The prompt lists one-way connections between cities in random order, and the answer names every step of "
            "the only route between two of them, as path_traversal of LongProc. The score is the share of the steps "
            "before the first one that is wrong. One prefill of a prompt serves all policies and budgets (a policy "
            "that evicts during prefill needs its own).\n\n" LH_EVAL_INTERRUPT,
    .groups = groups,
    .examples = examples};

static lh_status check_path(void *self)
{
    lh_eval_synthetic *r = self;
    const struct path_options *o = &((const struct values *)r->task.call->values)->path;
    r->request.tasks[r->request.task_count++] = &lh_path_task;
    r->request.asked = o->steps;
    r->request.count = o->count;
    return lh_eval_read_scenarios(&r->task, o->scenario, r->request.scenarios);
}

static const lh_eval_kind kind = LH_EVAL_SYNTHETIC_KIND("path", check_path, lh_eval_synthetic_load_nothing);

static lh_status run_path(lh_call *call)
{
    lh_eval_synthetic run = {0};
    return lh_eval_synthetic_call(&run, &kind, call);
}

const lh_command lh_command_eval_path = {&syntax, sizeof(struct values), run_path, NULL};
