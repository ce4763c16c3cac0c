/* Laws of model/sampler.h, at any number of ranks and with the operations of every backend: every rank has a part of
 * the logits, as shards cut the vocabulary. */
#include "model/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "comm/faulty_comm.h"
#include "mpi_check.h"

enum { SMALL = 37, LARGE = 2003, DRAWS = 4000 };

/* One backend at work. */
typedef struct rig {
    lh_device *device;
    lh_stream *stream;
    lh_comm *self;
    lh_exec all, alone; /* the ranks of the run, and each for itself */
    float *logits;      /* [LARGE], on the device */
    lh_sample_room room;
} rig;

/* `ref` first, then those whose device is there; with LONGHAUL_TEST_BACKEND only `ref` and the one of that name. */
static const lh_ops *backend(int i)
{
    const char *only = getenv("LONGHAUL_TEST_BACKEND");
    for (int b = 0; lh_ops_at(b); b++) {
        const lh_ops *ops = lh_ops_at(b);
        lh_device_found found;
        lh_device_find(ops->device, &found);
        if (found.count == 0 || (only && b > 0 && strcmp(only, ops->name) != 0)) continue;
        if (i-- == 0) return ops;
    }
    return NULL;
}

static void new_block(rig *r, void *out, int64_t bytes)
{
    mt_try(lh_device_alloc(r->device, out, bytes, LH_MEM_WORK));
}

static void open_rig(rig *r, const lh_ops *ops)
{
    lh_device_found found;
    lh_device_find(ops->device, &found);
    *r = (rig){.room.most = LH_BEST_MAX};
    mt_try(lh_device_open(&r->device, &(lh_device_choice){.kind = ops->device, .index = mt_rank() % found.count}));
    mt_try(lh_stream_open(&r->stream, r->device));
    mt_try(lh_comm_open_self(&r->self));
    r->all = (lh_exec){.ops = ops, .stream = r->stream, .comm = mt_comm()};
    r->alone = (lh_exec){.ops = ops, .stream = r->stream, .comm = r->self};
    new_block(r, &r->logits, LARGE * 4);
    new_block(r, &r->room.best, 2 * LH_BEST_MAX * 4);
    new_block(r, &r->room.penalised, LARGE * 4);
    new_block(r, &r->room.seen, (LARGE + 31) / 32 * 4);
    new_block(r, &r->room.bias, LARGE * 4);
    new_block(r, &r->room.minus, LARGE * 4);
    new_block(r, &r->room.probabilities, 8);
}

static void close_rig(rig *r)
{
    void *blocks[] = {r->logits,    r->room.best,  r->room.penalised,    r->room.seen,
                      r->room.bias, r->room.minus, r->room.probabilities};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) lh_device_free(r->device, blocks[i]);
    lh_comm_close(r->self);
    lh_stream_close(r->stream);
    lh_device_close(r->device);
}

/* One row of logits, its candidates limited to `most`. */
typedef struct row {
    float x[LARGE];
    int64_t vocab, most;
} row;

static void put_row(rig *r, const row *w)
{
    mt_try(lh_stream_copy(r->stream, r->logits, w->x, w->vocab * 4, LH_COPY_TO_DEVICE));
    mt_try(lh_stream_sync(r->stream));
}

/* The part of the row that this rank has in an execution context. */
static lh_logits_view part_of(const rig *r, const row *w, const lh_exec *exec)
{
    int rank = lh_comm_rank(exec->comm), ranks = lh_comm_size(exec->comm);
    int64_t first = w->vocab * rank / ranks, end = w->vocab * (rank + 1) / ranks;
    lh_logits_view view = {.logits = r->logits + first,
                           .rows = 1,
                           .first = first,
                           .count = end - first,
                           .vocab = w->vocab,
                           .room = r->room};
    view.room.most = w->most;
    return view;
}

static const int32_t seen[] = {5, 5, 11, 30, -1, INT32_MAX, 5};
enum { SEEN = sizeof seen / sizeof *seen };

static int32_t sample(const rig *r, const lh_exec *exec, const lh_sampling *sampling, const row *w, int64_t step)
{
    int32_t id = -1;
    const lh_sample_at at = {.exec = exec, .seen = seen, .n = SEEN, .step = step};
    const lh_logits_view view = part_of(r, w, exec);
    mt_try(lh_sample(sampling, &at, &view, &id));
    return id;
}

