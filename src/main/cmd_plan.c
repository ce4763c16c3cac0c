/* cmd_plan.c - `plan`: the forecast of memory and communication, as a table or JSON. */
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/options.h"
#include "base/size_text.h"
#include "engine/generate.h"
#include "engine/plan.h"
#include "engine/plan_time.h"
#include "import/model_header.h"
#include "main/generate_command.h"
#include "shell/policy_options.h"

/* ---- what `plan --sbatch` prints: the line that submits jobs/longhaul.sbatch for a planned run ---- */
typedef struct lh_plan_sbatch {
    int64_t nodes, ranks;   /* ranks: of all nodes */
    int64_t ranks_per_node; /* at most */
    int64_t node_bytes;     /* memory of a node, including the processes themselves; 0: the ranks have GPUs */
    int64_t threads;        /* cores of a rank; 0: not given */
    int64_t minutes;        /* to ask for; 0: not known */
} lh_plan_sbatch;

/* Nodes with at most `ranks_per_node` ranks each, divided evenly. */
lh_plan_sbatch lh_plan_sbatch_of(const lh_plan *plan, int64_t ranks_per_node);

/* The line, without a line feed, appended to *out: Slurm's options, then the script with the policy, the types and the
 * length of the answer of the plan's command line. DOCUMENT and QUESTION stand for themselves, CHECKPOINT for a model
 * that is none yet. */
lh_status lh_plan_sbatch_line(lh_buf *out, const lh_plan_sbatch *job, const lh_plan_request *request,
                              const lh_options *options);

struct plan_options {
    int64_t context, max_new, sbatch; /* sbatch: ranks of a node, 0: no line for Slurm */
    int64_t bandwidth;                /* bytes a second; 0: measured */
    int time;
    lh_strings questions;
};

struct values {
    lh_shell_common common;
    struct plan_options plan;
    lh_engine_options engine;
    lh_policy_options policy;
    lh_trace_options trace;
    lh_shell_format format;
};

#define FIELD(member) LH_FIELD(struct plan_options, member)
static const lh_option rows[] = {
    {.type = LH_OPT_TOKENS,
     .letter = 'c',
     .required = 1,
     .name = "context",
     FIELD(context),
     .arg = "TOKENS",
     .min = 1,
     .max = INT32_MAX,
     .help = "Length of the prompt, such as 4096, 120k or 1M (of 1024)."},
    {.type = LH_OPT_TOKENS,
     .letter = 'n',
     .name = "max-new",
     FIELD(max_new),
     .arg = "TOKENS",
     .def = "128",
     .max = 1 << 30,
     .help = "Number of tokens that will be generated."},
    {.type = LH_OPT_LIST,
     .name = "question",
     FIELD(questions),
     .arg = "TOKENS",
     .help = "Length of a question that comes after the eviction, as with '--question' and "
             "'--save-cache' of 'generate' and in 'chat'. Given several times, each question continues in a fork of "
             "the cache."},
    {.type = LH_OPT_FLAG,
     .name = "time",
     FIELD(time),
     .help = "Also the time of the prompt and of a token: measures layers with random weights on this machine, for "
             "some seconds. Without the communication between ranks. Run it where the ranks will run."},
    {.type = LH_OPT_BYTES,
     .name = "bandwidth",
     FIELD(bandwidth),
     .arg = "SIZE",
     .help =
         "Bytes that the device of a rank reads in a second, such as 3350GB, for the tokens/s that decoding reaches "
         "at most. Default: measured on this machine, unless --memory stands for another one."},
    {.type = LH_OPT_I64,
     .name = "sbatch",
     FIELD(sbatch),
     .arg = "RANKS",
     .def = "0",
     .max = 1 << 16,
     .help = "Also print the line that submits the run to Slurm (jobs/longhaul.sbatch), on nodes with RANKS ranks each "
             "(their number of GPUs, or sockets). Needs --memory, the memory of a rank; without --tp for the smallest "
             "number of ranks on which the run fits. --threads: the cores of a rank, which the line asks for."},
    {0}};
