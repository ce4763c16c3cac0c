/* Laws of engine/same_file.h and of files that change: every rank reads checkpoint and cache for itself, and a run has
 * the same files on all ranks from the first byte to the last, or fails. */
#include <fcntl.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/output.h"
#include "comm/comm_impl.h"
#include "engine/generate.h"
#include "engine/given.h"
#include "engine/prefill_checkpoint.h"
#include "mpi_check.h"
#include "tiny_model.h"

enum { PROMPT = 90, NEW = 8, VOCAB = 97 };

static const tiny_shape shapes[] = {
    {.name = "one", .heads = 6, .kv_heads = 3, .head_dim = 8, .layers = 2, .ff = 40, .vocab = VOCAB},
    {.name = "two", .heads = 6, .kv_heads = 3, .head_dim = 8, .layers = 2, .ff = 40, .vocab = VOCAB, .window = 4000}};

static char folder[64], model[96], other[96], cache[96], spare[96];
static int32_t ids[PROMPT];

static void enter(void)
{
    char *const names[] = {model, other, cache, spare};
    mt_folder_make(folder);
    for (int i = 0; i < 4; i++) snprintf(names[i], sizeof model, "%s/%c.h5", folder, "mocs"[i]);
    if (mt_rank() == 0) {
        char scores[128];
        tiny_model_make(model, &shapes[0]);
        tiny_model_make(other, &shapes[1]);
        for (int i = 0; i < 2; i++) { /* they are compared before the checkpoints */
            snprintf(scores, sizeof scores, "%s/%c.scores.h5", folder, "mo"[i]);
            mt_check(remove(scores) == 0, "cannot remove %s", scores);
        }
    }
    tiny_model_tokens(ids, PROMPT, VOCAB);
    mt_try(lh_comm_barrier(mt_comm()));
}

static void leave(void)
{
    char command[128];
    mt_try(lh_comm_barrier(mt_comm()));
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (mt_rank() == 0) mt_check(system(command) == 0, "cannot remove %s", folder);
}

static int says(const char *part)
{
    return strstr(lh_error_message(), part) != NULL;
}

static void copy(const char *from, const char *to)
{
    lh_buf bytes = {0};
    if (mt_rank() == 0) {
        mt_try(lh_file_read(&bytes, from, 1 << 28));
        mt_try(lh_file_write(to, bytes.data, bytes.bytes));
        lh_buf_clear(&bytes);
    }
    mt_try(lh_comm_barrier(mt_comm()));
}

/* ---- a file that shrinks at a chosen moment ---- */

/* Rank 0 cuts the file `victim` in half at its `at`th agreement or comparison. */
static struct {
    const lh_comm_ops *plain;
    lh_comm_ops ops;
    const char *victim;
    int64_t at, calls;
} cutter;

static lh_status cut_and_gather(lh_comm *comm, const void *send, void *recv, int64_t bytes)
{
    struct stat info;
    if (++cutter.calls == cutter.at && mt_rank() == 0)
        mt_check(stat(cutter.victim, &info) == 0 && truncate(cutter.victim, info.st_size / 2) == 0, "not cut");
    return cutter.plain->allgather(comm, send, recv, bytes);
}

static void begin_cut(const char *victim, int64_t at)
{
    cutter.plain = mt_comm()->ops;
    cutter.ops = *cutter.plain;
    cutter.ops.allgather = cut_and_gather;
    cutter.victim = victim;
    cutter.at = at;
    cutter.calls = 0;
    mt_comm()->ops = &cutter.ops;
}

static void end_cut(void)
{
    mt_comm()->ops = cutter.plain;
}

/* ---- runs ---- */

static lh_status open_on(lh_engine **engine, const char *path)
{
    return lh_engine_open_on(
        engine, mt_comm(),
        &(lh_engine_options){.model = path, .device = "cpu", .dtype = "f32", .kv_dtype = "f32", .threads = 1});
}

static lh_generate_request request(lh_policy *policy)
{
    mt_try(lh_policy_resolve(policy, &(lh_policy_options){.policy = "snapkv", .budget = "40"}));
    return (lh_generate_request){.max_new = NEW,
                                 .ignore_eos = 1,
                                 .sampling = {.top_p = 1, .repeat_penalty = 1},
                                 .logits_last = 1,
                                 .policy = policy};
}

static void save(lh_engine *engine, const char *path, int64_t tokens)
{
    lh_policy policy;
    lh_generation g = {0};
    lh_generate_request q = request(&policy);
    q.prompt = (lh_tokens){ids + PROMPT - tokens, tokens, tokens};
    q.save_cache = path;
    mt_try(lh_generate(engine, &q, &g));
    lh_generation_clear(&g);
}

static lh_status go_on(lh_engine *engine, const char *path, lh_generation *g)
{
    lh_policy policy;
    lh_generate_request q = request(&policy);
    q.policy = NULL;
    q.load_cache = path;
    *g = (lh_generation){0};
    return lh_generate(engine, &q, g);
}

