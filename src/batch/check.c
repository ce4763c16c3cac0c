/* check.c - `batch --check`: reads all requests and answers none; prints the requests that cannot be answered, the
 * number of tokens, and the memory and the time that a run needs on these ranks. */
#include <string.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "base/progress.h"
#include "base/size_text.h"
#include "base/unicode.h"
#include "batch/batch_command.h"
#include "engine/decode.h"
#include "engine/plan.h"
#include "import/checkpoint.h"
#include "model/score_weights.h"

/* The content of an input. */
typedef struct content {
    int64_t requests, refused;
    int64_t contexts, questions; /* shared contexts, and the requests about them */
    int64_t *reads;              /* [read_count] tokens of each prefill: of a prompt, a context or a question */
    int64_t read_count, read_tokens;
    int64_t new_tokens;          /* maximum length of all answers */
    int64_t truncated, left_out; /* truncated prompts, and the tokens that they lose */
    /* The longest request: its line, tokens of its prompt with the context, maximum length of its answer. */
    int64_t longest_line, longest, longest_new;
    lh_buf refusals; /* of the first lines: "line 3 ('a'): …", each with a line feed */
    json_t *all;     /* of all lines, with '--json'; else NULL */
} content;

typedef struct check_run {
    lh_batch_call *batch;
    lh_checkpoint *checkpoint; /* rank 0 */
    lh_tokenizer *tokenizer;
    content found;
    json_t *object; /* rank 0, with '--json': printed at the end; NULL: lines are printed */
} check_run;

/* ---- reading all requests ---- */

enum { NAMED = 10, SHOWN = 60 };

typedef struct walk {
    content *out;
    lh_batch_queue *queue;
    int64_t seen; /* requests, refused ones included */
    int64_t cap;
    int64_t context, context_tokens; /* number and length of the last context */
    lh_progress progress;
} walk;

static int has_no_answer(void *self, int64_t i)
{
    (void)self;
    (void)i;
    return 0;
}

/* A refusal as an object; NULL if out of memory. */
static json_t *refusal_json(const lh_batch_work *w, lh_status why)
{
    const char *message = lh_error_message();
    return json_pack("{s:I, s:o, s:s, s:o}", "line", (json_int_t)w->line.number, "custom_id",
                     w->line.custom_id ? json_string(w->line.custom_id) : json_null(), "code", lh_batch_code(why),
                     "message", lh_json_text(message, (int64_t)strlen(message)));
}

static lh_status note_refusal(void *self, const lh_batch_work *w, lh_status why)
{
    walk *c = self;
    lh_buf *out = &c->out->refusals;
    lh_progress_update(&c->progress, ++c->seen);
    if (c->out->all && json_array_append_new(c->out->all, refusal_json(w, why)) != 0)
        LH_FAIL(LH_ENOMEM, "cannot allocate memory for what '--check' finds");
    if (c->out->refused++ >= NAMED) return LH_OK;
    LH_TRY(lh_buf_printf(out, "line %lld", (long long)w->line.number));
    if (w->line.custom_id) LH_TRY(lh_buf_printf(out, " ('%.*s')", SHOWN, w->line.custom_id));
    return lh_buf_printf(out, ": %s\n", lh_error_message());
}

static lh_status do_nothing(void *self)
{
    (void)self;
    return LH_OK;
}

static lh_status add_read(walk *c, int64_t tokens)
{
    content *out = c->out;
    if (out->read_count == c->cap) {
        c->cap = lh_max_i64(1024, 2 * c->cap);
        LH_TRY(lh_realloc(&out->reads, c->cap, sizeof *out->reads));
    }
    out->reads[out->read_count++] = tokens;
    out->read_tokens += tokens;
    return LH_OK;
}

static lh_status add_request(walk *c, const lh_batch_upcoming *next)
{
    content *out = c->out;
    const lh_batch_work *w = next->work;
    if (next->context && next->context != c->context) {
        c->context = next->context;
        c->context_tokens = next->ids->n;
        out->contexts++;
        LH_TRY(add_read(c, c->context_tokens));
    }
    const int64_t whole = w->prompt.n + (next->context ? c->context_tokens : 0);
    if (whole + w->request.max_new > out->longest + out->longest_new) {
        out->longest_line = w->line.number;
        out->longest = whole;
        out->longest_new = w->request.max_new;
    }
    out->questions += next->context != 0;
    out->truncated += w->left_out > 0;
    out->left_out += w->left_out;
    out->new_tokens += w->request.choices * w->request.max_new;
    lh_progress_update(&c->progress, ++c->seen);
    return add_read(c, w->prompt.n);
}

