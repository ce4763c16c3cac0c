/* Laws of cache files and keep sets: saved on any number of ranks, restored on any other with the same bits in the same
 * slots; damaged files are refused. */
#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/h5.h"
#include "base/mem.h"
#include "kv/kv_rig.h"
#include "kv/save.h"

enum { VOCAB = 11, MODEL = 4711 };

static const uint8_t sliding[3] = {0, 1, 0};

static const lh_policy_options policies[] = {
    {0},
    {.policy = "streaming", .budget = "30"},
    {.policy = "recency", .budget = "20%", .parts = {.evict = "every:5"}},
    {.policy = "ada-snapkv", .budget = "40"},
    {.policy = "ada-pyramid", .budget = "50"},
    {.policy = "ada-snapkv", .budget = "40", .parts = {.evict = "every:4", .window = "8", .rows = "last:11"}},
    {.policy = "snapkv", .budget = "99", .parts = {.evict = "every:3", .rows = "last:300", .window = "8"}},
    {.policy = "nacl", .budget = "44", .parts = {.proxies = "9%", .proxies_at = "both-ends", .evict = "every:3"}},
    {.policy = "nacl", .budget = "44", .parts = {.proxies = "question"}},
    {.budget = "256"}};
enum { POLICIES = sizeof policies / sizeof *policies };

static const struct {
    int64_t heads, kv_heads;
} shapes[] = {{9, 3}, {5, 5}, {8, 2}, {4, 1}};

static kv_rig_case case_of(int shape, int policy)
{
    return (kv_rig_case){.heads = shapes[shape].heads,
                         .kv_heads = shapes[shape].kv_heads,
                         .dim = 8,
                         .layers = 3,
                         .tokens = 97,
                         .more = 30,
                         .type = policy % 2 ? LH_F32 : LH_BF16,
                         .window = 40,
                         .sliding = shape % 2 ? sliding : NULL,
                         .seed = 8,
                         .question = 9,
                         .works_out = 1,
                         .policy = policies[policy]};
}

/* A file in a folder that all ranks know; removed by forget_path. */
static char *make_path(void)
{
    char folder[MT_FOLDER_BYTES], *path = NULL;
    mt_folder_make(folder);
    mt_try(lh_path_join(&path, folder, "cache.h5"));
    return path;
}

static void forget_path(char *path)
{
    mt_try(lh_comm_barrier(mt_comm()));
    if (mt_rank() == 0) {
        remove(path);
        *strrchr(path, '/') = '\0';
        mt_check(rmdir(path) == 0, "files were left in '%s'", path);
    }
    lh_free(path);
}

static int32_t tokens[512];
static float logits[VOCAB];

static lh_cache_extra extra_of(kv_rig *r)
{
    for (int i = 0; i < 512; i++) tokens[i] = i * 7;
    for (int i = 0; i < VOCAB; i++) logits[i] = (float)i - 3.5f;
    return (lh_cache_extra){.model = MODEL,
                            .tokens = tokens,
                            .n = lh_kv_seen(r->kv),
                            .logits = logits,
                            .vocab = VOCAB,
                            .seed = UINT64_MAX - 5,
                            .run = "{\"command\": \"generate\"}"};
}

