/* policy_impl.h - shared by the files of policies/: the table of parts, readers and writers of their texts, and
 * decimals. */
#ifndef LH_POLICIES_POLICY_IMPL_H
#define LH_POLICIES_POLICY_IMPL_H

#include <stddef.h>

#include "base/minmax.h"
#include "policies/method.h"
#include "policies/plugin.h"
#include "policies/profile.h"

/* The parts in the order in which they are read. NULL after the last; NULL from find: there is none. */
enum { LH_PARTS = 64 }; /* or fewer */
const lh_part *lh_part_at(int i);
const lh_part *lh_part_find(const char *option);
int lh_part_is_used(const lh_part *part, const lh_policy *policy);

/* The parts that a policy can have: those above, then the options of its plug-in. NULL after the last. */
const lh_part *lh_policy_part(const lh_policy *policy, int i);

/* The options with which a part would be used. */
typedef struct lh_part_needs {
    char text[256];
} lh_part_needs;
lh_part_needs lh_part_needs_of(const lh_part *part);

/* The sentence of a word; NULL: none. */
const char *lh_part_meaning(const lh_part *part, const char *text);

/* After each part that is read: the methods that the policy uses so far, and their traits. */
void lh_policy_update_methods(lh_policy *policy);

/* Window and recents both keep the end of the prompt. True where, at a budget, the recents keep no more than the
 * window; and if the window, with rows observed like all rows, keeps no more than the recents. */
int lh_window_covers_recents(const lh_policy *policy, int64_t budget);
int lh_recents_cover_window(const lh_policy *policy, int64_t budget);

/* A budget such as "256" or "20%". */
lh_status lh_budget_read(lh_policy *policy, const char *text);
void lh_budget_write(const lh_policy *policy, lh_part_value *out);

/* As lh_policy_resolve, of a stored policy, which has the texts of all its parts: no part counts as given by a
 * user. */
lh_status lh_policy_resolve_stored(lh_policy *out, const lh_policy_options *options);

/* Loads options->plugins. */
lh_status lh_policy_load_plugins(const lh_policy_options *options);

/* As lh_policy_resolve_stored, of this preset; options->policy NULL: as if its name was given. */
lh_status lh_policy_resolve_preset(lh_policy *out, const lh_policy_preset *preset, const lh_policy_options *options);

/* Reads every part, without checking combinations. options->policy NULL: the default policy. */
lh_status lh_parts_read(lh_policy *out, const lh_policy_preset *preset, const lh_policy_options *options);

/* The numbers of the parts that the options give and the policy would ignore; ends with -1. */
lh_status lh_parts_unused(const lh_policy_preset *preset, const lh_policy_options *options, int unused[LH_PARTS + 1]);

/* LH_EUSAGE for a combination of parts that is not allowed, naming them. */
lh_status lh_parts_check(const lh_policy *policy);

/* Returns 1 and the budgets of layers if they differ, or 0 if every layer has the policy's budget. */
int lh_layers_differ(const lh_policy_numbers *fixed, const lh_layers_request *request, int64_t *budgets);

/* n layers or heads divide `total` entries in proportion to their weights, which are not all 0: each gets `min`, or
 * its capacity; then the rest of the rounding goes to the largest remainders, and entries beyond a capacity go to
 * layers or heads below theirs. */
typedef struct lh_portions {
    int64_t n, total, min;
    const int64_t *weights;
    int64_t (*max)(const void *of, int64_t i); /* entries that number i can hold */
    const void *of;
} lh_portions;

/* One each to numbers 0, 1, ... that have room, round after round, until `missing` are given. */
void lh_portions_give(const lh_portions *q, int64_t missing, int64_t *out);

/* Number of `entries`, and of all seen tokens, that layer l can hold. */
int64_t lh_layer_within(const lh_layers_request *q, int64_t l, int64_t entries);
int64_t lh_layer_max(const void *request, int64_t l);

/* Budgets of layers by their profile. */
void lh_profile_layers(const lh_layers_request *q, int64_t entries, int64_t *budgets);
void lh_learnt_layers(const lh_layers_request *q, int64_t entries, int64_t even, int64_t *budgets);

/* Budgets of a pyramid: 1, or 0 if all layers get the same, because the pyramid would be narrower than the window. */
int lh_pyramid(const lh_policy_numbers *fixed, const lh_layers_request *q, int64_t *budgets);

/* ---- numbers.c ---- */

lh_status lh_part_read_odd(lh_policy *policy, const lh_part *part, const char *text);

/* A part's name of a profile, by its hash: 1, or 0 if the text is none. */
int lh_profile_hash_read(const lh_part *part, const char *text, uint64_t *out);
void lh_profile_hash_write(const lh_part *part, uint64_t hash, lh_part_value *out);

/* A word, or the name of a profile. */
lh_status lh_part_read_profile(lh_policy *policy, const lh_part *part, const char *text);
void lh_part_write_profile(const lh_policy *policy, const lh_part *part, lh_part_value *out);

/* Readers of parts with a special syntax. */
lh_status lh_proxies_read(lh_policy *policy, const lh_part *part, const char *text);
void lh_proxies_write(const lh_policy *policy, const lh_part *part, lh_part_value *out);
lh_status lh_rows_at_read(lh_policy *policy, const lh_part *part, const char *text);
void lh_rows_at_write(const lh_policy *policy, const lh_part *part, lh_part_value *out);
lh_status lh_rows_read(lh_policy *policy, const lh_part *part, const char *text);
void lh_rows_write(const lh_policy *policy, const lh_part *part, lh_part_value *out);
lh_status lh_evict_read(lh_policy *policy, const lh_part *part, const char *text);
void lh_evict_write(const lh_policy *policy, const lh_part *part, lh_part_value *out);

/* ---- profile.c, profile_weights.c ---- */

void lh_profile_free(lh_profile *profile); /* NULL is fine */

/* A part of a text, such as a field or a line; without white space at its ends. */
typedef struct lh_piece {
    const char *at;
    int64_t bytes;
} lh_piece;
lh_piece lh_piece_trim(lh_piece piece);

/* A profile of weights from its text, and its text. */
lh_status lh_profile_weights(lh_profile **out, lh_profile_kind kind, const lh_profile_text *in);
lh_status lh_profile_write_weights(const lh_profile *profile, lh_buf *out);

/* Where *text, the value of a part, names a file: reads it into options->profiles, and *text becomes the name of the
 * profile, in *value. */
lh_status lh_part_read_file(const lh_part *part, const lh_policy_options *options, lh_part_value *value,
                            const char **text);

/* ---- decimal.c ---- */

/* Digits with at most one point, such as "20", "0.5", ".25": 1, or 0 if it is no decimal, above 10^18 - 1 without its
 * point, or finer than 10^-18. */
int lh_decimal_read(lh_decimal *out, const char *text, int64_t bytes);
void lh_decimal_write(lh_decimal value, lh_part_value *out);

/* A decimal in [0, 1], or in (0%, 100%] with a '%' after it: 1, or 0 if it is none. */
int lh_share_read(lh_decimal *out, const char *text);
int lh_percent_read(lh_decimal *out, const char *text);
void lh_percent_write(lh_decimal value, lh_part_value *out);

/* A fraction in [0, 1], such as "7/19", or a decimal: 1, or 0 if it is none. In lowest terms. */
int lh_fraction_read(lh_fraction *out, const char *text);
void lh_fraction_write(lh_fraction value, lh_part_value *out);

/* An integer in [min, 2^40]: 1, or 0. */
int lh_integer_read(int64_t *out, const char *text, int64_t bytes, int64_t min);

#endif
