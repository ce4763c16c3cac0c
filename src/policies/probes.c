#include "policies/probes.h"

#include "base/minmax.h"

static int64_t segment_tokens(const lh_policy_numbers *fixed)
{
    return fixed->score.segment ? fixed->score.segment : LH_SEGMENT;
}

int64_t lh_probe_segments(const lh_policy_numbers *fixed, int64_t tokens)
{
    const int64_t each = segment_tokens(fixed);
    if (!fixed->evicts || fixed->score.rows_at != LH_ROWS_AT_REPEAT || fixed->budget >= tokens) return 0;
    return (tokens + each - 1) / each;
}

lh_probe_segment lh_probe_segment_of(const lh_policy_numbers *fixed, int64_t tokens, const lh_probe_leads *leads,
                                     int64_t i)
{
    const int64_t first = lh_min_i64(i * segment_tokens(fixed), tokens);
    return (lh_probe_segment){.first = first,
                              .tokens = lh_min_i64(segment_tokens(fixed), tokens - first),
                              .lead = i ? leads->later : leads->first,
                              .at = i ? leads->first + (i - 1) * leads->later + first : 0};
}

int64_t lh_probe_tokens(const lh_policy_numbers *fixed, int64_t tokens, const lh_probe_leads *leads)
{
    const int64_t n = lh_probe_segments(fixed, tokens);
    return n ? lh_probe_segment_of(fixed, tokens, leads, n).at : 0;
}

int64_t lh_probe_longest(const lh_policy_numbers *fixed, int64_t tokens, const lh_probe_leads *leads)
{
    int64_t longest = 0;
    for (int64_t i = 0; i < lh_min_i64(lh_probe_segments(fixed, tokens), 2); i++) { /* later ones are not longer */
        const lh_probe_segment s = lh_probe_segment_of(fixed, tokens, leads, i);
        longest = lh_max_i64(longest, s.lead + s.tokens);
    }
    return longest;
}

int64_t lh_probe_sinks(const lh_policy_numbers *fixed, const lh_probe_segment *s)
{
    return lh_min_i64(fixed->sinks, s->first);
}

int lh_probes_see_all(const lh_policy_numbers *fixed)
{
    return !fixed->score.segment;
}
