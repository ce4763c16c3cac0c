/* scheduler.c - tasks come in when there is room, are prefilled one at a time, and decode together. What one rank alone
 * would decide, by its clock or its memory, is decided together. */
#include "engine/scheduler.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "engine/chunk.h"
#include "engine/prefill_checkpoint.h"
#include "engine/prompt.h"

/* A task at work. */
typedef struct sequence {
    lh_task *task;
    lh_session *session;
    lh_answering answering;
    const lh_session *origin; /* whose fork it is; NULL: none's */
    int64_t bytes;            /* it may come to hold on this rank, without what it shares */
} sequence;

typedef struct scheduler {
    lh_engine *engine;
    const lh_engine_view *parts;
    const lh_scheduler_options *options;
    lh_scheduler_figures *figures;
    lh_forward *forward;
    int64_t room_bytes; /* of this rank, for sequences */
    lh_task *waiting;   /* the one that comes next; NULL: ask for one */
    int64_t too_many;   /* beside so many others there was no room for it */
    int no_more;        /* tasks */

    sequence arriving; /* session NULL: none; task NULL: the context of the task that waits */
    lh_prefill *prefill;
    int64_t left;             /* of it, as lh_prefill_next says */
    lh_checkpointing keeping; /* path NULL: it is not kept */
    lh_prefill_keeper keeper;
    int ending;      /* 1: the run is to end with a checkpoint */
    double credit_s; /* time that the prefill is owed by the steps so far */

    const lh_context *context; /* that is in the cache of `shared`; NULL: none */
    sequence shared;
    const lh_context *failed; /* a context that could not be prefilled; NULL: none ... */
    lh_status failure;        /* ... and why */
    lh_buf why;

    sequence *active; /* [most], the first `count` decode */
    int64_t count;
    sequence
        *past; /* [most + 1], the first `past_count`: contexts for which no task comes any more, while tasks go on */
    int64_t past_count;
    lh_session **sessions; /* [most], of a step */
    int32_t *ids;
} scheduler;

/* ---- what a task takes ---- */

/* Of a prompt, or of the context that comes before it. */
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
    if (task->prompt.n == 0) LH_FAIL(LH_EUSAGE, "the prompt is empty");
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
    for (int64_t i = 0; i < s->past_count; i++) bytes += s->past[i].bytes;
    for (int64_t i = 0; i < s->count; i++) bytes += s->active[i].bytes;
    return bytes;
}

/* What a task takes on this rank. */
typedef struct task_bytes {
    int64_t context; /* the cache that it goes on from, if it is not there yet */
    int64_t own;     /* its sequence, at most; what it shares with its context is the context's */
    int64_t most;    /* of both, or of a prefill */
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
    *need = (task_bytes){.own = bytes.after, .most = lh_max_i64(bytes.prompt, bytes.after)};
    if (task->context) *need = (task_bytes){bytes.after - bytes.fork, bytes.fork, need->most};
    if (asks) *need = (task_bytes){.own = bytes.fork, .most = bytes.fork};
    return LH_OK;
}

/* Collective. *fits: on every rank there is room for it now. */
static lh_status weigh_task(const scheduler *s, const lh_task *task, task_bytes *need, int64_t *fits)
{
    lh_status st = check_task(s, task);
    if (st == LH_OK) st = forecast(s, task, need);
    LH_TRY(lh_comm_agree(s->parts->comm, st));
    *fits = held_bytes(s) + need->most <= s->room_bytes;
    return lh_comm_allreduce(s->parts->comm, fits, 1, LH_I64, LH_MIN);
}

/* ---- beginning and end ---- */

static lh_status check_room(const scheduler *s)
{
    if (s->room_bytes <= 0)
        LH_FAIL(LH_ENOMEM,
                "the workspace of %lld sequences leaves no memory for their caches: use more ranks, or a smaller "
                "'--batch'",
                (long long)s->options->most);
    return LH_OK;
}

