/* destination.c - follows the symbolic links of an output, and opens the outputs that are streams. A rename over
 * /dev/stdout would replace the system's link by a file, for every program of the machine. */
#include "base/destination.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

enum { LINKS_MAX = 40 };

static int is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static lh_status is_system_name(int *out, const char *path)
{
    lh_status st = LH_OK;
    char *folder = NULL, real[PATH_MAX];
    *out = 0;
    LH_TRY_DONE(lh_path_folder(&folder, path));
    if (realpath(folder, real)) /* else: creating the file reports why */
        *out = is_below(real, "/proc") || (is_below(real, "/dev") && !is_below(real, "/dev/shm"));
done:
    lh_free(folder);
    return st;
}

/* Replaces *at by the target of its link. */
static lh_status follow(char **at, const char *target)
{
    lh_status st = LH_OK;
    char *folder = NULL, *next = NULL;
    LH_TRY_DONE(lh_path_folder(&folder, *at));
    if (*target == '/')
        LH_TRY_DONE(lh_strdup(&next, target));
    else
        LH_TRY_DONE(lh_asprintf(&next, "%s/%s", folder, target));
    lh_free(*at);
    *at = next;
done:
    lh_free(folder);
    return st;
}

lh_status lh_destination_find(char **out, int *stream, const char *path)
{
    lh_status st = LH_OK;
    char *at = NULL, target[PATH_MAX];
    *stream = strcmp(path, "-") == 0;
    LH_TRY_DONE(lh_strdup(&at, path));
    for (int links = 0; !*stream; links++) {
        LH_TRY_DONE(is_system_name(stream, at));
        ssize_t n = *stream ? -1 : readlink(at, target, sizeof target - 1);
        if (n < 0) break; /* not a link */
        if (links == LINKS_MAX) LH_FAIL_DONE(LH_EWRITE, "cannot write '%s': its symbolic links form a loop", path);
        target[n] = '\0';
        LH_TRY_DONE(follow(&at, target));
    }
    *out = at;
    at = NULL;
done:
    lh_free(at);
    return st;
}

/* The descriptor of standard output or error if `path` names the file that it is open on, else -1: a file of the
 * shell's redirection, opened again by name, would be written from its beginning. */
static int standard_stream(const char *path)
{
    struct stat info, standard;
    if (strcmp(path, "-") == 0) return 1;
    for (int fd = 1; fd <= 2; fd++)
        if (stat(path, &info) == 0 && fstat(fd, &standard) == 0 && info.st_dev == standard.st_dev &&
            info.st_ino == standard.st_ino)
            return fd;
    return -1;
}

lh_status lh_destination_open(int *fd, const char *path)
{
    lh_status st = LH_OK;
    char *name = NULL;
    int stream = 0;
    *fd = -1;
    LH_TRY_DONE(lh_destination_find(&name, &stream, path));
    if (!stream) goto done;
    int standard = standard_stream(name);
    *fd = standard >= 0 ? fcntl(standard, F_DUPFD_CLOEXEC, 3) : open(name, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);
    if (*fd < 0) LH_FAIL_DONE(LH_EWRITE, "cannot write '%s': %s", path, strerror(errno));
done:
    lh_free(name);
    return st;
}
