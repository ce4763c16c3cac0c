/* Laws of model/sampler.h, at any number of ranks: every rank has a part of the logits, as shards cut the vocabulary.
 */
#include "model/sampler.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "mpi_check.h"

enum { VOCAB = 37, DRAWS = 4000 };

typedef struct rig {
    lh_device *device;
    lh_stream *stream;
    lh_comm *self;
    lh_kv_place all, alone; /* the ranks of the run, and each for itself */
} rig;

static void open_rig(rig *r)
{
    mt_try(lh_device_open(&r->device, &(lh_device_choice){.kind = LH_DEVICE_CPU}));
    mt_try(lh_stream_open(&r->stream, r->device));
    mt_try(lh_comm_open_self(&r->self));
    r->all = (lh_kv_place){.ops = lh_ops_find("cpu"), .stream = r->stream, .comm = mt_comm()};
    r->alone = (lh_kv_place){.ops = lh_ops_find("cpu"), .stream = r->stream, .comm = r->self};
}

static void close_rig(rig *r)
{
    lh_comm_close(r->self);
    lh_stream_close(r->stream);
    lh_device_close(r->device);
}

/* The part of `logits` that this rank has at a place. */
static lh_logits_view part_of(const float *logits, const lh_kv_place *place)
{
    static float best[LH_BEST_MOST], penalised[VOCAB];
    static int32_t best_at[LH_BEST_MOST];
    static uint32_t seen[VOCAB / 32 + 1];
    static int64_t weight;
    int rank = lh_comm_rank(place->comm), ranks = lh_comm_size(place->comm);
    int64_t first = VOCAB * rank / ranks, end = VOCAB * (rank + 1) / ranks;
    return (lh_logits_view){.logits = logits + first,
                            .rows = 1,
                            .first = first,
                            .count = end - first,
                            .vocab = VOCAB,
                            .room = {best, best_at, penalised, seen, &weight, LH_BEST_MOST}};
}

static int32_t sample(const lh_kv_place *place, const lh_sampling *sampling, const float *logits, int64_t step)
{
    static const int32_t seen[] = {5, 5, 11};
    int32_t id = -1;
    const lh_sample_at at = {.place = place, .seen = seen, .n = 3, .step = step};
    const lh_logits_view row = part_of(logits, place);
    mt_try(lh_sample(sampling, &at, &row, &id));
    return id;
}

static void make_logits(float *logits, uint32_t seed)
{
    for (uint32_t i = 0; i < VOCAB; i++) {
        uint32_t out[4];
        lh_philox(out, (uint32_t[2]){seed, 1}, (uint32_t[4]){i});
        logits[i] = 6 * (lh_uniform(out[0]) - 0.5f);
    }
}

static const lh_sampling samplings[] = {
    {.temperature = 0, .top_p = 1, .repeat_penalty = 1},
    {.temperature = 0, .top_p = 1, .repeat_penalty = 1.5},
    {.temperature = 1, .top_p = 1, .repeat_penalty = 1},
    {.temperature = 0.6, .top_k = 5, .top_p = 1, .repeat_penalty = 1},
    {.temperature = 1, .top_k = 20, .top_p = 0.7, .repeat_penalty = 1},
    {.temperature = 1.4, .top_p = 0.9, .min_p = 0.2, .repeat_penalty = 1},
    {.temperature = 1, .top_k = 1000, .top_p = 0.5, .repeat_penalty = 1.3},
    {.temperature = 1, .min_p = 0.4, .top_p = 1, .repeat_penalty = 0.7},
};
enum { SAMPLINGS = sizeof samplings / sizeof *samplings };

START_TEST(test_the_choice_does_not_depend_on_who_has_the_logits)
{
    rig r;
    float logits[VOCAB];
    open_rig(&r);
    for (int64_t step = 0; step < 100; step++) {
        make_logits(logits, (uint32_t)step);
        for (int s = 0; s < SAMPLINGS; s++) {
            int32_t here = sample(&r.all, &samplings[s], logits, step),
                    alone = sample(&r.alone, &samplings[s], logits, step);
            mt_check(here == alone, "sampling %d, step %lld: %d, and %d on one rank", s, (long long)step, here, alone);
        }
    }
    close_rig(&r);
    mt_end();
}
END_TEST

