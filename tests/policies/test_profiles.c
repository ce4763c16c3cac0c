/* Budgets by weights: what files say, and what becomes of it, against the definition done entry by entry. */
#include <stdlib.h>
#include <string.h>

#include "policies/budgets.h"
#include "policies/list.h"
#include "policies/profile.h"
#include "suite.h"

enum { MOST = 40 };

/* ---- files ---- */

static lh_status parse(lh_profiles *all, lh_profile_kind kind, const char *text, uint64_t *hash)
{
    return lh_profile_parse(all, kind, &(lh_profile_text){"own.csv", text, (int64_t)strlen(text)}, hash);
}

static const lh_profile *parsed(lh_profiles *all, lh_profile_kind kind, const char *text)
{
    uint64_t hash = 0;
    ck_assert_msg(parse(all, kind, text, &hash) == LH_OK, "%s", lh_error_message());
    const lh_profile *p = lh_profiles_find(all, kind, hash);
    ck_assert_ptr_nonnull(p);
    return p;
}

START_TEST(test_a_profile_is_read_in_any_order_and_with_comments)
{
    lh_profiles all = {0};
    const lh_profile *p = parsed(&all, LH_PROFILE_OF_LAYERS,
                                 "# mine\n\n  layer , weight # of the model\r\n2,.5\r\n\n0,  3.\n1,0.000000001#least");
    ck_assert_int_eq(p->layers, 3);
    ck_assert_int_eq(p->heads, 1);
    ck_assert_int_eq(p->weights[0], 3000000000);
    ck_assert_int_eq(p->weights[1], 1);
    ck_assert_int_eq(p->weights[2], 500000000);
    ck_assert_str_eq(p->name, "own.csv");
    p = parsed(&all, LH_PROFILE_OF_HEADS,
               "\xef\xbb\xbflayer,head,weight\n1,1,0\n0,1,2\n1,0,999999999.999999999\n0,0,1");
    ck_assert_int_eq(p->layers, 2);
    ck_assert_int_eq(p->heads, 2);
    ck_assert(p->weights[0] == 1000000000 && p->weights[1] == 2000000000);
    ck_assert(p->weights[2] == 999999999999999999 && p->weights[3] == 0);
    ck_assert_int_eq(all.n, 2);
    lh_profiles_clear(&all);
}
END_TEST

/* One file for both options. */
START_TEST(test_weights_of_heads_are_those_of_layers_too)
{
    lh_profiles all = {0};
    const lh_profile *sums = parsed(&all, LH_PROFILE_OF_LAYERS, "layer,head,weight\n1,1,0\n0,1,2\n1,0,.5\n0,0,1.25"),
                     *layers = parsed(&all, LH_PROFILE_OF_LAYERS, "layer,weight\n0,3.25\n1,0.5");
    ck_assert_ptr_eq(sums, layers);
    ck_assert_int_eq(sums->layers, 2);
    ck_assert_int_eq(sums->heads, 1);
    lh_profiles_clear(&all);
}
END_TEST

START_TEST(test_lines_are_read_without_space_at_their_ends)
{
    lh_profiles all = {0};
    lh_buf old = {0}; /* with the line ends of old Macs */
    const lh_profile *p = parsed(&all, LH_PROFILE_LINES, "\n  Who?\r\n\n\tWhere is \"it\", # and why? \n \nW\xc3\xa4r");
    ck_assert_int_eq(p->line_count, 3);
    ck_assert_str_eq(p->lines[0], "Who?");
    ck_assert_str_eq(p->lines[1], "Where is \"it\", # and why?");
    ck_assert_str_eq(p->lines[2], "W\xc3\xa4r");
    ck_assert_ptr_eq(parsed(&all, LH_PROFILE_LINES, "\xef\xbb\xbfWho?\rWhere?"),
                     parsed(&all, LH_PROFILE_LINES, "Who?\nWhere?"));
    ck_assert_ptr_ne(parsed(&all, LH_PROFILE_LINES, "Who?Where?"), parsed(&all, LH_PROFILE_LINES, "Who?\nWhere?"));
    /* white space is the same in every locale, unlike that of isspace */
    ck_assert_str_eq(parsed(&all, LH_PROFILE_LINES, " \fWho?\f ")->lines[0], "\fWho?\f");
    for (int i = 0; i < LH_PROFILE_MAX_LINES; i++) ck_assert_int_eq(lh_buf_puts(&old, "Who?\r"), LH_OK);
    ck_assert_int_eq(parsed(&all, LH_PROFILE_LINES, old.data)->line_count, LH_PROFILE_MAX_LINES);
    lh_buf_clear(&old);
    lh_profiles_clear(&all);
}
END_TEST

