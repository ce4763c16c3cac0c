/* collectives.c - `bench collectives`: times all-reduce and all-gather between hosts and between devices, call by call;
 * the slowest rank counts. */
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/threads.h"
#include "lab/bench/bench.h"

static const char *const names[] = {"all-reduce", "all-gather", NULL};
enum { REDUCE, GATHER, KINDS };
enum { MOST = 400, WARM = 2 };

/* A communicator, with buffers in the kind of memory that it uses. */
typedef struct way {
    lh_comm *comm;
    const char *memory; /* "host", "device" */
    int on_device;
    char *own, *all; /* send buffer, never changed, and receive buffer */
} way;

typedef struct collectives {
    lh_bench b;
    lh_comm *world, *device;
    way ways[2];
    void *host_own, *host_all;
    int64_t *times; /* [MOST] ns */
} collectives;

/* Restores the buffer of an all-reduce, and waits until all ranks are ready. */
static lh_status restore_buffer(const collectives *c, const way *w, int64_t bytes)
{
    if (!w->on_device) {
        memcpy(w->all, w->own, (size_t)bytes);
    } else {
        LH_TRY(lh_stream_copy(c->b.stream, w->all, w->own, bytes, LH_COPY_ON_DEVICE));
        LH_TRY(lh_stream_sync(c->b.stream));
    }
    return LH_OK;
}

static lh_status call_collective(const collectives *c, const way *w, int kind, int64_t bytes)
{
    if (kind == REDUCE) return lh_comm_allreduce(w->comm, w->all, bytes / 4, LH_F32, LH_SUM);
    return lh_comm_allgather(w->comm, w->own, w->all, bytes / lh_comm_size(c->world));
}

/* Times one call on this rank, at least 1 ns; on a device by the device's clock. */
static lh_status time_call(const collectives *c, const way *w, int kind, int64_t bytes, int64_t *ns)
{
    double seconds;
    LH_TRY(restore_buffer(c, w, bytes));
    LH_TRY(lh_comm_barrier(c->world));
    double start = lh_clock_s();
    if (w->on_device) {
        LH_TRY(lh_event_record(c->b.begin, c->b.stream));
        LH_TRY(lh_comm_flush(w->comm));
    }
    LH_TRY(call_collective(c, w, kind, bytes));
    seconds = lh_clock_s() - start;
    if (w->on_device) {
        LH_TRY(lh_event_record(c->b.end, c->b.stream));
        LH_TRY(lh_stream_sync(c->b.stream));
        LH_TRY(lh_event_seconds(c->b.begin, c->b.end, &seconds));
    }
    *ns = (int64_t)(seconds * 1e9) + 1;
    return LH_OK;
}

/* Times calls for half a second, the same number on all ranks. */
static lh_status measure_collective(collectives *c, const way *w, int kind, int64_t bytes, lh_bench_time *out)
{
    double seconds[MOST];
    int64_t warm, n = c->b.request->quick ? 2 : 5;
    for (int i = 0; i < WARM; i++) LH_TRY(time_call(c, w, kind, bytes, &warm));
    LH_TRY(lh_comm_allreduce(c->world, &warm, 1, LH_I64, LH_MAX));
    while (!c->b.request->quick && n < MOST && n * warm < 500000000) n++;
    for (int64_t i = 0; i < n; i++) LH_TRY(time_call(c, w, kind, bytes, &c->times[i]));
    LH_TRY(lh_comm_allreduce(c->world, c->times, n, LH_I64, LH_MAX));
    for (int64_t i = 0; i < n; i++) seconds[i] = (double)c->times[i] * 1e-9;
    lh_bench_sort(seconds, n, out);
    return LH_OK;
}

