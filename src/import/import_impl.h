/* import_impl.h - shared by import.c, for sources, import_random.c and model_header.c. */
#ifndef LH_IMPORT_IMPORT_IMPL_H
#define LH_IMPORT_IMPORT_IMPL_H

#include "import/import.h"
#include "import/stored_types.h"

/* Rows of `cols` values that pass through the buffers at a time: 4 Mi values, or one longer row. */
int64_t lh_import_chunk_rows(int64_t cols);

/* Progress over all tensors. */
typedef struct lh_import_meter {
    lh_import_progress progress;
    int64_t done_bytes, total_bytes;
} lh_import_meter;

lh_status lh_import_advance(lh_import_meter *m, int64_t bytes);

lh_status lh_import_random(const lh_import_options *options);

/* The configuration and the formats of all tensors (lh_weight_format; lh_free) of the checkpoint that an import of a
 * source with dtype "auto" makes. Reads no values of weights, but scales and zero points of quantised ones, and an
 * lm_head and an embedding that should be equal. LH_EINPUT as in lh_import. */
lh_status lh_import_formats(const lh_format ***out, lh_config *config, const char *src);

#endif