START_TEST(test_what_is_not_lines_is_refused)
{
    lh_profiles all = {0};
    lh_buf many = {0};
    uint64_t hash = 0;
    ck_assert_int_eq(parse(&all, LH_PROFILE_LINES, " \n\r\n", &hash), LH_EINPUT);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "'own.csv' is empty: it must have a question in each line"));
    ck_assert_int_eq(parse(&all, LH_PROFILE_LINES, "Who?\nW\xe4r\n", &hash), LH_EINPUT);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "not text in UTF-8"));
    ck_assert_int_eq(parse(&all, LH_PROFILE_LINES, "\xef\xbb\xbf", &hash), LH_EINPUT);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "'own.csv' is empty: it must have a question in each line"));
    ck_assert_int_eq(parse(&all, LH_PROFILE_LINES, "\xff\xfeW", &hash), LH_EINPUT);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "'own.csv' is UTF-16, not UTF-8: 'iconv"));
    ck_assert_int_eq(parse(&all, LH_PROFILE_LINES, "%PDF-1.7\n", &hash), LH_EINPUT);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "'own.csv' is a PDF, not text"));
    ck_assert_int_eq(lh_profile_parse(&all, LH_PROFILE_LINES, &(lh_profile_text){"own.csv", "Wh\0o?", 6}, &hash),
                     LH_EINPUT);
    for (int i = 0; i < LH_PROFILE_MAX_LINES; i++) ck_assert_int_eq(lh_buf_puts(&many, "Who?\n\n"), LH_OK);
    ck_assert_int_eq(parse(&all, LH_PROFILE_LINES, many.data, &hash), LH_OK);
    ck_assert_int_eq(lh_buf_puts(&many, "Who?"), LH_OK);
    ck_assert_int_eq(parse(&all, LH_PROFILE_LINES, many.data, &hash), LH_EINPUT);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "more than 256 lines"));
    lh_error_clear();
    lh_buf_clear(&many);
    lh_profiles_clear(&all);
}
END_TEST

START_TEST(test_what_is_written_is_read)
{
    static const char *const texts[] = {"layer,weight\n0,3.25\n1,0\n2,0.000000001\n",
                                        "layer,head,weight\n0,0,1\n0,1,999999999.999999999\n1,0,0.5\n1,1,0\n",
                                        "Who?\nWhere, and when?\n"};
    for (lh_profile_kind kind = 0; kind < LH_PROFILE_KINDS; kind++) {
        lh_profiles all = {0};
        lh_buf text = {0};
        const lh_profile *p = parsed(&all, kind, texts[kind]);
        ck_assert_int_eq(lh_profile_write(p, &text), LH_OK);
        ck_assert_str_eq(text.data, texts[kind]);
        ck_assert_ptr_eq(parsed(&all, kind, text.data), p);
        lh_buf_clear(&text);
        lh_profiles_clear(&all);
    }
}
END_TEST

START_TEST(test_equal_weights_are_one_profile)
{
    lh_profiles all = {0};
    const lh_profile *a = parsed(&all, LH_PROFILE_OF_LAYERS, "layer,weight\n0,1\n1,0.50"),
                     *b = parsed(&all, LH_PROFILE_OF_LAYERS, "layer,weight\n1,.5\n0,1.0\n"),
                     *c = parsed(&all, LH_PROFILE_OF_LAYERS, "layer,weight\n1,1\n0,.5\n"),
                     *heads = parsed(&all, LH_PROFILE_OF_HEADS, "layer,head,weight\n0,0,1\n1,0,.5\n");
    ck_assert_ptr_eq(a, b);
    ck_assert_ptr_ne(a, c);
    ck_assert_ptr_ne(a, heads);
    ck_assert_int_eq(all.n, 3);
    ck_assert_ptr_null(lh_profiles_find(&all, LH_PROFILE_OF_LAYERS, 0));
    ck_assert_ptr_null(lh_profiles_find(NULL, LH_PROFILE_OF_LAYERS, a->hash));
    lh_profiles_clear(&all);
}
END_TEST

