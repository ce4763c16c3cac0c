/* cmd_batch.c - `batch`: many requests from a JSON Lines file, answered many at a time. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/version.h"
#include "batch/batch_command.h"
#include "batch/prefills.h"

static const char *const beside[] = {".state", ".held", ".timings.jsonl", ".prefill", NULL};

#define FIELD(member) LH_FIELD(lh_batch_options, member)
static const lh_option rows[] = {
    {.type = LH_OPT_STR,
     .letter = 'i',
     .name = "input",
     FIELD(input),
     .arg = "FILE",
     .help = "Requests, one a line, as OpenAI's Batch API takes them (docs/batch.md)."},
    {.type = LH_OPT_STR,
     .name = "from",
     FIELD(from),
     .arg = "FOLDER|FILE.csv",
     .help = "Documents in place of requests: each text of a folder ('*.txt', '*.md', '*.markdown'), or each row of a "
             "table, in a "
             "--template. The requests are in OUT.requests.jsonl then."},
    {.type = LH_OPT_STR,
     .name = "template",
     FIELD(text),
     .arg = "TEXT",
     .help = "Prompt of each document of --from: '{text}' stands for the text of a file and '{name}' for its name, and "
             "of a table '{COLUMN}' for a value; '{{' and '}}' for braces. In the model's chat format if it has one."},
    {.type = LH_OPT_STR,
     .name = "shard",
     FIELD(shard),
     .arg = "I/N",
     .help = "Part I, from 0, of N of the requests: of one job of an array (jobs/array.sbatch). 'longhaul merge' joins "
             "the outputs."},
    {.type = LH_OPT_STR,
     .letter = 'o',
     .name = "output",
     FIELD(output),
     .arg = "FILE",
     .writes = 1,
     .beside = beside,
     .help = "The answers, one a line, appended when they are finished. Beside it: FILE.state, "
             "FILE.timings.jsonl and, with --checkpoint-every, FILE.prefill."},
    {.type = LH_OPT_FLAG,
     .name = "check",
     FIELD(check),
     .help = "Answer nothing: read all requests, say which cannot be answered, count tokens, and measure here how long "
             "the run will take. Code 1 if some cannot be answered."},
    {.type = LH_OPT_FLAG,
     .name = "json",
     FIELD(json),
     .help = "With --check: print one JSON object, in which every request that cannot be answered is named."},
    {.type = LH_OPT_FLAG,
     .name = "openai-defaults",
     FIELD(openai),
     .help = "Draw where a request gives no temperature, as OpenAI's API does: --temperature 1 unless it is given."},
    {.type = LH_OPT_FLAG,
     .name = "resume",
     FIELD(resume),
     .help =
         "Resume an existing output: requests with a line are not answered again. Without an output the run begins."},
    {.type = LH_OPT_FLAG,
     .name = "retry-failed",
     FIELD(retry_failed),
     .help =
         "With --resume: try requests whose line is an error again, as the input has them now; these lines leave the "
         "output."},
    {.type = LH_OPT_FLAG,
     .name = "ordered",
     FIELD(ordered),
     .help =
         "Write answers in the order of the input, and prefill in this order; otherwise the longest requests first."},
    {.type = LH_OPT_I64,
     .name = "batch",
     FIELD(batch),
     .arg = "N",
     .def = "16",
     .min = 1,
     .max = 1024,
     .help = "Maximum number of sequences in a step; fewer where memory is short."},
    {.type = LH_OPT_F64,
     .name = "prefill-share",
     FIELD(prefill_share),
     .arg = "X",
     .def = "0.5",
     .low = 0.01,
     .high = 1,
     .help = "Share of time for prefill while other requests decode; 1: prefill first."},
    {.type = LH_OPT_F64,
     .name = "checkpoint-every",
     FIELD(checkpoint_s),
     .arg = "SECONDS",
     .def = "-1",
     .low = -1,
     .high = 1e9,
     .help = "Checkpoint of long prefills: seconds between writes of a prefill's state to the folder FILE.prefill, at "
             "the end of a layer; --resume continues from it. 0: after every layer; -1: never."},
    {.type = LH_OPT_STR,
     .name = "context-root",
     FIELD(context_root),
     .arg = "DIR",
     .help = "Folder of the files that requests name as 'context_file'. Default: that of the input."},
    {.type = LH_OPT_I64,
     .name = "max-errors",
     FIELD(max_errors),
     .arg = "N",
     .def = "-1",
     .min = -1,
     .max = INT64_MAX,
     .help = "End the run with code 1 when more than N requests have failed; -1: never."},
    {.type = LH_OPT_STR,
     .name = "metrics",
     FIELD(metrics),
     .arg = "FILE",
     .writes = 1,
     .makes = "text",
     .help =
         "Progress of the run for Prometheus: a text file that is replaced every 5 seconds (docs/batch.md). '%j' in "
         "its "
         "name becomes the job, '%a' the part of --shard, which is also put before the ending where '%a' is missing."},
    {.type = LH_OPT_F64,
     .name = "sync",
     .detail = 1,
     FIELD(sync_s),
     .arg = "SECONDS",
     .def = "5",
     .low = 0,
     .high = 3600,
     .help = "Seconds between fsyncs of the output; a loss of power loses later answers. 0: after each answer."},
    {0}};
#undef FIELD
static const lh_option_table table = {"the batch", rows};

#define FIELD(member) LH_FIELD(lh_batch_defaults, member)
static const lh_option answer_rows[] = {
    {.type = LH_OPT_TOKENS,
     .letter = 'n',
     .name = "max-new",
     FIELD(max_new),
     .arg = "TOKENS",
     .def = "128",
     .min = 1,
     .max = 1 << 30,
     .help = "Maximum tokens of an answer, of requests without 'max_tokens'."},
    {.type = LH_OPT_FLAG, .name = "ignore-eos", FIELD(ignore_eos), .help = "Do not stop at end-of-sequence tokens."},
    {LH_SHELL_TRUNCATE, FIELD(truncate)},
    {LH_SHELL_KEEP_THINKING, FIELD(keep_thinking)},
    {0}};
#undef FIELD
static const lh_option_table answer_table = {"answers (a request may say otherwise)", answer_rows};

static const lh_option_group groups[] = {{&table, offsetof(lh_batch_values, own)},
                                         {&lh_shell_chat_options, offsetof(lh_batch_values, chat)},
                                         {&answer_table, offsetof(lh_batch_values, defaults)},
                                         {&lh_shell_sampling_options, offsetof(lh_batch_values, defaults.sampling)},
                                         {&lh_shell_policy_options, offsetof(lh_batch_values, policy)},
                                         {&lh_shell_engine_options, offsetof(lh_batch_values, engine)},
                                         {&lh_shell_context_store_options, offsetof(lh_batch_values, store)},
                                         {&lh_shell_common_options, offsetof(lh_batch_values, common)},
                                         {0}};
static const lh_example examples[] = {
    {"longhaul batch -m m.h5 -i in.jsonl -o out.jsonl --budget 20%", "answer every request with a fifth of the cache"},
    {"longhaul batch -m m.h5 -i in.jsonl -o out.jsonl --budget 20% --resume", "go on after an interrupt or a crash"},
    {"longhaul batch -m m.h5 -i in.jsonl --budget 20% --check", "what would fail, and the time to ask for"},
    {"longhaul batch -m m.h5 --from papers/ --template '{text}\n\nList the data sets.' -o out.jsonl --budget 20%",
     "the same question about every text of a folder"},
    {"longhaul status out.jsonl", "how far it is, from another shell"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "batch",
    .usage = "-m FILE (-i FILE | --from DOCUMENTS) -o FILE [options]",
    .summary = "Answer many requests from a JSON Lines file",
    .text =
        "Requests are lines of OpenAI's batch files, for /v1/completions and /v1/chat/completions; answers are lines "
        "of its output files. Many sequences decode in one step, each with a cache, a policy, a sampling and a "
        "length of its own, and a new prompt is read between the steps of the others.\n\nRequests that name the same "
        "'context_file' are questions about its text, and those with the same 'context_id' about what their prompts "
        "begin with: the context is read and evicted once, and each question is answered from its cache.\n\nWith '--tp "
        "T' "
        "every T ranks are a replica of the model, and the replicas share the requests.\n\nA request "
        "that cannot be "
        "answered fails alone: its line says why, and the exit code is 1 when all have a line. An answer is in the "
        "output as soon as it is finished; after a kill the same command with --resume answers what is missing, "
        "once each, on any number of ranks. SIGINT, SIGTERM and SIGUSR1 end the run with code 75.",
    .groups = groups,
    .examples = examples};

typedef struct run {
    lh_batch_call batch;
    lh_batch_output *output;
    json_t *record;  /* `run` of all lines */
    char *options;   /* as JSON, for prefill checkpoints and stored contexts */
    int checkpoints; /* true: prefill checkpoints are written */
    lh_batch_prefills prefills;
    lh_context_store *store;
} run;