/* Logits like a model's, few that are likely; flat ones; many equal ones; with NaN and -inf; all but one -inf. */
enum { KINDS = 5 };

static void make_row(row *w, int64_t vocab, uint32_t seed, int kind)
{
    const float odd[] = {NAN, -INFINITY, -0.0f, 0.0f};
    *w = (row){.vocab = vocab, .most = LH_BEST_MAX};
    for (uint32_t i = 0; i < vocab; i++) {
        uint32_t out[4];
        lh_philox(out, (uint32_t[2]){seed, 1}, (uint32_t[4]){i});
        float u = lh_uniform(out[0]), peak = out[1] % 50 ? 0 : 9 * lh_uniform(out[2]);
        const float of_kind[KINDS] = {6 * (u - 0.5f) + peak, u, floorf(4 * u), out[3] % 3 ? 8 * u : odd[out[1] % 4],
                                      i == seed % vocab ? -2.5f : -INFINITY};
        w->x[i] = of_kind[kind];
    }
}

/* One forbids a token, one is of a token that no model has. */
static const lh_logit_bias biases[] = {{5, -3.5f}, {11, 4.25f}, {2, -INFINITY}, {INT32_MAX, 100}, {30, 1}};

static const lh_sampling samplings[] = {
    {.temperature = 0, .top_p = 1, .repeat_penalty = 1},
    {.temperature = 0, .top_p = 1, .repeat_penalty = 1.5},
    {.temperature = 1, .top_p = 1, .repeat_penalty = 1},
    {.temperature = 0.6, .top_k = 5, .top_p = 1, .repeat_penalty = 1},
    {.temperature = 1, .top_k = 20, .top_p = 0.7, .repeat_penalty = 1},
    {.temperature = 0.9, .top_k = -1, .top_p = 1, .repeat_penalty = 1}, /* off */
    {.temperature = 1.4, .top_p = 0.9, .min_p = 0.2, .repeat_penalty = 1},
    {.temperature = 1, .top_k = 1000, .top_p = 0.5, .repeat_penalty = 1.3},
    {.temperature = 1, .min_p = 0.4, .top_p = 1, .repeat_penalty = 0.7},
    {.temperature = 3, .top_p = 0.999, .repeat_penalty = 1},
    {.temperature = 40, .top_p = 1, .repeat_penalty = 2},
    {.temperature = 2, .top_k = 1500, .top_p = 0.95, .repeat_penalty = 1},
    {.temperature = 0.01, .top_p = 0.5, .min_p = 1e-9, .repeat_penalty = 1},
    {.temperature = 0, .frequency_penalty = 1.5, .presence_penalty = 0.25},
    {.temperature = 0, .bias = biases, .bias_count = 4},
    {.temperature = 0.8, .top_p = 0.9, .repeat_penalty = 1.2, .frequency_penalty = -1, .bias = biases, .bias_count = 5},
};
enum { SAMPLINGS = sizeof samplings / sizeof *samplings };

typedef struct ranked {
    float x;
    int id;
} ranked;

static int better_first(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (isnan(x->x) != isnan(y->x)) return isnan(x->x) ? 1 : -1;
    if (!isnan(x->x) && x->x != y->x) return x->x > y->x ? -1 : 1;
    return x->id - y->id;
}

/* The logit of a token with bias and penalties, as OpenAI's API and vLLM define them; the answer is the last `step` of
 * the tokens seen. */
static float changed(const lh_sampling *s, float logit, int id, int64_t step)
{
    int times = 0;
    for (int64_t k = 0; k < s->bias_count; k++)
        if (s->bias[k].id == id) logit += s->bias[k].bias;
    const double penalty = s->repeat_penalty ? s->repeat_penalty : 1;
    if (id == 5 || id == 11 || id == 30) logit = (float)(logit > 0 ? logit / penalty : logit * penalty);
    for (int64_t i = step < SEEN ? SEEN - step : 0; i < SEEN; i++) times += seen[i] == id;
    const double minus = s->frequency_penalty * times + (times ? s->presence_penalty : 0);
    return times ? logit - (float)minus : logit;
}