/* Slots of this rank's heads are those of another cache that holds all heads. */
static void check_slots(kv_rig *part, kv_rig *whole, const char *when)
{
    for (int64_t l = 0; l < part->of->layers; l++) {
        const lh_ragged *a = lh_kv_view(part->kv, l), *b = lh_kv_view(whole->kv, l);
        int64_t entry = a->head_dim * lh_dtype_bytes(a->type);
        for (int64_t h = 0; h < a->heads; h++) {
            int64_t g = part->heads.kv_first + h, n = a->len[h], x = a->offset[h], y = b->offset[g];
            mt_check(n == b->len[g], "%s: layer %lld head %lld has %lld entries, %lld were saved", when, (long long)l,
                     (long long)g, (long long)n, (long long)b->len[g]);
            int same = n == b->len[g] &&
                       memcmp((char *)a->k + x * entry, (char *)b->k + y * entry, (size_t)(n * entry)) == 0 &&
                       memcmp((char *)a->v + x * entry, (char *)b->v + y * entry, (size_t)(n * entry)) == 0;
            if (same && a->positions) same = memcmp(a->positions + x, b->positions + y, (size_t)n * 4) == 0;
            if (same && a->stats)
                same = memcmp(a->stats + x * a->stat_count, b->stats + y * a->stat_count,
                              (size_t)(n * a->stat_count) * sizeof *a->stats) == 0;
            mt_check(same, "%s: layer %lld head %lld differs", when, (long long)l, (long long)g);
        }
    }
}

/* Restore on the first `ranks` ranks and go on for some steps, beside `whole`, which went on alone. */
static void restore_on(const kv_rig_case *c, const char *path, int ranks, kv_rig *whole)
{
    lh_comm *some = NULL;
    lh_saved_kv file = {0};
    kv_rig r;
    mt_try(lh_comm_split(mt_comm(), mt_rank() < ranks, &some));
    if (mt_rank() < ranks) {
        mt_try(lh_saved_kv_open(&file, path));
        const lh_cache_extra extra = file.file.extra;
        mt_check(extra.model == MODEL && extra.n == c->tokens + 9 && extra.vocab == VOCAB &&
                     extra.seed == UINT64_MAX - 5,
                 "what goes with the entries");
        mt_check(memcmp(extra.tokens, tokens, (size_t)extra.n * 4) == 0 &&
                     memcmp(extra.logits, logits, sizeof logits) == 0,
                 "tokens or logits");
        kv_rig_open(&r, c, some, &lh_ops_ref);
        mt_try(lh_kv_load(r.kv, &file, MODEL, c->more));
        mt_check(lh_kv_seen(r.kv) == c->tokens + 9, "%lld tokens seen", (long long)lh_kv_seen(r.kv));
        check_slots(&r, whole, "restored");
        for (int step = 0; step < 13; step++) kv_rig_take(&r, LH_KV_STEP, 1);
    }
    lh_saved_kv_close(&file);
    for (int step = 0; step < 13; step++) kv_rig_take(whole, LH_KV_STEP, 1);
    if (mt_rank() < ranks) {
        check_slots(&r, whole, "gone on");
        kv_rig_close(&r);
    }
    kv_rig_fork(whole);
    lh_comm_close(some);
}

/* Saved on all ranks, restored on some. */
static void save_and_restore(const kv_rig_case *of)
{
    lh_comm *self = NULL;
    mt_try(lh_comm_open_self(&self));
    kv_rig_case c = *of;
    kv_rig all, whole;
    kv_rig_result got;
    char *path = make_path();
    kv_rig_open(&all, &c, mt_comm(), &lh_ops_ref);
    kv_rig_open(&whole, &c, self, &lh_ops_ref);
    kv_rig_prefill(&all, &got);
    kv_rig_result_clear(&got);
    kv_rig_prefill(&whole, &got);
    kv_rig_result_clear(&got);
    for (int step = 0; step < 9; step++) { /* slots out of order */
        kv_rig_take(&all, LH_KV_STEP, 1);
        kv_rig_take(&whole, LH_KV_STEP, 1);
    }
    lh_cache_extra extra = extra_of(&all);
    mt_try(lh_kv_save(all.kv, path, &extra));
    kv_rig_fork(&whole);
    if (mt_rank() == 0) mt_try(lh_h5_check(path));
    for (int ranks = 1; ranks <= mt_size(); ranks++) restore_on(&c, path, ranks, &whole);
    kv_rig_close(&all);
    kv_rig_close(&whole);
    forget_path(path);
    lh_comm_close(self);
}

