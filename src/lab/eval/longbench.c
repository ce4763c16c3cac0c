/* longbench.c - makes the prompts of LongBench, lets every cache answer them (asking.h), and scores the answers. */
#include "lab/eval/longbench.h"

#include <stdio.h>
#include <string.h>

#include "base/minmax.h"
#include "lab/eval/asking.h"

/* What all ranks know of a prompt. */
typedef struct size {
    int64_t tokens[LH_SCENARIOS], answer; /* that are prefilled; of the right answer */
    int64_t max_new, set, line;
} size;

typedef struct run {
    lh_asking asking;
    const lh_longbench_request *request;
    lh_task_scores *out;
    size *sizes; /* [lengths, n] */
    int64_t n;   /* records */
    /* of the current prompt, on rank 0: */
    const lh_longbench_record *record;
    int64_t length, kept; /* kept: tokens of its context */
} run;

static int64_t max_new_of(const run *r, const lh_longbench_set *set)
{
    return r->request->setup.max_new ? r->request->setup.max_new : set->max_new;
}

/* ---- prompts ---- */

/* Appends the question with {input} replaced. */
static lh_status fill_question(lh_buf *out, const lh_longbench_record *record)
{
    static const char mark[] = "{input}";
    const char *text = record->set->question, *at = strstr(text, mark);
    LH_TRY(lh_buf_append(out, text, at ? at - text : (int64_t)strlen(text)));
    return at ? lh_buf_printf(out, "%s%s", record->input, at + strlen(mark)) : LH_OK;
}

/* A prompt that is being made. */
typedef struct maker {
    const run *run;
    lh_tokens ids; /* of the context */
    lh_buf text, question, answer;
    lh_asked_prompt *out;
} maker;

/* The prompt with the first and the last tokens of its context, `kept` in all. */
static lh_status try_context(maker *m, int64_t kept)
{
    const run *r = m->run;
    const lh_tokenizer *tok = lh_engine_tokenizer(r->asking.engine);
    const int64_t first = kept - kept / 2;
    m->text.bytes = 0;
    LH_TRY(lh_buf_puts(&m->text, r->record->set->head));
    if (kept < m->ids.n) {
        LH_TRY(lh_eval_text(tok, m->ids.ids, first, &m->text));
        LH_TRY(lh_eval_text(tok, m->ids.ids + m->ids.n - (kept - first), kept - first, &m->text));
    } else {
        LH_TRY(lh_buf_puts(&m->text, r->record->context));
    }
    return lh_asked_prompt_make(m->out, tok,
                                &(lh_asked_text){.text = m->text.data,
                                                 .bytes = m->text.bytes,
                                                 .question = m->question.data,
                                                 .joint = "",
                                                 .answer = m->answer.data,
                                                 .format = r->record->set->plain ? NULL : r->asking.chat.format,
                                                 .system = r->record->set->plain ? NULL : r->request->chat.system});
}

/* In plain text a blank stands before the answer, unless the question ends with one. */
static lh_status put_answer(maker *m)
{
    const run *r = m->run;
    const int plain = r->record->set->plain || !r->asking.chat.format;
    const char last = m->question.bytes ? m->question.data[m->question.bytes - 1] : '\n';
    const int blank = plain && last != ' ' && last != '\n';
    return lh_buf_printf(&m->answer, "%s%s", blank ? " " : "", r->record->answers[0]);
}

/* Cuts the context in the middle until prompt and answer fit into the length. */
static lh_status fit_context(maker *m, int64_t *kept)
{
    const run *r = m->run;
    const int64_t limit = r->length - max_new_of(r, r->record->set);
    *kept = m->ids.n;
    for (;;) {
        LH_TRY(try_context(m, *kept));
        const int64_t over = lh_asked_prompt_max(m->out) - limit;
        if (over <= 0) return LH_OK;
        if (*kept == 0)
            LH_FAIL(LH_EUSAGE,
                    "line %lld of '%s': its question alone and an answer are %lld tokens: '--length %lld' is too short",
                    (long long)r->record->line, r->record->set->name, (long long)(r->length + over),
                    (long long)r->length);
        *kept = lh_max_i64(*kept - over, 0);
    }
}

/* Prompts are numbered by length and record, the last changing fastest. */
static lh_status make_record(void *self, int64_t number, lh_asked_prompt *out)
{
    lh_status st = LH_OK;
    run *r = self;
    maker m = {.run = r, .out = out};
    r->record = &r->request->data->at[number % r->n];
    r->length = r->request->lengths[number / r->n];
    LH_TRY_DONE(fill_question(&m.question, r->record));
    LH_TRY_DONE(put_answer(&m));
    LH_TRY_DONE(lh_tokenizer_encode(lh_engine_tokenizer(r->asking.engine), r->record->context,
                                    (int64_t)strlen(r->record->context), LH_ENCODE_CONTINUES, &m.ids));
    LH_TRY_DONE(fit_context(&m, &r->kept));
done:
    lh_tokens_clear(&m.ids);
    lh_buf_clear(&m.text);
    lh_buf_clear(&m.question);
    lh_buf_clear(&m.answer);
    return st;
}

