/* scheduler.c - tasks are admitted when there is memory, prefilled one at a time, and decode together. Decisions that
 * depend on a rank's clock or memory are agreed on. */
#include "engine/scheduler.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "engine/chunk.h"
#include "engine/prefill_checkpoint.h"
#include "engine/prompt.h"

/* A task in prefill or in decode. */
typedef struct sequence {
    lh_task *task;
    lh_session *session;
    lh_answering answering;
    const lh_session *origin; /* session that it is a fork of; NULL: none */
    int64_t bytes;            /* maximum on this rank, without shared entries */
} sequence;

typedef struct scheduler {
    lh_engine *engine;
    const lh_engine_view *parts;
    const lh_scheduler_options *options;
    lh_scheduler_figures *figures;
    lh_forward *forward;
    int64_t room_bytes;               /* memory of this rank for sequences */
    lh_task *waiting;                 /* next task; NULL: fetch one */
    int64_t max_running_with_waiting; /* the waiting task did not fit with so many running sequences */
    int no_more;                      /* true: there are no further tasks */

    sequence prefilling; /* session NULL: none; task NULL: the context of the waiting task */
    lh_prefill *prefill;
    const lh_task *watched;         /* follows the rows of the prompt; NULL: none does */
    float *rows;                    /* rank 0: logits of some of them */
    int64_t left;                   /* of the prefill (lh_prefill_next) */
    lh_checkpointing checkpointing; /* path NULL: the prefill has no checkpoint */
    lh_checkpointer checkpointer;
    int ending;              /* true: the run ends with a checkpoint */
    double prefill_budget_s; /* time that decode steps have earned for the prefill */

    const lh_context *context; /* in the cache of `shared`; NULL: none */
    sequence shared;
    const lh_context *failed; /* context with a failed prefill; NULL: none */
    lh_status failure;        /* status and message of that failure */
    lh_buf why;

    sequence *running; /* [max_running], the first `count` decode */
    int64_t count;
    sequence *draining; /* [max_running + 1], contexts without waiting tasks, with running forks */
    int64_t draining_count;
    lh_session **sessions; /* [max_running], of a step */
    int32_t *ids;
} scheduler;

/* ---- memory of a task ---- */

/* Session of a prompt, or of its context. */
static lh_session_options prompt_options(const scheduler *s, const lh_task *task)
{
    const lh_context *c = task->context;
    if (c)
        return (lh_session_options){.policy = c->policy,
                                    .profiles = c->profiles,
                                    .prompt = c->prompt.n,
                                    .length = c->prompt.n + c->more,
                                    .seed = c->seed,
                                    .forward = s->forward};
    return (lh_session_options){.policy = task->policy,
                                .profiles = task->profiles,
                                .prompt = task->prompt.n,
                                .more = task->how.max_new,
                                .length = task->prompt.n + task->how.max_new,
                                .seed = task->seed,
                                .forward = s->forward};
}

static int has_context(const scheduler *s, const lh_task *task)
{
    return task->context && task->context == s->context;
}

static lh_status check_task(const scheduler *s, const lh_task *task)
{
    const lh_config *c = s->parts->config;
    const int64_t prompt = (task->context ? task->context->prompt.n : 0) + task->prompt.n,
                  total = prompt + task->how.max_new;
    if (prompt == 0) LH_FAIL(LH_EUSAGE, "the prompt is empty");
    if (total > c->max_positions)
        LH_FAIL(LH_EUSAGE,
                "%lld tokens of prompt and %lld more to come are longer than the %lld positions of the model: shorten "
                "the prompt, or generate less",
                (long long)prompt, (long long)task->how.max_new, (long long)c->max_positions);
    if (task->context) LH_TRY(lh_prompt_check_ids(&task->context->prompt, c->vocab));
    LH_TRY(lh_prompt_check_ids(&task->prompt, c->vocab));
    return lh_sampling_check(&task->how.sampling);
}

static int64_t held_bytes(const scheduler *s)
{
    int64_t bytes = s->shared.bytes;
    for (int64_t i = 0; i < s->draining_count; i++) bytes += s->draining[i].bytes;
    for (int64_t i = 0; i < s->count; i++) bytes += s->running[i].bytes;
    return bytes;
}

/* Memory of a task on this rank. */
typedef struct task_bytes {
    int64_t context; /* cache of its context, unless it exists already */
    int64_t own;     /* maximum of its sequence, without entries shared with its context */
    int64_t max;     /* of both together, or of a prefill */
} task_bytes;