/* The policy for contexts may refuse options of the other policy: an error only for an input with contexts. */
static lh_status resolve_later(lh_batch_call *r)
{
    lh_policy *policy = &r->policies[LH_ASKED_LATER];
    r->v->policy.asked = LH_ASKED_LATER;
    lh_status st = lh_policy_resolve(policy, &r->v->policy);
    if (st == LH_OK) st = lh_policy_check_question(policy);
    if (st != LH_EUSAGE) return st;
    st = lh_buf_puts(&r->no_contexts, lh_error_message());
    lh_error_clear();
    return st;
}

static lh_status check_options(lh_batch_call *r)
{
    lh_batch_values *v = r->v;
    LH_TRY(lh_batch_check_input_options(&v->own));
    LH_TRY(lh_shell_check_store(&v->store));
    if (v->own.openai && !lh_options_given(r->call->options, "temperature")) v->defaults.sampling.temperature = 1;
    v->policy.profiles = &r->profiles;
    LH_TRY(resolve_later(r));
    v->policy.asked = LH_ASKED_IN_PROMPT;
    LH_TRY(lh_policy_resolve(&r->policies[LH_ASKED_IN_PROMPT], &v->policy));
    LH_TRY(lh_policy_check_question(&r->policies[LH_ASKED_IN_PROMPT]));
    LH_TRY(lh_shell_template_arguments(&v->chat, &r->arguments));
    v->defaults.arguments = r->arguments;
    return lh_sampling_check(&v->defaults.sampling);
}

