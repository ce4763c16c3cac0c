/* Laws of the length in which prompts go through the layers: what is chosen, that plans and runs choose alike and take
 * what the plan says, and that results do not depend on it. At 1, 2, 3 and 4 ranks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/h5.h"
#include "base/minmax.h"
#include "engine/chunk.h"
#include "engine/generate.h"
#include "engine/plan.h"
#include "engine/session.h"
#include "import/model_header.h"
#include "mpi_check.h"
#include "tiny_model.h"

/* What a backend takes for itself is small beside a prompt of so many tokens of this model, and that is what a plan
 * does not know. */
enum { LONG = 3000, NEW = 6, VOCAB = 211 };
static const tiny_shape shape = {
    .name = "12/4", .heads = 12, .kv_heads = 4, .head_dim = 32, .layers = 2, .ff = 700, .vocab = VOCAB};

static struct {
    char folder[64], model[96];
    int32_t ids[LONG];
} fix;

static void make_fixture(void)
{
    mt_folder_make(fix.folder);
    snprintf(fix.model, sizeof fix.model, "%s/model.h5", fix.folder);
    if (mt_rank() == 0) tiny_model_make(fix.model, &shape);
    tiny_model_tokens(fix.ids, LONG, VOCAB);
    mt_try(lh_comm_barrier(mt_comm()));
}

static void remove_fixture(void)
{
    mt_folder_remove(fix.folder);
}

static lh_engine_options options_of(int64_t memory, int64_t chunk)
{
    return (lh_engine_options){.model = fix.model,
                               .tp = mt_size(),
                               .device = "cpu",
                               .dtype = "f32",
                               .kv_dtype = "f32",
                               .threads = 1,
                               .memory = memory,
                               .chunk = chunk};
}

static const struct policy_case {
    const char *policy, *budget, *evict;
} policies[] = {{"full", NULL, NULL},
                {"snapkv", "200", NULL},
                {"ada-snapkv", "200", NULL},
                {"h2o", "200", NULL},
                {"snapkv", "200", "every:2"},
                {"streaming", "200", "block:100"},
                {"expected-attention", "200", NULL}};
enum { POLICIES = sizeof policies / sizeof *policies };

static lh_policy resolve(int p)
{
    lh_policy plan = {0};
    lh_policy_options o = {.policy = policies[p].policy, .budget = policies[p].budget};
    o.parts.evict = policies[p].evict;
    mt_try(lh_policy_resolve(&plan, &o));
    return plan;
}

/* ---- what is chosen ---- */

/* An 8B model on a GPU of `room_bytes`. */
static lh_chunk_request ask(const lh_model_header *o, const lh_shard *shard, int64_t tokens, int64_t room_bytes)
{
    return (lh_chunk_request){.config = &o->config,
                              .shard = shard,
                              .options = {LH_BF16, LH_ORDER_ANY},
                              .device = LH_DEVICE_CUDA,
                              .tokens = tokens,
                              .room_bytes = room_bytes,
                              .else_bytes = INT64_C(40) << 30};
}

START_TEST(test_the_longest_that_fits_and_is_of_use)
{
    lh_model_header o;
    lh_shard shard;
    const int64_t wide = INT64_C(139) << 30, long_prompt = 1000000;
    mt_try(lh_model_header_read(&o, "llama-3.1-8b", NULL));
    mt_try(lh_shard_of(&shard, &o.config, 0, 1));
    lh_chunk_request r = ask(&o, &shard, long_prompt, wide);
    mt_check(lh_chunk_longest(&r) == 4096, "%lld with all the room there is", (long long)lh_chunk_longest(&r));
    const int64_t rounded[][2] = {{1, 512}, {512, 512}, {513, 1024}, {1024, 1024}, {2049, 4096}, {9000, 4096}};
    for (int i = 0; i < 6; i++) {
        r = ask(&o, &shard, rounded[i][0], wide);
        mt_check(lh_chunk_longest(&r) == rounded[i][1], "a prompt of %lld: %lld", (long long)rounded[i][0],
                 (long long)lh_chunk_longest(&r));
    }
    r = ask(&o, &shard, long_prompt, wide);
    r.device = LH_DEVICE_CPU;
    mt_check(lh_chunk_longest(&r) == 512, "%lld on a cpu", (long long)lh_chunk_longest(&r));
    r.wanted = 777;
    mt_check(lh_chunk_longest(&r) == 777, "not what was wanted");
    r.wanted = 0, r.options.order = LH_ORDER_FIXED;
    mt_check(lh_chunk_longest(&r) == 64, "%lld in the reproducible mode", (long long)lh_chunk_longest(&r));
    lh_model_header_clear(&o);
    mt_end();
}
END_TEST

