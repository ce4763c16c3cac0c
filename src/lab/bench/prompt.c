/* prompt.c - a prompt of random tokens and the steps after it: their times, or the counts of a layer and of steps. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "base/rng.h"
#include "engine/decode.h"
#include "lab/bench/bench.h"

/* ---- times ---- */
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
    for (int64_t i = 0; i < n; i++) LH_TRY(lh_session_draw(sessions[i], &lh_greedy, step, &id));
    return LH_OK;
}

/* Sequences that begin with the entries of the prompt's session. */
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
    if (lh_policy_check(p->policy, few.tokens) != LH_OK) { /* impossible for fewer tokens than the prompt has */
        lh_error_clear();
        few.tokens = p->tokens;
    }
    return lh_bench_time_prompt(&few, NULL, NULL);
}

/* ---- counts ---- */
typedef struct counted {
    const lh_device *device;
    int64_t tokens, layers;
    lh_bench_tally last, since;
    lh_bench_tally layer;         /* in the middle of the prompt's */
    double later[LH_COUNT_KINDS]; /* times of each kind in all layers of the prompt but the first */
    lh_bench_tally few, many;     /* the steps of the fewest and of the most kernels */
} counted;

static lh_status count_layer(void *self, int64_t done, int64_t total)
{
    counted *c = self;
    (void)total;
    if (done % c->tokens) return LH_OK;
    lh_bench_tally_take(c->device, &c->last, &c->since);
    if (done / c->tokens == (c->layers + 1) / 2) c->layer = c->since;
    for (int kind = 0; kind < LH_COUNT_KINDS && done > c->tokens; kind++)
        c->later[kind] += (double)lh_bench_tally_sum(&c->since, kind).times;
    return LH_OK;
}

static void count_step(void *self, int64_t step)
{
    counted *c = self;
    lh_bench_tally_take(c->device, &c->last, &c->since);
    if (step < LH_BENCH_FIRST_STEPS) return;
    const int64_t kernels = lh_bench_tally_sum(&c->since, LH_COUNT_KERNEL).times;
    if (step == LH_BENCH_FIRST_STEPS || kernels < lh_bench_tally_sum(&c->few, LH_COUNT_KERNEL).times) c->few = c->since;
    if (step == LH_BENCH_FIRST_STEPS || kernels > lh_bench_tally_sum(&c->many, LH_COUNT_KERNEL).times)
        c->many = c->since;
}

/* Kernels of a step that every layer launches: sampling, once a sequence, is not of a layer. */
static int64_t kernels_of_layer(const lh_bench_tally *t, int64_t layers)
{
    int64_t kernels = 0;
    for (int64_t i = 0; i < t->n; i++)
        if (t->counts[i].kind == LH_COUNT_KERNEL && strcmp(t->counts[i].name, "top_logits") != 0)
            kernels += t->counts[i].times / layers;
    return kernels;
}

/* Bytes of all kernels but products and attention. */
static double bytes_beside_products(const lh_bench_tally *t)
{
    static const char *const products[] = {"gemm",   "norm_gemm",    "expert_gemm",
                                           "cublas", "attend_block", "attend_decode"};
    const lh_count all = lh_bench_tally_sum(t, LH_COUNT_KERNEL);
    int64_t bytes = all.loaded + all.stored;
    for (int64_t i = 0; i < t->n; i++)
        for (size_t k = 0; k < sizeof products / sizeof *products; k++)
            if (t->counts[i].kind == LH_COUNT_KERNEL && strcmp(t->counts[i].name, products[k]) == 0)
                bytes -= t->counts[i].loaded + t->counts[i].stored;
    return (double)bytes;
}

/* Sums of counts. */
typedef struct figure {
    const char *name;
    double value;
} figure;

static lh_status add_figures(lh_bench_result *result, const char *shape, const figure *figures, size_t n)
{
    for (size_t i = 0; i < n; i++)
        LH_TRY(lh_bench_figure(result, figures[i].name, shape, (const double[]){figures[i].value, 0}));
    return LH_OK;
}

