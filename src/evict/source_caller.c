/* Scores of a function (lh_scorer of longhaul.h): of the program that uses the library, of a plug-in, or of a file of
 * scores. The entries of a head, and the observed rows where the function reads them, are copied to the host, and its
 * scores to the device. Ranks that hold the same KV head compute the same. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "evict/evict_impl.h"
#include "policies/plugin.h"

/* A head's entries on the host; arrays of [longest head]. */
typedef struct host_head {
    int64_t head, first, count; /* of this rank, its first slot, its entries */
    int32_t *positions;
    float *keys, *values, *scores;
    void *stored; /* keys or values as the cache stores them */
} host_head;

/* The observed rows of all heads; NULL: not read. */
typedef struct host_rows {
    float *q;              /* [rows, kv_count x group, head_dim], scaled, with q_ld */
    float *attention;      /* [group, ld] of one head, then [group, count] */
    float *hidden;         /* [rows, hidden] */
    int32_t *first, *last; /* [rows] */
    int32_t *positions;    /* [rows] */
    int64_t rows, q_ld;
} host_rows;

/* What an eviction passes to the function. */
typedef struct scoring {
    lh_evictor *ev;
    const lh_evict_job *job;
    const lh_scorer *scorer;
    host_rows rows;
    const float *attention; /* device, [kv_count x group, ld]; NULL: not read */
    host_head head;
} scoring;

static lh_status open_head(host_head *h, const lh_ragged *kv, int64_t count)
{
    LH_TRY(lh_calloc(&h->positions, count, sizeof *h->positions));
    LH_TRY(lh_calloc(&h->keys, count * kv->head_dim, sizeof *h->keys));
    LH_TRY(lh_calloc(&h->values, count * kv->head_dim, sizeof *h->values));
    LH_TRY(lh_calloc(&h->scores, count, sizeof *h->scores));
    LH_TRY(lh_calloc(&h->stored, count * kv->head_dim, lh_dtype_bytes(kv->type)));
    return LH_OK;
}

static void close_head(host_head *h)
{
    lh_free(h->positions);
    lh_free(h->keys);
    lh_free(h->values);
    lh_free(h->scores);
    lh_free(h->stored);
}

/* The head's keys or values, `part` of the cache, as f32. */
static void fetch_part(const lh_exec *exec, const lh_ragged *kv, const void *part, const host_head *h, float *to)
{
    int64_t size = lh_dtype_bytes(kv->type), n = h->count * kv->head_dim;
    lh_exec_fetch(exec, h->stored, (const char *)part + h->first * kv->head_dim * size, n * size);
    lh_dtype_convert(to, LH_F32, h->stored, kv->type, n);
}

static void fetch_head(const lh_exec *exec, const lh_ragged *kv, host_head *h)
{
    fetch_part(exec, kv, kv->k, h, h->keys);
    fetch_part(exec, kv, kv->v, h, h->values);
    for (int64_t s = 0; s < h->count; s++) h->positions[s] = (int32_t)s;
    if (kv->positions) lh_exec_fetch(exec, h->positions, kv->positions + h->first, h->count * 4);
}

/* ---- observed rows ---- */

static void close_rows(host_rows *r)
{
    lh_free(r->q);
    lh_free(r->attention);
    lh_free(r->hidden);
    lh_free(r->first);
    lh_free(r->last);
    lh_free(r->positions);
}

static void find_visible(const lh_exec *exec, const lh_row_block *b, int64_t window, host_rows *r)
{
    const int64_t bytes = r->rows * (int64_t)sizeof(int32_t);
    lh_exec_fetch(exec, r->first, b->rows.positions, bytes);
    lh_exec_fetch(exec, r->last, b->until ? b->until : b->rows.positions, bytes);
    for (int64_t i = 0; i < r->rows; i++) {
        const lh_visible_range seen = lh_visible_range_of(r->first, r->last, window, i);
        r->first[i] = seen.before + 1;
    }
}

static lh_status fetch_hidden(const lh_evictor *ev, host_rows *r)
{
    const int64_t count = r->rows * ev->shape.hidden;
    LH_TRY(lh_calloc(&r->hidden, count, sizeof *r->hidden));
    lh_exec_fetch(&ev->exec, r->hidden, ev->scoring.rows.hidden, count * (int64_t)sizeof *r->hidden);
    return LH_OK;
}

