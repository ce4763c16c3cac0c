/* mistakes.c - what a program does wrong is refused, with a message in words of the header, and ends no process:
 * mistakes MODEL. */
#include <longhaul/longhaul.h>
#include <stdio.h>
#include <string.h>

enum { PROMPT = 20, MORE = 12, BLOCK = 5 };

static int faults;

/* The call was refused as a mistake of the program, by a message with `part`. */
static void refused(lh_status st, const char *part)
{
    if (st == LH_EUSAGE && strstr(lh_error_message(), part) && !strstr(lh_error_message(), "--")) return;
    fprintf(stderr, "mistakes: status %d, '%s' and not '%s'\n", (int)st, lh_error_message(), part);
    faults++;
}

static void right(lh_status st)
{
    if (st == LH_OK) return;
    fprintf(stderr, "mistakes: status %d, '%s'\n", (int)st, lh_error_message());
    faults++;
}

static void check(int is_right, const char *what)
{
    if (!is_right) fprintf(stderr, "mistakes: %s\n", what);
    faults += !is_right;
}

/* ---- completions ---- */

static lh_status complete(lh_engine *engine, const lh_completion_options *options)
{
    const lh_completion *c = NULL;
    lh_status st = lh_complete(&c, engine, options);
    lh_completion_close(c);
    return st;
}

static void mistake_completions(lh_engine *engine)
{
    static const int64_t too_many[] = {INT64_MAX, INT64_MAX - 1, INT64_MAX / 2, INT64_C(1) << 57, INT64_C(1) << 31};
    const char *const none[] = {NULL}, *const empty[] = {""}, *const question[] = {"Who?"};
    const lh_completion *c = NULL;
    refused(lh_complete(NULL, engine, &LH_STRUCT(lh_completion_options, .prompt = "a")), "completion is NULL");
    refused(lh_complete(&c, NULL, &LH_STRUCT(lh_completion_options, .prompt = "a")), "engine is NULL");
    refused(lh_complete(&c, engine, NULL), "lh_completion_options is NULL");
    refused(lh_complete(&c, engine, &(lh_completion_options){.prompt = "a"}), "size of lh_completion_options is 0");
    lh_completion_close(NULL);
    refused(complete(engine, &LH_STRUCT(lh_completion_options, .prompt = "")), "prompt is empty");
    refused(complete(engine, &LH_STRUCT(lh_completion_options, .prompt = "a", .question_count = 2)),
            "questions is NULL");
    refused(complete(engine, &LH_STRUCT(lh_completion_options, .prompt = "a", .question_count = -2)),
            "question_count is -2");
    refused(complete(engine, &LH_STRUCT(lh_completion_options, .prompt = "a", .questions = none, .question_count = 1)),
            "questions[0] is NULL");
    refused(complete(engine, &LH_STRUCT(lh_completion_options, .prompt = "a", .stop_count = 1)), "stops is NULL");
    refused(complete(engine, &LH_STRUCT(lh_completion_options, .prompt = "a", .stops = empty, .stop_count = 1)),
            "stops[0] is empty");
    refused(complete(engine, &LH_STRUCT(lh_completion_options, .prompt = "a", .chat = (lh_chat_use)7)), "chat is 7");
    for (size_t i = 0; i < sizeof too_many / sizeof *too_many; i++) {
        refused(complete(engine, &LH_STRUCT(lh_completion_options, .prompt = "a", .max_new = too_many[i])), "max_new");
        refused(complete(engine, &LH_STRUCT(lh_completion_options, .prompt = "a", .questions = question,
                                            .question_count = 1, .max_new = too_many[i])),
                "max_new");
    }
}

/* ---- sessions ---- */

static lh_session *start(lh_engine *engine, const lh_session_start_options *options)
{
    lh_session *s = NULL;
    right(lh_session_start(&s, engine, options));
    return s;
}

