/* model.c - `bench run`: times prefill and decode steps of a model, alternately with the full cache and an evicted one,
 * and compares them with the FLOPs and bytes that they need at least. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/progress.h"
#include "base/rng.h"
#include "bench/bench_impl.h"
#include "engine/clock.h"
#include "engine/decode.h"
#include "engine/plan.h"

enum { CACHES = 2, WARM_TOKENS = 128, WARM_STEPS = 2 };

/* Measurements with one cache. */
typedef struct measured {
    const lh_policy *policy;
    const char *name;
    double *prefill, *steps; /* seconds [repeat], [repeat * steps] */
    double bytes;            /* that a step of one sequence reads, sum over ranks */
    double cache_bytes;      /* of these, those of its cache */
} measured;

typedef struct model_run {
    lh_engine *engine;
    lh_comm *comm;
    const lh_bench_model_request *request;
    lh_bench_request plain;
    lh_bench b; /* its rates: sums over ranks */
    measured caches[CACHES];
    int64_t count; /* of them */
    int32_t *ids;  /* [context + steps] */
    lh_progress progress;
    int64_t done; /* tokens of finished prefills */
} model_run;

static lh_status show_prefill(void *self, int64_t done, int64_t total)
{
    model_run *r = self;
    lh_progress_update(&r->progress, r->done + (int64_t)((double)done / (double)total * (double)r->request->context));
    return LH_OK;
}

/* ---- runs ---- */

/* Copies the next tokens to the host, which waits for all work before it. */
static lh_status sample(lh_session *const *sessions, int64_t n, int64_t step)
{
    int32_t id;
    for (int64_t i = 0; i < n; i++) LH_TRY(lh_session_sample(sessions[i], &lh_greedy, step, &id));
    return LH_OK;
}

/* One prefill and the steps after it. Seconds go to prefill[0] and steps[0 .. n - 1], unless these are NULL. */
typedef struct timed_run {
    const lh_policy *policy;
    int64_t tokens, n;
    double *prefill, *steps;
} timed_run;

/* Steps of the prompt's session and of its forks. */
static lh_status time_steps(model_run *r, lh_session **sessions, const timed_run *p)
{
    lh_status st = LH_OK;
    const int64_t batch = r->request->batch;
    int32_t *ids = NULL;
    LH_TRY_DONE(lh_calloc(&ids, batch, sizeof *ids));
    for (int64_t b = 1; b < batch; b++) LH_TRY_DONE(lh_session_fork(&sessions[b], sessions[0], p->n + 1, 0));
    for (int64_t i = 0; i < p->n; i++) {
        const double start = lh_clock_s();
        for (int64_t b = 0; b < batch; b++) ids[b] = r->ids[p->tokens + i];
        LH_TRY_DONE(lh_sessions_step(sessions, ids, batch));
        LH_TRY_DONE(sample(sessions, batch, i + 1));
        if (p->steps) p->steps[i] = lh_clock_s() - start;
    }
done:
    lh_free(ids);
    return st;
}

static lh_status run_once(model_run *r, const timed_run *p)
{
    lh_status st = LH_OK;
    const int64_t batch = r->request->batch;
    lh_session **sessions = NULL;
    const lh_forward_progress progress = {r, show_prefill};
    const lh_session_options options = {.policy = p->policy,
                                        .profiles = r->request->profiles,
                                        .prompt = p->tokens,
                                        .more = p->n + 1,
                                        .length = p->tokens + p->n + 1,
                                        .sequences = batch};
    LH_TRY_DONE(lh_calloc(&sessions, batch, sizeof *sessions));
    LH_TRY_DONE(lh_session_open(&sessions[0], r->engine, &options));
    LH_TRY_DONE(lh_comm_barrier(r->comm));
    const double start = lh_clock_s();
    LH_TRY_DONE(lh_session_prefill(sessions[0], r->ids, p->tokens, p->prefill ? &progress : NULL));
    LH_TRY_DONE(sample(sessions, 1, 0));
    if (p->prefill) *p->prefill = lh_clock_s() - start;
    LH_TRY_DONE(time_steps(r, sessions, p));
done:
    for (int64_t b = batch - 1; sessions && b >= 0; b--) lh_session_close(sessions[b]);
    lh_free(sessions);
    return st;
}

