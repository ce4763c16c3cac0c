/* keep.c - the keep sets of a replay, one for each policy and budget of a trace: for the model (next_token.c), and as
 * files (cache/keep_sets.h). */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "lab/replay/replay_impl.h"
#include "lab/trace/trace_file.h"

static int64_t cell_count(const lh_replay *r)
{
    return r->study.policy_count * r->study.budget_count;
}

lh_status lh_replay_open_keep_sets(lh_replay *r)
{
    if (!r->request.keep_sets && !r->request.engine) return LH_OK;
    lh_replay_close_keep_sets(r);
    LH_TRY(lh_calloc(&r->keep_sets, cell_count(r), sizeof *r->keep_sets));
    for (int64_t c = 0; c < cell_count(r); c++)
        LH_TRY(lh_keep_sets_reserve(&r->keep_sets[c], LH_KEEP_KEPT, r->study.layers));
    return LH_OK;
}

void lh_replay_close_keep_sets(lh_replay *r)
{
    for (int64_t c = 0; r->keep_sets && c < cell_count(r); c++) lh_keep_sets_clear(&r->keep_sets[c]);
    lh_free(r->keep_sets);
    r->keep_sets = NULL;
}

/* What one policy keeps of the layer in work at one budget. */
static lh_status collect(const lh_replay *r, int64_t policy, int64_t budget, lh_positions *out)
{
    const int64_t heads = r->study.kv_heads, tokens = r->trace.prompt;
    const uint32_t *kept = r->layer.kept + policy * heads * tokens, bit = 1u << budget;
    int64_t n = 0;
    for (int64_t i = 0; i < heads * tokens; i++) n += (kept[i] & bit) != 0;
    out->heads = heads;
    LH_TRY(lh_calloc(&out->offsets, heads + 1, sizeof *out->offsets));
    LH_TRY(lh_calloc(&out->positions, n, sizeof *out->positions));
    n = 0;
    for (int64_t g = 0; g < heads; g++) {
        for (int64_t j = 0; j < tokens; j++)
            if (kept[g * tokens + j] & bit) out->positions[n++] = (int32_t)j;
        out->offsets[g + 1] = n;
    }
    return LH_OK;
}

lh_status lh_replay_keep_layer(lh_replay *r)
{
    const lh_study *s = &r->study;
    for (int64_t c = 0; r->keep_sets && c < cell_count(r); c++)
        LH_TRY(collect(r, c / s->budget_count, c % s->budget_count,
                       &r->keep_sets[c].parts[LH_KEEP_KEPT][r->layer.data.index]));
    return LH_OK;
}

/* Collective. The positions of a layer, from the rank that replayed it to all. */
static lh_status share_layer(const lh_replay *r, lh_positions *p, int64_t layer)
{
    lh_comm *comm = r->request.comm;
    const int owner = (int)(layer % lh_comm_size(comm)), here = lh_comm_rank(comm) == owner;
    const int64_t heads = r->study.kv_heads;
    lh_status st = LH_OK;
    if (!here) {
        p->heads = heads;
        st = lh_calloc(&p->offsets, heads + 1, sizeof *p->offsets);
    }
    LH_TRY(lh_comm_agree(comm, st));
    LH_TRY(lh_comm_bcast(comm, owner, p->offsets, (heads + 1) * (int64_t)sizeof *p->offsets));
    if (!here) st = lh_calloc(&p->positions, p->offsets[heads], sizeof *p->positions);
    LH_TRY(lh_comm_agree(comm, st));
    return lh_comm_bcast(comm, owner, p->positions, p->offsets[heads] * (int64_t)sizeof *p->positions);
}

/* "FOLDER/TRACE.snapkv-20%.h5", with the name of the trace's file. */
static lh_status name_of(const lh_replay *r, int64_t cell, char **out)
{
    lh_status st = LH_OK;
    const lh_study *s = &r->study;
    const char *path = lh_h5_path(r->trace.h5), *base = lh_path_name(path);
    const int stem = (int)strcspn(base, ".");
    char *name = NULL;
    LH_TRY_DONE(lh_asprintf(&name, "%.*s.%s-%s", stem, base, s->policies[cell / s->budget_count],
                            s->budgets[cell % s->budget_count]));
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr(".%-", *c)) *c = '_';
    LH_TRY_DONE(lh_asprintf(out, "%s/%s.h5", r->request.keep_sets, name));
done:
    lh_free(name);
    return st;
}

