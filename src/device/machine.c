/* machine.c - free memory and processors of this machine, as the kernel reports them. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "device/cgroup.h"
#include "device/device_impl.h"
#include "device/host_cores.h"

/* The number after `key` in a file of "key number" lines, or the whole file's number when key is "". 0 when the file
 * or the key is missing or says "max". */
static int number_in(const char *folder, const char *name, const char *key, int64_t *out)
{
    char line[256];
    int found = 0;
    size_t n = strlen(key);
    FILE *f = lh_open_in(folder, name);
    if (!f) return 0;
    while (!found && fgets(line, sizeof line, f))
        found = strncmp(line, key, n) == 0 && (n == 0 || line[n] == ' ' || line[n] == ':') &&
                sscanf(line + n + (line[n] == ':'), "%" SCNd64, out) == 1;
    fclose(f);
    return found;
}

/* Names of the files and numbers of each version of cgroup. */
typedef struct group_words {
    const char *limit, *used, *inactive, *active;
} group_words;

static const group_words words_of[] = {
    [LH_CGROUP_V1] = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file"},
    [LH_CGROUP_V2] = {"memory.max", "memory.current", "inactive_file", "active_file"}};

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

static void take_left(void *self, const char *folder, lh_cgroup_version version)
{
    int64_t *left = self, here = left_in_group(folder, &words_of[version]);
    if (here < *left) *left = here;
}

int64_t lh_machine_free_bytes(const char *root)
{
    int64_t free_bytes, kib;
    if (number_in(root, "proc/meminfo", "MemAvailable", &kib))
        free_bytes = kib * 1024;
    else
        free_bytes = (int64_t)sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE);
    int64_t left = INT64_MAX;
    lh_cgroup_walk(root, "memory", take_left, &left);
    return left < free_bytes ? left : free_bytes;
}

void lh_machine_cpu_name(const char *root, char *out, int64_t cap_bytes)
{
    char line[512];
    struct utsname system;
    out[0] = '\0';
    FILE *f = lh_open_in(root, "proc/cpuinfo");
    while (f && !out[0] && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(out, (size_t)cap_bytes, "%.*s", (int)strcspn(colon, "\n"), colon);
    }
    if (f) fclose(f);
    if (!out[0] && uname(&system) == 0) snprintf(out, (size_t)cap_bytes, "%s", system.machine);
}

int lh_machine_cores(void)
{
    cpu_set_t cores;
    lh_host_cores(&cores);
    return CPU_COUNT(&cores);
}
