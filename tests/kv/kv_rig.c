#include "kv_rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

enum { BLOCK_MOST = 64 }; /* tokens after the prompt that are taken in at once */

const lh_ops *kv_rig_backend(int i)
{
    for (int b = 0; lh_ops_at(b); b++)
        if (lh_ops_at(b)->device == LH_DEVICE_CPU && i-- == 0) return lh_ops_at(b);
    return NULL;
}

int kv_rig_backends(void)
{
    int n = 0;
    while (kv_rig_backend(n)) n++;
    return n;
}

int64_t kv_rig_kind(const kv_rig_case *of, int64_t token)
{
    if (token >= of->tokens - of->apart) return token + of->kinds;
    return ((token << of->shuffle) + of->shuffle) % (of->tokens - of->apart) % of->kinds;
}

/* Stored as the cache stores it. */
static float stored(const kv_rig_case *of, char what, float x)
{
    return of->type == LH_BF16 && what != 'q' ? lh_bf16_to_f32(lh_f32_to_bf16(x)) : x;
}

static float value_of(const kv_rig_case *of, char what, int64_t layer, int64_t token, int64_t head, int64_t i)
{
    const kv_rig_values *x = of->values;
    int64_t row = layer * x->room + token;
    if (what == 'w') return x->w[((layer * x->hidden + token) * of->heads + head) * of->dim + i];
    if (what == 'q') return x->q[(row * of->heads + head) * of->dim + i];
    return stored(of, what, (what == 'k' ? x->k : x->v)[(row * of->kv_heads + head) * of->dim + i]);
}

float kv_rig_element(const kv_rig_case *of, char what, int64_t layer, int64_t token, int64_t head, int64_t i)
{
    if (of->values) return value_of(of, what, layer, token, head, i);
    uint32_t out[4], key[2] = {(uint32_t)of->seed, (uint32_t)what};
    uint32_t counter[4] = {(uint32_t)i, (uint32_t)token, (uint32_t)head, (uint32_t)layer};
    if (what == 'k' && of->equal_keys) counter[1] = 0;
    if (what == 'k' && of->kinds) counter[1] = (uint32_t)kv_rig_kind(of, token);
    if ((what == 'q' || what == 'w') && of->equal_groups) counter[2] = (uint32_t)(head / (of->heads / of->kv_heads));
    lh_philox(out, key, counter);
    float x = 3.0f * (lh_uniform(out[0]) + lh_uniform(out[1]) - 1.0f);
    return stored(of, what, x);
}

float kv_rig_hidden_state(int64_t layer, int64_t token, int64_t i)
{
    return (float)((41 * layer + 7 * token + 3 * i) % 128);
}

float kv_rig_frequency(const kv_rig_case *of, int64_t i)
{
    return powf(100.0f, -2.0f * (float)i / (float)of->dim);
}

float kv_rig_frequency_of(const kv_rig_case *of, int64_t layer, int64_t i)
{
    return of->values ? of->values->rotations[layer].inv_freq[i] : kv_rig_frequency(of, i);
}

lh_query_scaling kv_rig_query_scaling(const kv_rig_case *of, int64_t layer)
{
    return of->values ? of->values->rotations[layer].queries : (lh_query_scaling){.beta = 0.3f, .positions = 29};
}

int64_t kv_rig_half(const kv_rig_case *of)
{
    return (of->values ? of->values->rotary : of->dim) / 2;
}

double kv_rig_scale(const kv_rig_case *of)
{
    return of->values ? of->values->scale : 1 / sqrt((double)of->dim);
}

int64_t kv_rig_hidden(const kv_rig_case *of)
{
    return of->values ? of->values->hidden : RIG_HIDDEN;
}

const int64_t kv_rig_layer_shares[KV_RIG_LAYERS] = {7, 30, 2, 0, 12, 1, 5, 9, 40, 3, 0, 6, 20, 8, 1, 11, 2, 60, 4};

