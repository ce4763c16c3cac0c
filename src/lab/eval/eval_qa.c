/* eval_qa.c - `eval qa`: options and output of the task of eval/qa.h. */
#include "lab/eval/eval_common.h"
#include "lab/eval/qa.h"

struct qa_options {
    const char *data, *scenario;
    int64_t count;
};

struct values {
    lh_eval_values eval;
    struct qa_options qa;
};

#define FIELD(member) LH_FIELD(struct qa_options, member)
static const lh_option qa_rows[] = {
    {.type = LH_OPT_STR,
     .required = 1,
     .name = "data",
     FIELD(data),
     .arg = "FILE",
     .help =
         "Questions as JSON lines: {\"context\": TEXT, \"question\": TEXT, \"answers\": [TEXT, …]}, also as LongBench "
         "(\"input\") and SQuAD ({\"text\": […]}) name them; \"id\" is optional."},
    {.type = LH_OPT_I64,
     .name = "count",
     FIELD(count),
     .arg = "N",
     .def = "0",
     .max = 1 << 30,
     .help = "Ask the first N questions only. 0: all."},
    {LH_EVAL_SCENARIO, FIELD(scenario)},
    {0}};
#undef FIELD
static const lh_option_table qa_table = {"questions", qa_rows};

static const lh_option run_rows[] = {
    {LH_EVAL_MAX_NEW, .def = "32", .min = 1, .max = 1 << 30, .help = "Maximum tokens of an answer."},
    {LH_EVAL_CHAT,
     .help =
         "Put context and question into the user's turn of the model's chat format. auto: on if the model has one."},
    {LH_EVAL_CHAT_TEMPLATE},
    {.type = LH_OPT_STR,
     .name = "system",
     LH_FIELD(lh_eval_options, system),
     .arg = "TEXT",
     .help = "System message, such as 'Answer in a few words'."},
    {LH_EVAL_SEED, .help = "Random seed of the policies."},
    {LH_EVAL_GIVEN},
    {LH_EVAL_TOGETHER},
    {0}};
static const lh_option_table run_table = {"prompts", run_rows};

static const lh_option_group groups[] = {
    {&qa_table, offsetof(struct values, qa)}, {&run_table, offsetof(struct values, eval.run)}, LH_EVAL_GROUPS{0}};
static const lh_example examples[] = {
    {"longhaul eval qa -m m.h5 --data squad.jsonl --count 100 --policy snapkv,h2o --budget 64,25% --csv qa.csv",
     "two policies at two budgets, and the full cache, on the first hundred questions"},
    {"mpirun --bind-to none -n 2 longhaul eval qa -m m.h5 --data hotpotqa.jsonl --scenario context-only --policy all "
     "--budget 10% -o qa.h5",
     "all policies, questions after the eviction, on two ranks"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "eval qa",
    .usage = "-m FILE --data FILE [options]",
    .summary = "Ask questions about texts and compare the answers with the right ones",
    .text = "Reported are exact match and F1 of words after the normalisation of SQuAD's evaluation script, and "
            "ROUGE-L (F1), each the best over a question's right answers. One prefill of a prompt serves all policies "
            "and budgets (a policy that evicts during prefill needs its own).\n\n" LH_EVAL_INTERRUPT,
    .groups = groups,
    .examples = examples};

typedef struct run {
    lh_eval_task task;
    const struct values *v;
    lh_qa_request request;
    lh_qa_result result;
    lh_qa_data data;
} run;

static lh_status qa_means(const void *self, lh_table *out)
{
    return lh_qa_means(&((const run *)self)->result, out);
}

static lh_status print_qa(const void *self, lh_buf *out)
{
    return lh_qa_print(&((const run *)self)->result, out);
}

static lh_status check_qa(void *self)
{
    run *r = self;
    return lh_eval_read_scenarios(&r->task, r->v->qa.scenario, r->request.scenarios);
}

static lh_status load_questions(void *self)
{
    run *r = self;
    LH_TRY(lh_qa_data_read(&r->data, r->v->qa.data, r->v->qa.count));
    r->task.data = r->data.hash;
    return LH_OK;
}

static lh_status ask_questions(void *self)
{
    run *r = self;
    const lh_eval_options *o = &r->v->eval.run;
    r->request.setup = lh_eval_setup_of(&r->task);
    r->request.data = &r->data;
    r->request.chat = (lh_asked_chat){r->task.chat, o->chat_template, o->system};
    return lh_qa_run(&r->result, r->task.engine, &r->request);
}

static const lh_eval_kind kind = {.name = "qa",
                                  .check = check_qa,
                                  .load = load_questions,
                                  .run = ask_questions,
                                  .means = qa_means,
                                  .print = print_qa,
                                  .tables = {{"answers", offsetof(run, result.answers)}}};

static lh_status run_qa(lh_call *call)
{
    const struct values *v = call->values;
    run r = {.v = v};
    r.task = (lh_eval_task){.kind = &kind, .self = &r, .call = call};
    lh_status st = lh_eval_run(&r.task);
    lh_qa_result_clear(&r.result);
    lh_qa_data_clear(&r.data);
    return st;
}

const lh_command lh_command_eval_qa = {&syntax, sizeof(struct values), run_qa, NULL};
