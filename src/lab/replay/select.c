/* select.c - what every policy keeps of a layer at every budget: the eviction at the end of the layer's prefill, by
 * evict/, once for each budget. What it observes is counted once wherever it does not depend on the budget. */
#include <string.h>

#include "lab/replay/replay_impl.h"

/* Entries of the layer kept at budget b, in bits. */
static void keep_all(lh_replay *r, int64_t policy, int64_t budget)
{
    const int64_t n = r->trace.shape.heads.kv_heads * r->trace.prompt;
    uint32_t *kept = r->layer.kept + policy * n, bit = 1u << budget;
    for (int64_t i = 0; i < n; i++) kept[i] |= bit;
}

static void keep_mask(lh_replay *r, int64_t policy, int64_t budget, const lh_keep *keep)
{
    const int64_t heads = r->trace.shape.heads.kv_heads, tokens = r->trace.prompt;
    uint32_t *kept = r->layer.kept + policy * heads * tokens, bit = 1u << budget;
    for (int64_t g = 0; g < heads; g++)
        for (int64_t s = 0; s < tokens; s++)
            if (keep->state[g * keep->ld + s] == LH_ENTRY_KEEP) kept[g * tokens + s] |= bit;
}

static void keep_rerun(lh_replay *r, int64_t policy, int64_t budget)
{
    const int64_t heads = r->trace.shape.heads.kv_heads, tokens = r->trace.prompt;
    const lh_rerun *rerun = &r->cells[policy * r->study.budget_count + budget].rerun;
    uint32_t *kept = r->layer.kept + policy * heads * tokens, bit = 1u << budget;
    r->layer.given[policy] |= bit;
    for (int64_t g = 0; g < heads; g++) {
        const lh_rerun_kept of = lh_rerun_kept_of(rerun, r->layer.data.index, g);
        for (int64_t i = 0; i < of.count; i++) kept[g * tokens + of.positions[i]] |= bit;
    }
}

/* The plan of the layer, as a run makes it. */
static lh_status plan_of(const lh_replay *r, const lh_policy *policy, const lh_policy_numbers *n, lh_layer_plan *out)
{
    const lh_kv_shape *s = &r->trace.shape;
    int64_t *budgets = NULL, layer = r->layer.data.index;
    LH_TRY(lh_calloc(&budgets, s->layers, sizeof *budgets));
    lh_policy_layers(n,
                     &(lh_layers_request){
                         .layers = s->layers,
                         .seen = r->trace.prompt,
                         .window = s->window,
                         .sliding = s->sliding,
                         .profile = lh_profiles_find(&r->request.policies->profiles, policy->budgets.layer_profile)},
                     budgets);
    *out = lh_kv_layer_plan(
        s, n, &(lh_layer_request){.layer = layer, .budget = budgets[layer], .prompt = {.tokens = r->trace.prompt}});
    lh_free(budgets);
    return LH_OK;
}

/* room: [kv_heads]. */
static lh_evict_job job_of(lh_replay *r, const lh_layer_plan *plan, int64_t *room)
{
    const lh_kv_shape *s = &r->trace.shape;
    const int64_t layer = r->layer.data.index, tokens = r->trace.prompt;
    for (int64_t g = 0; g < s->heads.kv_heads; g++)
        room[g] = tokens - plan->visible_from - plan->protect.sinks - plan->protect.recents;
    return (lh_evict_job){.phase = LH_EVICT_PREFILL,
                          .layer = {.index = layer,
                                    .window = lh_kv_slides(s, layer) ? s->window : 0,
                                    .projection = r->layer.projection.w ? &r->layer.projection : NULL,
                                    .rotation = r->layer.rotation.inv_freq ? &r->layer.rotation : NULL},
                          .offset = r->layer.offset,
                          .seen = tokens,
                          .visible_from = plan->visible_from,
                          .protect = plan->protect,
                          .cols = tokens,
                          .ranked = plan->ranked,
                          .scored = plan->scored,
                          .room = room};
}

static lh_status select_at(lh_replay *r, lh_replay_watch *w, int64_t budget, int64_t *room)
{
    const int64_t policy = w->policy;
    const lh_replay_cell *cell = &r->cells[policy * r->study.budget_count + budget];
    lh_policy_numbers n = lh_policy_fix(cell->policy, r->trace.prompt);
    lh_layer_plan plan;
    if (lh_replay_is_oracle(r, policy)) n.rows = r->judges.n;
    LH_TRY(plan_of(r, cell->policy, &n, &plan));
    r->layer.given[policy] |= 1u << budget;
    if (!plan.evicts) {
        keep_all(r, policy, budget);
        return LH_OK;
    }
    lh_replay_job j = {.job = job_of(r, &plan, room)};
    lh_evictor_begin(w->evictor, &n, r->trace.prompt);
    LH_TRY(lh_evictor_alloc(w->evictor, &(lh_evict_need){.ld = r->trace.prompt, .ranked = 1, .scored = 1}));
    if (!w->observed || n.rows != w->numbers.rows) LH_TRY(lh_evictor_alloc_rows(w->evictor, r->trace.prompt));
    LH_TRY(lh_replay_observe(w, r, &n, &j));
    lh_evict_select(w->evictor, &j.job, NULL);
    LH_TRY(lh_exec_take(&r->exec));
    lh_keep keep = lh_evict_keep(w->evictor);
    keep_mask(r, policy, budget, &keep);
    r->pace.entries += r->trace.shape.heads.kv_heads * r->trace.prompt;
    return LH_OK;
}

static lh_status select_policy(lh_replay *r, int64_t policy)
{
    lh_status st = LH_OK;
    const lh_replay_cell *cells = r->cells + policy * r->study.budget_count;
    lh_replay_watch watch = {0};
    int64_t *room = NULL;
    LH_TRY_DONE(lh_calloc(&room, r->trace.shape.heads.kv_heads, sizeof *room));
    for (int64_t b = 0; b < r->study.budget_count; b++) {
        if (!cells[b].policy) continue;
        if (cells[b].rerun.kept_at) {
            keep_rerun(r, policy, b);
            continue;
        }
        if (!watch.evictor) LH_TRY_DONE(lh_replay_watch_open(&watch, r, cells[b].policy, policy));
        LH_TRY_DONE(select_at(r, &watch, b, room));
    }
done:
    lh_replay_watch_close(&watch, r);
    lh_free(room);
    return st;
}

lh_status lh_replay_select(lh_replay *r)
{
    const int64_t n = r->study.policy_count * r->trace.shape.heads.kv_heads * r->trace.prompt;
    memset(r->layer.kept, 0, (size_t)n * sizeof *r->layer.kept);
    memset(r->layer.given, 0, (size_t)r->study.policy_count * sizeof *r->layer.given);
    for (int64_t p = 0; p < r->study.policy_count; p++) LH_TRY(select_policy(r, p));
    return LH_OK;
}
