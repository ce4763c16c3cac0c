#include "model/sampler.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"

typedef struct candidate {
    float logit;
    int32_t id;
} candidate;

lh_status lh_sampling_check(const lh_sampling *s)
{
    lh_status st = LH_OK;
    if (!(s->temperature >= 0)) LH_FAIL(LH_EUSAGE, "--temperature must be 0 (greedy) or more");
    if (s->top_k < 0) LH_FAIL(LH_EUSAGE, "--top-k must be 0 (off) or more");
    if (!(s->top_p > 0 && s->top_p <= 1)) LH_FAIL(LH_EUSAGE, "--top-p must be above 0 and at most 1 (off)");
    if (!(s->min_p >= 0 && s->min_p < 1)) LH_FAIL(LH_EUSAGE, "--min-p must be 0 (off) or more and below 1");
    if (!(s->repeat_penalty > 0)) LH_FAIL(LH_EUSAGE, "--repeat-penalty must be above 0; 1 is off");
done:
    return st;
}

/* Logit descending, id ascending; NaN last. */
static int better_first(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    int xn = isnan(x->logit), yn = isnan(y->logit);
    if (xn != yn) return xn - yn;
    if (!xn && x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

lh_status lh_logits_gather(const lh_kv_place *place, const lh_logits_view *view, int64_t vocab, int root, float *out)
{
    lh_status st = LH_OK;
    int ranks = lh_comm_size(place->comm), rank = lh_comm_rank(place->comm);
    int64_t *bytes = NULL, *at = NULL;
    float *host = NULL;
    LH_TRY(lh_calloc(&bytes, ranks, sizeof *bytes));
    LH_TRY(lh_calloc(&at, ranks, sizeof *at));
    LH_TRY(lh_calloc(&host, view->count, sizeof *host));
    for (int r = 0; r < ranks; r++) { /* as lh_shard_of cuts the vocabulary */
        at[r] = vocab * r / ranks * 4;
        bytes[r] = vocab * (r + 1) / ranks * 4 - at[r];
    }
    for (int64_t row = 0; row < view->rows; row++) {
        float *whole = out && (root < 0 || root == rank) ? out + row * vocab : NULL;
        LH_TRY(lh_stream_copy(place->stream, host, view->logits + row * view->count, view->count * 4, LH_COPY_TO_HOST));
        LH_TRY(lh_stream_sync(place->stream));
        LH_TRY(root < 0 ? lh_comm_allgatherv(place->comm, host, whole, bytes, at)
                        : lh_comm_gatherv(place->comm, root, host, whole, bytes, at));
    }
done:
    lh_free(host);
    lh_free(bytes);
    lh_free(at);
    return st;
}

/* The k <= LH_BEST_MOST best of all ranks, sorted. *out is new memory, *n at most k. */
static lh_status gather_best(const lh_sample_at *in, const lh_logits_view *row, int64_t k, candidate **out, int64_t *n)
{
    lh_status st = LH_OK;
    int ranks = lh_comm_size(in->place->comm);
    int64_t own = k < row->count ? k : row->count;
    candidate *mine = NULL, *all = NULL;
    float *best = NULL;
    int32_t *at = NULL;
    LH_TRY(lh_calloc(&best, own, sizeof *best));
    LH_TRY(lh_calloc(&at, own, sizeof *at));
    LH_TRY(lh_calloc(&mine, k, sizeof *mine));
    LH_TRY(lh_calloc(&all, k * ranks, sizeof *all));
    LH_TRY(in->place->ops->top_logits(in->place->stream, &(lh_top_logits_args){row->best, row->best_at, row->logits, 1,
                                                                               row->count, row->count, own}));
    LH_TRY(lh_stream_copy(in->place->stream, best, row->best, own * 4, LH_COPY_TO_HOST));
    LH_TRY(lh_stream_copy(in->place->stream, at, row->best_at, own * 4, LH_COPY_TO_HOST));
    LH_TRY(lh_stream_sync(in->place->stream));
    /* A part with fewer than k is filled up with what comes behind everything, NaN too. */
    for (int64_t i = 0; i < k; i++)
        mine[i] = i < own ? (candidate){best[i], (int32_t)(at[i] + row->first)} : (candidate){NAN, INT32_MAX};
    LH_TRY(lh_comm_allgather(in->place->comm, mine, all, k * (int64_t)sizeof *mine));
    qsort(all, (size_t)(k * ranks), sizeof *all, better_first);
    *n = k;
    while (*n > 0 && all[*n - 1].id == INT32_MAX) --*n;
    *out = all;
    all = NULL;
done:
    lh_free(all);
    lh_free(mine);
    lh_free(best);
    lh_free(at);
    return st;
}

/* Once a token, however often it was seen. */
static lh_status penalise(float *logits, int64_t vocab, double penalty, const lh_sample_at *in)
{
    lh_status st = LH_OK;
    uint8_t *done_ids = NULL;
    LH_TRY(lh_calloc(&done_ids, vocab, 1));
    for (int64_t i = 0; i < in->n; i++) {
        int32_t id = in->seen[i];
        if (id < 0 || id >= vocab || done_ids[id]) continue;
        done_ids[id] = 1;
        logits[id] = logits[id] > 0 ? (float)(logits[id] / penalty) : (float)(logits[id] * penalty);
    }
done:
    lh_free(done_ids);
    return st;
}

/* All logits as candidates, the penalty applied; sorted when the k best or a share of the mass is asked for. */
static lh_status gather_all(const lh_sampling *s, const lh_sample_at *in, const lh_logits_view *row, candidate **out,
                            int64_t *n)
{
    lh_status st = LH_OK;
    int64_t vocab = row->count;
    float *logits = NULL;
    candidate *all = NULL;
    LH_TRY(lh_comm_allreduce(in->place->comm, &vocab, 1, LH_I64, LH_SUM));
    LH_TRY(lh_calloc(&logits, vocab, sizeof *logits));
    LH_TRY(lh_calloc(&all, vocab, sizeof *all));
    LH_TRY(lh_logits_gather(in->place, row, vocab, -1, logits));
    if (s->repeat_penalty != 1) LH_TRY(penalise(logits, vocab, s->repeat_penalty, in));
    for (int64_t i = 0; i < vocab; i++) all[i] = (candidate){logits[i], (int32_t)i};
    qsort(all, (size_t)vocab, sizeof *all, better_first);
    *n = s->top_k && s->top_k < vocab ? s->top_k : vocab;
    *out = all;
    all = NULL;
done:
    lh_free(all);
    lh_free(logits);
    return st;
}

/* Draw from n sorted candidates. */
static lh_status draw(const lh_sampling *s, const lh_sample_at *in, const candidate *all, int64_t n, int32_t *id)
{
    lh_status st = LH_OK;
    double *p = NULL, sum = 0, kept = 0;
    uint32_t word[4];
    const uint32_t key[2] = {(uint32_t)s->seed, (uint32_t)(s->seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)in->step, (uint32_t)s->request, (uint32_t)(s->request >> 32), 0x5a3b1e70u};
    int64_t count = 0;
    LH_TRY(lh_calloc(&p, n, sizeof *p));
    while (n > 0 && isnan(all[n - 1].logit)) n--;
    for (int64_t i = 0; i < n; i++) sum += p[i] = exp(((double)all[i].logit - all[0].logit) / s->temperature);
    /* top-p keeps the fewest candidates whose share reaches p, min-p those with at least this part of the best one's
     * share. */
    while (count < n && (count == 0 || (kept < s->top_p * sum && p[count] >= s->min_p))) kept += p[count++];
    lh_philox(word, key, counter);
    double left = (double)lh_uniform(word[0]) * kept;
    int64_t i = 0;
    for (; i + 1 < count && left >= p[i]; i++) left -= p[i];
    *id = all[i].id;
done:
    lh_free(p);
    return st;
}

lh_status lh_sample(const lh_sampling *s, const lh_sample_at *at, const lh_logits_view *row, int32_t *id)
{
    lh_status st = LH_OK;
    candidate *all = NULL;
    int64_t n = 0;
    int penalised = s->repeat_penalty != 1;
    if (s->temperature == 0 && !penalised)
        LH_TRY(gather_best(at, row, 1, &all, &n));
    else if (s->temperature > 0 && s->top_k > 0 && s->top_k <= LH_BEST_MOST && !penalised)
        LH_TRY(gather_best(at, row, s->top_k, &all, &n));
    else
        LH_TRY(gather_all(s, at, row, &all, &n));
    if (n == 0 || isnan(all[0].logit)) LH_FAIL(LH_EINTERNAL, "every logit is NaN: the model computes nothing sensible");
    if (s->temperature == 0) {
        *id = all[0].id;
    } else {
        LH_TRY(draw(s, at, all, n, id));
        LH_TRY(lh_comm_bcast(at->place->comm, 0, id, sizeof *id)); /* exp may differ between kinds of machines */
    }
done:
    lh_free(all);
    return st;
}
