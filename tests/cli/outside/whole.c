/* whole.c - what the program does a library does too: files of caches, forks, several sequences in a step, turns,
 * log-probabilities, kept positions, facts of the model, messages, an end before the end: whole MODEL FOLDER, a model
 * with a chat format and a folder to write in. */
#include <longhaul/longhaul.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT = 90, MORE = 24, TOGETHER = 3 };

static int faults;

static void right(lh_status st, const char *what)
{
    if (st == LH_OK) return;
    fprintf(stderr, "whole: %s: status %d, '%s'\n", what, (int)st, lh_error_message());
    faults++;
}

static void check(int is_right, const char *what)
{
    if (is_right) return;
    fprintf(stderr, "whole: %s; the last message is '%s'\n", what, lh_error_message());
    faults++;
}

static void refused(lh_status st, const char *part)
{
    check(st == LH_EUSAGE && strstr(lh_error_message(), part), part);
}

static void fill(int32_t *ids, int n, int from)
{
    for (int i = 0; i < n; i++) ids[i] = 3 + (from + i * 7) % 90;
}

/* Greedy tokens from the state of a session. */
static void answer(lh_session *s, int32_t *ids, int n)
{
    for (int i = 0; i < n; i++) {
        right(lh_session_sample(s, NULL, i, &ids[i]), "sampling");
        if (i + 1 < n) right(lh_session_step(s, ids[i]), "a step");
    }
}

static lh_session *start(lh_engine *engine, const lh_session_start_options *options, int from)
{
    int32_t ids[PROMPT];
    lh_session *s = NULL;
    fill(ids, PROMPT, from);
    right(lh_session_start(&s, engine, options), "a start");
    if (s) right(lh_session_prefill(s, ids, PROMPT, NULL), "a prefill");
    return s;
}

/* A session that is saved goes on as if it had not been. */
static void save_and_load(lh_engine *engine, const lh_policy *policy, const char *folder)
{
    char path[512];
    int32_t before[8], after[8], *kept = NULL, *loaded = NULL;
    int64_t n = 0, m = 0;
    lh_session *s = start(
        engine, &LH_STRUCT(lh_session_start_options, .policy = policy, .prompt = PROMPT, .more = MORE, .block = 4), 0);
    snprintf(path, sizeof path, "%s/session.h5", folder);
    right(lh_session_save(s, path), "saving");
    right(lh_session_kept(s, 1, 1, &kept, &n), "kept positions");
    answer(s, before, 8);
    lh_session_close(s);
    s = NULL;
    right(lh_session_load(&s, engine, path, &LH_STRUCT(lh_session_start_options, .more = MORE)), "loading");
    check(lh_session_ids(s, NULL) == PROMPT, "tokens of a loaded session");
    right(lh_session_kept(s, 1, 1, &loaded, &m), "kept positions");
    check(n > 0 && n < PROMPT && n == m && memcmp(kept, loaded, (size_t)n * sizeof *kept) == 0,
          "other positions are kept");
    for (int64_t i = 1; i < n; i++) check(kept[i] > kept[i - 1], "kept positions do not ascend");
    answer(s, after, 8);
    check(memcmp(before, after, sizeof before) == 0, "a loaded session answers otherwise");
    refused(lh_session_kept(s, 1000, 0, &kept, &n), "layer 1000");
    lh_session_close(s);
    s = NULL;
    refused(lh_session_load(&s, engine, path, &LH_STRUCT(lh_session_start_options, .prompt = 4)), "prompt is 4");
    check(lh_session_load(&s, engine, "/no/such.h5", &LH_STRUCT(lh_session_start_options, .more = 4)) != LH_OK && !s,
          "a file that is not there");
    lh_free(kept);
    lh_free(loaded);
}

/* Forks and sessions beside each other, stepped together, answer as each of them alone. */
static void step_together(lh_engine *engine, const lh_policy *policy)
{
    int32_t alone[TOGETHER][8], ids[TOGETHER], first = 11;
    lh_session *all[TOGETHER] = {NULL};
    lh_session *root = start(
        engine,
        &LH_STRUCT(lh_session_start_options, .policy = policy, .prompt = PROMPT, .more = MORE, .together = TOGETHER),
        0);
    for (int i = 0; i < TOGETHER; i++) {
        lh_session *s =
            start(engine, &LH_STRUCT(lh_session_start_options, .policy = policy, .prompt = PROMPT, .more = MORE),
                  i < 2 ? 0 : 5);
        right(lh_session_step(s, first + i), "a step");
        answer(s, alone[i], 8);
        lh_session_close(s);
    }
    for (int i = 0; i < 2; i++) right(lh_session_fork(&all[i], root, MORE, 0), "a fork");
    all[2] = start(
        engine, &LH_STRUCT(lh_session_start_options, .policy = policy, .prompt = PROMPT, .more = MORE, .beside = root),
        5);
    refused(lh_session_step(root, 3), "2 forks");
    refused(lh_session_sample(all[0], NULL, 0, ids), "a fork begins with a token");
    for (int i = 0; i < TOGETHER; i++) ids[i] = first + i;
    for (int k = 0; k < 8; k++) {
        right(lh_sessions_step(all, ids, TOGETHER), "a step of many");
        for (int i = 0; i < TOGETHER; i++) {
            right(lh_session_sample(all[i], NULL, k, &ids[i]), "sampling of many");
            check(ids[i] == alone[i][k], "sessions that step together answer otherwise");
        }
    }
    right(lh_session_step(all[1], 7), "a step of one of many");
    refused(lh_session_sample(all[0], NULL, 0, ids), "the logits of the session are gone");
    refused(lh_sessions_step((lh_session *[]){all[0], all[0]}, (int32_t[]){3, 4}, 2), "the same session");
    refused(lh_sessions_step(all, ids, 0), "n is 0");
    lh_session_close(root); /* before those that use it */
    right(lh_session_step(all[2], 7), "a step after the first session was closed");
    for (int i = 0; i < TOGETHER; i++) lh_session_close(all[i]);
}

