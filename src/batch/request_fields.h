/* request_fields.h - the members of a request as tables; for request*.c only. */
#ifndef LH_BATCH_REQUEST_FIELDS_H
#define LH_BATCH_REQUEST_FIELDS_H

#include "batch/request.h"

/* Bits of lh_batch_field.apis. */
enum { LH_IN_COMPLETION = 1 << LH_BATCH_COMPLETION, LH_IN_CHAT = 1 << LH_BATCH_CHAT, LH_IN_BOTH = 3 };

typedef struct lh_batch_field {
    const char *name; /* NULL ends a table */
    int apis;
    lh_status (*take)(const struct lh_batch_field *field, const json_t *value, lh_batch_request *out);
    size_t at;        /* of a text or a number: offsetof in lh_batch_request */
    double low, high; /* of a number */
    const char *only; /* of a member that is not supported: the values that change nothing, a JSON array ... */
    const char *why;  /* ... and what to say of others */
    int required;
} lh_batch_field;

extern const lh_batch_field lh_batch_line_fields[], lh_batch_body_fields[];

/* Reads the members of `object` that the API has (a bit, or both), null as if it were absent. `where`: "the line" or
 * "'body'". */
lh_status lh_batch_fields_take(const lh_batch_field *fields, int api, const char *where, const json_t *object,
                               lh_batch_request *out);

#endif
