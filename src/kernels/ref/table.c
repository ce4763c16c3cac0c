/* The table of the reference backend. */
#include "kernels/ref/ref.h"

const lh_ops lh_ops_ref = {
    .name = "ref",
    .device = LH_DEVICE_CPU,
#define LH_OP(op, summary) .op = lh_ref_##op,
#include "kernels/ops_list.h"
#undef LH_OP
};
