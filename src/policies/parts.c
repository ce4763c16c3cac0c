/* parts.c - the table of parts: common parts (part_list.h) and parts of methods. For each, when it is
 * used, and how its text is read and written. */
#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "policies/policy_impl.h"

/* ---- words and their meanings ---- */

#define WORD(word, ...) word,
#define MEANING(word, meaning, ...) meaning,
#define WORDS(name, list) const char *const name[] = {list(WORD) NULL};
LH_POLICY_WORDS(WORDS)
const char *const lh_policy_switch[] = {"off", "on", NULL};

/* The words of methods: filled with the table. */
static const char *statistics[LH_METHODS], *selections[LH_METHODS];

static const struct {
    const char *const *words, *const *meanings; /* in their order */
} meanings[] = {
#define MEANINGS(name, list) {name, (const char *const[]){list(MEANING)}},
    LH_POLICY_WORDS(MEANINGS)
#undef MEANINGS
};

const char *lh_part_meaning(const lh_part *part, const char *text)
{
    const char *const *words = part->words ? part->words : part->row.choices, *const *of = part->meanings;
    for (lh_method_id m = 0; part->of_methods && m < LH_METHODS; m++)
        if (part->of_methods(m) && strcmp(lh_methods[m]->word, text) == 0) return lh_methods[m]->help;
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].words == words) of = meanings[i].meanings;
    const size_t bytes = strcspn(text, ":"); /* "repeat:512" has the meaning of "repeat" */
    for (int w = 0; words && of && words[w]; w++)
        if (strlen(words[w]) == bytes && strncmp(words[w], text, bytes) == 0) return of[w];
    return NULL;
}

/* ---- when a common part is used ---- */

static int always(const lh_policy *policy)
{
    (void)policy;
    return 1;
}

static int names_score(const lh_policy *policy)
{
    return !lh_policy_has_scorer(policy);
}

static int has_window(const lh_policy *policy)
{
    return lh_policy_observes(policy) && !policy->proxies.kind;
}

static int has_share_of_proxies(const lh_policy *policy)
{
    return policy->proxies.kind == LH_PROXIES_SHARE;
}

/* Proxies at both ends are sinks themselves, more than are allowed in addition to proxies. */
static int has_sinks(const lh_policy *policy)
{
    return policy->proxies.at != LH_PROXIES_AT_BOTH_ENDS;
}

/* Rows are observed, but not by the score. */
static int only_refers(const lh_policy *policy)
{
    return lh_policy_has(policy, LH_REFERENCES) && !lh_policy_attends(policy);
}

static int has_rows(const lh_policy *policy)
{
    return (lh_policy_attends(policy) && !policy->proxies.kind && !lh_scores_by_probes(&policy->score)) ||
           only_refers(policy);
}

static int places_rows(const lh_policy *policy)
{
    return has_window(policy) || only_refers(policy);
}

static int joins(const lh_policy *policy)
{
    return lh_policy_attends(policy) && !lh_policy_has(policy, LH_JOINT_STATISTIC);
}

static int pools(const lh_policy *policy)
{
    return policy->shape.pool != 0;
}

int lh_policy_joins_and_pools(const lh_policy *policy)
{
    return joins(policy) && pools(policy);
}

static int ranks(const lh_policy *policy)
{
    return !lh_policy_has(policy, LH_BY_POSITION);
}

int lh_policy_may_refer(const lh_policy *policy)
{
    return ranks(policy) && (lh_policy_observes(policy) || !lh_policy_attends(policy));
}

static const char *place_of_references(const lh_policy *policy, const char *usual)
{
    (void)usual;
    return only_refers(policy) ? "after" : NULL;
}

static const char *once_for_spread_rows(const lh_policy *policy, const char *usual)
{
    (void)usual;
    return policy->rows_spread || policy->score.rows_at != LH_ROWS_AT_OWN || lh_policy_has(policy, LH_REFERENCES)
               ? "never"
               : NULL;
}

static const char *last_row(const lh_policy *policy, const char *usual)
{
    (void)usual;
    return lh_policy_has(policy, LH_ONE_ROW) ? "last:1" : NULL;
}

/* Layers compete once, at the end of the prompt, by the ranks of heads that compete; blocks need equal layers. */
static const char *layers_alike(const lh_policy *policy, const char *usual)
{
    const char *uniform = lh_policy_over_layers[LH_LAYERS_UNIFORM];
    if (strcmp(usual, lh_policy_over_layers[LH_LAYERS_LEARNT]) == 0) return policy->block ? uniform : NULL;
    if (strcmp(usual, lh_policy_over_layers[LH_LAYERS_ADAPTIVE]) != 0) return NULL;
    return policy->budgets.heads == LH_HEADS_ADAPTIVE && !lh_policy_has(policy, LH_STAGED) && !policy->every &&
                   !policy->block
               ? NULL
               : uniform;
}

