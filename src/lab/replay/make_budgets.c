/* make_budgets.c - loss curves of a replay, and the budgets that they make. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hull.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "lab/replay/make_budgets.h"
#include "lab/replay/replay_impl.h"

/* Budgets of the curves: 2^(i/4) times the given one, for i from -SIDE to SIDE. */
enum { SIDE = 15 };

/* Minimum share of the uniform budget that every KV head and every layer keeps: the safeguard of the default policy
 * (alpha). */
static const double safeguard = 0.2;

/* ---- what to replay ---- */

static lh_decimal decimal_of(double x)
{
    return (lh_decimal){.digits = llround(x * 1e6), .scale = 6};
}

/* `factor` times the budget: at least one entry, at most the whole prompt. */
static lh_policy_amount multiply(lh_policy_amount budget, double factor)
{
    if (budget.percent.digits)
        return (lh_policy_amount){.percent =
                                      decimal_of(fmax(1e-6, fmin(100, factor * lh_decimal_value(budget.percent))))};
    return (lh_policy_amount){.n = lh_max_i64(1, llround(factor * (double)budget.n))};
}

static double amount_of(lh_policy_amount budget)
{
    return budget.percent.digits ? lh_decimal_value(budget.percent) : (double)budget.n;
}

static lh_status name_budget(lh_policy_amount budget, char **out)
{
    if (budget.percent.digits) return lh_asprintf(out, "%.6f%%", lh_decimal_value(budget.percent));
    return lh_asprintf(out, "%lld", (long long)budget.n);
}

/* The policy at `factor` times its budget. Protected shares of the budget become the numbers of entries at the given
 * budget, because all heads will protect so many. */
static lh_status add_choice(lh_policy_list *list, const lh_policy_choice *given, double factor)
{
    lh_policy_choice *c = &list->at[list->n];
    *c = (lh_policy_choice){.policy = given->policy};
    list->n++;
    LH_TRY(lh_strdup(&c->name, given->name));
    if (factor == 1) return lh_strdup(&c->budget, given->budget);
    c->policy.budget = multiply(given->policy.budget, factor);
    if (given->policy.protect.sinks.percent.digits)
        c->policy.protect.sinks.percent = decimal_of(lh_decimal_value(given->policy.protect.sinks.percent) / factor);
    if (given->policy.protect.recents.percent.digits)
        c->policy.protect.recents.percent =
            decimal_of(lh_decimal_value(given->policy.protect.recents.percent) / factor);
    return name_budget(c->policy.budget, &c->budget);
}

/* Replaces the policies of the list by the policies of the grid; the list has the capacity. */
static lh_status spread(lh_budget_grid *grid, lh_policy_list *list, const lh_policy_choice *given)
{
    const double budget = amount_of(given->policy.budget);
    double last = 0;
    for (int i = -SIDE; i <= SIDE; i++) {
        const double factor = pow(2, i / 4.0), share = amount_of(multiply(given->policy.budget, factor)) / budget;
        if (share <= last || (i < 0 && share >= 1)) continue; /* no other number of entries */
        last = grid->shares[grid->points++] = i ? share : 1;
        LH_TRY(add_choice(list, given, i ? share : 1));
    }
    return LH_OK;
}

static lh_status check_policy(const lh_policy_list *list)
{
    const lh_policy_choice *c = &list->at[list->n - 1];
    if (list->n != 2 || !c->policy.evicts)
        LH_FAIL(LH_EUSAGE,
                "'--make-budgets' is for one policy at one budget: give them with '--policy' and '--budget'");
    if (c->policy.budgets.layers != LH_LAYERS_UNIFORM)
        LH_FAIL(LH_EUSAGE,
                "'--make-budgets' makes the budgets of layers, which policy '%s' has already: add '--layer-budget "
                "uniform' to it",
                c->name);
    if (lh_uses_method(&c->policy.methods, LH_METHOD_values))
        LH_FAIL(LH_EUSAGE,
                "'--make-budgets' makes budgets that differ, and policy '%s' keeps as many entries of each head by "
                "their values: add '--values 0' to it",
                c->name);
    return LH_OK;
}

lh_status lh_budget_grid_make(lh_budget_grid *out, lh_policy_list *policies, const lh_policy_options *options)
{
    lh_status st = LH_OK;
    lh_policy_choice given = {0};
    *out = (lh_budget_grid){0};
    if (!options->budget)
        LH_FAIL(LH_EUSAGE, "'--make-budgets' needs the budget that is divided: give '--budget', such as 10%%");
    LH_TRY(lh_policy_list_resolve(policies, options));
    LH_TRY(check_policy(policies));
    LH_TRY(lh_realloc(&policies->at, 2 + 2 * SIDE, sizeof *policies->at));
    policies->cap = 2 + 2 * SIDE;
    given = policies->at[--policies->n];
    if (given.policy.budget_bytes)
        LH_FAIL_DONE(LH_EUSAGE, "'--make-budgets' divides a budget of entries or a share: '--budget %s' is neither",
                     given.budget);
    out->policy = given.policy;
    LH_TRY_DONE(spread(out, policies, &given));
done:
    lh_free(given.name);
    lh_free(given.budget);
    return st;
}

