/* The whole-number arithmetic of budgets, against the definitions done step by step. */
#include <stdlib.h>
#include <string.h>

#include "base/minmax.h"
#include "policies/budgets.h"
#include "policy_parts.h"
#include "suite.h"

static lh_policy plan_of(const char *policy, const char *budget, const lh_policy_parts *parts)
{
    lh_policy plan;
    lh_policy_options o = {.policy = policy, .budget = budget};
    if (parts) o.parts = *parts;
    ck_assert_msg(lh_policy_resolve(&plan, &o) == LH_OK, "%s", lh_error_message());
    return plan;
}

static const char *text_of(char *text, size_t bytes, int64_t n)
{
    snprintf(text, bytes, "%lld", (long long)n);
    return text;
}

/* ---- shares ---- */

START_TEST(test_shares_are_floors_of_the_written_decimal)
{
    static const struct {
        const char *share;
        int64_t digits, scale;
    } shares[] = {{"29%", 29, 0},   {"0.1%", 1, 1},       {"33.3%", 333, 1},
                  {"100%", 100, 0}, {"0.007%", 7, 3},     {"14.285714285714285%", INT64_C(14285714285714285), 15},
                  {"57%", 57, 0},   {"99.999%", 99999, 3}};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        lh_policy plan = plan_of("snapkv", shares[i].share, NULL);
        __int128 ten = 100;
        for (int64_t s = 0; s < shares[i].scale; s++) ten *= 10;
        for (int64_t n = 1; n < 20000000000; n = n * 3 / 2 + 1) {
            int64_t got = lh_policy_entries(&plan, n);
            __int128 exact = (__int128)n * shares[i].digits; /* over ten */
            if (got == 1 && exact < ten) continue;           /* never less than one entry */
            ck_assert(got * ten <= exact && exact < (got + 1) * ten);
        }
    }
    /* floating point gives 28 and 57 - 1 here */
    ck_assert_int_eq(lh_policy_entries(&(lh_policy){.evicts = 1, .budget = {.percent = {29, 0}}}, 100), 29);
    ck_assert_int_eq(lh_decimal_of((lh_decimal){.digits = 57, .scale = 2}, 100), 57);
    ck_assert_int_eq(lh_percent_of((lh_decimal){.digits = 100, .scale = 0}, INT64_C(1) << 61), INT64_C(1) << 61);
}
END_TEST

/* ---- bytes ---- */

START_TEST(test_a_budget_in_bytes_is_the_most_entries_that_fit)
{
    const lh_cache_size even = {.layers = 30, .kv_heads = 3, .entry_bytes = 256};
    const int64_t one = even.layers * even.kv_heads * even.entry_bytes;
    static const char *const texts[] = {"23040B", "1M", "12.5M", "2G", "1GB"};
    static const int64_t bytes[] = {23040, 1 << 20, 13107200, INT64_C(2) << 30, 1000000000};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        lh_policy plan = plan_of("snapkv", texts[i], NULL), entries;
        char number[32];
        ck_assert_int_eq(plan.budget_bytes, bytes[i]);
        ck_assert_int_eq(lh_policy_size(&plan, &even), LH_OK);
        ck_assert(plan.budget.n * one <= bytes[i] && (plan.budget.n + 1) * one > bytes[i]);
        snprintf(number, sizeof number, "%lld", (long long)plan.budget.n);
        entries = plan_of("snapkv", number, NULL);
        ck_assert_msg(memcmp(&plan, &entries, sizeof plan) == 0, "afterwards it is a budget of entries");
        ck_assert_int_eq(lh_policy_size(&plan, &even), LH_OK);
        ck_assert_int_eq(lh_policy_entries(&plan, 7), entries.budget.n);
    }
}
END_TEST

