#include "engine/prefill_checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/destination.h"
#include "base/file.h"
#include "base/identity.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/output.h"
#include "base/version.h"
#include "engine/same_file.h"

/* ---- which run a file belongs to ---- */

/* Some rotary scalings depend on the length of the whole run. */
static lh_status make_identity(const lh_session *s, const json_t *options, json_t **out)
{
    const lh_engine_view *e = lh_engine_get(lh_session_engine(s));
    const lh_session_options *o = lh_session_options_of(s);
    char model[24], version[256];
    snprintf(model, sizeof model, "%016llx", (unsigned long long)e->identity);
    snprintf(version, sizeof version, "%s %s", lh_version(), lh_version_git());
    json_t *engine = json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:I, s:I}", "model", model, "version", version, "device",
                               e->exec->ops->name, "dtype", lh_dtype_name(e->dtype), "kv-dtype",
                               lh_dtype_name(lh_kv_kept_type(&e->kv_types, o->policy)), "deterministic",
                               lh_model_options_of(e->model).order == LH_ORDER_FIXED, "seed", (json_int_t)o->seed,
                               "tokens of the whole run", (json_int_t)o->length);
    *out = options ? json_copy((json_t *)(uintptr_t)options) : json_object();
    if (!engine || !*out || json_object_update(*out, engine) != 0) {
        json_decref(engine);
        LH_FAIL(LH_ENOMEM, "cannot allocate memory for the identity of the run");
    }
    json_decref(engine);
    return LH_OK;
}

lh_status lh_run_identity_text(const lh_session *s, const json_t *options, char **out)
{
    json_t *identity = NULL;
    lh_status st = make_identity(s, options, &identity);
    *out = st == LH_OK ? json_dumps(identity, JSON_COMPACT) : NULL;
    json_decref(identity);
    if (st == LH_OK && !*out) LH_FAIL(LH_ENOMEM, "cannot allocate memory for the identity of the run");
    return st;
}

lh_status lh_run_identity_check(const lh_session *s, const json_t *options, const char *path, const char *text)
{
    lh_status st = LH_OK;
    json_t *own = NULL, *file = NULL;
    lh_identity_difference d;
    if (lh_comm_rank(lh_engine_get(lh_session_engine(s))->comm) != 0) return LH_OK; /* the options are rank 0's */
    LH_TRY_DONE(make_identity(s, options, &own));
    if (lh_json_parse(&file, path, text, (int64_t)strlen(text)) != LH_OK)
        LH_FAIL_DONE(LH_EFILE, "'/identity' in %s", lh_error_message());
    if (lh_identity_differs(file, own, 17, &d))
        LH_FAIL_DONE(LH_EUSAGE, "'%s' belongs to another run: '%s' is %s there and %s here", path, d.name, d.was, d.is);
done:
    json_decref(own);
    json_decref(file);
    return st;
}

static lh_status check_prompt(const lh_session *s, const lh_saved_prefill *saved)
{
    const lh_cache_extra *of = &saved->file.cache.extra;
    const lh_tokens *prompt = lh_session_tokens(s);
    const char *path = lh_h5_path(saved->file.cache.h5);
    if (of->n != prompt->n)
        LH_FAIL(LH_EUSAGE, "'%s' belongs to another prompt: it has %lld tokens, this one %lld", path, (long long)of->n,
                (long long)prompt->n);
    for (int64_t t = 0; t < of->n; t++)
        if (of->tokens[t] != prompt->ids[t])
            LH_FAIL(LH_EUSAGE, "'%s' belongs to another prompt: its token %lld is %d, here it is %d", path,
                    (long long)t, of->tokens[t], prompt->ids[t]);
    return LH_OK;
}

/* ---- the file ---- */

void lh_checkpoint_claim(const lh_comm *comm, const char *path)
{
    if (lh_comm_rank(comm) == 0 && lh_partial_claim(path, 0) != LH_OK) lh_error_clear();
}

lh_status lh_prefill_checkpoint_save(const lh_session *s, lh_prefill *p, const lh_checkpointing *how)
{
    const lh_engine_view *e = lh_engine_get(lh_session_engine(s));
    const lh_tokens *prompt = lh_session_tokens(s);
    char *identity = NULL;
    lh_status st = lh_comm_agree(e->comm, lh_run_identity_text(s, how->identity, &identity));
    if (st == LH_OK)
        st = lh_prefill_save(p, how->path,
                             &(lh_prefill_extra){.cache = {.model = e->identity,
                                                           .tokens = prompt->ids,
                                                           .n = prompt->n,
                                                           .seed = lh_session_options_of(s)->seed,
                                                           .run = how->run},
                                                 .identity = identity});
    if (st == LH_OK) lh_checkpoint_claim(e->comm, how->path);
    free(identity);
    return st;
}

/* Not collective. */
static lh_status restore(const lh_session *s, lh_prefill *p, const lh_checkpointing *how, lh_saved_prefill *saved)
{
    const lh_cache_file *file = &saved->file.cache;
    LH_TRY(lh_run_identity_check(s, how->identity, lh_h5_path(file->h5), saved->file.state.identity));
    LH_TRY(check_prompt(s, saved));
    return lh_prefill_load(p, saved, lh_engine_get(lh_session_engine(s))->identity);
}

/* 1 on the first rank of a replica that is not the first one: it speaks for its ranks as rank 0 of the world does. */
static int speaks_too(const lh_comm *comm)
{
    return lh_comm_rank(comm) == 0 && lh_log_rank() != 0;
}

