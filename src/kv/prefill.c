/* A prompt, layer by layer: an arena with room for all of it, rows as they pass (record.c), and at the layer's end the
 * eviction, after which what stays lies in an arena of the layer's own. */
#include <string.h>

#include "kv/kv_impl.h"

/* The last layer that is prefilled in the scratch arena; -1: there is no such layer. */
static int64_t last_evicting(const lh_kv *kv)
{
    int64_t last = -1;
    for (int64_t l = 0; l < kv->shape.layers; l++)
        if (kv->layers[l].plan.evicts) last = l;
    return last;
}

/* Work space for the evictions of the whole prefill, and the positions of the observed rows. */
static lh_status make_work(lh_kv *kv)
{
    const lh_policy_numbers *p = &kv->numbers;
    lh_evict_need need = {.ld = kv->prompt.tokens};
    int uses_rows = 0;
    for (int64_t l = 0; l < kv->shape.layers; l++) {
        const lh_layer_plan *plan = &kv->layers[l].plan;
        uses_rows |= lh_kv_uses_rows(kv, l);
        need.ranked |= plan->ranked;
        need.scored |= plan->scored;
        if (!plan->ranked || plan->kept < need.protect.base + need.protected_kept) continue;
        need.protect = plan->protect;
        need.protected_kept = lh_kv_protected(plan);
    }
    need.counted = p->score.running && kv->shape.heads.split && uses_rows;
    if ((last_evicting(kv) < 0 && !need.counted && !kv->shared.leader) || p->block) return LH_OK;
    LH_TRY(lh_evictor_alloc(kv->evictor, &need));
    if (!lh_observes_again(p) && (need.scored || uses_rows))
        LH_TRY(lh_evictor_alloc_rows(kv->evictor, kv->prompt.tokens));
    return LH_OK;
}

static lh_status number_rows(lh_kv *kv)
{
    lh_row_room room = lh_evict_row_room(kv->evictor, kv->prompt.tokens);
    int32_t *positions = NULL;
    if (!room.positions) return LH_OK;
    LH_TRY(lh_calloc(&positions, room.rows, sizeof *positions));
    for (int64_t r = 0; r < room.rows; r++)
        positions[r] = (int32_t)lh_policy_row_at(&kv->numbers, kv->prompt.tokens, r);
    lh_evict_put_positions(kv->evictor, positions, room.rows);
    lh_free(positions);
    return lh_exec_take(&kv->exec);
}

/* For the policy, and for the bins of score summaries, which count in 32 bits. */
static lh_status check_length(const lh_kv *kv, int64_t tokens, int64_t more)
{
    const lh_policy_division *budgets = &kv->policy.budgets;
    int64_t heads = kv->shape.heads.kv_heads * (budgets->layers == LH_LAYERS_ADAPTIVE ? kv->shape.layers : 1);
    if (tokens < 1 || tokens > INT32_MAX || more < 0)
        LH_FAIL(LH_EUSAGE, "a prompt of %lld tokens and %lld more cannot be cached: it must have 1 to 2^31 - 1 tokens",
                (long long)tokens, (long long)more);
    if (budgets->heads == LH_HEADS_ADAPTIVE && tokens > INT32_MAX / heads)
        LH_FAIL(LH_EUSAGE, "a prompt of %lld tokens is too long for budgets that %lld heads share", (long long)tokens,
                (long long)heads);
    return lh_policy_check(&kv->policy, tokens);
}

lh_status lh_kv_begin(lh_kv *kv, int64_t tokens, int64_t more)
{
    LH_TRY(check_length(kv, tokens, more));
    LH_TRY(lh_kv_begin_layers(kv, &(lh_prompt){.tokens = tokens, .more = more}));
    if (kv->numbers.evicts && kv->numbers.budgets.layers == LH_LAYERS_ADAPTIVE) LH_TRY(lh_kv_open_competition(kv));
    LH_TRY(make_work(kv));
    LH_TRY(number_rows(kv));
    LH_TRY(lh_kv_reserve_probes(kv));
    for (int64_t i = 0; i < kv->shared.follower_count; i++) LH_TRY(lh_kv_begin(kv->shared.followers[i], tokens, more));
    return LH_OK;
}

