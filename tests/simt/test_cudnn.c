/* When cuDNN is asked for attention of blocks, and what becomes of refusals and wrong numbers, with the library of the
 * emulation (cudnn.cpp); what it gives is tests/kernels/test_ops_cudnn.c's. */
#include <glob.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "attend_case.h"
#include "base/file.h"
#include "base/temporary.h"
#include "cache/arena.h"
#include "cudnn.h"
#include "kernels/cuda/attend_cudnn.h"
#include "suite.h"

static const tolerance near_bf16 = {0, 5e-2};

/* A case and its arrays on the device of a rig. */
typedef struct block_on {
    lh_attend_block_args args;
    lh_ragged kv;
    attended got;
} block_on;

static void put_block(lot *m, rig *g, const attend_case *c, block_on *b)
{
    b->got = (attended){.o_count = c->tokens * c->o_ld, .lse_count = c->tokens * c->map.heads};
    b->got.o = lot_new(m, b->got.o_count * 4);
    b->got.lse = lot_new(m, b->got.lse_count * 4);
    b->kv = rig_cache(g, &c->kv[0]);
    b->args = (lh_attend_block_args){.o = rig_new(g, b->got.o_count * 4),
                                     .lse = rig_new(g, b->got.lse_count * 4),
                                     .q = rig_put(g, c->q, c->tokens * c->q_ld * 4),
                                     .positions = rig_put(g, c->positions, c->tokens * 4),
                                     .kv = &b->kv,
                                     .map = c->map,
                                     .logit = c->logit,
                                     .tokens = c->tokens,
                                     .q_ld = c->q_ld,
                                     .o_ld = c->o_ld,
                                     .most = longest_head(c)};
}

static void get_block(rig *g, block_on *b)
{
    rig_get(g, b->got.o, b->args.o, b->got.o_count * 4);
    rig_get(g, b->got.lse, b->args.lse, b->got.lse_count * 4);
    rig_reset(g);
}

static void try_it(lh_status st)
{
    ck_assert_msg(st == LH_OK, "%s", lh_error_message());
}

static const lh_ops *cuda(void)
{
    const lh_ops *ops = lh_ops_find("cuda");
    ck_assert_ptr_nonnull(ops);
    return ops;
}

/* Cases of bf16 without window and cap: variants are chosen until one is. */
static void plain_case(lot *m, attend_case *c, attend_size size)
{
    for (;; size.variant++) {
        block_make(m, c, &size);
        if (c->kv[0].host.type == LH_BF16) break;
        lot_end(m);
    }
    c->logit.softcap = 0, c->logit.window = 0, c->kv[0].host.bias = NULL;
    cache_spare(m, &c->kv[0]);
}

START_TEST(test_what_it_does_not_take_is_said)
{
    static const struct {
        lh_dtype type;
        int64_t dim, window;
        float softcap;
        lh_grouping map;
        int biased;
    } bad[] = {{LH_F32, 64, 0, 0, {2, 1, 0}, 0},  {LH_BF16, 36, 0, 0, {2, 1, 0}, 0}, {LH_BF16, 264, 0, 0, {2, 1, 0}, 0},
               {LH_BF16, 64, 9, 0, {2, 1, 0}, 0}, {LH_BF16, 64, 0, 5, {2, 1, 0}, 0}, {LH_BF16, 64, 0, 0, {3, 2, 0}, 0},
               {LH_BF16, 64, 0, 0, {2, 2, 1}, 0}, {LH_BF16, 64, 0, 0, {2, 1, 0}, 1}};
    float bias = 0;
    const simt_cudnn_counts before = simt_cudnn_count();
    rig g;
    rig_open(&g, cuda());
    for (size_t n = 0; n < sizeof bad / sizeof *bad; n++) {
        lh_ragged kv = {.type = bad[n].type, .head_dim = bad[n].dim, .bias = bad[n].biased ? &bias : NULL};
        lh_attend_block_args a = {
            .kv = &kv, .map = bad[n].map, .logit = {1, bad[n].softcap, bad[n].window}, .tokens = 64, .most = 64};
        ck_assert_int_eq(lh_cudnn_attend_block(g.stream, &a), LH_EUSAGE);
        ck_assert_ptr_nonnull(strstr(lh_error_message(), "is not asked of cuDNN"));
        lh_error_clear();
    }
    rig_close(&g);
    ck_assert_int_eq(simt_cudnn_count().searches, before.searches);
}
END_TEST

