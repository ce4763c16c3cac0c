/* import_impl.h - what import.c and random_model.c share. */
#ifndef LH_IMPORT_IMPORT_IMPL_H
#define LH_IMPORT_IMPORT_IMPL_H

#include "base/dtype.h"
#include "import/checkpoint.h"
#include "import/import.h"

/* Values that go through the buffers at a time. */
enum { LH_IMPORT_VALUES = 1 << 22 };

/* How far it is, over all tensors. */
typedef struct lh_import_meter {
    lh_import_progress progress;
    int64_t done_bytes, total_bytes;
} lh_import_meter;

lh_status lh_import_advance(lh_import_meter *meter, int64_t bytes);

/* The argument of --dtype: *automatic 1 for "auto". */
lh_status lh_import_dtype(const char *name, lh_dtype *type, int *automatic);

/* random_model.c */
lh_status lh_random_import(const lh_import_options *options);

#endif