static lh_status report_layer(lh_bench_result *out, const counted *c, const char *shape)
{
    const lh_bench_tally *t = &c->layer;
    const double tokens = (double)c->tokens, later = (double)lh_max_i64(1, c->layers - 1);
    const figure figures[] = {
        {"kernels of a layer of the prompt", (double)lh_bench_tally_sum(t, LH_COUNT_KERNEL).times},
        {"copies of a layer of the prompt", (double)lh_bench_tally_sum(t, LH_COUNT_COPY).times},
        {"waits of a layer of the prompt", (double)lh_bench_tally_sum(t, LH_COUNT_WAIT).times},
        {"kernels of a layer of the prompt, mean of the later layers", c->later[LH_COUNT_KERNEL] / later},
        {"copies of a layer of the prompt, mean of the later layers", c->later[LH_COUNT_COPY] / later},
        {"waits of a layer of the prompt, mean of the later layers", c->later[LH_COUNT_WAIT] / later},
        {"bytes beside products and attention, of a token in a layer of the prompt", bytes_beside_products(t) / tokens},
        {"bytes sent, of a token in a layer of the prompt",
         (double)lh_bench_tally_sum(t, LH_COUNT_COLLECTIVE).loaded / tokens}};
    LH_TRY(lh_bench_tally_report(t, "layer of the prompt", shape, out));
    return add_figures(out, shape, figures, sizeof figures / sizeof *figures);
}

static lh_status report_steps(lh_bench_result *out, const counted *c, const char *shape)
{
    const int64_t few = kernels_of_layer(&c->few, c->layers), many = kernels_of_layer(&c->many, c->layers);
    const figure figures[] = {
        {"kernels of a layer in a decode step", (double)few},
        {"waits of a decode step", (double)lh_bench_tally_sum(&c->few, LH_COUNT_WAIT).times},
        {"exchanges of a decode step", (double)lh_bench_tally_sum(&c->few, LH_COUNT_COLLECTIVE).times},
        {"kernels of a layer in a decode step that evicts", (double)many},
        {"waits of a decode step that evicts", (double)lh_bench_tally_sum(&c->many, LH_COUNT_WAIT).times},
        {"exchanges of a decode step that evicts", (double)lh_bench_tally_sum(&c->many, LH_COUNT_COLLECTIVE).times}};
    LH_TRY(lh_bench_tally_report(&c->few, "decode step", shape, out));
    if (many > few) LH_TRY(lh_bench_tally_report(&c->many, "decode step that evicts", shape, out));
    return add_figures(out, shape, figures, many > few ? 6 : 3);
}

static lh_status report(lh_bench_result *out, const counted *c, const char *shape)
{
    LH_TRY(report_layer(out, c, shape));
    return report_steps(out, c, shape);
}

lh_status lh_bench_count_prompt(const lh_bench_prompt *prompt, const char *shape, lh_bench_result *out)
{
    lh_status st = LH_OK;
    const lh_engine_view *engine = lh_engine_get(prompt->engine);
    lh_bench_prompt counted_prompt = *prompt;
    counted *c = NULL;
    st = lh_calloc(&c, 1, sizeof *c);
    LH_TRY_DONE(lh_comm_agree(engine->comm, st));
    c->device = engine->device;
    c->tokens = prompt->tokens;
    c->layers = engine->config->layers;
    counted_prompt.progress = &(const lh_forward_progress){sizeof(lh_forward_progress), c, count_layer};
    counted_prompt.stepped = &(const lh_bench_stepped){c, count_step};
    LH_TRY_DONE(lh_bench_time_prompt(&counted_prompt, NULL, NULL));
    LH_TRY_DONE(lh_comm_agree(engine->comm, report(out, c, shape)));
done:
    lh_free(c);
    return st;
}