static void mistake_starts(lh_engine *engine, const lh_engine_options *model)
{
    static const struct {
        lh_session_start_options options;
        const char *part;
    } cases[] = {{{.prompt = 0, .more = 4}, "prompt is 0"},
                 {{.prompt = -1}, "prompt is -1"},
                 {{.prompt = 4, .more = -1}, "more is -1"},
                 {{.prompt = 4, .more = 4, .block = -1}, "block is -1"},
                 {{.prompt = 4, .more = 4, .block = 5}, "block is 5"},
                 {{.prompt = INT64_MAX, .more = 1}, "positions of the model"},
                 {{.prompt = 4, .more = INT64_MAX}, "positions of the model"},
                 {{.prompt = INT64_MAX, .more = INT64_MAX, .block = INT64_MAX}, "positions of the model"},
                 {{.prompt = 4, .more = INT64_C(1) << 57}, "positions of the model"},
                 {{.prompt = 4, .more = INT64_C(1) << 31, .block = INT64_C(1) << 31}, "positions of the model"}};
    lh_session *s = NULL;
    lh_forecast f = {.size = sizeof f};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_session_start_options options = cases[i].options;
        options.size = sizeof options;
        refused(lh_session_start(&s, engine, &options), cases[i].part);
        refused(lh_forecast_make(&f, model, &options), cases[i].part);
        check(!s, "a session that was refused");
    }
    refused(lh_session_start(NULL, engine, &cases[0].options), "session is NULL");
    refused(lh_session_start(&s, NULL, &LH_STRUCT(lh_session_start_options, .prompt = 4)), "engine is NULL");
    refused(lh_session_start(&s, engine, NULL), "lh_session_start_options is NULL");
    refused(lh_forecast_make(NULL, model, &cases[0].options), "forecast is NULL");
    refused(lh_forecast_make(&f, NULL, &cases[0].options), "lh_engine_options is NULL");
    refused(lh_forecast_make(&f, model, NULL), "lh_session_start_options is NULL");
}

/* Calls before the prompt, which then is read as if nothing had been. */
static void mistake_order(lh_session *s, int32_t *ids)
{
    const float *logits = NULL;
    int64_t rows = 0;
    int32_t id = 0;
    refused(lh_session_sample(s, NULL, 0, &id), "no logits yet");
    refused(lh_session_logits(s, &logits, &rows), "no logits yet");
    refused(lh_session_snapshot(s), "a prompt comes first");
    refused(lh_session_restore(s), "a prompt comes first");
    refused(lh_session_step(s, 3), "a prompt comes first");
    refused(lh_session_block(s, ids, BLOCK), "a prompt comes first");
    refused(lh_session_prefill(s, NULL, PROMPT, NULL), "ids is NULL");
    refused(lh_session_prefill(s, ids, PROMPT - 1, NULL), "started for a prompt of 20 tokens, and 19 are given");
    ids[7] = -4;
    refused(lh_session_prefill(s, ids, PROMPT, NULL), "token id -4");
    ids[7] = 10;
    right(lh_session_prefill(s, ids, PROMPT, NULL));
    refused(lh_session_prefill(s, ids, PROMPT, NULL), "20 tokens already");
    refused(lh_session_restore(s), "no snapshot");
}

/* More than the options of the start allow, which are what its memory was forecast for. */
static void mistake_lengths(lh_session *s, const int32_t *ids)
{
    int32_t id = 0;
    refused(lh_session_step(s, 1 << 30), "token id 1073741824");
    refused(lh_session_block(s, ids, BLOCK + 1), "block is 5");
    refused(lh_session_block(s, ids, 0), "0 tokens");
    refused(lh_session_block(s, ids, -1), "-1 tokens");
    refused(lh_session_block(s, ids, INT64_MAX), "block is 5");
    refused(lh_session_block(s, NULL, 1), "ids is NULL");
    right(lh_session_block(s, ids, BLOCK));
    right(lh_session_snapshot(s));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MORE - BLOCK; i++) {
            right(lh_session_sample(s, NULL, i, &id)); /* greedy */
            right(lh_session_step(s, id));
        }
        refused(lh_session_step(s, id), "more is 12");
        refused(lh_session_block(s, ids, 1), "more is 12");
        check(lh_session_ids(s, NULL) == PROMPT + MORE, "a refused step changed the tokens");
        right(lh_session_restore(s));
    }
    refused(lh_session_sample(s, NULL, 0, NULL), "id is NULL");
    refused(lh_session_logits(s, NULL, NULL), "logits is NULL");
}

