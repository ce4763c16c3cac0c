#include "engine/stops.h"

#include <string.h>

#include "base/minmax.h"

/* Bytes at the end of the text, after `from`, that a stop text of n bytes may begin with. */
static int64_t begun(const lh_buf *text, int64_t from, const char *stop, int64_t n)
{
    for (int64_t k = lh_min_i64(n - 1, text->bytes - from); k > 0; k--)
        if (memcmp(text->data + text->bytes - k, stop, (size_t)k) == 0) return k;
    return 0;
}

int lh_stops_cut(const lh_stops *stops, lh_buf *text, int64_t from, int64_t early, int64_t *final)
{
    int64_t held = 0;
    char *first = NULL; /* where the first stop text begins */
    for (int64_t i = 0; i < stops->n && text->bytes; i++) {
        const int64_t n = (int64_t)strlen(stops->at[i]);
        const int64_t begin = lh_max_i64(from, early - n + 1), left = text->bytes - begin;
        char *at = n && left > 0 ? memmem(text->data + begin, (size_t)left, stops->at[i], (size_t)n) : NULL;
        if (at && (!first || at < first)) first = at;
        held = lh_max_i64(held, begun(text, from, stops->at[i], n));
    }
    if (first) {
        text->bytes = first - text->data;
        *first = '\0';
    }
    *final = text->bytes - (first ? 0 : held);
    return first != NULL;
}
