#include "lab/learn/learn.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "base/progress.h"
#include "exec/scratch.h"
#include "lab/learn/calibration.h"
#include "lab/learn/entry_equations.h"
#include "lab/learn/query_moments.h"

/* First entries of a prompt, which are not learnt from. */
enum { SINKS = 4 };

/* The part of all entries that is divided over heads. */
static const double BEST = 0.1;

/* Below this a score is of an entry that nothing looks at. */
static const float LEAST_SCORE = 1e-7f;

typedef struct run {
    lh_engine *engine;
    const lh_learn_request *request;
    lh_learn_result *out;
    lh_exec exec; /* the engine's, with the scratch stack below */
    lh_scratch scratch;
    lh_heads heads;
    lh_entry_equations equations;
    lh_query_moments queries;
    lh_calibration *calibration; /* of this rank's heads; `first` of each is in `learnt` until the end */
    int64_t *learnt;             /* [layers, counted_count, LH_CALIBRATION_BINS] learnt scores */
    float *weights;              /* device: this rank's rows (lh_score_weights_put), in the second pass */
    const lh_rotation *rotation; /* of the layer at the end of its prefill */
    int64_t first;               /* entries before it are sinks, or not seen any more */
    float *logs;                 /* host: [tokens] of a head */
    int64_t *lens;               /* host: entries of this rank's heads */
    float *shares;               /* [layers, kv_heads] of the counted heads */
    lh_progress progress;
} run;

/* Entries of KV head h of a layer with their scores, both of this rank. */
typedef struct head_scores {
    int64_t layer, h;
    const float *scores; /* device */
} head_scores;

/* A head of several ranks is counted on a single rank: its number among the counted heads of this rank, or -1. */
static int64_t counted_number(const run *r, int64_t h)
{
    const int64_t n = r->heads.kv_first + h - r->heads.counted_first;
    return n >= 0 && n < r->heads.counted_count ? n : -1;
}

/* ---- first pass: equations, and queries ---- */

static void take_logs(run *r, const head_scores *of, int64_t first, int64_t count)
{
    lh_exec_fetch(&r->exec, r->logs, of->scores + first, count * (int64_t)sizeof *r->logs);
    for (int64_t i = 0; i < count && lh_exec_ok(&r->exec); i++) r->logs[i] = logf(fmaxf(r->logs[i], LEAST_SCORE));
}

static void put_targets(run *r, float *rows, float *column, int64_t count)
{
    const int64_t side = r->equations.features + 1;
    lh_exec_put(&r->exec, column, r->logs, count * (int64_t)sizeof *column);
    LH_RUN(&r->exec, convert, .dst = rows + side - 1, .src = column, .dst_type = LH_F32, .src_type = LH_F32,
           .rows = count, .cols = 1, .dst_ld = side, .src_ld = 1);
}

static void add_head(run *r, const lh_plain_entries *entries, const head_scores *of)
{
    const int64_t counted = counted_number(r, of->h), mark = lh_scratch_mark(&r->exec);
    if (counted < 0) return;
    float *rows = lh_scratch_alloc(&r->exec, LH_PLAIN_ENTRIES_AT_ONCE * (r->equations.features + 1) * 4),
          *column = lh_scratch_alloc(&r->exec, LH_PLAIN_ENTRIES_AT_ONCE * 4);
    for (int64_t at = r->first; at < entries->len[of->h]; at += LH_PLAIN_ENTRIES_AT_ONCE) {
        const int64_t count = lh_min_i64(entries->len[of->h] - at, LH_PLAIN_ENTRIES_AT_ONCE);
        take_logs(r, of, at, count);
        put_targets(r, rows, column, count);
        lh_plain_entries_load(entries, of->h, at, count);
        lh_entry_equations_add(&r->equations, entries, of->layer, counted, count, rows);
    }
    lh_scratch_release(&r->exec, mark);
}

static const float *ranked_by(const lh_evict_scores *scores, int64_t h)
{
    return (scores->raw ? scores->raw : scores->scores) + h * scores->ld;
}

static lh_status add_scores(void *self, int64_t layer, const lh_evict_scores *scores)
{
    lh_status st = LH_OK;
    run *r = self;
    lh_plain_entries entries;
    LH_TRY_DONE(lh_plain_entries_open(&entries, &r->exec, scores->view, r->rotation, LH_PLAIN_KEYS_AND_VALUES));
    for (int64_t h = 0; h < r->heads.kv_count; h++)
        add_head(r, &entries, &(head_scores){layer, h, ranked_by(scores, h)});
    st = lh_exec_take(&r->exec);
done:
    lh_plain_entries_close(&entries);
    return st;
}

static int64_t all_rows(void *self, int64_t layer)
{
    (void)self;
    (void)layer;
    return 0;
}

static lh_status take_rows(void *self, const lh_evict_job *job, const lh_kv_rows *rows)
{
    run *r = self;
    lh_query_moments_add(&r->queries, job, &rows->queries, SINKS);
    return lh_exec_take(&r->exec);
}

/* ---- second pass: scales, and shares ---- */

