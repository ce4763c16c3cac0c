/* Laws of what comes after the prompt: steps and questions, evictions while decoding, forks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "kv/forecast.h"
#include "kv_oracle.h"

static kv_rig_case base_case(const lh_policy_options *policy)
{
    return (kv_rig_case){.heads = 9,
                         .kv_heads = 3,
                         .dim = 8,
                         .layers = 2,
                         .tokens = 101,
                         .more = 40,
                         .type = LH_BF16,
                         .seed = 5,
                         .question = 13,
                         .policy = *policy};
}

/* Head h of a layer must hold exactly the positions p < seen with keep(p). */
static void check_positions(const lh_positions *k, const uint8_t *keep, int64_t seen, const char *when)
{
    for (int64_t h = 0; h < k->heads; h++) {
        int64_t i = k->offsets[h];
        for (int64_t p = 0; p < seen; p++)
            if (keep[p]) {
                mt_check(i < k->offsets[h + 1] && k->positions[i] == p, "%s: head %lld lacks position %lld", when,
                         (long long)h, (long long)p);
                i++;
            }
        mt_check(i == k->offsets[h + 1], "%s: head %lld holds %lld entries too many", when, (long long)h,
                 (long long)(k->offsets[h + 1] - i));
    }
}

/* One eviction by position, as the definition says: the sinks and the newest entries. */
static void evict_by_hand(uint8_t *keep, int64_t seen, int64_t sinks, int64_t budget)
{
    int64_t held = 0, s = sinks < budget ? sinks : budget;
    for (int64_t p = 0; p < seen; p++) held += keep[p];
    for (int64_t p = s; p < seen && held > budget; p++) held -= keep[p], keep[p] = 0;
}

START_TEST(test_entries_that_are_taken_in_are_kept_and_evicted_by_position)
{
    static const struct {
        lh_policy_options options;
        int64_t sinks, budget, every;
    } cases[] = {
        {{.policy = "streaming", .budget = "30"}, 4, 30, 1},
        {{.policy = "recency", .budget = "30"}, 0, 30, 1},
        {{.policy = "streaming", .budget = "30", .parts = {.evict = "every:7"}}, 4, 30, 7},
        {{.policy = "streaming", .budget = "3", .parts = {.evict = "every:2"}}, 4, 3, 2},
        {{.policy = "recency", .budget = "20%", .parts = {.evict = "every:5"}}, 0, 20, 5}, /* of the prompt */
        {{.policy = "streaming", .budget = "120", .parts = {.evict = "every:3"}}, 4, 120, 3},
        {{.policy = "streaming", .budget = "30", .parts = {.evict = "never"}}, 4, 30, 0},
        {{0}, 0, 1 << 20, 0},
    };
    for (int n = 0; n < 8; n++) {
        kv_rig_case c = base_case(&cases[n].options);
        kv_rig r;
        kv_rig_result got;
        uint8_t keep[256];
        memset(keep, 1, sizeof keep);
        kv_rig_open(&r, &c, mt_comm(), kv_rig_backend(_i));
        kv_rig_prefill(&r, &got);
        evict_by_hand(keep, c.tokens, cases[n].sinks, cases[n].budget);
        if (mt_rank() == 0) check_positions(&got.kept[1], keep, c.tokens, "prefill");
        kv_rig_take(&r, LH_KV_BLOCK, 9);
        int64_t seen = c.tokens + 9;
        if (cases[n].every) evict_by_hand(keep, seen, cases[n].sinks, cases[n].budget);
        for (int64_t step = 1; step <= 50; step++) {
            kv_rig_take(&r, LH_KV_STEP, 1);
            seen++;
            if (cases[n].every && step % cases[n].every == 0)
                evict_by_hand(keep, seen, cases[n].sinks, cases[n].budget);
            mt_check(lh_kv_seen(r.kv) == seen, "%lld tokens seen", (long long)lh_kv_seen(r.kv));
            if (step % 10 == 0) {
                kv_rig_gather(&r, &got);
                if (mt_rank() == 0) check_positions(&got.kept[0], keep, seen, "step");
            }
        }
        mt_check(kv_rig_entries_are_whole(&r), "an entry is not what was appended");
        mt_check(got.stats.evictions == (cases[n].every ? 1 + 50 / cases[n].every : 0), "%lld evictions",
                 (long long)got.stats.evictions);
        kv_rig_result_clear(&got);
        kv_rig_close(&r);
    }
    mt_end();
}
END_TEST