/* Rank 0. LH_EINTERRUPTED. */
static lh_status read_requests(content *out, const lh_batch_common *common, const lh_batch_input *input)
{
    lh_status st = LH_OK;
    walk c = {.out = out};
    const lh_batch_queue_owner owner = {&c, has_no_answer, note_refusal, do_nothing};
    out->requests = lh_batch_input_count(input);
    lh_progress_init(&c.progress, "checking", "requests", out->requests);
    LH_TRY_DONE(lh_batch_queue_open(
        &c.queue, &(lh_batch_queue_options){.common = common, .input = input, .owner = owner, .in_order = 1}));
    for (int more = 1; more;) {
        lh_batch_upcoming next = {.work = NULL};
        LH_TRY_DONE(lh_batch_queue_next(c.queue, &next));
        more = next.work != NULL;
        if (more) st = add_request(&c, &next);
        lh_batch_work_close(next.work);
        LH_TRY_DONE(st);
    }
    LH_TRY_DONE(lh_batch_input_unchanged(input));
done:
    lh_progress_clear(&c.progress);
    lh_batch_queue_close(c.queue);
    return st;
}

/* Rank 0: no weights are read. */
static lh_status read_all(check_run *c)
{
    lh_batch_call *b = c->batch;
    LH_TRY(lh_checkpoint_open_model(&c->checkpoint, b->v->engine.model, b->v->engine.weights));
    LH_TRY(lh_checkpoint_open_tokenizer(c->checkpoint, &c->tokenizer));
    const lh_config *config = lh_checkpoint_config(c->checkpoint);
    LH_TRY(lh_batch_open_input(b, c->tokenizer, config->max_positions));
    const lh_engine_options engine = lh_engine_defaults(&b->v->engine);
    lh_dtype dtype;
    lh_kv_types kv_types;
    lh_score_weights weights;
    LH_TRY(lh_engine_dtypes(&engine, lh_checkpoint_dtype(c->checkpoint), &dtype, &kv_types));
    LH_TRY(lh_score_weights_find(
        &weights, &(lh_score_weights_request){engine.score_weights, engine.model, config->layers, config->kv_heads,
                                              config->head_dim, lh_checkpoint_identity(c->checkpoint)}));
    const lh_cache_size cache = lh_config_cache_size(config, &kv_types, weights.hash);
    lh_score_weights_clear(&weights);
    LH_TRY(lh_batch_size_policies(b, &cache));
    const lh_batch_common common = {.config = config,
                                    .cache = cache,
                                    .tokenizer = c->tokenizer,
                                    .defaults = &b->v->defaults,
                                    .policy = &b->v->policy,
                                    .plans = b->policies,
                                    .profiles = &b->profiles,
                                    .format = b->format,
                                    .context_root = b->context_root};
    return read_requests(&c->found, &common, b->input);
}

/* The texts of an input must not control the terminal. */
static lh_status put_refusals(lh_buf *text, const content *found)
{
    lh_buf plain = {0};
    int64_t named = 0;
    lh_status st = lh_buf_append(&plain, found->refusals.data, found->refusals.bytes);
    for (char *line = plain.data; st == LH_OK && line < plain.data + plain.bytes; named++) {
        char *end = strchr(line, '\n');
        st = lh_buf_printf(text, "  %.*s\n", (int)lh_text_make_plain(line, end - line), line);
        line = end + 1;
    }
    lh_buf_clear(&plain);
    if (st != LH_OK || found->refused <= named) return st;
    return lh_buf_printf(text, "  and %lld more\n", (long long)(found->refused - named));
}

