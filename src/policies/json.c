/* json.c - writes a resolved policy as JSON for results and cache files, and reads it back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "policies/policy_impl.h"

static lh_status set_text(json_t *object, const char *key, const char *text)
{
    char *end;
    long long number = strtoll(text, &end, 10);
    /* integers as numbers; decimals stay as they were written */
    if (json_object_set_new(object, key, *end ? json_string(text) : json_integer(number)))
        LH_FAIL(LH_ENOMEM, "cannot allocate host memory for the policy as JSON");
    return LH_OK;
}

/* What a run without the function has to know of it, and the contents of the plug-in's file. */
static lh_status put_scorer(json_t *object, const lh_policy *policy)
{
    const lh_loaded_plugin *plugin = policy->score.plugin;
    int failed = json_object_set_new(object, "reads", json_integer(policy->score.scorer.reads));
    if (plugin)
        failed |= json_object_set_new(object, "plugin", json_sprintf("%016llx", (unsigned long long)plugin->hash));
    if (failed) LH_FAIL(LH_ENOMEM, "cannot allocate host memory for the policy as JSON");
    return LH_OK;
}

lh_status lh_policy_json(const lh_policy *policy, json_t **out)
{
    lh_status st = LH_OK;
    lh_part_value value;
    const lh_part *part;
    json_t *object = json_object();
    if (!object || json_object_set_new(object, "name", json_string(policy->name)))
        LH_FAIL_DONE(LH_ENOMEM, "cannot allocate host memory for the policy as JSON");
    if (policy->evicts) {
        lh_budget_write(policy, &value);
        LH_TRY_DONE(set_text(object, "budget", value.text));
    }
    if (lh_policy_has_scorer(policy)) LH_TRY_DONE(put_scorer(object, policy));
    if (policy->score.weights &&
        json_object_set_new(object, "score-weights",
                            json_sprintf("%016llx", (unsigned long long)policy->score.weights)))
        LH_FAIL_DONE(LH_ENOMEM, "cannot allocate host memory for the policy as JSON");
    for (int i = 0; policy->evicts && (part = lh_policy_part(policy, i)); i++) {
        if (lh_part_is_used(part, policy)) {
            part->write(policy, part, &value);
            LH_TRY_DONE(set_text(object, part->row.name, value.text));
        } else if (json_object_set_new(object, part->row.name, json_null())) {
            LH_FAIL_DONE(LH_ENOMEM, "cannot allocate host memory for the policy as JSON");
        }
    }
    *out = object;
    object = NULL;
done:
    json_decref(object);
    return st;
}

/* *out = a member as the text of an option, stored in `value`; NULL if it is absent or null. */
static lh_status get_text(const json_t *json, const char *key, const char *name, lh_part_value *value, const char **out)
{
    const json_t *member = json_object_get(json, key);
    *out = NULL;
    if (!member || json_is_null(member)) return LH_OK;
    if (json_is_integer(member))
        snprintf(value->text, sizeof value->text, "%lld", (long long)json_integer_value(member));
    else if (json_is_string(member) && json_string_length(member) < sizeof value->text)
        snprintf(value->text, sizeof value->text, "%s", json_string_value(member));
    else
        LH_FAIL(LH_EFILE, "'%s': '%s' of the policy must be an integer or a short text", name, key);
    *out = value->text;
    return LH_OK;
}

/* Files written before '--compat' existed have two options instead, at least one of them. */
static lh_status read_old_words(const json_t *json, const char *name, lh_policy_parts *parts)
{
    const char *shares = json_string_value(json_object_get(json, "shares-of")), *layers = parts->layer_budget;
    if (!json_object_get(json, "shares-of")) return LH_OK;
    int rounded = layers && strcmp(layers, "pyramid-rounded") == 0;
    int kvpress = rounded || (shares && strcmp(shares, "budget") == 0);
    int paper = (layers && strcmp(layers, "pyramid") == 0) || (shares && strcmp(shares, "competing") == 0);
    if (kvpress && paper)
        LH_FAIL(LH_EFILE,
                "'%s' holds a policy of an earlier version, '--shares-of %s' with '--layer-budget %s', that this one "
                "does not have",
                name, shares, layers);
    if (rounded) parts->layer_budget = "pyramid";
    if (kvpress || paper) lh_policy_parts_set(parts, &lh_part_find("compat")->row, kvpress ? "kvpress" : "none");
    return LH_OK;
}

/* The preset of the options, or where it is missing the scorer: of a function that is not loaded here. */
static void find_scorer(const json_t *json, lh_policy_options *options, lh_scorer *missing)
{
    const json_t *reads = json_object_get(json, "reads");
    if (!json_is_integer(reads) || lh_policy_find(options->policy)) return;
    *missing = (lh_scorer){.size = sizeof *missing, .reads = json_integer_value(reads)};
    options->scorer = missing;
    options->policy = NULL;
}

/* Warns where the file of the plug-in was another one. */
static void compare_plugin(const json_t *json, const lh_loaded_plugin *plugin, const char *name)
{
    char hash[24];
    const char *stored = json_string_value(json_object_get(json, "plugin"));
    if (!plugin || !stored) return;
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)plugin->hash);
    if (strcmp(stored, hash) != 0)
        lh_warn("'%s' was written with another build of the plug-in '%s' than '%s'", name, plugin->preset.name,
                plugin->path);
}

lh_status lh_policy_from_json(lh_policy *out, const json_t *json, const char *name)
{
    lh_policy_options options = {0};
    lh_part_value policy, budget, values[LH_PARTS];
    lh_scorer missing;
    const lh_part *part;
    if (!json_is_object(json)) LH_FAIL(LH_EFILE, "'%s': the policy must be a JSON object", name);
    LH_TRY(get_text(json, "name", name, &policy, &options.policy));
    if (!options.policy) LH_FAIL(LH_EFILE, "'%s': the policy has no name", name);
    LH_TRY(get_text(json, "budget", name, &budget, &options.budget));
    const lh_loaded_plugin *plugin = lh_plugin_find(policy.text);
    for (int i = 0; (part = lh_policy_part(&(lh_policy){.score.plugin = plugin}, i)); i++) {
        const char *text;
        LH_TRY(get_text(json, part->row.name, name, &values[i], &text));
        if (text) lh_policy_parts_set(&options.parts, &part->row, text);
    }
    LH_TRY(read_old_words(json, name, &options.parts));
    compare_plugin(json, plugin, name);
    find_scorer(json, &options, &missing);
    if (lh_policy_resolve_stored(out, &options) != LH_OK)
        LH_FAIL(LH_EFILE, "'%s' holds an invalid policy: %s", name, lh_error_message());
    if (out->budget_bytes) LH_FAIL(LH_EFILE, "'%s': the budget of a policy in a file is a number of entries", name);
    if (options.scorer) snprintf(out->name, sizeof out->name, "%s", policy.text);
    const char *weights = json_string_value(json_object_get(json, "score-weights"));
    if (weights) out->score.weights = strtoull(weights, NULL, 16);
    return LH_OK;
}