#undef FIELD
static const lh_option_table table = {"the run", rows};
static const lh_option_group groups[] = {{&table, offsetof(struct values, plan)},
                                         {&lh_shell_engine_options, offsetof(struct values, engine)},
                                         {&lh_shell_policy_options, offsetof(struct values, policy)},
                                         {&lh_trace_option_table, offsetof(struct values, trace)},
                                         {&lh_shell_format_options, offsetof(struct values, format)},
                                         {&lh_shell_common_options, offsetof(struct values, common)},
                                         {0}};
static const lh_example examples[] = {
    {"longhaul plan -m m.h5 --context 120k --tp 4", "memory of a long prompt on four ranks"},
    {"longhaul plan -m m.h5 --context 120k --budget 1024", "and with 1,024 entries kept per head"},
    {"longhaul plan -m m.h5 --context 120k --budget 20% --question 40",
     "and with questions after the eviction, whose default policy is another"},
    {"longhaul plan -m Llama-3.1-8B/config.json --context 128000 --tp 2 --device cuda --memory 79G",
     "on two GPUs of 80 GB, on a host without GPU, before anything is imported"},
    {"longhaul plan -m llama-3.1-70b --context 120k --budget 1024 --device cuda --memory 79G --sbatch 4",
     "the nodes to ask Slurm for, if each has four such GPUs"},
    {"longhaul plan -m m.h5 --context 120k --budget 1024 --time", "and how long it takes on this machine"},
    {"longhaul plan -m m.h5 --context 120k --trace-level full", "and how large a trace of the run is"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "plan",
    .usage = "-m FILE --context TOKENS [options]",
    .summary = "Forecast memory and communication of a run",
    .text =
        "Reads the configuration only, no weights. Says whether the run fits this machine if all ranks run here; "
        "with --memory, whether it fits devices with that much free memory, which need not be here. Ends with code 5 "
        "if it does not fit, and names the number of ranks on which it would. With an option of 'trace', such as "
        "--trace-level, also how large the trace of such a run is.",
    .groups = groups,
    .examples = examples};

static double gib(int64_t bytes)
{
    return (double)bytes / (1 << 30);
}

/* Appends the range of layer budgets if they differ; a layer keeps no more than the prompt of `context` tokens. */
static lh_status put_layers(lh_buf *text, const lh_plan *plan, int64_t context)
{
    int64_t min = context, max = 0;
    for (int64_t l = 0; l < plan->layers; l++) {
        const int64_t budget = lh_min_i64(plan->layer_budgets[l], context);
        if (budget < min) min = budget;
        if (budget > max) max = budget;
    }
    if (min == max) return LH_OK;
    return lh_buf_printf(text, ", %lld to %lld per head by layer", (long long)min, (long long)max);
}

/* LH_ENOMEM with the missing bytes and a remedy. */
static lh_status fail_to_fit(const lh_plan *plan, int64_t ranks_needed)
{
    int64_t peak = 0;
    char need[LH_SIZE_TEXT], has[LH_SIZE_TEXT], full[LH_SIZE_TEXT];
    char help[96] = "no number of ranks is enough: a smaller '--budget', a shorter '--context' or more memory";
    for (int64_t r = 0; r < plan->tp; r++) peak = lh_max_i64(peak, plan->ranks[r].peak);
    if (ranks_needed) snprintf(help, sizeof help, "it fits from '--tp %lld' on", (long long)ranks_needed);
    LH_FAIL(LH_ENOMEM, "the run does not fit: a rank needs %s and has %s (the full cache is %s): %s",
            lh_size_text(need, peak), lh_size_text(has, plan->free_bytes), lh_size_text(full, plan->full_bytes), help);
}

/* The columns of the ranks' table. */
static const struct column {
    const char *name;
    size_t member;    /* in lh_plan_rank, int64_t bytes */
    int if_not_zero;  /* true: left out if no rank has such bytes */
    const char *line; /* before it */
} columns[] = {
#define COLUMN(title, member, optional, line)                 \
    {                                                         \
        title, offsetof(lh_plan_rank, member), optional, line \
    }
    COLUMN("weights", weights, 0, " |"),    COLUMN("cache", kv_allocated, 0, ""),
    COLUMN("1 layer", kv_one_layer, 0, ""), COLUMN("unpacked", unpacked, 1, ""),
    COLUMN("hidden", hidden, 0, ""),        COLUMN("work", work, 0, ""),
    COLUMN("peak", peak, 0, " |"),          COLUMN("read a token", decode_read, 0, " |"),
#undef COLUMN
};

static int64_t bytes_of(const lh_plan *plan, int64_t rank, const struct column *c)
{
    return *(const int64_t *)(const void *)((const char *)&plan->ranks[rank] + c->member);
}

static int is_shown(const lh_plan *plan, const struct column *c)
{
    int64_t bytes = 0;
    for (int64_t r = 0; r < plan->tp; r++) bytes = lh_max_i64(bytes, bytes_of(plan, r, c));
    return bytes > 0 || !c->if_not_zero;
}

/* The table of the ranks, in one unit. */
static lh_status put_ranks(lh_buf *text, const lh_plan *plan)
{
    const struct column *end = columns + sizeof columns / sizeof *columns;
    int64_t peak = 0;
    for (int64_t r = 0; r < plan->tp; r++) peak = lh_max_i64(peak, plan->ranks[r].peak);
    const int in_gib = peak >= INT64_C(1) << 30;
    LH_TRY(lh_buf_printf(text, "memory in %s\nrank heads kv", in_gib ? "GiB" : "MiB"));
    for (const struct column *c = columns; c < end; c++)
        if (is_shown(plan, c)) LH_TRY(lh_buf_printf(text, "%s %8s", c->line, c->name));
    LH_TRY(lh_buf_puts(text, "\n"));
    for (int64_t r = 0; r < plan->tp; r++) {
        const lh_plan_rank *p = &plan->ranks[r];
        LH_TRY(lh_buf_printf(text, "%4lld %5lld %2lld", (long long)r, (long long)p->heads, (long long)p->kv_heads));
        for (const struct column *c = columns; c < end; c++)
            if (is_shown(plan, c))
                LH_TRY(lh_buf_printf(text, "%s %8.*f", c->line, in_gib ? 2 : 1,
                                     gib(bytes_of(plan, r, c)) * (in_gib ? 1 : 1024)));
        LH_TRY(lh_buf_puts(text, "\n"));
    }
    return LH_OK;
}

/* The questions after the eviction. */
typedef struct questions {
    int64_t count, longest, tokens; /* tokens: of all */
} questions;

static lh_status read_questions(questions *out, const lh_strings *given)
{
    *out = (questions){.count = given->n};
    for (int64_t i = 0; i < given->n; i++) {
        int64_t tokens = 0;
        if (!lh_token_count_read(given->at[i], &tokens) || tokens < 1 || tokens > 1 << 30)
            LH_FAIL(LH_EUSAGE, "'--question' got '%s', it must be the length of a question in tokens, such as 40",
                    given->at[i]);
        out->longest = lh_max_i64(out->longest, tokens);
        out->tokens += tokens;
    }
    return LH_OK;
}

/* The size of a trace of the run. */
static lh_status size_trace(lh_trace_size *out, const lh_plan *plan, const struct values *v, const questions *asked)
{
    const int64_t answers = lh_max_i64(asked->count, 1) * v->plan.max_new;
    lh_model_header header = {0};
    lh_status st = lh_model_header_read(&header, v->engine.model, v->engine.weights);
    if (st == LH_OK)
        st = lh_trace_bytes(out, &v->trace,
                            &(lh_trace_run){&header.config, plan->kv_types.prompt, plan->dtype, v->plan.context,
                                            asked->tokens + answers});
    lh_model_header_clear(&header);
    return st;
}

static json_t *trace_json(const lh_trace_options *options, const lh_trace_size *size)
{
    return json_pack("{s:s, s:I, s:I, s:I}", "level", options->level, "bytes", (json_int_t)size->total, "layer_bytes",
                     (json_int_t)size->layer, "bytes_per_token_and_layer", (json_int_t)size->token);
}

/* What else is printed of a plan; NULL: nothing. */
typedef struct plan_extras {
    const lh_trace_size *trace;
    const lh_plan_reads *reads;
    const lh_plan_time *time;
} plan_extras;

static double run_s(const lh_plan_time *t)
{
    return t->prefill_s + t->decode_s;
}

/* The job of a plan that fits. */
static lh_plan_sbatch job_of(const lh_plan *plan, const struct values *v, const plan_extras *extras)
{
    lh_plan_sbatch job = lh_plan_sbatch_of(plan, v->plan.sbatch);
    job.threads = v->engine.threads;
    if (extras->time) job.minutes = lh_duration_limit_min(run_s(extras->time));
    return job;
}

static lh_status put_time(lh_buf *text, const lh_plan_time *t, const struct values *v)
{
    char prompt[LH_DURATION_TEXT], token[LH_DURATION_TEXT], all[LH_DURATION_TEXT];
    const long long minutes = lh_duration_limit_min(run_s(t));
    return lh_buf_printf(text,
                         "time on ranks like this machine, by some layers: %s for the prompt, %s for a token; %s with "
                         "%lld tokens, without loading and communication: ask for --time=%02lld:%02lld:00\n",
                         lh_duration_text(prompt, t->prefill_s), lh_duration_text(token, t->step_s),
                         lh_duration_text(all, run_s(t)), (long long)v->plan.max_new, minutes / 60, minutes % 60);
}

/* The bound of decoding. */
static lh_status put_reads(lh_buf *text, const lh_plan *plan, const lh_plan_reads *reads, const struct values *v)
{
    const int on_host = plan->device == LH_DEVICE_CPU, ranks = (int)plan->tp;
    const char *measured = v->plan.bandwidth ? ""
                           : on_host         ? ", the reads of this machine now"
                                             : ", copies of a GPU now";
    char size[LH_SIZE_TEXT];
    if (!reads) return LH_OK;
    return lh_buf_printf(text, "decoding reads %s a token%s: at most %.*f tokens/s at %.1f GB/s%s\n",
                         lh_size_text(size, (int64_t)reads->bytes),
                         ranks == 1                      ? ""
                         : v->plan.bandwidth || !on_host ? " on a rank"
                                                         : " on all ranks together",
                         reads->tokens_per_s < 100, reads->tokens_per_s, 1e-9 * reads->bytes_per_s, measured);
}

/* The same, as members of the plan. */
static void set_reads(json_t *object, const lh_plan_reads *reads)
{
    json_object_set_new(object, "read_bytes_per_s", reads ? json_real(reads->bytes_per_s) : json_null());
    json_object_set_new(object, "decode_tokens_per_s", reads ? json_real(reads->tokens_per_s) : json_null());
}

/* The line for Slurm of a plan that fits. */
static lh_status put_sbatch(lh_buf *text, const lh_plan *plan, const lh_plan_request *request, const lh_call *call,
                            const plan_extras *extras)
{
    const struct values *v = call->values;
    if (!v->plan.sbatch || !plan->fits) return LH_OK;
    const lh_plan_sbatch job = job_of(plan, v, extras);
    LH_TRY(lh_buf_puts(text, "\n"));
    LH_TRY(lh_plan_sbatch_line(text, &job, request, call->options));
    return lh_buf_puts(text, "\n");
}

/* The same, as a member of the plan. */
static lh_status set_sbatch(json_t *object, const lh_plan *plan, const lh_plan_request *request, const lh_call *call,
                            const plan_extras *extras)
{
    lh_status st = LH_OK;
    lh_buf line = {0};
    const struct values *v = call->values;
    if (!v->plan.sbatch || !plan->fits) return LH_OK;
    const lh_plan_sbatch job = job_of(plan, v, extras);
    LH_TRY_DONE(lh_plan_sbatch_line(&line, &job, request, call->options));
    json_object_set_new(object, "sbatch",
                        json_pack("{s:I, s:I, s:I, s:o, s:o, s:s}", "nodes", (json_int_t)job.nodes, "ntasks",
                                  (json_int_t)job.ranks, "ntasks_per_node", (json_int_t)job.ranks_per_node,
                                  "cpus_per_task", job.threads ? json_integer(job.threads) : json_null(), "mem_bytes",
                                  job.node_bytes ? json_integer(job.node_bytes) : json_null(), "line", line.data));
done:
    lh_buf_clear(&line);
    return st;
}

static lh_status check_sbatch(const struct values *v)
{
    if (!v->plan.sbatch) return LH_OK;
    if (!v->engine.memory)
        LH_FAIL(LH_EUSAGE, "'--sbatch' needs '--memory', the memory of one rank on the nodes of the cluster");
    if (v->plan.questions.n)
        LH_FAIL(LH_EUSAGE, "'--sbatch' is for jobs/longhaul.sbatch, which has its question in the prompt: leave out "
                           "'--question', and count its tokens in '--context'");
    return LH_OK;
}

/* Makes the plan; for Slurm, and without --tp, the plan for the smallest number of ranks on which the run fits. */
static lh_status make_plan(lh_plan *plan, struct values *v, const lh_plan_request *request, int64_t *ranks_needed)
{
    LH_TRY(lh_plan_make(plan, request));
    if (plan->fits) return LH_OK;
    *ranks_needed = lh_plan_ranks_needed(request);
    if (!v->plan.sbatch || v->engine.tp || !*ranks_needed) return LH_OK;
    lh_plan_clear(plan);
    v->engine.tp = *ranks_needed;
    *ranks_needed = 0;
    return lh_plan_make(plan, request);
}

static lh_status print_plan(const lh_plan *plan, const lh_call *call, const lh_plan_request *request,
                            const plan_extras *extras)
{
    lh_status st = LH_OK;
    const struct values *v = call->values;
    lh_buf text = {0}, name = {0};
    char size[LH_SIZE_TEXT], other[LH_SIZE_TEXT];
    LH_TRY_DONE(lh_policy_text(&plan->policy, &name));
    LH_TRY_DONE(lh_buf_printf(&text, "%lld tokens of prompt, ", (long long)v->plan.context));
    if (request->question)
        LH_TRY_DONE(lh_buf_printf(&text, "%lld of a question after the eviction, ", (long long)request->question));
    LH_TRY_DONE(lh_buf_printf(&text, "%lld to generate; weights ", (long long)v->plan.max_new));
    LH_TRY_DONE(lh_format_tally_in_memory(&plan->stored, plan->dtype, &text));
    LH_TRY_DONE(lh_buf_printf(&text, ", cache %s; policy %s\n", lh_dtype_name(plan->kv_dtype), name.data));
    LH_TRY_DONE(lh_buf_printf(&text, "entries of the cache: %lld of %lld kept after the prompt",
                              (long long)plan->entries_kept, (long long)plan->entries));
    LH_TRY_DONE(put_layers(&text, plan, v->plan.context));
    LH_TRY_DONE(lh_buf_printf(&text, "\nfull cache of the prompt: %s as %s on all ranks together\n\n",
                              lh_size_text(size, plan->full_bytes), lh_dtype_name(plan->kv_types.full)));
    LH_TRY_DONE(put_ranks(&text, plan));
    LH_TRY_DONE(lh_buf_printf(&text, "\nsent to other ranks, by each: %s for the prompt, %s per token\n",
                              lh_size_text(size, plan->ranks[0].prefill_sent),
                              lh_size_text(other, plan->ranks[0].decode_sent)));
    LH_TRY_DONE(lh_buf_printf(&text, "prefill in chunks of %lld tokens\n", (long long)plan->chunk));
    LH_TRY_DONE(put_reads(&text, plan, extras->reads, v));
    if (extras->trace) {
        LH_TRY_DONE(lh_buf_puts(&text, "trace: "));
        LH_TRY_DONE(lh_trace_size_text(&text, &v->trace, extras->trace));
        LH_TRY_DONE(lh_buf_puts(&text, "\n"));
    }
    if (extras->time) LH_TRY_DONE(put_time(&text, extras->time, v));
    LH_TRY_DONE(lh_buf_printf(&text,
                              v->engine.memory ? "fits in this memory: %s (%s per rank)\n"
                                               : "fits on this machine: %s (%s free per rank)\n",
                              plan->fits ? "yes" : "no", lh_size_text(size, plan->free_bytes)));
    LH_TRY_DONE(put_sbatch(&text, plan, request, call, extras));
    LH_TRY_DONE(lh_shell_write(text.data, text.bytes));
done:
    lh_buf_clear(&text);
    lh_buf_clear(&name);
    return st;
}

static lh_status run_plan(lh_call *call)
{
    lh_status st = LH_OK;
    struct values *v = call->values;
    lh_policy policy;
    lh_profiles profiles = {0};
    lh_plan plan = {0};
    lh_trace_size trace = {0};
    lh_plan_time time = {0};
    lh_plan_reads reads = {0};
    const int traced = lh_trace_options_given(call->options);
    plan_extras extras = {.trace = traced ? &trace : NULL};
    int64_t ranks_needed = 0;
    json_t *object = NULL;
    questions asked;
    LH_TRY_DONE(check_sbatch(v));
    LH_TRY_DONE(read_questions(&asked, &v->plan.questions));
    lh_plan_request request = {.engine = &v->engine,
                               .policy = &policy,
                               .context = v->plan.context,
                               .max_new = v->plan.max_new,
                               .question = asked.longest,
                               .forks = traced ? asked.count > 1 : lh_generate_forks(asked.count),
                               .profiles = &profiles};
    v->policy.profiles = &profiles;
    v->policy.asked = asked.count ? LH_ASKED_LATER : LH_ASKED_IN_PROMPT;
    LH_TRY_DONE(lh_policy_resolve(&policy, &v->policy));
    if (!lh_shell_first()) goto done;
    LH_TRY_DONE(lh_shell_probe(v->engine.model));
    LH_TRY_DONE(make_plan(&plan, v, &request, &ranks_needed));
    if (plan.quantiser)
        lh_warn(
            "'%s' says that the weights are quantised by the method %s: without their files they are counted as bf16",
            v->engine.model, plan.quantiser);
    LH_TRY_DONE(lh_shell_note_policy(&plan.policy, v->plan.context, v->policy.asked));
    if (traced) LH_TRY_DONE(size_trace(&trace, &plan, v, &asked));
    if (v->plan.bandwidth || !v->engine.memory) {
        LH_TRY_DONE(lh_plan_read(&reads, &plan, (double)v->plan.bandwidth));
        extras.reads = &reads;
    }
    if (v->plan.time && plan.fits) {
        LH_TRY_DONE(lh_plan_measure(&time, &request, &plan));
        extras.time = &time;
    }
    if (v->format.json) {
        LH_TRY_DONE(lh_plan_json(&plan, &request, ranks_needed, &object));
        set_reads(object, extras.reads);
        if (traced) json_object_set_new(object, "trace", trace_json(&v->trace, &trace));
        if (extras.time) json_object_set_new(object, "time", lh_plan_time_json(&time));
        LH_TRY_DONE(set_sbatch(object, &plan, &request, call, &extras));
        LH_TRY_DONE(lh_shell_write_json(object));
    } else {
        LH_TRY_DONE(print_plan(&plan, call, &request, &extras));
    }
    if (!plan.fits) LH_TRY_DONE(fail_to_fit(&plan, ranks_needed));
done:
    json_decref(object);
    lh_plan_clear(&plan);
    lh_profiles_clear(&profiles);
    return st;
}

const lh_command lh_command_plan = {&syntax, sizeof(struct values), run_plan, NULL};

/* ---- nodes, ranks and memory of a planned run as options of Slurm ---- */
/* Memory of a rank in addition to its plan: the program, MPI, HDF5 and the buffers of both. */
static const int64_t PROCESS_BYTES = INT64_C(1) << 30;

static int64_t divide_up(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

lh_plan_sbatch lh_plan_sbatch_of(const lh_plan *plan, int64_t ranks_per_node)
{
    int64_t peak = 0;
    for (int64_t r = 0; r < plan->tp; r++) peak = lh_max_i64(peak, plan->ranks[r].peak);
    lh_plan_sbatch job = {.nodes = divide_up(plan->tp, ranks_per_node), .ranks = plan->tp};
    job.ranks_per_node = divide_up(job.ranks, job.nodes);
    if (plan->device != LH_DEVICE_CUDA) job.node_bytes = job.ranks_per_node * (peak + PROCESS_BYTES);
    return job;
}

/* Options of the model that a run must have like its plan, if they are given. */
static lh_status put_given(lh_buf *out, const lh_options *options)
{
    static const char *const names[] = {"dtype", "kv-dtype", "chunk", "deterministic"};
    lh_status st = LH_OK;
    json_t *record = NULL;
    LH_TRY_DONE(lh_options_json(options, &record));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *value = json_object_get(json_object_get(record, "options"), names[i]);
        if (!lh_options_given(options, names[i])) continue;
        LH_TRY_DONE(lh_buf_printf(out, " --%s", names[i]));
        if (json_is_string(value)) LH_TRY_DONE(lh_buf_printf(out, " %s", json_string_value(value)));
        if (json_is_integer(value)) LH_TRY_DONE(lh_buf_printf(out, " %lld", (long long)json_integer_value(value)));
    }
done:
    json_decref(record);
    return st;
}

lh_status lh_plan_sbatch_line(lh_buf *out, const lh_plan_sbatch *job, const lh_plan_request *request,
                              const lh_options *options)
{
    const char *model = request->engine->model, *end = strrchr(model, '.');
    const int imported = end && strcmp(end, ".h5") == 0 && !strpbrk(model, " '\"\\$`&;|<>()*?[]#~!\t\n");
    LH_TRY(lh_buf_printf(out, "sbatch --nodes=%lld --ntasks=%lld --ntasks-per-node=%lld", (long long)job->nodes,
                         (long long)job->ranks, (long long)job->ranks_per_node));
    if (job->minutes)
        LH_TRY(
            lh_buf_printf(out, " --time=%02lld:%02lld:00", (long long)job->minutes / 60, (long long)job->minutes % 60));
    if (job->threads) LH_TRY(lh_buf_printf(out, " --cpus-per-task=%lld", (long long)job->threads));
    if (job->node_bytes)
        LH_TRY(lh_buf_printf(out, " --mem=%lldG", (long long)divide_up(job->node_bytes, INT64_C(1) << 30)));
    else
        LH_TRY(lh_buf_puts(out, " --gpus-per-task=1"));
    LH_TRY(lh_buf_printf(out, " jobs/longhaul.sbatch %s DOCUMENT QUESTION --policy ", imported ? model : "CHECKPOINT"));
    LH_TRY(lh_policy_text(request->policy, out));
    LH_TRY(put_given(out, options));
    return lh_buf_printf(out, " --max-new %lld", (long long)request->max_new);
}