static lh_status forecast(const scheduler *s, const lh_task *task, task_bytes *need)
{
    lh_session_options options = prompt_options(s, task);
    lh_session_bytes bytes;
    const int asks = has_context(s, task);
    if (task->context) {
        options.block = task->prompt.n;
        options.more = options.fork_more = task->prompt.n + task->how.max_new;
        options.length = options.prompt + options.more;
    }
    LH_TRY(lh_session_forecast(&bytes, s->engine, &options));
    *need = (task_bytes){.own = bytes.after, .max = lh_max_i64(bytes.prompt, bytes.after)};
    if (task->context) *need = (task_bytes){bytes.after - bytes.fork, bytes.fork, need->max};
    if (asks) *need = (task_bytes){.own = bytes.fork, .max = bytes.fork};
    return LH_OK;
}

/* Collective. *fits: true if every rank has memory for it now. */
static lh_status forecast_task(const scheduler *s, const lh_task *task, task_bytes *need, int64_t *fits)
{
    lh_status st = check_task(s, task);
    if (st == LH_OK) st = forecast(s, task, need);
    LH_TRY(lh_comm_agree(s->parts->comm, st));
    *fits = held_bytes(s) + need->max <= s->room_bytes;
    return lh_comm_allreduce(s->parts->comm, fits, 1, LH_I64, LH_MIN);
}

/* ---- beginning and end ---- */

static lh_status check_room(const scheduler *s)
{
    if (s->room_bytes <= 0)
        LH_FAIL(LH_ENOMEM,
                "the workspace of %lld sequences leaves no memory for their caches: use more ranks, or a smaller "
                "'%s'",
                (long long)s->options->max_running, lh_setting("max_running"));
    return LH_OK;
}

/* With the forward pass of an open session, and the memory that is free. */
static void take_session(scheduler *s)
{
    s->shared.session = s->options->session;
    s->context = s->options->context;
    s->forward = lh_session_forward(s->shared.session);
    s->room_bytes = lh_device_room(s->parts->device) - LH_CHUNK_SPARE_LEAST;
}

/* The longest chunks that leave half of the memory to the sequences, else the shortest ones. */
static lh_status choose_chunk(scheduler *s, int64_t *chunk)
{
    const lh_scheduler_options *o = s->options;
    const int64_t room_bytes = lh_device_room(s->parts->device);
    const lh_chunk_request request = {.config = s->parts->config,
                                      .shard = lh_model_shard(s->parts->model),
                                      .options = lh_model_options_of(s->parts->model),
                                      .device = lh_device_kind_of(s->parts->device),
                                      .wanted = s->parts->chunk,
                                      .tokens = s->parts->config->max_positions,
                                      .rows = o->max_running,
                                      .sequences = o->max_running,
                                      .room_bytes = room_bytes,
                                      .else_bytes = room_bytes / 2};
    *chunk = lh_chunk_longest(&request);
    if (!*chunk) *chunk = lh_chunk_shortest(&request);
    LH_TRY(lh_comm_allreduce(s->parts->comm, chunk, 1, LH_I64, LH_MIN));
    s->room_bytes = room_bytes - lh_chunk_bytes(&request, *chunk) - LH_CHUNK_SPARE_LEAST;
    return lh_comm_agree(s->parts->comm, check_room(s));
}

static lh_status open_arrays(scheduler *s)
{
    const int64_t max = s->options->max_running;
    LH_TRY(lh_calloc(&s->running, max, sizeof *s->running));
    LH_TRY(lh_calloc(&s->draining, max + 1, sizeof *s->draining)); /* the newest one may have no fork */
    LH_TRY(lh_calloc(&s->sessions, max, sizeof *s->sessions));
    return lh_calloc(&s->ids, max, sizeof *s->ids);
}

static lh_status open_scheduler(scheduler *s)
{
    int64_t chunk = 0;
    lh_status st = LH_OK;
    if (s->options->session) {
        take_session(s);
    } else {
        LH_TRY(choose_chunk(s, &chunk));
        st = lh_forward_open(
            &s->forward, s->parts->model, s->parts->exec,
            &(lh_forward_run){.chunk = chunk, .sequences = s->options->max_running, .rows = s->options->max_running});
    }
    if (st == LH_OK) st = open_arrays(s);
    return lh_comm_agree(s->parts->comm, st);
}

