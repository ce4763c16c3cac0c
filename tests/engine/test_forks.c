/* Laws of forks, at 1 to 4 ranks: one that shares the entries of its origin, one that has copies of them and the origin
 * itself go on alike, bit for bit in the reproducible order, and are saved alike. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/session.h"
#include "kv/figures.h"
#include "kv/save.h"
#include "mpi_check.h"
#include "tiny_engine.h"
#include "tiny_model.h"

enum { TOKENS = 760, CONTEXT = 700, VOCAB = 211, QUESTION = 7, STEPS = 9, MORE = 40 };

static const tiny_shape shapes[] = {
    {.name = "6/3", .heads = 6, .kv_heads = 3, .head_dim = 8, .layers = 3, .ff = 50, .vocab = VOCAB},
    {.name = "4/2 sliding",
     .heads = 4,
     .kv_heads = 2,
     .head_dim = 8,
     .layers = 2,
     .ff = 50,
     .vocab = VOCAB,
     .family = "gemma2",
     .window = 300,
     .more = "\"query_pre_attn_scalar\": 7, \"attn_logit_softcapping\": 4, \"final_logit_softcapping\": 6"},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* shares: layers that do not slide leave whole units with the origin. */
static const struct fork_case {
    const char *policy, *budget, *evict, *positions;
    int shares;
} cases[] = {
    {"full", NULL, NULL, NULL, 1},
    {"snapkv", "300", NULL, NULL, 1},
    {"ada-snapkv", "60%", NULL, NULL, 1},
    {"ask-later", "520", NULL, NULL, 1}, /* with biases */
    {"streaming", "300", "every:2", NULL, 0},
    {"streaming", "300", NULL, "slot", 0},
    {"h2o", "280", NULL, NULL, 0},
    {"snapkv", "100", NULL, NULL, 0}, /* less than a unit */
};
enum { CASES = sizeof cases / sizeof *cases };

static struct fixture {
    char folder[64], model[SHAPES][96];
    int32_t ids[TOKENS];
} fix;

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

/* A session that holds the context. */
static lh_session *open_origin(lh_engine *engine, lh_policy *policy, int n)
{
    lh_session *session = NULL;
    lh_policy_options o = {.policy = cases[n].policy, .budget = cases[n].budget};
    o.parts.evict = cases[n].evict;
    o.parts.positions = cases[n].positions;
    mt_try(lh_policy_resolve(policy, &o));
    mt_try(lh_session_open(
        &session, engine,
        &(lh_session_options){
            .policy = policy, .prompt = CONTEXT, .more = MORE, .length = CONTEXT + MORE, .block = MORE, .seed = 5}));
    mt_try(lh_session_prefill(session, fix.ids, CONTEXT, NULL));
    return session;
}

static void take_logits(lh_session *session, lh_buf *logits)
{
    const float *rows = NULL;
    int64_t n = 0;
    mt_try(lh_session_logits(session, &rows, &n));
    if (rows) mt_try(lh_buf_append(logits, rows + (n - 1) * VOCAB, VOCAB * (int64_t)sizeof *rows));
}

/* A question, then some steps: the bytes of their logits, on rank 0. */
static void ask(lh_session *session, lh_buf *logits)
{
    mt_try(lh_session_block(session, fix.ids + CONTEXT, QUESTION));
    take_logits(session, logits);
    for (int i = 0; i < STEPS; i++) {
        mt_try(lh_session_step(session, fix.ids[CONTEXT + 10 + i]));
        take_logits(session, logits);
    }
}

static void check_same(const lh_buf *got, const lh_buf *want, const char *what, const char *which)
{
    mt_check(got->bytes == want->bytes && (got->bytes == 0 || memcmp(got->data, want->data, (size_t)got->bytes) == 0),
             "%s: %s differs", what, which);
}

static int64_t capacity(lh_session *session)
{
    lh_kv_stats stats = {0};
    mt_try(lh_kv_stats_of(lh_session_kv(session), &stats));
    return stats.bytes_capacity;
}

/* Runs `law` for every policy on every model. */
typedef void (*fork_law)(lh_engine *engine, int n, const char *what);

static void hold(fork_law law)
{
    make_fixture();
    for (int m = 0; m < SHAPES; m++) {
        lh_engine *engine =
            tiny_engine_open(mt_comm(), &(lh_engine_options){.model = fix.model[m], .deterministic = 1});
        for (int n = 0; n < CASES; n++) {
            char what[96];
            snprintf(what, sizeof what, "%s, %s, case %d", shapes[m].name, cases[n].policy, n);
            law(engine, n, what);
        }
        lh_engine_close(engine);
    }
    remove_fixture();
    mt_end();
}

