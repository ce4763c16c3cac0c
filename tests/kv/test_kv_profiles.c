/* Laws of budgets by weights: every head of every layer holds as many entries as its profile says, on any number of
 * ranks, after the prompt and while decoding, and after a cache came back from a file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "kv/forecast.h"
#include "kv/save.h"
#include "kv_rig.h"

enum { MOST_HEADS = 8, LAYERS = 3, MODEL = 4711 };

static const struct {
    int64_t heads, kv_heads;
} shapes[] = {{9, 3}, {5, 5}, {8, 2}, {4, 1}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static const lh_policy_options policies[] = {
    {.policy = "recency", .budget = "20"},
    {.policy = "streaming", .budget = "15%", .parts = {.evict = "every:3"}},
    {.policy = "random", .budget = "33"},
    {.policy = "h2o", .budget = "24"},
    {.policy = "mas", .budget = "110"}, /* nothing goes before the tokens that follow */
    {.policy = "snapkv", .budget = "30", .parts = {.evict = "every:4", .window = "8"}},
    {.policy = "critical-ada-snapkv", .budget = "40", .parts = {.evict = "every:5", .window = "8"}},
    {.policy = "roco", .budget = "40"},
    {.policy = "nacl", .budget = "25%"},
    {.policy = "snapkv", .budget = "8", .parts = {.evict = "every:2", .window = "8"}}, /* all of it is protected */
    /* in blocks: */
    {.policy = "streaming", .budget = "30", .parts = {.evict = "block:8,every:2"}},
    {.policy = "h2o", .budget = "30", .parts = {.evict = "block:9"}},
    {.policy = "snapkv", .budget = "40", .parts = {.evict = "block:16,every:4", .window = "8"}}};
enum { POLICIES = sizeof policies / sizeof *policies, AT_ONCE = POLICIES - 3 };

/* Weights that differ, some of them 0, as text of a file. */
typedef struct weights {
    lh_profiles all;
    char layers[32], heads[32]; /* what parts say */
} weights;

static void put_profile(weights *w, lh_profile_kind kind, const lh_buf *text, char *said)
{
    uint64_t hash = 0;
    mt_try(lh_profile_parse(&w->all, kind, &(lh_profile_text){"own.csv", text->data, text->bytes}, &hash));
    snprintf(said, sizeof w->heads, "profile:%016llx", (unsigned long long)hash);
}

/* alike: 1 for all weights. */
static void make_weights(weights *w, int64_t kv_heads, int alike)
{
    lh_buf layers = {0}, heads = {0};
    *w = (weights){0};
    srand(5);
    mt_try(lh_buf_puts(&layers, "layer,weight\n"));
    mt_try(lh_buf_puts(&heads, "layer,head,weight\n"));
    for (int l = 0; l < LAYERS; l++) {
        mt_try(lh_buf_printf(&layers, "%d,%d\n", l, alike ? 7 : 1 + rand() % 5));
        for (int h = 0; h < kv_heads; h++)
            mt_try(lh_buf_printf(&heads, "%d,%d,%d.%d\n", l, h,
                                 alike                  ? 1
                                 : h != l && rand() % 4 ? rand() % 7
                                                        : h == l,
                                 alike ? 0 : (h == 0) * 5));
    }
    put_profile(w, LH_PROFILE_OF_LAYERS, &layers, w->layers);
    put_profile(w, LH_PROFILE_OF_HEADS, &heads, w->heads);
    lh_buf_clear(&layers);
    lh_buf_clear(&heads);
}

static kv_rig_case case_of(int shape, int policy, weights *w)
{
    kv_rig_case c = {.heads = shapes[shape].heads,
                     .kv_heads = shapes[shape].kv_heads,
                     .dim = 8,
                     .layers = LAYERS,
                     .tokens = 101,
                     .more = 40,
                     .type = policy % 2 ? LH_F32 : LH_BF16,
                     .seed = 3,
                     .policy = policies[policy]};
    c.policy.parts.head_budget = w->heads;
    if (policy % 3 && policy < AT_ONCE) c.policy.parts.layer_budget = w->layers;
    c.policy.profiles = &w->all;
    return c;
}

/* ---- what must be held ---- */

typedef struct lengths {
    lh_policy_numbers fixed;
    int64_t budgets[LAYERS], len[LAYERS][MOST_HEADS];
    int made; /* budgets */
} lengths;

