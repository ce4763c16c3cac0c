/* eval_fidelity.c - `eval fidelity`: options and output of the task of eval/fidelity.h. */
#include "lab/eval/eval_common.h"
#include "lab/eval/fidelity.h"

struct fidelity_options {
    const char *text, *repeat;
    int64_t count, repeat_max;
    int reconstruct;
};

struct values {
    lh_eval_values eval;
    struct fidelity_options fidelity;
};

#define FIELD(member) LH_FIELD(struct fidelity_options, member)
static const lh_option fidelity_rows[] = {
    {.type = LH_OPT_STR,
     .required = 1,
     .name = "text",
     FIELD(text),
     .arg = "FILE|FOLDER",
     .help = "Texts that the model continues: a file, or all '*.txt', '*.md' and '*.markdown' of a folder."},
    {.type = LH_OPT_I64,
     .name = "count",
     FIELD(count),
     .arg = "N",
     .def = "8",
     .min = 1,
     .max = 1 << 20,
     .help = "Number of windows per length, spread evenly over the texts without overlap."},
    {.type = LH_OPT_FLAG,
     .name = "reconstruct",
     FIELD(reconstruct),
     .help = "Also ask the model, after the eviction, to repeat the window, and compare its answer with the window."},
    {.type = LH_OPT_STR,
     .name = "repeat",
     FIELD(repeat),
     .arg = "TEXT",
     .def = "Repeat the text above word by word.",
     .help = "The instruction of --reconstruct."},
    {.type = LH_OPT_TOKENS,
     .name = "repeat-max",
     FIELD(repeat_max),
     .arg = "TOKENS",
     .def = "0",
     .max = 1 << 30,
     .help = "Maximum tokens of that answer. 0: the length of the window."},
    {0}};
#undef FIELD
static const lh_option_table fidelity_table = {"fidelity", fidelity_rows};

static const lh_option run_rows[] = {
    {LH_EVAL_LENGTH, .help = "Window lengths in tokens, such as '2000,6000'."},
    {LH_EVAL_MAX_NEW, .def = "64", .min = 2, .max = 1 << 20, .help = "Tokens to generate after a window."},
    {LH_EVAL_CHAT, .help = "Use the model's chat format for --reconstruct. auto: on if the model has one."},
    {LH_EVAL_SEED, .help = "Random seed of the policies."},
    {LH_EVAL_GIVEN},
    {LH_EVAL_TOGETHER},
    {0}};
static const lh_option_table run_table = {"windows", run_rows};

static const lh_option_group groups[] = {{&fidelity_table, offsetof(struct values, fidelity)},
                                         {&run_table, offsetof(struct values, eval.run)},
                                         {&lh_shell_chat_options, offsetof(struct values, eval.run.format)},
                                         LH_EVAL_GROUPS{0}};
static const lh_example examples[] = {
    {"longhaul eval fidelity -m m.h5 --text book.txt --policy snapkv,streaming --budget 256,20%",
     "two policies at two budgets, compared with the full cache"},
    {"longhaul eval fidelity -m m.h5 --text essays/ --policy all --budget 25% --length 1000 --reconstruct --csv f.csv",
     "all policies; the model also repeats the text"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "eval fidelity",
    .usage = "-m FILE --text FILE|FOLDER [options]",
    .summary = "Compare what a model writes with an evicted cache and with all of it",
    .text =
        "For every window of the texts, decoding continues greedily with the full cache and with each policy's. "
        "Reported are: the share of equal tokens at equal positions and the first difference; ROUGE-1, 2 and L (F1) "
        "and "
        "BLEU of the texts; then, with the full cache's tokens forced on both, the mean KL divergence in nats and how "
        "often the most likely token agrees. One prefill of a window serves all policies and budgets (a policy that "
        "evicts during prefill needs its own).\n\n" LH_EVAL_INTERRUPT,
    .groups = groups,
    .examples = examples};

typedef struct run {
    lh_eval_task task;
    const struct values *v;
    lh_fidelity_request request;
    lh_fidelity_result result;
    lh_texts texts;
} run;

static lh_status fidelity_means(const void *self, lh_table *out)
{
    return lh_fidelity_means(&((const run *)self)->result, out);
}

static lh_status print_fidelity(const void *self, lh_buf *out)
{
    return lh_fidelity_print(&((const run *)self)->result, out);
}

static lh_status check_fidelity(void *self)
{
    const run *r = self;
    static const char *const repeating[] = {"repeat", "repeat-max", "chat", "chat-template", "template-arg"};
    for (size_t i = 0; i < sizeof repeating / sizeof *repeating; i++)
        if (lh_options_given(r->task.call->options, repeating[i]) && !r->v->fidelity.reconstruct)
            LH_FAIL(LH_EUSAGE, "'--%s' has no effect without '--reconstruct': give that option, too", repeating[i]);
    return LH_OK;
}

static lh_status load_texts(void *self)
{
    run *r = self;
    LH_TRY(lh_texts_read(&r->texts, "--text", r->v->fidelity.text));
    r->task.data = lh_texts_hash(&r->texts);
    return LH_OK;
}

static lh_status compare_caches(void *self)
{
    run *r = self;
    const struct values *v = r->v;
    r->request = (lh_fidelity_request){.setup = lh_eval_setup_of(&r->task),
                                       .texts = &r->texts,
                                       .lengths = r->task.lengths,
                                       .length_count = r->task.length_count,
                                       .count = v->fidelity.count,
                                       .reconstruct = v->fidelity.reconstruct,
                                       .repeat = v->fidelity.repeat,
                                       .repeat_max = v->fidelity.repeat_max,
                                       .chat = {.on = v->fidelity.reconstruct && r->task.chat,
                                                .chat_template = v->eval.run.format.format,
                                                .arguments = r->task.arguments}};
    return lh_fidelity_run(&r->result, r->task.engine, &r->request);
}

static const lh_eval_kind kind = {
    .name = "fidelity",
    .check = check_fidelity,
    .load = load_texts,
    .run = compare_caches,
    .means = fidelity_means,
    .print = print_fidelity,
    .tables = {{"windows", offsetof(run, result.windows)}, {"repeated", offsetof(run, result.repeated)}}};

static lh_status run_fidelity(lh_call *call)
{
    const struct values *v = call->values;
    run r = {.v = v};
    r.task = (lh_eval_task){.kind = &kind, .self = &r, .call = call};
    lh_status st = lh_eval_run(&r.task);
    lh_fidelity_result_clear(&r.result);
    lh_texts_clear(&r.texts);
    return st;
}

const lh_command lh_command_eval_fidelity = {&syntax, sizeof(struct values), run_fidelity, NULL};
