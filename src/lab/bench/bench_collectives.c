/* bench_collectives.c - `bench collectives`: times all-reduce and all-gather between the ranks of a run. */
#include "engine/threads.h"
#include "lab/bench/bench.h"
#include "lab/bench/bench_common.h"

struct collectives_options {
    const char *device;
    int share_device;
};

struct values {
    lh_bench_values shared;
    struct collectives_options own;
};

static const char *const devices[] = {"auto", "cpu", "cuda", NULL};

#define FIELD(member) LH_FIELD(struct collectives_options, member)
static const lh_option rows[] = {
    {.type = LH_OPT_STR,
     .name = "device",
     FIELD(device),
     .def = "auto",
     .choices = devices,
     .help =
         "Device whose memory the second half of the cases uses. auto: cuda if every rank finds a device, else cpu."},
    {.type = LH_OPT_FLAG,
     .name = "share-device",
     FIELD(share_device),
     .help = "Let ranks of one host share a CUDA device. They then communicate through the host."},
    {0}};
#undef FIELD
static const lh_option_table table = {"what runs", rows};
static const lh_option_group groups[] = {{&table, offsetof(struct values, own)},
                                         {&lh_bench_output_options, offsetof(lh_bench_values, output)},
                                         {&lh_shell_common_options, offsetof(lh_bench_values, common)},
                                         {0}};
static const lh_example examples[] = {
    {"mpirun --bind-to none -n 4 longhaul bench collectives", "the bandwidth between four ranks"},
    {"srun --mpi=pmix -n 8 longhaul bench collectives all-reduce", "all-reduce alone"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "bench collectives",
    .usage = "[WORD…] [options]",
    .summary = "Measure the collectives between ranks",
    .text = "All-reduce (of f32) and all-gather of buffers of 8 KiB to 64 MiB; a word selects one. Host memory is sent "
            "by MPI; device memory directly, by NCCL or through the host, as in a run: the shape says which. All ranks "
            "start a call together, and its time is that of the last rank.\n\nBytes are those that every rank holds "
            "afterwards. Each of n ranks sends at least 2 (n - 1) / n of them in an all-reduce, (n - 1) / n in an "
            "all-gather; a single rank sends nothing.",
    .max_args = 64,
    .groups = groups,
    .examples = examples};

static lh_status run_collectives(lh_call *call)
{
    lh_status st = LH_OK;
    const struct values *v = call->values;
    const char **words = NULL;
    lh_bench_result result = {0};
    lh_threads *threads = NULL;
    lh_bench_request request = {
        .device = v->own.device, .share_device = v->own.share_device, .quick = v->shared.output.quick};
    LH_TRY_DONE(lh_bench_words(call, &words, &request.word_count));
    request.words = words;
    LH_TRY_DONE(lh_shell_open_world(call, NULL));
    lh_comm *world = lh_world_comm(call->world);
    LH_TRY_DONE(lh_comm_agree(world, lh_bench_claim_output(&v->shared.output)));
    LH_TRY_DONE(lh_threads_open(&threads, world, 0));
    LH_TRY_DONE(lh_bench_collectives(&request, world, &result));
    if (lh_shell_first()) st = lh_bench_write(&v->shared.output, "collectives", &result);
    LH_TRY_DONE(lh_comm_agree(world, st));
done:
    lh_bench_drop_output(&v->shared.output);
    lh_bench_result_clear(&result);
    lh_threads_close(threads);
    lh_free(words);
    return st;
}

const lh_command lh_command_bench_collectives = {&syntax, sizeof(struct values), run_collectives, NULL};
