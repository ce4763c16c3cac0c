/* Laws of continuous batching, at 1, 2, 3 and 4 ranks: whoever is beside it, a sequence gets the logits and the tokens
 * that it gets alone, bit for bit in the reproducible order; a task that cannot be answered fails alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "engine/chunk.h"
#include "engine/scheduler.h"
#include "mpi_check.h"
#include "tiny_engine.h"
#include "tiny_model.h"

enum { TOKENS = 170, VOCAB = 211 };

static const tiny_shape shapes[] = {
    {.name = "9/3", .heads = 9, .kv_heads = 3, .head_dim = 8, .layers = 3, .ff = 70, .vocab = VOCAB},
    {.name = "8/2 sliding",
     .heads = 8,
     .kv_heads = 2,
     .head_dim = 8,
     .layers = 2,
     .ff = 50,
     .vocab = VOCAB,
     .window = 40},
    {.name = "6/2, two of five experts",
     .family = "qwen3_moe",
     .heads = 6,
     .kv_heads = 2,
     .head_dim = 8,
     .layers = 2,
     .ff = 50,
     .vocab = VOCAB,
     .more = "\"num_experts\": 5, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 29"},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Prompts are the first tokens of the same ones, from `from` on. */
static const struct task_case {
    const char *policy, *budget, *evict, *positions;
    int64_t from, tokens, max_new;
    double temperature;
} cases[] = {
    {"full", NULL, NULL, NULL, 0, 150, 9, 0},
    {"snapkv", "24", NULL, NULL, 3, 97, 14, 0},
    {"h2o", "20", NULL, NULL, 0, 64, 20, 0.8},
    {"ada-snapkv", "30%", NULL, NULL, 9, 130, 1, 0},
    {"roco", "18", "every:3", NULL, 5, 33, 17, 0},
    {"streaming", "16", "every:1", "slot", 2, 70, 12, 0},
    {"full", NULL, NULL, NULL, 7, 1, 5, 1.2},
    {"tova", "25", NULL, NULL, 1, 66, 11, 0},
    {"ask-later", "20%", NULL, NULL, 0, 140, 6, 0},
    {"full", NULL, NULL, NULL, 11, 20, 0, 0},
    {"snapkv", "12", "every:2", NULL, 30, 128, 13, 0.5},
};
enum { CASES = sizeof cases / sizeof *cases };

static struct fixture {
    char folder[64], model[SHAPES][96];
    int32_t ids[TOKENS];
} fix;

/* A task, and what was seen of it. */
typedef struct seen {
    lh_task task;
    lh_policy policy;
    lh_session *session;
    lh_tokens answer;
    lh_buf logits; /* rank 0: the last row before each choice */
    lh_finish_reason finish;
    lh_status st;
    int done;
    int64_t rows; /* of the prompt, whose logits were seen */
} seen;

static void make_fixture(void)
{
    mt_folder_make(fix.folder);
    for (int i = 0; i < SHAPES; i++) {
        snprintf(fix.model[i], sizeof fix.model[i], "%s/model%d.h5", fix.folder, i);
        if (mt_rank() == 0) tiny_model_make(fix.model[i], &shapes[i]);
    }
    tiny_model_tokens(fix.ids, TOKENS, VOCAB);
    mt_try(lh_comm_barrier(mt_comm()));
}

static void remove_fixture(void)
{
    mt_folder_remove(fix.folder);
}

static lh_status see_logits(void *self, int32_t id)
{
    seen *of = self;
    const float *rows = NULL;
    int64_t n = 0;
    (void)id;
    LH_TRY(lh_session_logits(of->session, &rows, &n));
    return rows ? lh_buf_append(&of->logits, rows + (n - 1) * VOCAB, VOCAB * (int64_t)sizeof *rows) : LH_OK;
}

static lh_status see_session(void *self, lh_session *session)
{
    seen *of = self;
    of->session = session;
    return LH_OK;
}

