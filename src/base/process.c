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

int lh_process_read(long pid, lh_process *out)
{
    char path[64], line[1024];
    unsigned long long ticks = 0;
    struct timespec up = {0};
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *f = fopen(path, "re");
    const char *read = f ? fgets(line, sizeof line, f) : NULL;
    if (f) fclose(f);
    /* "PID (NAME) STATE PARENT", 17 numbers, and when it began; the name may have parentheses */
    const char *begin = read ? strchr(line, '(') : NULL, *end = begin ? strrchr(line, ')') : NULL;
    if (!end || sscanf(end, ") %c %ld %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
                       &out->state, &out->parent, &ticks) != 3)
        return 0;
    if (clock_gettime(CLOCK_BOOTTIME, &up) != 0) return 0;
    snprintf(out->name, sizeof out->name, "%.*s", (int)(end - begin - 1), begin + 1);
    out->began_s =
        (int64_t)time(NULL) - (int64_t)up.tv_sec + (int64_t)(ticks / (unsigned long long)sysconf(_SC_CLK_TCK));
    return 1;
}

int lh_process_may_own(long pid, int64_t changed_s)
{
    lh_process p;
    if (kill((pid_t)pid, 0) != 0 && errno != EPERM) return 0;
    if (!lh_process_read(pid, &p)) return 1;
    return p.state != 'Z' && p.state != 'X' && changed_s >= p.began_s - CLOCKS_DIFFER_S;
}
