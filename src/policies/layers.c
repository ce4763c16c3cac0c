/* Budgets of layers. */
#include <assert.h>

#include "policies/policy_impl.h"

typedef __int128 wide;

static int64_t layer_most(const lh_layers_request *q, int64_t l, int64_t entries)
{
    return q->sliding && q->sliding[l] ? lh_min_i64(entries, q->window) : entries;
}

static int64_t most_of(const void *of, int64_t l)
{
    const lh_layers_request *q = of;
    return layer_most(q, l, q->seen);
}

/* PyramidKV (arXiv 2406.02069): x_l falls in a straight line from M to m. With both over beta, x_l is the quotient of
 * whole numbers, and its floor exact. Without a window the last layers may get less than one entry: they get one, which
 * is never too much in all, because x_l + x_(N-1-l) is whole: their partners have lost as much. */
static void pyramid(const lh_policy_numbers *fixed, const lh_layers_request *q, int64_t entries, int64_t *budgets)
{
    int64_t base = entries - fixed->window, given = 0;
    wide low = base, high = 2 * (wide)base * fixed->budgets.beta - base;
    wide ceiling = (wide)(q->seen - fixed->window) * fixed->budgets.beta;
    if (high > ceiling) {
        high = ceiling;
        low = 2 * (wide)base * fixed->budgets.beta - high;
    }
    for (int64_t l = 0; l < q->layers; l++) {
        wide x = (high * (q->layers - 1) - l * (high - low)) / ((wide)fixed->budgets.beta * (q->layers - 1));
        budgets[l] = layer_most(q, l, lh_max_i64(1, (int64_t)x + fixed->window));
        given += budgets[l];
    }
    lh_portions_give(&(lh_portions){.n = q->layers, .most = most_of, .of = q}, q->layers * entries - given, budgets);
}

/* above / below to the nearest whole number, halves to the even one, as Python's round. Both are positive. */
static int64_t rounded(wide above, wide below)
{
    wide down = above / below, rest = 2 * (above % below);
    return (int64_t)(down + (rest > below || (rest == below && down % 2)));
}

/* The pyramid of kvpress 0.5.5: it is the whole budget that falls in a straight line, and nothing is made up for what
 * rounding or the room of a layer takes away. */
static int pyramid_rounded(const lh_policy_numbers *fixed, const lh_layers_request *q, int64_t entries,
                           int64_t *budgets)
{
    wide low = entries, high = 2 * (wide)entries * fixed->budgets.beta - entries; /* over beta, all four */
    wide ceiling = (wide)(q->seen - fixed->window) * fixed->budgets.beta,
         window = (wide)fixed->window * fixed->budgets.beta;
    if (high >= ceiling) {
        high = ceiling;
        low = 2 * (wide)entries * fixed->budgets.beta - high;
    }
    if (high < low || low < window) return 0;
    int64_t steps = lh_max_i64(1, q->layers - 1);
    for (int64_t l = 0; l < q->layers; l++)
        budgets[l] = layer_most(
            q, l, lh_max_i64(1, rounded(high * steps - l * (high - low), (wide)fixed->budgets.beta * steps)));
    return 1;
}

static void by_profile(const lh_layers_request *q, int64_t entries, int64_t *budgets)
{
    assert(q->profile && q->profile->layers == q->layers);
    lh_portions_share(&(lh_portions){.n = q->layers,
                                     .total = q->layers * entries,
                                     .least = 1,
                                     .weights = q->profile->weights,
                                     .most = most_of,
                                     .of = q},
                      budgets);
}

int lh_layers_narrow(const lh_policy_numbers *fixed, const lh_layers_request *request, int64_t *budgets)
{
    int64_t entries = fixed->budget;
    if (!fixed->evicts || entries >= request->seen) return 0;
    if (fixed->budgets.layers == LH_LAYERS_PROFILE) {
        by_profile(request, entries, budgets);
        return 1;
    }
    if (fixed->budgets.layers != LH_LAYERS_PYRAMID) return 0;
    if (fixed->compat == LH_COMPAT_KVPRESS) return pyramid_rounded(fixed, request, entries, budgets);
    if (request->layers == 1 || entries <= fixed->window) return 0;
    pyramid(fixed, request, entries, budgets);
    return 1;
}

void lh_policy_layers(const lh_policy_numbers *fixed, const lh_layers_request *request, int64_t *budgets)
{
    if (lh_layers_narrow(fixed, request, budgets)) return;
    int64_t entries = fixed->evicts ? fixed->budget : request->seen;
    for (int64_t l = 0; l < request->layers; l++) budgets[l] = layer_most(request, l, entries);
}
