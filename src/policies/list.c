/* list.c - lists of policies and budgets: splits them at commas, resolves every combination, and drops duplicates. */
#include "policies/list.h"

#include <string.h>

#include "base/log.h"
#include "policies/policy_impl.h"
#include "policies/words.h"

/* Copies the next item of a list, at *at, to new memory; advances *at past it and its comma, to NULL after the last. */
static lh_status next_item(const char **at, const char *what, char **item)
{
    const char *from = *at + strspn(*at, " "), *until;
    if (*from == '"' || *from == '\'') {
        until = strchr(from + 1, *from);
        if (!until) LH_FAIL(LH_EUSAGE, "'--%s %s' has no closing %c", what, from, *from);
        LH_TRY(lh_strndup(item, from + 1, until - from - 1));
        until++;
        until += strspn(until, " ");
        if (*until && *until != ',') LH_FAIL(LH_EUSAGE, "'--%s' needs a comma before '%s'", what, until);
    } else {
        until = from + strcspn(from, ",");
        LH_TRY(lh_strndup(item, from, until - from));
    }
    if (!(*item)[strspn(*item, " ")]) LH_FAIL(LH_EUSAGE, "'--%s' has an empty item in its list", what);
    *at = *until ? until + 1 : NULL;
    return LH_OK;
}

static void clear_choice(lh_policy_choice *choice)
{
    lh_free(choice->name);
    lh_free(choice->budget);
    lh_free(choice->given);
}

/* True if the list has an equal policy. Defaults may become others (lh_policy_size) until they are sized. */
static int is_known(const lh_policy_list *list, const lh_policy_choice *choice, int sized)
{
    for (int64_t i = 0; i < list->n; i++) {
        const lh_policy *known = &list->at[i].policy;
        const int may_differ = !sized && known->by_default != choice->policy.by_default;
        if (!list->at[i].given && !may_differ && lh_policy_same(known, &choice->policy)) return 1;
    }
    return 0;
}

/* The policy in words, and its budget, take the place of earlier ones. */
static lh_status put_words(lh_policy_choice *choice)
{
    lh_status st = LH_OK;
    const lh_policy *policy = &choice->policy;
    lh_buf text = {0};
    lh_part_value budget = {""};
    lh_free(choice->name);
    lh_free(choice->budget);
    choice->name = choice->budget = NULL;
    if (policy->evicts) lh_budget_write(policy, &budget);
    LH_TRY_DONE(lh_policy_text(policy, &text));
    int64_t tail = policy->evicts ? (int64_t)strlen(" --budget ") + (int64_t)strlen(budget.text) : 0;
    LH_TRY_DONE(lh_strndup(&choice->name, text.data, text.bytes - tail));
    LH_TRY_DONE(lh_strdup(&choice->budget, budget.text));
done:
    lh_buf_clear(&text);
    return st;
}

/* Appends a policy unless the list has an equal one. */
static lh_status add_policy(lh_policy_list *list, const lh_policy *policy)
{
    lh_status st = LH_OK;
    lh_policy_choice choice = {.policy = *policy};
    if (is_known(list, &choice, 0)) return LH_OK;
    LH_TRY_DONE(put_words(&choice));
    if (list->n == list->cap) {
        LH_TRY_DONE(lh_realloc(&list->at, 2 * list->cap + 8, sizeof *list->at));
        list->cap = 2 * list->cap + 8;
    }
    list->at[list->n++] = choice;
    choice = (lh_policy_choice){0};
done:
    clear_choice(&choice);
    return st;
}

/* One policy with each of the budgets. */
static lh_status add_budgets(lh_policy_list *list, const lh_policy_options *options, const char *budgets)
{
    lh_status st = LH_OK;
    const lh_policy_preset *preset = options->policy ? lh_policy_find(options->policy) : NULL;
    lh_policy_options one = *options;
    lh_policy policy;
    char *item = NULL;
    if (one.budget || !budgets || (preset && !preset->parts)) {
        LH_TRY_DONE(lh_policy_resolve(&policy, &one));
        LH_TRY_DONE(add_policy(list, &policy));
        goto done;
    }
    while (budgets) {
        lh_free(item);
        item = NULL;
        LH_TRY_DONE(next_item(&budgets, "budget", &item));
        one.budget = item;
        LH_TRY_DONE(lh_policy_resolve(&policy, &one));
        LH_TRY_DONE(add_policy(list, &policy));
    }
done:
    lh_free(item);
    return st;
}

/* The policy with each of the budgets; without a name the defaults. */
static lh_status add_policies(lh_policy_list *list, const lh_policy_options *options, const char *budgets)
{
    static const lh_policy_asked each[] = {LH_ASKED_IN_PROMPT, LH_ASKED_LATER};
    lh_policy_options one = *options;
    if (options->policy || options->asked != LH_ASKED_BOTH) return add_budgets(list, options, budgets);
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        one.asked = each[i];
        LH_TRY(add_budgets(list, &one, budgets));
    }
    return LH_OK;
}

/* Which presets would ignore which parts that were given. */
typedef struct ignored {
    lh_buf presets[LH_PARTS]; /* names */
    int used[LH_PARTS];       /* 1: some preset uses it */
} ignored;

/* Drops the options that the preset would ignore. */
static lh_status drop_unused(lh_policy_options *options, const lh_policy_preset *preset, ignored *all)
{
    int unused[LH_PARTS + 1];
    LH_TRY(lh_parts_unused(preset, options, unused));
    for (const int *i = unused; *i >= 0; i++) {
        lh_policy_parts_set(&options->parts, &lh_part_at(*i)->row, NULL);
        LH_TRY(lh_buf_printf(&all->presets[*i], "%s%s", all->presets[*i].bytes ? ", " : "", preset->name));
    }
    for (int i = 0; lh_part_at(i); i++)
        all->used[i] |= lh_policy_parts_get(&options->parts, &lh_part_at(i)->row) != NULL;
    return LH_OK;
}

