/* process.c - reads /proc/PID/stat. */
#include "base/process.h"

#include <stdio.h>
#include <string.h>

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
