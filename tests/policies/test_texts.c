/* Laws of texts: whatever can be resolved can be written, in words of the command line and as JSON, and both give it
 * back byte by byte. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "policies/budgets.h"
#include "policy_parts.h"
#include "suite.h"

enum { MOST_VALUES = 16, PRESETS = 40 };

/* Every part with some of its values. */
static const struct {
    const char *option;
    const char *values[MOST_VALUES];
} parts[] = {
#define VALUES(name, ...) \
    {                     \
        name,             \
        {                 \
            __VA_ARGS__   \
        }                 \
    }
    VALUES("statistic", "sum", "mean", "mas", "count", "rms", "max", "output-error", "last", "position", "random",
           "key-norm", "key-difference", "lag", "leverage", "expected"),
    VALUES("lag", "1", "128", "4096"),
    VALUES("proxies", "none", "question", "1%", "2.50%", "100%"),
    VALUES("proxies-at", "end", "both-ends"),
    VALUES("window", "0", "1", "32", "64"),
    VALUES("head-budget", "uniform", "adaptive", "profile:0123456789abcdef"),
    VALUES("compete-by", "scores", "losses"),
    VALUES("fit", "none", "bias", "values", "both"),
    VALUES("ridge", "0", "0.1", "1"),
    VALUES("refit", "none", "bias", "values", "both"),
    VALUES("rows-at", "own", "after", "repeat", "repeat:8", "repeat:512", "text:0123456789abcdef"),
    VALUES("rows", "all", "last:1", "last:32", "last:64", "5%", "0.125%", "sample:1", "sample:512"),
    VALUES("gain", "on", "off"),
    VALUES("gain-floor", "on", "off"),
    VALUES("non-causal", "on", "off"),
    VALUES("value-prior", "on", "off"),
    VALUES("mean-floor", "on", "off"),
    VALUES("value-norms", "on", "off"),
    VALUES("group", "mean", "max", "sum"),
    VALUES("pool", "none", "max", "avg"),
    VALUES("pool-size", "1", "7", "31"),
    VALUES("group-stage", "weight", "score"),
    VALUES("sinks", "0", "4", "256", "10%"),
    VALUES("recents", "0", "32", "50%", "33.3%"),
    VALUES("values", "0", "8", "25%", "12.5%"),
    VALUES("alpha", "0", "0.5", ".20", "1"),
    VALUES("safeguard", "interp", "floor"),
    VALUES("layer-budget", "uniform", "pyramid", "adaptive", "profile:fedcba9876543210"),
    VALUES("beta", "1", "20", "1000"),
    VALUES("select", "topk", "two-stage", "std-scope", "topk+sample", "topk+keys"),
    VALUES("first-stage", "0", "0.5", "0.123456789012345678"),
    VALUES("std-share", "0.3", "1"),
    VALUES("random-share", "0", "7/19", "0.25", "1/3", "1", "0.000000000000000001"),
    VALUES("draw", "softmax", "score"),
    VALUES("key-share", "0", "0.5", "1"),
    VALUES("row-share", "0", "0.5", "1"),
    VALUES("compat", "none", "kvpress"),
    VALUES("set-per", "head", "layer"),
    VALUES("evict", "never", "every", "every:1", "every:32", "block:8", "block:8,every", "block:9,every:5"),
    VALUES("positions", "original", "slot"),
};
enum { PARTS = sizeof parts / sizeof *parts };

static void say(lh_policy_parts *to, int part, const char *text)
{
    part_set(to, parts[part].option, text);
}

/* What a command line that says `text` makes of it. text is cut into words. */
static lh_policy_options options_of(char *text)
{
    lh_policy_options o = {.policy = strtok(text, " ")};
    for (char *word; (word = strtok(NULL, " "));) {
        ck_assert_msg(strncmp(word, "--", 2) == 0, "'%s' is no option", word);
        char *value = strchr(word, '=');
        if (value) *value++ = '\0';
        if (strcmp(word, "--budget") == 0) {
            o.budget = strtok(NULL, " ");
            continue;
        }
        const lh_part *part = lh_part_find(word + 2);
        ck_assert_msg(part, "'%s' is no part", word);
        if (!value) value = part->row.type == LH_OPT_SWITCH ? "on" : strtok(NULL, " ");
        part_set(&o.parts, word + 2, value);
    }
    return o;
}

