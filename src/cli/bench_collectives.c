#include "bench/bench.h"
#include "cli/bench_common.h"

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
     .help = "Whose memory the second half is of. auto: cuda where every rank finds a device, else cpu."},
    {.type = LH_OPT_FLAG,
     .name = "share-device",
     FIELD(share_device),
     .help = "Let ranks of one host compute on the same CUDA device. They then talk through the host."},
    {0}};
#undef FIELD
static const lh_option_table table = {"what runs", rows};
static const lh_option_group groups[] = {{&table, offsetof(struct values, own)},
                                         {&lh_bench_output_options, offsetof(lh_bench_values, output)},
                                         {&lh_cli_common_options, offsetof(lh_bench_values, common)},
                                         {0}};
static const lh_example examples[] = {
    {"mpirun -n 4 longhaul bench collectives", "what four ranks can say to each other in a second"},
    {"srun --mpi=pmix -n 8 longhaul bench collectives all-reduce", "all-reduce alone"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "bench collectives",
    .usage = "[WORD…] [options]",
    .summary = "Measure what ranks say to each other",
    .text =
        "all-reduce (of f32) and all-gather of buffers of 8 KiB to 64 MiB; a word chooses one. Host memory goes over "
        "MPI; memory of devices directly, by NCCL or through the host, as in a run: the shape tells which. A call "
        "begins together and takes as long as it takes the last rank.\n\n"
        "Bytes are those that every rank holds afterwards. At least 2 (n - 1) / n of them leave each of n ranks in "
        "an all-reduce, (n - 1) / n in an all-gather; with one rank nothing is sent.",
    .max_args = 64,
    .groups = groups,
    .examples = examples};

static lh_status run(lh_call *call)
{
    lh_status st = LH_OK;
    const struct values *v = call->values;
    const char **words = NULL;
    lh_bench_result result = {0};
    lh_bench_request request = {
        .device = v->own.device, .share_device = v->own.share_device, .quick = v->shared.output.quick};
    LH_TRY_DONE(lh_bench_words(call, &words, &request.word_count));
    request.words = words;
    LH_TRY_DONE(lh_cli_open_world(call, NULL));
    lh_comm *world = lh_world_comm(call->world);
    LH_TRY_DONE(lh_comm_agree(world, lh_bench_check_output(&v->shared.output)));
    LH_TRY_DONE(lh_bench_collectives(&request, world, &result));
    if (lh_cli_first()) st = lh_bench_write(&v->shared.output, "collectives", &result);
    LH_TRY_DONE(lh_comm_agree(world, st));
done:
    lh_bench_result_clear(&result);
    lh_free(words);
    return st;
}

const lh_command lh_command_bench_collectives = {&syntax, sizeof(struct values), run, NULL};
