/* import_impl.h - shared by import.c, for sources, and import_random.c. */
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

#endif