static void close_scheduler(scheduler *s)
{
    lh_prefill_close(s->prefill);
    lh_session_close(s->prefilling.session);
    for (int64_t i = 0; i < s->count; i++) lh_session_close(s->running[i].session);
    for (int64_t i = 0; i < s->draining_count; i++) lh_session_close(s->draining[i].session);
    if (!s->options->session) {
        lh_session_close(s->shared.session);
        lh_forward_close(s->forward);
    }
    lh_buf_clear(&s->why);
    lh_free(s->rows);
    lh_free(s->running);
    lh_free(s->draining);
    lh_free(s->sessions);
    lh_free(s->ids);
}

/* The task is done, with an answer or with status `st`. */
static lh_status finish(scheduler *s, sequence *q, lh_status st)
{
    const sequence done = *q;
    *q = (sequence){0};
    s->figures->tasks++;
    lh_status end = done.task->done(done.task->self, done.session, done.answering.finish, st);
    if (end == LH_OK) lh_error_clear(); /* the task has it */
    lh_session_close(done.session);
    return end;
}

/* True if the failure of a collective call ends the task and not the run: all ranks agreed on it, and can continue. */
static int concerns_task_alone(const scheduler *s, lh_status st)
{
    const int kind = st == LH_EUSAGE || st == LH_EINPUT || st == LH_EFILE || st == LH_ENOMEM;
    return kind && lh_comm_agreed(s->parts->comm);
}

/* The next token of a sequence, which leaves where its answer ended. */
static lh_status choose(scheduler *s, sequence *q)
{
    lh_status st = lh_answering_choose(&q->answering);
    if (st != LH_OK && st != LH_EFILE) return st; /* the latter: no logit is a number, on all ranks */
    return st != LH_OK || q->answering.ended ? finish(s, q, st) : LH_OK;
}

static int has_forks(const scheduler *s, const lh_session *origin)
{
    int found = 0;
    for (int64_t i = 0; i < s->count; i++) found |= s->running[i].origin == origin;
    return found;
}

/* Removes finished sequences, and draining contexts without forks. */
static void remove_finished(scheduler *s)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < s->count; i++)
        if (s->running[i].task) s->running[kept++] = s->running[i];
    s->count = kept;
    kept = 0;
    for (int64_t i = 0; i < s->draining_count; i++) {
        if (has_forks(s, s->draining[i].session))
            s->draining[kept++] = s->draining[i];
        else
            lh_session_close(s->draining[i].session);
    }
    s->draining_count = kept;
}

/* ---- prefilling ---- */

/* The prompt is in the cache: its sequence joins the decode steps. */
static lh_status start_decode(scheduler *s)
{
    sequence *q = &s->running[s->count];
    *q = s->prefilling;
    s->prefilling = (sequence){0};
    s->count++;
    q->answering =
        (lh_answering){.session = q->session, .how = &q->task->how, .out = q->task->answer, .finish = LH_FINISH_LENGTH};
    if (!q->origin) LH_TRY(lh_session_end_prefill(q->session));
    if (q->task->prefilled) LH_TRY(q->task->prefilled(q->task->self, q->session));
    LH_TRY(choose(s, q));
    remove_finished(s);
    return LH_OK;
}

static lh_status too_large(const lh_task *task)
{
    const int64_t context = task->context ? task->context->prompt.n : 0;
    LH_FAIL(LH_ENOMEM,
            "%lld tokens do not fit in the memory of a rank, even alone: use more ranks, a smaller '--budget' or a "
            "shorter prompt ('longhaul plan' shows what that needs)",
            (long long)(context + task->prompt.n));
}

/* The store that may hold the context of the task; NULL: none does. The prompt of several answers is not shared with
 * another request, and a store has no logits of the prompt. */
static lh_context_store *store_of(const scheduler *s, const lh_task *task)
{
    return task->context && task->prompt.n && !task->prompt_rows ? s->options->store : NULL;
}

/* Collective. A session with the context of a task, from the store; none: it is not there. */
static lh_status load_context(scheduler *s, const lh_task *task)
{
    const lh_context *c = task->context;
    lh_session_options options = prompt_options(s, task);
    lh_saved_kv saved = {0};
    int found = 0;
    lh_context_store *store = store_of(s, task);
    if (!store) return LH_OK;
    lh_status st = lh_context_store_find(store, &options, &c->prompt, &saved, &found);
    options.prompt = 0;
    if (st == LH_OK && found) st = lh_session_open(&s->prefilling.session, s->engine, &options);
    if (st == LH_OK && found) st = lh_session_read(s->prefilling.session, &saved);
    lh_context_store_loaded(store);
    lh_saved_kv_close(&saved);
    s->figures->stored += st == LH_OK && found;
    return st;
}