lh_kv_shape kv_rig_shape(const kv_rig *r)
{
    return (lh_kv_shape){.heads = r->heads,
                         .layers = r->of->layers,
                         .head_dim = r->of->dim,
                         .types = {r->of->type, r->of->type, r->of->quantises ? LH_Q8 : r->of->type},
                         .scale = 1.0f / sqrtf((float)r->of->dim),
                         .softcap = r->of->softcap,
                         .window = r->of->window,
                         .sliding = r->of->sliding,
                         .hidden = RIG_HIDDEN,
                         .projections = r->projections,
                         .rotations = r->rotations,
                         .score_weights = r->score_weights,
                         .layer_shares = kv_rig_layer_shares,
                         .profiles = r->of->policy.profiles};
}

static void *host(int64_t count, int64_t size)
{
    void *p = NULL;
    mt_try(lh_calloc(&p, count, size));
    return p;
}

/* ---- what the cache tells ---- */

/* [kv_count, tokens] of [kv_count, ld], zero after the entries of a head: blocks hold fewer than the prompt has
 * tokens.
 */
static void *copy_rows(const kv_rig *r, const lh_evict_scores *s, const void *from, size_t size)
{
    size_t tokens = (size_t)r->of->tokens;
    char *all = host(r->heads.kv_count * r->of->tokens, (int64_t)size);
    for (size_t h = 0; h < (size_t)r->heads.kv_count; h++)
        memcpy(all + h * tokens * size, (const char *)from + h * (size_t)s->ld * size, (size_t)s->view->len[h] * size);
    return all;
}

static lh_status scored(void *self, int64_t layer, const lh_evict_scores *s)
{
    kv_rig *r = self;
    if (!r->result) return LH_OK;
    lh_free(r->result->scores[layer]);
    lh_free(r->result->state[layer]);
    lh_free(r->result->raw[layer]);
    r->result->scores[layer] = copy_rows(r, s, s->scores, sizeof(float));
    r->result->state[layer] = copy_rows(r, s, s->state, 1);
    r->result->raw[layer] = s->raw ? copy_rows(r, s, s->raw, sizeof(float)) : NULL;
    return LH_OK;
}

static lh_status kept(void *self, int64_t layer, const lh_ragged *view)
{
    kv_rig *r = self;
    (void)layer;
    mt_check(view->heads == r->heads.kv_count, "the view has %lld heads", (long long)view->heads);
    return LH_OK;
}

/* ---- open and close ---- */

/* This rank's columns of the output projections of all layers. */
static void make_projections(kv_rig *r)
{
    const kv_rig_case *c = r->of;
    int64_t ld = r->heads.q_count * c->dim;
    r->w = host(c->layers * RIG_HIDDEN * ld, sizeof(float));
    for (int64_t l = 0; l < c->layers; l++) {
        float *w = r->w + l * RIG_HIDDEN * ld;
        for (int64_t o = 0; o < RIG_HIDDEN; o++)
            for (int64_t x = 0; x < ld; x++)
                w[o * ld + x] = kv_rig_element(c, 'w', l, o, r->heads.q_first + x / c->dim, x % c->dim);
        r->projections[l] = (lh_projection){.w = lh_plain_matrix(w, LH_F32, ld)};
    }
}

static void make_rotations(kv_rig *r)
{
    int64_t half = r->of->dim / 2;
    r->frequencies = host(half, sizeof(float));
    for (int64_t i = 0; i < half; i++) r->frequencies[i] = kv_rig_frequency(r->of, i);
    for (int64_t l = 0; l < r->of->layers; l++)
        r->rotations[l] = (lh_rotation){
            .inv_freq = r->frequencies, .rotary = r->of->dim, .scale = 1.0f, .queries = kv_rig_query_scaling(r->of, l)};
}

float kv_rig_score_weight(const kv_rig_case *of, int64_t layer, int64_t head, int64_t i)
{
    uint32_t out[4], key[2] = {(uint32_t)of->seed, 'l'}, counter[4] = {(uint32_t)i, 0, (uint32_t)head, (uint32_t)layer};
    lh_philox(out, key, counter);
    return lh_uniform(out[0]) - 0.5f;
}

void kv_rig_size(lh_policy *policy)
{
    mt_try(lh_policy_size(policy, &(lh_cache_size){.layers = 1, .kv_heads = 1, .entry_bytes = 1, .score_weights = 1}));
}

