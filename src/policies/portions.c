/* Entries shared out by weights, in whole numbers. Weights are below 10^18, so that a product with a number of entries
 * fits into 128 bits. */
#include <assert.h>

#include "policies/policy_impl.h"

typedef __int128 wide;

static int64_t least_of(const lh_portions *q, int64_t i)
{
    return lh_min_i64(q->least, q->most(q->of, i));
}

void lh_portions_give(const lh_portions *q, int64_t missing, int64_t *out)
{
    while (missing > 0) {
        int64_t open = 0, room = missing;
        for (int64_t i = 0; i < q->n; i++) {
            int64_t r = q->most(q->of, i) - out[i];
            if (r > 0) open++, room = lh_min_i64(room, r);
        }
        if (!open) return;
        int64_t each = lh_max_i64(1, lh_min_i64(room, missing / open)); /* whole rounds at once */
        for (int64_t i = 0; i < q->n && missing > 0; i++)
            if (q->most(q->of, i) > out[i]) out[i] += each, missing -= each;
    }
}

/* What is to be given by weights: `entries` entries, and the sum of the weights that share them. */
typedef struct rest {
    int64_t entries;
    wide weights;
} rest;

/* Things whose part would be less than the least get that, which makes the parts of the others smaller; the others are
 * left at -1. They never run out: those that are left have at least their least to share. */
static rest fix_least(const lh_portions *q, int64_t total, int64_t *out)
{
    rest r = {.entries = total};
    int fixed = 1;
    for (int64_t i = 0; i < q->n; i++) out[i] = -1, r.weights += q->weights[i];
    while (fixed) {
        rest now = r;
        fixed = 0;
        for (int64_t i = 0; i < q->n; i++) {
            int64_t least = least_of(q, i);
            if (out[i] >= 0 || (wide)r.entries * q->weights[i] >= least * r.weights) continue;
            out[i] = least;
            now.entries -= least;
            now.weights -= q->weights[i];
            fixed = 1;
        }
        r = now;
    }
    return r;
}

/* Floors, then one each to the largest remainders, ties to the lower number. */
static void share_rest(const lh_portions *q, rest r, int64_t *out)
{
    int64_t left = r.entries;
    for (int64_t i = 0; i < q->n; i++) {
        if (out[i] >= 0) continue;
        out[i] = -2 - (int64_t)((wide)r.entries * q->weights[i] / r.weights); /* below -1: its floor, still to round */
        left -= -2 - out[i];
    }
    while (left-- > 0) {
        int64_t best = -1;
        wide most = -1;
        for (int64_t i = 0; i < q->n; i++) {
            wide remainder = (wide)r.entries * q->weights[i] % r.weights;
            if (out[i] < 0 && remainder > most) best = i, most = remainder;
        }
        assert(best >= 0);
        out[best] = -2 - out[best] + 1;
    }
    for (int64_t i = 0; i < q->n; i++)
        if (out[i] < 0) out[i] = -2 - out[i];
}

void lh_portions_share(const lh_portions *q, int64_t *out)
{
    int64_t total = q->total, room = 0, given = 0;
    for (int64_t i = 0; i < q->n; i++) room += q->most(q->of, i);
    total = lh_min_i64(total, room);
    share_rest(q, fix_least(q, total, out), out);
    for (int64_t i = 0; i < q->n; i++) given += out[i] = lh_min_i64(out[i], q->most(q->of, i));
    lh_portions_give(q, total - given, out);
}
