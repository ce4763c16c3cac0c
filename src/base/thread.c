#include "base/thread.h"

#include <signal.h>

#include "base/mem.h"

int lh_thread_start(pthread_t *thread, void *(*run)(void *self), void *self)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(thread, NULL, run, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static void *wait_for_release(void *arg)
{
    pthread_mutex_t *held = arg;
    pthread_mutex_lock(held);
    pthread_mutex_unlock(held);
    return NULL;
}

int lh_thread_may_start(int count)
{
    pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
    pthread_t *threads = NULL;
    int started = 0;
    if (lh_calloc(&threads, count, sizeof *threads) != LH_OK) {
        lh_error_clear();
        return 0;
    }
    pthread_mutex_lock(&held);
    while (started < count && pthread_create(&threads[started], NULL, wait_for_release, &held) == 0) started++;
    pthread_mutex_unlock(&held);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&held);
    lh_free(threads);
    return started == count;
}