/* The best ones first; the number of those that top-k leaves. */
static int64_t rank_all(const lh_sampling *s, const row *w, int64_t step, ranked all[LARGE])
{
    for (int i = 0; i < w->vocab; i++) all[i] = (ranked){changed(s, w->x[i], i, step), i};
    qsort(all, (size_t)w->vocab, sizeof *all, better_first);
    return s->top_k > 0 && s->top_k < w->vocab ? s->top_k : w->vocab;
}

/* The token that all candidates together decide on. */
static int32_t decide(const lh_sampling *s, const row *w, int64_t step)
{
    ranked all[LARGE];
    uint32_t word[4];
    int64_t n = rank_all(s, w, step, all), sum = 0, kept = 0, count = 0;
    if (s->temperature == 0) return all[0].id;
    lh_probabilities by = lh_probabilities_of(all[0].x, s->temperature, w->vocab);
    double least = s->min_p * (double)lh_probability(&by, all[0].x);
    for (int64_t i = 0; i < n; i++) sum += lh_probability(&by, all[i].x);
    for (; count < n; count++) {
        int64_t own = lh_probability(&by, all[count].x);
        if (count > 0 && ((double)kept >= s->top_p * (double)sum || (double)own < least)) break;
        kept += own;
    }
    lh_philox(word, (uint32_t[2]){(uint32_t)s->seed}, (uint32_t[4]){(uint32_t)step, 0, 0, 0x5a3b1e70u});
    int64_t left = (int64_t)((__int128)kept * (word[0] >> 8) >> 24), i = 0;
    while (i + 1 < count && left >= lh_probability(&by, all[i].x)) left -= lh_probability(&by, all[i++].x);
    return all[i].id;
}

/* Whoever has the logits, and whether the best ones decide the draw or all of them are asked for: the token is that of
 * a draw from all. */
START_TEST(test_the_choice_is_that_of_all_logits_whoever_has_them)
{
    const int64_t most[] = {LH_BEST_MAX, 1, 60};
    for (int b = 0; backend(b); b++) {
        const lh_ops *ops = backend(b);
        int steps = ops->device == LH_DEVICE_CPU && b > 0 ? 12 : 1;
        rig r;
        open_rig(&r, ops);
        for (int n = 0; n < 2 * KINDS * steps; n++) {
            row w;
            int64_t step = n / KINDS / 2;
            make_row(&w, n % 2 ? LARGE : SMALL, (uint32_t)step, n / 2 % KINDS);
            put_row(&r, &w);
            for (int i = 0; i < SAMPLINGS * 3; i++) {
                const lh_sampling *s = &samplings[i / 3];
                w.most = most[i % 3];
                int32_t want = decide(s, &w, step), here = sample(&r, &r.all, s, &w, step);
                int32_t alone = i % 3 ? want : sample(&r, &r.alone, s, &w, step);
                mt_check(here == want && alone == want,
                         "%s, sampling %d, kind %d, step %lld, %lld tokens, %lld best: %d, and %d on one rank, not %d",
                         ops->name, i / 3, n / 2 % KINDS, (long long)step, (long long)w.vocab, (long long)w.most, here,
                         alone, want);
            }
        }
        close_rig(&r);
    }
    mt_end();
}
END_TEST

/* Rows with few likely tokens: the best logits are gathered, sums are added, and a third collective would fail. */
START_TEST(test_logits_stay_where_and_what_they_are)
{
    for (int b = 0; backend(b); b++) {
        rig r;
        open_rig(&r, backend(b));
        for (int64_t step = 0; step < 4; step++) {
            row w;
            float after[LARGE];
            make_row(&w, LARGE, (uint32_t)step, 0);
            for (int i = 0; i < 5; i++) w.x[i * 77] = 40;
            put_row(&r, &w);
            for (int s = 0; s < SAMPLINGS; s++) {
                lh_exec exec = r.alone;
                if (samplings[s].temperature > 3 || samplings[s].top_k > LH_BEST_MAX) continue;
                mt_try(faulty_comm_open(&exec.comm, r.self, 0, "fail:3"));
                sample(&r, &exec, &samplings[s], &w, step);
                lh_comm_close(exec.comm);
            }
            mt_try(lh_stream_copy(r.stream, after, r.logits, sizeof after, LH_COPY_TO_HOST));
            mt_try(lh_stream_sync(r.stream));
            mt_check(memcmp(after, w.x, sizeof after) == 0, "%s: the logits have changed", backend(b)->name);
        }
        close_rig(&r);
    }
    mt_end();
}
END_TEST