START_TEST(test_less_room_gives_shorter_chunks_that_fit)
{
    lh_model_header o;
    lh_shard shard;
    int64_t last = 4096, steps = 0;
    mt_try(lh_model_header_read(&o, "llama-3.1-8b", NULL));
    mt_try(lh_shard_of(&shard, &o.config, 0, 1));
    for (int64_t mib = 43 << 10; mib > 40 << 10; mib--) {
        lh_chunk_request r = ask(&o, &shard, 100000, mib << 20);
        int64_t length = lh_chunk_longest(&r);
        mt_check(length <= last, "%lld MiB: longer than with more", (long long)mib);
        steps += length < last;
        last = length;
        if (length)
            mt_check(r.else_bytes + lh_chunk_bytes(&r, length) <= r.room_bytes, "%lld MiB: %lld do not fit",
                     (long long)mib, (long long)length);
        else
            mt_check(r.else_bytes + lh_chunk_bytes(&r, lh_chunk_shortest(&r)) + LH_CHUNK_SPARE_LEAST > r.room_bytes,
                     "%lld MiB: 64 would fit", (long long)mib);
    }
    mt_check(last == 0 && steps == 7, "%lld lengths, the last is %lld", (long long)steps, (long long)last);
    lh_chunk_request r = ask(&o, &shard, 100000, 0);
    r.room_bytes = r.else_bytes + lh_chunk_bytes(&r, 64) + LH_CHUNK_SPARE_LEAST;
    mt_check(lh_chunk_longest(&r) == 64, "64 do not fit where they just fit");
    r.room_bytes--;
    mt_check(lh_chunk_longest(&r) == 0, "64 fit where a byte is missing");
    lh_model_header_clear(&o);
    mt_end();
}
END_TEST

/* ---- plans and runs ---- */

static lh_status generate(lh_engine *engine, lh_policy *plan, const char *keep_sets, lh_generation *out)
{
    return lh_generate(engine,
                       &(lh_generate_request){.prompt = {fix.ids, LONG, LONG},
                                              .max_new = NEW,
                                              .ignore_eos = 1,
                                              .sampling = {.top_p = 1, .repeat_penalty = 1},
                                              .policy = plan,
                                              .keep_sets = keep_sets,
                                              .logits_last = 1},
                       out);
}

static lh_plan make_plan(const lh_engine_options *options, const lh_policy *policy)
{
    lh_plan plan = {0};
    mt_try(
        lh_plan_make(&plan, &(lh_plan_request){.engine = options, .policy = policy, .context = LONG, .max_new = NEW}));
    return plan;
}

static int64_t most_of(const lh_plan *plan)
{
    int64_t most = 0;
    for (int64_t r = 0; plan->ranks && r < plan->tp; r++) most = lh_max_i64(most, plan->ranks[r].peak);
    return most;
}

/* Memory with which `length` is chosen: what it takes on the rank that needs the most, and the spare part. */
static int64_t memory_for(int64_t length, const lh_policy *policy)
{
    lh_engine_options options = options_of(INT64_C(1) << 40, length);
    lh_plan plan = make_plan(&options, policy);
    int64_t most = most_of(&plan);
    lh_plan_clear(&plan);
    return most + lh_chunk_spare(most + most / 63) + 64;
}

static void run_as_planned(const lh_engine_options *options, int64_t expected, lh_policy *policy)
{
    lh_engine *engine = NULL;
    lh_generation g = {0};
    lh_plan plan = make_plan(options, policy);
    mt_check(plan.chunk == expected && plan.fits, "%s: the plan has chunks of %lld in place of %lld", policy->name,
             (long long)plan.chunk, (long long)expected);
    mt_try(lh_engine_open_on(&engine, mt_comm(), options));
    if (engine && plan.ranks) {
        mt_try(generate(engine, policy, NULL, &g));
        double said = (double)plan.ranks[mt_rank()].peak, took = g.peak_bytes ? (double)g.peak_bytes[mt_rank()] : 0;
        mt_check(g.chunk == expected, "%s: chunks of %lld in place of %lld", policy->name, (long long)g.chunk,
                 (long long)expected);
        mt_check(fabs(said - took) <= 0.03 * took, "%s, chunks of %lld: the plan says %.0f bytes, the run took %.0f",
                 policy->name, (long long)expected, said, took);
    }
    lh_generation_clear(&g);
    lh_engine_close(engine);
    lh_plan_clear(&plan);
}