static lh_status see_end(void *self, lh_session *session, lh_finish_reason finish, lh_status st)
{
    seen *of = self;
    (void)session;
    of->finish = finish;
    of->st = st;
    of->done++;
    return LH_OK;
}

static void make_task(seen *s, int n)
{
    const struct task_case *c = &cases[n];
    lh_policy_options o = {.policy = c->policy, .budget = c->budget};
    *s = (seen){0};
    o.parts.evict = c->evict;
    o.parts.positions = c->positions;
    mt_try(lh_policy_resolve(&s->policy, &o));
    s->task = (lh_task){.prompt = {fix.ids + c->from, c->tokens, c->tokens},
                        .policy = &s->policy,
                        .how = {.sampling = {.temperature = c->temperature, .seed = 5, .request = (uint64_t)n},
                                .max_new = c->max_new,
                                .ignore_eos = 1,
                                .self = s,
                                .chosen = see_logits},
                        .seed = 5,
                        .answer = &s->answer,
                        .self = s,
                        .prefilled = see_session,
                        .done = see_end};
}

static void clear_task(seen *s)
{
    lh_tokens_clear(&s->answer);
    lh_buf_clear(&s->logits);
}

/* The same task alone. */
static void answer_alone(lh_engine *engine, seen *s)
{
    const lh_task *t = &s->task;
    mt_try(lh_session_open(&s->session, engine,
                           &(lh_session_options){.policy = t->policy,
                                                 .prompt = t->prompt.n,
                                                 .more = t->how.max_new,
                                                 .length = t->prompt.n + t->how.max_new,
                                                 .seed = t->seed}));
    mt_try(lh_session_prefill(s->session, t->prompt.ids, t->prompt.n, NULL));
    mt_try(lh_session_decode(s->session, &t->how, t->answer, &s->finish));
    lh_session_close(s->session);
}

/* Tasks in order. */
typedef struct queue {
    seen *tasks;
    int count, next, at_work, most, pulses;
} queue;

static lh_status next_task(void *self, lh_task **out)
{
    queue *q = self;
    *out = q->next < q->count ? &q->tasks[q->next++].task : NULL;
    return LH_OK;
}

static lh_status count_at_work(void *self)
{
    queue *q = self;
    q->at_work = 0;
    q->pulses++;
    for (int i = 0; i < q->next; i++) q->at_work += q->tasks[i].session && !q->tasks[i].done;
    q->most = q->at_work > q->most ? q->at_work : q->most;
    return LH_OK;
}

static lh_scheduler_figures schedule(lh_engine *engine, queue *q, int64_t most, double share)
{
    lh_scheduler_figures figures;
    mt_try(lh_schedule(
        engine,
        &(lh_scheduler_options){
            .max_running = most, .prefill_share = share, .self = q, .next = next_task, .pulse = count_at_work},
        &figures));
    mt_check(figures.tasks == q->count, "%d tasks done of %d", (int)figures.tasks, q->count);
    for (int i = 0; i < q->count; i++) mt_check(q->tasks[i].done == 1, "task %d is done %d times", i, q->tasks[i].done);
    return figures;
}

static void check_same(const seen *got, const seen *want, const char *what, int n)
{
    mt_check(got->st == LH_OK, "%s, task %d: failed with %d", what, n, got->st);
    mt_check(got->answer.n == want->answer.n &&
                 (got->answer.n == 0 || memcmp(got->answer.ids, want->answer.ids, (size_t)got->answer.n * 4) == 0),
             "%s, task %d: tokens differ", what, n);
    mt_check(
        got->logits.bytes == want->logits.bytes &&
            (got->logits.bytes == 0 || memcmp(got->logits.data, want->logits.data, (size_t)want->logits.bytes) == 0),
        "%s, task %d: logits differ", what, n);
    mt_check(got->finish == want->finish, "%s, task %d: ended by %d", what, n, got->finish);
}