static void make_score_weights(kv_rig *r)
{
    const kv_rig_case *c = r->of;
    const int64_t n = lh_learnt_numbers(c->dim);
    r->score_weights = host(c->layers * r->heads.kv_count * n, sizeof(float));
    for (int64_t l = 0; l < c->layers; l++)
        for (int64_t g = 0; g < r->heads.kv_count; g++)
            for (int64_t i = 0; i < n; i++)
                r->score_weights[(l * r->heads.kv_count + g) * n + i] =
                    kv_rig_score_weight(c, l, r->heads.kv_first + g, i);
}

lh_kv *kv_rig_cache(const kv_rig *r, const lh_policy *plan)
{
    lh_kv *kv = NULL;
    const lh_kv_shape shape = kv_rig_shape(r);
    const lh_exec place = {.ops = r->ops, .stream = r->stream, .comm = r->comm, .device_comm = r->device_comm};
    mt_try(lh_kv_open(&kv, &place, &shape, plan));
    lh_kv_seed(kv, r->of->seed);
    return kv;
}

void kv_rig_fork(kv_rig *r)
{
    if (r->origin)
        lh_kv_close(r->kv);
    else
        r->origin = r->kv;
    mt_try(lh_kv_fork(&r->kv, r->origin, r->of->more));
}

void kv_rig_open(kv_rig *r, const kv_rig_case *of, lh_comm *comm, const lh_ops *ops)
{
    *r = (kv_rig){.of = of, .comm = comm, .ops = ops, .chunk = 37};
    mt_try(lh_policy_resolve(&r->plan, &of->policy));
    kv_rig_size(&r->plan);
    lh_policy_ask(&r->plan, of->question);
    r->fixed = lh_policy_fix(&r->plan, of->tokens);
    mt_try(lh_device_open(&r->device, &(lh_device_choice){.kind = LH_DEVICE_CPU}));
    mt_try(lh_stream_open(&r->stream, r->device));
    mt_try(lh_comm_open_on(&r->device_comm, &(lh_comm_on){.host = comm, .stream = r->stream}));
    mt_try(lh_heads_of(&r->heads, of->heads, of->kv_heads, lh_comm_rank(comm), lh_comm_size(comm)));
    make_projections(r);
    make_rotations(r);
    make_score_weights(r);
    r->kv = kv_rig_cache(r, &r->plan);
    lh_kv_listen(r->kv, &(lh_kv_listener){.self = r, .scored = scored, .kept = kept});
    int64_t room = of->tokens > BLOCK_MOST ? of->tokens : BLOCK_MOST;
    int64_t kv_width = r->heads.kv_count * of->dim, q_width = r->heads.q_count * of->dim;
    r->k = host(room * kv_width, sizeof(float));
    r->v = host(room * kv_width, sizeof(float));
    r->q = host(room * (q_width + 3), sizeof(float)); /* rows further apart than they are wide */
    r->o = host(room * q_width, sizeof(float));
    r->lse = host(room * r->heads.q_count, sizeof(float));
    r->hidden = host(room * RIG_HIDDEN, sizeof *r->hidden);
    r->newest = host(of->layers * r->heads.q_count, sizeof(float));
    r->positions = host(room, sizeof(int32_t));
}

void kv_rig_close(kv_rig *r)
{
    lh_kv_close(r->kv);
    lh_kv_close(r->origin);
    lh_comm_close(r->device_comm);
    lh_stream_close(r->stream);
    lh_device_close(r->device); /* asserts that the cache gave everything back */
    lh_free(r->k), lh_free(r->v), lh_free(r->q), lh_free(r->o), lh_free(r->lse), lh_free(r->newest),
        lh_free(r->positions);
    lh_free(r->hidden), lh_free(r->w), lh_free(r->score_weights), lh_free(r->frequencies);
    *r = (kv_rig){0};
}

/* ---- feeding ---- */

