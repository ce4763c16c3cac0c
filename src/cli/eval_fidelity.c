/* eval fidelity: how close a model with an evicted cache stays to itself. */
#include "cli/eval_common.h"

struct fidelity_options {
    const char *text, *repeat;
    int64_t count, repeat_max;
    int reconstruct;
};

struct values {
    lh_cli_common common;
    lh_engine_options engine;
    lh_policy_options policy;
    lh_eval_options run;
    struct fidelity_options fidelity;
    lh_eval_files files;
};

#define FIELD(member) LH_FIELD(struct fidelity_options, member)
static const lh_option fidelity_rows[] = {
    {.type = LH_OPT_STR,
     .required = 1,
     .name = "text",
     FIELD(text),
     .arg = "FILE|FOLDER",
     .help = "Texts that the model goes on with: a file, or all '*.txt' and '*.md' of a folder."},
    {.type = LH_OPT_I64,
     .name = "count",
     FIELD(count),
     .arg = "N",
     .def = "8",
     .min = 1,
     .max = 1 << 20,
     .help = "Windows of each length, none of which overlap, spread evenly over the texts."},
    {.type = LH_OPT_FLAG,
     .name = "reconstruct",
     FIELD(reconstruct),
     .help =
         "Ask the model to repeat the window, too (behind the eviction), and compare what it says with the window."},
    {.type = LH_OPT_STR,
     .name = "repeat",
     FIELD(repeat),
     .arg = "TEXT",
     .def = "Repeat the text above word by word.",
     .help = "What it is asked then."},
    {.type = LH_OPT_I64,
     .name = "repeat-max",
     FIELD(repeat_max),
     .arg = "TOKENS",
     .def = "0",
     .max = 1 << 30,
     .help = "Tokens that it may say then. 0: as many as the window has."},
    {0}};
#undef FIELD
static const lh_option_table fidelity_table = {"fidelity", fidelity_rows};

#define FIELD(member) LH_FIELD(lh_eval_options, member)
static const lh_option run_rows[] = {
    {.type = LH_OPT_STR,
     .name = "length",
     FIELD(length),
     .arg = "LIST",
     .def = "2000",
     .help = "Tokens of a window, as '2000,6000'."},
    {.type = LH_OPT_I64,
     .letter = 'n',
     .name = "max-new",
     FIELD(max_new),
     .arg = "TOKENS",
     .def = "64",
     .min = 2,
     .max = 1 << 20,
     .help = "Tokens to go on with."},
    {.type = LH_OPT_SWITCH,
     .name = "chat",
     FIELD(chat),
     .choices = lh_policy_switch,
     .help = "Ask for the repetition in the model's chat format. On where the model has one."},
    {.type = LH_OPT_STR,
     .name = "chat-template",
     FIELD(chat_template),
     .arg = "NAME|FILE",
     .help = "Another chat format, as for 'generate'. Means --chat."},
    {.type = LH_OPT_I64,
     .name = "seed",
     FIELD(seed),
     .arg = "N",
     .def = "0",
     .max = INT64_MAX >> 1,
     .help = "Of the policies' random choices."},
    {.type = LH_OPT_I64,
     .name = "together",
     FIELD(together),
     .arg = "N",
     .def = "0",
     .max = 1 << 20,
     .help = "Caches that one prefill fills at most, where memory is short. 0: all."},
    {0}};
#undef FIELD
static const lh_option_table run_table = {"windows", run_rows};

static const lh_option_group groups[] = {{&fidelity_table, offsetof(struct values, fidelity)},
                                         {&run_table, offsetof(struct values, run)},
                                         {&lh_cli_policy_list_options, offsetof(struct values, policy)},
                                         {&lh_cli_engine_options, offsetof(struct values, engine)},
                                         {&lh_eval_file_options, offsetof(struct values, files)},
                                         {&lh_cli_common_options, offsetof(struct values, common)},
                                         {0}};