/* Warms up with few tokens, then alternates between the full cache and the evicted one. */
static lh_status run_all(model_run *r)
{
    lh_status st = LH_OK;
    const lh_bench_model_request *q = r->request;
    const int64_t few = q->context < WARM_TOKENS ? q->context : WARM_TOKENS;
    const int64_t steps = q->steps < WARM_STEPS ? q->steps : WARM_STEPS;
    LH_TRY_DONE(run_once(r, &(timed_run){.policy = r->caches[0].policy, .tokens = few, .n = steps}));
    lh_progress_init(&r->progress, "measuring", "tokens", r->count * q->repeat * q->context);
    for (int64_t i = 0; i < q->repeat; i++)
        for (int64_t c = 0; c < r->count; c++) {
            const measured *m = &r->caches[c];
            const timed_run timed = {m->policy, q->context, q->steps, m->prefill + i, m->steps + i * q->steps};
            LH_TRY_DONE(run_once(r, &timed));
            r->done += q->context;
        }
done:
    lh_progress_clear(&r->progress);
    return st;
}

/* ---- minimum FLOPs and bytes ---- */

/* FLOPs of a prefill: the products of all layers, full or sliding-window attention, and one row of logits. */
static double prefill_flops(const lh_config *c, int64_t tokens)
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

/* Local. Works out the bytes that a step reads with each cache. */
static lh_status plan_bytes(model_run *r)
{
    lh_status st = LH_OK;
    lh_plan plan = {0};
    lh_engine_options options = *r->request->options;
    options.tp = lh_comm_size(r->comm);
    for (int64_t c = 0; c < r->count; c++) {
        measured *m = &r->caches[c];
        lh_plan_clear(&plan);
        LH_TRY_DONE(lh_plan_make(&plan, &(lh_plan_request){.engine = &options,
                                                           .policy = m->policy,
                                                           .context = r->request->context,
                                                           .max_new = r->request->steps,
                                                           .profiles = r->request->profiles}));
        for (int64_t k = 0; k < plan.tp; k++) {
            m->bytes += (double)plan.ranks[k].decode_read;
            m->cache_bytes += (double)plan.ranks[k].kv_kept;
        }
    }
done:
    lh_plan_clear(&plan);
    return st;
}

/* Sums the rates of all ranks, which measure at the same time, since they also work at the same time. */
static lh_status measure_machine(model_run *r)
{
    lh_status st = LH_OK;
    lh_bench_rates *all = NULL, sum = {0};
    const int size = lh_comm_size(r->comm);
    LH_TRY_DONE(lh_comm_barrier(r->comm));
    st = lh_bench_machine(&r->b);
    if (st == LH_OK) st = lh_calloc(&all, size, sizeof *all);
    LH_TRY_DONE(lh_comm_agree(r->comm, st));
    LH_TRY_DONE(lh_comm_allgather(r->comm, &r->b.rates, all, sizeof *all));
    for (int k = 0; k < size; k++) {
        sum.bytes_per_s += all[k].bytes_per_s;
        sum.flops_f32 += all[k].flops_f32;
        sum.flops_bf16 += all[k].flops_bf16;
    }
    r->b.rates = sum;
done:
    lh_free(all);
    return st;
}

/* ---- results ---- */

/* Adds the row of `n` times of a cache, and its tokens per second. */
static lh_status add_times(model_run *r, lh_bench_case *c, double *seconds, int64_t n, int64_t tokens)
{
    lh_bench_time time;
    char name[64];
    c->type = lh_engine_get(r->engine)->dtype;
    lh_bench_sort(seconds, n, &time);
    LH_TRY(lh_bench_add_case(&r->b, c, &time));
    const double min_s = lh_bench_min_s(&r->b.rates, c);
    snprintf(name, sizeof name, "tokens/s of %s", c->name);
    LH_TRY(lh_bench_figure(r->b.result, name, c->shape,
                           (const double[]){(double)tokens / time.median_s, min_s > 0 ? (double)tokens / min_s : 0}));
    return LH_OK;
}

/* Appends ranks and types to the description of the device. */
static void describe_ranks(model_run *r)
{
    char *about = r->b.result->about;
    const size_t n = strlen(about), cap = sizeof r->b.result->about;
    const int ranks = lh_comm_size(r->comm);
    snprintf(about + n, cap - n, "; %d %s; weights %s, cache %s", ranks, ranks == 1 ? "rank" : "ranks",
             lh_dtype_name(lh_engine_get(r->engine)->dtype), lh_dtype_name(lh_engine_get(r->engine)->kv_dtype));
}

