/* eval_ppl.c - `eval ppl`: options and output of the task of eval/ppl.h. */
#include "lab/eval/eval_common.h"
#include "lab/eval/ppl.h"

struct ppl_options {
    const char *text, *context;
    int64_t score, stride, count, bins;
};

struct values {
    lh_eval_values eval;
    struct ppl_options ppl;
};

#define FIELD(member) LH_FIELD(struct ppl_options, member)
static const lh_option ppl_rows[] = {
    {.type = LH_OPT_STR,
     .required = 1,
     .name = "text",
     FIELD(text),
     .arg = "FILE|FOLDER",
     .help = "Texts that are scored: a file, or all '*.txt', '*.md' and '*.markdown' of a folder."},
    {.type = LH_OPT_STR,
     .name = "context",
     FIELD(context),
     .arg = "LIST",
     .def = "2000",
     .help = "Tokens before those that are scored, such as '2000,6000': the prompt, which is evicted. The same tokens "
             "are scored after each."},
    {.type = LH_OPT_TOKENS,
     .name = "score",
     FIELD(score),
     .arg = "TOKENS",
     .def = "512",
     .min = 1,
     .max = INT64_C(1) << 30,
     .help = "Tokens that are scored after the context."},
    {.type = LH_OPT_TOKENS,
     .name = "stride",
     FIELD(stride),
     .arg = "TOKENS",
     .def = "0",
     .max = INT64_C(1) << 40,
     .help = "Tokens from one window to the next, at least --score; as many as --score: a sliding window that scores "
             "every token once. 0: windows do not overlap."},
    {.type = LH_OPT_I64,
     .name = "count",
     FIELD(count),
     .arg = "N",
     .def = "8",
     .max = 1 << 30,
     .help = "Maximum number of windows, spread evenly over all that the texts have. 0: all."},
    {.type = LH_OPT_I64,
     .name = "bins",
     FIELD(bins),
     .arg = "N",
     .def = "8",
     .min = 1,
     .max = 1 << 20,
     .help = "Points of the curve over positions after the context."},
    {0}};
#undef FIELD
static const lh_option_table ppl_table = {"perplexity", ppl_rows};

static const lh_option run_rows[] = {
    {LH_EVAL_SEED, .help = "Random seed of the policies."}, {LH_EVAL_GIVEN}, {LH_EVAL_TOGETHER}, {0}};
static const lh_option_table run_table = {"prompts", run_rows};

static const lh_option_group groups[] = {
    {&ppl_table, offsetof(struct values, ppl)}, {&run_table, offsetof(struct values, eval.run)}, LH_EVAL_GROUPS{0}};
static const lh_example examples[] = {
    {"longhaul eval ppl -m m.h5 --text book.txt --context 2000,6000 --policy snapkv,streaming --budget 256,20%",
     "two policies at two budgets after two lengths of context, and the full cache"},
    {"mpirun --bind-to none -n 2 longhaul eval ppl -m m.h5 --text book.txt --context 1024 --score 256 --stride 256 "
     "--count 0 --policy 'h2o --evict every' --budget 128 -o ppl.h5",
     "a sliding window over a whole book and a policy that evicts while decoding, on two ranks"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "eval ppl",
    .usage = "-m FILE --text FILE|FOLDER [options]",
    .summary = "Perplexity of a text after an evicted context",
    .text = "The context of every window is prefilled and evicted; the tokens after it are fed to the cache of each "
            "policy and budget (teacher forcing). Reported are the perplexity, how much the mean negative "
            "log-likelihood exceeds that with the full cache, and its curve over positions after the context. The "
            "first of these tokens is predicted by the prefill, so it is the same for all policies that evict at its "
            "end. One prefill of a window serves all policies and budgets (a policy that evicts during prefill needs "
            "its own).\n\n" LH_EVAL_INTERRUPT,
    .groups = groups,
    .examples = examples};

typedef struct run {
    lh_eval_task task;
    const struct values *v;
    lh_ppl_request request;
    lh_ppl_result result;
    lh_texts texts;
} run;

static lh_status ppl_means(const void *self, lh_table *out)
{
    return lh_ppl_means(&((const run *)self)->result, out);
}

static lh_status ppl_curve(const void *self, lh_table *out)
{
    return lh_ppl_curve(&((const run *)self)->result, out);
}

static lh_status print_ppl(const void *self, lh_buf *out)
{
    return lh_ppl_print(&((const run *)self)->result, out);
}

static lh_status check_ppl(void *self)
{
    run *r = self;
    return lh_eval_read_lengths("context", r->v->ppl.context, &r->task.lengths, &r->task.length_count);
}

static lh_status load_texts(void *self)
{
    run *r = self;
    LH_TRY(lh_texts_read(&r->texts, "--text", r->v->ppl.text));
    r->task.data = lh_texts_hash(&r->texts);
    return LH_OK;
}

static lh_status score_texts(void *self)
{
    run *r = self;
    const struct ppl_options *o = &r->v->ppl;
    r->request = (lh_ppl_request){.setup = lh_eval_setup_of(&r->task),
                                  .texts = &r->texts,
                                  .contexts = r->task.lengths,
                                  .context_count = r->task.length_count,
                                  .score = o->score,
                                  .stride = o->stride,
                                  .count = o->count,
                                  .bins = o->bins};
    return lh_ppl_run(&r->result, r->task.engine, &r->request);
}

static const lh_eval_kind kind = {.name = "ppl",
                                  .check = check_ppl,
                                  .load = load_texts,
                                  .run = score_texts,
                                  .means = ppl_means,
                                  .curve = ppl_curve,
                                  .print = print_ppl,
                                  .tables = {{"windows", offsetof(run, result.windows)}}};

static lh_status run_ppl(lh_call *call)
{
    const struct values *v = call->values;
    run r = {.v = v};
    r.task = (lh_eval_task){.kind = &kind, .self = &r, .call = call};
    lh_status st = lh_eval_run(&r.task);
    lh_ppl_result_clear(&r.result);
    lh_texts_clear(&r.texts);
    return st;
}

const lh_command lh_command_eval_ppl = {&syntax, sizeof(struct values), run_ppl, NULL};
