/* rope.c - rotary frequencies as modeling_rope_utils.py of transformers 4.57 computes them: in float32 where torch
 * does, in double where Python does. Products are not fused (the build compiles this file with -ffp-contract=off). pow
 * is rounded from double; torch's float pow is within one unit in the last place of that. */
#include <assert.h>
#include <math.h>

#include "base/minmax.h"
#include "import/config.h"

/* 1 / base^(2i / dim) and base^(2i / dim). */
static float power(double base, int64_t i, int64_t dim)
{
    return (float)pow((double)(float)base, (double)((float)(2 * i) / (float)dim));
}

/* Base of dynamic NTK (_compute_dynamic_ntk_parameters): stretched if the run is longer than the model. There the
 * length is a tensor, so this is float32. */
static double dynamic_base(const lh_rope *rope, int64_t dim, int64_t length)
{
    if (length <= rope->max_positions) return rope->theta;
    float stretch = (float)rope->factor * (float)length / (float)rope->max_positions - (float)(rope->factor - 1);
    return (float)rope->theta * (float)pow(stretch, (double)dim / (double)(dim - 2));
}

/* _compute_llama3_parameters, one frequency. */
static float llama3(const lh_rope *rope, float f)
{
    double old = (double)rope->original_positions;
    float factor = (float)rope->factor, low = (float)(old / rope->low_freq_factor),
          high = (float)(old / rope->high_freq_factor), length = (float)(2 * M_PI) / f;
    if (length > low) return f / factor;
    if (length < high) return f;
    float smooth =
        ((float)old / length - (float)rope->low_freq_factor) / (float)(rope->high_freq_factor - rope->low_freq_factor);
    return (1 - smooth) * f / factor + smooth * f;
}

/* The dimension that makes `rotations` turns within the original length. */
static double yarn_dim(const lh_rope *rope, double rotations, int64_t dim)
{
    return (double)dim * log((double)rope->original_positions / (rotations * 2 * M_PI)) / (2 * log(rope->theta));
}

static double yarn_mscale(double scale, double mscale)
{
    return scale <= 1 ? 1 : 0.1 * mscale * log(scale) + 1;
}

/* _compute_yarn_parameters. */
static void yarn(const lh_rope *rope, int64_t dim, float *inv_freq, float *scale)
{
    double low = yarn_dim(rope, rope->beta_fast, dim), high = yarn_dim(rope, rope->beta_slow, dim),
           attention = rope->attention_factor;
    if (rope->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, (double)(dim - 1));
    if (low == high) high += 0.001;
    for (int64_t i = 0; i < dim / 2; i++) {
        float p = power(rope->theta, i, dim), kept = 1 / p, stretched = 1 / ((float)rope->factor * p);
        float ramp = ((float)i - (float)low) / (float)(high - low);
        float keep = 1 - fminf(fmaxf(ramp, 0), 1);
        inv_freq[i] = stretched * (1 - keep) + kept * keep;
    }
    if (attention == 0 && rope->mscale != 0 && rope->mscale_all_dim != 0)
        attention = yarn_mscale(rope->factor, rope->mscale) / yarn_mscale(rope->factor, rope->mscale_all_dim);
    if (attention == 0) attention = yarn_mscale(rope->factor, 1);
    *scale = (float)attention;
}

/* _compute_longrope_parameters. */
static void longrope(const lh_rope *rope, int64_t dim, int64_t length, float *inv_freq, float *scale)
{
    const double *factors = length > rope->original_positions ? rope->long_factor : rope->short_factor;
    double attention = rope->attention_factor;
    for (int64_t i = 0; i < dim / 2; i++) inv_freq[i] = 1 / ((float)factors[i] * power(rope->theta, i, dim));
    if (attention == 0)
        attention = rope->factor <= 1 ? 1 : sqrt(1 + log(rope->factor) / log((double)rope->original_positions));
    *scale = (float)attention;
}

void lh_rope_frequencies(const lh_rope *rope, int64_t rotary_dim, int64_t length, float *inv_freq, float *scale)
{
    assert(rope->kind < LH_ROPE_KINDS && rotary_dim % 2 == 0);
    *scale = 1;
    if (rope->kind == LH_ROPE_YARN) {
        yarn(rope, rotary_dim, inv_freq, scale);
        return;
    }
    if (rope->kind == LH_ROPE_LONGROPE) {
        longrope(rope, rotary_dim, length, inv_freq, scale);
        return;
    }
    double base = rope->kind == LH_ROPE_DYNAMIC ? dynamic_base(rope, rotary_dim, length) : rope->theta;
    for (int64_t i = 0; i < rotary_dim / 2; i++) {
        inv_freq[i] = 1 / power(base, i, rotary_dim);
        if (rope->kind == LH_ROPE_LINEAR) inv_freq[i] /= (float)rope->factor;
        if (rope->kind == LH_ROPE_LLAMA3) inv_freq[i] = llama3(rope, inv_freq[i]);
    }
}

static int64_t rotates_until(const lh_rope *rope, int64_t length)
{
    if (rope->kind == LH_ROPE_LONGROPE && length <= rope->original_positions) return rope->original_positions;
    if (rope->kind == LH_ROPE_DYNAMIC) return lh_max_i64(length, rope->max_positions);
    return INT64_MAX;
}

int64_t lh_config_rotates_until(const lh_config *config, int64_t length)
{
    return lh_min_i64(rotates_until(&config->rope_global, length), rotates_until(&config->rope_local, length));
}
