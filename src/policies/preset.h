/* preset.h - policies as text: the parts that an option or a preset sets, the presets, and the options of a run.
 * lh_policy_resolve (policy.h) makes a policy from them. */
#ifndef LH_POLICIES_PRESET_H
#define LH_POLICIES_PRESET_H

#include "base/options.h"
#include "base/status.h"
#include "policies/part_list.h"
#include "policies/word_list.h"

/* The parts of a policy as the texts of its options: the common ones of part_list.h, NULL where an option was not
 * given, and the options of methods by name. */
enum { LH_OWN_PARTS = 32 };
typedef struct lh_policy_parts {
#define LH_PART(member, ...) const char *member;
    LH_POLICY_PARTS(LH_PART)
#undef LH_PART
    lh_named_text own[LH_OWN_PARTS];
} lh_policy_parts;

/* Row i of the options of all parts, with values in lh_policy_options, in the order in which parts are read; NULL
 * after the last. */
const lh_option *lh_policy_part_row(int64_t i);

/* The text of a part by its option, NULL if it was not given; and sets it. */
const char *lh_policy_parts_get(const lh_policy_parts *parts, const lh_option *row);
void lh_policy_parts_set(lh_policy_parts *parts, const lh_option *row, const char *text);

/* Words of the parts that have words (word_list.h); each array ends with NULL. */
#define LH_WORDS(name, list) extern const char *const name[];
LH_POLICY_WORDS(LH_WORDS)
#undef LH_WORDS
extern const char *const lh_policy_switch[];

/* A preset; the table is presets.c. */
typedef enum lh_policy_kind {
    LH_POLICY_OF_PAPER,
    LH_POLICY_OWN,
    LH_POLICY_BASELINE,
    LH_POLICY_COMPATIBLE,
    LH_POLICY_OF_PLUGIN
} lh_policy_kind;
typedef struct lh_policy_preset {
    const char *name, *summary;
    const char *alias, *paper; /* another name of the method, and its paper; may be NULL */
    lh_policy_kind kind;
    const char *parts; /* as on a command line; NULL: it evicts nothing */
} lh_policy_preset;

const lh_policy_preset *lh_policy_find(const char *name); /* by name or alias, loaded plug-ins too; NULL: none */
const lh_policy_preset *lh_policy_at(int i);              /* NULL after the last; without plug-ins */

/* The default presets with a budget: where policies see the question; where it comes after the eviction; and where it
 * does, and the model has weights of learnt scores (lh_policy_size). */
extern const char lh_policy_by_default[], lh_policy_to_ask_later[], lh_policy_of_learnt[];

/* Weights of budgets, read from files (profile.h). */
typedef struct lh_profile lh_profile;
typedef struct lh_profiles lh_profiles;

/* When questions come, which decides the default: in the prompt, or none; after the eviction; of lists also both, which
 * is a default each. */
typedef enum lh_policy_asked { LH_ASKED_IN_PROMPT, LH_ASKED_LATER, LH_ASKED_BOTH } lh_policy_asked;

/* The options as given. policy: a name, the file of a plug-in, or words as on a command line that begin with one;
 * budget: entries, or "20%"; NULL: not given. profiles: receives the files that parts name; NULL: parts and policy name
 * no files. scorer: scores the entries instead of a policy's name and statistic; NULL: none. plugins: files that are
 * loaded, so that other policies than this one may name them: of requests, and of loaded caches. */
typedef struct lh_policy_options {
    const char *policy, *budget;
    lh_policy_parts parts;
    lh_profiles *profiles;
    const lh_scorer *scorer;
    lh_strings plugins;
    lh_policy_asked asked;
} lh_policy_options;

#endif
