/* Laws of decode steps as CUDA graphs, at 1 to 4 ranks that talk by NCCL: whatever moves memory on some of them, and
 * whichever cannot capture, all launch, capture and replay their steps alike (the emulated NCCL ends them otherwise),
 * and the logits are those of steps that are never captured. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "device/counts.h"
#include "engine/engine.h"
#include "engine/session.h"
#include "engine/tiny_engine.h"
#include "engine/tiny_model.h"
#include "mpi_check.h"

enum { PROMPT = 160, STEPS = 90, ASIDE = 60, FAILS = 40, QUESTION = 5, VOCAB = 97, FORKS = 3, NEVER = -1 };

/* One KV head a rank at 4 ranks, two and one at 3; and groups that are split over ranks. */
static const tiny_shape shapes[] = {
    {.name = "8/4", .heads = 8, .kv_heads = 4, .head_dim = 8, .layers = 2, .ff = 40, .vocab = VOCAB},
    {.name = "6/1", .heads = 6, .kv_heads = 1, .head_dim = 8, .layers = 2, .ff = 40, .vocab = VOCAB},
    {.name = "4/2 sliding",
     .heads = 4,
     .kv_heads = 2,
     .head_dim = 8,
     .layers = 2,
     .ff = 40,
     .vocab = VOCAB,
     .family = "gemma2",
     .window = 90,
     .more = "\"query_pre_attn_scalar\": 7, \"attn_logit_softcapping\": 4, \"final_logit_softcapping\": 6"},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* When the last rank cannot capture any more, and how many graphs all ranks launch then. */
static const struct failure {
    int at, least, most;
} failures[] = {{NEVER, STEPS / 2, 2 * STEPS}, {0, 0, 0}, {FAILS, FAILS / 2, STEPS - 1}};
enum { FAILURES = sizeof failures / sizeof *failures };

/* failures: so many of them are tried. */
static const struct {
    const char *policy, *budget, *evict;
    int failures;
    const char *kv_dtype; /* NULL: f32 */
} cases[] = {
    {"full", NULL, NULL, 1, NULL},
    {"ada-snapkv", "40%", NULL, FAILURES, NULL}, /* heads of different lengths, which grow at different steps */
    {"ada-snapkv", "40%", "every:3", 1, NULL},   /* and are evicted */
    {"h2o", "40%", "every:1", 1, NULL},          /* statistics of every row */
    {"tova", "40%", "every:2", 1, NULL},         /* the last row, counted as it passes */
    {"mas", "40%", "every:3", 1, "q8"},          /* where groups are split, rows meet widened entries */
};
enum { CASES = sizeof cases / sizeof *cases };

static struct fixture {
    char folder[MT_FOLDER_BYTES], model[SHAPES][96];
    int32_t ids[PROMPT + STEPS];
} fix;

static void set_up(void)
{
    mt_folder_make(fix.folder);
    for (int i = 0; i < SHAPES; i++) {
        snprintf(fix.model[i], sizeof fix.model[i], "%s/model%d.h5", fix.folder, i);
        if (mt_rank() == 0) tiny_model_make(fix.model[i], &shapes[i]);
    }
    tiny_model_tokens(fix.ids, PROMPT + STEPS, VOCAB);
    mt_try(lh_comm_barrier(mt_comm()));
}

static void tear_down(void)
{
    mt_folder_remove(fix.folder);
}

static void let_capture(int can)
{
    setenv("LONGHAUL_SIMT_GRAPHS", can ? "1" : "0", 1);
}

/* Logits on rank 0; the step from which on the last rank cannot capture, all others can. */
typedef struct course {
    lh_buf logits;
    int fails_at;
} course;

static void take_logits(lh_session *session, course *c)
{
    const float *rows = NULL;
    int64_t n = 0;
    mt_try(lh_session_logits(session, &rows, &n));
    if (rows) mt_try(lh_buf_append(&c->logits, rows + (n - 1) * VOCAB, VOCAB * (int64_t)sizeof *rows));
}

/* Between two steps: another number of candidates needs other workspace. */
static void choose(lh_session *session, int step)
{
    const lh_sampling few = {.temperature = 1, .top_k = 2}, many = {.temperature = 1, .top_k = 33};
    int32_t id;
    mt_try(lh_session_draw(session, step < STEPS / 2 ? &few : &many, step, &id));
}

static void step_together(lh_session **sessions, int64_t n, int step, course *c)
{
    int32_t ids[FORKS];
    for (int64_t b = 0; b < n; b++) ids[b] = fix.ids[PROMPT + (step + b) % STEPS];
    if (step == c->fails_at && mt_rank() == mt_size() - 1) let_capture(0);
    mt_try(lh_sessions_step(sessions, ids, n));
    for (int64_t b = 0; b < n; b++) take_logits(sessions[b], c);
    choose(sessions[0], step);
}

static lh_session *open_session(lh_engine *engine, lh_policy *policy, int n)
{
    lh_session *session = NULL;
    lh_policy_options o = {.policy = cases[n].policy, .budget = cases[n].budget};
    o.parts.evict = cases[n].evict;
    mt_try(lh_policy_resolve(policy, &o));
    mt_try(lh_session_open(&session, engine,
                           &(lh_session_options){.policy = policy,
                                                 .prompt = PROMPT,
                                                 .more = 1,
                                                 .length = PROMPT + 2 * STEPS,
                                                 .sequences = FORKS,
                                                 .block = QUESTION,
                                                 .seed = 5}));
    mt_try(lh_session_prefill(session, fix.ids, PROMPT, NULL));
    return session;
}

/* One session: steps, after a snapshot a question and some more, and the same after it was restored. */
static void play_alone(lh_engine *engine, int n, course *c)
{
    lh_policy policy;
    lh_session *session = open_session(engine, &policy, n);
    for (int i = 0; i < ASIDE; i++) step_together(&session, 1, i, c);
    mt_try(lh_session_snapshot(session));
    for (int time = 0; time < 2; time++) {
        mt_try(lh_session_block(session, fix.ids, QUESTION));
        for (int i = ASIDE; i < ASIDE + 10; i++) step_together(&session, 1, i, c);
        mt_try(lh_session_restore(session));
    }
    for (int i = ASIDE; i < STEPS; i++) step_together(&session, 1, i, c);
    lh_session_close(session);
}

/* Forks that step together, of which one leaves. */
static void play_together(lh_engine *engine, int n, course *c)
{
    lh_policy policy;
    lh_session *origin = open_session(engine, &policy, n), *forks[FORKS];
    for (int f = 0; f < FORKS; f++) mt_try(lh_session_fork(&forks[f], origin, 1 + 9 * f, QUESTION));
    for (int i = 0; i < ASIDE; i++) step_together(forks, FORKS, i, c);
    lh_session_close(forks[FORKS - 1]);
    for (int i = ASIDE; i < STEPS; i++) step_together(forks, FORKS - 1, i, c);
    for (int f = 0; f < FORKS - 1; f++) lh_session_close(forks[f]);
    lh_session_close(origin);
}

static void (*const plays[])(lh_engine *engine, int n, course *c) = {play_alone, play_together};
enum { PLAYS = sizeof plays / sizeof *plays };

static int64_t replays(const lh_engine *engine)
{
    const lh_count *counts;
    int64_t n = lh_device_counts(lh_engine_get(engine)->device, &counts), times = 0;
    for (int64_t i = 0; i < n; i++) times += counts[i].kind == LH_COUNT_GRAPH ? counts[i].times : 0;
    return times;
}

/* Graphs that were launched. can: all ranks can capture; fails_at: the last rank no longer. */
static int64_t play(lh_engine *engine, int which, int n, int can, course *c)
{
    int64_t before = replays(engine);
    let_capture(can);
    plays[which](engine, n, c);
    return replays(engine) - before;
}

START_TEST(test_steps_are_captured_and_replayed_alike_on_all_ranks)
{
    for (int n = 0; n < CASES; n++) {
        const lh_engine_options options = {.model = fix.model[_i], .device = "cuda", .kv_dtype = cases[n].kv_dtype};
        const int widens = cases[n].kv_dtype && mt_size() > shapes[_i].kv_heads;
        lh_engine *engine = tiny_engine_open(mt_comm(), &options);
        for (int which = 0; which < PLAYS; which++) {
            course want = {.fails_at = NEVER};
            mt_check(play(engine, which, n, 0, &want) == 0, "graphs without a device that captures");
            for (int i = 0; i < cases[n].failures; i++) {
                course got = {.fails_at = failures[i].at};
                int64_t launches = play(engine, which, n, 1, &got);
                mt_check(widens ? launches == 0 : launches >= failures[i].least && launches <= failures[i].most,
                         "%s, %s, play %d: %lld graphs where the last rank fails at step %d", shapes[_i].name,
                         cases[n].policy, which, (long long)launches, failures[i].at);
                mt_check(got.logits.bytes == want.logits.bytes &&
                             (!want.logits.bytes ||
                              memcmp(got.logits.data, want.logits.data, (size_t)want.logits.bytes) == 0),
                         "%s, %s, play %d: other logits", shapes[_i].name, cases[n].policy, which);
                lh_buf_clear(&got.logits);
            }
            lh_buf_clear(&want.logits);
        }
        lh_engine_close(engine);
    }
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("graphs");
    TCase *laws = tcase_create("laws");
    tcase_set_timeout(laws, 0);
    tcase_add_unchecked_fixture(laws, set_up, tear_down);
    tcase_add_loop_test(laws, test_steps_are_captured_and_replayed_alike_on_all_ranks, 0, SHAPES);
    suite_add_tcase(suite, laws);
    return mt_run(suite);
}