/* x, rotated by one position, as if by another: [heads, dim]. */
static void turn(const kv_rig_case *c, float *x, int64_t heads, int64_t from, int64_t to)
{
    int64_t half = c->dim / 2;
    for (int64_t h = 0; h < heads; h++, x += c->dim)
        for (int64_t i = 0; i < half; i++) {
            float f = kv_rig_frequency(c, i);
            double angle = (double)((float)to * f) - (double)((float)from * f), a = x[i], b = x[i + half];
            x[i] = (float)(a * cos(angle) - b * sin(angle));
            x[i + half] = (float)(b * cos(angle) + a * sin(angle));
        }
}

/* The factor of a query at a position, for a query of another. */
static void scale_queries(const kv_rig_case *c, int64_t layer, float *x, int64_t heads, const int64_t from_to[2])
{
    const lh_query_scaling s = kv_rig_query_scaling(c, layer);
    double factors[2];
    for (int i = 0; i < 2; i++) factors[i] = 1 + (double)s.beta * log((double)(1 + from_to[i] / s.positions));
    for (int64_t i = 0; i < heads * c->dim; i++) x[i] = (float)((double)x[i] * factors[1] / factors[0]);
}

static void make_rows(kv_rig *r, int64_t layer, int64_t first, int64_t tokens)
{
    const kv_rig_case *c = r->of;
    const lh_heads *h = &r->heads;
    int64_t slot = lh_kv_rotary_position(r->kv, layer, first);
    for (int64_t t = 0; t < tokens; t++) {
        r->positions[t] = (int32_t)(first + t);
        for (int64_t i = 0; i < RIG_HIDDEN; i++)
            r->hidden[t * RIG_HIDDEN + i] = lh_f32_to_bf16(kv_rig_hidden_state(layer, first + t, i));
        for (int64_t g = 0; g < h->kv_count; g++)
            for (int64_t i = 0; i < c->dim; i++) {
                r->k[(t * h->kv_count + g) * c->dim + i] = kv_rig_element(c, 'k', layer, first + t, h->kv_first + g, i);
                r->v[(t * h->kv_count + g) * c->dim + i] = kv_rig_element(c, 'v', layer, first + t, h->kv_first + g, i);
            }
        for (int64_t g = 0; g < h->q_count; g++)
            for (int64_t i = 0; i < c->dim; i++)
                r->q[t * (h->q_count * c->dim + 3) + g * c->dim + i] =
                    kv_rig_element(c, 'q', layer, first + t, h->q_first + g, i);
        if (!lh_kv_rotates_by_slot(r->kv)) continue;
        turn(c, r->k + t * h->kv_count * c->dim, h->kv_count, first + t, 0);
        float *q = r->q + t * (h->q_count * c->dim + 3);
        turn(c, q, h->q_count, first + t, slot + t);
        scale_queries(c, layer, q, h->q_count, (const int64_t[]){first + t, slot + t});
    }
}

/* Attention of the rows into r->o and r->lse, and the logits of a single one where they are wanted. */
static void attend(kv_rig *r, lh_ragged *view, int64_t layer, int64_t tokens, lh_row_logits logits)
{
    const kv_rig_case *c = r->of;
    const lh_heads *h = &r->heads;
    lh_logit logit = {.scale = 1.0f / sqrtf((float)c->dim),
                      .softcap = c->softcap,
                      .window = c->sliding && c->sliding[layer] ? c->window : 0};
    int64_t q_ld = h->q_count * c->dim + 3, o_ld = h->q_count * c->dim;
    if (logits.at)
        mt_try(r->ops->attend_decode(r->stream, &(lh_attend_decode_args){.o = r->o,
                                                                         .lse = r->lse,
                                                                         .logits = &logits,
                                                                         .q = r->q,
                                                                         .positions = r->positions,
                                                                         .seqs = view,
                                                                         .batch = 1,
                                                                         .q_ld = q_ld,
                                                                         .o_ld = o_ld,
                                                                         .map = lh_heads_grouping(h),
                                                                         .logit = logit}));
    else
        mt_try(r->ops->attend_block(r->stream, &(lh_attend_block_args){.o = r->o,
                                                                       .lse = r->lse,
                                                                       .q = r->q,
                                                                       .positions = r->positions,
                                                                       .kv = view,
                                                                       .map = lh_heads_grouping(h),
                                                                       .logit = logit,
                                                                       .tokens = tokens,
                                                                       .q_ld = q_ld,
                                                                       .o_ld = o_ld}));
}

