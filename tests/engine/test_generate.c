/* Laws of a whole run, at 1, 2, 3 and 4 ranks: what one rank alone computes is what all of them compute. Rank 0 also
 * runs alone (a `self` communicator) inside the same test, and the results are compared. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/h5.h"
#include "engine/generate.h"
#include "engine/plan.h"
#include "mpi_check.h"
#include "tiny_engine.h"
#include "tiny_model.h"

enum { PROMPT = 150, NEW = 12, VOCAB = 211 };

static const tiny_shape shapes[] = {
    {.name = "9/3", .heads = 9, .kv_heads = 3, .head_dim = 8, .layers = 3, .ff = 70, .vocab = VOCAB},
    {.name = "5/5", .heads = 5, .kv_heads = 5, .head_dim = 12, .layers = 2, .ff = 64, .vocab = VOCAB},
    {.name = "4/1", .heads = 4, .kv_heads = 1, .head_dim = 16, .layers = 2, .ff = 33, .vocab = VOCAB},
    {.name = "8/2 sliding",
     .heads = 8,
     .kv_heads = 2,
     .head_dim = 8,
     .layers = 3,
     .ff = 50,
     .vocab = VOCAB,
     .window = 40},
    {.name = "6/2, two of five experts",
     .family = "qwen3_moe",
     .heads = 6,
     .kv_heads = 2,
     .head_dim = 8,
     .layers = 2,
     .ff = 50,
     .vocab = VOCAB,
     .more = "\"num_experts\": 5, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 29"},
    {.name = "8/2, few bits",
     .heads = 8,
     .kv_heads = 2,
     .head_dim = 32,
     .layers = 2,
     .ff = 512,
     .vocab = VOCAB,
     .numbers = TINY_FEW_BITS},
    {.name = "8/4, two of five experts, few bits",
     .family = "qwen3_moe",
     .heads = 8,
     .kv_heads = 4,
     .head_dim = 32,
     .layers = 2,
     .ff = 64,
     .vocab = VOCAB,
     .more = "\"num_experts\": 5, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 64",
     .numbers = TINY_FEW_BITS},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, FEW_BITS = 5, FEW_BITS_OF_EXPERTS = 6 };

static const struct policy_case {
    const char *policy, *budget, *evict;
} policies[] = {
    {"full", NULL, NULL},       {"recency", "32", NULL},      {"streaming", "32", NULL},
    {"snapkv", "48", NULL},     {"pyramidkv", "48", NULL},    {"ada-snapkv", "48", NULL},
    {"criticalkv", "48", NULL}, {"ada-pyramid", "30%", NULL}, {"ada-snapkv", "20", NULL},
};
enum { POLICIES = sizeof policies / sizeof *policies };

/* Of the larger models every third policy: full, snapkv and criticalkv. */
static int stride(int shape)
{
    return shapes[shape].numbers ? 3 : 1;
}

typedef struct fixture {
    char folder[64];
    char model[SHAPES][96];
    int32_t ids[PROMPT];
} fixture;

static fixture fix;

static void path_in(char *out, size_t bytes, const char *name)
{
    snprintf(out, bytes, "%s/%s", fix.folder, name);
}

/* One folder for all ranks, made by rank 0. */
static void make_fixture(void)
{
    mt_folder_make(fix.folder);
    for (int i = 0; i < SHAPES; i++) {
        char name[32];
        snprintf(name, sizeof name, "model%d.h5", i);
        path_in(fix.model[i], sizeof fix.model[i], name);
        if (mt_rank() == 0) tiny_model_make(fix.model[i], &shapes[i]);
    }
    tiny_model_tokens(fix.ids, PROMPT, VOCAB);
    mt_try(lh_comm_barrier(mt_comm()));
}

static void remove_fixture(void)
{
    mt_folder_remove(fix.folder);
}

static void resolve(lh_policy *plan, const struct policy_case *c)
{
    lh_policy_options o = {.policy = c->policy, .budget = c->budget};
    o.parts.evict = c->evict;
    mt_try(lh_policy_resolve(plan, &o));
}

typedef struct request {
    lh_generate_request r;
    lh_policy plan;
} request;