START_TEST(test_bad_files_are_named_with_their_line)
{
    static const struct {
        lh_profile_kind kind;
        const char *text, *said;
    } cases[] = {
        {LH_PROFILE_OF_LAYERS, "", "'own.csv' is empty: its first line must be 'layer,weight'"},
        {LH_PROFILE_OF_HEADS, "# nothing\n\n", "'own.csv' is empty: its first line must be 'layer,head,weight'"},
        {LH_PROFILE_OF_LAYERS, "layer,weight\n# nothing", "'own.csv' has no weights"},
        {LH_PROFILE_OF_LAYERS, "\n0,1\n", "line 2: the first line must be 'layer,weight'"},
        {LH_PROFILE_OF_LAYERS, "layer,head,weight\n", "'own.csv' has no weights"},
        {LH_PROFILE_OF_LAYERS, "layer,head,weight\n0,1\n", "line 2: it must have 3 comma-separated values"},
        {LH_PROFILE_OF_LAYERS, "layer,head,weight\n0,0,1\n1,0,1\n1,1,1\n",
         "line 4: head 1 of layer 1 has a weight, but head 1 of layer 0 has none"},
        {LH_PROFILE_OF_LAYERS, "layer,head,weight\n0,0,999999999\n0,1,1\n",
         "line 3: the weights of layer 0 add up to 1000000000 or more"},
        {LH_PROFILE_OF_HEADS, "layer,weight\n", "line 1: 'layer,weight' is the header of '--layer-budget"},
        {LH_PROFILE_OF_LAYERS, "layer,weight\n0\n", "line 2: it must have 2 comma-separated values"},
        {LH_PROFILE_OF_LAYERS, "layer,weight\n0,1,2\n", "line 2: it must have 2 comma-separated values"},
        {LH_PROFILE_OF_HEADS, "layer,head,weight\n0,0,1,2,3,4\n", "line 2: it must have 3 comma-separated values"},
        {LH_PROFILE_OF_LAYERS, "layer,weight\n0,1\n-1,1\n", "line 3: the layer '-1' must be an integer"},
        {LH_PROFILE_OF_LAYERS, "layer,weight\n0.5,1\n", "line 2: the layer '0.5' must be"},
        {LH_PROFILE_OF_LAYERS, "layer,weight\n1048576,1\n", "line 2: the layer '1048576' must be"},
        {LH_PROFILE_OF_HEADS, "layer,head,weight\n0,x,1\n", "line 2: the head 'x' must be"},
        {LH_PROFILE_OF_HEADS, "layer,head,weight\n0,,1\n", "line 2: the head '' must be"},
        {LH_PROFILE_OF_LAYERS, "layer,weight\n0,-1\n", "line 2: the weight '-1' must be a decimal from 0 on"},
        {LH_PROFILE_OF_LAYERS, "layer,weight\n0,1e3\n", "line 2: the weight '1e3' must be"},
        {LH_PROFILE_OF_LAYERS, "layer,weight\n0,nan\n", "line 2: the weight 'nan' must be"},
        {LH_PROFILE_OF_LAYERS, "layer,weight\n0,\n", "line 2: the weight '' must be"},
        {LH_PROFILE_OF_LAYERS, "layer,weight\n0,1000000000\n", "line 2: the weight '1000000000' must be"},
        {LH_PROFILE_OF_LAYERS, "layer,weight\n0,0.0000000001\n", "line 2: the weight '0.0000000001' must be"},
        {LH_PROFILE_OF_LAYERS, "layer,weight\n1,1\n\n0,1\n1,2\n", "line 5: layer 1 has a weight already, in line 2"},
        {LH_PROFILE_OF_LAYERS, "layer,weight\n0,1\n2,1\n", "line 3: layer 2 has a weight, but layer 1 has none"},
        {LH_PROFILE_OF_HEADS, "layer,head,weight\n0,0,1\n0,0,1\n",
         "line 3: head 0 of layer 0 has a weight already, in line 2"},
        {LH_PROFILE_OF_HEADS, "layer,head,weight\n0,0,1\n1,0,1\n1,1,1\n",
         "line 4: head 1 of layer 1 has a weight, but head 1 of layer 0 has none"},
        {LH_PROFILE_OF_HEADS, "layer,head,weight\n0,0,1\n0,1,1\n1,0,1\n",
         "line 3: head 1 of layer 0 has a weight, but head 1 of layer 1 has none"},
        {LH_PROFILE_OF_HEADS, "layer,head,weight\n0,0,1\n0,2,1\n",
         "line 3: head 2 of layer 0 has a weight, but head 1 of layer 0 has none"},
        {LH_PROFILE_OF_HEADS, "layer,head,weight\n0,0,1\n0,1,1\n2,0,1\n2,1,1\n",
         "line 4: head 0 of layer 2 has a weight, but head 0 of layer 1 has none"},
        {LH_PROFILE_OF_LAYERS, "layer,weight\n0,0\n1,0.0\n", "line 3: the weights of all layers are 0"},
        {LH_PROFILE_OF_HEADS, "layer,head,weight\n0,0,1\n0,1,0\n1,1,0\n1,0,0\n",
         "line 5: the weights of all heads of layer 1 are 0"},
    };
    lh_profiles all = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t hash;
        ck_assert_int_eq(parse(&all, cases[i].kind, cases[i].text, &hash), LH_EINPUT);
        ck_assert_msg(strstr(lh_error_message(), "'own.csv'") && strstr(lh_error_message(), cases[i].said),
                      "case %zu: %s", i, lh_error_message());
    }
    const char zeros[] = "layer,weight\n0,1\0\n";
    uint64_t hash;
    ck_assert_int_eq(
        lh_profile_parse(&all, LH_PROFILE_OF_LAYERS, &(lh_profile_text){"own.csv", zeros, sizeof zeros - 1}, &hash),
        LH_EINPUT);
    ck_assert_int_eq(all.n, 0);
    lh_profiles_clear(&all);
}
END_TEST