static void mistake_sessions(lh_engine *engine)
{
    int32_t ids[PROMPT];
    for (int i = 0; i < PROMPT; i++) ids[i] = 3 + i;
    lh_session *s = start(
        engine, &LH_STRUCT(lh_session_start_options, .prompt = PROMPT, .more = MORE, .block = BLOCK, .restores = 1));
    if (!s) return;
    mistake_order(s, ids);
    mistake_lengths(s, ids);
    lh_session_close(s);
    s = start(engine, &LH_STRUCT(lh_session_start_options, .prompt = PROMPT, .more = 4));
    if (!s) return;
    right(lh_session_prefill(s, ids, PROMPT, NULL));
    refused(lh_session_block(s, ids, 1), "block is 0");
    refused(lh_session_snapshot(s), "restores is 0");
    refused(lh_session_restore(s), "restores is 0");
    lh_session_close(s);
    refused(lh_session_prefill(NULL, ids, PROMPT, NULL), "session is NULL");
    refused(lh_session_block(NULL, ids, 1), "session is NULL");
    refused(lh_session_step(NULL, 3), "session is NULL");
    refused(lh_session_sample(NULL, NULL, 0, ids), "session is NULL");
    refused(lh_session_logits(NULL, NULL, NULL), "session is NULL");
    refused(lh_session_snapshot(NULL), "session is NULL");
    refused(lh_session_restore(NULL), "session is NULL");
    check(lh_session_ids(NULL, NULL) == 0, "tokens of no session");
}

/* A prefill that the program stops leaves a session that can only be closed. */
static lh_status stop(void *self, int64_t done, int64_t total)
{
    (void)self, (void)done, (void)total;
    return LH_EINTERRUPTED;
}

static void stop_prefill(lh_engine *engine)
{
    int32_t ids[PROMPT], id = 0;
    for (int i = 0; i < PROMPT; i++) ids[i] = 3 + i;
    lh_session *s = start(engine, &LH_STRUCT(lh_session_start_options, .prompt = PROMPT, .more = MORE, .restores = 1));
    if (!s) return;
    check(lh_session_prefill(s, ids, PROMPT, &LH_STRUCT(lh_forward_progress, .self = NULL, .done = stop)) ==
              LH_EINTERRUPTED,
          "no interrupt");
    refused(lh_session_step(s, 3), "failed");
    refused(lh_session_prefill(s, ids, PROMPT, NULL), "failed");
    refused(lh_session_sample(s, NULL, 0, &id), "failed");
    refused(lh_session_snapshot(s), "failed");
    lh_session_close(s);
}

/* Two sessions of an engine that is closed before them. */
static void close_engine_first(lh_world *world, const lh_engine_options *model)
{
    lh_engine *engine = NULL;
    int32_t ids[PROMPT], id = -1;
    for (int i = 0; i < PROMPT; i++) ids[i] = 3 + i;
    right(lh_engine_open(&engine, world, model));
    lh_session *s = start(engine, &LH_STRUCT(lh_session_start_options, .prompt = PROMPT, .more = 4)),
               *other = start(engine, &LH_STRUCT(lh_session_start_options, .prompt = PROMPT, .more = 4));
    lh_engine_close(engine);
    if (!s || !other) return;
    lh_session_close(other);
    right(lh_session_prefill(s, ids, PROMPT, NULL));
    right(lh_session_sample(s, NULL, 0, &id));
    check(id >= 0, "no token of a session whose engine is closed");
    lh_session_close(s);
}

/* What a callback closes during the call that made it; NULL: it is closed. */
typedef struct owned {
    lh_engine *engine;
    lh_session *session;
} owned;

