/* generate.c - the run of `generate`: restore or prefill, save, then the answers (generate_answer.c), of several
 * questions together (generate_together.c). */
#include "engine/generate_impl.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "base/output.h"
#include "base/status.h"
#include "engine/given.h"
#include "engine/prompt.h"
#include "engine/same_file.h"
#include "kv/figures.h"

typedef lh_generate_run run;

static int64_t longest_question(const lh_generate_request *r)
{
    int64_t longest = 0;
    for (int64_t i = 0; i < r->question_count; i++) longest = lh_max_i64(longest, r->questions[i].n);
    return longest;
}

int64_t lh_generate_more(const lh_generate_request *r)
{
    const int64_t longest = longest_question(r);
    return r->max_new > INT64_MAX - longest ? INT64_MAX : longest + r->max_new;
}

int64_t lh_generate_forks(int64_t questions)
{
    enum { TOGETHER = 16 };
    return questions > 1 ? lh_min_i64(questions, TOGETHER) : 0;
}

/* True if all questions are answered together, each in a fork of the session. */
static int together(const lh_generate_request *r)
{
    return r->question_count > 1 && !r->recorder;
}

static lh_status check(const run *r, int64_t before)
{
    const lh_generate_request *q = r->request;
    const lh_config *c = lh_engine_get(r->engine)->config;
    if (before + q->prompt.n == 0)
        LH_FAIL(LH_EUSAGE, "the prompt is empty%s", q->question_count ? ": a question needs a text before it" : "");
    for (int64_t i = 0; i < q->question_count; i++)
        if (q->questions[i].n == 0) LH_FAIL(LH_EUSAGE, "question %lld is empty", (long long)i + 1);
    if (lh_generate_more(q) > c->max_positions - before - q->prompt.n)
        LH_FAIL(LH_EUSAGE,
                "%lld tokens of prompt and %lld more to come are longer than the %lld positions of the model: shorten "
                "the prompt, or generate less ('%s')",
                (long long)(before + q->prompt.n), (long long)lh_generate_more(q), (long long)c->max_positions,
                lh_setting("max_new"));
    if (q->logits && q->question_count > 1)
        LH_FAIL(LH_EUSAGE, "%s follows one answer: give one question", lh_setting("logits"));
    if (q->keep_sets && q->question_count > 1 && r->evicts_decoding)
        LH_FAIL(LH_EUSAGE, "%s follows one answer where decoding evicts: give one question", lh_setting("keep_sets"));
    if (q->keep_sets && q->load_cache)
        LH_FAIL(LH_EUSAGE, "%s shows an eviction at the end of a prefill, which %s has not", lh_setting("keep_sets"),
                lh_setting("load_cache"));
    if (q->given && (q->load_cache || q->save_cache))
        LH_FAIL(LH_EUSAGE,
                "keep sets that are given take the place of a policy, by whose name a cache is saved and loaded");
    if (q->store && (q->given || q->load_cache || q->keep_sets || q->logits || q->recorder))
        LH_FAIL(LH_EUSAGE,
                "%s stores caches of prompts that were read and evicted: %s, keep sets, logits and a trace need a "
                "prefill of their own",
                lh_setting("context_cache"), lh_setting("load_cache"));
    if (q->resume && (q->given || q->load_cache))
        LH_FAIL(LH_EUSAGE,
                "%s stores a prefill by the name of its policy: a loaded cache has had its prefill, "
                "and keep sets that are given have no policy",
                lh_setting("resume"));
    LH_TRY(lh_sampling_check(&q->sampling));
    LH_TRY(lh_prompt_check_ids(&q->prompt, c->vocab));
    LH_TRY(lh_prompt_check_ids(&q->force, c->vocab));
    for (int64_t i = 0; i < q->question_count; i++) LH_TRY(lh_prompt_check_ids(&q->questions[i], c->vocab));
    return LH_OK;
}

/* Rows of logits of the tokens that come next: what `logits` wants of them (NULL: nothing), and the last one at least.
 * Room is made for as many as there are, not for as many as were asked for. */
static int64_t rows_of(const lh_generate_request *r, const lh_tokens *wanted)
{
    return wanted && r->logits ? lh_max_i64(lh_min_i64(r->logits_last, wanted->n), 1) : 1;
}

