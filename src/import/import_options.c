/* import_options.c - progress of an import and the argument of --dtype. */
#include "import/import_options.h"

#include <string.h>

lh_status lh_import_advance(lh_import_meter *meter, int64_t bytes)
{
    meter->done_bytes += bytes;
    if (!meter->progress.done) return LH_OK;
    return meter->progress.done(meter->progress.self, meter->done_bytes, meter->total_bytes);
}

lh_status lh_import_dtype(const char *name, lh_dtype *type, int *automatic)
{
    *type = LH_BF16;
    *automatic = strcmp(name, "auto") == 0;
    if (!*automatic && (!lh_dtype_find(name, type) || *type > LH_BF16))
        LH_FAIL(LH_EUSAGE, "dtype '%s' is unknown: auto, f32, f16 and bf16 are known", name);
    return LH_OK;
}