/* Values of requests that do not give them, by the names of their members. */
static json_t *defaults_json(const lh_batch_defaults *d)
{
    const lh_sampling *s = &d->sampling;
    return json_pack("{s:I, s:f, s:I, s:f, s:f, s:f, s:I, s:b, s:O*, s:o*, s:s*, s:o*, s:o*}", "max_tokens",
                     (json_int_t)d->max_new, "temperature", s->temperature, "top_k", (json_int_t)s->top_k, "top_p",
                     s->top_p, "min_p", s->min_p, "repeat_penalty", s->repeat_penalty, "seed", (json_int_t)s->seed,
                     "ignore_eos", d->ignore_eos, "chat_template_kwargs", (json_t *)(uintptr_t)d->arguments,
                     "keep_thinking", d->keep_thinking ? json_true() : NULL, "truncate", d->truncate,
                     "frequency_penalty", s->frequency_penalty != 0 ? json_real(s->frequency_penalty) : NULL,
                     "presence_penalty", s->presence_penalty != 0 ? json_real(s->presence_penalty) : NULL);
}

/* The same on every number of ranks, so that a run can be resumed on another number. */
static lh_status make_record(run *r)
{
    const lh_engine_view *e = lh_engine_get(r->batch.engine);
    const int is_fixed = lh_model_options_of(e->model).order == LH_ORDER_FIXED;
    char identity[17];
    json_t *policy = NULL, *later = NULL;
    lh_status st = lh_policy_json(&r->batch.policies[LH_ASKED_IN_PROMPT], &policy);
    if (st == LH_OK && !r->batch.no_contexts.bytes) st = lh_policy_json(&r->batch.policies[LH_ASKED_LATER], &later);
    if (st != LH_OK) {
        json_decref(policy);
        return st;
    }
    snprintf(identity, sizeof identity, "%016llx", (unsigned long long)e->identity);
    r->record =
        json_pack("{s:s, s:s, s:o, s:o, s:o, s:b, s:s, s:s, s:s, s:s}", "model", lh_path_name(r->batch.v->engine.model),
                  "identity", identity, "policy", policy, "context_policy", later ? later : json_null(), "defaults",
                  defaults_json(&r->batch.v->defaults), "deterministic", is_fixed, "dtype", lh_dtype_name(e->dtype),
                  "kv_dtype", lh_dtype_name(e->kv_types.full), "evicted_kv_dtype", lh_dtype_name(e->kv_types.evicted),
                  "version", lh_version());
    if (!r->record) LH_FAIL(LH_ENOMEM, "cannot allocate memory for the description of the run");
    return LH_OK;
}