/* Minimum size of a saved cache: the keys and values of all heads after the prompt. */
static int64_t cache_bytes(const run *r)
{
    const lh_engine_view *e = lh_engine_get(r->engine);
    const lh_config *c = e->config;
    const lh_policy *policy = &r->out->policy;
    const int64_t tokens = r->request->prompt.n,
                  kept = lh_max_i64(lh_min_i64(lh_policy_entries(policy, tokens), tokens) - policy->block, 0);
    int64_t entries = 0;
    if (r->request->load_cache) return 0; /* it holds some already */
    for (int64_t l = 0; l < c->layers; l++)
        entries += c->kv_heads * (c->sliding[l] ? lh_min_i64(kept, c->window) : kept);
    return entries * lh_entry_bytes(lh_kv_kept_type(&e->kv_types, policy), c->head_dim);
}

/* Claims the outputs before long work, on rank 0. */
static lh_status claim_outputs(const run *r)
{
    const lh_generate_request *q = r->request;
    const int64_t vocab = lh_engine_get(r->engine)->config->vocab;
    const struct {
        const char *path;
        int64_t bytes;
    } outputs[] = {{q->save_cache, cache_bytes(r)},
                   {q->keep_sets, 0},
                   {q->logits, rows_of(q, q->load_cache ? NULL : &q->prompt) * vocab * (int64_t)sizeof(float)}};
    if (lh_comm_rank(lh_engine_get(r->engine)->comm) != 0) return LH_OK;
    for (int i = 0; i < 3; i++)
        if (outputs[i].path) LH_TRY(lh_partial_claim(outputs[i].path, outputs[i].bytes + (1 << 20)));
    return q->resume ? lh_partial_claim(q->resume, 0) : LH_OK; /* a state that does not fit ends no run */
}

static void drop_claims(const run *r)
{
    const lh_generate_request *q = r->request;
    const char *const paths[] = {q->save_cache, q->keep_sets, q->logits, q->resume};
    for (int i = 0; i < 4; i++)
        if (paths[i]) lh_partial_drop(paths[i]);
}

const lh_profiles *lh_generate_profiles(const run *r)
{
    return r->request->policy ? r->request->profiles : &r->cache.profiles;
}

/* Options of a session of `length` tokens that reads the prompt itself. */
static lh_session_options session_options(const run *r, int64_t length)
{
    const lh_generate_request *q = r->request;
    const int64_t longest = longest_question(q);
    return (lh_session_options){.policy = &r->out->policy,
                                .profiles = lh_generate_profiles(r),
                                .prompt = q->prompt.n,
                                .more = lh_generate_more(q),
                                .fork_more = q->question_count > 1 ? lh_generate_more(q) : 0,
                                .sequences = together(q) ? lh_generate_forks(q->question_count) : 0,
                                .length = length,
                                .rows = rows_of(q, q->question_count ? q->questions : &q->prompt),
                                .block = q->load_cache ? lh_max_i64(q->prompt.n, longest) : longest,
                                .seed = q->load_cache ? r->cache.file.extra.seed : q->sampling.seed};
}

static lh_status open_run(run *r)
{
    lh_status st = LH_OK;
    const lh_generate_request *q = r->request;
    lh_comm *comm = lh_engine_get(r->engine)->comm;
    int64_t before = 0;
    lh_kv_listener listener = {0};
    if (q->load_cache) st = lh_saved_kv_open(&r->cache, q->load_cache);
    LH_TRY(lh_comm_agree(comm, st));
    if (q->load_cache) LH_TRY(lh_same_file(comm, r->cache.file.h5));
    LH_TRY(lh_generate_open_state(r));
    r->out->policy = q->policy ? *q->policy : r->cache.policy;
    if (!q->policy) LH_TRY(lh_engine_size_policy(r->engine, &r->out->policy));
    if (q->load_cache) before = r->cache.file.extra.n;
    r->evicts_decoding = r->out->policy.evicts && r->out->policy.every > 0;
    st = check(r, before);
    if (st == LH_OK) st = claim_outputs(r);
    LH_TRY(lh_comm_agree(comm, st));
    if (q->given) LH_TRY(lh_given_read(&r->given, r->engine, q->given, &q->prompt));
    if (q->recorder) LH_TRY(q->recorder->begin(q->recorder->self, r->engine, q, &listener));
    lh_session_options options = session_options(r, before + q->prompt.n + lh_generate_more(q));
    options.given = q->given ? (const lh_keep_sets *const[]){&r->given} : NULL;
    options.listener = q->recorder ? &listener : NULL;
    if (!r->resumes) LH_TRY(lh_context_store_find(q->store, &options, &q->prompt, &r->cache, &r->stored));
    if (q->load_cache || r->resumes || r->stored) {
        options.prompt = 0;
        options.more = options.length - r->cache.file.extra.n;
    }
    LH_TRY(lh_session_open(&r->session, r->engine, &options));
    if (lh_config_rotates_until(lh_engine_get(r->engine)->config, 1) != INT64_MAX)
        lh_info("the rotary factors of this model depend on the length of the run: those of %lld tokens are taken, the "
                "prompt with the longest question and answer",
                (long long)lh_session_options_of(r->session)->rotates_for);
    if (q->logits) st = lh_logits_file_open(&r->logits, lh_engine_get(r->engine)->config->vocab);
    LH_TRY(lh_comm_agree(comm, st));
    return st;
}