/* A prompt of the first `tokens` tokens under a policy. */
static request make_request(const struct policy_case *c, int64_t tokens)
{
    request q = {0};
    resolve(&q.plan, c);
    q.r.prompt = (lh_tokens){fix.ids, tokens, tokens};
    q.r.max_new = NEW;
    q.r.ignore_eos = 1;
    q.r.sampling = (lh_sampling){.top_p = 1, .repeat_penalty = 1};
    q.r.logits_last = 5;
    return q;
}

static void generate(lh_engine *engine, request *q, lh_generation *out)
{
    q->r.policy = &q->plan;
    mt_try(lh_generate(engine, &q->r, out));
}

static int same_ids(const lh_tokens *a, const lh_tokens *b)
{
    return a->n == b->n && memcmp(a->ids, b->ids, (size_t)a->n * sizeof *a->ids) == 0;
}

/* Largest difference of a float array of two files. */
static double file_difference(const char *a, const char *b, const char *name)
{
    double worst = 0;
    lh_h5 *files[2] = {0};
    float *values[2] = {0};
    lh_h5_shape shape[2] = {0}, want = {LH_F32, 2, {-1, -1}};
    mt_try(lh_h5_open(&files[0], a, &(lh_h5_header){0}));
    mt_try(lh_h5_open(&files[1], b, &(lh_h5_header){0}));
    for (int i = 0; i < 2 && files[0] && files[1]; i++) mt_try(lh_h5_get(files[i], name, &want, &shape[i], &values[i]));
    int64_t n = lh_h5_shape_count(&shape[0]);
    if (n != lh_h5_shape_count(&shape[1]) || !values[0] || !values[1]) worst = INFINITY;
    for (int64_t i = 0; worst < INFINITY && i < n; i++)
        worst = fmax(worst, fabs((double)values[0][i] - (double)values[1][i]));
    for (int i = 0; i < 2; i++) {
        lh_free(values[i]);
        lh_h5_close(files[i]);
    }
    return worst;
}

/* 1 when both files hold the same keep sets. */
static int same_keep_sets(const char *a, const char *b, int64_t layers)
{
    int same = 1;
    lh_h5 *files[2] = {0};
    const lh_h5_shape want = {LH_I32, 1, {-1}};
    mt_try(lh_h5_open(&files[0], a, &(lh_h5_header){0}));
    mt_try(lh_h5_open(&files[1], b, &(lh_h5_header){0}));
    for (int64_t l = 0; l < layers && files[0] && files[1]; l++) {
        static const char *const arrays[] = {"positions", "budgets"};
        for (int k = 0; k < 2; k++) {
            char name[64];
            int32_t *values[2] = {0};
            lh_h5_shape shape[2] = {0};
            snprintf(name, sizeof name, "/layers/%03d/kept/%s", (int)l, arrays[k]);
            for (int i = 0; i < 2; i++) mt_try(lh_h5_get(files[i], name, &want, &shape[i], &values[i]));
            int64_t n = shape[0].dims[0];
            same &= values[0] && values[1] && n == shape[1].dims[0] && memcmp(values[0], values[1], (size_t)n * 4) == 0;
            for (int i = 0; i < 2; i++) lh_free(values[i]);
        }
    }
    for (int i = 0; i < 2; i++) lh_h5_close(files[i]);
    return same;
}

/* The run of all ranks and the run of one give the same tokens, keep sets and logits: bits in the reproducible mode,
 * 1e-4 else (f32, logits of order one: sums in another order move them by about 1e-6), or with few bits 2e-3 (they move
 * the 15 bits of rounded activations). */