/* With the forward pass of a session that is there, and what memory that leaves. */
static void take_session(scheduler *s)
{
    s->shared.session = s->options->session;
    s->context = s->options->context;
    s->forward = lh_session_forward(s->shared.session);
    s->room_bytes = lh_device_room(s->parts->device) - LH_CHUNK_SPARE_LEAST;
}

/* As long chunks as leave half of the memory to the sequences, where any do. */
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
                                      .rows = o->most,
                                      .sequences = o->most,
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
    const int64_t most = s->options->most;
    LH_TRY(lh_calloc(&s->active, most, sizeof *s->active));
    LH_TRY(lh_calloc(&s->past, most + 1, sizeof *s->past)); /* the one that comes may have none */
    LH_TRY(lh_calloc(&s->sessions, most, sizeof *s->sessions));
    return lh_calloc(&s->ids, most, sizeof *s->ids);
}

static lh_status open_scheduler(scheduler *s)
{
    int64_t chunk = 0;
    lh_status st = LH_OK;
    if (s->options->session) {
        take_session(s);
    } else {
        LH_TRY(choose_chunk(s, &chunk));
        st =
            lh_forward_open(&s->forward, s->parts->model, s->parts->exec,
                            &(lh_forward_run){.chunk = chunk, .sequences = s->options->most, .rows = s->options->most});
    }
    if (st == LH_OK) st = open_arrays(s);
    return lh_comm_agree(s->parts->comm, st);
}

static void close_scheduler(scheduler *s)
{
    lh_prefill_close(s->prefill);
    lh_session_close(s->arriving.session);
    for (int64_t i = 0; i < s->count; i++) lh_session_close(s->active[i].session);
    for (int64_t i = 0; i < s->past_count; i++) lh_session_close(s->past[i].session);
    if (!s->options->session) {
        lh_session_close(s->shared.session);
        lh_forward_close(s->forward);
    }
    lh_buf_clear(&s->why);
    lh_free(s->active);
    lh_free(s->past);
    lh_free(s->sessions);
    lh_free(s->ids);
}

/* The task is done, with an answer or with what it failed with. */
static lh_status leave(scheduler *s, sequence *q, lh_status st)
{
    const sequence gone = *q;
    *q = (sequence){0};
    s->figures->tasks++;
    lh_status end = gone.task->done(gone.task->self, gone.session, gone.answering.finish, st);
    if (end == LH_OK) lh_error_clear(); /* the task has it */
    lh_session_close(gone.session);
    return end;
}

/* 1 where the failure of a collective call concerns the task alone: all ranks agreed on it, and can go on. */
static int is_of_task(const scheduler *s, lh_status st)
{
    const int kind = st == LH_EUSAGE || st == LH_EINPUT || st == LH_EFILE || st == LH_ENOMEM;
    return kind && lh_comm_agreed(s->parts->comm);
}

/* The next token of a sequence, which leaves where its answer ended. */
static lh_status choose(scheduler *s, sequence *q)
{
    lh_status st = lh_answering_choose(&q->answering);
    if (st != LH_OK && st != LH_EFILE) return st; /* the latter: no logit is a number, on all ranks */
    return st != LH_OK || q->answering.ended ? leave(s, q, st) : LH_OK;
}

static int has_forks(const scheduler *s, const lh_session *origin)
{
    int found = 0;
    for (int64_t i = 0; i < s->count; i++) found |= s->active[i].origin == origin;
    return found;
}

/* Those that have left make room for the others, and so do contexts of which the last fork has. */
static void close_ranks(scheduler *s)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < s->count; i++)
        if (s->active[i].task) s->active[kept++] = s->active[i];
    s->count = kept;
    kept = 0;
    for (int64_t i = 0; i < s->past_count; i++) {
        if (has_forks(s, s->past[i].session))
            s->past[kept++] = s->past[i];
        else
            lh_session_close(s->past[i].session);
    }
    s->past_count = kept;
}

/* ---- arriving ---- */