static lh_status run_case(collectives *c, const way *w, int kind, int64_t bytes)
{
    char shape[112];
    lh_bench_time time;
    const int64_t ranks = lh_comm_size(c->world), whole = bytes / (4 * ranks) * 4 * ranks;
    if (!lh_bench_wanted(&c->b, names[kind])) return LH_OK;
    LH_TRY(measure_collective(c, w, kind, whole, &time));
    snprintf(shape, sizeof shape, "%lld KiB, %s (%s)", (long long)(bytes >> 10), w->memory, lh_comm_name(w->comm));
    LH_TRY(lh_bench_add(
        &c->b.result->rows,
        &(lh_bench_row){.name = names[kind], .shape = shape, .limit = "", .time = time, .bytes = (double)whole}));
    lh_progress_update(&c->b.progress, c->b.result->rows.n);
    return LH_OK;
}

/* Local. Allocates and fills the buffers in host and device memory. */
static lh_status make_buffers(collectives *c, int64_t bytes)
{
    way *host = &c->ways[0], *device = &c->ways[1];
    LH_TRY(lh_calloc(&c->times, MOST, sizeof *c->times));
    LH_TRY(lh_calloc(&c->host_own, bytes, 1));
    LH_TRY(lh_calloc(&c->host_all, bytes, 1));
    lh_normals(c->host_own, 11, (uint64_t)lh_comm_rank(c->world), 0, bytes / 4);
    LH_TRY(lh_bench_put(&c->b, &device->own, c->host_own, bytes));
    LH_TRY(lh_bench_zeros(&c->b, &device->all, bytes));
    LH_TRY(lh_bench_machine_memory(&c->b));
    host->own = c->host_own;
    host->all = c->host_all;
    return LH_OK;
}

static lh_status open_ways(collectives *c, int64_t bytes)
{
    lh_status st = LH_OK;
    LH_TRY(lh_comm_open_on(
        &c->device,
        &(lh_comm_on){.host = c->world, .stream = c->b.stream, .one_device_per_rank = c->b.one_device_per_rank}));
    c->ways[0] = (way){.comm = c->world, .memory = "host"};
    c->ways[1] = (way){.comm = c->device, .memory = "device", .on_device = 1};
    st = make_buffers(c, bytes);
    LH_TRY(lh_comm_agree(c->world, st));
    return st;
}

/* Collective. Measures all-reduce (of f32) and all-gather of buffers of 8 KiB to 64 MiB, between hosts and between
 * devices. The time of a call is the time of the slowest rank; its bytes are the bytes that every rank holds
 * afterwards. The result is on rank 0. */
static lh_status measure_collectives(const lh_bench_request *request, lh_comm *world, lh_bench_result *out)
{
    lh_status st = LH_OK;
    collectives c = {.world = world};
    const int64_t most = INT64_C(1) << (request->quick ? 16 : 26);
    const int size = lh_comm_size(world);
    lh_bench_result_init(out, lh_bench_columns);
    LH_TRY_DONE(lh_comm_agree(world, lh_bench_check_words(request, names)));
    LH_TRY_DONE(lh_bench_open(&c.b, request, world, out));
    snprintf(out->about, sizeof out->about, "%d %s, %d on this host; %s", size, size == 1 ? "rank" : "ranks",
             lh_comm_local_size(world), lh_device_name(c.b.device));
    lh_progress_init(&c.b.progress, "measuring", "cases", 0);
    LH_TRY_DONE(open_ways(&c, most));
    for (int kind = 0; kind < KINDS; kind++)
        for (int w = 0; w < 2; w++)
            for (int64_t bytes = 8 << 10; bytes; bytes = bytes == most ? 0 : bytes * 4 < most ? bytes * 4 : most)
                LH_TRY_DONE(run_case(&c, &c.ways[w], kind, bytes));
done:
    lh_comm_close(c.device);
    lh_bench_close(&c.b);
    lh_free(c.host_own);
    lh_free(c.host_all);
    lh_free(c.times);
    return st;
}

/* ---- the command ---- */
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
         "Device with the memory of the second half of the cases. auto: cuda if every rank finds a device, else cpu."},
    {.type = LH_OPT_FLAG,
     .name = "share-device",
     FIELD(share_device),
     .help = "Let ranks of the same host share a CUDA device. They then communicate through the host."},
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
    LH_TRY_DONE(measure_collectives(&request, world, &result));
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
