/* Laws of the emulated NCCL: what ranks do alike comes out right, in graphs and beside them; and what NCCL forbids ends
 * every rank with a message. Ranks are processes of their own. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/nccl_library.h"
#include "suite.h"

enum { RANKS = 4, N = 100000 }; /* more than one piece of the emulation */

/* What a rank works with. */
typedef struct seat {
    int rank, ranks;
    const lh_nccl *nccl;
    ncclComm_t comm;
    cudaStream_t stream;
    float *x, *all; /* device, [N] and [RANKS * N] */
} seat;

static void must(int ok)
{
    if (!ok) _exit(1);
}

static void sum(const seat *s, size_t n)
{
    must(s->nccl->AllReduce(s->x, s->x, n, ncclFloat32, ncclSum, s->comm, s->stream) == ncclSuccess);
}

static void gather(const seat *s, size_t floats)
{
    must(s->nccl->AllGather(s->x, s->all, floats * sizeof(float), ncclUint8, s->comm, s->stream) == ncclSuccess);
}

/* A graph of `sums` sums, and the launch of one. */
static cudaGraphExec_t capture(const seat *s, int sums)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    must(cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    for (int i = 0; i < sums; i++) sum(s, N);
    must(cudaStreamEndCapture(s->stream, &graph) == cudaSuccess);
    must(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
    cudaGraphDestroy(graph);
    return exec;
}

static void launch(const seat *s, cudaGraphExec_t exec)
{
    must(cudaGraphLaunch(exec, s->stream) == cudaSuccess);
}

static void put(const seat *s, float value)
{
    float *host = malloc(N * sizeof *host);
    for (int i = 0; i < N; i++) host[i] = value;
    must(cudaMemcpyAsync(s->x, host, N * sizeof *host, cudaMemcpyHostToDevice, s->stream) == cudaSuccess);
    must(cudaStreamSynchronize(s->stream) == cudaSuccess);
    free(host);
}

/* The last number, once all that is enqueued is done. */
static float last_of(const seat *s, const float *x, size_t n)
{
    float got = 0;
    must(cudaMemcpyAsync(&got, x + n - 1, sizeof got, cudaMemcpyDeviceToHost, s->stream) == cudaSuccess);
    must(cudaStreamSynchronize(s->stream) == cudaSuccess);
    return got;
}

/* ---- ranks as processes ---- */

static void sit(seat *s, const ncclUniqueId *id, void (*play)(seat *s))
{
    void *x = NULL, *all = NULL;
    must(s->nccl->CommInitRank(&s->comm, s->ranks, *id, s->rank) == ncclSuccess);
    must(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking) == cudaSuccess);
    must(cudaMallocAsync(&x, N * sizeof(float), s->stream) == cudaSuccess);
    must(cudaMallocAsync(&all, RANKS * N * sizeof(float), s->stream) == cudaSuccess);
    s->x = x, s->all = all;
    put(s, 1);
    play(s);
    must(cudaStreamSynchronize(s->stream) == cudaSuccess);
    _exit(0);
}

/* Plays `ranks` ranks: how many ended well, how many by a fault; said: what they wrote to stderr. */
typedef struct outcome {
    int well, faults;
    char said[4096];
} outcome;

static outcome play_all(int ranks, void (*play)(seat *s))
{
    outcome out = {0};
    seat s = {.ranks = ranks};
    ncclUniqueId id;
    int ends[2], status;
    size_t n = 0;
    ck_assert_int_eq(lh_nccl_open(&s.nccl), LH_OK);
    ck_assert_int_eq(s.nccl->GetUniqueId(&id), ncclSuccess);
    ck_assert_int_eq(pipe(ends), 0);
    for (s.rank = 0; s.rank < ranks; s.rank++) {
        pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child) continue;
        dup2(ends[1], STDERR_FILENO);
        sit(&s, &id, play);
    }
    close(ends[1]);
    for (ssize_t got; (got = read(ends[0], out.said + n, sizeof out.said - 1 - n)) > 0;) n += (size_t)got;
    close(ends[0]);
    for (int r = 0; r < ranks; r++) {
        ck_assert_int_gt(wait(&status), 0);
        out.well += WIFEXITED(status) && WEXITSTATUS(status) == 0;
        out.faults += WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
    }
    return out;
}

/* ---- laws ---- */