static lh_status put_found(const check_run *c)
{
    const content *f = &c->found;
    json_t *longest = f->read_count ? json_pack("{s:I, s:I, s:I}", "line", (json_int_t)f->longest_line, "prompt_tokens",
                                                (json_int_t)f->longest, "new_tokens", (json_int_t)f->longest_new)
                                    : json_null();
    json_t *found = json_pack("{s:I, s:I, s:O, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "requests", (json_int_t)f->requests,
                              "refused", (json_int_t)f->refused, "refusals", f->all, "prompt_tokens",
                              (json_int_t)f->read_tokens, "contexts", (json_int_t)f->contexts, "questions",
                              (json_int_t)f->questions, "truncated", (json_int_t)f->truncated, "truncated_tokens",
                              (json_int_t)f->left_out, "new_tokens", (json_int_t)f->new_tokens, "longest", longest);
    const int failed = !found || json_object_update(c->object, found) != 0;
    json_decref(found);
    if (failed) LH_FAIL(LH_ENOMEM, "cannot allocate memory for what '--check' finds");
    return LH_OK;
}

static lh_status print_found(const check_run *c)
{
    lh_status st = LH_OK;
    const content *f = &c->found;
    lh_buf text = {0};
    if (c->object) return put_found(c);
    LH_TRY_DONE(lh_buf_printf(&text, "requests   %lld, %lld of which cannot be answered%s\n", (long long)f->requests,
                              (long long)f->refused, f->refused ? ":" : ""));
    if (f->refused) LH_TRY_DONE(put_refusals(&text, f));
    LH_TRY_DONE(lh_buf_printf(&text, "to read    %lld tokens", (long long)f->read_tokens));
    if (f->contexts)
        LH_TRY_DONE(lh_buf_printf(&text, "; %lld requests share %lld contexts, which are read once",
                                  (long long)f->questions, (long long)f->contexts));
    if (f->truncated)
        LH_TRY_DONE(lh_buf_printf(&text, "; %lld prompts are truncated, by %lld tokens in all", (long long)f->truncated,
                                  (long long)f->left_out));
    LH_TRY_DONE(lh_buf_printf(&text, "\nto write   %lld tokens at most\n", (long long)f->new_tokens));
    if (f->read_count)
        LH_TRY_DONE(lh_buf_printf(&text, "longest    line %lld: %lld tokens, and up to %lld of its answer\n",
                                  (long long)f->longest_line, (long long)f->longest, (long long)f->longest_new));
    LH_TRY_DONE(lh_shell_write(text.data, text.bytes));
done:
    lh_buf_clear(&text);
    return st;
}

/* ---- memory ---- */

/* Rank 0: prints the memory of the longest request when it runs alone. */
static lh_status print_memory(const check_run *c)
{
    lh_status st = LH_OK;
    const lh_batch_call *b = c->batch;
    const content *f = &c->found;
    lh_plan plan = {0};
    lh_buf text = {0};
    char needed[LH_SIZE_TEXT], there[LH_SIZE_TEXT];
    int64_t peak = 0;
    lh_engine_options engine = lh_engine_defaults(&b->v->engine);
    engine.tp = lh_world_size(b->call->world) / b->replicas;
    LH_TRY_DONE(lh_plan_make(&plan, &(lh_plan_request){.engine = &engine,
                                                       .policy = &b->policies[LH_ASKED_IN_PROMPT],
                                                       .context = f->longest,
                                                       .max_new = f->longest_new,
                                                       .profiles = &b->profiles}));
    for (int64_t r = 0; r < plan.tp; r++) peak = lh_max_i64(peak, plan.ranks[r].peak);
    const int64_t free_bytes = engine.memory ? plan.free_bytes : plan.free_bytes / b->replicas;
    if (c->object) {
        LH_TRY_DONE(lh_json_set(c->object, "memory_bytes", json_integer(peak)));
        LH_TRY_DONE(lh_json_set(c->object, "free_bytes", json_integer(free_bytes)));
        goto done;
    }
    LH_TRY_DONE(lh_buf_printf(&text, "memory     %s per rank for the longest alone, of %s that are free%s\n",
                              lh_size_text(needed, peak), lh_size_text(there, free_bytes),
                              peak <= free_bytes ? "" : ": it does not fit"));
    LH_TRY_DONE(lh_shell_write(text.data, text.bytes));
done:
    lh_plan_clear(&plan);
    lh_buf_clear(&text);
    return st;
}

/* ---- time ---- */

