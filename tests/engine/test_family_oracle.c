/* What every policy keeps of the prompt and while decoding, on every family of models, against its definition in double
 * (tests/kv/kv_oracle.h): fed with the queries, keys, values and output projections that the forward pass itself made,
 * as its operations see them. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "engine/family_run.h"
#include "kv/kv_oracle.h"
#include "model/forward.h"
#include "model/rotations.h"
#include "policies/method.h"

enum { QUESTION = 5, ROOM = FAMILY_PROMPT + FAMILY_STEPS };

static family_models models;

static void set_up(void)
{
    family_models_make(&models);
}

static void tear_down(void)
{
    family_models_remove(&models);
}

/* ---- listening to operations ---- */

/* What goes to the cache and to attention in the run under way. Operations know positions, not layers: a token goes
 * through the layers in their order. */
static struct {
    float *k, *v, *q; /* [layers, ROOM, heads or kv_heads, dim] */
    int64_t heads, kv_heads, dim;
    int64_t layers[ROOM]; /* that a token has entered */
} heard;

static void copy_rows(float *to, const float *from, int64_t ld, int64_t width, const int32_t *positions, int64_t tokens)
{
    for (int64_t t = 0; t < tokens; t++) {
        int64_t layer = heard.layers[positions[t]] - 1;
        memcpy(to + (layer * ROOM + positions[t]) * width, from + t * ld, (size_t)width * sizeof *to);
    }
}

/* Keys are rotated in place. */
static lh_status hear_append(lh_stream *stream, const lh_rope_append_args *all)
{
    const lh_append_args *a = &all->append;
    int64_t width = heard.kv_heads * heard.dim;
    LH_TRY(lh_ops_cpu.rope_append(stream, all));
    for (int64_t t = 0; t < a->tokens; t++) heard.layers[a->positions[t]]++;
    copy_rows(heard.k, a->k, a->ld, width, a->positions, a->tokens);
    copy_rows(heard.v, a->v, a->ld, width, a->positions, a->tokens);
    return LH_OK;
}

static lh_status hear_block(lh_stream *stream, const lh_attend_block_args *a)
{
    copy_rows(heard.q, a->q, a->q_ld, heard.heads * heard.dim, a->positions, a->tokens);
    return lh_ops_cpu.attend_block(stream, a);
}

static lh_status hear_step(lh_stream *stream, const lh_attend_decode_args *a)
{
    copy_rows(heard.q, a->q, a->q_ld, heard.heads * heard.dim, a->positions, 1);
    return lh_ops_cpu.attend_decode(stream, a);
}

/* ---- one run and its oracle ---- */

typedef struct run {
    lh_engine *engine;
    lh_ops ops; /* of the engine's device, heard */
    lh_exec exec;
    lh_forward *forward;
    lh_rotations *rotations;
    lh_kv *kv;
    kv_rig_values values;
    kv_rig_case of;
    oracle o;
    char name[160];
    float *w; /* [layers, hidden, heads * dim] */
} run;

/* Entries that competed in all runs, and of them those of which rounding decided. */
typedef struct tally {
    int64_t decided, doubted;
} tally;

static void *floats(int64_t n)
{
    void *p = NULL;
    mt_try(lh_calloc(&p, n, sizeof(float)));
    return p;
}

static void open_ears(const lh_config *c)
{
    memset(&heard, 0, sizeof heard);
    heard.heads = c->heads, heard.kv_heads = c->kv_heads, heard.dim = c->head_dim;
    heard.k = floats(c->layers * ROOM * c->kv_heads * c->head_dim);
    heard.v = floats(c->layers * ROOM * c->kv_heads * c->head_dim);
    heard.q = floats(c->layers * ROOM * c->heads * c->head_dim);
}

static void close_ears(void)
{
    lh_free(heard.k), lh_free(heard.v), lh_free(heard.q);
}

static void copy_projections(run *x, const lh_kv_shape *shape)
{
    const lh_config *c = lh_engine_get(x->engine)->config;
    int64_t width = c->heads * c->head_dim;
    x->w = floats(c->layers * c->hidden * width);
    for (int64_t l = 0; l < c->layers; l++)
        for (int64_t i = 0; i < c->hidden; i++)
            memcpy(x->w + (l * c->hidden + i) * width,
                   (const float *)shape->projections[l].w.data + i * shape->projections[l].w.ld,
                   (size_t)width * sizeof *x->w);
}

/* What the oracle is told: the configuration's numbers, and what was heard. */
static void describe(run *x, const lh_policy_options *policy, const lh_kv_shape *shape)
{
    const lh_config *c = lh_engine_get(x->engine)->config;
    copy_projections(x, shape);
    x->values = (kv_rig_values){.k = heard.k,
                                .v = heard.v,
                                .q = heard.q,
                                .w = x->w,
                                .room = ROOM,
                                .hidden = c->hidden,
                                .scale = c->attn_scale,
                                .rotations = lh_rotations_layers(x->rotations),
                                .rotary = c->rotary_dim};
    x->of = (kv_rig_case){.heads = c->heads,
                          .kv_heads = c->kv_heads,
                          .dim = c->head_dim,
                          .layers = c->layers,
                          .tokens = FAMILY_PROMPT,
                          .type = LH_F32,
                          .window = c->window,
                          .sliding = c->window ? c->sliding : NULL,
                          .softcap = (float)c->attn_softcap,
                          .seed = 3,
                          .policy = *policy,
                          .values = &x->values};
}