/* ---- parts ---- */

/* The same in other steps: `total` entries to n things; they are fixed at their least one at a time. */
typedef struct sharing {
    int64_t n, total, weights[MOST], least[MOST], most[MOST];
} sharing;

static void share_by_hand(const sharing *q, int64_t *out)
{
    __int128 weights = 0, rest[MOST];
    int64_t total = q->total, room = 0, left, fixed[MOST] = {0};
    for (int64_t i = 0; i < q->n; i++) weights += q->weights[i], room += q->most[i];
    if (total > room) total = room;
    left = total;
    for (int64_t i = 0; i < q->n; i++) { /* from the first again after every one that is fixed */
        if (fixed[i] || left * (__int128)q->weights[i] >= q->least[i] * weights) continue;
        fixed[i] = 1;
        left -= out[i] = q->least[i];
        weights -= q->weights[i];
        i = -1;
    }
    int64_t shared = left, given = 0;
    for (int64_t i = 0; i < q->n; i++) {
        if (fixed[i]) continue;
        out[i] = (int64_t)(shared * (__int128)q->weights[i] / weights);
        rest[i] = shared * (__int128)q->weights[i] - out[i] * weights;
        left -= out[i];
    }
    for (; left > 0; left--) {
        int64_t best = -1;
        for (int64_t i = q->n - 1; i >= 0; i--)
            if (!fixed[i] && (best < 0 || rest[i] >= rest[best])) best = i;
        out[best]++;
        fixed[best] = 1;
    }
    for (int64_t i = 0; i < q->n; i++) {
        if (out[i] > q->most[i]) out[i] = q->most[i];
        given += out[i];
    }
    for (int64_t i = 0; given < total; i = (i + 1) % q->n)
        if (out[i] < q->most[i]) out[i]++, given++;
}

static int64_t random_weight(int kind)
{
    if (kind == 0) return rand() % 3;
    if (kind == 1) return rand() % 1000;
    if (kind == 2) return rand() % 20 ? rand() % 5 : 1000000;
    return ((int64_t)rand() << 31 | rand()) % 1000000000000000000;
}

static void random_weights(int64_t *weights, int64_t n)
{
    int kind = rand() % 4, any = 0;
    for (int64_t i = 0; i < n; i++) any |= (weights[i] = random_weight(kind)) != 0;
    if (!any) weights[rand() % n] = 1;
}