/* ---- words of methods ---- */

static int is_statistic(lh_method_id m)
{
    return lh_methods[m]->word && lh_methods[m]->source;
}

static int is_selection(lh_method_id m)
{
    return lh_methods[m]->word && !lh_methods[m]->source;
}

static lh_status read_method(lh_policy *policy, const lh_part *part, const char *text)
{
    int number = 0;
    lh_method_id m = 0;
    LH_TRY(lh_choice_find(&number, part->row.name, part->row.choices, text));
    while (!part->of_methods(m) || strcmp(lh_methods[m]->word, text) != 0) m++;
    memcpy((char *)policy + part->at, &m, sizeof m);
    return LH_OK;
}

static void write_method(const lh_policy *policy, const lh_part *part, lh_part_value *out)
{
    lh_method_id m;
    memcpy(&m, (const char *)policy + part->at, sizeof m);
    snprintf(out->text, sizeof out->text, "%s", lh_methods[m]->word);
}

/* The values of '--rows-at' that are words; NULL after the last. */
static const char *row_place(int i)
{
    return i < LH_ROWS_AT_TEXT ? lh_policy_row_places[i] : NULL;
}

/* ---- the common parts ---- */

static const lh_profile_part layer_profile = {LH_PROFILE_OF_LAYERS, offsetof(lh_policy, budgets.layer_profile),
                                              "Every layer keeps its share, by the weights of a file."},
                             head_profile = {LH_PROFILE_OF_HEADS, offsetof(lh_policy, budgets.head_profile),
                                             "The heads of a layer keep their shares, by the weights of a file."},
                             row_lines = {LH_PROFILE_LINES, offsetof(lh_policy, score.text), NULL};

#define lh_policy_statistics statistics
#define lh_policy_selections selections
#define WORD_PART .read = lh_part_read_word, .write = lh_part_write_word
#define WORD_OR_FILE .read = lh_part_read_profile, .write = lh_part_write_profile
#define METHOD(test) .read = read_method, .write = write_method, .of_methods = test
#define NUMBER .read = lh_part_read_number, .write = lh_part_write_number
#define ODD .read = lh_part_read_odd, .write = lh_part_write_number
#define AMOUNT .read = lh_part_read_amount, .write = lh_part_write_amount
#define OWN(name) .read = lh_##name##_read, .write = lh_##name##_write
#define AT(member) .at = offsetof(lh_policy, member)
#define USED(test, what) .used = test, .needs = what
#define OBSERVED "a statistic of rows ('--statistic sum' or mean, mas, count, rms, max, output-error)"
#define ALWAYS USED(always, NULL)

#define ROW_statistic \
    USED(names_score, "another policy: this one has a score of its own"), METHOD(is_statistic), AT(score.source)
#define ROW_proxies USED(lh_policy_observes, OBSERVED), .def = "none", OWN(proxies)
#define ROW_proxies_at USED(has_share_of_proxies, "'--proxies P%'"), .def = "end", WORD_PART, AT(proxies.at)
#define ROW_window USED(has_window, OBSERVED " and '--proxies none'"), .def = "32", NUMBER, AT(window)
#define ROW_rows                                                                                                      \
    USED(has_rows, "a statistic of attention ('--statistic sum' or mean, mas, count, rms, max, output-error, last), " \
                   "'--proxies none' and '--rows-at own' or after; or '--fit' or '--compete-by losses'"),             \
        .forced = last_row, OWN(rows)
#define ROW_rows_at                                                                               \
    USED(places_rows, OBSERVED " and '--proxies none', or '--fit' or '--compete-by losses'"),     \
        .forced = place_of_references, .def = "own", OWN(rows_at), .words = lh_policy_row_places, \
        .row.word = row_place, .row.file_prefix = "text:", .profile = &row_lines
#define ROW_group                                                                               \
    USED(joins, "a statistic that each query head has ('--statistic sum' or mean, mas, last)"), \
        .def = "mean", WORD_PART, AT(shape.group)
/* pooled positions stay in the same order */
#define ROW_pool USED(ranks, "a statistic other than position"), .def = "none", WORD_PART, AT(shape.pool)
#define ROW_pool_size USED(pools, "'--pool max' or avg"), .def = "7", ODD, AT(shape.pool_size), .min = 1
#define ROW_sinks \
    USED(has_sinks, "'--proxies-at end': proxies at both ends are the sinks"), .def = "0", AMOUNT, AT(protect.sinks)
/* by position the most recent entries are the best: protecting them would change nothing */
#define ROW_recents USED(ranks, "a statistic other than position"), .def = "0", AMOUNT, AT(protect.recents)
#define ROW_head_budget ALWAYS, .def = "uniform", WORD_OR_FILE, AT(budgets.heads), .profile = &head_profile
#define ROW_layer_budget \
    ALWAYS, .forced = layers_alike, .def = "uniform", WORD_OR_FILE, AT(budgets.layers), .profile = &layer_profile