static lh_status report(model_run *r)
{
    const lh_bench_model_request *q = r->request;
    double median[CACHES] = {0}, bytes[CACHES] = {0};
    lh_bench_case prefill = {.name = "prefill"}, step = {.name = "decode step"};
    prefill.flops = prefill_flops(lh_engine_get(r->engine)->config, q->context);
    for (int64_t c = 0; c < r->count; c++) {
        measured *m = &r->caches[c];
        snprintf(prefill.shape, sizeof prefill.shape, "%s, %lld tokens", m->name, (long long)q->context);
        snprintf(step.shape, sizeof step.shape, "%s, after %lld tokens", m->name, (long long)q->context);
        if (q->batch > 1)
            snprintf(step.shape + strlen(step.shape), sizeof step.shape - strlen(step.shape), ", %lld sequences",
                     (long long)q->batch);
        step.bytes = m->bytes + (double)(q->batch - 1) * m->cache_bytes;
        LH_TRY(add_times(r, &prefill, m->prefill, q->repeat, q->context));
        LH_TRY(add_times(r, &step, m->steps, q->repeat * q->steps, q->batch));
        bytes[c] = step.bytes;
        median[c] = m->steps[q->repeat * q->steps / 2]; /* sorted by now */
    }
    if (r->count == CACHES)
        LH_TRY(lh_bench_figure(r->b.result, "pay-off of a step", r->caches[1].name,
                               (const double[]){median[0] / median[1], bytes[0] / bytes[1]}));
    return LH_OK;
}

/* ---- all of it ---- */

static lh_status check_request(const model_run *r)
{
    const lh_bench_model_request *q = r->request;
    const int64_t length = q->context + q->steps + 1, most = lh_engine_get(r->engine)->config->max_positions;
    if (length > most)
        LH_FAIL(LH_EUSAGE,
                "%lld tokens of prompt and %lld steps are longer than the %lld positions of the model: "
                "reduce '--context' or '--max-new'",
                (long long)q->context, (long long)q->steps, (long long)most);
    LH_TRY(lh_policy_check_question(q->policy));
    LH_TRY(lh_policy_check(q->policy, q->context));
    return LH_OK;
}

/* Local. Allocates, and draws the prompt's ids, the same on all ranks. */
static lh_status prepare_run(model_run *r)
{
    const lh_bench_model_request *q = r->request;
    const lh_exec *x = lh_engine_get(r->engine)->exec;
    const uint32_t key[2] = {1, 2}, vocab = (uint32_t)lh_engine_get(r->engine)->config->vocab;
    LH_TRY(check_request(r));
    r->b.ops = x->ops;
    r->b.stream = x->stream;
    r->b.device = lh_engine_get(r->engine)->device;
    LH_TRY(lh_event_open(&r->b.begin, r->b.device));
    LH_TRY(lh_event_open(&r->b.end, r->b.device));
    LH_TRY(lh_calloc(&r->ids, q->context + q->steps, sizeof *r->ids));
    for (int64_t i = 0; i < q->context + q->steps; i++) {
        uint32_t word[4];
        lh_philox(word, key, (const uint32_t[]){(uint32_t)i, 0, 0, 0});
        r->ids[i] = (int32_t)(word[0] % vocab);
    }
    for (int64_t c = 0; c < r->count; c++) {
        LH_TRY(lh_calloc(&r->caches[c].prefill, q->repeat, sizeof(double)));
        LH_TRY(lh_calloc(&r->caches[c].steps, q->repeat * q->steps, sizeof(double)));
    }
    LH_TRY(plan_bytes(r));
    return LH_OK;
}

static void clear_run(model_run *r)
{
    lh_bench_drop(&r->b, 0);
    lh_free(r->b.blocks);
    if (r->b.begin) lh_event_close(r->b.begin);
    if (r->b.end) lh_event_close(r->b.end);
    for (int64_t c = 0; c < r->count; c++) {
        lh_free(r->caches[c].prefill);
        lh_free(r->caches[c].steps);
    }
    lh_free(r->ids);
}

lh_status lh_bench_model(lh_engine *engine, const lh_bench_model_request *request, lh_bench_result *out)
{
    lh_status st = LH_OK;
    lh_policy full;
    lh_buf name = {0};
    model_run r = {.engine = engine, .comm = lh_engine_get(engine)->comm, .request = request, .count = 1};
    lh_bench_result_init(out);
    r.plain.quick = request->quick;
    r.b.request = &r.plain;
    r.b.result = out;
    LH_TRY_DONE(lh_policy_resolve(&full, &(lh_policy_options){.policy = "full"}));
    LH_TRY_DONE(lh_policy_text(request->policy, &name));
    r.caches[0] = (measured){.policy = &full, .name = "full"};
    if (request->policy->evicts) r.caches[r.count++] = (measured){.policy = request->policy, .name = name.data};
    LH_TRY_DONE(lh_comm_agree(r.comm, prepare_run(&r)));
    LH_TRY_DONE(measure_machine(&r));
    LH_TRY_DONE(run_all(&r));
    lh_bench_describe(&r.b);
    describe_ranks(&r);
    LH_TRY_DONE(report(&r));
done:
    clear_run(&r);
    lh_buf_clear(&name);
    return st;
}
