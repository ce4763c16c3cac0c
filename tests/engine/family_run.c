#include "engine/family_run.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "policies/budgets.h"

lh_engine *family_open(lh_comm *comm, const char *path, const char *device, int deterministic)
{
    lh_engine *engine = NULL;
    mt_try(lh_engine_open_on(&engine, comm,
                             &(lh_engine_options){.model = path,
                                                  .device = device,
                                                  .dtype = "f32",
                                                  .kv_dtype = "f32",
                                                  .threads = 1,
                                                  .deterministic = deterministic}));
    return engine;
}

/* ---- how much is held ---- */

/* A run under way. */
typedef struct state {
    lh_engine *engine;
    lh_session *session;
    lh_policy_numbers fixed; /* of the policy */
    const char *name;
    int64_t since; /* tokens taken in since the cache was last down to its budget */
    int64_t bytes; /* of its memory after the prompt */
} state;

/* Tokens of a layer that the next row can see. */
static int64_t visible(const state *s, int64_t layer)
{
    const lh_config *c = lh_engine_get(s->engine)->config;
    int64_t seen = lh_kv_seen(lh_session_kv(s->session));
    return c->sliding[layer] && seen >= c->window ? c->window - 1 : seen;
}

/* What heads of this rank hold. Adaptive heads share their layer's budget, or that of all layers. */
static void check_heads(const state *s)
{
    lh_kv *kv = lh_session_kv(s->session);
    const lh_config *c = lh_engine_get(s->engine)->config;
    int64_t seen = lh_kv_seen(kv);
    for (int64_t l = 0; l < c->layers; l++) {
        const lh_ragged *v = lh_kv_view(kv, l);
        int64_t most = visible(s, l), budget = lh_kv_layer_budget(kv, l) + s->since;
        int uniform = s->fixed.evicts && s->fixed.budgets.heads == LH_HEADS_UNIFORM;
        if (uniform && budget < most) most = budget;
        for (int64_t h = 0; h < v->heads; h++) {
            mt_check(v->len[h] <= most, "%s: after %lld tokens a head of layer %lld holds %lld entries, not %lld",
                     s->name, (long long)seen, (long long)l, (long long)v->len[h], (long long)most);
            mt_check(v->len[h] >= 1, "%s: a head of layer %lld is empty", s->name, (long long)l);
            for (int64_t i = 1; i < v->len[h] && s->fixed.positions == LH_POSITION_SLOT; i++)
                mt_check(v->positions[v->offset[h] + i] > v->positions[v->offset[h] + i - 1],
                         "%s: after %lld tokens slot %lld has an earlier token than the one before it", s->name,
                         (long long)seen, (long long)i);
            for (int64_t i = 0; i < v->len[h] && c->sliding[l]; i++) {
                int64_t p = v->positions ? v->positions[v->offset[h] + i] : i;
                mt_check(p > seen - c->window, "%s: a sliding layer holds position %lld after %lld tokens", s->name,
                         (long long)p, (long long)seen);
            }
        }
    }
}

static lh_kv_stats stats_of(lh_kv *kv)
{
    lh_kv_stats stats = {0};
    mt_try(lh_kv_stats_of(kv, &stats));
    return stats;
}

/* What all layers hold together. */
static void check_total(const state *s)
{
    lh_kv *kv = lh_session_kv(s->session);
    const lh_config *c = lh_engine_get(s->engine)->config;
    int64_t held = stats_of(kv).entries_counted, most = 0;
    mt_try(lh_comm_allreduce(lh_engine_get(s->engine)->comm, &held, 1, LH_I64, LH_SUM));
    for (int64_t l = 0; l < c->layers; l++) {
        int64_t budget = s->fixed.evicts ? lh_kv_layer_budget(kv, l) + s->since : visible(s, l);
        most += c->kv_heads *
                (s->fixed.budgets.layers == LH_LAYERS_ADAPTIVE || budget < visible(s, l) ? budget : visible(s, l));
    }
    mt_check(held <= most, "%s: after %lld tokens the model holds %lld entries, not %lld", s->name,
             (long long)lh_kv_seen(kv), (long long)held, (long long)most);
}

/* Where every step, or every few, goes down to the budget, nothing grows. Heads that compete may need to lie otherwise.
 */
static void check_memory(state *s)
{
    int64_t bytes = stats_of(lh_session_kv(s->session)).bytes_capacity;
    if (s->bytes == 0) s->bytes = bytes;
    mt_check(!s->fixed.every || s->fixed.budgets.heads != LH_HEADS_UNIFORM || bytes == s->bytes,
             "%s: the cache went from %lld to %lld bytes", s->name, (long long)s->bytes, (long long)bytes);
}

static void check_state(state *s)
{
    check_heads(s);
    check_total(s);
    check_memory(s);
}

/* ---- one run ---- */

static void gather(const state *s, lh_positions *to)
{
    for (int64_t l = 0; l < lh_engine_get(s->engine)->config->layers; l++)
        mt_try(lh_kv_gather_positions(lh_session_kv(s->session), l, &to[l]));
}

