/* Parts whose value is a word. */
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "policies/policy_impl.h"

#define STATISTIC(word, ...) word,
#define SOURCE(word, source, statistic, meaning) {source, statistic},
#define WORD(word, meaning) word,
#define NUMBERED(number, word, meaning) word,

const char *const lh_policy_statistics[] = {LH_STATISTIC_WORDS(STATISTIC) NULL};
const char *const lh_policy_proxy_places[] = {LH_PROXIES_AT_WORDS(NUMBERED) NULL};
const char *const lh_policy_switch[] = {"off", "on", NULL};
const char *const lh_policy_groups[] = {LH_GROUP_WORDS(WORD) NULL}; /* lh_group_kind */
const char *const lh_policy_pools[] = {LH_POOL_WORDS(WORD) NULL};   /* lh_pool_kind */
const char *const lh_policy_group_stages[] = {LH_GROUP_STAGE_WORDS(WORD) NULL};
const char *const lh_policy_over_heads[] = {LH_HEADS_WORDS(NUMBERED) NULL};
const char *const lh_policy_safeguards[] = {LH_SAFEGUARD_WORDS(NUMBERED) NULL};
const char *const lh_policy_over_layers[] = {LH_LAYERS_WORDS(NUMBERED) NULL};
const char *const lh_policy_selections[] = {LH_SELECT_WORDS(NUMBERED) NULL};
const char *const lh_policy_compats[] = {LH_COMPAT_WORDS(NUMBERED) NULL};
const char *const lh_policy_sets[] = {LH_SET_WORDS(WORD) NULL};
const char *const lh_policy_position_modes[] = {LH_POSITION_WORDS(NUMBERED) NULL};

static const struct {
    lh_score_source source;
    lh_statistic statistic;
} sources[] = {LH_STATISTIC_WORDS(SOURCE)}; /* of the words of lh_policy_statistics */

lh_status lh_part_read_word(lh_policy *policy, const lh_part *part, const char *text)
{
    int number = 0;
    LH_TRY(lh_choice_find(&number, part->option, part->words, text));
    memcpy((char *)policy + part->at, &number, sizeof number);
    return LH_OK;
}

void lh_part_write_word(const lh_policy *policy, const lh_part *part, lh_part_value *out)
{
    int number = 0;
    memcpy(&number, (const char *)policy + part->at, sizeof number);
    snprintf(out->text, sizeof out->text, "%s", part->words[number]);
}

lh_status lh_statistic_read(lh_policy *policy, const lh_part *part, const char *text)
{
    int number = 0;
    LH_TRY(lh_choice_find(&number, part->option, part->words, text));
    policy->score.source = sources[number].source;
    policy->score.statistic = sources[number].statistic;
    return LH_OK;
}

void lh_statistic_write(const lh_policy *policy, const lh_part *part, lh_part_value *out)
{
    int number = 0;
    while (sources[number].source != policy->score.source || sources[number].statistic != policy->score.statistic)
        number++;
    snprintf(out->text, sizeof out->text, "%s", part->words[number]);
}

/* ---- what words mean ---- */

#define STATISTIC_MEANING(word, source, statistic, meaning) meaning,
#define MEANING(word, meaning) meaning,
#define NUMBERED_MEANING(number, word, meaning) meaning,

static const struct {
    const char *const *words, *const *meanings; /* in their order */
} meanings[] = {
#define OF(words, list, row)         \
    {                                \
        words, (const char *const[]) \
        {                            \
            list(row)                \
        }                            \
    }
    OF(lh_policy_statistics, LH_STATISTIC_WORDS, STATISTIC_MEANING),
    OF(lh_policy_proxy_places, LH_PROXIES_AT_WORDS, NUMBERED_MEANING),
    OF(lh_policy_groups, LH_GROUP_WORDS, MEANING),
    OF(lh_policy_pools, LH_POOL_WORDS, MEANING),
    OF(lh_policy_group_stages, LH_GROUP_STAGE_WORDS, MEANING),
    OF(lh_policy_over_heads, LH_HEADS_WORDS, NUMBERED_MEANING),
    OF(lh_policy_safeguards, LH_SAFEGUARD_WORDS, NUMBERED_MEANING),
    OF(lh_policy_over_layers, LH_LAYERS_WORDS, NUMBERED_MEANING),
    OF(lh_policy_selections, LH_SELECT_WORDS, NUMBERED_MEANING),
    OF(lh_policy_compats, LH_COMPAT_WORDS, NUMBERED_MEANING),
    OF(lh_policy_sets, LH_SET_WORDS, MEANING),
    OF(lh_policy_position_modes, LH_POSITION_WORDS, NUMBERED_MEANING),
#undef OF
};

const char *lh_word_meaning(const char *const *words, const char *text)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        for (int w = 0; meanings[i].words == words && words[w]; w++)
            if (strcmp(words[w], text) == 0) return meanings[i].meanings[w];
    return NULL;
}