START_TEST(test_a_run_takes_what_its_plan_says_at_every_length)
{
    static const int64_t lengths[] = {64, 128, 256, 512, 1024, 4096};
    static const int some[] = {0, 1, 3};
    make_fixture();
    lh_policy policy = resolve(some[_i]);
    for (int i = 0; i < 6; i++) {
        int chosen = lengths[i] <= 512; /* on a cpu no more is of use */
        lh_engine_options options = options_of(chosen ? memory_for(lengths[i], &policy) : 0, chosen ? 0 : lengths[i]);
        run_as_planned(&options, lengths[i], &policy);
    }
    remove_fixture();
    mt_end();
}
END_TEST

/* Wide rows, so that the router's product in f32 takes more for itself than the plan may be off by. */
START_TEST(test_a_mixture_in_bf16_takes_what_its_plan_says)
{
    static const tiny_shape mixture = {.name = "mixture",
                                       .family = "mixtral",
                                       .heads = 4,
                                       .kv_heads = 4,
                                       .head_dim = 8,
                                       .hidden = 8192,
                                       .layers = 1,
                                       .ff = 16,
                                       .vocab = VOCAB,
                                       .more = "\"num_local_experts\": 3, \"num_experts_per_tok\": 1"};
    make_fixture();
    if (mt_rank() == 0) tiny_model_make(fix.model, &mixture);
    mt_try(lh_comm_barrier(mt_comm()));
    lh_policy policy = resolve(_i);
    lh_engine_options options = options_of(0, 512);
    options.dtype = options.kv_dtype = "bf16";
    run_as_planned(&options, 512, &policy);
    remove_fixture();
    mt_end();
}
END_TEST

START_TEST(test_what_does_not_fit_is_said_before_the_work)
{
    make_fixture();
    lh_policy policy = resolve(1);
    lh_engine *engine = NULL;
    lh_generation g = {0};
    lh_engine_options options = options_of(0, 0), wide = options_of(INT64_C(1) << 40, 64);
    lh_plan least = make_plan(&wide, &policy);
    options.memory = most_of(&least) - 1000;
    lh_plan plan = make_plan(&options, &policy);
    mt_check(!plan.fits && plan.chunk == 64, "the plan fits, with %lld", (long long)plan.chunk);
    mt_try(lh_engine_open_on(&engine, mt_comm(), &options));
    mt_expect(generate(engine, &policy, NULL, &g), LH_ENOMEM);
    mt_check(mt_rank() || strstr(lh_error_message(), "GiB are missing"), "it says '%s'", lh_error_message());
    lh_generation_clear(&g);
    lh_engine_close(engine);
    lh_plan_clear(&plan);
    lh_plan_clear(&least);
    remove_fixture();
    mt_end();
}
END_TEST

/* Requests whose most memory is not that of a prompt and one answer. */
static const struct request_case {
    int policy;
    int64_t prompt, question, questions, logits_last;
} requests[] = {{1, LONG, 0, 0, LONG}, {4, LONG, 20, 2, 1}, {4, LONG / 2, LONG / 2, 2, 1}, {3, LONG, LONG / 4, 2, 1}};
enum { REQUESTS = sizeof requests / sizeof *requests };