/* A prefill of at most TIMED_TOKENS is timed, then TIMED_STEPS steps. A shorter prompt with steps goes before it, to
 * allocate memory and warm up; so do WARM_STEPS steps, in which graphs are captured. */
enum { TIMED_TOKENS = 1024, WARM_TOKENS = 128, TIMED_STEPS = 8, WARM_STEPS = 2, STEPS = WARM_STEPS + TIMED_STEPS };

typedef struct pace {
    int64_t tokens;    /* of the prompt */
    int64_t sequences; /* that step together */
    double prefill_s, step_s;
} pace;

/* Opens n sequences, s[1] to s[n], as forks of the prompt's session s[0], with unshared entries. */
static lh_status fork_sequences(lh_session **s, int64_t n)
{
    for (int64_t k = 1; k <= n; k++) {
        LH_TRY(lh_session_fork(&s[k], s[0], STEPS, 0));
        LH_TRY(lh_comm_agree(lh_engine_get(lh_session_engine(s[0]))->comm, lh_kv_unshare(lh_session_kv(s[k]))));
    }
    return LH_OK;
}

/* Waits for the step's work on the device. */
static lh_status sample_all(lh_session **s, int64_t n, int64_t step)
{
    int32_t id;
    for (int64_t k = 0; k < n; k++) LH_TRY(lh_session_draw(s[k], &lh_greedy, step, &id));
    return LH_OK;
}

/* s: the session of the prompt, then p->sequences that step. */
static lh_status time_sequences(lh_session **s, const int32_t *ids, pace *p)
{
    double start_s = lh_clock_s();
    LH_TRY(lh_session_prefill(s[0], ids, p->tokens, NULL));
    LH_TRY(sample_all(s, 1, 0));
    p->prefill_s = lh_clock_s() - start_s;
    LH_TRY(fork_sequences(s, p->sequences));
    for (int64_t step = 0; step < STEPS; step++) {
        if (step == WARM_STEPS) start_s = lh_clock_s();
        LH_TRY(lh_sessions_step(s + 1, ids, p->sequences));
        LH_TRY(sample_all(s + 1, p->sequences, step + 1));
    }
    p->step_s = (lh_clock_s() - start_s) / TIMED_STEPS;
    return LH_OK;
}

/* Collective over the replica. Times a prompt of p->tokens arbitrary tokens, then steps of p->sequences sequences. */
static lh_status time_pace(const lh_batch_call *b, pace *p)
{
    lh_status st = LH_OK;
    const lh_engine_view *e = lh_engine_get(b->engine);
    lh_session **sessions = NULL;
    int32_t *ids = NULL;
    const int64_t id_count = lh_max_i64(p->tokens, p->sequences);
    st = lh_calloc(&sessions, p->sequences + 1, sizeof *sessions);
    if (st == LH_OK) st = lh_calloc(&ids, id_count, sizeof *ids);
    LH_TRY_DONE(lh_comm_agree(e->comm, st));
    for (int64_t t = 0; t < id_count; t++) ids[t] = (int32_t)((t * 7919 + 13) % e->config->vocab);
    LH_TRY_DONE(lh_session_open(&sessions[0], b->engine,
                                &(lh_session_options){.policy = &b->policies[LH_ASKED_IN_PROMPT],
                                                      .profiles = &b->profiles,
                                                      .prompt = p->tokens,
                                                      .more = STEPS,
                                                      .fork_more = STEPS,
                                                      .length = p->tokens + STEPS,
                                                      .sequences = p->sequences}));
    LH_TRY_DONE(lh_comm_barrier(e->comm));
    LH_TRY_DONE(time_sequences(sessions, ids, p));
done:
    for (int64_t k = p->sequences; sessions && k >= 0; k--) lh_session_close(sessions[k]);
    lh_free(sessions);
    lh_free(ids);
    return st;
}

/* Seconds of the run at this pace: prefills by their FLOPs, then all steps with as many sequences as possible. */
static double estimate(const check_run *c, const pace *p)
{
    const content *f = &c->found;
    const lh_engine_view *e = lh_engine_get(c->batch->engine);
    double flops = 0;
    for (int64_t i = 0; i < f->read_count; i++) flops += lh_plan_prefill_flops(e->config, f->reads[i]);
    const double reading_s = flops / lh_plan_prefill_flops(e->config, p->tokens) * p->prefill_s;
    const double writing_s = (double)f->new_tokens / (double)p->sequences * p->step_s;
    return e->load_s + (reading_s + writing_s) / (double)c->batch->replicas;
}