void kv_rig_feed(kv_rig *r, lh_ragged *view, int64_t layer, int64_t first, int64_t tokens)
{
    const kv_rig_case *c = r->of;
    const lh_heads *h = &r->heads;
    int64_t q_ld = h->q_count * c->dim + 3;
    make_rows(r, layer, first, tokens);
    mt_try(r->ops->append(r->stream, &(lh_append_args){.seqs = view,
                                                       .batch = 1,
                                                       .tokens = tokens,
                                                       .ld = h->kv_count * c->dim,
                                                       .k = r->k,
                                                       .v = r->v,
                                                       .positions = r->positions}));
    lh_row_logits logits = {0};
    int wanted = lh_kv_wants_rows(r->kv, layer) < first + tokens;
    /* every other step leaves its logits, the others have them worked out */
    if (wanted && tokens == 1 && first % 2 && !c->works_out) logits = lh_kv_row_logits(r->kv, layer);
    if (lh_kv_rotates_by_slot(r->kv)) mt_try(lh_kv_attended(r->kv, layer, first + tokens, &view));
    attend(r, view, layer, tokens, logits);
    memcpy(r->newest + layer * h->q_count, r->lse + (tokens - 1) * h->q_count, (size_t)h->q_count * sizeof *r->lse);
    if (!wanted) return;
    lh_kv_record(r->kv, layer,
                 &(lh_kv_rows){.queries = {.q = r->q,
                                           .lse = r->lse,
                                           .logits = logits,
                                           .positions = r->positions,
                                           .first = first,
                                           .tokens = tokens,
                                           .q_ld = q_ld,
                                           .hidden = lh_kv_wants_hidden(r->kv, layer) ? r->hidden : NULL,
                                           .hidden_type = LH_BF16}});
}

/* What a layer holds before the block that begins at token t, where one does. */
static void gather_block(kv_rig *r, int64_t layer, int64_t t)
{
    kv_rig_result *out = r->result;
    lh_policy_numbers fixed = r->fixed;
    int64_t first = lh_kv_layer_budget(r->kv, layer), *n = &out->block_count[layer];
    if (!fixed.evicts || !fixed.block || t < first || (t - first) % fixed.block) return;
    mt_try(lh_realloc(&out->blocks[layer], *n + 1, sizeof *out->blocks[layer]));
    mt_try(lh_kv_gather_positions(r->kv, layer, &out->blocks[layer][(*n)++]));
}

void kv_rig_prefill(kv_rig *r, kv_rig_result *out)
{
    const kv_rig_case *c = r->of;
    *out = (kv_rig_result){0};
    r->result = out;
    mt_try(lh_kv_begin(r->kv, c->tokens, c->more));
    for (int64_t l = 0; l < c->layers; l++) {
        lh_ragged *view = NULL;
        mt_try(lh_kv_prefill_begin(r->kv, l, &view));
        for (int64_t t = 0, n; t < c->tokens; t += n) {
            n = c->tokens - t < r->chunk ? c->tokens - t : r->chunk;
            mt_try(lh_kv_prefill_next(r->kv, l, t, &n, &view));
            gather_block(r, l, t);
            kv_rig_feed(r, view, l, t, n);
        }
        mt_try(lh_kv_prefill_end(r->kv, l));
    }
    r->result = NULL;
    kv_rig_gather(r, out);
}

void kv_rig_take(kv_rig *r, lh_kv_taken what, int64_t tokens)
{
    int64_t seen = lh_kv_seen(r->kv);
    mt_try(lh_kv_reserve(r->kv, tokens));
    for (int64_t at = 0; at < tokens;) { /* of a block the last row comes alone */
        int64_t t = at + 1 < tokens ? tokens - 1 - at : 1;
        for (int64_t l = 0; l < r->of->layers; l++) {
            lh_ragged *view = NULL;
            mt_try(lh_kv_room(r->kv, l, at == 0 ? tokens : t, &view));
            kv_rig_feed(r, view, l, seen + at, t);
        }
        at += t;
    }
    mt_try(lh_kv_settle(r->kv, what, tokens));
}

