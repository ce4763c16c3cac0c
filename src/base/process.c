/* process.c - reads /proc/PID/stat. */
#include "base/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Between the clock of this host and that of a file system. */
enum { CLOCKS_DIFFER_S = 60 };

/* Its state ('R', 'S', 'Z', …) and the time at which it began. 0 where the system does not say. */
static int read_process(long pid, char *state, int64_t *began_s)
{
    char path[64], text[1024];
    unsigned long long ticks = 0;
    struct timespec up = {0};
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    /* "PID (NAME) STATE", 18 numbers, and when it began; names may have brackets */
    const char *rest = strrchr(text, ')');
    if (!rest || sscanf(rest, ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
                        state, &ticks) != 2)
        return 0;
    if (clock_gettime(CLOCK_BOOTTIME, &up) != 0) return 0;
    *began_s = (int64_t)time(NULL) - (int64_t)up.tv_sec + (int64_t)(ticks / (unsigned long long)sysconf(_SC_CLK_TCK));
    return 1;
}

int lh_process_may_own(long pid, int64_t changed_s)
{
    char state = 'R';
    int64_t began_s = 0;
    if (kill((pid_t)pid, 0) != 0 && errno != EPERM) return 0;
    if (!read_process(pid, &state, &began_s)) return 1;
    return state != 'Z' && state != 'X' && changed_s >= began_s - CLOCKS_DIFFER_S;
}
