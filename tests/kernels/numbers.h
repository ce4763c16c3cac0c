/* numbers.h - numbers of slots (lh_slot_floats) in a test: as statistics that go with the entries of a cache, or as
 * rows. What is not a number of the cache's slots is there too, so that a write beside them is seen. */
#ifndef LH_TESTS_KERNELS_NUMBERS_H
#define LH_TESTS_KERNELS_NUMBERS_H

#include "kernels/ragged.h"
#include "rig.h"

typedef enum number_layout { NUMBERS_STATS, NUMBERS_ROWS, NUMBER_LAYOUTS } number_layout;

typedef struct numbers {
    lh_slot_floats host; /* at: data + first */
    float *data;
    int64_t count, first;
} numbers;

/* `parts` numbers of every slot of c, normals. Rows have the length ld. */
void numbers_make(lot *m, numbers *out, const cache *c, int64_t parts, number_layout layout);

/* The numbers on the device, and those that are there as host numbers again. */
lh_slot_floats numbers_put(rig *g, const numbers *n, const lh_ragged *on);
float *numbers_get(lot *m, rig *g, const numbers *n, const lh_slot_floats *on);

/* Where number `c` of slot s of head h is in data. */
int64_t numbers_index(const numbers *n, int64_t h, int64_t s, int64_t c);

#endif
