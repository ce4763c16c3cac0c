#include "engine/context_store.h"

#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "base/version.h"
#include "cache/store.h"
#include "engine/same_file.h"
#include "kv/figures.h"
#include "policies/method.h"

struct lh_context_store {
    lh_engine *engine;
    lh_context_store_options options;
    lh_context_store_about about;
    lh_store_entry entry; /* of the last context */
    json_t *identity;     /* of it, rank 0 */
    int warned;           /* true: a cache could not be written */
};

static lh_comm *comm_of(const lh_context_store *s)
{
    return lh_engine_get(s->engine)->comm;
}

static int is_first(const lh_context_store *s)
{
    return lh_comm_rank(comm_of(s)) == 0;
}

lh_status lh_context_store_open(lh_context_store **out, lh_engine *engine, const lh_context_store_options *options,
                                lh_context_store_about about)
{
    lh_context_store *s = NULL;
    *out = NULL;
    if (!options->folder) return LH_OK;
    lh_status st = lh_calloc(&s, 1, sizeof *s);
    if (st == LH_OK) *s = (lh_context_store){.engine = engine, .options = *options, .about = about};
    if (st == LH_OK && is_first(s)) st = lh_store_make(options->folder);
    st = lh_comm_agree(lh_engine_get(engine)->comm, st);
    if (st != LH_OK) lh_context_store_close(s);
    if (st == LH_OK) *out = s;
    return st;
}

void lh_context_store_close(lh_context_store *s)
{
    if (!s) return;
    lh_store_clear(&s->entry);
    json_decref(s->identity);
    lh_free(s);
}

/* ---- the identity of a cache ---- */

static lh_status policy_json(const lh_session_options *o, json_t **out)
{
    LH_TRY(lh_policy_json(o->policy, out));
    lh_status st = lh_profiles_put_json(o->profiles, o->policy, *out);
    if (st == LH_OK && o->policy->proxies.kind == LH_PROXIES_QUESTION)
        st = lh_json_set(*out, "question_tokens", json_integer(o->policy->proxies.question));
    if (st != LH_OK) json_decref(*out);
    return st;
}

/* Rotary factors are named by the longest run that has them. The seed counts where the policy draws. */
static lh_status make_identity(const lh_context_store *s, const lh_session_options *o, const lh_tokens *ids,
                               json_t **out)
{
    const lh_engine_view *e = lh_engine_get(s->engine);
    const uint64_t tokens = lh_hash64(ids->ids, ids->n * (int64_t)sizeof *ids->ids);
    const int64_t run = o->rotates_for ? o->rotates_for : o->length;
    char model[24], version[256], hash[24];
    json_t *policy = NULL, *seed = NULL;
    LH_TRY(policy_json(o, &policy));
    if (lh_policy_has(o->policy, LH_DRAWS)) seed = json_integer((json_int_t)o->seed);
    snprintf(model, sizeof model, "%016llx", (unsigned long long)e->identity);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)tokens);
    snprintf(version, sizeof version, "%s %s", lh_version(), lh_version_git());
    *out = json_pack("{s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:o, s:o*, s:I}", "tokens", (json_int_t)ids->n,
                     "tokens_xxh64", hash, "model", model, "version", version, "device", e->exec->ops->name, "dtype",
                     lh_dtype_name(e->dtype), "kv_dtype", lh_dtype_name(lh_kv_kept_type(&e->kv_types, o->policy)),
                     "deterministic", lh_model_options_of(e->model).order == LH_ORDER_FIXED, "policy", policy, "seed",
                     seed, "rotates_until", (json_int_t)lh_config_rotates_until(e->config, run));
    if (!*out) LH_FAIL(LH_ENOMEM, "cannot allocate memory for the identity of a context");
    return LH_OK;
}

/* Rank 0: the names and the identity of the entry. */
static lh_status name_entry(lh_context_store *s, const lh_session_options *o, const lh_tokens *ids)
{
    lh_store_clear(&s->entry);
    json_decref(s->identity);
    s->identity = NULL;
    LH_TRY(make_identity(s, o, ids, &s->identity));
    return lh_store_name(&s->entry, s->options.folder, s->identity);
}

/* ---- reading ---- */

/* Rank 0 alone warns, also the first rank of a replica. */
static void warn_of(const lh_context_store *s, const char *what, const char *why)
{
    if (is_first(s)) lh_log(LH_LOG_WARN, lh_log_rank() != 0, "%s: %s", what, why);
}