/* Collective. The rows that the forward pass has computed. */
static lh_status pass_rows(void *self, int64_t first, int64_t n)
{
    scheduler *s = self;
    lh_status st = LH_OK;
    const int64_t vocab = s->parts->config->vocab;
    const lh_logits_view view = lh_forward_logits(s->forward);
    if (lh_comm_rank(s->parts->comm) == 0) st = lh_realloc(&s->rows, n * vocab, sizeof *s->rows);
    LH_TRY(lh_comm_agree(s->parts->comm, st));
    LH_TRY(lh_logits_gather(s->parts->exec, &view, vocab, 0, s->rows));
    return s->watched->prompt_rows(s->watched->self, first, s->rows, n);
}

static lh_status open_prefill(scheduler *s, const lh_task *task)
{
    const lh_session_options options = prompt_options(s, task);
    const lh_tokens *prompt = task->context ? &task->context->prompt : &task->prompt;
    LH_TRY(lh_session_open(&s->prefilling.session, s->engine, &options));
    LH_TRY(lh_session_begin_prefill(s->prefilling.session, prompt->ids, prompt->n, &s->prefill));
    s->watched = task->prompt_rows ? task : NULL;
    if (s->watched) lh_prefill_watch(s->prefill, &(lh_row_watch){s, pass_rows});
    return LH_OK;
}

static void close_prefill(scheduler *s)
{
    lh_prefill_close(s->prefill);
    s->prefill = NULL;
}

static int is_ending(void *self)
{
    const scheduler *s = self;
    return s->ending;
}

/* Continues the opened prefill from its file. A file that does not fit is removed, and the prompt is read from its
 * start. */
static lh_status resume_prefill(scheduler *s, const lh_task *task)
{
    lh_checkpointer_begin(&s->checkpointer, s->prefilling.session, s->prefill, &s->checkpointing);
    lh_status st = lh_checkpointer_resume(&s->checkpointer);
    const int is_useless = (st == LH_EUSAGE || st == LH_EFILE) && lh_comm_agreed(s->parts->comm);
    s->figures->resumed += st == LH_OK && s->checkpointer.newest > 0;
    if (!is_useless) return st;
    if (lh_comm_rank(s->parts->comm) == 0)
        lh_log(LH_LOG_WARN, lh_log_rank() != 0, "a prompt is read from its start: %s", lh_error_message());
    lh_error_clear();
    lh_checkpoint_remove(s->parts->comm, s->checkpointing.path);
    close_prefill(s);
    lh_session_close(s->prefilling.session);
    s->prefilling.session = NULL;
    LH_TRY(open_prefill(s, task));
    lh_checkpointer_begin(&s->checkpointer, s->prefilling.session, s->prefill, &s->checkpointing);
    return LH_OK;
}

static lh_status start_prefill(scheduler *s, const lh_task *task)
{
    s->checkpointing = (lh_checkpointing){.path = task->context ? task->context->checkpoint : task->checkpoint,
                                          .every_s = s->options->checkpoint_s,
                                          .run = s->options->run,
                                          .self = s,
                                          .due = is_ending};
    LH_TRY(load_context(s, task));
    if (s->prefilling.session) return LH_OK;
    LH_TRY(open_prefill(s, task));
    return s->checkpointing.path ? resume_prefill(s, task) : LH_OK;
}

/* The prompt of a task, if it has one, as a question about its context, which is in the cache. */
static lh_status prefill_question(scheduler *s, const lh_task *task)
{
    const double start = lh_clock_s();
    const lh_tokens *question = &task->prompt;
    LH_TRY(lh_session_fork(&s->prefilling.session, s->shared.session, question->n + task->how.max_new, question->n));
    s->prefilling.origin = s->shared.session;
    if (question->n) LH_TRY(lh_session_block(s->prefilling.session, question->ids, question->n));
    const double took = lh_clock_s() - start;
    s->figures->prompt_tokens += question->n;
    s->figures->prefill_s += took;
    s->prefill_budget_s = (s->prefill_budget_s < 0 ? s->prefill_budget_s : 0) - took;
    return LH_OK;
}

/* A task, or the context of the waiting task, cannot be started. */
static lh_status reject(scheduler *s, lh_task *task, lh_status st)
{
    lh_session *failed = s->prefilling.session;
    close_prefill(s);
    s->prefilling = (sequence){0};
    s->waiting = NULL;
    if (concerns_task_alone(s, st)) st = finish(s, &(sequence){.task = task}, st); /* before another message comes */
    lh_session_close(failed);
    return st;
}