static void check_texts(const lh_policy *plan)
{
    lh_policy back, unnamed;
    json_t *json = NULL;
    lh_buf text = {0}, again = {0}, words = {0};
    memcpy(&unnamed, plan, sizeof unnamed);
    unnamed.by_default = 0; /* texts name the policy */
    ck_assert_int_eq(lh_policy_text(plan, &text), LH_OK);
    ck_assert_int_eq(lh_buf_puts(&words, text.data), LH_OK);
    lh_policy_options o = options_of(words.data);
    ck_assert_msg(lh_policy_resolve(&back, &o) == LH_OK, "'%s': %s", text.data, lh_error_message());
    ck_assert_msg(memcmp(&unnamed, &back, sizeof back) == 0, "'%s' is another policy", text.data);
    ck_assert_int_eq(lh_policy_text(&back, &again), LH_OK);
    ck_assert_str_eq(text.data, again.data);
    ck_assert_int_eq(lh_policy_json(plan, &json), LH_OK);
    char *dump = json_dumps(json, 0);
    json_decref(json);
    json = json_loads(dump, 0, NULL);
    ck_assert_msg(lh_policy_from_json(&back, json, "cache.h5") == LH_OK, "%s: %s", text.data, lh_error_message());
    ck_assert_msg(memcmp(&unnamed, &back, sizeof back) == 0, "'%s' as JSON is another policy: %s", text.data, dump);
    json_decref(json);
    free(dump);
    lh_buf_clear(&text);
    lh_buf_clear(&again);
    lh_buf_clear(&words);
}

static void check_fixed(const lh_policy *plan, int64_t seen)
{
    lh_policy_numbers fixed = lh_policy_fix(plan, seen), later;
    lh_policy shareless;
    memcpy(&shareless, plan, sizeof shareless);
    shareless.budget = (lh_policy_amount){.n = fixed.budget};
    shareless.rows = (lh_policy_amount){.n = fixed.rows};
    shareless.protect = (lh_policy_protected){.sinks.n = fixed.sinks, .recents.n = fixed.recents};
    *(lh_policy_amount *)(uintptr_t)part_value(&shareless.methods, "values") = (lh_policy_amount){.n = fixed.chosen};
    shareless.proxies.kind = LH_PROXIES_NONE;
    shareless.window = fixed.window;
    shareless.every = fixed.every, shareless.block = fixed.block;
    later = lh_policy_fix(&shareless, seen + 1000); /* numbers stay */
    ck_assert(later.budget == fixed.budget && later.rows == fixed.rows && later.recents == fixed.recents &&
              later.chosen == fixed.chosen);
    ck_assert(later.window == fixed.window && later.sinks == fixed.sinks);
    ck_assert(later.every == fixed.every && later.block == fixed.block && !later.first_rows);
    ck_assert(fixed.first_rows * 2 <= fixed.rows && fixed.first_rows <= fixed.sinks);
    ck_assert_int_eq(fixed.budget, lh_policy_entries(plan, seen));
}

static const char *budget_of(const lh_policy_preset *preset, const char *budget)
{
    return preset->parts ? budget : NULL;
}

START_TEST(test_presets_go_through_their_texts)
{
    static const char *const budgets[] = {"1", "64", "33.30%", "100%"};
    for (int i = 0; lh_policy_at(i); i++)
        for (size_t b = 0; b < sizeof budgets / sizeof *budgets; b++) {
            lh_policy plan;
            const lh_policy_preset *preset = lh_policy_at(i);
            lh_policy_options o = {.policy = preset->name, .budget = budget_of(preset, budgets[b])};
            ck_assert_msg(lh_policy_resolve(&plan, &o) == LH_OK, "%s", lh_error_message());
            check_texts(&plan);
            if (plan.evicts) check_fixed(&plan, 1000);
        }
}
END_TEST

