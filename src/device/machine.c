/* machine.c - free memory, processors and control groups of this machine, as the kernel reports them. */
#include "device/machine.h"

#include <inttypes.h>
#include <limits.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "device/device_impl.h"

FILE *lh_open_in(const char *folder, const char *name)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && n < (int)sizeof path ? fopen(path, "re") : NULL;
}

/* ---- the groups of this process ---- */

/* The mount point of a hierarchy and the path of this process's group below it. */
typedef struct hierarchy {
    const char *root, *mount, *below;
    lh_cgroup_version version;
} hierarchy;

/* The group at h->below and its parents. Inside a container the path is often the host's and missing here: the mount
 * point itself is the container's group then, so it is visited in any case. */
static void visit_parents(const hierarchy *h, lh_cgroup_visit *visit, void *self)
{
    size_t bytes = strlen(h->below);
    for (;;) {
        char folder[PATH_MAX];
        int n = snprintf(folder, sizeof folder, "%s/sys/fs/cgroup%s%.*s", h->root, h->mount, (int)bytes, h->below);
        if (n < (int)sizeof folder) visit(self, folder, h->version);
        while (bytes && h->below[bytes - 1] != '/') bytes--;
        if (!bytes) return;
        bytes--;
    }
}

/* 1 when `list`, such as "cpu,memory", has the word. */
static int lists(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += n)
        if ((at == list || at[-1] == ',') && (at[n] == '\0' || at[n] == ',')) return 1;
    return 0;
}

void lh_cgroup_walk(const char *root, const char *controller, lh_cgroup_visit *visit, void *self)
{
    char line[PATH_MAX], mount[128];
    FILE *f = lh_open_in(root, "proc/self/cgroup");
    if (!f) return;
    while (fgets(line, sizeof line, f)) { /* number:controllers:path */
        line[strcspn(line, "\n")] = '\0';
        char *list = strchr(line, ':');
        char *path = list ? strchr(list + 1, ':') : NULL;
        if (!path) continue;
        list++;
        *path++ = '\0';
        if (!*list) { /* version 2, with or without version 1 */
            visit_parents(&(hierarchy){root, "", path, LH_CGROUP_V2}, visit, self);
            visit_parents(&(hierarchy){root, "/unified", path, LH_CGROUP_V2}, visit, self);
        } else if (lists(list, controller)) { /* mounted under one name or all of them */
            snprintf(mount, sizeof mount, "/%s", controller);
            visit_parents(&(hierarchy){root, mount, path, LH_CGROUP_V1}, visit, self);
            snprintf(mount, sizeof mount, "/%s", list);
            visit_parents(&(hierarchy){root, mount, path, LH_CGROUP_V1}, visit, self);
        }
    }
    fclose(f);
}

/* ---- CPU quotas ---- */

/* Reads up to two numbers of the first line of a file; returns their count. */
static int numbers_in(const char *folder, const char *name, double out[2])
{
    FILE *f = lh_open_in(folder, name);
    if (!f) return 0;
    int n = fscanf(f, "%lf %lf", &out[0], &out[1]);
    fclose(f);
    return n > 0 ? n : 0;
}

static void take_quota(void *self, const char *folder, lh_cgroup_version version)
{
    lh_cpu_quota *least = self;
    struct stat group;
    double us[2] = {0, 100000}, period[2] = {0}; /* the quota and its period, with the kernel's default */
    if (version == LH_CGROUP_V2) {
        if (numbers_in(folder, "cpu.max", us) == 0) return; /* also if it begins with "max" */
    } else {
        if (numbers_in(folder, "cpu.cfs_quota_us", us) == 0) return;
        us[1] = numbers_in(folder, "cpu.cfs_period_us", period) ? period[0] : 100000;
    }
    if (!(us[0] > 0 && us[1] > 0)) return; /* -1: no quota */
    if (least->cores > 0 && least->cores <= us[0] / us[1]) return;
    if (stat(folder, &group) != 0) return;
    *least = (lh_cpu_quota){us[0] / us[1], (uint64_t)group.st_dev, (uint64_t)group.st_ino};
}

void lh_cpu_quota_find(const char *root, lh_cpu_quota *out)
{
    *out = (lh_cpu_quota){0};
    lh_cgroup_walk(root, "cpu", take_quota, out);
}

/* ---- the cores of the calling thread, and the cores of OpenMP's places ---- */
void lh_host_cores(cpu_set_t *cores)
{
    int ids[CPU_SETSIZE];
    CPU_ZERO(cores);
    if (sched_getaffinity(0, sizeof *cores, cores) != 0) CPU_SET(0, cores);
    for (int p = 0; p < omp_get_num_places(); p++) {
        const int n = omp_get_place_num_procs(p);
        if (n > CPU_SETSIZE) continue;
        omp_get_place_proc_ids(p, ids);
        for (int i = 0; i < n; i++)
            if (ids[i] >= 0 && ids[i] < CPU_SETSIZE) CPU_SET(ids[i], cores);
    }
}

/* ---- memory and processors ---- */
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

/* Names of the files and fields of each version of cgroup. */
typedef struct group_words {
    const char *limit, *used, *inactive, *active;
} group_words;

static const group_words words_of[] = {
    [LH_CGROUP_V1] = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file"},
    [LH_CGROUP_V2] = {"memory.max", "memory.current", "inactive_file", "active_file"}};

/* Bytes below the limit of one group; INT64_MAX without a limit. */
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
