/* longhaul.h - the public face of liblonghaul. Everything returns lh_status; message and trace are thread-local
 * (base/status.h).
 *
 * A run: lh_world_open → lh_engine_open → lh_generate, lh_needle_run, lh_fidelity_run (or a session of one's own) →
 * lh_engine_close → lh_world_close.
 * Under mpirun every rank makes the same calls. Work on files alone (lh_import, lh_verify, lh_info_json, tokenizers,
 * lh_plan_make) needs no world and is one process's. */
#ifndef LONGHAUL_H
#define LONGHAUL_H

#include "base/status.h"
#include "base/version.h"
#include "bench/bench.h"
#include "engine/engine.h"
#include "engine/generate.h"
#include "engine/plan.h"
#include "engine/prompt.h"
#include "engine/session.h"
#include "engine/world.h"
#include "eval/fidelity.h"
#include "eval/needle.h"
#include "import/import.h"
#include "import/random_model.h"
#include "import/tokenizer_source.h"
#include "import/verify.h"
#include "policies/list.h"
#include "policies/policy.h"
#include "policies/profile.h"
#include "text/chat.h"
#include "text/tokenizer.h"

#endif
