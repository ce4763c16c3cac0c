/* Laws of all policies of the table that need no definition of their scores: what is the same must stay the same, what
 * is better must not be lost, the memory is the forecast one; the papers' bounds on what eviction does to the output;
 * and the frequencies of what is drawn. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "kv/forecast.h"
#include "kv/kv_oracle.h"
#include "policy_parts.h"

static kv_rig_case base_case(const lh_policy_options *policy)
{
    return (kv_rig_case){.heads = 9,
                         .kv_heads = 3,
                         .dim = 8,
                         .layers = 2,
                         .tokens = 131,
                         .more = 40,
                         .type = LH_F32,
                         .seed = 31,
                         .policy = *policy};
}

static int presets(void)
{
    int n = 0;
    while (lh_policy_at(n)) n++;
    return n;
}

/* The preset with a budget, where it takes one. */
static lh_policy_options preset_at(int i, const char *budget)
{
    const lh_policy_preset *p = lh_policy_at(i);
    return (lh_policy_options){.policy = p->name, .budget = p->parts ? budget : NULL};
}

static int same(const lh_positions *a, const lh_positions *b)
{
    return a->heads == b->heads && memcmp(a->offsets, b->offsets, (size_t)(a->heads + 1) * sizeof *a->offsets) == 0 &&
           memcmp(a->positions, b->positions, (size_t)a->offsets[a->heads] * sizeof *a->positions) == 0;
}

static int holds(const lh_positions *p, int64_t head, int64_t position)
{
    for (int64_t i = p->offsets[head]; i < p->offsets[head + 1]; i++)
        if (p->positions[i] == position) return 1;
    return 0;
}

static void run_prompt(const kv_rig_case *c, kv_rig_result *out)
{
    kv_rig r;
    kv_rig_open(&r, c, mt_comm(), &lh_ops_ref);
    kv_rig_prefill(&r, out);
    kv_rig_close(&r);
}

/* ---- what is the same ---- */

START_TEST(test_a_budget_of_the_prompt_changes_no_bit)
{
    static const char *const budgets[] = {"131", "100%", "4000"};
    for (int b = 0; b < 3; b++) {
        lh_policy_options options = preset_at(_i, budgets[b]);
        kv_rig_case c = base_case(&options);
        kv_rig r;
        kv_rig_result got;
        kv_rig_open(&r, &c, mt_comm(), kv_rig_backend(b % 2));
        kv_rig_prefill(&r, &got);
        for (int64_t l = 0; l < c.layers; l++) {
            const lh_ragged *v = lh_kv_view(r.kv, l);
            /* kvpress' pyramid lets lower layers have more than there is, and others less */
            if (r.plan.evicts && r.plan.budgets.layers == LH_LAYERS_PYRAMID && part_word(&r.plan.methods, "compat"))
                break;
            for (int64_t h = 0; h < v->heads; h++) {
                mt_check(v->len[h] == c.tokens, "%s: %lld entries are left", r.plan.name, (long long)v->len[h]);
                for (int64_t s = 0; s < v->len[h]; s++)
                    mt_check(!v->positions || v->positions[v->offset[h] + s] == s, "the order changed");
            }
        }
        mt_check(kv_rig_entries_are_whole(&r), "%s: an entry changed", r.plan.name);
        mt_check(got.stats.summary_bytes == 0, "%s: something was ranked", r.plan.name);
        kv_rig_result_clear(&got);
        kv_rig_close(&r);
    }
    mt_end();
}
END_TEST

