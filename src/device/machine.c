/* machine.c - free memory and processors of this machine, as the kernel reports them. */
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "device/device_impl.h"

/* folder/name, opened for reading; NULL when it is missing. */
static FILE *open_in(const char *folder, const char *name)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && n < (int)sizeof path ? fopen(path, "re") : NULL;
}

/* The number after `key` in a file of "key number" lines, or the whole file's number when key is "". 0 when the file
 * or the key is missing or says "max". */
static int number_in(const char *folder, const char *name, const char *key, int64_t *out)
{
    char line[256];
    int found = 0;
    size_t n = strlen(key);
    FILE *f = open_in(folder, name);
    if (!f) return 0;
    while (!found && fgets(line, sizeof line, f))
        found = strncmp(line, key, n) == 0 && (n == 0 || line[n] == ' ' || line[n] == ':') &&
                sscanf(line + n + (line[n] == ':'), "%" SCNd64, out) == 1;
    fclose(f);
    return found;
}

/* Names of the same things in the two versions of cgroup. */
typedef struct group_words {
    const char *folder, *limit, *used, *inactive, *active;
} group_words;

static const group_words version_1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                      "total_inactive_file", "total_active_file"};
static const group_words version_2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file", "active_file"};

/* What the limit of one group leaves; INT64_MAX without one. */
static int64_t left_in_group(const char *folder, const group_words *words)
{
    int64_t limit, used, cache = 0, part;
    if (!number_in(folder, words->limit, "", &limit)) return INT64_MAX;
    if (!number_in(folder, words->used, "", &used)) return INT64_MAX;
    if (number_in(folder, "memory.stat", words->inactive, &part)) cache += part;
    if (number_in(folder, "memory.stat", words->active, &part)) cache += part;
    if (cache > used) cache = used;
    return limit - (used - cache) > 0 ? limit - (used - cache) : 0;
}

/* The least that is left in the group at `below` and its parents. Inside a container the path is often the host's and
 * missing here: the mount point itself is the container's group then, so it is asked in any case. */
static int64_t left_in_groups(const char *root, const group_words *words, char *below)
{
    int64_t left = INT64_MAX;
    for (;;) {
        char folder[PATH_MAX];
        int n = snprintf(folder, sizeof folder, "%s%s%s", root, words->folder, below);
        int64_t here = n < (int)sizeof folder ? left_in_group(folder, words) : INT64_MAX;
        if (here < left) left = here;
        char *slash = strrchr(below, '/');
        if (!slash) return left;
        *slash = '\0';
    }
}

/* 1 when `list`, as "cpu,memory", has the word `memory`. */
static int lists_memory(const char *list)
{
    for (const char *at = list; (at = strstr(at, "memory")) != NULL; at += 6)
        if ((at == list || at[-1] == ',') && (at[6] == '\0' || at[6] == ',')) return 1;
    return 0;
}

static int64_t left_in_cgroup(const char *root)
{
    char line[PATH_MAX];
    int64_t left = INT64_MAX;
    FILE *f = open_in(root, "proc/self/cgroup");
    if (!f) return left;
    while (fgets(line, sizeof line, f)) { /* number:controllers:path */
        line[strcspn(line, "\n")] = '\0';
        char *list = strchr(line, ':');
        char *path = list ? strchr(list + 1, ':') : NULL;
        if (!path) continue;
        list++;
        *path++ = '\0';
        if (*list && !lists_memory(list)) continue;
        int64_t here = left_in_groups(root, *list ? &version_1 : &version_2, path);
        if (here < left) left = here;
    }
    fclose(f);
    return left;
}

int64_t lh_machine_free_bytes(const char *root)
{
    int64_t free_bytes, kib;
    if (number_in(root, "proc/meminfo", "MemAvailable", &kib))
        free_bytes = kib * 1024;
    else
        free_bytes = (int64_t)sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE);
    int64_t left = left_in_cgroup(root);
    return left < free_bytes ? left : free_bytes;
}

void lh_machine_cpu_name(const char *root, char *out, int64_t cap_bytes)
{
    char line[512];
    struct utsname system;
    out[0] = '\0';
    FILE *f = open_in(root, "proc/cpuinfo");
    while (f && !out[0] && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(out, (size_t)cap_bytes, "%.*s", (int)strcspn(colon, "\n"), colon);
    }
    if (f) fclose(f);
    if (!out[0] && uname(&system) == 0) snprintf(out, (size_t)cap_bytes, "%s", system.machine);
}

int lh_machine_threads(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}
