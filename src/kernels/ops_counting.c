/* The operations of a device that only counts (device/counting_device.c): they read and write nothing. What operations
 * of a real backend take as scratch is not counted; lh_ops_chunking bounds it. */
#include "kernels/ops.h"

#define LH_OP(op, summary)                                                  \
    static lh_status count_##op(lh_stream *stream, const lh_##op##_args *a) \
    {                                                                       \
        (void)stream, (void)a;                                              \
        return LH_OK;                                                       \
    }
#include "kernels/ops_list.h"
#undef LH_OP

const lh_ops lh_ops_counting = {
    .name = "counting",
#define LH_OP(op, summary) .op = count_##op,
#include "kernels/ops_list.h"
#undef LH_OP
};