static lh_status fetch_rows(scoring *s)
{
    const lh_evictor *ev = s->ev;
    const lh_row_block *b = &ev->scoring;
    const lh_heads *heads = &ev->shape.heads;
    const int64_t width = heads->kv_count * heads->group * ev->shape.head_dim;
    host_rows *r = &s->rows;
    r->rows = b->rows.tokens;
    r->q_ld = b->rows.q_ld;
    const int64_t floats = (r->rows - 1) * r->q_ld + width;
    LH_TRY(lh_calloc(&r->first, r->rows, sizeof *r->first));
    LH_TRY(lh_calloc(&r->last, r->rows, sizeof *r->last));
    LH_TRY(lh_calloc(&r->positions, r->rows, sizeof *r->positions));
    find_visible(&ev->exec, b, s->job->layer.window, r);
    for (int64_t i = 0; i < r->rows; i++) r->positions[i] = (int32_t)lh_policy_row_of(&ev->policy, s->job->seen, i);
    if (lh_score_reads_hidden(&ev->policy.score)) LH_TRY(fetch_hidden(ev, r));
    if (s->attention) LH_TRY(lh_calloc(&r->attention, heads->group * ev->ld, sizeof *r->attention));
    if (!(s->scorer->reads & LH_READS_QUERIES)) return LH_OK;
    LH_TRY(lh_calloc(&r->q, floats, sizeof *r->q));
    lh_exec_fetch(&ev->exec, r->q, b->rows.q, floats * (int64_t)sizeof *r->q);
    for (int64_t i = 0; i < floats; i++) r->q[i] *= ev->shape.scale;
    return LH_OK;
}

/* The sums of the attention that entries receive from each query head. */
static const float *count_attention(lh_evictor *ev, const lh_evict_job *job)
{
    const int64_t group = ev->shape.heads.group, count = ev->shape.heads.kv_count * group * ev->ld;
    float *sums = lh_scratch_floats(ev, count);
    lh_exec_zero(&ev->exec, sums, count * (int64_t)sizeof *sums);
    lh_count_columns(ev, job, &ev->scoring, &(lh_columns){.sums = lh_slot_rows(sums, group, ev->ld), .parts = group});
    return sums;
}

/* The rows of one head: queries [rows, group, head_dim] in new memory, attention [group, count]. */
static lh_status rows_of_head(scoring *s, lh_head_entries *e, float **queries)
{
    const lh_evictor *ev = s->ev;
    host_rows *r = &s->rows;
    const int64_t group = ev->shape.heads.group, width = group * e->head_dim, h = s->head.head;
    e->rows = r->rows;
    e->first_seen = r->first;
    e->last_seen = r->last;
    e->row_positions = r->positions;
    e->hidden = r->hidden;
    if (s->attention) {
        lh_exec_fetch(&ev->exec, r->attention, s->attention + h * group * ev->ld,
                      group * ev->ld * (int64_t)sizeof *r->attention);
        for (int64_t i = 1; i < group; i++)
            memmove(r->attention + i * e->count, r->attention + i * ev->ld, (size_t)e->count * sizeof *r->attention);
        e->attention = r->attention;
    }
    if (!r->q) return LH_OK;
    LH_TRY(lh_calloc(queries, r->rows * width, sizeof **queries));
    for (int64_t i = 0; i < r->rows; i++)
        memcpy(*queries + i * width, r->q + i * r->q_ld + h * width, (size_t)width * sizeof **queries);
    e->queries = *queries;
    return LH_OK;
}

/* ---- the function ---- */

/* A status of the function; LH_EINTERNAL for a number that is none. */
static lh_status status_of(lh_status st)
{
    return (st >= LH_OK && st <= LH_EINTERNAL) || st == LH_EINTERRUPTED ? st : LH_EINTERNAL;
}

/* Calls the function, and checks its scores. */
static lh_status call_scorer(const scoring *s, const lh_head_entries *e, float *scores)
{
    const lh_loaded_plugin *plugin = s->ev->policy.score.plugin;
    char owner[64] = "policy";
    if (plugin) snprintf(owner, sizeof owner, "plug-in '%s'", plugin->preset.name);
    if (!s->scorer->score) LH_FAIL(LH_EINTERNAL, "the score of the policy is not loaded");
    lh_error_clear();
    for (int64_t i = 0; i < e->count; i++) scores[i] = NAN; /* a score that is left out is refused */
    lh_status st = status_of(s->scorer->score(s->scorer->self, e, scores));
    e->error[LH_SCORE_ERROR - 1] = '\0';
    if (st != LH_OK && *e->error)
        LH_FAIL(st, "the scorer of the %s fails at KV head %lld of layer %lld: %s", owner, (long long)e->kv_head,
                (long long)e->layer, e->error);
    if (st != LH_OK && *lh_error_message()) /* it says why */
        return lh_fail_within(st, "layer %lld, KV head %lld", (long long)e->layer, (long long)e->kv_head);
    if (st != LH_OK)
        LH_FAIL(st, "the scorer of the %s fails at KV head %lld of layer %lld", owner, (long long)e->kv_head,
                (long long)e->layer);
    for (int64_t i = 0; i < e->count; i++)
        if (!isfinite(scores[i]))
            LH_FAIL(LH_EUSAGE,
                    "the scorer of the %s gives the entry at %lld in KV head %lld of layer %lld a score of %g, scores "
                    "must be finite",
                    owner, (long long)e->positions[i], (long long)e->kv_head, (long long)e->layer, (double)scores[i]);
    return LH_OK;
}

