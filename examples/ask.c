/* ask.c - a document that is read once and asked about, by liblonghaul (docs/library.md): its cache is evicted before
 * the questions are known. A policy without a name, such as "--budget 20%", is then the default for such questions.
 *
 *     cc ask.c -o ask $(pkg-config --cflags --libs longhaul)
 *     mpirun -n 2 ./ask model.h5 "--budget 20%" "$(cat book.txt)" "Who did it?" "And why?" */
#include <longhaul/longhaul.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    lh_world *world = NULL;
    lh_engine *engine = NULL;
    lh_policy *policy = NULL;
    const lh_completion *done = NULL;
    if (argc < 5) return fprintf(stderr, "usage: ask MODEL POLICY DOCUMENT QUESTION...\n"), LH_EUSAGE;

    lh_status st = lh_world_open(&world, NULL);
    if (st == LH_OK) st = lh_policy_parse(&policy, argv[2]);
    if (st == LH_OK) st = lh_engine_open(&engine, world, &LH_STRUCT(lh_engine_options, .model = argv[1]));
    if (st == LH_OK)
        st =
            lh_complete(&done, engine,
                        &LH_STRUCT(lh_completion_options, .prompt = argv[3], .questions = (const char *const *)argv + 4,
                                   .question_count = argc - 4, .policy = policy, .max_new = 32));
    for (int64_t i = 0; done && i < done->answer_count && lh_world_rank(world) == 0; i++)
        printf("%s%s\n%s\n", i ? "\n> " : "> ", argv[4 + i], done->answers[i]->text);

    lh_completion_close(done);
    lh_engine_close(engine);
    lh_policy_close(policy);
    return lh_world_close(world, st);
}