START_TEST(test_decoding_with_evictions_takes_no_more_memory)
{
    static const uint8_t sliding[2] = {1, 0};
    static const lh_policy_options on[] = {
        {.policy = "streaming", .budget = "30"},
        {.policy = "recency", .budget = "25", .parts = {.evict = "every:6"}},
        {.policy = "streaming", .budget = "66"},
        {.policy = "snapkv", .budget = "50", .parts = {.evict = "every:9"}},
        {.policy = "knorm", .budget = "30"},
        {.policy = "keydiff", .budget = "50", .parts = {.evict = "every:1"}},
        {.policy = "tova", .budget = "50", .parts = {.evict = "every:1"}},
        {.policy = "keydiff --layer-budget learnt", .budget = "50", .parts = {.evict = "every:9"}},
        {.policy = "keydiff --layer-budget learnt", .budget = "130", .parts = {.evict = "every:9"}},
        {.policy = "keydiff --layer-budget learnt", .budget = "160", .parts = {.evict = "every:9"}},
        {.policy = "keydiff --refit both", .budget = "50", .parts = {.evict = "every:9"}}};
    enum { POLICIES = sizeof on / sizeof *on };
    for (int n = 0; n < 2 * POLICIES; n++) {
        const int fits = n % POLICIES == POLICIES - 1, divides = !fits && n % POLICIES >= POLICIES - 3;
        kv_rig_case c = base_case(&on[n % POLICIES]);
        kv_rig r;
        kv_rig_result got;
        lh_kv_forecast f;
        c.more = 1000;
        if (n >= POLICIES) c.sliding = sliding, c.window = 40;
        kv_rig_open(&r, &c, mt_comm(), kv_rig_backend(_i));
        lh_kv_shape shape = kv_rig_shape(&r);
        mt_try(lh_kv_forecast_make(
            &f, &shape, &(lh_kv_forecast_request){.policy = &r.plan, .tokens = c.tokens, .more = c.more, .block = 35}));
        kv_rig_prefill(&r, &got);
        lh_device_reset_peak(r.device);
        int64_t held = lh_device_usage(r.device).now[LH_MEM_KV];
        mt_check(held == f.held, "%lld bytes, %lld were forecast", (long long)held, (long long)f.held);
        kv_rig_take(&r, LH_KV_BLOCK, 35);
        for (int step = 0; step < 200; step++) kv_rig_take(&r, LH_KV_STEP, 1);
        lh_mem_usage u = lh_device_usage(r.device);
        mt_check(u.now[LH_MEM_KV] <= held && (divides || u.now[LH_MEM_KV] == held),
                 "the cache went from %lld to %lld bytes", (long long)held, (long long)u.now[LH_MEM_KV]);
        mt_check(fits || kv_rig_entries_are_whole(&r), "an entry is not what was appended");
        lh_kv_close(r.kv);
        r.kv = NULL;
        int64_t scratch = lh_device_usage(r.device).now_total; /* of operations: it stays with the stream */
        mt_check(u.peak_total >= f.decode_peak && u.peak_total <= f.decode_peak + scratch,
                 "case %d: at most %lld bytes, %lld of them scratch; %lld were forecast", n, (long long)u.peak_total,
                 (long long)scratch, (long long)f.decode_peak);
        kv_rig_result_clear(&got);
        kv_rig_close(&r);
    }
    mt_end();
}
END_TEST