START_TEST(test_layers_get_parts_by_their_weights)
{
    srand(11);
    for (int trial = 0; trial < 30000; trial++) {
        sharing s = {.n = 1 + rand() % MOST};
        int64_t C = 1 + rand() % (trial % 2 ? 12 : 600), seen = C + 1 + rand() % (trial % 3 ? 40 : 2000);
        int64_t window = 1 + rand() % 64, got[MOST], want[MOST] = {0}, sum = 0, room = 0;
        uint8_t sliding[MOST];
        int slides = rand() % 2;
        random_weights(s.weights, s.n);
        lh_profile profile = {.layers = s.n, .heads = 1, .weights = s.weights};
        lh_policy_numbers fixed = {.evicts = 1, .budget = C, .budgets.layers = LH_LAYERS_PROFILE};
        s.total = s.n * C;
        for (int64_t l = 0; l < s.n; l++) {
            sliding[l] = slides && rand() % 3;
            s.most[l] = sliding[l] && window < seen ? window : seen;
            s.least[l] = 1;
            room += s.most[l];
        }
        lh_policy_layers(
            &fixed,
            &(lh_layers_request){
                .layers = s.n, .seen = seen, .window = window, .sliding = slides ? sliding : NULL, .profile = &profile},
            got);
        share_by_hand(&s, want);
        for (int64_t l = 0; l < s.n; l++) {
            ck_assert_msg(got[l] == want[l], "trial %d, layer %lld of %lld: %lld, by hand %lld", trial, (long long)l,
                          (long long)s.n, (long long)got[l], (long long)want[l]);
            ck_assert(got[l] >= 1 && got[l] <= s.most[l]);
            sum += got[l];
        }
        ck_assert_int_eq(sum, s.total < room ? s.total : room);
    }
}
END_TEST

START_TEST(test_heads_get_parts_by_their_weights)
{
    srand(12);
    for (int trial = 0; trial < 30000; trial++) {
        sharing s = {.n = 1 + rand() % 12};
        int64_t layers = 1 + rand() % 3, layer = rand() % layers, room[MOST], got[MOST], want[MOST] = {0}, sum = 0;
        int64_t weights[3 * MOST], held = 0;
        lh_protection p = {.sinks = rand() % 5, .recents = rand() % 9, .base = rand() % 60};
        p.budget = p.sinks + p.recents + p.base;
        if (!p.budget) p.base = p.budget = 1;
        int64_t protected_ = p.sinks + p.recents;
        for (int64_t l = 0; l < layers; l++) random_weights(weights + l * s.n, s.n);
        memcpy(s.weights, weights + layer * s.n, (size_t)s.n * sizeof *weights);
        s.total = s.n * p.budget;
        for (int64_t h = 0; h < s.n; h++) {
            room[h] = trial % 3 ? 100 : rand() % 100;
            s.most[h] = room[h] + protected_;
            s.least[h] = protected_ ? protected_ : room[h] ? 1 : 0;
            held += s.most[h];
        }
        lh_profile profile = {.kind = LH_PROFILE_OF_HEADS, .layers = layers, .heads = s.n, .weights = weights};
        lh_policy_heads(
            &(lh_heads_request){.layer = layer, .heads = s.n, .protect = &p, .room = room, .profile = &profile}, got);
        share_by_hand(&s, want);
        for (int64_t h = 0; h < s.n; h++) {
            ck_assert_int_eq(got[h] + protected_, want[h]);
            ck_assert(got[h] >= 0 && got[h] <= room[h]);
            sum += got[h] + protected_;
        }
        ck_assert_int_eq(sum, s.total < held ? s.total : held);
    }
}
END_TEST

START_TEST(test_parts_of_weights_are_exact)
{
    int64_t weights[] = {1, 2, 3, 4}, got[4], large[126], sum = 0, budgets[126];
    lh_profile profile = {.layers = 4, .heads = 1, .weights = weights};
    lh_policy_numbers fixed = {.evicts = 1, .budget = 100, .budgets.layers = LH_LAYERS_PROFILE};
    lh_policy_layers(&fixed, &(lh_layers_request){.layers = 4, .seen = 1000, .profile = &profile}, got);
    ck_assert(got[0] == 40 && got[1] == 80 && got[2] == 120 && got[3] == 160);
    lh_policy_layers(&fixed, &(lh_layers_request){.layers = 4, .seen = 130, .profile = &profile}, got);
    ck_assert(got[0] == 50 && got[1] == 90 && got[2] == 130 && got[3] == 130); /* 30 too many, one each */
    lh_policy_layers(&fixed, &(lh_layers_request){.layers = 4, .seen = 100, .profile = &profile}, got);
    ck_assert(got[0] == 100 && got[3] == 100); /* nothing is evicted */
    for (int l = 0; l < 126; l++) large[l] = 999999999999999999 - l % 3;
    fixed.budget = INT64_C(1) << 40;
    profile = (lh_profile){.layers = 126, .heads = 1, .weights = large};
    lh_policy_layers(&fixed, &(lh_layers_request){.layers = 126, .seen = INT64_C(1) << 41, .profile = &profile},
                     budgets);
    for (int l = 0; l < 126; l++) sum += budgets[l];
    ck_assert_int_eq(sum, 126 * (INT64_C(1) << 40));
}
END_TEST

