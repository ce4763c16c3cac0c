/* Budgets over all layers: the competing entries of all heads of all layers are ranked together. Prefill goes layer by
 * layer, and the threshold of the best entries only rises. A new layer is cut by the threshold of the last division of
 * budgets; earlier layers keep their entries, until all layers hold twice as many as they may keep in the end and a
 * quarter more than after the last division, or the last layer has come. Then the best of all held entries are found,
 * which gives a new threshold, and the layers are marked and moved to smaller memory, several in a launch, after one
 * wait of the host. In the end the kept entries are the same as of a flat selection over whole layers. Scores are
 * stored with their entries meanwhile. */
#include <assert.h>
#include <string.h>

#include "evict/evict.h"
#include "kv/kv_impl.h"

struct lh_layer_competition {
    lh_evict_job *jobs; /* [layers] finished layers with competing entries */
    int64_t layers;
    int is_final;                     /* true when no later layer competes */
    int64_t divided;                  /* competing entries of all heads after the last division of budgets */
    lh_layer_limits *limits;          /* [layers] without safeguards until all layers have come */
    int64_t *room, *bases;            /* [layers, kv_heads] competing entries that are held; the plan's budgets */
    int64_t *budgets;                 /* [layers, kv_heads], of lh_device_alloc_host */
    lh_search *threshold;             /* of the last division, of lh_device_alloc_host; no entry is below the first */
    lh_reference_queries *references; /* [layers], where the policy fits */
    lh_saved_queries *held;           /* [layers] their memory */
    int64_t *before;                  /* [kv_count] entries of a layer before it is evicted */
    int64_t *lens; /* device: a copy of the offsets and lengths of all arenas (lh_lens), while these are replaced */
};

lh_status lh_kv_open_competition(lh_kv *kv)
{
    const int64_t cells = kv->shape.layers * kv->shape.heads.kv_heads;
    lh_device *device = lh_kv_device(kv);
    lh_layer_competition *c = NULL;
    LH_TRY(lh_calloc(&c, 1, sizeof *c));
    kv->competition = c;
    LH_TRY(lh_calloc(&c->jobs, kv->shape.layers, sizeof *c->jobs));
    LH_TRY(lh_calloc(&c->limits, kv->shape.layers, sizeof *c->limits));
    LH_TRY(lh_calloc(&c->room, 2 * cells, sizeof *c->room));
    LH_TRY(lh_calloc(&c->references, kv->shape.layers, sizeof *c->references));
    LH_TRY(lh_calloc(&c->held, kv->shape.layers, sizeof *c->held));
    LH_TRY(lh_calloc(&c->before, kv->shape.heads.kv_count, sizeof *c->before));
    LH_TRY(lh_device_alloc_host(device, &c->budgets, cells * (int64_t)sizeof *c->budgets));
    LH_TRY(lh_device_alloc_host(device, &c->threshold, sizeof *c->threshold));
    LH_TRY(lh_device_alloc(device, &c->lens, kv->lens.bytes, LH_MEM_WORK));
    c->bases = c->room + cells;
    *c->threshold = (lh_search){0};
    for (int64_t h = 0; h < kv->shape.heads.kv_count; h++) c->before[h] = kv->prompt.tokens;
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        if (!kv->layers[l].plan.ranked) continue;
        kv->layers[l].arena.form.stats = kv->stats.count;
        c->limits->most += kv->layers[l].plan.protect.base * kv->shape.heads.kv_heads;
    }
    return LH_OK;
}

/* Frees the memory of the device. */
static void drop_memory(lh_kv *kv)
{
    lh_layer_competition *c = kv->competition;
    lh_device_free(lh_kv_device(kv), c->lens);
    c->lens = NULL;
    for (int64_t l = 0; c->held && l < kv->shape.layers; l++) {
        lh_device_free(lh_kv_device(kv), c->held[l].q);
        c->held[l] = (lh_saved_queries){0};
    }
}

void lh_kv_close_competition(lh_kv *kv)
{
    lh_layer_competition *c = kv->competition;
    if (!c) return;
    drop_memory(kv);
    lh_free(c->jobs);
    lh_free(c->limits);
    lh_free(c->room);
    lh_free(c->references);
    lh_free(c->held);
    lh_free(c->before);
    lh_device_free_host(lh_kv_device(kv), c->budgets);
    lh_device_free_host(lh_kv_device(kv), c->threshold);
    lh_free(c);
    kv->competition = NULL;
}

/* The layer joins those that compete. */
static void join(lh_kv *kv, const lh_evict_job *job)
{
    lh_layer_competition *c = kv->competition;
    const int64_t heads = kv->shape.heads.kv_heads, first = c->layers * heads;
    c->jobs[c->layers++] = *job;
    for (int64_t g = 0; g < heads; g++) {
        c->room[first + g] = job->room[g];
        c->bases[first + g] = job->protect.base;
    }
    c->is_final = 1;
    for (int64_t l = job->layer.index + 1; l < kv->shape.layers; l++) c->is_final &= !kv->layers[l].plan.ranked;
}

