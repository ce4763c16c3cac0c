/* Every policy of the table on every family of models, prompt and steps, at 1, 2, 3 and 4 ranks: what many ranks keep
 * and say is what one keeps and says; what the fast backend keeps is what the reference keeps; a budget over the length
 * changes no bit; a prefill that fills many caches fills each as one of its own. A sample as it is, in which a policy
 * meets a family on 2 ranks or on 3 (every policy on 1 to 4: tests/evict); with LONGHAUL_LONG=1 in the environment
 * every budget, decode rule and way of positions of every preset. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "engine/family_run.h"
#include "policy_parts.h"

static family_models models;

static void set_up(void)
{
    family_models_make(&models);
}

static void tear_down(void)
{
    family_models_remove(&models);
}

/* One model, opened in all the ways that are compared. alone: on rank 0, NULL elsewhere. */
typedef struct bench {
    lh_comm *self;
    lh_engine *alone, *exact, *usual, *ref;
} bench;

static int runs_here(int model)
{
    return mt_size() <= family_shapes[model].heads;
}

static void open_bench(bench *b, int model)
{
    const char *path = models.paths[model];
    *b = (bench){0};
    mt_try(lh_comm_open_self(&b->self));
    if (mt_rank() == 0) b->alone = family_open(b->self, path, "cpu", 1);
    b->exact = family_open(mt_comm(), path, "cpu", 1);
    b->usual = family_open(mt_comm(), path, "cpu", 0);
    b->ref = family_open(mt_comm(), path, "ref", 0);
}

static void close_bench(bench *b)
{
    lh_engine_close(b->alone);
    lh_engine_close(b->exact);
    lh_engine_close(b->usual);
    lh_engine_close(b->ref);
    lh_comm_close(b->self);
}

/* Sums in another order choose alike: the bounds of the golden keep sets. */
static void check_likeness(const family_likeness *l)
{
    if (mt_rank()) return;
    mt_check(l->least >= 0.9, "%s: a head shares %.3f of its entries", l->worst, l->least);
    mt_check(l->sum >= 0.998 * (double)l->heads, "heads share %.5f of their entries, least so in %s",
             l->sum / (double)l->heads, l->worst);
    mt_check(l->differing * 30 <= l->heads, "%lld of %lld heads differ, most so in %s", (long long)l->differing,
             (long long)l->heads, l->worst);
}

/* likeness: of the usual way of adding, and of the reference; on several ranks of a sample. */
static void try_case(const bench *b, const family_case *c, family_dice *d, family_likeness likeness[2])
{
    family_result one = {0}, many = {0};
    if (b->alone) family_run(b->alone, c, &one);
    if (mt_size() > 1) {
        family_run(b->exact, c, &many);
        if (mt_rank() == 0) family_check_same(&one, &many);
        family_result_clear(&many);
    }
    for (int i = 0; i < 2; i++) {
        if (mt_size() > 1 && !family_is_long() && family_roll(d, 2)) continue;
        family_run(i ? b->ref : b->usual, c, &many);
        if (mt_rank() == 0) family_compare(&likeness[i], &one, &many);
        family_result_clear(&many);
    }
    family_result_clear(&one);
}

START_TEST(test_every_policy_keeps_the_same_on_any_ranks_and_device)
{
    family_likeness likeness[2] = {{0}, {0}};
    family_dice d = {.seed = (uint32_t)(100 * mt_size() + _i)};
    bench b;
    if (!runs_here(_i)) return;
    open_bench(&b, _i);
    for (int p = 0; lh_policy_at(p); p++) {
        lh_policy_options policy;
        if (mt_size() > 1 && !family_is_long() && (p + _i + mt_size()) % 2) continue;
        for (int number = 0; family_next(&d, p, &number, &policy);)
            try_case(&b, &(family_case){family_shapes[_i].name, &policy, models.ids}, &d, likeness);
    }
    check_likeness(&likeness[0]);
    check_likeness(&likeness[1]);
    close_bench(&b);
    mt_end();
}
END_TEST

/* Slots stay in the order of positions where scores are pooled along them, again and again; elsewhere a sliding layer
 * fills the hole that its oldest entry leaves. The same entries then, but added up in another order. */
static int lies_otherwise(int model, const lh_policy_options *policy)
{
    lh_policy p;
    mt_try(lh_policy_resolve(&p, policy));
    return family_shapes[model].window && p.every &&
           (p.shape.pool || part_word(&p.methods, "value-prior") || p.select.kind == LH_METHOD_two_stage);
}

static void check_nothing_changed(int model, const family_case *c, const family_result *full, const family_result *one)
{
    family_likeness l = {0};
    if (!lies_otherwise(model, c->policy)) {
        family_check_same(full, one);
        return;
    }
    mt_check(memcmp(full->tokens, one->tokens, sizeof full->tokens) == 0, "%s: other tokens", one->name);
    family_compare(&l, full, one);
    mt_check(l.differing == 0, "%s: %lld heads keep other entries", one->name, (long long)l.differing);
}