/* A cache that another seed would give is only another one where the policy says that it draws. */
START_TEST(test_only_policies_that_draw_depend_on_the_seed)
{
    lh_policy_options options = preset_at(_i, "100");
    const kv_rig_case c = base_case(&options);
    kv_rig_result got[2];
    int equal = 1, draws = 0;
    for (int i = 0; i < 2; i++) {
        kv_rig r;
        kv_rig_open(&r, &c, mt_comm(), &lh_ops_ref);
        lh_kv_seed(r.kv, (uint64_t)i);
        kv_rig_prefill(&r, &got[i]);
        draws = lh_methods_have(&r.plan.methods, LH_DRAWS);
        kv_rig_close(&r);
    }
    for (int64_t l = 0; l < c.layers && mt_rank() == 0; l++) equal &= same(&got[0].kept[l], &got[1].kept[l]);
    mt_check(mt_rank() || equal != draws, "%s: %s", options.policy, equal ? "nothing is drawn" : "the seed decides");
    for (int i = 0; i < 2; i++) kv_rig_result_clear(&got[i]);
    mt_end();
}
END_TEST

START_TEST(test_groups_of_equal_query_heads_are_as_one_head)
{
    for (int64_t group = 2; group <= (getenv("LONGHAUL_LONG") ? 8 : 4); group *= 2) {
        lh_policy_options options = preset_at(_i, "50");
        kv_rig_case one = base_case(&options), many;
        kv_rig_result a, b;
        one.heads = one.kv_heads = 4;
        one.equal_groups = 1;
        one.tokens = 90;
        many = one;
        many.heads = 4 * group;
        run_prompt(&one, &a);
        run_prompt(&many, &b);
        for (int64_t l = 0; l < one.layers && mt_rank() == 0; l++)
            mt_check(same(&a.kept[l], &b.kept[l]), "%s: %lld query heads a group", options.policy, (long long)group);
        kv_rig_result_clear(&a);
        kv_rig_result_clear(&b);
    }
    mt_end();
}
END_TEST

/* Tokens of one kind score alike; whichever tokens they are, as many of each kind stay. */
START_TEST(test_permuting_equal_scores_changes_only_which_of_them_stay)
{
    static const lh_policy_options on[] = {
        {.policy = "snapkv", .budget = "50", .parts = {.window = "12", .pool = "none"}},
        {.policy = "ada-snapkv", .budget = "50", .parts = {.window = "12", .pool = "none", .own = {{"alpha", "0"}}}},
        {.policy = "ada-snapkv",
         .budget = "40",
         .parts = {.window = "12", .pool = "none", .own = {{"safeguard", "floor"}}}},
        {.policy = "knorm", .budget = "50", .parts = {.recents = "12"}},
        {.policy = "tova", .budget = "50", .parts = {.recents = "12"}}};
    for (size_t n = 0; n < sizeof on / sizeof *on; n++) {
        int64_t first[3][8] = {{0}};
        for (int64_t shuffle = 0; shuffle < 5; shuffle++) {
            kv_rig_case c = base_case(&on[n]);
            kv_rig_result got;
            c.kinds = 7;
            c.apart = 12;
            c.shuffle = shuffle;
            run_prompt(&c, &got);
            for (int64_t h = 0; h < c.kv_heads && mt_rank() == 0; h++) {
                int64_t kept[8] = {0};
                for (int64_t i = got.kept[0].offsets[h]; i < got.kept[0].offsets[h + 1]; i++)
                    if (got.kept[0].positions[i] < c.tokens - c.apart)
                        kept[kv_rig_kind(&c, got.kept[0].positions[i])]++;
                for (int64_t k = 0; k < c.kinds; k++) {
                    if (!shuffle) first[h][k] = kept[k];
                    mt_check(kept[k] == first[h][k], "%s: head %lld keeps %lld of kind %lld, not %lld", on[n].policy,
                             (long long)h, (long long)kept[k], (long long)k, (long long)first[h][k]);
                }
            }
            kv_rig_result_clear(&got);
        }
    }
    mt_end();
}
END_TEST

/* ---- what is better ---- */

/* One stage, all heads and layers alike, and scores that do not depend on the budget. */
static int is_monotone(const lh_policy *p)
{
    return p->evicts && p->select.kind == LH_METHOD_topk && p->budgets.heads == LH_HEADS_UNIFORM &&
           p->budgets.layers == LH_LAYERS_UNIFORM && !part_word(&p->methods, "gain") && !p->proxies.kind;
}

