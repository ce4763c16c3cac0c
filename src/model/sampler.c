/* sampler.c - draws the next token. Each rank sorts its k best logits; the merged best nearly always decide the draw.
 * If top-p, min-p or the draw need more, all logits are gathered and sorted. Both ways give the same token, because
 * probabilities are integers and their total is known. */
#include "model/sampler.h"

#include <math.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "base/rng.h"
#include "exec/heads.h"

typedef struct candidate {
    float logit;
    int32_t id;
} candidate;

enum { NO_TOKEN = INT32_MAX };

/* Fills in the neutral value of options that are not set. */
static lh_sampling with_defaults(const lh_sampling *given)
{
    lh_sampling s = *given;
    if (s.top_p == 0) s.top_p = 1;
    if (s.top_k == -1) s.top_k = 0; /* vLLM and SGLang write -1 */
    if (s.repeat_penalty == 0) s.repeat_penalty = 1;
    return s;
}

lh_status lh_sampling_check(const lh_sampling *given)
{
    const lh_sampling whole = with_defaults(given), *s = &whole;
    if (!(s->temperature >= 0)) LH_FAIL(LH_EUSAGE, "%s must be 0 (greedy) or more", lh_setting("temperature"));
    if (s->top_k < 0) LH_FAIL(LH_EUSAGE, "%s must be 0 or -1 (off), or more", lh_setting("top_k"));
    if (!(s->top_p > 0 && s->top_p <= 1)) LH_FAIL(LH_EUSAGE, "%s must be between 0 and 1 (off)", lh_setting("top_p"));
    if (!(s->min_p >= 0 && s->min_p < 1))
        LH_FAIL(LH_EUSAGE, "%s must be 0 (off) or more and below 1", lh_setting("min_p"));
    if (s->temperature == 0 && (s->top_k > 0 || s->top_p < 1 || s->min_p > 0))
        LH_FAIL(LH_EUSAGE,
                "'%s' chooses tokens to draw from, and without '%s' none is drawn, the most likely one is taken: give "
                "'%s', as 0.8, too",
                lh_setting(s->top_k > 0   ? "top_k"
                           : s->top_p < 1 ? "top_p"
                                          : "min_p"),
                lh_setting("temperature"), lh_setting("temperature"));
    if (!isfinite(s->frequency_penalty) || !isfinite(s->presence_penalty))
        LH_FAIL(LH_EUSAGE, "%s must be finite, 0 is off",
                lh_setting(isfinite(s->presence_penalty) ? "frequency_penalty" : "presence_penalty"));
    if (!(s->repeat_penalty > 0)) LH_FAIL(LH_EUSAGE, "%s must be above 0, 1 is off", lh_setting("repeat_penalty"));
    if (s->bias_count < 0 || (s->bias_count && !s->bias))
        LH_FAIL(LH_EUSAGE, "bias_count is %lld, it must be the number of elements of bias", (long long)s->bias_count);
    return LH_OK;
}

/* Sort by descending logit, stable, NaN last: a radix sort. spare: as long as the list. */
static void sort_best_first(candidate *all, candidate *spare, int64_t n)
{
    for (int shift = 0; shift < 32; shift += 8) {
        int64_t start[257] = {0};
        for (int64_t i = 0; i < n; i++) start[(~lh_score_key(all[i].logit) >> shift & 255) + 1]++;
        for (int d = 0; d < 256; d++) start[d + 1] += start[d];
        for (int64_t i = 0; i < n; i++) spare[start[~lh_score_key(all[i].logit) >> shift & 255]++] = all[i];
        candidate *sorted = spare;
        spare = all;
        all = sorted;
    }
}

