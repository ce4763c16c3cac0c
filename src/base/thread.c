#include "base/thread.h"

#include <signal.h>

int lh_thread_start(pthread_t *thread, void *(*run)(void *self), void *self)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(thread, NULL, run, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}
