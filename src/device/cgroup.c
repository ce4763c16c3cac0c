/* cgroup.c - finds the control groups of this process in /proc/self/cgroup, and reads CPU quotas. */
#include "device/cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

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
        if (!*list) { /* version 2, alone or beside version 1 */
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

/* Up to two numbers of the first line of a file; the count of those found. */
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
    double us[2] = {0, 100000},
           period[2] = {0}; /* the quota and the period that it is for, with the kernel's default */
    if (version == LH_CGROUP_V2) {
        if (numbers_in(folder, "cpu.max", us) == 0) return; /* also where it begins with "max" */
    } else {
        if (numbers_in(folder, "cpu.cfs_quota_us", us) == 0) return;
        us[1] = numbers_in(folder, "cpu.cfs_period_us", period) ? period[0] : 100000;
    }
    if (!(us[0] > 0 && us[1] > 0)) return; /* -1: none */
    if (least->cores > 0 && least->cores <= us[0] / us[1]) return;
    if (stat(folder, &group) != 0) return;
    *least = (lh_cpu_quota){us[0] / us[1], (uint64_t)group.st_dev, (uint64_t)group.st_ino};
}

void lh_cpu_quota_find(const char *root, lh_cpu_quota *out)
{
    *out = (lh_cpu_quota){0};
    lh_cgroup_walk(root, "cpu", take_quota, out);
}
