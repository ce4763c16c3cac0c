/* eval_needle.c - `eval needle` and `eval quote`: options and output of the tasks of eval/needle.h. */
#include <string.h>

#include "base/hash.h"
#include "lab/eval/eval_common.h"
#include "lab/eval/input_files.h"
#include "lab/eval/needle.h"

struct needle_options {
    const char *haystack, *needle, *question, *templates, *kinds, *depth, *scenario;
    int64_t keys, seeds;
};

struct values {
    lh_eval_values eval;
    struct needle_options needle;
};

#define NEEDLE "The secret passphrase for the {name} is '{secret}'."
#define QUESTION "What is the secret passphrase for the {name}?"
#define FIELD(member) LH_FIELD(struct needle_options, member)
#define TEXTS .type = LH_OPT_STR, .required = 1, .name = "haystack", FIELD(haystack), .arg = "FILE|FOLDER"
#define PLACES .type = LH_OPT_STR, .name = "depth", FIELD(depth), .arg = "LIST|FROM:TO:COUNT", .def = "0.05:0.95:12"
#define SEEDS .type = LH_OPT_I64, .name = "seeds", FIELD(seeds), .arg = "N", .def = "1", .min = 1, .max = 1 << 20
static const lh_option needle_rows[] = {
    {TEXTS,
     .help = "Text that hides the needles: a file, or all '*.txt', '*.md' and '*.markdown' of a folder in the order of "
             "their names. "
             "Every prompt uses a different section."},
    {.type = LH_OPT_STR,
     .name = "needle",
     FIELD(needle),
     .arg = "TEXT",
     .def = NEEDLE,
     .help =
         "The sentence that is hidden; {secret} becomes an adjective, an animal and a number, {name} what the secret "
         "is for."},
    {.type = LH_OPT_STR, .name = "question", FIELD(question), .arg = "TEXT", .def = QUESTION, .help = "The question."},
    {.type = LH_OPT_STR,
     .name = "templates",
     FIELD(templates),
     .arg = "FILE",
     .help =
         "Several kinds of facts instead of the one: a JSON file with their sentences, questions, answers and lists "
         "of words, such as examples/facts.json. One prompt for each kind; tables by kind."},
    {.type = LH_OPT_STR,
     .name = "kinds",
     FIELD(kinds),
     .arg = "LIST",
     .help = "Only these kinds of '--templates': their names, or what they are for ('for' in the file)."},
    {.type = LH_OPT_I64,
     .name = "keys",
     FIELD(keys),
     .arg = "N",
     .def = "1",
     .min = 1,
     .max = LH_NEEDLE_KEYS,
     .help = "Number of needles, each with its own name and secret, of all kinds in turn; the question asks for one, "
             "the others are placed at random."},
    {PLACES, .help = "Positions of the needle, from 0 (beginning) to 1 (end): one prompt for each."},
    {SEEDS, .help = "Prompts per length and depth, with different secrets and texts: seeds from --seed on."},
    {LH_EVAL_SCENARIO, FIELD(scenario)},
    {0}};
static const lh_option quote_rows[] = {
    {TEXTS, .help = "Text with the sentences that are asked for: a file, or all '*.txt', '*.md' and '*.markdown' of a "
                    "folder in the order of their names. Every prompt uses a different section."},
    {.type = LH_OPT_STR,
     .name = "question",
     FIELD(question),
     .arg = "TEXT",
     .def = "Quote the sentence of the text above that begins with: \"{name}\"",
     .help = "The question; {name} becomes the first five words of the sentence."},
    {PLACES, .help = "Positions of the sentence, from 0 (beginning) to 1 (end): one prompt for each."},
    {SEEDS, .help = "Prompts per length and depth, with different texts: seeds from --seed on."},
    {LH_EVAL_SCENARIO, FIELD(scenario)},
    {0}};
#undef FIELD
static const lh_option_table needle_table = {"needle", needle_rows}, quote_table = {"quote", quote_rows};

static const lh_option run_rows[] = {
    {LH_EVAL_LENGTH, .help = "Prompt lengths in tokens, question and chat format included, such as '2000,6000'. The "
                             "haystack fills the rest."},
    {LH_EVAL_MAX_NEW, .def = "32", .min = 1, .max = 1 << 30, .help = "Maximum tokens of an answer."},
    {LH_EVAL_CHAT,
     .help = "Put text and question into the user's turn of the model's chat format. auto: on if the model has one."},
    {.type = LH_OPT_STR, .name = "system", LH_FIELD(lh_eval_options, system), .arg = "TEXT", .help = "System message."},
    {LH_EVAL_SEED, .help = "Random seed of secrets, texts and policies."},
    {LH_EVAL_GIVEN},
    {LH_EVAL_TOGETHER},
    {0}};
