/* tasks.c - `eval tasks`: asks the records of files (task_files.h) of every policy and budget, with the question in the
 * prompt or after the eviction, and scores the answers by metrics with names (task_metrics.h). */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/minmax.h"
#include "lab/eval/eval_common.h"
#include "lab/eval/questions.h"
#include "lab/eval/task_prompts.h"
#include "lab/eval/task_scores.h"

struct task_options {
    lh_strings data;
    const char *task, *metric, *jieba, *length, *scenario;
    int64_t count, max_prompt;
    int truncate;
};

struct values {
    lh_eval_values eval;
    struct task_options tasks;
};

#define FIELD(member) LH_FIELD(struct task_options, member)
static const lh_option task_rows[] = {
    {.type = LH_OPT_LIST,
     .name = "data",
     FIELD(data),
     .arg = "FILE|FOLDER",
     .help = "Another file or folder of tasks, as the arguments are."},
    {.type = LH_OPT_STR,
     .name = "task",
     FIELD(task),
     .arg = "LIST",
     .help = "Names of tasks, such as 'hotpotqa,qmsum'. Default: all tasks of the files that can be scored."},
    {.type = LH_OPT_STR,
     .name = "metric",
     FIELD(metric),
     .arg = "NAME",
     .word = lh_task_metric_name,
     .help = "Score all answers by this metric: string-match-all, string-match-part (RULER), f1, exact (SQuAD), "
             "f1-characters, f1-chinese, rouge-l, rouge-l-longbench, rouge-l-chinese, classification, "
             "code-similarity, retrieval, count (LongBench), first-integer, first-number, last-integer, word, name, "
             "option, option-of-code, "
             "leading-integers (InfiniteBench), stated-option (LongBench v2) or leading-lines. Default: the metric of "
             "the record or of its benchmark, else f1."},
    {.type = LH_OPT_STR,
     .name = "jieba",
     FIELD(jieba),
     .arg = "FOLDER",
     .help = "Dictionary of Chinese words, for multifieldqa_zh, dureader and vcsum of LongBench. It is the folder "
             "'jieba' of the Python package jieba 0.42.1, which the published script uses. Default: these tasks are "
             "left out."},
    {.type = LH_OPT_I64,
     .name = "count",
     FIELD(count),
     .arg = "N",
     .def = "0",
     .max = 1 << 30,
     .help = "Ask the first N records of every task only. 0: all."},
    {.type = LH_OPT_STR,
     .name = "length",
     FIELD(length),
     .arg = "LIST",
     .help =
         "Maximum tokens of prompt and answer, such as '4k,8k'. A longer prompt is truncated. Default: no prompt is "
         "truncated, and one that the model has no positions for is an error."},
    {.type = LH_OPT_TOKENS,
     .name = "max-prompt",
     FIELD(max_prompt),
     .arg = "TOKENS",
     .def = "0",
     .max = INT64_C(1) << 40,
     .help = "Maximum tokens of the prompt alone, such as 31500. They are counted before the prompt is put into the "
             "chat format, as max_length of LongBench's scripts. 0: any number."},
    {.type = LH_OPT_ENUM,
     .name = "truncate",
     FIELD(truncate),
     .choices = lh_truncation_names,
     .def = "middle",
     .help = "What a prompt that is too long loses. middle: all but its first and its last half, as in LongBench and "
             "InfiniteBench; start, end: that part of its context, the latter as in kvpress."},
    {LH_EVAL_SCENARIO, FIELD(scenario)},
    {0}};
#undef FIELD
static const lh_option_table task_table = {"tasks", task_rows};

static const lh_option run_rows[] = {
    {LH_EVAL_MAX_NEW, .def = "0", .max = 1 << 30,
     .help = "Maximum tokens of an answer. 0: as the record or its benchmark says, else 32."},
    {LH_EVAL_CHAT,
     .help = "Put context and question into the user's turn of the model's chat format, and begin the answer in the "
             "model's turn; few-shot examples and code of LongBench stay plain text, as published. auto: on if the "
             "model has a chat format."},
    {.type = LH_OPT_STR, .name = "system", LH_FIELD(lh_eval_options, system), .arg = "TEXT", .help = "System message."},
    {LH_EVAL_SEED, .help = "Random seed of the policies."},
    {LH_EVAL_GIVEN},
    {LH_EVAL_TOGETHER},
    {0}};
static const lh_option_table run_table = {"prompts", run_rows};

static const lh_option_group groups[] = {{&task_table, offsetof(struct values, tasks)},
                                         {&run_table, offsetof(struct values, eval.run)},
                                         {&lh_shell_chat_options, offsetof(struct values, eval.run.format)},
                                         LH_EVAL_GROUPS{0}};