static void compare_with_one_rank(int shape, const struct policy_case *c, int deterministic)
{
    char keep[2][96], logits[2][96];
    lh_generation g[2] = {{0}, {0}};
    request q = make_request(c, PROMPT);
    lh_comm *self = NULL;
    for (int i = 0; i < 2; i++) {
        path_in(keep[i], sizeof keep[i], i ? "keep-all.h5" : "keep-one.h5");
        path_in(logits[i], sizeof logits[i], i ? "logits-all.h5" : "logits-one.h5");
    }
    if (mt_rank() == 0) {
        mt_try(lh_comm_open_self(&self));
        lh_engine *alone =
            tiny_engine_open(self, &(lh_engine_options){.model = fix.model[shape], .deterministic = deterministic});
        q.r.keep_sets = keep[0];
        q.r.logits = logits[0];
        generate(alone, &q, &g[0]);
        lh_engine_close(alone);
        lh_comm_close(self);
    }
    lh_engine *engine =
        tiny_engine_open(mt_comm(), &(lh_engine_options){.model = fix.model[shape], .deterministic = deterministic});
    q.r.keep_sets = keep[1];
    q.r.logits = logits[1];
    generate(engine, &q, &g[1]);
    if (mt_rank() == 0) {
        double worst = file_difference(logits[0], logits[1], "/logits");
        const double bound = deterministic ? 0 : shapes[shape].numbers ? 2e-3 : 1e-4;
        mt_check(worst <= bound, "%s %s: logits differ by %g", shapes[shape].name, c->policy, worst);
        mt_check(same_ids(&g[0].answers[0].ids, &g[1].answers[0].ids), "%s %s: other tokens", shapes[shape].name,
                 c->policy);
        if (deterministic)
            mt_check(same_keep_sets(keep[0], keep[1], shapes[shape].layers), "%s %s: other keep sets",
                     shapes[shape].name, c->policy);
        mt_check(g[0].counted_kept == g[1].counted_kept, "%s %s: %lld entries kept, %lld by one rank",
                 shapes[shape].name, c->policy, (long long)g[1].counted_kept, (long long)g[0].counted_kept);
    }
    for (int i = 0; i < 2; i++) lh_generation_clear(&g[i]);
    lh_engine_close(engine);
}

static int runs_here(int shape)
{
    return mt_size() <= shapes[shape].heads;
}

START_TEST(test_any_number_of_ranks_gives_the_same_bits)
{
    make_fixture();
    for (int s = 0; s < SHAPES; s++)
        for (int p = 0; runs_here(s) && p < POLICIES; p += stride(s)) compare_with_one_rank(s, &policies[p], 1);
    remove_fixture();
    mt_end();
}
END_TEST

START_TEST(test_any_number_of_ranks_gives_the_same_logits)
{
    make_fixture();
    for (int s = 0; s < SHAPES; s++) compare_with_one_rank(s, &policies[0], 0);
    compare_with_one_rank(0, &policies[5], 0);
    remove_fixture();
    mt_end();
}
END_TEST

START_TEST(test_a_budget_of_the_whole_prompt_changes_nothing)
{
    make_fixture();
    lh_engine *engine = tiny_engine_open(mt_comm(), &(lh_engine_options){.model = fix.model[0], .deterministic = 1});
    for (int p = 1; p < POLICIES; p++) {
        struct policy_case whole = {policies[p].policy, "4000", NULL};
        lh_generation full = {0}, kept = {0};
        request a = make_request(&policies[0], PROMPT), b = make_request(&whole, PROMPT);
        generate(engine, &a, &full);
        generate(engine, &b, &kept);
        mt_check(same_ids(&full.answers[0].ids, &kept.answers[0].ids), "%s: other tokens", whole.policy);
        mt_check(full.counted_kept == kept.counted_kept, "%s: fewer entries", whole.policy);
        lh_generation_clear(&full);
        lh_generation_clear(&kept);
    }
    lh_engine_close(engine);
    remove_fixture();
    mt_end();
}
END_TEST

START_TEST(test_every_question_starts_from_the_context)
{
    make_fixture();
    for (int s = 0; s < SHAPES; s += 3) {
        if (!runs_here(s)) continue;
        lh_engine *engine =
            tiny_engine_open(mt_comm(), &(lh_engine_options){.model = fix.model[s], .deterministic = 1});
        for (int p = 0; p < POLICIES; p += stride(s)) {
            lh_tokens questions[3] = {{fix.ids + 100, 7, 7}, {fix.ids + 110, 20, 20}, {fix.ids + 100, 7, 7}};
            lh_generation all = {0}, one = {0};
            request q = make_request(&policies[p], 100), alone = make_request(&policies[p], 100);
            q.r.questions = questions;
            q.r.question_count = 3;
            alone.r.questions = &questions[1];
            alone.r.question_count = 1;
            generate(engine, &q, &all);
            generate(engine, &alone, &one);
            mt_check(same_ids(&all.answers[0].ids, &all.answers[2].ids), "%s: the same question, another answer",
                     policies[p].policy);
            mt_check(same_ids(&all.answers[1].ids, &one.answers[0].ids), "%s: asked second, another answer",
                     policies[p].policy);
            lh_generation_clear(&all);
            lh_generation_clear(&one);
        }
        lh_engine_close(engine);
    }
    remove_fixture();
    mt_end();
}
END_TEST