static lh_status score_head(scoring *s, float *all)
{
    lh_status st = LH_OK;
    const lh_evictor *ev = s->ev;
    host_head *h = &s->head;
    float *scores = all + h->head * ev->ld, *queries = NULL;
    char error[LH_SCORE_ERROR] = "";
    lh_head_entries e = {.size = sizeof e,
                         .layer = s->job->layer.index,
                         .kv_head = ev->shape.heads.kv_first + h->head,
                         .count = h->count,
                         .head_dim = s->job->entries->head_dim,
                         .positions = h->positions,
                         .keys = h->keys,
                         .values = h->values,
                         .tokens = s->job->seen,
                         .window = ev->policy.window,
                         .group = ev->shape.heads.group,
                         .softcap = ev->shape.softcap,
                         .error = error,
                         .hidden_size = ev->shape.hidden};
    if (ev->policy.score.plugin) e.options = lh_params_of(&ev->policy.methods, ev->policy.score.source);
    fetch_head(&ev->exec, s->job->entries, h);
    if (s->scorer->reads) LH_TRY_DONE(rows_of_head(s, &e, &queries));
    if (!lh_exec_ok(&ev->exec)) goto done; /* it is latched */
    LH_TRY_DONE(call_scorer(s, &e, h->scores));
    lh_exec_copy(&ev->exec, scores, h->scores, h->count * (int64_t)sizeof *scores, LH_COPY_TO_DEVICE);
    lh_exec_sync(&ev->exec);
done:
    lh_free(queries);
    return st;
}

static lh_status score_heads(scoring *s, float *scores)
{
    lh_status st = LH_OK;
    const lh_exec *exec = &s->ev->exec;
    const lh_ragged *kv = s->job->entries;
    int64_t *len = NULL, *offset, bytes = kv->heads * (int64_t)sizeof *len, longest = 0;
    LH_TRY_DONE(lh_calloc(&len, 2 * kv->heads, sizeof *len));
    offset = len + kv->heads;
    lh_exec_fetch(exec, len, kv->len, bytes);
    lh_exec_fetch(exec, offset, kv->offset, bytes);
    for (int64_t i = 0; i < kv->heads; i++) longest = lh_max_i64(longest, len[i]);
    if (longest && s->scorer->reads) LH_TRY_DONE(fetch_rows(s));
    LH_TRY_DONE(open_head(&s->head, kv, longest));
    for (int64_t i = 0; i < kv->heads && lh_exec_ok(exec); i++) {
        s->head.head = i;
        s->head.first = offset[i];
        s->head.count = len[i];
        if (len[i]) LH_TRY_DONE(score_head(s, scores));
    }
done:
    close_head(&s->head);
    close_rows(&s->rows);
    lh_free(len);
    return st;
}

static void score(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    scoring s = {.ev = ev, .job = job, .scorer = &ev->policy.score.scorer};
    LH_LATCH(&ev->exec, score_heads(&s, scores));
}

static void score_by_rows(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    scoring s = {.ev = ev, .job = job, .scorer = &ev->policy.score.scorer};
    ev->scoring = lh_scoring_rows(ev, job);
    if (s.scorer->reads & LH_READS_ATTENTION) s.attention = count_attention(ev, job);
    LH_LATCH(&ev->exec, score_heads(&s, scores));
}

static lh_status check(const lh_policy *policy)
{
    const lh_loaded_plugin *plugin = policy->score.plugin;
    const char *why = NULL;
    if (plugin && plugin->table->check)
        why = plugin->table->check(lh_params_of(&policy->methods, policy->score.source));
    if (why) LH_FAIL(LH_EUSAGE, "policy '%s': %s", policy->name, why);
    return LH_OK;
}

static lh_status check_rows(const lh_policy *policy)
{
    LH_TRY(lh_check_scoring_rows(policy));
    return check(policy);
}

static const lh_source source = {.score = score}, by_rows = {.score = score_by_rows};

const lh_method lh_method_caller = {.traits = LH_NEEDS_ENTRIES, .check = check, .source = &source};

const lh_method lh_method_caller_rows = {.traits = LH_ATTENDS | LH_JOINT_STATISTIC | LH_AT_EVICTION | LH_NORMALISERS |
                                                   LH_NEEDS_ENTRIES,
                                         .check = check_rows,
                                         .source = &by_rows};
