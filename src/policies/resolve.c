/* resolve.c - resolves a preset and options into a policy, part by part in the order of part_list.h, and writes a
 * policy as the shortest command line that gives it. */
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "policies/load_plugin.h"
#include "policies/policy_impl.h"
#include "policies/words.h"

static const char *first_given(const lh_policy_parts *parts)
{
    for (int i = 0; lh_part_at(i); i++)
        if (lh_policy_parts_get(parts, &lh_part_at(i)->row)) return lh_part_at(i)->row.name;
    return NULL;
}

int lh_policy_given(const lh_policy_options *options)
{
    return options->policy || options->budget || first_given(&options->parts);
}

static lh_status resolve_full(lh_policy *out, const lh_policy_options *options)
{
    const char *part = first_given(&options->parts);
    if (part && options->policy)
        LH_FAIL(LH_EUSAGE, "policy '%s' evicts nothing and would ignore '--%s'", options->policy, part);
    if (part) LH_FAIL(LH_EUSAGE, "'--%s' needs a budget: give '--budget N', or '--budget P%%' of the prompt", part);
    if (options->budget) LH_FAIL(LH_EUSAGE, "policy '%s' evicts nothing and would ignore '--budget'", options->policy);
    snprintf(out->name, sizeof out->name, "full");
    return LH_OK;
}

/* The parts of a preset, which point into a copy of its text. */
typedef struct preset_parts {
    char words[512];
    lh_policy_parts parts;
} preset_parts;

/* "--name value", "--name" and "--name=off", with one space between words. LH_EINPUT for words of a plug-in that are no
 * parts. */