START_TEST(test_a_saved_cache_goes_on_where_it_stopped)
{
    char cache[96];
    make_fixture();
    path_in(cache, sizeof cache, "cache.h5");
    for (int s = 0; s < SHAPES; s++) {
        if (!runs_here(s)) continue;
        lh_engine *engine =
            tiny_engine_open(mt_comm(), &(lh_engine_options){.model = fix.model[s], .deterministic = 1});
        for (int p = 0; p < POLICIES; p += stride(s)) {
            lh_generation first = {0}, again = {0};
            request q = make_request(&policies[p], PROMPT), back = make_request(&policies[p], 0);
            q.r.save_cache = cache;
            generate(engine, &q, &first);
            back.r.load_cache = cache;
            back.r.prompt = (lh_tokens){0};
            mt_try(lh_generate(engine, &back.r, &again)); /* the policy comes from the file */
            mt_check(same_ids(&first.answers[0].ids, &again.answers[0].ids), "%s %s: other tokens", shapes[s].name,
                     policies[p].policy);
            mt_check(first.counted_kept == again.counted_kept, "%s %s: other entries", shapes[s].name,
                     policies[p].policy);
            lh_generation_clear(&first);
            lh_generation_clear(&again);
        }
        lh_engine_close(engine);
    }
    remove_fixture();
    mt_end();
}
END_TEST

START_TEST(test_memory_is_entries_times_their_size)
{
    make_fixture();
    lh_engine *engine = tiny_engine_open(mt_comm(), &(lh_engine_options){.model = fix.model[0]});
    for (int p = 0; p < POLICIES; p++) {
        lh_generation g = {0};
        request q = make_request(&policies[p], PROMPT);
        generate(engine, &q, &g);
        const lh_heads *h = &lh_model_shard(lh_engine_get(engine)->model)->heads;
        int64_t entry = 2 * shapes[0].head_dim * 4;
        int r = mt_rank();
        mt_check(g.entries[r] == PROMPT * shapes[0].layers * h->kv_count, "entries seen");
        mt_check(g.bytes_kept[r] == g.entries_kept[r] * entry, "bytes are not entries times %lld", (long long)entry);
        mt_check(g.bytes_allocated[r] >= g.bytes_kept[r], "more held than allocated");
        if (p > 0) mt_check(g.entries_kept[r] < g.entries[r], "%s freed nothing", policies[p].policy);
        lh_generation_clear(&g);
        mt_check(lh_device_usage(lh_engine_get(engine)->device).now[LH_MEM_KV] == 0, "%s left cache memory behind",
                 policies[p].policy);
    }
    lh_engine_close(engine);
    remove_fixture();
    mt_end();
}
END_TEST

enum { LONG = 8000 }; /* so long that what a backend takes for itself is small beside it */

static void compare_with_plan(const lh_engine *engine, int shape, const request *q, const lh_generation *g)
{
    const int r = mt_rank();
    lh_plan plan = {0};
    lh_engine_options options = {
        .model = fix.model[shape], .tp = mt_size(), .device = "cpu", .dtype = "f32", .kv_dtype = "f32"};
    mt_try(lh_plan_make(&plan,
                        &(lh_plan_request){.engine = &options, .policy = &q->plan, .context = LONG, .max_new = NEW}));
    if (!plan.ranks) return;
    double said = (double)plan.ranks[r].peak, took = (double)g->peak_bytes[r];
    mt_check(fabs(said - took) <= 0.1 * took, "%s: the plan says %.0f bytes, the run took %.0f", q->plan.name, said,
             took);
    mt_check(plan.ranks[r].weights == lh_device_usage(lh_engine_get(engine)->device).now[LH_MEM_WEIGHTS],
             "the plan says %lld bytes of weights", (long long)plan.ranks[r].weights);
    mt_check(plan.entries == g->counted && plan.entries_kept == g->counted_kept,
             "%s: the plan says %lld of %lld entries, the run kept %lld of %lld", q->plan.name,
             (long long)plan.entries_kept, (long long)plan.entries, (long long)g->counted_kept, (long long)g->counted);
    mt_check(plan.budget == g->budget, "%s: another budget", q->plan.name);
    lh_plan_clear(&plan);
}