/* One eviction of all layers, by the definition. */
static void evict_by_hand(lengths *n, const kv_rig *r, int64_t seen)
{
    const kv_rig_case *c = r->of;
    const lh_profiles *all = c->policy.profiles;
    if (!n->made)
        lh_policy_layers(&n->fixed,
                         &(lh_layers_request){
                             .layers = LAYERS,
                             .seen = seen,
                             .profile = lh_profiles_find(all, LH_PROFILE_OF_LAYERS, n->fixed.budgets.layer_profile)},
                         n->budgets);
    n->made |= n->fixed.budget < seen;
    for (int64_t l = 0; l < LAYERS; l++) {
        int64_t room[MOST_HEADS], stay[MOST_HEADS], held = 0, sum = 0;
        lh_protection p = lh_policy_protect(&n->fixed, &(lh_protect_request){.budget = n->budgets[l], .seen = seen});
        int64_t protected_ = p.sinks + p.recents;
        for (int64_t g = 0; g < c->kv_heads; g++) {
            held += n->len[l][g];
            room[g] = n->len[l][g] > protected_ ? n->len[l][g] - protected_ : 0;
        }
        if (held <= c->kv_heads * p.budget) continue;
        lh_policy_heads(
            &(lh_heads_request){.layer = l,
                                .heads = c->kv_heads,
                                .protect = &p,
                                .room = room,
                                .profile = lh_profiles_find(all, LH_PROFILE_OF_HEADS, n->fixed.budgets.head_profile)},
            stay);
        for (int64_t g = 0; g < c->kv_heads; g++) sum += n->len[l][g] = stay[g] + protected_;
        mt_check(sum == c->kv_heads * p.budget, "%lld entries are not %lld heads of %lld", (long long)sum,
                 (long long)c->kv_heads, (long long)p.budget);
    }
}

static void check_lengths(const lengths *n, const kv_rig *r, const kv_rig_result *got, const char *when)
{
    for (int64_t l = 0; l < LAYERS && mt_rank() == 0; l++)
        for (int64_t g = 0; g < r->of->kv_heads; g++) {
            int64_t len = got->kept[l].offsets[g + 1] - got->kept[l].offsets[g];
            mt_check(len == n->len[l][g], "%s, %s: layer %lld head %lld holds %lld entries, not %lld", r->plan.name,
                     when, (long long)l, (long long)g, (long long)len, (long long)n->len[l][g]);
        }
}

START_TEST(test_every_head_holds_what_its_profile_says)
{
    for (int shape = 0; shape < SHAPES; shape++)
        for (int policy = 0; policy < AT_ONCE; policy++) {
            weights w;
            make_weights(&w, shapes[shape].kv_heads, 0);
            kv_rig_case c = case_of(shape, policy, &w);
            kv_rig r;
            kv_rig_result got;
            lh_kv_forecast f;
            kv_rig_open(&r, &c, mt_comm(), kv_rig_backend(_i));
            lh_kv_shape kv = kv_rig_shape(&r);
            lengths n = {.fixed = lh_policy_fix(&r.plan, c.tokens)};
            mt_try(lh_kv_forecast_make(
                &f, &kv, &(lh_kv_forecast_request){.policy = &r.plan, .tokens = c.tokens, .more = c.more}));
            kv_rig_prefill(&r, &got);
            mt_check(got.stats.entries_held == f.entries, "%s: %lld entries are held, %lld were forecast", r.plan.name,
                     (long long)got.stats.entries_held, (long long)f.entries);
            mt_check(lh_device_usage(r.device).now[LH_MEM_KV] == f.held, "%s: %lld bytes are held, %lld were forecast",
                     r.plan.name, (long long)lh_device_usage(r.device).now[LH_MEM_KV], (long long)f.held);
            for (int l = 0; l < LAYERS; l++)
                for (int g = 0; g < MOST_HEADS; g++) n.len[l][g] = c.tokens;
            evict_by_hand(&n, &r, c.tokens);
            check_lengths(&n, &r, &got, "after the prompt");
            for (int64_t step = 1; step <= 24; step++) {
                kv_rig_take(&r, LH_KV_STEP, 1);
                for (int l = 0; l < LAYERS; l++)
                    for (int g = 0; g < MOST_HEADS; g++) n.len[l][g]++;
                if (step % n.fixed.every == 0) evict_by_hand(&n, &r, c.tokens + step);
                if (step % 6) continue;
                kv_rig_gather(&r, &got);
                check_lengths(&n, &r, &got, "while decoding");
            }
            mt_check(kv_rig_entries_are_whole(&r), "an entry is not what was appended");
            kv_rig_result_clear(&got);
            kv_rig_close(&r);
            lh_profiles_clear(&w.all);
        }
    mt_end();
}
END_TEST