/* The prompt is in the cache: its sequence decodes with the others. */
static lh_status join(scheduler *s)
{
    sequence *q = &s->active[s->count];
    *q = s->arriving;
    s->arriving = (sequence){0};
    s->count++;
    q->answering =
        (lh_answering){.session = q->session, .how = &q->task->how, .out = q->task->answer, .finish = LH_FINISH_LENGTH};
    LH_TRY(lh_session_end_prefill(q->session));
    if (q->task->prefilled) LH_TRY(q->task->prefilled(q->task->self, q->session));
    LH_TRY(choose(s, q));
    close_ranks(s);
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

static lh_status open_prefill(scheduler *s, const lh_task *task)
{
    const lh_session_options options = prompt_options(s, task);
    const lh_tokens *prompt = task->context ? &task->context->prompt : &task->prompt;
    LH_TRY(lh_session_open(&s->arriving.session, s->engine, &options));
    LH_TRY(lh_session_begin_prefill(s->arriving.session, prompt->ids, prompt->n, &s->prefill));
    s->left = s->parts->config->layers * prompt->n;
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

/* The prefill that was opened goes on from its file. A file that is of no use goes, and the prompt is read from its
 * start. */
static lh_status resume_prefill(scheduler *s, const lh_task *task)
{
    lh_prefill_keeper_begin(&s->keeper, s->arriving.session, s->prefill, &s->keeping);
    lh_status st = lh_prefill_keeper_resume(&s->keeper);
    const int is_useless = (st == LH_EUSAGE || st == LH_EFILE) && lh_comm_agreed(s->parts->comm);
    s->figures->resumed += st == LH_OK && s->keeper.newest > 0;
    if (!is_useless) return st;
    if (lh_comm_rank(s->parts->comm) == 0)
        lh_log(LH_LOG_WARN, lh_log_rank() != 0, "a prompt is read from its start: %s", lh_error_message());
    lh_error_clear();
    lh_prefill_keeper_remove(&s->keeper);
    close_prefill(s);
    lh_session_close(s->arriving.session);
    s->arriving.session = NULL;
    LH_TRY(open_prefill(s, task));
    lh_prefill_keeper_begin(&s->keeper, s->arriving.session, s->prefill, &s->keeping);
    return LH_OK;
}

static lh_status begin_prefill(scheduler *s, const lh_task *task)
{
    s->keeping = (lh_checkpointing){.path = task->context ? task->context->checkpoint : task->checkpoint,
                                    .every_s = s->options->checkpoint_s,
                                    .run = s->options->run,
                                    .self = s,
                                    .due = is_ending};
    LH_TRY(open_prefill(s, task));
    return s->keeping.path ? resume_prefill(s, task) : LH_OK;
}

/* The prompt of a task as a question about its context, which is in the cache. */
static lh_status ask(scheduler *s, const lh_task *task)
{
    const double start = lh_clock_s();
    const lh_tokens *question = &task->prompt;
    LH_TRY(lh_session_fork(&s->arriving.session, s->shared.session, question->n + task->how.max_new, question->n));
    s->arriving.origin = s->shared.session;
    LH_TRY(lh_session_block(s->arriving.session, question->ids, question->n));
    const double took = lh_clock_s() - start;
    s->figures->prompt_tokens += question->n;
    s->figures->prefill_s += took;
    s->credit_s = (s->credit_s < 0 ? s->credit_s : 0) - took;
    return LH_OK;
}

/* A task, or the context of the one that waits, cannot be begun. */
static lh_status refuse(scheduler *s, lh_task *task, lh_status st)
{
    lh_session *failed = s->arriving.session;
    close_prefill(s);
    s->arriving = (sequence){0};
    s->waiting = NULL;
    if (is_of_task(s, st)) st = leave(s, &(sequence){.task = task}, st); /* before another message comes */
    lh_session_close(failed);
    return st;
}

/* No task comes for it any more. */
static void drop_context(scheduler *s)
{
    s->past[s->past_count++] = s->shared;
    close_ranks(s);
    s->shared = (sequence){0};
    s->context = NULL;
}

/* The context of a task has failed before. */
static lh_status fail_again(const scheduler *s)
{
    LH_FAIL(s->failure, "%s", s->why.data);
}

/* Collective. Begins the task that waits, or its context, if there is room; *begun: it has, or it was refused. */
static lh_status begin_waiting(scheduler *s, int *begun)
{
    int64_t fits = 0;
    task_bytes need = {0};
    lh_task *task = s->waiting;
    if (s->context && task->context != s->context) drop_context(s);
    if (task->context != s->failed) s->failed = NULL;
    const int asks = has_context(s, task);
    lh_status st = weigh_task(s, task, &need, &fits);
    *begun = st != LH_OK || fits || !s->count;
    if (!*begun) { /* when others have left */
        s->too_many = s->count;
        return LH_OK;
    }
    s->too_many = INT64_MAX;
    if (!asks) s->credit_s = 0;
    if (st == LH_OK && task->context && task->context == s->failed) st = lh_comm_agree(s->parts->comm, fail_again(s));
    /* a session was opened with memory for one fork */
    if (st == LH_OK && !fits && !s->options->session) st = lh_comm_agree(s->parts->comm, too_large(task));
    if (st == LH_OK) st = asks ? ask(s, task) : begin_prefill(s, task);
    if (st != LH_OK) return refuse(s, task, st);
    s->arriving.bytes = task->context && !asks ? need.context : need.own;
    if (task->context && !asks) return LH_OK;
    s->arriving.task = task;
    s->waiting = NULL;
    return asks ? join(s) : LH_OK;
}

/* Collective. Whether a prompt or a question is read now, before the next step: rank 0's clock decides for all. */
static lh_status reading_is_due(const scheduler *s, int *due)
{
    *due = 1;
    if (!s->count || s->options->prefill_share >= 1) return LH_OK;
    *due = s->credit_s >= 0;
    return lh_comm_bcast(s->parts->comm, 0, due, sizeof *due);
}

/* Collective. Takes in tasks until one is prefilled, or there is no room, or no time, or none. */
static lh_status take_in(scheduler *s)
{
    int begun = 1, due = 1;
    while (!s->prefill && s->count < s->options->most && begun) {
        if (!s->waiting && !s->no_more) {
            LH_TRY(s->options->next(s->options->self, &s->waiting));
            s->no_more = !s->waiting;
        }
        if (!s->waiting || s->count >= s->too_many) return LH_OK;
        if (has_context(s, s->waiting)) LH_TRY(reading_is_due(s, &due));
        if (!due) return LH_OK;
        LH_TRY(begin_waiting(s, &begun));
    }
    return LH_OK;
}

/* ---- decoding ---- */

/* Collective. Memory for the next token; a sequence for which there is none leaves. */
static lh_status reserve(scheduler *s)
{
    for (int64_t i = 0; i < s->count; i++) {
        lh_status st = lh_kv_reserve(lh_session_kv(s->active[i].session), 1);
        if (st != LH_OK && !is_of_task(s, st)) return st;
        if (st != LH_OK) LH_TRY(leave(s, &s->active[i], st));
    }
    close_ranks(s);
    return LH_OK;
}

/* The other tasks of the context fail with it. */
static lh_status note_failed_context(scheduler *s, lh_status st)
{
    s->failed = s->waiting->context;
    s->failure = st;
    s->why.bytes = 0;
    return lh_buf_puts(&s->why, lh_error_message());
}

/* The prefill failed with `st`. */
static lh_status drop_arriving(scheduler *s, lh_status st)
{
    if (!is_of_task(s, st)) return st;
    if (!s->arriving.task) LH_TRY(note_failed_context(s, st));
    return refuse(s, s->arriving.task ? s->arriving.task : s->waiting, st);
}

static lh_status step(scheduler *s)
{
    const double start = lh_clock_s();
    if (s->prefill) { /* what its chunks have latched is its own */
        lh_status st = lh_exec_agree(s->parts->exec);
        if (st != LH_OK) LH_TRY(drop_arriving(s, st));
    }
    LH_TRY(reserve(s));
    if (!s->count) return LH_OK;
    for (int64_t i = 0; i < s->count; i++) {
        const lh_tokens *answer = s->active[i].task->answer;
        s->sessions[i] = s->active[i].session;
        s->ids[i] = answer->ids[answer->n - 1];
    }
    LH_TRY(lh_sessions_step(s->sessions, s->ids, s->count));
    s->figures->steps++;
    s->figures->new_tokens += s->count;
    for (int64_t i = 0; i < s->count; i++) {
        LH_TRY(lh_answering_fed(&s->active[i].answering));
        LH_TRY(choose(s, &s->active[i]));
    }
    close_ranks(s);
    const double took = lh_clock_s() - start, share = s->options->prefill_share;
    s->figures->decode_s += took;
    if (share < 1) s->credit_s += took * share / (1 - share);
    return LH_OK;
}

/* The context of the task that waits is in the cache. */
static lh_status hold_context(scheduler *s)
{
    s->shared = s->arriving;
    s->arriving = (sequence){0};
    s->context = s->waiting->context;
    return lh_session_end_prefill(s->shared.session);
}

static lh_status prefill_chunk(scheduler *s)
{
    const double start = lh_clock_s();
    lh_status st = lh_prefill_next(s->prefill, &s->left);
    if (st == LH_OK && s->keeping.path) st = lh_prefill_keeper_look(&s->keeper);
    if (s->count) lh_exec_sync(s->parts->exec); /* its time is not the next step's */
    const double took = lh_clock_s() - start;
    s->figures->prefill_s += took;
    s->credit_s -= took;
    if (st != LH_OK) return drop_arriving(s, st);
    if (s->left) return LH_OK;
    close_prefill(s);
    if (s->keeping.path) lh_prefill_keeper_remove(&s->keeper);
    s->figures->prompt_tokens += lh_session_tokens(s->arriving.session)->n;
    return s->arriving.task ? join(s) : hold_context(s);
}

/* Collective. To the end of the layer under way, where the prefill is written. Ends as the pulse does; a task that
 * fails here fails when it is read again. */
static lh_status keep_layer(scheduler *s)
{
    const lh_scheduler_options *o = s->options;
    lh_status st = lh_prefill_keeper_look(&s->keeper);
    for (;;) {
        if (st != LH_OK && !is_of_task(s, st)) return st;
        const lh_status why = o->pulse(o->self);
        if (st != LH_OK || why != LH_EINTERRUPTED || lh_prefill_layers_done(s->prefill)) return why;
        st = lh_prefill_next(s->prefill, &s->left);
        if (st == LH_OK) st = lh_prefill_keeper_look(&s->keeper);
    }
}

static lh_status pulse(scheduler *s)
{
    const lh_scheduler_options *o = s->options;
    lh_status st = o->pulse ? o->pulse(o->self) : LH_OK;
    if (st != LH_EINTERRUPTED || !s->prefill || !s->keeping.path) return st;
    if (s->left <= lh_session_tokens(s->arriving.session)->n)
        return st; /* the end of the last layer: no file holds it */
    lh_warn("interrupted: the run ends when the layer of a prompt that is read is done");
    s->ending = 1;
    return keep_layer(s);
}

static lh_status run(scheduler *s)
{
    int due = 0;
    LH_TRY(open_scheduler(s));
    for (;;) {
        LH_TRY(take_in(s));
        if (!s->prefill && !s->count) return LH_OK;
        due = 0;
        if (s->prefill) LH_TRY(reading_is_due(s, &due));
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
                   .too_many = INT64_MAX};
    *s.figures = own;
    lh_status st = run(&s);
    close_scheduler(&s);
    return st;
}