START_TEST(test_sliding_layers_hold_what_the_next_row_sees_and_full_ones_all)
{
    static const uint8_t sliding[2] = {0, 1};
    static const lh_policy_options full = {0};
    kv_rig_case c = base_case(&full);
    kv_rig r;
    kv_rig_result got;
    uint8_t keep[256];
    c.sliding = sliding;
    c.window = 24;
    kv_rig_open(&r, &c, mt_comm(), kv_rig_backend(_i));
    kv_rig_prefill(&r, &got);
    for (int step = 0; step < 60; step++) {
        kv_rig_take(&r, step % 20 ? LH_KV_STEP : LH_KV_BLOCK, step % 20 ? 1 : 30);
        int64_t seen = lh_kv_seen(r.kv);
        kv_rig_gather(&r, &got);
        if (mt_rank()) continue;
        memset(keep, 1, sizeof keep);
        check_positions(&got.kept[0], keep, seen, "a layer that does not slide");
        memset(keep, 0, (size_t)(seen - 23));
        check_positions(&got.kept[1], keep, seen, "a sliding layer");
    }
    kv_rig_result_clear(&got);
    kv_rig_close(&r);
    mt_end();
}
END_TEST

/* All slots of this rank: lengths, positions, keys and values, in slot order. */
static lh_buf snapshot(kv_rig *r)
{
    lh_buf b = {0};
    for (int64_t l = 0; l < r->of->layers; l++) {
        const lh_ragged *v = lh_kv_view(r->kv, l);
        int64_t entry = v->head_dim * lh_dtype_bytes(v->type);
        for (int64_t h = 0; h < v->heads; h++) {
            mt_try(lh_buf_append(&b, &v->len[h], sizeof *v->len));
            mt_try(lh_buf_append(&b, (char *)v->k + v->offset[h] * entry, v->len[h] * entry));
            mt_try(lh_buf_append(&b, (char *)v->v + v->offset[h] * entry, v->len[h] * entry));
            if (v->positions) mt_try(lh_buf_append(&b, v->positions + v->offset[h], v->len[h] * 4));
        }
    }
    return b;
}

static void check_same(const lh_buf *a, const lh_buf *b, const char *what)
{
    mt_check(a->bytes == b->bytes && memcmp(a->data, b->data, (size_t)a->bytes) == 0, "%s differ", what);
}

START_TEST(test_a_fork_begins_with_every_slot_of_its_origin)
{
    static const uint8_t sliding[2] = {1, 0};
    static const lh_policy_options on[] = {{0},
                                           {.policy = "streaming", .budget = "30"},
                                           {.policy = "recency", .budget = "40", .parts = {.evict = "every:3"}},
                                           {.policy = "ada-snapkv", .budget = "40"},
                                           {.policy = "streaming", .budget = "105"}};
    for (int n = 0; n < 10; n++) {
        kv_rig_case c = base_case(&on[n % 5]);
        kv_rig r;
        kv_rig_result got;
        c.more = n; /* so that some have to grow */
        if (n >= 5) c.sliding = sliding, c.window = 33;
        kv_rig_open(&r, &c, mt_comm(), kv_rig_backend(_i));
        kv_rig_prefill(&r, &got);
        for (int step = 0; step < 4; step++) kv_rig_take(&r, LH_KV_STEP, 1); /* slots out of order */
        lh_buf origin = snapshot(&r), first = {0};
        kv_rig_fork(&r);
        int64_t seen = lh_kv_seen(r.kv), evictions = kv_rig_evictions(r.kv);
        for (int question = 0; question < 3; question++) {
            kv_rig_take(&r, LH_KV_BLOCK, 11);
            for (int step = 0; step < 20; step++) kv_rig_take(&r, LH_KV_STEP, 1);
            lh_buf now = snapshot(&r);
            if (question)
                check_same(&first, &now, "answers to the same question");
            else
                first = now, now = (lh_buf){0};
            lh_buf_clear(&now);
            kv_rig_fork(&r);
            now = snapshot(&r);
            check_same(&origin, &now, "a cache and a fork of it");
            lh_buf_clear(&now);
            mt_check(lh_kv_seen(r.kv) == seen && kv_rig_evictions(r.kv) == evictions, "the clock went on");
        }
        lh_buf_clear(&origin);
        lh_buf_clear(&first);
        kv_rig_result_clear(&got);
        kv_rig_close(&r);
    }
    mt_end();
}
END_TEST

