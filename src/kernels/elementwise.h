/* elementwise.h - activation functions, soft caps, factors of queries and logarithms of lengths, for all backends
 * (`ref` in double); of the first two `cpu` has vector functions (cpu/vec.h). */
#ifndef LH_KERNELS_ELEMENTWISE_H
#define LH_KERNELS_ELEMENTWISE_H

#include <math.h>

#include "base/both.h"
#include "kernels/ops_model.h"

/* lh_real: the type in which a backend evaluates a shared formula before it rounds to f32: float, or double where
 * LH_IN_DOUBLE is defined (`ref`). LH_REAL_FN(exp): exp of that type. */
#ifdef LH_IN_DOUBLE
typedef double lh_real;
#define LH_REAL_FN(name) name
#else
typedef float lh_real;
#define LH_REAL_FN(name) name##f
#endif

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

static LH_BOTH inline lh_real lh_query_factor(const lh_query_scaling *s, int32_t position)
{
    const lh_real one = 1;
    if (s->positions == 0) return one;
    lh_real factor = one + (lh_real)s->beta * LH_REAL_FN(log)((lh_real)(1 + position / s->positions));
    return s->inverse ? one / factor : factor;
}

/* ln of a length, which counts as 1e-6 at least, from its square. */
static LH_BOTH inline lh_real lh_log_length(lh_real square)
{
    const lh_real length = LH_REAL_FN(sqrt)(square), least = (lh_real)1e-6;
    return LH_REAL_FN(log)(length > least ? length : least);
}

#endif