START_TEST(test_more_budget_keeps_what_less_budget_kept)
{
    lh_policy_options options = preset_at(_i, "1");
    kv_rig_case c = base_case(&options);
    kv_rig_result before = {0}, now;
    lh_policy plan;
    mt_try(lh_policy_resolve(&plan, &options));
    int step = getenv("LONGHAUL_LONG") ? 1 : 13;
    for (int budget = 1; budget < c.tokens + 5 && is_monotone(&plan); budget += step) {
        char text[16];
        snprintf(text, sizeof text, "%d", budget);
        c.policy.budget = text;
        run_prompt(&c, &now);
        for (int64_t l = 0; l < c.layers && before.kept[0].heads; l++)
            for (int64_t h = 0; h < c.kv_heads; h++)
                for (int64_t i = before.kept[l].offsets[h]; i < before.kept[l].offsets[h + 1]; i++)
                    mt_check(plan.shape.pool && budget <= plan.window + step /* nothing competed before */
                                 ? 1
                                 : holds(&now.kept[l], h, before.kept[l].positions[i]),
                             "%s: position %d is gone with a budget of %d", plan.name, before.kept[l].positions[i],
                             budget);
        kv_rig_result_clear(&before);
        before = now;
    }
    kv_rig_result_clear(&before);
    mt_end();
}
END_TEST

/* ---- memory ---- */

START_TEST(test_memory_is_forecast_and_stays)
{
    for (int when = 0; when < 2; when++) {
        lh_policy_options options = preset_at(_i, "40");
        kv_rig_case c = base_case(&options);
        kv_rig r;
        kv_rig_result got;
        lh_kv_forecast f;
        lh_policy plan;
        c.more = 1000;
        if (when) c.policy.parts.evict = "every:3";
        if (lh_policy_resolve(&plan, &c.policy) != LH_OK) c.policy.parts.evict = NULL;
        kv_rig_open(&r, &c, mt_comm(), &lh_ops_ref);
        lh_kv_shape shape = kv_rig_shape(&r);
        mt_try(lh_kv_forecast_make(&f, &shape,
                                   &(lh_kv_forecast_request){.policy = &r.plan, .tokens = c.tokens, .more = c.more}));
        kv_rig_prefill(&r, &got);
        lh_mem_usage u = lh_device_usage(r.device);
        int even = r.plan.budgets.heads == LH_HEADS_UNIFORM;
        mt_check(!even || u.now[LH_MEM_KV] == f.held, "%s: %lld bytes are held, %lld were forecast", r.plan.name,
                 (long long)u.now[LH_MEM_KV], (long long)f.held);
        mt_check(!even || got.stats.entries_held == f.entries, "%s: %lld entries, %lld were forecast", r.plan.name,
                 (long long)got.stats.entries_held, (long long)f.entries);
        lh_policy_numbers fixed = lh_policy_fix(&r.plan, c.tokens);
        int64_t held = u.now[LH_MEM_KV];
        for (int step = 0; step < 25 && fixed.every; step++) {
            kv_rig_take(&r, LH_KV_STEP, 1);
            u = lh_device_usage(r.device);
            mt_check(!even || u.now[LH_MEM_KV] == held, "%s: step %d: %lld bytes, %lld before", r.plan.name, step,
                     (long long)u.now[LH_MEM_KV], (long long)held);
        }
        kv_rig_result_clear(&got);
        kv_rig_close(&r);
    }
    mt_end();
}
END_TEST

/* ---- bounds on what eviction does to the output ---- */

/* Weights of the last row, of one head of an MHA layer, what stays of them, and the entries after the output
 * projection. */
typedef struct head_view {
    const double *a;
    const uint8_t *keep;
    double *values; /* [tokens, hidden] */
    double *norms;  /* [tokens] */
} head_view;