static lh_status close_session(void *self, int64_t done, int64_t total)
{
    owned *own = self;
    (void)done, (void)total;
    lh_session_close(own->session);
    own->session = NULL;
    return LH_OK;
}

static lh_status close_session_in_score(void *self, const lh_head_entries *e, float *scores)
{
    for (int64_t i = 0; i < e->count; i++) scores[i] = (float)e->positions[i];
    return close_session(self, 0, 0);
}

static lh_status close_engine(void *self, int64_t answer, int32_t id, const char *text, int64_t bytes)
{
    owned *own = self;
    (void)answer, (void)id, (void)text, (void)bytes;
    lh_engine_close(own->engine);
    own->engine = NULL;
    return LH_OK;
}

/* The call goes on to its end. */
static void close_within_a_call(lh_world *world, const lh_engine_options *model)
{
    owned own = {0};
    int32_t ids[PROMPT];
    lh_policy *policy = NULL;
    const lh_completion *done = NULL;
    const lh_scorer scorer = {.size = sizeof scorer, .self = &own, .score = close_session_in_score};
    for (int i = 0; i < PROMPT; i++) ids[i] = 3 + i;
    right(lh_engine_open(&own.engine, world, model));
    right(lh_policy_of_scorer(&policy, &scorer, "--budget 10 --evict every:1"));
    own.session = start(own.engine, &LH_STRUCT(lh_session_start_options, .prompt = PROMPT, .more = 4));
    if (!own.session) return;
    right(lh_session_prefill(own.session, ids, PROMPT,
                             &LH_STRUCT(lh_forward_progress, .self = &own, .done = close_session)));
    own.session =
        start(own.engine, &LH_STRUCT(lh_session_start_options, .policy = policy, .prompt = PROMPT, .more = 4));
    if (own.session) right(lh_session_prefill(own.session, ids, PROMPT, NULL));
    right(lh_complete(
        &done, own.engine,
        &LH_STRUCT(lh_completion_options, .prompt = "a", .max_new = 3, .self = &own, .token = close_engine)));
    check(done && done->new_tokens > 0 && !own.session && !own.engine, "a call ended early, or closed nothing");
    lh_completion_close(done);
    lh_policy_close(policy);
}

/* ---- policies and tokenizers ---- */

/* A policy with a file, and its session, which outlives it. */
static void close_policy_first(lh_engine *engine, const char *csv)
{
    char words[512];
    int32_t ids[PROMPT];
    lh_policy *policy = NULL;
    for (int i = 0; i < PROMPT; i++) ids[i] = 3 + i;
    snprintf(words, sizeof words, "snapkv --window 4 --budget 10 --head-budget %s", csv);
    right(lh_policy_parse(&policy, words));
    lh_session *s = start(engine, &LH_STRUCT(lh_session_start_options, .policy = policy, .prompt = PROMPT, .more = 4));
    lh_policy_close(policy);
    if (s) right(lh_session_prefill(s, ids, PROMPT, NULL));
    lh_session_close(s);
}

static void mistake_policies(void)
{
    lh_policy *policy = NULL;
    refused(lh_policy_parse(&policy, NULL), "words is NULL");
    refused(lh_policy_parse(NULL, "snapkv"), "policy is NULL");
    refused(lh_policy_of_scorer(&policy, NULL, "--budget 4"), "lh_scorer is NULL");
    check(lh_policy_parse(&policy, "snapvk") == LH_EUSAGE &&
              strncmp(lh_error_message(), "policy 'snapvk' is unknown, did you mean 'snapkv'?", 49) == 0,
          "a policy that is unknown");
    check(!policy, "a policy that was refused");
    check(lh_policy_entries(NULL, 7) == 7, "entries of the full cache");
}

