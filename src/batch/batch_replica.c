/* batch_replica.c - the ranks of a batch as replicas of a model. */
#include "batch/batch_command.h"

static lh_status check_replicas(int64_t ranks, int64_t tp)
{
    if (ranks % tp)
        LH_FAIL(LH_EUSAGE, "%lld ranks are no replicas of %lld ('--tp'): start a multiple of them", (long long)ranks,
                (long long)tp);
    return LH_OK;
}

lh_status lh_batch_find_replica(lh_batch_call *r)
{
    lh_comm *world = lh_world_comm(r->call->world);
    const int64_t size = lh_comm_size(world), tp = r->v->engine.tp ? r->v->engine.tp : size;
    LH_TRY(lh_comm_agree(world, check_replicas(size, tp)));
    r->replicas = size / tp;
    LH_TRY(lh_comm_split(world, (int)(lh_comm_rank(world) / tp), &r->replica));
    return lh_comm_split(world, lh_comm_rank(world) % tp != 0, &r->leaders);
}

lh_status lh_batch_open_engine(lh_batch_call *r)
{
    const lh_engine_options options = lh_engine_defaults(&r->v->engine);
    return lh_engine_open_replica(&r->engine, lh_world_comm(r->call->world), r->replica, &options);
}
