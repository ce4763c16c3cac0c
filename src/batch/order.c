/* order.c - sorts lines by their contexts, and these by what they take. */
#include "batch/order.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/minmax.h"

/* More than the bytes of a line. */
static const int64_t CONTEXTS_FIRST = INT64_C(1) << 60;

typedef struct place {
    int64_t i, first; /* first: line of its context */
    int64_t bytes;    /* of the longest line of its context that has no answer; 0 for all where they stand */
    uint64_t context;
} place;

static int ascending(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_context(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->context != y->context) return x->context < y->context ? -1 : 1;
    return ascending(x->i, y->i);
}

static int by_turn(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->bytes != y->bytes) return ascending(y->bytes, x->bytes);
    return x->first != y->first ? ascending(x->first, y->first) : ascending(x->i, y->i);
}

/* The lines of one context, n of them; 0 if all have an answer. */
static int settle_context(place *at, int64_t n, const uint8_t *done)
{
    int64_t longest = -1;
    for (int64_t k = 0; k < n; k++)
        if (!done[at[k].i]) longest = lh_max_i64(longest, at[k].bytes);
    for (int64_t k = 0; k < n; k++) {
        at[k].first = at[0].i;
        at[k].bytes = longest;
    }
    return longest >= 0;
}

/* Lines sorted by context; returns how many have a turn. */
static int64_t settle(place *at, int64_t n, const uint8_t *done)
{
    int64_t kept = 0;
    for (int64_t from = 0, to; from < n; from = to) {
        to = from + 1;
        while (to < n && at[from].context && at[to].context == at[from].context) to++;
        if (!settle_context(at + from, to - from, done)) continue;
        for (int64_t k = from; k < to; k++) at[kept++] = at[k];
    }
    return kept;
}

lh_status lh_batch_order_make(lh_batch_order *out, const lh_batch_input *input, const lh_batch_order_options *options)
{
    lh_status st = LH_OK;
    const int64_t all = lh_batch_input_count(input);
    place *at = NULL;
    LH_TRY_DONE(lh_calloc(&at, all, sizeof *at));
    LH_TRY_DONE(lh_calloc(&out->lines, all, sizeof *out->lines));
    LH_TRY_DONE(lh_calloc(&out->contexts, all, sizeof *out->contexts));
    for (int64_t i = 0; i < all; i++) {
        const lh_batch_line *line = lh_batch_input_line(input, i);
        const int64_t bytes = line->bytes + (line->context ? CONTEXTS_FIRST : 0);
        at[i] = (place){.i = i, .bytes = options->as_they_stand ? 0 : bytes, .context = line->context};
    }
    qsort(at, (size_t)all, sizeof *at, by_context);
    out->n = settle(at, all, options->done);
    qsort(at, (size_t)out->n, sizeof *at, by_turn);
    for (int64_t k = 0; k < out->n; k++) {
        out->lines[k] = at[k].i;
        out->contexts[k] = at[k].context;
    }
done:
    lh_free(at);
    return st;
}

void lh_batch_order_clear(lh_batch_order *order)
{
    lh_free(order->lines);
    lh_free(order->contexts);
    *order = (lh_batch_order){.lines = NULL};
}

int64_t lh_batch_order_turn(const lh_batch_order *order, int64_t at)
{
    const uint64_t context = order->contexts[at];
    int64_t n = 1;
    while (context && at + n < order->n && order->contexts[at + n] == context) n++;
    return n;
}
