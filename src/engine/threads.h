/* threads.h - the OpenMP threads of a rank: how many there are, and how they wait. Every command that computes opens
 * them, by its engine or by itself.
 *
 * The default number divides the cores of a host, and the CPU quota of a container, among the ranks. What counts is the
 * team that a parallel region really has: OpenMP may give fewer threads than asked for (OMP_THREAD_LIMIT, OMP_DYNAMIC,
 * a call from another parallel region), and oneDNN, which divides its products by omp_get_max_threads(), leaves out the
 * parts of missing threads. So the team is counted, and its size set. */
#ifndef LH_ENGINE_THREADS_H
#define LH_ENGINE_THREADS_H

#include "comm/comm.h"

typedef struct lh_threads lh_threads;

/* Collective over `world`, the ranks of a run. For the calling thread: wanted threads, or, if that is 0, the default
 * number. One warning, of rank 0, names a rank with a smaller team, and why. */
lh_status lh_threads_open(lh_threads **out, lh_comm *world, int64_t wanted);

/* The same for a process that computes without ranks. */
lh_status lh_threads_open_alone(lh_threads **out, int64_t wanted);
void lh_threads_close(lh_threads *threads); /* NULL is fine */

/* Makes the calling thread the owner of the threads, which may be another one than before, or inside a parallel
 * region. Not collective; cheap where nothing has changed. */
lh_status lh_threads_enter(lh_threads *threads);

int64_t lh_threads_count(const lh_threads *threads);

/* Source of the number, such as "2 cores" or "OMP_NUM_THREADS=1". */
const char *lh_threads_source(const lh_threads *threads);

/* Warns if the launcher has bound this rank to fewer cores than its threads need, and leaves the other cores idle. For
 * ranks that compute on the host. */
void lh_threads_check_binding(const lh_threads *threads);

/* Limits of a rank's threads. */
typedef struct lh_thread_limits {
    double cores;     /* the sum over its cores of 1 / (ranks of this host that may run on the core) */
    double quota;     /* its part of the CPU quota in cores; 0: there is none */
    const char *asks; /* the value of OMP_NUM_THREADS, or NULL */
} lh_thread_limits;

/* The default number of threads, at least 1, and its source. */
enum { LH_THREADS_SOURCE = 128 };
int64_t lh_threads_default(const lh_thread_limits *limits, char source[LH_THREADS_SOURCE]);

#endif
