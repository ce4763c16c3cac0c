#include "tiny_engine.h"

#include "mpi_check.h"

lh_engine *tiny_engine_open(lh_comm *comm, const lh_engine_options *options)
{
    lh_engine *engine = NULL;
    lh_engine_options all = *options;
    if (!all.device) all.device = "cpu";
    if (!all.dtype) all.dtype = "f32";
    if (!all.kv_dtype) all.kv_dtype = "f32";
    if (!all.threads) all.threads = 1;
    mt_try(lh_engine_open_on(&engine, comm, &all));
    return engine;
}