/* Runs of a case through attend_block, with as much work said as makes a plan pay (or not). */
static void run_size(rig *g, int times, attend_size size, int64_t most, lh_order order)
{
    lot m = {0};
    attend_case c;
    rig ref;
    plain_case(&m, &c, size);
    rig_open(&ref, rig_backend(0));
    attended want = block_run(&m, &ref, &c);
    for (int n = 0; n < times; n++) {
        block_on b;
        put_block(&m, g, &c, &b);
        b.args.most = most, b.args.order = order;
        try_it(cuda()->attend_block(g->stream, &b.args));
        try_it(lh_stream_sync(g->stream));
        get_block(g, &b);
        check_attended(&b.got, &want, near_bf16, "attention that may be cuDNN's", n);
    }
    rig_close(&ref);
    lot_end(&m);
}

static void run_often(rig *g, int times, int64_t tokens, int64_t most, lh_order order)
{
    run_size(g, times, (attend_size){64, tokens, 40, {4, 2, 0}, 2}, most, order);
}

static const int64_t much = 1ll << 40;

static void prepare(rig *g, attend_size size)
{
    const lh_ragged kv = {.type = LH_BF16, .head_dim = size.dim};
    cuda()->prepare_attend(g->stream,
                           &(lh_attend_block_args){.kv = &kv, .map = size.map, .logit = {1, 0, 0}, .tokens = 4096});
}

/* As an engine: run_often's shape is known. */
static void open_prepared(rig *g)
{
    rig_open(g, cuda());
    prepare(g, (attend_size){.dim = 64, .map = {4, 2, 0}});
}

START_TEST(test_it_is_asked_where_that_pays)
{
    rig g;
    int runs = simt_cudnn_count().runs;
    rig_open(&g, cuda());
    run_often(&g, 1, 64, much, LH_ORDER_ANY); /* nothing was prepared */
    rig_close(&g);
    ck_assert_int_eq(simt_cudnn_count().descriptors, 0);
    open_prepared(&g);
    run_often(&g, 2, 64, much, LH_ORDER_FIXED); /* bits are promised */
    run_often(&g, 2, 63, much, LH_ORDER_ANY);   /* few rows */
    run_often(&g, 2, 64, 2047, LH_ORDER_ANY);   /* few entries */
    run_size(&g, 1, (attend_size){32, 64, 40, {4, 2, 0}, 2}, much, LH_ORDER_ANY);
    ck_assert_int_eq(simt_cudnn_count().runs, runs);
    run_often(&g, 3, 64, 2048, LH_ORDER_ANY);
    ck_assert_int_eq(simt_cudnn_count().runs, runs + 3);
    rig_close(&g);
    ck_assert_int_eq(simt_cudnn_count().descriptors, 0);
}
END_TEST

START_TEST(test_a_short_prompt_does_not_wait_for_a_plan)
{
    rig g;
    int runs = simt_cudnn_count().runs;
    simt_cudnn_go(SIMT_CUDNN_HELD);
    open_prepared(&g);
    run_often(&g, 2, 64, 2047, LH_ORDER_ANY);
    simt_cudnn_go(SIMT_CUDNN_WELL);
    run_often(&g, 1, 64, 2048, LH_ORDER_ANY);
    ck_assert_int_eq(simt_cudnn_count().runs, runs + 1);
    rig_close(&g);
}
END_TEST

static void *release(void *nothing)
{
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    simt_cudnn_go(SIMT_CUDNN_WELL);
    return nothing;
}