static lh_status convert_rows(lh_stream *stream, const lh_convert_args *a)
{
    mt_check(a->cols <= a->src_ld && a->cols <= a->dst_ld, "rows of %lld numbers lie %lld and %lld apart",
             (long long)a->cols, (long long)a->src_ld, (long long)a->dst_ld);
    return lh_ops_ref.convert(stream, a);
}

/* Another rank's heads may be longer than any here. */
START_TEST(test_no_rank_reads_more_scores_than_it_has)
{
    static const char *const policies_by_keys[] = {"knorm", "keydiff"};
    for (int n = 0; n < 2 * SHAPES; n++) {
        weights w;
        lh_ops ops = lh_ops_ref;
        make_weights(&w, shapes[n / 2].kv_heads, 0);
        kv_rig_case c = case_of(n / 2, 0, &w);
        kv_rig r;
        kv_rig_result got;
        c.policy.policy = policies_by_keys[n % 2];
        c.policy.budget = "40";
        c.policy.parts.evict = "every:1";
        ops.convert = convert_rows;
        kv_rig_open(&r, &c, mt_comm(), &ops);
        kv_rig_prefill(&r, &got);
        for (int64_t step = 1; step <= 12; step++) kv_rig_take(&r, LH_KV_STEP, 1);
        kv_rig_result_clear(&got);
        kv_rig_close(&r);
        lh_profiles_clear(&w.all);
    }
    mt_end();
}
END_TEST

static void check_same(const kv_rig_result *a, const kv_rig_result *b, const char *name)
{
    for (int64_t l = 0; l < LAYERS && mt_rank() == 0; l++) {
        const lh_positions *x = &a->kept[l], *y = &b->kept[l];
        int same = memcmp(x->offsets, y->offsets, (size_t)(x->heads + 1) * sizeof *x->offsets) == 0 &&
                   memcmp(x->positions, y->positions, (size_t)x->offsets[x->heads] * sizeof *x->positions) == 0;
        mt_check(same, "%s: layer %lld keeps other entries", name, (long long)l);
    }
}

START_TEST(test_equal_weights_change_nothing)
{
    static const uint8_t sliding[LAYERS] = {1, 0, 1};
    for (int policy = 0; policy < POLICIES; policy++) {
        weights w;
        make_weights(&w, shapes[_i].kv_heads, 1);
        kv_rig_case c = case_of(_i, policy, &w), plain = c;
        kv_rig r, s;
        kv_rig_result got, want;
        if (policy % 2) c.sliding = plain.sliding = sliding, c.window = plain.window = 60;
        plain.policy.parts.head_budget = "uniform";
        plain.policy.parts.layer_budget = "uniform";
        kv_rig_open(&r, &c, mt_comm(), &lh_ops_ref);
        kv_rig_open(&s, &plain, mt_comm(), &lh_ops_ref);
        kv_rig_prefill(&r, &got);
        kv_rig_prefill(&s, &want);
        check_same(&got, &want, r.plan.name);
        for (int64_t step = 1; step <= 12; step++) kv_rig_take(&r, LH_KV_STEP, 1), kv_rig_take(&s, LH_KV_STEP, 1);
        kv_rig_gather(&r, &got);
        kv_rig_gather(&s, &want);
        check_same(&got, &want, r.plan.name);
        kv_rig_result_clear(&got);
        kv_rig_result_clear(&want);
        kv_rig_close(&r);
        kv_rig_close(&s);
        lh_profiles_clear(&w.all);
    }
    mt_end();
}
END_TEST

START_TEST(test_keep_sets_do_not_depend_on_the_number_of_ranks)
{
    lh_comm *self = NULL;
    mt_try(lh_comm_open_self(&self));
    for (int policy = 0; policy < POLICIES; policy++) {
        weights w;
        make_weights(&w, shapes[_i].kv_heads, 0);
        kv_rig_case c = case_of(_i, policy, &w);
        kv_rig r, whole;
        kv_rig_result got, want;
        kv_rig_open(&r, &c, mt_comm(), &lh_ops_ref);
        kv_rig_open(&whole, &c, self, &lh_ops_ref);
        kv_rig_prefill(&r, &got);
        kv_rig_prefill(&whole, &want);
        check_same(&got, &want, r.plan.name);
        for (int64_t step = 1; step <= 12; step++) kv_rig_take(&r, LH_KV_STEP, 1), kv_rig_take(&whole, LH_KV_STEP, 1);
        kv_rig_gather(&r, &got);
        kv_rig_gather(&whole, &want);
        check_same(&got, &want, r.plan.name);
        kv_rig_result_clear(&got);
        kv_rig_result_clear(&want);
        kv_rig_close(&r);
        kv_rig_close(&whole);
        lh_profiles_clear(&w.all);
    }
    lh_comm_close(self);
    mt_end();
}
END_TEST

