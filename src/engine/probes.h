/* probes.h - the ids of probe tokens (policies/probes.h): the sentences that ask a model to repeat its prompt, in its
 * chat format, and the prompt in segments. */
#ifndef LH_ENGINE_PROBES_H
#define LH_ENGINE_PROBES_H

#include "engine/engine.h"
#include "kv/kv.h"

/* Tokens of lead-ins where no tokenizer is at hand, for forecasts: about as many as of a model with a chat format. */
extern const lh_probe_leads lh_typical_leads;

/* Tokens of the lead-ins with an engine's tokenizer: a sentence of KVzip, then the end of the user's turn and the
 * beginning of the answer in the model's chat format; an end of line if it has none. Zero where the policy has no
 * probe tokens, or the model no tokenizer. LH_EINPUT: the chat template cannot be read or rendered. Not collective. */
lh_status lh_probe_leads_of(lh_probe_leads *out, const lh_engine *engine, const lh_policy *policy);

/* Collective. *out = the ids of a prompt of `n` tokens, and of the probe tokens of its cache after them; the same on
 * all ranks. */
lh_status lh_probes_append(lh_tokens *out, const lh_engine *engine, const lh_kv *kv, const int32_t *ids, int64_t n);

#endif
