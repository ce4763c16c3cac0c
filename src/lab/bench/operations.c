/* operations.c - `bench operations`: checks the words, measures the machine, and runs every group of cases. */
#include <omp.h>
#include <stdio.h>

#include "base/mem.h"
#include "engine/engine.h"
#include "engine/threads.h"
#include "lab/bench/bench.h"

static const lh_bench_group *const groups[] = {
    &lh_bench_gemm,        &lh_bench_attention, &lh_bench_decode, &lh_bench_rows, &lh_bench_fused,
    &lh_bench_projections, &lh_bench_scores,    &lh_bench_shares, &lh_bench_fit,  &lh_bench_experts};
enum { GROUPS = sizeof groups / sizeof *groups };

/* Names of all cases, each once; ends with NULL. The caller frees the array. */
static lh_status list_names(const char ***out)
{
    const char **names = NULL;
    int64_t n = 0;
    for (int g = 0; g < GROUPS; g++)
        for (int i = 0; groups[g]->names[i]; i++) n++;
    LH_TRY(lh_calloc(&names, n + 1, sizeof *names));
    n = 0;
    for (int g = 0; g < GROUPS; g++)
        for (int i = 0; groups[g]->names[i]; i++) names[n++] = groups[g]->names[i];
    *out = names;
    return LH_OK;
}

static int in_a_name(const char *word, const char *const *names)
{
    for (int i = 0; names[i]; i++)
        if (strstr(names[i], word)) return 1;
    return 0;
}

lh_status lh_bench_check_words(const lh_bench_request *request, const char *const *names)
{
    lh_status st = LH_OK;
    lh_buf all = {0};
    for (int64_t w = 0; w < request->word_count; w++) {
        const char *word = request->words[w];
        if (in_a_name(word, names)) continue;
        for (int i = 0; names[i]; i++) LH_TRY_DONE(lh_buf_printf(&all, "%s%s", i ? ", " : "", names[i]));
        LH_FAIL_DONE(LH_EUSAGE, "no case has '%s' in its name; cases: %s", word, all.data);
    }
done:
    lh_buf_clear(&all);
    return st;
}

static int group_wanted(const lh_bench *b, const lh_bench_group *group)
{
    for (int i = 0; group->names[i]; i++)
        if (lh_bench_wanted(b, group->names[i])) return 1;
    return 0;
}

void lh_bench_describe(const lh_bench *b)
{
    char *about = b->result->about;
    const size_t cap = sizeof b->result->about;
    int n = snprintf(about, cap, "%s, operations of '%s'", lh_device_name(b->device), b->ops->name);
    if (lh_device_kind_of(b->device) == LH_DEVICE_CPU && n > 0 && (size_t)n < cap)
        snprintf(about + n, cap - (size_t)n, "; %d threads; instruction set '%s'; gemm: f32 by %s, bf16 by %s",
                 omp_get_max_threads(), lh_cpu_isa(), lh_cpu_gemm_library(LH_F32), lh_cpu_gemm_library(LH_BF16));
}

/* Measures the operations of a backend on the device of this process. LH_EUSAGE for a word that no case's name
 * contains, listing the names, and with `count` for a device that does not count. */
static lh_status measure_operations(const lh_bench_request *request, lh_bench_result *out)
{
    lh_status st = LH_OK;
    const char **names = NULL;
    lh_comm *self = NULL;
    lh_bench b = {0};
    lh_bench_result_init(out, request->count ? lh_bench_count_columns : lh_bench_columns);
    LH_TRY_DONE(list_names(&names));
    LH_TRY_DONE(lh_bench_check_words(request, names));
    LH_TRY_DONE(lh_comm_open_self(&self));
    LH_TRY_DONE(lh_bench_open(&b, request, self, out));
    lh_bench_describe(&b);
    lh_progress_init(&b.progress, "measuring", "cases", 0);
    LH_TRY_DONE(request->count ? lh_bench_check_counts(b.device) : lh_bench_machine(&b));
    for (int g = 0; g < GROUPS; g++)
        if (group_wanted(&b, groups[g])) LH_TRY_DONE(groups[g]->run(&b));
done:
    lh_bench_close(&b);
    lh_comm_close(self);
    lh_free(names);
    return st;
}