START_TEST(test_a_cache_comes_back_on_any_number_of_ranks)
{
    for (int shape = 0; shape < 4; shape++) {
        kv_rig_case c = case_of(shape, _i);
        save_and_restore(&c);
    }
    mt_end();
}
END_TEST

/* With what goes with its entries, so that evictions go on where they stopped. */
START_TEST(test_every_preset_goes_on_where_it_was_saved)
{
    const lh_policy_preset *preset = lh_policy_at(_i);
    lh_policy plan;
    int is_long = getenv("LONGHAUL_LONG") != NULL; /* else one of the three */
    for (int when = 0; when < 3; when++) {
        if (!is_long && when != _i % 3) continue;
        kv_rig_case c = case_of((_i + when) % 4, 0);
        c.type = LH_F32;
        c.policy = (lh_policy_options){.policy = preset->name, .budget = preset->parts ? "40" : NULL};
        if (when == 1) c.policy.parts.evict = "every:4";
        if (when == 2) c.policy.parts.layer_budget = c.policy.parts.head_budget = "adaptive";
        if (lh_policy_resolve(&plan, &c.policy) == LH_OK) save_and_restore(&c);
    }
    mt_end();
}
END_TEST

START_TEST(test_a_file_that_cannot_be_written_fails_on_all_ranks)
{
    kv_rig_case c = case_of(0, 1);
    kv_rig r;
    kv_rig_result got;
    lh_keep_sets sets = {0};
    kv_rig_open(&r, &c, mt_comm(), &lh_ops_ref);
    kv_rig_prefill(&r, &got);
    lh_cache_extra extra = extra_of(&r);
    mt_expect(lh_kv_save(r.kv, "/proc/nowhere/cache.h5", &extra), LH_EWRITE);
    mt_try(lh_kv_take_keep_sets(r.kv, LH_KEEP_KEPT, &sets));
    mt_expect(lh_keep_sets_write(&sets, mt_comm(), "/proc/nowhere/keep.h5", &extra), LH_EWRITE);
    lh_keep_sets_clear(&sets);
    kv_rig_result_clear(&got);
    kv_rig_close(&r);
    mt_end();
}
END_TEST

START_TEST(test_keep_sets_say_what_every_head_keeps)
{
    kv_rig_case c = case_of(0, 3 - _i * 2);
    kv_rig r;
    kv_rig_result got;
    lh_keep_sets sets = {0};
    char *path = make_path();
    kv_rig_open(&r, &c, mt_comm(), &lh_ops_ref);
    kv_rig_prefill(&r, &got);
    mt_try(lh_kv_take_keep_sets(r.kv, LH_KEEP_KEPT, &sets));
    for (int step = 0; step < 5; step++) kv_rig_take(&r, LH_KV_STEP, 1);
    if (_i) mt_try(lh_kv_take_keep_sets(r.kv, LH_KEEP_FINAL, &sets));
    lh_cache_extra extra = extra_of(&r);
    mt_try(lh_keep_sets_write(&sets, mt_comm(), path, &extra));
    if (mt_rank() == 0) {
        lh_h5 *h5 = NULL;
        lh_h5_shape shape;
        int64_t *offsets = NULL;
        int32_t *positions = NULL, *budgets = NULL;
        mt_try(lh_h5_open(&h5, path, &(lh_h5_header){.kind = "keep-sets", .schema = 1}));
        mt_try(lh_h5_get(h5, "/layers/002/kept/offsets", &(lh_h5_shape){.type = LH_I64, .rank = 1, .dims = {4}}, &shape,
                         &offsets));
        mt_try(lh_h5_get(h5, "/layers/002/kept/positions", &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {-1}},
                         &shape, &positions));
        mt_try(lh_h5_get(h5, "/layers/002/kept/budgets", &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {3}}, &shape,
                         &budgets));
        mt_check(memcmp(offsets, got.kept[2].offsets, 4 * sizeof *offsets) == 0, "offsets");
        mt_check(memcmp(positions, got.kept[2].positions, (size_t)offsets[3] * 4) == 0, "positions");
        for (int g = 0; g < 3; g++) mt_check(budgets[g] == offsets[g + 1] - offsets[g], "budget of head %d", g);
        mt_check(lh_h5_has(h5, "/tokens"), "no tokens");
        mt_check(lh_h5_has(h5, "/layers/000/final/positions") == _i, "the final sets");
        lh_h5_close(h5);
        lh_free(offsets), lh_free(positions), lh_free(budgets);
    }
    lh_keep_sets_clear(&sets);
    kv_rig_result_clear(&got);
    kv_rig_close(&r);
    forget_path(path);
    mt_end();
}
END_TEST