/* ---- files ---- */

START_TEST(test_a_saved_cache_brings_its_profiles)
{
    static const int32_t tokens[256];
    static const float logits[5];
    char folder[MT_FOLDER_BYTES], *path = NULL;
    mt_folder_make(folder);
    mt_try(lh_path_join(&path, folder, "cache.h5"));
    for (int policy = 0; policy < POLICIES; policy++) {
        weights w;
        make_weights(&w, shapes[_i].kv_heads, 0);
        kv_rig_case c = case_of(_i, policy, &w), again = c;
        kv_rig r, s;
        kv_rig_result got, want;
        lh_saved_kv file = {0};
        lh_profiles stored;
        kv_rig_open(&r, &c, mt_comm(), &lh_ops_ref);
        kv_rig_prefill(&r, &want);
        mt_try(lh_kv_save(
            r.kv, path,
            &(lh_cache_extra){
                .model = MODEL, .tokens = tokens, .n = c.tokens, .logits = logits, .vocab = 5, .run = "{}"}));
        mt_try(lh_saved_kv_open(&file, path));
        stored = file.profiles;
        again.policy.profiles = &stored;
        kv_rig_open(&s, &again, mt_comm(), &lh_ops_ref);
        mt_check(memcmp(&s.plan, &file.policy, sizeof s.plan) == 0, "the file has another policy");
        mt_try(lh_kv_load(s.kv, &file, MODEL, c.more));
        for (int64_t step = 1; step <= 12; step++) kv_rig_take(&r, LH_KV_STEP, 1), kv_rig_take(&s, LH_KV_STEP, 1);
        kv_rig_result_clear(&want);
        got = (kv_rig_result){0};
        kv_rig_gather(&r, &want);
        kv_rig_gather(&s, &got);
        check_same(&got, &want, r.plan.name);
        kv_rig_result_clear(&got);
        kv_rig_result_clear(&want);
        kv_rig_close(&r);
        kv_rig_close(&s);
        lh_saved_kv_close(&file);
        lh_profiles_clear(&w.all);
    }
    mt_folder_remove(folder);
    lh_free(path);
    mt_end();
}
END_TEST

START_TEST(test_a_profile_for_another_model_is_refused)
{
    weights w;
    make_weights(&w, 3, 0);
    kv_rig_case c = case_of(0, 1, &w);
    kv_rig r;
    lh_kv *kv = NULL;
    lh_kv_forecast f;
    kv_rig_open(&r, &c, mt_comm(), &lh_ops_ref);
    lh_kv_shape shape = kv_rig_shape(&r);
    lh_exec place = {.ops = &lh_ops_ref, .stream = r.stream, .comm = mt_comm()};
    shape.layers = 2;
    mt_expect(lh_kv_open(&kv, &place, &shape, &r.plan), LH_EINPUT);
    mt_check(strstr(lh_error_message(), "'own.csv'") != NULL, "%s", lh_error_message());
    mt_expect(lh_kv_forecast_make(&f, &shape, &(lh_kv_forecast_request){.policy = &r.plan, .tokens = 100, .more = 10}),
              LH_EINPUT);
    shape = kv_rig_shape(&r);
    shape.profiles = NULL;
    mt_expect(lh_kv_open(&kv, &place, &shape, &r.plan), LH_EINPUT);
    kv_rig_close(&r);
    lh_profiles_clear(&w.all);
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("profiles");
    TCase *laws = tcase_create("laws");
    tcase_set_timeout(laws, 0);
    tcase_add_loop_test(laws, test_every_head_holds_what_its_profile_says, 0, kv_rig_backends());
    tcase_add_test(laws, test_no_rank_reads_more_scores_than_it_has);
    tcase_add_loop_test(laws, test_equal_weights_change_nothing, 0, SHAPES);
    tcase_add_loop_test(laws, test_keep_sets_do_not_depend_on_the_number_of_ranks, 0, SHAPES);
    tcase_add_loop_test(laws, test_a_saved_cache_brings_its_profiles, 0, SHAPES);
    tcase_add_test(laws, test_a_profile_for_another_model_is_refused);
    suite_add_tcase(suite, laws);
    return mt_run(suite);
}
