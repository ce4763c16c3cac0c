/* Heads that compete by the loss of their output ('--compete-by losses'). Entries are ordered by score; for each head
 * the output of reference queries (after the prompt) over the best k entries is compared with the output over all
 * entries, for k in doubles. The gain of a further entry, the slope of that curve, is comparable between heads, and, as
 * a share of the output of a layer's heads, between layers; scores are not. */
#include "evict/loss_curves.h"

#include <assert.h>
#include <math.h>

#include "evict/evict_impl.h"
#include "evict/fit.h"

enum { POINTS = LH_CURVE_POINTS };

/* ---- from losses to gains ---- */

/* Where a curve does not fall: what keeps gains falling, far below what an output may lose. */
static const double NOTHING = 1e-20;

int64_t lh_curve_entries(int64_t room, int64_t point)
{
    const int64_t halvings = LH_CURVE_POINTS - 1 - point;
    return point == 0 ? 0 : (room + (INT64_C(1) << halvings >> 1)) >> halvings;
}

/* Middles of the hull's edges and the slopes there; before them the slope of the first edge and as much again, after
 * them 0 at the end of the room. Returns how many. */
static int64_t edges_of(const lh_curve_point *curve, double room, lh_curve_point *edges)
{
    int64_t at[LH_CURVE_POINTS], vertices = lh_falling_hull(curve, LH_CURVE_POINTS, at), n = 1;
    for (int64_t i = 1; i < vertices; i++) {
        const lh_curve_point *a = &curve[at[i - 1]], *b = &curve[at[i]];
        edges[n++] = (lh_curve_point){(a->x + b->x) / 2, (a->y - b->y) / (b->x - a->x)};
    }
    edges[0] = (lh_curve_point){0, n > 1 ? 2 * edges[1].y : 0};
    edges[n++] = (lh_curve_point){room, 0};
    return n;
}

static double slope_at(const lh_curve_point *edges, int64_t n, double x)
{
    int64_t i = 1;
    while (i < n - 1 && edges[i].x < x) i++;
    const lh_curve_point *a = &edges[i - 1], *b = &edges[i];
    return b->x > a->x ? fmax(0, a->y + (b->y - a->y) * (x - a->x) / (b->x - a->x)) : b->y;
}

void lh_gains_of_losses(int64_t room, const float *losses, float *gains)
{
    lh_curve_point curve[LH_CURVE_POINTS], edges[LH_CURVE_POINTS + 1];
    for (int64_t p = 0; p < LH_CURVE_POINTS; p++)
        curve[p] = (lh_curve_point){(double)lh_curve_entries(room, p), losses[p]};
    const int64_t n = edges_of(curve, (double)room, edges);
    for (int64_t p = 0; p < LH_CURVE_POINTS; p++) {
        const double x = curve[p].x, rest = room ? 1 - x / (double)room : 0;
        gains[p] = (float)(slope_at(edges, n, x) + NOTHING * rest);
    }
}

/* ---- the curves ---- */

/* The arrays for the curves of a layer, on the scratch stack. A block is a cache of a single head with a few of its
 * entries in their order. */
typedef struct curves {
    lh_evictor *ev;
    const lh_evict_job *job;
    lh_row_block rows;
    float *outputs;       /* of the rows over all entries, for a fit of values; NULL: not wanted */
    int64_t *host_counts; /* a copy of `counts` */
    int64_t *counts;      /* [2, kv_count]: entries that compete, and that are protected */
    int32_t *order;       /* [2, kv_count, ld]: their slots */
    float *losses;        /* [kv_count, POINTS] */
    float *energies;      /* [kv_heads of the model]: sums of the squares of the rows' outputs over all entries */
    float *ranks;         /* [POINTS] */
    float *gains;         /* [kv_count, POINTS] */
    float *sums;          /* [POINTS, head_dim + 1, group x rows]: over the entries from the point before to this one */
    void *k, *v;          /* of the block */
    int32_t *positions;
    float *bias;
    int64_t *offset, *len;
} curves;

static void alloc_curves(curves *c)
{
    const lh_evictor *ev = c->ev;
    const lh_exec *x = &ev->exec;
    const int64_t heads = ev->shape.heads.kv_count, dim = ev->shape.head_dim, block = LH_FIT_AT_ONCE,
                  n = ev->shape.heads.group * c->rows.rows.tokens;
    c->counts = lh_scratch_alloc(x, 2 * heads * (int64_t)sizeof *c->counts);
    c->order = lh_scratch_alloc(x, 2 * heads * ev->ld * (int64_t)sizeof *c->order);
    c->losses = lh_scratch_floats(ev, heads * POINTS);
    c->energies = lh_scratch_floats(ev, ev->shape.heads.kv_heads);
    c->ranks = lh_scratch_floats(ev, POINTS);
    c->gains = lh_scratch_floats(ev, heads * POINTS);
    c->sums = lh_scratch_floats(ev, POINTS * (dim + 1) * n);
    c->k = lh_scratch_alloc(x, block * dim * lh_dtype_bytes(c->job->entries->type));
    c->v = lh_scratch_alloc(x, block * dim * lh_dtype_bytes(c->job->entries->type));
    c->positions = lh_scratch_alloc(x, block * (int64_t)sizeof *c->positions);
    c->bias = lh_scratch_floats(ev, block);
    c->offset = lh_scratch_alloc(x, sizeof *c->offset);
    c->len = lh_scratch_alloc(x, sizeof *c->len);
    lh_exec_put(x, c->offset, &(int64_t){0}, sizeof *c->offset);
    lh_exec_latch(x, lh_calloc(&c->host_counts, 2 * heads, sizeof *c->host_counts));
    for (int64_t h = 0; h < heads && c->host_counts; h++) c->host_counts[h] = c->job->cols; /* if nothing is fetched */
}