START_TEST(test_a_sequence_gets_what_it_gets_alone)
{
    static const struct {
        int64_t most;
        double share;
    } ways[] = {{1, 1}, {3, 0.02}, {CASES, 0.5}, {CASES, 1}};
    make_fixture();
    for (int m = 0; m < SHAPES; m++) {
        lh_engine *engine =
            tiny_engine_open(mt_comm(), &(lh_engine_options){.model = fix.model[m], .deterministic = 1});
        seen want[CASES];
        for (int n = 0; n < CASES; n++) {
            make_task(&want[n], n);
            answer_alone(engine, &want[n]);
        }
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            seen got[CASES];
            queue q = {.tasks = got, .count = CASES};
            char what[96];
            for (int n = 0; n < CASES; n++) make_task(&got[n], n);
            snprintf(what, sizeof what, "%s, %d together", shapes[m].name, (int)ways[w].most);
            schedule(engine, &q, ways[w].most, ways[w].share);
            mt_check(q.most <= ways[w].most, "%s: %d at work", what, q.most);
            mt_check(ways[w].share < 0.5 || ways[w].most == 1 || q.most > 1, "%s: never more than one at work", what);
            for (int n = 0; n < CASES; n++) check_same(&got[n], &want[n], what, n);
            for (int n = 0; n < CASES; n++) clear_task(&got[n]);
        }
        for (int n = 0; n < CASES; n++) clear_task(&want[n]);
        lh_engine_close(engine);
    }
    remove_fixture();
    mt_end();
}
END_TEST

/* Chunks have 64 tokens in the reproducible order, and a step a row of each sequence. */
START_TEST(test_more_sequences_step_together_than_a_chunk_has_tokens)
{
    enum { COUNT = 70 };
    static seen tasks[COUNT];
    make_fixture();
    lh_engine *engine = tiny_engine_open(mt_comm(), &(lh_engine_options){.model = fix.model[0], .deterministic = 1});
    seen want;
    queue q = {.tasks = tasks, .count = COUNT};
    make_task(&want, 6);
    want.task.how.max_new = COUNT + 10;
    answer_alone(engine, &want);
    for (int n = 0; n < COUNT; n++) {
        make_task(&tasks[n], 6);
        tasks[n].task.how.max_new = COUNT + 10;
    }
    schedule(engine, &q, COUNT, 1);
    mt_check(q.most == COUNT, "%d at work together", q.most);
    for (int n = 0; n < COUNT; n++) check_same(&tasks[n], &want, "many", n);
    for (int n = 0; n < COUNT; n++) clear_task(&tasks[n]);
    clear_task(&want);
    lh_engine_close(engine);
    remove_fixture();
    mt_end();
}
END_TEST

START_TEST(test_a_task_that_cannot_be_answered_fails_alone)
{
    static const struct {
        int64_t tokens, max_new;
        int32_t first;
        double temperature;
        lh_status st;
    } bad[] = {{0, 4, 1, 0, LH_EUSAGE},
               {20, 1 << 20, 1, 0, LH_EUSAGE},
               {20, 4, VOCAB, 0, LH_EUSAGE},
               {20, 4, 1, -1, LH_EUSAGE}};
    enum { BAD = sizeof bad / sizeof *bad };
    make_fixture();
    lh_engine *engine = tiny_engine_open(mt_comm(), &(lh_engine_options){.model = fix.model[0], .deterministic = 1});
    seen tasks[2 * BAD];
    int32_t ids[TOKENS];
    queue q = {.tasks = tasks, .count = 2 * BAD};
    memcpy(ids, fix.ids, sizeof ids);
    for (int n = 0; n < BAD; n++) {
        make_task(&tasks[2 * n], n);
        make_task(&tasks[2 * n + 1], 0);
        lh_task *t = &tasks[2 * n + 1].task;
        t->prompt = (lh_tokens){fix.ids, bad[n].tokens, bad[n].tokens};
        if (bad[n].first == VOCAB) {
            ids[0] = VOCAB;
            t->prompt.ids = ids;
        }
        t->how.max_new = bad[n].max_new;
        t->how.sampling.temperature = bad[n].temperature;
    }
    schedule(engine, &q, 3, 0.3);
    for (int n = 0; n < BAD; n++) {
        mt_check(tasks[2 * n].st == LH_OK && tasks[2 * n].answer.n == cases[n].max_new, "task %d was not answered", n);
        mt_check(tasks[2 * n + 1].st == bad[n].st, "bad task %d ends with %d", n, tasks[2 * n + 1].st);
        mt_check(tasks[2 * n + 1].answer.n == 0, "bad task %d has an answer", n);
    }
    for (int n = 0; n < 2 * BAD; n++) clear_task(&tasks[n]);
    lh_engine_close(engine);
    remove_fixture();
    mt_end();
}
END_TEST