lh_status lh_logits_gather(const lh_exec *exec, const lh_logits_view *view, int64_t vocab, int root, float *out)
{
    lh_status st = LH_OK;
    int ranks = lh_comm_size(exec->comm), rank = lh_comm_rank(exec->comm);
    lh_gather g = {0};
    float *host = NULL;
    LH_TRY_DONE(lh_gather_init(&g, ranks));
    LH_TRY_DONE(lh_calloc(&host, view->count, sizeof *host));
    for (int r = 0; r < ranks; r++) { /* the ranges of lh_shard_of */
        g.at[r] = vocab * r / ranks * 4;
        g.bytes[r] = vocab * (r + 1) / ranks * 4 - g.at[r];
    }
    for (int64_t row = 0; row < view->rows; row++) {
        float *whole = out && (root < 0 || root == rank) ? out + row * vocab : NULL;
        lh_exec_fetch(exec, host, view->logits + row * view->count, view->count * 4);
        LH_TRY_DONE(lh_exec_take(exec));
        LH_TRY_DONE(root < 0 ? lh_comm_allgatherv(exec->comm, host, whole, g.bytes, g.at)
                             : lh_comm_gatherv(exec->comm, root, host, whole, g.bytes, g.at));
    }
done:
    lh_free(host);
    lh_gather_clear(&g);
    return st;
}

/* ---- bias and penalties of this rank's logits ---- */

static int is_here(const lh_logits_view *row, int64_t id)
{
    return id >= row->first && id < row->first + row->count;
}

/* bias: [count], zeros. */
static void put_bias(const lh_sampling *s, const lh_logits_view *row, float *bias)
{
    for (int64_t k = 0; k < s->bias_count; k++)
        if (is_here(row, s->bias[k].id)) bias[s->bias[k].id - row->first] += s->bias[k].bias;
}

/* minus: [count], zeros. Counts the tokens of the answer (OpenAI's "frequency and presence penalties"). */
static void put_minus(const lh_sampling *s, const lh_sample_at *in, const lh_logits_view *row, float *minus)
{
    for (int64_t i = lh_max_i64(in->n - in->step, 0); i < in->n; i++)
        if (is_here(row, in->seen[i])) minus[in->seen[i] - row->first]++;
    for (int64_t i = 0; i < row->count; i++)
        if (minus[i] > 0) minus[i] = (float)(s->frequency_penalty * (double)minus[i] + s->presence_penalty);
}

static void put_seen(const lh_sample_at *in, const lh_logits_view *row, uint32_t *seen)
{
    for (int64_t i = 0; i < in->n; i++) {
        const int64_t at = in->seen[i] - row->first;
        if (is_here(row, in->seen[i])) seen[at / 32] |= (uint32_t)1 << at % 32;
    }
}

static int counts_answer(const lh_sampling *s)
{
    return s->frequency_penalty != 0 || s->presence_penalty != 0;
}

static int changes_logits(const lh_sampling *s)
{
    return s->repeat_penalty != 1 || counts_answer(s) || s->bias_count > 0;
}

/* Writes the changed logits to workspace; the original logits stay unchanged. */
static lh_status penalise(const lh_sampling *s, const lh_sample_at *in, lh_logits_view *row)
{
    lh_status st = LH_OK;
    const lh_sample_room *room = &row->room;
    const int64_t words = (row->count + 31) / 32, bytes = row->count * (int64_t)sizeof(float);
    uint32_t *seen = NULL;
    float *bias = NULL, *minus = NULL;
    LH_TRY_DONE(lh_calloc(&seen, words, sizeof *seen));
    LH_TRY_DONE(lh_calloc(&bias, row->count, sizeof *bias));
    LH_TRY_DONE(lh_calloc(&minus, row->count, sizeof *minus));
    if (s->repeat_penalty != 1) put_seen(in, row, seen);
    put_bias(s, row, bias);
    if (counts_answer(s)) put_minus(s, in, row, minus);
    lh_exec_put(in->exec, room->seen, seen, words * (int64_t)sizeof *seen);
    if (s->bias_count) lh_exec_put(in->exec, room->bias, bias, bytes);
    if (counts_answer(s)) lh_exec_put(in->exec, room->minus, minus, bytes);
    LH_RUN(in->exec, penalise, .y = room->penalised, .x = row->logits, .seen = room->seen,
           .bias = s->bias_count ? room->bias : NULL, .minus = counts_answer(s) ? room->minus : NULL,
           .count = row->count, .penalty = s->repeat_penalty);
    row->logits = room->penalised;
    st = lh_exec_take(in->exec); /* the copies are done: their sources may go */
done:
    lh_free(seen);
    lh_free(bias);
    lh_free(minus);
    return st;
}

