/* eval_recall.c - `eval recall`: options and output of the task of eval/recall.h. */
#include "base/hash.h"
#include "lab/eval/eval_common.h"
#include "lab/eval/input_files.h"
#include "lab/eval/recall.h"

struct recall_options {
    const char *haystack, *templates, *kinds;
    int64_t steps, keys, seeds;
};

struct values {
    lh_eval_values eval;
    struct recall_options recall;
};

#define FIELD(member) LH_FIELD(struct recall_options, member)
static const lh_option recall_rows[] = {
    {.type = LH_OPT_STR,
     .required = 1,
     .name = "haystack",
     FIELD(haystack),
     .arg = "FILE|FOLDER",
     .help = "Text that hides the facts: a file, or all '*.txt', '*.md' and '*.markdown' of a folder in the order of "
             "their names. Every window uses a different section."},
    {.type = LH_OPT_STR,
     .required = 1,
     .name = "templates",
     FIELD(templates),
     .arg = "FILE",
     .help = "Kinds of facts: a JSON file with their sentences, questions, answers and lists of words, such as "
             "examples/facts.json."},
    {.type = LH_OPT_STR,
     .name = "kinds",
     FIELD(kinds),
     .arg = "LIST",
     .help = "Only these kinds of '--templates': their names, or what they are for ('for' in the file)."},
    {.type = LH_OPT_I64,
     .name = "keys",
     FIELD(keys),
     .arg = "N",
     .def = "4",
     .min = 1,
     .max = LH_NEEDLE_KEYS,
     .help =
         "Facts of a window, of all kinds in turn, at equal distances in prompt and fed tokens; each is asked for."},
    {.type = LH_OPT_TOKENS,
     .name = "steps",
     FIELD(steps),
     .arg = "TOKENS",
     .def = "600",
     .min = 1,
     .max = 1 << 20,
     .help = "Tokens of the text that are fed after the prompt, one by one where the policy evicts while decoding. The "
             "full cache's logits at these tokens are kept in memory."},
    {.type = LH_OPT_I64,
     .name = "seeds",
     FIELD(seeds),
     .arg = "N",
     .def = "4",
     .min = 1,
     .max = 1 << 20,
     .help = "Windows per length, with different facts and texts: seeds from --seed on."},
    {0}};
#undef FIELD
static const lh_option_table recall_table = {"recall", recall_rows};

static const lh_option run_rows[] = {
    {.type = LH_OPT_STR,
     .name = "length",
     LH_FIELD(lh_eval_options, length),
     .arg = "LIST",
     .def = "450",
     .help = "Prompt lengths in tokens, such as '450,2000': the part of a window that is prefilled."},
    {LH_EVAL_CHAT,
     .help = "Put the text and each question into the user's turn of the model's chat format. auto: on if the model "
             "has one."},
    {.type = LH_OPT_STR, .name = "system", LH_FIELD(lh_eval_options, system), .arg = "TEXT", .help = "System message."},
    {LH_EVAL_SEED, .help = "Random seed of facts, texts and policies."},
    {0}};
static const lh_option_table run_table = {"windows", run_rows};

static const lh_option_group groups[] = {{&recall_table, offsetof(struct values, recall)},
                                         {&run_table, offsetof(struct values, eval.run)},
                                         {&lh_shell_chat_options, offsetof(struct values, eval.run.format)},
                                         LH_EVAL_GROUPS{0}};