static void describe_record(const void *self, int64_t number, lh_scenario scenario, lh_asked_case *out)
{
    const run *r = self;
    const size *s = &r->sizes[number];
    snprintf(out->name, sizeof out->name, "%lld-%s-%04lld-%s", (long long)r->request->lengths[number / r->n],
             lh_longbench_sets[s->set].name, (long long)s->line, lh_scenario_names[scenario]);
    out->seed = r->request->setup.seed + (uint64_t)(number % r->n);
    out->tokens = s->tokens[scenario];
    out->answer = s->answer;
    out->max_new = s->max_new;
}

static lh_status judge_record(void *self, const lh_asked_answer *answer)
{
    run *r = self;
    lh_task_score score = {.choice = &r->request->setup.policies->at[answer->policy],
                           .length = r->length,
                           .number = r->record->line,
                           .tokens = lh_asked_prompt_tokens(answer->prompt, answer->scenario),
                           .units = r->kept,
                           .scenario = answer->scenario,
                           .task = r->record->set->name,
                           .expected = r->record->answers[0],
                           .answer = answer->text,
                           .right = &answer->right,
                           .figures = answer->figures};
    LH_TRY(lh_longbench_score(r->record, answer->text, &score.value));
    return lh_task_scores_add(&r->out->answers, &score);
}

/* ---- before the first prefill ---- */

static lh_status measure_record(run *r, int64_t number)
{
    lh_status st = LH_OK;
    lh_asked_prompt prompt = {0};
    LH_TRY_DONE(make_record(r, number, &prompt));
    size *s = &r->sizes[number];
    for (int c = 0; c < LH_SCENARIOS; c++) s->tokens[c] = lh_asked_prompt_of(&prompt, (lh_scenario)c)->n;
    s->answer = prompt.answer.n;
    s->max_new = max_new_of(r, r->record->set);
    s->set = r->record->set - lh_longbench_sets;
    s->line = r->record->line;
done:
    lh_asked_prompt_clear(&prompt);
    return st;
}

/* Collective. The sizes of all prompts. */
static lh_status measure_records(run *r)
{
    lh_status st = LH_OK;
    lh_comm *comm = lh_engine_get(r->asking.engine)->comm;
    const int root = lh_comm_rank(comm) == 0;
    if (root) r->n = r->request->data->n;
    LH_TRY(lh_comm_bcast(comm, 0, &r->n, sizeof r->n));
    const int64_t all = r->n * r->request->length_count;
    st = lh_calloc(&r->sizes, all, sizeof *r->sizes);
    for (int64_t i = 0; i < all && st == LH_OK && root; i++) st = measure_record(r, i);
    LH_TRY(lh_comm_agree_untimed(comm, st));
    return lh_comm_bcast(comm, 0, r->sizes, all * (int64_t)sizeof *r->sizes);
}

static lh_status check_sizes(const run *r)
{
    const lh_longbench_request *q = r->request;
    const int64_t positions = lh_engine_get(r->asking.engine)->config->max_positions;
    for (int64_t l = 0; l < q->length_count; l++)
        if (q->lengths[l] > positions)
            LH_FAIL(LH_EUSAGE, "'--length %lld' is longer than the %lld positions of the model",
                    (long long)q->lengths[l], (long long)positions);
    for (int64_t i = 0; i < r->n * q->length_count; i++)
        for (int s = 0; s < LH_SCENARIOS; s++)
            for (int64_t p = 0; p < q->setup.policies->n && q->scenarios[s]; p++)
                LH_TRY(lh_policy_check(&q->setup.policies->at[p].policy, r->sizes[i].tokens[s]));
    return LH_OK;
}

/* The sets that have records. */
static void list_tasks(const run *r, lh_task_scores *out)
{
    for (int64_t set = 0; set < LH_LONGBENCH_SETS; set++) {
        int there = 0;
        for (int64_t i = 0; i < r->n; i++) there |= r->sizes[i].set == set;
        if (there) out->tasks[out->task_count++] = (lh_scored_task){lh_longbench_sets[set].name, 1};
    }
}

lh_status lh_longbench_run(lh_task_scores *out, lh_engine *engine, const lh_longbench_request *request)
{
    lh_status st = LH_OK;
    static const lh_asker asker = {make_record, describe_record, judge_record};
    run r = {.asking = {.engine = engine,
                        .setup = &request->setup,
                        .scenarios = request->scenarios,
                        .tables = {&out->answers},
                        .asker = &asker,
                        .self = &r},
             .request = request,
             .out = out};
    *out =
        (lh_task_scores){.setup = &request->setup, .lengths = request->lengths, .length_count = request->length_count};
    lh_table_init(&out->answers, lh_line_score_columns);
    LH_TRY_DONE(lh_asking_open(&r.asking, &request->chat));
    LH_TRY_DONE(measure_records(&r));
    list_tasks(&r, out);
    LH_TRY_DONE(lh_comm_agree(lh_engine_get(engine)->comm, check_sizes(&r)));
    LH_TRY_DONE(lh_asking_run(&r.asking, r.n * request->length_count));
done:
    lh_asking_close(&r.asking);
    lh_free(r.sizes);
    return st;
}