/* Slots of the entries that compete, the best first, and of those that are protected; how many there are. */
static void order_entries(const curves *c, const float *scores)
{
    lh_evictor *ev = c->ev;
    const int64_t heads = ev->shape.heads.kv_count;
    const uint8_t *state = lh_layer_state(ev);
    LH_RUN(&ev->exec, order_entries, .order = c->order, .counts = c->counts, .scores = scores, .state = state,
           .kv = c->job->entries, .ld = ev->ld, .of = LH_ENTRY_COMPETES);
    LH_RUN(&ev->exec, order_entries, .order = c->order + heads * ev->ld, .counts = c->counts + heads, .state = state,
           .kv = c->job->entries, .ld = ev->ld, .of = LH_ENTRY_KEEP);
    lh_exec_fetch(&ev->exec, c->host_counts, c->counts, 2 * heads * (int64_t)sizeof *c->counts);
}

/* `count` entries of head h are added to the sums of a point, a block at a time. */
static void add_entries(const curves *c, int64_t h, const int32_t *order, int64_t count, int64_t point)
{
    lh_evictor *ev = c->ev;
    const lh_ragged *src = c->job->entries;
    const int64_t group = ev->shape.heads.group, dim = ev->shape.head_dim, rows = c->rows.rows.tokens;
    const lh_ragged block = {.k = c->k,
                             .v = c->v,
                             .type = src->type,
                             .positions = c->positions,
                             .bias = src->bias ? c->bias : NULL,
                             .offset = c->offset,
                             .len = c->len,
                             .heads = 1,
                             .head_dim = dim};
    const lh_fit fit = {.rows = {.q = c->rows.rows.q + h * group * dim,
                                 .positions = c->rows.rows.positions,
                                 .kv = &block,
                                 .map = {.heads = group, .group = group},
                                 .logit = lh_logit_of(ev, c->job),
                                 .rows = rows,
                                 .q_ld = c->rows.rows.q_ld},
                        .lse = c->rows.rows.lse + h * group,
                        .lse_ld = c->rows.lse_ld,
                        .offset = (const int64_t[]){0},
                        .order = ev->shape.order};
    for (int64_t at = 0; at < count; at += LH_FIT_AT_ONCE) {
        const int64_t some = lh_min_i64(LH_FIT_AT_ONCE, count - at);
        LH_RUN(&ev->exec, gather_entries, .dst = &block, .src = src, .head = h, .order = order + at, .count = some);
        lh_fit_add_sums(&ev->exec, &fit, (lh_fit_slots){.count = some}, c->sums + point * (dim + 1) * group * rows);
    }
}

/* The outputs of the rows of head h over all entries: the sum over all points. */
static void add_points(const curves *c, int64_t h)
{
    const int64_t n = c->ev->shape.heads.group * c->rows.rows.tokens, dims = c->ev->shape.head_dim + 1;
    float *y = c->outputs + h * dims * n;
    lh_exec_copy(&c->ev->exec, y, c->sums, dims * n * (int64_t)sizeof *y, LH_COPY_ON_DEVICE);
    for (int64_t p = 1; p < POINTS; p++)
        LH_RUN(&c->ev->exec, add, .y = y, .x = c->sums + p * dims * n, .tokens = dims, .dim = n, .y_ld = n, .x_ld = n);
}

/* The curve of head h, and what its rows put out. */
static void measure_head(const curves *c, int64_t h)
{
    lh_evictor *ev = c->ev;
    const lh_heads *heads = &ev->shape.heads;
    const int64_t n = heads->group * c->rows.rows.tokens, dim = ev->shape.head_dim, room = c->host_counts[h];
    const int32_t *order = c->order + h * ev->ld, *kept = order + heads->kv_count * ev->ld;
    lh_exec_zero(&ev->exec, c->sums, POINTS * (dim + 1) * n * (int64_t)sizeof *c->sums);
    add_entries(c, h, kept, c->host_counts[heads->kv_count + h], 0);
    for (int64_t p = 1, first = 0; p < POINTS; p++) {
        const int64_t end = lh_curve_entries(room, p);
        add_entries(c, h, order + first, end - first, p);
        first = end;
    }
    if (c->outputs) add_points(c, h);
    LH_RUN(&ev->exec, curve_losses, .losses = c->losses + h * POINTS, .energy = c->energies + heads->kv_first + h,
           .sums = c->sums, .points = POINTS, .dim = dim, .n = n);
}

