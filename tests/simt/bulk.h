/* bulk.h - what tests may ask of the tensor copies of the emulation (bulk.cpp), and how they may go wrong. */
#ifndef LH_TESTS_SIMT_BULK_H
#define LH_TESTS_SIMT_BULK_H

#include <stdint.h>

/* Tensor copies since the program began. */
int64_t simt_tensor_copies(void);

/* Maps that are asked for from now on: right ones, without a swizzle, or none. */
typedef enum simt_maps_way { SIMT_MAPS_WELL, SIMT_MAPS_WRONG, SIMT_MAPS_REFUSED } simt_maps_way;
void simt_maps_go(simt_maps_way way);

#endif