/* The logits of the last row, and the best token. */
static void look(const state *s, family_result *out, int64_t step)
{
    static const lh_sampling greedy = {.top_p = 1, .repeat_penalty = 1};
    const float *row = NULL;
    int64_t rows = 0;
    mt_try(lh_session_draw(s->session, &greedy, step, &out->tokens[step]));
    mt_try(lh_session_logits(s->session, &row, &rows));
    if (row) memcpy(out->logits + step * FAMILY_VOCAB, row, FAMILY_VOCAB * sizeof *row);
}

static void step(state *s, int32_t id)
{
    int64_t before = stats_of(lh_session_kv(s->session)).evictions;
    mt_try(lh_session_step(s->session, id));
    s->since = stats_of(lh_session_kv(s->session)).evictions > before ? 0 : s->since + 1;
    check_state(s);
}

static void describe(const family_case *c, const lh_policy *plan, char *to, size_t bytes)
{
    lh_buf text = {0};
    mt_try(lh_policy_text(plan, &text));
    snprintf(to, bytes, "%s: %s", c->name, text.data);
    lh_buf_clear(&text);
}

void family_run(lh_engine *engine, const family_case *c, family_result *out)
{
    lh_policy plan;
    state s = {.engine = engine, .name = out->name};
    *out = (family_result){.layers = lh_engine_get(engine)->config->layers};
    mt_try(lh_policy_resolve(&plan, c->policy));
    mt_try(lh_engine_size_policy(engine, &plan));
    describe(c, &plan, out->name, sizeof out->name);
    s.fixed = lh_policy_fix(&plan, FAMILY_PROMPT);
    mt_try(lh_calloc(&out->logits, FAMILY_STEPS * FAMILY_VOCAB, sizeof *out->logits));
    mt_try(lh_session_open(&s.session, engine,
                           &(lh_session_options){.policy = &plan,
                                                 .prompt = FAMILY_PROMPT,
                                                 .more = FAMILY_STEPS,
                                                 .length = FAMILY_PROMPT + FAMILY_STEPS,
                                                 .seed = 3}));
    if (!s.session) return;
    mt_try(lh_session_prefill(s.session, c->ids, FAMILY_PROMPT, NULL));
    check_state(&s);
    gather(&s, out->kept);
    for (int64_t i = 0; i < FAMILY_STEPS; i++) {
        look(&s, out, i);
        if (i + 1 < FAMILY_STEPS) step(&s, c->ids[FAMILY_PROMPT + i]);
    }
    gather(&s, out->final);
    lh_session_close(s.session);
}

void family_result_clear(family_result *r)
{
    lh_free(r->logits);
    for (int l = 0; l < FAMILY_LAYERS; l++) {
        lh_positions_clear(&r->kept[l]);
        lh_positions_clear(&r->final[l]);
    }
    *r = (family_result){0};
}

/* ---- comparing ---- */

/* Shared entries of all entries of a head. */
static double jaccard(const lh_positions *a, const lh_positions *b, int64_t h)
{
    int64_t i = a->offsets[h], j = b->offsets[h], shared = 0, all = 0;
    for (; i < a->offsets[h + 1] || j < b->offsets[h + 1]; all++) {
        int left = j == b->offsets[h + 1] || (i < a->offsets[h + 1] && a->positions[i] <= b->positions[j]);
        int right = i == a->offsets[h + 1] || (j < b->offsets[h + 1] && b->positions[j] <= a->positions[i]);
        shared += left && right;
        i += left;
        j += right;
    }
    return all ? (double)shared / (double)all : 1;
}

static void compare_layer(family_likeness *l, const lh_positions *a, const lh_positions *b, const char *name)
{
    mt_check(a->heads == b->heads, "%s: %lld heads and %lld", name, (long long)a->heads, (long long)b->heads);
    for (int64_t h = 0; h < a->heads && h < b->heads; h++) {
        double one = jaccard(a, b, h);
        if (l->heads == 0 || one < l->least) {
            l->least = one;
            snprintf(l->worst, sizeof l->worst, "%s", name);
        }
        l->heads++;
        l->differing += one < 1;
        l->sum += one;
    }
}

void family_compare_sets(family_likeness *l, const lh_positions *a, const lh_positions *b, int64_t layers,
                         const char *name)
{
    for (int64_t i = 0; i < layers; i++) compare_layer(l, &a[i], &b[i], name);
}

void family_compare(family_likeness *l, const family_result *a, const family_result *b)
{
    family_compare_sets(l, a->kept, b->kept, a->layers, b->name);
    family_compare_sets(l, a->final, b->final, a->layers, b->name);
}

void family_check_same(const family_result *a, const family_result *b)
{
    family_likeness l = {0};
    mt_check(memcmp(a->tokens, b->tokens, sizeof a->tokens) == 0, "%s: other tokens", b->name);
    for (int64_t i = 0; i < FAMILY_STEPS; i++)
        mt_check(memcmp(a->logits + i * FAMILY_VOCAB, b->logits + i * FAMILY_VOCAB, FAMILY_VOCAB * sizeof(float)) == 0,
                 "%s: other logits after %lld steps", b->name, (long long)i);
    family_compare(&l, a, b);
    mt_check(l.differing == 0, "%s: %lld heads keep other entries", b->name, (long long)l.differing);
}
