/* generate_state.c - `generate --resume`: one file from which the same command continues. While the prompt is read it
 * is a checkpoint of the prefill (prefill_checkpoint.h); afterwards it is a cache file of the session, with the
 * identity of the run and the answer so far. A single answer is continued at its last stored token. Several answers,
 * which decode together in forks of the session, begin again after the prompt. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "engine/generate_impl.h"
#include "engine/same_file.h"

static lh_comm *comm_of(const lh_generate_run *r)
{
    return lh_engine_get(r->engine)->comm;
}

lh_checkpointing lh_generate_checkpointing(const lh_generate_run *r)
{
    const lh_generate_request *q = r->request;
    return (lh_checkpointing){.path = q->resume,
                              .every_s = q->resume_s,
                              .run = q->run,
                              .identity = q->identity,
                              .self = q->events.self,
                              .due = q->events.checkpoint_due,
                              .kept = q->events.checkpoint_kept};
}

/* Files of keep sets and logits, and a recorder, need the run as a whole: their state ends with the prefill. */
static int stores_caches(const lh_generate_request *q)
{
    return q->resume && !q->keep_sets && !q->logits && !q->recorder;
}

/* ---- read ---- */

/* On rank 0: 1 if the file holds a cache; a prefill is read by the prefill itself. */
static lh_status find_cache(const char *path, int32_t *found)
{
    lh_h5 *h5 = NULL;
    if (!lh_file_exists(path)) return LH_OK;
    LH_TRY(lh_h5_open(&h5, path, &(lh_h5_header){0}));
    *found = strcmp(lh_h5_kind(h5), "cache") == 0;
    const int is_state = !*found || lh_h5_has(h5, "/identity");
    lh_h5_close(h5);
    if (!is_state) LH_FAIL(LH_EFILE, "'%s' is the cache of a session, not the state of an interrupted run", path);
    return LH_OK;
}

/* Before the session is opened for as many tokens. */
static lh_status check_length(const lh_generate_request *q, const lh_cache_extra *file)
{
    if (file->n < q->prompt.n || file->n > q->prompt.n + lh_generate_more(q))
        LH_FAIL(LH_EUSAGE, "'%s' belongs to another prompt: it has %lld tokens, this run %lld and at most %lld more",
                q->resume, (long long)file->n, (long long)q->prompt.n, (long long)lh_generate_more(q));
    return LH_OK;
}

lh_status lh_generate_open_state(lh_generate_run *r)
{
    const lh_generate_request *q = r->request;
    int32_t found = 0;
    lh_status st = LH_OK;
    if (!q->resume) return LH_OK;
    if (lh_comm_rank(comm_of(r)) == 0) st = find_cache(q->resume, &found);
    LH_TRY(lh_comm_agree(comm_of(r), st));
    LH_TRY(lh_comm_bcast(comm_of(r), 0, &found, sizeof found));
    if (!found) return LH_OK;
    r->resumes = 1;
    LH_TRY(lh_comm_agree(comm_of(r), lh_saved_kv_open(&r->cache, q->resume)));
    LH_TRY(lh_same_file(comm_of(r), r->cache.file.h5));
    return lh_comm_agree(comm_of(r), check_length(q, &r->cache.file.extra));
}

/* The answer so far: {"ids": […], "logprobs": […]}. */
static lh_status parse_answer(lh_generate_run *r, const char *path, const json_t *answer)
{
    const json_t *ids = json_object_get(answer, "ids"), *logprobs = json_object_get(answer, "logprobs");
    if (!json_is_array(ids) || !json_is_array(logprobs) ||
        (json_array_size(logprobs) && json_array_size(logprobs) != json_array_size(ids)))
        LH_FAIL(LH_EFILE, "'%s': '/answer' is no answer", path);
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);
        if (!json_is_integer(id)) LH_FAIL(LH_EFILE, "'%s': token %zu of '/answer' is no integer", path, i);
        LH_TRY(lh_tokens_push(&r->known, (int32_t)json_integer_value(id)));
    }
    for (size_t i = 0; i < json_array_size(logprobs); i++) {
        const double logprob = json_number_value(json_array_get(logprobs, i));
        LH_TRY(lh_buf_append(&r->out->answers[0].logprobs, &logprob, sizeof logprob));
    }
    return LH_OK;
}

static lh_status read_answer(lh_generate_run *r, const char *path)
{
    lh_status st = LH_OK;
    char *text = NULL;
    int64_t bytes = 0;
    json_t *answer = NULL;
    LH_TRY_DONE(lh_h5_get_text(r->cache.file.h5, "/answer", &text, &bytes));
    if (lh_json_parse(&answer, path, text, bytes) != LH_OK)
        LH_FAIL_DONE(LH_EFILE, "'/answer' in %s", lh_error_message());
    LH_TRY_DONE(parse_answer(r, path, answer));
done:
    json_decref(answer);
    lh_free(text);
    return st;
}