/* ---- the command ---- */
struct operations_options {
    const char *device;
    int count;
    int64_t threads, context;
};

struct values {
    lh_bench_values shared;
    struct operations_options own;
};

static const char *const devices[] = {"auto", "cpu", "cuda", "ref", NULL};

#define FIELD(member) LH_FIELD(struct operations_options, member)
static const lh_option rows[] = {
    {.type = LH_OPT_STR,
     .name = "device",
     FIELD(device),
     .def = "auto",
     .choices = devices,
     .help = "Backend. auto: cuda if there is a device, else cpu. ref is plain C and slow."},
    {.type = LH_OPT_I64,
     .name = "threads",
     FIELD(threads),
     .arg = "N",
     .def = "0",
     .max = LH_THREADS_MAX,
     .help = "Number of threads. 0: one per core, at most a container's CPU quota and OMP_NUM_THREADS."},
    {.type = LH_OPT_TOKENS,
     .letter = 'c',
     .name = "context",
     FIELD(context),
     .arg = "TOKENS",
     .def = "0",
     .max = 1 << 30,
     .help = "Entries per head in the full caches of decode steps. 0: 131072 on a GPU, 8192 on the host."},
    {.type = LH_OPT_FLAG,
     .name = "count",
     FIELD(count),
     .help = "Count launches, bytes and waits of one call instead of timing it. Needs an emulated GPU."},
    {0}};
#undef FIELD
static const lh_option_table table = {"what runs", rows};
static const lh_option_group command_groups[] = {{&table, offsetof(struct values, own)},
                                                 {&lh_bench_output_options, offsetof(lh_bench_values, output)},
                                                 {&lh_shell_common_options, offsetof(lh_bench_values, common)},
                                                 {0}};
static const lh_example examples[] = {
    {"longhaul bench operations", "everything; some minutes"},
    {"longhaul bench operations gemm attend --threads 1", "cases whose names contain one of the words"},
    {"longhaul bench operations attend_decode step --device cuda", "decode steps, full and evicted, on a GPU"},
    {"build/tests/longhaul_simt bench operations --count --quick",
     "what kernels launch, load and store, without a GPU"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "bench operations",
    .usage = "[WORD…] [options]",
    .summary = "Measure single operations",
    .text =
        "A case is an operation and a shape. Calls are timed on the device's clock after a warm-up, at least 5 calls "
        "and half a second. Data are random. Weights and caches that a run reads once rotate through copies larger "
        "than the processor's caches.\n\nThe machine's peak rates are measured first: copies (bytes read and written), "
        "on the host also reads and f32 multiply-adds, and products of large matrices. The share of a case is the time "
        "that these rates allow for its bytes and FLOPs divided by its median; 'limit' names the rate that bounds it. "
        "On the host that is the rate of reads or of f32 multiply-adds, which bf16 products may exceed; on a GPU that "
        "of copies or of large products.\n\nRank 0 measures; other ranks exit at once.",
    .max_args = 64,
    .groups = command_groups,
    .examples = examples};

static lh_status run_operations(lh_call *call)
{
    lh_status st = LH_OK;
    const struct values *v = call->values;
    const char **words = NULL;
    lh_bench_result result = {0};
    lh_threads *threads = NULL;
    lh_bench_request request = {
        .device = v->own.device, .context = v->own.context, .quick = v->shared.output.quick, .count = v->own.count};
    if (!lh_shell_first()) goto done;
    LH_TRY_DONE(lh_bench_words(call, &words, &request.word_count));
    request.words = words;
    LH_TRY_DONE(lh_bench_claim_output(&v->shared.output));
    LH_TRY_DONE(lh_threads_open_alone(&threads, v->own.threads));
    LH_TRY_DONE(measure_operations(&request, &result));
    LH_TRY_DONE(lh_bench_write(&v->shared.output, "operations", &result));
done:
    lh_bench_drop_output(&v->shared.output);
    lh_bench_result_clear(&result);
    lh_threads_close(threads);
    lh_free(words);
    return st;
}

const lh_command lh_command_bench_operations = {&syntax, sizeof(struct values), run_operations, NULL};
