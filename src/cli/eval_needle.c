/* eval needle: a sentence in a long text, asked for. */
#include "cli/eval_common.h"

struct needle_options {
    const char *haystack, *needle, *question, *depth, *scenario;
    int64_t keys, seeds;
};

struct values {
    lh_cli_common common;
    lh_engine_options engine;
    lh_policy_options policy;
    lh_eval_options run;
    struct needle_options needle;
    lh_eval_files files;
};

#define FIELD(member) LH_FIELD(struct needle_options, member)
static const lh_option needle_rows[] = {
    {.type = LH_OPT_STR,
     .required = 1,
     .name = "haystack",
     FIELD(haystack),
     .arg = "FILE|FOLDER",
     .help = "The text that needles are hidden in: a file, or all '*.txt' and '*.md' of a folder in the order of their "
             "names. Every prompt takes another part of it."},
    {.type = LH_OPT_STR,
     .name = "needle",
     FIELD(needle),
     .arg = "TEXT",
     .def = "The secret passphrase for the {name} is '{secret}'.",
     .help =
         "The sentence that is hidden; {secret} becomes an adjective, an animal and a number, {name} what the secret "
         "is for."},
    {.type = LH_OPT_STR,
     .name = "question",
     FIELD(question),
     .arg = "TEXT",
     .def = "What is the secret passphrase for the {name}?",
     .help = "What is asked."},
    {.type = LH_OPT_I64,
     .name = "keys",
     FIELD(keys),
     .arg = "N",
     .def = "1",
     .min = 1,
     .max = LH_NEEDLE_KEYS,
     .help = "Needles, each with a name and a secret of its own; one is asked for, the others lie anywhere."},
    {.type = LH_OPT_STR,
     .name = "depth",
     FIELD(depth),
     .arg = "LIST|FROM:TO:COUNT",
     .def = "0.05:0.95:12",
     .help = "Where the needle lies, from 0 (beginning) to 1: one prompt for each."},
    {.type = LH_OPT_I64,
     .name = "seeds",
     FIELD(seeds),
     .arg = "N",
     .def = "1",
     .min = 1,
     .max = 1 << 20,
     .help = "Prompts for every length and depth, with secrets and texts of their own: seeds from --seed on."},
    {.type = LH_OPT_STR,
     .name = "scenario",
     FIELD(scenario),
     .arg = "LIST",
     .def = "question-aware,context-only",
     .help =
         "question-aware: the question is inside the prompt, policies that look at its end see it. context-only: it "
         "comes behind the eviction."},
    {0}};
#undef FIELD
static const lh_option_table needle_table = {"needle", needle_rows};

#define FIELD(member) LH_FIELD(lh_eval_options, member)
static const lh_option run_rows[] = {
    {.type = LH_OPT_STR,
     .name = "length",
     FIELD(length),
     .arg = "LIST",
     .def = "2000",
     .help = "Tokens of a prompt, question and chat format included, as '2000,6000'. "
             "As much of the haystack is taken as fits."},
    {.type = LH_OPT_I64,
     .letter = 'n',
     .name = "max-new",
     FIELD(max_new),
     .arg = "TOKENS",
     .def = "32",
     .min = 1,
     .max = 1 << 30,
     .help = "Tokens of an answer at most."},
    {.type = LH_OPT_SWITCH,
     .name = "chat",
     FIELD(chat),
     .choices = lh_policy_switch,
     .help = "Put text and question into the user's turn of the model's chat format. On "
             "where the model has one."},
    {.type = LH_OPT_STR,
     .name = "chat-template",
     FIELD(chat_template),
     .arg = "NAME|FILE",
     .help = "Another chat format, as for 'generate'. Means --chat."},
    {.type = LH_OPT_STR, .name = "system", FIELD(system), .arg = "TEXT", .help = "The system's turn of the chat."},
    {.type = LH_OPT_I64,
     .name = "seed",
     FIELD(seed),
     .arg = "N",
     .def = "0",
     .max = INT64_MAX >> 1,
     .help = "Of secrets, texts and the policies' random choices."},
    {.type = LH_OPT_I64,
     .name = "together",
     FIELD(together),
     .arg = "N",
     .def = "0",
     .max = 1 << 20,
     .help = "Caches that one prefill fills at most, where memory is short. 0: all."},
    {0}};
#undef FIELD
static const lh_option_table run_table = {"prompts", run_rows};

static const lh_option_group groups[] = {{&needle_table, offsetof(struct values, needle)},
                                         {&run_table, offsetof(struct values, run)},
                                         {&lh_cli_policy_list_options, offsetof(struct values, policy)},
                                         {&lh_cli_engine_options, offsetof(struct values, engine)},
                                         {&lh_eval_file_options, offsetof(struct values, files)},
                                         {&lh_cli_common_options, offsetof(struct values, common)},
                                         {0}};