enum { QUESTIONS = 4 };

/* What a question after a context gets from a session of its own. */
static void ask_alone(lh_engine *engine, const lh_context *context, seen *s)
{
    const lh_task *t = &s->task;
    mt_try(lh_session_open(&s->session, engine,
                           &(lh_session_options){.policy = context->policy,
                                                 .prompt = context->prompt.n,
                                                 .more = context->more,
                                                 .length = context->prompt.n + context->more,
                                                 .block = t->prompt.n,
                                                 .seed = context->seed}));
    mt_try(lh_session_prefill(s->session, context->prompt.ids, context->prompt.n, NULL));
    mt_try(lh_session_block(s->session, t->prompt.ids, t->prompt.n));
    mt_try(lh_session_decode(s->session, &t->how, t->answer, &s->finish));
    lh_session_close(s->session);
}

/* Questions of different lengths about a context, as tasks. */
static void make_questions(seen *s, const lh_context *context)
{
    for (int n = 0; n < QUESTIONS; n++) {
        make_task(&s[n], n + 1);
        s[n].task.prompt = (lh_tokens){fix.ids + 20 * n, 3 + 5 * n, 3 + 5 * n};
        s[n].task.policy = NULL;
        s[n].task.context = context;
    }
}

static lh_context context_of(int n, lh_policy *policy)
{
    seen s;
    make_task(&s, n);
    *policy = s.policy;
    return (lh_context){.prompt = s.task.prompt, .policy = policy, .seed = 5, .more = 40};
}

/* Two contexts one after the other, with a task that has none between them. */
START_TEST(test_tasks_share_a_context)
{
    enum { COUNT = 2 * QUESTIONS + 1, FEW = 2 };
    static const struct {
        int64_t most;
        double share;
    } ways[] = {{1, 1}, {3, 0.3}, {COUNT, 1}};
    make_fixture();
    for (int m = 0; m < SHAPES; m++) {
        lh_engine *engine =
            tiny_engine_open(mt_comm(), &(lh_engine_options){.model = fix.model[m], .deterministic = 1});
        for (int c = 0; c + 1 < CASES; c += 4) { /* evicted once; while decoding; with questions to come */
            lh_policy policies[FEW];
            const lh_context contexts[FEW] = {context_of(c, &policies[0]), context_of(c + 1, &policies[1])};
            seen want[COUNT], got[COUNT];
            for (int k = 0; k < FEW; k++) make_questions(want + k * (QUESTIONS + 1), &contexts[k]);
            make_task(&want[QUESTIONS], 3);
            for (int n = 0; n < COUNT; n++)
                if (n != QUESTIONS)
                    ask_alone(engine, want[n].task.context, &want[n]);
                else
                    answer_alone(engine, &want[n]);
            for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
                queue q = {.tasks = got, .count = COUNT};
                char what[96];
                for (int k = 0; k < FEW; k++) make_questions(got + k * (QUESTIONS + 1), &contexts[k]);
                make_task(&got[QUESTIONS], 3);
                snprintf(what, sizeof what, "%s, contexts of %s, %d together", shapes[m].name, cases[c].policy,
                         (int)ways[w].most);
                const lh_scheduler_figures figures = schedule(engine, &q, ways[w].most, ways[w].share);
                int64_t tokens = contexts[0].prompt.n + contexts[1].prompt.n;
                for (int n = 0; n < COUNT; n++) tokens += got[n].task.prompt.n;
                mt_check(figures.prompt_tokens == tokens, "%s: %d tokens read, not %d", what,
                         (int)figures.prompt_tokens, (int)tokens);
                for (int n = 0; n < COUNT; n++) check_same(&got[n], &want[n], what, n);
                for (int n = 0; n < COUNT; n++) clear_task(&got[n]);
            }
            for (int n = 0; n < COUNT; n++) clear_task(&want[n]);
        }
        lh_engine_close(engine);
    }
    remove_fixture();
    mt_end();
}
END_TEST

