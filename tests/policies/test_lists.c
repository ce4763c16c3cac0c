/* Laws of texts that name policies: the words of one, and lists of several with several budgets. */
#include <stdlib.h>
#include <string.h>

#include "policies/list.h"
#include "policies/words.h"
#include "policy_parts.h"
#include "suite.h"

static lh_policy_list resolve(const char *policy, const char *budget)
{
    lh_policy_list list = {0};
    lh_status st = lh_policy_list_resolve(&list, &(lh_policy_options){.policy = policy, .budget = budget});
    ck_assert_msg(st == LH_OK, "%s", lh_error_message());
    return list;
}

static void refused(const lh_policy_options *lists, const char *part)
{
    lh_policy_list list = {0};
    ck_assert_int_eq(lh_policy_list_resolve(&list, lists), LH_EUSAGE);
    ck_assert_msg(strstr(lh_error_message(), part) != NULL, "'%s' is not in '%s'", part, lh_error_message());
}

static void is(const lh_policy_list *list, int64_t i, const char *name, const char *budget)
{
    ck_assert_int_lt(i, list->n);
    ck_assert_str_eq(list->at[i].name, name);
    ck_assert_str_eq(list->at[i].budget, budget);
}

START_TEST(test_the_words_of_a_policy)
{
    lh_policy_options o;
    char *words = NULL;
    ck_assert_int_eq(lh_policy_options_parse(&o, &words, "  ada-snapkv --pool-size 31  --gain --budget=20% ", NULL),
                     LH_OK);
    ck_assert_str_eq(o.policy, "ada-snapkv");
    ck_assert_str_eq(o.budget, "20%");
    ck_assert_str_eq(o.parts.pool_size, "31");
    ck_assert_str_eq(part_text(&o.parts, "gain"), "on");
    ck_assert_ptr_null(o.parts.window);
    lh_free(words);
    ck_assert_int_eq(lh_policy_options_parse(&o, &words, "--budget 64", NULL), LH_OK);
    ck_assert_ptr_null(o.policy);
    lh_free(words);
    words = NULL;
    static const struct {
        const char *text, *part;
    } bad[] = {{"", "empty"},
               {"   ", "empty"},
               {"snapkv --pol max", "policy 'snapkv --pol max': unknown option '--pol', did you mean '--pool'?"},
               {"snapkv --window", "needs a value"},
               {"snapkv h2o", "h2o"},
               {"snapkv --policy h2o", "unknown option '--policy'"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_int_eq(lh_policy_options_parse(&o, &words, bad[i].text, NULL), LH_EUSAGE);
        ck_assert_msg(strstr(lh_error_message(), bad[i].part) != NULL, "%s", lh_error_message());
        ck_assert_ptr_null(words);
    }
}
END_TEST

/* What a plan says of itself can be read again: the parser and lh_policy_text are each other's inverse. */
START_TEST(test_the_text_of_every_preset_is_read_back)
{
    for (int i = 0; lh_policy_at(i); i++) {
        lh_policy_options o = {.policy = lh_policy_at(i)->name};
        if (lh_policy_at(i)->parts) o.budget = "37.5%";
        if (lh_policy_at(i)->parts) o.parts.sinks = "3";
        lh_policy a, b;
        lh_buf text = {0};
        char *words = NULL;
        ck_assert_int_eq(lh_policy_resolve(&a, &o), LH_OK);
        ck_assert_int_eq(lh_policy_text(&a, &text), LH_OK);
        ck_assert_int_eq(lh_policy_options_parse(&o, &words, text.data, NULL), LH_OK);
        ck_assert_int_eq(lh_policy_resolve(&b, &o), LH_OK);
        ck_assert_msg(memcmp(&a, &b, sizeof a) == 0, "%s", text.data);
        lh_free(words);
        lh_buf_clear(&text);
    }
}
END_TEST

START_TEST(test_policies_times_budgets_behind_the_full_cache)
{
    lh_policy_list list = resolve("snapkv, h2o,ada-snapkv --pool-size 31", "128,50%");
    ck_assert_int_eq(list.n, 7);
    is(&list, 0, "full", "");
    is(&list, 1, "snapkv", "128");
    is(&list, 2, "snapkv", "50%");
    is(&list, 3, "h2o", "128");
    is(&list, 5, "ada-snapkv --pool-size 31", "128");
    ck_assert_int_eq(list.at[5].policy.shape.pool_size, 31);
    ck_assert_int_eq(list.at[0].policy.evicts, 0);
    lh_policy_list_clear(&list);
}
END_TEST

START_TEST(test_an_item_may_bring_its_budget_and_hide_commas)
{
    lh_policy_list list = resolve("full,'snapkv --evict block:8,every:4',\"h2o --budget 9\" ,tova", "16,32");
    ck_assert_int_eq(list.n, 6);
    is(&list, 1, "snapkv --evict block:8,every:4", "16");
    is(&list, 3, "h2o", "9");
    is(&list, 5, "tova", "32");
    lh_policy_list_clear(&list);
}
END_TEST

START_TEST(test_what_is_named_twice_is_there_once)
{
    lh_policy_list list = resolve("snapkv,full,snapkv --pool-size 7,snapkv --pool max,snapkv --budget 16", "16,16");
    ck_assert_int_eq(list.n, 2);
    lh_policy_list_clear(&list);
    list = resolve(NULL, NULL);
    ck_assert_int_eq(list.n, 1);
    lh_policy_list_clear(&list);
}
END_TEST

START_TEST(test_all_are_the_presets_that_are_not_for_comparison)
{
    int64_t expected = 1;
    lh_policy_list list = resolve("all", "10%");
    for (int i = 0; lh_policy_at(i); i++) {
        const lh_policy_preset *p = lh_policy_at(i);
        const int needs_weights = strcmp(p->name, "learnt") == 0 || strcmp(p->name, "remember") == 0; /* of a model */
        if (p->kind == LH_POLICY_COMPATIBLE || !p->parts || needs_weights) continue;
        is(&list, expected++, p->name, "10%");
    }
    ck_assert_int_eq(list.n, expected);
    lh_policy_list_clear(&list);
}
END_TEST

START_TEST(test_a_budget_alone_is_the_default_policy)
{
    lh_policy_list list = resolve(NULL, "64,20%");
    lh_policy plan;
    ck_assert_int_eq(lh_policy_resolve(&plan, &(lh_policy_options){.budget = "64"}), LH_OK);
    ck_assert_int_eq(list.n, 3);
    ck_assert_str_eq(list.at[1].policy.name, plan.name);
    ck_assert_int_eq(list.at[1].policy.shape.pool_size, plan.shape.pool_size);
    lh_policy_list_clear(&list);
}
END_TEST

/* With learnt scores of the model a default becomes another policy, and one that is named stays. */
START_TEST(test_defaults_are_what_the_model_can_have)
{
    static const struct {
        const char *policies, *expected[3];
    } cases[] = {{NULL, {"full", "learnt"}},
                 {"'--row-share 0.3',ask-later", {"full", "ask-later"}}, /* the part is one of ask-later */
                 {"'--evict never',learnt", {"full", "ask-later", "learnt"}},
                 {"ask-later,learnt", {"full", "ask-later", "learnt"}}};
    const lh_cache_size cache = {.layers = 2, .kv_heads = 2, .entry_bytes = 64, .score_weights = 7};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        lh_policy_list list;
        int64_t n = 0;
        ck_assert_int_eq(
            lh_policy_list_resolve(
                &list, &(lh_policy_options){.policy = cases[c].policies, .budget = "10%", .asked = LH_ASKED_LATER}),
            LH_OK);
        ck_assert_int_eq(lh_policy_list_size(&list, &cache), LH_OK);
        while (n < 3 && cases[c].expected[n]) {
            ck_assert_str_eq(list.at[n].name, cases[c].expected[n]);
            n++;
        }
        ck_assert_int_eq(list.n, n);
        lh_policy_list_clear(&list);
    }
}
END_TEST

