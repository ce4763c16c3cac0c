/* Budgets over all layers: the competing entries of all heads of all layers are ranked together. Prefill goes layer by
 * layer, and a layer's entries go soon after so many better ones are there that they cannot stay; the threshold only
 * rises. So memory is bounded by little more than twice the kept entries and the current layer, and in the end the
 * kept entries are the same as of a flat selection over whole layers. Scores go with their entries meanwhile. */
#include <assert.h>
#include <string.h>

#include "evict/evict.h"
#include "kv/kv_impl.h"

struct lh_layer_competition {
    lh_evict_job *jobs; /* [layers] finished layers with competing entries */
    int64_t layers;
    int64_t divided;                 /* competing entries of all heads after the last division of budgets */
    lh_layer_limits *limits;         /* [layers] without safeguards until all layers have come */
    int64_t *room, *bases, *budgets; /* [layers, kv_heads] */
    lh_reference_queries *references;  /* [layers], where the policy fits */
    lh_saved_queries *held;             /* [layers] their memory */
    int64_t *before;                 /* [kv_count] entries of a layer before it is evicted */
};

lh_status lh_kv_open_competition(lh_kv *kv)
{
    int64_t cells = kv->shape.layers * kv->shape.heads.kv_heads;
    lh_layer_competition *c = NULL;
    LH_TRY(lh_calloc(&c, 1, sizeof *c));
    kv->competition = c;
    LH_TRY(lh_calloc(&c->jobs, kv->shape.layers, sizeof *c->jobs));
    LH_TRY(lh_calloc(&c->limits, kv->shape.layers, sizeof *c->limits));
    LH_TRY(lh_calloc(&c->room, 3 * cells, sizeof *c->room));
    LH_TRY(lh_calloc(&c->references, kv->shape.layers, sizeof *c->references));
    LH_TRY(lh_calloc(&c->held, kv->shape.layers, sizeof *c->held));
    LH_TRY(lh_calloc(&c->before, kv->shape.heads.kv_count, sizeof *c->before));
    for (int64_t h = 0; h < kv->shape.heads.kv_count; h++) c->before[h] = kv->prompt.tokens;
    c->bases = c->room + cells;
    c->budgets = c->room + 2 * cells;
    for (int64_t l = 0; l < kv->shape.layers; l++)
        if (kv->layers[l].plan.ranked) kv->layers[l].arena.form.stats = kv->stats.count;
    return LH_OK;
}

static void drop_references(lh_kv *kv)
{
    lh_layer_competition *c = kv->competition;
    for (int64_t l = 0; c->held && l < kv->shape.layers; l++) {
        lh_device_free(lh_kv_device(kv), c->held[l].q);
        c->held[l] = (lh_saved_queries){0};
    }
}

void lh_kv_close_competition(lh_kv *kv)
{
    lh_layer_competition *c = kv->competition;
    if (!c) return;
    drop_references(kv);
    lh_free(c->jobs);
    lh_free(c->limits);
    lh_free(c->room);
    lh_free(c->references);
    lh_free(c->held);
    lh_free(c->before);
    lh_free(c);
    kv->competition = NULL;
}

/* 1 where no layer after this one competes. */
static int is_last(const lh_kv *kv, int64_t layer)
{
    for (int64_t l = layer + 1; l < kv->shape.layers; l++)
        if (kv->layers[l].plan.ranked) return 0;
    return 1;
}

/* Competing entries that all layers together may keep. */
static int64_t max_kept(const lh_kv *kv)
{
    int64_t sum = 0;
    for (int64_t l = 0; l < kv->shape.layers; l++)
        if (kv->layers[l].plan.ranked) sum += kv->layers[l].plan.protect.base;
    return sum * kv->shape.heads.kv_heads;
}

/* Collective. What heads keep of the layers so far, into c->budgets: their bases on a device that only counts. */
static void find_budgets(lh_kv *kv, const lh_top_request *q)
{
    lh_layer_competition *c = kv->competition;
    memcpy(c->budgets, c->bases, (size_t)(c->layers * kv->shape.heads.kv_heads) * sizeof *c->budgets);
    lh_evict_divide(kv->evictor, q, c->budgets);
}

/* Collective. Before the last layer: what may still be among the best. A head's final share is at most the larger of
 * its share of the flat top and its layer's base, and one for what rounding leaves. */