static const lh_option_table run_table = {"prompts", run_rows};

#define GROUPS(table)                                                                                 \
    {                                                                                                 \
        {&(table), offsetof(struct values, needle)}, {&run_table, offsetof(struct values, eval.run)}, \
            {&lh_shell_chat_options, offsetof(struct values, eval.run.format)}, LH_EVAL_GROUPS        \
        {                                                                                             \
            0                                                                                         \
        }                                                                                             \
    }
static const lh_option_group groups[] = GROUPS(needle_table), quote_groups[] = GROUPS(quote_table);
static const lh_example examples[] = {
    {"longhaul eval needle -m m.h5 --haystack essays/ --policy snapkv,h2o --budget 128,256,50%",
     "two policies at three budgets, and the full cache"},
    {"mpirun --bind-to none -n 2 longhaul eval needle -m m.h5 --haystack book.txt --policy all --budget 512 --length "
     "2000,6000 --keys "
     "4 "
     "-o needle.h5",
     "all policies, four needles of which one is asked for, on two ranks"},
    {"longhaul eval needle -m m.h5 --haystack essays/ --policy 'ada-snapkv,ada-snapkv --pool-size 31' --budget 256",
     "the effect of one part of a policy"},
    {"longhaul eval needle -m m.h5 --haystack essays/ --templates examples/facts.json --kinds reporting --keys 6 "
     "--budget "
     "10%,20% --scenario context-only",
     "four kinds of facts, six facts in every prompt"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "eval needle",
    .usage = "-m FILE --haystack FILE|FOLDER [options]",
    .summary = "Hide a sentence in a long text and ask for it",
    .text = "One prompt for every length, depth, seed and kind of fact; one prefill of it serves all policies and "
            "budgets (a policy "
            "that evicts during prefill needs its own). An answer is exact if it contains the words of the secret in "
            "order, ignoring case and punctuation; the other measure is the share of these words that it contains. "
            "Prompts that the full cache does not answer say nothing about policies: a second mean leaves them "
            "out.\n\n" LH_EVAL_INTERRUPT,
    .groups = groups,
    .examples = examples};

static const lh_example quote_examples[] = {
    {"longhaul eval quote -m m.h5 --haystack essays/ --policy ask-later,snapkv --budget 10%,20% --scenario "
     "context-only",
     "which sentences of a text two policies still know when the question comes later"},
    {0}};
static const lh_syntax quote_syntax = {
    .program = "longhaul",
    .name = "eval quote",
    .usage = "-m FILE --haystack FILE|FOLDER [options]",
    .summary = "Ask for sentences of a long text by their first words",
    .text =
        "One prompt for every length, depth and seed: a section of the text, and a question for the sentence nearest "
        "to the depth that has at least 10 words and a unique beginning. Its first five words are in the question and "
        "begin the answer; up to 16 words that follow are the right answer. Nothing is added to the text, so no "
        "policy can be tuned to what is. Measures and output are those of 'eval needle'.\n\n" LH_EVAL_INTERRUPT,
    .groups = quote_groups,
    .examples = quote_examples};

typedef struct run {
    lh_eval_task task;
    const struct values *v;
    double *depths;
    int64_t depth_count;
    lh_needle_request request;
    lh_needle_result result;
    lh_buf haystack;
    lh_needle_kinds kinds; /* of a file: on rank 0 */
} run;

static lh_status needle_means(const void *self, lh_table *out)
{
    return lh_needle_means(&((const run *)self)->result, out);
}

static lh_status print_needle(const void *self, lh_buf *out)
{
    return lh_needle_print(&((const run *)self)->result, out);
}

static lh_status check_needle(void *self)
{
    run *r = self;
    const struct values *v = r->v;
    LH_TRY(lh_eval_read_shares("depth", v->needle.depth, &r->depths, &r->depth_count));
    LH_TRY(lh_eval_read_scenarios(&r->task, v->needle.scenario, r->request.scenarios));
    r->request.form = (lh_needle_form){.haystack = "", .keys = v->needle.keys};
    r->request.names_kinds = v->needle.templates != NULL;
    if (v->needle.kinds && !v->needle.templates)
        LH_FAIL(LH_EUSAGE, "'--kinds' chooses from the kinds of '--templates': give that file, too");
    if (!v->needle.templates) {
        LH_TRY(lh_needle_kinds_plain(&r->kinds, v->needle.needle, v->needle.question));
        return lh_needle_kinds_check(&r->kinds, v->needle.keys);
    }
    if (strcmp(v->needle.needle, NEEDLE) != 0 || strcmp(v->needle.question, QUESTION) != 0)
        LH_FAIL(LH_EUSAGE, "'--templates' says sentence and question: give either it, or '--needle' and '--question'");
    return LH_OK;
}

static lh_status check_quote(void *self)
{
    run *r = self;
    const struct values *v = r->v;
    LH_TRY(lh_eval_read_shares("depth", v->needle.depth, &r->depths, &r->depth_count));
    LH_TRY(lh_eval_read_scenarios(&r->task, v->needle.scenario, r->request.scenarios));
    r->request.form = (lh_needle_form){.haystack = ""};
    return lh_needle_kinds_of_quotes(&r->kinds, v->needle.question);
}

/* The kinds of '--templates'; *hash: of the file. */
static lh_status load_kinds(run *r, uint64_t *hash)
{
    const struct needle_options *o = &r->v->needle;
    if (!o->templates) return LH_OK;
    LH_TRY(lh_needle_kinds_read(&r->kinds, o->templates, o->kinds, hash));
    return lh_needle_kinds_check(&r->kinds, o->keys);
}

static lh_status load_haystack(void *self)
{
    lh_status st = LH_OK;
    run *r = self;
    lh_texts texts = {0};
    uint64_t hashes[2] = {0};
    LH_TRY_DONE(load_kinds(r, &hashes[1]));
    LH_TRY_DONE(lh_texts_read(&texts, "--haystack", r->v->needle.haystack));
    LH_TRY_DONE(lh_texts_join(&texts, &r->haystack));
    hashes[0] = lh_hash64(r->haystack.data, r->haystack.bytes);
    r->task.data = r->v->needle.templates ? lh_hash64(hashes, sizeof hashes) : hashes[0];
done:
    lh_texts_clear(&texts);
    return st;
}

static lh_status ask_needles(void *self)
{
    run *r = self;
    const struct values *v = r->v;
    lh_needle_request *q = &r->request;
    q->chat = (lh_eval_chat){r->task.chat, v->eval.run.format.format, v->eval.run.system, r->task.arguments};
    if (r->haystack.data) q->form.haystack = r->haystack.data;
    q->form.kinds = r->kinds;
    q->form.haystack_bytes = r->haystack.bytes;
    q->setup = lh_eval_setup_of(&r->task);
    q->lengths = r->task.lengths;
    q->length_count = r->task.length_count;
    q->depths = r->depths;
    q->depth_count = r->depth_count;
    q->seeds = v->needle.seeds;
    return lh_needle_run(&r->result, r->task.engine, q);
}

static const lh_eval_kind kind = {.name = "needle",
                                  .check = check_needle,
                                  .load = load_haystack,
                                  .run = ask_needles,
                                  .means = needle_means,
                                  .print = print_needle,
                                  .tables = {{"prompts", offsetof(run, result.prompts)}}};

static const lh_eval_kind quote_kind = {.name = "quote",
                                        .check = check_quote,
                                        .load = load_haystack,
                                        .run = ask_needles,
                                        .means = needle_means,
                                        .print = print_needle,
                                        .tables = {{"prompts", offsetof(run, result.prompts)}}};

static lh_status run_kind(lh_call *call, const lh_eval_kind *of)
{
    const struct values *v = call->values;
    run r = {.v = v};
    r.task = (lh_eval_task){.kind = of, .self = &r, .call = call};
    lh_status st = lh_eval_run(&r.task);
    lh_needle_result_clear(&r.result);
    lh_buf_clear(&r.haystack);
    lh_needle_kinds_clear(&r.kinds);
    lh_free(r.depths);
    return st;
}

static lh_status run_needle(lh_call *call)
{
    return run_kind(call, &kind);
}

static lh_status run_quote(lh_call *call)
{
    return run_kind(call, &quote_kind);
}

const lh_command lh_command_eval_needle = {&syntax, sizeof(struct values), run_needle, NULL};
const lh_command lh_command_eval_quote = {&quote_syntax, sizeof(struct values), run_quote, NULL};