/* A rank that has no memory for what comes next says so before the others wait for it. */
START_TEST(test_a_rank_without_memory_fails_on_all_ranks)
{
    static const lh_policy_options on[] = {{0},
                                           {.policy = "ada-snapkv", .budget = "40"},
                                           {.policy = "streaming", .budget = "30", .parts = {.positions = "slot"}}};
    for (int n = 0; n < 3; n++) {
        kv_rig_case c = base_case(&on[n]);
        kv_rig r;
        kv_rig_result got;
        kv_rig_open(&r, &c, mt_comm(), kv_rig_backend(_i));
        kv_rig_prefill(&r, &got);
        for (int step = 0; step < 50; step++) kv_rig_take(&r, LH_KV_STEP, 1); /* more than was expected */
        int64_t tokens = mt_rank() == mt_size() - 1 ? INT64_C(1) << 50 : 5;
        mt_expect(lh_kv_reserve(r.kv, tokens), LH_ENOMEM);
        kv_rig_result_clear(&got);
        kv_rig_close(&r);
    }
    mt_end();
}
END_TEST

/* Evictions make room for as many tokens as before them: ranks that know it of each other talk of it once. Uniform
 * heads do; of those that share a budget any may come to hold more. */
START_TEST(test_what_evictions_free_is_reserved)
{
    static const struct {
        lh_policy_options options;
        int once;
    } on[] = {{{.policy = "recency", .budget = "30"}, 1},
              {{.policy = "knorm", .budget = "30", .parts = {.evict = "every:4"}}, 1},
              {{.policy = "knorm", .budget = "30", .parts = {.head_budget = "adaptive"}}, 0}};
    for (int n = 0; n < 3; n++) {
        kv_rig_case c = base_case(&on[n].options);
        kv_rig r;
        kv_rig_result got;
        kv_rig_open(&r, &c, mt_comm(), kv_rig_backend(_i));
        kv_rig_prefill(&r, &got);
        int64_t told = 0, capacity = 0;
        for (int step = 0; step < 24; step++) {
            int64_t before = lh_comm_sent_bytes(r.comm);
            mt_try(lh_kv_reserve(r.kv, 1));
            told += lh_comm_sent_bytes(r.comm) > before;
            kv_rig_take(&r, LH_KV_STEP, 1); /* of what is reserved nobody talks again */
            lh_kv_stats stats = {0};
            mt_try(lh_kv_stats_of(r.kv, &stats));
            int64_t bytes = stats.bytes_capacity;
            if (step == 0) capacity = bytes;
            mt_check(!on[n].once || bytes == capacity, "case %d, step %d: the pools have become larger", n, step);
        }
        if (mt_size() > 1)
            mt_check(on[n].once ? told == 1 : told > 1, "case %d: ranks talked of memory %d times", n, (int)told);
        kv_rig_result_clear(&got);
        kv_rig_close(&r);
    }
    mt_end();
}
END_TEST

