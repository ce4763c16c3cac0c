/* mistakes.c - what a program does wrong is refused, with a message, and goes no further: mistakes MODEL. */
#include <longhaul/longhaul.h>
#include <stdio.h>
#include <string.h>

enum { PROMPT = 20 };

static int faults;

/* The call was refused as a mistake of the program, by a message with `part`. */
static void refused(lh_status st, const char *part)
{
    if (st == LH_EUSAGE && strstr(lh_error_message(), part)) return;
    fprintf(stderr, "mistakes: status %d, '%s' and not '%s'\n", (int)st, lh_error_message(), part);
    faults++;
}

static void right(lh_status st)
{
    if (st == LH_OK) return;
    fprintf(stderr, "mistakes: status %d, '%s'\n", (int)st, lh_error_message());
    faults++;
}

static lh_status complete(lh_engine *engine, const lh_completion_options *options)
{
    lh_completion c;
    lh_status st = lh_complete(&c, engine, options);
    lh_completion_clear(&c);
    return st;
}

static void mistake_completions(lh_engine *engine)
{
    const char *const none[] = {NULL};
    refused(complete(engine, &(lh_completion_options){.prompt = ""}), "prompt is empty");
    refused(complete(engine, &(lh_completion_options){.prompt = "a", .question_count = 2}), "questions is NULL");
    refused(complete(engine, &(lh_completion_options){.prompt = "a", .question_count = -2}), "question_count is -2");
    refused(complete(engine, &(lh_completion_options){.prompt = "a", .questions = none, .question_count = 1}),
            "questions[0] is NULL");
    refused(complete(engine, &(lh_completion_options){.prompt = "a", .stop_count = 1}), "stops is NULL");
}

static void mistake_sessions(lh_engine *engine)
{
    int32_t ids[PROMPT], id = 0;
    const float *logits = NULL;
    int64_t rows = 0;
    lh_session *s = NULL;
    for (int i = 0; i < PROMPT; i++) ids[i] = 3 + i;
    right(lh_session_start(&s, engine, &(lh_session_start_options){.prompt = PROMPT, .more = 4}));
    if (!s) return;
    refused(lh_session_sample(s, NULL, 0, &id), "no logits yet");
    refused(lh_session_logits(s, &logits, &rows), "no logits yet");
    refused(lh_session_prefill(s, ids, PROMPT - 1, NULL), "started for a prompt of 20 tokens, and 19 are given");
    ids[7] = -4;
    refused(lh_session_prefill(s, ids, PROMPT, NULL), "token id -4");
    ids[7] = 10;
    right(lh_session_prefill(s, ids, PROMPT, NULL));
    refused(lh_session_prefill(s, ids, PROMPT, NULL), "20 tokens already");
    refused(lh_session_step(s, 1 << 30), "token id 1073741824");
    right(lh_session_sample(s, NULL, 0, &id)); /* greedy */
    right(lh_session_step(s, id));
    lh_session_close(s);
}

int main(int argc, char **argv)
{
    lh_world *world = NULL;
    lh_engine *engine = NULL;
    lh_log_set_level(LH_LOG_WARN);
    lh_status st = lh_world_open(&world, NULL);
    if (st == LH_OK)
        st = lh_engine_open(&engine, world,
                            &(lh_engine_options){.model = argc > 1 ? argv[1] : "", .tp = lh_world_size(world)});
    if (st != LH_OK) return lh_world_close(world, st);
    mistake_completions(engine);
    mistake_sessions(engine);
    lh_error_clear();
    lh_engine_close(engine);
    return lh_world_close(world, LH_OK) || faults;
}