static lh_status count_prefill(void *self, int64_t done, int64_t total)
{
    int *calls = self;
    if (done <= total) ++*calls;
    return LH_OK;
}

START_TEST(test_a_run_takes_what_its_plan_says)
{
    static int32_t ids[LONG];
    const int models[] = {0, FEW_BITS}, shape = models[_i];
    make_fixture();
    tiny_model_tokens(ids, LONG, VOCAB);
    lh_engine *engine = tiny_engine_open(mt_comm(), &(lh_engine_options){.model = fix.model[shape]});
    for (int p = 0; p < POLICIES; p += 3) {
        lh_generation g = {0};
        request q = make_request(&policies[p], PROMPT);
        int calls = 0; /* more than one a layer: Ctrl-C must not wait for a whole layer */
        q.r.prompt = (lh_tokens){ids, LONG, LONG};
        q.r.events = (lh_generate_events){.self = &calls, .prefill = count_prefill};
        generate(engine, &q, &g);
        compare_with_plan(engine, shape, &q, &g);
        mt_check(calls > 2 * shapes[shape].layers, "%d calls of the listener while the prompt was read", calls);
        lh_generation_clear(&g);
    }
    lh_engine_close(engine);
    remove_fixture();
    mt_end();
}
END_TEST

/* A prompt of few bits keeps what the same numbers in f32 keep: its products are theirs. Its last rows and the answer
 * take few bits, with activations of 15 bits. */
START_TEST(test_few_bits_are_unpacked_for_a_prompt)
{
    make_fixture();
    char numbers[96], keep[2][96], logits[2][96];
    const int model = _i ? FEW_BITS_OF_EXPERTS : FEW_BITS;
    tiny_shape shape = shapes[model];
    shape.numbers = TINY_FEW_BITS_AS_F32;
    path_in(numbers, sizeof numbers, "numbers.h5");
    if (mt_rank() == 0) tiny_model_make(numbers, &shape);
    mt_try(lh_comm_barrier(mt_comm()));
    for (int p = 0; p < POLICIES; p += stride(model)) {
        for (int i = 0; i < 2; i++) {
            lh_generation g = {0};
            request q = make_request(&policies[p], PROMPT);
            path_in(keep[i], sizeof keep[i], i ? "keep-numbers.h5" : "keep-bits.h5");
            path_in(logits[i], sizeof logits[i], i ? "logits-numbers.h5" : "logits-bits.h5");
            q.r.keep_sets = keep[i];
            q.r.logits = logits[i];
            lh_engine *engine =
                tiny_engine_open(mt_comm(), &(lh_engine_options){.model = i ? numbers : fix.model[model]});
            generate(engine, &q, &g);
            lh_generation_clear(&g);
            lh_engine_close(engine);
        }
        if (mt_rank() != 0) continue;
        mt_check(same_keep_sets(keep[0], keep[1], shape.layers), "%s: other keep sets", policies[p].policy);
        const double worst = file_difference(logits[0], logits[1], "/logits");
        mt_check(worst > 0 && worst < 2e-3, "%s: logits differ by %g", policies[p].policy, worst);
    }
    remove_fixture();
    mt_end();
}
END_TEST

START_TEST(test_forced_tokens_are_fed)
{
    make_fixture();
    lh_engine *engine = tiny_engine_open(mt_comm(), &(lh_engine_options){.model = fix.model[0], .deterministic = 1});
    lh_generation free_run = {0}, forced = {0};
    request q = make_request(&policies[0], PROMPT);
    generate(engine, &q, &free_run);
    q.r.force = (lh_tokens){fix.ids, 5, 5};
    generate(engine, &q, &forced);
    mt_check(memcmp(forced.answers[0].ids.ids, fix.ids, 5 * sizeof *fix.ids) == 0, "other ids than the forced ones");
    mt_check(forced.answers[0].ids.n == NEW, "the answer stops where the forced ids end");
    lh_generation_clear(&forced);
    q.r.force = (lh_tokens){free_run.answers[0].ids.ids, 5, 5};
    generate(engine, &q, &forced);
    mt_check(same_ids(&forced.answers[0].ids, &free_run.answers[0].ids), "its own tokens forced change the answer");
    lh_generation_clear(&forced);
    lh_generation_clear(&free_run);
    lh_engine_close(engine);
    remove_fixture();
    mt_end();
}
END_TEST