START_TEST(test_learnt_shares_divide_what_is_neither_protected_nor_even)
{
    static const int64_t shares[] = {1, 3, 0, 4};
    static const uint8_t sliding[] = {0, 0, 0, 1};
    int64_t got[4];
    lh_policy_numbers fixed = {.evicts = 1, .budget = 16, .sinks = 2, .recents = 6, .budgets.layers = LH_LAYERS_LEARNT};
    lh_layers_request q = {.layers = 4, .seen = 100, .shares = shares};
    lh_policy_layers(&fixed, &q, got); /* 8 of each, and 32 by shares */
    ck_assert(got[0] == 12 && got[1] == 20 && got[2] == 8 && got[3] == 24);
    fixed.sinks = 0;
    fixed.recents = 1;
    lh_policy_layers(&fixed, &q, got); /* a quarter of each, and 48 by shares */
    ck_assert(got[0] == 10 && got[1] == 22 && got[2] == 4 && got[3] == 28);
    q.seen = 25;
    lh_policy_layers(&fixed, &q, got); /* 3 too many, one each */
    ck_assert(got[0] == 11 && got[1] == 23 && got[2] == 5 && got[3] == 25);
    fixed.every = 8; /* layers grow after the prompt */
    lh_policy_layers(&fixed, &q, got);
    ck_assert(got[0] == 10 && got[1] == 22 && got[2] == 4 && got[3] == 28);
    q.sliding = sliding;
    q.window = 13;
    lh_policy_layers(&fixed, &q, got); /* 15 too many, 5 each */
    ck_assert(got[0] == 15 && got[1] == 27 && got[2] == 9 && got[3] == 13);
    fixed.recents = 15; /* and no window has room for these */
    lh_policy_layers(&fixed, &q, got);
    ck_assert(got[0] == 17 && got[1] == 18 && got[2] == 16 && got[3] == 13);
    fixed.budget = 3; /* every layer keeps something */
    fixed.recents = 0;
    q.sliding = NULL;
    lh_policy_layers(&fixed, &q, got);
    ck_assert(got[2] == 1 && got[0] + got[1] + got[3] == 11);
    q.seen = 3;
    lh_policy_layers(&fixed, &q, got); /* nothing is evicted */
    for (int l = 0; l < 4; l++) ck_assert_int_eq(got[l], 3);
}
END_TEST

/* ---- in a policy ---- */

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static const char layers_path[] = "test_profiles_layers.csv", heads_path[] = "test_profiles_heads.csv";