/* One that shares, one with too little room for its question, one that shares no longer, and one of a fork. */
static void go_on_law(lh_engine *engine, int n, const char *what)
{
    enum { SHARING, TIGHT, UNSHARED, OF_FORK, FORKS };
    static const char *const names[] = {"a fork", "a fork that grows", "a fork that shares nothing",
                                        "a fork of a fork"};
    lh_policy policy;
    lh_session *origin = open_origin(engine, &policy, n), *forks[FORKS] = {NULL};
    lh_buf want = {0}, got[FORKS] = {{0}};
    for (int f = 0; f < FORKS; f++)
        mt_try(lh_session_fork(&forks[f], f == OF_FORK ? forks[SHARING] : origin, f == TIGHT ? 1 : MORE, MORE));
    mt_expect(lh_session_block(origin, fix.ids, 1), LH_EINTERNAL);
    mt_try(lh_kv_unshare(lh_session_kv(forks[UNSHARED])));
    int64_t shared = capacity(forks[SHARING]), whole = capacity(forks[UNSHARED]);
    mt_check(cases[n].shares && whole ? shared < whole : shared == whole, "%s: a fork has %lld bytes of %lld", what,
             (long long)shared, (long long)whole);
    for (int f = FORKS - 1; f >= 0; f--) {
        ask(forks[f], &got[f]);
        lh_session_close(forks[f]);
    }
    lh_session_close(origin);
    origin = open_origin(engine, &policy, n);
    ask(origin, &want);
    lh_session_close(origin);
    for (int f = 0; f < FORKS; f++) {
        check_same(&got[f], &want, what, names[f]);
        lh_buf_clear(&got[f]);
    }
    lh_buf_clear(&want);
}

START_TEST(test_a_fork_goes_on_as_its_origin_would)
{
    hold(go_on_law);
}
END_TEST

/* What a fork takes is what is forecast for it: where heads compete, no more. */
static void forecast_law(lh_engine *engine, int n, const char *what)
{
    lh_device *device = lh_engine_get(engine)->device;
    lh_policy policy;
    lh_session_bytes bytes;
    lh_buf unused = {0};
    lh_session *origin = open_origin(engine, &policy, n), *fork = NULL;
    mt_try(lh_session_forecast(&bytes, engine,
                               &(lh_session_options){.policy = &policy,
                                                     .prompt = CONTEXT,
                                                     .more = QUESTION + STEPS,
                                                     .fork_more = QUESTION + STEPS,
                                                     .length = CONTEXT + QUESTION + STEPS,
                                                     .block = QUESTION}));
    const int64_t held = lh_device_usage(device).now_total;
    lh_device_reset_peak(device);
    mt_try(lh_session_fork(&fork, origin, QUESTION + STEPS, QUESTION));
    ask(fork, &unused);
    const int64_t took = lh_device_usage(device).peak_total - held;
    mt_check(took <= bytes.fork && (policy.budgets.heads != LH_HEADS_UNIFORM || 10 * took >= 9 * bytes.fork),
             "%s: a fork takes %lld bytes, %lld by the forecast", what, (long long)took, (long long)bytes.fork);
    lh_session_close(fork);
    lh_session_close(origin);
    lh_buf_clear(&unused);
}

START_TEST(test_a_fork_takes_what_is_forecast)
{
    hold(forecast_law);
}
END_TEST

/* The entries of the session's heads, in a file. */
static void save(lh_session *session, const char *name, char path[128])
{
    snprintf(path, 128, "%s/%s.h5", fix.folder, name);
    mt_try(lh_session_write(session, path, &(lh_cache_extra){.seed = 5, .run = "{}"}));
}

/* Goes on from a file. */
static void ask_file(lh_engine *engine, const lh_policy *policy, const char *path, lh_buf *logits)
{
    lh_saved_kv file = {0};
    lh_session *session = NULL;
    mt_try(lh_saved_kv_open(&file, path));
    mt_try(lh_session_open(
        &session, engine,
        &(lh_session_options){.policy = policy, .more = MORE, .length = CONTEXT + 2 * MORE, .block = MORE, .seed = 5}));
    mt_try(lh_session_read(session, &file));
    ask(session, logits);
    lh_session_close(session);
    lh_saved_kv_close(&file);
}