/* The bits do not depend on how long the plan took. */
START_TEST(test_a_long_prompt_waits_for_its_plan)
{
    rig g;
    pthread_t thread;
    int runs = simt_cudnn_count().runs;
    simt_cudnn_go(SIMT_CUDNN_HELD);
    open_prepared(&g);
    ck_assert_int_eq(pthread_create(&thread, NULL, release, NULL), 0);
    run_often(&g, 1, 64, much, LH_ORDER_ANY);
    ck_assert_int_eq(simt_cudnn_count().runs, runs + 1);
    pthread_join(thread, NULL);
    rig_close(&g);
}
END_TEST

START_TEST(test_a_stream_that_closes_waits_for_the_plan)
{
    rig g;
    pthread_t thread;
    simt_cudnn_go(SIMT_CUDNN_HELD);
    open_prepared(&g);
    ck_assert_int_eq(pthread_create(&thread, NULL, release, NULL), 0);
    rig_close(&g);
    ck_assert_int_eq(simt_cudnn_count().descriptors, 0);
    pthread_join(thread, NULL);
}
END_TEST

START_TEST(test_without_the_library_our_kernel_does_it)
{
    lh_attend_block_args a = {.kv = &(lh_ragged){.type = LH_BF16, .head_dim = 64}, .map = {2, 1, 0}, .tokens = 64};
    char text[256];
    rig g;
    simt_cudnn_go(SIMT_CUDNN_MISSING);
    ck_assert_int_eq(lh_cudnn_found(text), 0);
    ck_assert_str_eq(text, "cuDNN was not found (the test hides it)");
    open_prepared(&g);
    run_often(&g, 2, 64, much, LH_ORDER_ANY);
    ck_assert_int_eq(lh_cudnn_attend_block(g.stream, &a), LH_EUSAGE);
    ck_assert_str_eq(lh_error_message(), text);
    rig_close(&g);
    simt_cudnn_go(SIMT_CUDNN_WELL);
    ck_assert_int_eq(lh_cudnn_found(text), 1);
    ck_assert_str_eq(text, "9.19.0, the emulation's");
}
END_TEST

START_TEST(test_a_refusal_is_remembered)
{
    rig g;
    int runs = simt_cudnn_count().runs, searches;
    simt_cudnn_go(SIMT_CUDNN_REFUSES);
    open_prepared(&g);
    run_often(&g, 1, 64, much, LH_ORDER_ANY);
    searches = simt_cudnn_count().searches;
    simt_cudnn_go(SIMT_CUDNN_WELL);
    run_often(&g, 3, 64, much, LH_ORDER_ANY);
    ck_assert_int_eq(simt_cudnn_count().searches, searches);
    prepare(&g, (attend_size){.dim = 32, .map = {4, 2, 0}});
    run_size(&g, 1, (attend_size){32, 64, 40, {4, 2, 0}, 2}, much, LH_ORDER_ANY);
    ck_assert_int_gt(simt_cudnn_count().searches, searches);
    ck_assert_int_eq(simt_cudnn_count().runs, runs + 1);
    rig_close(&g);
    ck_assert_int_eq(simt_cudnn_count().descriptors, 0);
}
END_TEST

/* The last chunk of a prompt is shorter. */
START_TEST(test_one_plan_serves_blocks_of_any_length)
{
    static const int64_t tokens[] = {100, 64, 65, 129};
    rig g;
    int runs = simt_cudnn_count().runs, searches = 0;
    open_prepared(&g);
    for (int n = 0; n < 4; n++) {
        run_often(&g, 1, tokens[n], much, LH_ORDER_ANY);
        if (n == 0) searches = simt_cudnn_count().searches;
    }
    ck_assert_int_eq(simt_cudnn_count().searches, searches);
    ck_assert_int_eq(simt_cudnn_count().runs, runs + 4);
    rig_close(&g);
}
END_TEST