static lh_status show_prefill(void *self, int64_t done, int64_t total)
{
    const lh_generate_events *events = self;
    return events->prefill ? events->prefill(events->self, done, total) : LH_OK;
}

static lh_status prefill(run *r)
{
    const lh_generate_request *q = r->request;
    const lh_forward_progress progress = {sizeof progress, (void *)&q->events, show_prefill};
    const lh_checkpointing how = lh_generate_checkpointing(r);
    if (!q->resume) return lh_session_prefill(r->session, q->prompt.ids, q->prompt.n, &progress);
    return lh_session_prefill_kept(r->session, &q->prompt, &progress, &how, &r->layers_before);
}

/* One number of every rank, gathered. */
static lh_status gather_figure(const run *r, int64_t own, int64_t *all)
{
    return lh_comm_allgather(lh_engine_get(r->engine)->comm, &own, all, sizeof own);
}

static lh_status take_figures(run *r)
{
    lh_kv_stats s = {0};
    const lh_config *c = lh_engine_get(r->engine)->config;
    lh_generation *g = r->out;
    LH_TRY(lh_comm_agree(lh_engine_get(r->engine)->comm, lh_kv_stats_of(lh_session_kv(r->session), &s)));
    LH_TRY(gather_figure(r, s.entries_seen, g->entries));
    LH_TRY(gather_figure(r, s.entries_held, g->entries_kept));
    LH_TRY(gather_figure(r, s.bytes_full, g->bytes));
    LH_TRY(gather_figure(r, s.bytes_held, g->bytes_kept));
    LH_TRY(gather_figure(r, s.bytes_capacity, g->bytes_allocated));
    LH_TRY(gather_figure(r, s.summary_bytes, g->summary_bytes));
    g->counted = lh_kv_seen(lh_session_kv(r->session)) * c->layers * c->kv_heads;
    g->counted_kept = s.entries_counted;
    g->timing.evict_s = s.evict_s;
    LH_TRY(lh_comm_allreduce(lh_engine_get(r->engine)->comm, &g->counted_kept, 1, LH_I64, LH_SUM));
    return LH_OK;
}

static lh_status gather_kept(run *r)
{
    const int64_t layers = lh_engine_get(r->engine)->config->layers;
    lh_comm *comm = lh_engine_get(r->engine)->comm;
    LH_TRY(lh_comm_agree(comm, lh_calloc(&r->out->kept, layers, sizeof *r->out->kept)));
    for (int64_t l = 0; l < layers; l++) {
        LH_TRY(lh_kv_gather_positions(lh_session_kv(r->session), l, &r->out->kept[l]));
        LH_TRY(lh_positions_share(&r->out->kept[l], comm));
    }
    return LH_OK;
}

/* `st`: of writing a file, agreed on. A file that cannot be written costs neither the answers nor the other files. */
static lh_status take_written(run *r, lh_status st)
{
    if (st != LH_EWRITE) return st;
    lh_failures_add(&r->unwritten, st);
    return LH_OK;
}