START_TEST(test_a_context_fails_with_its_tasks_alone)
{
    int32_t ids[TOKENS];
    lh_policy policies[2];
    make_fixture();
    lh_engine *engine = tiny_engine_open(mt_comm(), &(lh_engine_options){.model = fix.model[0], .deterministic = 1});
    lh_context good = context_of(1, &policies[0]), bad = context_of(3, &policies[1]);
    seen tasks[2 * QUESTIONS];
    queue q = {.tasks = tasks, .count = 2 * QUESTIONS};
    memcpy(ids, fix.ids, sizeof ids);
    ids[5] = VOCAB;
    bad.prompt.ids = ids;
    make_questions(tasks, &bad);
    make_questions(tasks + QUESTIONS, &good);
    tasks[QUESTIONS + 2].task.how.max_new = 1 << 20;
    schedule(engine, &q, 3, 0.5);
    for (int n = 0; n < 2 * QUESTIONS; n++) {
        const int fails = n < QUESTIONS || n == QUESTIONS + 2;
        mt_check((tasks[n].st == LH_OK) == !fails, "task %d ends with %d", n, tasks[n].st);
        mt_check((tasks[n].answer.n > 0) == !fails, "task %d has %d tokens", n, (int)tasks[n].answer.n);
        clear_task(&tasks[n]);
    }
    lh_engine_close(engine);
    remove_fixture();
    mt_end();
}
END_TEST

/* A run that is asked to end at a pulse, and at every one after it. */
typedef struct interrupted {
    queue q;
    int at; /* 0: never */
} interrupted;

static lh_status next_of_interrupted(void *self, lh_task **out)
{
    interrupted *run = self;
    return next_task(&run->q, out);
}

static lh_status interrupt(void *self)
{
    interrupted *run = self;
    run->q.pulses++;
    const int ends = run->at && run->q.pulses >= run->at;
    return lh_comm_agree(mt_comm(), ends ? lh_fail(LH_EINTERRUPTED, __FILE__, __LINE__, "asked to end") : LH_OK);
}

enum { KEPT = 3 };

/* A prompt, and two questions about a context: all of them are kept, in "FOLDER/0.h5" and "FOLDER/1.h5". */
static void make_kept(seen *tasks, lh_context *context, char paths[2][96])
{
    for (int k = 0; k < 2; k++) snprintf(paths[k], sizeof paths[k], "%s/%d.h5", fix.folder, k);
    make_questions(tasks, context); /* the first of them is replaced */
    make_task(&tasks[0], 0);
    tasks[0].task.checkpoint = paths[0];
    context->checkpoint = paths[1];
}

/* One run over the tasks, of which those that it answers are checked. *resumed: prefills that went on. */
static lh_status run_kept(lh_engine *engine, interrupted *run, double every_s, double share, int64_t *resumed)
{
    lh_scheduler_figures figures;
    lh_status st = lh_schedule(engine,
                               &(lh_scheduler_options){.max_running = KEPT,
                                                       .prefill_share = share,
                                                       .checkpoint_s = every_s,
                                                       .run = "{}",
                                                       .self = run,
                                                       .next = next_of_interrupted,
                                                       .pulse = interrupt},
                               &figures);
    *resumed = figures.resumed;
    return st;
}

