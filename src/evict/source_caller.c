/* Scores of a function of the program that uses the library (lh_scorer of longhaul.h): the entries of a head are copied
 * to the host, and its scores to the device. */
#include <math.h>

#include "evict/evict_impl.h"

/* A head's entries on the host; arrays of [longest head]. */
typedef struct host_head {
    int64_t head, first, count; /* of this rank, its first slot, its entries */
    int32_t *positions;
    float *keys, *values, *scores;
    void *stored; /* keys or values as the cache stores them */
} host_head;

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

/* Calls the program's function, and checks its scores. */
static lh_status call_scorer(const lh_scorer *scorer, const lh_head_entries *e, float *scores)
{
    lh_error_clear();
    lh_status st = scorer->score(scorer->self, e, scores);
    if (st != LH_OK && *lh_error_message()) /* it says why */
        return lh_fail_within(st, "layer %lld, KV head %lld", (long long)e->layer, (long long)e->kv_head);
    if (st != LH_OK)
        LH_FAIL(st, "the scorer of the policy fails at KV head %lld of layer %lld", (long long)e->kv_head,
                (long long)e->layer);
    for (int64_t s = 0; s < e->count; s++)
        if (!isfinite(scores[s]))
            LH_FAIL(LH_EUSAGE,
                    "the scorer of the policy gives the entry at %lld in KV head %lld of layer %lld a score of %g, "
                    "scores must be finite",
                    (long long)e->positions[s], (long long)e->kv_head, (long long)e->layer, (double)scores[s]);
    return LH_OK;
}

static lh_status score_head(lh_evictor *ev, const lh_evict_job *job, host_head *h, float *all)
{
    const lh_ragged *kv = job->entries;
    float *scores = all + h->head * ev->ld;
    fetch_head(&ev->exec, kv, h);
    if (!lh_exec_ok(&ev->exec)) return LH_OK; /* it is latched */
    LH_TRY(call_scorer(&ev->policy.score.scorer,
                       &(lh_head_entries){.size = sizeof(lh_head_entries),
                                          .layer = job->layer.index,
                                          .kv_head = ev->shape.heads.kv_first + h->head,
                                          .count = h->count,
                                          .head_dim = kv->head_dim,
                                          .positions = h->positions,
                                          .keys = h->keys,
                                          .values = h->values},
                       h->scores));
    lh_exec_copy(&ev->exec, scores, h->scores, h->count * (int64_t)sizeof *scores, LH_COPY_TO_DEVICE);
    lh_exec_sync(&ev->exec);
    return LH_OK;
}

static lh_status score_heads(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    lh_status st = LH_OK;
    const lh_ragged *kv = job->entries;
    host_head h = {0};
    int64_t *len = NULL, *offset, bytes = kv->heads * (int64_t)sizeof *len, longest = 0;
    LH_TRY_DONE(lh_calloc(&len, 2 * kv->heads, sizeof *len));
    offset = len + kv->heads;
    lh_exec_fetch(&ev->exec, len, kv->len, bytes);
    lh_exec_fetch(&ev->exec, offset, kv->offset, bytes);
    for (int64_t i = 0; i < kv->heads; i++) longest = lh_max_i64(longest, len[i]);
    LH_TRY_DONE(open_head(&h, kv, longest));
    for (int64_t i = 0; i < kv->heads && lh_exec_ok(&ev->exec); i++) {
        h.head = i;
        h.first = offset[i];
        h.count = len[i];
        if (h.count) LH_TRY_DONE(score_head(ev, job, &h, scores));
    }
done:
    close_head(&h);
    lh_free(len);
    return st;
}

static void score(lh_evictor *ev, const lh_evict_job *job, float *scores)
{
    LH_LATCH(&ev->exec, score_heads(ev, job, scores));
}

static const lh_source source = {.score = score};

const lh_method lh_method_caller = {.traits = LH_NEEDS_ENTRIES, .source = &source};