/* The prompt: from the state of an interrupted run, from a cache, or through the model. */
static lh_status take_prompt(run *r)
{
    const lh_generate_request *q = r->request;
    double start = lh_clock_s();
    lh_session_keep_logits(r->session, rows_of(q, q->question_count == 0 ? &q->prompt : NULL));
    if (r->resumes) {
        LH_TRY(lh_generate_load_state(r));
    } else if (r->stored) {
        LH_TRY(lh_session_read(r->session, &r->cache));
        lh_context_store_loaded(q->store);
    } else if (q->load_cache) {
        LH_TRY(lh_session_read(r->session, &r->cache));
        if (q->prompt.n) LH_TRY(lh_session_block(r->session, q->prompt.ids, q->prompt.n));
    } else {
        LH_TRY(prefill(r));
    }
    r->out->timing.prefill_s = lh_clock_s() - start;
    r->out->prompt_tokens = r->resumes ? q->prompt.n : lh_session_tokens(r->session)->n;
    r->out->budget = lh_policy_entries(&r->out->policy, r->out->prompt_tokens);
    r->out->chunk = lh_session_chunk(r->session);
    LH_TRY(take_figures(r));
    if (q->recorder && q->recorder->prompt) LH_TRY(q->recorder->prompt(q->recorder->self, r->session));
    if (q->keep_sets) LH_TRY(lh_kv_take_keep_sets(lh_session_kv(r->session), LH_KEEP_KEPT, &r->sets));
    if (q->kept) LH_TRY(gather_kept(r));
    if (q->save_cache && !r->resumes) /* the state was written after the cache */
        LH_TRY(take_written(
            r, lh_session_write(r->session, q->save_cache,
                                &(lh_cache_extra){.seed = q->sampling.seed, .run = q->run, .chat = q->chat})));
    if (!r->resumes && !r->stored) LH_TRY(lh_context_store_keep(q->store, r->session));
    if (!r->resumes) LH_TRY(lh_generate_write_state(r, 0));
    if (q->question_count == 0) LH_TRY(lh_generate_write_logits(r));
    return LH_OK;
}

/* One answer, from the state that the session is in. */
static lh_status decode(run *r, lh_answer_writer *w)
{
    const lh_decode how = lh_writer_decode(w);
    w->session = r->session;
    LH_TRY(lh_session_decode(r->session, &how, &w->answer->ids, &w->answer->finish));
    return lh_writer_end(w);
}

/* The i-th answer, to the prompt or a question about it. */
static lh_status answer(run *r, int64_t i)
{
    const lh_generate_request *q = r->request;
    double start;
    if (i > 0) LH_TRY(lh_session_restore(r->session));
    if (r->known.n) { /* the session has had the question */
        r->out->prompt_tokens += q->question_count ? q->questions[i].n : 0;
    } else if (q->question_count) {
        start = lh_clock_s();
        lh_session_keep_logits(r->session, rows_of(q, &q->questions[i]));
        LH_TRY(lh_session_block(r->session, q->questions[i].ids, q->questions[i].n));
        LH_TRY(lh_generate_record_step(r, q->questions[i].n, start));
        LH_TRY(lh_generate_write_logits(r));
        r->out->prompt_tokens += q->questions[i].n;
        r->out->timing.prefill_s += lh_clock_s() - start;
    }
    lh_session_keep_logits(r->session, 1);
    start = lh_clock_s();
    LH_TRY(decode(r, &r->writers[i]));
    r->decode_s += lh_clock_s() - start;
    if (q->recorder && q->recorder->answer) LH_TRY(q->recorder->answer(q->recorder->self, r->session, i));
    return LH_OK;
}

/* One after the other, which a recorder can follow. */
static lh_status answer_in_turn(run *r)
{
    if (r->out->answer_count > 1) LH_TRY(lh_session_snapshot(r->session));
    for (int64_t i = 0; i < r->out->answer_count; i++) LH_TRY(answer(r, i));
    return LH_OK;
}

/* Files that are written at the end, by rank 0. */
static lh_status write_files(run *r)
{
    lh_status st = LH_OK;
    const lh_generate_request *q = r->request;
    const lh_tokens *tokens = lh_session_tokens(r->session);
    lh_comm *comm = lh_engine_get(r->engine)->comm;
    if (q->keep_sets) {
        if (r->evicts_decoding) LH_TRY(lh_kv_take_keep_sets(lh_session_kv(r->session), LH_KEEP_FINAL, &r->sets));
        LH_TRY(take_written(
            r, lh_keep_sets_write(&r->sets, comm, q->keep_sets,
                                  &(lh_cache_extra){.tokens = tokens->ids, .n = tokens->n, .run = q->run})));
    }
    if (q->logits && lh_comm_rank(comm) == 0) st = lh_logits_file_write(r->logits, q->logits, tokens, q->run);
    return take_written(r, lh_comm_agree(comm, st));
}

