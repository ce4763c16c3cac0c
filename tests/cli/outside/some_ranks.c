/* some_ranks.c - all ranks of a program but the last one are the world of a run, the last does something else; MPI
 * stays the program's: some_ranks MODEL POLICY PROMPT. */
#include <longhaul/mpi.h>
#include <stdio.h>

static lh_status answer(lh_world *world, char **argv)
{
    lh_engine *engine = NULL;
    lh_policy *policy = NULL;
    const lh_completion *done = NULL;
    lh_status st = lh_policy_parse(&policy, argv[2]);
    if (st == LH_OK) st = lh_engine_open(&engine, world, &LH_STRUCT(lh_engine_options, .model = argv[1]));
    if (st == LH_OK)
        st = lh_complete(&done, engine,
                         &LH_STRUCT(lh_completion_options, .prompt = argv[3], .policy = policy, .max_new = 32));
    if (st == LH_OK && lh_world_rank(world) == 0) printf("%s\n", done->answers[0]->text);
    lh_completion_close(done);
    lh_engine_close(engine);
    lh_policy_close(policy);
    return st;
}

int main(int argc, char **argv)
{
    int level, rank, size, code = 0, others = 0, worst = 0;
    MPI_Comm some;
    MPI_Errhandler handler;
    lh_world *world = NULL;
    if (argc != 4) return LH_EUSAGE;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int last = rank == size - 1;
    MPI_Comm_split(MPI_COMM_WORLD, last ? MPI_UNDEFINED : 0, rank, &some);
    if (!last) {
        lh_status st = lh_world_open_on(&world, some, NULL);
        if (st == LH_OK && lh_world_size(world) != size - 1) code = 101;
        if (st == LH_OK) st = answer(world, argv);
        code = code ? code : lh_world_close(world, st);
        MPI_Comm_free(&some);
    }
    /* all of them again, by the program's own communicator, whose errors are handled as before */
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
    if (handler != MPI_ERRORS_ARE_FATAL) code = 102;
    MPI_Allreduce(&last, &others, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (others != 1) code = 103;
    MPI_Allreduce(&code, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return worst;
}
