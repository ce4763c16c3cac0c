#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policies/policy_impl.h"

enum { MOST_PRESETS = 128 };

static lh_status fail_unknown(const char *name)
{
    lh_status st = LH_OK;
    const char *names[MOST_PRESETS + 1] = {NULL};
    int number;
    for (int i = 0; i < MOST_PRESETS && lh_policy_at(i); i++) names[i] = lh_policy_at(i)->name;
    LH_TRY(lh_word_read(&number, "--policy", names, name));
done:
    return st;
}

static const char *first_given(const lh_policy_parts *parts)
{
    for (int i = 0; lh_part_at(i); i++)
        if (lh_part_text(lh_part_at(i), parts)) return lh_part_at(i)->option;
    return NULL;
}

static lh_status resolve_full(lh_policy_plan *out, const lh_policy_options *options)
{
    lh_status st = LH_OK;
    const char *part = first_given(&options->parts);
    if (part && options->policy)
        LH_FAIL(LH_EUSAGE, "policy '%s' evicts nothing and would ignore '--%s'", options->policy, part);
    if (part) LH_FAIL(LH_EUSAGE, "'--%s' needs a budget: give '--budget N', or '--budget P%%' of the prompt", part);
    if (options->budget) LH_FAIL(LH_EUSAGE, "policy '%s' evicts nothing and would ignore '--budget'", options->policy);
    snprintf(out->name, sizeof out->name, "full");
done:
    return st;
}

/* The text of a part: the option, else what the default policy changes, else the preset, else the default. */
static const char *resolved_text(const lh_part *part, const lh_policy *preset, const lh_policy_options *options)
{
    const char *text = lh_part_text(part, &options->parts);
    if (!text && !options->policy) text = lh_part_text(part, &lh_policy_by_default.parts);
    if (!text) text = lh_part_text(part, &preset->parts);
    return text ? text : lh_part_text(part, &lh_policy_defaults);
}

lh_status lh_policy_resolve(lh_policy_plan *out, const lh_policy_options *options)
{
    lh_status st = LH_OK;
    lh_policy_plan plan;
    memset(&plan, 0, sizeof plan);
    const char *name = options->policy ? options->policy : options->budget ? lh_policy_by_default.name : "full";
    const lh_policy *preset = lh_policy_find(name);
    if (!preset) LH_TRY(fail_unknown(name));
    if (!preset->parts.statistic) {
        LH_TRY(resolve_full(&plan, options));
        goto keep;
    }
    if (!options->budget)
        LH_FAIL(LH_EUSAGE, "policy '%s' needs a budget: give '--budget N' entries, or '--budget P%%' of the prompt",
                name);
    snprintf(plan.name, sizeof plan.name, "%s", name);
    plan.evicts = 1;
    plan.by_default = !options->policy;
    LH_TRY(lh_budget_read(&plan, options->budget));
    for (int i = 0; lh_part_at(i); i++) {
        const lh_part *part = lh_part_at(i);
        if (part->used(&plan))
            LH_TRY(part->read(&plan, part, resolved_text(part, preset, options)));
        else if (lh_part_text(part, &options->parts))
            LH_FAIL(LH_EUSAGE, "policy '%s' as it is resolved would ignore '--%s': it needs %s", name, part->option,
                    part->needs);
    }
keep:
    memcpy(out, &plan, sizeof plan);
done:
    return st;
}

/* ---- text ---- */

lh_status lh_policy_text(const lh_policy_plan *plan, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_policy_plan plain;
    lh_part_value value, usual;
    LH_TRY(lh_buf_puts(out, plan->name));
    if (!plan->evicts) goto done;
    lh_budget_write(plan, &value);
    LH_TRY(lh_policy_resolve(&plain, &(lh_policy_options){.policy = plan->name, .budget = value.text}));
    for (int i = 0; lh_part_at(i); i++) {
        const lh_part *part = lh_part_at(i);
        if (!part->used(plan)) continue;
        part->write(plan, part, &value);
        if (part->used(&plain)) part->write(&plain, part, &usual);
        if (part->used(&plain) && strcmp(value.text, usual.text) == 0) continue;
        if (strcmp(part->option, "rows") == 0 && !plan->rows_is_share && plan->rows == plan->window) continue;
        LH_TRY(lh_buf_printf(out, " --%s %s", part->option, value.text));
    }
    lh_budget_write(plan, &value);
    LH_TRY(lh_buf_printf(out, " --budget %s", value.text));
done:
    return st;
}