static lh_status open_generation(run *r)
{
    lh_generation *g = r->out;
    g->layers = lh_engine_get(r->engine)->config->layers;
    int64_t **const arrays[] = {&g->entries,         &g->entries_kept, &g->bytes,        &g->bytes_kept,
                                &g->bytes_allocated, &g->peak_bytes,   &g->summary_bytes};
    g->ranks = lh_comm_size(lh_engine_get(r->engine)->comm);
    g->answer_count = r->request->question_count ? r->request->question_count : 1;
    LH_TRY(lh_calloc(&g->answers, g->answer_count, sizeof *g->answers));
    LH_TRY(lh_writers_open(r));
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) LH_TRY(lh_calloc(arrays[i], g->ranks, sizeof(int64_t)));
    return LH_OK;
}

/* Of the prompt's layers, by this run. */
static double share_computed(const run *r)
{
    return 1 - (double)r->layers_before / (double)lh_engine_get(r->engine)->config->layers;
}

lh_status lh_generate(lh_engine *engine, const lh_generate_request *request, lh_generation *out)
{
    lh_status st = LH_OK;
    run r = {.engine = engine, .request = request, .out = out};
    lh_kv_stats last = {0};
    *out = (lh_generation){.given = request->given, .left_out = request->left_out};
    LH_TRY_DONE(open_generation(&r));
    lh_device_reset_peak(lh_engine_get(engine)->device);
    LH_TRY_DONE(open_run(&r));
    LH_TRY_DONE(take_prompt(&r));
    LH_TRY_DONE(together(request) ? lh_generate_together(&r) : answer_in_turn(&r));
    for (int64_t i = 0; i < out->answer_count; i++) out->new_tokens += out->answers[i].ids.n;
    LH_TRY_DONE(write_files(&r));
    LH_TRY_DONE(gather_figure(&r, lh_device_usage(lh_engine_get(engine)->device).peak_total, out->peak_bytes));
    out->timing.load_s = lh_engine_get(engine)->load_s;
    out->timing.decode_s = r.decode_s;
    LH_TRY_DONE(lh_kv_stats_of(lh_session_kv(r.session), &last));
    out->timing.evict_s = last.evict_s;
    if (out->timing.prefill_s > 0 && !request->load_cache && !r.resumes && !r.stored)
        out->timing.prefill_tokens_per_s = (double)out->prompt_tokens * share_computed(&r) / out->timing.prefill_s;
    out->timing.decode_tokens_per_s = r.decode_s > 0 ? (double)r.decoded / r.decode_s : 0;
    out->complete = 1;
    LH_TRY_DONE(lh_comm_agree(lh_engine_get(engine)->comm, lh_failures_end(&r.unwritten)));
done:
    lh_writers_close(&r);
    drop_claims(&r);
    lh_logits_file_close(r.logits);
    lh_keep_sets_clear(&r.sets);
    lh_keep_sets_clear(&r.given);
    lh_session_close(r.session);
    lh_saved_kv_close(&r.cache);
    lh_tokens_clear(&r.known);
    return st;
}

void lh_generation_clear(lh_generation *g)
{
    for (int64_t i = 0; g->answers && i < g->answer_count; i++) {
        lh_tokens_clear(&g->answers[i].ids);
        lh_buf_clear(&g->answers[i].text);
        lh_buf_clear(&g->answers[i].logprobs);
    }
    for (int64_t l = 0; g->kept && l < g->layers; l++) lh_positions_clear(&g->kept[l]);
    lh_free(g->kept);
    lh_free(g->answers);
    lh_free(g->entries);
    lh_free(g->entries_kept);
    lh_free(g->bytes);
    lh_free(g->bytes_kept);
    lh_free(g->bytes_allocated);
    lh_free(g->peak_bytes);
    lh_free(g->summary_bytes);
    *g = (lh_generation){0};
}