static void play_well(seat *s)
{
    float expected = (float)s->ranks;
    sum(s, N);
    gather(s, N);
    must(last_of(s, s->all, (size_t)s->ranks * N) == expected);
    cudaGraphExec_t once = capture(s, 1), twice = capture(s, 2);
    for (int i = 0; i < 3; i++) {
        launch(s, i == 1 ? twice : once);
        sum(s, 7);
    }
    for (int i = 0; i < 4; i++) expected *= (float)s->ranks;
    must(last_of(s, s->x, N) == expected);
    must(last_of(s, s->x, 7) == expected * (float)(s->ranks * s->ranks * s->ranks));
}

START_TEST(test_what_ranks_do_alike_comes_out_right)
{
    for (int ranks = 1; ranks <= RANKS; ranks++) {
        outcome o = play_all(ranks, play_well);
        ck_assert_msg(o.well == ranks, "%d of %d ranks ended well: %s", o.well, ranks, o.said);
    }
}
END_TEST

static void replay_on_rank_1(seat *s)
{
    cudaGraphExec_t graph = capture(s, 1);
    launch(s, graph);
    if (s->rank == 1)
        launch(s, graph);
    else
        sum(s, N);
}

static void launch_different_graphs(seat *s)
{
    cudaGraphExec_t first = capture(s, 1), second = capture(s, 1);
    launch(s, s->rank == 1 ? first : second);
}

/* Rank 1 is in the middle of a graph that the others begin. */
static void begin_in_the_middle(seat *s)
{
    cudaGraphExec_t one = capture(s, s->rank == 1 ? 2 : 1);
    launch(s, one);
    launch(s, one);
}

static void call_different_collectives(seat *s)
{
    if (s->rank == 1)
        sum(s, N);
    else
        gather(s, N);
}

static void sum_different_counts(seat *s)
{
    sum(s, s->rank == 1 ? N - 1 : N);
}

static const struct {
    void (*play)(seat *s);
    const char *rank_1, *others;
} faults[] = {
    {replay_on_rank_1, "rank 1 is at an all-reduce of 400000 bytes (700), in graph 1, number 1",
     "is at an all-reduce of 400000 bytes (700), in no graph"},
    {launch_different_graphs, "rank 1 is at an all-reduce of 400000 bytes (700), in graph 1, number 1",
     "is at an all-reduce of 400000 bytes (700), in graph 2, number 1"},
    {begin_in_the_middle, "rank 1 is at an all-reduce of 400000 bytes (700), in graph 1, number 2",
     "is at an all-reduce of 400000 bytes (700), in graph 1, number 1"},
    {call_different_collectives, "rank 1 is at an all-reduce of 400000 bytes (700), in no graph",
     "is at an all-gather of 400000 bytes (0), in no graph"},
    {sum_different_counts, "rank 1 is at an all-reduce of 399996 bytes (700), in no graph",
     "is at an all-reduce of 400000 bytes (700), in no graph"},
};

START_TEST(test_what_nccl_forbids_is_a_fault_on_every_rank)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        for (int ranks = 2; ranks <= RANKS; ranks++) {
            outcome o = play_all(ranks, faults[i].play);
            ck_assert_msg(o.faults == ranks, "case %zu: %d of %d ranks saw a fault: %s", i, o.faults, ranks, o.said);
            ck_assert_msg(strstr(o.said, faults[i].rank_1) && strstr(o.said, faults[i].others), "%s", o.said);
        }
    }
}
END_TEST

/* A captured message of rank 1, which rank 0 receives outside a graph. */
static void send_from_a_graph(seat *s)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    if (s->rank == 0) {
        must(s->nccl->Recv(s->x, 40, ncclUint8, 1, s->comm, s->stream) == ncclSuccess);
        return;
    }
    must(cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    must(s->nccl->Send(s->x, 40, ncclUint8, 0, s->comm, s->stream) == ncclSuccess);
    must(cudaStreamEndCapture(s->stream, &graph) == cudaSuccess);
    must(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
    launch(s, exec);
}

START_TEST(test_a_message_from_a_graph_is_received_in_one)
{
    outcome o = play_all(2, send_from_a_graph);
    ck_assert_msg(o.faults == 1 && o.well == 1, "%s", o.said);
    ck_assert_msg(strstr(o.said, "rank 1 is at a message of 40 bytes (0), in graph 1, number 0"), "%s", o.said);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_what_ranks_do_alike_comes_out_right,
                                  test_what_nccl_forbids_is_a_fault_on_every_rank,
                                  test_a_message_from_a_graph_is_received_in_one, NULL};
    return suite_run("NCCL", tests);
}