static head_view view_of(const oracle *o, int64_t g, const double *a, const uint8_t *keep)
{
    int64_t n = o->seen, dim = o->of->dim, heads = o->of->heads;
    head_view v = {.a = a,
                   .keep = keep,
                   .values = oracle_alloc(n * RIG_HIDDEN, sizeof(double)),
                   .norms = oracle_alloc(n, sizeof(double))};
    for (int64_t p = 0; p < n; p++)
        for (int64_t h = 0; h < RIG_HIDDEN; h++) {
            double y = 0;
            for (int64_t x = 0; x < dim; x++) y += o->v[(p * heads + g) * dim + x] * o->w[(h * heads + g) * dim + x];
            v.values[p * RIG_HIDDEN + h] = y;
            v.norms[p] += fabs(y);
        }
    return v;
}

static double kept_mass(const head_view *v, int64_t n)
{
    double sum = 0;
    for (int64_t p = 0; p < n; p++) sum += v->keep[p] ? v->a[p] : 0;
    return sum;
}

/* What the head's output loses, added to out[RIG_HIDDEN]. */
static void add_loss(const head_view *v, int64_t n, double *out)
{
    double mass = kept_mass(v, n);
    for (int64_t p = 0; p < n; p++)
        for (int64_t h = 0; h < RIG_HIDDEN; h++)
            out[h] += (v->a[p] - (v->keep[p] ? v->a[p] / mass : 0)) * v->values[p * RIG_HIDDEN + h];
}

static double norm1(const double *x)
{
    double sum = 0;
    for (int64_t h = 0; h < RIG_HIDDEN; h++) sum += fabs(x[h]);
    return sum;
}

/* CriticalKV's theta for a set, with `mass` as what it keeps. */
static double theta(const head_view *v, int64_t n, double mass, const uint8_t *keep)
{
    double all = 0, kept = 0;
    for (int64_t p = 0; p < n; p++) {
        all += v->a[p] * v->norms[p];
        kept += keep[p] ? v->a[p] * v->norms[p] : 0;
    }
    return all - (2 - 1 / mass) * kept;
}

/* A layer whose last row alone is observed: its weights are the scores. */
static kv_rig_case bound_case(const lh_policy_options *options, int64_t seed)
{
    kv_rig_case c = base_case(options);
    c.heads = c.kv_heads = 4;
    c.layers = 1;
    c.tokens = 90;
    c.seed = 700 + (uint64_t)seed;
    return c;
}

typedef struct layer_view {
    oracle o;
    head_view heads[4];
    uint8_t *keep;
    oracle_tally rows[4];
} layer_view;

static void open_layer(layer_view *y, const kv_rig_case *c, const kv_rig_result *got)
{
    oracle_open(&y->o, c, c->tokens, NULL);
    for (int64_t i = 0; i < c->kv_heads * c->tokens; i++) y->o.gone[i] = INT32_MAX;
    y->keep = oracle_alloc(c->kv_heads * c->tokens, 1);
    for (int64_t g = 0; g < c->kv_heads; g++) {
        for (int64_t p = 0; p < c->tokens; p++) y->keep[g * c->tokens + p] = (uint8_t)holds(&got->kept[0], g, p);
        y->rows[g] = oracle_recount(&y->o, 0, g);
        y->heads[g] = view_of(&y->o, g, y->rows[g].sums, y->keep + g * c->tokens);
    }
}

static void close_layer(layer_view *y)
{
    for (int g = 0; g < 4; g++) {
        oracle_tally_clear(&y->rows[g]);
        lh_free(y->heads[g].values);
        lh_free(y->heads[g].norms);
    }
    lh_free(y->keep);
    oracle_close(&y->o);
}

/* 2 C sum over heads of (1 - kept mass), arXiv 2407.11550, theorem 3.1; and whether the output is within it. */
static double adakv_bound(const kv_rig_case *c, const kv_rig_result *got)
{
    layer_view y = {0};
    double largest = 0, lost = 0, loss[RIG_HIDDEN] = {0};
    open_layer(&y, c, got);
    for (int g = 0; g < 4; g++) {
        for (int64_t p = 0; p < c->tokens; p++) largest = fmax(largest, y.heads[g].norms[p]);
        lost += 1 - kept_mass(&y.heads[g], c->tokens);
        add_loss(&y.heads[g], c->tokens, loss);
    }
    mt_check(norm1(loss) <= 2 * largest * lost * (1 + 1e-9), "the output loses %g, the bound is %g", norm1(loss),
             2 * largest * lost);
    close_layer(&y);
    return 2 * largest * lost;
}