static int64_t *bins_of(const run *r, int64_t layer, int64_t counted)
{
    return r->learnt + (layer * r->heads.counted_count + counted) * LH_CALIBRATION_BINS;
}

/* learnt: device, the learnt scores of the head's entries. */
static void count_head(run *r, const head_scores *of, const float *learnt)
{
    const int64_t count = r->lens[of->h] - r->first, counted = counted_number(r, of->h);
    if (counted < 0 || count <= 0) return;
    lh_exec_fetch(&r->exec, r->logs, learnt + r->first, count * (int64_t)sizeof *learnt);
    for (int64_t i = 0; i < count && lh_exec_ok(&r->exec); i++)
        lh_calibration_add(bins_of(r, of->layer, counted), r->logs[i]);
    take_logs(r, of, r->first, count);
    for (int64_t i = 0; i < count; i++)
        lh_calibration_add(r->calibration->second, r->logs[i] + log((double)r->request->tokens));
}

static lh_status count_scores(void *self, int64_t layer, const lh_evict_scores *scores)
{
    run *r = self;
    const int64_t heads = r->heads.kv_count, numbers = r->out->weights.numbers, mark = lh_scratch_mark(&r->exec);
    float *learnt = lh_scratch_alloc(&r->exec, heads * scores->ld * (int64_t)sizeof *learnt);
    LH_RUN(&r->exec, linear_scores, .y = learnt, .w = r->weights + layer * heads * numbers, .kv = scores->view,
           .inv_freq = r->rotation->inv_freq, .rotary = r->rotation->rotary, .scale = r->rotation->scale,
           .ld = scores->ld, .w_ld = numbers);
    lh_exec_fetch(&r->exec, r->lens, scores->view->len, heads * (int64_t)sizeof *r->lens);
    for (int64_t h = 0; h < heads && lh_exec_ok(&r->exec); h++)
        count_head(r, &(head_scores){layer, h, ranked_by(scores, h)}, learnt + h * scores->ld);
    lh_scratch_release(&r->exec, mark);
    return lh_exec_take(&r->exec);
}

/* ---- a pass ---- */

static lh_status take_layer(void *self, const lh_evict_job *job)
{
    run *r = self;
    r->rotation = job->layer.rotation;
    r->first = lh_max_i64(SINKS, job->visible_from);
    return LH_OK;
}

/* Collective. */
static lh_status prefill(run *r, const lh_policy *policy, const int32_t *ids)
{
    lh_status st = LH_OK;
    lh_session *session = NULL;
    const lh_kv_listener listener = {.self = r,
                                     .first_row = all_rows,
                                     .rows = r->weights ? NULL : take_rows,
                                     .whole = take_layer,
                                     .scored = r->weights ? count_scores : add_scores};
    const lh_session_options options = {.policy = policy,
                                        .profiles = r->request->profiles,
                                        .prompt = r->request->tokens,
                                        .more = 1,
                                        .length = r->request->tokens + 1,
                                        .bounded = 1,
                                        .listener = &listener};
    LH_TRY_DONE(lh_session_open(&session, r->engine, &options));
    LH_TRY_DONE(lh_session_prefill(session, ids, r->request->tokens, NULL));
done:
    lh_session_close(session);
    return st;
}

/* Collective. */
static lh_status pass(run *r, const lh_policy *policy)
{
    for (int64_t p = 0; p < r->request->prompts; p++) {
        LH_TRY(prefill(r, policy, r->request->ids + p * r->request->tokens));
        lh_progress_update(&r->progress, p + 1 + (r->weights ? r->request->prompts : 0));
    }
    return LH_OK;
}

/* ---- the weights ---- */

/* Collective. Each KV head by the rank that counts it; all ranks get all. */
static lh_status solve(run *r)
{
    lh_score_weights *w = &r->out->weights;
    const lh_heads *h = &r->heads;
    lh_comm *comm = r->exec.comm;
    lh_status st = LH_OK;
    for (int64_t l = 0; l < w->layers && st == LH_OK; l++)
        for (int64_t i = 0; i < h->counted_count && st == LH_OK; i++) {
            const int64_t row = l * w->kv_heads + h->counted_first + i;
            st = lh_entry_equations_solve(&r->equations, l, i, r->request->ridge, w->at + row * w->numbers,
                                          &r->out->explained[row]);
        }
    LH_TRY(lh_comm_agree_untimed(comm, st));
    LH_TRY(lh_comm_allreduce(comm, w->at, w->layers * w->kv_heads * w->numbers, LH_F32, LH_SUM));
    LH_TRY(lh_query_moments_share(&r->queries, w->at + r->equations.features, w->numbers));
    return lh_comm_allreduce(comm, r->out->explained, w->layers * w->kv_heads, LH_F32, LH_SUM);
}