/* A snapshot outlives tokens of another session; a closed fork frees its origin, though sessions were opened beside it.
 */
static void share_a_forward_pass(lh_engine *engine)
{
    const lh_session_start_options options = {
        .size = sizeof options, .prompt = PROMPT, .more = MORE, .restores = 1, .together = 2};
    int32_t before = 0, after = 0;
    lh_session *root = start(engine, &options, 0), *fork = NULL;
    right(lh_session_snapshot(root), "a snapshot");
    right(lh_session_sample(root, NULL, 0, &before), "sampling");
    lh_session *other =
        start(engine, &LH_STRUCT(lh_session_start_options, .prompt = PROMPT, .more = MORE, .beside = root), 5);
    right(lh_session_step(other, 5), "a step beside");
    right(lh_session_restore(root), "restoring after another session's step");
    right(lh_session_sample(root, NULL, 0, &after), "sampling");
    check(before == after, "a restored session answers otherwise");
    lh_session_close(other);
    lh_session_close(root);
    root = start(engine, &LH_STRUCT(lh_session_start_options, .prompt = PROMPT, .more = MORE, .together = 2), 0);
    right(lh_session_fork(&fork, root, MORE, 0), "a fork");
    other = start(engine, &LH_STRUCT(lh_session_start_options, .prompt = PROMPT, .more = MORE, .beside = fork), 5);
    lh_session_close(fork);
    right(lh_session_step(root, 5), "a step after the only fork was closed");
    refused(lh_session_sample(root, &LH_STRUCT(lh_sampling, .bias_count = 1), 0, &after), "bias_count is 1");
    lh_session_close(root);
    lh_session_close(other);
}

/* ---- completions ---- */

typedef struct heard {
    int64_t tokens, stop_at, bytes;
} heard;

static lh_status hear(void *self, int64_t number, int32_t id, const char *text, int64_t bytes)
{
    heard *h = self;
    (void)number, (void)id, (void)text;
    h->bytes += bytes;
    return ++h->tokens == h->stop_at ? LH_EINTERRUPTED : LH_OK;
}

static void complete_all(lh_engine *engine, const lh_policy *policy, const char *folder, int is_first)
{
    char path[512];
    const char *question = "Who did it?";
    const lh_completion *c = NULL, *again = NULL;
    lh_engine_info info = {.size = sizeof info};
    heard h = {0};
    right(lh_engine_describe(&info, engine), "facts of the model");
    snprintf(path, sizeof path, "%s/completion.h5", folder);
    lh_completion_options o = {.size = sizeof o,
                               .prompt = "A text of so many words that a policy has to leave some of its entries out, "
                                         "which it then does, as it is asked to.",
                               .questions = &question,
                               .question_count = 1,
                               .policy = policy,
                               .save_cache = path,
                               .max_new = 8,
                               .logprobs = 1,
                               .kept = 1,
                               .self = &h,
                               .token = hear};
    right(lh_complete(&c, engine, &o), "a completion");
    if (!c) return;
    const lh_completion_answer *a = c->answers[0];
    int64_t kept = 0;
    for (int64_t i = 0; i < info.layers * info.kv_heads; i++) kept += c->kept[i].count;
    check(kept == c->entries_kept && kept < c->entries, "kept positions");
    check(!is_first == !a->logprobs, "log-probabilities are those of rank 0");
    for (int64_t i = 0; a->logprobs && i < a->tokens; i++)
        check(a->logprobs[i] <= 0 && isfinite(a->logprobs[i]), "a log-probability");
    /* from the saved cache */
    o.prompt = NULL, o.policy = NULL, o.save_cache = NULL, o.load_cache = path;
    right(lh_complete(&again, engine, &o), "a completion from a cache");
    check(again && strcmp(again->answers[0]->text, a->text) == 0, "a loaded cache answers otherwise");
    lh_completion_close(again);
    again = NULL;
    o.policy = policy;
    refused(lh_complete(&again, engine, &o), "policy is given, and load_cache");
    lh_completion_close(c);
    c = NULL;
    /* stopped in the answer */
    h = (heard){.stop_at = 3};
    o = LH_STRUCT(lh_completion_options, .prompt = "a text", .max_new = 8, .self = &h, .token = hear);
    check(lh_complete(&c, engine, &o) == LH_EINTERRUPTED && c && c->answers[0]->tokens == 3 &&
              c->answers[0]->finish == LH_FINISH_INTERRUPTED,
          "an answer that the program ends");
    lh_completion_close(c);
}