static int64_t sum_of(const int64_t *entries, int64_t count)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < count; i++) sum += entries[i];
    return sum;
}

/* Competing entries that all heads of all layers may hold together before the next division: twice those that stay in
 * the end; and at least a quarter of these more than after the last division, where few heads have most of the best
 * entries. */
static int64_t max_held(const lh_layer_competition *c)
{
    enum { TIMES = 2, QUARTER = 4 };
    return lh_max_i64(TIMES * c->limits->most, c->divided + c->limits->most / QUARTER);
}

enum { ROUNDING = 1 }; /* entries of a head */

/* Before the last layer: the entries of a head that may be among the best in the end. A head's final share is at most
 * the larger of its share of the flat top and its layer's base, and one for what rounding leaves. */
static int64_t may_stay(const lh_layer_competition *c, int64_t cell, int64_t share)
{
    return lh_min_i64(c->room[cell], lh_max_i64(share, c->bases[cell]) + ROUNDING);
}

/* ---- moving layers to new memory ---- */

/* New memory for the kept entries of a layer. src: their view until then, in the arena of the prefill, or in *old. */
static lh_status replace_arena(lh_kv *kv, lh_evict_job *job, const int64_t *budgets, lh_arena *old, lh_ragged *src)
{
    const lh_layer_competition *c = kv->competition;
    const int64_t heads = kv->shape.heads.kv_count, l = job->layer.index;
    const lh_layer_plan *plan = &kv->layers[l].plan;
    lh_arena *arena = &kv->layers[l].arena;
    int64_t *caps = kv->arrays.kept;
    *src = *job->entries;
    if (job->entries == &arena->view) {
        src->offset = c->lens + 2 * l * heads;
        src->len = c->lens + (2 * l + 1) * heads;
    }
    /* in the end decoding gets its slack, and scores are of no use any more */
    const int64_t slack = c->is_final ? plan->slack : 0;
    if (c->is_final) arena->form.stats = 0;
    for (int64_t h = 0; h < heads; h++) caps[h] = lh_kv_protected(plan) + budgets[kv->shape.heads.kv_first + h] + slack;
    LH_TRY(lh_arena_replace(arena, &kv->exec, caps, old));
    for (int64_t h = 0; h < heads; h++) arena->len[h] = caps[h] - slack;
    job->entries = &arena->view;
    job->offset = arena->offset;
    job->cols = lh_arena_longest(arena);
    return LH_OK;
}

/* Moves the marked entries of n layers, budgets[l,g] of each head, to new memory. */
static void move_marked(lh_kv *kv, lh_evict_job *jobs, int64_t n, const int64_t *budgets)
{
    const lh_keep keep = lh_evict_keep(kv->evictor);
    lh_arena old[LH_EVICT_AT_ONCE];
    lh_ragged src[LH_EVICT_AT_ONCE], dst[LH_EVICT_AT_ONCE];
    for (int64_t i = 0; i < n; i++) {
        old[i] = (lh_arena){0};
        LH_LATCH(&kv->exec, replace_arena(kv, &jobs[i], budgets + i * kv->shape.heads.kv_heads, &old[i], &src[i]));
        dst[i] = kv->layers[jobs[i].layer.index].arena.view;
    }
    LH_RUN(&kv->exec, compact, .dst = dst, .src = src, .state = keep.state, .batch = n, .ld = keep.ld,
           .kind = LH_COMPACT_IN_ORDER);
    for (int64_t i = 0; i < n; i++) lh_arena_clear(&old[i], lh_kv_device(kv));
    lh_evict_end(kv->evictor);
}

/* ---- the division ---- */

/* Budgets of a device that only counts: the plan's in the end, and meanwhile those that need the most memory, because
 * the layers that are moved first keep all their entries. */
static void expect_budgets(const lh_kv *kv)
{
    const lh_layer_competition *c = kv->competition;
    const int64_t cells = c->layers * kv->shape.heads.kv_heads;
    int64_t left = c->limits->most;
    for (int64_t i = 0; i < cells; i++) {
        c->budgets[i] = c->is_final ? c->bases[i] : lh_min_i64(c->room[i], left);
        left -= c->budgets[i];
    }
}

/* Collective. What heads keep of the layers so far, into c->budgets. */
static void find_budgets(lh_kv *kv)
{
    lh_layer_competition *c = kv->competition;
    const int64_t cells = c->layers * kv->shape.heads.kv_heads;
    lh_top_request q = {.layers = c->layers, .jobs = c->jobs, .limits = c->limits, .share = {1, 1}};
    for (int64_t l = 0; l < c->layers && c->is_final; l++) {
        const lh_safety safety = lh_policy_safety(&kv->numbers, &c->jobs[l].protect);
        c->limits[l] = (lh_layer_limits){safety.floor, safety.bonus, c->limits[l].most};
        q.share = safety.share;
    }
    expect_budgets(kv);
    lh_evict_divide(kv->evictor, &q, c->budgets, c->threshold);
    LH_LATCH(&kv->exec, lh_kv_wait_for_layer(kv, c->jobs[c->layers - 1].layer.index));
    for (int64_t i = 0; i < cells && !c->is_final; i++) c->budgets[i] = may_stay(c, i, c->budgets[i]);
    c->divided = sum_of(c->budgets, cells);
}

