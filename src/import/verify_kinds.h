/* verify_kinds.h - what a file of each kind must hold, for verify.c: a table of objects, and the numbers that say how
 * many there are. Contents of arrays are verify.c's. */
#ifndef LH_IMPORT_VERIFY_KINDS_H
#define LH_IMPORT_VERIFY_KINDS_H

#include "base/h5.h"

/* LH_EFILE for a kind that longhaul does not write, a newer schema, a missing object or attribute, or numbers that
 * contradict each other. */
lh_status lh_verify_kind(lh_h5 *h5, int64_t schema);

#endif