static void mistake_tokenizer(const lh_tokenizer *tok)
{
    int32_t *ids = NULL;
    int64_t n = 0;
    char *text = NULL;
    if (!tok) return;
    refused(lh_tokenizer_ids(tok, "abc", -1, LH_ENCODE_PLAIN, &ids, &n), "bytes is -1");
    refused(lh_tokenizer_ids(tok, NULL, 3, LH_ENCODE_PLAIN, &ids, &n), "text is NULL");
    refused(lh_tokenizer_ids(NULL, "abc", 3, LH_ENCODE_PLAIN, &ids, &n), "tokenizer is NULL");
    refused(lh_tokenizer_ids(tok, "abc", 3, LH_ENCODE_PLAIN, NULL, &n), "ids is NULL");
    refused(lh_tokenizer_ids(tok, "abc", 3, LH_ENCODE_PLAIN, &ids, NULL), "n is NULL");
    right(lh_tokenizer_ids(tok, NULL, 0, LH_ENCODE_PLAIN, &ids, &n));
    check(n == 0, "ids of no text");
    refused(lh_tokenizer_text(tok, NULL, 3, &text), "ids is NULL");
    refused(lh_tokenizer_text(tok, ids, -3, &text), "n is -3");
    refused(lh_tokenizer_text(NULL, ids, 0, &text), "tokenizer is NULL");
    refused(lh_tokenizer_text(tok, ids, 0, NULL), "text is NULL");
    check(lh_tokenizer_vocab(NULL) == 0 && lh_tokenizer_bos(NULL) == -1 && !lh_tokenizer_adds_bos(NULL) &&
              !lh_tokenizer_is_eos(NULL, 3) && lh_tokenizer_special(NULL, "a") == -1 &&
              lh_engine_tokenizer(NULL) == NULL,
          "no tokenizer");
    lh_free(ids);
}

/* ---- engines ---- */

static void mistake_engines(lh_world *world, const char *model)
{
    static const struct {
        lh_engine_options options;
        const char *part;
    } cases[] = {{{.threads = 100000}, "threads is 100000"},
                 {{.threads = -1}, "threads is -1"},
                 {{.threads = INT64_MAX}, "threads is"},
                 {{.tp = -1}, "tp is -1"},
                 {{.tp = INT64_MAX}, "tp is"},
                 {{.memory = -1}, "memory is -1"},
                 {{.chunk = -1}, "chunk is -1"},
                 {{.chunk = INT64_MAX}, "chunk is"},
                 {{.deterministic = 1, .chunk = 64}, "deterministic"}};
    lh_engine *engine = NULL;
    lh_forecast f = {.size = sizeof f};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_engine_options options = cases[i].options;
        options.size = sizeof options;
        options.model = model;
        refused(lh_engine_open(&engine, world, &options), cases[i].part);
        refused(lh_forecast_make(&f, &options, &LH_STRUCT(lh_session_start_options, .prompt = 4, .more = 4)),
                cases[i].part);
    }
    refused(lh_engine_open(&engine, NULL, &LH_STRUCT(lh_engine_options, .model = model)), "world is NULL");
    refused(lh_engine_open(&engine, world, NULL), "lh_engine_options is NULL");
    refused(lh_engine_open(NULL, world, &LH_STRUCT(lh_engine_options, .model = model)), "engine is NULL");
    refused(lh_world_open(NULL, NULL), "world is NULL");
    check(!engine, "an engine that was refused");
}

int main(int argc, char **argv)
{
    lh_world *world = NULL;
    lh_engine *engine = NULL;
    if (argc != 3) return LH_EUSAGE;
    lh_log_set_level(LH_LOG_WARN);
    lh_status st = lh_world_open(&world, NULL);
    const lh_engine_options options = {.size = sizeof options, .model = argv[1], .tp = lh_world_size(world)};
    if (st == LH_OK) st = lh_engine_open(&engine, world, &options);
    if (st != LH_OK) return lh_world_close(world, st);
    mistake_completions(engine);
    mistake_starts(engine, &options);
    mistake_sessions(engine);
    stop_prefill(engine);
    close_policy_first(engine, argv[2]);
    close_engine_first(world, &options);
    close_within_a_call(world, &options);
    mistake_policies();
    mistake_tokenizer(lh_engine_tokenizer(engine));
    mistake_engines(world, argv[1]);
    lh_error_clear();
    lh_engine_close(engine);
    return lh_world_close(world, LH_OK) || faults;
}
