#include <assert.h>
#include <stdlib.h>

#include "policies/policy_impl.h"

typedef __int128 wide;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t lh_policy_entries(const lh_policy_plan *plan, int64_t seen)
{
    if (!plan->evicts) return seen;
    return plan->budget_is_share ? most(1, lh_percent_of(plan->budget_share, seen)) : plan->budget_entries;
}

int64_t lh_policy_rows(const lh_policy_plan *plan, int64_t seen)
{
    if (!plan->evicts || plan->source != LH_SCORE_ATTENTION) return 0;
    return least(seen, plan->rows_is_share ? most(1, lh_percent_of(plan->rows_share, seen)) : plan->rows);
}

lh_protection lh_policy_protect(const lh_policy_plan *plan, const lh_protect_request *request)
{
    lh_protection p = {.budget = least(request->budget, request->seen - request->visible_from)};
    p.sinks = least(most(0, least(plan->sinks, request->seen) - request->visible_from), p.budget);
    p.recents = least(most(plan->recents, plan->window), p.budget - p.sinks);
    p.base = p.budget - p.sinks - p.recents;
    return p;
}

/* ---- over layers ---- */

static int64_t layer_most(const lh_layers_request *q, int64_t l, int64_t entries)
{
    return q->sliding && q->sliding[l] ? least(entries, q->window) : entries;
}

/* Give `missing` entries one each to layers 0, 1, … that have room below most[l], round after round; whole rounds at
 * once. */
static void give_to_layers(const lh_layers_request *q, int64_t missing, int64_t *budgets)
{
    while (missing > 0) {
        int64_t open = 0, room = missing;
        for (int64_t l = 0; l < q->layers; l++) {
            int64_t r = layer_most(q, l, q->seen) - budgets[l];
            if (r > 0) open++, room = least(room, r);
        }
        if (!open) return;
        int64_t each = most(1, least(room, missing / open));
        for (int64_t l = 0; l < q->layers && missing > 0; l++)
            if (layer_most(q, l, q->seen) > budgets[l]) budgets[l] += each, missing -= each;
    }
}

/* PyramidKV (arXiv 2406.02069): x_l falls in a straight line from M to m. With both over beta, x_l is the quotient of
 * whole numbers, and its floor exact. Without a window the last layers may get less than one entry: they get one, which
 * is never too much in all, because x_l + x_(N-1-l) is whole: their partners have lost as much. */
static void pyramid(const lh_policy_plan *plan, const lh_layers_request *q, int64_t entries, int64_t *budgets)
{
    int64_t base = entries - plan->window, given = 0;
    wide low = base, high = 2 * (wide)base * plan->beta - base;
    wide ceiling = (wide)(q->seen - plan->window) * plan->beta;
    if (high > ceiling) {
        high = ceiling;
        low = 2 * (wide)base * plan->beta - high;
    }
    for (int64_t l = 0; l < q->layers; l++) {
        wide x = (high * (q->layers - 1) - l * (high - low)) / ((wide)plan->beta * (q->layers - 1));
        budgets[l] = layer_most(q, l, most(1, (int64_t)x + plan->window));
        given += budgets[l];
    }
    give_to_layers(q, q->layers * entries - given, budgets);
}

void lh_policy_layers(const lh_policy_plan *plan, const lh_layers_request *request, int64_t *budgets)
{
    int64_t entries = lh_policy_entries(plan, request->seen);
    if (plan->evicts && plan->layers == LH_LAYERS_PYRAMID && request->layers > 1 && entries > plan->window &&
        entries < request->seen) {
        pyramid(plan, request, entries, budgets);
        return;
    }
    for (int64_t l = 0; l < request->layers; l++) budgets[l] = layer_most(request, l, entries);
}

/* ---- over heads ---- */

void lh_policy_interp(const lh_policy_plan *plan, const lh_interp_request *request, int64_t *budgets)
{
    wide ten = 1;
    for (int i = 0; i < plan->alpha.scale; i++) ten *= 10;
    int64_t floor_ = lh_decimal_of(plan->alpha, request->base), given = 0, held = 0;
    for (int64_t h = 0; h < request->heads; h++) {
        wide x = request->counts[h] * (ten - plan->alpha.digits) + floor_ * ten; /* x_h over ten */
        budgets[h] = least((int64_t)(x / ten), request->room[h]);
        given += budgets[h];
        held += request->room[h];
    }
    for (int64_t missing = least(request->heads * request->base, held) - given; missing > 0; missing--) {
        int64_t best = -1;
        wide lag = 0;
        for (int64_t h = 0; h < request->heads; h++) {
            wide x = request->counts[h] * (ten - plan->alpha.digits) + floor_ * ten - budgets[h] * ten;
            if (budgets[h] < request->room[h] && (best < 0 || x > lag)) best = h, lag = x;
        }
        assert(best >= 0);
        budgets[best]++;
    }
}