START_TEST(test_adaptive_heads_lose_less_than_uniform_ones_by_their_bound)
{
    static const char *const safeguards[] = {"floor", "floor", "interp"}, *const alphas[] = {"0.2", "0.5", "0"};
    int rounds = getenv("LONGHAUL_LONG") ? 60 : 6;
    for (int i = 0; i < rounds; i++) {
        lh_policy_options adaptive = {.policy = "ada-snapkv",
                                      .budget = i % 2 ? "30" : "12",
                                      .parts = {.statistic = "sum",
                                                .window = "1",
                                                .pool = "none",
                                                .own = {{"safeguard", safeguards[i % 3]}, {"alpha", alphas[i % 3]}}}},
                          uniform = {.policy = "snapkv",
                                     .budget = adaptive.budget,
                                     .parts = {.statistic = "sum", .window = "1", .pool = "none"}};
        kv_rig_case a = bound_case(&adaptive, i), u = bound_case(&uniform, i);
        kv_rig_result ga, gu;
        run_prompt(&a, &ga);
        run_prompt(&u, &gu);
        if (mt_rank() == 0) {
            double bound = adakv_bound(&a, &ga), other = adakv_bound(&u, &gu);
            mt_check(bound <= other * (1 + 1e-6), "adaptive heads: %g, uniform ones: %g", bound, other);
        }
        kv_rig_result_clear(&ga);
        kv_rig_result_clear(&gu);
    }
    mt_end();
}
END_TEST

/* Another choice for the second stage: as many, of those that the first did not take. */
static void choose_another(uint8_t *other, const uint8_t *first, const uint8_t *keep, int64_t n, uint64_t seed)
{
    int64_t want = 0;
    for (int64_t p = 0; p < n; p++) want += keep[p] && !first[p];
    memcpy(other, first, (size_t)n);
    for (uint32_t i = 0; want > 0; i++) {
        uint32_t out[4], key[2] = {(uint32_t)seed, 5}, counter[4] = {i};
        lh_philox(out, key, counter);
        int64_t p = (int64_t)(out[0] % (uint32_t)n);
        if (!other[p]) other[p] = 1, want--;
    }
}

/* Of a head: theta holds, and the second stage makes the relaxed one least. Returns the share that the first kept. */
static double check_theta(const head_view *v, const uint8_t *first, int64_t n, uint64_t seed)
{
    double loss[RIG_HIDDEN] = {0}, mass = kept_mass(v, n), sure = 0, own = 0;
    uint8_t other[128];
    add_loss(v, n, loss);
    mt_check(norm1(loss) <= theta(v, n, mass, v->keep) + 1e-9, "a head loses %g, theta is %g", norm1(loss),
             theta(v, n, mass, v->keep));
    for (int64_t p = 0; p < n; p++) sure += first[p] ? v->a[p] : 0;
    if (sure <= 0.5) return sure;
    double relaxed = theta(v, n, sure, v->keep);
    mt_check(theta(v, n, mass, v->keep) <= relaxed + 1e-9, "theta is above the relaxed one");
    for (int64_t p = 0; p < n; p++) own += v->keep[p] && !first[p] ? v->norms[p] : 0;
    for (uint64_t i = 0; i < 50; i++) {
        double extra = 0; /* the choice is by (A + epsilon) times the norm */
        choose_another(other, first, v->keep, n, seed + i);
        for (int64_t p = 0; p < n; p++) extra += other[p] && !first[p] ? v->norms[p] : 0;
        mt_check(theta(v, n, sure, other) >= relaxed - (2 - 1 / sure) * 1.01e-4 * fmax(0, own - extra) - 1e-6,
                 "another second stage has %g, not %g", theta(v, n, sure, other), relaxed);
    }
    return sure;
}