START_TEST(test_shared_parts_hold_for_all_and_own_words_come_first)
{
    lh_policy_list list = {0};
    ck_assert_int_eq(lh_policy_list_resolve(&list, &(lh_policy_options){.policy = "full,snapkv,ada-snapkv --window 8",
                                                                        .budget = "64",
                                                                        .parts = {.window = "16"}}),
                     LH_OK);
    ck_assert_int_eq(list.n, 3);
    is(&list, 1, "snapkv --window 16", "64");
    is(&list, 2, "ada-snapkv --window 8", "64");
    lh_policy_list_clear(&list);
}
END_TEST

/* A part that some presets would ignore holds for the others; nothing else changes. */
START_TEST(test_all_leaves_out_what_a_preset_ignores)
{
    lh_policy_list plain = resolve("all", "10%"), pooled;
    int with = 0, without = 0;
    ck_assert_int_eq(
        lh_policy_list_resolve(
            &pooled, &(lh_policy_options){.policy = "all --pool-size 5", .budget = "10%", .parts = {.pool = "avg"}}),
        LH_OK);
    ck_assert_int_eq(pooled.n, plain.n);
    for (int64_t i = 0; i < plain.n; i++) {
        const lh_policy *p = &pooled.at[i].policy;
        ck_assert_str_eq(p->name, plain.at[i].policy.name);
        if (p->shape.pool_size == 5)
            with++;
        else
            without += memcmp(p, &plain.at[i].policy, sizeof *p) == 0;
    }
    ck_assert(with > 3 && without > 2);
    ck_assert_int_eq(with + without, plain.n);
    lh_policy_list_clear(&plain);
    lh_policy_list_clear(&pooled);
}
END_TEST