START_TEST(test_greedy_takes_the_first_of_the_best)
{
    rig r;
    const lh_sampling top = {.temperature = 2, .top_k = 1, .top_p = 1, .repeat_penalty = 1};
    open_rig(&r);
    for (int32_t a = 0; a < VOCAB; a++) {
        for (int32_t b = a; b < VOCAB; b += 5) {
            float logits[VOCAB];
            for (int i = 0; i < VOCAB; i++) logits[i] = i % 3 ? -1 : NAN;
            logits[a] = logits[b] = 2;
            int32_t greedy = sample(&r.all, &samplings[0], logits, 0), only = sample(&r.all, &top, logits, 0);
            mt_check(greedy == a && only == a, "%d and %d of %d and %d", greedy, only, a, b);
        }
    }
    close_rig(&r);
    mt_end();
}
END_TEST

START_TEST(test_nothing_but_nan_is_an_error_on_all_ranks)
{
    rig r;
    float logits[VOCAB];
    int32_t id;
    open_rig(&r);
    for (int i = 0; i < VOCAB; i++) logits[i] = NAN;
    const lh_sample_at at = {.place = &r.all};
    const lh_logits_view row = part_of(logits, &r.all);
    for (int s = 0; s < SAMPLINGS; s++) mt_expect(lh_sample(&samplings[s], &at, &row, &id), LH_EINTERNAL);
    close_rig(&r);
    mt_end();
}
END_TEST

typedef struct share {
    double p;
    int id;
} share;

static int larger_first(const void *a, const void *b)
{
    const share *x = a, *y = b;
    return (x->p < y->p) - (x->p > y->p);
}

/* What the header says, in its order: penalty, temperature, the k best, the fewest whose sum reaches p of theirs, those
 * with min_p of the best one's. */
static void probabilities(const lh_sampling *s, const float *logits, double p[VOCAB])
{
    share all[VOCAB];
    double sum = 0, kept = 0, total = 0;
    int n = s->top_k && s->top_k < VOCAB ? (int)s->top_k : VOCAB, chosen = 0;
    for (int i = 0; i < VOCAB; i++) {
        double x = logits[i];
        if (i == 5 || i == 11) x = x > 0 ? x / s->repeat_penalty : x * s->repeat_penalty;
        all[i] = (share){exp(x / s->temperature), i};
        p[i] = 0;
    }
    qsort(all, VOCAB, sizeof *all, larger_first);
    for (int i = 0; i < n; i++) sum += all[i].p;
    while (chosen < n && kept < s->top_p * sum) kept += all[chosen++].p;
    for (int i = 0; i < chosen; i++)
        if (all[i].p >= s->min_p * all[0].p) total += p[all[i].id] = all[i].p;
    for (int i = 0; i < VOCAB; i++) p[i] /= total;
}

START_TEST(test_draws_come_as_often_as_they_are_probable)
{
    rig r;
    float logits[VOCAB];
    double p[VOCAB];
    open_rig(&r);
    make_logits(logits, 7);
    for (int s = 0; s < SAMPLINGS; s++) {
        int count[VOCAB] = {0};
        if (samplings[s].temperature == 0) continue;
        probabilities(&samplings[s], logits, p);
        for (int64_t step = 0; step < DRAWS; step++) {
            int32_t id = sample(&r.all, &samplings[s], logits, step);
            if (id >= 0 && id < VOCAB) count[id]++;
        }
        for (int i = 0; i < VOCAB; i++) /* five standard deviations; the draws are the same every time */
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
    tcase_add_test(all, test_the_choice_does_not_depend_on_who_has_the_logits);
    tcase_add_test(all, test_greedy_takes_the_first_of_the_best);
    tcase_add_test(all, test_nothing_but_nan_is_an_error_on_all_ranks);
    tcase_add_test(all, test_draws_come_as_often_as_they_are_probable);
    suite_add_tcase(suite, all);
    return mt_run(suite);
}
