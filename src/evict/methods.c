/* methods.c - the table of methods (policies/method_list.h), and the functions of a policy's methods in this folder. */
#include "evict/evict_impl.h"

#define LH_METHOD(name) extern const lh_method lh_method_##name;
#include "policies/method_list.h"
#undef LH_METHOD

static const lh_method none = {.word = NULL};

const lh_method *const lh_methods[] = {
    &none,
#define LH_METHOD(name) &lh_method_##name,
#include "policies/method_list.h"
#undef LH_METHOD
};

const lh_source *lh_source_of(const lh_policy_numbers *p)
{
    if (!p->evicts) return NULL;
    if (lh_scores_by_probes(&p->score)) return &lh_source_probes;
    return p->score.running ? &lh_source_running : lh_methods[p->score.source]->source;
}

const lh_addition *lh_addition_of(const lh_policy_numbers *p, lh_method_id id)
{
    return lh_uses_method(&p->methods, id) ? lh_methods[id]->addition : NULL;
}

int lh_evict_uses_attention(const lh_policy_numbers *p)
{
    return lh_methods_have(&p->methods, LH_ATTENDS);
}

int lh_evict_uses_probes(const lh_policy_numbers *p)
{
    const lh_source *source = lh_source_of(p);
    return source && source->probes;
}

int lh_keeps_rows(const lh_policy_numbers *p)
{
    return p->evicts && ((lh_evict_uses_attention(p) && !p->score.running && !lh_evict_uses_probes(p)) ||
                         lh_methods_have(&p->methods, LH_REFERENCES));
}

/* ---- numbers of entries ---- */

int64_t lh_score_parts(const lh_policy_numbers *p, const lh_heads *heads)
{
    const lh_source *source = lh_source_of(p);
    return source && source->parts ? source->parts(p, heads) : 1;
}

int lh_evicts_again(const lh_policy_numbers *p)
{
    return p->evicts && (p->every > 0 || p->block > 0);
}

int lh_observes_again(const lh_policy_numbers *p)
{
    return lh_evicts_again(p) && (lh_evict_uses_attention(p) || lh_source_of(p)->last_rows > 0);
}

int64_t lh_ring_row_count(const lh_policy_numbers *p)
{
    if (!lh_observes_again(p) || p->score.running) return 0;
    return lh_evict_uses_attention(p) ? p->rows : lh_source_of(p)->last_rows;
}

int lh_scores_read_entries(const lh_policy_numbers *p, int counted)
{
    const int observes = !p->score.running && !counted;
    int reads = lh_methods_have(&p->methods, LH_NEEDS_PROJECTION);
    for (lh_method_id m = 1; m < LH_METHODS; m++) {
        const uint64_t traits = lh_uses_method(&p->methods, m) ? lh_methods[m]->traits : 0;
        reads |= (traits & LH_NEEDS_ENTRIES) && (observes || !(traits & LH_ATTENDS));
    }
    return reads;
}

lh_entry_stats lh_entry_stats_of(const lh_policy_numbers *p, const lh_heads *heads)
{
    const lh_source *source = lh_source_of(p);
    lh_entry_stats s = {.score = -1,
                        .counts = -1,
                        .sums = -1,
                        .squares = -1,
                        .priors = -1,
                        .norms = -1,
                        .parts = lh_score_parts(p, heads)};
    if (!p->evicts) return s;
    if (p->budgets.layers == LH_LAYERS_ADAPTIVE) s.score = s.count++;
    if (source->stats) source->stats(p, &s);
    for (lh_method_id m = 1; m < LH_METHODS; m++) {
        const lh_addition *addition = lh_addition_of(p, m);
        if (addition && addition->stats) addition->stats(&s);
    }
    if (lh_methods_have(&p->methods, LH_NEEDS_PROJECTION)) s.norms = s.count++;
    return s;
}

lh_slot_floats lh_stat_of(const lh_ragged *view, int64_t index)
{
    return (lh_slot_floats){
        .at = index < 0 ? NULL : view->stats + index, .starts = view->offset, .step = view->stat_count, .next = 1};
}

lh_slot_floats lh_slot_rows(void *at, int64_t parts, int64_t ld)
{
    return (lh_slot_floats){.at = at, .ld = parts * ld, .step = 1, .next = ld};
}

lh_slot_floats lh_slots_from_head(lh_slot_floats f, int64_t g)
{
    if (f.starts)
        f.starts += g;
    else if (f.at)
        f.at += g * f.ld * f.step;
    return f;
}

lh_ragged lh_one_head(const lh_ragged *view, int64_t g)
{
    lh_ragged one = *view;
    one.offset += g;
    one.len += g;
    one.heads = 1;
    return one;
}