/* ---- biases: layers 0 and 2 have them ---- */

static float bias_of(int64_t layer, int64_t head, int64_t position)
{
    return layer % 2 ? 0.0f : (float)((position * 7 + head * 3 + layer) % 11) - 5.0f;
}

/* Adds them to a file that has none, and numbers of `more` entries that are not there. */
static void add_biases(const char *path, const kv_rig_case *c, int64_t more)
{
    hid_t f = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    mt_check(f >= 0 && H5Adelete(f, "attributes_xxh64") >= 0, "'%s' does not open", path);
    for (int64_t l = 0; l < c->layers; l += 2) {
        char name[64];
        long long offsets[16];
        int positions[4096];
        float biases[4096] = {0};
        snprintf(name, sizeof name, "/layers/%03lld/offsets", (long long)l);
        hid_t at = H5Dopen2(f, name, H5P_DEFAULT);
        mt_check(H5Dread(at, H5T_NATIVE_LLONG, H5S_ALL, H5S_ALL, H5P_DEFAULT, offsets) >= 0, "'%s'", name);
        hsize_t n = (hsize_t)(offsets[c->kv_heads] + more);
        snprintf(name, sizeof name, "/layers/%03lld/positions", (long long)l);
        hid_t from = H5Dopen2(f, name, H5P_DEFAULT), space = H5Screate_simple(1, &n, NULL);
        mt_check(n <= 4096 && H5Dread(from, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, positions) >= 0, "'%s'",
                 name);
        for (int64_t g = 0; g < c->kv_heads; g++)
            for (int64_t i = offsets[g]; i < offsets[g + 1]; i++) biases[i] = bias_of(l, g, positions[i]);
        snprintf(name, sizeof name, "/layers/%03lld/bias", (long long)l);
        hid_t to = H5Dcreate2(f, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        mt_check(H5Dwrite(to, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, biases) >= 0, "'%s'", name);
        H5Dclose(at), H5Dclose(from), H5Dclose(to), H5Sclose(space);
    }
    H5Fclose(f);
}

/* Entries that were saved have their biases, those that came after them 0. */
static void check_biases(const kv_rig *r, int64_t saved, const char *when)
{
    for (int64_t l = 0; l < r->of->layers; l++) {
        const lh_ragged *v = lh_kv_view(r->kv, l);
        mt_check((v->bias != NULL) == (l % 2 == 0), "%s: layer %lld", when, (long long)l);
        for (int64_t h = 0; h < v->heads && v->bias; h++) {
            for (int64_t s = 0; s < v->len[h]; s++) {
                int64_t position = v->positions ? v->positions[v->offset[h] + s] : s;
                float want = position < saved ? bias_of(l, r->heads.kv_first + h, position) : 0.0f;
                mt_check(v->bias[v->offset[h] + s] == want, "%s: the bias of position %lld is %g, not %g", when,
                         (long long)position, (double)v->bias[v->offset[h] + s], (double)want);
            }
        }
    }
}

/* Little room is asked for, so that arenas are reallocated on the way. */
static void load_biased(kv_rig *r, const kv_rig_case *c, const char *path, lh_comm *some)
{
    lh_saved_kv file = {0};
    mt_try(lh_saved_kv_open(&file, path));
    kv_rig_open(r, c, some, &lh_ops_ref);
    mt_try(lh_kv_load(r->kv, &file, MODEL, 2));
    lh_saved_kv_close(&file);
}

static void go_on_biased(const kv_rig_case *c, const char *path, int ranks)
{
    lh_comm *some = NULL;
    kv_rig r;
    const int64_t saved = c->tokens + 9;
    mt_try(lh_comm_split(mt_comm(), mt_rank() < ranks, &some));
    if (mt_rank() < ranks) {
        load_biased(&r, c, path, some);
        check_biases(&r, saved, "loaded");
        kv_rig_fork(&r);
        for (int step = 0; step < 13; step++) kv_rig_take(&r, LH_KV_STEP, 1);
        check_biases(&r, saved, "gone on");
        kv_rig_fork(&r);
        check_biases(&r, saved, "restored");
        for (int step = 0; step < 6; step++) kv_rig_take(&r, LH_KV_STEP, 1);
        if (ranks == mt_size()) {
            lh_cache_extra extra = extra_of(&r);
            mt_try(lh_kv_save(r.kv, path, &extra));
            kv_rig_close(&r);
            load_biased(&r, c, path, some);
            check_biases(&r, saved, "saved again");
        }
        kv_rig_close(&r);
    }
    lh_comm_close(some);
}

START_TEST(test_biases_go_with_their_entries)
{
    static const int policy_at[] = {0, 2, 5, 7};
    kv_rig_case c = case_of(_i, policy_at[_i]);
    kv_rig r;
    kv_rig_result got;
    char *path = make_path();
    kv_rig_open(&r, &c, mt_comm(), &lh_ops_ref);
    kv_rig_prefill(&r, &got);
    for (int step = 0; step < 9; step++) kv_rig_take(&r, LH_KV_STEP, 1);
    lh_cache_extra extra = extra_of(&r);
    mt_try(lh_kv_save(r.kv, path, &extra));
    kv_rig_result_clear(&got);
    kv_rig_close(&r);
    if (mt_rank() == 0) add_biases(path, &c, 0);
    mt_try(lh_comm_barrier(mt_comm()));
    for (int ranks = 1; ranks <= mt_size(); ranks++) go_on_biased(&c, path, ranks);
    forget_path(path);
    mt_end();
}
END_TEST

/* ---- damage, on rank 0 alone ---- */

/* One element of a dataset, or with `attr` that integer attribute, becomes `value`; INFINITY: the object is removed. */
typedef struct damage {
    const char *object, *attr;
    hsize_t at;
    double value;
    const char *words; /* of the message */
    int policy;        /* of the cache, else `streaming` */
    int bias;          /* 1: the cache has biases; 2: one too many */
} damage;

static void apply(const char *path, const damage *d)
{
    hid_t f = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    long long whole = (long long)d->value;
    mt_check(f >= 0, "'%s' does not open", path);
    if (d->attr) {
        H5Adelete_by_name(f, d->object, d->attr, H5P_DEFAULT);
        hid_t space = H5Screate(H5S_SCALAR);
        hid_t a = H5Acreate_by_name(f, d->object, d->attr, H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        mt_check(H5Awrite(a, H5T_NATIVE_LLONG, &whole) >= 0, "attribute '%s'", d->attr);
        H5Aclose(a);
        H5Sclose(space);
    } else if (isinf(d->value)) {
        mt_check(H5Ldelete(f, d->object, H5P_DEFAULT) >= 0, "object '%s'", d->object);
    } else {
        hid_t a = H5Dopen2(f, d->object, H5P_DEFAULT), space = H5Dget_space(a);
        if (H5Aexists(a, "xxh64") > 0) H5Adelete(a, "xxh64"); /* the numbers themselves are to be refused */
        hsize_t at[3] = {d->at}, one[3] = {1, 1, 1};
        hid_t memory = H5Screate_simple(1, one, NULL);
        H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, one, NULL);
        herr_t rc = isnan(d->value) || fabs(d->value) > 1e19
                        ? H5Dwrite(a, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, &d->value)
                        : H5Dwrite(a, H5T_NATIVE_LLONG, memory, space, H5P_DEFAULT, &whole);
        mt_check(rc >= 0, "dataset '%s'", d->object);
        H5Sclose(memory);
        H5Sclose(space);
        H5Dclose(a);
    }
    H5Fclose(f);
}

static const damage damages[] = {
    {.object = "/layers/000/offsets", .at = 0, .value = 1, .words = "does not rise"},
    {.object = "/layers/001/offsets", .at = 1, .value = -1, .words = "does not rise"},
    {.object = "/layers/001/offsets", .at = 1, .value = 1000, .words = "does not rise"},
    {.object = "/layers/001/offsets", .at = 1, .value = 1e18, .words = "does not rise"},
    {.object = "/layers/001/offsets", .at = 3, .value = 80, .words = "shape"},
    {.object = "/layers/001/offsets", .at = 1, .value = 31, .words = "hold 31 and 29 entries"},
    {.object = "/layers/001/positions", .at = 3, .value = -1, .words = "cannot be"},
    {.object = "/layers/001/positions", .at = 3, .value = 100000, .words = "cannot be"},
    {.object = "/layers/001/positions", .at = 3, .value = 1, .words = "cannot be"},
    {.object = "/layers/002/k", .at = 5, .value = NAN, .words = "not finite"},
    {.object = "/layers/002/v", .at = 5, .value = NAN, .words = "not finite"},
    {.object = "/layers/002/v", .at = 5, .value = 1e30, .words = "not finite or not below 2^64"},
    {.object = "/layers/002/v", .value = INFINITY, .words = "/layers/002/v"},
    {.object = "/layers/000", .value = INFINITY, .words = "/layers/000"},
    {.object = "/tokens", .value = INFINITY, .words = "/tokens"},
    {.object = "/tokens", .at = 2, .value = -5, .words = "token 2"},
    {.object = "/logits", .at = 2, .value = NAN, .words = "not finite"},
    {.object = "/policy", .value = INFINITY, .words = "/policy"},
    {.object = "/state", .value = INFINITY, .words = "/state"},
    {.object = "/state", .attr = "layers", .value = 4, .words = "4 layers"},
    {.object = "/state", .attr = "kv_heads", .value = 1e15, .words = "kv_heads"},
    {.object = "/state", .attr = "head_dim", .value = 0, .words = "head_dim"},
    {.object = "/state", .attr = "seen_tokens", .value = 1 << 20, .words = "1048576"},
    {.object = "/state", .attr = "prompt_tokens", .value = -3, .words = "prompt_tokens"},
    {.object = "/layers/001", .attr = "budget", .value = 0, .words = "budget"},
    {.object = "/layers/001", .attr = "budget", .value = 9.2e18, .words = "budget"},
    {.object = "/layers/001/ring", .at = 1, .value = NAN, .words = "not finite", .policy = 5},
    {.object = "/layers/001/ring", .value = INFINITY, .words = "ring", .policy = 5},
    {.object = "/state", .attr = "seen_tokens", .value = 96, .words = "does not rise", .policy = 6},
    {.object = "/layers/000/bias", .at = 3, .value = NAN, .words = "not finite", .bias = 1},
    {.object = "/layers/002/bias", .at = 3, .value = 1024, .words = "not below 2^10", .bias = 1},
    {.object = "/layers/002/bias", .at = 0, .value = -5000, .words = "not below 2^10", .bias = 1},
    {.object = "/layers/000/bias", .at = 0, .value = 1, .words = "shape", .bias = 2},
    {.object = "/state", .attr = "question_tokens", .value = 0, .words = "question_tokens", .policy = 8},
    {.object = "/state", .attr = "question_tokens", .value = 98, .words = "question_tokens", .policy = 8},
};

START_TEST(test_damaged_caches_are_refused)
{
    lh_comm *self = NULL;
    kv_rig r;
    kv_rig_result got;
    char *path = make_path();
    mt_try(lh_comm_open_self(&self));
    for (size_t i = 0; i < sizeof damages / sizeof *damages && mt_rank() == 0; i++) {
        lh_saved_kv file = {0};
        kv_rig_case c = case_of(0, damages[i].policy ? damages[i].policy : 1);
        kv_rig back;
        kv_rig_open(&r, &c, self, &lh_ops_ref);
        kv_rig_prefill(&r, &got);
        lh_cache_extra extra = extra_of(&r);
        mt_try(lh_kv_save(r.kv, path, &extra));
        if (damages[i].bias) add_biases(path, &c, damages[i].bias - 1);
        apply(path, &damages[i]);
        kv_rig_open(&back, &c, self, &lh_ops_ref);
        lh_status st = lh_saved_kv_open(&file, path);
        if (st == LH_OK) st = lh_kv_load(back.kv, &file, MODEL, 5);
        mt_check(st == LH_EFILE, "damage %d of '%s' gives status %d", (int)i, damages[i].object, (int)st);
        mt_check(strstr(lh_error_message(), damages[i].words) != NULL, "damage %d: '%s'", (int)i, lh_error_message());
        lh_saved_kv_close(&file);
        kv_rig_close(&back);
        kv_rig_result_clear(&got);
        kv_rig_close(&r);
    }
    forget_path(path);
    lh_comm_close(self);
    mt_end();
}
END_TEST

START_TEST(test_a_cache_that_does_not_fit_is_refused)
{
    kv_rig_case c = case_of(0, 1);
    static const lh_policy_options other = {.policy = "streaming", .budget = "31"};
    char *path = make_path();
    kv_rig r;
    kv_rig_result got;
    kv_rig_open(&r, &c, mt_comm(), &lh_ops_ref);
    kv_rig_prefill(&r, &got);
    lh_cache_extra extra = extra_of(&r);
    mt_try(lh_kv_save(r.kv, path, &extra));
    kv_rig_result_clear(&got);
    kv_rig_close(&r);
    for (int n = 0; n < 5; n++) {
        static const char *const words[] = {"another model", "f32", "'--policy'", "layers", "dimensions"};
        kv_rig_case d = c;
        lh_saved_kv file = {0};
        if (n == 1) d.type = LH_BF16;
        if (n == 2) d.policy = other;
        if (n == 3) d.layers = 2;
        if (n == 4) d.dim = 16;
        kv_rig_open(&r, &d, mt_comm(), &lh_ops_ref);
        mt_try(lh_saved_kv_open(&file, path));
        mt_expect(lh_kv_load(r.kv, &file, n ? MODEL : 1, 5), n == 2 ? LH_EUSAGE : LH_EFILE);
        mt_check(strstr(lh_error_message(), words[n]) != NULL, "'%s'", lh_error_message());
        lh_saved_kv_close(&file);
        kv_rig_close(&r);
    }
    forget_path(path);
    mt_end();
}
END_TEST

int main(void)
{
    int presets = 0;
    while (lh_policy_at(presets)) presets++;
    Suite *suite = suite_create("files");
    TCase *laws = tcase_create("laws");
    tcase_set_timeout(laws, 0);
    tcase_add_loop_test(laws, test_a_cache_comes_back_on_any_number_of_ranks, 0, POLICIES);
    tcase_add_loop_test(laws, test_every_preset_goes_on_where_it_was_saved, 0, presets);
    tcase_add_test(laws, test_a_file_that_cannot_be_written_fails_on_all_ranks);
    tcase_add_loop_test(laws, test_keep_sets_say_what_every_head_keeps, 0, 2);
    tcase_add_loop_test(laws, test_biases_go_with_their_entries, 0, 4);
    tcase_add_test(laws, test_damaged_caches_are_refused);
    tcase_add_test(laws, test_a_cache_that_does_not_fit_is_refused);
    suite_add_tcase(suite, laws);
    return mt_run(suite);
}