static void begin_rows(lh_kv *kv, int64_t layer)
{
    lh_evict_job job = lh_kv_job(kv, layer, lh_kv_prefill_arena(kv, layer), 0);
    if (lh_kv_uses_rows(kv, layer) || lh_kv_uses_probes(kv, layer)) lh_evict_begin_layer(kv->evictor, &job);
    for (int64_t i = 0; i < kv->shared.follower_count; i++) begin_rows(kv->shared.followers[i], layer);
}

lh_status lh_kv_prefill_begin(lh_kv *kv, int64_t layer, lh_ragged **view)
{
    const lh_layer_plan *plan = &kv->layers[layer].plan;
    lh_arena *arena = lh_kv_prefill_arena(kv, layer);
    if (plan->evicts) {
        if (!arena->slots) LH_TRY(lh_arena_alloc_even(arena, &kv->exec, kv->prompt.tokens + lh_kv_probe_slots(kv)));
        memset(arena->len, 0, (size_t)arena->view.heads * sizeof *arena->len);
        LH_TRY(lh_arena_push_len(arena, &kv->exec));
    } else {
        LH_TRY(lh_arena_alloc_even(arena, &kv->exec, plan->kept + lh_max_i64(plan->slack, lh_kv_probe_slots(kv))));
    }
    LH_TRY(lh_kv_lend(kv, layer));
    begin_rows(kv, layer);
    *view = &arena->view;
    return LH_OK;
}

/* ---- the end of a layer ---- */

/* Copies all entries: the follower keeps them, the leader evicts. */
static lh_status copy_all(lh_kv *kv, int64_t layer, const lh_arena *from)
{
    const lh_layer_plan *plan = &kv->layers[layer].plan;
    lh_arena *arena = &kv->layers[layer].arena;
    LH_TRY(lh_arena_alloc_even(arena, &kv->exec, plan->kept + plan->slack));
    for (int64_t h = 0; h < arena->view.heads; h++) {
        arena->len[h] = kv->prompt.tokens;
        LH_TRY(lh_copy_entries(&kv->exec, &(lh_slots){&arena->view, arena->offset[h]},
                               &(lh_slots){&from->view, from->offset[h]}, arena->len[h]));
    }
    return lh_arena_push_len(arena, &kv->exec);
}

/* The given positions stay: slots of the prefill's arena are positions. */
static lh_status mark_given(lh_kv *kv, const lh_evict_job *job)
{
    const lh_heads *h = &kv->shape.heads;
    const lh_positions *p = &kv->shape.given->parts[LH_KEEP_KEPT][job->layer.index];
    const int64_t ld = lh_evictor_ld(kv->evictor);
    uint8_t *state = NULL; /* DROP is 0 */
    LH_TRY(lh_calloc(&state, h->kv_count * ld, 1));
    for (int64_t i = 0; i < h->kv_count; i++) {
        const int64_t *at = p->offsets + h->kv_first + i;
        kv->arrays.kept[i] = at[1] - at[0];
        for (int64_t k = at[0]; k < at[1]; k++) state[i * ld + p->positions[k]] = LH_ENTRY_KEEP;
    }
    lh_evict_put_keep(kv->evictor, state);
    lh_free(state);
    return LH_OK;
}

static void keep_given(lh_kv *kv, const lh_evict_job *job)
{
    LH_LATCH(&kv->exec, mark_given(kv, job));
    lh_kv_move_kept(kv, job, kv->arrays.kept);
    lh_evict_end(kv->evictor);
}

/* Collective. Keeps the policy's choice. */
static void keep_chosen(lh_kv *kv, const lh_evict_job *job, const lh_arena *from)
{
    const lh_arena *own = &kv->layers[job->layer.index].arena;
    const int fits = lh_evict_fits(kv->evictor, job);
    lh_reference_queries reference;
    lh_evict_select(kv->evictor, job, kv->arrays.kept);
    if (fits) reference = lh_evict_reference_queries(kv->evictor, job, from->len);
    LH_LATCH(&kv->exec, lh_kv_wait_for_layer(kv, job->layer.index));
    lh_kv_move_kept(kv, job, kv->arrays.kept);
    if (fits)
        lh_evict_fit(
            kv->evictor, &reference,
            &(lh_evict_kept){.entries = &own->view, .offset = own->offset, .len = own->len, .before = from->len});
    lh_evict_end(kv->evictor);
}

