/* temporary.h - files and folders of tests under names that carry the id of the test program's first process, which
 * removes those that are left when it ends, whether its tests passed, failed or crashed. */
#ifndef LH_TESTS_BASE_TEMPORARY_H
#define LH_TESTS_BASE_TEMPORARY_H

#include <fts.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The id; processes that the first one starts inherit it. */
#define TEMPORARY_OWNER "LONGHAUL_TEST_OWNER"

/* Where files in memory are, whose syncing takes no time. */
#define TEMPORARY_MEMORY "/dev/shm"

enum { TEMPORARY_BYTES = 64 };

/* A template in `place` for mkdtemp or mkstemp; place: "/tmp" or TEMPORARY_MEMORY, or "/tmp" if that is not writable.
 * Returns `out`. */
static inline char *temporary_name(char out[TEMPORARY_BYTES], const char *place)
{
    const char *owner = getenv(TEMPORARY_OWNER);
    snprintf(out, TEMPORARY_BYTES, "%s/longhaul-test-%s-XXXXXX", access(place, W_OK) == 0 ? place : "/tmp",
             owner ? owner : "");
    return out;
}

/* Removes a file, or a folder with all that is in it. */
static inline void temporary_remove(char *path)
{
    char *roots[] = {path, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    for (FTSENT *e; tree && (e = fts_read(tree));)
        if (e->fts_info != FTS_D) remove(e->fts_path);
    if (tree) fts_close(tree);
}

/* At the end of a process; its forks, such as those in which Check runs tests, have another id. */
static inline void temporary_sweep(void)
{
    static const char *const places[] = {"/tmp", TEMPORARY_MEMORY};
    const char *owner = getenv(TEMPORARY_OWNER);
    if (!owner || strtol(owner, NULL, 10) != (long)getpid()) return;
    for (int i = 0; i < 2; i++) {
        char pattern[TEMPORARY_BYTES];
        glob_t found;
        snprintf(pattern, sizeof pattern, "%s/longhaul-test-%s-*", places[i], owner);
        if (glob(pattern, 0, NULL, &found) != 0) continue;
        for (size_t k = 0; k < found.gl_pathc; k++) temporary_remove(found.gl_pathv[k]);
        globfree(&found);
    }
}

/* Before main, once for each program: whichever of its files comes first. */
__attribute__((constructor)) static inline void temporary_own(void)
{
    char id[16];
    if (getenv(TEMPORARY_OWNER)) return;
    snprintf(id, sizeof id, "%ld", (long)getpid());
    setenv(TEMPORARY_OWNER, id, 1);
    atexit(temporary_sweep);
}

#endif
