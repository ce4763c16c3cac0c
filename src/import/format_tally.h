/* format_tally.h - number and bytes of the tensors of a model by their format, for messages: "4.58 GiB as q4_K, q6_K".
 */
#ifndef LH_IMPORT_FORMAT_TALLY_H
#define LH_IMPORT_FORMAT_TALLY_H

#include <jansson.h>

#include "base/format.h"
#include "base/mem.h"
#include "import/checkpoint.h"

enum { LH_TALLY_FORMATS = 16 }; /* at least the readable ones of base/format.h */

typedef struct lh_format_row {
    const lh_format *format;
    int64_t tensors, bytes;
} lh_format_row;

/* All zero: empty. Rows by descending bytes. */
typedef struct lh_format_tally {
    lh_format_row rows[LH_TALLY_FORMATS];
    int n;
    int64_t bytes; /* of all rows */
} lh_format_tally;

/* Adds a tensor of `values` numbers, or such a part of a tensor (tensors 0). */
void lh_format_tally_add(lh_format_tally *tally, const lh_format *format, int64_t tensors, int64_t values);

/* The tensors of a model by their formats (lh_weight_format). */
lh_status lh_format_tally_of(lh_format_tally *out, const lh_config *config, const lh_format *const *formats);

/* Appends the bytes, and the formats that have at least a hundredth of them. */
lh_status lh_format_tally_text(const lh_format_tally *tally, lh_buf *out);

/* Appends the weights of a run: the same, with the type of activations, if some tensors have few bits; else this type,
 * which all matrices get. */
lh_status lh_format_tally_in_memory(const lh_format_tally *tally, lh_dtype dtype, lh_buf *out);

/* A list of {name, tensors, bytes}. */
lh_status lh_format_tally_json(const lh_format_tally *tally, json_t **out);

#endif