/* The window and the `stage` largest weights of the others. */
static void take_first_stage(uint8_t *first, const double *a, int64_t n, int64_t stage)
{
    first[n - 1] = 1;
    for (int64_t k = 0; k < stage; k++) {
        int64_t best = 0;
        while (first[best]) best++;
        for (int64_t p = best; p < n; p++)
            if (!first[p] && a[p] > a[best]) best = p;
        first[best] = 1;
    }
}

START_TEST(test_the_output_loses_less_than_theta_and_the_second_stage_makes_it_least)
{
    int rounds = getenv("LONGHAUL_LONG") ? 60 : 6, above = 0;
    for (int i = 0; i < rounds; i++) {
        lh_policy_options options = {.policy = "critical-snapkv",
                                     .budget = i % 2 ? "61" : "31",
                                     .parts = {.statistic = "sum", .window = "1", .pool = "none"}};
        kv_rig_case c = bound_case(&options, 50 + i);
        kv_rig_result got;
        run_prompt(&c, &got);
        if (mt_rank() == 0) {
            layer_view y = {0};
            open_layer(&y, &c, &got);
            for (int g = 0; g < 4; g++) {
                uint8_t first[128] = {0};
                take_first_stage(first, y.heads[g].a, c.tokens, (i % 2 ? 60 : 30) / 2);
                for (int64_t p = 0; p < c.tokens; p++)
                    mt_check(!first[p] || y.heads[g].keep[p], "the first stage's position %lld is gone", (long long)p);
                above += check_theta(&y.heads[g], first, c.tokens, (uint64_t)(i * 4 + g) * 50) > 0.5;
            }
            close_layer(&y);
        }
        kv_rig_result_clear(&got);
    }
    mt_check(mt_rank() || above > 0, "no head kept more than half of its attention in the first stage");
    mt_end();
}
END_TEST

/* ---- reading entries ---- */