/* This rank's k best logits of each row in order, padded after `own` of them. mine: [rows, k]; the workspace holds at
 * most `most`. */
static lh_status find_best(const lh_exec *exec, const lh_logits_view *view, candidate *mine, int64_t k)
{
    lh_status st = LH_OK;
    const lh_sample_room *room = &view->room;
    const int64_t own = k < view->count ? k : view->count, n = view->rows * own;
    float *best = NULL; /* same layout as the workspace: one copy, one wait of the host */
    LH_TRY_DONE(lh_calloc(&best, 2 * n, sizeof *best));
    LH_RUN(exec, top_logits, .values = room->best, .indices = (int32_t *)(room->best + n), .x = view->logits,
           .rows = view->rows, .cols = view->count, .ld = view->count, .k = own);
    lh_exec_fetch(exec, best, room->best, 2 * n * 4);
    LH_TRY_DONE(lh_exec_take(exec));
    const int32_t *at = (const int32_t *)(best + n);
    for (int64_t i = 0; i < view->rows * k; i++) {
        const int64_t from = i / k * own + i % k;
        mine[i] = i % k < own ? (candidate){best[from], (int32_t)(at[from] + view->first)} : (candidate){NAN, NO_TOKEN};
    }
done:
    lh_free(best);
    return st;
}

/* The k <= room.most best logits of all ranks, sorted. *out is new memory, *n at most k. */
static lh_status gather_best(const lh_sample_at *in, const lh_logits_view *row, int64_t k, candidate **out, int64_t *n)
{
    lh_status st = LH_OK;
    int64_t count = 0, ranks = lh_comm_size(in->exec->comm);
    candidate *mine = NULL, *all = NULL;
    LH_TRY_DONE(lh_calloc(&mine, k * ranks, sizeof *mine));
    LH_TRY_DONE(lh_calloc(&all, k * ranks, sizeof *all));
    LH_TRY_DONE(find_best(in->exec, row, mine, k));
    LH_TRY_DONE(lh_comm_allgather(in->exec->comm, mine, all, k * (int64_t)sizeof *mine));
    for (int64_t i = 0; i < k * ranks; i++)
        if (all[i].id != NO_TOKEN) all[count++] = all[i];
    sort_best_first(all, mine, count); /* the sort is stable, and ranks are in the order of their tokens */
    *n = count < k ? count : k;
    *out = all;
    all = NULL;
done:
    lh_free(all);
    lh_free(mine);
    return st;
}

lh_status lh_greedy_tokens(const lh_exec *exec, const lh_logits_view *view, int32_t *ids)
{
    lh_status st = LH_OK;
    const int64_t rows = view->rows, ranks = lh_comm_size(exec->comm);
    candidate *mine = NULL, *all = NULL;
    LH_TRY_DONE(lh_calloc(&mine, rows, sizeof *mine));
    LH_TRY_DONE(lh_calloc(&all, rows * ranks, sizeof *all));
    LH_TRY_DONE(find_best(exec, view, mine, 1));
    LH_TRY_DONE(lh_comm_allgather(exec->comm, mine, all, rows * (int64_t)sizeof *mine));
    for (int64_t row = 0; row < rows; row++) {
        candidate best = {NAN, NO_TOKEN};
        for (int64_t i = row; i < rows * ranks;
             i += rows) /* of equal logits the first wins: ranks are in the order of their tokens */
            if (lh_score_key(all[i].logit) > lh_score_key(best.logit)) best = all[i];
        ids[row] = best.id == NO_TOKEN ? LH_TOKEN_NONE : best.id;
    }
done:
    lh_free(all);
    lh_free(mine);
    return st;
}