static void divide_meanwhile(lh_kv *kv, lh_top_request *q)
{
    lh_layer_competition *c = kv->competition;
    q->share = (lh_fraction){1, 1};
    find_budgets(kv, q);
    for (int64_t i = 0; i < c->layers * kv->shape.heads.kv_heads; i++)
        c->budgets[i] = lh_min_i64(c->room[i], lh_max_i64(c->budgets[i], c->bases[i]) + 1);
}

/* Collective. With all layers: what stays. */
static void divide_finally(lh_kv *kv, lh_top_request *q)
{
    lh_layer_competition *c = kv->competition;
    for (int64_t l = 0; l < c->layers; l++) {
        lh_safety safety = lh_policy_safety(&kv->numbers, &c->jobs[l].protect);
        c->limits[l] = (lh_layer_limits){safety.floor, safety.bonus, c->limits[l].most};
        q->share = safety.share;
    }
    find_budgets(kv, q);
}

/* Sets a layer's mask: its best entries, as many as the budgets of its heads. */
static void mark(lh_kv *kv, const lh_evict_job *job, const int64_t *budgets)
{
    lh_evict_show_scores(kv->evictor, job);
    lh_evict_mark(kv->evictor, job, budgets + kv->shape.heads.kv_first);
}

/* The layer that has just come leaves the arena of the prefill. */
static void keep_new(lh_kv *kv, lh_evict_job *job, const int64_t *budgets)
{
    const lh_heads *h = &kv->shape.heads;
    lh_arena *arena = &kv->layers[job->layer.index].arena;
    mark(kv, job, budgets);
    memcpy(kv->arrays.kept, budgets + h->kv_first, (size_t)h->kv_count * sizeof *budgets);
    lh_kv_move_kept(kv, job, kv->arrays.kept);
    lh_evict_end(kv->evictor);
    job->entries = &arena->view;
    job->offset = arena->offset;
}

/* A layer that came before shrinks in place, from `room` competing entries to `budgets` of this rank's heads, and gives
 * memory back. */
static lh_status shrink(lh_kv *kv, int64_t layer, const int64_t *room, const int64_t *budgets)
{
    lh_arena *arena = &kv->layers[layer].arena;
    lh_keep keep = lh_evict_keep(kv->evictor);
    int64_t *caps = kv->arrays.kept;
    LH_TRY(kv->exec.ops->compact(kv->exec.stream, &(lh_compact_args){.dst = &arena->view,
                                                                     .src = &arena->view,
                                                                     .state = keep.state,
                                                                     .batch = 1,
                                                                     .ld = keep.ld,
                                                                     .kind = LH_COMPACT_IN_ORDER}));
    for (int64_t h = 0; h < arena->view.heads; h++) {
        arena->len[h] -= room[h] - budgets[h];
        caps[h] = arena->len[h] + kv->layers[layer].plan.slack;
    }
    return lh_arena_resize(arena, &kv->exec, caps);
}

/* Scores are of no use any more. */
static void drop_scores(lh_kv *kv)
{
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        lh_arena *arena = &kv->layers[l].arena;
        lh_device_free(lh_kv_device(kv), arena->view.stats);
        arena->view.stats = NULL;
        arena->view.stat_count = arena->form.stats = 0;
    }
}

/* The layer joins those that compete; returns the competing entries of all of them. */
static int64_t join(lh_kv *kv, const lh_evict_job *job)
{
    lh_layer_competition *c = kv->competition;
    int64_t heads = kv->shape.heads.kv_heads, first = c->layers * heads, held = 0;
    c->jobs[c->layers++] = *job;
    for (int64_t g = 0; g < heads; g++) {
        c->room[first + g] = job->room[g];
        c->bases[first + g] = job->protect.base;
    }
    for (int64_t i = 0; i < c->layers * heads; i++) held += c->room[i];
    return held;
}

/* Saves the rows of the newest layer for the fit at the end of the prefill, before its entries are evicted. */
static void hold_reference(lh_kv *kv, const lh_evict_job *job)
{
    lh_layer_competition *c = kv->competition;
    lh_reference_queries *r = &c->references[c->layers - 1];
    *r = lh_evict_reference_queries(kv->evictor, job, c->before);
    assert(r->rows == lh_evict_reference_rows(kv->evictor, job->seen));
    if (lh_exec_ok(&kv->exec)) LH_LATCH(&kv->exec, lh_evict_save_queries(kv->evictor, r, &c->held[c->layers - 1]));
}

