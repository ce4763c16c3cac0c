/* tiny_engine.h - an engine whose numbers do not depend on the machine's defaults: the CPU, one thread, float32. */
#ifndef LH_TESTS_TINY_ENGINE_H
#define LH_TESTS_TINY_ENGINE_H

#include "engine/engine.h"

/* Collective over `comm`. What options leave open is as above; NULL after a failure, which is recorded. */
lh_engine *tiny_engine_open(lh_comm *comm, const lh_engine_options *options);

#endif
