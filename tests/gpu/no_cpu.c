/* These programs are linked without the cpu backend, of which a test asks the instruction set. */
#include "kernels/ops.h"

const char *lh_cpu_isa(void)
{
    return "none";
}
