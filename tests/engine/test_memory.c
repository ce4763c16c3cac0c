/* Memory of a long answer: within a budget a step takes none, over 10,000 steps on a card (fewer elsewhere). Counted
 * are the bytes of the device, and what the driver's pool has of it. And memory that nobody counts: libraries have it
 * before the limit of a run is set. */
#include <stdio.h>

#include "engine/device_pool.h"
#include "engine/device_run.h"

static device_models models;

static void set_up(void)
{
    device_models_make(&models);
}

static void tear_down(void)
{
    device_models_remove(&models);
}

/* Steps in all, and those before the first look: buffers have found their sizes then. */
typedef struct course {
    int64_t steps, first;
} course;

static course choose_course(void)
{
    static const course small = {60, 20}, host = {200, 50}, card = {10000, 500};
    return models.small ? small : device_pool_now ? card : host;
}

typedef struct figures {
    int64_t now, peak;
    device_pool pool; /* 0 where there is none */
} figures;

static figures look(const lh_engine *engine)
{
    lh_mem_usage u = lh_device_usage(lh_engine_get(engine)->device);
    return (figures){u.now_total, u.peak_total, device_pool_now ? device_pool_now() : (device_pool){0, 0}};
}

/* Greedy steps `from` up to `to`. */
static void decode(lh_session *s, int64_t from, int64_t to)
{
    static const lh_sampling greedy = {.top_p = 1, .repeat_penalty = 1};
    for (int64_t i = from; i < to; i++) {
        int32_t id = 0;
        mt_try(lh_session_draw(s, &greedy, i, &id));
        mt_try(lh_session_step(s, id));
    }
}

/* A session with the prompt taken in; NULL where it fails. */
static lh_session *start(lh_engine *engine, const lh_policy *plan, int64_t more)
{
    lh_session *s = NULL;
    mt_try(lh_session_open(&s, engine,
                           &(lh_session_options){.policy = plan,
                                                 .prompt = models.prompt,
                                                 .more = more,
                                                 .length = models.prompt + choose_course().steps,
                                                 .seed = 3}));
    if (s) mt_try(lh_session_prefill(s, models.ids, models.prompt, NULL));
    return s;
}

/* An answer after the prompt: what is held after its first steps, and after all. */
static void run(lh_engine *engine, const lh_policy *plan, figures out[2])
{
    course c = choose_course();
    lh_session *s = start(engine, plan, c.steps);
    if (!s) return;
    decode(s, 0, c.first);
    lh_device_reset_peak(lh_engine_get(engine)->device); /* the prefill's is not a step's */
    decode(s, c.first, c.first + 8);
    out[0] = look(engine);
    decode(s, c.first + 8, c.steps);
    out[1] = look(engine);
    lh_session_close(s);
}

static lh_engine *open_model(int model, const char *kv_dtype)
{
    return device_open(mt_comm(), models.paths[model],
                       &(device_options){.device = models.device, .dtype = "bf16", .kv_dtype = kv_dtype});
}

START_TEST(test_steps_within_a_budget_take_no_memory)
{
    static const struct {
        int model;
        const char *kv_dtype;
        lh_policy_options policy;
    } cases[] = {{0, "bf16", {.policy = "snapkv", .budget = "40%", .parts.evict = "every:4"}},
                 {1, "bf16", {.policy = "h2o", .budget = "40%", .parts.evict = "every:1"}},
                 {3, "bf16", {.policy = "streaming", .budget = "40%", .parts.evict = "every:1"}},
                 {7, "q8", {.policy = "snapkv", .budget = "40%", .parts.evict = "every:3"}}};
    lh_engine *engine = open_model(cases[_i].model, cases[_i].kv_dtype);
    figures at[2] = {{0}, {0}};
    const char *name = cases[_i].policy.policy;
    lh_policy plan = {0};
    mt_try(lh_policy_resolve(&plan, &cases[_i].policy));
    run(engine, &plan, at);
    mt_check(at[0].now > 0 && at[0].peak >= at[0].now, "%s: nothing is counted", name);
    mt_check(at[1].now == at[0].now, "%s: from %lld to %lld bytes", name, (long long)at[0].now, (long long)at[1].now);
    mt_check(at[1].peak == at[0].peak, "%s: the most ever held went from %lld to %lld bytes", name,
             (long long)at[0].peak, (long long)at[1].peak);
    mt_check(at[1].pool.used <= at[0].pool.used, "%s: the driver has given out %lld bytes, and then %lld", name,
             (long long)at[0].pool.used, (long long)at[1].pool.used);
    mt_check(at[1].pool.reserved <= at[0].pool.reserved, "%s: the driver's pool went from %lld to %lld bytes", name,
             (long long)at[0].pool.reserved, (long long)at[1].pool.reserved);
    if (mt_rank() == 0)
        printf("%s: %lld steps, %lld bytes held, a pool of %lld\n", name, (long long)choose_course().steps,
               (long long)at[1].now, (long long)at[1].pool.reserved);
    lh_engine_close(engine);
    mt_end();
}
END_TEST

