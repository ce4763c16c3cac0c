/* format_impl.h - shared by format.c, the table of formats, and format_pack.c. Each function writes one block. */
#ifndef LH_BASE_FORMAT_IMPL_H
#define LH_BASE_FORMAT_IMPL_H

#include <stdint.h>

void lh_pack_q4_0(uint8_t *block, const float *values);
void lh_pack_q4_1(uint8_t *block, const float *values);
void lh_pack_q5_0(uint8_t *block, const float *values);
void lh_pack_q5_1(uint8_t *block, const float *values);
void lh_pack_q8_0(uint8_t *block, const float *values);
void lh_pack_q4_k(uint8_t *block, const float *values);
void lh_pack_q5_k(uint8_t *block, const float *values);
void lh_pack_q6_k(uint8_t *block, const float *values);

#endif