static void gather_newest(kv_rig *r, kv_rig_result *out)
{
    const kv_rig_case *c = r->of;
    int64_t bytes[64], at[64];
    if (!out->lse) out->lse = host(c->layers * c->heads, sizeof *out->lse);
    for (int i = 0; i < r->heads.ranks; i++) {
        lh_heads other = lh_heads_at(&r->heads, i);
        bytes[i] = other.q_count * (int64_t)sizeof(float);
        at[i] = other.q_first * (int64_t)sizeof(float);
    }
    for (int64_t l = 0; l < c->layers; l++)
        mt_try(lh_comm_allgatherv(r->comm, r->newest + l * r->heads.q_count, out->lse + l * c->heads, bytes, at));
}

void kv_rig_gather(kv_rig *r, kv_rig_result *out)
{
    gather_newest(r, out);
    for (int64_t l = 0; l < r->of->layers; l++) {
        lh_positions_clear(&out->kept[l]);
        mt_try(lh_kv_gather_positions(r->kv, l, &out->kept[l]));
    }
    mt_try(lh_kv_stats_of(r->kv, &out->stats));
}

int64_t kv_rig_evictions(lh_kv *kv)
{
    lh_kv_stats stats = {0};
    mt_try(lh_kv_stats_of(kv, &stats));
    return stats.evictions;
}

int kv_rig_same(const lh_positions *a, const lh_positions *b)
{
    for (int64_t h = 0; h <= a->heads; h++)
        if (a->offsets[h] != b->offsets[h]) return 0;
    return memcmp(a->positions, b->positions, (size_t)a->offsets[a->heads] * sizeof *a->positions) == 0;
}

void kv_rig_result_clear(kv_rig_result *result)
{
    for (int l = 0; l < KV_RIG_LAYERS; l++) {
        lh_positions_clear(&result->kept[l]);
        for (int64_t i = 0; i < result->block_count[l]; i++) lh_positions_clear(&result->blocks[l][i]);
        lh_free(result->blocks[l]);
        lh_free(result->raw[l]);
        lh_free(result->scores[l]);
        lh_free(result->state[l]);
    }
    lh_free(result->lse);
    *result = (kv_rig_result){0};
}

/* The key of position p, as the cache keeps it: [dim]. Returns how far from it a turned one may lie. */
static float kept_key(const kv_rig *r, int64_t layer, int64_t p, int64_t head, float *k)
{
    for (int64_t i = 0; i < r->of->dim; i++) k[i] = kv_rig_element(r->of, 'k', layer, p, head, i);
    if (!lh_kv_rotates_by_slot(r->kv)) return 0;
    turn(r->of, k, 1, p, 0);
    return r->of->type == LH_BF16 ? 0.03f : 1e-5f;
}

int kv_rig_entries_are_whole(kv_rig *r)
{
    const kv_rig_case *c = r->of;
    for (int64_t l = 0; l < c->layers; l++) {
        const lh_ragged *view = lh_kv_view(r->kv, l);
        for (int64_t h = 0; h < view->heads; h++)
            for (int64_t s = view->offset[h]; s < view->offset[h] + view->len[h]; s++) {
                int64_t p = view->positions ? view->positions[s] : s - view->offset[h];
                float key[64], off = kept_key(r, l, p, r->heads.kv_first + h, key);
                for (int64_t i = 0; i < c->dim; i++) {
                    float k, v;
                    lh_dtype_convert(&k, LH_F32, (char *)view->k + (s * c->dim + i) * lh_dtype_bytes(c->type), c->type,
                                     1);
                    lh_dtype_convert(&v, LH_F32, (char *)view->v + (s * c->dim + i) * lh_dtype_bytes(c->type), c->type,
                                     1);
                    if (!(fabsf(k - key[i]) <= off)) return 0;
                    if (v != kv_rig_element(c, 'v', l, p, r->heads.kv_first + h, i)) return 0;
                }
            }
    }
    return 1;
}

int64_t kv_rig_peak(const kv_rig *r)
{
    lh_mem_usage u = lh_device_usage(r->device);
    return u.peak_total - u.now[LH_MEM_WORK];
}
