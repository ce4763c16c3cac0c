/* process.c - starts threads, replaces an exit code, reads /proc/PID/stat. */
#include "base/process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

int lh_process_read(long pid, lh_process *out)
{
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *f = fopen(path, "re");
    const char *read = f ? fgets(line, sizeof line, f) : NULL;
    if (f) fclose(f);
    /* "PID (NAME) STATE PARENT"; the name may have parentheses */
    const char *begin = read ? strchr(line, '(') : NULL, *end = begin ? strrchr(line, ')') : NULL;
    if (!end || sscanf(end, ") %*c %ld", &out->parent) != 1) return 0;
    snprintf(out->name, sizeof out->name, "%.*s", (int)(end - begin - 1), begin + 1);
    return 1;
}

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

/* A function that runs at exit gets no argument but the code. */
static lh_status wanted;

static void replace_code(int code, void *unused)
{
    (void)unused;
    if (code != EXIT_FAILURE || wanted == LH_OK) return;
    fflush(NULL);
    _exit(wanted);
}

void lh_exit_code_for_others(lh_status code)
{
    static int begun;
    if (!begun) begun = on_exit(replace_code, NULL) == 0;
    wanted = code;
}
