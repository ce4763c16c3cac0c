/* generate.c - a prompt and its answer with an evicted cache, by liblonghaul (docs/library.md).
 *
 *     cc generate.c -o generate $(pkg-config --cflags --libs longhaul)
 *     mpirun -n 2 ./generate model.h5 "ada-snapkv --budget 64" "$(cat book.txt)" */
#include <longhaul/longhaul.h>
#include <stdio.h>

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
    if (argc != 4) return fprintf(stderr, "usage: generate MODEL POLICY PROMPT\n"), LH_EUSAGE;

    lh_status st = lh_world_open(&world, NULL);
    if (st == LH_OK) st = lh_policy_parse(&policy, argv[2]);
    if (st == LH_OK) st = lh_engine_open(&engine, world, &LH_STRUCT(lh_engine_options, .model = argv[1]));
    if (st == LH_OK)
        st = lh_complete(&answer, engine,
                         &LH_STRUCT(lh_completion_options, .prompt = argv[3], .policy = policy, .max_new = 32,
                                    .self = world, .token = show));
    if (st == LH_OK && lh_world_rank(world) == 0)
        printf("\n%lld of %lld entries kept\n", (long long)answer->entries_kept, (long long)answer->entries);

    lh_completion_close(answer);
    lh_engine_close(engine);
    lh_policy_close(policy);
    return lh_world_close(world, st);
}
