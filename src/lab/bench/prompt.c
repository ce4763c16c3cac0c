/* prompt.c - times a prompt of random tokens and the steps after it. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/decode.h"
#include "lab/bench/bench_impl.h"

enum { WARM_STEPS = 2 };

lh_status lh_bench_draw_ids(int32_t **out, int64_t n, int64_t vocab)
{
    const uint32_t key[2] = {1, 2};
    LH_TRY(lh_calloc(out, n, sizeof **out));
    for (int64_t i = 0; i < n; i++) {
        uint32_t word[4];
        lh_philox(word, key, (const uint32_t[]){(uint32_t)i, 0, 0, 0});
        (*out)[i] = (int32_t)(word[0] % (uint32_t)vocab);
    }
    return LH_OK;
}

/* Copies the next tokens to the host, which waits for all work before it. */
static lh_status sample(lh_session *const *sessions, int64_t n, int64_t step)
{
    int32_t id;
    for (int64_t i = 0; i < n; i++) LH_TRY(lh_session_sample(sessions[i], &lh_greedy, step, &id));
    return LH_OK;
}

/* Sequences with entries of their own, that begin with what the prompt's session holds. */
static lh_status fork_sessions(const lh_bench_prompt *p, lh_session **sessions)
{
    lh_comm *comm = lh_engine_get(p->engine)->comm;
    for (int64_t b = 1; b < p->batch; b++) {
        LH_TRY(lh_session_fork(&sessions[b], sessions[0], p->steps + 1, 0));
        LH_TRY(lh_comm_agree(comm, lh_kv_unshare(lh_session_kv(sessions[b]))));
    }
    return LH_OK;
}

/* Steps of the prompt's session and of its forks. */
static lh_status time_steps(const lh_bench_prompt *p, lh_session **sessions, double *steps)
{
    lh_status st = LH_OK;
    int32_t *ids = NULL;
    LH_TRY_DONE(lh_calloc(&ids, p->batch, sizeof *ids));
    LH_TRY_DONE(fork_sessions(p, sessions));
    for (int64_t i = 0; i < p->steps; i++) {
        const double start = lh_clock_s();
        for (int64_t b = 0; b < p->batch; b++) ids[b] = p->ids[p->tokens + i];
        LH_TRY_DONE(lh_sessions_step(sessions, ids, p->batch));
        LH_TRY_DONE(sample(sessions, p->batch, i + 1));
        if (steps) steps[i] = lh_clock_s() - start;
        if (p->stepped) p->stepped->done(p->stepped->self, i);
    }
    if (p->step_nodes) *p->step_nodes = lh_forward_step_nodes(lh_session_forward(sessions[0]));
done:
    lh_free(ids);
    return st;
}

lh_status lh_bench_time_prompt(const lh_bench_prompt *p, double *prefill, double *steps)
{
    lh_status st = LH_OK;
    lh_session **sessions = NULL;
    const lh_session_options options = {.policy = p->policy,
                                        .profiles = p->profiles,
                                        .prompt = p->tokens,
                                        .more = p->steps + 1,
                                        .length = p->tokens + p->steps + 1,
                                        .sequences = p->batch};
    LH_TRY_DONE(lh_calloc(&sessions, p->batch, sizeof *sessions));
    LH_TRY_DONE(lh_session_open(&sessions[0], p->engine, &options));
    LH_TRY_DONE(lh_comm_barrier(lh_engine_get(p->engine)->comm));
    const double start = lh_clock_s();
    LH_TRY_DONE(lh_session_prefill(sessions[0], p->ids, p->tokens, p->progress));
    LH_TRY_DONE(sample(sessions, 1, 0));
    if (prefill) *prefill = lh_clock_s() - start;
    LH_TRY_DONE(time_steps(p, sessions, steps));
done:
    for (int64_t b = p->batch - 1; sessions && b >= 0; b--) lh_session_close(sessions[b]);
    lh_free(sessions);
    return st;
}

lh_status lh_bench_warm_up(const lh_bench_prompt *p, int64_t tokens)
{
    lh_bench_prompt few = *p;
    if (tokens == 0) return LH_OK;
    few.tokens = p->tokens < tokens ? p->tokens : tokens;
    few.steps = p->steps < WARM_STEPS ? p->steps : WARM_STEPS;
    few.progress = NULL;
    return lh_bench_time_prompt(&few, NULL, NULL);
}

double lh_bench_prefill_flops(const lh_config *c, int64_t tokens)
{
    const double n = (double)tokens, window = (double)c->window, q = (double)(c->heads * c->head_dim);
    const double kv = (double)(c->kv_heads * c->head_dim), hidden = (double)c->hidden;
    const double weights = hidden * (2 * q + 2 * kv) + 3 * hidden * (double)lh_config_mlp_channels_passed(c);
    double pairs = 0;
    for (int64_t l = 0; l < c->layers; l++) {
        const int slides = c->window > 0 && c->sliding[l] && window < n;
        pairs += slides ? window * (window + 1) / 2 + (n - window) * window : n * (n + 1) / 2;
    }
    return 2 * weights * n * (double)c->layers + 4 * q * pairs + 2 * hidden * (double)c->vocab;
}

lh_status lh_bench_speed(lh_engine *engine, const lh_bench_model_request *request, lh_bench_pace *out)
{
    lh_status st = LH_OK;
    double *steps = NULL;
    lh_bench_time time;
    int32_t *ids = NULL;
    const int64_t vocab = lh_engine_get(engine)->config->vocab;
    st = lh_bench_draw_ids(&ids, request->context + request->steps, vocab);
    if (st == LH_OK) st = lh_calloc(&steps, request->steps, sizeof *steps);
    LH_TRY_DONE(lh_comm_agree(lh_engine_get(engine)->comm, st));
    const lh_bench_prompt prompt = {.engine = engine,
                                    .policy = request->policy,
                                    .profiles = request->profiles,
                                    .ids = ids,
                                    .tokens = request->context,
                                    .steps = request->steps,
                                    .batch = request->batch};
    LH_TRY_DONE(lh_bench_warm_up(&prompt, request->warm_up));
    LH_TRY_DONE(lh_bench_time_prompt(&prompt, &out->prefill_s, steps));
    lh_bench_sort(steps, request->steps, &time);
    out->step_s = time.median_s;
done:
    lh_free(ids);
    lh_free(steps);
    return st;
}
