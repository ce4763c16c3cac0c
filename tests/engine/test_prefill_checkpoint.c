/* Laws of a prefill that is kept in a file: saved at the end of any layer on any number of ranks, it goes on on any
 * other with the same bits, under every policy; what does not belong to a run is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "engine/prefill_checkpoint.h"
#include "mpi_check.h"
#include "tiny_engine.h"
#include "tiny_model.h"

enum { PROMPT = 150, MORE = 20, STEPS = 9, VOCAB = 211, LAYERS = 5 };

static const tiny_shape shapes[] = {
    {.name = "8/2", .heads = 8, .kv_heads = 2, .head_dim = 8, .layers = LAYERS, .ff = 70, .vocab = VOCAB},
    {.name = "6/3 sliding",
     .family = "gemma2", /* every second layer */
     .heads = 6,
     .kv_heads = 3,
     .head_dim = 8,
     .layers = LAYERS,
     .ff = 50,
     .vocab = VOCAB,
     .window = 60},
    {.name = "4/1", .heads = 4, .kv_heads = 1, .head_dim = 16, .layers = LAYERS, .ff = 33, .vocab = VOCAB},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Beside all presets. */
static const lh_policy_options variants[] = {
    {.policy = "snapkv", .budget = "40", .parts = {.evict = "every:4"}},
    {.policy = "snapkv", .budget = "40", .parts = {.evict = "block:16"}},
    {.policy = "h2o", .budget = "40", .parts = {.evict = "block:16"}},
    {.policy = "h2o", .budget = "20%"},
    {.policy = "roco", .budget = "48", .parts = {.evict = "every:3"}},
    {.policy = "longhaul", .budget = "40", .parts = {.own = {{"fit", "bias"}}}},
    {.policy = "longhaul", .budget = "24", .parts = {.own = {{"fit", "both"}}}},
    {.policy = "longhaul", .budget = "64", .parts = {.own = {{"fit", "both"}}}}, /* the last layer slides, all fits */
    {.policy = "ask-later", .budget = "30"},
    {.policy = "h2o",
     .budget = "40",
     .parts = {.evict = "never", .layer_budget = "adaptive", .head_budget = "adaptive"}},
    {.policy = "streaming", .budget = "40", .parts = {.positions = "slot"}},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static char folder[64], model[SHAPES][96];
static int32_t ids[PROMPT];

static const char *path_of(char out[128], const char *what, int policy, int64_t layer)
{
    snprintf(out, 128, "%s/%s-%d-%d.h5", folder, what, policy, (int)layer);
    return out;
}

static void enter(void)
{
    mt_folder_make(folder);
    for (int i = 0; i < SHAPES; i++) {
        snprintf(model[i], sizeof model[i], "%s/model%d.h5", folder, i);
        if (mt_rank() == 0) tiny_model_make(model[i], &shapes[i]);
    }
    tiny_model_tokens(ids, PROMPT, VOCAB);
    mt_try(lh_comm_barrier(mt_comm()));
}

static void leave(void)
{
    mt_folder_remove(folder);
}

/* The variants, then the presets. 0: not for a prompt without a question. */
static int policy_at(lh_policy *out, int i)
{
    lh_policy_options o = {0};
    if (i < VARIANTS) {
        mt_try(lh_policy_resolve(out, &variants[i]));
        return 1;
    }
    const lh_policy_preset *preset = lh_policy_at(i - VARIANTS);
    o.policy = preset->name;
    o.budget = preset->parts ? "40" : NULL;
    return lh_policy_resolve(out, &o) == LH_OK && out->proxies.kind != LH_PROXIES_QUESTION;
}

/* One rank takes all variants on every shape; otherwise policies are divided among the shapes. */
static int is_of(int policy, int shape)
{
    return policy % SHAPES == shape || (policy < VARIANTS && mt_size() == 1) || getenv("LONGHAUL_LONG");
}

static int policy_count(void)
{
    int n = VARIANTS;
    while (lh_policy_at(n - VARIANTS)) n++;
    return n;
}

static lh_session *open_session(lh_engine *engine, const lh_policy *policy, int64_t more)
{
    lh_session *s = NULL;
    lh_policy sized = *policy;
    mt_try(lh_engine_size_policy(engine, &sized));
    mt_try(lh_session_open(
        &s, engine,
        &(lh_session_options){.policy = &sized, .prompt = PROMPT, .more = more, .length = PROMPT + more, .seed = 3}));
    return s;
}

/* To the end, and some tokens more: what there is then. saves NULL, or called after every layer. */
static void finish(lh_session *s, lh_prefill *p, const char *path, int policy)
{
    char file[128];
    for (int64_t left = 1; left > 0;) {
        const int64_t before = lh_prefill_layers_done(p);
        lh_status st = lh_prefill_next(p, &left);
        mt_try(st);
        if (st != LH_OK) break;
        const int64_t done = lh_prefill_layers_done(p);
        if (policy >= 0 && done > before)
            mt_try(lh_prefill_checkpoint_save(
                s, p, &(lh_checkpointing){.path = path_of(file, "prefill", policy, done), .run = "{}"}));
    }
    lh_prefill_close(p);
    mt_try(lh_session_end_prefill(s));
    for (int t = 0; t < STEPS; t++) mt_try(lh_session_step(s, ids[t]));
    mt_try(lh_session_write(s, path, &(lh_cache_extra){.seed = 3, .run = "{}"}));
}

static int same_files(const char *a, const char *b)
{
    lh_buf texts[2] = {{0}};
    mt_try(lh_file_read_regular(&texts[0], a, 1 << 28));
    mt_try(lh_file_read_regular(&texts[1], b, 1 << 28));
    const int same =
        texts[0].bytes == texts[1].bytes && memcmp(texts[0].data, texts[1].data, (size_t)texts[0].bytes) == 0;
    lh_buf_clear(&texts[0]);
    lh_buf_clear(&texts[1]);
    return same;
}

/* The caches of a run that nobody saved and of one that is saved after every layer, on all ranks. */
static void make_files(int shape, int policy, const lh_policy *of, lh_engine *engine)
{
    char file[2][128];
    for (int saves = 0; saves < 2; saves++) {
        lh_prefill *p = NULL;
        lh_session *s = open_session(engine, of, MORE);
        mt_try(lh_session_begin_prefill(s, ids, PROMPT, &p));
        finish(s, p, path_of(file[saves], saves ? "saved" : "cache", policy, 0), saves ? policy : -1);
        lh_session_close(s);
    }
    if (mt_rank() == 0)
        mt_check(same_files(file[0], file[1]), "%s %s: saving changes bits", shapes[shape].name, of->name);
}

static void go_on(int shape, int policy, const lh_policy *of, lh_engine *engine)
{
    char file[3][128];
    const int ranks = lh_comm_size(lh_engine_get(engine)->comm);
    for (int64_t layer = 1; layer < LAYERS; layer++) {
        lh_prefill *p = NULL;
        if (ranks > 1 && !getenv("LONGHAUL_LONG") && layer != 1 + (policy + ranks) % (LAYERS - 1)) continue;
        lh_session *s = open_session(engine, of, MORE);
        mt_try(lh_session_begin_prefill(s, ids, PROMPT, &p));
        lh_status st =
            lh_prefill_checkpoint_load(s, p, &(lh_checkpointing){.path = path_of(file[0], "prefill", policy, layer)});
        mt_try(st);
        mt_check(st != LH_OK || lh_prefill_layers_done(p) == layer, "at layer %d", (int)lh_prefill_layers_done(p));
        if (st == LH_OK)
            finish(s, p, path_of(file[1], "gone-on", policy, layer), -1);
        else
            lh_prefill_close(p);
        lh_session_close(s);
        if (mt_rank() == 0 && st == LH_OK)
            mt_check(same_files(path_of(file[2], "cache", policy, 0), file[1]),
                     "%s %s: from layer %d other bits on %d ranks", shapes[shape].name, of->name, (int)layer, ranks);
    }
}

/* Every policy of a shape, on the first `ranks` ranks. */
static void each_policy(int shape, int ranks,
                        void (*run)(int shape, int policy, const lh_policy *of, lh_engine *engine))
{
    lh_comm *some = NULL;
    const int count = policy_count();
    mt_try(lh_comm_split(mt_comm(), mt_rank() < ranks, &some));
    if (mt_rank() < ranks) {
        lh_engine *engine = tiny_engine_open(some, &(lh_engine_options){.model = model[shape], .deterministic = 1});
        for (int i = 0; i < count; i++) {
            lh_policy policy;
            if (is_of(i, shape) && policy_at(&policy, i)) run(shape, i, &policy, engine);
        }
        lh_engine_close(engine);
    }
    lh_comm_close(some);
}

START_TEST(test_a_prefill_goes_on_from_any_layer_on_any_number_of_ranks)
{
    const int shape = _i;
    enter();
    each_policy(shape, mt_size(), make_files);
    for (int ranks = 1; ranks <= mt_size(); ranks++) each_policy(shape, ranks, go_on);
    leave();
    mt_end();
}
END_TEST

/* A run that would go on with a file is refused with `part` in the message. */
static void refused(lh_engine *engine, const lh_policy *policy, int64_t more, const char *part)
{
    char file[128];
    lh_prefill *p = NULL;
    lh_session *s = open_session(engine, policy, more);
    mt_try(lh_session_begin_prefill(s, ids, PROMPT, &p));
    mt_expect(lh_prefill_checkpoint_load(s, p, &(lh_checkpointing){.path = path_of(file, "prefill", 0, 2)}), LH_EUSAGE);
    mt_check(strstr(lh_error_message(), part) != NULL, "'%s' is not in '%s'", part, lh_error_message());
    lh_prefill_close(p);
    lh_session_close(s);
}

START_TEST(test_what_belongs_to_another_run_is_refused)
{
    lh_policy policy, other;
    enter();
    lh_engine *engine = tiny_engine_open(mt_comm(), &(lh_engine_options){.model = model[0], .deterministic = 1});
    policy_at(&policy, 0);
    policy_at(&other, 1);
    make_files(0, 0, &policy, engine);
    refused(engine, &other, MORE, "was made with the policy 'snapkv");
    refused(engine, &policy, MORE + 1, "'tokens of the whole run' is 170 there and 171 here");
    ids[77]++;
    refused(engine, &policy, MORE, "belongs to another prompt: its token 77 is ");
    lh_engine_close(engine);
    leave();
    mt_end();
}
END_TEST

typedef struct counts {
    int64_t kept, newest;
} counts;

static void count(void *self, int64_t layers_done)
{
    counts *c = self;
    c->kept++;
    c->newest = layers_done;
}

/* Files are written after every layer, and the last one stays; or none can be. */
static void keep(lh_engine *engine, const char *path, int64_t newest)
{
    lh_policy policy;
    counts c = {0};
    int64_t before = -1;
    policy_at(&policy, 0);
    lh_session *s = open_session(engine, &policy, MORE);
    mt_try(lh_session_prefill_kept(s, &(lh_tokens){ids, PROMPT, PROMPT}, NULL,
                                   &(lh_checkpointing){.path = path, .run = "{}", .self = &c, .kept = count}, &before));
    mt_check(before == 0 && c.kept == LAYERS && c.newest == newest, "%d layers before, %d times, at last of %d layers",
             (int)before, (int)c.kept, (int)c.newest);
    mt_check(lh_file_exists(path) == (newest > 0), "'%s' is %s", path, newest ? "missing" : "there");
    mt_try(lh_comm_barrier(mt_comm()));
    lh_checkpoint_remove(mt_comm(), path);
    mt_try(lh_comm_barrier(mt_comm()));
    mt_check(!lh_file_exists(path), "'%s' is left", path);
    lh_session_close(s);
}

START_TEST(test_the_last_checkpoint_stays_and_one_that_cannot_be_written_ends_nothing)
{
    char file[128];
    enter();
    lh_engine *engine = tiny_engine_open(mt_comm(), &(lh_engine_options){.model = model[0], .deterministic = 1});
    keep(engine, path_of(file, "kept", 0, 0), LAYERS - 1);
    keep(engine, "/proc/nowhere/kept.h5", 0);
    lh_engine_close(engine);
    leave();
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("prefill checkpoint");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, test_a_prefill_goes_on_from_any_layer_on_any_number_of_ranks, 0, SHAPES);
    tcase_add_test(tc, test_what_belongs_to_another_run_is_refused);
    tcase_add_test(tc, test_the_last_checkpoint_stays_and_one_that_cannot_be_written_ends_nothing);
    suite_add_tcase(suite, tc);
    return mt_run(suite);
}
