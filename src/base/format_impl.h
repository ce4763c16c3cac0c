/* format_impl.h - shared by format.c, the table of formats, and format_pack.c. Each function writes one block. */
#ifndef LH_BASE_FORMAT_IMPL_H
#define LH_BASE_FORMAT_IMPL_H

#include <stdint.h>

/* From an f16 scale and 32 codes. */
void lh_join_q4_0(uint8_t *block, uint16_t d, const unsigned *code);
void lh_join_q5_0(uint8_t *block, uint16_t d, const unsigned *code);
void lh_join_q8_0(uint8_t *block, uint16_t d, const unsigned *code);

/* From the values. */
void lh_pack_q4_0(uint8_t *block, const float *values);
void lh_pack_q4_1(uint8_t *block, const float *values);
void lh_pack_q5_0(uint8_t *block, const float *values);
void lh_pack_q5_1(uint8_t *block, const float *values);
void lh_pack_q8_0(uint8_t *block, const float *values);
void lh_pack_q4_k(uint8_t *block, const float *values);
void lh_pack_q5_k(uint8_t *block, const float *values);
void lh_pack_q6_k(uint8_t *block, const float *values);
void lh_pack_f8_e4m3(uint8_t *block, const float *values);

#endif