START_TEST(test_the_figures_show_a_cache_that_grows)
{
    static const lh_policy_options everything = {.policy = "full"};
    lh_engine *engine = open_model(0, "bf16");
    lh_policy plan = {0};
    mt_try(lh_policy_resolve(&plan, &everything));
    lh_session *s = start(engine, &plan, 0);
    figures at[2] = {{0}, {0}};
    for (int i = 0; i < 2 && s; i++) {
        mt_try(lh_session_block(s, models.ids, models.prompt));
        at[i] = look(engine);
        mt_try(lh_session_block(s, models.ids, models.prompt));
    }
    lh_session_close(s);
    mt_check(at[1].now > at[0].now, "%lld bytes are held, as before", (long long)at[1].now);
    mt_check(at[1].peak > at[0].peak, "%lld bytes are the most, as before", (long long)at[1].peak);
    mt_check(!device_pool_now || at[1].pool.used > at[0].pool.used, "the driver has given out %lld bytes, as before",
             (long long)at[1].pool.used);
    lh_engine_close(engine);
    mt_end();
}
END_TEST

/* Memory that is unmapped at a wait of the host is mapped again for the next prompt. */
START_TEST(test_the_pool_keeps_the_memory_of_a_finished_answer)
{
    static const lh_policy_options everything = {.policy = "full"};
    lh_engine *engine = open_model(0, "bf16");
    figures at[2] = {{0}, {0}};
    lh_policy plan = {0};
    mt_try(lh_policy_resolve(&plan, &everything));
    lh_session *s = start(engine, &plan, 8);
    if (s) decode(s, 0, 8);
    at[0] = look(engine);
    lh_session_close(s);
    lh_device *device = lh_engine_get(engine)->device;
    void *next = NULL; /* the stream waits for the frees before this block */
    mt_try(lh_device_alloc(device, &next, 64, LH_MEM_WORK));
    mt_try(lh_stream_sync(lh_engine_get(engine)->exec->stream));
    at[1] = look(engine);
    lh_device_free(device, next);
    mt_check(at[1].now < at[0].now, "%lld bytes are held after the answer, as before", (long long)at[1].now);
    mt_check(at[1].pool.reserved >= at[0].pool.reserved, "the driver's pool went from %lld to %lld bytes",
             (long long)at[0].pool.reserved, (long long)at[1].pool.reserved);
    lh_engine_close(engine);
    mt_end();
}
END_TEST

/* On a GPU, whose memory is the run's: a host's is everybody's. */
START_TEST(test_what_a_run_may_still_allocate_is_free)
{
    static const lh_policy_options everything = {.policy = "full"};
    lh_engine *engine = open_model(0, "bf16");
    lh_policy plan = {0};
    mt_try(lh_policy_resolve(&plan, &everything));
    lh_session *s = start(engine, &plan, 8);
    if (s) decode(s, 0, 8);
    lh_device *device = lh_engine_get(engine)->device;
    int64_t room = lh_device_room(device), there = lh_device_free_bytes(device);
    mt_check(lh_device_kind_of(device) == LH_DEVICE_CPU || room <= there,
             "%lld bytes are left below the limit and %lld on the device", (long long)room, (long long)there);
    lh_session_close(s);
    lh_engine_close(engine);
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory");
    TCase *laws = tcase_create("laws");
    tcase_set_timeout(laws, 0);
    tcase_add_unchecked_fixture(laws, set_up, tear_down);
    tcase_add_loop_test(laws, test_steps_within_a_budget_take_no_memory, 0, 4);
    tcase_add_test(laws, test_the_figures_show_a_cache_that_grows);
    tcase_add_test(laws, test_the_pool_keeps_the_memory_of_a_finished_answer);
    tcase_add_test(laws, test_what_a_run_may_still_allocate_is_free);
    suite_add_tcase(suite, laws);
    return mt_run(suite);
}