#define ROW_select ALWAYS, .def = "topk", METHOD(is_selection), AT(select.kind)
#define ROW_set_per ALWAYS, .def = "head", WORD_PART, AT(select.joint)
#define ROW_evict ALWAYS, .forced = once_for_spread_rows, .def = "never", OWN(evict)
#define ROW_positions ALWAYS, .def = "original", WORD_PART, AT(positions)

static const lh_part common[] = {
#define LH_PART(member, option, kind, list, argument, sentence) \
    {.row = {.type = kind,                                      \
             .name = option,                                    \
             LH_FIELD(lh_policy_options, parts.member),         \
             .arg = argument,                                   \
             .choices = list,                                   \
             .detail = 1,                                       \
             .help = sentence},                                 \
     ROW_##member},
    LH_POLICY_PARTS(LH_PART)
#undef LH_PART
};
enum { COMMON = sizeof common / sizeof *common };

/* ---- all parts, in the order in which they are read ---- */

static const lh_part *parts[LH_PARTS + 1];
static int part_count;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *anchor_of(const lh_part *part)
{
    if (part->after) return part->after;
    return is_selection(part->method) ? "select" : "statistic";
}

/* Each common part, then the parts of methods that follow it, in the order of the methods. */
static void collect(void)
{
    int n = 0, words[2] = {0};
    for (lh_method_id m = 1; m < LH_METHODS; m++) {
        if (is_statistic(m)) statistics[words[0]++] = lh_methods[m]->word;
        if (is_selection(m)) selections[words[1]++] = lh_methods[m]->word;
    }
    for (int c = 0; c < COMMON; c++) {
        parts[n++] = &common[c];
        for (lh_method_id m = 1; m < LH_METHODS; m++)
            for (const lh_part *p = lh_methods[m]->parts; p && p->row.name; p++) {
                assert(p->method == m && n < LH_PARTS - LH_PLUGIN_OPTIONS);
                if (strcmp(anchor_of(p), common[c].row.name) == 0) parts[n++] = p;
            }
    }
    part_count = n;
}

const lh_part *lh_part_at(int i)
{
    pthread_once(&once, collect);
    return i >= 0 && i < LH_PARTS ? parts[i] : NULL;
}

const lh_part *lh_policy_part(const lh_policy *policy, int i)
{
    const lh_loaded_plugin *plugin = policy->score.plugin;
    if (lh_part_at(i)) return lh_part_at(i);
    const lh_part *own = plugin ? &plugin->parts[i - part_count] : NULL;
    return own && own->row.name ? own : NULL;
}

const lh_option *lh_policy_part_row(int64_t i)
{
    return lh_part_at((int)i) ? &lh_part_at((int)i)->row : NULL;
}

const lh_part *lh_part_find(const char *option)
{
    int i = 0;
    while (lh_part_at(i) && strcmp(lh_part_at(i)->row.name, option) != 0) i++;
    return lh_part_at(i);
}

int lh_part_is_used(const lh_part *part, const lh_policy *policy)
{
    return part->used ? part->used(policy) : lh_uses_method(&policy->methods, part->method);
}

lh_part_needs lh_part_needs_of(const lh_part *part)
{
    lh_part_needs needs;
    if (part->needs)
        snprintf(needs.text, sizeof needs.text, "%s", part->needs);
    else
        snprintf(needs.text, sizeof needs.text, "'%s'", lh_method_label(part->method).text);
    return needs;
}

lh_part_value lh_method_label(lh_method_id id)
{
    lh_part_value label;
    const lh_method *m = lh_methods[id];
    if (m->word)
        snprintf(label.text, sizeof label.text, "--%s %s", is_statistic(id) ? "statistic" : "select", m->word);
    else
        snprintf(label.text, sizeof label.text, "%s", m->option ? m->option : "the score of one's own");
    return label;
}

const char *lh_policy_parts_get(const lh_policy_parts *from, const lh_option *row)
{
    const char *text;
    if (row->named) {
        const lh_named_text *slot = lh_named_slot((lh_named_text *)(uintptr_t)from->own, LH_OWN_PARTS, row->name);
        return slot ? slot->text : NULL;
    }
    memcpy(&text, (const char *)from + row->at - offsetof(lh_policy_options, parts), sizeof text);
    return text;
}

void lh_policy_parts_set(lh_policy_parts *to, const lh_option *row, const char *text)
{
    if (row->named) {
        lh_named_text *slot = lh_named_slot(to->own, LH_OWN_PARTS, row->name);
        assert(slot);
        *slot = (lh_named_text){row->name, text};
        return;
    }
    memcpy((char *)to + row->at - offsetof(lh_policy_options, parts), &text, sizeof text);
}