static const lh_example examples[] = {
    {"longhaul eval recall -m m.h5 --haystack book.txt --templates examples/facts.json --budget 160 --policy "
     "'h2o,roco,snapkv --evict every:64'",
     "which facts three policies still know after 600 tokens of decoding"},
    {"mpirun --bind-to none -n 2 longhaul eval recall -m m.h5 --haystack essays/ --templates examples/facts.json "
     "--kinds reporting --keys 8 --length 1000 --steps 4000 --budget 256,512 --policy 'ahakv,vase' -o recall.h5",
     "a long trace with eight facts in every window, on two ranks"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "eval recall",
    .usage = "-m FILE --haystack FILE|FOLDER --templates FILE [options]",
    .summary = "Ask for facts of known age after a policy has evicted while decoding",
    .text =
        "A window of text holds facts at equal distances. Its first --length tokens are prefilled, and the next "
        "--steps are fed as if the model had generated them (teacher forcing), so the policy evicts as while decoding. "
        "Then each fact is asked for, always from the same state of the cache, and its answer is fed: reported are its "
        "negative log-likelihood, the share of its tokens that are the most likely ones, and how many answers have "
        "only such tokens, by kind of fact and by age; of the fed tokens the KL divergence from the full cache and "
        "their excess of log-likelihood. A policy that evicts only once keeps all fed tokens: see entries_kept. Every "
        "policy has its own prefill.\n\n" LH_EVAL_INTERRUPT,
    .groups = groups,
    .examples = examples};

typedef struct run {
    lh_eval_task task;
    const struct values *v;
    lh_recall_request request;
    lh_recall_result result;
    lh_buf haystack;
    lh_needle_kinds kinds; /* on rank 0 */
} run;

static lh_status recall_means(const void *self, lh_table *out)
{
    return lh_recall_means(&((const run *)self)->result, out);
}

static lh_status recall_curve(const void *self, lh_table *out)
{
    return lh_recall_curve(&((const run *)self)->result, out);
}

static lh_status print_recall(const void *self, lh_buf *out)
{
    return lh_recall_print(&((const run *)self)->result, out);
}

static lh_status load_input(void *self)
{
    lh_status st = LH_OK;
    run *r = self;
    const struct recall_options *o = &r->v->recall;
    lh_texts texts = {0};
    uint64_t hashes[2];
    LH_TRY_DONE(lh_needle_kinds_read(&r->kinds, o->templates, o->kinds, &hashes[1]));
    LH_TRY_DONE(lh_needle_kinds_check(&r->kinds, o->keys));
    LH_TRY_DONE(lh_texts_read(&texts, "--haystack", o->haystack));
    LH_TRY_DONE(lh_texts_join(&texts, &r->haystack));
    hashes[0] = lh_hash64(r->haystack.data, r->haystack.bytes);
    r->task.data = lh_hash64(hashes, sizeof hashes);
done:
    lh_texts_clear(&texts);
    return st;
}

static lh_status recall_facts(void *self)
{
    run *r = self;
    const struct values *v = r->v;
    r->request =
        (lh_recall_request){.setup = lh_eval_setup_of(&r->task),
                            .form = {.haystack = r->haystack.data ? r->haystack.data : "",
                                     .haystack_bytes = r->haystack.bytes,
                                     .kinds = r->kinds,
                                     .keys = v->recall.keys},
                            .chat = {r->task.chat, v->eval.run.format.format, v->eval.run.system, r->task.arguments},
                            .lengths = r->task.lengths,
                            .length_count = r->task.length_count,
                            .steps = v->recall.steps,
                            .seeds = v->recall.seeds};
    return lh_recall_run(&r->result, r->task.engine, &r->request);
}

static const lh_eval_kind kind = {
    .name = "recall",
    .load = load_input,
    .run = recall_facts,
    .means = recall_means,
    .curve = recall_curve,
    .print = print_recall,
    .tables = {{"facts", offsetof(run, result.facts)}, {"traces", offsetof(run, result.traces)}}};

static lh_status run_recall(lh_call *call)
{
    const struct values *v = call->values;
    run r = {.v = v};
    r.task = (lh_eval_task){.kind = &kind, .self = &r, .call = call};
    lh_status st = lh_eval_run(&r.task);
    lh_recall_result_clear(&r.result);
    lh_needle_kinds_clear(&r.kinds);
    lh_buf_clear(&r.haystack);
    return st;
}

const lh_command lh_command_eval_recall = {&syntax, sizeof(struct values), run_recall, NULL};