static const lh_example examples[] = {
    {"longhaul eval tasks LongBench/data -m m.h5 --length 8k --policy snapkv,h2o --budget 10%,25% -o lb.h5",
     "two policies at two budgets, and the full cache, on all data sets of LongBench"},
    {"tools/make_tasks.py ruler --haystack essays/ --tokenizer m.h5 --length 4k,8k > ruler.jsonl && longhaul eval "
     "tasks "
     "ruler.jsonl -m m.h5 --budget 10% --csv ruler.csv",
     "the synthetic tasks of RULER, made for the model's tokenizer"},
    {"mpirun --bind-to none -n 2 longhaul eval tasks squad.json -m m.h5 --count 100 --scenario context-only --policy "
     "all "
     "--budget 10% -o squad.h5",
     "all policies, questions after the eviction, on two ranks"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "eval tasks",
    .usage = "FILE|FOLDER… -m FILE [options]",
    .summary = "Ask questions of JSON files, such as those of published benchmarks, and score the answers",
    .text =
        "Files are JSON Lines or a JSON array of records {\"context\": TEXT, \"question\": TEXT, \"answers\": [TEXT, "
        "…], "
        "\"choices\": [TEXT, …], \"answer_prefix\": TEXT, \"task\": NAME, \"max_new_tokens\": N, \"metric\": NAME}, of "
        "which the first three are required. The files of SQuAD, RULER, LongBench, LongBench v2, MiniLongBench and "
        "InfiniteBench and the tables of kvpress are read as they are published, with the published prompts, lengths "
        "of "
        "answers and metrics.\n\n"
        "Scores are in %; the average is that of the tasks. One prefill of a prompt serves all policies and budgets (a "
        "policy that evicts during prefill needs its own).\n\n" LH_EVAL_INTERRUPT,
    .max_args = 4096,
    .reads_args = 1,
    .groups = groups,
    .examples = examples};

typedef char case_name[LH_PROMPT_NAME_BYTES];

typedef struct run {
    lh_eval_task task;
    const struct values *v;
    lh_strings paths;
    int64_t *lengths, length_count; /* of '--length' */
    int scenarios[LH_SCENARIOS];
    lh_task_records records; /* on rank 0 */
    lh_segmenter *words;     /* on rank 0; NULL: none */
    lh_eval_setup setup;
    lh_question_task questions;
    lh_question_sizes sizes;
    int64_t n;         /* records */
    case_name *names;  /* [max(1, length_count), n], before the scenario */
    int64_t truncated; /* prompts, on rank 0 */
    lh_task_scores scores;
    /* the current prompt, on rank 0: */
    const lh_task_record *record;
    int64_t length, context_tokens; /* length: as of the tables */
} run;

/* ---- prompts ---- */

static int64_t positions_of(const run *r)
{
    return lh_engine_get(r->task.engine)->config->max_positions;
}

/* The length that the tables report: of '--length', of the record, of '--max-prompt', or the positions of the model.
 * Prompts are numbered by length and record, the last changing fastest. */
static int64_t length_of(const run *r, int64_t number)
{
    const int64_t own = r->records.at[number % r->n].length;
    const int64_t max_prompt = r->v->tasks.max_prompt;
    return r->length_count ? r->lengths[number / r->n] : own ? own : max_prompt ? max_prompt : positions_of(r);
}

static int64_t max_new_of(const run *r, const lh_task_record *record)
{
    const int64_t asked = r->v->eval.run.max_new;
    return asked ? asked : record->max_new ? record->max_new : 32;
}

static lh_status make_record(void *self, int64_t number, lh_eval_prompt *out)
{
    run *r = self;
    const lh_task_record *record = &r->records.at[number % r->n];
    lh_task_prompt made = {.prompt = out};
    r->record = record;
    r->length = length_of(r, number);
    LH_TRY(lh_task_prompt_make(&made, lh_engine_tokenizer(r->task.engine), record,
                               &(lh_eval_prompt_text){.question = record->question,
                                                      .joint = record->verbatim ? "" : NULL,
                                                      .prefix = record->prefix,
                                                      .format = record->plain ? NULL : r->questions.chat.format,
                                                      .arguments = r->questions.chat.arguments,
                                                      .system = record->plain ? NULL : r->v->eval.run.system},
                               &(lh_task_limits){.part = (lh_truncation)r->v->tasks.truncate,
                                                 .max_prompt = r->v->tasks.max_prompt,
                                                 .length = r->length_count ? r->length : 0,
                                                 .positions = positions_of(r),
                                                 .max_new = max_new_of(r, record)}));
    out->line = record->line;
    out->max_new = max_new_of(r, record);
    r->context_tokens = made.context_tokens;
    r->truncated += made.left_out > 0;
    return LH_OK;
}

static void describe_record(const void *self, int64_t number, lh_scenario scenario, lh_question_case *out)
{
    const run *r = self;
    lh_question_sizes_describe(&r->sizes, number, scenario, out);
    out->seed = r->setup.seed + (uint64_t)(number % r->n);
    snprintf(out->name, sizeof out->name, "%.100s-%s", r->names[number], lh_scenario_names[scenario]);
}

static lh_status score_record(void *self, const lh_question_answer *answer)
{
    lh_status st = LH_OK;
    run *r = self;
    const lh_task_record *record = r->record;
    lh_buf scored = {0}, expected = {0};
    const char *text = answer->text;
    if (record->first_line) text += strspn(text, "\n");
    lh_task_score score = {.choice = &r->setup.policies->at[answer->policy],
                           .length = r->length,
                           .line = record->line,
                           .tokens = lh_eval_prompt_tokens(answer->prompt, answer->scenario),
                           .context_tokens = r->context_tokens,
                           .scenario = answer->scenario,
                           .task = record->task,
                           .answer = answer->text,
                           .right = &answer->right,
                           .figures = answer->figures};
    LH_TRY_DONE(lh_buf_puts(&scored, ""));
    LH_TRY_DONE(lh_buf_append(&scored, text, (int64_t)(record->first_line ? strcspn(text, "\n") : strlen(text))));
    LH_TRY_DONE(lh_task_metric_score(
        record->metric, scored.data,
        &(lh_task_truth){record->answers, record->answer_count, record->choices, record->choice_count, r->words},
        &score.value));
    LH_TRY_DONE(lh_task_right_answer(&expected, record));
    score.expected = expected.data;
    LH_TRY_DONE(lh_task_scores_add(&r->scores.answers, &score));
done:
    lh_buf_clear(&scored);
    lh_buf_clear(&expected);
    return st;
}

/* ---- before the first prefill ---- */

/* "4096-qa_1-0007", with the number of the file for all but the first; other bytes of a task than letters and digits
 * are underscores. */
static void name_case(const run *r, int64_t number, case_name name)
{
    const lh_task_record *record = &r->records.at[number % r->n];
    char task[48], file[32] = "";
    snprintf(task, sizeof task, "%s", record->task);
    for (char *c = task; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-_@", *c)) *c = '_';
    if (record->file) snprintf(file, sizeof file, "file%lld-", (long long)record->file + 1);
    snprintf(name, sizeof(case_name), "%lld-%s-%s%04lld", (long long)length_of(r, number), task, file,
             (long long)record->line);
}

/* Adds a task, and a length in ascending order, to those of the tables. */
static lh_status add_group(run *r, int64_t number)
{
    lh_task_scores *s = &r->scores;
    const int64_t length = length_of(r, number);
    int64_t t = 0, at = 0;
    const char *task = r->records.at[number % r->n].task;
    while (t < s->task_count && strcmp(s->tasks[t], task) != 0) t++;
    if (t == s->task_count) {
        LH_TRY(lh_realloc((void *)&s->tasks, s->task_count + 1, sizeof *s->tasks));
        s->tasks[s->task_count++] = task;
    }
    while (at < s->length_count && s->lengths[at] < length) at++;
    if (at < s->length_count && s->lengths[at] == length) return LH_OK;
    LH_TRY(lh_realloc(&s->lengths, s->length_count + 1, sizeof *s->lengths));
    memmove(s->lengths + at + 1, s->lengths + at, (size_t)(s->length_count - at) * sizeof *s->lengths);
    s->lengths[at] = length;
    s->length_count++;
    return LH_OK;
}

/* Collective. The names of all cases, and, on rank 0, the groups of the tables. */
static lh_status list_cases(run *r)
{
    lh_comm *comm = lh_engine_get(r->task.engine)->comm;
    const int root = lh_comm_rank(comm) == 0;
    r->n = r->records.n;
    LH_TRY(lh_comm_bcast(comm, 0, &r->n, sizeof r->n));
    const int64_t all = r->n * lh_max_i64(r->length_count, 1);
    lh_status st = lh_calloc(&r->names, all, sizeof *r->names);
    for (int64_t i = 0; i < all && st == LH_OK && root; i++) {
        name_case(r, i, r->names[i]);
        st = add_group(r, i);
    }
    LH_TRY(lh_comm_agree(comm, st));
    return lh_comm_bcast(comm, 0, r->names, all * (int64_t)sizeof *r->names);
}

static lh_status check_lengths(const run *r)
{
    for (int64_t l = 0; l < r->length_count; l++)
        if (r->lengths[l] > positions_of(r))
            LH_FAIL(LH_EUSAGE, "'--length %lld' is longer than the %lld positions of the model",
                    (long long)r->lengths[l], (long long)positions_of(r));
    return LH_OK;
}

static lh_status ask_tasks(void *self)
{
    lh_status st = LH_OK;
    run *r = self;
    static const lh_question_ops ops = {make_record, describe_record, score_record};
    const lh_eval_options *o = &r->v->eval.run;
    r->setup = lh_eval_setup_of(&r->task);
    r->scores.setup = &r->setup;
    r->questions = (lh_question_task){.engine = r->task.engine,
                                      .setup = &r->setup,
                                      .scenarios = r->scenarios,
                                      .tables = {&r->scores.answers},
                                      .ops = &ops,
                                      .self = r};
    lh_table_init(&r->scores.answers, lh_task_score_columns);
    LH_TRY_DONE(lh_comm_agree(lh_engine_get(r->task.engine)->comm, check_lengths(r)));
    LH_TRY_DONE(lh_question_task_open(&r->questions,
                                      &(lh_eval_chat){r->task.chat, o->format.format, o->system, r->task.arguments}));
    LH_TRY_DONE(list_cases(r));
    LH_TRY_DONE(lh_question_sizes_measure(&r->sizes, &r->questions, r->n * lh_max_i64(r->length_count, 1)));
    if (r->truncated) lh_info("%lld of %lld prompts are truncated", (long long)r->truncated, (long long)r->sizes.n);
    LH_TRY_DONE(lh_question_task_run(&r->questions, r->sizes.n));
done:
    lh_question_task_close(&r->questions);
    return st;
}

/* ---- the command ---- */

static lh_status check_tasks(void *self)
{
    run *r = self;
    const struct task_options *o = &r->v->tasks;
    const char *arg;
    if (o->metric && !lh_task_metric_find(o->metric)) {
        const char *names[64] = {NULL};
        for (int i = 0; i < 63 && lh_task_metric_name(i); i++) names[i] = lh_task_metric_name(i);
        int found;
        return lh_choice_find(&found, "metric", names, o->metric);
    }
    for (int64_t i = 0; (arg = lh_options_arg(r->task.call->options, i)); i++) {
        LH_TRY(lh_realloc((void *)&r->paths.at, r->paths.n + 1, sizeof *r->paths.at));
        r->paths.at[r->paths.n++] = arg;
    }
    for (int64_t i = 0; i < o->data.n; i++) {
        LH_TRY(lh_realloc((void *)&r->paths.at, r->paths.n + 1, sizeof *r->paths.at));
        r->paths.at[r->paths.n++] = o->data.at[i];
    }
    if (r->paths.n == 0) LH_FAIL(LH_EUSAGE, "'eval tasks' needs a file of tasks");
    if (o->metric && lh_task_metric_find(o->metric)->needs_words && !o->jieba)
        LH_FAIL(LH_EUSAGE, "'--metric %s' needs a dictionary of Chinese words: give '--jieba FOLDER'", o->metric);
    if (o->length) LH_TRY(lh_eval_read_lengths("length", o->length, &r->lengths, &r->length_count));
    return lh_eval_read_scenarios(&r->task, o->scenario, r->scenarios);
}

static lh_status load_tasks(void *self)
{
    run *r = self;
    const struct task_options *o = &r->v->tasks;
    uint64_t hashes[2] = {0};
    if (o->jieba) LH_TRY(lh_segmenter_open(&r->words, o->jieba, &hashes[1]));
    LH_TRY(lh_task_records_read(&r->records,
                                &(lh_task_choice){&r->paths, o->task, o->metric, o->count, o->jieba != NULL}));
    hashes[0] = r->records.hash;
    r->task.data = lh_hash64(hashes, sizeof hashes);
    return LH_OK;
}

static lh_status task_means(const void *self, lh_table *out)
{
    return lh_task_scores_means(&((const run *)self)->scores, out);
}

static lh_status print_tasks(const void *self, lh_buf *out)
{
    return lh_task_scores_print(&((const run *)self)->scores, out);
}

static const lh_eval_kind kind = {.name = "tasks",
                                  .check = check_tasks,
                                  .load = load_tasks,
                                  .run = ask_tasks,
                                  .means = task_means,
                                  .print = print_tasks,
                                  .tables = {{"answers", offsetof(run, scores.answers)}}};

static lh_status run_tasks(lh_call *call)
{
    run r = {.v = call->values};
    r.task = (lh_eval_task){.kind = &kind, .self = &r, .call = call};
    lh_status st = lh_eval_run(&r.task);
    lh_task_scores_clear(&r.scores);
    lh_task_records_clear(&r.records);
    lh_segmenter_close(r.words);
    lh_question_sizes_clear(&r.sizes);
    lh_free((void *)r.paths.at);
    lh_free(r.lengths);
    lh_free(r.names);
    return st;
}

const lh_command lh_command_eval_tasks = {&syntax, sizeof(struct values), run_tasks, NULL};
