/* devices.c - gives the ranks of a host their devices: local rank r takes device r, and `auto` is CUDA only if every
 * rank finds a device. */
#include "engine/devices.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"

/* Host and device of a rank, exchanged between the ranks. */
typedef struct rank_device {
    char host[64], bus[32];
    int32_t found; /* CUDA devices visible to the rank */
} rank_device;

lh_status lh_devices_ops(const char *device, const lh_ops **out)
{
    *out = lh_ops_find(device);
    if (!*out && strcmp(device, "cuda") == 0)
        LH_FAIL(LH_EUSAGE,
                "%s cuda: this build has no CUDA backend (configure it with -DLH_CUDA=ON where the CUDA toolkit is); "
                "%s cpu always works",
                lh_setting("device"), lh_setting("device"));
    if (!*out) LH_FAIL(LH_EUSAGE, "%s '%s' is none of auto, cpu, cuda, ref", lh_setting("device"), device);
    LH_TRY(lh_ops_check(*out));
    return LH_OK;
}

/* Resolves "auto", with the same result on all ranks. */
static const char *resolve_auto(const char *device, const rank_device *all, int ranks)
{
    if (strcmp(device, "auto") != 0) return device;
    if (!lh_ops_find("cuda")) return "cpu";
    for (int r = 0; r < ranks; r++)
        if (all[r].found == 0) return "cpu";
    return "cuda";
}

int64_t lh_devices_usable(lh_device_kind kind, int64_t free_bytes)
{
    const int64_t large = 1500000000;
    if (kind == LH_DEVICE_CPU) return free_bytes;
    return free_bytes - lh_max_i64(free_bytes / 64, lh_min_i64(large, free_bytes / 8));
}

/* Free memory of a device of this host, its libraries open. */
static lh_status ask_device(const char *device, lh_device_kind kind, int64_t *free_bytes)
{
    lh_status st = LH_OK;
    const lh_ops *ops = lh_ops_find(device);
    lh_device *opened = NULL;
    lh_stream *stream = NULL;
    LH_TRY_DONE(lh_device_open(&opened, &(lh_device_choice){.kind = kind}));
    if (ops && ops->open_libraries) {
        LH_TRY_DONE(lh_stream_open(&stream, opened));
        LH_TRY_DONE(ops->open_libraries(stream));
    }
    *free_bytes = lh_device_free_bytes(opened);
done:
    if (stream) lh_stream_close(stream);
    lh_device_close(opened);
    return st;
}

lh_status lh_devices_query(lh_devices_room *out, const lh_device_request *request)
{
    const lh_ops *ops;
    lh_device_found found;
    lh_device_kind kind;
    lh_device_find(LH_DEVICE_CUDA, &found);
    const char *device = resolve_auto(request->device, &(rank_device){.found = found.count}, 1);
    if (!lh_device_kind_find(device, &kind)) { /* a backend without a device kind of its name, such as ref */
        LH_TRY(lh_devices_ops(device, &ops));
        kind = ops->device;
    }
    *out = (lh_devices_room){.kind = kind, .free_bytes = request->memory};
    if (request->memory) return LH_OK;
    if (kind == LH_DEVICE_CUDA && !found.count)
        LH_FAIL(LH_EUSAGE,
                "%s cuda: %s; to plan for a device of another host, give its free memory with '%s', such as '%s 80G'; "
                "%s cpu always works",
                lh_setting("device"), found.text, lh_setting("memory"), lh_setting("memory"), lh_setting("device"));
    LH_TRY(ask_device(device, kind, &out->free_bytes));
    if (kind == LH_DEVICE_CPU) out->dealt = 1;
    if (kind == LH_DEVICE_CUDA && request->share) out->dealt = found.count;
    return LH_OK;
}

static int same_device(const rank_device *a, const rank_device *b)
{
    return a->bus[0] && strcmp(a->bus, b->bus) == 0 && strcmp(a->host, b->host) == 0;
}

/* Number of ranks on the device of `rank`; *other: another one of these ranks. */
static int sharers_of(const rank_device *all, int ranks, int rank, int *other)
{
    int n = 0;
    for (int r = 0; r < ranks; r++) {
        if (!same_device(&all[rank], &all[r])) continue;
        if (r != rank) *other = r;
        n++;
    }
    return n;
}

/* LH_EUSAGE if ranks share a device without permission; the same on every rank. */
static lh_status check_one_per_rank(const rank_device *all, int ranks, const lh_device_request *request,
                                    int *one_device_per_rank)
{
    *one_device_per_rank = 1;
    for (int r = 0; r < ranks; r++) {
        int other = r;
        if (sharers_of(all, ranks, r, &other) < 2) continue;
        *one_device_per_rank = 0;
        if (!request->share)
            LH_FAIL(LH_EUSAGE,
                    "ranks %d and %d on %s would share the CUDA device at %s: start one rank per device, or give "
                    "%s or %s cpu",
                    r, other, all[r].host, all[r].bus, lh_setting("share_device"), lh_setting("device"));
    }
    return LH_OK;
}

static lh_status gather_devices(lh_comm *world, const lh_device *device, rank_device *all)
{
    lh_device_found found;
    rank_device own = {0};
    lh_device_find(LH_DEVICE_CUDA, &found);
    own.found = found.count;
    snprintf(own.host, sizeof own.host, "%s", lh_comm_host(world));
    if (device) snprintf(own.bus, sizeof own.bus, "%s", lh_device_bus(device));
    return lh_comm_allgather(world, &own, all, sizeof own);
}

lh_status lh_devices_open(lh_devices *out, lh_comm *world, const lh_device_request *request)
{
    lh_status st = LH_OK;
    int ranks = lh_comm_size(world), rank = lh_comm_rank(world), other = 0;
    rank_device *all = NULL;
    lh_devices d = {.memory = request->memory};
    LH_TRY_DONE(lh_calloc(&all, ranks, sizeof *all));
    LH_TRY_DONE(gather_devices(world, NULL, all));
    st = lh_devices_ops(resolve_auto(request->device, all, ranks), &d.ops);
    if (st == LH_OK) {
        lh_device_choice choice = {.kind = d.ops->device};
        if (choice.kind == LH_DEVICE_CUDA && all[rank].found)
            choice.index = lh_comm_local_rank(world) % all[rank].found;
        st = lh_device_open(&d.device, &choice);
    }
    LH_TRY_DONE(lh_comm_agree(world, st));
    LH_TRY_DONE(gather_devices(world, d.device, all));
    LH_TRY_DONE(check_one_per_rank(all, ranks, request, &d.one_device_per_rank));
    int on_host = d.ops->device == LH_DEVICE_CPU;
    d.sharers = on_host ? lh_comm_local_size(world) : sharers_of(all, ranks, rank, &other);
    *out = d;
    d.device = NULL;
done:
    lh_device_close(d.device);
    lh_free(all);
    return st;
}

lh_status lh_devices_limit(const lh_devices *devices, lh_comm *world)
{
    int64_t part = lh_device_free_bytes(devices->device) / devices->sharers;
    if (devices->memory) part = lh_min_i64(devices->memory, part);
    lh_device_set_limit(devices->device, lh_devices_usable(devices->ops->device, part));
    return lh_comm_agree(world, LH_OK); /* none allocates before all have asked */
}