START_TEST(test_wrong_numbers_are_seen_and_not_given)
{
    rig g;
    int runs = simt_cudnn_count().runs;
    simt_cudnn_go(SIMT_CUDNN_WRONG);
    open_prepared(&g);
    run_often(&g, 3, 64, much, LH_ORDER_ANY);
    ck_assert_int_eq(simt_cudnn_count().runs, runs + 1);
    rig_close(&g);
    simt_cudnn_go(SIMT_CUDNN_WELL);
    ck_assert_int_eq(simt_cudnn_count().descriptors, 0);
}
END_TEST

/* In the middle of a prompt, too. */
START_TEST(test_a_plan_that_fails_is_dropped_and_our_kernel_goes_on)
{
    rig g;
    int runs = simt_cudnn_count().runs;
    open_prepared(&g);
    run_often(&g, 1, 64, much, LH_ORDER_ANY);
    simt_cudnn_go(SIMT_CUDNN_FAILS);
    run_often(&g, 1, 64, much, LH_ORDER_ANY);
    simt_cudnn_go(SIMT_CUDNN_WELL);
    run_often(&g, 1, 64, much, LH_ORDER_ANY);
    ck_assert_int_eq(simt_cudnn_count().runs, runs + 1);
    rig_close(&g);
    ck_assert_int_eq(simt_cudnn_count().descriptors, 0);
}
END_TEST

static void count_wait(void *waits)
{
    ++*(int *)waits;
}

/* A block over an arena that has been compared or not; how often the host waited. */
static int waits_for(rig *g, const attend_case *c, const attended *want, int64_t *compared)
{
    lot m = {0};
    block_on b;
    int waits = 0;
    put_block(&m, g, c, &b);
    b.kv.compared = compared;
    b.args.most = much, b.args.order = LH_ORDER_ANY;
    lh_stream_watch(g->stream, &(lh_stream_waiter){.self = &waits, .before = count_wait});
    try_it(cuda()->attend_block(g->stream, &b.args));
    lh_stream_watch(g->stream, NULL);
    get_block(g, &b);
    check_attended(&b.got, want, near_bf16, "attention in an arena", 0);
    lot_end(&m);
    return waits;
}

/* V after the last entry of one head of many becomes NaN, as in memory that nobody cleared. */
static void spoil(attend_case *c)
{
    const lh_ragged *kv = &c->kv[0].host;
    const int64_t last = kv->heads - 1, slot = kv->offset[last] + kv->len[last];
    memset((char *)kv->v + slot * kv->head_dim * 2, 255, (size_t)kv->head_dim * 2);
}

START_TEST(test_every_new_arena_is_compared_once)
{
    lot m = {0};
    attend_case c;
    rig g, ref;
    int64_t compared[] = {0, 0, 0};
    int runs = simt_cudnn_count().runs;
    rig_open(&g, cuda());
    prepare(&g, (attend_size){.dim = 8, .map = {34, 2, 0}});
    rig_open(&ref, rig_backend(0));
    plain_case(&m, &c, (attend_size){8, 70, 20, {34, 2, 0}, 2});
    const attended want = block_run(&m, &ref, &c);
    waits_for(&g, &c, &want, &compared[0]);
    ck_assert_int_eq(waits_for(&g, &c, &want, &compared[1]), 1);
    ck_assert_int_eq(waits_for(&g, &c, &want, &compared[1]), 0);
    ck_assert_int_eq(compared[0] && compared[1], 1);
    spoil(&c);
    waits_for(&g, &c, &want, &compared[2]); /* one head in 17 */
    ck_assert_int_eq(simt_cudnn_count().runs, runs + 4);
    ck_assert_int_eq(waits_for(&g, &c, &want, &compared[1]), 0); /* ours, from there on */
    ck_assert_int_eq(simt_cudnn_count().runs, runs + 4);
    lot_end(&m);
    rig_close(&ref);
    rig_close(&g);
}
END_TEST