/* Ranks do not talk of memory at every token. */
START_TEST(test_what_was_reserved_is_told_once)
{
    kv_rig_case c = base_case(&(lh_policy_options){.policy = "recency", .budget = "30", .parts = {.evict = "never"}});
    kv_rig r;
    kv_rig_result got;
    kv_rig_open(&r, &c, mt_comm(), kv_rig_backend(_i));
    kv_rig_prefill(&r, &got);
    int64_t before = lh_comm_sent_bytes(r.comm);
    for (int64_t step = 0; step < c.more; step++) kv_rig_take(&r, LH_KV_STEP, 1);
    int64_t sent = lh_comm_sent_bytes(r.comm) - before, once = mt_size() > 1 ? 3 * (int64_t)sizeof(int64_t) : 0;
    mt_check(sent == once, "%lld bytes were sent for %lld tokens, not %lld", (long long)sent, (long long)c.more,
             (long long)once);
    kv_rig_result_clear(&got);
    kv_rig_close(&r);
    mt_end();
}
END_TEST

START_TEST(test_a_fork_that_shares_nothing_outlives_its_origin)
{
    kv_rig_case c = base_case(&(lh_policy_options){.policy = "streaming", .budget = "30"});
    kv_rig r;
    kv_rig_result got;
    lh_kv *early = NULL;
    kv_rig_open(&r, &c, mt_comm(), kv_rig_backend(_i));
    mt_expect(lh_kv_fork(&early, r.kv, c.more), LH_EINTERNAL);
    kv_rig_prefill(&r, &got);
    kv_rig_fork(&r);
    for (int step = 0; step < 9; step++) kv_rig_take(&r, LH_KV_STEP, 1);
    mt_try(lh_kv_unshare(r.kv));
    lh_kv_close(r.origin);
    r.origin = NULL;
    lh_buf origin = snapshot(&r);
    kv_rig_fork(&r);
    for (int step = 0; step < 9; step++) kv_rig_take(&r, LH_KV_STEP, 1);
    kv_rig_fork(&r);
    lh_buf back = snapshot(&r);
    check_same(&origin, &back, "the second state and a fork of it");
    lh_buf_clear(&origin);
    lh_buf_clear(&back);
    kv_rig_result_clear(&got);
    kv_rig_close(&r);
    mt_end();
}
END_TEST

START_TEST(test_a_cache_that_is_not_empty_cannot_begin)
{
    kv_rig_case c = base_case(&(lh_policy_options){.policy = "streaming", .budget = "30"});
    kv_rig r;
    kv_rig_result got;
    kv_rig_open(&r, &c, mt_comm(), kv_rig_backend(_i));
    mt_expect(lh_kv_begin(r.kv, 0, 0), LH_EUSAGE);
    mt_expect(lh_kv_begin(r.kv, INT64_C(1) << 31, 0), LH_EUSAGE);
    kv_rig_prefill(&r, &got);
    mt_expect(lh_kv_begin(r.kv, 10, 0), LH_EINTERNAL);
    kv_rig_result_clear(&got);
    kv_rig_close(&r);
    mt_end();
}
END_TEST