/* Collective. Divides the budgets among the layers that have come, and evicts from all of them. */
static void evict_all(lh_kv *kv)
{
    lh_layer_competition *c = kv->competition;
    const int64_t heads = kv->shape.heads.kv_heads;
    find_budgets(kv);
    lh_exec_copy(&kv->exec, c->lens, kv->lens.device, kv->lens.bytes, LH_COPY_ON_DEVICE);
    for (int64_t l = 0, n; l < c->layers; l += n) {
        n = lh_evict_together(kv->evictor, c->jobs + l, c->layers - l);
        lh_evict_show_scores(kv->evictor, c->jobs + l, n);
        lh_evict_mark(kv->evictor, c->jobs + l, n, c->budgets + l * heads);
        move_marked(kv, c->jobs + l, n, c->budgets + l * heads);
    }
    memcpy(c->room, c->budgets, (size_t)(c->layers * heads) * sizeof *c->room);
}

/* ---- the end of a layer ---- */

/* Collective. Marks the entries of the new layer that may stay, by the threshold of the last division; their numbers
 * are its budgets. All its heads hold the whole prompt and have the same limits. A device that only counts expects as
 * many entries as may be held. */
static void mark_new(lh_kv *kv, const lh_evict_job *job)
{
    lh_layer_competition *c = kv->competition;
    const lh_heads *h = &kv->shape.heads;
    const int64_t first = (c->layers - 1) * h->kv_heads, spare = max_held(c) - sum_of(c->room, first);
    const lh_count_best_args from = {
        .key = c->threshold->prefix, .more = ROUNDING, .least = may_stay(c, first, 0), .most = c->room[first]};
    for (int64_t i = 0; i < h->kv_count; i++) kv->arrays.kept[i] = may_stay(c, first, spare / h->kv_heads - ROUNDING);
    lh_evict_mark_from(kv->evictor, job, &from, kv->arrays.kept);
    LH_LATCH(&kv->exec, lh_kv_wait_for_layer(kv, job->layer.index));
    lh_exec_latch(&kv->exec, lh_gather_lens(&kv->arrays.gather, h, kv->exec.comm, kv->arrays.kept, kv->arrays.lens));
    memcpy(c->budgets + first, kv->arrays.lens, (size_t)h->kv_heads * sizeof *c->budgets);
}

/* Collective. Cuts the new layer alone. 0: then the layers would hold too many entries together. */
static int keep_new(lh_kv *kv)
{
    lh_layer_competition *c = kv->competition;
    lh_evict_job *job = &c->jobs[c->layers - 1];
    const int64_t heads = kv->shape.heads.kv_heads, first = (c->layers - 1) * heads;
    mark_new(kv, job);
    if (sum_of(c->room, first) + sum_of(c->budgets + first, heads) > max_held(c)) return 0;
    move_marked(kv, job, 1, c->budgets + first);
    memcpy(c->room + first, c->budgets + first, (size_t)heads * sizeof *c->room);
    return 1;
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
}

void lh_kv_compete(lh_kv *kv, const lh_evict_job *job)
{
    const lh_layer_competition *c = kv->competition;
    const int fits = lh_evict_fits(kv->evictor, job);
    lh_evict_keep_scores(kv->evictor, job);
    join(kv, job);
    if (fits) hold_reference(kv, job);
    if (c->is_final || !keep_new(kv)) {
        lh_evict_end(kv->evictor);
        evict_all(kv);
    }
    lh_kv_expect_lens(kv, &kv->layers[job->layer.index].arena, job->layer.index);
    if (c->is_final && fits) fit_layers(kv);
    if (c->is_final) drop_memory(kv);
}

/* ---- a prefill that is saved between two layers ---- */

int lh_kv_competes(const lh_kv *kv, int64_t layer)
{
    return kv->competition && kv->layers[layer].plan.ranked;
}

int lh_kv_competition_ended(const lh_kv *kv)
{
    return kv->competition->is_final;
}

void lh_kv_resume_competition(lh_kv *kv, int64_t layers_done)
{
    for (int64_t l = layers_done; l < kv->shape.layers; l++)
        if (lh_kv_competes(kv, l)) return;
    for (int64_t l = 0; l < layers_done; l++)
        if (lh_kv_competes(kv, l)) kv->layers[l].arena.form.stats = 0;
    lh_kv_close_competition(kv);
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
    join(kv, job);
    c->jobs[i].cols = lh_arena_longest(&kv->layers[job->layer.index].arena);
    if (!lh_evict_fits(kv->evictor, job)) return LH_OK;
    LH_TRY(lh_evict_alloc_saved_queries(kv->evictor, rows, &c->held[i]));
    c->references[i] = (lh_reference_queries){.layer = job->layer, .rows = rows};
    lh_evict_use_saved_queries(kv->evictor, &c->references[i], &c->held[i]);
    *held = lh_kv_held_rows(kv, job->layer.index);
    return LH_OK;
}