START_TEST(test_policies_take_files)
{
    lh_profiles all = {0}, back = {0};
    lh_policy plan, again;
    json_t *json = NULL;
    lh_buf text = {0}, said = {0};
    write_file(layers_path, "layer,weight\n0,1\n1,3\n");
    write_file(heads_path, "layer,head,weight\n0,0,1\n0,1,3\n1,0,.25\n1,1,0\n");
    lh_policy_options o = {.policy = "snapkv",
                           .budget = "64",
                           .parts = {.layer_budget = layers_path, .head_budget = heads_path},
                           .profiles = &all};
    ck_assert_msg(lh_policy_resolve(&plan, &o) == LH_OK, "%s", lh_error_message());
    ck_assert(plan.budgets.heads == LH_HEADS_PROFILE && plan.budgets.layers == LH_LAYERS_PROFILE);
    ck_assert_ptr_nonnull(lh_profiles_find(&all, LH_PROFILE_OF_HEADS, plan.budgets.head_profile));
    ck_assert_ptr_nonnull(lh_profiles_find(&all, LH_PROFILE_OF_LAYERS, plan.budgets.layer_profile));
    ck_assert_int_eq(lh_profiles_check(&all, &plan, 2, 2), LH_OK);
    ck_assert_int_eq(lh_profiles_check(&all, &plan, 3, 2), LH_EINPUT);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "'test_profiles_layers.csv' has weights of 2 layers, the model"));
    ck_assert_int_eq(lh_profiles_check(&all, &plan, 2, 4), LH_EINPUT);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "'test_profiles_heads.csv' has weights of 2 heads"));
    ck_assert_int_eq(lh_profiles_check(&back, &plan, 2, 2), LH_EINPUT);
    /* in words it names them, and its words are the same policy where they are */
    ck_assert_int_eq(lh_policy_text(&plan, &text), LH_OK);
    ck_assert_ptr_nonnull(strstr(text.data, "--head-budget profile:"));
    {
        char head[32], layer[32];
        snprintf(head, sizeof head, "profile:%016llx", (unsigned long long)plan.budgets.head_profile);
        snprintf(layer, sizeof layer, "profile:%016llx", (unsigned long long)plan.budgets.layer_profile);
        o.parts = (lh_policy_parts){.layer_budget = layer, .head_budget = head};
        ck_assert_int_eq(lh_policy_resolve(&again, &o), LH_OK);
        ck_assert_mem_eq(&plan, &again, sizeof plan);
        o.profiles = &back;
        ck_assert_int_eq(lh_policy_resolve(&again, &o), LH_EUSAGE);
    }
    /* as JSON, with the weights and without files */
    remove(layers_path);
    remove(heads_path);
    ck_assert_int_eq(lh_policy_json(&plan, &json), LH_OK);
    ck_assert_int_eq(lh_profiles_put_json(&all, &plan, json), LH_OK);
    ck_assert_msg(lh_profiles_get_json(&back, json, "cache.h5") == LH_OK, "%s", lh_error_message());
    ck_assert_int_eq(lh_policy_from_json(&again, json, "cache.h5"), LH_OK);
    ck_assert_mem_eq(&plan, &again, sizeof plan);
    ck_assert_int_eq(lh_profiles_check(&back, &again, 2, 2), LH_OK);
    ck_assert_int_eq(lh_profiles_find(&back, LH_PROFILE_OF_HEADS, again.budgets.head_profile)->weights[2], 250000000);
    json_object_set_new(json_object_get(json, "profiles"), "head-budget", json_string("layer,head,weight\n0,0,x\n"));
    ck_assert_int_eq(lh_profiles_get_json(&back, json, "cache.h5"), LH_EFILE);
    ck_assert_int_eq(lh_policy_describe(&plan, &said), LH_OK);
    ck_assert_ptr_nonnull(strstr(said.data, "by the weights of a file"));
    json_decref(json);
    lh_buf_clear(&text);
    lh_buf_clear(&said);
    lh_profiles_clear(&all);
    lh_profiles_clear(&back);
}
END_TEST

/* A hash names contents of its option's kind alone. */
START_TEST(test_a_profile_of_another_kind_is_none)
{
    static const char *const texts[] = {"layer,weight\n0,1\n", "layer,head,weight\n0,0,1\n", "Who?\n"};
    static const char *const said[] = {
        "'--layer-budget profile:%016llx': no weights of layers with this hash are loaded",
        "'--head-budget profile:%016llx': no weights of heads with this hash are loaded",
        "'--rows-at text:%016llx': no questions with this hash are loaded"};
    lh_profiles all = {0};
    uint64_t hashes[LH_PROFILE_KINDS];
    for (lh_profile_kind kind = 0; kind < LH_PROFILE_KINDS; kind++)
        hashes[kind] = parsed(&all, kind, texts[kind])->hash;
    for (lh_profile_kind kind = 0; kind < LH_PROFILE_KINDS; kind++)
        for (lh_profile_kind named = 0; named < LH_PROFILE_KINDS; named++) {
            lh_policy policy = {.evicts = 1};
            char part[128];
            if (named == LH_PROFILE_OF_LAYERS) policy.budgets.layer_profile = hashes[kind];
            if (named == LH_PROFILE_OF_HEADS) policy.budgets.head_profile = hashes[kind];
            if (named == LH_PROFILE_LINES) policy.score.text = hashes[kind];
            ck_assert_int_eq(lh_profiles_find(&all, named, hashes[kind]) != NULL, kind == named);
            ck_assert_int_eq(lh_profiles_check(&all, &policy, 1, 1), kind == named ? LH_OK : LH_EINPUT);
            if (kind == named) continue;
            snprintf(part, sizeof part, said[named], (unsigned long long)hashes[kind]);
            ck_assert_str_eq(lh_error_message(), part);
            lh_error_clear();
        }
    lh_profiles_clear(&all);
}
END_TEST