static void save_law(lh_engine *engine, int n, const char *what)
{
    char paths[2][128];
    lh_policy policy;
    lh_keep_sets sets[2] = {0};
    lh_buf logits[2] = {{0}}, unused = {0};
    lh_session *origin = open_origin(engine, &policy, n), *fork = NULL;
    mt_try(lh_session_fork(&fork, origin, MORE, MORE));
    ask(fork, &unused);
    mt_try(lh_kv_take_keep_sets(lh_session_kv(fork), LH_KEEP_KEPT, &sets[0]));
    lh_session_close(fork);
    mt_try(lh_session_fork(&fork, origin, MORE, MORE));
    ask(fork, &unused);
    const int64_t shared = capacity(fork);
    save(fork, "fork", paths[0]);
    mt_check(capacity(fork) == shared, "%s: a fork that is saved grows to %lld bytes from %lld", what,
             (long long)capacity(fork), (long long)shared);
    lh_session_close(fork);
    ask(origin, &unused);
    mt_try(lh_kv_take_keep_sets(lh_session_kv(origin), LH_KEEP_KEPT, &sets[1]));
    save(origin, "origin", paths[1]);
    lh_session_close(origin);
    for (int64_t l = 0; l < lh_engine_get(engine)->config->layers && mt_rank() == 0; l++) {
        const lh_positions *a = &sets[0].parts[LH_KEEP_KEPT][l], *b = &sets[1].parts[LH_KEEP_KEPT][l];
        mt_check(a->heads == b->heads && a->offsets[a->heads] == b->offsets[b->heads] &&
                     memcmp(a->positions, b->positions, (size_t)a->offsets[a->heads] * sizeof *a->positions) == 0,
                 "%s: keep sets of a fork differ in layer %d", what, (int)l);
    }
    for (int i = 0; i < 2; i++) {
        ask_file(engine, &policy, paths[i], &logits[i]);
        lh_keep_sets_clear(&sets[i]);
    }
    check_same(&logits[0], &logits[1], what, "a saved fork");
    for (int i = 0; i < 2; i++) lh_buf_clear(&logits[i]);
    lh_buf_clear(&unused);
}

START_TEST(test_a_fork_is_saved_as_its_origin_would_be)
{
    hold(save_law);
}
END_TEST

/* Two snapshots, one after the prompt and one after a question: what follows each is the same every time, and what a
 * session without snapshots computes. */
static void snapshot_law(lh_engine *engine, int n, const char *what)
{
    enum { PROMPT_ONCE, PROMPT_AGAIN, QUESTION_ONCE, QUESTION_AGAIN, TIMES };
    lh_policy policy;
    lh_buf want[2] = {{0}}, got[TIMES] = {{0}}, unused = {0};
    lh_session *session = open_origin(engine, &policy, n);
    for (int i = 0; i < 2; i++) ask(session, &want[i]);
    lh_session_close(session);
    session = open_origin(engine, &policy, n);
    mt_try(lh_session_snapshot(session));
    ask(session, &got[PROMPT_ONCE]);
    mt_try(lh_session_restore(session));
    mt_check(lh_session_tokens(session)->n == CONTEXT, "%s: %lld tokens are left", what,
             (long long)lh_session_tokens(session)->n);
    ask(session, &got[PROMPT_AGAIN]);
    mt_try(lh_session_snapshot(session));
    for (int i = QUESTION_ONCE; i <= QUESTION_AGAIN; i++) {
        ask(session, &got[i]);
        mt_try(lh_session_restore(session));
    }
    ask(session, &unused);
    lh_session_close(session);
    for (int i = 0; i < TIMES; i++) {
        check_same(&got[i], &want[i / 2], what, i < 2 ? "the prompt's snapshot" : "the question's snapshot");
        lh_buf_clear(&got[i]);
    }
    for (int i = 0; i < 2; i++) lh_buf_clear(&want[i]);
    lh_buf_clear(&unused);
}

START_TEST(test_what_follows_a_snapshot_follows_it_again)
{
    hold(snapshot_law);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("forks");
    TCase *all = tcase_create("all");
    tcase_add_test(all, test_a_fork_goes_on_as_its_origin_would);
    tcase_add_test(all, test_a_fork_takes_what_is_forecast);
    tcase_add_test(all, test_a_fork_is_saved_as_its_origin_would_be);
    tcase_add_test(all, test_what_follows_a_snapshot_follows_it_again);
    suite_add_tcase(suite, all);
    return mt_run(suite);
}
