/* stops.h - stop sequences: where an answer that grows token by token ends, and how much of it is final. */
#ifndef LH_ENGINE_STOPS_H
#define LH_ENGINE_STOPS_H

#include "base/mem.h"

typedef struct lh_stops {
    const char *const *at; /* [n] texts, borrowed */
    int64_t n;
} lh_stops;

/* Looks at text[from …], which has grown: cuts it before a stop text that ends after byte `early`, and returns 1, or
 * returns 0. *final: bytes of the text that no stop text can begin in. */
int lh_stops_cut(const lh_stops *stops, lh_buf *text, int64_t from, int64_t early, int64_t *final);

#endif