/* All logits, sorted. *out is new memory. */
static lh_status gather_all(const lh_sample_at *in, const lh_logits_view *row, candidate **out)
{
    lh_status st = LH_OK;
    float *logits = NULL;
    candidate *all = NULL, *spare = NULL;
    LH_TRY_DONE(lh_calloc(&logits, row->vocab, sizeof *logits));
    LH_TRY_DONE(lh_calloc(&all, row->vocab, sizeof *all));
    LH_TRY_DONE(lh_calloc(&spare, row->vocab, sizeof *spare));
    LH_TRY_DONE(lh_logits_gather(in->exec, row, row->vocab, -1, logits));
    for (int64_t i = 0; i < row->vocab; i++) all[i] = (candidate){logits[i], (int32_t)i};
    sort_best_first(all, spare, row->vocab);
    *out = all;
    all = NULL;
done:
    lh_free(all);
    lh_free(spare);
    lh_free(logits);
    return st;
}

/* The sum of the probabilities of all ranks. */
static lh_status sum_all(const lh_sample_at *in, const lh_logits_view *row, lh_probabilities by, int64_t *sum)
{
    LH_RUN(in->exec, sum_probabilities, .sum = row->room.probabilities, .x = row->logits, .count = row->count,
           .by = by);
    lh_exec_fetch(in->exec, sum, row->room.probabilities, (int64_t)sizeof *sum);
    LH_TRY(lh_exec_take(in->exec));
    LH_TRY(lh_comm_allreduce(in->exec->comm, sum, 1, LH_I64, LH_SUM));
    return LH_OK;
}

/* The candidates of a draw. Probabilities are integers and their sum is known, so a decision by the first n candidates
 * equals the decision by all. */
typedef struct pool {
    const candidate *all; /* sorted; only the first n are known */
    int64_t n, competing;
    int64_t total; /* sum over all candidates; -1: unknown */
    lh_probabilities by;
} pool;

/* The sum over the nucleus that top-p and min-p keep; -1 if the first n candidates do not decide it. top-p keeps the
 * fewest candidates with a total probability of at least p, min-p the candidates with at least this fraction of the
 * largest probability. */
static int64_t probabilities_left(const lh_sampling *s, const pool *c)
{
    int64_t kept = 0, reach = c->total, least = (int64_t)ceil(ldexp(s->min_p, c->by.bits));
    if (s->top_p == 1 && s->min_p == 0) return c->total;
    if (s->top_p < 1) reach = lh_min_i64(reach, (int64_t)ceil(s->top_p * (double)c->total));
    for (int64_t i = 0; i < c->n; i++) {
        int64_t own = lh_probability(&c->by, c->all[i].logit);
        if (i > 0 && (kept >= reach || own < least)) return kept;
        kept += own;
    }
    return c->n == c->competing || kept >= reach ? kept : -1;
}

/* Returns 1 and the token, or 0 if the first n candidates do not decide it. */
static int draw(const lh_sampling *s, int64_t step, pool *c, int32_t *id)
{
    uint32_t word[4];
    const uint32_t key[2] = {(uint32_t)s->seed, (uint32_t)(s->seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)step, (uint32_t)s->request, (uint32_t)(s->request >> 32), 0x5a3b1e70u};
    if (c->total < 0 && c->n < c->competing) return 0;
    if (c->total < 0) {
        c->total = 0;
        for (int64_t i = 0; i < c->n; i++) c->total += lh_probability(&c->by, c->all[i].logit);
    }
    int64_t probabilities = probabilities_left(s, c);
    if (probabilities < 0) return 0;
    lh_philox(word, key, counter);
    int64_t share = word[0] >> 8,
            left = (probabilities >> 24) * share + ((probabilities & 0xffffff) * share >> 24); /* in units of 2^-24 */
    for (int64_t i = 0; i < c->n; i++) {
        int64_t own = lh_probability(&c->by, c->all[i].logit);
        if (left < own) {
            *id = c->all[i].id;
            return 1;
        }
        left -= own;
    }
    return 0;
}