START_TEST(test_windows_are_observed_again_over_what_is_held)
{
    static const uint8_t slides[2] = {1, 0};
    static const struct {
        lh_policy_options options;
        int64_t slide;
    } cases[] = {
        {{.policy = "snapkv", .budget = "40", .parts = {.evict = "every:7", .window = "8"}}, 0},
        {{.policy = "snapkv", .budget = "30", .parts = {.evict = "every:3", .window = "8", .pool = "none"}}, 0},
        {{.policy = "snapkv", .budget = "36", .parts = {.evict = "every", .window = "6", .sinks = "3"}}, 0},
        {{.policy = "snapkv",
          .budget = "40",
          .parts = {.evict = "every:5", .group = "max", .own = {{"group-stage", "score"}}}},
         0},
        {{.policy = "snapkv", .budget = "40", .parts = {.evict = "every:4", .rows = "last:50", .window = "4"}}, 0},
        {{.policy = "snapkv", .budget = "125", .parts = {.evict = "every:5", .rows = "last:200"}}, 0},
        {{.policy = "ada-snapkv", .budget = "40", .parts = {.evict = "every:7", .window = "8"}}, 0},
        {{.policy = "ada-snapkv",
          .budget = "30",
          .parts = {.evict = "every:4", .window = "8", .own = {{"alpha", "0"}}}},
         0},
        {{.policy = "ada-snapkv", .budget = "44", .parts = {.evict = "every:6", .own = {{"safeguard", "floor"}}}}, 0},
        {{.policy = "ada-pyramid", .budget = "50", .parts = {.evict = "every:9", .window = "8"}}, 0},
        {{.policy = "pyramidkv", .budget = "110", .parts = {.evict = "every:9", .window = "8"}}, 0},
        {{.policy = "pyramidkv", .budget = "105", .parts = {.evict = "every:40", .window = "8"}}, 0},
        {{.policy = "ada-snapkv", .budget = "20", .parts = {.evict = "every:2", .window = "30"}},
         0}, /* nothing ranked */
        {{.policy = "snapkv", .budget = "24", .parts = {.evict = "every:4", .window = "6"}}, 45},
        {{.policy = "ada-snapkv", .budget = "24", .parts = {.evict = "every:4", .window = "6"}}, 45},
        {{.policy = "tova", .budget = "24", .parts = {.evict = "every:3"}}, 0},
        {{.policy = "nacl", .budget = "44", .parts = {.proxies = "9%", .proxies_at = "both-ends"}}, 0},
        {{.policy = "nacl",
          .budget = "40",
          .parts = {.proxies = "10%", .proxies_at = "both-ends", .evict = "every:4", .own = {{"non-causal", "on"}}}},
         0},
        {{.policy = "nacl",
          .budget = "36",
          .parts = {.proxies = "7%", .proxies_at = "both-ends", .evict = "every:3", .own = {{"non-causal", "on"}}}},
         45},
        {{.policy = "nacl", .budget = "60", .parts = {.proxies = "question"}}, 0},
        {{.policy = "roco",
          .budget = "48",
          .parts = {.proxies = "12%", .proxies_at = "both-ends", .evict = "every:2", .own = {{"non-causal", "on"}}}},
         0},
        {{.policy = "ada-snapkv",
          .budget = "40",
          .parts = {.proxies = "10%", .proxies_at = "both-ends", .evict = "every:5", .own = {{"non-causal", "on"}}}},
         0},
        /* the first stage takes a share of each layer's own budget */
        {{.policy = "roco", .budget = "48", .parts = {.layer_budget = "pyramid", .evict = "every:2"}}, 0},
        {{.policy = "roco", .budget = "48", .parts = {.layer_budget = "learnt", .evict = "every:2"}}, 0},
        {{.policy = "snapkv",
          .budget = "100",
          .parts = {.layer_budget = "learnt", .evict = "every:9", .window = "8", .sinks = "3"}},
         0}, /* layers with most of the entries outgrow the prompt */
    };
    static const struct {
        int64_t heads, kv_heads;
    } shape[] = {{9, 3}, {8, 2}, {4, 1}, {5, 5}};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        kv_rig_case c = base_case(&cases[n].options);
        kv_rig r;
        kv_rig_result got;
        oracle o;
        c.heads = shape[n % 4].heads;
        c.kv_heads = shape[n % 4].kv_heads;
        c.type = LH_F32;
        c.seed = 40 + n;
        if (cases[n].slide) c.sliding = slides, c.window = cases[n].slide;
        kv_rig_open(&r, &c, mt_comm(), kv_rig_backend(_i));
        kv_rig_prefill(&r, &got);
        oracle_open(&o, &c, c.tokens + 60, NULL);
        for (int step = 0; step < 31; step++) {
            lh_kv_taken what = step == 11 ? LH_KV_BLOCK : LH_KV_STEP;
            if (step == 9) kv_rig_fork(&r), kv_rig_take(&r, LH_KV_BLOCK, 20), kv_rig_fork(&r);
            kv_rig_take(&r, what, what == LH_KV_BLOCK ? 13 : 1);
            if (mt_rank() == 0) oracle_take(&o, what, what == LH_KV_BLOCK ? 13 : 1);
            kv_rig_gather(&r, &got);
            for (int64_t l = 0; l < c.layers && mt_rank() == 0; l++) oracle_check(&o, l, &got.kept[l], r.plan.name);
        }
        mt_check(kv_rig_entries_are_whole(&r), "an entry is not what was appended");
        oracle_close(&o);
        kv_rig_result_clear(&got);
        kv_rig_close(&r);
    }
    mt_end();
}
END_TEST