static void fit_layers(lh_kv *kv)
{
    const lh_layer_competition *c = kv->competition;
    for (int64_t l = 0; l < c->layers; l++) {
        const lh_arena *arena = &kv->layers[c->jobs[l].layer.index].arena;
        lh_evict_fit(
            kv->evictor, &c->references[l],
            &(lh_evict_kept){.entries = &arena->view, .offset = arena->offset, .len = arena->len, .before = c->before});
    }
    drop_references(kv);
}

/* 1 when enough has come since the last division: each looks at all entries that are held. */
static int divides(const lh_layer_competition *c, int64_t held, int64_t most)
{
    enum { PART = 4 };
    return held > most && held - c->divided > most / PART;
}

/* Evicts earlier layers to c->budgets. */
static void shrink_earlier(lh_kv *kv)
{
    lh_layer_competition *c = kv->competition;
    const int64_t heads = kv->shape.heads.kv_heads, own = kv->shape.heads.kv_first;
    for (int64_t l = 0; l < c->layers - 1; l++) {
        const int64_t *budgets = c->budgets + l * heads, *room = c->room + l * heads;
        if (memcmp(budgets, room, (size_t)heads * sizeof *room) == 0) continue;
        mark(kv, &c->jobs[l], budgets);
        LH_LATCH(&kv->exec, shrink(kv, c->jobs[l].layer.index, room + own, budgets + own));
        lh_evict_end(kv->evictor);
    }
}

void lh_kv_compete(lh_kv *kv, const lh_evict_job *job)
{
    lh_layer_competition *c = kv->competition;
    const int64_t heads = kv->shape.heads.kv_heads;
    const int fits = lh_evict_fits(kv->evictor, job), last = is_last(kv, job->layer.index);
    lh_evict_keep_scores(kv->evictor, job);
    int64_t held = join(kv, job);
    const int64_t cells = c->layers * heads;
    if (fits) hold_reference(kv, job);
    lh_evict_end(kv->evictor);
    const int64_t most = max_kept(kv);
    lh_top_request q = {.layers = c->layers, .jobs = c->jobs, .limits = c->limits};
    c->limits->most = most;
    memcpy(c->budgets, c->room, (size_t)cells * sizeof *c->room);
    if (last) {
        divide_finally(kv, &q);
    } else if (divides(c, held, most)) {
        divide_meanwhile(kv, &q);
        c->divided = 0;
        for (int64_t i = 0; i < cells; i++) c->divided += c->budgets[i];
    }
    shrink_earlier(kv);
    keep_new(kv, &c->jobs[c->layers - 1], c->budgets + (c->layers - 1) * heads);
    memcpy(c->room, c->budgets, (size_t)cells * sizeof *c->room);
    if (!last) return;
    drop_scores(kv);
    if (fits) fit_layers(kv);
}

/* ---- a prefill that is saved between two layers ---- */

int lh_kv_competes(const lh_kv *kv, int64_t layer)
{
    return kv->competition && kv->layers[layer].plan.ranked;
}

int64_t *lh_kv_divided(lh_kv *kv)
{
    return kv->competition ? &kv->competition->divided : NULL;
}

lh_held_rows lh_kv_held_rows(const lh_kv *kv, int64_t layer)
{
    const lh_layer_competition *c = kv->competition;
    int64_t i = 0;
    if (!lh_kv_competes(kv, layer)) return (lh_held_rows){0};
    while (c->jobs[i].layer.index != layer) i++;
    const lh_saved_queries *held = &c->held[i];
    if (!held->q) return (lh_held_rows){0};
    return (lh_held_rows){.rows = c->references[i].rows,
                          .q = held->q,
                          .lse = held->lse,
                          .positions = held->positions,
                          .outputs = lh_evict_uses_outputs(kv->evictor) ? held->outputs : NULL};
}

lh_status lh_kv_rejoin(lh_kv *kv, const lh_evict_job *job, lh_held_rows *held)
{
    lh_layer_competition *c = kv->competition;
    const int64_t i = c->layers, rows = lh_evict_reference_rows(kv->evictor, job->seen);
    *held = (lh_held_rows){0};
    (void)join(kv, job);
    if (!lh_evict_fits(kv->evictor, job)) return LH_OK;
    LH_TRY(lh_evict_alloc_saved_queries(kv->evictor, rows, &c->held[i]));
    c->references[i] = (lh_reference_queries){.layer = job->layer, .rows = rows};
    lh_evict_use_saved_queries(kv->evictor, &c->references[i], &c->held[i]);
    *held = lh_kv_held_rows(kv, job->layer.index);
    return LH_OK;
}