static lh_status read_file(const lh_session *s, lh_prefill *p, const lh_checkpointing *how)
{
    lh_status st = LH_OK;
    lh_comm *comm = lh_engine_get(lh_session_engine(s))->comm;
    lh_saved_prefill saved = {0};
    LH_TRY_DONE(lh_comm_agree(comm, lh_saved_prefill_open(&saved, how->path)));
    lh_h5 *h5 = saved.file.cache.h5;
    LH_TRY_DONE(lh_same_file(comm, h5));
    st = restore(s, p, how, &saved);
    if (st == LH_OK) st = lh_h5_unchanged(h5);
    LH_TRY_DONE(lh_comm_agree(comm, st));
    lh_log(LH_LOG_INFO, speaks_too(comm), "the prefill goes on at layer %lld of %lld, from '%s'",
           (long long)lh_prefill_layers_done(p) + 1, (long long)lh_engine_get(lh_session_engine(s))->config->layers,
           how->path);
done:
    lh_saved_prefill_close(&saved);
    return st;
}

lh_status lh_prefill_checkpoint_load(const lh_session *s, lh_prefill *p, const lh_checkpointing *how)
{
    lh_comm *comm = lh_engine_get(lh_session_engine(s))->comm;
    int32_t found = lh_comm_rank(comm) == 0 && lh_file_exists(how->path);
    LH_TRY(lh_comm_bcast(comm, 0, &found, sizeof found));
    return found ? read_file(s, p, how) : LH_OK;
}

/* ---- a prefill that is kept ---- */

static void report(const lh_checkpointer *k)
{
    if (k->how->kept) k->how->kept(k->how->self, k->newest);
}

static const lh_engine_view *parts_of(const lh_checkpointer *k)
{
    return lh_engine_get(lh_session_engine(k->session));
}

void lh_checkpointer_begin(lh_checkpointer *k, const lh_session *s, lh_prefill *p, const lh_checkpointing *how)
{
    *k = (lh_checkpointer){.session = s, .prefill = p, .how = how, .newest_s = lh_clock_s()};
}

lh_status lh_checkpointer_resume(lh_checkpointer *k)
{
    LH_TRY(lh_prefill_checkpoint_load(k->session, k->prefill, k->how));
    k->newest = lh_prefill_layers_done(k->prefill);
    report(k);
    return LH_OK;
}

lh_status lh_checkpoint_due(const lh_checkpointing *how, lh_comm *comm, double newest_s, int *due)
{
    int32_t late = lh_clock_s() - newest_s >= how->every_s;
    LH_TRY(lh_comm_bcast(comm, 0, &late, sizeof late));
    *due = late || (how->due && how->due(how->self));
    return LH_OK;
}

/* Collective. A disk that is full ends no run. */
static lh_status write_checkpoint(lh_checkpointer *k)
{
    const int speaks = speaks_too(parts_of(k)->comm);
    const int64_t layers = lh_prefill_layers_done(k->prefill);
    const double start_s = lh_clock_s();
    const lh_status st = lh_prefill_checkpoint_save(k->session, k->prefill, k->how);
    if (st != LH_OK && st != LH_EWRITE) return st;
    k->newest_s = lh_clock_s();
    if (st == LH_EWRITE) {
        if (!k->warned)
            lh_log(LH_LOG_WARN, speaks, "the prefill goes on without a new checkpoint: %s", lh_error_message());
        lh_error_clear();
    } else {
        k->newest = layers;
        lh_log(LH_LOG_INFO, speaks, "checkpoint after %lld of %lld layers in '%s', %.1f s", (long long)layers,
               (long long)parts_of(k)->config->layers, k->how->path, k->newest_s - start_s);
    }
    k->warned = st == LH_EWRITE;
    report(k);
    return LH_OK;
}

lh_status lh_checkpointer_maybe_write(lh_checkpointer *k)
{
    int due = 0;
    const int64_t layers = lh_prefill_layers_done(k->prefill);
    if (!layers || layers == k->newest) return LH_OK;
    LH_TRY(lh_checkpoint_due(k->how, parts_of(k)->comm, k->newest_s, &due));
    return due ? write_checkpoint(k) : LH_OK;
}

/* A link stays, as of any output. */
void lh_checkpoint_remove(const lh_comm *comm, const char *path)
{
    char *file = NULL;
    int stream = 0;
    if (lh_comm_rank(comm) != 0) return;
    lh_partial_drop(path);
    if (lh_destination_find(&file, &stream, path) == LH_OK && !stream) unlink(file);
    lh_error_clear();
    lh_free(file);
}

static lh_status go_on(lh_checkpointer *k, const lh_forward_progress *progress, int64_t total)
{
    for (int64_t left = total; left > 0;) {
        LH_TRY(lh_prefill_next(k->prefill, &left));
        if (progress && progress->done) LH_TRY(progress->done(progress->self, total - left, total));
        LH_TRY(lh_checkpointer_maybe_write(k));
    }
    return LH_OK;
}

lh_status lh_session_prefill_kept(lh_session *s, const lh_tokens *prompt, const lh_forward_progress *progress,
                                  const lh_checkpointing *how, int64_t *layers_before)
{
    lh_status st = LH_OK;
    lh_prefill *prefill = NULL;
    lh_checkpointer k;
    LH_TRY_DONE(lh_session_begin_prefill(s, prompt->ids, prompt->n, &prefill));
    lh_checkpointer_begin(&k, s, prefill, how);
    LH_TRY_DONE(lh_checkpointer_resume(&k));
    *layers_before = k.newest;
    LH_TRY_DONE(go_on(&k, progress, lh_engine_get(lh_session_engine(s))->config->layers * prompt->n));
    lh_prefill_close(prefill);
    prefill = NULL;
    LH_TRY_DONE(lh_session_end_prefill(s));
done:
    lh_prefill_close(prefill);
    return st;
}