START_TEST(test_sampling_depends_on_its_seed_only)
{
    make_fixture();
    lh_engine *engine = tiny_engine_open(mt_comm(), &(lh_engine_options){.model = fix.model[1], .deterministic = 1});
    static const lh_sampling samplings[] = {
        {.temperature = 1, .top_p = 1, .repeat_penalty = 1},
        {.temperature = 0.8, .top_k = 20, .top_p = 0.9, .repeat_penalty = 1},
        {.temperature = 1.5, .top_p = 0.95, .min_p = 0.01, .repeat_penalty = 1.2},
        {.temperature = 0, .top_p = 1, .repeat_penalty = 1.3},
    };
    for (size_t i = 0; i < sizeof samplings / sizeof *samplings; i++) {
        lh_generation a = {0}, b = {0}, c = {0};
        request q = make_request(&policies[0], PROMPT);
        q.r.sampling = samplings[i];
        q.r.sampling.seed = 5;
        generate(engine, &q, &a);
        generate(engine, &q, &b);
        q.r.sampling.seed = 6;
        generate(engine, &q, &c);
        mt_check(same_ids(&a.answers[0].ids, &b.answers[0].ids), "case %d: the same seed, other tokens", (int)i);
        if (samplings[i].temperature > 0)
            mt_check(!same_ids(&a.answers[0].ids, &c.answers[0].ids), "case %d: another seed, the same tokens", (int)i);
        lh_generation_clear(&a);
        lh_generation_clear(&b);
        lh_generation_clear(&c);
    }
    lh_engine_close(engine);
    remove_fixture();
    mt_end();
}
END_TEST

START_TEST(test_requests_that_cannot_be_are_refused_on_all_ranks)
{
    make_fixture();
    lh_engine *engine = tiny_engine_open(mt_comm(), &(lh_engine_options){.model = fix.model[0]});
    lh_generation g = {0};
    request q = make_request(&policies[0], 0);
    q.r.policy = &q.plan;
    mt_expect(lh_generate(engine, &q.r, &g), LH_EUSAGE);
    mt_check(strstr(lh_error_message(), "empty") != NULL, "'%s' does not say that the prompt is empty",
             lh_error_message());
    lh_generation_clear(&g);
    q = make_request(&policies[0], PROMPT);
    q.r.policy = &q.plan;
    q.r.max_new = 8192;
    mt_expect(lh_generate(engine, &q.r, &g), LH_EUSAGE);
    mt_check(strstr(lh_error_message(), "8192") != NULL, "'%s' does not name the length", lh_error_message());
    lh_generation_clear(&g);
    q.r.max_new = 1;
    q.r.save_cache = "/nowhere/at/all/cache.h5";
    mt_expect(lh_generate(engine, &q.r, &g), LH_EWRITE);
    lh_generation_clear(&g);
    q.r.save_cache = NULL;
    q.r.load_cache = fix.model[0];
    mt_expect(lh_generate(engine, &q.r, &g), LH_EFILE);
    lh_generation_clear(&g);
    lh_engine_close(engine);
    remove_fixture();
    mt_end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_any_number_of_ranks_gives_the_same_bits,
        test_any_number_of_ranks_gives_the_same_logits,
        test_a_budget_of_the_whole_prompt_changes_nothing,
        test_every_question_starts_from_the_context,
        test_a_saved_cache_goes_on_where_it_stopped,
        test_memory_is_entries_times_their_size,
        test_forced_tokens_are_fed,
        test_sampling_depends_on_its_seed_only,
        test_requests_that_cannot_be_are_refused_on_all_ranks,
    };
    Suite *suite = suite_create("generate");
    TCase *all = tcase_create("all");
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) tcase_add_test(all, tests[i]);
    tcase_add_loop_test(all, test_a_run_takes_what_its_plan_says, 0, 2);
    tcase_add_loop_test(all, test_few_bits_are_unpacked_for_a_prompt, 0, 2);
    suite_add_tcase(suite, all);
    return mt_run(suite);
}
