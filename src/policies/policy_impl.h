/* policy_impl.h - what the files of this room share: the parts as a table. */
#ifndef LH_POLICIES_POLICY_IMPL_H
#define LH_POLICIES_POLICY_IMPL_H

#include <stddef.h>

#include "policies/policy.h"

/* A piece of text as an option says it. */
typedef struct lh_part_value {
    char text[48];
} lh_part_value;

/* One part: how its option is called, when the resolved policy uses it, how its text becomes numbers of the plan and
 * back. */
typedef struct lh_part {
    const char *option; /* without the dashes */
    size_t text_at;     /* in lh_policy_parts */
    int (*used)(const lh_policy_plan *plan);
    const char *needs; /* what would have to be said for it to be used */
    lh_status (*read)(lh_policy_plan *plan, const struct lh_part *part, const char *text);
    void (*write)(const lh_policy_plan *plan, const struct lh_part *part, lh_part_value *out);
    size_t at;                /* of its number in the plan: an int for words, int64_t for numbers */
    const char *const *words; /* in the order of their numbers, ends with NULL */
    int64_t min;
} lh_part;

/* The parts in the order in which they are read: what decides whether another is used comes first. NULL behind the
 * last. */
const lh_part *lh_part_at(int i);
const char *lh_part_text(const lh_part *part, const lh_policy_parts *parts);

/* A budget: "256" or "20%". */
lh_status lh_budget_read(lh_policy_plan *plan, const char *text);
void lh_budget_write(const lh_policy_plan *plan, lh_part_value *out);

/* Digits with at most one point, as "20", "0.5", ".25": 1, or 0 when it is none or longer than 18 digits. */
int lh_decimal_read(lh_decimal *out, const char *text, int64_t bytes);
void lh_decimal_write(lh_decimal value, lh_part_value *out);

/* One of `words` (ends with NULL): its number in *out, or LH_EUSAGE naming the nearest. */
lh_status lh_word_read(int *out, const char *what, const char *const *words, const char *text);

#endif
