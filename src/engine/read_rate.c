/* read_rate.c - measures reads of host memory and copies in a GPU's memory; the fastest of some passes counts, because
 * a shared host delays others. */
#include "engine/read_rate.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/minmax.h"
#include "engine/threads.h"

enum { PART = 1 << 20, PASSES = 4 };

/* More than the caches of any processor: at most 12 MiB a core, or 96 MiB that few cores share. */
static const int64_t BYTES = INT64_C(128) << 20, THREAD_BYTES = INT64_C(32) << 20;

uint64_t lh_read_memory(const void *data, int64_t bytes)
{
    uint64_t total = 0;
#pragma omp parallel for schedule(static) reduction(+ : total)
    for (int64_t p = 0; p < bytes / PART; p++) {
        const uint64_t *x = (const uint64_t *)(const void *)((const char *)data + p * PART);
        for (int64_t i = 0; i < PART / 8; i++) total += x[i];
    }
    return total;
}

/* Host memory has pages from its first write on, near the thread that will read them. */
static void write_memory(char *data, int64_t bytes)
{
#pragma omp parallel for schedule(static)
    for (int64_t p = 0; p < bytes / PART; p++) memset(data + p * PART, 1, PART);
}

/* Seconds of a pass. */
static lh_status pass_s(lh_stream *stream, char *to, const char *from, int64_t bytes, double *out)
{
    const double start = lh_clock_s();
    if (to) {
        LH_TRY(lh_stream_copy(stream, to, from, bytes, LH_COPY_ON_DEVICE));
        LH_TRY(lh_stream_sync(stream));
    } else if (!lh_read_memory(from, bytes)) {
        LH_FAIL(LH_EINTERNAL, "memory that was written reads as zeros");
    }
    *out = lh_clock_s() - start;
    return LH_OK;
}

lh_status lh_read_rate(double *out, lh_device_kind kind, int64_t room_bytes)
{
    lh_status st = LH_OK;
    lh_device *device = NULL;
    lh_stream *stream = NULL;
    lh_threads *threads = NULL;
    char *from = NULL, *to = NULL;
    double best = INFINITY, seconds = 0;
    LH_TRY_DONE(lh_threads_open_alone(&threads, 0));
    LH_TRY_DONE(lh_device_open(&device, &(lh_device_choice){.kind = kind}));
    LH_TRY_DONE(lh_stream_open(&stream, device));
    int64_t bytes = lh_max_i64(BYTES, THREAD_BYTES * lh_threads_count(threads));
    bytes = lh_max_i64(lh_min_i64(bytes, room_bytes / 4) / PART, 1) * PART;
    LH_TRY_DONE(lh_device_alloc(device, &from, bytes, LH_MEM_WORK));
    if (kind == LH_DEVICE_CPU)
        write_memory(from, bytes);
    else
        LH_TRY_DONE(lh_device_alloc(device, &to, bytes, LH_MEM_WORK));
    for (int i = 0; i < PASSES; i++) {
        LH_TRY_DONE(pass_s(stream, to, from, bytes, &seconds));
        best = fmin(best, seconds);
    }
    *out = (to ? 2.0 : 1.0) * (double)bytes / best;
done:
    if (device) {
        lh_device_free(device, from);
        lh_device_free(device, to);
    }
    lh_stream_close(stream);
    lh_device_close(device);
    lh_threads_close(threads);
    return st;
}