/* Collective. What stays goes from the arena of the prefill into the layer's own. */
static void settle_layer(lh_kv *kv, const lh_evict_job *job, const lh_arena *from)
{
    const lh_arena *own = &kv->layers[job->layer.index].arena;
    if (from != own && !kv->shape.given && own->form.has_positions) {
        if (kv->competition && job->ranked)
            lh_kv_compete(kv, job);
        else
            keep_chosen(kv, job, from);
        return;
    }
    LH_LATCH(&kv->exec, lh_kv_wait_for_layer(kv, job->layer.index));
    if (from == own) return;
    if (kv->shape.given)
        keep_given(kv, job);
    else
        LH_LATCH(&kv->exec, copy_all(kv, job->layer.index, from));
}

/* Competing entries of every head: all heads hold the whole prompt. */
lh_evict_job lh_kv_end_job(lh_kv *kv, int64_t layer, const lh_arena *arena)
{
    const lh_layer_plan *plan = &kv->layers[layer].plan;
    lh_evict_job job = lh_kv_job(kv, layer, arena, kv->prompt.tokens);
    job.protect = plan->protect;
    job.cols = kv->prompt.tokens;
    job.ranked = plan->ranked;
    job.scored = plan->scored;
    for (int64_t g = 0; g < kv->shape.heads.kv_heads; g++)
        kv->arrays.room[g] = kv->prompt.tokens - plan->visible_from - plan->protect.sinks - plan->protect.recents;
    job.room = kv->arrays.room;
    return job;
}

/* After the last layer. */
static void end_prompt(lh_kv *kv)
{
    kv->epoch++;
    lh_evictor_free(kv->evictor);
    if (!lh_observes_again(&kv->numbers)) lh_evictor_free_rows(kv->evictor);
    lh_arena_free(&kv->probes.arena, lh_kv_device(kv));
    kv->timeline.seen = kv->prompt.tokens;
    kv->timeline.phase = LH_KV_DECODE;
}

/* Collective. */
static lh_status end_layer(lh_kv *kv, int64_t layer)
{
    const lh_exec *x = &kv->exec;
    lh_arena *arena = lh_kv_prefill_arena(kv, layer), *own = &kv->layers[layer].arena;
    double start = lh_clock_s();
    lh_evict_job job = lh_kv_end_job(kv, layer, arena);
    if (kv->stats.norms >= 0 && !kv->numbers.block) kv->layers[layer].entries_without_norm = kv->prompt.tokens;
    if (kv->numbers.block) {
        lh_kv_end_blocks(kv, layer);
    } else {
        for (int64_t h = 0; h < arena->view.heads; h++) arena->len[h] = kv->prompt.tokens;
        lh_kv_expect_lens(kv, arena, layer);
    }
    if (lh_kv_uses_rows(kv, layer) || lh_kv_uses_probes(kv, layer)) lh_evict_end_layer(kv->evictor, &job);
    if (kv->listener.whole) lh_exec_latch(x, kv->listener.whole(kv->listener.self, &job));
    settle_layer(kv, &job, arena);
    if (lh_kv_uses_slots(&kv->numbers)) LH_LATCH(x, lh_slot_positions_unrotate(&kv->slots, x, own, job.layer.rotation));
    if (layer == last_evicting(kv) && !kv->shared.leader) lh_arena_free(&kv->scratch, lh_kv_device(kv));
    if (layer == kv->shape.layers - 1) {
        LH_LATCH(x, lh_kv_wait_for_layer(kv, layer)); /* for the final lengths */
        end_prompt(kv);
    }
    if (kv->listener.kept) LH_LATCH(x, kv->listener.kept(kv->listener.self, layer, &own->view));
    if (kv->kept_type == LH_Q8) LH_LATCH(x, lh_kv_quantise(kv, layer));
    kv->evict_s += lh_clock_s() - start;
    return lh_exec_agree(x);
}

lh_status lh_kv_prefill_end(lh_kv *kv, int64_t layer)
{
    const lh_shared_prefill *s = &kv->shared;
    for (int64_t i = 0; i < s->follower_count; i++) LH_TRY(end_layer(s->followers[i], layer));
    LH_TRY(end_layer(kv, layer));
    /* not before: followers may share statistics */
    for (int64_t i = 0; i < s->follower_count && layer == kv->shape.layers - 1; i++) lh_kv_take_back(s->followers[i]);
    return LH_OK;
}