START_TEST(test_layers_that_hold_their_window_leave_bytes_to_the_others)
{
    static const uint8_t sliding[6] = {1, 1, 1, 1, 1, 0}, all[6] = {1, 1, 1, 1, 1, 1};
    lh_cache_size cache = {.layers = 6, .kv_heads = 2, .entry_bytes = 64, .window = 100, .sliding = sliding};
    for (int64_t entries = 6; entries < 3000; entries += 7) { /* of a KV head, over all layers */
        lh_policy plan = {.evicts = 1, .budget_bytes = entries * 2 * 64 + 63};
        int64_t held = 0, more = 0;
        ck_assert_int_eq(lh_policy_size(&plan, &cache), LH_OK);
        for (int l = 0; l < 6; l++) {
            held += sliding[l] && plan.budget.n > 100 ? 100 : plan.budget.n;
            more += sliding[l] && plan.budget.n >= 100 ? 100 : plan.budget.n + 1;
        }
        ck_assert_msg(held <= entries && more > entries, "%lld entries hold %lld of %lld", (long long)plan.budget.n,
                      (long long)held, (long long)entries);
    }
    cache.sliding = all;
    lh_policy plan = {.evicts = 1, .budget_bytes = INT64_C(1) << 20};
    ck_assert_int_eq(lh_policy_size(&plan, &cache), LH_OK);
    ck_assert_int_ge(plan.budget.n, cache.window);
}
END_TEST

START_TEST(test_bytes_of_less_than_an_entry_a_head_are_refused)
{
    const lh_cache_size cache = {.layers = 30, .kv_heads = 3, .entry_bytes = 256};
    lh_policy plan = plan_of("snapkv", "22K", NULL);
    ck_assert_int_eq(lh_policy_size(&plan, &cache), LH_EUSAGE);
    ck_assert_msg(strstr(lh_error_message(), "'--budget 22K'") && strstr(lh_error_message(), "give 23040B or more"),
                  "%s", lh_error_message());
    lh_error_clear();
    plan = plan_of("h2o", "3M", &(lh_policy_parts){.evict = "block:200"}); /* 136 entries */
    ck_assert_int_eq(lh_policy_size(&plan, &cache), LH_EUSAGE);
    ck_assert_msg(strstr(lh_error_message(), "smaller than the budget of 136 entries"), "%s", lh_error_message());
    lh_error_clear();
}
END_TEST

/* ---- protection ---- */

START_TEST(test_protected_and_competing_entries_make_up_the_budget)
{
    for (int64_t sinks = 0; sinks < 6; sinks++)
        for (int64_t recents = 0; recents < 6; recents++)
            for (int64_t window = 0; window < 6; window += 2)
                for (int64_t budget = 1; budget < 12; budget++)
                    for (int64_t from = 0; from < 9; from++) {
                        const int64_t seen = 9;
                        lh_policy_numbers fixed = {.evicts = 1, .sinks = sinks, .recents = recents, .window = window};
                        lh_protection p = lh_policy_protect(
                            &fixed, &(lh_protect_request){.budget = budget, .seen = seen, .visible_from = from});
                        /* entry by entry: sinks in the budget that can be seen come first, then the newest */
                        int64_t room = budget < seen - from ? budget : seen - from, s = 0, r = 0;
                        int64_t most_recent = recents > window ? recents : window;
                        ck_assert_int_eq(p.budget, room);
                        for (int64_t pos = from; pos < sinks && pos < seen && pos < budget; pos++) s++;
                        while (r < most_recent && s + r < room) r++;
                        ck_assert_int_eq(p.sinks, s);
                        ck_assert_int_eq(p.recents, r);
                        ck_assert_int_eq(p.base, room - s - r);
                    }
}
END_TEST

/* The positions of one head through a prompt in blocks or whole, and through steps. What an eviction drops of those
 * that compete, the oldest or the newest, is the caller's. */
typedef struct course {
    lh_policy_numbers fixed;
    int64_t budget, sight, prompt;
    int oldest_go;
} course;

/* Keeps the protected entries and `base` of the others: as many as the budget says, of those there are. */
static void evict_by_protection(const course *c, int64_t seen, uint8_t *held)
{
    int64_t from = seen < c->sight ? 0 : seen - c->sight + 1, sure = 0, others = 0;
    lh_protect_request q = {
        .budget = c->budget, .seen = seen, .visible_from = from, .block = seen < c->prompt ? c->fixed.block : 0};
    lh_protection p = lh_policy_protect(&c->fixed, &q);
    for (int64_t pos = from; pos < seen; pos++)
        *(pos < from + p.sinks || pos >= seen - p.recents ? &sure : &others) += held[pos];
    ck_assert_int_eq(sure + lh_min_i64(p.base, others), lh_min_i64(p.budget, sure + others));
    for (int64_t i = from; i < seen && others > p.base; i++) {
        int64_t pos = c->oldest_go ? i : seen - 1 - (i - from);
        if (!held[pos] || pos < from + p.sinks || pos >= seen - p.recents) continue;
        held[pos] = 0;
        others--;
    }
}