START_TEST(test_whatever_resolves_goes_through_its_texts)
{
    static const char *const budgets[] = {"12", "64", "20%", "12.5%"};
    int resolved = 0;
    srand(11);
    for (int trial = 0; trial < 20000; trial++) {
        lh_policy plan;
        int named = rand() % 16;
        const lh_policy_preset *preset = lh_policy_at(rand() % PRESETS);
        lh_policy_options o = {.policy = named ? preset->name : NULL,
                               .budget = named ? budget_of(preset, budgets[rand() % 4]) : "77"};
        for (int n = rand() % 5; n > 0; n--) {
            int part = rand() % PARTS, values = 0;
            while (values < MOST_VALUES && parts[part].values[values]) values++;
            say(&o.parts, part, parts[part].values[rand() % values]);
        }
        lh_status st = lh_policy_resolve(&plan, &o);
        ck_assert(st == LH_OK || st == LH_EUSAGE);
        if (st != LH_OK) continue;
        check_texts(&plan);
        if (plan.evicts) check_fixed(&plan, 20 + rand() % 3000);
        resolved++;
    }
    ck_assert_int_gt(resolved, 3000);
}
END_TEST

/* Two values of an option are two policies: an option that is taken is never ignored. */
START_TEST(test_an_option_that_is_taken_changes_the_policy)
{
    for (int i = 0; lh_policy_at(i); i++)
        for (int part = 0; part < PARTS; part++) {
            lh_policy plans[MOST_VALUES];
            int n = 0;
            for (int v = 0; v < MOST_VALUES && parts[part].values[v]; v++) {
                lh_policy_options o = {.policy = lh_policy_at(i)->name, .budget = budget_of(lh_policy_at(i), "64")};
                const char *value = parts[part].values[v];
                say(&o.parts, part, value);
                lh_status st = lh_policy_resolve(&plans[n], &o);
                ck_assert(st == LH_OK || st == LH_EUSAGE);
                if (st == LH_OK && strcmp(value, "every") && strcmp(value, "block:8,every")) n++; /* one of the M */
            }
            for (int a = 0; a < n; a++)
                for (int b = 0; b < a; b++)
                    ck_assert_msg(memcmp(&plans[a], &plans[b], sizeof *plans), "'%s' ignores '--%s'",
                                  lh_policy_at(i)->name, parts[part].option);
        }
}
END_TEST