/* Rank 0. */
static lh_status look(lh_context_store *s, const lh_session_options *o, const lh_tokens *ids, int *found)
{
    lh_store_state state = LH_STORE_ABSENT;
    LH_TRY(name_entry(s, o, ids));
    LH_TRY(lh_store_look(&s->entry, s->identity, &state));
    *found = state == LH_STORE_WHOLE;
    if (state != LH_STORE_DAMAGED) return LH_OK;
    warn_of(s, s->entry.cache, "the file is damaged, and its context is read again");
    lh_store_remove(&s->entry);
    return LH_OK;
}

static lh_status check_tokens(const lh_saved_kv *saved, const lh_tokens *ids)
{
    const lh_cache_extra *of = &saved->file.extra;
    if (of->n != ids->n || memcmp(of->tokens, ids->ids, (size_t)ids->n * sizeof *ids->ids) != 0)
        LH_FAIL(LH_EFILE, "'%s' holds other tokens", lh_h5_path(saved->file.h5));
    return LH_OK;
}

/* Collective. The name of the cache file on all ranks. */
static lh_status share_name(lh_context_store *s)
{
    int64_t bytes = is_first(s) ? (int64_t)strlen(s->entry.cache) + 1 : 0;
    LH_TRY(lh_comm_bcast(comm_of(s), 0, &bytes, sizeof bytes));
    lh_status st = LH_OK;
    if (!is_first(s)) lh_store_clear(&s->entry);
    if (!is_first(s)) st = lh_calloc(&s->entry.cache, bytes, 1);
    LH_TRY(lh_comm_agree(comm_of(s), st));
    return lh_comm_bcast(comm_of(s), 0, s->entry.cache, bytes);
}

/* Collective. */
static lh_status open_saved(const lh_context_store *s, const lh_tokens *ids, lh_saved_kv *saved)
{
    lh_status st = lh_saved_kv_open(saved, s->entry.cache);
    if (st == LH_OK) st = check_tokens(saved, ids);
    LH_TRY(lh_comm_agree(comm_of(s), st));
    return lh_same_file(comm_of(s), saved->file.h5);
}

lh_status lh_context_store_find(lh_context_store *s, const lh_session_options *o, const lh_tokens *ids,
                                lh_saved_kv *saved, int *found)
{
    *found = 0;
    if (!s) return LH_OK;
    lh_status st = is_first(s) ? look(s, o, ids, found) : LH_OK;
    LH_TRY(lh_comm_agree(comm_of(s), st));
    LH_TRY(lh_comm_bcast(comm_of(s), 0, found, sizeof *found));
    if (!*found) return LH_OK;
    LH_TRY(share_name(s));
    st = open_saved(s, ids, saved);
    if (st != LH_OK && !lh_comm_agreed(comm_of(s))) return st;
    if (st == LH_OK) {
        lh_info("%lld tokens are not read again: their cache is '%s' (%lld entries per head by the policy)",
                (long long)ids->n, s->entry.cache, (long long)saved->file.numbers.budget);
        return LH_OK;
    }
    warn_of(s, "the context is read again", lh_error_message());
    lh_error_clear();
    lh_saved_kv_close(saved);
    *saved = (lh_saved_kv){0};
    lh_store_release(&s->entry);
    if (is_first(s)) lh_store_remove(&s->entry);
    *found = 0;
    return LH_OK;
}

void lh_context_store_loaded(lh_context_store *s)
{
    if (s) lh_store_release(&s->entry);
}

/* ---- writing ---- */

enum { TEXT_WITHIN = 256, TEXT_TOKENS = 40, TEXT_BYTES = 80 };

/* Blanks and line feeds become one blank. */
static void join_blanks(lh_buf *text)
{
    int64_t n = 0;
    for (int64_t i = 0; i < text->bytes; i++) {
        const char c = (unsigned char)text->data[i] <= ' ' ? ' ' : text->data[i];
        if (c != ' ' || (n && text->data[n - 1] != ' ')) text->data[n++] = c;
    }
    text->bytes = n;
}

/* The beginning of the text for people: of the longest piece of the first tokens without special tokens, which in a
 * chat is not the frame of the system's turn. */
static lh_status put_text(const lh_context_store *s, const lh_tokens *ids, json_t *about)
{
    const lh_tokenizer *tok = lh_engine_tokenizer(s->engine);
    const int64_t end = lh_min_i64(ids->n, TEXT_WITHIN);
    int64_t best = 0, most = 0;
    lh_buf text = {0};
    if (!tok) return LH_OK;
    for (int64_t t = 0, from = 0; t <= end; t++) {
        if (t < end && !lh_tokenizer_is_special(tok, ids->ids[t])) continue;
        if (t - from > most) {
            best = from;
            most = t - from;
        }
        from = t + 1;
    }
    lh_status st = lh_tokenizer_decode(tok, ids->ids + best, lh_min_i64(most, TEXT_TOKENS), &text);
    join_blanks(&text);
    if (st == LH_OK)
        st = lh_json_set(about, "text", lh_json_text(text.data ? text.data : "", lh_min_i64(text.bytes, TEXT_BYTES)));
    lh_buf_clear(&text);
    return st;
}