lh_status lh_policy_warnings(const lh_policy_plan *plan, int64_t seen, lh_buf *out)
{
    lh_status st = LH_OK;
    int64_t entries = lh_policy_entries(plan, seen);
    if (!plan->evicts || seen <= 0) goto done;
    if (entries >= seen) {
        LH_TRY(lh_buf_printf(out,
                             "the budget of %lld entries holds the whole prompt of %lld tokens: nothing is evicted\n",
                             (long long)entries, (long long)seen));
        goto done;
    }
    lh_protection p = lh_policy_protect(plan, &(lh_protect_request){.budget = entries, .seen = seen});
    if (p.base > 0 || plan->source == LH_SCORE_POSITION) goto done;
    const char *option = plan->window >= plan->recents ? "window" : "recents";
    int64_t value = plan->window >= plan->recents ? plan->window : plan->recents;
    if (p.sinks == p.budget) option = "sinks", value = plan->sinks;
    LH_TRY(lh_buf_printf(out,
                         "%s %lld leaves nothing of the budget of %lld entries to compete for: nothing is scored, %lld "
                         "sinks and the last %lld entries are kept; give a larger '--budget' or a smaller '--%s'\n",
                         option, (long long)value, (long long)entries, (long long)p.sinks, (long long)p.recents,
                         option));
done:
    return st;
}

/* ---- JSON ---- */

static lh_status set_text(json_t *object, const char *key, const char *text)
{
    lh_status st = LH_OK;
    char *end;
    long long number = strtoll(text, &end, 10);
    /* whole numbers as numbers; decimals stay as they were written */
    if (json_object_set_new(object, key, *end ? json_string(text) : json_integer(number)))
        LH_FAIL(LH_ENOMEM, "cannot allocate host memory for the policy as JSON");
done:
    return st;
}

lh_status lh_policy_json(const lh_policy_plan *plan, json_t **out)
{
    lh_status st = LH_OK;
    lh_part_value value;
    json_t *object = json_object();
    if (!object || json_object_set_new(object, "name", json_string(plan->name)))
        LH_FAIL(LH_ENOMEM, "cannot allocate host memory for the policy as JSON");
    if (plan->evicts) {
        lh_budget_write(plan, &value);
        LH_TRY(set_text(object, "budget", value.text));
    }
    for (int i = 0; plan->evicts && lh_part_at(i); i++) {
        const lh_part *part = lh_part_at(i);
        if (part->used(plan)) {
            part->write(plan, part, &value);
            LH_TRY(set_text(object, part->option, value.text));
        } else if (json_object_set_new(object, part->option, json_null())) {
            LH_FAIL(LH_ENOMEM, "cannot allocate host memory for the policy as JSON");
        }
    }
    *out = object;
    object = NULL;
done:
    json_decref(object);
    return st;
}

/* A member as option text in `value`: its text, or NULL where it is absent or null. */
static lh_status get_text(const json_t *json, const char *key, const char *name, lh_part_value *value, const char **out)
{
    lh_status st = LH_OK;
    const json_t *member = json_object_get(json, key);
    *out = NULL;
    if (!member || json_is_null(member)) goto done;
    if (json_is_integer(member))
        snprintf(value->text, sizeof value->text, "%lld", (long long)json_integer_value(member));
    else if (json_is_string(member) && json_string_length(member) < sizeof value->text)
        snprintf(value->text, sizeof value->text, "%s", json_string_value(member));
    else
        LH_FAIL(LH_EFILE, "'%s': '%s' of the policy must be a whole number or a short text", name, key);
    *out = value->text;
done:
    return st;
}

lh_status lh_policy_from_json(lh_policy_plan *out, const json_t *json, const char *name)
{
    lh_status st = LH_OK;
    lh_policy_options options = {0};
    lh_part_value policy, budget, values[sizeof(lh_policy_parts) / sizeof(char *)];
    if (!json_is_object(json)) LH_FAIL(LH_EFILE, "'%s': the policy must be a JSON object", name);
    LH_TRY(get_text(json, "name", name, &policy, &options.policy));
    if (!options.policy) LH_FAIL(LH_EFILE, "'%s': the policy has no name", name);
    LH_TRY(get_text(json, "budget", name, &budget, &options.budget));
    for (int i = 0; lh_part_at(i); i++) {
        const char *text;
        LH_TRY(get_text(json, lh_part_at(i)->option, name, &values[i], &text));
        memcpy((char *)&options.parts + lh_part_at(i)->text_at, &text, sizeof text);
    }
    if (lh_policy_resolve(out, &options) != LH_OK)
        LH_FAIL(LH_EFILE, "'%s' holds a policy that is none here: %s", name, lh_error_message());
done:
    return st;
}
