/* bench_run.c - `bench run`: times prefill and decode of a model, with the full cache and with an evicted one. */
#include "lab/bench/bench_common.h"

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
                                  .def = "128",
                                  .max = 1 << 30,
                                  .help = "Tokens of a prompt that is computed first and not timed. 0: the first run "
                                          "is that of a process that has just started."},
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
            "with the policy's, alternately, after a short warm-up. A prefill ends when its first token is on the "
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
    LH_TRY(lh_shell_same_profiles(call, profiles));
    lh_comm *world = lh_world_comm(call->world);
    st = lh_bench_claim_output(&v->shared.output);
    LH_TRY(lh_comm_agree(world, st));
    LH_TRY(lh_engine_open(engine, call->world, &v->engine));
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
    LH_TRY_DONE(lh_bench_model(engine, &request, &result));
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