/* Queries of NaN: our kernel gives NaN, too, and the plan is trusted. */
START_TEST(test_numbers_that_are_none_are_no_reason_for_distrust)
{
    lot m = {0};
    attend_case c;
    rig g;
    rig_open(&g, cuda());
    plain_case(&m, &c, (attend_size){64, 64, 40, {4, 2, 0}, 2});
    for (int64_t i = 0; i < 64 * c.q_ld; i++) c.q[i] = NAN;
    for (int n = 0; n < 2; n++) {
        block_on b;
        put_block(&m, &g, &c, &b);
        try_it(lh_cudnn_attend_block(g.stream, &b.args));
        get_block(&g, &b);
        ck_assert(isnan(b.got.lse[0]) && isnan(b.got.o[0]));
    }
    lot_end(&m);
    rig_close(&g);
}
END_TEST

/* ---- plans that are kept ---- */

/* A folder for caches of this test alone. */
static void use_cache(char folder[64])
{
    ck_assert_ptr_nonnull(mkdtemp(temporary_name(folder, "/tmp")));
    setenv("XDG_CACHE_HOME", folder, 1);
}

/* The file of the only plan below it; "": there is none. */
static void find_kept(char path[256], const char *folder)
{
    char pattern[128];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/longhaul/*", folder);
    const int rc = glob(pattern, 0, NULL, &found);
    ck_assert(rc == GLOB_NOMATCH || found.gl_pathc == 1);
    snprintf(path, 256, "%s", rc == 0 ? found.gl_pathv[0] : "");
    globfree(&found);
}

/* As one process: how often it searched for engines to run a block. */
static int searches_of_process(void)
{
    const simt_cudnn_counts before = simt_cudnn_count();
    rig g;
    open_prepared(&g);
    run_often(&g, 1, 64, much, LH_ORDER_ANY);
    rig_close(&g);
    ck_assert_int_eq(simt_cudnn_count().runs, before.runs + 1);
    ck_assert_int_eq(simt_cudnn_count().descriptors, 0);
    return simt_cudnn_count().searches - before.searches;
}

static void remove_kept(const char *folder)
{
    char path[256];
    find_kept(path, folder);
    if (*path) unlink(path);
    snprintf(path, sizeof path, "%s/longhaul", folder);
    rmdir(path);
    rmdir(folder);
}

START_TEST(test_a_plan_is_kept_for_the_next_process)
{
    char folder[64], path[256];
    use_cache(folder);
    ck_assert_int_gt(searches_of_process(), 0);
    ck_assert_int_eq(searches_of_process(), 0);
    find_kept(path, folder);
    ck_assert_ptr_nonnull(strstr(path, "/longhaul/cudnn-91900-"));
    ck_assert_ptr_nonnull(strstr(path, "-2x2x64x4096"));
    remove_kept(folder);
}
END_TEST

/* Cut off, changed in the middle, and of another version. */
START_TEST(test_a_kept_plan_that_is_damaged_is_replaced)
{
    char folder[64], path[256];
    lh_buf whole = {0};
    use_cache(folder);
    searches_of_process();
    find_kept(path, folder);
    try_it(lh_file_read_regular(&whole, path, 1 << 20));
    for (int n = 0; n < 4; n++) {
        FILE *file = fopen(path, "w");
        const int64_t at[] = {0, whole.bytes / 2, 9, whole.bytes - 1};
        fwrite(whole.data, 1, (size_t)at[n], file);
        if (n > 1) fputc('#', file);
        if (n > 1) fwrite(whole.data + at[n] + 1, 1, (size_t)(whole.bytes - at[n] - 1), file);
        fclose(file);
        ck_assert_int_gt(searches_of_process(), 0);
        ck_assert_int_eq(searches_of_process(), 0);
    }
    lh_buf_clear(&whole);
    remove_kept(folder);
}
END_TEST

START_TEST(test_a_plan_that_is_dropped_is_not_kept)
{
    char folder[64], path[256];
    rig g;
    use_cache(folder);
    searches_of_process();
    simt_cudnn_go(SIMT_CUDNN_WRONG);
    open_prepared(&g);
    run_often(&g, 1, 64, much, LH_ORDER_ANY);
    rig_close(&g);
    find_kept(path, folder);
    ck_assert_str_eq(path, "");
    remove_kept(folder);
}
END_TEST

/* A stream has one. */
START_TEST(test_plans_are_given_up_for_others)
{
    const int searches = simt_cudnn_count().searches;
    rig g;
    rig_open(&g, cuda());
    for (int n = 0; n < 20; n++) {
        lot m = {0};
        attend_case c;
        block_on b;
        plain_case(&m, &c, (attend_size){8 * (n % 10 + 1), 3, 10, {2, 1, 0}, 2});
        put_block(&m, &g, &c, &b);
        try_it(lh_cudnn_attend_block(g.stream, &b.args));
        try_it(lh_stream_sync(g.stream));
        rig_reset(&g);
        lot_end(&m);
    }
    rig_close(&g);
    ck_assert_int_eq(simt_cudnn_count().searches - searches, 20);
    ck_assert_int_eq(simt_cudnn_count().descriptors, 0);
}
END_TEST

/* The emulation's memory begins as NaN, and cuDNN weighs what lies after the last entry with 0. */
START_TEST(test_what_a_new_arena_holds_spoils_no_sum)
{
    const lh_arena_shape shape = {.heads = 2, .head_dim = 64, .type = LH_BF16};
    const int64_t row = 64 * 2;
    lot m = {0};
    attend_case c;
    rig g, ref;
    rig_open(&g, cuda());
    rig_open(&ref, rig_backend(0));
    plain_case(&m, &c, (attend_size){64, 70, 90, {4, 2, 0}, 2});
    const lh_exec x = {.ops = cuda(), .stream = g.stream};
    const lh_ragged *host = &c.kv[0].host;
    const attended want = block_run(&m, &ref, &c);
    lh_arena arena;
    block_on b;
    put_block(&m, &g, &c, &b);
    try_it(lh_arena_init(&arena, &shape, rig_new(&g, 2 * 2 * 8), (lh_arena_form){0}));
    try_it(lh_arena_alloc_even(&arena, &x, longest_head(&c) + 9));
    for (int64_t h = 0; h < shape.heads; h++) {
        const int64_t to = arena.offset[h] * row, from = host->offset[h] * row, bytes = host->len[h] * row;
        arena.len[h] = host->len[h];
        try_it(lh_stream_copy(g.stream, (char *)arena.view.k + to, (char *)host->k + from, bytes, LH_COPY_TO_DEVICE));
        try_it(lh_stream_copy(g.stream, (char *)arena.view.v + to, (char *)host->v + from, bytes, LH_COPY_TO_DEVICE));
    }
    try_it(lh_arena_push_len(&arena, &x));
    b.args.kv = &arena.view;
    try_it(lh_cudnn_attend_block(g.stream, &b.args));
    get_block(&g, &b);
    check_attended(&b.got, &want, near_bf16, "attention over a new arena", 0);
    lh_arena_clear(&arena, g.device);
    lot_end(&m);
    rig_close(&ref);
    rig_close(&g);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_what_it_does_not_take_is_said,
                                  test_it_is_asked_where_that_pays,
                                  test_a_short_prompt_does_not_wait_for_a_plan,
                                  test_a_long_prompt_waits_for_its_plan,
                                  test_a_stream_that_closes_waits_for_the_plan,
                                  test_without_the_library_our_kernel_does_it,
                                  test_a_refusal_is_remembered,
                                  test_one_plan_serves_blocks_of_any_length,
                                  test_every_new_arena_is_compared_once,
                                  test_a_plan_that_fails_is_dropped_and_our_kernel_goes_on,
                                  test_wrong_numbers_are_seen_and_not_given,
                                  test_numbers_that_are_none_are_no_reason_for_distrust,
                                  test_a_plan_is_kept_for_the_next_process,
                                  test_a_kept_plan_that_is_damaged_is_replaced,
                                  test_a_plan_that_is_dropped_is_not_kept,
                                  test_plans_are_given_up_for_others,
                                  test_what_a_new_arena_holds_spoils_no_sum,
                                  NULL};
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1); /* nothing is kept */
    return suite_run("simt/cudnn", tests);
}
