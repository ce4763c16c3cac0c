/* model.c - `bench run`: times prefill and decode steps of a model, alternately with the full cache and an evicted one,
 * and compares them with the FLOPs and bytes that they need at least. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/progress.h"
#include "engine/engine.h"
#include "engine/plan.h"
#include "engine/world.h"
#include "import/format_tally.h"
#include "lab/bench/bench.h"

enum { CACHES = 2 };

/* Measurements with one cache. */
typedef struct measured {
    const lh_policy *policy;
    const char *name;
    double *prefill, *steps; /* seconds [repeat], [repeat * steps] */
    double bytes;            /* read by a step of a single sequence, sum over ranks */
    double cache_bytes;      /* bytes of the sequence's cache among them */
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
    const int64_t tokens = r->request->context;
    const double share = lh_plan_prefill_share(lh_engine_get(r->engine)->config, tokens, done);
    (void)total;
    lh_progress_update(&r->progress, r->done + (int64_t)(share * (double)tokens));
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

/* Warms up with a prompt of each cache, then alternates between the full cache and the evicted one. */
static lh_status run_all(model_run *r)
{
    lh_status st = LH_OK;
    const lh_bench_model_request *q = r->request;
    const lh_forward_progress progress = {sizeof progress, r, show_prefill};
    lh_bench_prompt prompt = prompt_of(r);
    prompt.progress = &progress;
    for (int64_t c = 0; c < r->count; c++) {
        prompt.policy = r->caches[c].policy;
        LH_TRY_DONE(lh_bench_warm_up(&prompt, q->warm_up));
    }
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

/* Appends ranks and types, of the policy's cache if that evicts, to the description of the device. */
static lh_status describe_ranks(model_run *r)
{
    lh_status st = LH_OK;
    const lh_engine_view *e = lh_engine_get(r->engine);
    char *about = r->b.result->about;
    const size_t n = strlen(about), cap = sizeof r->b.result->about;
    const int ranks = lh_comm_size(r->comm);
    lh_format_tally stored;
    lh_buf weights = {0};
    LH_TRY_DONE(lh_format_tally_of(&stored, e->config, lh_model_options_of(e->model).formats));
    LH_TRY_DONE(lh_format_tally_in_memory(&stored, e->dtype, &weights));
    const char *full = lh_dtype_name(e->kv_types.full), *evicted = lh_dtype_name(e->kv_types.evicted);
    snprintf(about + n, cap - n, "; %d %s; weights %s, cache %s%s%s", ranks, ranks == 1 ? "rank" : "ranks",
             weights.data, full, r->count > 1 ? ", evicted " : "", r->count > 1 ? evicted : "");
done:
    lh_buf_clear(&weights);
    return st;
}

/* Launches of the captured step, and the time of a launch beyond the step's minimum, an upper bound of the mean gap
 * between launches. */
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
    prefill.flops = lh_plan_prefill_flops(lh_engine_get(r->engine)->config, q->context);
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

/* Collective over the engine's ranks. Measures prefill and decode steps after a prompt of random tokens, with the full
 * cache and with the policy's. FLOPs count matrix products and full attention; bytes are the minimum that a step reads
 * (lh_plan_make). Both, and the rates they are compared with, are sums over all ranks. The result is on rank 0. */
static lh_status measure_model(lh_engine *engine, const lh_bench_model_request *request, lh_bench_result *out)
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
    LH_TRY_DONE(describe_ranks(&r));
    LH_TRY_DONE(request->count ? count_all(&r) : time_all(&r));
done:
    clear_run(&r);
    lh_buf_clear(&name);
    return st;
}

/* ---- the command ---- */
struct run_options {
    int64_t context, steps, repeat, batch, warm_up;
    int count;
};

struct values {
    lh_bench_values shared;
    struct run_options own;
    lh_engine_options engine;
    lh_policy_options policy;
};

#define FIELD(member) LH_FIELD(struct run_options, member)
static const lh_option rows[] = {{.type = LH_OPT_TOKENS,
                                  .letter = 'c',
                                  .name = "context",
                                  FIELD(context),
                                  .arg = "TOKENS",
                                  .def = "2048",
                                  .min = 1,
                                  .max = 1 << 30,
                                  .help = "Length of the prompt, of random tokens."},
                                 {.type = LH_OPT_TOKENS,
                                  .letter = 'n',
                                  .name = "max-new",
                                  FIELD(steps),
                                  .arg = "TOKENS",
                                  .def = "32",
                                  .min = 1,
                                  .max = 1 << 20,
                                  .help = "Decode steps after it."},
                                 {.type = LH_OPT_I64,
                                  .name = "batch",
                                  FIELD(batch),
                                  .arg = "N",
                                  .def = "1",
                                  .min = 1,
                                  .max = 1024,
                                  .help = "Sequences that decode together, each with a copy of the prompt's cache."},
                                 {.type = LH_OPT_I64,
                                  .name = "repeat",
                                  FIELD(repeat),
                                  .arg = "N",
                                  .def = "3",
                                  .min = 1,
                                  .max = 1000,
                                  .help = "Runs with each cache. For prompts that take minutes 1 is enough."},
                                 {.type = LH_OPT_TOKENS,
                                  .name = "warm-up",
                                  FIELD(warm_up),
                                  .arg = "TOKENS",
                                  .def = "4096",
                                  .max = 1 << 30,
                                  .help = "Maximum tokens of two prompts, one with each cache, that are computed first "
                                          "and not timed. 0: the first runs include the start-up of the process."},
                                 {.type = LH_OPT_FLAG,
                                  .name = "count",
                                  FIELD(count),
                                  .help =
                                      "Count launches, bytes, exchanges and waits of a layer of the prompt and of a "
                                      "step instead of timing them. Needs an emulated GPU."},
                                 {0}};
#undef FIELD
static const lh_option_table table = {"the run", rows};
static const lh_option_group groups[] = {{&table, offsetof(struct values, own)},
                                         {&lh_shell_engine_options, offsetof(struct values, engine)},
                                         {&lh_shell_policy_options, offsetof(struct values, policy)},
                                         {&lh_bench_output_options, offsetof(lh_bench_values, output)},
                                         {&lh_shell_common_options, offsetof(lh_bench_values, common)},
                                         {0}};
static const lh_example examples[] = {
    {"longhaul bench run -m m.h5 --context 7500", "prefill and decode with the full cache"},
    {"longhaul bench run -m m.h5 --budget 512 --batch 16", "sixteen sequences a step, 512 entries each"},
    {"longhaul bench run -m random:llama-3.1-8b -c 32k --warm-up 0", "a first prompt; a shape without a file"},
    {"mpirun --bind-to none -n 4 longhaul bench run -m m.h5 -c 128000 --budget 1024 --repeat 1",
     "and with 1,024 entries kept"},
    {"build/tests/longhaul_simt bench run -m tiny.h5 -c 128 -n 8 --policy snapkv --budget 32 --count",
     "what a GPU would be asked to do, without one"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "bench run",
    .usage = "-m FILE [options]",
    .summary = "Measure prefill and decode of a model",
    .text = "Prefills a prompt of random tokens and decodes after it, with the full cache and, if a budget is given, "
            "with the policy's, alternately, after a warm-up with each. A prefill ends when its first token is on the "
            "host; so does a step.\n\nA prefill is compared with its FLOPs: products, full attention, one row of "
            "logits, without what a policy observes. A step is compared with the bytes that it must read, weights and "
            "cache ('longhaul plan' prints both). Bytes, FLOPs and peak rates are those of all ranks together, which "
            "measure at the same time; the table of the machine shows rank 0's.",
    .groups = groups,
    .examples = examples};

static lh_status open_engine(lh_call *call, const lh_profiles *profiles, lh_engine **engine)
{
    lh_status st = LH_OK;
    const struct values *v = call->values;
    const char *const files[] = {v->engine.model, NULL};
    LH_TRY(lh_shell_open_world(call, files));
    LH_TRY(lh_shell_same_policies(call, profiles));
    lh_comm *world = lh_world_comm(call->world);
    st = lh_bench_claim_output(&v->shared.output);
    LH_TRY(lh_comm_agree(world, st));
    LH_TRY(lh_engine_open_on(engine, lh_world_comm(call->world), &v->engine));
    return st;
}

static lh_status run_model(lh_call *call)
{
    static const char *const timing[2] = {"repeat", "warm-up"};
    lh_status st = LH_OK;
    struct values *v = call->values;
    const lh_bench_output *output = &v->shared.output;
    lh_policy policy;
    lh_profiles profiles = {0};
    lh_engine *engine = NULL;
    lh_bench_result result = {0};
    lh_bench_model_request request = {.options = &v->engine,
                                      .policy = &policy,
                                      .profiles = &profiles,
                                      .context = v->own.context,
                                      .steps = v->own.steps,
                                      .repeat = v->own.repeat,
                                      .batch = v->own.batch,
                                      .warm_up = v->own.warm_up,
                                      .quick = output->quick,
                                      .count = v->own.count};
    for (int i = 0; v->own.count && i < 2; i++)
        if (lh_options_given(call->options, timing[i]))
            LH_FAIL_DONE(LH_EUSAGE, "'--%s' has no effect with '--count', which counts once: leave it out", timing[i]);
    if (output->quick) { /* except values that were given */
        if (!lh_options_given(call->options, "context")) request.context = 64;
        if (!lh_options_given(call->options, "max-new")) request.steps = 3;
        if (!lh_options_given(call->options, "repeat")) request.repeat = 1;
    }
    v->policy.profiles = &profiles;
    LH_TRY_DONE(lh_policy_resolve(&policy, &v->policy));
    LH_TRY_DONE(open_engine(call, &profiles, &engine));
    LH_TRY_DONE(lh_engine_size_policy(engine, &policy));
    LH_TRY_DONE(measure_model(engine, &request, &result));
    if (lh_shell_first()) st = lh_bench_write(output, "run", &result);
    LH_TRY_DONE(lh_comm_agree(lh_engine_get(engine)->comm, st));
done:
    lh_bench_drop_output(output);
    lh_bench_result_clear(&result);
    lh_engine_close(engine);
    lh_profiles_clear(&profiles);
    return st;
}

const lh_command lh_command_bench_run = {&syntax, sizeof(struct values), run_model, NULL};