/* Entries of 8 bits are widened only for scores that read keys or values. */
START_TEST(test_scores_of_numbers_read_no_entries)
{
    static const struct {
        lh_policy_options policy;
        int observed, counted; /* with rows that are observed at the eviction, and that have been counted before it */
    } cases[] = {{{.policy = "streaming", .budget = "20"}, 0, 0},
                 {{.policy = "random", .budget = "20", .parts = {.evict = "every:1"}}, 0, 0},
                 {{.policy = "h2o", .budget = "20"}, 0, 0},
                 {{.policy = "roco", .budget = "20"}, 0, 0},
                 {{.policy = "tova", .budget = "20"}, 1, 0},
                 {{.policy = "snapkv", .budget = "20", .parts = {.evict = "every:8"}}, 1, 0},
                 {{.policy = "critical-snapkv", .budget = "20", .parts = {.evict = "every:8"}}, 1, 1},
                 {{.policy = "ahakv", .budget = "20"}, 1, 1},
                 {{.policy = "knorm", .budget = "20"}, 1, 1},
                 {{.policy = "keydiff", .budget = "20", .parts = {.evict = "every:8"}}, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const kv_rig_case c = base_case(&cases[i].policy);
        kv_rig r;
        kv_rig_open(&r, &c, mt_comm(), &lh_ops_ref);
        mt_check(lh_scores_read_entries(&r.fixed, 0) == cases[i].observed, "%s", cases[i].policy.policy);
        mt_check(lh_scores_read_entries(&r.fixed, 1) == cases[i].counted, "%s, counted", cases[i].policy.policy);
        kv_rig_close(&r);
    }
    mt_end();
}
END_TEST

/* ---- draws ---- */

/* Chances of every entry to be among the `draws` drawn without replacement, by weight: all orders. */
static void chances(const double *weight, int n, int draws, uint32_t taken, double chance, double *out)
{
    double left = 0;
    for (int i = 0; i < n; i++) left += taken >> i & 1 ? 0 : weight[i];
    for (int i = 0; i < n && draws > 0; i++) {
        if (taken >> i & 1) continue;
        out[i] += chance * weight[i] / left;
        chances(weight, n, draws - 1, taken | 1u << i, chance * weight[i] / left, out);
    }
}

START_TEST(test_entries_are_drawn_as_often_as_softmax_says)
{
    enum { COMPETE = 9, DRAWN = 3 };
    static const lh_policy_options all_drawn = {.policy = "snapkv",
                                                .budget = "4",
                                                .parts = {.statistic = "sum",
                                                          .window = "1",
                                                          .pool = "none",
                                                          .select = "topk+sample",
                                                          .own = {{"random-share", "1"}}}};
    int runs = mt_rank() ? 0 : getenv("LONGHAUL_LONG") ? 20000 : 800; /* each on one rank alone */
    double expected[2][COMPETE] = {{0}}, seen[2][COMPETE] = {{0}};
    kv_rig_case c = {.heads = 2,
                     .kv_heads = 2,
                     .dim = 4,
                     .layers = 1,
                     .tokens = COMPETE + 1,
                     .type = LH_F32,
                     .policy = all_drawn,
                     .seed = 12};
    oracle o;
    oracle_open(&o, &c, c.tokens, NULL);
    for (int i = 0; i < 2 * (COMPETE + 1); i++) o.gone[i] = INT32_MAX;
    for (int g = 0; g < 2; g++) {
        double weight[COMPETE];
        oracle_tally t = oracle_recount(&o, 0, g);
        for (int p = 0; p < COMPETE; p++) weight[p] = exp(t.sums[p]);
        chances(weight, COMPETE, DRAWN, 0, 1, expected[g]);
        oracle_tally_clear(&t);
    }
    oracle_close(&o);
    for (int i = 0; i < runs; i++) {
        kv_rig r;
        kv_rig_result got;
        lh_comm *self = NULL;
        mt_try(lh_comm_open_self(&self));
        kv_rig_open(&r, &c, self, &lh_ops_ref);
        lh_kv_seed(r.kv, (uint64_t)i);
        kv_rig_prefill(&r, &got);
        for (int g = 0; g < 2; g++)
            for (int p = 0; p < COMPETE; p++) seen[g][p] += holds(&got.kept[0], g, p);
        kv_rig_result_clear(&got);
        kv_rig_close(&r);
        lh_comm_close(self);
    }
    for (int g = 0; g < 2 && runs; g++) {
        double chi = 0; /* of frequencies that sum to DRAWN: at most the chi-square of COMPETE - 1 degrees */
        for (int p = 0; p < COMPETE; p++) {
            double want = expected[g][p] * runs, off = seen[g][p] - want;
            chi += off * off / (want * (1 - expected[g][p])) * (COMPETE - 1) / COMPETE;
        }
        mt_check(chi < 26.1, "head %d: chi-square %g of 8 degrees (0.999: 26.1)", g, chi);
    }
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("laws");
    TCase *laws = tcase_create("laws");
    tcase_set_timeout(laws, 0);
    tcase_add_loop_test(laws, test_a_budget_of_the_prompt_changes_no_bit, 0, presets());
    tcase_add_loop_test(laws, test_only_policies_that_draw_depend_on_the_seed, 0, presets());
    tcase_add_loop_test(laws, test_groups_of_equal_query_heads_are_as_one_head, 0, presets());
    tcase_add_test(laws, test_permuting_equal_scores_changes_only_which_of_them_stay);
    tcase_add_loop_test(laws, test_more_budget_keeps_what_less_budget_kept, 0, presets());
    tcase_add_loop_test(laws, test_memory_is_forecast_and_stays, 0, presets());
    tcase_add_test(laws, test_adaptive_heads_lose_less_than_uniform_ones_by_their_bound);
    tcase_add_test(laws, test_the_output_loses_less_than_theta_and_the_second_stage_makes_it_least);
    tcase_add_test(laws, test_scores_of_numbers_read_no_entries);
    tcase_add_test(laws, test_entries_are_drawn_as_often_as_softmax_says);
    suite_add_tcase(suite, laws);
    return mt_run(suite);
}
