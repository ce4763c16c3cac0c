/* portions.c - budgets of layers and heads as portions of a total: the capacity of a layer, the entries that rounding
 * leaves over, and portions by the weights of a profile. Weights are below 10^18, so that a product with a number of
 * entries fits into 128 bits. */
#include <assert.h>

#include "policies/policy_impl.h"

typedef __int128 wide;

int64_t lh_layer_within(const lh_layers_request *q, int64_t l, int64_t entries)
{
    return q->sliding && q->sliding[l] ? lh_min_i64(entries, q->window) : entries;
}

int64_t lh_layer_max(const void *request, int64_t l)
{
    const lh_layers_request *q = request;
    return lh_layer_within(q, l, q->seen);
}

void lh_portions_give(const lh_portions *q, int64_t missing, int64_t *out)
{
    while (missing > 0) {
        int64_t open = 0, room = missing;
        for (int64_t i = 0; i < q->n; i++) {
            int64_t r = q->max(q->of, i) - out[i];
            if (r > 0) open++, room = lh_min_i64(room, r);
        }
        if (!open) return;
        int64_t each = lh_max_i64(1, lh_min_i64(room, missing / open)); /* whole rounds */
        for (int64_t i = 0; i < q->n && missing > 0; i++)
            if (q->max(q->of, i) > out[i]) out[i] += each, missing -= each;
    }
}

/* ---- by weights: integers in proportion to them, exact in total, within what each layer or head can hold ---- */

/* The remainder to divide by weights: a number of entries, and the sum of the weights that share them. */
typedef struct rest {
    int64_t entries;
    wide weights;
} rest;

/* Gives the minimum to every share that would be below it, which reduces the other shares, and sets them to -1. The
 * remainder always suffices for their minima. */
static rest fix_minima(const lh_portions *q, int64_t total, int64_t *out)
{
    rest r = {.entries = total};
    int fixed = 1;
    for (int64_t i = 0; i < q->n; i++) out[i] = -1, r.weights += q->weights[i];
    while (fixed) {
        rest now = r;
        fixed = 0;
        for (int64_t i = 0; i < q->n; i++) {
            int64_t min = lh_min_i64(q->min, q->max(q->of, i));
            if (out[i] >= 0 || (wide)r.entries * q->weights[i] >= min * r.weights) continue;
            out[i] = min;
            now.entries -= min;
            now.weights -= q->weights[i];
            fixed = 1;
        }
        r = now;
    }
    return r;
}

/* Floors, then one each to the largest remainders, ties to the lower number. */
static void divide_rest(const lh_portions *q, rest r, int64_t *out)
{
    int64_t left = r.entries;
    for (int64_t i = 0; i < q->n; i++) {
        if (out[i] >= 0) continue;
        out[i] = -2 - (int64_t)((wide)r.entries * q->weights[i] / r.weights); /* below -1: its floor, still to round */
        left -= -2 - out[i];
    }
    while (left-- > 0) {
        int64_t best = -1;
        wide max = -1;
        for (int64_t i = 0; i < q->n; i++) {
            wide remainder = (wide)r.entries * q->weights[i] % r.weights;
            if (out[i] < 0 && remainder > max) best = i, max = remainder;
        }
        assert(best >= 0);
        out[best] = -2 - out[best] + 1;
    }
    for (int64_t i = 0; i < q->n; i++)
        if (out[i] < 0) out[i] = -2 - out[i];
}

static void divide(const lh_portions *q, int64_t *out)
{
    int64_t total = q->total, room = 0, given = 0;
    for (int64_t i = 0; i < q->n; i++) room += q->max(q->of, i);
    total = lh_min_i64(total, room);
    divide_rest(q, fix_minima(q, total, out), out);
    for (int64_t i = 0; i < q->n; i++) given += out[i] = lh_min_i64(out[i], q->max(q->of, i));
    lh_portions_give(q, total - given, out);
}

void lh_profile_layers(const lh_layers_request *q, int64_t entries, int64_t *budgets)
{
    assert(q->profile && q->profile->layers == q->layers);
    divide(&(lh_portions){.n = q->layers,
                          .total = q->layers * entries,
                          .min = 1,
                          .weights = q->profile->weights,
                          .max = lh_layer_max,
                          .of = q},
           budgets);
}

/* The rooms of layers that already have `even` entries each. */
typedef struct beside {
    const lh_layers_request *q;
    int64_t even;
} beside;

static int64_t room_beside(const void *of, int64_t l)
{
    const beside *b = of;
    return lh_max_i64(0, lh_layer_max(b->q, l) - b->even);
}

void lh_learnt_layers(const lh_layers_request *q, int64_t entries, int64_t even, int64_t *budgets)
{
    const beside b = {q, even};
    int64_t total = q->layers * entries;
    assert(q->shares);
    for (int64_t l = 0; l < q->layers; l++) total -= lh_min_i64(even, lh_layer_max(q, l));
    divide(
        &(lh_portions){
            .n = q->layers, .total = total, .min = even == 0, .weights = q->shares, .max = room_beside, .of = &b},
        budgets);
    for (int64_t l = 0; l < q->layers; l++) budgets[l] += lh_min_i64(even, lh_layer_max(q, l));
}

/* Number of entries of head h. */
static int64_t held(const void *of, int64_t h)
{
    const lh_heads_request *q = of;
    return q->room[h] + q->protect->sinks + q->protect->recents;
}

void lh_policy_heads(const lh_heads_request *request, int64_t *budgets)
{
    const lh_protection *p = request->protect;
    int64_t heads = request->heads, protected_ = p->sinks + p->recents;
    assert(request->profile && request->profile->heads == heads);
    divide(&(lh_portions){.n = heads,
                          .total = heads * p->budget,
                          .min = lh_max_i64(1, protected_),
                          .weights = request->profile->weights + request->layer * heads,
                          .max = held,
                          .of = request},
           budgets);
    for (int64_t h = 0; h < heads; h++) budgets[h] -= protected_;
}