/* A layer of the first prompt takes 3 pulses, and no file holds the end of the last of its 3 layers. */
START_TEST(test_a_prefill_that_is_kept_goes_on)
{
    enum { PULSES = 26, LAYER = 3, LAYERS = 3, NEVER = 1000000 };
    char paths[2][96];
    int64_t resumed = 0;
    lh_policy policy;
    seen want[QUESTIONS], got[QUESTIONS];
    make_fixture();
    lh_engine *engine = tiny_engine_open(mt_comm(), &(lh_engine_options){.model = fix.model[0], .deterministic = 1});
    lh_context context = context_of(1, &policy);
    make_kept(want, &context, paths);
    answer_alone(engine, &want[0]);
    for (int n = 1; n < KEPT; n++) ask_alone(engine, &context, &want[n]);
    for (int at = 1; at <= PULSES; at++) {
        const double every_s = at % 2 ? NEVER : 0, share = at % 4 < 2 ? 1 : 0.4;
        interrupted first = {.q = {.tasks = got, .count = KEPT}, .at = at},
                    second = {.q = {.tasks = got, .count = KEPT}};
        make_kept(got, &context, paths);
        mt_expect(run_kept(engine, &first, every_s, share, &resumed), LH_EINTERRUPTED);
        mt_check(resumed == 0, "pulse %d: a file of an earlier run", at);
        for (int n = 0; n < KEPT; n++) clear_task(&got[n]);
        int kept = mt_rank() == 0 ? lh_file_exists(paths[0]) : 0;
        mt_try(lh_comm_bcast(mt_comm(), 0, &kept, sizeof kept));
        if (at <= LAYER * LAYERS)
            mt_check(kept == (at <= LAYER * (LAYERS - 1) || (every_s == 0 && at < LAYER * LAYERS)),
                     "pulse %d: %d files of the first prompt", at, kept);
        const int other = mt_rank() == 0 ? lh_file_exists(paths[1]) : 0;
        make_kept(got, &context, paths);
        mt_try(run_kept(engine, &second, every_s, share, &resumed));
        mt_check(mt_rank() != 0 || resumed == kept + other, "pulse %d: %d prefills went on", at, (int)resumed);
        for (int n = 0; n < KEPT; n++) check_same(&got[n], &want[n], "after an interrupt", n);
        for (int n = 0; n < KEPT; n++) clear_task(&got[n]);
        mt_check(mt_rank() != 0 || (!lh_file_exists(paths[0]) && !lh_file_exists(paths[1])), "pulse %d: files stay",
                 at);
    }
    for (int n = 0; n < KEPT; n++) clear_task(&want[n]);
    lh_engine_close(engine);
    remove_fixture();
    mt_end();
}
END_TEST

/* Counts rows of the logits of a prompt. */
static lh_status count_rows(void *self, int64_t first, const float *logits, int64_t n)
{
    seen *of = self;
    mt_check(first == of->rows && n > 0 && (logits != NULL) == (mt_rank() == 0), "rows from %d on", (int)first);
    of->rows += n;
    return LH_OK;
}

/* The logits of a prompt come in pieces of 3 rows, with a pulse after each. */
START_TEST(test_the_logits_of_a_prompt_can_be_interrupted)
{
    enum { LAYER = 3, LAYERS = 3, PIECE = 3, PIECES = 50 };
    seen got[1];
    int64_t resumed = 0;
    char path[96];
    make_fixture();
    snprintf(path, sizeof path, "%s/0.h5", fix.folder);
    lh_engine *engine = tiny_engine_open(mt_comm(), &(lh_engine_options){.model = fix.model[0], .deterministic = 1});
    for (int pieces = 0; pieces <= PIECES; pieces += pieces ? PIECES / 2 : 1) {
        interrupted run = {.q = {.tasks = got, .count = 1}, .at = pieces < PIECES ? LAYER * LAYERS + pieces : 0};
        make_task(&got[0], 0);
        got[0].task.prompt_rows = count_rows;
        got[0].task.checkpoint = pieces ? path : NULL;
        mt_expect(run_kept(engine, &run, 1e6, 1, &resumed), run.at ? LH_EINTERRUPTED : LH_OK);
        mt_check(got[0].rows == PIECE * pieces, "%d rows before pulse %d", (int)got[0].rows, run.at);
        clear_task(&got[0]);
    }
    lh_engine_close(engine);
    remove_fixture();
    mt_end();
}
END_TEST

