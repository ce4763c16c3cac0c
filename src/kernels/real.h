/* real.h - the type in which a backend evaluates a formula that several share, before it rounds to f32: float, or
 * double where LH_IN_DOUBLE is defined (`ref`). LH_REAL_FN(exp) is exp of that type. */
#ifndef LH_KERNELS_REAL_H
#define LH_KERNELS_REAL_H

#include <math.h>

#ifdef LH_IN_DOUBLE
typedef double lh_real;
#define LH_REAL_FN(name) name
#else
typedef float lh_real;
#define LH_REAL_FN(name) name##f
#endif

#endif