/* On every rank, before MPI is started. */
static lh_status find_prefills(run *r)
{
    const lh_batch_options *o = &r->batch.v->own;
    if (o->check) return LH_OK;
    r->checkpoints = o->checkpoint_s >= 0;
    LH_TRY(lh_shell_record(r->batch.call, &r->options));
    return lh_batch_prefills_find(&r->prefills, o->output);
}

/* Rank 0. */
static lh_status open_files(run *r)
{
    const lh_batch_call *b = &r->batch;
    const lh_batch_options *o = &b->v->own;
    const lh_engine_view *e = lh_engine_get(b->engine);
    LH_TRY(lh_batch_open_input(&r->batch, e->tokenizer, e->config->max_positions));
    if (r->checkpoints) LH_TRY(lh_batch_prefills_check(&r->prefills));
    LH_TRY(lh_batch_output_open(&r->output, o->output, b->input,
                                &(lh_batch_output_options){.run = r->record,
                                                           .context_root = b->context_root,
                                                           .resume = o->resume,
                                                           .retry_failed = o->retry_failed,
                                                           .ordered = o->ordered,
                                                           .sync_s = o->sync_s,
                                                           .metrics = b->metrics,
                                                           .device = e->device,
                                                           .prefills = &r->prefills,
                                                           .ranks = lh_world_size(b->call->world),
                                                           .replicas = b->replicas}));
    if (r->checkpoints) LH_TRY(lh_batch_prefills_make(&r->prefills));
    const int64_t all = lh_batch_input_count(b->input), done = lh_batch_output_state(r->output)->done;
    if (done)
        lh_info("%lld of %lld requests have a line in '%s'", (long long)done, (long long)all, o->output);
    else
        lh_info("%lld requests, up to %lld together", (long long)all, (long long)o->batch);
    return LH_OK;
}

/* Rank 0. */
static void print_figures(const run *r, const lh_scheduler_figures *f)
{
    const lh_batch_state *s = lh_batch_output_state(r->output);
    lh_info("%lld of %lld requests have a line in '%s', %lld of them failed", (long long)s->done, (long long)s->total,
            r->batch.v->own.output, (long long)s->failed);
    lh_info("this run: %lld tokens read, %lld generated in %.1f s", (long long)f->prompt_tokens,
            (long long)f->new_tokens, 1e-3 * (double)s->run_ms);
    if (f->stored) lh_info("%lld contexts were read from '%s'", (long long)f->stored, r->batch.v->store.folder);
    if (f->resumed) lh_info("%lld of the prefills went on from a checkpoint", (long long)f->resumed);
    if (lh_batch_state_tokens_per_rank_hour(s) > 0)
        lh_info("in all: %lld tokens of prompts, %lld more from shared contexts, %lld generated; %.3g %s hours, %.3g "
                "tokens in each",
                (long long)s->prompt_tokens, (long long)s->context_tokens, (long long)s->new_tokens,
                lh_batch_state_rank_hours(s), s->device && strcmp(s->device, "cuda") == 0 ? "GPU" : "rank",
                lh_batch_state_tokens_per_rank_hour(s));
}

static lh_status check_failed(const run *r)
{
    const int64_t failed = lh_batch_output_state(r->output)->failed;
    if (failed)
        LH_FAIL(
            LH_EPARTIAL,
            "%lld of %lld requests failed: 'longhaul status %s' shows why, '--resume --retry-failed' tries them again",
            (long long)failed, (long long)lh_batch_input_count(r->batch.input), r->batch.v->own.output);
    return LH_OK;
}