/* ---- curves ---- */

/* 1 where the policy itself divides the budget of a layer. */
static int of_layers(const lh_policy *policy)
{
    return policy->budgets.heads != LH_HEADS_UNIFORM || policy->select.joint;
}

/* Losses [units, points]; a unit is a KV head, or a layer. */
static lh_status fetch_losses(const lh_replay *r, const lh_budget_grid *grid, double *losses)
{
    const lh_study *s = &r->study;
    const double *squared = lh_replay_values(r, "perturbation-squared"),
                 *output = lh_replay_values(r, "output-projected");
    const int64_t merged = of_layers(&grid->policy) ? s->heads : s->group; /* query heads of a unit */
    if (!squared || !output) LH_FAIL(LH_EINTERNAL, "the replay has no analysis of the perturbation");
    for (int64_t l = 0; l < s->layers; l++) {
        double scale = 0;
        for (int64_t h = 0; h < s->heads; h++) scale += output[l * s->heads + h];
        if (!isfinite(scale))
            LH_FAIL(LH_EFILE, "'--make-budgets' needs all layers, and no trace has layer %lld", (long long)l);
        for (int64_t h = 0; h < s->heads && scale > 0; h++)
            for (int64_t b = 0; b < grid->points; b++)
                losses[(l * s->heads + h) / merged * grid->points + b] +=
                    squared[(b * s->layers + l) * s->heads + h] / (scale * scale);
    }
    return LH_OK;
}

/* The largest share of the budget that is protected in a trace. */
static lh_status find_protected(const lh_replay *r, const lh_policy *policy, double *out)
{
    lh_status st = LH_OK;
    lh_trace_file trace = {0};
    for (int64_t i = 0; i < r->request.trace_count; i++) {
        LH_TRY_DONE(lh_trace_file_open(&trace, r->request.traces[i]));
        const lh_policy_numbers n = lh_policy_fix(policy, trace.prompt);
        const lh_protection p = lh_policy_protect(&n, &(lh_protect_request){.budget = n.budget, .seen = trace.prompt});
        *out = fmax(*out, (double)(p.sinks + p.recents) / (double)p.budget);
        lh_trace_file_close(&trace);
    }
done:
    lh_trace_file_close(&trace);
    return st;
}

static void take_shares(lh_made_budgets *out, const double *shares)
{
    const int64_t units = out->profile.layers * out->profile.heads;
    out->least = out->greatest = shares[0];
    for (int64_t u = 0; u < units; u++) {
        out->least = fmin(out->least, shares[u]);
        out->greatest = fmax(out->greatest, shares[u]);
        out->profile.weights[u] = llround(shares[u] * 1e6) * 1000; /* six digits after the point */
    }
}

lh_status lh_made_budgets_make(lh_made_budgets *out, const lh_replay *r, const lh_budget_grid *grid)
{
    lh_status st = LH_OK;
    const int layers = of_layers(&grid->policy);
    const int64_t units = r->study.layers * (layers ? 1 : r->study.kv_heads);
    double *losses = NULL, *shares = NULL, least = safeguard;
    *out = (lh_made_budgets){.profile = {.kind = layers ? LH_PROFILE_OF_LAYERS : LH_PROFILE_OF_HEADS,
                                         .layers = r->study.layers,
                                         .heads = layers ? 1 : r->study.kv_heads}};
    LH_TRY_DONE(lh_calloc(&losses, units * grid->points, sizeof *losses));
    LH_TRY_DONE(lh_calloc(&shares, units, sizeof *shares));
    LH_TRY_DONE(lh_calloc(&out->profile.weights, units, sizeof *out->profile.weights));
    LH_TRY_DONE(fetch_losses(r, grid, losses));
    LH_TRY_DONE(find_protected(r, &grid->policy, &least));
    if (least >= 1)
        LH_FAIL_DONE(LH_EUSAGE,
                     "'--make-budgets' has nothing to divide: the policy protects all of this budget (sinks, "
                     "recents, window), give a larger one");
    const lh_loss_curves curves = {
        .units = units, .points = grid->points, .shares = grid->shares, .losses = losses, .least = least};
    out->uniform = lh_curves_loss(&curves, NULL);
    if (out->uniform <= 0)
        LH_FAIL_DONE(LH_EUSAGE,
                     "'--make-budgets' has nothing to divide: this budget evicts nothing, give a smaller one");
    LH_TRY_DONE(lh_curves_allocate(&curves, shares));
    out->made = lh_curves_loss(&curves, shares);
    take_shares(out, shares);
done:
    lh_free(losses);
    lh_free(shares);
    return st;
}

void lh_made_budgets_clear(lh_made_budgets *made)
{
    lh_free(made->profile.weights);
    *made = (lh_made_budgets){0};
}

