/* policy.c - an eviction policy of one's own, by liblonghaul (docs/library.md): a function scores the entries of a
 * head, and the engine keeps the best, on any number of ranks, with all parts that a policy can have beside its score.
 *
 *     cc policy.c -o policy $(pkg-config --cflags --libs longhaul) -lm
 *     mpirun -n 2 ./policy model.h5 "--budget 64 --sinks 4 --head-budget adaptive" "$(cat book.txt)" */
#include <longhaul/longhaul.h>
#include <math.h>
#include <stdio.h>

/* Entries whose value is large and whose key is small: each in proportion to its head's mean. */
static lh_status score(void *self, const lh_head_entries *e, float *scores)
{
    double key_mean = 0, value_mean = 0;
    int64_t *heads = self;
    for (int pass = 0; pass < 2; pass++) /* the means first */
        for (int64_t i = 0; i < e->count; i++) {
            double key = 0, value = 0;
            for (int64_t x = i * e->head_dim; x < (i + 1) * e->head_dim; x++) {
                key += (double)e->keys[x] * (double)e->keys[x];
                value += (double)e->values[x] * (double)e->values[x];
            }
            if (pass == 0) {
                key_mean += sqrt(key) / (double)e->count;
                value_mean += sqrt(value) / (double)e->count;
            } else {
                scores[i] = (float)(sqrt(value) / (value_mean + 1e-30) - sqrt(key) / (key_mean + 1e-30));
            }
        }
    ++*heads;
    return LH_OK;
}

static lh_status show(void *self, int64_t answer, int32_t id, const char *text, int64_t bytes)
{
    (void)answer, (void)id;
    if (lh_world_rank(self) == 0) fwrite(text, 1, (size_t)bytes, stdout);
    return LH_OK;
}

int main(int argc, char **argv)
{
    lh_world *world = NULL;
    lh_engine *engine = NULL;
    lh_policy *policy = NULL;
    const lh_completion *answer = NULL;
    int64_t heads = 0; /* scored by this rank */
    if (argc != 4) return fprintf(stderr, "usage: policy MODEL \"--budget N ...\" PROMPT\n"), LH_EUSAGE;

    lh_status st = lh_world_open(&world, NULL);
    if (st == LH_OK) st = lh_policy_of_scorer(&policy, &LH_STRUCT(lh_scorer, .self = &heads, .score = score), argv[2]);
    if (st == LH_OK)
        st = lh_engine_open(&engine, world, &LH_STRUCT(lh_engine_options, .model = argv[1], .deterministic = 1));
    if (st == LH_OK)
        st = lh_complete(&answer, engine,
                         &LH_STRUCT(lh_completion_options, .prompt = argv[3], .policy = policy, .max_new = 32,
                                    .self = world, .token = show));
    if (st == LH_OK && lh_world_rank(world) == 0)
        printf("\n%lld of %lld entries kept; this rank has scored %lld heads\n", (long long)answer->entries_kept,
               (long long)answer->entries, (long long)heads);

    lh_completion_close(answer);
    lh_engine_close(engine);
    lh_policy_close(policy);
    return lh_world_close(world, st);
}
