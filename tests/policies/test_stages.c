/* Shares of a prompt and of a budget as numbers, against the definitions done entry by entry. */
#include <stdlib.h>
#include <string.h>

#include "policies/probes.h"
#include "policy_parts.h"
#include "suite.h"

static lh_policy plan_of(const char *policy, int64_t budget, const lh_policy_parts *parts)
{
    lh_policy plan;
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)budget);
    lh_policy_options o = {.policy = policy, .budget = text};
    if (parts) o.parts = *parts;
    ck_assert_msg(lh_policy_resolve(&plan, &o) == LH_OK, "%s", lh_error_message());
    return plan;
}

static lh_policy_numbers fixed_of(const char *policy, int64_t budget, const lh_policy_parts *parts, int64_t seen)
{
    lh_policy plan = plan_of(policy, budget, parts);
    return lh_policy_fix(&plan, seen);
}

/* floor(above * n / below), by counting. */
static int64_t part_of(int64_t above, int64_t below, int64_t n)
{
    int64_t x = 0;
    while ((x + 1) * below <= above * n) x++;
    return x;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- the prompt ---- */

START_TEST(test_proxies_are_a_share_of_the_prompt_and_a_quarter_of_the_budget_at_most)
{
    static const struct {
        const char *text;
        int64_t num, den;
    } shares[] = {{"1%", 1, 100}, {"0.5%", 1, 200}, {"12.5%", 1, 8}, {"100%", 1, 1}};
    for (int s = 0; s < 4; s++)
        for (int64_t seen = 1; seen < 6000; seen += 1 + seen / 7)
            for (int64_t C = 1; C < 3000; C += 1 + C / 3) {
                lh_policy p = plan_of("nacl", C, &(lh_policy_parts){.proxies = shares[s].text});
                lh_policy_numbers fixed = lh_policy_fix(&p, seen);
                int64_t P = least(part_of(shares[s].num, shares[s].den, seen), C / 4);
                if (P < 1) P = 1;
                ck_assert_int_eq(fixed.rows, P);
                ck_assert_int_eq(fixed.window, P);
                ck_assert_int_eq(fixed.every, P);
                ck_assert_int_eq(fixed.sinks, least(256, P / 2));
                ck_assert_int_eq(lh_policy_rows(&fixed, seen), least(P, seen));
                lh_protection q = lh_policy_protect(&fixed, &(lh_protect_request){.budget = C, .seen = seen});
                if (C >= 4 && C < seen) ck_assert_int_gt(q.base, 0); /* something always competes */
            }
    lh_policy p = plan_of("nacl", 128, NULL); /* as the goldens have it */
    lh_policy_numbers fixed = lh_policy_fix(&p, 1512);
    ck_assert(fixed.rows == 15 && fixed.sinks == 7);
    p = plan_of("nacl", 128, &(lh_policy_parts){.sinks = "3", .evict = "every:4"});
    fixed = lh_policy_fix(&p, 1512);
    ck_assert(fixed.sinks == 3 && fixed.every == 4);
}
END_TEST

START_TEST(test_proxies_at_both_ends_are_halves_and_the_first_half_the_sinks)
{
    for (int64_t seen = 1; seen < 6000; seen += 1 + seen / 7)
        for (int64_t C = 1; C < 3000; C += 1 + C / 3) {
            lh_policy_parts end = {.proxies = "12.5%"}, ends = {.proxies = "12.5%", .proxies_at = "both-ends"};
            lh_policy_numbers a = fixed_of("nacl", C, &end, seen), b = fixed_of("nacl", C, &ends, seen);
            ck_assert_int_eq(b.rows, a.rows); /* P */
            ck_assert_int_eq(b.first_rows, b.rows / 2);
            ck_assert_int_eq(b.sinks, b.rows / 2);
            ck_assert_int_eq(b.window, b.rows - b.rows / 2);
            ck_assert_int_eq(b.every, b.window);
            int64_t rows = lh_policy_rows(&b, seen), last = -1;
            for (int64_t r = 0; r < rows; r++) { /* each once, in order: the first ones, and the last */
                int64_t p = lh_policy_row_at(&b, seen, r);
                ck_assert(p > last && (p < b.first_rows || p >= seen - b.window));
                ck_assert_int_eq(lh_policy_row_at(&a, seen, r), seen - rows + r);
                last = p;
            }
            ck_assert_int_eq(last, seen - 1);
        }
}
END_TEST

START_TEST(test_proxies_of_a_question_are_as_many_as_it_has_tokens)
{
    for (int64_t question = 1; question < 300; question += 1 + question / 5)
        for (int64_t C = 1; C < 3000; C += 1 + C / 3) {
            lh_policy p = plan_of("nacl", C, &(lh_policy_parts){.proxies = "question"});
            ck_assert_int_eq(lh_policy_check_question(&p), LH_EUSAGE);
            lh_policy_ask(&p, question);
            ck_assert_int_eq(lh_policy_check_question(&p), LH_OK);
            lh_policy_numbers fixed = lh_policy_fix(&p, 5000);
            lh_policy share = plan_of("nacl", C, NULL), before = share;
            int64_t P = least(question, C / 4);
            if (P < 1) P = 1;
            ck_assert(fixed.rows == P && fixed.window == P && fixed.every == P && !fixed.first_rows);
            ck_assert_int_eq(fixed.sinks, least(256, P / 2));
            lh_policy_ask(&share, question); /* is not meant */
            ck_assert_mem_eq(&share, &before, sizeof share);
            ck_assert_int_eq(lh_policy_check_question(&share), LH_OK);
        }
}
END_TEST

START_TEST(test_shares_of_recents_are_of_the_budget)
{
    for (int64_t C = 1; C < 400; C++) {
        lh_policy_numbers p = fixed_of("h2o", C, NULL, 100000);
        lh_policy_numbers third = fixed_of("h2o", C, &(lh_policy_parts){.recents = "33.3%"}, 100000);
        ck_assert_int_eq(p.recents, C / 2);
        ck_assert_int_eq(third.recents, part_of(333, 1000, C));
        lh_protection q = lh_policy_protect(&p, &(lh_protect_request){.budget = C, .seen = 100000});
        ck_assert(q.recents == C / 2 && q.base == C - C / 2);
    }
}
END_TEST

START_TEST(test_largest_values_get_what_sinks_and_recents_leave)
{
    for (int64_t C = 1; C < 400; C++) {
        lh_policy_numbers p = fixed_of("vase", C, NULL, 100000);
        lh_protection q = lh_policy_protect(&p, &(lh_protect_request){.budget = C, .seen = 100000});
        int64_t others = C - q.sinks - q.recents;
        ck_assert_int_eq(p.chosen, part_of(1, 4, C));
        ck_assert_int_eq(q.chosen, least(p.chosen, others));
        ck_assert_int_eq(q.base, others - q.chosen);
        ck_assert_int_eq(lh_protection_ranks(&q), others > 0);
    }
}
END_TEST

START_TEST(test_rows_are_what_was_said_and_never_more_than_there_are)
{
    for (int64_t seen = 1; seen < 1000; seen++) {
        lh_policy_numbers all = fixed_of("mas", 8, NULL, seen), some = fixed_of("scissorhands", 8, NULL, seen);
        lh_policy_numbers share = fixed_of("mas", 8, &(lh_policy_parts){.rows = "12.5%"}, seen);
        lh_policy_numbers none = fixed_of("knorm", 8, NULL, seen);
        int64_t eighth = part_of(1, 8, seen);
        ck_assert_int_eq(lh_policy_rows(&all, seen), seen);
        ck_assert_int_eq(lh_policy_rows(&some, seen), least(seen, 400));
        ck_assert_int_eq(lh_policy_rows(&share, seen), eighth < 1 ? 1 : eighth);
        ck_assert_int_eq(lh_policy_rows(&none, seen), 0);
    }
}
END_TEST

/* 1 where `at` is where a policy's row scores from, or, own, where it is in the prompt. */
static int is_a_row(const lh_policy_numbers *p, int64_t seen, int64_t at, int own)
{
    for (int64_t r = 0; r < lh_policy_rows(p, seen); r++)
        if (at == (own ? lh_policy_row_of(p, seen, r) : lh_policy_row_at(p, seen, r))) return 1;
    return 0;
}

/* A trace of many rows has those of fewer. */
START_TEST(test_spread_rows_are_among_those_of_a_multiple)
{
    lh_policy_parts many = {.rows_at = "after", .rows = "sample:512"}, few = {.rows_at = "after", .rows = "sample:64"};
    for (int64_t seen = 512; seen < 100000; seen += 1 + seen / 3) {
        lh_policy_numbers a = fixed_of("snapkv", 64, &many, seen), b = fixed_of("snapkv", 64, &few, seen);
        for (int64_t r = 0; r < 64; r++) {
            ck_assert(is_a_row(&a, seen, lh_policy_row_of(&b, seen, r), 1));
            ck_assert(is_a_row(&a, seen, lh_policy_row_at(&b, seen, r), 0));
        }
        ck_assert_int_eq(lh_policy_row_of(&b, seen, 63), seen - 1);
        ck_assert_int_eq(lh_policy_row_at(&b, seen, 63), seen + 255);
        ck_assert_int_ge(lh_policy_row_at(&a, seen, 0), seen);
    }
}
END_TEST

START_TEST(test_rows_that_are_references_alone_are_few)
{
    lh_policy_parts few = {.own = {{"fit", "both"}}}, many = {.rows = "sample:500", .own = {{"fit", "both"}}};
    lh_policy_parts scores = {.rows_at = "after", .rows = "sample:500", .own = {{"fit", "both"}}};
    for (int64_t seen = 1; seen < 3000; seen += 1 + seen / 3) {
        lh_policy_numbers a = fixed_of("keydiff", 8, &few, seen), b = fixed_of("keydiff", 8, &many, seen),
                          c = fixed_of("snapkv", 64, &scores, seen);
        ck_assert_int_eq(lh_policy_rows(&a, seen), least(seen, lh_policy_reference_rows(seen)));
        ck_assert_int_eq(lh_policy_rows(&b, seen), least(seen, lh_policy_reference_rows(seen)));
        ck_assert_int_eq(lh_policy_rows(&c, seen), least(seen, 500));
        ck_assert_int_eq(lh_policy_references(&a, seen) + lh_policy_references(&c, seen), 0); /* those above are */
    }
}
END_TEST

START_TEST(test_segments_of_probe_tokens_repeat_the_prompt_once)
{
    static const char *const places[] = {"repeat", "repeat:8", "repeat:512"};
    const lh_probe_leads leads = {.first = 13, .later = 26};
    for (int i = 0; i < 3; i++)
        for (int64_t tokens = 1, at = 0, first = 0; tokens < 20000; tokens += 1 + tokens / 2, at = first = 0) {
            lh_policy_parts parts = {.rows_at = places[i]};
            const lh_policy_numbers n = fixed_of("kvzip", 4, &parts, tokens);
            const int64_t segments = lh_probe_segments(&n, tokens, &leads);
            ck_assert_int_eq(segments > 0, tokens > 4); /* else nothing is evicted */
            for (int64_t s = 0; s < segments; s++) {
                const lh_probe_segment one = lh_probe_segment_of(&n, tokens, &leads, s);
                ck_assert(one.first == first && one.at == at && one.tokens > 0);
                ck_assert_int_eq(one.lead, s ? leads.later : leads.first);
                ck_assert_int_le(one.lead + one.tokens, lh_probe_longest(&n, tokens, &leads));
                ck_assert_int_eq(lh_probe_sinks(&n, &one), least(4, first));
                first += one.tokens;
                at += one.lead + one.tokens;
            }
            ck_assert(!segments || first == tokens);
            ck_assert_int_eq(lh_probe_tokens(&n, tokens, &leads), at);
        }
}
END_TEST

START_TEST(test_a_segment_of_each_question_follows_the_prompt)
{
    const lh_probe_leads leads = {.line_count = 3, .lines = {12, 40, 7}};
    lh_policy_parts parts = {.rows_at = "text:0123456789abcdef"};
    const lh_policy_numbers n = fixed_of("kvzip", 4, &parts, 100), whole = fixed_of("kvzip", 100, &parts, 100);
    ck_assert_int_eq(lh_probe_segments(&whole, 100, &leads), 0);
    ck_assert_int_eq(lh_probe_segments(&n, 100, &leads), 3);
    ck_assert_int_eq(lh_probe_tokens(&n, 100, &leads), 12 + 40 + 7);
    ck_assert_int_eq(lh_probe_longest(&n, 100, &leads), 40);
    for (int64_t s = 0, at = 0; s < 3; at += leads.lines[s++]) {
        const lh_probe_segment one = lh_probe_segment_of(&n, 100, &leads, s);
        ck_assert(one.first == 0 && one.tokens == 0 && one.at == at && one.lead == leads.lines[s]);
    }
}
END_TEST

START_TEST(test_references_cost_no_more_than_at_8192_tokens_but_in_longer_prompts)
{
    const struct {
        int64_t tokens, rows;
    } known[] = {{1, 256}, {2048, 256}, {2049, 128}, {4096, 128}, {4097, 64}, {8192, 64}, {INT32_MAX, 64}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        ck_assert_int_eq(lh_policy_reference_rows(known[i].tokens), known[i].rows);
    for (int64_t tokens = 1; tokens <= 8192; tokens++)
        ck_assert_int_le(tokens * lh_policy_reference_rows(tokens), 8192 * lh_policy_reference_rows(8192));
}
END_TEST

/* A window scores from its own place; what is looked from are the rows that scores without rows have. */
START_TEST(test_references_beside_a_window_are_those_of_scores_without_rows)
{
    lh_policy_parts fit = {.own = {{"fit", "both"}}}, few = {.rows = "sample:13", .own = {{"fit", "both"}}};
    for (int64_t seen = 1; seen < 100000; seen += 1 + seen / 3) {
        lh_policy_numbers window = fixed_of("snapkv", 64, &fit, seen), spread = fixed_of("snapkv", 64, &few, seen),
                          none = fixed_of("snapkv", 64, NULL, seen), keys = fixed_of("keydiff", 8, &fit, seen);
        const int64_t n = least(seen, lh_policy_reference_rows(seen));
        ck_assert_int_eq(lh_policy_rows(&window, seen), least(seen, 32));
        ck_assert_int_eq(lh_policy_row_at(&window, seen, 0), seen - least(seen, 32));
        ck_assert_int_eq(lh_policy_rows(&spread, seen), least(seen, 13));
        ck_assert_int_eq(lh_policy_references(&window, seen), n);
        ck_assert_int_eq(lh_policy_references(&spread, seen), n);
        ck_assert_int_eq(lh_policy_references(&none, seen), 0);
        for (int64_t r = 0; r < n; r++) {
            ck_assert_int_eq(lh_policy_reference_of(&window, seen, r), lh_policy_row_of(&keys, seen, r));
            ck_assert_int_eq(lh_policy_reference_at(&window, seen, r), lh_policy_row_at(&keys, seen, r));
        }
    }
}
END_TEST

/* ---- stages ---- */

static lh_protection protection(int64_t sinks, int64_t recents, int64_t base)
{
    return (lh_protection){.budget = sinks + recents + base, .sinks = sinks, .recents = recents, .base = base};
}

static int64_t first_stage(const lh_policy_numbers *fixed, const lh_protection *p, int64_t kept)
{
    return lh_stage_of(lh_policy_stage(fixed, p), kept);
}

START_TEST(test_first_stages_are_shares_of_what_competes)
{
    lh_policy_numbers top = fixed_of("snapkv", 64, NULL, 1512), two = fixed_of("critical-snapkv", 64, NULL, 1512);
    lh_policy_numbers ada =
        fixed_of("critical-ada-snapkv", 64, &(lh_policy_parts){.own = {{"first-stage", "0.29"}}}, 1512);
    lh_policy_numbers roco = fixed_of("roco", 64, NULL, 1512), nacl = fixed_of("nacl", 64, NULL, 1512);
    lh_policy_numbers third = fixed_of("nacl", 64, &(lh_policy_parts){.own = {{"random-share", "1/3"}}}, 1512);
    for (int64_t kept = 0; kept < 300; kept++)
        for (int64_t recents = 0; recents < 40; recents += 13) {
            lh_protection p = protection(4, recents, kept);
            ck_assert_int_eq(first_stage(&top, &p, kept), kept);
            ck_assert_int_eq(first_stage(&two, &p, kept), kept / 2);
            ck_assert_int_eq(first_stage(&ada, &p, kept), part_of(29, 100, kept));
            ck_assert_int_eq(first_stage(&roco, &p, kept), least(part_of(3, 10, p.budget), kept));
            ck_assert_int_eq(first_stage(&nacl, &p, kept), kept - part_of(7, 19, kept));
            ck_assert_int_eq(first_stage(&third, &p, kept), kept - kept / 3);
        }
    /* RoCo (arXiv 2402.06262): min(0.3 C, C - 14) */
    for (int64_t C = 14; C < 300; C++) {
        lh_protection p = lh_policy_protect(&roco, &(lh_protect_request){.budget = C, .seen = 1512});
        ck_assert_int_eq(first_stage(&roco, &p, p.base), least(part_of(3, 10, C), C - 14));
    }
}
END_TEST

/* kvpress 0.5.5 on one head, whose entries are in the order of their scores and whose window has the largest ones:
 * entries are marked as the first stage marks them, with those of the safeguard. Gives the marked ones after the
 * window. */
static int64_t marked(int64_t window, int64_t sure, int64_t first, int64_t held)
{
    int64_t n = 0;
    for (int64_t i = 0; i < held; i++) n += (i < sure || i < first) && i >= window;
    return n;
}

START_TEST(test_shares_of_the_budget_are_those_of_kvpress)
{
    static const struct {
        const char *text;
        int64_t num, den;
    } shares[] = {{"0.2", 1, 5}, {"0", 0, 1}, {"1", 1, 1}, {"0.07", 7, 100}, {"0.5", 1, 2}};
    for (int a = 0; a < 5; a++)
        for (int f = 0; f < 5; f++)
            for (int64_t C = 1; C < 200; C += 1 + C / 9)
                for (int64_t window = 0; window <= C && window <= 64; window += 1 + window * 3) {
                    lh_policy_parts parts = {.own = {{"alpha", shares[a].text}, {"first-stage", shares[f].text}}};
                    lh_policy_numbers ada = fixed_of("critical-ada@kvpress", C, &parts, 1000);
                    part_set(&parts, "alpha", NULL);
                    lh_policy_numbers even = fixed_of("critical@kvpress", C, &parts, 1000);
                    lh_protection p = protection(0, window, C - window);
                    int64_t sure = part_of(shares[a].num, shares[a].den, C);
                    if (shares[a].num && sure < 1) sure = 1;
                    for (int64_t room = 0; room < 300; room += 37)
                        ck_assert_int_eq(least(lh_policy_safety(&ada, &p).floor, room),
                                         least(marked(window, sure, 0, C), room));
                    int64_t first = part_of(shares[f].num, shares[f].den, C);
                    if (shares[f].num && first < 1) first = 1;
                    ck_assert_int_eq(first_stage(&even, &p, p.base), marked(window, 0, first, C));
                    for (int64_t kept = 0; kept < 2 * C; kept += 1 + kept) { /* heads compete: B is the head's own */
                        int64_t B = window + kept;
                        if (B < sure) continue; /* the safeguard gave it that */
                        first = part_of(shares[f].num, shares[f].den, B);
                        ck_assert_int_eq(first_stage(&ada, &p, kept), marked(window, sure, first, B));
                    }
                }
}
END_TEST

START_TEST(test_floors_are_shares_of_what_a_head_may_keep)
{
    lh_policy_numbers p =
        fixed_of("ada-snapkv", 64, &(lh_policy_parts){.own = {{"safeguard", "floor"}, {"alpha", "0.57"}}}, 1000);
    for (int64_t base = 0; base < 200; base++)
        for (int64_t room = 0; room < 200; room += 9) {
            lh_protection q = protection(3, 32, base);
            ck_assert_int_eq(least(lh_policy_safety(&p, &q).floor, room), least(part_of(57, 100, base), room));
        }
}
END_TEST

START_TEST(test_fractions_are_exact)
{
    ck_assert_int_eq(lh_fraction_of((lh_fraction){7, 19}, 19), 7);
    ck_assert_int_eq(lh_fraction_of((lh_fraction){7, 19}, 18), 6);
    ck_assert_int_eq(lh_fraction_of((lh_fraction){0, 1}, INT64_C(1) << 61), 0);
    const int64_t n = INT64_C(999999999999999999);
    ck_assert_int_eq(lh_fraction_of((lh_fraction){n - 1, n}, n), n - 1);
    ck_assert_int_eq(lh_fraction_of((lh_fraction){1, 1}, INT64_C(1) << 61), INT64_C(1) << 61);
}
END_TEST

/* ---- the pyramid of kvpress ---- */

/* round(max - l * (max - min) / (N - 1)) of Python, all of it over beta * (N - 1): the integer that is nearest, of
 * two the even one. -1: no pyramid (kvpress takes the budget of every layer then). */
static int64_t kvpress_layer(int64_t N, int64_t l, int64_t C, int64_t L, int64_t w, int64_t beta)
{
    int64_t steps = N > 1 ? N - 1 : 1, one = beta * steps;
    int64_t min = C * steps, max = 2 * C * one - min;
    if (max >= (L - w) * one) max = (L - w) * one, min = 2 * C * one - max;
    if (!(L * one >= max && max >= min && min >= w * one)) return -1;
    int64_t x = max - l * ((max - min) / steps), best = 0; /* min and max are multiples of steps */
    for (int64_t n = 0; n <= L; n++) {
        int64_t far = llabs(x - n * one), so_far = llabs(x - best * one);
        if (far < so_far || (far == so_far && n % 2 == 0)) best = n;
    }
    return best;
}

START_TEST(test_rounded_pyramids_are_those_of_kvpress)
{
    static const int64_t betas[] = {1, 2, 3, 20};
    static const char *const texts[] = {"1", "2", "3", "20"};
    int pyramids = 0, flat = 0;
    for (int b = 0; b < 4; b++)
        for (int64_t N = 1; N < 40; N += N < 5 ? 1 : 7)
            for (int64_t L = 90; L < 400; L += 101)
                for (int64_t C = 1; C < L; C += C < 70 ? 9 : 17) {
                    int64_t got[64];
                    lh_policy_numbers p =
                        fixed_of("pyramidkv@kvpress", C, &(lh_policy_parts){.own = {{"beta", texts[b]}}}, L);
                    lh_policy_layers(&p, &(lh_layers_request){.layers = N, .seen = L}, got);
                    for (int64_t l = 0; l < N; l++) {
                        int64_t want = kvpress_layer(N, l, C, L, 64, betas[b]);
                        ck_assert_msg(got[l] == (want < 0 ? C : want), "C %lld L %lld N %lld beta %lld: %lld, not %lld",
                                      (long long)C, (long long)L, (long long)N, (long long)betas[b], (long long)got[l],
                                      (long long)want);
                        *(want < 0 ? &flat : &pyramids) += 1;
                    }
                }
    ck_assert(pyramids > 100 && flat > 100);
}
END_TEST

START_TEST(test_rounded_pyramids_round_halves_to_the_even_number)
{
    /* C 300, L 500, w 64: from min(2 C - C / 20, L - w) = 436 down to 2 C - 436 = 164 in 64 steps of 4.25 */
    int64_t got[65];
    lh_policy_numbers p = fixed_of("pyramidkv@kvpress", 300, NULL, 500);
    lh_policy_layers(&p, &(lh_layers_request){.layers = 65, .seen = 500}, got);
    ck_assert(got[0] == 436 && got[32] == 300 && got[64] == 164);
    ck_assert(got[2] == 428 && got[6] == 410 && got[10] == 394); /* 427.5, 410.5, 393.5 */
    p = fixed_of("pyramidkv@kvpress", 500, NULL, 500);
    lh_policy_layers(&p, &(lh_layers_request){.layers = 65, .seen = 500}, got);
    ck_assert(got[0] == 500 && got[64] == 500); /* nothing is evicted */
}
END_TEST

START_TEST(test_rounded_pyramids_of_long_prompts_do_not_overflow)
{
    int64_t got[126];
    lh_policy_parts parts = {.window = "0", .rows = "last:8", .statistic = "sum", .own = {{"beta", "1000000000000"}}};
    lh_policy_numbers p = fixed_of("pyramidkv@kvpress", INT64_C(1) << 39, &parts, INT64_C(1) << 41);
    lh_policy_layers(&p, &(lh_layers_request){.layers = 126, .seen = INT64_C(1) << 41}, got);
    ck_assert_int_eq(got[0], (INT64_C(1) << 40) - 1); /* 2 C - 0.55 */
    ck_assert_int_eq(got[125], 1);                    /* 0.55 */
    p = fixed_of("pyramidkv@kvpress", INT64_C(1) << 40, NULL, INT64_C(1) << 41);
    lh_policy_layers(&p, &(lh_layers_request){.layers = 2, .seen = INT64_C(1) << 41}, got);
    ck_assert_int_eq(got[0] + got[1], INT64_C(1) << 41);
}
END_TEST

int main(void)
{
    return suite_run("stages",
                     (const TTest *const[]){test_proxies_are_a_share_of_the_prompt_and_a_quarter_of_the_budget_at_most,
                                            test_proxies_at_both_ends_are_halves_and_the_first_half_the_sinks,
                                            test_proxies_of_a_question_are_as_many_as_it_has_tokens,
                                            test_shares_of_recents_are_of_the_budget,
                                            test_largest_values_get_what_sinks_and_recents_leave,
                                            test_rows_are_what_was_said_and_never_more_than_there_are,
                                            test_spread_rows_are_among_those_of_a_multiple,
                                            test_rows_that_are_references_alone_are_few,
                                            test_segments_of_probe_tokens_repeat_the_prompt_once,
                                            test_a_segment_of_each_question_follows_the_prompt,
                                            test_references_cost_no_more_than_at_8192_tokens_but_in_longer_prompts,
                                            test_references_beside_a_window_are_those_of_scores_without_rows,
                                            test_first_stages_are_shares_of_what_competes,
                                            test_shares_of_the_budget_are_those_of_kvpress,
                                            test_floors_are_shares_of_what_a_head_may_keep,
                                            test_fractions_are_exact,
                                            test_rounded_pyramids_are_those_of_kvpress,
                                            test_rounded_pyramids_round_halves_to_the_even_number,
                                            test_rounded_pyramids_of_long_prompts_do_not_overflow,
                                            NULL});
}