/* Draws from the best candidates, which nearly always decide, else from all. */
static lh_status draw_token(const lh_sampling *s, const lh_sample_at *in, const lh_logits_view *row, pool *c,
                            int32_t *id)
{
    lh_status st = LH_OK;
    candidate *all = NULL;
    c->by = lh_probabilities_of(c->all[0].logit, s->temperature, row->vocab);
    if (c->competing == row->vocab) LH_TRY_DONE(sum_all(in, row, c->by, &c->total));
    if (draw(s, in->step, c, id)) goto done;
    LH_TRY_DONE(gather_all(in, row, &all));
    c->all = all;
    c->n = c->competing;
    if (!draw(s, in->step, c, id)) LH_FAIL_DONE(LH_EINTERNAL, "the probabilities of tokens are less than their sum");
done:
    lh_free(all);
    return st;
}

lh_status lh_token_check(int32_t id)
{
    if (id == LH_TOKEN_NONE)
        LH_FAIL(LH_EFILE, "every logit is NaN: the weights, or a loaded cache, hold values so large that sums of them "
                          "overflow; import the model again");
    return LH_OK;
}

int lh_sampling_is_greedy(const lh_sampling *given)
{
    const lh_sampling s = with_defaults(given);
    return s.temperature == 0 && !changes_logits(&s);
}

lh_status lh_sample(const lh_sampling *given, const lh_sample_at *at, const lh_logits_view *view, int32_t *id)
{
    lh_status st = LH_OK;
    const lh_sampling whole = with_defaults(given), *s = &whole;
    lh_logits_view row = *view;
    candidate *best = NULL;
    pool c = {.competing = s->top_k && s->top_k < row.vocab ? s->top_k : row.vocab, .total = -1};
    if (changes_logits(s)) LH_TRY_DONE(penalise(s, at, &row));
    if (s->temperature == 0) {
        LH_TRY_DONE(lh_greedy_tokens(at->exec, &row, id));
        return lh_token_check(*id);
    }
    LH_TRY_DONE(gather_best(at, &row, lh_min_i64(c.competing, row.room.most), &best, &c.n));
    LH_TRY_DONE(lh_token_check(c.n == 0 || isnan(best[0].logit) ? LH_TOKEN_NONE : best[0].id));
    c.all = best;
    LH_TRY_DONE(draw_token(s, at, &row, &c, id));
done:
    lh_free(best);
    return st;
}

int64_t lh_best_of(const float *logits, int64_t vocab)
{
    int64_t best = 0;
    for (int64_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* ln Σ exp of a row. */
static double log_sum(const float *logits, int64_t vocab)
{
    const double most = logits[lh_best_of(logits, vocab)];
    double sum = 0;
    for (int64_t i = 0; i < vocab; i++) sum += exp(logits[i] - most);
    return most + log(sum);
}

double lh_kl_of(const float *p, const float *q, int64_t vocab)
{
    const double p_sum = log_sum(p, vocab), q_sum = log_sum(q, vocab);
    double kl = 0;
    for (int64_t i = 0; i < vocab; i++) {
        double ln_p = p[i] - p_sum, ln_q = q[i] - q_sum;
        kl += exp(ln_p) * (ln_p - ln_q);
    }
    return kl > 0 ? kl : 0; /* below 0 only by rounding */
}

double lh_nll_of(const float *logits, int64_t vocab, int32_t id)
{
    return log_sum(logits, vocab) - logits[id];
}
