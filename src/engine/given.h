/* given.h - keep sets that were made elsewhere and take the place of a policy: of a file for one prompt (docs/files.md,
 * keep-sets). */
#ifndef LH_ENGINE_GIVEN_H
#define LH_ENGINE_GIVEN_H

#include "cache/keep_sets.h"
#include "engine/engine.h"

/* Collective. Every rank reads the file, which must be the same on all. LH_EFILE, naming what does not fit the model or
 * the prompt. Clear *out also after a failure. */
lh_status lh_given_read(lh_keep_sets *out, lh_engine *engine, const char *path, const lh_tokens *prompt);

/* The policy of a cache with given keep sets: it evicts at the end of the prompt and never again. */
lh_status lh_given_policy(lh_policy *out);

#endif