lh_status lh_made_budgets_text(const lh_made_budgets *made, const lh_replay *r, const lh_budget_grid *grid, lh_buf *out)
{
    LH_TRY(lh_buf_printf(out, "# made by 'longhaul replay --make-budgets' from %lld %s: ",
                         (long long)r->request.trace_count, r->request.trace_count == 1 ? "trace" : "traces"));
    LH_TRY(lh_policy_text(&grid->policy, out));
    LH_TRY(lh_buf_puts(out, "\n"));
    return lh_profile_write(&made->profile, out);
}

/* ---- the greedy allocation of a budget on the lower convex hulls of loss curves ---- */
/* A stretch of a unit's hull: `width` more of the budget reduces its loss by `gain` for each. */
typedef struct step {
    int64_t unit;
    double width, gain;
} step;

/* The loss of a unit at a share, on its curve. */
static lh_curve_point point_at(const lh_loss_curves *c, int64_t unit, double share)
{
    const double *loss = c->losses + unit * c->points, *at = c->shares;
    int64_t i = 0;
    if (share <= at[0]) return (lh_curve_point){share, loss[0]};
    while (i < c->points && at[i] < share) i++;
    if (i == c->points) return (lh_curve_point){share, loss[i - 1]};
    const double part = (share - at[i - 1]) / (at[i] - at[i - 1]);
    return (lh_curve_point){share, loss[i - 1] + part * (loss[i] - loss[i - 1])};
}

double lh_curves_loss(const lh_loss_curves *c, const double *shares)
{
    double sum = 0;
    for (int64_t u = 0; u < c->units; u++) sum += point_at(c, u, shares ? shares[u] : 1).y;
    return sum;
}

static double first_share(const lh_loss_curves *c)
{
    return fmin(1, fmax(c->least, c->shares[0]));
}

/* The lower convex hull of a unit's curve from the first share on, as far as it falls: steps, the number of them. Room
 * for one point more than the curve has: points, at. */
static int64_t hull_steps(const lh_loss_curves *c, int64_t unit, lh_curve_point *points, int64_t *at, step *steps)
{
    int64_t n = 0;
    points[n++] = point_at(c, unit, first_share(c));
    for (int64_t i = 0; i < c->points; i++)
        if (c->shares[i] > points[0].x) points[n++] = (lh_curve_point){c->shares[i], c->losses[unit * c->points + i]};
    n = lh_falling_hull(points, n, at) - 1;
    for (int64_t i = 0; i < n; i++) {
        const lh_curve_point *from = &points[at[i]], *to = &points[at[i + 1]];
        steps[i] = (step){unit, to->x - from->x, (from->y - to->y) / (to->x - from->x)};
    }
    return n;
}

/* Sorts by descending gain; the gains of a unit descend. */
static int by_gain(const void *a, const void *b)
{
    const step *x = a, *y = b;
    if (x->gain != y->gain) return x->gain > y->gain ? -1 : 1;
    return x->unit < y->unit ? -1 : x->unit > y->unit;
}

/* The unit with the largest fall of the loss if its share grows by `more`. If curves are convex, it is the unit of the
 * next step. */
static int64_t best_of(const lh_loss_curves *c, const double *shares, double more)
{
    int64_t best = 0;
    double gain = -1;
    for (int64_t u = 0; u < c->units; u++) {
        const double falls = point_at(c, u, shares[u]).y - point_at(c, u, shares[u] + more).y;
        if (falls > gain) best = u, gain = falls;
    }
    return best;
}

lh_status lh_curves_allocate(const lh_loss_curves *c, double *shares)
{
    lh_status st = LH_OK;
    step *steps = NULL;
    lh_curve_point *points = NULL;
    int64_t n = 0, *at = NULL;
    double left = (double)c->units * (1 - first_share(c));
    LH_TRY_DONE(lh_calloc(&steps, c->units * (c->points + 1), sizeof *steps));
    LH_TRY_DONE(lh_calloc(&points, c->points + 1, sizeof *points));
    LH_TRY_DONE(lh_calloc(&at, c->points + 1, sizeof *at));
    for (int64_t u = 0; u < c->units; u++) {
        shares[u] = first_share(c);
        n += hull_steps(c, u, points, at, steps + n);
    }
    qsort(steps, (size_t)n, sizeof *steps, by_gain);
    for (int64_t i = 0; i < n && left > 0; i++) {
        if (steps[i].width > left) {
            shares[best_of(c, shares, left)] += left;
            left = 0;
            break;
        }
        shares[steps[i].unit] += steps[i].width;
        left -= steps[i].width;
    }
    for (int64_t u = 0; u < c->units; u++) shares[u] += left / (double)c->units;
    if (lh_curves_loss(c, shares) > lh_curves_loss(c, NULL))
        for (int64_t u = 0; u < c->units; u++) shares[u] = 1;
done:
    lh_free(steps);
    lh_free(points);
    lh_free(at);
    return st;
}