/* Rank 0: members of the description for people. */
static lh_status describe(const lh_context_store *s, lh_session *session, int64_t kept, json_t **out)
{
    lh_status st = LH_OK;
    const lh_tokens *ids = lh_session_tokens(session);
    const lh_config *c = lh_engine_get(s->engine)->config;
    lh_buf policy = {0};
    *out = json_object();
    LH_TRY_DONE(put_text(s, ids, *out));
    const char *model = lh_path_name(s->about.model);
    LH_TRY_DONE(lh_json_set(*out, "model_name", lh_json_text(model, (int64_t)strlen(model))));
    LH_TRY_DONE(lh_policy_text(lh_session_options_of(session)->policy, &policy));
    LH_TRY_DONE(lh_json_set(*out, "policy", json_string(policy.data)));
    LH_TRY_DONE(lh_json_set(*out, "entries", json_integer(ids->n * c->layers * c->kv_heads)));
    LH_TRY_DONE(lh_json_set(*out, "entries_kept", json_integer(kept)));
done:
    lh_buf_clear(&policy);
    return st;
}

/* Rank 0. True if the entry is to be written by this process. The claim comes first: no other process commits an entry
 * after it, which readers would see replaced. */
static int claim_entry(lh_context_store *s)
{
    lh_store_state state = LH_STORE_ABSENT;
    if (lh_store_claim(&s->entry) != LH_OK) {
        lh_info("the context is not kept: %s", lh_error_message());
        lh_error_clear();
        return 0;
    }
    if (lh_store_look(&s->entry, s->identity, &state) != LH_OK || state != LH_STORE_WHOLE) return 1;
    lh_store_release(&s->entry); /* another process was faster */
    lh_store_drop_claim(&s->entry);
    return 0;
}

static lh_status commit(const lh_context_store *s, lh_session *session, int64_t kept)
{
    json_t *about = NULL;
    lh_status st = describe(s, session, kept, &about);
    if (st == LH_OK) st = lh_store_commit(&s->entry, s->identity, about, s->options.limit_bytes);
    if (st == LH_OK)
        lh_info("the cache of %lld tokens is kept in '%s'", (long long)lh_session_tokens(session)->n, s->entry.cache);
    if (st == LH_OK) st = lh_store_sweep(s->options.folder, s->options.limit_bytes);
    json_decref(about);
    return st;
}

/* Collective. Entries of the model, each head once. */
static lh_status count_kept(const lh_context_store *s, lh_session *session, int64_t *kept)
{
    lh_kv_stats stats = {0};
    LH_TRY(lh_comm_agree(comm_of(s), lh_kv_stats_of(lh_session_kv(session), &stats)));
    *kept = stats.entries_counted;
    return lh_comm_allreduce(comm_of(s), kept, 1, LH_I64, LH_SUM);
}

lh_status lh_context_store_keep(lh_context_store *s, lh_session *session)
{
    int claimed = 0;
    int64_t kept = 0;
    if (!s) return LH_OK;
    const lh_session_options *o = lh_session_options_of(session);
    lh_status st = is_first(s) ? name_entry(s, o, lh_session_tokens(session)) : LH_OK;
    if (st == LH_OK && is_first(s)) claimed = claim_entry(s);
    LH_TRY(lh_comm_agree(comm_of(s), st));
    LH_TRY(lh_comm_bcast(comm_of(s), 0, &claimed, sizeof claimed));
    if (!claimed) return LH_OK;
    LH_TRY(count_kept(s, session, &kept));
    LH_TRY(share_name(s));
    st = lh_session_write(session, s->entry.cache, &(lh_cache_extra){.seed = o->seed, .run = s->about.run});
    if (st != LH_OK && is_first(s)) lh_store_drop_claim(&s->entry);
    if (st != LH_OK && st != LH_EWRITE) return st;
    if (st == LH_OK) st = lh_comm_agree(comm_of(s), is_first(s) ? commit(s, session, kept) : LH_OK);
    if (st == LH_OK || !lh_comm_agreed(comm_of(s))) return st;
    if (!s->warned) warn_of(s, "the context is not kept", lh_error_message());
    s->warned = 1;
    lh_error_clear();
    return LH_OK;
}
