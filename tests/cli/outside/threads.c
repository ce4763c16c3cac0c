/* threads.c - an engine works for one thread of one process at a time, and refuses the others: threads MODEL. */
#include <longhaul/longhaul.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 6, NEW = 8 };
static const char PROMPT[] = "a text of some tokens";

typedef struct caller {
    lh_engine *engine;
    const char *right;
    int answered, refused, faults;
} caller;

static lh_status complete(lh_engine *engine, char *text, size_t bytes)
{
    const lh_completion *c = NULL;
    lh_status st = lh_complete(&c, engine, &LH_STRUCT(lh_completion_options, .prompt = PROMPT, .max_new = NEW));
    if (st == LH_OK) snprintf(text, bytes, "%s", c->answers[0]->text);
    lh_completion_close(c);
    return st;
}

/* Every answer is right, every refusal says why. */
static void *call(void *self)
{
    caller *c = self;
    char text[256];
    for (int i = 0; i < ROUNDS; i++) {
        lh_status st = complete(c->engine, text, sizeof text);
        const int is_answer = st == LH_OK && strcmp(text, c->right) == 0;
        const int is_refusal = st == LH_EUSAGE && strstr(lh_error_message(), "at work in another thread") != NULL;
        c->answered += is_answer;
        c->refused += is_refusal;
        if (is_answer || is_refusal) continue;
        fprintf(stderr, "threads: status %d, '%s'\n", (int)st, lh_error_message());
        c->faults++;
    }
    return NULL;
}

static int call_together(lh_engine *engine, const char *right)
{
    pthread_t threads[2];
    caller callers[2] = {{engine, right, 0, 0, 0}, {engine, right, 0, 0, 0}};
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, call, &callers[i]) != 0) return 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    printf("two threads: %d answers, %d refusals\n", callers[0].answered + callers[1].answered,
           callers[0].refused + callers[1].refused);
    return callers[0].faults || callers[1].faults || !(callers[0].answered + callers[1].answered);
}

/* The child's calls are refused, and its ends end nothing of the parent's. */
static int call_in_child(lh_world *world, lh_engine *engine)
{
    int status = 0;
    char text[256];
    lh_session *session = NULL;
    lh_status st = lh_session_start(&session, engine, &LH_STRUCT(lh_session_start_options, .prompt = 3, .more = 1));
    if (st != LH_OK) return 1;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        st = complete(engine, text, sizeof text);
        int right = st == LH_EUSAGE && strstr(lh_error_message(), "fork") != NULL;
        st = lh_session_prefill(session, (const int32_t[]){1, 2, 3}, 3, NULL);
        right = right && st == LH_EUSAGE && strstr(lh_error_message(), "fork") != NULL;
        lh_error_clear();
        lh_session_close(session);
        lh_engine_close(engine);
        _exit(lh_world_close(world, LH_OK) || !right);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) return 1;
    st = lh_session_prefill(session, (const int32_t[]){1, 2, 3}, 3, NULL);
    lh_session_close(session);
    return status != 0 || st != LH_OK;
}

int main(int argc, char **argv)
{
    lh_world *world = NULL;
    lh_engine *engine = NULL;
    char right[256] = "", after[256] = "";
    int faults = 0;
    lh_log_set_level(LH_LOG_WARN);
    lh_status st = lh_world_open(&world, NULL);
    if (st == LH_OK)
        st = lh_engine_open(&engine, world,
                            &LH_STRUCT(lh_engine_options, .model = argc > 1 ? argv[1] : "", .threads = 2));
    if (st == LH_OK) st = complete(engine, right, sizeof right);
    if (st != LH_OK) return lh_world_close(world, st);
    /* of one rank: threads of several ranks could come in another order on each */
    if (lh_world_size(world) == 1) faults += call_together(engine, right);
    faults += call_in_child(world, engine);
    lh_error_clear();
    faults += complete(engine, after, sizeof after) != LH_OK || strcmp(right, after) != 0;
    lh_engine_close(engine);
    return lh_world_close(world, LH_OK) || faults;
}
