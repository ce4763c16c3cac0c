/* eval_kv.c - `eval kv`: options of the task of eval/kv_task.c. */
#include "lab/eval/eval_synthetic.h"

struct kv_options {
    int64_t keys, count;
    const char *scenario;
};

struct values {
    lh_eval_values eval;
    struct kv_options kv;
};

#define FIELD(member) LH_FIELD(struct kv_options, member)
static const lh_option kv_rows[] = {
    {.type = LH_OPT_I64,
     .name = "keys",
     FIELD(keys),
     .arg = "N",
     .def = "8",
     .min = 1,
     .max = 4096,
     .help = "Keys whose values are asked for; the answer lists all of these."},
    {LH_EVAL_SYNTHETIC_COUNT, FIELD(count), .help = "Prompts of every length: seeds from --seed on."},
    {LH_EVAL_SCENARIO, FIELD(scenario)},
    {0}};
#undef FIELD
static const lh_option_table kv_table = {"keys", kv_rows};

static const lh_option run_rows[] = {
    {.type = LH_OPT_STR,
     .name = "length",
     LH_FIELD(lh_eval_options, length),
     .arg = "LIST",
     .def = "4096",
     .help = "Tokens of prompt and answer, chat format included, such as '4k,8k,16k'. Other pairs fill the rest."},
    {LH_EVAL_MAX_NEW, .def = "0", .max = 1 << 30,
     .help = "Maximum tokens of an answer. 0: a quarter more than the right answer to the first prompt has, and 16."},
    LH_EVAL_SYNTHETIC_ROWS{0}};
static const lh_option_table run_table = {"prompts", run_rows};

static const lh_option_group groups[] = {
    {&kv_table, offsetof(struct values, kv)}, {&run_table, offsetof(struct values, eval.run)}, LH_EVAL_GROUPS{0}};
static const lh_example examples[] = {
    {"longhaul eval kv -m m.h5 --keys 16 --length 8k,16k --policy snapkv,h2o --budget 10%,25% -o kv.h5",
     "sixteen values, two policies at two budgets"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "eval kv",
    .usage = "-m FILE [options]",
    .summary = "Look up many keys in a JSON object of UUIDs: long answers",
    .text = "The prompt holds a JSON object of UUIDs, and the answer lists the values of several keys. The score is "
            "the share of these values that the answer contains. One prefill of a prompt serves all policies and "
            "budgets (a policy that evicts during prefill needs its own).\n\n" LH_EVAL_INTERRUPT,
    .groups = groups,
    .examples = examples};

static lh_status check_kv(void *self)
{
    lh_eval_synthetic *r = self;
    const struct kv_options *o = &((const struct values *)r->task.call->values)->kv;
    r->request.tasks[r->request.task_count++] = &lh_kv_task;
    r->request.asked = o->keys;
    r->request.count = o->count;
    return lh_eval_read_scenarios(&r->task, o->scenario, r->request.scenarios);
}

static const lh_eval_kind kind = LH_EVAL_SYNTHETIC_KIND("kv", check_kv, lh_eval_synthetic_load_nothing);

static lh_status run_kv(lh_call *call)
{
    lh_eval_synthetic run = {0};
    return lh_eval_synthetic_call(&run, &kind, call);
}

const lh_command lh_command_eval_kv = {&syntax, sizeof(struct values), run_kv, NULL};
