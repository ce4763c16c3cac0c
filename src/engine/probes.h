/* probes.h - the ids of probe tokens (policies/probes.h): the sentences that ask a model to repeat its prompt, and the
 * prompt in segments; or the questions of a text, as lh_prompt_encode has them after a context. Sentences and questions
 * end a user's turn of the model's chat format. */
#ifndef LH_ENGINE_PROBES_H
#define LH_ENGINE_PROBES_H

#include "engine/engine.h"
#include "kv/kv.h"

/* Tokens of the lead-ins with an engine's tokenizer: a sentence of KVzip or a question, then the end of the user's turn
 * and the beginning of the answer in the model's chat format; without a format the end of the sentence's line. Zero
 * where the policy has no probe tokens, or a model that repeats no tokenizer. LH_EUSAGE: a model without a tokenizer
 * reads no questions. LH_EINPUT: the chat template cannot be read or rendered. Not collective. */
lh_status lh_probe_leads_of(lh_probe_leads *out, const lh_engine *engine, const lh_policy *policy,
                            const lh_profiles *profiles);

/* A prompt of n tokens, and the cache that it fills. */
typedef struct lh_probed_prompt {
    const lh_kv *kv;
    const lh_profile *text; /* the questions of the cache's policy; NULL: it has none */
    const int32_t *ids;     /* [n] */
    int64_t n;
} lh_probed_prompt;

/* Collective. *out = the ids of the prompt, and of the probe tokens of its cache after them; the same on all ranks. */
lh_status lh_probes_append(lh_tokens *out, const lh_engine *engine, const lh_probed_prompt *prompt);

#endif
