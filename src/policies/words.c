/* words.c - parts whose value is a word: the arrays of words and meanings (word_list.h), and their numbers in a
 * policy. */
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "policies/policy_impl.h"

#define WORD(word, ...) word,
#define MEANING(word, meaning, ...) meaning,
#define SOURCE(word, meaning, source, statistic, ...) {source, statistic},

#define WORDS(name, list) const char *const name[] = {list(WORD) NULL};
LH_POLICY_WORDS(WORDS)
const char *const lh_policy_switch[] = {"off", "on", NULL};

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
    if (policy->score.source == LH_SCORE_CALLER) {
        snprintf(out->text, sizeof out->text, "caller");
        return;
    }
    while (sources[number].source != policy->score.source || sources[number].statistic != policy->score.statistic)
        number++;
    snprintf(out->text, sizeof out->text, "%s", part->words[number]);
}

/* ---- meanings of words ---- */

static const struct {
    const char *const *words, *const *meanings; /* in their order */
} meanings[] = {
#define MEANINGS(name, list) {name, (const char *const[]){list(MEANING)}},
    LH_POLICY_WORDS(MEANINGS)
#undef MEANINGS
};

const char *lh_word_meaning(const char *const *words, const char *text)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        for (int w = 0; meanings[i].words == words && words[w]; w++)
            if (strcmp(words[w], text) == 0) return meanings[i].meanings[w];
    return NULL;
}
