/* pyramid.c - PyramidKV's budgets of layers, exact in total or rounded as in kvpress. All arithmetic is in integers, so
 * that every rank and machine computes the same. */
#include "policies/policy_impl.h"

typedef __int128 wide;

typedef struct pyramid_params {
    int64_t beta;
} pyramid_params;

static int64_t beta_of(const lh_policy_numbers *fixed)
{
    const pyramid_params *p = lh_params_of(&fixed->methods, LH_METHOD_pyramid);
    return p->beta;
}

/* PyramidKV (arXiv 2406.02069): x_l falls in a straight line from M to m. With both over beta, x_l is a quotient of
 * integers, and its floor exact. Without a window the last layers may get less than one entry: they get one, which
 * never exceeds the total, because x_l + x_(N-1-l) is an integer, so that their partners lose as much. */
static int pyramid_exact(const lh_policy_numbers *fixed, const lh_layers_request *q, int64_t entries, int64_t *budgets)
{
    if (q->layers == 1 || entries <= fixed->window) return 0;
    const int64_t base = entries - fixed->window, beta = beta_of(fixed);
    int64_t given = 0;
    wide low = base, high = 2 * (wide)base * beta - base;
    wide ceiling = (wide)(q->seen - fixed->window) * beta;
    if (high > ceiling) {
        high = ceiling;
        low = 2 * (wide)base * beta - high;
    }
    for (int64_t l = 0; l < q->layers; l++) {
        wide x = (high * (q->layers - 1) - l * (high - low)) / ((wide)beta * (q->layers - 1));
        budgets[l] = lh_layer_within(q, l, lh_max_i64(1, (int64_t)x + fixed->window));
        given += budgets[l];
    }
    lh_portions_give(&(lh_portions){.n = q->layers, .max = lh_layer_max, .of = q}, q->layers * entries - given,
                     budgets);
    return 1;
}

/* num / den to the nearest integer, halves to the even one, as Python's round does. Both are positive. */
static int64_t rounded(wide num, wide den)
{
    wide down = num / den, rest = 2 * (num % den);
    return (int64_t)(down + (rest > den || (rest == den && down % 2)));
}

/* The pyramid of kvpress 0.5.5: the whole budget falls in a straight line, and entries lost by rounding or capacity are
 * not given to other layers. 0: the pyramid would be narrower than the window; kvpress is then uniform. */
static int pyramid_rounded(const lh_policy_numbers *fixed, const lh_layers_request *q, int64_t entries,
                           int64_t *budgets)
{
    const int64_t beta = beta_of(fixed);
    wide low = entries, high = 2 * (wide)entries * beta - entries; /* over beta, all four */
    wide ceiling = (wide)(q->seen - fixed->window) * beta, window = (wide)fixed->window * beta;
    if (high >= ceiling) {
        high = ceiling;
        low = 2 * (wide)entries * beta - high;
    }
    if (high < low || low < window) return 0;
    int64_t steps = lh_max_i64(1, q->layers - 1);
    for (int64_t l = 0; l < q->layers; l++)
        budgets[l] = lh_layer_within(q, l, lh_max_i64(1, rounded(high * steps - l * (high - low), (wide)beta * steps)));
    return 1;
}

int lh_pyramid(const lh_policy_numbers *fixed, const lh_layers_request *q, int64_t *budgets)
{
    return (lh_is_kvpress(&fixed->methods) ? pyramid_rounded : pyramid_exact)(fixed, q, fixed->budget, budgets);
}

static int has_pyramid(const lh_policy *policy)
{
    return policy->budgets.layers == LH_LAYERS_PYRAMID;
}

static lh_status warn(const lh_outlook *o, lh_buf *out)
{
    int64_t budgets[2];
    lh_layers_request two = {.layers = 2, .seen = o->seen};
    if (!lh_is_kvpress(&o->fixed.methods) || lh_pyramid(&o->fixed, &two, budgets)) return LH_OK;
    return lh_buf_printf(out,
                         "every layer gets %lld entries: the narrow end of the pyramid would be smaller than the "
                         "window %lld, and a pyramid of kvpress then is uniform\n",
                         (long long)o->fixed.budget, (long long)o->fixed.window);
}

static const lh_part parts[] = {{LH_PART_NUMBER(pyramid, pyramid_params, beta), .after = "layer-budget", .def = "20",
                                 .min = 1, .row.name = "beta", .row.arg = "N", .row.help = "Steepness of the pyramid."},
                                {.row.name = NULL}};

const lh_method lh_method_pyramid = {
    .option = "--layer-budget pyramid", .active = has_pyramid, .parts = parts, .traits = LH_HAS_COMPAT, .warn = warn};
