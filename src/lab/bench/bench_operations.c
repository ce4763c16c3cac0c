/* bench_operations.c - `bench operations`: times single operations on one device, on rank 0. */
#include "engine/engine.h"
#include "engine/threads.h"
#include "lab/bench/bench_common.h"

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
static const lh_option_group groups[] = {{&table, offsetof(struct values, own)},
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
    .groups = groups,
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
    LH_TRY_DONE(lh_bench_operations(&request, &result));
    LH_TRY_DONE(lh_bench_write(&v->shared.output, "operations", &result));
done:
    lh_bench_drop_output(&v->shared.output);
    lh_bench_result_clear(&result);
    lh_threads_close(threads);
    lh_free(words);
    return st;
}

const lh_command lh_command_bench_operations = {&syntax, sizeof(struct values), run_operations, NULL};