/* No further task has this context. */
static void drain_context(scheduler *s)
{
    s->draining[s->draining_count++] = s->shared;
    remove_finished(s);
    s->shared = (sequence){0};
    s->context = NULL;
}

/* The context of a task has failed before. */
static lh_status fail_again(const scheduler *s)
{
    LH_FAIL(s->failure, "%s", s->why.data);
}

/* The context of the waiting task is in the cache. Answers that follow it at once begin with its logits. */
static lh_status keep_context(scheduler *s)
{
    s->shared = s->prefilling;
    s->prefilling = (sequence){0};
    s->context = s->waiting->context;
    return s->waiting->prompt.n ? LH_OK : lh_session_hold_logits(s->shared.session);
}

/* Collective. Starts the waiting task or its context if there is memory; *begun: true if it was started or rejected. */
static lh_status admit(scheduler *s, int *begun)
{
    int64_t fits = 0;
    task_bytes need = {0};
    lh_task *task = s->waiting;
    if (s->context && task->context != s->context) drain_context(s);
    if (task->context != s->failed) s->failed = NULL;
    const int asks = has_context(s, task);
    lh_status st = forecast_task(s, task, &need, &fits);
    *begun = st != LH_OK || fits || !s->count;
    if (!*begun) { /* until another sequence finishes */
        s->max_running_with_waiting = s->count;
        return LH_OK;
    }
    s->max_running_with_waiting = INT64_MAX;
    if (!asks) s->prefill_budget_s = 0;
    if (st == LH_OK && task->context && task->context == s->failed) st = lh_comm_agree(s->parts->comm, fail_again(s));
    /* a session was opened with memory for one fork */
    if (st == LH_OK && !fits && !s->options->session) st = lh_comm_agree(s->parts->comm, too_large(task));
    if (st == LH_OK) st = asks ? prefill_question(s, task) : start_prefill(s, task);
    if (st != LH_OK) return reject(s, task, st);
    s->prefilling.bytes = task->context && !asks ? need.context : need.own;
    if (task->context && !asks) return s->prefill ? LH_OK : keep_context(s);
    s->prefilling.task = task;
    s->waiting = NULL;
    return asks ? start_decode(s) : LH_OK;
}

/* Collective. *due: true if a prompt or a question is read before the next step, by the clock of rank 0. */
static lh_status prefill_is_due(const scheduler *s, int *due)
{
    *due = 1;
    if (!s->count || s->options->prefill_share >= 1) return LH_OK;
    *due = s->prefill_budget_s >= 0;
    return lh_comm_bcast(s->parts->comm, 0, due, sizeof *due);
}

/* Collective. Admits tasks until one is in prefill, or memory, prefill time or tasks run out. */
static lh_status admit_tasks(scheduler *s)
{
    int begun = 1, due = 1;
    while (!s->prefill && s->count < s->options->max_running && begun) {
        if (!s->waiting && !s->no_more) {
            LH_TRY(s->options->next(s->options->self, &s->waiting));
            s->no_more = !s->waiting;
        }
        if (!s->waiting || s->count >= s->max_running_with_waiting) return LH_OK;
        if (has_context(s, s->waiting)) LH_TRY(prefill_is_due(s, &due));
        if (!due) return LH_OK;
        LH_TRY(admit(s, &begun));
    }
    return LH_OK;
}

/* ---- decoding ---- */

/* Collective. Memory for the next token; a sequence without memory fails. */
static lh_status reserve(scheduler *s)
{
    for (int64_t i = 0; i < s->count; i++) {
        lh_status st = lh_kv_reserve(lh_session_kv(s->running[i].session), 1);
        if (st != LH_OK && !concerns_task_alone(s, st)) return st;
        if (st != LH_OK) LH_TRY(finish(s, &s->running[i], st));
    }
    remove_finished(s);
    return LH_OK;
}

/* Further tasks of the context fail with the same message. */
static lh_status note_failed_context(scheduler *s, lh_status st)
{
    s->failed = s->waiting->context;
    s->failure = st;
    s->why.bytes = 0;
    return lh_buf_puts(&s->why, lh_error_message());
}

/* The prefill failed with `st`. */
static lh_status fail_prefill(scheduler *s, lh_status st)
{
    if (!concerns_task_alone(s, st)) return st;
    if (!s->prefilling.task) LH_TRY(note_failed_context(s, st));
    return reject(s, s->prefilling.task ? s->prefilling.task : s->waiting, st);
}

