/* profile.h - profiles: the contents of files that a policy names. Custom budgets are weights for the layers of a model
 * or the KV heads of every layer; lines of text are questions known beforehand, whose rows score the entries
 * ('--rows-at text:FILE'). A policy names a profile by its hash, e.g. "profile:0123456789abcdef" or
 * "text:0123456789abcdef"; the contents are here. */
#ifndef LH_POLICIES_PROFILE_H
#define LH_POLICIES_PROFILE_H

#include <jansson.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"
#include "policies/policy.h"

typedef enum lh_profile_kind {
    LH_PROFILE_OF_LAYERS,
    LH_PROFILE_OF_HEADS,
    LH_PROFILE_LINES,
    LH_PROFILE_KINDS
} lh_profile_kind;

enum { LH_PROFILE_MAX_LINES = 256 };

/* Equal contents of the same kind have equal hashes in any file. */
struct lh_profile {
    lh_profile_kind kind;
    char *name;            /* the file */
    uint64_t hash;         /* never 0 */
    int64_t layers, heads; /* heads: 1 in a profile of layers; of lines both are 0 */
    int64_t *weights; /* [layers, heads] in units of 10^-9, below 10^18; those that divide one budget are not all 0 */
    char **lines;     /* [line_count], none empty */
    int64_t line_count;
};

/* Profiles by hash. All zero is empty; what lh_profiles_find returns stays valid until lh_profiles_clear. */
struct lh_profiles {
    lh_profile **at;
    int64_t n;
};
void lh_profiles_clear(lh_profiles *all);

/* Adds a copy of every profile of `all`, which may be NULL. */
lh_status lh_profiles_copy(lh_profiles *out, const lh_profiles *all);

/* NULL if there is none of this kind, or hash is 0. */
const lh_profile *lh_profiles_find(const lh_profiles *all, lh_profile_kind kind, uint64_t hash);

/* Read a profile, and add it unless an equal one is stored; *hash: its hash. Weights are CSV: a line "layer,weight"
 * (of heads: "layer,head,weight"), then one line for every layer (and head), numbered from 0, in any order; weights
 * are decimals from 0, at most 9 digits before and 9 after the point. '#' begins a comment. Weights of heads are
 * weights of layers, too: a layer has the sum of its heads. Lines are UTF-8, at most LH_PROFILE_MAX_LINES; white space
 * at their ends and empty ones do not count. LH_EINPUT naming file and line. */
lh_status lh_profile_read(lh_profiles *all, lh_profile_kind kind, const char *path, uint64_t *hash);

/* The same from memory; messages call it `name`. */
typedef struct lh_profile_text {
    const char *name, *text;
    int64_t bytes;
} lh_profile_text;
lh_status lh_profile_parse(lh_profiles *all, lh_profile_kind kind, const lh_profile_text *in, uint64_t *hash);

/* Appends the text of a profile with its kind and contents set. */
lh_status lh_profile_write(const lh_profile *profile, lh_buf *out);

/* LH_EINPUT, naming option and hash, unless the profiles that the policy names are in `all`, each of the option's kind.
 */
lh_status lh_profiles_check_loaded(const lh_profiles *all, const lh_policy *policy);

/* LH_EINPUT as well, naming the file, unless they are for a model of this shape. */
lh_status lh_profiles_check(const lh_profiles *all, const lh_policy *policy, int64_t layers, int64_t kv_heads);

/* Write the profiles that the policy names into its JSON (member "profiles"), and read them from there: LH_EFILE,
 * naming `name`. */
lh_status lh_profiles_put_json(const lh_profiles *all, const lh_policy *policy, json_t *json);
lh_status lh_profiles_get_json(lh_profiles *out, const json_t *json, const char *name);

#endif