/* Rows and samplings at the ends of what there may be, over vocabularies that some ranks have nothing of. */
START_TEST(test_the_ends_of_what_may_be_are_drawn_from_all_logits)
{
    static const lh_sampling ends[] = {
        {.temperature = 1e-310, .top_p = 1, .repeat_penalty = 1},
        {.temperature = 1e-30, .top_p = 1e-12, .repeat_penalty = 1e-300},
        {.temperature = 1e300, .top_p = 1, .repeat_penalty = 1},
        {.temperature = 1e-3, .top_p = 1, .repeat_penalty = 1e300},
        {.temperature = 1, .min_p = 0.9999999, .top_p = 1, .repeat_penalty = 1},
        {.temperature = 1, .top_k = 1, .top_p = 0.999999999, .repeat_penalty = 0.5},
        {.temperature = 1, .top_k = 1025, .min_p = 0.5, .top_p = 0.5, .repeat_penalty = 1},
        {.temperature = 0, .top_p = 1, .repeat_penalty = 1e-300},
        {.temperature = 1, .top_k = 1024, .top_p = 1, .min_p = 1e-300, .repeat_penalty = 1},
    };
    static const int64_t vocabs[] = {1, 2, 3, 1023, 1024, 1025, 1026, LARGE};
    const float odd[] = {INFINITY, -INFINITY, NAN, 3.4e38f, -3.4e38f, 1e-42f, -1e-42f, -0.0f, 0.0f};
    for (int b = 0; backend(b); b++) {
        rig r;
        open_rig(&r, backend(b));
        for (int n = 0; n < 8 * 12; n++) {
            row w;
            int kind = n / 8;
            make_row(&w, vocabs[n % 8], 3, kind < 2 ? kind : 0);
            for (int64_t i = 0; i < w.vocab && kind >= 2; i++)
                w.x[i] = kind < 11 ? odd[kind - 2] : odd[(i * 7 + i / 13) % 9];
            if (kind == 4) w.x[w.vocab / 2] = 1;
            put_row(&r, &w);
            for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
                int32_t want = decide(&ends[i], &w, n), here = sample(&r, &r.all, &ends[i], &w, n);
                mt_check(here == want, "%s, sampling %d, row %d, %lld tokens: %d, not %d", backend(b)->name, (int)i,
                         kind, (long long)w.vocab, here, want);
            }
        }
        close_rig(&r);
    }
    mt_end();
}
END_TEST

START_TEST(test_greedy_takes_the_first_of_the_best)
{
    const lh_sampling top = {.temperature = 2, .top_k = 1, .top_p = 1, .repeat_penalty = 1};
    rig r;
    open_rig(&r, lh_ops_find("cpu"));
    for (int32_t a = 0; a < SMALL; a++) {
        for (int32_t b = a; b < SMALL; b += 5) {
            row w = {.vocab = SMALL, .most = LH_BEST_MAX};
            for (int i = 0; i < SMALL; i++) w.x[i] = i % 3 ? -1 : NAN;
            w.x[a] = w.x[b] = 2;
            put_row(&r, &w);
            int32_t greedy = sample(&r, &r.all, &samplings[0], &w, 0), only = sample(&r, &r.all, &top, &w, 0);
            mt_check(greedy == a && only == a, "%d and %d of %d and %d", greedy, only, a, b);
        }
    }
    close_rig(&r);
    mt_end();
}
END_TEST

/* All kinds of rows at once, and one with nothing but NaN among them. */
START_TEST(test_greedy_tokens_of_several_rows_are_those_of_each)
{
    enum { ROWS = KINDS + 1 };
    static const int64_t vocabs[] = {2, SMALL, LARGE / ROWS};
    for (int n = 0; backend(n / 3); n++) {
        row rows[ROWS];
        rig r;
        open_rig(&r, backend(n / 3));
        for (int i = 0; i < ROWS; i++) make_row(&rows[i], vocabs[n % 3], (uint32_t)i, i % KINDS);
        for (int64_t i = 0; i < vocabs[n % 3]; i++) rows[3].x[i] = NAN;
        lh_logits_view view = part_of(&r, &rows[0], &r.all);
        view.logits = r.logits;
        view.rows = ROWS;
        for (int i = 0; i < ROWS; i++)
            mt_try(lh_stream_copy(r.stream, r.logits + i * view.count, rows[i].x + view.first, view.count * 4,
                                  LH_COPY_TO_DEVICE));
        int32_t ids[ROWS];
        mt_try(lh_greedy_tokens(&r.all, &view, ids));
        for (int i = 0; i < ROWS; i++) {
            int32_t want = i == 3 ? LH_TOKEN_NONE : decide(&samplings[0], &rows[i], 0);
            mt_check(ids[i] == want, "%s, %lld tokens, row %d: %d, not %d", backend(n / 3)->name, (long long)view.vocab,
                     i, ids[i], want);
        }
        close_rig(&r);
    }
    mt_end();
}
END_TEST