/* Collective. */
static lh_status answer_all(run *r)
{
    const lh_batch_options *o = &r->batch.v->own;
    lh_scheduler_figures figures = {0};
    const lh_batch_run_options options = {.common = {.engine = r->batch.engine,
                                                     .config = lh_engine_get(r->batch.engine)->config,
                                                     .cache = lh_engine_cache_size(r->batch.engine),
                                                     .tokenizer = lh_engine_tokenizer(r->batch.engine),
                                                     .defaults = &r->batch.v->defaults,
                                                     .policy = &r->batch.v->policy,
                                                     .plans = r->batch.policies,
                                                     .profiles = &r->batch.profiles,
                                                     .format = r->batch.format,
                                                     .context_root = r->batch.context_root,
                                                     .prefills = r->checkpoints ? r->prefills.folder : NULL,
                                                     .model = lh_path_name(r->batch.v->engine.model),
                                                     .run = r->record},
                                          .world = lh_world_comm(r->batch.call->world),
                                          .roots = r->batch.roots,
                                          .input = r->batch.input,
                                          .output = r->output,
                                          .in_order = o->ordered,
                                          .most = o->batch,
                                          .prefill_share = o->prefill_share,
                                          .checkpoint_s = o->checkpoint_s,
                                          .store = r->store,
                                          .record = r->options,
                                          .max_errors = o->max_errors};
    lh_status st = lh_batch_run(&options, &figures);
    const int ended = st != LH_OK; /* with a failure, of all ranks or of one: no rank waits then */
    if (!r->output) return ended ? st : lh_comm_agree(options.world, st);
    st = lh_batch_output_finish(r->output, st);
    if (st != LH_EWRITE) print_figures(r, &figures); /* else the lines may be missing */
    if (st == LH_OK) st = check_failed(r);
    return ended ? st : lh_comm_agree(options.world, st);
}

static lh_status open_answers(run *r)
{
    LH_TRY(lh_batch_find_replica(&r->batch));
    LH_TRY(lh_batch_open_engine(&r->batch));
    LH_TRY(lh_context_store_open(&r->store, r->batch.engine, &r->batch.v->store,
                                 (lh_context_store_about){r->batch.v->engine.model, r->options}));
    lh_status st = make_record(r);
    if (st == LH_OK && lh_shell_first()) st = open_files(r);
    return lh_comm_agree_untimed(lh_world_comm(r->batch.call->world), st);
}

static lh_status run_batch(lh_call *call)
{
    lh_status st = LH_OK;
    lh_batch_values *v = call->values;
    run r = {.batch = {.call = call, .v = v}};
    lh_batch_call *b = &r.batch;
    const char *const files[] = {v->engine.model, NULL};
    LH_TRY_DONE(check_options(b));
    LH_TRY_DONE(lh_batch_metrics_path(&b->metrics, &v->own));
    LH_TRY_DONE(find_prefills(&r));
    LH_TRY_DONE(lh_shell_open_world(call, files));
    LH_TRY_DONE(lh_shell_same_policies(call, &b->profiles));
    lh_interrupt_begin();
    if (r.checkpoints && v->own.resume) lh_batch_prefills_drop(&r.prefills);
    if (v->own.check) {
        LH_TRY_DONE(lh_batch_check_all(b));
        goto done;
    }
    LH_TRY_DONE(open_answers(&r));
    LH_TRY_DONE(answer_all(&r));
done:
    lh_batch_output_close(r.output);
    json_decref(r.record);
    lh_batch_prefills_clear(&r.prefills);
    free(r.options);
    lh_batch_input_close(b->input);
    lh_context_store_close(r.store);
    lh_chat_close(b->format);
    json_decref(b->arguments);
    lh_free(b->context_root);
    lh_free(b->metrics);
    lh_buf_clear(&b->no_contexts);
    lh_engine_close(b->engine);
    lh_comm_close(b->roots);
    lh_comm_close(b->replica);
    lh_profiles_clear(&b->profiles);
    return st;
}

const lh_command lh_command_batch = {&syntax, sizeof(lh_batch_values), run_batch, NULL};
