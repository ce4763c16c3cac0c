/* Parts whose value is a word. */
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "policies/policy_impl.h"

/* The first ones are lh_statistic; the others are scores of another source. */
const char *const lh_policy_statistics[] = {
    "sum", "mean", "mas", "count", "last", "position", "random", "key-norm", "key-difference", "expected", NULL};
const char *const lh_policy_proxy_places[] = {"end", "both-ends", NULL}; /* lh_proxies_at */
const char *const lh_policy_switch[] = {"off", "on", NULL};
const char *const lh_policy_groups[] = {"mean", "max", "sum", NULL}; /* lh_group_kind */
const char *const lh_policy_pools[] = {"none", "max", "avg", NULL};  /* lh_pool_kind */
const char *const lh_policy_group_stages[] = {"weight", "score", NULL};
const char *const lh_policy_over_heads[] = {"uniform", "adaptive", NULL}; /* lh_heads_budget */
const char *const lh_policy_safeguards[] = {"interp", "floor", NULL};     /* lh_safeguard */
const char *const lh_policy_over_layers[] = {"uniform", "pyramid", "pyramid-rounded", "adaptive",
                                             NULL}; /* lh_layers_budget */
const char *const lh_policy_selections[] = {"topk", "two-stage", "std-scope", "topk+sample", NULL}; /* lh_select */
const char *const lh_policy_shares[] = {"competing", "budget", NULL};                               /* lh_shares_of */
const char *const lh_policy_sets[] = {"head", "layer", NULL};
const char *const lh_policy_position_modes[] = {"original", "slot", NULL}; /* lh_position_mode */

static const lh_score_source sources[] = {
    LH_SCORE_ATTENTION, LH_SCORE_ATTENTION, LH_SCORE_ATTENTION, LH_SCORE_ATTENTION,      LH_SCORE_ATTENTION,
    LH_SCORE_POSITION,  LH_SCORE_RANDOM,    LH_SCORE_KEY_NORM,  LH_SCORE_KEY_DIFFERENCE, LH_SCORE_EXPECTED};

lh_status lh_word_read(int *out, const char *what, const char *const *words, const char *text)
{
    lh_status st = LH_OK;
    lh_buf all = {0};
    for (int i = 0; words[i]; i++) {
        if (strcmp(words[i], text) == 0) {
            *out = i;
            goto done;
        }
        LH_TRY_DONE(lh_buf_printf(&all, "%s%s", i ? ", " : "", words[i]));
    }
    const char *near = lh_nearest(text, words);
    if (near)
        LH_FAIL_DONE(LH_EUSAGE, "%s '%s' is unknown, did you mean '%s'? (there are: %s)", what, text, near, all.data);
    LH_FAIL_DONE(LH_EUSAGE, "%s '%s' is unknown, there are: %s", what, text, all.data);
done:
    lh_buf_clear(&all);
    return st;
}

static lh_status word_of(int *out, const lh_part *part, const char *text)
{
    lh_part_value what;
    snprintf(what.text, sizeof what.text, "--%s", part->option);
    return lh_word_read(out, what.text, part->words, text);
}

lh_status lh_part_read_word(lh_policy *policy, const lh_part *part, const char *text)
{
    int number = 0;
    LH_TRY(word_of(&number, part, text));
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
    LH_TRY(word_of(&number, part, text));
    policy->score.source = sources[number];
    if (policy->score.source == LH_SCORE_ATTENTION) policy->score.statistic = (lh_statistic)number;
    return LH_OK;
}

void lh_statistic_write(const lh_policy *policy, const lh_part *part, lh_part_value *out)
{
    int number = (int)policy->score.statistic;
    while (sources[number] != policy->score.source) number++;
    snprintf(out->text, sizeof out->text, "%s", part->words[number]);
}

/* ---- what words mean ---- */

static const struct {
    const char *const *words;
    const char *meanings[10]; /* in their order */
} meanings[] = {
    {lh_policy_statistics,
     {"The attention that an entry receives, added up.", "The attention that an entry receives, a mean over the rows.",
      "The attention that an entry receives, a mean over the rows that could see it.",
      "How many rows give an entry more than their mean weight.", "The attention of the last row alone.",
      "The later the better.", "Chance.", "Keys of small norm first.", "Keys that differ from the mean key first.",
      "The attention that rows to come are expected to give."}},
    {lh_policy_proxy_places,
     {"Proxies are the end of the prompt.",
      "Half of the proxies are the beginning of the prompt, the others its end."}},
    {lh_policy_groups,
     {"The mean of the query heads that share a KV head.", "The largest of the query heads that share a KV head.",
      "The sum of the query heads that share a KV head."}},
    {lh_policy_pools, {"Scores as they are.", "The largest score around an entry.", "The mean score around an entry."}},
    {lh_policy_group_stages, {"Query heads are joined before pooling.", "Query heads are joined after pooling."}},
    {lh_policy_over_heads, {"Every head of a layer keeps as much.", "The heads of a layer compete."}},
    {lh_policy_safeguards,
     {"The share alpha is mixed into what the competition gives.",
      "The share alpha is given first, the rest by competition."}},
    {lh_policy_over_layers,
     {"Every layer keeps as much.", "Lower layers keep more.", "Lower layers keep more, rounded as kvpress does.",
      "The heads of all layers compete."}},
    {lh_policy_selections,
     {"The best scores.", "The best scores, then the best of score times what the value adds to the output.",
      "What varies most, then the best scores.", "The best scores, then entries that are drawn by their scores."}},
    {lh_policy_shares, {"Shares are of what competes.", "Shares are of the budget, protected entries included."}},
    {lh_policy_sets, {"Every head keeps entries of its own.", "All heads of a layer keep the same entries."}},
    {lh_policy_position_modes, {"Entries keep their positions.", "Entries take the positions of their slots."}},
};

const char *lh_word_meaning(const char *const *words, const char *text)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        for (int w = 0; meanings[i].words == words && words[w]; w++)
            if (strcmp(words[w], text) == 0) return meanings[i].meanings[w];
    return NULL;
}