START_TEST(test_a_checkpoint_that_shrinks_never_becomes_zeros)
{
    lh_engine *engine = NULL;
    int told = 0;
    enter();
    begin_cut(model, 0);
    mt_try(open_on(&engine, model));
    end_cut();
    lh_engine_close(engine);
    const int64_t last = cutter.calls;
    mt_check(last > 2, "%lld agreements", (long long)last);
    copy(model, spare);
    for (int64_t at = 1; at < last; at++) {
        engine = NULL;
        begin_cut(model, at);
        mt_expect(open_on(&engine, model), LH_EFILE);
        end_cut();
        told |= says("m.h5' changed while it was read, from ");
        lh_engine_close(engine);
        copy(spare, model);
    }
    mt_check(told, "no change was told");
    leave();
    mt_end();
}
END_TEST

START_TEST(test_a_cache_that_shrinks_never_becomes_zeros)
{
    lh_engine *engine = NULL;
    lh_generation whole, g;
    int told = 0;
    enter();
    mt_try(open_on(&engine, model));
    save(engine, cache, PROMPT);
    copy(cache, spare);
    mt_try(go_on(engine, cache, &whole));
    for (int64_t at = 1; at <= 12; at++) {
        begin_cut(cache, at);
        lh_status st = go_on(engine, cache, &g);
        end_cut();
        mt_check(st == LH_OK || st == LH_EFILE, "%d: %s", (int)st, lh_error_message());
        told |= st == LH_EFILE && says("c.h5' changed while it was read, from ");
        if (st == LH_OK) {
            const lh_tokens *a = &whole.answers[0].ids, *b = &g.answers[0].ids;
            mt_check(a->n == b->n && memcmp(a->ids, b->ids, (size_t)a->n * sizeof *a->ids) == 0, "other tokens");
        }
        lh_generation_clear(&g);
        copy(spare, cache);
    }
    mt_check(told, "no change was told");
    lh_generation_clear(&whole);
    lh_engine_close(engine);
    leave();
    mt_end();
}
END_TEST

START_TEST(test_ranks_never_mix_checkpoints)
{
    lh_engine *engine = NULL;
    char who[32];
    enter();
    copy(model, spare);
    mt_try(open_on(&engine, mt_rank() % 2 ? spare : model)); /* a copy is the same */
    lh_engine_close(engine);
    for (int odd = 1; odd < mt_size(); odd++) {
        engine = NULL;
        mt_expect(open_on(&engine, mt_rank() >= odd ? other : model), LH_EFILE);
        snprintf(who, sizeof who, "' of rank %d on ", odd);
        mt_check(says("the contents of '") && says(".h5") && says(who) && lh_comm_agreed(mt_comm()), "message is '%s'",
                 lh_error_message());
    }
    leave();
    mt_end();
}
END_TEST

START_TEST(test_ranks_never_mix_caches)
{
    lh_engine *engine = NULL;
    lh_generation g;
    char who[32];
    enter();
    mt_try(open_on(&engine, model));
    save(engine, cache, PROMPT);
    copy(cache, spare);
    mt_try(go_on(engine, mt_rank() % 2 ? spare : cache, &g)); /* a copy is the same */
    lh_generation_clear(&g);
    save(engine, spare, PROMPT - 1);
    for (int odd = 1; odd < mt_size(); odd++) {
        mt_expect(go_on(engine, mt_rank() >= odd ? spare : cache, &g), LH_EFILE);
        snprintf(who, sizeof who, "' of rank %d on ", odd);
        mt_check(says("the contents of '") && says(who), "message is '%s'", lh_error_message());
        lh_generation_clear(&g);
    }
    lh_engine_close(engine);
    leave();
    mt_end();
}
END_TEST

/* ---- damage ---- */

/* Where the arrays and texts of a file are. */
typedef struct stored {
    char name[64];
    off_t at; /* of a byte in the middle */
} stored;

static struct {
    stored at[256];
    int n;
} places;

static herr_t add_place(hid_t file, const char *name, const H5L_info_t *link, void *arg)
{
    hid_t object = H5Oopen(file, name, H5P_DEFAULT);
    (void)link, (void)arg;
    if (H5Iget_type(object) == H5I_DATASET && H5Dget_storage_size(object) > 0 && places.n < 256) {
        stored *s = &places.at[places.n++];
        snprintf(s->name, sizeof s->name, "/%s", name);
        s->at = (off_t)(H5Dget_offset(object) + H5Dget_storage_size(object) / 2);
    }
    H5Oclose(object);
    return 0;
}

static void find_places(const char *path)
{
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    places.n = 0;
    mt_check(file >= 0 && H5Lvisit(file, H5_INDEX_NAME, H5_ITER_INC, add_place, NULL) >= 0, "'%s' does not open", path);
    H5Fclose(file);
}