START_TEST(test_what_is_no_file_and_what_cannot_go_together_is_refused)
{
    lh_profiles all = {0};
    lh_policy plan;
    write_file(heads_path, "layer,head,weight\n0,0,1\n");
    write_file(layers_path, "layer,weight\n0,1\n");
    const struct {
        lh_status st;
        const char *policy;
        lh_policy_parts parts;
        const char *said;
    } cases[] = {
        {LH_EUSAGE, "snapkv", {.layer_budget = "pyramide"}, "did you mean 'pyramid'?"},
        {LH_EUSAGE, "snapkv", {.layer_budget = "no/such.csv"}, "nor is there a file of that name"},
        {LH_EUSAGE, "snapkv", {.head_budget = "profile:0123456789abcdef"}, "nor is there a file of that name"},
        {LH_EINPUT, "snapkv", {.head_budget = layers_path}, "'--layer-budget FILE'"},
        {LH_EINPUT, "snapkv", {.head_budget = "."}, "'.'"},
        {LH_EUSAGE, "snapkv", {.head_budget = heads_path, .own = {{"alpha", "0.5"}}}, "would ignore '--alpha'"},
        {LH_EUSAGE, "snapkv", {.head_budget = heads_path, .set_per = "layer"}, "needs '--set-per head'"},
        {LH_EUSAGE, "streaming", {.head_budget = heads_path, .positions = "slot"}, "needs '--head-budget uniform'"},
        {LH_EUSAGE, "full", {.head_budget = heads_path}, "would ignore '--head-budget'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_policy_options o = {.policy = cases[i].policy, .parts = cases[i].parts, .profiles = &all};
        if (strcmp(o.policy, "full") != 0) o.budget = "64";
        ck_assert_int_eq(lh_policy_resolve(&plan, &o), cases[i].st);
        ck_assert_msg(strstr(lh_error_message(), cases[i].said), "case %zu: %s", i, lh_error_message());
    }
    lh_policy_options o = {
        .policy = "streaming", .budget = "20%", .parts = {.head_budget = heads_path}, .profiles = &all};
    ck_assert_msg(lh_policy_resolve(&plan, &o) == LH_OK, "by position heads may differ: %s", lh_error_message());
    remove(heads_path);
    remove(layers_path);
    lh_profiles_clear(&all);
}
END_TEST

START_TEST(test_lists_keep_the_profiles_of_their_policies)
{
    lh_policy_list list = {0};
    write_file(heads_path, "layer,head,weight\n0,0,1\n");
    lh_policy_options o = {.policy = "recency,\"snapkv --head-budget test_profiles_heads.csv\"", .budget = "8,16"};
    ck_assert_msg(lh_policy_list_resolve(&list, &o) == LH_OK, "%s", lh_error_message());
    ck_assert_int_eq(list.n, 5);
    ck_assert_int_eq(list.profiles.n, 1);
    for (int64_t i = 0; i < list.n; i++)
        ck_assert_int_eq(lh_profiles_check(&list.profiles, &list.at[i].policy, 1, 1), LH_OK);
    lh_policy_list_clear(&list);
    remove(heads_path);
}
END_TEST

int main(void)
{
    return suite_run("profiles",
                     (const TTest *const[]){
                         test_a_profile_is_read_in_any_order_and_with_comments,
                         test_weights_of_heads_are_those_of_layers_too, test_lines_are_read_without_space_at_their_ends,
                         test_what_is_not_lines_is_refused, test_what_is_written_is_read,
                         test_equal_weights_are_one_profile, test_bad_files_are_named_with_their_line,
                         test_layers_get_parts_by_their_weights, test_heads_get_parts_by_their_weights,
                         test_parts_of_weights_are_exact, test_learnt_shares_divide_what_is_neither_protected_nor_even,
                         test_policies_take_files, test_a_profile_of_another_kind_is_none,
                         test_what_is_no_file_and_what_cannot_go_together_is_refused,
                         test_lists_keep_the_profiles_of_their_policies, NULL});
}
