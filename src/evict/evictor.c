#include "evict/evict_impl.h"

static lh_status open_check(lh_rows_check *check, const lh_exec *x)
{
    /* of the cache, as long as which it stays; work space is gone after the prompt */
    LH_TRY(lh_device_alloc(lh_exec_device(x), &check->wrong, sizeof *check->wrong, LH_MEM_KV));
    LH_TRY(lh_device_alloc_host(lh_exec_device(x), &check->known, sizeof *check->known));
    *check->known = 0;
    return lh_stream_zero(x->stream, check->wrong, sizeof *check->wrong);
}

static void close_check(lh_rows_check *check, const lh_exec *x)
{
    (void)lh_stream_sync(x->stream); /* a copy may still be on its way */
    lh_device_free(lh_exec_device(x), check->wrong);
    lh_device_free_host(lh_exec_device(x), check->known);
}

lh_status lh_evictor_open(lh_evictor **out, const lh_exec *exec, const lh_evict_shape *shape,
                          const lh_profile *head_profile)
{
    lh_status st = LH_OK;
    lh_evictor *ev = NULL;
    LH_TRY_DONE(lh_calloc(&ev, 1, sizeof *ev));
    ev->exec = *exec;
    ev->exec.scratch = &ev->scratch;
    ev->shape = *shape;
    ev->head_profile = head_profile;
    LH_TRY_DONE(lh_gather_init(&ev->gather, shape->heads.ranks));
    LH_TRY_DONE(open_check(&ev->check, exec));
    LH_TRY_DONE(lh_calloc(&ev->budgets, shape->heads.kv_heads, sizeof *ev->budgets));
    LH_TRY_DONE(lh_calloc(&ev->planned, LH_EVICT_AT_ONCE * shape->heads.kv_count, sizeof *ev->planned));
    *out = ev;
    ev = NULL;
done:
    lh_evictor_close(ev);
    return st;
}

static void free_store(lh_evictor *ev)
{
    lh_device *device = lh_exec_device(&ev->exec);
    lh_device_free(device, ev->store.q);
    lh_device_free(device, ev->store.lse);
    lh_device_free(device, ev->store.positions);
    lh_device_free(device, ev->store.hidden);
    lh_device_free(device, ev->store.references);
    lh_device_free(device, ev->sums);
    ev->store = (lh_row_store){0};
    ev->sums = NULL;
}

void lh_evictor_close(lh_evictor *ev)
{
    if (!ev) return;
    ev->row_bytes = 0;
    lh_evictor_free(ev);
    free_store(ev);
    close_check(&ev->check, &ev->exec);
    lh_gather_clear(&ev->gather);
    lh_free(ev->budgets);
    lh_free(ev->planned);
    lh_free(ev);
}

void lh_evictor_begin(lh_evictor *ev, const lh_policy_numbers *policy, int64_t tokens)
{
    ev->policy = *policy;
    ev->stats = lh_entry_stats_of(policy, &ev->shape.heads);
    ev->prompt_tokens = tokens;
}

void lh_evictor_seed(lh_evictor *ev, uint64_t seed)
{
    ev->seed = seed;
}

void lh_evictor_listen(lh_evictor *ev, const lh_evict_listener *listener)
{
    ev->listener = *listener;
}

/* ---- memory ---- */

float *lh_scratch_floats(const lh_evictor *ev, int64_t count)
{
    return lh_scratch_alloc(&ev->exec, count * (int64_t)sizeof(float));
}

void lh_evict_end(lh_evictor *ev)
{
    const lh_scores none = {0};
    lh_scratch_release(&ev->exec, 0);
    ev->ld = ev->max_ld;
    ev->state = NULL;
    ev->raw = ev->shaped = ev->second = ev->loss_gains = none;
    ev->scoring = ev->references = (lh_row_block){0};
    ev->outputs = NULL;
}

float *lh_layer_scores(const lh_evictor *ev, lh_scores scores)
{
    return scores.at ? scores.at + ev->layer * scores.step : NULL;
}

uint8_t *lh_layer_state(const lh_evictor *ev)
{
    return ev->state ? ev->state + ev->layer * ev->shape.heads.kv_count * ev->ld : NULL;
}

/* The stack serves rows and evictions in turn. */
lh_status lh_evictor_reserve(lh_evictor *ev)
{
    lh_evict_end(ev);
    return lh_scratch_reserve(&ev->exec, lh_max_i64(ev->row_bytes, ev->eviction_bytes));
}

void lh_evictor_free(lh_evictor *ev)
{
    lh_device_free(lh_exec_device(&ev->exec), ev->logits);
    ev->logits = NULL;
    ev->max_ld = ev->layers = ev->eviction_bytes = 0;
    lh_exec_latch(&ev->exec, lh_evictor_reserve(ev));
}

void lh_evictor_free_rows(lh_evictor *ev)
{
    free_store(ev);
    ev->row_bytes = 0;
    lh_exec_latch(&ev->exec, lh_evictor_reserve(ev));
}

int64_t lh_evictor_ld(const lh_evictor *ev)
{
    return ev->max_ld;
}

lh_row_logits lh_evict_row_logits(const lh_evictor *ev)
{
    return (lh_row_logits){ev->logits, ev->ld};
}

int64_t lh_evict_summary_bytes(const lh_evictor *ev)
{
    return ev->summary_bytes;
}

const lh_rotation *lh_key_rotation(const lh_evictor *ev, const lh_evict_job *job)
{
    const int is_bare = job->phase == LH_EVICT_DECODE && ev->policy.positions == LH_POSITION_SLOT;
    return is_bare ? NULL : job->layer.rotation;
}

lh_draw lh_draw_of(const lh_evictor *ev, const lh_evict_job *job)
{
    /* the layer lies above 16 bits that are always 0: a trace is drawn from as it always was */
    return (lh_draw){.key = {(uint32_t)ev->seed, (uint32_t)(ev->seed >> 32)},
                     .counter = {(uint32_t)job->layer.index << 16, (uint32_t)job->number},
                     .first_head = ev->shape.heads.kv_first};
}

lh_row_room lh_evict_row_room(lh_evictor *ev, int64_t seen)
{
    return (lh_row_room){.q = ev->store.q,
                         .lse = ev->store.lse,
                         .positions = ev->store.positions,
                         .rows = lh_policy_rows(&ev->policy, seen)};
}

void lh_evict_put_positions(lh_evictor *ev, const int32_t *positions, int64_t rows)
{
    lh_exec_put(&ev->exec, ev->store.positions, positions, rows * (int64_t)sizeof *positions);
}
