/* model.c - `bench run`: times prefill and decode steps of a model, alternately with the full cache and an evicted one,
 * and compares them with the FLOPs and bytes that they need at least. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/progress.h"
#include "engine/plan.h"
#include "lab/bench/bench_impl.h"

enum { CACHES = 2 };

/* Measurements with one cache. */
typedef struct measured {
    const lh_policy *policy;
    const char *name;
    double *prefill, *steps; /* seconds [repeat], [repeat * steps] */
    double bytes;            /* that a step of one sequence reads, sum over ranks */
    double cache_bytes;      /* of these, those of its cache */
    double first_s;          /* of the first prefill */
    int64_t nodes;           /* of a step's graph; 0: none was captured */
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

static lh_bench_prompt prompt_of(const model_run *r)
{
    const lh_bench_model_request *q = r->request;
    return (lh_bench_prompt){.engine = r->engine,
                             .policy = r->caches[0].policy,
                             .profiles = q->profiles,
                             .ids = r->ids,
                             .tokens = q->context,
                             .steps = q->steps,
                             .batch = q->batch};
}

/* Warms up with few tokens, then alternates between the full cache and the evicted one. */
static lh_status run_all(model_run *r)
{
    lh_status st = LH_OK;
    const lh_bench_model_request *q = r->request;
    const lh_forward_progress progress = {r, show_prefill};
    lh_bench_prompt prompt = prompt_of(r);
    prompt.progress = &progress;
    LH_TRY_DONE(lh_bench_warm_up(&prompt, q->warm_up));
    lh_progress_init(&r->progress, "measuring", "tokens", r->count * q->repeat * q->context);
    for (int64_t i = 0; i < q->repeat; i++)
        for (int64_t c = 0; c < r->count; c++) {
            measured *m = &r->caches[c];
            prompt.policy = m->policy;
            prompt.step_nodes = &m->nodes;
            LH_TRY_DONE(lh_bench_time_prompt(&prompt, m->prefill + i, m->steps + i * q->steps));
            r->done += q->context;
        }
    for (int64_t c = 0; c < r->count; c++) r->caches[c].first_s = r->caches[c].prefill[0]; /* they will be sorted */
done:
    lh_progress_clear(&r->progress);
    return st;
}

/* ---- minimum FLOPs and bytes ---- */

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

/* What the captured step launches, and the time that each launch takes beyond the step's minimum: more than the mean
 * gap between them. */
static lh_status add_launches(model_run *r, const measured *m, const lh_bench_case *step, double median_s)
{
    const double nodes = (double)m->nodes, beyond_s = median_s - lh_bench_min_s(&r->b.rates, step);
    if (!m->nodes) return LH_OK;
    LH_TRY(lh_bench_figure(r->b.result, "launches of a step", m->name, (const double[]){nodes, 0}));
    return lh_bench_figure(r->b.result, "microseconds of a launch of a step, beyond the minimum", m->name,
                           (const double[]){1e6 * beyond_s / nodes, 0});
}

/* Bytes of this rank, as counted and as its device's driver has them. */
static lh_status add_memory(model_run *r)
{
    const double gib = 1 << 30, driver = (double)lh_device_driver_peak(r->b.device) / gib;
    return lh_bench_figure(r->b.result, "peak memory in GiB, counted; at most in use", lh_device_name(r->b.device),
                           (const double[]){(double)lh_device_usage(r->b.device).peak_total / gib, driver});
}

static lh_status report(model_run *r)
{
    const lh_bench_model_request *q = r->request;
    double median[CACHES] = {0}, bytes[CACHES] = {0}, prefill_s[CACHES] = {0};
    lh_bench_case prefill = {.name = "prefill"}, step = {.name = "decode step"};
    prefill.flops = lh_bench_prefill_flops(lh_engine_get(r->engine)->config, q->context);
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
        prefill_s[c] = m->prefill[q->repeat / 2];
        LH_TRY(lh_bench_figure(r->b.result, "seconds of the first prefill", m->name, (const double[]){m->first_s, 0}));
        LH_TRY(add_launches(r, m, &step, median[c]));
    }
    if (r->count == CACHES) {
        LH_TRY(lh_bench_figure(r->b.result, "pay-off of a step", r->caches[1].name,
                               (const double[]){median[0] / median[1], bytes[0] / bytes[1]}));
        LH_TRY(lh_bench_figure(r->b.result, "share of eviction in prefill", r->caches[1].name,
                               (const double[]){1 - prefill_s[0] / prefill_s[1], 0}));
    }
    return add_memory(r);
}

/* ---- all of it ---- */

static lh_status time_all(model_run *r)
{
    LH_TRY(run_all(r)); /* first: libraries that measuring the machine opens are part of a first prompt */
    LH_TRY(measure_machine(r));
    return report(r);
}

static lh_status count_all(model_run *r)
{
    lh_status st = LH_OK;
    lh_buf shape = {0};
    lh_bench_prompt prompt = prompt_of(r);
    for (int64_t c = 0; c < r->count; c++) {
        prompt.policy = r->caches[c].policy;
        shape.bytes = 0;
        LH_TRY_DONE(lh_buf_printf(&shape, "%s, %lld tokens", r->caches[c].name, (long long)prompt.tokens));
        LH_TRY_DONE(lh_bench_count_prompt(&prompt, shape.data, r->b.result));
    }
done:
    lh_buf_clear(&shape);
    return st;
}

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

static lh_status check_counts(const model_run *r)
{
    LH_TRY(lh_bench_check_counts(r->b.device));
    if (r->request->steps <= LH_BENCH_FIRST_STEPS)
        LH_FAIL(LH_EUSAGE, "'--count' needs '--max-new' of %d or more: the first steps allocate and capture",
                LH_BENCH_FIRST_STEPS + 1);
    return LH_OK;
}

/* Local. Allocates, and draws the prompt's ids, the same on all ranks. */
static lh_status prepare_run(model_run *r)
{
    const lh_bench_model_request *q = r->request;
    const lh_exec *x = lh_engine_get(r->engine)->exec;
    LH_TRY(check_request(r));
    r->b.ops = x->ops;
    r->b.stream = x->stream;
    r->b.device = lh_engine_get(r->engine)->device;
    if (q->count) LH_TRY(check_counts(r));
    LH_TRY(lh_event_open(&r->b.begin, r->b.device));
    LH_TRY(lh_event_open(&r->b.end, r->b.device));
    LH_TRY(lh_bench_draw_ids(&r->ids, q->context + q->steps, lh_engine_get(r->engine)->config->vocab));
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
    lh_bench_result_init(out, request->count ? lh_bench_count_columns : lh_bench_columns);
    r.plain.quick = request->quick;
    r.b.request = &r.plain;
    r.b.result = out;
    LH_TRY_DONE(lh_policy_resolve(&full, &(lh_policy_options){.policy = "full"}));
    LH_TRY_DONE(lh_policy_text(request->policy, &name));
    r.caches[0] = (measured){.policy = &full, .name = "full"};
    if (request->policy->evicts) r.caches[r.count++] = (measured){.policy = request->policy, .name = name.data};
    LH_TRY_DONE(lh_comm_agree(r.comm, prepare_run(&r)));
    lh_bench_describe(&r.b);
    describe_ranks(&r);
    LH_TRY_DONE(request->count ? count_all(&r) : time_all(&r));
done:
    clear_run(&r);
    lh_buf_clear(&name);
    return st;
}