/* Memory for the weights, the workspace, `answers` of the first task, which takes the most, and `prompts` prefills of
 * it. */
static int64_t memory_for(lh_engine *engine, double prompts, int64_t answers, int64_t most)
{
    const lh_engine_view *parts = lh_engine_get(engine);
    const lh_model_options how = lh_model_options_of(parts->model);
    const lh_chunk_request request = {.config = parts->config,
                                      .shard = lh_model_shard(parts->model),
                                      .options = how,
                                      .device = LH_DEVICE_CPU,
                                      .rows = most,
                                      .sequences = most};
    lh_session_bytes bytes;
    seen s;
    make_task(&s, 0);
    mt_try(lh_session_forecast(&bytes, engine,
                               &(lh_session_options){.policy = &s.policy,
                                                     .prompt = s.task.prompt.n,
                                                     .more = s.task.how.max_new,
                                                     .length = s.task.prompt.n + s.task.how.max_new}));
    int64_t memory = lh_device_usage(parts->device).now_total + lh_chunk_bytes(&request, LH_CHUNK_FIXED) +
                     LH_CHUNK_SPARE_LEAST + answers * bytes.after +
                     (int64_t)(prompts * (double)(bytes.prompt > bytes.after ? bytes.prompt : bytes.after));
    mt_try(lh_comm_allreduce(mt_comm(), &memory, 1, LH_I64, LH_MAX));
    return memory;
}

START_TEST(test_sequences_wait_for_memory)
{
    enum { COUNT = 6, FEW = 3 };
    make_fixture();
    lh_engine *engine = tiny_engine_open(mt_comm(), &(lh_engine_options){.model = fix.model[0], .deterministic = 1});
    const int64_t memory[] = {memory_for(engine, 1.0, FEW, COUNT), memory_for(engine, 0.5, 0, COUNT)};
    lh_engine_close(engine);
    for (int small = 0; small < 2; small++) {
        seen tasks[COUNT];
        queue q = {.tasks = tasks, .count = COUNT};
        engine = tiny_engine_open(
            mt_comm(), &(lh_engine_options){.model = fix.model[0], .memory = memory[small], .deterministic = 1});
        for (int n = 0; n < COUNT; n++) make_task(&tasks[n], small && n % 2 ? 6 : 0);
        schedule(engine, &q, COUNT, 1);
        mt_check(small ? q.most >= 1 : q.most > 1 && q.most <= FEW + 1, "%d were at work together", q.most);
        for (int n = 0; n < COUNT; n++) {
            const int fails = small && n % 2 == 0;
            mt_check(tasks[n].st == (fails ? LH_ENOMEM : LH_OK), "task %d ends with %d", n, tasks[n].st);
            mt_check(fails == (tasks[n].answer.n == 0), "task %d has %d tokens", n, (int)tasks[n].answer.n);
        }
        for (int n = 0; n < COUNT; n++) clear_task(&tasks[n]);
        lh_engine_close(engine);
    }
    remove_fixture();
    mt_end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_a_sequence_gets_what_it_gets_alone,
        test_more_sequences_step_together_than_a_chunk_has_tokens,
        test_a_task_that_cannot_be_answered_fails_alone,
        test_sequences_wait_for_memory,
        test_tasks_share_a_context,
        test_a_context_fails_with_its_tasks_alone,
        test_a_prefill_that_is_kept_goes_on,
        test_the_logits_of_a_prompt_can_be_interrupted,
    };
    Suite *suite = suite_create("scheduler");
    TCase *all = tcase_create("all");
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) tcase_add_test(all, tests[i]);
    suite_add_tcase(suite, all);
    return mt_run(suite);
}
