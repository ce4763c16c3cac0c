/* policy.h - eviction policies as rows of parts. A preset is a row of text, as on the command line. Preset and options
 * are resolved once into a struct lh_policy, which everything else reads; budgets.h computes its numbers for a prompt.
 * No MPI, no device and no arrays of scores here. */
#ifndef LH_POLICIES_POLICY_H
#define LH_POLICIES_POLICY_H

#include <jansson.h>
#include <stdint.h>

#include "base/fraction.h"
#include "base/mem.h"
#include "base/status.h"
#include "policies/decimal.h"
#include "policies/preset.h"

/* The methods of method_list.h, by number. */
typedef enum lh_method_id {
    LH_METHOD_NONE,
#define LH_METHOD(name) LH_METHOD_##name,
#include "policies/method_list.h"
#undef LH_METHOD
    LH_METHODS
} lh_method_id;

/* The methods that a policy uses, and their traits (method.h). params: the parameters of each method, a struct of its
 * file, zero if it is not used. More slots than methods: a new method does not change the struct. */
enum { LH_METHOD_SLOTS = 48 };
typedef struct lh_method_params {
    int64_t words[6];
} lh_method_params;
typedef struct lh_policy_methods {
    uint64_t used; /* bit i: method i */
    uint64_t traits;
    lh_method_params params[LH_METHOD_SLOTS];
} lh_policy_methods;

int lh_uses_method(const lh_policy_methods *methods, lh_method_id id);

/* Numbers of words. The number of a profile follows the numbers of the words that it replaces. */
#define LH_NUMBER(word, meaning, number) number,
typedef enum lh_proxies_at { LH_PROXIES_AT_WORDS(LH_NUMBER) } lh_proxies_at;
typedef enum lh_row_place { LH_ROWS_AT_WORDS(LH_NUMBER) } lh_row_place;
typedef enum lh_heads_budget { LH_HEADS_WORDS(LH_NUMBER) LH_HEADS_PROFILE } lh_heads_budget;
typedef enum lh_layers_budget { LH_LAYERS_WORDS(LH_NUMBER) LH_LAYERS_PROFILE } lh_layers_budget;
typedef enum lh_position_mode { LH_POSITION_WORDS(LH_NUMBER) } lh_position_mode;
#undef LH_NUMBER

/* An amount as it was written: n, or where percent.digits > 0 a percentage of something; n is 0 then. */
typedef struct lh_policy_amount {
    int64_t n;
    lh_decimal percent;
} lh_policy_amount;

/* ---- parts of a resolved policy (lh_policy) and of its numbers for a prompt (lh_policy_numbers) ---- */

/* The score of an entry. */
typedef struct lh_policy_score {
    lh_method_id source;
    int running; /* true if statistics continue while decoding, else the last rows are observed again at each eviction
                  */
    lh_row_place rows_at;
    int64_t segment;  /* of LH_ROWS_AT_REPEAT: tokens of a segment that sees nothing but itself; 0: segments see all */
    uint64_t text;    /* of LH_ROWS_AT_TEXT: hash of its lines (profile.h), else 0 */
    lh_scorer scorer; /* of the methods `caller` and `caller_rows`; score NULL: of a file, and not loaded here */
    uint64_t weights; /* hash of the model's score weights, set by lh_policy_size; 0: not needed, or not known yet */
    const struct lh_loaded_plugin *plugin; /* of the scorer; NULL: it is a function of the program */
} lh_policy_score;

/* From the scores of query heads to the score of their KV head. */
typedef struct lh_policy_shape {
    int group, pool; /* lh_group_kind, lh_pool_kind of kernels/ops.h, as numbers */
    int64_t pool_size;
} lh_policy_shape;

/* How entries are divided among layers, and among the heads of a layer. */
typedef struct lh_policy_division {
    lh_heads_budget heads;
    lh_layers_budget layers;
    uint64_t head_profile, layer_profile; /* their hashes, 0: none */
} lh_policy_division;

/* How the entries of a head are chosen by their scores. */
typedef struct lh_policy_selection {
    lh_method_id kind;
    int joint; /* true if all heads of a layer keep the same entries */
} lh_policy_selection;

/* Rows that are observed and protected. question: the tokens of the question, 0: not known yet (lh_policy_ask). */
typedef enum lh_proxies_kind { LH_PROXIES_NONE, LH_PROXIES_SHARE, LH_PROXIES_QUESTION } lh_proxies_kind;
typedef struct lh_policy_proxies {
    lh_proxies_kind kind;
    lh_proxies_at at;
    lh_decimal percent; /* of the prompt */
    int64_t question;
} lh_policy_proxies;

/* First and last entries that are always kept, like the window and proxies; percent: of the budget. */
typedef struct lh_policy_protected {
    lh_policy_amount sinks, recents;
} lh_policy_protected;

/* Whether a policy is the default with a budget. LH_DEFAULT_WITH_PARTS: with parts that were given. */
typedef enum lh_policy_default { LH_DEFAULT_NONE, LH_DEFAULT_WITH_PARTS, LH_DEFAULT_AS_IT_IS } lh_policy_default;