/* Entries that the heads of a layer hold after the only answer: of the prompt, and of the answer's rows. */
static lh_status collect_final(const lh_replay *r, const lh_rerun *x, int64_t layer, lh_positions *out)
{
    const lh_trace_file *t = &r->trace;
    lh_trace_answer_rows rows = {0};
    lh_status st = LH_OK;
    uint8_t *held = NULL;
    lh_buf all = {0};
    lh_trace_next_answer(t, &rows);
    const int64_t reach = t->prompt + rows.end;
    out->heads = x->heads;
    LH_TRY_DONE(lh_calloc(&out->offsets, x->heads + 1, sizeof *out->offsets));
    LH_TRY_DONE(lh_calloc(&held, reach, 1));
    for (int64_t g = 0; g < x->heads; g++) {
        const lh_rerun_kept kept = lh_rerun_kept_of(x, layer, g);
        const lh_rerun_drops drops = lh_rerun_drops_of(x, 0, layer, g);
        memset(held, 0, (size_t)t->prompt);
        memset(held + t->prompt, 1, (size_t)(reach - t->prompt));
        for (int64_t i = 0; i < kept.count; i++) held[kept.positions[i]] = 1;
        for (int64_t i = 0; i < drops.count; i++) held[drops.at[i].entry] = 0;
        for (int32_t p = 0; p < reach; p++)
            if (held[p]) LH_TRY_DONE(lh_buf_append(&all, &p, sizeof p));
        out->offsets[g + 1] = all.bytes / (int64_t)sizeof(int32_t);
    }
    out->positions = (int32_t *)(void *)all.data;
    all = (lh_buf){0};
done:
    lh_free(held);
    lh_buf_clear(&all);
    return st;
}

static lh_status add_final(lh_replay *r, int64_t cell)
{
    const lh_rerun *x = &r->cells[cell].rerun;
    lh_keep_sets *sets = &r->keep_sets[cell];
    if (x->answers != 1) return LH_OK; /* as in a run: the end of the only answer */
    LH_TRY(lh_keep_sets_reserve(sets, LH_KEEP_FINAL, x->layers));
    for (int64_t l = 0; l < x->layers; l++) LH_TRY(collect_final(r, x, l, &sets->parts[LH_KEEP_FINAL][l]));
    return LH_OK;
}

/* Tokens of the run: the prompt, and an only answer. */
static lh_status collect_tokens(const lh_replay *r, lh_tokens *out)
{
    const lh_trace_file *t = &r->trace;
    lh_status st = LH_OK;
    int32_t *after = NULL;
    lh_trace_answer_rows rows = {0};
    lh_trace_next_answer(t, &rows);
    for (int64_t i = 0; i < t->prompt; i++) LH_TRY_DONE(lh_tokens_push(out, t->tokens[i]));
    if (rows.end == 0 || rows.end < t->after_count) goto done;
    LH_TRY_DONE(lh_trace_after_tokens(t, INT32_MAX, &after));
    for (int64_t i = 0; i < t->after_count; i++) LH_TRY_DONE(lh_tokens_push(out, after[i]));
done:
    lh_free(after);
    return st;
}

static lh_status write_cell(lh_replay *r, int64_t cell)
{
    lh_status st = LH_OK;
    lh_comm *comm = r->request.comm;
    char *path = NULL;
    lh_tokens tokens = {0};
    st = add_final(r, cell);
    if (st == LH_OK) st = collect_tokens(r, &tokens);
    if (st == LH_OK) st = name_of(r, cell, &path);
    LH_TRY_DONE(lh_comm_agree(comm, st));
    LH_TRY_DONE(lh_keep_sets_write(&r->keep_sets[cell], comm, path,
                                   &(lh_cache_extra){.tokens = tokens.ids, .n = tokens.n, .run = r->request.run}));
done:
    lh_tokens_clear(&tokens);
    lh_free(path);
    return st;
}

lh_status lh_replay_share_keep_sets(lh_replay *r)
{
    const int64_t layers = r->study.layers;
    if (!r->keep_sets) return LH_OK;
    for (int64_t l = 0; l < layers; l++)
        if (!r->trace.recorded[l])
            LH_FAIL(LH_EUSAGE, "'%s' lacks layer %lld: keep sets are of all layers, leave out '--keep-sets'",
                    lh_h5_path(r->trace.h5), (long long)l);
    for (int64_t c = 0; c < cell_count(r); c++)
        for (int64_t l = 0; l < layers && r->cells[c].policy; l++)
            LH_TRY(share_layer(r, &r->keep_sets[c].parts[LH_KEEP_KEPT][l], l));
    return LH_OK;
}

lh_status lh_replay_write_keep_sets(lh_replay *r)
{
    for (int64_t c = 0; r->request.keep_sets && c < cell_count(r); c++)
        if (r->cells[c].policy) LH_TRY(write_cell(r, c));
    return LH_OK;
}

/* The keep sets of a layer for every policy and budget: the eviction at the end of the layer's prefill, by evict/, once
 * for each budget. Statistics that do not depend on the budget are computed once. */
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
    lh_policy_layers(
        n,
        &(lh_layers_request){.layers = s->layers,
                             .seen = r->trace.prompt,
                             .window = s->window,
                             .sliding = s->sliding,
                             .profile = lh_profiles_find(&r->request.policies->profiles, LH_PROFILE_OF_LAYERS,
                                                         policy->budgets.layer_profile),
                             .shares = s->layer_shares},
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
                                    .projection = r->layer.projection.w.data ? &r->layer.projection : NULL,
                                    .rotation = r->layer.rotation.inv_freq ? &r->layer.rotation : NULL,
                                    .score_weights = lh_kv_score_weights(s, layer)},
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
    lh_evict_end(w->evictor);
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
