/* devices.c - gives the ranks of a host their devices: local rank r takes device r, and `auto` is CUDA only if every
 * rank finds a device. */
#include "engine/devices.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"

/* Exchanged between the ranks. */
typedef struct seat {
    char host[64], bus[32];
    int32_t found; /* CUDA devices that it sees */
} seat;

lh_status lh_devices_ops(const char *device, const lh_ops **out)
{
    *out = lh_ops_find(device);
    if (!*out && strcmp(device, "cuda") == 0)
        LH_FAIL(LH_EUSAGE, "--device cuda: this build has no CUDA backend (configure it with -DLH_CUDA=ON where the "
                           "CUDA toolkit is); --device cpu always works");
    if (!*out) LH_FAIL(LH_EUSAGE, "--device '%s' is none of auto, cpu, cuda, ref", device);
    LH_TRY(lh_ops_check(*out));
    return LH_OK;
}

/* What "auto" is: the same on all ranks. */
static const char *resolve(const char *device, const seat *seats, int ranks)
{
    if (strcmp(device, "auto") != 0) return device;
    if (!lh_ops_find("cuda")) return "cpu";
    for (int r = 0; r < ranks; r++)
        if (seats[r].found == 0) return "cpu";
    return "cuda";
}

lh_status lh_devices_look(lh_devices_room *out, const lh_devices_wish *wish)
{
    lh_status st = LH_OK;
    const lh_ops *ops;
    lh_device *opened = NULL;
    lh_device_found found;
    lh_device_kind kind;
    lh_device_find(LH_DEVICE_CUDA, &found);
    const char *device = resolve(wish->device, &(seat){.found = found.count}, 1);
    if (!lh_device_kind_find(device, &kind)) { /* a backend of its own name, as ref */
        LH_TRY_DONE(lh_devices_ops(device, &ops));
        kind = ops->device;
    }
    if (wish->memory) {
        *out = (lh_devices_room){.kind = kind, .free_bytes = wish->memory};
        goto done;
    }
    if (kind == LH_DEVICE_CUDA && !found.count)
        LH_FAIL_DONE(
            LH_EUSAGE,
            "--device cuda: %s; to plan for a device that is elsewhere, say with '--memory' how much it has free, as "
            "'--memory 80G'; --device cpu always works",
            found.text);
    LH_TRY_DONE(lh_device_open(&opened, &(lh_device_choice){.kind = kind}));
    *out = (lh_devices_room){.kind = kind, .free_bytes = lh_device_free_bytes(opened)};
    if (kind == LH_DEVICE_CPU) out->dealt = 1;
    if (kind == LH_DEVICE_CUDA && wish->share) out->dealt = found.count;
done:
    lh_device_close(opened);
    return st;
}

static int same_device(const seat *a, const seat *b)
{
    return a->bus[0] && strcmp(a->bus, b->bus) == 0 && strcmp(a->host, b->host) == 0;
}

/* How many ranks compute on the device of `rank`; the other one that has it in *other. */
static int sharers_of(const seat *seats, int ranks, int rank, int *other)
{
    int n = 0;
    for (int r = 0; r < ranks; r++) {
        if (!same_device(&seats[rank], &seats[r])) continue;
        if (r != rank) *other = r;
        n++;
    }
    return n;
}

/* Every rank knows the same of all and finds the same. */
static lh_status check_apart(const seat *seats, int ranks, const lh_devices_wish *wish, int *apart)
{
    *apart = 1;
    for (int r = 0; r < ranks; r++) {
        int other = r;
        if (sharers_of(seats, ranks, r, &other) < 2) continue;
        *apart = 0;
        if (!wish->share)
            LH_FAIL(LH_EUSAGE,
                    "ranks %d and %d on %s would share the CUDA device at %s: start one rank a device, or say "
                    "--share-device or --device cpu",
                    r, other, seats[r].host, seats[r].bus);
    }
    return LH_OK;
}

static lh_status tell(lh_comm *world, const lh_device *device, seat *all)
{
    lh_device_found found;
    seat own = {0};
    lh_device_find(LH_DEVICE_CUDA, &found);
    own.found = found.count;
    snprintf(own.host, sizeof own.host, "%s", lh_comm_host(world));
    if (device) snprintf(own.bus, sizeof own.bus, "%s", lh_device_bus(device));
    return lh_comm_allgather(world, &own, all, sizeof own);
}

lh_status lh_devices_open(lh_devices *out, lh_comm *world, const lh_devices_wish *wish)
{
    lh_status st = LH_OK;
    int ranks = lh_comm_size(world), rank = lh_comm_rank(world), other = 0;
    seat *seats = NULL;
    lh_devices d = {0};
    LH_TRY_DONE(lh_calloc(&seats, ranks, sizeof *seats));
    LH_TRY_DONE(tell(world, NULL, seats));
    st = lh_devices_ops(resolve(wish->device, seats, ranks), &d.ops);
    if (st == LH_OK) {
        lh_device_choice choice = {.kind = d.ops->device};
        if (choice.kind == LH_DEVICE_CUDA && seats[rank].found)
            choice.index = lh_comm_local_rank(world) % seats[rank].found;
        st = lh_device_open(&d.device, &choice);
    }
    LH_TRY_DONE(lh_comm_agree(world, st));
    LH_TRY_DONE(tell(world, d.device, seats));
    LH_TRY_DONE(check_apart(seats, ranks, wish, &d.apart));
    /* Ranks of one host share its memory, those of one device that one's: each may take its part of what is free. */
    int on_host = d.ops->device == LH_DEVICE_CPU;
    int sharers = on_host ? lh_comm_local_size(world) : sharers_of(seats, ranks, rank, &other);
    int64_t part = lh_device_free_bytes(d.device) / sharers;
    lh_device_set_limit(d.device, wish->memory ? lh_min_i64(wish->memory, part) : part);
    *out = d;
    d.device = NULL;
done:
    lh_device_close(d.device);
    lh_free(seats);
    return st;
}
