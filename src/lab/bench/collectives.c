/* collectives.c - `bench collectives`: times all-reduce and all-gather between hosts and between devices, call by call;
 * the slowest rank counts. */
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "lab/bench/bench_impl.h"

static const char *const names[] = {"all-reduce", "all-gather", NULL};
enum { REDUCE, GATHER, KINDS };
enum { MOST = 400, WARM = 2 };

/* A communicator, with buffers in the kind of memory that it uses. */
typedef struct way {
    lh_comm *comm;
    const char *memory; /* "host", "device" */
    int on_device;
    char *own, *all; /* what a rank sends, never changed, and what it receives */
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

lh_status lh_bench_collectives(const lh_bench_request *request, lh_comm *world, lh_bench_result *out)
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
