#include "policies/probes.h"

#include <string.h>

#include "base/minmax.h"

lh_probe_leads lh_typical_leads(const lh_policy_score *score, const lh_profiles *profiles)
{
    enum { LEAD = 16, BYTES_OF_A_TOKEN = 4 };
    const lh_profile *text = lh_profiles_find(profiles, LH_PROFILE_LINES, score->text);
    lh_probe_leads leads = {.first = LEAD, .later = 2 * LEAD, .line_count = text ? text->line_count : 0};
    for (int64_t i = 0; i < leads.line_count; i++)
        leads.lines[i] = LEAD / 2 + (int32_t)(strlen(text->lines[i]) / BYTES_OF_A_TOKEN);
    return leads;
}

static int64_t segment_tokens(const lh_policy_numbers *fixed)
{
    return fixed->score.segment ? fixed->score.segment : LH_SEGMENT;
}

int64_t lh_probe_segments(const lh_policy_numbers *fixed, int64_t tokens, const lh_probe_leads *leads)
{
    const int64_t each = segment_tokens(fixed);
    if (!fixed->evicts || !lh_scores_by_probes(&fixed->score) || fixed->budget >= tokens) return 0;
    return lh_probes_score_all(fixed) ? leads->line_count : (tokens + each - 1) / each;
}

/* Of a text. */
static lh_probe_segment line_at(const lh_probe_leads *leads, int64_t i)
{
    lh_probe_segment s = {.lead = i < leads->line_count ? leads->lines[i] : 0};
    for (int64_t j = 0; j < i; j++) s.at += leads->lines[j];
    return s;
}

lh_probe_segment lh_probe_segment_of(const lh_policy_numbers *fixed, int64_t tokens, const lh_probe_leads *leads,
                                     int64_t i)
{
    const int64_t first = lh_min_i64(i * segment_tokens(fixed), tokens);
    if (lh_probes_score_all(fixed)) return line_at(leads, i);
    return (lh_probe_segment){.first = first,
                              .tokens = lh_min_i64(segment_tokens(fixed), tokens - first),
                              .lead = i ? leads->later : leads->first,
                              .at = i ? leads->first + (i - 1) * leads->later + first : 0};
}

int64_t lh_probe_tokens(const lh_policy_numbers *fixed, int64_t tokens, const lh_probe_leads *leads)
{
    const int64_t n = lh_probe_segments(fixed, tokens, leads);
    return n ? lh_probe_segment_of(fixed, tokens, leads, n).at : 0;
}

int64_t lh_probe_longest(const lh_policy_numbers *fixed, int64_t tokens, const lh_probe_leads *leads)
{
    int64_t longest = 0;
    for (int64_t i = 0; i < lh_probe_segments(fixed, tokens, leads); i++) {
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

int lh_probes_score_all(const lh_policy_numbers *fixed)
{
    return fixed->score.rows_at == LH_ROWS_AT_TEXT;
}

int lh_probes_see_more(const lh_policy_numbers *fixed)
{
    return lh_probes_see_all(fixed) && !lh_probes_score_all(fixed);
}