/* A conversation of turns is the prompt that the template makes of it. */
static void complete_turns(lh_engine *engine)
{
    const lh_turn turns[] = {{"system", "You are brief."}, {"user", "Hello"}, {"assistant", "Yes?"}, {"user", "Who?"}};
    const lh_completion *c = NULL, *one = NULL;
    right(lh_complete(&c, engine, &LH_STRUCT(lh_completion_options, .turns = turns, .turn_count = 4, .max_new = 6)),
          "turns");
    right(lh_complete(&one, engine,
                      &LH_STRUCT(lh_completion_options, .max_new = 6,
                                 .prompt =
                                     "<|im_start|>system\nYou are brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n"
                                     "<|im_start|>assistant\nYes?<|im_end|>\n<|im_start|>user\nWho?<|im_end|>\n"
                                     "<|im_start|>assistant\n")),
          "a rendered prompt");
    check(c && one && c->prompt_tokens == one->prompt_tokens && strcmp(c->answers[0]->text, one->answers[0]->text) == 0,
          "turns are not the prompt that they make");
    lh_completion_close(c);
    lh_completion_close(one);
    c = NULL;
    refused(lh_complete(&c, engine, &LH_STRUCT(lh_completion_options, .turns = turns, .turn_count = 4, .system = "a")),
            "turns are a whole conversation");
}

/* Counts the message of the engine that its weights are loaded. */
static void hear_message(void *self, lh_log_level level, const char *line)
{
    int *lines = self;
    if (level == LH_LOG_DEBUG && strncmp(line, "loaded ", 7) == 0 && !strchr(line, '\n')) ++*lines;
}

/* A program of an older and of a newer library. */
static void other_sizes(lh_engine *engine)
{
    struct {
        lh_engine_info info;
        int64_t more[4];
    } newer = {.info = {.size = sizeof newer}, .more = {1, 2, 3, 4}};
    lh_engine_info older = {.size = offsetof(lh_engine_info, hidden), .hidden = -5};
    struct {
        lh_sampling sampling;
        int64_t unknown;
    } sampling = {.sampling = {.size = sizeof sampling}, .unknown = 1};
    int32_t id = 0;
    right(lh_engine_describe(&newer.info, engine), "a struct of a newer library");
    check(newer.info.layers > 0 && newer.more[0] == 1, "members that this library does not know");
    right(lh_engine_describe(&older, engine), "a struct of an older library");
    check(older.layers == newer.info.layers && older.hidden == -5, "members that the program does not know");
    lh_session *s = start(engine, &LH_STRUCT(lh_session_start_options, .prompt = PROMPT, .more = 2), 0);
    refused(lh_session_sample(s, &sampling.sampling, 0, &id), "for a newer library");
    sampling.unknown = 0;
    right(lh_session_sample(s, &sampling.sampling, 0, &id), "a newer struct without what is new");
    lh_session_close(s);
}

int main(int argc, char **argv)
{
    lh_world *world = NULL;
    lh_engine *engine = NULL;
    lh_policy *policy = NULL;
    int loaded = 0;
    if (argc != 3) return LH_EUSAGE;
    lh_log_set_level(LH_LOG_DEBUG);
    lh_log_set_sink(hear_message, &loaded);
    lh_status st = lh_world_open(&world, NULL);
    if (st == LH_OK)
        st = lh_engine_open(&engine, world, &LH_STRUCT(lh_engine_options, .model = argv[1], .deterministic = 1));
    if (st == LH_OK) st = lh_policy_parse(&policy, "snapkv --window 8 --budget 30");
    check(loaded == (lh_world_rank(world) == 0), "messages to a function of the program");
    lh_log_set_level(LH_LOG_WARN);
    lh_log_set_sink(NULL, NULL);
    if (st == LH_OK) {
        save_and_load(engine, policy, argv[2]);
        step_together(engine, policy);
        share_a_forward_pass(engine);
        complete_all(engine, policy, argv[2], lh_world_rank(world) == 0);
        complete_turns(engine);
        other_sizes(engine);
    }
    lh_error_clear();
    lh_policy_close(policy);
    lh_engine_close(engine);
    return lh_world_close(world, st) || faults;
}