static lh_status print_time(const check_run *c, double seconds)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    char duration[LH_DURATION_TEXT];
    if (c->object) return lh_json_set(c->object, "seconds", json_real(seconds));
    const long long minutes = lh_duration_limit_min(seconds);
    LH_TRY_DONE(lh_buf_printf(&text,
                              "time       %s on these ranks, if every answer is as long as it may be: ask for "
                              "--time=%02lld:%02lld:00\n",
                              lh_duration_text(duration, seconds), minutes / 60, minutes % 60));
    LH_TRY_DONE(lh_shell_write(text.data, text.bytes));
done:
    lh_buf_clear(&text);
    return st;
}

/* Collective. Measures the slowest rank and prints the time of the run. */
static lh_status print_pace(check_run *c)
{
    lh_batch_call *b = c->batch;
    lh_comm *world = lh_world_comm(b->call->world);
    const content *f = &c->found;
    int64_t numbers[] = {f->read_count ? f->read_tokens / f->read_count : 0, f->requests - f->refused};
    LH_TRY(lh_comm_bcast(world, 0, numbers, sizeof numbers));
    const int64_t mean_tokens = numbers[0], answered = numbers[1];
    if (answered == 0) return LH_OK;
    LH_TRY(lh_batch_open_engine(b));
    pace p = {.tokens = lh_max_i64(lh_min_i64(mean_tokens, TIMED_TOKENS), 1),
              .sequences = lh_min_i64(b->v->own.batch, (answered + b->replicas - 1) / b->replicas)};
    pace warm = {.tokens = lh_min_i64(p.tokens, WARM_TOKENS), .sequences = p.sequences};
    lh_status st = time_pace(b, &warm);
    if (st == LH_OK) st = time_pace(b, &p);
    LH_TRY(lh_comm_agree(world, st));
    int64_t us[] = {(int64_t)(1e6 * p.prefill_s), (int64_t)(1e6 * p.step_s)};
    LH_TRY(lh_comm_allreduce(world, us, 2, LH_I64, LH_MAX));
    p.prefill_s = 1e-6 * (double)us[0];
    p.step_s = 1e-6 * (double)us[1];
    return lh_shell_first() ? print_time(c, estimate(c, &p)) : LH_OK;
}

/* Rank 0. */
static lh_status print_content(check_run *c)
{
    LH_TRY(read_all(c));
    LH_TRY(print_found(c));
    return c->found.read_count ? print_memory(c) : LH_OK;
}

static lh_status check_refused(const content *found)
{
    if (found->refused)
        LH_FAIL(LH_EPARTIAL, "%lld of %lld requests cannot be answered", (long long)found->refused,
                (long long)found->requests);
    return LH_OK;
}

lh_status lh_batch_check_all(lh_batch_call *batch)
{
    lh_status st = LH_OK;
    const int is_json = batch->v->own.json && lh_shell_first();
    check_run c = {
        .batch = batch, .found = {.all = is_json ? json_array() : NULL}, .object = is_json ? json_object() : NULL};
    lh_comm *world = lh_world_comm(batch->call->world);
    LH_TRY_DONE(lh_batch_find_replica(batch));
    LH_TRY_DONE(lh_comm_agree_untimed(world, lh_shell_first() ? print_content(&c) : LH_OK));
    st = print_pace(&c);
    if (st == LH_ENOMEM) { /* a check may run where the run itself does not fit */
        lh_warn("how long it takes cannot be measured here: %s", lh_error_message());
        lh_error_clear();
        st = LH_OK;
    }
    LH_TRY_DONE(st);
    if (c.object) st = lh_shell_write_json(c.object);
    if (st == LH_OK) st = check_refused(&c.found);
    LH_TRY_DONE(lh_comm_agree(world, st));
done:
    json_decref(c.object);
    json_decref(c.found.all);
    lh_free(c.found.reads);
    lh_buf_clear(&c.found.refusals);
    lh_tokenizer_close(c.tokenizer);
    lh_checkpoint_close(c.checkpoint);
    return st;
}