static lh_status step(scheduler *s)
{
    const double start = lh_clock_s();
    if (s->prefill) { /* failures latched by its chunks belong to the prefill */
        lh_status st = lh_exec_agree(s->parts->exec);
        if (st != LH_OK) LH_TRY(fail_prefill(s, st));
    }
    LH_TRY(reserve(s));
    if (!s->count) return LH_OK;
    for (int64_t i = 0; i < s->count; i++) {
        const lh_tokens *answer = s->running[i].task->answer;
        s->sessions[i] = s->running[i].session;
        s->ids[i] = answer->ids[answer->n - 1];
    }
    LH_TRY(lh_sessions_step(s->sessions, s->ids, s->count));
    s->figures->steps++;
    s->figures->new_tokens += s->count;
    for (int64_t i = 0; i < s->count; i++) {
        LH_TRY(lh_answering_fed(&s->running[i].answering));
        LH_TRY(choose(s, &s->running[i]));
    }
    remove_finished(s);
    const double took = lh_clock_s() - start, share = s->options->prefill_share;
    s->figures->decode_s += took;
    if (share < 1) s->prefill_budget_s += took * share / (1 - share);
    return LH_OK;
}

static lh_status prefill_chunk(scheduler *s)
{
    const double start = lh_clock_s();
    lh_status st = lh_prefill_next(s->prefill, &s->left);
    if (st == LH_OK && s->checkpointing.path) st = lh_checkpointer_maybe_write(&s->checkpointer);
    if (s->count) lh_exec_sync(s->parts->exec); /* keeps its time out of the next step's */
    const double took = lh_clock_s() - start;
    s->figures->prefill_s += took;
    s->prefill_budget_s -= took;
    if (st != LH_OK) return fail_prefill(s, st);
    if (s->left) return LH_OK;
    close_prefill(s);
    if (s->checkpointing.path) lh_checkpoint_remove(s->parts->comm, s->checkpointing.path);
    s->figures->prompt_tokens += lh_session_tokens(s->prefilling.session)->n;
    if (s->prefilling.task) return start_decode(s);
    LH_TRY(lh_session_end_prefill(s->prefilling.session));
    LH_TRY(keep_context(s));
    return lh_context_store_keep(store_of(s, s->waiting), s->shared.session);
}

/* Collective. Continues to the end of the current layer, where the prefill is written. Returns the status of the pulse;
 * a task that fails here fails again when it is read again. */
static lh_status finish_layer(scheduler *s)
{
    const lh_scheduler_options *o = s->options;
    lh_status st = lh_checkpointer_maybe_write(&s->checkpointer);
    for (;;) {
        if (st != LH_OK && !concerns_task_alone(s, st)) return st;
        const lh_status why = o->pulse(o->self);
        if (st != LH_OK || why != LH_EINTERRUPTED || lh_prefill_layers_done(s->prefill)) return why;
        st = lh_prefill_next(s->prefill, &s->left);
        if (st == LH_OK) st = lh_checkpointer_maybe_write(&s->checkpointer);
    }
}

static lh_status pulse(scheduler *s)
{
    const lh_scheduler_options *o = s->options;
    lh_status st = o->pulse ? o->pulse(o->self) : LH_OK;
    if (st != LH_EINTERRUPTED || !s->prefill || !s->checkpointing.path) return st;
    if (lh_prefill_layers_left(s->prefill) <= 1) return st; /* no file holds the end of the last layer */
    lh_warn("interrupted: the run ends when the layer of a prompt that is read is done");
    s->ending = 1;
    return finish_layer(s);
}

static lh_status run(scheduler *s)
{
    int due = 0;
    LH_TRY(open_scheduler(s));
    for (;;) {
        LH_TRY(admit_tasks(s));
        if (!s->prefill && !s->count) return LH_OK;
        due = 0;
        if (s->prefill) LH_TRY(prefill_is_due(s, &due));
        LH_TRY(due ? prefill_chunk(s) : step(s));
        LH_TRY(pulse(s));
    }
}

lh_status lh_schedule(lh_engine *engine, const lh_scheduler_options *options, lh_scheduler_figures *figures)
{
    lh_scheduler_figures own = {0};
    scheduler s = {.engine = engine,
                   .parts = lh_engine_get(engine),
                   .options = options,
                   .figures = figures ? figures : &own,
                   .max_running_with_waiting = INT64_MAX};
    *s.figures = own;
    lh_status st = run(&s);
    close_scheduler(&s);
    return st;
}
