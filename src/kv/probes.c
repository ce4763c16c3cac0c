/* probes.c - probe tokens in a layer (policies/probes.h). The entries that score, of a segment that repeats, lie in a
 * separate arena, the entries of the segment last, until the next segment overwrites them: the cache never holds a
 * probe token. Where rows attend to the whole prompt, the entries of the segment also follow the prompt's in the
 * arena of the prefill, and probe_end drops them; the rows of questions score there. */
#include "kv/kv_impl.h"

int64_t lh_kv_probe_segments(const lh_kv *kv)
{
    return kv->shape.given ? 0 : lh_probe_segments(&kv->numbers, kv->prompt.tokens, &kv->shape.leads);
}

lh_probe_segment lh_kv_probe_segment(const lh_kv *kv, int64_t i)
{
    return lh_probe_segment_of(&kv->numbers, kv->prompt.tokens, &kv->shape.leads, i);
}

int64_t lh_kv_probe_tokens(const lh_kv *kv)
{
    const int64_t n = lh_kv_probe_segments(kv);
    return n ? lh_kv_probe_segment(kv, n).at : 0;
}

int lh_kv_uses_probes(const lh_kv *kv, int64_t layer)
{
    return kv->timeline.phase == LH_KV_PREFILL && lh_kv_probe_segments(kv) && kv->layers[layer].plan.scored;
}

static int64_t longest(const lh_kv *kv)
{
    return lh_kv_probe_segments(kv) ? lh_probe_longest(&kv->numbers, kv->prompt.tokens, &kv->shape.leads) : 0;
}

int64_t lh_kv_probe_slots(const lh_kv *kv)
{
    return lh_probes_see_all(&kv->numbers) ? longest(kv) : 0;
}

/* Probe tokens have positions after the prompt's, and no model is trained for positions beyond its last. */
static lh_status check_positions(const lh_kv *kv, int64_t own)
{
    const lh_probe_leads *leads = &kv->shape.leads;
    const int64_t positions = kv->shape.max_positions, tokens = kv->prompt.tokens,
                  each = positions - tokens - lh_max_i64(leads->first, leads->later);
    char shorter[96] = "";
    if (!positions || own <= positions - tokens) return LH_OK;
    if (lh_probes_score_all(&kv->numbers))
        LH_FAIL(LH_EUSAGE,
                "%lld tokens of prompt and %lld of the longest question after them ('--rows-at text:FILE') are longer "
                "than the %lld positions of the model: shorten the prompt",
                (long long)tokens, (long long)own, (long long)positions);
    if (each >= LH_SEGMENT_MIN)
        snprintf(shorter, sizeof shorter, ", or its parts ('--rows-at repeat:N', N up to %lld)", (long long)each);
    LH_FAIL(LH_EUSAGE,
            "%lld tokens of prompt and %lld probe tokens after them ('--rows-at repeat') are longer than the %lld "
            "positions of the model: shorten the prompt%s",
            (long long)tokens, (long long)own, (long long)positions, shorter);
}

lh_status lh_kv_reserve_probes(lh_kv *kv)
{
    const int64_t own = longest(kv);
    if (!own) return LH_OK;
    LH_TRY(check_positions(kv, own));
    if (lh_probes_score_all(&kv->numbers)) return LH_OK;
    return lh_arena_alloc_even(&kv->probes.arena, &kv->exec,
                               lh_min_i64(kv->numbers.sinks, kv->prompt.tokens) + 2 * own);
}

/* ---- a segment in a layer ---- */

/* Entries of every head in the arena of the segment: all heads hold equally many. */
static int64_t held(const lh_kv *kv)
{
    return kv->shape.heads.kv_count ? kv->probes.arena.len[0] : 0;
}

static void set_lens(lh_kv *kv, lh_arena *arena, int64_t len)
{
    for (int64_t h = 0; h < arena->view.heads; h++) arena->len[h] = len;
    LH_LATCH(&kv->exec, lh_arena_push_len(arena, &kv->exec));
}