/* Entries that attention reads: keys, values and biases of a head. */
typedef struct entries {
    double k[256][8], v[256][8], bias[256];
    int64_t n;
} entries;

static void attend(const entries *e, const double *q, double scale, double *out)
{
    double weights[256], sum = 0;
    for (int64_t s = 0; s < e->n; s++) {
        double logit = e->bias[s];
        for (int i = 0; i < 8; i++) logit += scale * q[i] * e->k[s][i];
        sum += weights[s] = exp(logit);
    }
    for (int i = 0; i < 8; i++) out[i] = 0;
    for (int64_t s = 0; s < e->n; s++)
        for (int i = 0; i < 8; i++) out[i] += weights[s] / sum * e->v[s][i];
}

static void all_entries(const kv_rig *r, int64_t layer, int64_t h, entries *e)
{
    *e = (entries){.n = lh_kv_seen(r->kv)};
    for (int64_t p = 0; p < e->n; p++)
        for (int i = 0; i < 8; i++) {
            e->k[p][i] = (double)kv_rig_element(r->of, 'k', layer, p, r->heads.kv_first + h, i);
            e->v[p][i] = (double)kv_rig_element(r->of, 'v', layer, p, r->heads.kv_first + h, i);
        }
}

static void kept_entries(const kv_rig *r, int64_t layer, int64_t h, entries *e)
{
    const lh_ragged *view = lh_kv_view(r->kv, layer);
    const int64_t size = lh_dtype_bytes(view->type);
    *e = (entries){.n = view->len[h]};
    for (int64_t n = 0; n < e->n; n++) {
        const int64_t s = view->offset[h] + n;
        e->bias[n] = view->bias ? (double)view->bias[s] : 0;
        for (int i = 0; i < 8; i++) {
            float k, v;
            lh_dtype_convert(&k, LH_F32, (char *)view->k + (s * 8 + i) * size, view->type, 1);
            lh_dtype_convert(&v, LH_F32, (char *)view->v + (s * 8 + i) * size, view->type, 1);
            e->k[n][i] = (double)k;
            e->v[n][i] = (double)v;
        }
    }
}

/* A query of the distribution that the weights give, at a position after the tokens seen. */
static void draw_query(const kv_rig *r, int64_t layer, int64_t h, int64_t m, double *q)
{
    const kv_rig_case *c = r->of;
    const int64_t half = kv_rig_half(c), numbers = lh_feature_count(8), g = r->heads.kv_first + h;
    float z[8];
    double x[8];
    lh_normals(z, 77, (uint64_t)(layer * 8 + g), m * 8, 8);
    for (int i = 0; i < 8; i++)
        q[i] = x[i] = (double)kv_rig_score_weight(c, layer, g, numbers + i) +
                      (double)(kv_rig_score_weight(c, layer, g, numbers + 8 + i) * z[i]);
    for (int64_t i = 0; i < half; i++) {
        const double angle = (double)(lh_kv_seen(r->kv) + m) * (double)kv_rig_frequency_of(c, layer, i);
        q[i] = x[i] * cos(angle) - x[i + half] * sin(angle);
        q[i + half] = x[i + half] * cos(angle) + x[i] * sin(angle);
    }
}