/* LH_EUSAGE for a part that no preset uses; a warning with all parts that some would ignore. */
static lh_status report_ignored(const ignored *all)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    for (int i = 0; lh_part_at(i); i++) {
        if (!all->presets[i].bytes) continue;
        if (!all->used[i])
            LH_FAIL_DONE(LH_EUSAGE, "every policy would ignore '--%s': it needs %s", lh_part_at(i)->row.name,
                         lh_part_needs_of(lh_part_at(i)).text);
        LH_TRY_DONE(lh_buf_printf(&text, "%s'--%s' has no effect on %s", text.bytes ? "; " : "",
                                  lh_part_at(i)->row.name, all->presets[i].data));
    }
    if (text.bytes) lh_warn("--policy all: %s", text.data);
done:
    lh_buf_clear(&text);
    return st;
}

/* 1: not for every model (model/score_weights.h). */
static int needs_score_weights(const lh_policy_preset *preset)
{
    lh_policy policy;
    const lh_policy_options options = {.policy = preset->name, .budget = "50%"};
    return lh_parts_read(&policy, preset, &options) == LH_OK && lh_policy_has(&policy, LH_NEEDS_SCORE_WEIGHTS);
}

static lh_status add_all(lh_policy_list *list, const lh_policy_options *options, const char *budgets)
{
    lh_status st = LH_OK;
    ignored all = {0};
    for (int i = 0; lh_policy_at(i); i++) {
        const lh_policy_preset *preset = lh_policy_at(i);
        lh_policy_options one = *options;
        if (preset->kind == LH_POLICY_COMPATIBLE || !preset->parts || needs_score_weights(preset)) continue;
        one.policy = preset->name;
        st = drop_unused(&one, preset, &all);
        if (st == LH_OK) st = add_budgets(list, &one, budgets);
        if (st != LH_OK) LH_TRY_DONE(lh_fail_within(st, "'%s'", preset->name));
    }
    LH_TRY_DONE(report_ignored(&all));
done:
    for (int i = 0; i < LH_PARTS; i++) lh_buf_clear(&all.presets[i]);
    return st;
}

/* One item of the list. */
static lh_status add_item(lh_policy_list *list, const char *item, const lh_policy_options *lists)
{
    lh_status st = LH_OK;
    lh_policy_options options;
    char *words = NULL;
    LH_TRY_DONE(lh_policy_options_parse(&options, &words, item, &list->profiles));
    options.asked = lists->asked;
    const lh_policy_preset *preset = options.policy ? lh_policy_find(options.policy) : NULL;
    if (preset && !preset->parts) { /* `full` takes neither budgets nor shared parts */
        st = lh_policy_resolve(&(lh_policy){0}, &options);
    } else {
        lh_policy_parts_join(&options.parts, &lists->parts);
        if (options.policy && strcmp(options.policy, "all") == 0)
            st = add_all(list, &options, lists->budget);
        else
            st = add_policies(list, &options, lists->budget);
    }
    if (st != LH_OK) LH_TRY_DONE(lh_fail_within(st, "'%s'", item));
done:
    lh_free(words);
    return st;
}

lh_status lh_policy_list_resolve(lh_policy_list *out, const lh_policy_options *lists)
{
    lh_status st = LH_OK;
    lh_policy_list list = {0};
    lh_policy full;
    char *item = NULL;
    LH_TRY_DONE(lh_policy_load_plugins(lists));
    LH_TRY_DONE(lh_policy_resolve(&full, &(lh_policy_options){.policy = "full"}));
    LH_TRY_DONE(add_policy(&list, &full));
    if (!lists->policy)
        LH_TRY_DONE(add_policies(
            &list, &(lh_policy_options){.parts = lists->parts, .profiles = &list.profiles, .asked = lists->asked},
            lists->budget));
    for (const char *at = lists->policy; at;) {
        lh_free(item);
        item = NULL;
        LH_TRY_DONE(next_item(&at, "policy", &item));
        LH_TRY_DONE(add_item(&list, item, lists));
    }
    *out = list;
    list = (lh_policy_list){0};
done:
    lh_free(item);
    lh_policy_list_clear(&list);
    return st;
}

static void drop_equal(lh_policy_list *list)
{
    const int64_t n = list->n;
    list->n = 0;
    for (int64_t i = 0; i < n; i++) {
        lh_policy_choice choice = list->at[i];
        if (!choice.given && is_known(list, &choice, 1))
            clear_choice(&choice);
        else
            list->at[list->n++] = choice;
    }
}

lh_status lh_policy_list_size(lh_policy_list *list, const lh_cache_size *cache)
{
    int changed = 0;
    for (int64_t i = 0; i < list->n; i++) {
        lh_policy_choice *c = &list->at[i];
        const lh_policy before = c->policy;
        LH_TRY(lh_policy_size(&c->policy, cache));
        changed |= before.by_default || before.budget_bytes;
        if (before.budget_bytes || strcmp(before.name, c->policy.name) != 0) LH_TRY(put_words(c));
    }
    if (changed) drop_equal(list);
    return LH_OK;
}

void lh_policy_list_clear(lh_policy_list *list)
{
    for (int64_t i = 0; i < list->n; i++) clear_choice(&list->at[i]);
    lh_free(list->at);
    lh_profiles_clear(&list->profiles);
    *list = (lh_policy_list){0};
}