static void run_course(const course *c)
{
    enum { SEEN = 40 };
    uint8_t held[SEEN] = {0};
    int64_t next = c->fixed.block ? c->budget : c->prompt;
    for (int64_t seen = 1; seen < SEEN; seen++) {
        held[seen - 1] = 1;
        if (seen < next) continue;
        evict_by_protection(c, seen, held);
        next = seen + c->fixed.block < c->prompt ? seen + c->fixed.block : lh_max_i64(seen, c->prompt) + 1;
    }
}

/* No place in the budget is kept for sinks that are gone. */
START_TEST(test_evictions_leave_what_the_budget_says)
{
    for (int64_t sinks = 0; sinks < 7; sinks++)
        for (int64_t recents = 0; recents < 9; recents++)
            for (int64_t budget = 1; budget < 9; budget++)
                for (int64_t block = 0; block < budget; block++)
                    for (int64_t sight = budget + 1; sight < 20; sight++)
                        run_course(&(course){
                            .fixed = {.evicts = 1, .sinks = sinks, .recents = recents, .block = block},
                            .budget = budget,
                            .sight = sight,
                            .prompt = 11 + (sinks + recents) % 5,
                            .oldest_go = (int)(sinks + budget + block) % 2,
                        });
}
END_TEST

/* ---- layers ---- */

/* PyramidKV as policies of this kind define it, with fractions over `den` and one entry at a time. */
static void pyramid_by_hand(const lh_policy_numbers *fixed, const lh_layers_request *q, int64_t *out)
{
    int64_t C = fixed->budget, w = fixed->window, N = q->layers, base = C - w, missing = N * base;
    int64_t m = base, M = 2 * base * part_number(&fixed->methods, "beta") - base; /* over beta */
    if (M > (q->seen - w) * part_number(&fixed->methods, "beta"))
        M = (q->seen - w) * part_number(&fixed->methods, "beta"),
        m = 2 * base * part_number(&fixed->methods, "beta") - M;
    int64_t most[64];
    for (int64_t l = 0; l < N; l++) {
        int64_t x = 0, held = q->sliding && q->sliding[l] && q->window < q->seen ? q->window : q->seen;
        while ((x + 1) * part_number(&fixed->methods, "beta") * (N - 1) <= M * (N - 1) - l * (M - m)) x++;
        if (x + w < 1) x = 1; /* at least one entry is always kept */
        most[l] = held;
        out[l] = x + w < held ? x + w : held;
        missing -= out[l] - w;
    }
    for (int64_t l = 0, idle = 0; missing > 0 && idle < N; l = (l + 1) % N) {
        idle++;
        if (out[l] >= most[l]) continue;
        out[l]++, missing--, idle = 0;
    }
}

static void check_layers(int64_t N, int64_t C, int64_t seen, const lh_policy_parts *parts, int64_t slide)
{
    char budget[32];
    uint8_t sliding[64] = {0};
    int64_t got[64], want[64], sum = 0, room = 0;
    lh_policy plan = plan_of("pyramidkv", text_of(budget, sizeof budget, C), parts);
    for (int64_t l = 0; l < N; l++) sliding[l] = slide && l % 3 != 2;
    lh_layers_request q = {.layers = N, .seen = seen, .window = slide, .sliding = slide ? sliding : NULL};
    lh_policy_numbers fixed = lh_policy_fix(&plan, seen);
    lh_policy_layers(&fixed, &q, got);
    for (int64_t l = 0; l < N; l++) {
        int64_t held = sliding[l] && slide < seen ? slide : seen;
        sum += got[l];
        room += held;
        ck_assert_int_ge(got[l], 1);
        if (C < seen) ck_assert_int_le(got[l], held);
    }
    if (C >= seen || C <= fixed.window || N == 1) {
        for (int64_t l = 0; l < N; l++) ck_assert_int_eq(got[l], sliding[l] && slide < C ? slide : C);
        return;
    }
    pyramid_by_hand(&fixed, &q, want);
    for (int64_t l = 0; l < N; l++)
        ck_assert_msg(got[l] == want[l], "layer %lld of %lld, C %lld, L %lld: %lld, by hand %lld", (long long)l,
                      (long long)N, (long long)C, (long long)seen, (long long)got[l], (long long)want[l]);
    ck_assert_int_eq(sum, N * C < room ? N * C : room);
    for (int64_t l = 1; l < N && !slide; l++) ck_assert_int_ge(got[l - 1], got[l]);
}