/* Collective. Every head's share of the best entries of all heads and layers. */
static lh_status share_out(run *r)
{
    const lh_score_weights *w = &r->out->weights;
    const int64_t heads = w->layers * w->kv_heads;
    const double least = lh_calibration_quantile(r->calibration->first, BEST);
    const double all = (double)lh_calibration_above(r->calibration->first, least);
    for (int64_t l = 0; l < w->layers; l++)
        for (int64_t i = 0; i < r->heads.counted_count; i++) {
            const int64_t head = l * w->kv_heads + r->heads.counted_first + i;
            const double above = (double)lh_calibration_above(bins_of(r, l, i), least);
            r->shares[head] = (float)(r->out->explained[head] < 0 ? 1 / (double)heads : above / all);
        }
    LH_TRY(lh_comm_allreduce(r->exec.comm, r->shares, heads, LH_F32, LH_SUM));
    for (int64_t i = 0; i < heads; i++) *lh_score_weights_share(w, i) = r->shares[i];
    return LH_OK;
}

/* Collective. Onto the scale of the rows after the prompt. */
static lh_status calibrate(run *r)
{
    lh_score_weights *w = &r->out->weights;
    for (int64_t i = 0; i < w->layers * r->heads.counted_count * LH_CALIBRATION_BINS; i++)
        r->calibration->first[i % LH_CALIBRATION_BINS] += r->learnt[i];
    LH_TRY(lh_calibration_share(r->calibration, r->exec.comm));
    LH_TRY(share_out(r));
    const lh_calibration_line line = lh_calibration_fit(r->calibration, r->request->share);
    if (!(line.slope > 0))
        LH_FAIL(LH_EINPUT, "the learnt scores of these texts do not order their entries: give longer texts");
    for (int64_t i = 0; i < w->layers * w->kv_heads; i++) {
        float *row = w->at + i * w->numbers, *last = row + r->equations.features - 1;
        for (float *at = row; at <= last; at++) *at *= (float)line.slope;
        if (r->out->explained[i] >= 0) *last += (float)line.constant;
    }
    r->out->slope = line.slope;
    r->out->constant = line.constant;
    return LH_OK;
}

static lh_status open_run(run *r)
{
    const lh_engine_view *v = lh_engine_get(r->engine);
    lh_score_weights *w = &r->out->weights;
    r->exec = *v->exec;
    r->exec.scratch = &r->scratch;
    r->heads = lh_model_shard(v->model)->heads;
    *w = (lh_score_weights){.layers = v->config->layers,
                            .kv_heads = v->config->kv_heads,
                            .numbers = lh_learnt_numbers(v->config->head_dim),
                            .model = v->identity};
    LH_TRY(lh_calloc(&w->at, w->layers * w->kv_heads * w->numbers, sizeof *w->at));
    LH_TRY(lh_calloc(&r->out->explained, w->layers * w->kv_heads, sizeof *r->out->explained));
    LH_TRY(lh_calloc(&r->shares, w->layers * w->kv_heads, sizeof *r->shares));
    LH_TRY(lh_calloc(&r->calibration, 1, sizeof *r->calibration));
    LH_TRY(lh_calloc(&r->learnt, w->layers * r->heads.counted_count * LH_CALIBRATION_BINS, sizeof *r->learnt));
    LH_TRY(lh_calloc(&r->logs, lh_max_i64(r->request->tokens, LH_PLAIN_ENTRIES_AT_ONCE), sizeof *r->logs));
    LH_TRY(lh_calloc(&r->lens, r->heads.kv_count, sizeof *r->lens));
    LH_TRY(lh_query_moments_open(&r->queries, &r->exec, &r->heads, w->layers, v->config->head_dim));
    return lh_entry_equations_open(&r->equations, &r->exec, w->layers, r->heads.counted_count, v->config->head_dim);
}

static void close_run(run *r)
{
    lh_progress_clear(&r->progress);
    lh_device_free(lh_exec_device(&r->exec), r->weights);
    lh_entry_equations_close(&r->equations);
    lh_query_moments_close(&r->queries);
    lh_free(r->calibration);
    lh_free(r->learnt);
    lh_free(r->shares);
    lh_free(r->logs);
    lh_free(r->lens);
}

lh_status lh_learn(lh_learn_result *out, lh_engine *engine, const lh_learn_request *request)
{
    lh_status st = LH_OK;
    run r = {.engine = engine, .request = request, .out = out};
    *out = (lh_learn_result){0};
    lh_progress_init(&r.progress, "learning", "prompts", 2 * request->prompts);
    st = open_run(&r);
    LH_TRY_DONE(lh_comm_agree(r.exec.comm, st));
    LH_TRY_DONE(pass(&r, request->target));
    LH_TRY_DONE(solve(&r));
    st = lh_score_weights_put(&r.weights, &out->weights, &r.exec, &r.heads);
    LH_TRY_DONE(lh_comm_agree(r.exec.comm, st));
    LH_TRY_DONE(pass(&r, request->rows));
    LH_TRY_DONE(calibrate(&r));
done:
    close_run(&r);
    if (st != LH_OK) lh_learn_result_clear(out);
    return st;
}

void lh_learn_result_clear(lh_learn_result *r)
{
    lh_score_weights_clear(&r->weights);
    lh_free(r->explained);
    *r = (lh_learn_result){0};
}