START_TEST(test_what_cannot_be_names_the_item)
{
    refused(&(lh_policy_options){.policy = "snapkv,snapkw", .budget = "8"}, "policy 'snapkw' is unknown");
    refused(&(lh_policy_options){.policy = "snapkv,,h2o", .budget = "8"}, "empty item");
    refused(&(lh_policy_options){.policy = "snapkv,", .budget = "8"}, "empty item");
    refused(&(lh_policy_options){.policy = "snapkv", .budget = "8,"}, "'--budget' has an empty item");
    refused(&(lh_policy_options){.policy = "snapkv,h2o"}, "'snapkv': policy 'snapkv' needs a budget");
    refused(&(lh_policy_options){.policy = "'snapkv", .budget = "8"}, "no closing '");
    refused(&(lh_policy_options){.policy = "'snapkv' h2o", .budget = "8"}, "a comma before 'h2o'");
    refused(&(lh_policy_options){.policy = "snapkv,recency", .budget = "8", .parts = {.pool = "max"}},
            "'recency': policy 'recency' as it is resolved would ignore '--pool'");
    refused(&(lh_policy_options){.policy = "all", .budget = "8", .parts = {.pool = "maxx"}}, "'all': '");
    refused(&(lh_policy_options){.policy = "all", .budget = "8", .parts = {.evict = "every:4"}},
            "'all': 'ask-later': ");
    refused(&(lh_policy_options){.policy = "full --window 3,snapkv", .budget = "8"}, "'full --window 3'");
    refused(&(lh_policy_options){.policy = "snapkv", .budget = "8,x"}, "x");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_the_words_of_a_policy,
                                  test_the_text_of_every_preset_is_read_back,
                                  test_policies_times_budgets_behind_the_full_cache,
                                  test_an_item_may_bring_its_budget_and_hide_commas,
                                  test_what_is_named_twice_is_there_once,
                                  test_all_are_the_presets_that_are_not_for_comparison,
                                  test_all_leaves_out_what_a_preset_ignores,
                                  test_a_budget_alone_is_the_default_policy,
                                  test_defaults_are_what_the_model_can_have,
                                  test_shared_parts_hold_for_all_and_own_words_come_first,
                                  test_what_cannot_be_names_the_item,
                                  NULL};
    return suite_run("policy lists", tests);
}