START_TEST(test_a_budget_over_the_length_changes_no_bit)
{
    static const char *const rules[] = {NULL, "every:3", "block:33"};
    lh_engine *engine;
    family_result full, one;
    family_dice d = {.seed = (uint32_t)(100 * mt_size() + 10 + _i)};
    if (!runs_here(_i)) return;
    engine = family_open(mt_comm(), models.paths[_i], "cpu", 1);
    family_case c = {
        .name = family_shapes[_i].name, .policy = &(lh_policy_options){.policy = "full"}, .ids = models.ids};
    family_run(engine, &c, &full);
    for (int i = 0; lh_policy_at(i / 3); i++) {
        lh_policy_options policy = {.policy = lh_policy_at(i / 3)->name, .budget = "200", .parts.evict = rules[i % 3]};
        lh_policy plan;
        if (!lh_policy_at(i / 3)->parts || lh_policy_resolve(&plan, &policy) != LH_OK) continue;
        if (mt_size() > 1 && !family_is_long() && family_roll(&d, 3)) continue;
        c.policy = &policy;
        family_run(engine, &c, &one);
        if (mt_rank() == 0) check_nothing_changed(_i, &c, &full, &one);
        family_result_clear(&one);
    }
    family_result_clear(&full);
    lh_engine_close(engine);
    mt_end();
}
END_TEST

/* ---- one prefill for many caches ---- */

enum { MANY = 128 };

/* Presets that share a prefill, as they are, with a budget above all windows and one below. */
static int64_t many_plans(lh_engine *engine, lh_policy *plans)
{
    int64_t n = 0;
    lh_policy_options o;
    for (int p = 0; lh_policy_at(p); p++)
        for (int number = 0; number < 4; number += 3)
            if (family_policy(&o, p, number)) {
                mt_try(lh_policy_resolve(&plans[n], &o));
                mt_try(lh_engine_size_policy(engine, &plans[n]));
                n += lh_policy_shares_prefill(&plans[n]);
            }
    return n;
}

static lh_session *prefilled(lh_engine *engine, const lh_policy *plans, int64_t n)
{
    lh_session *s = NULL;
    mt_try(lh_session_open(&s, engine,
                           &(lh_session_options){.policy = plans,
                                                 .others = n > 1 ? plans + 1 : NULL,
                                                 .other_count = n - 1,
                                                 .prompt = FAMILY_PROMPT,
                                                 .more = FAMILY_STEPS,
                                                 .length = FAMILY_PROMPT + FAMILY_STEPS,
                                                 .seed = 3}));
    mt_try(lh_session_prefill(s, models.ids, FAMILY_PROMPT, NULL));
    return s;
}

/* What two caches hold of a layer. */
static void compare_layer(lh_kv *many, lh_kv *own, int64_t layer, const lh_policy *plan)
{
    lh_positions a = {0}, b = {0};
    mt_try(lh_kv_gather_positions(many, layer, &a));
    mt_try(lh_kv_gather_positions(own, layer, &b));
    int64_t n = mt_rank() ? 0 : a.offsets[a.heads];
    mt_check(mt_rank() || (memcmp(a.offsets, b.offsets, (size_t)(a.heads + 1) * sizeof *a.offsets) == 0 &&
                           memcmp(a.positions, b.positions, (size_t)n * sizeof *a.positions) == 0),
             "%s: layer %lld keeps other entries than by a prefill of its own", plan->name, (long long)layer);
    lh_positions_clear(&a);
    lh_positions_clear(&b);
}

/* After the prompt and three steps: entries, and the token that comes next. */
static void compare_sessions(lh_session *many, lh_session *own, int model, const lh_policy *plan)
{
    static const lh_sampling greedy = {.top_p = 1, .repeat_penalty = 1};
    lh_session *const both[2] = {many, own};
    int32_t next[2] = {0};
    for (int step = 0; step < 4; step++) {
        for (int64_t l = 0; l < family_shapes[model].layers; l++)
            compare_layer(lh_session_kv(many), lh_session_kv(own), l, plan);
        for (int i = 0; i < 2; i++) {
            mt_try(lh_session_draw(both[i], &greedy, step, &next[i]));
            if (step < 3) mt_try(lh_session_step(both[i], models.ids[FAMILY_PROMPT + step]));
        }
        mt_check(next[0] == next[1], "%s: another token than by a prefill of its own", plan->name);
    }
}

START_TEST(test_one_prefill_fills_every_cache_as_its_own_would)
{
    static lh_policy plans[MANY];
    family_dice d = {.seed = (uint32_t)(100 * mt_size() + 20 + _i)};
    if (!runs_here(_i)) return;
    lh_engine *engine = family_open(mt_comm(), models.paths[_i], "cpu", 0);
    int64_t n = many_plans(engine, plans);
    lh_session *many = prefilled(engine, plans, n);
    for (int64_t i = 0; i < n; i++) {
        if (mt_size() > 1 && !family_is_long() && family_roll(&d, 4)) continue;
        lh_session *own = prefilled(engine, &plans[i], 1);
        mt_try(lh_session_switch(many, i));
        compare_sessions(many, own, _i, &plans[i]);
        lh_session_close(own);
    }
    lh_session_close(many);
    lh_engine_close(engine);
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policies of families");
    TCase *laws = tcase_create("laws");
    tcase_set_timeout(laws, 0);
    tcase_add_unchecked_fixture(laws, set_up, tear_down);
    tcase_add_loop_test(laws, test_every_policy_keeps_the_same_on_any_ranks_and_device, 0, FAMILIES);
    tcase_add_loop_test(laws, test_a_budget_over_the_length_changes_no_bit, 0, FAMILIES);
    tcase_add_loop_test(laws, test_one_prefill_fills_every_cache_as_its_own_would, 0, FAMILIES);
    suite_add_tcase(suite, laws);
    return mt_run(suite);
}
