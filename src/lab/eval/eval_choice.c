/* eval_choice.c - `eval choice`: options and output of the task of eval/choice.h. */
#include "lab/eval/choice.h"
#include "lab/eval/eval_common.h"

struct choice_options {
    const char *data, *scenario;
    int64_t count;
};

struct values {
    lh_eval_values eval;
    struct choice_options choice;
};

#define FIELD(member) LH_FIELD(struct choice_options, member)
static const lh_option choice_rows[] = {
    {.type = LH_OPT_STR,
     .required = 1,
     .name = "data",
     FIELD(data),
     .arg = "FILE",
     .help = "Questions as JSON lines or a JSON array: {\"question\": TEXT, \"choices\": [TEXT, …], \"answer\": INDEX "
             "from 0}, also as "
             "ARC names them ({\"text\": […], \"label\": […]}, \"answerKey\"); \"query\" in place of \"question\" is "
             "taken as it is; \"context\" and \"id\" are optional."},
    {.type = LH_OPT_I64,
     .name = "count",
     FIELD(count),
     .arg = "N",
     .def = "0",
     .max = 1 << 30,
     .help = "Ask the first N questions only. 0: all."},
    {.type = LH_OPT_STR,
     .name = "scenario",
     FIELD(scenario),
     .arg = "LIST",
     .def = "question-aware",
     .help = "question-aware: the question is part of the prompt, which is evicted. context-only: it comes after the "
             "eviction of the context, which every question must have. Without --policy a budget is for the default of "
             "each, longhaul and ask-later (or learnt), in all scenarios of the list."},
    {0}};
#undef FIELD
static const lh_option_table choice_table = {"questions", choice_rows};

static const lh_option run_rows[] = {
    {.type = LH_OPT_SWITCH,
     .name = "chat",
     LH_FIELD(lh_eval_options, chat),
     .def = "off",
     .choices = lh_shell_chat_choices,
     .help =
         "Put context and question into the user's turn of the model's chat format. auto: on if the model has one."},
    {LH_EVAL_SEED, .help = "Random seed of the policies."},
    {LH_EVAL_GIVEN},
    {LH_EVAL_TOGETHER},
    {0}};
static const lh_option_table run_table = {"prompts", run_rows};

static const lh_option_group groups[] = {{&choice_table, offsetof(struct values, choice)},
                                         {&run_table, offsetof(struct values, eval.run)},
                                         LH_EVAL_GROUPS{0}};
static const lh_example examples[] = {
    {"longhaul eval choice -m m.h5 --data arc-easy.jsonl --count 100 --policy snapkv,h2o --budget 50%",
     "two policies and the full cache on the first hundred questions"},
    {"mpirun --bind-to none -n 2 longhaul eval choice -m m.h5 --data long.jsonl --scenario context-only --policy all "
     "--budget 10% -o choice.h5",
     "all policies, questions after the eviction of long contexts, on two ranks"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "eval choice",
    .usage = "-m FILE --data FILE [options]",
    .summary = "Multiple-choice questions, answered by the likelihood of the choices",
    .text = "Every choice is fed after the question, and the one with the largest log-likelihood is the answer: acc is "
            "the share of right ones, acc_norm that by log-likelihood per character, both as lm-evaluation-harness "
            "defines them. One prefill of a question serves all policies and budgets (a policy that evicts during "
            "prefill needs its own).\n\n" LH_EVAL_INTERRUPT,
    .groups = groups,
    .examples = examples};

typedef struct run {
    lh_eval_task task;
    const struct values *v;
    lh_choice_request request;
    lh_choice_result result;
    lh_choice_data data;
} run;

static lh_status choice_means(const void *self, lh_table *out)
{
    return lh_choice_means(&((const run *)self)->result, out);
}

static lh_status print_choice(const void *self, lh_buf *out)
{
    return lh_choice_print(&((const run *)self)->result, out);
}

static lh_status check_choice(void *self)
{
    run *r = self;
    return lh_eval_read_scenarios(&r->task, r->v->choice.scenario, r->request.scenarios);
}

static lh_status load_questions(void *self)
{
    run *r = self;
    LH_TRY(lh_choice_data_read(&r->data, r->v->choice.data, r->v->choice.count));
    r->task.data = r->data.hash;
    return LH_OK;
}

static lh_status ask_questions(void *self)
{
    run *r = self;
    r->request.setup = lh_eval_setup_of(&r->task);
    r->request.data = &r->data;
    r->request.chat = (lh_eval_chat){.on = r->task.chat};
    return lh_choice_run(&r->result, r->task.engine, &r->request);
}

static const lh_eval_kind kind = {.name = "choice",
                                  .check = check_choice,
                                  .load = load_questions,
                                  .run = ask_questions,
                                  .means = choice_means,
                                  .print = print_choice,
                                  .tables = {{"questions", offsetof(run, result.questions)}}};

static lh_status run_choice(lh_call *call)
{
    const struct values *v = call->values;
    run r = {.v = v};
    r.task = (lh_eval_task){.kind = &kind, .self = &r, .call = call};
    lh_status st = lh_eval_run(&r.task);
    lh_choice_result_clear(&r.result);
    lh_choice_data_clear(&r.data);
    return st;
}

const lh_command lh_command_eval_choice = {&syntax, sizeof(struct values), run_choice, NULL};