/* A resolved policy: shares are still shares. lh_policy_numbers (budgets.h) has the integers for a prompt. */
typedef struct lh_policy {
    char name[64]; /* of the preset */
    lh_policy_default by_default;
    int evicts;              /* 0: `full`, the members below are unused */
    lh_policy_amount budget; /* percent: of the prompt */
    int64_t budget_bytes;    /* a budget in bytes until lh_policy_size, `budget` is 0 then; else 0 */
    lh_policy_score score;
    lh_policy_amount rows; /* observed rows, INT64_MAX: all; 0 for scores without rows. percent: of the prompt */
    int rows_spread;       /* 1: rows.n of them spread over the prompt, else the last ones */
    lh_policy_proxies proxies;
    lh_policy_shape shape;
    int64_t window;
    lh_policy_protected protect;
    lh_policy_division budgets;
    lh_policy_selection select;
    lh_policy_methods methods;
    int64_t every;     /* decode: evict at every m-th generated token; 0: never */
    int every_is_rows; /* as many tokens as there are proxies; `every` is 1 */
    int64_t block;     /* prefill: evict before each block of so many tokens; 0: once, at its end */
    lh_position_mode positions;
} lh_policy;

enum { LH_READS_ALL = LH_READS_QUERIES | LH_READS_ATTENTION | LH_READS_HIDDEN };

/* True if the entries are scored by a function of a program or of a plug-in; and if that function is not loaded: the
 * policy is from a file that another run wrote. */
int lh_policy_has_scorer(const lh_policy *policy);
int lh_policy_lacks_scorer(const lh_policy *policy);

/* 1 for equal policies, named or by default. */
int lh_policy_same(const lh_policy *a, const lh_policy *b);

/* True if rows of probe tokens score the entries. */
int lh_scores_by_probes(const lh_policy_score *score);

/* True if that function reads the hidden states of the observed rows. */
int lh_score_reads_hidden(const lh_policy_score *score);

/* Resolves preset and options. LH_EUSAGE: an unknown preset (naming the nearest), an invalid value, an option that the
 * resolved policy would ignore, a budget of 0, a policy that evicts without a budget. LH_EINPUT: a file that is not a
 * profile or a plug-in. options->policy NULL: `full` without a budget, else the default policy. Equal policies are
 * equal byte by byte. */
lh_status lh_policy_resolve(lh_policy *out, const lh_policy_options *options);

/* The value of a part as the text of its option; *out is empty where the policy does not use the part. */
typedef struct lh_part_value {
    char text[64];
} lh_part_value;

/* 1 if the options name a policy, a budget or a part of a policy. */
int lh_policy_given(const lh_policy_options *options);

/* The policy as on a command line, e.g. "ada-snapkv --pool-size 31 --budget 256": the preset and what differs from it;
 * appended. */
lh_status lh_policy_text(const lh_policy *policy, lh_buf *out);

/* All resolved parts as JSON (a new reference); parts that are not used are null. And back, as a cache file stores it
 * (by_default is then 0): LH_EFILE, naming `name`, if it is invalid. */
lh_status lh_policy_json(const lh_policy *policy, json_t **out);
lh_status lh_policy_from_json(lh_policy *out, const json_t *json, const char *name);

/* LH_EUSAGE if the policy is impossible for a prompt of this length: a block must be smaller than the budget.
 * lh_policy_resolve refuses what does not depend on the length. */
lh_status lh_policy_check(const lh_policy *policy, int64_t seen);

/* True if the policy has probe tokens (probes.h). */
int lh_policy_has_probes(const lh_policy *policy);

/* True if one prefill can serve the policy and others: it evicts after the prompt only, and adds no tokens to it. */
int lh_policy_shares_prefill(const lh_policy *policy);

/* Sets the number of tokens of the question at the end of the prompt, if these are the policy's proxies; no effect on
 * other policies. */
void lh_policy_ask(lh_policy *policy, int64_t question);

/* LH_EUSAGE if that number is needed and not set. */
lh_status lh_policy_check_question(const lh_policy *policy);

/* A cache of all ranks: the KV heads of each layer, and the bytes of the key and value of an entry. */
typedef struct lh_cache_size {
    int64_t layers, kv_heads, entry_bytes, window; /* window: keys that a row of a sliding layer sees */
    const uint8_t *sliding;                        /* [layers]; NULL: none slides */
    uint64_t score_weights;                        /* hash of the model's score weights, 0: it has none */
} lh_cache_size;

/* What a policy takes from a model. A budget in bytes becomes the most entries per KV head with keys and values of at
 * most as many bytes, where a sliding layer holds its window at most; a score that needs weights takes the model's; and
 * the default for questions to come is the preset of learnt scores if there are weights, and no part was given.
 * LH_EUSAGE if not one entry fits, or there are no weights, and as lh_policy_check. LH_EINPUT if the policy, of a cache
 * file, had other weights. */
lh_status lh_policy_size(lh_policy *policy, const lh_cache_size *cache);

/* Warnings before a long run of `seen` tokens, e.g. "the budget of 64 entries holds the whole prompt …"; appended to
 * *out as lines. */
lh_status lh_policy_warnings(const lh_policy *policy, int64_t seen, lh_buf *out);

/* 1 if protected entries (window, sinks, recents, rows of proxies) are the whole budget of a prompt of `seen` tokens,
 * so that scores choose nothing, though the policy has some. */
int lh_policy_is_filled(const lh_policy *policy, int64_t seen);

/* Likewise for questions that come after the eviction: a policy that scores by attention has seen the context alone,
 * and may have evicted the answer (docs/results.md, context-only). */
lh_status lh_policy_question_warnings(const lh_policy *policy, int64_t seen, lh_buf *out);

/* The resolved parts, one per line: the option, its value and its meaning; then what happens while decoding.
 * Appended. */
lh_status lh_policy_describe(const lh_policy *policy, lh_buf *out);

#endif
