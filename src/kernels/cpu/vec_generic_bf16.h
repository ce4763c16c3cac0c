/* vec_generic_bf16.h - vectors of 4 floats: the first elements of a vector, bf16 numbers and pairs of them, transposes.
 */
#ifndef LH_KERNELS_CPU_VEC_GENERIC_BF16_H
#define LH_KERNELS_CPU_VEC_GENERIC_BF16_H

VEC_FN vf vf_load_first(const float *p, int64_t n)
{
    vf x = {0};
    if (n >= VL) return vf_load(p);
    for (int64_t i = 0; i < n; i++) x[i] = p[i];
    return x;
}

VEC_FN void vf_store_first(float *p, vf x, int64_t n)
{
    for (int64_t i = 0; i < (n < VL ? n : VL); i++) p[i] = x[i];
}

VEC_FN vf vf_load_bf16(const uint16_t *p)
{
    return (vf){lh_bf16_to_f32(p[0]), lh_bf16_to_f32(p[1]), lh_bf16_to_f32(p[2]), lh_bf16_to_f32(p[3])};
}

VEC_FN vf vf_load_bf16_first(const uint16_t *p, int64_t n)
{
    vf x = {0};
    for (int64_t i = 0; i < (n < VL ? n : VL); i++) x[i] = lh_bf16_to_f32(p[i]);
    return x;
}

VEC_FN void vf_store_bf16_first(uint16_t *p, vf x, int64_t n)
{
    for (int64_t i = 0; i < (n < VL ? n : VL); i++) p[i] = lh_f32_to_bf16(x[i]);
}

VEC_FN void vf_store_bf16(uint16_t *p, vf x)
{
    vf_store_bf16_first(p, x, VL);
}

VEC_FN vf vf_even(vf words)
{
    return (vf)((vi)words << 16);
}

VEC_FN vf vf_odd(vf words)
{
    return (vf)((vi)words & vi_set1((int32_t)0xffff0000));
}

VEC_FN vf vf_pair(vf even, vf odd)
{
    return (vf)(((vi)even >> 16 & vi_set1(0xffff)) | (vi)odd);
}

VEC_FN vf vf_dot(vf a, vf b, vf c)
{
    return vf_fma(vf_odd(a), vf_odd(b), vf_fma(vf_even(a), vf_even(b), c));
}

VEC_FN void vf_store_weights(uint16_t *p, vf x)
{
    vf_store_bf16(p, x);
}

VEC_FN void vf_transpose(vf x[VL])
{
    for (int i = 0; i < VL; i++) {
        for (int j = 0; j < i; j++) {
            float upper = x[j][i];
            x[j][i] = x[i][j];
            x[i][j] = upper;
        }
    }
}

VEC_FN vf vf_sums(const vf x[VL])
{
    return (vf){vf_sum(x[0]), vf_sum(x[1]), vf_sum(x[2]), vf_sum(x[3])};
}

#endif
