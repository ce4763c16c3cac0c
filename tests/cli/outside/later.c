/* later.c - the default policy of a session, and of its forecast, is that of when it asks: later MODEL. */
#include <longhaul/longhaul.h>
#include <stdio.h>
#include <string.h>

enum { PROMPT = 300, QUESTION = 9, NEW = 12 };

/* A session that starts with these options: the tokens that it answers, and what is forecast for it. */
typedef struct outcome {
    lh_status st;
    int32_t ids[NEW];
    lh_forecast forecast;
} outcome;

static lh_status answer(lh_session *session, int32_t *ids)
{
    int32_t prompt[PROMPT], question[QUESTION];
    const lh_sampling greedy = {.size = sizeof greedy};
    for (int i = 0; i < PROMPT; i++) prompt[i] = 3 + (i * 7 + i / 5) % 90;
    for (int i = 0; i < QUESTION; i++) question[i] = 5 + i;
    lh_status st = lh_session_prefill(session, prompt, PROMPT, NULL);
    if (st == LH_OK) st = lh_session_block(session, question, QUESTION);
    for (int i = 0; st == LH_OK && i < NEW; i++) {
        st = lh_session_sample(session, &greedy, i, &ids[i]);
        if (st == LH_OK && i + 1 < NEW) st = lh_session_step(session, ids[i]);
    }
    return st;
}

static outcome run(lh_engine *engine, const lh_engine_options *options, const char *words, int asks_later)
{
    outcome o = {.forecast = {.size = sizeof o.forecast}};
    lh_policy *policy = NULL;
    lh_session *session = NULL;
    o.st = lh_policy_parse(&policy, words);
    const lh_session_start_options start = {.size = sizeof start,
                                            .policy = policy,
                                            .prompt = PROMPT,
                                            .more = QUESTION + NEW,
                                            .block = QUESTION,
                                            .asks_later = asks_later};
    if (o.st == LH_OK) o.st = lh_forecast_make(&o.forecast, options, &start);
    if (o.st == LH_OK) o.st = lh_session_start(&session, engine, &start);
    if (o.st == LH_OK) o.st = answer(session, o.ids);
    lh_session_close(session);
    lh_policy_close(policy);
    return o;
}

static int same(const outcome *a, const outcome *b)
{
    return a->st == LH_OK && b->st == LH_OK && memcmp(a->ids, b->ids, sizeof a->ids) == 0 &&
           a->forecast.peak == b->forecast.peak && a->forecast.cache == b->forecast.cache;
}

static int check(int right, const char *what)
{
    if (!right) fprintf(stderr, "later: %s; the last message is '%s'\n", what, lh_error_message());
    return !right;
}

int main(int argc, char **argv)
{
    lh_world *world = NULL;
    lh_engine *engine = NULL;
    int faults = 0;
    lh_log_set_level(LH_LOG_WARN);
    lh_status st = lh_world_open(&world, NULL);
    lh_engine_options options = {.size = sizeof options, .model = argc > 1 ? argv[1] : "", .tp = lh_world_size(world)};
    if (st == LH_OK) st = lh_engine_open(&engine, world, &options);
    if (st != LH_OK) return lh_world_close(world, st);

    const outcome later = run(engine, &options, "--budget 30", 1),
                  named = run(engine, &options, "ask-later --budget 30", 0),
                  usual = run(engine, &options, "--budget 30", 0),
                  other = run(engine, &options, "longhaul --budget 30", 1);
    faults += check(same(&later, &named), "the default for questions that come later is not ask-later");
    faults += check(same(&usual, &other), "the default for questions in the prompt is not longhaul");
    faults += check(!same(&later, &usual), "both defaults are the same");
    faults += check(later.forecast.fits && later.forecast.peak > usual.forecast.peak, "a forecast of another policy");
    /* parts that only one of the defaults has */
    faults += check(run(engine, &options, "--budget 30 --evict every:4", 0).st == LH_OK, "a part of longhaul");
    faults += check(run(engine, &options, "--budget 30 --evict every:4", 1).st == LH_EUSAGE &&
                        strstr(lh_error_message(), "'ask-later', the default where questions come later"),
                    "a part that ask-later has not");
    faults += check(run(engine, &options, "--budget 30 --key-share 0.3", 1).st == LH_OK, "a part of ask-later");
    faults +=
        check(run(engine, &options, "--budget 30 --key-share 0.3", 0).st == LH_EUSAGE, "a part that longhaul has not");
    faults += check(run(engine, &options, "--budget 30 --alpha 7", 1).st == LH_EUSAGE, "a part of neither");
    lh_error_clear();
    lh_engine_close(engine);
    return lh_world_close(world, LH_OK) || faults;
}