START_TEST(test_pyramids_are_exact_and_sum_to_the_budget)
{
    static const char *const betas[] = {"1", "2", "7", "20", "1000"}, *const windows[] = {"0", "1", "4", "32"};
    for (int b = 0; b < 5; b++)
        for (int w = 0; w < 4; w++)
            for (int64_t N = 1; N < 32; N += N < 6 ? 1 : 5)
                for (int64_t C = 1; C < 140; C += C < 10 ? 1 : 13)
                    for (int64_t seen = 40; seen < 260; seen += 53) {
                        lh_policy_parts parts = {
                            .window = windows[w], .rows = "last:9", .statistic = "sum", .own = {{"beta", betas[b]}}};
                        check_layers(N, C, seen, &parts, 0);
                        check_layers(N, C, seen, &parts, 24);
                    }
}
END_TEST

START_TEST(test_pyramids_of_long_prompts_do_not_overflow)
{
    int64_t budgets[126], sum = 0;
    lh_policy plan = plan_of("pyramidkv", "1000000000", &(lh_policy_parts){.own = {{"beta", "1000000000"}}});
    lh_policy_numbers fixed = lh_policy_fix(&plan, INT64_C(2000000000));
    lh_policy_layers(&fixed, &(lh_layers_request){.layers = 126, .seen = INT64_C(2000000000)}, budgets);
    for (int l = 0; l < 126; l++) sum += budgets[l];
    ck_assert_int_eq(sum, INT64_C(126000000000));
}
END_TEST

START_TEST(test_uniform_layers_take_what_they_can_hold)
{
    uint8_t sliding[3] = {0, 1, 1};
    int64_t got[3];
    lh_policy plan = plan_of("snapkv", "100", NULL);
    lh_layers_request q = {.layers = 3, .seen = 500, .window = 64, .sliding = sliding};
    lh_policy_numbers fixed = lh_policy_fix(&plan, 500);
    lh_policy_layers(&fixed, &q, got);
    ck_assert(got[0] == 100 && got[1] == 64 && got[2] == 64);
    plan = plan_of(NULL, NULL, NULL);
    fixed = lh_policy_fix(&plan, 500);
    lh_policy_layers(&fixed, &q, got);
    ck_assert(got[0] == 500 && got[1] == 64 && got[2] == 64);
}
END_TEST

/* ---- heads ---- */

START_TEST(test_safeguards_mix_or_give_first)
{
    for (int64_t base = 0; base < 300; base++) {
        lh_protection p = {.budget = base + 9, .recents = 9, .base = base};
        lh_policy_parts parts = {.own = {{"alpha", "0.57"}}};
        lh_policy plan = plan_of("ada-snapkv", "64", &parts);
        lh_policy_numbers fixed = lh_policy_fix(&plan, 1000);
        lh_safety s = lh_policy_safety(&fixed, &p);
        ck_assert_int_eq(s.bonus, base * 57 / 100);
        ck_assert(s.floor == 0 && s.share.num == 43 && s.share.den == 100);
        part_set(&parts, "safeguard", "floor");
        plan = plan_of("ada-snapkv", "64", &parts);
        fixed = lh_policy_fix(&plan, 1000);
        s = lh_policy_safety(&fixed, &p);
        ck_assert_int_eq(s.floor, base * 57 / 100);
        ck_assert(s.bonus == 0 && s.share.num == s.share.den);
    }
}
END_TEST

int main(void)
{
    return suite_run(
        "budgets",
        (const TTest *const[]){
            test_shares_are_floors_of_the_written_decimal, test_a_budget_in_bytes_is_the_most_entries_that_fit,
            test_layers_that_hold_their_window_leave_bytes_to_the_others,
            test_bytes_of_less_than_an_entry_a_head_are_refused,
            test_protected_and_competing_entries_make_up_the_budget, test_evictions_leave_what_the_budget_says,
            test_pyramids_are_exact_and_sum_to_the_budget, test_pyramids_of_long_prompts_do_not_overflow,
            test_uniform_layers_take_what_they_can_hold, test_safeguards_mix_or_give_first, NULL});
}
