/* identity.h - is this the run that wrote the file? A file that a run may continue holds a JSON object of everything
 * that its contents depend on: the model, options, versions. The run that opens the file makes the same object for
 * itself. */
#ifndef LH_BASE_IDENTITY_H
#define LH_BASE_IDENTITY_H

#include <jansson.h>

enum { LH_IDENTITY_NAME = 128, LH_IDENTITY_VALUE = 64 };

/* The first member that differs, and both values as JSON text that may be cut; "none" for a member that is absent. */
typedef struct lh_identity_difference {
    char name[LH_IDENTITY_NAME]; /* "policy.alpha": of the member `policy`, an object, the member `alpha` */
    char was[LH_IDENTITY_VALUE], is[LH_IDENTITY_VALUE];
} lh_identity_difference;

/* 1 if the file's object `was` (NULL: none) and the run's own object `is` differ in a member, in the order of `is`.
 * digits: significant digits of numbers in the file, at most 17. */
int lh_identity_differs(const json_t *was, const json_t *is, int digits, lh_identity_difference *out);

#endif
