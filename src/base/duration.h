/* duration.h - seconds for people and for batch systems. */
#ifndef LH_BASE_DURATION_H
#define LH_BASE_DURATION_H

#include <stdint.h>

enum { LH_DURATION_TEXT = 48 };

/* Returns `out`: "7 s", "12 min", "3 h 20 min", rounded up; below a second "0.21 s", or "3.4 ms". */
const char *lh_duration_text(char out[LH_DURATION_TEXT], double seconds);

/* Minutes to ask a batch system for: a quarter more, and five minutes for the end of a run at its limit, rounded up to
 * five. */
int64_t lh_duration_limit_min(double seconds);

#endif