START_TEST(test_nothing_but_nan_is_an_error_on_all_ranks)
{
    for (int b = 0; backend(b); b++) {
        rig r;
        int32_t id;
        row w = {.vocab = SMALL, .most = LH_BEST_MAX};
        open_rig(&r, backend(b));
        for (int i = 0; i < SMALL; i++) w.x[i] = NAN;
        put_row(&r, &w);
        const lh_sample_at at = {.exec = &r.all};
        const lh_logits_view view = part_of(&r, &w, &r.all);
        for (int s = 0; s < SAMPLINGS; s++) mt_expect(lh_sample(&samplings[s], &at, &view, &id), LH_EFILE);
        close_rig(&r);
    }
    mt_end();
}
END_TEST

/* What the header says, in its order: penalty, temperature, the k best, the fewest whose sum reaches p of theirs, those
 * with min_p of the best one's. */
static void probabilities(const lh_sampling *s, const row *w, double p[SMALL])
{
    ranked all[LARGE];
    double sum = 0, kept = 0, total = 0;
    int64_t n = rank_all(s, w, SEEN, all), chosen = 0;
    for (int i = 0; i < SMALL; i++) p[i] = 0;
    for (int64_t i = 0; i < n; i++) sum += exp(all[i].x / s->temperature);
    while (chosen < n && kept < s->top_p * sum) kept += exp(all[chosen++].x / s->temperature);
    for (int64_t i = 0; i < chosen; i++) {
        double own = exp(all[i].x / s->temperature);
        if (own >= s->min_p * exp(all[0].x / s->temperature)) total += p[all[i].id] = own;
    }
    for (int i = 0; i < SMALL; i++) p[i] /= total;
}

START_TEST(test_draws_come_as_often_as_they_are_probable)
{
    rig r;
    row w;
    double p[SMALL];
    open_rig(&r, lh_ops_find("cpu"));
    make_row(&w, SMALL, 7, 0);
    put_row(&r, &w);
    for (int s = 0; s < SAMPLINGS; s++) {
        int count[SMALL] = {0};
        if (samplings[s].temperature < 0.1) continue;
        probabilities(&samplings[s], &w, p);
        for (int64_t step = 0; step < DRAWS; step++) {
            int32_t id = sample(&r, &r.all, &samplings[s], &w, step);
            if (id >= 0 && id < SMALL) count[id]++;
        }
        for (int i = 0; i < SMALL; i++) /* five standard deviations; the draws are the same every time */
            mt_check(p[i] == 0 ? count[i] == 0 : fabs(count[i] - DRAWS * p[i]) <= 5 * sqrt(DRAWS * p[i] * (1 - p[i])),
                     "sampling %d: %d of %d draws for a probability of %g", s, count[i], DRAWS, p[i]);
    }
    close_rig(&r);
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sampler");
    TCase *all = tcase_create("all");
    tcase_add_test(all, test_the_choice_is_that_of_all_logits_whoever_has_them);
    tcase_add_test(all, test_logits_stay_where_and_what_they_are);
    tcase_add_test(all, test_the_ends_of_what_may_be_are_drawn_from_all_logits);
    tcase_add_test(all, test_greedy_takes_the_first_of_the_best);
    tcase_add_test(all, test_greedy_tokens_of_several_rows_are_those_of_each);
    tcase_add_test(all, test_nothing_but_nan_is_an_error_on_all_ranks);
    tcase_add_test(all, test_draws_come_as_often_as_they_are_probable);
    suite_add_tcase(suite, all);
    return mt_run(suite);
}