/* Squared distance of the outputs of fresh queries over the cache from those over all tokens, over this rank's heads.
 */
static double distance(const kv_rig *r)
{
    double sum = 0;
    for (int64_t l = 0; l < r->of->layers; l++)
        for (int64_t h = 0; h < r->heads.kv_count; h++) {
            entries all, kept;
            all_entries(r, l, h, &all);
            kept_entries(r, l, h, &kept);
            for (int64_t m = 0; m < 100; m++) {
                double q[8], want[8], got[8];
                draw_query(r, l, h, m, q);
                attend(&all, q, kv_rig_scale(r->of), want);
                attend(&kept, q, kv_rig_scale(r->of), got);
                for (int i = 0; i < 8; i++) sum += (want[i] - got[i]) * (want[i] - got[i]);
            }
        }
    return sum;
}

START_TEST(test_refits_bring_queries_nearer_that_were_not_drawn)
{
    static const char *const policies[] = {"keydiff", "keydiff --refit values", "keydiff --refit both",
                                           "keydiff --refit both --head-budget adaptive"};
    enum { POLICIES = sizeof policies / sizeof *policies };
    for (int type = 0; type < 2; type++) {
        double off[POLICIES];
        for (int n = 0; n < POLICIES; n++) {
            kv_rig_case c =
                base_case(&(lh_policy_options){.policy = policies[n], .budget = "30", .parts = {.evict = "every:8"}});
            kv_rig r;
            kv_rig_result got;
            c.type = type ? LH_BF16 : LH_F32;
            kv_rig_open(&r, &c, mt_comm(), kv_rig_backend(_i));
            kv_rig_prefill(&r, &got);
            for (int step = 0; step < 24; step++) kv_rig_take(&r, LH_KV_STEP, 1);
            mt_check(kv_rig_evictions(r.kv) == 3, "%lld evictions", (long long)kv_rig_evictions(r.kv));
            off[n] = distance(&r);
            kv_rig_result_clear(&got);
            kv_rig_close(&r);
        }
        for (int n = 1; n < POLICIES; n++)
            mt_check(off[n] < 0.6 * off[0], "%s, '%s': %g, unfitted %g", type ? "bf16" : "f32", policies[n], off[n],
                     off[0]);
    }
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("decode");
    TCase *laws = tcase_create("laws");
    tcase_set_timeout(laws, 0);
    tcase_add_loop_test(laws, test_entries_that_are_taken_in_are_kept_and_evicted_by_position, 0, kv_rig_backends());
    tcase_add_loop_test(laws, test_decoding_with_evictions_takes_no_more_memory, 0, kv_rig_backends());
    tcase_add_loop_test(laws, test_sliding_layers_hold_what_the_next_row_sees_and_full_ones_all, 0, kv_rig_backends());
    tcase_add_loop_test(laws, test_a_fork_begins_with_every_slot_of_its_origin, 0, kv_rig_backends());
    tcase_add_loop_test(laws, test_windows_are_observed_again_over_what_is_held, 0, kv_rig_backends());
    tcase_add_loop_test(laws, test_refits_bring_queries_nearer_that_were_not_drawn, 0, kv_rig_backends());
    tcase_add_loop_test(laws, test_a_rank_without_memory_fails_on_all_ranks, 0, kv_rig_backends());
    tcase_add_loop_test(laws, test_what_was_reserved_is_told_once, 0, kv_rig_backends());
    tcase_add_loop_test(laws, test_what_evictions_free_is_reserved, 0, kv_rig_backends());
    tcase_add_loop_test(laws, test_a_fork_that_shares_nothing_outlives_its_origin, 0, kv_rig_backends());
    tcase_add_loop_test(laws, test_a_cache_that_is_not_empty_cannot_begin, 0, kv_rig_backends());
    suite_add_tcase(suite, laws);
    return mt_run(suite);
}