static const lh_example examples[] = {
    {"longhaul eval fidelity -m m.h5 --text book.txt --policy snapkv,streaming --budget 256,20%",
     "two policies at two budgets against the full cache"},
    {"longhaul eval fidelity -m m.h5 --text essays/ --policy all --budget 25% --length 1000 --reconstruct --csv f.csv",
     "all policies; the model also repeats what it has read"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "eval fidelity",
    .usage = "-m FILE --text FILE|FOLDER [options]",
    .summary = "Compare what a model writes with an evicted cache and with all of it",
    .text =
        "For every window of the texts the full cache and each policy's go on greedily. Told are: the share of tokens "
        "that "
        "are the same at the same place, and where they part; ROUGE-1, 2 and L (F1) and BLEU of the texts; then, with "
        "the "
        "full cache's tokens forced on both, the mean KL divergence in nats and how often the best token is the same. "
        "One "
        "prefill of a window serves all policies and budgets (a policy that evicts while it prefills takes one of its "
        "own).\n\nCtrl-C writes what there is, and ends with code 75.",
    .groups = groups,
    .examples = examples};

typedef struct run {
    lh_eval_task task;
    const struct values *v;
    int64_t *lengths, length_count;
    lh_fidelity_request request;
    lh_fidelity_result result;
    lh_texts texts;
} run;

static lh_status means(const void *result, lh_table *out)
{
    return lh_fidelity_means(result, out);
}

static lh_status print(const void *result, lh_buf *out)
{
    return lh_fidelity_print(result, out);
}

static const lh_table *table(const void *result, int64_t i, const char **name)
{
    const lh_fidelity_result *r = result;
    *name = i == 0 ? "windows" : "repeated";
    return i == 0 ? &r->windows : i == 1 && r->repeated.n ? &r->repeated : NULL;
}

/* What can be refused before anything is opened; the same on all ranks. */
static lh_status check(run *r, const lh_options *options)
{
    lh_status st = LH_OK;
    static const char *const repeating[] = {"repeat", "repeat-max", "chat", "chat-template"};
    const struct values *v = r->v;
    LH_TRY(lh_policy_list_resolve(&r->task.policies, &v->policy));
    LH_TRY(lh_eval_read_lengths("length", v->run.length, &r->lengths, &r->length_count));
    for (size_t i = 0; i < sizeof repeating / sizeof *repeating; i++)
        if (lh_options_given(options, repeating[i]) && !v->fidelity.reconstruct)
            LH_FAIL(LH_EUSAGE, "'--%s' tells how a text is asked for: give '--reconstruct', too", repeating[i]);
    LH_TRY(lh_eval_check_files(&r->task, (const char *const[]){v->engine.model, v->fidelity.text, NULL}));
done:
    return st;
}

static lh_status load(void *self)
{
    run *r = self;
    return lh_texts_read(&r->texts, "--text", r->v->fidelity.text);
}

static lh_status run_fidelity(lh_call *call)
{
    lh_status st = LH_OK;
    const struct values *v = call->values;
    run r = {.v = v};
    r.task = (lh_eval_task){.call = call,
                            .name = "fidelity",
                            .engine_options = &v->engine,
                            .files = &v->files,
                            .result = &r.result,
                            .means = means,
                            .print = print,
                            .table = table};
    LH_TRY(check(&r, call->options));
    LH_TRY(lh_eval_open(&r.task, load, &r));
    r.request = (lh_fidelity_request){.texts = &r.texts,
                                      .policies = &r.task.policies,
                                      .lengths = r.lengths,
                                      .length_count = r.length_count,
                                      .count = v->fidelity.count,
                                      .max_new = v->run.max_new,
                                      .seed = (uint64_t)v->run.seed,
                                      .reconstruct = v->fidelity.reconstruct,
                                      .repeat = v->fidelity.repeat,
                                      .repeat_max = v->fidelity.repeat_max,
                                      .chat_template = v->run.chat_template,
                                      .together = v->run.together,
                                      .progress = {&r.task, lh_eval_show}};
    LH_TRY(lh_eval_chat(&r.task, &v->run, &r.request.chat));
    LH_TRY(lh_comm_agree(lh_engine_comm(r.task.engine), lh_eval_warn(&r.task, r.lengths, r.length_count)));
    LH_TRY(lh_fidelity_run(&r.result, r.task.engine, &r.request));
    LH_TRY(lh_eval_finish(&r.task));
done:
    lh_fidelity_result_clear(&r.result);
    lh_eval_clear(&r.task);
    lh_texts_clear(&r.texts);
    lh_free(r.lengths);
    return st;
}

const lh_command lh_command_eval_fidelity = {&syntax, sizeof(struct values), run_fidelity, NULL};
