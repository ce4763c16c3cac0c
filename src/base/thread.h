/* thread.h - threads of our own beside the main one. */
#ifndef LH_BASE_THREAD_H
#define LH_BASE_THREAD_H

#include <pthread.h>

/* Starts a thread that blocks all signals, as do those that it starts: they are for the main thread, which they may
 * wake. Returns 0, or the error number of pthread_create. */
int lh_thread_start(pthread_t *thread, void *(*run)(void *self), void *self);

/* 1: this process may start `count` more threads. libgomp ends the process where it cannot start one. */
int lh_thread_may_start(int count);

#endif
