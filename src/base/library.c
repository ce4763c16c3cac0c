#include "base/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first file of a pattern that can be loaded. *failed: true if files match and none can be loaded. */
static void *open_match(const char *pattern, int *failed)
{
    void *handle = NULL;
    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0) return NULL;
    for (size_t i = 0; i < found.gl_pathc && !handle; i++) handle = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
    *failed = !handle && found.gl_pathc > 0;
    globfree(&found);
    return handle;
}

/* The next folder of a list that is separated by ':'; false at its end. */
static int next_folder(const char **list, char folder[PATH_MAX])
{
    while (*list && **list) {
        const size_t n = strcspn(*list, ":");
        snprintf(folder, PATH_MAX, "%.*s", (int)n, *list);
        *list += n + ((*list)[n] == ':');
        if (n > 0 && n < PATH_MAX) return 1;
    }
    return 0;
}

/* Searches the folders of an environment variable at each pattern below them; NULL ends the patterns. */
static void *open_below(const char *variable, const char *const *patterns, const char *name, int *failed)
{
    const char *list = getenv(variable);
    char folder[PATH_MAX], pattern[2 * PATH_MAX];
    void *handle = NULL;
    *failed = 0;
    while (!handle && !*failed && next_folder(&list, folder)) {
        for (const char *const *p = patterns; *p && !handle && !*failed; p++) {
            snprintf(pattern, sizeof pattern, "%s/%s%s", folder, *p, name);
            handle = open_match(pattern, failed);
        }
    }
    return handle;
}

/* In the packages of the first python on PATH, which may belong to a virtual environment. */
static void *open_beside_python(const char *name)
{
    static const char *const below[] = {"site-packages", "dist-packages"};
    const char *list = getenv("PATH");
    char folder[PATH_MAX], path[2 * PATH_MAX];
    void *handle = NULL;
    int there = 0, failed = 0;
    while (!there && next_folder(&list, folder)) {
        snprintf(path, sizeof path, "%s/python3", folder);
        there = access(path, X_OK) == 0;
    }
    for (size_t i = 0; there && i < sizeof below / sizeof *below && !handle; i++) {
        snprintf(path, sizeof path, "%s/../lib/python3*/%s/nvidia/*/lib/%s", folder, below[i], name);
        handle = open_match(path, &failed);
    }
    return handle;
}

lh_status lh_library_open(const char *name, void **out)
{
    static const char *const own[] = {"", "nvidia/*/lib/", NULL}, *const toolkit[] = {"lib64/", "lib/", NULL};
    int failed = 0, elsewhere = 0;
    *out = open_below("LONGHAUL_CUDA_LIBS", own, name, &failed);
    if (failed) LH_FAIL(LH_EUSAGE, "the %s that LONGHAUL_CUDA_LIBS has cannot be loaded: %s", name, dlerror());
    if (!*out) *out = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (!*out) *out = open_below("CUDA_HOME", toolkit, name, &elsewhere);
    if (!*out) *out = open_below("CUDA_PATH", toolkit, name, &elsewhere);
    if (!*out) *out = open_beside_python(name);
    if (!*out) *out = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!*out)
        LH_FAIL(LH_EUSAGE, "%s was not found (%s): set LONGHAUL_CUDA_LIBS to the folder that has it", name, dlerror());
    return LH_OK;
}

const char *lh_library_file(void *library)
{
    struct link_map *map = NULL;
    return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : "";
}