/* Collective where layers compete: the energy of the outputs of the layer's heads, by which losses are divided; else 1.
 */
static double energy_of_layer(const curves *c)
{
    lh_evictor *ev = c->ev;
    const lh_heads *heads = &ev->shape.heads;
    const int64_t bytes = sizeof *c->energies;
    float *energies = NULL;
    double sum = 0;
    if (ev->policy.budgets.layers != LH_LAYERS_ADAPTIVE) return 1;
    lh_gather_kv_heads(&ev->gather, heads, bytes);
    lh_exec_allgatherv(&ev->exec, c->energies + heads->counted_first, c->energies, ev->gather.bytes, ev->gather.at);
    lh_exec_latch(&ev->exec, lh_calloc(&energies, heads->kv_heads, sizeof *energies));
    if (energies) lh_exec_fetch(&ev->exec, energies, c->energies, heads->kv_heads * bytes);
    for (int64_t g = 0; g < heads->kv_heads && energies; g++) sum += energies[g];
    lh_free(energies);
    return sum > 0 ? sum : 1;
}

/* ---- gains of entries ---- */

/* Gains at the points of every head's curve, and the ranks of the points. Heads have as many entries: at the end of a
 * prompt all hold it. */
static void put_gains(const curves *c, double energy)
{
    const lh_exec *x = &c->ev->exec;
    const int64_t heads = c->ev->shape.heads.kv_count, bytes = heads * POINTS * (int64_t)sizeof(float);
    float *losses = NULL, ranks[POINTS];
    lh_exec_latch(x, lh_calloc(&losses, heads * POINTS, sizeof *losses));
    if (losses) lh_exec_fetch(x, losses, c->losses, bytes);
    for (int64_t h = 0; h < heads && losses; h++) {
        float *own = losses + h * POINTS;
        for (int64_t p = 0; p < POINTS; p++) own[p] = (float)(own[p] / energy);
        lh_gains_of_losses(c->host_counts[h], own, own);
    }
    for (int64_t h = 1; h < heads; h++) assert(c->host_counts[h] == c->host_counts[0]);
    for (int64_t p = 0; p < POINTS; p++) ranks[p] = (float)lh_curve_entries(c->host_counts[0], p);
    if (losses) lh_exec_put(x, c->gains, losses, bytes);
    lh_exec_put(x, c->ranks, ranks, sizeof ranks);
    lh_free(losses);
}

void lh_score_gains(lh_evictor *ev, const lh_evict_job *job, const float *scores)
{
    const lh_exec *x = &ev->exec;
    const int64_t heads = ev->shape.heads.kv_count;
    curves c = {.ev = ev, .job = job, .rows = lh_reference_rows(ev, job)};
    if (lh_fits_values(&ev->policy.methods)) c.outputs = lh_reference_outputs(ev, c.rows.rows.tokens);
    const int64_t mark = lh_scratch_mark(x);
    alloc_curves(&c);
    if (lh_exec_ok(x)) order_entries(&c, scores);
    for (int64_t h = 0; h < heads && lh_exec_ok(x); h++) measure_head(&c, h);
    const double energy = energy_of_layer(&c);
    if (lh_exec_ok(x)) put_gains(&c, energy);
    LH_RUN(x, rank_scores, .y = lh_layer_scores(ev, ev->loss_gains), .order = c.order, .counts = c.counts,
           .ranks = c.ranks, .values = c.gains, .heads = heads, .ld = ev->ld, .points = POINTS, .values_ld = POINTS);
    lh_scratch_release(x, mark);
    lh_free(c.host_counts);
}

/* ---- the method ---- */

typedef struct losses_params {
    int on;
} losses_params;

static int may_compete(const lh_policy *policy)
{
    return policy->budgets.heads == LH_HEADS_ADAPTIVE && lh_policy_may_refer(policy);
}

static int is_on(const lh_policy *policy)
{
    const losses_params *p = lh_params_of(&policy->methods, LH_METHOD_losses);
    return p->on;
}

static const lh_part parts[] = {
    {LH_PART_WORD(losses, losses_params, on), .after = "head-budget", .used = may_compete,
     .needs = "'--head-budget adaptive' and a statistic other than position and last", .def = "scores",
     .row.name = "compete-by", .row.choices = (const char *const[]){"scores", "losses", NULL},
     .meanings = (const char *const[]){"Heads compete by the scores of their entries (AdaKV).",
                                       "Heads compete by what their output loses without an entry, as rows after the "
                                       "prompt see it."},
     .row.help = "What heads compete by: the scores of their entries, or what their output loses without them."},
    {.row.name = NULL}};

const lh_method lh_method_losses = {.option = "--compete-by losses",
                                    .active = is_on,
                                    .parts = parts,
                                    .traits = LH_REFERENCES | LH_WHOLE_PROMPT | LH_AT_EVICTION | LH_ONE_ORDER,
                                    .check = lh_check_references};
