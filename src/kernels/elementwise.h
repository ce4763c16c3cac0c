/* elementwise.h - activation functions and soft caps, as `ref` (in double) and `cuda` evaluate them; `cpu` has vector
 * functions (cpu/vecmath.h). */
#ifndef LH_KERNELS_ELEMENTWISE_H
#define LH_KERNELS_ELEMENTWISE_H

#include "base/both.h"
#include "kernels/ops_model.h"
#include "kernels/real.h"

static LH_BOTH inline lh_real lh_gate_of(lh_real x, lh_gate kind)
{
    const lh_real one = 1, half = (lh_real)0.5, root_2_over_pi = (lh_real)0.7978845608028654;
    if (kind == LH_GATE_SILU) return x / (one + LH_REAL_FN(exp)(-x));
    if (kind == LH_GATE_GELU) return half * x * (one + LH_REAL_FN(erf)(x * (lh_real)0.7071067811865476));
    return half * x * (one + LH_REAL_FN(tanh)(root_2_over_pi * (x + (lh_real)0.044715 * x * x * x)));
}

static LH_BOTH inline float lh_softcapped(float x, float cap)
{
    return (float)(cap * LH_REAL_FN(tanh)((lh_real)x / cap));
}

#endif
