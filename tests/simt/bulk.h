/* bulk.h - what tests may ask of the tensor copies of the emulation (bulk.cpp), and how they may go wrong. */
#ifndef LH_TESTS_SIMT_BULK_H
#define LH_TESTS_SIMT_BULK_H

#include <stdint.h>

/* Tensor copies since the program began. */
int64_t simt_tensor_copies(void);

/* wrong = 1: maps that are made from now on have no swizzle. */
void simt_maps_go(int wrong);

#endif