static void open_run(run *x, lh_engine *engine, const lh_policy_options *policy)
{
    lh_policy plan;
    lh_model *model = lh_engine_get(engine)->model;
    *x = (run){.engine = engine, .ops = lh_ops_cpu, .exec = *lh_engine_get(engine)->exec};
    x->ops.rope_append = hear_append;
    x->ops.attend_block = hear_block;
    x->ops.attend_decode = hear_step;
    x->exec.ops = &x->ops;
    open_ears(lh_engine_get(engine)->config);
    mt_try(lh_policy_resolve(&plan, policy));
    mt_try(lh_forward_open(&x->forward, model, &x->exec, &(lh_forward_run){.chunk = 512, .sequences = 1, .rows = 1}));
    mt_try(lh_rotations_open(&x->rotations, lh_model_config(model), &x->exec, ROOM));
    lh_kv_shape shape = lh_model_kv_shape(model, &lh_engine_get(engine)->kv_types);
    shape.rotations = lh_rotations_layers(x->rotations);
    mt_try(lh_kv_open(&x->kv, &x->exec, &shape, &plan));
    lh_kv_seed(x->kv, 3);
    describe(x, policy, &shape);
}

static void close_run(run *x)
{
    oracle_close(&x->o);
    lh_kv_close(x->kv);
    lh_forward_close(x->forward);
    lh_rotations_close(x->rotations);
    lh_free(x->w);
    close_ears();
}

static void check(run *x)
{
    for (int64_t l = 0; l < x->of.layers; l++) {
        lh_positions kept = {0};
        mt_try(lh_kv_gather_positions(x->kv, l, &kept));
        oracle_check(&x->o, l, &kept, x->name);
        lh_positions_clear(&kept);
    }
}

/* The prompt, some steps, a question, more steps. */
static void check_case(lh_engine *engine, int model, const lh_policy_options *policy, tally *all)
{
    run x;
    open_run(&x, engine, policy);
    snprintf(x.name, sizeof x.name, "%s: %s --budget %s --evict %s", family_shapes[model].name, policy->policy,
             policy->budget ? policy->budget : "-", policy->parts.evict ? policy->parts.evict : "-");
    mt_try(lh_kv_begin(x.kv, FAMILY_PROMPT, FAMILY_STEPS));
    mt_try(lh_forward_prefill(x.forward, x.kv, models.ids, FAMILY_PROMPT, NULL));
    oracle_open(&x.o, &x.of, ROOM, NULL);
    check(&x);
    for (int64_t at = FAMILY_PROMPT; at < ROOM; at += lh_kv_seen(x.kv) - at) {
        int asks = at == FAMILY_PROMPT + 4;
        if (asks)
            mt_try(lh_forward_block(x.forward, x.kv, models.ids + at, QUESTION));
        else
            mt_try(lh_forward_step(x.forward, &(lh_next_token){x.kv, models.ids[at]}, 1));
        oracle_take(&x.o, asks ? LH_KV_BLOCK : LH_KV_STEP, asks ? QUESTION : 1);
        check(&x);
    }
    all->decided += x.o.decided;
    all->doubted += x.o.doubted;
    close_run(&x);
}

/* ---- the test ---- */

/* Whether the oracle has a definition: not of blocks, of layers that compete, of keys that are turned (tests/evict has
 * laws of those), of probe tokens (test_probes), of learnt scores (test_evict_policies). */
static int has_definition(int preset, int number, lh_policy_options *policy)
{
    lh_policy p;
    if (!family_policy(policy, preset, number)) return 0;
    mt_try(lh_policy_resolve(&p, policy));
    return !p.block && !lh_policy_has_probes(&p) && !lh_policy_has(&p, LH_NEEDS_SCORE_WEIGHTS) && p.budgets.layers != LH_LAYERS_ADAPTIVE &&
           p.positions == LH_POSITION_ORIGINAL;
}

/* 1 where some case beside the first has one; a preset whose layers compete has none. */
static int has_definitions(int preset)
{
    lh_policy_options policy;
    for (int number = 1; number < FAMILY_CASES; number++)
        if (has_definition(preset, number, &policy)) return 1;
    return 0;
}

static void check_preset(lh_engine *engine, int model, int preset, tally *all)
{
    lh_policy_options policy;
    family_dice d = {.seed = (uint32_t)(1000 + 40 * model + preset)};
    if (family_is_long()) {
        for (int number = 0; number < FAMILY_CASES; number++)
            if (has_definition(preset, number, &policy)) check_case(engine, model, &policy, all);
        return;
    }
    for (int number = 0; number < 4; number++) /* sliding layers, too, have to choose */
        if (number != 1 && has_definition(preset, number, &policy)) check_case(engine, model, &policy, all);
    if (!has_definitions(preset)) return;
    while (!has_definition(preset, 1 + (int)family_roll(&d, FAMILY_CASES - 1), &policy)) continue;
    check_case(engine, model, &policy, all);
}

START_TEST(test_every_policy_keeps_of_every_family_what_it_is_defined_to)
{
    tally all = {0};
    lh_engine *engine = family_open(mt_comm(), models.paths[_i], "cpu", 0);
    for (int p = 0; lh_policy_at(p); p++) check_preset(engine, _i, p, &all);
    lh_engine_close(engine);
    mt_check(all.doubted * 100 <= all.decided, "rounding decides about %lld of %lld entries", (long long)all.doubted,
             (long long)all.decided);
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policies of families by their definition");
    TCase *laws = tcase_create("laws");
    tcase_set_timeout(laws, 0);
    tcase_add_unchecked_fixture(laws, set_up, tear_down);
    tcase_add_loop_test(laws, test_every_policy_keeps_of_every_family_what_it_is_defined_to, 0, FAMILIES);
    suite_add_tcase(suite, laws);
    return mt_run(suite);
}