/* The lowest bit of a byte: a float stays finite, and a position may stay below the number of tokens. */
static void flip(const char *path, off_t at)
{
    char byte = 0;
    mt_try(lh_comm_barrier(mt_comm()));
    if (mt_rank() == 0) {
        const int fd = open(path, O_RDWR);
        mt_check(fd >= 0 && pread(fd, &byte, 1, at) == 1, "'%s' cannot be read", path);
        byte ^= 1;
        mt_check(pwrite(fd, &byte, 1, at) == 1 && close(fd) == 0, "'%s' cannot be written", path);
    }
    mt_try(lh_comm_barrier(mt_comm()));
}

/* All that a file holds is damaged in turn: its reader refuses it, naming the file. */
static void refuses_damage(lh_engine *engine, const char *path, lh_status (*read)(lh_engine *engine, const char *path))
{
    mt_try(read(engine, path));
    find_places(path);
    mt_check(places.n > 5, "'%s' holds %d arrays and texts", path, places.n);
    for (int i = 0; i < places.n; i++) {
        flip(path, places.at[i].at);
        const lh_status st = read(engine, path);
        mt_check(st == LH_EFILE && says(path), "%s of %s: %d, '%s'", places.at[i].name, path, (int)st,
                 lh_error_message());
        lh_error_clear();
        flip(path, places.at[i].at);
    }
    mt_try(read(engine, path));
}

static lh_status read_cache(lh_engine *engine, const char *path)
{
    lh_generation g;
    const lh_status st = go_on(engine, path, &g);
    lh_generation_clear(&g);
    return st;
}

static lh_status read_keep_sets(lh_engine *engine, const char *path)
{
    lh_policy policy;
    lh_generation g = {0};
    lh_generate_request q = request(&policy);
    mt_try(lh_given_policy(&policy));
    q.prompt = (lh_tokens){ids, PROMPT, PROMPT};
    q.given = path;
    const lh_status st = lh_generate(engine, &q, &g);
    lh_generation_clear(&g);
    return st;
}

static lh_session *begin_prefill(lh_engine *engine, const lh_policy *policy, lh_prefill **prefill)
{
    lh_session *s = NULL;
    mt_try(lh_session_open(&s, engine,
                           &(lh_session_options){.policy = policy, .prompt = PROMPT, .more = 4, .length = PROMPT + 4}));
    mt_try(lh_session_begin_prefill(s, ids, PROMPT, prefill));
    return s;
}

/* Its layers hold back rows of queries for a fit. */
static const lh_policy_options held = {.policy = "longhaul", .budget = "24", .parts = {.own = {{"fit", "both"}}}};

static lh_status read_prefill(lh_engine *engine, const char *path)
{
    lh_policy policy;
    lh_prefill *p = NULL;
    mt_try(lh_policy_resolve(&policy, &held));
    lh_session *s = begin_prefill(engine, &policy, &p);
    const lh_status st = lh_prefill_checkpoint_load(s, p, &(lh_checkpointing){.path = path});
    lh_prefill_close(p);
    lh_session_close(s);
    return st;
}

static void save_prefill(lh_engine *engine, const char *path)
{
    lh_policy policy;
    lh_prefill *p = NULL;
    mt_try(lh_policy_resolve(&policy, &held));
    lh_session *s = begin_prefill(engine, &policy, &p);
    for (int64_t left = 1; left > 0 && !lh_prefill_layers_done(p);) mt_try(lh_prefill_next(p, &left));
    mt_try(lh_prefill_checkpoint_save(s, p, &(lh_checkpointing){.path = path, .run = "{}"}));
    lh_prefill_close(p);
    lh_session_close(s);
}

START_TEST(test_a_flipped_bit_in_any_array_is_refused_by_every_reader)
{
    lh_policy policy;
    lh_engine *engine = NULL;
    lh_generation g = {0};
    enter();
    mt_try(open_on(&engine, model));
    lh_generate_request q = request(&policy);
    mt_try(lh_policy_resolve(&policy,
                             &(lh_policy_options){.policy = "snapkv", .budget = "40", .parts = {.evict = "every:4"}}));
    q.prompt = (lh_tokens){ids, PROMPT, PROMPT};
    q.save_cache = cache;
    q.keep_sets = spare;
    mt_try(lh_generate(engine, &q, &g));
    lh_generation_clear(&g);
    refuses_damage(engine, cache, read_cache);
    refuses_damage(engine, spare, read_keep_sets);
    save_prefill(engine, other);
    refuses_damage(engine, other, read_prefill);
    lh_engine_close(engine);
    leave();
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("same file");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 0);
    tcase_add_test(all, test_a_checkpoint_that_shrinks_never_becomes_zeros);
    tcase_add_test(all, test_a_cache_that_shrinks_never_becomes_zeros);
    tcase_add_test(all, test_ranks_never_mix_checkpoints);
    tcase_add_test(all, test_ranks_never_mix_caches);
    tcase_add_test(all, test_a_flipped_bit_in_any_array_is_refused_by_every_reader);
    suite_add_tcase(suite, all);
    return mt_run(suite);
}
