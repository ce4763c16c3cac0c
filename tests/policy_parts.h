/* policy_parts.h - values of the options of methods, by name, as tests need them. */
#ifndef LH_TESTS_POLICY_PARTS_H
#define LH_TESTS_POLICY_PARTS_H

#include "policies/policy_impl.h"

static inline const void *part_value(const lh_policy_methods *methods, const char *option)
{
    const lh_part *part = lh_part_find(option);
    return (const char *)lh_params_of(methods, part->method) +
           (part->at - LH_PARAMS_AT - (size_t)part->method * sizeof(lh_method_params));
}

/* The number of a word, 0 and 1 of a switch. */
static inline int part_word(const lh_policy_methods *methods, const char *option)
{
    return *(const int *)part_value(methods, option);
}

static inline int64_t part_number(const lh_policy_methods *methods, const char *option)
{
    return *(const int64_t *)part_value(methods, option);
}

static inline lh_decimal part_decimal(const lh_policy_methods *methods, const char *option)
{
    return *(const lh_decimal *)part_value(methods, option);
}

/* The text of an option; NULL: not given. */
static inline const char *part_text(const lh_policy_parts *parts, const char *option)
{
    return lh_policy_parts_get(parts, &lh_part_find(option)->row);
}

/* Sets the text of an option, of a common part or a method's. */
static inline void part_set(lh_policy_parts *parts, const char *option, const char *text)
{
    lh_policy_parts_set(parts, &lh_part_find(option)->row, text);
}

#endif
