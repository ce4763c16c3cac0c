/* Which of the norms that are only bounded a selection needs: what select_top chooses tells where the line is. */
#include "kernels/cpu/inner.h"
#include "kernels/slots.h"

static inline int is_bound(const lh_want_norms_args *a, int64_t h, int64_t s)
{
    return *lh_slot_at(&a->norms, h, s, 0) < 0.0f;
}

/* Whether slot s of head h comes before slot t. */
static inline int comes_before(const lh_want_norms_args *a, int64_t h, int64_t s, int64_t t)
{
    uint32_t mine = lh_score_key(a->scores[h * a->ld + s]), other = lh_score_key(a->scores[h * a->ld + t]);
    return mine > other || (mine == other && entry_position(a->kv, h, s) < entry_position(a->kv, h, t));
}

/* The entries that draw the line compete: all that do, or those whose norms are known. */
static void want_among(const lh_want_norms_args *a, int64_t h)
{
    const uint8_t *state = a->state + h * a->ld;
    uint8_t *among = a->wanted + h * a->ld;
    for (int64_t s = 0; s < a->kv->len[h]; s++) {
        int in = state[s] == LH_ENTRY_COMPETES && (a->kind == LH_WANT_BEST || !is_bound(a, h, s));
        among[s] = in ? LH_ENTRY_COMPETES : LH_ENTRY_DROP;
    }
}

/* From the states of that selection to what is wanted. */
static void want_head(const lh_want_norms_args *a, int64_t h)
{
    const uint8_t *state = a->state + h * a->ld;
    uint8_t *wanted = a->wanted + h * a->ld;
    int64_t competing = 0, kept = 0, last = -1;
    for (int64_t s = 0; s < a->kv->len[h]; s++) {
        competing += state[s] == LH_ENTRY_COMPETES;
        if (wanted[s] != LH_ENTRY_KEEP) continue;
        kept++;
        if (last < 0 || comes_before(a, h, last, s)) last = s;
    }
    int none = a->counts[h] <= 0 || competing <= a->counts[h], all = kept < a->counts[h];
    for (int64_t s = 0; s < a->kv->len[h]; s++) {
        int open = !none && state[s] == LH_ENTRY_COMPETES && is_bound(a, h, s);
        wanted[s] = open && (all || s == last || comes_before(a, h, s, last));
    }
}

static lh_status op_want_norms(lh_stream *stream, const lh_want_norms_args *a)
{
    int64_t heads = a->kv->heads;
#pragma omp parallel for schedule(dynamic) if (heads * a->ld >= PARALLEL_FROM)
    for (int64_t h = 0; h < heads; h++) want_among(a, h);
    LH_TRY(op_select_top(stream, &(lh_select_top_args){.state = a->wanted,
                                                       .scores = a->scores,
                                                       .kv = a->kv,
                                                       .counts = a->counts,
                                                       .ld = a->ld,
                                                       .others = LH_ENTRY_DROP}));
#pragma omp parallel for schedule(dynamic) if (heads * a->ld >= PARALLEL_FROM)
    for (int64_t h = 0; h < heads; h++) want_head(a, h);
    return LH_OK;
}
