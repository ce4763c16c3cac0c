/* probes.h - probe tokens: the prompt once more, after itself ('--rows-at repeat'), or questions that are known
 * beforehand ('--rows-at text:FILE'). They pass through every layer after the tokens of the prompt, their rows score
 * the entries of the prompt, and they are never in the cache. A model that repeats a text attends to the entries that
 * answers will need: KVzip's context reconstruction (arXiv 2505.23416).
 *
 * Probe tokens come in segments, whose positions begin at the end of the prompt. A segment that repeats has a lead-in,
 * which asks the model to repeat, and a stretch of the prompt. Its rows score the entries of its stretch alone, with a
 * softmax over the sinks, the stretch, and the segment itself up to the row. They attend to the whole prompt and their
 * segment, as in KVzip; or, with '--rows-at repeat:N', to the entries of that softmax alone, so that the cost
 * grows with the prompt and not with its square. A segment of a question is a lead-in without a stretch: its rows
 * attend to the whole prompt and their segment, and score all entries of the prompt by these weights. */
#ifndef LH_POLICIES_PROBES_H
#define LH_POLICIES_PROBES_H

#include "policies/budgets.h"
#include "policies/profile.h"

enum {
    LH_SEGMENT = 2048,  /* tokens of the prompt in a segment of KVzip */
    LH_SEGMENT_MIN = 8, /* of repeat:N */
    LH_LEAD_QUOTE = 8   /* last tokens of the stretch before, which end the lead-in of a later segment */
};

/* Tokens of the lead-in of the first segment, and of each later one; or of the segments of a text. */
typedef struct lh_probe_leads {
    int64_t first, later, line_count;
    int32_t lines[LH_PROFILE_MAX_LINES];
} lh_probe_leads;

/* The same where no tokenizer is at hand, for forecasts: about as many as of a model with a chat format. */
lh_probe_leads lh_typical_leads(const lh_policy_score *score, const lh_profiles *profiles);

/* A segment: `lead` tokens of lead-in, then the tokens [first, first + tokens) of the prompt, none in a question. at:
 * of its first token among all probe tokens. */
typedef struct lh_probe_segment {
    int64_t first, tokens, lead, at;
} lh_probe_segment;

/* Number of segments for a prompt of `tokens` tokens; 0: the policy has no probe tokens, or evicts nothing. */
int64_t lh_probe_segments(const lh_policy_numbers *fixed, int64_t tokens, const lh_probe_leads *leads);

/* Segment i of them. i = lh_probe_segments: an empty segment after the last. */
lh_probe_segment lh_probe_segment_of(const lh_policy_numbers *fixed, int64_t tokens, const lh_probe_leads *leads,
                                     int64_t i);

/* Number of all probe tokens; and of the longest segment. */
int64_t lh_probe_tokens(const lh_policy_numbers *fixed, int64_t tokens, const lh_probe_leads *leads);
int64_t lh_probe_longest(const lh_policy_numbers *fixed, int64_t tokens, const lh_probe_leads *leads);

/* Number of the sinks that segment s sees: entries before its stretch. */
int64_t lh_probe_sinks(const lh_policy_numbers *fixed, const lh_probe_segment *s);

/* True if rows of probe tokens attend to the whole prompt; if they score all of it; and if they attend to more of it
 * than they score. */
int lh_probes_see_all(const lh_policy_numbers *fixed);
int lh_probes_score_all(const lh_policy_numbers *fixed);
int lh_probes_see_more(const lh_policy_numbers *fixed);

#endif
