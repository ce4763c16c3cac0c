/* process.h - threads and the exit code of this process, and the names of other processes of this host. */
#ifndef LH_BASE_PROCESS_H
#define LH_BASE_PROCESS_H

#include <pthread.h>

#include "base/status.h"

/* Start a thread that blocks all signals, as do the threads that it starts: signals are for the main thread, which they
 * may wake. Returns 0, or the error number of pthread_create. */
int lh_thread_start(pthread_t *thread, void *(*run)(void *self), void *self);

/* True if this process may start `count` more threads. libgomp ends the process where it cannot start one. */
int lh_thread_may_start(int count);

/* From now on an exit(1) ends the process with `code` instead (LH_OK: with 1). libgomp, which cannot start a thread,
 * calls exit(1), and our exit code 1 says that the output is complete. Call it on one thread. */
void lh_exit_code_for_others(lh_status code);

typedef struct lh_process {
    char name[64];
    long parent;
} lh_process;

/* False if no process has that number, or the system does not report it. */
int lh_process_read(long pid, lh_process *out);

#endif