/* Appends the entries of `from` at positions [first, first + n), which are its slots, to the arena of the segment. */
static lh_status append(lh_kv *kv, const lh_arena *from, int64_t first, int64_t n)
{
    lh_status st = LH_OK;
    lh_arena *to = &kv->probes.arena;
    const int64_t at = held(kv);
    int32_t *positions = NULL;
    lh_ragged without = to->view; /* the arena of a prefill may have no positions */
    without.positions = NULL;
    LH_TRY(lh_calloc(&positions, n, sizeof *positions));
    for (int64_t i = 0; i < n; i++) positions[i] = (int32_t)(first + i);
    for (int64_t h = 0; h < to->view.heads && st == LH_OK; h++) {
        st = lh_copy_entries(&kv->exec, &(lh_slots){&without, to->offset[h] + at},
                             &(lh_slots){&from->view, from->offset[h] + first}, n);
        lh_exec_put(&kv->exec, to->view.positions + to->offset[h] + at, positions, n * (int64_t)sizeof *positions);
    }
    lh_free(positions);
    for (int64_t h = 0; h < to->view.heads; h++) to->len[h] += n;
    return st;
}

void lh_kv_probe_begin(lh_kv *kv, int64_t layer, int64_t segment, lh_ragged **view)
{
    const lh_exec *x = &kv->exec;
    lh_kv_probes *p = &kv->probes;
    lh_arena *from = lh_kv_prefill_arena(kv, layer);
    p->now = lh_kv_probe_segment(kv, segment);
    *view = lh_probes_see_all(&kv->numbers) ? &from->view : &p->arena.view;
    if (lh_probes_score_all(&kv->numbers)) return;
    for (int64_t h = 0; h < p->arena.view.heads; h++) p->arena.len[h] = 0;
    LH_LATCH(x, append(kv, from, 0, lh_probe_sinks(&kv->numbers, &p->now)));
    LH_LATCH(x, append(kv, from, p->now.first, p->now.tokens));
    set_lens(kv, &p->arena, held(kv));
}

void lh_kv_probe_end(lh_kv *kv, int64_t layer)
{
    if (lh_probes_see_all(&kv->numbers)) set_lens(kv, lh_kv_prefill_arena(kv, layer), kv->prompt.tokens);
}

/* Rows of a segment that repeats score its stretch, in the arena of the segment. */
static void record_stretch(lh_kv *kv, int64_t layer, const lh_query_rows *rows)
{
    lh_kv_probes *p = &kv->probes;
    const int attends_more = lh_probes_see_more(&kv->numbers);
    const int64_t sinks = lh_probe_sinks(&kv->numbers, &p->now), len = held(kv) + rows->tokens;
    if (attends_more) LH_LATCH(&kv->exec, append(kv, lh_kv_prefill_arena(kv, layer), rows->first, rows->tokens));
    set_lens(kv, &p->arena, len);
    lh_evict_job job = lh_kv_job(kv, layer, &p->arena, rows->first + rows->tokens);
    job.cols = len;
    lh_evict_probes(kv->evictor, &job,
                    &(lh_probe_rows){.queries = *rows,
                                     .slot = sinks,
                                     .first = p->now.first,
                                     .count = p->now.tokens,
                                     .attends_more = attends_more});
}

/* Rows of a question score the entries of the prompt where they are. */
static void record_question(lh_kv *kv, int64_t layer, const lh_query_rows *rows)
{
    const lh_evict_job job = lh_kv_job(kv, layer, lh_kv_prefill_arena(kv, layer), rows->first + rows->tokens);
    lh_evict_probes(kv->evictor, &job, &(lh_probe_rows){.queries = *rows, .count = kv->prompt.tokens});
}

void lh_kv_record_probes(lh_kv *kv, int64_t layer, const lh_query_rows *rows)
{
    const double start = lh_clock_s();
    if (!lh_kv_uses_probes(kv, layer)) return;
    if (lh_probes_score_all(&kv->numbers))
        record_question(kv, layer, rows);
    else
        record_stretch(kv, layer, rows);
    kv->evict_s += lh_clock_s() - start;
}
