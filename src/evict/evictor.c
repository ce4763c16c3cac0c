#include "evict/evict_impl.h"

lh_status lh_evictor_open(lh_evictor **out, const lh_exec *exec, const lh_evict_shape *shape,
                          const lh_profile *head_profile)
{
    lh_status st = LH_OK;
    lh_evictor *ev = NULL;
    LH_TRY_DONE(lh_calloc(&ev, 1, sizeof *ev));
    ev->exec = *exec;
    ev->shape = *shape;
    ev->head_profile = head_profile;
    LH_TRY_DONE(lh_gather_init(&ev->gather, shape->heads.ranks));
    LH_TRY_DONE(lh_rows_check_open(&ev->check, exec));
    LH_TRY_DONE(lh_calloc(&ev->budgets, shape->heads.kv_heads, sizeof *ev->budgets));
    LH_TRY_DONE(lh_calloc(&ev->planned, LH_EVICT_AT_ONCE * shape->heads.kv_count, sizeof *ev->planned));
    *out = ev;
    ev = NULL;
done:
    lh_evictor_close(ev);
    return st;
}

void lh_evictor_close(lh_evictor *ev)
{
    if (!ev) return;
    lh_evictor_free(ev);
    lh_evictor_free_rows(ev);
    lh_rows_check_close(&ev->check, &ev->exec);
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

/* ---- work space ---- */

static void free_parts(lh_evictor *ev, int first, int end)
{
    lh_evict_use_layer(ev, 0);
    for (int i = first; i < end; i++) {
        lh_device_free(lh_exec_device(&ev->exec), ev->at[i]);
        ev->at[i] = NULL;
        ev->bytes[i] = 0;
    }
}

static lh_status alloc_parts(lh_evictor *ev, const lh_space_request *request, int first, int end)
{
    int64_t bytes[LH_SPACE_PARTS];
    lh_space_request own = *request;
    own.shape = &ev->shape;
    own.policy = &ev->policy;
    free_parts(ev, first, end);
    lh_space_sizes(&own, bytes);
    for (int i = first; i < end; i++) {
        int64_t layers = i < LH_SPACE_LAYER_PARTS ? request->layers : 1;
        LH_TRY(lh_device_alloc(lh_exec_device(&ev->exec), &ev->at[i], layers * bytes[i], LH_MEM_WORK));
        ev->bytes[i] = bytes[i];
    }
    return LH_OK;
}

static lh_status alloc_evictions(lh_evictor *ev, const lh_space_request *request)
{
    lh_status st = alloc_parts(ev, request, 0, LH_SPACE_FIRST_OF_ROWS);
    ev->ld = request->need.ld;
    ev->layers = request->layers;
    if (st != LH_OK) lh_evictor_free(ev);
    return st;
}

lh_status lh_evictor_alloc(lh_evictor *ev, const lh_evict_need *need)
{
    return alloc_evictions(ev, &(lh_space_request){.need = *need, .layers = 1});
}

lh_status lh_evictor_alloc_steps(lh_evictor *ev, int64_t ld, int64_t layers)
{
    int evicts = lh_evicts_again(&ev->policy), scored = evicts && ev->policy.score.source != LH_SCORE_POSITION;
    return alloc_evictions(
        ev,
        &(lh_space_request){.need = {.ld = ld, .ranked = evicts, .scored = scored}, .layers = layers, .steps = evicts});
}

lh_status lh_evictor_alloc_rows(lh_evictor *ev, int64_t tokens)
{
    return alloc_parts(ev, &(lh_space_request){.tokens = tokens}, LH_SPACE_FIRST_OF_ROWS, LH_SPACE_PARTS);
}

void lh_evictor_free(lh_evictor *ev)
{
    free_parts(ev, 0, LH_SPACE_FIRST_OF_ROWS);
    ev->ld = ev->layers = 0;
}

void lh_evictor_free_rows(lh_evictor *ev)
{
    free_parts(ev, LH_SPACE_FIRST_OF_ROWS, LH_SPACE_PARTS);
}

void lh_evict_use_layer(lh_evictor *ev, int64_t layer)
{
    for (int i = 0; i < LH_SPACE_LAYER_PARTS; i++)
        if (ev->at[i]) ev->at[i] = (char *)ev->at[i] + (layer - ev->layer) * ev->bytes[i];
    ev->layer = layer;
}

int64_t lh_evictor_ld(const lh_evictor *ev)
{
    return ev->ld;
}

lh_row_logits lh_evict_row_logits(const lh_evictor *ev)
{
    return (lh_row_logits){ev->at[LH_SPACE_LOGITS], ev->ld};
}

int64_t lh_evict_summary_bytes(const lh_evictor *ev)
{
    return ev->summary_bytes;
}

lh_draw lh_draw_of(const lh_evictor *ev, const lh_evict_job *job)
{
    /* the layer lies above 16 bits that are always 0: a trace is drawn from as it always was */
    return (lh_draw){.key = {(uint32_t)ev->seed, (uint32_t)(ev->seed >> 32)},
                     .counter = {(uint32_t)job->layer.index << 16, (uint32_t)job->number},
                     .first_head = ev->shape.heads.kv_first};
}

float *lh_own_q(const lh_evictor *ev, int64_t rows)
{
    const lh_heads *h = &ev->shape.heads;
    return (float *)ev->at[LH_SPACE_Q] + (h->split ? rows * h->q_first * ev->shape.head_dim : 0);
}

float *lh_own_lse(const lh_evictor *ev, int64_t rows)
{
    const lh_heads *h = &ev->shape.heads;
    return (float *)ev->at[LH_SPACE_LSE] + (h->split ? rows * h->q_first : 0);
}

lh_row_room lh_evict_row_room(lh_evictor *ev, int64_t seen)
{
    int64_t rows = lh_policy_rows(&ev->policy, seen);
    return (lh_row_room){
        .q = lh_own_q(ev, rows), .lse = lh_own_lse(ev, rows), .positions = ev->at[LH_SPACE_POSITIONS], .rows = rows};
}

void lh_evict_put_positions(lh_evictor *ev, const int32_t *positions, int64_t rows)
{
    lh_exec_put(&ev->exec, ev->at[LH_SPACE_POSITIONS], positions, rows * (int64_t)sizeof *positions);
}