/* 1: it went through, and *took is the most that it held; 0: it was refused before the work. */
static int goes_through(const struct request_case *c, int64_t memory, int64_t *took)
{
    lh_engine *engine = NULL;
    lh_generation g = {0};
    lh_engine_options options = options_of(memory, 0);
    lh_policy_options how = {.policy = policies[c->policy].policy, .budget = "80%"};
    lh_policy policy = {0};
    lh_tokens questions[2] = {{fix.ids, c->question, c->question}, {fix.ids, c->question, c->question}};
    char path[96];
    how.parts.evict = c->policy == 4 ? "every:2" : NULL;
    mt_try(lh_policy_resolve(&policy, &how));
    snprintf(path, sizeof path, "%s/logits.h5", fix.folder);
    mt_try(lh_engine_open_on(&engine, mt_comm(), &options));
    lh_status st = lh_generate(engine,
                               &(lh_generate_request){.prompt = {fix.ids, c->prompt, c->prompt},
                                                      .questions = questions,
                                                      .question_count = c->questions,
                                                      .max_new = NEW,
                                                      .ignore_eos = 1,
                                                      .sampling = {.top_p = 1, .repeat_penalty = 1},
                                                      .policy = &policy,
                                                      .logits = c->logits_last > 1 ? path : NULL,
                                                      .logits_last = c->logits_last},
                               &g);
    int64_t refused = st == LH_ENOMEM && (mt_rank() || strstr(lh_error_message(), "are missing")), all = refused;
    mt_try(lh_comm_allreduce(mt_comm(), &all, 1, LH_I64, LH_MIN));
    mt_check(st == LH_OK || all, "%lld bytes: it fails at work: %s", (long long)memory, lh_error_message());
    lh_error_clear();
    *took = g.peak_bytes ? g.peak_bytes[mt_rank()] : 0;
    lh_generation_clear(&g);
    lh_engine_close(engine);
    return st == LH_OK;
}

START_TEST(test_what_is_not_refused_goes_through)
{
    make_fixture();
    int64_t low = 8 << 20, high = 64 << 20, took = 0, last = 0;
    while (high - low > 64 << 10) {
        int64_t middle = (low + high) / 2;
        if (goes_through(&requests[_i], middle, &took))
            high = middle, last = took;
        else
            low = middle;
    }
    double asked = (double)(high - LH_CHUNK_SPARE_LEAST);
    mt_check(last && (double)last <= 1.04 * asked, "it takes %lld bytes and asks for %.0f", (long long)last, asked);
    remove_fixture();
    mt_end();
}
END_TEST

START_TEST(test_ranks_agree_on_what_fits_on_all)
{
    make_fixture();
    lh_policy policy = resolve(1);
    lh_engine *engine = NULL;
    lh_engine_options options = options_of(0, 0);
    int64_t tight = memory_for(128, &policy), chunk = 0;
    mt_try(lh_engine_open_on(&engine, mt_comm(), &options));
    if (engine && mt_rank() == mt_size() - 1) lh_device_set_limit(lh_engine_get(engine)->device, tight);
    lh_session *s = NULL;
    mt_try(lh_session_open(
        &s, engine, &(lh_session_options){.policy = &policy, .prompt = LONG, .more = NEW, .length = LONG + NEW}));
    if (s) chunk = lh_session_chunk(s);
    int64_t least = chunk, most = chunk;
    mt_try(lh_comm_allreduce(mt_comm(), &least, 1, LH_I64, LH_MIN));
    mt_try(lh_comm_allreduce(mt_comm(), &most, 1, LH_I64, LH_MAX));
    mt_check(least == most, "%lld on one rank, %lld on another", (long long)least, (long long)most);
    mt_check(chunk >= 128 && chunk < 512, "chunks of %lld where one rank has room for 128", (long long)chunk);
    lh_session_close(s);
    lh_engine_close(engine);
    remove_fixture();
    mt_end();
}
END_TEST

START_TEST(test_reproducible_runs_have_chunks_of_their_own)
{
    make_fixture();
    lh_policy policy = resolve(1);
    lh_engine *engine = NULL;
    lh_plan plan = {0};
    lh_engine_options options = options_of(0, 0);
    options.deterministic = 1;
    plan = make_plan(&options, &policy);
    mt_check(plan.chunk == 64, "%lld in the reproducible mode", (long long)plan.chunk);
    options.chunk = 512;
    mt_expect(lh_engine_open_on(&engine, mt_comm(), &options), LH_EUSAGE);
    lh_plan_clear(&plan);
    remove_fixture();
    mt_end();
}
END_TEST

/* A layer is a quarter of the work of four, and the first half of its tokens less than half of it: they attend to fewer
 * entries. */
START_TEST(test_the_share_of_a_prefill_follows_its_cost)
{
    const lh_config c = {.layers = 4, .hidden = 64, .heads = 4, .kv_heads = 2, .head_dim = 16, .ff = 128, .vocab = 100};
    const int64_t n = 10000;
    double before = 0;
    mt_check(lh_plan_prefill_share(&c, n, 0) == 0, "nothing is done");
    mt_check(fabs(lh_plan_prefill_share(&c, n, n) - 0.25) < 1e-12, "a layer of four");
    mt_check(fabs(lh_plan_prefill_share(&c, n, 4 * n) - 1) < 1e-12, "all is done");
    mt_check(lh_plan_prefill_share(&c, n, n / 2) < 0.25 * 0.3, "half of the tokens of a layer");
    for (int64_t done = 0; done <= 4 * n; done += 500) {
        const double share = lh_plan_prefill_share(&c, n, done);
        mt_check(share >= before, "%lld tokens", (long long)done);
        before = share;
    }
    mt_end();
}
END_TEST