static const lh_example examples[] = {
    {"longhaul eval needle -m m.h5 --haystack essays/ --policy snapkv,h2o --budget 128,256,50%",
     "two policies at three budgets beside the full cache"},
    {"mpirun -n 2 longhaul eval needle -m m.h5 --haystack book.txt --policy all --budget 512 --length 2000,6000 --keys "
     "4 "
     "-o needle.h5",
     "all policies, four needles of which one is asked for, on two ranks"},
    {"longhaul eval needle -m m.h5 --haystack essays/ --policy 'ada-snapkv,ada-snapkv --pool-size 31' --budget 256",
     "what one part of a policy does"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "eval needle",
    .usage = "-m FILE --haystack FILE|FOLDER [options]",
    .summary = "Hide a sentence in a long text and ask for it",
    .text =
        "For every length, depth and seed a prompt is made; one prefill of it serves all policies and budgets (a "
        "policy "
        "that evicts while it prefills takes one of its own). An answer is exact when it has the words of the secret "
        "one "
        "behind the other, whatever their case and the punctuation; the other measure is the share of these words that "
        "it has. Prompts that the full cache does not answer tell nothing of policies: a second mean leaves them "
        "out.\n\nCtrl-C writes what there is, and ends with code 75.",
    .groups = groups,
    .examples = examples};

typedef struct run {
    lh_eval_task task;
    const struct values *v;
    int64_t *lengths, length_count;
    double *depths;
    int64_t depth_count;
    lh_needle_request request;
    lh_needle_result result;
    lh_buf haystack;
} run;

static lh_status means(const void *result, lh_table *out)
{
    return lh_needle_means(result, out);
}

static lh_status print(const void *result, lh_buf *out)
{
    return lh_needle_print(result, out);
}

static const lh_table *table(const void *result, int64_t i, const char **name)
{
    *name = "prompts";
    return i == 0 ? &((const lh_needle_result *)result)->prompts : NULL;
}

/* What can be refused before anything is opened; the same on all ranks. */
static lh_status check(run *r)
{
    lh_status st = LH_OK;
    const struct values *v = r->v;
    LH_TRY(lh_policy_list_resolve(&r->task.policies, &v->policy));
    LH_TRY(lh_eval_read_lengths("length", v->run.length, &r->lengths, &r->length_count));
    LH_TRY(lh_eval_read_shares("depth", v->needle.depth, &r->depths, &r->depth_count));
    LH_TRY(lh_eval_read_words("scenario", v->needle.scenario, lh_scenario_names, r->request.scenarios));
    r->request.form = (lh_needle_form){.haystack = "",
                                       .needle = v->needle.needle,
                                       .question = v->needle.question,
                                       .keys = v->needle.keys,
                                       .chat_template = v->run.chat_template,
                                       .system = v->run.system};
    LH_TRY(lh_needle_check(&r->request.form));
    LH_TRY(lh_eval_check_files(&r->task, (const char *const[]){v->engine.model, v->needle.haystack, NULL}));
done:
    return st;
}

static lh_status load(void *self)
{
    lh_status st = LH_OK;
    run *r = self;
    lh_texts texts = {0};
    LH_TRY(lh_texts_read(&texts, "--haystack", r->v->needle.haystack));
    LH_TRY(lh_texts_join(&texts, &r->haystack));
done:
    lh_texts_clear(&texts);
    return st;
}

static lh_status run_needle(lh_call *call)
{
    lh_status st = LH_OK;
    const struct values *v = call->values;
    run r = {.v = v};
    r.task = (lh_eval_task){.call = call,
                            .name = "needle",
                            .engine_options = &v->engine,
                            .files = &v->files,
                            .result = &r.result,
                            .means = means,
                            .print = print,
                            .table = table};
    LH_TRY(check(&r));
    LH_TRY(lh_eval_open(&r.task, load, &r));
    lh_needle_request *q = &r.request;
    LH_TRY(lh_eval_chat(&r.task, &v->run, &q->form.chat));
    if (r.haystack.data) q->form.haystack = r.haystack.data;
    q->form.haystack_bytes = r.haystack.bytes;
    q->policies = &r.task.policies;
    q->lengths = r.lengths;
    q->length_count = r.length_count;
    q->depths = r.depths;
    q->depth_count = r.depth_count;
    q->seed = (uint64_t)v->run.seed;
    q->seeds = v->needle.seeds;
    q->max_new = v->run.max_new;
    q->together = v->run.together;
    q->progress = (lh_eval_progress){&r.task, lh_eval_show};
    LH_TRY(lh_comm_agree(lh_engine_comm(r.task.engine), lh_eval_warn(&r.task, r.lengths, r.length_count)));
    LH_TRY(lh_needle_run(&r.result, r.task.engine, q));
    LH_TRY(lh_eval_finish(&r.task));
done:
    lh_needle_result_clear(&r.result);
    lh_eval_clear(&r.task);
    lh_buf_clear(&r.haystack);
    lh_free(r.lengths);
    lh_free(r.depths);
    return st;
}

const lh_command lh_command_eval_needle = {&syntax, sizeof(struct values), run_needle, NULL};
