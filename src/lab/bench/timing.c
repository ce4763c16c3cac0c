/* timing.c - opens the device, and times calls of a case on the device's clock, after a warm-up, for at least 5 calls
 * and half a second. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "comm/comm.h"
#include "engine/devices.h"
#include "lab/bench/bench.h"

static lh_status open_stream(lh_bench *b)
{
    LH_TRY(lh_stream_open(&b->stream, b->device));
    LH_TRY(lh_event_open(&b->begin, b->device));
    LH_TRY(lh_event_open(&b->end, b->device));
    return LH_OK;
}

lh_status lh_bench_open(lh_bench *b, const lh_bench_request *request, lh_comm *world, lh_bench_result *result)
{
    lh_devices devices;
    *b = (lh_bench){.request = request, .result = result};
    LH_TRY(lh_devices_open(&devices, world,
                           &(lh_device_request){.device = request->device, .share = request->share_device}));
    b->ops = devices.ops;
    b->device = devices.device;
    b->one_device_per_rank = devices.one_device_per_rank;
    LH_TRY(lh_comm_agree(world, open_stream(b)));
    return lh_devices_limit(&devices, world);
}

void lh_bench_close(lh_bench *b)
{
    lh_progress_clear(&b->progress);
    lh_bench_drop(b, 0);
    lh_free(b->blocks);
    if (b->end) lh_event_close(b->end);
    if (b->begin) lh_event_close(b->begin);
    if (b->stream) lh_stream_close(b->stream);
    if (b->device) lh_device_close(b->device);
}

int64_t lh_bench_size(const lh_bench *b, int64_t n, int64_t quick_max)
{
    return b->request->quick && n > quick_max ? quick_max : n;
}

int lh_bench_wanted(const lh_bench *b, const char *name)
{
    for (int64_t w = 0; w < b->request->word_count; w++)
        if (strstr(name, b->request->words[w])) return 1;
    return b->request->word_count == 0;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void lh_bench_sort(double *seconds, int64_t n, lh_bench_time *out)
{
    qsort(seconds, (size_t)n, sizeof *seconds, by_size);
    *out = (lh_bench_time){.calls = n, .median_s = seconds[n / 2], .fastest_s = seconds[0]};
}

/* *seconds: time of `calls` calls, beginning with number `turn`. */
static lh_status time_calls(lh_bench *b, const lh_bench_case *c, int64_t turn, int64_t calls, double *seconds)
{
    if (c->before) LH_TRY(c->before(b, c->args));
    LH_TRY(lh_event_record(b->begin, b->stream));
    for (int64_t i = 0; i < calls; i++) LH_TRY(c->call(b, c->args, turn + i));
    LH_TRY(lh_event_record(b->end, b->stream));
    LH_TRY(lh_stream_sync(b->stream));
    LH_TRY(lh_event_seconds(b->begin, b->end, seconds));
    return LH_OK;
}

lh_status lh_bench_measure(lh_bench *b, const lh_bench_case *c, lh_bench_time *out)
{
    enum { MOST = 400, AT_ONCE = 64 };
    double seconds[MOST], total = 0, warm = 0;
    const int64_t min_calls = b->request->quick ? 2 : 5;
    const double min_s = b->request->quick ? 0 : 0.5, together_s = 5e-4;
    int64_t n = 0, turn = 0, calls = 1;
    for (; turn < 2; turn++) LH_TRY(time_calls(b, c, turn, 1, &warm));
    /* Short calls of a GPU are timed in batches: the time of a single one is mostly launch latency. */
    if (lh_device_kind_of(b->device) != LH_DEVICE_CPU && !c->before)
        while (calls < AT_ONCE && (double)calls * warm < together_s) calls *= 2;
    while (n < MOST && (n < min_calls || total < min_s)) {
        LH_TRY(time_calls(b, c, turn, calls, &seconds[n]));
        total += seconds[n];
        seconds[n] = seconds[n] > 0 ? seconds[n] / (double)calls : 1e-9; /* the clock's step */
        turn += calls;
        n++;
    }
    lh_bench_sort(seconds, n, out);
    out->calls = n * calls;
    return LH_OK;
}

/* True if a quick run already has the row of this case: its small shapes may coincide. */
static int has_row(const lh_bench *b, const lh_bench_case *c)
{
    const lh_table *rows = &b->result->rows;
    for (int64_t i = 0; i < rows->n && b->request->quick; i++) {
        const lh_cell *row = lh_table_row(rows, i);
        if (strcmp(row[0].text, c->name) == 0 && strcmp(row[1].text, c->shape) == 0) return 1;
    }
    return 0;
}

lh_status lh_bench_run(lh_bench *b, const lh_bench_case *c, double *median_s)
{
    lh_bench_time time;
    if (median_s) *median_s = 0;
    if (!lh_bench_wanted(b, c->name) || has_row(b, c)) return LH_OK;
    if (b->request->count) return lh_bench_count_case(b, c);
    LH_TRY(lh_bench_measure(b, c, &time));
    LH_TRY(lh_bench_add_case(b, c, &time));
    lh_progress_update(&b->progress, b->result->rows.n);
    if (median_s) *median_s = time.median_s;
    return LH_OK;
}