static lh_status read_preset(preset_parts *out, const lh_policy_preset *preset)
{
    char *rest;
    const int bytes = snprintf(out->words, sizeof out->words, "%s", preset->parts);
    if (bytes >= (int)sizeof out->words)
        LH_FAIL(LH_EINPUT, "the parts of the plug-in '%s' are longer than %zu bytes", preset->name, sizeof out->words);
    out->parts = (lh_policy_parts){0};
    for (char *word = strtok_r(out->words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');
        const int takes_next = !equals && *rest && strncmp(rest, "--", 2) != 0;
        if (equals) *equals = '\0';
        const lh_part *part = strncmp(word, "--", 2) == 0 ? lh_part_find(word + 2) : NULL;
        if (!part) LH_FAIL(LH_EINPUT, "the plug-in '%s' sets '%s', which is no part of a policy", preset->name, word);
        lh_policy_parts_set(&out->parts, &part->row,
                            equals       ? equals + 1
                            : takes_next ? strtok_r(NULL, " ", &rest)
                                         : "on");
    }
    return LH_OK;
}

/* The text of a part: the option, else the only value that earlier parts allow, else the preset's, else the default. */
static const char *resolved_text(const lh_policy *policy, const lh_part *part, const lh_policy_parts *preset,
                                 const lh_policy_options *options)
{
    const char *text = lh_policy_parts_get(&options->parts, &part->row),
               *usual = lh_policy_parts_get(preset, &part->row);
    if (!usual) usual = part->def;
    if (!text && part->forced) text = part->forced(policy, usual);
    return text ? text : usual;
}

/* A part that is given, and keeps nothing of the end of the prompt that another part does not keep. Shares of a budget
 * that is a share itself are not known yet; where unused parts are listed, budgets are taken for large ones. */
static const struct {
    const char *option, *other;
    int (*is_covered)(const lh_policy *policy, int64_t budget);
} covers[] = {{"recents", "the window keeps", lh_window_covers_recents},
              {"window", "the recents keep", lh_recents_cover_window}};

/* As read_parts, for parts that are used and have no effect with their numbers. Ends the list of unused parts. */
static lh_status check_end(const lh_policy *policy, const lh_policy_options *options, int *unused)
{
    const int64_t large = INT64_C(1) << 40, budget = unused ? large : policy->budget.n;
    for (int i = 0; lh_part_at(i); i++) {
        const lh_part *part = lh_part_at(i);
        for (size_t c = 0; c < sizeof covers / sizeof *covers; c++) {
            const char *text = lh_policy_parts_get(&options->parts, &part->row);
            if (strcmp(covers[c].option, part->row.name) != 0 || !lh_part_is_used(part, policy)) continue;
            if (!text || !covers[c].is_covered(policy, budget)) continue;
            if (!unused)
                LH_FAIL(LH_EUSAGE, "policy '%s' as it is resolved would ignore '--%s %s': %s as much of the end",
                        policy->name, part->row.name, text, covers[c].other);
            *unused++ = i;
        }
    }
    if (unused) *unused = -1;
    return LH_OK;
}

/* Scores of a function take the place of a statistic. */
static void set_scorer(lh_policy *out, const lh_loaded_plugin *plugin, const lh_scorer *scorer)
{
    if (plugin) scorer = &plugin->scorer;
    if (!scorer) return;
    out->score.source = scorer->reads ? LH_METHOD_caller_rows : LH_METHOD_caller;
    out->score.scorer = *scorer;
    out->score.plugin = plugin;
    lh_policy_update_methods(out);
}

/* Reads every part. unused: where the numbers of parts go that are given and would be ignored, ends with -1; NULL: such
 * a part is an error. */
static lh_status read_parts(lh_policy *out, const lh_policy_preset *preset, const lh_policy_options *options,
                            int *unused)
{
    lh_part_value value;
    preset_parts usual;
    LH_TRY(read_preset(&usual, preset));
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s", preset->name);
    out->evicts = 1;
    out->by_default = options->policy                ? LH_DEFAULT_NONE
                      : first_given(&options->parts) ? LH_DEFAULT_WITH_PARTS
                                                     : LH_DEFAULT_AS_IT_IS;
    set_scorer(out, lh_plugin_of(preset), options->scorer);
    LH_TRY(lh_budget_read(out, options->budget));
    const lh_part *part;
    for (int i = 0; (part = lh_policy_part(out, i)); i++) {
        if (lh_part_is_used(part, out)) {
            const char *text = resolved_text(out, part, &usual.parts, options);
            LH_TRY(lh_part_read_file(part, options, &value, &text));
            LH_TRY(part->read(out, part, text));
            lh_policy_update_methods(out);
        } else if (lh_policy_parts_get(&options->parts, &part->row) && unused) {
            *unused++ = i;
        } else if (lh_policy_parts_get(&options->parts, &part->row)) {
            LH_FAIL(LH_EUSAGE, "policy '%s' as it is resolved would ignore '--%s': it needs %s", preset->name,
                    part->row.name, lh_part_needs_of(part).text);
        }
    }
    return unused ? check_end(out, options, unused) : LH_OK;
}

lh_status lh_parts_read(lh_policy *out, const lh_policy_preset *preset, const lh_policy_options *options)
{
    return read_parts(out, preset, options, NULL);
}

lh_status lh_parts_unused(const lh_policy_preset *preset, const lh_policy_options *options, int unused[LH_PARTS + 1])
{
    lh_policy policy;
    lh_policy_options with_budget = *options;
    if (!with_budget.budget) with_budget.budget = "1"; /* no part is used for the sake of a budget */
    return read_parts(&policy, preset, &with_budget, unused);
}

/* The preset of a policy with a scorer of the program. */
static const lh_policy_preset of_scorer = {.name = "caller", .parts = ""};

lh_status lh_policy_resolve_preset(lh_policy *out, const lh_policy_preset *preset, const lh_policy_options *options)
{
    lh_policy policy;
    memset(&policy, 0, sizeof policy);
    if (!preset->parts) {
        LH_TRY(resolve_full(&policy, options));
    } else {
        if (!options->budget)
            LH_FAIL(LH_EUSAGE, "policy '%s' needs a budget: give '--budget N' entries, or '--budget P%%' of the prompt",
                    options->policy ? options->policy : preset->name);
        LH_TRY(lh_parts_read(&policy, preset, options));
        LH_TRY(lh_parts_check(&policy));
    }
    memcpy(out, &policy, sizeof policy);
    return LH_OK;
}

static lh_status resolve_scorer(lh_policy *out, const lh_policy_options *options)
{
    if (options->policy)
        LH_FAIL(LH_EUSAGE, "a function scores the entries: leave out the policy '%s'", options->policy);
    if (!options->budget)
        LH_FAIL(LH_EUSAGE, "a policy needs a budget: give '--budget N' entries, or '--budget P%%' of the prompt");
    LH_TRY(lh_policy_resolve_preset(out, &of_scorer, options));
    out->by_default = LH_DEFAULT_NONE;
    return LH_OK;
}

/* The policy in words, with the options beside it. */
static lh_status resolve_words(lh_policy *out, const lh_policy_options *options)
{
    lh_status st = LH_OK;
    lh_policy_options own;
    char *words = NULL;
    LH_TRY_DONE(lh_policy_options_parse(&own, &words, options->policy, options->profiles));
    lh_policy_options_join(&own, options);
    LH_TRY_DONE(lh_policy_resolve_stored(out, &own));
done:
    lh_free(words);
    return st;
}

lh_status lh_policy_resolve_stored(lh_policy *out, const lh_policy_options *options)
{
    const lh_policy_preset *preset;
    const char *usual = options->asked == LH_ASKED_LATER ? lh_policy_to_ask_later : lh_policy_by_default;
    const char *name = options->policy ? options->policy : options->budget ? usual : "full";
    if (options->scorer) return resolve_scorer(out, options);
    if (strpbrk(name, " \t")) return resolve_words(out, options);
    LH_TRY(lh_policy_named(&preset, name, options->profiles != NULL));
    lh_status st = lh_policy_resolve_preset(out, preset, options);
    if (st != LH_OK && name == lh_policy_to_ask_later)
        return lh_fail_within(st, "with policy '%s', the default where questions come later ('--policy' names another)",
                              name);
    return st;
}

lh_status lh_policy_load_plugins(const lh_policy_options *options)
{
    const lh_loaded_plugin *plugin;
    for (int64_t i = 0; i < options->plugins.n; i++) LH_TRY(lh_plugin_open(&plugin, options->plugins.at[i]));
    return LH_OK;
}

lh_status lh_policy_resolve(lh_policy *out, const lh_policy_options *options)
{
    lh_policy policy;
    LH_TRY(lh_policy_load_plugins(options));
    LH_TRY(lh_policy_resolve_stored(&policy, options));
    LH_TRY(check_end(&policy, options, NULL));
    memcpy(out, &policy, sizeof policy);
    return LH_OK;
}

/* ---- text ---- */

static lh_status put_option(lh_buf *out, const lh_part *part, const char *text)
{
    if (part->row.type != LH_OPT_SWITCH) return lh_buf_printf(out, " --%s %s", part->row.name, text);
    return lh_buf_printf(out, " --%s%s", part->row.name, strcmp(text, "on") == 0 ? "" : "=off");
}

/* Each part is compared with its value by the preset and the parts before it: rows may follow from a window. */
lh_status lh_policy_text(const lh_policy *policy, lh_buf *out)
{
    const int is_called = lh_policy_has_scorer(policy) && !policy->score.plugin;
    const lh_policy_preset *preset = is_called ? &of_scorer : lh_policy_find(policy->name);
    const lh_part *part;
    lh_part_value budget, usual, values[LH_PARTS];
    lh_policy_options options = {
        .policy = policy->name, .budget = budget.text, .scorer = is_called ? &policy->score.scorer : NULL};
    LH_TRY(lh_buf_puts(out, policy->name));
    if (!policy->evicts) return LH_OK;
    lh_budget_write(policy, &budget);
    for (int i = 0; (part = lh_policy_part(policy, i)); i++) {
        lh_policy so_far;
        if (!lh_part_is_used(part, policy)) continue;
        part->write(policy, part, &values[i]);
        LH_TRY(lh_parts_read(&so_far, preset, &options));
        part->write(&so_far, part, &usual);
        if (strcmp(values[i].text, usual.text) == 0) continue;
        lh_policy_parts_set(&options.parts, &part->row, values[i].text);
        LH_TRY(put_option(out, part, values[i].text));
    }
    LH_TRY(lh_buf_printf(out, " --budget %s", budget.text));
    return LH_OK;
}