/* ---- results ---- */

/* 1 when both files hold the same keep sets. */
static int same_keep_sets(const char *const paths[2])
{
    int same = 1;
    lh_h5 *files[2] = {0};
    const lh_h5_shape want = {LH_I32, 1, {-1}};
    for (int i = 0; i < 2; i++) mt_try(lh_h5_open(&files[i], paths[i], &(lh_h5_header){0}));
    for (int64_t l = 0; l < shape.layers && files[0] && files[1]; l++) {
        char name[64];
        int32_t *values[2] = {0};
        lh_h5_shape found[2] = {0};
        snprintf(name, sizeof name, "/layers/%03d/kept/positions", (int)l);
        for (int i = 0; i < 2; i++) mt_try(lh_h5_get(files[i], name, &want, &found[i], &values[i]));
        int64_t n = found[0].dims[0];
        same &= values[0] && values[1] && n == found[1].dims[0] && memcmp(values[0], values[1], (size_t)n * 4) == 0;
        for (int i = 0; i < 2; i++) lh_free(values[i]);
    }
    for (int i = 0; i < 2; i++) lh_h5_close(files[i]);
    return same;
}

START_TEST(test_results_do_not_depend_on_the_length)
{
    static const int64_t lengths[] = {512, 64, 333, LONG};
    char paths[2][96];
    make_fixture();
    lh_policy policy = resolve(_i);
    lh_generation first = {0}, other = {0};
    snprintf(paths[0], sizeof paths[0], "%s/first.h5", fix.folder);
    snprintf(paths[1], sizeof paths[1], "%s/other.h5", fix.folder);
    for (int i = 0; i < 4; i++) {
        lh_engine *engine = NULL;
        lh_generation *g = i ? &other : &first;
        lh_engine_options options = options_of(0, lengths[i]);
        mt_try(lh_engine_open_on(&engine, mt_comm(), &options));
        mt_try(generate(engine, &policy, paths[i > 0], g));
        mt_check(g->chunk == lengths[i], "chunks of %lld", (long long)g->chunk);
        if (i && first.answers && other.answers)
            mt_check(other.answers[0].ids.n == NEW &&
                         memcmp(first.answers[0].ids.ids, other.answers[0].ids.ids, NEW * sizeof(int32_t)) == 0,
                     "%s: other tokens with chunks of %lld", policy.name, (long long)lengths[i]);
        if (i && mt_rank() == 0)
            mt_check(same_keep_sets((const char *const[]){paths[0], paths[1]}), "%s: other entries with chunks of %lld",
                     policy.name, (long long)lengths[i]);
        if (i) lh_generation_clear(&other);
        lh_engine_close(engine);
    }
    lh_generation_clear(&first);
    remove_fixture();
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("chunk");
    TCase *laws = tcase_create("laws");
    tcase_set_timeout(laws, 0);
    tcase_add_test(laws, test_the_longest_that_fits_and_is_of_use);
    tcase_add_test(laws, test_less_room_gives_shorter_chunks_that_fit);
    tcase_add_loop_test(laws, test_a_run_takes_what_its_plan_says_at_every_length, 0, 3);
    tcase_add_loop_test(laws, test_a_mixture_in_bf16_takes_what_its_plan_says, 0, 2);
    tcase_add_test(laws, test_what_does_not_fit_is_said_before_the_work);
    tcase_add_loop_test(laws, test_what_is_not_refused_goes_through, 0, REQUESTS);
    tcase_add_test(laws, test_ranks_agree_on_what_fits_on_all);
    tcase_add_test(laws, test_reproducible_runs_have_chunks_of_their_own);
    tcase_add_test(laws, test_the_share_of_a_prefill_follows_its_cost);
    tcase_add_loop_test(laws, test_results_do_not_depend_on_the_length, 0, POLICIES);
    suite_add_tcase(suite, laws);
    return mt_run(suite);
}