/* The file holds the tokens of this run: the prompt, and with an answer its question and this answer. */
static lh_status check_tokens(const lh_generate_run *r, const char *path)
{
    const lh_generate_request *q = r->request;
    const lh_cache_extra *file = &r->cache.file.extra;
    const lh_tokens none = {0},
                    *parts[] = {&q->prompt, r->known.n && q->question_count ? q->questions : &none, &r->known};
    int64_t at = 0;
    for (int i = 0; i < 3; i++)
        for (int64_t t = 0; t < parts[i]->n; t++, at++)
            if (at >= file->n || file->tokens[at] != parts[i]->ids[t])
                LH_FAIL(LH_EUSAGE, "'%s' belongs to another prompt: its token %lld is %d, here it is %d", path,
                        (long long)at, at < file->n ? file->tokens[at] : -1, parts[i]->ids[t]);
    if (at != file->n)
        LH_FAIL(LH_EUSAGE, "'%s' belongs to another prompt: it has %lld tokens, this run %lld", path,
                (long long)file->n, (long long)at);
    return LH_OK;
}

static lh_status check_state(lh_generate_run *r, const char *path)
{
    lh_status st = LH_OK;
    char *identity = NULL;
    int64_t bytes = 0;
    LH_TRY_DONE(lh_h5_get_text(r->cache.file.h5, "/identity", &identity, &bytes));
    LH_TRY_DONE(lh_run_identity_check(r->session, r->request->identity, path, identity));
    LH_TRY_DONE(read_answer(r, path));
    LH_TRY_DONE(check_tokens(r, path));
done:
    lh_free(identity);
    return st;
}

lh_status lh_generate_load_state(lh_generate_run *r)
{
    const lh_generate_request *q = r->request;
    LH_TRY(lh_comm_agree(comm_of(r), check_state(r, q->resume)));
    LH_TRY(lh_session_read(r->session, &r->cache));
    lh_info("the run continues after %lld tokens of the answer, from '%s'", (long long)r->known.n, q->resume);
    r->state_s = lh_clock_s();
    if (q->events.checkpoint_kept) q->events.checkpoint_kept(q->events.self, lh_engine_get(r->engine)->config->layers);
    return LH_OK;
}

/* ---- write ---- */

/* Ids that were fed to the session, which the last id of an answer is not. */
static lh_status answer_text(const lh_generate_run *r, int64_t fed, char **out)
{
    const lh_answer *a = &r->out->answers[0];
    const double *logprob = (const double *)(const void *)a->logprobs.data;
    json_t *ids = json_array(), *logprobs = json_array();
    const int64_t known = a->logprobs.bytes / (int64_t)sizeof *logprob; /* of all ids on rank 0, which writes them */
    for (int64_t i = 0; i < fed; i++) {
        json_array_append_new(ids, json_integer(a->ids.ids[i]));
        if (i < known) json_array_append_new(logprobs, json_real(logprob[i]));
    }
    json_t *answer = json_pack("{s:o, s:o}", "ids", ids, "logprobs", logprobs);
    *out = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
    json_decref(answer);
    if (!*out) LH_FAIL(LH_ENOMEM, "cannot allocate host memory for the answer so far");
    return LH_OK;
}

lh_status lh_generate_write_state(lh_generate_run *r, int64_t fed)
{
    lh_status st = LH_OK;
    const lh_generate_request *q = r->request;
    char *identity = NULL, *answer = NULL;
    if (!stores_caches(q) || r->unwritten.st != LH_OK) return LH_OK; /* without its files the run begins again */
    st = lh_run_identity_text(r->session, q->identity, &identity);
    if (st == LH_OK) st = answer_text(r, fed, &answer);
    LH_TRY_DONE(lh_comm_agree(comm_of(r), st));
    st = lh_session_write(
        r->session, q->resume,
        &(lh_cache_extra){
            .seed = q->sampling.seed, .run = q->run, .chat = q->chat, .identity = identity, .answer = answer});
    if (st != LH_OK && st != LH_EWRITE) goto done;
    r->state_s = lh_clock_s();
    if (st == LH_OK) lh_checkpoint_claim(comm_of(r), q->resume);
    if (st == LH_EWRITE && !r->state_warned) lh_warn("the run continues without a new state: %s", lh_error_message());
    if (st == LH_EWRITE) lh_error_clear();
    r->state_warned = st == LH_EWRITE;
    /* an older state is as good for the next run */
    const int64_t layers = st == LH_OK || lh_file_exists(q->resume) ? lh_engine_get(r->engine)->config->layers : 0;
    st = LH_OK;
    if (q->events.checkpoint_kept) q->events.checkpoint_kept(q->events.self, layers);
done:
    free(identity);
    free(answer);
    return st;
}

lh_status lh_generate_update_state(lh_generate_run *r, int64_t fed)
{
    const lh_checkpointing how = lh_generate_checkpointing(r);
    int due = 0;
    if (!stores_caches(r->request) || r->unwritten.st != LH_OK || r->out->answer_count > 1) return LH_OK;
    LH_TRY(lh_checkpoint_due(&how, comm_of(r), r->state_s, &due));
    return due ? lh_generate_write_state(r, fed) : LH_OK;
}