START_TEST(test_text_says_what_differs_from_the_preset)
{
    static const struct {
        lh_policy_options options;
        const char *text;
    } cases[] = {
        {{.policy = "ada-snapkv",
          .budget = "20%",
          .parts =
              {.window = "64", .pool = "avg", .group = "max", .own = {{"alpha", "0.20"}, {"safeguard", "interp"}}}},
         "ada-snapkv --window 64 --group max --pool avg --alpha 0.2 --budget 20%"},
        {{.policy = "snapkv", .budget = "64", .parts = {.window = "64", .rows = "last:32"}},
         "snapkv --window 64 --rows last:32 --budget 64"},
        {{.policy = "snapkv", .budget = "64", .parts = {.rows = "last:32"}}, "snapkv --budget 64"},
        {{.policy = "ahakv", .budget = "64", .parts = {.own = {{"gain", "off"}}}}, "ahakv --gain=off --budget 64"},
        {{.policy = "ahakv", .budget = "64", .parts = {.own = {{"gain-floor", "on"}}}},
         "ahakv --gain-floor --budget 64"},
        {{.policy = "nacl", .budget = "1.0%", .parts = {.own = {{"random-share", "14/38"}}}}, "nacl --budget 1%"},
        {{.policy = "nacl", .budget = "9", .parts = {.own = {{"random-share", "1/4"}}}},
         "nacl --random-share 0.25 --budget 9"},
        {{.policy = "nacl", .budget = "9", .parts = {.proxies = "none"}}, "nacl --proxies none --budget 9"},
        {{.policy = "nacl", .budget = "9", .parts = {.proxies = "question"}}, "nacl --proxies question --budget 9"},
        {{.policy = "nacl", .budget = "9", .parts = {.proxies_at = "both-ends"}},
         "nacl --proxies-at both-ends --budget 9"},
        {{.policy = "streaming", .budget = "9", .parts = {.evict = "block:4"}}, "streaming --evict block:4 --budget 9"},
        {{.policy = "snapkv", .budget = "9", .parts = {.statistic = "last"}}, "snapkv --statistic last --budget 9"},
        {{0}, "full"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_buf text = {0};
        lh_policy plan;
        ck_assert_msg(lh_policy_resolve(&plan, &cases[i].options) == LH_OK, "%s", lh_error_message());
        ck_assert_int_eq(lh_policy_text(&plan, &text), LH_OK);
        ck_assert_str_eq(text.data, cases[i].text);
        lh_buf_clear(&text);
    }
}
END_TEST

START_TEST(test_json_has_every_part_by_the_name_of_its_option)
{
    lh_policy plan;
    json_t *json = NULL;
    ck_assert_int_eq(lh_policy_resolve(&plan, &(lh_policy_options){.policy = "nacl", .budget = "20%"}), LH_OK);
    ck_assert_int_eq(lh_policy_json(&plan, &json), LH_OK);
    for (int part = 0; part < PARTS; part++) ck_assert_ptr_nonnull(json_object_get(json, parts[part].option));
    ck_assert_str_eq(json_string_value(json_object_get(json, "random-share")), "7/19");
    ck_assert_str_eq(json_string_value(json_object_get(json, "evict")), "every");
    ck_assert_int_eq(json_integer_value(json_object_get(json, "sinks")), 256);
    ck_assert(json_is_null(json_object_get(json, "window")) && json_is_null(json_object_get(json, "alpha")));
    ck_assert_str_eq(json_string_value(json_object_get(json, "proxies-at")), "end");
    json_decref(json);
}
END_TEST

START_TEST(test_foreign_json_is_refused)
{
    static const char *const texts[] = {"[]",
                                        "{}",
                                        "{\"name\": 3.5}",
                                        "{\"name\": \"none\"}",
                                        "{\"name\": \"snapkv\", \"budget\": true}",
                                        "{\"name\": \"snapkv\", \"budget\": 64, \"window\": -3}",
                                        "{\"name\": \"snapkv\", \"budget\": 64, \"alpha\": \"0.5\"}",
                                        "{\"name\": \"ahakv\", \"budget\": 64, \"gain\": true}",
                                        "{\"name\": \"h2o\", \"budget\": 64, \"statistic\": \"mean\"}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        lh_policy plan;
        json_t *json = json_loads(texts[i], 0, NULL);
        ck_assert_int_eq(lh_policy_from_json(&plan, json, "cache.h5"), LH_EFILE);
        ck_assert_ptr_nonnull(strstr(lh_error_message(), "cache.h5"));
        json_decref(json);
    }
}
END_TEST

START_TEST(test_files_from_before_compat_say_the_same)
{
    static const struct {
        const char *text, *policy; /* NULL: refused */
    } cases[] = {
        {"{\"name\": \"adakv@kvpress\", \"budget\": 64, \"shares-of\": \"budget\"}", "adakv@kvpress --budget 64"},
        {"{\"name\": \"pyramidkv@kvpress\", \"budget\": 64, \"layer-budget\": \"pyramid-rounded\", \"shares-of\": "
         "null}",
         "pyramidkv@kvpress --budget 64"},
        {"{\"name\": \"pyramidkv\", \"budget\": 64, \"layer-budget\": \"pyramid-rounded\", \"shares-of\": null}",
         "pyramidkv --compat kvpress --budget 64"},
        {"{\"name\": \"pyramidkv@kvpress\", \"budget\": 64, \"layer-budget\": \"pyramid\", \"shares-of\": null}",
         "pyramidkv@kvpress --compat none --budget 64"},
        {"{\"name\": \"critical@kvpress\", \"budget\": 64, \"shares-of\": \"competing\"}",
         "critical@kvpress --compat none --budget 64"},
        {"{\"name\": \"snapkv\", \"budget\": 64, \"shares-of\": null}", "snapkv --budget 64"},
        {"{\"name\": \"critical@kvpress\", \"budget\": 64, \"shares-of\": \"budget\", \"layer-budget\": \"pyramid\"}",
         NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_policy policy;
        lh_buf text = {0};
        json_t *json = json_loads(cases[i].text, 0, NULL);
        lh_status st = lh_policy_from_json(&policy, json, "cache.h5");
        json_decref(json);
        ck_assert_msg(st == (cases[i].policy ? LH_OK : LH_EFILE), "%s: %s", cases[i].text, lh_error_message());
        if (st != LH_OK) continue;
        ck_assert_int_eq(lh_policy_text(&policy, &text), LH_OK);
        ck_assert_str_eq(text.data, cases[i].policy);
        lh_buf_clear(&text);
    }
}
END_TEST

/* A line for each part that adds something, and one that tells of decoding. */
START_TEST(test_descriptions_name_every_part_that_is_used)
{
    static const struct {
        const char *policy, *decoding;
        lh_policy_parts parts;
    } cases[] = {{"snapkv", "nothing is evicted", {0}},
                 {"streaming", "at every token; entries are scored anew", {0}},
                 {"h2o", "at every token; statistics continue", {0}},
                 {"tova", "at every token; the newest row is observed", {0}},
                 {"tova", "\nno entry is protected: '--sinks 10% --recents 10%'", {0}},
                 {"tova", "the newest row is observed\n", {.sinks = "10%", .recents = "10%"}},
                 {"nacl", "all proxies are new ones; the last rows, as many as 1% of the prompt", {0}},
                 {"nacl", "the last rows, as many as the question's", {.proxies = "question"}},
                 {"nacl", "all proxies at the end are new ones; the first", {.proxies_at = "both-ends"}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_policy plan;
        lh_buf text = {0};
        json_t *json = NULL;
        lh_policy_options options = {.policy = cases[i].policy, .budget = "64", .parts = cases[i].parts};
        ck_assert_int_eq(lh_policy_resolve(&plan, &options), LH_OK);
        ck_assert_int_eq(lh_policy_describe(&plan, &text), LH_OK);
        ck_assert_int_eq(lh_policy_json(&plan, &json), LH_OK);
        for (int part = 0; part < PARTS; part++) {
            char start[64];
            const json_t *value = json_object_get(json, parts[part].option);
            const char *word = json_string_value(value);
            int said = !json_is_null(value) && (!word || (strcmp(word, "off") && strcmp(word, "none")));
            snprintf(start, sizeof start, "  --%s ", parts[part].option);
            if (said) ck_assert_msg(strstr(text.data, start), "'%s' does not tell '%s'", cases[i].policy, start);
            if (json_is_null(value)) ck_assert_ptr_null(strstr(text.data, start));
        }
        const char *decoding = strstr(text.data, "\nwhile decoding: ");
        ck_assert(decoding && strstr(decoding, cases[i].decoding));
        lh_policy_numbers fixed = lh_policy_fix(&plan, 10000);
        int bare =
            plan.every && plan.score.source != LH_METHOD_position && !fixed.sinks && !fixed.recents && !fixed.window;
        ck_assert_int_eq(strstr(decoding, "no entry is protected") != NULL, bare);
        json_decref(json);
        lh_buf_clear(&text);
    }
}
END_TEST

int main(void)
{
    return suite_run(
        "texts", (const TTest *const[]){
                     test_presets_go_through_their_texts, test_whatever_resolves_goes_through_its_texts,
                     test_an_option_that_is_taken_changes_the_policy, test_text_says_what_differs_from_the_preset,
                     test_json_has_every_part_by_the_name_of_its_option, test_foreign_json_is_refused,
                     test_files_from_before_compat_say_the_same, test_descriptions_name_every_part_that_is_used, NULL});
}
