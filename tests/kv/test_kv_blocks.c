/* Laws of `--evict block:n`: a layer never holds more than its budget while a prompt is taken in, and what stays at the
 * end is known where positions score. On any number of ranks. */
#include <string.h>

#include "base/mem.h"
#include "evict/evict.h"
#include "kv/forecast.h"
#include "kv_rig.h"
#include "policy_parts.h"

static const struct {
    int64_t heads, kv_heads;
} shapes[] = {{9, 3}, {5, 5}, {8, 2}, {4, 1}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Entries of a head after the prompt. */
static int64_t left(int64_t tokens, int64_t budget, int64_t block)
{
    return tokens <= budget ? tokens : budget - block + (tokens - budget - 1) % block + 1;
}

static kv_rig_case block_case(int shape, const char *policy, const char *block)
{
    return (kv_rig_case){.heads = shapes[shape].heads,
                         .kv_heads = shapes[shape].kv_heads,
                         .dim = 8,
                         .layers = 2,
                         .tokens = 103,
                         .more = 2,
                         .type = LH_F32,
                         .seed = 17,
                         .policy = {.policy = policy, .budget = "32", .parts = {.evict = block}}};
}

START_TEST(test_sinks_and_the_last_tokens_stay)
{
    static const char *const blocks[] = {"block:1", "block:7", "block:16", "block:31"};
    static const int64_t sizes[] = {1, 7, 16, 31};
    for (int b = 0; b < 4; b++)
        for (int sinks = 0; sinks <= 4; sinks += 4) {
            kv_rig_case c = block_case(_i, sinks ? "streaming" : "recency", blocks[b]);
            /* four sinks and a block that leaves less room than them: the sinks stay, and nothing else */
            if (sinks && 32 - sizes[b] < sinks) continue;
            kv_rig r;
            kv_rig_result got = {0};
            kv_rig_open(&r, &c, mt_comm(), &lh_ops_cpu);
            kv_rig_prefill(&r, &got);
            kv_rig_gather(&r, &got);
            int64_t n = left(c.tokens, 32, sizes[b]);
            for (int64_t l = 0; l < c.layers && mt_rank() == 0; l++)
                for (int64_t g = 0; g < c.kv_heads; g++) {
                    const lh_positions *kept = &got.kept[l];
                    mt_check(kept->offsets[g + 1] - kept->offsets[g] == n, "%s: %lld entries are not %lld", blocks[b],
                             (long long)(kept->offsets[g + 1] - kept->offsets[g]), (long long)n);
                    for (int64_t i = 0; i < n; i++) {
                        int64_t want = i < sinks ? i : c.tokens - n + i, p = kept->positions[kept->offsets[g] + i];
                        mt_check(p == want, "%s: entry %lld is at %lld, not %lld", blocks[b], (long long)i,
                                 (long long)p, (long long)want);
                    }
                }
            kv_rig_result_clear(&got);
            kv_rig_close(&r);
        }
    mt_end();
}
END_TEST

START_TEST(test_no_layer_ever_holds_more_than_its_budget)
{
    for (int p = 0; lh_policy_at(p); p++) {
        const lh_policy_preset *preset = lh_policy_at(p);
        lh_policy plan;
        kv_rig_case c = block_case(_i, preset->name, "block:8");
        if (!preset->parts || lh_policy_resolve(&plan, &c.policy) != LH_OK) continue; /* they refuse blocks */
        kv_rig r;
        kv_rig_result got = {0};
        kv_rig_open(&r, &c, mt_comm(), &lh_ops_cpu);
        kv_rig_prefill(&r, &got);
        kv_rig_gather(&r, &got);
        int64_t n = left(c.tokens, 32, 8), entries = 0;
        for (int64_t l = 0; l < c.layers; l++) entries += lh_kv_view(r.kv, l)->heads * n;
        int adaptive = r.plan.budgets.heads == LH_HEADS_ADAPTIVE;
        mt_check(adaptive || got.stats.entries_held == entries, "%s: %lld entries are held, not %lld", preset->name,
                 (long long)got.stats.entries_held, (long long)entries);
        /* slots never shrink in a prompt: those of uniform heads tell the most that there ever was */
        int64_t slot = 2 * c.dim * (int64_t)sizeof(float) + (int64_t)sizeof(int32_t) + 4 * (int64_t)sizeof(float);
        int64_t most = c.layers * r.heads.kv_count * (32 + c.more) * slot;
        lh_policy_numbers fixed = lh_policy_fix(&r.plan, c.tokens);
        int64_t ring = lh_ring_row_count(&fixed) * c.layers * r.heads.q_count * c.dim * (int64_t)sizeof(float);
        mt_check(adaptive || got.stats.bytes_capacity <= most + ring, "%s: %lld bytes are more than %lld", preset->name,
                 (long long)got.stats.bytes_capacity, (long long)(most + ring));
        mt_check(kv_rig_entries_are_whole(&r), "%s: an entry is not the one of its position", preset->name);
        kv_rig_result_clear(&got);
        kv_rig_close(&r);
    }
    mt_end();
}
END_TEST

/* The first proxies are observed again before every block, with a cut that does not depend on who holds which head. */
START_TEST(test_proxies_at_both_ends_stay_through_all_blocks)
{
    static const char *const switches[] = {"off", "on"};
    for (int n = 0; n < 2; n++) {
        kv_rig_case c = block_case(_i, "nacl", "block:8");
        kv_rig r, one;
        kv_rig_result got = {0}, alone = {0};
        lh_comm *self = NULL;
        c.policy.parts.proxies = "20%"; /* 8 of 32 entries: a quarter */
        c.policy.parts.proxies_at = "both-ends";
        part_set(&c.policy.parts, "non-causal", switches[n]);
        mt_try(lh_comm_open_self(&self));
        kv_rig_open(&r, &c, mt_comm(), &lh_ops_ref);
        kv_rig_open(&one, &c, self, &lh_ops_ref);
        kv_rig_prefill(&r, &got);
        kv_rig_prefill(&one, &alone);
        for (int64_t l = 0; l < c.layers && mt_rank() == 0; l++)
            for (int64_t g = 0; g < c.kv_heads; g++) {
                const lh_positions *kept = &got.kept[l], *same = &alone.kept[l];
                int64_t from = kept->offsets[g], end = kept->offsets[g + 1];
                mt_check(end == same->offsets[g + 1], "%d ranks keep other entries than one", mt_size());
                for (int64_t i = from; i < end; i++) {
                    mt_check(kept->positions[i] == same->positions[i], "%d ranks differ from one", mt_size());
                    if (i - from < 4) mt_check(kept->positions[i] == i - from, "a first proxy is gone");
                    if (end - i <= 4) mt_check(kept->positions[i] == c.tokens - end + i, "a last proxy is gone");
                }
            }
        kv_rig_result_clear(&got);
        kv_rig_result_clear(&alone);
        kv_rig_close(&r);
        kv_rig_close(&one);
        lh_comm_close(self);
    }
    mt_end();
}
END_TEST

/* With 20 tokens the prompt fits the budget, and there are no blocks; window 0: no layer slides. */
START_TEST(test_blocks_take_the_memory_that_was_forecast)
{
    static const char *const names[] = {"snapkv", "tova", "critical-snapkv", "streaming", "h2o", "roco"};
    static const uint8_t sliding[] = {1, 0};
    static const int64_t tokens[] = {103, 20}, windows[] = {0, 8, 20, 24, 32, 60};
    enum { NAMES = sizeof names / sizeof *names, WINDOWS = sizeof windows / sizeof *windows };
    for (int n = 0; n < NAMES * 2 * WINDOWS; n++) {
        const int64_t window = windows[n % WINDOWS];
        kv_rig_case c = block_case(_i, names[n / WINDOWS / 2], "block:8");
        kv_rig r;
        kv_rig_result got = {0};
        lh_kv_forecast f;
        c.tokens = tokens[n / WINDOWS % 2];
        c.window = window;
        c.sliding = window ? sliding : NULL;
        kv_rig_open(&r, &c, mt_comm(), &lh_ops_ref);
        lh_kv_shape shape = kv_rig_shape(&r);
        mt_try(lh_kv_forecast_make(&f, &shape,
                                   &(lh_kv_forecast_request){.policy = &r.plan, .tokens = c.tokens, .more = c.more}));
        kv_rig_prefill(&r, &got);
        lh_mem_usage u = lh_device_usage(r.device);
        int64_t peak = kv_rig_peak(&r);
        mt_check(u.now[LH_MEM_KV] == f.held, "%s, %lld tokens, window %lld: %lld bytes are held, %lld were forecast",
                 r.plan.name, (long long)c.tokens, (long long)window, (long long)u.now[LH_MEM_KV], (long long)f.held);
        mt_check(peak <= f.prefill_peak, "%s, %lld tokens, window %lld: the peak is %lld bytes, %lld were forecast",
                 r.plan.name, (long long)c.tokens, (long long)window, (long long)peak, (long long)f.prefill_peak);
        kv_rig_result_clear(&got);
        kv_rig_close(&r);
    }
    mt_end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("blocks");
    TCase *laws = tcase_create("laws");
    tcase_add_loop_test(laws, test_sinks_and_the_last_tokens_stay, 0, SHAPES);
    tcase_add_loop_test(laws, test_proxies_at_both_ends_stay_through_all_blocks, 0, SHAPES);
    tcase_add_loop_test(laws, test_blocks_take_the_memory_that_was_forecast, 0, SHAPES);
    tcase_add_loop_test(laws, test_no_layer_ever_holds_more_than_its_budget, 0, SHAPES);
    suite_add_tcase(s, laws);
    return mt_run(s);
}
